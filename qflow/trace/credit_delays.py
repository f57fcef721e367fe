"""How long a consumer's credit takes to return, estimated from its log: what acknowledgements delay."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from statistics import mean, median, quantiles
from typing import NamedTuple

from qflow.trace.log_rows import LogRow
from qflow.trace.producer_work import FEW

NOTICEABLE = 5_000
"""Microseconds: credit that returns faster than that is not delayed by acknowledgements."""

WINDOW = 250_000
"""Microseconds over which the delays that all consumers tell of are taken together."""

TOGETHER = 5
"""Delays in one window that tell of the system, not of one consumer."""

UNUSUAL = 1.25
"""How many times the usual delay is more than chance."""

LONGEST = 200_000
"""Microseconds: a longer wait may have another cause, unless the log shows that a message was there."""


class Told(NamedTuple):
    """One return of credit that a log shows: when it began, and how long it took, in microseconds."""

    since: int
    delay: int


class SystemDelay(NamedTuple):
    """For how long the broker's system delays acknowledgements, in microseconds.

    Fields
    ------
    shortest : float
        The timer's length.
    usual : float
        What they take on average, see :func:`typical`.
    course : tuple of (int, float)
        Since when they take longer, or as usual again: a busy machine lets the broker wait.

    Examples
    --------
    >>> SystemDelay.of([[Told(0, delay) for delay in range(41_000, 45_000, 100)], []])
    SystemDelay(shortest=41310.0, usual=42950.0, course=())
    """

    shortest: float
    usual: float
    course: tuple[tuple[int, float], ...] = ()

    @classmethod
    def of(cls, told: Iterable[Sequence[Told]]) -> SystemDelay:
        """Return that of the system which all consumers of a log share; (0, 0) if none tells."""
        everything = [[item for item in own if item.delay >= NOTICEABLE] for own in told if is_delayed(own)]
        if not everything:
            return cls(0.0, 0.0)
        together = sorted(item for own in everything for item in own)
        shortest = median(quantiles([item.delay for item in own], n=10)[0] for own in everything)
        usual = typical([item.delay for item in together])
        return cls(shortest, usual, tuple(_course(together, usual)))


def _course(told: Sequence[Told], usual: float) -> Iterator[tuple[int, float]]:
    """Yield since when delays take longer than usual, and when they are as usual again.

    Examples
    --------
    >>> told = [Told(600_000 + n, 90_000) for n in range(5)] + [Told(2_000_000, 90_000)]
    >>> list(_course(told, 42_000))
    [(500000, 90000.0), (750000, 42000)]
    """
    for window, items in groupby(told, lambda item: item.since // WINDOW):
        delays = [item.delay for item in items]
        if len(delays) >= TOGETHER and mean(delays) > UNUSUAL * usual:
            yield window * WINDOW, float(mean(delays))
            yield (window + 1) * WINDOW, usual


def typical(delays: Sequence[int]) -> float:
    """Return the mean of delays, but for those that are half as long again as the median: they have a cause.

    The mean, because over many messages it decides how many a consumer gets.

    Examples
    --------
    >>> typical([42, 43, 47, 900])
    44.0
    """
    usual = median(delays)
    return float(mean(delay for delay in delays if delay < 1.5 * usual))


def is_delayed(told: Sequence[Told]) -> bool:
    """Return whether a consumer's credit returns with delay, as far as its log tells.

    Examples
    --------
    >>> is_delayed([Told(0, 42_000)] * 20), is_delayed([Told(0, 300)] * 20), is_delayed([Told(0, 42_000)])
    (True, False, False)
    """
    return len(told) >= FEW and median(item.delay for item in told) >= NOTICEABLE


def credit_delays(rows: Sequence[LogRow], prefetch: int, sent: Mapping[str, int]) -> list[Told]:
    """Return when the credit for each batch began to travel, and for how long; only of what is certain.

    While a consumer holds as many messages as it may, only the return of credit can bring another.  The
    time from its first settlement after a batch of deliveries to the next batch is the delay of credit.

    Parameters
    ----------
    rows : sequence of LogRow
        The consumer's own.
    prefetch : int
        How many messages it may hold.
    sent : mapping
        When each message was sent, as far as is known: what had been sent before the settlement was
        waiting for credit.

    Examples
    --------
    >>> rows = [LogRow(5, "c", "deliver", "q", "p-1", 7, ""), LogRow(9, "c", "accept", "q", "p-1", 0, "")]
    >>> credit_delays([*rows, LogRow(42_009, "c", "deliver", "q", "p-2", 7, "")], 1, {})
    [Told(since=9, delay=42000)]
    """
    delays: list[Told] = []
    held, is_full, was_delivery = 0, False, False
    first_settled: int | None = None
    for row in rows:
        if row.event == "deliver":
            if not was_delivery and first_settled is not None:
                delay = row.ts_us - first_settled
                had_come = not row.group and sent.get(row.label, row.ts_us) < first_settled
                if is_full and (delay < LONGEST or had_come):
                    delays.append(Told(first_settled, delay))
                first_settled = None
            held += 1
            is_full, was_delivery = held >= prefetch, True
        elif row.event in ("accept", "release", "reject"):
            if first_settled is None:
                first_settled = row.ts_us
            held -= 1
            was_delivery = False
    return delays
