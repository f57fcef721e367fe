"""Tables: the columns of the fleet pipeline's tables with their types and meanings, and tables that grow.

A :class:`Schema` defines the types of a table's columns for Spark and Arrow in one place; :func:`tuples` and
:func:`to_batches` convert Arrow batches to rows and back.

A :class:`GrowingTable` consists of parts, which belong to days, and may be anywhere that Spark can write. The
name of a part consists of a digest of the inputs of its run and a number. Spark commits a part completely or
not at all, and writing a part again replaces it. So a long run is stored part by part, and a repeated run
continues with the first missing part. When all parts of a run are written, a last part whose name ends in
``-done`` marks the run as complete. The parts of an interrupted run have no such mark, and are ignored until
the same run is repeated.
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
        """Return the columns for the fields of a record; a field that may be None may be null."""
        hints = get_type_hints(record).items()
        return cls({name: next(_TYPES[kind] for kind in (hint, *get_args(hint)) if kind in _TYPES)
                    for name, hint in hints})  # fmt: skip

    @property
    def ddl(self) -> str:
        """The schema in Spark's notation, with quoted names, as some are keywords of SQL."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self.items())

    def arrow(self) -> Any:
        """Return the schema as an Arrow schema."""
        import pyarrow

        kinds = {"bigint": pyarrow.int64(), "string": pyarrow.string(), "double": pyarrow.float64()}
        return pyarrow.schema([pyarrow.field(name, kinds[kind]) for name, kind in self.items()])


LAKE = Schema(
    component="string",  # source/queue: the log, and the alphabetically first queue of the component.
    **Schema.of(LakeRow),
)
"""The columns of a lake; a component's first row is ``begin``, with its workload, and its last is ``end``."""

KEYS = Schema(
    day="string",  # The day to which the rows belong, such as 2026-11-27, or undated.
    part="string",  # The name of the part: a digest of the run's inputs, and a number.
)
"""The columns that partition a growing table; they follow its own columns."""

QUARANTINE = Schema(source="string", **Schema.of(QuarantinedRow))
"""The columns of quarantined rows, each with its log and the reason; row 0 means the log as a whole."""


class LogFacts(NamedTuple):
    """Facts on a log's clock and cleaning, stored as JSON in the ``group`` of a lake's ``begin`` rows."""

    # Only the begin row of a log's first component has the counts, so that sums over components are right.
    source: str = ""
    origin_us: int | None = None  # The log's time 0 in microseconds since 1970; null for a log without dates.
    zone: str = "UTC"
    made_of: str = ""  # A digest of the log's inputs.
    rows: int = 0
    quarantined: int = 0
    duplicates: int = 0
    missing: int = 0  # Rows that are missing according to the rows' own numbers.
    gaps: int = 0  # Intervals in which rows are missing.
    unjudged: int = 0  # Messages of which a row was quarantined.
    blocks: int = 0  # Rows of the event block; without any, the log does not show blocked producers.

    def text(self) -> str:
        """Return the facts as JSON text."""
        return json.dumps(self._asdict(), separators=(",", ":"))


FACTS = Schema.of(LogFacts)

RESULTS = Schema.of(Result)
"""The columns of an audit's intervals and findings, which are in one table as a Spark job has one output."""


class Measure(NamedTuple):
    """A row of MEASURES: a recorded and predicted measure of a component under a setting."""

    component: str
    setting: str
    section: str = ""  # queues, producers or consumers.
    name: str = ""  # The queue or the client.
    measure: str = ""  # Such as share_on, max_depth, latency_p99 (qflow.workload.measures).
    recorded: float | None = None
    predicted: float | None = None
    low: float | None = None  # Lower bound of the 80 % prediction interval; null for a single replay.
    high: float | None = None
    note: str = ""  # Why there is no measure, or why it is only a bound (the log does not show the demand).


MEASURES = Schema.of(Measure)
"""The columns of the results of a what-if."""


class Advice(NamedTuple):
    """A row of ADVICE: the recommended settings of a queue, and the reasons."""

    component: str
    queue: str = ""  # Empty if the whole component was left out.
    line: str = ""  # A qpid-config line, or empty if no change is recommended.
    before: str = ""  # With the declared settings: could overflow, cannot overflow, or not proved.
    reasons_before: str = ""
    reasons: str = ""  # Why the recommended settings cannot overflow.
    evidence: str = ""  # JSON: the capacities, and the costs of both settings in simulation.
    note: str = ""  # Why no change is recommended, or why the component was left out.


ADVICE = Schema.of(Advice)
"""The columns of the recommended settings of queues."""


def tuples(batch: Any, names: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a batch, with the named columns in the given order."""
    return zip(*(batch.column(name).to_pylist() for name in names), strict=True)


def lake_rows(batch: Any) -> Iterator[LakeRow]:
    """Yield the rows of a batch of LAKE, without the component."""
    return map(LakeRow._make, tuples(batch, LakeRow._fields))


def by_component(batches: Iterable[Any]) -> Iterator[tuple[str, Iterator[Any]]]:
    """Yield each component of a partition, with the slices of the batches that have its rows, in order."""
    for component, runs in groupby(_runs(batches), itemgetter(0)):
        yield component, (part for _, part in runs)


def _runs(batches: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    import pyarrow.compute

    for batch in batches:
        # Rows are sorted by component; Arrow finds the boundaries without an object for each row.
        encoded = pyarrow.compute.run_end_encode(batch.column("component"))
        start = 0
        for value, end in zip(encoded.values.to_pylist(), encoded.run_ends.to_pylist(), strict=True):
            yield value, batch.slice(start, end - start)
            start = end


def to_batches(rows: Iterable[Sequence[Any]], table: Schema, most: int = MOST_ROWS) -> Iterator[Any]:
    """Yield rows as batches with a table's schema, of at most `most` rows each."""
    import pyarrow

    schema, rows = table.arrow(), iter(rows)
    while part := list(islice(rows, most)):
        columns = zip(zip(*part, strict=True), schema.types, strict=True)
        yield pyarrow.RecordBatch.from_arrays([pyarrow.array(*column) for column in columns], schema=schema)


def frame_of(spark: SparkSession, rows: Iterable[Sequence[Any]], table: Schema) -> DataFrame:
    """Return a data frame of a few rows from the driver."""
    from pyspark.sql import functions as sf

    # Spark itself would pass a list to Java through Python workers of another kind than those for Arrow
    # batches: on one machine, three processes of 110 MB to mark a run as complete.
    text = json.dumps([dict(zip(table, row, strict=True)) for row in rows])
    parsed = sf.from_json(sf.lit(text), f"array<struct<{table.ddl.replace('` ', '`:')}>>")
    return spark.range(0, 1, 1, 1).select(sf.inline(parsed))


def write_rows(path: Path, rows: Iterable[Sequence[Any]]) -> None:
    """Write rows of LAKE to a file, which appears only when it is complete."""
    import pyarrow
    from pyarrow import parquet

    # Spark ignores the temporary file, as its name begins with a dot.
    with write_whole(path) as fresh:
        parquet.write_table(pyarrow.Table.from_batches(to_batches(rows, LAKE), LAKE.arrow()), fresh)


# Tables that grow

AT_ONCE = 64
"""The number of parts written at once: enough to keep all cores busy, and so few that a kill loses little."""

FORMAT = "parquet"
"""The default format of a table; another format that the session has, such as ``delta``, can be given."""

NO_DAY = "undated"
"""The day of results without a day."""

_DONE = "-done"
"""The end of the name of a run's last part, which has one row with the digests of the replaced runs."""

Part = tuple[str, str]
"""The day and name of a part of a table: a row of KEYS."""


def digest_of(*decided_by: object) -> str:
    """Return a digest of the inputs that determine a table's rows."""
    return hashlib.sha256(repr(decided_by).encode()).hexdigest()[:12]


def part_names(digest: str, total: int) -> list[str]:
    """Return the names of the parts of one run, such as ``c0ffee-00000``."""
    return [f"{digest}-{number:05d}" for number in range(total)]


def run_of(part: Part) -> Part:
    """Return the day and the digest of the run that made a part.

    >>> run_of(("2026-11-27", "c0ffee-00001"))
    ('2026-11-27', 'c0ffee')
    """
    day, name = part
    return day, name.partition("-")[0]


def absolute(place: str | Path) -> str:
    """Return an address unchanged, or a local path as an absolute path."""
    # Absolute, because a worker of a cluster has another working directory than the driver.
    return str(place) if "://" in str(place) else str(Path(place).absolute())


def shuffle_partitions(spark: SparkSession) -> int:
    """Return the session's number of shuffle partitions."""
    # Some services set a word, such as auto. Spark has a default value for the first name only.
    given = [
        spark.conf.get("spark.sql.shuffle.partitions"),
        spark.conf.get("spark.default.parallelism", None),
    ]
    return next((int(text) for text in given if text and text.isdecimal()), 200)


_NO_TABLE = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
"""Spark's error conditions for a place that does not exist, and for one without a file."""


def _condition_of(error: Exception) -> str | None:
    """Return Spark's condition of an error, or None for an error of Java."""
    # In Spark 3.5, the condition was called the error class.
    ask = getattr(error, "getCondition", None) or getattr(error, "getErrorClass", None)
    return ask() if ask is not None else None


class GrowingTable:
    """A table of parts that only Spark reads and writes: on this machine, on HDFS or in an object store."""

    def __init__(self, spark: SparkSession, place: str | Path, form: str = FORMAT) -> None:
        self.place = absolute(place)
        self.has_runs = True
        self.spark, self._form = spark, form
        self._written: DataFrame | None = None

    # The properties are cached until the next write, as each costs Spark a listing of files or a job.

    @cached_property
    def frame(self) -> DataFrame | None:
        """The existing rows with their KEYS, or None; each file of a foreign table is a part."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as sf

        try:
            if not self._has_files():
                return None
            frame = self.spark.read.format(self._form).load(self.place)
            names = frame.columns
        except (PySparkException, Py4JError) as error:
            # On Spark Connect, only the error's documented condition tells that there is no table.
            if _condition_of(error) in _NO_TABLE:
                return None
            words = " ".join(str(error).split())[:300]
            raise RefusalError(f"{self.place}: no table can be read there: {words}") from None
        if set(KEYS) <= set(names):
            # Spark infers the type date from the folder's name.
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
        # Spark Connect gives no access to Java; there, the attempt to read must tell.
        if java is None:
            return True
        place = java.org.apache.hadoop.fs.Path(self.place)
        files = place.getFileSystem(self.spark._jsc.hadoopConfiguration())
        return bool(files.exists(place)) and len(files.listStatus(place)) > 0

    def read(self, table: Schema, what: str) -> DataFrame | None:
        """Return the existing table with its KEYS, or None; raise a RefusalError if a column is missing."""
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
        """The existing parts, including those of interrupted runs, without those of replaced runs."""
        frame = self.frame
        rows = [] if frame is None else frame.select(*KEYS).distinct().collect()
        found = {(row.day, row.part) for row in rows if not row.part.endswith(_DONE)}
        return {part for part in found if run_of(part)[1] not in self._replaced()}

    @cached_property
    def _ended(self) -> dict[Part, str]:
        frame = self.frame
        if frame is None or not self.has_runs:
            return {}
        # The row that marks a run as complete has the digests of the replaced runs in the first column, which
        # is text in each of our tables; a separate column would be null in all other rows.
        rows = frame.where(frame.part.endswith(_DONE)).select(frame.columns[0], *KEYS).collect()
        return {run_of((day, part)): words or "" for words, day, part in rows}

    def _replaced(self) -> set[str]:
        return {digest for words in self._ended.values() for digest in words.split()}

    def done_runs(self) -> dict[Part, str]:
        """Return the completed runs that are not replaced, each with the digests of those it replaces."""
        return {run: words for run, words in self._ended.items() if run[1] not in self._replaced()}

    def done_parts(self) -> set[Part]:
        """Return the valid parts: those of completed runs, or all parts of a foreign table."""
        runs = self.done_runs()
        return {part for part in self.parts if not self.has_runs or run_of(part) in runs}

    def finish(self, runs: Mapping[Part, str]) -> None:
        """Mark runs as complete, each with the digests of the runs that it replaces."""
        frame = self._written or self.frame
        if frame is not None and runs:
            none = [None] * (len(frame.columns) - len(KEYS) - 1)
            ends = [(words, *none, day, digest + _DONE) for (day, digest), words in sorted(runs.items())]
            self.write(frame_of(self.spark, ends, Schema(frame.dtypes)))

    def write(self, frame: DataFrame) -> None:
        """Write all parts in a data frame, and keep the other parts of the table."""
        writing = frame.write.format(self._form).mode("overwrite")
        # By default, Spark's overwrite removes all other parts. This is an option of the write, as the
        # session's setting belongs to the user.
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
        """Write those of the wanted parts that are missing, several at once."""
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
    """Return the rows of some parts; Spark reads only these parts."""
    return frame.where(frame.part.isin([name for _, name in parts]))
