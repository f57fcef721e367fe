"""The ``qflow`` command: it parses the arguments and calls the subpackage that does the work.

A subpackage is imported only when one of its commands is used, so that ``qflow conform`` runs where no
notebook software is installed. The exit status is 0 for success; 1 for a check that failed, or if the reader
of the output closed the pipe; 2 for a request that cannot be fulfilled, with one plain sentence on standard
error; and 130 after an interrupt (Ctrl-C).
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import re
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn

from qflow import __version__
from qflow.colour import paint, paint_headings
from qflow.kit import INTERRUPTED, RefusalError, form
from qflow.qflow_error import QflowError
from qflow.wording import did_you_mean

# Each command's module, which parses its own arguments. It is imported only when its command is used, because
# importing it imports the engine.
GROUPS = {
    "learn": {
        "lab": ("launch.chapters", "open JupyterLab on the chapters"),
        "exercises": ("teaching.checking", "show which exercises and challenges you have solved"),
        "rules": ("teaching.rules", "list the broker's rules and the tests that hold the engine to each"),
    },
    "try settings and workloads": {
        "config": (
            "configuration.cli",
            "read qpid-config's options, scripts and qpidd.conf, and show their effect",
        ),
        "run": ("workload.cli", "run a workload file and summarise what happened"),
        "design": ("design.cli", "find thresholds and capacities that cannot overflow"),
    },
    "look at your broker": {
        "record": ("live.cli", "record the traffic between AMQP 1.0 clients and their broker"),
        "trace": ("trace.cli", "look at traces, replay them, and ask why"),
        "predict": ("prediction.cli", "run the workload behind a client log again, under other settings"),
        "spark": (
            "spark.cli",
            "audit a fleet's logs, report on a day, sweep settings, follow a stream, make a fleet",
        ),
        "conform": ("conformance.cli", "say where the engine differs from recordings of the real broker"),
    },
    "serve and check clients": {
        "serve": ("live.cli", "let real AMQP 1.0 clients connect to the engine"),
        "check-client": ("live.cli", "measure a client's reaction when the broker stops it"),
    },
    "a site, a room, this machine": {
        "site": ("launch.site", "build a site that runs the chapters without a server"),
        "class": (
            "launch.classroom",
            "serve the site to a class, and show the class's guesses and who is stuck",
        ),
        "workshop": ("launch.workshop", "prepare a folder for a room without a network"),
        "doctor": ("launch.doctor", "check whether this machine is ready for the kit, and suggest fixes"),
        "completion": ("launch.shells", "print a completion script for your shell"),
    },
}

ROOMS = {name: (f"qflow.{room}", why) for group in GROUPS.values() for name, (room, why) in group.items()}
"""For each command the module that parses its arguments, and its purpose."""

REFUSED = 2
_READABLE = 1_200
"""The largest number of characters shown of a refusal."""


class Parser(argparse.ArgumentParser):
    """An argument parser that reports an error in one sentence, without the usage."""

    commands: Any = None
    """The action that holds the parser's subcommands, or None if it has no subcommands."""

    listing = ""
    """Text that the help shows between the options and the examples."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # No option of ours begins with a digit, so -1s is an invalid time and not an unknown option. argparse
        # has no public setting for this.
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def add_subparsers(self, **named: Any) -> Any:
        """Add subcommands as argparse does, and store the action that holds them."""
        self.commands = super().add_subparsers(**named)
        return self.commands

    def format_help(self) -> str:
        """Return the help text, with two examples at the end."""
        examples = "".join(f"  {line}\n" for line in _examples_of(self.prog))
        return super().format_help() + self.listing + (f"\nexamples:\n{examples}" if examples else "")

    def print_help(self, file: Any = None) -> None:
        """Print the help text, with its headings in bold on a terminal."""
        stream = file or sys.stdout
        stream.write(paint_headings(self.format_help(), stream))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse an unknown choice, and suggest the closest one."""
        # Python 3.14 can do this itself (suggest_on_error); in older versions only this method of argparse
        # knows both the given word and the choices.
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += did_you_mean(str(value), map(str, action.choices or ()))
            raise

    def error(self, message: str) -> NoReturn:
        """Refuse the command line, and name the command that prints the help."""
        raise RefusalError(f"{_readable(message)} (see {self.prog} --help)")


class _Commands(NamedTuple):
    """An adder of a subpackage's commands, which gives each its purpose from :data:`GROUPS`."""

    added: Any

    def add_parser(self, name: str, **named: Any) -> Any:
        """Add a command; its purpose is the default description."""
        purpose = ROOMS[name][1]
        description = f"{purpose[0].upper()}{purpose[1:]}."
        return self.added.add_parser(name, **{"description": description, **named, "help": purpose})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, by default this process's own, and return the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)

    def work() -> int:
        try:
            return _answer(given)
        finally:
            if arguments is None:
                # The process is about to end: a second Ctrl-C must not cause a traceback.
                with suppress(ValueError):
                    signal.signal(signal.SIGINT, signal.SIG_IGN)

    # Arguments after -- belong to another program.
    return run_guarded(work, as_json="--json" in (given[: given.index("--")] if "--" in given else given))


def run_guarded(work: Callable[[], int], *, as_json: bool = False) -> int:
    """Run a command's work and return its exit status; print a refusal as a sentence or a JSON object."""

    def refuse(sentence: str, **facts: Any) -> int:
        if as_json:
            print(json.dumps({"error": _readable(sentence), **facts}, indent=2), flush=True)
        _say(sentence)
        return REFUSED

    _ready_streams()
    try:
        try:
            return work()
        finally:
            # An error while Python flushes the buffers at exit could not be caught any more.
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
    except QflowError as error:
        return refuse(str(error), **(error.facts if isinstance(error, RefusalError) else {}))
    except BrokenPipeError:
        # The reader of our output (head, less) has ended. Nothing is wrong, and nothing more can be printed.
        _forget_output()
        return 1
    except OSError as problem:
        _forget_output()
        subject = f"{problem.filename}: " if problem.filename else ""
        return refuse(f"{subject}{problem.strerror or problem}")
    except RecursionError:
        return refuse("the input is nested too deeply to be read")
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED


def _answer(given: list[str]) -> int:
    parser = _parser({module for name, (module, _) in ROOMS.items() if name in given})
    # The commands are listed in groups, so argparse must not list them again.
    parser.listing, parser.commands.help = _list_groups(), argparse.SUPPRESS
    chosen, further = parser.parse_known_args(given)
    chosen.further = further
    if chosen.further and chosen.command != "lab":
        first = chosen.further[0]
        helps = " ".join(each.format_help() for each in list_parsers(_chosen_parser(parser, given)))
        hint = did_you_mean(first.partition("=")[0], set(re.findall(r"(?<!\S)--[a-z][\w-]*", helps)))
        parser.error(f"unknown argument {first!r}{hint}")
    status: int = importlib.import_module(ROOMS[chosen.command][0]).run(chosen)
    return status


def _chosen_parser(parser: Parser, given: list[str]) -> Parser:
    """Return the parser of the command that was given, or of its action if it has several."""
    for word in given:
        if parser.commands and word in parser.commands.choices:
            parser = parser.commands.choices[word]
    return parser


def list_parsers(parser: Parser) -> Iterator[Parser]:
    """Yield a parser and, recursively, the parsers of its subcommands."""
    yield parser
    for inner in parser.commands.choices.values() if parser.commands else ():
        yield from list_parsers(inner)


def _forget_output() -> None:
    """Redirect broken output streams to the null device, as Python flushes them again at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _ready_streams() -> None:
    """Let the output streams replace a character that the terminal cannot show by a question mark."""
    # A stream that the shell has closed (>&-) is None in Python; print(file=None) would print to stdout.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def whole_parser() -> Parser:
    """Return a parser with all options of all commands, from which shell completions are generated."""
    return _parser({module for module, _ in ROOMS.values()})


def _parser(asked: Set[str]) -> Parser:
    """Return the parser of ``qflow``, with options only for the commands that the given modules add."""
    parser = Parser(
        prog="qflow",
        usage="%(prog)s [-h] [--version] COMMAND ...",
        description="A message broker you can hold in your hand.",
    )
    parser.add_argument("--version", action="version", version=f"qflow {__version__} ({form()})")
    commands = parser.add_subparsers(prog="qflow", dest="command", metavar="COMMAND", required=True)
    for name, (module, _) in ROOMS.items():
        if module not in asked:
            _Commands(commands).add_parser(name)
        elif name not in commands.choices:
            importlib.import_module(module).add_arguments(_Commands(commands))
    return parser


def _list_groups() -> str:
    """Return the list of commands for the help text, grouped under headings."""
    width = shutil.get_terminal_size().columns - 2
    lines = []
    for title, commands in GROUPS.items():
        lines += ["", f"{title}:"]
        for name, (_, purpose) in commands.items():
            lines += textwrap.wrap(
                purpose, max(width, 40), initial_indent=f"  {name:<16} ", subsequent_indent=" " * 19
            )
    return "\n".join([*lines, ""])


def _readable(sentence: str) -> str:
    """Return a refusal on one line, with the middle of a long one left out."""
    line = " ".join(sentence.splitlines())
    return line if len(line) <= _READABLE else f"{line[: _READABLE // 2]} … {line[-_READABLE // 4 :]}"


def _say(sentence: str) -> None:
    try:
        print(paint("qflow:", "error", sys.stderr), _readable(sentence), file=sys.stderr)
    except OSError:
        _forget_output()


# Examples use double quotes, which the shells of POSIX and of Windows understand, and stay on one line, as
# each shell continues a line in its own way. They read files of a checkout, at whose top they are typed;
# app.csv and qpidd.log stand for the user's own files.

_WORKLOADS = "data/recordings/workloads"
_SLOW = f"{_WORKLOADS}/slow-consumer"
_RING = f"{_WORKLOADS}/ring"
_CLIENT = "python data/clients/proton_blocking_cured.py"

EXAMPLES = {
    "lab": (
        "qflow lab",
        "qflow lab --dir my-chapters --no-browser --port 8899",
    ),
    "exercises": (
        "qflow exercises --json",
        "qflow exercises solutions",
    ),
    "rules": (
        "qflow rules FC-14 FC-16",
        "qflow rules --json",
    ),
    "config add queue": (
        "qflow config add queue orders --max-queue-count=1000",
        "qflow config add queue orders --flow-stop-count=90 --flow-resume-count=60 --json",
    ),
    "config add exchange": (
        "qflow config add exchange topic news --durable",
        "qflow config add exchange headers audit --alternate-exchange lost --json",
    ),
    "config bind": (
        'qflow config bind amq.topic orders "order.#"',
        "qflow config bind amq.match orders big all kind=order size=big --json",
    ),
    "config script": (
        "qflow config script data/setups/shop.sh",
        "qflow config script data/setups/shop.sh --broker-option=default-queue-limit=0 --json",
    ),
    "config address": (
        'qflow config address "orders; {create: always}"',
        "qflow config address orders --broker-option=default-queue-limit=0 --json",
    ),
    "run": (
        f"qflow run {_RING}.json",
        f"qflow run {_SLOW}.json --seed 7 --trace slow.jsonl.gz",
    ),
    "design": (
        f"qflow design {_SLOW}.json --max-count 1000 --messages 500",
        f'qflow design {_SLOW}.json --max-count orders=500 --slo "p99 wait < 2s" --slo "loss 0"',
    ),
    "record": (
        "qflow record --listen 5673 --upstream localhost:5672 --out log.parquet",
        "qflow record --listen 0.0.0.0:5673 --upstream amqps://broker:5671 --out log.parquet --ca ca.pem",
    ),
    "trace info": (
        "qflow trace info slow.jsonl.gz",
        "qflow trace info slow.jsonl.gz --json",
    ),
    "trace replay": (
        "qflow trace replay slow.jsonl.gz",
        "qflow trace replay slow.jsonl.gz -o again.jsonl.gz --json",
    ),
    "trace import": (
        f"qflow trace import {_SLOW}.csv.gz -o slow.jsonl",
        'qflow trace import app.csv --map "time=when:ms,event=action:{sent=transfer}" --like app.map',
    ),
    "trace why": (
        "qflow trace why slow.jsonl.gz 9.5s queue:orders",
        "qflow trace why slow.jsonl.gz 1200 producer:p1 --json",
    ),
    "trace broker-log": (
        "qflow trace broker-log qpidd.log",
        "qflow trace broker-log qpidd.log qpidd.log.1.gz --zone Europe/Berlin --html day.html",
    ),
    "predict": (
        f"qflow predict {_RING}.json {_RING}.csv.gz --replays 3",
        f"qflow predict {_SLOW}.json {_SLOW}.csv.gz --capacity p1=20 --json",
    ),
    "spark audit": (
        f"qflow spark audit {_WORKLOADS}/fleet.parquet --lake lake --out audited --json",
        "qflow spark audit --table events --workloads workloads --component app --fail-on findings",
    ),
    "spark report": (
        "qflow spark report audited --page day.html",
        "qflow spark report audited --day 2026-11-27 --page day.html",
    ),
    "spark sweep": (
        "qflow spark sweep --lake lake --settings grid.json --out swept",
        "qflow spark sweep --lake lake --settings grid.json --out swept --replays 19 --json",
    ),
    "spark stream": (
        "qflow spark stream incoming --out audited --once",
        "qflow spark stream --source kafka --option subscribe=logs --workloads workloads --out live",
    ),
    "spark synth": (
        "qflow spark synth --queues 100 --events 1000000 --out lake",
        "qflow spark synth --queues 8 --events 20000 --out small --master local[4]",
    ),
    "conform": (
        "qflow conform data/recordings/scenarios/random-ring.jsonl",
        "qflow conform data/recordings/scenarios/*.jsonl --json",
    ),
    "serve": (
        'qflow serve --queue "orders --flow-stop-count=10 --flow-resume-count=5"',
        "qflow serve --setup data/setups/shop.sh --port 5673 --trace served.jsonl",
    ),
    "check-client": (
        f"qflow check-client --short -- {_CLIENT}",
        f"qflow check-client --require stops,loses-nothing --json -- {_CLIENT}",
    ),
    "site build": (
        "qflow site build",
        "qflow site build --out my-site",
    ),
    "site fetch": ("qflow site fetch",),
    "class": (
        "qflow class",
        "qflow class --site qflow-workshop/site --port 8080",
    ),
    "workshop": (
        "qflow workshop --for linux --python 3.12",
        "qflow workshop --with spark,live --out room --no-site",
    ),
    "doctor": (
        "qflow doctor",
        "qflow doctor --spark --json",
    ),
    "completion": (
        "qflow completion bash > ~/.local/share/bash-completion/completions/qflow",
        "qflow completion fish > ~/.config/fish/completions/qflow.fish",
    ),
}
"""The examples at the end of the help, by command and subcommand."""


def _examples_of(command: str) -> list[str]:
    """Return two examples of a command, taken from its subcommands if it has any."""
    words = command.removeprefix("qflow").strip()
    inner = [lines for name, lines in EXAMPLES.items() if f"{name} ".startswith(f"{words} ".lstrip())]
    # The first examples of all subcommands come before their second ones.
    return [lines[place] for place in (0, 1) for lines in inner if len(lines) > place][:2]
