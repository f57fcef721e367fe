"""Brakes: the ways in which a broker tells a sender of AMQP 1.0 that a queue is above its stop threshold.

The protocol allows three ways, and each broker uses one of them:

=========== ====================================================================================
``silence`` The message is stored, its outcome withheld until the queue is OFF.  Credit plays no
            part (LNK-01, LNK-02).  Qpid's C++ broker and the engine work this way.
``credit``  A link has credit for as many messages as turn its queue ON, and none while it is ON.
            Messages are accepted at once.  A deleted queue grants no more credit.
``reject``  While the queue is ON a transfer is rejected with ``amqp:resource-limit-exceeded``, and
            not stored.  So is a transfer above the queue's limit, which Qpid's broker releases.
=========== ====================================================================================

The queue, its thresholds, its hysteresis and its statistics are the same under all three: the engine decides,
and the brake only changes how the decision is signalled.  A link to an exchange always uses silence, as the
queues behind the exchange may differ.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from qflow.broker.queue import Queue

SILENCE: Final = "silence"
CREDIT: Final = "credit"
REJECT: Final = "reject"
BRAKES: Final = (SILENCE, CREDIT, REJECT)

REJECTED: Final = "amqp:resource-limit-exceeded"
"""The condition of a rejected transfer."""


def is_on(queue: Queue) -> bool:
    """Return whether a queue's flow control is ON."""
    return queue.flow_limit is not None and queue.flow_limit.stopped


def most_credit(queue: Queue, otherwise: int) -> int:
    """Return a link's credit under the brake ``credit``; `otherwise` is the credit without a stop."""
    from qflow.broker.flow_limit import QueueFlowLimit

    limit = queue.flow_limit
    # The flow limit of a deleted queue no longer changes, so it would grant useless credit.
    if queue.is_deleted:
        return 0
    if not isinstance(limit, QueueFlowLimit):
        return otherwise
    if limit.stopped:
        return 0
    # Each link gets the full credit: shared credit would starve one link while another does not use its part.
    stop = limit.thresholds.stop_count
    return min(otherwise, stop + 1 - limit.count) if stop else otherwise
