"""The columns of a frame: which number stands where.

A frame is one row of integers. It begins with the time and what its step did; then come a few columns for
each producer, each queue and each consumer.
"""

from __future__ import annotations

from qflow.labs.topology import Topology

STEP_CHANNELS = (
    "parts",
    "producer",
    "queue",
    "consumer",
    "sender",
    "number",
    "delivery_sender",
    "delivery_number",
    "deliveries",
    "freed",
    "waiter",
    "waiters",
    "group",
    "lost_sender",
    "lost_number",
)
PRODUCER_CHANNELS = ("sent", "outstanding", "held", "blocked", "mood")
QUEUE_CHANNELS = ("depth", "bytes", "flow", "held", "acquired", "discards", "gone")
CONSUMER_CHANNELS = ("present", "holds", "accepted")

PARTS, PRODUCER, QUEUE, CONSUMER, SENDER, NUMBER = range(1, 7)
GOT_SENDER, GOT_NUMBER, DELIVERIES, FREED, WAITER, WAITERS, GROUP, LOST_SENDER, LOST_NUMBER = range(7, 16)
AFTER_STEP = 1 + len(STEP_CHANNELS)
SENT, OUTSTANDING, P_HELD, BLOCKED, MOOD = range(len(PRODUCER_CHANNELS))
DEPTH, BYTES, FLOW, Q_HELD, ACQUIRED, DISCARDS, GONE = range(len(QUEUE_CHANNELS))
PRESENT, HOLDS, ACCEPTED = range(len(CONSUMER_CHANNELS))


def channel_names(topology: Topology) -> tuple[str, ...]:
    """Name the columns of a frame, in order.

    Parameters
    ----------
    topology
        Who takes part.

    Returns
    -------
    tuple of str
        ``time``, ``step.…``, then ``producer.NAME.…``, ``queue.NAME.…`` and ``consumer.NAME.…``.

    Examples
    --------
    >>> from qflow.labs.topology import QueueSpot
    >>> channel_names(Topology((), (QueueSpot("orders"),), (), (), 0))[-7:-4]
    ('queue.orders.depth', 'queue.orders.bytes', 'queue.orders.flow')
    """
    names = ["time", *(f"step.{name}" for name in STEP_CHANNELS)]
    for kind, spots, channels in (
        ("producer", topology.producers, PRODUCER_CHANNELS),
        ("queue", topology.queues, QUEUE_CHANNELS),
        ("consumer", topology.consumers, CONSUMER_CHANNELS),
    ):
        names += [f"{kind}.{spot.name}.{channel}" for spot in spots for channel in channels]
    return tuple(names)
