"""How long a consumer's credit takes to return, estimated from its log: what acknowledgements delay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import mean, median, quantiles
from typing import NamedTuple

from qflow.trace.log_rows import LogRow
from qflow.trace.producer_work import FEW

NOTICEABLE = 5_000
"""Microseconds: credit that returns faster than that is not delayed by acknowledgements."""

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

    Examples
    --------
    >>> SystemDelay.of([[Told(0, delay) for delay in range(41_000, 45_000, 100)], []])
    SystemDelay(shortest=41310.0, usual=42950.0)
    """

    shortest: float
    usual: float

    @classmethod
    def of(cls, told: Iterable[Sequence[Told]]) -> SystemDelay:
        """Return that of the system which all consumers of a log share; (0, 0) if none tells."""
        delayed = [
            [item.delay for item in own if item.delay >= NOTICEABLE] for own in told if is_delayed(own)
        ]
        if not delayed:
            return cls(0.0, 0.0)
        together = [delay for own in delayed for delay in own]
        return cls(median(quantiles(own, n=10)[0] for own in delayed), typical(together))


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
