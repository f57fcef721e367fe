"""The endpoints of ``qpid.messaging``: connections, their sessions, and the senders and receivers of those.

A connection reaches the broker behind a URL.  A session is one line of numbered commands to that broker; a
sender or receiver is an address that was resolved on that line.  Each call gives AMQP 0-10 commands and then
waits for something, or for nothing:

``session``
    ``session.attach``, and ``tx.select`` if it is transactional.
``sender``, ``receiver``
    ``exchange.query`` and ``queue.query`` find the node of the address, unless the connection has found it
    lately; ``queue.declare``, ``exchange.declare`` and ``exchange.bind`` follow where the address asks for
    them (:mod:`qflow.messaging.nodes`).  A receiver then gives ``message.subscribe`` and
    ``message.set-flow-mode``.  It waits for the answers.  The broker knows no senders.
``send``
    One ``message.transfer``, once the sender's window (:mod:`qflow.windows`) has room.  For room it waits for
    completions; the window of qpid-cpp gives ``execution.sync`` for that and waits for the whole session.
    With ``sync=True`` it then waits for the completion of this message.  A queue whose flow control is ON
    withholds completions: the message is on the queue, and its sender waits.
``fetch``
    ``message.flow`` grants credit, up to the capacity or for this one message; it waits for a delivery.  If
    none comes, ``message.flush`` has the broker send what it has and takes the credit back (CN-07); it waits
    until that is confirmed.
``acknowledge``
    ``session.completed`` for the deliveries, then one ``message.accept``, ``message.release`` or
    ``message.reject`` for each run of equal dispositions.  It waits until these are confirmed.
``commit``, ``rollback``
    ``tx.commit``, and waits until that is confirmed.  Or ``message.stop`` for each receiver and
    ``execution.sync``; then ``message.release`` of all that was delivered and is not settled, and
    ``tx.rollback``; then credit anew, for messages only, so that nothing comes before the next drain.
``close``
    Waits as ``sync`` does; a receiver gives ``message.cancel``, deletes the queue that is its own, releases
    what it has not handed out, and waits until that is confirmed.

*Confirmed* is a command when it and all those before it in the session are known to be complete (CM-14).  One
held transfer therefore keeps every one of these calls waiting.

Which commands ask to be reported, and when a session asks by ``execution.sync``, is what the real client's
driver does.  Whenever that is woken (by a call) or has read something, it goes through its sessions:
:meth:`Session.dispatch`.  It syncs if the last command did not ask for a report and *any* sender of the
session is idle: all it has sent has been synced.  A session's second sender that sends nothing thus has every
asynchronous command of the first followed by a sync.

The broker carries a command out within the call.  If it refuses one, the session ends there, and the client
learns of that as it would over a network: the refusal becomes the session's error, and the next call that
waits raises it.  Waiting is in virtual time, unless other threads use the broker, or it has a clock
(:mod:`qflow.messaging.hosts`).  A wait that nothing in this process can end raises a
:class:`~qflow.messaging.exceptions.WouldBlockForever`, which names what it waits for.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial, wraps
from math import ceil
from typing import Any, TypeVar, cast

from qflow.broker import BYTE_UNIT, CREDIT_MODE, EXPLICIT, INFINITE, MESSAGE_UNIT, NONE
from qflow.broker import Message as BrokerMessage
from qflow.broker.consuming import DeliveryRecord
from qflow.broker.errors import AmqpException, SessionDetached, SessionException
from qflow.messaging.address import LexError, ParseError, find_error, parse
from qflow.messaging.channel import Channel, fetch_blocks, send_blocks, sync_blocks
from qflow.messaging.exceptions import (
    ConnectError,
    ConnectionClosed,
    ConnectionError,
    Detached,
    Empty,
    InsufficientCapacity,
    InvalidOption,
    LinkClosed,
    LinkError,
    MalformedAddress,
    NontransactionalSession,
    SessionClosed,
    Timeout,
    TransactionAborted,
    TransactionError,
    from_broker,
)
from qflow.messaging.hosts import DEFAULT_URL, Host, brokers, parse_url
from qflow.messaging.messages import (
    REJECTED,
    RELEASED,
    UNLIMITED,
    Constant,
    Disposition,
    Message,  # qpidtoollibs looks for Message beside the class of the connection it is given.
    from_delivery,
    to_broker,
)
from qflow.messaging.nodes import (
    TOPIC,
    Command,
    KnownNodes,
    LinkAddress,
    Node,
    Nodes,
    bindings,
    declaration,
    without_dashes,
)
from qflow.windows import QpidPythonWindow, Step, Window, make_window

_ErrorHandler = Callable[["Endpoint", Exception], None]
_ReceivedHandler = Callable[["Session"], object]

Method = TypeVar("Method", bound=Callable[..., Any])

ACCEPTED = Disposition(None)
_UNRELIABLE = ("unreliable", "at-most-once")


def synchronized(method: Method) -> Method:
    """Let one thread at a time run a method, of all endpoints of a broker."""

    @wraps(method)
    def run(self: Endpoint, *args: Any, **kwargs: Any) -> Any:
        with self.broker_host:
            return method(self, *args, **kwargs)

    return cast(Method, run)


class Endpoint:
    """Has an error, once something has gone wrong; it is raised by every later call."""

    broker_host: Host

    def __init__(self) -> None:
        self._error: Exception | None = None
        self._on_error: _ErrorHandler | None = None

    @property
    def error(self) -> Exception | None:
        """What went wrong, or None."""
        return self._error

    @error.setter
    def error(self, error: Exception | None) -> None:
        self._error = error
        if error is not None and self._on_error is not None:
            self._on_error(self, error)

    def set_async_exception_notify_handler(self, handler: _ErrorHandler | None) -> None:
        """Have a function called with the endpoint and the exception when an error is noticed.

        The error is raised by the next call as well.  The function must not use the API.
        """
        self._on_error = handler

    def get_error(self) -> Exception | None:
        """Return what went wrong here or above, or None."""
        return self._error

    def check_error(self) -> None:
        """Raise what went wrong here or above."""
        error = self.get_error()
        if error is not None:
            raise error


class Connection(Endpoint):
    """Connects to the broker behind a URL (see :class:`qflow.messaging.hosts.Brokers`).

    Parameters:
        url: ``[user[/password]@]host[:port]``; the host is the name of a broker in this process.
        **options: Those of the real client; all become attributes.

    Raises:
        ConnectionError: For an option the real client does not know, or a protocol other than "amqp0-10".

    >>> connection = Connection.establish("localhost")
    >>> session = connection.session()
    >>> session.sender("greetings; {create: always}").send("hello")
    >>> session.receiver("greetings").fetch(timeout=1).content
    'hello'
    >>> connection.close()
    """

    OPTIONS: dict[str, object] = {
        "host": None,
        "transport": "tcp",
        "port": None,
        "heartbeat": None,
        "username": None,
        "password": None,
        "sasl_mechanisms": None,
        "sasl_service": "qpidd",
        "sasl_min_ssf": None,
        "sasl_max_ssf": None,
        "reconnect": False,
        "reconnect_timeout": None,
        "reconnect_interval": None,
        "reconnect_interval_min": 1,
        "reconnect_interval_max": 120,
        "reconnect_limit": None,
        "reconnect_urls": (),
        "reconnect_log": True,
        "address_ttl": 60,
        "tcp_nodelay": False,
        "ssl_keyfile": None,
        "ssl_certfile": None,
        "ssl_trustfile": None,
        "ssl_skip_hostname_check": False,
        "client_properties": None,
        "protocol": None,
    }
    """What the real client knows, with its defaults; most of it is about a network, which is not there."""

    def __init__(self, url: object = None, **options: Any) -> None:
        super().__init__()
        for key, value in options.items():
            if key not in self.OPTIONS:
                raise ConnectionError(text=f"Unknown connection option {key} with value {value}")
        if options.get("protocol") not in (None, "amqp0-10"):
            raise ConnectionError(
                text=f"Connection option 'protocol' value {options['protocol']!r} unsupported"
                " (must be amqp0-10)"
            )
        for key, default in self.OPTIONS.items():
            setattr(self, key, options.get(key, default))
        self.options = options
        self.url = url if url is not None else options.get("host") or DEFAULT_URL
        host, port, user, password = parse_url(self.url)
        self.host: Any = host
        self.port = port
        self.username = user or options.get("username")
        self.password = password or options.get("password")
        self.broker_host = brokers.host(self.url)
        with self.broker_host:
            self.id = self.broker_host.unique_name("client")
        self.session_counter = 0
        self.sessions: dict[str, Session] = {}
        self.known_nodes: KnownNodes = {}
        self._open = False
        self._connected = False

    @staticmethod
    def establish(url: object = None, timeout: float | None = None, **options: Any) -> Connection:
        """Return a new connection that is open."""
        connection = Connection(url, **options)
        connection.open(timeout)
        return connection

    @synchronized
    def open(self, timeout: float | None = None) -> None:
        """Open the connection.

        Raises:
            ConnectionError: It is open.
            ConnectError: The broker refuses every connection (:func:`qflow.messaging.refuse`).
        """
        if self._open:
            raise ConnectionError(text="already open")
        self._open = True
        self.attach(timeout)

    def opened(self) -> bool:
        """Return whether the connection is open."""
        return self._open

    @synchronized
    def attach(self, timeout: float | None = None) -> None:
        """Attach to the broker, with all sessions there are.

        Raises:
            ConnectError: The broker refuses every connection; the connection is of no use any more.
            Timeout: A sender or receiver waits for its answers longer than this.
        """
        if not self._connected and self.broker_host.refusal is not None:
            self.error = ConnectError(text=self.broker_host.refusal)
        self.check_error()
        self._connected = True
        for session in list(self.sessions.values()):
            session.attach()
        if not self.broker_host.wait(lambda: self.error is not None or not self._awaits_links(), timeout):
            raise Timeout("Connection attach timed out")
        self.check_error()

    def _awaits_links(self) -> bool:
        return any(
            not (link.linked or link.closed or link.error)
            for session in self.sessions.values()
            if not (session.closed or session.get_error())
            for link in session.links()
        )

    def attached(self) -> bool:
        """Return whether the connection is attached."""
        return self._connected

    @synchronized
    def detach(self, timeout: float | None = None) -> None:
        """Leave the broker: sessions end there, their transactions are aborted."""
        self._connected = False
        self.known_nodes.clear()
        for session in list(self.sessions.values()):
            session.detach()

    @synchronized
    def close(self, timeout: float | None = None) -> None:
        """Close all sessions, and leave the broker."""
        try:
            for session in list(self.sessions.values()):
                session.close(timeout)
        finally:
            self.detach(timeout)
            self._open = False

    def check_closed(self) -> None:
        """Raise a ConnectionClosed if the connection is not attached."""
        if not self._connected:
            raise ConnectionClosed(text=f"the connection to {self.url} is not attached")

    @synchronized
    def session(self, name: str | None = None, transactional: bool = False) -> Session:
        """Return a session: the one of this name if there is one, else a new one.

        Parameters:
            name: None for a name of its own.
            transactional: Whether sends and acknowledgements wait for ``commit``.
        """
        if name is None:
            name = str(self.session_counter)
            self.session_counter += 1
        full_name = f"{self.id}:{name}"
        if full_name not in self.sessions:
            self.sessions[full_name] = Session(self, full_name, transactional)
        return self.sessions[full_name]

    def _remove_session(self, session: Session) -> None:
        self.sessions.pop(session.name, None)


class TemporaryAddress(str):
    """An address whose ``#`` has become a name of its own: the node is made for this one use."""

    __slots__ = ()


class Session(Endpoint):
    """A line of commands to the broker; made by :meth:`Connection.session`.

    Attributes:
        name (str): Its name at the broker, by which message groups are owned (MG-15).
        transactional (bool): Whether sends and acknowledgements wait for ``commit``.
        channel (Channel or None): Its attachment to the broker.
        senders, receivers (list): Those that are open.
        incoming, unacked, acked (list of Message): Here but not fetched; fetched but not acknowledged;
            acknowledged but not confirmed.
        ack_capacity (int or Constant): How many acknowledgements may be unconfirmed.
        in_transaction (list of int): Deliveries accepted since the last commit.
    """

    def __init__(self, connection: Connection, name: str, transactional: bool) -> None:
        super().__init__()
        self.connection = connection
        self.broker_host = connection.broker_host
        self.name = name
        self.transactional = transactional
        self.channel: Channel | None = None
        self.senders: list[Sender] = []
        self.receivers: list[Receiver] = []
        self.incoming: list[Message] = []
        self.unacked: list[Message] = []
        self.acked: list[Message] = []
        self.ack_capacity: int | Constant = UNLIMITED
        self.in_transaction: list[int] = []
        self.closing = False
        self.closed = False
        self._to_settle: list[Message] = []
        self._next_sender = 0
        self._next_receiver = 0
        self._on_received: _ReceivedHandler | None = None
        self.attach()

    def __repr__(self) -> str:
        return f"<Session {self.name}>"

    # The attachment

    def attach(self) -> None:
        """Attach to the broker and link what there is, as far as the connection is attached."""
        if not self.connection.attached() or self.closed or self.channel is not None:
            return
        for other in self.connection.sessions.values():
            # Management may have closed the connection (CF-11), which each session notices by itself.
            other.get_error()
        if self.connection.error is not None:
            return
        self.channel = Channel(self.broker_host, self.name, self.connection.id, self)
        with self.channel.write():
            if self.transactional:
                self.channel.give(self.channel.engine.tx_select)
            for link in self.links():
                try:
                    link.attach()
                except (TypeError, ValueError) as error:
                    # As in _link; the call that made it is over, so that the link's next one raises.
                    link.fail(MalformedAddress(text=str(error)))
            self.dispatch()

    def detach(self) -> None:
        """End the attachment: what is unsettled goes back to the queues (CN-17)."""
        channel, self.channel = self.channel, None
        if channel is not None:
            channel.control(channel.engine.close)
        self._forget_deliveries()
        for link in self.links():
            link.forget_attachment()
        if self.transactional and not self.closed:
            self.closed = True
            self.error = TransactionAborted(text="Transaction aborted due to transport failure")

    def links(self) -> list[Sender | Receiver]:
        """Return the senders and receivers that are open."""
        return [*self.senders, *self.receivers]

    def _require_channel(self) -> Channel:
        if self.channel is None:
            raise Detached(text="the session is not attached")
        return self.channel

    def deliver(self, record: DeliveryRecord) -> None:
        """Keep a message that the broker sends, in the middle of any command of any client."""
        channel = self.channel
        receiver = next((r for r in self.receivers if str(r.id) == record.tag), None)
        if channel is None or receiver is None:
            return
        message = from_delivery(record, channel.host.broker.now)
        message._receiver = receiver
        receiver.received += 1
        self.incoming.append(message)
        if self._on_received is not None:
            self._on_received(self)

    def dispatch(self) -> None:
        """Give what is due, as the real client's driver does when it is woken or has read something."""
        channel = self.channel
        if channel is None or self.closing or not channel.engine.is_attached:
            return
        with channel.write():
            for link in self.links():
                link.leave()
            if channel.needs_sync and any(sender.is_idle() for sender in self.senders):
                channel.sync()
            for receiver in self.receivers:
                receiver.grant()
            self._settle(channel)

    # Errors

    def get_error(self) -> Exception | None:
        """Return what the session, or its connection, died of; or None."""
        channel = self.channel
        if self._error is None and channel is not None and channel.engine.error is not None:
            self.fail(channel.engine.error)
        return self.connection.get_error() or self._error

    def fail(self, error: AmqpException) -> None:
        """Keep a refusal of the broker, here or while it served a receiver, as the error of the session."""
        if isinstance(error, SessionException | SessionDetached):
            if self._error is None:
                # The broker detaches a session whose command it refuses.
                self.closed = True
                self.error = from_broker(error)
        elif self.connection.error is None:
            self.connection.error = from_broker(error)

    def check_closed(self) -> None:
        """Raise a SessionClosed if the session has been closed."""
        if self.closed:
            raise SessionClosed(text=f"session {self.name!r} is closed")

    # Senders and receivers

    @synchronized
    def sender(self, target: str | None, **options: Any) -> Sender:
        """Return a new sender.

        Parameters:
            target: An address (CF-14).
            **options: ``capacity``, ``durable``, and ``window``: "qpid-python", "qpid-cpp" or "ideal".

        Raises:
            LinkError: MalformedAddress, InvalidOption, NotFound, AssertionFailed.
            SessionError: The broker refuses the node; the session is gone.  On a session that was gone
                before, the sender is returned, and its first call raises.
            SyncWouldBlock: An earlier transfer of this session is held, and hides the answers (CM-14).
        """
        sender = Sender(self, self._next_sender, self._complete_address(target), options)
        self._next_sender += 1
        self.senders.append(sender)
        self._link(sender)
        return sender

    @synchronized
    def receiver(self, source: str | None, **options: Any) -> Receiver:
        """Return a new receiver.

        Parameters:
            source: An address (CF-14); an exchange gets the receiver a queue of its own.
            **options: ``capacity``.

        Raises:
            LinkError, SessionError, SyncWouldBlock: As for :meth:`sender`.
        """
        receiver = Receiver(self, self._next_receiver, self._complete_address(source), options)
        self._next_receiver += 1
        self.receivers.append(receiver)
        self._link(receiver)
        return receiver

    def _complete_address(self, address: str | None) -> str | None:
        """Put a UUID in front of an address that begins with ``#``; another ``#`` means nothing (RF-41)."""
        if address is not None and not isinstance(address, str):
            raise TypeError(f"an address is a string; got {address!r}")
        if address is None or not address.startswith("#"):
            return address
        return TemporaryAddress(self.connection.broker_host.unique_id() + address)

    def _link(self, link: Sender | Receiver) -> None:
        if self.closed or not self.connection.attached():
            return
        channel = self.channel
        try:
            with nullcontext() if channel is None else channel.write():
                link.attach()
                self.dispatch()
        except (TypeError, ValueError):
            # AMQP cannot carry what the address says, such as a name of 300 bytes: the broker saw nothing.
            (self.senders if isinstance(link, Sender) else self.receivers).remove(link)  # type: ignore[arg-type]
            raise
        try:
            link.wait_until(lambda: link.linked, f"the {link.ROLE} for {link.given!r}")
        except LinkError:
            link.close()
            raise

    # Receiving

    def wait(self, is_done: Callable[[], bool], timeout: float | None, what: str = "") -> bool:
        """Wait until a condition holds; an error of the session is raised instead."""
        is_so = self.channel.wait(is_done, timeout, what) if self.channel is not None else is_done()
        self.check_error()
        return is_so

    def wait_until(self, is_done: Callable[[], bool], what: str, timeout: float | None = None) -> None:
        """Wait for completions.

        Parameters:
            is_done: What they bring about.
            what: What waits, in words.
            timeout: Seconds.

        Raises:
            Timeout: "... timed out".
            SyncWouldBlock: There is no time-out, and nothing can bring them.
        """
        if self.wait(is_done, timeout, what):
            return
        if timeout is not None:
            raise Timeout(f"{what} timed out")
        raise sync_blocks(what, self._require_channel())

    @synchronized
    def next_receiver(self, timeout: float | None = None) -> Receiver:
        """Return the receiver whose message has been here longest.

        Raises:
            Empty: None came within the time-out, in seconds of virtual time.
            FetchWouldBlock: None came, none can come, and there is no time-out.
        """
        self.check_error()
        self.check_closed()
        if not self.wait(lambda: bool(self.incoming), timeout):
            if timeout is None:
                raise fetch_blocks(self.broker_host, [r.queue for r in self.receivers if r.capacity])
            raise Empty(text=f"no message for any receiver within {timeout:g} s")
        receiver: Receiver = self.incoming[0]._receiver
        return receiver

    def take(self, receiver: Receiver) -> Message | None:
        """Return the receiver's first message, which is unacknowledged from now on; None without one."""
        for index, message in enumerate(self.incoming):
            if message._receiver is receiver:
                del self.incoming[index]
                receiver.returned += 1
                self.unacked.append(message)
                return message
        return None

    def set_message_received_notify_handler(self, handler: _ReceivedHandler | None) -> None:
        """Have a function called with the session whenever a message arrives; it must not use the API."""
        self._on_received = handler

    set_message_received_handler = set_message_received_notify_handler

    def forget_prefetched(self, receiver: Receiver) -> list[int]:
        """Drop what a receiver has not fetched; return the numbers of the deliveries."""
        dropped = [message for message in self.incoming if message._receiver is receiver]
        self.incoming = [message for message in self.incoming if message._receiver is not receiver]
        receiver.returned += len(dropped)
        return _numbers(dropped)

    # Acknowledging (CN-13 … CN-16, CM-11)

    @synchronized
    def acknowledge(
        self, message: Message | None = None, disposition: Disposition | None = None, sync: bool = True
    ) -> None:
        """Settle a message, or all that have been fetched and not acknowledged.

        Parameters:
            message: As returned by ``fetch``; None for all.
            disposition: None accepts; ``Disposition(RELEASED)`` gives back, ``Disposition(REJECTED)``
                refuses.
            sync: Wait until the broker has confirmed it.

        Raises:
            InsufficientCapacity: ``ack_capacity`` is 0.
            ValueError: The message is not one that waits for acknowledgement here.
            SyncWouldBlock: An earlier transfer of this session is held, and hides the confirmation (CM-14);
                the message is settled nevertheless.
        """
        messages = list(self.unacked) if message is None else [message]
        for one in messages:
            if not isinstance(self.ack_capacity, Constant):
                self._make_room_for_ack(self.ack_capacity)
            if one not in self.unacked:
                raise ValueError(f"not waiting for acknowledgement in this session: {one!r}")
            one._disposition = disposition
            self.unacked.remove(one)
            self.acked.append(one)
            self._to_settle.append(one)
        self.dispatch()
        if sync:
            self.wait_until(lambda: not any(one in self.acked for one in messages), "acknowledge")

    def _make_room_for_ack(self, capacity: int) -> None:
        if capacity <= 0:
            raise InsufficientCapacity(text=f"ack_capacity = {capacity}")
        self.dispatch()
        self.wait_until(lambda: len(self.acked) < capacity, "acknowledge")

    def _settle(self, channel: Channel) -> None:
        """Complete the deliveries, then settle runs of the same disposition with one command each."""
        messages, self._to_settle = self._to_settle, []
        if not messages:
            return
        channel.give_control(channel.engine.session_completed, _numbers(messages))
        run: list[Message] = []
        for message in messages:
            if message._transfer_id is None or message._receiver.accept_mode != EXPLICIT:
                self.acked.remove(message)
                continue
            if run and not _are_alike(run[-1]._disposition, message._disposition):
                self._dispose(channel, run)
                run = []
            run.append(message)
        if run:
            self._dispose(channel, run)

    def _dispose(self, channel: Channel, messages: list[Message]) -> None:
        disposition, numbers = messages[0]._disposition or ACCEPTED, _numbers(messages)
        engine = channel.engine

        def forget() -> None:
            for message in messages:
                self.acked.remove(message)

        if disposition.type is RELEASED:
            again = bool(disposition.options.get("set_redelivered"))
            channel.give(engine.message_release, numbers, again, then=forget)
        elif disposition.type is REJECTED:
            channel.give(engine.message_reject, numbers, then=forget)
        else:
            channel.give(engine.message_accept, numbers, then=forget)
            if self.transactional:
                self.in_transaction += numbers

    def _forget_deliveries(self) -> list[int]:
        """Drop all deliveries that are not settled for good; return their numbers."""
        numbers = sorted([*self.in_transaction, *_numbers([*self.unacked, *self.incoming])])
        for dropped in (self.in_transaction, self.unacked, self.incoming, self.acked, self._to_settle):
            dropped.clear()
        return numbers

    # Transactions

    @synchronized
    def commit(self, timeout: float | None = None) -> None:
        """Make all sends and acknowledgements since the last time happen, or none of them (CM-10, LP-09).

        Raises:
            NontransactionalSession: The session has no transactions.
            TransactionAborted: A queue has no room, or the session died earlier; nothing has happened, and
                the session is gone.
        """
        channel = self._transaction_channel()
        is_done: list[bool] = []

        def finish() -> None:
            self.in_transaction.clear()
            is_done.append(True)

        try:
            self.check_error()
            with channel.write():
                self.dispatch()
                channel.give(channel.engine.tx_commit, then=finish)
            self.wait(lambda: bool(is_done), timeout, "commit")
        except TransactionError:
            raise
        except Exception as error:
            self.error = TransactionAborted(text=f"Transaction aborted: {error}")
            raise self.error from error
        if not is_done and timeout is None:
            raise sync_blocks("commit", channel)
        if not is_done:
            raise Timeout("commit timed out")

    @synchronized
    def rollback(self, timeout: float | None = None) -> None:
        """Undo all sends and acknowledgements since the last commit; messages go back (MG-22, CM-11).

        A receiver that has been given credit is sent nothing before its next ``fetch`` has found nothing:
        the real client takes all credit back here, and grants only messages anew, but no bytes.
        """
        channel = self._transaction_channel()
        is_done: list[bool] = []

        def give_back() -> None:
            numbers = self._forget_deliveries()
            channel.give_control(engine.session_completed, numbers)
            channel.give(engine.message_release, numbers, True)
            channel.give(engine.tx_rollback, then=finish)

        def finish() -> None:
            for receiver in self.receivers:
                receiver.forget()
            is_done.append(True)

        self.check_error()
        engine = channel.engine
        with channel.write():
            self.dispatch()
            for receiver in self.receivers:
                channel.give(engine.message_stop, receiver.tag)
            channel.sync(give_back)
        self.wait_until(lambda: bool(is_done), "rollback", timeout)

    def _transaction_channel(self) -> Channel:
        if not self.transactional:
            raise NontransactionalSession(text=f"session {self.name!r} is not transactional")
        if self.get_error() is None:
            self.check_closed()
        return self._require_channel()

    # Syncing and closing

    @synchronized
    def sync(self, timeout: float | None = None) -> None:
        """Wait until everything sent and acknowledged so far is complete.

        Raises:
            Timeout: It is not, within the time-out in seconds of virtual time.
            SyncWouldBlock: It is not, and there is no time-out.
        """
        for sender in list(self.senders):
            sender.sync(timeout)
        self.wait_until(lambda: not self.acked, "session sync", timeout)

    @synchronized
    def close(self, timeout: float | None = None) -> None:
        """Sync, close senders and receivers, end the session; what is not acknowledged goes back (CN-17)."""
        if self.error is not None or self.get_error() is not None:
            return
        self.sync(timeout)
        for link in [*self.receivers, *self.senders]:
            link.close(timeout)
        self.closing = self.closed = True
        try:
            self.detach()
        finally:
            self.connection._remove_session(self)


def _numbers(messages: list[Message]) -> list[int]:
    return [message._transfer_id for message in messages if message._transfer_id is not None]


def _are_alike(one: Disposition | None, other: Disposition | None) -> bool:
    first, second = one or ACCEPTED, other or ACCEPTED
    return first.type is second.type and first.options == second.options


class LinkEndpoint(Endpoint):
    """Attaches a sender or receiver of a session to its node; unknown options are ignored."""

    ROLE = ""
    ADDRESS_NAME = ""

    def __init__(self, session: Session, id: int, address: str | None, options: dict[str, Any]) -> None:
        super().__init__()
        self.session = session
        self.broker_host = session.broker_host
        self.id = id
        self.options = options
        self.linked = False
        self.closing = False
        self.closed = False
        self.given = address
        self._address: LinkAddress | None = None
        # On the present channel: the commands that find the node, and those that end the link, were given.
        self._is_attaching = False
        self._is_leaving = False

    def get_error(self) -> Exception | None:
        """Return what went wrong here, in the session, or in the connection; or None."""
        return self.session.get_error() or self._error

    def check_closed(self) -> None:
        """Raise a LinkClosed if the link has ended."""
        if self.closed:
            raise LinkClosed(text=f"the {self.ROLE} for {self.given!r} is closed")

    def wait_until(self, is_done: Callable[[], bool], what: str, timeout: float | None = None) -> None:
        """Wait for completions as :meth:`Session.wait_until`; an error of the link is raised, too."""
        self.session.wait_until(lambda: self._error is not None or is_done(), what, timeout)
        self.check_error()

    def _check_linked(self) -> Channel:
        """Return the channel to work on, or raise why there is none."""
        self.check_error()
        self.check_closed()
        channel = self.session.channel
        if channel is None or not (self.linked or self._is_attaching):
            raise Detached(text=f"the {self.ROLE} for {self.given!r} is not attached")
        self.wait_until(lambda: self.linked or self.closed, f"the {self.ROLE} for {self.given!r}")
        self.check_closed()
        return channel

    def attach(self) -> None:
        """Give the commands that attach to the node of the address; what goes wrong becomes an error."""
        channel = self.session.channel
        if channel is None or self._is_attaching or self.closed or self._error is not None:
            return
        try:
            self._address = address = self._parse()
        except LinkError as error:
            self.fail(error)
            return
        self._is_attaching = True
        nodes = self._nodes(channel)
        nodes.resolve(address, lambda node: self._attach(channel, address, node), self.fail)

    def _nodes(self, channel: Channel) -> Nodes:
        connection: Any = self.session.connection
        return Nodes(channel, connection.known_nodes, connection.address_ttl)

    def fail(self, error: LinkError) -> None:
        """Close the link for an error, which its next call raises."""
        self.closed = True
        self.error = error

    def _finish_attach(self) -> None:
        self.linked = True

    def forget_attachment(self) -> None:
        """Note that the connection is gone; the next one attaches anew."""
        self.linked = self._is_attaching = self._is_leaving = False

    def _parse(self) -> LinkAddress:
        if self.given is None:
            raise MalformedAddress(text=f"{self.ADDRESS_NAME} is None")
        try:
            name, subject, parsed = parse(self.given)
        except (LexError, ParseError) as error:
            raise MalformedAddress(text=str(error)) from error
        error_text = find_error(parsed or {}, self.ROLE)
        if error_text:
            raise InvalidOption(text=f"error in options: {error_text}")
        options: dict[str, Any] = {str(key): value for key, value in (parsed or {}).items()}
        if isinstance(self.given, TemporaryAddress):
            # The node is made, and goes with the session that uses it.
            options["create"] = "always"
            declare = options.setdefault("node", {}).setdefault("x-declare", {})
            declare.setdefault("auto-delete", True)
            declare.setdefault("exclusive", True)
        return LinkAddress(name, subject, options, self.ROLE)

    def _attach(self, channel: Channel, address: LinkAddress, node: Node) -> None:
        raise NotImplementedError

    @synchronized
    def close(self, timeout: float | None = None) -> None:
        """End the link, and delete its node if the address says so.

        Parameters:
            timeout: Seconds to wait for what is outstanding, and for the end to be confirmed.

        Raises:
            Timeout: "sender close timed out", "receiver close timed out".
            SyncWouldBlock: The same without a time-out: an earlier transfer of the session is held (CM-14).
        """
        self.closing = True
        if self._error is not None or self.session.channel is None:
            self.closed = True
        self.session.dispatch()
        try:
            self.session.wait_until(lambda: self.closed, f"{self.ROLE} close", timeout)
        finally:
            self._leave()

    def leave(self) -> None:
        """Give the commands that end the link, once it is to be closed and is linked."""
        channel, address = self.session.channel, self._address
        if not (self.closing and self.linked) or self._is_leaving or channel is None or address is None:
            return
        self._is_leaving = True
        if address.wants("delete"):
            for command in self._detaching(channel):
                channel.give(command)
            self._nodes(channel).delete(address, self._finish_close)
        else:
            channel.give_all(self._detaching(channel), self._finish_close)

    def _finish_close(self) -> None:
        self.closed = True

    def _detaching(self, channel: Channel) -> list[Command]:
        raise NotImplementedError

    def _leave(self) -> None:
        """Leave the session's list."""
        raise NotImplementedError


class Sender(LinkEndpoint):
    """Sends messages to a queue or an exchange; made by :meth:`Session.sender`.

    Attributes:
        window (Window): How it counts what is outstanding: "qpid-python" unless the option ``window`` says
            "ideal" or "qpid-cpp" (CAP-02, CAP-07, CAP-08).
        durable (bool or None): For messages that do not say themselves.
    """

    ROLE = "sender"
    ADDRESS_NAME = "target"

    def __init__(self, session: Session, id: int, target: str | None, options: dict[str, Any]) -> None:
        super().__init__(session, id, target, options)
        self.target = target
        self.durable: bool | None = options.get("durable")
        window = make_window(str(options.get("window", QpidPythonWindow.name)), None)
        capacity = options.get("capacity", UNLIMITED if window.default_capacity is None else None)
        window.resize(window.default_capacity if capacity is None else _as_bound(capacity))
        self.window: Window = window
        self._exchange = ""
        self._routing_key: str | None = None
        self._subject: str | None = None
        self._is_tracked = True
        self._queued = 0
        self._synced = 0

    # The window

    @property
    def capacity(self) -> int | Constant:
        """How many messages may be outstanding."""
        capacity = self.window.capacity
        return UNLIMITED if capacity is None else capacity

    @capacity.setter
    def capacity(self, capacity: int | Constant) -> None:
        with self.broker_host:
            channel = self.session.channel
            if self.window.resize(_as_bound(capacity)) and channel is not None and self.linked:
                channel.give_control(channel.engine.session_flush)
                self._read_reports()

    @property
    def threshold(self) -> float:
        """The share of free places from which on the qpid-python window asks for completions."""
        return self.window.threshold if isinstance(self.window, QpidPythonWindow) else 0.0

    @threshold.setter
    def threshold(self, threshold: float) -> None:
        if isinstance(self.window, QpidPythonWindow):
            self.window.threshold = threshold

    @synchronized
    def unsettled(self) -> int:
        """Return how many sent messages are not known to be complete."""
        self._read_reports()
        return self.window.unsettled()

    @synchronized
    def available(self) -> int | Constant:
        """Return how many more messages the window has room for."""
        self._read_reports()
        available = self.window.available()
        return UNLIMITED if available is None else available

    def _read_reports(self) -> None:
        if self.session.channel is not None:
            self.window.reported(self.session.channel.reported)

    def is_idle(self) -> bool:
        """Return whether all that was sent has been synced, so that the session syncs at once (CAP-07)."""
        return isinstance(self.window, QpidPythonWindow) and self._synced >= self._queued

    # Sending

    @synchronized
    def send(self, object: object, sync: bool | None = None, timeout: float | None = None) -> None:
        """Send a message, when the window has room for it.

        Parameters:
            object: The message, or its content.
            sync: Wait until the broker has completed it (which a stopped queue withholds).  None means what
                the window's own client does: True for qpid-python, else False.
            timeout: Seconds of virtual time to wait for room, and then for completion.

        Raises:
            InsufficientCapacity: No room within the time-out, or ever.
            Timeout: "sender sync timed out": the message is on the queue, its completion is withheld.
            SendWouldBlock, SyncWouldBlock: The same without a time-out, where the real client would wait for
                ever.
            EncodeError: The message cannot be encoded; nothing was sent.
            MessagingError: What an earlier command of the session died of.

        >>> from qflow.messaging import Connection, SyncWouldBlock
        >>> session = Connection.establish("doc-sender").session()
        >>> sender = session.sender("q; {create: always, node: {x-declare: {arguments:"
        ...                         " {'qpid.flow_stop_count': 1}}}}")
        >>> sender.send("one")
        >>> sender.send("two", timeout=1)
        Traceback (most recent call last):
            ...
        qflow.messaging.exceptions.Timeout: sender sync timed out: ...-2 is held by queue 'q' ...
        """
        if self.session.channel is None or self.session.closing:
            raise Detached(text=f"the session of the sender for {self.target!r} is not attached")
        channel = self._check_linked()
        message = object if isinstance(object, Message) else Message(object)
        if message.durable is None:
            message.durable = self.durable
        waits = self.window.default_sync if sync is None else sync
        encoded = self._encode(channel, message)
        if self._is_tracked:
            self._make_room(channel, timeout)
        self._transfer(channel, encoded, waits)
        if waits:
            self.sync(timeout)
        else:
            self.session.dispatch()

    def _encode(self, channel: Channel, message: Message) -> BrokerMessage:
        own_key = message.subject is None or not self._exchange
        return to_broker(
            message,
            self._routing_key if own_key else message.subject,
            self._subject if message.subject is None else message.subject,
            channel.host.broker.options.message_size == "encoded",
        )

    def _make_room(self, channel: Channel, timeout: float | None) -> None:
        window = self.window
        if not window.is_deaf_while_sending:
            self._read_reports()
        step = window.next_step()
        if step is Step.REFUSE:
            raise InsufficientCapacity(text=f"capacity = {window.capacity}")
        if step is not Step.SEND:
            is_free = self._ask(channel) if step is Step.SYNC else self._has_room
            if not self.session.wait(is_free, timeout, "send"):
                if timeout is None:
                    raise send_blocks(window.capacity, channel)
                raise InsufficientCapacity(text=f"capacity = {window.capacity}: {channel.holds().text}")
            if step is Step.SYNC:
                self._read_reports()
                window.synced()
        if window.wants_flush():
            channel.give_control(channel.engine.session_flush)

    def _has_room(self) -> bool:
        self._read_reports()
        return self.window.next_step() is Step.SEND

    def _transfer(self, channel: Channel, encoded: BrokerMessage, waits: bool) -> None:
        asks = self.window.sync_flag(waits) and self._is_tracked
        if self._is_tracked:
            self.window.sent(channel.next_number)
        self._queued += 1
        channel.transfer(encoded, self._exchange, asks)

    @synchronized
    def sync(self, timeout: float | None = None) -> None:
        """Wait until every message sent so far is complete; with the qpid-cpp window, the session's (CAP-05).

        Raises:
            Timeout: "sender sync timed out".
            SyncWouldBlock: The same without a time-out.
        """
        self.check_error()
        channel = self.session.channel
        if channel is None or self.session.wait(self._ask(channel), timeout, "sync"):
            return
        if timeout is None:
            raise sync_blocks("sync", channel)
        raise Timeout(f"sender sync timed out: {channel.holds().text}")

    def _ask(self, channel: Channel) -> Callable[[], bool]:
        """Ask to be reported what a sync waits for; return the question whether that is complete (CAP-05)."""
        if self.window.syncs_session:
            command = channel.next_number - 1
            channel.sync_all()
            return lambda: command < 0 or channel.is_confirmed(command)
        self._synced = self._queued
        self.session.dispatch()
        last = max(self.window.outstanding, default=-1)
        return lambda: not self._has_outstanding(last)

    def _has_outstanding(self, last: int) -> bool:
        self._read_reports()
        self.window.unsettled()
        return bool(self.window.outstanding) and self.window.outstanding[0] <= last

    # Attaching and closing

    def _attach(self, channel: Channel, address: LinkAddress, node: Node) -> None:
        self._is_tracked = address.link.get("reliability") not in _UNRELIABLE
        self._subject = address.subject
        if node.type == TOPIC:
            self._exchange, self._routing_key = address.name, address.subject
            commands = bindings(channel.engine, address.link, exchange=address.name, key=address.subject)
        else:
            self._exchange, self._routing_key = "", address.name
            commands = bindings(channel.engine, address.link, queue=address.name)
        channel.give_all(commands, self._finish_attach)

    @synchronized
    def close(self, timeout: float | None = None) -> None:
        """Wait for what is outstanding, end the link, and delete its node if the address says so."""
        if self.linked and not self.closed and self.unsettled():
            self.sync(timeout)
        super().close(timeout)

    def forget_attachment(self) -> None:
        """Note that the connection has ended: messages that the broker has received are not sent again."""
        super().forget_attachment()
        self.window.outstanding.clear()
        self._synced = self._queued

    def _detaching(self, channel: Channel) -> list[Command]:
        """Return nothing: the broker does not know of senders."""
        return []

    def _leave(self) -> None:
        if self in self.session.senders:
            self.session.senders.remove(self)


def _as_bound(capacity: int | Constant) -> int | None:
    return None if isinstance(capacity, Constant) else capacity


class Receiver(LinkEndpoint):
    """Receives messages from a queue, or from an exchange through a queue of its own.

    Made by :meth:`Session.receiver`.  It grants credit as qpid-python does (CN-09).

    Attributes:
        capacity (int or Constant): How many messages are prefetched; 0 for none, ``UNLIMITED`` for all there
            are.
        threshold (float): Credit is topped up when at most this share of the capacity is left.
    """

    ROLE = "receiver"
    ADDRESS_NAME = "source"

    def __init__(self, session: Session, id: int, source: str | None, options: dict[str, Any]) -> None:
        super().__init__(session, id, source, options)
        self.source = source
        self.threshold = 0.5
        self.queue = ""
        self.accept_mode = EXPLICIT
        self.received = 0
        self.returned = 0
        # Up to which message (counted like received) credit is wanted, and is granted; None: without end.
        self._granted: int | None = 0
        self._impending: int | None = 0
        self._is_open_for_bytes = False
        # A flush is wanted; a flush or a stop is given and not confirmed.
        self._wants_drain = False
        self._is_draining = False
        self._own_queue = ""
        self.tag = str(id)
        self._capacity = _as_bound(options.get("capacity", 0))
        self._want_credit()

    # Capacity

    @property
    def capacity(self) -> int | Constant:
        """How many messages are prefetched."""
        return UNLIMITED if self._capacity is None else self._capacity

    @capacity.setter
    def capacity(self, capacity: int | Constant) -> None:
        with self.broker_host:
            self._capacity = _as_bound(capacity)
            self._want_credit()
            self.session.dispatch()

    @synchronized
    def available(self) -> int:
        """Return how many messages are here already, for ``fetch`` to return."""
        return self.received - self.returned

    @synchronized
    def unsettled(self) -> int:
        """Return how many acknowledged messages the broker has not confirmed yet."""
        return sum(message._receiver is self for message in self.session.acked)

    # Fetching

    @synchronized
    def fetch(self, timeout: float | None = None) -> Message:
        """Return the next message.

        Parameters:
            timeout: Seconds to wait for one; 0 takes what is there.

        Raises:
            Empty: None came.
            FetchWouldBlock: None came, none can come, and there is no time-out: the real client would wait
                for ever.
            SyncWouldBlock: None came in time, and the drain that follows is never confirmed: an earlier
                transfer of the session is held (CM-14).
            LinkClosed: The receiver has been closed.

        >>> from qflow.messaging import Connection
        >>> session = Connection.establish("doc-receiver").session()
        >>> receiver = session.receiver("orders; {create: always}")
        >>> session.sender("orders").send("to do")
        >>> receiver.fetch(timeout=1).content
        'to do'
        """
        channel = self._check_linked()
        if self._capacity == 0:
            self._granted = self.returned + 1
        if timeout == 0 and not self._has_more() and not self._is_draining:
            # Grant one and flush, in one write (RF-08): what is not there at once is not waited for.
            with channel.write():
                self.session.dispatch()
                self._drain()
            return self._fetch_last(channel, timeout)
        self.session.dispatch()
        self.wait_until(self._is_granted, "fetch")
        self.session.wait(lambda: self._has_more() or self.closed, timeout)
        message = self.session.take(self)
        if message is None:
            self.check_closed()
            self._drain()
            return self._fetch_last(channel, timeout)
        if self._capacity and self.received - self.returned <= ceil(self.threshold * self._capacity):
            self._want_credit()
            self.session.dispatch()
        return message

    def _has_more(self) -> bool:
        return self.received > self.returned

    def _is_granted(self) -> bool:
        # Without end is as much as wanted, in the real client even before it is granted.
        return self._granted is None or (self._impending is not None and self._impending >= self._granted)

    def _fetch_last(self, channel: Channel, timeout: float | None) -> Message:
        """Wait for the end of the drain, and take what it may have brought (CN-07)."""
        if timeout is not None:
            self.wait_until(lambda: not self._wants_drain, "fetch")
        else:
            # The real client waits for the message, and never comes here.
            self.session.wait(lambda: not self._wants_drain, 0)
        message = self.session.take(self)
        self._want_credit()
        self.session.dispatch()
        if message is not None:
            return message
        if timeout is None:
            raise fetch_blocks(channel.host, [self.queue])
        raise Empty(text=f"no message on {self.queue!r} within {timeout:g} s")

    # Credit

    def _want_credit(self) -> None:
        self._granted = None if self._capacity is None else self.returned + self._capacity

    def _drain(self) -> None:
        self._wants_drain = True
        self.session.dispatch()

    def grant(self) -> None:
        """Grant what is wanted and not granted yet; take credit back if less is wanted, or to drain."""
        channel = self.session.channel
        if channel is None or not self.linked or self._is_leaving or self._is_draining:
            return
        missing = self._missing()
        if missing > 0:
            # The broker delivers within the call, so this is noted before.
            self._impending = None if self._granted is None else (self._impending or 0) + missing
            self._flow(channel, missing)
        elif missing < 0 and not self._wants_drain:
            self._is_draining = True
            channel.give(channel.engine.message_stop, self.tag, then=self._finish_stop)
        if self._wants_drain:
            self._is_draining = True
            channel.give(channel.engine.message_flush, self.tag, then=self._finish_drain)

    def _missing(self) -> int:
        if self._impending is not None and self._granted is not None:
            return max(self._granted, self.received) - self._impending
        if self._granted is None:
            return INFINITE if self._impending is not None else 0
        return -1

    def _flow(self, channel: Channel, messages: int) -> None:
        if not self._is_open_for_bytes:
            self._is_open_for_bytes = True
            channel.give(channel.engine.message_flow, self.tag, BYTE_UNIT, INFINITE)
        channel.give(channel.engine.message_flow, self.tag, MESSAGE_UNIT, messages)

    def _finish_stop(self) -> None:
        self._impending = self.received
        self._is_draining = self._is_open_for_bytes = False
        self.grant()

    def _finish_drain(self) -> None:
        self._impending = self._granted = self.received
        self._is_draining = self._is_open_for_bytes = self._wants_drain = False

    def forget(self) -> None:
        """Forget what was delivered, after a rollback has given it back, and ask for it again.

        As in the real client, what is wanted is not looked at anew, and bytes are not granted again.
        """
        self._impending = self.returned = self.received
        self.grant()

    # Attaching and closing

    def _attach(self, channel: Channel, address: LinkAddress, node: Node) -> None:
        default = "unreliable" if node.type == TOPIC else "at-least-once"
        reliability = address.link.get("reliability") or default
        self.accept_mode = NONE if reliability in _UNRELIABLE else EXPLICIT
        if node.type == TOPIC:
            commands = self._making_queue(channel, address, node, reliability)
        else:
            self.queue = address.name
            commands = bindings(channel.engine, address.link, queue=self.queue)
        subscribe = without_dashes(address.link.get("x-subscribe") or {})
        commands.append(
            partial(
                channel.engine.message_subscribe,
                self.queue,
                self.tag,
                accept_mode=int(subscribe.get("accept_mode", self.accept_mode)),
                acquire_mode=int(subscribe.get("acquire_mode", address.options.get("mode") == "browse")),
                exclusive=bool(subscribe.get("exclusive")),
                arguments=dict(subscribe.get("arguments") or {}),
            )
        )
        commands.append(partial(channel.engine.message_set_flow_mode, self.tag, CREDIT_MODE))
        self._impending = self.returned = self.received
        self._is_open_for_bytes = self._wants_drain = self._is_draining = False
        self._want_credit()
        channel.give_all(commands, self._finish_attach)

    def _making_queue(
        self, channel: Channel, address: LinkAddress, node: Node, reliability: str
    ) -> list[Command]:
        """Return the commands that make and bind the queue through which messages of an exchange come."""
        link = address.link
        self.queue = link.get("name") or f"{self.session.name}.{self.tag}"
        overrides = dict(link.get("x-declare") or {})
        declare = declaration(
            channel.engine,
            self.queue,
            overrides,
            durable=bool(link.get("durable")),
            exclusive=True,
            auto_delete=reliability == "unreliable",
        )
        self._own_queue = self.queue if overrides.get("exclusive", True) else ""
        subject = address.subject or ("#" if node.subtype == "topic" else None)
        own = partial(channel.engine.exchange_bind, self.queue, address.name, subject or "")
        return [declare, *(bindings(channel.engine, link, self.queue, address.name, subject) or [own])]

    def _detaching(self, channel: Channel) -> list[Command]:
        """Cancel, delete the queue if it is this receiver's own, give back what was prefetched."""
        engine = channel.engine
        commands: list[Command] = [partial(engine.message_cancel, self.tag)]
        if self._own_queue:
            commands.append(partial(engine.queue_delete, self._own_queue))
        numbers = self.session.forget_prefetched(self)
        if numbers:
            commands.append(partial(engine.message_release, numbers, True))
        return commands

    def forget_attachment(self) -> None:
        """Note that the connection is gone."""
        super().forget_attachment()
        self._impending = self.returned = self.received

    def _leave(self) -> None:
        if self in self.session.receivers:
            self.session.receivers.remove(self)
