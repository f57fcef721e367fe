"""Sender: sends messages through a window (CAP)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qflow.broker.errors import AmqpException
from qflow.messaging.constants import UNLIMITED, Constant
from qflow.messaging.encoding import APP_ID, to_broker
from qflow.messaging.exceptions import Detached, InsufficientCapacity, Timeout
from qflow.messaging.link import LinkEndpoint
from qflow.messaging.message import Message
from qflow.messaging.nodes import Link, Node, bind_all
from qflow.messaging.qmf_agent import REQUESTS, answer
from qflow.messaging.waiting import send_blocks, sync_blocks
from qflow.messaging.windows import QpidPythonWindow, Step, Window, make_window

if TYPE_CHECKING:
    from qflow.messaging.channel import Channel
    from qflow.messaging.session import Session

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


__all__ = ["Sender"]
