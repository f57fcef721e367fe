"""Audit: the engine over each component of a lake, in constant memory.

The pipeline without Spark: the same functions on lists, for small logs, tests and comparison.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.logs.client_log import LogRow
from qflow.spark.auditor import BEGIN, END, Auditor, LakeRow, ResultRow
from qflow.spark.lake import lake_files, read_lake_file
from qflow.spark.steps import Steps, require_finished
from qflow.spark.tables import LAKE, RESULTS, runs, to_batches, tuples
from qflow.spark.touches import components_of, parts_of, touches_of
from qflow.spark.workers import freeze_modules, peak_memory
from qflow.workload.model import Workload

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
        :func:`qflow.spark.lake.write_lake` writes; of any other frame,
        :func:`qflow.spark.lake.in_order` makes one.  Rows that are not in order leave findings.

    Returns
    -------
    DataFrame of RESULTS
        In no order; ``component`` and ``number`` are its key.
    """
    return lake.select(*LAKE.names).mapInArrow(_audit_partition, RESULTS.ddl)


def audit_files(spark: SparkSession, files: Sequence[str], peak: Accumulator[int] | None = None) -> DataFrame:
    """Audit files of a lake, read by the workers themselves where they can: the same results, for less work.

    Rows that are only handed on need not go through the JVM and back.

    Parameters
    ----------
    spark : SparkSession
    files : sequence of str
        Some of what :func:`qflow.spark.lake.lake_files` gave: each holds whole components.
    peak : Accumulator or None
        Told the most memory that a worker took (:mod:`qflow.spark.workers`); not of files that only Spark
        can read.

    Returns
    -------
    DataFrame of RESULTS
        One file is one partition.
    """
    if "://" in files[0]:
        return audit(spark.read.parquet(*files))
    work = partial(_audit_numbered, files=tuple(files), peak=peak)
    return spark.range(0, len(files), 1, len(files)).mapInArrow(work, RESULTS.ddl)


def audit_to(
    spark: SparkSession,
    lake: str | Path,
    out: str | Path,
    tell: Callable[[int], None] | None = None,
    peak: Accumulator[int] | None = None,
) -> DataFrame:
    """Audit a lake into a folder, step by step; killed at any moment, it goes on where it was.

    Parameters
    ----------
    spark : SparkSession
    lake : str or Path
        Folder of the lake.
    out : str or Path
        Gets the results.  What it holds of another lake is replaced.
    tell : callable or None
        Told after each step how many files are done.
    peak : Accumulator or None
        As for :func:`audit_files`.

    Returns
    -------
    DataFrame of RESULTS

    Raises
    ------
    RefusalError
        If there is no lake, or it is not finished.
    """
    files = lake_files(spark, lake)
    decided_by = hashlib.sha256("\n".join(map(_last_part, files)).encode()).hexdigest()
    steps = Steps(spark, out, "the results of an audit", decided_by, files, replaces=True)
    for done in steps.run(partial(audit_files, spark, peak=peak)):
        if tell is not None:
            tell(done)
    return read_results(spark, out)


def read_results(spark: SparkSession, folder: str | Path) -> DataFrame:
    """Return the results that :func:`audit_to` wrote.

    Raises
    ------
    RefusalError
        If some are missing.
    """
    require_finished(spark, folder)
    return spark.read.schema(RESULTS.ddl).parquet(str(folder)).select(*RESULTS.names)


def _last_part(path: str) -> str:
    # Spark gives every file that it writes a name of its own.
    return path.rsplit("/", 1)[-1]


def _audit_partition(batches: Iterator[Any]) -> Iterator[Any]:
    freeze_modules()
    yield from audit_batches(batches)


def _audit_numbered(
    batches: Iterator[Any], files: Sequence[str], peak: Accumulator[int] | None
) -> Iterator[Any]:
    freeze_modules()
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


def lake_of(source: str, workload: Workload, rows: Sequence[LogRow]) -> dict[str, list[LakeRow]]:
    """Split a log by components, each with its begin and its end: what layout writes, in memory.

    Parameters
    ----------
    source : str
        Name of the log.
    workload : Workload
        What was run.
    rows : sequence of LogRow
        The log, in order.

    Returns
    -------
    dict
        Component to its rows.  Rows of clients and queues that the workload has not are left out.

    Examples
    --------
    >>> lake = lake_of("log", Workload("w", 1, {"q": {}}), [])
    >>> [row[3] for row in lake["log/q"]]
    ['begin', 'end']
    """
    components = components_of(touches_of(source, workload))
    lake: dict[str, list[LakeRow]] = {
        component: [(0, 0, "", BEGIN, "", text, 0, "")]
        for component, text in parts_of({source: workload}, components).items()
    }
    last = 0
    for row in rows:
        last = max(0, row.ts_us)
        role, member = ("queue", row.queue) if row.event == "stats" else ("client", row.client)
        component = components.get((source, role, member))
        if component is not None:
            part = lake[component]
            part.append((len(part), last, *row[1:]))
    for part in lake.values():
        part.append((len(part), last, "", END, "", "", 0, ""))
    return lake


def audit_in_memory(lake: Mapping[str, Iterable[LakeRow]]) -> list[ResultRow]:
    """Audit each component; results in order of component and number.

    Examples
    --------
    >>> audit_in_memory(lake_of("log", Workload("w", 1, {"q": {}}), []))
    []
    """
    results: list[ResultRow] = []
    for component in sorted(lake):
        auditor = Auditor(component)
        results += auditor.feed(lake[component])
        results += auditor.cut_off()
    return results


def result_hash(results: Iterable[Sequence[object]]) -> str:
    """Return a hash of results in any order: equal for equal results, however they came about.

    Parameters
    ----------
    results : iterable of rows
        Rows of RESULTS: tuples, or what Spark's ``collect`` gives.

    Examples
    --------
    >>> result_hash([("b", 1), ("a", 2)]) == result_hash([["a", 2], ["b", 1]])
    True
    """
    digest = hashlib.sha256()
    for line in sorted(json.dumps(list(row), separators=(",", ":")) for row in results):
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()
