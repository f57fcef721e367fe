"""A lake on disk that several files of tests read; the fixtures of ``spark_kit`` are imported by name."""

import shutil

import pytest
from recordings import WORKLOADS
from spark_kit import fleet, spark, write_log  # noqa: F401


@pytest.fixture(scope="session")
def made_lake(spark, tmp_path_factory):  # noqa: F811
    """Return a log of the fleet, and the lake of five files made of it: its folder and its report."""
    from qflow.spark.ingest import make_lake

    folder = tmp_path_factory.mktemp("fleet")
    log = write_log(folder / "fleet.parquet", fleet()[1])
    shutil.copy(WORKLOADS / "fleet.json", folder)
    return log, folder / "lake", make_lake(spark, [log], folder / "lake", buckets=5)
