"""Consumers: why one gets nothing, or nothing more, at an instant; and who owns a group.

Most chains end here, in what a consumer is working on, as no broker decides when it settles (:func:`work`).
Otherwise a subscription gets no message for one of these reasons, asked in the broker's own order (RF-07):

- it has no credit, in messages or bytes (:func:`no_credit`);
- there is no message available, or none that it may have (:func:`explain_refusal`): expired, refused by
  its selector, passed by its cursor, too large, or of a group that another consumer owns;
- there is one that it could have at once, but nothing has woken it since (MG-13).
"""

from __future__ import annotations

from qflow.broker.consuming import (
    BYTE_UNIT,
    CREDIT_MODE,
    INFINITE,
    MESSAGE_UNIT,
    DeliveryRecord,
    Subscription,
    get_next_message,
)
from qflow.broker.groups import GroupState
from qflow.broker.message import ACQUIRED, AVAILABLE, QueuedMessage
from qflow.broker.queue import Queue
from qflow.broker.session import Session
from qflow.trace.explain.chain import Reason, Subject
from qflow.trace.explain.instant import REASONS, Instant
from qflow.wording import format_count, format_names

UNITS = {MESSAGE_UNIT: "message", BYTE_UNIT: "byte"}
_READER_LIMIT = 3
_SIGNIFICANT = 3


def explain_consumer(instant: Instant, name: str) -> Reason:
    """Say what a consumer is doing, and why it is not given more."""
    subject = Subject("consumer", name)
    found = (pair for pair in instant.subscriptions() if _consumer_subject(*pair) == subject)
    session, subscription = next(found, (None, None))
    if session is None or subscription is None:
        return _explain_absent_consumer(instant, name)
    reason = _nothing_more(instant, session, subscription)
    count = len(_list_unsettled(session, subscription.name))
    queue = subscription.queue.name
    if count:
        text = f"{subject.name} is busy: it holds {format_count(count, 'message')} of {queue}."
        held = work(instant, session, subscription)
        return Reason(text, ("CN-10",), held[0].row, subject, (*held[0].because, _without_work(reason)))
    kind = "consumer" if subscription.acquires else "browser"
    return Reason(f"{subject.name} is an idle {kind} of {queue}.", ("CN-19",), reason.row, subject, (reason,))


def _without_work(reason: Reason) -> Reason:
    """Return a reason without what has been said already: the work."""
    own = reason.subject
    kept = tuple(item for item in reason.because if item.rules != ("CN-10",) or item.subject != own)
    return Reason(reason.text, reason.rules, reason.row, reason.subject, kept)


def _nothing_more(instant: Instant, session: Session, subscription: Subscription) -> Reason:
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
        refusal = explain_refusal(instant, session, subscription, message)
        if refusal is None:
            return explain_missed_wake_up(instant, session, subscription)
        refusals.append(refusal)
        if len(refusals) == _SIGNIFICANT:
            break
    return _explain_refusals(instant, session, subscription, available, refusals)


def _explain_refusals(
    instant: Instant,
    session: Session,
    subscription: Subscription,
    available: list[QueuedMessage],
    refusals: list[Reason],
) -> Reason:
    """Say that nothing there is for this subscription, after trying it out on a twin."""
    if len(available) > len(refusals) and _would_take(instant, session, subscription) is not None:
        return explain_missed_wake_up(instant, session, subscription)
    subject = _consumer_subject(session, subscription)
    none = (
        f"have none of the {len(available)} messages" if len(available) > 1 else "not have the only message"
    )
    text = f"{subject.name} has {_has_credit(subscription)}, but may {none} available."
    distinct: dict[object, Reason] = {}
    for refusal in refusals:
        distinct.setdefault(refusal.because or refusal.text, refusal)
    row = instant.last("idle", "link", subscription.owner)
    return Reason(text, ("CN-21",), row, subject, tuple(distinct.values()))


def _nothing_available(instant: Instant, session: Session, subscription: Subscription) -> Reason:
    subject, queue = _consumer_subject(session, subscription), subscription.queue
    row = instant.last("idle", "link", subscription.owner)
    text = f"{subject.name} has {_has_credit(subscription)}, but {queue.name} has no message available"
    if not queue.message_depth:
        row_next = instant.next("enqueued", "queue", queue.name)
        later = (
            f"the next, {instant.label(row_next)}, comes at {instant.when(row_next)}"
            if row_next is not None
            else f"none comes before the trace ends at {instant.trace_end}"
        )
        root = Reason(f"{queue.name} is empty; {later}.", ("CN-19",), row_next, Subject("queue", queue.name))
        return Reason(f"{text}.", ("CN-19", "CN-21"), row, subject, (root,))
    count = format_count(queue.message_depth, "message")
    others = [pair for pair in instant.readers(queue) if pair[1] is not subscription]
    because = tuple(item for pair in others[:_READER_LIMIT] for item in work(instant, *pair))
    text = f"{text}: its {count} {'is' if queue.message_depth == 1 else 'are'} acquired already."
    return Reason(text, ("CN-10", "CN-19"), row, subject, because)


# Consumers that are not there


def _explain_absent_consumer(instant: Instant, name: str) -> Reason:
    subject = Subject("consumer", name)
    session, _, tag = name.partition("/")
    tag = tag or session
    if instant.last("subscribe", "session", session, link=tag) is not None:
        ended = instant.last("unsubscribe", "session", session, link=tag)
        when = f" at {instant.moment(ended)}" if ended is not None else ""
        return Reason(f"The subscription of {name} ended{when}.", ("CN-17",), ended, subject)
    row = instant.next("subscribe", "session", session, link=tag)
    if row is not None:
        text = f"{name} has not subscribed yet; it does at {instant.when(row)}, by its own decision."
        return Reason(text, ("CN-01",), row, subject)
    return Reason(
        f"{name} does not subscribe before the trace ends at {instant.trace_end}.", ("CN-01",), None, subject
    )


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
        more = format_count(len(pairs) - _READER_LIMIT, "more consumer")
        reasons.append(Reason(f"{queue.name} has {more}.", ("CN-19",), None, Subject("queue", queue.name)))
    return tuple(reasons)


def _reader(instant: Instant, session: Session, subscription: Subscription) -> Reason:
    held = work(instant, session, subscription)
    reason = _nothing_more(instant, session, subscription)
    if held and not any(item.rules == ("CN-10",) for item in reason.because):
        return Reason(reason.text, reason.rules, reason.row, reason.subject, (*reason.because, *held))
    return reason


def no_reader(instant: Instant, queue: Queue) -> Reason:
    """Say that a queue has no consumer, and when one comes."""
    subject = Subject("queue", queue.name)
    later = instant.next("subscribe", "queue", queue.name)
    if later is not None:
        name = _consumer_name(instant.trace.session[later], instant.trace.link[later])
        at = f"{name} subscribes at {instant.when(later)}, by its own decision"
        text = f"{queue.name} has no consumer until {at}."
        return Reason(text, ("CN-01",), later, Subject("consumer", name))
    text = f"{queue.name} has no consumer, and gets none before the trace ends at {instant.trace_end}."
    held = [message.transfer.label for message in queue.store if message.state == ACQUIRED]
    if held:
        text = (
            f"No consumer of {queue.name} is left; {format_count(len(held), 'message')} of it stays acquired."
        )
    return Reason(text, ("CN-17",) if held else ("CN-01",), None, subject)


# What a consumer is working on

_OWN_ACTS = {
    "message.accept": "accepts it",
    "message.release": "releases it",
    "message.reject": "rejects it",
    "session.detach": "ends its session",
    "tx.commit": "commits its transaction",
}
_SETTLED_BY = {"dequeued": ("CN-13",), "requeued": ("CN-14",)}


def _consumer_subject(session: Session, subscription: Subscription) -> Subject:
    return Subject("consumer", _consumer_name(session.name, subscription.name))


def _consumer_name(session: str, tag: str) -> str:
    """Return a subscription's name: the session's, unless the tag says more."""
    return session if session == tag else f"{session}/{tag}"


def _list_unsettled(session: Session, tag: str) -> list[DeliveryRecord]:
    """Return what a subscription was given and has to settle, oldest first."""
    given = [record for record in session.consuming.records.values() if record.tag == tag]
    return [r for r in given if r.is_acquired and not r.is_ended and r.message.state == ACQUIRED]


def work(instant: Instant, session: Session, subscription: Subscription) -> tuple[Reason, ...]:
    """Say what a subscription holds and until when it works on the oldest; nothing if it holds none."""
    records = _list_unsettled(session, subscription.name)
    if not records:
        return ()
    subject = _consumer_subject(session, subscription)
    name, queue = subject.name, subscription.queue.name
    labels = [record.label for record in records]
    row = instant.about(labels[0], "delivered", queue)
    holds = f"{name} holds {format_count(len(labels), 'message')} of {queue}: {format_names(labels)}."
    settled = settlement(instant, subscription.queue, labels[0], name, session.name)
    return (Reason(holds, ("CN-10",), row[-1] if row else None, subject, (settled,)),)


def settlement(instant: Instant, queue: Queue, label: str, name: str, session: str) -> Reason:
    """Say how and when an acquired message is settled, or that the trace does not show it."""
    subject = Subject("message", label)
    found = [(instant.later_about(label, kind, queue.name), kind) for kind in _SETTLED_BY]
    row, kind = min(
        (pair for pair in found if pair[0] is not None), default=(None, ""), key=lambda p: p[0] or 0
    )
    if row is None:
        text = f"{name} works on {label}, which is not settled before the trace ends at {instant.trace_end}."
        given = instant.about(label, "delivered", queue.name) or instant.about(label, "acquired", queue.name)
        return Reason(text, ("CN-13",), given[-1] if given else None, subject)
    command = instant.command_of(row)
    act = _OWN_ACTS.get(instant.trace.kind[command])
    if act is not None and instant.trace.session[command] == session:
        text = f"{name} works on {label} until {instant.when(row)}, when it {act}: its own decision."
    else:
        rules, words = REASONS.get(str(instant.detail(row).get("reason", "")), (_SETTLED_BY[kind], ""))
        why = f": {words}" if words else ""
        text = f"{name} works on {label} until {instant.moment(row)}{why}."
        return Reason(text, rules, row, subject)
    return Reason(text, _SETTLED_BY[kind], row, subject)


# Credit


def no_credit(instant: Instant, session: Session, subscription: Subscription) -> Reason | None:
    """Say which credit is missing, and where it went; None if there is some of both (CN-05)."""
    if subscription.credit.exists():
        return None
    unit = MESSAGE_UNIT
    if subscription.credit.balance(MESSAGE_UNIT).allows(1):
        unit = BYTE_UNIT
    return _missing(instant, session, subscription, unit)


def _too_little(
    instant: Instant, session: Session, subscription: Subscription, label: str, size: int
) -> Reason:
    """Say that there is credit, but not enough for one message (CN-05, CN-08)."""
    subject = _consumer_subject(session, subscription)
    balance = subscription.credit.balance(BYTE_UNIT)
    left = balance.granted - balance.used
    text = f"{subject.name} has {left} bytes of credit left, and {label} needs {size}."
    row = instant.last("out_of_credit", "link", subscription.owner)
    return Reason(text, ("CN-05", "CN-08"), row, subject, work(instant, session, subscription))


def _has_credit(subscription: Subscription) -> str:
    """Say how much credit a subscription has; bytes only if they are limited."""
    shown = []
    for unit, noun in UNITS.items():
        balance = subscription.credit.balance(unit)
        if balance.granted != INFINITE:
            # What is left of it (RF-09).
            shown.append(format_count(balance.granted - balance.used, noun))
    return f"credit for {' and '.join(shown)}" if shown else "unlimited credit"


def _missing(instant: Instant, session: Session, subscription: Subscription, unit: int) -> Reason:
    subject, noun, tag = _consumer_subject(session, subscription), UNITS[unit], subscription.name
    balance = subscription.credit.balance(unit)
    row = instant.last("out_of_credit", "link", subscription.owner)
    if balance.granted:
        text = f"{subject.name} has no {noun} credit: {_window(session, subscription, unit)}."
        held = work(instant, session, subscription)
        if not held:
            held = (_only_completion(instant, subject, session.name),)
        return Reason(text, ("CN-06", "CN-05"), row, subject, held)
    ends = [instant.last(f"message.{act}", "session", session.name, link=tag) for act in ("stop", "flush")]
    taken = max((row for row in ends if row is not None), default=None)
    granted = _find_grant(instant, session.name, tag, unit)
    if granted is None:
        text = f"{subject.name} has never been granted any {noun} credit."
        row = instant.last("subscribe", "link", subscription.name)
        return Reason(text, ("CN-03", "CN-05"), row, subject)
    if taken is not None and taken > granted:
        kind = instant.trace.kind[taken]
        text = f"{subject.name} has no {noun} credit: {kind} took it away at {instant.when(taken)}."
        return Reason(text, ("CN-07",), taken, subject)
    if subscription.credit.mode == CREDIT_MODE:
        text = f"{subject.name} has spent all its {noun} credit; in credit mode nothing comes back by itself."
        return Reason(text, ("CN-06", "CN-05"), row, subject, work(instant, session, subscription))
    text = f"{subject.name} has no {noun} credit in window mode; each mode has its own balances."
    return Reason(text, ("CN-04", "CN-05"), row, subject)


def _window(session: Session, subscription: Subscription, unit: int) -> str:
    """Say what fills a window: what the subscription holds, and what it has settled and not completed."""
    balance, noun = subscription.credit.balance(unit), UNITS[unit]
    records = [record for record in _list_unsettled(session, subscription.name) if not record.is_completed]
    held = len(records) if unit == MESSAGE_UNIT else sum(record.size for record in records)
    more = balance.used - held
    if more <= 0 or not subscription.acquires:
        return f"{balance.used} of {balance.granted} {noun}s of its window are delivered and not completed"
    are = "is" if more == 1 else "are"
    return (
        f"it holds {held} of {balance.granted} {noun}s of its window, and {more} more {are} delivered "
        "and not completed"
    )


def _only_completion(instant: Instant, subject: Subject, session: str) -> Reason:
    """Say that settling is not completing, and when the client completes."""
    text = f"{subject.name} has nothing left to settle, but only session.completed moves its window on"
    row = instant.next("session.completed", "session", session)
    later = (
        f"it sends that at {instant.when(row)}"
        if row is not None
        else "it sends none in the rest of the trace"
    )
    return Reason(f"{text}; {later}.", ("CN-06", "RF-04"), row, subject)


def _find_grant(instant: Instant, session: str, tag: str, unit: int) -> int | None:
    for row in reversed(instant.index.rows("message.flow", "session", session)):
        if row <= instant.end and instant.trace.link[row] == tag and instant.detail(row)["unit"] == unit:
            return row
    return None


# What it may have


def explain_refusal(
    instant: Instant, session: Session, subscription: Subscription, message: QueuedMessage
) -> Reason | None:
    """Say why a subscription with credit may not have an AVAILABLE message; None if it may (RF-07)."""
    queue, transfer, label = subscription.queue, message.transfer, message.transfer.label
    subject = _consumer_subject(session, subscription)
    if transfer.is_expired(instant.broker.now):
        return explain_expiry(label)
    selector = subscription.selector
    epoch = queue.context.start_time
    if selector is not None and not selector.matches(transfer, message.delivery_count, epoch):
        text = f"The selector of {subject.name}, {selector.expression}, refuses {label}."
        row = instant.last("subscribe", "link", subscription.name)
        return Reason(text, ("CN-21",), row, subject)
    # A cursor passes a message for good (RF-10); what is of a group only its owner may have (MG-07).
    is_passed = queue.store.has_passed(subscription.cursor, message)
    is_anothers = subscription.acquires and not queue.distributor.may_acquire(subscription.owner, message)
    if is_passed and not is_anothers:
        return _explain_passing(instant, subject, subscription, message)
    if not is_passed and not subscription.credit.allows(transfer.size):
        return _too_little(instant, session, subscription, label, transfer.size)
    if not is_anothers:
        return None
    assert queue.groups is not None, "only groups refuse"
    why = _explain_owner(instant, queue, queue.groups.groups[message.group])
    text = f"{label} is of group {message.group}, which is not {subject.name}'s."
    return Reason(text, ("MG-12", "MG-07"), why.row, Subject("message", label), (why,))


def explain_expiry(label: str) -> Reason:
    """Say that a message has expired, and is still there only because no one has looked at it."""
    text = f"The time to live of {label} is over; the next look at it removes it."
    return Reason(text, ("QT-07", "MG-21"), None, Subject("message", label))


def _explain_passing(
    instant: Instant, subject: Subject, subscription: Subscription, message: QueuedMessage
) -> Reason:
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


def _would_take(instant: Instant, session: Session, subscription: Subscription) -> str | None:
    """Return what a subscription would get if it were woken now; a copy of the engine is asked."""
    twin = instant.twin().sessions[session.name].consuming.subscriptions[subscription.name]
    message = get_next_message(twin.queue, twin)
    return None if message is None else message.transfer.label


def explain_missed_wake_up(instant: Instant, session: Session, subscription: Subscription) -> Reason:
    """Say that a subscription could have a message at once, but was not woken, and why (MG-13)."""
    subject, queue = _consumer_subject(session, subscription), subscription.queue
    label = _would_take(instant, session, subscription)
    if label is None:
        text = f"{subject.name} has {_has_credit(subscription)}, but finds nothing that it may have."
        return Reason(text, ("CN-21",), instant.last("idle", "link", subscription.owner), subject)
    text = f"{subject.name} has {_has_credit(subscription)} and {label} is free for it, but nothing woke it."
    message = instant.find_queued(queue, label)
    group = message.group if message is not None else ""
    idle = instant.last("idle", "link", subscription.owner)
    because = (
        _why_not_woken(instant, subscription, group, idle),
        _what_wakes(instant, session, subscription),
    )
    return Reason(text, ("MG-13", "CN-19"), because[0].row, subject, because)


def _why_not_woken(instant: Instant, subscription: Subscription, group: str, idle: int | None) -> Reason:
    queue = subscription.queue
    row = instant.last("group_freed", "queue", queue.name, group=group)
    if row is not None and row > (idle or -1):
        text = (
            f"Group {group} became free at {instant.moment(row)}: that resets cursors, but wakes no consumer."
        )
        return Reason(text, ("MG-13", "RF-17"), row, _group_subject(instant, queue.name, group))
    subject, name = Subject("queue", queue.name), instant.show(subscription.owner)
    if not subscription.is_listening and not subscription.is_blocked:
        text = f"A wake-up took {name} off the waiting list of {queue.name}, then went to another instead."
        return Reason(text, ("RF-07",), idle, subject)
    since = f" since {instant.when(idle)}" if idle is not None else ""
    text = (
        f"{name} is in the waiting list of {queue.name}{since}; an enqueue, a release or a cancel wakes "
        "from there, a grant of credit does not."
    )
    return Reason(text, ("RF-08", "CN-19"), idle, subject)


def _what_wakes(instant: Instant, session: Session, subscription: Subscription) -> Reason:
    subject = _consumer_subject(session, subscription)
    row = instant.next("delivered", "session", session.name, link=subscription.name)
    if row is None:
        text = f"Nothing wakes {subject.name} before the trace ends at {instant.trace_end}."
        return Reason(text, ("CN-19",), None, subject)
    text = f"{subject.name} gets {instant.label(row)} at {instant.moment(row)}."
    return Reason(text, ("CN-19",), row, subject)


# Groups


def _explain_owner(instant: Instant, queue: Queue, state: GroupState) -> Reason:
    """Say who owns a group, and what has to happen before it is free."""
    subject = _group_subject(instant, queue.name, state.name)
    owner = instant.show(state.owner)
    row = instant.last("group_owned", "queue", queue.name, group=state.name)
    first = _find_first_of_group(instant, row)
    since = f" since {instant.when(row)}" if row is not None else ""
    text = f"Group {state.name} of {queue.name} has belonged to {owner}{since}, when it acquired {first}."
    return Reason(text, ("MG-07",), row, subject, (_what_frees(instant, queue, state),))


def _group_subject(instant: Instant, queue: str, group: str) -> Subject:
    is_alone = sum(name == group for _, name in instant.index.groups) == 1
    return Subject("group", group if is_alone else f"{queue}/{group}")


def _find_first_of_group(instant: Instant, row: int | None) -> str:
    """Return the label of the message whose acquisition made a group owned."""
    while row is not None and row <= instant.end:
        if instant.trace.kind[row] == "acquired":
            return instant.label(row)
        row += 1
    return "its first message"


def _what_frees(instant: Instant, queue: Queue, state: GroupState) -> Reason:
    """Say which acquired messages keep the group owned, and when the last of them is settled."""
    labels = [m.transfer.label for m in state.members.values() if m.state == ACQUIRED]
    owner = instant.show(state.owner)
    held = f"{owner} holds {format_names(labels)} of it, and owns it until none is left acquired"
    subject = Subject("message", labels[0]) if labels else _group_subject(instant, queue.name, state.name)
    row = instant.next("group_freed", "queue", queue.name, group=state.name)
    if row is None:
        pair = instant.owner(state.owner)
        session = pair[0].name if pair is not None else state.owner.partition("::")[0]
        rest = tuple(settlement(instant, queue, label, owner, session) for label in labels[:1])
        rest = _explain_departure(instant, queue, state) or rest
        text = f"{held}; the trace, which ends at {instant.trace_end}, does not show that."
        return Reason(text, ("MG-08", "MG-09"), None, subject, rest)
    text = f"{held}: that is at {instant.moment(row)}."
    return Reason(text, ("MG-08", "MG-09"), row, subject, _explain_departure(instant, queue, state))


def _explain_departure(instant: Instant, queue: Queue, state: GroupState) -> tuple[Reason, ...]:
    """Say it if the owner is a name only: its subscription has ended (MG-15)."""
    session, separator, tag = state.owner.partition("::")
    if not separator:
        text = f"The owner {state.owner!r} is a bare tag: the message was browsed, then acquired by name."
        return (Reason(text, ("MG-15",), None, _group_subject(instant, queue.name, state.name)),)
    if instant.owner(state.owner) is not None:
        return ()
    row = instant.last("unsubscribe", "link", tag)
    text = (
        f"The subscription {instant.show(state.owner)} has ended, but its messages stay acquired and the "
        f"group stays its own until session {session} settles them or ends."
    )
    return (Reason(text, ("MG-15", "CN-17"), row, Subject("consumer", instant.show(state.owner))),)


def _explain_freeing(instant: Instant, queue: Queue, group: str) -> Reason | None:
    """Say what made a group free the last time, or None if it never had an owner."""
    row = instant.last("group_freed", "queue", queue.name, group=group)
    if row is None:
        return None
    owner = instant.show(instant.trace.link[row])
    subject = _group_subject(instant, queue.name, group)
    text = f"Group {group} was {owner}'s until {instant.moment(row)}."
    dropped = instant.last("dequeued", "queue", queue.name, until=row)
    if dropped is not None and instant.detail(dropped)["reason"] == "ring":
        label = instant.label(dropped)
        ring = f"The ring dropped {label}, on which {owner} was still at work."
        because = (Reason(ring, ("MG-20", "LP-10"), dropped, Subject("message", label)),)
        return Reason(text, ("MG-08", "MG-20"), row, subject, because)
    return Reason(text, ("MG-08",), row, subject)


def explain_group(instant: Instant, queue_name: str, group: str) -> Reason:
    """Say who owns a group, or why it has no owner."""
    subject = _group_subject(instant, queue_name, group)
    queue = instant.queue(queue_name)
    state = queue.groups.groups.get(group) if queue is not None and queue.groups is not None else None
    if queue is None or state is None:
        return _no_such_group(instant, queue_name, group, subject)
    if state.owner:
        return _explain_owner(instant, queue, state)
    count = format_count(len(state.members), "message")
    before = _explain_freeing(instant, queue, group)
    text = (
        f"Group {group} of {queue_name} has no owner: none of its {count} is acquired."
        if len(state.members) > 1
        else f"Group {group} of {queue_name} has no owner: its only message is not acquired."
    )
    because = () if before is None else (before,)
    return Reason(text, ("MG-06", "MG-07"), before.row if before else None, subject, because)


def _no_such_group(instant: Instant, queue: str, group: str, subject: Subject) -> Reason:
    found = instant.queue(queue)
    if found is not None and found.groups is None:
        row = instant.last("queueDeclare", "queue", queue)
        text = f"{queue} knows no groups: it is declared without qpid.group_header_key."
        return Reason(text, ("MG-01",), row, subject)
    row = instant.last("dequeued", "queue", queue, group=group)
    if row is not None:
        text = (
            f"Group {group} has no message on {queue} and so does not exist: the last, "
            f"{instant.label(row)}, left at {instant.moment(row)}."
        )
        return Reason(text, ("MG-06",), row, subject)
    row = instant.next("enqueued", "queue", queue, group=group)
    text = f"Group {group} has no message on {queue} yet"
    if row is None:
        return Reason(f"{text}.", ("MG-06",), None, subject)
    text = f"{text}: the first, {instant.label(row)}, comes at {instant.when(row)}."
    return Reason(text, ("MG-06",), row, subject)
