"""The alternatives of QPID-2935 (rules.md#alt-design-alternatives), and the cluster question (CM-16)."""

from __future__ import annotations

import pytest
from support import Bench, queue_of, refused

from qflow.broker.history import INTERVAL, join, replicate
from qflow.broker.options import FLOW_CONTROLS


def bench_of(kind: str, **arguments: object) -> Bench:
    """Return a bench with this kind of flow control, on which a queue q is declared."""
    bench = Bench(flow_control=kind)
    bench.declare("q", **arguments)
    return bench


def are_complete(transfers: list) -> list[bool]:
    return [transfer.is_complete for transfer in transfers]


def test_alt_01_before_the_feature_the_first_message_too_many_kills_the_session():
    """ALT-01, LP-07: no hold at all, then 506."""
    bench = bench_of("pre-feature", max_count=3, flow_stop_count=2, flow_resume_count=1)
    assert all(are_complete(bench.send("q", 3)))
    with refused(506):
        bench.send("q")
    assert not bench.session("p").is_attached
    assert bench.stat("q").msgDepth == 3


def test_alt_06_overflow_list_keeps_order_and_blocks_everything_behind_its_head():
    """ALT-02, ALT-06: listed instead of raised, later messages too, ticks, completion withheld."""
    bench = bench_of("overflow-list", max_count=2)
    bench.declare("idle")
    first = bench.send("q", 4)
    (other,) = bench.send("idle")
    assert are_complete(first) == [True, True, False, False]
    assert other.held_by == ("overflow list",)
    assert (bench.stat("idle").msgDepth, bench.stat("q").msgDepth) == (0, 2)
    reader = bench.read("q")
    reader.accept("p-1")
    assert bench.stat("q").msgDepth == 1, "nothing moves before the tick"
    bench.broker.advance(INTERVAL)
    assert are_complete(first) == [True, True, True, False]
    reader.accept("p-2", "p-3")
    bench.broker.advance(2 * INTERVAL)
    assert other.is_complete
    assert bench.stat("idle").msgDepth == 1
    assert bench.session("p").is_attached


def test_alt_06_what_waits_in_the_list_is_seen():
    """ALT-06: each message that does not fit is told of, with its command and how many wait."""
    bench = bench_of("overflow-list", max_count=1)
    bench.send("q", 3)
    listed = [(event.session, event.detail) for event in bench.seen("listed")]
    assert listed == [("p", {"command": 1, "waiting": 1}), ("p", {"command": 2, "waiting": 2})]


def test_alt_06_a_partly_routed_message_is_tried_on_all_queues_again():
    """ALT-06: what the seed leaves open; retrying all gives duplicates, and we say so."""
    bench = bench_of("overflow-list", max_count=1)
    bench.declare("wide")
    for queue in ("wide", "q"):
        bench.bind(queue, "amq.fanout")
    bench.send("", 2, exchange="amq.fanout")
    assert bench.stat("wide").msgDepth == 2
    bench.read("q").accept("p-1")
    bench.broker.advance(INTERVAL)
    assert bench.stat("wide").msgDepth == 3, "the second message is on the roomy queue twice"


def test_alt_06_the_list_goes_with_the_session():
    bench = bench_of("overflow-list", max_count=1)
    bench.send("q", 3)
    bench.session("p").close()
    bench.read("q").accept("p-1")
    bench.broker.advance(5 * INTERVAL)
    assert bench.stat("q").msgDepth == 0


@pytest.mark.parametrize(
    ("kind", "sent", "is_on"),
    [("watermark", 2, True), ("shipped", 2, False), ("shipped", 3, True)],
)
def test_alt_08_on_condition(kind, sent, is_on):
    """ALT-03, ALT-04, ALT-07, ALT-08, X-06: the proposal blocks *at* the level, what shipped above it."""
    bench = bench_of(kind, flow_stop_count=2, flow_resume_count=2)
    bench.send("q", sent)
    assert bench.is_on("q") is is_on


def test_alt_07_blocked_is_decided_once_after_all_destinations():
    """ALT-07: a transfer is freed when all its queues are normal, or when it has left them all."""
    bench = bench_of("watermark", flow_stop_count=2, flow_resume_count=1)
    bench.declare("wide")
    for queue in ("q", "wide"):
        bench.bind(queue, "amq.fanout")
    first, second = bench.send("", 2, exchange="amq.fanout")
    assert first.is_complete, "q was normal when the first was decided"
    assert second.held_by == ("watermark",)
    here, there = bench.read("q"), bench.read("wide", "d")
    here.accept("p-2")
    assert not second.is_complete, "consumed from one queue, and q (depth 1) is still not below 1"
    there.accept("p-2")
    assert second.is_complete, "consumed from both"
    assert bench.is_on("q")
    here.accept("p-1")
    assert not bench.is_on("q")


def test_alt_08_release_by_all_normal_frees_every_flag():
    bench = bench_of("watermark", flow_stop_count=1, flow_resume_count=1)
    transfers = bench.send("q", 3)
    reader = bench.read("q")
    reader.accept("p-1", "p-2")
    assert are_complete(transfers) == [True, True, False]
    reader.accept("p-3")
    assert all(are_complete(transfers))


def test_alt_12_the_java_broker_stops_the_channel_and_withholds_nothing():
    """ALT-05, ALT-12, X-29: overfull above capacity, the message is taken, resume at <= resume capacity."""
    bench = bench_of("java", flow_stop_size=100, flow_resume_size=50)
    flow: list[bool] = []
    bench.session("p").completions.on_channel_flow = flow.append
    assert all(are_complete(bench.send("q", 5, size=25)))
    assert flow == [False]
    assert bench.session("p").completions.blocking_queues == ["q"]
    bench.send("q", by="late", size=25)
    late = bench.session("late").completions
    assert late.blocking_queues == ["q"], "one message of overshoot for each channel"
    reader = bench.read("q")
    reader.accept("p-1", "p-2", "p-3")
    assert (bench.stat("q").byteDepth, flow) == (75, [False])
    reader.accept("p-4")
    assert (bench.stat("q").byteDepth, flow) == (50, [False, True])
    assert late.blocking_queues == []


def test_alt_12_resume_above_capacity_is_refused():
    with refused(542):
        bench_of("java", flow_stop_size=100, flow_resume_size=101)


def test_alt_11_completions_in_order_before_the_feature():
    """CM-04, ALT-11: a held transfer hides every later one; today the set has a hole."""
    sets = {}
    for mode in ("any-order", "in-order"):
        bench = Bench(completions=mode)
        bench.declare("x", flow_stop_count=1)
        bench.declare("y")
        bench.send("x", 2)
        bench.send("y")
        before = bench.completed()
        bench.read("x").accept()
        sets[mode] = (before, bench.completed())
    assert sets == {"any-order": ("0 2", "0-2"), "in-order": ("0", "0-2")}


def test_lp_19_ring_strict_refuses_instead_of_dropping_an_acquired_message():
    """LP-19, LP-04: today the word means nothing."""
    arguments = {"policy_type": "RING_STRICT", "max_count": 2, "flow_stop_count": 0}
    bench = Bench(limit_policies="historic")
    bench.declare("q", **arguments)
    bench.send("q", 3)
    assert bench.stat("q").discardsRing == 1
    bench.read("q")
    with refused(506):
        bench.send("q")
    with refused(506):
        queue_of(3, **arguments)


@pytest.mark.parametrize("kind", FLOW_CONTROLS)
def test_one_queue_may_differ_from_its_broker(kind):
    """ALT-13: side by side in one broker."""
    bench = queue_of(2, {"qflow.flow_control": kind}, flow_stop_count=1, flow_resume_count=1)
    holds = {"shipped": [("q",)], "watermark": [("watermark",), ("watermark",)]}
    assert [t.held_by for t in bench.session("p").held] == holds.get(kind, [])


def test_unknown_kind_is_refused_by_name():
    with refused(542, "qflow.flow_control: got 'magic', allowed are shipped, pre-feature"):
        queue_of(0, {"qflow.flow_control": "magic"})


@pytest.mark.parametrize("kind", FLOW_CONTROLS)
def test_snapshots_hold_for_every_alternative(kind):
    bench = bench_of(kind, max_count=3, flow_stop_count=2, flow_resume_count=1)
    bench.send("q", 3)
    twin = bench.twin()
    for each in (bench, twin):
        each.read("q").accept()
        each.broker.advance(3 * INTERVAL)
    assert twin.broker.state_hash() == bench.broker.state_hash()


def newcomer(bench: Bench) -> Bench:
    """Return a broker that is told q's flow control the cluster's way, and has all else already."""
    twin = bench.twin()
    state, new = replicate(bench.broker.queue("q").flow_limit), twin.broker.queue("q")
    assert len(state.encoded) == 36
    join(new.flow_limit, state, {message.position: message.transfer for message in new.store})
    return twin


def test_cm_16_a_newcomer_told_the_clusters_way_stays_equal():
    """CM-16, X-14: same commands, same hash, because what shipped has no timer."""
    bench = queue_of(5, flow_stop_count=2, flow_resume_count=1)
    twin = newcomer(bench)
    assert twin.broker.state_hash() == bench.broker.state_hash()
    for each in (bench, twin):
        each.send("q", 2)
        each.read("q").accept()
        each.send("q", 3)
    assert twin.broker.state_hash() == bench.broker.state_hash()


def test_cm_16_an_on_queue_that_holds_nothing_arrives_as_off():
    """CM-16: flowStopped itself was not sent."""
    bench = queue_of(3, flow_stop_count=2, flow_resume_count=1)
    bench.read("q").accept("p-3")
    assert bench.is_on("q")
    assert not newcomer(bench).is_on("q")


def test_cm_16_with_the_timer_variant_replicas_part_ways():
    """ALT-06, ALT-08: ticks at different moments put different messages on the queue; Alan Conway's worry."""
    bench = bench_of("overflow-list", max_count=1)
    bench.send("q", 2)
    twin = bench.twin()
    bench.broker.advance(INTERVAL - 1)
    bench.read("q").accept("p-1")
    bench.broker.advance(INTERVAL)
    # The same commands in the same order, but this replica's clock is past its tick already.
    twin.broker.advance(INTERVAL)
    twin.read("q").accept("p-1")
    assert (bench.stat("q").msgDepth, twin.stat("q").msgDepth) == (1, 0)
    assert twin.broker.state_hash() != bench.broker.state_hash()
