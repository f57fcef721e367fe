"""Values of odd types: what stands for a value of AMQP is taken as that value, all else is refused in words.

The words are the same in the readable and in the compiled engine, so this runs on whichever is installed.
"""

import copy
import json
import pickle
from collections import OrderedDict, defaultdict, namedtuple
from decimal import Decimal
from enum import IntEnum, StrEnum
from fractions import Fraction
from uuid import UUID

import numpy as np
import pytest
from support import queue_of, refused, words_of

from qflow.broker import Broker, BrokerOptions, DelayedStore, Message, RangeSet, Session, StartupError
from qflow.broker.links import LinkSession
from qflow.broker.selector import Selector
from qflow.broker.settings import QueueSettings
from qflow.messaging import EncodeError
from qflow.messaging.messages import Message as ClientMessage
from qflow.messaging.messages import to_broker


class Level(IntEnum):
    FIVE = 5


class Number(int):
    """An int of a kind of its own."""


class Colour(StrEnum):
    RED = "red"


class Bytes(bytes):
    """Bytes of a kind of their own."""


class Items(list):
    """A list of a kind of its own."""


class Ids(UUID):
    """An id of a kind of its own."""


class Moment(float):
    """A point in time, as clients have it."""


class Thing:
    """No value at all."""

    def __repr__(self) -> str:
        return "Thing()"


Pair = namedtuple("Pair", "left right")
FIVES = [Level.FIVE, Number(5), np.int64(5), np.uint8(5), np.array(5)]
NO_NUMBERS = [True, 5.0, np.float64(5), np.True_, Decimal(5), Fraction(5), "5", b"5", None, [5], Thing()]
NUMBERS = ("content_size", "priority", "ttl", "timestamp", "size")


@pytest.mark.parametrize("five", FIVES, ids=repr)
@pytest.mark.parametrize("name", NUMBERS)
def test_whole_numbers_of_a_message(name, five):
    """DQ-05, QT-04, QT-07: whatever stands for a whole number is one."""
    value = getattr(Message(**{name: five}), name)
    assert value == 5 and type(value) is int


@pytest.mark.parametrize("odd", NO_NUMBERS, ids=repr)
@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_no_whole_number(name, odd):
    """CM-01: the refusal names the parameter, and what it got; True is a flag."""
    if odd is None and name in ("priority", "timestamp", "size"):
        assert getattr(Message(**{name: None}), name) is None
        return
    assert words_of(TypeError, Message, **{name: odd}) == f"{name} must be a whole number, got {odd!r}"


@pytest.mark.parametrize(
    "name", ["routing_key", "correlation_id", "content_type", "user_id", "app_id", "label"]
)
def test_texts_of_a_message(name):
    value = getattr(Message(**{name: Colour.RED}), name)
    assert value == "red" and type(value) is str
    for odd in (5, b"red", ["red"], True):
        assert words_of(TypeError, Message, **{name: odd}) == f"{name} must be a string, got {odd!r}"


def test_a_reply_address_is_a_pair_of_texts():
    assert Message.of("x", reply_to=["", Colour.RED]).reply_to == ("", "red")


@pytest.mark.parametrize("five", FIVES, ids=repr)
def test_times_and_options(five):
    broker = Broker(BrokerOptions(queue_purge_interval=five))
    broker.advance(five)
    assert type(broker.now) is int and type(broker.options.queue_purge_interval) is int
    assert broker.state_hash() == Broker.restore(broker.snapshot()).state_hash()


@pytest.mark.parametrize("odd", NO_NUMBERS, ids=repr)
def test_times_and_options_that_cannot_be(odd):
    expected = f"time in microseconds must be a whole number, got {odd!r}"
    assert words_of(TypeError, Broker().advance, odd) == expected
    # An interval may be a fraction of a second (RF-47).
    with pytest.raises(StartupError, match="^max_purge_batch: got "):
        BrokerOptions(max_purge_batch=odd)


def consumer() -> Session:
    session = Broker().session("s")
    session.queue_declare("q")
    session.message_subscribe("q", "t")
    session.message_flow("t", 0, 100)
    session.message_flow("t", 1, 0xFFFFFFFF)
    for _ in range(6):
        session.message_transfer(Message(1, "q"))
    return session


NUMBERED = [
    ("message.subscribe: accept_mode", lambda s, value: s.message_subscribe("q", "new", value)),
    ("message.subscribe: acquire_mode", lambda s, value: s.message_subscribe("q", "new", 0, value)),
    ("message.set_flow_mode: flow_mode", lambda s, value: s.message_set_flow_mode("t", value)),
    ("message.flow: unit", lambda s, value: s.message_flow("t", value, 1)),
    ("message.flow: value", lambda s, value: s.message_flow("t", 0, value)),
    ("message.accept: transfers", lambda s, value: s.message_accept([value])),
    ("message.release: transfers", lambda s, value: s.message_release([value])),
    ("message.reject: transfers", lambda s, value: s.message_reject([value])),
    ("message.acquire: transfers", lambda s, value: s.message_acquire([value])),
    ("session.completed: transfers", lambda s, value: s.session_completed([value])),
]


@pytest.mark.parametrize(("what", "act"), NUMBERED)
def test_numbers_of_a_command(what, act):
    """CN-04, CN-13: whatever stands for a whole number is one."""

    def outcome(value: object) -> tuple[str, str]:
        session = consumer()
        events: list = []
        session.context.observe(events.append)
        try:
            act(session, value)
            said = ""
        except Exception as error:
            said = repr(error)
        return said, json.dumps([event[1:] for event in events]) + session.context.state_hash()

    for odd in NO_NUMBERS:
        assert outcome(odd)[0] == f"TypeError({f'{what} must be a whole number, got {odd!r}'!r})"
    for one in (type("One", (int,), {})(1), np.int64(1), IntEnum("Number", "ONE").ONE):
        assert outcome(one) == outcome(1)


def shop() -> LinkSession:
    """A session of AMQP 1.0 with a link to a queue."""
    broker = Broker()
    broker.session("s").queue_declare("q")
    session = broker.link_session("l")
    session.link_attach("out", "sender", "q")
    return session


REFUSED = [
    (
        "options must be a BrokerOptions, such as BrokerOptions(default_queue_limit=0), or None",
        lambda odd: Broker(odd),
    ),
    ("store must be a MessageStore, such as DelayedStore(), or None", lambda odd: Broker(store=odd)),
    ("a session's name must be a string", lambda odd: Broker().session(odd)),
    ("a connection's name must be a string", lambda odd: Broker().session("s", odd)),
    ("a session's name must be a string", lambda odd: Broker().link_session(odd)),
    ("a container's id must be a string", lambda odd: Broker().link_session("s", "", odd)),
    ("a queue's name must be a string", lambda odd: Broker().queue(odd)),
    ("a connection's name must be a string", lambda odd: Broker().close_connection(odd)),
    ("an observer must be a function of an event, or None", lambda odd: Broker().observe(odd)),
    ("durable must be True or False", lambda odd: Message(durable=odd)),
    ("message_id must be a UUID", lambda odd: Message(message_id=odd)),
    ("headers must be a mapping", lambda odd: Message(headers=odd)),
    ("reply_to must be an exchange and a routing key", lambda odd: Message.of("x", reply_to=odd)),
    ("reply_to must be a string", lambda odd: Message.of("x", reply_to=("", odd))),
    ("content_encoding must be a string", lambda odd: Message.of("x", content_encoding=odd)),
    ("routing_key must be a string", lambda odd: Message.of("x", odd)),
    ("a header's name must be a string", Message(1).header),
    ("a header's name must be a string", Message(1).property_as_string),
    ("exchange must be a string", Message(1).encoded_size),
    ("expression must be a string", Selector),
    ("message must be a Message", Selector("a = 1").accepts),
    ("label must be a string", DelayedStore().finish),
    ("flushes_on_sync must be True or False", DelayedStore),
    ("number must be a whole number", RangeSet().add),
    ("number must be a whole number", lambda odd: odd in RangeSet()),
    ("first must be a whole number", lambda odd: RangeSet.of([(odd, 1)])),
    ("ranges must be pairs (first, last)", RangeSet.of),
    ("arguments must be a mapping", QueueSettings.from_arguments),
    ("message.transfer: message must be a Message", lambda odd: consumer().message_transfer(odd)),
    ("message.transfer: exchange must be a string", lambda odd: consumer().message_transfer(Message(1), odd)),
    (
        "message.transfer: sync must be True or False",
        lambda odd: consumer().message_transfer(Message(1), sync=odd),
    ),
    ("message.accept: transfers must be whole numbers", lambda odd: consumer().message_accept(odd)),
    ("message.release: transfers must be whole numbers", lambda odd: consumer().message_release(odd)),
    ("session.completed: transfers must be whole numbers", lambda odd: consumer().session_completed(odd)),
    ("fetch: tag must be a string", lambda odd: consumer().fetch(odd)),
    ("message.transfer: message must be a Message", lambda odd: shop().message_transfer(odd, tag="out")),
    ("message.transfer: tag must be a string", lambda odd: shop().message_transfer(Message(1), tag=odd)),
    (
        "message.transfer: transactional must be True or False",
        lambda odd: shop().message_transfer(Message(1), tag="out", transactional=odd),
    ),
    ("message.accept: transactional must be True or False", lambda odd: shop().message_accept([0], odd)),
]


@pytest.mark.parametrize("odd", [2.5, 0.0, np.True_, Thing()], ids=repr)
@pytest.mark.parametrize(("words", "act"), REFUSED)
def test_what_is_refused_in_words(words, act, odd):
    assert words_of(TypeError, act, odd) == f"{words}, got {odd!r}"


@pytest.mark.parametrize("odd", [2.5, None, [1], {"a": 1}], ids=repr)
def test_filters_that_are_none(odd):
    """LNK-14."""
    assert (
        words_of(TypeError, shop().link_attach, "in", "receiver", "q", {"filters": {"f": odd}})
        == f"link.attach: a filter must be a descriptor and a value, got {odd!r}"
    )


@pytest.mark.parametrize("five", FIVES, ids=repr)
def test_numbers_of_a_set(five):
    """CM-04: whatever stands for a whole number is one; none is below 0."""
    numbers = RangeSet.of([(0, Number(2)), (five, five)])
    assert numbers == RangeSet.of([(0, 2), (5, 5)]) and five in numbers
    numbers.add(five)
    numbers.add(3)
    assert str(numbers) == "0-3 5" and -1 not in numbers
    with pytest.raises(ValueError, match="^number must be 0 to .*, got -1$"):
        numbers.add(-1)


# What is nested


def nested(levels: int, kind: type = list) -> object:
    """Return a value that is nested so deep."""
    value: object = []
    for _ in range(levels - 1):
        value = [value] if kind is list else {"in": value}
    return value


def endless(kind: type) -> object:
    """Return a value that contains itself."""
    value = kind()
    if kind is dict:
        value["in"] = value
    else:
        value.append([value])
    return value


DOORS = {
    "content": lambda s, value: Message(1, content=value),
    "a body": lambda s, value: Message.of(value),
    "headers": lambda s, value: Message(1, headers={"in": value}),
    "queue.declare: arguments": lambda s, value: s.queue_declare("new", {"in": value}),
    "exchange.declare: arguments": lambda s, value: s.exchange_declare("new", arguments={"in": value}),
    "exchange.bind: arguments": lambda s, value: s.exchange_bind("q", "amq.direct", "k", {"in": value}),
    "message.subscribe: arguments": lambda s, value: s.message_subscribe("q", "new", arguments={"in": value}),
    "exchange.bound: arguments": lambda s, value: s.exchange_bound("amq.direct", "q", "k", {"in": value}),
}
TOO_DEEP = {
    "a list of 101": nested(101),
    "a list of 600": nested(600),
    "maps of 5000": nested(5000, dict),
    "a list of 200000": nested(200_000),
    "maps of 200000": nested(200_000, dict),
    "a list that contains itself": endless(list),
    "a map that contains itself": endless(dict),
}


@pytest.mark.parametrize("value", TOO_DEEP)
@pytest.mark.parametrize("what", DOORS)
def test_what_is_nested_too_deeply(what, value):
    """A snapshot could not hold it; one limit for all, at the door, and the interpreter lives."""
    session = consumer()
    before = session.context.state_hash()
    assert (
        words_of(ValueError, DOORS[what], session, TOO_DEEP[value])
        == f"{what} is nested more than 100 levels deep, or contains itself"
    )
    assert session.context.state_hash() == before


@pytest.mark.parametrize("kind", [list, dict])
@pytest.mark.parametrize("what", DOORS)
def test_what_is_nested_as_deeply_as_may_be(what, kind):
    """A snapshot, a copy and a client can hold it."""
    session = consumer()
    made = DOORS[what](session, nested(100 if what in ("content", "a body") else 99, kind))
    if isinstance(made, Message):
        session.message_transfer(copy.deepcopy(made))
        assert pickle.loads(pickle.dumps(made)) == made
    broker = session.context
    twin = Broker.restore(json.loads(json.dumps(broker.snapshot())))
    assert twin.state_hash() == broker.state_hash()


def test_a_client_that_sends_what_is_nested_too_deeply():
    for value in TOO_DEEP.values():
        with pytest.raises(EncodeError):
            to_broker(ClientMessage(value), "q", None)
        with pytest.raises(EncodeError):
            to_broker(ClientMessage("text", properties={"in": value}), "q", None)


def test_a_refusal_shows_what_has_no_text():
    """Python itself cannot write what is nested like this."""
    with pytest.raises(
        TypeError, match="^routing_key must be a string, got a list that is nested too deeply to be"
    ):
        Message(routing_key=nested(200_000))


def test_a_value_that_grows_later_makes_no_difference():
    """MG-03: what was sent stays as it was, however deep."""
    inner: list = [1]
    session = consumer()
    message = Message(1, "q", headers={"a": inner}, content=inner)
    session.message_transfer(message)
    session.queue_declare("new", {"a": inner})
    before = session.context.state_hash()
    inner.append(inner)
    assert session.context.state_hash() == before


# What is of a kind of its own

OWN = [
    (OrderedDict(a=1), {"a": 1}),
    (defaultdict(int, a=1), {"a": 1}),
    ({Colour.RED: Colour.RED}, {"red": "red"}),
    (Items([Items([1])]), [[1]]),
    (Bytes(b"b"), b"b"),
    (np.bytes_(b"b"), b"b"),
    (Level.FIVE, 5),
    (np.int64(5), 5),
    (Moment(5), Moment(5)),
    (np.str_("t"), "t"),
    (Ids(int=7), UUID(int=7)),
    ([Pair(1, 2)], [(1, 2)]),
]


def kinds(value: object) -> object:
    """Return a value with the types of all its parts."""
    if isinstance(value, dict):
        return type(value), [(kinds(key), kinds(item)) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return type(value), [kinds(item) for item in value]
    return type(value), value


@pytest.mark.parametrize(("own", "simple"), OWN)
def test_what_is_of_a_kind_of_its_own_is_kept_as_a_plain_value(own, simple):
    """So that a snapshot holds it, and a restored broker shows the same."""
    session, other = consumer(), consumer()
    for value, to in ((own, session), (simple, other)):
        to.message_transfer(Message(1, "q", headers={"a": value}, content=value))
        to.queue_declare("new", {"a": value})
        to.exchange_bind("q", "amq.direct", "k", {"a": value})
    assert session.context.state_hash() == other.context.state_hash()
    message = Message(1, headers={"a": own}, content=own)
    assert kinds(message.content) == kinds(simple)
    assert kinds(message.headers) == kinds({"a": simple})
    assert kinds(session.context.queue("new").settings.arguments) == kinds({"a": simple})


@pytest.mark.parametrize("odd", [Thing(), {1, 2}, 1j, Decimal(1), np.True_, [Thing()], {"a": {1}}], ids=repr)
def test_what_amqp_has_no_type_for(odd):
    for what, act in DOORS.items():
        assert words_of(TypeError, act, consumer(), odd).startswith(
            (f"{what} is made of None, bool, int, float,", "a body is text,")
        )


def test_names_of_entries_that_are_no_strings():
    session = consumer()
    for words, act in (
        ("headers has strings as keys", lambda: Message(headers={1: 2})),
        ("queue.declare: arguments has strings as keys", lambda: session.queue_declare("new", {1: 2})),
        ("arguments has strings as keys", lambda: QueueSettings.from_arguments({1: 2})),
        ("the name of an entry must be a string", lambda: session.queue_declare("new", {"a": {1: 2}})),
        ("the name of an entry must be a string", lambda: Message(1, headers={"a": {1: 2}}).encoded_size("")),
        ("the name of an entry must be a string", lambda: Message.of({1: 2})),
    ):
        with pytest.raises(TypeError, match=f"^{words}, got 1$"):
            act()


def test_half_a_character():
    """DQ-06: no client could encode it."""
    for words, act in (
        ("headers", lambda half: Message(headers={"a": half}).encoded_size("")),
        ("a body", lambda half: Message.of({"a": [half]})),
        ("queue.declare: arguments", lambda half: consumer().queue_declare("new", {"a": half})),
        ("expression", Selector),
    ):
        expected = f"{words} must be a text that UTF-8 can carry, got '\\ud800'"
        assert words_of(ValueError, act, "\ud800") == expected


def test_an_option_that_has_no_text():
    with pytest.raises(StartupError, match="^max_purge_batch: got a list that is nested too deeply"):
        BrokerOptions(max_purge_batch=nested(200_000))


def test_a_float_of_a_kind_of_its_own_is_no_whole_number():
    """CF-03: it is a double, as any float is."""
    with refused(542, "invalid conversion: Cannot convert from double to uint32"):
        consumer().queue_declare("new", {"qpid.max_count": Moment(5)})


# Copies


def busy() -> Broker:
    """A broker in the middle of things."""
    bench = queue_of(5, flow_stop_count=2)
    bench.read("q", "c", "t", messages=2)
    return bench.broker


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_of_the_broker_goes_its_own_way(duplicate):
    """A broker is copied as a whole, without its observer; what never changes can be copied by itself."""
    broker = busy()
    twin = duplicate(broker)
    assert twin.state_hash() == broker.state_hash() and twin is not broker
    assert twin.observer is None and broker.observer is not None
    twin.sessions["c"].close()
    assert broker.sessions["c"].is_attached
    settings = QueueSettings.from_arguments({"qpid.max_count": 5})
    assert duplicate(settings) == settings
    message = Message(5, "q", headers={"a": [1]}, size=9, label="m")
    assert duplicate(message) == message and duplicate(message).size == 9
    assert duplicate(BrokerOptions(queue_purge_interval=5)).queue_purge_interval == 5
    assert duplicate(RangeSet.of([(0, 3)])) == RangeSet.of([(0, 3)])
    assert duplicate(Selector("a = 1")).accepts(Message(headers={"a": 1}))
    assert duplicate(broker.queue("q").statistics()) == broker.queue("q").statistics()
    answer = broker.sessions["p"].queue_query("q")
    assert duplicate(answer) == answer


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize(
    "part",
    [
        lambda broker: broker.sessions["c"],
        lambda broker: broker.queue("q"),
        lambda broker: broker.queues,
        lambda broker: broker.queue("q").store,
    ],
)
def test_parts_are_not_copied_without_their_broker(duplicate, part):
    found = part(busy())
    assert words_of(TypeError, duplicate, found) == (
        f"a {type(found).__name__} is a part of its broker, and is not copied without it; copy the Broker"
    )


@pytest.mark.parametrize("kind", [Broker, Session, Message, RangeSet, Selector, QueueSettings])
def test_classes_that_nothing_inherits_from(kind):
    assert words_of(TypeError, type, "Mine", (kind,), {}) == (
        f"Mine cannot inherit from {kind.__name__}, which may be compiled: hold one instead; "
        "of the engine, MessageStore and DelayedStore can be inherited from"
    )


@pytest.mark.parametrize("kind", [DelayedStore, DelayedStore.__mro__[1], BrokerOptions])
def test_classes_that_others_inherit_from(kind):
    made = type("Mine", (kind,), {})()
    assert isinstance(made, kind)


# Far ahead


@pytest.mark.parametrize("shares", [0, 3])
def test_a_broker_that_is_put_far_ahead(shares):
    """QT-07: each cleaning is as if it had happened; none that finds nothing is walked through."""

    def play(steps: list[int]) -> tuple[list, str]:
        broker = Broker()
        session = broker.session("s")
        levels = {"qpid.priorities": 4, "qpid.fairshare": shares}
        session.queue_declare("q", levels if shares else {})
        events: list = []
        broker.observe(events.append)
        for ttl in (0, 1_000, 700_000, 5_000_000, 1_200_000):
            session.message_transfer(Message(1, "q", ttl=ttl))
        for now in steps:
            broker.advance(now)
        return [event for event in events if event.kind != "advance"], broker.state_hash()

    interval = 600_000_000
    far = 12_345 * interval + 5
    assert play([far]) == play([*range(interval, far, interval), far])


def test_a_broker_that_is_put_as_far_ahead_as_can_be():
    bench = queue_of(3)
    bench.broker.advance(10**15)
    bench.broker.advance((1 << 63) - 1)
    assert bench.stat("q").msgDepth == 3
