"""The constants of ``qpid.messaging``: capacities, dispositions, ports."""

from __future__ import annotations

AMQP_PORT = 5672
AMQPS_PORT = 5671


class Constant:
    """A name that stands for itself; copies of it are the very same object.

    Examples
    --------
    >>> import copy
    >>> UNLIMITED, copy.deepcopy(UNLIMITED) is UNLIMITED
    (UNLIMITED, True)
    """

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: int | None = None) -> None:
        self.name = name
        self.value: object = self if value is None else value

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return self.name


UNLIMITED = Constant("UNLIMITED", 0xFFFFFFFF)
"""Capacity without a bound: a sender never waits, a receiver prefetches all there is."""

REJECTED = Constant("REJECTED")
"""Disposition: the message is refused, and goes to the alternate exchange if there is one (CN-16)."""

RELEASED = Constant("RELEASED")
"""Disposition: the message is given back to its queue (CN-14)."""

__all__ = ["AMQPS_PORT", "AMQP_PORT", "REJECTED", "RELEASED", "UNLIMITED", "Constant"]
