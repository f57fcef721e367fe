"""QueuedMessage: one message on one queue, and the state it is in there.

QueueObserver: what flow control, groups and alerts have in common.

A queue calls its observers in the order of registration: groups, alerts, flow limit
(rules.md#order-of-events).  That is why neither the queue nor its store knows a word about them.
"""

from __future__ import annotations

from typing import Final

from qflow.broker.message import HeaderValue
from qflow.broker.restorable import Restorable
from qflow.broker.transfer import Transfer

AVAILABLE: Final = 0
ACQUIRED: Final = 1
REMOVED: Final = 2


class QueuedMessage(Restorable):
    """A copy of a transferred message at a position of a queue.

    ``position`` counts from 1 and is never used again (QT-20).  ``delivery_count`` starts at -1
    and grows with each acquiring delivery; above 0 a delivery is flagged redelivered (CN-15).

    Examples
    --------
    >>> from qflow.broker.message import Message
    >>> first = QueuedMessage(Transfer(None, 0, Message(100), 112, "p1-1"), 1)
    >>> first.state == AVAILABLE, first.redelivered
    (True, False)
    """

    __slots__ = ("transfer", "position", "state", "delivery_count", "group", "annotations")

    def __init__(self, transfer: Transfer, position: int, delivery_count: int = -1) -> None:
        self.transfer = transfer
        self.position = position
        self.state = AVAILABLE
        self.delivery_count = delivery_count
        self.group = ""
        self.annotations: dict[str, HeaderValue] | None = None

    @property
    def redelivered(self) -> bool:
        """Whether somebody has had this message before."""
        return self.delivery_count > 0

    def annotate(self, key: str, value: HeaderValue) -> None:
        """Add what the queue tells consumers beside the message's own headers (QT-15); not counted."""
        if self.annotations is None:
            self.annotations = {}
        self.annotations[key] = value

    def headers(self) -> dict[str, HeaderValue]:
        """Return the application headers as a consumer sees them, annotations included."""
        transfer = self.transfer
        return {
            **(transfer.message.headers or {}),
            **(transfer.annotations or {}),
            **(self.annotations or {}),
        }

    def __repr__(self) -> str:
        state = ("AVAILABLE", "ACQUIRED", "REMOVED")[self.state]
        return f"QueuedMessage({self.transfer.label!r}, position={self.position}, {state})"


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
