"""How fast Spark is beside a plain loop over the same rows in this process: an audit, and a sweep.

What is plain and what Spark does on one core and on two stand in one table of pytest-benchmark, by the clock,
after all has been done once: the start of Java, of the session and of the workers is not measured, what each
job costs is.  CPU time, of this process, of Java and of all workers together, is printed beside it: other
work on the machine disturbs it little.  Both have to come to the same; no time is asserted.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pytest_benchmark", reason="the extra bench is not installed")

import psutil
import pyarrow
from fleet_table import make_fleet
from pyarrow import parquet

from qflow.kit import kit_path
from qflow.logs.client_log import ClientLog
from qflow.logs.components import audit_in_memory, lake_of, result_hash
from qflow.logs.findings import Result
from qflow.logs.log_file import LogRow
from qflow.spark.ingest import _split, audit_small
from qflow.spark.lake import pack, read_lake
from qflow.spark.lake_audit import LOG, _audit_batches, audit
from qflow.spark.spark_session import session, stop
from qflow.spark.sweep import FleetSettings, _measure_component, _whole_components, sweep
from qflow.spark.synth import _load_recorded_fleet, write_fleet
from qflow.spark.tables import LAKE, RESULTS, write_rows
from qflow.trace.files import QuarantinedRow
from qflow.workload import Workload
from qflow.workload.agenda import SECOND

pytestmark = pytest.mark.bench

QUEUES, EVENTS = 8, 480_000
SETTINGS, SWEPT = 20, 6
"""A sweep is of the first seconds of the recorded fleet."""
ROUNDS = 2
GRID = [
    FleetSettings(f"x{n}", {"*": {"qpid.flow_stop_count": f"x{0.5 + n / SETTINGS}"}}) for n in range(SETTINGS)
]


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory) -> Iterator[Path]:
    """A lake of a made-up fleet."""
    folder = tmp_path_factory.mktemp("bench") / "synthetic"
    stop()
    write_fleet(session("local[2]"), QUEUES, EVENTS, folder)
    yield folder
    stop()


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> Path:
    """A lake of the first seconds of the recorded fleet."""
    folder = tmp_path_factory.mktemp("bench")
    workload = _load_recorded_fleet().replace(duration=SWEPT)
    log = ClientLog.load(kit_path("data") / "recordings" / "workloads" / "fleet.parquet")
    lake = lake_of("fleet", workload, [row for row in log.rows if row.ts_us < SWEPT * SECOND])
    packed = pack({component: len(rows) for component, rows in lake.items()}, QUEUES)
    for number in range(QUEUES):
        own = [name for name in sorted(packed) if packed[name] == number]
        rows = ((component, *row) for component in own for row in lake[component])
        write_rows(folder / f"{number}.parquet", rows)
    return folder


def batches(lake: Path) -> Iterator[Any]:
    """Yield the rows of a lake, file by file."""
    files = sorted(lake.rglob("*.parquet"))
    columns = list(LAKE)
    return chain.from_iterable(parquet.ParquetFile(file).iter_batches(columns=columns) for file in files)


def cpu_times() -> dict[int, float]:
    """Return the CPU seconds of this process and of all that it has started, by their number."""
    this = psutil.Process()
    found: dict[int, float] = {}
    for process in (this, *this.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            found[process.pid] = times.user + times.system
    return found


@pytest.fixture
def measure(benchmark, capsys) -> Callable[..., Any]:
    """Measure some rounds of work by the clock, in a group of the table, and print their least CPU time."""

    def run(group: str, way: str, work: Callable[[], Any], rounds: int = ROUNDS, warmup: int = 1) -> Any:
        spent = []

        def work_and_count() -> Any:
            before, made = cpu_times(), work()
            # A worker that had nothing to do for a minute may have ended: it takes no time of its own away.
            spent.append(sum(now - before.get(one, 0.0) for one, now in cpu_times().items()))
            return made

        benchmark.group = group
        made = benchmark.pedantic(work_and_count, rounds=rounds, warmup_rounds=warmup)
        with capsys.disabled():
            print(f"\n{group}, {way}: {min(spent):.2f} s of CPU time")
        return made

    return run


AUDIT = f"an audit of {EVENTS} events of {QUEUES} components"


def test_audit_in_a_plain_loop(measure, synthetic):
    measure(AUDIT, "plain", lambda: deque(_audit_batches(batches(synthetic)), maxlen=0))


@pytest.mark.parametrize("cores", [1, 2])
def test_audit_on_spark(measure, synthetic, cores):
    stop()
    frame = audit(read_lake(session(f"local[{cores}]"), synthetic))
    # All rows are made, and none is kept, as in the plain loop.
    measure(AUDIT, f"cores: {cores}", lambda: frame.write.format("noop").mode("overwrite").save())
    rows = [tuple(row.values()) for batch in _audit_batches(batches(synthetic)) for row in batch.to_pylist()]
    assert result_hash(frame.collect()) == result_hash(rows)


def small_logs(folder: Path) -> list[str]:
    """Write 200 logs of 2,500 rows each, and their workloads."""
    logs = []
    for name, (rows, workload) in make_fleet(200, 2_500, 40).items():
        logs.append(str(folder / f"{name}.parquet"))
        columns = dict(zip(LogRow._fields, map(list, zip(*rows, strict=True)), strict=True))
        parquet.write_table(pyarrow.table(columns), logs[-1])
        (folder / f"{name}.json").write_text(json.dumps(workload))
    return logs


def in_a_loop(logs: Sequence[str]) -> list[Any]:
    """Return the results of logs that are read, cleaned and audited one after the other."""
    results: list[Any] = []
    for log in logs:
        lake: dict[str, list[Any]] = {}
        for item in _split(log, Workload.load(Path(log).with_suffix(".json"))):
            if not isinstance(item, QuarantinedRow):
                lake.setdefault(item[0], []).append(item[1])
        results += audit_in_memory(lake)
    return results


@pytest.mark.parametrize("way", ["plain", "on Spark"])
def test_many_small_logs(measure, tmp_path, way):
    stop()
    logs, group = small_logs(tmp_path), "an audit of 200 logs of 2,500 events"
    if way == "plain":
        measure(group, way, lambda: in_a_loop(logs), 1, 0)
        return
    spark = session("local[2]")
    # The start of Java and of the workers is no part of it.
    spark.range(0, 2, 1, 2).mapInArrow(lambda batches: batches, "id bigint").count()
    rows = measure(group, way, lambda: audit_small(spark, logs).collect(), 1, 0)
    found = [Result(*row[: len(RESULTS)]) for row in rows if row.reason is None and row.kind != LOG]
    assert result_hash(found) == result_hash(in_a_loop(logs))


def swept(lake: Path, grid: Sequence[FleetSettings]) -> set[Any]:
    """Return what a plain loop measures."""
    return {
        row
        for component, rows in _whole_components(batches(lake))
        for row in _measure_component(component, rows, grid)
    }


@pytest.mark.parametrize("way", ["plain", "on Spark"])
def test_a_sweep_on_spark_and_in_a_plain_loop(measure, recorded, tmp_path, way):
    group = f"a sweep of the recorded fleet under {SETTINGS} settings"
    plain = swept(recorded, GRID)
    if way == "plain":
        assert measure(group, way, lambda: swept(recorded, GRID), 1, 0) == plain
        return
    spark = session()
    sweep(spark, recorded, GRID[:1], tmp_path / "first").collect()
    found = measure(group, way, lambda: sweep(spark, recorded, GRID, tmp_path / "grid").collect(), 1, 0)
    assert {tuple(row) for row in found} == plain
