"""The notations in which people write a queue, each read and written: ``qpid-config``, addresses, JSON.

=====================================  ==================================  ==========================
a line of ``qpid-config add queue``    :func:`read_line`                   :func:`qpid_config_line`
an address string                      :func:`read_address` (CF-14),       :func:`address_string`
                                       :func:`address_readings`
a JSON map, or any of the three        :func:`read_any`
=====================================  ==================================  ==========================

All come to a :class:`~qflow.configuration.declaration.Declaration`; what is written is read back as the same
one.  What a notation cannot say (the tool sends no lists, an address no null) is refused.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import NoReturn

from qflow.broker.settings import Argument
from qflow.configuration.declaration import (
    PROPERTIES,
    ConfigurationError,
    Declaration,
    Remark,
    read_json_map,
    reads_same,
)
from qflow.configuration.qpid_config import (
    OPTIONS,
    POLICY_KEY,
    REPLICATE_KEY,
    REPLICATION,
    SENT_POLICIES,
    QueueOption,
    add_queue_options,
)


class LineParser(argparse.ArgumentParser):
    """A parser for text typed into a lab: it raises instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raise the tool's error message."""
        raise ConfigurationError(message)


def read_line(line: str | Sequence[str]) -> Declaration:
    """Return the queue of a ``qpid-config add queue`` line (or its words); the command may be omitted.

    Raises:
        ConfigurationError: For an unknown option or a bad value; the real tool ends with status 2 then.

    >>> read_line("qpid-config add queue orders --max-queue-count=10 --limit-policy ring").arguments
    mappingproxy({'qpid.max_count': 10, 'qpid.policy_type': 'ring'})
    """
    try:
        words = shlex.split(line) if isinstance(line, str) else list(line)
    except ValueError as error:
        raise ConfigurationError(f"the line cannot be split into words: {error}") from error
    for start in (["qpid-config"], ["qflow", "config"], []):
        if words[: len(start) + 2] == [*start, "add", "queue"]:
            words = words[len(start) + 2 :]
    return declaration_of(_queue_parser().parse_args(words))


@cache
def _queue_parser() -> LineParser:
    # Building the parser takes ten times as long as using it, and a setup has many queues.
    parser = LineParser(prog="qpid-config add queue", add_help=False)
    add_queue_options(parser)
    return parser


PYTHON, CPP = CLIENTS = ("qpid-python", "qpid-cpp")
"""The clients whose grammars of an address differ."""


def read_address(text: str, client: str = PYTHON) -> Declaration:
    """Return the queue that an address string would create.

    Parameters:
        client: The client that reads it, ``qpid-python`` or ``qpid-cpp``.

    Raises:
        ConfigurationError: If the text is no address, or the address not one of a queue.

    >>> read_address("orders; {create: always, node: {x-declare: {arguments: {'qpid.max_count': 10}}}}")
    Declaration(name='orders', arguments=mappingproxy({'qpid.max_count': 10}), durable=False, ...)
    >>> read_address("orders; {node: {x-declare: {arguments: {qpid.max_count: 10}}}}", "qpid-cpp").arguments
    mappingproxy({'qpid.max_count': 10})
    """
    # The client API is loaded only for those who read addresses.
    from qflow.messaging.address import LexError, ParseError, find_error, parse, parse_cpp

    is_cpp = client == CPP
    try:
        address = parse_cpp(text) if is_cpp else parse(text)
    except (LexError, ParseError) as error:
        raise ConfigurationError(f"no address: {error}") from error
    options = address.options or {}
    # A receiver's options include all of a sender's: whichever is meant, its address is read.
    wrong = find_error(options, "receiver", is_cpp=is_cpp)
    if wrong:
        raise ConfigurationError(f"no address: {wrong}")
    return Declaration.of_address(address.name, {str(key): value for key, value in options.items()})


def address_readings(text: str) -> dict[str, Declaration | ConfigurationError]:
    """Return the queue that each client creates for an address string, or the error it raises.

    >>> list(address_readings("q; {node: {x-declare: {arguments: {qpid.max_count: 10}}}}").values())
    [ConfigurationError('no address: expecting COLON, got SYM(.) ...'), Declaration(name='q', ...)]
    """
    readings: dict[str, Declaration | ConfigurationError] = {}
    for client in CLIENTS:
        try:
            readings[client] = read_address(text, client)
        except ConfigurationError as error:
            readings[client] = error
    return readings


def compare_readings(readings: Mapping[str, Declaration | ConfigurationError]) -> dict[str, str]:
    """Return each client's reading in words, the second as a difference from the first."""
    found: dict[str, str] = {}
    first: Declaration | None = None
    for client, reading in readings.items():
        if not isinstance(reading, Declaration):
            found[client] = str(reading)
        elif first is None or reading == first:
            found[client] = "reads it" if first is None else "reads the same"
            first = first or reading
        else:
            differing = [
                f"{key} = {value!r}"
                for key, value in reading.arguments.items()
                if key not in first.arguments or type(first.arguments[key]) is not type(value)
            ]
            # Clients send different types for one value, such as True and "True": the broker may read both
            # alike.
            is_same = all(
                key in reading.arguments and reads_same(key, value, reading.arguments[key])
                for key, value in first.arguments.items()
                if value != reading.arguments.get(key)
            )
            alike = ", the same to the broker" if is_same else ""
            found[client] = f"reads {', '.join(differing) or 'another queue'}{alike}"
    return found


def read_any(text: str, name: str = "queue") -> Declaration:
    """Return the queue that a text declares, in any notation.

    A text that begins with ``{`` is JSON, and ``name`` is the queue's; one with ``; {`` in it is an address;
    any other is a line of options.

    Raises:
        ConfigurationError: If the text is invalid in the notation that it resembles.

    >>> read_any('{"qpid.max_count": 9}', "q") == read_any("q --max-queue-count=9")
    True
    """
    # A name alone is an address and a line alike, and both come to the same queue.
    if text.lstrip().startswith("{"):
        return Declaration.of_properties(name, read_json_map(text))
    # A line may have a semicolon in a quoted name; followed by a brace it is an address.
    if re.match(r"[^;]*;\s*\{", text):
        return read_address(text)
    return read_line(text)


def declaration_of(chosen: argparse.Namespace, declare: str = "") -> Declaration:
    """Return the declaration of parsed options, added to declare arguments given as a JSON map."""
    properties: dict[str, Argument] = read_json_map(declare) if declare else {}
    for text in chosen.extra:
        key, equals, value = text.partition("=")
        properties[key] = read_value(value) if equals else None
    remarks: list[Remark] = []
    for option in OPTIONS:
        value = getattr(chosen, option.attribute)
        if value is None or value is False:
            continue
        unsent = _why_not_sent(value, option.needs_durable, chosen.durable)
        if unsent:
            remarks.append(Remark("warning", f"{option.flag} {unsent}"))
        else:
            properties[option.key] = 1 if value is True else value
    if chosen.limit_policy in SENT_POLICIES:
        properties[POLICY_KEY] = chosen.limit_policy
    if chosen.alternate_exchange:
        properties["alternate-exchange"] = chosen.alternate_exchange
    if chosen.durable:
        properties["durable"] = 1
    if chosen.replicate:
        properties[REPLICATE_KEY] = chosen.replicate
    return Declaration.of_properties(chosen.name, properties, (*remarks, *_remarks(chosen)))


def read_value(text: str) -> int | str:
    """Return the value of ``--argument NAME=VALUE`` as sent: an integer if it can be read as one."""
    try:
        return int(text)
    except ValueError:
        return text


def _why_not_sent(value: object, needs_durable: bool, durable: bool) -> str:
    if value == "":
        return "is empty: qpid-config does not send it"
    if needs_durable and not durable:
        return "is for durable queues: qpid-config does not send it without --durable"
    if needs_durable and value == 0:
        return "is 0: qpid-config does not send it"
    return ""


def _remarks(chosen: argparse.Namespace) -> Iterator[Remark]:
    if chosen.limit_policy == "ring-strict":
        yield Remark(
            "warning",
            "--limit-policy=ring-strict sends nothing at all: the queue gets the default policy, reject, and "
            "flow control",
            ("X-26", "LP-04"),
        )
    elif chosen.limit_policy == "ring":
        yield Remark(
            "note",
            'the tool\'s help says that ring replaces the "oldest unacquired message"; the broker evicts '
            "acquired ones too",
            ("X-24", "LP-10"),
        )
    if chosen.start_replica:
        yield Remark("note", "--start-replica calls the HA module of the broker, which this model leaves out")


_INT64 = 1 << 63


def qpid_config_line(declaration: Declaration) -> str:
    """Write the line that declares a queue; :func:`~qflow.configuration.notations.read_line` reads it back.

    A value that the tool cannot send is written as the integer that means the same to the broker
    (``True`` as 1, ``"10"`` as 10), if there is one.

    Raises:
        ConfigurationError: If the tool has no way to say it.

    >>> print(qpid_config_line(Declaration("orders", {"qpid.flow_stop_count": 900, "qpid.alert_count": 5})))
    qpid-config add queue orders --flow-stop-count=900 --argument qpid.alert_count=5
    """
    if declaration.exclusive:
        raise ConfigurationError("exclusive: qpid-config has no option for a queue only its declarer can use")
    rest = {key: _make_sendable(key, value) for key, value in declaration.arguments.items()}
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
        words += _write_extra(key, value)
    name = declaration.name
    # The tool would take such a name for an option.
    words = [*words, "--", name] if name.startswith("-") else [name, *words]
    return shlex.join(["qpid-config", "add", "queue", *words])


def _make_sendable(key: str, value: Argument) -> int | str | None:
    if key in PROPERTIES or "=" in key:
        raise ConfigurationError(f"{key}: qpid-config cannot send a declare argument of this name")
    if value is None or type(value) is int:
        return value
    # The tool sends any text that reads as a number as a number: the string "10" can only arrive as 10.
    as_sent = read_value(value) if isinstance(value, str) else value
    if isinstance(as_sent, str):
        return as_sent
    if isinstance(as_sent, int) and reads_same(key, value, int(as_sent)):
        return int(as_sent)
    raise ConfigurationError(
        f"{key}={value!r}: qpid-config cannot send this; it sends null, whole numbers, and strings that do "
        "not read as a whole number"
    )


def _takes(option: QueueOption, value: int | str | None, durable: bool) -> bool:
    # The tool drops these without --durable, and a 0: then the argument is written as an extra one.
    if option.needs_durable:
        return durable and type(value) is int and value != 0
    if option.kind == "switch":
        return value == 1
    return type(value) is int if option.kind == "integer" else isinstance(value, str) and value != ""


def _write_extra(key: str, value: int | str | None) -> list[str]:
    text = key if value is None else f"{key}={value}"
    return [f"--argument={text}"] if text.startswith("-") else ["--argument", text]


def address_string(declaration: Declaration) -> str:
    """Return an address that creates the queue, in a form that qpid-cpp and qpid-python read alike.

    Raises:
        ConfigurationError: If no spelling means the same to both: null, a backslash, both kinds of quotes,
            ``#`` in a name.

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
    """Quote a text; qpid-cpp knows no escapes, so a text that needs one is refused."""
    for quote in "'\"":
        if quote not in text and "\\" not in text and text.isprintable():
            return quote + text + quote
    raise ConfigurationError(f"{text!r}: no quotes make qpid-cpp and qpid-python read this alike")
