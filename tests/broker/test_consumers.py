"""Subscriptions, credit, delivery, dispositions and whose turn it is (CN, RF-01 … RF-16).

Beside the recordings ``cr-`` and ``re-``, which tests/conformance plays step by step.
"""

import pytest
from support import BYTES, INFINITE, MESSAGES, NONE, WINDOW, Bench, bench_with, queue_of, refused, run

UNLIMITED = INFINITE
FINITE_MAXIMUM = INFINITE - 1


# Subscribing


def queue_of_another(bench: Bench) -> None:
    bench.declare("mine", by="owner", exclusive=True)
    bench.read("mine", "c")


ERRORS = [
    pytest.param(queue_of_another, 405, "", id="CN-02 CN-23 somebody else's queue"),
    pytest.param(
        lambda b: b.session("c").message_set_flow_mode("x", 0), 404, "Unknown destination x session=c",
        id="CN-02 mode",
    ),
    pytest.param(
        lambda b: b.idle("q").session.message_flow("s", 2, 1), 542, "", id="CN-02 a unit that is none"
    ),
    pytest.param(
        lambda b: b.idle("q").session.message_set_flow_mode("s", 2), 542, "", id="CN-02 a mode that is none"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("act", "code", "text"), ERRORS)
def test_a_wrong_consumer_command_ends_the_session(act, code, text):
    """CN-02: codes and words."""
    bench = queue_of(0)
    with refused(code, text):
        act(bench)


def test_browsers_stand_in_nobodys_way():
    """CN-02, CN-12: of an exclusive consumer, of an exclusive queue, and before an exclusive consumer."""
    bench = queue_of(1)
    assert bench.read("q", "b1", browse=True).got == "p-1"
    assert bench.read("q", "c", exclusive=True).got == "p-1"
    assert bench.read("q", "b2", browse=True).got == ""
    bench.declare("mine", by="owner", exclusive=True)
    bench.send("mine")
    assert bench.read("mine", "b3", browse=True).got == "p-2"


@pytest.mark.parametrize(
    ("frequency", "numbers"),
    [
        pytest.param(2, [0, 1, 3, 4, 6], id="CN-01 every second delivery is followed by a sync"),
        pytest.param(1, [0, 2, 4, 6, 8], id="CN-01 every delivery"),
        pytest.param(0, [0, 1, 2, 3, 4], id="CN-01 never"),
        pytest.param("2", [0, 1, 2, 3, 4], id="CN-01 text is no number"),
    ],
)
def test_sync_frequency_numbers_the_brokers_own_commands(frequency, numbers):
    """CN-01, RF-05: the broker's execution.sync is a command, and takes a number."""
    bench = queue_of(5)
    session = bench.session("c")
    session.message_subscribe("q", "s", arguments={"qpid.sync_frequency": frequency})
    session.message_flow("s", BYTES, UNLIMITED)
    session.message_flow("s", MESSAGES, UNLIMITED)
    assert [event.detail["delivery"] for event in bench.seen("delivered")] == numbers


# Credit


def test_a_grant_after_infinite_changes_nothing():
    """CN-04: infinite is sticky until a stop."""
    bench = queue_of(0)
    reader = bench.read("q")
    reader.grant(messages=1)
    bench.send("q", 5)
    assert reader.got == run(1, 5)
    reader.stop()
    reader.grant(1, UNLIMITED)
    bench.send("q", 5)
    assert reader.got == run(1, 6)


def test_completions_of_what_was_delivered_without_a_limit():
    """RF-09: while infinite, nothing is added to "used"; completed later, it is subtracted all the same."""
    bench = queue_of(20)
    reader = bench.read("q", messages=UNLIMITED, mode=WINDOW)
    reader.stop()
    reader.grant(3, UNLIMITED)
    bench.send("q", 20)
    assert reader.got == run(1, 23)
    reader.complete("p-1", "p-2", "p-3")
    assert reader.got == run(1, 26)


def test_used_wraps_below_zero():
    """RF-09: -5 modulo 2**32: a small balance is not enough, the largest finite one is for three more."""
    bench = queue_of(20)
    reader = bench.read("q", messages=UNLIMITED, mode=WINDOW)
    reader.stop()
    reader.complete("p-1", "p-2", "p-3", "p-4", "p-5")
    reader.grant(10, UNLIMITED)
    bench.send("q", 20)
    assert reader.got == run(1, 20)
    reader.grant(messages=FINITE_MAXIMUM)
    assert reader.got == run(1, 23)


def test_grant_and_flush_as_one_write():
    """CN-09, RF-08: fetch: nothing on an empty queue, and no credit is left for later."""
    bench = queue_of(0)
    reader = bench.idle("q")
    assert reader.fetch() == ""
    bench.send("q", 2)
    assert reader.got == ""
    assert [reader.fetch(), reader.fetch(), reader.fetch()] == ["p-1", "p-2", ""]


# Delivery records


def test_no_record_for_accept_none_in_credit_mode():
    """RF-03: unless it browses; and in window mode there is one until it is completed."""
    bench = queue_of(3)
    browser = bench.read("q", "browser", accept=NONE, browse=True)
    assert browser.unacked == 3
    window = bench.read("q", "window", messages=1, accept=NONE, mode=WINDOW)
    assert window.unacked == 1
    window.stop()
    window.complete()
    assert window.unacked == 0
    credit = bench.read("q", "credit", accept=NONE)
    assert (credit.got, credit.unacked) == ("p-2 p-3", 0)


def test_redundant_records_wait_for_a_sweep():
    """RF-03: a browse with accept none is counted until something names it, or a cancel sweeps all."""
    bench = queue_of(5)
    browser = bench.read("q", "b", accept=NONE, browse=True)
    assert browser.unacked == 5
    browser.accept("p-2")
    assert browser.unacked == 4
    browser.release("p-3")
    assert browser.unacked == 3
    bench.idle("q", "b", "other").cancel()
    assert browser.unacked == 0


def test_cancel_drops_the_completion_requirement():
    """RF-03: for the records with that tag."""
    bench = queue_of(3)
    reader = bench.read("q", mode=WINDOW)
    reader.accept("p-1", "p-2")
    assert reader.unacked == 3
    reader.cancel()
    assert reader.unacked == 1


def test_release_and_reject_of_what_was_browsed():
    """CN-12, RF-03: they do nothing, the record stays; accept ends it."""
    bench = queue_of(2)
    browser = bench.read("q", browse=True)
    browser.release()
    browser.reject()
    assert (browser.unacked, bench.stat("q").messageCount) == (2, 2)
    browser.accept()
    assert (browser.unacked, bench.stat("q").messageCount) == (0, 2)


def test_completion_of_nothing_wakes_the_blocked():
    """RF-04: of all subscriptions of the session, whatever their mode."""
    bench = bench_with("q")
    bench.declare("other")
    blocked = bench.read("q", "c", volume=100)
    bench.send("q", size=500)
    bench.ctl.queue_purge("q")
    bench.send("q", size=50)
    assert blocked.got == ""
    other = bench.idle("other", "c", "another")
    other.session.session_completed()
    assert blocked.got == "p-2"


# Accept, release, reject, acquire


@pytest.mark.parametrize(
    ("numbers", "order"),
    [("p-1 p-2 p-3", "p-3 p-2 p-1"), ("p-1 p-3", "p-1 p-3"), ("p-4 p-1 p-2", "p-2 p-1 p-4")],
    ids=["one range", "two ranges", "ranges in order"],
)
def test_each_range_is_released_last_to_first(numbers, order):
    """CN-14, RF-13: numbers that follow one another are one range, whatever the order they are named in."""
    bench = queue_of(4)
    reader = bench.read("q")
    reader.release(*numbers.split())
    assert " ".join(event.message for event in bench.seen("requeued")) == order


def test_release_wakes_one_consumer_and_all_browsers():
    """CN-14, RF-06: one event for each released message."""
    bench = queue_of(2)
    holder = bench.read("q", "holder", messages=2)
    first, second = bench.read("q", "first"), bench.read("q", "second")
    browser = bench.read("q", "browser", browse=True)
    bench.send("q")
    assert (first.got, browser.got) == ("p-3", "")
    holder.release("p-1")
    assert (first.got, second.got) == ("p-3", "p-1")
    holder.release("p-2")
    assert (first.got, second.got) == ("p-3 p-2", "p-1")


def test_acquire_counts_nothing():
    """RF-02, CN-15: neither acquires nor the delivery count; so the count can go below -1."""
    bench = queue_of(1)
    browser = bench.read("q", "a", browse=True)
    for number in range(3):
        browser.acquire("p-1")
        browser.release("p-1")
        browser = bench.read("q", f"a{number}", browse=True)
    assert bench.stat("q").acquires == 0
    for number in range(2):
        reader = bench.read("q", f"c{number}")
        assert reader.got == "p-1"
        reader.session.close()
    assert bench.read("q", "c2").got == "p-1"


@pytest.mark.parametrize("is_browser", [True, False])
def test_acquire_of_what_was_released(is_browser):
    """RF-02, RF-03: AVAILABLE again, so granted while window mode keeps the record, which has ended."""
    bench = queue_of(1)
    reader = bench.read("q", mode=WINDOW, messages=1, browse=is_browser)
    if is_browser:
        reader.acquire("p-1")
    reader.release("p-1")
    assert reader.acquire("p-1") == reader.numbers(["p-1"])
    reader.accept("p-1")
    reader.session.close()
    statistics = bench.stat("q")
    assert (statistics.msgDepth, statistics.messageCount, statistics.releases) == (1, 0, 1)


def test_acquire_with_accept_none():
    """RF-01: acquired, but nothing ever dequeues it, not even the session's end."""
    bench = queue_of(2)
    browser = bench.read("q", "a", browse=True, accept=NONE)
    assert browser.acquire("p-1") == browser.numbers(["p-1"])
    statistics = bench.stat("q")
    assert (statistics.msgDepth, statistics.messageCount, statistics.msgTotalDequeues) == (2, 1, 0)
    browser.accept("p-1")
    browser.release("p-1")
    browser.reject("p-1")
    browser.session.close()
    statistics = bench.stat("q")
    assert (statistics.msgDepth, statistics.messageCount) == (2, 1)
    bench.ctl.queue_delete("q")
    assert bench.broker.statistics().abandoned == 2


def test_acquire_takes_a_command_number():
    """RF-02, RF-03: the result is a command of the broker, so delivery numbers have a gap."""
    bench = queue_of(1)
    browser = bench.read("q", browse=True)
    browser.acquire("p-1")
    bench.send("q")
    assert [event.detail["delivery"] for event in browser.deliveries()] == [0, 2]


# The end of a subscription, a session, a queue


def test_close_requeues_deliveries_at_their_old_places():
    """CN-17, RF-13, MG-16: last to first, flagged, at the old places; other things end with it."""
    bench = queue_of(3)
    bench.declare("other")
    session = bench.session("c")
    session.exchange_bind("other", "amq.direct", "k", {"x-scope": "session"})
    reader = bench.read("q", "c")
    before = len(bench.events)
    session.close()
    requeued = [event.message for event in bench.events[before:] if event.kind == "requeued"]
    assert requeued == ["p-3", "p-2", "p-1"]
    assert bench.labels("q") == run(1, 3)
    assert (bench.stat("q").consumerCount, bench.stat("other").bindingCount) == (0, 1)
    assert reader.session.is_attached is False
    assert bench.read("q", "d").got == run(1, 3, "*")


def test_queue_deleted_without_credit():
    """RF-15: it notices nothing until it is granted some."""
    bench = queue_of(0)
    stopped = bench.read("q")
    stopped.stop()
    bench.ctl.queue_delete("q")
    assert stopped.session.is_attached
    with refused(408, "Queue q has been deleted."):
        grant_and_flush(stopped)
    assert not stopped.session.is_attached


def grant_and_flush(reader) -> None:
    """Grant in one write with a flush, so that the error is this command's own."""
    with reader.session.pipeline():
        reader.session.message_flow(reader.tag, BYTES, UNLIMITED)
        reader.session.message_flow(reader.tag, MESSAGES, 1)
        reader.session.message_flush(reader.tag)


# Who gets a message


def test_a_backlog_is_shared_in_turns():
    """CN-20, RF-12: one message a turn among the subscriptions of one connection."""
    bench = queue_of(6)
    session = bench.session("c")
    readers = [bench.idle("q", "c", tag, mode=0) for tag in "ab"]
    with session.pipeline():
        for reader in readers:
            reader.grant(UNLIMITED, UNLIMITED)
    assert [reader.got for reader in readers] == ["p-1 p-3 p-5", "p-2 p-4 p-6"]


def test_a_connection_is_served_until_it_has_nothing_more():
    """RF-12, CN-28: released by another connection, one wake-up each; the first served takes all."""
    bench = queue_of(4)
    holder = bench.read("q", "holder", messages=4)
    first, second = bench.read("q", "first"), bench.read("q", "second")
    holder.release()
    assert (first.got, second.got) == (run(1, 4), "")


def test_ones_own_connection_is_served_last():
    """RF-12: the producer is a consumer, too, and first in the list; the browser elsewhere gets it first."""
    bench = bench_with("q")
    bench.read("q", "p")
    bench.read("q", "browser", browse=True)
    bench.send("q")
    assert [event.session for event in bench.seen("delivered")] == ["browser", "p"]


def test_the_closing_sessions_connection_is_served_last():
    """RF-12, RF-14, CN-28: also when another session of it was notified first."""
    bench = queue_of(2)
    closing = bench.read("q", "closing", messages=2, connection="shared")
    neighbour = bench.read("q", "neighbour", connection="shared")
    stranger = bench.read("q", "stranger")
    closing.session.close()
    assert (neighbour.got, stranger.got) == ("", run(1, 2, "*"))


def test_consumer_before_browsers():
    """RF-06, CN-19: one event takes one consumer and all browsers, the consumer first."""
    bench = bench_with("q")
    for name in ("b1", "b2"):
        bench.read("q", name, browse=True)
    bench.read("q", "c1")
    bench.read("q", "c2")
    bench.send("q")
    assert [event.session for event in bench.seen("delivered")] == ["c1"]
    bench.send("q")
    delivered = [(event.session, event.message) for event in bench.seen("delivered")]
    assert delivered == [("c1", "p-1"), ("c2", "p-2")]


def test_a_grant_does_not_wake_who_waits():
    """RF-08, CN-26, MG-13: only who stopped for want of credit."""
    bench = queue_of(0)
    holder = bench.read("q", "holder", messages=1)
    stopped = bench.read("q", "stopped")
    waiting = bench.read("q", "waiting", messages=5)
    stopped.stop()
    bench.send("q")
    holder.grant(messages=0)
    assert holder.got == "p-1"
    bench.send("q")
    assert (stopped.got, waiting.got) == ("", "")
    waiting.grant(messages=1)
    assert waiting.got == ""
    stopped.grant(1, UNLIMITED)
    assert stopped.got == "p-2"


def test_flush_leaves_who_found_nothing_waiting():
    """RF-08: in the list and without credit; a grant does not wake it, the next event does."""
    bench = queue_of(0)
    stopped = bench.read("q", "stopped")
    flushed = bench.read("q", "flushed")
    stopped.stop()
    flushed.flush()
    bench.send("q")
    flushed.grant(2, UNLIMITED)
    assert (stopped.got, flushed.got) == ("", "")
    bench.send("q")
    assert (stopped.got, flushed.got) == ("", "p-1 p-2")


def test_the_first_delivery_wakes_the_blocked():
    """RF-05, CN-24: the client's answer to the broker's session.flush, after the first delivery."""
    bench = bench_with("q")
    bench.declare("other")
    blocked = bench.read("q", "c", "a", volume=100)
    bench.send("q", size=500)
    bench.ctl.queue_purge("q")
    bench.send("q", size=60)
    assert blocked.got == ""
    bench.read("other", "c", "b")
    bench.send("other")
    assert blocked.got == "p-2"


def test_a_browser_passes_over_acquired_messages():
    """RF-10, CN-27, MG-17: those are not shown to it when they are released."""
    bench = queue_of(2)
    holder = bench.read("q", "holder", messages=2)
    browser = bench.read("q", "browser", browse=True)
    holder.release()
    assert browser.got == ""
    assert bench.labels("q") == run(1, 2)
    bench.send("q")
    assert browser.got == "p-3"


def test_what_a_trace_says_of_who_gets_nothing():
    """CN-05, CN-19: "idle" is who waits in the queue's list, "out_of_credit" is who does not."""
    bench = queue_of(1)
    bench.read("q", "poor", volume=99)
    bench.read("q", "rich")
    last = {event.link: event.kind for event in bench.seen("idle", "out_of_credit")}
    assert last == {"poor::s": "out_of_credit", "rich::s": "idle"}


# Exclusive queues


def test_an_exclusive_queue_refuses_other_sessions():
    """CN-23: queue.py test_declare_exclusive: 405 for everybody else's acquiring or administering."""
    bench = bench_with("q", by="owner", exclusive=True)
    attempts = [
        lambda s: s.queue_declare("q", exclusive=True),
        lambda s: s.message_subscribe("q", "t"),
        lambda s: s.queue_delete("q"),
        lambda s: s.exchange_bind("q", "amq.direct", "k"),
        lambda s: s.exchange_unbind("q", "amq.direct", "k"),
    ]
    for number, attempt in enumerate(attempts):
        with refused(405):
            attempt(bench.session(f"other{number}"))
    bench.session("friend").queue_declare("q")
    bench.session("friend").queue_declare("q", passive=True)
    bench.send("q", by="friend")
    assert bench.labels("q") == "friend-1"
    assert bench.read("q", "owner").got == "friend-1"
    bench.session("owner").queue_declare("q", exclusive=True)


def test_ownership_ends_with_the_session():
    """CN-23: the queue survives unless it is auto-delete."""
    bench = bench_with("q", by="owner", exclusive=True)
    bench.declare("auto", by="owner", exclusive=True, auto_delete=True)
    bench.session("owner").close()
    assert (bench.exists("q"), bench.exists("auto")) == (True, False)
    bench.declare("q", by="next", exclusive=True)
    with refused(405):
        bench.read("q", "c")


def test_a_session_can_take_a_queue_without_acquiring_consumers():
    """CN-23: of an existing queue, if it has no acquiring consumer."""
    bench = bench_with("free")
    bench.read("free", "b", browse=True)
    bench.declare("free", by="owner", exclusive=True)
    with refused(405):
        bench.read("free", "c")
    bench.declare("used")
    bench.read("used", "user")
    with refused(405, "Cannot grant exclusive access to queue used"):
        bench.declare("used", by="other", exclusive=True)
    bench.declare("plain")
    with refused(405):
        bench.session("another").queue_declare("plain", exclusive=True, passive=True)
