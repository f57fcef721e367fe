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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args, get_type_hints

from qflow.kit import RefusalError
from qflow.logs.findings import Result
from qflow.logs.log_file import MOST_ROWS, LakeRow
from qflow.progress import Progress
from qflow.trace.files import QuarantinedRow

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TYPES = {str: "string", int: "bigint", float: "double"}


class Schema(dict[str, str]):
    """The columns of a table, in order, each with its type: ``string``, ``bigint`` or ``double``."""

    @classmethod
    def of(cls, record: type[tuple[Any, ...]]) -> Schema:
        """Return the columns of records; where one may be None, the column may be null."""
        hints = get_type_hints(record).items()
        return cls({name: next(_TYPES[kind] for kind in (hint, *get_args(hint)) if kind in _TYPES)
                    for name, hint in hints})  # fmt: skip

    @property
    def ddl(self) -> str:
        """The schema as Spark reads it, names in quotes as some are words of SQL."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self.items())

    def arrow(self) -> Any:
        """Return the schema as Arrow has it."""
        import pyarrow

        kinds = {"bigint": pyarrow.int64(), "string": pyarrow.string(), "double": pyarrow.float64()}
        return pyarrow.schema([pyarrow.field(name, kinds[kind]) for name, kind in self.items()])


LAKE = Schema(
    component="string",  # source/queue: the least name among the queues that belong together.
    **Schema.of(LakeRow),
)
"""What ingest writes; the first row of each component is its begin, with its workload, the last its end."""

KEYS = Schema(
    day="string",  # The day that the rows belong to, as 2026-11-27, or undated.
    part="string",  # What the rows are made of, which part of it this is, and of how many.
)
"""By what a table grows, after its own columns."""

QUARANTINE = Schema(source="string", **Schema.of(QuarantinedRow))
"""Rows that were set aside, each with its log and the reason; row 0 is the file as a whole."""

RESULTS = Schema.of(Result)
"""What the audit gives: intervals and findings, in one table, as a worker gives one."""


class Measure(NamedTuple):
    """A row of MEASURES."""

    component: str
    setting: str
    section: str = ""  # queues, producers or consumers.
    name: str = ""  # The queue or the client.
    measure: str = ""  # Such as share_on, max_depth, latency_p99 (qflow.workload.measures).
    recorded: float | None = None
    predicted: float | None = None
    low: float | None = None  # From what on it will lie in 80 of 100 cases; null of one replay.
    high: float | None = None
    note: str = ""  # Why there is no measure: refused by the broker, or too large.


MEASURES = Schema.of(Measure)
"""What a what-if gives."""


class Advice(NamedTuple):
    """A row of ADVICE."""

    component: str
    queue: str = ""  # Empty if the whole component was left out.
    line: str = ""  # A qpid-config line, or empty if the queue is left as it is.
    before: str = ""  # Whether what is declared could or cannot overflow, or is not proved.
    reasons_before: str = ""
    reasons: str = ""  # Why what is recommended cannot.
    evidence: str = ""  # JSON: capacities, and what both settings cost in simulation.
    note: str = ""  # Why the queue is left as it is, or the component left out.


ADVICE = Schema.of(Advice)
"""What design gives: recommended settings of each queue, with the evidence."""


def tuples(batch: Any, names: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Yield a batch's rows, with the named columns in that order."""
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def lake_rows(batch: Any) -> Iterator[LakeRow]:
    """Yield the rows of a batch of LAKE, without the component."""
    return map(LakeRow._make, tuples(batch, LakeRow._fields))


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
    """Yield rows as batches of a table's schema, up to a given size."""
    import pyarrow

    schema, rows = table.arrow(), iter(rows)
    while part := list(islice(rows, most)):
        columns = zip(zip(*part, strict=True), schema.types, strict=True)
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array(*column) for column in columns], schema=schema)


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
    """Return the names of the parts of one thing: ``c0ffee-00000-00002``, ..."""
    return [f"{digest}-{number:05d}-{total:05d}" for number in range(total)]


class GrowingTable:
    """A table of parts, read and written by Spark alone: on this machine, HDFS, an object store."""

    def __init__(self, spark: SparkSession, place: str | Path, form: str = FORMAT) -> None:
        self.place = str(place)
        self._spark, self._form = spark, form

    @cached_property
    def frame(self) -> DataFrame | None:
        """The existing rows with their KEYS, or None; tables of other makers have a part for each file."""
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
        if set(KEYS) <= set(names):
            # Spark takes what looks like a date for one.
            return frame.withColumn("day", sf.col("day").cast("string"))
        place, changed = sf.col("_metadata.file_path"), sf.col("_metadata.file_modification_time")
        file = sf.substring(sf.sha2(sf.concat(place, changed.cast("string")), 256), 1, 12)
        part = sf.concat(file, sf.lit("-00000-00001")).alias("part")
        return frame.select("*", sf.lit(NO_DAY).alias("day"), part)

    def read(self, table: Schema, what: str) -> DataFrame | None:
        """Return the existing table with its KEYS, or None; refuse one that lacks a column."""
        frame = self.frame
        if frame is None:
            return None
        types = dict(frame.dtypes)
        for name, kind in table.items():
            got = types.get(name)
            if got != kind:
                found = "missing" if got is None else f"of type {got}"
                raise RefusalError(
                    f"{self.place}: {what} the column {name} of type {kind}, here it is {found}; "
                    "what another version wrote has to be made again, in a new folder"
                )
        return frame.select(*table, *KEYS)

    def parts(self) -> set[Part]:
        """Return the names of the parts present."""
        frame = self.frame
        rows = [] if frame is None else frame.select(*KEYS).distinct().collect()
        return {(row.day, row.part) for row in rows}

    def write(self, frame: DataFrame) -> None:
        """Write all parts that a frame holds."""
        writing = frame.write.format(self._form).mode("overwrite")
        writing.option("partitionOverwriteMode", "dynamic").partitionBy(*KEYS).save(self.place)
        vars(self).pop("frame", None)

    def fill(
        self,
        wanted: Iterable[Part],
        make: Callable[[Sequence[Part]], DataFrame],
        progress: Progress | None = None,
    ) -> None:
        """Write the wanted parts that are missing, some at once."""
        wanted, there = set(wanted), self.parts()
        todo = sorted(wanted - there)
        for start in range(0, len(todo), AT_ONCE):
            some = todo[start : start + AT_ONCE]
            self.write(make(some))
            if progress is not None:
                progress(len(wanted) - len(todo) + start + len(some), len(wanted))


def missing_of(parts: Iterable[str]) -> tuple[int, int] | None:
    """Return the numbers of missing parts and of all parts of one thing; None if all are present.

    >>> missing_of(["a-00000-00001", "b-00002-00003"]), missing_of(["a-00000-00001"])
    ((2, 3), None)
    """
    there: Counter[tuple[str, int]] = Counter()
    for part in parts:
        made_of, _, total = part.rsplit("-", 2)
        there[made_of, int(total)] += 1
    return next(((total - some, total) for (_, total), some in sorted(there.items()) if some < total), None)


def of_parts(frame: DataFrame, parts: Iterable[Part]) -> DataFrame:
    """Return the rows of some parts; Spark reads no others."""
    return frame.where(frame.part.isin([name for _, name in parts]))
