"""Management methods, statistics and status codes (CF-07 … CF-10, QT-22 … QT-24, RF-11, RF-23)."""

from dataclasses import asdict

import pytest
from support import Bench, bench_with, management_refused, of_group, queue_of, refused, run

from qflow.broker import Broker, Message
from qflow.trace.replaying import Replay, record


class TestPurge:
    def test_a_purge_removes_the_given_number(self):
        """QT-22: management.py test_purge_queue: 20: 1 → 19, 9 → 10, 0 → 0."""
        bench = queue_of(20)
        purge = bench.broker.management.purge
        for request, left in ((1, 19), (9, 10), (0, 0)):
            purge("q", request)
            assert bench.stat("q").msgDepth == left
        statistics = bench.stat("q")
        assert (statistics.discardsPurge, statistics.acquires, statistics.msgTotalDequeues) == (20, 20, 20)

    def test_a_purge_of_an_unknown_queue_is_refused(self):
        """QT-22: 404; without a name 531."""
        bench = Bench()
        with refused(404, "Queue not found: q"):
            bench.ctl.queue_purge("q")
        with refused(531):
            bench.ctl.queue_purge("")

    def test_filter_counts_matching_ones(self):
        """QT-22, MG-19: the count is of messages that match."""
        bench = bench_with("q")
        bench.send_groups("q", "A-1 B-2 A-3 A-4")
        bench.broker.management.purge("q", 2, of_group("A"))
        assert bench.labels("q") == "B-2 A-4"
        bench.broker.management.purge("q", 0, of_group("none"))
        assert bench.stat("q").discardsPurge == 2
        bench.broker.management.purge("q", 0, {})
        assert bench.stat("q").msgDepth == 0


FILTERS = [
    ({"filter_type": "nonsense"}, "{filter_type:nonsense}"),
    (
        {"filter_type": "header_match_str", "filter_params": {"header_key": "G"}},
        "{filter_params:{header_key:G}, filter_type:header_match_str}",
    ),
    (
        {"filter_type": "other", "filter_params": {"header_value": "A", "header_key": "g"}},
        "{filter_params:{header_key:g, header_value:A}, filter_type:other}",
    ),
    ({"filter_type": "other", "filter_params": ["A", 1]}, "{filter_params:[A, 1], filter_type:other}"),
]


@pytest.mark.parametrize(("filter", "shown"), FILTERS)
def test_an_invalid_filter_removes_nothing(filter, shown):
    """RF-23, QT-22: status 7, with the filter's keys ascending; nothing is removed."""
    bench = queue_of(3, alternate="amq.fanout")
    bench.declare("other")
    manage = bench.broker.management
    for method in (
        lambda: manage.purge("q", 0, filter),
        lambda: manage.reroute("q", 0, True, "", filter),
        lambda: manage.queueMoveMessages("q", "other", 0, filter),
    ):
        with management_refused(7, f"Unrecognized message filter: '{shown}'"):
            method()
    assert bench.stat("q").msgDepth == 3


class TestReroute:
    def bench(self) -> Bench:
        """management.py test_reroute_queue: an alternate, a direct exchange, and twenty messages."""
        bench = Bench()
        for name in ("alt", "two"):
            bench.declare(name)
        bench.bind("alt", "amq.fanout")
        bench.exchange("alt.direct2", "direct")
        bench.bind("two", "alt.direct2", "q")
        bench.declare("q", alternate="amq.fanout")
        bench.send("q", 20)
        return bench

    def test_a_reroute_moves_the_given_number_and_counts_it(self):
        """QT-23: 19/1, 10/9; unknown exchange status 4; the rest; reroutes and acquires are counted."""
        bench = self.bench()
        manage = bench.broker.management
        manage.reroute("q", 1, True)
        assert (bench.stat("q").msgDepth, bench.labels("alt")) == (19, "p-1")
        manage.reroute("q", 9, False, "alt.direct2")
        assert (bench.stat("q").msgDepth, bench.labels("two")) == (10, run(2, 10))
        with management_refused(4, "InvalidParameter"):
            manage.reroute("q", 0, False, "nosuch")
        manage.reroute("q", 0, True)
        assert (bench.stat("q").msgDepth, bench.stat("alt").msgDepth) == (0, 11)
        statistics = bench.stat("q")
        assert (statistics.reroutes, statistics.acquires, statistics.discardsPurge) == (20, 20, 0)

    def test_a_reroute_onto_the_same_queue_keeps_all_messages(self):
        """QT-23, EX-10: twenty stay twenty."""
        bench = self.bench()
        bench.exchange("loop", "fanout")
        bench.bind("q", "loop")
        bench.broker.management.reroute("q", 0, False, "loop")
        assert bench.labels("q") == run(1, 20)

    def test_into_a_full_queue(self):
        """QT-23, LP-05: status 7; all are gone from the queue, and none counts as acquired or rerouted."""
        bench = self.bench()
        bench.declare("full", max_count=2, flow_stop_count=0)
        bench.exchange("narrow", "fanout")
        bench.bind("full", "narrow")
        with management_refused(7, "resource-limit-exceeded: Maximum depth exceeded on full:"):
            bench.broker.management.reroute("q", 5, False, "narrow")
        assert (bench.labels("full"), bench.labels("q")) == ("p-1 p-2", run(6, 20))
        statistics = bench.stat("q")
        assert (statistics.reroutes, statistics.acquires, statistics.msgTotalDequeues) == (0, 0, 5)

    def test_unroutable_ones_are_dropped(self):
        """QT-23, EX-08: a reroute through an exchange where nothing matches."""
        bench = queue_of(2)
        bench.broker.management.reroute("q", 0, False, "amq.direct")
        assert (bench.stat("q").msgDepth, bench.broker.statistics().discardsNoRoute) == (0, 2)


class TestMove:
    def test_a_move_takes_the_given_number_in_order(self):
        """QT-23: management.py test_move_queued_messages: 10, the rest, more than there are; order kept."""
        bench = queue_of(20)
        bench.declare("other")
        move = bench.broker.management.queueMoveMessages
        move("q", "other", 10)
        assert (bench.labels("q"), bench.labels("other")) == (run(11, 20), run(1, 10))
        move("q", "other", 0)
        assert bench.labels("other") == run(1, 20)
        move("other", "q", 40)
        assert (bench.labels("q"), bench.labels("other")) == (run(1, 20), "")

    @pytest.mark.parametrize(("source", "target"), [("no", "q"), ("q", "no")], ids=["QT-23 from", "QT-23 to"])
    def test_a_move_from_or_to_an_unknown_queue_is_refused(self, source, target):
        """QT-23, RF-23: status 4."""
        bench = queue_of(1)
        with management_refused(4, "InvalidParameter"):
            bench.broker.management.queueMoveMessages(source, target, 1)
        assert bench.labels("q") == "p-1"

    def test_into_a_full_queue(self):
        """QT-23, G-15, CF-08: five moved into max_count 2: status 7, two there, three lost."""
        bench = queue_of(5)
        bench.declare("other", max_count=2, flow_stop_count=0)
        text = "resource-limit-exceeded: Maximum depth exceeded on other:"
        with management_refused(7, text):
            bench.broker.management.queueMoveMessages("q", "other")
        assert (bench.stat("q").msgDepth, bench.labels("other")) == (0, run(1, 2))

    def test_what_is_not_counted(self):
        """QT-23: neither acquires nor discards; but it is a dequeue and an enqueue."""
        bench = queue_of(3)
        bench.declare("other")
        bench.broker.management.queueMoveMessages("q", "other")
        statistics = bench.stat("q")
        assert (statistics.acquires, statistics.discardsPurge, statistics.reroutes) == (0, 0, 0)
        assert (statistics.msgTotalDequeues, bench.stat("other").msgTotalEnqueues) == (3, 3)


class TestCreateAndDelete:
    def test_strict_changes_nothing(self):
        """IN-06, CF-02: an unknown argument is taken all the same."""
        bench = Bench()
        bench.broker.management.create("queue", "q", {"qpid.max-count": 3, "made.up": 1}, strict=True)
        for _ in range(4):
            bench.send("q")
        assert bench.stat("q").msgDepth == 4

    def test_a_queue_is_created_from_properties_and_deleted(self):
        """CF-07, CF-10: properties are declare arguments and a few more."""
        bench = Bench()
        manage = bench.broker.management
        manage.create(
            "queue", "q", {"qpid.max_count": 1, "durable": True, "alternate-exchange": "amq.fanout"}
        )
        bench.declare("other")
        bench.bind("other", "amq.fanout")
        bench.send("q")
        assert (bench.stat("q").bindingCount, bench.broker.statistics().queueCount) == (1, 2)
        manage.delete("queue", "q")
        assert bench.labels("other") == "p-1"

    def test_an_auto_delete_queue_goes_with_its_last_consumer(self):
        """CF-07, QT-08."""
        bench = Bench()
        bench.broker.management.create("queue", "q", {"auto-delete": True})
        bench.idle("q").cancel()
        assert not bench.exists("q")

    def test_an_exchange_with_options(self):
        """CF-07, EX-11: what is not a property is an argument, as in a declare."""
        bench = Bench()
        bench.broker.management.create("exchange", "x", {"exchange-type": "fanout", "qpid.msg_sequence": 1})
        bench.declare("q")
        bench.bind("q", "x")
        bench.send("", 2, exchange="x")
        numbers = [message.headers()["qpid.msg_sequence"] for message in bench.broker.queue("q").store]
        assert numbers == [1, 2]

    def test_deleting_somebodys_queue(self):
        """CF-07, QT-21: management asks for no owner, only for users and messages."""
        bench = bench_with("q", by="owner", exclusive=True)
        bench.broker.management.delete("queue", "q", {"if_unused": True})
        assert not bench.exists("q")

    def test_exchange_and_binding(self):
        """CF-07: testQmfCreateAndDelete: default type topic; bindings are exchange/queue/key."""
        bench = Bench()
        manage = bench.broker.management
        manage.create("exchange", "x")
        manage.create("topic", "y", {"exchange-type": "fanout", "alternate-exchange": "x"})
        assert [bench.exchange_statistics(name).type for name in "xy"] == ["topic", "fanout"]
        manage.create("queue", "q")
        manage.create("binding", "x/q/a.*")
        bench.send("a.b", exchange="x")
        manage.delete("binding", "x/q/a.*")
        bench.send("a.c", exchange="x")
        assert bench.labels("q") == "p-1"
        manage.delete("exchange", "y")
        manage.delete("exchange", "x")
        with refused(404):
            bench.ctl.exchange_declare("x", passive=True)

    ERRORS = [
        ("object already exists: q", lambda m: m.create("queue", "q")),
        ("invalid conversion: Cannot convert x", lambda m: m.create("queue", "q", {"qpid.max_count": "x"})),
        ("invalid conversion: Cannot convert x", lambda m: m.create("queue", "new", {"qpid.max_count": "x"})),
        ("object already exists: amq.topic", lambda m: m.create("exchange", "amq.topic")),
        ("unknown object type: nonsense", lambda m: m.create("nonsense", "x")),
        ("unknown object type: nonsense", lambda m: m.delete("nonsense", "x")),
        ("Invalid exchange type: star", lambda m: m.create("exchange", "x", {"exchange-type": "star"})),
        (
            "invalid-argument: Only shared groups are supported",
            lambda m: m.create("queue", "new", {"qpid.group_header_key": "G"}),
        ),
        (
            "not-found: Exchange not found: nosuch",
            lambda m: m.create("queue", "new", {"alternate-exchange": "nosuch"}),
        ),
        ("not-found: Delete failed. No such queue: no", lambda m: m.delete("queue", "no")),
        ("precondition-failed: ", lambda m: m.delete("queue", "q", {"if_empty": True})),
        ("precondition-failed: ", lambda m: m.delete("queue", "q", {"if_unused": True})),
        (
            "invalid conversion: Cannot convert maybe to bool",
            lambda m: m.delete("queue", "q", {"if_empty": "maybe"}),
        ),
        ("resource-locked: Cannot bind queue owned;", lambda m: m.create("binding", "amq.fanout/owned")),
        ("not-found: Bind failed. No such queue: no", lambda m: m.create("binding", "amq.fanout/no/k")),
        ("invalid-argument: Bind not allowed for default exchange", lambda m: m.create("binding", "q")),
        ("invalid binding: a/b/c/d", lambda m: m.create("binding", "a/b/c/d")),
        ("not-allowed: ", lambda m: m.delete("exchange", "amq.direct")),
        ("not-found: Exchange not found: no", lambda m: m.create("binding", "no/q/k")),
        ("not-implemented: create link: links and bridges", lambda m: m.create("link", "l", {"host": "a"})),
        ("not-implemented: delete bridge: ", lambda m: m.delete("bridge", "b")),
        ("Invalid log level name: loud", lambda m: m.setLogLevel("debug+:broker loud")),
    ]

    @pytest.mark.parametrize(("text", "act"), ERRORS)
    def test_a_refused_create_or_delete_changes_nothing(self, text, act):
        """CF-04, CF-07, CF-08, EX-03, QT-21, RF-23: status 7 with the text; nothing is made or deleted."""
        bench = queue_of(1)
        bench.declare("owned", by="owner", exclusive=True)
        bench.read("q", "b", browse=True)
        with management_refused(7, text):
            act(bench.broker.management)
        assert bench.broker.statistics().queueCount == 2


UNKNOWN = "No object found with ID=0-0-0--0(org.apache.qpid.broker:queue:no)"


ABSENT = [
    (1, UNKNOWN, lambda m: m.purge("no")),
    (1, UNKNOWN, lambda m: m.reroute("no", exchange="amq.fanout")),
    (1, "UnknownObject", lambda m: m.query("queue", "no")),
    *(
        (3, "NotImplemented", lambda m, kind=kind: m.query(kind, "x"))
        for kind in ("exchange", "topic", "binding")
    ),
    (7, "unknown object type", lambda m: m.query("thing", "x")),
]


@pytest.mark.parametrize(("status", "text", "act"), ABSENT)
def test_each_missing_object_has_its_status_code(status, text, act):
    """CF-08, RF-23, MG-24: what comes back for what is not there."""
    with management_refused(status, text):
        act(Bench().broker.management)


# Statistics


def test_queue_statistics_count_one_life_of_a_queue():
    """CF-09: every counter once, in one life of a queue."""
    bench = bench_with("q", max_count=10, alternate="amq.fanout")
    bench.declare("other")
    bench.bind("q", "amq.direct", "k")
    bench.send("q", 8, size=50)
    bench.send("q", size=50, ttl=1)
    bench.session("t").tx_select()
    bench.send("q", by="t", size=60, durable=True)
    bench.session("t").tx_commit()
    with refused(506):
        bench.send("q", by="full")
    reader = bench.read("q", messages=4)
    reader.accept("p-1")
    reader.reject("p-2")
    reader.release("p-3")
    bench.broker.management.purge("q", 1)
    bench.broker.management.reroute("q", 1, True)
    bench.broker.advance(1_000_000)
    bench.labels("q")
    transactional = bench.read("q", "t", messages=1)
    transactional.accept()
    bench.session("t").tx_commit()
    expected = {
        "name": "q",
        "msgTotalEnqueues": 10, "byteTotalEnqueues": 510,
        "msgTotalDequeues": 6, "byteTotalDequeues": 300,
        "msgTxnEnqueues": 1, "byteTxnEnqueues": 60,
        "msgTxnDequeues": 1, "byteTxnDequeues": 50,
        "msgPersistEnqueues": 1, "msgPersistDequeues": 0,
        "bytePersistEnqueues": 60, "bytePersistDequeues": 0,
        "msgDepth": 4, "byteDepth": 210, "messageCount": 3,
        "acquires": 7, "releases": 1,
        "discardsTtl": 1, "discardsRing": 0, "discardsLvq": 0, "discardsOverflow": 1,
        "discardsSubscriber": 1, "discardsPurge": 1, "reroutes": 1,
        "consumerCount": 2, "bindingCount": 2,
        "flowStopped": False, "flowStoppedCount": 1,
    }  # fmt: skip
    shown = asdict(bench.stat("q"))
    assert {key: shown[key] for key in expected} == expected


def test_broker_statistics_add_up_living_and_deleted_queues():
    """CF-10: totals over the queues there are, and those there were."""
    bench = Bench()
    for name in ("a", "b"):
        bench.declare(name)
        bench.send(name, 3)
    bench.take("a", 2)
    bench.ctl.queue_delete("a")
    bench.send("nowhere")
    shown = bench.broker.statistics()
    assert (shown.queueCount, shown.discardsNoRoute, shown.abandoned) == (1, 1, 1)
    totals = shown.totals
    assert (totals["msgTotalEnqueues"], totals["msgTotalDequeues"], totals["acquires"]) == (6, 3, 2)
    assert totals["byteTotalEnqueues"] == 600
    assert (shown.msgDepth, shown.byteDepth) == (3, 300)


def test_subscription_and_session_statistics():
    """CF-10: browsing, acknowledged, exclusive, creditMode, delivered; unackedMessages."""
    bench = queue_of(2)
    reader = bench.read("q", "c", "a", mode=1, accept=1, exclusive=True)
    bench.read("q", "c", "b", browse=True)
    first, second = (s.statistics() for s in reader.session.consuming.subscriptions.values())
    assert (first.name, first.queue, first.browsing, first.acknowledged) == ("a", "q", False, False)
    assert (first.exclusive, first.creditMode, first.delivered) == (True, "WINDOW", 2)
    assert (second.browsing, second.acknowledged, second.exclusive) == (True, True, False)
    assert (second.creditMode, second.delivered) == ("CREDIT", 0)
    assert reader.unacked == 2


def test_bytes_of_durable_messages_are_counted_in_and_out():
    """CF-09: bytes of durable messages, in and out, and in the broker's totals."""
    bench = bench_with("q")
    for size, durable in ((50, True), (70, True), (90, False)):
        bench.send("q", size=size, durable=durable)
    bench.take("q", 2)
    shown, totals = bench.stat("q"), bench.broker.statistics().totals
    assert (shown.bytePersistEnqueues, shown.bytePersistDequeues) == (120, 120)
    assert (totals["bytePersistEnqueues"], totals["bytePersistDequeues"]) == (120, 120)
    assert shown.byteTotalDequeues == 120


def test_connection_statistics_count_messages_bytes_and_frames():
    """CF-10, management.py test_connection_stats: messages, their bytes and frames; refused ones, too."""
    bench = bench_with("q", max_count=3, flow_stop_count=0)
    bench.send("q", size=50)
    session = bench.broker.sessions["p"]
    session.message_transfer(Message(0, routing_key="q"))
    session.message_transfer(Message(65_524, routing_key="q"))
    reader = bench.read("q", "c", messages=2)
    reader.accept()
    bench.send("q", 2, by="p", size=50)
    with refused(506):
        bench.send("q", by="p", size=50)
    came = bench.broker.connections["p"].statistics()
    assert (came.msgsFromClient, came.msgsToClient) == (6, 0)
    assert came.bytesFromClient == 4 * 50 + 11 + 65_535
    assert came.framesFromClient == 3 + 2 + 4 + 3 * 3
    went = bench.broker.connections["c"].statistics()
    assert (went.msgsToClient, went.bytesToClient, went.framesToClient) == (2, 61, 5)
    assert went.name == "c"
    twin = Broker.restore(bench.broker.snapshot())
    assert twin.connections["p"].statistics() == came


def test_timestamps_by_management():
    """CF-11, management.py test_timestamp_config: off by default, on, off; part of the state."""
    bench = queue_of(0)
    manage = bench.broker.management
    assert manage.getTimestampConfig() is False
    manage.setTimestampConfig(True)
    bench.broker.advance(7_000_000)
    bench.send("q")
    assert Broker.restore(bench.broker.snapshot()).management.getTimestampConfig() is True
    manage.setTimestampConfig(False)
    bench.send("q")
    stamps = [message.transfer.message.timestamp for message in bench.broker.queue("q").store]
    assert stamps == [bench.broker.options.start_time + 7, None]
    with pytest.raises(TypeError, match="setTimestampConfig: receive must be True or False, got 1"):
        manage.setTimestampConfig(1)


def test_the_log_level_is_kept_and_changes_no_state():
    """CF-11: kept and given back; it changes nothing, not even the state."""
    broker = Broker()
    manage, before = broker.management, broker.state_hash()
    assert manage.getLogLevel() == "notice+"
    manage.setLogLevel("notice+ debug+:qpid::broker, !error-:Protocol")
    assert manage.getLogLevel() == "notice+,debug+:qpid::broker,!error-:Protocol"
    assert broker.state_hash() == before
    assert Broker.restore(broker.snapshot()).management.getLogLevel() == "notice+"


def test_closing_a_connection():
    """CF-11, management.py test_connection_close: all its sessions die; the names can be used again."""
    broker = Broker()
    first, second, other = (broker.session(name, link) for name, link in (("a", "x"), ("b", "x"), ("c", "y")))
    first.queue_declare("q", exclusive=True)
    broker.management.close("x")
    for session in (first, second):
        assert not session.is_attached
        assert str(session.error) == "connection-forced: Closed by Management Request"
        assert session.error.code == 320
    assert other.is_attached
    identity = "org.apache.qpid.broker:connection:x"
    with management_refused(1, f"No object found with ID=0-0-0--0({identity})"):
        broker.management.close("x")
    broker.session("a", "x").queue_declare("q", exclusive=True)


def test_an_exchange_shows_its_sequence_and_ive_arguments():
    """EX-11: qpid-config shows --sequence and --ive by them."""
    broker = Broker()
    broker.management.create("exchange", "x", {"qpid.msg_sequence": 1, "qpid.ive": 1})
    found = {name: exchange.arguments for name, exchange in broker.exchanges.exchanges.items()}
    assert found["x"] == {"qpid.msg_sequence": 1, "qpid.ive": 1}
    assert found["amq.topic"] == {}


def test_methods_are_commands_of_a_trace():
    """A trace has them as rows, and replays them."""
    broker = Broker()
    trace = record(broker)
    manage = broker.management
    manage.setTimestampConfig(True)
    manage.setLogLevel("debug+")
    assert (manage.getTimestampConfig(), manage.getLogLevel()) == (True, "debug+")
    broker.session("a", "x")
    manage.close("x")
    manage.delete("exchange", "qmf.default.topic", {}, True)
    replay = Replay(trace)
    assert replay.run() == trace
    assert replay.broker.state_hash() == broker.state_hash()
