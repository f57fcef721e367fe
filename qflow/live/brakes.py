"""Brakes: how a broker tells a sender of AMQP 1.0 that a queue is above its stop threshold.

The protocol has three ways, and each broker uses its own:

=========== ====================================================================================
``silence`` The message is stored, its outcome withheld until the queue is OFF.  Credit plays no
            part (LNK-01, LNK-02).  This is Qpid's C++ broker, and the engine's own way.
``credit``  A link has credit for as many messages as turn its queue ON, and none while it is.  What is
            sent is accepted at once.  A deleted queue gives none any more.
``reject``  While the queue is ON a transfer is rejected with ``amqp:resource-limit-exceeded``, and
            not stored; so is one that passes the queue's limit, which Qpid releases.
=========== ====================================================================================

The queue itself, its thresholds, its hysteresis and its statistics are the same under all three: the engine
decides, and what is here says it in another way.  A link to an exchange is braked by silence under all of
them, as the queues behind it may differ.
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
    """Return whether flow control of a queue is ON."""
    return queue.flow_limit is not None and queue.flow_limit.stopped


def most_credit(queue: Queue, otherwise: int) -> int:
    """Return a link's credit under the brake ``credit``: as many messages as turn the queue ON, then none."""
    from qflow.broker.flow_limit import QueueFlowLimit

    limit = queue.flow_limit
    # Its flow limit stays as it was, and would go on giving credit to nobody's use.
    if queue.is_deleted:
        return 0
    if not isinstance(limit, QueueFlowLimit):
        return otherwise
    if limit.stopped:
        return 0
    # Each link has all of it: to share it would starve one link while another does not use its own.
    stop = limit.thresholds.stop_count
    return min(otherwise, stop + 1 - limit.count) if stop else otherwise
