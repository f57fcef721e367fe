"""Addresses at work: nodes made, bound, asserted and deleted, subjects, subscriptions (CF-14, CF-15, EX).

Of what is refused one of each kind; the tables of it: tests/broker/test_settings.py and test_exchanges.py.
"""

import re

import pytest
from messaging_support import Bench, address, drain, is_empty, texts

from qflow import messaging
from qflow.messaging import MalformedAddress, Message, MessagingError, NotFound, ReceiverError, SessionError

# create and delete


@pytest.mark.parametrize("policy", ["always", "sender", "receiver", "never"])
def test_a_node_is_created_by_the_side_that_its_address_names(policy: str) -> None:
    """CF-14: a node is made by the side that is to make it, and else not found."""
    for role in ("sender", "receiver"):
        bench = Bench()
        make = getattr(bench.session, role)
        target = address("q", create=policy)
        if policy in ("always", role):
            make(target)
            assert bench.exists("queue", "q")
        else:
            with pytest.raises(NotFound, match="no such queue: q"):
                make(target)
            assert not bench.exists("queue", "q")
            bench.receiver("amq.topic")


@pytest.mark.parametrize("policy", ["always", "sender", "receiver", "never"])
@pytest.mark.parametrize(("kind", "name"), [("queue", "queue"), ("topic", "exchange")])
def test_a_node_is_deleted_when_the_side_that_its_address_names_closes(
    policy: str, kind: str, name: str
) -> None:
    """CF-14: a node is deleted when the side that is to delete it closes."""
    for role in ("sender", "receiver"):
        bench = Bench()
        link = getattr(bench.session, role)(
            f"n; {{create: always, delete: {policy}, node: {{type: {kind}}}}}"
        )
        assert bench.exists(name, "n")
        link.close()
        assert bench.exists(name, "n") == (policy not in ("always", role))
        link.close()


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_a_missing_node_is_named_and_the_session_lives_on(bench: Bench, role: str) -> None:
    """CF-14, CF-15: NotFound names what is missing, as the address says it is; the session lives on."""
    make = getattr(bench.session, role)
    for target, text in (
        ("missing", "no such queue: missing"),
        ("missing; {node: {type: topic}}", "no such topic: missing"),
        ("missing/subject; {node: {type: queue}}", "no such queue: missing"),
        ("amq.topic; {node: {type: queue}}", "no such queue: amq.topic"),
        ("amq.topic; {assert: always, node: {type: queue}}", "no such queue: amq.topic"),
    ):
        with pytest.raises(NotFound) as raised:
            make(target)
        assert str(raised.value) == text
    assert (bench.session.senders, bench.session.receivers) == ([], [])
    bench.sender("q; {create: always}").send("x")


def test_a_queue_is_created_with_the_arguments_of_x_declare(bench: Bench) -> None:
    """CF-14: x-declare takes dashes and underscores; auto-delete ends the queue with its last reader."""
    declare = "{auto_delete: true, exclusive: False, arguments: {'qpid.max_count': 5}}"
    sender = bench.sender(
        f"q; {{create: always, node: {{type: queue, durable: False, x-declare: {declare}}}}}"
    )
    sender.send("x")
    assert (bench.stat("q").autoDelete, bench.stat("q").arguments) == (True, {"qpid.max_count": 5})
    receiver = bench.receiver("q")
    assert texts(receiver) == "x"
    receiver.close()
    assert not bench.exists("queue", "q")


@pytest.mark.parametrize(("declare", "kind"), [("", "topic"), ("type: fanout", "fanout")])
def test_a_topic_is_created_as_a_topic_exchange_by_default(bench: Bench, declare: str, kind: str) -> None:
    """CF-14: a topic is a topic exchange unless said otherwise."""
    bench.sender(f"x; {{create: always, node: {{type: topic, x-declare: {{{declare}}}}}}}").send("ping")
    assert bench.object("exchange", "x").type == kind


# Subjects and keys


def test_subject_is_the_key_on_an_exchange(bench: Bench) -> None:
    """CF-14: a message's own subject before the address's; both arrive as the message's subject."""
    sender = bench.sender("amq.topic/a")
    for_a, for_b, for_all = (bench.receiver(source) for source in ("amq.topic/a", "amq.topic/b", "amq.topic"))
    sender.send("one")
    sender.send(Message("two", subject="b"))
    assert (texts(for_a), texts(for_b)) == ("one", "two")
    assert [(m.content, m.subject) for m in drain(for_all)] == [("one", "a"), ("two", "b")]


def test_subject_on_a_queue(bench: Bench) -> None:
    """CF-14: the key is the queue's name; the subject is a property."""
    receiver = bench.receiver("q; {create: always}")
    bench.sender("q/mine").send("one")
    bench.sender("q").send(Message("two", subject="yours"))
    bench.sender("q").send("three")
    seen = [(m.subject, m.properties["x-amqp-0-10.routing-key"]) for m in drain(receiver)]
    assert seen == [("mine", "q"), ("yours", "q"), (None, "q")]


@pytest.mark.parametrize(
    ("exchange", "source", "got"),
    [
        ("amq.topic", "amq.topic", "a a.b c"),
        ("amq.topic", "amq.topic/a.#", "a a.b"),
        ("amq.direct", "amq.direct", ""),
        ("amq.fanout", "amq.fanout/a", "a a.b c"),
    ],
)
def test_what_a_subscription_gets(bench: Bench, exchange: str, source: str, got: str) -> None:
    """EX-04 … EX-06, CF-14: without a subject a topic exchange gives all, a direct one only the empty key."""
    receiver = bench.receiver(source)
    bench.send(exchange, *(Message(key, subject=key) for key in ("a", "a.b", "c")))
    assert texts(receiver) == got


# Bindings and links


def test_node_bindings_of_a_queue(bench: Bench) -> None:
    """CF-14."""
    sender = bench.sender(
        "q; {create: always, delete: always, node: {x-bindings: [{exchange: 'amq.topic', key: 'a.#'},"
        " {exchange: 'amq.direct', key: b}]}}"
    )
    # Made for a node that is there already, too.
    bench.sender("q; {node: {x-bindings: [{exchange: 'amq.topic', key: 'c.*'}]}}")
    sender.send("one")
    for target, text in (("amq.topic/a.foo", "two"), ("amq.direct/b", "three"), ("amq.topic/c.bar", "four")):
        bench.sender(target).send(text)
    assert texts(bench.receiver("q")) == "one two three four"
    assert bench.stat("q").bindingCount == 4


def test_node_bindings_of_a_topic(bench: Bench) -> None:
    """CF-14, EX-06."""
    receivers = [bench.receiver(f"{name}; {{create: always}}") for name in ("q", "q-a", "q-b", "q-c")]
    sender = bench.sender(
        "t; {create: always, node: {type: topic, x-bindings: [{queue: q, key: '#'},"
        " {queue: q-a, key: 'a.#'}, {queue: q-b, key: b}, {queue: q-c, key: 'c.*'}]}}"
    )
    for subject, text in ((None, "one"), ("a.foo", "two"), ("b", "three"), ("c.bar", "four")):
        sender.send(Message(text, subject=subject))
    assert [texts(r) for r in receivers] == ["one two three four", "two", "three", "four"]


def test_node_bindings_without_a_type_are_a_queues(bench: Bench) -> None:
    """CF-14: they take the name for one."""
    bench.sender("q; {create: always}")
    with pytest.raises(SessionError) as raised:
        bench.sender("amq.topic; {node: {x-bindings: [{queue: q, key: a}]}}").send("x")
    assert raised.value.code == 542


def test_x_bindings_of_a_link_are_made_by_either_side(bench: Bench) -> None:
    """CF-14: made by a sender for a queue, and by a receiver of a queue."""
    bench.sender("q; {create: always, delete: always}")
    messages = [Message(subject, subject=subject) for subject in "ab"]
    bench.send("amq.topic", *messages)
    receiver = bench.receiver("q")
    assert is_empty(receiver)
    sender = bench.send("amq.topic; {link: {x-bindings: [{queue: q, key: a}]}}", *messages)
    assert texts(receiver) == "a"
    other = bench.receiver("q; {link: {x-bindings: [{exchange: 'amq.topic', key: b}]}}")
    for message in messages:
        sender.send(message)
    assert texts(other) == "a b"


def test_the_queue_of_a_subscription(bench: Bench) -> None:
    """CF-14: it can be named and read in its session, to which it belongs; exclusive: False lets others."""
    bench.receiver("amq.topic; {link: {name: mine}}")
    bench.sender("amq.topic").send("x")
    assert texts(bench.receiver("mine")) == "x"
    with pytest.raises(ReceiverError, match="resource-locked"):
        bench.consumer("amq.topic; {link: {name: mine}}")
    shared = "amq.fanout; {link: {name: ours, x-declare: {exclusive: False}}}"
    one, two = bench.consumer(shared), bench.consumer(shared)
    one.capacity = two.capacity = 10
    bench.send("amq.fanout", *"012345")
    assert (texts(one), texts(two)) == ("0 2 4", "1 3 5")


def test_a_selector_in_an_address_filters_the_messages(bench: Bench) -> None:
    bench.send(address("q"), *(Message(f"{number}", properties={"n": number}) for number in range(5)))
    subscribe = '{arguments: {x-apache-selector: "n > 2"}}'
    assert texts(bench.receiver(f"q; {{link: {{x-subscribe: {subscribe}}}}}")) == "3 4"


# Temporary names


def test_a_temporary_queue_lives_as_long_as_its_session(bench: Bench) -> None:
    """CF-14, RF-41: a # gets a UUID in front and stays; the queue goes with the session that made it."""
    session = bench.new_session()
    receiver, other = session.receiver("#"), session.receiver("#")
    assert receiver.source != other.source
    assert re.fullmatch(r"[0-9a-f-]{36}#", str(receiver.source))
    session.sender(receiver.source).send("to the first")
    assert (texts(receiver), texts(other)) == ("to the first", "")
    assert bench.stat(receiver.queue).exclusive
    session.close()
    assert not bench.exists("queue", receiver.queue)
    assert re.fullmatch(r"[0-9a-f-]{36}#reply", bench.new_session().receiver("#reply").queue)
    assert bench.receiver("x-#; {create: always}").queue == "x-#"


def test_temporary_names_are_the_same_in_every_run() -> None:
    """Runs can be compared: the n-th temporary name of a broker is always the same."""
    assert len({str(Bench().receiver("#").source) for _ in range(2)}) == 1


def test_request_and_response(bench: Bench) -> None:
    """MessagingSessionTests testSimpleRequestResponse: through a temporary queue and a topic."""
    server = bench.consumer("requests; {create: always}")
    for source in ("#reply", "amq.topic/replies"):
        receiver = bench.receiver(source)
        reply_to = source if source != "#reply" else receiver.source
        if source != "#reply":
            reply_to = f"{source}; {{node: {{type: topic}}}}"
        bench.sender("requests").send(Message("question", reply_to=reply_to))
        request = server.fetch(0)
        server.session.sender(request.reply_to).send("answer")
        server.session.acknowledge()
        assert texts(receiver) == "answer"


# assert


DECLARED = "{alternate-exchange: 'amq.fanout', auto-delete: True, arguments: {'qpid.max_count': 7, mine: 1}}"


@pytest.mark.parametrize(
    "node",
    [
        "",
        "type: queue, durable: True",
        "x-declare: {auto-delete: False, exclusive: True, alternate-exchange: 'amq.topic'}",
        "x-declare: {arguments: {'qpid.max_count': 8}}",
    ],
)
def test_assert_compares_a_queues_type_only(bench: Bench, node: str) -> None:
    """CF-15: qpid-python compares the type, and nothing of what the node was declared with."""
    bench.sender(f"q; {{create: always, node: {{x-declare: {DECLARED}}}}}")
    options = f"assert: always, node: {{{node}}}" if node else "assert: always"
    links = [f"q; {{{create}{options}}}" for create in ("", "create: always, ")]
    for number, link in enumerate(links):
        bench.sender(link).send(str(number))
        assert texts(bench.consumer(link)) == str(number)
    queue = bench.stat("q")
    assert (queue.autoDelete, queue.durable, queue.exclusive) == (True, False, False)
    assert (str(queue.altExchange).split(":")[-1], queue.arguments) == (
        "amq.fanout", {"qpid.max_count": 7, "mine": 1},
    )  # fmt: skip


@pytest.mark.parametrize(
    "node",
    [
        "type: topic, durable: True",
        "type: topic, x-declare: {type: fanout, alternate-exchange: 'amq.topic', arguments: {'qpid.ive': 1}}",
    ],
)
def test_assert_compares_no_argument_of_an_exchange(bench: Bench, node: str) -> None:
    """CF-15: nor is anything compared for an exchange; it routes and is declared as before."""
    declare = "{type: direct, alternate-exchange: 'amq.fanout', arguments: {'qpid.msg_sequence': 1}}"
    bench.sender(f"x; {{create: always, node: {{type: topic, x-declare: {declare}}}}}")
    receiver = bench.receiver("x/key")
    bench.sender(f"x/key; {{assert: always, node: {{{node}}}}}").send("routed")
    assert texts(receiver) == "routed"
    exchange = bench.object("exchange", "x")
    assert (exchange.type, exchange.durable) == ("direct", False)
    assert (str(exchange.altExchange).split(":")[-1], exchange.arguments) == (
        "amq.fanout", {"qpid.msg_sequence": 1},
    )  # fmt: skip


# One name, two nodes


def ambiguous(bench: Bench) -> None:
    bench.broker.management.create("exchange", "ambiguous", {"exchange-type": "fanout"})
    bench.broker.management.create("queue", "ambiguous")


def test_a_name_of_queue_and_exchange_means_the_queue(bench: Bench) -> None:
    """CF-14: the type selects; without one it is the queue."""
    ambiguous(bench)
    topic = bench.receiver("ambiguous; {node: {type: topic}}")
    queue = bench.receiver("ambiguous; {node: {type: queue}}")
    for node, text in (("; {node: {type: topic}}", "a"), ("; {node: {type: queue}}", "b"), ("", "c")):
        bench.sender(f"ambiguous{node}").send(text)
    assert (texts(topic), texts(queue)) == ("a", "b c")


@pytest.mark.parametrize("order", [("queue", "topic"), ("topic", "queue")])
def test_create_makes_the_node_of_the_given_type(bench: Bench, order: tuple[str, str]) -> None:
    """CF-14: creating one when the other is there makes the one that was asked for."""
    nodes = [f"ambiguous; {{create: receiver, node: {{type: {kind}}}}}" for kind in order]
    receivers = [bench.receiver(node) for node in nodes]
    for node, kind in zip(nodes, order, strict=True):
        bench.sender(node).send(kind)
    assert [texts(receiver) for receiver in receivers] == list(order)


@pytest.mark.parametrize(("kind", "left"), [("topic", "queue"), ("queue", "exchange")])
def test_delete_removes_the_node_of_the_given_type(bench: Bench, kind: str, left: str) -> None:
    """CF-14: only the one that was named by type goes."""
    ambiguous(bench)
    bench.receiver(f"ambiguous; {{delete: receiver, node: {{type: {kind}}}}}").close()
    there = [what for what in ("queue", "exchange") if bench.exists(what, "ambiguous")]
    assert there == [left]


# Names that AMQP cannot carry


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_a_name_that_amqp_cannot_carry_leaves_no_link_behind(bench: Bench, role: str) -> None:
    """A name has 255 bytes at most."""
    with pytest.raises(ValueError, match="at most 255 bytes, got 300"):
        getattr(bench.session, role)("x" * 300 + "; {create: always}")
    assert bench.session.links() == []
    bench.session.connection.detach()
    bench.session.connection.attach()


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_a_name_that_amqp_cannot_carry_is_an_error_of_its_link_alone(bench: Bench, role: str) -> None:
    """Made while the connection was closed; attaching links all others."""
    bench.session.connection.detach()
    link, other = getattr(bench.session, role)("x" * 300), bench.session.sender("q; {create: always}")
    bench.session.connection.attach()
    with pytest.raises(MalformedAddress, match="at most 255 bytes, got 300"):
        link.check_error()
    other.send("to do")
    assert bench.stat("q").msgDepth == 1


# Bad input: the exception people catch, its code, the broker's words (CF-05)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ({"qpid.max_count": "abc"}, 542, "invalid conversion: "),
        ({"qpid.max_count": 100, "qpid.flow_stop_count": 5}, 542,
         'invalid-argument: Queue "q": qpid.flow_resume_count=70 must be less'),
        ({"qpid.paging": True}, 540, "not-implemented: qpid.paging"),
    ],
)  # fmt: skip
def test_a_refused_declare_ends_the_session_and_not_the_connection(
    bench: Bench, arguments: dict[str, object], code: int, text: str
) -> None:
    """CF-05: nothing is created, the session is gone, the connection is not; a second try fares the same."""
    for make in (bench.new_session().sender, bench.new_session().receiver):
        with pytest.raises(SessionError) as raised:
            make(address("q", arguments))
        assert type(raised.value) is SessionError
        assert raised.value.code == code
        assert str(raised.value).startswith(text), str(raised.value)
        assert not bench.exists("queue", "q")
    bench.sender(address("q")).send("fine")


@pytest.mark.parametrize(
    ("source", "kind", "code", "text"),
    [
        ("amq.x; {create: always, node: {type: topic}}", SessionError, 530, "not-allowed: Exchange names"),
        ("q; {node: {x-bindings: [{exchange: 'amq.match', key: z}]}}", messaging.ServerError, 541,
         "internal-error: Invalid"),
        ("mine; {mode: consume}", ReceiverError, 405,
         "resource-locked: Cannot subscribe to exclusive queue mine"),
        ("gone; {create: always, node: {x-declare: {passive: True}}}", NotFound, 404,
         "not-found: Queue not found"),
    ],
)  # fmt: skip
def test_other_refusals_of_an_address(
    bench: Bench, source: str, kind: type[MessagingError], code: int, text: str
) -> None:
    """CN-02, CF-04: what an address asks for beside a queue's arguments."""
    bench.sender("q; {create: always}")
    bench.sender("mine; {create: always, node: {x-declare: {exclusive: True}}}")
    with pytest.raises(kind) as raised:
        bench.new_session().receiver(source)
    assert type(raised.value) is kind
    assert raised.value.code == code
    assert str(raised.value).startswith(text), str(raised.value)


@pytest.mark.parametrize("target", [5, b"q", ["q"], -1])
@pytest.mark.parametrize("is_open", [True, False])
def test_an_address_that_is_no_text_is_refused_at_once(bench: Bench, target: object, is_open: bool) -> None:
    """CF-14: on a connection that is closed, too, not only when it opens again."""
    if not is_open:
        bench.connection.detach()
    for attach in (bench.session.sender, bench.session.receiver):
        with pytest.raises(TypeError, match="an address must be a string"):
            attach(target)
    bench.connection.attach()
    assert not bench.session.senders and not bench.session.receivers
