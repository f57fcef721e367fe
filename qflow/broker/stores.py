"""Stores of a queue's messages: first in, first out; by priority; or the last message of each value.

A store has the messages' positions, their order, and cursors; it does not depend on limits, consumers or
groups.  The kinds have the broker's names: :class:`MessageDeque`, :class:`_PriorityQueue` (with fair shares),
:class:`MessageMap`.

A :class:`QueueCursor` is the place up to which a reader has read (RF-10).  An acquired message is *hidden*,
so that no cursor finds it.  A released message is *shown* again at its old place, and the store's version is
incremented, at which acquiring cursors restart at the head (MG-11).

To find the next message, the real broker walks its deque past acquired messages and tombstones.  Here a
:class:`_PositionSet` finds it in a constant number of steps: it stores positions as bits in blocks of 1,024,
with a second layer of bits for the blocks that are not empty, and a third (2**30 positions per top key).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from qflow.broker.message import AVAILABLE, QueuedMessage
from qflow.broker.restorable import Restorable
from qflow.broker.settings import QueueSettings

State = tuple[bool, int, int, "list[QueueCursor] | None"]


class QueueCursor(Restorable):
    """A reader's place in a store; an acquiring one restarts when the version changes (MG-11, MG-17)."""

    __slots__ = ("acquires", "is_valid", "position", "version", "levels")

    def __init__(self, acquires: bool = True) -> None:
        self.acquires = acquires
        self.is_valid = False
        self.position = 0
        self.version = 0
        self.levels: list[QueueCursor] | None = None

    def start(self, version: int) -> int:
        """Return the position after which the next search begins, or 0 to begin at the head."""
        if not self.is_valid or (self.acquires and self.version != version):
            return 0
        return self.position

    def move(self, position: int, version: int) -> None:
        """Record that the reader has read all messages up to ``position``."""
        self.is_valid = True
        self.position = position
        self.version = version

    def save(self) -> State:
        """Return the cursor's place, for :meth:`restore` (CN-08)."""
        return self.is_valid, self.position, self.version, self.levels

    def restore(self, state: State) -> None:
        """Move the cursor back to a saved place; on a priority queue, levels made since are lost (RF-10)."""
        self.is_valid, self.position, self.version, self.levels = state


_SHIFT: Final = 10
_MASK: Final = (1 << _SHIFT) - 1
_LAYERS: Final = 3


class _PositionSet(Restorable):
    """A set of positions (integers from 0) in layers of blocks, with a fast successor query."""

    __slots__ = ("_layers", "_count")

    def __init__(self) -> None:
        self._layers: list[dict[int, int]] = [{} for _ in range(_LAYERS)]
        self._count = 0

    def __contains__(self, position: int) -> bool:
        return bool(self._layers[0].get(position >> _SHIFT, 0) >> (position & _MASK) & 1)

    def add(self, position: int) -> None:
        for layer in self._layers:
            block, bit = position >> _SHIFT, 1 << (position & _MASK)
            bits = layer.get(block, 0)
            if layer is self._layers[0]:
                if bits & bit:
                    return
                self._count += 1
            layer[block] = bits | bit
            if bits:
                return
            position = block

    def discard(self, position: int) -> None:
        if position not in self:
            return
        self._count -= 1
        for layer in self._layers:
            block = position >> _SHIFT
            bits = layer[block] & ~(1 << (position & _MASK))
            if bits:
                layer[block] = bits
                return
            del layer[block]
            position = block

    def after(self, position: int) -> int | None:
        """Return the smallest member greater than ``position`` (which may be -1), or None."""
        if not self._count:
            return None
        # One layer up for each block without a later member, and then down again: three look-ups each way
        # reach 2**30 positions.
        depth = 0
        position += 1
        while depth < _LAYERS:
            block = position >> _SHIFT
            rest = self._layers[depth].get(block, 0) >> (position & _MASK)
            if rest:
                return self._descend(depth, position + (rest & -rest).bit_length() - 1)
            position = block + 1
            depth += 1
        # Positions above 2**30 do not occur in practice, so this only has to be correct, not fast.
        beyond = [top for top in self._layers[-1] if top >= position]
        return self._descend(depth, min(beyond)) if beyond else None

    def _descend(self, depth: int, position: int) -> int:
        while depth:
            depth -= 1
            bits = self._layers[depth][position]
            position = (position << _SHIFT) + (bits & -bits).bit_length() - 1
        return position


_BLOCK: Final = 6
"""The binary logarithm of a block of positions: within a block each is tried, blocks are found by bits."""


class Messages(Restorable):
    """The interface of all stores; each method takes O(1) or O(levels) time."""

    __slots__ = ()

    def publish(self, message: QueuedMessage) -> QueuedMessage | None:
        """Add a message at its position, and return the message that it replaces, or None (QT-01)."""
        raise NotImplementedError

    def hide(self, message: QueuedMessage) -> None:
        """Hide a message that was acquired from all cursors."""
        raise NotImplementedError

    def show(self, message: QueuedMessage) -> None:
        """Make a released message visible again at its old place, and reset the acquiring cursors."""
        raise NotImplementedError

    def remove(self, message: QueuedMessage) -> None:
        """Remove a message, which may be acquired."""
        raise NotImplementedError

    def next(self, cursor: QueueCursor) -> QueuedMessage | None:
        """Move a cursor to the next AVAILABLE message and return that message, or None."""
        raise NotImplementedError

    def go(self, cursor: QueueCursor, message: QueuedMessage) -> QueuedMessage | None:
        """Move a cursor to a known AVAILABLE message ahead of it, and return that message."""
        return self.next(cursor)

    def go_to_end(self, cursor: QueueCursor) -> bool:
        """Move a cursor behind all messages, and return whether it skipped an AVAILABLE one."""
        raise NotImplementedError

    def has_passed(self, cursor: QueueCursor, message: QueuedMessage) -> bool:
        """Return whether a cursor has passed a message, and does not restart at the head (RF-10)."""
        raise NotImplementedError

    def reset_cursors(self) -> None:
        """Make all acquiring cursors restart at the head (MG-11)."""
        raise NotImplementedError

    @property
    def turn(self) -> tuple[int, int] | None:
        """The state of the fair shares, which each read changes, or None for a store without them."""
        return None

    def eviction_candidate(self) -> QueuedMessage | None:
        """Return the message that a ring evicts, the oldest of the lowest level, in any state; or None."""
        raise NotImplementedError

    def find(self, position: int) -> QueuedMessage | None:
        """Return the message at a position, or None if the position is empty."""
        raise NotImplementedError

    def available_count(self) -> int:
        """Return the number of AVAILABLE messages."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[QueuedMessage]:
        """Yield all messages, including acquired ones, in order of position."""
        raise NotImplementedError


class MessageDeque(Messages):
    """A store whose messages are read first in, first out."""

    __slots__ = (
        "_messages", "_available", "_blocks", "_last_block", "_last_available", "_count", "_head", "_tail",
        "version",
    )  # fmt: skip

    def __init__(self) -> None:
        self._messages: dict[int, QueuedMessage] = {}
        # The number of AVAILABLE messages in each block of positions with any, and the set of these blocks.
        # The set always contains the last block, even without any; its count is a separate attribute, as a
        # short queue uses no other block.
        self._available: dict[int, int] = {}
        self._blocks = _PositionSet()
        self._last_block = -1
        self._last_available = 0
        self._count = 0
        self._head = 0
        self._tail = 0
        self.version = 0

    def publish(self, message: QueuedMessage) -> QueuedMessage | None:
        """Add a message at the tail, and return None, as it replaces no other."""
        position = message.position
        if not self._messages:
            self._head = position
        self._messages[position] = message
        self._tail = position
        if position >> _BLOCK != self._last_block:
            self._begin_block(position >> _BLOCK)
        self._last_available += 1
        self._count += 1
        return None

    def _begin_block(self, block: int) -> None:
        if self._last_available:
            self._available[self._last_block] = self._last_available
        elif self._last_block >= 0:
            self._blocks.discard(self._last_block)
        self._last_block, self._last_available = block, 0
        self._blocks.add(block)

    def _add(self, position: int) -> None:
        block = position >> _BLOCK
        self._count += 1
        if block == self._last_block:
            self._last_available += 1
            return
        there = self._available.get(block, 0)
        if not there:
            self._blocks.add(block)
        self._available[block] = there + 1

    def _discard(self, position: int) -> None:
        block = position >> _BLOCK
        self._count -= 1
        if block == self._last_block:
            self._last_available -= 1
            return
        left = self._available[block] - 1
        if left:
            self._available[block] = left
        else:
            del self._available[block]
            self._blocks.discard(block)

    def hide(self, message: QueuedMessage) -> None:
        """Hide a message that was acquired from all cursors."""
        self._discard(message.position)

    def show(self, message: QueuedMessage) -> None:
        """Make a released message visible again at its old place, and reset the acquiring cursors."""
        self._add(message.position)
        # An acquiring cursor may have passed it.  The real broker resets the cursors of a queue one by one;
        # here a cursor with an older version restarts at its next use.
        self.version += 1

    def remove(self, message: QueuedMessage) -> None:
        """Remove a message, which may be acquired."""
        if message.state == AVAILABLE:
            self._discard(message.position)
        del self._messages[message.position]

    def next(self, cursor: QueueCursor) -> QueuedMessage | None:
        """Move a cursor to the next AVAILABLE message and return that message, or None."""
        start = cursor.start(self.version)
        message = self._after(start) if self._count else None
        if message is None:
            self._end(cursor, start)
            return None
        cursor.move(message.position, self.version)
        return message

    def _after(self, start: int) -> QueuedMessage | None:
        position = start + 1
        # Usually the message at the next position is available.
        message = self._messages.get(position)
        if message is not None and message.state == AVAILABLE:
            return message
        block = self._blocks.after((position >> _BLOCK) - 1)
        while block is not None:
            end = (block + 1) << _BLOCK
            for place in range(max(position, block << _BLOCK), end):
                message = self._messages.get(place)
                if message is not None and message.state == AVAILABLE:
                    return message
            # The available messages of the first block may all be before the start; the next block in the set
            # has some after it, unless it is the last.
            block = self._blocks.after(block)
        return None

    def _end(self, cursor: QueueCursor, start: int) -> None:
        # The real broker's cursor also passes acquired messages, and stays behind the last of them (RF-10).
        if self._messages and self._tail > start:
            cursor.move(self._tail, self.version)

    def go(self, cursor: QueueCursor, message: QueuedMessage) -> QueuedMessage | None:
        """Move a cursor to a known AVAILABLE message, or to the next one if it has passed that message."""
        if message.position <= cursor.start(self.version):
            return self.next(cursor)
        cursor.move(message.position, self.version)
        return message

    def go_to_end(self, cursor: QueueCursor) -> bool:
        """Move a cursor behind all messages, and return whether it skipped an AVAILABLE one."""
        start = cursor.start(self.version)
        has_passed = self._after(start) is not None
        self._end(cursor, start)
        return has_passed

    def has_passed(self, cursor: QueueCursor, message: QueuedMessage) -> bool:
        """Return whether a cursor has passed a message, and does not restart at the head."""
        return cursor.start(self.version) >= message.position

    def reset_cursors(self) -> None:
        """Make all acquiring cursors restart at the head, by a new version."""
        self.version += 1

    def eviction_candidate(self) -> QueuedMessage | None:
        """Return the oldest message, even if it is acquired, or None if the queue is empty."""
        if not self._messages:
            return None
        while self._head not in self._messages:
            self._head += 1
        return self._messages[self._head]

    def find(self, position: int) -> QueuedMessage | None:
        """Return the message at a position, or None."""
        return self._messages.get(position)

    def available_count(self) -> int:
        """Return the number of AVAILABLE messages."""
        return self._count

    def __iter__(self) -> Iterator[QueuedMessage]:
        return iter(tuple(self._messages.values()))


class MessageMap(MessageDeque):
    """The store of a last value queue, with at most one message for each value of a header (QT-01)."""

    __slots__ = ("_key", "_by_value")

    def __init__(self, key: str = "") -> None:
        super().__init__()
        self._key = key
        self._by_value: dict[str, QueuedMessage] = {}

    def publish(self, message: QueuedMessage) -> QueuedMessage | None:
        """Add a message at the tail, and return the message with the same value, which it replaces."""
        value = self._value(message)
        replaced = self._by_value.get(value)
        self._by_value[value] = message
        super().publish(message)
        return replaced

    def remove(self, message: QueuedMessage) -> None:
        """Remove a message, and its value unless a newer message has the same value."""
        super().remove(message)
        value = self._value(message)
        if self._by_value.get(value) is message:
            del self._by_value[value]

    def _value(self, message: QueuedMessage) -> str:
        return message.transfer.message.property_as_string(self._key)


_MOST_LEVELS: Final = 257


class _PriorityQueue(Messages):
    """A store with a FIFO for each priority level, read from the highest on, or in turns (QT-04 … QT-06)."""

    __slots__ = ("_levels", "_first_level", "_is_fair", "_limits", "_level", "_count")

    def __init__(
        self, levels: int = 10, limits: tuple[tuple[int, int], ...] = (), default_limit: int = 0
    ) -> None:
        self._first_level = 5 - min(5, -(-levels // 2))
        # No priority reaches a level above 255; the levels above that are like one that is always empty.
        levels = min(levels, _MOST_LEVELS)
        self._levels = [MessageDeque() for _ in range(levels)]
        # Even a fair share without a limit (fairshare-0 of 0) makes the levels take turns.
        self._is_fair = bool(limits) or default_limit > 0
        given = dict(limits)
        self._limits = [given.get(level, default_limit) for level in range(levels)]
        self._level = levels - 1
        self._count = 0

    def level_of(self, message: QueuedMessage) -> int:
        priority = message.transfer.message.priority or 0
        if priority <= self._first_level:
            return 0
        return min(priority - self._first_level, len(self._levels) - 1)

    def publish(self, message: QueuedMessage) -> QueuedMessage | None:
        return self._levels[self.level_of(message)].publish(message)

    def hide(self, message: QueuedMessage) -> None:
        self._levels[self.level_of(message)].hide(message)

    def show(self, message: QueuedMessage) -> None:
        self._levels[self.level_of(message)].show(message)

    def remove(self, message: QueuedMessage) -> None:
        self._levels[self.level_of(message)].remove(message)

    def next(self, cursor: QueueCursor) -> QueuedMessage | None:
        if cursor.levels is None:
            cursor.levels = [QueueCursor(cursor.acquires) for _ in self._levels]
        # Each level has a cursor of its own, so that a released message on a high level is found even while a
        # lower level is being read (RF-10).
        for level in self._reading_order():
            message = self._levels[level].next(cursor.levels[level])
            if message is not None:
                return message
        return None

    def _reading_order(self) -> Iterator[int]:
        """Yield the levels in the order of reading; with fair shares, each read changes the state (QT-06)."""
        if not self._is_fair:
            yield from range(len(self._levels) - 1, -1, -1)
            return
        # The broker counts a read as a turn even if it finds no message, so that idle consumers change the
        # shares of busy ones (RF-37).
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

    @property
    def turn(self) -> tuple[int, int] | None:
        return (self._level, self._count) if self._is_fair else None

    def has_passed(self, cursor: QueueCursor, message: QueuedMessage) -> bool:
        level = self.level_of(message)
        return cursor.levels is not None and self._levels[level].has_passed(cursor.levels[level], message)

    def reset_cursors(self) -> None:
        for level in self._levels:
            level.reset_cursors()

    def eviction_candidate(self) -> QueuedMessage | None:
        for level in self._levels:
            message = level.eviction_candidate()
            if message is not None:
                return message
        return None

    def find(self, position: int) -> QueuedMessage | None:
        for level in self._levels:
            message = level.find(position)
            if message is not None:
                return message
        return None

    def available_count(self) -> int:
        return sum(level.available_count() for level in self._levels)

    def __iter__(self) -> Iterator[QueuedMessage]:
        return iter(sorted((m for level in self._levels for m in level), key=lambda m: m.position))


def make_store(settings: QueueSettings) -> Messages:
    """Return a new store of the kind that a queue's settings select."""
    # With self-destruct, the last value key has no effect (LP-17).
    if settings.last_value_queue_key and settings.policy != "self-destruct":
        return MessageMap(settings.last_value_queue_key)
    if settings.priorities:
        return _PriorityQueue(settings.priorities, settings.fairshare_levels, settings.fairshare)
    return MessageDeque()
