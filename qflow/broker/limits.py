"""Limit policies: the behaviour of a full queue, such as reject, ring and self-destruct (LP).

A queue calls its policy for a message for which it has no room.  The policy makes room, drops the message
silently, or raises an exception.  Compare ``Queue::checkDepth``, ``LossyQueue`` and ``SelfDestructQueue``.
"""

from __future__ import annotations

from typing import ClassVar, NoReturn

from qflow.broker.errors import BrokerFailure, ResourceLimitExceededException
from qflow.broker.message import ACQUIRED, QueuedMessage, Transfer
from qflow.broker.queue import LimitPolicy, Queue


class Reject(LimitPolicy):
    """A policy that refuses a message without room: 506, with depth, limits and increment (LP-05)."""

    name: ClassVar[str] = "reject"

    __slots__ = ()

    def make_room(self, queue: Queue, transfer: Transfer) -> bool:
        """Count the overflow, and raise ResourceLimitExceededException (506)."""
        _refuse(queue, queue.depth.refusal(queue.name, transfer.size))


def _refuse(queue: Queue, text: str) -> NoReturn:
    queue.counters.discardsOverflow += 1
    raise ResourceLimitExceededException(text)


class Ring(LimitPolicy):
    """A policy that drops the oldest messages, even acquired ones, until the new one fits (LP-10)."""

    name: ClassVar[str] = "ring"

    __slots__ = ("is_evicting",)

    def __init__(self) -> None:
        self.is_evicting = False

    def make_room(self, queue: Queue, transfer: Transfer) -> bool:
        """Evict messages for the new one, or drop the new one; refuse one that is larger than the limit."""
        maximum = queue.depth.max_size
        if maximum and transfer.size > maximum:
            _refuse(
                queue,
                f"Message larger than configured maximum depth on {queue.name}: "
                f"size={transfer.size}, max-size={maximum}",
            )
        if self.evict(queue, transfer):
            return True
        queue.counters.discardsRing += 1
        return False

    def may_drop(self, oldest: QueuedMessage, transfer: Transfer) -> bool:
        """Return whether the oldest message may be dropped for the new one."""
        return True

    def evict(self, queue: Queue, transfer: Transfer) -> bool:
        """Drop the oldest messages, while allowed, until the new one fits; return whether it does."""
        # Two rings that are each other's alternates would evict each other's messages for ever.
        if self.is_evicting:
            raise _make_circle(queue)
        self.is_evicting, comes_back = True, False
        try:
            # A ring that is bound to its own alternate gets its evicted messages back: evict each only once.
            for _ in range(queue.depth.count + 1):
                if queue.depth.take_room(transfer.size):
                    if comes_back:
                        # The real broker hangs in this case, even if there is room (rnd6-qmfmove-400035).
                        queue.context.note_failure("hang", _CIRCLE.format(queue.name), queue.name)
                    return True
                oldest = queue.store.eviction_candidate()
                if oldest is None or not self.may_drop(oldest, transfer):
                    return False
                last = queue.position
                # Counted last: a message that the alternate's queues refuse is lost without being counted.
                queue.evict(oldest)
                comes_back = comes_back or queue.position != last
                queue.counters.discardsRing += 1
        finally:
            self.is_evicting = False
        raise _make_circle(queue)


_CIRCLE = "ring queue {} evicts into itself, through its alternate exchange: the real broker never ends"


def _make_circle(queue: Queue) -> BrokerFailure:
    text = f"{_CIRCLE.format(queue.name)}, so it is refused here"
    return queue.context.make_failure("hang", text, queue.name)


class _PriorityRing(Ring):
    """A ring that drops only messages of the same or a lower priority for a new one (LP-12)."""

    name: ClassVar[str] = "priority_ring"

    __slots__ = ()

    def may_drop(self, oldest: QueuedMessage, transfer: Transfer) -> bool:
        return (oldest.transfer.message.priority or 0) <= (transfer.message.priority or 0)


class _RingStrict(Ring):
    """A ring that refuses the new message if it would have to drop an acquired one (LP-19)."""

    name: ClassVar[str] = "ring_strict"

    __slots__ = ()

    def make_room(self, queue: Queue, transfer: Transfer) -> bool:
        if not self.evict(queue, transfer):
            _refuse(queue, queue.depth.refusal(queue.name, transfer.size))
        return True

    def may_drop(self, oldest: QueuedMessage, transfer: Transfer) -> bool:
        return oldest.state != ACQUIRED


class _SelfDestruct(LimitPolicy):
    """A policy that deletes the queue if a message does not fit; that message is lost (LP-15)."""

    name: ClassVar[str] = "self-destruct"

    __slots__ = ()

    def make_room(self, queue: Queue, transfer: Transfer) -> bool:
        if queue.durable:
            raise queue.make_hang("destroys itself")
        queue.context.destroy_queue(queue.name, "self-destruct")
        return False


POLICIES: dict[str, type[LimitPolicy]] = {
    policy.name: policy for policy in (Reject, Ring, _PriorityRing, _RingStrict, _SelfDestruct)
}


def make_policy(policy: str, has_priorities: bool, era: str = "current") -> str:
    """Return the name, in :data:`POLICIES`, of the policy that a queue's arguments select (LP-04, LP-19)."""
    if era == "historic":
        policy = policy.lower()
        if policy == "ring_strict":
            return policy
    if policy == "ring":
        return "priority_ring" if has_priorities else "ring"
    return "self-destruct" if policy == "self-destruct" else "reject"
