"""A table of events as a platform has it: many components, in no order, with columns of its own.

The columns are mapped as those of a foreign log (:mod:`qflow.logs.foreign_columns`).  A row's component is in
a column, is a part of one (a regular expression on a host's name), or follows from the topology of one
workload: that of its client, or of its queue.  Spark brings the rows of each component to one worker, sorted
by time; there the reader of logs cleans them as it cleans a file: order, duplicates, gaps, clocks and
quarantine.  A worker reads a component several times and keeps it packed for that, in memory up to
:data:`_IN_MEMORY` bytes and on its disk above.

Rows of a table have no order of their own, so rows of one instant are put in the order of cause and effect,
and of their columns where that does not decide: the same rows give the same results however they lie.
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
"""Bytes of a component's packed rows that a worker keeps in memory; more are on its disk."""

_WORKLOAD = "workload"
"""The column with a component's workload, which travels as a row of its own, the first of the component."""


@dataclass(frozen=True)
class EventsTable:
    """A table of events with the columns, units and zone that its reader needs.

    Parameters:
        place: A path, an address that Spark knows, or the name of a table in its catalogue.
        workloads: A folder with the workload ``NAME.json`` of each component, or one file for all.
        form: A format that the session has: ``parquet``, ``csv``, ``delta``.
        columns: What its columns mean, as for :func:`qflow.logs.log_file.read_log`.
        component: The column of the component, or ``COLUMN:REGEX``, whose first group it is; empty for the
            topology of the one workload.
        zone: The time zone of times without one, or the column that has it; empty for UTC.
        where: A condition of SQL on the rows, such as ``date = '2026-11-27'``.
        options: Options of Spark's reader.

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
        """Return the state of the table's files and workloads; of a table without files each is another."""
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as sf

        names = ("file_path", "file_size", "file_modification_time")
        try:
            # Spark reads the names of files only.
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
        """Return the lake rows that workers make of the table, and the quarantined rows."""
        # suffix: Of the components' names.
        from pyspark.sql import functions as sf

        rows, reader, workloads = self.raw(self.load(spark))
        rows = rows.withColumn(_WORKLOAD, sf.lit(None).cast("string"))
        if workloads is not None:
            rows = rows.unionByName(workloads, allowMissingColumns=True)
        work = partial(reader.split, suffix=suffix)
        return map_batches(reader.in_order(rows, partitions), work, SPLIT)

    def raw(self, frame: DataFrame) -> tuple[DataFrame, RawReader, DataFrame | None]:
        """Return the rows with their component, their reader for workers, and the components' workloads."""
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
        # In the order of a log's own columns, by which its reader knows them.
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
        """Return the table's rows."""
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
        # The part before a slash distinguishes logs.
        return sf.coalesce(sf.nullif(sf.translate(unit, "/", ":"), sf.lit("")), sf.lit("unnamed"))

    def _read_workloads(self, spark: SparkSession) -> str | DataFrame:
        """Return the one workload's text, or the components with theirs."""
        from pyspark.errors import PySparkException
        from pyspark.sql import functions as sf

        place = absolute(self.workloads)
        try:
            if place.endswith(".json"):
                (row,) = spark.read.text(place, wholetext=True).collect()
                return str(row.value)
            # Only the folder itself: below it there may be tables of days and parts, as a lake has.
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
    """Add a table of many components' events to a lake; it replaces that day's earlier run of the table.

    Parameters:
        events: The table, and how it is read.
        folder, buckets, day, form: As for :func:`make_lake`.

    Raises:
        RefusalError: If the table cannot be read, no row of it is good, or the lake has logs of the same
            names of that day that came from elsewhere.
    """
    table = GrowingTable(spark, folder, form)
    day = day or today()
    identity, state = digest_of(events.place, events.where), digest_of(events, buckets, events.state(spark))

    def name(replaced: str) -> str:
        # A table that is again as it was before last is another run, which replaces the last.
        return identity + digest_of(day, state, replaced)

    # Of one table there is one run a day; one that is read otherwise, or has other files, replaces it.
    done = table.done_runs()
    runs = {
        digest: words for (of, digest), words in done.items() if of == day and digest.startswith(identity)
    }
    if any(digest == name(words) for digest, words in runs.items()):
        return LakeReport(str(folder), 0, 0, 0, [], [events.place])
    replaced = " ".join(runs)
    if others := {digest for of, digest in done if of == day} - set(runs):
        _require_other_logs(events, require_lake(table), others, day)
    # A component is a sequence of one day: beside other days its name has the day.
    suffix = f"@{day}" if any(of != day for of, _ in done) else ""
    return write_run(table, events.split(spark, buckets, suffix), name(replaced), day, [], replaced)


def _require_other_logs(events: EventsTable, lake: DataFrame, runs: Iterable[str], day: str) -> None:
    """Refuse a table that has a component of the name of a log that other runs of the day brought."""
    from pyspark.sql import functions as sf

    source = sf.substring_index("component", "/", 1)
    rows, *_ = events.raw(events.load(lake.sparkSession))
    # The components that have no workload end in a slash: their rows are all quarantined.
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
    """Return rows with the component of their client, else of their queue."""
    from pyspark.sql import functions as sf

    for role in ("client", "queue"):
        own = members.where(members.role == role).selectExpr(f"member AS {role}", f"component AS of_{role}")
        rows = rows.join(own, role, "left")
    named = rows.withColumn("component", sf.coalesce("of_client", "of_queue", sf.lit("strangers")))
    return named.drop("client", "queue", "of_client", "of_queue")


def _topology(spark: SparkSession, text: str) -> tuple[DataFrame, DataFrame]:
    """Return the component of each client and queue of a workload, and the components with their parts."""
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
    """Return a frame with each JSON column, of text or bytes, parsed into a struct of the named keys."""
    from pyspark.sql import functions as sf

    kinds, wanted = dict(frame.dtypes), dict[str, dict[str, Any]]()
    for name in names:
        head, *path = name.split(".")
        if path and name not in kinds and kinds.get(head) in ("string", "binary"):
            tree = wanted.setdefault(head, {})
            for key in path:
                tree = tree.setdefault(key, {})
    for head, tree in wanted.items():
        # Values stay text, as they are in the JSON: the reader of logs knows numbers by their digits.
        frame = frame.withColumn(head, sf.from_json(sf.col(head).cast("string"), _ddl_of(tree)))
    return frame


def _ddl_of(tree: Mapping[str, Any]) -> str:
    """Return the type of a tree of keys.

    >>> _ddl_of({"at": {}, "who": {"host": {}}})
    'struct<`at`:string,`who`:struct<`host`:string>>'
    """
    fields = (f"`{key}`:{_ddl_of(below) if below else 'string'}" for key, below in tree.items())
    return f"struct<{','.join(fields)}>"


def _flat_columns(frame: DataFrame) -> tuple[dict[str, Column], dict[str, str]]:
    """Return a frame's columns and its structs' fields, converted for Python, and the type of each."""
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
            # An instant is a number, so that Python needs no time zone of the session.
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
    """The reader that a worker runs over the raw rows of its components."""

    header: list[str]
    order: list[str]
    """The columns by which rows are sorted within a component: the number and the time first."""
    time: list[str]
    instants: list[str]
    columns: Columns
    shared: str
    """The workload of all components; empty if each has its own."""

    def in_order(self, rows: DataFrame, partitions: int) -> DataFrame:
        """Return each component's rows together: its workload first, then the rows by time."""
        from pyspark.sql import functions as sf

        first = sf.col(_WORKLOAD).desc_nulls_last()
        return rows.repartition(partitions, "component").sortWithinPartitions("component", first, *self.order)

    def split(self, batches: Iterator[Any], suffix: str = "") -> Iterator[Any]:
        """Yield batches of SPLIT, of components whose names get a suffix."""
        for unit, parts in by_component(batches):
            with _Packed(parts, [f"c{number}" for number in range(len(self.header))]) as packed:
                if packed.rows_packed:
                    text = packed.workload or self.shared
                    items = self.items(unit, text, packed.rows, packed.zone, suffix)
                    yield from to_batches((split_row(unit + suffix, item) for item in items), SPLIT)

    def results(self, unit: str, text: str, rows: list[Any], zone: str) -> Iterator[Result]:
        """Yield the results of a component, given its rows in any order, with the facts of its log."""
        ordered = sorted(
            rows, key=lambda row: [(row[int(at[1:])] is not None, row[int(at[1:])]) for at in self.order]
        )
        audited = audit_items(self.items(unit, text, lambda: ordered, zone))
        return (item for item in audited if isinstance(item, Result))

    def items(self, unit: str, text: str, rows: Any, zone: str, suffix: str = "") -> Iterator[Item]:
        """Yield the lake rows of one component, given its workload's text and a function for its rows."""
        # The part before a slash distinguishes logs, and so does the suffix.
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
    """The rows of a component, packed by Arrow, to be read again and again."""

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
        """Yield the rows from the first one on."""
        from pyarrow import ipc

        self._file.seek(0)
        for batch in ipc.open_stream(self._file):
            yield from tuples(batch, self._names)

    def __enter__(self) -> _Packed:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
