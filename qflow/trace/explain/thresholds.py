"""Thresholds: which level decides, and what set it, down to the argument that was declared."""

from __future__ import annotations

from qflow.broker.flow_limit import FlowLevels, FlowThresholds, Level, Origin, is_exempt
from qflow.broker.history.java_capacity import JavaCapacity
from qflow.broker.queue import Queue
from qflow.trace.explain.explanation import Reason, Subject
from qflow.trace.explain.instant import Instant, counted

UNITS = {"count": "message", "size": "byte"}


def levels_of(instant: Instant, queue: Queue) -> FlowLevels:
    """Return the levels of a queue with their origins."""
    return FlowLevels.proposed(queue.settings, instant.broker.options).checked(queue.name)


def thresholds_of(queue: Queue) -> FlowThresholds:
    """Return the thresholds in force, whatever kind of flow control the queue has."""
    limit = queue.flow_limit
    if isinstance(limit, JavaCapacity):
        return FlowThresholds(0, 0, limit.capacity, limit.resume_capacity)
    thresholds = getattr(limit, "thresholds", None)
    return thresholds if isinstance(thresholds, FlowThresholds) else FlowThresholds(0, 0, 0, 0)


def origin(instant: Instant, queue: Queue, name: str) -> Reason:
    """Say what set one level, such as ``stop_count``: where chains about settings end."""
    level: Level = getattr(FlowLevels.proposed(queue.settings, instant.broker.options), name)
    if level.value or name.startswith("resume"):
        level = getattr(levels_of(instant, queue), name)
    row = instant.last("queueDeclare", "queue", queue.name)
    rules, words = _origin(instant, queue, name, level.origin, level)
    verb, unit = name.split("_")
    text = f"The {verb} threshold of {queue.name} is {counted(level.value, UNITS[unit])}: {words}."
    return Reason(text, rules, row, Subject("queue", queue.name))


def _origin(
    instant: Instant, queue: Queue, name: str, source: Origin, level: Level
) -> tuple[tuple[str, ...], str]:
    options = instant.broker.options
    verb, unit = name.split("_")
    ratio = options.default_flow_stop_threshold if verb == "stop" else options.default_flow_resume_threshold
    default = f"default-flow-{verb}-threshold takes {ratio} % of"
    if source is Origin.GIVEN:
        return ("FC-01", "FC-12"), f"it is declared with qpid.flow_{name}"
    if source is Origin.RATIO:
        maximum = queue.settings.max_count if unit == "count" else queue.settings.max_size
        return ("FC-02", "FC-04"), f"{default} qpid.max_{unit}={maximum}"
    if source is Origin.BROKER_LIMIT:
        return ("FC-02", "LP-01"), f"{default} default-queue-limit={options.default_queue_limit}"
    if source is Origin.AS_STOP:
        return ("FC-05",), "a resume threshold of 0 means the stop threshold"
    if source is Origin.RESIDUE:
        _, words = _origin(instant, queue, name, level.basis or Origin.GIVEN, level)
        return ("FC-09",), f"{words}; this unit cannot stop, and still must be below it to resume"
    if source is Origin.RATIO_OFF:
        return ("FC-10",), f"the broker is started with default-flow-{verb}-threshold=0"
    return ("FC-02",), f"{queue.name} has no limit to take a percentage of"


def limit_of(instant: Instant, queue: Queue) -> Reason:
    """Say how much fits on a queue, and what set that (LP-01)."""
    row = instant.last("queueDeclare", "queue", queue.name)
    parts = []
    if queue.depth.max_count:
        parts.append(f"{counted(queue.depth.max_count, 'message')} by qpid.max_count")
    if queue.depth.max_size:
        source = "default-queue-limit" if queue.settings.max_size is None else "qpid.max_size"
        parts.append(f"{counted(queue.depth.max_size, 'byte')} by {source}")
    text = f"{queue.name} takes at most {' and '.join(parts) or 'any number of messages'}."
    return Reason(text, ("LP-01", "LP-02"), row, Subject("queue", queue.name))


def no_flow_control(instant: Instant, queue: Queue) -> Reason:
    """Say why a queue has no flow control at all."""
    subject = Subject("queue", queue.name)
    row = instant.last("queueDeclare", "queue", queue.name)
    if is_exempt(queue.settings):
        text = f"{queue.name} is a ring: old messages make room, so it has no flow control."
        return Reason(text, ("FC-03", "LP-14"), row, subject)
    kind = queue.settings.arguments.get("qflow.flow_control", instant.broker.options.flow_control)
    if kind in ("pre-feature", "overflow-list"):
        rule = "ALT-01" if kind == "pre-feature" else "ALT-06"
        text = f"{queue.name} has no flow control: the broker plays {kind}."
        return Reason(text, (rule,), row, subject)
    text = f"{queue.name} has no flow control: both its stop thresholds are 0."
    stops = tuple(origin(instant, queue, name) for name in ("stop_count", "stop_size"))
    return Reason(text, ("FC-08",), row, subject, stops)
