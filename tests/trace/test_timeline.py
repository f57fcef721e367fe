"""The time machine: any instant as it was, quickly, and other courses of events from there."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from trace_commands import Cast, all_commands, fresh

from qflow.broker import INFINITE, Broker, Event, Message
from qflow.trace.files import read_trace, write_trace
from qflow.trace.replaying import Replay, _steps_of, first_difference, give, record, trace_of
from qflow.trace.schema import Trace, TraceError
from qflow.trace.timeline import Checkpoint, Timeline
from qflow.workload import Consumer, Producer, Workload, simulate

quick = settings(max_examples=40)


def workload(duration=3, stop=10, capacity=5):
    return Workload(
        "shop",
        duration=duration,
        queues={"orders": {"qpid.flow_stop_count": stop, "qpid.flow_resume_count": stop // 2}},
        producers=(
            Producer("p1", ("", "orders"), rate=120, capacity=capacity, size=100, seed=1),
            Producer("p2", ("", "orders"), rate=80, capacity=capacity, size=300, seed=2, groups=(4, 1.0)),
        ),
        consumers=(
            Consumer("c1", "orders", prefetch=3, service=("exp", 0.008), seed=3, release=0.05),
            Consumer("c2", "orders", prefetch=3, service=("exp", 0.008), seed=4, start=0.5),
        ),
    )


@pytest.fixture(scope="module")
def trace():
    return trace_of(simulate(workload()))


@pytest.fixture
def timeline(trace):
    return Timeline(trace, spacing=100)


# States


@quick
@given(all_commands, st.data())
def test_the_state_at_any_instant_is_that_of_the_uninterrupted_run(commands, data):
    """Reached in any way, and restored by either codec, the run continues as if nothing had happened."""
    recorded = fresh()
    trace = record(recorded)
    Cast(recorded).play(commands)
    hashes, broker, steps = {}, Broker(trace.options), list(_steps_of(trace))
    for step, after in zip(steps, [*steps[1:], None], strict=True):
        give(broker, step)
        hashes[len(trace) - 1 if after is None else after.row - 1] = broker.state_hash()
    timeline = Timeline(trace, spacing=data.draw(st.integers(1, 60)))
    for row in data.draw(st.lists(st.sampled_from(list(hashes)), min_size=2, max_size=12)):
        timeline.seek(row)
        assert timeline.broker.state_hash() == hashes[row]
    for twin in (Broker.restore(timeline.broker.snapshot()), timeline.restore()):
        continued = trace.empty()
        for place in range(row + 1):
            continued.append_row(trace.row(place))
        twin.observe(continued.append)
        for step in steps:
            if step.row > row:
                give(twin, step)
        assert first_difference(trace, continued) is None
        assert twin.state_hash() == broker.state_hash()


def test_a_long_queue_can_be_packed():
    """Nothing in a state refers to the next in a chain as long as a queue, which pickle could not follow."""
    broker = Broker()
    session = broker.session("p")
    session.queue_declare("q", {"qpid.flow_stop_count": 100})
    for _ in range(5000):
        session.message_transfer(Message(1, "q"))
    assert Checkpoint(broker).restore().queue("q").message_depth == 5000


# Moving


def test_seek_and_steps(trace, timeline):
    assert timeline.seek(50).seq == 50
    assert timeline.step().seq == 51
    assert timeline.step(-2).seq == 49
    assert timeline.step(-1000).seq == 0
    assert timeline.step(10**6).seq == len(trace) - 1
    time_us = trace.time[200]
    assert timeline.seek_time(time_us).time == time_us
    assert timeline.seek_time(0).time == 0
    with pytest.raises(TraceError, match=r"this trace has seq 0 to \d+, got -1"):
        timeline.seek(-1)


def test_the_broker_to_look_at_goes_along_and_one_of_ones_own_stays(timeline):
    timeline.seek(500)
    own = timeline.restore()
    state = own.state_hash()
    assert timeline.broker.state_hash() == state
    timeline.seek(100)
    assert timeline.broker.state_hash() != state
    own.advance(own.now)
    assert own.state_hash() == state
    timeline.seek(500)
    assert timeline.broker.state_hash() == state


# What cannot be shown


def test_a_trace_that_the_engine_does_not_make_has_no_timeline(trace):
    other = trace.empty()
    for row in trace.rows():
        other.append_row(row._replace(size=row.size + (row.kind == "enqueued")))
    with pytest.raises(
        TraceError, match=r"the engine does not do what this trace says.*row \d+ \(enqueued at"
    ):
        Timeline(other)
    with pytest.raises(TraceError, match="a trace without rows has no instant"):
        Timeline(Trace())
    with pytest.raises(TraceError, match="spacing must be a number of rows from 1, got 0"):
        Timeline(trace, spacing=0)


def test_a_trace_that_is_cut_off_can_be_looked_at(trace, tmp_path):
    write_trace(trace, tmp_path / "t.jsonl")
    whole = (tmp_path / "t.jsonl").read_bytes()
    (tmp_path / "t.jsonl").write_bytes(whole[: len(whole) // 2])
    cut, quarantine = read_trace(tmp_path / "t.jsonl")
    assert "the file is cut off" in quarantine.summary()
    assert 100 < len(cut) < len(trace)
    timeline = Timeline(cut)
    timeline.step(10**6)
    assert timeline.cursor == len(cut) - 1
    undisturbed = Timeline(trace)
    undisturbed.seek(len(cut) - 1)
    assert timeline.broker.state_hash() == undisturbed.broker.state_hash()


# Forks


def test_a_fork_without_a_change_is_the_same_run(trace, timeline):
    for row in (0, 500, len(trace) - 1):
        timeline.seek(row)
        rows = [
            [row[2:] for row in one.rows() if "client." not in row.kind] for one in (trace, timeline.fork())
        ]
        assert rows[0] == rows[1]


def test_a_fork_with_an_injected_command_is_a_trace_of_its_own(trace, timeline):
    timeline.seek_time(1_000_000)
    purge = Event(1_200_000, "management", detail={"method": "purge", "arguments": {"queue": "orders"}})
    forked = timeline.fork([purge])
    assert Replay(forked).run() == forked
    assert first_difference(trace, forked).place > timeline.cursor
    assert any(
        kind == "management" and at == 1_200_000 for kind, at in zip(forked.kind, forked.time, strict=True)
    )
    rows = [row for row in forked.rows() if row.kind == "dequeued" and '"purge' in row.detail.lower()]
    assert rows
    assert rows[0].time == 1_200_000


def test_a_message_that_comes_later_in_a_fork_is_settled_then():
    broker = Broker()
    trace = record(broker)
    producer, consumer = broker.session("p"), broker.session("c")
    producer.queue_declare("q")
    consumer.message_subscribe("q", "t")
    consumer.message_flow("t", 1, INFINITE)
    consumer.message_flow("t", 0, 1)
    start = len(trace) - 1
    producer.message_transfer(Message(1, "q"))
    consumer.message_accept([0])
    # The credit is taken away before the message comes, and granted again later.
    stop = Event(0, "message.stop", session="c", detail={"tag": "t"})
    grants = [
        Event(5, "message.flow", session="c", detail={"tag": "t", "unit": unit, "value": 1000})
        for unit in (1, 0)
    ]
    timeline = Timeline(trace)
    timeline.seek(start)
    forked = timeline.fork([stop, *grants])
    told = ("delivered", "dequeued", "message.accept")
    assert [(row.time, row.kind) for row in forked.rows() if row.kind in told] == [
        (0, "message.accept"),
        (5, "delivered"),
        (5, "message.accept"),
        (5, "dequeued"),
    ]
    assert Replay(forked).run() == forked


def test_a_fork_that_cannot_be_says_why(timeline):
    timeline.seek(500)
    with pytest.raises(TraceError, match="got 'enqueued', which is none"):
        timeline.fork([Event(0, "enqueued", queue="orders")])
    with pytest.raises(
        TraceError, match=r"the added command queue.purge: session 'ghost' was never attached"
    ):
        timeline.fork([Event(0, "queue.purge", session="ghost", detail={"queue": "orders"})])
    with pytest.raises(TraceError, match="the added command queue.purge: the engine cannot do this"):
        timeline.fork([Event(0, "queue.purge", session="p1", detail={"queeu": "orders"})])
