"""Exercises on configuration: default thresholds, the spelling of each tool, and message groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from fractions import Fraction
from math import ceil, floor
from typing import Any

from qflow.broker import BrokerOptions
from qflow.broker.errors import AmqpException, StartupError
from qflow.configuration.declaration import ConfigurationError, Declaration
from qflow.configuration.notations import read_address, read_line
from qflow.teaching.exercise import FINE, Answer, design_task, exercise
from qflow.teaching.trial import Trial

_Arguments = dict[str, Any]


def _qpid(**short: object) -> _Arguments:
    """Return declare arguments, whose names are given without the prefix ``qpid.``."""
    return {f"qpid.{name}": value for name, value in short.items()}


def _round(limit: int, percent: int) -> int:
    return floor(limit * percent / 100 + 0.5)


@exercise(
    misconceptions={
        "both are rounded": lambda limit, stop, resume: (_round(limit, stop), _round(limit, resume)),
        "both are rounded up": lambda limit, stop, resume: (
            ceil(limit * stop / 100),
            ceil(limit * resume / 100),
        ),
        "a threshold has decimals": lambda limit, stop, resume: (limit * stop / 100, limit * resume / 100),
        "a half is rounded to the even number": lambda limit, stop, resume: (
            round(limit * (stop / 100)),
            floor(limit * (resume / 100)),
        ),
        "both by Python's round": lambda limit, stop, resume: (
            round(limit * stop / 100),
            round(limit * resume / 100),
        ),
        "both are cut off": lambda limit, stop, resume: (limit * stop // 100, limit * resume // 100),
        "resume is a share of stop": lambda limit, stop, resume: (
            _round(limit, stop),
            int(_round(limit, stop) * resume / 100),
        ),
        "exact arithmetic": lambda limit, stop, resume: (
            floor(Fraction(limit * stop, 100) + Fraction(1, 2)),
            floor(Fraction(limit * resume, 100)),
        ),
    },
)
def _default_thresholds(limit: int, stop_percent: int, resume_percent: int) -> tuple[int, int]:
    options = BrokerOptions(
        default_flow_stop_threshold=stop_percent, default_flow_resume_threshold=resume_percent
    )
    trial = Trial(options).declare("q", max_count=limit, max_size=0)
    on, off = trial.turns("q", limit)
    return on - 1, off + 1


def _keys(*names: str) -> Callable[..., _Arguments]:
    """Return a function that returns the first values of a case as a dict with the given keys."""
    return lambda *values: dict(zip(names, values, strict=False))


@design_task(
    misconceptions={
        "the tool's names are the broker's keys": (
            _keys("max-queue-count", "flow-stop-count", "flow-resume-count"),
            lambda given: any(not key.startswith("qpid.") for key in given),
        ),
        "a hyphen is as good as an underscore": (
            _keys("qpid.max-count", "qpid.flow-stop-count", "qpid.flow-resume-count"),
            lambda given: any("-" in key for key in given),
        ),
        "bytes instead of messages": _keys("qpid.max_count", "qpid.flow_stop_size", "qpid.flow_resume_size"),
        "the limit sets itself": lambda limit, stop, resume: _qpid(
            flow_stop_count=stop, flow_resume_count=resume
        ),
        "a stop value alone": _keys("qpid.max_count", "qpid.flow_stop_count"),
    },
)
def _declare_arguments(answer: Answer, limit: int, stop: int, resume: int) -> str:
    arguments, trial = answer(limit, stop, resume), Trial()
    if refusal := trial.refusal("q", arguments):
        return refusal
    on, off = trial.turns("q", limit + 50)
    got = f"ON at {on}, OFF at {off}" if on else "never ON"
    if (on, off) != (stop + 1, resume - 1):
        return f"{got}, where it should be ON at {stop + 1}, OFF at {resume - 1}"
    if not trial.code_of(lambda: trial.send("q", limit + 1)):
        return f"the thresholds are right, but more than {limit} messages are allowed"
    return FINE if trial.depth("q") == limit else f"the limit is {trial.depth('q')}, not {limit}"


def _check_alone(arguments: dict[str, int], default_share: float, strict: bool = False) -> bool:
    limit = arguments.get("max_count", 0)
    stop = arguments.get("flow_stop_count", 0)
    resume = arguments.get("flow_resume_count", int(limit * default_share))
    if not stop:
        return True
    return resume <= stop and (not limit or (stop < limit if strict else stop <= limit))


@exercise(
    misconceptions={
        "a value not given does not take part": lambda arguments: _check_alone(arguments, 0),
        "stop has to be less than the limit": lambda arguments: _check_alone(arguments, 0.7, strict=True),
        "resume has to be less than stop": lambda arguments: (
            _check_alone(arguments, 0.7)
            and arguments.get("flow_resume_count", 70) != arguments["flow_stop_count"]
        ),
        "a zero stop is checked too": lambda arguments: (
            arguments.get("flow_resume_count", int(arguments.get("max_count", 0) * 0.7))
            <= arguments["flow_stop_count"]
            <= arguments.get("max_count", 1000)
        ),
    },
)
def _is_accepted(arguments: dict[str, int]) -> bool:
    return not Trial().refusal("q", _qpid(**arguments))


def _declare_line(trial: Trial, line: object, queue: str) -> Declaration | str:
    """Return the declaration in a qpid-config line, or a sentence with the error in it."""
    if not (isinstance(line, str) and line.startswith("qpid-config add queue ")):
        return f"a line that begins with 'qpid-config add queue' is needed; got {line!r}"
    try:
        return _declare_queue(trial, read_line(line), queue)
    except ConfigurationError as error:
        return f"the tool refuses it: {error}"


def _declare_queue(trial: Trial, declaration: Declaration, queue: str) -> Declaration | str:
    """Return the declaration if the broker accepts it for that queue name, or else the error as text."""
    if refusal := trial.refusal(declaration.name, declaration.arguments):
        return refusal
    if declaration.name != queue:
        return f"the queue is called {declaration.name}, not {queue}"
    return declaration


def _line(limit: str, stop: str, resume: str) -> Callable[..., str]:
    return lambda queue, n, s, r: f"qpid-config add queue {queue} {limit}={n} {stop}={s} {resume}={r}"


@design_task(
    misconceptions={
        "the broker's keys are the tool's options": (
            _line("--qpid.max_count", "--qpid.flow_stop_count", "--qpid.flow_resume_count"),
            lambda line: "qpid." in line,
        ),
        "an underscore is as good as a hyphen": (
            _line("--max_queue_count", "--flow_stop_count", "--flow_resume_count"),
            lambda line: "_" in line,
        ),
        "size is the number of messages": (
            _line("--max-queue-size", "--flow-stop-size", "--flow-resume-size"),
            lambda line: "-size" in line,
        ),
        "the limit is called max-count": (
            _line("--max-count", "--flow-stop-count", "--flow-resume-count"),
            lambda line: "--max-count" in line,
        ),
    },
)
def _tool_line(answer: Answer, queue: str, limit: int, stop: int, resume: int) -> str:
    trial = Trial()
    declaration = _declare_line(trial, answer(queue, limit, stop, resume), queue)
    if isinstance(declaration, str):
        return declaration
    on, off = trial.turns(queue, limit)
    if declaration.arguments.get("qpid.max_count") != limit:
        return "the queue lacks the required limit in messages"
    return FINE if (on, off) == (stop + 1, resume - 1) else f"ON at {on} and OFF at {off} messages"


def _options(stop: str, resume: str, group: str, of: int = 0) -> Callable[..., list[str]]:
    """Return a function that writes options with the given names; thresholds are divided by `of` unless 0."""
    return lambda s, r, g: [
        *(f"--{name}={value / of if of else value}" for name, value in ((stop, s), (resume, r))),
        f"--{group}={g}",
    ]


@design_task(
    misconceptions={
        "the manual's example of a default group": (
            _options("default-flow-stop-threshold", "default-flow-resume-threshold", "default-msg-group"),
            lambda given: any("msg-group" in option for option in given),
        ),
        "a threshold is a share from 0 to 1": (
            _options(
                "default-flow-stop-threshold", "default-flow-resume-threshold", "default-message-group", 100
            ),
            lambda given: any("threshold=0." in option or "threshold=1.0" in option for option in given),
        ),
        "options have underscores": (
            _options("default_flow_stop_threshold", "default_flow_resume_threshold", "default_message_group"),
            lambda given: any("default_" in option for option in given),
        ),
        "a queue's options are the broker's": (
            lambda stop, resume, group: [f"--flow-stop-count={stop}", f"--flow-resume-count={resume}"],
            lambda given: any(option.startswith("--flow") for option in given),
        ),
    },
)
def _broker_start(answer: Answer, stop: int, resume: int, group: str) -> str:
    given = answer(stop, resume, group)
    if not (isinstance(given, list | tuple) and all(isinstance(option, str) for option in given)):
        return f"a list of options is needed, each a text; got {given!r}"
    try:
        options = BrokerOptions.parse(given)
    except StartupError as error:
        return f"qpidd does not start: {error}"
    thresholds = options.default_flow_stop_threshold, options.default_flow_resume_threshold
    found, wanted = (*thresholds, options.default_message_group), (stop, resume, group)
    return FINE if found == wanted else f"qpidd starts with {found} in place of {wanted}"


def _limits_and(**short: object) -> Callable[[int, int], _Arguments]:
    return lambda limit, volume: _qpid(max_count=limit, max_size=volume, **short)


@design_task(
    misconceptions={
        "one zero is enough": _limits_and(flow_stop_count=0),
        "zero bytes is enough": _limits_and(flow_stop_size=0),
        "zero for resume": (
            _limits_and(flow_resume_count=0, flow_resume_size=0),
            lambda given: "qpid.flow_stop_count" not in given and given["qpid.flow_resume_count"] == 0,
        ),
        "no limit, no flow control": lambda limit, volume: _qpid(max_count=0, max_size=0),
        "a ring never stops anybody": (
            _limits_and(policy_type="ring"),
            lambda given: given["qpid.policy_type"] == "ring",
        ),
    },
)
def _switched_off(answer: Answer, limit: int, volume: int) -> str:
    arguments = answer(limit, volume)
    for unit, size in (("messages", 40), ("bytes", 3 * volume // limit)):
        trial = Trial()
        if refusal := trial.refusal("q", arguments):
            return refusal
        code = 0
        try:
            for _ in range(limit + 1):
                trial.send("q", size=size)
                if trial.is_on("q"):
                    return f"flow control turns ON when the queue fills with {unit}"
        except AmqpException as error:
            code = error.code
        if code != 506:
            return f"the limit in {unit} is gone: nothing is refused any more"
        if trial.depth("q") != min(limit, volume // size):
            return f"the limit in {unit} differs from the required one"
    return FINE


def _both(broker: dict[str, int]) -> Callable[..., dict[str, dict[str, int]]]:
    return lambda limit, manual: {
        "broker": dict(broker),
        "queue": {"qpid.max_count": limit, "qpid.flow_stop_count": manual},
    }


@design_task(
    misconceptions={
        "zero for stop is enough": _both({"default_flow_stop_threshold": 0}),
        "zero for resume is enough": _both({"default_flow_resume_threshold": 0}),
        "off is off for every queue": (
            lambda limit, manual: {
                "broker": {"default_flow_stop_threshold": 0, "default_flow_resume_threshold": 0},
                "queue": {"qpid.max_count": limit},
            },
            lambda given: "qpid.flow_stop_count" not in given["queue"],
        ),
        "the limit is the switch": (
            _both({"default_queue_limit": 0}),
            lambda given: "default_queue_limit" in given["broker"],
        ),
    },
)
def _broker_without_defaults(answer: Answer, limit: int, manual: int) -> str:
    given = answer(limit, manual)
    if not (isinstance(given, dict) and set(given) == {"broker", "queue"}):
        return f'the answer is a dict with the keys "broker" and "queue"; got {given!r}'
    try:
        options = BrokerOptions(**given["broker"])
    except (StartupError, TypeError, ValueError) as error:
        return f"the broker does not start: {error}"
    trial = Trial(options).declare("plain", max_count=limit)
    if trial.turns("plain", limit)[0]:
        return "a queue with nothing but a limit still gets flow control"
    try:
        trial.admin.queue_declare("manual", given["queue"])
    except AmqpException as error:
        return f"the broker refuses the second queue: {error.code} {error}"
    found = trial.turns("manual", limit + 50)[0]
    return FINE if found == manual + 1 else f"the second queue turns ON at {found}, not at {manual + 1}"


@design_task(
    misconceptions={
        "the key is enough": lambda header: {"qpid.group_header_key": header},
        "shared is enough": lambda header: {"qpid.shared_msg_group": 1},
        "the tool's names are the broker's keys": (
            lambda header: {"group-header": header, "shared-groups": True},
            lambda given: any(not key.startswith("qpid.") for key in given),
        ),
        "the header's name is the key": (
            lambda header: {f"qpid.{header}": 1, "qpid.shared_msg_group": 1},
            lambda given: "qpid.group_header_key" not in given and len(given) == 2,
        ),
    },
)
def _group_arguments(answer: Answer, header: str) -> str:
    trial = Trial()
    return trial.refusal("q", answer(header)) or _in_groups(trial, "q", header)


def _in_groups(trial: Trial, queue: str, header: str) -> str:
    """Return FINE if a queue has message groups: a second consumer gets no message of an owned group."""
    trial.send(queue, ["A-1", "A-2", "B-1"], header=header)
    trial.reader(queue, "first").fetch()
    got = trial.reader(queue, "second").fetch()
    return FINE if got == "B-1" else f"a second consumer gets {got} while A is owned, so there are no groups"


_GROUPS = "'qpid.group_header_key': '{header}', 'qpid.shared_msg_group': 1"


def _address(pattern: str) -> Callable[[str, str], str]:
    return lambda queue, header: f"{queue}; " + pattern.replace("{header}", header)


@design_task(
    misconceptions={
        "x-declare takes the arguments itself": (
            _address("{create: always, node: {x-declare: {" + _GROUPS + "}}}"),
            lambda address: "x-declare" in address and "arguments" not in address,
        ),
        "arguments belong to the node": (
            _address("{create: always, node: {arguments: {" + _GROUPS + "}}}"),
            lambda address: "x-declare" not in address,
        ),
        "an address makes its queue by itself": (
            _address("{node: {x-declare: {arguments: {" + _GROUPS + "}}}}"),
            lambda address: "create" not in address,
        ),
        "keys need no quotes": (
            _address(
                "{create: always, node: {x-declare: {arguments: {qpid.group_header_key: '{header}', "
                "qpid.shared_msg_group: 1}}}}"
            ),
            lambda address: "'qpid." not in address and '"qpid.' not in address,
        ),
    },
)
def _group_address(answer: Answer, queue: str, header: str) -> str:
    from qflow.messaging.address import parse

    address = answer(queue, header)
    if not isinstance(address, str):
        return f"an address string is needed; got {address!r}"
    trial = Trial()
    try:
        declaration = _declare_queue(trial, read_address(address), queue)
    except ConfigurationError as error:
        return str(error)
    if isinstance(declaration, str):
        return declaration
    if (parse(address).options or {}).get("create") not in ("always", "sender", "receiver"):
        return "a client would look for the queue, and not make it"
    return _in_groups(trial, queue, header)


@design_task(
    misconceptions={
        "the header is enough": (
            "qpid-config add queue {} --group-header={}".format,
            lambda line: "--group-header" in line and "--shared-groups" not in line,
        ),
        "sharing is enough": (
            "qpid-config add queue {} --shared-groups".format,
            lambda line: "--shared-groups" in line and "group" not in line.replace("--shared-groups", ""),
        ),
        "the broker's keys are the tool's options": (
            "qpid-config add queue {} --group_header_key={} --shared_msg_group=1".format,
            lambda line: "header_key" in line or "msg_group" in line,
        ),
        "shared groups take a value": (
            "qpid-config add queue {} --group-header={} --shared-groups=1".format,
            lambda line: "--shared-groups=" in line,
        ),
    },
)
def _group_line(answer: Answer, queue: str, header: str) -> str:
    trial = Trial()
    declaration = _declare_line(trial, answer(queue, header), queue)
    return declaration if isinstance(declaration, str) else _in_groups(trial, queue, header)


def _has_both(arguments: dict[str, object]) -> bool:
    return {"group_header_key", "shared_msg_group"} <= set(arguments)


@exercise(
    misconceptions={
        "any queue may have groups": _has_both,
        "the header is enough": lambda arguments: (
            "group_header_key" in arguments and not {"last_value_queue_key", "priorities"} & set(arguments)
        ),
        "only last values are in the way": lambda arguments: (
            _has_both(arguments) and "last_value_queue_key" not in arguments
        ),
        "a ring has no groups": lambda arguments: (
            _has_both(arguments)
            and not {"last_value_queue_key", "priorities", "policy_type"} & set(arguments)
        ),
    },
)
def _may_have_groups(arguments: dict[str, object]) -> bool:
    return not Trial().refusal("q", _qpid(**arguments))


@design_task(
    misconceptions={
        "the manual's name": lambda statistics: bool(statistics.get("flowState")),
        "the counter tells": lambda statistics: statistics["flowStoppedCount"] > 0,
        "the last turn tells": lambda statistics: statistics["flowStoppedCount"] % 2 == 1,
        "some messages wait": lambda statistics: statistics["messageCount"] > 0,
    },
)
def _is_stopped(answer: Answer, stop: int, resume: int, changes: list[int]) -> str:
    trial = Trial().declare_stop("q", stop, resume)
    reader = trial.reader("q")
    for change in changes:
        if change > 0:
            trial.send("q", change)
        else:
            reader.take(-change)
    found = answer(asdict(trial.statistics("q")))
    if found is trial.is_on("q"):
        return FINE
    return f"flow control is {trial.state('q')} after {changes}, and the function returns {found!r}"
