"""Threshold alerts: management events that a queue raises when it fills up or empties (QT-11 … QT-14)."""

from __future__ import annotations

from qflow.broker.context import BrokerContext
from qflow.broker.message import QueuedMessage, QueueObserver
from qflow.broker.options import UINT32, UINT64, BrokerOptions
from qflow.broker.restorable import Dependent
from qflow.broker.settings import QueueSettings


class Alarm(Dependent):
    """An alarm on a level in one unit, raised at ``up`` or above, re-armed at ``down`` or below (QT-12)."""

    __slots__ = ("up", "down", "is_armed")

    def __init__(self, up: int, down: int) -> None:
        self.up = up
        self.down = down if 0 < down < up else up >> 1
        self.is_armed = True

    def rises(self, level: int) -> bool:
        """Return whether this level raises the alarm, and disarm the alarm if it does (QT-13)."""
        if self.up and self.is_armed and level >= self.up:
            self.is_armed = False
            return True
        return False

    def falls(self, level: int) -> bool:
        """Return whether this level ends the alarm, and re-arm the alarm if it does (QT-13)."""
        if self.up and not self.is_armed and level <= self.down:
            self.is_armed = True
            return True
        return False


class ThresholdAlerts(QueueObserver):
    """An observer that raises alerts for messages and for bytes; *at* the threshold is enough (QT-14)."""

    __slots__ = (
        "context", "queue", "size_alarm", "count_alarm", "_is_backward_compatible", "count", "size",
    )  # fmt: skip

    def __init__(
        self, context: BrokerContext, queue: str, size_alarm: Alarm, count_alarm: Alarm, compatible: bool
    ):
        self.context = context
        self.queue = queue
        self.size_alarm = size_alarm
        self.count_alarm = count_alarm
        self._is_backward_compatible = compatible
        self.count = 0
        self.size = 0

    def enqueued(self, message: QueuedMessage) -> None:
        """Count the message, and raise each alarm whose threshold is reached, the one for bytes first."""
        self.count += 1
        self.size += message.transfer.size
        if self.size_alarm.rises(self.size):
            self._emit_rise()
        if self.count_alarm.rises(self.count):
            self._emit_rise()

    def dequeued(self, message: QueuedMessage) -> None:
        """Subtract the message, and end each alarm whose lower threshold is reached, bytes first."""
        self.count -= 1
        self.size -= message.transfer.size
        if self.size_alarm.falls(self.size):
            self._emit("queueThresholdCrossedDownward")
        if self.count_alarm.falls(self.count):
            self._emit("queueThresholdCrossedDownward")

    def _emit_rise(self) -> None:
        self._emit("queueThresholdCrossedUpward")
        if self._is_backward_compatible:
            self._emit("queueThresholdExceeded")

    def _emit(self, kind: str) -> None:
        if self.context.observer is not None:
            self.context.emit(kind, queue=self.queue, detail={"msgDepth": self.count, "byteDepth": self.size})


def make_alerts(context: BrokerContext, queue: str, settings: QueueSettings) -> ThresholdAlerts | None:
    """Return a queue's alerts, or None without thresholds; only *declared* limits imply them (QT-11)."""
    options = context.options
    count_up = _work_out_level(settings.alert_count_up, settings.max_count, UINT32, options)
    size_up = _work_out_level(settings.alert_size_up, settings.max_size or 0, UINT64, options)
    if not count_up and not size_up:
        return None
    compatible = not settings.alert_count_down and not settings.alert_size_down % UINT32
    return ThresholdAlerts(
        context,
        queue,
        Alarm(size_up, settings.alert_size_down % UINT32),
        Alarm(count_up, settings.alert_count_down),
        compatible,
    )


def _work_out_level(given: int | None, maximum: int, modulus: int, options: BrokerOptions) -> int:
    """Return an alert threshold, the given one or a percentage of the limit, cut to 32 bits (QT-11)."""
    if given is not None:
        return given % UINT32
    return maximum * options.default_event_threshold_ratio % modulus // 100 % UINT32
