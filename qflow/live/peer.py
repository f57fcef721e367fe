"""Peer: one client's connection, between Proton's protocol engine and qflow's broker.

Proton turns bytes into events (a link is attached, a delivery has arrived, credit was given) and calls into
bytes.  A peer turns each event into commands of the client's :class:`~qflow.broker.links.LinkSession`; the
broker's answers reach it through three hooks, and it turns them into calls of Proton.  This module contains
no rule of the broker, only the form of each command and answer on the wire.

The commands of one read are executed in the order of their frames.  Consecutive accepts become one command.
The output that commands cause is sent after the last command, as the broker writes only when it has read
(RF-08): first to other connections, then to the client's own (RF-52).  After the commands, the credit of
every link on which the client sends is filled up to 500 again, whatever the state of its queue (LNK-01);
under another brake (:mod:`qflow.live.brakes`) up to that brake's credit.

An error affects only the client that caused it: :meth:`Peer.refuse` closes its connection, with a condition
of the protocol, and ends its sessions; its unsettled messages return to their queues.

The code that runs for every message calls Proton's C functions directly, as Proton's Python objects take
longer than the broker does; all other code uses those objects.
"""

from __future__ import annotations

import platform
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from socket import socket
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from cproton import ffi, lib
from proton import (
    Collector,
    Condition,
    Connection,
    Delivery,
    Disposition,
    Endpoint,
    Event,
    Link,
    ProtonException,
    Session,
    Terminus,
    Transport,
    symbol,
)

from qflow import __version__
from qflow.broker import Broker, Message
from qflow.broker.consuming import BYTE_UNIT, INFINITE, MESSAGE_UNIT, DeliveryRecord
from qflow.broker.errors import AmqpException, LinkException, SessionException
from qflow.broker.links import (
    DELIVERY_OVERHEAD,
    SUBJECT,
    IncomingLink,
    LinkSession,
    OutgoingLink,
    condition_of,
    is_released,
)
from qflow.live import brakes
from qflow.live.amqp_frames import TRANSACTIONAL, FrameError, plain, product_of
from qflow.live.coordinator import Coordinator
from qflow.live.encoded import ROOM, Decoder, Encoded, encode_delivery
from qflow.live.frame_padding import FramePadding
from qflow.live.sasl import SaslLayer, SaslRefusedError
from qflow.live.service_nodes import SERVICE_NODES, ServiceNodes, node_of
from qflow.live.terminus import answer_source, answer_terminus, read_source, read_terminus
from qflow.messaging import qmf

CREDIT: Final = 500
"""The credit of a link on which a client sends, restored after every read (LNK-01)."""
_MOST_UNREAD, _LEAST_ALLOWANCE = 1 << 18, 1 << 14
"""The most bytes that may wait for a client to read them, and the least allowance of each of its links.

A message of more than ``_MOST_UNREAD`` bytes is sent in pieces of that size, each after the client has read
the one before.
"""
_MOST_WHEN_FULL = 1 << 20
"""While the server's memory is full, a client that holds more bytes than this gets no more messages."""
_CONNECTION_OVERHEAD = 48 << 10
"""The memory of an idle connection in bytes (measured with 2,000 connections)."""
_LONGEST_NAME = 255
_AZURE, _ANY_SIZE = "azsdk-", (1 << 31) - 1

OUTCOMES = ("accepted", "released", "rejected", "presettled", "lost")
"""The outcomes of a transfer.

A transfer is lost if it is settled without a state, or if its sender had settled it and there was no room.
"""
NO_QUEUE = "no queue"
"""The outcome of a transfer to a deleted queue, or on a link that was closed for that (LNK-09)."""

_ACCEPTED, _REJECTED = int(Disposition.ACCEPTED), int(Disposition.REJECTED)
_RELEASED, _MODIFIED = int(Disposition.RELEASED), int(Disposition.MODIFIED)
_DELIVERY, _FLOW = int(lib.PN_DELIVERY), int(lib.PN_LINK_FLOW)


class ClientLimits(NamedTuple):
    """The limits of one server for each client; a client above them loses a link or its connection.

    Fields:
        connections: The most clients at a time; a further socket is closed without an answer.
        sessions, links: The most sessions and links of one connection.
        message_size: The most bytes of one message.
        queued_bytes: The most pending bytes of one connection: of an incomplete frame, of incomplete
            messages, and of output that the client has not read; each is compared with the limit by itself.
        handshake: The seconds within which a client has to open its connection.
        memory: The most bytes of all connections and all queues together (:mod:`qflow.live.memory`); 0 for a
            quarter of the machine's memory.
    """

    connections: int = 2_000
    sessions: int = 256
    links: int = 1_000
    message_size: int = 64 << 20
    queued_bytes: int = 128 << 20
    handshake: float = 10.0
    memory: int = 0


class TransferObserver(Protocol):
    """An observer of the links, messages and outcomes of all clients."""

    # A `word` is one of OUTCOMES, NO_QUEUE, or "" for a withheld outcome.

    def attached(self, peer: Peer, role: str, node: str, refusal: str) -> None:
        """Record a link, with the condition and description of its refusal, or "" if it was attached."""

    def transferred(self, transfer: SeenTransfer, word: str) -> None:
        """Record a message with its outcome."""

    def settled(self, sending: Sending, number: int, word: str) -> None:
        """Record the outcome of a transfer whose outcome was withheld; "lost" if it never gets one."""

    def discharged(self, session: _LiveSession, ending: str) -> None:
        """Record the end of a transaction; `ending` is a constant of :mod:`qflow.live.coordinator`."""


class SeenTransfer(NamedTuple):
    """One message of a client as it arrived at the server."""

    sending: Sending
    # The queue or exchange that the message was sent to; for an anonymous relay, the message's address.
    node: str
    # The command number of the transfer in its session; TransferObserver.settled refers to it.
    number: int
    # The encoded properties, application properties and body.
    bare: bytes
    is_transactional: bool = False
    # In microseconds; messages of one read have the same time.
    time: int = 0
    # Whether the server had already received bytes of a later message of the link.
    is_followed: bool = False


class _PeerServer(Protocol):
    """A client connection's view of the server; :class:`~qflow.live.server.Server` implements it."""

    broker: Broker
    decoder: Decoder
    limits: ClientLimits
    password: str
    brake: str
    observer: TransferObserver | None
    container: str
    dirty: dict[Peer, None]
    ticking: dict[Peer, float]
    refusals: deque[str]
    is_full: bool

    def advance_time(self) -> None: ...
    def connection_name(self, container: str, peer: Peer) -> str: ...
    def manage(self, encoded: Encoded) -> bool: ...
    def note_failure(self, error: Exception) -> None: ...


@dataclass(slots=True, eq=False)
class _LiveSession:
    """A client's session: the engine's session, the hooks that it calls, and its links by name."""

    peer: Peer
    engine: LinkSession
    senders: dict[str, Sending] = field(default_factory=dict)
    receivers: dict[str, Receiving] = field(default_factory=dict)
    coordinator: Coordinator = field(init=False)

    def __post_init__(self) -> None:
        engine = self.engine
        self.coordinator = Coordinator(engine)
        engine.on_outcome, engine.on_link_closed = self.settle, self.close_link
        engine.on_ended = lambda error: self.peer.refuse("amqp:connection:forced", str(error))
        engine.consuming.on_delivery = self.deliver

    def end(self) -> None:
        engine = self.engine
        engine.on_outcome = engine.on_link_closed = engine.on_ended = None
        engine.consuming.on_delivery = None
        for sending in self.senders.values():
            sending.count_held_as_lost()
        # This breaks all reference cycles, so that Proton's objects are freed here and not by the garbage
        # collector in another thread.
        self.senders.clear()
        self.receivers.clear()
        self.peer.server.advance_time()
        engine.close()

    # Hooks that the engine calls during a command of any client

    def settle(self, name: str, number: int) -> None:
        sending = self.senders.get(name)
        if sending is not None and number in sending.held:
            delivery = sending.held.pop(number)
            sending.count("accepted")
            sending.note_settled(number, "accepted")
            lib.pn_delivery_update(delivery, _ACCEPTED)
            lib.pn_delivery_settle(delivery)
            self.peer.server.dirty[self.peer] = None

    def close_link(self, name: str, error: AmqpException) -> None:
        receiving = self.receivers.pop(name, None)
        if receiving is not None:
            self.peer.links.pop(receiving.impl, None)
            self.peer.close_link(receiving.wrapper, error)

    def deliver(self, record: DeliveryRecord) -> None:
        receiving, peer = self.receivers.get(record.tag), self.peer
        if receiving is None:
            return
        try:
            head, bare = encode_delivery(record, peer.server.broker.now)
        except Exception as error:
            peer.server.note_failure(error)
            head, bare = b"", memoryview(b"")
        receiving.number[0] = record.id & 0xFFFFFFFF
        delivery = lib.pn_delivery(receiving.impl, receiving.tag)
        if not receiving.is_presettled:
            # Proton keeps the bytes of an unsettled delivery, too.
            size = min(len(head) + len(bare), _MOST_UNREAD) + DELIVERY_OVERHEAD
            receiving.unsettled[delivery] = _Unsettled(record.id, size)
            receiving.kept += size
        receiving.sends, receiving.rest = delivery, bare
        peer.send_piece(receiving, head)


@dataclass(slots=True, eq=False)
class Sending:
    """A link on which the client sends."""

    role: ClassVar = "sender"
    session: _LiveSession
    wrapper: Link
    # None for the coordinator of a transaction, and for a service node, whose name is in `service`.
    link: IncomingLink | None = None
    service: str = ""
    # The command number of each transfer with a withheld outcome, to Proton's delivery.
    held: dict[int, Any] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    # The latest counted outcome.
    last: str = ""
    impl: Any = field(init=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.impl, self.name = self.wrapper._impl, self.wrapper.name or ""

    def end(self) -> None:
        """End the link in the broker, and roll back a coordinator's open transaction."""
        # Transfers with a withheld outcome are settled without a state: neither accepted nor refused
        # (LNK-07).
        for delivery in self.held.values():
            lib.pn_delivery_settle(delivery)
        self.count_held_as_lost()
        if self.link is not None:
            self.session.senders.pop(self.name, None)
            self.session.engine.link_detach(self.name, "sender")
        else:
            self.session.coordinator.abandon()

    def count_held_as_lost(self) -> None:
        """Count the transfers whose outcome is withheld as lost."""
        for number in self.held:
            self.count("lost")
            self.note_settled(number, "lost")
        self.held.clear()

    @property
    def node(self) -> str:
        """The name of the queue or exchange to which the link sends; "" for an anonymous relay."""
        assert self.link is not None
        return self.link.destination if self.link.queue is None else self.link.queue.name

    def describe(self) -> dict[str, Any]:
        """Return the link's state as plain values; not for a coordinator or a service node."""
        return _describe_link(self, unsettled=len(self.held), outcomes=dict(self.outcomes))

    def count(self, word: str) -> None:
        """Count a transfer's outcome, for this link and for all links of the client."""
        self.outcomes[word] += 1
        self.session.peer.outcomes[word] += 1
        self.last = word

    def note_settled(self, number: int, word: str) -> None:
        """Pass the outcome of an earlier transfer to the server's observer."""
        observer = self.session.peer.server.observer
        if observer is not None:
            observer.settled(self, number, word)


class _Unsettled(NamedTuple):
    """An unsettled delivery: its number in the engine, and its size in bytes."""

    number: int
    size: int


@dataclass(slots=True, eq=False)
class Receiving:
    """A link on which the client receives."""

    role: ClassVar = "receiver"
    session: _LiveSession
    wrapper: Link
    link: OutgoingLink
    # The unsettled deliveries by Proton's delivery, and the bytes kept for all of them.
    unsettled: dict[Any, _Unsettled] = field(default_factory=dict)
    kept: int = 0
    # The delivery that is being sent, and the part of its message that Proton does not have yet.
    sends: Any = None
    rest: memoryview = memoryview(b"")
    # The memory from which Proton reads the tag of the next delivery.
    number: Any = field(default_factory=lambda: ffi.new("uint32_t *"))
    tag: Any = field(init=False)
    impl: Any = field(init=False)
    name: str = field(init=False)
    is_presettled: bool = field(init=False)

    def __post_init__(self) -> None:
        self.impl, self.name = self.wrapper._impl, self.wrapper.name or ""
        self.is_presettled = not self.link.is_explicit
        self.tag = ffi.new("pn_bytes_t *", (4, ffi.cast("char *", self.number)))[0]

    @property
    def node(self) -> str:
        """The name of the queue from which the link receives."""
        return self.link.queue.name

    def end(self) -> None:
        """End the link in the broker."""
        self.session.receivers.pop(self.name, None)
        self.session.engine.link_detach(self.name, "receiver")

    def describe(self) -> dict[str, Any]:
        """Return the link's state as plain values."""
        counts = {"credit": self.link.credit.messages.granted, "unsettled": len(self.unsettled)}
        kinds = {"is_presettled": self.is_presettled, "is_browser": not self.link.acquires}
        return _describe_link(self, delivered=self.link.delivered, **counts, **kinds)


def _describe_link(link: Sending | Receiving, **more: Any) -> dict[str, Any]:
    """Return a link's role and names, and more."""
    session = link.session.engine.name
    return {"role": link.role, "name": link.name, "session": session, "node": link.node, **more}


class Peer:
    """A client's connection to the server."""

    def __init__(self, server: _PeerServer, address: str, connected: socket) -> None:
        self.server = server
        # Used by the server: the client's address, its socket, and whether the server has closed its side.
        self.address, self.socket, self.is_leaving = address, connected, False
        self.container = self.product = self.name = ""
        # When the client's latest bytes arrived, in the broker's microseconds.
        self.received = 0
        self.incident = ""
        # is_over: no more input is processed; the socket can be closed once all output is written.
        self.is_over = self.is_refused = False
        self.sasl = SaslLayer(server.password)
        self.connection, self.collector = Connection(), Collector()
        self.transport = Transport(Transport.SERVER)
        self.transport.max_frame_size = 0
        self.transport.channel_max = 32_767
        self.connection.collect(self.collector)
        self.transport.bind(self.connection)
        self._transport = self.transport._impl
        self._events = self.collector._impl
        self.sessions: dict[Any, _LiveSession | None] = {}
        self.links: dict[Any, Sending | Receiving] = {}
        # Links on which the client sends that the broker has closed and the client not yet.
        self._closed: dict[Any, Sending] = {}
        self.queued = 0
        # The number of received frames, and the bytes received since the last of them.
        self._frames = self._unframed = 0
        # How many sessions of the engine have been made for this client.
        self._count = 0
        self.outcomes = dict.fromkeys(OUTCOMES, 0)
        self._batches: list[AbstractContextManager[None]] = []
        self._accepted: list[int] = []
        self._accepted_of: _LiveSession | None = None
        self._services = ServiceNodes()
        self._padding: FramePadding | None = None
        self._to_credit: dict[Sending, None] = {}
        self._to_feed: dict[Receiving, None] = {}
        self._to_drain: dict[Receiving, None] = {}
        self._has_acted = False
        # How many bytes of a message are read at once; the size of a longer message is checked first.
        self._portion = min(ROOM, server.limits.message_size + 1)

    # Bytes

    def receive(self, data: bytes) -> None:
        """Process bytes from the socket, all at the same instant of the broker's time."""
        self._has_acted = False
        self.server.advance_time()
        self.received = self.server.broker.now
        try:
            if not self.sasl.is_done:
                data = self.sasl.receive(data)
            view, transport = memoryview(data), self._transport
            while view and not self.is_over:
                capacity = lib.pn_transport_capacity(transport)
                # Proton accepts no more bytes: the connection has failed, or is closing.
                if capacity <= 0:
                    break
                part = view[:capacity]
                lib.pn_transport_push(transport, ffi.from_buffer(part), len(part))
                view = view[len(part) :]
                self._handle_events()
                self._count_unframed(len(part))
            self._end_of_input()
        except SaslRefusedError as refusal:
            self.incident = str(refusal)
            self.end()
        except Exception as error:
            self.fail(error)

    def _count_unframed(self, size: int) -> None:
        """Refuse a client whose frame never ends, as no maximum frame size is announced (LNK-27)."""
        frames = lib.pn_transport_get_frames_input(self._transport)
        self._unframed = self._unframed + size if frames == self._frames else size
        self._frames = frames
        most = self.server.limits.queued_bytes
        if self._unframed > most and not self.is_over:
            self.refuse("amqp:resource-limit-exceeded", f"a frame has at most {most} bytes")

    def _end_batches(self) -> None:
        batches, self._batches = self._batches, []
        for batch in batches:
            batch.__exit__(None, None, None)

    def _begin_batch(self, engine: LinkSession) -> None:
        """Defer the effects of a session's commands until the whole read is processed (RF-52)."""
        if not engine.is_pipelining:
            self._batches.append(engine.pipeline())
            self._batches[-1].__enter__()

    def _end_of_input(self) -> None:
        self._flush_accepts(is_last=True)
        self._end_batches()
        draining, self._to_drain = self._to_drain, {}
        for receiving in draining:
            if self.links.get(receiving.impl) is receiving:
                self._drain(receiving)
        # Commands have already served the links; a read without commands, such as a heartbeat, serves them
        # here (LNK-15).
        if not self._has_acted:
            self.touch()
        for sending in self._to_credit:
            if self.links.get(sending.impl) is sending:
                self._fill_credit(sending)
        self._to_credit.clear()
        self.server.dirty[self] = None

    def _fill_credit(self, sending: Sending) -> None:
        most = CREDIT
        if self.server.brake == brakes.CREDIT and sending.link is not None and sending.link.queue is not None:
            most = brakes.most_credit(sending.link.queue, CREDIT)
        lack = most - lib.pn_link_credit(sending.impl)
        if lack > 0:
            lib.pn_link_flow(sending.impl, lack)
            self.server.dirty[self] = None

    def fill_credit(self) -> None:
        """Grant credit to each link on which the client sends, up to the credit of its brake."""
        for link in self.links.values():
            if isinstance(link, Sending):
                self._fill_credit(link)

    def touch(self) -> None:
        """Serve the links of the connection after an event on it (LNK-15)."""
        for session in self.sessions.values():
            if session is not None and session.engine.is_attached and session.engine.has_waiting:
                session.engine.link_dispatch()
                return

    def end_of_stream(self) -> None:
        """Record that the client has closed its side of the socket, and end its sessions."""
        if self.name and not self.is_over:
            self.incident = "its socket was closed while its connection was open"
        self.end()
        self.transport.close_tail()
        self._handle_events()

    def output(self, room: memoryview) -> int:
        """Copy output for the client into a buffer; return the number of bytes, or -1 at the end."""
        if self.sasl.output:
            size = min(len(room), len(self.sasl.output))
            room[:size] = self.sasl.output[:size]
            return size
        if self.is_over and not self.sasl.is_done:
            return -1
        transport = self._transport
        pending = lib.pn_transport_pending(transport)
        # Azure's library for event hubs requires fields that Proton omits. The padded output waits in the
        # SASL layer's buffer, which is sent before Proton's.
        if pending > 0 and self._padding is not None:
            self.sasl.output += self._padding.feed(self.transport.peek(pending))
            lib.pn_transport_pop(transport, pending)
            return self.output(room)
        if pending > 0:
            return int(lib.pn_transport_peek(transport, ffi.from_buffer(room), min(pending, len(room))))
        if pending == 0:
            # What is left is kept by sessions whose window is exhausted.
            self.queued = sum(map(lib.pn_session_outgoing_bytes, self.sessions))
        return int(pending)

    @property
    def held(self) -> int:
        """The bytes held for this client: unfinished, unread and unsettled messages, and the overhead."""
        # A delivery is in both numbers until it is read and settled, so the maximum counts and not the sum.
        unsettled = sum(link.kept for link in self.links.values() if isinstance(link, Receiving))
        return _CONNECTION_OVERHEAD + self.unfinished + max(self.queued, unsettled)

    @property
    def unfinished(self) -> int:
        """The bytes received of incomplete frames and messages."""
        unfinished: int = sum(map(lib.pn_session_incoming_bytes, self.sessions))
        return self._unframed + unfinished

    def pop_output(self, size: int) -> None:
        """Remove the first `size` bytes of the output, which have been written."""
        if self.sasl.output:
            del self.sasl.output[:size]
        else:
            lib.pn_transport_pop(self._transport, size)

    @property
    def is_hungry(self) -> bool:
        """Whether a link on which the client receives waits until the client has read more."""
        return bool(self._to_feed)

    def feed(self) -> None:
        """Continue the links that waited until the client had read more."""
        waiting, self._to_feed = self._to_feed, {}
        for receiving in waiting:
            if self.links.get(receiving.impl) is not receiving:
                continue
            if receiving.sends is None:
                self._feed(receiving)
            elif self.queued >= _MOST_UNREAD:
                self._to_feed[receiving] = None
            else:
                self.send_piece(receiving)

    def tick(self, now: float) -> float:
        """Process heartbeats and time-outs that are due; return the time of the next call, or 0 for none."""
        due: float = self.transport.tick(now)
        self._handle_events()
        # The real broker checks for a due heartbeat at every half of the interval, and a check serves the
        # links, too.
        self.touch()
        self.server.dirty[self] = None
        return due

    # Events

    def _handle_events(self) -> None:
        peek, pop, kind_of = lib.pn_collector_peek, lib.pn_collector_pop, lib.pn_event_type
        events = self._events
        while event := peek(events):
            kind = kind_of(event)
            try:
                if kind == _DELIVERY:
                    self._on_delivery(lib.pn_event_delivery(event))
                elif kind == _FLOW:
                    self._on_flow(lib.pn_event_link(event))
                else:
                    handler = _HANDLERS.get(kind)
                    if handler is not None:
                        self._flush_accepts()
                        handler(self, event)
            except Exception as error:
                self.fail(error)
            pop(events)

    def fail(self, error: Exception) -> None:
        """Close the connection after an error that concerns more than one link."""
        text = str(error) or type(error).__name__
        if isinstance(error, AmqpException):
            self.refuse("amqp:internal-error", condition_of(error)[1])
        elif isinstance(error, ProtonException | UnicodeError):
            # Bytes that Proton cannot decode are the client's error.
            self.refuse("amqp:decode-error", text[:1_000])
        else:
            self.server.note_failure(error)
            self.refuse("amqp:internal-error", text[:1_000])

    def refuse(self, condition: str, text: str) -> None:
        """Close the connection with an error condition of the protocol and a description."""
        self.incident = self.incident or f"{condition}: {text}"
        if self.is_refused:
            return
        self.is_refused = True
        self.end()
        if self.connection.state & Endpoint.LOCAL_UNINIT:
            self.connection.open()
        if self.connection.state & Endpoint.LOCAL_ACTIVE:
            self.connection.condition = Condition(condition, text)
            self.connection.close()
        self.server.dirty[self] = None

    def end(self) -> None:
        """End the client's sessions in the broker; later input is ignored."""
        self.is_over = True
        self._accepted.clear()
        self._end_batches()
        for session in self.sessions.values():
            if session is not None:
                session.end()
        known: dict[Any, Any]
        for known in (
            self.sessions,
            self.links,
            self._closed,
            self._to_credit,
            self._to_feed,
            self._to_drain,
        ):
            known.clear()

    def release(self) -> None:
        """Free Proton's objects and their bytes; nothing may be read or written afterwards."""
        self._services = ServiceNodes()
        del self.transport, self._transport, self.connection, self.collector, self._events

    # Connection and sessions

    def _on_open(self, event: Any) -> None:
        connection, server = self.connection, self.server
        container = connection.remote_container or ""
        if len(container) > _LONGEST_NAME:
            self.refuse("amqp:invalid-field", f"a container-id has at most {_LONGEST_NAME} characters")
            return
        if server.is_full:
            self.refuse("amqp:resource-limit-exceeded", "the server has no memory left")
            return
        self.container = container
        self.product = product_of(plain(connection.remote_properties))[:_LONGEST_NAME]
        self.name = server.connection_name(container, self)
        if self.product.startswith(_AZURE):
            # It is as good as no limit, but the library for event hubs fails if none is announced.
            self.transport.max_frame_size, self._padding = _ANY_SIZE, FramePadding()
        connection.container = server.container
        connection.offered_capabilities = [symbol("ANONYMOUS-RELAY")]
        connection.properties = {
            # A broker with another brake than Qpid's must not look like Qpid's.
            symbol("product"): "qflow" if server.brake == brakes.SILENCE else f"brakes by {server.brake}",
            symbol("version"): __version__,
            symbol("platform"): platform.system(),
            symbol("host"): platform.node(),
        }
        silence = self.transport.remote_idle_timeout
        if silence:
            # Proton announces half of its own time-out, so this returns the client's value to it (LNK-25).
            self.transport.idle_timeout = 2 * silence
        connection.open()
        server.ticking[self] = 0.0

    def _on_close(self, event: Any) -> None:
        self.end()
        self.connection.close()

    def _on_begin(self, event: Any) -> None:
        session, most = Session.wrap(lib.pn_event_session(event)), self.server.limits.sessions
        if len(self.sessions) >= most:
            self.refuse("amqp:resource-limit-exceeded", f"a connection has at most {most} sessions")
            return
        self.sessions[session._impl] = None
        session.open()

    def _on_end(self, event: Any) -> None:
        session = Session.wrap(lib.pn_event_session(event))
        known = self.sessions.pop(session._impl, None)
        if known is not None:
            for links in (self.links, self._closed):
                for impl in [impl for impl, link in links.items() if link.session is known]:
                    del links[impl]
            self._has_acted = True
            self._end_batches()
            known.end()
        self._services.forget(session)
        session.close()
        session.free()

    def _session_of(self, link: Link) -> _LiveSession:
        """Return the session of a link; the engine's session is made with its first link."""
        impl = link.session._impl
        known = self.sessions.get(impl)
        if known is None:
            self._count += 1
            name = self.name if self._count == 1 else f"{self.name}/{self._count}"
            engine = self.server.broker.link_session(name, self.name, self.container)
            known = self.sessions[impl] = _LiveSession(self, engine)
        return known

    # Links

    def _on_attach(self, event: Any) -> None:
        link, most = Link.wrap(lib.pn_event_link(event)), self.server.limits.links
        name = link.name or ""
        if len(self.links) >= most:
            self.refuse("amqp:resource-limit-exceeded", f"a connection has at most {most} links")
            return
        if link.is_receiver:
            side, terminus, asked = "target", link.target, link.remote_target
        else:
            side, terminus, asked = "source", link.source, link.remote_source
            # The broker confirms the client's mode (LNK-27).
            link.snd_settle_mode = link.remote_snd_settle_mode
        try:
            if asked.type == Terminus.UNSPECIFIED:
                raise LinkException(f"No {side} specified!", "amqp:precondition-failed")
            if len(name) > _LONGEST_NAME:
                raise LinkException(f"a link's name has at most {_LONGEST_NAME} characters")
            self._has_acted = True
            session = self._session_of(link)
            self._begin_batch(session.engine)
            if link.is_receiver:
                self._attach_sending(session, link, name)
            else:
                self._attach_receiving(session, link, name)
            self._note_attach(link, asked, "")
        except AmqpException as error:
            self._refuse_link(link, terminus, error)
        except (TypeError, ValueError) as error:
            refusal = LinkException(f"illegal attach: {error}", "amqp:invalid-field")
            self._refuse_link(link, terminus, refusal)

    def _refuse_link(self, link: Link, terminus: Terminus, error: AmqpException) -> None:
        terminus.type = Terminus.UNSPECIFIED
        link.open()
        self.close_link(link, error)
        condition = link.condition
        words = f"{condition.name}: {condition.description}"
        self.server.refusals.append(f"{self.name or self.address}: {words}")
        self._note_attach(link, link.remote_target if link.is_receiver else link.remote_source, words)

    def _note_attach(self, link: Link, asked: Terminus, refusal: str) -> None:
        """Report a link to the server's observer; the coordinator of a transaction is not reported."""
        if self.server.observer is not None and asked.type != Terminus.COORDINATOR:
            role = "sender" if link.is_receiver else "receiver"
            self.server.observer.attached(self, role, asked.address or "", refusal)

    def _attach_sending(self, session: _LiveSession, link: Link, name: str) -> None:
        target = link.remote_target
        sending = Sending(session, link)
        address = node_of(target.address)
        if address in SERVICE_NODES:
            sending.service = link.target.address = address
        elif target.type != Terminus.COORDINATOR:
            made = session.engine.link_attach(name, "sender", address, read_terminus(target))
            assert isinstance(made, IncomingLink)
            answer_terminus(link.target, made)
            sending.link, session.senders[name] = made, sending
        self.links[sending.impl] = sending
        link.open()
        self._fill_credit(sending)

    def _attach_receiving(self, session: _LiveSession, link: Link, name: str) -> None:
        address = node_of(link.remote_source.address)
        if address in SERVICE_NODES:
            self._services.attach(address, link)
            return
        made = session.engine.link_attach(name, "receiver", address, read_source(link))
        assert isinstance(made, OutgoingLink)
        receiving = Receiving(session, link, made)
        self.links[receiving.impl] = session.receivers[name] = receiving
        answer_source(link, made)
        link.open()

    def _detach(self, event: Any, is_closed: bool) -> None:
        link = Link.wrap(lib.pn_event_link(event))
        known = self.links.pop(link._impl, None)
        self._closed.pop(link._impl, None)
        self._has_acted = True
        if known is not None:
            self._begin_batch(known.session.engine)
            known.end()
        # If the broker had closed the link first, this event is the client's answer.
        if link.state & Endpoint.LOCAL_ACTIVE:
            (link.close if is_closed else link.detach)()
        link.free()

    def close_link(self, link: Link, error: AmqpException) -> None:
        """Close a link with the protocol's condition for an error."""
        condition, text = condition_of(error)
        link.condition = Condition(condition, text)
        link.close()
        self.server.dirty[self] = None

    def send_piece(self, receiving: Receiving, head: bytes = b"") -> None:
        """Send the next piece of a link's message; the rest waits until the client has read."""
        piece, receiving.rest = head + receiving.rest[:_MOST_UNREAD], receiving.rest[_MOST_UNREAD:]
        lib.pn_link_send(receiving.impl, piece, len(piece))
        self.queued += len(piece) + DELIVERY_OVERHEAD
        if not receiving.rest:
            if receiving.is_presettled:
                lib.pn_delivery_settle(receiving.sends)
            else:
                lib.pn_link_advance(receiving.impl)
            receiving.sends = None
        if receiving.rest or receiving.link.credit.volume.granted < _LEAST_ALLOWANCE:
            self._to_feed[receiving] = None
        self.server.dirty[self] = None

    # Deliveries

    def _on_delivery(self, delivery: Any) -> None:
        link = self.links.get(lib.pn_delivery_link(delivery))
        if isinstance(link, Receiving):
            self._on_disposition(link, delivery)
        elif link is not None:
            self._on_transfer(link, delivery)
        else:
            self._on_late_transfer(delivery)

    def _on_transfer(self, sending: Sending, delivery: Any) -> None:
        if not lib.pn_delivery_readable(delivery):
            # The client settles the transfer before it has an outcome, or aborts it.
            if lib.pn_delivery_settled(delivery):
                number = next((number for number, one in sending.held.items() if one == delivery), None)
                if number is not None:
                    del sending.held[number]
                    sending.note_settled(number, "lost")
                lib.pn_delivery_settle(delivery)
            return
        try:
            if lib.pn_delivery_partial(delivery):
                self._check_parts(sending, delivery)
                return
            raw = self._read_message(sending, delivery)
            is_aborted = not raw and lib.pn_delivery_aborted(delivery)
            lib.pn_link_advance(sending.impl)
            if is_aborted:
                lib.pn_delivery_settle(delivery)
            elif sending.service:
                self._services.answer(sending.service, raw)
                lib.pn_delivery_update(delivery, _ACCEPTED)
                lib.pn_delivery_settle(delivery)
            elif sending.link is None:
                self._coordinate(sending, delivery, raw)
            else:
                self._publish(sending, sending.link, delivery, raw)
        except FrameError as error:
            self._end_sending(sending, LinkException(str(error), "amqp:decode-error"))
        except SessionException as error:
            self._end_sending(sending, error)

    def _on_late_transfer(self, delivery: Any) -> None:
        """Report a message to the observer that arrived after the broker closed its link."""
        sending = self._closed.get(lib.pn_delivery_link(delivery))
        observer = self.server.observer
        is_whole = lib.pn_delivery_readable(delivery) and not lib.pn_delivery_partial(delivery)
        if sending is not None and observer is not None and is_whole:
            raw = self._read_message(sending, delivery)
            lib.pn_link_advance(sending.impl)
            with suppress(FrameError):
                bare = raw[self.server.decoder.decode(raw)[1].bare :]
                observer.transferred(SeenTransfer(sending, sending.node, -1, bare), NO_QUEUE)
        if lib.pn_delivery_settled(delivery):
            lib.pn_delivery_settle(delivery)

    def _read_message(self, sending: Sending, delivery: Any) -> bytes:
        """Return the bytes of a complete message; raise LinkException if it is too large."""
        self._to_credit[sending] = None
        room, portion = self.server.decoder.room, self._portion
        size = lib.pn_link_recv(sending.impl, room, portion)
        if size <= 0:
            return b""
        raw: bytes = ffi.unpack(room, size)
        if size == portion:
            rest = lib.pn_delivery_pending(delivery)
            self._require_size(size + rest)
            buffer = bytearray(rest)
            if rest:
                lib.pn_link_recv(sending.impl, ffi.from_buffer(buffer), rest)
            raw += bytes(buffer)
        return raw

    def _check_parts(self, sending: Sending, delivery: Any) -> None:
        """Refuse an incomplete message that is already too large, or too many bytes of them."""
        self._require_size(lib.pn_delivery_pending(delivery))
        most, waiting = self.server.limits.queued_bytes, self.unfinished
        if waiting > most:
            text = f"{waiting} bytes of unfinished messages, at most {most} are kept"
            self.refuse("amqp:resource-limit-exceeded", text)

    def _require_size(self, size: int) -> None:
        """Raise LinkException for a message above the size limit, which closes its link."""
        most = self.server.limits.message_size
        if size > most:
            raise LinkException(f"a message has at most {most} bytes", "amqp:link:message-size-exceeded")

    def _publish(self, sending: Sending, link: IncomingLink, delivery: Any, raw: bytes) -> None:
        """Publish a message in the broker, and report it to the observer with its outcome."""
        self._act()
        message, encoded = self.server.decoder.decode(raw)
        observer, session = self.server.observer, sending.session
        if observer is None:
            self._route(sending, link, delivery, message, encoded)
            return
        node = sending.node or encoded.to or ""
        number, includes = session.engine.completions.next_number, session.coordinator.includes(delivery)
        is_followed = lib.pn_link_queued(sending.impl) > 0
        bare, now = raw[encoded.bare :], self.server.broker.now
        seen = SeenTransfer(sending, node, number, bare, includes, now, is_followed)
        sending.last = ""
        try:
            self._route(sending, link, delivery, message, encoded)
        except SessionException:
            observer.transferred(seen, NO_QUEUE)
            raise
        observer.transferred(seen, sending.last)

    def _route(
        self, sending: Sending, link: IncomingLink, delivery: Any, message: Message, encoded: Encoded
    ) -> None:
        server, engine, queue = self.server, sending.session.engine, link.queue
        if server.password and message.user_id not in (None, self.sasl.user):
            text = f"user-id is {message.user_id!r}, and the client is {self.sasl.user!r}"
            raise LinkException(text, "amqp:not-allowed")
        message.routing_key = _routing_key(link, message, encoded)
        is_settled = lib.pn_delivery_settled(delivery)
        is_request = link.exchange is not None and link.exchange.name == qmf.REQUESTS
        if is_request and server.manage(encoded):
            self._settle(sending, delivery, _ACCEPTED, "accepted", is_settled)
            return
        brake = brakes.SILENCE if queue is None else server.brake
        # As for a full queue: the link stays open, and the client can send the message again (LNK-05).
        if server.is_full:
            self._turn_away(sending, delivery, "the server has no memory left", is_settled)
            return
        if brake == brakes.REJECT and queue is not None and not queue.is_deleted and brakes.is_on(queue):
            self._reject(sending, delivery, f"{queue.name} is above its stop threshold", is_settled)
            return
        is_transactional = sending.session.coordinator.includes(delivery)
        self._begin_batch(engine)
        number = engine.completions.next_number
        try:
            transfer = engine.message_transfer(message, tag=sending.name, transactional=is_transactional)
        except SessionException as error:
            if not is_released(error):
                raise
            self._turn_away(sending, delivery, error.text, is_settled)
            return
        # Only the brake "silence" withholds outcomes; with the others a stored message is accepted at once.
        if transfer.is_complete or is_settled or brake != brakes.SILENCE:
            self._settle(sending, delivery, _ACCEPTED, "accepted", is_settled)
        else:
            sending.held[number] = delivery

    def _settle(self, sending: Sending, delivery: Any, state: int, word: str, is_settled: bool) -> None:
        if not is_settled:
            lib.pn_delivery_update(delivery, state)
            sending.count(word)
        elif word in ("released", "rejected"):
            sending.count("lost")
        else:
            sending.count("presettled")
        lib.pn_delivery_settle(delivery)

    def _turn_away(self, sending: Sending, delivery: Any, text: str, is_settled: bool) -> None:
        """Refuse a message for lack of room: Qpid's broker releases it, some others reject it (LNK-05)."""
        if self.server.brake == brakes.REJECT and sending.link is not None and sending.link.queue is not None:
            self._reject(sending, delivery, text, is_settled)
        else:
            self._settle(sending, delivery, _RELEASED, "released", is_settled)

    def _reject(self, sending: Sending, delivery: Any, text: str, is_settled: bool) -> None:
        if not is_settled:
            Delivery.wrap(delivery).local.condition = Condition(brakes.REJECTED, text)
        self._settle(sending, delivery, _REJECTED, "rejected", is_settled)

    def _end_sending(self, sending: Sending, error: SessionException) -> None:
        self.links.pop(sending.impl, None)
        if self.server.observer is not None:
            self._closed[sending.impl] = sending
        sending.end()
        if not isinstance(error, LinkException):
            error = LinkException(str(error), "amqp:precondition-failed")
        self.close_link(sending.wrapper, error)

    def _on_disposition(self, receiving: Receiving, delivery: Any) -> None:
        state, is_settled = lib.pn_delivery_remote_state(delivery), lib.pn_delivery_settled(delivery)
        if not state and not is_settled:
            return
        unsettled = receiving.unsettled.pop(delivery, None)
        if unsettled is None:
            return
        receiving.kept -= unsettled.size
        if delivery == receiving.sends:
            receiving.sends, receiving.rest = None, memoryview(b"")
        session, number = receiving.session, unsettled.number
        if state == TRANSACTIONAL:
            self._act()
            self._begin_batch(session.engine)
            is_transactional = session.coordinator.includes(delivery)
            session.engine.message_accept([number], transactional=is_transactional)
        elif state in (_RELEASED, _REJECTED, _MODIFIED):
            self._act()
            self._begin_batch(session.engine)
            self._return_message(session.engine, delivery, number, state)
        else:
            # Accepted, or settled without a state, which has the same effect (LNK-12).
            if self._accepted_of is not session:
                self._flush_accepts()
                self._accepted_of = session
            self._accepted.append(number)
        if not is_settled:
            lib.pn_delivery_update(delivery, state)
        lib.pn_delivery_settle(delivery)

    def _return_message(self, engine: LinkSession, delivery: Any, number: int, state: int) -> None:
        if state == _RELEASED:
            engine.message_release([number])
        elif state == _REJECTED:
            engine.message_reject([number])
        else:
            remote = Delivery.wrap(delivery).remote
            annotations = plain(remote.annotations) if isinstance(remote.annotations, dict) else {}
            engine.message_modify([number], bool(remote.failed), bool(remote.undeliverable), annotations)

    def _flush_accepts(self, is_last: bool = False) -> None:
        """Perform the collected accepts as one command."""
        if not self._accepted:
            return
        session, numbers = self._accepted_of, self._accepted
        self._accepted_of, self._accepted = None, []
        if session is not None and session.engine.is_attached:
            self._has_acted = True
            if not is_last:
                self._begin_batch(session.engine)
            session.engine.message_accept(numbers)

    def _act(self) -> None:
        """Note that a command follows, after performing the accepts before it."""
        self._flush_accepts()
        self._has_acted = True

    # Credit

    def _on_flow(self, impl: Any) -> None:
        link = self.links.get(impl)
        if isinstance(link, Receiving):
            self._flush_accepts()
            self._feed(link, in_read=True)

    def _feed(self, receiving: Receiving, in_read: bool = False) -> None:
        """Pass a receiver's credit on to the broker, within an allowance of bytes for its socket."""
        impl, name, credit = receiving.impl, receiving.name, receiving.link.credit
        engine = receiving.session.engine
        wire, granted = lib.pn_link_credit(impl), credit.messages.granted
        allowance = credit.volume.granted
        is_allowed = allowance != INFINITE and allowance >= _LEAST_ALLOWANCE
        if in_read and (wire != granted or not is_allowed):
            self._begin_batch(engine)
        # The engine can only raise or stop credit, so a reduction is a stop and a new grant.
        if wire < granted:
            self._has_acted = True
            engine.message_stop(name)
            granted = 0
        if wire and not is_allowed:
            self._allow(receiving, in_read)
        if wire > granted:
            self._has_acted = True
            engine.message_flow(name, MESSAGE_UNIT, wire - granted)
        if impl in self.links and lib.pn_link_get_drain(impl):
            if in_read:
                # After the output, which is made at the end of the batch.
                self._to_drain[receiving] = None
            else:
                self._drain(receiving)

    def _allow(self, receiving: Receiving, in_read: bool) -> None:
        """Grant a link its share of the allowance of unread bytes, or nothing until the client has read."""
        # A message in pieces has exhausted its link's allowance, so that no later message overtakes it.
        room, allowance = _MOST_UNREAD - self.queued, 0
        # While the server is full, a client that holds much gets no more until it has settled some.
        is_heavy = self.server.is_full and self.held > _MOST_WHEN_FULL
        if room > 0 and receiving.sends is None and not is_heavy:
            receivers = sum(isinstance(link, Receiving) for link in self.links.values())
            allowance = max(room // receivers, _LEAST_ALLOWANCE)
            if in_read and allowance > _LEAST_ALLOWANCE:
                # The rest follows when all clients have been read. The full allowance takes thousands of
                # small messages, and a hundred browsers that connected at once kept another client waiting
                # until they had all of theirs (measured).
                allowance = _LEAST_ALLOWANCE
                self._to_feed[receiving] = None
        else:
            self._to_feed[receiving] = None
        if allowance != receiving.link.credit.volume.granted:
            receiving.session.engine.message_flow(receiving.name, BYTE_UNIT, allowance)

    def _drain(self, receiving: Receiving) -> None:
        """Send the available messages, and return the unused credit (LNK-10)."""
        self._has_acted = True
        receiving.session.engine.message_flush(receiving.name)
        is_more = not receiving.link.credit.volume.granted and receiving.link.queue.message_count
        if receiving.sends is not None or is_more:
            # The remaining messages come first, as soon as the socket accepts them.
            self._to_feed[receiving] = None
            return
        lib.pn_link_drained(receiving.impl)
        self.server.dirty[self] = None

    # Transactions

    def _coordinate(self, sending: Sending, delivery: Any, raw: bytes) -> None:
        self._act()
        self._begin_batch(sending.session.engine)
        coordinator = sending.session.coordinator
        error = coordinator.answer(raw, Delivery.wrap(delivery))
        if self.server.observer is not None and coordinator.ending:
            self.server.observer.discharged(sending.session, coordinator.ending)
            coordinator.ending = ""
        if error:
            # A commit for which one queue has no room closes the client's connection (LNK-23).
            self.refuse("amqp:internal-error", str(error))

    def _on_transport_error(self, event: Any) -> None:
        condition = self.transport.condition
        if condition is not None and not self.is_over:
            self.incident = f"{condition.name}: {condition.description}"
        self.end()


def _routing_key(link: IncomingLink, message: Message, encoded: Encoded) -> str | None:
    if link.queue is not None:
        return link.queue.name
    if link.exchange is None:
        return encoded.to
    subject = (message.headers or {}).get(SUBJECT)
    return subject if isinstance(subject, str) else ""


_HANDLERS: dict[int, Callable[[Peer, Any], None]] = {
    Event.CONNECTION_REMOTE_OPEN.number: Peer._on_open,
    Event.CONNECTION_REMOTE_CLOSE.number: Peer._on_close,
    Event.SESSION_REMOTE_OPEN.number: Peer._on_begin,
    Event.SESSION_REMOTE_CLOSE.number: Peer._on_end,
    Event.LINK_REMOTE_OPEN.number: Peer._on_attach,
    Event.LINK_REMOTE_CLOSE.number: lambda peer, event: peer._detach(event, is_closed=True),
    Event.LINK_REMOTE_DETACH.number: lambda peer, event: peer._detach(event, is_closed=False),
    Event.TRANSPORT_ERROR.number: Peer._on_transport_error,
    Event.TRANSPORT_CLOSED.number: lambda peer, event: peer.end(),
}
