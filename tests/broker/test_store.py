"""Durable messages: a store and flow control may hold the same transfer (CM-12)."""

from __future__ import annotations

import pytest

from qflow.broker import INFINITE, Broker, Message
from qflow.broker.store import DelayedStore


@pytest.fixture
def store() -> DelayedStore:
    return DelayedStore()


@pytest.fixture
def broker(store) -> Broker:
    return Broker(store=store)


def durable(session, queue="q"):
    return session.message_transfer(Message(1, routing_key=queue, durable=True))


def test_cm_12_the_store_may_finish_in_any_order_and_a_sync_waits_for_all(store, broker):
    """CM-06, CM-12: three durable transfers finished last to first; the sync comes after all three."""
    session = broker.session("p")
    session.queue_declare("q")
    transfers = [durable(session) for _ in range(3)]
    session.execution_sync()
    sync = session.completions.next_number - 1
    assert store.pending == ["p-1", "p-2", "p-3"]
    for label in reversed(store.pending):
        assert sync not in session.completed
        store.finish(label)
    assert all(transfer.is_complete for transfer in transfers)
    assert str(session.completed) == "0-4"


def test_cm_12_both_the_store_and_a_stopped_queue_hold(store, broker):
    session, consumer = broker.session("p"), broker.session("c")
    session.queue_declare("q", {"qpid.flow_stop_count": 1})
    durable(session)
    both = durable(session)
    assert both.held_by == ("store", "q")
    consumer.message_subscribe("q", "s")
    consumer.message_flow("s", 1, INFINITE)
    consumer.message_flow("s", 0, 2)
    consumer.message_accept([0, 1])
    assert both.held_by == ("store",), "the queue let go, the store did not"
    store.finish(both.label)
    assert both.is_complete


def test_cm_12_one_completer_for_each_queue(store, broker):
    session = broker.session("p")
    for queue in ("a", "b"):
        session.queue_declare(queue)
        session.exchange_bind(queue, "amq.fanout")
    transfer = session.message_transfer(Message(1, durable=True), "amq.fanout")
    assert transfer.held_by == ("store", "store")
    store.finish(transfer.label)
    assert not transfer.is_complete
    store.finish(transfer.label)
    assert transfer.is_complete


def test_cm_12_messages_that_are_not_durable_and_brokers_without_a_store_do_not_wait(store, broker):
    session = broker.session("p")
    session.queue_declare("q")
    assert session.message_transfer(Message(1, routing_key="q")).is_complete
    plain = Broker().session("p")
    plain.queue_declare("q")
    assert durable(plain).is_complete


def test_cm_12_a_sync_flag_hurries_its_own_message():
    """CM-12, CM-05 a: it is given to the store first, then hurried; a stopped queue still holds it."""
    session = Broker(store=DelayedStore(flushes_on_sync=True)).session("p")
    session.queue_declare("q", {"qpid.flow_stop_count": 1})
    transfers = [session.message_transfer(Message(1, "q", durable=True), sync=True) for _ in range(2)]
    assert [transfer.held_by for transfer in transfers] == [(), ("q",)]
    assert str(session.completions.reported) == "0-1"


@pytest.mark.parametrize("how", ["sync flag", "execution.sync"])
def test_cm_12_a_sync_hurries_the_store(how):
    """CM-12: a sync-flagged transfer or an execution.sync flushes pending messages to the store."""
    store = DelayedStore(flushes_on_sync=True)
    session = Broker(store=store).session("p")
    session.queue_declare("q")
    waiting = durable(session)
    assert not waiting.is_complete
    if how == "sync flag":
        session.message_transfer(Message(1, routing_key="q"), sync=True)
    else:
        session.execution_sync()
    assert waiting.is_complete
    assert store.pending == []


def test_the_store_names_what_is_pending_when_asked_for_something_else(store, broker):
    session = broker.session("p")
    session.queue_declare("q")
    durable(session)
    with pytest.raises(KeyError, match=r"no message 'x' is pending in the store; pending are \['p-1'\]"):
        store.finish("x")


def test_a_snapshot_holds_what_is_pending(store, broker):
    session = broker.session("p")
    session.queue_declare("q")
    durable(session)
    twin = Broker.restore(broker.snapshot())
    assert isinstance(twin.store, DelayedStore)
    twin.store.finish("p-1")
    assert twin.sessions["p"].held == []
    assert len(session.held) == 1
