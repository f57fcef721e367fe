"""What a full queue does: reject, ring, self-destruct (LP).

Lay it beside ``Queue::checkDepth``, ``LossyQueue`` and ``SelfDestructQueue``.  A policy is asked
about a message for which there is no room, and either makes room, or drops the message, or raises.
"""

from __future__ import annotations

from collections.abc import Callable

from qflow.broker.errors import ResourceLimitExceededException
from qflow.broker.queue_view import QueueView
from qflow.broker.queued_message import ACQUIRED
from qflow.broker.transfer import Transfer

Policy = Callable[[QueueView, Transfer], bool]
"""Return True with the room reserved, or False if the message is dropped without a word."""


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
    return _ring(queue, transfer, by_priority=False)


def priority_ring(queue: QueueView, transfer: Transfer) -> bool:
    """Drop messages of no higher priority until the new one fits, else drop the new one (LP-12)."""
    return _ring(queue, transfer, by_priority=True)


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
    while not queue.depth.take_room(transfer.size):
        victim = queue.eviction_candidate()
        if victim is None or victim.state == ACQUIRED:
            return reject(queue, transfer)
        queue.count_ring()
        queue.evict(victim)
    return True


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


def _ring(queue: QueueView, transfer: Transfer, by_priority: bool) -> bool:
    depth = queue.depth
    if depth.max_size and transfer.size > depth.max_size:
        queue.count_overflow()
        raise ResourceLimitExceededException(
            f"Message larger than configured maximum depth on {queue.name}: "
            f"size={transfer.size}, max-size={depth.max_size}"
        )
    # A ring that is bound to its own alternate gets back what it evicts: look at each message once.
    for _ in range(depth.count + 1):
        if depth.take_room(transfer.size):
            return True
        victim = queue.eviction_candidate()
        if victim is None or (by_priority and _priority(victim.transfer) > _priority(transfer)):
            break
        # Counted last: what the alternate's queues refuse is gone, and yet not counted.
        queue.evict(victim)
        queue.count_ring()
    queue.count_ring()
    return False


def _priority(transfer: Transfer) -> int:
    return transfer.message.priority or 0
