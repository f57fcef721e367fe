"""Consumer: what a queue knows of a subscription, and the list of those that wait (CN-19)."""

from __future__ import annotations

from collections import OrderedDict

from qflow.broker.credit import Credit
from qflow.broker.cursor import QueueCursor
from qflow.broker.restorable import Restorable
from qflow.broker.selector import Selector


class Consumer(Restorable):
    """One reader of a queue: an acquiring consumer, or a browser.

    Attributes
    ----------
    name : str
        The subscription's tag.
    owner : str
        Under which message groups are owned (MG-15).
    is_blocked : bool
        Stopped for want of credit: a grant wakes it, an event on the queue does not (RF-08).
    is_listening : bool
        Stands in the queue's waiting list: an event wakes it, a grant does not.
    """

    __slots__ = ("name", "owner", "acquires", "cursor", "credit", "selector", "is_blocked", "is_listening")

    def __init__(self, name: str, owner: str, acquires: bool, selector: Selector | None = None) -> None:
        self.name = name
        self.owner = owner
        self.acquires = acquires
        self.cursor = QueueCursor(acquires)
        self.credit = Credit()
        self.selector = selector
        self.is_blocked = True
        self.is_listening = False

    def block(self) -> None:
        """Stop for want of credit."""
        self.is_blocked = True

    def notify(self) -> None:
        """Ask to be served when output is made next."""
        raise NotImplementedError


class NotificationSet(Restorable):
    """Who is to be woken: at most one consumer, and browsers (RF-06)."""

    __slots__ = ("consumer", "browsers")

    def __init__(self) -> None:
        self.consumer: Consumer | None = None
        self.browsers: tuple[Consumer, ...] = ()

    def notify(self) -> None:
        """Wake the consumer first, then the browsers, in list order."""
        if self.consumer is not None:
            self.consumer.notify()
        for browser in self.browsers:
            browser.notify()


class QueueListeners(Restorable):
    """The idle readers of one queue: consumers first come, first served, and browsers.

    Lay it beside ``QueueListeners.cpp``.
    """

    __slots__ = ("_consumers", "_browsers", "count")

    def __init__(self) -> None:
        self.count = 0
        self._consumers: OrderedDict[Consumer, None] = OrderedDict()
        self._browsers: OrderedDict[Consumer, None] = OrderedDict()

    def add(self, consumer: Consumer) -> None:
        """Put a reader at the end of its list, unless it stands there already."""
        if not consumer.is_listening:
            consumer.is_listening = True
            self.count += 1
            (self._consumers if consumer.acquires else self._browsers)[consumer] = None

    def remove(self, consumer: Consumer) -> None:
        """Take a reader off its list."""
        if consumer.is_listening:
            consumer.is_listening = False
            self.count -= 1
            del (self._consumers if consumer.acquires else self._browsers)[consumer]

    def populate(self, wake: NotificationSet) -> None:
        """Take the first consumer and all browsers off the lists, to be woken.

        Whoever an earlier call put into ``wake`` is forgotten when somebody replaces it: the
        broker strands it, in neither list (RF-07b).
        """
        if self._consumers:
            consumer, _ = self._consumers.popitem(False)
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
        """Notify everybody and leave them in the lists: the queue is being deleted (RF-15)."""
        for consumer in (*self._consumers, *self._browsers):
            consumer.notify()
