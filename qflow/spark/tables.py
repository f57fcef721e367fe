"""The tables of the fleet pipeline: each column's name, type and meaning, and how tables grow.

A :class:`Schema` gives Spark and Arrow their types, so that no job states a type of its own; :func:`tuples`
and :func:`to_batches` convert Arrow batches to rows and back.

A :class:`GrowingTable` grows by day and by part, wherever Spark can write one. The name of a part holds a
digest of the inputs of the run that made it, and a number. Spark commits a part whole or not at all, and a
part that is written again replaces the old one: so long work is stored part by part and resumes with the
first missing part. When all parts of a run are there, a last one named ``done`` says so; parts of a run
without it, which was killed, count for nothing until the same run is repeated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from qflow.writing import write_whole

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

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
"""Rows of a lake; each component's first row is its begin, with its workload, and its last row its end."""

KEYS = Schema(
    day="string",  # The day that the rows belong to, as 2026-11-27, or undated.
    part="string",  # Digest of the inputs, and the number of this part.
)
"""The columns that partition a growing table, after its own columns."""

QUARANTINE = Schema(source="string", **Schema.of(QuarantinedRow))
"""Quarantined rows, each with its log and the reason; row 0 is the log as a whole."""


class LogFacts(NamedTuple):
    """A log's clock and cleaning; a lake has them as JSON in the ``group`` of each component's begin."""

    # The counts are in the begin of a log's first component only, so that sums over components are right.
    source: str = ""
    origin_us: int | None = None  # Microseconds from 1970 to the log's time 0; null for a log without a date.
    zone: str = "UTC"
    made_of: str = ""  # Digest of what the log was read from.
    rows: int = 0
    quarantined: int = 0
    duplicates: int = 0
    missing: int = 0  # By the rows' own numbers.
    gaps: int = 0  # Spans of time of which rows are missing.
    unjudged: int = 0  # Messages of which a row was quarantined.
    blocks: int = 0  # Rows that say when a producer was blocked; a log without them does not show it.

    def text(self) -> str:
        """Return the facts as JSON text."""
        return json.dumps(self._asdict(), separators=(",", ":"))


FACTS = Schema.of(LogFacts)

RESULTS = Schema.of(Result)
"""The audit's intervals and findings, in one table: a job on Spark has one output."""


class Measure(NamedTuple):
    """A row of MEASURES."""

    component: str
    setting: str
    section: str = ""  # queues, producers or consumers.
    name: str = ""  # The queue or the client.
    measure: str = ""  # Such as share_on, max_depth, latency_p99 (qflow.workload.measures).
    recorded: float | None = None
    predicted: float | None = None
    low: float | None = None  # Lower bound of the 80 % prediction interval; null for a single replay.
    high: float | None = None
    note: str = ""  # Why there is no measure, or why it is a bound: a demand that the log does not show.


MEASURES = Schema.of(Measure)
"""The results of a what-if."""


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
"""The recommended settings of each queue, with the evidence."""


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
        # Rows come sorted by component: Arrow finds the borders without an object for each row.
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


def frame_of(spark: SparkSession, rows: Iterable[Sequence[Any]], table: Schema) -> DataFrame:
    """Return a few rows of the driver as a frame."""
    from pyspark.sql import functions as sf

    # Spark's own way brings a list to Java through a Python worker, one of another kind than those of Arrow's
    # batches: on one machine it held 110 MB in three processes, to mark a run as complete.
    text = json.dumps([dict(zip(table, row, strict=True)) for row in rows])
    parsed = sf.from_json(sf.lit(text), f"array<struct<{table.ddl.replace('` ', '`:')}>>")
    return spark.range(0, 1, 1, 1).select(sf.inline(parsed))


def write_rows(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Write rows of LAKE to a file that appears whole or not at all."""
    import pyarrow
    from pyarrow import parquet

    # Spark passes over the temporary file, whose name begins with a dot.
    with write_whole(path) as fresh:
        parquet.write_table(pyarrow.Table.from_batches(to_batches(rows, LAKE), LAKE.arrow()), fresh)


# Tables that grow

AT_ONCE = 64
"""Parts that are written at once: enough that all cores are busy, few enough that little is lost."""

FORMAT = "parquet"
"""The default format of a table; others that the session has, such as ``delta``, can be named."""

NO_DAY = "undated"
"""The day of results without a day."""

_DONE = "-done"
"""The end of the name of a run's last part, a row with the digests of the runs that it replaces."""

Part = tuple[str, str]
"""Its day and its name: a row of KEYS."""


def digest_of(*decided_by: object) -> str:
    """Return a digest of the inputs that determine a table's rows."""
    return hashlib.sha256(repr(decided_by).encode()).hexdigest()[:12]


def part_names(digest: str, total: int) -> list[str]:
    """Return the names of the parts of one run: ``c0ffee-00000``, ..."""
    return [f"{digest}-{number:05d}" for number in range(total)]


def run_of(part: Part) -> Part:
    """Return the day and the digest of the run that made a part.

    >>> run_of(("2026-11-27", "c0ffee-00001"))
    ('2026-11-27', 'c0ffee')
    """
    day, name = part
    return day, name.partition("-")[0]


def absolute(place: str | Path) -> str:
    """Return an address as it is, and a local path made absolute."""
    # A worker of a cluster has another working directory than the driver.
    return str(place) if "://" in str(place) else str(Path(place).absolute())


def shuffle_partitions(spark: SparkSession) -> int:
    """Return the session's number of shuffle partitions."""
    # Some services set a word, such as auto. Spark has a default of its own for the first name only.
    given = [
        spark.conf.get("spark.sql.shuffle.partitions"),
        spark.conf.get("spark.default.parallelism", None),
    ]
    return next((int(text) for text in given if text and text.isdecimal()), 200)


_NO_TABLE = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
"""Spark's error conditions for a place that does not exist, and for one without a file."""


def _condition_of(error: Exception) -> str | None:
    """Return the condition by which Spark names an error; None for an error of Java's own."""
    # Spark 3.5 called it the error's class.
    ask = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    return ask() if ask is not None else None


class GrowingTable:
    """A table of parts, read and written by Spark alone: on this machine, HDFS, an object store."""

    def __init__(self, spark: SparkSession, place: str | Path, form: str = FORMAT) -> None:
        self.place = absolute(place)
        self.has_runs = True
        self.spark, self._form = spark, form
        self._written: DataFrame | None = None

    # What is known of a table is kept until its next write: each costs Spark a listing of files or a job.

    @cached_property
    def frame(self) -> DataFrame | None:
        """The existing rows with their KEYS, or None; a foreign table has a part for each file."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as sf

        try:
            if not self._has_files():
                return None
            frame = self.spark.read.format(self._form).load(self.place)
            names = frame.columns
        except (PySparkException, Py4JError) as error:
            # Over Spark Connect only the attempt to read tells; the condition of its error is documented.
            if _condition_of(error) in _NO_TABLE:
                return None
            words = " ".join(str(error).split())[:300]
            raise RefusalError(f"{self.place}: no table can be read there: {words}") from None
        if set(KEYS) <= set(names):
            # Spark infers a date from the folder's name.
            return frame.withColumn("day", sf.col("day").cast("string"))
        # A table of another program has no runs: each file is a part, named after its path and time, so a
        # rewritten file counts as a new one and is audited again.
        place, changed = sf.col("_metadata.file_path"), sf.col("_metadata.file_modification_time")
        file = sf.substring(sf.sha2(sf.concat(place, changed.cast("string")), 256), 1, 12)
        self.has_runs = False
        part = sf.concat(file, sf.lit("-00000")).alias("part")
        return frame.select("*", sf.lit(NO_DAY).alias("day"), part)

    def _has_files(self) -> bool:
        java: Any = getattr(self.spark, "_jvm", None)
        # Spark Connect gives no way to Java: there the attempt to read has to tell.
        if java is None:
            return True
        place = java.org.apache.hadoop.fs.Path(self.place)
        files = place.getFileSystem(self.spark._jsc.hadoopConfiguration())
        return bool(files.exists(place)) and len(files.listStatus(place)) > 0

    def read(self, table: Schema, what: str) -> DataFrame | None:
        """Return the existing table with its KEYS, or None; refuse one that lacks a column."""
        frame = self.frame
        if frame is None:
            return None
        types = dict(frame.dtypes)
        for name, kind in table.items():
            got = types.get(name)
            if got != kind:
                found = "missing" if got is None else f"type {got}"
                raise RefusalError(
                    f"{self.place}: {what} the column {name} of type {kind}, here it is {found}; "
                    "what another version wrote has to be made again, in a new folder"
                )
        is_ended = frame.part.endswith(_DONE) | run_names(frame).isin(sorted(self._replaced()))
        return frame.where(~is_ended).select(*table, *KEYS)

    @cached_property
    def parts(self) -> set[Part]:
        """The names of the parts present, those of killed runs too, without those of replaced runs."""
        frame = self.frame
        rows = [] if frame is None else frame.select(*KEYS).distinct().collect()
        found = {(row.day, row.part) for row in rows if not row.part.endswith(_DONE)}
        return {part for part in found if run_of(part)[1] not in self._replaced()}

    @cached_property
    def _ended(self) -> dict[Part, str]:
        frame = self.frame
        if frame is None or not self.has_runs:
            return {}
        # The row that marks a run as complete keeps the digests of the replaced runs in the first column,
        # text in each of our tables: a column of their own would be null in all other rows.
        rows = frame.where(frame.part.endswith(_DONE)).select(frame.columns[0], *KEYS).collect()
        return {run_of((day, part)): words or "" for words, day, part in rows}

    def _replaced(self) -> set[str]:
        return {digest for words in self._ended.values() for digest in words.split()}

    def done_runs(self) -> dict[Part, str]:
        """Return the completed runs, each with the digests of the runs that it replaces."""
        return {run: words for run, words in self._ended.items() if run[1] not in self._replaced()}

    def done_parts(self) -> set[Part]:
        """Return the names of the valid parts: those of completed runs, or all parts of a foreign table."""
        runs = self.done_runs()
        return {part for part in self.parts if not self.has_runs or run_of(part) in runs}

    def finish(self, runs: Mapping[Part, str]) -> None:
        """Mark some runs as complete, each with the digests of the runs that it replaces."""
        frame = self._written or self.frame
        if frame is not None and runs:
            none = [None] * (len(frame.columns) - len(KEYS) - 1)
            ends = [(words, *none, day, digest + _DONE) for (day, digest), words in sorted(runs.items())]
            self.write(frame_of(self.spark, ends, Schema(frame.dtypes)))

    def write(self, frame: DataFrame) -> None:
        """Write all parts that a frame holds."""
        writing = frame.write.format(self._form).mode("overwrite")
        # By Spark's default an overwrite removes every other part too. An option of this write, as the
        # setting belongs to the user's session.
        writing.option("partitionOverwriteMode", "dynamic").partitionBy(*KEYS).save(self.place)
        self._written = frame
        for name in ("frame", "parts", "_ended"):
            vars(self).pop(name, None)

    def fill(
        self,
        wanted: Iterable[Part],
        make: Callable[[Sequence[Part]], DataFrame],
        progress: Progress | None = None,
        at_once: int | None = None,
    ) -> None:
        """Write the wanted parts that are missing, some at once."""
        wanted, there = set(wanted), self.parts
        todo = sorted(wanted - there)
        at_once = at_once or AT_ONCE
        for start in range(0, len(todo), at_once):
            some = todo[start : start + at_once]
            self.write(make(some))
            if progress is not None:
                progress(len(wanted) - len(todo) + start + len(some), len(wanted))


def run_names(frame: DataFrame) -> Column:
    """Return the digest of the run that made each row's part."""
    from pyspark.sql import functions as sf

    return sf.substring_index(frame.part, "-", 1)


def of_parts(frame: DataFrame, parts: Iterable[Part]) -> DataFrame:
    """Return the rows of some parts; Spark reads no others."""
    return frame.where(frame.part.isin([name for _, name in parts]))
