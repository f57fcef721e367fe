"""Tables of events from a platform, with rows of many components in any order and with foreign columns.

The columns are mapped like those of a foreign log (:mod:`qflow.logs.foreign_columns`).  A row's component is
the value of a column, or a part of it (found by a regular expression on, for example, a host's name); or it
follows from the workload, as the component of the row's client or queue.  Spark sends all rows of a component
to one worker, sorted by time.  There, they are cleaned as a file is: sorting, duplicates, gaps, clocks and
quarantine.  A worker reads a component's rows several times; so it keeps them compressed by Arrow, in memory
up to :data:`_IN_MEMORY` bytes, and on disk above that.

Rows of a table have no order.  So rows of one instant are sorted by cause and effect and, if that does not
decide, by their columns: the same rows give the same results in any order.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.logs.cleaning import CleanLog
from qflow.logs.components import components_of, parts_of, touches_of
from qflow.logs.file_formats import RawTable
from qflow.logs.findings import Result
from qflow.logs.foreign_columns import ColumnMap
from qflow.logs.log_file import BEGIN, NUMBERED, Bit, LakeRow, LogError, read_table
from qflow.logs.workload_file import workload_text
from qflow.spark.ingest import SPLIT, Columns, Item, LakeReport, split_clean, split_row, today, write_run
from qflow.spark.lake import require_lake
from qflow.spark.lake_audit import audit_items
from qflow.spark.tables import (
    FORMAT,
    GrowingTable,
    LogFacts,
    Schema,
    absolute,
    by_component,
    digest_of,
    frame_of,
    run_names,
    to_batches,
    tuples,
)
from qflow.spark.workers import map_batches
from qflow.trace.files import QuarantinedRow
from qflow.workload.attributes import WorkloadError
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_IN_MEMORY = 64 << 20
"""The largest size of a component's rows, in bytes, that a worker keeps in memory and not on disk."""

_WORKLOAD = "workload"
"""The column with a component's workload, which is sent as a separate row, the component's first."""


@dataclass(frozen=True)
class EventsTable:
    """A table of events from a platform, and how it is read.

    Parameters:
        place: A path, an address for Spark, or the name of a table in its catalogue.
        workloads: A folder with the workload ``NAME.json`` of each component, or one workload file for all.
        form: The format of the table, such as ``parquet``, ``csv`` or ``delta``.
        columns: The meanings of the columns, as for :func:`qflow.logs.log_file.read_log`.
        component: The column with the component, or ``COLUMN:REGEX`` for the first group of a regular
            expression; empty if the component follows from the workload.
        zone: The time zone of times without a zone, or the column that has it; empty for UTC.
        where: An SQL condition on the rows, such as ``date = '2026-11-27'``.
        options: The options of Spark's reader.

    >>> EventsTable("events", "workloads", component="host:([a-z]+)").place
    'events'
    """

    place: str
    workloads: str
    form: str = FORMAT
    columns: Columns = None
    component: str = ""
    zone: str = ""
    where: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    def state(self, spark: SparkSession) -> str:
        """Return a text that identifies the state of the table's files and workloads.

        For a table without files, each call returns a different text.
        """
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as sf

        names = ("file_path", "file_size", "file_modification_time")
        try:
            # Spark reads the metadata of the files only.
            files = self.load(spark).select(*(f"_metadata.{name}" for name in names)).distinct()
            state = files.agg(sf.sum(sf.xxhash64(*names) / 2)).first()
        except PySparkException:
            state = spark.range(1).select(sf.uuid()).first()
        return f"{state} {self._workloads_state(spark)}"

    def _workloads_state(self, spark: SparkSession) -> str:
        from pyspark.sql import functions as sf

        read = self._read_workloads(spark)
        return str(read if isinstance(read, str) else read.agg(sf.sum(sf.hash("*").cast("bigint"))).first())

    def split(self, spark: SparkSession, partitions: int, suffix: str = "") -> DataFrame:
        """Return the rows of the table as lake rows and quarantined rows, in the columns SPLIT."""
        # suffix: A text that is appended to the names of the components.
        from pyspark.sql import functions as sf

        rows, reader, workloads = self.raw(self.load(spark))
        rows = rows.withColumn(_WORKLOAD, sf.lit(None).cast("string"))
        if workloads is not None:
            rows = rows.unionByName(workloads, allowMissingColumns=True)
        work = partial(reader.split, suffix=suffix)
        return map_batches(reader.in_order(rows, partitions), work, SPLIT)

    def raw(self, frame: DataFrame) -> tuple[DataFrame, RawReader, DataFrame | None]:
        """Return the rows with their components, the reader for workers, and the components' workloads."""
        from pyspark.sql import functions as sf

        try:
            given = ColumnMap.of(self.columns or {})
            named = [*given.columns.values(), self.component.partition(":")[0], self.zone]
            parsed = _parse_json(frame, named)
            fields, kinds = _flat_columns(parsed)
            names = list(fields)
            found = given.found_in(names)
        except ValueError as error:
            raise RefusalError(f"{self.place}: {error}") from None
        of = {meaning: [names[at] for at in place.indexes] for meaning, place in found.places.items()}
        # In the order of a log's own columns, by which the reader of logs recognises them.
        own = {name: number for number, name in enumerate(NUMBERED)}
        header = sorted({name for some in of.values() for name in some}, key=lambda n: (own.get(n, 99), n))
        columns = {name: f"c{number}" for number, name in enumerate(header)}
        order = [columns[name] for name in dict.fromkeys([*of.get("seq", ()), *of["time"], *header])]
        zone = fields[self.zone].cast("string") if self.zone in fields else sf.lit(self.zone)
        kept = [*(fields[name].alias(at) for name, at in columns.items()), zone.alias("zone")]
        workloads = self._read_workloads(frame.sparkSession)
        shared = ""
        if self.component:
            rows = parsed.select(self._unit(fields).alias("component"), *kept)
            if isinstance(workloads, str):
                shared, workloads = workloads, None
        elif isinstance(workloads, str):
            members, workloads = _topology(frame.sparkSession, workloads)
            places = [fields[of[name][0]].cast("string").alias(name) for name in ("client", "queue")]
            rows = _by_member(parsed.select(*places, *kept), members)
        else:
            raise RefusalError("--component: say which column it is, or name one workload file for all")
        instants = [name for name in header if kinds[name] == "timestamp"]
        time = [columns[name] for name in of["time"]]
        return rows, RawReader(header, order, time, instants, self.columns, shared), workloads

    def load(self, spark: SparkSession) -> DataFrame:
        """Return the rows of the table, or raise a RefusalError if Spark cannot read it."""
        from pyspark.errors import PySparkException

        try:
            if "/" not in self.place and spark.catalog.tableExists(self.place):
                frame = spark.table(self.place)
            else:
                text = {"header": "true"} if self.form == "csv" else {}
                reader = spark.read.format(self.form).options(**{**text, **self.options})
                frame = reader.load(absolute(self.place))
            return frame.where(self.where) if self.where else frame
        except PySparkException as error:
            raise RefusalError(f"{self.place}: {' '.join(str(error).split())[:300]}") from None

    def _unit(self, fields: Mapping[str, Column]) -> Column:
        from pyspark.sql import functions as sf

        name, pattern = self.component, ""
        if name not in fields:
            name, _, pattern = name.partition(":")
        if name not in fields:
            there = ", ".join(fields)
            raise RefusalError(f"--component: there is no column {name!r}; the columns are {there}")
        text = fields[name].cast("string")
        unit = sf.regexp_extract(text, pattern, 1) if pattern else text
        # A slash would separate the name of a log, so it is replaced.
        return sf.coalesce(sf.nullif(sf.translate(unit, "/", ":"), sf.lit("")), sf.lit("unnamed"))

    def _read_workloads(self, spark: SparkSession) -> str | DataFrame:
        """Return the text of the single workload, or a table of components with their workloads' texts."""
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as sf

        place = absolute(self.workloads)
        try:
            if place.endswith(".json"):
                (row,) = spark.read.text(place, wholetext=True).collect()
                return str(row.value)
            # Only in the folder itself, as it may have subfolders of a table's days and parts.
            files = spark.read.text(f"{place}/*.json", wholetext=True)
            name = sf.regexp_replace("_metadata.file_name", r"\.json$", "")
            return files.select(name.alias("component"), sf.col("value").alias(_WORKLOAD))
        except PySparkException as error:
            words = " ".join(str(error).split())[:300]
            raise RefusalError(f"{self.workloads}: no workload can be read there: {words}") from None


def make_lake_of_table(
    spark: SparkSession,
    events: EventsTable,
    folder: str | Path,
    buckets: int = 8,
    day: str | None = None,
    form: str = FORMAT,
) -> LakeReport:
    """Add a table of many components' events to a lake; this replaces an earlier run of the same day.

    Parameters:
        spark: The Spark session.
        events: The table, and how it is read.
        folder, buckets, day, form: See :func:`make_lake`.

    Raises:
        RefusalError: If the table cannot be read, no row of it is valid, or the lake has logs with the same
            names and day from another source.
    """
    table = GrowingTable(spark, folder, form)
    day = day or today()
    identity, state = digest_of(events.place, events.where), digest_of(events, buckets, events.state(spark))

    def name(replaced: str) -> str:
        # The name includes the replaced runs: a table that returns to an earlier state is a new run.
        return identity + digest_of(day, state, replaced)

    # A table has one run per day; if its files or the way of reading change, a new run replaces it.
    done = table.done_runs()
    runs = {
        digest: words for (of, digest), words in done.items() if of == day and digest.startswith(identity)
    }
    if any(digest == name(words) for digest, words in runs.items()):
        return LakeReport(str(folder), 0, 0, 0, [], [events.place])
    replaced = " ".join(runs)
    if others := {digest for of, digest in done if of == day} - set(runs):
        _require_other_logs(events, require_lake(table), others, day)
    # A component contains one day; if the lake has other days, the component's name includes the day.
    suffix = f"@{day}" if any(of != day for of, _ in done) else ""
    return write_run(table, events.split(spark, buckets, suffix), name(replaced), day, [], replaced)


def _require_other_logs(events: EventsTable, lake: DataFrame, runs: Iterable[str], day: str) -> None:
    """Raise a RefusalError if other runs of the day have a log with the name of one of the components."""
    from pyspark.sql import functions as sf

    source = sf.substring_index("component", "/", 1)
    rows, *_ = events.raw(events.load(lake.sparkSession))
    # Names of components without a workload, whose rows are all quarantined, end in a slash.
    judged = (lake.event == BEGIN) & ~lake.component.endswith("/")
    there = lake.where(run_names(lake).isin(sorted(runs)) & judged)
    names = there.select(sf.regexp_replace(source, f"@{day}$", "").alias("source"))
    twins = rows.select(source.alias("source")).join(names, "source", "left_semi")
    ((twin,),) = twins.agg(sf.min("source")).collect()
    if twin is not None:
        raise RefusalError(
            f"{events.place}: the lake has a log named {twin!r} of {day} already, from another table; their "
            "events would be mixed: name another lake, or read both as one table"
        )


def _by_member(rows: DataFrame, members: DataFrame) -> DataFrame:
    """Return rows with the component of their client or, if it has none, of their queue."""
    from pyspark.sql import functions as sf

    for role in ("client", "queue"):
        own = members.where(members.role == role).selectExpr(f"member AS {role}", f"component AS of_{role}")
        rows = rows.join(own, role, "left")
    named = rows.withColumn("component", sf.coalesce("of_client", "of_queue", sf.lit("strangers")))
    return named.drop("client", "queue", "of_client", "of_queue")


def _topology(spark: SparkSession, text: str) -> tuple[DataFrame, DataFrame]:
    """Return a table of a workload's clients and queues with their components, and one of their workloads."""
    try:
        workload = Workload.from_json(json.loads(text))
    except (WorkloadError, ValueError) as error:
        raise RefusalError(f"the workload: {error}") from None
    source = workload.name.replace("/", ":")
    found = components_of(touches_of(source, workload))
    members = [(role, member, component) for (_, role, member), component in found.items()]
    parts = [(name, workload_text(part)) for name, part in parts_of(workload, found).items()]
    return (
        frame_of(spark, members, Schema(role="string", member="string", component="string")),
        frame_of(spark, parts, Schema({"component": "string", _WORKLOAD: "string"})),
    )


def _parse_json(frame: DataFrame, names: Iterable[str]) -> DataFrame:
    """Return a data frame in which JSON columns (text or bytes) are parsed into structs of the named keys."""
    from pyspark.sql import functions as sf

    kinds, wanted = dict(frame.dtypes), dict[str, dict[str, Any]]()
    for name in names:
        head, *path = name.split(".")
        if path and name not in kinds and kinds.get(head) in ("string", "binary"):
            tree = wanted.setdefault(head, {})
            for key in path:
                tree = tree.setdefault(key, {})
    for head, tree in wanted.items():
        # Values remain text, as in the JSON; the reader of logs recognises numbers.
        frame = frame.withColumn(head, sf.from_json(sf.col(head).cast("string"), _ddl_of(tree)))
    return frame


def _ddl_of(tree: Mapping[str, Any]) -> str:
    """Return Spark's type for a tree of keys, whose leaves are strings.

    >>> _ddl_of({"at": {}, "who": {"host": {}}})
    'struct<`at`:string,`who`:struct<`host`:string>>'
    """
    fields = (f"`{key}`:{_ddl_of(below) if below else 'string'}" for key, below in tree.items())
    return f"struct<{','.join(fields)}>"


def _flat_columns(frame: DataFrame) -> tuple[dict[str, Column], dict[str, str]]:
    """Return the columns of a data frame and the fields of its structs, and the type of each, by name."""
    from pyspark.sql import functions as sf
    from pyspark.sql.types import StructType

    columns: dict[str, Column] = {}
    kinds: dict[str, str] = {}

    def add(schema: StructType, prefix: str, at: str) -> None:
        for one in schema:
            name, place = f"{prefix}{one.name}", f"{at}`{one.name}`"
            kind = one.dataType.simpleString()
            kinds[name] = kind
            if isinstance(one.dataType, StructType):
                add(one.dataType, f"{name}.", f"{place}.")
            # Timestamps become numbers, so that Python does not depend on the session's time zone.
            is_text = kind in ("binary", "date", "timestamp_ntz")
            column = sf.col(place)
            columns[name] = (
                sf.unix_micros(column)
                if kind == "timestamp"
                else column.cast("string")
                if is_text
                else column
            )

    add(frame.schema, "", "")
    return columns, kinds


@dataclass(frozen=True)
class RawReader:
    """A reader of raw rows, which converts the rows of a component on a worker."""

    header: list[str]
    order: list[str]
    """The columns by which rows are sorted within a component, beginning with the number and the time."""
    time: list[str]
    instants: list[str]
    columns: Columns
    shared: str
    """The text of the workload of all components; empty if each component has its own."""

    def in_order(self, rows: DataFrame, partitions: int) -> DataFrame:
        """Return rows with each component in one partition: its workload first, then its rows by time."""
        from pyspark.sql import functions as sf

        first = sf.col(_WORKLOAD).desc_nulls_last()
        return rows.repartition(partitions, "component").sortWithinPartitions("component", first, *self.order)

    def split(self, batches: Iterator[Any], suffix: str = "") -> Iterator[Any]:
        """Yield batches of SPLIT from a partition's rows; a suffix is appended to the components' names."""
        for unit, parts in by_component(batches):
            with _Packed(parts, [f"c{number}" for number in range(len(self.header))]) as packed:
                if packed.rows_packed:
                    text = packed.workload or self.shared
                    items = self.items(unit, text, packed.rows, packed.zone, suffix)
                    yield from to_batches((split_row(unit + suffix, item) for item in items), SPLIT)

    def results(self, unit: str, text: str, rows: list[Any], zone: str) -> Iterator[Result]:
        """Yield the results of a component from its rows in any order, with the facts of its log."""
        ordered = sorted(
            rows, key=lambda row: [(row[int(at[1:])] is not None, row[int(at[1:])]) for at in self.order]
        )
        audited = audit_items(self.items(unit, text, lambda: ordered, zone))
        return (item for item in audited if isinstance(item, Result))

    def items(self, unit: str, text: str, rows: Any, zone: str, suffix: str = "") -> Iterator[Item]:
        """Yield the lake rows and quarantined rows of a component; `rows` is a function that returns rows."""
        # The name of a log is the part before a slash, so the suffix is inserted there.
        source, slash, queue = unit.partition("/")
        log = f"{source}{suffix}{slash}{queue}"
        facts = LogFacts(log, zone=zone)
        try:
            workload = Workload.from_json(json.loads(text or "null"), name=log)
        except (WorkloadError, ValueError) as error:
            words = str(error) if text else f"the workload {unit}.json is missing"
            yield QuarantinedRow(0, "", f"not judged: {words}")
            counted = facts._replace(quarantined=sum(1 for _ in rows()))
            yield f"{log}/", LakeRow.begin("null")._replace(group=counted.text())
            yield f"{log}/", LakeRow.end(1, 0)
            return
        clean = CleanLog(partial(self._bits, rows, zone), has_order=False)
        yield from split_clean(clean, workload, facts)

    def _bits(self, rows: Any, zone: str) -> Iterator[Bit]:
        table = RawTable(self.header, iter(rows()), self.instants)
        try:
            yield from read_table(table, self.columns, zone)
        except LogError as error:
            yield Bit([], [], [QuarantinedRow(0, "", " ".join(str(error).split())[:500])])


class _Packed:
    """The rows of a component as an Arrow file, which can be read repeatedly."""

    def __init__(self, parts: Iterable[Any], names: list[str]) -> None:
        from pyarrow import ipc

        self._names, self.workload, self.zone, self.rows_packed = names, "", "", 0
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, prefix="qflow-")  # noqa: SIM115
        writer = None
        for part in parts:
            if not self.rows_packed and (text := part.column(_WORKLOAD)[0].as_py()) is not None:
                self.workload, part = text, part.slice(1)
            if part.num_rows:
                self.zone = self.zone or part.column("zone")[0].as_py() or ""
                rows = part.select(self._names)
                writer = writer or ipc.new_stream(self._file, rows.schema)
                writer.write_batch(rows)
                self.rows_packed += part.num_rows
        if writer is not None:
            writer.close()

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield all rows, from the first one."""
        from pyarrow import ipc

        self._file.seek(0)
        for batch in ipc.open_stream(self._file):
            yield from tuples(batch, self._names)

    def __enter__(self) -> _Packed:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
