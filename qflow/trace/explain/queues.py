"""Queues: why flow control is ON or OFF, why the depth does not sink, and what was refused or discarded."""

from __future__ import annotations

from qflow.broker.queue import Queue
from qflow.broker.stores import MessageMap
from qflow.trace.explain.chain import Reason, Subject
from qflow.trace.explain.consumers import readers
from qflow.trace.explain.instant import Instant, counted
from qflow.trace.explain.losses import UNITS, dropped, losses, no_flow_control, origin, thresholds_of


def explain_queue(instant: Instant, name: str) -> Reason:
    """Say what state a queue is in and why; last, what it refused or discarded most recently."""
    queue = instant.queue(name)
    if queue is None:
        return _absent(instant, name)
    lost = losses(instant, queue.name)
    if queue.flow_limit is None:
        why = no_flow_control(instant, queue)
        depth = counted(queue.message_depth, "message")
        text = f"{name} has {depth} and no flow control."
        rest = readers(instant, queue) if queue.message_depth else ()
        return Reason(text, why.rules, why.row, why.subject, (why, *rest, *lost))
    reason = on(instant, queue) if queue.flow_limit.stopped else off(instant, queue)
    told = {(item.row, item.subject) for item in reason.because}
    lost = tuple(item for item in lost if (item.row, item.subject) not in told)
    return Reason(reason.text, reason.rules, reason.row, reason.subject, (*reason.because, *lost))


# ON

_ALTERNATIVES = {"watermark": "ALT-07", "java": "ALT-12"}


def on(instant: Instant, queue: Queue) -> Reason:
    """Say why flow control of a queue is ON: what turned it ON, and why it has not turned OFF."""
    row = instant.last("flow_stopped", "queue", queue.name)
    subject = Subject("queue", queue.name)
    assert row is not None, "a queue that is ON has turned ON"
    detail = instant.detail(row)
    label = _message_before(instant, row, queue.name)
    unit = _tripped(queue, detail["count"], detail["size"])
    level = getattr(thresholds_of(queue), f"stop_{unit}")
    alternative = _ALTERNATIVES.get(_kind(instant, queue))
    rule, than = alternative or "FC-14", "no fewer than" if alternative == "ALT-07" else "more than"
    amount = counted(detail[unit], UNITS[unit])
    text = (
        f"{queue.name} has been ON since {instant.when(row)}: {label} made it {amount}, {than} "
        f"its stop threshold of {level}."
    )
    because = (origin(instant, queue, f"stop_{unit}"), still_on(instant, queue))
    rules = (rule, "FC-23") if isinstance(queue.store, MessageMap) else (rule,)
    return Reason(text, rules, row, subject, because)


def _kind(instant: Instant, queue: Queue) -> str:
    kind = queue.settings.arguments.get("qflow.flow_control", instant.broker.options.flow_control)
    return str(kind)


def _tripped(queue: Queue, count: int, size: int) -> str:
    """Return the unit that made the queue stop; the broker tries the count first (FC-14)."""
    stops = thresholds_of(queue)
    return (
        "count" if stops.stop_count and count >= stops.stop_count and not _only_size(queue, count) else "size"
    )


def _only_size(queue: Queue, count: int) -> bool:
    stops = thresholds_of(queue)
    return (
        count == stops.stop_count
        and bool(stops.stop_size)
        and type(queue.flow_limit).__name__ == "QueueFlowLimit"
    )


def _message_before(instant: Instant, row: int, queue: str) -> str:
    found = instant.last("enqueued", "queue", queue, until=row)
    return instant.trace.message[found] if found is not None else "a message"


def still_on(instant: Instant, queue: Queue) -> Reason:
    """Say which resume threshold keeps a queue ON, and why its depth does not sink below."""
    limit, resumes = queue.flow_limit, thresholds_of(queue)
    assert limit is not None, "only a queue with flow control is ON"
    alternative = _ALTERNATIVES.get(_kind(instant, queue))
    # The Java broker resumes at the level, all others below it (ALT-12).
    is_java = alternative == "ALT-12"
    parts, names = [], []
    for unit, value in (("count", limit.count), ("size", limit.size)):
        level = getattr(resumes, f"resume_{unit}")
        if level and (value > level if is_java else value >= level):
            are, than = "is" if value == 1 else "are", "more than" if is_java else "not fewer than"
            parts.append(f"{counted(value, UNITS[unit])} {are} {than} {level}")
            names.append(f"resume_{unit}")
    row = instant.last("dequeued", "queue", queue.name)
    text = f"{queue.name} stays ON: {' and '.join(parts) or 'no message has left it since'}."
    settings = tuple(origin(instant, queue, name) for name in names)
    rules = ("FC-16", "FC-18") if alternative is None else (alternative,)
    return Reason(text, rules, row, Subject("queue", queue.name), (*settings, *readers(instant, queue)))


# OFF


def off(instant: Instant, queue: Queue) -> Reason:
    """Say why flow control of a queue is OFF."""
    limit, stops = queue.flow_limit, thresholds_of(queue)
    assert limit is not None, "a queue without flow control is neither ON nor OFF"
    subject = Subject("queue", queue.name)
    amounts = []
    if stops.stop_count:
        amounts.append(not_more(limit.count, "message", stops.stop_count))
    if stops.stop_size:
        amounts.append(not_more(limit.size, "byte", stops.stop_size))
    state = " and ".join(amounts)
    rest = readers(instant, queue) if queue.message_depth else ()
    row = instant.last("flow_resumed", "queue", queue.name)
    if row is None:
        declared = instant.last("queueDeclare", "queue", queue.name)
        text = f"{queue.name} is OFF and has never been ON: {state}."
        names = [f"stop_{unit}" for unit in UNITS if getattr(stops, f"stop_{unit}")]
        origins = tuple(origin(instant, queue, name) for name in names)
        return Reason(text, ("FC-13", "FC-14"), declared, subject, (*origins, *rest))
    text = f"{queue.name} has been OFF since {instant.when(row)}: {state}."
    rules = (_ALTERNATIVES.get(_kind(instant, queue), "FC-16"),)
    return Reason(text, rules, row, subject, (turned_off(instant, queue.name, row), *rest))


def not_more(number: int, noun: str, level: int) -> str:
    """Say that a number does not exceed a level."""
    return f"{counted(number, noun)} {'is' if number == 1 else 'are'} not more than {level}"


def turned_off(instant: Instant, queue: str, row: int) -> Reason:
    """Say what made a queue turn OFF at a ``flow_resumed`` row."""
    detail = instant.detail(row)
    found = instant.last("dequeued", "queue", queue, until=row)
    left = f"{counted(detail['count'], 'message')} and {counted(detail['size'], 'byte')} were left"
    if found is None:
        return Reason(f"{queue} turned OFF when {left}.", ("FC-16",), row, Subject("queue", queue))
    label = instant.trace.message[found]
    existing = instant.queue(queue)
    below = ""
    if existing is not None:
        resumes = thresholds_of(existing)
        levels = [
            counted(getattr(resumes, f"resume_{unit}"), noun)
            for unit, noun in UNITS.items()
            if getattr(resumes, f"resume_{unit}")
        ]
        is_java = _kind(instant, existing) == "java"
        below = f", {'no more' if is_java else 'fewer'} than {' and '.join(levels)}"
    text = f"{label} left {queue} at {instant.when(row)}, when {instant.cause(row)}; {left}{below}."
    alternative = _ALTERNATIVES.get(_kind(instant, existing)) if existing is not None else None
    return Reason(text, (alternative or "FC-16", "FC-20"), found, Subject("message", label))


# No such queue now


def _absent(instant: Instant, name: str) -> Reason:
    subject = Subject("queue", name)
    gone = instant.last("queueDelete", "queue", name)
    if gone is not None:
        reason = instant.detail(gone).get("reason", "delete")
        text = f"{name} has been gone since {instant.when(gone)}, when {instant.cause(gone)} ({reason})."
        rule = {"self-destruct": "LP-15", "auto-delete": "QT-08"}.get(str(reason), "QT-24")
        lost = instant.last("dropped", "queue", name)
        because = (dropped(instant, lost),) if lost is not None and lost > gone else ()
        return Reason(text, (rule, "FC-21"), gone, subject, because)
    refused = instant.last("queue.declare", "queue", name)
    if refused is not None:
        return _refused(instant, name, refused)
    row = instant.next("queueDeclare", "queue", name)
    later = f"; it is declared at {instant.when(row)}" if row is not None else ""
    return Reason(f"{name} does not exist yet{later}.", ("CF-03",), row, subject)


def _refused(instant: Instant, name: str, row: int) -> Reason:
    session = instant.trace.session[row]
    error = instant.index.next("exception", "session", session, row)
    subject = Subject("queue", name)
    if error is None:
        return Reason(f"{name} does not exist.", ("CF-03",), row, subject)
    detail = instant.detail(error)
    text = f"{name} does not exist: the broker refused its declaration, {detail['code']} {detail['text']}."
    return Reason(text, ("FC-05",), error, subject)
