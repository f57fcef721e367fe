"""The chance of clients: when messages fall due, how large they are, how long their service takes.

The draws are those of the clients in ``data/recordings/workloads``: with the seed of a recorded producer,
:func:`due_messages` yields the messages that it sent, at the times it meant to send them; :class:`Service`
does the same for what a consumer did with each.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, repeat
from math import log
from random import Random
from typing import Final

from qflow.workload.agenda import SECOND
from qflow.workload.model import Consumer, Producer

_FINE: Final = 1_000_000
"""Gaps are added up in millionths of a microsecond, as integers: no rounding builds up over a long
run, and no processor's last digit of a logarithm can show."""

_SLOWEST: Final = 1e-12
"""Messages a second: one in 30,000 years.  A slower one is as good as none, and its gaps stay finite."""

FEW_IN_A_SPELL: Final = 10
"""In a burst's spells of fewer messages than these, one more each would be far more than the rate."""

NEVER: Final = 1 << 62
"""When a recorded schedule is over, the next message is due at this instant: no run lasts so long."""

# Final, so that compiled code has it at hand, and need not look it up for each message.
_nearest: Final = round


def due_messages(producer: Producer) -> Iterator[tuple[int, int, str]]:
    """Yield a producer's messages without end, each as (due, content bytes, group).

    In bursts, the first message that would fall into the silence is still due then, as the recorded clients
    did, and the next spell begins anew.  That is one message more in each spell, so that spells of only a
    few messages are passed as if there were no silence between them.

    Yields
    ------
    (int, int, str)
        Microseconds since the start, not descending; bytes; group, or "".  Of a closed producer, the
        microseconds for which it thinks before it sends.

    Examples
    --------
    >>> from itertools import islice
    >>> producer = Producer("p", ("", "q"), rate=1000, capacity=5, size=100, arrival="const")
    >>> list(islice(due_messages(producer), 3))
    [(1000, 100, ''), (2000, 100, ''), (3000, 100, '')]
    >>> bursts = Producer("p", ("", "q"), 4, 5, size=100, burst=(1, 9), groups=(1, 1.0), arrival="const")
    >>> [due for due, _, _ in islice(due_messages(bursts), 5)]
    [250000, 500000, 750000, 1000000, 10250000]
    """
    if producer.arrival == "recorded":
        yield from _recorded(producer)
    random, rate = Random(producer.seed), max(producer.rate, _SLOWEST)
    steady = round(SECOND * _FINE / rate) if producer.arrival == "const" else 0
    size, spread = (producer.size, None) if isinstance(producer.size, int) else (0, producer.size)
    count, skew = producer.groups or (0, 0.0)
    on, period = _burst(producer)
    is_short = period > 0 and on * rate < FEW_IN_A_SPELL * SECOND * _FINE
    fine, group = 0, ""
    while True:
        if period and not is_short and fine % period >= on:
            fine += period - fine % period
        fine += steady or _nearest(_exponential(random, rate) * (SECOND * _FINE))
        if spread is not None:
            size = int(random.lognormvariate(*spread))
        if count:
            group = f"g{min(count, int(count ** (random.random() ** skew)))}"
        # Of short spells time goes on only while they last; what falls on a spell's end belongs to it.
        due = (fine - 1) // on * period + (fine - 1) % on + 1 if is_short and fine else fine
        yield (due + _FINE // 2) // _FINE, size, group


def _exponential(random: Random, rate: float) -> float:
    # What random.expovariate draws, in half of its time.
    return -log(1.0 - random.random()) / rate


def _recorded(producer: Producer) -> Iterator[tuple[int, int, str]]:
    messages = [(round(seconds * SECOND), size, group) for seconds, size, group in producer.recorded]
    if producer.model == "closed" and messages:
        yield from cycle(messages)
    yield from messages
    yield from repeat((NEVER, 0, ""))


def _burst(producer: Producer) -> tuple[int, int]:
    if producer.burst is None:
        return 0, 0
    on, off = (round(seconds * SECOND * _FINE) for seconds in producer.burst)
    return max(1, on), max(1, on) + off


class Service:
    """A consumer's chance: one service time and one verdict for each message, in turn.

    Examples
    --------
    >>> steady = Consumer("c", "q", prefetch=1, service=("const", 0.002), slow=((1, 2, 10),))
    >>> service = Service(steady)
    >>> service.time(999_999), service.time(1_000_000), service.time(2_000_000), service.verdict()
    (2000, 20000, 2000, 'accept')
    """

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
        self._overhead = cycle(consumer.overhead) if consumer.overhead else None

    def time(self, now: int) -> int:
        """Return the microseconds that a service beginning now takes: at least one, so that time goes on."""
        seconds = _exponential(self._random, self._rate) if self._rate else next(self._seconds)
        for start, end, factor in self._spells:
            if start <= now < end:
                seconds *= factor
        if self._overhead is not None:
            seconds += next(self._overhead)
        return max(1, _nearest(seconds * SECOND))

    def verdict(self) -> str:
        """Return "accept", "release" or "reject"; drawn for each message, whatever the probabilities."""
        chance = self._random.random()
        if chance < self._release:
            return "release"
        return "reject" if chance < self._reject else "accept"
