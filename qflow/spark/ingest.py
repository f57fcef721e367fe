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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
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


def is_trace(path: str) -> bool:
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


def trace_workload(path: str) -> Workload:
    """Return the workload of a trace: its header's; of a trace without one, what its commands say.

    Raises:
        RefusalError: If no row can be read, or its sessions are no log's clients.
    """
    try:
        trace, _ = read_trace(path)
        return trace.workload or workload_of(trace)
    except (TraceError, LogError) as error:
        raise RefusalError(str(error)) from None


def log_files(paths: Iterable[str | Path]) -> list[str]:
    """Return the log files that are named, or lie in the folders that are.

    Raises:
        RefusalError: If there is none, or two have the same name.
    """
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


def ingest(
    spark: SparkSession, files: Sequence[str], columns: str | Mapping[str, str] | None = None
) -> tuple[DataFrame, DataFrame]:
    """Return the good rows of client logs, and the rows that were set aside.

    Every row is in one of the two.  A file that cannot be read at all is one row of the quarantine.

    Parameters:
        files: Paths that the workers can read too.
        columns: What foreign columns mean, as for :func:`qflow.logs.log_file.read_log`; the same in all
            files.

    Returns:
        (DataFrame of EVENTS, DataFrame of QUARANTINE)
    """
    named = spark.createDataFrame([(file,) for file in files], "file string")
    named = named.repartition(max(1, min(len(files), 64)))
    good, bad = partial(_good, columns=columns), partial(_bad, columns=columns)
    return named.mapInArrow(good, EVENTS.ddl), named.mapInArrow(bad, QUARANTINE.ddl)


def _good(batches: Iterator[Any], columns: str | Mapping[str, str] | None) -> Iterator[Any]:
    for path in _paths(batches):
        for good, _ in read_events(path, columns):
            yield from good


def _bad(batches: Iterator[Any], columns: str | Mapping[str, str] | None) -> Iterator[Any]:
    for path in _paths(batches):
        for _, bad in read_events(path, columns):
            yield from to_batches(bad, QUARANTINE)


def read_events(
    path: str, columns: str | Mapping[str, str] | None = None
) -> Iterator[tuple[Iterator[Any], list[tuple[Any, ...]]]]:
    """Yield the rows of a log or a trace, bit by bit: batches of EVENTS, and rows of QUARANTINE.

    A file that cannot be read at all is one row of the quarantine, its row 0.
    """
    source = source_of(path)
    try:
        for bit in _bits(path, columns):
            yield _events(source, bit), [(source, *problem) for problem in bit.problems]
    except (OSError, LogError, TraceError) as error:
        yield iter(()), [(source, 0, "", " ".join(str(error).split())[:500], "")]


def _bits(path: str, columns: str | Mapping[str, str] | None) -> Iterator[Bit]:
    if not is_trace(path):
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


def tolerances(
    spark: SparkSession, files: Sequence[str], columns: str | Mapping[str, str] | None = None
) -> dict[str, Tolerance]:
    """Return for each log, by its name, what is no finding in it, as :func:`tolerance_of` has it."""
    named = spark.createDataFrame([(file,) for file in files], "file string")
    named = named.repartition(max(1, min(len(files), 64)))
    found = named.mapInArrow(partial(_tolerances, columns=columns), "source string, skew bigint, lag bigint")
    return {row.source: Tolerance(row.skew, row.lag) for row in found.collect()}


def _tolerances(batches: Iterator[Any], columns: str | Mapping[str, str] | None) -> Iterator[Any]:
    import pyarrow

    for path in _paths(batches):
        found = tolerance_of(path, columns)
        row = {"source": source_of(path), "skew": found.skew, "lag": found.lag}
        yield pyarrow.RecordBatch.from_pylist([row])


def tolerance_of(path: str, columns: str | Mapping[str, str] | None = None) -> Tolerance:
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


def _paths(batches: Iterator[Any]) -> Iterator[str]:
    for batch in batches:
        yield from batch.column("file").to_pylist()


def gaps(events: DataFrame, quarantine: DataFrame) -> DataFrame:
    """Return what is missing in logs that number their events, as rows of the quarantine.

    Parameters:
        events (DataFrame of EVENTS)
        quarantine (DataFrame of QUARANTINE): Rows that were set aside are not missing.

    Returns:
        One row a log with gaps, with how many events are missing.
    """
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


SHOWN = 1000


@dataclass(frozen=True)
class LakeReport:
    """What became of the logs.

    Parameters:
        folder: Where the lake lies.
        events: Component to how many events it has.
        set_aside: How many rows are in the quarantine.
        quarantine: The first thousand of them, rows of QUARANTINE.
    """

    folder: str
    events: dict[str, int]
    set_aside: int
    quarantine: list[Any]

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
    columns: str | Mapping[str, str] | None = None,
) -> LakeReport:
    """Make a lake of client logs and of traces, which hold their workload themselves.

    Parameters:
        logs: Files, or folders of files.
        folder: Where the lake is written: new, empty, or with what was finished when the same was killed.
        workloads: Folder of the workload files, ``NAME.json`` for the log ``NAME.parquet``; None: beside each
            log.
        buckets: How many files the lake has.
        columns: What foreign columns of the logs mean, as for :func:`ingest`.

    Raises:
        RefusalError: If a log has no workload, or no row of any log is good; the sentence gives the first
            reason.
    """
    files = log_files(logs)
    known = load_workloads(files, workloads)
    events, bad = ingest(spark, files, columns)
    events = events.persist()
    found = components(touches(events, known))
    assigned = assign(events, found)
    aside = bad.unionByName(strangers(assigned)).unionByName(gaps(events, bad)).persist()
    try:
        count = aside.count()
        first = aside.orderBy("source", "row").limit(SHOWN).collect()
        if first and events.isEmpty():
            raise RefusalError(f"{first[0].source}: {first[0].reason}")
        made_of = _made_of(files, known, columns)
        lake = lay_out(assigned, found, known, tolerances(spark, files, columns))
        counts = write_lake(lake, folder, buckets, made_of)
    finally:
        events.unpersist()
        aside.unpersist()
    return LakeReport(str(folder), counts, count, first)


def _made_of(files: Sequence[str], known: Mapping[str, Workload], columns: object) -> str:
    """Return what decides a lake: the logs as they are now, their workloads, what columns mean."""
    digest = hashlib.sha256()
    for file in files:
        state = os.stat(file)
        text = workload_text(known[source_of(file)])
        digest.update(json.dumps([file, state.st_size, state.st_mtime_ns, text]).encode())
    digest.update(repr(columns).encode())
    return f"{len(files)} logs ({digest.hexdigest()[:12]})"


def load_workloads(files: Sequence[str], folder: str | Path | None) -> Mapping[str, Workload]:
    """Return the workload of each log.

    Raises:
        RefusalError: If a file is missing or is no workload.
    """
    known = {}
    for file in files:
        source = source_of(file)
        path = Path(folder or Path(file).parent) / f"{source}.json"
        try:
            known[source] = trace_workload(file) if is_trace(file) else Workload.load(path)
        except FileNotFoundError:
            raise RefusalError(
                f"{path}: the workload of log {source!r} belongs there: queues, bindings, clients"
            ) from None
        except WorkloadError as error:
            raise RefusalError(str(error)) from None
    return known
