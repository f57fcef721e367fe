"""A producer's own work: what each send and each completion costs it, and when that took longer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

from qflow.trace.log_rows import LogRow
from qflow.trace.report_costs import Report, cost, growths

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


def round_trips(rows: Sequence[LogRow]) -> list[tuple[int, int, int]]:
    """Return (when, sent so far, time to completion) of transfers that were alone on their way.

    Examples
    --------
    >>> rows = [LogRow(5, "p", "transfer", "q", "p-1", 7, ""), LogRow(9, "p", "complete", "", "p-1", 0, "")]
    >>> round_trips(rows)
    [(5, 1, 4)]
    """
    trips: list[tuple[int, int, int]] = []
    sent = outstanding = 0
    alone, since = "", 0
    for row in rows:
        if row.event == "transfer":
            sent += 1
            outstanding += 1
            alone, since = (row.label, row.ts_us) if outstanding == 1 else ("", 0)
        elif row.event == "complete":
            outstanding -= 1
            if row.label == alone:
                trips.append((since, sent, row.ts_us - since))
    return trips
