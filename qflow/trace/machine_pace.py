"""By which factor a machine's other work lengthens its clients' own, over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean, median

from qflow.trace.producer_work import NEAR, Episode
from qflow.workload.agenda import SECOND
from qflow.workload.network import Steps

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
