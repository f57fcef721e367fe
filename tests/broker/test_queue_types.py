"""Last value, priority and fairshare queues, expiry, auto-delete, positions (QT, RF-11, RF-19).

Beside the recordings ``lv-``, ``pr-``, ``de-`` and ``re-ttl``, which tests/conformance plays step by step.
"""

import pytest
from support import Bench, bench_with, queue_of, refused


def last_values(labels: str = "", **short: object) -> Bench:
    """A last value queue by header k; the letter of a label is its key."""
    bench = bench_with("q", last_value_queue_key="k", **short)
    send_values(bench, labels)
    return bench


def send_values(bench: Bench, labels: str) -> None:
    for label in labels.split():
        bench.send("q", label=label, headers={"k": label[0]})


class TestLastValue:
    def test_a_browser_sees_the_last_value_of_each_key(self):
        """QT-01: lvq.py test_simple: what a browser sees, and then sees again."""
        bench = last_values("a-1 b-1 a-2 a-3 c-1 c-2")
        browser = bench.read("q", "b", browse=True)
        assert browser.got == "b-1 a-3 c-2"
        send_values(bench, "b-2")
        assert browser.got == "b-1 a-3 c-2 b-2"
        send_values(bench, "c-3 d-1")
        assert browser.got == "b-1 a-3 c-2 b-2 c-3 d-1"
        send_values(bench, "b-3")
        assert browser.got == "b-1 a-3 c-2 b-2 c-3 d-1 b-3"
        assert bench.labels("q") == "a-3 c-3 d-1 b-3"

    @pytest.mark.parametrize("legacy", ["qpid.last_value_queue", "qpid.last_value_queue_no_browse"])
    def test_a_legacy_argument_beside_the_key(self, legacy):
        """QT-01: the key of its own wins, whatever the order; a legacy argument counts by being there."""
        for declared in ({"qpid.last_value_queue_key": "k", legacy: 1}, {legacy: 0}):
            key = "k" if len(declared) == 2 else "qpid.LVQ_key"
            for order in (declared, dict(reversed(declared.items()))):
                bench = bench_with("q", order)
                for label, value in (("1", "a"), ("2", "b"), ("3", "a")):
                    bench.send("q", label=label, headers={key: value})
                assert bench.labels("q") == "2 3"

    def test_a_new_value_takes_a_new_position(self):
        """QT-01, QT-20: testSetPositionLvq: a b c a b c → front position 4, back 6."""
        bench = last_values("a-1 b-1 c-1 a-2 b-2 c-2")
        positions = [event.detail["position"] for event in bench.seen("enqueued")]
        assert positions == [1, 2, 3, 4, 5, 6]
        gone = [event.detail["position"] for event in bench.seen("dequeued")]
        assert gone == [1, 2, 3]


LEVELS = {
    10: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9],
    5: [0, 0, 0, 1, 2, 3, 4, 4, 4, 4, 4, 4],
    1: [0] * 12,
    2: [0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1],
    4: [0, 0, 0, 0, 1, 2, 3, 3, 3, 3, 3, 3],
    11: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10],
}


def in_level_order(priorities: list[int], levels: int) -> str:
    """Return labels <priority>-<n>, highest level first, in order of sending within a level."""
    numbered = [(LEVELS[levels][min(p, 11)], n, p) for n, p in enumerate(priorities)]
    return " ".join(f"{p}-{n}" for level, n, p in sorted(numbered, key=lambda item: (-item[0], item[1])))


def priority_queue(sent: list[int], levels: int = 10) -> Bench:
    bench = bench_with("q", priorities=levels)
    for number, priority in enumerate(sent):
        bench.send("q", label=f"{priority}-{number}", priority=priority)
    return bench


class TestPriorities:
    @pytest.mark.parametrize("levels", LEVELS, ids=[f"QT-04 {levels} levels" for levels in LEVELS])
    def test_messages_come_out_by_priority_level(self, levels):
        """QT-04, QT-05: priorities 0 … 11, sent in a mixed order, come out by level."""
        sent = [5, 11, 0, 3, 8, 1, 9, 2, 10, 7, 4, 6, 5, 0, 11]
        bench = priority_queue(sent, levels)
        assert bench.labels("q") == in_level_order(sent, levels)
        assert bench.read("q").got == in_level_order(sent, levels)

    def test_no_priority_is_zero(self):
        """QT-04: missing = 0; and 0 levels are no priority queue."""
        bench = bench_with("q", priorities=10)
        bench.declare("plain", priorities=0)
        for queue in ("q", "plain"):
            bench.send(queue, label="none")
            bench.send(queue, label="zero", priority=0)
            bench.send(queue, label="one", priority=1)
        assert (bench.labels("q"), bench.labels("plain")) == ("one none zero", "none zero one")

    def test_too_big_is_skipped_here(self):
        """RF-10, CN-08: the cursor of a level is not put back; a release in that level resets it."""
        bench = bench_with("q", priorities=10)
        reader = bench.read("q", volume=150)
        bench.send("q", label="first", size=100)
        bench.send("q", label="big", size=500)
        bench.send("q", label="small", size=50)
        reader.grant(volume=10_000)
        assert (reader.got, bench.labels("q")) == ("first small", "big")
        other = bench.read("q", "other", messages=1)
        assert other.got == "big"
        other.release("big")
        assert reader.got == "first small big"

    def test_too_big_in_the_very_first_scan(self):
        """RF-10: there all positions are forgotten."""
        bench = priority_queue([5, 5])
        reader = bench.read("q", volume=99)
        reader.grant(volume=1)
        assert reader.got == "5-0"

    def test_purge_and_move_take_the_highest_first(self):
        """RF-11, QT-22, QT-23."""
        bench = priority_queue([1, 9, 5, 7])
        bench.declare("other")
        bench.broker.management.purge("q", request=1)
        assert bench.labels("q") == "7-3 5-2 1-0"
        bench.broker.management.queueMoveMessages("q", "other", 2)
        assert (bench.labels("q"), bench.labels("other")) == ("1-0", "7-3 5-2")


class TestFairshare:
    def test_the_state_is_the_queues(self):
        """QT-06: level and count are shared by all readers."""
        bench = bench_with("q", priorities=2, fairshare=2)
        for number in range(6):
            bench.send("q", label=f"high-{number}", priority=9)
            bench.send("q", label=f"low-{number}", priority=0)
        first, second = bench.idle("q", "c1"), bench.idle("q", "c2")
        taken = [reader.fetch() for reader in (first, second, first, second, first, second)]
        assert taken == ["high-0", "high-1", "low-0", "low-1", "high-2", "high-3"]

    def test_without_any_limit(self):
        """QT-06: 0 is no limit: a level is left only when it has no more, whatever comes in above it."""
        bench = bench_with("q", {"qpid.priorities": 2, "qpid.fairshare-5": 0})
        bench.send("q", 2, priority=0)
        assert bench.take("q", 1) == ["p-1"]
        bench.send("q", label="high", priority=9)
        assert bench.take("q", 2) == ["p-2", "high"]

    def test_a_purge_advances_it(self):
        """RF-11: one step for each removed message, and one more when the count is reached."""
        bench = bench_with("q", priorities=2, fairshare=2)
        for number in range(4):
            bench.send("q", label=f"high-{number}", priority=9)
            bench.send("q", label=f"low-{number}", priority=0)
        bench.broker.management.purge("q", request=1)
        assert bench.take("q", 2) == ["low-0", "low-1"]


class TestExpiry:
    @pytest.mark.parametrize(
        ("now", "expired"), [(500_000, False), (500_001, True)], ids=["QT-07 at", "QT-07 after"]
    )
    def test_a_message_expires_after_its_expiration_not_at_it(self, now, expired):
        """QT-07: expiration strictly before now."""
        bench = bench_with("q")
        bench.send("q", ttl=500)
        bench.broker.advance(now)
        assert bench.read("q").got == ("" if expired else "p-1")

    def test_the_cleaner_takes_what_nobody_looks_at(self):
        """QT-07, IN-05: every ``queue_purge_interval`` seconds, of what is AVAILABLE; the acquired stays."""
        bench = Bench(queue_purge_interval=5)
        bench.declare("q")
        bench.send("q", 3, ttl=1)
        bench.send("q", label="lasting")
        bench.read("q", messages=1)
        bench.broker.advance(4_999_999)
        assert (bench.stat("q").msgDepth, bench.stat("q").discardsTtl) == (4, 0)
        bench.broker.advance(5_000_000)
        assert (bench.stat("q").msgDepth, bench.stat("q").discardsTtl) == (2, 2)
        assert [event.message for event in bench.seen("dequeued")] == ["p-2", "p-3"]


class TestAutoDelete:
    def test_emptied_while_unused(self):
        """QT-09, G-16, RF-19 iii: purging its only message deletes it; purging an empty one does not."""
        bench = bench_with("q", auto_delete=True)
        bench.ctl.queue_purge("q")
        assert bench.exists("q")
        bench.send("q", 2)
        bench.broker.management.purge("q", request=1)
        assert bench.exists("q")
        bench.ctl.queue_purge("q")
        assert not bench.exists("q")

    @pytest.mark.parametrize("how", ["move", "reroute"])
    def test_emptied_by_management(self, how):
        """QT-09, RF-19: any dequeue that brings the depth to 0 while it is unused."""
        bench = bench_with("q", auto_delete=True)
        bench.declare("other")
        bench.bind("other", "amq.fanout")
        bench.send("q", 2)
        if how == "move":
            bench.broker.management.queueMoveMessages("q", "other")
        else:
            bench.broker.management.reroute("q", exchange="amq.fanout")
        assert (bench.exists("q"), bench.labels("other")) == (False, "p-1 p-2")

    @pytest.mark.parametrize("how", ["move", "reroute"])
    def test_emptied_and_refilled_by_management(self, how):
        """QT-09, EX-10: it was emptied while unused; that its message came back at once saves it not."""
        bench = bench_with("q", auto_delete=True)
        bench.bind("q", "amq.fanout")
        bench.send("q")
        if how == "move":
            bench.broker.management.queueMoveMessages("q", "q")
        else:
            bench.broker.management.reroute("q", exchange="amq.fanout")
        assert not bench.exists("q")

    def test_ring_eviction_does_not_trigger_it(self):
        """QT-09, RF-19 iii."""
        bench = queue_of(3, auto_delete=True, policy_type="ring", max_count=1)
        assert bench.exists("q")
        assert bench.stat("q").discardsRing == 2

    POLICIES = [
        pytest.param("delete-if-unused", True, True, id="RF-19 unused"),
        pytest.param("delete-if-unused-and-empty", False, True, id="RF-19 unused and empty"),
        pytest.param("manual", False, False, id="RF-19 manual"),
        pytest.param("nonsense", False, False, id="QT-08 an unknown one is ignored"),
    ]

    @pytest.mark.parametrize(("policy", "gone_with_message", "gone_empty"), POLICIES)
    def test_lifetime_policies_imply_auto_delete(self, policy, gone_with_message, gone_empty):
        """RF-19, QT-08: they imply auto-delete."""
        for messages, gone in ((1, gone_with_message), (0, gone_empty)):
            bench = queue_of(messages, {"qpid.lifetime-policy": policy})
            bench.idle("q").cancel()
            assert bench.exists("q") is not gone

    def test_manual_clears_auto_delete(self):
        """QT-08."""
        bench = bench_with("q", {"qpid.lifetime-policy": "manual"}, auto_delete=True)
        bench.idle("q").cancel()
        assert bench.exists("q")

    def test_unused_and_empty_goes_with_its_last_message(self):
        """RF-19: checked at each dequeue that empties it."""
        bench = queue_of(1, {"qpid.lifetime-policy": "delete-if-unused-and-empty"})
        reader = bench.read("q")
        reader.cancel()
        assert bench.exists("q")
        reader.accept("p-1")
        assert not bench.exists("q")

    def test_delete_on_close(self):
        """RF-19: always true, so the dequeue of the last message deletes it under a live consumer."""
        bench = queue_of(2, {"qpid.lifetime-policy": "delete-on-close"})
        reader = bench.read("q")
        reader.accept("p-1")
        assert bench.exists("q")
        reader.accept("p-2")
        assert not bench.exists("q")
        assert reader.session.error.code == 408

    def test_delete_on_close_with_a_browser_left(self):
        """RF-19, CN-23: the exclusive owner's end is a reason only if nobody else reads the queue."""
        bench = bench_with("q", {"qpid.lifetime-policy": "delete-on-close"}, by="owner", exclusive=True)
        browser = bench.read("q", browse=True)
        bench.session("owner").close()
        assert (bench.exists("q"), browser.session.is_attached) == (True, True)
        browser.cancel()
        assert not bench.exists("q")

    def test_the_last_message_expires(self):
        """RF-07, RF-19: the scan that discards it is followed by the auto-delete check."""
        bench = bench_with("q", {"qpid.lifetime-policy": "delete-on-close"})
        bench.send("q", ttl=1)
        bench.broker.advance(1_000_000)
        reader = bench.read("q")
        assert (bench.exists("q"), reader.session.error.code) == (False, 408)

    def test_auto_delete_waits_for_its_timeout(self):
        """QT-08: extensions.py test_timed_autodelete: still there at once, gone afterwards."""
        bench = bench_with("q", by="owner", exclusive=True, auto_delete=True, auto_delete_timeout=3)
        bench.session("owner").close()
        bench.broker.advance(2_999_999)
        assert bench.exists("q")
        bench.broker.advance(3_000_000)
        assert not bench.exists("q")

    def test_a_timeout_implies_auto_delete(self):
        """QT-08."""
        bench = bench_with("q", auto_delete_timeout=1)
        bench.idle("q").cancel()
        bench.broker.advance(1_000_000)
        assert not bench.exists("q")

    def test_a_new_subscription_cancels_the_timer(self):
        """QT-08: and its end starts a new one."""
        bench = bench_with("q", auto_delete_timeout=3)
        bench.idle("q", "c1").cancel()
        bench.broker.advance(2_000_000)
        again = bench.idle("q", "c2")
        bench.broker.advance(4_000_000)
        again.cancel()
        bench.broker.advance(6_000_000)
        assert bench.exists("q")
        bench.broker.advance(7_000_000)
        assert not bench.exists("q")

    def test_each_end_of_use_starts_a_timer(self):
        """QT-08, QT-09: a dequeue which empties the unused queue starts another; the first one counts."""
        bench = queue_of(1, auto_delete_timeout=3)
        bench.idle("q").cancel()
        bench.broker.advance(2_000_000)
        bench.ctl.queue_purge("q")
        bench.broker.advance(3_000_000)
        assert not bench.exists("q")

    def test_a_declare_puts_it_off(self):
        """QT-08: a queue that was declared again meanwhile is given the time once more."""
        bench = bench_with("q", auto_delete_timeout=3)
        bench.idle("q").cancel()
        bench.broker.advance(2_000_000)
        bench.declare("q")
        bench.broker.advance(5_999_999)
        assert bench.exists("q")
        bench.broker.advance(6_000_000)
        assert not bench.exists("q")

    def test_an_exclusive_owner_is_a_user(self):
        """QT-08, RF-19 ii: it goes when the owner goes."""
        bench = bench_with("q", by="owner", exclusive=True, auto_delete=True)
        bench.read("q", "b", browse=True).cancel()
        assert bench.exists("q")
        bench.session("owner").close()
        assert not bench.exists("q")


class TestDeleting:
    def test_delete_if_empty_refuses_a_queue_with_messages(self):
        """QT-21: queue.py test_delete_ifempty: 406; after consuming it works."""
        bench = queue_of(1)
        with refused(406):
            bench.ctl.queue_delete("q", if_empty=True)
        bench.take("q")
        bench.ctl.queue_delete("q", if_empty=True)
        assert not bench.exists("q")

    def test_delete_if_unused_refuses_a_queue_with_a_browser(self):
        """QT-21: queue.py test_delete_ifunused; browsers count."""
        bench = bench_with("q")
        browser = bench.read("q", "b", browse=True)
        with refused(406):
            bench.ctl.queue_delete("q", if_unused=True)
        browser.cancel()
        bench.ctl.queue_delete("q", if_unused=True)
        assert not bench.exists("q")

    def test_deleting_an_unknown_queue_is_refused(self):
        """QT-21: 404."""
        with refused(404):
            Bench().ctl.queue_delete("q")

    def test_messages_on_a_deleted_queue_count_as_abandoned(self):
        """QT-24, DQ-08: stats.py: on delete abandoned + 2, acquired ones included."""
        bench = bench_with("enqueue_test")
        for body in (10, 20, 30, 40):
            bench.send("enqueue_test", size=body + 38)
        statistics = bench.stat("enqueue_test")
        assert (statistics.msgTotalEnqueues, statistics.byteTotalEnqueues) == (4, 100 + 152)
        reader = bench.read("enqueue_test", messages=3)
        reader.accept("p-1", "p-2")
        statistics = bench.stat("enqueue_test")
        assert (statistics.msgTotalDequeues, statistics.byteTotalDequeues) == (2, 30 + 76)
        assert (statistics.msgDepth, statistics.byteDepth) == (2, 70 + 76)
        bench.ctl.queue_delete("enqueue_test")
        shown = bench.broker.statistics()
        assert (shown.abandoned, shown.abandonedViaAlt, shown.queueCount) == (2, 0, 0)
        assert shown.totals["msgTotalDequeues"] == 4

    def full_alternate(self, **declared: object) -> Bench:
        """Queue q with three messages and an alternate whose only queue has room for one."""
        bench = bench_with("full", max_count=1, flow_stop_count=0)
        bench.bind("full", "amq.fanout")
        bench.declare("q", alternate="amq.fanout", **declared)
        bench.send("q", 3)
        return bench

    def test_into_a_full_alternate_to_the_end(self):
        """CF-10, CF-12, EX-03: what was counted stays counted; nobody is told, the alternate stays in use."""
        bench = self.full_alternate()
        reader = bench.read("q", messages=3)
        reader.grant(messages=1)
        before = bench.broker.statistics().totals["acquires"]
        with refused(506):
            bench.ctl.queue_delete("q")
        assert bench.broker.statistics().totals["acquires"] == before
        assert [event.queue for event in bench.seen("queueDelete")] == ["q"]
        assert reader.session.is_attached
        with refused(530, "Cannot delete amq.fanout, in use as alternate-exchange."):
            bench.ctl.exchange_delete("amq.fanout")

    def test_closing_into_a_full_alternate(self):
        """CN-17, QT-08, QT-24: a session ends to the end, whatever becomes of its auto-delete queue."""
        bench = self.full_alternate(auto_delete=True)
        bench.declare("other")
        bench.read("q", "c", "a", messages=1)
        bench.read("other", "c", "b")
        bench.session("c").close()
        assert (bench.exists("q"), bench.stat("other").consumerCount) == (False, 0)

    def test_a_new_queue_of_the_same_name(self):
        """QT-20, QT-21: starts anew: positions from 1, nothing counted."""
        bench = queue_of(2, flow_stop_count=1)
        bench.ctl.queue_delete("q")
        bench.declare("q")
        bench.send("q")
        assert bench.seen("enqueued")[-1].detail["position"] == 1
        assert (bench.stat("q").msgTotalEnqueues, bench.stat("q").flowStoppedCount) == (1, 0)


def test_a_position_is_never_used_again():
    """QT-20: from 1, one for each push, also for replaced and evicted ones; never used again."""
    bench = queue_of(4, policy_type="ring", max_count=2)
    bench.take("q", 2)
    bench.send("q")
    assert [event.detail["position"] for event in bench.seen("enqueued")] == [1, 2, 3, 4, 5]


def test_a_browse_only_queue_gives_each_receiver_all_messages():
    """QT-10: MessagingSessionTests testBrowseOnly: two receivers each get all ten."""
    bench = queue_of(10, {"qpid.browse-only": True})
    readers = [bench.read("q", name) for name in ("c1", "c2")]
    assert [len(reader.got.split()) for reader in readers] == [10, 10]
    readers[0].accept()
    assert bench.stat("q").messageCount == 10
