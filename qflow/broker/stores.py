"""How a queue keeps its messages: first in first out, by priority, or the last of each value.

The broker's names: MessageDeque, PriorityQueue with Fairshare, MessageMap.  A store knows order
and cursors; it knows no limits, consumers or groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from qflow.broker.cursor import QueueCursor
from qflow.broker.positions import PositionSet
from qflow.broker.queued_message import AVAILABLE, QueuedMessage
from qflow.broker.restorable import Restorable
from qflow.broker.settings import QueueSettings

_BLOCK: Final = 6
"""Positions are looked at one by one within a block of 2**6, and blocks by :class:`PositionSet`."""


class Messages(Restorable):
    """What every store can do; all in O(1) or O(levels), whatever the length."""

    __slots__ = ()

    def publish(self, message: QueuedMessage) -> QueuedMessage | None:
        """Add a message at its position; return the one it replaces, if any (QT-01)."""
        raise NotImplementedError

    def hide(self, message: QueuedMessage) -> None:
        """Take an acquired message out of sight of all cursors."""
        raise NotImplementedError

    def show(self, message: QueuedMessage) -> None:
        """Make a released message visible again, at its old place, and reset cursors."""
        raise NotImplementedError

    def remove(self, message: QueuedMessage) -> None:
        """Forget a message."""
        raise NotImplementedError

    def next(self, cursor: QueueCursor) -> QueuedMessage | None:
        """Return the next AVAILABLE message for ``cursor`` and move it there."""
        raise NotImplementedError

    def go(self, cursor: QueueCursor, message: QueuedMessage) -> QueuedMessage | None:
        """Return ``message``, the first AVAILABLE one that matters to the cursor, and move there."""
        return self.next(cursor)

    def go_to_end(self, cursor: QueueCursor) -> bool:
        """Move behind all messages, as none matters; return whether an AVAILABLE one was passed over."""
        raise NotImplementedError

    def reset_cursors(self) -> None:
        """Let all acquiring cursors start again at the head (MG-11)."""
        raise NotImplementedError

    def eviction_candidate(self) -> QueuedMessage | None:
        """Return the message a ring would drop: the oldest of the lowest level, acquired or not."""
        raise NotImplementedError

    def find(self, position: int) -> QueuedMessage | None:
        """Return the message at a position, if it is still there."""
        raise NotImplementedError

    def available_count(self) -> int:
        """Return how many messages are AVAILABLE."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[QueuedMessage]:
        """Yield all messages, acquired ones included, by position."""
        raise NotImplementedError


class MessageDeque(Messages):
    """First in, first out.

    Examples
    --------
    >>> from qflow.broker.message import Message
    >>> from qflow.broker.transfer import Transfer
    >>> store, cursor = MessageDeque(), QueueCursor(acquires=True)
    >>> for position in (1, 2):
    ...     _ = store.publish(QueuedMessage(Transfer(None, 0, Message(), 10, f"m{position}"), position))
    >>> store.next(cursor)
    QueuedMessage('m1', position=1, AVAILABLE)
    """

    __slots__ = ("_messages", "_available", "_blocks", "_count", "_head", "_tail", "version")

    def __init__(self) -> None:
        self._messages: dict[int, QueuedMessage] = {}
        # How many messages are AVAILABLE in each block of positions that has any, and which blocks these are
        # (with the last one, which need not have any).
        self._available: dict[int, int] = {}
        self._blocks = PositionSet()
        self._count = 0
        self._head = 0
        self._tail = 0
        self.version = 0

    def publish(self, message: QueuedMessage) -> QueuedMessage | None:
        """Add a message at the tail; it replaces none."""
        position = message.position
        if not self._messages:
            self._head = position
        self._messages[position] = message
        last, self._tail = self._tail >> _BLOCK, position
        if last != position >> _BLOCK and not self._available.get(last, 1):
            self._drop(last)
        self._add(position)
        return None

    def _add(self, position: int) -> None:
        block = position >> _BLOCK
        there = self._available.get(block, -1)
        if there < 0:
            there = 0
            self._blocks.add(block)
        self._available[block] = there + 1
        self._count += 1

    def _discard(self, position: int) -> None:
        block = position >> _BLOCK
        self._available[block] -= 1
        self._count -= 1
        # The last block stays: on a short queue it is empty again and again.
        if not self._available[block] and block != self._tail >> _BLOCK:
            self._drop(block)

    def _drop(self, block: int) -> None:
        del self._available[block]
        self._blocks.discard(block)

    def hide(self, message: QueuedMessage) -> None:
        """Count it off the available messages of its block."""
        self._discard(message.position)

    def show(self, message: QueuedMessage) -> None:
        """Count it again, and let acquiring cursors start again."""
        self._add(message.position)
        self.version += 1

    def remove(self, message: QueuedMessage) -> None:
        """Forget it, acquired or not."""
        if message.state == AVAILABLE:
            self._discard(message.position)
        del self._messages[message.position]

    def next(self, cursor: QueueCursor) -> QueuedMessage | None:
        """Return the first available message behind the cursor."""
        start = cursor.start(self.version)
        message = self._messages.get(start + 1)
        if message is None or message.state != AVAILABLE:
            message = self._after(start) if self._count else None
            if message is None:
                self._end(cursor, start)
                return None
        cursor.move(message.position, self.version)
        return message

    def _after(self, start: int) -> QueuedMessage | None:
        position = start + 1
        block: int | None = position >> _BLOCK
        if block not in self._available:
            block = self._blocks.after(start >> _BLOCK)
        while block is not None:
            end = (block + 1) << _BLOCK
            for place in range(max(position, block << _BLOCK), end):
                message = self._messages.get(place)
                if message is not None and message.state == AVAILABLE:
                    return message
            # What was available in the first block lies before the start; the next one has some for certain,
            # unless it is the last.
            block = self._blocks.after(block)
        return None

    def _end(self, cursor: QueueCursor, start: int) -> None:
        # The real cursor walks over acquired messages and stays behind the last of them (RF-10).
        if self._messages and self._tail > start:
            cursor.move(self._tail, self.version)

    def go(self, cursor: QueueCursor, message: QueuedMessage) -> QueuedMessage | None:
        """Move to the message, unless it lies before the cursor."""
        if message.position <= cursor.start(self.version):
            return self.next(cursor)
        cursor.move(message.position, self.version)
        return message

    def go_to_end(self, cursor: QueueCursor) -> bool:
        """Move behind the last message."""
        start = cursor.start(self.version)
        has_passed = self._after(start) is not None
        self._end(cursor, start)
        return has_passed

    def reset_cursors(self) -> None:
        """Raise the version."""
        self.version += 1

    def eviction_candidate(self) -> QueuedMessage | None:
        """Return the oldest message."""
        if not self._messages:
            return None
        while self._head not in self._messages:
            self._head += 1
        return self._messages[self._head]

    def find(self, position: int) -> QueuedMessage | None:
        """Return the message at a position."""
        return self._messages.get(position)

    def available_count(self) -> int:
        """Return the count."""
        return self._count

    def __iter__(self) -> Iterator[QueuedMessage]:
        return iter(tuple(self._messages.values()))


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

    __slots__ = ("_levels", "_first_level", "_limits", "_level", "_count")

    def __init__(self, levels: int, limits: dict[int, int], default_limit: int) -> None:
        self._levels = [MessageDeque() for _ in range(levels)]
        self._first_level = 5 - min(5, -(-levels // 2))
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
        if not any(self._limits):
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
