"""QueueView: the side of a queue that its limit policy and its lifetime see.

The queue itself imports both, so they know it by this base class only.

QueueDepth: the room that messages reserve on a queue, against its limits (LP-01, LP-02).
"""

from __future__ import annotations

from qflow.broker.context import BrokerContext, QueueCounters
from qflow.broker.queued_message import QueuedMessage
from qflow.broker.restorable import Restorable
from qflow.broker.transfer import Transfer


class QueueDepth(Restorable):
    """Room reserved on a queue against its limits, in messages and bytes; 0 is no limit (LP-01).

    Examples
    --------
    >>> depth = QueueDepth(max_count=3, max_size=0)
    >>> [depth.take_room(100) for _ in range(4)]
    [True, True, True, False]
    """

    __slots__ = ("max_count", "max_size", "count", "size")

    def __init__(self, max_count: int, max_size: int) -> None:
        self.max_count = max_count
        self.max_size = max_size
        self.count = 0
        self.size = 0

    def take_room(self, size: int) -> bool:
        """Count one more message if there is room for it; return whether there was.

        Exactly full is not too much (LP-02).
        """
        count, total = self.count + 1, self.size + size
        if (self.max_count and count > self.max_count) or (self.max_size and total > self.max_size):
            return False
        self.count = count
        self.size = total
        return True

    def give_back(self, size: int) -> None:
        """Count one message less."""
        self.count -= 1
        self.size -= size

    def refusal(self, queue: str, size: int) -> str:
        """Return the broker's words for a breach (LP-03)."""
        current = _depth_text(True, self.count, bool(self.max_size), self.size)
        allowed = _depth_text(bool(self.max_count), self.max_count, bool(self.max_size), self.max_size)
        increment = _depth_text(True, 1, True, size)
        return f"Maximum depth exceeded on {queue}: current={current}, max={allowed}, increment={increment}"


def _depth_text(has_count: bool, count: int, has_size: bool, size: int) -> str:
    parts = [f"count: {count}"] if has_count else []
    parts += [f"size: {size}"] if has_size else []
    return f"[{', '.join(parts)}]"


class QueueView(Restorable):
    """What a policy may ask of a queue, and do to it."""

    __slots__ = ("context", "name", "depth", "counters", "is_deleted", "is_evicting")

    def __init__(self, context: BrokerContext, name: str, depth: QueueDepth) -> None:
        self.context = context
        self.name = name
        self.counters = QueueCounters()
        self.depth = depth
        self.is_deleted = False
        self.is_evicting = False

    @property
    def message_depth(self) -> int:
        """Messages on the queue, acquired ones included (``msgDepth``)."""
        return self.counters.depth()[0]

    @property
    def byte_depth(self) -> int:
        """Their bytes (``byteDepth``)."""
        return self.counters.depth()[1]

    def group_of(self, message: QueuedMessage) -> str:
        """Return the message's group on this queue, or ""."""
        raise NotImplementedError

    @property
    def is_unused(self) -> bool:
        """Whether nobody reads the queue."""
        raise NotImplementedError

    @property
    def is_empty(self) -> bool:
        """Whether no room is reserved on the queue."""
        return not self.depth.count

    def reserve(self, transfer: Transfer) -> bool:
        """Ask the limit policy for room; False means: dropped without a word."""
        raise NotImplementedError

    def push(self, transfer: Transfer, delivery_count: int = -1, in_transaction: bool = False) -> None:
        """Put a message for which room is reserved on the queue."""
        raise NotImplementedError

    def count_overflow(self) -> None:
        """Count a message that was refused (LP-05)."""
        self.counters.discardsOverflow += 1

    def count_ring(self) -> None:
        """Count a message that a ring dropped (LP-10)."""
        self.counters.discardsRing += 1

    def eviction_candidate(self) -> QueuedMessage | None:
        """Return the message that a ring would drop next."""
        raise NotImplementedError

    def evict(self, message: QueuedMessage) -> None:
        """Remove a message and hand it to the alternate exchange, if there is one (LP-10.3)."""
        raise NotImplementedError

    def self_destruct(self) -> None:
        """Delete the queue (LP-15)."""
        self.context.destroy_queue(self.name, "self-destruct")
