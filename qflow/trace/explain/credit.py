"""Credit: why a subscription may not be sent a message, in the words of its own balances."""

from __future__ import annotations

from qflow.broker.credit import BYTE_UNIT, CREDIT_MODE, INFINITE, MESSAGE_UNIT, Balance
from qflow.broker.session import Session
from qflow.broker.subscription import Subscription
from qflow.trace.explain.explanation import Reason, Subject
from qflow.trace.explain.instant import Instant, counted
from qflow.trace.explain.work import consumer_subject, work

UNITS = {MESSAGE_UNIT: "message", BYTE_UNIT: "byte"}


def no_credit(instant: Instant, session: Session, subscription: Subscription) -> Reason | None:
    """Say which credit is missing, and where it went; None if there is some of both (CN-05)."""
    if subscription.credit.exists():
        return None
    unit = MESSAGE_UNIT
    if subscription.credit.balance(MESSAGE_UNIT).allows(1):
        unit = BYTE_UNIT
    return _missing(instant, session, subscription, unit)


def too_little(
    instant: Instant, session: Session, subscription: Subscription, label: str, size: int
) -> Reason:
    """Say that there is credit, but not enough for one message (CN-05, CN-08)."""
    subject = consumer_subject(session, subscription)
    left = remaining(subscription.credit.balance(BYTE_UNIT))
    text = f"{subject.name} has {left} bytes of credit left, and {label} needs {size}."
    row = instant.last("out_of_credit", "link", subscription.owner)
    return Reason(text, ("CN-05", "CN-08"), row, subject, work(instant, session, subscription))


def remaining(balance: Balance) -> int:
    """Return how much of a balance is left (RF-09)."""
    return balance.granted - balance.used


def has_credit(subscription: Subscription) -> str:
    """Say how much credit a subscription has; bytes only if they are limited."""
    shown = []
    for unit, noun in UNITS.items():
        balance = subscription.credit.balance(unit)
        if balance.granted != INFINITE:
            shown.append(counted(remaining(balance), noun))
    return f"credit for {' and '.join(shown)}" if shown else "unlimited credit"


def _missing(instant: Instant, session: Session, subscription: Subscription, unit: int) -> Reason:
    subject, noun = consumer_subject(session, subscription), UNITS[unit]
    balance = subscription.credit.balance(unit)
    row = instant.last("out_of_credit", "link", subscription.owner)
    if balance.granted:
        used = f"{balance.used} of {balance.granted} {noun}s"
        text = f"{subject.name} has no {noun} credit: {used} of its window are delivered and not completed."
        held = work(instant, session, subscription)
        if not held:
            held = (_only_completion(instant, subject, session.name),)
        return Reason(text, ("CN-06", "CN-05"), row, subject, held)
    taken = _taken_away(instant, session.name, subscription.name)
    granted = _granted(instant, session.name, subscription.name, unit)
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


def _granted(instant: Instant, session: str, tag: str, unit: int) -> int | None:
    for row in reversed(instant.index.rows("message.flow", "session", session)):
        if row <= instant.end and instant.trace.link[row] == tag and instant.detail(row)["unit"] == unit:
            return row
    return None


def _taken_away(instant: Instant, session: str, tag: str) -> int | None:
    rows = [
        row
        for kind in ("message.stop", "message.flush")
        for row in instant.index.rows(kind, "session", session)
        if row <= instant.end and instant.trace.link[row] == tag
    ]
    return max(rows, default=None)
