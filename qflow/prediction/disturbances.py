"""Disturbances: the variation of clients' costs that is caused by other work on their machine.

This is the second layer on top of :mod:`qflow.prediction.costs`; readers may skip it, and
``detail="constants"`` leaves it out.

A machine has other work, too, which makes all work longer for a while.  Medians hide that; the terms below
restore it.  Each is kept because without it predictions of a recorded log miss its limits: 5 % of the mean
depth, 3 percentage points of the share of time ON, 10 % of the stops (or 2), 3 % of the throughput.

- The growth of a completion's work (:func:`qflow.prediction.costs.growth`).  With its median alone the
  prediction of ``capacity-165`` has 6 stops, while 1 was recorded; the clients of
  ``overflow-despite-flow-control`` under the settings of ``bytes-and-count`` miss the mean depth.
- The factor by which a producer's work takes longer while others work (:func:`_usual_pace`), from episodes
  in which a producer released by a stopped queue catches up.  Runs of ``bytes-and-count`` are in 13 of 24
  intervals without it, and in 17 with it.
- The ticks of the broker's system (:func:`_is_ticking`, CN-29): delays of acknowledgements end at them, so
  settlements and transfers of several clients reach the broker at the same instant (CN-30).  Without it
  ``groups-release`` has 23 stops, while 28 to 30 were recorded.
- The delay with which clients wake up (:func:`wakes`), which is longer when several wake at once.  Without it
  no session of ``fanout-wide`` ends, and ``bytes-and-count-low`` has twice its stops.
- The same delay from all consumers together, for a consumer with too few observations (:class:`AckDelay`).
  Without it a queue of ``fleet`` misses the mean depth.
- The times at which credit arrived late: later than ticks explain (:func:`_interruptions`), or each delay if
  a log shows no ticks (:func:`_course`).  Replays move these times (CN-31).  Other runs of
  ``fanout-one-slow`` and ``bytes-and-count`` are in 72 of 100 intervals without it, and in 82 with it.

Two further terms, the effect of the machine's load on latency and the changes of each producer's pace, were
dropped when draws of recorded programs were no longer used; without them as many values are within limits.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import cos, fsum, hypot, pi, sin
from statistics import median, quantiles
from typing import NamedTuple

from qflow.logs.log_file import LogRow
from qflow.prediction.costs import (
    ANSWERED,
    FEW,
    MANY,
    CreditReturn,
    Work,
    delivery_latency,
    is_delayed,
    noticeable,
    typical,
    works,
)
from qflow.workload.agenda import SECOND
from qflow.workload.model import Workload
from qflow.workload.network import TICK, Network, Steps, ValueFrom

_HELD = 15_000
"""In microseconds: a longer wait ended with a consumer's settlement."""


_STOPPED = 100_000
"""In microseconds: a longer block was caused by a stopped queue."""


def add_spell(steps: list[ValueFrom], since: float, until: float, value: float, usual: float) -> None:
    """Append a spell of a value and then the usual value; an overlapped usual value is replaced."""
    if steps and steps[-1].since >= since:
        steps.pop()
    steps += [ValueFrom(since, value), ValueFrom(until, usual)]


# Slow episodes


@dataclass(slots=True)
class _Episode:
    """A time in which a released producer works without a pause; all times in microseconds."""

    begin: int
    end: int
    # The time of work, interruptions included, and the time of waiting for the broker.
    worked: float = 0.0
    waited: float = 0.0
    sends: int = 0
    # For each processed completion, the number of messages sent before it.
    reports: list[int] = field(default_factory=list)

    @property
    def is_conclusive(self) -> bool:
        """Whether the episode has enough work, and more of it than waiting."""
        return self.sends + len(self.reports) >= FEW and self.waited <= self.worked


def _episodes(rows: Sequence[LogRow], round_trip: float = 0.0) -> list[_Episode]:
    """Return the episodes in which a producer catches up after a stopped queue released it."""
    found: list[_Episode] = []
    episode: _Episode | None = None
    before = LogRow(0, "", "", "", "", 0, "")
    sent = 0
    for row in rows:
        gap = row.ts_us - before.ts_us
        is_answer = row.event in ("complete", "unblock")
        if before.event in ("block", "unblock") and is_answer and gap >= _STOPPED:
            episode = _Episode(row.ts_us, row.ts_us)
            found.append(episode)
        elif row.event == "transfer" and gap >= ANSWERED and before.event != "unblock":
            # The producer waited until its next message was due, so it has caught up.
            episode = None
        elif episode is not None:
            waited = 0.0
            if is_answer and before.event != "complete":
                waited = gap if gap >= ANSWERED else min(gap, round_trip)
            episode.end = row.ts_us
            episode.waited += waited
            episode.worked += gap - waited
            if row.event == "transfer":
                episode.sends += 1
            elif row.event == "complete":
                episode.reports.append(sent)
        sent += row.event == "transfer"
        before = row
    return found


_SLOWEST = 100.0
"""The largest factor of slowness that counts."""


def _pace_factors(work: Work, rows: Sequence[LogRow]) -> list[float]:
    """Return the factor of slowness in each conclusive episode of a producer."""
    found: list[float] = []
    for episode in _episodes(rows, work.round_trip):
        usual = episode.sends * work.send_cost + sum(map(work.report_cost.of, episode.reports))
        factor = round(min(_SLOWEST, episode.worked / usual), 3) if usual > 0 else 0.0
        if episode.is_conclusive and factor > 0:
            found.append(factor)
    return found


_ENOUGH_EPISODES = 10
"""The episodes needed for a median; each missing one counts as a factor of 1."""


def _usual_pace(factors: Iterable[float]) -> float:
    """Return the median factor of slowness over all producers' episodes."""
    found = list(factors)
    return round(median(found + [1.0] * (_ENOUGH_EPISODES - len(found))), 3)


# The network between a client and the broker


def _producer_network(
    work: Work, system: AckDelay, pace: float = 1.0, wakes: tuple[float, ...] = ()
) -> Network:
    """Return a producer's network model with the costs of its sends and completions."""
    delay, tick = system.shortest / SECOND, system.tick / SECOND
    return replace(work.network(), ack_delay=delay, tick=tick, wakes=wakes, pace=(ValueFrom(0.0, pace),))


def _release_times(rows: Sequence[LogRow]) -> list[int]:
    """Return the times of a producer's first completions after long waits, in microseconds."""
    return [
        after.ts_us
        for row, after in pairwise(rows)
        if row.event in ("block", "transfer")
        and after.event == "complete"
        and after.ts_us - row.ts_us >= _HELD
    ]


def wakes(rows: Sequence[LogRow], tick: int, others: Sequence[int] = ()) -> tuple[float, ...]:
    """Return the delays in seconds with which a producer that waited for the broker continued.

    >>> def row(time, event):
    ...     return LogRow(time, "p", event, "", "", 0, "")
    >>> rows = [row(44_000 * n + late, event) for n in range(20) for late, event in ((900, "block"),
    ...     (44_100 if n % 5 else 45_100, "complete"))]
    >>> sorted(wakes(rows, 4000))[::6], len(wakes([], 4000, _release_times(rows)))
    ([0.0, 0.0, 0.0, 0.001], 20)
    """
    # The producer waits for room in a queue, which appears when a consumer's settlements arrive: at a tick of
    # the system.  Its delay is the time from the tick to the first completion that it processes, minus the
    # time that this always takes.
    own = _release_times(rows)
    waited = own if len(own) >= FEW else others
    if not tick or len(waited) < FEW:
        return ()
    return _few_of(_after_ticks(waited, tick))


def _after_ticks(ends: Sequence[float], tick: int) -> list[int]:
    """Return the time from the last tick to each end, for the phase of ticks with the smallest sum."""
    cells = Counter(round(end) % tick for end in ends)
    _, cut = min(
        (sum((end - cut) % tick * number for end, number in cells.items()), cut) for cut in list(cells)[:MANY]
    )
    return [(round(end) - cut) % tick for end in ends]


def _few_of(late: Sequence[int]) -> tuple[float, ...]:
    ordered = sorted(late)
    return tuple(item / SECOND for item in ordered[:: 1 + len(ordered) // _MOST_WAKES])


# The credit of a consumer

_TOGETHER_AT_TICKS, _MORE_TOGETHER = 0.65, 0.1
"""The least concentration of the ends of delays (:func:`_together`), and its least excess over that of their
begins, that indicate ticks.

Recordings on an idle machine have a concentration of 0.81 to 0.93.  On busy machines (0.50, 0.51) clients run
late by more than a tick, and the recorded delays are better evidence than ticks."""

_MOST_WAKES = 500
"""The most observations kept for the distribution of a client's wake-up delays."""


class AckDelay(NamedTuple):
    """The delay of acknowledgements in the broker's system, in microseconds."""

    # The delay by the timer alone, and the average delay.
    shortest: float
    usual: float
    # The interval of ticks; 0 if delays end at any instant. Linux timers expire at ticks, so the credit of
    # several consumers often reaches the broker at the same instant: it reads all of it before it writes.
    tick: int = 0
    # The least time from the tick until the consumer has the message for the credit; the distribution of the
    # additional time in seconds (:func:`wakes`), and the one for ticks that also released producers.
    lateness: float = 0.0
    wakes: tuple[float, ...] = ()
    crowded: tuple[float, ...] = ()

    @classmethod
    def of(cls, returns: Iterable[Sequence[CreditReturn]], woken: Sequence[int] = ()) -> AckDelay:
        """Return the delay that all consumers of a log share; (0, 0) if the log shows none."""
        # ``woken`` are the times at which producers were released, in order.
        delays = [noticeable(own) for own in returns if is_delayed(own)]
        if not delays:
            return cls(0.0, 0.0)
        shortest = median(quantiles([item.delay for item in own], n=10)[0] for own in delays)
        together = sorted(item for own in delays for item in own)
        if _is_ticking(together):
            timer = int(shortest) // TICK * TICK
            early = quantiles([item.delay for item in together], n=20)[0]
            lateness = max(0.0, early - timer - TICK / 20)
            usual = timer + TICK / 2 + lateness
            ends = [item.since + item.delay for item in together]
            late = _after_ticks(ends, TICK)
            crowded = [
                item
                for item, end in zip(late, ends, strict=True)
                if bisect_left(woken, end + TICK) > bisect_left(woken, end - TICK)
            ]
            return cls(
                timer,
                usual,
                TICK,
                max(0.0, lateness - median(late)),
                _few_of(late),
                _few_of(crowded) if len(crowded) >= FEW else (),
            )
        return cls(shortest, typical([item.delay for item in together]))


def _is_ticking(returns: Sequence[CreditReturn]) -> bool:
    """Return whether delays end at ticks: their ends are concentrated within a tick, their begins less."""
    begins = _together([item.since for item in returns])
    ends = _together([item.since + item.delay for item in returns])
    return ends > _TOGETHER_AT_TICKS and ends > begins + _MORE_TOGETHER


def _together(times: Sequence[float]) -> float:
    """Return the concentration of times within a tick: 1 if all are equal, 0 if they are uniform."""
    turns = [2 * pi * time / TICK for time in times]
    return hypot(fsum(map(cos, turns)), fsum(map(sin, turns))) / len(turns)


def _consumer_network(returns: Sequence[CreditReturn], system: AckDelay, latency: float = 0.0) -> Network:
    """Return a consumer's network model with the delay of its settlements."""
    if (len(returns) >= FEW and not is_delayed(returns)) or not system.usual:
        return Network(latency=latency)
    slow = noticeable(returns) if len(returns) >= FEW else []
    if system.tick:
        usual = system.lateness / SECOND
        return Network(
            ack_delay=system.shortest / SECOND,
            latencies=(ValueFrom(0.0, usual), *_interruptions(slow, system, usual)),
            tick=system.tick / SECOND,
            wakes=system.wakes,
            crowded=system.crowded,
        )
    delays = [item.delay for item in slow]
    shortest = quantiles(delays, n=10)[0] if slow else system.shortest
    usual = (typical(delays) if len(slow) >= MANY else system.usual) / SECOND
    return Network(ack_delay=shortest / SECOND, ack_delays=(ValueFrom(0.0, usual), *_course(slow, usual)))


def _interruptions(returns: Sequence[CreditReturn], system: AckDelay, usual: float) -> Steps:
    """Return the spells with delays longer than ticks explain, as latencies in seconds."""
    most = system.usual + system.tick
    steps: list[ValueFrom] = []
    for since, delay, _ in (item for item in returns if item.delay > most):
        value = usual + (delay - system.usual) / SECOND
        add_spell(steps, since / SECOND, (since + 2 * delay) / SECOND, value, usual)
    return tuple(steps)


def _course(returns: Sequence[CreditReturn], usual: float) -> Steps:
    """Return delays as steps in seconds; each lasts for twice the delay, then the usual one applies.

    >>> [*map(tuple, _course([CreditReturn(0, 40_000), CreditReturn(500_000, 90_000)], 0.042))]
    [(0.0, 0.04), (0.08, 0.042), (0.5, 0.09), (0.68, 0.042)]
    """
    steps: list[ValueFrom] = []
    for since, delay, _ in returns:
        add_spell(steps, since / SECOND, (since + 2 * delay) / SECOND, delay / SECOND, usual)
    return tuple(steps)


# Networks


def full_networks(
    workload: Workload,
    rows: Mapping[str, Sequence[LogRow]],
    returns: Mapping[str, Sequence[CreditReturn]],
    deliveries: Mapping[str, Mapping[str, int]],
) -> dict[str, Network]:
    """Return each client's network model with all terms."""
    woken = sorted(time for own in rows.values() for time in _release_times(own))
    delay = AckDelay.of(returns.values(), woken)
    costs = works(rows)
    pace = _usual_pace(factor for name, work in costs.items() for factor in _pace_factors(work, rows[name]))
    return {
        name: _producer_network(work, delay, pace, wakes(rows[name], delay.tick, woken))
        for name, work in costs.items()
    } | {
        consumer.name: _consumer_network(
            returns[consumer.name], delay, delivery_latency(deliveries[consumer.name], costs)
        )
        for consumer in workload.consumers
    }
