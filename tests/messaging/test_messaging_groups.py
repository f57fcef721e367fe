"""Message groups as the API and the console have them; the rules themselves: tests/broker/test_groups.py.

Messages are named by group and index: "A0 A1 B2". Consumers have no prefetch, so that each fetch scans.
"""

import pytest
from messaging_support import GROUP, Bench, address, drain

from qflow.messaging import Empty, Message, Receiver, Sender, SessionError

QUEUE = "msg-group-q"
GROUPED = address(QUEUE, {"qpid.group_header_key": GROUP, "qpid.shared_msg_group": 1}, delete="sender")


def name(message: Message) -> str:
    return f"{message.properties[GROUP]}{message.content['index']}"


def names(messages: list[Message]) -> str:
    return " ".join(map(name, messages))


def make(label: str) -> Message:
    return Message({"index": int(label[1:])}, properties={GROUP: label[0]})


def wanted(group: str) -> dict[str, object]:
    """The filter that management methods take (QT-22)."""
    return {
        "filter_type": "header_match_str",
        "filter_params": {"header_key": GROUP, "header_value": group},
    }


class Scene:
    """A grouped queue with messages on it, and consumers that fetch and acknowledge by name."""

    def __init__(self, labels: str, **options: object) -> None:
        self.bench = Bench(**options)
        self.sender: Sender = self.bench.sender(GROUPED)
        self.held: dict[str, Message] = {}
        self.send(labels)

    def send(self, labels: str) -> None:
        for label in labels.split():
            self.sender.send(make(label))

    def consumer(self) -> Receiver:
        # An option the client does not know, as the real suite gives it, makes no difference.
        return self.bench.new_session().receiver(QUEUE, options={"capacity": 0})

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
