"""Consumers: why one gets nothing, or nothing more, at an instant."""

from __future__ import annotations

from qflow.broker.queue import Queue
from qflow.broker.queued_message import ACQUIRED, AVAILABLE, QueuedMessage
from qflow.broker.session import Session
from qflow.broker.subscription import Subscription
from qflow.trace.explain.credit import has_credit, no_credit
from qflow.trace.explain.explanation import Reason, Subject
from qflow.trace.explain.instant import Instant, counted
from qflow.trace.explain.refusals import refused
from qflow.trace.explain.wake_up import not_woken, would_take
from qflow.trace.explain.work import consumer_name, consumer_subject, unsettled, work

_READER_LIMIT = 3
_SIGNIFICANT = 3


def explain_consumer(instant: Instant, name: str) -> Reason:
    """Say what a consumer is doing, and why it is not given more."""
    pair = find(instant, name)
    if pair is None:
        return _absent(instant, name)
    session, subscription = pair
    subject = consumer_subject(session, subscription)
    reason = nothing_more(instant, session, subscription)
    count = len(unsettled(session, subscription.name))
    queue = subscription.queue.name
    if count:
        text = f"{subject.name} is busy: it holds {counted(count, 'message')} of {queue}."
        held = work(instant, session, subscription)
        return Reason(text, ("CN-10",), held[0].row, subject, (*held[0].because, _without_work(reason)))
    kind = "consumer" if subscription.acquires else "browser"
    return Reason(f"{subject.name} is an idle {kind} of {queue}.", ("CN-19",), reason.row, subject, (reason,))


def _without_work(reason: Reason) -> Reason:
    """Return a reason without what has been said already: the work."""
    own = reason.subject
    kept = tuple(item for item in reason.because if item.rules != ("CN-10",) or item.subject != own)
    return Reason(reason.text, reason.rules, reason.row, reason.subject, kept)


def find(instant: Instant, name: str) -> tuple[Session, Subscription] | None:
    """Return a consumer by its name, if it is subscribed now."""
    for session, subscription in instant.subscriptions():
        if consumer_name(session.name, subscription.name) == name:
            return session, subscription
    return None


def nothing_more(instant: Instant, session: Session, subscription: Subscription) -> Reason:
    """Say why a subscription is given no message now: credit, nothing there, groups, or not woken."""
    reason = no_credit(instant, session, subscription)
    if reason is not None:
        return reason
    queue = subscription.queue
    available = [message for message in queue.store if message.state == AVAILABLE]
    if not available:
        return _nothing_available(instant, session, subscription)
    refusals = []
    for message in available:
        refusal = refused(instant, session, subscription, message)
        if refusal is None:
            return not_woken(instant, session, subscription)
        refusals.append(refusal)
        if len(refusals) == _SIGNIFICANT:
            break
    return _all_refused(instant, session, subscription, available, refusals)


def _all_refused(
    instant: Instant,
    session: Session,
    subscription: Subscription,
    available: list[QueuedMessage],
    refusals: list[Reason],
) -> Reason:
    """Say that nothing there is for this subscription, after trying it out on a twin."""
    if len(available) > len(refusals) and would_take(instant, session, subscription) is not None:
        return not_woken(instant, session, subscription)
    subject = consumer_subject(session, subscription)
    none = (
        f"have none of the {len(available)} messages" if len(available) > 1 else "not have the only message"
    )
    text = f"{subject.name} has {has_credit(subscription)}, but may {none} available."
    distinct = {refusal.because or refusal.text: refusal for refusal in refusals}
    row = instant.last("idle", "link", subscription.owner)
    return Reason(text, ("CN-21",), row, subject, tuple(distinct.values()))


def _nothing_available(instant: Instant, session: Session, subscription: Subscription) -> Reason:
    subject, queue = consumer_subject(session, subscription), subscription.queue
    row = instant.last("idle", "link", subscription.owner)
    text = f"{subject.name} has {has_credit(subscription)}, but {queue.name} has no message available"
    if not queue.message_depth:
        row_next = instant.next("enqueued", "queue", queue.name)
        later = (
            f"the next, {instant.trace.message[row_next]}, comes at {instant.when(row_next)}"
            if row_next is not None
            else f"none comes before the trace ends at {instant.trace_end}"
        )
        root = Reason(f"{queue.name} is empty; {later}.", ("CN-19",), row_next, Subject("queue", queue.name))
        return Reason(f"{text}.", ("CN-19", "CN-21"), row, subject, (root,))
    count = counted(queue.message_depth, "message")
    others = [pair for pair in instant.readers(queue) if pair[1] is not subscription]
    because = tuple(item for pair in others[:_READER_LIMIT] for item in work(instant, *pair))
    text = f"{text}: its {count} {'is' if queue.message_depth == 1 else 'are'} acquired already."
    return Reason(text, ("CN-10", "CN-19"), row, subject, because)


# Consumers that are not there


def _absent(instant: Instant, name: str) -> Reason:
    subject = Subject("consumer", name)
    session, _, tag = name.partition("/")
    rows = _subscribe_rows(instant, session, tag or session)
    past = [row for row in rows if row <= instant.end]
    if past:
        ended = _end_of(instant, session, tag or session)
        when = f" at {instant.when(ended)}, when {instant.cause(ended)}" if ended is not None else ""
        return Reason(f"The subscription of {name} ended{when}.", ("CN-17",), ended, subject)
    if rows:
        text = f"{name} has not subscribed yet; it does at {instant.when(rows[0])}, by its own decision."
        return Reason(text, ("CN-01",), rows[0], subject)
    return Reason(
        f"{name} does not subscribe before the trace ends at {instant.trace_end}.", ("CN-01",), None, subject
    )


def _subscribe_rows(instant: Instant, session: str, tag: str) -> list[int]:
    rows = instant.index.rows("subscribe", "session", session)
    return [row for row in rows if instant.trace.link[row] == tag]


def _end_of(instant: Instant, session: str, tag: str) -> int | None:
    rows = instant.index.rows("unsubscribe", "session", session)
    return next((r for r in reversed(rows) if r <= instant.end and instant.trace.link[r] == tag), None)


# All consumers of a queue


def readers_of(instant: Instant, queue: Queue) -> list[tuple[Session, Subscription]]:
    """Return the subscriptions that acquire from a queue; browsers take nothing off it."""
    return [pair for pair in instant.readers(queue) if pair[1].acquires]


def readers(instant: Instant, queue: Queue) -> tuple[Reason, ...]:
    """Say for each consumer of a queue why it takes nothing more, or that there is none."""
    pairs = readers_of(instant, queue)
    if not pairs:
        return (no_reader(instant, queue),)
    reasons = [_reader(instant, *pair) for pair in pairs[:_READER_LIMIT]]
    if len(pairs) > _READER_LIMIT:
        more = counted(len(pairs) - _READER_LIMIT, "more consumer")
        reasons.append(Reason(f"{queue.name} has {more}.", ("CN-19",), None, Subject("queue", queue.name)))
    return tuple(reasons)


def _reader(instant: Instant, session: Session, subscription: Subscription) -> Reason:
    held = work(instant, session, subscription)
    reason = nothing_more(instant, session, subscription)
    if held and not any(item.rules == ("CN-10",) for item in reason.because):
        return Reason(reason.text, reason.rules, reason.row, reason.subject, (*reason.because, *held))
    return reason


def no_reader(instant: Instant, queue: Queue) -> Reason:
    """Say that a queue has no consumer, and when one comes."""
    subject = Subject("queue", queue.name)
    later = instant.next("subscribe", "queue", queue.name)
    if later is not None:
        name = consumer_name(instant.trace.session[later], instant.trace.link[later])
        at = f"{name} subscribes at {instant.when(later)}, by its own decision"
        text = f"Nobody consumes from {queue.name} until {at}."
        return Reason(text, ("CN-01",), later, Subject("consumer", name))
    text = f"Nobody consumes from {queue.name}, and nobody will before the trace ends at {instant.trace_end}."
    held = [message.transfer.label for message in queue.store if message.state == ACQUIRED]
    if held:
        text = f"No consumer of {queue.name} is left; {counted(len(held), 'message')} of it stays acquired."
    return Reason(text, ("CN-17",) if held else ("CN-01",), None, subject)
