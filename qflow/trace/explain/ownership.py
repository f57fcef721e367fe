"""What a consumer is at work on: where most chains end, as no broker decides when it settles.

Groups: who owns one and since when, what frees it, or why nobody owns it.
"""

from __future__ import annotations

from qflow.broker.consuming import DeliveryRecord, Subscription
from qflow.broker.groups import GroupState
from qflow.broker.message import ACQUIRED
from qflow.broker.queue import Queue
from qflow.broker.session import Session
from qflow.trace.explain.chain import Reason, Subject
from qflow.trace.explain.instant import Instant, counted, listed
from qflow.trace.explain.losses import REASONS

_OWN_ACTS = {
    "message.accept": "accepts it",
    "message.release": "releases it",
    "message.reject": "rejects it",
    "session.detach": "ends its session",
    "tx.commit": "commits its transaction",
}
_SETTLED_BY = {"dequeued": ("CN-13",), "requeued": ("CN-14",)}


def consumer_subject(session: Session, subscription: Subscription) -> Subject:
    """Return a subscription as something that can be asked about."""
    return Subject("consumer", consumer_name(session.name, subscription.name))


def consumer_name(session: str, tag: str) -> str:
    """Return a subscription's name: the session's, unless the tag says more."""
    return session if session == tag else f"{session}/{tag}"


def unsettled(session: Session, tag: str) -> list[DeliveryRecord]:
    """Return what a subscription was given and has to settle, oldest first."""
    records = session.consuming.records.values()
    return [record for record in records if record.tag == tag and _is_to_settle(record)]


def _is_to_settle(record: DeliveryRecord) -> bool:
    return record.is_acquired and not record.is_ended and record.message.state == ACQUIRED


def work(instant: Instant, session: Session, subscription: Subscription) -> tuple[Reason, ...]:
    """Say what a subscription holds and until when it works on the oldest; nothing if it holds none."""
    records = unsettled(session, subscription.name)
    if not records:
        return ()
    subject = consumer_subject(session, subscription)
    name, queue = subject.name, subscription.queue.name
    labels = [record.label for record in records]
    row = instant.about(labels[0], "delivered", queue)
    holds = f"{name} holds {counted(len(labels), 'message')} of {queue}: {listed(labels)}."
    return (
        Reason(
            holds,
            ("CN-10",),
            row[-1] if row else None,
            subject,
            (settlement(instant, subscription.queue, records[0].label, name, session.name),),
        ),
    )


def settlement(instant: Instant, queue: Queue, label: str, name: str, session: str) -> Reason:
    """Say how and when an acquired message is settled, or that the trace does not show it."""
    subject = Subject("message", label)
    found = [(instant.later_about(label, kind, queue.name), kind) for kind in _SETTLED_BY]
    row, kind = min(
        (pair for pair in found if pair[0] is not None), default=(None, ""), key=lambda p: p[0] or 0
    )
    if row is None:
        text = f"{name} works on {label}, which is not settled before the trace ends at {instant.trace_end}."
        return Reason(text, ("CN-13",), _delivery(instant, queue, label), subject)
    command = instant.command_of(row)
    act = _OWN_ACTS.get(instant.trace.kind[command])
    if act is not None and instant.trace.session[command] == session:
        text = f"{name} works on {label} until {instant.when(row)}, when it {act}: its own decision."
    else:
        rules, words = REASONS.get(str(instant.detail(row).get("reason", "")), (_SETTLED_BY[kind], ""))
        why = f": {words}" if words else ""
        text = f"{name} works on {label} until {instant.when(row)}, when {instant.cause(row)}{why}."
        return Reason(text, rules, row, subject)
    return Reason(text, _SETTLED_BY[kind], row, subject)


def _delivery(instant: Instant, queue: Queue, label: str) -> int | None:
    rows = instant.about(label, "delivered", queue.name) or instant.about(label, "acquired", queue.name)
    return rows[-1] if rows else None


def owned(instant: Instant, queue: Queue, state: GroupState) -> Reason:
    """Say who owns a group, and what has to happen before it is free."""
    subject = group_subject(instant, queue.name, state.name)
    owner = instant.shown(state.owner)
    row = _last(instant, "group_owned", queue.name, state.name)
    first = _acquired_with(instant, row)
    since = f" since {instant.when(row)}" if row is not None else ""
    text = f"Group {state.name} of {queue.name} has belonged to {owner}{since}, when it acquired {first}."
    return Reason(text, ("MG-07",), row, subject, (_what_frees(instant, queue, state),))


def group_subject(instant: Instant, queue: str, group: str) -> Subject:
    """Return a group as something that can be asked about."""
    is_alone = sum(name == group for _, name in instant.index.groups) == 1
    return Subject("group", group if is_alone else f"{queue}/{group}")


def _acquired_with(instant: Instant, row: int | None) -> str:
    """Return the label of the message whose acquisition made a group owned."""
    while row is not None and row <= instant.end:
        if instant.trace.kind[row] == "acquired":
            return instant.trace.message[row]
        row += 1
    return "its first message"


def _what_frees(instant: Instant, queue: Queue, state: GroupState) -> Reason:
    """Say which acquired messages keep the group owned, and when the last of them is settled."""
    labels = [m.transfer.label for m in state.members.values() if m.state == ACQUIRED]
    owner = instant.shown(state.owner)
    held = f"{owner} holds {listed(labels)} of it, and owns it until none is left acquired"
    subject = Subject("message", labels[0]) if labels else group_subject(instant, queue.name, state.name)
    row = _next(instant, "group_freed", queue.name, state.name)
    if row is None:
        pair = instant.owner(state.owner)
        session = pair[0].name if pair is not None else state.owner.partition("::")[0]
        rest = tuple(settlement(instant, queue, label, owner, session) for label in labels[:1])
        rest = _gone(instant, queue, state) or rest
        text = f"{held}; the trace, which ends at {instant.trace_end}, does not show that."
        return Reason(text, ("MG-08", "MG-09"), None, subject, rest)
    text = f"{held}: that is at {instant.when(row)}, when {instant.cause(row)}."
    return Reason(text, ("MG-08", "MG-09"), row, subject, _gone(instant, queue, state))


def _gone(instant: Instant, queue: Queue, state: GroupState) -> tuple[Reason, ...]:
    """Say it if the owner is a name only: its subscription has ended (MG-15)."""
    session, separator, tag = state.owner.partition("::")
    if not separator:
        text = f"The owner {state.owner!r} is a bare tag: the message was browsed, then acquired by name."
        return (Reason(text, ("MG-15",), None, group_subject(instant, queue.name, state.name)),)
    if instant.owner(state.owner) is not None:
        return ()
    row = instant.last("unsubscribe", "link", tag)
    text = (
        f"The subscription {instant.shown(state.owner)} has ended, but its messages stay acquired and the "
        f"group stays its own until session {session} settles them or ends."
    )
    return (Reason(text, ("MG-15", "CN-17"), row, Subject("consumer", instant.shown(state.owner))),)


def freed(instant: Instant, queue: Queue, group: str) -> Reason | None:
    """Say what made a group free the last time, or None if it never had an owner."""
    row = _last(instant, "group_freed", queue.name, group)
    if row is None:
        return None
    owner = instant.shown(instant.trace.link[row])
    subject = group_subject(instant, queue.name, group)
    text = f"Group {group} was {owner}'s until {instant.when(row)}, when {instant.cause(row)}."
    dropped = instant.last("dequeued", "queue", queue.name, until=row)
    if dropped is not None and instant.detail(dropped)["reason"] == "ring":
        label = instant.trace.message[dropped]
        ring = f"The ring dropped {label}, on which {owner} was still at work."
        because = (Reason(ring, ("MG-20", "LP-10"), dropped, Subject("message", label)),)
        return Reason(text, ("MG-08", "MG-20"), row, subject, because)
    return Reason(text, ("MG-08",), row, subject)


def explain_group(instant: Instant, queue_name: str, group: str) -> Reason:
    """Say who owns a group, or why nobody does."""
    subject = group_subject(instant, queue_name, group)
    queue = instant.queue(queue_name)
    state = queue.groups.groups.get(group) if queue is not None and queue.groups is not None else None
    if queue is None or state is None:
        return _absent(instant, queue_name, group, subject)
    if state.owner:
        return owned(instant, queue, state)
    count = counted(len(state.members), "message")
    before = freed(instant, queue, group)
    text = (
        f"Group {group} of {queue_name} belongs to nobody: none of its {count} is acquired."
        if len(state.members) > 1
        else f"Group {group} of {queue_name} belongs to nobody: its only message is not acquired."
    )
    because = () if before is None else (before,)
    return Reason(text, ("MG-06", "MG-07"), before.row if before else None, subject, because)


def _absent(instant: Instant, queue: str, group: str, subject: Subject) -> Reason:
    found = instant.queue(queue)
    if found is not None and found.groups is None:
        row = instant.last("queueDeclare", "queue", queue)
        text = f"{queue} knows no groups: it is declared without qpid.group_header_key."
        return Reason(text, ("MG-01",), row, subject)
    row = next((r for r in reversed(_rows(instant, "dequeued", queue, group)) if r <= instant.end), None)
    if row is not None:
        text = (
            f"Group {group} has no message on {queue} and so does not exist: the last, "
            f"{instant.trace.message[row]}, left at {instant.when(row)}, when {instant.cause(row)}."
        )
        return Reason(text, ("MG-06",), row, subject)
    row = next((r for r in _rows(instant, "enqueued", queue, group) if r > instant.end), None)
    text = f"Group {group} has no message on {queue} yet"
    if row is None:
        return Reason(f"{text}.", ("MG-06",), None, subject)
    text = f"{text}: the first, {instant.trace.message[row]}, comes at {instant.when(row)}."
    return Reason(text, ("MG-06",), row, subject)


def _rows(instant: Instant, kind: str, queue: str, group: str) -> list[int]:
    rows = instant.index.rows(kind, "queue", queue)
    return [row for row in rows if instant.trace.group[row] == group]


def _last(instant: Instant, kind: str, queue: str, group: str) -> int | None:
    rows = instant.index.rows(kind, "queue", queue)
    return next((r for r in reversed(rows) if r <= instant.end and instant.trace.group[r] == group), None)


def _next(instant: Instant, kind: str, queue: str, group: str) -> int | None:
    rows = instant.index.rows(kind, "queue", queue)
    return next((r for r in rows if r > instant.end and instant.trace.group[r] == group), None)
