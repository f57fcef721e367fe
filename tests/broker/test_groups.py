"""Message groups: who owns what, who gets what, and what frees a group (MG).

Beside the recordings ``gr-``, which tests/conformance plays step by step.
"""

from uuid import UUID

import pytest
from support import BYTES, GROUP, MESSAGES, Bench, Reader, arguments, bench_with, of_group

from qflow.broker import INFINITE, Broker


def grouped(labels: str = "", **short: object) -> Bench:
    """A grouped queue q with messages; the letter of a label is its group."""
    bench = Bench()
    bench.group("q", **short)
    bench.send_groups("q", labels)
    return bench


def two_fetchers(bench: Bench) -> tuple[Reader, Reader]:
    """Two consumers without prefetch on two sessions, as in msg_groups.py."""
    return bench.idle("q", "c1"), bench.idle("q", "c2")


# The group identifier


IDENTIFIERS = [
    pytest.param("cart-7", "cart-7", id="MG-04 a string"),
    pytest.param("5", "5", id="MG-04 digits"),
    pytest.param(b"cart-7", "cart-7", id="MG-04 binary strings are strings"),
    pytest.param(5, "5", id="MG-04 an integer is its decimal text"),
    pytest.param(-1, "-1", id="MG-04 a negative integer"),
    pytest.param(2**31, "-2147483648", id="MG-04 X-17 32 bits, signed"),
    pytest.param(2**32 + 5, "5", id="MG-04 what is over 32 bits is cut off"),
    pytest.param(UUID(int=7), "00000000-0000-0000-0000-000000000007", id="MG-04 a uuid"),
    pytest.param(True, "qpid.no-group", id="MG-04 a bool"),
    pytest.param(1.5, "qpid.no-group", id="MG-04 a double"),
    pytest.param(None, "qpid.no-group", id="MG-04 void"),
    pytest.param({"a": 1}, "qpid.no-group", id="MG-04 a map"),
    pytest.param(["a"], "qpid.no-group", id="MG-04 a list"),
    pytest.param("", "qpid.no-group", id="MG-04 an empty string"),
    pytest.param("qpid.no-group", "qpid.no-group", id="MG-05 the default group's own name"),
]


@pytest.mark.parametrize(("value", "group"), IDENTIFIERS)
def test_identifier(value, group):
    """MG-04, MG-05: the text of the application header."""
    bench = grouped()
    bench.send("q", headers={GROUP: value})
    assert bench.owners("q") == {group: (1, "")}


def test_classification_belongs_to_the_queue():
    """MG-03: one message, two queues, two groups."""
    bench = Bench()
    for queue, key in (("by colour", "colour"), ("by size", "size")):
        bench.declare(queue, group_header_key=key, shared_msg_group=1)
        bench.bind(queue, "amq.fanout")
    bench.send("", exchange="amq.fanout", headers={"colour": "red", "size": "large"})
    assert (bench.owners("by colour"), bench.owners("by size")) == ({"red": (1, "")}, {"large": (1, "")})


# The real suites' sequences


def test_multi_consumer():
    """MG-07 … MG-12: QueueTest testGroupsMultiConsumer, its thirty steps."""
    bench = grouped("a-0 a-1 a-2 b-3 b-4 b-5 c-6 c-7 c-8")
    c1, c2 = two_fetchers(bench)
    assert (c1.fetch(), c2.fetch()) == ("a-0", "b-3")
    c1.accept("a-0")
    assert (c2.fetch(), c1.fetch()) == ("a-1", "c-6")
    c2.accept("b-3")
    assert (c1.fetch(), c2.fetch(), c2.fetch()) == ("b-4", "a-2", "")
    c1.accept("c-6")
    assert c2.fetch() == "c-7"
    c2.release("a-1", "a-2")
    assert (c1.fetch(), c1.fetch(), c2.fetch(), c1.fetch()) == ("a-1", "a-2", "c-8", "b-5")
    assert (c1.fetch(), c2.fetch()) == ("", "")
    c1.release("a-1", "a-2", "b-4", "b-5")
    c1.cancel()
    assert c2.fetch() == "a-1"
    c2.accept("a-1", "c-7", "c-8")
    c3 = bench.idle("q", "c3")
    assert (c3.fetch(), c2.fetch(), c3.fetch(), c2.fetch()) == ("a-2", "b-4", "", "b-5")
    c2.accept("b-4", "b-5")
    bench.send_groups("q", "a-9")
    assert c2.fetch() == ""
    bench.send_groups("q", "b-10")
    assert (c2.fetch(), c3.fetch(), c3.fetch()) == ("b-10", "a-9", "")


def test_transaction():
    """MG-22: msg_groups.py test_transaction: accepts keep the group until commit; rollback, then release."""
    bench = grouped("A-0 A-1 B-2 B-3 A-4 B-5")
    c1, c2 = two_fetchers(bench)
    for reader in (c1, c2):
        reader.session.tx_select()
    assert (c1.fetch(), c2.fetch()) == ("A-0", "B-2")
    c1.accept("A-0")
    c2.accept("B-2")
    assert bench.owners("q") == {"A": (3, "c1::s"), "B": (3, "c2::s")}
    c1.session.tx_commit()
    c2.session.tx_rollback()
    assert bench.owners("q") == {"A": (2, ""), "B": (3, "c2::s")}
    c2.release("B-2", set_redelivered=True)
    assert (c2.fetch(), c1.fetch()) == ("A-1", "B-2")
    c1.accept("B-2")
    c2.accept("A-1")
    c1.session.tx_commit()
    assert (c1.fetch(), c2.fetch()) == ("B-3", "A-4")
    c2.accept("A-4")
    c2.session.tx_rollback()
    c2.release("A-1", "A-4", set_redelivered=True)
    assert (c1.fetch(), c2.fetch(), c1.fetch(), c2.fetch()) == ("A-1", "", "A-4", "")
    c1.accept()
    c1.session.tx_commit()
    assert c2.fetch() == "B-5"


# Ownership


def test_state_of_a_group():
    """MG-06, MG-24: it exists while it has members; the last dequeue ends it and its ownership."""
    bench = grouped("A-1 A-2")
    reader = bench.read("q", "c1")
    assert bench.owners("q") == {"A": (2, "c1::s")}
    reader.accept("A-1")
    assert bench.owners("q") == {"A": (1, "c1::s")}
    reader.accept("A-2")
    assert bench.owners("q") == {}
    bench.send_groups("q", "A-3")
    assert bench.owners("q") == {"A": (1, "c1::s")}


def test_what_a_trace_says_of_ownership():
    """MG-07, MG-08: owned by the first acquire, free with the last acquired message."""
    bench = grouped("A-1 A-2 A-3")
    reader = bench.read("q", "c1", messages=2)
    reader.accept("A-1")
    reader.release("A-2")
    changes = bench.seen("group_owned", "group_freed")
    assert [(e.kind, e.queue, e.group, e.link) for e in changes] == [
        ("group_owned", "q", "A", "c1::s"),
        ("group_freed", "q", "A", "c1::s"),
    ]


def test_out_of_order():
    """MG-18, G-09: release A-1, accept A-2: another consumer gets A-1, then A-3; reject avoids it."""
    bench = grouped("A-1 A-2 A-3")
    c1, c2 = two_fetchers(bench)
    assert [c1.fetch(), c1.fetch()] == ["A-1", "A-2"]
    c1.release("A-1")
    assert (bench.owners("q")["A"], c2.fetch()) == ((3, "c1::s"), "")
    c1.accept("A-2")
    assert [c2.fetch(), c2.fetch(), c2.fetch()] == ["A-1", "A-3", ""]
    bench = grouped("A-1 A-2 A-3")
    c1, c2 = two_fetchers(bench)
    assert [c1.fetch(), c1.fetch()] == ["A-1", "A-2"]
    c1.reject("A-1")
    c1.accept("A-2")
    assert [c2.fetch(), c2.fetch()] == ["A-3", ""]


def test_prefetch_bounds_what_is_held():
    """MG-14: the first N of all groups together; the rest of an owned group is blocked for others."""
    bench = grouped("A-1 B-2 A-3 A-4 C-5")
    c1 = bench.read("q", "c1", messages=3)
    c2 = bench.read("q", "c2")
    assert (c1.got, c2.got) == ("A-1 B-2 A-3", "C-5")
    assert bench.owners("q") == {"A": (3, "c1::s"), "B": (1, "c1::s"), "C": (1, "c2::s")}


def test_the_owner_is_a_name():
    """MG-15, MG-16: the same tag on the same session goes on as the owner; another tag does not."""
    bench = grouped("A-1 A-2 A-3")
    first = bench.idle("q", "c1", "tag")
    assert first.fetch() == "A-1"
    first.cancel()
    other = bench.idle("q", "c1", "other tag")
    assert other.fetch() == ""
    again = bench.idle("q", "c1", "tag")
    assert again.fetch() == "A-2"
    assert bench.owners("q")["A"] == (3, "c1::tag")


def test_explicit_acquire_owns_by_the_bare_tag():
    """MG-15, IN-11, RF-02: so two sessions share a group, and the prefetching owner is somebody else."""
    bench = grouped("A-1 A-2 A-3")
    b1, b2 = bench.read("q", "b1", "d", browse=True), bench.read("q", "b2", "d", browse=True)
    assert b1.acquire("A-1") == b1.numbers(["A-1"])
    assert bench.owners("q")["A"] == (3, "d")
    assert b2.acquire("A-2") == b2.numbers(["A-2"])
    consumer = bench.idle("q", "b1", "e")
    assert consumer.fetch() == ""
    b1.accept("A-1")
    assert bench.owners("q")["A"] == (2, "d")
    b2.accept("A-2")
    assert (bench.owners("q")["A"], consumer.fetch()) == ((1, ""), "A-3")


def test_session_close_frees_in_reverse():
    """MG-16, CN-17: each at its old place, flagged; free when the count reaches 0."""
    bench = grouped("A-1 B-2 A-3 B-4")
    bench.read("q", "c1", messages=3).session.close()
    assert bench.owners("q") == {"A": (2, ""), "B": (2, "")}
    assert bench.read("q", "c2").got == "A-1* B-2* A-3* B-4"


# Waking


def test_the_lost_wake_up():
    """MG-13, RF-17, G-10, X-18: an accept frees the group; the idle consumer sleeps on."""
    bench = grouped()
    c1 = bench.read("q", "c1", messages=1)
    c2 = bench.read("q", "c2")
    bench.send_groups("q", "A-1 A-2")
    assert (c1.got, c2.got) == ("A-1", "")
    c1.accept("A-1")
    assert (bench.owners("q")["A"], c2.got) == ((1, ""), "")
    bench.send_groups("q", "B-3")
    assert c2.got == "A-2 B-3"


@pytest.mark.parametrize("how", ["accept", "reject", "release"])
@pytest.mark.parametrize("wake_up", ["faithful", "eager"])
def test_who_is_told(how, wake_up):
    """MG-13: releases notify; accept and reject do so in eager mode only."""
    bench = Bench(wake_up=wake_up)
    bench.group("q")
    c1 = bench.read("q", "c1", messages=1)
    c2 = bench.read("q", "c2")
    bench.send_groups("q", "A-1 A-2")
    getattr(c1, how)("A-1")
    if how == "release":
        assert c2.got == "A-1 A-2"
    else:
        assert c2.got == ("A-2" if wake_up == "eager" else "")


@pytest.mark.parametrize("event", ["a fetch", "a release", "an enqueue"])
def test_what_ends_the_sleep(event):
    """MG-13: its own flush or fetch, a release, an unrelated enqueue."""
    bench = grouped()
    c1 = bench.read("q", "c1", messages=1)
    c2 = bench.read("q", "c2")
    bench.send_groups("q", "A-1 B-2 A-3")
    c1.accept("A-1")
    assert c2.got == "B-2"
    if event == "a fetch":
        c2.fetch()
    elif event == "a release":
        c2.release("B-2")
    else:
        bench.send_groups("q", "C-4")
    assert "A-3" in c2.got.split()


def test_credit_is_asked_before_the_group():
    """RF-07 a: a consumer with too few bytes is stopped by a message it could never get."""
    bench = Bench()
    bench.group("q")
    c1 = bench.read("q", "c1", messages=1)
    c2 = bench.read("q", "c2", volume=100)
    bench.send_groups("q", "A-1")
    bench.send_groups("q", "A-2", size=500)
    bench.send_groups("q", "B-3")
    assert (c1.got, c2.got) == ("A-1", "")
    c2.grant(volume=400)
    assert c2.got == "B-3"


# Browsing


def test_simple_browse():
    """MG-17: msg_groups.py test_simple_browse."""
    bench = grouped("A-0 B-1 A-2 B-3 C-4")
    consumer = bench.idle("q", "c")
    browser = bench.idle("q", "b", browse=True)
    assert browser.fetch() == "A-0"
    assert consumer.fetch() == "A-0"
    assert [browser.fetch() for _ in range(3)] == ["B-1", "A-2", "B-3"]
    assert consumer.fetch() == "B-1"
    assert browser.fetch() == "C-4"
    assert bench.owners("q") == {"A": (2, "c::s"), "B": (2, "c::s"), "C": (1, "")}


def test_browse_only_queue():
    """MG-02, QT-10: grouping has no effect."""
    bench = bench_with("q", {"qpid.browse-only": 1, **arguments(group_header_key=GROUP, shared_msg_group=1)})
    bench.send_groups("q", "A-1 A-2")
    assert [bench.read("q", name).got for name in ("c1", "c2")] == ["A-1 A-2", "A-1 A-2"]
    assert bench.owners("q") == {"A": (2, "")}


# Together with other things


def test_purge_takes_available_messages_only():
    """MG-19: msg_groups.py test_purge_free, test_purge_acquired, test_purge_count."""
    bench = grouped("A-0 B-1 A-2 B-3 C-4 A-5")
    bench.broker.management.purge("q", filter=of_group("B"))
    assert bench.labels("q") == "A-0 A-2 C-4 A-5"
    consumer = bench.idle("q", "c1")
    assert consumer.fetch() == "A-0"
    bench.broker.management.purge("q", request=1, filter=of_group("A"))
    assert bench.labels("q") == "C-4 A-5"
    bench.broker.management.purge("q", filter=of_group("A"))
    assert (bench.labels("q"), bench.owners("q")["A"]) == ("C-4", (1, "c1::s"))


def test_a_ring_frees_a_group_in_use():
    """MG-20, G-11: eviction of the acquired message frees the group while it is still processed."""
    bench = grouped("A-1 A-2", policy_type="ring", max_count=2)
    c1, c2 = two_fetchers(bench)
    assert (c1.fetch(), c2.fetch()) == ("A-1", "")
    bench.send_groups("q", "B-3")
    assert bench.owners("q")["A"] == (1, "")
    assert c2.fetch() == "A-2"


def test_expired_messages_that_a_snapshot_brought():
    """MG-21: who comes past removes them, of other owners' groups too, in a restored broker as well."""
    bench = grouped()
    for label, ttl in (("B-1", 9_000), ("B-2", 1), ("C-3", 9_000)):
        bench.send_groups("q", label, ttl=ttl)
    bench.read("q", "owner of B", messages=1)
    broker = Broker.restore(bench.broker.snapshot())
    broker.advance(1_000_000)
    session = broker.session("c")
    session.message_subscribe("q", "s")
    session.message_flow("s", BYTES, INFINITE)
    session.message_flow("s", MESSAGES, 1)
    assert session.statistics().unackedMessages == 1
    assert broker.queue("q").statistics().discardsTtl == 1


def test_expiry_does_not_free():
    """MG-08, MG-21: it takes AVAILABLE members only; the acquired one keeps the group."""
    bench = grouped("A-1")
    bench.send_groups("q", "A-2", ttl=1)
    c1, c2 = two_fetchers(bench)
    assert c1.fetch() == "A-1"
    bench.broker.advance(1_000_000)
    assert c2.fetch() == ""
    assert (bench.stat("q").discardsTtl, bench.owners("q")) == (1, {"A": (1, "c1::s")})


def test_held_messages_are_consumed_like_others():
    """MG-23: flow control does not matter to a group."""
    bench = grouped("A-1 B-2 A-3", flow_stop_count=1)
    assert bench.held() == "B-2 A-3"
    c1, c2 = two_fetchers(bench)
    assert [c1.fetch(), c2.fetch(), c1.fetch()] == ["A-1", "B-2", "A-3"]
    c1.accept("A-3")
    assert bench.held() == "B-2"


def test_deleting_a_grouped_queue():
    """CN-18, QT-24: msg_groups.py test_queue_delete: nothing breaks."""
    bench = grouped("A-0 B-1 A-2")
    c1, c2 = two_fetchers(bench)
    assert (c1.fetch(), c2.fetch()) == ("A-0", "B-1")
    bench.ctl.queue_delete("q")
    c1.accept()
    c1.session.close()
    c2.session.close()
    assert bench.broker.statistics().abandoned == 3


def test_the_query():
    """MG-24: msg_groups.py test_query: members include acquired ones; a timestamp only if there is one."""
    bench = grouped("A-0 B-1 C-2 A-3 B-4 C-5 A-6")
    c1, c2 = two_fetchers(bench)
    assert (c1.fetch(), c2.fetch()) == ("A-0", "B-1")
    answer = bench.broker.management.query("queue", "q")
    assert set(answer) == {"qpid.message_group_queue"}
    state = answer["qpid.message_group_queue"]
    assert state["group_header_key"] == GROUP
    groups = sorted(state["group_state"], key=lambda group: group["group_id"])
    assert groups == [
        {"group_id": "A", "msg_count": 3, "timestamp": 0, "consumer": "c1::s"},
        {"group_id": "B", "msg_count": 2, "timestamp": 0, "consumer": "c2::s"},
        {"group_id": "C", "msg_count": 2, "timestamp": 0, "consumer": ""},
    ]


def test_the_querys_timestamp():
    """MG-24: of the head member, when arrivals are stamped."""
    bench = Bench(enable_timestamp=True)
    bench.group("q")
    for seconds in (7, 9):
        bench.broker.advance(seconds * 1_000_000)
        bench.send_groups("q", f"A-{seconds}")
    state = bench.broker.management.query("queue", "q")["qpid.message_group_queue"]["group_state"]
    start = bench.broker.options.start_time
    assert [group["timestamp"] - start for group in state] == [7]
    bench.take("q")
    state = bench.broker.management.query("queue", "q")["qpid.message_group_queue"]["group_state"]
    assert [group["timestamp"] - start for group in state] == [9]


def test_an_ungrouped_queue():
    """MG-24: an empty answer."""
    bench = bench_with("q")
    assert bench.broker.management.query("queue", "q") == {}


def test_no_stickiness():
    """MG-25, MG-09: the next message of a group goes to whoever scans first, not to the last owner."""
    bench = grouped("A-1 A-2")
    c1, c2 = two_fetchers(bench)
    assert c1.fetch() == "A-1"
    c1.accept("A-1")
    assert c2.fetch() == "A-2"
