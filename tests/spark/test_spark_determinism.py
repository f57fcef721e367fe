"""The same results for any number of partitions, order of input, batch size and setting of Spark."""

from functools import cache

import pytest
from spark_kit import SOME, fleet_lake, fleet_results, lake_frame, spark  # noqa: F401

from qflow.logs.components import result_hash
from qflow.spark.tables import write_rows


@pytest.fixture(scope="module")
def lake(made_lake):
    """Return the folder of a lake that the pipeline made of the fleet's log."""
    _, folder, report = made_lake
    assert report.set_aside == 0
    assert report.events == {name: len(rows) for name, rows in fleet_lake().items()}
    return folder


@cache
def expected():
    """Return the hash of what memory gives; not before a test asks, since collecting it would wait for it."""
    return result_hash(fleet_results())


def expected_of_some():
    """Return the hash of what memory gives for some components."""
    return result_hash(row for row in fleet_results() if row[0] in SOME)


@pytest.fixture
def setting(spark):  # noqa: F811
    """Change settings of the session, and put them back."""
    before = {}

    def change(name, value):
        before.setdefault(name, spark.conf.get(name))
        spark.conf.set(name, value)

    yield change
    for name, value in before.items():
        spark.conf.set(name, value)


def audited(frame):
    from qflow.spark.lake_audit import audit

    return result_hash(audit(frame).collect())


def test_the_lake_holds_each_component_in_order_and_one_file_is_one_partition(spark, lake):  # noqa: F811
    from qflow.spark.lake import read_lake

    frame = read_lake(spark, lake)
    assert frame.rdd.getNumPartitions() == 5
    for rows in frame.select("component", "seq").rdd.glom().collect():
        places = [(row.component, row.seq) for row in rows]
        assert places == sorted(places)


def test_audit_of_the_lake_gives_what_memory_gives(spark, lake):  # noqa: F811
    from qflow.spark.lake import read_lake

    frame = read_lake(spark, lake)
    assert "Exchange" not in frame._jdf.queryExecution().executedPlan().toString()
    assert audited(frame) == expected()


@pytest.mark.parametrize("partitions", [1, 2, 7, 32])
def test_any_number_of_partitions_and_shuffled_input(spark, partitions):  # noqa: F811
    from pyspark.sql import functions as sf

    from qflow.spark.lake import in_order

    shuffled = lake_frame(spark, fleet_lake()).orderBy(sf.rand(partitions))
    assert audited(in_order(shuffled, partitions)) == expected()


@pytest.mark.parametrize("rows", [1, 100, 10_000])
def test_any_size_of_arrow_batches(spark, lake, setting, rows):  # noqa: F811
    from pyspark.sql import functions as sf

    from qflow.spark.lake import read_lake

    setting("spark.sql.execution.arrow.maxRecordsPerBatch", str(rows))
    assert audited(read_lake(spark, lake).where(sf.col("component").isin(*SOME))) == expected_of_some()


@pytest.mark.parametrize("rows", [1, 100, 10_000])
def test_any_size_of_batches_that_a_worker_reads_itself(tmp_path, rows):
    from qflow.spark.lake import read_lake_file
    from qflow.spark.lake_audit import _audit_batches

    path = tmp_path / "some.parquet"
    write_rows(path, [(name, *row) for name in SOME for row in fleet_lake()[name]])
    results = [
        tuple(row.values())
        for batch in _audit_batches(read_lake_file(str(path), rows))
        for row in batch.to_pylist()
    ]
    assert result_hash(results) == expected_of_some()


def test_files_that_workers_read_themselves_step_by_step(spark, lake, tmp_path):  # noqa: F811
    from qflow.spark.lake_audit import audit_to
    from qflow.spark.workers import peak_accumulator

    told = []
    peak = peak_accumulator(spark)
    results = audit_to(spark, lake, tmp_path / "results", told.append, peak)
    assert result_hash(results.collect()) == expected()
    assert told == [5] and 10 << 20 < peak.value < 1 << 30


@pytest.mark.parametrize("name", ["spark.sql.adaptive.enabled", "spark.sql.ansi.enabled"])
def test_adaptive_execution_and_ansi_on_and_off(spark, setting, name):  # noqa: F811
    from qflow.spark.lake import in_order

    # On, they are in all other tests.
    assert spark.conf.get(name) == "true"
    setting(name, "false")
    assert audited(in_order(lake_frame(spark, fleet_lake()), 3)) == expected()


def test_plans_that_spark_compiles(spark, setting):  # noqa: F811
    """As in every session but that of the tests."""
    from qflow.spark.lake import in_order

    setting("spark.sql.codegen.factoryMode", "FALLBACK")
    setting("spark.sql.codegen.wholeStage", "true")
    assert audited(in_order(lake_frame(spark, fleet_lake()), 3)) == expected()
