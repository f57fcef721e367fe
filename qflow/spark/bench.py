"""``qflow spark bench``: how fast the audit is, as ratios of one run on one machine."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from qflow.spark.audit import audit, audit_batches
from qflow.spark.layout import read_lake
from qflow.spark.memory import result_hash
from qflow.spark.session import session, stop
from qflow.spark.synth import synthetic_fleet, write_fleet

QUEUES, EVENTS = 16, 640_000
ROUNDS = 3


def run_bench(queues: int = QUEUES, events: int = EVENTS, rounds: int = ROUNDS) -> dict[str, Any]:
    """Measure the audit of a synthetic lake: plain, with one core, with two.

    The best of some rounds counts, in turn, so that other work on the machine disturbs all alike; a first
    round of each warms up and is not counted.

    Parameters
    ----------
    queues, events : int
        Size of the lake.
    rounds : int
        How many are counted.

    Returns
    -------
    dict
        Seconds, events a second, and the two ratios: ``spark_to_plain`` (with one core) and ``two_to_one``.
    """
    with tempfile.TemporaryDirectory(prefix="qflow-bench-") as scratch:
        folder = Path(scratch, "lake")
        write_fleet(synthetic_fleet(session("local[2]"), queues, events), folder)
        best: dict[str, float] = {}
        hashes = set()
        plain_first, plain = _plain(folder)
        hashes.add(result_hash(plain))
        for cores in ("1", "2"):
            stop()
            frame = audit(read_lake(session(f"local[{cores}]"), folder))
            hashes.add(result_hash(frame.collect()))
            for _ in range(rounds):
                _keep_best(best, "plain", _plain(folder)[0])
                _keep_best(best, cores, _timed(frame))
        stop()
    seconds = {"plain": min(best["plain"], plain_first), "spark_1": best["1"], "spark_2": best["2"]}
    return {
        "events": events,
        "components": queues,
        "seconds": seconds,
        "events_per_second": {name: round(events / value) for name, value in seconds.items()},
        "spark_to_plain": seconds["plain"] / seconds["spark_1"],
        "two_to_one": seconds["spark_1"] / seconds["spark_2"],
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


def _plain(folder: Path) -> tuple[float, list[tuple[Any, ...]]]:
    start = time.perf_counter()
    results = []
    for batch in audit_batches(_batches(folder)):
        results += list(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    return time.perf_counter() - start, results


def _batches(folder: Path) -> Iterator[Any]:
    from pyarrow import parquet

    for path in sorted(folder.rglob("*.parquet")):
        with parquet.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=10_000)


def _timed(frame: Any) -> float:
    start = time.perf_counter()
    frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - start


def _keep_best(best: dict[str, float], name: str, seconds: float) -> None:
    best[name] = min(seconds, best.get(name, seconds))
