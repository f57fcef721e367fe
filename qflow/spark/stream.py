"""Stream: the audit over a growing folder; after a kill at any moment it resumes without a trace.

Spark keeps one auditor's state for each component. A stream brings rows late, or twice; before they reach
the auditor they are brought into the order of ``seq`` (:class:`_StreamedComponent`), and a row that does not
come in time is reported as a gap: after a minute (:data:`WAIT_SECONDS`), or after :data:`PATIENCE` later
events. The batch audit of the same rows gives the same results. For a component that has ended, Spark keeps
only that fact.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.logs.audit import Auditor
from qflow.logs.components import Splitter
from qflow.logs.findings import Result
from qflow.logs.log_file import END, LakeRow, LogRow
from qflow.logs.tolerance import Tolerance
from qflow.spark.lake_audit import RESULTS_HAVE
from qflow.spark.tables import FORMAT, LAKE, RESULTS, GrowingTable, write_rows
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PATIENCE, WAIT_SECONDS = 10_000, 60.0
"""The events of a component, and the seconds, to wait for a missing event before it counts as lost."""

# With Spark's default store a query ends with UNSUPPORTED_FEATURE.STORE_BACKEND_NOT_SUPPORTED_FOR_TWS. This
# one also needs the package protobuf: without it a worker crashes, and only Spark's log names the cause.
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
"""The only store that supports stateful processors."""

_OVER = b"over"
"""The state of a component whose end has been seen, with nothing missing before it."""


class _StreamedComponent:
    """One component of a stream: its auditor, and the events that came too early."""

    def __init__(self, component: str, state: bytes | None = None, patience: int = PATIENCE) -> None:
        # By number: the rows that came too early.
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
        """Whether the component's end has come."""
        return any(row.event == END for row in self.pending.values())

    def take(self, rows: Iterable[LakeRow]) -> list[Result]:
        """Take events in any order, each any number of times; return the results that are certain now."""
        if self.is_over:
            # Nothing was missing before the end: a row that comes now is a duplicate.
            return []
        for row in rows:
            if row.seq >= self.auditor.next_seq:
                self.pending.setdefault(row.seq, row)
        return self._feed(self._patience)

    def give_up(self) -> list[Result]:
        """Stop waiting for missing rows; return the results that follow."""
        return self._feed(0)

    def _feed(self, patience: int) -> list[Result]:
        results: list[Result] = []
        while self.pending:
            ready = self._ready()
            if not ready and len(self.pending) <= patience:
                break
            # Nothing is ready and too much waits: given the next row, the auditor reports the gap itself.
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
        """Return the state, packed."""
        if self.is_over:
            return _OVER
        pending = [row for _, row in sorted(self.pending.items())]
        # Every batch writes every state that it touched: hence the fastest level of compression.
        value = {"auditor": self.auditor.state(), "pending": pending}
        return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1)


def audit_stream(
    lake: DataFrame, patience: int = PATIENCE, wait: float = WAIT_SECONDS, *, ends_count: bool = False
) -> DataFrame:
    """Return a stream of results; with `ends_count` a component whose end has come waits for nothing more."""
    grouped = lake.select(*LAKE).groupBy("component")
    if not hasattr(grouped, "transformWithState"):
        raise RefusalError("a stream needs Spark 4.1 or newer; audits and sweeps do not")
    return grouped.transformWithState(
        statefulProcessor=processor(patience, wait, ends_count),
        outputStructType=RESULTS.ddl,
        outputMode="Append",
        # By the machine's clock: an event time would stand still while nothing comes, and so would the wait.
        timeMode="ProcessingTime",
    )


def processor(patience: int = PATIENCE, wait: float = WAIT_SECONDS, ends_count: bool = False) -> Any:
    """Return the stateful processor; it can be tested without a JVM (``TwsTester``)."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class AuditProcessor(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._handle = handle
            self._state = handle.getValueState("component", "state binary")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            streamed = self._restore(key)
            missing = streamed.auditor.next_seq
            results = streamed.take(LakeRow(*(row[name] for name in LakeRow._fields)) for row in rows)
            if ends_count and streamed.has_end:
                results += streamed.give_up()
            timers = list(self._handle.listTimers())
            if streamed.auditor.next_seq != missing or not streamed.pending:
                # The gap has moved or closed: the next one gets its own full time.
                for timer in timers:
                    self._handle.deleteTimer(timer)
                timers = []
            if streamed.pending and not timers:
                self._handle.registerTimer(timerValues.getCurrentProcessingTimeInMs() + round(1000 * wait))
            return self._keep(streamed, results)

        def handleExpiredTimer(self, key: Any, *_: Any) -> Iterator[Any]:  # noqa: N802
            streamed = self._restore(key)
            return self._keep(streamed, streamed.give_up())

        def _restore(self, key: Any) -> _StreamedComponent:
            before = self._state.get()
            return _StreamedComponent(key[0], None if before is None else bytes(before[0]), patience)

        def _keep(self, streamed: _StreamedComponent, results: Iterable[Result]) -> Iterator[Any]:
            # Spark commits the states of a batch with the batch: a killed one is done again from the states
            # before it.
            self._state.update((streamed.state(),))
            return (Row(**result._asdict()) for result in results)

        def close(self) -> None:
            pass

    return AuditProcessor()


def read_stream(spark: SparkSession, folder: str | Path, files: int | None = None) -> DataFrame:
    """Return a folder of files of LAKE as a stream, on a session of its own; they must appear whole."""
    # The store is a setting of a session; the caller's own session keeps its store.
    own = spark.newSession()
    own.conf.set("spark.sql.streaming.stateStore.providerClass", _STATE_STORE)
    reader = own.readStream.schema(LAKE.ddl)
    if files is not None:
        reader = reader.option("maxFilesPerTrigger", files)
    return reader.parquet(str(folder))


def start(results: DataFrame, folder: str | Path, *, once: bool = False, form: str = FORMAT) -> Any:
    """Start writing the results of :func:`audit_stream`; with `once`, process the present input, then end."""
    _read(results.sparkSession, folder, form)
    # With empty batches for its timers, a stream that is to end with its input would never end.
    results.sparkSession.conf.set("spark.sql.streaming.noDataMicroBatches.enabled", str(not once).lower())
    writer = results.writeStream.outputMode("append").format(form).option("path", f"{folder}/results")
    writer = writer.option("checkpointLocation", f"{folder}/checkpoint")
    return (writer.trigger(availableNow=True) if once else writer.trigger(processingTime="1 second")).start()


def read_results(spark: SparkSession, folder: str | Path, form: str = FORMAT) -> DataFrame:
    """Return the results that a stream has written until now."""
    results = _read(spark, folder, form)
    if results is None:
        raise RefusalError(f"{folder}: no stream has written results there yet")
    return results.select(*RESULTS)


def _read(spark: SparkSession, folder: str | Path, form: str) -> DataFrame | None:
    return GrowingTable(spark, f"{folder}/results", form).read(RESULTS, RESULTS_HAVE)


class Shipper:
    """Puts a log into a folder bit by bit, as a stream reads it."""

    def __init__(
        self, source: str, workload: Workload, folder: str | Path, tolerance: Tolerance | None = None
    ) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._source, self._splitter, self._files = source, Splitter(source, workload, tolerance), 0

    def send(self, rows: Iterable[LogRow]) -> None:
        """Put some rows into a file of their own; the first file also begins all components."""
        self._write(self._splitter.split(rows))

    def end(self) -> None:
        """End all components."""
        self._write(self._splitter.end())

    def _write(self, rows: Iterable[tuple[str, LakeRow]]) -> None:
        numbered = [(component, *row) for component, row in rows]
        if numbered:
            write_rows(self.folder / f"{self._source}-{self._files:06d}.parquet", numbered)
            self._files += 1
