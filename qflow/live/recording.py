"""Recording: a tap between clients and a broker, and the two processes that support it.

::

    clients ──► RecordingTap ──► broker          passes bytes, at once
                   │ appends                ▲
                   ▼                        │ asks every 50 ms
               _capture-*        broker_statistics (a process, if management answers)
                   │ reads behind
                   ▼
            wire_log (a process of low priority) ──► part-*.parquet, _recording.json, the workload

The tap first passes the bytes on, unchanged; another process (:class:`qflow.live.wire_log.WireLog`) decodes
them, so that a client hardly notices the recording.  A peer that reads slowly makes the other one wait, as
without the tap: asyncio's high-water marks bound the bytes that are buffered here.

A *capture* is a set of files with the bytes of all connections in the order in which they passed.  The
process that passes the bytes must not wait for anything, so it only appends to the capture; the process that
reads it may lag behind.  A record is a time, connection, kind and length, and then the bytes.  When a file
has :data:`SEGMENT` bytes the next one is begun, and the reader removes each file that it has read: so the
space on disk grows with the bytes that are not read yet, not with the length of the recording.  The bodies
of SASL frames are replaced by zeros: passwords do not reach the disk.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from time import perf_counter_ns
from typing import Any
from urllib.parse import urlsplit

from qflow.kit import RefusalError
from qflow.live.client_book import REPORT, check_folder
from qflow.wording import format_count

_PATIENCE = 2.0
"""Seconds after which the recording reports that no statistics have arrived."""

_PORTS = {"amqp": 5672, "amqps": 5671}

SEGMENT = 64 << 20
"""The size of a capture file in bytes after which the next one is begun."""

CLIENT, BROKER, OPENED, CLOSED, STATISTICS = range(5)
"""The kinds of records: bytes by the client or the broker, a connection's begin and end, and statistics."""
_RECORD = struct.Struct("<QIBI")
_NAME = "_capture-{:05d}"
_SASL_HEADER = b"AMQP\x03"
_READ = 1 << 20


class Recording:
    """A recording of the traffic between clients and a broker; the tap runs in its own thread."""

    def __init__(
        self, upstream: Upstream, out: Path, *, group_header: str = "", asks_statistics: bool = True
    ) -> None:
        check_folder(out).mkdir(parents=True, exist_ok=True)
        # Why the recording is incomplete, and why the broker's statistics are missing now; "" for no problem.
        self.out, self.problem, self.missing = out, "", ""
        self._asks, self._has_answered = asks_statistics, False
        self.tap = _RecordingTap(upstream, _CaptureWriter(out))
        self._said: dict[str, Any] = {"rows": 0, "findings": 0, "read": 0, "queues": []}
        self._asked: set[str] = set()
        # Processes, not threads: a thread that decodes frames would keep the interpreter from the thread that
        # passes bytes.
        self._reader = _start_worker("wire_log", str(out), group_header)
        self._statistics: subprocess.Popen[bytes] | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="the tap", daemon=True)
        self._listener = threading.Thread(target=self._listen_to_reader, daemon=True)
        self._listener.start()

    def start(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        """Start to accept clients, with TLS if a context is given; raise OSError if the port is in use."""
        self._thread.start()
        try:
            self._wait(self.tap.listen(host, port, tls))
        except BaseException:
            self.give_up()
            raise
        if self._asks:
            self._statistics = asked = _start_worker("broker_statistics", str(self.tap.upstream))
            threading.Thread(target=self._listen_to_statistics, args=(asked,), daemon=True).start()
            self._loop.call_soon_threadsafe(self._loop.call_later, _PATIENCE, self._expect_statistics)

    def _wait(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        """Accept no more clients, and wait until all captured bytes are decoded and written."""
        # The order matters: first no more bytes arrive, then no more statistics; then the reader's input
        # ends, and it reads to the end of the capture.
        self._wait(self.tap.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        if self._statistics is not None:
            self._statistics.kill()
            self._statistics.wait()
        self.tap.capture.close()
        assert self._reader.stdin is not None
        self._reader.stdin.close()
        status = self._reader.wait()
        # After this its last progress report has been received.
        self._listener.join()
        words = f"the process that reads what passed ended with status {status}; bytes passed all the time"
        self.problem = self.tap.capture.error or (words if status else "")

    def give_up(self) -> None:
        """Stop at once; only the rows already written are kept."""
        for process in (self._reader, self._statistics):
            if process is not None:
                process.kill()
                process.wait()

    def progress(self) -> str:
        """Return a line of progress: rows, connections, and the bytes still to be read."""
        tap, said = self.tap, self._said
        late = tap.capture.written - said["read"]
        more = f", {late // 1_000_000} MB not read yet" if late > 1_000_000 else ""
        count = said["findings"]
        found = f", {format_count(count, 'finding')}" if count else ""
        if self._reader.poll():
            more += "; the process that reads it has ended, bytes still pass"
        connections = f"{tap.connected} of {tap.accepted} connections open"
        return f"recording: {said['rows']} rows written, {connections}{found}{more}"

    def findings(self) -> list[str]:
        """Return the findings of the recording's report, and each queue whose thresholds are unknown."""
        try:
            report = json.loads((self.out / REPORT).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return []
        found = [(each["sentence"], each["times"]) for each in report["findings"]]
        unknown = report["thresholds_unknown"].items()
        return [
            *(f"{words} ({times} times)" if times > 1 else words for words, times in found),
            *(f"{queue!r}: its thresholds are unknown: {words}" for queue, words in unknown),
        ]

    def _listen_to_reader(self) -> None:
        assert self._reader.stdout is not None
        for line in self._reader.stdout:
            self._said = json.loads(line)
            for name in self._said["queues"]:
                # The other process reads one name per line.
                if self._statistics is not None and name not in self._asked and "\n" not in name:
                    self._asked.add(name)
                    assert self._statistics.stdin is not None
                    # The process may have ended, as for a broker without statistics.
                    with suppress(OSError, ValueError):
                        self._statistics.stdin.write(f"{name}\n".encode())
                        self._statistics.stdin.flush()

    def _listen_to_statistics(self, asked: subprocess.Popen[bytes]) -> None:
        assert asked.stdout is not None
        for line in asked.stdout:
            self._loop.call_soon_threadsafe(self._keep, line)

    def _expect_statistics(self) -> None:
        if not self._has_answered and not self.missing:
            self._keep(json.dumps({"error": f"none came in {_PATIENCE:g} s"}).encode())

    def _keep(self, line: bytes) -> None:
        self.missing = json.loads(line)["error"] if line.startswith(b'{"error"') else ""
        self._has_answered |= not self.missing
        self.tap.capture.append(self.tap.now(), 0, STATISTICS, line)


def _start_worker(module: str, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"qflow.live.{module}", *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def follow_recorder(take: Callable[[str], object] = lambda line: None) -> threading.Event:
    """Call `take` with each line of standard input; return an event that is set at its end."""
    # The recorder handles Ctrl-C, and closes our input when everything is captured.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ended = threading.Event()

    def follow() -> None:
        for line in sys.stdin:
            take(line.rstrip("\n"))
        ended.set()

    threading.Thread(target=follow, daemon=True).start()
    return ended


# The tap


def stopwatch(clock: Callable[[], int] = perf_counter_ns) -> Callable[[], int]:
    """Return a function that returns the microseconds since this call, from a nanosecond clock."""
    start = clock()
    return lambda: (clock() - start) // 1_000


class Upstream:
    """A broker's address, with a PEM file of certificate authorities if the system does not have them.

    >>> upstream = Upstream("amqps://broker.example")
    >>> upstream.host, upstream.port, upstream.tls is not None
    ('broker.example', 5671, True)
    """

    def __init__(self, text: str, authorities: str | None = None) -> None:
        try:
            parts = urlsplit(text if "://" in text else f"amqp://{text}")
            usual = _PORTS[parts.scheme]
            self.host, self.port = parts.hostname or "", usual if parts.port is None else parts.port
            is_meant = self.host and not parts.path.strip("/") and not parts.username
        except (ValueError, KeyError):
            is_meant = False
        if not is_meant:
            allowed = "HOST:PORT, amqp://HOST:PORT or amqps://HOST:PORT (TLS)"
            raise RefusalError(f"a broker must be {allowed}, got {text!r}")
        is_secure = parts.scheme == "amqps"
        self.tls = ssl.create_default_context(cafile=authorities) if is_secure else None

    def __str__(self) -> str:
        return f"{'amqps' if self.tls else 'amqp'}://{self.host}:{self.port}"


class _RecordingTap:
    """A listener that connects each client to the broker, and passes bytes in both directions."""

    def __init__(self, upstream: Upstream, capture: _CaptureWriter) -> None:
        self.upstream, self.capture = upstream, capture
        self.accepted = self.connected = 0
        self.now = stopwatch()
        self._server: asyncio.Server | None = None
        self.pairs: set[_Pair] = set()

    @property
    def port(self) -> int:
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, host, port, ssl=tls)

    def _accept(self) -> asyncio.Protocol:
        self.accepted += 1
        pair = _Pair(self, self.accepted)
        self.pairs.add(pair)
        return pair.client

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for pair in list(self.pairs):
            pair.end("the recorder was stopped")
            for transport in pair.transports:
                transport.abort()
        # Aborted transports call connection_lost in the next iteration of the loop.
        await asyncio.sleep(0)


class _Pair:
    """A client's connection, and the connection to the broker that belongs to it."""

    def __init__(self, tap: _RecordingTap, number: int) -> None:
        self.tap, self.number = tap, number
        self.client, self.broker = _Peer(self, CLIENT), _Peer(self, BROKER)
        self.client.other, self.broker.other = self.broker, self.client
        self.transports: list[asyncio.Transport] = []
        self._is_over = False
        self._connecting: asyncio.Task[None] | None = None

    def begin(self, transport: asyncio.Transport) -> None:
        """Connect to the broker; until then no byte of the client is read."""
        transport.pause_reading()
        self.tap.connected += 1
        peer = transport.get_extra_info("peername") or ("a client", "")
        self.keep(OPENED, f"{peer[0]}:{peer[1]}".encode())
        self._connecting = asyncio.get_running_loop().create_task(self._connect(transport))

    async def _connect(self, client: asyncio.Transport) -> None:
        upstream = self.tap.upstream
        try:
            broker, _ = await asyncio.get_running_loop().create_connection(
                lambda: self.broker, upstream.host, upstream.port, ssl=upstream.tls
            )
        except OSError as error:
            self.end(f"no connection to {upstream}: {error.strerror or error}")
            return
        # The client may have closed its connection before the broker answered.
        if self._is_over:
            broker.abort()
        else:
            client.resume_reading()

    def keep(self, kind: int, data: bytes) -> None:
        self.tap.capture.append(self.tap.now(), self.number, kind, data)

    def end(self, reason: str = "") -> None:
        """End both connections after their remaining output; `reason` is "" if a peer ended them."""
        if self._is_over:
            return
        self._is_over = True
        self.tap.connected -= 1
        self.tap.pairs.discard(self)
        self.keep(CLOSED, reason.encode())
        for transport in self.transports:
            transport.close()


class _Peer(asyncio.Protocol):
    """One peer, whose bytes are passed to the other one and then captured."""

    other: _Peer

    def __init__(self, pair: _Pair, kind: int) -> None:
        self._pair, self._kind, self._hider, self._has_ended = pair, kind, _SaslHider(), False
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._pair.transports.append(transport)
        if self._kind == CLIENT:
            self._pair.begin(transport)

    def data_received(self, data: bytes) -> None:
        # Bytes are passed before they are captured, so that the disk delays no peer.
        other = self.other._transport
        if other is not None:
            other.write(data)
        # After SASL no byte is secret, so the bytes need no filter.
        kept = data if self._hider.is_over else self._hider.hide(data)
        if kept:
            self._pair.keep(self._kind, kept)

    def eof_received(self) -> bool:
        # A peer may close its side and still read, so the end of its stream is passed on, and both
        # connections end when the second peer closes, too. TLS cannot be closed on one side only.
        other, self._has_ended = self.other._transport, True
        if self.other._has_ended or other is None or not other.can_write_eof():
            return False
        other.write_eof()
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self._pair.end()

    def pause_writing(self) -> None:
        if self.other._transport is not None:
            self.other._transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other._transport is not None:
            self.other._transport.resume_reading()


# The capture


class _CaptureWriter:
    """A writer of the capture; it stores an error such as a full disk in `error`, and raises none."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.error, self.written = folder, "", 0
        self._number = self._size = 0
        self._file = self._open_next()

    def append(self, time: int, connection: int, kind: int, data: bytes) -> None:
        if self.error:
            return
        record = _RECORD.pack(time, connection, kind, len(data)) + data
        try:
            if self._size + len(record) > SEGMENT and self._size:
                os.close(self._file)
                self._number += 1
                self._size = 0
                self._file = self._open_next()
            # A write may be partial, as on a disk that is nearly full.
            place = 0
            while place < len(record):
                place += os.write(self._file, record[place:] if place else record)
        except OSError as error:
            self.error = f"the capture cannot be written: {error.strerror}"
            return
        self._size += len(record)
        self.written += len(record)

    def close(self) -> None:
        os.close(self._file)

    def _open_next(self) -> int:
        # Only the owner may read it, as it contains messages; and another recording's file is never reused.
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
        return os.open(self._folder / _NAME.format(self._number), flags, 0o600)


class CaptureReader:
    """A reader of a capture that another process is still writing."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.read = folder, 0
        self._number, self._file, self._buffer = 0, -1, b""

    def records(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Yield time, connection, kind and bytes of each complete record; call again for later ones."""
        while more := self._read_more():
            place, buffer = 0, self._buffer + more
            while len(buffer) - place >= _RECORD.size:
                time, connection, kind, length = _RECORD.unpack_from(buffer, place)
                end = place + _RECORD.size + length
                # The end of the record is not written yet.
                if end > len(buffer):
                    break
                yield time, connection, kind, buffer[place + _RECORD.size : end]
                self.read += end - place
                place = end
            self._buffer = buffer[place:]

    def _read_more(self) -> bytes:
        here = self._folder / _NAME.format(self._number)
        after = self._folder / _NAME.format(self._number + 1)
        if self._file < 0:
            if not here.exists():
                return b""
            self._file = os.open(here, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        # Nothing is appended to a file once the next one exists; so its existence is checked before the read.
        is_left = after.exists()
        more = os.read(self._file, _READ)
        if not more and is_left:
            os.close(self._file)
            self._file = -1
            here.unlink()
            self._number += 1
            return self._read_more()
        return more

    def remove(self) -> None:
        """Remove the file that is being read."""
        if self._file >= 0:
            os.close(self._file)
            (self._folder / _NAME.format(self._number)).unlink(missing_ok=True)


class _SaslHider:
    """A filter of the bytes in one direction that replaces the bodies of SASL frames by zeros."""

    def __init__(self) -> None:
        self.is_over = False
        self._rest = b""
        self._hidden = 0

    def hide(self, data: bytes) -> bytes:
        """Return the bytes with zeros for secrets; an incomplete header is returned by a later call."""
        data, kept = self._rest + data, bytearray()
        while data and (self._hidden or len(data) >= 8):
            size = 8
            if self._hidden:
                size = min(self._hidden, len(data))
                self._hidden -= size
                kept += bytes(size)
            # A frame begins with its length, and SASL has frame type 1; a protocol header begins with
            # letters.
            elif data[:4] != b"AMQP" and data[5] == 1:
                self._hidden = max(0, int.from_bytes(data[:4], "big") - 8)
                kept += data[:8]
            else:
                self.is_over = data[:5] != _SASL_HEADER
                size = len(data) if self.is_over else 8
                kept += data[:size]
            data = data[size:]
        self._rest = data
        return bytes(kept)
