"""What a report's work costs: planes through what a log shows, as little bent by interruptions as can be.

A producer's own work: what each send and each completion costs it, and when that took longer.

A consumer's own work: how long it took for each message, and whether that is what its workload states.

How long a consumer's credit takes to return, estimated from its log: what acknowledgements delay.

By how much a machine's other work lengthens the way from its clients to the broker, over time.

What lies between clients and their broker, estimated from their own logs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby, zip_longest
from statistics import mean, median, quantiles
from typing import NamedTuple

from qflow.logs.checks import round_trips
from qflow.logs.log_file import LogRow
from qflow.workload.agenda import SECOND
from qflow.workload.arrivals import Service
from qflow.workload.model import Consumer
from qflow.workload.network import Network, Steps

ENOUGH = 20
"""Points that make a plane."""

PARTS = 20
"""Into how many parts points are divided by what had been sent; each of them again in three."""


class Report(NamedTuple):
    """One completion that a client learned of, straight after another.

    Fields
    ------
    sent : int
        How many messages it had sent.
    outstanding : int
        Of how many it had not learned yet that they are complete, this one included.
    time : int
        Microseconds of work.
    """

    sent: int
    outstanding: int
    time: int


class Cost(NamedTuple):
    """What a report's work costs, in microseconds: so much, and for each message sent, and outstanding.

    Examples
    --------
    >>> Cost(10, 0.05, 1).of(sent=2000, outstanding=100)
    210.0
    """

    start: float
    growth: float
    share: float

    def of(self, sent: int, outstanding: int) -> float:
        """Return what one report costs."""
        return self.start + self.growth * sent + self.share * outstanding


def cost(points: Sequence[Report], growth: float, share: float) -> Cost:
    """Return what reports cost that grow with what is sent and outstanding as given.

    If so much growth leaves less than nothing at the start, there is less of it.

    Examples
    --------
    >>> points = [Report(n, 7, 114 + 2 * n) for n in range(100)]
    >>> cost(points, 2, 2), cost(points, 9, 1).start, cost([], 1, 1).growth
    (Cost(start=100.0, growth=2, share=2), 0.0, 0.0)
    """
    if len(points) < ENOUGH:
        return Cost(0.0, 0.0, 0.0)
    middles = _middles(points)
    sent, outstanding, time = (mean(values) for values in zip(*middles, strict=True))
    grown = growth * sent + share * outstanding
    if grown <= time:
        return Cost(float(time - grown), growth, share)
    return Cost(0.0, growth * time / grown, share * time / grown)


def growths(sets: Iterable[Sequence[Report]]) -> tuple[float, float]:
    """Return what each message sent, and each one outstanding, adds to a report's work in several sets.

    Each set has a start of its own; neither number is below 0.

    Examples
    --------
    >>> one = [Report(n, n % 10, 100 + n + 20 * (n % 10)) for n in range(200)]
    >>> other = [Report(n, n % 10, n + 20 * (n % 10)) for n in range(900, 999)]
    >>> [round(value) for value in growths([one, other])]
    [1, 20]
    """
    across = slope = both = up = right = 0.0
    for points in sets:
        if len(points) >= ENOUGH:
            for sent, outstanding, time in _centred(_middles(points)):
                across += sent * sent
                slope += outstanding * outstanding
                both += sent * outstanding
                up += sent * time
                right += outstanding * time
    area = across * slope - both * both
    growth, share = (0.0, 0.0)
    # What lies on one line says nothing of the other direction.
    if area > across * slope / 10:
        growth, share = (up * slope - right * both) / area, (right * across - up * both) / area
    if growth > 0 and share > 0:
        return growth, share
    if share <= 0:
        return max(0.0, up / across if across else 0.0), 0.0
    return 0.0, max(0.0, right / slope if slope else 0.0)


def _centred(points: Sequence[tuple[float, float, float]]) -> Iterator[tuple[float, ...]]:
    middle = [mean(values) for values in zip(*points, strict=True)]
    for point in points:
        yield tuple(value - other for value, other in zip(point, middle, strict=True))


def _middles(points: Sequence[Report]) -> list[tuple[float, float, float]]:
    """Return the medians of parts of points: what was interrupted for a short time counts little."""
    found: list[tuple[float, float, float]] = []
    for part in _parts(sorted(points), PARTS):
        for cell in _parts(sorted(part, key=lambda point: point.outstanding), 3):
            sent, outstanding, time = zip(*cell, strict=True)
            found.append((median(sent), median(outstanding), median(time)))
    return found


def _parts(points: Sequence[Report], number: int) -> list[Sequence[Report]]:
    size = max(5, len(points) // number)
    return [points[begin : begin + size] for begin in range(0, len(points) - size + 1, size)]


FEW = 20
MANY = 200

HASTY = 500
"""Microseconds: a send that follows another sooner than that was not waiting for its time."""

USUAL = 2_000
"""Microseconds: a single piece of work that takes longer was interrupted."""

ANSWERED = 5_000
"""Microseconds: a longer wait for the first answer to what was sent is the way's, not the client's."""

NEAR = 2_000_000
"""Microseconds before and after an episode for which its pace holds, as long as no other is nearer."""

SLOWEST = 100.0
"""A machine that is slower than that stands still."""

STOPPED = 100_000
"""Microseconds: a block that lasts longer than that was a stopped queue's."""


class Episode:
    """A time in which a producer has work to do without pause: it owes messages, and its window moves.

    Attributes
    ----------
    begin, end : int
        Microseconds.
    worked : float
        Microseconds of work, with all interruptions.
    waited : float
        Microseconds spent waiting for the broker.
    sends : int
        How many messages were sent.
    reports : list of (int, int)
        For each completion learned of, how many had been sent before, and how many were outstanding.
    """

    __slots__ = ("begin", "end", "worked", "waited", "sends", "reports")

    def __init__(self, begin: int) -> None:
        self.begin = self.end = begin
        self.worked = self.waited = 0.0
        self.sends = 0
        self.reports: list[tuple[int, int]] = []

    @property
    def is_telling(self) -> bool:
        """Whether there is enough work in it, and more of that than of waiting for messages that are held."""
        return self.sends + len(self.reports) >= FEW and self.waited <= self.worked


class Work:
    """What a producer's work costs, in microseconds, and by which factor it took longer, when.

    A piece of work that nothing interrupts takes about the same each time (that of a completion grows
    with what has been sent before and with what is outstanding, in clients that keep lists of them).
    What the machine does meanwhile makes it longer, by a factor that each episode tells: the time that it
    took, over the time that its pieces cost.

    Parameters
    ----------
    rows : sequence of LogRow
        The producer's own.
    due : sequence of int
        When each of its messages was due, if that is known.
    pooled : Pieces or None
        Those of all producers of the log, which are taken where its own do not tell enough.
    growth : (float, float) or None
        By how much a report's work grows with each transfer before, and with each outstanding, if that is
        known.

    Examples
    --------
    >>> work = Work([])
    >>> work.send_cost, work.report_cost, work.factors
    (0.0, Cost(start=0.0, growth=0.0, share=0.0), [])
    """

    def __init__(
        self,
        rows: Sequence[LogRow],
        due: Sequence[int] = (),
        pooled: Pieces | None = None,
        growth: tuple[float, float] | None = None,
    ) -> None:
        own = pieces(rows, due)
        pooled = pooled or own
        sends = own.sends if len(own.sends) >= MANY else pooled.sends
        self.send_cost = float(median(sends)) if len(sends) >= FEW else 0.0
        reports = own.reports if len(own.reports) >= MANY else pooled.reports
        self.report_cost = cost(reports, *(growth or growths([reports])))
        trips = [trip - self.report_cost.of(sent, 1) for _, sent, trip in round_trips(rows)]
        trips = [trip for trip in trips if trip < ANSWERED]
        self.round_trip = max(0.0, median(trips)) if len(trips) >= FEW else 0.0
        self.factors = [
            (found, factor)
            for found in episodes(rows, due, self.round_trip)
            if found.is_telling and (factor := self._factor(found)) > 0
        ]

    def _factor(self, episode: Episode) -> float:
        work = episode.sends * self.send_cost
        work += sum(self.report_cost.of(sent, outstanding) for sent, outstanding in episode.reports)
        return round(min(SLOWEST, episode.worked / work), 3) if work > 0 else 0.0


class Pieces(NamedTuple):
    """Pieces of work that nothing interrupted.

    Fields
    ------
    sends : list of int
        Microseconds of sends that follow a send, of messages that were due.
    reports : list of Report
        Those that follow two others.
    """

    sends: list[int]
    reports: list[Report]


def pieces(rows: Sequence[LogRow], due: Sequence[int] = ()) -> Pieces:
    """Return the pieces of work that a producer's log shows.

    Examples
    --------
    >>> rows = [LogRow(time, "p", "transfer", "q", "", 0, "") for time in (1, 2, 3, 4)]
    >>> rows += [LogRow(time, "p", "complete", "", "", 0, "") for time in (500, 700, 704, 9000)]
    >>> pieces(rows)
    Pieces(sends=[1, 1, 1], reports=[Report(sent=4, outstanding=2, time=4)])
    """
    found = Pieces([], [])
    count = learned = streak = 0
    before = LogRow(0, "", "", "", "", 0, "")
    for row in rows:
        gap = row.ts_us - before.ts_us
        if row.event == before.event == "transfer" and gap < HASTY and _owes(before, gap, count, due):
            found.sends.append(gap)
        count += row.event == "transfer"
        streak = streak + 1 if row.event == "complete" else 0
        # Sent together, answered together: but the first one travels alone, so the second may be waited for.
        if streak > 2 and gap < USUAL:
            found.reports.append(Report(count, count - learned, gap))
        learned += row.event == "complete"
        before = row
    return found


def works(rows: Mapping[str, Sequence[LogRow]], due: Mapping[str, Sequence[int]]) -> dict[str, Work]:
    """Return the work of each producer of a log.

    Clients of one log run the same software on the same machine: the work of a report grows in the same
    way for all of them, and one that sent too little to tell what its work costs is taken to be like the
    others.

    Examples
    --------
    >>> works({"p": []}, {"p": []})["p"].send_cost
    0.0
    """
    pooled = Pieces([], [])
    sets: list[list[Report]] = []
    for name, own in rows.items():
        found = pieces(own, due[name])
        pooled.sends.extend(found.sends)
        pooled.reports.extend(found.reports)
        sets.append(found.reports)
    growth = growths(sets)
    return {name: Work(own, due[name], pooled, growth) for name, own in rows.items()}


def episodes(rows: Sequence[LogRow], due: Sequence[int] = (), round_trip: float = 0.0) -> list[Episode]:
    """Return the times in which a producer that a stopped queue has let go catches up.

    Parameters
    ----------
    rows : sequence of LogRow
        The producer's own.
    due : sequence of int
        When each of its messages was due, if that is known.
    round_trip : float
        Microseconds for which it waits for an answer anyway.

    Examples
    --------
    >>> def row(time, event):
    ...     return LogRow(time, "p", event, "", "", 0, "")
    >>> rows = [row(0, "transfer"), row(10, "block"), row(500_000, "complete"), row(500_010, "unblock")]
    >>> rows += [row(500_050, "transfer"), row(500_060, "block"), row(900_000, "complete")]
    >>> [(found.begin, found.worked, found.sends, found.reports) for found in episodes(rows, [0, 5, 900_000])]
    [(500000, 60.0, 1, []), (900000, 0.0, 0, [])]
    """
    found: list[Episode] = []
    current: Episode | None = None
    before = LogRow(0, "", "", "", "", 0, "")
    sent = learned = 0
    for row in rows:
        gap = row.ts_us - before.ts_us
        is_answer = row.event in ("complete", "unblock")
        if before.event in ("block", "unblock") and is_answer and gap >= STOPPED:
            current = Episode(row.ts_us)
            found.append(current)
        elif row.event == "transfer" and not _owes(before, gap, sent, due):
            current = None
        elif current is not None:
            current.end = row.ts_us
            waited = 0.0
            if is_answer and before.event != "complete":
                waited = gap if gap >= ANSWERED else min(gap, round_trip)
            current.waited += waited
            current.worked += gap - waited
            if row.event == "transfer":
                current.sends += 1
            elif row.event == "complete":
                current.reports.append((sent, sent - learned))
        sent += row.event == "transfer"
        learned += row.event == "complete"
        before = row
    return found


def _owes(before: LogRow, gap: int, sent: int, due: Sequence[int]) -> bool:
    """Return whether a message that is sent was due when the row before it was written."""
    if due:
        return sent < len(due) and due[sent] <= before.ts_us
    return gap < ANSWERED or before.event == "unblock"


EARLY = 200
"""Microseconds by which a service may seem shorter than its draw, as clocks go."""

LATE = 2_000
"""Microseconds: services that usually take that much longer than the draws are not these draws."""


def served(model: Consumer, rows: Sequence[LogRow], sources: dict[str, str], *, draws: bool) -> Consumer:
    """Return a consumer as its log shows it, and note where its times come from: its draws, or the log.

    Examples
    --------
    >>> sources = {}
    >>> served(Consumer("c", "q", 1, ("const", 0.01)), [], sources, draws=True).name, sources
    ('c', {'c': 'stated'})
    """
    works = works_of(rows)
    ends = [row.ts_us / SECOND for row in rows if row.event == "error"]
    if ends and model.crash is None:
        model = replace(model, crash=max(model.start, ends[0]))
    sources[model.name] = "recorded"
    if not works:
        sources[model.name] = "stated"
        return model
    overhead = _overhead(model, works) if draws else None
    if overhead is not None:
        sources[model.name] = "stated"
        return replace(model, overhead=overhead)
    times = tuple(max(1, end - begin) / SECOND for begin, end, _ in works)
    released, rejected = (
        sum(verdict == kind for _, _, verdict in works) / len(works) for kind in ("release", "reject")
    )
    return replace(
        model, service=("recorded", times), slow=(), overhead=(), release=released, reject=rejected
    )


def works_of(rows: Sequence[LogRow]) -> list[tuple[int, int, str]]:
    """Return (begin, end, verdict) of each message a consumer worked on, one at a time.

    Examples
    --------
    >>> works_of([LogRow(5, "c", "deliver", "q", "p-1", 7, ""), LogRow(9, "c", "accept", "q", "p-1", 0, "")])
    [(5, 9, 'accept')]
    """
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


def _overhead(model: Consumer, works: Sequence[tuple[int, int, str]]) -> tuple[float, ...] | None:
    """Return by how much each service took longer than its draw; None if these are not the draws."""
    if model.service[0] == "recorded" or model.overhead:
        return None
    service = Service(model)
    overhead: list[int] = []
    right = 0
    for begin, end, verdict in works:
        overhead.append(end - begin - service.time(begin))
        right += service.verdict() == verdict
    early = sum(item < -EARLY for item in overhead)
    if len(works) < FEW or right < len(works) or early > len(works) // 50:
        return None
    if median(overhead) > LATE:
        return None
    return tuple(item / SECOND for item in overhead)


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


LONELY = 1_000_000
"""Microseconds: a transfer that takes longer than that to complete is held by a queue."""

LOAD_WINDOW = 250_000
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
    for window, items in groupby(extra, lambda item: item[0] // LOAD_WINDOW):
        values = [value for _, value in items]
        found = median(values) if len(values) >= 3 else 0.0
        begin = window * LOAD_WINDOW
        if steps and steps[-1][1] and steps[-1][0] + LOAD_WINDOW < begin:
            steps.append((steps[-1][0] + LOAD_WINDOW, 0.0))
        value = round(found, 1) if found >= EXTRA else 0.0
        if value or (steps and steps[-1][1]):
            steps.append((begin, value))
    if steps and steps[-1][1]:
        steps.append((steps[-1][0] + LOAD_WINDOW, 0.0))
    return steps


def consumer_network(told: Sequence[Told], system: SystemDelay, load: Load | None = None) -> Network:
    """Estimate how a consumer's settlements reach the broker.

    Parameters
    ----------
    told : sequence of Told
        What its own log tells.
    system : SystemDelay
        What all consumers tell, which holds where this one does not.
    load : Load or None
        What the machine's other work adds.

    Examples
    --------
    >>> consumer_network([], SystemDelay(40_000, 44_000)).ack_delays
    ((0.0, 0.044),)
    >>> consumer_network([Told(0, 300)] * 20, SystemDelay(40_000, 44_000)).ack_delay
    0.0
    """
    load = load or Load({})
    if (len(told) >= FEW and not is_delayed(told)) or not system.usual:
        return Network(latencies=load.steps(0.0))
    if len(told) < FEW:
        # Who tells too little has what the others have, when they have it.
        return Network(
            ack_delay=system.shortest / SECOND,
            ack_delays=(
                (0.0, system.usual / SECOND),
                *((time / SECOND, delay / SECOND) for time, delay in system.course),
            ),
            latencies=load.steps(0.0),
        )
    slow = [item for item in told if item.delay >= NOTICEABLE]
    usual = typical([item.delay for item in slow]) if len(slow) >= MANY else system.usual
    shortest = quantiles([item.delay for item in slow], n=10)[0]
    extra = load.at(item.since for item in slow)
    course = [
        (item.since, max(shortest, item.delay - 2 * added)) for item, added in zip(slow, extra, strict=True)
    ]
    return Network(
        ack_delay=shortest / SECOND,
        ack_delays=((0.0, usual / SECOND), *_fading(course, usual)),
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


def producer_network(
    work: Work, system: SystemDelay, load: Load | None = None, pace: Steps = (), crowd: float = 1.0
) -> Network:
    """Return what a producer's sends and completions cost it.

    Parameters
    ----------
    work : Work
        What its own log tells.
    system : SystemDelay
        For how long the broker's system delays acknowledgements.
    load : Load or None
        What the machine's other work adds.
    pace : Steps
        By which factor its work takes longer, over time.
    crowd : float
        By which factor it usually does.

    Examples
    --------
    >>> producer_network(Work([]), SystemDelay(40_000, 44_000)).ack_delay
    0.04
    """
    latency = work.round_trip / 2 / SECOND
    return Network(
        latency=latency,
        ack_delay=system.shortest / SECOND,
        send_cost=work.send_cost / SECOND,
        report_cost=work.report_cost.start / SECOND,
        report_growth=work.report_cost.growth / SECOND,
        report_share=work.report_cost.share / SECOND,
        latencies=(load or Load({})).steps(latency),
        pace=pace,
        crowd=crowd,
    )
