"""Threshold alerts: when management is told that a queue fills up or empties (QT-11 … QT-14).

Beside the recordings ``al-``, which tests/conformance plays step by step.
"""

import pytest
from support import Bench, bench_with, queue_of

UP, DOWN, OLD = "queueThresholdCrossedUpward", "queueThresholdCrossedDownward", "queueThresholdExceeded"
KINDS = {UP: "up", DOWN: "down", OLD: "old"}


def raised(bench: Bench) -> list[tuple[str, int, int]]:
    """What was raised so far: kind, msgDepth, byteDepth."""
    return [(KINDS[e.kind], e.detail["msgDepth"], e.detail["byteDepth"]) for e in bench.seen(*KINDS)]


@pytest.mark.parametrize(
    ("declared", "messages", "expected"),
    [
        pytest.param({"qpid.alert_count_up": 2, "qpid.alert_count_down": 1}, 2, [("up", 2, 200)], id="QT-11"),
        pytest.param(
            {"qpid.alert_size_up": 200, "qpid.alert_size_down": 1}, 2, [("up", 2, 200)], id="QT-11 size_up"
        ),
        pytest.param(
            {"qpid.max_size": 999}, 8, [("up", 8, 800), ("old", 8, 800)], id="QT-11 799 of 999, truncated"
        ),
        pytest.param({}, 30, [], id="QT-11 only declared limits count"),
        pytest.param(
            {"qpid.alert_count": 2, "qpid.alert_size": 200, "qpid.alert_size_down": 100}, 3,
            [("up", 2, 200), ("up", 2, 200)], id="QT-13 two events from one enqueue, none deprecated",
        ),
        pytest.param(
            {"qpid.alert_count": 3, "qpid.alert_size": 200}, 3,
            [("up", 2, 200), ("old", 2, 200), ("up", 3, 300), ("old", 3, 300)],
            id="QT-13 each with the deprecated one",
        ),
    ],
)  # fmt: skip
def test_what_is_raised(declared, messages, expected):
    """QT-11, QT-13: at or above the threshold, once; events carry the depths of that moment."""
    bench = Bench(default_queue_limit=3000)
    bench.declare("q", declared)
    bench.send("q", messages)
    assert raised(bench) == expected


@pytest.mark.parametrize(
    ("ratio", "at"),
    [(80, 8), (50, 5), (100, 10), (33, 3), (0, None)],
    ids=["QT-11 80", "QT-11 50", "QT-11 100", "QT-11 33, truncated", "QT-11 0 turns it off"],
)
def test_the_event_ratio_decides_when_an_alert_comes(ratio, at):
    """QT-11: default-event-threshold-ratio, an integer percentage of the declared limit."""
    bench = Bench(default_event_threshold_ratio=ratio)
    bench.declare("q", max_count=10)
    bench.send("q", 10)
    assert [event[1] for event in raised(bench) if event[0] == "up"] == ([] if at is None else [at])


@pytest.mark.parametrize(
    ("up", "down", "rearmed"),
    [
        pytest.param(7, None, 3, id="QT-12 half, truncated"),
        pytest.param(10, 9, 9, id="QT-12 just below up"),
    ],
)
def test_an_alert_is_rearmed_at_its_down_level(up, down, rearmed):
    """QT-12: the given one if it is below up, else half of up."""
    bench = queue_of(up + 1, alert_count_up=up, **{} if down is None else {"alert_count_down": down})
    bench.take("q", up + 1)
    assert [event for event in raised(bench) if event[0] == "down"] == [("down", rearmed, rearmed * 100)]


def test_alerts_and_flow_control():
    """QT-14, DQ-02: at the threshold here, above it there; and back: at, and below."""
    bench = bench_with(
        "q", alert_count_up=5, alert_count_down=3, flow_stop_count=5, flow_resume_count=3, max_count=0
    )
    states = []
    bench.send("q", 5)
    states.append((len(raised(bench)), bench.is_on("q")))
    bench.send("q")
    states.append((len(raised(bench)), bench.is_on("q")))
    bench.take("q", 3)
    states.append((len(raised(bench)), bench.is_on("q")))
    bench.take("q")
    states.append((len(raised(bench)), bench.is_on("q")))
    assert states == [(1, False), (1, True), (2, True), (2, False)]


def test_order_of_observers():
    """QT-13, rules.md#order-of-events: groups, alerts, flow limit, so flow control is last."""
    bench = Bench()
    bench.group("q", alert_count_up=2, flow_stop_count=1)
    bench.send_groups("q", "A-1 A-2")
    kinds = [event.kind for event in bench.events if event.kind in (UP, "flow_stopped", "enqueued")]
    assert kinds == ["enqueued", "enqueued", UP, "flow_stopped"]


def test_the_order_of_units():
    """QT-13: bytes before count, on the way up and down."""
    bench = bench_with(
        "q", alert_count_up=2, alert_count_down=1, alert_size_up=150, alert_size_down=120, max_count=0
    )
    bench.send("q", size=100)
    bench.send("q", size=100)
    bench.take("q", 1)
    assert raised(bench) == [("up", 2, 200)] * 2 + [("down", 1, 100)] * 2


def test_very_large_sizes_wrap():
    """QT-11, IN-10: 80 percent of 8 GiB is cut to 32 bits."""
    bench = bench_with("q", max_size=2**33, flow_stop_size=0)
    wrapped = 2**33 * 80 // 100 % 2**32
    bench.send("q", size=wrapped - 1)
    assert raised(bench) == []
    bench.send("q", size=100)
    assert [event[0] for event in raised(bench)] == ["up", "old"]


@pytest.mark.parametrize(
    ("declared", "at"),
    [
        pytest.param({"alert_size": 2**32 + 150}, 2, id="QT-11 IN-10 a given size is cut to 32 bits"),
        pytest.param({"max_count": 53_687_093}, 1, id="QT-11 a count is multiplied in 32 bits"),
    ],
)
def test_levels_of_32_bits(declared, at):
    """QT-11, IN-10: the level that is left is the one which is reached."""
    bench = queue_of(at - 1, flow_stop_count=0, **declared)
    assert raised(bench) == []
    bench.send("q")
    assert [event[0] for event in raised(bench)] == ["up", "old"]
