"""Declarations: a queue in any notation, and the broker that it is tried on.

A queue is declared with a map of *arguments* and with a few properties besides.  The broker reads the
arguments that it knows and accepts all others without a word (CF-02).  Which it reads is asked of the engine
here, not kept in a second list.

A broker is started with options, which are read as qpidd reads them (rules.md#broker-options).
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from qflow.broker.errors import InvalidConversion, StartupError
from qflow.broker.history import ARGUMENT
from qflow.broker.options import (
    COMMAND_LINE,
    MODELLED,
    MODULES,
    NOT_MODELLED,
    BrokerOptions,
    Given,
    convert,
    ignored_variables,
    ignored_words,
    read_options,
)
from qflow.broker.settings import KEYS, Argument, QueueSettings, to_bool
from qflow.configuration.qpid_config import OPTIONS, REPLICATE_KEY
from qflow.kit import RefusalError
from qflow.table import Table

PROPERTIES = ("durable", "auto-delete", "alternate-exchange")
"""Keys that management takes out of the map; everything else is a declare argument (CF-07)."""

PASSED_ON = frozenset([option.key for option in OPTIONS if option.needs_durable] + [REPLICATE_KEY, ARGUMENT])
"""Keys that are not the queue's business but that of a store, of the HA module, or of this model."""

LONGEST_NAME = 255
"""Bytes of a queue's name, as in all commands that a client gives."""


class ConfigurationError(RefusalError):
    """A configuration that cannot be read or written; the text names the fault and the allowed values."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark: a "warning", "note" or "hint", with its rules."""

    kind: str
    text: str
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Declaration:
    """A queue's name, its declare arguments and its properties."""

    name: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    durable: bool = False
    auto_delete: bool = False
    exclusive: bool = False
    alternate_exchange: str = ""
    remarks: tuple[Remark, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigurationError(
                "a queue needs a name; the broker would create one named '' that no client can use (CF-06)"
            )
        length = len(self.name.encode(errors="surrogatepass"))
        if length > LONGEST_NAME:
            raise ConfigurationError(
                f"a queue's name must be at most {LONGEST_NAME} bytes, got {length}: the broker would create "
                "it, and no client can use it"
            )
        object.__setattr__(self, "arguments", MappingProxyType(dict(self.arguments)))

    @classmethod
    def of_properties(
        cls, name: str, properties: Mapping[str, Argument], remarks: tuple[Remark, ...] = ()
    ) -> Declaration:
        """Return the queue of a management ``create``, whose map mixes arguments and properties (CF-07)."""
        try:
            return cls(
                name,
                {key: value for key, value in properties.items() if key not in PROPERTIES},
                durable=to_bool(properties.get("durable", False)),
                auto_delete=to_bool(properties.get("auto-delete", False)),
                alternate_exchange=str(properties.get("alternate-exchange", "")),
                remarks=remarks,
            )
        except InvalidConversion as error:
            raise ConfigurationError(f"{', '.join(PROPERTIES[:2])} are yes or no: {error}") from error

    @classmethod
    def of_address(cls, name: str, options: Mapping[str, object]) -> Declaration:
        """Return the queue that a parsed address creates: its name, and its ``node`` options (CF-14)."""
        node = _read_map(options, "node")
        if (node.get("type") or "queue") != "queue":
            raise ConfigurationError(f"the node's type must be 'queue' here, got {node['type']!r}")
        declare = _read_map(node, "x-declare")
        return cls(
            name,
            {str(key): value for key, value in _read_map(declare, "arguments").items()},
            durable=_read_flag("durable", node.get("durable", declare.get("durable", False))),
            auto_delete=_read_flag("auto-delete", declare.get("auto-delete", False)),
            exclusive=_read_flag("exclusive", declare.get("exclusive", False)),
            alternate_exchange=str(declare.get("alternate-exchange", "")),
        )

    def properties(self) -> dict[str, Argument]:
        """Return the map that ``qpid-config`` passes to the management ``create`` (CF-07)."""
        given: dict[str, Argument] = dict(self.arguments)
        if self.durable:
            given["durable"] = 1
        if self.auto_delete:
            given["auto-delete"] = 1
        if self.alternate_exchange:
            given["alternate-exchange"] = self.alternate_exchange
        return given


def read_json_map(text: str) -> dict[str, Argument]:
    """Return the declare arguments in a JSON map."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"declare arguments are a JSON map, got something else: {error.msg} at line {error.lineno} "
            f"column {error.colno}"
        ) from error
    except (ValueError, RecursionError):
        # A number of thousands of digits, or maps in maps without end: JSON, but none that Python takes.
        raise ConfigurationError("declare arguments are a JSON map, got one too large to be read") from None
    if not isinstance(value, dict):
        raise ConfigurationError(f"declare arguments are a JSON map, got a {type(value).__name__}")
    return value


def _read_flag(name: str, value: object) -> bool:
    """Return a boolean, which qpid-cpp sends as text."""
    try:
        return to_bool(value) if isinstance(value, str) else bool(value)
    except InvalidConversion as error:
        raise ConfigurationError(f"{name} must be true or false: {error}") from error


def _read_map(options: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = options.get(key, {})
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{key}: got {value!r}, a map is due")
    return value


# Which arguments the broker reads (CF-01, CF-02)


def is_understood(key: str) -> bool:
    """Return whether the broker understands a declare argument; it silently accepts any other."""
    # No setting is made of a list: either it is refused, or its text appears.
    return key in PASSED_ON or _read(key, ["?"]) != QueueSettings()


def reads_same(key: str, one: Argument, other: Argument) -> bool:
    """Return whether two values of an argument are equal to the broker."""
    read = _read(key, one)
    return read is not None and read == _read(key, other) and is_understood(key)


def suggestion(key: str) -> str:
    """Return the understood key most similar to this one, or ""."""
    close = difflib.get_close_matches(key, KEYS, 1, 0.8)
    return close[0] if close else ""


def _read(key: str, value: Argument) -> QueueSettings | None:
    try:
        return replace(QueueSettings.from_arguments({key: value}), arguments={})
    except InvalidConversion:
        return None


def ignored_arguments(arguments: Mapping[str, Argument]) -> Iterator[str]:
    """Yield a sentence for each declare argument without effect on the broker (CF-02)."""
    for key in arguments:
        if not is_understood(key):
            near = suggestion(key)
            yield f"the broker passes over {key!r} (CF-02)" + (f"; did you mean {near!r}?" if near else "")


# The broker

_RETIRED = {
    "auto-expand": "an option of the legacy store, commented out in 1.40",
    "max-auto-expand-jfiles": "an option of the legacy store, commented out in 1.40",
    "async-queue-events": "an option of an older release",
    "max-connections-per-user": "an option of an older release; 1.40 has connection-limit-per-user (ACL)",
    "staging-threshold": "an option of an older release",
    "replication-exchange-name": "an option of an older release",
}
"""Options of older releases that 1.40 refuses, with their history."""

_CLUSTER = "an option of clustering, removed between 0.18 and 0.20; the HA module replaced it (ha-cluster)"

_ROLES = {
    "HA": "replication to backups; no effect on flow control",
    "ACL": "what clients may do; no effect on flow control",
    "SSL": "how clients connect; no effect on flow control",
    "AMQP 1.0": "nodes that are created when a client asks for them; no effect on flow control here",
}
_CLIENTS = frozenset(
    ("session-max-unacked", "auth", "realm", "sasl-service-name", "sasl-config", "require-encryption")
    + ("max-negotiate-time", "connection-backlog", "interface", "listen-disable", "protocols", "port")
)
"""Options of the broker itself that govern the connections and permissions of clients."""


class OptionUse(NamedTuple):
    """An option of a broker: its module, and its effect in this model."""

    name: str
    value: str
    module: str
    effect: str
    source: str


def _use_of(given: Given) -> OptionUse:
    module = next((module for module, names in MODULES.items() if given.name in names), "broker")
    if given.name in MODELLED:
        effect = "changes what queues do here"
    elif given.name in _CLIENTS:
        effect = _ROLES["ACL"]
    else:
        effect = _ROLES.get(module, "no effect on flow control")
    return OptionUse(given.name, given.text, module, effect, given.source)


def explain_unknown(name: str) -> str:
    """Return a hint about an option that 1.40 lacks; "" without one."""
    if name in _RETIRED:
        return _RETIRED[name]
    if name.startswith("cluster-"):
        return _CLUSTER
    # A strict likeness: a wrong hint costs more than none.
    near = difflib.get_close_matches(name, [*MODELLED, *NOT_MODELLED], 1, 0.8)
    return f"did you mean {near[0]}?" if near else ""


@dataclass(frozen=True, slots=True)
class BrokerSetup:
    """The options that a broker starts with, and the source of each."""

    options: BrokerOptions = field(default_factory=BrokerOptions)
    given: tuple[Given, ...] = ()
    ignored: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @classmethod
    def read(
        cls, arguments: Iterable[str] = (), environment: Mapping[str, str] | None = None, file: str = ""
    ) -> BrokerSetup:
        """Read a command line, an environment and a file; a StartupError lists all problems, one a line."""
        # The words are read twice: they may name the file, whose lines come after them.
        words, variables = list(arguments), environment or {}
        problems: list[str] = []
        ignored = ignored_variables(variables)
        try:
            named = read_options(words, variables, check=convert).get("config")
        except StartupError as error:
            # Continue with the file alone, to report its problems too.
            problems.append(_with_hint(str(error)))
            named, words, variables = None, [], {}
        path = named.text if named else file
        lines: list[str] = []
        try:
            lines = _keep_good(_read_lines(path) if path else (), path, problems)
        except StartupError as error:
            problems.append(str(error))
        given = read_options(words, variables, lines, path, convert)
        options = BrokerOptions()
        try:
            # Ratios that do not fit one another are found when all the rest is read.
            options = BrokerOptions.of_given(given)
        except StartupError as error:
            problems.append(str(error))
        if problems:
            # No class of its own: the compiled StartupError has no subclasses of Python's.
            raise StartupError("\n".join(problems))
        return cls(options, tuple(given.values()), ignored, ignored_words(words))

    @property
    def not_modelled(self) -> tuple[str, ...]:
        """Names of the given options without effect here."""
        return tuple(given.name for given in self.given if given.name in NOT_MODELLED)

    @property
    def uses(self) -> tuple[OptionUse, ...]:
        """Each given option, with its module and its effect here."""
        return tuple(map(_use_of, self.given))

    def remarks(self) -> Iterator[Remark]:
        """Yield the remarks on the options."""
        without = [name for name in self.not_modelled if name != "config"]
        if without:
            yield Remark("note", f"broker options that change nothing in this model: {', '.join(without)}")
        modules = sorted(
            {use.module for use in self.uses} & {"HA", "store", "linear store", "legacy store", "SSL"}
        )
        if modules:
            yield Remark(
                "note", f"qpidd knows the options of {', '.join(modules)} where that module is loaded"
            )
        for variable in self.ignored:
            yield Remark("warning", f"the variable {variable} names no option; qpidd ignores it in silence")
        for word in self.words:
            yield Remark("warning", f"the word {word} is no option; qpidd ignores it in silence")

    def asdict(self) -> dict[str, object]:
        """Return the options as plain values."""
        options = [
            {
                "name": use.name,
                "value": use.value,
                "from": use.source,
                "module": use.module,
                "effect": use.effect,
            }
            for use in self.uses
        ]
        return {"options": options, "not_modelled": list(self.not_modelled)}

    def text(self) -> str:
        """Return the options as on qpidd's command line; "" without any."""
        return "\n".join(
            f"--{given.name}={given.text}"
            + ("" if given.source == COMMAND_LINE else f"   from {given.source}")
            for given in self.given
        )


def report_options(setup: BrokerSetup) -> str:
    """Return the options of a broker as a table for a terminal, with remarks."""
    rows = [use[:4] for use in setup.uses] or [("none", "", "", "the broker has its defaults")]
    table = Table(rows, ("option", "value", "module", "effect"))
    return "\n".join([str(table), *(f"{remark.kind}: {remark.text}" for remark in setup.remarks())])


def _keep_good(lines: Iterable[str], path: str, problems: list[str]) -> list[str]:
    """Return the lines of a configuration file that qpidd accepts, and collect its refusals of the others."""
    good: list[str] = []
    for line in lines:
        try:
            # With those before it, as an option must not come twice.
            read_options((), {}, [*good, line], path, convert)
        except StartupError as error:
            problems.append(_with_hint(str(error)))
        else:
            good.append(line)
    return good


def _with_hint(problem: str) -> str:
    # qpidd's words stay as they are, so that they can be searched for; ours follow in brackets.
    found = re.search(r"Bad argument: \|\s*([^=|]+?)\s*(?:=|\|$)|unrecognised option '--([^']+)'", problem)
    hint = explain_unknown(found[1] or found[2]) if found else ""
    return f"{problem}  ({hint})" if hint else problem


def _read_lines(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8", "surrogateescape").splitlines()
    except OSError as error:
        raise StartupError(
            f"Error in configuration file {path}: cannot read configuration file {path}"
        ) from error
