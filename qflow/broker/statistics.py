"""Statistics, under the names QMF gives them (CF-09, CF-10, CM-15).

The broker counts in the mutable classes; ``statistics()`` hands out the frozen records.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

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


class QueueCounters:
    """What one queue counts; see :class:`QueueStatistics` for the meanings."""

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

    def enqueue(self, size: int, in_transaction: bool, is_durable: bool) -> None:
        """Count a message that came."""
        self.msgTotalEnqueues += 1
        self.byteTotalEnqueues += size
        if in_transaction:
            self.msgTxnEnqueues += 1
            self.byteTxnEnqueues += size
        if is_durable:
            self.msgPersistEnqueues += 1

    def dequeue(self, size: int, in_transaction: bool, is_durable: bool) -> None:
        """Count a message that went."""
        self.msgTotalDequeues += 1
        self.byteTotalDequeues += size
        if in_transaction:
            self.msgTxnDequeues += 1
            self.byteTxnDequeues += size
        if is_durable:
            self.msgPersistDequeues += 1

    def add(self, other: QueueCounters) -> None:
        """Add another queue's counts, for the broker's totals (CF-10)."""
        for name in COUNTER_NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def values(self) -> dict[str, int]:
        """Return the counts by their QMF names."""
        return {name: getattr(self, name) for name in COUNTER_NAMES}


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """One queue, as a management console shows it.

    ``msgDepth`` counts acquired messages too; ``messageCount`` is AMQP's ``queue.query``, which
    counts only those that nobody holds (DQ-01).
    """

    name: str
    msgTotalEnqueues: int
    byteTotalEnqueues: int
    msgTotalDequeues: int
    byteTotalDequeues: int
    msgTxnEnqueues: int
    byteTxnEnqueues: int
    msgTxnDequeues: int
    byteTxnDequeues: int
    msgPersistEnqueues: int
    msgPersistDequeues: int
    msgDepth: int
    byteDepth: int
    messageCount: int
    acquires: int
    releases: int
    discardsTtl: int
    discardsRing: int
    discardsLvq: int
    discardsOverflow: int
    discardsSubscriber: int
    discardsPurge: int
    reroutes: int
    consumerCount: int
    bindingCount: int
    flowStopped: bool
    flowStoppedCount: int
    redirectPeer: str = ""
    redirectSource: bool = False

    def asdict(self) -> dict[str, object]:
        """Return the record as a plain mapping."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeStatistics:
    """One exchange: routes count copies, receives count messages (EX-08)."""

    name: str
    type: str
    bindingCount: int
    msgReceives: int
    byteReceives: int
    msgDrops: int
    byteDrops: int
    msgRoutes: int
    byteRoutes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingStatistics:
    """One binding and how many messages matched it."""

    exchange: str
    queue: str
    key: str
    msgMatched: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionStatistics:
    """One subscription: who reads what, and how."""

    name: str
    queue: str
    browsing: bool
    acknowledged: bool
    exclusive: bool
    creditMode: str
    delivered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatistics:
    """One session; ``TxnCount`` only ever grows (IN-03)."""

    name: str
    unackedMessages: int
    TxnStarts: int
    TxnCommits: int
    TxnRejects: int
    TxnCount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatistics:
    """The broker's totals, over the queues it has and those it had."""

    queueCount: int
    discardsNoRoute: int
    abandoned: int
    abandonedViaAlt: int
    totals: dict[str, int]
