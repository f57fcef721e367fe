"""Reading a declaration: from the options of ``qpid-config``, a line of them, or an address (8.2, CF-14)."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import NoReturn

from qflow.broker.conversions import Argument
from qflow.configuration.declaration import ConfigurationError, Declaration, Remark, read_json_map
from qflow.configuration.queue_options import (
    OPTIONS,
    POLICY_KEY,
    REPLICATE_KEY,
    SENT_POLICIES,
    add_queue_options,
)


class _LineParser(argparse.ArgumentParser):
    """A parser for text typed into a lab: it raises instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise ConfigurationError(message)


def read_line(line: str | Sequence[str]) -> Declaration:
    """Read what comes after ``qpid-config add queue``; those words themselves may be there.

    Parameters
    ----------
    line : str or sequence of str
        A line as for a shell, or its words.

    Raises
    ------
    ConfigurationError
        For an unknown option or a bad value; the real tool ends with status 2 then.

    Examples
    --------
    >>> read_line("qpid-config add queue orders --max-queue-count=10 --limit-policy ring").arguments
    mappingproxy({'qpid.max_count': 10, 'qpid.policy_type': 'ring'})
    """
    try:
        words = shlex.split(line) if isinstance(line, str) else list(line)
    except ValueError as error:
        raise ConfigurationError(f"the line cannot be split into words: {error}") from error
    for start in (["qpid-config"], ["qflow", "config"]):
        if words[: len(start) + 2] == [*start, "add", "queue"]:
            words = words[len(start) + 2 :]
    parser = _LineParser(prog="qpid-config add queue", add_help=False)
    add_queue_options(parser)
    return declaration_of(parser.parse_args(words))


def read_address(text: str) -> Declaration:
    """Read the queue that an address string would create.

    Raises
    ------
    ConfigurationError
        If the text is no address, or the address not one of a queue.

    Examples
    --------
    >>> read_address("orders; {create: always, node: {x-declare: {arguments: {'qpid.max_count': 10}}}}")
    Declaration(name='orders', arguments=mappingproxy({'qpid.max_count': 10}), durable=False, ...)
    """
    # The client API is loaded only for those who read addresses.
    from qflow.messaging.address import LexError, ParseError, parse
    from qflow.messaging.address_options import find_error

    try:
        address = parse(text)
    except (LexError, ParseError) as error:
        raise ConfigurationError(f"no address: {error}") from error
    options = address.options or {}
    wrong = find_error(options, "receiver")
    if wrong:
        raise ConfigurationError(f"no address: {wrong}")
    return Declaration.of_address(address.name, {str(key): value for key, value in options.items()})


def read_any(text: str, name: str = "queue") -> Declaration:
    """Read whatever somebody typed: declare arguments as JSON, an address string, or a line of options.

    Parameters
    ----------
    text : str
        A text that begins with ``{`` is JSON; one with ``; {`` in it is an address.
    name : str
        The queue's name where the text does not name one (JSON).

    Raises
    ------
    ConfigurationError
        If it cannot be read as what it looks like.

    Examples
    --------
    >>> typed = ['{"qpid.max_count": 9}', "q; {node: {x-declare: {arguments: {'qpid.max_count': 9}}}}",
    ...          "q --max-queue-count=9"]
    >>> [read_any(text, "q") == Declaration("q", {"qpid.max_count": 9}) for text in typed]
    [True, True, True]
    """
    if text.lstrip().startswith("{"):
        return Declaration.of_json(name, text)
    if re.match(r"[^;]*;\s*\{", text):
        return read_address(text)
    return read_line(text)


def declaration_of(chosen: argparse.Namespace, declare: str = "") -> Declaration:
    """Make a declaration of parsed options, as ``qpid-config`` makes its map.

    Parameters
    ----------
    chosen : argparse.Namespace
        From a parser with :func:`~qflow.configuration.queue_options.add_queue_options`.
    declare : str
        Declare arguments as a JSON map, to which the options are added.
    """
    properties: dict[str, Argument] = read_json_map(declare) if declare else {}
    for text in chosen.extra:
        key, equals, value = text.partition("=")
        properties[key] = as_argument(value) if equals else None
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


def as_argument(text: str) -> int | str:
    """Turn the value of ``--argument NAME=VALUE`` into what is sent: an integer if it reads as one.

    Examples
    --------
    >>> as_argument("10"), as_argument("1.5"), as_argument("")
    (10, '1.5', '')
    """
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
