"""What the Spark tests share: one session a test run, and a small piece of the recorded fleet."""

import json
import os
import signal
import subprocess
import sys
from functools import cache
from itertools import chain, takewhile

import pytest
from recordings import WORKLOADS
from waiting import wait_until

from qflow.kit import RefusalError
from qflow.logs.components import audit_in_memory as audit
from qflow.logs.components import lake_of
from qflow.logs.log_file import read_log
from qflow.spark.tables import LAKE, to_batches, write_rows
from qflow.trace import LogRow
from qflow.workload import Workload

SOME = ("fleet/q10", "fleet/q15", "fleet/q22")
"""Three components of the fleet, for what takes long."""
AS_WRITTEN = {"spark__sql__codegen__wholeStage": "false", "spark__sql__codegen__factoryMode": "NO_CODEGEN"}
"""Plans are walked through, not compiled: to compile hundreds of small ones takes longer than all they do."""
SECONDS = 3
"""How much of the fleet's log the tests use: all 24 components, none of them ON yet."""


@pytest.fixture(scope="session")
def spark():
    """Return the session of this test run; the tests of it are skipped where there is no pyspark or Java."""
    pytest.importorskip("pyspark")
    from qflow.spark.spark_session import session, stop

    # A command that was tried before may have left one with settings of its own.
    stop()
    try:
        return session(**AS_WRITTEN)
    except RefusalError as refusal:
        pytest.skip(str(refusal))


@cache
def fleet():
    """Return the fleet's workload and the first seconds of its log."""
    pytest.importorskip("pyarrow")
    workload = Workload.load(WORKLOADS / "fleet.json")
    bits = (map(LogRow._make, bit.rows) for bit in read_log(WORKLOADS / "fleet.parquet"))
    return workload, list(takewhile(lambda row: row.ts_us < SECONDS * 1_000_000, chain.from_iterable(bits)))


@cache
def fleet_lake():
    """Return the same as a lake in memory: component to rows."""
    return lake_of("fleet", *fleet())


def small_lake():
    """Return some components of it."""
    return {name: fleet_lake()[name] for name in SOME}


@cache
def fleet_results():
    """Return what the plain in-memory audit gives: what every other way must give too."""
    return audit(fleet_lake())


def beginning_of(component, seconds):
    """Return a component's rows of the first seconds, of a workload that lasts so long."""
    begin, *rows, end = fleet_lake()[component]
    shorter = json.dumps({**json.loads(begin.workload), "duration": seconds})
    early = [row for row in rows if row.ts_us < seconds * 1_000_000]
    return [begin._replace(workload=shorter), *early, end]


def lake_frame(spark, lake):
    """Return a lake as a frame."""
    import pyarrow

    rows = ((component, *row) for component in sorted(lake) for row in lake[component])
    return spark.createDataFrame(pyarrow.Table.from_batches(to_batches(rows, LAKE)), LAKE.ddl)


def write_lake(folder, lake):
    """Write a lake in memory as a folder with a file a component."""
    folder.mkdir()
    for name, rows in lake.items():
        write_rows(folder / f"{name.replace('/', '-')}.parquet", [(name, *row) for row in rows])
    return folder


def write_log(path, rows, columns=None):
    """Write rows as a client log in Parquet."""
    import pyarrow
    from pyarrow import parquet

    names = columns or ("ts_us", "client", "event", "queue", "label", "size", "group")
    table = {name: list(values) for name, values in zip(names, zip(*rows, strict=True), strict=True)}
    parquet.write_table(pyarrow.table(table), path)
    return str(path)


def written(folder):
    """Return the files of a table's parts, and when each was written."""
    return {path: path.stat().st_mtime_ns for path in folder.glob("day=*/part=*/*.parquet")}


def kill_when(happened, what, *words):
    """Run a command of qflow, and kill it with all its processes once something has happened."""
    command = [sys.executable, "-m", "qflow", *map(str, words)]
    started = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    wait_until(lambda: happened() or started.poll() is not None, what)
    os.killpg(started.pid, signal.SIGKILL)
    assert started.wait() == -signal.SIGKILL, started.stderr.read()
