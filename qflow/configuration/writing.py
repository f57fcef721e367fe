"""Writing a declaration: as a ``qpid-config`` line, and as an address string (table 8.2, CF-14)."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from qflow.broker.conversions import Argument
from qflow.configuration.declaration import PROPERTIES, ConfigurationError, Declaration
from qflow.configuration.keys import reads_same
from qflow.configuration.queue_options import (
    OPTIONS,
    POLICY_KEY,
    REPLICATE_KEY,
    REPLICATION,
    SENT_POLICIES,
    QueueOption,
)
from qflow.configuration.reading import as_argument

_INT64 = 1 << 63


def qpid_config_line(declaration: Declaration) -> str:
    """Write the line that declares a queue; :func:`~qflow.configuration.reading.read_line` reads it back.

    A value that the tool cannot send is written as the integer that means the same to the broker
    (``True`` as 1, ``"10"`` as 10), if there is one.

    Raises
    ------
    ConfigurationError
        If the tool has no way to say it.

    Examples
    --------
    >>> print(qpid_config_line(Declaration("orders", {"qpid.flow_stop_count": 900, "qpid.alert_count": 5})))
    qpid-config add queue orders --flow-stop-count=900 --argument qpid.alert_count=5
    """
    if declaration.exclusive:
        raise ConfigurationError("exclusive: qpid-config has no option for a queue only its declarer can use")
    rest = {key: _sendable(key, value) for key, value in declaration.arguments.items()}
    words: list[str] = []
    for option in OPTIONS:
        if option.key in rest and _takes(option, rest[option.key], declaration.durable):
            value = rest.pop(option.key)
            words.append(option.flag if option.kind == "switch" else f"{option.flag}={value}")
    if rest.get(POLICY_KEY) in SENT_POLICIES:
        words.append(f"--limit-policy={rest.pop(POLICY_KEY)}")
    if rest.get(REPLICATE_KEY) in REPLICATION:
        words.append(f"--replicate={rest.pop(REPLICATE_KEY)}")
    if declaration.alternate_exchange:
        words.append(f"--alternate-exchange={declaration.alternate_exchange}")
    if declaration.durable:
        words.append("--durable")
    if declaration.auto_delete:
        rest["auto-delete"] = 1
    for key, value in rest.items():
        words += _extra(key, value)
    name = declaration.name
    words = [*words, "--", name] if name.startswith("-") else [name, *words]
    return shlex.join(["qpid-config", "add", "queue", *words])


def _sendable(key: str, value: Argument) -> int | str | None:
    if key in PROPERTIES or "=" in key:
        raise ConfigurationError(f"{key}: qpid-config cannot send a declare argument of this name")
    if value is None or type(value) is int:
        return value
    as_sent = as_argument(value) if isinstance(value, str) else value
    if isinstance(as_sent, str):
        return as_sent
    if isinstance(as_sent, int) and reads_same(key, value, int(as_sent)):
        return int(as_sent)
    raise ConfigurationError(
        f"{key}={value!r}: qpid-config cannot send this; it sends null, whole numbers, and strings that do "
        "not read as a whole number"
    )


def _takes(option: QueueOption, value: int | str | None, durable: bool) -> bool:
    if option.needs_durable:
        return durable and type(value) is int and value != 0
    if option.kind == "switch":
        return value == 1
    return type(value) is int if option.kind == "integer" else isinstance(value, str) and value != ""


def _extra(key: str, value: int | str | None) -> list[str]:
    text = key if value is None else f"{key}={value}"
    return [f"--argument={text}"] if text.startswith("-") else ["--argument", text]


def address_string(declaration: Declaration) -> str:
    """Write an address that creates the queue, in words that qpid-cpp and qpid-python read alike.

    Raises
    ------
    ConfigurationError
        If no spelling means the same to both: null, a backslash, both kinds of quotes, ``#`` in a name.

    Examples
    --------
    >>> print(address_string(Declaration("q", {"qpid.max_count": 10}, durable=True)))
    q; {create: always, node: {type: queue, durable: True, x-declare: {arguments: {'qpid.max_count': 10}}}}
    """
    declare = ", ".join(
        f"{key}: {_spell(value)}"
        for key, value in (
            ("alternate-exchange", declaration.alternate_exchange),
            ("auto-delete", declaration.auto_delete),
            ("exclusive", declaration.exclusive),
            ("arguments", declaration.arguments),
        )
        if value
    )
    node = "type: queue"
    if declaration.durable:
        node += ", durable: True"
    if declare:
        node += f", x-declare: {{{declare}}}"
    return f"{_spell_name(declaration.name)}; {{create: always, node: {{{node}}}}}"


def _spell_name(name: str) -> str:
    if "#" in name:
        raise ConfigurationError(f"name {name!r}: clients replace the # in an address by a random id")
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name) else _spell_text(name)


def _spell(value: object) -> str:
    if isinstance(value, Mapping):
        # Always quoted: qpid-python takes a bare "true" for the constant, and no dot in a bare word.
        return (
            "{" + ", ".join(f"{_spell_text(str(key))}: {_spell(item)}" for key, item in value.items()) + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_spell, value)) + "]"
    if isinstance(value, str):
        return _spell_text(value)
    if isinstance(value, bool) or (isinstance(value, int) and -_INT64 <= value < _INT64):
        return str(value)
    if isinstance(value, float) and re.fullmatch(r"-?\d+\.\d+", str(value)):
        return str(value)
    raise ConfigurationError(f"{value!r}: no address string says this to qpid-cpp and qpid-python alike")


def _spell_text(text: str) -> str:
    """Quote; qpid-cpp knows no escapes, so what would need one cannot be said."""
    for quote in "'\"":
        if quote not in text and "\\" not in text and text.isprintable():
            return quote + text + quote
    raise ConfigurationError(f"{text!r}: no quotes make qpid-cpp and qpid-python read this alike")
