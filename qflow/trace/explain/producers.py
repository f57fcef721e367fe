"""Explanations of producers, of transfers, and of messages.

A *producer* is blocked or free to send.  A *transfer* is the sender's command: it is complete or not, and its
completion is withheld by a queue that is ON, by the message store, or by the order of completions.  A
*message* is the content that a transfer puts on queues: on each of its queues it is available, acquired or
removed, and it may be on no queue at all.
"""

from __future__ import annotations

from qflow.broker.history import OVERFLOW, WATERMARK
from qflow.broker.message import AVAILABLE, QueuedMessage, Transfer
from qflow.broker.queue import Queue
from qflow.broker.session import Session
from qflow.broker.store import STORE
from qflow.client_windows import has_room
from qflow.trace.explain.chain import Reason, Subject, seconds
from qflow.trace.explain.consumers import (
    explain_expiry,
    explain_no_reader,
    explain_readers,
    explain_settlement,
    readers_of,
)
from qflow.trace.explain.instant import Instant
from qflow.trace.explain.queues import (
    explain_death,
    explain_departure,
    explain_drop,
    explain_limit,
    explain_no_flow_control,
    explain_on,
    explain_turning_off,
    explain_unknown,
)
from qflow.wording import format_count, format_names
from qflow.workload.model import Producer, is_unseen


def explain_producer(instant: Instant, name: str) -> Reason:
    """Explain why a producer is blocked or free to send."""
    model = next((producer for producer in instant.producers if producer.name == name), None)
    session_name = (model.session or name) if model is not None else name
    session = instant.session(session_name)
    if session is not None:
        return _Publisher(instant, name, model, session).explain()
    row = instant.next("session.attach", "session", session_name)
    text = f"{name} has not attached yet{instant.when(row, '; it does at {}')}."
    return Reason(text, ("CM-09",), row, Subject("producer", name))


class _Publisher:
    """A producer at an instant, with its description in the workload and its session."""

    def __init__(self, instant: Instant, name: str, model: Producer | None, session: Session) -> None:
        self.instant, self.name, self.model, self.session = instant, name, model, session
        # The held transfers of this producer, which may share its session with others.
        self.own = [item for item in session.held if instant.sender(session.name, item.label) == name]

    def _say(self, text: str, rules: tuple[str, ...], row: int | None, *because: Reason) -> Reason:
        return Reason(text, rules, row, Subject("producer", self.name), because)

    def explain(self) -> Reason:
        """Explain its state: ended, told to stop by the broker, waiting for its window, or free to send."""
        instant, session = self.instant, self.session
        if not session.is_attached:
            return self._explain_end()
        queues = session.completions.blocking_queues
        if queues:
            row = instant.last("channel_flow", "session", session.name)
            text = f"The broker asked {self.name} to stop sending, because of {format_names(queues)}."
            found = (instant.queue(name) for name in queues)
            because = (explain_on(instant, queue) for queue in found if queue is not None)
            return self._say(text, ("ALT-12",), row, *because)
        block = instant.began("client.block", "client.unblock", "session", self.name)
        return self._explain_free() if block is None else self._explain_blocked(block)

    def _explain_end(self) -> Reason:
        instant, session = self.instant, self.session
        row = instant.last("exception", "session", session.name)
        if session.error is not None and row is not None:
            text = f"{self.name} sends nothing more: its session died at {instant.when(row)}."
            return self._say(text, ("LP-06", "CM-13"), row, explain_death(instant, row))
        row = instant.last("session.detach", "session", session.name)
        text = f"{self.name} has ended its session{instant.when(row, ' at {}')}, by its own decision."
        return self._say(text, ("CM-09",), row)

    # Blocked

    def _explain_blocked(self, row: int) -> Reason:
        instant, model, due = self.instant, self.model, self.instant.detail(row).get("due")
        count = self._count()
        if not isinstance(due, int):
            # A client in an imported log counts its window itself; the engine may be a transfer ahead of it.
            text = f"{self.name} has been blocked since {instant.when(row)}, as it reports."
            return self._say(text, ("CAP-01",), row, self._explain_window())
        since = f"a message has been due since {seconds(due)}"
        # A completion has made room in the window, and the producer has not acted since.
        if model is not None and count is not None and has_room(count, model.capacity):
            outstanding, rules = self._describe_outstanding()
            text = f"{self.name} waits no longer: {since}, and its window has room again."
            return self._say(text, ("CAP-01",), row, self._say(f"{outstanding}.", rules, None))
        text = f"{self.name} is blocked: {since}, and its window is full."
        return self._say(text, ("CAP-01",), row, self._explain_window())

    def _explain_window(self) -> Reason:
        """List the held transfers that fill the window, and explain why the oldest is held."""
        instant, model = self.instant, self.model
        # The qpid-cpp sender syncs its session, and so waits for every held transfer on it (CAP-02, CAP-09).
        waiting = self.session.held if model is not None and model.window == "qpid-cpp" else self.own
        outstanding, rules = self._describe_outstanding()
        labels = [transfer.label for transfer in waiting]
        if labels:
            sent = instant.about(labels[-1], "message.transfer")[-1]
            are = "is" if len(labels) == 1 else "are"
            text = (
                f"{outstanding}; {format_count(len(labels), 'transfer')} {are} held: {format_names(labels)}."
            )
            return self._say(text, rules, sent, _explain_hold(instant, waiting[0]))
        text = f"{outstanding}; the broker has completed all its transfers, and it has yet to learn that."
        if model is None or model.network is None:
            return self._say(text, rules, None)
        latency = seconds(round(model.network.latency * 1_000_000))
        between = f"The network between {self.name} and the broker takes {latency} each way."
        learns = instant.next("client.complete", "session", self.name)
        return self._say(text, rules, None, self._say(between, ("CAP-01", "CM-08"), learns))

    def _describe_outstanding(self) -> tuple[str, tuple[str, ...]]:
        model = self.model
        if model is None:
            return f"{self.name} counts its window itself", ("CAP-01",)
        count = self._count()
        if count is not None:
            rules = ("CAP-01",) if model.network is not None else ("CAP-01", "CAP-08")
            return f"{self.name} has {count} of {model.capacity} outstanding", rules
        rule = "CAP-02" if model.window == "qpid-cpp" else "CAP-07"
        text = f"{self.name} counts {model.capacity} of {model.capacity} outstanding, as {model.window} does"
        if model.window == "qpid-cpp":
            text += f", and syncs the whole session {self.session.name}"
        return text, (rule, "CAP-09") if model.session else (rule,)

    def _count(self) -> int | None:
        """Return the number of transfers that fill an ideal window; None for other kinds of window."""
        instant, model, completions = self.instant, self.model, self.session.completions
        if model is not None and model.network is not None:
            # With a network the client learns of completions later than the broker's session, so the client's
            # own rows are counted.
            count = instant.index.count("client.transfer", "session", self.name, instant.end)
            return count - instant.index.count("client.complete", "session", self.name, instant.end)
        if model is None or model.window != "ideal":
            return None
        # On a shared session, command numbers belong to all its producers; only held transfers are known to
        # belong to this one.
        return len(self.own) if model.session else completions.next_number - len(completions.reported)

    # Not blocked

    def _explain_free(self) -> Reason:
        instant, model = self.instant, self.model
        if model is None:
            return self._explain_without_window()
        row = instant.last("client.unblock", "session", self.name)
        count, (outstanding, rules) = self._count(), self._describe_outstanding()
        if model.window != "ideal" and model.network is None:
            are = "is" if len(self.own) == 1 else "are"
            outstanding = f"{format_count(len(self.own), 'transfer')} of {self.name} {are} held"
        if model.network is None and count is not None and not has_room(count, model.capacity):
            text = f"{self.name} is not blocked, as it has nothing to send now: {outstanding}."
            return self._say(text, rules, row, self._explain_next(is_full=True))
        text = f"{self.name} is not blocked{instant.when(row, ' since {}')}: {outstanding}."
        # Held transfers are no reason why it may send; the reason is that its window has room.
        because = [] if row is None else [self._explain_unblocked(row)]
        return self._say(text, rules, row, *because, self._explain_next())

    def _explain_unblocked(self, row: int) -> Reason:
        instant, session = self.instant, self.session.name
        text = f"The window of {self.name} had room again at {instant.when(row)}"
        learned = instant.last("reported", "session", session, until=row)
        done = instant.last("completed", "session", session, until=row)
        if learned is None or done is None:
            return self._say(f"{text}.", ("CAP-01",), row)
        label = instant.label(done)
        learns = f": {self.name} learned that {label} is complete" if label else ""
        return self._say(f"{text}{learns}, when {instant.cause(done)}.", ("CM-05", "CAP-01"), learned)

    def _explain_next(self, *, is_full: bool = False) -> Reason:
        instant, session = self.instant, self.session.name
        rows = instant.index.rows("message.transfer", "session", session)
        later = (row for row in rows if row > instant.end)
        row = next((row for row in later if instant.sender(session, instant.label(row)) == self.name), None)
        if row is None:
            text = f"{self.name} sends nothing more before the trace ends at {instant.trace_end}."
            return self._say(text, ("CAP-01",), None)
        label, when = instant.label(row), instant.when(row)
        text = f"{self.name} sends its next message, {label}, at {when}: its own decision."
        if is_full:
            waits = "has to wait until a transfer is complete"
            text = f"Its next message, {label}, {waits}; it is sent at {when}."
        return self._say(text, ("CAP-01",), row)

    def _explain_without_window(self) -> Reason:
        instant, session, name = self.instant, self.session, self.name
        row = instant.last("message.transfer", "session", session.name)
        if not self.own:
            text = f"Nothing holds {name} back: all its transfers are complete."
            release = instant.last("let_go", "session", session.name)
            held = (explain_transfer(instant, instant.label(release)),) if release is not None else ()
            return self._say(text, ("CM-02",), row, *held)
        labels = [transfer.label for transfer in self.own]
        count = format_count(len(labels), "incomplete transfer")
        text = f"{name} has {count}, {format_names(labels)}; it is blocked if its capacity is {len(labels)}."
        because = [_explain_hold(instant, self.own[0])]
        incomplete = session.completions.incomplete.items()
        parked = next((number for number, item in incomplete if item is None), None)
        if parked is not None:
            waits = f"The execution.sync of {name}, command {parked}, waits for every command before it."
            because.append(
                self._say(waits, ("CM-06",), instant.last("execution.sync", "session", session.name))
            )
        return self._say(text, ("CAP-01", "CM-01"), row, *because)


# Transfers


def explain_transfer(instant: Instant, label: str) -> Reason:
    """Explain why a transfer is complete or incomplete."""
    sent = instant.about(label, "message.transfer")
    if not sent:
        return _explain_unsent(instant, label, "transfer")
    row = sent[-1]
    session = instant.session(instant.trace.session[row])
    number = instant.detail(row)["command"]
    assert session is not None, "the sender is attached"
    if number in session.completed:
        return _explain_completion(instant, label, row, session)
    transfer = session.completions.incomplete.get(number)
    if transfer is not None:
        return _explain_hold(instant, transfer)
    return _explain_loss(instant, label, row, session)


def _explain_unsent(instant: Instant, label: str, kind: str) -> Reason:
    """Explain that a message has not been sent yet, and say when it will be, if the trace shows it."""
    subject = Subject(kind, label)
    rows = [instant.later_about(label, name) for name in ("client.transfer", "message.transfer")]
    later = min((row for row in rows if row is not None), default=None)
    if later is None:
        return Reason(f"{label} has not been sent.", ("CAP-01",), None, subject)
    name = instant.trace.session[later]
    text = f"{label} has not been sent yet; {name} sends it at {instant.when(later)}, by its own decision."
    return Reason(text, ("CAP-01",), later, subject)


# Held transfers


def _explain_hold(instant: Instant, transfer: Transfer) -> Reason:
    """List the holders of a transfer's completion, and explain each (CM-03)."""
    subject, label = Subject("transfer", transfer.label), transfer.label
    holders = list(transfer.held_by)
    row = max(instant.about(label, "held"), default=None)
    # The watermark design (ALT-07) uses one holder name for all queues; the held row names the queue.
    if holders == [WATERMARK]:
        holders = [instant.trace.queue[row]] if row is not None else []
    names = ["the " + name if name in (STORE, OVERFLOW) else name for name in holders]
    text = f"Transfer {label} is not complete: it is held by {format_names(names)}."
    because = tuple(reason for name in holders for reason in _explain_holder(instant, name, transfer))
    rules = ("FC-15", "CM-01") if len(holders) < 2 else ("FC-15", "CM-03")
    return Reason(text, rules, row, subject, because)


def _explain_holder(instant: Instant, name: str, transfer: Transfer) -> tuple[Reason, ...]:
    subject = Subject("transfer", transfer.label)
    if name == STORE:
        row = instant.later_about(transfer.label, "store.finish")
        later = instant.when(row, "; it does at {}")
        text = f"The message store has not said yet that {transfer.label} is safe{later}."
        return (Reason(text, ("CM-12",), row, subject),)
    if name == OVERFLOW:
        return (_explain_overflow(instant, transfer),)
    queue = instant.queue(name)
    if queue is None or queue.flow_limit is None or not queue.flow_limit.stopped:
        return ()
    return (explain_on(instant, queue),)


def _explain_overflow(instant: Instant, transfer: Transfer) -> Reason:
    """Explain a message's wait in the overflow list of its session (ALT-06)."""
    session = instant.broker.sessions[transfer.origin]
    waiting = [item for item, _ in session.overflow.waiting] if session.overflow is not None else []
    label, subject = transfer.label, Subject("message", transfer.label)
    row, where = instant.about(label, "message.transfer")[-1], f"the overflow list of {session.name}"
    place = [item.label for item in waiting].index(label)
    if place:
        text = f"{label} is on no queue yet: in {where} it waits behind {format_count(place, 'other')}."
        return Reason(text, ("ALT-06", "ALT-09"), row, subject, (_explain_overflow(instant, waiting[0]),))
    text = f"{label} is on no queue yet: it is first in {where}, tried every 0.1 s."
    queue = instant.queue(transfer.message.routing_key or "")
    because = () if queue is None else (explain_limit(instant, queue), *explain_readers(instant, queue))
    return Reason(text, ("ALT-06",), row, subject, because)


# Complete transfers


def _explain_completion(instant: Instant, label: str, sent: int, session: Session) -> Reason:
    subject = Subject("transfer", label)
    row = max(instant.about(label, "completed", after=sent), default=sent)
    releases = instant.about(label, "let_go", after=sent)
    if not releases and instant.command_of(row) != sent:
        return _explain_other_hold(instant, label, row, session)
    if not releases:
        text = f"Transfer {label} has been complete since {instant.when(row)}: nothing withheld it."
        return Reason(text, ("CM-02",), row, subject, (_explain_never_held(instant, label, sent),))
    first = instant.about(label, "held", after=sent)[0]
    times = f"was held from {instant.when(first)} and has been complete since {instant.when(row)}"
    text = f"Transfer {label} {times}, when {instant.trace.queue[releases[-1]]} let it go."
    because = tuple(_explain_release(instant, label, place) for place in releases)
    return Reason(text, ("CM-02", "FC-17"), row, subject, because)


def _explain_other_hold(instant: Instant, label: str, row: int, session: Session) -> Reason:
    """Explain a completion that was delayed by the overflow list (ALT-06), the store, or the order."""
    rules: tuple[str, ...] = ("CM-12",)
    words = "until then the message store was not done"
    if session.overflow is not None:
        rules, words = ("ALT-06",), "until then it waited in the overflow list"
    elif instant.broker.options.completions == "in-order":
        rules, words = ("CM-04", "ALT-11"), "before, an earlier command was not"
    text = f"Transfer {label} has been complete since {instant.when(row)}: {words}."
    return Reason(text, rules, row, Subject("transfer", label))


def _explain_never_held(instant: Instant, label: str, sent: int) -> Reason:
    rows = instant.about(label, "enqueued", after=sent)
    subject = Subject("message", label)
    # In a transaction the commit, which is another command, enqueues the message; then `own` is empty.
    own = [row for row in rows if instant.command_of(row) == sent]
    if own:
        return _explain_no_hold(instant, label, own)
    for row in instant.about(label, "dropped", after=sent):
        return explain_drop(instant, row)
    for row in instant.about(label, "unroutable", after=sent):
        exchange = instant.trace.link[row]
        text = f"No binding of exchange {exchange!r} matched {label}: it was dropped without an error."
        return Reason(text, ("EX-08",), row, subject)
    if rows:
        state = "the commit put it on its queue"
    else:
        is_over = _find_rollback(instant, sent) is not None
        state = "it was not committed" if is_over else "it is not committed yet"
    text = f"{label} was sent in a transaction, where no transfer is held; {state}."
    return Reason(text, ("CM-10",), rows[0] if rows else sent, subject)


def _find_rollback(instant: Instant, sent: int) -> int | None:
    """Return the row that rolled back a transfer's transaction, or None."""
    session = instant.trace.session[sent]
    kinds = ("tx.rollback", "exception", "session.detach")
    rows = [instant.index.next(kind, "session", session, sent) for kind in kinds]
    return min((row for row in rows if row is not None and row <= instant.end), default=None)


def _explain_no_hold(instant: Instant, label: str, enqueued: list[int]) -> Reason:
    """Explain why no queue of a message withheld its completion."""
    names = list(dict.fromkeys(instant.trace.queue[row] for row in enqueued))
    subject, row = Subject("message", label), enqueued[-1]
    until = instant.end_of(row)
    # Only the Java broker's design holds nothing while a queue is ON.
    if any(instant.began("flow_stopped", "flow_resumed", "queue", name, until) is not None for name in names):
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
        because = tuple(explain_no_flow_control(instant, queue) for queue in queues)
        text = f"{label} went to {format_names(names)}, without flow control."
        return Reason(text, because[0].rules, row, subject, because)
    were = "was" if len(names) == 1 else "were"
    text = f"{label} went to {format_names(names)}, which {were} not ON then."
    return Reason(text, ("FC-13", "FC-14"), row, subject)


def _explain_release(instant: Instant, label: str, row: int) -> Reason:
    queue = instant.trace.queue[row]
    command = instant.command_of(row)
    resumed = instant.last("flow_resumed", "queue", queue, until=row)
    # A held transfer is released when its queue turns OFF, or when its own message leaves a queue that stays
    # ON. The queue's turning OFF is the cause if it happened within the same command.
    if resumed is not None and resumed >= command:
        rows = range(resumed, instant.end_of(resumed) + 1)
        kinds = [instant.trace.kind[place] for place in rows if instant.trace.queue[place] == queue]
        transfers = format_count(kinds.count("let_go"), "transfer")
        text = f"{queue} turned OFF at {instant.when(row)} and released {transfers} at once."
        turning = explain_turning_off(instant, queue, resumed)
        return Reason(text, ("FC-17", "FC-16"), resumed, Subject("queue", queue), (turning,))
    text = f"{label} itself left {queue} at {instant.moment(row)}; {queue} stayed ON."
    return Reason(text, ("FC-17",), row, Subject("message", label))


# Refused and lost transfers


def _explain_loss(instant: Instant, label: str, sent: int, session: Session) -> Reason:
    subject = Subject("transfer", label)
    error = instant.last("exception", "session", session.name)
    # A refused transfer is neither complete nor incomplete. Only the exception row of its session shows the
    # refusal, if this command caused it.
    if error is not None and instant.command_of(error) == sent:
        text = f"Transfer {label} was refused and will never be complete."
        return Reason(text, ("LP-05",), error, subject, (explain_death(instant, error),))
    if session.is_attached:
        text = f"Transfer {label} is processed, but completions are in order only, as before the feature."
        return Reason(text, ("CM-04", "ALT-11"), sent, subject)
    row = error if error is not None else instant.last("session.detach", "session", session.name)
    because = (explain_death(instant, error),) if error is not None else ()
    ended = f"session {session.name} ended while it was held"
    text = f"Transfer {label} will never be reported complete: {ended}."
    return Reason(text, ("CM-09",), row, subject, because)


_MOST = 3


def explain_message(instant: Instant, label: str) -> Reason:
    """Explain where a message is, on each queue that it was routed to."""
    rows = instant.about(label, "enqueued")
    queues = list(dict.fromkeys(instant.trace.queue[row] for row in rows))
    if not queues:
        return _explain_absence(instant, label)
    reasons = [_locate(instant, label, name) for name in queues]
    if len(reasons) == 1:
        return reasons[0]
    text = f"{label} was put on {format_count(len(queues), 'queue')}: {', '.join(queues)}."
    return Reason(text, ("MG-03", "CM-03"), rows[-1], Subject("message", label), tuple(reasons))


def _locate(instant: Instant, label: str, name: str) -> Reason:
    queue = instant.queue(name)
    message = instant.find_queued(queue, label) if queue is not None else None
    if queue is None or message is None:
        left = instant.about(label, "dequeued", name)
        if left:
            return explain_departure(instant, left[-1])
        return Reason(f"{label} went with {name}.", ("FC-21",), None, Subject("message", label))
    is_available = message.state == AVAILABLE
    return (_explain_place if is_available else _explain_acquisition)(instant, queue, message)


# Acquired messages


def _explain_acquisition(instant: Instant, queue: Queue, message: QueuedMessage) -> Reason:
    label = message.transfer.label
    rows = instant.about(label, "acquired", queue.name)
    owner = instant.trace.link[rows[-1]]
    name = instant.show(owner)
    if instant.is_subscribed(owner):
        until = explain_settlement(instant, queue, label, name, owner.partition("::")[0])
    else:
        stays = f"{label} stays acquired until its session settles it or ends"
        row = instant.last("unsubscribe", "queue", queue.name)
        text = f"The subscription {name} has ended; {stays}."
        until = Reason(text, ("CN-17", "MG-15"), row, Subject("consumer", name))
    text = f"{label} is on {queue.name}, acquired by {name} since {instant.when(rows[-1])}."
    because = (*_explain_return(instant, queue, label), until)
    return Reason(text, ("CN-10",), rows[-1], Subject("message", label), because)


def _explain_return(instant: Instant, queue: Queue, label: str) -> list[Reason]:
    """Return a reason about the latest earlier release of a message, or [] if it was never released."""
    rows = instant.about(label, "requeued", queue.name)
    if not rows:
        return []
    browser = _find_browser_that_left(instant, queue, label, rows[-1])
    if browser:
        holder = instant.show(instant.trace.link[instant.about(label, "acquired", queue.name)[-2]])
        text = (
            f"{label} was made available at {instant.moment(rows[-1])} by the end of the browser {browser}, "
            f"which had seen it and not settled it; {holder} had it then, and keeps it."
        )
        return [Reason(text, ("RF-51", "LNK-13"), rows[-1], Subject("message", label))]
    text = f"{label} was released at {instant.moment(rows[-1])}; it took its old place."
    rules = ("CN-14", "CN-15") if queue.groups is None else ("MG-18", "CN-14", "CN-15")
    return [Reason(text, rules, rows[-1], Subject("message", label))]


def _find_browser_that_left(instant: Instant, queue: Queue, label: str, row: int) -> str:
    """Return the name of the browsing link whose end made a message available, or "" (RF-51)."""
    trace = instant.trace
    acquired = [one for one in instant.about(label, "acquired", queue.name) if one < row]
    # When a link ends, its unsubscribe row comes first and its requeued rows follow directly. So the row
    # before consecutive requeued rows is their cause.
    while row > 0 and trace.kind[row] == "requeued":
        row -= 1
    ended = f"{trace.session[row]}::{trace.link[row]}"
    is_other = bool(acquired) and trace.kind[row] == "unsubscribe" and trace.link[acquired[-1]] != ended
    return instant.show(ended) if is_other and len(instant.about(label, "acquired", queue.name)) > 1 else ""


# Available messages


def _explain_place(instant: Instant, queue: Queue, message: QueuedMessage) -> Reason:
    label = message.transfer.label
    subject = Subject("message", label)
    rows = instant.about(label, "enqueued", queue.name)
    # By position, also on a priority queue, where it shows the message's age and not its order of delivery:
    # which message is next depends on the consumer's cursor.
    before = sum(1 for m in queue.store if m.position < message.position and m.state == AVAILABLE)
    place = f"behind {format_count(before, 'other')}" if before else "and first in line"
    text = f"{label} is on {queue.name}, available {place}."
    readers = readers_of(instant, queue)
    because = _explain_return(instant, queue, label)
    if message.transfer.is_expired(instant.broker.now):
        because.append(explain_expiry(label))
    if not readers:
        because.append(explain_no_reader(instant, queue))
    for reader in readers[:_MOST]:
        reason = reader.explain_no_credit() or reader.explain_refusal(message)
        because.append(reason or reader.explain_missed_wake_up())
    distinct = {reason.text: reason for reason in because}
    return Reason(text, ("CN-19", "MG-10"), rows[-1], subject, tuple(distinct.values()))


# Messages on no queue


def _explain_absence(instant: Instant, label: str) -> Reason:
    sent = instant.about(label, "message.transfer")
    subject = Subject("message", label)
    if not sent:
        return _explain_unsent(instant, label, "message")
    for row in instant.about(label, "dropped"):
        return explain_drop(instant, row)
    for row in instant.about(label, "unroutable"):
        exchange = instant.trace.link[row]
        text = f"{label} is on no queue: no binding of exchange {exchange!r} matched it, so it was dropped."
        return Reason(text, ("EX-08",), row, subject)
    session = instant.session(instant.trace.session[sent[-1]])
    assert session is not None, "the sender is attached"
    error = instant.last("exception", "session", session.name)
    if error is not None and instant.command_of(error) == sent[-1]:
        text = f"{label} is on no queue: the broker refused it."
        return Reason(text, ("LP-05",), error, subject, (explain_death(instant, error),))
    transfer = session.completions.incomplete.get(instant.detail(sent[-1])["command"])
    if transfer is not None:
        return _explain_overflow(instant, transfer)
    ended = _find_rollback(instant, sent[-1])
    if ended is None:
        text = f"{label} is on no queue yet: it was sent in a transaction that is not committed."
        return Reason(text, ("CM-10", "MG-22"), sent[-1], subject)
    text = f"{label} is on no queue: its transaction was not committed, as {instant.cause(ended)}."
    because = (explain_death(instant, ended),) if instant.trace.kind[ended] == "exception" else ()
    return Reason(text, ("CM-10", "LP-09" if because else "MG-22"), ended, subject, because)
