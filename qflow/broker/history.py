"""What was proposed, tried or built before and beside what shipped (rules.md#alt-design-alternatives).

Each alternative plugs into the same engine: choose one with ``BrokerOptions(flow_control=…)``, or for one
queue with the declare argument ``qflow.flow_control``, and run the same commands.

:class:`JavaCapacity` is the Java broker's: the channel is stopped, no completion is withheld (ALT-12).  A
queue is *overfull* when its bytes exceed its capacity.  A session that sends to an overfull queue is asked
to stop sending at once, to any queue; the message itself is taken.  The session may go on when every queue
that stopped it is down to its resume capacity.

:class:`_WatermarkLimit` is the proposal of QPID-2935 as it was written down before the code (ALT-07,
ALT-08).  A queue is *blocking* from its high watermark on, and *normal* again below its low one.  Whether a
transfer is blocked is decided **once**, after it has been enqueued to all its destinations; it is freed
when all of them are normal, or when it has been consumed from all of them.

:class:`OverflowList` is the proof of concept of QPID-2935: messages that do not fit wait in a list, not in
the client (ALT-06).  Each session has its list and a timer.  A message refused for want of room goes to the
list instead of killing the session; while the list is not empty **every** later message of the session goes
to its tail, also those for other queues that have room.  Each tick routes from the head until one does not
fit.  Completions are withheld for what is listed, so the client's capacity bounds the list.  The document
leaves three things open.  Here the tick is virtual time, every :data:`INTERVAL`; the list goes with the
session; and a message that some of its queues took is tried again on **all** of them, which gives those
duplicates.

:func:`replicate` and :func:`join` are what the cluster sent a joining broker of a queue's flow control
(CM-16): 36 bytes of thresholds and counters, and a list of the held positions.  Whether the queue is ON was
not sent: the newcomer took it to be ON when something is held.  So a queue that is ON with nothing held
arrives as OFF, and the two brokers part ways.
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
        """Subtract the message; an underfull queue releases its senders."""
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
    """One transfer's ``blocked`` flag, and the queues it depends on."""

    __slots__ = ("transfer", "destinations", "remaining", "is_set")

    def __init__(self, transfer: Transfer) -> None:
        self.transfer = transfer
        self.destinations: list[_WatermarkLimit] = []
        self.remaining = 0
        self.is_set = False

    def routed(self, transfer: Transfer) -> None:
        # Once, after the last enqueue; a queue that begins to block later does not hold it any more (ALT-07).
        blocking = [limit for limit in self.destinations if limit.stopped]
        if blocking and self.remaining:
            self.is_set = True
            transfer.hold(WATERMARK)
            blocking[0].show_hold("held", transfer)

    def reconsider(self) -> None:
        """Release the transfer if all its queues are normal, or it has left them all."""
        if self.is_set and (not self.remaining or not any(limit.stopped for limit in self.destinations)):
            self.is_set = False
            self.destinations[0].show_hold("let_go", self.transfer)
            self.transfer.release_hold(WATERMARK)


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


OVERFLOW = "overflow list"
INTERVAL = 100_000
"""Microseconds between ticks."""


class OverflowList(TimerTask):
    """One session's list of messages that wait for room, and its retry timer."""

    __slots__ = ("context", "waiting", "is_active")

    def __init__(self, context: BrokerContext) -> None:
        self.context = context
        self.waiting: deque[tuple[Transfer, Router]] = deque()
        self.is_active = True
        context.timers.schedule(context.now + INTERVAL, self)

    def route(self, transfer: Transfer, exchange: Router) -> None:
        """Route a transfer, or put it to the tail of the list."""
        if self.waiting or not _fits(transfer, exchange):
            transfer.hold(OVERFLOW)
            self.waiting.append((transfer, exchange))
            if self.context.observer is not None:
                detail = {"command": transfer.number, "waiting": len(self.waiting)}
                self.context.emit(
                    "listed", "", transfer.origin, exchange.name, transfer.label, transfer.size, "", detail
                )

    def fire(self, due: int) -> None:
        """Route from the head until a message does not fit, and try again later."""
        if not self.is_active:
            return
        self.context.timers.schedule(due + INTERVAL, self)
        while self.waiting and _fits(*self.waiting[0]):
            transfer, _ = self.waiting.popleft()
            transfer.release_hold(OVERFLOW)

    def stop(self) -> None:
        """End with the session: messages that still wait are lost."""
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
    """A replicated update: the encoded numbers, and the ranges of held positions."""

    # u32 stop_count, u32 resume_count, u64 stop_size, u64 resume_size, u32 count, u64 size.
    encoded: bytes
    # First and last of each range of held positions.
    pending_msg_seqs: tuple[tuple[int, int], ...]


def replicate(limit: QueueFlowLimit) -> ReplicatedState:
    """Return the update of a queue's flow control that a joining broker receives."""
    levels = limit.thresholds
    encoded = _LAYOUT.pack(
        levels.stop_count, levels.resume_count, levels.stop_size, levels.resume_size, limit.count, limit.size
    )
    held = RangeSet()
    for position in limit.held:
        held.add(position)
    return ReplicatedState(encoded, tuple(held.ranges()))


def join(limit: QueueFlowLimit, state: ReplicatedState, transfers: dict[int, Transfer]) -> None:
    """Set a newcomer's flow control from its update.

    Parameters:
        limit: The newcomer's.
        state: The state sent by the other broker; ValueError if its encoded part is not 36 bytes long.
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
