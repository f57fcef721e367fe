"""Checkpoints: a component cut in time, so that its pieces can be audited at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from qflow.spark.auditor import Auditor, LakeRow, ResultRow
from qflow.spark.batches import runs, to_batches, tuples
from qflow.spark.schema import CHECKPOINTS, LAKE, RESULTS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Checkpoint = tuple[str, int, str]
"""A row of CHECKPOINTS."""


def record(component: str, rows: Iterable[LakeRow], every: int) -> Iterator[Checkpoint]:
    """Yield a checkpoint before the first and every so many events of a component.

    It takes one audit from start to end; audits after that can begin anywhere.

    Parameters
    ----------
    component : str
    rows : iterable of rows of LAKE, without the component
        In order.
    every : int
        Events between two checkpoints.
    """
    auditor = Auditor(component)
    iterator = iter(rows)
    while part := list(islice(iterator, every)):
        yield component, auditor.next_seq, auditor.state()
        auditor.feed(part)


def audit_piece(component: str, state: str, rows: Iterable[LakeRow], is_last: bool) -> list[ResultRow]:
    """Audit a component from a checkpoint to the next one, or to the end.

    The pieces' results, put together, are those of an audit in one go.
    """
    auditor = Auditor(component, state)
    results = auditor.feed(rows)
    return results + auditor.cut_off() if is_last else results


def record_checkpoints(lake: DataFrame, every: int) -> DataFrame:
    """Return checkpoints of every component of a lake.

    Parameters
    ----------
    lake : DataFrame of LAKE
        As for :func:`qflow.spark.audit.audit`.
    every : int
        Events between two checkpoints.

    Returns
    -------
    DataFrame of CHECKPOINTS
    """
    work = partial(_record_batches, every=every)
    return lake.select(*LAKE.names).mapInArrow(work, CHECKPOINTS.ddl)


def audit_from(lake: DataFrame, checkpoints: DataFrame, partitions: int) -> DataFrame:
    """Audit a lake in pieces between checkpoints, the pieces of one component on several workers.

    Parameters
    ----------
    lake : DataFrame of LAKE
        In any order.
    checkpoints : DataFrame of CHECKPOINTS
        The first of each component at ``seq`` 0.
    partitions : int
        How many tasks.

    Returns
    -------
    DataFrame of RESULTS
        The same as of an audit in one go.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as sf

    known = {(row.component, row.seq): row.state for row in checkpoints.select(*CHECKPOINTS.names).collect()}
    starts = lake.sparkSession.createDataFrame(
        [(component, seq) for component, seq in known], "component string, piece bigint"
    )
    by_component = Window.partitionBy("component").orderBy("piece")
    edges = starts.withColumn("next", sf.lead("piece").over(by_component))
    inside = (lake.seq >= sf.col("piece")) & (sf.col("next").isNull() | (lake.seq < sf.col("next")))
    placed = lake.join(sf.broadcast(edges), "component").where(inside)
    key = sf.concat_ws("@", "component", "piece")
    ordered = placed.withColumn("part", key).repartition(partitions, "part")
    ordered = ordered.sortWithinPartitions("component", "seq")
    last = dict(starts.groupBy("component").agg(sf.max("piece")).collect())
    work = partial(_piece_batches, states=known, last=last)
    return ordered.select(*LAKE.names, "piece").mapInArrow(work, RESULTS.ddl)


def _record_batches(batches: Iterator[Any], every: int) -> Iterator[Any]:
    auditor: Auditor | None = None
    for batch in batches:
        for component, part in runs(batch, "component"):
            if auditor is None or auditor.component != component:
                auditor = Auditor(component)
            start = 0
            while start < part.num_rows:
                due = auditor.next_seq % every
                if due == 0:
                    state = (component, auditor.next_seq, auditor.state())
                    yield from to_batches([state], CHECKPOINTS)
                length = min(every - due, part.num_rows - start)
                auditor.feed(tuples(part.slice(start, length), LAKE.names[1:]))
                start += length


def _piece_batches(
    batches: Iterator[Any], states: Mapping[tuple[str, int], str], last: Mapping[str, int]
) -> Iterator[Any]:
    auditor: Auditor | None = None
    current: tuple[str, int] = ("", -1)
    for batch in batches:
        results: Sequence[ResultRow] = []
        for component, of_component in runs(batch, "component"):
            for piece, part in runs(of_component, "piece"):
                if (component, piece) != current or auditor is None:
                    results = [*results, *_ended(auditor, current, last)]
                    current = (component, piece)
                    auditor = Auditor(component, states[current])
                results = [*results, *auditor.feed(tuples(part, LAKE.names[1:]))]
        yield from to_batches(results, RESULTS)
    yield from to_batches(_ended(auditor, current, last), RESULTS)


def _ended(auditor: Auditor | None, current: tuple[str, int], last: Mapping[str, int]) -> list[ResultRow]:
    if auditor is None or last[current[0]] != current[1]:
        return []
    return auditor.cut_off()
