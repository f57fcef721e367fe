"""The process that reads a capture, and writes the client log of it.

It runs as ``python -m qflow.live.recording_reader FOLDER GROUP_HEADER``.

It is of low priority and may be late; what it has not read is on disk.  It ends when its standard input does,
after all that was captured is read: also when the recorder is killed.  On standard output it says now and
then how far it is, one JSON object a line.

What it writes is a client log that is whole at every moment.  ``orders.parquet`` is a folder, as Spark writes
one: each part in it is a Parquet file of its own, which gets its name when it is whole, so that whatever ends
the recorder, what was written can be read.  pyarrow, pandas, Spark and
:meth:`qflow.logs.client_log.ClientLog.load` read the folder as one table.  Names that begin with an
underscore or a dot are no data:

- ``_capture-00000`` and so on: bytes as they passed, until they are read;
- ``_recording.json``: who was connected, which broker it was, whether it gave statistics, of which queues the
  thresholds are unknown, what was found, and what could not be read.

Beside it, ``orders.json`` is the workload behind the log, with what is inferred marked as such.

A window, a pace and a service time are on no wire.  What the workload says of them comes from what was
counted, and its ``inferred`` says of each what it was taken from.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from qflow.live.client_book import ClientBook, Row, SeenClient
from qflow.live.recording import (
    CLOSED,
    FROM_BROKER,
    FROM_CLIENT,
    OPENED,
    REPORT,
    STATISTICS,
    CaptureReader,
)
from qflow.live.wire_log import BROKER, CLIENT, WireLog
from qflow.logs.log_file import COLUMNS, PART
from qflow.logs.workload_file import NOT_SEEN, workload_json
from qflow.workload.agenda import SECOND
from qflow.workload.attributes import WorkloadError
from qflow.workload.model import INFERRED, LARGEST_PREFETCH, MESSAGES_PER_SECOND, Consumer, Producer, Workload
from qflow.writing import write_whole

_POLITENESS = 10
"""By how much this process is of lower priority than the one that passes the bytes."""

_LOOK = 0.05
_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 1.0, 30.0, 100.0
_GARBAGE = 200_000

_MOST_ROWS_OF_A_PART = 100_000

_SHORTEST_SERVICE = 0.000001
"""Seconds: what is settled within one read has taken less than the clock shows."""


class _RecordingReader:
    """Reads what was captured, and writes it in parts."""

    def __init__(self, path: str | Path, group_header: str, notify: Callable[[dict[str, Any]], None]) -> None:
        self.folder = RecordingFolder(path)
        self.log = WireLog(group_header)
        self._reader = CaptureReader(Path(path))
        self._notify = notify
        self._begin = self._written = time.monotonic()
        self._queues = 0

    def run(self, is_over: Callable[[], bool]) -> None:
        """Read until it is over, and all is read."""
        while True:
            # Asked before the last look: what was captured until then is read.
            was_over = is_over()
            for record in self._reader.records():
                self._take(*record)
                if len(self.log.book.rows) >= _MOST_ROWS_OF_A_PART:
                    self._write()
            now = time.monotonic()
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE + (now - self._begin) / _GROWTH)
            if was_over or now - self._written >= pause:
                self._write()
            elif len(self.log.book.queues) > self._queues:
                # Those who ask for statistics wait for it.
                self._report_progress()
            if was_over:
                break
            time.sleep(_LOOK)
        self._reader.remove()

    def _take(self, at: int, number: int, kind: int, data: bytes) -> None:
        log = self.log
        if kind == FROM_CLIENT:
            log.read(at, number, CLIENT, data)
        elif kind == FROM_BROKER:
            log.read(at, number, BROKER, data)
        elif kind == OPENED:
            log.open_connection(at, number, data.decode(errors="replace"))
        elif kind == CLOSED:
            log.close_connection(at, number, data.decode(errors="replace"))
        elif kind == STATISTICS:
            self._report(at, json.loads(data))

    def _report(self, at: int, said: dict[str, Any]) -> None:
        book = self.log.book
        if "queue" in said:
            book.report(at, said["queue"], json.dumps(said["values"]), said["arguments"])
        elif "exchanges" in said:
            book.exchanges.update(said["exchanges"])
            book.note_management(at)
        else:
            book.miss_management(at, said["error"])

    def _write(self) -> None:
        book = self.log.book
        if book.rows:
            self.folder.write(book.rows)
            book.rows.clear()
        self.folder.describe(book, {"rows": self.folder.written})
        self._written = time.monotonic()
        self._report_progress()

    def _report_progress(self) -> None:
        book = self.log.book
        self._queues = len(book.queues)
        self._notify(
            {
                "rows": self.folder.written,
                "findings": len(book.findings),
                "read": self._reader.read,
                "queues": [name for name in book.queues if not name.startswith("amq.")],
            }
        )


# The folder


class RecordingFolder:
    """Writes the parts of a log, its report, and the workload beside it."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        self.written = 0
        self._parts = 0

    def write(self, rows: list[Row]) -> None:
        """Write rows as parts; each is in its place when this returns."""
        import pyarrow
        from pyarrow import parquet

        kinds = (pyarrow.int64(), *[pyarrow.string()] * 4, pyarrow.int64(), pyarrow.string())
        schema = pyarrow.schema(list(zip(COLUMNS, kinds, strict=True)))
        for begin in range(0, len(rows), _MOST_ROWS_OF_A_PART):
            part = rows[begin : begin + _MOST_ROWS_OF_A_PART]
            columns = [
                pyarrow.array(column, kind)
                for column, kind in zip(zip(*part, strict=True), kinds, strict=True)
            ]
            with write_whole(self.path / PART.format(self._parts)) as beside:
                parquet.write_table(pyarrow.table(columns, schema=schema), beside)
            self._parts += 1
            self.written += len(part)

    def describe(self, book: ClientBook, more: dict[str, Any]) -> None:
        """Write the workload beside the folder, and the report in it; the same bytes if nothing changed."""
        name = self.path.name.split(".")[0]
        facts = json.dumps({**report(book), **more}, indent=1) + "\n"
        workload = _workload_text(book, name)
        for path, text in ((self.path.with_name(f"{name}.json"), workload), (self.path / REPORT, facts)):
            with write_whole(path) as beside:
                beside.write_text(text, encoding="utf-8")


def report(book: ClientBook) -> dict[str, Any]:
    """Return what a reader of a recording should know, as JSON holds it."""
    return {
        "broker": {"product": book.broker, "is_qpid_cpp": book.is_qpid_cpp},
        "statistics": {"since_us": book.statistics_since, "missing": book.missing},
        "thresholds_unknown": {
            queue: words for queue in book.queues if (words := book.unknown_thresholds(queue))
        },
        "connections": book.connections,
        "last_us": book.last,
        "clients": [_facts(client) for client in book.clients.values()],
        "labels": {"alike": book.labels.alike, "unseen": book.labels.unseen},
        "findings": [
            {"sentence": words, "times": times, "first_us": first}
            for words, (times, first) in book.findings.items()
        ],
    }


def _facts(client: Any) -> dict[str, Any]:
    names = ("name", "role", "queue", "exchange", "key", "start", "messages", "bytes", "settled_by_sender",
             "answered", "refused", "unsettled", "most_unsettled", "most_credit", "without_credit",
             "times_without_credit", "ended")  # fmt: skip
    return {**{name: getattr(client, name) for name in names}, **client.origin}


# The workload


def _infer_workload(book: ClientBook, name: str) -> dict[str, Any]:
    """Return a workload as JSON holds it; ``inferred`` says which values were not seen."""
    inferred: dict[str, str] = {}
    producers, consumers = [], []
    seconds = max(1.0, book.last / SECOND)
    for client in book.clients.values():
        try:
            if client.role == "producer" and client.messages:
                producers.append(_producer(client, seconds, inferred))
            elif client.role == "consumer":
                consumers.append(_consumer(client, inferred))
        except WorkloadError as error:
            inferred[f"{client.role}s.{client.name}"] = f"left out: {error}"
    reads = {consumer.queue for consumer in consumers}
    sends = {producer.to[1] for producer in producers if not producer.to[0]}
    queues = {queue: dict(book.queues.get(queue, {})) for queue in sorted({*book.queues, *reads, *sends})}
    for queue in queues:
        unknown = book.unknown_thresholds(queue)
        if unknown:
            inferred[f"queues.{queue}"] = f"{NOT_SEEN}: its thresholds are unknown: {unknown}"
    binds = tuple(bind for bind in book.binds if bind[1] in queues)
    inferred["duration"] = "until the last thing that was seen"
    workload = Workload(name, seconds, queues, binds, tuple(producers), tuple(consumers))
    return {**workload_json(workload), INFERRED: inferred}


def _producer(client: SeenClient, seconds: float, inferred: dict[str, str]) -> Producer:
    where = f"producers.{client.name}"
    rate = min(MESSAGES_PER_SECOND, client.messages / seconds)
    if client.most_unsettled:
        capacity = client.most_unsettled
        words = f"the most that was unsettled at once, {capacity}; the client's own window is that or more"
    else:
        capacity = client.messages
        words = "not seen: all its transfers were settled or in transactions; the number of them is written"
    inferred[f"{where}.capacity"] = words
    inferred[f"{where}.rate"] = "its messages, divided by the duration"
    size = round(client.bytes / client.messages)
    inferred[f"{where}.size"] = "the mean of its messages, each encoded whole"
    return Producer(client.name, (client.exchange, client.key), rate, capacity, size)


def _consumer(client: SeenClient, inferred: dict[str, str]) -> Consumer:
    where = f"consumers.{client.name}"
    prefetch = max(1, client.most_credit, client.most_unsettled)
    inferred[f"{where}.prefetch"] = (
        f"the larger of the most credit it had, {client.most_credit}, and the most it held unsettled, "
        f"{client.most_unsettled}"
    )
    if client.served:
        mean = max(_SHORTEST_SERVICE, client.service / client.served / SECOND)
        words = f"the mean of {client.served}, from a delivery or the settlement before it to its settlement"
    else:
        mean, words = 0.001, "not seen: it settled nothing; a millisecond is written"
    inferred[f"{where}.service"] = words
    start = client.start / SECOND
    return Consumer(client.name, client.queue, min(prefetch, LARGEST_PREFETCH), ("exp", mean), start=start)


def _workload_text(book: ClientBook, name: str) -> str:
    """Return the same as the text of a file; what makes no workload is left out, and the text says why."""
    try:
        value = _infer_workload(book, name)
    except WorkloadError as error:
        value = {"name": name, "duration": 1, "queues": {}, INFERRED: {"workload": f"no workload: {error}"}}
    return json.dumps(value, indent=1) + "\n"


def main(arguments: list[str]) -> int:
    """Follow a capture until standard input ends."""
    # Ctrl-C is the recorder's; it closes our input when all is captured.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(_POLITENESS)
    gc.set_threshold(_GARBAGE)
    ended = threading.Event()

    def wait() -> None:
        while sys.stdin.buffer.read(1):
            pass
        ended.set()

    threading.Thread(target=wait, daemon=True).start()

    def report_progress(fact: dict[str, Any]) -> None:
        # If the recorder was killed, the recording goes on to its end.
        with contextlib.suppress(OSError):
            print(json.dumps(fact), flush=True)

    path, group_header = arguments
    _RecordingReader(path, group_header, report_progress).run(ended.is_set)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
