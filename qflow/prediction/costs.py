"""Costs: estimates of the work of recorded clients, from their log.

A client log has times, but no costs.  At some times, however, a client waits for nothing, and the time until
its next row is its own work:

- **A send** that immediately follows another, of an overdue message: the median of such times.
- **A completion** that follows two others: they arrived together, so the time between them is the work of
  processing one.  The recorded clients keep a list of their transfers, so this work grows with each transfer;
  all clients of a log run the same software, so the growth is estimated from all of them.
- **A round trip** of a transfer that was the only one outstanding, minus the work of its completion.
- **A service** lasts from a delivery, or from the end of the previous service, to the settlement.
- **The return of credit** to a consumer that holds as many messages as its prefetch allows: the broker's
  system delays acknowledgements (by about 40 ms), and settlements wait for them.

Each estimate is a mean or median that applies at all times (:func:`constant_networks`).  This is the first
layer, sufficient to understand a prediction, and the only one with ``detail="constants"``.  The second layer,
:mod:`qflow.prediction.disturbances`, adds the variation of these costs; the calibration page shows the
accuracy of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import mean, median
from typing import NamedTuple

from qflow.logs.client_log import round_trips
from qflow.logs.log_file import LogRow
from qflow.workload.agenda import SECOND
from qflow.workload.model import Consumer, Workload
from qflow.workload.network import Network

FEW, MANY = 20, 200
"""The observations needed for a median, and for a median of a single client."""

_HASTY = 500
"""In microseconds: a send that follows another sooner was overdue."""

_USUAL = 2_000
"""In microseconds: a single piece of work that took longer was interrupted."""

_BY_CHANCE = 1 / 3
"""The largest median of a client's own work, as a share of these limits (recorded: up to 0.32)."""

ANSWERED = 5_000
"""In microseconds: a longer time to an answer or a delivery includes waiting."""


# The work of a producer


class Report(NamedTuple):
    """A completion processed straight after others: the messages sent before it, the work in microseconds."""

    sent: int
    time: int


class Pieces(NamedTuple):
    """Uninterrupted pieces of work: the microseconds of sends, and the reports of completions."""

    sends: list[int]
    reports: list[Report]


def pieces(rows: Sequence[LogRow]) -> Pieces:
    """Return the uninterrupted pieces of work in a producer's log.

    >>> rows = [LogRow(time, "p", "transfer", "q", "", 0, "") for time in (1, 2, 3, 4)]
    >>> rows += [LogRow(time, "p", "complete", "", "", 0, "") for time in (500, 700, 704, 9000)]
    >>> pieces(rows)
    Pieces(sends=[1, 1, 1], reports=[Report(sent=4, time=4)])
    """
    found = Pieces([], [])
    sent = streak = 0
    before = LogRow(0, "", "", "", "", 0, "")
    for row in rows:
        gap = row.ts_us - before.ts_us
        if row.event == before.event == "transfer" and gap < _HASTY:
            found.sends.append(gap)
        sent += row.event == "transfer"
        streak = streak + 1 if row.event == "complete" else 0
        # Only from the third on: the first may travel alone, so the client may have waited for the second.
        if streak > 2 and gap < _USUAL:
            found.reports.append(Report(sent, gap))
        before = row
    # Gaps between unrelated events are uniform up to the limit, and their median is half of it: if a
    # client's work takes almost no time, only such gaps are left.
    if found.sends and median(found.sends) > _BY_CHANCE * _HASTY:
        found.sends.clear()
    if found.reports and median(report.time for report in found.reports) > _BY_CHANCE * _USUAL:
        found.reports.clear()
    return found


class _Cost(NamedTuple):
    """The cost of a completion in microseconds: at the start, and its growth with each message sent."""

    start: float
    growth: float

    def of(self, sent: int) -> float:
        """Return the cost of a completion in microseconds, after a number of messages sent."""
        return self.start + self.growth * sent


def growth(sets: Iterable[Sequence[Report]]) -> float:
    """Return the growth of a completion's work in microseconds per message sent.

    >>> one = [Report(n, 100 + n) for n in range(200)]
    >>> growth([one, [Report(n, n) for n in range(900, 999)]])
    1.0
    """
    # The common slope of lines fitted to the sets, each with its own intercept; 0 if it is negative.
    across = up = 0.0
    for points in sets:
        middles = _middles(points) if len(points) >= FEW else []
        centre = [mean(values) for values in zip(*middles, strict=True)]
        for sent, time in middles:
            across += (sent - centre[0]) ** 2
            up += (sent - centre[0]) * (time - centre[1])
    return max(0.0, up / across) if across else 0.0


def cost(points: Sequence[Report], grows: float) -> _Cost:
    """Return the cost of completions with growth ``grows``, or less if the start were negative."""
    if len(points) < FEW:
        return _Cost(0.0, 0.0)
    sent, time = (mean(values) for values in zip(*_middles(points), strict=True))
    if grows * sent <= time:
        return _Cost(float(time - grows * sent), grows)
    return _Cost(0.0, time / sent)


def _middles(points: Sequence[Report]) -> list[tuple[float, float]]:
    """Return medians of about sixty equal parts of the points, robust against interruptions."""
    ordered = sorted(points)
    size = max(5, len(ordered) // 60)
    cells = (ordered[begin : begin + size] for begin in range(0, len(ordered) - size + 1, size))
    return [(median(sent), median(time)) for sent, time in (zip(*cell, strict=True) for cell in cells)]


class Work:
    """The costs of a producer's work, and the round trip of its transfers, in microseconds."""

    def __init__(self, rows: Sequence[LogRow], own: Pieces, pooled: Pieces, grows: float) -> None:
        sends = own.sends if len(own.sends) >= MANY else pooled.sends
        self.send_cost = float(median(sends)) if len(sends) >= FEW else 0.0
        reports = own.reports if len(own.reports) >= MANY else pooled.reports
        self.report_cost = cost(reports, grows)
        trips = [trip - self.report_cost.of(sent) for _, sent, trip in round_trips(rows)]
        trips = [trip for trip in trips if trip < ANSWERED]
        shortest = _shortest_trip(rows)
        usual = median(trips) if len(trips) >= FEW else shortest if shortest < ANSWERED else 0.0
        self.round_trip = max(0.0, usual)

    def network(self) -> Network:
        """Return the producer's network model, in seconds."""
        return Network(
            latency=self.round_trip / 2 / SECOND,
            send_cost=self.send_cost / SECOND,
            report_cost=self.report_cost.start / SECOND,
            report_growth=self.report_cost.growth / SECOND,
        )


def _shortest_trip(rows: Sequence[LogRow]) -> int:
    """Return the shortest time from a transfer to its completion, in microseconds."""
    sent = {row.label: row.ts_us for row in rows if row.event == "transfer"}
    done = (row for row in rows if row.event == "complete" and row.label in sent)
    return min((row.ts_us - sent[row.label] for row in done), default=ANSWERED)


def works(rows: Mapping[str, Sequence[LogRow]], grows: float | None = None) -> dict[str, Work]:
    """Return the work of each producer; ``grows`` is the growth of completions, None to estimate it."""
    # Clients of one log run the same software on the same machine: the work of a completion grows equally for
    # all, and a client that sent too few messages for an estimate gets that of the others.
    found = {name: pieces(own) for name, own in rows.items()}
    pooled = Pieces(
        [time for own in found.values() for time in own.sends],
        [report for own in found.values() for report in own.reports],
    )
    grows = growth(own.reports for own in found.values()) if grows is None else grows
    return {name: Work(rows[name], own, pooled, grows) for name, own in found.items()}


# The services of a consumer


def works_of(rows: Sequence[LogRow]) -> list[tuple[int, int, str]]:
    """Return begin, end and verdict of each service of a consumer, one after the other."""
    arrived: dict[str, int] = {}
    works: list[tuple[int, int, str]] = []
    free = 0
    for row in rows:
        if row.event == "deliver":
            arrived[row.label] = row.ts_us
        elif row.event in ("accept", "release", "reject"):
            works.append((max(free, arrived.get(row.label, free)), row.ts_us, row.event))
            free = row.ts_us
    return works


_SUBSCRIBED_LATE = 200_000
"""In microseconds: if the first message took longer to arrive, its consumer had not subscribed yet."""


def read_consumer(
    model: Consumer, rows: Sequence[LogRow], sent: Mapping[str, int], network: Network
) -> Consumer:
    """Return a consumer with the services, verdicts, start and end that its log shows."""
    # The seed of the workload file must not influence a prediction.
    model = replace(model, seed=0, network=network)
    first = next((row for row in rows if row.event == "deliver"), None)
    if first is not None:
        is_late = first.ts_us - sent.get(first.label, first.ts_us) > _SUBSCRIBED_LATE
        if is_late or first.ts_us < model.start * SECOND:
            # Before the message arrived, the credit had travelled to the broker, and the message back.
            model = replace(model, start=max(0.0, first.ts_us / SECOND - 2 * network.latency))
    works = works_of(rows)
    ends = [row.ts_us / SECOND for row in rows if row.event == "error"]
    if ends and model.crash is None:
        model = replace(model, crash=max(model.start, ends[0]))
    if not works:
        return model
    times = tuple(max(1, end - begin) / SECOND for begin, end, _ in works)
    released, rejected = (
        sum(verdict == kind for _, _, verdict in works) / len(works) for kind in ("release", "reject")
    )
    return replace(
        model,
        service=("recorded", times),
        slow=(),
        overhead=(),
        outage=None,
        release=released,
        reject=rejected,
    )


# The credit of a consumer

_NOTICEABLE = 5_000
"""In microseconds: a faster return of credit was not delayed by acknowledgements."""

_DELAYED = 30_000
"""In microseconds: systems delay acknowledgements by more than this, Linux by at least 40 ms."""

_LONGEST = 200_000
"""In microseconds: a longer wait may have another cause, unless a message was certainly waiting."""


class CreditReturn(NamedTuple):
    """A return of credit in a log: the time of its begin and its delay, in microseconds."""

    since: int
    delay: float
    # Whether the log shows that a message waited for the credit.
    is_sure: bool = True


def credit_returns(rows: Sequence[LogRow], prefetch: int, sent: Mapping[str, int]) -> list[CreditReturn]:
    """Return the certain returns of credit to a consumer, one for each batch of deliveries."""
    # While a consumer holds as many messages as its prefetch, it gets another only after a return of credit.
    # So the delay of credit is the time from its first settlement after a batch of deliveries to the next
    # batch.
    returns: list[CreditReturn] = []
    held, is_full, was_delivery = 0, False, False
    first_settled: int | None = None
    for row in rows:
        if row.event == "deliver":
            if not was_delivery and first_settled is not None:
                delay = row.ts_us - first_settled
                had_come = not row.group and sent.get(row.label, row.ts_us) < first_settled
                if is_full and (delay < _LONGEST or had_come):
                    returns.append(CreditReturn(first_settled, delay, had_come or bool(row.group)))
                first_settled = None
            held += 1
            is_full, was_delivery = held >= prefetch, True
        elif row.event in ("accept", "release", "reject"):
            if first_settled is None:
                first_settled = row.ts_us
            held -= 1
            was_delivery = False
    return returns


def is_delayed(returns: Sequence[CreditReturn]) -> bool:
    """Return whether a consumer's credit returns with a delay, as far as its log shows."""
    # On a queue that is often empty a delivery waits for a message and not for credit.
    sure = sorted(item.delay for item in returns if item.is_sure)
    # A system that delays acknowledgements delays nearly all of them: the lowest tenth of recorded delays
    # ends at 41 to 43 ms.  The median also includes waiting for a free group, and was too high for some
    # consumers without delayed credit.
    return len(sure) >= FEW and sure[len(sure) // 10] >= _DELAYED


def typical(delays: Sequence[float]) -> float:
    """Return the mean of delays, leaving out those above one and a half times the median.

    >>> typical([42, 43, 47, 900])
    44.0
    """
    # The mean, because it determines how many messages a consumer gets over a long time.
    usual = median(delays)
    return float(mean(delay for delay in delays if delay < 1.5 * usual))


def noticeable(returns: Sequence[CreditReturn]) -> list[CreditReturn]:
    """Return the returns of credit that were delayed by acknowledgements."""
    return [item for item in returns if item.delay >= _NOTICEABLE]


# The latency of a consumer


def delivery_times(
    rows: Mapping[str, Sequence[LogRow]], senders: Iterable[str], readers: Iterable[str]
) -> dict[str, dict[str, int]]:
    """Return the shortest time in microseconds from a transfer to its delivery, by consumer and producer.

    >>> sent = LogRow(5, "p", "transfer", "q", "1", 9, "")
    >>> came = LogRow(9, "c", "deliver", "q", "1", 9, "")
    >>> delivery_times({"p": [sent], "c": [came]}, ["p"], ["c"])
    {'c': {'p': 4}}
    """
    sent = {
        row.label: (name, row.ts_us)
        for name in senders
        for row in rows.get(name, ())
        if row.event == "transfer"
    }
    found: dict[str, dict[str, int]] = {name: {} for name in readers}
    for name, least in found.items():
        for row in rows.get(name, ()):
            if row.event == "deliver" and row.label in sent:
                producer, time = sent[row.label]
                least[producer] = min(least.get(producer, ANSWERED), row.ts_us - time)
    return found


def delivery_latency(least: Mapping[str, int], works: Mapping[str, Work]) -> float:
    """Return a consumer's latency in seconds: the deliveries' minus the producers'."""
    ways = [time - works[name].round_trip / 2 for name, time in least.items() if time < ANSWERED]
    return max(0.0, median(ways)) / SECOND if ways else 0.0


# Networks


def constant_networks(
    workload: Workload,
    rows: Mapping[str, Sequence[LogRow]],
    returns: Mapping[str, Sequence[CreditReturn]],
    deliveries: Mapping[str, Mapping[str, int]],
) -> dict[str, Network]:
    """Return each client's network model with constant costs."""
    delays = [item.delay for own in returns.values() if is_delayed(own) for item in noticeable(own)]
    delay = typical(delays) / SECOND if delays else 0.0
    costs = works(rows, grows=0.0)
    found = {name: replace(work.network(), ack_delay=delay) for name, work in costs.items()}
    for consumer in workload.consumers:
        own = returns[consumer.name]
        is_prompt = not delay or (len(own) >= FEW and not is_delayed(own))
        latency = delivery_latency(deliveries[consumer.name], costs) if is_prompt else 0.0
        found[consumer.name] = Network(latency=latency, ack_delay=0.0 if is_prompt else delay)
    return found
