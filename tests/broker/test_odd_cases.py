"""Odd cases: alternates that refuse, the cleaner, declare arguments (RF-34, RF-37 to RF-39, RF-45).

Beside the recordings ``m2-`` and ``fz-``, which tests/conformance plays step by step.
"""

from __future__ import annotations

import pytest
from support import Bench, bench_with, queue_of, refused

from qflow.broker import INFINITE, Broker, BrokerOptions, Message
from qflow.broker.errors import ResourceLimitExceededException

FULL = "Maximum depth exceeded on dl"


def bench_with_full_alternate(**q: object) -> Bench:
    """Return a bench with queue q, whose alternate exchange leads to the full queue dl."""
    bench = bench_with("dl", max_count=1, flow_stop_count=0)
    bench.bind("dl", "amq.fanout")
    bench.send("dl")
    bench.declare("q", alternate="amq.fanout", **q)
    bench.send("q")
    return bench


@pytest.mark.parametrize("end", ["accept", "release", "close", "commit", "rollback", "close in transaction"])
def test_rf_45_what_is_unsettled_or_in_a_transaction_keeps_it_visible(end):
    """RF-45: a delivery of a cancelled subscription or a publish, until it is settled or its session ends."""
    bench = bench_with_full_alternate()
    session = bench.session("c")
    if end in ("accept", "release", "close"):
        session.message_subscribe("q", "s")
        session.message_flow("s", 1, INFINITE)
        session.message_flow("s", 0, INFINITE)
        session.message_cancel("s")
    else:
        session.tx_select()
        session.message_transfer(Message(1, "q"))
    bench.send("q")
    with refused(506, FULL):
        bench.ctl.queue_delete("q")
    assert bench.broker.queues.find_shown("q").statistics().msgDepth == 0
    twin = Broker.restore(bench.broker.snapshot())
    for broker in (bench.broker, twin):
        client = broker.sessions["c"]
        {
            "accept": lambda: client.message_accept([0]),  # noqa: B023
            "release": lambda: client.message_release([0]),  # noqa: B023
            "commit": client.tx_commit,
            "rollback": client.tx_rollback,
        }.get(end, client.close)()
        assert broker.queues.find_shown("q") is None


HANGING = "durable queue q {}: the real broker hangs then, for all clients"


def test_lp_15_a_durable_queue_does_not_destroy_itself():
    """LP-15, RF-34: 540 says why; nothing is lost."""
    bench = Bench()
    bench.ctl.queue_declare("q", {"qpid.policy_type": "self-destruct", "qpid.max_count": 1}, durable=True)
    with refused(540, HANGING.format("destroys itself")):
        bench.send("q", 2)
    assert bench.stat("q").msgDepth == 1


@pytest.mark.parametrize("policy", ["delete-on-close", "delete-if-unused-and-empty", "delete-if-unused"])
@pytest.mark.parametrize("durable", [False, True], ids=["transient", "durable"])
def test_rf_19_a_durable_queue_does_not_go_with_an_accept(policy, durable):
    """RF-19: 540 says why; the message comes back, as its session ends."""
    bench = Bench()
    bench.ctl.queue_declare("q", {"qpid.lifetime-policy": policy}, durable=durable)
    reader = bench.read("q")
    bench.send("q", 2)
    reader.session.message_accept([0])
    if policy == "delete-on-close":
        # Or it would go with the last of its readers.
        bench.session("browser").message_subscribe("q", "b", acquire_mode=1)
    else:
        reader.session.message_cancel(reader.tag)
    if policy == "delete-if-unused":
        # It went with the subscription.
        assert "q" not in bench.broker.queues.queues
        return
    if not durable:
        reader.session.message_accept([1])
        assert "q" not in bench.broker.queues.queues
        return
    with refused(540, HANGING.format("goes with an accept")):
        reader.session.message_accept([1])
    assert bench.stat("q").releases == 1


def test_rf_34_a_new_queue_of_the_name_is_the_one_that_is_shown():
    bench = bench_with_full_alternate()
    bench.session("c").message_subscribe("q", "s")
    with pytest.raises(ResourceLimitExceededException):
        bench.ctl.queue_delete("q")
    bench.declare("q")
    assert bench.broker.queues.find_shown("q") is bench.broker.queue("q")


@pytest.mark.parametrize(("batch", "first"), [(2, "p-4"), (1, "p-2"), (0, "p-4")])
def test_rf_37_each_batch_of_the_cleaner_moves_fair_shares(batch, first):
    """RF-37, QT-07: a batch that is full is followed by another walk; 0 is no limit."""
    broker = Broker(BrokerOptions(queue_purge_interval=2, max_purge_batch=batch))
    session = broker.session("p")
    session.queue_declare("q", {"qpid.fairshare": 1, "qpid.priorities": 2})
    for priority, ttl in ((0, 1), (9, 0), (9, 0), (0, 0)):
        session.message_transfer(Message(routing_key="q", priority=priority, ttl=ttl))
    broker.advance(2_400_000)
    assert broker.queue("q").statistics().discardsTtl == 1
    got: list[str] = []
    session.consuming.on_delivery = lambda record: got.append(record.label)
    session.message_subscribe("q", "s")
    session.fetch("s")
    assert got == [first]


REFUSED = [
    ({"qpid.priorities": 3, "qpid.fairshare-x": "y"}, 542, "invalid conversion: Cannot convert y"),
    ({"qpid.priorities": 3, "qpid.fairshare-x": 1}, 542, "invalid conversion: Cannot convert x"),
    (
        {"qpid.alert_repeat_gap": "-9223372036854775808"}, 542,
        "invalid conversion: Cannot convert -9223372036854775808",
    ),
    ({"qpid.priorities": 2**31}, 501, "cannot create std::vector larger than max_size()"),
    ({"qpid.priorities": "4294967295"}, 501, "cannot create std::vector larger than max_size()"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "code", "text"), REFUSED)
def test_rf_38_odd_values_of_declare_arguments(arguments, code, text):
    bench = Bench()
    other = bench.broker.session("other", "ctl")
    with refused(code, text):
        bench.ctl.queue_declare("q", arguments)
    assert "q" not in bench.broker.queues.queues
    assert other.is_attached is (code == 542)


@pytest.mark.parametrize("gap", [-(2**63), "-9223372036854775807", "9223372036854775807"])
def test_rf_38_the_smallest_number_is_refused_as_a_text_only(gap):
    bench = Bench()
    bench.ctl.queue_declare("q", {"qpid.alert_repeat_gap": gap})
    assert bench.broker.queue("q").settings.alert_repeat_gap == int(gap)


@pytest.mark.parametrize("share", [{}, {"fairshare": 1}, {"fairshare-255": 2}])
def test_rf_38_levels_that_no_message_can_have_take_no_room(share):
    """RF-38, QT-06: 2**31 - 1 levels deliver in the same order as 256, which a priority can reach."""
    orders = []
    for levels in (256, 2**31 - 1):
        bench = bench_with("q", priorities=levels, **share)
        for priority in (0, 255, 3, 255, 255, 7, 0, 255):
            bench.send("q", priority=priority)
        session, got = bench.session("c"), []
        session.consuming.on_delivery = lambda record, got=got: got.append(record.label)
        session.message_subscribe("q", "s")
        session.message_set_flow_mode("s", 0)
        for _ in range(8):
            session.fetch("s")
        orders.append(got)
    assert orders[0] == orders[1]
    assert len(orders[0]) == 8


def test_rf_39_a_cancelled_subscription_is_shown_while_it_has_unsettled_deliveries():
    bench = queue_of(3)
    reader = bench.read("q")
    session = reader.session
    session.message_accept([0])
    session.message_cancel(reader.tag)
    twin = Broker.restore(bench.broker.snapshot()).sessions[session.name]
    for found in (session, twin):
        assert [one.name for one in found.consuming.list_shown()] == [reader.tag]
        found.message_accept([1])
        assert [one.name for one in found.consuming.list_shown()] == [reader.tag]
        found.message_release([2])
        assert found.consuming.list_shown() == []
