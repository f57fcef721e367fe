"""The notations for the declaration of a queue, and functions that read and write each.

=====================================  ==================================  ==========================
a line of ``qpid-config add queue``    :func:`read_line`                   :func:`qpid_config_line`
an address string                      :func:`read_address` (CF-14),       :func:`address_string`
                                       :func:`address_readings`
a JSON map, or any of the three        :func:`read_any`
=====================================  ==================================  ==========================

All are read into a :class:`~qflow.configuration.declaration.Declaration`; reading a written text gives an
equal declaration.  A declaration that a notation cannot express is refused: the tool cannot send a list, and
an address cannot contain null.
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
from qflow.wording import format_names


class LineParser(argparse.ArgumentParser):
    """An argparse parser that raises a ConfigurationError instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        """Raise the error message as a ConfigurationError."""
        raise ConfigurationError(message)


def read_line(line: str | Sequence[str]) -> Declaration:
    """Return the declaration in a ``qpid-config add queue`` line, or in the list of its words.

    Parameters:
        line: The line or its words; ``qpid-config add queue`` itself may be omitted.

    Raises:
        ConfigurationError: If an option is unknown or a value invalid (the real tool ends with status 2).

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
"""The clients, which parse an address by different grammars."""


def read_address(text: str, client: str = PYTHON) -> Declaration:
    """Return the declaration of the queue that an address string creates.

    Parameters:
        text: The address string.
        client: The client that parses it, ``qpid-python`` or ``qpid-cpp``.

    Raises:
        ConfigurationError: If the text is not an address, or not the address of a queue.

    >>> read_address("orders; {create: always, node: {x-declare: {arguments: {'qpid.max_count': 10}}}}")
    Declaration(name='orders', arguments=mappingproxy({'qpid.max_count': 10}), durable=False, ...)
    >>> read_address("orders; {node: {x-declare: {arguments: {qpid.max_count: 10}}}}", "qpid-cpp").arguments
    mappingproxy({'qpid.max_count': 10})
    """
    # The client API is imported only when an address is read.
    from qflow.messaging.address import LexError, ParseError, find_error, parse, parse_cpp

    is_cpp = client == CPP
    try:
        address = parse_cpp(text) if is_cpp else parse(text)
    except (LexError, ParseError) as error:
        raise ConfigurationError(f"no address: {error}") from error
    options = address.options or {}
    # Checked as a receiver's address, whose options include all options of a sender's address.
    wrong = find_error(options, "receiver", is_cpp=is_cpp)
    if wrong:
        raise ConfigurationError(f"no address: {wrong}")
    return Declaration.of_address(address.name, {str(key): value for key, value in options.items()})


def address_readings(text: str) -> dict[str, Declaration | ConfigurationError]:
    """Return the declaration that each client reads in an address string, or its error.

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
    """Return a sentence on each client's reading of an address, the second compared with the first."""
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
            # Clients send a value in different types, such as True and "True", which the broker may read as
            # the same.
            is_same = all(
                key in reading.arguments and reads_same(key, value, reading.arguments[key])
                for key, value in first.arguments.items()
                if value != reading.arguments.get(key)
            )
            alike = ", the same to the broker" if is_same else ""
            found[client] = f"reads {', '.join(differing) or 'another queue'}{alike}"
    return found


def read_any(text: str, name: str = "queue") -> Declaration:
    """Return the declaration in a text of any notation.

    Parameters:
        text: JSON if it begins with ``{``, an address if it contains ``; {``, else a line of options.
        name: The queue's name, which is used only for JSON.

    Raises:
        ConfigurationError: If the text is invalid in its notation.

    >>> read_any('{"qpid.max_count": 9}', "q") == read_any("q --max-queue-count=9")
    True
    """
    # A name alone is a valid address and a valid line, and means the same queue in both.
    if text.lstrip().startswith("{"):
        return Declaration.of_properties(name, read_json_map(text))
    # A line may have a semicolon in a quoted name; only a semicolon before a brace makes an address.
    if re.match(r"[^;]*;\s*\{", text):
        return read_address(text)
    return read_line(text)


def declaration_of(chosen: argparse.Namespace, declare: str = "") -> Declaration:
    """Return the declaration from parsed options, with further declare arguments in a JSON map."""
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
    """Return the VALUE of ``--argument NAME=VALUE`` as sent: an integer if it reads as one, else text."""
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
    """Return the ``qpid-config`` line that declares a queue.

    :func:`~qflow.configuration.notations.read_line` reads it as an equal declaration.  A value that the tool
    cannot send is written as the integer that the broker reads as the same setting, if there is one
    (``True`` as 1, ``"10"`` as 10).

    Raises:
        ConfigurationError: If the tool cannot send the declaration.

    >>> print(qpid_config_line(Declaration("orders", {"qpid.flow_stop_count": 900, "qpid.alert_count": 5})))
    qpid-config add queue orders --flow-stop-count=900 --argument qpid.alert_count=5
    """
    if declaration.exclusive:
        raise ConfigurationError(
            "exclusive must be false for qpid-config, which has no such option; got true"
        )
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
    # The tool would read a name that begins with a hyphen as an option.
    words = [*words, "--", name] if name.startswith("-") else [name, *words]
    return shlex.join(["qpid-config", "add", "queue", *words])


def _make_sendable(key: str, value: Argument) -> int | str | None:
    if "=" in key:
        raise ConfigurationError(f"an argument's name must not contain = for qpid-config; got {key!r}")
    if key in PROPERTIES:
        properties = format_names(PROPERTIES)
        raise ConfigurationError(
            f"an argument's name must not be a property's ({properties}) for qpid-config; got {key!r}"
        )
    if value is None or type(value) is int:
        return value
    # The tool sends a text that reads as an integer as an integer: it cannot send the string "10".
    as_sent = read_value(value) if isinstance(value, str) else value
    if isinstance(as_sent, str):
        return as_sent
    if isinstance(as_sent, int) and reads_same(key, value, int(as_sent)):
        return int(as_sent)
    raise ConfigurationError(
        f"{key} must be null, a whole number, or a string that does not read as one, for qpid-config; got "
        f"{value!r}"
    )


def _takes(option: QueueOption, value: int | str | None, durable: bool) -> bool:
    # The tool does not send these options without --durable or with a 0; --argument is written then.
    if option.needs_durable:
        return durable and type(value) is int and value != 0
    if option.kind == "switch":
        return value == 1
    return type(value) is int if option.kind == "integer" else isinstance(value, str) and value != ""


def _write_extra(key: str, value: int | str | None) -> list[str]:
    text = key if value is None else f"{key}={value}"
    return [f"--argument={text}"] if text.startswith("-") else ["--argument", text]


def address_string(declaration: Declaration) -> str:
    """Return an address that creates the queue, in a form that qpid-cpp and qpid-python read equally.

    Raises:
        ConfigurationError: If no address means the same to both clients: it would need null, a backslash,
            both kinds of quotes in one text, an unprintable character, or ``#`` in the name.

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
        raise ConfigurationError(
            f"an address's name must not contain #, which clients replace by a random id; got {name!r}"
        )
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name) else _spell_text(name)


def _spell(value: object) -> str:
    if isinstance(value, Mapping):
        # Keys are always quoted: qpid-python reads an unquoted "true" as the constant, and allows no dot in
        # an unquoted word.
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
    raise ConfigurationError(
        "a value in an address must be text, true or false, an integer of 64 bits, a number without an "
        f"exponent, a list or a map, or qpid-cpp and qpid-python read it differently; got {value!r}"
    )


def _spell_text(text: str) -> str:
    """Return a text in quotes, or raise a ConfigurationError if it needs an escape, which qpid-cpp lacks."""
    for quote in "'\"":
        if quote not in text and "\\" not in text and text.isprintable():
            return quote + text + quote
    raise ConfigurationError(
        "a text in an address must have printable characters only, no backslash, and not both kinds of "
        f"quotes, because qpid-cpp reads no escapes; got {text!r}"
    )
