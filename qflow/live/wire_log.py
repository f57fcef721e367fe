"""WireLog: what passes between AMQP 1.0 clients and a broker, as rows of a client log.

A client of a log does one thing: it sends to one address, or reads one queue.  On the wire that is a link,
and of one that sends to an exchange or to no fixed address, each address and subject it uses.  It is named
after its container; where that is a UUID, ``client-1`` and so on.

=========================================  ===============================================================
on the wire                                in the log
=========================================  ===============================================================
transfer by a client, when it is whole     ``transfer``; its size is that of the whole encoded message
accepted, by the broker                    ``complete``
released, rejected, modified by it         ``refused``
transfer by the broker                     ``deliver``; of one that is settled, ``accept`` too
accepted, or settled without an outcome    ``accept``
released, modified                         ``release``
rejected                                   ``reject``
link, session or connection ends           ``error``, if it ends with one; of a consumer always, when that
                                           first matters: what it had not settled is available again
work in a transaction                      the same, when the transaction is committed
browsing, management, the coordinator      nothing
=========================================  ===============================================================

What the wire does not say is inferred from what was counted here, and :mod:`qflow.live.recording_reader`
says so beside each value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from qflow.live.amqp_frames import (
    COORDINATOR,
    DISCHARGE,
    TRANSACTIONAL,
    Attach,
    Begin,
    Close,
    Codec,
    Detach,
    Disposition,
    End,
    Flow,
    FrameError,
    FrameReader,
    Open,
    Transfer,
    descriptor_of,
    outcome_of,
    section_places,
    terminus_of,
)
from qflow.live.client_book import ClientBook, Mark, SeenClient

CLIENT, BROKER = 0, 1
"""The two directions of a connection: whose bytes they are."""

_SIDES = ("the client", "the broker")
_KEPT_OF_A_MESSAGE = 1 << 20
_SERIAL = 1 << 32
_MANAGEMENT = ("qmf.", "$", "/management")
_DEFAULT_KEYS = {"amq.topic": "#"}
_SETTLEMENT = {"accepted": "accept", "released": "release", "modified": "release", "rejected": "reject"}
_PROPERTIES, _APPLICATION = 0x73, 0x74
_ENOUGH = 1 << 16
_TO, _SUBJECT = 2, 3


@dataclass(slots=True)
class _Delivery:
    """A transfer that has no outcome yet."""

    client: SeenClient
    label: str
    mark: Mark
    time: int
    link: _Link


@dataclass(slots=True)
class _Link:
    """A link, and the message that is on its way in pieces."""

    name: str
    is_incoming: bool
    attached: list[Any] = field(default_factory=lambda: [None, None])
    is_coordinator: bool = False
    is_dynamic: bool = False
    is_browser: bool = False
    is_over: bool = False
    address: str | None = None
    queue: str = ""
    passed: int = 0
    credit: int = 0
    dry_since: int = 0
    first: Any = None
    payload: bytearray = field(default_factory=bytearray)
    length: int = 0
    # Of an exchange and a key: the log's client.
    clients: dict[tuple[str, str], SeenClient] = field(default_factory=dict)
    most_credit: int = 0


class _Session:
    """A session: its links by name and by handle, and each direction's deliveries without an outcome."""

    def __init__(self) -> None:
        self.links: dict[tuple[str, bool], _Link] = {}
        self.handles: tuple[dict[int, _Link], dict[int, _Link]] = ({}, {})
        self.unsettled: tuple[dict[int, _Delivery], dict[int, _Delivery]] = ({}, {})
        self.discharges: dict[int, tuple[bytes, bool]] = {}


class _Connection:
    """One connection, both directions."""

    def __init__(self, number: int, peer: str, codec: Codec) -> None:
        self.number, self.peer = number, peer
        self.readers = FrameReader(codec), FrameReader(codec)
        self.container, self.product = "", ""
        self.channels: tuple[dict[int, _Session], dict[int, _Session]] = ({}, {})
        self.manages = self.is_unreadable = False
        self.error = ""
        # Of a transaction: what is to be done when it ends.
        self.transactions: dict[bytes, list[Callable[[int, bool], None]]] = {}

    def sessions(self) -> Iterator[_Session]:
        """Yield each session once."""
        yield from {id(one): one for side in self.channels for one in side.values()}.values()


_Place = tuple[_Connection, _Session, _Link]


class WireLog:
    """Takes the bytes of any number of connections, and makes the rows of a client log of them.

    >>> log = WireLog()
    >>> log.open_connection(5, 1, "127.0.0.1:40000"); log.read(6, 1, CLIENT, b"GET / HTTP/1.1")
    >>> log.book.rows, next(iter(log.book.findings))
    ([], "the client's bytes on connection 1 are not read: a connection begins with AMQP and a version, \
got b'GET / HT'")
    """

    def __init__(self, group_header: str = "") -> None:
        self.book = ClientBook()
        self.connections: dict[int, _Connection] = {}
        # The application property that names a group; without it the one its queue was declared with.
        self._group_header = group_header
        self._codec = Codec()
        self._handlers: dict[type, Callable[..., None]] = {
            Open: self._open,
            Begin: self._begin,
            Attach: self._attach,
            Flow: self._flow,
            Transfer: self._transfer,
            Disposition: self._disposition,
            Detach: self._detach,
            End: self._end,
            Close: self._close,
        }

    # What the tap says

    def open_connection(self, time: int, number: int, peer: str) -> None:
        """Note a connection."""
        self.connections[number] = _Connection(number, peer, self._codec)
        self.book.connections += 1

    def read(self, time: int, number: int, side: int, data: bytes) -> None:
        """Take bytes of one direction; what cannot be read is a finding, and the connection is left alone."""
        connection = self.connections.get(number)
        if connection is None or connection.is_unreadable:
            return
        self.book.last = time
        reader = connection.readers[side]
        try:
            for frame in reader.feed(data):
                self._handlers[type(frame.performative)](connection, side, time, frame)
        except (FrameError, LookupError, TypeError, ValueError, AttributeError) as error:
            connection.is_unreadable = True
            words = str(error) if isinstance(error, FrameError) else f"it makes no sense ({error!r})"
            self.book.find(time, f"{_SIDES[side]}'s bytes on connection {number} are not read: {words}")
            self._end_all(connection, time, "the connection cannot be read any more")
        if reader.is_secure:
            connection.is_unreadable = True
            self.book.find(time, f"connection {number} goes over to TLS: it passes, and cannot be read")

    def close_connection(self, time: int, number: int, reason: str) -> None:
        """Note that a connection is gone; the reason is empty if a peer ended it."""
        connection = self.connections.pop(number, None)
        if connection is not None:
            self.book.last = time
            if reason:
                self.book.find(time, f"connection {number} ({connection.peer}): {reason}")
            self._end_all(connection, time, reason or "the connection is gone")

    # Connections, sessions, links

    def _open(self, connection: _Connection, side: int, _: int, frame: Any) -> None:
        opened = frame.performative
        properties = opened.properties if isinstance(opened.properties, dict) else {}
        product = " ".join(str(properties[key]) for key in ("product", "version") if key in properties)
        if side == CLIENT:
            connection.container, connection.product = str(opened.container_id or ""), product
        else:
            self.book.broker = product or self.book.broker

    def _begin(self, connection: _Connection, side: int, _: int, frame: Any) -> None:
        answered = frame.performative.remote_channel
        session = _Session() if answered is None else connection.channels[1 - side].get(answered)
        if session is None:
            raise FrameError(f"channel {frame.channel} answers channel {answered}, which has not begun")
        connection.channels[side][frame.channel] = session

    def _session_of(self, connection: _Connection, side: int, frame: Any) -> _Session:
        session = connection.channels[side].get(frame.channel)
        if session is None:
            what = type(frame.performative).__name__.lower()
            raise FrameError(f"{what} on channel {frame.channel}, on which no session has begun")
        return session

    def _attach(self, connection: _Connection, side: int, time: int, frame: Any) -> None:
        session, attach = self._session_of(connection, side, frame), frame.performative
        is_incoming = bool(attach.role) == (side == BROKER)
        link = session.links.get((attach.name, is_incoming))
        if link is None:
            link = session.links[attach.name, is_incoming] = _Link(str(attach.name), is_incoming)
        link.attached[side] = attach
        session.handles[side][attach.handle] = link
        node = attach.target if is_incoming else attach.source
        if side == CLIENT and descriptor_of(node) == COORDINATOR:
            link.is_coordinator = True
            return
        terminus = terminus_of(node)
        address = terminus.address if isinstance(terminus.address, str) else None
        if side == CLIENT:
            link.is_dynamic = bool(terminus.dynamic)
            link.is_browser = not is_incoming and str(terminus.distribution_mode) == "copy"
            link.address = address
            if address is not None and address.startswith(_MANAGEMENT):
                connection.manages = True
        elif link.is_dynamic:
            link.address = address
        self._note_node(link, terminus)
        if side == BROKER and not is_incoming and descriptor_of(node) is not None and link.address:
            self._note_subscription(connection, link, terminus, time)

    def _note_node(self, link: _Link, terminus: Any) -> None:
        """Remember what a queue is created with: the broker repeats as text what the client says."""
        properties, address = terminus.dynamic_node_properties, link.address
        if address is None or not isinstance(properties, dict):
            return
        given = {str(key): value for key, value in properties.items() if str(key).startswith("qpid.")}
        if given and not self._is_exchange(address):
            known = self.book.queues.setdefault(address, {})
            for key, value in given.items():
                known.setdefault(key, int(value) if str(value).isdecimal() else value)

    def _is_exchange(self, address: str) -> bool:
        return address not in self.book.queues and (
            address.startswith("amq.") or address in self.book.exchanges
        )

    def _is_ignored(self, connection: _Connection, link: _Link) -> bool:
        if link.is_coordinator or link.is_browser:
            return True
        address = link.address
        return (address is not None and address.startswith(_MANAGEMENT)) or (
            link.is_dynamic and connection.manages
        )

    def _note_subscription(self, connection: _Connection, link: _Link, terminus: Any, time: int) -> None:
        address = link.address or ""
        link.queue = address
        if self._is_exchange(address):
            ours = link.attached[CLIENT]
            asked = terminus_of(None if ours is None else ours.source)
            is_shared = "shared" in str(asked.capabilities)
            link.queue = link.name if is_shared else f"{connection.container}_{link.name}"
            self.book.queues.setdefault(link.queue, {})
            self.book.binds[address, link.queue, _binding_key(address, asked.filter)] = None
        if link.is_browser:
            self.book.find(time, f"{link.name!r} only browses {address!r}: what it reads is not in the log")
        elif not self._is_ignored(connection, link) and not link.is_dynamic:
            self._client(connection, link, "", "", time)

    def _client(self, connection: _Connection, link: _Link, exchange: str, key: str, time: int) -> SeenClient:
        """Return the log's client that a link is, for what it sends there or reads."""
        client = link.clients.get((exchange, key))
        if client is None:
            role = "producer" if link.is_incoming else "consumer"
            queue = key or exchange if link.is_incoming else link.queue
            origin = {
                "container": connection.container,
                "link": link.name,
                "product": connection.product,
                "peer": connection.peer,
            }
            client = link.clients[exchange, key] = self.book.client(
                connection.container,
                role,
                queue,
                time,
                exchange=exchange,
                key=key,
                origin=origin,
                most_credit=link.most_credit,
            )
        return client

    def _link(self, session: _Session, side: int, frame: Any) -> _Link:
        link = session.handles[side].get(frame.performative.handle)
        if link is None:
            what = type(frame.performative).__name__.lower()
            raise FrameError(f"{what} on handle {frame.performative.handle}, on which no link is attached")
        return link

    def _flow(self, connection: _Connection, side: int, time: int, frame: Any) -> None:
        flow = frame.performative
        session = self._session_of(connection, side, frame)
        if flow.handle is None or flow.link_credit is None:
            return
        link = self._link(session, side, frame)
        sender = link.attached[CLIENT if link.is_incoming else BROKER]
        if link.is_incoming == (side == CLIENT) or sender is None:
            return
        initial = sender.initial_delivery_count or 0
        seen = initial if flow.delivery_count is None else flow.delivery_count
        credit = (seen + flow.link_credit - initial - link.passed) % _SERIAL
        if credit >= _SERIAL // 2:
            return
        link.credit = credit
        if not link.is_incoming:
            # It may come with the attach, before the link is a client of the log.
            link.most_credit = max(link.most_credit, credit)
            for client in link.clients.values():
                client.most_credit = link.most_credit
        elif credit and link.dry_since:
            for client in link.clients.values():
                client.without_credit += time - link.dry_since
                client.times_without_credit += 1
            link.dry_since = 0

    # Messages

    def _transfer(self, connection: _Connection, side: int, time: int, frame: Any) -> None:
        session = self._session_of(connection, side, frame)
        link = self._link(session, side, frame)
        if link.is_incoming != (side == CLIENT):
            raise FrameError(f"transfer on handle {frame.performative.handle} by the link's receiver")
        transfer = frame.performative
        if link.first is None:
            link.first, link.length = transfer, 0
            link.payload.clear()
        if transfer.aborted:
            link.first = None
            return
        link.length += frame.length
        if len(link.payload) < _KEPT_OF_A_MESSAGE:
            link.payload += frame.payload
        if transfer.more:
            return
        first = link.first
        link.first = None
        is_settled = bool(transfer.settled or first.settled)
        if link.is_coordinator:
            self._to_coordinator(session, first, bytes(link.payload))
        elif link.is_over:
            # What crosses the end of a link on its way is not taken; the broker keeps its messages.
            if link.is_incoming:
                self.book.find(time, f"{link.name!r} sends after its link is closed: the broker drops that")
        elif link.is_incoming:
            link.passed += 1
            link.credit -= 1
            link.dry_since = time if link.credit == 0 else link.dry_since
            if not self._is_ignored(connection, link):
                self._note_transfer((connection, session, link), first, is_settled, time)
        else:
            link.passed += 1
            if not self._is_ignored(connection, link):
                self._note_delivery((connection, session, link), first, is_settled, time)

    def _read(self, link: _Link, header: str, whole: bool = False) -> tuple[_Sections, str, Mark]:
        """Return the parts of a message that has come whole, its group, and what it is known by."""
        parts = _read_sections(bytes(link.payload), self._codec, whole=whole or bool(header))
        group = str(parts.application.get(header, "")) if header else ""
        return parts, group, (hash(parts.bare), len(parts.bare))

    def _note_transfer(self, at: _Place, first: Any, settled: bool, time: int) -> None:
        connection, session, link = at
        address = link.address
        is_plain = address is not None and not self._is_exchange(address)
        header = self._header_of(address or "")
        parts, group, mark = self._read(link, header, whole=not is_plain)
        exchange, key = "", address or ""
        if not is_plain:
            to, subject = _to_and_subject(parts)
            target = to if address is None else address
            exchange, key = (target, subject) if self._is_exchange(target) else ("", target)
            if not exchange and not key:
                self.book.find(time, f"{link.name!r} sends messages to no address: they are not in the log")
                return
        client = self._client(connection, link, exchange, key, time)
        size = link.length
        transaction = self._transaction(connection, first.state)

        def do(time: int, is_committed: bool) -> None:
            if not is_committed:
                return
            is_settled = settled or transaction is not None
            label = self.book.transfer(time, client, size, mark, group, is_settled)
            if transaction is not None:
                # Accepted at once, and on its queue from the commit on.
                self.book.complete(time, client, label)
            elif not settled:
                delivery = _Delivery(client, label, mark, time, link)
                session.unsettled[CLIENT][first.delivery_id or 0] = delivery

        if transaction is None:
            do(time, True)
        else:
            transaction.append(do)

    def _header_of(self, queue: str) -> str:
        return self._group_header or str(self.book.queues.get(queue, {}).get("qpid.group_header_key", ""))

    def _note_delivery(self, at: _Place, first: Any, settled: bool, time: int) -> None:
        connection, session, link = at
        link.queue = link.queue or link.address or ""
        if not link.queue:
            self.book.find(time, f"{link.name!r} gets messages from no address: they are not in the log")
            return
        _, group, mark = self._read(link, self._header_of(link.queue))
        client = self._client(connection, link, "", "", time)
        label = self.book.deliver(time, client, link.length, mark, group, settled)
        if not settled:
            session.unsettled[BROKER][first.delivery_id or 0] = _Delivery(client, label, mark, time, link)

    # Outcomes

    def _disposition(self, connection: _Connection, side: int, time: int, frame: Any) -> None:
        session, said = self._session_of(connection, side, frame), frame.performative
        whose = 1 - side if said.role else side
        unsettled = session.unsettled[whose]
        last = said.first if said.last is None else said.last
        count = (last - said.first) % _SERIAL + 1
        if whose == CLIENT and session.discharges:
            self._discharge(connection, session, said, count, time)
        if count <= len(unsettled):
            ids = [(said.first + place) % _SERIAL for place in range(count)]
        else:
            ids = [number for number in unsettled if (number - said.first) % _SERIAL < count]
        state = said.state
        transaction = self._transaction(connection, state)
        if descriptor_of(state) == TRANSACTIONAL:
            state = state.value[1] if len(state.value) > 1 else None
        outcome = outcome_of(state)
        if outcome == "received" or (not outcome and not said.settled):
            return
        for number in ids:
            delivery = unsettled.pop(number, None)
            if delivery is None:
                continue
            if not said.role:
                # The sender forgets it: it waits for no outcome any more.
                delivery.client.unsettled -= 1
            elif whose == CLIENT:
                self._note_outcome(delivery, outcome, time)
            elif transaction is None:
                self._settle(delivery, outcome, time)
            else:
                transaction.append(self._later(delivery, outcome))

    def _later(self, delivery: _Delivery, outcome: str) -> Callable[[int, bool], None]:
        return lambda time, is_committed: self._settle(
            delivery, outcome if is_committed else "released", time
        )

    def _note_outcome(self, delivery: _Delivery, outcome: str, time: int) -> None:
        client = delivery.client
        if outcome == "accepted":
            self.book.complete(time, client, delivery.label)
        elif outcome:
            self.book.refuse(time, client, delivery.label)
        else:
            client.unsettled -= 1
            words = f"{client.name!r}: deliveries settled without an outcome, neither yes nor no"
            self.book.find(time, words)

    def _settle(self, delivery: _Delivery, outcome: str, time: int) -> None:
        event = _SETTLEMENT.get(outcome, "accept")
        self.book.settle(time, delivery.client, event, delivery.label, delivery.mark, delivery.time)

    # Transactions

    def _transaction(self, connection: _Connection, state: Any) -> list[Callable[[int, bool], None]] | None:
        if descriptor_of(state) != TRANSACTIONAL or not state.value:
            return None
        return connection.transactions.setdefault(bytes(state.value[0]), [])

    def _to_coordinator(self, session: _Session, first: Any, payload: bytes) -> None:
        _, section = self._codec.decode(payload)
        command: Any = getattr(section, "value", None)
        if descriptor_of(command) == DISCHARGE:
            fields = [*command.value, None]
            session.discharges[first.delivery_id or 0] = (bytes(fields[0]), bool(fields[1]))

    def _discharge(
        self, connection: _Connection, session: _Session, said: Any, count: int, time: int
    ) -> None:
        for number in [n for n in session.discharges if (n - said.first) % _SERIAL < count]:
            identity, has_failed = session.discharges.pop(number)
            is_committed = outcome_of(said.state) == "accepted" and not has_failed
            for act in connection.transactions.pop(identity, ()):
                act(time, is_committed)

    # Ends

    def _detach(self, connection: _Connection, side: int, time: int, frame: Any) -> None:
        session = self._session_of(connection, side, frame)
        link = session.handles[side].pop(frame.performative.handle, None)
        if link is not None and session.links.get((link.name, link.is_incoming)) is link:
            del session.links[link.name, link.is_incoming]
            self._end_link(session, link, time, _words(frame.performative.error), "its link is closed")

    def _end(self, connection: _Connection, side: int, time: int, frame: Any) -> None:
        session = connection.channels[side].pop(frame.channel, None)
        if session is not None:
            self._end_session(session, time, _words(frame.performative.error), "its session is ended")

    def _close(self, connection: _Connection, side: int, time: int, frame: Any) -> None:
        self._end_all(connection, time, "its connection is closed", _words(frame.performative.error))

    def _end_all(self, connection: _Connection, time: int, reason: str, error: str = "") -> None:
        for session in connection.sessions():
            self._end_session(session, time, error, reason)

    def _end_session(self, session: _Session, time: int, error: str, reason: str) -> None:
        for link in list(session.links.values()):
            self._end_link(session, link, time, error, reason)
        session.links.clear()

    def _end_link(self, session: _Session, link: _Link, time: int, error: str, reason: str) -> None:
        side = CLIENT if link.is_incoming else BROKER
        unsettled, link.is_over = session.unsettled[side], True
        left = [unsettled.pop(number) for number, one in list(unsettled.items()) if one.link is link]
        for client in link.clients.values():
            own = [(one.label, one.mark) for one in left if one.client is client]
            self.book.end_client(time, client, error, reason, own)


def _binding_key(exchange: str, filters: Any) -> str:
    for name, value in (filters if isinstance(filters, dict) else {}).items():
        if "binding" in str(name):
            return str(getattr(value, "value", value))
    return _DEFAULT_KEYS.get(exchange, "")


def _words(error: Any) -> str:
    """Return an error of the wire as text: its condition, and its description."""
    fields = getattr(error, "value", None)
    if not isinstance(fields, list) or not fields:
        return ""
    return ": ".join(str(part) for part in fields[:2] if part)


# Messages


class _Sections(NamedTuple):
    """What is known of a message from its first sections."""

    # From the properties on: what a broker must pass on unchanged.
    bare: bytes
    # Empty if there are none, or they were not asked for.
    properties: list[object]
    application: dict[object, object]


def _read_sections(payload: bytes, codec: Codec, whole: bool = False) -> _Sections:
    """Return a message's parts."""
    properties: list[object] = []
    application: dict[object, object] = {}
    try:
        place = bare = section_places(payload).bare
    except FrameError:
        # Not in sections: the bytes themselves are its mark.
        return _Sections(payload, properties, application)
    try:
        while whole and payload[place : place + 2] == b"\x00\x53" and payload[place + 2] <= _APPLICATION:
            code = payload[place + 2]
            length, value = codec.decode(payload[place : place + _ENOUGH])
            place += length
            if code == _PROPERTIES and isinstance(value.value, list):
                properties = value.value
            elif code == _APPLICATION and isinstance(value.value, dict):
                application = value.value
    except FrameError:
        # Longer than is looked at.
        pass
    return _Sections(payload[bare:], properties, application)


def _to_and_subject(sections: _Sections) -> tuple[str, str]:
    """Return a message's properties ``to`` and ``subject``, empty where there is none."""
    fields = [*sections.properties, None, None, None, None]
    to, subject = fields[_TO], fields[_SUBJECT]
    return (to if isinstance(to, str) else "", subject if isinstance(subject, str) else "")
