"""Statistics of a broker and its parts, under their QMF names.

A queue counts in :class:`qflow.broker.queue.QueueCounters`; its method ``statistics()``, like those of other
objects, returns a frozen record of the present values.

Rules: CF-09, CF-10, CM-15.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueStatistics:
    """Statistics of a queue; ``msgDepth`` includes acquired messages, ``messageCount`` does not (DQ-01)."""

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
    """Statistics of an exchange: receives count messages, routes count copies for queues (EX-08)."""

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
    """Statistics of a binding: ``msgMatched`` is the number of messages that matched it."""

    exchange: str
    queue: str
    key: str
    msgMatched: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionStatistics:
    """Statistics of a subscription."""

    name: str
    queue: str
    browsing: bool
    acknowledged: bool
    exclusive: bool
    creditMode: str
    delivered: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionStatistics:
    """Statistics of a session; ``TxnCount`` is the number of all commits and rollbacks (IN-03, RF-39)."""

    name: str
    unackedMessages: int
    TxnStarts: int
    TxnCommits: int
    TxnRejects: int
    TxnCount: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectionStatistics:
    """Statistics of a connection: messages, bytes and frames in each direction (CF-10)."""

    name: str
    msgsFromClient: int
    msgsToClient: int
    bytesFromClient: int
    bytesToClient: int
    framesFromClient: int
    framesToClient: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerStatistics:
    """Statistics of a broker: ``totals`` includes deleted queues, the depths only existing ones (CF-10)."""

    queueCount: int
    msgDepth: int
    byteDepth: int
    discardsNoRoute: int
    abandoned: int
    abandonedViaAlt: int
    totals: dict[str, int]
