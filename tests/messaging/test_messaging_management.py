"""Management through messages and through a console: CF-07 … CF-11, MG-24, QT-22, QT-23."""

import pytest
from messaging_support import Bench, address, contents, drain

from qflow.messaging import Connection, Message, NotFound, console
from qflow.messaging.qmf import BROKER_NAME

BROKER = f"org.apache.qpid.broker:broker:{BROKER_NAME}"


class Tool:
    """Talks to the broker's agent as qpidtoollibs' BrokerAgent does: a reply queue, requests, answers."""

    def __init__(self, bench: Bench) -> None:
        self.session = bench.new_session()
        self.reply_to = "qmf.default.topic/direct.tool-1;{node:{type:topic}}"
        self.replies = self.session.receiver(self.reply_to, capacity=10)
        self.requests = self.session.sender("qmf.default.direct/broker")
        self.number = 0

    def ask(self, opcode: str, content: dict[str, object], reply_to: str | None = "") -> Message:
        self.number += 1
        properties = {"method": "request", "qmf.opcode": opcode, "x-amqp-0-10.app-id": "qmf2"}
        self.requests.send(
            Message(
                content,
                reply_to=self.reply_to if reply_to == "" else reply_to,
                correlation_id=str(self.number),
                properties=properties,
                subject="broker",
            )
        )
        response = self.replies.fetch(10)
        self.session.acknowledge()
        assert response.correlation_id == str(self.number)
        return response

    def call(self, method: str, arguments: dict[str, object], identity: str = BROKER) -> object:
        content = {"_object_id": {"_object_name": identity}, "_method_name": method, "_arguments": arguments}
        response = self.ask("_method_request", content)
        if response.properties["qmf.opcode"] == "_exception":
            values = response.content["_values"]
            return values["error_code"], values["error_text"]
        assert response.properties["qmf.opcode"] == "_method_response"
        return response.content["_arguments"]

    def find(self, **wanted: str) -> list[dict[str, object]]:
        query: dict[str, object] = {"_what": "OBJECT"}
        if "identity" in wanted:
            query["_object_id"] = {"_object_name": wanted["identity"]}
        else:
            query["_schema_id"] = {"_class_name": wanted["kind"]}
        response = self.ask("_query_request", query)
        assert response.properties["qmf.opcode"] == "_query_response"
        return response.content


def test_create_and_delete() -> None:
    """CF-07 (MessagingSessionTests testQmfCreateAndDelete): queue, exchange and bindings by message."""
    bench = Bench()
    tool = Tool(bench)
    limits = {"qpid.max_count": 100, "auto-delete": False}
    assert tool.call("create", {"type": "queue", "name": "q", "properties": limits, "strict": True}) == {}
    assert tool.call("create", {"type": "topic", "name": "t", "properties": {"exchange-type": "topic"}}) == {}
    assert tool.call("create", {"type": "binding", "name": "t/q/one"}) == {}
    sender, receiver = bench.sender("t"), bench.receiver("q")
    sender.send(Message("one", subject="one"))
    assert tool.call("delete", {"type": "binding", "name": "t/q/one"}) == {}
    assert tool.call("create", {"type": "binding", "name": "t/q/three"}) == {}
    for subject in ("two", "three"):
        sender.send(Message(subject, subject=subject))
    assert contents(drain(receiver)) == ["one", "three"]
    receiver.session.acknowledge()
    receiver.close()
    for kind, name in (("queue", "q"), ("exchange", "t")):
        assert tool.call("delete", {"type": kind, "name": name, "options": {}}) == {}
    for name in ("q", "t"):
        # The old connection takes it to be there, as it has seen it lately.
        with pytest.raises(NotFound):
            Connection.establish(bench.url).session().sender(name)


@pytest.mark.parametrize(
    ("method", "arguments", "status", "text"),
    [
        ("create", {"type": "queue", "name": "q"}, 7, "object already exists: q"),
        ("create", {"type": "pile", "name": "x"}, 7, "unknown object type: pile"),
        (
            "create",
            {"type": "exchange", "name": "x", "properties": {"exchange-type": "z"}},
            7,
            "Invalid exchange",
        ),
        (
            "create",
            {"type": "queue", "name": "x", "properties": {"qpid.max_count": "abc"}},
            7,
            "invalid conversion",
        ),
        (
            "create",
            {"type": "queue", "name": "x", "properties": {"qpid.flow_stop_count": 5, "qpid.max_count": 100}},
            7,
            'invalid-argument: Queue "x": qpid.flow_resume_count=70',
        ),
        ("delete", {"type": "queue", "name": "x"}, 7, "not-found: Delete failed. No such queue: x"),
        ("delete", {"type": "queue", "name": "q", "options": {"if_empty": True}}, 7, "precondition-failed"),
        ("query", {"type": "queue", "name": "x"}, 1, "UnknownObject"),
        ("query", {"type": "exchange", "name": "x"}, 3, "NotImplemented"),
        ("query", {"type": "pile", "name": "x"}, 7, "unknown object type"),
        ("queueMoveMessages", {"srcQueue": "x", "destQueue": "q", "qty": 0}, 4, "InvalidParameter"),
        ("fly", {}, 2, "UnknownMethod: broker has no 'fly'"),
        ("create", {"type": "queue"}, 4, "InvalidParameter: create: got ['type']"),
        (
            "create",
            {"type": "queue", "name": "x", "colour": "red"},
            4,
            "InvalidParameter: create: got ['colour'",
        ),
    ],
)
def test_refusals(method: str, arguments: dict[str, object], status: int, text: str) -> None:
    """CF-08, FC-05: status and text, by message and on the console alike."""
    bench = Bench()
    bench.sender(address("q")).send("x")
    code, error = Tool(bench).call(method, arguments)
    assert (code, error[: len(text)]) == (status, text)
    if method != "fly":
        result = getattr(bench.object("broker", BROKER_NAME), method)(**arguments)
        assert (result.status, result.text[: len(text)], result.outArgs) == (status, text, {})


def test_methods_of_a_queue() -> None:
    """QT-22, QT-23, CF-08, RF-23."""
    bench = Bench()
    tool = Tool(bench)
    sender = bench.sender(address("q"))
    for number in range(20):
        sender.send(f"{number}")
    there = "org.apache.qpid.broker:queue:q"
    assert tool.call("purge", {"request": 1}, there) == {}
    assert bench.stat("q").msgDepth == 19
    receiver = bench.receiver("amq.fanout")
    arguments = {"request": 9, "useAltExchange": False, "exchange": "amq.fanout", "filter": {}}
    assert tool.call("reroute", arguments, there) == {}
    assert (bench.stat("q").msgDepth, len(drain(receiver))) == (10, 9)
    assert tool.call("reroute", {"request": 0, "useAltExchange": True}, there) == (4, "InvalidParameter")
    assert tool.call("purge", {"filter": {"filter_type": "x"}}, there)[0] == 7
    missing = tool.call("purge", {}, "org.apache.qpid.broker:queue:none")
    assert missing == (1, "No object found with ID=0-0-0--0(org.apache.qpid.broker:queue:none)")
    assert tool.call("echo", {"sequence": 3, "body": "hello"}) == {"sequence": 3, "body": "hello"}


def test_queries() -> None:
    """CF-09, CF-10: objects by class and by identity."""
    bench = Bench()
    tool = Tool(bench)
    bench.sender(address("q", {"qpid.max_count": 5})).send("x")
    receiver = bench.receiver("q", capacity=1)
    found = tool.find(identity="org.apache.qpid.broker:queue:q")[0]["_values"]
    assert (found["msgDepth"], found["acquires"], found["flowStopped"]) == (1, 1, False)
    assert (found["arguments"], found["consumerCount"]) == ({"qpid.max_count": 5}, 1)
    assert tool.find(identity="org.apache.qpid.broker:queue:none") == []
    assert [o["_values"]["name"] for o in tool.find(kind="broker")] == [BROKER_NAME]
    assert tool.find(kind="broker")[0]["_values"]["queueCount"] == 2
    assert {"amq.topic", "qmf.default.direct"} <= {o["_values"]["name"] for o in tool.find(kind="exchange")}
    assert tool.find(kind="volcano") == []
    subscriptions = [o["_values"] for o in tool.find(kind="subscription")]
    assert {"name": str(receiver.id), "creditMode": "CREDIT", "browsing": False}.items() <= [
        s for s in subscriptions if s["queueRef"]["_object_name"].endswith(":q")
    ][0].items()
    for kind in ("binding", "session", "connection"):
        assert tool.find(kind=kind)


def test_unknown_requests() -> None:
    """An opcode the agent does not know is an exception; without a reply address there is no answer."""
    bench = Bench()
    tool = Tool(bench)
    response = tool.ask("_juggle", {})
    assert response.properties["qmf.opcode"] == "_exception"
    tool.requests.send(
        Message(
            {}, properties={"qmf.opcode": "_query_request", "x-amqp-0-10.app-id": "qmf2"}, subject="broker"
        )
    )
    assert tool.replies.available() == 0
    assert bench.broker.statistics().discardsNoRoute == 0, "a request is no message that has to be routed"


def test_console() -> None:
    """Objects by class and value; values as of the last update; LookupError when gone."""
    bench, other = Bench(), Bench()
    bench.sender(address("q"))
    session = console.Session()
    handles = [session.addBroker(b.url) for b in (bench, other)]
    assert len(session.getObjects(_class="broker")) == 2
    assert len(session.getObjects(_class="broker", _broker=handles[1])) == 1
    queue = session.getObjects(_class="queue", name="q", _package="org.apache.qpid.broker")[0]
    bench.sender("q").send("x")
    assert queue.msgDepth == 0
    queue.update()
    assert (queue.msgDepth, queue.getProperties()["name"]) == (1, "q")
    assert (str(queue), queue.getClassKey()) == ("org.apache.qpid.broker:queue:q", "queue")
    with pytest.raises(AttributeError, match="neither a value nor a method 'shape'"):
        _ = queue.shape
    with pytest.raises(TypeError, match="purge takes request, filter; got 3"):
        queue.purge(1, {}, "more")
    answer = session.getObjects(_class="broker", _broker=handles[0])[0].echo(1, "a")
    assert (answer.status, answer.sequence, answer.body) == (0, 1, "a")
    bench.broker.management.delete("queue", "q")
    with pytest.raises(LookupError, match="queue:q is gone"):
        queue.update()
    session.delBroker(handles[0])
    assert session.getObjects(_class="queue") == []
    session.close()
    assert session.getObjects(_class="broker") == []
