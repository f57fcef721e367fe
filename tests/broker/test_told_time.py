"""What happens as time is told, and what a queue tells: QT-07, QT-08, QT-15, QT-17, QT-18, CF-12.

Beside the recordings ``m2-redirect``, which tests/conformance plays step by step.
"""

from __future__ import annotations

import pytest
from support import Bench, bench_with, queue_of

from qflow.broker import Broker
from qflow.broker.errors import ManagementError

SECOND = 1_000_000
TRACE = "x-qpid.trace"


def headers(bench: Bench, queue: str = "q", name: str = TRACE) -> list[object]:
    """Return one header of the messages on a queue, as their consumers would see it."""
    return [message.headers()[name] for message in bench.broker.queue(queue).store]


def test_qt_07_the_cleaner_may_be_off_and_time_may_jump():
    bench = Bench(queue_purge_interval=0)
    bench.declare("q")
    bench.send("q", ttl=1)
    bench.broker.advance(10_000 * SECOND)
    assert bench.stat("q").msgDepth == 1


def test_qt_07_expiry_frees_held_transfers_and_leaves_acquired_messages_alone():
    """QT-07, FC-20."""
    bench = Bench(queue_purge_interval=1)
    bench.declare("q", flow_stop_count=1)
    bench.send("q", 3, ttl=100)
    bench.read("q", messages=1)
    assert bench.held() == "p-2 p-3"
    bench.broker.advance(2 * SECOND)
    assert bench.stat("q").msgDepth == 1
    assert bench.is_on("q"), "one left is not below one"
    assert bench.held() == ""


def test_a_timer_that_does_something_is_a_row_of_its_own():
    bench = bench_with("q", auto_delete_timeout=1)
    bench.read("q").session.close()
    bench.events.clear()
    bench.broker.advance(2 * SECOND)
    rows = [(row.kind, row.time) for row in bench.events]
    assert rows[0] == ("advance", 0)
    assert ("queueDelete", SECOND) in rows


def test_qt_15_positions_are_told_and_gaps_show():
    """QT-15, LP-10, QT-20: a ring of 4; one acquired; five more: the next one received is number 3."""
    bench = queue_of(1, policy_type="ring", max_count=4, queue_msg_sequence="n")
    reader = bench.read("q", messages=1)
    bench.send("q", 5)
    reader.grant(messages=1)
    told = [record.message.headers()["n"] for record in reader.session.consuming.records.values()]
    assert told == [1, 3]


@pytest.mark.parametrize("excluded", ["there,elsewhere", "elsewhere, there", "elsewhere there"])
def test_qt_17_trace_ids_are_added_and_excluded(excluded):
    bench = bench_with("q", {"qpid.trace.id": "home"})
    bench.declare("picky", {"qpid.trace.exclude": excluded})
    for queue in ("q", "picky"):
        bench.send(queue, headers={TRACE: "there"})
    bench.send("picky")
    assert headers(bench) == ["there,home"]
    assert bench.labels("picky") == "p-3"


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
    bench = bench_with("q", {"qpid.trace.id": own})
    bench.send("q", headers={TRACE: been})
    assert headers(bench) == [shown]


LEAVING = [
    ("reroute", ""), ("reroute useAltExchange", ""), ("delete", ""), ("self-destruct", ""), ("ring", ""),
    ("reject", "home"), ("move", "home"),
]  # fmt: skip


@pytest.mark.parametrize(("way", "trace"), LEAVING)
def test_qt_17_what_becomes_of_the_trace_of_a_message_that_leaves(way, trace):
    """QT-17: reroute, eviction and the queue's end clear it in the copy that leaves, and in no other."""
    limit = {"policy_type": way, "max_count": 1} if way in ("ring", "self-destruct") else {}
    bench = bench_with(
        "q", {"qpid.trace.id": "home"}, queue_msg_sequence="n", alternate="amq.fanout", **limit
    )
    bench.declare("elsewhere", {"qpid.trace.id": "elsewhere"})
    bench.declare("goal")
    bench.bind("goal", "amq.fanout")
    for queue in ("elsewhere", "q"):
        bench.bind(queue, "amq.direct", "k")
    bench.send("k", exchange="amq.direct")
    manage = bench.broker.management
    {
        "reroute": lambda: manage.reroute("q", exchange="amq.fanout"),
        "reroute useAltExchange": lambda: manage.reroute("q", useAltExchange=True),
        "move": lambda: manage.queueMoveMessages("q", "goal"),
        "delete": lambda: bench.ctl.queue_delete("q"),
        "reject": lambda: bench.read("q").reject(),
    }.get(way, lambda: bench.send("q"))()
    assert (headers(bench, "goal"), headers(bench, "goal", "n")) == ([trace], [1])
    assert [m.headers() for m in bench.broker.queue("elsewhere").store] == [{TRACE: "elsewhere"}]


def test_ex_11_a_copy_that_is_routed_again_has_its_own_number():
    """EX-11: the number of another exchange is another copy's; the first copy keeps what it was given."""
    bench = Bench()
    for exchange in ("x", "y"):
        bench.ctl.exchange_declare(exchange, "fanout", arguments={"qpid.msg_sequence": 1})
    for queue, exchange in (("a", "x"), ("b", "x"), ("c", "y")):
        bench.declare(queue)
        bench.bind(queue, exchange)
    bench.send("", 2, exchange="x")
    bench.broker.management.purge("a", 1)
    bench.broker.management.reroute("a", exchange="y")
    numbers = {queue: headers(bench, queue, "qpid.msg_sequence") for queue in "bc"}
    assert numbers == {"b": [1, 2], "c": [1]}
    assert headers(bench.twin(), "b", "qpid.msg_sequence") == [1, 2]


def redirected() -> Bench:
    """Return a bench with two queues of five messages each, which swap what comes."""
    bench = Bench()
    for queue in ("a", "b"):
        bench.declare(queue)
        bench.send(queue, 5)
    bench.broker.management.queueRedirect("a", "b")
    return bench


def test_qt_18_redirect_swaps_what_comes_not_what_is_there():
    """QT-18: five old stay, three new go to the other, and the reverse; deleting one ends it."""
    bench = redirected()
    bench.send("a", 3)
    assert (bench.stat("a").msgDepth, bench.stat("b").msgDepth) == (5, 8)
    bench.send("b")
    assert (bench.stat("a").msgDepth, bench.stat("a").redirectPeer) == (6, "b")
    bench.ctl.queue_delete("b")
    bench.send("a")
    assert bench.stat("a").msgDepth == 7


def test_qt_18_a_move_is_redirected_too():
    """QT-18, QT-23: what is moved to a redirected queue is sent to it like anything else."""
    bench = redirected()
    bench.declare("c")
    bench.send("c")
    bench.broker.management.queueMoveMessages("c", "a")
    assert (bench.stat("a").msgDepth, bench.stat("b").msgDepth) == (5, 6)


USER = 0x10000
REFUSED = [
    ("a", "none", 1), ("none", "a", 1), ("c", "c", USER), ("a", "c", USER), ("c", "auto", USER),
    ("c", "", USER), ("b", "", USER),
]  # fmt: skip


@pytest.mark.parametrize(("source", "target", "status"), REFUSED)
def test_rf_26_refused_redirects_change_nothing(source, target, status):
    """QT-18, RF-26: also its end, which only the source may ask for; only an unknown queue has a text."""
    bench = redirected()
    bench.declare("c")
    bench.declare("auto", auto_delete=True)
    before = bench.broker.state_hash()
    with pytest.raises(ManagementError) as refused:
        bench.broker.management.queueRedirect(source, target)
    assert (refused.value.status, str(refused.value)) == (status, "UnknownObject" if status == 1 else "")
    assert bench.broker.state_hash() == before


def test_cf_12_management_events():
    """CF-12: what comes and goes is told."""
    broker = Broker()
    rows: list = []
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
