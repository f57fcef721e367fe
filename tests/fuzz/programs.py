"""Programs for both forms of the engine: what each comes to, as text that has to be the same in both.

A program is drawn from a kind and a number; its outcome is all that a caller could tell apart: what is
returned, which exception comes with which words, every event, and the hash of the state at the end.

Usage: ``python programs.py FORM KIND FIRST COUNT`` prints a digest of each outcome, or the outcome itself
where COUNT is 0.  The form is ``readable``, where sources are imported although compiled modules lie beside
them, or ``compiled``.
"""

from __future__ import annotations

import copy
import enum
import hashlib
import importlib.machinery as machinery
import math
import pickle
import random
import re
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

FORMS = READABLE, COMPILED = "readable", "compiled"


def import_sources() -> None:
    """Import a module's source even if a compiled module lies beside it."""
    sources = (machinery.SourceFileLoader, machinery.SOURCE_SUFFIXES)
    compiled = (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES)
    sys.path_hooks.insert(0, machinery.FileFinder.path_hook(sources, compiled))
    sys.path_importer_cache.clear()


if __name__ == "__main__" and sys.argv[1] == READABLE:
    import_sources()

from engine_life import NUMPY, EngineLife, perform  # noqa: E402

import qflow.broker.queue  # noqa: E402
from qflow.broker import Broker, BrokerOptions, DelayedStore, Message, RangeSet  # noqa: E402
from qflow.broker.selector import Selector  # noqa: E402
from qflow.broker.settings import KEYS, QueueSettings  # noqa: E402
from qflow.messaging import Connection, MessagingError, brokers  # noqa: E402
from qflow.messaging.address import _lex, find_error, parse  # noqa: E402


class Level(enum.IntEnum):
    """An integer that has a name."""

    LOW = 1


class Count(int):
    """An integer of a class of its own."""


class Words(str):
    """A text of a class of its own."""


class Fields(dict):  # type: ignore[type-arg]
    """A dictionary of a class of its own."""


class Items(list):  # type: ignore[type-arg]
    """A list of a class of its own."""


class Octets(bytes):
    """Bytes of a class of their own."""


def nested(depth: int, kind: type = list) -> Any:
    """Return a list, or a dictionary, in one another so many times."""
    value: Any = 1
    for _ in range(depth):
        value = [value] if kind is list else {"a": value}
    return value


def endless(kind: type) -> Any:
    """Return a list, or a dictionary, that contains itself."""
    value: Any = kind()
    if kind is list:
        value.append(value)
    else:
        value["a"] = value
    return value


VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7, 255, 256, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63),
    10**400, 0.0, 1.0, 2.5, -0.5, math.nan, math.inf, 1e308, 1j, Decimal(1), Fraction(1, 2), Level.LOW,
    Count(3), Words("w"), Fields(a=1), Items([1]), Octets(b"o"), OrderedDict(a=1), "", "a", "1", "é", "\0",
    "\ud800", "n" * 255, "n" * 256, b"", b"b", bytearray(b"x"), memoryview(b"m"), UUID(int=1), (), (1, 2),
    [], [1, "a"], {}, {"a": 1}, {1: "a"}, {"a": {1}}, set(), frozenset((1,)), range(3), object, int, len,
    Ellipsis, *NUMPY,
)  # fmt: skip
DEPTHS = (2, 31, 99, 100, 101, 600, 1200, 5_000, 200_000)


def odd_value(chance: random.Random) -> Any:
    """Return a value that callers write now and then, and that no part of the engine was made for."""
    kind = chance.choice((list, dict))
    if chance.random() < 0.75:
        return chance.choice(VALUES)
    return nested(chance.choice(DEPTHS), kind) if chance.random() < 0.9 else endless(kind)


def words(value: Any, depth: int = 3) -> str:
    """Return a value in words: its class as well, as 1, True and 1.0 are equal; not how deep it goes."""
    name = type(value).__name__
    if isinstance(value, dict | list | tuple):
        if depth == 0:
            return f"{name} ..."
        parts = value.items() if isinstance(value, dict) else value
        return f"{name}({', '.join(words(part, depth - 1) for part in parts)})"
    return f"{name} {value!r}"


# Kinds of programs


def run_commands(chance: random.Random) -> Iterator[str]:
    """Give the engine some commands of every sort, and look at every event."""
    life = EngineLife(str(chance.random()))
    broker, told = life.broker, list[str]()
    broker.observe(lambda event: told.append(repr(event)))
    for _ in range(chance.choice((30, 40, 60))):
        command = life.drawing.draw()
        try:
            outcome = perform(broker, command)
        except Exception as error:
            outcome = f"{type(error).__name__}: {error}"
        yield f"{command} -> {outcome}"
        yield from told
        told.clear()
    yield broker.state_hash()


NAMES = (*"nmfbsu", "missing", "amqp.priority", "amqp.redelivered", "amqp.subject", "JMSType")
LITERALS = (
    "0", "1", "2", "7", "100", "0x1F", "017", "1L", "9223372036854775807", "9223372036854775808", "1.5",
    ".5", "2.", "1e3", "1E-2", "1e400", "1.5f", "TRUE", "FALSE", "NULL", "''", "'a'", "'it''s'", "'é'",
    "'a%'", "'2.5'",
)  # fmt: skip
PATTERNS = ("'a%'", "'%'", "'_'", "'__'", "'a!%' ESCAPE '!'", "'é'", "'' ESCAPE 'é'", "'a\n_'", "5")
HEADERS: dict[str, tuple[Any, ...]] = {
    "n": (0, 1, 50, -7, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, True, 2.5),
    "m": (0, 3, 2.5, "3", None),
    "f": (2.5, 0.0, -1.0, math.nan, math.inf, 1e308, 7),
    "b": (True, False, 1, "true"),
    "s": ("", "a", "ab", "é", "a\nb", "a%", "it's", b"a", 5),
    "u": (UUID(int=1), [1], {"a": 1}, None),
}
"""Headers of messages by their name."""


def expression(chance: random.Random, depth: int) -> str:
    """Return a selector, nearly always one that can be parsed."""
    pick, part = chance.choice, lambda: expression(chance, depth - 1)
    if depth == 0 or chance.random() < 0.1:
        return pick((pick(NAMES), pick(LITERALS)))
    if chance.random() < 0.02:
        return pick(("", "(", "n =", "= 1", "n IN ()", "n LIKE", "NOT", "'a", "1 2", "n BETWEEN 1", "\x01"))
    return str(
        pick(
            (
                lambda: f"{part()} {pick(['=', '<>', '<', '>', '<=', '>='])} {part()}",
                lambda: f"{part()} {pick(('AND', 'OR', 'and'))} {part()}",
                lambda: f"{part()} {pick('+-*/')} {part()}",
                lambda: f"({part()}) {pick('+-*/')} ({part()})",
                lambda: f"{pick(('NOT ', '-', '+', '- -', 'NOT NOT '))}{part()}",
                lambda: f"({part()})",
                lambda: f"{part()} {pick(('', 'NOT '))}BETWEEN {part()} AND {part()}",
                lambda: f"{part()} {pick(('', 'NOT '))}IN ({part()}, {part()})",
                lambda: f"{pick(NAMES)} {pick(('', 'NOT '))}LIKE {pick(PATTERNS)}",
                lambda: f"{part()} IS {pick(('', 'NOT '))}NULL",
            )
        )()
    )


def messages(chance: random.Random, count: int) -> Iterator[Message]:
    """Return messages with headers of every sort."""
    for number in range(count):
        names = [name for name in HEADERS if chance.random() < 0.7]
        yield Message(
            chance.choice((0, 50)),
            routing_key="q",
            headers={name: chance.choice(HEADERS[name]) for name in names},
            priority=chance.choice((None, 0, 7)),
            label=f"m{number}",
        )


def run_selector(chance: random.Random) -> Iterator[str]:
    """Ask a selector about messages, by itself or on a queue and its subscription."""
    text = expression(chance, chance.choice((1, 2, 2, 3)))
    yield text
    if chance.random() < 0.75:
        selector = Selector(text)
        for message in messages(chance, 6):
            yield f"{message.headers!r}: {selector.accepts(message)}"
        return
    broker = Broker()
    broker.observe(lambda event: told.append(repr(event)))
    told: list[str] = []
    producer, consumer = broker.session("p"), broker.session("c")
    producer.queue_declare("q", {"qpid.filter": text} if chance.random() < 0.5 else {})
    consumer.message_subscribe("q", "t", selector=text)
    consumer.message_flow("t", 0, 4)
    consumer.message_flow("t", 1, 0xFFFFFFFF)
    for message in messages(chance, 6):
        producer.message_transfer(message)
    yield from told
    yield broker.state_hash()


def run_declare(chance: random.Random) -> Iterator[str]:
    """Declare a queue with arguments of every sort, and send to it."""
    values = (*(3, 0, 2, 700, 300, "4", "ring", "reject", "self-destruct", "g", "qpid.seq", True),)
    arguments: dict[str, Any] = {}
    for key in chance.sample(list(KEYS), chance.randint(0, 4)):
        arguments[key] = chance.choice(values) if chance.random() < 0.7 else odd_value(chance)
    yield words(arguments)
    broker, told = Broker(), list[str]()
    broker.observe(lambda event: told.append(repr(event)))
    session = broker.session("p")
    try:
        session.queue_declare("q", arguments, durable=chance.random() < 0.2)
        yield repr(broker.queue("q"))
        for message in messages(chance, 8):
            session.message_transfer(message, sync=chance.random() < 0.2)
    finally:
        yield from told
        yield broker.state_hash()
    broker.advance(chance.choice((1, 10**6, 10**12)))
    yield from told
    yield broker.state_hash()


PIECES = (
    "q", "amq.topic", "a b", "/", ";", "{", "}", "[", "]", ":", ",", "create: always", "node: {",
    "type: topic", "x-declare: {arguments: {'qpid.max_count': 2}}", "mode: browse", "'text'", '"t"', "5",
    "-1.5", "1e3", "\\x41", "\\u00e9", "é", " ", "\n", "#", "*", "link: {reliability: at-least-once}",
    "delete: receiver", "true", "True",
)  # fmt: skip


def run_address(chance: random.Random) -> Iterator[str]:
    """Read an address, and send and fetch by it."""
    address = "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 7)))
    if chance.random() < 0.6:
        options = ", ".join(chance.sample([piece for piece in PIECES if ": " in piece], chance.randint(0, 3)))
        options += "}" * (options.count("{") - options.count("}"))
        address = f"{chance.choice(('q', 'amq.topic/a', 'q/s', '#'))}; {{{options}}}"
    yield address
    url = "programs"
    broker = brokers.install(url, BrokerOptions(default_queue_limit=0))
    try:
        yield repr([repr(token) for token in _lex(address)])
        name, subject, options = parse(address)
        yield repr((name, subject, options, find_error(options or {})))
    except Exception as error:
        yield f"{type(error).__name__}: {error}"
    connection = Connection.establish(url)
    try:
        session = connection.session()
        sender = session.sender(address)
        sender.send("text", sync=True, timeout=0)
        yield repr(session.receiver(address).fetch(timeout=0))
    except MessagingError as error:
        yield f"{type(error).__name__}: {error}"
    finally:
        connection.close(timeout=0)
        yield broker.state_hash()


FIELDS = (
    "content_size", "routing_key", "headers", "priority", "ttl", "durable", "timestamp", "message_id",
    "correlation_id", "content_type", "user_id", "app_id", "label", "content", "size",
)  # fmt: skip
"""The parameters of a message."""


TERMINUS = ("dynamic", "capabilities", "properties", "filters", "copy", "settled", "durable", "timeout")
"""What the terminus of a link says."""
OPTIONS = ("default_queue_limit", "queue_purge_interval", "flow_control")


def run_values(chance: random.Random) -> Iterator[str]:
    """Hand odd values to what takes values, and look at what became of them."""
    value = odd_value(chance)
    broker = Broker()
    session = broker.session("p")
    session.queue_declare("q", {"qpid.flow_stop_count": 2})
    links = broker.link_session("l")
    links.link_attach("out", "sender", "q")
    told: list[str] = []
    broker.observe(lambda event: told.append(repr(event)))
    field, size = chance.choice(FIELDS), chance.choice((0, 5))
    put = {"routing_key": "q", "content_size": size}
    actions: tuple[Callable[[], Any], ...] = (
        lambda: session.message_transfer(Message(**{**put, field: value})),
        lambda: session.message_transfer(Message(**{**put, field: value}), sync=True),
        lambda: Message.of(value, "q"),
        lambda: Broker(value),
        lambda: broker.advance(value),
        lambda: broker.session(value),
        lambda: broker.queue(value),
        lambda: broker.restore(value),
        lambda: broker.observe(value),
        lambda: Selector(value).accepts(Message(headers={"a": 1})),
        lambda: RangeSet(value),
        lambda: RangeSet().add(value),
        lambda: RangeSet.of(value),
        lambda: RangeSet.of([(value, value)]),
        lambda: value in RangeSet.of([(0, 3)]),
        lambda: Message(headers={"a": 1}).header(value),
        lambda: Message(headers={"a": 1}).property_as_string(value),
        lambda: Message(1, headers={"a": value}).property_as_string("a"),
        lambda: Message(5).encoded_size(value),
        lambda: Selector("a = 1").accepts(value),
        lambda: DelayedStore(value).finish("a"),
        lambda: DelayedStore().finish(value),
        lambda: QueueSettings.from_arguments({value: 1}),
        lambda: session.queue_declare("r", {value: 1}),
        lambda: Message(headers={value: 1}),
        lambda: session.fetch(value),
        lambda: session.queue_declare("r", durable=value, passive=value),
        lambda: session.queue_delete(value),
        lambda: broker.close_connection(value),
        lambda: broker.link_session(value, value, value),
        lambda: links.link_attach(value, "sender", "q"),
        lambda: links.link_attach("l", value, "q"),
        lambda: links.link_attach("l", "receiver", "q", {chance.choice(TERMINUS): value}),
        lambda: links.message_transfer(value, tag="out"),
        lambda: links.message_transfer(Message(5), value, value, tag="out"),
        lambda: links.message_transfer(Message(5), tag=value),
        lambda: links.message_transfer(Message(5), tag="out", transactional=value),
        lambda: links.message_accept(value),
        lambda: links.message_accept([0], value),
        lambda: links.message_modify(value, value),
        lambda: links.message_modify([0], annotations={"x": value}),
        lambda: QueueSettings.from_arguments(value),
        lambda: QueueSettings.from_arguments({chance.choice(list(KEYS)): value}),
        lambda: BrokerOptions(**{chance.choice(OPTIONS): value}),
        lambda: session.queue_declare("r", {"x": value}),
        lambda: session.exchange_bind("q", "amq.match", "k", {"x": value}),
        lambda: session.message_subscribe("q", "t", selector=value),
        lambda: session.message_flow(value, value, value),
        lambda: session.message_accept(value),
        lambda: session.session_completed(value),
        lambda: session.message_transfer(value),
        lambda: session.queue_query(value),
        lambda: copied(chance, broker, session),
    )  # fmt: skip
    number = chance.randrange(len(actions))
    yield f"{number} {field} {words(value)}"
    try:
        yield words(actions[number]())
    finally:
        yield from told
        yield broker.state_hash()


def copied(chance: random.Random, broker: Broker, session: Any) -> str:
    """Copy something of the engine, or change one of its fields; return what the copy is."""
    message = Message(5, routing_key="q", headers={"a": [1]})
    session.message_transfer(message)
    things = (
        broker, session, broker.queue("q"), message, Selector("a = 1"), QueueSettings(max_count=3),
        BrokerOptions(), RangeSet(), session.completions, broker.queue("q").statistics(), broker.management,
    )  # fmt: skip
    ways = (copy.copy, copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing)))
    thing, way = chance.choice(things), chance.randrange(len(ways))
    made = ways[way](thing)
    shown = made.state_hash() if isinstance(made, Broker) else repr(made)
    return f"{type(thing).__name__} {way}: {shown}"


KINDS: dict[str, tuple[int, Callable[[random.Random], Iterator[str]]]] = {
    "selectors": (10, run_selector),
    "values": (5, run_values),
    "declares": (2, run_declare),
    "addresses": (2, run_address),
    "commands": (1, run_commands),
}
"""Kinds of programs, and how many of each are run beside the others."""

_PLACE = re.compile(r"0x[0-9a-f]{6,}")
_COUNT = re.compile(r"(?:\w+\.)*__init__\(\) takes .*")
"""How many arguments are too many is said by Python, or by the compiler, in words of its own."""


def outcome(kind: str, number: int) -> list[str]:
    """Return what a program comes to, line by line; the exception that it ends with is the last."""
    lines: list[str] = []
    try:
        lines.extend(KINDS[kind][1](random.Random(f"{kind}/{number}")))
    except Exception as error:
        lines.append(f"{type(error).__module__}.{type(error).__qualname__}: {error}")
    return [_COUNT.sub("too many arguments", _PLACE.sub("0x", line)) for line in lines]


def main(form: str, kind: str, first: int, count: int) -> None:
    """Print the digests of programs, or the outcome of one."""
    found = COMPILED if not str(qflow.broker.queue.__file__).endswith(".py") else READABLE
    assert found == form, f"the {form} form was asked for, and this is the {found} one"
    if not count:
        print("\n".join(outcome(kind, first)).encode("ascii", "backslashreplace").decode())
    for number in range(first, first + count):
        text = "\n".join(outcome(kind, number))
        print(hashlib.sha1(text.encode("utf-8", "backslashreplace")).hexdigest()[:16])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
