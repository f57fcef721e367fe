"""The network between a client and the broker: its costs (Network), and delayed writes (Uplink).

Nagle's algorithm: while something written is not yet acknowledged, further small writes wait in the client's
socket and then travel together.  Delayed acknowledgement: a system that sends something within ``ack_delay``
after it got something takes that for an answer; from then on it expects to answer, and acknowledges with its
answers.  If none comes it acknowledges after ``ack_delay``, and what it gets after that at once, until it
sends an answer again.

What waited goes on its way when the acknowledgement comes, without the client, and the broker reads all of it
at once: it makes output after the last (RF-08).  If the system counts in ticks, acknowledgements end at one,
those of several clients together: the one whose delay began last is first (CN-30).  The broker reads what has
come of all before it makes output (CN-29).

A consumer's accept is not answered, so the completion that would give it new credit waits for ``ack_delay``,
with all that is accepted until then: credit returns in batches.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from qflow.workload.agenda import SECOND, SETTLE, Agenda
from qflow.workload.attributes import as_tuple, is_all, is_number, is_tuple_of, is_whole, require

TICK = 4_000
"""Microseconds: systems count such delays in ticks; one of 40 ms takes 40 to 44, and what comes within 40
is an answer."""

ASLEEP = 2_000
"""Microseconds: a client that has waited longer than that does not run any more, and has to be woken."""

READ = 50
"""Microseconds in which a broker reads what has come on all its connections before it makes output."""

Action = Callable[[], None]


class ValueFrom(NamedTuple):
    """A value that holds from a second on, until the next step."""

    since: float
    value: float


Steps = tuple[ValueFrom, ...]


@dataclass(frozen=True, slots=True)
class Network:
    """The costs of a client as a separate process; all in seconds, all 0 by default.

    Parameters:
        latency (float): From the client's socket to the broker, and back again.  What ``latencies`` adds to
            it is not the way's: it is the time until a busy machine lets the broker or the client read.
        ack_delay (float): How long the broker's system waits before it acknowledges data that the broker does
            not answer. A client whose socket gathers small writes (Nagle's algorithm) sends nothing further
            until then. Real clients that settle messages one by one are often slowed down by this: see
            :class:`Uplink`.
        send_cost (float): The client's own work for each transfer.
        report_cost (float): The client's own work for each completion that it learns of.
        report_growth (float): The growth of that work with each earlier transfer: some clients keep a
            list of them.
        ack_delays, latencies (tuple of (float, float)): Varying delays and latencies: a second, and the value
            from then on until the next. Before the first, ``ack_delay`` and ``latency`` hold.
        tick (float): The length of a tick of the broker's system, if its delays end at one (Linux: 4 ms, or
            1): waiting data comes at the next tick, that of several clients often at the same one,
            the newest delay first (CN-30).
        wakes (tuple of float): Extra delays until a client that waited for the broker runs again; each
            time one of these at random: several clients wake at one tick, and a machine has few
            cores.
        crowded (tuple of float): The same for a consumer while waiting producers get room at
            that instant: they want the machine's cores, too.
        seed (int): The seed of the draws from ``wakes``.
        pace (tuple of (float, float)): A second, and the factor by which the client's own work takes
            longer from then on: a machine has other work to do.  Before the first, the factor is 1.

    Raises:
        WorkloadError: If a value is not a number from 0 to 10 (1000 for a factor), or times go back.

    >>> Network(ack_delay=0.04).latency
    0.0
    """

    latency: float = 0.0
    ack_delay: float = 0.0
    send_cost: float = 0.0
    report_cost: float = 0.0
    report_growth: float = 0.0
    ack_delays: Steps = field(default=(), repr=False)
    latencies: Steps = field(default=(), repr=False)
    pace: Steps = field(default=(), repr=False)
    tick: float = 0.0
    wakes: tuple[float, ...] = field(default=(), repr=False)
    crowded: tuple[float, ...] = field(default=(), repr=False)
    seed: int = 0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = as_tuple(getattr(self, item.name))
            if item.name in ("ack_delays", "latencies", "pace"):
                is_right = _is_steps(value, 1000 if item.name == "pace" else 10)
                value = tuple(ValueFrom(*pair) for pair in value) if is_right else value
                object.__setattr__(self, item.name, value)
                allowed = "pairs of numbers, seconds from 0 that do not go back, and what holds from then on"
            elif item.name in ("wakes", "crowded"):
                object.__setattr__(self, item.name, value)
                is_right, allowed = is_all(is_number)(value), "a list of seconds"
            elif item.name == "seed":
                is_right, allowed = is_whole(value, 0), "a whole number from 0"
            else:
                is_right, allowed = is_number(value, 0, 10), "a number of seconds from 0 to 10"
            require(is_right, "network", item.name, value, allowed)

    def report_time(self, sent: int) -> float:
        """Return the time to learn of one completion after ``sent`` transfers, in microseconds."""
        return (self.report_cost + self.report_growth * sent) * SECOND


def _is_steps(value: Any, at_most: float) -> bool:
    is_pair = is_tuple_of(partial(is_number, at_least=0), partial(is_number, at_least=0, at_most=at_most))
    return is_all(is_pair)(value) and all(before[0] <= after[0] for before, after in pairwise(value))


class Course:
    """A quantity that varies in steps, read at ascending instants."""

    def __init__(self, first: float, steps: Steps, unit: int = 1) -> None:
        self._value = first * unit
        self._unit = unit
        self._steps = iter((round(since * SECOND), value) for since, value in steps)
        self._next = next(self._steps, None)

    def at(self, now: int) -> float:
        """Return the value at an instant, in microseconds since the start."""
        while self._next is not None and self._next[0] <= now:
            self._value = self._next[1] * self._unit
            self._next = next(self._steps, None)
        return self._value


class Uplink:
    """The delay of a client's writes on their way to the broker."""

    def __init__(self, agenda: Agenda, network: Network | None) -> None:
        self._agenda = agenda
        self._is_direct = network is None
        # A caller that knows the session says how it reads several commands at once (RF-08).
        self.read_together: Callable[[], AbstractContextManager[object]] = nullcontext
        network = network or Network()
        self._wire = round(network.latency * SECOND)
        self._latency = Course(network.latency, network.latencies, SECOND)
        self._delay = Course(network.ack_delay, network.ack_delays, SECOND)
        # Without delay nothing is gathered either: what is written travels at once.
        self._answer_time = round(network.ack_delay * SECOND) // TICK * TICK
        self._tick = round(network.tick * SECOND)
        self._waiting: list[Action] = []
        self._is_in_flight = False
        self._expects_answer = False
        self._owed = False
        self._serial = 0
        self._received_at = 0
        self._arrives = 0

    def write(self, action: Action) -> None:
        """Send data; `action` runs when it arrives."""
        if self._is_direct:
            action()
            return
        self._waiting.append(action)
        if not self._is_in_flight:
            self._flush()

    def receive_answer(self) -> None:
        """Record an answer of the broker to this client, which acknowledges all earlier data."""
        # An answer within the delay carries the acknowledgement, and the system expects the next to do so,
        # too: it holds acknowledgements back from then on, until one has to be sent alone.
        # This is TCP's delayed acknowledgement, as Linux has it: a connection whose data was answered in
        # time expects the next answer in time, too. With a client that holds small writes back until then
        # (Nagle), each of the two waits for the other.
        if self._agenda.now - self._received_at < self._answer_time:
            self._expects_answer = True
        if self._owed:
            self._acknowledge()

    def attach(self) -> None:
        """Record that the broker has just answered: the client has attached."""
        self._received_at = self._agenda.now
        self.receive_answer()

    def clear(self) -> None:
        """Drop all unsent data, and references to its writer: the run is over."""
        self._waiting.clear()

    def _travel(self) -> int:
        """Return the arrival time of data sent now; data arrives in order."""
        now = self._agenda.now
        # TCP keeps the order, also when the latency falls between two writes.
        self._arrives = max(self._arrives, now + round(self._latency.at(now)))
        return self._arrives

    def _flush(self, *, is_pushed: bool = False) -> None:
        batch, self._waiting = self._waiting, []
        # Nagle's algorithm holds a small write back only while an earlier one is not acknowledged.
        self._is_in_flight = self._answer_time > 0
        # The system itself sends on what waited for an acknowledgement; the client need not wake up for that.
        came = self._agenda.now + (0 if is_pushed else self._wire)
        arrives = max(self._arrives, came) if is_pushed else self._travel()
        self._agenda.enter(arrives, SETTLE, lambda: self._arrive(batch, came))

    def _arrive(self, batch: list[Action], came: int) -> None:
        agenda = self._agenda
        expects_answer = self._expects_answer
        self._received_at = agenda.now
        self._owed = self._answer_time > 0
        self._read(batch)
        if not self._owed:
            return
        if not expects_answer:
            self._acknowledge()
            return
        # A timer is never taken back: one that is no longer the newest expires without effect.
        self._serial += 1
        serial = self._serial
        # The system counts from when it came, not from when the broker found the time to read it.
        due = max(agenda.now, came + round(self._delay.at(agenda.now)))
        if self._tick:
            early = -due % self._tick
            # Of timers that expire together the newest is first: a system's list of them grows at its head.
            due += early + early * READ // self._tick
        agenda.enter(due, SETTLE, lambda: self._expire(serial))

    def _read(self, batch: list[Action]) -> None:
        """Run the actions that the broker reads at once: it makes output after the last."""
        # The common case, for which the stack of contexts would be the larger part of the work.
        if len(batch) == 1:
            batch[0]()
            return
        with ExitStack() as reading:
            reading.enter_context(self.read_together())
            for action in batch:
                action()
            until = self._agenda.now + READ
            if self._tick and until <= self._agenda.end:
                self._agenda.enter(until, SETTLE, reading.pop_all().close)

    def _expire(self, serial: int) -> None:
        if self._owed and serial == self._serial:
            self._expects_answer = False
            if self._tick:
                self._owed = False
                self._on_acknowledged(is_pushed=True)
            else:
                self._acknowledge()

    def _acknowledge(self) -> None:
        self._owed = False
        self._agenda.enter(self._agenda.now + self._wire, SETTLE, self._on_acknowledged)

    def _on_acknowledged(self, *, is_pushed: bool = False) -> None:
        self._is_in_flight = False
        if self._waiting:
            self._flush(is_pushed=is_pushed)
