"""Evidence: the demand of each producer in a client log, and its limits.

A log holds what was sent, not what a producer wanted to send.  The two are the same as long as its window has
room.  While the window is full the next message waits, and nothing in the log says since when: the demand is
*censored*.  Four things can still be read.

- **The clock.**  Of a log that begins late either the clock does or the clients do.  The broker's regular
  reports tell (:class:`LogSpan`); without them the clients are taken to start late, and the report says so.
- **Full windows.**  Logs with ``block`` and ``unblock`` rows state them.  In any other log a window is full
  while as many transfers are outstanding as its capacity allows, and its producer was waiting if it sends as
  soon as one of them completes (:func:`seen_rows` adds the missing rows for all that reads a log).
- **Streaks.**  A producer that was blocked sends its overdue messages without a pause.  The first pause with
  room in the window ends the streak: then the producer has caught up, and from there on its pace is its
  demand.  Each message of a streak was due at some time from the streak's begin until it was sent.
- **Demand** (:class:`Demand`).  Of a producer that was blocked for little of the time, and is not behind when
  the log ends, demand is known well enough.  Of any other the log gives a lower bound.

No pause is seen in a window that is never free, so a producer that is behind at the log's end may have wanted
to send any number of messages.  A log of other clients, a stated rate or a model of "usual" demand would be a
guess; only the user can say (``--demand``), or a spell of the log without blocking.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from math import expm1, inf
from statistics import mean, median
from typing import Any, NamedTuple

from qflow.logs.client_log import ClientLog, rows_by_client
from qflow.logs.log_file import LogRow
from qflow.workload.agenda import SECOND
from qflow.workload.model import Workload

_PROMPT = 1_000
"""Microseconds: a client that sends within that time of its previous act did not pause."""

_WAKE = 10_000
"""Microseconds within which a client that waited for its window sends, once it has room."""

_SLOW_WAKE = 4
"""How many times as long as usual such a client may take to wake up."""

_PAUSE = 250_000
"""Microseconds: a longer pause is no interruption of a client that has something to send."""

_IDLE = 30_000
"""Microseconds: a client that did nothing for that long before the log's end had nothing to send."""

_PACE = 5
"""Transfers in a row that show a client's pace."""

_BLOCKED_LITTLE, _BLOCKED_MUCH = 0.02, 0.2
"""Shares of time blocked: below the first, demand is known even of a producer that is behind at the end; from
the second on, it is not known even of one that caught up, as too much of the log is streaks."""

_LOGGED_LATE = 1.2
"""How many times its capacity a producer's log may show outstanding."""

_STILL_WAITING = 3
"""Usual gaps after which a window that is full at the log's end holds a message back."""


# The clock

_MISSED = 1.1
"""Usual gaps between reports after which a first report shows that the clock did not begin before it."""

_SHORT, _SHORT_AT_LEAST = 0.05, 1_000_000
"""A log ends early if that share of the duration is missing, and that many microseconds."""


class LogSpan(NamedTuple):
    """The first and last row of a log and the origin of its clock, in microseconds."""

    first: int
    last: int
    origin: int = 0

    @classmethod
    def of(cls, log: ClientLog) -> LogSpan:
        """Return the span of a log.

        >>> times = (300_000, 350_000, 400_000)
        >>> reports = [LogRow(time, "broker", "stats", "q", "", 0, "") for time in times]
        >>> LogSpan.of(ClientLog("late clock", reports))
        LogSpan(first=300000, last=400000, origin=300000)
        """
        if not log.rows:
            return cls(0, 0)
        first, last = max(0, log.rows[0].ts_us), max(0, log.rows[-1].ts_us)
        # Clients may start late, but a broker that is asked at regular times is asked from the beginning.
        reports = list(dict.fromkeys(row.ts_us for row in log.rows if row.event == "stats"))
        gaps = [after - before for before, after in pairwise(reports)]
        is_late = bool(gaps) and first == reports[0] > _MISSED * median(gaps)
        return cls(first, last, first if is_late else 0)

    def is_short(self, end: int) -> bool:
        """Return whether the log ends well before an instant, counted from the origin."""
        return end - (self.last - self.origin) >= max(_SHORT_AT_LEAST, _SHORT * end)

    def as_json(self, end: int) -> dict[str, Any]:
        """Return the times in seconds, the first and the last since the origin, ready for JSON."""
        times = self.first - self.origin, self.last - self.origin, self.origin
        found = {name: time / SECOND for name, time in zip(self._fields, times, strict=True)}
        return found | {"is_short": self.is_short(end)}


def from_origin(log: ClientLog, workload: Workload) -> tuple[ClientLog, Workload, LogSpan]:
    """Return a log whose clock begins at 0, with its workload, and the span that it had."""
    span = LogSpan.of(log)
    if not 0 < span.origin < workload.duration * SECOND:
        return log, workload, span._replace(origin=0)
    rows = [row._replace(ts_us=row.ts_us - span.origin) for row in log.rows]
    starts = {item.name: max(0.0, item.start - span.origin / SECOND) for item in workload.consumers}
    workload = workload.replace(
        duration=workload.duration - span.origin / SECOND,
        consumers=tuple(replace(item, start=starts[item.name]) for item in workload.consumers),
    )
    return replace(log, rows=rows), workload, span


# Full windows


class _FullWindow(NamedTuple):
    """A time in which a producer waited for its window, in microseconds; ``until`` is None at a log's end."""

    since: int
    until: int | None


def _find_full_windows(rows: Sequence[LogRow], capacity: int, end: int) -> list[_FullWindow]:
    """Return the times in which a producer waited for its window, by its rows in order and its capacity.

    >>> rows = [LogRow(0, "p", "transfer", "q", "1", 9, ""), LogRow(5_000, "p", "transfer", "q", "2", 9, ""),
    ...     LogRow(90_000, "p", "complete", "", "1", 0, ""), LogRow(90_050, "p", "transfer", "q", "3", 9, "")]
    >>> _find_full_windows(rows, 2, 200_000)
    [_FullWindow(since=10000, until=90000), _FullWindow(since=90050, until=None)]
    """
    windows = _filled_windows(rows, capacity)
    if not windows:
        return []
    # A message that found the window full is not known to have been due when the window filled.  In a streak
    # that ended its messages fell due one after the other; the first one of a streak came a usual gap later.
    sends = read_sends(_with_windows(rows, windows), end)
    gap = _usual_gap(sends.sent)
    found: list[_FullWindow] = []
    # Without a backlog: of few messages it is as often too much, and nobody is to be said to be blocked more.
    due_times = likely_due(sends, backlog=0.0)
    waited = [pair for pair in zip(sends.sent, due_times, strict=True) if pair[0].is_blocked]
    for window, (send, due) in zip(windows, waited, strict=False):
        until = window.until or 0
        wait = _likely_wait(gap, until - window.since) if send.earliest == send.wanted else 0
        if max(due, window.since + wait) < until:
            found.append(_FullWindow(max(due, window.since + wait), until))
    last = windows[-1]
    if last.until is None:
        # A window that is never free again holds a message back once the usual time for one has passed.
        is_late = bool(sends.sent) and sends.sent[-1].is_late
        if is_late or end - last.since > _STILL_WAITING * gap:
            found.append(last._replace(since=last.since + (0 if is_late else round(gap))))
    return found


def _filled_windows(rows: Sequence[LogRow], capacity: int) -> list[_FullWindow]:
    """Return the times from the transfer that fills a window to the completion that another one follows."""
    if not any(row.event == "complete" for row in rows):
        return []
    steps = [(row.event == "transfer") - (row.event in ("complete", "refused")) for row in rows]
    most = max(accumulate(steps), default=0)
    # A completion may be logged a little after the transfer for which it made room.  A log in which far more
    # is outstanding than the workload file allows knows better.
    capacity = most if most > _LOGGED_LATE * capacity else capacity
    found: list[_FullWindow] = []
    pauses: list[int] = []
    outstanding, before = 0, -_WAKE
    filled: int | None = None
    released: int | None = None
    for row in rows:
        pause = row.ts_us - before
        before = row.ts_us
        if row.event in ("complete", "refused"):
            outstanding -= 1
            released = row.ts_us if released is None else released
        elif row.event == "transfer":
            if filled is not None and released is not None and pause < _WAKE:
                found.append(_FullWindow(filled, released))
                pauses.append(pause)
            outstanding += 1
            filled, released = row.ts_us if outstanding >= capacity else None, None
        elif row.event == "error":
            filled = None
    # Some messages come as soon as there is room by chance: these come later than a client usually wakes.
    wake = max(_PROMPT, _SLOW_WAKE * median(pauses)) if pauses else 0
    found = [window for window, pause in zip(found, pauses, strict=True) if pause < wake]
    return found if filled is None or released is not None else [*found, _FullWindow(filled, None)]


def _likely_wait(gap: float, span: int) -> int:
    """Return the expected microseconds until the next message is due, given that it is due within a span."""
    return round(gap - span / expm1(min(500.0, span / gap))) if span > 0 else 0


def seen_rows(log: ClientLog, workload: Workload) -> dict[str, list[LogRow]]:
    """Return each client's rows, with ``block`` and ``unblock`` rows also where the log has none."""
    # A producer that shares its session shares its window, too, and keeps the rows that it has.
    found = rows_by_client(log.rows)
    end = round(workload.duration * SECOND)
    for producer in workload.producers:
        own = found.get(producer.name, [])
        if not producer.session and not any(row.event == "block" for row in own):
            windows = _find_full_windows(own, producer.capacity, end)
            if windows:
                found[producer.name] = _with_windows(own, windows)
    return found


def _with_windows(rows: Sequence[LogRow], windows: Sequence[_FullWindow]) -> list[LogRow]:
    added = [
        LogRow(time, rows[0].client, event, "", "", 0, "")
        for window in windows
        for time, event in ((window.since, "block"), (window.until, "unblock"))
        if time is not None
    ]
    # Sorting is stable: what completes at the same instant comes before, a transfer after it.
    order = {"unblock": 1, "block": 2, "transfer": 2}
    return sorted([*rows, *added], key=lambda row: (row.ts_us, order.get(row.event, 0)))


# Streaks


class Send(NamedTuple):
    """One transfer of a producer; times in microseconds."""

    time: int
    # When it met a full window, if it met one.
    wanted: int
    # The begin of the streak of late messages that it belongs to: it was due no earlier.
    earliest: int
    size: int
    group: str
    is_blocked: bool

    @property
    def is_late(self) -> bool:
        """Whether it may have been due before it was sent."""
        return self.earliest < self.time


class Sends(NamedTuple):
    """All transfers of a producer, and whether it had more to send when the log ended."""

    sent: list[Send]
    # The begin of the streak that had not ended when the log did.
    behind_since: int | None
    # When the last message fell due at the latest, as the workload says.
    end: int


def read_sends(rows: Sequence[LogRow], end: int) -> Sends:
    """Return a producer's transfers with their streaks; ``end`` is when its demand ends."""
    # A log may go on after that: a message that is sent then was due before.
    wishes, blocked, last = _wishes(rows)
    sent: list[Send] = []
    streak: int | None = None
    for place, wish in enumerate(wishes):
        if streak is not None and _has_caught_up(wishes, place):
            streak = None
        wanted = min(wish.time, end)
        if streak is None and (wish.is_blocked or wish.row.ts_us > end):
            streak = wanted
        earliest, row = wanted if streak is None else streak, wish.row
        sent.append(Send(row.ts_us, wanted, earliest, row.size, row.group, wish.is_blocked))
    if blocked is not None:
        return Sends(sent, blocked if streak is None else streak, end)
    return Sends(sent, None if end - last >= _IDLE else streak, end)


class _Wish(NamedTuple):
    """A producer's wish to send: when it met the window, and for how long the producer paused before."""

    time: int
    pause: int
    is_blocked: bool
    row: LogRow


def _wishes(rows: Sequence[LogRow]) -> tuple[list[_Wish], int | None, int]:
    """Return the wishes that were granted, the time of one that was not, and the time of the last act."""
    found: list[_Wish] = []
    blocked: int | None = None
    pause = before = -_PAUSE
    for row in rows:
        if row.event == "block" and blocked is None:
            blocked, pause = row.ts_us, row.ts_us - before
        elif row.event == "transfer":
            time = row.ts_us if blocked is None else blocked
            pause = row.ts_us - before if blocked is None else pause
            found.append(_Wish(time, pause, blocked is not None, row))
            blocked = None
        elif row.event == "error":
            blocked = None
        before = row.ts_us
    return found, blocked, before


def _has_caught_up(wishes: Sequence[_Wish], place: int) -> bool:
    """Return whether a producer that was late had nothing overdue before a wish."""
    # A client that is behind is interrupted as well: on a busy machine recorded ones paused for up to 160 ms
    # with thousands of overdue messages and room in the window, and sent several at a slow pace.  So neither
    # one such pause nor three tell, but five wishes of which at most one is prompt.
    if wishes[place].pause >= _PAUSE:
        return True
    following = wishes[place : place + _PACE]
    slow = sum(wish.pause >= _PROMPT and not wish.is_blocked for wish in following)
    return wishes[place].pause >= _PROMPT and slow >= len(following) - 1


def _usual_gap(sends: Sequence[Send]) -> float:
    """Return the mean pause from a transfer to the wish for the next, in microseconds."""
    gaps = [after.wanted - item.time for item, after in pairwise(sends)]
    return mean([gap for gap in gaps if gap >= _PROMPT] or [_PROMPT])


def likely_due(sends: Sends, backlog: float = 0.5) -> list[int]:
    """Return the likely due times of messages; with a ``backlog`` late ones fell due early."""
    # A streak begins and ends without a backlog and has one in between.  With messages due evenly, replays of
    # a producer that had bursts were blocked for two thirds of the recorded time.  Here they are due at twice
    # the pace of sending at the begin, and so for all of a streak that did not end: with all of it due at its
    # begin, replays filled windows at once that the log never shows full.
    due: list[int] = []
    for (_, begin), items in groupby(sends.sent, lambda item: (item.is_late, item.earliest)):
        times = [min(item.time, sends.end) for item in items]
        for place, time in enumerate(times):
            part = place / len(times)
            part *= 0.5 if begin == sends.behind_since else 1 - backlog * (1 - part)
            due.append(min(time, begin + round((times[-1] - begin) * part)))
    return due


def catches_up(sends: Sequence[Send]) -> bool | None:
    """Return whether a producer sends overdue messages after a block; None if it never blocked for long."""
    # The second transfer after a block tells, as the first one follows at once in either case.
    long = 2 * _usual_gap(sends)
    owing = [
        after.earliest == item.earliest for item, after in pairwise(sends) if item.time - item.wanted > long
    ]
    return sum(owing) > len(owing) / 2 if owing else None


# Demand


@dataclass(frozen=True, slots=True)
class Demand:
    """The evidence of one producer's demand: of the messages that it wanted to send."""

    # Messages a second that it sent, or that the user states.
    at_least: float
    # The share of time in which its window was full.
    blocked_share: float = 0.0
    # Streaks of late messages: those that ended before the log did, and all.
    caught_up: int = 0
    streaks: int = 0
    # Whether it had more to send when the log ended.
    is_behind: bool = False
    is_stated: bool = False

    @property
    def is_known(self) -> bool:
        """Whether the demand is seen in the log, or stated by the user."""
        if self.is_stated or self.blocked_share < _BLOCKED_LITTLE:
            return True
        return self.blocked_share < _BLOCKED_MUCH and not self.is_behind

    @property
    def why(self) -> str:
        """The reason, in words."""
        if self.is_stated:
            return "as stated"
        if not self.streaks:
            return "it was never blocked"
        full = f"its window was full {100 * self.blocked_share:.3g} % of the time"
        if self.is_known:
            return f"{full}, and it caught up afterwards" if self.caught_up else full
        if not self.caught_up:
            return f"{full}, and it never caught up"
        again = f"{full}; it caught up after {self.caught_up} of {self.streaks} spells of blocking"
        return again + (", and was behind when the log ended" if self.is_behind else "")

    def as_json(self) -> dict[str, Any]:
        """Return the demand ready for JSON; ``at_least`` in messages a second."""
        return {
            "known": self.is_known,
            "at_least": self.at_least,
            "why": self.why,
            "blocked_share": self.blocked_share,
        }


def demand_of(rows: Sequence[LogRow], sends: Sends, end: int, stated: float | None = None) -> Demand:
    """Return the evidence of a producer's demand up to the end, from its rows with full windows."""
    if stated is not None:
        return Demand(stated, is_stated=True)
    blocked, since = 0, inf
    for row in rows:
        if row.event == "block":
            since = min(since, row.ts_us)
        elif row.event in ("unblock", "error") and since < end:
            blocked += min(row.ts_us, end) - round(since)
            since = inf
    blocked += end - round(since) if since < end else 0
    streaks = {item.earliest for item in sends.sent if item.is_late} - {sends.behind_since}
    is_behind = sends.behind_since is not None
    return Demand(
        len(sends.sent) * SECOND / end, blocked / end, len(streaks), len(streaks) + is_behind, is_behind
    )
