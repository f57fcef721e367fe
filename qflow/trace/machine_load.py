"""By how much a machine's other work lengthens the way from its clients to the broker, over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from statistics import median

from qflow.trace.log_rows import LogRow
from qflow.trace.producer_work import FEW, round_trips
from qflow.workload.agenda import SECOND
from qflow.workload.network import Steps

LONELY = 1_000_000
"""Microseconds: a transfer that takes longer than that to complete is held by a queue."""

WINDOW = 250_000
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
    for window, items in groupby(extra, lambda item: item[0] // WINDOW):
        values = [value for _, value in items]
        found = median(values) if len(values) >= 3 else 0.0
        begin = window * WINDOW
        if steps and steps[-1][1] and steps[-1][0] + WINDOW < begin:
            steps.append((steps[-1][0] + WINDOW, 0.0))
        value = round(found, 1) if found >= EXTRA else 0.0
        if value or (steps and steps[-1][1]):
            steps.append((begin, value))
    if steps and steps[-1][1]:
        steps.append((steps[-1][0] + WINDOW, 0.0))
    return steps
