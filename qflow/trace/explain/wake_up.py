"""The lost wake-up: a subscription could have a message at once, but nobody woke it (MG-13)."""

from __future__ import annotations

from qflow.broker.dispatch import get_next_message
from qflow.broker.session import Session
from qflow.broker.subscription import Subscription
from qflow.trace.explain.credit import has_credit
from qflow.trace.explain.explanation import Reason, Subject
from qflow.trace.explain.groups import group_subject
from qflow.trace.explain.instant import Instant
from qflow.trace.explain.work import consumer_subject


def would_take(instant: Instant, session: Session, subscription: Subscription) -> str | None:
    """Ask the engine, on a twin, what a subscription would get if somebody woke it."""
    twin = instant.twin().sessions[session.name].consuming.subscriptions[subscription.name]
    message = get_next_message(twin.queue, twin)
    return None if message is None else message.transfer.label


def not_woken(instant: Instant, session: Session, subscription: Subscription) -> Reason:
    """Say that a subscription could have a message at once, but nobody woke it, and why (MG-13)."""
    subject, queue = consumer_subject(session, subscription), subscription.queue
    label = would_take(instant, session, subscription)
    if label is None:
        text = f"{subject.name} has {has_credit(subscription)}, but finds nothing that it may have."
        return Reason(text, ("CN-21",), instant.last("idle", "link", subscription.owner), subject)
    text = f"{subject.name} has {has_credit(subscription)} and {label} is free for it, but nobody woke it."
    message = instant.queued(queue, label)
    group = message.group if message is not None else ""
    idle = instant.last("idle", "link", subscription.owner)
    because = (
        _why_not_woken(instant, subscription, group, idle),
        _what_wakes(instant, session, subscription),
    )
    return Reason(text, ("MG-13", "CN-19"), because[0].row, subject, because)


def _why_not_woken(instant: Instant, subscription: Subscription, group: str, idle: int | None) -> Reason:
    queue = subscription.queue
    for row in reversed(instant.index.rows("group_freed", "queue", queue.name)):
        if row <= instant.end and instant.trace.group[row] == group and row > (idle or -1):
            text = (
                f"Group {group} became free at {instant.when(row)}, when {instant.cause(row)}: "
                "that resets cursors, yet wakes nobody."
            )
            return Reason(text, ("MG-13", "RF-17"), row, group_subject(instant, queue.name, group))
    subject, name = Subject("queue", queue.name), instant.shown(subscription.owner)
    if not subscription.is_listening and not subscription.is_blocked:
        text = f"A wake-up took {name} off the waiting list of {queue.name}, then went to another instead."
        return Reason(text, ("RF-07",), idle, subject)
    since = f" since {instant.when(idle)}" if idle is not None else ""
    text = (
        f"{name} stands in the waiting list of {queue.name}{since}; an enqueue, a release or a cancel wakes "
        "from there, a grant of credit does not."
    )
    return Reason(text, ("RF-08", "CN-19"), idle, subject)


def _what_wakes(instant: Instant, session: Session, subscription: Subscription) -> Reason:
    subject = consumer_subject(session, subscription)
    rows = instant.index.rows("delivered", "session", session.name)
    row = next((r for r in rows if r > instant.end and instant.trace.link[r] == subscription.name), None)
    if row is None:
        text = f"Nothing wakes {subject.name} before the trace ends at {instant.trace_end}."
        return Reason(text, ("CN-19",), None, subject)
    text = (
        f"{subject.name} gets {instant.trace.message[row]} at {instant.when(row)}, when {instant.cause(row)}."
    )
    return Reason(text, ("CN-19",), row, subject)
