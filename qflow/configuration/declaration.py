"""What is asked for: a queue, in whatever notation, and the broker that it is tried on.

A queue is declared with a map of *arguments* and with a few properties besides.  The broker reads the
arguments that it knows and accepts all others without a word (CF-02).  Which it reads is asked of the engine
here, not kept in a second list.

A broker is started with options, which are read as qpidd reads them (rules.md#broker-options).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from qflow.broker.errors import InvalidConversion, StartupError
from qflow.broker.history import ARGUMENT
from qflow.broker.options import (
    COMMAND_LINE,
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

PROPERTIES = ("durable", "auto-delete", "alternate-exchange")
"""Keys that management takes out of the map; everything else is a declare argument (CF-07)."""

PASSED_ON = frozenset([option.key for option in OPTIONS if option.needs_durable] + [REPLICATE_KEY, ARGUMENT])
"""Keys that are not the queue's business but that of a store, of the HA module, or of this model."""

LONGEST_NAME = 255
"""Bytes of a queue's name, as in all commands that a client gives."""


class ConfigurationError(RefusalError):
    """A configuration that cannot be read or written; the text says what is wrong and what is allowed."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something worth knowing, a "warning", "note" or "hint", with the rules that say so."""

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
                f"a queue's name is at most {LONGEST_NAME} bytes; got {length}: the broker would create it, "
                "and no client can use it"
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
        """Return the queue that a parsed address creates: its name and, of its options, ``node`` (CF-14)."""
        node = _read_map(options, "node")
        if (node.get("type") or "queue") != "queue":
            raise ConfigurationError(f"node type: got {node['type']!r}, a queue is due")
        declare = _read_map(node, "x-declare")
        return cls(
            name,
            {str(key): value for key, value in _read_map(declare, "arguments").items()},
            durable=bool(node.get("durable", declare.get("durable", False))),
            auto_delete=bool(declare.get("auto-delete", False)),
            exclusive=bool(declare.get("exclusive", False)),
            alternate_exchange=str(declare.get("alternate-exchange", "")),
        )

    def properties(self) -> dict[str, Argument]:
        """Return the map that ``qpid-config`` hands to the management ``create`` (CF-07)."""
        given: dict[str, Argument] = dict(self.arguments)
        if self.durable:
            given["durable"] = 1
        if self.auto_delete:
            given["auto-delete"] = 1
        if self.alternate_exchange:
            given["alternate-exchange"] = self.alternate_exchange
        return given


def read_json_map(text: str) -> dict[str, Argument]:
    """Return the declare arguments that a JSON map holds."""
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


def _read_map(options: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = options.get(key, {})
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{key}: got {value!r}, a map is due")
    return value


# Which arguments the broker reads (CF-01, CF-02)


def is_understood(key: str) -> bool:
    """Return whether a declare argument means anything to the broker, which accepts any other in silence."""
    # No setting is made of a list: either it is refused, or its text appears.
    return key in PASSED_ON or _read(key, ["?"]) != QueueSettings()


def reads_same(key: str, one: Argument, other: Argument) -> bool:
    """Return whether two values of an argument mean the same to the broker."""
    read = _read(key, one)
    return read is not None and read == _read(key, other) and is_understood(key)


def suggestion(key: str) -> str:
    """Return the understood key that looks most like this one, or ""."""
    close = difflib.get_close_matches(key, KEYS, 1, 0.8)
    return close[0] if close else ""


def _read(key: str, value: Argument) -> QueueSettings | None:
    try:
        return replace(QueueSettings.from_arguments({key: value}), arguments={})
    except InvalidConversion:
        return None


def ignored_arguments(arguments: Mapping[str, Argument]) -> Iterator[str]:
    """Yield a sentence for each declare argument that means nothing to the broker (CF-02)."""
    for key in arguments:
        if not is_understood(key):
            near = suggestion(key)
            yield f"the broker passes over {key!r} (CF-02)" + (f"; did you mean {near!r}?" if near else "")


# The broker


@dataclass(frozen=True, slots=True)
class BrokerSetup:
    """What a broker is started with, and where each option came from."""

    options: BrokerOptions = field(default_factory=BrokerOptions)
    given: tuple[Given, ...] = ()
    ignored: tuple[str, ...] = ()
    words: tuple[str, ...] = ()

    @classmethod
    def read(
        cls, arguments: Iterable[str] = (), environment: Mapping[str, str] | None = None, file: str = ""
    ) -> BrokerSetup:
        """Return what a command line, an environment and the file of ``--config``, or else ``file``, give."""
        words, variables = list(arguments), environment or {}
        named = read_options(words, variables, check=convert).get("config")
        path = named.text if named else file
        given = read_options(words, variables, _read_lines(path) if path else (), path, convert)
        options, ignored = BrokerOptions.of_given(given), ignored_variables(variables)
        return cls(options, tuple(given.values()), ignored, ignored_words(words))

    @property
    def not_modelled(self) -> tuple[str, ...]:
        """Names of options that were given and have no effect here."""
        return tuple(given.name for given in self.given if given.name in NOT_MODELLED)

    def remarks(self) -> Iterator[Remark]:
        """Yield what to know about the options."""
        without = [name for name in self.not_modelled if name != "config"]
        if without:
            yield Remark("note", f"broker options that change nothing in this model: {', '.join(without)}")
        for variable in self.ignored:
            yield Remark("warning", f"the variable {variable} names no option; qpidd ignores it in silence")
        for word in self.words:
            yield Remark("warning", f"the word {word} is no option; qpidd ignores it in silence")

    def asdict(self) -> dict[str, object]:
        """Return the options as plain values."""
        options = [{"name": given.name, "value": given.text, "from": given.source} for given in self.given]
        return {"options": options, "not_modelled": list(self.not_modelled)}

    def text(self) -> str:
        """Return the options as on qpidd's command line; "" if none was given."""
        return "\n".join(
            f"--{given.name}={given.text}"
            + ("" if given.source == COMMAND_LINE else f"   from {given.source}")
            for given in self.given
        )


def _read_lines(path: str) -> list[str]:
    try:
        return Path(path).read_text("utf-8", "surrogateescape").splitlines()
    except OSError as error:
        raise StartupError(
            f"Error in configuration file {path}: cannot read configuration file {path}"
        ) from error
