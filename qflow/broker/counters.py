"""QueueCounters: what a queue counts, under the names QMF gives it (CF-09)."""

from __future__ import annotations

from typing import ClassVar

from qflow.broker.restorable import Restorable

COUNTER_NAMES: tuple[str, ...] = (
    "msgTotalEnqueues",
    "byteTotalEnqueues",
    "msgTotalDequeues",
    "byteTotalDequeues",
    "msgTxnEnqueues",
    "byteTxnEnqueues",
    "msgTxnDequeues",
    "byteTxnDequeues",
    "msgPersistEnqueues",
    "msgPersistDequeues",
    "acquires",
    "releases",
    "discardsTtl",
    "discardsRing",
    "discardsLvq",
    "discardsOverflow",
    "discardsSubscriber",
    "discardsPurge",
    "reroutes",
)


class QueueCounters(Restorable):
    """What one queue counts; see :class:`~qflow.broker.statistics.QueueStatistics` for the meanings."""

    ONLY_COUNTS: ClassVar[bool] = True

    __slots__ = COUNTER_NAMES

    def __init__(self) -> None:
        self.msgTotalEnqueues = 0
        self.byteTotalEnqueues = 0
        self.msgTotalDequeues = 0
        self.byteTotalDequeues = 0
        self.msgTxnEnqueues = 0
        self.byteTxnEnqueues = 0
        self.msgTxnDequeues = 0
        self.byteTxnDequeues = 0
        self.msgPersistEnqueues = 0
        self.msgPersistDequeues = 0
        self.acquires = 0
        self.releases = 0
        self.discardsTtl = 0
        self.discardsRing = 0
        self.discardsLvq = 0
        self.discardsOverflow = 0
        self.discardsSubscriber = 0
        self.discardsPurge = 0
        self.reroutes = 0

    def enqueue(self, size: int, in_transaction: bool) -> None:
        """Count a message that came."""
        self.msgTotalEnqueues += 1
        self.byteTotalEnqueues += size
        if in_transaction:
            self.msgTxnEnqueues += 1
            self.byteTxnEnqueues += size

    def dequeue(self, size: int, in_transaction: bool) -> None:
        """Count a message that went."""
        self.msgTotalDequeues += 1
        self.byteTotalDequeues += size
        if in_transaction:
            self.msgTxnDequeues += 1
            self.byteTxnDequeues += size

    def depth(self) -> tuple[int, int]:
        """Return messages and bytes that came and have not gone."""
        messages = self.msgTotalEnqueues - self.msgTotalDequeues
        return messages, self.byteTotalEnqueues - self.byteTotalDequeues

    def add(self, other: QueueCounters) -> None:
        """Add another queue's counts, for the broker's totals (CF-10)."""
        for name in COUNTER_NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def values(self) -> dict[str, int]:
        """Return the counts by their QMF names."""
        return {name: getattr(self, name) for name in COUNTER_NAMES}
