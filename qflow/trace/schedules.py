"""When a producer meant to send: what its log shows, and what a block hides."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from qflow.trace.log_rows import LogRow

QUICK = 2_000
"""Microseconds: a client that sends sooner than that after it could has been waiting to."""


class Sent(NamedTuple):
    """One transfer of a producer.

    Fields
    ------
    time : int
        When it was sent.
    free : int
        Since when the producer could have sent it: the send before, or the end of a block.
    wanted : int
        When the producer met a full window with it; the time at which it was sent, if it met none.
    size, group
        Its content bytes, and its group.
    """

    time: int
    free: int
    wanted: int
    size: int
    group: str


def sends_of(rows: Sequence[LogRow]) -> list[Sent]:
    """Return what a producer sent, in order.

    Examples
    --------
    >>> rows = [LogRow(5, "p", "block", "", "", 0, ""), LogRow(9, "p", "unblock", "", "", 0, "")]
    >>> sends_of([*rows, LogRow(10, "p", "transfer", "q", "p-1", 7, "")])
    [Sent(time=10, free=9, wanted=5, size=7, group='')]
    """
    sends: list[Sent] = []
    free, wanted = 0, -1
    for row in rows:
        if row.event == "block" and wanted < 0:
            wanted = row.ts_us
        elif row.event == "unblock":
            free = row.ts_us
        elif row.event == "transfer":
            sends.append(Sent(row.ts_us, free, wanted if wanted >= 0 else row.ts_us, row.size, row.group))
            free, wanted = row.ts_us, -1
    return sends


def catches_up(sends: Sequence[Sent]) -> bool | None:
    """Return whether a producer sends faster after a block than before; None if it never blocked for long.

    One that keeps a schedule owes the messages that fell due in the meantime; the second send after a
    block tells, as the first one follows at once in either case.

    Examples
    --------
    >>> blocked = Sent(90_000, 89_900, 20_000, 7, "")
    >>> catches_up([Sent(10_000, 0, 10_000, 7, ""), blocked, Sent(90_100, 90_000, 90_100, 7, "")])
    True
    >>> catches_up([Sent(10_000, 0, 10_000, 7, ""), blocked, Sent(99_000, 90_000, 99_000, 7, "")])
    False
    >>> catches_up([Sent(10_000, 0, 10_000, 7, "")]) is None
    True
    """
    if len(sends) < 2:
        return None
    free_gaps = [item.wanted - item.free for item in sends if item.wanted - item.free >= QUICK]
    usual = sum(free_gaps) / len(free_gaps) if free_gaps else QUICK
    owing = [
        (after.wanted - after.free) < QUICK
        for item, after in pairwise(sends)
        if item.time - item.wanted > 2 * usual
    ]
    return sum(owing) > len(owing) / 2 if owing else None


def gaps(times: Iterable[int]) -> Iterator[int]:
    """Yield the microseconds from each instant to the next, the first from 0; none is negative.

    Examples
    --------
    >>> list(gaps([10, 30, 30]))
    [10, 20, 0]
    """
    before = 0
    for time in times:
        yield max(0, time - before)
        before = time


def think_times(sends: Sequence[Sent]) -> list[int]:
    """Return the microseconds between each send and the wish for the next (the closed model).

    They are a producer's own only if it does not catch up after a block: who owes messages does not think.

    Examples
    --------
    >>> think_times([Sent(10, 0, 10, 7, ""), Sent(90, 89, 20, 7, "")])
    [10, 10]
    """
    before = 0
    times: list[int] = []
    for item in sends:
        times.append(max(0, item.wanted - before))
        before = item.time
    return times


def inferred_schedule(sends: Sequence[Sent], end: int) -> list[int]:
    """Return when each message was due, as far as can be told (the open model).

    A message sent by a producer that was not behind was due then.  Those sent in haste after a block are
    spread evenly over the time since the block began.  A producer still behind at the end would have
    gone on at its average rate.

    Examples
    --------
    >>> sends = [Sent(10_000, 0, 10_000, 7, ""), Sent(90_000, 89_900, 20_000, 7, "")]
    >>> sends += [Sent(90_100, 90_000, 90_100, 7, ""), Sent(120_000, 90_100, 120_000, 7, "")]
    >>> inferred_schedule(sends, 120_000)
    [10000, 20000, 55050, 120000]
    """
    due: list[int] = []
    streak: list[int] = []
    begin = 0
    for index, item in enumerate(sends):
        is_hasty = bool(streak) and item.wanted - item.free < QUICK
        if streak and not is_hasty:
            _spread(due, streak, begin, sends[index - 1].time)
            streak = []
        if not streak:
            begin = item.wanted
        due.append(item.wanted)
        if item.wanted < item.time or streak:
            streak.append(index)
    if streak:
        _spread(due, streak, begin, end)
    if streak and begin > 0:
        gap = max(1, end // max(1, len(due)))
        due.extend(range(due[-1] + gap, end, gap))
    return due


def _spread(due: list[int], streak: Sequence[int], begin: int, end: int) -> None:
    for place, index in enumerate(streak):
        due[index] = begin + (max(end, begin) - begin) * place // len(streak)
