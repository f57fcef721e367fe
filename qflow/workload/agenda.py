"""The agenda of a simulation: a queue of actions, each due at an instant of virtual time."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any, Final

from qflow.broker.broker import Broker

Action = Callable[[], None]


def do_nothing() -> None:
    """Do nothing; this action replaces a cancelled one."""


# Priorities of actions at the same instant: clients subscribe first, then completions and settlements make
# room, then transfers fill it.
SUBSCRIBE: Final = 0
SETTLE: Final = 1
SEND: Final = 2

SECOND: Final = 1_000_000
"""One second in microseconds."""

# Final, so that compiled code binds them once: it would look up an imported name at each use.
_push: Final = heapq.heappush
_pop: Final = heapq.heappop


class Agenda:
    """A queue of actions, totally ordered by time, then priority, then order of entry."""

    def __init__(self, end: int) -> None:
        self.now = 0
        self.end = end
        # Entries are (time, priority, number, action). They are typed as tuples of Any, as compiled code
        # would otherwise check the types of all four items to read one. They are not NamedTuples, because an
        # entry is made for each act of a client, and a NamedTuple takes seven times as long to make.
        self._entries: list[tuple[Any, ...]] = []
        self._sequence = 0

    def enter(self, time: int, priority: int, action: Action) -> None:
        """Schedule an action for an instant that is not in the past."""
        # The number makes the order total: two actions are never compared, and actions of the same time and
        # priority run in the order in which they were entered, on any machine.
        self._sequence += 1
        _push(self._entries, (time, priority, self._sequence, action))

    def clear(self) -> None:
        """Drop all scheduled actions."""
        self._entries.clear()

    def run(self, broker: Broker, until: int | None = None) -> None:
        """Run every action and every timer of the broker in order, up to the end or the instant `until`."""
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
