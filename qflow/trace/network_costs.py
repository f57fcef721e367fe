"""What lies between a client and its broker, estimated from the client's own log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, zip_longest
from statistics import median, quantiles

from qflow.trace.log_rows import LogRow
from qflow.trace.producer_work import Work, round_trips
from qflow.workload.agenda import SECOND
from qflow.workload.network import Network, Steps

FEW = 20
NOTICEABLE = 5_000
"""Microseconds: credit that returns faster than that is not delayed by acknowledgements."""

LONGEST = 200_000
"""Microseconds: a longer wait may have another cause, unless the log shows that a message was there."""

LONELY = 1_000_000
"""Microseconds: a transfer that takes longer than that to complete is held by a queue."""

WINDOW = 250_000
"""Microseconds over which the extra time of round trips is taken together."""

EXTRA = 1_000
"""Microseconds: less than that is no load, but chance."""


class Load:
    """By how much the machine's other work lengthens the way from client to broker, over time.

    All clients share the machine, so all their lone round trips tell: in each quarter of a second the
    median of what they take longer than they usually do.

    Parameters
    ----------
    by_client : mapping
        Producer name to its rows.

    Examples
    --------
    >>> Load({}).steps(0.001)
    ()
    """

    def __init__(self, by_client: Mapping[str, Sequence[LogRow]]) -> None:
        extra: list[tuple[int, float]] = []
        for rows in by_client.values():
            trips = [(time, trip) for time, _, trip in round_trips(rows) if trip < LONELY]
            if len(trips) >= FEW:
                usual = median(trip for _, trip in trips)
                extra += [(time, (trip - usual) / 2) for time, trip in trips]
        self._steps = _windows(sorted(extra))

    def steps(self, usual: float) -> Steps:
        """Return a client's latencies over time, given what it usually has, in seconds."""
        return tuple((since / SECOND, usual + extra / SECOND) for since, extra in self._steps)

    def at(self, times: Iterable[int]) -> list[float]:
        """Return the extra microseconds of each way, at instants that do not go back."""
        found: list[float] = []
        place, extra = 0, 0.0
        for time in times:
            while place < len(self._steps) and self._steps[place][0] <= time:
                extra = self._steps[place][1]
                place += 1
            found.append(extra)
        return found


def _windows(extra: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Return since when the way takes how much longer; nothing for what is as usual from the start.

    Examples
    --------
    >>> slow = [(300_000 + n, 4000.0) for n in range(3)]
    >>> _windows([(0, 10.0), *slow, *[(900_000 + n, 5.0) for n in range(3)]])
    [(250000, 4000.0), (500000, 0.0)]
    """
    steps: list[tuple[int, float]] = []
    for window, items in groupby(extra, lambda item: item[0] // WINDOW):
        values = [value for _, value in items]
        found = median(values) if len(values) >= 3 else 0.0
        begin = window * WINDOW
        if steps and steps[-1][1] and steps[-1][0] + WINDOW < begin:
            steps.append((steps[-1][0] + WINDOW, 0.0))
        value = round(found, 1) if found >= EXTRA else 0.0
        if value or (steps and steps[-1][1]):
            steps.append((begin, value))
    if steps and steps[-1][1]:
        steps.append((steps[-1][0] + WINDOW, 0.0))
    return steps


def consumer_network(
    rows: Sequence[LogRow],
    prefetch: int,
    otherwise: float | None = None,
    sent: Mapping[str, int] | None = None,
    load: Load | None = None,
) -> Network | None:
    """Estimate how a consumer's settlements reach the broker.

    While a consumer holds as many messages as it may, only the return of credit can bring another.  The
    time from its first settlement after a batch of deliveries to the next batch is the delay of credit.

    Parameters
    ----------
    rows : sequence of LogRow
        The consumer's own.
    prefetch : int
        How many messages it may hold.
    otherwise : float or None
        The delay to take if the log does not tell, in seconds.
    sent : mapping
        When each message was sent, as far as is known: what had been sent before the settlement was
        waiting for credit.
    load : Load or None
        What the machine's other work adds.

    Returns
    -------
    Network or None
        None if the log does not tell and nothing else is given.

    Examples
    --------
    >>> consumer_network([], prefetch=1) is None
    True
    >>> consumer_network([], prefetch=1, otherwise=0.04).ack_delay
    0.04
    """
    load = load or Load({})
    told = _credit_delays(rows, prefetch, sent or {})
    if len(told) < FEW:
        return None if otherwise is None else Network(ack_delay=otherwise, latencies=load.steps(0.0))
    usual = median(delay for _, delay in told)
    if usual < NOTICEABLE:
        return Network(latencies=load.steps(0.0))
    slow = [(time, delay) for time, delay in told if delay >= NOTICEABLE]
    extra = load.at(time for time, _ in slow)
    shortest = quantiles([delay for _, delay in slow], n=10)[0]
    course = [
        (time, max(shortest, delay - 2 * added)) for (time, delay), added in zip(slow, extra, strict=True)
    ]
    return Network(
        ack_delay=shortest / SECOND,
        ack_delays=_fading(course, usual),
        latencies=load.steps(0.0),
    )


def _fading(course: Sequence[tuple[int, float]], usual: float) -> Steps:
    """Return delays as steps, in seconds; each holds for twice its length, then the usual one does.

    Examples
    --------
    >>> _fading([(0, 40_000), (500_000, 90_000)], 42_000)
    ((0.0, 0.04), (0.08, 0.042), (0.5, 0.09), (0.68, 0.042))
    """
    steps: list[tuple[float, float]] = []
    ends = [time for time, _ in course[1:]]
    for (time, delay), end in zip_longest(course, ends):
        steps.append((time / SECOND, delay / SECOND))
        if end is None or time + 2 * delay < end:
            steps.append(((time + 2 * delay) / SECOND, usual / SECOND))
    return tuple(steps)


def _credit_delays(rows: Sequence[LogRow], prefetch: int, sent: Mapping[str, int]) -> list[tuple[int, int]]:
    """Return when the credit for each batch began to travel, and for how long; only of what is certain."""
    delays: list[tuple[int, int]] = []
    held, is_full, was_delivery = 0, False, False
    first_settled: int | None = None
    for row in rows:
        if row.event == "deliver":
            if not was_delivery and first_settled is not None:
                delay = row.ts_us - first_settled
                had_come = not row.group and sent.get(row.label, row.ts_us) < first_settled
                if is_full and (delay < LONGEST or had_come):
                    delays.append((first_settled, delay))
                first_settled = None
            held += 1
            is_full, was_delivery = held >= prefetch, True
        elif row.event in ("accept", "release", "reject"):
            if first_settled is None:
                first_settled = row.ts_us
            held -= 1
            was_delivery = False
    return delays


def producer_network(
    rows: Sequence[LogRow],
    ack_delay: float,
    work: Work | None = None,
    load: Load | None = None,
    usual_pace: float = 1.0,
) -> Network:
    """Estimate what a producer's sends and completions cost it.

    Parameters
    ----------
    rows : sequence of LogRow
        The producer's own.
    ack_delay : float
        How long the broker's system delays acknowledgements, in seconds.
    work : Work or None
        What its work costs; None to estimate that from these rows alone.
    load : Load or None
        What the machine's other work adds.
    usual_pace : float
        By how much its work usually takes longer, if its own rows do not tell.

    Examples
    --------
    >>> producer_network([], ack_delay=0.04)
    Network(latency=0.0, ack_delay=0.04, send_cost=0.0, report_cost=0.0, report_growth=0.0)
    """
    load, work = load or Load({}), work or Work(rows)
    trips = [trip - work.report_cost - work.report_growth * sent for _, sent, trip in round_trips(rows)]
    trips = [trip for trip in trips if trip < NOTICEABLE]
    latency = max(0.0, median(trips)) / 2 / SECOND if len(trips) >= FEW else 0.0
    return Network(
        latency=latency,
        ack_delay=ack_delay,
        send_cost=work.send_cost / SECOND,
        report_cost=work.report_cost / SECOND,
        report_growth=work.report_growth / SECOND,
        latencies=load.steps(latency),
        pace=work.pace(usual_pace),
    )
