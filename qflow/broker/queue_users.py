"""QueueUsers: how many read a queue, and whether one of them wants it for itself (CN-02)."""

from __future__ import annotations

from qflow.broker.consumer import Consumer


class QueueUsers:
    """Counts the subscriptions of one queue; browsers do not stand in anybody's way.

    ``local_connection`` is the connection whose own messages a no-local queue does not want: that
    of its exclusive owner or of its exclusive consumer (QT-17).
    """

    __slots__ = ("consumers", "browsers", "has_exclusive_consumer", "local_connection")

    def __init__(self) -> None:
        self.consumers = 0
        self.browsers = 0
        self.has_exclusive_consumer = False
        self.local_connection = ""

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
        if is_exclusive:
            self.local_connection = connection

    def remove(self, consumer: Consumer) -> None:
        """Count a subscription less; it is the exclusive one, if there is one at all."""
        if consumer.acquires:
            self.consumers -= 1
            self.has_exclusive_consumer = False
        else:
            self.browsers -= 1
