"""Audit: the engine over each component of a lake, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.logs.audit import Auditor
from qflow.progress import Progress
from qflow.spark.lake import count_events, in_order, read_lake
from qflow.spark.parts import FORMAT, GrowingTable, Part, of_parts
from qflow.spark.tables import KEYS, LAKE, RESULTS, Schema, by_component, to_batches, tuples
from qflow.spark.workers import map_batches

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

_ROW = LAKE.names[1:]
_KEPT = Schema([*RESULTS, *KEYS])


def audit(
    lake: DataFrame,
    partitions: int | None = None,
    events: Mapping[str, int] | None = None,
    peak: Accumulator[int] | None = None,
) -> DataFrame:
    """Return intervals and findings of every component.

    Parameters:
        lake (DataFrame of LAKE): In any order.  What is missing of a component leaves findings.
        partitions, events: How many tasks, and how even, as for :func:`qflow.spark.lake.in_order`.
        peak: Takes the memory of the workers (:func:`qflow.spark.workers.peak_accumulator`).

    Returns:
        In no order; ``component`` and ``number`` are its key.
    """
    ordered = in_order(lake.select(*LAKE.names), partitions, events)
    return map_batches(ordered, _audit_batches, RESULTS, peak)


def audit_to(
    spark: SparkSession,
    lake: str | Path,
    out: str | Path,
    progress: Progress | None = None,
    peak: Accumulator[int] | None = None,
    form: str = FORMAT,
) -> DataFrame:
    """Audit what a lake holds and a table of results does not, and return the results of the whole lake."""
    rows, table = read_lake(spark, lake, form), GrowingTable(spark, out, form)
    wanted = GrowingTable(spark, lake, form).names()

    def audit_some(some: Sequence[Part]) -> DataFrame:
        new = of_parts(rows, some)
        # Of a lake with few parts each may be worth several tasks.
        return map_batches(in_order(new, events=count_events(new)), _audit_parts, _KEPT, peak)

    for done in table.fill(wanted, audit_some):
        if progress is not None:
            progress(done, len(wanted))
    return of_parts(results_with_keys(spark, out, form), wanted).select(*RESULTS.names)


def read_results(spark: SparkSession, folder: str | Path, form: str = FORMAT) -> DataFrame:
    """Return all results that :func:`audit_to` wrote there, of whatever day."""
    return results_with_keys(spark, folder, form).select(*RESULTS.names)


def results_with_keys(spark: SparkSession, folder: str | Path, form: str = FORMAT) -> DataFrame:
    """Return the same with the KEYS by which they grow."""
    frame = GrowingTable(spark, folder, form).frame()
    if frame is None:
        raise RefusalError(f"{folder}: there are no results of an audit")
    return frame


def _audit_parts(batches: Iterator[Any]) -> Iterator[Any]:
    """Audit the rows of one partition, and give each result the part of its component."""
    yield from _audit_batches(batches, KEYS.names)


def _audit_batches(batches: Iterator[Any], keys: Sequence[str] = ()) -> Iterator[Any]:
    """Audit the rows of one partition, batch by batch; this is what a worker runs."""
    table = _KEPT if keys else RESULTS
    for component, parts in by_component(batches):
        auditor = Auditor(component)
        own: tuple[Any, ...] = ()
        for part in parts:
            own = own or tuple(part.column(name)[0].as_py() for name in keys)
            results = auditor.feed(tuples(part, _ROW))
            yield from to_batches((result + own for result in results), table)
        yield from to_batches((result + own for result in auditor.cut_off()), table)
