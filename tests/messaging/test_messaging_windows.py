"""Sender windows: what each lets through, and what a stopped queue does to them (CAP-01 … CAP-11)."""

import pytest
from messaging_support import Bench, address, contents, drain

from qflow import messaging
from qflow.broker.completions import RangeSet
from qflow.client_windows import IdealWindow, QpidCppWindow, QpidPythonWindow, Window, WindowStep, make_window
from qflow.messaging import UNLIMITED, Message, Sender


def stopping(count: int, resume: int = 0) -> dict[str, object]:
    return {"qpid.flow_stop_count": count, "qpid.flow_resume_count": resume, "qpid.max_size": 0}


def numbers(*ranges: tuple[int, int]) -> RangeSet:
    return RangeSet.of(ranges)


def fill(window: Window, count: int) -> None:
    for number in range(count):
        window.note_sent(number)


# The state machines alone


@pytest.mark.parametrize(
    ("window", "unsettled", "step"),
    [
        (IdealWindow, 2, WindowStep.SEND),
        (QpidPythonWindow, 4, WindowStep.WAIT),
        (QpidCppWindow, 4, WindowStep.SYNC),
    ],
)
def test_a_gap_hides_what_is_behind_it(window: type[Window], unsettled: int, step: WindowStep) -> None:
    """CM-14: clients credit from the front; only the ideal window sees 1 and 3 complete behind 0."""
    made = window(4)
    fill(made, 4)
    made.note_reported(numbers((1, 1), (3, 3)))
    assert (made.unsettled(), made.next_step()) == (unsettled, step)


@pytest.mark.parametrize(
    ("window", "capacity", "step"),
    [
        (IdealWindow, 0, WindowStep.REFUSE),
        (QpidPythonWindow, 0, WindowStep.REFUSE),
        (QpidPythonWindow, -1, WindowStep.REFUSE),
        (QpidCppWindow, 0, WindowStep.SYNC),
        (IdealWindow, None, WindowStep.SEND),
        (QpidPythonWindow, None, WindowStep.SEND),
        (QpidCppWindow, None, WindowStep.SEND),
    ],
)
def test_no_capacity_and_any(window: type[Window], capacity: int | None, step: WindowStep) -> None:
    """CAP-03, CAP-07: 0 is an error for qpid-python, and like 1 for qpid-cpp."""
    assert window(capacity).next_step() is step


@pytest.mark.parametrize(
    ("capacity", "asks"), [(1, "1"), (2, "01"), (4, "0011"), (5, "00111"), (10, "0000011111")]
)
def test_python_sync_flag(capacity: int, asks: str) -> None:
    """CAP-07: completions are asked for when at most ⌈capacity/2⌉ places are free, and by who waits."""
    window = QpidPythonWindow(capacity)
    assert window.sync_flag(True)
    flags = ""
    for number in range(capacity):
        flags += str(int(window.sync_flag(False)))
        window.note_sent(number)
    assert flags == asks


@pytest.mark.parametrize(
    ("capacity", "flushes"), [(1, "111"), (3, "111"), (4, "0101"), (8, "001001"), (50, "0" * 12 + "1")]
)
def test_cpp_flushes_each_quarter(capacity: int, flushes: str) -> None:
    """CAP-02: it asks without waiting after ⌊capacity/4⌋ + 1 messages."""
    window = QpidCppWindow(capacity)
    assert "".join(str(int(window.wants_flush())) for _ in flushes) == flushes


def test_cpp_reaps_first_after_a_flush() -> None:
    """CAP-02: the list is only looked at again if the last thing done to it was a flush."""
    window = QpidCppWindow(2)
    window.wants_flush()
    fill(window, 2)
    window.note_reported(numbers((0, 1)))
    assert window.next_step() is WindowStep.SEND, "flushed: reaps, finds both complete"
    fill(window, 2)
    assert window.next_step() is WindowStep.SYNC, "not flushed since: the list has its two entries"


def test_cpp_available_wraps() -> None:
    """CAP-04: lowered below what is outstanding, it is a very large number."""
    window = QpidCppWindow(10)
    fill(window, 10)
    assert window.resize(4), "shrinking flushes"
    assert not window.resize(5)
    assert window.available() == 2**32 - 5


def test_an_unknown_window_is_refused() -> None:
    with pytest.raises(ValueError, match="must be one of 'ideal', 'qpid-python', 'qpid-cpp'; got 'fast'"):
        make_window("fast", 5)


# On a broker


def send_until_blocked(sender: Sender, limit: int = 1000) -> int:
    for sent in range(limit):
        try:
            sender.send("x", sync=False, timeout=0)
        except messaging.InsufficientCapacity:
            return sent
    return limit


@pytest.mark.parametrize(("capacity", "depth"), [(1, 11), (2, 12), (3, 12)])
def test_cpp_alone_on_a_queue_that_stops_at_ten(bench: Bench, capacity: int, depth: int) -> None:
    """CAP-08, G-04: the lazy window stalls below stop + capacity."""
    sender = bench.sender(address("q", stopping(10)), window="qpid-cpp", capacity=capacity)
    send_until_blocked(sender)
    assert bench.stat("q").msgDepth == depth


def test_a_send_of_qpid_cpp_stays_unsettled_until_a_sync(bench: Bench) -> None:
    """CAP-04, CAP-05, CAP-07: qpid-cpp's sends are unsettled until a sync; its capacity is 50, not any."""
    sender = bench.send(address("q"), *"0123456789", window="qpid-cpp")
    assert sender.capacity == 50
    assert (sender.unsettled(), sender.available()) == (10, 40)
    sender.capacity = 3
    assert (sender.unsettled(), sender.available()) == (0, 3), "what the flush brings to light is settled"
    sender.send("x")
    bench.session.sync()
    assert sender.unsettled() == 0
    plain = bench.sender("q")
    assert (plain.capacity, plain.available()) == (UNLIMITED, UNLIMITED)


def test_sync_send_on_a_stopped_queue(bench: Bench) -> None:
    """CAP-07: Timeout, although the message is on the queue; it says who holds it."""
    sender = bench.sender(address("q", stopping(1)))
    sender.send("one")
    before = bench.broker.now
    with pytest.raises(messaging.Timeout, match="sender sync timed out") as raised:
        sender.send("two", timeout=3)
    assert "queue 'q' (flow control ON at 2 messages; OFF below 1)" in str(raised.value)
    assert bench.broker.now - before == 3_000_000
    assert bench.stat("q").msgDepth == 2
    with pytest.raises(messaging.SyncWouldBlock) as blocked:
        sender.send("three")
    assert blocked.value.held_by == ("q",)
    assert [label.rpartition("-")[2] for label in blocked.value.held] == ["2", "3"]
    for _ in range(5):
        sender.send("more", sync=False)
    with pytest.raises(messaging.SyncWouldBlock, match=r"-2, .*-3, … .*-8 \(7 transfers\) are held"):
        sender.sync()


@pytest.mark.parametrize("window", ["ideal", "qpid-python", "qpid-cpp"])
def test_full_window_names_who_holds_it(bench: Bench, window: str) -> None:
    """CAP-01: with no time-out no client could ever make room; the message was not sent."""
    sender = bench.sender(address("orders", stopping(1)), window=window, capacity=1)
    sender.send("one", sync=False)
    sender.send("two", sync=False)
    with pytest.raises(messaging.SendWouldBlock, match="capacity = 1: the window is full") as blocked:
        sender.send("three", sync=False)
    assert blocked.value.held_by == ("orders",)
    assert len(blocked.value.held) == 1
    assert bench.stat("orders").msgDepth == 2
    assert isinstance(blocked.value, messaging.InsufficientCapacity)
    with pytest.raises(messaging.InsufficientCapacity, match="capacity = 1: .* is held by queue 'orders'"):
        sender.send("three", sync=False, timeout=1)


def test_a_time_out_frees_the_sender(bench: Bench) -> None:
    """FC-21, CAP-07: while send waits in virtual time, the unused queue's auto-delete comes."""
    arguments = {**stopping(1), "qpid.auto_delete_timeout": 5}
    sender = bench.sender(address("q", arguments))
    bench.consumer("q").close()
    sender.send("one")
    sender.send("two", timeout=60)
    assert not bench.exists("queue", "q")
    assert bench.broker.now == 5_000_000, "it waited no longer than it had to"


def test_expiry_frees_the_sender(bench: Bench) -> None:
    """Without a time-out, the expiry cleaner is what can still happen."""
    sender = bench.sender(address("q", stopping(1)))
    sender.send(Message("one", ttl=1))
    sender.send(Message("two", ttl=1000))
    assert bench.broker.now == 1_200_000_000, "the second run of the cleaner finds both expired"
    assert bench.stat("q").discardsTtl == 2


def idle_beside_busy(bench: Bench, window: str) -> Sender:
    """Return a sender whose session has another one with a message held."""
    bench.sender(address("busy", stopping(1)))
    bench.sender(address("idle"))
    session = bench.new_session()
    busy, idle = (session.sender(name, window=window) for name in ("busy", "idle"))
    for _ in range(2):
        busy.send("x", sync=False)
    return idle


def test_head_of_line_between_destinations(bench: Bench) -> None:
    """CAP-09, ALT-09: a full qpid-cpp window waits for what another sender's queue holds."""
    idle = idle_beside_busy(bench, "qpid-cpp")
    idle.capacity = 1
    idle.send("y")
    with pytest.raises(messaging.SendWouldBlock) as blocked:
        idle.send("y")
    assert blocked.value.held_by == ("busy",)
    apart = bench.new_session().sender("idle", window="qpid-cpp", capacity=1)
    for _ in range(5):
        apart.send("z")
    assert bench.stat("idle").msgDepth == 6


@pytest.mark.parametrize(
    ("window", "waits"),
    [
        pytest.param("qpid-cpp", True, id="CAP-05 qpid-cpp syncs the session"),
        pytest.param("qpid-python", True, id="CM-14 qpid-python sees no completion behind a gap"),
        pytest.param("ideal", False, id="CM-04 the ideal window learns of its own message"),
    ],
)
def test_sending_with_sync_behind_what_another_sender_has_held(
    bench: Bench, window: str, waits: bool
) -> None:
    """CAP-05, CAP-09: the message itself is complete; another one of the session is not."""
    idle = idle_beside_busy(bench, window)
    if waits:
        with pytest.raises(messaging.Timeout, match="is held by queue 'busy'"):
            idle.send("y", sync=True, timeout=1)
    else:
        idle.send("y", sync=True, timeout=1)
    assert bench.stat("idle").msgDepth == 1


def test_unreliable_links_track_nothing(bench: Bench) -> None:
    """CAP-06."""
    bench.sender(address("q", stopping(1)))
    sender = bench.send("q; {link: {reliability: at-most-once}}", *"01234", capacity=1)
    assert sender.unsettled() == 0
    assert bench.stat("q").msgDepth == 5


def test_contents_arrive_in_order_through_any_window() -> None:
    """CAP-07: 15 messages through capacities 1, 5 and any."""
    for window in ("ideal", "qpid-python", "qpid-cpp"):
        for capacity in (1, 5, UNLIMITED):
            bench = Bench()
            sender = bench.sender(address("q"), window=window, capacity=capacity)
            for number in range(15):
                sender.send(f"m{number}", sync=False)
            assert contents(drain(bench.receiver("q"))) == [f"m{number}" for number in range(15)]
