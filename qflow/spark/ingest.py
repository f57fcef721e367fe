"""Ingest: client logs as good rows, and a quarantine of the others, each with the reason.

Read a client log bit by bit: good rows as Arrow batches, the others with the reason.

A bit in which every row is good is checked column by column, at once; only where one is not, each row is
looked at for itself, with the words of :mod:`qflow.logs.client_log`.

A trace as a client log: what its clients would have written down, and the workload behind it.

Pipeline: from log files to a lake, as chapters and the command line call it.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from qflow.kit import RefusalError
from qflow.logs.client_log import LOG_EVENTS, LogError, LogRow, checked_rows
from qflow.spark.lake import assign, lay_out, strangers, write_lake
from qflow.spark.tables import EVENTS, MOST_ROWS, QUARANTINE, to_batches
from qflow.spark.tables import EVENTS as EVENT_ROWS
from qflow.spark.touches import components, touches, workload_text
from qflow.trace.files import Quarantine, read_trace
from qflow.trace.schema import NAMES, Trace, TraceError
from qflow.workload.attributes import WorkloadError
from qflow.workload.model import SETUP, Consumer, Producer, Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ENDINGS = (".parquet", ".csv", ".csv.gz")
COLUMNS = LogRow._fields
NUMBERED = ("seq", *COLUMNS)
"""A log may number its events itself; it may then be shuffled, and what is missing shows."""

_SHOWN = 500

Problem = tuple[str, int, str, str, str]
"""A row of QUARANTINE."""


class Bit(NamedTuple):
    """Some rows of a log: the good ones as a batch of EVENTS, and the others."""

    good: Any
    problems: list[Problem]


def source_of(path: str) -> str:
    """Return the name of a log: its file's, up to the first dot.

    Examples
    --------
    >>> source_of("logs/monday.csv.gz")
    'monday'
    """
    return path.rstrip("/").rsplit("/", 1)[-1].split(".")[0]


def read_log(path: str) -> Iterator[Bit]:
    """Yield the rows of a log, bit by bit; every row is in one of the two lists of one bit.

    A file that cannot be read, or not to its end, is one row of the quarantine.

    Parameters
    ----------
    path : str
        A ``.parquet``, ``.csv`` or ``.csv.gz`` file with the columns of a client log, and perhaps ``seq``.
    """
    reader = _Reader(source_of(path))
    try:
        if path.endswith(".parquet"):
            for batch in _parquet(path, reader):
                yield reader.take_batch(batch)
        else:
            for rows in _csv(path, reader):
                yield reader.take_rows(rows)
    except (OSError, LogError) as error:
        reason = " ".join(str(error).split())[:_SHOWN]
        place = reader.number + 1 if reader.number else 0
        yield Bit(None, [(reader.source, place, "", reason, "")])


class _Reader:
    """Remembers where in the file it is."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.number = 0
        self._time = 0
        self._is_numbered = False

    def begin(self, header: Sequence[str]) -> None:
        """Look at the names of the columns."""
        if tuple(header) not in (COLUMNS, NUMBERED):
            missing = [name for name in COLUMNS if name not in header]
            what = f"the column {missing[0]} is missing; " if missing else ""
            got = ", ".join(header) or "none"
            raise LogError(f"{what}the columns must be {', '.join(COLUMNS)}, got {got}")
        self._is_numbered = tuple(header) == NUMBERED

    def take_batch(self, batch: Any) -> Bit:
        """Take a batch of the file."""
        good = self._all_good(batch)
        if good is None:
            columns = (column.to_pylist() for column in batch.columns)
            return self.take_rows(list(zip(*columns, strict=True)))
        self.number += batch.num_rows
        return Bit(good, [])

    def take_rows(self, rows: list[Any]) -> Bit:
        """Take rows one by one."""
        good: list[Sequence[Any]] = []
        problems: list[Problem] = []
        for values in rows:
            self.number += 1
            try:
                good.append(self._row(values))
            except LogError as error:
                problems.append(self._problem(values, str(error)))
        (batch,) = to_batches(good, EVENT_ROWS, len(good)) if good else (None,)
        return Bit(batch, problems)

    def _row(self, values: Sequence[Any]) -> tuple[Any, ...]:
        own, rest = (values[0], values[1:]) if self._is_numbered else (self.number - 1, values)
        if not str(own).isdecimal():
            raise LogError(f"row 1, column seq: must be a whole number from 0, got {own!r}")
        (row,) = checked_rows((COLUMNS, rest))
        time = max(0, row.ts_us)
        if not self._is_numbered:
            if time < self._time:
                raise LogError(
                    f"row 1, column ts_us: time must not go back, got {row.ts_us} after {self._time}"
                )
            self._time = time
        return (self.source, int(own), time, *row[1:])

    def _problem(self, values: Sequence[Any], words: str) -> Problem:
        place, _, reason = words.partition(": ")
        column = place.partition("column ")[2]
        shown = json.dumps(list(values), ensure_ascii=False, default=str)[:_SHOWN]
        return (self.source, self.number, column, reason, shown)

    def _all_good(self, batch: Any) -> Any:
        """Return a batch of EVENTS if every row is good, else None."""
        import pyarrow
        import pyarrow.compute as pc

        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        whole = ("ts_us", "size", "seq") if self._is_numbered else ("ts_us", "size")
        if not all(pyarrow.types.is_integer(columns[name].type) for name in whole):
            return None
        if any(columns[name].null_count for name in (*whole, "client", "event")):
            return None
        texts = {name: _text(columns[name]) for name in ("client", "event", "queue", "label", "group")}
        if None in texts.values() or not _is_sound(columns, texts):
            return None
        # What the broker reported before the start holds at the start.
        time = pc.max_element_wise(columns["ts_us"].cast(pyarrow.int64()), 0)
        numbers = self._numbers(columns, time)
        if numbers is None:
            return None
        arrays = {
            **texts,
            "source": pyarrow.repeat(self.source, batch.num_rows),
            "row": numbers,
            "ts_us": time,
            "size": columns["size"].cast(pyarrow.int64()),
        }
        schema = EVENT_ROWS.arrow()
        return pyarrow.RecordBatch.from_arrays([arrays[name] for name in EVENT_ROWS.names], schema=schema)

    def _numbers(self, columns: Mapping[str, Any], time: Any) -> Any:
        """Return the rows' numbers, their own or by counting; None if they do not tell an order."""
        import pyarrow
        import pyarrow.compute as pc

        if self._is_numbered:
            numbers = columns["seq"].cast(pyarrow.int64())
            return None if pc.min(numbers).as_py() < 0 else numbers
        goes_back = len(time) > 1 and pc.min(pc.pairwise_diff(time)).as_py() < 0
        if goes_back or time[0].as_py() < self._time:
            return None
        self._time = time[-1].as_py()
        return pyarrow.array(range(self.number, self.number + len(time)), pyarrow.int64())


def _is_sound(columns: Mapping[str, Any], texts: Mapping[str, Any]) -> bool:
    """Tell whether every row says who did what, and no number in it is impossible."""
    import pyarrow
    import pyarrow.compute as pc

    recorded = columns["ts_us"].cast(pyarrow.int64())
    tests = (
        pc.or_(pc.greater_equal(recorded, 0), pc.equal(texts["event"], "stats")),
        pc.is_in(texts["event"], value_set=pyarrow.array(LOG_EVENTS)),
        pc.not_equal(texts["client"], ""),
        pc.greater_equal(columns["size"], 0),
    )
    return all(pc.all(test).as_py() for test in tests)


def _text(column: Any) -> Any:
    """Return a column as plain text, null as empty; None if it holds something else."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pyarrow.types.is_null(kind) or pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        return column.cast(pyarrow.string()).fill_null("")
    return None


def _parquet(path: str, reader: _Reader) -> Iterator[Any]:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            reader.begin(file.schema_arrow.names)
            for batch in file.iter_batches(batch_size=MOST_ROWS):
                if batch.num_rows:
                    yield batch
    except (pyarrow.ArrowInvalid, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        words = str(error).strip().splitlines()[0]
        raise LogError(f"the file is cut off or damaged, or no Parquet ({words})") from None


def _csv(path: str, reader: _Reader) -> Iterator[list[list[str]]]:
    with open(path, "rb") as raw:
        binary = gzip.GzipFile(fileobj=raw) if path.endswith(".gz") else raw
        try:
            with io.TextIOWrapper(binary, encoding="utf-8", newline="") as text:
                rows = csv.reader(text, strict=True)
                reader.begin(next(rows, []))
                while part := list(islice(rows, MOST_ROWS)):
                    yield part
        except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError, csv.Error) as error:
            raise LogError(f"the file is cut off or damaged ({error})") from None


def is_trace(path: str) -> bool:
    """Tell whether a file is a trace and not a client log: by its ending, of Parquet by its columns."""
    if not path.endswith(".parquet"):
        return path.endswith((".jsonl", ".jsonl.gz"))
    import pyarrow
    from pyarrow import parquet

    try:
        return tuple(parquet.read_schema(path).names) == NAMES
    except (OSError, pyarrow.ArrowInvalid):
        # Damaged: ingest will say so, row by row.
        return False


def import_trace(path: str, folder: Path) -> tuple[str, Quarantine]:
    """Write a trace as a client log and its workload, and return the log's path and what was set aside."""
    import pyarrow
    from pyarrow import parquet

    workload, rows, quarantine = trace_log(path)
    source = source_of(path)
    (folder / f"{source}.json").write_text(workload_text(workload), encoding="utf-8")
    types = {"ts_us": pyarrow.int64(), "size": pyarrow.int64()}
    columns = {
        name: pyarrow.array([row[place] for row in rows], types.get(name, pyarrow.string()))
        for place, name in enumerate(LogRow._fields)
    }
    log = folder / f"{source}.parquet"
    parquet.write_table(pyarrow.table(columns), log)
    return str(log), quarantine


def trace_log(path: str | Path) -> tuple[Workload, list[LogRow], Quarantine]:
    """Read a trace for the pipeline.

    Parameters
    ----------
    path : str or Path
        ``.parquet``, ``.jsonl`` or ``.jsonl.gz``.

    Returns
    -------
    (Workload, list of LogRow, Quarantine)
        The workload is the one in the trace's header; of a trace without one, what its commands tell: times
        of clients are then unknown, which an audit does not need.

    Raises
    ------
    RefusalError
        If no row can be read.
    """
    try:
        trace, quarantine = read_trace(path)
    except TraceError as error:
        raise RefusalError(str(error)) from None
    return trace.workload or workload_of(trace), list(log_rows(trace)), quarantine


def log_rows(trace: Trace) -> Iterator[LogRow]:
    """Yield what the clients of a trace would have logged.

    Examples
    --------
    >>> from qflow.broker.events import Event
    >>> trace = Trace()
    >>> trace.append(Event(7, "client.block", session="p"))
    >>> list(log_rows(trace))
    [LogRow(ts_us=7, client='p', event='block', queue='', label='', size=0, group='')]
    """
    labels: dict[tuple[str, int], tuple[str, str]] = {}
    for event in trace.events():
        detail: Any = event.detail or {}
        if event.kind == "message.transfer":
            message = detail["message"]
            key = message.routing_key or event.link
            size = message.content_size
            group = event.group or str((message.headers or {}).get("group", ""))
            yield LogRow(event.time, event.session, "transfer", key, event.message, size, group)
        elif event.kind == "delivered":
            labels[event.session, detail["delivery"]] = event.queue, event.message
            yield LogRow(event.time, event.session, "deliver", event.queue, event.message, 0, event.group)
        elif event.kind in ("message.accept", "message.release"):
            verdict = event.kind.partition(".")[2]
            for number in detail["transfers"]:
                place = labels.pop((event.session, number), None)
                if place is not None:
                    yield LogRow(event.time, event.session, verdict, *place, 0, "")
        elif event.kind in ("client.block", "client.unblock"):
            yield LogRow(event.time, event.session, event.kind.partition(".")[2], "", "", 0, "")
        elif event.kind == "exception":
            text = f"{detail.get('code')} {detail.get('name')}: {detail.get('text')}"
            yield LogRow(event.time, event.session, "error", "", text, 0, "")


def workload_of(trace: Trace) -> Workload:
    """Return the queues, bindings and clients that a trace's commands tell of.

    Raises
    ------
    RefusalError
        If a session sends to several addresses or reads several queues: a log's clients do one thing each.
    """
    queues: dict[str, Any] = {}
    binds: list[tuple[str, str, str]] = []
    sends: dict[str, tuple[str, str]] = {}
    reads: dict[str, tuple[str, int, float]] = {}
    for event in trace.events():
        detail: Any = event.detail or {}
        if event.kind == "queueDeclare":
            queues[event.queue] = detail["arguments"]
        elif event.kind == "bind" and event.link:
            binds.append((event.link, event.queue, detail["key"]))
        elif event.kind == "message.transfer":
            _once(sends, event.session, (event.link, detail["message"].routing_key or ""), "sends to")
        elif event.kind == "message.subscribe" and event.session not in reads:
            reads[event.session] = (event.queue, 1, event.time / 1_000_000)
        elif event.kind == "message.subscribe":
            raise RefusalError(
                f"session {event.session!r} subscribes twice; a log's clients do one thing each"
            )
        elif event.kind == "message.flow" and detail.get("unit") == 0 and event.session in reads:
            queue, _, since = reads[event.session]
            reads[event.session] = (queue, detail["value"], since)
    producers = tuple(
        Producer(name, to, rate=1, capacity=1, size=0) for name, to in sends.items() if name != SETUP
    )
    consumers = tuple(
        Consumer(name, queue, prefetch, ("const", 1.0), start=since)
        for name, (queue, prefetch, since) in reads.items()
    )
    seconds = max(1.0, (trace.time[-1] if len(trace) else 0) / 1_000_000)
    return Workload(trace.run, seconds, queues, tuple(dict.fromkeys(binds)), producers, consumers)


def _once(known: dict[str, tuple[str, str]], session: str, value: tuple[str, str], does: str) -> None:
    if known.setdefault(session, value) != value:
        raise RefusalError(
            f"session {session!r} {does} {known[session]!r} and {value!r}; a log's clients do one thing each"
        )


TRACE_ENDINGS = (".jsonl", ".jsonl.gz")


def log_files(paths: Iterable[str | Path]) -> list[str]:
    """Return the log files that are named, or lie in the folders that are.

    Raises
    ------
    RefusalError
        If there is none, or two have the same name.
    """
    files: list[str] = []
    for path in map(Path, paths):
        inside = sorted(path.iterdir()) if path.is_dir() else [path]
        found = [str(item) for item in inside if item.name.endswith((*ENDINGS, *TRACE_ENDINGS))]
        if not found:
            raise RefusalError(
                f"{path}: no client log is there; a log is a .parquet, .csv, .csv.gz or .jsonl file"
            )
        files += found
    names = [source_of(file) for file in files]
    for name in names:
        if names.count(name) > 1:
            raise RefusalError(f"two logs are named {name!r}; a log's name tells brokers and runs apart")
    return files


def ingest(spark: SparkSession, files: Sequence[str]) -> tuple[DataFrame, DataFrame]:
    """Return the good rows of client logs, and the rows that were set aside.

    Every row is in one of the two.  A file that cannot be read at all is one row of the quarantine.

    Parameters
    ----------
    spark : SparkSession
    files : sequence of str
        Paths that the workers can read too.

    Returns
    -------
    (DataFrame of EVENTS, DataFrame of QUARANTINE)
    """
    named = spark.createDataFrame([(file,) for file in files], "file string")
    named = named.repartition(max(1, min(len(files), 64)))
    return named.mapInArrow(_good, EVENTS.ddl), named.mapInArrow(_bad, QUARANTINE.ddl)


def _good(batches: Iterator[Any]) -> Iterator[Any]:
    for path in _paths(batches):
        yield from (bit.good for bit in read_log(path) if bit.good is not None)


def _bad(batches: Iterator[Any]) -> Iterator[Any]:
    for path in _paths(batches):
        for bit in read_log(path):
            yield from to_batches(bit.problems, QUARANTINE)


def _paths(batches: Iterator[Any]) -> Iterator[str]:
    for batch in batches:
        yield from batch.column("file").to_pylist()


def gaps(events: DataFrame, quarantine: DataFrame) -> DataFrame:
    """Return what is missing in logs that number their events, as rows of the quarantine.

    Parameters
    ----------
    events : DataFrame of EVENTS
    quarantine : DataFrame of QUARANTINE
        Rows that were set aside are not missing.

    Returns
    -------
    DataFrame of QUARANTINE
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

    Parameters
    ----------
    folder : str
        Where the lake lies.
    events : dict
        Component to how many events it has.
    set_aside : int
        How many rows are in the quarantine.
    quarantine : list
        The first thousand of them, rows of QUARANTINE.
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
) -> LakeReport:
    """Make a lake of client logs and of traces, which hold their workload themselves.

    Parameters
    ----------
    spark : SparkSession
    logs : sequence of paths
        Files, or folders of files.
    folder : path
        Where the lake is written; new or empty.
    workloads : path or None
        Folder of the workload files, ``NAME.json`` for the log ``NAME.parquet``; None: beside each log.
    buckets : int
        How many files the lake has.

    Raises
    ------
    RefusalError
        If a log has no workload, or no row of any log is good; the sentence tells the first reason.
    """
    with tempfile.TemporaryDirectory(prefix="qflow-traces-") as scratch:
        return _make_lake(spark, log_files(logs), folder, workloads, buckets, Path(scratch))


def _make_lake(
    spark: SparkSession,
    files: list[str],
    folder: str | Path,
    workloads: str | Path | None,
    buckets: int,
    scratch: Path,
) -> LakeReport:
    traces = [file for file in files if is_trace(file)]
    files = [file for file in files if file not in traces]
    imported = {file: import_trace(file, scratch) for file in traces}
    known = {
        **load_workloads(files, workloads),
        **load_workloads([log for log, _ in imported.values()], None),
    }
    events, bad = ingest(spark, [*files, *(log for log, _ in imported.values())])
    spoilt = [(source_of(file), *entry) for file, (_, quarantine) in imported.items() for entry in quarantine]
    bad = bad.union(spark.createDataFrame(spoilt, QUARANTINE.ddl))
    events = events.persist()
    found = components(touches(events, known))
    assigned = assign(events, found)
    aside = bad.unionByName(strangers(assigned)).unionByName(gaps(events, bad)).persist()
    try:
        count = aside.count()
        first = aside.orderBy("source", "row").limit(SHOWN).collect()
        if first and events.isEmpty():
            raise RefusalError(f"{first[0].source}: {first[0].reason}")
        counts = write_lake(lay_out(assigned, found, known), folder, buckets)
    finally:
        events.unpersist()
        aside.unpersist()
    return LakeReport(str(folder), counts, count, first)


def load_workloads(files: Sequence[str], folder: str | Path | None) -> Mapping[str, Workload]:
    """Return the workload of each log.

    Raises
    ------
    RefusalError
        If a file is missing or is no workload.
    """
    known = {}
    for file in files:
        source = source_of(file)
        path = Path(folder or Path(file).parent) / f"{source}.json"
        try:
            known[source] = Workload.load(path)
        except FileNotFoundError:
            raise RefusalError(
                f"{path}: the workload of log {source!r} belongs there: queues, bindings, clients"
            ) from None
        except WorkloadError as error:
            raise RefusalError(str(error)) from None
    return known
