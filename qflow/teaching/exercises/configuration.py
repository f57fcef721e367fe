"""Exercises on configuration: defaults, spellings, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import floor
from typing import Any

from qflow.broker import BrokerOptions
from qflow.broker.errors import AmqpException
from qflow.teaching.exercise import FINE, Exercise, Misconception, fine
from qflow.teaching.exercises.bench import Bench

Arguments = dict[str, Any]


def measure(bench: Bench, queue: str, most: int) -> tuple[int, int]:
    """Fill a queue until it turns ON, and drain it until OFF; (0, 0) if it never turns ON below `most`."""
    while not bench.is_on(queue):
        if bench.depth(queue) >= most:
            return 0, 0
        bench.send(queue)
    on = bench.depth(queue)
    reader = bench.reader(queue)
    while bench.is_on(queue):
        reader.take(1)
    return on, bench.depth(queue)


def _default_thresholds(limit: int, stop_percent: int, resume_percent: int) -> tuple[int, int]:
    options = BrokerOptions(
        default_flow_stop_threshold=stop_percent, default_flow_resume_threshold=resume_percent
    )
    bench = Bench(options)
    bench.declare("q", max_count=limit, max_size=0)
    on, off = measure(bench, "q", limit)
    return on - 1, off + 1


DEFAULT_THRESHOLDS = Exercise(
    "default_thresholds",
    "From percent to messages",
    truth=_default_thresholds,
    cases=(
        (100, 90, 75),
        (10, 80, 70),
        (7, 80, 70),
        (4, 80, 70),
        (90, 80, 70),
        (180, 80, 70),
        (33, 85, 50),
        (6, 75, 60),
        (50, 97, 73),
    ),
    misconceptions=(
        Misconception(
            "both are rounded",
            lambda limit, stop, resume: (floor(limit * stop / 100 + 0.5), floor(limit * resume / 100 + 0.5)),
            "stop is rounded half up, but resume is cut off (FC-02).",
        ),
        Misconception(
            "both are cut off",
            lambda limit, stop, resume: (limit * stop // 100, limit * resume // 100),
            "resume is cut off, but stop is rounded half up (FC-02).",
        ),
        Misconception(
            "resume is a share of stop",
            lambda limit, stop, resume: (
                floor(limit * stop / 100 + 0.5),
                int(floor(limit * stop / 100 + 0.5) * resume / 100),
            ),
            "both percentages are of the queue's limit (FC-02).",
        ),
        Misconception(
            "exact arithmetic",
            lambda limit, stop, resume: (
                floor(Fraction(limit * stop, 100) + Fraction(1, 2)),
                floor(Fraction(limit * resume, 100)),
            ),
            "the broker multiplies by resume/100 in floating point, where 0.7 is a little less than 7/10; so "
            "70 % "
            "of 90 is cut to 62 (FC-04).",
        ),
    ),
    hints=(
        "90 % and 75 % of 10,000 come out even. Try 7: one of the two is rounded, the other cut off.",
        "The factor comes first: limit * (percent / 100), as floating point numbers. Stop is rounded half "
        "up.",
        "floor(limit * (stop / 100) + 0.5) and floor(limit * (resume / 100)).",
    ),
    rules=("FC-02", "FC-04"),
)


def _declared(answer: Callable[..., Arguments], limit: int, stop: int, resume: int) -> str:
    arguments, bench = answer(limit, stop, resume), Bench()
    if refusal := bench.refusal("q", arguments):
        return refusal
    on, off = measure(bench, "q", limit + 50)
    got = f"ON at {on}, OFF at {off}" if on else "never ON"
    if (on, off) != (stop + 1, resume - 1):
        return f"{got}, where it should be ON at {stop + 1}, OFF at {resume - 1}"
    try:
        bench.send("q", limit + 1)
    except AmqpException:
        return FINE if bench.depth("q") == limit else f"the limit is {bench.depth('q')}, not {limit}"
    return f"the thresholds are right, but more than {limit} messages are allowed"


DECLARE_ARGUMENTS = Exercise(
    "declare_arguments",
    "Thresholds in queue.declare",
    truth=fine,
    outcome=_declared,
    cases=((1000, 900, 500), (100, 90, 75), (20, 10, 10), (12, 9, 1)),
    misconceptions=(
        Misconception(
            "the tool's names are the broker's keys",
            lambda limit, stop, resume: {
                "max-queue-count": limit,
                "flow-stop-count": stop,
                "flow-resume-count": resume,
            },
            "those are options of qpid-config. The keys in queue.declare are written qpid.flow_stop_count "
            "and so "
            "on, and unknown keys are accepted without a word (CF-02).",
            sign=lambda given: any(not key.startswith("qpid.") for key in given),
        ),
        Misconception(
            "a hyphen is as good as an underscore",
            lambda limit, stop, resume: {
                "qpid.max-count": limit,
                "qpid.flow-stop-count": stop,
                "qpid.flow-resume-count": resume,
            },
            "the keys have underscores; with hyphens they are unknown keys, which are accepted silently "
            "(CF-02).",
            sign=lambda given: any("-" in key for key in given),
        ),
        Misconception(
            "bytes instead of messages",
            lambda limit, stop, resume: {
                "qpid.max_count": limit,
                "qpid.flow_stop_size": stop,
                "qpid.flow_resume_size": resume,
            },
            "the keys ending in _size are in bytes; messages are counted by those ending in _count (FC-01).",
        ),
        Misconception(
            "the limit sets itself",
            lambda limit, stop, resume: {"qpid.flow_stop_count": stop, "qpid.flow_resume_count": resume},
            "without qpid.max_count there is no limit in messages (LP-01).",
        ),
        Misconception(
            "a stop value alone",
            lambda limit, stop, resume: {"qpid.max_count": limit, "qpid.flow_stop_count": stop},
            "the resume value then keeps its default, 70 % of the limit, which may even be refused (FC-07).",
        ),
    ),
    hints=(
        "Three keys are needed. All of them begin with qpid. and have underscores.",
        "qpid.max_count for the limit; the others are qpid.flow_ and then stop or resume, and then the unit.",
        '{"qpid.max_count": limit, "qpid.flow_stop_count": …, …}',
    ),
    rules=("FC-01", "CF-02", "LP-01"),
)


def _is_accepted(arguments: dict[str, int]) -> bool:
    try:
        Bench().declare("q", **arguments)
    except AmqpException:
        return False
    return True


def _lone(arguments: dict[str, int], default_share: float, strict: bool = False) -> bool:
    limit = arguments.get("max_count", 0)
    stop = arguments.get("flow_stop_count", 0)
    resume = arguments.get("flow_resume_count", int(limit * default_share))
    if not stop:
        return True
    return resume <= stop and (not limit or (stop < limit if strict else stop <= limit))


IS_ACCEPTED = Exercise(
    "is_accepted",
    "A legal stop value that is refused",
    truth=_is_accepted,
    cases=(
        ({"max_count": 100, "flow_stop_count": 5},),
        ({"max_count": 100, "flow_stop_count": 69},),
        ({"max_count": 100, "flow_stop_count": 70},),
        ({"max_count": 100, "flow_stop_count": 100},),
        ({"max_count": 100, "flow_stop_count": 101},),
        ({"max_count": 100, "flow_stop_count": 5, "flow_resume_count": 0},),
        ({"max_count": 100, "flow_stop_count": 75, "flow_resume_count": 75},),
        ({"flow_stop_count": 10},),
        ({"flow_stop_count": 10, "flow_resume_count": 11},),
        ({"max_count": 10, "flow_stop_count": 0, "flow_resume_count": 500},),
    ),
    misconceptions=(
        Misconception(
            "a value not given does not take part",
            lambda arguments: _lone(arguments, 0),
            "the default resume, 70 % of the limit, takes part; a lone stop below it is refused (FC-07).",
        ),
        Misconception(
            "stop has to be less than the limit",
            lambda arguments: _lone(arguments, 0.7, strict=True),
            "the error text says so, but stop equal to the limit is accepted (FC-05).",
        ),
        Misconception(
            "resume has to be less than stop",
            lambda arguments: (
                _lone(arguments, 0.7)
                and arguments.get("flow_resume_count", 70) != arguments["flow_stop_count"]
            ),
            "resume equal to stop is fine (FC-05).",
        ),
        Misconception(
            "a zero stop is checked too",
            lambda arguments: (
                arguments.get("flow_resume_count", int(arguments.get("max_count", 0) * 0.7))
                <= arguments["flow_stop_count"]
                <= arguments.get("max_count", 1000)
            ),
            "a unit whose stop is 0 is switched off, and its other values are not looked at (FC-05).",
        ),
    ),
    hints=(
        "Which resume value is in force if none is given?",
        "In order: stop 0, accepted. Resume (given, or int(max_count * 0.7)) above stop, refused. Then the "
        "limit.",
        "Stop may equal both resume and the limit. No max_count: the default resume is 0, and no limit.",
    ),
    rules=("FC-05", "FC-07"),
)

EXERCISES = (DEFAULT_THRESHOLDS, DECLARE_ARGUMENTS, IS_ACCEPTED)
