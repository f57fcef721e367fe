"""What lies between a client and the broker: Network, and Link, the client's end of a connection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from itertools import cycle

from qflow.workload.agenda import SECOND, SETTLE, Agenda
from qflow.workload.checks import as_tuple, is_number, require

Action = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Network:
    """What it costs a client to be a process of its own; all in seconds, all 0 unless given.

    Parameters
    ----------
    latency : float
        From the client's socket to the broker, and back again.
    ack_delay : float
        How long the broker's system waits before it acknowledges data that the broker does not answer.
        A client whose socket gathers small writes (Nagle's algorithm) sends nothing further until then.
        Real clients that settle messages one by one are often slowed down by this: see :class:`Link`.
    send_cost : float
        The client's own work for each transfer.
    report_cost : float
        The client's own work for each completion that it learns of.
    report_growth : float
        By how much that work grows with each transfer sent before: some clients keep a list of them.

    ack_delays : tuple of float
        Recorded delays, which come in turn, from the first again after the last, in place of ``ack_delay``.

    Raises
    ------
    WorkloadError
        If a value is not a number from 0 to 10.

    Examples
    --------
    >>> Network(ack_delay=0.04).latency
    0.0
    >>> Network(latency=-1)
    Traceback (most recent call last):
        ...
    qflow.workload.checks.WorkloadError: network: latency must be a number of seconds from 0 to 10, got -1
    """

    latency: float = 0.0
    ack_delay: float = 0.0
    send_cost: float = 0.0
    report_cost: float = 0.0
    report_growth: float = 0.0
    ack_delays: tuple[float, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ack_delays", as_tuple(self.ack_delays))
        for item in fields(self):
            value = getattr(self, item.name)
            values = value if item.name == "ack_delays" and isinstance(value, tuple) else (value,)
            for number in values:
                is_right = is_number(number, 0, 10)
                require(is_right, "network", item.name, number, "a number of seconds from 0 to 10")

    def report_time(self, sent: int) -> int:
        """Return the microseconds that learning of one completion takes after so many transfers.

        Examples
        --------
        >>> Network(report_cost=0.0001, report_growth=0.0000001).report_time(1000)
        200
        """
        return round((self.report_cost + self.report_growth * sent) * SECOND)


class Link:
    """What a client writes, on its way to the broker.

    Nagle's algorithm: while something written is not yet acknowledged, further small writes wait in the
    client's socket and then travel together.  Delayed acknowledgement: a system that has lately sent
    answers expects to send another, and acknowledges with it; if none comes it waits for ``ack_delay``,
    and the next data after that it acknowledges at once.

    A consumer's accept is not answered, so the completion that would give it new credit waits for
    ``ack_delay``, with all that is accepted until then: credit returns in batches.

    Parameters
    ----------
    agenda : Agenda
        Where to plan arrivals.
    network : Network or None
        None: what is written is carried out there and then.

    Examples
    --------
    >>> agenda, seen = Agenda(end=SECOND), []
    >>> link = Link(agenda, Network(latency=0.001, ack_delay=0.04))
    >>> link.answered()  # the broker has delivered something
    >>> for word in ("accept", "complete"):
    ...     link.write(lambda word=word: seen.append((agenda.now, word)))
    >>> agenda.run(lambda now: None, alarm=lambda: None); seen
    [(1000, 'accept'), (43000, 'complete')]
    """

    __slots__ = (
        "_agenda",
        "_is_direct",
        "_latency",
        "_delays",
        "_gathers",
        "_waiting",
        "_is_in_flight",
        "_expects_answer",
        "_owed",
        "_serial",
    )

    def __init__(self, agenda: Agenda, network: Network | None) -> None:
        self._agenda = agenda
        self._is_direct = network is None
        network = network or Network()
        self._latency = round(network.latency * SECOND)
        delays = [round(delay * SECOND) for delay in network.ack_delays or (network.ack_delay,)]
        self._delays = cycle(delays)
        self._gathers = any(delays)
        self._waiting: list[Action] = []
        self._is_in_flight = False
        self._expects_answer = False
        self._owed = False
        self._serial = 0

    def write(self, action: Action) -> None:
        """Send something: an action that is carried out when it arrives."""
        if self._is_direct:
            action()
            return
        self._waiting.append(action)
        if not self._is_in_flight:
            self._flush()

    def answered(self) -> None:
        """Take note that the broker sends something to this client, now: it acknowledges all so far."""
        self._expects_answer = True
        if self._owed:
            self._acknowledge()

    def _flush(self) -> None:
        batch, self._waiting = self._waiting, []
        agenda = self._agenda
        self._is_in_flight = self._gathers
        agenda.enter(agenda.now + self._latency, SETTLE, lambda: self._arrive(batch))

    def _arrive(self, batch: list[Action]) -> None:
        expects_answer = self._expects_answer
        self._owed = self._gathers
        for action in batch:
            action()
        if not self._owed:
            return
        if not expects_answer:
            self._acknowledge()
            return
        self._serial += 1
        serial, agenda = self._serial, self._agenda
        agenda.enter(agenda.now + next(self._delays), SETTLE, lambda: self._expire(serial))

    def _expire(self, serial: int) -> None:
        if self._owed and serial == self._serial:
            self._expects_answer = False
            self._acknowledge()

    def _acknowledge(self) -> None:
        self._owed = False
        agenda = self._agenda
        agenda.enter(agenda.now + self._latency, SETTLE, self._acknowledged)

    def _acknowledged(self) -> None:
        self._is_in_flight = False
        if self._waiting:
            self._flush()
