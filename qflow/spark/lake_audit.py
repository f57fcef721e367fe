"""Audit: the engine over each component of a lake, in constant memory."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.logs.audit import Auditor
from qflow.progress import Progress
from qflow.spark.lake import lake_files, only_spark_reads, read_lake_file
from qflow.spark.steps import Steps, require_finished
from qflow.spark.tables import LAKE, RESULTS, by_component, to_batches, tuples
from qflow.spark.workers import freeze_modules, map_numbers

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

_ROW = LAKE.names[1:]


def audit(lake: DataFrame) -> DataFrame:
    """Return intervals and findings of every component.

    Parameters:
        lake (DataFrame of LAKE): In each partition a component's rows are together and in order of ``seq``,
            as in the files that :func:`qflow.spark.lake.write_lake` writes; of any other frame,
            :func:`qflow.spark.lake.in_order` makes one.  Rows that are not in order leave findings.

    Returns:
        In no order; ``component`` and ``number`` are its key.
    """
    return lake.select(*LAKE.names).mapInArrow(_audit_partition, RESULTS.ddl)


def audit_files(spark: SparkSession, files: Sequence[str], peak: Accumulator[int] | None = None) -> DataFrame:
    """Audit files of a lake, one a partition, read by the workers where they can."""
    # The same results for less work: rows that are only handed on need not go through the JVM and back.
    if only_spark_reads(files):
        return audit(spark.read.parquet(*files))

    def audit_file(number: int) -> Iterator[Any]:
        return _audit_batches(read_lake_file(files[number]))

    return map_numbers(spark, range(len(files)), audit_file, RESULTS, peak)


def audit_to(
    spark: SparkSession,
    lake: str | Path,
    out: str | Path,
    progress: Progress | None = None,
    peak: Accumulator[int] | None = None,
) -> DataFrame:
    """Audit a lake into a folder, step by step; what it holds of another lake is replaced."""
    files = lake_files(spark, lake)
    decided_by = hashlib.sha256("\n".join(map(_last_part, files)).encode()).hexdigest()
    steps = Steps(spark, out, "the results of an audit", decided_by, files, replaces=True)
    for done in steps.run(partial(audit_files, spark, peak=peak)):
        if progress is not None:
            progress(done)
    return read_results(spark, out)


def read_results(spark: SparkSession, folder: str | Path) -> DataFrame:
    """Return the results that :func:`audit_to` wrote."""
    require_finished(spark, folder)
    return spark.read.schema(RESULTS.ddl).parquet(str(folder)).select(*RESULTS.names)


def _last_part(path: str) -> str:
    # Spark gives every file that it writes a name of its own.
    return path.rsplit("/", 1)[-1]


def _audit_partition(batches: Iterator[Any]) -> Iterator[Any]:
    freeze_modules()
    yield from _audit_batches(batches)


def _audit_batches(batches: Iterator[Any]) -> Iterator[Any]:
    """Audit the rows of one partition, batch by batch; this is what a worker runs."""
    for component, parts in by_component(batches):
        auditor = Auditor(component)
        for part in parts:
            yield from to_batches(auditor.feed(tuples(part, _ROW)), RESULTS)
        yield from to_batches(auditor.cut_off(), RESULTS)
