"""What Spark costs, what a second core gains: printed; how long things take is asserted nowhere."""

import pytest

pytest.importorskip("pyspark")


@pytest.mark.bench
def test_spark_gives_what_a_plain_loop_gives(capsys):
    from spark_rates import report_text, run_bench

    with capsys.disabled():
        report = run_bench()
        print(report_text(report))
    assert report["audit"]["same_results"] and report["sweep"]["same_results"]
