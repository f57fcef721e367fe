"""MessageDeque beside the plain walk that RF-10 describes: the same messages, in the same order."""

from dataclasses import dataclass, field
from random import Random

import pytest

from qflow.broker.message import ACQUIRED, AVAILABLE, REMOVED, Message, QueuedMessage, Transfer
from qflow.broker.stores import MessageDeque, QueueCursor


@dataclass
class PlainCursor:
    """RF-10: valid or not, a position, a version."""

    acquires: bool
    place: tuple[int, int] | None = None

    def start(self, version: int) -> int:
        if self.place is None or (self.acquires and self.place[1] != version):
            return 0
        return self.place[0]


@dataclass
class PlainQueue:
    """All messages in a list, and a walk over it for every question."""

    messages: list[QueuedMessage] = field(default_factory=list)
    version: int = 0

    def next(self, cursor: PlainCursor) -> QueuedMessage | None:
        start = cursor.start(self.version)
        for message in self.messages:
            if message.position > start:
                cursor.place = message.position, self.version
                if message.state == AVAILABLE:
                    return message
        return None

    def of_state(self, state: int) -> list[QueuedMessage]:
        return [message for message in self.messages if message.state == state]


class Pair:
    """One queue in both forms, with a consumer's cursor and a browser's on each."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.deque, self.plain = MessageDeque(), PlainQueue()
        self.position = 0
        self.cursors = [(QueueCursor(acquires), PlainCursor(acquires)) for acquires in (True, False)]

    def publish(self) -> None:
        # Often few, sometimes more than one block of positions has.
        for _ in range(self.random.choice((1, 2, 5, 70, 150))):
            self.position += 1
            message = QueuedMessage(Transfer(None, 0, Message(), 1, f"m{self.position}"), self.position)
            assert self.deque.publish(message) is None
            self.plain.messages.append(message)

    def consume(self) -> None:
        fast, plain = self.cursors[0]
        for _ in range(self.random.choice((1, 3, 90))):
            message = self.deque.next(fast)
            assert message is self.plain.next(plain)
            if message is None:
                return
            message.state = ACQUIRED
            self.deque.hide(message)

    def browse(self) -> None:
        fast, plain = self.cursors[1]
        for _ in range(self.random.choice((1, 40))):
            assert self.deque.next(fast) is self.plain.next(plain)

    def release(self) -> None:
        for message in self.some(ACQUIRED):
            message.state = AVAILABLE
            self.deque.show(message)
            self.plain.version += 1

    def dequeue(self) -> None:
        self.remove(ACQUIRED)

    def purge(self) -> None:
        self.remove(AVAILABLE)

    def remove(self, state: int) -> None:
        for message in self.some(state):
            self.deque.remove(message)
            self.plain.messages.remove(message)
            message.state = REMOVED

    def some(self, state: int) -> list[QueuedMessage]:
        there = self.plain.of_state(state)
        return self.random.sample(there, min(len(there), self.random.choice((1, 2, 80))))

    def restart(self) -> None:
        self.deque.reset_cursors()
        self.plain.version += 1

    def go_to_end(self) -> None:
        """Return whether a message that is there was passed over; the others are walked past all the same."""
        fast, plain = self.cursors[0]
        start = plain.start(self.plain.version)
        passed = any(message.position > start for message in self.plain.of_state(AVAILABLE))
        assert self.deque.go_to_end(fast) is passed
        if self.plain.messages and self.plain.messages[-1].position > start:
            plain.place = self.plain.messages[-1].position, self.plain.version

    def assert_same(self) -> None:
        assert list(self.deque) == self.plain.messages
        assert self.deque.available_count() == len(self.plain.of_state(AVAILABLE))
        assert self.deque.eviction_candidate() is (self.plain.messages or [None])[0]
        for fast, plain in self.cursors:
            start = plain.start(self.plain.version)
            for message in self.plain.of_state(AVAILABLE)[::17]:
                assert self.deque.has_passed(fast, message) is (message.position <= start)


@pytest.mark.parametrize("seed", range(12))
def test_it_gives_what_a_walk_over_all_messages_gives(seed):
    """RF-10, DQ-01, LP-10: whatever comes and goes, is acquired and released, in whatever order."""
    pair = Pair(seed)
    acts = (
        *(pair.publish, pair.consume, pair.consume, pair.browse, pair.release),
        *(pair.dequeue, pair.purge, pair.restart, pair.go_to_end),
    )
    for _ in range(300):
        pair.random.choice(acts)()
        pair.assert_same()
