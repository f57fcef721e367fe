"""Exercises on the designs that QPID-2935 considered."""

from __future__ import annotations

from functools import partial

from qflow.broker import BrokerOptions
from qflow.broker.errors import AmqpException
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
        "other queues go on": _fitting,
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
