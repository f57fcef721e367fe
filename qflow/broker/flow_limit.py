"""Producer flow control: a queue's thresholds, its state ON or OFF, and the transfers that it holds (FC).

Flow control is one of the observers of its queue (compare ``QueueFlowLimit.cpp``).  It turns ON above a stop
threshold, and OFF below both resume thresholds (FC-14, FC-16).  While it is ON, the completion of each
enqueued message's transfer is withheld, until the message leaves the queue or flow control turns OFF (FC-15,
FC-17).  :class:`FlowState` is the base class that it shares with the alternatives of
:mod:`qflow.broker.history`.

:class:`FlowLevels` computes a queue's four thresholds, each from an argument, from a percentage of a limit,
or from another threshold (FC-02 to FC-09).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from qflow.broker.context import BrokerContext
from qflow.broker.errors import InvalidArgumentException
from qflow.broker.message import QueuedMessage, QueueObserver, Transfer
from qflow.broker.options import BrokerOptions
from qflow.broker.restorable import Frozen
from qflow.broker.settings import QueueSettings

_HOLD: Final[tuple[str, ...]] = ("command",)


class FlowState(QueueObserver):
    """The state of flow control on a queue, ON (stopped) or OFF, and the queue's messages and bytes."""

    __slots__ = ("context", "queue", "count", "size", "stopped", "stopped_count")

    def __init__(self, context: BrokerContext, queue: str) -> None:
        self.context = context
        self.queue = queue
        # Messages and bytes on the queue, acquired ones included (DQ-02).
        self.count = 0
        self.size = 0
        self.stopped = False
        self.stopped_count = 0

    def exceeds_stop(self, count: int, size: int) -> bool:
        """Return whether a depth in messages and bytes turns flow control ON."""
        raise NotImplementedError

    def may_resume(self, count: int, size: int) -> bool:
        """Return whether flow control may turn OFF at a depth in messages and bytes."""
        raise NotImplementedError

    def add(self, message: QueuedMessage) -> None:
        """Count an enqueued message."""
        self.count += 1
        self.size += message.transfer.size

    def subtract(self, message: QueuedMessage) -> None:
        """Count a dequeued message."""
        self.count -= 1
        self.size -= message.transfer.size

    def turn_on(self) -> None:
        """Turn flow control ON, and count that (FC-19)."""
        self.stopped = True
        self.stopped_count += 1
        self._emit_state("flow_stopped")

    def turn_off(self) -> None:
        """Turn flow control OFF."""
        self.stopped = False
        self._emit_state("flow_resumed")

    def hold(self, transfer: Transfer) -> None:
        """Withhold a transfer's completion, unless it is complete already (FC-22)."""
        if transfer.hold(self.queue):
            self.show_hold("held", transfer)

    def release_hold(self, transfer: Transfer) -> None:
        """Release this queue's hold on a transfer's completion, if there is one."""
        if self.context.observer is not None and self.queue in transfer.held_by:
            self.show_hold("let_go", transfer)
        transfer.release_hold(self.queue)

    def show_hold(self, kind: str, transfer: Transfer) -> None:
        """Emit the event that a transfer's completion is withheld, or is no longer withheld."""
        if self.context.observer is not None:
            label, size, values = transfer.label, transfer.size, (transfer.number,)
            self.context.tell(kind, self.queue, transfer.origin, "", label, size, "", _HOLD, values)

    def _emit_state(self, kind: str) -> None:
        if self.context.observer is not None:
            self.context.emit(kind, self.queue, detail={"count": self.count, "size": self.size})


class Origin(Enum):
    """The rule from which a threshold's value follows, with which a configuration is explained."""

    GIVEN = "given"
    """A declare argument, which may be 0 (FC-02.6)."""
    RATIO = "ratio"
    """A percentage of the limit that the queue declares (FC-02.4, FC-02.5)."""
    BROKER_LIMIT = "broker-limit"
    """A percentage of ``default-queue-limit``, as the queue declares no limit in bytes (FC-02.3)."""
    NO_LIMIT = "no-limit"
    """Absent, as the queue has no limit in this unit of which it could be a percentage."""
    RATIO_OFF = "ratio-off"
    """Absent, as the broker's percentage is 0 (FC-10)."""
    AS_STOP = "as-stop"
    """Equal to the stop threshold, as the resume threshold would be 0 (FC-05.2)."""
    RESIDUE = "residue"
    """A resume threshold without a stop threshold: it starts nothing, but can delay the end (FC-09)."""


@dataclass(frozen=True, slots=True)
class Level(Frozen):
    """A threshold and the rule that set it; ``basis`` is the rule before AS_STOP or RESIDUE applied."""

    value: int
    origin: Origin
    basis: Origin | None = None


@dataclass(frozen=True, slots=True)
class FlowLevels(Frozen):
    """The four thresholds of a queue with their origins, and the limits to which they belong."""

    stop_count: Level
    resume_count: Level
    stop_size: Level
    resume_size: Level
    max_count: int
    max_size: int

    @classmethod
    def propose(cls, settings: QueueSettings, options: BrokerOptions) -> FlowLevels:
        """Return a queue's thresholds before validation (FC-02.3 to FC-02.6)."""
        max_size = effective_max_size(settings, options)
        size_origin = Origin.BROKER_LIMIT if settings.max_size is None else Origin.RATIO
        stop_count, resume_count = _propose_pair(
            settings.flow_stop_count, settings.flow_resume_count, settings.max_count, Origin.RATIO, options
        )
        stop_size, resume_size = _propose_pair(
            settings.flow_stop_size, settings.flow_resume_size, max_size, size_origin, options
        )
        return cls(stop_count, resume_count, stop_size, resume_size, settings.max_count, max_size)

    @classmethod
    def of(cls, queue: str, settings: QueueSettings, options: BrokerOptions) -> FlowLevels | None:
        """Return valid thresholds, or None for no flow control (FC-03, FC-08); raise 542 if invalid."""
        if is_exempt(settings):
            return None
        levels = cls.propose(settings, options)
        # Not validated if neither unit can stop: the broker accepts invalid thresholds without effect
        # (FC-08).
        return levels.validate(queue) if levels.is_limiting else None

    @property
    def is_limiting(self) -> bool:
        """Whether there is a stop threshold in either unit, without which flow control is absent (FC-08)."""
        return self.stop_count.value != 0 or self.stop_size.value != 0

    def validate(self, queue: str) -> FlowLevels:
        """Return valid thresholds; raise 542 for resume above stop, or stop above limit (FC-05, FC-07)."""
        resume_count = _validate(queue, "count", self.stop_count, self.resume_count, self.max_count)
        resume_size = _validate(queue, "size", self.stop_size, self.resume_size, self.max_size)
        return FlowLevels(
            self.stop_count, resume_count, self.stop_size, resume_size, self.max_count, self.max_size
        )


@dataclass(frozen=True, slots=True)
class FlowThresholds(Frozen):
    """The values of a queue's four thresholds, in messages and bytes; 0 means that one is absent.

    >>> settings = QueueSettings.from_arguments({"qpid.max_count": 90, "qpid.max_size": 0})
    >>> FlowThresholds.of("orders", settings, BrokerOptions())      # FC-04: 62, not 63
    FlowThresholds(stop_count=72, resume_count=62, stop_size=0, resume_size=0)
    """

    stop_count: int
    resume_count: int
    stop_size: int
    resume_size: int

    @classmethod
    def of(cls, queue: str, settings: QueueSettings, options: BrokerOptions) -> FlowThresholds | None:
        """Return the values of :meth:`FlowLevels.of`, or None for a queue without flow control."""
        levels = FlowLevels.of(queue, settings, options)
        if levels is None:
            return None
        four = (levels.stop_count, levels.resume_count, levels.stop_size, levels.resume_size)
        return cls(*[level.value for level in four])


def exceeds_stop(levels: FlowThresholds, count: int, size: int) -> bool:
    """Return whether a depth in messages and bytes is above a stop threshold (FC-14)."""
    stop_count, stop_size = levels.stop_count, levels.stop_size
    # Above the threshold, not at it: with a stop threshold of 900 the 901st message turns it ON (FC-14).
    return (stop_count != 0 and count > stop_count) or (stop_size != 0 and size > stop_size)


def may_resume(levels: FlowThresholds, count: int, size: int) -> bool:
    """Return whether a depth in messages and bytes is below both resume thresholds (FC-16)."""
    resume_count, resume_size = levels.resume_count, levels.resume_size
    # Below both: a queue that was stopped by its bytes also waits for its count (FC-16).
    return (not resume_size or size < resume_size) and (not resume_count or count < resume_count)


def is_exempt(settings: QueueSettings) -> bool:
    """Return whether a queue never has flow control, regardless of its thresholds (FC-03)."""
    return settings.policy == "ring"


class QueueFlowLimit(FlowState):
    """The broker's flow control, with thresholds that do not change in the queue's lifetime (FC-12)."""

    __slots__ = ("thresholds", "held")

    def __init__(self, context: BrokerContext, queue: str, thresholds: FlowThresholds) -> None:
        super().__init__(context, queue)
        self.thresholds = thresholds
        self.held: dict[int, Transfer] = {}

    def enqueued(self, message: QueuedMessage) -> None:
        """Count the message, turn ON above a threshold, and hold the transfer while ON (FC-14, FC-15)."""
        self.add(message)
        # In this order, so that the message that turns flow control ON is the first one held: with a stop
        # threshold of 900 the 901st, not the 902nd (FC-14, FC-15).
        if not self.stopped and exceeds_stop(self.thresholds, self.count, self.size):
            self.turn_on()
        if self.stopped:
            self.held[message.position] = message.transfer
            self.hold(message.transfer)

    def dequeued(self, message: QueuedMessage) -> None:
        """Subtract the message, and release all holds if that turns OFF, otherwise its own (FC-16, FC-17)."""
        self.subtract(message)
        if not self.stopped:
            return
        if may_resume(self.thresholds, self.count, self.size):
            self.turn_off()
            # Emptied first: a released completion may let a client send, and that transfer may be held again.
            held, self.held = self.held, {}
            for transfer in held.values():
                self.release_hold(transfer)
        else:
            # Still ON, but a message that has left the queue is no longer held (FC-17).
            own = self.held.pop(message.position, None)
            if own is not None:
                self.release_hold(own)

    def exceeds_stop(self, count: int, size: int) -> bool:
        """Return whether a depth in messages and bytes is above a stop threshold."""
        return exceeds_stop(self.thresholds, count, size)

    def may_resume(self, count: int, size: int) -> bool:
        """Return whether a depth in messages and bytes is below both resume thresholds."""
        return may_resume(self.thresholds, count, size)


def effective_max_size(settings: QueueSettings, options: BrokerOptions) -> int:
    """Return a queue's limit in bytes: the declared one, which may be 0, or else the broker's (LP-01)."""
    return options.default_queue_limit if settings.max_size is None else settings.max_size


def _propose_pair(
    stop: int | None, resume: int | None, maximum: int, origin: Origin, options: BrokerOptions
) -> tuple[Level, Level]:
    """Return the stop and resume threshold in one unit before validation (FC-02.4 to FC-02.6)."""
    if not maximum:
        origin = Origin.NO_LIMIT
    return (
        _propose_level(stop, maximum, options.default_flow_stop_threshold, _stop_default, origin),
        _propose_level(resume, maximum, options.default_flow_resume_threshold, _resume_default, origin),
    )


def _propose_level(
    given: int | None, maximum: int, ratio: int, default: Callable[[int, int], int], origin: Origin
) -> Level:
    if given is not None:
        return Level(given, Origin.GIVEN)
    if not ratio:
        return Level(0, Origin.RATIO_OFF)
    return Level(default(maximum, ratio), origin)


def _stop_default(maximum: int, ratio: int) -> int:
    """Return a percentage of a limit, rounded half up, computed in doubles as in the broker (FC-02.4)."""
    return int(maximum * (ratio / 100.0) + 0.5)


def _resume_default(maximum: int, ratio: int) -> int:
    """Return a percentage of a limit, truncated; 70 % of 90 is 62, as the double 0.7 is inexact (FC-04)."""
    return int(maximum * (ratio / 100.0))


def _validate(queue: str, unit: str, stop: Level, resume: Level, maximum: int) -> Level:
    """Validate the thresholds in one unit, and return its effective resume threshold (FC-05)."""
    # A unit without a stop threshold keeps its resume threshold.  This looks like an oversight of the broker,
    # and surprises users, but the recordings show it (FC-09).
    if not stop.value:
        return Level(resume.value, Origin.RESIDUE, resume.origin) if resume.value else resume
    if resume.value > stop.value:
        raise InvalidArgumentException(
            f'Queue "{queue}": qpid.flow_resume_{unit}={resume.value} must be less or equal to '
            f"qpid.flow_stop_{unit}={stop.value}"
        )
    if maximum and maximum < stop.value:
        raise InvalidArgumentException(
            f'Queue "{queue}": qpid.flow_stop_{unit}={stop.value} must be less than qpid.max_{unit}={maximum}'
        )
    return resume if resume.value else Level(stop.value, Origin.AS_STOP, resume.origin)
