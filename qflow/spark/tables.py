"""The tables of the fleet pipeline: each column's name, type and meaning, in one place.

A table gives its Spark and its Arrow schema, so that no job states a type of its own; :func:`tuples` and
:func:`to_batches` bring rows from the batches that Spark hands to a function, and back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from qflow.logs.log_file import MOST_ROWS
from qflow.trace.schema import Column


class Schema(tuple[Column, ...]):
    """The columns of a table, in order; their types are ``string``, ``bigint`` or ``double``.

    >>> Schema([Column("row", "bigint", "a number"), Column("reason", "string", "why")]).ddl
    'row bigint, reason string'
    """

    __slots__ = ()

    @property
    def ddl(self) -> str:
        """The schema as Spark reads it; names that are words of SQL are quoted."""
        return ", ".join(
            f"`{column.name}` {column.type}" if column.name in _SQL_WORDS else f"{column.name} {column.type}"
            for column in self
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self)

    def arrow(self) -> Any:
        """Return the schema as Arrow has it."""
        import pyarrow

        kinds = {"bigint": pyarrow.int64(), "string": pyarrow.string(), "double": pyarrow.float64()}
        return pyarrow.schema([pyarrow.field(column.name, kinds[column.type]) for column in self])


_SQL_WORDS = {"begin", "end", "group"}

_EVENT = (
    Column("ts_us", "bigint", "microseconds since the log's start; never negative here"),
    Column("client", "string", "a producer, a consumer, or broker for what the broker reported"),
    Column("event", "string", "one of qflow.logs.log_file.LOG_EVENTS; in a lake also begin and end"),
    Column("queue", "string", "consumers and reports: the queue; producers: the routing key or the exchange"),
    # Of error its text; of stats a JSON list; of begin what is no finding, [skew,lag] in microseconds.
    Column("label", "string", "the message"),
    Column("size", "bigint", "content bytes, or 0"),
    Column("group", "string", "the message's group, or empty"),
)

EVENTS = Schema(
    [
        Column("source", "string", "name of the log: one broker's recorded run"),
        Column("row", "bigint", "number of the event in its log, from 0"),
        *_EVENT,
    ]
)
"""What ingest gives: the good rows of all logs."""

LAKE = Schema(
    [
        Column("component", "string", "source/queue: the least name among the queues that belong together"),
        Column("seq", "bigint", "number of the event in its component, from 0 (begin), without gaps"),
        *_EVENT,
        Column("workload", "string", "begin: the component's workload, as JSON; else null"),
    ]
)
"""What layout writes; the last row of each component is its end."""

KEYS = Schema(
    [
        Column("day", "string", "the day that the rows belong to, as 2026-11-27, or undated"),
        Column("part", "string", "what the rows are made of, which part of it this is, and of how many"),
    ]
)
"""By what a table grows (qflow.spark.parts), after its own columns."""

QUARANTINE = Schema(
    [
        Column("source", "string", "name of the log"),
        Column("row", "bigint", "number of the row in its file, from 1; 0 for the file as a whole"),
        Column("column", "string", "the first column that makes no sense; empty for the row as a whole"),
        Column("reason", "string", "what is allowed, and what was got"),
        Column("values", "string", "what the file has there, at most 500 characters"),
    ]
)
"""Rows that were set aside, each with the reason."""

TOUCHES = Schema(
    [
        Column("source", "string", "name of the log"),
        Column("client", "string", "a client, or exchange and key of a binding"),
        Column("queue", "string", "a queue it touches"),
    ]
)
"""Who touches what: the small table from which components are found."""

COMPONENTS = Schema(
    [
        Column("source", "string", "name of the log"),
        Column("component", "string", "source/queue"),
        Column("member", "string", "a client or a queue"),
        Column("role", "string", "client or queue"),
    ]
)
"""Which component a client or a queue belongs to."""

RESULTS = Schema(
    [
        Column("component", "string", "source/queue"),
        Column("number", "bigint", "number of the result in its component, from 0: with it, the key"),
        Column("kind", "string", "flow_on, held, blocked, group_owned or finding"),
        Column("queue", "string", "the queue; of a blocked producer, the queues that hold its transfers"),
        Column("client", "string", "held, blocked: the producer; group_owned: the owner; else empty"),
        Column("subject", "string", "held: the message; group_owned: the group; finding: its kind"),
        Column("begin_us", "bigint", "when it began"),
        Column("end_us", "bigint", "when it ended; null if it still went on at the log's end"),
        Column("cause", "string", "flow_on: the message; held: resumed or dequeued; finding: another name"),
        Column("count", "bigint", "see COUNTS: of each kind another number"),
        Column("bytes", "bigint", "flow_on: depth in bytes; held: the message's bytes"),
        # Of findings only (qflow.logs.checks.Finding); the sentence is made of them last.
        Column("seq", "bigint", "number of the event that shows it, or 0"),
        Column("message", "string", "the message, or empty"),
        Column("seen", "bigint", "what was counted, or null"),
        Column("expected", "bigint", "what is allowed, or of how many, or null"),
        Column("gap_us", "bigint", "by how much too early or too late"),
        Column("depth_off", "bigint", "reports: sum of the differences of msgDepth"),
        Column("depth_off_most", "bigint", "reports: the largest of them"),
    ]
)
"""What the audit gives: intervals and findings, in one table, as a worker gives one."""

COUNTS = {"flow_on": "depth", "held": "stop", "blocked": "transfers", "finding": "number"}
"""What ``count`` is, by kind: when it began; which ON held it; how many it held; how many there are."""

MEASURES = Schema(
    [
        Column("component", "string", "source/queue"),
        Column("setting", "string", "name of the settings"),
        Column("section", "string", "queues, producers or consumers"),
        Column("name", "string", "the queue or the client"),
        Column("measure", "string", "such as share_on, max_depth, latency_p99 (qflow.prediction)"),
        Column("recorded", "double", "what was recorded, or null"),
        Column("predicted", "double", "what is predicted, or null"),
        Column(
            "low", "double", "of a queue, from what on it will lie in 80 of 100 cases; null of one replay"
        ),
        Column("high", "double", "and up to what"),
        Column("note", "string", "why there is no measure: refused by the broker, or too large"),
    ]
)
"""What a what-if gives."""

ADVICE = Schema(
    [
        Column("component", "string", "source/queue"),
        Column("queue", "string", "the queue; empty if the whole component was left out"),
        Column("line", "string", "a qpid-config line, or empty if the queue is left as it is"),
        Column("before", "string", "whether what is declared could or cannot overflow, or is not proved"),
        Column("reasons_before", "string", "why"),
        Column("reasons", "string", "why what is recommended cannot"),
        Column("evidence", "string", "JSON: capacities, and what both settings cost in simulation"),
        Column("note", "string", "why the queue is left as it is, or the component left out"),
    ]
)
"""What design gives: recommended settings of each queue, with the evidence."""


def tuples(batch: Any, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """Yield a batch's rows, with the named columns in that order."""
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def by_component(batches: Iterable[Any]) -> Iterator[tuple[str, Iterator[Any]]]:
    """Yield each component of a partition, with the slices of the batches that hold its rows, in order."""
    for component, runs in groupby(_runs(batches), itemgetter(0)):
        yield component, (part for _, part in runs)


def _runs(batches: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    import pyarrow.compute

    for batch in batches:
        encoded = pyarrow.compute.run_end_encode(batch.column("component"))
        start = 0
        for value, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
            yield value, batch.slice(start, end - start)
            start = end


def to_batches(rows: Iterable[Sequence[Any]], table: Schema, most: int = MOST_ROWS) -> Iterator[Any]:
    """Yield rows as batches of a table's schema, of so many rows at most."""
    schema = table.arrow()
    part: list[Sequence[Any]] = []
    for row in rows:
        part.append(row)
        if len(part) == most:
            yield _batch(part, schema)
            part = []
    if part:
        yield _batch(part, schema)


def _batch(rows: list[Sequence[Any]], schema: Any) -> Any:
    import pyarrow

    columns = zip(*rows, strict=True)
    arrays = [pyarrow.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)


def write_rows(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Write rows of LAKE to a file that appears whole or not at all."""
    import pyarrow
    from pyarrow import parquet

    # Spark passes over names that begin with an underscore.
    fresh = path.with_name(f"_{path.name}")
    parquet.write_table(pyarrow.Table.from_batches(to_batches(rows, LAKE), LAKE.arrow()), fresh)
    fresh.replace(path)
