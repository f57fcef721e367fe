"""Producer flow control: when a queue stops, what it holds, and when it lets go (FC).

Beside the recordings ``fc-`` and ``cap-``, which tests/conformance plays step by step.
"""

import pytest
from support import Bench, bench_with, queue_of, refused

# The state machine


def moves(text: str) -> list[tuple[int, int, str]]:
    """Read "7x+100:off": seven times enqueue 100 bytes, OFF after each; - dequeues one of that size."""
    made = []
    for move in text.split():
        times, _, rest = move.rpartition("x")
        size, state = rest.split(":")
        made += [(size[0] + "1", int(size[1:]), state)] * int(times or 1)
    return [(int(sign), size, state) for sign, size, state in made]


TRACES = [
    pytest.param(
        {"flow_stop_count": 7, "flow_resume_count": 5},
        "7x+100:off 2x+100:on 4x-100:on 5x-100:off",
        (0, 0, 1), id="FC-25 FC-14 FC-16 count 7/5 (testFlowCount)",
    ),
    pytest.param(
        {"flow_stop_size": 700, "flow_resume_size": 460},
        "6x+100:off +50:off +40:off +40:on +100:on 3x-100:on -40:on -40:off -50:off 2x-100:off",
        (2, 200, 1), id="FC-25 FC-14 FC-16 size 700/460 (testFlowSize)",
    ),
    pytest.param(
        {"flow_stop_count": 10, "flow_resume_count": 5, "flow_stop_size": 2000, "flow_resume_size": 1000},
        """10x+100:off +50:on 6x-100:on -50:off 4x-100:off
           +1000:off 2x+500:off +50:on -1000:on -50:on -500:off
           9x+100:off +50:on +1000:on -500:on 9x-100:on -50:on -1000:off""",
        (0, 0, 3), id="FC-25 FC-14 FC-16 both units (testFlowCombo)",
    ),
    pytest.param(
        {"max_count": 1000, "flow_stop_count": 900, "flow_resume_count": 500},
        "900x+100:off 5x+100:on 405x-100:on -100:off +100:off",
        (500, 50_000, 1), id="FC-26 X-01 the chapter's 900/500",
    ),
    pytest.param(
        {"flow_stop_count": 3, "flow_resume_count": 3},
        "3x+50:off +50:on -50:on -50:off +50:off",
        (3, 150, 1), id="FC-16 stop == resume == n: ON at n+1, OFF at n-1",
    ),
    pytest.param(
        {"flow_stop_count": 2, "flow_resume_count": 1},
        "2x+50:off +50:on 2x-50:on -50:off",
        (0, 0, 1), id="FC-16 resume 1 means empty",
    ),
    pytest.param(
        {"flow_stop_size": 99, "max_size": 0},
        "+99:off -99:off +100:on -100:off +100:on",
        (1, 100, 2), id="FC-14 one message larger than the stop size",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("short", "trace", "end"), TRACES)
def test_golden_traces(short, trace, end):
    """FC-13, FC-14, FC-16, FC-19, FC-25, FC-26: the state after every enqueue and dequeue."""
    bench = Bench(default_flow_stop_threshold=0, default_flow_resume_threshold=0)
    bench.declare("q", **short)
    assert (bench.stat("q").flowStopped, bench.stat("q").flowStoppedCount) == (False, 0)
    reader = bench.read("q")
    on_queue: dict[int, list[str]] = {}
    for number, (direction, size, state) in enumerate(moves(trace)):
        if direction > 0:
            (transfer,) = bench.send("q", size=size)
            on_queue.setdefault(size, []).append(transfer.label)
        else:
            reader.accept(on_queue[size].pop(0))
        assert ("on" if bench.is_on("q") else "off") == state, f"move {number}"
    statistics = bench.stat("q")
    assert (statistics.msgDepth, statistics.byteDepth, statistics.flowStoppedCount) == end


def test_the_other_units_residue_gates_the_resume():
    """FC-09, G-07: stop_count 0 leaves resume_count 70, so a stop by bytes ends at 69 messages only."""
    bench = queue_of(81, max_count=100, flow_stop_count=0, flow_stop_size=8_000, flow_resume_size=7_900)
    assert bench.is_on("q")
    bench.take("q", 11)
    assert (bench.stat("q").msgDepth, bench.is_on("q")) == (70, True)
    bench.take("q")
    assert (bench.stat("q").msgDepth, bench.is_on("q")) == (69, False)


def test_nothing_else_changes_the_state():
    """FC-18: acquire, release, requeue, browse, arrival, time; nor can an enqueue switch OFF."""
    bench = queue_of(4, flow_stop_count=3, flow_resume_count=2)
    states = []

    def note() -> None:
        states.append((bench.is_on("q"), bench.stat("q").flowStoppedCount, bench.held()))

    reader = bench.read("q")
    note()
    reader.release()
    note()
    reader.session.close()
    note()
    assert bench.labels("q") == "p-1 p-2 p-3 p-4"
    note()
    bench.broker.advance(10**12)
    note()
    assert states == [(True, 1, "p-4")] * 5
    bench.send("q")
    assert bench.held() == "p-4 p-5"
    assert bench.is_on("q")


# Holding and letting go


def test_which_messages_are_held():
    """FC-15: the one that causes ON, and every one sent while ON."""
    bench = bench_with("q", flow_stop_count=2, flow_resume_count=1)
    transfers = bench.send("q", 5)
    assert [transfer.is_complete for transfer in transfers] == [True, True, False, False, False]
    assert [transfer.held_by for transfer in transfers[2:]] == [("q",)] * 3
    assert bench.held() == "p-3 p-4 p-5"


def test_letting_go_while_on_and_when_off():
    """FC-17, X-30: its own dequeue while ON; all of them, in order, when OFF."""
    bench = queue_of(6, flow_stop_count=3, flow_resume_count=2)
    reader = bench.read("q")
    reader.accept("p-5")
    assert (bench.held(), bench.is_on("q")) == ("p-4 p-6", True)
    reader.accept("p-1")
    assert (bench.held(), bench.is_on("q")) == ("p-4 p-6", True)
    reader.accept("p-2")
    assert (bench.held(), bench.is_on("q")) == ("p-4 p-6", True)
    reader.accept("p-3")
    assert (bench.held(), bench.is_on("q")) == ("p-4 p-6", True)
    bench.send("q", by="r")
    reader.accept("p-4")
    assert (bench.held(), bench.held("r"), bench.is_on("q")) == ("p-6", "r-1", True)
    before = len(bench.events)
    reader.accept("p-6")
    assert (bench.held(), bench.held("r"), bench.is_on("q")) == ("", "", False)
    released = [event.message for event in bench.events[before:] if event.kind == "let_go"]
    assert released == ["p-6", "r-1"]


def test_eviction_and_replacement_count():
    """FC-20, FC-23, G-08: a replacement is enqueue, then dequeue: ON at the stop level, depth unchanged."""
    bench = bench_with("q", last_value_queue_key="k", flow_stop_count=2, flow_resume_count=2)
    bench.send("q", label="a1", headers={"k": "a"})
    bench.send("q", label="b1", headers={"k": "b"})
    assert not bench.is_on("q")
    bench.send("q", label="a2", headers={"k": "a"})
    assert (bench.stat("q").msgDepth, bench.is_on("q"), bench.held()) == (2, True, "a2")
    assert bench.stat("q").flowStoppedCount == 1
    bench.send("q", label="a3", headers={"k": "a"})
    assert (bench.stat("q").msgDepth, bench.is_on("q"), bench.held()) == (2, True, "a3")
    bench.take("q")
    assert (bench.is_on("q"), bench.held()) == (False, "")


def test_acquired_messages_survive_a_purge_and_count():
    """FC-20, G-13: two acquired of four remain, and keep the queue ON."""
    bench = queue_of(4, flow_stop_count=2, flow_resume_count=2)
    reader = bench.read("q", messages=2)
    bench.ctl.queue_purge("q")
    assert (bench.stat("q").msgDepth, bench.is_on("q"), bench.held()) == (2, True, "")
    reader.accept("p-1")
    assert (bench.stat("q").msgDepth, bench.is_on("q")) == (1, False)


def test_auto_delete_and_self_destruct_release_too():
    """FC-21: the last consumer goes, and with it the queue."""
    bench = queue_of(2, auto_delete=True, flow_stop_count=1)
    bench.read("q").cancel()
    assert (bench.exists("q"), bench.held()) == (False, "")


def test_rejected_into_a_stopped_alternate():
    """FC-22, CN-16: the same by way of reject."""
    bench = bench_with("q", flow_stop_count=1, alternate="amq.fanout")
    bench.declare("other", flow_stop_count=1, flow_resume_count=1)
    bench.bind("other", "amq.fanout")
    bench.send("other")
    bench.send("q", 2)
    assert bench.held() == "p-3"
    reader = bench.read("q")
    reader.reject("p-3")
    assert (bench.held(), bench.is_on("other")) == ("", True)
    assert bench.completed() == "0-2"


# Together with limits


def test_the_default_size_of_the_suites():
    """FC-24: 78-byte messages, limit 10000: ON at message 103, full at 128 / 9984 bytes."""
    bench = bench_with("q", max_size=10_000)
    for number in range(1, 129):
        bench.send("q", size=78)
        assert bench.is_on("q") == (number >= 103)
    with refused(506):
        bench.send("q", size=78)
    assert (bench.stat("q").msgDepth, bench.stat("q").byteDepth) == (128, 9984)


# Where it is not, and where it is


@pytest.mark.parametrize(
    "short",
    [
        pytest.param({"max_count": 5}, id="FC-03 defaults"),
        pytest.param({"max_count": 5, "flow_stop_count": 2, "flow_resume_count": 1}, id="FC-03 explicit"),
        pytest.param({"max_count": 5, "flow_stop_count": 10, "flow_resume_count": 11}, id="FC-03 nonsense"),
    ],
)
def test_a_ring_never_stops(short):
    """FC-03, LP-14."""
    bench = queue_of(20, policy_type="ring", **short)
    assert (bench.held(), bench.stat("q").flowStopped, bench.stat("q").flowStoppedCount) == ("", False, 0)


def test_no_event_but_the_log():
    """CM-15, IN-09: the state is a statistic; management raises no event for it."""
    bench = queue_of(2, flow_stop_count=1)
    assert [event.detail for event in bench.seen("flow_stopped")] == [{"count": 2, "size": 200}]
    assert bench.seen("queueThresholdCrossedUpward") == []
    bench.ctl.queue_purge("q")
    assert [event.detail for event in bench.seen("flow_resumed")] == [{"count": 0, "size": 0}]
