"""WebSocketGate: AMQP 1.0 over WebSocket, for browsers and for networks that allow only HTTP.

The gate listens on a port of its own and speaks the subprotocol ``amqp`` on any path (Azure's clients use
``/$servicebus/websocket``).  It writes a client's binary messages as a stream of bytes to one end of a socket
pair, whose other end the server treats as a client's socket; and it passes the server's bytes back.

The library websockets implements the protocol, in a thread with a loop of its own.  A client that does not
read blocks only its own bridge: the library's buffer fills, then the socket pair's, and then the server sees
a socket that accepts no more bytes, as for any other client.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from websockets.asyncio.server import ServerConnection

    from qflow.live.server import Server

# The registered subprotocol, and the one that Azure's clients request.
_SUBPROTOCOLS = ("amqp", "AMQPWSB10")
_PIECE = 1 << 16
# The most bytes of one WebSocket message; client libraries put one AMQP frame in each.
_LONGEST = 8 << 20


class WebSocketGate:
    """A gate that bridges WebSockets to a server until :meth:`close`."""

    def __init__(self, server: Server, host: str, port: int, tls: ssl.SSLContext | None = None) -> None:
        self._server, self._tls = server, tls
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family)
        self.port: int = self._listener.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._is_over = asyncio.Event()
        self._thread = Thread(target=self._run, name="qflow serve --websocket", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End all bridges, and free the port."""
        self._loop.call_soon_threadsafe(self._is_over.set)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        from websockets.asyncio.server import serve

        # No pings: AMQP has its own heartbeats, at the interval that the client chooses.
        async with serve(
            self._bridge,
            sock=self._listener,
            ssl=self._tls,
            subprotocols=_SUBPROTOCOLS,
            compression=None,
            max_size=_LONGEST,
            ping_interval=None,
        ):
            await self._is_over.wait()

    async def _bridge(self, client: ServerConnection) -> None:
        """Pass bytes in both directions until one side ends."""
        from websockets.exceptions import ConnectionClosed

        # A connection to the server's own port would need TLS if that port has it, and would hide the
        # client's address from the server.
        ours, theirs = socket.socketpair()
        host, port = client.remote_address[:2]
        self._server.adopt(theirs, f"{host}:{port}")
        reader, writer = await asyncio.open_connection(sock=ours)
        back = asyncio.create_task(_pass_back(reader, client))
        with suppress(ConnectionClosed, OSError):
            async for data in client:
                writer.write(data.encode() if isinstance(data, str) else data)
                await writer.drain()
        with suppress(OSError):
            writer.write_eof()
        await back
        writer.close()


async def _pass_back(reader: asyncio.StreamReader, client: ServerConnection) -> None:
    from websockets.exceptions import ConnectionClosed

    with suppress(ConnectionClosed, OSError):
        while data := await reader.read(_PIECE):
            await client.send(data)
    await client.close()
