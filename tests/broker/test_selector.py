"""Selectors of subscriptions and queues (QT-16, CN-21, RF-07b, RF-24)."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support import Bench, bench_with, queue_of

from qflow.broker import Broker, BrokerOptions, Message
from qflow.broker.errors import AmqpException, FramingErrorException, NotImplementedException
from qflow.broker.message import Transfer
from qflow.broker.selector import Selector

ILLEGAL = "Found illegal character"
LITERAL = "expected literal or identifier"
REFUSED = [
    ("n !", ILLEGAL), ("n § 2", ILLEGAL), ("n = 'open", ILLEGAL), ('"open', ILLEGAL), ("n = 0x", ILLEGAL),
    ("n = 0b2", ILLEGAL), ("n = 1e", ILLEGAL), ("n = 1.5e+", ILLEGAL), ("n = 0x1p", ILLEGAL),
    ("n = .", ILLEGAL),
    ("n =", "'<END>': " + LITERAL), ("n = = §", "'=': " + LITERAL), ("AND", "'AND': " + LITERAL),
    ("n = NULL", "'NULL': " + LITERAL), ("n = +(1)", "'(': " + LITERAL), ("n = +-1", "'-': " + LITERAL),
    ("n IN ()", "')': " + LITERAL), ("n 2 §", "'2': extra input"), ("n = 1 n", "'n': extra input"),
    ("n = 08", "'8': extra input"), ("n = 1 = 2", "'=': extra input"), ("n = 0f", "'f': extra input"),
    ("n NOT 2", "'2': expected LIKE, IN or BETWEEN"), ("n IS 2", "'2': expected NULL or NOT NULL after IS"),
    ("n IS NOT", "'<END>': expected NULL or NOT NULL after IS"), ("(n = 2", "'<END>': missing ')' after '('"),
    ("n LIKE 2", "'2': expected string after LIKE"), ("n IN 1", "'1': missing '(' after IN"),
    ("n IN (1 2)", "'2': missing ',' or ')' after IN"),
    ("n BETWEEN 1", "'<END>': expected AND after BETWEEN"),
    ("n LIKE 'a' ESCAPE 1", "'1': expected string after ESCAPE"),
    ("n LIKE 'a' ESCAPE 'xy'", "'xy': single character string required after ESCAPE"),
    ("n LIKE 'a' ESCAPE '%'", "'%': '%' and '_' are not allowed as ESCAPE characters"),
    ("n LIKE 'é_' ESCAPE 'é'", "'é': single character string required after ESCAPE"),
    ("n LIKE 'a' ESCAPE '_'", "'_': '%' and '_' are not allowed as ESCAPE characters"),
    ("n = 9223372036854775808", "'9223372036854775808': integer literal too big"),
    ("n = -9223372036854775809", "'9223372036854775809': integer literal too big"),
    ("n = 0x1_0000_0000_0000_0000", "'0x1_0000_0000_0000_0000': integer literal too big"),
    ("n = 1e999", "'1e999': floating literal overflow/underflow"),
    ("n = 1e-999", "'1e-999': floating literal overflow/underflow"),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "why"), REFUSED)
def test_rf_36_what_cannot_be_parsed_is_refused_in_the_brokers_words(expression, why):
    """QT-16, RF-35, RF-36: 501, naming the token that was read last."""
    with pytest.raises(FramingErrorException) as refusal:
        Selector(expression)
    assert refusal.value.text == (why if why == ILLEGAL else f"Illegal selector: {why}")


LITERALS = [
    ("0", 0), ("7L", 7), ("1_0", 10), ("1__0_", 10), ("010", 8), ("0_17l", 15), ("00", 0), ("0x1F", 31),
    ("0X_", None), ("0xf_fL", 255), ("0b11", 3), ("0B1_0", 2), ("9223372036854775807", 2**63 - 1),
    ("-9223372036854775808", -(2**63)), ("0xFFFFFFFFFFFFFFFF", -1), ("01777777777777777777777", -1),
    ("- -5", 5), ("-+5", -5), ("1.5", 1.5), ("1.", 1.0), (".5", 0.5), ("0.", 0.0), ("1.5f", 1.5), ("2d", 2.0),
    ("1F", 1.0), ("1e3", 1000.0), ("1.e+1D", 10.0), (".5E-1", 0.05), ("1_0.2_5", 10.25), ("0.e1", 0.0),
    ("0x1p3", 8.0), ("0x_1", None), ("0e0", None), ("'it''s'", "it's"), ("''", ""), ("TRUE", True),
    ("false", False), ("-(3)", -3), ("+3", 3), ("-0x10", -16),
]  # fmt: skip


@pytest.mark.parametrize(("literal", "value"), LITERALS)
def test_rf_35_literals(literal, value):
    """RF-35: what a literal is worth, and of which kind; None where the broker reads no literal."""
    if value is None:
        with pytest.raises(FramingErrorException):
            Selector(f"n = {literal}")
        return
    message = Message(headers={"n": value})
    assert Selector(f"n = {literal}").accepts(message)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if is_whole:
        # Only whole numbers are cut off when they are divided.
        even = abs(value) // 2 * 2 * (1 if value > 0 else -1)
        assert Selector(f"{literal} / 2 * 2 = {even}").accepts(message)


CONVERSIONS = [
    ("3 / 2 = 1", True), ("-3 / 2 = -1", True), ("-7 / -2 = 3", True), ("3 / 2.0 = 1.5", True),
    ("1.0 / 0 > 1", True), ("-1.0 / 0 < -1", True), ("0.0 / 0 = 0", False), ("0.0 / 0 <> 0", True),
    ("1 / 0 = 1", False), ("1 / 0 IS NULL", False), ("NOT 1 / 0 = 1", False), ("TRUE OR 1 / 0 = 1", True),
    ("1 / 0 = 1 OR TRUE", False), ("NOT (FALSE AND 1 / 0 = 1)", True), ("2 IN (2, 1 / 0)", True),
    ("9223372036854775807 + 1 < 0", True), ("-9223372036854775808 - 1 > 0", True),
    ("9223372036854775807 * 2 = -2", True), ("-(-9223372036854775808) < 0", True),
    ("9007199254740993 = 9007199254740992.0", True), ("big > 1e18", True), ("big / 2 * 2 = big", True),
    ("TRUE = 1", False), ("TRUE <> 1", False), ("TRUE <> FALSE", True), ("TRUE < 2", False),
    ("'a' < 'b'", False), ("'a' <> 'b'", True), ("'a' + 1 IS NULL", True), ("-'a' IS NULL", True),
    ("TRUE + 1 IS NULL", True), ("1 NOT BETWEEN 5 AND missing", False),
    ("missing NOT BETWEEN 1 AND 2", False),
    ("1 NOT BETWEEN 2 AND 3", True), ("'a' NOT BETWEEN 1 AND 2", True), ("(1 = 1) = TRUE", True),
    ("'ab' LIKE 'a!!b' ESCAPE '!'", True), ("'a!b' LIKE 'a!!b' ESCAPE '!'", False),
    ("'a%' LIKE 'a!!%' ESCAPE '!'", True), ("'ab' LIKE 'ab!' ESCAPE '!'", True),
    ("'a.b' LIKE 'a.b'", True), ("'axb' LIKE 'a.b'", False), ("1 LIKE '1'", False), ("NOT 5", False),
    ("'n' = \"n\"", False), ("\"and\" = 1", True), ("\"it's\" = 1", True), ("'é' LIKE '!é' ESCAPE '!'", True),
    # What binds closer; words in small letters; what is not seen; nothing asks for nothing.
    ("1 + 2 * 3 = 7", True), ("(1 + 2) * 3 = 9", True), ("7 - 2 - 1 = 4", True),
    ("n = 5 OR n = 5 AND n = 2", True), ("n < 3 or not n between 6 and 7", True),
    ("map IS NULL", True), ("amqp.n IS NULL", True), ("  ", True),
    ("JMSPriority = 4 AND JMSDeliveryMode = 'NON_PERSISTENT'", True),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "is_true"), CONVERSIONS)
def test_rf_35_conversions(expression, is_true):
    """QT-16, RF-35: integers are cut off and wrap, doubles divide by 0, what is unknown stays so."""
    headers = {"big": 2**63, "n": 5, "and": 1, "it's": 1, "map": {"n": 1}, "amqp.n": 2}
    assert Selector(expression).accepts(Message(priority=4, headers=headers)) is is_true


# What an operator makes of each kind of value: a header each, NULL for one that is absent.
KINDS = {"i": 3, "j": -2, "zero": 0, "x": 2.5, "y": -0.5, "s": "b", "yes": True, "no": False}
OPERATIONS = [
    # Numbers: two integers give an integer, anything with a double a double, all else NULL.
    ("i + j", 1), ("i - j", 5), ("i * j", -6), ("i / j", -1), ("j / i", 0), ("-i", -3), ("- -i", 3),
    ("+i", 3),
    ("i + x", 5.5), ("x + i", 5.5), ("x - i", -0.5), ("i - x", 0.5), ("x * i", 7.5), ("i * x", 7.5),
    ("i / x", 1.2), ("x / j", -1.25), ("x + y", 2.0), ("x - y", 3.0), ("x * y", -1.25), ("x / y", -5.0),
    ("-x", -2.5), ("x * 2", 5.0), ("1.5 + 1", 2.5), ("1 + 1.5", 2.5), ("7 / 2 * 2.0", 6.0), ("7 / 2.0", 3.5),
    ("i + s", None), ("s + s", None), ("yes + i", None), ("x + no", None), ("none + x", None), ("-s", None),
    ("-yes", None), ("-none", None), ("x / zero", "inf"), ("-x / zero", "-inf"), ("0.0 / zero", "nan"),
    # Comparisons: numbers by value, unlike kinds never, NULL not known.
    ("i = 3.0", True), ("i <> 3.0", False), ("i > x", True), ("x >= i", False), ("j < y", True),
    ("i <= i", True),
    ("9007199254740993 = 9007199254740992", False), ("9007199254740993 = 9007199254740992.0", True),
    ("s = 'b'", True), ("s <> 'c'", True), ("s < 'c'", False), ("s >= s", False), ("yes = TRUE", True),
    ("yes <> no", True), ("yes > no", False), ("yes = 1", False), ("s = i", False), ("s <> i", False),
    ("none = none", None), ("none <> i", None), ("i < none", None),
    # Truth values: AND, OR and NOT of what is true, false, unknown, and no truth value at all.
    ("yes AND yes", True), ("yes AND no", False), ("none AND no", False), ("none AND yes", None),
    ("i AND yes", None), ("i AND no", False), ("no OR no", False), ("no OR yes", True), ("none OR yes", True),
    ("none OR no", None), ("s OR yes", True), ("s OR no", None), ("NOT yes", False), ("NOT no", True),
    ("NOT none", None), ("NOT i", None), ("NOT NOT i", None), ("NOT NOT yes", True),
    # IS NULL, BETWEEN, IN, LIKE
    ("none IS NULL", True), ("none IS NOT NULL", False), ("i IS NULL", False), ("s + 1 IS NULL", True),
    ("(none = 1) IS NULL", True), ("i BETWEEN x AND 3", True), ("x BETWEEN 2.5 AND i", True),
    ("i BETWEEN 4 AND 5", False), ("i NOT BETWEEN 4 AND 5", True), ("i BETWEEN none AND 5", None),
    ("none NOT BETWEEN 1 AND 2", None), ("s BETWEEN 'a' AND 'c'", False), ("x BETWEEN 'a' AND 3", False),
    ("i IN (1, 2.0, 3.0)", True), ("x IN (2, 2.5)", True), ("i IN (1, 's')", False), ("i IN (1, none)", None),
    ("i IN (none, 3)", True), ("none IN (1, none)", None), ("x NOT IN (1, 2)", True),
    ("x NOT IN (2.5)", False), ("i NOT IN (1, 's')", False), ("i NOT IN (1, none)", None),
    ("i NOT IN (none, 's')", None),
    ("none NOT IN (1)", None), ("none IN (1 / zero)", None), ("s LIKE 'b'", True), ("s LIKE '_'", True),
    ("s LIKE '%'", True), ("s LIKE '__'", False), ("s NOT LIKE 'c%'", True),
    ("'%' LIKE '!%' ESCAPE '!'", True), ("s LIKE '!%' ESCAPE '!'", False), ("i LIKE '3'", None),
    ("x NOT LIKE '%'", None), ("none LIKE '%'", None),
    # A mistake in what need not be asked is none.
    ("yes OR 1 / zero = 1", True), ("no AND 1 / zero = 1", False), ("i IN (3, 1 / zero)", True),
    ("i NOT IN (3, 1 / zero)", False), ("zero = 0 OR 100 / zero > 3", True),
    ("(i + x) * 2 - (j / (y * 2.0)) = 9 AND NOT (x > i OR s LIKE 'a%')", True),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "value"), OPERATIONS, ids=[text for text, _ in OPERATIONS])
def test_rf_35_every_operator_and_every_kind_of_value(expression, value):
    """QT-16, RF-35: integers, doubles, texts, truth values and NULL, in both forms of the engine."""
    assert holds(f"({expression}) IS NULL", KINDS) is (value is None)
    if value is None:
        return
    if value == "nan":
        asked = f"NOT {expression} = {expression} AND {expression} <> 0"
    elif value in ("inf", "-inf"):
        asked = f"{expression} {'>' if value == 'inf' else '<'} {value.replace('inf', '1e308')}"
    else:
        asked = f"({expression}) = {spelled(value)}"
    assert holds(asked, KINDS)
    if type(value) in (int, float):
        # Only whole numbers are cut off.
        assert holds(f"1 / (({expression}) * 0 + 2) = 0", KINDS) is isinstance(value, int)


def holds(expression: str, headers: dict) -> bool:
    return Selector(expression).accepts(Message(headers=headers))


def spelled(value: object) -> str:
    """Return a value as a literal."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).upper() if isinstance(value, bool) else repr(value)


NAMED = [
    ("redelivered", "JMSRedelivered", "FALSE", "TRUE"), ("subject", "JMSType", "'red'", "'key'"),
    ("to", "JMSDestination", "'q'", "'amq.topic'"), ("absolute_expiry_time", "JMSExpiration", "0", "101005"),
    ("creation_time", "JMSTimestamp", "0", "7000"), ("priority", "JMSPriority", "0", "4"),
    ("delivery_mode", "JMSDeliveryMode", "'NON_PERSISTENT'", "'PERSISTENT'"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "jms_name", "first", "second"), NAMED)
def test_rf_36_names(name, jms_name, first, second):
    """RF-36: a message sent to a queue, and one through a named exchange, delivered before."""
    queued = Transfer(message=Message(routing_key="q", headers={"qpid.subject": "red"}))
    message = Message(routing_key="key", priority=4, timestamp=7, durable=True)
    routed = Transfer(message=message, expiration=1_005_000, exchange="amq.topic")
    for word in (f"amqp.{name}", jms_name):
        assert Selector(f"{word} = {first}").matches(queued)
        assert Selector(f"{word} = {second}").matches(routed, delivery_count=0, epoch=100)


SUBJECTS = [
    ("amq.fanout", "key", "red", "'key'"), ("amq.fanout", "", "red", None), ("amq.fanout", None, "red", None),
    ("", "q", "red", "'red'"), ("", "q", "", None), ("", "q", None, None), ("", "q", 5, "'5'"),
    ("", "q", -(2**63), "'-9223372036854775808'"), ("", "q", True, None), ("", "q", 1.5, None),
    ("", "q", {"a": 1}, None),
]  # fmt: skip


@pytest.mark.parametrize(("exchange", "key", "header", "subject"), SUBJECTS)
def test_rf_42_the_subject(exchange, key, header, subject):
    """RF-42: of a message to a named exchange its routing key, and no header; of others the header's text."""
    transfer = Transfer(message=Message(routing_key=key, headers={"qpid.subject": header}), exchange=exchange)
    for word in ("amqp.subject", "JMSType"):
        assert Selector(f"{word} IS NULL").matches(transfer) is (subject is None)
        assert subject is None or Selector(f"{word} = {subject}").matches(transfer)


BYTES = [
    ("é", "_", False), ("é", "__", True), ("é", "é", True), ("日本", "______", True),
    ("naïve", "na_ve", False), ("naïve", "na__ve", True), ("é", "%é%", True), ("x\ny", "x_y", True),
    ("x\n", "x", False), ("x\n", "x_", True),
    ("\n", "%", True), ("x\0y", "x", True), ("x\0y", "x_y", False), ("x\0y", "%y", False), ("\0", "", True),
    ("a.b*", "a.b*", True), ("axbb", "a.b*", False), ("^[-]$", "^[-]$", True),
]  # fmt: skip


def _is_like(text, pattern, escape):
    """Return what LIKE says by the definition: try every way to share the bytes between the wildcards."""
    tokens, is_escaped = [], False
    for character in pattern:
        if character == escape:
            is_escaped = True
        elif character in "%_" and not is_escaped:
            tokens.append(character)
        else:
            tokens += list(character.encode())
            is_escaped = False
    reached = {0}
    bare = text.encode().partition(b"\0")[0]
    for token in tokens:
        if token == "%":
            reached = {end for start in reached for end in range(start, len(bare) + 1)}
        else:
            reached = {at + 1 for at in reached if at < len(bare) and token in ("_", bare[at])}
    return len(bare) in reached


def test_random_like_patterns_match_as_they_are_defined():
    """RF-43: escapes, wildcards side by side, characters of several bytes, a NUL."""
    draw = random.Random(43)
    for _ in range(3_000):
        pattern = "".join(draw.choices("ab%_!é\n", k=draw.randint(0, 7)))
        text = "".join(draw.choices("abé\n_%\0", k=draw.randint(0, 8)))
        expected = _is_like(text, pattern, "!")
        assert holds(f"a LIKE '{pattern}' ESCAPE '!'", {"a": text}) is expected, (pattern, text)


@pytest.mark.parametrize(
    "pattern",
    ["%a%a%a%b", "a%" * 31 + "b", "%" + "a" * 500 + "b%", "%" + "a_" * 200 + "b%"],
    ids=["four wildcards", "31 wildcards", "a long run", "a long run with holes"],
)
def test_a_pattern_made_to_last_for_ever_is_answered(pattern):
    """RF-43: a client chooses pattern and text; a search that tries every way would take hours."""
    assert holds(f"a LIKE '{pattern}'", {"a": "a" * 50_000}) is False


@pytest.mark.parametrize(("text", "pattern", "is_like"), BYTES)
def test_rf_43_like_counts_bytes(text, pattern, is_like):
    """RF-43: of UTF-8, up to a NUL; a newline is a byte like any other."""
    assert holds(f"a LIKE '{pattern}'", {"a": text}) is is_like
    assert holds(f"a NOT LIKE '{pattern}'", {"a": text}) is not is_like


def test_rf_44_a_bad_selector_is_told_before_exclusive_subscriptions():
    """RF-44: 404, 530, another's queue; then the selector, which ends the connection; then who else reads."""
    codes = []
    asked = (("absent", "t", 0), ("q", "s", 0), ("own", "t", 0), ("q", "t", 1), ("alone", "t", 0))
    for queue, tag, exclusive in asked:
        bench = Bench()
        for name in ("q", "own", "alone"):
            bench.declare(name, by="other", exclusive=name == "own")
        bench.read("q", "b")
        bench.read("alone", "other", "t", exclusive=True)
        with pytest.raises(AmqpException) as refusal:
            bench.read(queue, "b", tag, exclusive=bool(exclusive), selector="n =")
        codes.append(refusal.value.code)
    assert codes == [404, 530, 405, 501, 501]


def test_rf_46_times_are_of_the_epoch():
    """RF-46: when a message expires, and when it came, since 1970; the broker's own clock begins at 0."""
    for options, start in ((BrokerOptions(), 1_767_225_600), (BrokerOptions(start_time=7), 7)):
        broker = Broker(replace(options, enable_timestamp=True))
        producer = broker.session("p")
        broker.advance(1_500_000)
        conditions = f"JMSTimestamp = {start}000 + 1000", f"JMSExpiration = {start}000 + 2500"
        for n, condition in enumerate(conditions):
            producer.queue_declare(f"q{n}", {"qpid.filter": condition})
            producer.message_transfer(Message(routing_key=f"q{n}", ttl=1000))
            assert broker.queue(f"q{n}").message_depth == 1
        assert broker.now == 1_500_000


@pytest.mark.parametrize("name", ["amqp.durable", "amqp.delivery_count", "JMSXGroupID", "amqp.subject"])
def test_rf_36_names_without_a_value(name):
    """RF-36: also the subject of a message that is sent to a queue by its name."""
    message = Message(routing_key="q", durable=True, headers={name: 1})
    assert Selector(f"{name} IS NULL").matches(Transfer(message=message))


@pytest.mark.parametrize(
    "name",
    ["amqp.message_id", "amqp.correlation_id", "JMSMessageID", "JMSCorrelationID", '"amqp.message_id"'],
)
def test_rf_36_a_selector_that_ends_the_real_broker_is_refused(name):
    """RF-36: 540 says so, where the selector is given; the session dies of it, its connection does not."""
    broker = Broker()
    session, other = broker.session("p", "line"), broker.session("other", "line")
    session.queue_declare("q")
    with pytest.raises(NotImplementedException, match=f"{name.strip(chr(34))} makes the real broker crash"):
        session.message_subscribe("q", "s", arguments={"x-apache-selector": f"n = 1 OR {name} IS NULL"})
    assert (session.is_attached, other.is_attached) == (False, True)
    with pytest.raises(NotImplementedException):
        other.queue_declare("new", {"qpid.filter": f"{name} = 'a'"})
    assert list(broker.queues.queues) == ["q"]


def test_rf_35_a_selector_that_is_no_text_is_none():
    assert queue_of(1).read("q", selector=5).got == "p-1"


def test_rf_36_a_consumer_may_ask_for_what_was_delivered_before():
    bench = bench_with("q")
    again, first = bench.read("q", "again", selector="amqp.redelivered = TRUE"), bench.read("q", "first")
    bench.send("q")
    first.release("p-1", set_redelivered=True)
    assert again.got == "p-1*"


def test_a_refused_message_goes_to_somebody_else():
    """CN-21: the next waiting consumer is notified."""
    bench = bench_with("q")
    picky, open_minded = bench.read("q", "picky", selector="n = 1"), bench.read("q", "open")
    for n in (2, 1, 2):
        bench.send("q", headers={"n": n})
    assert open_minded.got == "p-1 p-3", "the first was picky's turn, who did not want it"
    assert picky.got == "p-2"


def test_rf_24_a_queue_filter_drops_before_the_depth_check():
    """RF-24: silently, with no counter, and without any 506."""
    bench = bench_with("q", filter="n = 1", max_count=1, flow_stop_count=0)
    for n in (1, 2, 2):
        assert bench.send("q", headers={"n": n})[0].is_complete
    assert (bench.stat("q").msgDepth, bench.stat("q").discardsOverflow) == (1, 0)


def test_a_selector_survives_a_snapshot():
    bench = bench_with("q")
    bench.read("q", "picky", selector="n = 1")
    twin = bench.twin()
    for n in (1, 2):
        twin.send("q", headers={"n": n})
    assert [event.message for event in twin.seen("delivered")] == ["p-1"]
