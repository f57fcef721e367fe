"""Producers: why one is blocked, or is not."""

from __future__ import annotations

from qflow.broker.message import Transfer
from qflow.broker.session import Session
from qflow.trace.explain.chain import Reason, Subject, seconds
from qflow.trace.explain.instant import Instant
from qflow.trace.explain.queues import explain_death, explain_on
from qflow.trace.explain.transfers import explain_hold, explain_transfer
from qflow.wording import format_count, format_names
from qflow.workload.model import Producer


def explain_producer(instant: Instant, name: str) -> Reason:
    """Say whether a producer is blocked, and why."""
    model = _model(instant, name)
    session_name = (model.session or name) if model is not None else name
    session = instant.session(session_name)
    subject = Subject("producer", name)
    if session is None:
        return _not_there(instant, session_name, subject)
    if not session.is_attached:
        return _explain_end(instant, session, subject)
    if session.completions.blocking_queues:
        return _stopped_by_flow(instant, session, subject)
    block = instant.last("client.block", "session", name)
    free = instant.last("client.unblock", "session", name)
    if block is not None and block > (free if free is not None else -1):
        return _explain_blocked(instant, model, session, block)
    return _free(instant, model, session, free, subject)


def _model(instant: Instant, name: str) -> Producer | None:
    workload = instant.trace.workload
    found = (producer for producer in workload.producers if producer.name == name) if workload else iter(())
    return next(found, None)


def _own(session: Session, model: Producer | None) -> list[Transfer]:
    """Return a producer's own transfers that are withheld; senders of one session go by their labels."""
    if model is None or not model.session:
        return session.held
    return [item for item in session.held if item.label.rpartition("-")[0] == model.name]


# Blocked


def _explain_blocked(instant: Instant, model: Producer | None, session: Session, row: int) -> Reason:
    name = instant.trace.session[row]
    subject = Subject("producer", name)
    due, count = instant.detail(row).get("due"), _count(instant, model, session, name)
    if not isinstance(due, int):
        # A log's client counts by itself; the engine may be a transfer ahead of it.
        text = f"{name} has been blocked since {instant.when(row)}, as it reports."
    elif model is not None and count is not None and count < model.capacity:
        outstanding, rules = _outstanding(instant, model, session, name)
        since = f"a message has been due since {seconds(due)}"
        text = f"{name} waits no longer: {since}, and its window has room again."
        return Reason(text, ("CAP-01",), row, subject, (Reason(f"{outstanding}.", rules, None, subject),))
    else:
        text = f"{name} is blocked: a message has been due since {seconds(due)}, and its window is full."
    # The qpid-cpp sender syncs, and so waits for whatever is held on its session (CAP-02, CAP-09).
    is_syncing = model is not None and model.window == "qpid-cpp"
    waiting = session.held if is_syncing else _own(session, model)
    return Reason(text, ("CAP-01",), row, subject, (_window(instant, model, session, waiting, subject),))


def _window(
    instant: Instant, model: Producer | None, session: Session, waiting: list[Transfer], subject: Subject
) -> Reason:
    """Say what fills the window: the transfers that are held, the oldest with its chain."""
    outstanding, rules = _outstanding(instant, model, session, subject.name)
    labels = [transfer.label for transfer in waiting]
    sent = instant.about(labels[-1], "message.transfer")[-1] if labels else None
    if not labels:
        text = f"{outstanding}; the broker has completed all its transfers, and it has yet to learn that."
        return Reason(text, rules, sent, subject, _on_their_way(instant, model, subject))
    withheld = "is held" if len(labels) == 1 else "are held"
    text = f"{outstanding}; {format_count(len(labels), 'transfer')} {withheld}: {format_names(labels)}."
    return Reason(text, rules, sent, subject, (explain_hold(instant, waiting[0]),))


def _on_their_way(instant: Instant, model: Producer | None, subject: Subject) -> tuple[Reason, ...]:
    """Say how long completions travel, if a network is part of the workload."""
    if model is None or model.network is None:
        return ()
    latency = seconds(round(model.network.latency * 1_000_000))
    text = f"Between {subject.name} and the broker lies a network of {latency} each way."
    learns = instant.next("client.complete", "session", subject.name)
    return (Reason(text, ("CAP-01", "CM-08"), learns, subject),)


def _outstanding(
    instant: Instant, model: Producer | None, session: Session, name: str
) -> tuple[str, tuple[str, ...]]:
    if model is None:
        return f"{name} counts its window itself", ("CAP-01",)
    count = _count(instant, model, session, name)
    if model.network is not None:
        return f"{name} has {count} of {model.capacity} outstanding", ("CAP-01",)
    if count is None:
        rule = "CAP-02" if model.window == "qpid-cpp" else "CAP-07"
        shared = ("CAP-09",) if model.session else ()
        text = f"{name} counts {model.capacity} of {model.capacity} outstanding, as {model.window} does"
        if model.window == "qpid-cpp":
            text += f", and syncs the whole session {session.name}"
        return text, (rule, *shared)
    return f"{name} has {count} of {model.capacity} outstanding", ("CAP-01", "CAP-08")


def _count(instant: Instant, model: Producer | None, session: Session, name: str) -> int | None:
    """Return how many transfers fill an ideal window; None of a window that is counted otherwise."""
    if model is not None and model.network is not None:
        count = instant.index.count("client.transfer", "session", name, instant.end)
        return count - instant.index.count("client.complete", "session", name, instant.end)
    if model is None or model.window != "ideal":
        return None
    if model.session:
        return len(_own(session, model))
    return session.completions.next_number - len(session.completions.reported)


def _stopped_by_flow(instant: Instant, session: Session, subject: Subject) -> Reason:
    queues = session.completions.blocking_queues
    row = instant.last("channel_flow", "session", session.name)
    text = f"{subject.name} was asked to stop sending, because of {format_names(queues)}."
    found = [instant.queue(name) for name in queues]
    because = tuple(explain_on(instant, queue) for queue in found if queue is not None)
    return Reason(text, ("ALT-12",), row, subject, because)


# Not blocked


def _free(
    instant: Instant, model: Producer | None, session: Session, row: int | None, subject: Subject
) -> Reason:
    name, waiting = subject.name, _own(session, model)
    if model is None:
        return _without_window(instant, session, waiting, subject)
    labels = [transfer.label for transfer in waiting]
    outstanding, rules = _outstanding(instant, model, session, name)
    if model.window != "ideal" and model.network is None:
        outstanding = (
            f"{format_count(len(labels), 'transfer')} of {name} {'is' if len(labels) == 1 else 'are'} held"
        )
    count = _count(instant, model, session, name)
    if model.network is None and count is not None and count >= model.capacity:
        text = f"{name} is not blocked, as it has nothing to send now: {outstanding}."
        return Reason(text, rules, row, subject, (_next_message(instant, session, subject, is_full=True),))
    since = f" since {instant.when(row)}" if row is not None else ""
    text = f"{name} is not blocked{since}: {outstanding}."
    # What is held is no reason why it may send: that its window has room is.
    because = [] if row is None else [_explain_unblocked(instant, session, row, subject)]
    return Reason(text, rules, row, subject, (*because, _next_message(instant, session, subject)))


def _explain_unblocked(instant: Instant, session: Session, row: int, subject: Subject) -> Reason:
    text = f"The window of {subject.name} had room again at {instant.when(row)}"
    learned = instant.last("reported", "session", session.name, until=row)
    done = instant.last("completed", "session", session.name, until=row)
    if learned is None or done is None:
        return Reason(f"{text}.", ("CAP-01",), row, subject)
    label = instant.trace.message[done]
    cause = instant.cause(done)
    learns = f": {subject.name} learned that {label} is complete" if label else ""
    text = f"{text}{learns}, when {cause}."
    return Reason(text, ("CM-05", "CAP-01"), learned, subject)


def _next_message(instant: Instant, session: Session, subject: Subject, *, is_full: bool = False) -> Reason:
    rows = instant.index.rows("message.transfer", "session", session.name)
    own = (row for row in rows if row > instant.end and _is_of(instant.trace.message[row], subject, session))
    row = next(own, None)
    if row is None:
        text = f"{subject.name} sends nothing more before the trace ends at {instant.trace_end}."
        return Reason(text, ("CAP-01",), None, subject)
    label, when = instant.trace.message[row], instant.when(row)
    if is_full:
        text = f"Its next message, {label}, has to wait until a transfer is complete; it is sent at {when}."
    else:
        text = f"{subject.name} sends its next message, {label}, at {when}: its own decision."
    return Reason(text, ("CAP-01",), row, subject)


def _is_of(label: str, subject: Subject, session: Session) -> bool:
    """Return whether a message is one of this sender's; on a session of its own every one is."""
    return session.name == subject.name or label.rpartition("-")[0] == subject.name


def _without_window(instant: Instant, session: Session, waiting: list[Transfer], subject: Subject) -> Reason:
    name = subject.name
    row = instant.last("message.transfer", "session", session.name)
    if not waiting:
        text = f"Nothing holds {name} back: all its transfers are complete."
        let_go = instant.last("let_go", "session", session.name)
        was_held = (explain_transfer(instant, instant.trace.message[let_go]),) if let_go is not None else ()
        return Reason(text, ("CM-02",), row, subject, was_held)
    labels = [transfer.label for transfer in waiting]
    parked = [number for number, item in session.completions.incomplete.items() if item is None]
    text = (
        f"{name} has {format_count(len(labels), 'incomplete transfer')}, "
        f"{format_names(labels)}; it is blocked if its capacity is {len(labels)}."
    )
    because = [explain_hold(instant, waiting[0])]
    if parked:
        waits = f"The execution.sync of {name}, command {parked[0]}, waits for every command before it."
        sync = instant.last("execution.sync", "session", session.name)
        because.append(Reason(waits, ("CM-06",), sync, subject))
    return Reason(text, ("CAP-01", "CM-01"), row, subject, tuple(because))


# Gone


def _not_there(instant: Instant, session: str, subject: Subject) -> Reason:
    row = instant.next("session.attach", "session", session)
    later = f"; it does at {instant.when(row)}" if row is not None else ""
    return Reason(f"{subject.name} has not attached yet{later}.", ("CM-09",), row, subject)


def _explain_end(instant: Instant, session: Session, subject: Subject) -> Reason:
    row = instant.last("exception", "session", session.name)
    if session.error is not None and row is not None:
        text = f"{subject.name} sends nothing more: its session died at {instant.when(row)}."
        return Reason(text, ("LP-06", "CM-13"), row, subject, (explain_death(instant, row),))
    row = instant.last("session.detach", "session", session.name)
    when = f" at {instant.when(row)}" if row is not None else ""
    text = f"{subject.name} has ended its session{when}, by its own decision."
    return Reason(text, ("CM-09",), row, subject)
