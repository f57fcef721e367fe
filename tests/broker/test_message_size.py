"""What a byte is: the size the broker counts for a message (DQ-05 … DQ-09)."""

from uuid import UUID

import pytest
from support import Bench, bench_with

from qflow.broker import Broker, Message
from qflow.trace.replaying import Replay, record

BARE = {"content_size": 1, "routing_key": "ab"}
SIZES = [
    ({}, "", 13), ({"content_size": 0}, "", 12), ({"priority": 4}, "", 14), ({"ttl": 1000}, "", 21),
    ({"headers": {}}, "", 29), ({"headers": {"a": 1}}, "", 40), ({"headers": {"a": "b"}}, "", 35),
    ({}, "amq.direct", 23), ({"routing_key": None}, "", 10), ({"routing_key": ""}, "", 11),
    ({"durable": True}, "", 14), ({"timestamp": 1}, "", 21),
    ({"priority": 0, "durable": True, "ttl": 1, "timestamp": 1}, "", 31),
    ({"message_id": UUID(int=7)}, "", 37), ({"correlation_id": "xyz"}, "", 26),
    ({"content_type": "t"}, "", 23), ({"user_id": "u"}, "", 24), ({"app_id": "a"}, "", 24),
    # Two properties share one struct.
    ({"user_id": "u", "app_id": "a"}, "", 27),
    ({"headers": {"a": True}}, "", 33), ({"headers": {"a": 1.5}}, "", 40), ({"headers": {"a": None}}, "", 32),
    ({"headers": {"key": "value", "n": 3}}, "", 29 + 12 + 11),
    # Lengths are those of the encoded text.
    ({"routing_key": "ä"}, "", 13),
]  # fmt: skip


@pytest.mark.parametrize(("properties", "exchange", "size"), SIZES)
def test_encoded_size_counts_content_and_each_property(properties, exchange, size):
    """DQ-05, DQ-06, DQ-07, DQ-08: header body and content, and what each property adds."""
    bench = bench_with("ab")
    transfer = bench.session("p").message_transfer(Message(**{**BARE, **properties}), exchange)
    assert transfer.size == size


@pytest.mark.parametrize(
    ("key", "exchange", "content"), [("q", "", 8), ("orders", "amq.topic", 0), ("a.b.c", "x" * 40, 12345)]
)
def test_closed_form_of_a_raw_transfer(key, exchange, content):
    """DQ-08: 10 + routing key + exchange + body; 19 bytes for "abcdefgh" (message.py credit tests)."""
    assert Message(content, routing_key=key).encoded_size(exchange) == 10 + len(key) + len(exchange) + content


def test_one_number_everywhere():
    """DQ-05: depth, limits, thresholds, credit and exchange statistics all use it; moving keeps it."""
    bench = bench_with("q", max_size=200, flow_stop_size=150, flow_resume_size=100)
    bench.declare("a much longer name")
    bench.bind("q", "amq.fanout")
    bench.send("key", size=100, exchange="amq.fanout")
    assert (bench.stat("q").byteDepth, bench.is_on("q")) == (100, False)
    (second,) = bench.send("key", size=51, exchange="amq.fanout")
    assert (second.size, bench.stat("q").byteDepth, bench.is_on("q")) == (51, 151, True)
    assert bench.exchange_statistics("amq.fanout").byteReceives == 151
    reader = bench.read("q", volume=150)
    assert reader.got == "p-1"
    reader.grant(volume=1)
    assert reader.got == "p-1 p-2"
    reader.release("p-1", "p-2")
    bench.broker.management.queueMoveMessages("q", "a much longer name")
    assert bench.stat("a much longer name").byteDepth == 151


@pytest.mark.parametrize(("own", "size"), [(None, 21), (5, 21)], ids=["stamped", "brings its own"])
def test_stamping_adds_eight_bytes(own, size):
    """DQ-05: ``enable-timestamp`` is applied before the size is computed."""
    bench = Bench(enable_timestamp=True, start_time=100)
    bench.declare("ab")
    bench.broker.advance(3_000_000)
    transfer = bench.session("p").message_transfer(Message(1, routing_key="ab", timestamp=own))
    assert (transfer.size, bench.stat("ab").byteDepth) == (size, size)
    assert transfer.message.timestamp == (103 if own is None else own)


def test_content_only_accounting():
    """DQ-09: until 2013 a byte was a byte of content."""
    bench = Bench(message_size="content")
    bench.declare("q", max_size=250)
    for content in (100, 0, 150):
        bench.session("p").message_transfer(Message(content, routing_key="q", headers={"a": "b"}))
    assert (bench.stat("q").msgDepth, bench.stat("q").byteDepth) == (3, 250)


# A body


BODIES = [
    (None, {}, 10, None),
    ("ä", {}, 12, None),
    (b"\xff" * 7, {}, 17, None),
    ({"index": 0}, {}, 10 + 23 + 8 + 9, "amqp/map"),
    ([], {"content_type": "x"}, 10 + 8 + 8 + 2, "x"),
    ("", {"reply_to": ("", "q")}, 10 + 8 + 4 + 1 + 2, None),
    ("", {"reply_to": (None, "q"), "headers": {}}, 10 + 16 + 4 + 2, None),
    ("", {"content_encoding": "utf-8"}, 10 + 8 + 6, None),
    ({"a": "b"}, {"size": 113}, 113, "amqp/map"),
]


@pytest.mark.parametrize(("body", "properties", "size", "content_type"), BODIES)
def test_a_message_with_a_body(body, properties, size, content_type):
    """DQ-05, DQ-07: sizes as the client's encoding has them; body and properties come to the consumer."""
    message = Message.of(body, "", **properties)
    assert message.encoded_size("") == size
    assert (message.body, message.content_type) == (body, content_type)
    assert message.reply_to == properties.get("reply_to")
    transfer = Bench().session("p").message_transfer(message, "amq.fanout")
    assert transfer.size == (113 if "size" in properties else size + len("amq.fanout"))


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"size": -1}, ValueError, "size must be 0 to 18446744073709551615, got -1"),
        ({"size": 2.5}, TypeError, "size must be a whole number, got 2.5"),
        ({"reply_to": ("", "k" * 256)}, ValueError, "reply_to must be at most 255 bytes, got 256"),
        ({"reply_to": (5, "k")}, TypeError, "reply_to must be a string, got 5"),
        ({"content_encoding": "e" * 256}, ValueError, "content_encoding must be at most 255 bytes, got 256"),
        ({"body": "\ud800"}, ValueError, "a body must be a text that UTF-8 can carry"),
    ],
    ids=str,
)
def test_properties_that_amqp_cannot_carry(given, error, text):
    """CM-01: refused before there is a message."""
    with pytest.raises(error, match=text):
        Message.of(**{"body": "x", **given})


def test_bytes_of_any_kind():
    """A body is kept as plain bytes, which a snapshot can hold."""
    for body in (bytearray(b"abc"), memoryview(b"abc")):
        message = Message.of(body)
        assert (type(message.body), message.body, message.content_size) == (bytes, b"abc", 3)


def test_a_given_size_lasts():
    """A trace keeps it, so that a replay counts the same; the state has it as the transfer's size."""
    broker = Broker()
    trace = record(broker)
    broker.session("p").queue_declare("q")
    broker.sessions["p"].message_transfer(Message.of({"a": 1}, "q", size=113))
    replay = Replay(trace)
    assert replay.run() == trace
    twin = Broker.restore(broker.snapshot())
    assert twin.state_hash() == broker.state_hash()
    for other in (twin, replay.broker):
        assert other.queue("q").statistics().byteDepth == 113
