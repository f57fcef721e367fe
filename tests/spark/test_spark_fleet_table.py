"""One table of 300 components and a million rows: in a batch, by stream, on a cluster that loses workers."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from fleet_table import IN_VALUE, MAP, begin_of, expected, make_fleet, write_kafka, write_table
from waiting import wait_until

from qflow.logs.components import result_hash

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")
pytestmark = pytest.mark.thorough

COMPONENTS, MOST = 300, 3_720


@pytest.fixture(scope="module")
def fleet():
    """Return the components, with a million rows in all."""
    made = make_fleet(COMPONENTS, MOST, 40)
    assert 980_000 < sum(len(rows) for rows, _ in made.values()) < 1_020_000
    return made


@pytest.fixture(scope="module")
def wanted(fleet):
    """Return the hash of what each log, cleaned and audited by itself in memory, gives."""
    return result_hash(expected(fleet))


@pytest.fixture(scope="module")
def table(fleet, tmp_path_factory):
    """Return the table of all rows, shuffled, and the folder of the workloads."""
    return write_table(tmp_path_factory.mktemp("fleet"), fleet, parts=8)


def test_a_batch_on_one_machine(spark, table, wanted, tmp_path):
    from qflow.spark.events_table import EventsTable, make_lake_of_table
    from qflow.spark.lake_audit import audit_to, without_logs

    events = EventsTable(*table, columns=MAP, component="app")
    report = make_lake_of_table(spark, events, tmp_path / "lake", 8, "2026-11-27")
    assert report.components >= COMPONENTS and not report.quarantined
    results = audit_to(spark, tmp_path / "lake", tmp_path / "out")
    assert result_hash(without_logs(results).collect()) == wanted


def test_a_stream_of_many_files(spark, fleet, table, wanted, tmp_path):
    """Rows come by the time of arrival, up to a second late; a component ends when it is silent."""
    pytest.importorskip("google.protobuf")
    import pyarrow
    from pyarrow import parquet

    from qflow.spark.events_table import EventsTable
    from qflow.spark.stream import audit_events, read_results, start

    topic = write_kafka(tmp_path, fleet, random.Random(8), files=6)
    # Something else goes on for an hour after the last component: the watermark follows it.
    last = parquet.read_table(f"{topic}/5.parquet").slice(0, 1).to_pylist()[0]
    late = {"app": "none", "at": begin_of("app-023").replace(day=28).isoformat(), "who": {"node": "p0"}}
    line = {**last, "value": json.dumps({**late, "what": "block", "where": "q"}).encode()}
    schema = parquet.read_schema(f"{topic}/5.parquet")
    parquet.write_table(pyarrow.Table.from_pylist([line], schema), f"{topic}/6.parquet")
    events = EventsTable(
        topic, table[1], columns=IN_VALUE, component="value.app", options={"maxFilesPerTrigger": "1"}
    )
    query = start(audit_events(spark, events, 5, 600), tmp_path / "out", once=True, by_event_time=True)
    query.awaitTermination()
    assert result_hash(read_results(spark, tmp_path / "out").collect()) == wanted


def begun(kind, table, folder):
    """Begin an audit of the table in a process of its own."""
    program = Path(__file__).with_name("fleet_session.py")
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, str(program), kind, *table, str(folder)]
    # Into files: Java writes much of a lost worker, and would wait for ever for a reader of a full pipe.
    with (folder / "told").open("w") as told, (folder / "errors").open("w") as errors:
        return subprocess.Popen(command, stdout=told, stderr=errors, env=env)


def ended(work, folder):
    """Return what it printed."""
    assert work.wait(timeout=2800) == 0, (folder / "errors").read_text()[-3000:]
    return json.loads((folder / "told").read_text().splitlines()[-1])


def busy_executor(work, known=()):
    """Return a worker of the cluster whose Pythons have worked for five seconds, none of the known ones."""
    import psutil

    # To look costs more than a moment.
    time.sleep(0.3)
    with suppress(psutil.Error):
        for process in psutil.Process(work.pid).children(recursive=True):
            if process.pid not in known and "CoarseGrainedExecutorBackend" in " ".join(process.cmdline()):
                python = [one.cpu_times().user for one in process.children(recursive=True)]
                if sum(python) > 5:
                    return process.pid
    return None


def test_a_cluster_that_loses_a_worker_in_each_step(table, wanted, tmp_path):
    pytest.importorskip("psutil")
    killed = []
    work = begun("cluster", table, tmp_path)
    for has_begun in (lambda: True, (tmp_path / "out").exists):
        wait_until(
            lambda has_begun=has_begun: (
                work.poll() is not None or (has_begun() and busy_executor(work, killed))
            ),
            "a worker at work",
            seconds=1500,
        )
        killed.append(busy_executor(work, killed))
        os.kill(killed[-1], signal.SIGKILL)
    found = ended(work, tmp_path)
    assert (found["audit"], found["quarantined"]) == (wanted, 0)


def test_spark_connect(table, wanted, tmp_path):
    pytest.importorskip("grpc")
    pytest.importorskip("grpc_status")
    found = ended(begun("connect", table, tmp_path), tmp_path)
    assert (found["audit"], found["quarantined"]) == (wanted, 0)
    assert "connect" in found["kind"]
