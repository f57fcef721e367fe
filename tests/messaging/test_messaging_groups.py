"""Message groups through the messaging API: the cases of ``msg_groups.py`` (MG-05 … MG-22).

Messages are named by group and index: "A0 A1 B2". Consumers have no prefetch, so that each fetch scans.
"""

import pytest
from messaging_support import GROUP, Bench, address, drain

from qflow.messaging import REJECTED, RELEASED, Disposition, Empty, Message, Receiver, Sender, SessionError

QUEUE = "msg-group-q"
GROUPED = address(QUEUE, {"qpid.group_header_key": GROUP, "qpid.shared_msg_group": 1}, delete="sender")


def name(message: Message) -> str:
    return f"{message.properties[GROUP]}{message.content['index']}"


def names(messages: list[Message]) -> str:
    return " ".join(map(name, messages))


def make(label: str, **properties: object) -> Message:
    return Message({"index": int(label[1:])}, properties={GROUP: label[0]}, **properties)


def wanted(group: str) -> dict[str, object]:
    """The filter that management methods take (QT-22)."""
    return {
        "filter_type": "header_match_str",
        "filter_params": {"header_key": GROUP, "header_value": group},
    }


class Scene:
    """A grouped queue with messages on it, and consumers that fetch and acknowledge by name."""

    def __init__(self, labels: str = "", transactional: bool = False, **options: object) -> None:
        self.bench = Bench(**options)
        session = self.bench.new_session(transactional) if transactional else self.bench.session
        self.sender: Sender = session.sender(GROUPED)
        self.held: dict[str, Message] = {}
        self.send(labels)

    def send(self, labels: str) -> None:
        for label in labels.split():
            self.sender.send(make(label))

    def consumer(self, transactional: bool = False) -> Receiver:
        session = self.bench.new_session(transactional)
        # An option the client does not know, as the real suite gives it, makes no difference.
        return session.receiver(QUEUE, options={"capacity": 0})

    def browser(self) -> Receiver:
        return self.bench.new_session().receiver(f"{QUEUE}; {{mode: browse}}")

    def expect(self, receiver: Receiver, labels: str) -> None:
        """Fetch as many messages, and expect these, in this order."""
        for label in labels.split():
            message = receiver.fetch(0)
            assert name(message) == label
            self.held[label] = message

    def expect_nothing(self, receiver: Receiver) -> None:
        """Expect that there is no message to be fetched."""
        with pytest.raises(Empty):
            receiver.fetch(0)

    def ack(self, receiver: Receiver, label: str) -> None:
        receiver.session.acknowledge(self.held.pop(label))


def test_simple() -> None:
    """MG-07 … MG-11, MG-18: two consumers share three groups, one group never two consumers."""
    scene = Scene("A0 A1 A2 B3 B4 B5 C6 C7 C8")
    c1, c2 = scene.consumer(), scene.consumer()
    scene.expect(c1, "A0")
    scene.expect(c2, "B3")
    scene.ack(c1, "A0")
    scene.expect(c2, "A1")
    scene.expect(c1, "C6")
    scene.ack(c2, "B3")
    scene.expect(c1, "B4")
    scene.ack(c1, "C6")
    scene.expect(c2, "A2 C7")
    c2.session.acknowledge()
    scene.expect(c2, "C8")
    scene.ack(c1, "B4")
    scene.expect(c2, "B5")
    scene.expect_nothing(c1)
    c1.session.acknowledge()
    c2.session.acknowledge()
    for link in (c1, c2, scene.sender):
        link.close()
    assert not scene.bench.exists("queue", QUEUE)


def test_simple_browse() -> None:
    """MG-17: a browser sees what is available of any group, and takes no ownership."""
    scene = Scene("A0 B1 A2 B3 C4")
    consumer, browser = scene.consumer(), scene.browser()
    scene.expect(browser, "A0")
    scene.expect(consumer, "A0")
    scene.expect(browser, "B1 A2 B3")
    scene.expect(consumer, "B1")
    scene.expect(browser, "C4")


@pytest.mark.parametrize(
    ("disposition", "next_one"),
    [(Disposition(RELEASED, set_redelivered=True), "A0"), (Disposition(REJECTED), "A1")],
    ids=["release", "reject"],
)
def test_release_and_reject(disposition: Disposition, next_one: str) -> None:
    """MG-08: both free the group when nothing of it is acquired any more."""
    scene = Scene("A0 A1 B2 B3")
    c1, c2 = scene.consumer(), scene.consumer()
    scene.expect(c1, "A0")
    scene.expect(c2, "B2")
    c1.session.acknowledge(scene.held["A0"], disposition)
    scene.expect(c2, next_one)


def test_close() -> None:
    """MG-15, MG-16: closing the receiver keeps the group, closing its session frees it."""
    scene = Scene("A0 A1 B2 B3")
    c1, c2 = scene.consumer(), scene.consumer()
    scene.expect(c1, "A0")
    scene.expect(c2, "B2")
    c1.close()
    scene.expect(c2, "B3")
    scene.expect_nothing(c2)
    c1.session.close()
    scene.expect(c2, "A0 A1")
    scene.expect_nothing(c2)


def test_transaction() -> None:
    """MG-22: accepts keep the group until commit; rollback gives everything back in order."""
    scene = Scene("A0 A1 B2 B3 A4 B5")
    c1, c2 = scene.consumer(transactional=True), scene.consumer(transactional=True)
    scene.expect(c1, "A0")
    scene.expect(c2, "B2")
    scene.ack(c1, "A0")
    scene.ack(c2, "B2")
    c1.session.commit()
    c2.session.rollback()
    scene.expect(c2, "A1")
    scene.expect(c1, "B2")
    scene.ack(c2, "A1")
    scene.ack(c1, "B2")
    c1.session.commit()
    scene.expect(c1, "B3")
    scene.expect(c2, "A4")
    scene.ack(c2, "A4")
    c2.session.rollback()
    scene.expect(c1, "A1")
    scene.expect_nothing(c2)
    scene.expect(c1, "A4")
    c1.session.acknowledge()
    scene.expect_nothing(c2)
    c1.session.commit()
    scene.expect(c2, "B5")
    c2.session.acknowledge()
    c2.session.commit()
    assert scene.bench.stat(QUEUE).msgDepth == 0


def test_send_transaction() -> None:
    """MG-22, CM-10: what is sent in a transaction joins its group at commit."""
    scene = Scene("A0 B1", transactional=True)
    scene.sender.session.commit()
    scene.send("A2")
    c1, c2 = scene.consumer(transactional=True), scene.consumer(transactional=True)
    scene.expect(c1, "A0")
    scene.expect(c2, "B1")
    scene.expect_nothing(c1)
    scene.expect_nothing(c2)
    scene.sender.session.commit()
    scene.send("B3")
    scene.expect_nothing(c2)
    scene.expect(c1, "A2")
    scene.sender.session.commit()
    scene.expect_nothing(c1)
    scene.expect(c2, "B3")
    c1.session.rollback()
    scene.expect(c2, "A0 A2")
    c2.session.acknowledge()
    c2.session.commit()


def test_query() -> None:
    """MG-24: management shows each group, how many messages it has and who owns it."""
    scene = Scene("A0 B1 C2 A3 B4 C5 A6")
    c1, c2 = scene.consumer(), scene.consumer()
    c1.fetch(0)
    c2.fetch(0)
    answer = scene.bench.object("broker", "amqp-broker").query("queue", QUEUE)
    assert (answer.status, answer.text) == (0, "OK")
    shown = answer.outArgs["results"]["qpid.message_group_queue"]
    assert shown["group_header_key"] == GROUP
    state = {
        group["group_id"]: (group["msg_count"], bool(group["consumer"])) for group in shown["group_state"]
    }
    assert state == {"A": (3, True), "B": (2, True), "C": (2, False)}


SIX = "A0 B1 A2 B3 C4 A5"


@pytest.mark.parametrize(
    ("acquires", "count", "group", "left"),
    [
        (False, 0, "B", "A0 A2 C4 A5"),
        (True, 0, "A", "B1 B3 C4"),
        (True, 1, "A", "B1 B3 C4 A5"),
    ],
    ids=["free", "acquired", "count"],
)
def test_purge(acquires: bool, count: int, group: str, left: str) -> None:
    """MG-19, QT-22: purge takes what is available of a group, also of an owned one; counts what matches."""
    scene = Scene(SIX)
    consumer = scene.consumer()
    if acquires:
        scene.expect(consumer, "A0")
    queue = scene.bench.stat(QUEUE)
    assert queue.msgDepth == 6
    assert queue.purge(count, wanted(group)).status == 0
    queue.update()
    assert queue.msgDepth == len(left.split()) + acquires
    assert names(drain(scene.browser())) == left
    consumer.session.acknowledge()


@pytest.mark.parametrize(
    ("acquires", "count", "group", "left", "moved"),
    [(True, 0, "A", "B1 B3 C4", "A2 A5"), (False, 3, "B", "A0 A2 C4 A5", "B1 B3")],
    ids=["all", "count"],
)
def test_move(acquires: bool, count: int, group: str, left: str, moved: str) -> None:
    """MG-19, QT-23: a move leaves what is acquired, and classifies anew at the destination."""
    scene = Scene(SIX)
    scene.bench.receiver(GROUPED.replace(QUEUE, "dest-q").replace("sender", "receiver"))
    if acquires:
        scene.expect(scene.consumer(), "A0")
    broker = scene.bench.object("broker", "amqp-broker")
    assert broker.queueMoveMessages(QUEUE, "dest-q", count, wanted(group)).status == 0
    assert names(drain(scene.browser())) == left
    browser = scene.bench.consumer("dest-q; {mode: browse}")
    assert names(drain(browser)) == moved


def test_reroute() -> None:
    """MG-19, QT-23: what is available of a group goes through an exchange."""
    scene = Scene(SIX)
    rerouted = scene.bench.receiver("reroute-q; {create: always, delete: receiver, node: {type: topic}}")
    consumer = scene.consumer()
    scene.expect(consumer, "A0")
    queue = scene.bench.stat(QUEUE)
    assert queue.reroute(0, False, "reroute-q", wanted("A")).status == 0
    assert names(drain(scene.consumer())) == "B1 B3 C4"
    assert names(drain(rerouted)) == "A2 A5"
    consumer.session.acknowledge()


def test_queue_delete() -> None:
    """CN-18, RF-15: deleting a queue whose groups are owned harms no consumer until it asks for more."""
    scene = Scene("A0 B1 A2 B3 C4")
    c1, c2 = scene.consumer(), scene.consumer()
    scene.expect(c1, "A0")
    scene.expect(c2, "B1")
    scene.sender.close()
    scene.bench.session.close()
    assert not scene.bench.exists("queue", QUEUE)
    c1.session.acknowledge()
    assert scene.bench.object("session", c1.session.name).unackedMessages == 0
    for receiver in (c1, c2):
        with pytest.raises(SessionError) as raised:
            receiver.fetch(0)
        assert raised.value.code == 408
        assert str(raised.value).startswith(f"resource-deleted: Queue {QUEUE} has been deleted.")


def test_default_group_id() -> None:
    """MG-05: a message without the header belongs to the default group."""
    scene = Scene()
    scene.sender.send(Message({}, properties={"NO-GROUP-HEADER": "HA-HA"}))
    answer = scene.bench.object("broker", "amqp-broker").query("queue", QUEUE)
    shown = answer.outArgs["results"]["qpid.message_group_queue"]["group_state"]
    assert [group["group_id"] for group in shown] == ["qpid.no-group"]


def test_transaction_order() -> None:
    """MG-22: rollback keeps the order (QPID-3804)."""
    scene = Scene("A0 B1 A2")
    consumer = scene.consumer(transactional=True)
    scene.expect(consumer, "A0")
    scene.ack(consumer, "A0")
    consumer.session.rollback()
    scene.expect(consumer, "A0 B1 A2")
    consumer.session.commit()
    consumer.close()
    consumer.session.close()
    scene.sender.close()


def test_ttl_expire() -> None:
    """MG-21, QT-07: expired messages are passed over and never give ownership."""
    scene = Scene()
    for label in ("A0", "B1", "C2", "A3", "B4", "C5"):
        scene.sender.send(make(label, ttl=1 if label[0] == "B" else None))
    scene.bench.sleep(2)
    c1, c2 = scene.consumer(), scene.consumer()
    scene.expect(c1, "A0")
    scene.expect(c2, "C2")
    scene.expect(c1, "A3")
    scene.expect(c2, "C5")
    scene.expect_nothing(c1)
    scene.expect_nothing(c2)
    assert scene.bench.stat(QUEUE).discardsTtl == 2


@pytest.mark.parametrize(("wake_up", "at_once"), [("faithful", 0), ("eager", 1)])
def test_lost_wake_up(wake_up: str, at_once: int) -> None:
    """MG-13: an accept that frees a group wakes no idle consumer; the next enqueue does."""
    scene = Scene("A1 A2", wake_up=wake_up)
    fetching, prefetching = scene.consumer(), scene.consumer()
    scene.expect(fetching, "A1")
    prefetching.capacity = 5
    assert prefetching.available() == 0, "A belongs to the other one"
    scene.ack(fetching, "A1")
    assert prefetching.available() == at_once
    scene.send("B3")
    assert names(drain(prefetching)) == "A2 B3"
