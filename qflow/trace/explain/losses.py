"""Losses: what a queue refused, dropped or evicted, and why."""

from __future__ import annotations

from qflow.trace.explain.explanation import Reason, Subject
from qflow.trace.explain.instant import Instant

REASONS: dict[str, tuple[tuple[str, ...], str]] = {
    "accept": (("CN-13",), "was accepted"),
    "accept-none": (("CN-11",), "was gone when it was delivered, as the subscription needs no accept"),
    "reject": (("CN-16",), "was rejected"),
    "ring": (("LP-10",), "was the oldest when the ring had to make room"),
    "lvq": (("QT-01",), "was replaced by a newer message of the same value"),
    "ttl": (("QT-07", "MG-21"), "had outlived its time to live"),
    "purge": (("QT-22", "FC-20"), "was purged"),
    "move": (("QT-23",), "was moved to another queue"),
    "reroute": (("QT-23",), "was rerouted"),
    "delete": (("QT-24", "FC-21"), "went with its queue"),
    "auto-delete": (("QT-24", "FC-21"), "went with its queue"),
    "self-destruct": (("LP-15",), "went with its queue, which destroyed itself"),
}
"""Why a message leaves a queue, by the reason in its ``dequeued`` row: rules and the end of a sentence."""

_LOST = ("ring", "lvq", "ttl", "purge")
_FULL = ("Maximum depth exceeded on ", "Message larger than configured maximum depth on ")


def gone(instant: Instant, row: int) -> Reason:
    """Say why a message left its queue, at a ``dequeued`` row."""
    trace = instant.trace
    label, queue = trace.message[row], trace.queue[row]
    rules, words = REASONS.get(instant.detail(row)["reason"], (("FC-20",), "was removed"))
    text = f"{label} left {queue} at {instant.when(row)}: it {words}; {instant.cause(row)}."
    return Reason(text, rules, row, Subject("message", label))


def losses(instant: Instant, queue: str) -> tuple[Reason, ...]:
    """Say what a queue last refused, dropped and discarded; nothing if it never did."""
    found = (refusal(instant, queue), _dropped(instant, queue), _discarded(instant, queue))
    return tuple(reason for reason in found if reason is not None)


def refusal(instant: Instant, queue: str) -> Reason | None:
    """Say which message a full queue last refused (LP-05), or None."""
    for row in reversed(instant.index.names("session", ("exception",))):
        place = _refused_by(instant, row, queue)
        if place is not None:
            return died_of(instant, place)
    return None


def _refused_by(instant: Instant, session: str, queue: str) -> int | None:
    for row in reversed(instant.index.rows("exception", "session", session)):
        text = str(instant.detail(row).get("text", ""))
        if row <= instant.end and any(text.startswith(f"{start}{queue}:") for start in _FULL):
            return row
    return None


def died_of(instant: Instant, row: int) -> Reason:
    """Say what a session died of, at an ``exception`` row."""
    detail, session = instant.detail(row), instant.trace.session[row]
    sent = instant.last("message.transfer", "session", session, until=row)
    is_refusal = detail["code"] == 506 and sent is not None
    what = (
        f"{instant.trace.message[sent]} of {session}"
        if is_refusal and sent is not None
        else f"a command of {session}"
    )
    text = (
        f"The broker refused {what} at {instant.when(row)} and ended the session: "
        f"{detail['code']} {detail['name']}, {detail['text']}."
    )
    rules = ("LP-05", "LP-06", "FC-24") if is_refusal else ("LP-06",)
    return Reason(text, rules, row, Subject("producer", session))


def _dropped(instant: Instant, queue: str) -> Reason | None:
    row = instant.last("dropped", "queue", queue)
    return None if row is None else dropped(instant, row)


def dropped(instant: Instant, row: int) -> Reason:
    """Say why a message was not put on a queue although it was routed there, at a ``dropped`` row."""
    label, name = instant.trace.message[row], instant.trace.queue[row]
    subject, when = Subject("message", label), instant.when(row)
    if any(instant.trace.kind[place] == "queueDelete" for place in range(instant.command_of(row), row)):
        text = f"{label} did not fit on {name} at {when}, which destroyed itself; {label} is lost."
        return Reason(text, ("LP-15",), row, subject)
    queue = instant.queue(name)
    policy = queue.policy if queue is not None else ""
    if policy == "priority_ring":
        text = f"{label} was dropped at {when}: all that {name} could evict has a higher priority."
        return Reason(text, ("LP-12", "RF-20"), row, subject)
    if policy == "ring":
        text = f"{label} was dropped at {when}: {name} had nothing to evict for it."
        return Reason(text, ("RF-21",), row, subject)
    text = f"{name} did not want {label} at {when}: its filter, no-local or trace setting refuses it."
    return Reason(text, ("RF-24",), row, subject)


def _discarded(instant: Instant, queue: str) -> Reason | None:
    """Say which message was last evicted, replaced, expired or purged."""
    for row in reversed(instant.index.rows("dequeued", "queue", queue)):
        if row <= instant.end and instant.detail(row)["reason"] in _LOST:
            return gone(instant, row)
    return None
