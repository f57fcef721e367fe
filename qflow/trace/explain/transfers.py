"""Transfers and messages: two questions about one thing that was sent.

A *transfer* is the sender's command: it is complete or not, and what withholds its completion is a queue that
is ON, the message store, or the order of completions.  A *message* is what the transfer put on queues: it is
available, acquired or gone on each of them, or on none.
"""

from __future__ import annotations

from qflow.broker.history import OVERFLOW, WATERMARK
from qflow.broker.message import AVAILABLE, QueuedMessage, Transfer
from qflow.broker.queue import Queue
from qflow.broker.session import Session
from qflow.broker.store import STORE
from qflow.trace.explain.chain import Reason, Subject
from qflow.trace.explain.consumers import (
    explain_expiry,
    explain_refusal,
    no_credit,
    no_reader,
    not_woken,
    readers,
    readers_of,
    settlement,
)
from qflow.trace.explain.instant import Instant
from qflow.trace.explain.queues import (
    explain_death,
    explain_departure,
    explain_drop,
    explain_on,
    explain_turning_off,
    explain_unknown,
    limit_of,
    no_flow_control,
)
from qflow.wording import format_count, format_names
from qflow.workload.model import is_unseen


def explain_transfer(instant: Instant, label: str) -> Reason:
    """Say why a transfer is complete, or why it is not."""
    sent = instant.about(label, "message.transfer")
    if not sent:
        return _not_sent(instant, label, "transfer")
    row = sent[-1]
    session = instant.session(instant.trace.session[row])
    number = instant.detail(row)["command"]
    assert session is not None, "who sends is attached"
    if number in session.completed:
        return _complete(instant, label, row, session)
    transfer = session.completions.incomplete.get(number)
    if transfer is not None:
        return explain_hold(instant, transfer)
    return _explain_loss(instant, label, row, session)


def _not_sent(instant: Instant, label: str, kind: str) -> Reason:
    """Say that a message has not been sent yet, and when it is."""
    subject = Subject(kind, label)
    rows = [instant.later_about(label, name) for name in ("client.transfer", "message.transfer")]
    later = min((row for row in rows if row is not None), default=None)
    if later is None:
        return Reason(f"{label} has not been sent.", ("CAP-01",), None, subject)
    name = instant.trace.session[later]
    text = f"{label} has not been sent yet; {name} sends it at {instant.when(later)}, by its own decision."
    return Reason(text, ("CAP-01",), later, subject)


# Withheld


def explain_hold(instant: Instant, transfer: Transfer) -> Reason:
    """Say who withholds a transfer's completion, each holder with its own chain (CM-03)."""
    subject, label = Subject("transfer", transfer.label), transfer.label
    holders = list(transfer.held_by)
    rows = instant.about(label, "held")
    row = rows[-1] if rows else None
    if holders == [WATERMARK]:
        holders = [instant.trace.queue[row]] if row is not None else []
    names = ["the " + name if name in (STORE, OVERFLOW) else name for name in holders]
    text = f"Transfer {label} is not complete: it is held by {format_names(names)}."
    because = tuple(reason for name in holders for reason in _holder(instant, name, transfer))
    rules = ("FC-15", "CM-01") if len(holders) < 2 else ("FC-15", "CM-03")
    return Reason(text, rules, row, subject, because)


def _holder(instant: Instant, name: str, transfer: Transfer) -> tuple[Reason, ...]:
    subject = Subject("transfer", transfer.label)
    if name == STORE:
        row = instant.later_about(transfer.label, "store.finish")
        later = f"; it does at {instant.when(row)}" if row is not None else ""
        text = f"The message store has not said yet that {transfer.label} is safe{later}."
        return (Reason(text, ("CM-12",), row, subject),)
    if name == OVERFLOW:
        return (overflowing(instant, transfer),)
    queue = instant.queue(name)
    if queue is None or queue.flow_limit is None or not queue.flow_limit.stopped:
        return ()
    return (explain_on(instant, queue),)


def overflowing(instant: Instant, transfer: Transfer) -> Reason:
    """Say why a message waits in the overflow list of its session (ALT-06)."""
    session = instant.broker.sessions[transfer.origin]
    waiting = [item.label for item, _ in session.overflow.waiting] if session.overflow is not None else []
    label, subject = transfer.label, Subject("message", transfer.label)
    row = instant.about(label, "message.transfer")[-1]
    if waiting.index(label):
        before = format_count(waiting.index(label), "other")
        text = f"{label} is on no queue yet: in the overflow list of {session.name} it waits behind {before}."
        rest = (overflowing(instant, session.overflow.waiting[0][0]),) if session.overflow is not None else ()
        return Reason(text, ("ALT-06", "ALT-09"), row, subject, rest)
    text = (
        f"{label} is on no queue yet: it is first in the overflow list of {session.name}, tried every 0.1 s."
    )
    queue = instant.queue(transfer.message.routing_key or "")
    because = () if queue is None else (limit_of(instant, queue), *readers(instant, queue))
    return Reason(text, ("ALT-06",), row, subject, because)


# Complete


def _complete(instant: Instant, label: str, sent: int, session: Session) -> Reason:
    subject = Subject("transfer", label)
    done = [row for row in instant.about(label, "completed") if row > sent]
    row = done[-1] if done else sent
    lets = [place for place in instant.about(label, "let_go") if place > sent]
    if not lets and instant.command_of(row) != sent:
        return _withheld_otherwise(instant, label, row, session)
    if not lets:
        text = f"Transfer {label} has been complete since {instant.when(row)}: nothing withheld it."
        return Reason(text, ("CM-02",), row, subject, (_why_never_held(instant, label, sent),))
    first = next(place for place in instant.about(label, "held") if place > sent)
    times = f"was held from {instant.when(first)} and has been complete since {instant.when(row)}"
    text = f"Transfer {label} {times}, when {instant.trace.queue[lets[-1]]} let it go."
    because = tuple(_why_let_go(instant, label, place) for place in lets)
    return Reason(text, ("CM-02", "FC-17"), row, subject, because)


def _withheld_otherwise(instant: Instant, label: str, row: int, session: Session) -> Reason:
    """Say what withheld a completion, if it was no queue: the list of ALT-06, the store, or the order."""
    when, subject = instant.when(row), Subject("transfer", label)
    if session.overflow is not None:
        text = f"Transfer {label} has been complete since {when}: until then it waited in the overflow list."
        return Reason(text, ("ALT-06",), row, subject)
    if instant.broker.options.completions == "in-order":
        text = f"Transfer {label} has been complete since {when}: before, an earlier command was not."
        return Reason(text, ("CM-04", "ALT-11"), row, subject)
    text = f"Transfer {label} has been complete since {when}: until then the message store was not done."
    return Reason(text, ("CM-12",), row, subject)


def _why_never_held(instant: Instant, label: str, sent: int) -> Reason:
    rows = [row for row in instant.about(label, "enqueued") if row > sent]
    subject = Subject("message", label)
    own = [row for row in rows if instant.command_of(row) == sent]
    if own:
        return _never_held(instant, label, own)
    for row in instant.about(label, "dropped"):
        if row > sent:
            return explain_drop(instant, row)
    for row in instant.about(label, "unroutable"):
        if row > sent:
            exchange = instant.trace.link[row]
            text = f"No binding of exchange {exchange!r} matched {label}: it was dropped without an error."
            return Reason(text, ("EX-08",), row, subject)
    if rows:
        text = (
            f"{label} was sent in a transaction, where no transfer is held; the commit put it on its queue."
        )
        return Reason(text, ("CM-10",), rows[0], subject)
    state = "was not committed" if _find_rollback(instant, sent) is not None else "is not committed yet"
    text = f"{label} was sent in a transaction, where no transfer is held; it {state}."
    return Reason(text, ("CM-10",), sent, subject)


def _find_rollback(instant: Instant, sent: int) -> int | None:
    """Return the row that ended the transaction of a transfer without a commit, if there is one."""
    session = instant.trace.session[sent]
    kinds = ("tx.rollback", "exception", "session.detach")
    rows = [instant.index.next(kind, "session", session, sent) for kind in kinds]
    return min((row for row in rows if row is not None and row <= instant.end), default=None)


def _never_held(instant: Instant, label: str, enqueued: list[int]) -> Reason:
    """Say why none of the queues that a message went to withheld its completion."""
    names = list(dict.fromkeys(instant.trace.queue[row] for row in enqueued))
    subject, row = Subject("message", label), enqueued[-1]
    until = instant.end_of(row)
    if any(_was_on(instant, name, until) for name in names):
        places = format_names(names)
        text = f"{label} went to {places}; as the Java broker does, it tells senders to stop instead."
        return Reason(text, ("ALT-12",), row, subject)
    queues = [queue for name in names if (queue := instant.queue(name)) is not None]
    unknown = [queue for queue in queues if is_unseen(queue.settings.arguments)]
    if unknown:
        why = explain_unknown(instant, unknown[0])
        text = f"{label} went to {format_names(names)}; nothing recorded says when {unknown[0].name} was ON."
        return Reason(text, why.rules, row, subject, (why,))
    if len(queues) == len(names) and all(queue.flow_limit is None for queue in queues):
        because = tuple(no_flow_control(instant, queue) for queue in queues)
        text = f"{label} went to {format_names(names)}, without flow control."
        return Reason(text, because[0].rules, row, subject, because)
    were = "was" if len(names) == 1 else "were"
    text = f"{label} went to {format_names(names)}, which {were} not ON then."
    return Reason(text, ("FC-13", "FC-14"), row, subject)


def _was_on(instant: Instant, queue: str, row: int) -> bool:
    on_row = instant.last("flow_stopped", "queue", queue, until=row)
    off_row = instant.last("flow_resumed", "queue", queue, until=row)
    return on_row is not None and on_row > (off_row if off_row is not None else -1)


def _why_let_go(instant: Instant, label: str, row: int) -> Reason:
    queue = instant.trace.queue[row]
    command = instant.command_of(row)
    resumed = instant.last("flow_resumed", "queue", queue, until=row)
    if resumed is not None and resumed >= command:
        count = _let_go_at_once(instant, queue, resumed)
        transfers = format_count(count, "transfer")
        text = f"{queue} turned OFF at {instant.when(row)} and let go of {transfers} at once."
        return Reason(
            text,
            ("FC-17", "FC-16"),
            resumed,
            Subject("queue", queue),
            (explain_turning_off(instant, queue, resumed),),
        )
    text = (
        f"{label} itself left {queue} at {instant.when(row)}, when {instant.cause(row)}; {queue} stayed ON."
    )
    return Reason(text, ("FC-17",), row, Subject("message", label))


def _let_go_at_once(instant: Instant, queue: str, resumed: int) -> int:
    """Count what a queue let go of when it turned OFF."""
    rows = range(resumed, instant.end_of(resumed) + 1)
    return sum(instant.trace.kind[row] == "let_go" and instant.trace.queue[row] == queue for row in rows)


# Neither


def _explain_loss(instant: Instant, label: str, sent: int, session: Session) -> Reason:
    subject = Subject("transfer", label)
    error = instant.last("exception", "session", session.name)
    if error is not None and instant.command_of(error) == sent:
        text = f"Transfer {label} was refused and will never be complete."
        return Reason(text, ("LP-05",), error, subject, (explain_death(instant, error),))
    if session.is_attached:
        text = f"Transfer {label} is processed, but completions are in order only, as before the feature."
        return Reason(text, ("CM-04", "ALT-11"), sent, subject)
    row = error if error is not None else instant.last("session.detach", "session", session.name)
    because = (explain_death(instant, error),) if error is not None else ()
    text = (
        f"Transfer {label} will never be reported complete: session {session.name} ended while it was held."
    )
    return Reason(text, ("CM-09",), row, subject, because)


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
    text = f"{label} was put on {format_count(len(queues), 'queue')}: {', '.join(queues)}."
    return Reason(text, ("MG-03", "CM-03"), rows[-1], Subject("message", label), tuple(reasons))


def _on_queue(instant: Instant, label: str, name: str) -> Reason:
    queue = instant.queue(name)
    message = instant.queued(queue, label) if queue is not None else None
    if queue is None or message is None:
        left = instant.about(label, "dequeued", name)
        if left:
            return explain_departure(instant, left[-1])
        return Reason(f"{label} went with {name}.", ("FC-21",), None, Subject("message", label))
    return (
        _available(instant, queue, message)
        if message.state == AVAILABLE
        else _explain_acquisition(instant, queue, message)
    )


# Acquired


def _explain_acquisition(instant: Instant, queue: Queue, message: QueuedMessage) -> Reason:
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
    place = f"behind {format_count(before, 'other')}" if before else "and first in line"
    text = f"{label} is on {queue.name}, available {place}."
    pairs = readers_of(instant, queue)
    because = _again(instant, queue, label)
    if message.transfer.is_expired(instant.broker.now):
        because.append(explain_expiry(label))
    if not pairs:
        because.append(no_reader(instant, queue))
    for session, subscription in pairs[:_MOST]:
        reason = no_credit(instant, session, subscription) or explain_refusal(
            instant, session, subscription, message
        )
        because.append(reason or not_woken(instant, session, subscription))
    return Reason(text, ("CN-19", "MG-10"), rows[-1], subject, tuple(_once(because)))


def _once(reasons: list[Reason]) -> list[Reason]:
    return list({reason.text: reason for reason in reasons}.values())


# On no queue


def _on_no_queue(instant: Instant, label: str) -> Reason:
    sent = instant.about(label, "message.transfer")
    subject = Subject("message", label)
    if not sent:
        return _not_sent(instant, label, "message")
    for row in instant.about(label, "dropped"):
        return explain_drop(instant, row)
    for row in instant.about(label, "unroutable"):
        exchange = instant.trace.link[row]
        text = f"{label} is on no queue: no binding of exchange {exchange!r} matched it, so it was dropped."
        return Reason(text, ("EX-08",), row, subject)
    session = instant.session(instant.trace.session[sent[-1]])
    assert session is not None, "who sends is attached"
    error = instant.last("exception", "session", session.name)
    if error is not None and instant.command_of(error) == sent[-1]:
        text = f"{label} is on no queue: the broker refused it."
        return Reason(text, ("LP-05",), error, subject, (explain_death(instant, error),))
    transfer = session.completions.incomplete.get(instant.detail(sent[-1])["command"])
    if transfer is not None:
        return overflowing(instant, transfer)
    ended = _find_rollback(instant, sent[-1])
    if ended is None:
        text = f"{label} is on no queue yet: it was sent in a transaction that is not committed."
        return Reason(text, ("CM-10", "MG-22"), sent[-1], subject)
    text = f"{label} is on no queue: its transaction was not committed, as {instant.cause(ended)}."
    because = (explain_death(instant, ended),) if instant.trace.kind[ended] == "exception" else ()
    return Reason(text, ("CM-10", "LP-09" if because else "MG-22"), ended, subject, because)
