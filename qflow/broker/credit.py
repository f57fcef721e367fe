"""Credit: how much a subscription may be sent, in messages and bytes (CN-04 … CN-07, RF-09)."""

from __future__ import annotations

from typing import Final

from qflow.broker.restorable import Restorable

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
