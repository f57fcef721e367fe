"""Stream: the audit over a folder that grows; killed at any moment, it goes on as if nothing had happened.

Spark keeps one auditor's state for each component. A stream brings rows late, or twice; before they reach
the auditor they are brought into the order of ``seq`` (:class:`_StreamedComponent`), and what does not come
in time is reported as a gap. The batch audit of the same rows gives the same results.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.logs.audit import Auditor, LakeRow, ResultRow
from qflow.logs.checks import Tolerance
from qflow.logs.components import Splitter
from qflow.logs.log_file import LogRow
from qflow.spark.tables import LAKE, RESULTS, write_rows
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_PATIENCE = 10_000
"""So many events of a component wait for one that is missing; after that it counts as lost."""


class _StreamedComponent:
    """One component of a stream: its auditor, and the events that came too early.

    >>> streamed = _StreamedComponent("log/q")
    >>> late = [(1, 9, "", "end", "", "", 0, "", None), (0, 0, "", "begin", "", "", 0, "", "{}")]
    >>> streamed.take(late[:1]), streamed.waiting
    ([], 1)
    >>> streamed.take(late[1:])[0][5], streamed.waiting
    ('refused', 0)
    """

    def __init__(self, component: str, state: bytes | None = None, patience: int = _PATIENCE) -> None:
        self.component, self.patience = component, patience
        self._pending: dict[int, LakeRow] = {}
        text = None
        if state is not None:
            value = json.loads(zlib.decompress(state))
            text = value["auditor"]
            self._pending = {row[0]: tuple(row) for row in value["pending"]}
        self._auditor = Auditor(component, text)

    @property
    def waiting(self) -> int:
        """How many events wait for a missing one."""
        return len(self._pending)

    def take(self, rows: Iterable[LakeRow]) -> list[ResultRow]:
        """Take events in any order, each any number of times; return the results that are certain now."""
        auditor, pending = self._auditor, self._pending
        for row in rows:
            if row[0] >= auditor.next_seq:
                pending.setdefault(row[0], row)
        results: list[ResultRow] = []
        while pending:
            ready = self._ready()
            if not ready and len(pending) <= self.patience:
                break
            # Nothing is ready, and too much waits: the auditor notes the gap and goes on after it.
            results += auditor.feed(ready or [pending.pop(min(pending))])
        return results

    def _ready(self) -> list[LakeRow]:
        ready: list[LakeRow] = []
        seq = self._auditor.next_seq
        while seq in self._pending:
            ready.append(self._pending.pop(seq))
            seq += 1
        return ready

    def state(self) -> bytes:
        """Return the state, packed."""
        pending = [self._pending[seq] for seq in sorted(self._pending)]
        value = {"auditor": self._auditor.state(), "pending": pending}
        return zlib.compress(json.dumps(value, separators=(",", ":")).encode(), 1)


_ROW = LAKE.names[1:]


def audit_stream(lake: DataFrame, patience: int = _PATIENCE) -> DataFrame:
    """Return a stream of results over a stream of events."""
    grouped = lake.select(*LAKE.names).groupBy("component")
    return grouped.transformWithState(
        statefulProcessor=processor(patience),
        outputStructType=RESULTS.ddl,
        outputMode="Append",
        timeMode="None",
    )


def processor(patience: int = _PATIENCE) -> Any:
    """Return the stateful processor; it can be tested without a JVM (``TwsTester``)."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class AuditProcessor(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._state = handle.getValueState("component", "state binary")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
            (component,) = key
            before = self._state.get()
            kept = None if before is None else bytes(before[0])
            streamed = _StreamedComponent(component, kept, patience)
            results = streamed.take(tuple(row[name] for name in _ROW) for row in rows)
            self._state.update((streamed.state(),))
            for result in results:
                yield Row(**dict(zip(RESULTS.names, result, strict=True)))

        def close(self) -> None:
            pass

    return AuditProcessor()


def read_stream(spark: SparkSession, folder: str | Path, files: int | None = None) -> DataFrame:
    """Return a folder of files of LAKE as a stream; they must appear whole, by being renamed."""
    reader = spark.readStream.schema(LAKE.ddl)
    if files is not None:
        reader = reader.option("maxFilesPerTrigger", files)
    return reader.parquet(str(folder))


def start(results: DataFrame, folder: str | Path, *, once: bool = False) -> Any:
    """Start writing a stream of results."""
    out = str(folder)

    def write(batch: Any, number: int) -> None:
        # A step that is repeated after a crash writes the same rows to the same place.
        step = f"{out}/results/step={number:06d}"
        batch.coalesce(1).write.mode("overwrite").parquet(step)

    writer = results.writeStream.outputMode("append").foreachBatch(write)
    writer = writer.option("checkpointLocation", f"{out}/checkpoint")
    trigger = {"availableNow": True} if once else {"processingTime": "1 second"}
    return writer.trigger(**trigger).start()


def read_results(spark: SparkSession, folder: str | Path) -> DataFrame:
    """Return what a stream has written so far."""
    steps = sorted(Path(folder, "results").glob("step=*/_SUCCESS"))
    if not steps:
        raise RefusalError(f"{folder}: no stream has written results there yet")
    return spark.read.schema(RESULTS.ddl).parquet(*(str(step.parent) for step in steps))


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
