"""Exercises on the designs that QPID-2935 considered."""

from __future__ import annotations

from qflow.broker import BrokerOptions
from qflow.broker.errors import AmqpException
from qflow.teaching.bench import Bench
from qflow.teaching.exercise import Exercise, Misconception


def _what_happens(design: str, limit: int, threshold: int, sends: int) -> tuple[int, int, int]:
    bench = Bench(BrokerOptions(flow_control=design)).declare(
        "q", max_count=limit, flow_stop_count=threshold, flow_resume_count=1, flow_stop_size=0
    )
    incomplete = code = 0
    try:
        for _ in range(sends):
            incomplete += not bench.send("q")[0].is_complete
    except AmqpException as error:
        code = error.code
    return bench.depth("q"), incomplete, code


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


WHAT_HAPPENS = Exercise(
    "what_happens",
    "Four designs, one workload",
    truth=_what_happens,
    cases=(
        ("pre-feature", 10, 8, 11),
        ("pre-feature", 10, 8, 10),
        ("overflow-list", 10, 8, 15),
        ("overflow-list", 10, 8, 9),
        ("watermark", 10, 8, 9),
        ("shipped", 10, 8, 9),
        ("watermark", 10, 8, 12),
        ("shipped", 10, 8, 12),
        ("watermark", 5, 5, 5),
        ("shipped", 5, 5, 5),
    ),
    misconceptions={
        "the proposal is what shipped": Misconception(
            lambda design, limit, threshold, sends: _designs(design, limit, threshold, sends, same=True),
            "the proposal blocks at and above its high watermark; what shipped needs more than stop "
            "(ALT-07, ALT-08).",
        ),
        "flow control prevents overflow": Misconception(
            lambda design, limit, threshold, sends: _designs(design, limit, threshold, sends, never=True),
            "in both the proposal and what shipped the limit is still enforced, with 506 (ALT-09).",
        ),
        "the overflow list is part of the queue": Misconception(
            lambda design, limit, threshold, sends: _designs(
                design, limit, threshold, sends, list_is_queue=True
            ),
            "listed messages wait outside the queue, where no consumer sees them; the queue never exceeds "
            "its limit (ALT-02, ALT-06).",
        ),
        "they all throw the producer out": Misconception(
            lambda design, limit, threshold, sends: (
                *_designs(design, limit, threshold, sends)[:2],
                506 if sends > limit else 0,
            ),
            "the proof of concept put what overflowed on a list and raised nothing (ALT-02).",
        ),
    },
    hints=(
        "For each design: where does a message wait that comes too many, and who gets which message?",
        "pre-feature: nothing waits, 506. overflow-list: waits outside, incomplete. The others: on the "
        "queue, held.",
        "Held: watermark from message number threshold on, shipped from threshold + 1 on; and 506 beyond "
        "limit.",
    ),
    rules=("ALT-01", "ALT-02", "ALT-03", "ALT-04", "ALT-07", "ALT-08", "ALT-09"),
    parts=("the messages on the queue", "the transfers not complete when they were sent", "the error code"),
)


def _enqueued(sends: list[str], limits: dict[str, int]) -> list[int]:
    bench = Bench(BrokerOptions(flow_control="overflow-list"))
    for queue, limit in limits.items():
        bench.declare(queue, max_count=limit)
    for number, queue in enumerate(sends):
        bench.send(queue, [str(number)])
    return sorted(int(label) for queue in limits for label in bench.left(queue))


def _fitting(sends: list[str], limits: dict[str, int]) -> list[int]:
    return [n for n, queue in enumerate(sends) if sends[: n + 1].count(queue) <= limits[queue]]


def _first_that_fails(sends: list[str], limits: dict[str, int]) -> int:
    fitting = _fitting(sends, limits)
    return next((n for n in range(len(sends)) if n not in fitting), len(sends))


ON_THE_QUEUES = Exercise(
    "on_the_queues",
    "The overflow list keeps the order",
    truth=_enqueued,
    cases=(
        (["X", "X", "Y", "Y"], {"X": 1, "Y": 9}),
        (["X", "Y", "X", "Y", "X"], {"X": 1, "Y": 9}),
        (["Y", "Y", "X"], {"X": 5, "Y": 1}),
        (["X", "Y"], {"X": 2, "Y": 2}),
        (["X", "X", "X", "Y", "Y"], {"X": 2, "Y": 1}),
        (["Y", "X", "X", "Y", "Z"], {"X": 1, "Y": 5, "Z": 5}),
    ),
    misconceptions={
        "other queues go on": Misconception(
            _fitting,
            "once the list holds anything, every later message of that session goes to its end, those for "
            "empty queues too (ALT-06).",
        ),
        "the list empties itself": Misconception(
            lambda sends, limits: list(range(len(sends))),
            "the head of the list is only routed when its queue has room, and no consumer has read anything "
            "(ALT-06).",
        ),
        "one message overshoots": Misconception(
            lambda sends, limits: list(range(min(len(sends), _first_that_fails(sends, limits) + 1))),
            "the message that does not fit is the first on the list; it is not on the queue (ALT-02, "
            "ALT-06).",
        ),
    },
    hints=(
        "The proof of concept kept each producer's messages in order. What follows for those behind?",
        "Everything after the first message that does not fit is on the list.",
        "The numbers before the first n for which sends[:n + 1].count(sends[n]) > limits[sends[n]].",
    ),
    rules=("ALT-02", "ALT-06"),
)

EXERCISES = (WHAT_HAPPENS, ON_THE_QUEUES)
