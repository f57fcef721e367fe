"""A queue's flow control: what shipped, or one of two alternatives (ALT-01 … ALT-05).

:class:`JavaCapacity` is the Java broker's: the channel is stopped, no completion is withheld (ALT-12).  A
queue is *overfull* when its bytes exceed its capacity.  A session that sends to an overfull queue is asked
to stop sending at once, to any queue; the message itself is taken.  The session may go on when every queue
that stopped it is down to its resume capacity.

:class:`_WatermarkLimit` is the proposal of QPID-2935 as it was written down before the code (ALT-07,
ALT-08).  A queue is *blocking* from its high watermark on, and *normal* again below its low one.  Whether a
transfer is blocked is decided **once**, after it has been enqueued to all its destinations; it is freed
when all of them are normal, or when it has been consumed from all of them.
"""

from __future__ import annotations

from qflow.broker.context import BrokerContext
from qflow.broker.errors import IllegalArgumentException, InvalidArgumentException
from qflow.broker.flow_limit import FlowState, FlowThresholds, QueueFlowLimit, may_resume
from qflow.broker.message import CommandOwner, QueuedMessage, RoutingListener, Transfer
from qflow.broker.options import FLOW_CONTROLS
from qflow.broker.settings import QueueSettings


class JavaCapacity(FlowState):
    """One queue's capacity and resume capacity, in bytes; there are no message counts."""

    __slots__ = ("capacity", "resume_capacity", "blocked")

    def __init__(self, context: BrokerContext, queue: str, capacity: int, resume_capacity: int) -> None:
        super().__init__(context, queue)
        if resume_capacity > capacity:
            raise IllegalArgumentException(
                f"flowResumeCapacity={resume_capacity} must not be above capacity={capacity}"
            )
        self.capacity = capacity
        # At so many bytes or fewer it is underfull (the source says <=, the documents < : X-29).
        self.resume_capacity = resume_capacity
        self.blocked: list[CommandOwner] = []

    def enqueued(self, message: QueuedMessage) -> None:
        """Count the message; if that makes or finds the queue overfull, stop its sender."""
        self.add(message)
        if not self.exceeds_stop(self.count, self.size):
            return
        if not self.stopped:
            self.turn_on()
        sender = message.transfer.owner
        if sender is not None and sender not in self.blocked:
            self.blocked.append(sender)
            sender.block_channel(self.queue)

    def dequeued(self, message: QueuedMessage) -> None:
        """Un-count the message; if the queue is underfull now, let its senders go on."""
        self.subtract(message)
        if self.stopped and self.may_resume(self.count, self.size):
            self.turn_off()
            blocked, self.blocked = self.blocked, []
            for sender in blocked:
                sender.unblock_channel(self.queue)

    def exceeds_stop(self, count: int, size: int) -> bool:
        """Return whether so many bytes are above the capacity."""
        return self.capacity != 0 and size > self.capacity

    def may_resume(self, count: int, size: int) -> bool:
        """Return whether so many bytes are not above the resume capacity."""
        return size <= self.resume_capacity


HOLDER = "watermark"


class _BlockedFlag(RoutingListener):
    """One transfer's ``blocked`` flag, and the queues it depends on."""

    __slots__ = ("transfer", "destinations", "remaining", "is_set")

    def __init__(self, transfer: Transfer) -> None:
        self.transfer = transfer
        self.destinations: list[_WatermarkLimit] = []
        self.remaining = 0
        self.is_set = False

    def routed(self, transfer: Transfer) -> None:
        blocking = [limit for limit in self.destinations if limit.stopped]
        if blocking and self.remaining:
            self.is_set = True
            transfer.hold(HOLDER)
            blocking[0].show_hold("held", transfer)

    def reconsider(self) -> None:
        """Free the transfer if all its queues are normal, or it has left them all."""
        if self.is_set and (not self.remaining or not any(limit.stopped for limit in self.destinations)):
            self.is_set = False
            self.destinations[0].show_hold("let_go", self.transfer)
            self.transfer.let_go(HOLDER)


class _WatermarkLimit(FlowState):
    """One queue's two watermarks: blocking **at** the high one, normal *below* the low one (ALT-07)."""

    __slots__ = ("thresholds", "flags")

    def __init__(self, context: BrokerContext, queue: str, thresholds: FlowThresholds) -> None:
        super().__init__(context, queue)
        self.thresholds = thresholds
        self.flags: dict[int, _BlockedFlag] = {}

    def enqueued(self, message: QueuedMessage) -> None:
        self.add(message)
        if not self.stopped and self.exceeds_stop(self.count, self.size):
            self.turn_on()
        flag = message.transfer.listener
        if not isinstance(flag, _BlockedFlag):
            flag = message.transfer.listener = _BlockedFlag(message.transfer)
        flag.destinations.append(self)
        flag.remaining += 1
        self.flags[message.position] = flag

    def dequeued(self, message: QueuedMessage) -> None:
        self.subtract(message)
        own = self.flags.pop(message.position)
        own.remaining -= 1
        if self.stopped and self.may_resume(self.count, self.size):
            self.turn_off()
            for flag in list(self.flags.values()):
                flag.reconsider()
        own.reconsider()

    def exceeds_stop(self, count: int, size: int) -> bool:
        marks = self.thresholds
        return (marks.stop_count != 0 and count >= marks.stop_count) or (
            marks.stop_size != 0 and size >= marks.stop_size
        )

    def may_resume(self, count: int, size: int) -> bool:
        return may_resume(self.thresholds, count, size)


ARGUMENT = "qflow.flow_control"


def make_flow_control(
    context: BrokerContext, queue: str, settings: QueueSettings, thresholds: FlowThresholds | None
) -> FlowState | None:
    """Return a queue's flow control, or None for kinds that have none on it; 542 for an unknown kind."""
    kind = settings.arguments.get(ARGUMENT, context.options.flow_control)
    if kind not in FLOW_CONTROLS:
        raise InvalidArgumentException(f"{ARGUMENT}: got {kind!r}, allowed are {', '.join(FLOW_CONTROLS)}")
    if thresholds is None or kind in ("pre-feature", "overflow-list"):
        return None
    if kind == "watermark":
        return _WatermarkLimit(context, queue, thresholds)
    if kind == "java":
        if not thresholds.stop_size:
            return None
        return JavaCapacity(context, queue, thresholds.stop_size, thresholds.resume_size)
    return QueueFlowLimit(context, queue, thresholds)
