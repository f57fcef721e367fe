"""Producer flow control: when a queue stops, what it holds, and when it lets go (FC).

Beside the recordings ``fc-`` and ``cap-``, which tests/conformance plays step by step.
"""

from support import queue_of

# The state machine


def test_the_other_units_residue_gates_the_resume():
    """FC-09, G-07: stop_count 0 leaves resume_count 70, so a stop by bytes ends at 69 messages only."""
    bench = queue_of(81, max_count=100, flow_stop_count=0, flow_stop_size=8_000, flow_resume_size=7_900)
    assert bench.is_on("q")
    bench.take("q", 11)
    assert (bench.stat("q").msgDepth, bench.is_on("q")) == (70, True)
    bench.take("q")
    assert (bench.stat("q").msgDepth, bench.is_on("q")) == (69, False)


# Holding and letting go


def test_acquired_messages_survive_a_purge_and_count():
    """FC-20, G-13: two acquired of four remain, and keep the queue ON."""
    bench = queue_of(4, flow_stop_count=2, flow_resume_count=2)
    reader = bench.read("q", messages=2)
    bench.ctl.queue_purge("q")
    assert (bench.stat("q").msgDepth, bench.is_on("q"), bench.held()) == (2, True, "")
    reader.accept("p-1")
    assert (bench.stat("q").msgDepth, bench.is_on("q")) == (1, False)


# Together with limits


# Where it is not, and where it is


def test_no_event_but_the_log():
    """CM-15, IN-09: the state is a statistic; management raises no event for it."""
    bench = queue_of(2, flow_stop_count=1)
    assert [event.detail for event in bench.seen("flow_stopped")] == [{"count": 2, "size": 200}]
    assert bench.seen("queueThresholdCrossedUpward") == []
    bench.ctl.queue_purge("q")
    assert [event.detail for event in bench.seen("flow_resumed")] == [{"count": 0, "size": 0}]
