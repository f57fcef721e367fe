"""The random draws of clients: due times, sizes and groups of messages, service times and outcomes.

The clients recorded in ``data/recordings/workloads`` used the same draws.  With the seed of a recorded
producer, :func:`due_messages` yields the messages that it sent, at the times at which they fell due; with the
seed of a recorded consumer, :class:`Service` returns the time that each message took it and the outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, cycle, repeat
from math import log
from random import Random
from typing import Final

from qflow.workload.agenda import SECOND
from qflow.workload.model import Consumer, Producer

_FINE: Final = 1_000_000
"""The time units per microsecond in which times between messages are summed: as integers, so that rounding
errors do not accumulate, and the last digit of a logarithm, which depends on the processor, has no effect."""

_SLOWEST: Final = 1e-12
"""The lowest rate in messages a second (one in 30,000 years), so that times between messages stay finite."""

_FEW_IN_A_SPELL: Final = 10
"""The number of messages in a burst below which one more in each burst would raise the rate too much."""

NEVER: Final = 1 << 62
"""The due time, in microseconds, of the message after the end of a recorded schedule: later than any run."""


def due_messages(producer: Producer) -> Iterator[tuple[int, int, str]]:
    """Yield a producer's messages without end, each as (due time in microseconds, content bytes, group).

    >>> from itertools import islice
    >>> bursts = Producer("p", ("", "q"), 4, 5, size=100, burst=(1, 9), groups=(1, 1.0), arrival="const")
    >>> [due for due, _, _ in islice(due_messages(bursts), 5)]
    [250000, 500000, 750000, 1000000, 10250000]
    """
    # With bursts, the first message that falls into the silence after a burst is still due at that time, as
    # with the recorded clients, and the next one is counted from the start of the next burst.  This adds one
    # message to each burst.  For bursts of only a few messages, which that would distort, the clock stops
    # during the silence instead.
    arrivals = Arrivals(producer)
    while True:
        yield arrivals.due, arrivals.size, arrivals.group
        arrivals.advance()


class Arrivals:
    """The next message of a producer: its due time, size and group; :meth:`advance` draws the one after."""

    def __init__(self, producer: Producer) -> None:
        self._recorded = _recorded_messages(producer) if producer.arrival == "recorded" else None
        self._random = Random(producer.seed)
        self._draw = self._random.random
        self._rate = max(producer.rate, _SLOWEST)
        self._steady = round(SECOND * _FINE / self._rate) if producer.arrival == "const" else 0
        size = producer.size
        self._spread = None if isinstance(size, int) else size[:2]
        self._largest = NEVER if isinstance(size, int) or len(size) == 2 else size[2]
        self._groups, self._skew = producer.groups or (0, 0.0)
        self._on, self._period = _burst(producer)
        self._is_short = self._period > 0 and self._on * self._rate < _FEW_IN_A_SPELL * SECOND * _FINE
        self._fine = 0
        self.due = 0
        self.size = producer.size if isinstance(producer.size, int) else 0
        self.group = ""
        self.advance()

    def advance(self) -> None:
        """Draw the next message, and store its due time, size and group."""
        if self._recorded is not None:
            self.due, self.size, self.group = next(self._recorded)
            return
        fine = self._fine
        if self._period and not self._is_short and fine % self._period >= self._on:
            fine += self._period - fine % self._period
        fine += self._steady or _nearest(_exponential(self._draw, self._rate) * (SECOND * _FINE))
        self._fine = fine
        if self._spread is not None:
            self.size = min(int(self._random.lognormvariate(*self._spread)), self._largest)
        if self._groups:
            chance = self._draw() ** self._skew
            self.group = f"g{min(self._groups, int(self._groups**chance))}"
        if self._is_short and fine:
            # The clock runs only during bursts; a message at the end of a burst belongs to it.
            fine = (fine - 1) // self._on * self._period + (fine - 1) % self._on + 1
        self.due = (fine + _FINE // 2) // _FINE


def _exponential(draw: Callable[[], float], rate: float) -> float:
    # The same draw as random.expovariate, in half the time.
    return -log(1.0 - draw()) / rate


def _nearest(number: float) -> int:
    # The same result as round() for a number from 0; when compiled, in a twentieth of the time.
    whole = int(number)
    rest = number - whole
    return whole + 1 if rest > 0.5 or (rest == 0.5 and whole % 2) else whole


def _recorded_messages(producer: Producer) -> Iterator[tuple[int, int, str]]:
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
    """A source of a consumer's service times and outcomes, one of each for every message in turn."""

    def __init__(self, consumer: Consumer) -> None:
        self._draw = Random(consumer.seed).random
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
        self._outages = _outages(consumer)
        self._out = next(self._outages)

    def time(self, now: int) -> int:
        """Return the next message's service time in microseconds, including a wait for an outage to end."""
        # At least 1, so that time advances.
        wait = 0
        # An outage may begin before the previous one has ended, and the wait for the end of one may last
        # until the next begins.
        while self._out[0] <= now + wait:
            wait = max(wait, self._out[1] - now)
            self._out = next(self._outages)
        now += wait
        seconds = _exponential(self._draw, self._rate) if self._rate else next(self._seconds)
        for start, end, factor in self._spells:
            if start <= now < end:
                seconds *= factor
        if self._overhead is not None:
            seconds += next(self._overhead)
        return wait + max(1, _nearest(seconds * SECOND))

    def verdict(self) -> str:
        """Draw an outcome, "accept", "release" or "reject"; each message takes exactly one draw."""
        # Even a certain outcome takes a draw, so that other draws do not depend on the probabilities.
        chance = self._draw()
        if chance < self._release:
            return "release"
        return "reject" if chance < self._reject else "accept"


def _outages(consumer: Consumer) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of each outage of a consumer, and at last an outage that never begins."""
    if consumer.outage is not None:
        kind, every, lasting = ("const", *consumer.outage)[-3:]
        every, lasting = float(every), float(lasting)
        draw, end = Random(f"outage {consumer.seed}").random, 0.0
        first = draw() * (every - lasting)
        for number in count():
            begin, length = first + number * every, lasting
            if kind == "exp":
                begin = end + _exponential(draw, 1 / (every - lasting))
                length = _exponential(draw, 1 / lasting)
            end = begin + length
            yield round(begin * SECOND), round(end * SECOND)
    yield NEVER, NEVER
