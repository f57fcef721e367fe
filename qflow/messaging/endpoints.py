"""Endpoint: what connections, sessions, senders and receivers have in common, their error above all.

Link: what senders and receivers share: an address, its node, and a life that ends once.

Sender: sends messages through a window (CAP).

Receiver: fetches messages, with credit as qpid-python grants it (CN-09).

Acknowledging: what a session has received, and what becomes of it (CN-13 … CN-16, CM-11).

Transacting: sends and acknowledgements that happen together, or not at all (CM-10, CM-11, LP-09).

Session: the line of commands on which senders and receivers of one client work.

Connection: an application's way to a broker of this process.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from qflow.broker import BYTE_UNIT, CREDIT_MODE, EXPLICIT, INFINITE, MESSAGE_UNIT, NONE
from qflow.broker.consuming import DeliveryRecord
from qflow.broker.errors import AmqpException, SessionDetached, SessionException
from qflow.messaging.address import LexError, ParseError, find_error, parse
from qflow.messaging.channel import Channel, fetch_blocks, send_blocks, sync_blocks
from qflow.messaging.exceptions import (
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
    APP_ID,
    REJECTED,
    RELEASED,
    UNLIMITED,
    Constant,
    Disposition,
    Message,
    from_delivery,
    to_broker,
)
from qflow.messaging.nodes import Link, Node, bind_all, declare_queue, delete, resolve
from qflow.messaging.nodes import Link as LinkAddress
from qflow.messaging.qmf import REQUESTS, answer
from qflow.messaging.windows import QpidPythonWindow, Step, Window, make_window

ErrorHandler = Callable[["Endpoint", Exception], None]


class Endpoint:
    """Has an error, once something has gone wrong; it is raised by every later call."""

    def __init__(self) -> None:
        self._error: Exception | None = None
        self._on_error: ErrorHandler | None = None

    @property
    def error(self) -> Exception | None:
        """What went wrong, or None."""
        return self._error

    @error.setter
    def error(self, error: Exception | None) -> None:
        self._error = error
        if error is not None and self._on_error is not None:
            self._on_error(self, error)

    def set_async_exception_notify_handler(self, handler: ErrorHandler | None) -> None:
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


class TemporaryAddress(str):
    """An address whose ``#`` has become a name of its own: the node is made for this one use."""

    __slots__ = ()


class LinkEndpoint(Endpoint):
    """A sender or receiver of a session.

    Attributes
    ----------
    session : Session
        Where it belongs.
    options : dict
        As given to ``session.sender`` or ``session.receiver``; what is not known is ignored.
    linked, closed : bool
        Whether it is attached to its node; whether it has ended.
    """

    ROLE = ""
    ADDRESS_NAME = ""

    def __init__(self, session: Session, id: int, address: str | None, options: dict[str, Any]) -> None:
        super().__init__()
        self.session = session
        self.id = id
        self.options = options
        self.linked = False
        self.closing = False
        self.closed = False
        self._given = address
        self._address: LinkAddress | None = None

    # Errors

    def get_error(self) -> Exception | None:
        """Return what went wrong here, in the session, or in the connection; or None."""
        return self.session.get_error() or self._error

    def check_closed(self) -> None:
        """Refuse a call on a link that has ended.

        Raises
        ------
        LinkClosed
            If it has.
        """
        if self.closed:
            raise LinkClosed(text=f"the {self.ROLE} for {self._given!r} is closed")

    def _check_linked(self) -> Channel:
        """Return the channel to work on, or raise why there is none."""
        self.check_error()
        self.check_closed()
        channel = self.session.channel
        if channel is None or not self.linked:
            raise Detached(text=f"the {self.ROLE} for {self._given!r} is not attached")
        return channel

    # Linking

    def link(self) -> None:
        """Attach to the node of the address, unless that has been done or has failed before.

        What goes wrong is kept as the link's or the session's error.
        """
        channel = self.session.channel
        if channel is None or self.linked or self.closed or self._error is not None:
            return
        try:
            self._address = self._parse()
            self._attach(channel, self._address, resolve(channel, self._address))
        except LinkError as error:
            self.closed = True
            self.error = error
        except AmqpException as error:
            self.session.fail(error)
        else:
            self.linked = True

    def detached(self) -> None:
        """Take note that the connection is gone; the next one attaches anew."""
        self.linked = False

    def _parse(self) -> LinkAddress:
        if self._given is None:
            raise MalformedAddress(text=f"{self.ADDRESS_NAME} is None")
        try:
            name, subject, parsed = parse(self._given)
        except (LexError, ParseError) as error:
            raise MalformedAddress(text=str(error)) from error
        error_text = find_error(parsed or {}, self.ROLE)
        if error_text:
            raise InvalidOption(text=f"error in options: {error_text}")
        options: dict[str, Any] = {str(key): value for key, value in (parsed or {}).items()}
        if isinstance(self._given, TemporaryAddress):
            _make_temporary(options)
        return LinkAddress(name, subject, options, self.ROLE)

    def _attach(self, channel: Channel, address: LinkAddress, node: Node) -> None:
        raise NotImplementedError

    # Closing

    def close(self, timeout: float | None = None) -> None:
        """End the link, and delete its node if the address says so.

        Parameters
        ----------
        timeout : float or None
            Seconds of told time to wait for what is outstanding.
        """
        self.closing = True
        channel, address = self.session.channel, self._address
        try:
            if self.linked and not self.closed and channel is not None and address is not None:
                self.check_error()
                self._unlink(channel, address)
                if self.session.error is None:
                    self.closed = True
                self.check_error()
            elif not self.linked:
                self.closed = True
        finally:
            self._leave()

    def _unlink(self, channel: Channel, address: LinkAddress) -> None:
        def end() -> None:
            self._detach(channel, address)
            if address.wants("delete"):
                delete(channel, address)

        self._guarded(end)

    def _guarded(self, action: Callable[[], object]) -> None:
        """Do something with the broker; a refusal becomes the session's error."""
        try:
            action()
        except AmqpException as error:
            self.session.fail(error)

    def _detach(self, channel: Channel, address: LinkAddress) -> None:
        raise NotImplementedError

    def _leave(self) -> None:
        raise NotImplementedError


def _make_temporary(options: dict[str, Any]) -> None:
    """Let the node be made, and go with the session that uses it."""
    options["create"] = "always"
    declare = options.setdefault("node", {}).setdefault("x-declare", {})
    declare.setdefault("auto-delete", True)
    declare.setdefault("exclusive", True)


_UNRELIABLE = ("unreliable", "at-most-once")


class Sender(LinkEndpoint):
    """Sends messages to a queue or an exchange.

    Made by :meth:`Session.sender`.

    Attributes
    ----------
    target : str or None
        The address.
    window : Window
        How it counts what is outstanding: "qpid-python" unless the option ``window`` says "ideal"
        or "qpid-cpp" (CAP-02, CAP-07, CAP-08).
    durable : bool or None
        For messages that do not say themselves.
    """

    ROLE = "sender"
    ADDRESS_NAME = "target"

    def __init__(self, session: Session, id: int, target: str | None, options: dict[str, Any]) -> None:
        super().__init__(session, id, target, options)
        self.target = target
        self.durable: bool | None = options.get("durable")
        window = make_window(str(options.get("window", QpidPythonWindow.name)), None)
        capacity = options.get("capacity", UNLIMITED if window.default_capacity is None else None)
        window.resize(window.default_capacity if capacity is None else _to_window(capacity))
        self.window: Window = window
        self._exchange = ""
        self._routing_key: str | None = None
        self._subject: str | None = None
        self._is_tracked = True
        self._last_unasked = -1

    # The window

    @property
    def capacity(self) -> int | Constant:
        """How many messages may be outstanding."""
        capacity = self.window.capacity
        return UNLIMITED if capacity is None else capacity

    @capacity.setter
    def capacity(self, capacity: int | Constant) -> None:
        channel = self.session.channel
        if self.window.resize(_to_window(capacity)) and channel is not None and self.linked:
            channel.control(channel.engine.session_flush)
            self.window.reported(channel.reported)

    @property
    def threshold(self) -> float:
        """From which share of free places on the qpid-python window asks for completions."""
        return self.window.threshold if isinstance(self.window, QpidPythonWindow) else 0.0

    @threshold.setter
    def threshold(self, threshold: float) -> None:
        if isinstance(self.window, QpidPythonWindow):
            self.window.threshold = threshold

    def unsettled(self) -> int:
        """Return how many sent messages are not known to be complete."""
        self._hear()
        return self.window.unsettled()

    def available(self) -> int | Constant:
        """Return how many more messages the window has room for."""
        self._hear()
        available = self.window.available()
        return UNLIMITED if available is None else available

    def _hear(self) -> None:
        if self.session.channel is not None:
            self.window.reported(self.session.channel.reported)

    # Sending

    def send(self, object: object, sync: bool | None = None, timeout: float | None = None) -> None:
        """Send a message, when the window has room for it.

        Parameters
        ----------
        object : Message, str, bytes, dict or list
            The message, or its content.
        sync : bool or None
            Wait until the broker has completed it (which a stopped queue withholds).  None means
            what the window's own client does: True for qpid-python, else False.
        timeout : float or None
            Seconds of told time to wait for room, and then for completion.

        Raises
        ------
        InsufficientCapacity
            No room within the time-out, or ever.
        Timeout
            "sender sync timed out": the message is on the queue, its completion is withheld.
        SendWouldBlock, SyncWouldBlock
            The same without a time-out, where the real client would wait for ever.
        EncodeError
            The message cannot be encoded; nothing was sent.
        MessagingError
            What an earlier command of the session died of.

        Examples
        --------
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
        if self._exchange == REQUESTS and message.properties.get(APP_ID) == "qmf2":
            channel.control(answer, channel.host.broker, message)
            return
        if self._is_tracked:
            self._make_room(channel, timeout)
        self._transfer(channel, encoded, waits)
        if waits:
            self.sync(timeout)

    def _encode(self, channel: Channel, message: Message) -> Any:
        own_key = message.subject is None or not self._exchange
        return to_broker(
            message,
            self._routing_key if own_key else message.subject,
            self._subject if message.subject is None else message.subject,
            channel.host.broker.options.message_size == "encoded",
        )

    def _transfer(self, channel: Channel, encoded: Any, waits: bool) -> None:
        asks = self.window.sync_flag(waits) and self._is_tracked
        if self._is_tracked:
            self.window.sent(channel.next_number)
            if not asks:
                self._last_unasked = channel.next_number
        try:
            channel.transfer(encoded, self._exchange, asks)
        except AmqpException as error:
            # The real client learns of a refusal later: the next call raises it.
            self.session.fail(error)

    def _make_room(self, channel: Channel, timeout: float | None) -> None:
        window = self.window
        if not window.is_deaf_while_sending:
            self._hear()
        step = window.next_step()
        if step is Step.REFUSE:
            raise InsufficientCapacity(text=f"capacity = {window.capacity}")
        if step is Step.SYNC:
            self._sync_session(channel, timeout)
            window.synced()
        elif step is Step.WAIT and not self._wait(channel, self._has_room, timeout):
            raise self._full(channel, timeout)
        if window.wants_flush():
            channel.control(channel.engine.session_flush)

    def _has_room(self) -> bool:
        self._hear()
        return self.window.next_step() is Step.SEND

    def _sync_session(self, channel: Channel, timeout: float | None) -> None:
        """Wait for every command of the session, as the full qpid-cpp window does (CAP-02, CAP-09)."""
        if not self._wait(channel, self._ask(channel), timeout):
            raise self._full(channel, timeout)
        self._hear()

    def _ask(self, channel: Channel) -> Callable[[], bool]:
        """Ask for what a sync waits for; return the question whether that is complete (CAP-05)."""
        if self.window.syncs_session:
            command = channel.next_number - 1
            channel.sync(command)
            return lambda: command < 0 or channel.is_confirmed(command)
        last = self.window.outstanding[-1]
        channel.sync(self._last_unasked)
        return lambda: not self._has_outstanding(last)

    def _full(self, channel: Channel, timeout: float | None) -> Exception:
        holds = channel.holds()
        if timeout is None:
            return send_blocks(self.window.capacity, holds)
        return InsufficientCapacity(text=f"capacity = {self.window.capacity}: {holds.text}")

    def _wait(self, channel: Channel, is_done: Any, timeout: float | None) -> bool:
        """Wait in told time; an error of the session is raised instead."""
        is_so = channel.wait(is_done, timeout)
        self.check_error()
        return is_so

    def sync(self, timeout: float | None = None) -> None:
        """Wait until every message sent so far is complete; with the qpid-cpp window, the session's (CAP-05).

        Raises
        ------
        Timeout
            "sender sync timed out".
        SyncWouldBlock
            The same without a time-out.
        """
        self.check_error()
        channel = self.session.channel
        if channel is None or not (self.window.syncs_session or self.unsettled()):
            return
        if not self._wait(channel, self._ask(channel), timeout):
            holds = channel.holds()
            if timeout is None:
                raise sync_blocks("sync", holds)
            raise Timeout(f"sender sync timed out: {holds.text}")

    def _has_outstanding(self, last: int) -> bool:
        self.unsettled()
        return bool(self.window.outstanding) and self.window.outstanding[0] <= last

    # Attaching

    def _attach(self, channel: Channel, address: Link, node: Node) -> None:
        self._is_tracked = address.link.get("reliability") not in _UNRELIABLE
        self._subject = address.subject
        if node.type == "topic":
            self._exchange, self._routing_key = address.name, address.subject
            bind_all(channel, address.link, exchange=address.name, key=address.subject)
        else:
            self._exchange, self._routing_key = "", address.name
            bind_all(channel, address.link, queue=address.name)

    def close(self, timeout: float | None = None) -> None:
        """Wait for what is outstanding, end the link, and delete its node if the address says so."""
        if self.linked and not self.closed and self.unsettled():
            self.sync(timeout)
        super().close(timeout)

    def detached(self) -> None:
        """Take note that the connection is gone: what the broker has got is not sent again."""
        super().detached()
        self.window.outstanding.clear()
        self._last_unasked = -1

    def _detach(self, channel: Channel, address: Link) -> None:
        """Do nothing: the broker does not know of senders."""

    def _leave(self) -> None:
        if self in self.session.senders:
            self.session.senders.remove(self)


def _to_window(capacity: int | Constant) -> int | None:
    return None if isinstance(capacity, Constant) else capacity


_UNRELIABLE_RECEIVER = ("unreliable", "at-most-once")


class Receiver(LinkEndpoint):
    """Receives messages from a queue, or from an exchange through a queue of its own.

    Made by :meth:`Session.receiver`.

    Attributes
    ----------
    source : str or None
        The address.
    capacity : int or Constant
        How many messages are prefetched; 0 for none, ``UNLIMITED`` for all there are.
    threshold : float
        Credit is topped up when at most this share of the capacity is left.
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
        self._own_queue = ""
        self._capacity: int | None = 0
        self._set_capacity(options.get("capacity", 0))

    # Capacity

    @property
    def capacity(self) -> int | Constant:
        """How many messages are prefetched."""
        return UNLIMITED if self._capacity is None else self._capacity

    @capacity.setter
    def capacity(self, capacity: int | Constant) -> None:
        self._set_capacity(capacity)
        self._top_up()

    def _set_capacity(self, capacity: int | Constant) -> None:
        self._capacity = None if isinstance(capacity, Constant) else capacity
        self._want_credit()

    def _want_credit(self) -> None:
        self._granted = None if self._capacity is None else self.returned + self._capacity

    def available(self) -> int:
        """Return how many messages are here already, for ``fetch`` to return."""
        return self.received - self.returned

    def unsettled(self) -> int:
        """Return how many acknowledged messages the broker has not confirmed yet."""
        return sum(message._receiver is self for message in self.session.acked)

    # Fetching

    def fetch(self, timeout: float | None = None) -> Message:
        """Return the next message.

        Parameters
        ----------
        timeout : float or None
            Seconds of told time to wait for one; 0 takes what is there.

        Raises
        ------
        Empty
            None came.
        FetchWouldBlock
            None came, none can come, and there is no time-out: the real client would wait for ever.
        LinkClosed
            The receiver has been closed.

        Examples
        --------
        >>> from qflow.messaging import Connection
        >>> session = Connection.establish("doc-receiver").session()
        >>> receiver = session.receiver("orders; {create: always}")
        >>> session.sender("orders").send("to do")
        >>> receiver.fetch(timeout=1).content
        'to do'
        """
        channel = self._check_linked()
        message = self._fetch(channel, timeout)
        if message is None and timeout is None:
            raise fetch_blocks(channel.host.broker, [self.queue])
        if message is None:
            raise Empty(text=f"no message on {self.queue!r} within {timeout:g} s")
        return message

    def _fetch(self, channel: Channel, timeout: float | None) -> Message | None:
        if self._capacity == 0:
            self._granted = self.returned + 1
        if timeout == 0 and self._capacity == 0 and not self.available():
            self._fetch_one(channel)
        else:
            self._top_up()
            self.session.wait(lambda: self.available() > 0, timeout)
        message = self.session.take(self)
        if message is None:
            return self._drain(channel)
        if self._capacity and self.available() <= ceil(self.threshold * self._capacity):
            self._want_credit()
            self._top_up()
        return message

    def _fetch_one(self, channel: Channel) -> None:
        """Grant one and flush, in one write (RF-08): what is not there at once is not waited for."""
        if self._impending is None or self._impending > self.received:
            self._guarded(lambda: channel.run(channel.engine.message_flush, self._tag))
        else:
            self._guarded(lambda: channel.run(channel.engine.fetch, self._tag))
        self._credit_is_gone()
        self.check_error()

    def _drain(self, channel: Channel) -> Message | None:
        """Ask for what may have come at the last moment, and take the credit back (CN-07)."""
        if self._impending != self.received:
            self._guarded(lambda: channel.run(channel.engine.message_flush, self._tag))
            self._credit_is_gone()
            self.check_error()
        message = self.session.take(self)
        self._want_credit()
        self._top_up()
        return message

    # Credit

    @property
    def _tag(self) -> str:
        return str(self.id)

    def _credit_is_gone(self) -> None:
        self._impending = self.received
        self._granted = self.received
        self._is_open_for_bytes = False

    def _top_up(self) -> None:
        """Grant what is wanted and not granted yet; take credit back if less is wanted."""
        channel = self.session.channel
        if channel is None or not self.linked or self.closing:
            return
        if self._impending is not None and self._granted is not None:
            missing = max(self._granted, self.received) - self._impending
        else:
            missing = {(False, True): -1, (True, False): INFINITE}.get(
                (self._granted is None, self._impending is None), 0
            )
        if missing < 0:
            self._guarded(lambda: channel.run(channel.engine.message_stop, self._tag))
            self._impending = self.received
            self._is_open_for_bytes = False
            self._top_up()
        elif missing:
            # The broker delivers within the call, so this is noted before.
            self._impending = None if self._granted is None else (self._impending or 0) + missing
            self._guarded(lambda: self._grant(channel, missing))

    def _grant(self, channel: Channel, messages: int) -> None:
        engine = channel.engine
        with engine.pipelined():
            if not self._is_open_for_bytes:
                self._is_open_for_bytes = True
                channel.run(engine.message_flow, self._tag, BYTE_UNIT, INFINITE)
            channel.run(engine.message_flow, self._tag, MESSAGE_UNIT, messages)

    def stop(self) -> None:
        """Take all credit back, before a rollback."""
        channel = self.session.channel
        if channel is not None and self.linked:
            self._guarded(lambda: channel.run(channel.engine.message_stop, self._tag))

    def restart(self) -> None:
        """Forget what was delivered, after a rollback has given it back, and ask for it again."""
        self.returned = self.received
        self._credit_is_gone()
        self._want_credit()
        self._top_up()

    # Attaching

    def _attach(self, channel: Channel, address: Link, node: Node) -> None:
        default = "unreliable" if node.type == "topic" else "at-least-once"
        reliability = address.link.get("reliability") or default
        self.accept_mode = NONE if reliability in _UNRELIABLE_RECEIVER else EXPLICIT
        if node.type == "topic":
            self._make_queue(channel, address, node, reliability)
        else:
            self.queue = address.name
            bind_all(channel, address.link, queue=self.queue)
        subscribe = {
            str(key).replace("-", "_"): v for key, v in (address.link.get("x-subscribe") or {}).items()
        }
        arguments = dict(subscribe.get("arguments") or {})
        if address.link.get("selector"):
            arguments["x-apache-selector"] = address.link["selector"]
        channel.run(
            channel.engine.message_subscribe,
            self.queue,
            self._tag,
            accept_mode=int(subscribe.get("accept_mode", self.accept_mode)),
            acquire_mode=int(subscribe.get("acquire_mode", address.options.get("mode") == "browse")),
            exclusive=bool(subscribe.get("exclusive")),
            arguments=arguments,
        )
        channel.run(channel.engine.message_set_flow_mode, self._tag, CREDIT_MODE)
        self._credit_is_gone()
        self._want_credit()
        self.linked = True
        self._top_up()

    def _make_queue(self, channel: Channel, address: Link, node: Node, reliability: str) -> None:
        """Declare and bind the queue through which messages of an exchange come."""
        link = address.link
        self.queue = link.get("name") or f"{self.session.name}.{self._tag}"
        overrides = dict(link.get("x-declare") or {})
        if link.get("timeout"):
            overrides["arguments"] = {
                "qpid.auto_delete_timeout": link["timeout"],
                **(overrides.get("arguments") or {}),
            }
        declare_queue(
            channel,
            self.queue,
            overrides,
            durable=bool(link.get("durable")),
            exclusive=True,
            auto_delete=reliability == "unreliable",
        )
        self._own_queue = self.queue if overrides.get("exclusive", True) else ""
        subject = address.subject or ("#" if node.subtype == "topic" else None)
        if not bind_all(channel, link, self.queue, address.name, subject):
            channel.run(channel.engine.exchange_bind, self.queue, address.name, subject or "")

    def _detach(self, channel: Channel, address: Link) -> None:
        """Cancel, delete the queue if it is this receiver's own, give back what was prefetched."""
        channel.run(channel.engine.message_cancel, self._tag)
        if self._own_queue:
            channel.run(channel.engine.queue_delete, self._own_queue)
        numbers = self.session.forget_prefetched(self)
        if numbers:
            channel.run(channel.engine.message_release, numbers, True)

    def detached(self) -> None:
        """Take note that the connection is gone."""
        super().detached()
        self._credit_is_gone()

    def _leave(self) -> None:
        if self in self.session.receivers:
            self.session.receivers.remove(self)


ACCEPTED = Disposition(None)


class Acknowledging(Endpoint):
    """The side of a session that settles deliveries."""

    transactional: bool

    def __init__(self) -> None:
        super().__init__()
        self.channel: Channel | None = None
        self.incoming: list[Message] = []
        self.unacked: list[Message] = []
        self.ack_capacity: int | Constant = UNLIMITED
        self.in_transaction: list[int] = []
        self._unconfirmed: list[tuple[Message, int]] = []

    @property
    def acked(self) -> list[Message]:
        """Messages whose acknowledgement is not known to be complete."""
        channel = self.channel
        if channel is not None:
            self._unconfirmed = [
                (message, number) for message, number in self._unconfirmed if not channel.is_confirmed(number)
            ]
        return [message for message, _ in self._unconfirmed]

    def acknowledge(
        self, message: Message | None = None, disposition: Disposition | None = None, sync: bool = True
    ) -> None:
        """Settle a message, or all that have been fetched and not acknowledged.

        Parameters
        ----------
        message : Message or None
            As returned by ``fetch``; None for all.
        disposition : Disposition or None
            None accepts; ``Disposition(RELEASED)`` gives back, ``Disposition(REJECTED)`` refuses.
        sync : bool
            Wait until the broker has confirmed it.

        Raises
        ------
        InsufficientCapacity
            ``ack_capacity`` is 0.
        ValueError
            The message is not one that waits for acknowledgement here.
        SyncWouldBlock
            An earlier transfer of this session is held, and hides the confirmation (CM-14); the
            message is settled nevertheless.
        """
        self.check_error()
        channel = self.require_channel()
        messages = list(self.unacked) if message is None else [message]
        for one in messages:
            self._make_room(channel)
            if one not in self.unacked:
                raise ValueError(f"not waiting for acknowledgement in this session: {one!r}")
            one._disposition = disposition
            self.unacked.remove(one)
            if self.ack_capacity is not UNLIMITED:
                self._settle(channel, [one])
        if messages and self.ack_capacity is UNLIMITED:
            self._settle(channel, messages)
        self.check_error()
        if sync:
            self.wait_for_acks(None, "acknowledge", messages)

    def wait_for_acks(self, timeout: float | None, what: str, messages: list[Message] | None = None) -> None:
        """Wait until acknowledgements are confirmed: of some messages, or of all."""

        def is_done() -> bool:
            return not any(messages is None or one in messages for one in self.acked)

        if not self.acked:
            return
        channel = self.require_channel()
        if not self.wait(is_done, timeout):
            if timeout is None:
                raise sync_blocks(what, channel.holds())
            raise Timeout(f"{what} timed out")

    def wait(self, is_done: Callable[[], bool], timeout: float | None) -> bool:
        """Wait in told time; an error is raised instead."""
        raise NotImplementedError

    def fail(self, error: AmqpException) -> None:
        """Take note that the broker refused a command."""
        raise NotImplementedError

    def require_channel(self) -> Channel:
        """Return the attachment.

        Raises
        ------
        Detached
            There is none.
        """
        if self.channel is None:
            raise Detached(text="the session is not attached")
        return self.channel

    def forget_prefetched(self, receiver: Receiver) -> list[int]:
        """Drop what a receiver has not fetched; return the numbers of the deliveries."""
        dropped = [message for message in self.incoming if message._receiver is receiver]
        self.incoming = [message for message in self.incoming if message._receiver is not receiver]
        receiver.returned += len(dropped)
        return [message._transfer_id for message in dropped if message._transfer_id is not None]

    def forget_deliveries(self) -> list[int]:
        """Drop all deliveries that are not settled for good; return their numbers."""
        numbers = list(self.in_transaction)
        for message in [*self.unacked, *self.incoming]:
            if message._transfer_id is not None:
                numbers.append(message._transfer_id)
        self.in_transaction.clear()
        self.unacked.clear()
        self.incoming.clear()
        self._unconfirmed.clear()
        return sorted(numbers)

    def _make_room(self, channel: Channel) -> None:
        capacity = self.ack_capacity
        if isinstance(capacity, Constant):
            return
        if capacity <= 0:
            raise InsufficientCapacity(text=f"ack_capacity = {capacity}")
        if not self.wait(lambda: len(self.acked) < capacity, None):
            raise sync_blocks("acknowledge", channel.holds())

    def _settle(self, channel: Channel, messages: list[Message]) -> None:
        """Complete the deliveries, then settle runs of the same disposition with one command each."""
        numbers = [message._transfer_id for message in messages if message._transfer_id is not None]
        self._guarded(lambda: channel.control(channel.engine.session_completed, numbers))
        run: list[Message] = []
        for message in messages:
            if message._transfer_id is None or message._receiver.accept_mode != EXPLICIT:
                continue
            if run and not _same(run[-1]._disposition, message._disposition):
                self._dispose(channel, run)
                run = []
            run.append(message)
        if run:
            self._dispose(channel, run)

    def _dispose(self, channel: Channel, messages: list[Message]) -> None:
        disposition = messages[0]._disposition or ACCEPTED
        numbers = [message._transfer_id for message in messages if message._transfer_id is not None]
        command = channel.next_number
        self._unconfirmed += [(message, command) for message in messages]
        engine = channel.engine
        if disposition.type is RELEASED:
            again = bool(disposition.options.get("set_redelivered"))
            self._guarded(lambda: channel.run(engine.message_release, numbers, again))
        elif disposition.type is REJECTED:
            self._guarded(lambda: channel.run(engine.message_reject, numbers))
        else:
            self._guarded(lambda: channel.run(engine.message_accept, numbers))
            if self.transactional:
                self.in_transaction += numbers

    def _guarded(self, action: Callable[[], object]) -> None:
        try:
            action()
        except AmqpException as error:
            self.fail(error)


def _same(one: Disposition | None, other: Disposition | None) -> bool:
    first, second = one or ACCEPTED, other or ACCEPTED
    return first.type is second.type and first.options == second.options


class Transacting(Acknowledging):
    """The side of a session that commits and rolls back."""

    name: str

    def __init__(self) -> None:
        super().__init__()
        self.receivers: list[Receiver] = []

    def check_closed(self) -> None:
        """Refuse a call on a session that has been closed."""
        raise NotImplementedError

    def commit(self, timeout: float | None = None) -> None:
        """Make all sends and acknowledgements since the last time happen, or none of them (CM-10, LP-09).

        Raises
        ------
        NontransactionalSession
            The session has no transactions.
        TransactionAborted
            A queue has no room, or the session died earlier; nothing has happened, and the session is gone.
        """
        channel = self._transaction_channel()
        number = channel.next_number
        try:
            self.check_error()
            self._guarded(lambda: channel.run(channel.engine.tx_commit))
            is_done = self.wait(lambda: channel.is_confirmed(number), timeout)
        except TransactionError:
            raise
        except Exception as error:
            self.error = TransactionAborted(text=f"Transaction aborted: {error}")
            raise self.error from error
        if not is_done and timeout is None:
            raise sync_blocks("commit", channel.holds())
        if not is_done:
            raise Timeout("commit timed out")
        self.in_transaction.clear()

    def rollback(self, timeout: float | None = None) -> None:
        """Forget all sends and acknowledgements since the last commit; messages go back (MG-22, CM-11)."""
        channel = self._transaction_channel()
        self.check_error()
        for receiver in self.receivers:
            receiver.stop()
        numbers = self.forget_deliveries()
        self._guarded(lambda: self._undo(channel, numbers))
        for receiver in self.receivers:
            receiver.restart()
        self.check_error()

    def _undo(self, channel: Channel, numbers: list[int]) -> None:
        if numbers:
            channel.control(channel.engine.session_completed, numbers)
            channel.run(channel.engine.message_release, numbers, True)
        channel.run(channel.engine.tx_rollback)

    def _transaction_channel(self) -> Channel:
        if not self.transactional:
            raise NontransactionalSession(text=f"session {self.name!r} is not transactional")
        self.check_closed()
        return self.require_channel()


ReceivedHandler = Callable[..., object]


class Session(Transacting):
    """Made by :meth:`Connection.session`.

    Attributes
    ----------
    name : str
        Its name at the broker, by which message groups are owned (MG-15).
    transactional : bool
        Whether sends and acknowledgements wait for ``commit``.
    senders, receivers : list
        Those that are open.
    incoming, unacked, acked : list of Message
        Here but not fetched; fetched but not acknowledged; acknowledged but not confirmed.
    """

    def __init__(self, connection: Connection, name: str, transactional: bool) -> None:
        super().__init__()
        self.connection = connection
        self.name = name
        self.transactional = transactional
        self.senders: list[Sender] = []
        self.closing = False
        self.closed = False
        self._next_sender = 0
        self._next_receiver = 0
        self._on_received: ReceivedHandler | None = None
        self.attach()

    def __repr__(self) -> str:
        return f"<Session {self.name}>"

    # The attachment

    def attach(self) -> None:
        """Attach to the broker and link what there is, as far as the connection is attached."""
        host = self.connection.host_if_attached()
        if host is None or self.closed or self.channel is not None:
            return
        self.channel = Channel(host, self.name, self.connection.id, self._deliver)
        if self.transactional:
            self.channel.run(self.channel.engine.tx_select)
        for link in [*self.senders, *self.receivers]:
            link.link()

    def detach(self) -> None:
        """End the attachment: what is unsettled goes back to the queues (CN-17)."""
        channel, self.channel = self.channel, None
        if channel is not None:
            channel.control(channel.engine.close)
        self.forget_deliveries()
        for link in [*self.senders, *self.receivers]:
            link.detached()
        if self.transactional and not self.closed:
            self.closed = True
            self.error = TransactionAborted(text="Transaction aborted due to transport failure")

    def _deliver(self, record: DeliveryRecord) -> None:
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

    # Errors

    def get_error(self) -> Exception | None:
        """Return what the session, or its connection, died of; or None."""
        channel = self.channel
        if self._error is None and channel is not None and channel.engine.error is not None:
            self.fail(channel.engine.error)
        return self.connection.get_error() or self._error

    def fail(self, error: AmqpException) -> None:
        """Take note that the broker refused a command, here or while it served a receiver."""
        if isinstance(error, SessionException | SessionDetached):
            if self._error is None:
                self.error = from_broker(error)
        elif self.connection.error is None:
            self.connection.error = from_broker(error)

    def check_closed(self) -> None:
        """Refuse a call on a session that has been closed.

        Raises
        ------
        SessionClosed
            If it has.
        """
        if self.closed:
            raise SessionClosed(text=f"session {self.name!r} is closed")

    # Links

    def sender(self, target: str | None, **options: Any) -> Sender:
        """Return a new sender.

        Parameters
        ----------
        target : str or None
            An address (CF-14).
        **options : object
            ``capacity``, ``durable``, and ``window``: "qpid-python", "qpid-cpp" or "ideal".

        Raises
        ------
        LinkError
            MalformedAddress, InvalidOption, NotFound, AssertionFailed.
        SessionError
            The broker refuses the node; the session is gone.
        """
        sender = Sender(self, self._next_sender, self._named(target), options)
        self._next_sender += 1
        self.senders.append(sender)
        self._link(sender)
        return sender

    def receiver(self, source: str | None, **options: Any) -> Receiver:
        """Return a new receiver.

        Parameters
        ----------
        source : str or None
            An address (CF-14); an exchange gets the receiver a queue of its own.
        **options : object
            ``capacity``.

        Raises
        ------
        LinkError, SessionError
            As for :meth:`sender`.
        """
        receiver = Receiver(self, self._next_receiver, self._named(source), options)
        self._next_receiver += 1
        self.receivers.append(receiver)
        self._link(receiver)
        return receiver

    def _named(self, address: str | None) -> str | None:
        """Give a ``#`` in the name of an address a name of its own (CF-14)."""
        if not isinstance(address, str) or "#" not in address.split(";")[0].split("/")[0]:
            return address
        named = address.replace("#", self.connection.broker_host.unique_id(), 1)
        return TemporaryAddress(named) if address.startswith("#") else named

    def _link(self, link: LinkEndpoint) -> None:
        if self.closed or not self.connection.attached():
            return
        link.link()
        try:
            link.check_error()
        except LinkError:
            link._leave()
            raise

    # Receiving

    def wait(self, is_done: Callable[[], bool], timeout: float | None) -> bool:
        """Wait in told time; an error of the session is raised instead."""
        is_so = self.channel.wait(is_done, timeout) if self.channel is not None else is_done()
        self.check_error()
        return is_so

    def next_receiver(self, timeout: float | None = None) -> Receiver:
        """Return the receiver whose message has been here longest.

        Raises
        ------
        Empty
            None came within the time-out, in seconds of told time.
        FetchWouldBlock
            None came, none can come, and there is no time-out.
        """
        self.check_error()
        self.check_closed()
        if not self.wait(lambda: bool(self.incoming), timeout):
            if timeout is None:
                broker = self.connection.broker_host.broker
                raise fetch_blocks(broker, [r.queue for r in self.receivers if r.capacity])
            raise Empty(text=f"no message for any receiver within {timeout:g} s")
        return self.incoming[0]._receiver

    def take(self, receiver: Receiver) -> Message | None:
        """Hand out the receiver's first message, which is unacknowledged from now on."""
        for index, message in enumerate(self.incoming):
            if message._receiver is receiver:
                del self.incoming[index]
                receiver.returned += 1
                self.unacked.append(message)
                return message
        return None

    def set_message_received_notify_handler(self, handler: ReceivedHandler | None) -> None:
        """Have a function called with the session whenever a message arrives; it must not use the API."""
        self._on_received = handler

    set_message_received_handler = set_message_received_notify_handler

    # Syncing and closing

    def sync(self, timeout: float | None = None) -> None:
        """Wait until everything sent and acknowledged so far is complete.

        Raises
        ------
        Timeout
            It is not, within the time-out in seconds of told time.
        SyncWouldBlock
            It is not, and there is no time-out.
        """
        for sender in list(self.senders):
            sender.sync(timeout)
        self.wait_for_acks(timeout, "session sync")

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


# qpidtoollibs looks for Message beside the class of the connection it is given.

_OPTIONS: dict[str, object] = {
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
"""What the real client knows, with its defaults; most of it says how to travel, which nobody does here."""


class Connection(Endpoint):
    """Connects to the broker behind a URL (see :class:`qflow.messaging.hosts.Brokers`).

    Parameters
    ----------
    url : object
        ``[user[/password]@]host[:port]``; the host is the name of a broker in this process.
    **options : object
        Those of the real client; all become attributes.

    Raises
    ------
    ConnectionError
        For an option the real client does not know, or a protocol other than "amqp0-10".

    Examples
    --------
    >>> connection = Connection.establish("localhost")
    >>> session = connection.session()
    >>> session.sender("greetings; {create: always}").send("hello")
    >>> session.receiver("greetings").fetch(timeout=1).content
    'hello'
    >>> connection.close()
    """

    def __init__(self, url: object = None, **options: Any) -> None:
        super().__init__()
        for key, value in options.items():
            if key not in _OPTIONS:
                raise ConnectionError(text=f"Unknown connection option {key} with value {value}")
        if options.get("protocol") not in (None, "amqp0-10"):
            raise ConnectionError(
                text=f"Connection option 'protocol' value {options['protocol']!r} unsupported"
                " (must be amqp0-10)"
            )
        for key, default in _OPTIONS.items():
            setattr(self, key, options.get(key, default))
        self.options = options
        self.url = url if url is not None else options.get("host") or DEFAULT_URL
        host, port, user, password = parse_url(self.url)
        self.host: Any = host
        self.port = port
        self.username = user or options.get("username")
        self.password = password or options.get("password")
        self._broker_host = brokers.host(self.url)
        self.id = self._broker_host.unique_name("client")
        self.session_counter = 0
        self.sessions: dict[str, Session] = {}
        self._open = False
        self._connected = False

    @staticmethod
    def establish(url: object = None, timeout: float | None = None, **options: Any) -> Connection:
        """Return a new connection that is open."""
        connection = Connection(url, **options)
        connection.open(timeout)
        return connection

    # Open and attached

    def open(self, timeout: float | None = None) -> None:
        """Open the connection.

        Raises
        ------
        ConnectionError
            It is open.
        """
        if self._open:
            raise ConnectionError(text="already open")
        self._open = True
        self.attach(timeout)

    def opened(self) -> bool:
        """Return whether the connection is open."""
        return self._open

    def attach(self, timeout: float | None = None) -> None:
        """Attach to the broker, with all sessions there are."""
        self._connected = True
        for session in list(self.sessions.values()):
            session.attach()
        self.check_error()

    def attached(self) -> bool:
        """Return whether the connection is attached."""
        return self._connected

    def detach(self, timeout: float | None = None) -> None:
        """Leave the broker: sessions end there, their transactions are aborted."""
        self._connected = False
        for session in list(self.sessions.values()):
            session.detach()

    def close(self, timeout: float | None = None) -> None:
        """Close all sessions, and leave the broker."""
        try:
            for session in list(self.sessions.values()):
                session.close(timeout)
        finally:
            self.detach(timeout)
            self._open = False

    def check_closed(self) -> None:
        """Refuse a call on a connection that is not attached.

        Raises
        ------
        ConnectionClosed
            If it is not.
        """
        if not self._connected:
            raise ConnectionClosed(text=f"the connection to {self.url} is not attached")

    # Sessions

    def session(self, name: str | None = None, transactional: bool = False) -> Session:
        """Return a session: the one of this name if there is one, else a new one.

        Parameters
        ----------
        name : str or None
            None for a name of its own.
        transactional : bool
            Whether sends and acknowledgements wait for ``commit``.
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

    @property
    def broker_host(self) -> Host:
        """The broker, with what its clients share."""
        return self._broker_host

    def host_if_attached(self) -> Host | None:
        """Return the broker to attach to, or None while the connection is not attached."""
        return self._broker_host if self._connected else None
