"""Ingest: convert client logs, traces and tables of events to rows of a lake; quarantine unreadable rows.

Each row goes to one of the two.  A log is a file, or all rows of one component in a table
(:mod:`qflow.spark.events_table`).  One worker reads a log: no component reaches beyond it, so the worker also
cleans it and splits it (:class:`~qflow.logs.components.Splitter`).  Small logs share a task.  A trace counts
as a log, with the rows that its clients would have recorded, and brings its own workload.
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
"""What foreign columns mean, as for :func:`qflow.logs.log_file.read_log`; the same in all files."""

SPLIT = Schema(LAKE | QUARANTINE)
"""The columns of split logs: those of a lake's rows, then those of quarantined rows; one half is null."""

_AUDITED = Schema(RESULTS | QUARANTINE)
"""The same of logs that are audited where they are read."""

_SMALL = 1 << 20
"""Bytes of a small log, whose rows a worker may hold in memory: some ten thousand rows."""

Item = tuple[str, LakeRow] | QuarantinedRow
"""A row of a lake with its component, or a quarantined row."""


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
    """Return the named log files, and those in the named folders, with their size and time."""
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


def _map_files(
    spark: SparkSession,
    sizes: Mapping[str, int],
    tasks: int,
    work: Callable[[str], Iterator[Any]],
    table: Schema,
    peak: Accumulator[int] | None = None,
) -> DataFrame:
    """Return the batches that workers make of each file, packed by size into so many tasks."""

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
    """Return the results and quarantined rows of many small logs, audited without a lake; else None."""
    # A lake is written, read and sorted again, which costs as much as the audit. None if a log is large or
    # far, or if there are fewer logs than tasks: of those Spark is to audit the components side by side.
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
    """Return the workers' reading of all files, as rows of SPLIT, a partition a bucket."""
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
        # Our readers open files, and no addresses: Spark brings such a log as bytes, to a worker's own disk.
        brought = spark.read.format("binaryFile").load(far).select("path", "content")
        frames.append(map_batches(brought, split_brought, SPLIT))
    if count == buckets and not far:
        # Many small logs: a task is a bucket already, and no row has to move.
        return frames[0]
    split_frame = frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])
    return split_frame.repartition(buckets, sf.coalesce("component", "source"))


def split_row(source: str, item: Item | Result, table: Schema = LAKE) -> tuple[Any, ...]:
    """Return a row of a table, or a quarantined one, with null in the columns of the other."""
    if isinstance(item, QuarantinedRow):
        return (*[None] * len(table), source, *item)
    row = item if isinstance(item, Result) else (item[0], *item[1])
    return (*row, *[None] * len(QUARANTINE))


@contextmanager
def _on_disk(path: str, content: Any) -> Iterator[str]:
    """Write a file's content, which Spark has read, to a temporary file of its own name for the block."""
    with tempfile.TemporaryDirectory(prefix="qflow-log-") as folder:
        file = Path(folder, path.rsplit("/", 1)[-1])
        file.write_bytes(content.as_buffer())
        yield str(file)


def _split(
    path: str, workload: Workload, columns: Columns = None, zone: str = "", made_of: str = ""
) -> Iterator[Item]:
    """Yield a log's rows with their components, first to last, and the quarantined ones."""
    clean = CleanLog(lambda: _bits(path, columns, zone))
    yield from split_clean(clean, workload, LogFacts(source_of(path), zone=zone, made_of=made_of))


def split_clean(clean: CleanLog, workload: Workload, facts: LogFacts) -> Iterator[Item]:
    """Clean a log, then yield its rows as :func:`_split` does; its facts go into the begins."""
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
"""Rows of each log that judge its clocks: few, as a log with good clocks pays for the trial as well."""


class _Shown:
    """A receiver of a log's rows that counts them by client, event and queue."""

    def __init__(self) -> None:
        self.rows = Counter[tuple[str, str, str]]()

    def take(self, row: LogRow) -> None:
        """Take a row."""
        self.rows[row[1:4]] += 1


_STRANGER = "must be a client or queue of the workload, got "


def _quarantine(number: int, row: LogRow) -> QuarantinedRow:
    reason = _STRANGER + row.client
    values = json.dumps(row._asdict(), separators=(",", ":"), ensure_ascii=False)
    return QuarantinedRow(number, "client", reason, values[:500])


def _bits(path: str, columns: Columns, zone: str = "") -> Iterator[Bit]:
    """Yield the rows of a log or a trace; an unreadable one yields a quarantined row 0."""
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
    """Add client logs and traces to a lake; a trace brings its own workload.

    A log that the lake has is not read again; what a killed run began, the same call makes whole.

    Parameters:
        logs: Files, or folders of files: paths, or addresses that Spark knows.
        folder: Where the lake is, or will be: a path, or an address that Spark knows.
        workloads: Folder of the workloads, ``NAME.json`` for the log ``NAME.parquet``; None: beside each log.
        buckets: The number of files that the new rows are written to, at most.
        columns: What foreign columns of the logs mean, as for :func:`qflow.logs.log_file.read_log`.
        day: What day the logs are of, as ``2026-11-27``; None: today, in UTC.
        form: What the table is: ``parquet``, or a format that the session has, such as ``delta``.
        zone: The time zone of times without one, such as ``Europe/Berlin``; empty for UTC.

    Raises:
        RefusalError: If a log has no workload, no row of any log is good, or the lake has another log of the
            same name; the sentence gives the first reason.
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
    # A run that was killed before midnight and repeated after it is another: parts are known by its name.
    digest = digest_of(day, buckets, *(made_of[source_of(file)] for file in new))
    return write_run(table, split, digest, day, sorted(kept))


def today() -> str:
    """Return the day that a run belongs to if none is named."""
    return f"{datetime.now(UTC):%Y-%m-%d}"


def write_run(
    table: GrowingTable,
    split: DataFrame,
    digest: str,
    day: str,
    kept: list[str],
    replaced: str = "",
) -> LakeReport:
    """Write split logs as one run: a part for each task, then the part that marks the run as done."""
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
    """Refuse logs without a good row, by the first reason."""
    # Rows of clients that a workload lacks are quarantined like damaged ones, and are no reason to refuse.
    if not rows and not any(row.reason.startswith(_STRANGER) for row in quarantined):
        raise RefusalError(
            f"{quarantined[0].source}: {quarantined[0].reason}" if quarantined else "there is no row"
        )


def read_quarantine(table: GrowingTable) -> DataFrame:
    """Return the quarantined rows of a lake with their KEYS; no rows if another program wrote the lake."""
    frame = table.frame
    if frame is None or not set(QUARANTINE) <= set(frame.columns):
        return frame_of(table.spark, [], Schema(QUARANTINE | KEYS))
    return frame.where("reason IS NOT NULL").select(*QUARANTINE, *KEYS)


def _kept_logs(spark: SparkSession, table: GrowingTable, made_of: Mapping[str, str]) -> set[str]:
    """Return the logs that a lake holds; refuse a different log under an existing name."""
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
    """Return the workload of each log."""
    known = {}
    for file in files:
        source = source_of(file)
        path = f"{absolute(folder) if folder else file.rpartition('/')[0]}/{source}.json"
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
