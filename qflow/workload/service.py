"""How long a consumer works on a message, and what it does with it then."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from qflow.workload.agenda import SECOND
from qflow.workload.clients import Consumer


class Service:
    """A consumer's chance: one service time and one verdict for each message, in turn.

    Parameters
    ----------
    consumer : Consumer
        Whose it is.

    Examples
    --------
    >>> steady = Consumer("c", "q", prefetch=1, service=("const", 0.002), slow=((1, 2, 10),))
    >>> service = Service(steady)
    >>> service.time(999_999), service.time(1_000_000), service.time(2_000_000), service.is_release()
    (2000, 20000, 2000, False)
    """

    __slots__ = ("_draw", "_spells", "_release", "_random")

    def __init__(self, consumer: Consumer) -> None:
        self._random = Random(consumer.seed)
        self._draw = _draw(consumer, self._random)
        self._spells = [
            (round(start * SECOND), round(end * SECOND), factor) for start, end, factor in consumer.slow
        ]
        self._release = consumer.release

    def time(self, now: int) -> int:
        """Return the microseconds that a service beginning now takes: at least one, so that time goes on."""
        seconds = self._draw()
        for start, end, factor in self._spells:
            if start <= now < end:
                seconds *= factor
        return round(seconds * SECOND) or 1

    def is_release(self) -> bool:
        """Return whether the message is released; drawn for each message, whatever the probability."""
        return self._random.random() < self._release


def _draw(consumer: Consumer, random: Random) -> Callable[[], float]:
    kind, seconds = consumer.service
    if kind == "const":
        return lambda: seconds
    rate = 1 / seconds
    return lambda: random.expovariate(rate)
