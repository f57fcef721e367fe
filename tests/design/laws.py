"""A law that holds the explored states to more than the bounds do, with its proof."""

from __future__ import annotations

from qflow.broker.flow_limit import FlowThresholds
from qflow.design.bounds import Traffic


def stall_range(thresholds: FlowThresholds, traffic: Traffic, window: str = "ideal") -> tuple[int, int]:
    """Return the least and the greatest depth, in messages, of a queue without a consumer in the end.

    For a queue that stops by count, and whose producers send to no other.

    Proof.  Nothing leaves the queue, so when the last producer blocks it holds the ``stop`` messages that
    were not held and all that came later, which are held (FC-15, FC-17).  A producer blocks only for a
    transfer that is not complete, and only this queue withholds completions, so each has at least one
    held transfer there: depth ≥ stop + number of producers.  The upper bound is :func:`maximum_depth`.

    With the ideal window both are the same: it forgets a complete transfer at once, so a full window is
    full of held transfers: depth = stop + Σ capacity, in whatever order and however fast.  The qpid-cpp
    window forgets late (CAP-02).  A sender that is faster than the answers never looks before its window is
    full; so of producer i those are still taken for outstanding which it sent since it was last full, and
    depth = stop + Σ (capacity_i − n_i mod capacity_i), where n_i is what it had sent when the queue turned
    ON, Σ n_i = stop.
    """
    stop, most = thresholds.stop_count, sum(sender.capacity for sender in traffic.values())
    return stop + (most if window == "ideal" else len(traffic)), stop + most
