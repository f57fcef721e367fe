"""The process that reads a capture, and writes the client log of it.

It runs as ``python -m qflow.live.recording_reader FOLDER GROUP_HEADER``.

It is of low priority and may be late; what it has not read is on disk.  It ends when its standard input does,
after all that was captured is read: also when the recorder is killed.  On standard output it says now and
then how far it is, one JSON object a line.
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

from qflow.live.capture import CLOSED, FROM_BROKER, FROM_CLIENT, OPENED, STATISTICS, CaptureReader
from qflow.live.recording_folder import MOST_ROWS_OF_A_PART, RecordingFolder
from qflow.live.wire_log import BROKER, CLIENT, WireLog

POLITENESS = 10
"""By how much this process is of lower priority than the one that passes the bytes."""

_LOOK = 0.05
_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 1.0, 30.0, 100.0
_GARBAGE = 200_000


class RecordingReader:
    """Reads what was captured, and writes it in parts.

    >>> import tempfile
    >>> from qflow.live.capture import CaptureWriter
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = CaptureWriter(Path(folder))
    ...     writer.append(7, 1, OPENED, b"127.0.0.1:40000")
    ...     writer.close()
    ...     RecordingReader(folder).run(lambda: True)
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['_recording.json']
    """

    def __init__(
        self, path: str | Path, group_header: str = "", tell: Callable[[dict[str, Any]], None] | None = None
    ) -> None:
        self.folder = RecordingFolder(path)
        self.log = WireLog(group_header)
        self._reader = CaptureReader(Path(path))
        self._tell = tell or (lambda _: None)
        self._begin = self._written = time.monotonic()
        self._queues = 0

    def run(self, is_over: Callable[[], bool]) -> None:
        """Read until it is over, and all is read."""
        while True:
            # Asked before the last look: what was captured until then is read.
            was_over = is_over()
            for record in self._reader.records():
                self._take(*record)
                if len(self.log.book.rows) >= MOST_ROWS_OF_A_PART:
                    self._write()
            now = time.monotonic()
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE + (now - self._begin) / _GROWTH)
            if was_over or now - self._written >= pause:
                self._write()
            elif len(self.log.book.queues) > self._queues:
                # Those who ask for statistics wait for it.
                self._say()
            if was_over:
                break
            time.sleep(_LOOK)
        self._reader.remove()

    def _take(self, at: int, number: int, kind: int, data: bytes) -> None:
        log = self.log
        if kind == FROM_CLIENT:
            log.passed(at, number, CLIENT, data)
        elif kind == FROM_BROKER:
            log.passed(at, number, BROKER, data)
        elif kind == OPENED:
            log.opened(at, number, data.decode(errors="replace"))
        elif kind == CLOSED:
            log.closed(at, number, data.decode(errors="replace"))
        elif kind == STATISTICS:
            self._report(at, json.loads(data))

    def _report(self, at: int, said: dict[str, Any]) -> None:
        book = self.log.book
        if "queue" in said:
            book.statistics(at, said["queue"], json.dumps(said["values"]), said["arguments"])
        elif "exchanges" in said:
            book.exchanges.update(said["exchanges"])
            book.answered(at)
        else:
            book.unanswered(at, said["error"])

    def _write(self) -> None:
        book = self.log.book
        if book.rows:
            self.folder.write(book.rows)
            book.rows.clear()
        self.folder.describe(book, {"rows": self.folder.written})
        self._written = time.monotonic()
        self._say()

    def _say(self) -> None:
        book = self.log.book
        self._queues = len(book.queues)
        self._tell(
            {
                "rows": self.folder.written,
                "findings": len(book.findings),
                "read": self._reader.read,
                "queues": [name for name in book.queues if not name.startswith("amq.")],
            }
        )


def main(arguments: list[str]) -> int:
    """Follow a capture until standard input ends."""
    # Ctrl-C is the recorder's; it closes our input when all is captured.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(POLITENESS)
    gc.set_threshold(_GARBAGE)
    ended = threading.Event()

    def wait() -> None:
        while sys.stdin.buffer.read(1):
            pass
        ended.set()

    threading.Thread(target=wait, daemon=True).start()

    def tell(fact: dict[str, Any]) -> None:
        # If the recorder was killed, the recording goes on to its end.
        with contextlib.suppress(OSError):
            print(json.dumps(fact), flush=True)

    path, group_header = arguments
    RecordingReader(path, group_header, tell).run(ended.is_set)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
