"""Explanations of consumers: why a consumer gets no message, or no more, and who owns a message group.

Most explanations end here, with the messages that a consumer is processing, because the consumer and not the
broker decides when it settles them (:meth:`Subscriber.explain_work`).  Otherwise a subscription gets no
message for one of these reasons, checked in the broker's own order (RF-07):

- it has no credit, in messages or bytes (:meth:`Subscriber.explain_no_credit`);
- no message is available, or the subscription may have none of those (:meth:`Subscriber.explain_refusal`),
  because each is expired, refused by the selector, behind the cursor, larger than the credit, or in a group
  that another consumer owns;
- it could have a message at once, but nothing has woken it since (MG-13).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

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
from qflow.trace.explain.instant import ACTS, REASONS, Instant, name_consumer
from qflow.wording import format_count, format_names

_UNITS = {MESSAGE_UNIT: "message", BYTE_UNIT: "byte"}
_READER_LIMIT = 3
_SIGNIFICANT = 3


def explain_consumer(instant: Instant, name: str) -> Reason:
    """Explain which messages a consumer is processing, and why it gets no more."""
    pairs = (Subscriber(instant, *pair) for pair in instant.subscriptions())
    reader = next((reader for reader in pairs if reader.name == name), None)
    return _explain_absent_consumer(instant, name) if reader is None else reader.explain()


class Subscriber:
    """A subscription at an instant, which explains its deliveries and why it gets no more."""

    def __init__(self, instant: Instant, session: Session, subscription: Subscription) -> None:
        self.instant, self.session, self.subscription = instant, session, subscription
        self.queue = subscription.queue
        self.name = name_consumer(session.name, subscription.name)

    def _say(self, text: str, rules: tuple[str, ...], row: int | None, *because: Reason) -> Reason:
        return Reason(text, rules, row, Subject("consumer", self.name), because)

    def _last(self, kind: str) -> int | None:
        """Return the index of the last row of a kind that names this subscription as owner, or None."""
        return self.instant.last(kind, "link", self.subscription.owner)

    def explain(self) -> Reason:
        """Explain why the consumer is busy or idle."""
        reason = self._explain_nothing_more()
        count = len(self._list_unsettled())
        if not count:
            kind = "consumer" if self.subscription.acquires else "browser"
            return self._say(
                f"{self.name} is an idle {kind} of {self.queue.name}.", ("CN-19",), reason.row, reason
            )
        text = f"{self.name} is busy: it holds {format_count(count, 'message')} of {self.queue.name}."
        (held,) = self.explain_work()
        # The text above states the messages it holds, so that is not repeated as a reason.
        kept = [item for item in reason.because if item.rules != ("CN-10",) or item.subject != reason.subject]
        return self._say(text, ("CN-10",), held.row, *held.because, replace(reason, because=tuple(kept)))

    def explain_more(self) -> Reason:
        """Explain why the consumer takes no more messages, and which ones it is processing."""
        reason, held = self._explain_nothing_more(), self.explain_work()
        if held and not any(item.rules == ("CN-10",) for item in reason.because):
            return replace(reason, because=(*reason.because, *held))
        return reason

    def _explain_nothing_more(self) -> Reason:
        """Explain why there is no next message: no credit, an empty queue, refusals, or a missed wake-up."""
        reason = self.explain_no_credit()
        if reason is not None:
            return reason
        available = [message for message in self.queue.store if message.state == AVAILABLE]
        if not available:
            return self._explain_nothing_available()
        refusals: list[Reason] = []
        for message in available[:_SIGNIFICANT]:
            refusal = self.explain_refusal(message)
            if refusal is None:
                return self.explain_missed_wake_up()
            refusals.append(refusal)
        # Further messages are not explained one by one: a copy of the engine shows whether it would get one.
        if len(available) > len(refusals) and self._find_next() is not None:
            return self.explain_missed_wake_up()
        many = len(available) > 1
        none = f"have none of the {len(available)} messages" if many else "not have the only message"
        text = f"{self.name} has {self._count_credit()}, but may {none} available."
        distinct: dict[object, Reason] = {}
        for refusal in refusals:
            distinct.setdefault(refusal.because or refusal.text, refusal)
        return self._say(text, ("CN-21",), self._last("idle"), *distinct.values())

    def _explain_nothing_available(self) -> Reason:
        instant, queue, row = self.instant, self.queue, self._last("idle")
        text = f"{self.name} has {self._count_credit()}, but {queue.name} has no message available"
        if not queue.message_depth:
            later = instant.next("enqueued", "queue", queue.name)
            comes = f"none comes before the trace ends at {instant.trace_end}"
            if later is not None:
                comes = f"the next, {instant.label(later)}, comes at {instant.when(later)}"
            root = Reason(f"{queue.name} is empty; {comes}.", ("CN-19",), later, Subject("queue", queue.name))
            return self._say(f"{text}.", ("CN-19", "CN-21"), row, root)
        count = format_count(queue.message_depth, "message")
        own = self.subscription
        others = [other for other in _subscribers(instant, queue) if other.subscription is not own]
        because = (item for other in others[:_READER_LIMIT] for item in other.explain_work())
        text = f"{text}: its {count} {'is' if queue.message_depth == 1 else 'are'} acquired already."
        return self._say(text, ("CN-10", "CN-19"), row, *because)

    # Messages in process

    def _list_unsettled(self) -> list[DeliveryRecord]:
        """Return the consumer's unsettled deliveries, oldest first."""
        records = self.session.consuming.records.values()
        given = [record for record in records if record.tag == self.subscription.name]
        # Delivery records stay until a command names them (RF-03). Some of them are of ended deliveries, or
        # of messages that a ring, a purge or a deletion has removed since.
        return [r for r in given if r.is_acquired and not r.is_ended and r.message.state == ACQUIRED]

    def explain_work(self) -> tuple[Reason, ...]:
        """Name the messages it holds, and when the oldest is settled; return () if it holds none."""
        labels = [record.label for record in self._list_unsettled()]
        if not labels:
            return ()
        row = max(self.instant.about(labels[0], "delivered", self.queue.name), default=None)
        count = format_count(len(labels), "message")
        text = f"{self.name} holds {count} of {self.queue.name}: {format_names(labels)}."
        settled = explain_settlement(self.instant, self.queue, labels[0], self.name, self.session.name)
        return (self._say(text, ("CN-10",), row, settled),)

    # Credit

    def explain_no_credit(self) -> Reason | None:
        """Explain why the credit is used up, or return None if credit is left in both units (CN-05)."""
        credit = self.subscription.credit
        if credit.exists():
            return None
        return self._explain_missing(BYTE_UNIT if credit.balance(MESSAGE_UNIT).allows(1) else MESSAGE_UNIT)

    def _count_credit(self) -> str:
        """Return the remaining credit in words (RF-09); a unit without limit is left out."""
        balances = [(self.subscription.credit.balance(unit), noun) for unit, noun in _UNITS.items()]
        left = [format_count(b.granted - b.used, noun) for b, noun in balances if b.granted != INFINITE]
        return f"credit for {' and '.join(left)}" if left else "unlimited credit"

    def _explain_missing(self, unit: int) -> Reason:
        instant, session, tag = self.instant, self.session.name, self.subscription.name
        name, noun, row = self.name, _UNITS[unit], self._last("out_of_credit")
        if self.subscription.credit.balance(unit).granted:
            text = f"{name} has no {noun} credit: {self._describe_window(unit)}."
            held = self.explain_work() or (self._explain_completion(),)
            return self._say(text, ("CN-06", "CN-05"), row, *held)
        ends = [instant.last(f"message.{act}", "session", session, link=tag) for act in ("stop", "flush")]
        taken = max((row for row in ends if row is not None), default=None)
        flows = reversed(instant.index.rows("message.flow", "session", session))
        own = (place for place in flows if place <= instant.end and instant.trace.link[place] == tag)
        granted = next((place for place in own if instant.detail(place)["unit"] == unit), None)
        if granted is None:
            text = f"{name} has never been granted any {noun} credit."
            return self._say(text, ("CN-03", "CN-05"), instant.last("subscribe", "link", tag))
        if taken is not None and taken > granted:
            kind = instant.trace.kind[taken]
            text = f"{name} has no {noun} credit: {kind} took it away at {instant.when(taken)}."
            return self._say(text, ("CN-07",), taken)
        if self.subscription.credit.mode == CREDIT_MODE:
            text = f"{name} has spent all its {noun} credit; in credit mode nothing comes back by itself."
            return self._say(text, ("CN-06", "CN-05"), row, *self.explain_work())
        text = f"{name} has no {noun} credit in window mode; each mode has its own balances."
        return self._say(text, ("CN-04", "CN-05"), row)

    def _describe_window(self, unit: int) -> str:
        """Return in words what fills the window: held messages, and settled but not completed ones."""
        balance, noun = self.subscription.credit.balance(unit), _UNITS[unit]
        records = [record for record in self._list_unsettled() if not record.is_completed]
        held = len(records) if unit == MESSAGE_UNIT else sum(record.size for record in records)
        # Settled but not yet completed messages: only the completion, which clients tend to forget, moves the
        # window.
        more = balance.used - held
        rest = "delivered and not completed"
        if more <= 0 or not self.subscription.acquires:
            return f"{balance.used} of {balance.granted} {noun}s of its window are {rest}"
        are = "is" if more == 1 else "are"
        return f"it holds {held} of {balance.granted} {noun}s of its window, and {more} more {are} {rest}"

    def _explain_completion(self) -> Reason:
        """Explain that only a completion moves the window, and when the client sends it."""
        row = self.instant.next("session.completed", "session", self.session.name)
        later = self.instant.when(row, "it sends that at {}") or "it sends none in the rest of the trace"
        text = f"{self.name} has nothing left to settle, but only session.completed moves its window on"
        return self._say(f"{text}; {later}.", ("CN-06", "RF-04"), row)

    # Refused messages

    def explain_refusal(self, message: QueuedMessage) -> Reason | None:
        """Explain why it may not have an AVAILABLE message, or return None if it may (RF-07)."""
        instant, queue, subscription = self.instant, self.queue, self.subscription
        transfer, label, selector = message.transfer, message.transfer.label, subscription.selector
        if transfer.is_expired(instant.broker.now):
            return explain_expiry(label)
        # Checked in the engine's own order (RF-07), because the first obstacle decides: a message that is
        # larger than the credit stops the consumer, even if another consumer owns the message's group.
        start = queue.context.start_time
        if selector is not None and not selector.matches(transfer, message.delivery_count, start):
            text = f"The selector of {self.name}, {selector.expression}, refuses {label}."
            return self._say(text, ("CN-21",), instant.last("subscribe", "link", subscription.name))
        # A cursor does not return to a message it has passed (RF-10); only a group's owner may have the
        # group's messages (MG-07).
        is_passed = queue.store.has_passed(subscription.cursor, message)
        is_anothers = subscription.acquires and not queue.distributor.may_acquire(subscription.owner, message)
        if is_passed and not is_anothers:
            return self._explain_passing(label)
        if not is_passed and not subscription.credit.allows(transfer.size):
            balance = subscription.credit.balance(BYTE_UNIT)
            left = balance.granted - balance.used
            text = f"{self.name} has {left} bytes of credit left, and {label} needs {transfer.size}."
            return self._say(text, ("CN-05", "CN-08"), self._last("out_of_credit"), *self.explain_work())
        if not is_anothers:
            return None
        assert queue.groups is not None, "only groups refuse"
        why = _explain_owner(instant, queue, queue.groups.groups[message.group])
        text = f"{label} is of group {message.group}, which is not {self.name}'s."
        return Reason(text, ("MG-12", "MG-07"), why.row, Subject("message", label), (why,))

    def _explain_passing(self, label: str) -> Reason:
        if self.subscription.acquires:
            text = (
                f"The cursor of {self.name} has passed {label}; only a release or a freed group sets it back."
            )
            return self._say(text, ("MG-10", "MG-11", "RF-10"), None)
        links = self.instant.trace.link
        rows = self.instant.about(label, "delivered", self.queue.name)
        shown = next((row for row in reversed(rows) if links[row] == self.subscription.name), None)
        text = f"The cursor of the browser {self.name} has passed {label}, and never goes back."
        if shown is not None:
            text = f"{self.name} has been shown {label} already, and a browser's cursor never goes back."
        return self._say(text, ("MG-17", "RF-10"), shown)

    def _find_next(self) -> str | None:
        """Return the label of the message that it would get if it were woken now, or None."""
        # Tried on a copy of the broker.
        twin = self.instant.twin().sessions[self.session.name].consuming.subscriptions[self.subscription.name]
        message = get_next_message(twin.queue, twin)
        return None if message is None else message.transfer.label

    def explain_missed_wake_up(self) -> Reason:
        """Explain that a message is ready for the consumer, but nothing has woken it (MG-13)."""
        instant, label, idle = self.instant, self._find_next(), self._last("idle")
        if label is None:
            text = f"{self.name} has {self._count_credit()}, but finds nothing that it may have."
            return self._say(text, ("CN-21",), idle)
        # The message was found by a copy of the engine and not by our own rules. If the copy finds none, the
        # sentence above states only what is certain.
        message = instant.find_queued(self.queue, label)
        why = self._explain_waiting(message.group if message is not None else "", idle)
        row = instant.next("delivered", "session", self.session.name, link=self.subscription.name)
        wakes = f"Nothing wakes {self.name} before the trace ends at {instant.trace_end}."
        if row is not None:
            wakes = f"{self.name} gets {instant.label(row)} at {instant.moment(row)}."
        text = f"{self.name} has {self._count_credit()} and {label} is free for it, but nothing woke it."
        return self._say(text, ("MG-13", "CN-19"), why.row, why, self._say(wakes, ("CN-19",), row))

    def _explain_waiting(self, group: str, idle: int | None) -> Reason:
        instant, queue, subscription = self.instant, self.queue, self.subscription
        row = instant.last("group_freed", "queue", queue.name, group=group)
        # The group was freed after the consumer looked: freeing a group wakes no consumer (MG-13).
        if row is not None and row > (idle or -1):
            freed = f"Group {group} became free at {instant.moment(row)}"
            text = f"{freed}: that resets cursors, but wakes no consumer."
            return Reason(text, ("MG-13", "RF-17"), row, _group_subject(instant, queue.name, group))
        subject, waiting = Subject("queue", queue.name), f"the waiting list of {queue.name}"
        if not subscription.is_listening and not subscription.is_blocked:
            text = f"A wake-up took {self.name} off {waiting}, then went to another instead."
            return Reason(text, ("RF-07",), idle, subject)
        text = (
            f"{self.name} is in {waiting}{instant.when(idle, ' since {}')}; an enqueue, a release or a "
            "cancel wakes from there, a grant of credit does not."
        )
        return Reason(text, ("RF-08", "CN-19"), idle, subject)


def explain_expiry(label: str) -> Reason:
    """Explain that a message has expired, and is removed when a consumer next reaches it."""
    text = f"The time to live of {label} is over; the next look at it removes it."
    return Reason(text, ("QT-07", "MG-21"), None, Subject("message", label))


_OWN_ACTS = ("message.accept", "message.release", "message.reject", "session.detach", "tx.commit")
_SETTLED_BY = {"dequeued": ("CN-13",), "requeued": ("CN-14",)}


def explain_settlement(instant: Instant, queue: Queue, label: str, name: str, session: str) -> Reason:
    """Explain when an acquired message is settled, or that the trace does not show its settlement."""
    subject = Subject("message", label)
    later = ((instant.later_about(label, kind, queue.name), kind) for kind in _SETTLED_BY)
    found = sorted((row, kind) for row, kind in later if row is not None)
    if not found:
        text = f"{name} works on {label}, which is not settled before the trace ends at {instant.trace_end}."
        given = instant.about(label, "delivered", queue.name) or instant.about(label, "acquired", queue.name)
        return Reason(text, ("CN-13",), max(given, default=None), subject)
    row, kind = found[0]
    command = instant.command_of(row)
    act = instant.trace.kind[command]
    # If the consumer's own session settled the message, that decision is the root cause. A ring, a purge or
    # another's deletion is named instead.
    if act in _OWN_ACTS and instant.trace.session[command] == session:
        _, does, rest = ACTS[act]
        when = f"{instant.when(row)}, when it {does}{rest.format(settled='it')}"
        text = f"{name} works on {label} until {when}: its own decision."
        return Reason(text, _SETTLED_BY[kind], row, subject)
    rules, words = REASONS.get(str(instant.detail(row).get("reason", "")), (_SETTLED_BY[kind], ""))
    text = f"{name} works on {label} until {instant.moment(row)}{words and f': {words}'}."
    return Reason(text, rules, row, subject)


def _explain_absent_consumer(instant: Instant, name: str) -> Reason:
    subject = Subject("consumer", name)
    session, _, tag = name.partition("/")
    tag = tag or session
    if instant.last("subscribe", "session", session, link=tag) is not None:
        ended = instant.last("unsubscribe", "session", session, link=tag)
        when = f" at {instant.moment(ended)}" if ended is not None else ""
        return Reason(f"The subscription of {name} ended{when}.", ("CN-17",), ended, subject)
    row = instant.next("subscribe", "session", session, link=tag)
    text = f"{name} does not subscribe before the trace ends at {instant.trace_end}."
    if row is not None:
        text = f"{name} has not subscribed yet; it does at {instant.when(row)}, by its own decision."
    return Reason(text, ("CN-01",), row, subject)


# All consumers of a queue


def readers_of(instant: Instant, queue: Queue) -> list[Subscriber]:
    """Return the subscriptions that acquire messages of a queue; browsers are left out."""
    return [reader for reader in _subscribers(instant, queue) if reader.subscription.acquires]


def _subscribers(instant: Instant, queue: Queue) -> list[Subscriber]:
    return [Subscriber(instant, *pair) for pair in instant.subscriptions() if pair[1].queue is queue]


def explain_readers(instant: Instant, queue: Queue) -> Iterator[Reason]:
    """Yield for each consumer of a queue the reason why it takes no more messages."""
    readers = readers_of(instant, queue)
    if not readers:
        yield explain_no_reader(instant, queue)
    for reader in readers[:_READER_LIMIT]:
        yield reader.explain_more()
    if len(readers) > _READER_LIMIT:
        more = format_count(len(readers) - _READER_LIMIT, "more consumer")
        yield Reason(f"{queue.name} has {more}.", ("CN-19",), None, Subject("queue", queue.name))


def explain_no_reader(instant: Instant, queue: Queue) -> Reason:
    """Explain that a queue has no consumer, and when the next one subscribes."""
    later = instant.next("subscribe", "queue", queue.name)
    if later is not None:
        name = name_consumer(instant.trace.session[later], instant.trace.link[later])
        when = f"{name} subscribes at {instant.when(later)}, by its own decision"
        text = f"{queue.name} has no consumer until {when}."
        return Reason(text, ("CN-01",), later, Subject("consumer", name))
    text = f"{queue.name} has no consumer, and gets none before the trace ends at {instant.trace_end}."
    held = sum(message.state == ACQUIRED for message in queue.store)
    if held:
        left = format_count(held, "message")
        text = f"No consumer of {queue.name} is left; {left} of it stays acquired."
    return Reason(text, ("CN-17",) if held else ("CN-01",), None, Subject("queue", queue.name))


# Groups


def _explain_owner(instant: Instant, queue: Queue, state: GroupState) -> Reason:
    """Explain who owns a group, and which settlements would free it."""
    subject = _group_subject(instant, queue.name, state.name)
    owner = instant.show(state.owner)
    row = instant.last("group_owned", "queue", queue.name, group=state.name)
    assert row is not None, "a group that has an owner has been taken"
    first = next(place for place in range(row, instant.end + 1) if instant.trace.kind[place] == "acquired")
    text = (
        f"Group {state.name} of {queue.name} has belonged to {owner} since {instant.when(row)}, when it "
        f"acquired {instant.label(first)}."
    )
    return Reason(text, ("MG-07",), row, subject, (_explain_holding(instant, queue, state),))


def _group_subject(instant: Instant, queue: str, group: str) -> Subject:
    is_alone = sum(name == group for _, name in instant.index.groups) == 1
    return Subject("group", group if is_alone else f"{queue}/{group}")


def _explain_holding(instant: Instant, queue: Queue, state: GroupState) -> Reason:
    """List the acquired messages that keep a group owned, and when the last of them is settled."""
    labels = [m.transfer.label for m in state.members.values() if m.state == ACQUIRED]
    owner = instant.show(state.owner)
    held = f"{owner} holds {format_names(labels)} of it, and owns it until none is left acquired"
    subject = Subject("message", labels[0]) if labels else _group_subject(instant, queue.name, state.name)
    row = instant.next("group_freed", "queue", queue.name, group=state.name)
    if row is None:
        session = state.owner.partition("::")[0]
        rest = tuple(explain_settlement(instant, queue, label, owner, session) for label in labels[:1])
        rest = _explain_departure(instant, queue, state) or rest
        text = f"{held}; the trace, which ends at {instant.trace_end}, does not show that."
        return Reason(text, ("MG-08", "MG-09"), None, subject, rest)
    text = f"{held}: that is at {instant.moment(row)}."
    return Reason(text, ("MG-08", "MG-09"), row, subject, _explain_departure(instant, queue, state))


def _explain_departure(instant: Instant, queue: Queue, state: GroupState) -> tuple[Reason, ...]:
    """Explain that the owner's subscription has ended (MG-15), or return () if it still exists."""
    session, separator, tag = state.owner.partition("::")
    if not separator:
        text = f"The owner {state.owner!r} is a bare tag: the message was browsed, then acquired by name."
        return (Reason(text, ("MG-15",), None, _group_subject(instant, queue.name, state.name)),)
    if instant.is_subscribed(state.owner):
        return ()
    row = instant.last("unsubscribe", "link", tag)
    text = (
        f"The subscription {instant.show(state.owner)} has ended, but its messages stay acquired and the "
        f"group stays its own until session {session} settles them or ends."
    )
    return (Reason(text, ("MG-15", "CN-17"), row, Subject("consumer", instant.show(state.owner))),)


def _explain_freeing(instant: Instant, queue: Queue, group: str) -> tuple[Reason, ...]:
    """Explain what last freed a group, or return () if the group was never freed."""
    row = instant.last("group_freed", "queue", queue.name, group=group)
    if row is None:
        return ()
    owner = instant.show(instant.trace.link[row])
    subject = _group_subject(instant, queue.name, group)
    text = f"Group {group} was {owner}'s until {instant.moment(row)}."
    # The last dequeued row before the group became free is the cause: both rows are effects of one command.
    dropped = instant.last("dequeued", "queue", queue.name, until=row)
    if dropped is not None and instant.detail(dropped)["reason"] == "ring":
        label = instant.label(dropped)
        ring = f"The ring dropped {label}, on which {owner} was still at work."
        because = (Reason(ring, ("MG-20", "LP-10"), dropped, Subject("message", label)),)
        return (Reason(text, ("MG-08", "MG-20"), row, subject, because),)
    return (Reason(text, ("MG-08",), row, subject),)


def explain_group(instant: Instant, queue_name: str, group: str) -> Reason:
    """Explain who owns a group, or why it has no owner."""
    subject = _group_subject(instant, queue_name, group)
    queue = instant.queue(queue_name)
    state = queue.groups.groups.get(group) if queue is not None and queue.groups is not None else None
    if queue is None or state is None:
        return _explain_absent_group(instant, queue_name, group, subject)
    if state.owner:
        return _explain_owner(instant, queue, state)
    none = "its only message is not"
    if len(state.members) > 1:
        none = f"none of its {len(state.members)} messages is"
    text = f"Group {group} of {queue_name} has no owner: {none} acquired."
    because = _explain_freeing(instant, queue, group)
    return Reason(text, ("MG-06", "MG-07"), because[0].row if because else None, subject, because)


def _explain_absent_group(instant: Instant, queue: str, group: str, subject: Subject) -> Reason:
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
