"""Messages: what arrives of them, and how many bytes the broker counts for them (DQ-05 … DQ-09)."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest
from messaging_support import Bench, address

from qflow.broker import Message as BrokerMessage
from qflow.messaging import EncodeError, Message, timestamp

MAP = {
    "key1": "string",
    "key2": "ünicode",
    "key3": 3,
    "key4": -3,
    "key5": 3.14,
    "key7": ["one", 2, 3.14],
    "key8": [],
    "key9": {"sub-key0": 3},
    "key10": True,
    "key11": False,
    "key12": None,
    "key13": UUID(int=7),
    "key14": b"bytes",
    "x-amqp-0-10.app-id": "test-app-id",
    "x-amqp-0-10.content-encoding": "test-content-encoding",
}
FIELDS = ("id", "subject", "user_id", "reply_to", "correlation_id", "durable", "priority", "redelivered")


def echo(message: Message) -> Message:
    bench = Bench()
    bench.sender(address("q")).send(message)
    return bench.receiver("q").fetch(0)


@pytest.mark.parametrize(
    "message",
    [
        Message("string"),
        Message(MAP),
        Message([]),
        Message(["one", 2, 3.14, {"four": 4}]),
        Message({"true": True, "false": False}),
        Message(content_type="this-content-type-does-not-exist"),
        Message(content_type="text/plain", content="asdf"),
        Message(content_type="text/plain"),
        Message("x", subject="subject", correlation_id="cid", durable=True, priority=7, properties=dict(MAP)),
        Message("x", durable=False),
        Message("x", id="an id"),
        Message("x", id=UUID(int=5), user_id="me"),
        Message("x", correlation_id=b"1", user_id=b"me"),
        Message("x", correlation_id=b"\xff", user_id=b"\xfe"),
        Message("x", subject=b"s"),
        Message("x", properties={"x-amqp-0-10.app-id": b"bytes"}),
        Message("x", properties={"x-amqp-0-10.app-id": b"\xff\x00"}),
    ],
    ids=repr,
)
def test_a_message_arrives_whole_with_its_routing_key(message: Message) -> None:
    """All of a message arrives; the broker adds the routing key."""
    back = echo(message)
    assert (back.content, back.content_type) == (message.content, message.content_type)
    for field in FIELDS:
        assert getattr(back, field) == getattr(message, field), field
    added = {"x-amqp-0-10.routing-key": "q"} | ({"qpid.subject": message.subject} if message.subject else {})
    assert back.properties == message.properties | added
    if isinstance(message.content, dict) and "true" in message.content:
        assert all(isinstance(value, bool) for value in back.content.values())


@pytest.mark.parametrize(
    ("sent", "arrives"),
    [
        (b"0123456789abcdef", UUID(bytes=b"0123456789abcdef")),
        (b"short", UUID(bytes=b"short" + bytes(11))),
        (b"0123456789abcdefgh", UUID(bytes=b"0123456789abcdef")),
    ],
)
def test_an_id_of_bytes(sent: bytes, arrives: UUID) -> None:
    """16 bytes are what AMQP has for an id; fewer are filled up with zeros, more are cut."""
    assert echo(Message("x", id=sent)).id == arrives


def test_a_tuple_is_a_list() -> None:
    """AMQP knows lists only, wherever they are."""
    message = Message([(1, (2,))], properties={"t": (1, {"u": (2, 3)})})
    back = echo(message)
    assert (back.content, back.properties["t"]) == ([[1, [2]]], [1, {"u": [2, 3]}])
    assert echo(Message((1, 2), content_type="amqp/list")).content == [1, 2]


def test_a_subject_of_bytes_is_the_routing_key(bench: Bench) -> None:
    receiver = bench.receiver("amq.topic/news")
    bench.sender("amq.topic").send(Message("x", subject=b"news"))
    assert receiver.fetch(0).subject == b"news"
    with pytest.raises(EncodeError, match="routing key: got b'.xff', allowed is a text, or its UTF-8"):
        bench.sender("amq.topic").send(Message("x", subject=b"\xff"))
    with pytest.raises(EncodeError, match="routing key: got 300 bytes, at most 255 fit"):
        bench.sender("amq.topic").send(Message("x", subject="k" * 300))


@pytest.mark.parametrize(
    ("reply_to", "arrives"),
    [
        ("name", "name"),
        ("name; {node: {type: queue}}", "name"),
        ("name/subject; {node: {type: queue}}", "name"),
        ("name; {node: {type: topic}}", "name; {node: {type: topic}}"),
        ("name/subject; {node: {type: topic}}", "name/subject; {node: {type: topic}}"),
    ],
)
def test_reply_to_arrives_as_the_real_client_sends_it(reply_to: str, arrives: str) -> None:
    assert echo(Message(reply_to=reply_to)).reply_to == arrives


def test_time_to_live(bench: Bench) -> None:
    """What is left of it arrives."""
    bench.sender(address("q")).send(Message("x", ttl=60))
    bench.sleep(1.5)
    assert bench.receiver("q").fetch(0).ttl == 58.5


def test_a_message_is_a_copy(bench: Bench) -> None:
    """What happens to a message after it was sent, or after it was fetched, changes no other copy."""
    sender = bench.sender(address("q"))
    message = Message({"list": [1]}, properties={"key": "sent"})
    sender.send(message)
    message.content["list"].append(2)
    message.properties["key"] = "changed"
    one, two = (bench.receiver("q; {mode: browse}").fetch(0) for _ in range(2))
    one.content["list"].append(3)
    one.properties["key"] = "changed"
    assert (two.content, two.properties["key"]) == ({"list": [1]}, "sent")


def test_send_again_what_was_received(bench: Bench) -> None:
    """MessagingSessionTests testResend…: a fetched message can be sent on as it is."""
    bench.sender(address("q")).send(Message({"a": 1}, subject="s"))
    received = bench.receiver("q").fetch(0)
    bench.sender(address("r")).send(received)
    again = bench.receiver("r").fetch(0)
    assert (again.content, again.subject, again.properties["x-amqp-0-10.routing-key"]) == ({"a": 1}, "s", "r")


def test_what_an_engine_client_sends(bench: Bench) -> None:
    """A message without a body that was put on the queue by hand arrives with None."""
    receiver = bench.receiver(address("q"))
    session = bench.broker.session("by hand")
    session.message_transfer(BrokerMessage(100, routing_key="q", headers={"k": 1}, label="mine"))
    message = receiver.fetch(0)
    assert (message.content, message.properties) == (None, {"k": 1, "x-amqp-0-10.routing-key": "q"})


@pytest.mark.parametrize("made", [bytes, bytearray, memoryview])
def test_bodies_of_bytes(made: Callable[[bytes], object]) -> None:
    back = echo(Message(made(b"body"), properties={"key": made(b"value")})).content
    assert back == b"body"
    assert isinstance(back, bytes)


def test_points_in_time() -> None:
    """A datetime arrives as seconds since 1970, in properties and in maps and lists."""
    when = datetime(2011, 2, 19, 12, 30, 15, 999_999, tzinfo=UTC)
    message = echo(Message([when, {"a": timestamp(1.5)}], properties={"when": when}))
    assert message.properties["when"] == timestamp(1_298_118_615)
    assert message.content == [timestamp(1_298_118_615), {"a": timestamp(1)}]
    assert all(isinstance(found, timestamp) for found in (message.properties["when"], message.content[0]))
    assert message.content[0].datetime() == datetime.fromtimestamp(1_298_118_615)
    assert timestamp(10) + timedelta(minutes=1) - 5 == timestamp(65)


# Bytes


@pytest.mark.parametrize(
    ("queue", "message", "size"),
    [
        ("ttq", Message("12345"), 29 + 5),
        ("enqueue_test", Message("x" * 10), 38 + 10),
        ("tx_enqueue_test", Message("x" * 40), 41 + 40),
        ("ab", Message(""), 28),
        ("ab", Message("ä"), 28 + 2),
        ("ab", Message("", priority=4), 28 + 1),
        ("ab", Message("", ttl=5), 28 + 8),
        ("ab", Message("", properties={"a": 1}), 28 + 11),
        ("ab", Message("", properties={"a": "b"}), 28 + 6),
        ("ab", Message("", durable=True), 28 + 1),
        ("ab", Message("", durable=False), 28 + 1),
        ("ab", Message("", content_type="text/plain"), 28 + 11),
        ("ab", Message("", correlation_id="cid"), 28 + 5),
        ("ab", Message("", correlation_id=b"\xff", user_id=b"me"), 28 + 3 + 4),
        ("ab", Message("", id=b"short"), 28 + 16),
        ("ab", Message("", id=UUID(int=1)), 28 + 16),
        ("ab", Message("", id="text"), 28 + 16),
        ("ab", Message("", reply_to="reply"), 28 + 4 + 6),
        ("ab", Message("", reply_to="x/k; {node: {type: topic}}"), 28 + 4 + 2 + 2),
        ("ab", Message({}), 28 + 9 + 8),
        ("ab", Message({"index": 0}), 28 + 9 + 23),
        ("ab", Message([]), 28 + 10 + 8),
    ],
    ids=repr,
)
def test_byte_depth_counts_26_and_queue_name_and_text(
    bench: Bench, queue: str, message: Message, size: int
) -> None:
    """DQ-07: 26 + len(queue) + len(text) for text; everything else is added to that."""
    bench.sender(address(queue)).send(message)
    assert bench.stat(queue).byteDepth == size


# What cannot be encoded


def circle() -> dict[str, object]:
    entries: dict[str, object] = {}
    entries["itself"] = entries
    return entries


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"content": "asdf", "content_type": "amqp/map"}, "type 'amqp/map': got a str, wanted a dict"),
        ({"content": {}, "content_type": "amqp/list"}, "type 'amqp/list': got a dict, wanted a list"),
        ({"content": {}, "content_type": None}, "content of type None: got a dict, wanted a str"),
        ({"content": {"k": object()}}, "cannot encode the content: a body is made of None, bool"),
        ({"content": circle()}, "cannot encode"),
        ({"content": 5}, "content: got a int, allowed are str, bytes, dict, list and None"),
        ({"properties": {"k": {1, 2}}}, "cannot encode the message: headers is made of None, bool"),
        ({"properties": {"k" * 256: 1}}, "cannot encode"),
        ({"properties": {"a": "\ud800"}}, "cannot encode"),
        ({"properties": {"a": 2**64}}, "cannot encode"),
        ({"properties": {5: 1}}, "cannot encode"),
        ({"properties": circle()}, "cannot encode"),
        ({"properties": 5}, "properties must be a dict"),
        ({"user_id": bytes(65_536)}, "user_id must be at most 65535 bytes, got 65536"),
        ({"correlation_id": b"\xff" * 65_536}, "correlation_id must be at most 65535 bytes"),
        ({"correlation_id": 5}, "correlation_id must be text, bytes or None, got 5"),
        ({"reply_to": "; bad"}, r"reply_to: unexpected token SEMI\(;\)"),
        ({"reply_to": 5}, "reply_to: got 5"),
        ({"reply_to": b"q"}, "reply_to: got b'q'"),
        ({"reply_to": "x" * 256}, "reply_to must be at most 255 bytes, got 256"),
        *[({"ttl": ttl}, "ttl: got .*, allowed is a number of seconds")
          for ttl in ("10", -1, float("nan"), float("inf"), [1], 1e30)],
    ],
)  # fmt: skip
def test_cannot_be_encoded(bench: Bench, attributes: dict[str, object], text: str) -> None:
    """DQ-07: the call fails, nothing is sent, and everything else continues."""
    sender = bench.sender(address("q"), capacity=1)
    with pytest.raises(EncodeError, match=text):
        sender.send(Message(**attributes))  # type: ignore[arg-type]
    sender.send("fine")
    assert bench.stat("q").msgDepth == 1
