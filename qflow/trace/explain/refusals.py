"""Refusals: why a subscription with credit may not have one message (the questions of RF-07, one by one)."""

from __future__ import annotations

from qflow.broker.queue import Queue
from qflow.broker.queued_message import QueuedMessage
from qflow.broker.session import Session
from qflow.broker.subscription import Subscription
from qflow.trace.explain.credit import too_little
from qflow.trace.explain.explanation import Reason, Subject
from qflow.trace.explain.groups import owned
from qflow.trace.explain.instant import Instant
from qflow.trace.explain.work import consumer_subject


def refused(
    instant: Instant, session: Session, subscription: Subscription, message: QueuedMessage
) -> Reason | None:
    """Say why a subscription with credit may not have an AVAILABLE message; None if it may (RF-07)."""
    queue, transfer, label = subscription.queue, message.transfer, message.transfer.label
    subject = consumer_subject(session, subscription)
    if transfer.is_expired(instant.broker.now):
        return expired(label)
    if subscription.selector is not None and not subscription.selector.matches(transfer):
        text = f"The selector of {subject.name}, {subscription.selector.expression}, refuses {label}."
        row = instant.last("subscribe", "link", subscription.name)
        return Reason(text, ("CN-21",), row, subject)
    is_passed = passed(queue, subscription, message)
    if is_passed and not _is_anothers(queue, subscription, message):
        return _passed(instant, subject, subscription, message)
    if not is_passed and not subscription.credit.allows(transfer.size):
        return too_little(instant, session, subscription, label, transfer.size)
    if _is_anothers(queue, subscription, message):
        return _anothers(instant, subject, queue, message)
    return None


def expired(label: str) -> Reason:
    """Say that a message is dead, and still there only because nobody has looked."""
    text = f"The time to live of {label} is over; whoever looks at it next removes it."
    return Reason(text, ("QT-07", "MG-21"), None, Subject("message", label))


def _is_anothers(queue: Queue, subscription: Subscription, message: QueuedMessage) -> bool:
    """Return whether a message's group belongs to somebody else (MG-07)."""
    return subscription.acquires and not queue.distributor.may_acquire(subscription.owner, message)


def _anothers(instant: Instant, subject: Subject, queue: Queue, message: QueuedMessage) -> Reason:
    assert queue.groups is not None, "only groups refuse"
    why = owned(instant, queue, queue.groups.groups[message.group])
    text = f"{message.transfer.label} is of group {message.group}, which is not {subject.name}'s."
    return Reason(text, ("MG-12", "MG-07"), why.row, Subject("message", message.transfer.label), (why,))


def passed(queue: Queue, subscription: Subscription, message: QueuedMessage) -> bool:
    """Return whether a subscription's cursor stands behind a message and stays there (RF-10)."""
    return queue.store.has_passed(subscription.cursor, message)


def _passed(instant: Instant, subject: Subject, subscription: Subscription, message: QueuedMessage) -> Reason:
    label = message.transfer.label
    rows = instant.about(label, "delivered", subscription.queue.name)
    shown = next((row for row in reversed(rows) if instant.trace.link[row] == subscription.name), None)
    if shown is not None and not subscription.acquires:
        text = f"{subject.name} has been shown {label} already, and a browser's cursor never goes back."
        return Reason(text, ("MG-17", "RF-10"), shown, subject)
    if not subscription.acquires:
        text = f"The cursor of the browser {subject.name} has passed {label}, and never goes back."
        return Reason(text, ("MG-17", "RF-10"), None, subject)
    text = f"The cursor of {subject.name} has passed {label}; only a release or a freed group sets it back."
    return Reason(text, ("MG-10", "MG-11", "RF-10"), None, subject)
