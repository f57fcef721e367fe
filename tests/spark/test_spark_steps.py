"""Long work in steps: interrupted, it goes on; what is damaged or unfinished is said in one sentence."""

import os
import shutil
import signal
import subprocess
import sys

import pytest
from recordings import WORKLOADS
from spark_kit import SOME, fleet, fleet_lake, fleet_results, small_lake, spark, write_lake, write_log  # noqa: F401
from waiting import wait_until

from qflow.kit import RefusalError
from qflow.logs.components import result_hash

pytest.importorskip("pyarrow")


@pytest.fixture
def two_at_once(monkeypatch):
    """Make steps so small that a few files are several of them."""
    monkeypatch.setattr("qflow.spark.steps.AT_ONCE", 2)


@pytest.fixture
def lake(tmp_path):
    """Return the folder of a lake of three files."""
    return write_lake(tmp_path / "lake", small_lake())


def written(folder):
    return {path: path.stat().st_mtime_ns for path in folder.glob("step=*/*.parquet")}


def stop_after_the_first(done):
    if done == 2:
        raise KeyboardInterrupt


def test_an_interrupted_audit_goes_on_and_repeats_no_step(spark, lake, tmp_path, two_at_once):  # noqa: F811
    from qflow.spark.lake_audit import audit_to, read_results

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        audit_to(spark, lake, out, stop_after_the_first)
    with pytest.raises(RefusalError, match="step 2 of 2 is missing; the command that made it goes on"):
        read_results(spark, out)
    before = written(out)
    assert before
    results = audit_to(spark, lake, out).collect()
    assert {path: time for path, time in written(out).items() if path in before} == before
    assert result_hash(results) == result_hash(row for row in fleet_results() if row[0] in SOME)


def test_results_of_another_lake_are_replaced_and_other_things_are_not(spark, lake, tmp_path):  # noqa: F811
    from qflow.spark.lake_audit import audit_to

    audit_to(spark, lake, tmp_path / "out")
    (lake / "fleet-q22.parquet").unlink()
    results = audit_to(spark, lake, tmp_path / "out").collect()
    assert {row.component for row in results} == {"fleet/q10", "fleet/q15"}
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mother.txt").write_text("dear")
    with pytest.raises(RefusalError, match="needs a new folder, and this one holds something else"):
        audit_to(spark, lake, tmp_path / "letters")
    assert (tmp_path / "letters" / "mother.txt").exists()


def test_an_interrupted_fleet_goes_on_and_is_no_lake_before(spark, tmp_path, two_at_once):  # noqa: F811
    from qflow.spark.lake import read_lake
    from qflow.spark.synth import _synthetic_fleet, write_fleet

    with pytest.raises(KeyboardInterrupt):
        write_fleet(spark, 3, 900, tmp_path, stop_after_the_first)
    with pytest.raises(RefusalError, match="step 2 of 2 is missing"):
        read_lake(spark, tmp_path)
    with pytest.raises(RefusalError, match="holds a synthetic fleet of 3 queues and 900 events"):
        write_fleet(spark, 4, 900, tmp_path)
    before = written(tmp_path)
    write_fleet(spark, 3, 900, tmp_path)
    assert {path: time for path, time in written(tmp_path).items() if path in before} == before
    made = read_lake(spark, tmp_path).collect()
    assert sorted(made) == sorted(_synthetic_fleet(spark, 3, 900).collect())


def lake_rows(folder):
    """Return each bucket's rows in the order in which they lie there."""
    from pyarrow import parquet

    paths = sorted(folder.glob("step=*/bucket=*/*.parquet"))
    return {path.parent.name: parquet.ParquetFile(path).read().to_pylist() for path in paths}


def test_a_half_written_lake_goes_on_and_repeats_no_finished_part(spark, made_lake, tmp_path):  # noqa: F811
    from qflow.spark.ingest import make_lake
    from qflow.spark.lake import read_lake

    log, finished, report = made_lake
    lake = shutil.copytree(finished, tmp_path / "lake")
    whole = lake_rows(lake)
    assert sum(map(len, whole.values())) == sum(report.events.values())
    times = {path: path.stat().st_mtime_ns for path in lake.glob("step=*/*/*.parquet")}
    steps = sorted(lake.glob("step=*"))
    assert len(steps) == 3
    # As it lies after a kill: Spark puts its mark into a step when all of its files are in their places.
    (steps[1] / "_SUCCESS").unlink()
    for path in steps[2].rglob("*.parquet"):
        path.unlink()
    (steps[2] / "_SUCCESS").unlink()
    with pytest.raises(RefusalError, match="step 2 of 3 is missing; the command that made it goes on"):
        read_lake(spark, lake)
    assert make_lake(spark, [log], lake, buckets=5).events == report.events
    assert lake_rows(lake) == whole
    kept = {path: time for path, time in times.items() if path.is_relative_to(steps[0])}
    assert kept and all(path.stat().st_mtime_ns == time for path, time in kept.items())
    with pytest.raises(RefusalError, match="holds a lake of 1 logs .*, 5 buckets"):
        make_lake(spark, [log], lake, buckets=6)


@pytest.mark.release
def test_killed_in_the_middle_laying_out_goes_on_with_what_is_missing(spark, tmp_path):  # noqa: F811
    from qflow.spark.ingest import make_lake

    logs, lake = write_log(tmp_path / "fleet.parquet", fleet()[1]), tmp_path / "lake"
    shutil.copy(WORKLOADS / "fleet.json", tmp_path)
    command = [
        sys.executable,
        "-m",
        "qflow",
        "spark",
        "audit",
        logs,
        "--lake",
        lake,
        "--out",
        tmp_path / "out",
        "--buckets=4",
    ]
    first = subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    wait_until(lambda: list(lake.glob("step=*/_SUCCESS")) or first.poll() is not None, "one step is done")
    os.killpg(first.pid, signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL, first.stderr.read()
    done = {path: path.stat().st_mtime_ns for mark in lake.glob("step=*/_SUCCESS")
            for path in mark.parent.rglob("*.parquet")}  # fmt: skip
    assert 1 <= len(list(lake.glob("step=*/_SUCCESS"))) < 4
    make_lake(spark, [logs], lake, buckets=4)
    assert {path: path.stat().st_mtime_ns for path in done} == done
    made = {}
    for component, *row in (tuple(row.values()) for rows in lake_rows(lake).values() for row in rows):
        made.setdefault(component, []).append(tuple(row))
    assert made == fleet_lake()


def test_a_file_of_a_lake_that_is_damaged_or_none_is_said_in_one_sentence(lake):
    import pyarrow
    from pyarrow import parquet

    from qflow.spark.lake import read_lake_file

    path = lake / "fleet-q22.parquet"
    table = parquet.read_table(path)
    path.write_bytes(path.read_bytes()[:5000])
    with pytest.raises(RefusalError, match="fleet-q22.parquet: the file is cut off or damaged, or no"):
        list(read_lake_file(str(path)))
    parquet.write_table(table.drop_columns(["seq"]), path)
    with pytest.raises(RefusalError, match="a lake has the column seq of type int64, here it is missing"):
        list(read_lake_file(str(path)))
    parquet.write_table(table.set_column(1, "seq", table["seq"].cast(pyarrow.int32())), path)
    with pytest.raises(RefusalError, match="the column seq of type int64, here it is of type int32"):
        list(read_lake_file(str(path)))


def test_a_damaged_file_of_a_lake_ends_the_command_with_one_sentence(spark, lake, capsys):  # noqa: F811
    from qflow.cli import main

    path = lake / "fleet-q10.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:4000] + b"\0" * 4000 + whole[8000:])
    assert main(["spark", "audit", "--lake", str(lake)]) == 2
    told = capsys.readouterr().err.splitlines()
    # On a slow machine the bar was shown before.
    assert told[-1].startswith(f"qflow: Spark gave up: {path}: the file is cut off or damaged")
    assert all(line.startswith("auditing [") for line in told[:-1])
