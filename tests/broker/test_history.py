"""The alternatives of QPID-2935 (rules.md#alt-design-alternatives), and the cluster question (CM-16)."""

from __future__ import annotations

import pytest

from qflow.broker import INFINITE, Broker, BrokerOptions, Event, Message, Session
from qflow.broker.errors import InvalidArgumentException, ResourceLimitExceededException
from qflow.broker.flow_limit import QueueFlowLimit
from qflow.broker.history import INTERVAL, join, replicate
from qflow.broker.options import FLOW_CONTROLS


def send(session: Session, queue: str, count: int = 1, size: int = 0) -> list:
    return [session.message_transfer(Message(size, routing_key=queue)) for _ in range(count)]


def consume(broker: Broker, queue: str, name: str = "c") -> Session:
    """Return a session that has been given everything on a queue."""
    session = broker.session(name)
    session.message_subscribe(queue, "s")
    session.message_flow("s", 1, INFINITE)
    session.message_flow("s", 0, INFINITE)
    return session


def accept_next(session: Session, count: int = 1) -> None:
    open_ones = [record.id for record in session.consuming.records.values() if not record.is_ended]
    session.message_accept(open_ones[:count])


def make(kind: str, arguments: dict, **options) -> tuple[Broker, Session]:
    broker = Broker(BrokerOptions(flow_control=kind, **options))
    session = broker.session("p")
    session.queue_declare("q", arguments)
    return broker, session


def test_alt_01_before_the_feature_the_first_message_too_many_kills_the_session():
    """ALT-01, LP-07: no hold at all, then 506."""
    broker, producer = make(
        "pre-feature", {"qpid.max_count": 3, "qpid.flow_stop_count": 2, "qpid.flow_resume_count": 1}
    )
    assert all(transfer.is_complete for transfer in send(producer, "q", 3))
    with pytest.raises(ResourceLimitExceededException):
        send(producer, "q")
    assert not producer.is_attached
    assert broker.queue("q").message_depth == 3


def test_alt_06_overflow_list_keeps_order_and_blocks_everything_behind_its_head():
    """ALT-02, ALT-06: listed instead of raised, later messages too, ticks, completion withheld."""
    broker, producer = make("overflow-list", {"qpid.max_count": 2})
    producer.queue_declare("idle")
    first = send(producer, "q", 4)
    other = send(producer, "idle")[0]
    assert [t.is_complete for t in first] == [True, True, False, False]
    assert other.held_by == ("overflow list",)
    assert broker.queue("idle").message_depth == 0
    assert broker.queue("q").message_depth == 2
    consumer = consume(broker, "q")
    accept_next(consumer)
    assert broker.queue("q").message_depth == 1, "nothing moves before the tick"
    broker.advance(INTERVAL)
    assert [t.is_complete for t in first] == [True, True, True, False]
    accept_next(consumer, 2)
    broker.advance(2 * INTERVAL)
    assert other.is_complete
    assert broker.queue("idle").message_depth == 1
    assert producer.is_attached


def test_alt_06_what_waits_in_the_list_is_seen():
    """ALT-06: each message that does not fit is told of, with its command and how many wait."""
    broker, producer = make("overflow-list", {"qpid.max_count": 1})
    events: list[Event] = []
    broker.observe(events.append)
    send(producer, "q", 3)
    listed = [(event.session, event.detail) for event in events if event.kind == "listed"]
    assert listed == [("p", {"command": 2, "waiting": 1}), ("p", {"command": 3, "waiting": 2})]


def test_alt_06_a_partly_routed_message_is_tried_on_all_queues_again():
    """ALT-06: what the seed leaves open; retrying all gives duplicates, and we say so."""
    broker, producer = make("overflow-list", {"qpid.max_count": 1})
    producer.queue_declare("wide")
    for queue in ("wide", "q"):
        producer.exchange_bind(queue, "amq.fanout")
    for _ in range(2):
        producer.message_transfer(Message(), "amq.fanout")
    assert broker.queue("wide").message_depth == 2
    consumer = consume(broker, "q")
    accept_next(consumer)
    broker.advance(INTERVAL)
    assert broker.queue("wide").message_depth == 3, "the second message is on the roomy queue twice"


def test_alt_06_the_list_goes_with_the_session():
    broker, producer = make("overflow-list", {"qpid.max_count": 1})
    send(producer, "q", 3)
    producer.close()
    consumer = consume(broker, "q")
    accept_next(consumer)
    broker.advance(5 * INTERVAL)
    assert broker.queue("q").message_depth == 0


@pytest.mark.parametrize(
    ("kind", "sent", "is_on"),
    [("watermark", 2, True), ("shipped", 2, False), ("shipped", 3, True)],
)
def test_alt_08_on_condition(kind, sent, is_on):
    """ALT-03, ALT-04, ALT-07, ALT-08, X-06: the proposal blocks *at* the level, what shipped above it."""
    broker, producer = make(kind, {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 2})
    send(producer, "q", sent)
    assert broker.queue("q").statistics().flowStopped is is_on


def test_alt_07_blocked_is_decided_once_after_all_destinations():
    """ALT-07: a transfer is freed when all its queues are normal, or when it has left them all."""
    broker, producer = make("watermark", {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 1})
    producer.queue_declare("wide")
    for queue in ("q", "wide"):
        producer.exchange_bind(queue, "amq.fanout")
    first, second = (producer.message_transfer(Message(), "amq.fanout") for _ in range(2))
    assert first.is_complete, "q was normal when the first was decided"
    assert second.held_by == ("watermark",)
    here, there = consume(broker, "q"), consume(broker, "wide", "d")
    here.message_accept([1])
    assert not second.is_complete, "consumed from one queue, and q (depth 1) is still not below 1"
    there.message_accept([1])
    assert second.is_complete, "consumed from both"
    assert broker.queue("q").statistics().flowStopped
    here.message_accept([0])
    assert not broker.queue("q").statistics().flowStopped


def test_alt_08_release_by_all_normal_frees_every_flag():
    broker, producer = make("watermark", {"qpid.flow_stop_count": 1, "qpid.flow_resume_count": 1})
    transfers = send(producer, "q", 3)
    consumer = consume(broker, "q")
    accept_next(consumer, 2)
    assert [t.is_complete for t in transfers] == [True, True, False]
    accept_next(consumer)
    assert all(t.is_complete for t in transfers)


def test_alt_12_the_java_broker_stops_the_channel_and_withholds_nothing():
    """ALT-05, ALT-12, X-29: overfull above capacity, the message is taken, resume at <= resume capacity."""
    broker, producer = make("java", {"qpid.flow_stop_size": 100, "qpid.flow_resume_size": 50})
    flow: list[bool] = []
    producer.completions.on_channel_flow = flow.append
    size = 25 - Message(routing_key="q").encoded_size("")
    transfers = send(producer, "q", 5, size)
    assert all(t.is_complete for t in transfers)
    assert flow == [False]
    assert producer.completions.blocking_queues == ["q"]
    late = broker.session("late")
    send(late, "q", 1, size)
    assert late.completions.blocking_queues == ["q"], "one message of overshoot for each channel"
    consumer = consume(broker, "q")
    accept_next(consumer, 3)
    assert broker.queue("q").byte_depth == 75
    assert flow == [False]
    accept_next(consumer)
    assert broker.queue("q").byte_depth == 50
    assert flow == [False, True]
    assert late.completions.blocking_queues == []


def test_alt_12_resume_above_capacity_is_refused():
    with pytest.raises(InvalidArgumentException):
        make("java", {"qpid.flow_stop_size": 100, "qpid.flow_resume_size": 101})


def test_alt_11_completions_in_order_before_the_feature():
    """CM-04, ALT-11: a held transfer hides every later one; today the set has a hole."""
    sets = {}
    for mode in ("any-order", "in-order"):
        broker = Broker(BrokerOptions(completions=mode))
        producer = broker.session("p")
        producer.queue_declare("x", {"qpid.flow_stop_count": 1})
        producer.queue_declare("y")
        send(producer, "x", 2)
        send(producer, "y", 1)
        before = str(producer.completed)
        consumer = consume(broker, "x")
        accept_next(consumer, 2)
        sets[mode] = (before, str(producer.completed))
    assert sets == {"any-order": ("0-2 4", "0-4"), "in-order": ("0-2", "0-4")}


def test_lp_19_ring_strict_refuses_instead_of_dropping_an_acquired_message():
    """LP-19, LP-04: today the word means nothing."""
    arguments = {"qpid.policy_type": "RING_STRICT", "qpid.max_count": 2, "qpid.flow_stop_count": 0}
    broker, producer = make("shipped", arguments, limit_policies="historic")
    send(producer, "q", 3)
    assert broker.queue("q").statistics().discardsRing == 1
    consume(broker, "q")
    with pytest.raises(ResourceLimitExceededException):
        send(producer, "q")
    _, today = make("shipped", arguments)
    with pytest.raises(ResourceLimitExceededException):
        send(today, "q", 3)


@pytest.mark.parametrize("kind", FLOW_CONTROLS)
def test_one_queue_may_differ_from_its_broker(kind):
    """ALT-13: side by side in one broker."""
    broker = Broker()
    producer = broker.session("p")
    producer.queue_declare(
        "q", {"qpid.flow_stop_count": 1, "qpid.flow_resume_count": 1, "qflow.flow_control": kind}
    )
    send(producer, "q", 2)
    holds = {"shipped": [("q",)], "watermark": [("watermark",), ("watermark",)]}
    assert [t.held_by for t in producer.held] == holds.get(kind, [])


def test_unknown_kind_is_refused_by_name():
    with pytest.raises(InvalidArgumentException, match=r"got 'magic', allowed are shipped, pre-feature"):
        Broker().session("p").queue_declare("q", {"qflow.flow_control": "magic"})


@pytest.mark.parametrize("kind", FLOW_CONTROLS)
def test_snapshots_hold_for_every_alternative(kind):
    broker, producer = make(
        kind, {"qpid.max_count": 3, "qpid.flow_stop_count": 2, "qpid.flow_resume_count": 1}
    )
    send(producer, "q", 3)
    twin = Broker.restore(broker.snapshot())
    for each in (broker, twin):
        consumer = consume(each, "q")
        accept_next(consumer, 3)
        each.advance(3 * INTERVAL)
    assert twin.state_hash() == broker.state_hash()


def newcomer(broker: Broker) -> Broker:
    """Return a broker that is told q's flow control the cluster's way, and has all else already."""
    twin = Broker.restore(broker.snapshot())
    old, new = broker.queue("q"), twin.queue("q")
    assert isinstance(old.flow_limit, QueueFlowLimit)
    assert isinstance(new.flow_limit, QueueFlowLimit)
    state = replicate(old.flow_limit)
    assert len(state.encoded) == 36
    join(new.flow_limit, state, {message.position: message.transfer for message in new.store})
    return twin


def test_cm_16_a_newcomer_told_the_clusters_way_stays_equal():
    """CM-16, X-14: same commands, same hash, because what shipped has no timer."""
    broker, producer = make("shipped", {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 1})
    send(producer, "q", 5)
    twin = newcomer(broker)
    assert twin.state_hash() == broker.state_hash()
    for each in (broker, twin):
        send(each.sessions["p"], "q", 2)
        accept_next(consume(each, "q"), 7)
        send(each.sessions["p"], "q", 3)
    assert twin.state_hash() == broker.state_hash()


def test_cm_16_an_on_queue_that_holds_nothing_arrives_as_off():
    """CM-16: flowStopped itself was not sent."""
    broker, producer = make("shipped", {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 1})
    send(producer, "q", 3)
    consume(broker, "q").message_accept([2])
    assert broker.queue("q").statistics().flowStopped
    assert not newcomer(broker).queue("q").statistics().flowStopped


def test_cm_16_with_the_timer_variant_replicas_part_ways():
    """ALT-06, ALT-08: ticks at different moments put different messages on the queue; Alan Conway's worry."""
    broker, producer = make("overflow-list", {"qpid.max_count": 1})
    send(producer, "q", 2)
    twin = Broker.restore(broker.snapshot())
    broker.advance(INTERVAL - 1)
    accept_next(consume(broker, "q"))
    broker.advance(INTERVAL)
    # The same commands in the same order, but this replica's clock is past its tick already.
    twin.advance(INTERVAL)
    accept_next(consume(twin, "q"))
    assert broker.queue("q").message_depth == 1
    assert twin.queue("q").message_depth == 0
    assert twin.state_hash() != broker.state_hash()
