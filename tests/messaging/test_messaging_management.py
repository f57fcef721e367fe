"""Management through messages and through a console: CF-07 … CF-11, MG-24, QT-22, QT-23."""

import pytest
from messaging_support import Bench, address, contents, drain

from qflow.broker import Broker
from qflow.broker import Message as Raw
from qflow.messaging import Connection, ConnectionError, Message, NotFound, console
from qflow.messaging.qmf import BROKER_NAME, Agent
from qflow.trace.replaying import Replay, record
from qflow.trace.timeline import Checkpoint

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


def test_create_and_delete(bench: Bench) -> None:
    """CF-07 (MessagingSessionTests testQmfCreateAndDelete): queue, exchange and bindings by message."""
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
        ("create",
         {"type": "queue", "name": "x", "properties": {"qpid.flow_stop_count": 5, "qpid.max_count": 100}}, 7,
         'invalid-argument: Queue "x": qpid.flow_resume_count=70'),
        ("query", {"type": "queue", "name": "x"}, 1, "UnknownObject"),
        ("query", {"type": "exchange", "name": "x"}, 3, "NotImplemented"),
        ("queueMoveMessages", {"srcQueue": "x", "destQueue": "q", "qty": 0}, 4, "InvalidParameter"),
        ("fly", {}, 2, "UnknownMethod: broker has no 'fly'"),
        ("create", {"type": "queue"}, 4, "InvalidParameter: create: got ['type']"),
        ("create", {"type": "queue", "name": "x", "colour": "red"}, 4,
         "InvalidParameter: create: got ['colour'"),
    ],
)  # fmt: skip
def test_each_status_reaches_message_and_console_alike(
    bench: Bench, method: str, arguments: dict[str, object], status: int, text: str
) -> None:
    """CF-08, FC-05: each status once, by message and on the console alike; all: broker/test_management.py."""
    bench.sender(address("q")).send("x")
    code, error = Tool(bench).call(method, arguments)
    assert (code, error[: len(text)]) == (status, text)
    if method != "fly":
        result = getattr(bench.object("broker", BROKER_NAME), method)(**arguments)
        assert (result.status, result.text[: len(text)], result.outArgs) == (status, text, {})


def test_objects_are_found_by_class_and_identity(bench: Bench) -> None:
    """CF-09: objects by class and by identity."""
    tool = Tool(bench)
    bench.sender(address("q", {"qpid.max_count": 5})).send("x")
    bench.receiver("q", capacity=1)
    found = tool.find(identity="org.apache.qpid.broker:queue:q")[0]["_values"]
    assert (found["msgDepth"], found["acquires"], found["flowStopped"]) == (1, 1, False)
    assert (found["arguments"], found["consumerCount"]) == ({"qpid.max_count": 5}, 1)
    assert tool.find(identity="org.apache.qpid.broker:queue:none") == tool.find(kind="volcano") == []
    assert [o["_values"]["name"] for o in tool.find(kind="broker")] == [BROKER_NAME]
    counts = {kind: len(tool.find(kind=kind)) for kind in ("queue", "subscription", "session", "connection")}
    assert counts == {"queue": 2, "subscription": 2, "session": 2, "connection": 1}


def test_the_console_shows_values_of_the_last_update() -> None:
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
    assert queue.msgDepth == 1
    assert queue.getIndex() == "org.apache.qpid.broker:queue:q"
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


# Whichever client asks


def request(body: object, opcode: str = "_query_request", key: str = "broker", **properties: object) -> Raw:
    headers = {"method": "request", "qmf.opcode": opcode}
    given = {"headers": headers, "app_id": "qmf2", "reply_to": ("", "answers"), "correlation_id": "7"}
    return Raw.of(body, key, **(given | properties))


class RawClient:
    """A session of the engine, without the messaging API."""

    def __init__(self) -> None:
        self.broker = Broker()
        self.agent = Agent(self.broker)
        self.session = self.broker.session("raw")
        self.session.queue_declare("answers")

    def ask(self, message: Raw, exchange: str = "qmf.default.direct") -> list[Raw]:
        assert self.session.message_transfer(message, exchange).is_complete
        answers = [queued.transfer.message for queued in self.broker.queue("answers").store]
        self.session.queue_purge("answers")
        return answers


QUEUES = {"_what": "OBJECT", "_schema_id": {"_class_name": "queue"}}
CREATE = {
    "_object_id": {"_object_name": BROKER},
    "_method_name": "create",
    "_arguments": {"type": "queue", "name": "made"},
}


def test_a_session_of_the_engine_is_answered() -> None:
    """CF-16, CF-07, CF-09: at the exchange, after the command; by the agent's proper name as well."""
    client = RawClient()
    for key in ("broker", "apache.org:qpidd:qflow"):
        answer = client.ask(request(QUEUES, key=key))[0]
        assert [found["_values"]["name"] for found in answer.body] == ["answers"]
        assert (answer.header("qmf.opcode"), answer.correlation_id) == ("_query_response", "7")
        assert (answer.content_type, answer.app_id) == ("amqp/list", "qmf2")
    answer = client.ask(request(CREATE, "_method_request"))[0]
    assert (answer.header("qmf.opcode"), answer.body) == ("_method_response", {"_arguments": {}})
    assert "made" in client.broker.queues.queues
    app_id_as_header = {"qmf.opcode": "_query_request", "x-amqp-0-10.app-id": "qmf2"}
    assert client.ask(request(QUEUES, headers=app_id_as_header, app_id=None))


def test_a_request_is_no_message_for_queues() -> None:
    """CF-16: the exchange takes it even from a queue bound by that key, and does not count it."""
    client = RawClient()
    client.session.queue_declare("spy")
    for key in ("broker", "other"):
        client.session.exchange_bind("spy", "qmf.default.direct", key)
        client.ask(request(QUEUES, key=key))
    assert client.broker.queue("spy").statistics().msgDepth == 1
    direct = client.broker.exchanges.get("qmf.default.direct").statistics()
    assert (direct.msgReceives, direct.msgDrops) == (1, 0)
    assert client.broker.statistics().discardsNoRoute == 0


def test_an_agent_is_looked_for() -> None:
    """CF-16: the agent answers, and the exchange routes the question on, as to other agents."""
    client = RawClient()
    client.session.queue_declare("agents")
    client.session.exchange_bind("agents", "qmf.default.topic", "console.request.#")
    locate = request({}, "_agent_locate_request", "console.request.agent_locate")
    values = client.ask(locate, "qmf.default.topic")[0].body["_values"]
    assert (values["_vendor"], values["_product"], values["_heartbeat_interval"]) == (
        "apache.org",
        "qpidd",
        10,
    )
    assert client.broker.queue("agents").statistics().msgDepth == 1


@pytest.mark.parametrize(
    ("body", "opcode", "properties", "answer"),
    [
        (CREATE, "_method_request", {"reply_to": None}, None),
        (CREATE, "_method_request", {"app_id": "other"}, None),
        (CREATE, "_method_request", {"reply_to": ("nowhere", "x")}, None),
        ("text", "_method_request", {}, (4, "InvalidParameter")),
        (CREATE | {"_object_id": 5}, "_method_request", {}, (4, "InvalidParameter")),
        (CREATE | {"_method_name": None}, "_method_request", {}, (4, "InvalidParameter")),
        (CREATE | {"_arguments": [1]}, "_method_request", {}, (4, "InvalidParameter")),
        (
            CREATE | {"_arguments": {"type": 1, "name": "x"}},
            "_method_request",
            {},
            (4, "InvalidParameter: create: type must be a string, got 1"),
        ),
        ({}, "_juggle", {}, (7, "unknown opcode: _juggle")),
        (QUEUES | {"_what": "SCHEMA"}, "_query_request", {}, []),
        ({"_schema_id": 3}, "_query_request", {}, []),
        ({"_schema_id": {"_class_name": "queue", "_package_name": "other"}}, "_query_request", {}, []),
        ({"_object_id": {}}, "_query_request", {}, []),
        (None, "_query_request", {}, []),
    ],
    ids=str,
)
def test_requests_that_make_no_sense(
    body: object, opcode: str, properties: dict[str, object], answer: object
) -> None:
    """CF-08, CF-16: each is answered or ignored; the session that asked lives on."""
    client = RawClient()
    answers = client.ask(request(body, opcode, **properties))
    assert client.session.is_attached
    if answer is None:
        assert answers == []
    elif isinstance(answer, tuple):
        values = answers[0].body["_values"]
        assert (values["error_code"], values["error_text"]) == answer
    else:
        assert answers[0].body == answer


def test_a_method_that_ends_who_asks() -> None:
    """CF-11: a client closes its own connection; its request is complete, the answer waits on its queue."""
    client = RawClient()
    close = {"_object_id": {"_object_name": "org.apache.qpid.broker:connection:raw"}, "_method_name": "close"}
    client.session.message_transfer(request(close, "_method_request"), "qmf.default.direct")
    assert str(client.session.error) == "connection-forced: Closed by Management Request"
    assert client.broker.queue("answers").statistics().msgDepth == 1


def test_answers_come_after_the_whole_write() -> None:
    """Two requests of one write are answered in order, when the write is over."""
    client = RawClient()
    with client.session.pipeline():
        for number in ("1", "2"):
            client.session.message_transfer(request(QUEUES, correlation_id=number), "qmf.default.direct")
        assert client.broker.queue("answers").statistics().msgDepth == 0
    answers = [queued.transfer.message for queued in client.broker.queue("answers").store]
    assert [answer.correlation_id for answer in answers] == ["1", "2"]


def test_a_trace_with_requests_replays() -> None:
    """What the agent does are commands of the trace; a replay needs no agent, and gets no answer twice."""
    broker = Broker()
    trace = record(broker)
    Agent(broker)
    session = broker.session("raw")
    session.queue_declare("answers")
    session.message_transfer(request(CREATE, "_method_request"), "qmf.default.direct")
    session.message_transfer(request(QUEUES), "qmf.default.direct")
    replay = Replay(trace)
    assert replay.run() == trace
    twins = (replay.broker, Broker.restore(broker.snapshot()), Checkpoint(broker).restore())
    for twin in twins:
        assert [twin.queue(name).statistics().msgDepth for name in ("answers", "made")] == [2, 0]
        assert twin.agent is None
    assert broker.agent is not None


def test_the_agent_is_no_client(bench: Bench) -> None:
    """Neither its session nor its connection shows up, though it has published and answered."""
    events = bench.receiver("qmf.default.topic/agent.ind.event.#", capacity=100)
    tool = Tool(bench)
    bench.sender(address("q"))
    assert drain(events)
    for kind in ("session", "connection", "subscription"):
        found = tool.find(kind=kind)
        assert found and not [o for o in found if "qmf.agent" in str(o)]


def test_a_connection_is_closed_by_management(bench: Bench) -> None:
    """CF-11: its sessions die, a new session of it is dead, another connection may use the names."""
    victim = Connection.establish(bench.url)
    session = victim.session("mine")
    session.sender(address("q")).send("x")
    tool = Tool(bench)
    assert tool.call("close", {}, f"org.apache.qpid.broker:connection:{victim.id}") == {}
    fresh = victim.session()
    for dead in (session, fresh):
        with pytest.raises(
            ConnectionError, match="connection-forced: Closed by Management Request"
        ) as raised:
            dead.sender("q")
        assert raised.value.code == 320
    assert bench.stat("q").msgDepth == 1
    missing = tool.call("close", {}, f"org.apache.qpid.broker:connection:{victim.id}")
    assert missing[0] == 1


def test_a_request_is_a_transfer_like_any_other(bench: Bench) -> None:
    """CAP-02: it takes room in the sender's window until it is complete, which it is at once."""
    tool = Tool(bench)
    tool.requests.capacity = 1
    for _ in range(3):
        assert tool.call("echo", {"sequence": 1, "body": "a"}) == {"sequence": 1, "body": "a"}
    assert tool.requests.unsettled() == 0
