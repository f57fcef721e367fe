"""Depth, limits and what a full queue does (DQ-01 … DQ-04, LP, RF-20, RF-21, RF-24).

Beside the recordings ``lim-`` and ``ri-``, which tests/conformance plays step by step.
"""

import pytest
from support import Bench, bench_with, queue_of, refused

CIRCLE = "ring queue {} evicts into itself"
NO_FLOW = {"flow_stop_count": 0, "flow_stop_size": 0}


class TestThreeDepths:
    def test_if_empty_counts_available_ones_only(self):
        """DQ-01, QT-21: a queue whose messages are all acquired counts as empty."""
        bench = bench_with("q")
        bench.read("q")
        bench.send("q")
        bench.ctl.queue_delete("q", if_empty=True)
        assert not bench.exists("q")

    def test_bytes_count_only_where_they_are_limited(self):
        """DQ-04, LP-03: without a byte limit the policy does not even mention them."""
        bench = queue_of(2, max_count=2, max_size=0)
        text = "Maximum depth exceeded on q: current=[count: 2], max=[count: 2], increment=[count: 1"
        with refused(506, text):
            bench.send("q")
        assert bench.stat("q").byteDepth == 200


FILL = [
    pytest.param({"max_size": 0}, {"default_queue_limit": 1000}, None, id="LP-01 an explicit 0 removes it"),
    pytest.param({"max_size": 500}, {"default_queue_limit": 1000}, 5, id="LP-01 a declared size replaces it"),
    pytest.param({"max_size": 399}, {}, 3, id="LP-02 one byte short of a fourth"),
    pytest.param({"max_size": 400}, {}, 4, id="LP-02 exactly four"),
    pytest.param({"max_count": 9, "max_size": 250}, {}, 2, id="LP-02 size first"),
]


@pytest.mark.parametrize(("short", "options", "room"), FILL)
def test_how_many_fit(short, options, room):
    """LP-01, LP-02: messages of 100 bytes, until one is refused; None if twenty fit."""
    bench = Bench(**options)
    bench.declare("q", **short, **NO_FLOW)
    if room is None:
        bench.send("q", 20)
        return
    bench.send("q", room)
    with refused(506):
        bench.send("q")
    assert bench.stat("q").msgDepth == room


@pytest.mark.parametrize(
    ("short", "sizes", "last", "text"),
    [
        pytest.param(
            {"max_size": 250}, [100, 100], 100,
            "current=[count: 2, size: 200], max=[size: 250], increment=[count: 1, size: 100]",
            id="LP-03 bytes only",
        ),
    ],
)  # fmt: skip
def test_words_of_the_refusal(short, sizes, last, text):
    """LP-03, LP-05: as production logs show it."""
    bench = bench_with("q", **short, **NO_FLOW)
    for size in sizes:
        bench.send("q", size=size)
    with refused(506, f"Maximum depth exceeded on q: {text}"):
        bench.send("q", size=last)


class TestReject:
    @pytest.mark.parametrize(
        "policy",
        [
            pytest.param("RING", id="LP-04 the case matters"),
            pytest.param("", id="LP-04 an empty string"),
        ],
    )
    def test_unknown_policies_reject(self, policy):
        """LP-04, LP-05: five delivered and unacknowledged; the sixth is refused; flow control is on."""
        bench = bench_with("q", max_count=5, policy_type=policy)
        reader = bench.read("q")
        bench.send("q", 5)
        assert reader.got == "p-1 p-2 p-3 p-4 p-5"
        assert bench.is_on("q")
        with refused(506):
            bench.send("q")

    def test_every_matching_queue_is_tried(self):
        """LP-08: who accepted keeps the message; the exchange does not count it."""
        bench = Bench()
        for name, limit in (("a", 5), ("full", 1), ("also full", 1), ("z", 5)):
            bench.declare(name, max_count=limit, **NO_FLOW)
            bench.bind(name, "amq.fanout")
        bench.send("", exchange="amq.fanout")
        with refused(506, "Maximum depth exceeded on full:"):
            bench.send("", exchange="amq.fanout")
        assert [bench.stat(name).msgDepth for name in ("a", "full", "also full", "z")] == [2, 1, 1, 2]
        exchange = bench.exchange_statistics("amq.fanout")
        assert (exchange.msgReceives, exchange.msgRoutes) == (1, 4)


class TestRing:
    def test_its_own_alternate(self):
        """LP-10, RF-34: what it evicts comes back to it, of which the real broker never comes back."""
        bench = bench_with("q", policy_type="ring", max_count=2, alternate="amq.fanout")
        bench.bind("q", "amq.fanout")

        def watch(event: object) -> None:
            bench.events.append(event)
            assert len(bench.events) < 500, "this does not end"

        bench.broker.observe(watch)
        with refused(540, CIRCLE.format("q")):
            bench.send("q", 3)
        assert sorted(bench.labels("q").split()) == ["p-1", "p-2"], "no room is ever made for the third one"

    def test_each_others_alternates(self):
        """LP-10, RF-34: two rings that evict into each other, too; the limits hold."""
        bench = Bench()
        for queue in ("q", "r"):
            bench.declare(queue, policy_type="ring", max_count=2, alternate="amq.fanout")
            bench.bind(queue, "amq.fanout")
        with refused(540, CIRCLE.format("q")):
            for _ in range(4):
                bench.send("", exchange="amq.fanout")
        assert bench.stat("q").msgDepth <= 2 and bench.stat("r").msgDepth <= 2

    def test_an_alternate_with_room_for_all(self):
        """LP-10: two rings bound to each other's alternate are no harm while one of them has room."""
        bench = bench_with("q", policy_type="ring", max_count=2, alternate="amq.fanout")
        bench.declare("r", policy_type="ring", max_count=9, alternate="amq.direct")
        bench.bind("r", "amq.fanout")
        bench.bind("q", "amq.direct")
        bench.send("q", 11)
        assert [bench.stat(queue).msgDepth for queue in ("q", "r")] == [2, 9]

    def test_a_full_alternate_refuses_what_is_evicted(self):
        """LP-10, LP-05: the evicted one is lost and not counted; the new one is refused with the 506."""
        bench = bench_with("full", max_count=1, flow_stop_count=0)
        bench.bind("full", "amq.fanout")
        bench.declare("q", policy_type="ring", max_count=2, alternate="amq.fanout")
        bench.send("q", 3)
        assert (bench.labels("full"), bench.stat("q").discardsRing) == ("p-1", 1)
        with refused(506, "Maximum depth exceeded on full:"):
            bench.send("q")
        assert (bench.labels("q"), bench.stat("q").discardsRing) == ("p-3", 1)
        assert (bench.stat("full").discardsOverflow, bench.stat("q").discardsOverflow) == (1, 0)

    def test_nothing_left_to_evict(self):
        """RF-21: all room is reserved by the committing transaction; the message is dropped silently."""
        bench = queue_of(2, policy_type="ring", max_count=2)
        bench.session("t").tx_select()
        bench.send("q", 3, by="t")
        bench.session("t").tx_commit()
        assert bench.labels("q") == "t-1 t-2"
        assert bench.stat("q").discardsRing == 3


class TestPriorityRing:
    def test_raw_priorities_are_compared(self):
        """RF-20: 1 and 2 share level 0 of five levels, and yet 1 does not evict 2."""
        bench = bench_with("q", policy_type="ring", max_count=1, priorities=5)
        bench.send("q", priority=2)
        bench.send("q", priority=1)
        assert bench.labels("q") == "p-1"
        bench.send("q", priority=2)
        assert bench.labels("q") == "p-3"

    def test_one_level_is_a_priority_queue_too(self):
        """LP-12, RF-20, QT-04: a newcomer of lower priority is the one that is dropped."""
        bench = bench_with("q", policy_type="ring", max_count=1, priorities=1)
        bench.send("q", priority=9)
        bench.send("q", priority=1)
        assert bench.labels("q") == "p-1"

    def test_only_the_head_of_the_lowest_level_is_looked_at(self):
        """LP-12, RF-20: it has 2; that 1 stands behind it in the same level does not help."""
        bench = bench_with("q", policy_type="ring", max_count=2, priorities=5)
        bench.send("q", priority=2)
        bench.send("q", priority=1)
        bench.send("q", priority=1)
        assert bench.labels("q") == "p-1 p-2"
        assert bench.stat("q").discardsRing == 1


class TestSelfDestruct:
    def test_a_full_queue_deletes_itself_and_its_messages_go_to_the_alternate(self):
        """LP-15: acquired messages go to the alternate, too; the message that did it is lost."""
        bench = bench_with("q", policy_type="self-destruct", max_count=3, alternate="amq.fanout", **NO_FLOW)
        bench.declare("other")
        bench.bind("other", "amq.fanout")
        reader = bench.read("q", messages=2)
        bench.send("q", 3)
        (fourth,) = bench.send("q")
        assert fourth.is_complete
        assert not bench.exists("q")
        assert bench.labels("other") == "p-1 p-2 p-3"
        assert bench.broker.statistics().abandonedViaAlt == 3
        (fifth,) = bench.send("q")
        assert fifth.is_complete
        assert bench.broker.statistics().discardsNoRoute == 1
        assert reader.session.is_attached

    def test_waiting_consumers_learn_of_it(self):
        """LP-15, CN-18, RF-15: 408."""
        bench = bench_with("q", policy_type="self-destruct", max_count=1, **NO_FLOW)
        reader = bench.read("q")
        bench.send("q", 2)
        assert not bench.exists("q")
        assert (reader.session.error.code, reader.session.error.text) == (408, "Queue q has been deleted.")
        assert bench.broker.statistics().abandoned == 1

    def test_it_takes_precedence_over_last_value(self):
        """LP-17: three messages with the same key: depth 3."""
        bench = bench_with("q", policy_type="self-destruct", last_value_queue_key="k")
        bench.send("q", 3, headers={"k": "same"})
        assert (bench.stat("q").msgDepth, bench.stat("q").discardsLvq) == (3, 0)

    def test_into_a_full_alternate(self):
        """LP-15, LP-05, LP-08: whoever fills the queue up is told what its alternate's queue refused."""
        bench = bench_with("full", max_count=1, flow_stop_count=0)
        bench.bind("full", "amq.fanout")
        bench.declare("q", policy_type="self-destruct", max_count=2, alternate="amq.fanout", **NO_FLOW)
        bench.send("q", 2)
        with refused(506, "Maximum depth exceeded on full:"):
            bench.send("q")
        assert (bench.exists("q"), bench.labels("full")) == (False, "p-1")

    def test_a_queue_that_is_gone_takes_nothing(self):
        """LP-18: its transaction publishes are dropped silently."""
        bench = bench_with("q")
        bench.declare("other")
        bench.session("t").tx_select()
        bench.send("q", by="t")
        bench.send("other", by="t")
        bench.ctl.queue_delete("q")
        bench.session("t").tx_commit()
        assert bench.labels("other") == "t-2"
        assert bench.broker.statistics().totals["msgTotalEnqueues"] == 1

    def test_a_transaction_which_destroys_its_queue(self):
        """LP-15, LP-18: the room was reserved, but the queue is gone when the messages are pushed."""
        bench = bench_with("q", policy_type="self-destruct", max_count=2, **NO_FLOW)
        bench.session("t").tx_select()
        bench.send("q", 3, by="t")
        bench.session("t").tx_commit()
        assert not bench.exists("q")
        totals = bench.broker.statistics().totals
        assert totals["msgTotalEnqueues"] == totals["msgTotalDequeues"]
        enqueued, dequeued = len(bench.seen("enqueued")), len(bench.seen("dequeued"))
        assert enqueued == dequeued


class TestNoLocal:
    def test_messages_of_the_owners_connection_are_dropped(self):
        """RF-24, QT-17: silently, before the depth check, and for all sessions of the connection."""
        bench = Bench()
        owner = bench.session("owner", "shared")
        bench.session("friend", "shared")
        owner.queue_declare("q", {"no-local": "true", "qpid.max_count": 1}, exclusive=True)
        for by in ("owner", "friend", "owner"):
            (transfer,) = bench.send("q", by=by)
            assert transfer.is_complete
        bench.send("q", by="stranger")
        assert bench.labels("q") == "stranger-1"
        statistics = bench.stat("q")
        assert (statistics.msgTotalEnqueues, statistics.discardsOverflow) == (1, 0)

    def test_in_a_transaction(self):
        """RF-24, CM-10: asked when the message is sent, not when the transaction commits."""
        bench = Bench()
        owner, friend = bench.session("owner", "shared"), bench.session("friend", "shared")
        owner.queue_declare("q", {"no-local": "true"}, exclusive=True)
        friend.tx_select()
        bench.send("q", by="friend")
        owner.close()
        bench.send("q", by="friend")
        friend.tx_commit()
        assert bench.labels("q") == "friend-2"

    def test_a_plain_queue_takes_them(self):
        """RF-24: it needs the argument, and an owner or exclusive consumer."""
        bench = bench_with("local", {"no-local": "true"}, by="owner")
        bench.declare("owned", by="owner", exclusive=True)
        bench.send("local", by="owner")
        bench.send("owned", by="owner")
        assert (bench.stat("local").msgDepth, bench.stat("owned").msgDepth) == (1, 1)

    @pytest.mark.parametrize("end", ["the owner", "the exclusive subscription"])
    def test_it_ends_with(self, end):
        """RF-24, QT-17: nobody owns the queue any more, so no connection is its owner's."""
        bench = Bench()
        bench.session("friend", "shared")
        holder = bench.session("holder", "shared")
        if end == "the owner":
            holder.queue_declare("q", {"no-local": "true"}, exclusive=True)
        else:
            holder.queue_declare("q", {"no-local": "true"})
            bench.read("q", "holder", exclusive=True)
        bench.send("q", by="friend", label="dropped")
        holder.close()
        bench.send("q", by="friend", label="taken")
        assert bench.labels("q") == "taken"
