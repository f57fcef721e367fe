"""Evidence: the demand of each producer as far as a client log shows it.

A log has the messages that a producer sent, not those that it wanted to send.  The two are the same as long
as its window has room.  While the window is full the next message waits, and nothing in the log shows since
when: the demand is *censored*.  Four things can still be determined.

- **The clock.**  If a log begins late, either its clock or its clients started late.  The broker's regular
  reports decide (:class:`LogSpan`); without them the clients are assumed to start late, and the report of a
  prediction tells so.
- **Full windows.**  ``block`` and ``unblock`` rows show them.  In a log without such rows, a window is full
  while as many transfers are outstanding as its capacity allows, and its producer was waiting if it sends as
  soon as one of them completes (:func:`seen_rows` adds the missing rows for all readers of the log).
- **Streaks.**  A producer that was blocked sends its overdue messages without a pause.  The first pause with
  room in the window ends the streak: the producer has then caught up, and from there on its pace is its
  demand.  Each message of a streak was due at some time between the streak's begin and its transfer.
- **Demand** (:class:`Demand`).  If a producer was blocked for little of the time and is not behind at the end
  of the log, its demand is known well enough.  Otherwise the log gives a lower bound.

A window that is never free shows no pause, so a producer that is behind at the log's end may have wanted to
send any number of messages.  A log of other clients, an assumed rate or a model of "usual" demand would be a
guess; only the user can state the demand (``--demand``), or supply a log with a spell without blocking.
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
"""In microseconds: a client that sends sooner after its previous action did not pause."""

_WAKE = 10_000
"""In microseconds: a client that waited for its window sends within this time once there is room."""

_SLOW_WAKE = 4
"""How much longer than the median such a client may take, as a factor."""

_PAUSE = 250_000
"""In microseconds: a client that pauses for longer has nothing to send."""

_IDLE = 30_000
"""In microseconds: a client idle for this long before the log's end had nothing to send."""

_PACE = 5
"""The number of consecutive transfers that show a client's pace."""

_BLOCKED_LITTLE, _BLOCKED_MUCH = 0.02, 0.2
"""Shares of time blocked: below the first, demand is known even if the producer is behind at the end; from
the second on, it is unknown even if the producer caught up, as too much of the log is streaks."""

_LOGGED_LATE = 1.2
"""If a log shows more outstanding transfers than this multiple of the capacity, the log's number is used."""

_STILL_WAITING = 3
"""After this many usual gaps a window that is full at the log's end is taken to block a message."""


# The clock

_MISSED = 1.1
"""If the first report is later than this multiple of the usual gap, the clock began with it."""

_SHORT, _SHORT_AT_LEAST = 0.05, 1_000_000
"""A log ends early if at least this share of the duration and this many microseconds are missing."""


class LogSpan(NamedTuple):
    """The times of the first and last row of a log, and the origin of its clock, in microseconds."""

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
        # Clients may start late, but regular reports of the broker begin with the clock.
        reports = list(dict.fromkeys(row.ts_us for row in log.rows if row.event == "stats"))
        gaps = [after - before for before, after in pairwise(reports)]
        is_late = bool(gaps) and first == reports[0] > _MISSED * median(gaps)
        return cls(first, last, first if is_late else 0)

    def is_short(self, end: int) -> bool:
        """Return whether the log ends well before a time, which is counted from the origin."""
        return end - (self.last - self.origin) >= max(_SHORT_AT_LEAST, _SHORT * end)

    def as_json(self, end: int) -> dict[str, Any]:
        """Return the times in seconds as a JSON value; first and last are counted from the origin."""
        times = self.first - self.origin, self.last - self.origin, self.origin
        found = {name: time / SECOND for name, time in zip(self._fields, times, strict=True)}
        return found | {"is_short": self.is_short(end)}


def from_origin(log: ClientLog, workload: Workload) -> tuple[ClientLog, Workload, LogSpan]:
    """Return log and workload with times counted from the origin of the log's clock, and the old span."""
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
    """A time in which a producer waited for its window, in microseconds; `until` is None at the log's end."""

    since: int
    until: int | None


def _find_full_windows(rows: Sequence[LogRow], capacity: int, end: int) -> list[_FullWindow]:
    """Return the times in which a producer waited for its window, from its rows and capacity.

    >>> rows = [LogRow(0, "p", "transfer", "q", "1", 9, ""), LogRow(5_000, "p", "transfer", "q", "2", 9, ""),
    ...     LogRow(90_000, "p", "complete", "", "1", 0, ""), LogRow(90_050, "p", "transfer", "q", "3", 9, "")]
    >>> _find_full_windows(rows, 2, 200_000)
    [_FullWindow(since=10000, until=90000), _FullWindow(since=90050, until=None)]
    """
    windows = _filled_windows(rows, capacity)
    if not windows:
        return []
    # A message that found the window full need not have been due when the window filled.  In a streak that
    # ended, messages fell due one after the other; the first message of a streak fell due a usual gap later.
    sends = read_sends(_with_windows(rows, windows), end)
    gap = _usual_gap(sends.sent)
    found: list[_FullWindow] = []
    # No backlog is assumed: with few messages it is often too large, and blocking must not be overstated.
    due_times = likely_due(sends, backlog=0.0)
    waited = [pair for pair in zip(sends.sent, due_times, strict=True) if pair[0].is_blocked]
    for window, (send, due) in zip(windows, waited, strict=False):
        until = window.until or 0
        wait = _likely_wait(gap, until - window.since) if send.earliest == send.wanted else 0
        if max(due, window.since + wait) < until:
            found.append(_FullWindow(max(due, window.since + wait), until))
    last = windows[-1]
    if last.until is None:
        # A window that stays full blocks a message once the usual time to the next one has passed.
        is_late = bool(sends.sent) and sends.sent[-1].is_late
        if is_late or end - last.since > _STILL_WAITING * gap:
            found.append(last._replace(since=last.since + (0 if is_late else round(gap))))
    return found


def _filled_windows(rows: Sequence[LogRow], capacity: int) -> list[_FullWindow]:
    """Return the times from the transfer that fills a window to the completion that frees it."""
    if not any(row.event == "complete" for row in rows):
        return []
    steps = [(row.event == "transfer") - (row.event in ("complete", "refused")) for row in rows]
    most = max(accumulate(steps), default=0)
    # A completion may be logged a little after the transfer for which it made room.  If far more transfers
    # are outstanding than the workload file allows, the log is right.
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
    # Some messages fall due by chance just when there is room; they are later than a client usually wakes.
    wake = max(_PROMPT, _SLOW_WAKE * median(pauses)) if pauses else 0
    found = [window for window, pause in zip(found, pauses, strict=True) if pause < wake]
    return found if filled is None or released is not None else [*found, _FullWindow(filled, None)]


def _likely_wait(gap: float, span: int) -> int:
    """Return the expected microseconds until the next message is due, if it is due within a span."""
    return round(gap - span / expm1(min(500.0, span / gap))) if span > 0 else 0


def seen_rows(log: ClientLog, workload: Workload) -> dict[str, list[LogRow]]:
    """Return each client's rows, with inferred ``block`` and ``unblock`` rows if it has none."""
    # Producers on a shared session also share its window; their rows are left unchanged.
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
    # At the same instant completions come before "unblock", and transfers after it; sorting is stable.
    order = {"unblock": 1, "block": 2, "transfer": 2}
    return sorted([*rows, *added], key=lambda row: (row.ts_us, order.get(row.event, 0)))


# Streaks


class Send(NamedTuple):
    """A transfer of a producer; times in microseconds."""

    time: int
    # The time at which the producer tried to send it: earlier than `time` if the window was full.
    wanted: int
    # The begin of its streak of late messages, before which it was not due.
    earliest: int
    size: int
    group: str
    is_blocked: bool

    @property
    def is_late(self) -> bool:
        """Whether the message may have been due before it was sent."""
        return self.earliest < self.time


class Sends(NamedTuple):
    """All transfers of a producer, and whether it had more to send when the log ended."""

    sent: list[Send]
    # The begin of a streak that had not ended at the end of the log; None without one.
    behind_since: int | None
    # The end of the workload, after which no message falls due.
    end: int


def read_sends(rows: Sequence[LogRow], end: int) -> Sends:
    """Return a producer's transfers with their streaks; ``end`` is the time at which its demand ends."""
    # A log may continue after the end: a message that is sent then was due before it.
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
    """A producer's attempt to send: its time, the pause before it, and whether the window was full."""

    time: int
    pause: int
    is_blocked: bool
    row: LogRow


def _wishes(rows: Sequence[LogRow]) -> tuple[list[_Wish], int | None, int]:
    """Return the attempts that led to a transfer, the time of one that did not, and of the last action."""
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
    """Return whether a producer that was late had no overdue message before an attempt to send."""
    # A client that is behind is interrupted, too: on a busy machine recorded clients paused for up to 160 ms
    # with thousands of overdue messages and room in the window, and sent several at a slow pace.  So neither
    # one nor three pauses are conclusive, but five attempts of which at most one is prompt.
    if wishes[place].pause >= _PAUSE:
        return True
    following = wishes[place : place + _PACE]
    slow = sum(wish.pause >= _PROMPT and not wish.is_blocked for wish in following)
    return wishes[place].pause >= _PROMPT and slow >= len(following) - 1


def _usual_gap(sends: Sequence[Send]) -> float:
    """Return the mean time from a transfer to the attempt to send the next, in microseconds."""
    gaps = [after.wanted - item.time for item, after in pairwise(sends)]
    return mean([gap for gap in gaps if gap >= _PROMPT] or [_PROMPT])


def likely_due(sends: Sends, backlog: float = 0.5) -> list[int]:
    """Return the likely due times of messages; a larger ``backlog`` makes late ones due earlier."""
    # A streak begins and ends without a backlog, and has one in between.  With evenly due messages, replays
    # of a producer with bursts were blocked for only two thirds of the recorded time.  So messages fall due
    # at twice the pace of sending at first, and throughout a streak that did not end: with all of them due
    # at its begin, replays at once filled windows that the log never shows full.
    due: list[int] = []
    for (_, begin), items in groupby(sends.sent, lambda item: (item.is_late, item.earliest)):
        streak = list(items)
        last = min(streak[-1].time, sends.end)
        for place, item in enumerate(streak):
            part = place / len(streak)
            part *= 0.5 if begin == sends.behind_since else 1 - backlog * (1 - part)
            # One that met a full window was due by then.
            latest = min(item.wanted if backlog else item.time, sends.end)
            due.append(min(latest, begin + round((last - begin) * part)))
    return due


def catches_up(sends: Sequence[Send]) -> bool | None:
    """Return whether a producer sends overdue messages after a block; None without a long block."""
    # The second transfer after a block decides, as the first one follows at once in any case.
    long = 2 * _usual_gap(sends)
    owing = [
        after.earliest == item.earliest for item, after in pairwise(sends) if item.time - item.wanted > long
    ]
    return sum(owing) > len(owing) / 2 if owing else None


# Demand


@dataclass(frozen=True, slots=True)
class Demand:
    """The evidence of a producer's demand, which is the rate at which it wanted to send."""

    # The rate at which it sent, or that the user states, in messages a second.
    at_least: float
    # The share of time in which its window was full.
    blocked_share: float = 0.0
    # The number of streaks of late messages that ended within the log, and of all streaks.
    caught_up: int = 0
    streaks: int = 0
    # Whether it had more to send when the log ended.
    is_behind: bool = False
    is_stated: bool = False

    @property
    def is_known(self) -> bool:
        """Whether the log shows the demand, or the user has stated it."""
        if self.is_stated or self.blocked_share < _BLOCKED_LITTLE:
            return True
        return self.blocked_share < _BLOCKED_MUCH and not self.is_behind

    @property
    def why(self) -> str:
        """The reason why the demand is known or unknown, in words."""
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
        """Return the demand as a JSON value; ``at_least`` in messages a second."""
        return {
            "known": self.is_known,
            "at_least": self.at_least,
            "why": self.why,
            "blocked_share": self.blocked_share,
        }


def demand_of(rows: Sequence[LogRow], sends: Sends, end: int, stated: float | None = None) -> Demand:
    """Return the evidence of a producer's demand until `end`, from its rows with full windows."""
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
