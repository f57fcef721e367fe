"""SemanticState: a session's subscriptions, its deliveries and what is done with them.

Lay it beside ``SemanticState.cpp``.  Commands arrive here checked for form; here they meet the
queues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar, Final

from qflow.broker.command import CommandRunner
from qflow.broker.completions import KNOWN_COMPLETED_INTERVAL
from qflow.broker.context import BrokerContext
from qflow.broker.delivery import DeliveryRecord
from qflow.broker.errors import NotFoundException, SessionException
from qflow.broker.output import Connection
from qflow.broker.queued_message import QueuedMessage
from qflow.broker.subscription import DeliveryTarget, Subscription
from qflow.broker.tx import TxOperation

OnDelivery = Callable[[DeliveryRecord], None]

_DELIVERED: Final[tuple[str, ...]] = ("delivery", "position", "redelivered", "acquired", "mode")


class SemanticState(DeliveryTarget):
    """What a session consumes.

    Attributes
    ----------
    subscriptions : dict
        By tag.
    records : dict
        Deliveries the broker still remembers, by number, ascending (RF-03).
    unacked_messages : int
        The statistic as management shows it: refreshed by deliveries that are remembered, accept,
        release, reject, cancel and completion, not by commit (RF-25).
    on_delivery : callable or None
        The client's ear; called with each delivery.
    """

    VOLATILE: ClassVar[tuple[str, ...]] = ("on_delivery",)
    ONLY_COUNTS: ClassVar[bool] = True

    __slots__ = (
        "context",
        "session",
        "peer",
        "subscriptions",
        "records",
        "next_number",
        "unacked_messages",
        "on_delivery",
    )

    def __init__(
        self, context: BrokerContext, session: str, connection: Connection, peer: CommandRunner
    ) -> None:
        super().__init__(connection)
        self.context = context
        self.session = session
        self.peer = peer
        self.subscriptions: dict[str, Subscription] = {}
        self.records: dict[int, DeliveryRecord] = {}
        self.next_number = 0
        self.unacked_messages = 0
        self.on_delivery: OnDelivery | None = None

    def find(self, tag: str) -> Subscription:
        """Return the subscription with a tag.

        Raises
        ------
        NotFoundException
            404, if there is none (CN-02).
        """
        subscription = self.subscriptions.get(tag)
        if subscription is None:
            raise NotFoundException(f"Unknown destination {tag} session={self.session}")
        return subscription

    def add(self, subscription: Subscription) -> None:
        """Take note of a new subscription."""
        self.subscriptions[subscription.name] = subscription
        if self.context.observer is not None:
            self.context.emit("subscribe", subscription.queue.name, self.session, subscription.name)

    def _end(self, subscription: Subscription) -> None:
        if self.context.observer is not None:
            self.context.emit("unsubscribe", subscription.queue.name, self.session, subscription.name)
        subscription.queue.cancel(subscription)

    def send_command(self) -> int:
        """Return the number of the next command to the client.

        Before the first one (and every 65,536th) the broker asks what the client has completed; the
        client answers at once, which wakes blocked subscriptions (RF-05).
        """
        number = self.next_number
        if number % KNOWN_COMPLETED_INTERVAL == 0:
            self.connection.scheduler.expect_reply(self)
        self.next_number += 1
        return number

    def deliver(self, subscription: Subscription, message: QueuedMessage) -> None:
        """Send a message; with accept mode none an acquired one is dequeued now (CN-11)."""
        record = subscription.record(self.send_command(), message)
        if record.is_needed:
            self.records[record.id] = record
            self.unacked_messages = len(self.records)
        if self.context.observer is not None:
            self._emit_delivered(record)
        if record.is_ended and record.is_acquired:
            subscription.queue.dequeue(message, "accept-none")
        if self.on_delivery is not None:
            self.on_delivery(record)

    def fail(self, error: SessionException) -> None:
        """End the session: its consumer met an error (CN-18)."""
        self.peer.fail(error)

    def complete(self, numbers: Iterable[int]) -> None:
        """Take a client's ``session.completed``: windows move, and the blocked wake (RF-04)."""
        for number in numbers:
            record = self.records.get(number)
            if record is None:
                continue
            subscription = self.subscriptions.get(record.tag)
            if subscription is not None and not record.is_completed:
                record.is_completed = True
                subscription.credit.completed(record.message.transfer.size)
            if record.is_redundant:
                del self.records[number]
        self.unacked_messages = len(self.records)
        self.wake_blocked()

    def wake_blocked(self) -> None:
        """Wake every subscription that stopped for want of credit, by ascending tag (RF-04, RF-05)."""
        if self.blocked:
            tags, self.blocked = sorted(self.blocked), set()
            for tag in tags:
                subscription = self.subscriptions.get(tag)
                if subscription is not None:
                    subscription.wake_for_credit()

    def accept(self, numbers: Iterable[int], transaction: TxAccept | None = None) -> None:
        """Take responsibility for deliveries: now, or at commit (CN-13, CM-11)."""
        if transaction is not None:
            transaction.numbers.update(numbers)
        else:
            for number in _ascending(numbers):
                record = self.records.get(number)
                if record is not None:
                    record.accept()
                    self._sweep(record)
        self.unacked_messages = len(self.records)

    def release(self, numbers: Iterable[int], set_redelivered: bool) -> None:
        """Give deliveries back, each range last to first (RF-13)."""
        for first, last in _ranges(numbers):
            for number in range(last, first - 1, -1):
                record = self.records.get(number)
                if record is not None:
                    record.release(set_redelivered)
            self._sweep_range(first, last)
        self.unacked_messages = len(self.records)

    def reject(self, numbers: Iterable[int]) -> None:
        """Refuse deliveries (CN-16)."""
        for first, last in _ranges(numbers):
            for number in range(first, last + 1):
                record = self.records.get(number)
                if record is not None:
                    record.reject()
            self._sweep_range(first, last)
        self.unacked_messages = len(self.records)

    def acquire(self, numbers: Iterable[int]) -> list[int]:
        """Claim browsed deliveries; return those that were granted (RF-02)."""
        granted = [record.id for record in self._known(numbers) if record.acquire()]
        self.send_command()
        return granted

    def commit_accepts(self, numbers: set[int]) -> None:
        """Carry out the accepts of a transaction, in order of delivery (RF-22)."""
        for record in self._known(numbers):
            record.accept(in_transaction=True)
        if numbers:
            # One further than it should: so does the broker (RF-03, rnd-tx-064).
            self._sweep_range(min(numbers), max(numbers) + 1)

    def _known(self, numbers: Iterable[int]) -> list[DeliveryRecord]:
        return [self.records[number] for number in _ascending(numbers) if number in self.records]

    def cancel(self, subscription: Subscription) -> None:
        """End a subscription; what it holds stays acquired (CN-17)."""
        del self.subscriptions[subscription.name]
        self.connection.forget(subscription)
        for record in list(self.records.values()):
            if record.tag == subscription.name:
                record.is_cancelled = True
            self._sweep(record)
        subscription.is_enabled = False
        self._end(subscription)
        self.unacked_messages = len(self.records)

    def close(self) -> None:
        """End everything: disable, requeue last to first, cancel by ascending tag (CN-17, RF-14)."""
        for subscription in self.subscriptions.values():
            subscription.is_enabled = False
            self.connection.forget(subscription)
        for number in sorted(self.records, reverse=True):
            self.records[number].release(set_redelivered=True)
        self.records.clear()
        for tag in sorted(self.subscriptions):
            self._end(self.subscriptions.pop(tag))
        self.unacked_messages = 0

    def _sweep(self, record: DeliveryRecord) -> None:
        if record.is_redundant:
            self.records.pop(record.id, None)

    def _sweep_range(self, first: int, last: int) -> None:
        numbers: Iterable[int] = range(first, last + 1)
        if last - first > len(self.records):
            # The client may name any number, also one that never was.
            numbers = [number for number in self.records if first <= number <= last]
        for number in numbers:
            record = self.records.get(number)
            if record is not None:
                self._sweep(record)

    def _emit_delivered(self, record: DeliveryRecord) -> None:
        message, transfer = record.message, record.message.transfer
        mode = "window" if record.is_windowing else "credit"
        self.context.tell(
            "delivered",
            record.queue.name,
            self.session,
            link=record.tag,
            message=transfer.label,
            size=transfer.size,
            group=message.group,
            names=_DELIVERED,
            values=(record.id, message.position, record.redelivered, record.is_acquired, mode),
        )


class TxAccept(TxOperation):
    """The accepts of a transaction: one operation, the last of it (RF-22)."""

    __slots__ = ("state", "numbers")

    def __init__(self, state: SemanticState) -> None:
        self.state = state
        self.numbers: set[int] = set()

    def commit(self) -> None:
        """Carry the accepts out."""
        self.state.commit_accepts(self.numbers)


def _ascending(numbers: Iterable[int]) -> tuple[int, ...]:
    """Return numbers in order, each once."""
    if isinstance(numbers, tuple) and len(numbers) == 1:
        return numbers
    return tuple(sorted(set(numbers)))


def _ranges(numbers: Iterable[int]) -> list[tuple[int, int]]:
    """Return sorted numbers as closed ranges."""
    ranges: list[tuple[int, int]] = []
    for number in _ascending(numbers):
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges
