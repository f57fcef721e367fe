"""How long a consumer works on a message, and what it does with it then."""

from __future__ import annotations

from itertools import cycle
from random import Random

from qflow.workload.agenda import SECOND
from qflow.workload.arrivals import exponential
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
    >>> service.time(999_999), service.time(1_000_000), service.time(2_000_000), service.verdict()
    (2000, 20000, 2000, 'accept')
    """

    __slots__ = ("_random", "_rate", "_seconds", "_spells", "_release", "_reject", "_overhead")

    def __init__(self, consumer: Consumer) -> None:
        self._random = Random(consumer.seed)
        kind, seconds = consumer.service
        given = seconds if isinstance(seconds, tuple) else (seconds,)
        self._rate = 1 / given[0] if kind == "exp" else 0.0
        self._seconds = cycle(given)
        self._spells = [
            (round(start * SECOND), round(end * SECOND), factor) for start, end, factor in consumer.slow
        ]
        self._release = consumer.release
        self._reject = consumer.release + consumer.reject
        self._overhead = cycle(consumer.overhead or (0.0,))

    def time(self, now: int) -> int:
        """Return the microseconds that a service beginning now takes: at least one, so that time goes on."""
        seconds = exponential(self._random, self._rate) if self._rate else next(self._seconds)
        for start, end, factor in self._spells:
            if start <= now < end:
                seconds *= factor
        return max(1, round((seconds + next(self._overhead)) * SECOND))

    def verdict(self) -> str:
        """Return "accept", "release" or "reject"; drawn for each message, whatever the probabilities."""
        chance = self._random.random()
        if chance < self._release:
            return "release"
        return "reject" if chance < self._reject else "accept"
