"""What the cluster sent a joining broker of a queue's flow control (CM-16).

36 bytes of thresholds and counters, and a list of the held positions.  Whether the queue is ON was
not sent: the newcomer took it to be ON when something is held.  So a queue that is ON with nothing
held arrives as OFF, and the two brokers part ways.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from qflow.broker.completions import RangeSet
from qflow.broker.flow_limit import FlowThresholds, QueueFlowLimit
from qflow.broker.message import Transfer
from qflow.broker.restorable import Frozen

_LAYOUT = struct.Struct(">IIQQIQ")


@dataclass(frozen=True, slots=True)
class ReplicatedState(Frozen):
    """What is sent: the encoded numbers, and the ranges of held positions."""

    # u32 stop_count, u32 resume_count, u64 stop_size, u64 resume_size, u32 count, u64 size.
    encoded: bytes
    # First and last of each range of held positions.
    pending_msg_seqs: tuple[tuple[int, int], ...]


def replicate(limit: QueueFlowLimit) -> ReplicatedState:
    """Return what a joining broker is sent of a queue's flow control."""
    levels = limit.thresholds
    encoded = _LAYOUT.pack(
        levels.stop_count, levels.resume_count, levels.stop_size, levels.resume_size, limit.count, limit.size
    )
    held = RangeSet()
    for position in limit.held:
        held.add(position)
    return ReplicatedState(encoded, tuple(held.ranges()))


def join(limit: QueueFlowLimit, state: ReplicatedState, transfers: dict[int, Transfer]) -> None:
    """Set a newcomer's flow control from what it was sent.

    Parameters:
        limit: The newcomer's.
        state: What the other broker sent; ValueError if its encoded part is not 36 bytes long.
        transfers: The newcomer's transfers by position on the queue.
    """
    if len(state.encoded) != _LAYOUT.size:
        raise ValueError(f"replicated flow state is {_LAYOUT.size} bytes, got {len(state.encoded)}")
    *levels, limit.count, limit.size = _LAYOUT.unpack(state.encoded)
    limit.thresholds = FlowThresholds(*levels)
    limit.held = {
        position: transfers[position]
        for first, last in state.pending_msg_seqs
        for position in range(first, last + 1)
    }
    limit.stopped = bool(limit.held)
