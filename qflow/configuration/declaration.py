"""Declarations of queues, independent of their notation, and the broker that a declaration is tried on.

A queue is declared with a map of *arguments* and a few *properties*, such as ``durable``.  The broker reads
the arguments that it knows, and silently accepts all others (CF-02).  To find out which arguments it reads,
this module tries them on the engine, instead of keeping a second list.

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
"""The keys in the map of a management ``create`` that are properties; all others are arguments (CF-07)."""

PASSED_ON = frozenset([option.key for option in OPTIONS if option.needs_durable] + [REPLICATE_KEY, ARGUMENT])
"""Arguments that the queue itself ignores: they are for a store, for the HA module, or for this model."""

LONGEST_NAME = 255
"""The largest length of a queue's name in a command of a client, in bytes."""


class ConfigurationError(RefusalError):
    """A configuration cannot be read or written; the text names the fault and the allowed values."""


@dataclass(frozen=True, slots=True)
class Remark:
    """A remark on a declaration: its kind ("warning", "note" or "hint"), its text and its rules."""

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
                f"a queue's name must be at most {LONGEST_NAME} bytes; got {length}: the broker would create "
                "the queue, and no client could use it"
            )
        object.__setattr__(self, "arguments", MappingProxyType(dict(self.arguments)))

    @classmethod
    def of_properties(
        cls, name: str, properties: Mapping[str, Argument], remarks: tuple[Remark, ...] = ()
    ) -> Declaration:
        """Return the declaration from the map of a management ``create``, properties included (CF-07)."""
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
            raise ConfigurationError(
                f"{' and '.join(PROPERTIES[:2])} must be true or false: {error}"
            ) from error

    @classmethod
    def of_address(cls, name: str, options: Mapping[str, object]) -> Declaration:
        """Return the declaration from a parsed address: its name and its ``node`` options (CF-14)."""
        node = _read_map(options, "node")
        if (node.get("type") or "queue") != "queue":
            raise ConfigurationError(f"the node's type must be 'queue' here; got {node['type']!r}")
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
    """Return the declare arguments in a JSON map, or raise a ConfigurationError."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"declare arguments must be a JSON map; got other text: {error.msg} at line {error.lineno} "
            f"column {error.colno}"
        ) from error
    except (ValueError, RecursionError):
        # JSON that Python cannot read: a number of thousands of digits, or too deeply nested maps.
        raise ConfigurationError("declare arguments must be a JSON map; got one too large to read") from None
    if not isinstance(value, dict):
        raise ConfigurationError(f"declare arguments must be a JSON map; got a {type(value).__name__}")
    return value


def _read_flag(name: str, value: object) -> bool:
    """Return a boolean, which may be text as qpid-cpp sends it, or raise a ConfigurationError."""
    try:
        return to_bool(value) if isinstance(value, str) else bool(value)
    except InvalidConversion as error:
        raise ConfigurationError(f"{name} must be true or false: {error}") from error


def _read_map(options: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = options.get(key, {})
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{key} must be a map; got {value!r}")
    return value


# The arguments that the broker reads (CF-01, CF-02)


def is_understood(key: str) -> bool:
    """Return whether the broker reads a declare argument; it silently accepts any other."""
    # Tried with a list, which no setting allows: for an argument that is read, it is refused or kept as text.
    return key in PASSED_ON or _read(key, ["?"]) != QueueSettings()


def reads_same(key: str, one: Argument, other: Argument) -> bool:
    """Return whether the broker reads two values of an argument as the same setting."""
    read = _read(key, one)
    return read is not None and read == _read(key, other) and is_understood(key)


def suggestion(key: str) -> str:
    """Return the argument that the broker reads and whose name is most similar to a key, or ""."""
    close = difflib.get_close_matches(key, KEYS, 1, 0.8)
    return close[0] if close else ""


def _read(key: str, value: Argument) -> QueueSettings | None:
    try:
        return replace(QueueSettings.from_arguments({key: value}), arguments={})
    except InvalidConversion:
        return None


def ignored_arguments(arguments: Mapping[str, Argument]) -> Iterator[str]:
    """Yield a sentence for each declare argument that the broker ignores (CF-02)."""
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
"""Broker options of older releases, which 1.40 refuses, and the reason for each."""

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
"""Options of the broker itself for the connections and permissions of clients."""


class OptionUse(NamedTuple):
    """A given option of a broker, with its module, its effect in this model, and its source."""

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
    """Return a hint about a broker option that 1.40 does not have, or ""."""
    if name in _RETIRED:
        return _RETIRED[name]
    if name.startswith("cluster-"):
        return _CLUSTER
    # A high threshold of similarity, as a wrong hint is worse than none.
    near = difflib.get_close_matches(name, [*MODELLED, *NOT_MODELLED], 1, 0.8)
    return f"did you mean {near[0]}?" if near else ""


@dataclass(frozen=True, slots=True)
class BrokerSetup:
    """The start options of a broker, with the source of each, and the variables and words it ignores."""

    options: BrokerOptions = field(default_factory=BrokerOptions)
    given: tuple[Given, ...] = ()
    ignored: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @classmethod
    def read(
        cls, arguments: Iterable[str] = (), environment: Mapping[str, str] | None = None, file: str = ""
    ) -> BrokerSetup:
        """Read a command line, an environment and a file, or raise a StartupError with all problems."""
        # The command line is read twice: it may name the file, which has a lower precedence.
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
            # Contradictory ratios are found only when all options are known.
            options = BrokerOptions.of_given(given)
        except StartupError as error:
            problems.append(str(error))
        if problems:
            # Not a subclass: the compiled StartupError cannot have subclasses in Python.
            raise StartupError("\n".join(problems))
        return cls(options, tuple(given.values()), ignored, ignored_words(words))

    @property
    def not_modelled(self) -> tuple[str, ...]:
        """The names of the given options that have no effect in this model."""
        return tuple(given.name for given in self.given if given.name in NOT_MODELLED)

    @property
    def uses(self) -> tuple[OptionUse, ...]:
        """The given options, each with its module and its effect in this model."""
        return tuple(map(_use_of, self.given))

    def remarks(self) -> Iterator[Remark]:
        """Yield the remarks on options without effect, on modules, and on ignored variables and words."""
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
        """Return the options as JSON values."""
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
        """Return the given options as on qpidd's command line, one per line, or ""."""
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
            # Read together with the lines before it, as an option must not be given twice.
            read_options((), {}, [*good, line], path, convert)
        except StartupError as error:
            problems.append(_with_hint(str(error)))
        else:
            good.append(line)
    return good


def _with_hint(problem: str) -> str:
    # qpidd's own text is unchanged, so that people can search for it; our hint follows in parentheses.
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
