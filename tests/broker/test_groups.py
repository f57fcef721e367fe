"""Message groups: who owns what, who gets what, and what frees a group (MG).

Beside the recordings ``gr-``, which tests/conformance plays step by step.
"""

from uuid import UUID

import pytest
from support import BYTES, GROUP, MESSAGES, Bench, Reader, arguments, bench_with

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
    pytest.param(b"cart-7", "cart-7", id="MG-04 binary strings are strings"),
    pytest.param(-1, "-1", id="MG-04 a negative integer"),
    pytest.param(2**31, "-2147483648", id="MG-04 X-17 32 bits, signed"),
    pytest.param(2**32 + 5, "5", id="MG-04 what is over 32 bits is cut off"),
    pytest.param(UUID(int=7), "00000000-0000-0000-0000-000000000007", id="MG-04 a uuid"),
    pytest.param(None, "qpid.no-group", id="MG-04 void"),
    pytest.param({"a": 1}, "qpid.no-group", id="MG-04 a map"),
    pytest.param(["a"], "qpid.no-group", id="MG-04 a list"),
    pytest.param("", "qpid.no-group", id="MG-04 an empty string"),
    pytest.param("qpid.no-group", "qpid.no-group", id="MG-05 the default group's own name"),
]


@pytest.mark.parametrize(("value", "group"), IDENTIFIERS)
def test_a_header_of_any_type_names_a_group(value, group):
    """MG-04, MG-05: the text of the application header."""
    bench = grouped()
    bench.send("q", headers={GROUP: value})
    assert bench.owners("q") == {group: (1, "")}


# Ownership


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


# Waking


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


def test_browse_only_queue():
    """MG-02, QT-10: grouping has no effect."""
    bench = bench_with("q", {"qpid.browse-only": 1, **arguments(group_header_key=GROUP, shared_msg_group=1)})
    bench.send_groups("q", "A-1 A-2")
    assert [bench.read("q", name).got for name in ("c1", "c2")] == ["A-1 A-2", "A-1 A-2"]
    assert bench.owners("q") == {"A": (2, "")}


# Together with other things


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


def test_the_query_lists_members_acquired_ones_included():
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
