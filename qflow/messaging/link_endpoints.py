"""Senders and receivers, which are attached to the nodes of addresses, and the base class of their sessions.

:mod:`qflow.messaging.sessions` lists the commands that each call sends, and the answers it waits for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from math import ceil
from typing import Any, ClassVar, TypeVar, cast

from qflow.broker import BYTE_UNIT, CREDIT_MODE, EXPLICIT, INFINITE, MESSAGE_UNIT, NONE
from qflow.broker import Message as BrokerMessage
from qflow.broker.consuming import DeliveryRecord
from qflow.broker.errors import AmqpException, SessionDetached, SessionException
from qflow.client_windows import QpidPythonWindow, Window, WindowStep, make_window
from qflow.messaging.address import Address, LexError, ParseError, find_error, hint_at_cpp, parse
from qflow.messaging.channel import Channel, fetch_blocks, send_blocks, sync_blocks
from qflow.messaging.exceptions import (
    Detached,
    Empty,
    InsufficientCapacity,
    InvalidOption,
    LinkClosed,
    LinkError,
    MalformedAddress,
    Timeout,
    from_broker,
)
from qflow.messaging.hosts import Host
from qflow.messaging.messages import UNLIMITED, Constant, Message, from_delivery, to_broker
from qflow.messaging.nodes import TOPIC, Command, Node, Nodes, read_bindings, read_declare, replace_dashes

_ErrorHandler = Callable[["Endpoint", Exception], None]
ReceivedHandler = Callable[["SessionEndpoint"], object]

_Method = TypeVar("_Method", bound=Callable[..., Any])

_UNRELIABLE = ("unreliable", "at-most-once")


def synchronized(method: _Method) -> _Method:
    """Decorate a method of an endpoint so that it holds the broker's lock while it runs."""

    @wraps(method)
    def run(self: Endpoint, *args: Any, **kwargs: Any) -> Any:
        with self.broker_host:
            return method(self, *args, **kwargs)

    return cast(_Method, run)


class Endpoint:
    """The base class of connections, sessions, senders and receivers: it raises a past error at each call."""

    broker_host: Host

    def __init__(self) -> None:
        self._error: Exception | None = None
        self._on_error: _ErrorHandler | None = None

    @property
    def error(self) -> Exception | None:
        """The error that ended the endpoint, or None."""
        return self._error

    @error.setter
    def error(self, error: Exception | None) -> None:
        self._error = error
        if error is not None and self._on_error is not None:
            self._on_error(self, error)

    def set_async_exception_notify_handler(self, handler: _ErrorHandler | None) -> None:
        """Set a function that is called with the endpoint and its error; it must not use the API."""
        self._on_error = handler

    def get_error(self) -> Exception | None:
        """Return the error of this endpoint or of its session or connection, or None."""
        return self._error

    def check_error(self) -> None:
        """Raise the error of this endpoint or of its session or connection, if there is one."""
        error = self.get_error()
        if error is not None:
            raise error


class SessionEndpoint(Endpoint):
    """The base class of Session, which sends due commands, keeps delivered messages, and waits."""

    def __init__(self, connection: Any, name: str) -> None:
        super().__init__()
        self.connection = connection
        self.broker_host = connection.broker_host
        self.name = name
        self.channel: Channel | None = None
        self.senders: list[Sender] = []
        self.receivers: list[Receiver] = []
        self.incoming: list[Message] = []
        self.unacked: list[Message] = []
        self.acked: list[Message] = []
        self.closing = False
        self.closed = False
        self._to_settle: list[Message] = []
        self._on_received: ReceivedHandler | None = None

    def links(self) -> list[Sender | Receiver]:
        """Return the open senders and receivers."""
        return [*self.senders, *self.receivers]

    def forget(self, link: LinkEndpoint) -> None:
        """Remove a closed sender or receiver from the session."""
        links: list[Any] = self.senders if isinstance(link, Sender) else self.receivers
        if link in links:
            links.remove(link)

    def _require_channel(self) -> Channel:
        if self.channel is None:
            raise Detached(text="the session is not attached")
        return self.channel

    def deliver(self, record: DeliveryRecord) -> None:
        """Keep a delivered message, possibly in the middle of another client's command."""
        receiver = next((one for one in self.receivers if one.tag == record.tag), None)
        if self.channel is None or receiver is None:
            return
        message = from_delivery(record, self.broker_host.broker.now)
        message._receiver = receiver
        receiver.received += 1
        self.incoming.append(message)
        if self._on_received is not None:
            self._on_received(self)

    def take(self, receiver: Receiver) -> Message | None:
        """Fetch the receiver's oldest delivered message, which is unacknowledged then, or return None."""
        message = next((one for one in self.incoming if one._receiver is receiver), None)
        if message is not None:
            self.incoming.remove(message)
            self.unacked.append(message)
            receiver.returned += 1
        return message

    def forget_prefetched(self, receiver: Receiver) -> list[int]:
        """Forget the messages that a receiver has not fetched, and return their delivery numbers."""
        dropped = [message for message in self.incoming if message._receiver is receiver]
        self.incoming = [message for message in self.incoming if message._receiver is not receiver]
        receiver.returned += len(dropped)
        return transfer_ids(dropped)

    def dispatch(self) -> None:
        """Send the commands that are due, as the real client's driver does when it wakes."""
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
            if self._to_settle:
                self._settle(channel)

    def _settle(self, channel: Channel) -> None:
        raise NotImplementedError

    def get_error(self) -> Exception | None:
        """Return the error that ended the session or its connection, or None."""
        channel = self.channel
        if self._error is None and channel is not None and channel.engine.error is not None:
            self.fail(channel.engine.error)
        above: Exception | None = self.connection.get_error()
        return above or self._error

    def fail(self, error: AmqpException) -> None:
        """Record the broker's refusal as the error of the session, or of the connection if it ended that."""
        if isinstance(error, SessionException | SessionDetached):
            if self._error is None:
                # The broker detaches a session whose command it refuses.
                self.closed = True
                self.error = from_broker(error)
        elif self.connection.error is None:
            self.connection.error = from_broker(error)

    def wait(self, is_done: Callable[[], bool], timeout: float | None, what: str = "") -> bool:
        """Wait for a condition and return whether it holds, or raise the session's error."""
        is_so = self.channel.wait(is_done, timeout, what) if self.channel is not None else is_done()
        self.check_error()
        return is_so

    def wait_until(self, is_done: Callable[[], bool], what: str, timeout: float | None = None) -> None:
        """Wait for a condition on completions; raise a Timeout, or a SyncWouldBlock if it can never hold."""
        if self.wait(is_done, timeout, what):
            return
        if timeout is not None:
            raise Timeout(f"{what} timed out")
        raise sync_blocks(what, self._require_channel())


def transfer_ids(messages: list[Message]) -> list[int]:
    """Return the delivery numbers of messages."""
    return [message._transfer_id for message in messages]


class LinkEndpoint(Endpoint):
    """The base class of senders and receivers, which attaches one to its node; it ignores unknown options."""

    ROLE: ClassVar[str]
    ADDRESS_NAME: ClassVar[str]

    def __init__(
        self, session: SessionEndpoint, id: int, address: str | None, options: dict[str, Any]
    ) -> None:
        super().__init__()
        if address is not None and not isinstance(address, str):
            raise TypeError(f"an address must be a string, got {address!r}")
        self.session = session
        self.broker_host = session.broker_host
        self.id = id
        self.options = options
        self.linked = False
        self.closing = False
        self.closed = False
        # A # at the start is replaced by a UUID, and the node is created for this link only; a # elsewhere
        # has no meaning (RF-41).
        self._is_temporary = address is not None and address.startswith("#")
        self.given = f"{self.broker_host.unique_id()}{address}" if self._is_temporary else address
        self._address: Address | None = None
        # Whether the commands to find the node, and those to end the link, were sent on the present channel.
        self._is_attaching = False
        self._is_leaving = False

    def get_error(self) -> Exception | None:
        """Return the error of the link, its session or its connection, or None."""
        return self.session.get_error() or self._error

    def check_closed(self) -> None:
        """Raise a LinkClosed if the link has been closed."""
        if self.closed:
            raise LinkClosed(text=f"the {self.ROLE} for {self.given!r} is closed")

    def wait_until(self, is_done: Callable[[], bool], what: str, timeout: float | None = None) -> None:
        """Wait as :meth:`Session.wait_until` does, but also raise the link's own error."""
        self.session.wait_until(lambda: self._error is not None or is_done(), what, timeout)
        self.check_error()

    def _check_linked(self) -> Channel:
        """Wait until the link is attached and return its channel, or raise the error that prevents it."""
        self.check_error()
        self.check_closed()
        channel = self.session.channel
        if channel is None or not (self.linked or self._is_attaching):
            raise Detached(text=f"the {self.ROLE} for {self.given!r} is not attached")
        self.wait_until(lambda: self.linked or self.closed, f"the {self.ROLE} for {self.given!r}")
        self.check_closed()
        return channel

    def attach(self) -> None:
        """Send the commands that attach the link to its node; a failure becomes the link's error."""
        channel = self.session.channel
        if channel is None or self._is_attaching or self.closed or self._error is not None:
            return
        try:
            self._address = address = self._parse()
        except LinkError as error:
            self.fail(error)
        else:
            self._is_attaching = True
            attach = partial(self._attach, channel, address)
            must_create = address.wants("create", self.ROLE)
            self._nodes(channel).resolve(address, must_create, attach, self.fail)

    def _nodes(self, channel: Channel) -> Nodes:
        return Nodes(channel, self.session.connection.known_nodes, self.session.connection.address_ttl)

    def fail(self, error: LinkError) -> None:
        """Close the link because of an error, which its next call raises."""
        self.closed = True
        self.error = error

    def _finish_attach(self) -> None:
        self.linked = True

    def forget_attachment(self) -> None:
        """Record that the session was detached; the next attachment attaches the link again."""
        self.linked = self._is_attaching = self._is_leaving = False

    def _parse(self) -> Address:
        if self.given is None:
            raise MalformedAddress(text=f"{self.ADDRESS_NAME} is None")
        try:
            address = parse(self.given)
        except (LexError, ParseError) as error:
            raise MalformedAddress(text=f"{error}{hint_at_cpp(self.given)}") from error
        error_text = find_error(address.options or {}, self.ROLE)
        if error_text:
            raise InvalidOption(text=f"error in options: {error_text}")
        if self._is_temporary:
            # The node is created, and deleted when the session that uses it ends.
            declare = dict(address.node.get("x-declare") or {})
            for option in ("auto-delete", "exclusive"):
                declare.setdefault(option, True)
            made: dict[Any, Any] = {"create": "always", "node": {**address.node, "x-declare": declare}}
            address = address._replace(options={**(address.options or {}), **made})
        return address

    def _attach(self, channel: Channel, address: Address, node: Node) -> None:
        raise NotImplementedError

    @synchronized
    def close(self, timeout: float | None = None) -> None:
        """End the link, and delete its node if the address demands it.

        Parameters:
            timeout: Seconds of virtual time to wait for outstanding messages and for the confirmation.

        Raises:
            Timeout: If the end is not confirmed within the time-out: "sender close timed out" or "receiver
                close timed out".
            SyncWouldBlock: If the end can never be confirmed, and there is no time-out.
        """
        self.closing = True
        if self._error is not None or self.session.channel is None:
            self.closed = True
        self.session.dispatch()
        try:
            self.session.wait_until(lambda: self.closed, f"{self.ROLE} close", timeout)
        finally:
            self.session.forget(self)

    def leave(self) -> None:
        """Send the commands that end the link, if it is attached and being closed."""
        channel, address = self.session.channel, self._address
        if not (self.closing and self.linked) or self._is_leaving or channel is None or address is None:
            return
        self._is_leaving = True
        if address.wants("delete", self.ROLE):
            for command in self._commands_to_detach(channel):
                channel.give(command)
            self._nodes(channel).delete(address, self._finish_close)
        else:
            channel.give_all(self._commands_to_detach(channel), self._finish_close)

    def _finish_close(self) -> None:
        self.closed = True

    def _commands_to_detach(self, channel: Channel) -> list[Command]:
        """Return the commands that end the link at the broker: none for a sender."""
        return []


class Sender(LinkEndpoint):
    """A sender of messages to a queue or an exchange, created by :meth:`Session.sender`.

    Attributes:
        window (Window): The window of outstanding transfers: "qpid-python" unless the option ``window`` is
            "ideal" or "qpid-cpp" (CAP-02, CAP-07, CAP-08).
        durable (bool or None): Whether messages are durable whose own ``durable`` is None.
    """

    ROLE = "sender"
    ADDRESS_NAME = "target"

    def __init__(
        self, session: SessionEndpoint, id: int, target: str | None, options: dict[str, Any]
    ) -> None:
        super().__init__(session, id, target, options)
        self.target = self.given
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
        """The largest number of outstanding messages, or ``UNLIMITED``."""
        capacity = self.window.capacity
        return UNLIMITED if capacity is None else capacity

    @capacity.setter
    def capacity(self, capacity: int | Constant) -> None:
        with self.broker_host:
            channel = self.session.channel
            # A larger window may have room at once, if the broker reports completions that the client has not
            # waited for.
            if self.window.resize(_as_bound(capacity)) and channel is not None and self.linked:
                channel.give_control(channel.engine.session_flush)
                self._read_reports()

    @property
    def threshold(self) -> float:
        """The free share of the capacity at which the qpid-python window requests completions."""
        return self.window.threshold if isinstance(self.window, QpidPythonWindow) else 0.0

    @threshold.setter
    def threshold(self, threshold: float) -> None:
        if isinstance(self.window, QpidPythonWindow):
            self.window.threshold = threshold

    @synchronized
    def unsettled(self) -> int:
        """Return the number of sent messages that are not known to be complete."""
        self._read_reports()
        return self.window.unsettled()

    @synchronized
    def available(self) -> int | Constant:
        """Return the number of messages for which the window has room, or ``UNLIMITED``."""
        self._read_reports()
        available = self.window.available()
        return UNLIMITED if available is None else available

    def _read_reports(self) -> None:
        if self.session.channel is not None:
            self.window.note_reported(self.session.channel.reported)

    def is_idle(self) -> bool:
        """Return whether all sent messages were synced; then the session syncs each command (CAP-07)."""
        return isinstance(self.window, QpidPythonWindow) and self._synced >= self._queued

    # Sending

    @synchronized
    def send(self, object: object, sync: bool | None = None, timeout: float | None = None) -> None:
        """Send a message once the window has room for it.

        Parameters:
            object: The message, or its content.
            sync: Whether to wait for the message's completion, which a queue that is ON withholds.  None for
                the default of the window's client: True for qpid-python, else False.
            timeout: Seconds of virtual time to wait for room, and then for the completion.

        Raises:
            InsufficientCapacity: If the window has no room within the time-out, or has a capacity of 0.
            Timeout: If the completion does not come within the time-out ("sender sync timed out"); the
                message is on the queue.
            SendWouldBlock: If room can never come, and there is no time-out.
            SyncWouldBlock: If the completion can never come, and there is no time-out.
            EncodeError: If the message cannot be encoded; nothing was sent.
            MessagingError: If the session has ended because of an earlier command.

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
        # On the default exchange the routing key is the queue's name, which the subject must not replace.
        own_key = message.subject is None or not self._exchange
        return to_broker(
            message,
            self._routing_key if own_key else message.subject,
            self._subject if message.subject is None else message.subject,
            channel.host.broker.options.message_size == "encoded",
        )

    def _make_room(self, channel: Channel, timeout: float | None) -> None:
        window = self.window
        # The client of some windows learns of completions only on request, and counts them until then.
        if not window.is_deaf_while_sending:
            self._read_reports()
        step = window.next_step()
        if step is WindowStep.REFUSE:
            raise InsufficientCapacity(text=f"capacity = {window.capacity}")
        if step is not WindowStep.SEND:
            # The window of qpid-cpp waits for all commands of the session, any other for one free place.
            is_free = self._ask(channel) if step is WindowStep.SYNC else self._has_room
            if not self.session.wait(is_free, timeout, "send"):
                if timeout is None:
                    raise send_blocks(window.capacity, channel)
                raise InsufficientCapacity(text=f"capacity = {window.capacity}: {channel.holds().text}")
            if step is WindowStep.SYNC:
                self._read_reports()
                window.note_synced()
        # Requested early, so that reports arrive while the window has room and the sender need not wait.
        if window.wants_flush():
            channel.give_control(channel.engine.session_flush)

    def _has_room(self) -> bool:
        self._read_reports()
        return self.window.next_step() is WindowStep.SEND

    def _transfer(self, channel: Channel, encoded: BrokerMessage, waits: bool) -> None:
        asks = self.window.sync_flag(waits) and self._is_tracked
        if self._is_tracked:
            self.window.note_sent(channel.next_number)
        self._queued += 1
        channel.transfer(encoded, self._exchange, asks)

    @synchronized
    def sync(self, timeout: float | None = None) -> None:
        """Wait until all sent messages are complete, or with qpid-cpp's window all the session's (CAP-05).

        Raises:
            Timeout: If that takes longer than the time-out ("sender sync timed out").
            SyncWouldBlock: If that can never happen, and there is no time-out.
        """
        self.check_error()
        channel = self.session.channel
        if channel is None or self.session.wait(self._ask(channel), timeout, "sync"):
            return
        if timeout is None:
            raise sync_blocks("sync", channel)
        raise Timeout(f"sender sync timed out: {channel.holds().text}")

    def _ask(self, channel: Channel) -> Callable[[], bool]:
        """Request the reports for a sync, and return a test of whether they have come (CAP-05)."""
        if self.window.syncs_session:
            command = channel.next_number - 1
            channel.sync_all()
            return lambda: command < 0 or channel.is_confirmed(command)
        self._synced = self._queued
        self.session.dispatch()
        # Only the messages outstanding now; a message that a callback sends meanwhile is not waited for.
        last = max(self.window.outstanding, default=-1)
        return lambda: not self._has_outstanding(last)

    def _has_outstanding(self, last: int) -> bool:
        self._read_reports()
        return bool(self.window.outstanding) and self.window.outstanding[0] <= last

    # Attaching and closing

    def _attach(self, channel: Channel, address: Address, node: Node) -> None:
        self._is_tracked = address.link.get("reliability") not in _UNRELIABLE
        self._subject = address.subject
        if node.type == TOPIC:
            self._exchange, self._routing_key = address.name, address.subject
            commands = read_bindings(channel.engine, address.link, exchange=address.name, key=address.subject)
        else:
            self._exchange, self._routing_key = "", address.name
            commands = read_bindings(channel.engine, address.link, queue=address.name)
        channel.give_all(commands, self._finish_attach)

    @synchronized
    def close(self, timeout: float | None = None) -> None:
        """Wait for outstanding messages, end the link, and delete its node if the address demands it."""
        if self.linked and not self.closed and self.unsettled():
            self.sync(timeout)
        super().close(timeout)

    def forget_attachment(self) -> None:
        """Record that the session was detached; outstanding messages are not sent again."""
        super().forget_attachment()
        # The broker has these messages, and can no longer report their completion.
        self.window.outstanding.clear()
        self._synced = self._queued


def _as_bound(capacity: int | Constant) -> int | None:
    return None if isinstance(capacity, Constant) else capacity


class Receiver(LinkEndpoint):
    """A receiver of messages from a queue, or from an exchange through the receiver's own queue.

    :meth:`Session.receiver` creates it.  It grants credit as qpid-python does (CN-09).

    Attributes:
        capacity (int or Constant): The number of messages to prefetch: 0 for none, ``UNLIMITED`` for all.
        threshold (float): More credit is granted when the prefetched messages that are not fetched are at
            most this share of the capacity.
    """

    ROLE = "receiver"
    ADDRESS_NAME = "source"

    def __init__(
        self, session: SessionEndpoint, id: int, source: str | None, options: dict[str, Any]
    ) -> None:
        super().__init__(session, id, source, options)
        self.source = self.given
        # As in the real client: granted again when half is fetched, so that one command grants many messages.
        self.threshold = 0.5
        self.queue = ""
        self.accept_mode = EXPLICIT
        self.received = 0
        self.returned = 0
        # The number of the last message, counted as in received, for which credit is wanted and is granted;
        # None for unlimited credit.
        self._granted: int | None = 0
        self._impending: int | None = 0
        self._is_open_for_bytes = False
        # Whether a flush is wanted, and whether a flush or stop was sent and is not confirmed.
        self._wants_drain = False
        self._is_draining = False
        self._own_queue = ""
        self.tag = str(id)
        self._capacity = _as_bound(options.get("capacity", 0))
        self._want_credit()

    # Capacity

    @property
    def capacity(self) -> int | Constant:
        """The number of messages to prefetch, or ``UNLIMITED``."""
        return UNLIMITED if self._capacity is None else self._capacity

    @capacity.setter
    def capacity(self, capacity: int | Constant) -> None:
        with self.broker_host:
            self._capacity = _as_bound(capacity)
            self._want_credit()
            self.session.dispatch()

    @synchronized
    def available(self) -> int:
        """Return the number of delivered messages that were not fetched; ``fetch`` returns one at once."""
        return self.received - self.returned

    @synchronized
    def unsettled(self) -> int:
        """Return the number of acknowledged messages that the broker has not confirmed yet."""
        return sum(message._receiver is self for message in self.session.acked)

    # Fetching

    @synchronized
    def fetch(self, timeout: float | None = None) -> Message:
        """Return the next message.

        Parameters:
            timeout: Seconds of virtual time to wait for a message; 0 to return only one that is available at
                once, None to wait without end.

        Raises:
            Empty: If no message came within the time-out.
            FetchWouldBlock: If no message can come, and there is no time-out.
            SyncWouldBlock: If no message came in time, and the drain of the credit can never be confirmed,
                because an earlier transfer of the session is held (CM-14).
            LinkClosed: If the receiver has been closed.

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
            # Grant and flush in one write (RF-08): only a message that is available at once is delivered.
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
        # Decided by the number of delivered messages that were not fetched, not by the remaining credit.
        if self._capacity and self.received - self.returned <= ceil(self.threshold * self._capacity):
            self._want_credit()
            self.session.dispatch()
        return message

    def _has_more(self) -> bool:
        return self.received > self.returned

    def _is_granted(self) -> bool:
        # Unlimited credit counts as granted when it is wanted, as in the real client.
        return self._granted is None or (self._impending is not None and self._impending >= self._granted)

    def _fetch_last(self, channel: Channel, timeout: float | None) -> Message:
        """Wait for the end of the drain, and return a message that it delivered, or raise (CN-07)."""
        if timeout is not None:
            self.wait_until(lambda: not self._wants_drain, "fetch")
        else:
            # The real client would wait for a message for ever instead.
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
        """Grant missing credit, withdraw excess credit, or withdraw all credit to drain."""
        channel = self.session.channel
        if channel is None or not self.linked or self._is_leaving or self._is_draining:
            return
        missing = self._count_missing()
        if missing > 0:
            # Recorded before the call, as the broker delivers messages within it.
            self._impending = None if self._granted is None else (self._impending or 0) + missing
            self._flow(channel, missing)
        elif missing < 0 and not self._wants_drain:
            # Credit cannot be reduced: all of it is withdrawn, and the wanted part is granted again.
            self._is_draining = True
            channel.give(channel.engine.message_stop, self.tag, then=self._finish_stop)
        if self._wants_drain:
            self._is_draining = True
            channel.give(channel.engine.message_flush, self.tag, then=self._finish_drain)

    def _count_missing(self) -> int:
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
        """Grant credit again for the messages that a rollback returned, but not for bytes."""
        self._impending = self.returned = self.received
        self.grant()

    # Attaching and closing

    def _attach(self, channel: Channel, address: Address, node: Node) -> None:
        # As in the real client. A receiver from an exchange has its own queue, so no other client could get a
        # message that it releases.
        default = "unreliable" if node.type == TOPIC else "at-least-once"
        reliability = address.link.get("reliability") or default
        self.accept_mode = NONE if reliability in _UNRELIABLE else EXPLICIT
        if node.type == TOPIC:
            commands = self._commands_to_queue(channel, address, node, reliability)
        else:
            self.queue = address.name
            commands = read_bindings(channel.engine, address.link, queue=self.queue)
        subscribe = replace_dashes(address.link.get("x-subscribe") or {})
        commands.append(
            partial(
                channel.engine.message_subscribe,
                self.queue,
                self.tag,
                accept_mode=int(subscribe.get("accept_mode", self.accept_mode)),
                acquire_mode=int(subscribe.get("acquire_mode", address.option("mode") == "browse")),
                exclusive=bool(subscribe.get("exclusive")),
                arguments=dict(subscribe.get("arguments") or {}),
            )
        )
        commands.append(partial(channel.engine.message_set_flow_mode, self.tag, CREDIT_MODE))
        self._impending = self.returned = self.received
        self._is_open_for_bytes = self._wants_drain = self._is_draining = False
        self._want_credit()
        channel.give_all(commands, self._finish_attach)

    def _commands_to_queue(
        self, channel: Channel, address: Address, node: Node, reliability: str
    ) -> list[Command]:
        """Return the commands that declare the receiver's own queue and bind it to the exchange."""
        link = address.link
        self.queue = link.get("name") or f"{self.session.name}.{self.tag}"
        overrides = dict(link.get("x-declare") or {})
        declare = read_declare(
            channel.engine,
            self.queue,
            overrides,
            durable=bool(link.get("durable")),
            exclusive=True,
            auto_delete=reliability == "unreliable",
        )
        self._own_queue = self.queue if overrides.get("exclusive", True) else ""
        # Without a subject, the binding key is # on a topic exchange, for all messages, and empty on others.
        subject = address.subject or ("#" if node.subtype == "topic" else None)
        own = partial(channel.engine.exchange_bind, self.queue, address.name, subject or "")
        return [declare, *(read_bindings(channel.engine, link, self.queue, address.name, subject) or [own])]

    def _commands_to_detach(self, channel: Channel) -> list[Command]:
        """Return the commands that cancel the subscription, delete its own queue, and release messages."""
        engine = channel.engine
        commands: list[Command] = [partial(engine.message_cancel, self.tag)]
        if self._own_queue:
            commands.append(partial(engine.queue_delete, self._own_queue))
        numbers = self.session.forget_prefetched(self)
        if numbers:
            commands.append(partial(engine.message_release, numbers, True))
        return commands

    def forget_attachment(self) -> None:
        """Record that the session was detached; all credit is gone."""
        super().forget_attachment()
        self._impending = self.returned = self.received
