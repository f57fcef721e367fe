"""Messages: where one is, and why it has not been delivered, or has been again."""

from __future__ import annotations

from qflow.broker.queue import Queue
from qflow.broker.queued_message import AVAILABLE, QueuedMessage
from qflow.trace.explain.consumers import no_reader, readers_of
from qflow.trace.explain.credit import no_credit
from qflow.trace.explain.explanation import Reason, Subject
from qflow.trace.explain.instant import Instant, counted
from qflow.trace.explain.losses import died_of, dropped, gone
from qflow.trace.explain.refusals import expired, refused
from qflow.trace.explain.transfers import not_sent, overflowing, rolled_back
from qflow.trace.explain.wake_up import not_woken
from qflow.trace.explain.work import settlement

_MOST = 3


def explain_message(instant: Instant, label: str) -> Reason:
    """Say where a message is, on each queue that it was routed to."""
    rows = instant.about(label, "enqueued")
    queues = list(dict.fromkeys(instant.trace.queue[row] for row in rows))
    if not queues:
        return _on_no_queue(instant, label)
    reasons = [_on_queue(instant, label, name) for name in queues]
    if len(reasons) == 1:
        return reasons[0]
    text = f"{label} was put on {counted(len(queues), 'queue')}: {', '.join(queues)}."
    return Reason(text, ("MG-03", "CM-03"), rows[-1], Subject("message", label), tuple(reasons))


def _on_queue(instant: Instant, label: str, name: str) -> Reason:
    queue = instant.queue(name)
    message = instant.queued(queue, label) if queue is not None else None
    if queue is None or message is None:
        left = instant.about(label, "dequeued", name)
        if left:
            return gone(instant, left[-1])
        return Reason(f"{label} went with {name}.", ("FC-21",), None, Subject("message", label))
    return (
        _available(instant, queue, message)
        if message.state == AVAILABLE
        else _acquired(instant, queue, message)
    )


# Acquired


def _acquired(instant: Instant, queue: Queue, message: QueuedMessage) -> Reason:
    label = message.transfer.label
    rows = instant.about(label, "acquired", queue.name)
    owner = instant.trace.link[rows[-1]]
    name = instant.shown(owner)
    session = owner.partition("::")[0]
    subject = Subject("message", label)
    text = f"{label} is on {queue.name}, acquired by {name} since {instant.when(rows[-1])}."
    because = [*_again(instant, queue, label), _until(instant, queue, label, owner, name, session)]
    return Reason(text, ("CN-10",), rows[-1], subject, tuple(because))


def _until(instant: Instant, queue: Queue, label: str, owner: str, name: str, session: str) -> Reason:
    if instant.owner(owner) is None:
        text = (
            f"The subscription {name} has ended; {label} stays acquired until its session settles it or ends."
        )
        row = instant.last("unsubscribe", "queue", queue.name)
        return Reason(text, ("CN-17", "MG-15"), row, Subject("consumer", name))
    return settlement(instant, queue, label, name, session)


def _again(instant: Instant, queue: Queue, label: str) -> list[Reason]:
    """Say that a message has been given back before, if it has."""
    rows = instant.about(label, "requeued", queue.name)
    if not rows:
        return []
    row = rows[-1]
    when = f"{instant.when(row)}, when {instant.cause(row)}"
    text = f"{label} was given back at {when}; it took its old place."
    rules = ("CN-14", "CN-15") if queue.groups is None else ("MG-18", "CN-14", "CN-15")
    return [Reason(text, rules, row, Subject("message", label))]


# Available


def _available(instant: Instant, queue: Queue, message: QueuedMessage) -> Reason:
    label = message.transfer.label
    subject = Subject("message", label)
    rows = instant.about(label, "enqueued", queue.name)
    before = sum(1 for m in queue.store if m.position < message.position and m.state == AVAILABLE)
    place = f"behind {counted(before, 'other')}" if before else "and first in line"
    text = f"{label} is on {queue.name}, available {place}."
    pairs = readers_of(instant, queue)
    because = _again(instant, queue, label)
    if message.transfer.is_expired(instant.broker.now):
        because.append(expired(label))
    if not pairs:
        because.append(no_reader(instant, queue))
    for session, subscription in pairs[:_MOST]:
        reason = no_credit(instant, session, subscription) or refused(instant, session, subscription, message)
        because.append(reason or not_woken(instant, session, subscription))
    return Reason(text, ("CN-19", "MG-10"), rows[-1], subject, tuple(_once(because)))


def _once(reasons: list[Reason]) -> list[Reason]:
    return list({reason.text: reason for reason in reasons}.values())


# On no queue


def _on_no_queue(instant: Instant, label: str) -> Reason:
    sent = instant.about(label, "message.transfer")
    subject = Subject("message", label)
    if not sent:
        return not_sent(instant, label, "message")
    for row in instant.about(label, "dropped"):
        return dropped(instant, row)
    for row in instant.about(label, "unroutable"):
        exchange = instant.trace.link[row]
        text = f"{label} is on no queue: no binding of exchange {exchange!r} matched it, so it was dropped."
        return Reason(text, ("EX-08",), row, subject)
    session = instant.session(instant.trace.session[sent[-1]])
    assert session is not None, "who sends is attached"
    error = instant.last("exception", "session", session.name)
    if error is not None and instant.command_of(error) == sent[-1]:
        text = f"{label} is on no queue: the broker refused it."
        return Reason(text, ("LP-05",), error, subject, (died_of(instant, error),))
    transfer = session.completions.incomplete.get(instant.detail(sent[-1])["command"])
    if transfer is not None:
        return overflowing(instant, transfer)
    ended = rolled_back(instant, sent[-1])
    if ended is None:
        text = f"{label} is on no queue yet: it was sent in a transaction that is not committed."
        return Reason(text, ("CM-10", "MG-22"), sent[-1], subject)
    text = f"{label} is on no queue: its transaction was not committed, as {instant.cause(ended)}."
    because = (died_of(instant, ended),) if instant.trace.kind[ended] == "exception" else ()
    return Reason(text, ("CM-10", "LP-09" if because else "MG-22"), ended, subject, because)
