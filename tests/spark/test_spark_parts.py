"""Long work in steps: interrupted, it goes on; what is damaged or unfinished is said in one sentence."""

import json
import shutil

import pytest
from recordings import WORKLOADS
from spark_kit import (
    SOME,
    fleet,
    fleet_lake,
    fleet_results,
    kill_when,
    small_lake,
    write_lake,
    write_log,
    written,
)

from qflow.kit import RefusalError
from qflow.logs.components import result_hash
from qflow.spark.tables import LAKE

pytest.importorskip("pyarrow")


@pytest.fixture
def two_at_once(monkeypatch):
    """Write so few parts at once that a few are written in several goes."""
    monkeypatch.setattr("qflow.spark.tables.AT_ONCE", 2)


@pytest.fixture
def lake(tmp_path):
    """Return the folder of a lake of three files."""
    return write_lake(tmp_path / "lake", small_lake())


def stop_after_the_first(done, *_):
    if done == 2:
        raise KeyboardInterrupt


def test_an_interrupted_audit_goes_on_and_repeats_no_part(spark, lake, tmp_path, two_at_once):
    from qflow.spark.lake_audit import audit_to

    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        audit_to(spark, lake, out, stop_after_the_first)
    before = written(out)
    assert len(before) == 2
    results = audit_to(spark, lake, out).collect()
    assert before.items() <= written(out).items()
    assert result_hash(results) == result_hash(row for row in fleet_results() if row[0] in SOME)


def test_an_interrupted_fleet_goes_on_and_is_no_lake_before(spark, tmp_path, two_at_once):
    from qflow.spark.lake import read_lake
    from qflow.spark.synth import _synthetic_fleet, write_fleet

    with pytest.raises(KeyboardInterrupt):
        write_fleet(spark, 3, 900, tmp_path, stop_after_the_first)
    with pytest.raises(RefusalError, match="parts are missing; the command that made it continues"):
        read_lake(spark, tmp_path)
    with pytest.raises(
        RefusalError, match="a synthetic fleet must have a new folder; got one with other rows"
    ):
        write_fleet(spark, 4, 900, tmp_path)
    before = written(tmp_path)
    write_fleet(spark, 3, 900, tmp_path)
    assert before.items() <= written(tmp_path).items()
    made = read_lake(spark, tmp_path).collect()
    assert sorted(made) == sorted(_synthetic_fleet(spark, 3, 900).collect())


def lake_rows(folder):
    """Return each part's rows in the order in which they lie there."""
    from pyarrow import parquet

    return {
        path.parent.name: parquet.ParquetFile(path).read(columns=list(LAKE)).to_pylist()
        for path in sorted(written(folder))
        if not path.parent.name.endswith("-done")
    }


def test_a_run_that_was_killed_counts_for_nothing_until_it_is_repeated(spark, made_lake, tmp_path):
    from qflow.spark.ingest import make_lake
    from qflow.spark.lake import read_lake

    log, finished, report = made_lake
    lake = shutil.copytree(finished, tmp_path / "lake")
    whole = lake_rows(lake)
    assert len(whole) == 5 and sum(map(len, whole.values())) == report.events
    # A run writes its last part when all others are there.
    shutil.rmtree(next(lake.glob("day=*/part=*-done")))
    shutil.rmtree(next(lake.glob("day=*/part=*")))
    with pytest.raises(RefusalError, match="parts are missing; the command that made it continues"):
        read_lake(spark, lake)
    day = next(lake.glob("day=*")).name.removeprefix("day=")
    assert make_lake(spark, [log], lake, buckets=5, day=day).events == report.events
    assert lake_rows(lake) == whole
    kept = make_lake(spark, [log], lake, buckets=6, day=day)
    assert (kept.events, kept.kept) == (0, ["fleet"])
    write_log(tmp_path / "fleet.parquet", fleet()[1][:2000])
    shutil.copy(WORKLOADS / "fleet.json", tmp_path)
    with pytest.raises(RefusalError, match="there is another log named 'fleet', of "):
        make_lake(spark, [tmp_path / "fleet.parquet"], lake)


def test_a_new_day_costs_a_new_day_and_the_same_again_changes_nothing(spark, tmp_path):
    from qflow.spark.ingest import make_lake
    from qflow.spark.lake_audit import audit_to, results_with_keys, without_logs

    lake, out, logs = tmp_path / "lake", tmp_path / "out", []
    for day, rows in (("2026-11-26", fleet()[1][:2000]), ("2026-11-27", fleet()[1][:3000])):
        logs.append(write_log(tmp_path / f"of-{day}.parquet", rows))
        shutil.copy(WORKLOADS / "fleet.json", tmp_path / f"of-{day}.json")
        before = {**written(lake), **written(out)}
        # All logs are named each time: those that are there already are not read again.
        report = make_lake(spark, logs, lake, buckets=2, day=day)
        assert len(report.kept) == len(logs) - 1
        audit_to(spark, lake, out)
        after = {**written(lake), **written(out)}
        assert before.items() <= after.items()
        assert {path.parent.parent.name for path in after.keys() - before.keys()} == {f"day={day}"}
    rows, unfinished = results_with_keys(spark, out)
    results = without_logs(rows).collect()
    assert not unfinished
    assert {row.component.split("/")[0] for row in results} == {"of-2026-11-26", "of-2026-11-27"}
    assert len({(row.component, row.number) for row in results}) == len(results)
    audit_to(spark, lake, out)
    assert {**written(lake), **written(out)} == after


def test_results_of_another_version_are_refused_before_anything_is_added(spark, lake, tmp_path):
    """Once a column ``count`` was another number in each kind of result."""
    from qflow.spark.lake_audit import audit_to, results_with_keys
    from qflow.spark.stream import start
    from qflow.spark.tables import KEYS, RESULTS, GrowingTable, Schema

    columns = {"component": "log/q", "number": 0, "count": 7, "day": "undated", "part": "a-00000"}
    old = Schema(component="string", number="bigint", count="bigint") | KEYS
    made = spark.createDataFrame([tuple(columns.values())], Schema(old).ddl)
    GrowingTable(spark, tmp_path / "results").write(made)
    before = written(tmp_path / "results")
    for add in (
        lambda: results_with_keys(spark, tmp_path / "results"),
        lambda: audit_to(spark, lake, tmp_path / "results"),
        lambda: start(spark.createDataFrame([], RESULTS.ddl), tmp_path),
    ):
        with pytest.raises(
            RefusalError, match="results have the column kind of type string, here it is missing; "
        ):
            add()
    assert written(tmp_path / "results") == before


@pytest.mark.release
def test_killed_in_the_middle_laying_out_is_done_again(spark, tmp_path):
    from qflow.spark.ingest import make_lake

    logs, lake = write_log(tmp_path / "fleet.parquet", fleet()[1]), tmp_path / "lake"
    shutil.copy(WORKLOADS / "fleet.json", tmp_path)
    kill_when(lake.exists, "writing has begun", "spark", "audit", logs, "--lake", lake, "--buckets=4")
    make_lake(spark, [logs], lake, buckets=4)
    made = {}
    for component, *row in (tuple(row.values()) for rows in lake_rows(lake).values() for row in rows):
        made.setdefault(component, []).append(tuple(row))
    # The lake's begins also have what is known of the log.
    assert json.loads(made["fleet/q00"][0][7])["source"] == "fleet"
    assert {name: [row[:7] for row in rows] for name, rows in made.items()} == {
        name: [row[:7] for row in rows] for name, rows in fleet_lake().items()
    }


def test_a_damaged_file_of_a_lake_ends_the_command_with_one_sentence(spark, lake, capsys):
    from qflow.cli import main

    path = lake / "fleet-q10.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:4000] + b"\0" * 4000 + whole[8000:])
    assert main(["spark", "audit", "--lake", str(lake)]) == 2
    told = capsys.readouterr().err.splitlines()
    # On a slow machine the bar was shown before.
    assert told[-1].startswith("qflow: Spark gave up: ") and "fleet-q10.parquet" in told[-1]
    assert all(line.startswith("auditing") for line in told[:-1])
