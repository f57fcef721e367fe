"""The ``qflow`` command: it reads the arguments and calls the room that does the work.

Rooms are imported when their subcommand is used, so that ``qflow conform`` runs where no notebook software is
installed. A request that cannot be fulfilled ends with one plain sentence on standard error and status 2;
0 is success, 1 a check that failed or a reader of the output that went away, 130 an interrupt.
"""

from __future__ import annotations

import argparse
import importlib
import io
import json
import os
import re
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from typing import Any, NoReturn

from qflow import __version__
from qflow.colour import paint, paint_headings
from qflow.kit import INTERRUPTED, RefusalError, form
from qflow.qflow_error import QflowError
from qflow.wording import did_you_mean

# Modules that read their own arguments; imported only when asked for, as importing one imports the engine.
GROUPS = {
    "learn": {
        "lab": ("launch.chapters", "open JupyterLab on the chapters"),
        "exercises": ("teaching.checking", "show which exercises and challenges you have solved"),
        "rules": ("teaching.rules", "list the broker's rules and the tests that hold the engine to each"),
    },
    "try settings and workloads": {
        "config": ("configuration.cli", "read qpid-config's options and show what a queue will really do"),
        "run": ("workload.cli", "run a workload file and say what happened"),
        "design": ("design.cli", "find thresholds and capacities that cannot overflow"),
    },
    "look at your broker": {
        "record": ("live.cli", "stand between AMQP 1.0 clients and their broker, and record what they do"),
        "trace": ("trace.cli", "look at traces, replay them, and ask why"),
        "predict": ("prediction.cli", "run the workload behind a client log again, under other settings"),
        "spark": (
            "spark.cli",
            "audit a fleet's logs, report a day, sweep settings, follow a stream, make a fleet",
        ),
        "conform": ("conformance.cli", "say where the engine differs from recordings of the real broker"),
    },
    "serve and check clients": {
        "serve": ("live.cli", "let real clients of AMQP 1.0 connect to the engine"),
        "check-client": ("live.cli", "measure what a client does when the broker stops it"),
    },
    "a site, a room, this machine": {
        "site": ("launch.site", "build a site that runs the chapters with no server behind it"),
        "class": ("launch.classroom", "serve the site to a room, and see its guesses and who is stuck"),
        "workshop": ("launch.workshop", "prepare a folder for a room without network"),
        "doctor": ("launch.doctor", "say if this machine is ready for the kit, and what cures what is not"),
        "completion": ("launch.shells", "print what lets your shell complete these commands"),
    },
}

ROOMS = {name: (f"qflow.{room}", why) for group in GROUPS.values() for name, (room, why) in group.items()}
"""Of each command the module that reads its arguments, and its purpose."""

REFUSED = 2
_READABLE = 1_200
"""Characters of a refusal that are shown."""


class Parser(argparse.ArgumentParser):
    """A parser that refuses in one sentence, without the usage block in front."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # No option of ours begins with a digit, so -1s is a wrong time, and not an unknown option.
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def format_help(self) -> str:
        """Return the help, with two examples at its end."""
        examples = "".join(f"  {_fold_line(line)}\n" for line in _examples_of(self.prog))
        return super().format_help() + (f"\nexamples:\n{examples}" if examples else "")

    def print_help(self, file: Any = None) -> None:
        """Print the help, with its headings in bold on a terminal."""
        stream = file or sys.stdout
        stream.write(paint_headings(self.format_help(), stream))

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse what is none of the choices, with the nearest of them."""
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += did_you_mean(str(value), map(str, action.choices or ()))
            raise

    def error(self, message: str) -> NoReturn:
        """Refuse what was given, and name the help."""
        raise RefusalError(f"{_readable(message)} (see {self.prog} --help)")


class _Rooms(argparse._SubParsersAction):  # type: ignore[type-arg]
    """The commands; what each is for is said once, in :data:`GROUPS`."""

    def add_parser(self, name: str, **named: Any) -> Any:
        """Add a command, with its purpose in the list, and in its help if it has no longer description."""
        purpose = ROOMS[name][1]
        description = f"{purpose[0].upper()}{purpose[1:]}."
        return super().add_parser(name, **{"description": description, **named, "help": purpose})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its status."""
    given = list(sys.argv[1:] if arguments is None else arguments)

    def work() -> int:
        try:
            return _answer(given)
        finally:
            if arguments is None:
                # The process ends with this: a second Ctrl-C is not to end in a traceback.
                with suppress(ValueError):
                    signal.signal(signal.SIGINT, signal.SIG_IGN)

    # What comes after -- is another program's.
    return run_guarded(work, as_json="--json" in (given[: given.index("--")] if "--" in given else given))


def run_guarded(work: Callable[[], int], *, as_json: bool = False) -> int:
    """Run a command's work and return its status: each refusal is a sentence, and an object too for JSON."""

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
            # An error in what is still buffered when the process ends could not be caught any more.
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
    except QflowError as error:
        return refuse(str(error), **(error.facts if isinstance(error, RefusalError) else {}))
    except BrokenPipeError:
        # The reader of our output (head, less) went away. Nothing is wrong, and nothing more can be printed.
        _forget_output()
        return 1
    except OSError as problem:
        _forget_output()
        subject = f"{problem.filename}: " if problem.filename else ""
        return refuse(f"{subject}{problem.strerror or problem}")
    except RecursionError:
        return refuse("what was given is nested too deeply to be read")
    except KeyboardInterrupt:
        _say("interrupted")
        return INTERRUPTED


def _answer(given: list[str]) -> int:
    parser, rooms = _parsers({module for name, (module, _) in ROOMS.items() if name in given})
    _group(parser, rooms)
    chosen, further = parser.parse_known_args(given)
    chosen.further = further
    if chosen.further and chosen.command != "lab":
        first = chosen.further[0]
        actions = (action for each in list_parsers(parser) for action in each._actions)
        hint = did_you_mean(first.partition("=")[0], [name for one in actions for name in one.option_strings])
        parser.error(f"unknown argument {first!r}{hint}")
    status: int = importlib.import_module(ROOMS[chosen.command][0]).run(chosen)
    return status


def list_parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of all commands in it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from list_parsers(inner)


def _forget_output() -> None:
    """Send what cannot be printed to the null device: the interpreter tries once more at its end."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _ready_streams() -> None:
    """Print a question mark for what the terminal has not got, such as an arrow, rather than fail."""
    # A stream the shell has closed (>&-) is none; what is printed to it would land in the other.
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def whole_parser() -> argparse.ArgumentParser:
    """Return the parser with all options of all commands, as a shell's completion needs it."""
    return _parsers({module for module, _ in ROOMS.values()})[0]


def _parsers(asked: Set[str]) -> tuple[argparse.ArgumentParser, argparse._SubParsersAction[Any]]:
    """Return the parser, and the one of its commands; those of the modules asked for have their options."""
    parser = Parser(prog="qflow", description="A message broker you can hold in your hand.")
    parser.add_argument("--version", action="version", version=f"qflow {__version__} ({form()})")
    rooms = parser.add_subparsers(
        prog="qflow", action=_Rooms, dest="command", metavar="COMMAND", required=True
    )
    for name, (module, _) in ROOMS.items():
        if module not in asked:
            rooms.add_parser(name)
        elif name not in rooms.choices:
            importlib.import_module(module).add_arguments(rooms)
    return parser, rooms


def _group(parser: argparse.ArgumentParser, rooms: argparse._SubParsersAction[Any]) -> None:
    """Show the commands under the headings of their groups, which argparse has for arguments only."""
    shown = {action.dest: action for action in rooms._choices_actions}
    parser.usage = "%(prog)s [-h] [--version] COMMAND ..."
    rooms.help = argparse.SUPPRESS
    for title, names in GROUPS.items():
        parser.add_argument_group(title)._group_actions += [shown[name] for name in names]


def _readable(sentence: str) -> str:
    """Put a refusal that quotes its input on one line, and leave the middle out of whole pages of it."""
    line = " ".join(sentence.splitlines())
    return line if len(line) <= _READABLE else f"{line[: _READABLE // 2]} … {line[-_READABLE // 4 :]}"


def _say(sentence: str) -> None:
    try:
        print(paint("qflow:", "error", sys.stderr), _readable(sentence), file=sys.stderr)
    except OSError:
        _forget_output()


# Two examples for each command, with which its help ends

_WORKLOADS = "data/recordings/workloads"
_SLOW = f"{_WORKLOADS}/slow-consumer"
_RING = f"{_WORKLOADS}/ring"
_CLIENT = "python data/clients/proton_blocking_cured.py"

# They are typed at the top of a checkout, whose files they read; only app.csv is yours.
_EXAMPLES = f"""\
qflow lab
qflow lab --dir my-chapters --no-browser --port 8899
qflow exercises --json
qflow exercises solutions
qflow rules FC-14 FC-16
qflow rules --json
qflow config add queue orders --max-queue-count=1000
qflow config add queue orders --flow-stop-count=90 --flow-resume-count=60 --json
qflow config address 'orders; {{create: always}}'
qflow config address orders --broker-option=default-queue-limit=0 --json
qflow run {_RING}.json
qflow run {_SLOW}.json --seed 7 --trace slow.jsonl.gz
qflow design {_SLOW}.json --max-count 1000 --messages 500
qflow design {_SLOW}.json --max-count orders=500 --slo 'p99 wait < 2s' --slo 'loss 0'
qflow record --listen 5673 --upstream localhost:5672 --out log.parquet
qflow record --listen 0.0.0.0:5673 --upstream amqps://broker:5671 --out log.parquet --ca ca.pem
qflow trace info slow.jsonl.gz
qflow trace info slow.jsonl.gz --json
qflow trace replay slow.jsonl.gz
qflow trace replay slow.jsonl.gz -o again.jsonl.gz --json
qflow trace import {_SLOW}.csv.gz -o slow.jsonl
qflow trace import app.csv --map 'time=when:ms,client=host,event=action:{{sent=transfer,acked=complete}}' \
--like app.map
qflow trace why slow.jsonl.gz 9.5s queue:orders
qflow trace why slow.jsonl.gz 1200 producer:p1 --json
qflow predict {_RING}.json {_RING}.csv.gz --replays 3
qflow predict {_SLOW}.json {_SLOW}.csv.gz --capacity p1=20 --json
qflow spark audit {_SLOW}.csv.gz
qflow spark audit {_WORKLOADS}/fleet.parquet --lake lake --out audited --json
qflow spark report audited --page day.html
qflow spark report audited --day 2026-11-27 --page day.html
qflow spark sweep --lake lake --settings grid.json --out swept
qflow spark sweep --lake lake --settings grid.json --out swept --replays 19 --json
qflow spark stream incoming --out audited --once
qflow spark stream incoming --out audited --files 4 --wait 120
qflow spark synth --queues 100 --events 1000000 --out lake
qflow spark synth --queues 8 --events 20000 --out small --master local[4]
qflow conform data/recordings/scenarios/random-ring.jsonl
qflow conform data/recordings/scenarios/*.jsonl --json
qflow serve --queue 'orders --flow-stop-count=10 --flow-resume-count=5'
qflow serve --host 0.0.0.0 --port 5673 --trace served.jsonl
qflow check-client --short -- {_CLIENT}
qflow check-client --require stops,loses-nothing --json -- {_CLIENT}
qflow site build
qflow site build --out my-site
qflow site fetch
qflow site build
qflow class
qflow class --site qflow-workshop/site --port 8080
qflow workshop --for linux --python 3.12
qflow workshop --with spark,live --out room --no-site
qflow doctor
qflow doctor --spark --json
qflow completion bash > ~/.local/share/bash-completion/completions/qflow
qflow completion fish > ~/.config/fish/completions/qflow.fish
""".splitlines()


def _fold_line(line: str, width: int = 78) -> str:
    r"""Return a command on lines of a width, which a shell reads as one.

    >>> print(_fold_line("qflow run data/orders.json --seed 7", 32))
    qflow run data/orders.json \
          --seed 7
    """
    lines = textwrap.wrap(
        line, width - 2, subsequent_indent=" " * 6, break_long_words=False, break_on_hyphens=False
    )
    return " \\\n".join(lines)


def _examples_of(command: str) -> list[str]:
    """Return two examples of a command; of one with commands in it, the first ones of these."""
    pairs = zip(_EXAMPLES[::2], _EXAMPLES[1::2], strict=True)
    inner = [pair for pair in pairs if f"{pair[0]} ".startswith(f"{command} ")]
    return [line for lines in zip(*inner, strict=True) for line in lines][:2]
