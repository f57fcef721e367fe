"""Timers: what is to happen at a told time, in order of time and then of asking."""

from __future__ import annotations

import heapq

from qflow.broker.restorable import Restorable


class TimerTask(Restorable):
    """Something that is due at some time."""

    __slots__ = ()

    def fire(self, due: int) -> None:
        """Do it; ``due`` is the time for which it was scheduled, in microseconds."""
        raise NotImplementedError


class Timers(Restorable):
    """Tasks by due time; equal times keep the order in which they were scheduled.

    Examples
    --------
    >>> timers = Timers()
    >>> timers.schedule(20, TimerTask()); timers.schedule(10, TimerTask())
    >>> timers.next_due, timers.take(15)[0], timers.take(15)
    (10, 10, None)
    """

    __slots__ = ("_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, TimerTask]] = []
        self._sequence = 0

    @property
    def next_due(self) -> int | None:
        """When the first task is due, or None."""
        return self._heap[0][0] if self._heap else None

    def scheduled(self) -> list[tuple[int, TimerTask]]:
        """Return what is to happen and when, in order."""
        return [(due, task) for due, _, task in sorted(self._heap, key=lambda entry: entry[:2])]

    def schedule(self, due: int, task: TimerTask) -> None:
        """Add a task."""
        self._sequence += 1
        heapq.heappush(self._heap, (due, self._sequence, task))

    def take(self, until: int) -> tuple[int, TimerTask] | None:
        """Return the first task that is due by ``until``, and remove it; None if there is none."""
        if not self._heap or self._heap[0][0] > until:
            return None
        due, _, task = heapq.heappop(self._heap)
        return due, task
