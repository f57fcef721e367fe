"""Recording: the tap, and the two processes that work beside it.

::

    clients ──► RecordingTap ──► broker          passes bytes, at once
                   │ appends                ▲
                   ▼                        │ asks every 50 ms
               _capture-*        broker_statistics (a process, if management answers)
                   │ reads behind
                   ▼
            recording_reader (a process of low priority) ──► part-*.parquet, _recording.json, the workload
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from qflow.kit import RefusalError
from qflow.live.capture import STATISTICS, CaptureWriter
from qflow.live.recording_folder import ENDING, REPORT
from qflow.live.recording_tap import RecordingTap, Upstream

PATIENCE = 2.0
"""Seconds after which it is said that no statistics have come."""


class Recording:
    """Records what passes between clients and a broker.

    Parameters:
        upstream: The broker.
        out: The log: a folder that is not there yet, or is empty; its name ends in ``.parquet``.
        group_header: As for :class:`~qflow.live.wire_log.WireLog`.
        asks_statistics: Whether to ask the broker's management.

    Attributes:
        problem (str): Why the recording is not whole; empty if it is.
        missing (str): Why there are no statistics of the broker now; empty if there are, or none are wanted.

    Raises:
        RefusalError: If the log's name is of another kind, or something is there already.

    >>> Recording(Upstream("127.0.0.1:5672"), Path("monday.csv"))
    Traceback (most recent call last):
        ...
    qflow.kit.RefusalError: a recording is a folder of Parquet parts, so its name ends in .parquet; got
    'monday.csv'
    """

    def __init__(
        self, upstream: Upstream, out: Path, *, group_header: str = "", asks_statistics: bool = True
    ) -> None:
        checked_folder(out).mkdir(parents=True, exist_ok=True)
        self.out, self.problem, self.missing = out, "", ""
        self._has_answered = False
        self._asks = asks_statistics
        self.tap = RecordingTap(upstream, CaptureWriter(out))
        self._said: dict[str, Any] = {"rows": 0, "findings": 0, "read": 0, "queues": []}
        self._asked: set[str] = set()
        self._reader = _worker("recording_reader", str(out), group_header)
        self._statistics: subprocess.Popen[bytes] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._expected: asyncio.TimerHandle | None = None
        threading.Thread(target=self._listen_to_reader, daemon=True).start()

    async def start(self, host: str, port: int) -> None:
        """Begin to take clients; raises OSError if the port is not free."""
        self._loop = asyncio.get_running_loop()
        try:
            await self.tap.listen(host, port)
        except BaseException:
            self.give_up()
            raise
        if self._asks:
            self._statistics = _worker("broker_statistics", str(self.tap.upstream))
            threading.Thread(target=self._listen_to_statistics, daemon=True).start()
            self._expected = self._loop.call_later(PATIENCE, self._expect_statistics)

    async def stop(self) -> None:
        """Take no more; what was captured is still to be read."""
        await self.tap.stop()
        if self._expected is not None:
            self._expected.cancel()
        if self._statistics is not None:
            _end(self._statistics)

    def finish(self) -> None:
        """Wait until all that was captured is read and written."""
        self.tap.capture.close()
        assert self._reader.stdin is not None
        self._reader.stdin.close()
        status = self._reader.wait()
        if self.tap.capture.error:
            self.problem = self.tap.capture.error
        elif status:
            self.problem = (
                f"the process that reads what passed ended with status {status}; bytes passed all the time"
            )

    def give_up(self) -> None:
        """End at once; what is written stays."""
        for process in (self._reader, self._statistics):
            if process is not None:
                process.kill()
                process.wait()

    def progress(self) -> str:
        """Return one line: rows written, connections, what is not read yet."""
        tap, said = self.tap, self._said
        late = tap.capture.written - said["read"]
        more = f", {late // 1_000_000} MB not read yet" if late > 1_000_000 else ""
        count = said["findings"]
        found = f", {count} finding{'s' if count > 1 else ''}" if count else ""
        if self._reader.poll():
            more += "; the process that reads it has ended, bytes still pass"
        connections = f"{tap.connected} of {tap.accepted} connections open"
        return f"recording: {said['rows']} rows written, {connections}{found}{more}"

    def findings(self) -> list[str]:
        """Return what was found, and of which queues the thresholds are unknown, as the report has it."""
        try:
            report = json.loads((self.out / REPORT).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []
        found = [_times(finding["sentence"], finding["times"]) for finding in report["findings"]]
        unknown = report["thresholds_unknown"].items()
        return [*found, *(f"{queue!r}: its thresholds are unknown: {words}" for queue, words in unknown)]

    def _listen_to_reader(self) -> None:
        assert self._reader.stdout is not None
        for line in self._reader.stdout:
            self._said = json.loads(line)
            for name in self._said["queues"]:
                if self._statistics is not None and name not in self._asked and "\n" not in name:
                    self._asked.add(name)
                    self._ask(name)

    def _ask(self, name: str) -> None:
        assert self._statistics is not None and self._statistics.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            # It may have ended: this broker has no statistics.
            self._statistics.stdin.write(f"{name}\n".encode())
            self._statistics.stdin.flush()

    def _listen_to_statistics(self) -> None:
        assert self._statistics is not None and self._statistics.stdout is not None and self._loop is not None
        for line in self._statistics.stdout:
            with contextlib.suppress(RuntimeError):
                # The loop may be over.
                self._loop.call_soon_threadsafe(self._keep, line)

    def _expect_statistics(self) -> None:
        if not self._has_answered and not self.missing:
            self._keep(json.dumps({"error": f"none came in {PATIENCE:g} s"}).encode())

    def _keep(self, line: bytes) -> None:
        self.missing = json.loads(line)["error"] if line.startswith(b'{"error"') else ""
        self._has_answered |= not self.missing
        self.tap.capture.append(self.tap.now(), 0, STATISTICS, line)


def checked_folder(out: Path) -> Path:
    """Return the folder of a recording to come.

    Raises:
        RefusalError: If its name is of another kind, or something is there already.

    >>> checked_folder(Path("monday.parquet")).name
    'monday.parquet'
    """
    if not out.name.endswith(ENDING):
        allowed = f"its name ends in {ENDING}"
        raise RefusalError(f"a recording is a folder of Parquet parts, so {allowed}; got {out.name!r}")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RefusalError(f"{out}: something is there already, and it is kept; choose another name")
    return out


def _times(sentence: str, times: int) -> str:
    return sentence if times == 1 else f"{sentence} ({times} times)"


def _worker(module: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"qflow.live.{module}", *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def _end(process: subprocess.Popen[bytes]) -> None:
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.close()
    try:
        process.wait(timeout=2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
