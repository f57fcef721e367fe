"""Exercises on switching flow control off."""

from __future__ import annotations

from collections.abc import Callable

from qflow.broker import BrokerOptions
from qflow.broker.errors import AmqpException, StartupError
from qflow.teaching.exercise import FINE, Exercise, Misconception, fine
from qflow.teaching.exercises.bench import Bench
from qflow.teaching.exercises.configuration import Arguments, measure


def _switched_off(answer: Callable[..., Arguments], limit: int, volume: int) -> str:
    arguments = answer(limit, volume)
    for unit, size in (("messages", 40), ("bytes", 3 * volume // limit)):
        bench = Bench()
        if refusal := bench.refusal("q", arguments):
            return refusal
        code = 0
        try:
            for _ in range(limit + 1):
                bench.send("q", size=size)
                if bench.is_on("q"):
                    return f"flow control turns ON when the queue fills with {unit}"
        except AmqpException as error:
            code = error.code
        if code != 506:
            return f"the limit in {unit} is gone: nothing is refused any more"
        if bench.depth("q") != min(limit, volume // size):
            return f"the limit in {unit} is not the one that was asked for"
    return FINE


SWITCHED_OFF = Exercise(
    "switched_off",
    "Switching flow control off, for one queue",
    truth=fine,
    outcome=_switched_off,
    cases=((100, 10000), (50, 9000), (20, 5000)),
    misconceptions=(
        Misconception(
            "one zero is enough",
            lambda limit, volume: {
                "qpid.max_count": limit,
                "qpid.max_size": volume,
                "qpid.flow_stop_count": 0,
            },
            "the threshold in bytes is still there; both stop values have to be 0 (FC-08).",
        ),
        Misconception(
            "zero bytes is enough",
            lambda limit, volume: {
                "qpid.max_count": limit,
                "qpid.max_size": volume,
                "qpid.flow_stop_size": 0,
            },
            "the threshold in messages is still there; both stop values have to be 0 (FC-08).",
        ),
        Misconception(
            "zero for resume",
            lambda limit, volume: {
                "qpid.max_count": limit,
                "qpid.max_size": volume,
                "qpid.flow_resume_count": 0,
                "qpid.flow_resume_size": 0,
            },
            "a resume value of 0 only means the same as stop (FC-05); the stop values switch it off (FC-08).",
            sign=lambda given: "qpid.flow_stop_count" not in given and given["qpid.flow_resume_count"] == 0,
        ),
        Misconception(
            "no limit, no flow control",
            lambda limit, volume: {"qpid.max_count": 0, "qpid.max_size": 0},
            "that does away with the limits too, and they should stay (LP-01).",
        ),
        Misconception(
            "a ring never stops anybody",
            lambda limit, volume: {
                "qpid.max_count": limit,
                "qpid.max_size": volume,
                "qpid.policy_type": "ring",
            },
            "true, but a ring drops old messages where the task wants a refusal (FC-03, LP-10).",
            sign=lambda given: given["qpid.policy_type"] == "ring",
        ),
    ),
    hints=(
        "A queue has two stop thresholds, one for each unit. What if only one of them is switched off?",
        "Set qpid.flow_stop_count and qpid.flow_stop_size; the limits stay as they are.",
        "Both of them to 0, beside qpid.max_count and qpid.max_size.",
    ),
    rules=("FC-08", "FC-09"),
)


def _broker_without(answer: Callable[..., dict[str, int]], limit: int, manual: int) -> str:
    given = answer(limit, manual)
    if not (isinstance(given, dict) and set(given) == {"broker", "queue"}):
        return f'the answer is a dict with the keys "broker" and "queue"; got {given!r}'
    try:
        options = BrokerOptions(**given["broker"])  # type: ignore[arg-type]
    except (StartupError, TypeError, ValueError) as error:
        return f"the broker does not start: {error}"
    bench = Bench(options)
    bench.declare("plain", max_count=limit)
    if measure(bench, "plain", limit)[0]:
        return "a queue with nothing but a limit still gets flow control"
    try:
        bench.admin.queue_declare("manual", given["queue"])  # type: ignore[arg-type]
    except AmqpException as error:
        return f"the broker refuses the second queue: {error.code} {error}"
    found = measure(bench, "manual", limit + 50)[0]
    return FINE if found == manual + 1 else f"the second queue turns ON at {found}, not at {manual + 1}"


def _both(broker: dict[str, int]) -> Callable[..., dict[str, dict[str, int]]]:
    return lambda limit, manual: {
        "broker": dict(broker),
        "queue": {"qpid.max_count": limit, "qpid.flow_stop_count": manual},
    }


BROKER_WITHOUT_DEFAULTS = Exercise(
    "broker_without_defaults",
    "Switching the defaults off, for the whole broker",
    truth=fine,
    outcome=_broker_without,
    cases=((100, 90), (50, 20), (10, 3)),
    misconceptions=(
        Misconception(
            "zero for stop is enough",
            _both({"default_flow_stop_threshold": 0}),
            "resume then stands at 70, above stop, and the broker does not start. Both have to be 0 (FC-10).",
        ),
        Misconception(
            "zero for resume is enough",
            _both({"default_flow_resume_threshold": 0}),
            "that only makes resume the same as stop; queues still stop at 80 % (FC-10, FC-05).",
        ),
        Misconception(
            "off is off for every queue",
            lambda limit, manual: {
                "broker": {"default_flow_stop_threshold": 0, "default_flow_resume_threshold": 0},
                "queue": {"qpid.max_count": limit},
            },
            "only the defaults are off. A queue that names its own stop threshold still has flow control "
            "(FC-10).",
            sign=lambda given: "qpid.flow_stop_count" not in given["queue"],
        ),
        Misconception(
            "the limit is the switch",
            _both({"default_queue_limit": 0}),
            "that removes the default limit in bytes; the thresholds of a limit in messages stay (LP-01, "
            "FC-02).",
            sign=lambda given: "default_queue_limit" in given["broker"],
        ),
    ),
    hints=(
        "Two options of BrokerOptions, named like the broker's, with underscores.",
        "default_flow_stop_threshold and default_flow_resume_threshold; a broker with resume above stop does "
        "not "
        "start.",
        "Both 0; and the second queue gets its limit and its own qpid.flow_stop_count.",
    ),
    rules=("FC-10", "FC-05"),
)

EXERCISES = (SWITCHED_OFF, BROKER_WITHOUT_DEFAULTS)
