"""The tables of the fleet pipeline: each column's name, type and meaning, and how tables grow.

A :class:`Schema` gives what Spark and Arrow ask for, so that no job states a type of its own; :func:`tuples`
and :func:`to_batches` bring rows from the batches that Spark hands to a function, and back.

A :class:`GrowingTable` grows by day and by part, wherever Spark can write one. Spark commits a part whole or
not at all, and a part that is written again takes the place of what was there. So long work is kept part by
part, and goes on with the first that is missing; what is done again changes nothing; and what is new is told
from what was there. The name of a part says what it is made of, and how many such parts there are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.logs.log_file import MOST_ROWS
from qflow.trace.schema import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Schema(tuple[Column, ...]):
    """The columns of a table, in order; their types are ``string``, ``bigint`` or ``double``."""

    __slots__ = ()

    @property
    def ddl(self) -> str:
        """The schema as Spark reads it, names in quotes as some are words of SQL."""
        return ", ".join(f"`{column.name}` {column.type}" for column in self)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(column.name for column in self)

    def arrow(self) -> Any:
        """Return the schema as Arrow has it."""
        import pyarrow

        kinds = {"bigint": pyarrow.int64(), "string": pyarrow.string(), "double": pyarrow.float64()}
        return pyarrow.schema([pyarrow.field(column.name, kinds[column.type]) for column in self])


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
"""By what a table grows, after its own columns."""

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


# Tables that grow

AT_ONCE = 64
"""Parts that are written at once: enough that all cores are busy, few enough that little is lost."""

FORMAT = "parquet"
"""What a table is, unless another format is named that Spark has, such as ``delta``."""

NO_DAY = "undated"
"""The day of what belongs to none."""

Part = tuple[str, str]
"""Its day and its name: a row of KEYS."""


def digest_of(*decided_by: object) -> str:
    """Return a short name for what decides a table's rows."""
    return hashlib.sha256(repr(decided_by).encode()).hexdigest()[:12]


def part_names(digest: str, total: int) -> list[str]:
    """Return the names of so many parts that are made of one thing: ``c0ffee-00000-00002``, ..."""
    return [f"{digest}-{number:05d}-{total:05d}" for number in range(total)]


class GrowingTable:
    """A table of parts, read and written by Spark alone: on this machine, HDFS, an object store."""

    def __init__(self, spark: SparkSession, place: str | Path, form: str = FORMAT) -> None:
        self.place = str(place)
        self._spark, self._form = spark, form

    def frame(self) -> DataFrame | None:
        """Return what is there with its KEYS, or None; what others wrote without has a part for each file."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as sf

        try:
            frame = self._spark.read.format(self._form).load(self.place)
            names = frame.columns
        except (PySparkException, Py4JError) as error:
            words = " ".join(str(error).split())[:300]
            if "PATH_NOT_FOUND" in words or "UNABLE_TO_INFER_SCHEMA" in words:
                return None
            raise RefusalError(f"{self.place}: no table can be read there: {words}") from None
        if set(KEYS.names) <= set(names):
            # Spark takes what looks like a date for one.
            return frame.withColumn("day", sf.col("day").cast("string"))
        place, changed = sf.col("_metadata.file_path"), sf.col("_metadata.file_modification_time")
        file = sf.substring(sf.sha2(sf.concat(place, changed.cast("string")), 256), 1, 12)
        part = sf.concat(file, sf.lit("-00000-00001")).alias("part")
        return frame.select("*", sf.lit(NO_DAY).alias("day"), part)

    def names(self) -> set[Part]:
        """Return which parts are there."""
        frame = self.frame()
        rows = [] if frame is None else frame.select(*KEYS.names).distinct().collect()
        return {(row.day, row.part) for row in rows}

    def require_whole(self) -> None:
        """Refuse a table of which a part is missing."""
        missing = missing_of(part for _, part in self.names())
        if missing:
            raise RefusalError(
                f"{self.place}: {missing[0]} of {missing[1]} parts are missing; "
                "the command that made it goes on where it was"
            )

    def write(self, frame: DataFrame) -> None:
        """Write all parts that a frame holds."""
        writing = frame.write.format(self._form).mode("overwrite")
        writing.option("partitionOverwriteMode", "dynamic").partitionBy(*KEYS.names).save(self.place)

    def fill(
        self, wanted: Iterable[Part], make: Callable[[Sequence[Part]], DataFrame], at_once: int | None = None
    ) -> Iterator[int]:
        """Write the wanted parts that are missing, some at once; yield how many are done after each time."""
        wanted, there, at_once = sorted(wanted), self.names(), at_once or AT_ONCE
        todo = [part for part in wanted if part not in there]
        for start in range(0, len(todo), at_once):
            some = todo[start : start + at_once]
            self.write(make(some))
            yield len(wanted) - len(todo) + start + len(some)


def missing_of(parts: Iterable[str]) -> tuple[int, int] | None:
    """Return how many parts of one thing are missing, and of how many; None if none is.

    >>> missing_of(["a-00000-00001", "b-00002-00003"]), missing_of(["a-00000-00001"])
    ((2, 3), None)
    """
    there: dict[tuple[str, int], int] = {}
    for part in parts:
        made_of, _, total = part.rsplit("-", 2)
        there[made_of, int(total)] = there.get((made_of, int(total)), 0) + 1
    return next(((total - some, total) for (_, total), some in sorted(there.items()) if some < total), None)


def of_parts(frame: DataFrame, parts: Iterable[Part]) -> DataFrame:
    """Return the rows of some parts; Spark reads no others."""
    names = [name for _, name in parts]
    return frame.where(frame.part.isin(names))
