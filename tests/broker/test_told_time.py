"""What happens as time is told, and what a queue tells: QT-07, QT-08, QT-15, QT-17, QT-18, CF-12.

Beside the recordings ``m2-redirect``, which tests/conformance plays step by step.
"""

from __future__ import annotations

import pytest

from qflow.broker import INFINITE, Broker, BrokerOptions, Event, Message
from qflow.broker.errors import ManagementError

SECOND = 1_000_000


def subscribe(broker, name, queue="q", credit=INFINITE):
    session = broker.session(name)
    session.message_subscribe(queue, "s")
    session.message_set_flow_mode("s", 0)
    session.message_flow("s", 1, INFINITE)
    session.message_flow("s", 0, credit)
    return session


def labels(session):
    return [record.label for record in session.consuming.records.values()]


def test_qt_07_the_cleaner_may_be_off_and_time_may_jump():
    broker = Broker(BrokerOptions(queue_purge_interval=0))
    producer = broker.session("p")
    producer.queue_declare("q")
    producer.message_transfer(Message(routing_key="q", ttl=1))
    broker.advance(10_000 * SECOND)
    assert broker.queue("q").message_depth == 1


def test_qt_07_expiry_frees_held_transfers_and_leaves_acquired_messages_alone():
    """QT-07, FC-20."""
    broker = Broker(BrokerOptions(queue_purge_interval=1))
    producer = broker.session("p")
    producer.queue_declare("q", {"qpid.flow_stop_count": 1})
    for _ in range(3):
        producer.message_transfer(Message(routing_key="q", ttl=100))
    subscribe(broker, "c", credit=1)
    assert len(producer.held) == 2
    broker.advance(2 * SECOND)
    assert broker.queue("q").message_depth == 1
    assert broker.queue("q").statistics().flowStopped, "one left is not below one"
    assert producer.held == []


def test_a_timer_that_does_something_is_a_row_of_its_own():
    broker = Broker()
    broker.session("p").queue_declare("q", {"qpid.auto_delete_timeout": 1})
    subscribe(broker, "c").close()
    rows: list[Event] = []
    broker.observe(rows.append)
    broker.advance(2 * SECOND)
    assert [(row.kind, row.time) for row in rows][0] == ("advance", 0)
    assert ("queueDelete", SECOND) in [(row.kind, row.time) for row in rows]


def test_qt_15_positions_are_told_and_gaps_show():
    """QT-15, LP-10, QT-20: a ring of 4; one acquired; five more: the next one received is number 3."""
    broker = Broker()
    producer = broker.session("p")
    producer.queue_declare(
        "q", {"qpid.policy_type": "ring", "qpid.max_count": 4, "qpid.queue_msg_sequence": "n"}
    )
    producer.message_transfer(Message(routing_key="q"))
    consumer = subscribe(broker, "c", credit=1)
    for _ in range(5):
        producer.message_transfer(Message(routing_key="q"))
    consumer.message_flow("s", 0, 1)
    told = [record.message.headers()["n"] for record in consumer.consuming.records.values()]
    assert told == [1, 3]


@pytest.mark.parametrize("excluded", ["there,elsewhere", "elsewhere, there", "elsewhere there"])
def test_qt_17_trace_ids_are_added_and_excluded(excluded):
    broker = Broker()
    producer = broker.session("p")
    producer.queue_declare("q", {"qpid.trace.id": "home"})
    producer.queue_declare("picky", {"qpid.trace.exclude": excluded})
    producer.message_transfer(Message(routing_key="q", headers={"x-qpid.trace": "there"}))
    producer.message_transfer(Message(routing_key="picky", headers={"x-qpid.trace": "there"}))
    producer.message_transfer(Message(routing_key="picky"))
    assert [m.headers()["x-qpid.trace"] for m in broker.queue("q").store] == ["there,home"]
    assert [m.transfer.label for m in broker.queue("picky").store] == ["p-3"]


@pytest.mark.parametrize(
    ("been", "own", "shown"),
    [
        ("", "here", "here"),
        ("a", "here", "a,here"),
        ("here,a", "here", "here,a"),
        ("there", "here", "there"),
        (5, "x", "5,x"),
    ],
)
def test_qt_17_a_trace_id_that_a_message_has_is_not_added_again(been, own, shown):
    """QT-17: the real broker looks for it anywhere in the text, so who was ``there`` was ``here``."""
    broker = Broker()
    producer = broker.session("p")
    producer.queue_declare("q", {"qpid.trace.id": own})
    producer.message_transfer(Message(routing_key="q", headers={"x-qpid.trace": been}))
    assert [str(m.headers()["x-qpid.trace"]) for m in broker.queue("q").store] == [shown]


LEAVING = [
    ("reroute", ""), ("reroute useAltExchange", ""), ("delete", ""), ("self-destruct", ""), ("ring", ""),
    ("reject", "home"), ("move", "home"),
]  # fmt: skip


@pytest.mark.parametrize(("way", "trace"), LEAVING)
def test_qt_17_what_becomes_of_the_trace_of_a_message_that_leaves(way, trace):
    """QT-17: reroute, eviction and the queue's end clear it in the copy that leaves, and in no other."""
    broker = Broker()
    session = broker.session("p")
    arguments = {"qpid.trace.id": "home", "qpid.queue_msg_sequence": "n"}
    if way in ("ring", "self-destruct"):
        arguments |= {"qpid.policy_type": way, "qpid.max_count": 1}
    session.queue_declare("q", arguments, alternate_exchange="amq.fanout")
    session.queue_declare("elsewhere", {"qpid.trace.id": "elsewhere"})
    session.queue_declare("goal")
    session.exchange_bind("goal", "amq.fanout")
    for queue in ("elsewhere", "q"):
        session.exchange_bind(queue, "amq.direct", "k")
    session.message_transfer(Message(routing_key="k"), "amq.direct")
    match way.partition(" "):
        case ("reroute", _, ""):
            broker.management.reroute("q", exchange="amq.fanout")
        case ("reroute", _, option):
            broker.management.reroute("q", **{option: True})
        case ("move", *_):
            broker.management.queueMoveMessages("q", "goal")
        case ("delete", *_):
            session.queue_delete("q")
        case ("reject", *_):
            session.message_subscribe("q", "s")
            session.fetch("s")
            session.message_reject([0])
        case _:
            session.message_transfer(Message(routing_key="q"))
    assert [m.headers() for m in broker.queue("goal").store] == [{"n": 1, "x-qpid.trace": trace}]
    assert [m.headers() for m in broker.queue("elsewhere").store] == [{"x-qpid.trace": "elsewhere"}]


def test_ex_11_a_copy_that_is_routed_again_has_its_own_number():
    """EX-11: the number of another exchange is another copy's; the first copy keeps what it was given."""
    broker = Broker()
    session = broker.session("p")
    for queue, exchange in (("a", "x"), ("b", "x"), ("c", "y")):
        session.queue_declare(queue)
        session.exchange_declare(exchange, "fanout", arguments={"qpid.msg_sequence": 1})
        session.exchange_bind(queue, exchange)
    for _ in range(2):
        session.message_transfer(Message(), "x")
    broker.management.purge("a", 1)
    broker.management.reroute("a", exchange="y")
    numbers = {q: [m.headers()["qpid.msg_sequence"] for m in broker.queue(q).store] for q in "bc"}
    assert numbers == {"b": [1, 2], "c": [1]}
    twin = Broker.restore(broker.snapshot())
    assert [m.headers()["qpid.msg_sequence"] for m in twin.queue("b").store] == [1, 2]


def redirected() -> Broker:
    broker = Broker()
    producer = broker.session("p")
    for queue in ("a", "b"):
        producer.queue_declare(queue)
        for _ in range(5):
            producer.message_transfer(Message(routing_key=queue))
    broker.management.queueRedirect("a", "b")
    return broker


def test_qt_18_redirect_swaps_what_comes_not_what_is_there():
    """QT-18: five old stay, three new go to the other, and the reverse; deleting one ends it."""
    broker = redirected()
    for _ in range(3):
        broker.sessions["p"].message_transfer(Message(routing_key="a"))
    assert (broker.queue("a").message_depth, broker.queue("b").message_depth) == (5, 8)
    broker.sessions["p"].message_transfer(Message(routing_key="b"))
    assert broker.queue("a").message_depth == 6
    assert broker.queue("a").statistics().redirectPeer == "b"
    broker.sessions["p"].queue_delete("b")
    broker.sessions["p"].message_transfer(Message(routing_key="a"))
    assert broker.queue("a").message_depth == 7


def test_qt_18_a_move_is_redirected_too():
    """QT-18, QT-23: what is moved to a redirected queue is sent to it like anything else."""
    broker = redirected()
    broker.sessions["p"].queue_declare("c")
    broker.sessions["p"].message_transfer(Message(routing_key="c"))
    broker.management.queueMoveMessages("c", "a")
    assert (broker.queue("a").message_depth, broker.queue("b").message_depth) == (5, 6)


USER = 0x10000
REFUSED = [
    ("a", "none", 1), ("none", "a", 1), ("c", "c", USER), ("a", "c", USER), ("c", "auto", USER),
    ("c", "", USER), ("b", "", USER),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target", "status"), REFUSED)
def test_rf_26_refused_redirects_change_nothing(source, target, status):
    """QT-18, RF-26: also its end, which only the source may ask for; only an unknown queue has a text."""
    broker = redirected()
    broker.sessions["p"].queue_declare("c")
    broker.sessions["p"].queue_declare("auto", auto_delete=True)
    before = broker.state_hash()
    with pytest.raises(ManagementError) as refused:
        broker.management.queueRedirect(source, target)
    assert (refused.value.status, str(refused.value)) == (status, "UnknownObject" if status == 1 else "")
    assert broker.state_hash() == before


def test_cf_12_management_events():
    """CF-12: what comes and goes is told."""
    broker = Broker()
    rows: list[Event] = []
    broker.observe(rows.append)
    session = broker.session("p")
    session.exchange_declare("x", "fanout")
    session.queue_declare("q")
    session.exchange_bind("q", "x")
    session.message_subscribe("q", "s")
    session.message_cancel("s")
    session.exchange_unbind("q", "x")
    session.exchange_delete("x")
    session.queue_delete("q")
    kinds = [row.kind for row in rows if "." not in row.kind and row.kind != "completed"]
    bound = ["bind", "bind", "subscribe", "unsubscribe", "unbind"]
    assert kinds == ["exchangeDeclare", "queueDeclare", *bound, "exchangeDelete", "unbind", "queueDelete"]
