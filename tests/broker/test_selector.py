"""Selectors of subscriptions and queues (QT-16, CN-21, RF-07b, RF-24)."""

from __future__ import annotations

import pytest

from qflow.broker import INFINITE, Broker, Message
from qflow.broker.errors import FramingErrorException, NotImplementedException
from qflow.broker.message import Transfer
from qflow.broker.selector import Selector

HEADERS = {"colour": "red", "n": 2, "x": 1.5, "yes": True, "name": "a_b%", "it's": 1}


@pytest.mark.parametrize(
    ("expression", "is_true"),
    [
        ("colour = 'red'", True),
        ("colour <> 'red'", False),
        ("n = 2", True),
        ("n = 2.0", True),
        ("n < 3 AND x > 1", True),
        ("n < 3 and not x > 1", False),
        ("n > 5 OR colour LIKE 'r%'", True),
        ("n BETWEEN 1 AND 2", True),
        ("n NOT BETWEEN 1 AND 2", False),
        ("colour IN ('blue', 'red')", True),
        ("colour NOT IN ('blue', 'red')", False),
        ("absent IS NULL", True),
        ("absent IS NOT NULL", False),
        ("n IS NOT NULL", True),
        ("n + 1 = 3 AND n * 2 - 1 = 3 AND n / 4.0 = 0.5", True),
        ("-n = -2", True),
        ("+n = 2", True),
        ("1 + 2 * 3 = 7", True),
        ("(1 + 2) * 3 = 9", True),
        ("name LIKE 'a!_b!%' ESCAPE '!'", True),
        ("name LIKE 'a_b_'", True),
        ("name NOT LIKE 'b%'", True),
        ('"it\'s" = 1', True),
        ("yes = TRUE", True),
        ("yes", True),
        ("NOT yes", False),
        ("colour = 'it''s'", False),
        ("amqp.priority = 4", True),
        ("n < 'three' OR colour > 1", False),
        ("1e3 = 1000", True),
    ],
)
def test_qt_16_language(expression, is_true):
    """QT-16: the SQL-92 subset."""
    message = Message(headers=HEADERS, priority=4)
    assert Selector(expression).accepts(message) is is_true


@pytest.mark.parametrize(
    "expression",
    [
        "absent = 1",
        "NOT absent = 1",
        "absent <> 1",
        "absent = 1 OR absent = 2",
        "absent = 1 AND n = 2",
        "absent LIKE 'a%'",
        "absent BETWEEN 1 AND 2",
        "absent IN ('a')",
        "n + absent = 2",
        "n / 0 = 1",
        "colour + 1 = 2",
        "colour < 'z'",
        "n",
    ],
)
def test_qt_16_unknown_is_not_true(expression):
    """QT-16: three-valued logic; NULL makes neither a comparison nor its negation true."""
    assert not Selector(expression).accepts(Message(headers=HEADERS))


def test_qt_16_unknown_does_not_spoil_what_is_decided():
    message = Message(headers=HEADERS)
    assert Selector("absent = 1 OR n = 2").accepts(message)
    assert Selector("NOT (absent = 1 AND n = 3)").accepts(message)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        pytest.param("colour <> 1", False, id="QT-16 unlike kinds are not unequal either"),
        pytest.param("NOT colour = 1", True, id="QT-16 they are known not to be equal"),
        pytest.param("n NOT LIKE 'a'", False, id="QT-16 what no text is like is unknown of a number"),
        pytest.param("n NOT IN (3, 4)", True, id="QT-16 none of them"),
        pytest.param("n NOT IN (3, 'a')", False, id="QT-16 none of them, but one is no number"),
        pytest.param("n NOT IN (3, absent)", False, id="QT-16 none of them, but one is unknown"),
        pytest.param("NOT n IN (3, 'a')", True, id="QT-16 the negation of IN is another question"),
        pytest.param("map IS NULL", True, id="QT-16 a map is nothing that is seen"),
        pytest.param("amqp.n IS NULL", True, id="QT-16 a property that no message has"),
        pytest.param("JMSPriority = 4 AND JMSDeliveryMode = 'NON_PERSISTENT'", True, id="QT-16 names of JMS"),
        pytest.param("  ", True, id="QT-16 nothing but spaces asks for nothing"),
    ],
)
def test_qt_16_unlike_kinds(expression, expected):
    headers = {**HEADERS, "map": {"n": 1}, "amqp.n": 2}
    assert Selector(expression).accepts(Message(priority=4, headers=headers)) is expected


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
    with pytest.raises(FramingErrorException) as refused:
        Selector(expression)
    assert refused.value.text == (why if why == ILLEGAL else f"Illegal selector: {why}")


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
    ("'n' = \"n\"", False), ("\"and\" = 1", True),
]  # fmt: skip


@pytest.mark.parametrize(("expression", "is_true"), CONVERSIONS)
def test_rf_35_conversions(expression, is_true):
    """RF-35: integers are cut off and wrap, doubles divide by 0, what is unknown stays so."""
    message = Message(headers={"big": 2**63, "n": 5, "and": 1})
    assert Selector(expression).accepts(message) is is_true


NAMED = [
    ("redelivered", "JMSRedelivered", "FALSE", "TRUE"), ("subject", "JMSType", "'red'", "'key'"),
    ("to", "JMSDestination", "'q'", "'amq.topic'"), ("absolute_expiry_time", "JMSExpiration", "0", "1005"),
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
        assert Selector(f"{word} = {second}").matches(routed, delivery_count=0)


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
    broker = Broker()
    broker.session("p").queue_declare("q")
    consumer = subscribe(broker, "c", 5)
    broker.sessions["p"].message_transfer(Message(routing_key="q"))
    assert labels(consumer) == ["p-1"]


def test_rf_36_a_consumer_may_ask_for_what_was_delivered_before():
    broker = Broker()
    broker.session("p").queue_declare("q")
    again = subscribe(broker, "again", "amqp.redelivered = TRUE")
    first = subscribe(broker, "first")
    broker.sessions["p"].message_transfer(Message(routing_key="q"))
    first.message_release([0], set_redelivered=True)
    assert labels(again) == ["p-1"]


def test_qt_16_a_bad_queue_filter_closes_the_connection():
    """QT-16, LP-06: not a session error; every session of the connection goes, and only those."""
    broker = Broker()
    first, second = broker.session("a", "line"), broker.session("b", "line")
    other = broker.session("c")
    with pytest.raises(FramingErrorException):
        first.queue_declare("q", {"qpid.filter": "n ="})
    assert (first.is_attached, second.is_attached, other.is_attached) == (False, False, True)
    assert "q" not in broker.queues.queues


def subscribe(broker: Broker, name: str, selector: str | int | None = None):
    session = broker.session(name)
    session.message_subscribe("q", "s", arguments={"x-apache-selector": selector} if selector else None)
    session.message_set_flow_mode("s", 0)
    session.message_flow("s", 1, INFINITE)
    session.message_flow("s", 0, INFINITE)
    return session


def labels(session) -> list[str]:
    return [record.label for record in session.consuming.records.values()]


def test_cn_21_a_refused_message_goes_to_somebody_else():
    broker = Broker()
    producer = broker.session("p")
    producer.queue_declare("q")
    picky, open_minded = subscribe(broker, "picky", "n = 1"), subscribe(broker, "open")
    for n in (2, 1, 2):
        producer.message_transfer(Message(routing_key="q", headers={"n": n}))
    assert labels(open_minded) == ["p-1", "p-3"], "the first was picky's turn, who did not want it"
    assert labels(picky) == ["p-2"]


def test_rf_24_a_queue_filter_drops_before_the_depth_check():
    """RF-24: silently, with no counter, and without any 506."""
    broker = Broker()
    producer = broker.session("p")
    producer.queue_declare("q", {"qpid.filter": "n = 1", "qpid.max_count": 1, "qpid.flow_stop_count": 0})
    for n in (1, 2, 2):
        assert producer.message_transfer(Message(routing_key="q", headers={"n": n})).is_complete
    statistics = broker.queue("q").statistics()
    assert (statistics.msgDepth, statistics.discardsOverflow) == (1, 0)


def test_a_selector_survives_a_snapshot():
    broker = Broker()
    broker.session("p").queue_declare("q")
    subscribe(broker, "picky", "n = 1")
    twin = Broker.restore(broker.snapshot())
    for n in (1, 2):
        twin.sessions["p"].message_transfer(Message(routing_key="q", headers={"n": n}))
    assert labels(twin.sessions["picky"]) == ["p-1"]
