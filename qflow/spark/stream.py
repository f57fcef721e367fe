"""Streams: audit events as they arrive; after a kill at any moment, the stream resumes with the same results.

Spark stores the state of one auditor for each component. A stream may deliver rows late, or twice. Before
they reach the auditor, rows are sorted by ``seq`` (:class:`_StreamedComponent`). A row that does not arrive
within a minute (:data:`WAIT_SECONDS`), or before :data:`PATIENCE` later events, is reported as a gap. A batch
audit of the same rows gives the same results. Of a component that has ended, Spark stores only that fact.

Events from a platform (:class:`~qflow.spark.events_table.EventsTable`, from Kafka or from files) have no
numbers and no ``end`` row. They are ordered by their own times: a watermark follows the latest time, rows
that are more than :data:`WATERMARK` seconds late are counted and dropped, and a component has ended when the
watermark is :data:`IDLE` seconds past its last row. Its rows until then are its log, which is cleaned and
audited like that of a table, with the same results.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.logs.audit import Auditor
from qflow.logs.components import Splitter
from qflow.logs.findings import Result
from qflow.logs.log_file import END, LakeRow, LogRow
from qflow.logs.tolerance import Tolerance
from qflow.spark.lake_audit import RESULTS_HAVE, without_logs
from qflow.spark.tables import FORMAT, LAKE, RESULTS, GrowingTable, absolute, write_rows
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from qflow.spark.events_table import EventsTable, RawReader

PATIENCE, WAIT_SECONDS = 10_000, 60.0
"""The number of later events, and the seconds, after which a missing event is regarded as lost."""

# With Spark's default store, a query ends with UNSUPPORTED_FEATURE.STORE_BACKEND_NOT_SUPPORTED_FOR_TWS. This
# store also needs the package protobuf: without it, a worker crashes, and only Spark's log has the cause.
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The only store that supports stateful processors."""

_OVER = b"over"
"""The state of a component that has ended, with no row missing before its end."""


class _StreamedComponent:
    """One component of a stream, with its auditor and the rows that arrived too early."""

    def __init__(self, component: str, state: bytes | None = None, patience: int = PATIENCE) -> None:
        # The rows that arrived too early, by number.
        self.pending: dict[int, LakeRow] = {}
        self._patience = patience
        self.is_over = state == _OVER
        text = None
        if state is not None and not self.is_over:
            value = json.loads(zlib.decompress(state))
            text = value["auditor"]
            self.pending = {row[0]: LakeRow(*row) for row in value["pending"]}
        self.auditor = Auditor(component, text)

    @property
    def has_end(self) -> bool:
        """Whether the component's ``end`` row has arrived and waits for missing rows."""
        return any(row.event == END for row in self.pending.values())

    def take(self, rows: Iterable[LakeRow]) -> list[Result]:
        """Add rows in any order, possibly repeated, and return the results that are certain now."""
        if self.is_over:
            # No row was missing before the end, so a row that arrives now is a duplicate.
            return []
        for row in rows:
            # Rows with smaller numbers were audited: sources deliver at least once, and a restart repeats a
            # batch.
            if row.seq >= self.auditor.next_seq:
                self.pending.setdefault(row.seq, row)
        return self._feed(self._patience)

    def give_up(self) -> list[Result]:
        """Stop waiting for missing rows, and return the results of the waiting rows."""
        return self._feed(0)

    def _feed(self, patience: int) -> list[Result]:
        results: list[Result] = []
        while self.pending:
            ready = self._ready()
            if not ready and len(self.pending) <= patience:
                break
            # If no row is ready and too many wait, the auditor gets the next row and reports the gap.
            results += self.auditor.feed(ready or [self.pending.pop(min(self.pending))])
        self.is_over = self.is_over or (self.auditor.is_finished and not self.pending)
        return results

    def _ready(self) -> list[LakeRow]:
        ready: list[LakeRow] = []
        seq = self.auditor.next_seq
        while seq in self.pending:
            ready.append(self.pending.pop(seq))
            seq += 1
        return ready

    def state(self) -> bytes:
        """Return the component's state as compressed JSON."""
        if self.is_over:
            return _OVER
        pending = [row for _, row in sorted(self.pending.items())]
        # The fastest compression, as every batch writes all states that it has changed.
        value = {"auditor": self.auditor.state(), "pending": pending}
        return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1)


def audit_stream(
    lake: DataFrame, patience: int = PATIENCE, wait: float = WAIT_SECONDS, *, ends_count: bool = False
) -> DataFrame:
    """Return a stream of results; with `ends_count`, an ``end`` row completes its component at once."""
    grouped = lake.select(*LAKE).groupBy("component")
    if not hasattr(grouped, "transformWithState"):
        raise RefusalError("a stream needs Spark 4.1 or newer; audits and sweeps do not")
    return grouped.transformWithState(
        statefulProcessor=_rows_processor(patience, wait, ends_count),
        outputStructType=RESULTS.ddl,
        outputMode="Append",
        # By the machine's clock, as event time, and so the wait, would not advance without new events.
        timeMode="ProcessingTime",
    )


_Timer = int | None
"""The time in milliseconds at which a component's only timer fires, or None without a timer."""


def _processor(
    kind: str,
    take: Callable[[str, Any, Any, Any, _Timer], tuple[Iterable[Result], _Timer]],
    expire: Callable[[str, Any], Iterable[Result]],
) -> Any:
    """Return a stateful processor; it can be tested without a JVM (``TwsTester``).

    Parameters:
        kind: The kind of a component's state: a value of bytes, or a list of them.
        take: Given component, rows, state, Spark's clock and timer, returns results and the new timer.
        expire: Given component and state, returns the results when the timer fires.
    """
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Processor(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._handle = handle
            self._state = getattr(handle, f"get{kind}State")("component", "state binary")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            before = next(iter(self._handle.listTimers()), None)
            results, timer = take(key[0], rows, self._state, timerValues, before)
            if timer != before:
                if before is not None:
                    self._handle.deleteTimer(before)
                if timer is not None:
                    self._handle.registerTimer(timer)
            return (Row(**result._asdict()) for result in results)

        def handleExpiredTimer(  # noqa: N802
            self,
            key: Any,
            timerValues: Any,  # noqa: N803
            expiredTimerInfo: Any,  # noqa: N803
        ) -> Iterator[Any]:
            return (Row(**result._asdict()) for result in expire(key[0], self._state))

        def close(self) -> None:
            pass

    return Processor()


def _rows_processor(patience: int = PATIENCE, wait: float = WAIT_SECONDS, ends_count: bool = False) -> Any:
    """Return the stateful processor for rows with numbers."""

    def restore(component: str, state: Any) -> _StreamedComponent:
        before = state.get()
        return _StreamedComponent(component, None if before is None else bytes(before[0]), patience)

    def take(component: str, rows: Any, state: Any, clock: Any, timer: _Timer) -> tuple[list[Result], _Timer]:
        streamed = restore(component, state)
        missing = streamed.auditor.next_seq
        results = streamed.take(LakeRow(*(row[name] for name in LakeRow._fields)) for row in rows)
        if ends_count and streamed.has_end:
            results += streamed.give_up()
        if not streamed.pending:
            timer = None
        elif timer is None or streamed.auditor.next_seq != missing:
            # Another row is missing now, which gets its full time to arrive.
            timer = clock.getCurrentProcessingTimeInMs() + round(1000 * wait)
        # Spark commits states together with their batch, and repeats a killed batch from the earlier states.
        state.update((streamed.state(),))
        return results, timer

    def expire(component: str, state: Any) -> list[Result]:
        streamed = restore(component, state)
        results = streamed.give_up()
        state.update((streamed.state(),))
        return results

    return _processor("Value", take, expire)


WATERMARK, IDLE = 60.0, 600.0
"""The largest lateness of a row, and the silence after which a component has ended, both in seconds."""


def audit_events(
    spark: SparkSession,
    events: EventsTable,
    watermark: float = WATERMARK,
    idle: float = IDLE,
    *,
    once: bool = False,
) -> DataFrame:
    """Return a stream of the results of components that have ended, with the facts of their logs.

    Parameters:
        spark: The Spark session.
        events: The source (its ``form`` is, for example, ``kafka``), its options, and how its rows are read;
            its ``place`` is empty or a folder of files.
        watermark: The largest lateness of a row in seconds.
        idle: The silence in seconds after which a component has ended.
        once: Whether the present input is read in one batch, with which all components end.
    """
    own = _own_session(spark)
    reader = own.readStream.format(events.form).options(**events.options)
    if events.place:
        # A stream of files does not infer its columns.
        rows = reader.schema(events.load(own).schema).load(absolute(events.place))
    else:
        rows = reader.load()
    rows, raw, workloads = events.raw(rows.where(events.where) if events.where else rows)
    known = {} if workloads is None else {row[0]: row[1] for row in workloads.collect()}
    timed = rows.withColumn("at", _instant_of(raw)).withWatermark("at", f"{watermark} seconds")
    return timed.groupBy("component").transformWithState(
        statefulProcessor=_events_processor(raw, known, round(1000 * idle), once=once),
        outputStructType=RESULTS.ddl,
        outputMode="Append",
        timeMode="EventTime",
    )


def _instant_of(raw: RawReader) -> Column:
    """Return the instant of a raw row, whose time may be in any supported unit, for the watermark."""
    from pyspark.sql import functions as sf

    text = sf.concat_ws(" ", *(sf.col(name).cast("string") for name in raw.time))
    number = sf.expr(f"try_cast({raw.time[0]} AS double)")
    # From 2000 to 2100, no number is possible in two of the units (seconds to nanoseconds).
    seconds = reduce(
        lambda smaller, power: sf.when(number >= 10 ** (8 + power), number / 10**power).otherwise(smaller),
        (3, 6, 9),
        number,
    )
    return sf.coalesce(sf.timestamp_micros((seconds * 1_000_000).cast("bigint")), sf.try_to_timestamp(text))


def _events_processor(raw: RawReader, workloads: Mapping[str, str], idle: int, *, once: bool = False) -> Any:
    """Return the stateful processor for events without numbers; ``idle`` is in milliseconds."""
    names = [f"c{number}" for number in range(len(raw.header))]

    def take(unit: str, rows: Any, state: Any, _: Any, timer: _Timer) -> tuple[Iterable[Result], _Timer]:
        given, zone, last = [], "", 0
        for row in rows:
            given.append([row[name] for name in names])
            zone = row["zone"]
            last = max(last, round(1000 * row["at"].timestamp()) if row["at"] else 0)
        # One compressed value for each batch, as RocksDB would need an access for each row.
        text = json.dumps([zone, given], default=str, separators=(",", ":"))
        state.appendValue((zlib.compress(text.encode(), 1),))
        # The timer only moves forwards: a late batch must not end a component earlier than its newest row.
        return (judge(unit, state), None) if once else ((), max(timer or 0, last + idle))

    def judge(unit: str, state: Any) -> Iterator[Result]:
        zone, kept = "", []
        for (packed,) in state.get():
            zone, rows = json.loads(zlib.decompress(bytes(packed)))
            kept += rows
        state.clear()
        yield from raw.results(unit, workloads.get(unit, "") or raw.shared, kept, zone or "")

    return _processor("List", take, judge)


def _own_session(spark: SparkSession) -> SparkSession:
    """Return a new session with the state store that a stream needs; the given one is not changed."""
    own = spark.newSession()
    own.conf.set("spark.sql.streaming.stateStore.providerClass", _STATE_STORE)
    return own


def read_stream(spark: SparkSession, folder: str | Path, files: int | None = None) -> DataFrame:
    """Return a folder of files of LAKE, each of which must appear complete, as a stream on a new session."""
    reader = _own_session(spark).readStream.schema(LAKE.ddl)
    if files is not None:
        reader = reader.option("maxFilesPerTrigger", files)
    return reader.parquet(str(folder))


def start(
    results: DataFrame,
    folder: str | Path,
    *,
    once: bool = False,
    form: str = FORMAT,
    by_event_time: bool = False,
) -> Any:
    """Start writing the results of a stream; with `once`, the stream ends after the present input."""
    folder = absolute(folder)
    _read(results.sparkSession, folder, form)
    # With empty batches for timers of the machine's clock, a stream with `once` would never end; timers of
    # event time fire in one more batch.
    has_more = str(not once or by_event_time).lower()
    results.sparkSession.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", has_more)
    writer = results.writeStream.outputMode("append").format(form).option("path", f"{folder}/results")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="1 second")).start()


def read_results(spark: SparkSession, folder: str | Path, form: str = FORMAT) -> DataFrame:
    """Return the results that a stream has already written."""
    results = _read(spark, folder, form)
    if results is None:
        raise RefusalError(f"{folder}: no stream has written results there yet")
    return without_logs(results)


def _read(spark: SparkSession, folder: str | Path, form: str) -> DataFrame | None:
    return GrowingTable(spark, f"{folder}/results", form).read(RESULTS, RESULTS_HAVE)


class Shipper:
    """A writer of a log into a folder, file by file, from which a stream reads it."""

    def __init__(
        self, source: str, workload: Workload, folder: str | Path, tolerance: Tolerance | None = None
    ) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._source, self._splitter, self._files = source, Splitter(source, workload, tolerance), 0

    def send(self, rows: Iterable[LogRow]) -> None:
        """Write rows to a new file; the first file also has the ``begin`` rows of all components."""
        self._write(self._splitter.split(rows))

    def end(self) -> None:
        """Write the ``end`` rows of all components to a new file."""
        self._write(self._splitter.end())

    def _write(self, rows: Iterable[tuple[str, LakeRow]]) -> None:
        numbered = [(component, *row) for component, row in rows]
        if numbered:
            write_rows(self.folder / f"{self._source}-{self._files:06d}.parquet", numbered)
            self._files += 1
