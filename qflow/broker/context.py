"""What every part of one broker shares: options, told time, the observer, broker-wide counts.

Timers: what is to happen at a told time, in order of time and then of asking.

QueueCounters: what a queue counts, under the names QMF gives it (CF-09).
"""

from __future__ import annotations

import heapq
from typing import Any, ClassVar

from qflow.broker.events import Detail, Event, Names, Observer, Values, packed, unpacked
from qflow.broker.options import BrokerOptions
from qflow.broker.restorable import Restorable
from qflow.broker.store import MessageStore, StoreListener
from qflow.broker.transfer import CommandOwner


class TimerTask(Restorable):
    """Something that is due at some time."""

    __slots__ = ()

    def fire(self, due: int) -> None:
        """Do it; ``due`` is the time for which it was scheduled, in microseconds."""
        raise NotImplementedError


class Timers(Restorable):
    """Tasks by due time; equal times keep the order in which they were scheduled.

    Examples
    --------
    >>> timers = Timers()
    >>> timers.schedule(20, TimerTask()); timers.schedule(10, TimerTask())
    >>> timers.next_due, timers.take(15)[0], timers.take(15)
    (10, 10, None)
    """

    __slots__ = ("_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, TimerTask]] = []
        self._sequence = 0

    @property
    def next_due(self) -> int | None:
        """When the first task is due, or None."""
        return self._heap[0][0] if self._heap else None

    def scheduled(self) -> list[tuple[int, TimerTask]]:
        """Return what is to happen and when, in order."""
        return [(due, task) for due, _, task in sorted(self._heap, key=lambda entry: entry[:2])]

    def schedule(self, due: int, task: TimerTask) -> None:
        """Add a task."""
        self._sequence += 1
        heapq.heappush(self._heap, (due, self._sequence, task))

    def take(self, until: int) -> tuple[int, TimerTask] | None:
        """Return the first task that is due by ``until``, and remove it; None if there is none."""
        if not self._heap or self._heap[0][0] > until:
            return None
        due, _, task = heapq.heappop(self._heap)
        return due, task


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


class BrokerContext(StoreListener):
    """The ground the parts stand on, so that a queue need not know the broker that owns it."""

    VOLATILE: ClassVar[tuple[str, ...]] = ("observer", "fresh", "stamp")
    """Attributes that are no part of the broker's state: a snapshot leaves them out."""

    __slots__ = (
        "options",
        "counts_content",
        "stamps_arrivals",
        "store",
        "timers",
        "now",
        "observer",
        "fresh",
        "stamp",
        "discardsNoRoute",
        "abandoned",
        "abandonedViaAlt",
        "retired",
        "reporters",
    )

    def __init__(self, options: BrokerOptions, store: MessageStore | None = None) -> None:
        self.options = options
        # What every transfer asks of the options.
        self.counts_content = options.message_size == "content"
        self.stamps_arrivals = options.enable_timestamp
        self.store = store or MessageStore()
        self.store.listener = self
        self.timers = Timers()
        self.now = 0
        self.observer: Observer | None = None
        # That of the observer, if it is a table of events.
        self.fresh: list[Any] | None = None
        # The time as events carry it: one object for all of an instant; compiled code would make many.
        self.stamp: object = self.now
        self.discardsNoRoute = 0
        self.abandoned = 0
        self.abandonedViaAlt = 0
        self.retired = QueueCounters()
        self.reporters: list[CommandOwner] = []

    def emit(
        self,
        kind: str,
        queue: str = "",
        session: str = "",
        link: str = "",
        message: str = "",
        size: int = 0,
        group: str = "",
        detail: Detail = None,
    ) -> None:
        """Tell the observer of one event.  Callers test ``observer`` first: no trace, no cost."""
        names, values = packed(detail)
        self.tell(kind, queue, session, link, message, size, group, names, values)

    def tell(
        self,
        kind: str,
        queue: str = "",
        session: str = "",
        link: str = "",
        message: str = "",
        size: int = 0,
        group: str = "",
        names: Names = None,
        values: Values = (),
    ) -> None:
        """Do what :meth:`emit` does, of what happens to every message: the detail as names and values."""
        fresh = self.fresh
        if fresh is not None:
            fresh += (self.stamp, kind, queue, session, link, message, size, group, names, values)
        elif self.observer is not None:
            row = (self.stamp, kind, queue, session, link, message, size, group, unpacked(names, values))
            # Half the time of Event(…): this runs ten times for each message of a traced run.
            self.observer(tuple.__new__(Event, row))

    def store_finishes(self, label: str) -> None:
        """Tell the observer of an answer of the store, which is a command to the broker (CM-12)."""
        if self.observer is not None:
            self.emit("store.finish", message=label, detail={"message": label})

    def schedule(self, due: int, task: TimerTask) -> None:
        """Let a task be done at a later time, in microseconds."""
        self.timers.schedule(due, task)

    def destroy_queue(self, name: str, reason: str) -> None:
        """Unbind, unregister and empty a queue; the broker does it."""
        raise NotImplementedError
