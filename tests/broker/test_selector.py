"""Selectors of subscriptions and queues (QT-16, CN-21, RF-07b, RF-24)."""

from __future__ import annotations

from uuid import UUID

import pytest

from qflow.broker import INFINITE, Broker, Message
from qflow.broker.errors import FramingErrorException
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
        ("n + 1 = 3 AND n * 2 - 1 = 3 AND n / 4 = 0.5", True),
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
        ("amqp.message_id = '00000000-0000-0000-0000-000000000007'", True),
        ("amqp.correlation_id IS NULL", True),
        ("n < 'three' OR colour > 1", False),
        ("1e3 = 1000", True),
    ],
)
def test_qt_16_language(expression, is_true):
    """QT-16: the SQL-92 subset."""
    message = Message(headers=HEADERS, priority=4, message_id=UUID(int=7))
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


def test_qt_16_a_message_without_an_id():
    assert Selector("amqp.message_id IS NULL").accepts(Message())


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


@pytest.mark.parametrize(
    "expression",
    [
        "n =",
        "n = = 2",
        "n NOT 2",
        "(n = 2",
        "n = 'open",
        "n IN ()",
        "n BETWEEN 1",
        "AND",
        "n LIKE 2",
        "n § 2",
        "n 2",
    ],
)
def test_qt_16_what_cannot_be_parsed_says_where(expression):
    """QT-16: 501, with the expression in the text."""
    with pytest.raises(FramingErrorException, match="Illegal selector") as refused:
        Selector(expression)
    assert repr(expression) in str(refused.value)


def test_qt_16_a_bad_queue_filter_closes_the_connection():
    """QT-16, LP-06: not a session error; every session of the connection goes, and only those."""
    broker = Broker()
    first, second = broker.session("a", "line"), broker.session("b", "line")
    other = broker.session("c")
    with pytest.raises(FramingErrorException):
        first.queue_declare("q", {"qpid.filter": "n ="})
    assert (first.is_attached, second.is_attached, other.is_attached) == (False, False, True)
    assert "q" not in broker.queues.queues


def subscribe(broker: Broker, name: str, selector: str | None = None):
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
