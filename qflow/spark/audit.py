"""Audit: the engine over each component of a lake, in constant memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.spark.auditor import Auditor
from qflow.spark.batches import runs, to_batches, tuples
from qflow.spark.lake_file import read_lake_file
from qflow.spark.layout import lake_files
from qflow.spark.schema import LAKE, RESULTS
from qflow.spark.steps import Steps, require_finished, step_count
from qflow.spark.worker_memory import peak_accumulator, peak_memory

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

_ROW = LAKE.names[1:]


def audit(lake: DataFrame) -> DataFrame:
    """Return intervals and findings of every component.

    Parameters
    ----------
    lake : DataFrame of LAKE
        In each partition a component's rows stand together and in order of ``seq``, as in the files that
        :func:`qflow.spark.layout.write_lake` writes; of any other frame,
        :func:`qflow.spark.layout.in_order` makes one.  Rows that are not in order leave findings.

    Returns
    -------
    DataFrame of RESULTS
        In no order; ``component`` and ``number`` are its key.
    """
    return lake.select(*LAKE.names).mapInArrow(audit_batches, RESULTS.ddl)


def audit_files(spark: SparkSession, files: Sequence[str], peak: Accumulator[int] | None = None) -> DataFrame:
    """Audit files of a lake, which the workers read themselves: the same results, for less work.

    Rows that are only handed on need not go through the JVM and back.

    Parameters
    ----------
    spark : SparkSession
    files : sequence of str
        Paths that the workers can read, each a file of a lake, with whole components.
    peak : Accumulator or None
        Told the most memory that a worker took (:mod:`qflow.spark.worker_memory`).

    Returns
    -------
    DataFrame of RESULTS
        One file is one partition.
    """
    work = partial(_audit_numbered, files=tuple(files), peak=peak)
    return spark.range(0, len(files), 1, max(1, len(files))).mapInArrow(work, RESULTS.ddl)


def audit_to(
    spark: SparkSession,
    lake: str | Path,
    out: str | Path,
    tell: Callable[[int, int], None] | None = None,
) -> DataFrame:
    """Audit a lake into a folder, step by step; killed at any moment, it goes on where it was.

    Parameters
    ----------
    spark : SparkSession
    lake : str or Path
        Folder of the lake, which driver and workers can read.
    out : str or Path
        Gets the results.  What it holds of another lake is replaced.
    tell : callable or None
        Told after each step how many files are done, and the most bytes that a worker took so far.

    Returns
    -------
    DataFrame of RESULTS

    Raises
    ------
    RefusalError
        If there is no lake, or it is not finished.
    """
    files = lake_files(spark, lake)
    names = "\n".join(
        f"{Path(file).relative_to(Path(lake).absolute())} {os.stat(file).st_size}" for file in files
    )
    plan = {"audit of": hashlib.sha256(names.encode()).hexdigest(), "steps": step_count(len(files))}
    peak = peak_accumulator(spark)
    for done in Steps(out, plan, replaces=True).run(files, partial(audit_files, spark, peak=peak)):
        if tell is not None:
            tell(done, peak.value)
    return read_results(spark, out)


def read_results(spark: SparkSession, folder: str | Path) -> DataFrame:
    """Return the results in a folder."""
    require_finished(folder)
    return spark.read.schema(RESULTS.ddl).parquet(str(folder)).select(*RESULTS.names)


def _audit_numbered(
    batches: Iterator[Any], files: Sequence[str], peak: Accumulator[int] | None
) -> Iterator[Any]:
    for batch in batches:
        for number in batch.column("id").to_pylist():
            yield from audit_batches(read_lake_file(files[number]))
    if peak is not None:
        peak.add(peak_memory())


def audit_batches(batches: Iterator[Any]) -> Iterator[Any]:
    """Audit the rows of one partition, batch by batch; this is what a worker runs."""
    auditor: Auditor | None = None
    for batch in batches:
        results: list[Any] = []
        for component, part in runs(batch, "component"):
            if auditor is None or auditor.component != component:
                if auditor is not None:
                    results += auditor.cut_off()
                auditor = Auditor(component)
            results += auditor.feed(tuples(part, _ROW))
        yield from to_batches(results, RESULTS)
    if auditor is not None:
        yield from to_batches(auditor.cut_off(), RESULTS)
