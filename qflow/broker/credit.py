"""Credit: how much a subscription may be sent, in messages and bytes (CN-04 … CN-07, RF-09)."""

from __future__ import annotations

from typing import Final

INFINITE: Final = 0xFFFFFFFF
_MODULUS: Final = 1 << 32

MESSAGE_UNIT: Final = 0
BYTE_UNIT: Final = 1
CREDIT_MODE: Final = 0
WINDOW_MODE: Final = 1


class Balance:
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


class Credit:
    """A subscription's four balances: messages and bytes, for each of the two modes (CN-04).

    A new subscription is in window mode with no credit at all (CN-03).
    """

    __slots__ = ("mode", "_balances")

    def __init__(self) -> None:
        self.mode = WINDOW_MODE
        self._balances = ((Balance(), Balance()), (Balance(), Balance()))

    def balance(self, unit: int) -> Balance:
        """Return the balance of a unit in the current mode."""
        return self._balances[self.mode][unit]

    def grant(self, unit: int, amount: int) -> None:
        """Add credit of one unit to the current mode."""
        self._balances[self.mode][unit].grant(amount)

    def stop(self) -> None:
        """Clear both balances of the current mode; what the window holds stays counted (CN-07)."""
        for balance in self._balances[self.mode]:
            balance.granted = 0

    def allows(self, size: int) -> bool:
        """Return whether one message of ``size`` bytes may be sent (CN-05); of 1, whether any (RF-07)."""
        messages, volume = self._balances[self.mode]
        return messages.allows(1) and volume.allows(size)

    @property
    def has_any_bytes(self) -> bool:
        """Whether a message may have any size."""
        return self._balances[self.mode][BYTE_UNIT].granted == INFINITE

    def delivered(self, size: int) -> None:
        """Charge one message to the current mode."""
        messages, volume = self._balances[self.mode]
        if self.mode == WINDOW_MODE:
            messages.occupy(1)
            volume.occupy(size)
        else:
            messages.spend(1)
            volume.spend(size)

    def completed(self, size: int) -> None:
        """Move the window on, if that is the mode *now* (RF-04)."""
        if self.mode == WINDOW_MODE:
            messages, volume = self._balances[WINDOW_MODE]
            messages.vacate(1)
            volume.vacate(size)
