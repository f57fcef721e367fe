"""FaultyServer: a server in which one thing goes wrong, when so many messages have been taken.

What the faults are is said in :mod:`qflow.live.client_faults`.  Each strikes in the middle of a read: what
came with the message that it waits for is not taken any more, and the outcomes of that read are never told.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from qflow.configuration.notations import read_any
from qflow.live.certificates import server_context
from qflow.live.client_check import Conditions
from qflow.live.peer import Peer
from qflow.live.server import READ_SIZE, Server

_SILENCE, _SLOW, _REFUSED = 3.0, 2.0, 1.0
_SLOW_READ, _SLOW_PAUSE = 200, 0.01


def _reset_at_close(connected: socket.socket) -> None:
    """Let a socket's end be a reset."""
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class FaultyServer(Server):
    """A server in which something goes wrong when so many messages have been taken."""

    def __init__(self, fault: str, queue: str, strikes: tuple[int, ...], given: Conditions) -> None:
        super().__init__(tls=server_context(given.certificate))
        self.fault, self.strikes = fault, strikes
        self.taken: list[bytes] = []
        self.struck: list[float] = []
        self.back: list[float] = []
        self.status: int | None = None
        self.output = ""
        self._declared = read_any(queue)
        self._silent: list[socket.socket] = []
        # When a fault that lasts is over.
        self._lasts_until = 0.0
        self.on_taken = self._take
        self._declare()

    def _declare(self) -> None:
        self.broker.management.create("queue", self._declared.name, self._declared.properties())

    def _take(self, peer: Peer, bare: bytes) -> None:
        if len(self.back) < len(self.struck):
            self.back.append(monotonic())
        self.taken.append(bare)
        if len(self.taken) in self.strikes:
            self.struck.append(monotonic())
            _STRIKES[self.fault](self, peer)

    def turn(self, ready: Any) -> None:
        """Take a turn, and end what lasts no longer."""
        if self._lasts_until and monotonic() >= self._lasts_until:
            self._lasts_until = 0.0
            _ENDS[self.fault](self)
        if self.read_size == _SLOW_READ:
            sleep(_SLOW_PAUSE)
        super().turn(ready)

    def reset(self, peer: Peer) -> None:
        """Reset a client's connection."""
        peer.end()
        channel = self._channels[peer]
        _reset_at_close(channel.socket)
        self._drop(channel)

    def fall_silent(self, peer: Peer) -> None:
        """Read and write nothing more on a client's connection, and leave it open for a while."""
        peer.end()
        channel = self._channels[peer]
        self._silent.append(socket.socket(fileno=socket.dup(channel.socket.fileno())))
        self._drop(channel)
        self._lasts_until = monotonic() + _SILENCE

    def end_silence(self) -> None:
        """Reset what was silent."""
        for kept in self._silent:
            _reset_at_close(kept)
            kept.close()
        self._silent.clear()

    def slow_down(self, peer: Peer) -> None:
        """Read little at a time, for a while."""
        self.read_size = _SLOW_READ
        self._lasts_until = monotonic() + _SLOW

    def speed_up(self) -> None:
        """Read as much as there is."""
        self.read_size = READ_SIZE

    def shut(self, peer: Peer) -> None:
        """Reset a client's connection, and take no other for a while."""
        self.reset(peer)
        self._selector.unregister(self._listener)
        self._listener.close()
        self._lasts_until = monotonic() + _REFUSED

    def open(self) -> None:
        """Take connections again."""
        self._listener = self._listen_at(*self.address)

    def make_again(self, peer: Peer) -> None:
        """Delete the queue, and make it again."""
        self.broker.management.delete("queue", self._declared.name)
        self._declare()

    def close(self) -> None:
        """Close all connections, those that were left silent included."""
        self.end_silence()
        super().close()


_STRIKES: dict[str, Callable[[FaultyServer, Peer], None]] = {
    "cut": FaultyServer.reset,
    "half open": FaultyServer.fall_silent,
    "slow": FaultyServer.slow_down,
    "refused": FaultyServer.shut,
    "recreated": FaultyServer.make_again,
}
_ENDS: dict[str, Callable[[FaultyServer], None]] = {
    "half open": FaultyServer.end_silence,
    "slow": FaultyServer.speed_up,
    "refused": FaultyServer.open,
}
