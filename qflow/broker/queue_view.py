"""QueueView: the side of a queue that its limit policy and its lifetime see.

The queue itself imports both, so they know it by this base class only.
"""

from __future__ import annotations

from qflow.broker.context import BrokerContext
from qflow.broker.counters import QueueCounters
from qflow.broker.depth import QueueDepth
from qflow.broker.queued_message import QueuedMessage
from qflow.broker.restorable import Restorable
from qflow.broker.transfer import Transfer


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
