"""How a queue keeps its messages: first in first out, by priority, or the last of each value.

A store knows positions, order and cursors; it knows no limits, consumers or groups.  Its kinds have the
broker's names: :class:`MessageDeque`, :class:`_PriorityQueue` (with fair shares), :class:`MessageMap`.

A :class:`QueueCursor` is how far a reader has read (RF-10).  A message that is acquired is *hidden*: no
cursor finds it; one that is released is *shown* again at its old place, and the store's version rises, at
which acquiring cursors start again at the head (MG-11).

The real broker walks its deque past acquired messages and tombstones.  Here a :class:`_PositionSet` gives the
same answer in a constant number of steps: bits in blocks of 1,024, and a second layer of bits for the blocks
that are not empty, up to three layers (2**30 positions per top key).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from qflow.broker.message import AVAILABLE, QueuedMessage
from qflow.broker.restorable import Restorable
from qflow.broker.settings import QueueSettings

State = tuple[bool, int, int, "list[QueueCursor] | None"]


class QueueCursor(Restorable):
    """A place in a queue at a version; a newer version sends acquirers back to the head (MG-11, MG-17)."""

    __slots__ = ("acquires", "is_valid", "position", "version", "levels")

    def __init__(self, acquires: bool = True) -> None:
        self.acquires = acquires
        self.is_valid = False
        self.position = 0
        self.version = 0
        self.levels: list[QueueCursor] | None = None

    def start(self, version: int) -> int:
        """Return the position after which the next search begins, 0 for the head."""
        if not self.is_valid or (self.acquires and self.version != version):
            return 0
        return self.position

    def move(self, position: int, version: int) -> None:
        """Record that everything up to ``position`` has been seen."""
        self.is_valid = True
        self.position = position
        self.version = version

    def save(self) -> State:
        """Return the cursor's place, for :meth:`restore` (CN-08)."""
        return self.is_valid, self.position, self.version, self.levels

    def restore(self, state: State) -> None:
        """Put the cursor back; on a priority queue only the first scan forgets its levels (RF-10)."""
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
        # Up a layer for each block that is exhausted, then down again: three look-ups each way reach 2**30
        # positions.
        depth = 0
        position += 1
        while depth < _LAYERS:
            block = position >> _SHIFT
            rest = self._layers[depth].get(block, 0) >> (position & _MASK)
            if rest:
                return self._descend(depth, position + (rest & -rest).bit_length() - 1)
            position = block + 1
            depth += 1
        # Positions above 2**30 are never reached in practice, and only have to be right.
        beyond = [top for top in self._layers[-1] if top >= position]
        return self._descend(depth, min(beyond)) if beyond else None

    def _descend(self, depth: int, position: int) -> int:
        while depth:
            depth -= 1
            bits = self._layers[depth][position]
            position = (position << _SHIFT) + (bits & -bits).bit_length() - 1
        return position


_BLOCK: Final = 6
"""Positions are looked at one by one within a block of 2**6, and blocks by :class:`_PositionSet`."""


class Messages(Restorable):
    """The interface of every store; each method takes O(1) or O(levels)."""

    __slots__ = ()

    def publish(self, message: QueuedMessage) -> QueuedMessage | None:
        """Add a message at its position; return the one it replaces, if any (QT-01)."""
        raise NotImplementedError

    def hide(self, message: QueuedMessage) -> None:
        """Hide an acquired message from all cursors."""
        raise NotImplementedError

    def show(self, message: QueuedMessage) -> None:
        """Make a released message visible again, at its old place, and reset cursors."""
        raise NotImplementedError

    def remove(self, message: QueuedMessage) -> None:
        """Remove a message."""
        raise NotImplementedError

    def next(self, cursor: QueueCursor) -> QueuedMessage | None:
        """Return the next AVAILABLE message for ``cursor`` and move it there."""
        raise NotImplementedError

    def go(self, cursor: QueueCursor, message: QueuedMessage) -> QueuedMessage | None:
        """Return ``message``, the first AVAILABLE one that matters to the cursor, and move there."""
        return self.next(cursor)

    def go_to_end(self, cursor: QueueCursor) -> bool:
        """Move behind all messages; return whether an AVAILABLE one was passed over."""
        raise NotImplementedError

    def has_passed(self, cursor: QueueCursor, message: QueuedMessage) -> bool:
        """Return whether a cursor is permanently behind a message (RF-10)."""
        raise NotImplementedError

    def reset_cursors(self) -> None:
        """Let all acquiring cursors restart at the head (MG-11)."""
        raise NotImplementedError

    @property
    def turn(self) -> tuple[int, int] | None:
        """The turn of the fair shares, which reading advances; None if reading changes nothing."""
        return None

    def eviction_candidate(self) -> QueuedMessage | None:
        """Return the message a ring would drop: the oldest of the lowest level, acquired or not."""
        raise NotImplementedError

    def find(self, position: int) -> QueuedMessage | None:
        """Return the message at a position, or None."""
        raise NotImplementedError

    def available_count(self) -> int:
        """Return the number of AVAILABLE messages."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[QueuedMessage]:
        """Yield all messages, acquired ones included, by position."""
        raise NotImplementedError


class MessageDeque(Messages):
    """The messages of a queue, first in, first out."""

    __slots__ = (
        "_messages", "_available", "_blocks", "_last_block", "_last_available", "_count", "_head", "_tail",
        "version",
    )  # fmt: skip

    def __init__(self) -> None:
        self._messages: dict[int, QueuedMessage] = {}
        # How many messages are AVAILABLE in each block of positions that has any, and which blocks these are.
        # The last block is always among these, though it need not have any; its count is kept apart, as on a
        # short queue no other one is touched.
        self._available: dict[int, int] = {}
        self._blocks = _PositionSet()
        self._last_block = -1
        self._last_available = 0
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
        """Subtract it from the available messages of its block."""
        self._discard(message.position)

    def show(self, message: QueuedMessage) -> None:
        """Count it again, and let acquiring cursors restart."""
        self._add(message.position)
        # An acquiring cursor may be past it.  The real broker resets the cursors of a queue one by one; here
        # one of an older version knows by itself that it has to start again.
        self.version += 1

    def remove(self, message: QueuedMessage) -> None:
        """Remove it, acquired or not."""
        if message.state == AVAILABLE:
            self._discard(message.position)
        del self._messages[message.position]

    def next(self, cursor: QueueCursor) -> QueuedMessage | None:
        """Return the first available message behind the cursor."""
        start = cursor.start(self.version)
        message = self._after(start) if self._count else None
        if message is None:
            self._end(cursor, start)
            return None
        cursor.move(message.position, self.version)
        return message

    def _after(self, start: int) -> QueuedMessage | None:
        position = start + 1
        # Almost always it is the very next one.
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
            # What was available in the first block lies before the start; the next one has some for certain,
            # unless it is the last.
            block = self._blocks.after(block)
        return None

    def _end(self, cursor: QueueCursor, start: int) -> None:
        # The real cursor walks over acquired messages and stays behind the last of them (RF-10).
        if self._messages and self._tail > start:
            cursor.move(self._tail, self.version)

    def go(self, cursor: QueueCursor, message: QueuedMessage) -> QueuedMessage | None:
        """Move to the message, unless the cursor is past it."""
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

    def has_passed(self, cursor: QueueCursor, message: QueuedMessage) -> bool:
        """Return whether the cursor is behind the message; one that restarts at the head is not."""
        return cursor.start(self.version) >= message.position

    def reset_cursors(self) -> None:
        """Increment the version."""
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

    def __init__(self, key: str = "") -> None:
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
        """Remove it, and its value unless a newer message has it."""
        super().remove(message)
        value = self._value(message)
        if self._by_value.get(value) is message:
            del self._by_value[value]

    def _value(self, message: QueuedMessage) -> str:
        return message.transfer.message.property_as_string(self._key)


_MOST_LEVELS: Final = 257


class _PriorityQueue(Messages):
    """Levels of FIFO with their own cursors, highest first or in turns (QT-04 … QT-06)."""

    __slots__ = ("_levels", "_first_level", "_is_fair", "_limits", "_level", "_count")

    def __init__(
        self, levels: int = 10, limits: tuple[tuple[int, int], ...] = (), default_limit: int = 0
    ) -> None:
        self._first_level = 5 - min(5, -(-levels // 2))
        # No priority reaches a level above 255; all those further up are like one that is always empty.
        levels = min(levels, _MOST_LEVELS)
        self._levels = [MessageDeque() for _ in range(levels)]
        # A share that limits nothing (fairshare-0 of 0) still makes the levels take turns.
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
        # Each level has a cursor of its own, so a released message of a high level is found even while a
        # lower one is being read (RF-10).
        for level in self._reading_order():
            message = self._levels[level].next(cursor.levels[level])
            if message is not None:
                return message
        return None

    def _reading_order(self) -> Iterator[int]:
        """Yield levels in the broker's order; with fair shares each attempt changes the state (QT-06)."""
        if not self._is_fair:
            yield from range(len(self._levels) - 1, -1, -1)
            return
        # The broker counts a look as a turn although nothing may come of it; that is why idle consumers shift
        # the shares of busy ones (RF-37).
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
    """Return the store that a queue's settings select (self-destruct beats last value, LP-17)."""
    if settings.last_value_queue_key and settings.policy != "self-destruct":
        return MessageMap(settings.last_value_queue_key)
    if settings.priorities:
        return _PriorityQueue(settings.priorities, settings.fairshare_levels, settings.fairshare)
    return MessageDeque()
