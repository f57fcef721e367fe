"""By which factor a machine's other work lengthens its clients' own, over time.

Whether simulated producers catch up as fast as the recorded ones, and by how much they must slow down.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import mean, median

from qflow.broker.events import Event
from qflow.logs.log_file import LogRow
from qflow.prediction.costs import NEAR, STOPPED, Episode
from qflow.workload.agenda import SECOND
from qflow.workload.model import Workload
from qflow.workload.network import Network, Steps
from qflow.workload.simulate import simulate

ENOUGH = 10
"""Episodes that tell what is usual."""

AGREEING = 3
"""Episodes that tell of an instant."""

Factors = Sequence[tuple[Episode, float]]


def interruption(overheads: Iterable[Sequence[float]]) -> float:
    """Return by which factor what interrupts consumers lengthens what they do anyway.

    A service takes longer than its draw: for the waking up, which is much the same each time and shows in
    the median, and for what else the machine does, which shows in the mean.

    Parameters
    ----------
    overheads : iterable of sequence of float
        For each consumer, by how much its services took longer than their draws, in seconds.

    Returns
    -------
    float
        The median over all consumers; 1 if none tells.

    Examples
    --------
    >>> interruption([(0.0002, 0.0002, 0.0005), ()])
    1.5
    """
    ratios = [
        mean(overhead) / usual for overhead in overheads if overhead and (usual := median(overhead)) > 0
    ]
    return max(1.0, round(median(ratios), 3)) if ratios else 1.0


def usual_pace(factors: Iterable[float], otherwise: float = 1.0) -> float:
    """Return the median of the factors of all producers.

    Parameters
    ----------
    factors : iterable of float
        Those of all episodes.
    otherwise : float
        What stands for each factor that there are too few of.

    Examples
    --------
    >>> usual_pace([1.5, 9.0], otherwise=1.2)
    1.2
    """
    found = list(factors)
    return median(found + [otherwise] * (ENOUGH - len(found)))


def machine_pace(factors: Factors, usual: float) -> Steps:
    """Return the factor of a machine over time, from the episodes of all its clients.

    Parameters
    ----------
    factors : sequence of (Episode, float)
        In any order.
    usual : float
        What holds where fewer than three episodes tell.

    Examples
    --------
    >>> episodes = [(Episode(begin), 5.0) for begin in (9_000_000, 9_500_000, 9_900_000)]
    >>> machine_pace(episodes, 1.5)
    ((0.0, 1.5), (8.0, 5.0), (10.0, 1.5))
    """
    windows: dict[int, list[float]] = {}
    for episode, factor in factors:
        for window in range(episode.begin // NEAR, episode.end // NEAR + 1):
            windows.setdefault(window, []).append(factor)
    steps: list[tuple[float, float]] = [(0.0, round(usual, 3))]
    for window in sorted(windows):
        if len(windows[window]) >= AGREEING:
            since = window * NEAR / SECOND
            if steps[-1][0] == since:
                steps.pop()
            steps += [(since, round(median(windows[window]), 3)), (since + NEAR / SECOND, round(usual, 3))]
    return tuple(steps)


def client_pace(own: Factors, machine: Steps) -> Steps:
    """Return the factor of one client over time: its own episodes', and the machine's away from them.

    Parameters
    ----------
    own : sequence of (Episode, float)
        Its episodes, in order; each tells of the two seconds before and after it, as long as no other is
        nearer.
    machine : Steps
        What :func:`machine_pace` returns.

    Examples
    --------
    >>> client_pace([(Episode(5_000_000), 2.0)], ((0.0, 1.5), (6.0, 4.0), (8.0, 1.5)))
    ((0.0, 1.5), (3.0, 2.0), (7.0, 4.0), (8.0, 1.5))
    """
    steps: list[tuple[float, float]] = []
    until = 0.0
    for place, (episode, factor) in enumerate(own):
        since = max(0, episode.begin - NEAR)
        if place and since < own[place - 1][0].end + NEAR:
            since = (own[place - 1][0].end + episode.begin) // 2
        steps += _part(machine, until, since / SECOND)
        steps.append((since / SECOND, factor))
        following = own[place + 1][0].begin if place + 1 < len(own) else None
        until = (episode.end + NEAR) / SECOND
        if following is not None and following - NEAR < episode.end + NEAR:
            until = (episode.end + following) // 2 / SECOND
    return (*steps, *_part(machine, until, float("inf")))


def _part(steps: Steps, since: float, until: float) -> list[tuple[float, float]]:
    """Return what holds from one instant to another."""
    if since >= until:
        return []
    before = [value for time, value in steps if time <= since]
    rest = [(time, value) for time, value in steps if since < time < until]
    return [(since, before[-1]), *rest] if before else rest


ENOUGH_RELEASES = 5
"""Releases of a producer that tell how fast it catches up."""

MANY = 10
"""Messages: who has fewer to send waits for the broker more than it works."""

LONGEST = 30.0
"""Seconds of a recording that are run to see how fast its producers catch up."""

FASTEST, SLOWEST = 0.5, 2.0
"""A factor beyond these is no matter of pace: the run took another course."""


def releases(rows: Iterable[LogRow]) -> list[list[int]]:
    """Return when a producer sent its first, second, ... message each time a stopped queue had let it go.

    Parameters
    ----------
    rows : iterable of LogRow
        The producer's own, in order.

    Returns
    -------
    list of list of int
        For each time, microseconds since then.

    Examples
    --------
    >>> events = ((0, "block"), (200_000, "complete"), (200_300, "unblock"), (200_400, "transfer"))
    >>> releases(LogRow(time, "p", event, "", "", 0, "") for time, event in events)
    [[400]]
    """
    found: list[list[int]] = []
    begin = 0
    before = LogRow(0, "", "", "", "", 0, "")
    for row in rows:
        is_answer = row.event in ("complete", "unblock")
        if is_answer and before.event in ("block", "unblock") and row.ts_us - before.ts_us >= STOPPED:
            begin = row.ts_us
            found.append([])
        elif found and row.event == "transfer":
            found[-1].append(row.ts_us - begin)
        before = row
    return found


def catching_up(recorded: Sequence[Sequence[int]], simulated: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Return how long a producer took for half of what it usually sends when it is let go.

    Returns
    -------
    (float, float)
        Microseconds, recorded and simulated, all times together; (0, 0) if there are fewer than five, or
        half of them is fewer than ten messages.

    Examples
    --------
    >>> catching_up([[100 * n for n in range(20)]] * 5, [[80 * n for n in range(20)]] * 5)
    (4500.0, 3600.0)
    """
    if min(len(recorded), len(simulated)) < ENOUGH_RELEASES:
        return 0.0, 0.0
    half = int(min(median(map(len, recorded)), median(map(len, simulated)))) // 2
    if half < MANY:
        return 0.0, 0.0
    times = [mean(found[half - 1] for found in side if len(found) >= half) for side in (recorded, simulated)]
    return float(times[0] * len(recorded)), float(times[1] * len(recorded))


def missing_pace(workload: Workload, log: Mapping[str, Sequence[LogRow]]) -> float:
    """Return by which factor the producers of a workload catch up too fast, all together, beside their log.

    A producer's pieces of work are measured one by one, when nothing interrupts them; what passes between
    them (one half of a client wakes the other up, the machine lets another process go first) is not.
    So the recorded settings are run once, to see what is missing.

    Parameters
    ----------
    workload : Workload
        What was extracted, under the recorded settings.
    log : mapping
        Producer name to its rows.

    Returns
    -------
    float
        1 if the log does not tell: no producer was let go at least five times.

    Examples
    --------
    >>> missing_pace(Workload("small", 1, {"q": {}}), {})
    1.0
    """
    told = {name: releases(rows) for name, rows in log.items()}
    if not any(len(found) >= ENOUGH_RELEASES for found in told.values()):
        return 1.0
    run = simulate(workload.replace(duration=min(workload.duration, LONGEST)))
    simulated = {name: releases(rows) for name, rows in _rows(run.events, told).items()}
    pairs = [catching_up(told[name], simulated[name]) for name in told]
    recorded, found = (sum(side) for side in zip(*pairs, strict=True))
    return round(min(SLOWEST, max(FASTEST, recorded / found)), 3) if found else 1.0


def slower(network: Network, factor: float) -> Network:
    """Return a network whose client works more slowly by a factor.

    Examples
    --------
    >>> slower(Network(pace=((0.0, 1.5),)), 2).pace
    ((0.0, 3.0),)
    """
    steps = network.pace or ((0.0, 1.0),)
    return replace(network, pace=tuple((since, round(pace * factor, 3)) for since, pace in steps))


def _rows(events: Iterable[Event], names: Iterable[str]) -> dict[str, list[LogRow]]:
    rows: dict[str, list[LogRow]] = {name: [] for name in names}
    for event in events:
        if event.kind.startswith("client.") and event.session in rows:
            rows[event.session].append(
                LogRow(event.time, event.session, event.kind[7:], event.queue, event.message, 0, "")
            )
    return rows
