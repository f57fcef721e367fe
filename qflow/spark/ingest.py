"""Ingest: client logs and traces to rows of EVENTS, a quarantine of the others, and a lake of both.

Every row is in one of the two tables.  A trace is a log too: of what its clients would have written down, and
it brings the workload behind it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.logs.checks import Tolerance, Ways
from qflow.logs.client_log import ClientLog, client_rows
from qflow.logs.log_file import LOG_ENDINGS, Bit, LogError, read_log, source_of
from qflow.logs.workload_file import workload_of, workload_text
from qflow.spark.lake import assign, components, lay_out, strangers, touches, write_lake
from qflow.spark.tables import EVENTS, QUARANTINE, to_batches
from qflow.trace.files import read_trace
from qflow.trace.schema import NAMES, TraceError
from qflow.workload.attributes import WorkloadError
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Columns = str | Mapping[str, str] | None
"""What foreign columns mean, as for :func:`qflow.logs.log_file.read_log`; the same in all files."""


def _is_trace(path: str) -> bool:
    """Return whether a file is a trace and not a client log: by its columns, or by its first line."""
    if path.endswith(".parquet"):
        import pyarrow
        from pyarrow import parquet

        try:
            return tuple(parquet.read_schema(path).names) == NAMES
        except (OSError, pyarrow.ArrowInvalid):
            # Damaged: ingest will say so.
            return False
    if not path.endswith((".jsonl", ".jsonl.gz")):
        return False
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        try:
            first = json.loads(file.readline())
        except (OSError, EOFError, zlib.error, ValueError):
            return True
    return not isinstance(first, dict) or "ts_us" not in first


def _trace_workload(path: str) -> Workload:
    """Return the workload of a trace: its header's; of a trace without one, what its commands say."""
    try:
        trace, _ = read_trace(path)
        return trace.workload or workload_of(trace)
    except (TraceError, LogError) as error:
        raise RefusalError(str(error)) from None


def _log_files(paths: Iterable[str | Path]) -> list[str]:
    """Return the log files that are named, or lie in the folders that are."""
    files: list[str] = []
    for path in map(Path, paths):
        # A folder that is called as a log is one: its files are its parts.
        is_folder = path.is_dir() and not path.name.endswith(".parquet")
        inside = sorted(path.iterdir()) if is_folder else [path]
        found = [str(item) for item in inside if item.name.endswith(LOG_ENDINGS)]
        if not found:
            raise RefusalError(
                f"{path}: no client log is there; a log is a .parquet, .csv, .csv.gz or .jsonl file"
            )
        files += found
    names = [source_of(file) for file in files]
    for name in names:
        if names.count(name) > 1:
            raise RefusalError(f"two logs are named {name!r}; a log's name distinguishes brokers and runs")
    return files


def _map_files(
    spark: SparkSession, files: Sequence[str], columns: Columns, work: Callable[[str, Columns], Any], ddl: str
) -> DataFrame:
    """Return what the workers make of each file, as batches of a schema."""

    def batches_of(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for path in batch.column("file").to_pylist():
                yield from work(path, columns)

    named = spark.createDataFrame([(file,) for file in files], "file string")
    return named.repartition(max(1, min(len(files), 64))).mapInArrow(batches_of, ddl)


def _read_good(path: str, columns: Columns) -> Iterator[Any]:
    for good, _ in _read_events(path, columns):
        yield from good


def _read_bad(path: str, columns: Columns) -> Iterator[Any]:
    for _, bad in _read_events(path, columns):
        yield from to_batches(bad, QUARANTINE)


def _read_events(path: str, columns: Columns = None) -> Iterator[tuple[Iterator[Any], list[tuple[Any, ...]]]]:
    """Yield the rows of a log or a trace, bit by bit: batches of EVENTS, and rows of QUARANTINE."""
    # A file that cannot be read at all is one row of the quarantine, its row 0.
    source = source_of(path)
    try:
        for bit in _bits(path, columns):
            yield _events(source, bit), [(source, *problem) for problem in bit.problems]
    except (OSError, LogError, TraceError) as error:
        yield iter(()), [(source, 0, "", " ".join(str(error).split())[:500], "")]


def _bits(path: str, columns: Columns) -> Iterator[Bit]:
    if not _is_trace(path):
        yield from read_log(path, columns)
        return
    trace, quarantine = read_trace(path)
    rows = list(client_rows(trace.events(), trace.workload.producers if trace.workload else ()))
    yield Bit(list(range(len(rows))), rows, quarantine)


def _events(source: str, bit: Bit) -> Iterator[Any]:
    """Yield good rows as batches of EVENTS; what the broker reported before the start holds at the start."""
    if isinstance(bit.rows, list):
        numbered = zip(bit.numbers, bit.rows, strict=True)
        rows = ((source, number, max(0, row.ts_us), *row[1:]) for number, row in numbered)
        yield from to_batches(rows, EVENTS)
        return
    import pyarrow
    import pyarrow.compute as pc

    time, *columns = bit.rows.columns
    names = pyarrow.repeat(source, bit.rows.num_rows)
    arrays = [names, bit.numbers, pc.max_element_wise(time, 0), *columns]
    yield pyarrow.RecordBatch.from_arrays(arrays, schema=EVENTS.arrow())


def _read_tolerance(path: str, columns: Columns) -> Iterator[Any]:
    import pyarrow

    found = _tolerance_of(path, columns)
    row = {"source": source_of(path), "skew": found.skew, "lag": found.lag}
    yield pyarrow.RecordBatch.from_pylist([row])


def _tolerance_of(path: str, columns: Columns = None) -> Tolerance:
    """Return what is no finding in a log or a trace, as its rows show it in the order of their numbers."""
    ways, last = Ways(), -1
    # A file that cannot be read is a row of the quarantine.
    with suppress(OSError, LogError, TraceError):
        for bit in _bits(path, columns):
            numbers = bit.numbers if isinstance(bit.numbers, list) else bit.numbers.to_pylist()
            for number, row in zip(numbers, bit.log_rows(), strict=True):
                if number <= last:
                    return Tolerance.estimated(ClientLog.read(path, columns)[0].rows)
                last = number
                ways.take(row)
    return ways.tolerance()


def _find_gaps(events: DataFrame, quarantine: DataFrame) -> DataFrame:
    """Return what is missing in logs that number their events, as rows of the quarantine."""
    from pyspark.sql import functions as sf

    aside = quarantine.where("row > 0").groupBy("source").agg(sf.count("*").alias("aside"))
    counted = (sf.countDistinct("row").alias("seen"), (sf.max("row") + 1).alias("all"))
    seen = events.groupBy("source").agg(*counted)
    missing = sf.col("all") - sf.col("seen") - sf.coalesce(sf.col("aside"), sf.lit(0))
    lost = seen.join(aside, "source", "left").withColumn("missing", missing).where("missing > 0")
    words = sf.lit(" events are missing between 0 and ")
    reason = sf.concat(sf.col("missing").cast("string"), words, sf.col("all") - 1)
    empty = sf.lit("")
    return lost.select(
        "source", sf.lit(0).cast("bigint").alias("row"), sf.lit("seq").alias("column"),
        reason.alias("reason"), empty.alias("values"),
    )  # fmt: skip


_SHOWN = 1000


@dataclass(frozen=True)
class LakeReport:
    """What became of the logs."""

    folder: str
    events: dict[str, int]
    """Component to how many events it has."""
    set_aside: int
    quarantine: list[Any]
    """The first thousand rows that were set aside."""

    def __repr__(self) -> str:
        total = sum(self.events.values())
        aside = "none was set aside" if not self.set_aside else f"{self.set_aside} were set aside"
        return f"{total} events of {len(self.events)} components; {aside}"


def make_lake(
    spark: SparkSession,
    logs: Sequence[str | Path],
    folder: str | Path,
    workloads: str | Path | None = None,
    buckets: int = 8,
    columns: Columns = None,
) -> LakeReport:
    """Make a lake of client logs and of traces, which hold their workload themselves.

    Parameters:
        logs: Files, or folders of files.
        folder: Where the lake is written: new, empty, or with what was finished when the same was killed.
        workloads: Folder of the workload files, ``NAME.json`` for the log ``NAME.parquet``; None: beside each
            log.
        buckets: How many files the lake has.
        columns: What foreign columns of the logs mean, as for :func:`qflow.logs.log_file.read_log`.

    Raises:
        RefusalError: If a log has no workload, or no row of any log is good; the sentence gives the first
            reason.
    """
    files = _log_files(logs)
    known = _load_workloads(files, workloads)
    events = _map_files(spark, files, columns, _read_good, EVENTS.ddl).persist()
    bad = _map_files(spark, files, columns, _read_bad, QUARANTINE.ddl)
    found = components(touches(events, known))
    assigned = assign(events, found)
    aside = bad.unionByName(strangers(assigned)).unionByName(_find_gaps(events, bad)).persist()
    try:
        count = aside.count()
        first = aside.orderBy("source", "row").limit(_SHOWN).collect()
        if first and events.isEmpty():
            raise RefusalError(f"{first[0].source}: {first[0].reason}")
        rows = _map_files(spark, files, columns, _read_tolerance, "source string, skew bigint, lag bigint")
        tolerances = {row.source: Tolerance(row.skew, row.lag) for row in rows.collect()}
        lake = lay_out(assigned, found, known, tolerances)
        counts = write_lake(lake, folder, buckets, _describe_sources(files, known, columns))
    finally:
        events.unpersist()
        aside.unpersist()
    return LakeReport(str(folder), counts, count, first)


def _describe_sources(files: Sequence[str], known: Mapping[str, Workload], columns: object) -> str:
    """Return what decides a lake: the logs as they are now, their workloads, what columns mean."""
    digest = hashlib.sha256()
    for file in files:
        state = os.stat(file)
        text = workload_text(known[source_of(file)])
        digest.update(json.dumps([file, state.st_size, state.st_mtime_ns, text]).encode())
    digest.update(repr(columns).encode())
    return f"{len(files)} logs ({digest.hexdigest()[:12]})"


def _load_workloads(files: Sequence[str], folder: str | Path | None) -> Mapping[str, Workload]:
    """Return the workload of each log."""
    known = {}
    for file in files:
        source = source_of(file)
        path = Path(folder or Path(file).parent) / f"{source}.json"
        try:
            known[source] = _trace_workload(file) if _is_trace(file) else Workload.load(path)
        except FileNotFoundError:
            raise RefusalError(
                f"{path}: the workload of log {source!r} belongs there: queues, bindings, clients"
            ) from None
        except WorkloadError as error:
            raise RefusalError(str(error)) from None
    return known
