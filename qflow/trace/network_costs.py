"""What lies between a client and its broker, estimated from the client's own log."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median, quantiles

from qflow.trace.log_rows import LogRow
from qflow.trace.schedules import QUICK
from qflow.workload.agenda import SECOND
from qflow.workload.network import Network

FEW = 20
MANY = 200
NOTICEABLE = 5_000
"""Microseconds: credit that returns faster than that is not delayed by acknowledgements."""

AT_ONCE = 500
"""Microseconds: a send that follows another sooner than that was not waiting for its time."""

INTERRUPTED = 20_000
"""Microseconds: a longer pause between two reports is no work, but waiting."""

STOPPED = 100_000
"""Microseconds: a block that lasts longer than that was a stopped queue's."""

LONGEST = 200_000
"""Microseconds: no system delays an acknowledgement for longer."""


def consumer_network(rows: Sequence[LogRow], prefetch: int, otherwise: float | None = None) -> Network | None:
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
    delays = _credit_delays(rows, prefetch)
    told = [delay for delay in delays if delay is not None]
    if len(told) < FEW:
        return None if otherwise is None else Network(ack_delay=otherwise)
    usual = median(told)
    if usual < NOTICEABLE:
        return Network()
    sequence = tuple((usual if delay is None else delay) / SECOND for delay in delays)
    return Network(ack_delay=quantiles(told, n=10)[0] / SECOND, ack_delays=sequence)


def _credit_delays(rows: Sequence[LogRow], prefetch: int) -> list[int | None]:
    """Return the delay before each batch but the first; None where something else may have caused it."""
    delays: list[int | None] = []
    held, is_full, was_delivery = 0, False, False
    first_settled: int | None = None
    for row in rows:
        if row.event == "deliver":
            if not was_delivery and first_settled is not None:
                delay = row.ts_us - first_settled
                delays.append(delay if is_full and delay < LONGEST else None)
                first_settled = None
            held += 1
            is_full, was_delivery = held >= prefetch, True
        elif row.event in ("accept", "release"):
            if first_settled is None:
                first_settled = row.ts_us
            held -= 1
            was_delivery = False
    return delays


def producer_network(rows: Sequence[LogRow], ack_delay: float) -> Network:
    """Estimate what a producer's sends and completions cost it.

    Examples
    --------
    >>> producer_network([], ack_delay=0.04)
    Network(latency=0.0, ack_delay=0.04, send_cost=0.0, report_cost=0.0, report_growth=0.0)
    """
    sends, reports = _gaps(rows)
    cost, growth = _line(reports)
    trips = [trip - cost - growth * sent for sent, trip in _round_trips(rows)]
    return Network(
        latency=max(0.0, median(trips)) / 2 / SECOND if len(trips) >= FEW else 0.0,
        ack_delay=ack_delay,
        send_cost=mean(sends) / SECOND if len(sends) >= FEW else 0.0,
        report_cost=cost / SECOND,
        report_growth=growth / SECOND,
    )


def _gaps(rows: Sequence[LogRow]) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the gaps of sends that follow sends at once, and (sent so far, work) of reports.

    While a producer catches up it has hardly another reason to wait but its own work, and what else the
    machine does meanwhile: that time, less the sends, is the work of the reports it learns of.
    """
    sends: list[int] = []
    reports: list[tuple[int, int]] = []
    let_go: list[tuple[int, int]] = []
    count = work = 0
    owes = was_let_go = False
    before = LogRow(0, "", "", "", "", 0, "")
    for row in rows:
        gap = row.ts_us - before.ts_us
        kinds = (before.event, row.event)
        count += row.event == "transfer"
        if kinds == ("transfer", "transfer"):
            owes = owes and gap < QUICK
            if gap < AT_ONCE or (owes and was_let_go):
                sends.append(gap)
        elif kinds == ("complete", "transfer") and gap >= NOTICEABLE:
            owes, work = False, 0
        elif owes and gap < _longest_work(before.event, was_let_go):
            work += gap
            if row.event == "complete":
                (let_go if was_let_go else reports).append((count, work))
                work = 0
        else:
            # A stopped queue has let go of what it held: all comes at once from here on.
            was_let_go = kinds == ("block", "complete") and gap >= STOPPED
            work = 0
        owes = owes or row.event == "block"
        before = row
    return sends, let_go if len(let_go) >= MANY else reports + let_go


def _round_trips(rows: Sequence[LogRow]) -> list[tuple[int, int]]:
    """Return (sent so far, time to completion) of transfers that were alone, and soon complete.

    Examples
    --------
    >>> rows = [LogRow(5, "p", "transfer", "q", "p-1", 7, ""), LogRow(9, "p", "complete", "", "p-1", 0, "")]
    >>> _round_trips(rows)
    [(1, 4)]
    """
    trips: list[tuple[int, int]] = []
    sent = outstanding = 0
    alone, since = "", 0
    for row in rows:
        if row.event == "transfer":
            sent += 1
            outstanding += 1
            alone, since = (row.label, row.ts_us) if outstanding == 1 else ("", 0)
        elif row.event == "complete":
            outstanding -= 1
            if row.label == alone and row.ts_us - since < NOTICEABLE:
                trips.append((sent, row.ts_us - since))
    return trips


def _longest_work(before: str, was_let_go: bool) -> int:
    if before not in ("block", "transfer"):
        return INTERRUPTED
    return NOTICEABLE if was_let_go else QUICK


def _line(points: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Return the straight line of least squares, as its value at 0 (not below 0) and its slope.

    Examples
    --------
    >>> _line([(n, 100 + n) for n in range(100)])
    (100.0, 1.0)
    """
    if len(points) < FEW:
        return 0.0, 0.0
    across, up = mean(x for x, _ in points), mean(y for _, y in points)
    spread = sum((x - across) ** 2 for x, _ in points)
    growth = max(0.0, sum((x - across) * (y - up) for x, y in points) / spread) if spread else 0.0
    start = up - growth * across
    return (start, growth) if start >= 0 else (up, 0.0)
