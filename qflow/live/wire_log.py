"""WireLog: the traffic between AMQP 1.0 clients and a broker, as rows of a client log.

A client of a log does one thing: it sends to one address, or reads one queue.  On the wire that is a link; a
link that sends to an exchange, or to no fixed address, becomes one client for each address and subject that
it uses.  A client is named after its container, or ``client-1`` and so on if the container's id is a UUID.

=========================================  ===============================================================
on the wire                                in the log
=========================================  ===============================================================
transfer by a client, once complete        ``transfer``; its size is that of the whole encoded message
accepted, by the broker                    ``complete``
released, rejected, modified by the broker ``refused``
transfer by the broker                     ``deliver``; if it is sent settled, also ``accept``
accepted, or settled without an outcome    ``accept``
(by a client)
released, modified (by a client)           ``release``
rejected (by a client)                     ``reject``
link, session or connection ends           ``error``, if it ends with one; for a consumer always, as soon as
                                           it matters: its unsettled messages are available again
work in a transaction                      the same rows, at the commit of the transaction
browsing, management, the coordinator      no row
=========================================  ===============================================================

Facts that the wire does not state are inferred from counts (:mod:`qflow.live.client_book`).

``python -m qflow.live.wire_log FOLDER GROUP_HEADER`` is the process that reads the capture which the tap
writes.  It has low priority and may lag behind; the bytes that it has not read yet are on disk.  When its
standard input closes, also because the recorder was killed, it reads the capture to its end and exits.  On
standard output it reports its progress, one JSON object per line.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from qflow.live.amqp_frames import (
    COORDINATOR,
    MOST_KEPT,
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
    control_of,
    descriptor_of,
    outcome_of,
    product_of,
    section_places,
    terminus_of,
)
from qflow.live.client_book import (
    MOST_ROWS_OF_A_PART,
    ClientBook,
    Mark,
    RecordingFolder,
    SeenClient,
    SeenMessage,
)
from qflow.live.recording import BROKER, CLIENT, OPENED, STATISTICS, CaptureReader, follow_recorder

_SIDES = ("the client", "the broker")
_SERIAL = 1 << 32
_MANAGEMENT = ("qmf.", "$", "/management")
_DEFAULT_KEYS = {"amq.topic": "#"}
_SETTLEMENT = {"accepted": "accept", "released": "release", "modified": "release", "rejected": "reject"}
_APPLICATION = 0x74
_ENOUGH = 1 << 16
_TO, _SUBJECT = 2, 3

_POLITENESS = 10
"""The niceness of this process relative to the one that passes the bytes."""
# Seconds between two reads of the capture, and between two parts of the log.  The latter grow from 1 to 30
# with the length of the recording, as a long one would otherwise consist of thousands of small files.
_LOOK = 0.05
_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 1.0, 30.0, 100.0
_GARBAGE = 200_000


class WireLog:
    """A converter of the bytes of any number of connections to the rows of a client log.

    >>> log = WireLog()
    >>> log.open_connection(1, "127.0.0.1:40000"); log.read(1, CLIENT, b"GET / HTTP/1.1")
    >>> log.book.rows, next(iter(log.book.findings))
    ([], "the client's bytes on connection 1 are not read: a connection must begin with AMQP and a \
version; got b'GET / HT'")
    """

    def __init__(self, group_header: str = "") -> None:
        self.book = ClientBook()
        self.connections: dict[int, _Connection] = {}
        # The application property that names a message's group; "" for the one in its queue's declaration.
        self._group_header = group_header
        self.codec = Codec()

    def open_connection(self, number: int, peer: str) -> None:
        """Record a new connection."""
        self.connections[number] = _Connection(self, number, peer)
        self.book.connections += 1

    def read(self, number: int, side: int, data: bytes) -> None:
        """Read bytes of one direction; an unreadable connection becomes a finding and is then ignored."""
        connection = self.connections.get(number)
        if connection is not None and not connection.is_unreadable:
            self.book.last = self.book.now
            connection.read(side, data)

    def close_connection(self, number: int, reason: str) -> None:
        """Record the end of a connection; the reason is "" if a peer ended it."""
        connection = self.connections.pop(number, None)
        if connection is not None:
            self.book.last = self.book.now
            if reason:
                self.book.add_finding(f"connection {number} ({connection.peer}): {reason}")
            connection.end(reason or "the connection is gone")

    def group_header(self, queue: str) -> str:
        """Return the application property that names the group of a queue's messages."""
        return self._group_header or str(self.book.queues.get(queue, {}).get("qpid.group_header_key", ""))

    def is_exchange(self, address: str) -> bool:
        """Return whether an address is known to be an exchange's."""
        book = self.book
        return address not in book.queues and (address.startswith("amq.") or address in book.exchanges)


@dataclass(slots=True)
class _Link:
    """A link, and the received pieces of its incomplete message."""

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
    # The log's clients, by exchange and key.
    clients: dict[tuple[str, str], SeenClient] = field(default_factory=dict)
    most_credit: int = 0

    def take(self, frame: Any) -> Any:
        """Add a piece of a message; return the message's first transfer once it is complete, else None."""
        transfer = frame.performative
        if self.first is None:
            self.first, self.length = transfer, 0
            self.payload.clear()
        if transfer.aborted:
            self.first = None
            return None
        self.length += frame.length
        # The whole length counts, but sections and mark are read from the first MOST_KEPT bytes.
        if len(self.payload) < MOST_KEPT:
            self.payload += frame.payload
        if transfer.more:
            return None
        first, self.first = self.first, None
        return first._replace(settled=bool(transfer.settled or first.settled))


class _Session:
    def __init__(self) -> None:
        self.links: dict[tuple[str, bool], _Link] = {}
        self.handles: tuple[dict[int, _Link], dict[int, _Link]] = ({}, {})
        self.unsettled: tuple[dict[int, SeenMessage], dict[int, SeenMessage]] = ({}, {})
        self.discharges: dict[int, tuple[bytes, bool]] = {}

    def link(self, side: int, said: Any) -> _Link:
        link = self.handles[side].get(said.handle)
        if link is None:
            what = type(said).__name__.lower()
            raise FrameError(f"{what} on handle {said.handle}, on which no link is attached")
        return link


# The actions of a transaction at its end; their argument is whether it was committed.
_Work = list[Callable[[bool], None]]


class _Connection:
    """A connection, in both directions."""

    def __init__(self, log: WireLog, number: int, peer: str) -> None:
        self.log, self.book, self.number, self.peer = log, log.book, number, peer
        self.is_unreadable = False
        self._readers = FrameReader(log.codec), FrameReader(log.codec)
        self._container = self._product = ""
        self._channels: tuple[dict[int, _Session], dict[int, _Session]] = ({}, {})
        self._manages = False
        self._transactions: dict[bytes, _Work] = {}

    def read(self, side: int, data: bytes) -> None:
        reader = self._readers[side]
        try:
            for frame in reader.feed(data):
                self._handle(side, frame)
        # Damaged bytes can raise any of these in the decoder. The log then loses this connection, and the
        # recording continues.
        except (FrameError, LookupError, TypeError, ValueError, AttributeError) as error:
            self.is_unreadable = True
            words = str(error) if isinstance(error, FrameError) else f"they are malformed ({error!r})"
            self.book.add_finding(f"{_SIDES[side]}'s bytes on connection {self.number} are not read: {words}")
            self.end("the connection cannot be read any more")
        if reader.is_secure:
            self.is_unreadable = True
            self.book.add_finding(
                f"connection {self.number} switches to TLS: its bytes pass, but cannot be decoded"
            )

    def _handle(self, side: int, frame: Any) -> None:
        said, channels = frame.performative, self._channels[side]
        kind = type(said)
        if kind is Open:
            self._open(side, said)
        elif kind is Begin:
            self._begin(side, frame.channel, said)
        elif kind is Close:
            self.end("its connection is closed", _describe_error(said.error))
        elif kind is End:
            session = channels.pop(frame.channel, None)
            if session is not None:
                self._end_session(session, "its session is ended", _describe_error(said.error))
        elif frame.channel not in channels:
            what = kind.__name__.lower()
            raise FrameError(f"{what} on channel {frame.channel}, on which no session has begun")
        elif kind is Transfer:
            self._transfer(channels[frame.channel], side, frame)
        else:
            _HANDLERS[kind](self, channels[frame.channel], side, said)

    def end(self, reason: str, error: str = "") -> None:
        for session in {id(one): one for side in self._channels for one in side.values()}.values():
            self._end_session(session, reason, error)

    # Connections, sessions, links

    def _open(self, side: int, said: Any) -> None:
        product = product_of(said.properties)
        if side == CLIENT:
            self._container, self._product = str(said.container_id or ""), product
        else:
            self.book.broker = product or self.book.broker

    def _begin(self, side: int, channel: int, said: Any) -> None:
        answered = said.remote_channel
        session = _Session() if answered is None else self._channels[1 - side].get(answered)
        if session is None:
            raise FrameError(f"channel {channel} answers channel {answered}, which has not begun")
        self._channels[side][channel] = session

    def _attach(self, session: _Session, side: int, said: Any) -> None:
        is_incoming = bool(said.role) == (side == BROKER)
        link = session.links.setdefault((said.name, is_incoming), _Link(str(said.name), is_incoming))
        link.attached[side] = said
        session.handles[side][said.handle] = link
        node = said.target if is_incoming else said.source
        if side == CLIENT and descriptor_of(node) == COORDINATOR:
            link.is_coordinator = True
            return
        terminus = terminus_of(node)
        address = terminus.address if isinstance(terminus.address, str) else None
        if side == CLIENT:
            link.is_dynamic = bool(terminus.dynamic)
            link.is_browser = not is_incoming and str(terminus.distribution_mode) == "copy"
            self._manages |= _is_management(address)
        # A dynamic node's address is in the broker's answer, every other one's in the client's attach.
        if side == CLIENT or link.is_dynamic:
            link.address = address
        self._note_node(link, terminus)
        if side == BROKER and not is_incoming and descriptor_of(node) is not None and link.address:
            self._note_subscription(link, terminus)

    def _note_node(self, link: _Link, terminus: Any) -> None:
        """Record the properties of a new queue; the broker's answer has their values as text only."""
        properties, address = terminus.dynamic_node_properties, link.address
        if address is None or not isinstance(properties, dict):
            return
        given = {str(key): value for key, value in properties.items() if str(key).startswith("qpid.")}
        if given and not self.log.is_exchange(address):
            known = self.book.queues.setdefault(address, {})
            for key, value in given.items():
                known.setdefault(key, int(value) if str(value).isdecimal() else value)

    def _is_ignored(self, link: _Link) -> bool:
        is_answer = link.is_dynamic and self._manages
        return link.is_browser or is_answer or _is_management(link.address)

    def _note_subscription(self, link: _Link, terminus: Any) -> None:
        address = link.address or ""
        link.queue = address
        if self.log.is_exchange(address):
            ours = link.attached[CLIENT]
            asked = terminus_of(None if ours is None else ours.source)
            is_shared = "shared" in str(asked.capabilities)
            # The real broker gives a subscription's queue this name, but does not send it.
            link.queue = link.name if is_shared else f"{self._container}_{link.name}"
            self.book.queues.setdefault(link.queue, {})
            self.book.binds[address, link.queue, _binding_key(address, asked.filter)] = None
        if link.is_browser:
            self.book.add_finding(f"{link.name!r} only browses {address!r}: its reads are not in the log")
        elif not self._is_ignored(link) and not link.is_dynamic:
            self._find_client(link, "", "")

    def _find_client(self, link: _Link, exchange: str, key: str) -> SeenClient:
        client = link.clients.get((exchange, key))
        if client is None:
            role, queue = ("producer", key or exchange) if link.is_incoming else ("consumer", link.queue)
            client = self.book.add_client(self._container, role, queue, exchange, key)
            origin = {"container": self._container, "link": link.name, "product": self._product}
            client.origin, client.most_credit = {**origin, "peer": self.peer}, link.most_credit
            link.clients[exchange, key] = client
        return client

    def _flow(self, session: _Session, side: int, said: Any) -> None:
        if said.handle is None or said.link_credit is None:
            return
        link = session.link(side, said)
        sender = link.attached[CLIENT if link.is_incoming else BROKER]
        # A flow from the link's sender is a report, and grants no credit.
        if link.is_incoming == (side == CLIENT) or sender is None:
            return
        # Credit counts from the deliveries that the receiver had seen, in serial numbers that wrap around. A
        # negative remainder means that the credit was used up before the flow arrived.
        initial = sender.initial_delivery_count or 0
        seen = initial if said.delivery_count is None else said.delivery_count
        credit = (seen + said.link_credit - initial - link.passed) % _SERIAL
        if credit >= _SERIAL // 2:
            return
        link.credit = credit
        if not link.is_incoming:
            # Credit may arrive with the attach, before the log has a client for the link.
            link.most_credit = max(link.most_credit, credit)
            for client in link.clients.values():
                client.most_credit = link.most_credit
        elif credit and link.dry_since:
            for client in link.clients.values():
                client.without_credit += self.book.now - link.dry_since
                client.times_without_credit += 1
            link.dry_since = 0

    # Messages

    def _transfer(self, session: _Session, side: int, frame: Any) -> None:
        link = session.link(side, frame.performative)
        if link.is_incoming != (side == CLIENT):
            raise FrameError(f"transfer on handle {frame.performative.handle} by the link's receiver")
        first = link.take(frame)
        if first is None:
            return
        if link.is_coordinator:
            self._note_control(session, first, bytes(link.payload))
        elif link.is_over:
            # A message that was under way when its link ended is not transferred; a broker keeps its own.
            if link.is_incoming:
                self.book.add_finding(f"{link.name!r} sends after its link is closed: the broker drops that")
        else:
            link.passed += 1
            link.credit -= 1
            if link.credit == 0:
                link.dry_since = self.book.now
            if not self._is_ignored(link):
                note = self._note_transfer if link.is_incoming else self._note_delivery
                note(session, link, first)

    def _note_transfer(self, session: _Session, link: _Link, first: Any) -> None:
        address = link.address
        is_plain = address is not None and not self.log.is_exchange(address)
        header = self.log.group_header(address or "")
        parts = _read_message(link, self.log.codec, not is_plain or bool(header))
        exchange, key = "", address or ""
        if not is_plain:
            target = parts.to if address is None else address
            exchange, key = (target, parts.subject) if self.log.is_exchange(target) else ("", target)
            if not exchange and not key:
                self.book.add_finding(f"{link.name!r} sends messages to no address: they are not in the log")
                return
        is_settled, transaction = first.settled, self._find_transaction(first.state)
        what = self._find_client(link, exchange, key), link.length, parts.mark, parts.group(header)

        def commit(is_committed: bool) -> None:
            # The broker accepts at once; the message is on its queue only after the commit.
            if is_committed:
                self.book.complete(self.book.transfer(*what, is_settled=True))

        if transaction is not None:
            transaction.append(commit)
        else:
            message = self.book.transfer(*what, is_settled)
            if not is_settled:
                session.unsettled[CLIENT][first.delivery_id or 0] = message

    def _note_delivery(self, session: _Session, link: _Link, first: Any) -> None:
        link.queue = link.queue or link.address or ""
        if not link.queue:
            self.book.add_finding(f"{link.name!r} gets messages from no address: they are not in the log")
            return
        header = self.log.group_header(link.queue)
        parts = _read_message(link, self.log.codec, bool(header))
        client = self._find_client(link, "", "")
        message = self.book.deliver(client, link.length, parts.mark, parts.group(header), first.settled)
        if not first.settled:
            session.unsettled[BROKER][first.delivery_id or 0] = message

    # Outcomes

    def _disposition(self, session: _Session, side: int, said: Any) -> None:
        # A receiver's disposition concerns deliveries of the other side.
        whose = 1 - side if said.role else side
        unsettled = session.unsettled[whose]
        last = said.first if said.last is None else said.last
        count = (last - said.first) % _SERIAL + 1
        if whose == CLIENT and session.discharges:
            self._discharge(session, said, count)
        # A range may contain many deliveries settled long ago, so the loop is over the shorter of both.
        if count <= len(unsettled):
            ids = [(said.first + place) % _SERIAL for place in range(count)]
        else:
            ids = [number for number in unsettled if (number - said.first) % _SERIAL < count]
        state = said.state
        transaction = self._find_transaction(state)
        if descriptor_of(state) == TRANSACTIONAL:
            state = state.value[1] if len(state.value) > 1 else None
        outcome = outcome_of(state)
        if outcome == "received" or (not outcome and not said.settled):
            return
        for number in ids:
            message = unsettled.pop(number, None)
            if message is None:
                continue
            if not said.role:
                # The sender itself settles, so no outcome will follow.
                message.client.settle()
            elif whose == CLIENT:
                self._note_outcome(message, outcome)
            elif transaction is None:
                self._settle(message, outcome)
            else:
                transaction.append(partial(self._settle, message, outcome))

    def _note_outcome(self, message: SeenMessage, outcome: str) -> None:
        if outcome == "accepted":
            self.book.complete(message)
        elif outcome:
            self.book.refuse(message)
        else:
            message.client.settle()
            words = "deliveries settled without an outcome, neither yes nor no"
            self.book.add_finding(f"{message.client.name!r}: {words}")

    def _settle(self, message: SeenMessage, outcome: str, is_committed: bool = True) -> None:
        event = _SETTLEMENT.get(outcome if is_committed else "released", "accept")
        self.book.settle(message, event)

    # Transactions

    def _find_transaction(self, state: Any) -> _Work | None:
        if descriptor_of(state) != TRANSACTIONAL or not state.value:
            return None
        return self._transactions.setdefault(bytes(state.value[0]), [])

    def _note_control(self, session: _Session, first: Any, payload: bytes) -> None:
        kind, fields = control_of(payload)
        if kind == "discharge" and fields:
            has_failed = len(fields) > 1 and bool(fields[1])
            session.discharges[first.delivery_id or 0] = (bytes(fields[0]), has_failed)

    def _discharge(self, session: _Session, said: Any, count: int) -> None:
        for number in [n for n in session.discharges if (n - said.first) % _SERIAL < count]:
            identity, has_failed = session.discharges.pop(number)
            is_committed = outcome_of(said.state) == "accepted" and not has_failed
            for act in self._transactions.pop(identity, ()):
                act(is_committed)

    # Ends

    def _detach(self, session: _Session, side: int, said: Any) -> None:
        link = session.handles[side].pop(said.handle, None)
        if link is not None and session.links.get((link.name, link.is_incoming)) is link:
            del session.links[link.name, link.is_incoming]
            self._end_link(session, link, "its link is closed", _describe_error(said.error))

    def _end_session(self, session: _Session, reason: str, error: str) -> None:
        for link in list(session.links.values()):
            self._end_link(session, link, reason, error)
        session.links.clear()

    def _end_link(self, session: _Session, link: _Link, reason: str, error: str) -> None:
        unsettled, link.is_over = session.unsettled[CLIENT if link.is_incoming else BROKER], True
        for client in link.clients.values():
            left = [number for number, message in unsettled.items() if message.client is client]
            self.book.end_client(client, error, reason, [unsettled.pop(number) for number in left])


_HANDLERS: dict[Any, Callable[[_Connection, _Session, int, Any], None]] = {
    Attach: _Connection._attach,
    Flow: _Connection._flow,
    Disposition: _Connection._disposition,
    Detach: _Connection._detach,
}


def _is_management(address: str | None) -> bool:
    return address is not None and address.startswith(_MANAGEMENT)


def _binding_key(exchange: str, filters: Any) -> str:
    named = filters.items() if isinstance(filters, dict) else ()
    found = (getattr(value, "value", value) for name, value in named if "binding" in str(name))
    return str(next(found, _DEFAULT_KEYS.get(exchange, "")))


def _describe_error(error: Any) -> str:
    """Return an AMQP error as text: its condition and description."""
    fields = getattr(error, "value", None)
    if not isinstance(fields, list) or not fields:
        return ""
    return ": ".join(str(part) for part in fields[:2] if part)


class _Parts(NamedTuple):
    """The parts of a message: its mark, the destination in its properties, its application properties."""

    mark: Mark
    to: str
    subject: str
    application: dict[object, object]

    def group(self, header: str) -> str:
        return str(self.application.get(header, "")) if header else ""


def _read_message(link: _Link, codec: Codec, with_properties: bool) -> _Parts:
    """Return the parts of a complete message; without `with_properties` only its mark."""
    payload, bare = bytes(link.payload), 0
    fields: list[object] = []
    application: dict[object, object] = {}
    # A message that has no sections has its bytes as its mark; a section longer than _ENOUGH is not decoded.
    with suppress(FrameError):
        place = bare = section_places(payload).bare
        while (
            with_properties
            and payload[place : place + 2] == b"\x00\x53"
            and payload[place + 2] <= _APPLICATION
        ):
            length, section = codec.decode(payload[place : place + _ENOUGH])
            place += length
            if isinstance(section.value, list):
                fields = section.value
            elif isinstance(section.value, dict):
                application = section.value
    names = dict(enumerate(fields))
    to, subject = (value if isinstance(value := names.get(at), str) else "" for at in (_TO, _SUBJECT))
    data = payload[bare:]
    return _Parts((hash(data), len(data)), to, subject, application)


# The process that reads a capture


class _RecordingReader:
    """A reader that follows a capture, and writes the log in parts."""

    def __init__(self, path: Path, group_header: str) -> None:
        self.folder, self._reader = RecordingFolder(path), CaptureReader(path)
        self.log = WireLog(group_header)
        self.book = self.log.book
        self._begin = self._written = time.monotonic()
        self._queues = 0

    def run(self, is_over: Callable[[], bool]) -> None:
        while True:
            # Asked before the read: whatever was captured until the end is then still read.
            was_over = is_over()
            for record in self._reader.records():
                self._take(*record)
                if len(self.book.rows) >= MOST_ROWS_OF_A_PART:
                    self._write()
            now = time.monotonic()
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE + (now - self._begin) / _GROWTH)
            if was_over or now - self._written >= pause:
                self._write()
            elif len(self.book.queues) > self._queues:
                # The process that asks for statistics waits for the new queues' names.
                self._report_progress()
            if was_over:
                break
            time.sleep(_LOOK)
        self._reader.remove()

    def _take(self, at: int, number: int, kind: int, data: bytes) -> None:
        self.book.now = at
        if kind in (CLIENT, BROKER):
            self.log.read(number, kind, data)
        elif kind == STATISTICS:
            self.book.note_statistics(json.loads(data))
        else:
            note = self.log.open_connection if kind == OPENED else self.log.close_connection
            note(number, data.decode(errors="replace"))

    def _write(self) -> None:
        self.folder.keep(self.book)
        self._written = time.monotonic()
        self._report_progress()

    def _report_progress(self) -> None:
        self._queues = len(self.book.queues)
        fact = {
            "rows": self.folder.written,
            "findings": len(self.book.findings),
            "read": self._reader.read,
            "queues": [name for name in self.book.queues if not name.startswith("amq.")],
        }
        # If the recorder was killed, its capture is still read to the end.
        with suppress(OSError):
            print(json.dumps(fact), flush=True)


def main(arguments: list[str]) -> int:
    """Follow a capture until standard input closes."""
    ended = follow_recorder()
    if hasattr(os, "nice"):
        os.nice(_POLITENESS)
    gc.set_threshold(_GARBAGE)
    path, group_header = arguments
    _RecordingReader(Path(path), group_header).run(ended.is_set)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
