"""Exchanges, bindings, alternates, queries and what is counted (EX, RF-18).

Beside the recordings ``ex-`` and ``de-``, which tests/conformance plays step by step.
"""

import pytest
from support import Bench, refused, rows_of

from qflow.broker import Broker, Message
from qflow.broker.registry import ExchangeBoundResult

# Names and errors

PREDECLARED = {
    "": "direct",
    "amq.direct": "direct",
    "amq.topic": "topic",
    "amq.fanout": "fanout",
    "amq.match": "headers",
    "qpid.management": "topic",
    "qmf.default.topic": "topic",
    "qmf.default.direct": "direct",
}


@pytest.mark.parametrize(("name", "kind"), PREDECLARED.items(), ids=[f"EX-01 {n!r}" for n in PREDECLARED])
def test_the_predeclared_exchanges_have_their_types(name, kind):
    """EX-01: management.py test_standard_exchanges."""
    assert bench_with_queues().exchange_statistics(name).type == kind


def bench_with_queues(*names: str) -> Bench:
    bench = Bench()
    for name in names:
        bench.declare(name)
    return bench


def declare_twice(first: dict, second: dict):
    def act(bench: Bench) -> None:
        bench.exchange("other", "fanout")
        bench.exchange("x", **first)
        bench.exchange("x", **second)

    return act


def delete_somebodys_alternate(bench: Bench) -> None:
    bench.exchange("alt", "fanout")
    bench.exchange("x", "direct", alternate="alt")
    bench.ctl.exchange_delete("alt")


def delete_a_queues_alternate(bench: Bench) -> None:
    bench.exchange("alt", "fanout")
    bench.declare("with alternate", alternate="alt")
    bench.ctl.exchange_delete("alt")


def bind_headers(*bindings: object):
    def act(bench: Bench) -> None:
        for arguments in bindings:
            bench.bind("q", "amq.match", "k", arguments)

    return act


X_MATCH = "Invalid or missing x-match value binding to headers exchange."
ERRORS = {
    (404, "Exchange not found: x"): {
        "transfer": lambda b: b.send("k", exchange="x"),
        "delete": lambda b: b.ctl.exchange_delete("x"),
        "passive": lambda b: b.ctl.exchange_declare("x", passive=True),
        "bind, the exchange comes first": lambda b: b.bind("no", "x"),
        "unbind, the exchange comes first": lambda b: b.ctl.exchange_unbind("no", "x"),
    },
    (404, "Unbind failed. No such queue: no"): {
        "unbind, no queue": lambda b: b.ctl.exchange_unbind("no", "amq.direct"),
    },
    (404, ""): {
        "testTypeNotKnown": lambda b: b.exchange("x", "star"),
    },
    (530, ""): {
        "amq.": lambda b: b.exchange("amq.", "direct"),
        "amq.abc123": lambda b: b.exchange("amq.abc123", "fanout"),
        "qpid.": lambda b: b.exchange("qpid.", "topic"),
        "testDifferentDeclaredType": declare_twice({"kind": "direct"}, {"kind": "topic"}),
        "reserved, other type": lambda b: b.exchange("amq.direct", "topic"),
    },
    (530, "Exchange declared with alternate-exchange amq.direct, requested other"): {
        "another alternate": declare_twice(
            {"kind": "fanout", "alternate": "amq.direct"}, {"kind": "fanout", "alternate": "other"}
        ),
    },
    (530, "Exchange declared with alternate-exchange <none>, requested other"): {
        "a new alternate": declare_twice({"kind": "fanout"}, {"kind": "fanout", "alternate": "other"}),
    },
    (530, "Cannot delete alt, in use as alternate-exchange."): {
        "alternate of an exchange": delete_somebodys_alternate,
        "alternate of a queue": delete_a_queues_alternate,
    },
    (530, "Cannot delete default exchange: 'amq.fanout'"): {
        "delete amq.fanout": lambda b: b.ctl.exchange_delete("amq.fanout"),
    },
    (530, "Cannot delete default exchange: 'qpid.management'"): {
        "EX-01 delete qpid.management": lambda b: b.ctl.exchange_delete("qpid.management"),
    },
    (530, "Exchange declared to be of type direct, requested topic"): {
        "passive, another type": lambda b: b.ctl.exchange_declare("amq.direct", "topic", passive=True),
    },
    (530, "Exchange declared with alternate-exchange <none>, requested amq.topic"): {
        "passive, an alternate": lambda b: b.ctl.exchange_declare(
            "amq.direct", alternate_exchange="amq.topic", passive=True
        ),
    },
    (404, "Exchange not found: nosuch"): {
        "no such alternate": lambda b: b.exchange("x", "fanout", alternate="nosuch"),
        "a queue's alternate": lambda b: b.declare("new", alternate="nosuch"),
        "the alternate comes before the name": lambda b: b.exchange("amq.x", "direct", alternate="nosuch"),
    },
    (541, X_MATCH): {
        "no x-match": bind_headers({"a": "1"}),
        "an empty x-match": bind_headers({"x-match": ""}),
        "some": bind_headers({"x-match": "some"}),
    },
    (541, "Invalid x-match binding format"): {
        "an integer x-match": bind_headers({"x-match": 1}),
        "a void x-match": bind_headers({"x-match": None}),
    },
    (530, "Exchange names beginning with"): {
        "reserved, though it is there": lambda b: b.exchange("amq.direct", "direct"),
    },
    (541, ""): {
        "the same key with other arguments": bind_headers(
            {"x-match": "all", "a": 1}, {"x-match": "all", "a": 2}
        ),
    },
    (542, ""): {
        "testDefaultAccessBind": lambda b: b.bind("q", "", "k"),
        "testDefaultAccessUnbind": lambda b: b.ctl.exchange_unbind("q", "", "q"),
        "testDefaultAccessDelete": lambda b: b.ctl.exchange_delete(""),
    },
}


@pytest.mark.parametrize(("code", "text", "act"), rows_of(ERRORS))
def test_a_wrong_exchange_command_is_refused(code, text, act):
    """EX-02, EX-03: codes and words; the queue and its binding are as before."""
    bench = bench_with_queues("q")
    with refused(code, text):
        act(bench)
    bench.send("q", by="after")
    assert bench.labels("q") == "after-1"


@pytest.mark.parametrize("name", ["amq", "mq.", ".amq.", "abc.amq.", "qpid"])
@pytest.mark.parametrize("kind", ["direct", "fanout", "topic"])
def test_names_that_are_fine(name, kind):
    """EX-03: DeclareMethodExchangeFieldReserved."""
    bench = Bench()
    bench.exchange(name, kind)
    assert bench.exchange_statistics(name).type == kind


def test_an_exchange_may_be_declared_again_with_its_type():
    """EX-03: the same type is fine, omitting type or alternate too; for a reserved one, if passive."""
    bench = Bench()
    bench.exchange("x", "fanout", alternate="amq.direct")
    bench.exchange("x", "fanout")
    bench.exchange("x", "fanout", alternate="amq.direct")
    bench.ctl.exchange_declare("x", "")
    bench.ctl.exchange_declare("amq.direct", "direct", passive=True)
    bench.ctl.exchange_declare("x", passive=True)
    bench.ctl.exchange_delete("x")
    with refused(404):
        bench.ctl.exchange_declare("x", passive=True)
    bench.exchange("x", "topic")
    assert bench.exchange_statistics("x").type == "topic"


def test_an_alternate_nobody_uses_any_more():
    """EX-03: it may be deleted when its users are gone."""
    bench = Bench()
    bench.exchange("alt", "fanout")
    bench.exchange("x", "direct", alternate="alt")
    bench.declare("q", alternate="alt")
    bench.ctl.exchange_delete("x")
    with refused(530):
        bench.ctl.exchange_delete("alt")
    bench.ctl.queue_delete("q")
    bench.ctl.exchange_delete("alt")
    assert not bench.has_exchange("alt")
    with refused(404):
        bench.ctl.exchange_declare("alt", passive=True)


# Routing


def test_the_default_exchange_binds_each_queue_by_its_name():
    """EX-02: every queue is bound by its name on creation; management.py test_binding_count_on_queue."""
    bench = bench_with_queues("q")
    assert bench.stat("q").bindingCount == 1
    for number in range(7):
        bench.bind("q", "amq.direct", f"key{number}")
    assert bench.stat("q").bindingCount == 8
    for number in range(3):
        bench.ctl.exchange_unbind("q", "amq.direct", f"key{number}")
    assert bench.stat("q").bindingCount == 5
    for number in range(3, 7):
        bench.ctl.exchange_unbind("q", "amq.direct", f"key{number}")
    assert bench.stat("q").bindingCount == 1
    bench.send("q")
    bench.send("Q")
    assert bench.stat("q").msgDepth == 1


def test_copies_in_binding_order():
    """EX-04, EX-05, LP-08: queues get their copies in the order in which they were bound."""
    bench = bench_with_queues("z", "m", "a")
    for queue in ("m", "z", "a"):
        bench.bind(queue, "amq.fanout")
    bench.send("", exchange="amq.fanout")
    assert [event.queue for event in bench.seen("enqueued")] == ["m", "z", "a"]


@pytest.mark.parametrize(
    ("patterns", "key", "expected"),
    [
        pytest.param("a.b a.* a.# #", "a.b", "# a.# a.* a.b", id="EX-06 hash, star, word"),
        pytest.param("#.b *.b a.*", "a.b", "#.b *.b a.*", id="EX-06 the first word decides"),
        pytest.param("# #.c #.b.c", "a.b.c", "#.b.c #.c #", id="EX-06 what follows a hash comes before it"),
        pytest.param("a.# a", "a", "a a.#", id="EX-06 a pattern that is used up comes first"),
    ],
)
def test_copies_in_the_order_of_the_tree(patterns, key, expected):
    """EX-06, LP-08: a topic exchange finds queues in its tree; so the first refusal is that one's."""
    bench = bench_with_queues(*patterns.split())
    for pattern in patterns.split():
        bench.bind(pattern, "amq.topic", pattern)
    bench.send(key, exchange="amq.topic")
    assert [event.queue for event in bench.seen("enqueued")] == expected.split()


def test_the_same_headers_under_another_key():
    """EX-07, EX-12: the same binding, whatever the key; new qpid. arguments do not tell two apart."""
    bench = bench_with_queues("a", "b")
    for key, arguments in (
        ("1", {"x-match": "all", "n": 1}),
        ("2", {"n": 1, "x-match": "all"}),
        ("3", {"x-match": "all", "n": 1, "qpid.subject": "s"}),
    ):
        bench.bind("a", "amq.match", key, arguments)
    bench.bind("b", "amq.match", "1", {"x-match": "all", "n": 1})
    bench.bind("a", "amq.match", "4", {"x-match": "all", "n": "1"})
    assert [bench.stat(queue).bindingCount for queue in "ab"] == [3, 2]
    bench.ctl.exchange_unbind("a", "amq.match", "2")
    assert bench.stat("a").bindingCount == 3
    bench.ctl.exchange_unbind("a", "amq.match", "1")
    assert bench.stat("a").bindingCount == 2


def test_exclusive_binding_of_a_bound_queue():
    """EX-04: the queue's own binding is no reason to leave the others; its presence counts, not its value."""
    bench = bench_with_queues("a", "b")
    for queue in "ab":
        bench.bind(queue, "amq.direct", "k")
    bench.bind("a", "amq.direct", "k", {"qpid.exclusive-binding": 0})
    bench.send("k", exchange="amq.direct")
    assert [bench.labels(queue) for queue in "ab"] == ["p-1", ""]
    assert [bench.stat(queue).bindingCount for queue in "ab"] == [2, 1]


TOPICS = [
    ("ab.cd.e", "ab.cd.e", "abx.cd.e ab.cd ab.cd.e. ab..cd.e .ab.cd.e"),
    ("", "<>", ". a"),
    (".", ".", "<> a. .a"),
    ("a.*.b", "a.xx.b a..b", "a.b a.x.y.b"),
    ("*.x", "y.x .x", "x x. y.x.x"),
    ("x.x.*", "x.x.y x.x.", "x.x x.x.y.z"),
    ("a.#.b", "a.b a.x.b a..x.y.zz.b", "a.b. q.x.b"),
    ("a.#", "a a.b a.b.c a.", "b.a ab"),
    ("#.a", "a b.a x.y.a .a", "a. ab"),
    ("a.#.b.#.c", "a.b.c a.x.b.y.c a.b.b.c", "a.c a.b a.c.b"),
    ("*.x.#.y", "a.x.y a.x.p.q.y", "x.y a.b.x.y a.x.y.z"),
    ("*.*.*.#", "a.b.c a.b.c.d .. a..c", "a.b a"),
    ("#", "<> a a.b . ..", ""),
    ("a.#.b.*", "a.b.x a.x.b.x a.x.x.b.x", "a.b a.b.x.y x.a.b.x q"),
]


@pytest.mark.parametrize(("pattern", "matching", "others"), TOPICS)
def test_topic_patterns_match_words(pattern, matching, others):
    """EX-06: TopicExchangeTest.cpp; <> stands for the empty key, which is one empty word."""
    bench = bench_with_queues("q")
    bench.bind("q", "amq.topic", pattern)
    for text in f"{matching} {others}".split():
        bench.send(text.strip("<>"), exchange="amq.topic", label=text)
    assert bench.labels("q").split() == matching.split()


NORMAL = [
    ("", ""),
    ("a.b.c", "a.b.c"),
    ("a.*.c", "a.*.c"),
    ("#", "#"),
    ("#.#.#.#", "#"),
    ("#.*.#.*.#.#.*", "*.*.*.#"),
    ("a.*.#.*.#.*.#", "a.*.*.*.#"),
    ("a.*.#.*.#.*", "a.*.*.*.#"),
    ("*.#.#.*.*.#", "*.*.*.#"),
]


@pytest.mark.parametrize(("pattern", "normal"), NORMAL, ids=[f"EX-06 {row[0]}" for row in NORMAL])
def test_topic_normal_form(pattern, normal):
    """EX-06: TopicExchangeTest testNormalize; both forms are the same binding, to bind and to unbind."""
    bench = bench_with_queues("q")
    bench.bind("q", "amq.topic", pattern)
    bench.bind("q", "amq.topic", normal)
    (binding,) = bench.broker.exchanges.get("amq.topic").binding_statistics()
    assert (binding.key, bench.stat("q").bindingCount) == (normal, 2)
    bench.ctl.exchange_unbind("q", "amq.topic", normal)
    assert bench.stat("q").bindingCount == 1


ALL = {"x-match": "all"}
ANY = {"x-match": "any"}
FRED = {**ALL, "name": "fred", "age": 3}
ANY_FRED = {**FRED, **ANY}
HEADERS = [
    # All of them, whatever else there is; any of them.
    (FRED, {"name": "fred", "age": 3, "x": 1}, True), (FRED, {"name": "fred"}, False),
    (FRED, {"name": "fred", "age": 4}, False), (ANY_FRED, {"age": 3}, True), (ANY_FRED, {"age": 4}, False),
    # Of none: all match, even a message without headers, and any matches nothing.
    (ALL, {}, True), (ALL, None, True), (ANY, {"a": 1}, False),
    # A void asks for presence.
    ({**ALL, "a": None}, {"a": "whatever"}, True), ({**ALL, "a": None}, {"b": 1}, False),
    # Integers and booleans compare as integers; what is no integer counts as 0, but for a text (RF-28).
    ({**ALL, "a": 1}, {"a": True}, True), ({**ALL, "a": 1}, {"a": "1"}, False),
    ({**ALL, "a": "text"}, {"a": 0}, True), ({**ALL, "a": 2.0}, {"a": 0}, True),
    ({**ALL, "a": 2.0}, {"a": 2}, False), ({**ALL, "a": 2}, {"a": 2.0}, False),
    ({**ALL, "a": 0}, {"a": False}, True), ({**ALL, "a": "x"}, {"a": ""}, False),
    ({**ALL, "a": "x"}, {"a": None}, False),
    # A header x-match is one like others (RF-29).
    ({**ALL, "a": "1"}, {"a": "1", "x-match": "any"}, True), ({**ALL, "a": "1"}, {"x-match": "all"}, True),
    # Strings are byte-equal, doubles equal, maps and lists never.
    ({**ALL, "a": "Fred"}, {"a": "fred"}, False), ({**ALL, "a": 1.0}, {"a": 1.0}, True),
    ({**ALL, "a": {"b": 1}}, {"a": {"b": 1}}, False), ({**ALL, "a": [1]}, {"a": [1]}, False),
    # Keys with qpid. are ignored.
    ({**ALL, "qpid.subject": "abc", "p": "v"}, {"p": "v"}, True),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "headers", "matches"), HEADERS)
def test_headers_bindings_match_conditions(arguments, headers, matches):
    """EX-07, RF-28, RF-29: HeadersExchangeTest.cpp and exchange.py."""
    bench = bench_with_queues("q")
    bench.bind("q", "amq.match", "k", arguments)
    bench.send("", exchange="amq.match", headers=headers, size=200)
    assert bench.stat("q").msgDepth == int(matches)


# Binding and unbinding


@pytest.mark.parametrize(
    ("exchange", "arguments", "headers"),
    [
        pytest.param("amq.direct", None, None, id="EX-04 direct"),
        pytest.param("amq.topic", None, None, id="EX-06 topic"),
        pytest.param("amq.fanout", None, None, id="EX-05 fanout"),
        pytest.param("amq.match", {"x-match": "all", "a": "b"}, {"a": "b"}, id="EX-07 headers"),
    ],
)
def test_an_unbind_ends_the_routing(exchange, arguments, headers):
    """EX-04 … EX-07, EX-12: queue.py test_unbind_*; twice the same is a no-op."""
    bench = bench_with_queues("queue-1", "queue-2")
    for queue in ("queue-1", "queue-2", "queue-1"):
        bench.bind(queue, exchange, "key", arguments)
    assert bench.stat("queue-1").bindingCount == 2
    bench.send("key", exchange=exchange, headers=headers, label="one")
    for _ in range(2):
        bench.ctl.exchange_unbind("queue-1", exchange, "key")
    bench.send("key", exchange=exchange, headers=headers, label="two")
    assert (bench.labels("queue-1"), bench.labels("queue-2")) == ("one", "one two")


@pytest.mark.parametrize(
    ("operation", "count"),
    [("U", 1), ("B", 2), ("", 2), (5, 2), ("Z", 2), ("R", 2)],
    ids=lambda value: f"RF-31 {value!r}",
)
def test_fed_op_of_a_queue_that_is_bound(operation, count):
    """RF-31: U unbinds; nothing else does."""
    bench = bench_with_queues("q")
    bench.bind("q", "amq.fanout", "k")
    bench.bind("q", "amq.fanout", "k", {"qpid.fed.op": operation})
    assert bench.stat("q").bindingCount == count


@pytest.mark.parametrize(("operation", "count"), [("U", 1), ("B", 2), ("", 2), (5, 2), ("Z", 1), ("R", 1)])
def test_fed_op_of_a_queue_that_is_not_bound(operation, count):
    """RF-31: B, an empty text and what is no text bind."""
    bench = bench_with_queues("q")
    bench.bind("q", "amq.match", "k", {"x-match": "all", "qpid.fed.op": operation})
    assert bench.stat("q").bindingCount == count


def test_auto_delete_waits_for_its_users():
    """EX-11: not while it is somebody's alternate."""
    bench = bench_with_queues("a")
    bench.exchange("x", "fanout", auto_delete=True)
    bench.declare("user", alternate="x")
    bench.bind("a", "x")
    bench.ctl.exchange_unbind("a", "x")
    assert bench.has_exchange("x")
    bench.bind("a", "x")
    bench.send("user", label="left behind")
    bench.ctl.queue_delete("user")
    assert bench.labels("a") == "left behind"
    bench.ctl.exchange_unbind("a", "x")
    assert not bench.has_exchange("x")


@pytest.mark.parametrize("what", ["a session closes", "a queue is deleted"])
def test_auto_delete_needs_a_last_binding(what):
    """EX-11: an exchange which never had one stays, whatever else ends."""
    bench = bench_with_queues("other")
    bench.exchange("x", "fanout", auto_delete=True)
    if what == "a session closes":
        bench.session("other").close()
    else:
        bench.ctl.queue_delete("other")
    assert bench.has_exchange("x")


@pytest.mark.parametrize("scope", [{"x-scope": "session"}, {"qpid.fed.op": "B"}, {"qpid.fed.op": ""}])
@pytest.mark.parametrize("is_first", [True, False])
def test_session_scope_belongs_to_the_key(scope, is_first):
    """RF-30: the binding goes with the session that asked, though another one made it, before or after."""
    bench = bench_with_queues("q")
    asking = bench.session("asking")
    if not is_first:
        bench.bind("q", "amq.direct", "k")
    asking.exchange_bind("q", "amq.direct", "k", scope)
    if is_first:
        bench.ctl.exchange_unbind("q", "amq.direct", "k")
        bench.bind("q", "amq.direct", "k")
    bench.bind("q", "amq.direct", "other")
    asking.close()
    assert bench.stat("q").bindingCount == 2


@pytest.mark.parametrize("way", ["unbind", "fed.op", "queue gone", "foreign queue"])
def test_session_scope_that_is_not_there_any_more(way):
    """RF-30: the session has unbound itself, or may not unbind what there is now."""
    bench = bench_with_queues("q")
    asking = bench.session("asking")
    asking.exchange_bind("q", "amq.direct", "k", {"x-scope": "session"})
    if way == "unbind":
        asking.exchange_unbind("q", "amq.direct", "k")
    elif way == "fed.op":
        asking.exchange_bind("q", "amq.direct", "k", {"qpid.fed.op": "U"})
    else:
        bench.ctl.queue_delete("q")
        bench.declare("q", by="owner", exclusive=way == "foreign queue")
    owner = bench.session("owner") if way == "foreign queue" else bench.ctl
    owner.exchange_bind("q", "amq.direct", "k")
    asking.close()
    assert bench.stat("q").bindingCount == (1 if way == "queue gone" else 2)


# Unroutable, alternates, statistics


def test_an_unroutable_message_is_dropped_and_counted():
    """EX-08, EX-14, IN-04, IN-07: dropped silently, and counted; nothing asks for consumers."""
    bench = bench_with_queues("q")
    assert bench.send("q")[0].is_complete
    assert bench.send("nowhere", exchange="amq.direct")[0].is_complete
    assert bench.stat("q").msgDepth == 1
    exchange = bench.exchange_statistics("amq.direct")
    assert (exchange.msgReceives, exchange.msgDrops, exchange.msgRoutes) == (1, 1, 0)
    assert bench.broker.statistics().discardsNoRoute == 1


def test_delivered_means_that_a_binding_matched():
    """EX-08, LP-12: even if the queue then drops the message, the alternate is not asked."""
    bench = Bench()
    bench.exchange("x", "fanout", alternate="amq.fanout")
    bench.declare("ring", policy_type="ring", max_count=1, priorities=10)
    bench.declare("other")
    bench.bind("ring", "x")
    bench.bind("other", "amq.fanout")
    bench.send("", exchange="x", priority=9)
    bench.send("", exchange="x", priority=1)
    assert (bench.labels("ring"), bench.labels("other")) == ("p-1", "")
    assert bench.broker.statistics().discardsNoRoute == 0


def test_exchange_statistics_count_received_routed_and_dropped():
    """EX-08, DQ-08: stats.py test_exchange_stats, number for number."""
    bench = bench_with_queues("q")
    bench.exchange("stats-test-exchange", "topic")
    bench.bind("q", "stats-test-exchange", "a")
    for body, key in ((10, "a"), (20, "b"), (30, "a"), (40, "b")):
        headers = {"qpid.subject": key}
        bench.send(key, size=body + 63, exchange="stats-test-exchange", headers=headers)
    exchange = bench.exchange_statistics("stats-test-exchange")
    assert (exchange.msgReceives, exchange.msgDrops, exchange.msgRoutes) == (4, 2, 2)
    assert exchange.byteReceives == 100 + 4 * 63
    assert (exchange.byteDrops, exchange.byteRoutes) == (60 + 2 * 63, 40 + 2 * 63)
    assert exchange.bindingCount == 1


def test_routes_count_copies():
    """EX-08, CF-10: and a binding counts what it matched."""
    bench = bench_with_queues("a", "b")
    for queue in "ab":
        bench.bind(queue, "amq.fanout")
    bench.send("", 3, exchange="amq.fanout")
    exchange = bench.exchange_statistics("amq.fanout")
    assert (exchange.msgReceives, exchange.msgRoutes, exchange.byteRoutes) == (3, 6, 600)
    bindings = bench.broker.exchanges.get("amq.fanout").binding_statistics()
    assert [(binding.queue, binding.msgMatched) for binding in bindings] == [("a", 3), ("b", 3)]


def test_statistics_of_bindings_in_odd_cases():
    """RF-39: fanout bindings have no key; an exchange keeps counting what an exclusive binding replaced."""
    bench = bench_with_queues("a", "b")
    bench.bind("a", "amq.fanout", "k")
    (binding,) = bench.broker.exchanges.get("amq.fanout").binding_statistics()
    assert binding.key == ""
    for queue in "ab":
        bench.bind(queue, "amq.direct", "k", {"qpid.exclusive-binding": 1})
    assert bench.exchange_statistics("amq.direct").bindingCount == 2
    assert [bench.stat(queue).bindingCount for queue in "ab"] == [2, 2]


WAYS = ["reject", "ring", "reroute", "delete"]


def orphan(bench: Bench, way: str) -> None:
    """Make the only message of queue q leave for the alternate exchange."""
    if way == "reject":
        bench.read("q").reject()
    elif way == "ring":
        bench.send("q", label="new")
    elif way == "reroute":
        bench.broker.management.reroute("q", useAltExchange=True)
    else:
        bench.ctl.queue_delete("q")


@pytest.mark.parametrize("routed", ["first", "second", "nowhere"])
@pytest.mark.parametrize("way", WAYS)
def test_chain_of_alternates(way, routed):
    """EX-09: the queue's alternate, then that exchange's own (test_queue_delete_no_match and others)."""
    bench = bench_with_queues("one", "two")
    bench.exchange("second", "fanout")
    bench.exchange("first", "direct", alternate="second")
    bench.declare("q", policy_type="ring", max_count=1, alternate="first")
    if routed == "first":
        bench.bind("one", "first", "q")
    if routed != "nowhere":
        bench.bind("two", "second")
    bench.send("q", label="old")
    orphan(bench, way)
    expected = {"first": ("old", ""), "second": ("", "old"), "nowhere": ("", "")}
    assert (bench.labels("one"), bench.labels("two")) == expected[routed]


@pytest.mark.parametrize("way", WAYS)
def test_what_a_transaction_published_leaves_the_same_way(way):
    """EX-09, CM-10: once committed it is a message like any other."""
    bench = bench_with_queues("other")
    bench.declare("q", policy_type="ring", max_count=1, alternate="amq.fanout")
    bench.bind("other", "amq.fanout")
    bench.session("t").tx_select()
    bench.send("q", by="t", label="old")
    bench.session("t").tx_commit()
    orphan(bench, way)
    assert bench.labels("other") == "old"


def test_a_reject_resets_the_delivery_count():
    """EX-09, CN-16: what was redelivered before is not any more."""
    bench = bench_with_queues("other")
    bench.declare("q", alternate="amq.fanout")
    bench.bind("other", "amq.fanout")
    bench.send("q")
    bench.read("q", "once").session.close()
    orphan(bench, "reject")
    assert bench.read("other", "d").got == "p-1"


def test_queues_that_are_gone():
    """EX-12, LP-18: ExchangeTest: routing after a bound queue was deleted reaches nothing, and is safe."""
    bench = bench_with_queues("q")
    for exchange in ("amq.direct", "amq.topic", "amq.fanout"):
        bench.bind("q", exchange, "k")
    bench.ctl.queue_delete("q")
    for exchange in ("amq.direct", "amq.topic", "amq.fanout"):
        (transfer,) = bench.send("k", exchange=exchange)
        assert transfer.is_complete
        assert bench.exchange_statistics(exchange).bindingCount == 0


# What a deleted exchange leaves behind


class TestBindingsOfADeletedExchange:
    def bench(self) -> Bench:
        bench = bench_with_queues("q")
        bench.exchange("x", "fanout")
        bench.bind("q", "x")
        return bench

    def test_bindings_go_at_once_without_a_last_sender(self):
        """RF-18: nobody's last transfer went to it: its bindings go with it."""
        bench = self.bench()
        bench.ctl.exchange_delete("x")
        assert bench.stat("q").bindingCount == 1

    @pytest.mark.parametrize("how", ["another exchange", "close", "404"])
    def test_until_the_last_sender_turns_away(self, how):
        """RF-18: a session whose last transfer went there keeps it counted."""
        bench = self.bench()
        bench.send("", exchange="x")
        bench.ctl.exchange_delete("x")
        assert bench.stat("q").bindingCount == 2
        if how == "another exchange":
            bench.send("q")
        elif how == "close":
            bench.session("p").close()
        else:
            with refused(404):
                bench.send("", exchange="x")
        assert bench.stat("q").bindingCount == 1

    def test_bindings_last_until_each_of_two_senders_turns_away(self):
        """RF-18: each of them."""
        bench = self.bench()
        for by in ("p", "r"):
            bench.send("", by=by, exchange="x")
        bench.ctl.exchange_delete("x")
        bench.session("p").close()
        assert bench.stat("q").bindingCount == 2
        bench.session("r").close()
        assert bench.stat("q").bindingCount == 1

    def test_names_are_free_at_once(self):
        """RF-18: routing and naming stop; a new exchange of the name starts without bindings."""
        bench = self.bench()
        bench.send("", exchange="x")
        bench.ctl.exchange_delete("x")
        bench.exchange("x", "fanout")
        bench.send("", exchange="x", by="other")
        assert (bench.stat("q").msgDepth, bench.stat("q").bindingCount) == (1, 2)

    def test_an_exchange_keeps_its_alternate(self):
        """RF-18: and through it the alternate's bindings."""
        bench = bench_with_queues("q")
        bench.exchange("alt", "fanout")
        bench.exchange("x", "direct", alternate="alt")
        bench.bind("q", "alt")
        bench.send("k", exchange="x")
        bench.ctl.exchange_delete("x")
        bench.ctl.exchange_delete("alt")
        assert bench.stat("q").bindingCount == 2
        bench.session("p").close()
        assert bench.stat("q").bindingCount == 1


# Exclusive bindings, sequences, initial values, queries


def depths(bench: Bench, *queues: str) -> tuple[int, ...]:
    return tuple(bench.stat(queue).msgDepth for queue in queues)


def test_ex_04_an_exclusive_binding_replaces_the_others_of_its_key():
    bench = bench_with_queues("a", "b")
    for queue in ("a", "b"):
        bench.bind(queue, "amq.direct", "k", {"qpid.exclusive-binding": True})
    bench.bind("a", "amq.direct", "other")
    bench.send("k", exchange="amq.direct")
    assert depths(bench, "a", "b") == (0, 1)
    assert bench.broker.queue("a").binding_count == 2


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_ex_11_sequence_numbers_count_per_exchange(kind):
    bench = bench_with_queues("a", "b")
    bench.ctl.exchange_declare("x", kind, arguments={"qpid.msg_sequence": 1})
    bench.bind("a", "x", "k", {"x-match": "all"})
    for _ in range(3):
        bench.send("k", exchange="x")
    assert [message.headers()["qpid.msg_sequence"] for message in bench.broker.queue("a").store] == [1, 2, 3]


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_ex_11_initial_value_goes_to_each_newly_bound_queue(kind):
    bench = bench_with_queues("a", "b")
    bench.ctl.exchange_declare("x", kind, arguments={"qpid.ive": 1})
    for _ in range(2):
        bench.send("k", exchange="x")
    bench.bind("a", "x", "k", {"x-match": "all"})
    bench.bind("a", "x", "k", {"x-match": "all"})
    assert [message.transfer.label for message in bench.broker.queue("a").store] == ["p-2"]
    bench.bind("b", "x", "k", {"x-match": "all"})
    # It is routed again, so that whoever is bound already gets it once more.
    assert depths(bench, "a", "b") == (2, 1)


@pytest.mark.parametrize("kind", ["direct", "topic"])
def test_ex_11_initial_value_has_to_match(kind):
    bench = bench_with_queues("a", "b")
    bench.ctl.exchange_declare("x", kind, arguments={"qpid.ive": 0, "qpid.msg_sequence": 0})
    bench.send("k", exchange="x")
    bench.bind("a", "x", "other")
    bench.bind("b", "x", "k")
    assert depths(bench, "a", "b") == (0, 1)
    assert bench.broker.queue("b").store.find(1).headers()["qpid.msg_sequence"] == 3


@pytest.mark.parametrize("kind", ["direct", "fanout", "topic", "headers"])
def test_ex_11_an_auto_delete_exchange_goes_with_its_last_binding(kind):
    bench = bench_with_queues("a", "b")
    bench.exchange("x", kind, auto_delete=True)
    bench.bind("a", "x", "k", {"x-match": "all"})
    bench.ctl.exchange_unbind("a", "x", "k")
    assert bench.ctl.exchange_query("x").not_found
    with refused(404):
        bench.ctl.exchange_declare("x", passive=True)


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
def test_ex_13_exchange_bound(exchange, question, answer):
    """EX-13, RF-33: the flags say what does not hold, key and arguments judged over the whole exchange."""
    bench = bench_with_queues("a", "b")
    bench.exchange("x", "headers")
    bench.bind("a", "amq.topic", "#.y")
    bench.bind("a", "amq.direct", "k")
    bench.bind("a", "amq.fanout")
    bench.bind("a", "amq.topic", "x.*")
    bench.bind("a", "amq.match", "h", {"x-match": "all", "p": "v"})
    assert bench.ctl.exchange_bound(exchange, **question) == answer


def test_dq_01_queue_query_counts_what_nobody_has():
    """DQ-01, EX-13: and an unknown queue gives an empty answer, no error."""
    bench = Bench()
    session = bench.ctl
    bench.declare("q", max_count=3, auto_delete=True, alternate="amq.fanout")
    bench.send("q")
    answer = session.queue_query("q")
    assert (answer.message_count, answer.alternate_exchange, answer.auto_delete) == (1, "amq.fanout", True)
    assert answer.arguments == {"qpid.max_count": 3}, "FC-12: never the computed defaults"
    assert session.queue_query("unknown").queue == ""
    assert session.is_attached


def test_a_bare_key_counts_as_bound_for_who_asks_without_a_queue():
    """RF-50: the real broker asks its map; a bind by the key makes it a key like any other."""
    session = Broker().session("s")
    session.queue_declare("q")
    session.exchange_declare("e", "direct", auto_delete=True)
    session.exchange_bind("q", "e", "k", {"qpid.fed.op": "U"})
    assert not session.exchange_bound("e", key="k").key_not_matched
    assert session.exchange_bound("e", key="other").key_not_matched
    assert session.exchange_bound("e", queue="q", key="k").queue_not_matched
    session.exchange_bind("q", "e", "k")
    session.exchange_unbind("q", "e", "k")
    assert session.exchange_query("e").not_found


@pytest.mark.parametrize(("kind", "is_bound"), [("direct", False), ("fanout", False), ("topic", True)])
def test_an_origin_outlives_its_binding(kind, is_bound):
    """RF-49: "U" after an unbind still withdraws it; not on a topic exchange, which looks for a binding."""
    session = Broker().session("s")
    session.queue_declare("q")
    session.queue_declare("keeps")
    session.exchange_declare("e", kind)
    session.exchange_bind("keeps", "e", "k")
    session.exchange_bind("q", "e", "k", {"qpid.fed.origin": "o"})
    session.exchange_unbind("q", "e", "k")
    session.exchange_bind("q", "e", "k", {"qpid.fed.op": "U", "qpid.fed.origin": "o"})
    session.exchange_bind("q", "e", "k")
    session.exchange_bind("q", "e", "k", {"qpid.fed.op": "U"})
    assert session.exchange_bound("e", "q").queue_not_matched is not is_bound


def test_an_exclusive_binding_keeps_the_key_s_origins():
    """RF-49, EX-04: the key stays, though every queue that was bound by it goes."""
    session = Broker().session("s")
    session.queue_declare("q")
    session.queue_declare("other")
    session.exchange_declare("e", "direct")
    session.exchange_bind("q", "e", "k", {"qpid.fed.origin": "o"})
    session.exchange_bind("other", "e", "k", {"qpid.exclusive-binding": 1})
    session.exchange_bind("q", "e", "k")
    session.exchange_bind("q", "e", "k", {"qpid.fed.op": "U"})
    assert not session.exchange_bound("e", "q").queue_not_matched


def test_a_lost_connection_s_session_is_gone():
    """RF-56: its name is free at once, its deliveries are back, and nothing of it is resumed."""
    broker = Broker()
    first = broker.session("s")
    first.queue_declare("q", {"qpid.group_header_key": "g", "qpid.shared_msg_group": 1})
    first.message_transfer(Message(1, "q", headers={"g": "a"}))
    first.message_subscribe("q", "in")
    first.message_flow("in", 0, 1)
    first.message_flow("in", 1, 100)
    assert broker.queue("q").groups.groups["a"].owner == "s::in"
    first.close()
    again = broker.session("s")
    assert (again.completions.next_number, again.consuming.records) == (0, {})
    assert (broker.queue("q").message_count, broker.queue("q").groups.groups["a"].owner) == (1, "")
