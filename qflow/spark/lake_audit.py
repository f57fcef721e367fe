"""Audit: the engine over each component of a lake, in constant memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.logs.audit import Auditor
from qflow.progress import Progress
from qflow.spark.cuts import CUT_ROWS, CutAudit, find_cuts
from qflow.spark.lake import count_events, in_order, read_lake
from qflow.spark.tables import (
    FORMAT,
    KEYS,
    LAKE,
    RESULTS,
    GrowingTable,
    Schema,
    by_component,
    of_parts,
    to_batches,
    tuples,
)
from qflow.spark.workers import map_batches

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

_ROW = LAKE.names[1:]
_KEPT = Schema([*RESULTS, *KEYS])


def audit(lake: DataFrame, partitions: int | None = None) -> DataFrame:
    """Return intervals and findings of every component.

    Parameters:
        lake (DataFrame of LAKE): In any order.  What is missing of a component leaves findings.
        partitions: How many tasks; None: as many as the session has for every shuffle.

    Returns:
        RESULTS, in no order; ``component`` and ``number`` are its key.
    """
    return map_batches(in_order(lake.select(*LAKE.names), partitions), _audit_batches, RESULTS)


class LargeAudit:
    """An audit that cuts components of more than so many rows, where it pays (:mod:`qflow.spark.cuts`)."""

    def __init__(self, peak: Accumulator[int] | None = None, cut: int = CUT_ROWS) -> None:
        self._peak, self._cut = peak, cut
        self._cuts: list[CutAudit] = []

    def results(self, lake: DataFrame, table: Schema = RESULTS) -> DataFrame:
        """Return intervals and findings of every component, with what the table has after RESULTS."""
        events = count_events(lake)
        places = find_cuts(lake, events, self._cut)
        is_cut = lake.component.isin(list(places))
        parts = []
        whole = {name: count for name, count in events.items() if name not in places}
        if whole or not places:
            rows = lake.where(~is_cut).select(*LAKE.names, *table.names[len(RESULTS) :])
            work = partial(_audit_batches, table=table)
            parts.append(map_batches(in_order(rows, events=whole or None), work, table, self._peak))
        if places:
            self._cuts.append(CutAudit(lake.where(is_cut), places, events, table, self._peak))
            parts.append(self._cuts[-1].results())
        return reduce(lambda some, more: some.unionByName(more), parts)

    def release(self) -> None:
        """Let go of what Spark keeps of the pieces."""
        while self._cuts:
            self._cuts.pop().release()


def audit_to(
    spark: SparkSession,
    lake: str | Path,
    out: str | Path,
    progress: Progress | None = None,
    peak: Accumulator[int] | None = None,
    form: str = FORMAT,
    cut: int = CUT_ROWS,
) -> DataFrame:
    """Audit what a lake holds and a table of results does not, and return the results of the whole lake."""
    rows, table = read_lake(spark, lake, form), GrowingTable(spark, out, form)
    wanted = GrowingTable(spark, lake, form).names()
    audit = LargeAudit(peak, cut)
    # Of a lake with few parts each may be worth several tasks.
    for done in table.fill(wanted, lambda some: audit.results(of_parts(rows, some), _KEPT)):
        audit.release()
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


def _audit_batches(batches: Iterator[Any], table: Schema = RESULTS) -> Iterator[Any]:
    """Audit the rows of one partition, batch by batch; each result gets what the table has after RESULTS."""
    keys = table.names[len(RESULTS) :]
    for component, parts in by_component(batches):
        auditor = Auditor(component)
        own: tuple[Any, ...] = ()
        for part in parts:
            own = own or tuple(part.column(name)[0].as_py() for name in keys)
            results = auditor.feed(tuples(part, _ROW))
            yield from to_batches((result + own for result in results), table)
        yield from to_batches((result + own for result in auditor.cut_off()), table)
