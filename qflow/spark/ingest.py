"""Ingest: client logs and traces to rows of a lake, and a quarantine of the others.

Every row is in one of the two.  A log is one task: no component reaches beyond its log, so the worker that
reads a log also splits it (:class:`~qflow.logs.components.Splitter`).  A trace counts as a log, with the rows
that its clients would have recorded, and brings its own workload.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.logs.audit import correct_clocks
from qflow.logs.cleaning import CleanLog
from qflow.logs.client_log import client_rows
from qflow.logs.components import Splitter
from qflow.logs.log_file import (
    BEGIN,
    END,
    LOG_ENDINGS,
    OF_CONSUMERS,
    Bit,
    LakeRow,
    LogError,
    LogRow,
    read_log,
    source_of,
)
from qflow.logs.workload_file import workload_of, workload_text
from qflow.spark.lake import RowCount, count_events, write_lake, write_row_counts
from qflow.spark.tables import (
    FORMAT,
    KEYS,
    LAKE,
    QUARANTINE,
    GrowingTable,
    Schema,
    digest_of,
    missing_of,
    to_batches,
)
from qflow.spark.workers import map_batches
from qflow.trace.files import DAMAGE, QuarantinedRow, open_unpacked, read_trace
from qflow.trace.schema import NAMES, TraceError
from qflow.workload.attributes import WorkloadError
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Columns = str | Mapping[str, str] | None
"""What foreign columns mean, as for :func:`qflow.logs.log_file.read_log`; the same in all files."""


def _is_trace(path: str) -> bool:
    """Return whether a file is a trace rather than a client log, judged by its columns or first line."""
    if path.endswith(".parquet"):
        import pyarrow
        from pyarrow import parquet

        try:
            return tuple(parquet.read_schema(path).names) == NAMES
        except (OSError, pyarrow.ArrowInvalid):
            # Damaged: the reader of client logs quarantines it, with the reason.
            return False
    # A trace is written as Parquet or JSON lines; CSV is always a client log.
    if not path.endswith((".jsonl", ".jsonl.gz")):
        return False
    with open_unpacked(Path(path)) as file:
        try:
            # A damaged first line goes to the reader of traces, which says what is wrong with it; a row of a
            # client log has a time, the header of a trace has none.
            first = json.loads(file.readline())
        except (*DAMAGE, OSError, ValueError):
            return True
    return not isinstance(first, dict) or "ts_us" not in first


def _has_scheme(path: str | Path) -> bool:
    """Return whether a path is an address that Spark knows, such as ``s3a://bucket/logs``."""
    return "://" in str(path)


def _log_files(paths: Iterable[str | Path], spark: SparkSession | None = None) -> dict[str, str]:
    """Return the log files that are named, or lie in the folders that are, with their size and time."""
    files: dict[str, str] = {}
    for path in paths:
        found = _list_by_spark(spark, str(path)) if spark and _has_scheme(path) else _list_files(Path(path))
        if not found:
            raise RefusalError(
                f"{path}: no client log is there; a log is a .parquet, .csv, .csv.gz or .jsonl file"
            )
        files |= found
    names = [source_of(file) for file in files]
    for name in names:
        if names.count(name) > 1:
            raise RefusalError(f"two logs are named {name!r}; a log's name distinguishes brokers and runs")
    return files


def _list_files(path: Path) -> dict[str, str]:
    # A folder that is called as a log is one: its files are its parts.
    is_folder = path.is_dir() and not path.name.endswith(".parquet")
    found = {}
    for item in sorted(path.iterdir()) if is_folder else [path]:
        if item.name.endswith(LOG_ENDINGS):
            state = item.stat() if item.exists() else None
            # A hash of the content would read every log only to find that the lake has it. The price: a log
            # copied with a new time counts as another of the same name, and is refused.
            found[str(item)] = f"{state.st_size} {state.st_mtime_ns}" if state else ""
    return found


def _list_by_spark(spark: SparkSession, path: str) -> dict[str, str]:
    from pyspark.errors import PySparkException

    try:
        # Spark reads the selected columns only, not the content of the files.
        rows = (
            spark.read.format("binaryFile").load(path).select("path", "length", "modificationTime").collect()
        )
    except PySparkException as error:
        raise RefusalError(f"{path}: {str(error).strip().splitlines()[0]}") from None
    return {
        row.path: f"{row.length} {row.modificationTime}"
        for row in sorted(rows)
        if row.path.endswith(LOG_ENDINGS)
    }


_SPLIT = Schema(LAKE | QUARANTINE)
"""The columns of a split log: those of a lake's rows, then those of quarantined rows; one half is null."""


def _split_logs(
    spark: SparkSession, files: Sequence[str], workloads: Mapping[str, Workload], columns: Columns
) -> DataFrame:
    """Return the workers' reading of all files, as rows of _SPLIT."""

    def batches_of(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number, path in enumerate(batch.column("file").to_pylist()):
                with _on_disk(path, batch.column("content")[number]) as file:
                    source = source_of(file)
                    items = _split(file, workloads[source], columns)
                    yield from to_batches((_split_row(source, item) for item in items), _SPLIT)

    given = [(file, None) for file in files if not _has_scheme(file)]
    # Without this, the local rows would be a few partitions, and a few workers would read all logs.
    named = spark.createDataFrame(given, "file string, content binary").repartition(
        max(1, min(len(given), 64))
    )
    far = [file for file in files if _has_scheme(file)]
    if far:
        # Our readers open files, and no addresses: Spark brings such a log as bytes, to a worker's own disk.
        brought = spark.read.format("binaryFile").load(far)
        named = named.union(brought.selectExpr("path AS file", "content"))
    return map_batches(named, batches_of, _SPLIT)


def _split_row(source: str, item: tuple[str, LakeRow] | QuarantinedRow) -> tuple[Any, ...]:
    if isinstance(item, QuarantinedRow):
        return (*[None] * len(LAKE), source, *item)
    return (item[0], *item[1], *[None] * len(QUARANTINE))


@contextmanager
def _on_disk(path: str, content: Any) -> Iterator[str]:
    """Give a file that Spark brought a place and its own name, for as long as it is read."""
    if not content.is_valid:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="qflow-log-") as folder:
        file = Path(folder, path.rsplit("/", 1)[-1])
        file.write_bytes(content.as_buffer())
        yield str(file)


def _split(
    path: str, workload: Workload, columns: Columns = None
) -> Iterator[tuple[str, LakeRow] | QuarantinedRow]:
    """Yield a log's rows with their components, first to last, and the quarantined ones."""
    clean = CleanLog(lambda: _bits(path, columns))
    shown = clean.look(_Shown)
    clean = correct_clocks(clean, workload, _TRIAL_ROWS)
    splitter = Splitter(source_of(path), workload, clean.tolerance, shown.pairs)
    yield from splitter.begin()
    yield from clean.quarantine
    for number, row in enumerate(chain.from_iterable(clean.parts()), 1):
        yield splitter.place(row) or _set_aside(number, row)
    yield from splitter.end()
    missing = clean.cleaning.missing
    if missing:
        yield QuarantinedRow(0, "seq", f"{missing} events are missing between 0 and {clean.order.end - 1}")


_TRIAL_ROWS = 5_000
"""Rows of each log by which clocks are judged: few, as a log with good clocks pays for the trial too."""


class _Shown:
    """Takes the rows of a log; knows its consumers and their queues."""

    def __init__(self) -> None:
        self.pairs = set[tuple[str, str]]()

    def take(self, row: LogRow) -> None:
        """Take a row."""
        if row.event in OF_CONSUMERS:
            self.pairs.add((row.client, row.queue))


_STRANGER = "must be a client or queue of the workload, got "


def _set_aside(number: int, row: LogRow) -> QuarantinedRow:
    reason = _STRANGER + row.client
    values = json.dumps(row._asdict(), separators=(",", ":"), ensure_ascii=False)
    return QuarantinedRow(number, "client", reason, values[:500])


def _bits(path: str, columns: Columns) -> Iterator[Bit]:
    """Yield the rows of a log or a trace; an unreadable one yields a quarantined row 0."""
    try:
        if not _is_trace(path):
            yield from read_log(path, columns)
            return
        trace, quarantine = read_trace(path)
        rows = list(client_rows(trace.events(), trace.workload.producers if trace.workload else ()))
        yield Bit(list(range(len(rows))), rows, quarantine)
    except (OSError, LogError, TraceError) as error:
        yield Bit([], [], [QuarantinedRow(0, "", " ".join(str(error).split())[:500])])


_SHOWN = 1000


@dataclass(frozen=True)
class LakeReport:
    """The result of adding logs to a lake."""

    folder: str
    events: dict[str, int]
    """Component to how many events it has."""
    set_aside: int
    quarantine: list[Any]
    """The first thousand quarantined rows."""
    kept: list[str] = field(default_factory=list)
    """Logs already in the lake; they were not read again."""

    def __repr__(self) -> str:
        total = sum(self.events.values())
        aside = "none was set aside" if not self.set_aside else f"{self.set_aside} were set aside"
        kept = f"; {len(self.kept)} logs were there already" if self.kept else ""
        return f"{total} events of {len(self.events)} components; {aside}{kept}"


def make_lake(
    spark: SparkSession,
    logs: Sequence[str | Path],
    folder: str | Path,
    workloads: str | Path | None = None,
    buckets: int = 8,
    columns: Columns = None,
    day: str | None = None,
    form: str = FORMAT,
) -> LakeReport:
    """Add client logs, and traces, which hold their workload themselves, to a lake.

    A log that the lake has is not read again, and a killed run goes on with the logs that are missing.

    Parameters:
        logs: Files, or folders of files: paths, or addresses that Spark knows.
        folder: Where the lake is, or will be: a path, or an address that Spark knows.
        workloads: Folder of the workloads, ``NAME.json`` for the log ``NAME.parquet``; None: beside each log.
        buckets: In how many parts each log is written, at most.
        columns: What foreign columns of the logs mean, as for :func:`qflow.logs.log_file.read_log`.
        day: What day the logs are of, as ``2026-11-27``; None: today, in UTC.
        form: What the table is: ``parquet``, or a format that the session has, such as ``delta``.

    Raises:
        RefusalError: If a log has no workload, no row of any log is good, or the lake has another log of the
            same name; the sentence gives the first reason.
    """
    files = _log_files(logs, spark)
    known = _load_workloads(spark, list(files), workloads)
    made_of = {
        source: digest_of(source, state, workload_text(known[source]), columns, buckets)
        for source, state in zip(map(source_of, files), files.values(), strict=True)
    }
    there = GrowingTable(spark, folder, form).load()
    kept = _kept_logs(there, made_of, str(folder))
    new = [file for file in files if source_of(file) not in kept]
    counts = count_events(there) if there is not None and kept else {}
    events = {component: count for component, count in counts.items() if component.split("/", 1)[0] in kept}
    count, first = 0, []
    if new:
        day = day or f"{datetime.now(UTC):%Y-%m-%d}"
        split = _split_logs(spark, new, {source_of(file): known[source_of(file)] for file in new}, columns)
        # Rows and quarantine come from one reading of the logs; without this each question below would read
        # again.
        split.persist()
        lake = split.where("reason IS NULL").select(*LAKE)
        aside = split.where("reason IS NOT NULL").select(*QUARANTINE)
        try:
            first = aside.orderBy("source", "row").limit(_SHOWN).collect()
            rows = _count_rows(split, map(source_of, new), day)
            count = sum(one.quarantined for one in rows.values())
            # Rows of clients that a workload lacks are quarantined like damaged ones; only a log that gives
            # no row for any other reason is refused, by its first reason.
            has_rows = not first or not lake.where(~lake.event.isin(BEGIN, END)).isEmpty()
            if not has_rows and aside.where(aside.reason.startswith(_STRANGER)).isEmpty():
                raise RefusalError(f"{first[0].source}: {first[0].reason}")
            write_row_counts(folder, rows)
            events |= write_lake(lake, folder, buckets, made_of, day, form)
        finally:
            split.unpersist()
    return LakeReport(str(folder), events, count, first, sorted(kept))


def _count_rows(split: DataFrame, sources: Iterable[str], day: str) -> dict[str, RowCount]:
    """Return the number of good and of quarantined rows of each log, given all rows of _SPLIT."""
    from pyspark.sql import functions as sf

    clients = split.where("event IS NULL").unionByName(split.where(~split.event.isin(BEGIN, END)))
    source = sf.coalesce("source", sf.substring_index("component", "/", 1)).alias("log")
    counted = clients.groupBy(source).agg(
        sf.count("component").alias("rows"), sf.count("reason").alias("bad")
    )
    found = {row.log: (row.rows, row.bad) for row in counted.collect()}
    return {name: RowCount(day, *found.get(name, (0, 0))) for name in sources}


def _kept_logs(there: DataFrame | None, made_of: Mapping[str, str], folder: str) -> set[str]:
    """Return the logs that a lake holds whole; refuse a different log under an existing name."""
    if there is None:
        return set()
    pairs = there.selectExpr("substring_index(component, '/', 1) AS source", *KEYS).distinct().collect()
    parts: dict[str, list[str]] = {}
    for row in pairs:
        if row.source in made_of and row.part.split("-")[0] != made_of[row.source]:
            raise RefusalError(
                f"{folder}: there is another log named {row.source!r}, of {row.day}; its "
                "name distinguishes brokers and runs, and a lake is made in one way"
            )
        parts.setdefault(row.source, []).append(row.part)
    return {source for source in made_of if source in parts and missing_of(parts[source]) is None}


def _load_workloads(
    spark: SparkSession, files: Sequence[str], folder: str | Path | None
) -> Mapping[str, Workload]:
    """Return the workload of each log."""
    known = {}
    for file in files:
        source = source_of(file)
        path = f"{folder or file.rpartition('/')[0] or '.'}/{source}.json"
        try:
            # A log at an address counts as a client log: to see whether it is a trace would take a worker.
            if not _has_scheme(file) and _is_trace(file):
                trace, _ = read_trace(file)
                known[source] = trace.workload or workload_of(trace)
            else:
                known[source] = _far_workload(spark, path) if _has_scheme(path) else Workload.load(path)
        except FileNotFoundError:
            raise RefusalError(
                f"{path}: the workload of log {source!r} belongs there: queues, bindings, clients"
            ) from None
        except (WorkloadError, TraceError, LogError) as error:
            raise RefusalError(str(error)) from None
    return known


def _far_workload(spark: SparkSession, path: str) -> Workload:
    from pyspark.errors import PySparkException

    try:
        (row,) = spark.read.text(path, wholetext=True).collect()
    except PySparkException:
        raise FileNotFoundError(path) from None
    with tempfile.TemporaryDirectory(prefix="qflow-workload-") as scratch:
        file = Path(scratch, path.rsplit("/", 1)[-1])
        file.write_text(row.value, encoding="utf-8")
        return Workload.load(file)
