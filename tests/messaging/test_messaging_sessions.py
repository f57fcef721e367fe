"""Sessions, senders and receivers: the cases of the real ``endpoints.py`` (CAP-07, CN-09 … CN-17, CM-10)."""

import math
import sys

import pytest
from messaging_support import Bench, address, contents, drain, is_empty, texts

from qflow import messaging
from qflow.messaging import REJECTED, RELEASED, UNLIMITED, Connection, Disposition, Message, Session, brokers

Q = address("q", delete="always")


def send(bench: Bench, count: int, target: str = Q, session: Session | None = None) -> list[str]:
    sender = (session or bench.session).sender(target)
    texts = [f"m{number}" for number in range(1, count + 1)]
    for text in texts:
        sender.send(text)
    return texts


# Connections


def test_establish_open_close(bench: Bench) -> None:
    connection = Connection(bench.url)
    assert (connection.opened(), connection.attached()) == (False, False)
    with pytest.raises(messaging.ConnectionClosed):
        connection.check_closed()
    connection.open()
    assert (connection.opened(), connection.attached()) == (True, True)
    connection.check_closed()
    with pytest.raises(messaging.ConnectionError, match="already open"):
        connection.open()
    connection.close()
    assert (connection.opened(), connection.attached()) == (False, False)


def test_connection_options_of_the_real_client_are_taken() -> None:
    """Those of the real client are taken, others refused."""
    connection = Connection(
        "guest@somewhere", reconnect=True, transport="tcp", protocol="amqp0-10", heartbeat=5
    )
    assert (connection.host, connection.port, connection.username) == ("somewhere", 5672, "guest")
    assert (connection.reconnect, connection.heartbeat, connection.address_ttl) == (True, 5, 60)
    with pytest.raises(messaging.ConnectionError, match="Unknown connection option speed with value 5"):
        Connection("somewhere", speed=5)
    assert Connection(host="somewhere").url == "somewhere"


def test_urls_name_brokers() -> None:
    """The same broker under every way to write its URL; another one elsewhere."""
    here = Bench()
    Connection.establish(f"amqp://user:secret@{here.url}:5672").session().sender(address("q")).send("x")
    assert here.stat("q").msgDepth == 1
    assert brokers.get(f"{here.url}:5673") is not here.broker
    assert brokers.install(f"{here.url}-again", here.broker) is here.broker
    assert brokers.host(f"{here.url}-again") is brokers.host(here.url)


def test_a_named_session_is_one_until_it_is_closed(bench: Bench) -> None:
    one = bench.connection.session("one")
    assert one is bench.connection.session("one")
    assert one is not bench.connection.session("two")
    assert bench.connection.session() is not bench.connection.session()
    one.close()
    assert bench.connection.session("one") is not one


def test_detach_and_attach(bench: Bench) -> None:
    """CN-17: unacknowledged messages go back; links are made anew; what was prefetched is forgotten."""
    send(bench, 2)
    receiver = bench.receiver("q", capacity=5)
    assert receiver.fetch().content == "m1"
    bench.connection.detach()
    with pytest.raises(messaging.Detached):
        bench.sender("q").send("m3")
    with pytest.raises(messaging.Detached):
        receiver.fetch(0)
    assert bench.stat("q").messageCount == 2
    late = bench.receiver("late; {create: always}")
    bench.connection.attach()
    assert texts(receiver) == "m1* m2*"
    bench.sender("late").send("m")
    assert texts(late) == "m"


@pytest.mark.parametrize(("reliability", "left"), [("unreliable", ""), ("at-least-once", "m1 m2 m3")])
def test_reliability_of_a_subscription(bench: Bench, reliability: str, left: str) -> None:
    """CF-14: the queue of an unreliable subscription does not outlive the attachment."""
    receiver = bench.receiver(f"amq.topic; {{link: {{reliability: {reliability}}}}}")
    send(bench, 3, "amq.topic/x")
    bench.connection.detach()
    bench.connection.attach()
    assert texts(receiver) == left


def test_detaching_aborts_transactions(bench: Bench) -> None:
    """The real client cannot go on with a transaction elsewhere."""
    session = bench.new_session(transactional=True)
    noticed: list[tuple[object, Exception]] = []
    session.set_async_exception_notify_handler(lambda where, error: noticed.append((where, error)))
    session.sender(address("q")).send("x")
    bench.connection.detach()
    with pytest.raises(messaging.TransactionAborted):
        session.check_error()
    assert [where for where, _ in noticed] == [session]
    assert bench.stat("q").msgDepth == 0


# Senders


def test_send_to_a_closed_session(bench: Bench) -> None:
    sender = bench.sender(Q)
    bench.session.close()
    with pytest.raises(messaging.Detached):
        sender.send("x")
    with pytest.raises(messaging.Detached):
        bench.session.sender(Q).send("x")
    with pytest.raises(messaging.SessionClosed):
        bench.session.check_closed()


# Receivers


def test_fetch_raises_empty_after_its_timeout(bench: Bench) -> None:
    """CN-09: Empty at once, and after the time-out, in virtual time; then in order, whatever the time-out."""
    sender, receiver = bench.sender(Q), bench.receiver("q")
    with pytest.raises(messaging.Empty):
        receiver.fetch(0)
    assert bench.broker.now == 0
    with pytest.raises(messaging.Empty):
        receiver.fetch(2)
    assert bench.broker.now == 2_000_000
    for text in ("one", "two", "three"):
        sender.send(text)
    assert contents([receiver.fetch(0), receiver.fetch(2), receiver.fetch()]) == ["one", "two", "three"]
    assert bench.broker.now == 2_000_000


@pytest.mark.parametrize("closes", ["receiver", "session", "connection"])
def test_fetch_from_closed(bench: Bench, closes: str) -> None:
    receiver = bench.receiver(Q)
    {"receiver": receiver, "session": bench.session, "connection": bench.connection}[closes].close()
    with pytest.raises(messaging.LinkClosed):
        receiver.fetch(0)
    receiver.close()


@pytest.mark.parametrize("threshold", [0.5, 1])
@pytest.mark.parametrize("capacity", [5, 10, 100])
def test_available_messages_stay_between_threshold_and_capacity(
    bench: Bench, capacity: int, threshold: float
) -> None:
    """CN-09: available stays between ⌈threshold · capacity⌉ and capacity while the queue has more."""
    sender, receiver = bench.sender(Q), bench.receiver("q")
    receiver.threshold = threshold
    receiver.capacity = capacity
    assert receiver.available() == 0
    for number in range(2 * capacity):
        sender.send(f"m{number}", sync=False)
    sender.sync()
    low = math.ceil(threshold * capacity)
    assert low <= receiver.available() <= capacity
    for part in (capacity // 2, capacity - capacity // 2):
        assert len(drain(receiver, limit=part)) == part
        assert low <= receiver.available() <= capacity
    assert len(drain(receiver)) == capacity
    assert receiver.available() == 0


@pytest.mark.parametrize("reliability", ["unreliable", "at-most-once"])
def test_unreliable_receivers_give_nothing_back(bench: Bench, reliability: str) -> None:
    """CN-11, CN-17: a reliable session that ends gives back; from an unreliable link all is gone."""
    send(bench, 3)
    reliable = bench.consumer("q")
    assert texts(reliable) == "m1 m2 m3"
    reliable.session.close()
    unreliable = bench.consumer(f"q; {{link: {{reliability: {reliability}}}}}")
    assert texts(unreliable) == "m1* m2* m3*"
    unreliable.session.close()
    assert is_empty(bench.receiver("q"))


def test_closing_a_receiver_gives_back_what_was_prefetched(bench: Bench) -> None:
    """CN-14: and keeps what was fetched."""
    send(bench, 4)
    receiver = bench.receiver("q", capacity=3)
    receiver.fetch(0)
    receiver.close()
    assert texts(bench.receiver("q")) == "m2* m3* m4*"


def test_fetch_that_could_never_return(bench: Bench) -> None:
    """No time-out, and no client that could send: it says so, and why."""
    receiver = bench.receiver(Q)
    with pytest.raises(messaging.FetchWouldBlock, match="'q' is empty; no other thread uses this broker"):
        receiver.fetch()
    send(bench, 2)
    other = bench.consumer("q")
    drain(other)
    with pytest.raises(messaging.FetchWouldBlock, match="all 2 on queue 'q' are acquired"):
        receiver.fetch()
    with pytest.raises(messaging.FetchWouldBlock, match="no receiver has a capacity"):
        bench.session.next_receiver()


def test_fetch_names_the_owners_of_groups(bench: Bench) -> None:
    """MG-12."""
    grouped = address("g", {"qpid.group_header_key": "k", "qpid.shared_msg_group": 1})
    bench.send(grouped, *[Message("x", properties={"k": "A"})] * 2)
    bench.consumer("g").fetch(0)
    with pytest.raises(messaging.FetchWouldBlock, match=r"1 of 2 .* available, .* owned: A by client-"):
        bench.consumer("g").fetch()


def test_fetch_waits_for_what_time_brings(bench: Bench) -> None:
    """QT-24: a queue's auto-delete sends its messages to where a consumer waits for them."""
    receiver = bench.receiver("amq.fanout")
    declare = "{alternate-exchange: 'amq.fanout', arguments: {'qpid.auto_delete_timeout': 5}}"
    sender = bench.sender(f"q; {{create: always, node: {{x-declare: {declare}}}}}")
    sender.send("left behind")
    bench.consumer("q").close()
    assert receiver.fetch(timeout=60).content == "left behind"
    assert bench.broker.now == 5_000_000


# Sessions


def test_next_receiver_takes_receivers_in_the_order_of_messages(bench: Bench) -> None:
    """CN-19, CN-20: messages come to three receivers in turn; fetched in the order in which they came."""
    receivers = [bench.receiver(Q, capacity=UNLIMITED) for _ in range(3)]
    send(bench, 10)
    for number in range(1, 11):
        receiver = bench.session.next_receiver(timeout=2)
        assert receiver in receivers and receiver.available() > 0
        assert receiver.fetch().content == f"m{number}"
    with pytest.raises(messaging.Empty):
        bench.session.next_receiver(timeout=2)


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("ack_capacity", [None, 1, 5, UNLIMITED])
def test_unacknowledged_messages_return_on_close(bench: Bench, ack_capacity: object, sync: bool) -> None:
    """CN-13, CN-17: closed without acknowledging, all go back; acknowledged, they are gone."""
    sent = send(bench, 15)
    first = bench.consumer("q")
    assert contents(drain(first)) == sent
    first.session.close()
    second = bench.consumer("q")
    if ack_capacity is not None:
        second.session.ack_capacity = ack_capacity
    assert contents(drain(second)) == sent
    second.session.acknowledge(sync=sync)
    assert (second.unsettled(), second.session.acked) == (0, [])
    second.session.close()
    assert is_empty(bench.receiver("q"))


def test_no_capacity_at_all(bench: Bench) -> None:
    """CAP-07: a capacity of 0 has no room, ever."""
    send(bench, 1)
    sender = bench.sender("q")
    bench.receiver("q").fetch(0)
    sender.capacity = bench.session.ack_capacity = 0
    with pytest.raises(messaging.InsufficientCapacity, match="capacity = 0"):
        sender.send("x", sync=False)
    with pytest.raises(messaging.InsufficientCapacity, match="ack_capacity = 0"):
        bench.session.acknowledge(sync=False)


def test_each_message_is_settled_by_its_own_disposition(bench: Bench) -> None:
    """CN-13 … CN-16: accepted, released with and without the flag, refused; and all at once."""
    send(bench, 5, "q; {create: always, node: {x-declare: {alternate-exchange: 'amq.topic'}}}")
    receiver, refused = bench.receiver("q"), bench.receiver("amq.topic")
    dispositions = (
        None,
        Disposition(RELEASED, set_redelivered=True),
        Disposition(RELEASED),
        Disposition(REJECTED),
        Disposition(REJECTED, code=0, text="test-reject"),
    )
    for message, disposition in zip(drain(receiver), dispositions, strict=True):
        bench.session.acknowledge(message, disposition)
    assert (texts(receiver), texts(refused)) == ("m2* m3", "m4 m5")
    bench.session.acknowledge(disposition=Disposition(RELEASED))
    assert texts(receiver) == "m2* m3"
    bench.session.acknowledge()
    assert bench.stat("q").msgDepth == 0


def test_a_message_is_acknowledged_only_once(bench: Bench) -> None:
    send(bench, 1)
    message = bench.receiver("q").fetch(0)
    bench.session.acknowledge(message)
    with pytest.raises(ValueError, match="not waiting for acknowledgement"):
        bench.session.acknowledge(message)
    bench.session.acknowledge()


def test_acknowledge_behind_a_held_transfer(bench: Bench) -> None:
    """CM-14: a gap hides the confirmation; the real client would wait, the broker has done it."""
    send(bench, 1, session=bench.new_session())
    receiver = bench.receiver("q")
    stopped = bench.sender(address("stopped", {"qpid.flow_stop_count": 1}))
    for _ in range(2):
        stopped.send("x", sync=False)
    message = receiver.fetch(1)
    with pytest.raises(messaging.SyncWouldBlock, match="held by queue 'stopped'"):
        bench.session.acknowledge(message)
    assert bench.stat("q").msgDepth == 0
    assert (bench.session.acked, receiver.unsettled()) == ([message], 1)
    with pytest.raises(messaging.Timeout):
        bench.session.sync(timeout=1)
    bench.stat("stopped").purge(0)
    # The held transfer has asked for no report, and the accept after it was reported before (CM-05).
    with pytest.raises(messaging.SyncWouldBlock, match="the client requested no report"):
        bench.session.sync()
    stopped.send("y")
    bench.session.sync()
    assert bench.session.acked == []


def test_message_received_handler(bench: Bench) -> None:
    called: list[Session] = []
    bench.session.set_message_received_notify_handler(called.append)
    bench.receiver(Q, capacity=UNLIMITED)
    send(bench, 2)
    assert called == [bench.session] * 2


# Transactions


def test_commit_without_transactions() -> None:
    for call in (Bench().session.commit, Bench().session.rollback):
        with pytest.raises(messaging.NontransactionalSession):
            call()


@pytest.mark.parametrize("commits", [True, False])
def test_transaction_of_both_kinds(bench: Bench, commits: bool) -> None:
    """CM-11: consume and publish together, or not at all; what goes back is flagged."""
    send(bench, 3, "from; {create: sender}")
    session = bench.new_session(transactional=True)
    source, target = session.receiver("from"), session.sender("to; {create: always}")
    copies = bench.receiver("to")
    for _ in range(3):
        target.send(source.fetch(0))
        assert is_empty(copies)
    session.acknowledge()
    if commits:
        session.commit()
        assert (texts(bench.receiver("from")), texts(copies)) == ("", "m1 m2 m3")
    else:
        session.rollback()
        assert (texts(bench.receiver("from")), texts(copies)) == ("m1* m2* m3*", "")


def test_commit_into_a_full_queue(bench: Bench) -> None:
    """LP-09: 541, as TransactionAborted; nothing of it happened, and the session is gone."""
    session = bench.new_session(transactional=True)
    send(bench, 10, address("q", {"qpid.max_count": 5}), session)
    with pytest.raises(messaging.TransactionAborted, match="internal-error: Transaction prep") as raised:
        session.commit()
    assert isinstance(raised.value.__cause__, messaging.ServerError)
    assert bench.stat("q").msgDepth == 0
    late = session.sender("q")
    with pytest.raises(messaging.TransactionAborted):
        late.send("x")


# What sessions die of


def test_session_error_surfaces(bench: Bench) -> None:
    """LP-05, LP-06 (testSessionCheckError): the session is gone, the connection lives."""
    sender = bench.sender(address("q", {"qpid.max_count": 1, "qpid.flow_stop_count": 0}))
    sender.send("one", sync=False)
    assert bench.session.get_error() is None
    sender.send("two", sync=False)
    assert isinstance(bench.session.get_error(), messaging.TargetCapacityExceeded)
    with pytest.raises(messaging.TargetCapacityExceeded, match="Maximum depth exceeded on q") as raised:
        bench.session.check_error()
    assert raised.value.code == 506
    bench.session.close()
    assert bench.new_session().receiver("q").fetch(0).content == "one"


def test_a_syntax_error_in_a_queue_filter_ends_the_connection(bench: Bench) -> None:
    """501, as ConnectionError, for every session."""
    other = bench.new_session()
    with pytest.raises(messaging.ConnectionError):
        bench.sender(address("q", {"qpid.filter": "a b c ("}))
    with pytest.raises(messaging.ConnectionError):
        other.sender(Q)


# The package


def test_the_package_exports_the_names_of_the_real_one() -> None:
    """``import *`` gives what the real import gives; tools find Message beside the connection's class."""
    names: dict[str, object] = {}
    exec("from qflow.messaging import *", names)
    exported = "Connection Session Sender Receiver Message Disposition Endpoint uuid4 UNLIMITED REJECTED"
    for name in f"{exported} RELEASED AMQP_PORT AMQPS_PORT Timeout Empty NotFound".split():
        assert name in names
    assert sys.modules[Connection.__module__].Message is Message
