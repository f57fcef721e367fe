"""Addresses at work: nodes made, bound, asserted and deleted, subjects, subscriptions (CF-14, CF-15, EX)."""

import re

import pytest
from messaging_support import Bench, drain, is_empty, texts

from qflow.messaging import (
    AssertionFailed,
    Empty,
    EncodeError,
    MalformedAddress,
    Message,
    NotFound,
    ReceiverError,
    SessionError,
    TargetCapacityExceeded,
)

# create and delete


@pytest.mark.parametrize("policy", ["always", "sender", "receiver", "never"])
def test_create_policy(policy: str) -> None:
    """CF-14: a node is made by the side that is to make it, and else not found."""
    for role in ("sender", "receiver"):
        bench = Bench()
        make = getattr(bench.session, role)
        address = f"q; {{create: {policy}}}"
        if policy in ("always", role):
            make(address)
            assert bench.exists("queue", "q")
        else:
            with pytest.raises(NotFound, match="no such queue: q"):
                make(address)
            assert not bench.exists("queue", "q")
            bench.receiver("amq.topic")


@pytest.mark.parametrize("policy", ["always", "sender", "receiver", "never"])
@pytest.mark.parametrize(("kind", "name"), [("queue", "queue"), ("topic", "exchange")])
def test_delete_policy(policy: str, kind: str, name: str) -> None:
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
def test_not_found(role: str) -> None:
    """CF-14: NotFound names what is missing, as what the address says it is; the session lives on."""
    bench = Bench()
    make = getattr(bench.session, role)
    for address, text in (
        ("missing", "no such queue: missing"),
        ("missing; {node: {type: topic}}", "no such topic: missing"),
        ("missing/subject; {node: {type: queue}}", "no such queue: missing"),
        ("amq.topic; {node: {type: queue}}", "no such queue: amq.topic"),
    ):
        with pytest.raises(NotFound) as raised:
            make(address)
        assert str(raised.value) == text
    assert (bench.session.senders, bench.session.receivers) == ([], [])
    bench.sender("q; {create: always}").send("x")


def test_create_queue() -> None:
    """CF-14: x-declare takes dashes and underscores; auto-delete ends the queue with its last reader."""
    bench = Bench()
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


@pytest.mark.parametrize("kind", ["", "direct", "topic", "fanout"])
def test_create_exchange(kind: str) -> None:
    """CF-14, EX-04 … EX-06: a topic is a topic exchange unless said otherwise."""
    bench = Bench()
    given = f", type: {kind}" if kind else ""
    declare = f"{{auto_delete: true{given}}}"
    sender = bench.sender(
        f"x; {{create: always, node: {{type: topic, durable: False, x-declare: {declare}}}}}"
    )
    assert bench.object("exchange", "x").type == (kind or "topic")
    sender.send("ping")
    first, again, second = (bench.receiver(f"x/{key}") for key in ("first", "first", "second"))
    sender.send(Message("one", subject="first"))
    sender.send(Message("two", subject="second"))
    wanted = ["one two"] * 3 if kind == "fanout" else ["one", "one", "two"]
    assert [texts(receiver) for receiver in (first, again, second)] == wanted


def test_delete_what_may_not_be_deleted() -> None:
    """EX-03: 530, and the session is gone."""
    bench = Bench()
    sender = bench.sender("amq.topic; {delete: always}")
    sender.send("asdf")
    with pytest.raises(SessionError, match="not-allowed") as raised:
        sender.close()
    assert raised.value.code == 530
    bench.connection._remove_session(bench.session)


def test_declare_refused_by_the_broker() -> None:
    """EX-03, CF-03: the refusal is the session's end, with code and text."""
    for address, code, text in (
        ("amq.mine; {create: always, node: {type: topic}}", 530, "not-allowed: Exchange names beginning"),
        (
            "x; {create: always, node: {type: topic, x-declare: {type: round}}}",
            404,
            "not-found: Exchange type",
        ),
        (
            "q; {create: always, node: {x-declare: {arguments: {'qpid.max_count': -1}}}}",
            542,
            "invalid conversion",
        ),
        (
            "q; {create: always, node: {x-declare: {alternate-exchange: none}}}",
            404,
            "not-found: Exchange not",
        ),
    ):
        bench = Bench()
        with pytest.raises((SessionError, NotFound), match=text) as raised:
            bench.sender(address)
        assert raised.value.code == code
        late = bench.receiver("amq.topic")
        with pytest.raises((SessionError, NotFound), match=text):
            late.fetch(0)


# Subjects and keys


def test_subject_is_the_key_on_an_exchange() -> None:
    """CF-14: a message's own subject before the address's; both arrive as the message's subject."""
    bench = Bench()
    sender = bench.sender("amq.topic/a")
    for_a, for_b, for_all = (bench.receiver(source) for source in ("amq.topic/a", "amq.topic/b", "amq.topic"))
    sender.send("one")
    sender.send(Message("two", subject="b"))
    assert (texts(for_a), texts(for_b)) == ("one", "two")
    assert [(m.content, m.subject) for m in drain(for_all)] == [("one", "a"), ("two", "b")]


def test_subject_on_a_queue() -> None:
    """CF-14: the key is the queue's name; the subject is a property."""
    bench = Bench()
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
        ("amq.topic", "amq.topic/*.b", "a.b"),
        ("amq.direct", "amq.direct/a", "a"),
        ("amq.direct", "amq.direct", ""),
        ("amq.fanout", "amq.fanout", "a a.b c"),
        ("amq.fanout", "amq.fanout/a", "a a.b c"),
    ],
)
def test_what_a_subscription_gets(exchange: str, source: str, got: str) -> None:
    """EX-04 … EX-06, CF-14: without a subject a topic exchange gives all, a direct one only the empty key."""
    bench = Bench()
    receiver = bench.receiver(source)
    sender = bench.sender(exchange)
    for key in ("a", "a.b", "c"):
        sender.send(Message(key, subject=key))
    assert texts(receiver) == got


def test_simple_topic() -> None:
    """EX-06 (MessagingSessionTests testSimpleTopic): what is published while one subscribes."""
    bench = Bench()
    sender = bench.sender("t; {create: always, node: {type: topic}}")
    receivers, seen = [], []
    for number, text in enumerate(("one", "two", "three", "four", "five", "six")):
        if 0 < number < 4:
            receivers.append(bench.receiver("t"))
        sender.send(text)
        if number == 4:
            seen = [texts(receiver) for receiver in receivers]
    assert seen == ["two three four five", "three four five", "four five"]


def test_headers_exchange() -> None:
    """EX-07: qpid.subject in a binding is not looked at; a headers binding without arguments is refused."""
    bench = Bench()
    bindings = (
        "[{exchange: 'amq.match', key: k, arguments: {x-match: all, qpid.subject: abc, p: v}}]".replace(
            "qpid.subject", "'qpid.subject'"
        )
    )
    receiver = bench.receiver(f"amq.match; {{link: {{x-bindings: {bindings}}}}}")
    sender = bench.sender("amq.match")
    for subject, value in (("abc", "v"), ("xyz", "v"), ("abc", "w")):
        sender.send(Message(f"{subject}={value}", subject=subject, properties={"p": value}))
    assert texts(receiver) == "abc=v xyz=v"
    with pytest.raises(SessionError) as raised:
        bench.receiver("amq.match")
    assert raised.value.code == 541


def test_large_routing_key() -> None:
    """EX-03: more than 255 bytes do not fit; the call fails, nothing else."""
    bench = Bench()
    sender = bench.sender("amq.topic")
    with pytest.raises(EncodeError, match="routing key: got 300 bytes, at most 255 fit"):
        sender.send(Message("x", subject="k" * 300))
    sender.send("fine")


# Bindings and links


def test_node_bindings_of_a_queue() -> None:
    """CF-14."""
    bench = Bench()
    sender = bench.sender(
        "q; {create: always, delete: always, node: {x-bindings: [{exchange: 'amq.topic', key: 'a.#'},"
        " {exchange: 'amq.direct', key: b}, {exchange: 'amq.topic', key: 'c.*'}]}}"
    )
    sender.send("one")
    for target, text in (("amq.topic/a.foo", "two"), ("amq.direct/b", "three"), ("amq.topic/c.bar", "four")):
        bench.sender(target).send(text)
    assert texts(bench.receiver("q")) == "one two three four"
    assert bench.stat("q").bindingCount == 4


def test_node_bindings_of_an_existing_queue() -> None:
    """CF-14: they are made for a node that is there already, too."""
    bench = Bench()
    bench.sender("q; {create: always}")
    bench.sender("q; {node: {x-bindings: [{exchange: 'amq.fanout'}]}}")
    bench.sender("amq.fanout").send("x")
    assert texts(bench.receiver("q")) == "x"


def test_node_bindings_of_a_topic() -> None:
    """CF-14, EX-06."""
    bench = Bench()
    receivers = [bench.receiver(f"{name}; {{create: always}}") for name in ("q", "q-a", "q-b", "q-c")]
    sender = bench.sender(
        "t; {create: always, node: {type: topic, x-bindings: [{queue: q, key: '#'},"
        " {queue: q-a, key: 'a.#'}, {queue: q-b, key: b}, {queue: q-c, key: 'c.*'}]}}"
    )
    for subject, text in ((None, "one"), ("a.foo", "two"), ("b", "three"), ("c.bar", "four")):
        sender.send(Message(text, subject=subject))
    assert [texts(r) for r in receivers] == ["one two three four", "two", "three", "four"]


def test_link_bindings() -> None:
    """CF-14: made by a sender for a queue, and by a receiver of a queue."""
    bench = Bench()
    bench.sender("q; {create: always, delete: always}")
    plain = bench.sender("amq.topic")
    for subject in "ab":
        plain.send(Message(subject, subject=subject))
    receiver = bench.receiver("q")
    assert is_empty(receiver)
    sender = bench.sender("amq.topic; {link: {x-bindings: [{queue: q, key: a}]}}")
    for subject in "ab":
        sender.send(Message(subject, subject=subject))
    assert texts(receiver) == "a"
    other = bench.receiver("q; {link: {x-bindings: [{exchange: 'amq.topic', key: b}]}}")
    for subject in "ab":
        sender.send(Message(subject, subject=subject))
    assert texts(other) == "a b"


def test_link_binding_ends_with_its_session() -> None:
    """EX-11: x-scope session."""
    bench = Bench()
    bench.sender("q; {create: always}")
    session = bench.new_session()
    session.receiver("q; {link: {x-bindings: [{exchange: 'amq.fanout', arguments: {x-scope: session}}]}}")
    assert bench.stat("q").bindingCount == 2
    session.close()
    assert bench.stat("q").bindingCount == 1


def test_link_name() -> None:
    """CF-14: the subscription's queue can be named, and read under that name in the same session."""
    bench = Bench()
    bench.receiver("amq.topic; {link: {name: test-link-name}}")
    named = bench.receiver("test-link-name")
    bench.sender("amq.topic").send("x")
    assert texts(named) == "x"


def test_exclusive_subscription_queue() -> None:
    """CN-23: a subscription's queue belongs to its session; with exclusive False others may share it."""
    bench = Bench()
    bench.receiver("amq.topic; {link: {name: mine}}")
    with pytest.raises(ReceiverError, match="resource-locked"):
        bench.consumer("amq.topic; {link: {name: mine}}")
    shared = "amq.fanout; {link: {name: ours, x-declare: {exclusive: False}}}"
    one, two = bench.consumer(shared), bench.consumer(shared)
    one.capacity = two.capacity = 10
    sender = bench.sender("amq.fanout")
    for number in range(6):
        sender.send(number and f"{number}" or "0")
    assert (texts(one), texts(two)) == ("0 2 4", "1 3 5")


def test_unsubscribe_on_close() -> None:
    """CF-14: the subscription's queue goes with the receiver."""
    bench = Bench()
    receiver = bench.receiver("amq.topic")
    assert bench.exists("queue", receiver.queue)
    receiver.close()
    assert not bench.exists("queue", receiver.queue)
    assert bench.object("exchange", "amq.topic").bindingCount == 0


def test_alternate_exchange_of_a_subscription() -> None:
    """QT-24: closing it re-routes what it had, in order."""
    bench = Bench()
    alternate = bench.receiver("amq.fanout")
    receiver = bench.receiver("amq.direct/k; {link: {x-declare: {alternate-exchange: 'amq.fanout'}}}")
    sender = bench.sender("amq.direct/k")
    for number in range(10):
        sender.send(f"{number}")
    receiver.close()
    assert texts(alternate) == "0 1 2 3 4 5 6 7 8 9"


def test_timeout_of_a_subscription_queue() -> None:
    """QT-08: the subscription's queue outlives its session by so many seconds."""
    bench = Bench()
    declare = "{exclusive: False, arguments: {'qpid.auto_delete_timeout': 10}}"
    source = f"amq.topic; {{link: {{name: late, x-declare: {declare}}}}}"
    bench.consumer(source).session.close()
    bench.sleep(9)
    assert bench.exists("queue", "late")
    bench.sleep(2)
    assert not bench.exists("queue", "late")


def test_selector() -> None:
    """QT-16."""
    bench = Bench()
    sender = bench.sender("q; {create: always}")
    for number in range(5):
        sender.send(Message(f"{number}", properties={"n": number}))
    subscribe = '{arguments: {x-apache-selector: "n > 2"}}'
    assert texts(bench.receiver(f"q; {{link: {{x-subscribe: {subscribe}}}}}")) == "3 4"


# Temporary names


def test_temporary_queue() -> None:
    """CF-14, RF-41: a # gets a UUID in front and stays; the queue goes with the session that made it."""
    bench = Bench()
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


def test_request_and_response() -> None:
    """MessagingSessionTests testSimpleRequestResponse: through a temporary queue and a topic."""
    bench = Bench()
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
        "type: queue",
        "type: queue, x-declare: {auto-delete: True}",
        "durable: True",
        "x-declare: {exclusive: True}",
        "x-declare: {alternate-exchange: 'amq.topic'}",
        "x-declare: {arguments: {'qpid.max_count': 8}}",
        "x-declare: {arguments: {'qpid.max-count': 7}}",
    ],
)
def test_assert_queue(node: str) -> None:
    """CF-15: qpid-python compares the type, and nothing of what the node was declared with."""
    bench = Bench()
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
        "type: topic",
        "type: topic, x-declare: {type: fanout}",
        "type: topic, durable: True",
        "type: topic, x-declare: {alternate-exchange: 'amq.topic'}",
        "type: topic, x-declare: {arguments: {'qpid.ive': 1}}",
    ],
)
def test_assert_exchange(node: str) -> None:
    """CF-15: nor is anything compared for an exchange; it routes and is declared as before."""
    bench = Bench()
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


def test_assert_of_the_wrong_kind() -> None:
    """CF-15."""
    bench = Bench()
    with pytest.raises((AssertionFailed, NotFound)):
        bench.sender("amq.topic; {assert: always, node: {type: queue}}")
    bench.sender("amq.topic; {assert: always}")


# One name, two nodes


def ambiguous(bench: Bench) -> None:
    bench.broker.management.create("exchange", "ambiguous", {"exchange-type": "fanout"})
    bench.broker.management.create("queue", "ambiguous")


def test_node_disambiguation() -> None:
    """CF-14: the type selects; without one it is the queue."""
    bench = Bench()
    ambiguous(bench)
    topic = bench.receiver("ambiguous; {node: {type: topic}}")
    queue = bench.receiver("ambiguous; {node: {type: queue}}")
    for node, text in (("; {node: {type: topic}}", "a"), ("; {node: {type: queue}}", "b"), ("", "c")):
        bench.sender(f"ambiguous{node}").send(text)
    assert (texts(topic), texts(queue)) == ("a", "b c")


@pytest.mark.parametrize("order", [("queue", "topic"), ("topic", "queue")])
def test_ambiguous_create(order: tuple[str, str]) -> None:
    """CF-14: creating one when the other is there makes the one that was asked for."""
    bench = Bench()
    receivers = {
        kind: bench.receiver(f"ambiguous; {{create: receiver, node: {{type: {kind}}}}}") for kind in order
    }
    for kind in ("topic", "queue"):
        bench.sender(f"ambiguous; {{node: {{type: {kind}}}}}").send(kind)
    assert {kind: texts(receiver) for kind, receiver in receivers.items()} == {
        "queue": "queue",
        "topic": "topic",
    }


@pytest.mark.parametrize(("kind", "left"), [("topic", "queue"), ("queue", "exchange")])
def test_ambiguous_delete(kind: str, left: str) -> None:
    """CF-14: only the one that was named by type goes."""
    bench = Bench()
    ambiguous(bench)
    bench.receiver(f"ambiguous; {{delete: receiver, node: {{type: {kind}}}}}").close()
    there = [what for what in ("queue", "exchange") if bench.exists(what, "ambiguous")]
    assert there == [left]


# Whole stories (MessagingSessionTests)


def test_browse_only() -> None:
    """QT-10: every receiver sees all of it."""
    bench = Bench()
    sender = bench.sender("q; {create: always, node: {x-declare: {arguments: {'qpid.browse-only': 1}}}}")
    for number in range(10):
        sender.send(f"{number}")
    assert [len(drain(bench.consumer("q"))) for _ in range(2)] == [10, 10]


def test_self_destruct_queue() -> None:
    """LP-15, LP-16: 20 sends succeed; the queue that destructs takes its receiver with it."""
    bench = Bench()
    arguments = "{'qpid.max_count': 10, 'qpid.policy_type': self-destruct, 'qpid.flow_stop_count': 0}"
    small = bench.consumer(f"amq.fanout; {{link: {{x-declare: {{arguments: {arguments}}}}}}}")
    large = bench.receiver("amq.fanout")
    sender = bench.new_session().sender("amq.fanout")
    for number in range(20):
        sender.send(f"{number}")
    with pytest.raises(SessionError):
        small.fetch(0)
    assert len(drain(large)) == 20


def test_rerouting_ring_queue() -> None:
    """LP-10: the ring has 11 … 20, the alternate exchange got 1 … 10."""
    bench = Bench()
    alternate = bench.receiver("amq.fanout")
    declare = (
        "{alternate-exchange: 'amq.fanout', arguments: {'qpid.max_count': 10, 'qpid.policy_type': ring}}"
    )
    sender = bench.sender(f"ring; {{create: always, node: {{x-declare: {declare}}}}}")
    for number in range(1, 21):
        sender.send(f"{number}")
    assert texts(bench.receiver("ring")) == " ".join(map(str, range(11, 21)))
    assert texts(alternate) == " ".join(map(str, range(1, 11)))


def test_priority_ring_eviction() -> None:
    """LP-11, LP-12: what was evicted while acquired is not there to be released."""
    bench = Bench()
    arguments = "{'qpid.priorities': 10, 'qpid.max_count': 5, 'qpid.policy_type': ring}"
    sender = bench.sender(f"ring; {{create: always, node: {{x-declare: {{arguments: {arguments}}}}}}}")
    for number in range(1, 6):
        sender.send(f"{number}")
    first = bench.consumer("ring")
    assert texts(first) == "1 2 3 4 5"
    for number in range(6, 11):
        sender.send(f"{number}")
    first.session.close()
    assert texts(bench.consumer("ring")) == "6 7 8 9 10"
    assert bench.stat("ring").releases == 0


def test_delete_queue_with_unacknowledged_messages() -> None:
    """QT-24, CN-15: prefetched ones too go to the alternate exchange, and have been delivered before."""
    bench = Bench()
    alternate = bench.receiver("amq.direct/q; {link: {name: alternate}}")
    sender = bench.sender(
        "q; {create: always, delete: sender, node: {x-declare: {alternate-exchange: 'amq.direct'}}}"
    )
    for number in range(10):
        sender.send(f"{number}")
    bench.consumer("q").capacity = 5
    sender.close()
    assert texts(alternate) == "0* 1* 2* 3* 4* 5 6 7 8 9"


def test_exclusive_queue_and_browser() -> None:
    """CN-23: others may browse an exclusive queue, not read it."""
    bench = Bench()
    bench.receiver("q; {create: always, node: {x-declare: {exclusive: True}}}")
    bench.sender("q").send("x")
    assert texts(bench.consumer("q; {mode: browse}")) == "x"
    with pytest.raises(ReceiverError):
        bench.consumer("q")


def test_release_resets_the_cursor() -> None:
    """CN-14, MG-11: a second reader past 2 … 10 gets 1 after the first has released it."""
    from qflow.messaging import RELEASED, Disposition

    bench = Bench()
    sender = bench.sender("q; {create: always}")
    for number in range(1, 11):
        sender.send(f"{number}")
    first, second = bench.consumer("q"), bench.consumer("q")
    message = first.fetch(0)
    assert texts(second) == " ".join(map(str, range(2, 11)))
    first.session.acknowledge(message, Disposition(RELEASED))
    assert second.fetch(0).content == "1"
    with pytest.raises(Empty):
        second.fetch(0)


def test_sequence_numbers() -> None:
    """QT-15, LP-10 (new_api.py): one acquired and five more in a ring of four: the next one has 3."""
    bench = Bench()
    arguments = "{'qpid.queue_msg_sequence': 'qpid.seq', 'qpid.policy_type': ring, 'qpid.max_count': 4}"
    sender = bench.sender(
        f"q; {{create: sender, node: {{x-declare: {{auto-delete: True, arguments: {arguments}}}}}}}"
    )
    receiver = bench.receiver("q")
    sender.send(Message())
    message = receiver.fetch(1)
    assert message.properties["qpid.seq"] == 1
    for _ in range(5):
        sender.send(message)
    assert receiver.fetch(1).properties["qpid.seq"] == 3
    receiver.close()


def test_no_local_subscription() -> None:
    """QT-17, QT-24 (new_api.py): what comes back to its own connection is dropped."""
    from qflow.messaging import Connection

    bench = Bench()
    elsewhere = Connection.establish(bench.url)
    mine = bench.sender(
        "q; {create: always, delete: always, node: {x-declare: {alternate-exchange: 'amq.fanout'}}}"
    )
    theirs = elsewhere.session().sender("q")
    for sender, text in ((theirs, "a"), (mine, "b"), (theirs, "c")):
        sender.send(text)
    receiver = bench.receiver("amq.fanout; {link: {x-declare: {arguments: {'no-local': True}}}}")
    elsewhere.close()
    mine.close()
    assert texts(receiver) == "a c"


def test_queue_limit_through_the_exchange() -> None:
    """LP-08: a full subscription queue refuses the sender."""
    bench = Bench()
    arguments = "{'qpid.max_count': 1, 'qpid.flow_stop_count': 0}"
    bench.consumer(f"amq.fanout; {{link: {{x-declare: {{arguments: {arguments}}}}}}}")
    sender = bench.sender("amq.fanout")
    sender.send("one")
    with pytest.raises(TargetCapacityExceeded):
        sender.send("two")


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_a_name_that_amqp_cannot_carry_leaves_no_link_behind(role: str) -> None:
    """EX-03: a name has 255 bytes at most."""
    bench = Bench()
    with pytest.raises(ValueError, match="at most 255 bytes; got 300"):
        getattr(bench.session, role)("x" * 300 + "; {create: always}")
    assert bench.session.links() == []
    bench.session.connection.detach()
    bench.session.connection.attach()


@pytest.mark.parametrize("role", ["sender", "receiver"])
def test_a_name_that_amqp_cannot_carry_is_an_error_of_its_link_alone(role: str) -> None:
    """EX-03: made while the connection was closed; attaching links all others."""
    bench = Bench()
    bench.session.connection.detach()
    link, other = getattr(bench.session, role)("x" * 300), bench.session.sender("q; {create: always}")
    bench.session.connection.attach()
    with pytest.raises(MalformedAddress, match="at most 255 bytes; got 300"):
        link.check_error()
    other.send("to do")
    assert bench.stat("q").msgDepth == 1
