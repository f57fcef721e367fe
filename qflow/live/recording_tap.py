"""RecordingTap: is between clients and a broker, passes every byte, and captures what passed.

Bytes go on first, and as they are, whatever they are; reading them is the work of another process
(:mod:`qflow.live.recording_reader`), so that a client hardly notices.  A peer that reads slowly makes the
other one wait, as without the tap: what is buffered here is bounded by asyncio's own marks.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from time import perf_counter_ns
from urllib.parse import urlsplit

from qflow.kit import RefusalError
from qflow.live.capture import CLOSED, FROM_BROKER, FROM_CLIENT, OPENED, CaptureWriter, SaslHider

PORT, SECURE_PORT = 5672, 5671


def stopwatch(clock: Callable[[], int] = perf_counter_ns) -> Callable[[], int]:
    """Return what returns the microseconds since now; the clock returns nanoseconds."""
    start = clock()
    return lambda: (clock() - start) // 1_000


class Upstream:
    """Where a broker is.

    Parameters:
        text: ``HOST:PORT``, ``amqp://HOST[:PORT]``, or ``amqps://HOST[:PORT]`` for TLS.
        authorities: A PEM file of certificate authorities, if the system's do not know the broker's.

    Raises:
        RefusalError: If it is none of these.

    >>> upstream = Upstream("amqps://broker.example")
    >>> upstream.host, upstream.port, upstream.tls is not None
    ('broker.example', 5671, True)
    """

    def __init__(self, text: str, authorities: str | None = None) -> None:
        allowed = f"HOST:PORT, amqp://HOST:PORT or amqps://HOST:PORT (TLS); got {text!r}"
        try:
            parts = urlsplit(text if "://" in text else f"amqp://{text}")
            port = parts.port
        except ValueError:
            raise RefusalError(f"a broker is {allowed}") from None
        if (
            parts.scheme not in ("amqp", "amqps")
            or not parts.hostname
            or parts.path.strip("/")
            or parts.username
        ):
            raise RefusalError(f"a broker is {allowed}")
        is_secure = parts.scheme == "amqps"
        self.host = parts.hostname
        self.port = port if port is not None else SECURE_PORT if is_secure else PORT
        self.tls = ssl.create_default_context(cafile=authorities) if is_secure else None

    def __str__(self) -> str:
        return f"{'amqps' if self.tls else 'amqp'}://{self.host}:{self.port}"


class RecordingTap:
    """Listens for clients, connects each to the broker, and passes what either says.

    Attributes:
        accepted, connected (int): How many connections there were, and how many there are.
        now (callable): Returns the microseconds since the start.

    >>> import tempfile
    >>> from pathlib import Path
    >>> async def main(folder):
    ...     tap = RecordingTap(Upstream("127.0.0.1:5672"), CaptureWriter(Path(folder)))
    ...     await tap.listen("127.0.0.1", 0)
    ...     port = tap.port
    ...     await tap.stop()
    ...     tap.capture.close()
    ...     return port > 0
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     asyncio.run(main(folder))
    True
    """

    def __init__(self, upstream: Upstream, capture: CaptureWriter) -> None:
        self.upstream, self.capture = upstream, capture
        self.accepted = self.connected = 0
        self.now = stopwatch()
        self._server: asyncio.Server | None = None
        self._pairs: set[_Pair] = set()

    @property
    def port(self) -> int:
        """The port that clients connect to."""
        assert self._server is not None
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def listen(self, host: str, port: int) -> None:
        """Begin to take clients; raises OSError if the port is not free."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, host, port)

    def _accept(self) -> asyncio.Protocol:
        self.accepted += 1
        pair = _Pair(self, self.accepted)
        self._pairs.add(pair)
        return pair.client

    async def stop(self) -> None:
        """Take no more clients, and end those that are here."""
        if self._server is not None:
            self._server.close()
        for pair in list(self._pairs):
            pair.end("the recorder was stopped")
            pair.client.abort()
            pair.broker.abort()
        # What was aborted says so in the next round of the loop.
        await asyncio.sleep(0)

    def leave(self, pair: _Pair) -> None:
        """Forget a connection."""
        self._pairs.discard(pair)


class _Pair:
    """A client's connection and the one that was made for it to the broker."""

    def __init__(self, tap: RecordingTap, number: int) -> None:
        self.tap, self.number = tap, number
        self.client = _Peer(self, FROM_CLIENT)
        self.broker = _Peer(self, FROM_BROKER)
        self.client.other, self.broker.other = self.broker, self.client
        self._is_over = False
        self._connecting: asyncio.Task[None] | None = None

    def begin(self, transport: asyncio.Transport) -> None:
        """Connect to the broker; until then nothing of the client is read."""
        transport.pause_reading()
        self.tap.connected += 1
        peer = transport.get_extra_info("peername") or ("a client", "")
        self.keep(OPENED, f"{peer[0]}:{peer[1]}".encode())
        self._connecting = asyncio.get_running_loop().create_task(self._connect(transport))

    async def _connect(self, client: asyncio.Transport) -> None:
        upstream = self.tap.upstream
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: self.broker, upstream.host, upstream.port, ssl=upstream.tls
            )
        except OSError as error:
            self.end(f"no connection to {upstream}: {error.strerror or error}")
            return
        if self._is_over:
            self.broker.abort()
        else:
            client.resume_reading()

    def keep(self, kind: int, data: bytes) -> None:
        """Capture something, at this moment."""
        self.tap.capture.append(self.tap.now(), self.number, kind, data)

    def end(self, reason: str = "") -> None:
        """End both connections, after what is still to be written; say why, if no peer did it."""
        if self._is_over:
            return
        self._is_over = True
        self.tap.connected -= 1
        self.tap.leave(self)
        self.keep(CLOSED, reason.encode())
        for peer in (self.client, self.broker):
            peer.close()


class _Peer(asyncio.Protocol):
    """One of the two: what it says is passed to the other and then captured."""

    other: _Peer

    def __init__(self, pair: _Pair, kind: int) -> None:
        self._pair, self._kind = pair, kind
        self._transport: asyncio.Transport | None = None
        self._hider = SaslHider()
        self._has_ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._kind == FROM_CLIENT:
            self._pair.begin(transport)

    def data_received(self, data: bytes) -> None:
        other = self.other._transport
        if other is not None:
            other.write(data)
        kept = data if self._hider.is_over else self._hider.kept(data)
        if kept:
            self._pair.keep(self._kind, kept)

    def eof_received(self) -> bool:
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

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
