"""Limits and alert thresholds in plain words (LP-01 … LP-19, QT-11, QT-12)."""

from __future__ import annotations

from collections.abc import Iterator

from qflow.broker.alerts import Alarm, ThresholdAlerts
from qflow.broker.flow_limit import effective_max_size
from qflow.broker.options import UINT32, BrokerOptions
from qflow.broker.queue import Queue
from qflow.broker.settings import QueueSettings
from qflow.configuration.flow_words import UNITS, Effective


def describe_limits(settings: QueueSettings, options: BrokerOptions) -> Iterator[Effective]:
    """Yield the two limits in force.

    Examples
    --------
    >>> limits = describe_limits(QueueSettings(max_count=10, max_size=0), BrokerOptions())
    >>> [(limit.name, limit.value, limit.why) for limit in limits]
    [('max_count', 10, 'given'), ('max_size', 0, 'given as 0: no limit in bytes')]
    """
    if settings.max_count:
        yield Effective("max_count", settings.max_count, "given", ("LP-01",))
    else:
        yield Effective("max_count", 0, "no limit in messages: there is no default for it", ("LP-01",))
    size = effective_max_size(settings, options)
    if settings.max_size is None and size:
        why = "the broker's default-queue-limit, as no qpid.max_size is given"
    elif settings.max_size is None:
        why = "no limit in bytes: none is given, and default-queue-limit is 0"
    else:
        why = "given" if size else "given as 0: no limit in bytes"
    yield Effective("max_size", size, why, ("LP-01",))


def describe_alerts(queue: Queue, options: BrokerOptions) -> Iterator[Effective]:
    """Yield the alert thresholds that a queue of the engine has; none for a unit without."""
    for alerts in queue.observers:
        if isinstance(alerts, ThresholdAlerts):
            for unit, alarm in (("count", alerts.count_alarm), ("size", alerts.size_alarm)):
                if alarm.up:
                    yield from _describe_alarm(unit, alarm, queue.settings, options)


def _describe_alarm(
    unit: str, alarm: Alarm, settings: QueueSettings, options: BrokerOptions
) -> Iterator[Effective]:
    given_up = getattr(settings, f"alert_{unit}_up")
    ratio, limit = options.default_event_threshold_ratio, getattr(settings, f"max_{unit}")
    rules: tuple[str, ...] = ("QT-11",)
    if given_up is None:
        why = f"{ratio} % of qpid.max_{unit}={limit}, cut off"
        if limit * ratio // 100 >= UINT32:
            why += ", and to 32 bits"
            rules = ("QT-11", "IN-10")
    else:
        why = "given"
    yield Effective(
        f"alert_{unit}_up", alarm.up, f"{why}; an event at {alarm.up} {UNITS[unit]} or more", rules
    )
    given_down = getattr(settings, f"alert_{unit}_down")
    if given_down == alarm.down:
        why = "given"
    else:
        why = "half of that, cut off"
        why += f" ({given_down} was given, which is not below {alarm.up})" if given_down else ""
    yield Effective(f"alert_{unit}_down", alarm.down, f"{why}; an event at {alarm.down} or less", ("QT-12",))
