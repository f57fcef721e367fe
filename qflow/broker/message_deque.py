"""MessageDeque: messages first in, first out; and what every kind of store can do.

A store knows order and cursors; it knows no limits, consumers or groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from qflow.broker.cursor import QueueCursor
from qflow.broker.positions import PositionSet
from qflow.broker.queued_message import AVAILABLE, QueuedMessage
from qflow.broker.restorable import Restorable

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

    def has_passed(self, cursor: QueueCursor, message: QueuedMessage) -> bool:
        """Return whether a cursor is behind a message already, and stays there (RF-10)."""
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

    ONLY_COUNTS: ClassVar[bool] = True

    __slots__ = (
        "_messages",
        "_available",
        "_blocks",
        "_last_block",
        "_last_available",
        "_count",
        "_head",
        "_tail",
        "version",
    )

    def __init__(self) -> None:
        self._messages: dict[int, QueuedMessage] = {}
        # How many messages are AVAILABLE in each block of positions that has any, and which blocks these are.
        # The last block is always among these, though it need not have any; its count stands by itself, as on
        # a short queue no other one is touched.
        self._available: dict[int, int] = {}
        self._blocks = PositionSet()
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

    def has_passed(self, cursor: QueueCursor, message: QueuedMessage) -> bool:
        """Compare the places, unless the cursor starts again at the head."""
        return cursor.start(self.version) >= message.position

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
