"""The network between a client and the broker: its delays and costs (Network), and delayed writes (Uplink).

Two habits of TCP delay small writes from a client to the broker:

* *Nagle's algorithm*, at the client: while data is unacknowledged, further small writes wait in the client's
  socket, and then travel together.
* *Delayed acknowledgement*, at the broker's operating system: if the broker sends data within ``ack_delay``
  after data arrived, the system takes it for an answer.  From then on it expects an answer to all data, and
  holds the acknowledgement back to send both together.  If no answer follows within ``ack_delay``, the system
  sends the acknowledgement alone, and acknowledges later data at once, until the broker answers in time
  again.

When the acknowledgement arrives, the client's system sends the waiting writes without waking the client, and
the broker reads all of them before it produces output (RF-08).  If the broker's system counts time in ticks,
acknowledgement delays end at a tick, often those of several clients at the same one: the delay that began
last ends first (CN-30), and the broker reads the data of all of them before it produces output (CN-29).

The broker does not answer a consumer's accept.  So the completion that follows it, which restores credit,
waits for ``ack_delay`` together with everything that the consumer accepts until then, and credit returns in
batches.
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
"""Microseconds of a tick, in which systems count acknowledgement delays: a delay of 40 ms takes 40 to 44 ms,
and data sent within 40 ms is an answer."""

ASLEEP = 2_000
"""Microseconds of waiting after which a client is asleep, and has to be woken by the operating system."""

READ = 50
"""Microseconds for which the broker reads data on all its connections before it produces output."""

Action = Callable[[], None]


class ValueFrom(NamedTuple):
    """A value of a step function: `since`, in seconds, is when it begins to hold, until the next step."""

    since: float
    value: float


Steps = tuple[ValueFrom, ...]


@dataclass(frozen=True, slots=True)
class Network:
    """The delays and costs of a client that is a separate process; all are in seconds, and 0 by default.

    Parameters:
        latency (float): The one-way delay between the client's socket and the broker.  A larger value in
            ``latencies`` includes the time until a busy machine lets the broker or the client read.
        ack_delay (float): The time for which the broker's system delays the acknowledgement of data that the
            broker does not answer. A client whose socket gathers small writes (Nagle's algorithm) sends
            nothing more until then. Real clients that settle messages one by one are often slowed down by
            this: see :class:`Uplink`.
        send_cost (float): The client's working time for each transfer.
        report_cost (float): The client's working time for each completion that it learns of.
        report_growth (float): The increase of ``report_cost`` with each earlier transfer: some clients keep a
            list of all transfers.
        ack_delays, latencies (tuple of (float, float)): Acknowledgement delays and latencies that vary: pairs
            of the second at which a value begins to hold, and the value. Before the first, ``ack_delay`` and
            ``latency`` hold.
        tick (float): The length of a tick of the broker's system, if its delays end at ticks (Linux: 4 ms or
            1 ms): acknowledgement delays of several clients then often end at the same tick, the newest
            first (CN-30).
        wakes (tuple of float): Extra delays before a client that was asleep runs again; each time one is
            drawn at random.  They stand for several clients that wake at one tick on a machine with few
            cores.
        crowded (tuple of float): The same for a consumer that wakes when blocked producers get room and
            compete for the machine's cores.
        seed (int): The seed of the draws from ``wakes`` and ``crowded``.
        pace (tuple of (float, float)): Pairs of a second and the factor by which the client's working times
            are longer from then on, as the machine has other work.  Before the first, the factor is 1.

    Raises:
        WorkloadError: If a value is outside its range (0 to 10 for times, 0 to 1000 for the factors of
            ``pace``), or if the seconds of pairs are not in ascending order.

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
        """Return the microseconds in which the client processes one completion after ``sent`` transfers."""
        return (self.report_cost + self.report_growth * sent) * SECOND


def _is_steps(value: Any, at_most: float) -> bool:
    is_pair = is_tuple_of(partial(is_number, at_least=0), partial(is_number, at_least=0, at_most=at_most))
    return is_all(is_pair)(value) and all(before[0] <= after[0] for before, after in pairwise(value))


class Course:
    """A step function of time, which is read at ascending instants."""

    def __init__(self, first: float, steps: Steps, unit: int = 1) -> None:
        self._value = first * unit
        self._unit = unit
        self._steps = iter((round(since * SECOND), value) for since, value in steps)
        self._next = next(self._steps, None)

    def at(self, now: int) -> float:
        """Return the value at the instant `now`, in microseconds since the start of the run."""
        while self._next is not None and self._next[0] <= now:
            self._value = self._next[1] * self._unit
            self._next = next(self._steps, None)
        return self._value


class Uplink:
    """The connection from a client to the broker, on which writes are delayed as the module describes."""

    def __init__(self, agenda: Agenda, network: Network | None) -> None:
        self._agenda = agenda
        self._is_direct = network is None
        # The context in which the broker reads several commands at once (RF-08); a caller sets it to that of
        # its session.
        self.read_together: Callable[[], AbstractContextManager[object]] = nullcontext
        network = network or Network()
        self._wire = round(network.latency * SECOND)
        self._latency = Course(network.latency, network.latencies, SECOND)
        self._delay = Course(network.ack_delay, network.ack_delays, SECOND)
        # Without an acknowledgement delay, writes are not gathered: each travels at once.
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
        """Write data to the socket; `action` runs when the data arrives at the broker."""
        if self._is_direct:
            action()
            return
        self._waiting.append(action)
        if not self._is_in_flight:
            self._flush()

    def receive_answer(self) -> None:
        """Record that the broker sent data to this client, which acknowledges all earlier data."""
        # This is TCP's delayed acknowledgement, as Linux implements it. An answer within the delay carries
        # the acknowledgement, and the system expects the next answer to do so, too: it holds acknowledgements
        # back from then on, until one has to be sent alone. As the client holds small writes back until then
        # (Nagle), each of the two sides waits for the other.
        if self._agenda.now - self._received_at < self._answer_time:
            self._expects_answer = True
        if self._owed:
            self._acknowledge()

    def attach(self) -> None:
        """Record the broker's answer to the client's attach, which has just arrived."""
        self._received_at = self._agenda.now
        self.receive_answer()

    def clear(self) -> None:
        """Drop all unsent data at the end of the run, and with it the references to its writer."""
        self._waiting.clear()

    def _travel(self) -> int:
        """Return the instant at which data sent now arrives, not before earlier data."""
        now = self._agenda.now
        # TCP keeps the order even if the latency decreases between two writes.
        self._arrives = max(self._arrives, now + round(self._latency.at(now)))
        return self._arrives

    def _flush(self, *, is_pushed: bool = False) -> None:
        batch, self._waiting = self._waiting, []
        # Nagle's algorithm holds a small write back only while an earlier one is not acknowledged.
        self._is_in_flight = self._answer_time > 0
        # The client's system itself sends the data that waited for an acknowledgement, without the client.
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
        # A timer is never cancelled: if it is not the newest one, it expires without effect.
        self._serial += 1
        serial = self._serial
        # The delay begins when the data arrives at the system, not when the broker reads it.
        due = max(agenda.now, came + round(self._delay.at(agenda.now)))
        if self._tick:
            early = -due % self._tick
            # Of timers that expire at the same tick, the newest runs first: the system's list grows at its
            # head.
            due += early + early * READ // self._tick
        agenda.enter(due, SETTLE, lambda: self._expire(serial))

    def _read(self, batch: list[Action]) -> None:
        """Run the actions of data that the broker reads together, before it produces output."""
        # The common case: here the stack of contexts would take more time than the action.
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
