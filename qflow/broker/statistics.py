"""Statistics, under the names QMF gives them.

A queue counts in :class:`qflow.broker.queue.QueueCounters`; ``statistics()`` returns these frozen records.

Rules: CF-09, CF-10, CM-15.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """Statistics of one queue: ``msgDepth`` includes acquired messages, ``messageCount`` does not (DQ-01)."""

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
    bytePersistEnqueues: int
    bytePersistDequeues: int
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ExchangeStatistics:
    """Statistics of one exchange: routes count copies, receives count messages (EX-08)."""

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
    """Statistics of one subscription."""

    name: str
    queue: str
    browsing: bool
    acknowledged: bool
    exclusive: bool
    creditMode: str
    delivered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatistics:
    """Statistics of one session; ``TxnCount`` counts commits and rollbacks, never down (IN-03, RF-39)."""

    name: str
    unackedMessages: int
    TxnStarts: int
    TxnCommits: int
    TxnRejects: int
    TxnCount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStatistics:
    """Statistics of one connection: its messages, with their bytes and frames (CF-10)."""

    name: str
    msgsFromClient: int
    msgsToClient: int
    bytesFromClient: int
    bytesToClient: int
    framesFromClient: int
    framesToClient: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatistics:
    """The broker's totals, over existing and deleted queues; depths are of existing queues only."""

    queueCount: int
    msgDepth: int
    byteDepth: int
    discardsNoRoute: int
    abandoned: int
    abandonedViaAlt: int
    totals: dict[str, int]
