"""Exercises on the designs of flow control that QPID-2935 considered."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from qflow.broker import Broker, BrokerOptions, join, replicate
from qflow.broker.errors import AmqpException
from qflow.broker.flow_limit import QueueFlowLimit
from qflow.teaching.exercise import exercise
from qflow.teaching.trial import Trial


def _designs(design: str, limit: int, threshold: int, sends: int, **other: object) -> tuple[int, int, int]:
    depth = min(sends, limit)
    code = 506 if sends > limit else 0
    if design == "pre-feature":
        return depth, 0, code
    if design == "overflow-list":
        waits = max(0, sends - limit)
        return (depth, waits, 0) if not other.get("list_is_queue") else (sends, waits, 0)
    first = threshold + 1
    if design == "watermark" and not other.get("same"):
        first = threshold
    return depth, max(0, depth - first + 1), 0 if other.get("never") else code


@exercise(
    misconceptions={
        "the proposal is what shipped": partial(_designs, same=True),
        "flow control prevents overflow": partial(_designs, never=True),
        "the overflow list is part of the queue": partial(_designs, list_is_queue=True),
        "they all throw the producer out": lambda design, limit, threshold, sends: (
            *_designs(design, limit, threshold, sends)[:2],
            506 if sends > limit else 0,
        ),
    },
)
def _what_happens(design: str, limit: int, threshold: int, sends: int) -> tuple[int, int, int]:
    trial = Trial(BrokerOptions(flow_control=design)).declare_stop("q", threshold, 1, max_count=limit)
    incomplete = code = 0
    try:
        for _ in range(sends):
            incomplete += not trial.send("q")[0].is_complete
    except AmqpException as error:
        code = error.code
    return trial.depth("q"), incomplete, code


def _fitting(sends: list[str], limits: dict[str, int]) -> list[int]:
    return [n for n, queue in enumerate(sends) if sends[: n + 1].count(queue) <= limits[queue]]


def _first_that_fails(sends: list[str], limits: dict[str, int]) -> int:
    fitting = _fitting(sends, limits)
    return next((n for n in range(len(sends)) if n not in fitting), len(sends))


@exercise(
    misconceptions={
        "other queues accept messages": _fitting,
        "the list empties itself": lambda sends, limits: list(range(len(sends))),
        "one message overshoots": lambda sends, limits: list(
            range(min(len(sends), _first_that_fails(sends, limits) + 1))
        ),
    },
)
def _on_the_queues(sends: list[str], limits: dict[str, int]) -> list[int]:
    trial = Trial(BrokerOptions(flow_control="overflow-list"))
    for queue, limit in limits.items():
        trial.declare(queue, max_count=limit)
    for number, queue in enumerate(sends):
        trial.send(queue, [str(number)])
    return sorted(int(label) for queue in limits for label in trial.left(queue))


@exercise(
    misconceptions={
        "it withholds completions": lambda capacity, size, channels: (capacity // size + channels, channels),
        "the first stop reaches every channel": lambda capacity, size, channels: (capacity // size + 1, 0),
        "what is too much is refused": lambda capacity, size, channels: (capacity // size, 0),
        "reached is too full": lambda capacity, size, channels: (-(-capacity // size) - 1 + channels, 0),
    },
)
def _java_overshoot(capacity: int, size: int, channels: int) -> tuple[int, int]:
    trial = Trial(BrokerOptions(flow_control="java"))
    trial.declare("q", flow_stop_size=capacity, flow_resume_size=capacity // 2)
    sessions = [trial.broker.session(f"channel {number}") for number in range(channels)]
    active = dict.fromkeys(sessions, True)
    for session in sessions:
        session.completions.on_channel_flow = partial(active.__setitem__, session)
    while any(active.values()):
        for session in sessions:
            if active[session]:
                trial.send("q", by=session, size=size)
    return trial.depth("q"), sum(len(session.held) for session in sessions)


def _joined(
    stop: int, resume: int, sent: int, consumed: list[int], at_newcomer: Callable[[bool, int], bool]
) -> tuple[str, str]:
    """Return the states of the original queue, and of the joining broker's queue under a misconception."""
    depth = sent - len(consumed)
    is_on = sent > stop and depth >= resume
    return "ON" if is_on else "OFF", "ON" if at_newcomer(is_on, depth) else "OFF"


@exercise(
    misconceptions={
        "the state is sent": partial(_joined, at_newcomer=lambda is_on, depth: is_on),
        "a newcomer begins OFF": partial(_joined, at_newcomer=lambda is_on, depth: False),
        "a newcomer compares the depth with stop": lambda stop, resume, sent, consumed: _joined(
            stop, resume, sent, consumed, lambda is_on, depth: depth > stop
        ),
    },
)
def _after_joining(stop: int, resume: int, sent: int, consumed: list[int]) -> tuple[str, str]:
    trial = Trial().declare_stop("q", stop, resume)
    transfers = dict(enumerate(trial.send("q", [str(number) for number in range(1, sent + 1)]), 1))
    reader = trial.reader("q", prefetch=sent)
    for number in consumed:
        reader.accept(str(number))
    newcomer = Broker()
    newcomer.session("admin").queue_declare("q", {})
    original, joined = trial.broker.queue("q").flow_limit, newcomer.queue("q").flow_limit
    if not (isinstance(original, QueueFlowLimit) and isinstance(joined, QueueFlowLimit)):
        raise TypeError("a queue with thresholds has the flow control that shipped")
    join(joined, replicate(original), transfers)
    return trial.state("q"), "ON" if joined.stopped else "OFF"
