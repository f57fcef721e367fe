"""Setup scripts: shell scripts of ``qpid-config`` lines, and the broker that they configure.

Operators keep their queues, exchanges and bindings in such scripts.  :func:`read_script` interprets one
without running it.  It understands lines and continuations, comments, quotes, the script's own variables and
functions, and ``for`` loops over given words.  It does not guess at anything else that a shell can do: a note
names each such line.

The steps are then applied to a broker in order, by the management methods that the tool calls (CF-07).  After
a refusal the tool and the script continue, unless the script has ``set -e``.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple

from qflow.broker import Broker
from qflow.broker.errors import ManagementError
from qflow.broker.exchanges import Exchange
from qflow.broker.settings import Argument
from qflow.configuration.declaration import ConfigurationError
from qflow.configuration.notations import LineParser, read_line, read_value
from qflow.configuration.qpid_config import REPLICATE_KEY, add_exchange_options
from qflow.displays import broker_table
from qflow.kit import RefusalError, read_text
from qflow.table import Table

_TOOL = "qpid-config"
_ADDRESSES = frozenset(["-a", "--broker-addr", "-b", "--broker"])
_WITH_VALUE = _ADDRESSES | frozenset(
    ["-t", "--timeout", "--sasl-mechanism", "--sasl-service-name", "--ssl-certificate", "--ssl-key"]
)
_WITHOUT_VALUE = frozenset(["-r", "--recursive", "--ha-admin"])
_SHOWING = frozenset(("exchanges", "queues", "list", "show", "", "-h", "--help"))
_WRAPPERS = frozenset(["sudo", "time", "exec", "docker", "podman", "kubectl", "ssh", "nohup", "env"])
_BLOCKS = frozenset(["if", "case", "elif"])
_OPEN_LOOPS = frozenset(["while", "until", "select", "for"])
_ENDS = frozenset(("done", "fi", "esac", "}"))
_HARMLESS = _ENDS | {"set", "echo", "exit", "true", ":", "sleep", "printf", "return", "shift"}
_DEEPEST = 20
"""The largest depth of nested calls of functions."""
_SEPARATORS = frozenset((";", "&&", "||", "&", "|", "\n"))
_MOST_WORDS = 20_000
"""The largest number of words in all iterations of a script's loops."""


@dataclass(frozen=True, slots=True)
class SetupStep:
    """One command of a script: a request to the broker's management.

    Attributes:
        line: The number of the script's line, from 1.
        text: The command, without the options that only locate the broker.
        method, type, name, properties: The management method that the tool calls, and its arguments.
        condition: The words after the binding key, which are the condition of a headers binding.
        error: The error with which the tool itself refuses the command, or "".
        ends_shell: Whether a refusal ends the shell (``|| exit``) or not (``|| true``); None if that depends
            on ``set -e``.
    """

    line: int
    text: str
    method: Literal["create", "delete"] = "create"
    type: str = ""
    name: str = ""
    properties: dict[str, Argument] = field(default_factory=dict)
    condition: tuple[str, ...] = ()
    error: str = ""
    ends_shell: bool | None = None

    def sent(self, broker: Broker) -> dict[str, Argument]:
        """Return the properties that the tool sends, which depend on the exchange's type for a binding."""
        if self.type == "binding" and self.method == "create":
            # Known only when the step is applied: an earlier step may create the exchange.
            exchange = broker.exchanges.exchanges.get(self.name.partition("/")[0])
            if exchange is not None and exchange.type == "headers":
                return _read_condition(self.condition)
        return dict(self.properties)

    def apply(self, broker: Broker) -> str:
        """Apply the step to a broker, and return the refusal of the tool or the broker, or ""."""
        if self.error:
            return self.error
        try:
            getattr(broker.management, self.method)(self.type, self.name, self.sent(broker))
        except ConfigurationError as error:
            return str(error)
        except ManagementError as error:
            return error.text
        except (TypeError, ValueError) as error:
            # The protocol cannot encode it, such as a name of 300 bytes or a number of 65 bits.
            return f"no client can send this: {error}"
        return ""


class SetupRefusal(NamedTuple):
    """A refused step of a setup script, and the reason."""

    step: SetupStep
    reason: str

    def __str__(self) -> str:
        return f"line {self.step.line}: {self.step.text}: {self.reason}"


@dataclass(frozen=True, slots=True)
class SetupScript:
    """The steps of a setup script, in order.

    Attributes:
        name: The name of the script's file.
        steps: The ``qpid-config`` commands that create or delete something.
        notes: Notes on the lines that were not interpreted.
        stops_at_refusal: Whether the shell exits at the first refusal (``set -e``).
    """

    name: str
    steps: tuple[SetupStep, ...]
    notes: tuple[str, ...] = ()
    stops_at_refusal: bool = False

    def apply(self, broker: Broker) -> list[SetupRefusal]:
        """Apply the steps to a broker until the shell would end, and return the refusals."""
        refusals: list[SetupRefusal] = []
        for step in self.steps:
            reason = step.apply(broker)
            if reason:
                refusals.append(SetupRefusal(step, reason))
                if step.ends_shell or (step.ends_shell is None and self.stops_at_refusal):
                    break
        return refusals


def read_script(path: str | Path) -> SetupScript:
    """Read a shell script of ``qpid-config`` lines from a file.

    Raises:
        RefusalError: If the script has no such line, or is not a text.
        OSError: If the file cannot be opened.
    """
    try:
        text = read_text(path, "replace")
    except UnicodeDecodeError as error:
        raise RefusalError(f"{path}: {error.reason}") from None
    return parse_script(text, Path(path).name)


def parse_script(text: str, name: str = "script") -> SetupScript:
    r"""Read a shell script of ``qpid-config`` lines from its text.

    Parameters:
        text: The script.
        name: The name of the script, for errors and reports.

    Raises:
        RefusalError: If the script has no such line.

    >>> script = parse_script("B=host:5672\nfor q in a b; do qpid-config -a $B add queue $q; done")
    >>> [(step.line, step.text) for step in script.steps]
    [(2, 'qpid-config add queue a'), (2, 'qpid-config add queue b')]
    """
    reader = _ScriptReader()
    reader.read(list(_commands(text, reader.notes)), {})
    if not reader.steps and not reader.has_tool:
        raise RefusalError(f"{name}: a setup script must have at least one {_TOOL} command; got none")
    if len(reader.brokers) > 1:
        reader.notes.append(
            f"its lines name {len(reader.brokers)} brokers ({', '.join(reader.brokers)}); here all are one"
        )
    return SetupScript(name, tuple(reader.steps), tuple(reader.notes), reader.stops)


# The shell, as far as such scripts need it


class _ShellCommand(NamedTuple):
    """One simple command: its line number, and its words before the expansion of variables."""

    line: int
    words: list[str]
    ends_shell: bool | None = None


def _commands(text: str, notes: list[str]) -> Iterator[_ShellCommand]:
    """Yield the simple commands of a script, in order, and add a note if its last quotation is open."""
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        whole, first = _strip_comment(line), number
        while True:
            # The line continues after an odd number of backslashes; an even number is escaped backslashes.
            if re.search(r"(?<!\\)(?:\\\\)*\\$", whole):
                whole = whole[:-1] + " " + _strip_comment(next(lines, (0, ""))[1]).lstrip()
                continue
            try:
                tokens = _tokens(whole)
                break
            except ValueError as error:
                following = next(lines, None)
                if following is None:
                    notes.append(f"line {first}: {error}, and the script ends")
                    return
                # shlex raises ValueError for an open quotation, which continues on the next line.
                whole += "\n" + following[1]
        words: list[str] = []
        for place, token in enumerate([*tokens, ";"]):
            if token in _SEPARATORS:
                # The failure of a command before && or || does not end the shell, even with set -e.
                is_tested = token in ("&&", "||")
                if words:
                    yield _ShellCommand(first, words, tokens[place + 1] == "exit" if is_tested else None)
                words = []
            else:
                words.append(token)


def _tokens(line: str) -> list[str]:
    # A dollar sign in single quotes is literal. shlex removes the quotes, so it is replaced by NUL until the
    # variables are expanded.
    line = re.sub(r"'[^']*'", lambda quoted: quoted[0].replace("$", "\0"), line)
    # Redirections are removed: they have no effect here, and 2>&1 would be split into three tokens.
    line = re.sub(r"(?<!\S)[0-9&]?>>?\s*(?:&[0-9]|\S+)", "", line)
    lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|")
    lexer.whitespace_split, lexer.commenters = True, ""
    return list(lexer)


def _strip_comment(line: str) -> str:
    quote = ""
    for place, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and (place == 0 or line[place - 1] in " \t;"):
            return line[:place]
    return line


def _end_of_loop(commands: Sequence[_ShellCommand], place: int) -> int:
    """Return the index after the ``done`` of a loop whose body begins at an index."""
    depth = 1
    while place < len(commands) and depth:
        first = next((word for word in commands[place].words if word not in ("do", "then", "else")), "")
        depth += (first in _OPEN_LOOPS) - (first == "done")
        place += 1
    return place


_VARIABLE = re.compile(r"\$(?:\{(\w+|@)(?::?-([^}]*))?\}|(\d|\w+|@|\*))")
_RANGE = re.compile(r"(.*)\{(\d+)\.\.(\d+)\}(.*)")
_LIST = re.compile(r"([^{]*)\{([^{}]+,[^{}]*)\}([^{]*)")


class _ScriptReader:
    """An interpreter of a script's commands, which collects steps and notes."""

    def __init__(self) -> None:
        self.steps: list[SetupStep] = []
        self.notes: list[str] = []
        self.brokers: dict[str, None] = {}
        self.stops = self.has_tool = False
        self._words = self._depth = 0
        self._functions: dict[str, list[_ShellCommand]] = {}

    def read(self, commands: Sequence[_ShellCommand], variables: dict[str, str]) -> None:
        """Interpret commands in order; the body of a loop is interpreted once for each of its words."""
        place = 0
        while place < len(commands):
            line, words, ends_shell = commands[place]
            place += 1
            if words[0] in ("do", "then", "else", "{"):
                words = words[1:]
                if not words:
                    continue
            # A function's body is kept and interpreted at each call, as its commands depend on the arguments.
            function = re.match(r"(?:function )?([\w-]+) ?\(\)|function ([\w-]+)", " ".join(words))
            if words[0] == "for" and words[2:3] == ["in"]:
                place = self._loop(line, words, commands, place, variables)
            elif function:
                end = next(
                    (n for n in range(place, len(commands)) if commands[n].words == ["}"]), len(commands)
                )
                # Words after the opening brace on its line are the first command of the body.
                rest = words[words.index("{") + 1 :] if "{" in words else []
                first = [_ShellCommand(line, rest)] if rest else []
                self._functions[function[1] or function[2]] = [*first, *commands[place:end]]
                place = end + 1
            elif words[0] in _OPEN_LOOPS:
                place = _end_of_loop(commands, place)
                self.notes.append(f"line {line}: the loop '{' '.join(words)}' is not done here")
            elif words[0] in _BLOCKS:
                # Both branches are interpreted: the result of the test is unknown, and most tests need a
                # running broker.
                self.notes.append(
                    f"line {line}: '{words[0]}' is not read; the lines in it are taken as they stand"
                )
            else:
                self._read_command(_ShellCommand(line, words, ends_shell), variables)

    def _loop(
        self,
        line: int,
        words: Sequence[str],
        commands: Sequence[_ShellCommand],
        place: int,
        variables: dict[str, str],
    ) -> int:
        """Interpret the body of a loop for each of its words, and return the index after the loop."""
        end = _end_of_loop(commands, place)
        body = commands[place : end - 1]
        items = [item for word in words[3:] for item in self._expand(line, word, variables)]
        for item in items:
            self._words += sum(len(command.words) for command in body)
            if self._words > _MOST_WORDS:
                raise RefusalError(
                    f"line {line}: the loops of this script come to more than {_MOST_WORDS} words"
                )
            variables[words[1]] = item
            # Each iteration has the same line numbers; the words of a command show which iteration it is.
            self.read(body, variables)
        return end

    def _expand(self, line: int, word: str, variables: dict[str, str]) -> list[str]:
        """Return the words that a word expands to, with its variables, ranges and lists."""
        unknown: list[str] = []

        def value(match: re.Match[str]) -> str:
            name = match[1] or match[3]
            if name in variables:
                return variables[name]
            if match[2] is None:
                unknown.append(name)
            return match[2] or ""

        has_variable = "$" in word
        if word in ("$@", "$*"):
            return shlex.split(variables.get("@", ""))
        text = _VARIABLE.sub(value, word).replace("\0", "$")
        if unknown:
            self.notes.append(f"line {line}: the script does not set ${unknown[0]}, which is empty here")
        found = _RANGE.fullmatch(text)
        if found:
            first, last = int(found[2]), int(found[3])
            numbers = range(first, last + 1) if first <= last else range(first, last - 1, -1)
            return [f"{found[1]}{number}{found[4]}" for number in numbers[:_MOST_WORDS]]
        found = _LIST.fullmatch(text)
        if found and not has_variable and not re.search(r"[:\s]", text):
            return [found[1] + item + found[3] for item in found[2].split(",")]
        return text.split() if has_variable and text != word.replace("\0", "$") else [text]

    def _read_command(self, command: _ShellCommand, variables: dict[str, str]) -> None:
        line, words, ends_shell = command
        if re.fullmatch(r"(\w+)=.*", words[0], re.DOTALL) or words[0] in ("export", "readonly", "local"):
            for word in words:
                name, equals, text = word.partition("=")
                if equals and name.isidentifier():
                    variables[name] = " ".join(self._expand(line, text, variables))
            return
        expanded = [item for word in words for item in self._expand(line, word, variables)]
        if not expanded:
            return
        if expanded[0] in self._functions and self._depth < _DEEPEST:
            given = {str(number): word for number, word in enumerate(expanded[1:], 1)}
            self._depth += 1
            # As in the shell, a function shares its caller's variables except for the arguments.
            self.read(self._functions[expanded[0]], variables | given | {"@": shlex.join(expanded[1:])})
            self._depth -= 1
            return
        names = (_TOOL, f"{_TOOL}.py")
        place = next((n for n, word in enumerate(expanded) if Path(word).name in names), None)
        if place is None or (place and Path(expanded[0]).name not in _WRAPPERS):
            if expanded[0] == "set" and any(re.match(r"-\w*e", word) for word in expanded[1:]):
                self.stops = True
            elif expanded[0] not in _HARMLESS:
                self.notes.append(f"line {line}: '{expanded[0]}' is not done here")
            return
        self.has_tool = True
        self._read_tool(line, expanded[place + 1 :], ends_shell)

    def _read_tool(self, line: int, words: list[str], ends_shell: bool | None) -> None:
        rest: list[str] = []
        given = iter(words)
        for word in given:
            flag, equals, value = word.partition("=")
            if flag in _WITH_VALUE:
                value = value if equals else next(given, "")
                if flag in _ADDRESSES:
                    self.brokers.setdefault(value)
            elif re.match(r"-[ab].", word) and not word.startswith("--"):
                self.brokers.setdefault(word[2:])
            elif word not in _WITHOUT_VALUE:
                rest.append(word)
        verb = rest[0] if rest else ""
        if verb in _SHOWING:
            return
        text = shlex.join([_TOOL, *rest])
        try:
            step = step_of(rest, line, text)
        except ConfigurationError as error:
            step = SetupStep(line, text, error=str(error))
        self.steps.append(replace(step, ends_shell=ends_shell))


# The tool


def step_of(words: Sequence[str], line: int = 1, text: str = "") -> SetupStep:
    """Return the step for the words of a command, verb first, or raise the tool's ConfigurationError.

    >>> step_of(["bind", "amq.topic", "news", "news.#"]).name
    'amq.topic/news/news.#'
    """
    text = text or shlex.join([_TOOL, *words])
    verb, kind = words[0], words[1] if len(words) > 1 else ""
    if verb in ("bind", "unbind"):
        return _read_binding(verb, words[1:], line, text)
    if verb == "add" and kind:
        name, properties = _ADDING.get(kind, partial(_read_other, kind))(words[2:])
        return SetupStep(line, text, "create", kind, name, properties)
    if verb == "del" and kind:
        return _read_deletion(kind, words[2:], line, text)
    raise ConfigurationError(
        f"the action of {_TOOL} must be add, del, bind or unbind here; got {' '.join(words[:2])!r}"
    )


def _read_queue(words: Sequence[str]) -> tuple[str, dict[str, Argument]]:
    declaration = read_line(words)
    return declaration.name, declaration.properties()


def _read_exchange(words: Sequence[str]) -> tuple[str, dict[str, Argument]]:
    parser = LineParser(prog=f"{_TOOL} add exchange", add_help=False)
    add_exchange_options(parser)
    chosen = parser.parse_args(list(words))
    properties: dict[str, Argument] = {"exchange-type": chosen.type, **_read_extra(chosen.extra)}
    given = {
        "durable": int(chosen.durable),
        "alternate-exchange": chosen.alternate_exchange,
        "qpid.msg_sequence": int(chosen.sequence),
        "qpid.ive": int(chosen.ive),
        REPLICATE_KEY: chosen.replicate,
    }
    return chosen.name, properties | {key: value for key, value in given.items() if value}


def exchange_step(chosen: argparse.Namespace) -> SetupStep:
    """Return the step that adds an exchange, from parsed options."""
    words = ["add", "exchange", chosen.type, chosen.name]
    for flag in ("durable", "sequence", "ive"):
        words += [f"--{flag}"] if getattr(chosen, flag) else []
    for flag in ("alternate-exchange", "replicate"):
        value = getattr(chosen, flag.replace("-", "_"))
        words += [f"--{flag}={value}"] if value else []
    words += [word for extra in chosen.extra for word in ("--argument", extra)]
    return step_of(words)


def _read_other(kind: str, words: Sequence[str]) -> tuple[str, dict[str, Argument]]:
    parser = LineParser(prog=f"{_TOOL} add {kind}", add_help=False)
    parser.add_argument("name")
    parser.add_argument("--argument", dest="extra", action="append", default=[])
    chosen = parser.parse_args(list(words))
    return chosen.name, _read_extra(chosen.extra)


_ADDING: dict[str, Callable[[Sequence[str]], tuple[str, dict[str, Argument]]]] = {
    "queue": _read_queue,
    "exchange": _read_exchange,
}


def _read_extra(given: Sequence[str]) -> dict[str, Argument]:
    pairs = (text.partition("=") for text in given)
    return {key: read_value(value) if equals else None for key, equals, value in pairs}


def _read_binding(verb: str, words: Sequence[str], line: int, text: str) -> SetupStep:
    if len(words) < 2:
        raise ConfigurationError(f"{_TOOL} {verb} takes an exchange, a queue and perhaps a key")
    exchange, queue, key, *condition = [*words, ""] if len(words) == 2 else words
    name = f"{exchange}/{queue}/{key}"
    method: Literal["create", "delete"] = "create" if verb == "bind" else "delete"
    return SetupStep(line, text, method, "binding", name, condition=tuple(condition))


def _read_condition(words: Sequence[str]) -> dict[str, Argument]:
    """Return the arguments of a headers binding: ``all`` or ``any``, and ``key=value`` pairs."""
    if len(words) < 2 or words[0] not in ("all", "any"):
        got = " ".join(words) or "nothing"
        raise ConfigurationError(
            f"the condition of a headers binding must be all or any, then KEY=VALUE …; got {got}"
        )
    pairs = (word.partition("=") for word in words[1:])
    return {"x-match": words[0], **{key: value for key, _, value in pairs}}


def _read_deletion(kind: str, words: Sequence[str], line: int, text: str) -> SetupStep:
    parser = LineParser(prog=f"{_TOOL} del {kind}", add_help=False)
    parser.add_argument("name")
    forces = ("--force", "--force-if-not-empty", "--force-if-used")
    for flag in forces if kind == "queue" else ():
        parser.add_argument(flag, action="store_true")
    chosen = parser.parse_args(list(words))
    properties: dict[str, Argument] = {}
    if kind == "queue":
        properties = {
            "if_empty": not (chosen.force or chosen.force_if_not_empty),
            "if_unused": not (chosen.force or chosen.force_if_used),
        }
    return SetupStep(line, text, "delete", kind, chosen.name, properties)


# Results of a script


@dataclass(frozen=True, slots=True)
class SetupResult:
    """The result of a setup script: the broker after it, and the refused steps."""

    script: SetupScript
    broker: Broker
    refusals: tuple[SetupRefusal, ...]

    @classmethod
    def of(cls, script: SetupScript, broker: Broker) -> SetupResult:
        """Return the result of applying a script to a broker, which the script changes."""
        return cls(script, broker, tuple(script.apply(broker)))

    def bindings(self) -> list[tuple[str, str, str]]:
        """Return the exchange, queue and key of each binding, except on the default exchange."""
        return [
            (name, binding.queue.name, binding.key)
            for name, exchange in self.broker.exchanges.exchanges.items()
            if name
            for binding in exchange.bindings.values()
        ]

    def asdict(self) -> dict[str, object]:
        """Return the result as JSON values, as ``--json`` prints it."""
        queues = self.broker.queues.queues
        return {
            "script": self.script.name,
            "steps": len(self.script.steps),
            "queues": {name: dict(queue.settings.arguments) for name, queue in queues.items()},
            "exchanges": {name: exchange.type for name, exchange in self._own_exchanges()},
            "bindings": [list(binding) for binding in self.bindings()],
            "refusals": [
                {"line": one.step.line, "command": one.step.text, "reason": one.reason}
                for one in self.refusals
            ],
            "notes": list(self.notes()),
        }

    def _own_exchanges(self) -> Iterator[tuple[str, Exchange]]:
        """Yield the exchanges that the broker does not predeclare, with their names."""
        brought = Broker().exchanges.exchanges
        return ((name, one) for name, one in self.broker.exchanges.exchanges.items() if name not in brought)

    def notes(self) -> Iterator[str]:
        """Yield the notes on the script, and a note if a refusal ended the shell."""
        yield from self.script.notes
        if self.refusals:
            last = self.refusals[-1].step
            rest = len(self.script.steps) - self.script.steps.index(last) - 1
            if last.ends_shell or (last.ends_shell is None and self.script.stops_at_refusal):
                yield f"the shell ends at line {last.line}, and {rest} later commands are not done"

    def report(self) -> str:
        """Return tables of the broker's queues, exchanges and bindings, and the refusals, for a terminal."""
        bindings = self.bindings()
        parts = [str(broker_table(self.broker))]
        exchanges = [
            {"exchange": name, "type": one.type, "bindings": sum(name == bound for bound, *_ in bindings)}
            for name, one in self._own_exchanges()
        ]
        if exchanges:
            parts.append(str(Table(exchanges)))
        if bindings:
            parts.append(str(Table(bindings, ["exchange", "queue", "key"])))
        parts += [f"refused: {refusal}" for refusal in self.refusals]
        parts += [f"note: {note}" for note in self.notes()]
        return "\n".join(parts)
