"""QueueUsers: how many read a queue, and whether one of them wants it for itself (CN-02)."""

from __future__ import annotations

from qflow.broker.consumer import Consumer
from qflow.broker.restorable import Restorable


class QueueUsers(Restorable):
    """Counts the subscriptions of one queue; browsers do not stand in anybody's way.

    ``owner_connection`` and ``consumer_connection`` are those of the queue's exclusive owner and of
    its exclusive consumer, "" where there is none; a no-local queue does not want what comes from
    them (QT-17).
    """

    __slots__ = ("consumers", "browsers", "has_exclusive_consumer", "owner_connection", "consumer_connection")

    def __init__(self) -> None:
        self.consumers = 0
        self.browsers = 0
        self.has_exclusive_consumer = False
        self.owner_connection = ""
        self.consumer_connection = ""

    @property
    def total(self) -> int:
        """Consumers and browsers."""
        return self.consumers + self.browsers

    def add(self, consumer: Consumer, is_exclusive: bool, connection: str) -> None:
        """Count a new subscription."""
        if not consumer.acquires:
            self.browsers += 1
            return
        self.consumers += 1
        self.has_exclusive_consumer = is_exclusive
        self.consumer_connection = connection if is_exclusive else ""

    def is_local(self, connection: str) -> bool:
        """Return whether a connection is the exclusive owner's or the exclusive consumer's (RF-24)."""
        return bool(connection) and connection in (self.owner_connection, self.consumer_connection)

    def remove(self, consumer: Consumer) -> None:
        """Count a subscription less; it is the exclusive one, if there is one at all."""
        if consumer.acquires:
            self.consumers -= 1
            self.has_exclusive_consumer = False
            self.consumer_connection = ""
        else:
            self.browsers -= 1
