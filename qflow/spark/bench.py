"""``qflow spark bench``: how fast the audit is, as ratios of one run on one machine."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from qflow.spark.audit import audit_batches, audit_files
from qflow.spark.lake_file import read_lake_file
from qflow.spark.layout import lake_files
from qflow.spark.memory import result_hash
from qflow.spark.session import session, stop
from qflow.spark.synth import write_fleet

QUEUES, EVENTS = 16, 1_600_000
ROUNDS = 3


def run_bench(queues: int = QUEUES, events: int = EVENTS, rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure the audit of a synthetic lake: plain, with one core, with two.

    The three take turns, so that other work on the machine disturbs all alike, and the best of some rounds
    counts.  All read the same files and make the same results; what Spark needs to start its session and its
    workers is not measured, what it needs for each file is.

    Parameters
    ----------
    queues, events : int
        Size of the lake.
    rounds : int
        How many rounds.

    Returns
    -------
    dict
        Seconds, events a second, and the two ratios: ``spark_to_plain`` (with one core) and ``two_to_one``.
    """
    with tempfile.TemporaryDirectory(prefix="qflow-bench-") as scratch:
        folder = Path(scratch, "lake")
        stop()
        spark = session("local[2]")
        write_fleet(spark, queues, events, folder)
        files = lake_files(spark, folder)
        best: dict[str, float] = {}
        hashes: set[str] = set()
        for _ in range(rounds):
            for way in ("plain", "1", "2"):
                seconds, results = _plain(files) if way == "plain" else _on_spark(files, way)
                best[way] = min(seconds, best.get(way, seconds))
                hashes.add(result_hash(results))
        stop()
    seconds_of = {"plain": best["plain"], "spark_1": best["1"], "spark_2": best["2"]}
    return {
        "events": events,
        "components": queues,
        "seconds": seconds_of,
        "events_per_second": {name: round(events / value) for name, value in seconds_of.items()},
        "spark_to_plain": best["plain"] / best["1"],
        "two_to_one": best["1"] / best["2"],
        "same_results": len(hashes) == 1,
    }


def report_text(report: dict[str, Any]) -> str:
    """Say it in three lines."""
    rates = report["events_per_second"]
    return (
        f"{report['events']} events of {report['components']} components; the same results in all ways: "
        f"{'yes' if report['same_results'] else 'NO'}\n"
        f"Spark with one core reaches {report['spark_to_plain']:.0%} of the plain engine's rate "
        f"({rates['spark_1']} of {rates['plain']} events a second)\n"
        f"two cores give {report['two_to_one']:.2f} times one ({rates['spark_2']} events a second)"
    )


def _plain(files: Sequence[str]) -> tuple[float, list[tuple[Any, ...]]]:
    start = time.perf_counter()
    batches = list(audit_batches(chain.from_iterable(map(read_lake_file, files))))
    seconds = time.perf_counter() - start
    return seconds, [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def _on_spark(files: Sequence[str], cores: str) -> tuple[float, list[Any]]:
    """Measure from the request to the results on the driver, in a session that is warm."""
    stop()
    spark = session(f"local[{cores}]")
    # One small file for each core: workers have started, and have imported what they need.
    audit_files(spark, files[-int(cores) :]).toArrow()
    frame = audit_files(spark, files)
    start = time.perf_counter()
    table = frame.toArrow()
    return time.perf_counter() - start, [tuple(row.values()) for row in table.to_pylist()]
