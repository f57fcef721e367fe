"""Exclusive bindings, sequences, initial values, scopes, queries (EX-04, EX-11, EX-13, EX-14)."""

from __future__ import annotations

import pytest

from qflow.broker import Broker, Message
from qflow.broker.errors import NotFoundException
from qflow.broker.registry import ExchangeBoundResult


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def session(broker):
    session = broker.session("s")
    for queue in ("a", "b"):
        session.queue_declare(queue)
    return session


def depths(broker, *queues):
    return tuple(broker.queue(queue).message_depth for queue in queues)


def test_ex_04_an_exclusive_binding_replaces_the_others_of_its_key(broker, session):
    for queue in ("a", "b"):
        session.exchange_bind(queue, "amq.direct", "k", {"qpid.exclusive-binding": True})
    session.exchange_bind("a", "amq.direct", "other")
    session.message_transfer(Message(routing_key="k"), "amq.direct")
    assert depths(broker, "a", "b") == (0, 1)
    assert broker.queue("a").binding_count == 2


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_ex_11_sequence_numbers_count_per_exchange(broker, session, kind):
    session.exchange_declare("x", kind, arguments={"qpid.msg_sequence": 1})
    session.exchange_bind("a", "x", "k", {"x-match": "all"})
    for _ in range(3):
        session.message_transfer(Message(routing_key="k"), "x")
    assert [message.headers()["qpid.msg_sequence"] for message in broker.queue("a").store] == [1, 2, 3]


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_ex_11_initial_value_goes_to_each_newly_bound_queue(broker, session, kind):
    session.exchange_declare("x", kind, arguments={"qpid.ive": 1})
    for _ in range(2):
        session.message_transfer(Message(routing_key="k"), "x")
    session.exchange_bind("a", "x", "k", {"x-match": "all"})
    session.exchange_bind("a", "x", "k", {"x-match": "all"})
    assert [message.transfer.label for message in broker.queue("a").store] == ["s-2"]
    session.exchange_bind("b", "x", "k", {"x-match": "all"})
    # It is routed again, so that whoever is bound already gets it once more.
    assert depths(broker, "a", "b") == (2, 1)


@pytest.mark.parametrize("kind", ["direct", "topic"])
def test_ex_11_initial_value_has_to_match(broker, session, kind):
    session.exchange_declare("x", kind, arguments={"qpid.ive": 0, "qpid.msg_sequence": 0})
    session.message_transfer(Message(routing_key="k"), "x")
    session.exchange_bind("a", "x", "other")
    session.exchange_bind("b", "x", "k")
    assert depths(broker, "a", "b") == (0, 1)
    assert broker.queue("b").store.find(1).headers()["qpid.msg_sequence"] == 3


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_ex_11_an_auto_delete_exchange_goes_with_its_last_binding(broker, session, kind):
    session.exchange_declare("x", kind, auto_delete=True)
    session.exchange_bind("a", "x", "k", {"x-match": "all"})
    session.exchange_unbind("a", "x", "k")
    assert session.exchange_query("x").not_found
    with pytest.raises(NotFoundException):
        session.exchange_declare("x", passive=True)


OWN = {"x-match": "all", "p": "v"}


def bound(**flags) -> ExchangeBoundResult:
    return ExchangeBoundResult(**flags)


@pytest.mark.parametrize(
    ("exchange", "question", "answer"),
    [
        ("amq.direct", {}, bound()),
        ("amq.direct", {"queue": "a"}, bound()),
        ("amq.direct", {"queue": "b"}, bound(queue_not_matched=True)),
        ("amq.direct", {"key": "k"}, bound()),
        ("amq.direct", {"key": "z"}, bound(key_not_matched=True)),
        ("amq.direct", {"queue": "a", "key": "k"}, bound()),
        ("amq.direct", {"queue": "a", "key": "z"}, bound(key_not_matched=True)),
        ("amq.direct", {"queue": "b", "key": "z"}, bound(queue_not_matched=True, key_not_matched=True)),
        ("amq.direct", {"queue": "none"}, bound(queue_not_found=True)),
        ("none", {"queue": "a"}, bound(exchange_not_found=True)),
        ("none", {"queue": "none"}, bound(exchange_not_found=True, queue_not_found=True)),
        ("amq.fanout", {"queue": "a", "key": "whatever"}, bound()),
        ("amq.topic", {"queue": "a", "key": "x.*"}, bound()),
        ("amq.match", {"queue": "a", "arguments": OWN}, bound()),
        ("amq.match", {"queue": "a", "arguments": {**OWN, "more": 1}}, bound()),
        ("amq.match", {"queue": "b", "arguments": OWN}, bound(queue_not_matched=True)),
        ("amq.match", {"queue": "a", "arguments": {"p": "v"}}, bound(args_not_matched=True)),
        ("amq.match", {"queue": "a", "arguments": {**OWN, "p": "w"}}, bound(args_not_matched=True)),
        ("amq.match", {"queue": "a", "key": "any"}, bound()),
        ("amq.direct", {"queue": "", "key": ""}, bound()),
        ("amq.direct", {"queue": "b", "key": "k"}, bound(queue_not_matched=True)),
        ("amq.direct", {"queue": "a", "arguments": {"p": "w"}}, bound()),
        ("amq.fanout", {"key": "whatever"}, bound(key_not_matched=True)),
        ("amq.fanout", {"queue": "b", "key": "k"}, bound(queue_not_matched=True, key_not_matched=True)),
        ("amq.topic", {"queue": "a", "key": "#.y"}, bound()),
        ("amq.topic", {"queue": "a", "key": "#.#.y"}, bound()),
        ("amq.topic", {"key": "#.y"}, bound()),
        ("amq.topic", {"key": "#.#.y"}, bound(key_not_matched=True)),
        ("x", {"arguments": {"p": "v"}}, bound()),
        ("x", {"key": "k"}, bound(key_not_matched=True)),
    ],
)
def test_ex_13_exchange_bound(session, exchange, question, answer):
    """EX-13, RF-33: the flags say what does not hold, key and arguments judged over the whole exchange."""
    session.exchange_declare("x", "headers")
    session.exchange_bind("a", "amq.topic", "#.y")
    session.exchange_bind("a", "amq.direct", "k")
    session.exchange_bind("a", "amq.fanout")
    session.exchange_bind("a", "amq.topic", "x.*")
    session.exchange_bind("a", "amq.match", "h", {"x-match": "all", "p": "v"})
    assert session.exchange_bound(exchange, **question) == answer


def test_dq_01_queue_query_counts_what_nobody_has(session):
    """DQ-01, EX-13: and an unknown queue gives an empty answer, no error."""
    session.queue_declare("q", {"qpid.max_count": 3}, auto_delete=True, alternate_exchange="amq.fanout")
    session.message_transfer(Message(routing_key="q"))
    answer = session.queue_query("q")
    assert (answer.message_count, answer.alternate_exchange, answer.auto_delete) == (1, "amq.fanout", True)
    assert answer.arguments == {"qpid.max_count": 3}, "FC-12: never the computed defaults"
    assert session.queue_query("unknown").queue == ""
    assert session.is_attached


def test_ex_14_in_04_nothing_asks_for_consumers_before_a_message_is_taken(broker, session):
    """EX-14, IN-04, IN-07: without a consumer a message is queued; an unroutable one vanishes silently."""
    assert session.message_transfer(Message(routing_key="a")).is_complete
    assert session.message_transfer(Message(routing_key="nowhere")).is_complete
    assert depths(broker, "a") == (1,)
    assert broker.discardsNoRoute == 1
