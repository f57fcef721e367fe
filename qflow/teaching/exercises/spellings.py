"""Exercises on spellings: the tool's options, the broker's options, and address strings."""

from __future__ import annotations

from collections.abc import Callable

from qflow.broker import BrokerOptions
from qflow.broker.errors import StartupError
from qflow.configuration.declaration import ConfigurationError, Declaration
from qflow.configuration.spelling import read_address, read_line
from qflow.teaching.exercise import FINE, Exercise, Misconception, fine
from qflow.teaching.exercises.bench import Bench
from qflow.teaching.exercises.configuration import measure


def _typed(bench: Bench, line: object, queue: str) -> Declaration | str:
    """Declare what a line of qpid-config asks for; or say what keeps it from being the queue of that name."""
    if not (isinstance(line, str) and line.startswith("qpid-config add queue ")):
        return f"a line that begins with 'qpid-config add queue' is needed; got {line!r}"
    try:
        return _declared(bench, read_line(line), queue)
    except ConfigurationError as error:
        return f"the tool refuses it: {error}"


def _declared(bench: Bench, declaration: Declaration, queue: str) -> Declaration | str:
    if refusal := bench.refusal(declaration.name, declaration.arguments):
        return refusal
    if declaration.name != queue:
        return f"the queue is called {declaration.name}, not {queue}"
    return declaration


def _in_groups(bench: Bench, queue: str, header: str) -> str:
    """Say whether a second consumer is kept from a group that the first one owns."""
    bench.send(queue, ["A-1", "A-2", "B-1"], header=header)
    bench.reader(queue, "first").fetch()
    got = bench.reader(queue, "second").fetch()
    return FINE if got == "B-1" else f"a second consumer gets {got} while A is owned, so there are no groups"


def _tool_line(answer: Callable[..., str], queue: str, limit: int, stop: int, resume: int) -> str:
    bench = Bench()
    declaration = _typed(bench, answer(queue, limit, stop, resume), queue)
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
    misconceptions=(
        Misconception(
            "the broker's keys are the tool's options",
            _line("--qpid.max_count", "--qpid.flow_stop_count", "--qpid.flow_resume_count"),
            "qpid-config has options of its own, with hyphens: --max-queue-count, --flow-stop-count.",
            sign=lambda line: "qpid." in line,
        ),
        Misconception(
            "an underscore is as good as a hyphen",
            _line("--max_queue_count", "--flow_stop_count", "--flow_resume_count"),
            "options of the tool have hyphens; the keys in queue.declare have underscores.",
            sign=lambda line: "_" in line,
        ),
        Misconception(
            "size is the number of messages",
            _line("--max-queue-size", "--flow-stop-size", "--flow-resume-size"),
            "the options with size count bytes; messages are counted by those with count (FC-01).",
            sign=lambda line: "-size" in line,
        ),
        Misconception(
            "the limit is called max-count",
            _line("--max-count", "--flow-stop-count", "--flow-resume-count"),
            "the tool's option is --max-queue-count.",
            sign=lambda line: "--max-count" in line,
        ),
    ),
    hints=(
        "qpid-config add queue NAME, and then three options, each with its value.",
        "--max-queue-count, --flow-stop-count and one more.",
        "qpid-config add queue NAME --max-queue-count=… --flow-stop-count=… --flow-resume-count=…",
    ),
    rules=("FC-01", "LP-01"),
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
    misconceptions=(
        Misconception(
            "the manual's example of a default group",
            lambda stop, resume, group: [
                f"--default-flow-stop-threshold={stop}",
                f"--default-flow-resume-threshold={resume}",
                f"--default-msg-group={group}",
            ],
            "that option does not exist; the text of the same manual has it right: default-message-group.",
            sign=lambda given: any("msg-group" in option for option in given),
        ),
        Misconception(
            "a threshold is a share from 0 to 1",
            lambda stop, resume, group: [
                f"--default-flow-stop-threshold={stop / 100}",
                f"--default-flow-resume-threshold={resume / 100}",
                f"--default-message-group={group}",
            ],
            "they are percentages, whole numbers from 0 to 100 (FC-10).",
            sign=lambda given: any("threshold=0." in option or "threshold=1.0" in option for option in given),
        ),
        Misconception(
            "options have underscores",
            lambda stop, resume, group: [
                f"--default_flow_stop_threshold={stop}",
                f"--default_flow_resume_threshold={resume}",
                f"--default_message_group={group}",
            ],
            "on the command line they have hyphens. (In Python, BrokerOptions has underscores.)",
            sign=lambda given: any("default_" in option for option in given),
        ),
        Misconception(
            "a queue's options are the broker's",
            lambda stop, resume, group: [f"--flow-stop-count={stop}", f"--flow-resume-count={resume}"],
            "those are options of qpid-config, for one queue. The broker's begin with --default- (FC-10).",
            sign=lambda given: any(option.startswith("--flow") for option in given),
        ),
    ),
    hints=(
        "Three options, and all of their names begin with --default-.",
        "--default-flow-stop-threshold, --default-flow-resume-threshold and --default-message-group.",
        '[f"--default-flow-stop-threshold={stop}", …, f"--default-message-group={group}"]',
    ),
    rules=("FC-10", "MG-05"),
)


def _group_address(answer: Callable[[str, str], str], queue: str, header: str) -> str:
    from qflow.messaging.address import parse

    address = answer(queue, header)
    if not isinstance(address, str):
        return f"an address string is needed; got {address!r}"
    bench = Bench()
    try:
        declaration = _declared(bench, read_address(address), queue)
    except ConfigurationError as error:
        return str(error)
    if isinstance(declaration, str):
        return declaration
    if (parse(address).options or {}).get("create") not in ("always", "sender", "receiver"):
        return "a client would look for the queue, and not make it"
    return _in_groups(bench, queue, header)


_GROUPS = "'qpid.group_header_key': '{header}', 'qpid.shared_msg_group': 1"


def _address(pattern: str) -> Callable[[str, str], str]:
    return lambda queue, header: f"{queue}; " + pattern.replace("{header}", header)


GROUP_ADDRESS = Exercise(
    "group_address",
    "Groups in an address string",
    truth=fine,
    outcome=_group_address,
    cases=(("orders", "cart"), ("q", "THE-GROUP"), ("events", "user")),
    misconceptions=(
        Misconception(
            "x-declare takes the arguments itself",
            _address("{create: always, node: {x-declare: {" + _GROUPS + "}}}"),
            "inside x-declare they belong into a map called arguments (CF-14).",
            sign=lambda address: "x-declare" in address and "arguments" not in address,
        ),
        Misconception(
            "arguments belong to the node",
            _address("{create: always, node: {arguments: {" + _GROUPS + "}}}"),
            "the node has x-declare, and that has arguments (CF-14).",
            sign=lambda address: "x-declare" not in address,
        ),
        Misconception(
            "an address makes its queue by itself",
            _address("{node: {x-declare: {arguments: {" + _GROUPS + "}}}}"),
            "without create: always the client only looks for the queue (CF-14).",
            sign=lambda address: "create" not in address,
        ),
        Misconception(
            "keys need no quotes",
            _address(
                "{create: always, node: {x-declare: {arguments: {"
                "qpid.group_header_key: '{header}', qpid.shared_msg_group: 1}}}}"
            ),
            "a key with a dot in it has to be quoted here (CF-14).",
            sign=lambda address: "'qpid." not in address and '"qpid.' not in address,
        ),
    ),
    hints=(
        "NAME; {…}: a map that says to create the queue, and how to declare it.",
        "create: always, and node with x-declare with arguments; quote the keys.",
        "NAME; {create: always, node: {x-declare: {arguments: {'qpid.group_header_key': …, …: 1}}}}",
    ),
    rules=("CF-14", "MG-01"),
)


def _group_line(answer: Callable[[str, str], str], queue: str, header: str) -> str:
    bench = Bench()
    declaration = _typed(bench, answer(queue, header), queue)
    return declaration if isinstance(declaration, str) else _in_groups(bench, queue, header)


GROUP_LINE = Exercise(
    "group_line",
    "Groups with qpid-config",
    truth=fine,
    outcome=_group_line,
    cases=(("orders", "cart"), ("q", "THE-GROUP"), ("events", "user")),
    misconceptions=(
        Misconception(
            "the header is enough",
            lambda queue, header: f"qpid-config add queue {queue} --group-header={header}",
            "the tool sends just that, and the broker refuses: --shared-groups is needed too (MG-01).",
            sign=lambda line: "--group-header" in line and "--shared-groups" not in line,
        ),
        Misconception(
            "sharing is enough",
            lambda queue, header: f"qpid-config add queue {queue} --shared-groups",
            "the queue has to know which header holds the identifier: --group-header (MG-01).",
            sign=lambda line: (
                "--shared-groups" in line and "group" not in line.replace("--shared-groups", "")
            ),
        ),
        Misconception(
            "the broker's keys are the tool's options",
            lambda queue, header: (
                f"qpid-config add queue {queue} --group_header_key={header} --shared_msg_group=1"
            ),
            "qpid-config has options of its own: --group-header and --shared-groups.",
            sign=lambda line: "header_key" in line or "msg_group" in line,
        ),
        Misconception(
            "shared groups take a value",
            lambda queue, header: f"qpid-config add queue {queue} --group-header={header} --shared-groups=1",
            "--shared-groups is a switch; it stands alone.",
            sign=lambda line: "--shared-groups=" in line,
        ),
    ),
    hints=(
        "Two options. One has a value, the other is a switch.",
        "--group-header names the header; --shared-groups asks for the order over all consumers.",
        "qpid-config add queue NAME --group-header=… --shared-groups",
    ),
    rules=("MG-01",),
)

EXERCISES = (TOOL_LINE, BROKER_START)
