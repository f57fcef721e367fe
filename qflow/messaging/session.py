"""Session: the line of commands on which senders and receivers of one client work."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qflow.broker.delivery import DeliveryRecord
from qflow.broker.errors import AmqpException, SessionDetached, SessionException
from qflow.messaging.channel import Channel
from qflow.messaging.encoding import from_delivery
from qflow.messaging.exceptions import (
    Empty,
    LinkError,
    SessionClosed,
    TransactionAborted,
    from_broker,
)
from qflow.messaging.link import LinkEndpoint, TemporaryAddress
from qflow.messaging.message import Message
from qflow.messaging.receiver import Receiver
from qflow.messaging.sender import Sender
from qflow.messaging.transacting import Transacting
from qflow.messaging.waiting import fetch_blocks

if TYPE_CHECKING:
    from qflow.messaging.connection import Connection

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


__all__ = ["Session"]
