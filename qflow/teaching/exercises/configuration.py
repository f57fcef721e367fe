"""Exercises on configuration: default thresholds, how each tool spells them, and how to switch them off."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import floor
from typing import Any

from qflow.broker import BrokerOptions
from qflow.broker.errors import AmqpException, StartupError
from qflow.configuration.declaration import ConfigurationError, Declaration
from qflow.configuration.notations import read_line
from qflow.teaching.bench import Bench
from qflow.teaching.exercise import FINE, Exercise, Misconception, fine

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
    bench = Bench(options).declare("q", max_count=limit, max_size=0)
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
    misconceptions={
        "both are rounded": Misconception(
            lambda limit, stop, resume: (floor(limit * stop / 100 + 0.5), floor(limit * resume / 100 + 0.5)),
            "stop is rounded half up, but resume is cut off (FC-02).",
        ),
        "both are cut off": Misconception(
            lambda limit, stop, resume: (limit * stop // 100, limit * resume // 100),
            "resume is cut off, but stop is rounded half up (FC-02).",
        ),
        "resume is a share of stop": Misconception(
            lambda limit, stop, resume: (
                floor(limit * stop / 100 + 0.5),
                int(floor(limit * stop / 100 + 0.5) * resume / 100),
            ),
            "both percentages are of the queue's limit (FC-02).",
        ),
        "exact arithmetic": Misconception(
            lambda limit, stop, resume: (
                floor(Fraction(limit * stop, 100) + Fraction(1, 2)),
                floor(Fraction(limit * resume, 100)),
            ),
            "the broker multiplies by resume/100 in floating point, where 0.7 is a little less than 7/10; "
            "so 70 % of 90 is cut to 62 (FC-04).",
        ),
    },
    hints=(
        "90 % and 75 % of 10,000 come out even. Try 7: one of the two is rounded, the other cut off.",
        "The factor comes first: limit * (percent / 100), as floating point numbers. Stop is rounded half "
        "up.",
        "floor(limit * (stop / 100) + 0.5) and floor(limit * (resume / 100)).",
    ),
    rules=("FC-02", "FC-04"),
    parts=("the stop threshold", "the resume threshold"),
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
    misconceptions={
        "the tool's names are the broker's keys": Misconception(
            lambda limit, stop, resume: {
                "max-queue-count": limit,
                "flow-stop-count": stop,
                "flow-resume-count": resume,
            },
            "those are options of qpid-config. The keys in queue.declare are written qpid.flow_stop_count "
            "and so on, and unknown keys are accepted without a word (CF-02).",
            sign=lambda given: any(not key.startswith("qpid.") for key in given),
        ),
        "a hyphen is as good as an underscore": Misconception(
            lambda limit, stop, resume: {
                "qpid.max-count": limit,
                "qpid.flow-stop-count": stop,
                "qpid.flow-resume-count": resume,
            },
            "the keys have underscores; with hyphens they are unknown keys, which are accepted silently "
            "(CF-02).",
            sign=lambda given: any("-" in key for key in given),
        ),
        "bytes instead of messages": Misconception(
            lambda limit, stop, resume: {
                "qpid.max_count": limit,
                "qpid.flow_stop_size": stop,
                "qpid.flow_resume_size": resume,
            },
            "the keys ending in _size are in bytes; messages are counted by those ending in _count (FC-01).",
        ),
        "the limit sets itself": Misconception(
            lambda limit, stop, resume: {"qpid.flow_stop_count": stop, "qpid.flow_resume_count": resume},
            "without qpid.max_count there is no limit in messages (LP-01).",
        ),
        "a stop value alone": Misconception(
            lambda limit, stop, resume: {"qpid.max_count": limit, "qpid.flow_stop_count": stop},
            "the resume value then keeps its default, 70 % of the limit, which may even be refused (FC-07).",
        ),
    },
    hints=(
        "Three keys are needed. All of them begin with qpid. and have underscores.",
        "qpid.max_count for the limit; the others are qpid.flow_ and then stop or resume, and then the unit.",
        '{"qpid.max_count": limit, "qpid.flow_stop_count": …, …}',
    ),
    rules=("FC-01", "CF-02", "LP-01"),
    lab="configuration",
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
    misconceptions={
        "a value not given does not take part": Misconception(
            lambda arguments: _lone(arguments, 0),
            "the default resume, 70 % of the limit, takes part; a lone stop below it is refused (FC-07).",
        ),
        "stop has to be less than the limit": Misconception(
            lambda arguments: _lone(arguments, 0.7, strict=True),
            "the error text says so, but stop equal to the limit is accepted (FC-05).",
        ),
        "resume has to be less than stop": Misconception(
            lambda arguments: (
                _lone(arguments, 0.7)
                and arguments.get("flow_resume_count", 70) != arguments["flow_stop_count"]
            ),
            "resume equal to stop is fine (FC-05).",
        ),
        "a zero stop is checked too": Misconception(
            lambda arguments: (
                arguments.get("flow_resume_count", int(arguments.get("max_count", 0) * 0.7))
                <= arguments["flow_stop_count"]
                <= arguments.get("max_count", 1000)
            ),
            "a unit whose stop is 0 is switched off, and its other values are not looked at (FC-05).",
        ),
    },
    hints=(
        "Which resume value is in force if none is given?",
        "In order: stop 0, accepted. Resume (given, or int(max_count * 0.7)) above stop, refused. Then the "
        "limit.",
        "Stop may equal both resume and the limit. No max_count: the default resume is 0, and no limit.",
    ),
    rules=("FC-05", "FC-07"),
    lab="configuration",
)


def typed(bench: Bench, line: object, queue: str) -> Declaration | str:
    """Return what a line of qpid-config declares, as :func:`accepted` does; else what is wrong with it."""
    if not (isinstance(line, str) and line.startswith("qpid-config add queue ")):
        return f"a line that begins with 'qpid-config add queue' is needed; got {line!r}"
    try:
        return accepted(bench, read_line(line), queue)
    except ConfigurationError as error:
        return f"the tool refuses it: {error}"


def accepted(bench: Bench, declaration: Declaration, queue: str) -> Declaration | str:
    """Return the declaration if the broker takes it and its queue has that name; else what is wrong."""
    if refusal := bench.refusal(declaration.name, declaration.arguments):
        return refusal
    if declaration.name != queue:
        return f"the queue is called {declaration.name}, not {queue}"
    return declaration


def _tool_line(answer: Callable[..., str], queue: str, limit: int, stop: int, resume: int) -> str:
    bench = Bench()
    declaration = typed(bench, answer(queue, limit, stop, resume), queue)
    if isinstance(declaration, str):
        return declaration
    on, off = measure(bench, queue, limit)
    if declaration.arguments.get("qpid.max_count") != limit:
        return "the queue has not the limit in messages that was asked for"
    return FINE if (on, off) == (stop + 1, resume - 1) else f"ON at {on} and OFF at {off} messages"


def _line(limit: str, stop: str, resume: str) -> Callable[..., str]:
    return lambda queue, n, s, r: f"qpid-config add queue {queue} {limit}={n} {stop}={s} {resume}={r}"


TOOL_LINE = Exercise(
    "tool_line",
    "The same with qpid-config",
    truth=fine,
    outcome=_tool_line,
    cases=(("orders", 1000, 900, 500), ("q", 100, 90, 75), ("small", 20, 10, 10)),
    misconceptions={
        "the broker's keys are the tool's options": Misconception(
            _line("--qpid.max_count", "--qpid.flow_stop_count", "--qpid.flow_resume_count"),
            "qpid-config has options of its own, with hyphens: --max-queue-count, --flow-stop-count.",
            sign=lambda line: "qpid." in line,
        ),
        "an underscore is as good as a hyphen": Misconception(
            _line("--max_queue_count", "--flow_stop_count", "--flow_resume_count"),
            "options of the tool have hyphens; the keys in queue.declare have underscores.",
            sign=lambda line: "_" in line,
        ),
        "size is the number of messages": Misconception(
            _line("--max-queue-size", "--flow-stop-size", "--flow-resume-size"),
            "the options with size count bytes; messages are counted by those with count (FC-01).",
            sign=lambda line: "-size" in line,
        ),
        "the limit is called max-count": Misconception(
            _line("--max-count", "--flow-stop-count", "--flow-resume-count"),
            "the tool's option is --max-queue-count.",
            sign=lambda line: "--max-count" in line,
        ),
    },
    hints=(
        "qpid-config add queue NAME, and then three options, each with its value.",
        "--max-queue-count, --flow-stop-count and one more.",
        "qpid-config add queue NAME --max-queue-count=… --flow-stop-count=… --flow-resume-count=…",
    ),
    rules=("FC-01", "LP-01"),
    lab="configuration",
)


def _broker_start(answer: Callable[..., list[str]], stop: int, resume: int, group: str) -> str:
    given = answer(stop, resume, group)
    if not (isinstance(given, list | tuple) and all(isinstance(option, str) for option in given)):
        return f"a list of options is needed, each a text; got {given!r}"
    try:
        options = BrokerOptions.parse(given)
    except StartupError as error:
        return f"qpidd does not start: {error}"
    found = (
        options.default_flow_stop_threshold,
        options.default_flow_resume_threshold,
        options.default_message_group,
    )
    wanted = (stop, resume, group)
    return FINE if found == wanted else f"qpidd starts with {found} in place of {wanted}"


BROKER_START = Exercise(
    "broker_start",
    "Starting the broker with other defaults",
    truth=fine,
    outcome=_broker_start,
    cases=((90, 75, "EMPTY-GROUP"), (50, 50, "none"), (100, 0, "no cart")),
    misconceptions={
        "the manual's example of a default group": Misconception(
            lambda stop, resume, group: [
                f"--default-flow-stop-threshold={stop}",
                f"--default-flow-resume-threshold={resume}",
                f"--default-msg-group={group}",
            ],
            "that option does not exist; the text of the same manual has it right: default-message-group.",
            sign=lambda given: any("msg-group" in option for option in given),
        ),
        "a threshold is a share from 0 to 1": Misconception(
            lambda stop, resume, group: [
                f"--default-flow-stop-threshold={stop / 100}",
                f"--default-flow-resume-threshold={resume / 100}",
                f"--default-message-group={group}",
            ],
            "they are percentages, whole numbers from 0 to 100 (FC-10).",
            sign=lambda given: any("threshold=0." in option or "threshold=1.0" in option for option in given),
        ),
        "options have underscores": Misconception(
            lambda stop, resume, group: [
                f"--default_flow_stop_threshold={stop}",
                f"--default_flow_resume_threshold={resume}",
                f"--default_message_group={group}",
            ],
            "on the command line they have hyphens. (In Python, BrokerOptions has underscores.)",
            sign=lambda given: any("default_" in option for option in given),
        ),
        "a queue's options are the broker's": Misconception(
            lambda stop, resume, group: [f"--flow-stop-count={stop}", f"--flow-resume-count={resume}"],
            "those are options of qpid-config, for one queue. The broker's begin with --default- (FC-10).",
            sign=lambda given: any(option.startswith("--flow") for option in given),
        ),
    },
    hints=(
        "Three options, and all of their names begin with --default-.",
        "--default-flow-stop-threshold, --default-flow-resume-threshold and --default-message-group.",
        '[f"--default-flow-stop-threshold={stop}", …, f"--default-message-group={group}"]',
    ),
    rules=("FC-10", "MG-05"),
    lab="configuration",
)


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
    misconceptions={
        "one zero is enough": Misconception(
            lambda limit, volume: {
                "qpid.max_count": limit,
                "qpid.max_size": volume,
                "qpid.flow_stop_count": 0,
            },
            "the threshold in bytes is still there; both stop values have to be 0 (FC-08).",
        ),
        "zero bytes is enough": Misconception(
            lambda limit, volume: {
                "qpid.max_count": limit,
                "qpid.max_size": volume,
                "qpid.flow_stop_size": 0,
            },
            "the threshold in messages is still there; both stop values have to be 0 (FC-08).",
        ),
        "zero for resume": Misconception(
            lambda limit, volume: {
                "qpid.max_count": limit,
                "qpid.max_size": volume,
                "qpid.flow_resume_count": 0,
                "qpid.flow_resume_size": 0,
            },
            "a resume value of 0 only means the same as stop (FC-05); the stop values switch it off (FC-08).",
            sign=lambda given: "qpid.flow_stop_count" not in given and given["qpid.flow_resume_count"] == 0,
        ),
        "no limit, no flow control": Misconception(
            lambda limit, volume: {"qpid.max_count": 0, "qpid.max_size": 0},
            "that does away with the limits too, and they should stay (LP-01).",
        ),
        "a ring never stops anybody": Misconception(
            lambda limit, volume: {
                "qpid.max_count": limit,
                "qpid.max_size": volume,
                "qpid.policy_type": "ring",
            },
            "true, but a ring drops old messages where the task wants a refusal (FC-03, LP-10).",
            sign=lambda given: given["qpid.policy_type"] == "ring",
        ),
    },
    hints=(
        "A queue has two stop thresholds, one for each unit. What if only one of them is switched off?",
        "Set qpid.flow_stop_count and qpid.flow_stop_size; the limits stay as they are.",
        "Both of them to 0, beside qpid.max_count and qpid.max_size.",
    ),
    rules=("FC-08", "FC-09"),
    lab="configuration",
)


def _broker_without(answer: Callable[..., dict[str, int]], limit: int, manual: int) -> str:
    given = answer(limit, manual)
    if not (isinstance(given, dict) and set(given) == {"broker", "queue"}):
        return f'the answer is a dict with the keys "broker" and "queue"; got {given!r}'
    try:
        options = BrokerOptions(**given["broker"])  # type: ignore[arg-type]
    except (StartupError, TypeError, ValueError) as error:
        return f"the broker does not start: {error}"
    bench = Bench(options).declare("plain", max_count=limit)
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
    misconceptions={
        "zero for stop is enough": Misconception(
            _both({"default_flow_stop_threshold": 0}),
            "resume is then 70, above stop, and the broker does not start. Both have to be 0 (FC-10).",
        ),
        "zero for resume is enough": Misconception(
            _both({"default_flow_resume_threshold": 0}),
            "that only makes resume the same as stop; queues still stop at 80 % (FC-10, FC-05).",
        ),
        "off is off for every queue": Misconception(
            lambda limit, manual: {
                "broker": {"default_flow_stop_threshold": 0, "default_flow_resume_threshold": 0},
                "queue": {"qpid.max_count": limit},
            },
            "only the defaults are off. A queue that names its own stop threshold still has flow control "
            "(FC-10).",
            sign=lambda given: "qpid.flow_stop_count" not in given["queue"],
        ),
        "the limit is the switch": Misconception(
            _both({"default_queue_limit": 0}),
            "that removes the default limit in bytes; the thresholds of a limit in messages stay (LP-01, "
            "FC-02).",
            sign=lambda given: "default_queue_limit" in given["broker"],
        ),
    },
    hints=(
        "Two options of BrokerOptions, named like the broker's, with underscores.",
        "default_flow_stop_threshold and default_flow_resume_threshold; a broker with resume above stop "
        "does not start.",
        "Both 0; and the second queue gets its limit and its own qpid.flow_stop_count.",
    ),
    rules=("FC-10", "FC-05"),
    lab="configuration",
)

EXERCISES = (
    DEFAULT_THRESHOLDS,
    DECLARE_ARGUMENTS,
    IS_ACCEPTED,
    TOOL_LINE,
    BROKER_START,
    SWITCHED_OFF,
    BROKER_WITHOUT_DEFAULTS,
)
