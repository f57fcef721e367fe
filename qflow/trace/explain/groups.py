"""Groups: who owns one and since when, what frees it, or why nobody owns it."""

from __future__ import annotations

from qflow.broker.groups import GroupState
from qflow.broker.queue import Queue
from qflow.broker.queued_message import ACQUIRED
from qflow.trace.explain.explanation import Reason, Subject
from qflow.trace.explain.instant import Instant, counted, listed
from qflow.trace.explain.work import settlement


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
