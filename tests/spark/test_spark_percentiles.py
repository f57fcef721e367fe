"""Spark's percentiles of how long transfers were held are those of every other room."""

from percentile_table import PERCENTILES


def test_percentiles_are_the_nearest_rank_in_spark_too(spark):
    from qflow.spark.questions import hold_times

    rows = [
        ("log/q", "held", f"q{number}", 0, value)
        for number, (values, _) in enumerate(PERCENTILES)
        for value in values
    ]
    columns = "component string, kind string, queue string, begin_us bigint, end_us bigint"
    found = {row.queue: row for row in hold_times(spark.createDataFrame(rows, columns)).collect()}
    for number, (values, expected) in enumerate(PERCENTILES):
        row = found[f"q{number}"]
        assert {50: row.p50_us, 90: row.p90_us, 99: row.p99_us} == expected, values
        assert (row.held, row.most_us) == (len(values), max(values))
