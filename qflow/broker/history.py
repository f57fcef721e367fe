"""Alternatives to the broker's flow control that were proposed or built (rules.md#alt-design-alternatives).

Each alternative runs in the same engine, on the same commands: choose one with
``BrokerOptions(flow_control=…)``, or for one queue with the declare argument ``qflow.flow_control``.

:class:`JavaCapacity` is the flow control of the Java broker, which stops channels and withholds no
completions (ALT-12).  A queue is *overfull* when its bytes exceed its capacity.  The queue accepts a message
that arrives then, but the broker requests that the sending session stop at once, for all queues.  The session
may resume when every queue that stopped it has fallen to its resume capacity.

:class:`_WatermarkLimit` is the proposal of QPID-2935, as written before the code (ALT-07, ALT-08).  A queue
is *blocking* from its high watermark on, and *normal* again below its low watermark.  Whether a transfer is
blocked is decided **once**, after it has been enqueued on all its queues.  It is released when all of these
queues are normal, or when the message has left all of them.

:class:`OverflowList` is the proof of concept of QPID-2935, in which messages without room wait in a list in
the broker, not in the client (ALT-06).  Each session has such a list, and a timer.  A message for which a
queue has no room is added to the list, where the shipped broker would end the session.  While the list is not
empty, **every** later message of the session is added to its tail, even if its own queue has room.  At each
tick of the timer, messages are routed from the head until one has no room.  The completions of listed
messages are withheld, so that the client's capacity limits the length of the list.  The proposal leaves three
questions open.  Here the tick is :data:`INTERVAL` in virtual time; the list is lost at the end of the
session; and a message that only some of its queues accepted is routed to **all** of them again, which
duplicates it on those.

:func:`replicate` and :func:`join` model the update that a broker cluster sent to a joining broker for a
queue's flow control (CM-16): 36 bytes of thresholds and counters, and a list of the held positions.  The
state ON or OFF was not part of the update: the joining broker set it to ON if any transfer was held.  So a
queue that is ON without a held transfer becomes OFF in the joining broker, and the two brokers diverge.
"""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass

from qflow.broker.completions import RangeSet
from qflow.broker.context import BrokerContext, TimerTask
from qflow.broker.errors import (
    IllegalArgumentException,
    InvalidArgumentException,
    ResourceLimitExceededException,
)
from qflow.broker.flow_limit import FlowState, FlowThresholds, QueueFlowLimit, may_resume
from qflow.broker.message import CommandOwner, QueuedMessage, Router, RoutingListener, Transfer
from qflow.broker.options import FLOW_CONTROLS
from qflow.broker.restorable import Frozen
from qflow.broker.settings import QueueSettings

ARGUMENT = "qflow.flow_control"


def make_flow_control(
    context: BrokerContext, queue: str, settings: QueueSettings, thresholds: FlowThresholds | None
) -> FlowState | None:
    """Return a new queue's flow control, or None if its kind uses none; raise 542 for an unknown kind."""
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


class JavaCapacity(FlowState):
    """The flow control of the Java broker, with a capacity and a resume capacity in bytes (ALT-12)."""

    __slots__ = ("capacity", "resume_capacity", "blocked")

    def __init__(self, context: BrokerContext, queue: str, capacity: int, resume_capacity: int) -> None:
        super().__init__(context, queue)
        if resume_capacity > capacity:
            raise IllegalArgumentException(
                f"flowResumeCapacity={resume_capacity} must not be above capacity={capacity}"
            )
        self.capacity = capacity
        # The queue is underfull at this number of bytes or fewer (the source has <=, the documents < : X-29).
        self.resume_capacity = resume_capacity
        self.blocked: list[CommandOwner] = []

    def enqueued(self, message: QueuedMessage) -> None:
        """Count the message, and request that its sender stop if the queue is overfull then."""
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
        """Subtract the message, and let the stopped senders resume if the queue is underfull then."""
        self.subtract(message)
        if self.stopped and self.may_resume(self.count, self.size):
            self.turn_off()
            blocked, self.blocked = self.blocked, []
            for sender in blocked:
                sender.unblock_channel(self.queue)

    def exceeds_stop(self, count: int, size: int) -> bool:
        """Return whether a depth in bytes is above the capacity."""
        return self.capacity != 0 and size > self.capacity

    def may_resume(self, count: int, size: int) -> bool:
        """Return whether a depth in bytes is at most the resume capacity."""
        return size <= self.resume_capacity


WATERMARK = "watermark"


class _BlockedFlag(RoutingListener):
    """The ``blocked`` flag of a transfer, and the queues on which it depends."""

    __slots__ = ("transfer", "destinations", "remaining", "is_set")

    def __init__(self, transfer: Transfer) -> None:
        self.transfer = transfer
        self.destinations: list[_WatermarkLimit] = []
        self.remaining = 0
        self.is_set = False

    def routed(self, transfer: Transfer) -> None:
        # Decided once, after the last enqueue: a queue that begins to block later has no effect (ALT-07).
        blocking = [limit for limit in self.destinations if limit.stopped]
        if blocking and self.remaining:
            self.is_set = True
            transfer.hold(WATERMARK)
            blocking[0].show_hold("held", transfer)

    def reconsider(self) -> None:
        """Release the transfer if all its queues are normal, or if the message has left all of them."""
        if self.is_set and (not self.remaining or not any(limit.stopped for limit in self.destinations)):
            self.is_set = False
            self.destinations[0].show_hold("let_go", self.transfer)
            self.transfer.release_hold(WATERMARK)


class _WatermarkLimit(FlowState):
    """Flow control by watermarks: blocking **at** the high one, normal *below* the low one (ALT-07)."""

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


OVERFLOW = "overflow list"
INTERVAL = 100_000
"""Microseconds between two ticks of an overflow list's timer."""


class OverflowList(TimerTask):
    """The list of a session's messages that wait for room on their queues, and its timer (ALT-06)."""

    __slots__ = ("context", "waiting", "is_active")

    def __init__(self, context: BrokerContext) -> None:
        self.context = context
        self.waiting: deque[tuple[Transfer, Router]] = deque()
        self.is_active = True
        context.timers.schedule(context.now + INTERVAL, self)

    def route(self, transfer: Transfer, exchange: Router) -> None:
        """Route a transfer, or add it to the list if the list is not empty or a queue has no room."""
        if self.waiting or not _fits(transfer, exchange):
            transfer.hold(OVERFLOW)
            self.waiting.append((transfer, exchange))
            if self.context.observer is not None:
                detail = {"command": transfer.number, "waiting": len(self.waiting)}
                self.context.emit(
                    "listed", "", transfer.origin, exchange.name, transfer.label, transfer.size, "", detail
                )

    def fire(self, due: int) -> None:
        """Route messages from the head of the list until one has no room, and schedule the next tick."""
        if not self.is_active:
            return
        self.context.timers.schedule(due + INTERVAL, self)
        while self.waiting and _fits(*self.waiting[0]):
            transfer, _ = self.waiting.popleft()
            transfer.release_hold(OVERFLOW)

    def stop(self) -> None:
        """Drop all messages in the list, and stop the timer, at the end of the session."""
        self.is_active = False
        self.waiting.clear()


def _fits(transfer: Transfer, exchange: Router) -> bool:
    try:
        exchange.route_with_alternate(transfer)
    except ResourceLimitExceededException:
        return False
    return True


_LAYOUT = struct.Struct(">IIQQIQ")


@dataclass(frozen=True, slots=True)
class ReplicatedState(Frozen):
    """The update of a queue's flow control for a joining broker, made by :func:`replicate`."""

    # The numbers u32 stop_count, u32 resume_count, u64 stop_size, u64 resume_size, u32 count, u64 size.
    encoded: bytes
    # The first and last position of each range of held messages.
    pending_msg_seqs: tuple[tuple[int, int], ...]


def replicate(limit: QueueFlowLimit) -> ReplicatedState:
    """Return the update of a queue's flow control that a joining broker receives (CM-16).

    Parameters:
        limit: The flow control of the queue in the broker that sends the update.
    """
    levels = limit.thresholds
    encoded = _LAYOUT.pack(
        levels.stop_count, levels.resume_count, levels.stop_size, levels.resume_size, limit.count, limit.size
    )
    held = RangeSet()
    for position in limit.held:
        held.add(position)
    return ReplicatedState(encoded, tuple(held.ranges()))


def join(limit: QueueFlowLimit, state: ReplicatedState, transfers: dict[int, Transfer]) -> None:
    """Set the flow control of a queue in a joining broker from the update that it received (CM-16).

    Parameters:
        limit: The flow control of the joining broker's queue, which is changed.
        state: The update, made by :func:`replicate` in another broker.
        transfers: The transfers on the joining broker's queue, by position.

    Raises:
        ValueError: If the encoded part of the update is not 36 bytes long.
        KeyError: If the update names a held position for which there is no transfer.
    """
    if len(state.encoded) != _LAYOUT.size:
        raise ValueError(f"the encoded flow state must have {_LAYOUT.size} bytes; got {len(state.encoded)}")
    *levels, limit.count, limit.size = _LAYOUT.unpack(state.encoded)
    limit.thresholds = FlowThresholds(*levels)
    limit.held = {
        position: transfers[position]
        for first, last in state.pending_msg_seqs
        for position in range(first, last + 1)
    }
    limit.stopped = bool(limit.held)
