"""The readers of a queue: consumers and browsers, the list in which they wait, and their number.

A :class:`QueueConsumer` is a reader as its queue sees it; its subclass
:class:`qflow.broker.consuming.Subscription` adds credit and a session.  The queue's
:class:`MessageDistributor` decides which message a reader may take; message groups are another distributor.
A reader that finds no message waits in the queue's :class:`QueueListeners`, from which each event on the
queue takes, and wakes, one consumer and all browsers (CN-19). Compare ``Consumer.h``, ``QueueListeners.cpp``
and ``MessageDistributor.h``.
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
    """A first-in, first-out queue, optimized for at most one item.

    >>> readers = Fifo(["c1", "c2", "c3"])
    >>> readers.remove("c2")
    >>> readers.take(), readers.count, list(readers)
    ('c1', 1, ['c3'])
    """

    __slots__ = ("count", "_first", "_others")

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self.count = 0
        self._first: Item | None = None
        # Removing from the front of a list moves all other items, which is cheap for the few readers of a
        # queue.
        self._others: list[Item] = []
        for item in items:
            self.add(item)

    def add(self, item: Item) -> None:
        """Add an item at the end."""
        if self.count:
            self._others.append(item)
        else:
            self._first = item
        self.count += 1

    def take(self) -> Item:
        """Remove and return the first item; raise IndexError if the queue is empty."""
        first = self._first
        if first is None:
            raise IndexError("take from an empty FIFO")
        self.count -= 1
        self._first = self._others.pop(0) if self.count else None
        return first

    def remove(self, item: Item) -> None:
        """Remove an item at any place; raise ValueError if it is not in the queue."""
        if item is self._first:
            self.take()
        else:
            self._others.remove(item)
            self.count -= 1

    def __iter__(self) -> Iterator[Item]:
        return iter([self._first, *self._others] if self._first is not None else [])


class QueueConsumer(Dependent):
    """A reader of a queue: a consumer, which acquires messages, or a browser."""

    __slots__ = ("name", "owner", "acquires", "cursor", "is_blocked", "is_listening")

    def __init__(self, name: str, owner: str, acquires: bool) -> None:
        self.name = name
        # The name under which it owns message groups (MG-15).
        self.owner = owner
        self.acquires = acquires
        self.cursor = QueueCursor(acquires)
        # Whether it waits for credit: a grant wakes it, an event on the queue does not (RF-08).
        self.is_blocked = True
        # Whether it waits in the queue's list: an event on the queue wakes it, a grant does not.
        self.is_listening = False

    def notify(self) -> None:
        """Wake the reader, so that it is served at the end of the present command."""
        raise NotImplementedError


class MessageDistributor(QueueObserver):
    """The rule for the messages that a consumer may take; this one allows every AVAILABLE message."""

    __slots__ = ("store",)

    def __init__(self, store: Messages) -> None:
        self.store = store

    def next(self, consumer: QueueConsumer, skips: bool) -> QueuedMessage | None:
        """Return the consumer's next candidate; with ``skips``, pass over messages that it may not take."""
        return self.store.next(consumer.cursor)

    def may_acquire(self, owner: str, message: QueuedMessage) -> bool:
        """Return whether ``owner`` may take the message, without changing anything."""
        return True

    def take(self, owner: str, message: QueuedMessage) -> bool:
        """Return whether ``owner`` may acquire the message, and record that it does."""
        return True


@mypyc_attr(free_list_len=1)
class NotificationSet(Restorable):
    """The readers that an event wakes: at most one consumer, and all browsers (RF-06)."""

    __slots__ = ("consumer", "browsers")

    def __init__(self) -> None:
        self.consumer: QueueConsumer | None = None
        self.browsers: tuple[QueueConsumer, ...] = ()

    def notify(self) -> None:
        """Wake the consumer first, and then the browsers in the order of their list."""
        if self.consumer is not None:
            self.consumer.notify()
        for browser in self.browsers:
            browser.notify()


class QueueListeners(Restorable):
    """The readers that wait for an event on a queue: a FIFO of consumers, and a list of browsers."""

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
        """Add a reader at the end of its list, unless the list already contains it."""
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
        """Move the first consumer and all browsers into ``wake``, and replace those in it (RF-07b)."""
        if self._consumers.count:
            # A consumer that was chosen before is replaced: it is no longer in the list and is not notified,
            # so it sleeps until another event.  The recordings show this fault of the real broker (RF-07b).
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
        """Remove the first consumer and all browsers from the lists, and return them (CN-19)."""
        chosen = NotificationSet()
        self.populate(chosen)
        return chosen

    def wake(self) -> None:
        """Remove the first consumer and all browsers from the lists, and notify them."""
        if self.count:
            self.take().notify()

    def notify_all(self) -> None:
        """Notify all readers of the deletion of the queue, without removing them from the lists (RF-15)."""
        # When they are served, each of them finds that the queue is deleted, and gets an error.
        for consumer in (*self._consumers, *self._browsers):
            consumer.notify()


class QueueUsers(Restorable):
    """The numbers of a queue's readers and links, and its exclusive owner and consumer (CN-02, QT-17)."""

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
        """The number of consumers and browsers."""
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
        """Count an AMQP 1.0 link that sends to the queue, or one that controls its lifetime (LNK-18)."""
        if is_controlling:
            self.controllers += 1
        else:
            self.senders += 1

    def leave(self, is_controlling: bool) -> None:
        """Remove an AMQP 1.0 link from the count."""
        if is_controlling:
            self.controllers -= 1
        else:
            self.senders -= 1

    def is_local(self, connection: str) -> bool:
        """Return whether a connection is that of the exclusive owner or the exclusive consumer (RF-24)."""
        return bool(connection) and connection in (self.owner_connection, self.consumer_connection)

    def remove(self, consumer: QueueConsumer) -> None:
        """Remove a subscription from the count, and its exclusiveness."""
        # A consumer that leaves is the exclusive one if there is one, as then it is the only consumer.
        if consumer.acquires:
            self.consumers -= 1
            self.has_exclusive_consumer = False
            self.consumer_connection = ""
        else:
            self.browsers -= 1
