"""The same results for any number of partitions, order of input, batch size and setting of Spark."""

from functools import cache

import pytest
from spark_kit import SOME, fleet_lake, fleet_results, lake_frame

from qflow.logs.components import result_hash
from qflow.spark.tables import write_rows


@pytest.fixture(scope="module")
def lake(made_lake):
    """Return the folder of a lake that the pipeline made of the fleet's log."""
    _, folder, report = made_lake
    assert report.quarantined == 0
    assert report.events == sum(map(len, fleet_lake().values())) and report.components == len(fleet_lake())
    return folder


@cache
def expected():
    """Return the hash of what memory gives; not before a test asks, since collecting it would wait for it."""
    return result_hash(fleet_results())


def expected_of_some():
    """Return the hash of what memory gives for some components."""
    return result_hash(row for row in fleet_results() if row[0] in SOME)


@pytest.fixture
def setting(spark):
    """Change settings of the session, and put them back."""
    before = {}

    def change(name, value):
        before.setdefault(name, spark.conf.get(name))
        spark.conf.set(name, value)

    yield change
    for name, value in before.items():
        spark.conf.set(name, value)


def audited(frame, partitions=3):
    from qflow.spark.lake_audit import audit

    return result_hash(audit(frame, partitions).collect())


def test_audit_of_the_lake_gives_what_memory_gives(spark, lake):
    from qflow.spark.lake import read_lake

    # A part a bucket, and one that says that the run is done.
    assert len(list(lake.glob("day=*/part=*/*.parquet"))) == 6
    assert audited(read_lake(spark, lake)) == expected()


def test_a_table_of_many_row_groups_divided_among_tasks_gives_the_same(spark, tmp_path, setting):
    """Read as the parts lay it gave a quarter of the results, and findings."""
    from pyarrow import parquet

    from qflow.spark.lake import read_lake

    path = tmp_path / "lake" / "some.parquet"
    path.parent.mkdir()
    write_rows(path, [(name, *row) for name in SOME for row in fleet_lake()[name]])
    parquet.write_table(parquet.read_table(path), path, row_group_size=500)
    for name in ("maxPartitionBytes", "openCostInBytes"):
        setting(f"spark.sql.files.{name}", "4k")
    frame = read_lake(spark, tmp_path / "lake")
    assert frame.rdd.getNumPartitions() > 4
    assert audited(frame) == expected_of_some()


COMPILED = {"spark.sql.codegen.factoryMode": "FALLBACK", "spark.sql.codegen.wholeStage": "true"}
"""As in every session but that of the tests."""


@pytest.mark.parametrize(
    ("partitions", "changed"),
    [
        (1, {"spark.sql.adaptive.enabled": "false"}),
        (7, {"spark.sql.ansi.enabled": "false"}),
        (3, COMPILED),
    ],
)
def test_any_number_of_partitions_shuffled_input_and_settings(spark, setting, partitions, changed):
    from pyspark.sql import functions as sf

    for name, value in changed.items():
        assert spark.conf.get(name) != value
        setting(name, value)
    shuffled = lake_frame(spark, fleet_lake()).orderBy(sf.rand(partitions))
    assert audited(shuffled, partitions) == expected()


def exchanges_of(frame):
    """Return the exchanges of a job, as rows go over the network in them, and its user functions."""
    text = frame._jdf.queryExecution().executedPlan().toString()
    lines = [line.strip(" :+-*()0123456789") for line in text.splitlines()]
    assert not [line for line in lines if "BatchEvalPython" in line or "ArrowEvalPython" in line]
    return [line for line in lines if line.startswith("Exchange ")]


def test_each_job_has_one_exchange_and_no_function_of_single_rows(spark, lake, tmp_path):
    from test_spark_table import events_table, make_fleet

    from qflow.spark.lake import read_lake
    from qflow.spark.lake_audit import audit_large
    from qflow.spark.sweep import AS_RECORDED, what_if

    rows = read_lake(spark, lake)
    for frame in (
        audit_large(rows),
        what_if(rows, [AS_RECORDED]),
        events_table(tmp_path, make_fleet(1, 50)).split(spark, 3),
    ):
        (exchange,) = exchanges_of(frame)
        assert "hashpartitioning(component" in exchange


@pytest.mark.parametrize("rows", [1, 100])
def test_any_size_of_arrow_batches(spark, lake, setting, rows):
    from pyspark.sql import functions as sf

    from qflow.spark.lake import read_lake

    setting("spark.sql.execution.arrow.maxRecordsPerBatch", str(rows))
    assert audited(read_lake(spark, lake).where(sf.col("component").isin(*SOME))) == expected_of_some()


def test_a_lake_audited_into_a_table(spark, lake, tmp_path):
    from qflow.spark.lake_audit import audit_to, without_logs
    from qflow.spark.workers import peak_accumulator

    told = []
    peak = peak_accumulator(spark)
    results = audit_to(spark, lake, tmp_path / "results", lambda *given: told.append(given), peak)
    assert result_hash(without_logs(results).collect()) == expected()
    assert told == [(5, 5)] and 10 << 20 < peak.value < 1 << 30
