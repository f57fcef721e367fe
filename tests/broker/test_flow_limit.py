"""Producer flow control: what the recordings do not say of it (FC).

When a queue stops, what it holds and when it lets go is in the recordings ``fc-`` and ``cap-``, which
tests/conformance plays step by step; that it is so at any thresholds, in test_engine_properties.
"""

from support import queue_of


def test_the_other_units_residue_gates_the_resume():
    """FC-09, G-07: stop_count 0 leaves resume_count 70, so a stop by bytes ends at 69 messages only."""
    bench = queue_of(81, max_count=100, flow_stop_count=0, flow_stop_size=8_000, flow_resume_size=7_900)
    assert bench.is_on("q")
    bench.take("q", 11)
    assert (bench.stat("q").msgDepth, bench.is_on("q")) == (70, True)
    bench.take("q")
    assert (bench.stat("q").msgDepth, bench.is_on("q")) == (69, False)


def test_what_is_held_is_let_go_in_the_order_of_arrival():
    """FC-17, X-30: of all senders, when the queue turns OFF."""
    bench = queue_of(4, flow_stop_count=3, flow_resume_count=3)
    bench.send("q", by="r")
    bench.send("q")
    bench.take("q", 3)
    assert bench.seen("let_go") == []
    bench.take("q")
    assert [event.message for event in bench.seen("let_go")] == ["p-4", "r-1", "p-5"]


def test_acquired_messages_survive_a_purge_and_count():
    """FC-20, G-13: two acquired of four remain, and keep the queue ON."""
    bench = queue_of(4, flow_stop_count=2, flow_resume_count=2)
    reader = bench.read("q", messages=2)
    bench.ctl.queue_purge("q")
    assert (bench.stat("q").msgDepth, bench.is_on("q"), bench.held()) == (2, True, "")
    reader.accept("p-1")
    assert (bench.stat("q").msgDepth, bench.is_on("q")) == (1, False)


def test_no_event_but_the_log():
    """CM-15, IN-09: the state is a statistic; management raises no event for it."""
    bench = queue_of(2, flow_stop_count=1)
    assert [event.detail for event in bench.seen("flow_stopped")] == [{"count": 2, "size": 200}]
    assert bench.seen("queueThresholdCrossedUpward") == []
    bench.ctl.queue_purge("q")
    assert [event.detail for event in bench.seen("flow_resumed")] == [{"count": 0, "size": 0}]
