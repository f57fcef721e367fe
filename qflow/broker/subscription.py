"""Subscription: a named reader of a queue on a session (the broker's ConsumerImpl)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from qflow.broker.conversions import Argument
from qflow.broker.credit import WINDOW_MODE
from qflow.broker.delivery import DeliveryRecord
from qflow.broker.dispatch import get_next_message
from qflow.broker.errors import SessionException
from qflow.broker.output import Connection, FlushReplier, OutputTask
from qflow.broker.queue import Queue
from qflow.broker.queued_message import QueuedMessage
from qflow.broker.selector import Selector
from qflow.broker.statistics import SubscriptionStatistics


class DeliveryTarget(FlushReplier):
    """The session a subscription belongs to, as the subscription sees it.

    Attributes
    ----------
    blocked : set of str
        Tags of all subscriptions that have stopped for want of credit, perhaps of others, too.
    """

    __slots__ = ("blocked",)

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self.blocked: set[str] = set()

    def deliver(self, subscription: Subscription, message: QueuedMessage) -> None:
        """Send a message to the client."""
        raise NotImplementedError

    def send_command(self) -> int:
        """Return the number of the next command to the client."""
        raise NotImplementedError

    def fail(self, error: SessionException) -> None:
        """End the session: a subscription of it met an error while it was being served."""
        raise NotImplementedError


class Subscription(OutputTask):
    """One consumer or browser, made by ``message_subscribe`` (CN-01).

    Parameters
    ----------
    target : DeliveryTarget
        Its session.
    tag : str
        Its name, unique in the session.
    owner : str
        The name under which it owns message groups: session and tag (MG-15).
    queue : Queue
        What it reads.
    is_explicit : bool
        Accept mode explicit; with none, messages are gone when delivered (CN-11).
    arguments : mapping
        ``x-apache-selector``, and ``qpid.sync_frequency``: after every so many deliveries the broker
        sends an execution.sync (CN-01).
    """

    ONLY_COUNTS: ClassVar[bool] = True

    __slots__ = (
        "target",
        "queue",
        "is_explicit",
        "is_exclusive",
        "is_enabled",
        "delivered",
        "sync_frequency",
    )

    def __init__(
        self,
        target: DeliveryTarget,
        connection: Connection,
        tag: str,
        owner: str,
        queue: Queue,
        acquires: bool,
        is_explicit: bool,
        is_exclusive: bool,
        arguments: Mapping[str, Argument],
    ) -> None:
        expression = arguments.get("x-apache-selector")
        super().__init__(tag, owner, acquires, Selector(str(expression)) if expression else None)
        self.connection = connection
        self.is_scheduled = False
        self.target = target
        self.queue = queue
        self.is_explicit = is_explicit
        self.is_exclusive = is_exclusive
        self.is_enabled = True
        self.delivered = 0
        frequency = arguments.get("qpid.sync_frequency")
        self.sync_frequency = frequency if isinstance(frequency, int) and frequency > 0 else 0
        self.block()

    def block(self) -> None:
        """Stop for want of credit; the session remembers whom to wake."""
        self.is_blocked = True
        self.target.blocked.add(self.name)

    def notify(self) -> None:
        """Ask for a turn, unless the session is closing (RF-14)."""
        if self.is_enabled:
            self.connection.schedule(self)

    def wake_for_credit(self) -> None:
        """Ask for a turn if it was credit that was missing (RF-08)."""
        if self.is_blocked:
            self.is_blocked = False
            self.notify()

    def dispatch(self) -> bool:
        """Try to send one message when it is this subscription's turn; return whether one was sent."""
        try:
            return self.is_enabled and self.send_next()
        except SessionException as error:
            self.target.fail(error)
            return False

    def send_next(self) -> bool:
        """Try to send one message (RF-07); return whether one was sent.

        Raises
        ------
        ResourceDeletedException
            408, if the queue is gone (CN-18).
        """
        message = get_next_message(self.queue, self)
        if message is None:
            return False
        self.delivered += 1
        self.target.deliver(self, message)
        if self.sync_frequency and not self.delivered % self.sync_frequency:
            # All that can be seen of the broker's sync is that it has a number of its own.
            self.target.send_command()
        return True

    def flush(self) -> None:
        """Send while there are credit and messages, then take the credit away (RF-08)."""
        while self.credit.exists():
            if not self.send_next():
                break
        else:
            self.block()
        self.credit.stop()

    def record(self, number: int, message: QueuedMessage) -> DeliveryRecord:
        """Make the record of a delivery, and charge the credit for it."""
        credit = self.credit
        credit.delivered(message.transfer.size)
        return DeliveryRecord(
            number,
            message,
            self.queue,
            self.name,
            self.acquires,
            credit.mode == WINDOW_MODE,
            not self.is_explicit,
        )

    def statistics(self) -> SubscriptionStatistics:
        """Return what management shows of the subscription."""
        return SubscriptionStatistics(
            name=self.name,
            queue=self.queue.name,
            browsing=not self.acquires,
            acknowledged=self.is_explicit,
            exclusive=self.is_exclusive,
            creditMode="WINDOW" if self.credit.mode == WINDOW_MODE else "CREDIT",
            delivered=self.delivered,
        )
