"""What a consumer is at work on: where most chains end, as no broker decides when it settles."""

from __future__ import annotations

from qflow.broker.delivery import DeliveryRecord
from qflow.broker.queue import Queue
from qflow.broker.queued_message import ACQUIRED
from qflow.broker.session import Session
from qflow.broker.subscription import Subscription
from qflow.trace.explain.explanation import Reason, Subject
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
