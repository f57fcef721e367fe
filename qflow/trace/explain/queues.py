"""Explanations of queues: why a queue is ON or OFF, why it stays deep, and which messages it has lost.

The root causes of a queue's state are the origin of its thresholds, down to the declared argument
(:func:`_explain_origin`), and the messages that its consumers are processing.  Each lost message is explained
separately: the broker refused it and ended its sender's session, or it was dropped, evicted, replaced,
expired or purged.
"""

from __future__ import annotations

from dataclasses import replace

from qflow.broker.flow_limit import FlowLevels, FlowThresholds, Level, Origin, is_exempt
from qflow.broker.history import JavaCapacity
from qflow.broker.queue import Queue
from qflow.broker.stores import MessageMap
from qflow.trace.explain.chain import Reason, Subject
from qflow.trace.explain.consumers import explain_readers
from qflow.trace.explain.instant import REASONS, Instant
from qflow.wording import format_count
from qflow.workload.model import is_unseen

UNITS = {"count": "message", "size": "byte"}


def _are(number: int, unit: str) -> str:
    """Return a number of messages or bytes with its verb, such as "3 messages are"."""
    return f"{format_count(number, UNITS[unit])} {'is' if number == 1 else 'are'}"


def explain_queue(instant: Instant, name: str) -> Reason:
    """Explain a queue's flow control state, then the messages that it last refused, dropped or discarded."""
    queue = instant.queue(name)
    if queue is None:
        return _explain_absent_queue(instant, name)
    lost = _explain_losses(instant, queue.name)
    is_unknown = is_unseen(queue.settings.arguments)
    if is_unknown or queue.flow_limit is None:
        why = explain_unknown(instant, queue) if is_unknown else explain_no_flow_control(instant, queue)
        what = "; its thresholds are unknown" if is_unknown else " and no flow control"
        text = f"{name} has {format_count(queue.message_depth, 'message')}{what}."
        rest = explain_readers(instant, queue) if queue.message_depth else ()
        return Reason(text, why.rules, why.row, why.subject, (why, *rest, *lost))
    reason = explain_on(instant, queue) if queue.flow_limit.stopped else _explain_off(instant, queue)
    # The same loss may be among the reasons why the queue is ON; it is not explained twice.
    said = {(item.row, item.subject) for item in reason.because}
    lost = tuple(item for item in lost if (item.row, item.subject) not in said)
    return replace(reason, because=(*reason.because, *lost))


# ON

_ALTERNATIVES = {"watermark": "ALT-07", "java": "ALT-12"}


def explain_on(instant: Instant, queue: Queue) -> Reason:
    """Explain why a queue is ON: which message turned it ON, and why it has not turned OFF since."""
    row = instant.last("flow_stopped", "queue", queue.name)
    subject = Subject("queue", queue.name)
    assert row is not None, "a queue that is ON has turned ON"
    if is_unseen(queue.settings.arguments):
        text = f"{queue.name} is ON at the defaults of a broker; its own thresholds are unknown."
        return Reason(text, ("FC-02",), row, subject, (explain_unknown(instant, queue),))
    limit, detail = queue.flow_limit, instant.detail(row)
    assert limit is not None, "only a queue with flow control is ON"
    # The queue checks its thresholds at each enqueue, so the last message enqueued turned it ON.
    found = instant.last("enqueued", "queue", queue.name, until=row)
    label = instant.label(found) if found is not None else "a message"
    # The broker checks the count first (FC-14).
    unit = "count" if limit.exceeds_stop(detail["count"], 0) else "size"
    level = getattr(_thresholds_of(queue), f"stop_{unit}")
    rule = _rule_of(instant, queue) or "FC-14"
    than = "no fewer than" if rule == "ALT-07" else "more than"
    amount = format_count(detail[unit], UNITS[unit])
    text = (
        f"{queue.name} has been ON since {instant.when(row)}: {label} made it {amount}, {than} "
        f"its stop threshold of {level}."
    )
    because = (_explain_origin(instant, queue, f"stop_{unit}"), _explain_still_on(instant, queue))
    rules = (rule, "FC-23") if isinstance(queue.store, MessageMap) else (rule,)
    return Reason(text, rules, row, subject, because)


def _kind(instant: Instant, queue: Queue) -> str:
    kind = queue.settings.arguments.get("qflow.flow_control", instant.broker.options.flow_control)
    return str(kind)


def _rule_of(instant: Instant, queue: Queue) -> str | None:
    """Return the rule of a queue's alternative kind of flow control, or None if it uses the ordinary kind."""
    return _ALTERNATIVES.get(_kind(instant, queue))


def _explain_still_on(instant: Instant, queue: Queue) -> Reason:
    """Explain why a queue stays ON: its resume thresholds, and why its depth does not fall below them."""
    limit, resumes, alternative = queue.flow_limit, _thresholds_of(queue), _rule_of(instant, queue)
    assert limit is not None, "only a queue with flow control is ON"
    # The Java broker resumes at its resume threshold, all others only below it.
    than = "more than" if alternative == "ALT-12" else "not fewer than"
    parts, names = [], []
    for unit, count, size in (("count", limit.count, 0), ("size", 0, limit.size)):
        if not limit.may_resume(count, size):
            parts.append(f"{_are(count or size, unit)} {than} {getattr(resumes, f'resume_{unit}')}")
            names.append(f"resume_{unit}")
    row = instant.last("dequeued", "queue", queue.name)
    text = f"{queue.name} stays ON: {' and '.join(parts) or 'no message has left it since'}."
    settings = tuple(_explain_origin(instant, queue, name) for name in names)
    rules = ("FC-16", "FC-18") if alternative is None else (alternative,)
    return Reason(
        text, rules, row, Subject("queue", queue.name), (*settings, *explain_readers(instant, queue))
    )


# OFF


def _explain_off(instant: Instant, queue: Queue) -> Reason:
    limit, stops = queue.flow_limit, _thresholds_of(queue)
    assert limit is not None, "a queue without flow control is neither ON nor OFF"
    subject = Subject("queue", queue.name)
    levels = ((limit.count, "count", stops.stop_count), (limit.size, "size", stops.stop_size))
    state = " and ".join(
        f"{_are(number, unit)} not more than {most}" for number, unit, most in levels if most
    )
    rest = explain_readers(instant, queue) if queue.message_depth else ()
    row = instant.last("flow_resumed", "queue", queue.name)
    if row is None:
        declared = instant.last("queueDeclare", "queue", queue.name)
        text = f"{queue.name} is OFF and has never been ON: {state}."
        names = [f"stop_{unit}" for unit in UNITS if getattr(stops, f"stop_{unit}")]
        origins = tuple(_explain_origin(instant, queue, name) for name in names)
        return Reason(text, ("FC-13", "FC-14"), declared, subject, (*origins, *rest))
    text = f"{queue.name} has been OFF since {instant.when(row)}: {state}."
    rule = _rule_of(instant, queue) or "FC-16"
    return Reason(text, (rule,), row, subject, (explain_turning_off(instant, queue.name, row), *rest))


def explain_turning_off(instant: Instant, queue: str, row: int) -> Reason:
    """Explain why a queue turned OFF at a ``flow_resumed`` row."""
    detail = instant.detail(row)
    found = instant.last("dequeued", "queue", queue, until=row)
    left = f"{format_count(detail['count'], 'message')} and {format_count(detail['size'], 'byte')} were left"
    if found is None:
        return Reason(f"{queue} turned OFF when {left}.", ("FC-16",), row, Subject("queue", queue))
    label = instant.label(found)
    existing = instant.queue(queue)
    below, rule = "", "FC-16"
    if existing is not None:
        resumes, rule = _thresholds_of(existing), _rule_of(instant, existing) or rule
        levels = ((getattr(resumes, f"resume_{unit}"), noun) for unit, noun in UNITS.items())
        words = " and ".join(format_count(level, noun) for level, noun in levels if level)
        below = f", {'no more' if rule == 'ALT-12' else 'fewer'} than {words}"
    text = f"{label} left {queue} at {instant.moment(row)}; {left}{below}."
    return Reason(text, (rule, "FC-20"), found, Subject("message", label))


# Queues that do not exist


def _explain_absent_queue(instant: Instant, name: str) -> Reason:
    subject = Subject("queue", name)
    gone = instant.last("queueDelete", "queue", name)
    if gone is not None:
        reason = instant.detail(gone).get("reason", "delete")
        text = f"{name} has been gone since {instant.moment(gone)} ({reason})."
        rule = {"self-destruct": "LP-15", "auto-delete": "QT-08"}.get(str(reason), "QT-24")
        lost = instant.last("dropped", "queue", name)
        because = (explain_drop(instant, lost),) if lost is not None and lost > gone else ()
        return Reason(text, (rule, "FC-21"), gone, subject, because)
    refused = instant.last("queue.declare", "queue", name)
    if refused is not None:
        return _explain_refused_declaration(instant, name, refused)
    row = instant.next("queueDeclare", "queue", name)
    text = f"{name} does not exist yet{instant.when(row, '; it is declared at {}')}."
    return Reason(text, ("CF-03",), row, subject)


def _explain_refused_declaration(instant: Instant, name: str, row: int) -> Reason:
    session = instant.trace.session[row]
    error = instant.index.next("exception", "session", session, row)
    subject = Subject("queue", name)
    if error is None:
        return Reason(f"{name} does not exist.", ("CF-03",), row, subject)
    detail = instant.detail(error)
    text = f"{name} does not exist: the broker refused its declaration, {detail['code']} {detail['text']}."
    return Reason(text, ("FC-05",), error, subject)


# Thresholds and limits


def _thresholds_of(queue: Queue) -> FlowThresholds:
    """Return a queue's thresholds, whichever kind of flow control it has; all 0 if it has none."""
    limit = queue.flow_limit
    if isinstance(limit, JavaCapacity):
        return FlowThresholds(0, 0, limit.capacity, limit.resume_capacity)
    thresholds = getattr(limit, "thresholds", None)
    return thresholds if isinstance(thresholds, FlowThresholds) else FlowThresholds(0, 0, 0, 0)


def _explain_origin(instant: Instant, queue: Queue, name: str) -> Reason:
    """Explain where the value of a threshold, such as ``stop_count``, comes from."""
    levels = FlowLevels.propose(queue.settings, instant.broker.options)
    level: Level = getattr(levels, name)
    if level.value or name.startswith("resume"):
        level = getattr(levels.validate(queue.name), name)
    row = instant.last("queueDeclare", "queue", queue.name)
    verb, unit = name.split("_")
    options, settings = instant.broker.options, queue.settings
    ratio = options.default_flow_stop_threshold if verb == "stop" else options.default_flow_resume_threshold
    default = f"default-flow-{verb}-threshold takes {ratio} % of"
    limit = f"qpid.max_{unit}={settings.max_count if unit == 'count' else settings.max_size}"
    said: dict[Origin, tuple[tuple[str, ...], str]] = {
        Origin.GIVEN: (("FC-01", "FC-12"), f"it is declared with qpid.flow_{name}"),
        Origin.RATIO: (("FC-02", "FC-04"), f"{default} {limit}"),
        Origin.BROKER_LIMIT: (
            ("FC-02", "LP-01"),
            f"{default} default-queue-limit={options.default_queue_limit}",
        ),
        Origin.NO_LIMIT: (("FC-02",), f"{queue.name} has no limit to take a percentage of"),
        Origin.RATIO_OFF: (("FC-10",), f"the broker is started with default-flow-{verb}-threshold=0"),
        Origin.AS_STOP: (("FC-05",), "a resume threshold of 0 means the stop threshold"),
    }
    is_residue = level.origin is Origin.RESIDUE
    rules, words = said[level.basis or Origin.GIVEN if is_residue else level.origin]
    if is_residue:
        rules, words = ("FC-09",), f"{words}; this unit cannot stop, and still must be below it to resume"
    text = f"The {verb} threshold of {queue.name} is {format_count(level.value, UNITS[unit])}: {words}."
    return Reason(text, rules, row, Subject("queue", queue.name))


def explain_unknown(instant: Instant, queue: Queue) -> Reason:
    """Explain that a queue's thresholds and limits are unknown."""
    row = instant.last("queueDeclare", "queue", queue.name)
    text = f"Thresholds unknown: nothing recorded says what {queue.name} was declared with."
    return Reason(text, ("FC-01", "LP-01"), row, Subject("queue", queue.name))


def explain_limit(instant: Instant, queue: Queue) -> Reason:
    """Describe a queue's limit and its origin (LP-01)."""
    if is_unseen(queue.settings.arguments):
        return explain_unknown(instant, queue)
    row = instant.last("queueDeclare", "queue", queue.name)
    parts = []
    if queue.depth.max_count:
        parts.append(f"{format_count(queue.depth.max_count, 'message')} by qpid.max_count")
    if queue.depth.max_size:
        source = "default-queue-limit" if queue.settings.max_size is None else "qpid.max_size"
        parts.append(f"{format_count(queue.depth.max_size, 'byte')} by {source}")
    text = f"{queue.name} takes at most {' and '.join(parts) or 'any number of messages'}."
    return Reason(text, ("LP-01", "LP-02"), row, Subject("queue", queue.name))


def explain_no_flow_control(instant: Instant, queue: Queue) -> Reason:
    """Explain why a queue has no flow control."""
    subject = Subject("queue", queue.name)
    row = instant.last("queueDeclare", "queue", queue.name)
    if is_exempt(queue.settings):
        text = f"{queue.name} is a ring: old messages make room, so it has no flow control."
        return Reason(text, ("FC-03", "LP-14"), row, subject)
    kind = _kind(instant, queue)
    if kind in ("pre-feature", "overflow-list"):
        rule = "ALT-01" if kind == "pre-feature" else "ALT-06"
        text = f"{queue.name} has no flow control: the broker plays {kind}."
        return Reason(text, (rule,), row, subject)
    text = f"{queue.name} has no flow control: both its stop thresholds are 0."
    stops = tuple(_explain_origin(instant, queue, name) for name in ("stop_count", "stop_size"))
    return Reason(text, ("FC-08",), row, subject, stops)


# Lost messages

_LOST = ("ring", "lvq", "ttl", "purge")
_FULL = ("Maximum depth exceeded on ", "Message larger than configured maximum depth on ")


def explain_departure(instant: Instant, row: int) -> Reason:
    """Explain why a message left its queue, at a ``dequeued`` row."""
    trace = instant.trace
    label, queue = trace.message[row], trace.queue[row]
    reason = instant.detail(row)["reason"]
    rules, words = REASONS.get(reason, (("FC-20",), ""))
    existing = instant.queue(queue)
    because = _explain_move(instant, row, label) if reason in ("move", "reroute") else ()
    if reason == "ring" and existing is not None:
        because = (explain_limit(instant, existing),)
        if existing.policy.name == "priority_ring":
            rules, words = ("LP-12", "RF-20"), "a ring drops the oldest of its lowest priority"
        if isinstance(existing.store, MessageMap):
            rules = ("LP-13", "LP-10")
    text = f"{label} left {queue} at {instant.moment(row)}{words and f': {words}'}."
    return Reason(text, rules, row, Subject("message", label), because)


def _explain_move(instant: Instant, row: int, label: str) -> tuple[Reason, ...]:
    """Explain to which queue a message was moved or rerouted, or that it was lost (QT-23)."""
    command = instant.command_of(row)
    subject = Subject("message", label)
    later = instant.about(label, "enqueued", after=row)
    arrived = [place for place in later if instant.command_of(place) == command]
    if arrived:
        text = f"{label} was put on {instant.trace.queue[arrived[0]]}."
        return (Reason(text, ("QT-23",), arrived[0], subject),)
    text = f"No queue took {label}, so it is lost: a move removes a message first and enqueues it afterwards."
    return (Reason(text, ("QT-23",), row, subject),)


def _explain_losses(instant: Instant, queue: str) -> tuple[Reason, ...]:
    """Explain the messages that a queue last refused, dropped and discarded; () if it lost none."""
    dropped = instant.last("dropped", "queue", queue)
    drop = None if dropped is None else explain_drop(instant, dropped)
    found = (_explain_last_refusal(instant, queue), drop, _explain_discard(instant, queue))
    return tuple(filter(None, found))


def _explain_last_refusal(instant: Instant, queue: str) -> Reason | None:
    """Explain the last message that a queue refused because it was full (LP-05), or return None."""
    index, full = instant.index, tuple(f"{start}{queue}:" for start in _FULL)
    sessions = index.names("session", ("exception",))
    rows = [row for name in sessions for row in index.rows("exception", "session", name)]
    # Found by the error's text, because an exception row names the session and not the queue.
    past = [row for row in rows if row <= instant.end]
    found = [row for row in past if str(instant.detail(row).get("text", "")).startswith(full)]
    return explain_death(instant, max(found)) if found else None


def explain_death(instant: Instant, row: int) -> Reason:
    """Explain why the broker ended a session, at an ``exception`` row."""
    detail, session = instant.detail(row), instant.trace.session[row]
    command = instant.command_of(row)
    is_send = instant.trace.kind[command] == "message.transfer"
    what = instant.label(command) if is_send else instant.trace.kind[command]
    words = f"{detail['code']} {detail['name']}, {detail['text']}".rstrip(".")
    text = f"The broker refused {what} of {session} at {instant.when(row)} and ended the session: {words}."
    subject = _find_sender(instant, session, command)
    queue = _find_full_queue(instant, str(detail["text"]))
    if queue is not None:
        return Reason(text, ("LP-05", "LP-06"), row, subject, _explain_refusal(instant, queue, row))
    if instant.trace.kind[command] == "tx.commit":
        return Reason(text, ("LP-09",), row, subject, _explain_failed_commit(instant, row, subject))
    return Reason(text, ("LP-06",), row, subject)


def _find_sender(instant: Instant, session: str, command: int) -> Subject:
    """Return a session's producer as a subject, or its command's queue if the session sends no messages."""
    for name in instant.senders.on(session):
        return Subject("producer", name)
    queue = instant.trace.queue[command]
    is_sender = bool(instant.index.rows("message.transfer", "session", session))
    return Subject("queue", queue) if queue and not is_sender else Subject("producer", session)


def _find_full_queue(instant: Instant, text: str) -> Queue | None:
    names = [text.removeprefix(start).partition(": ")[0] for start in _FULL if text.startswith(start)]
    return instant.queue(names[0]) if names else None


def _explain_refusal(instant: Instant, queue: Queue, row: int) -> tuple[Reason, ...]:
    limit = explain_limit(instant, queue)
    stopped = instant.began("flow_stopped", "flow_resumed", "queue", queue.name, row)
    if stopped is None:
        return (limit,)
    stop, most = _thresholds_of(queue).stop_count, queue.depth.max_count
    sum_of = "the stop threshold and all capacities"
    if stop and most:
        sum_of = f"{stop} and all capacities together"
    text = (
        f"{queue.name} was ON then, which stops no producer whose window has room: {sum_of} "
        f"must not exceed {most or 'the limit'}."
    )
    return (limit, Reason(text, ("CAP-11", "FC-24"), stopped, Subject("queue", queue.name)))


def _explain_failed_commit(instant: Instant, row: int, subject: Subject) -> tuple[Reason, ...]:
    """Explain that a commit failed because a queue was full, with the limits of all queues that may be it."""
    queues = instant.broker.queues.queues.values()
    # The error of a commit names no queue, and the engine does not record which one it was. All queues that
    # ever refused a message are listed, which may be too many.
    refusing = [queue for queue in queues if queue.counters.discardsOverflow]
    text = "A queue had no room for all messages of the transaction, so the broker enqueued none."
    limits = tuple(explain_limit(instant, queue) for queue in refusing)
    return (Reason(text, ("LP-09", "DQ-03"), row, subject, limits),)


def explain_drop(instant: Instant, row: int) -> Reason:
    """Explain why a routed message is not on a queue, at a ``dropped`` row."""
    label, name = instant.label(row), instant.trace.queue[row]
    subject, when = Subject("message", label), instant.when(row)
    # A queue that destroyed itself no longer exists, so its policy cannot be read.
    if any(instant.trace.kind[place] == "queueDelete" for place in range(instant.command_of(row), row)):
        text = f"{label} did not fit on {name} at {when}, which destroyed itself; {label} is lost."
        return Reason(text, ("LP-15",), row, subject)
    queue = instant.queue(name)
    policy = queue.policy.name if queue is not None else ""
    if policy == "priority_ring":
        text = f"{label} was dropped at {when}: all that {name} could evict has a higher priority."
        return Reason(text, ("LP-12", "RF-20"), row, subject)
    if policy == "ring":
        text = f"{label} was dropped at {when}: {name} had nothing to evict for it."
        return Reason(text, ("RF-21",), row, subject)
    text = f"{name} did not want {label} at {when}: its filter, no-local or trace setting refuses it."
    return Reason(text, ("RF-24",), row, subject)


def _explain_discard(instant: Instant, queue: str) -> Reason | None:
    """Explain the message that was last evicted, replaced, expired or purged, or return None."""
    # The encoded text is searched without decoding: a queue may have tens of thousands of other rows.
    marks = tuple(f'"reason":"{reason}"' for reason in _LOST)
    for row in reversed(instant.index.rows("dequeued", "queue", queue)):
        detail = instant.trace.detail[row]
        if row <= instant.end and any(mark in detail for mark in marks):
            return explain_departure(instant, row)
    return None
