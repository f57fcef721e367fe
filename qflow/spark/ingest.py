"""Ingest: convert client logs, traces and tables of events to rows of a lake, and quarantine invalid rows.

A log is a file, or all rows of one component in a table (:mod:`qflow.spark.events_table`).  Each row of a log
is either added to the lake or quarantined.  One worker reads a whole log, cleans it, and splits it by
components (:class:`~qflow.logs.components.Splitter`), as every component is within one log.  Several small
logs share a task.  A trace is read as the log that its clients would have recorded, and contains its own
workload.
"""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from qflow.logs.findings import Result
from qflow.logs.log_file import (
    BEGIN,
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
from qflow.spark.lake import pack, require_lake
from qflow.spark.lake_audit import audit_items
from qflow.spark.tables import (
    FORMAT,
    KEYS,
    LAKE,
    QUARANTINE,
    RESULTS,
    GrowingTable,
    LogFacts,
    Schema,
    absolute,
    digest_of,
    frame_of,
    shuffle_partitions,
    to_batches,
)
from qflow.spark.workers import map_batches
from qflow.trace.files import DAMAGE, QuarantinedRow, open_unpacked, read_trace
from qflow.trace.schema import NAMES, TraceError
from qflow.workload.attributes import WorkloadError
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

Columns = str | Mapping[str, str] | None
"""The meanings of foreign columns in all files, as for :func:`qflow.logs.log_file.read_log`."""

SPLIT = Schema(LAKE | QUARANTINE)
"""The columns of a lake's rows, then those of quarantined rows; in each row, one of the two sets is null."""

_AUDITED = Schema(RESULTS | QUARANTINE)
"""The columns of results, then those of quarantined rows; in each row, one of the two sets is null."""

_SMALL = 1 << 20
"""The largest size of a small log in bytes, whose some ten thousand rows a worker may hold in memory."""

Item = tuple[str, LakeRow] | QuarantinedRow
"""A row of a lake with its component, or a quarantined row."""


def _is_trace(path: str) -> bool:
    """Return whether a file is a trace and not a client log, by its columns or its first line."""
    if path.endswith(".parquet"):
        import pyarrow
        from pyarrow import parquet

        try:
            return tuple(parquet.read_schema(path).names) == NAMES
        except (OSError, pyarrow.ArrowInvalid):
            # The file is damaged; the reader of client logs quarantines it with the reason.
            return False
    # A trace is Parquet or JSON lines; CSV is always a client log.
    if not path.endswith((".jsonl", ".jsonl.gz")):
        return False
    with open_unpacked(Path(path)) as file:
        try:
            # The reader of traces reports the fault of a damaged first line. A row of a client log has a
            # time, which the header of a trace does not have.
            first = json.loads(file.readline())
        except (*DAMAGE, OSError, ValueError):
            return True
    return not isinstance(first, dict) or "ts_us" not in first


def _has_scheme(path: str | Path) -> bool:
    """Return whether a path is an address for Spark, such as ``s3a://bucket/logs``."""
    return "://" in str(path)


def _log_files(paths: Iterable[str | Path], spark: SparkSession | None = None) -> dict[str, str]:
    """Return the given log files and those in the given folders, each with its size and time as text."""
    files: dict[str, str] = {}
    for path in map(absolute, paths):
        found = _list_by_spark(spark, path) if spark and _has_scheme(path) else _list_files(Path(path))
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
    # A folder with a log's name is one log, whose files are its parts.
    is_folder = path.is_dir() and not path.name.endswith(".parquet")
    found = {}
    for item in sorted(path.iterdir()) if is_folder else [path]:
        if item.name.endswith(LOG_ENDINGS):
            state = item.stat() if item.exists() else None
            # Not a hash of the content, for which every log would have to be read even if the lake has it.
            # The price is that a log copied with a new time is regarded as another one, and is refused.
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


def _map_files(
    spark: SparkSession,
    sizes: Mapping[str, int],
    tasks: int,
    work: Callable[[str], Iterator[Any]],
    table: Schema,
    peak: Accumulator[int] | None = None,
) -> DataFrame:
    """Return the batches that workers make from each file; files are distributed over tasks by size."""

    def work_through(batches: Iterator[Any]) -> Iterator[Any]:
        for number in (number for batch in batches for number in batch.column("id").to_pylist()):
            for file in shares[number]:
                yield from work(file)

    shares: list[list[str]] = [[] for _ in range(tasks)]
    for file, share in pack(sizes, tasks).items():
        shares[share].append(file)
    return map_batches(spark.range(0, tasks, 1, tasks), work_through, table, peak)


def _size_of(state: str) -> int:
    return int((state or "0").split()[0])


def audit_small(
    spark: SparkSession,
    logs: Sequence[str | Path],
    workloads: str | Path | None = None,
    columns: Columns = None,
    zone: str = "",
    peak: Accumulator[int] | None = None,
) -> DataFrame | None:
    """Return the results and quarantined rows of many small logs, audited without a lake, or None."""
    # Writing, reading and sorting a lake costs as much as the audit. None is returned if a log is large or
    # remote, or if there are fewer logs than tasks: then Spark should audit the components in parallel.
    files, tasks = _log_files(logs, spark), shuffle_partitions(spark)
    sizes = {file: _size_of(state) for file, state in files.items() if not _has_scheme(file)}
    if not tasks <= len(sizes) == len(files) or max(sizes.values()) > _SMALL:
        return None
    known = _load_workloads(spark, list(files), workloads)

    def audit(file: str) -> Iterator[Any]:
        source = source_of(file)
        items = audit_items(_split(file, known[source], columns, zone))
        yield from to_batches((split_row(source, item, RESULTS) for item in items), _AUDITED)

    return _map_files(spark, sizes, tasks, audit, _AUDITED, peak)


def _split_files(
    spark: SparkSession,
    files: Mapping[str, str],
    workloads: Mapping[str, Workload],
    made_of: Mapping[str, str],
    columns: Columns,
    zone: str,
    buckets: int,
) -> DataFrame:
    """Return the rows of SPLIT from all files, with one partition per bucket."""
    from pyspark.sql import functions as sf

    def split(file: str) -> Iterator[Any]:
        source = source_of(file)
        items = _split(file, workloads[source], columns, zone, made_of[source])
        yield from to_batches((split_row(source, item) for item in items), SPLIT)

    def split_brought(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number, path in enumerate(batch.column("path").to_pylist()):
                with _on_disk(path, batch.column("content")[number]) as file:
                    yield from split(file)

    near = {file: _size_of(state) for file, state in files.items() if not _has_scheme(file)}
    far = [file for file in files if _has_scheme(file)]
    count = min(len(near), max(buckets, shuffle_partitions(spark)))
    frames = [_map_files(spark, near, count, split, SPLIT)] if near else []
    if far:
        # Our readers open local files only: Spark reads a remote log as bytes, and the worker writes a file.
        brought = spark.read.format("binaryFile").load(far).select("path", "content")
        frames.append(map_batches(brought, split_brought, SPLIT))
    if count == buckets and not far:
        # With many small logs, each task is a bucket already, and no row has to be moved.
        return frames[0]
    split_frame = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
    return split_frame.repartition(buckets, sf.coalesce("component", "source"))


def split_row(source: str, item: Item | Result, table: Schema = LAKE) -> tuple[Any, ...]:
    """Return a table row or a quarantined row with the columns of both, null in those of the other."""
    if isinstance(item, QuarantinedRow):
        return (*[None] * len(table), source, *item)
    row = item if isinstance(item, Result) else (item[0], *item[1])
    return (*row, *[None] * len(QUARANTINE))


@contextmanager
def _on_disk(path: str, content: Any) -> Iterator[str]:
    """Write a file's content to a temporary file with the same name, which exists during the block."""
    with tempfile.TemporaryDirectory(prefix="qflow-log-") as folder:
        file = Path(folder, path.rsplit("/", 1)[-1])
        file.write_bytes(content.as_buffer())
        yield str(file)


def _split(
    path: str, workload: Workload, columns: Columns = None, zone: str = "", made_of: str = ""
) -> Iterator[Item]:
    """Yield the rows of a log with their components, and its quarantined rows."""
    clean = CleanLog(lambda: _bits(path, columns, zone))
    yield from split_clean(clean, workload, LogFacts(source_of(path), zone=zone, made_of=made_of))


def split_clean(clean: CleanLog, workload: Workload, facts: LogFacts) -> Iterator[Item]:
    """Clean a log and yield its rows as :func:`_split` does, with its facts in the ``begin`` rows."""
    shown = clean.look(_Shown)
    clean = correct_clocks(clean, workload, _TRIAL_ROWS)
    source = facts.source.partition("/")[0]
    pairs = {(client, queue) for client, event, queue in shown.rows if event in OF_CONSUMERS}
    splitter = Splitter(source, workload, clean.tolerance, pairs)
    strange = sum(count for kind, count in shown.rows.items() if splitter.component_of(*kind) is None)
    cleaning, clock = clean.cleaning, clean.recognised and clean.recognised.clock
    doubt = cleaning.doubt
    zone = facts.zone or (clock and clock.offset) or "UTC"
    clocked = facts._replace(origin_us=clean.start_us, zone=zone)
    counted = clocked._replace(
        rows=cleaning.rows - strange,
        quarantined=cleaning.quarantined + strange,
        duplicates=cleaning.duplicates,
        missing=cleaning.missing,
        gaps=len(doubt.gaps),
        unjudged=len(doubt.labels) + doubt.unread,
        blocks=sum(count for (_, event, _), count in shown.rows.items() if event == "block"),
    )
    for number, (component, row) in enumerate(splitter.begin()):
        yield component, row._replace(group=(clocked if number else counted).text())
    yield from clean.quarantine
    for number, clean_row in enumerate(chain.from_iterable(clean.parts()), 1):
        yield splitter.place(clean_row) or _quarantine(number, clean_row)
    yield from splitter.end()
    if cleaning.missing:
        words = f"{cleaning.missing} events are missing between 0 and {clean.order.end - 1}"
        yield QuarantinedRow(0, "seq", words)


_TRIAL_ROWS = 5_000
"""The number of rows that decide whether a log's clocks are corrected; small, as each log is tried."""


class _Shown:
    """A receiver of a log's rows, which counts them by client, event and queue."""

    def __init__(self) -> None:
        self.rows = Counter[tuple[str, str, str]]()

    def take(self, row: LogRow) -> None:
        """Count a row."""
        self.rows[row[1:4]] += 1


_STRANGER = "must be a client or queue of the workload, got "


def _quarantine(number: int, row: LogRow) -> QuarantinedRow:
    reason = _STRANGER + row.client
    values = json.dumps(row._asdict(), separators=(",", ":"), ensure_ascii=False)
    return QuarantinedRow(number, "client", reason, values[:500])


def _bits(path: str, columns: Columns, zone: str = "") -> Iterator[Bit]:
    """Yield the rows of a log or trace in batches, or a quarantined row 0 if the file is unreadable."""
    try:
        if not _is_trace(path):
            yield from read_log(path, columns, zone=zone)
            return
        trace, quarantine = read_trace(path)
        rows = list(client_rows(trace.events(), trace.workload.producers if trace.workload else ()))
        yield Bit(list(range(len(rows))), rows, quarantine)
    except (OSError, LogError, TraceError) as error:
        yield Bit([], [], [QuarantinedRow(0, "", " ".join(str(error).split())[:500])])


_SHOWN = 10


@dataclass(frozen=True)
class LakeReport:
    """The result of adding logs to a lake."""

    folder: str
    events: int
    components: int
    quarantined: int
    quarantine: list[Any]
    """The first quarantined rows."""
    kept: list[str] = field(default_factory=list)
    """Logs already in the lake; they were not read again."""

    def __repr__(self) -> str:
        aside = f"{self.quarantined or 'none'} quarantined"
        kept = f"; {len(self.kept)} logs were there already" if self.kept else ""
        return f"{self.events} events of {self.components} components; {aside}{kept}"


def make_lake(
    spark: SparkSession,
    logs: Sequence[str | Path],
    folder: str | Path,
    workloads: str | Path | None = None,
    buckets: int = 8,
    columns: Columns = None,
    day: str | None = None,
    form: str = FORMAT,
    zone: str = "",
) -> LakeReport:
    """Add client logs and traces to a lake, which is created if it does not exist.

    A log that the lake has is not read again.  After an interruption, the same call completes the run.

    Parameters:
        spark: The Spark session.
        logs: The files, or folders of files, as paths or as addresses for Spark.
        folder: The folder of the lake, as a path or an address for Spark.
        workloads: The folder of the workloads, with ``NAME.json`` for the log ``NAME.parquet``; None if each
            workload is beside its log.  A trace contains its own workload.
        buckets: The largest number of files to which the new rows are written.
        columns: The meanings of foreign columns, as for :func:`qflow.logs.log_file.read_log`.
        day: The day of the logs, such as ``2026-11-27``; None for today, in UTC.
        form: The format of the table: ``parquet``, or another format of the session, such as ``delta``.
        zone: The time zone of times without a zone, such as ``Europe/Berlin``; empty for UTC.

    Raises:
        RefusalError: If a log has no workload, no row of any log is valid, or the lake has another log with
            the same name; the text gives the first reason.
    """
    files = _log_files(logs, spark)
    known = _load_workloads(spark, list(files), workloads)
    made_of = {
        source: digest_of(source, state, workload_text(known[source]), columns, zone)
        for source, state in zip(map(source_of, files), files.values(), strict=True)
    }
    table = GrowingTable(spark, folder, form)
    kept = _kept_logs(spark, table, made_of)
    new = {file: state for file, state in files.items() if source_of(file) not in kept}
    if not new:
        return LakeReport(str(folder), 0, 0, 0, [], sorted(kept))
    split = _split_files(spark, new, known, made_of, columns, zone, buckets)
    day = day or today()
    # The digest includes the day: a run that is interrupted before midnight and repeated later is another.
    digest = digest_of(day, buckets, *(made_of[source_of(file)] for file in new))
    return write_run(table, split, digest, day, sorted(kept))


def today() -> str:
    """Return the default day of a run, which is today in UTC."""
    return f"{datetime.now(UTC):%Y-%m-%d}"


def write_run(
    table: GrowingTable,
    split: DataFrame,
    digest: str,
    day: str,
    kept: list[str],
    replaced: str = "",
) -> LakeReport:
    """Write split logs as one run: a part for each task, then the part that marks the run as complete."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sf

    seen = Observation("split")
    counted = split.observe(
        seen,
        sf.count("event").alias("events"),
        sf.count("reason").alias("quarantined"),
        sf.count_if(sf.col("event") == BEGIN).alias("components"),
    )
    part = sf.concat(sf.lit(f"{digest}-"), sf.lpad(sf.spark_partition_id().cast("string"), 5, "0"))
    table.write(counted.select("*", sf.lit(day).alias("day"), part.alias("part")))
    found = seen.get
    quarantined, components = found["quarantined"], found["components"]
    first: list[Any] = []
    if quarantined:
        aside = read_quarantine(table).where(sf.col("part").startswith(digest)).select(*QUARANTINE)
        first = aside.orderBy("source", "row").limit(_SHOWN).collect()
    require_rows(found["events"] - 2 * components, first)
    table.finish({(day, digest): replaced})
    return LakeReport(table.place, found["events"], components, quarantined, first, kept)


def require_rows(rows: int, quarantined: Sequence[Any]) -> None:
    """Raise a RefusalError with the first reason if no row of the logs is valid."""
    # Rows of clients that are not in the workload are quarantined, too, but are no reason to refuse.
    if not rows and not any(row.reason.startswith(_STRANGER) for row in quarantined):
        raise RefusalError(
            f"{quarantined[0].source}: {quarantined[0].reason}" if quarantined else "there is no row"
        )


def read_quarantine(table: GrowingTable) -> DataFrame:
    """Return the quarantined rows of a lake with their KEYS; empty for a lake of another program."""
    frame = table.frame
    if frame is None or not set(QUARANTINE) <= set(frame.columns):
        return frame_of(table.spark, [], Schema(QUARANTINE | KEYS))
    return frame.where("reason IS NOT NULL").select(*QUARANTINE, *KEYS)


def _kept_logs(spark: SparkSession, table: GrowingTable, made_of: Mapping[str, str]) -> set[str]:
    """Return the names of the logs that a lake has, or raise a RefusalError if one of them differs."""
    if not table.done_runs():
        return set()
    facts = "substring_index(component, '/', 1) AS source", "get_json_object(`group`, '$.made_of') AS made_of"
    begins = require_lake(table).where(f"event = '{BEGIN}'").selectExpr(*facts, "day").distinct()
    wanted = frame_of(spark, [(name,) for name in made_of], Schema(source="string"))
    rows = begins.join(wanted, "source").collect()
    for row in rows:
        if row.made_of != made_of[row.source]:
            raise RefusalError(
                f"{table.place}: there is another log named {row.source!r}, of {row.day}; its "
                "name distinguishes brokers and runs, and a lake is made in one way"
            )
    return {row.source for row in rows}


def _load_workloads(
    spark: SparkSession, files: Sequence[str], folder: str | Path | None
) -> Mapping[str, Workload]:
    """Return the workload of each log by the log's name, or raise a RefusalError for a missing one."""
    known = {}
    for file in files:
        source = source_of(file)
        path = f"{absolute(folder) if folder else file.rpartition('/')[0]}/{source}.json"
        try:
            # A remote log is taken for a client log, as detecting a trace would need a worker.
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
