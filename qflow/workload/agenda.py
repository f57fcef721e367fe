"""Agenda: which actions are due at which instant of virtual time."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final

from qflow.broker.broker import Broker

Action = Callable[[], None]


def do_nothing() -> None:
    """Do nothing, in place of a cancelled action."""


# Priorities at one instant: those who join, then those who make room, then those who fill it.
SUBSCRIBE: Final = 0
SETTLE: Final = 1
SEND: Final = 2

SECOND: Final = 1_000_000
"""Microseconds."""

# Final, so that compiled code has them at hand: it would look up a name that is imported at each use.
_push: Final = heapq.heappush
_pop: Final = heapq.heappop


class Agenda:
    """A queue of actions in a total order: time, then priority, then order of entry."""

    def __init__(self, end: int) -> None:
        self.now = 0
        self.end = end
        # Time, priority, number, action; of any type, as compiled code would look at all four to take one.
        # No NamedTuple: one is made for each act of a client, and takes seven times as long to make.
        self._entries: list[tuple[Any, ...]] = []
        self._sequence = 0

    def enter(self, time: int, priority: int, action: Action) -> None:
        """Plan an action for an instant that is not in the past."""
        # The number makes the order total, so that two actions are never compared, and that equal times and
        # priorities run in the order in which they were entered, on any machine.
        self._sequence += 1
        _push(self._entries, (time, priority, self._sequence, action))

    def clear(self) -> None:
        """Drop all planned actions."""
        self._entries.clear()

    def run(self, broker: Broker, until: int | None = None) -> None:
        """Carry out every action that is due."""
        entries, timers = self._entries, broker.timers
        while True:
            last = self.end if until is None else until
            time: int = entries[0][0] if entries else last + 1
            is_timer = timers.is_due(time - 1)
            if is_timer:
                time = max(timers.next_due or 0, self.now)
            if time > last:
                return
            if time != self.now or is_timer:
                self.now = time
                broker.advance(time)
            if not is_timer:
                _, _, _, action = _pop(entries)
                action()
