"""The watermark proposal of QPID-2935, as it was written down before the code (ALT-07, ALT-08).

A queue is *blocking* from its high watermark on, and *normal* again below its low one.  Whether a
transfer is blocked is decided **once**, after it has been enqueued to all its destinations; it is
freed when all of them are normal, or when it has been consumed from all of them.
"""

from __future__ import annotations

from qflow.broker.context import BrokerContext
from qflow.broker.flow_limit import FlowThresholds
from qflow.broker.flow_state import FlowState
from qflow.broker.queued_message import QueuedMessage
from qflow.broker.transfer import RoutingListener, Transfer

HOLDER = "watermark"


class BlockedFlag(RoutingListener):
    """One transfer's ``blocked`` flag, and the queues it depends on."""

    __slots__ = ("transfer", "destinations", "remaining", "is_set")

    def __init__(self, transfer: Transfer) -> None:
        self.transfer = transfer
        self.destinations: list[WatermarkLimit] = []
        self.remaining = 0
        self.is_set = False

    def routed(self, transfer: Transfer) -> None:
        """Decide, now that the message is on all its queues."""
        blocking = [limit for limit in self.destinations if limit.stopped]
        if blocking and self.remaining:
            self.is_set = True
            transfer.hold(HOLDER)
            blocking[0].tell("held", transfer)

    def reconsider(self) -> None:
        """Free the transfer if all its queues are normal, or it has left them all."""
        if self.is_set and (not self.remaining or not any(limit.stopped for limit in self.destinations)):
            self.is_set = False
            self.destinations[0].tell("let_go", self.transfer)
            self.transfer.let_go(HOLDER)


class WatermarkLimit(FlowState):
    """One queue's two watermarks: blocking **at** the high one, normal below the low one.

    The proposal contradicts itself about equality with the low watermark; this follows its rule of
    transition, *falls below* (ALT-07).
    """

    __slots__ = ("thresholds", "flags")

    def __init__(self, context: BrokerContext, queue: str, thresholds: FlowThresholds) -> None:
        super().__init__(context, queue)
        self.thresholds = thresholds
        self.flags: dict[int, BlockedFlag] = {}

    def enqueued(self, message: QueuedMessage) -> None:
        """Count the message; it takes part in the decision about its transfer."""
        self.add(message)
        marks = self.thresholds
        is_high = (marks.stop_count and self.count >= marks.stop_count) or (
            marks.stop_size and self.size >= marks.stop_size
        )
        if is_high and not self.stopped:
            self.turn_on()
        flag = message.transfer.listener
        if not isinstance(flag, BlockedFlag):
            flag = message.transfer.listener = BlockedFlag(message.transfer)
        flag.destinations.append(self)
        flag.remaining += 1
        self.flags[message.position] = flag

    def dequeued(self, message: QueuedMessage) -> None:
        """Un-count the message, and free whom that frees."""
        self.subtract(message)
        marks = self.thresholds
        is_low = (not marks.resume_count or self.count < marks.resume_count) and (
            not marks.resume_size or self.size < marks.resume_size
        )
        own = self.flags.pop(message.position)
        own.remaining -= 1
        if self.stopped and is_low:
            self.turn_off()
            for flag in list(self.flags.values()):
                flag.reconsider()
        own.reconsider()

    def tell(self, kind: str, transfer: Transfer) -> None:
        """Tell the observer that a transfer is blocked, or not any more."""
        self._emit_hold(kind, transfer)
