"""How a queue keeps its messages: first in first out, by priority, or the last of each value.

The broker's names: MessageDeque (in ``message_deque.py``), PriorityQueue with Fairshare, MessageMap.
"""

from __future__ import annotations

from collections.abc import Iterator

from qflow.broker.cursor import QueueCursor
from qflow.broker.message_deque import MessageDeque, Messages
from qflow.broker.queued_message import QueuedMessage
from qflow.broker.settings import QueueSettings

__all__ = ["MessageDeque", "MessageMap", "Messages", "PriorityQueue", "make_store"]


class MessageMap(MessageDeque):
    """Last value queue: at most one message for each value of a header (QT-01)."""

    __slots__ = ("_key", "_by_value")

    def __init__(self, key: str) -> None:
        super().__init__()
        self._key = key
        self._by_value: dict[str, QueuedMessage] = {}

    def publish(self, message: QueuedMessage) -> QueuedMessage | None:
        """Add a message at the tail; it replaces the one with the same value."""
        value = self._value(message)
        replaced = self._by_value.get(value)
        self._by_value[value] = message
        super().publish(message)
        return replaced

    def remove(self, message: QueuedMessage) -> None:
        """Forget it, and its value if nothing newer has it."""
        super().remove(message)
        value = self._value(message)
        if self._by_value.get(value) is message:
            del self._by_value[value]

    def _value(self, message: QueuedMessage) -> str:
        return message.transfer.message.property_as_string(self._key)


class PriorityQueue(Messages):
    """Highest level first, first in first out within a level, perhaps with fair shares (QT-04 … QT-06).

    Each level is a :class:`MessageDeque` with its own cursors and version (RF-10).
    """

    __slots__ = ("_levels", "_first_level", "_is_fair", "_limits", "_level", "_count")

    def __init__(self, levels: int, limits: dict[int, int], default_limit: int) -> None:
        self._levels = [MessageDeque() for _ in range(levels)]
        self._first_level = 5 - min(5, -(-levels // 2))
        # A share that limits nothing (fairshare-0 of 0) still makes the levels take turns.
        self._is_fair = bool(limits) or default_limit > 0
        self._limits = [limits.get(level, default_limit) for level in range(levels)]
        self._level = levels - 1
        self._count = 0

    def level_of(self, message: QueuedMessage) -> int:
        """Return the level of a message's priority (QT-04)."""
        priority = message.transfer.message.priority or 0
        if priority <= self._first_level:
            return 0
        return min(priority - self._first_level, len(self._levels) - 1)

    def publish(self, message: QueuedMessage) -> QueuedMessage | None:
        """Add it to its level."""
        return self._levels[self.level_of(message)].publish(message)

    def hide(self, message: QueuedMessage) -> None:
        """Hide it in its level."""
        self._levels[self.level_of(message)].hide(message)

    def show(self, message: QueuedMessage) -> None:
        """Show it in its level, which resets the cursors of that level only."""
        self._levels[self.level_of(message)].show(message)

    def remove(self, message: QueuedMessage) -> None:
        """Forget it in its level."""
        self._levels[self.level_of(message)].remove(message)

    def next(self, cursor: QueueCursor) -> QueuedMessage | None:
        """Return the first available message of the first level that has one."""
        if cursor.levels is None:
            cursor.levels = [QueueCursor(cursor.acquires) for _ in self._levels]
        for level in self._reading_order():
            message = self._levels[level].next(cursor.levels[level])
            if message is not None:
                return message
        return None

    def _reading_order(self) -> Iterator[int]:
        """Yield levels as the broker tries them; with fair shares the trying itself is state (QT-06)."""
        if not self._is_fair:
            yield from range(len(self._levels) - 1, -1, -1)
            return
        start = self._current_level()
        yield start
        while self._next_level() != start:
            yield self._level

    def _current_level(self) -> int:
        limit = self._limits[self._level]
        if limit:
            self._count += 1
            if self._count > limit:
                return self._next_level()
        return self._level

    def _next_level(self) -> int:
        self._count = 1
        self._level = (self._level or len(self._levels)) - 1
        return self._level

    def has_passed(self, cursor: QueueCursor, message: QueuedMessage) -> bool:
        """Ask the message's level, with the cursor's place there."""
        level = self.level_of(message)
        return cursor.levels is not None and self._levels[level].has_passed(cursor.levels[level], message)

    def reset_cursors(self) -> None:
        """Raise the version of every level."""
        for level in self._levels:
            level.reset_cursors()

    def eviction_candidate(self) -> QueuedMessage | None:
        """Return the oldest message of the lowest level."""
        for level in self._levels:
            message = level.eviction_candidate()
            if message is not None:
                return message
        return None

    def find(self, position: int) -> QueuedMessage | None:
        """Return the message at a position, whatever its level."""
        for level in self._levels:
            message = level.find(position)
            if message is not None:
                return message
        return None

    def available_count(self) -> int:
        """Return the sum over the levels."""
        return sum(level.available_count() for level in self._levels)

    def __iter__(self) -> Iterator[QueuedMessage]:
        return iter(sorted((m for level in self._levels for m in level), key=lambda m: m.position))


def make_store(settings: QueueSettings) -> Messages:
    """Return the store that a queue's settings ask for (self-destruct beats last value, LP-17)."""
    if settings.last_value_queue_key and settings.policy != "self-destruct":
        return MessageMap(settings.last_value_queue_key)
    if settings.priorities:
        return PriorityQueue(settings.priorities, dict(settings.fairshare_levels), settings.fairshare)
    return MessageDeque()
