"""How fast the audit is on Spark, as ratios of one run on one machine."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from qflow.logs.components import result_hash
from qflow.spark.lake import lake_files, read_lake_file
from qflow.spark.lake_audit import audit_batches, audit_files
from qflow.spark.spark_session import session, stop
from qflow.spark.synth import write_fleet

QUEUES, EVENTS = 24, 1_200_000
ROUNDS = 3
WAYS = {"plain": "the plain engine", "1": "Spark with one core", "2": "Spark with two cores"}


def show(what: str) -> None:
    """Say on standard error what is being done."""
    print(what, file=sys.stderr, flush=True)


def run_bench(queues: int = QUEUES, events: int = EVENTS, rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure the audit of a synthetic lake: plain, with one core, with two.

    The three take turns, so that other work on the machine disturbs all alike, and the best of some rounds
    counts. All read the same files and make the same results; what Spark needs to start its session and its
    workers is not measured, what it needs for each file is.

    Returns
    -------
    dict
        Seconds, events a second, and the two ratios: ``spark_to_plain`` (with one core) and ``two_to_one``.
    """
    with tempfile.TemporaryDirectory(prefix="qflow-bench-") as scratch:
        folder = Path(scratch, "lake")
        stop()
        show("making a fleet")
        spark = session("local[2]")
        write_fleet(spark, queues, events, folder)
        files = lake_files(spark, folder)
        best: dict[str, float] = {}
        hashes: set[str] = set()
        for number in range(1, rounds + 1):
            for way in WAYS:
                show(f"round {number} of {rounds}: {WAYS[way]}")
                measure = _Plain(files) if way == "plain" else _OnSpark(files, way)
                if number == 1:
                    hashes.add(result_hash(measure.results()))
                seconds = measure.seconds()
                best[way] = min(seconds, best.get(way, seconds))
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


class _Plain:
    """The audit as a loop in this process."""

    def __init__(self, files: Sequence[str]) -> None:
        self._files = files

    def results(self) -> list[Any]:
        return [tuple(row.values()) for batch in self._batches() for row in batch.to_pylist()]

    def seconds(self) -> float:
        start = time.perf_counter()
        deque(self._batches(), maxlen=0)
        return time.perf_counter() - start

    def _batches(self) -> Iterator[Any]:
        return audit_batches(chain.from_iterable(map(read_lake_file, self._files)))


class _OnSpark:
    """The same on Spark, in a session of its own."""

    def __init__(self, files: Sequence[str], cores: str) -> None:
        stop()
        spark = session(f"local[{cores}]")
        # One small file for each core: workers have started, and have imported what they need.
        _take(audit_files(spark, files[-int(cores) :]))
        self._frame = audit_files(spark, files)

    def results(self) -> list[Any]:
        return list(self._frame.collect())

    def seconds(self) -> float:
        start = time.perf_counter()
        _take(self._frame)
        return time.perf_counter() - start


def _take(frame: Any) -> None:
    """Make all rows of a frame, and keep none, as the plain loop does."""
    frame.write.format("noop").mode("overwrite").save()
