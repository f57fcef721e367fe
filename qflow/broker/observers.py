"""QueueObserver: what flow control, groups and alerts have in common.

A queue calls its observers in the order of registration: groups, alerts, flow limit (rule book,
section 0).  That is why neither the queue nor its store knows a word about them.
"""

from __future__ import annotations

from qflow.broker.queued_message import QueuedMessage
from qflow.broker.restorable import Restorable


class QueueObserver(Restorable):
    """Sees the four things that can happen to a message on a queue."""

    __slots__ = ()

    def enqueued(self, message: QueuedMessage) -> None:
        """Take note of a message that is now on the queue."""

    def acquired(self, message: QueuedMessage) -> None:
        """Take note of a message that now belongs to a consumer."""

    def requeued(self, message: QueuedMessage) -> None:
        """Take note of an acquired message that is available again."""

    def dequeued(self, message: QueuedMessage) -> None:
        """Take note of a message that leaves the queue."""
