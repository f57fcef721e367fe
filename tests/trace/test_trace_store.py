"""Traces of brokers with a message store: what the store says is a row, so that a replay is exact (CM-12)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qflow.broker import Broker, Event, Message
from qflow.broker.store import DelayedStore
from qflow.trace.explain import explain
from qflow.trace.files import read_trace, write_trace
from qflow.trace.replaying import Replay, record
from qflow.trace.schema import Trace, TraceError
from qflow.trace.timeline import Checkpoint, Timeline

MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.booleans()),
        st.tuples(st.just("finish"), st.integers(0, 5)),
        st.tuples(st.just("finish all")),
        st.tuples(st.just("sync")),
        st.tuples(st.just("purge")),
        st.tuples(st.just("advance"), st.integers(1, 100)),
    ),
    max_size=30,
)


def play(moves, flushes_on_sync=False):
    store = DelayedStore(flushes_on_sync)
    broker = Broker(store=store)
    trace = record(broker)
    session = broker.session("P")
    session.queue_declare("q", {"qpid.flow_stop_count": 2})
    for name, *arguments in moves:
        if name == "send":
            session.message_transfer(Message(10, "q", durable=arguments[0]))
        elif name == "finish" and store.pending:
            store.finish(store.pending[arguments[0] % len(store.pending)])
        elif name == "finish all":
            for label in store.pending:
                store.finish(label)
        elif name == "sync":
            session.execution_sync()
        elif name == "purge":
            session.queue_purge("q")
        elif name == "advance":
            broker.advance(broker.now + arguments[0])
    return broker, trace


@given(MOVES, st.booleans())
def test_replay_is_exact(moves, flushes_on_sync):
    broker, trace = play(moves, flushes_on_sync)
    replayed = Replay(trace)
    replayed.run()
    assert replayed.difference() is None
    assert replayed.trace == trace
    replayed.broker.advance(broker.now)
    assert replayed.broker.state_hash() == broker.state_hash()
    assert Checkpoint(broker).restore().state_hash() == broker.state_hash()


def test_a_file_holds_it_too(tmp_path):
    _, trace = play([("send", True), ("send", True), ("finish", 1), ("finish all",)])
    write_trace(trace, tmp_path / "t.jsonl")
    read, quarantine = read_trace(tmp_path / "t.jsonl")
    assert not quarantine
    assert Replay(read).run() == trace
    assert [row.message for row in read.rows() if row.kind == "store.finish"] == ["P-2", "P-1"]


def test_a_sync_that_hurries_the_store_is_one_command():
    _, trace = play([("send", True), ("sync",)], flushes_on_sync=True)
    assert "store.finish" not in trace.kind
    assert trace.kind.count("completed") == 3


def test_why_a_durable_transfer_is_not_complete():
    _, trace = play([("send", True), ("advance", 5), ("finish", 0)])
    timeline = Timeline(trace)
    before = explain(timeline, trace.kind.index("enqueued"), "transfer:P-1")
    assert [link.text for link in before.links] == [
        "Transfer P-1 is not complete: it is held by the store.",
        "The message store has not said yet that P-1 is safe; it does at 0.000005 s.",
    ]
    assert before.links[1].rules == ("CM-12",)
    after = explain(timeline, len(trace) - 1, "transfer:P-1")
    assert after.answer == (
        "Transfer P-1 has been complete since 0.000005 s: until then the message store was not done."
    )


def test_a_fork_may_let_the_store_be_done_earlier():
    _, trace = play([("send", True), ("advance", 50), ("purge",), ("finish", 0)])
    timeline = Timeline(trace)
    timeline.seek(trace.kind.index("enqueued"))
    forked = timeline.fork([Event(10, "store.finish", detail={"message": "P-1"})])
    assert Replay(forked).run() == forked
    same = timeline.fork()
    assert Replay(same).run() == same
    assert [row[2:] for row in same.rows()] == [row[2:] for row in trace.rows()]
    done = [row.time for row in forked.rows() if row.kind == "completed" and row.message == "P-1"]
    assert done == [10]


def test_what_the_store_cannot_be_done_with_is_named():
    trace = Trace()
    trace.append(Event(0, "store.finish", detail={"message": "m"}))
    with pytest.raises(TraceError, match=r"row 1 \(store.finish\): .*a trace shows store.open first"):
        Replay(trace).run()
