"""The readers of a queue: their cursors, the waiting list, and their number.

A :class:`QueueConsumer` is one reader; what it is beyond that (its credit, its session) is
:class:`qflow.broker.consuming.Subscription`.  The queue's :class:`MessageDistributor` says which message it
may have; message groups are another distributor.  A reader that finds nothing waits in the
:class:`QueueListeners`, from which every event on the queue takes one consumer and all browsers (CN-19).
Compare ``Consumer.h``, ``QueueListeners.cpp`` and ``MessageDistributor.h``.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import ClassVar, Generic, TypeVar

from qflow.broker.message import QueuedMessage, QueueObserver
from qflow.broker.restorable import Containers, Dependent, Restorable
from qflow.broker.snapshot import mypyc_attr
from qflow.broker.stores import Messages, QueueCursor

Item = TypeVar("Item")


class Fifo(Restorable, Generic[Item]):
    """Items in the order of addition; usually one of them, or none.

    >>> readers = Fifo(["c1", "c2", "c3"])
    >>> readers.remove("c2")
    >>> readers.take(), readers.count, list(readers)
    ('c1', 1, ['c3'])
    """

    __slots__ = ("count", "_first", "_others")

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self.count = 0
        self._first: Item | None = None
        # Taking from its front moves all that follow; for as many readers as a queue has, that is little.
        self._others: list[Item] = []
        for item in items:
            self.add(item)

    def add(self, item: Item) -> None:
        """Put an item at the end."""
        if self.count:
            self._others.append(item)
        else:
            self._first = item
        self.count += 1

    def take(self) -> Item:
        """Remove and return the first item; IndexError from an empty one."""
        first = self._first
        if first is None:
            raise IndexError("take from an empty FIFO")
        self.count -= 1
        self._first = self._others.pop(0) if self.count else None
        return first

    def remove(self, item: Item) -> None:
        """Remove an item, wherever it is; ValueError if it is not there."""
        if item is self._first:
            self.take()
        else:
            self._others.remove(item)
            self.count -= 1

    def __iter__(self) -> Iterator[Item]:
        return iter([self._first, *self._others] if self._first is not None else [])


class QueueConsumer(Dependent):
    """One reader of a queue: an acquiring consumer, or a browser."""

    __slots__ = ("name", "owner", "acquires", "cursor", "is_blocked", "is_listening")

    def __init__(self, name: str, owner: str, acquires: bool) -> None:
        self.name = name
        # The name under which it owns message groups (MG-15).
        self.owner = owner
        self.acquires = acquires
        self.cursor = QueueCursor(acquires)
        # For want of credit: a grant wakes it, an event on the queue does not (RF-08).
        self.is_blocked = True
        # In the queue's list: an event wakes it, a grant does not.
        self.is_listening = False

    def notify(self) -> None:
        """Ask to be served at the next output."""
        raise NotImplementedError


class MessageDistributor(QueueObserver):
    """A rule for the AVAILABLE messages that a consumer may take; a plain queue's allows all."""

    __slots__ = ("store",)

    def __init__(self, store: Messages) -> None:
        self.store = store

    def next(self, consumer: QueueConsumer, skips: bool) -> QueuedMessage | None:
        """Return a consumer's next message; with ``skips``, skip those that it may not take."""
        return self.store.next(consumer.cursor)

    def may_acquire(self, owner: str, message: QueuedMessage) -> bool:
        """Return whether ``owner`` may take the message, without changing anything."""
        return True

    def take(self, owner: str, message: QueuedMessage) -> bool:
        """Let ``owner`` acquire the message, or return False."""
        return True


@mypyc_attr(free_list_len=1)
class NotificationSet(Restorable):
    """The readers that an event wakes: at most one consumer, and all browsers (RF-06)."""

    __slots__ = ("consumer", "browsers")

    def __init__(self) -> None:
        self.consumer: QueueConsumer | None = None
        self.browsers: tuple[QueueConsumer, ...] = ()

    def notify(self) -> None:
        """Wake the consumer first, then the browsers, in list order."""
        if self.consumer is not None:
            self.consumer.notify()
        for browser in self.browsers:
            browser.notify()


class QueueListeners(Restorable):
    """The idle readers of one queue: consumers first come, first served, and browsers."""

    WRITTEN_AS: ClassVar[Containers] = {
        "_consumers": (OrderedDict.fromkeys, Fifo),
        "_browsers": (OrderedDict.fromkeys, list),
    }

    __slots__ = ("_consumers", "_browsers", "count")

    def __init__(self) -> None:
        self.count = 0
        self._consumers: Fifo[QueueConsumer] = Fifo()
        self._browsers: list[QueueConsumer] = []

    def add(self, consumer: QueueConsumer) -> None:
        """Add a reader at the end of its list, unless it is already in it."""
        if not consumer.is_listening:
            consumer.is_listening = True
            self.count += 1
            if consumer.acquires:
                self._consumers.add(consumer)
            else:
                self._browsers.append(consumer)

    def remove(self, consumer: QueueConsumer) -> None:
        """Remove a reader from its list."""
        if consumer.is_listening:
            consumer.is_listening = False
            self.count -= 1
            if consumer.acquires:
                self._consumers.remove(consumer)
            else:
                self._browsers.remove(consumer)

    def populate(self, wake: NotificationSet) -> None:
        """Take the first consumer and all browsers to wake; one replaced there is stranded (RF-07b)."""
        if self._consumers.count:
            # The consumer chosen before, if there is one, is off the list and will not be notified: it sleeps
            # until something else happens.  That is a fault of the real broker, and recorded (RF-07b).
            consumer = self._consumers.take()
            consumer.is_listening = False
            wake.consumer = consumer
            self.count -= 1
        if self._browsers:
            wake.browsers = tuple(self._browsers)
            self._browsers.clear()
            self.count -= len(wake.browsers)
            for browser in wake.browsers:
                browser.is_listening = False
        elif wake.browsers:
            wake.browsers = ()

    def take(self) -> NotificationSet:
        """Take the first consumer and all browsers, to notify them: one event (CN-19)."""
        chosen = NotificationSet()
        self.populate(chosen)
        return chosen

    def wake(self) -> None:
        """Take the first consumer and all browsers, and notify them now."""
        if self.count:
            self.take().notify()

    def notify_all(self) -> None:
        """Notify all readers and leave them in the lists: the queue is being deleted (RF-15)."""
        # Left in the lists, they find at their turn that the queue is gone, each with an error of its own.
        for consumer in (*self._consumers, *self._browsers):
            consumer.notify()


class QueueUsers(Restorable):
    """Counts one queue's subscriptions, and keeps its exclusive owner and consumer (CN-02, QT-17)."""

    __slots__ = (
        "consumers", "browsers", "has_exclusive_consumer", "owner_connection", "consumer_connection",
        "senders", "controllers",
    )  # fmt: skip

    def __init__(self) -> None:
        self.consumers = 0
        self.browsers = 0
        self.has_exclusive_consumer = False
        self.owner_connection = ""
        self.consumer_connection = ""
        self.senders = 0
        self.controllers = 0

    @property
    def total(self) -> int:
        """Consumers and browsers."""
        return self.consumers + self.browsers

    def add(self, consumer: QueueConsumer, is_exclusive: bool, connection: str) -> None:
        """Count a new subscription."""
        if not consumer.acquires:
            self.browsers += 1
            return
        self.consumers += 1
        self.has_exclusive_consumer = is_exclusive
        self.consumer_connection = connection if is_exclusive else ""

    def enter(self, is_controlling: bool) -> None:
        """Count a link of AMQP 1.0: a sender, or one whose end is the queue's, too (LNK-18)."""
        if is_controlling:
            self.controllers += 1
        else:
            self.senders += 1

    def leave(self, is_controlling: bool) -> None:
        """Remove a counted link."""
        if is_controlling:
            self.controllers -= 1
        else:
            self.senders -= 1

    def is_local(self, connection: str) -> bool:
        """Return whether a connection is the exclusive owner's or the exclusive consumer's (RF-24)."""
        return bool(connection) and connection in (self.owner_connection, self.consumer_connection)

    def remove(self, consumer: QueueConsumer) -> None:
        """Forget a subscription; where there is an exclusive one, no other consumer is."""
        if consumer.acquires:
            self.consumers -= 1
            self.has_exclusive_consumer = False
            self.consumer_connection = ""
        else:
            self.browsers -= 1
