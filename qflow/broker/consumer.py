"""Consumer: what a queue knows of a subscription, and the list of those that wait (CN-19).

Credit: how much a subscription may be sent, in messages and bytes (CN-04 … CN-07, RF-09).

QueueUsers: how many read a queue, and whether one of them wants it for itself (CN-02).
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from qflow.broker.restorable import Restorable
from qflow.broker.selector import Selector
from qflow.broker.stores import QueueCursor

INFINITE: Final = 0xFFFFFFFF
_MODULUS: Final = 1 << 32

MESSAGE_UNIT: Final = 0
BYTE_UNIT: Final = 1
CREDIT_MODE: Final = 0
WINDOW_MODE: Final = 1


class Balance(Restorable):
    """Credit in one unit.  ``used`` stays 0 in credit mode, where credit is spent for good.

    The arithmetic is that of the broker's 32-bit integers: deliveries made while infinite and
    completed after a finite grant make ``used`` wrap below zero, which enlarges the window (RF-09).

    Examples
    --------
    >>> balance = Balance()
    >>> balance.grant(5); balance.allows(5), balance.allows(6)
    (True, False)
    >>> balance.grant(INFINITE); balance.allows(10**9)
    True
    """

    __slots__ = ("granted", "used")

    def __init__(self) -> None:
        self.granted = 0
        self.used = 0

    def grant(self, amount: int) -> None:
        """Add credit; 0xFFFFFFFF means infinite and sticks, other sums stop just below it (CN-04)."""
        if amount == INFINITE:
            self.granted = INFINITE
        elif self.granted != INFINITE:
            self.granted = min(self.granted + amount, INFINITE - 1)

    def allows(self, need: int) -> bool:
        """Return whether ``need`` more fits."""
        return self.granted == INFINITE or self.granted >= (self.used + need) % _MODULUS

    def spend(self, amount: int) -> None:
        """Take credit for good (credit mode)."""
        if self.granted != INFINITE:
            self.granted -= amount

    def occupy(self, amount: int) -> None:
        """Take room in the window until :meth:`vacate` (window mode)."""
        if self.granted != INFINITE:
            self.used = (self.used + amount) % _MODULUS

    def vacate(self, amount: int) -> None:
        """Give room back."""
        if self.granted != INFINITE:
            self.used = (self.used - amount) % _MODULUS


class Credit(Restorable):
    """A subscription's four balances: messages and bytes, for each of the two modes (CN-04).

    A new subscription is in window mode with no credit at all (CN-03).

    Attributes
    ----------
    mode : int
        :data:`CREDIT_MODE` or :data:`WINDOW_MODE`.
    messages, volume : Balance
        Those of the current mode; those of the other one lie aside.
    """

    __slots__ = ("mode", "messages", "volume", "_other_messages", "_other_volume")

    def __init__(self) -> None:
        self.mode: int = WINDOW_MODE
        self.messages = Balance()
        self.volume = Balance()
        self._other_messages = Balance()
        self._other_volume = Balance()

    def change_mode(self, mode: int) -> None:
        """Let the balances of this mode count from now on."""
        if mode != self.mode:
            self.mode = mode
            self.messages, self._other_messages = self._other_messages, self.messages
            self.volume, self._other_volume = self._other_volume, self.volume

    def balance(self, unit: int) -> Balance:
        """Return the balance of a unit in the current mode."""
        return self.messages if unit == MESSAGE_UNIT else self.volume

    def grant(self, unit: int, amount: int) -> None:
        """Add credit of one unit to the current mode."""
        self.balance(unit).grant(amount)

    def stop(self) -> None:
        """Clear both balances of the current mode; what the window holds stays counted (CN-07)."""
        self.messages.granted = 0
        self.volume.granted = 0

    def allows(self, size: int) -> bool:
        """Return whether one message of ``size`` bytes may be sent (CN-05)."""
        return self.messages.allows(1) and self.volume.allows(size)

    def exists(self) -> bool:
        """Return whether there is any credit: one message and one byte (RF-07)."""
        return self.messages.allows(1) and self.volume.allows(1)

    def delivered(self, size: int) -> None:
        """Charge one message to the current mode."""
        if self.mode == WINDOW_MODE:
            self.messages.occupy(1)
            self.volume.occupy(size)
        else:
            self.messages.spend(1)
            self.volume.spend(size)

    def completed(self, size: int) -> None:
        """Move the window on, if that is the mode *now* (RF-04)."""
        if self.mode == WINDOW_MODE:
            self.messages.vacate(1)
            self.volume.vacate(size)


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


class QueueUsers(Restorable):
    """Counts the subscriptions of one queue; browsers do not stand in anybody's way.

    ``owner_connection`` and ``consumer_connection`` are those of the queue's exclusive owner and of
    its exclusive consumer, "" where there is none; a no-local queue does not want what comes from
    them (QT-17).
    """

    __slots__ = ("consumers", "browsers", "has_exclusive_consumer", "owner_connection", "consumer_connection")

    def __init__(self) -> None:
        self.consumers = 0
        self.browsers = 0
        self.has_exclusive_consumer = False
        self.owner_connection = ""
        self.consumer_connection = ""

    @property
    def total(self) -> int:
        """Consumers and browsers."""
        return self.consumers + self.browsers

    def add(self, consumer: Consumer, is_exclusive: bool, connection: str) -> None:
        """Count a new subscription."""
        if not consumer.acquires:
            self.browsers += 1
            return
        self.consumers += 1
        self.has_exclusive_consumer = is_exclusive
        self.consumer_connection = connection if is_exclusive else ""

    def is_local(self, connection: str) -> bool:
        """Return whether a connection is the exclusive owner's or the exclusive consumer's (RF-24)."""
        return bool(connection) and connection in (self.owner_connection, self.consumer_connection)

    def remove(self, consumer: Consumer) -> None:
        """Count a subscription less; it is the exclusive one, if there is one at all."""
        if consumer.acquires:
            self.consumers -= 1
            self.has_exclusive_consumer = False
            self.consumer_connection = ""
        else:
            self.browsers -= 1
