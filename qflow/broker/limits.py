"""What a full queue does: reject, ring, self-destruct (LP).

Lay it beside ``Queue::checkDepth``, ``LossyQueue`` and ``SelfDestructQueue``.  A policy is asked
about a message for which there is no room, and either makes room, or drops the message, or raises.
"""

from __future__ import annotations

from collections.abc import Callable

from qflow.broker.errors import ResourceLimitExceededException
from qflow.broker.queue_view import QueueView
from qflow.broker.queued_message import ACQUIRED, QueuedMessage
from qflow.broker.transfer import Transfer

Policy = Callable[[QueueView, Transfer], bool]
"""Return True with the room reserved, or False if the message is dropped without a word."""

MayGo = Callable[[QueuedMessage, Transfer], bool]
"""Whether a ring may drop its oldest message for a new one."""


def reject(queue: QueueView, transfer: Transfer) -> bool:
    """Refuse a message that does not fit (LP-05).

    Raises
    ------
    ResourceLimitExceededException
        506, with current depth, limits and increment.
    """
    queue.count_overflow()
    raise ResourceLimitExceededException(queue.depth.refusal(queue.name, transfer.size))


def ring(queue: QueueView, transfer: Transfer) -> bool:
    """Drop the oldest messages until the new one fits (LP-10)."""
    return _ring(queue, transfer, _anything)


def priority_ring(queue: QueueView, transfer: Transfer) -> bool:
    """Drop messages of no higher priority until the new one fits, else drop the new one (LP-12)."""
    return _ring(queue, transfer, _no_higher)


def self_destruct(queue: QueueView, transfer: Transfer) -> bool:
    """Delete the queue when a message does not fit; that message is lost (LP-15)."""
    queue.self_destruct()
    return False


def ring_strict(queue: QueueView, transfer: Transfer) -> bool:
    """Drop the oldest messages, but refuse the new one rather than drop an acquired one (LP-19).

    Raises
    ------
    ResourceLimitExceededException
        506, if the oldest message is acquired.
    """
    return _evict(queue, transfer, _not_acquired) or reject(queue, transfer)


def make_policy(policy: str, has_priorities: bool, era: str = "current") -> str:
    """Return the name, in :data:`POLICIES`, of the policy that a queue follows (LP-04, LP-19).

    Examples
    --------
    >>> make_policy("ring", False), make_policy("ring", True), make_policy("RING", False)
    ('ring', 'priority_ring', 'reject')
    >>> make_policy("RING_STRICT", False, era="historic")
    'ring_strict'
    """
    if era == "historic":
        policy = policy.lower()
        if policy == "ring_strict":
            return policy
    if policy == "ring":
        return "priority_ring" if has_priorities else "ring"
    return "self-destruct" if policy == "self-destruct" else "reject"


POLICIES: dict[str, Policy] = {
    "reject": reject,
    "ring": ring,
    "priority_ring": priority_ring,
    "ring_strict": ring_strict,
    "self-destruct": self_destruct,
}


def _ring(queue: QueueView, transfer: Transfer, may_go: MayGo) -> bool:
    maximum = queue.depth.max_size
    if maximum and transfer.size > maximum:
        queue.count_overflow()
        raise ResourceLimitExceededException(
            f"Message larger than configured maximum depth on {queue.name}: "
            f"size={transfer.size}, max-size={maximum}"
        )
    if _evict(queue, transfer, may_go):
        return True
    queue.count_ring()
    return False


def _evict(queue: QueueView, transfer: Transfer, may_go: MayGo) -> bool:
    """Drop the oldest messages, while they may go, until the new one fits; return whether it does."""
    # Two rings that are each other's alternates would evict what the other one evicts for ever.
    if queue.is_evicting:
        return False
    queue.is_evicting = True
    try:
        # A ring that is bound to its own alternate gets back what it evicts: look at each message once.
        for _ in range(queue.depth.count + 1):
            if queue.depth.take_room(transfer.size):
                return True
            victim = queue.eviction_candidate()
            if victim is None or not may_go(victim, transfer):
                return False
            # Counted last: what the alternate's queues refuse is gone, and yet not counted.
            queue.evict(victim)
            queue.count_ring()
    finally:
        queue.is_evicting = False
    return False


def _anything(victim: QueuedMessage, transfer: Transfer) -> bool:
    return True


def _no_higher(victim: QueuedMessage, transfer: Transfer) -> bool:
    return (victim.transfer.message.priority or 0) <= (transfer.message.priority or 0)


def _not_acquired(victim: QueuedMessage, transfer: Transfer) -> bool:
    return victim.state != ACQUIRED
