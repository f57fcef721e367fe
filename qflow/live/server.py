"""Server: the broker behind a port, one thread, many clients.

The loop waits for sockets, reads at most 64 KiB from each socket that is ready, and writes the broker's
output to all clients concerned.  The broker's time is real time, in microseconds since the start; the clock
is read once per iteration of the loop, so that bytes read in one iteration have the same time.

One client cannot stop the others.  The resources of each client are limited (:class:`ClientLimits`), and so
are those of all clients together (:mod:`qflow.live.memory`).  An error of a client closes its own connection,
with a condition of the protocol; an error in qflow closes the connection in which it occurred, and is kept in
``failures``.  A client that does not read gets no more messages than its socket can take.

The loop is fair: when many sockets are ready it reads less from each, for a limited time, and continues with
those that have waited longest; it writes to each client once per iteration, and feeds receivers in the same
way.  A single command is not divided, however: a selector that no message matches examines its whole queue.

Only one thread at a time uses the broker: the loop, or a thread that holds ``lock``.
"""

from __future__ import annotations

import socket
import ssl
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import chain, count
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector, SelectSelector
from threading import RLock
from time import monotonic, thread_time
from typing import Any
from uuid import uuid4

from qflow.broker import Broker, BrokerOptions, Message
from qflow.broker.events import EventTable
from qflow.configuration.declaration import Declaration
from qflow.configuration.notations import read_any
from qflow.kit import RefusalError
from qflow.live.brakes import BRAKES, CREDIT, SILENCE
from qflow.live.client_book import is_a_name
from qflow.live.encoded import Decoder, Encoded
from qflow.live.memory import (
    LEAST_UNFINISHED,
    MOST_UNFINISHED,
    WORTH_CLOSING,
    default_memory,
    find_largest,
    queued_size,
)
from qflow.live.peer import ClientLimits, Peer, TransferObserver
from qflow.messaging import qmf
from qflow.trace.files import TraceLines
from qflow.workload.agenda import SECOND
from qflow.workload.model import Workload
from qflow.workload.simulate import set_up

READ_SIZE = 1 << 16
_NOT_NOW = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
_BACKLOG = 512
_KEPT = 100
_GRACE = 2.0
_PAUSE = 0.5
_LONGEST_WAIT = 0.5
_TICK = 0.02
# The socket option for the most unsent bytes that the system keeps (Linux and macOS), and its value.
_UNSENT: int | None = getattr(socket, "TCP_NOTSENT_LOWAT", None)
_MOST_UNSENT = 1 << 16
# With more than _FEW ready clients each read is shorter than read_size, but not below _LEAST_READ bytes.
_FEW, _LEAST_READ = 8, 1 << 12
# The most seconds of an iteration for reading, and for feeding receivers; and how often the memory is
# counted, in seconds or bytes read, whichever is reached first.
_READING, _FEEDING, _COUNTING, _MOST_UNCOUNTED = 0.02, 0.02, 0.1, 8 << 20


SELECT_HOLDS = 512
"""The most sockets that ``select`` accepts on Windows; other systems have epoll or kqueue."""


class Server:
    """A broker that AMQP 1.0 clients connect to; :meth:`run` is its loop."""

    def __init__(
        self,
        queues: Iterable[str | Declaration] = (),
        options: BrokerOptions | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        password: str = "",
        limits: ClientLimits | None = None,
        is_traced: bool = True,
        workload: Workload | None = None,
        brake: str = SILENCE,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if brake not in BRAKES:
            raise RefusalError(f"brake must be one of {', '.join(BRAKES)}, got {brake!r}")
        self.brake, self.tls = brake, tls
        # The most bytes that one read of a client takes.
        self.read_size = READ_SIZE
        self.observer: TransferObserver | None = None
        self.stage = None if workload is None else set_up(workload)
        self.broker = Broker(options) if self.stage is None else self.stage.broker
        events = EventTable() if self.stage is None else self.stage.events
        self.events = events if is_traced else None
        self.broker.observe(self.events)
        for queue in queues:
            asked = queue if isinstance(queue, Declaration) else read_any(queue)
            self.broker.management.create("queue", asked.name, asked.properties())
        self.agent = qmf.Agent.of(self.broker)
        self.password = password
        limits = limits or ClientLimits()
        self.limits = limits._replace(memory=limits.memory or default_memory())
        self.container = str(uuid4())
        self.decoder = Decoder()
        self.lock = RLock()
        self.dirty: dict[Peer, None] = {}
        # Clients whose output has been written, so that their receivers can get more.
        self._hungry: dict[Peer, None] = {}
        self.ticking: dict[Peer, float] = {}
        # The last hundred of each: errors in qflow itself, reasons of closed connections, refused links.
        self.failures, self.incidents, self.refusals = (deque[str](maxlen=_KEPT) for _ in range(3))
        self.on_incident: Callable[[str], None] | None = None
        # Whether the loop ends when the last client has disconnected.
        self.ends_alone = False
        self.lines: TraceLines | None = None
        self.departed: Counter[str] = Counter()
        self._started = monotonic()
        # The connected clients, in the order of their arrival.
        self._connected: dict[Peer, None] = {}
        self._unnamed = 0
        self._names: dict[str, Peer | None] = {qmf.AGENT_SESSION: None}
        self._room = memoryview(bytearray(READ_SIZE))
        self._is_stopping = False
        # Whether the memory is full, its latest count, the time of the next count, and the bytes read since.
        self.is_full, self.held, self._counts_at, self._uncounted = False, 0, 0.0, 0
        # When the listener accepts again after a pause; 0 if it is not paused.
        self._listens_at = 0.0
        self._selector = DefaultSelector()
        if isinstance(self._selector, SelectSelector):
            # The selector also holds the listener and the socket that wakes the loop.
            most = min(self.limits.connections, SELECT_HOLDS - 2)
            self.limits = self.limits._replace(connections=most)
        self._listener = self._listen_at(host, port)
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._selector.register(self._wake_in, EVENT_READ, self._wake_in)
        self.address: tuple[str, int] = self._listener.getsockname()[:2]

    def _listen_at(self, host: str, port: int) -> socket.socket:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.create_server((host, port), family=family, backlog=_BACKLOG, reuse_port=False)
        listener.setblocking(False)
        self._selector.register(listener, EVENT_READ, None)
        return listener

    # The loop

    def run(self) -> None:
        """Serve clients until :meth:`stop`; then close all connections."""
        try:
            while not self._is_stopping:
                ready = self._selector.select(self._wait())
                with self.lock:
                    self.turn(ready)
        finally:
            with self.lock:
                self.close()

    def stop(self) -> None:
        """End the loop; any thread may call it."""
        self._is_stopping = True
        self.wake()

    def wake(self) -> None:
        """Make the loop notice changes that another thread made to the broker."""
        with suppress(OSError):
            self._wake_out.send(b"\0")

    def turn(self, ready: Iterable[Any]) -> None:
        """Read the sockets that are ready, process due timers, and write the resulting output."""
        self.advance_time()
        # Management consoles may have subscribed to events, or disconnected.
        self.agent.watch()
        clients = []
        for key, mask in ready:
            if key.data is None:
                self._accept()
            elif key.data is self._wake_in:
                with suppress(BlockingIOError):
                    self._wake_in.recv(READ_SIZE)
            else:
                clients.append((key.data, mask))
        size = max(self.read_size * _FEW // max(len(clients), _FEW), min(self.read_size, _LEAST_READ))
        # Longest-waiting clients first: a client that is not served now is ready again in the next iteration.
        clients.sort(key=lambda client: client[0].received)
        # Measured in CPU time of this thread, as on a busy machine other processes use much of the real time.
        end = thread_time() + _READING
        for peer, mask in clients:
            if thread_time() > end:
                break
            self._serve(peer, mask, size)
        self._tick()
        self._count_memory()
        if self.brake == CREDIT:
            # Whatever has made room on a queue, its links get their credit here.
            for peer in self.peers():
                peer.fill_credit()
        self.agent.publish_events()
        self._write_all()
        if self.lines is not None and self.events is not None:
            try:
                self.lines.extend(self.events)
            except OSError as error:
                self.lines = None
                self.note_incident("", f"the trace cannot be written as it happens: {error}")

    def advance_time(self) -> None:
        """Advance the broker's time to the clock's, and run the simulated clients up to it."""
        now = round((monotonic() - self._started) * SECOND)
        if now > self.broker.now:
            if self.stage is not None:
                self.stage.run(now)
            self.broker.advance(max(now, self.broker.now))

    def _wait(self) -> float:
        if self.dirty or self._hungry:
            return 0.0
        now = monotonic()
        due = [_LONGEST_WAIT, *(time - now for time in self.ticking.values())]
        timer = self.broker.timers.next_due
        if timer is not None:
            due.append(self._started + timer / SECOND - now)
        return max(0.0, min(due))

    def _accept(self) -> None:
        for _ in range(_BACKLOG):
            try:
                connected, address = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                # Out of file descriptors: connected clients are still served, new ones wait a moment.
                self.note_incident("", f"a connection could not be taken: {error}")
                self._selector.unregister(self._listener)
                self._listens_at = monotonic() + _PAUSE
                return
            with suppress(OSError):
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # Output that a client does not read should wait here, where it is counted. The system's
                # buffer would take thousands of deliveries, each of which is kept until it is settled.
                if _UNSENT is not None:
                    connected.setsockopt(socket.IPPROTO_TCP, _UNSENT, _MOST_UNSENT)
            if self.tls is not None:
                # The first reads and writes perform the handshake.
                connected.setblocking(False)
                connected = self.tls.wrap_socket(connected, server_side=True, do_handshake_on_connect=False)
            self._admit(connected, f"{address[0]}:{address[1]}")

    def adopt(self, connected: socket.socket, address: str) -> None:
        """Serve a socket as a client's; any thread may call it. ``address`` is the client's own."""
        with self.lock:
            self._admit(connected, address)
        self.wake()

    def _admit(self, connected: socket.socket, address: str) -> None:
        if len(self._connected) >= self.limits.connections:
            self.note_incident(address, f"more than {self.limits.connections} connections")
            connected.close()
            return
        connected.setblocking(False)
        peer = Peer(self, address, connected)
        peer.received = self.broker.now
        self._connected[peer] = None
        self.ticking[peer] = monotonic() + self.limits.handshake
        self._selector.register(connected, EVENT_READ, peer)

    def _count_memory(self) -> None:
        """Count the memory, and close the largest clients while the count exceeds the limit."""
        now = monotonic()
        if now < self._counts_at and self._uncounted < _MOST_UNCOUNTED:
            return
        self._counts_at, self._uncounted = now + _COUNTING, 0
        most, limit = self.limits.memory, min(self.limits.memory, MOST_UNFINISHED)
        unfinished = {peer: peer.unfinished for peer in self._connected if not peer.is_over}
        self._close_largest(
            unfinished, sum(unfinished.values()) - limit, limit, LEAST_UNFINISHED, LEAST_UNFINISHED
        )
        held = {peer: peer.held for peer in self._connected if not peer.is_over}
        self.held = queued_size(self.broker.queues.queues.values()) + sum(held.values())
        # An active client may make room by settling, so it is closed only if it holds half of the memory.
        surplus = self._close_largest(held, self.held - most, most, WORTH_CLOSING, most // 2)
        # The rest is in queues, which are not emptied: the server accepts no more messages instead.
        if surplus > 0 and not self.is_full:
            self.note_incident("", f"the memory is used up: {self.held} bytes, at most {most} are kept")
        self.is_full = surplus > 0

    def _close_largest(self, weights: dict[Peer, int], surplus: int, most: int, *least: int) -> int:
        """Close the largest clients while a surplus remains; return the remaining surplus in bytes."""
        for peer in find_largest(weights, surplus, self.broker.now, *least):
            surplus -= weights[peer]
            text = f"{weights[peer]} bytes are kept for this client, and no more than {most} for all"
            self._guard(peer, peer.refuse, "amqp:resource-limit-exceeded", text)
        return surplus

    def _serve(self, peer: Peer, mask: int, size: int) -> None:
        if mask & EVENT_WRITE:
            self.dirty[peer] = None
        if not mask & EVENT_READ:
            return
        try:
            data = peer.socket.recv(size)
            # A selector does not see the bytes that TLS has already decrypted.
            while data and isinstance(peer.socket, ssl.SSLSocket) and peer.socket.pending():
                data += peer.socket.recv(size)
        except _NOT_NOW:
            return
        except OSError as error:
            if isinstance(error, ssl.SSLError):
                peer.incident = f"no TLS, or none that is taken: {error.reason or error}"
            data = b""
        if not data:
            if not peer.is_leaving:
                self._guard(peer, peer.end_of_stream)
            self._drop(peer)
        elif not peer.is_over:
            self._uncounted += len(data)
            peer.receive(data)
            self.dirty[peer] = None

    def _tick(self) -> None:
        now = monotonic()
        if self._listens_at and now >= self._listens_at:
            self._listens_at = 0.0
            self._selector.register(self._listener, EVENT_READ, None)
        for peer in [peer for peer, due in self.ticking.items() if due <= now]:
            if peer not in self._connected:
                del self.ticking[peer]
            elif peer.is_leaving:
                self._drop(peer)
            elif not peer.name:
                peer.incident = f"not open after {self.limits.handshake:g} s"
                self._drop(peer)
            else:
                next_due = self._guard(peer, peer.tick, now) or 0.0
                if next_due and peer in self.ticking:
                    self.ticking[peer] = next_due
                elif peer.transport.idle_timeout and not peer.is_over:
                    # A silent client's connection has to time out (LNK-25); Proton's clock for it starts
                    # only with the first written bytes, so ask again soon.
                    self.ticking[peer] = now + _TICK
                elif not peer.is_over:
                    self.ticking.pop(peer, None)

    def _guard(self, peer: Peer, work: Callable[..., Any], *given: Any) -> Any:
        try:
            return work(*given)
        except Exception as error:
            peer.fail(error)
            return None

    def _write_all(self) -> None:
        """Write the clients' output, then feed the receivers that waited for it."""
        # Each client is written to once, and feeding stops after a while: otherwise a client that reads as
        # fast as the server writes, or a hundred that browse a long queue, would keep all others waiting.
        dirty, self.dirty = self.dirty, {}
        for peer in dirty:
            if peer in self._connected:
                self._write(peer)
        end = thread_time() + _FEEDING
        while self._hungry and thread_time() < end:
            peer = next(iter(self._hungry))
            del self._hungry[peer]
            if peer in self._connected and not peer.is_over:
                self._guard(peer, peer.feed)

    def _write(self, peer: Peer) -> None:
        if peer.queued > self.limits.queued_bytes and not peer.is_over:
            most = self.limits.queued_bytes
            text = f"{peer.queued} bytes wait to be read, at most {most} are kept"
            self._guard(peer, peer.refuse, "amqp:resource-limit-exceeded", text)
        while not peer.is_leaving:
            size = self._guard(peer, peer.output, self._room) or 0
            if size <= 0:
                break
            try:
                sent = peer.socket.send(self._room[:size])
            except _NOT_NOW:
                self._listen(peer, EVENT_READ | EVENT_WRITE)
                if peer.is_over:
                    self.ticking[peer] = monotonic() + _GRACE
                return
            except OSError:
                self._guard(peer, peer.end_of_stream)
                self._drop(peer)
                return
            peer.pop_output(sent)
        self._listen(peer, EVENT_READ)
        if peer.is_over:
            self._leave(peer)
        elif peer.is_hungry:
            self._hungry[peer] = None

    def _listen(self, peer: Peer, mask: int) -> None:
        if self._selector.get_key(peer.socket).events != mask:
            self._selector.modify(peer.socket, mask, peer)

    def _leave(self, peer: Peer) -> None:
        """Close the sending side; a client that does not close its own side is dropped after a while."""
        if peer.is_leaving:
            return
        peer.is_leaving = True
        # Its bytes would otherwise stay until it closes, and it could fill the memory by another connection.
        peer.release()
        self._note_end(peer)
        self.ticking[peer] = monotonic() + _GRACE
        with suppress(OSError):
            peer.socket.shutdown(socket.SHUT_WR)

    def _drop(self, peer: Peer) -> None:
        if peer not in self._connected:
            return
        del self._connected[peer]
        self._guard(peer, peer.end)
        self.ticking.pop(peer, None)
        self.dirty.pop(peer, None)
        self._hungry.pop(peer, None)
        if self._names.get(peer.name) is peer:
            del self._names[peer.name]
        self.departed.update(peer.outcomes)
        # A socket that never opened an AMQP connection was no client, but a health check, say.
        if self.ends_alone and peer.name and not self.peers():
            self._is_stopping = True
        if not peer.is_leaving:
            self._note_end(peer)
        with suppress(KeyError, ValueError):
            self._selector.unregister(peer.socket)
        peer.socket.close()

    def _note_end(self, peer: Peer) -> None:
        """Report the reason of a connection's end."""
        if peer.incident:
            self.note_incident(peer.name or peer.address, peer.incident)

    def close(self) -> None:
        """Close all connections, and free the port; :meth:`run` calls it at its end."""
        text = "the broker is shutting down"
        for peer in list(self._connected):
            if not peer.is_over:
                self._guard(peer, peer.refuse, "amqp:connection:forced", text)
            peer.incident = ""
            self._write(peer)
        for peer in list(self._connected):
            peer.incident = ""
            self._drop(peer)
        self._selector.close()
        for end in (self._listener, self._wake_in, self._wake_out):
            end.close()

    # Services for peers

    def connection_name(self, container: str, peer: Peer) -> str:
        """Return a unique name for a client's connection: its container-id, with a number if it is taken."""
        base = container
        if not is_a_name(container):
            self._unnamed += 1
            base = f"client-{self._unnamed}"
        names = chain([base], (f"{base}#{number}" for number in count(2)))
        name = next(name for name in names if name not in self._names and name not in self.broker.sessions)
        self._names[name] = peer
        return name

    def manage(self, encoded: Encoded) -> bool:
        """Answer a request to management; return whether the message was a request."""
        body, correlation, properties = self.decoder.request(encoded)
        if "qmf.opcode" not in properties:
            return False
        if self.brake != SILENCE:
            # Only Qpid's brokers have this management.
            return True
        try:
            request = Message.of(
                body if isinstance(body, dict) else {},
                headers=properties,
                # In AMQP 1.0 a reply address is only a name, without an exchange.
                reply_to=None if encoded.reply_to is None else ("", encoded.reply_to),
                correlation_id=None if correlation is None else str(correlation),
            )
            self.agent.answer(request)
        except (TypeError, ValueError) as error:
            self.note_incident("management", str(error))
        return True

    def note_failure(self, error: Exception) -> None:
        """Record an error in qflow itself."""
        self.failures.append("".join(traceback.format_exception(error)))

    def note_incident(self, who: str, text: str) -> None:
        """Record the reason why a connection was closed, and report it at once."""
        line = f"{who}: {text}" if who else text
        self.incidents.append(line)
        if self.on_incident is not None:
            self.on_incident(line)

    # Observation

    def peers(self) -> list[Peer]:
        """Return the connected clients in the order of their arrival."""
        return [peer for peer in self._connected if peer.name]

    def outcomes(self) -> Counter[str]:
        """Return the number of transfers by outcome, including those of disconnected clients."""
        found = self.departed.copy()
        for peer in self.peers():
            found.update(peer.outcomes)
        return found
