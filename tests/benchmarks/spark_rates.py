"""How fast Spark is beside a plain loop, as ratios of one run on one machine: the audit, and a sweep.

Plain is a loop over the same rows in this process. What it does and what Spark does take turns, after all has
been done once: the start of Java, of the session and of the workers is not measured, what each job costs is.
Two ratios are given for each. By the clock, on a machine that does nothing else; and by CPU time of this
process, of Java and of all workers together, which other work on the machine disturbs little.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import psutil  # type: ignore[import-untyped]
from pyarrow import parquet

from qflow.kit import form, kit_path
from qflow.logs.client_log import ClientLog
from qflow.logs.components import lake_of, result_hash
from qflow.spark.lake import pack, read_lake
from qflow.spark.lake_audit import _audit_batches, audit
from qflow.spark.spark_session import session, stop
from qflow.spark.sweep import FleetSettings, _measure_component, sweep, whole_components
from qflow.spark.synth import _load_recorded_fleet, write_fleet
from qflow.spark.tables import LAKE, write_rows
from qflow.workload.agenda import SECOND

QUEUES, EVENTS = 8, 480_000
SETTINGS, SWEPT = 20, 6
"""A sweep is of the first seconds of the recorded fleet."""
ROUNDS = 2


class Cost(NamedTuple):
    """Seconds by the clock, and of CPU time."""

    seconds: float
    cpu: float


def show(what: str) -> None:
    """Say on standard error what is being done."""
    print(what, file=sys.stderr, flush=True)


def run_bench(
    queues: int = QUEUES, events: int = EVENTS, settings: int = SETTINGS, rounds: int = ROUNDS
) -> dict[str, Any]:
    """Measure the audit of a synthetic lake, and a sweep of the recorded fleet: plain, and on Spark.

    The best of some rounds counts.

    Returns:
        Of ``audit`` and ``sweep``: ``plain``, ``spark_1`` and, of the audit, ``spark_2`` (cores) with their
        ``seconds`` and ``cpu`` seconds, and whether all gave the ``same_results``.
    """
    with tempfile.TemporaryDirectory(prefix="qflow-bench-") as scratch:
        stop()
        show("making a fleet")
        synthetic, recorded = Path(scratch, "synthetic"), Path(scratch, "recorded")
        spark = session("local[2]")
        write_fleet(spark, queues, events, synthetic)
        components = _lay_out(recorded)
        files = _files(synthetic)
        audits = _turns("audit", rounds, _on_spark(2, synthetic))
        stop()
        audits |= _turns("audit", rounds, {"plain": lambda: _audit(files), **_on_spark(1, synthetic)})
        grid = [
            FleetSettings(f"x{n}", {"*": {"qpid.flow_stop_count": f"x{0.5 + n / settings}"}})
            for n in range(settings)
        ]
        _sweeps(recorded, grid[:1], scratch)
        sweeps, are_same = _sweeps(recorded, grid, scratch)
        spark = session()
        hashes = {
            result_hash(_rows(_audited(files))),
            result_hash(audit(read_lake(spark, synthetic)).collect()),
        }
        stop()
    return {
        "form": form(),
        "audit": {
            "events": events,
            "components": queues,
            **{way: cost._asdict() for way, cost in audits.items()},
            "same_results": len(hashes) == 1,
        },
        "sweep": {
            "components": components,
            "settings": settings,
            **{way: cost._asdict() for way, cost in sweeps.items()},
            "same_results": are_same,
        },
    }


def report_text(report: dict[str, Any]) -> str:
    """Say it in a few lines."""
    audit, swept = report["audit"], report["sweep"]
    plain, one, two = (audit[way] for way in ("plain", "spark_1", "spark_2"))
    rates = {way: round(audit["events"] / audit[way]["seconds"]) for way in ("plain", "spark_1", "spark_2")}
    alone, on_spark = swept["plain"], swept["spark_1"]
    return (
        f"{report['form']} form, after all has been done once; the same results in all ways: "
        f"{'yes' if audit['same_results'] and swept['same_results'] else 'NO'}\n"
        f"audit, {audit['events']} events of {audit['components']} components: Spark with one core reaches "
        f"{plain['seconds'] / one['seconds']:.0%} of the plain engine's rate by the clock "
        f"({rates['spark_1']} of {rates['plain']} events a second), {plain['cpu'] / one['cpu']:.0%} by "
        f"CPU time ({one['cpu']:.2f} s for {plain['cpu']:.2f})\n"
        f"two cores give {one['seconds'] / two['seconds']:.2f} times one ({rates['spark_2']} events a "
        f"second; {plain['seconds'] / two['seconds'] / 2:.0%} of the plain engine's rate a core, "
        f"{plain['cpu'] / two['cpu']:.0%} by CPU time)\n"
        f"sweep, {swept['components']} components under {swept['settings']} settings: Spark with one core "
        f"takes {on_spark['seconds'] / alone['seconds']:.2f} times the plain loop by the clock "
        f"({on_spark['seconds']:.1f} s for {alone['seconds']:.1f}), {on_spark['cpu'] / alone['cpu']:.2f} "
        f"times by CPU time"
    )


def _turns(
    what: str, rounds: int, ways: dict[str, Callable[[], object]], unmeasured: int = 1
) -> dict[str, Cost]:
    """Return the least of some rounds for each way, after some that do not count."""
    best: dict[str, Cost] = {}
    for number in range(1 - unmeasured, rounds + 1):
        for way, work in ways.items():
            show(
                f"{what}, {way.replace('_', ', cores: ')}: "
                + (f"{number} of {rounds}" if number else "once before")
            )
            cost = _cost(work)
            if number:
                before = best.get(way, cost)
                best[way] = Cost(min(cost.seconds, before.seconds), min(cost.cpu, before.cpu))
    return best


def _cost(work: Callable[[], object]) -> Cost:
    before, start = _cpu_times(), time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    # A worker that had nothing to do for a minute may have ended: it takes no time of its own away.
    return Cost(seconds, sum(now - before.get(one, 0.0) for one, now in _cpu_times().items()))


def _cpu_times() -> dict[int, float]:
    """Return the CPU seconds of this process and of all that it has started, by their number."""
    this = psutil.Process()
    found: dict[int, float] = {}
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            found[process.pid] = times.user + times.system
    return found


def _files(lake: Path) -> list[Path]:
    return sorted(lake.rglob("*.parquet"))


def _read(file: Path) -> Iterator[Any]:
    yield from parquet.ParquetFile(file).iter_batches(columns=list(LAKE.names))


def _audited(files: Sequence[Path]) -> Iterator[Any]:
    return _audit_batches(chain.from_iterable(map(_read, files)))


def _audit(files: Sequence[Path]) -> None:
    deque(_audited(files), maxlen=0)


def _rows(batches: Iterator[Any]) -> list[Any]:
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def _on_spark(cores: int, lake: Path) -> dict[str, Callable[[], object]]:
    spark = session(f"local[{cores}]")
    # All rows are made, and none is kept, as in the plain loop.
    frame = audit(read_lake(spark, lake))
    return {f"spark_{cores}": lambda: frame.write.format("noop").mode("overwrite").save()}


def _lay_out(folder: Path) -> int:
    """Write a lake of the first seconds of the recorded fleet, and return how many components it has."""
    workload = _load_recorded_fleet().replace(duration=SWEPT)
    log = ClientLog.load(kit_path("data") / "recordings" / "workloads" / "fleet.parquet")
    lake = lake_of("fleet", workload, [row for row in log.rows if row.ts_us < SWEPT * SECOND])
    packed = pack({component: len(rows) for component, rows in lake.items()}, QUEUES)
    folder.mkdir()
    for number in range(QUEUES):
        own = [name for name in sorted(packed) if packed[name] == number]
        rows = ((component, *row) for component in own for row in lake[component])
        write_rows(folder / f"{number}.parquet", rows)
    return len(lake)


def _sweeps(lake: Path, grid: Sequence[FleetSettings], scratch: str) -> tuple[dict[str, Cost], bool]:
    """Measure sweeps on the session that there is, and return whether they measured the same as the loop."""
    spark = session()
    files = _files(lake)
    found: dict[str, set[Any]] = {}

    def plain() -> None:
        batches = chain.from_iterable(map(_read, files))
        found["plain"] = {
            row
            for component, rows in whole_components(batches)
            for measures in _measure_component(component, rows, grid)
            for row in measures
        }

    def on_spark() -> None:
        folder = Path(scratch, f"sweep of {len(grid)}")
        found["spark_1"] = {tuple(row) for row in sweep(spark, lake, grid, folder).collect()}

    costs = _turns("sweep", 1, {"plain": plain, "spark_1": on_spark}, unmeasured=0)
    return costs, found["plain"] == found["spark_1"]
