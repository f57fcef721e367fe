"""A producer's own work: what each send and each completion costs it, and when that took longer."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median

from qflow.trace.log_rows import LogRow
from qflow.workload.agenda import SECOND
from qflow.workload.network import Steps

FEW = 20
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
    worked : int
        Microseconds of work, with all interruptions.
    waited : int
        Microseconds spent waiting for the broker.
    sends : int
        How many messages were sent.
    reports : list of int
        For each completion learned of, how many had been sent before.
    """

    __slots__ = ("begin", "end", "worked", "waited", "sends", "reports")

    def __init__(self, begin: int) -> None:
        self.begin = self.end = begin
        self.worked = self.waited = self.sends = 0
        self.reports: list[int] = []

    @property
    def is_telling(self) -> bool:
        """Whether there is enough work in it, and more of that than of waiting for messages that are held."""
        return self.sends + len(self.reports) >= FEW and self.waited <= self.worked


class Work:
    """What a producer's work costs, in microseconds, and its pace over time.

    A piece of work that nothing interrupts takes about the same each time (that of a completion grows
    with what has been sent before, in some clients).  What the machine does meanwhile makes it longer, by
    a factor that each episode tells: the time that it took, over the time that its pieces cost.

    Parameters
    ----------
    rows : sequence of LogRow
        The producer's own.
    due : sequence of int
        When each of its messages was due, if that is known.

    Examples
    --------
    >>> work = Work([])
    >>> work.send_cost, work.report_cost, work.report_growth, work.pace
    (0.0, 0.0, 0.0, ())
    """

    def __init__(self, rows: Sequence[LogRow], due: Sequence[int] = ()) -> None:
        sends, reports = pieces(rows)
        self.send_cost = float(median(sends)) if len(sends) >= FEW else 0.0
        self.report_cost, self.report_growth = line(reports)
        self.pace = self._pace([found for found in episodes(rows, due) if found.is_telling])

    def _pace(self, found: Sequence[Episode]) -> Steps:
        factors = [(episode, factor) for episode in found if (factor := self._factor(episode)) > 0]
        if not factors:
            return ()
        usual = round(median(factor for _, factor in factors), 3) if len(factors) >= 3 else 1.0
        steps: list[tuple[float, float]] = [(0.0, usual)]
        last: Episode | None = None
        for episode, factor in factors:
            since = max(0, episode.begin - NEAR)
            if last is not None and since < last.end + NEAR:
                # The usual pace does not come back between this episode and the one before.
                steps.pop()
                since = (last.end + episode.begin) // 2
            steps += [(since / SECOND, factor), ((episode.end + NEAR) / SECOND, usual)]
            last = episode
        return tuple(steps)

    def _factor(self, episode: Episode) -> float:
        cost = episode.sends * self.send_cost
        cost += sum(self.report_cost + self.report_growth * sent for sent in episode.reports)
        return round(min(SLOWEST, episode.worked / cost), 3) if cost > 0 else 0.0


def pieces(rows: Sequence[LogRow]) -> tuple[list[int], list[tuple[int, int]]]:
    """Return the times of sends that follow sends, and of reports that follow reports as (sent so far, time).

    Only pieces that nothing interrupted.

    Examples
    --------
    >>> rows = [LogRow(time, "p", "complete", "", "", 0, "") for time in (5, 9, 9000)]
    >>> pieces([LogRow(1, "p", "transfer", "q", "", 0, ""), *rows])
    ([], [(1, 4)])
    """
    sends: list[int] = []
    reports: list[tuple[int, int]] = []
    count = 0
    before = LogRow(0, "", "", "", "", 0, "")
    for row in rows:
        gap = row.ts_us - before.ts_us
        count += row.event == "transfer"
        if gap < USUAL and row.event == before.event:
            if row.event == "transfer":
                sends.append(gap)
            elif row.event == "complete":
                reports.append((count, gap))
        before = row
    # Sends that come in haste: others wait for their time.
    quick = [gap for gap in sends if gap < 500]
    return quick, reports


def episodes(rows: Sequence[LogRow], due: Sequence[int] = ()) -> list[Episode]:
    """Return the times in which a producer that a stopped queue has let go catches up.

    Examples
    --------
    >>> def row(time, event):
    ...     return LogRow(time, "p", event, "", "", 0, "")
    >>> rows = [row(0, "transfer"), row(10, "block"), row(500_000, "complete"), row(500_010, "unblock")]
    >>> rows += [row(500_050, "transfer"), row(500_060, "block"), row(900_000, "complete")]
    >>> [(found.begin, found.worked, found.sends, found.reports) for found in episodes(rows, [0, 5, 900_000])]
    [(500000, 60, 1, []), (900000, 0, 0, [])]
    """
    found: list[Episode] = []
    current: Episode | None = None
    before = LogRow(0, "", "", "", "", 0, "")
    sent = 0
    for row in rows:
        gap = row.ts_us - before.ts_us
        waits = before.event in ("block", "transfer") and row.event == "complete"
        if before.event == "block" and row.event == "complete" and gap >= STOPPED:
            current = Episode(row.ts_us)
            found.append(current)
        elif row.event == "transfer" and not _owes(before, gap, sent, due):
            current = None
        elif current is not None:
            current.end = row.ts_us
            if waits and gap >= ANSWERED:
                current.waited += gap
            else:
                current.worked += gap
            if row.event == "transfer":
                current.sends += 1
            elif row.event == "complete":
                current.reports.append(sent)
        sent += row.event == "transfer"
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


def line(points: Sequence[tuple[int, int]]) -> tuple[float, float]:
    """Return the straight line of least squares, as its value at 0 (not below 0) and its slope.

    Examples
    --------
    >>> line([(n, 100 + n) for n in range(100)])
    (100.0, 1.0)
    """
    if len(points) < FEW:
        return 0.0, 0.0
    across, up = mean(x for x, _ in points), mean(y for _, y in points)
    spread = sum((x - across) ** 2 for x, _ in points)
    growth = max(0.0, sum((x - across) * (y - up) for x, y in points) / spread) if spread else 0.0
    start = up - growth * across
    return (start, growth) if start >= 0 else (up, 0.0)
