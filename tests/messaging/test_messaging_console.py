"""The console as ``qmf.console`` has it: sessions, callbacks, the schema, references; two programs on it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from messaging_support import Bench, address

from qflow.broker import Broker
from qflow.broker.management import METHODS
from qflow.messaging import ConnectError, refuse, sleep
from qflow.messaging.console import Console, Event, MethodResult, Object, ObjectId, SchemaClass, Session
from qflow.messaging.qmf import find_objects
from qflow.messaging.qmf_schema import EVENTS, PACKAGE, find_method, schemas

KINDS = ("broker", "memory", "queue", "exchange", "binding", "session", "subscription", "connection")
NOT_IN_QMF = {"queue": {"messageCount"}}
"""What objects hold beyond the real schema."""


class Log(Console):
    """Keeps what it is called with, in words."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.during: Callable[[], object] = lambda: None

    def __getattribute__(self, name: str) -> Any:
        if name in vars(Console) and not name.startswith("_"):
            return lambda *arguments: self.note(name, arguments)
        return super().__getattribute__(name)

    def note(self, name: str, arguments: tuple[Any, ...]) -> None:
        words = [word for argument in arguments if (word := self.word(argument))]
        self.lines.append(" ".join([name, *words]))
        self.during()

    def word(self, argument: object) -> str:
        match argument:
            case Event():
                values = argument.getArguments()
                return f"{argument.getClassKey().getClassName()} {values.get('qName') or values['exName']}"
            case Object():
                return f"{argument.getIndex().partition(':')[2]}{' gone' * argument.isDeleted()}"
            case MethodResult():
                return repr(argument)
            case str() | int():
                return str(argument)
        return ""

    def take(self, *kinds: str) -> list[str]:
        lines, self.lines = self.lines, []
        return [line for line in lines if not kinds or line.split()[0] in kinds]


class Kept(Console):
    """Keeps the events of a broker."""

    def __init__(self, bench: Bench) -> None:
        self.events: list[Event] = []
        Session(self).addBroker(bench.url)

    def event(self, broker: object, event: Event) -> None:
        self.events.append(event)


def listening(bench: Bench, **options: bool) -> tuple[Log, Session]:
    log = Log()
    session = Session(log, **options)
    session.addBroker(bench.url)
    return log, session


# The schema


@pytest.mark.parametrize("kind", KINDS)
def test_objects_have_what_their_class_says(bench: Bench, kind: str) -> None:
    """CF-09: each value is in the schema, and of its type; what is not optional is there."""
    alternate = "{create: always, node: {x-declare: {alternate-exchange: 'amq.fanout'}}}"
    bench.sender(f"q; {alternate}").send("x")
    bench.receiver("q", capacity=1)
    schema = schemas()[kind]
    elements = {one.name: one for one in (*schema.properties, *schema.statistics)}
    types = {2: int, 3: int, 4: int, 6: str, 7: str, 9: int, 11: bool, 15: dict}
    found = [content["_values"] for content in find_objects(bench.broker, kind)]
    assert found
    for values in found:
        assert set(values) - set(elements) == NOT_IN_QMF.get(kind, set())
        assert {name for name, one in elements.items() if not getattr(one, "optional", False)} <= set(values)
        for name, value in values.items():
            if name not in elements:
                continue
            if elements[name].type == 10:
                assert value is None or value["_object_name"].startswith(f"{PACKAGE}:"), name
            else:
                assert type(value) is types[elements[name].type], name


def test_methods_have_their_arguments() -> None:
    """CF-11: in order, with the direction in which they go."""
    shown = {kind: [repr(method) for method in schemas()[kind].methods] for kind in KINDS}
    assert shown["queue"] == ["purge(request, filter)", "reroute(request, useAltExchange, exchange, filter)"]
    assert shown["connection"] == ["close()"]
    arguments = {
        name: [(one.name, one.dir, one.type) for one in find_method("broker", name).arguments]
        for name in ("echo", "query")
    }
    assert arguments == {
        "echo": [("sequence", "IO", 3), ("body", "IO", 7)],
        "query": [("type", "I", 6), ("name", "I", 6), ("results", "O", 15)],
    }
    for schema in schemas().values():
        for method in schema.methods:
            # The engine takes the name of the object besides.
            taken = [name for name in METHODS[method.name].names if name != schema.classKey.name]
            assert method.names("I") == taken


def test_events_hold_what_their_class_says(bench: Bench) -> None:
    """CF-12: of each kind that this model has."""
    assert set(EVENTS) <= {name for name, schema in schemas().items() if schema.kind == 2}
    kept = Kept(bench)
    bench.send(address("q", {"qpid.alert_count": 2}), "a", "b")
    bench.receiver("x; {create: always, delete: always, node: {type: topic}}").close()
    manage = bench.object("broker", "amqp-broker")
    bench.stat("q").purge(0, {})
    bench.sender(address("r"))
    manage.queueRedirect("q", "r")
    manage.queueRedirect("q", "")
    manage.delete("queue", "q", {})
    assert {event.getClassKey().getClassName() for event in kept.events} == set(EVENTS)
    for event in kept.events:
        assert set(event.getArguments()) <= {one.name for one in event.getSchema().getArguments()}, event


def test_packages_and_classes(bench: Bench) -> None:
    """management.py test_get_objects: the package, its classes and events, objects by key and by schema."""
    session = Session()
    assert session.getPackages() == []
    session.addBroker(bench.url)
    assert session.getPackages() == ["org.apache.qpid.broker"]
    keys = {key.getClassName(): key for key in session.getClasses("org.apache.qpid.broker")}
    assert {"broker", "queue", "brokerLinkDown"} <= set(keys)
    assert session.getClasses("org.apache.qpid.acl") == []
    assert len(session.getObjects(_key=keys["broker"])) == 1
    schema = session.getSchema(keys["broker"])
    assert schema is not None
    assert schema.getKey() == keys["broker"]
    assert schema.kind == SchemaClass.CLASS_KIND_TABLE
    assert session.getObjects(_schema=schema)[0].getClassKey() == keys["broker"]
    assert [key.getType() for key in (keys["queue"], keys["bind"])] == ["_data", "_event"]
    assert keys["queue"] != keys["broker"]
    assert session.getObjects(_class="queue", _package="org.apache.qpid.acl") == []
    assert session.getObjects(_class="volcano") == session.getObjects() == []


# Objects


def test_objects_are_found_by_identity_and_reference(bench: Bench) -> None:
    """An object's identity, the object that one refers to, and objects by the identity they refer to."""
    bench.sender(address("q"))
    receiver = bench.receiver("q", capacity=1)
    session = bench.console
    queue = bench.stat("q")
    identity = queue.getObjectId()
    assert isinstance(identity, ObjectId)
    assert repr(identity) == "0-0-1-0-org.apache.qpid.broker:queue:q"
    assert session.getObjects(_objectId=identity)[0].name == "q"
    assert session.getObjects(_objectId=ObjectId.create("0", "org.apache.qpid.broker:queue:none")) == []
    bindings = session.getObjects(_class="binding", queueRef=identity)
    assert [(one._exchangeRef_.name, one._queueRef_.name, one.bindingKey) for one in bindings] == [
        ("", "q", "q")
    ]
    subscription = session.getObjects(_class="subscription", queueRef=identity)[0]
    own = subscription._sessionRef_._connectionRef_
    assert own.address == bench.connection.id
    assert subscription.name == str(receiver.id)
    assert (queue.altExchange, queue._altExchange_ if queue.altExchange else None) == (None, None)
    assert identity == copy.copy(queue).getObjectId()
    assert {identity: 1}[ObjectId(identity.asMap())] == 1


def test_properties_and_statistics(bench: Bench) -> None:
    """As pairs of what the schema says and the value; times are those of the broker."""
    bench.sender(address("q", {"qpid.max_count": 5})).send("x")
    bench.sleep(3)
    queue = bench.stat("q")
    properties = {one.name: value for one, value in queue.getProperties()}
    flags = dict.fromkeys(("durable", "autoDelete", "exclusive"), False)
    assert properties == {"name": "q", **flags, "arguments": {"qpid.max_count": 5}, "altExchange": None}
    statistics = {one.name: value for one, value in queue.getStatistics()}
    assert (statistics["msgDepth"], statistics["flowStopped"]) == (1, False)
    assert queue.getTimestamps() == (3_000_000_000, 0, 0)
    assert not queue.isDeleted()
    memory = bench.console.getObjects(_class="memory")[0]
    assert memory.malloc_uordblks == queue.byteDepth
    connection = bench.console.getObjects(_class="connection")[0]
    assert connection.protocol == "AMQP 0-10"
    newer = bench.stat("q")
    queue.mergeUpdate(newer)
    with pytest.raises(ValueError, match="a record of .*queue:q; got .*memory:amqp-broker"):
        queue.mergeUpdate(memory)


def test_the_console_has_a_session(bench: Bench) -> None:
    """management.py test_self_session_id: found among the sessions; it ends with the console."""
    session = Session()
    broker = session.addBroker(bench.url)
    name = broker.getSessionId()
    assert [one.name for one in session.getObjects(_class="session") if one.name.endswith(name)] == [name]
    session.close()
    assert not bench.exists("session", name)
    assert not broker.isConnected()


def test_handles_describe_their_broker_and_agent(bench: Bench) -> None:
    """What a handle of a broker and its agent say of themselves."""
    session = Session()
    broker = session.addBroker(f"guest/guest@{bench.url}", timeout=5, mechanisms="PLAIN")
    assert session.addBroker(bench.url) is broker
    assert (broker.getUrl(), broker.getFullUrl()) == (f"{bench.url}:5672", f"amqp://{bench.url}:5672")
    assert (broker.isConnected(), broker.getError(), broker.getBrokerBank()) == (True, None, 1)
    assert repr(broker) == f"Broker connected at: {bench.url}:5672"
    (agent,) = session.getAgents()
    assert repr(agent) == "Agent(v2) at bank 1.0 (BrokerAgent)"
    assert broker.getAgent(1, 0) is agent
    assert broker.getAgent(1, 7) is None
    assert [one.name for one in agent.getObjects(_class="broker")] == ["amqp-broker"]
    assert len(session.getObjects(_class="broker", _agent=agent)) == 1
    with pytest.raises(ValueError, match="userBindings needs a console; got None"):
        Session(userBindings=True)
    with pytest.raises(ValueError, match="userBindings must be True to bind classes; got False"):
        session.bindClass(PACKAGE, "queue")


# What a console hears


def test_a_console_hears_of_a_broker_and_of_events(bench: Bench) -> None:
    """CF-12: broker, package, classes and agent first; then each event, between two commands."""
    log, session = listening(bench)
    lines = log.take()
    assert lines[:2] == ["brokerInfo", "newPackage org.apache.qpid.broker"]
    assert lines[-2:] == ["newAgent", "brokerConnected"]
    assert len(lines) == len(schemas()) + 4
    bench.sender(address("q"))
    assert log.take() == ["event queueDeclare q", "event bind q"]
    bench.object("broker", "amqp-broker").delete("queue", "q", {})
    assert log.take() == ["event unbind q", "event queueDelete q"]
    session.close()
    assert log.take() == ["delAgent", "brokerDisconnected"]
    bench.sender(address("q"))
    assert log.take() == []
    assert bench.broker.observer is None


def test_a_refused_broker() -> None:
    """An exception where the program connects by itself; a call of the console where the session does."""
    refuse("refused-console:5673")
    with pytest.raises(ConnectError, match="Connection refused"):
        Session().addBroker("refused-console:5673")
    log = Log()
    session = Session(log, manageConnections=True)
    broker = session.addBroker("refused-console:5673")
    assert log.take() == ["brokerConnectionFailed"]
    assert not broker.isConnected() and "Connection refused" in str(broker.getError())
    assert session.getObjects(_class="broker") == []
    session.delBroker(broker)
    assert log.take() == []


def test_a_console_sees_objects_change(bench: Bench) -> None:
    """Every ten seconds: all at first, then what is new, has changed, or is gone; and a heartbeat."""
    sender = bench.sender(address("q"))
    log, _ = listening(bench)
    bench.sleep(9.9)
    assert log.take("objectProps", "objectStats", "heartbeat") == []
    bench.sleep(0.2)
    lines = log.take("objectProps", "objectStats", "heartbeat")
    assert {"objectProps queue:q", "objectStats queue:q", "objectProps memory:amqp-broker"} <= set(lines)
    assert lines[-1] == "heartbeat 10000000000"
    bench.sleep(10)
    quiet = log.take("objectProps", "objectStats")
    assert [line for line in quiet if "broker:amqp-broker" not in line] == []
    sender.send("x")
    bench.sleep(10)
    lines = log.take("objectProps", "objectStats")
    assert "objectStats queue:q" in lines
    assert "objectProps queue:q" not in lines
    bench.broker.management.delete("queue", "q")
    bench.sleep(30)
    lines = log.take("objectProps", "heartbeat")
    assert lines.count("objectProps queue:q gone") == 1
    assert lines[-1] == "heartbeat 60000000000"


def test_a_console_hears_what_it_asked_for(bench: Bench) -> None:
    """rcvEvents, rcvObjects, rcvHeartbeats, and bindings by class."""
    none, _ = listening(bench, rcvEvents=False, rcvObjects=False, rcvHeartbeats=False)
    log, session = listening(bench, userBindings=True)
    log.take(), none.take()
    bench.sender(address("q"))
    assert log.take() == []
    session.bindClass("org.apache.qpid.broker", "Queue")
    session.bindEvent("org.apache.qpid.broker", "queueDelete")
    bench.sleep(10)
    bench.broker.management.delete("exchange", "qmf.default.direct")
    bench.object("broker", "amqp-broker").delete("queue", "q", {})
    lines = log.take()
    assert {line.partition(":")[0] for line in lines} == {
        "objectProps queue",
        "objectStats queue",
        "heartbeat 10000000000",
        "event queueDelete q",
    }
    keys = {key.getClassName(): key for key in session.getClasses(PACKAGE)}
    session.bindEventKey(keys["queueDeclare"])
    session.bindClassKey(keys["exchange"])
    session.bindAgent(vendor="apache.org")
    assert session.wants(keys["queueDeclare"]) and not session.wants(keys["bind"])
    session.bindPackage(PACKAGE)
    assert session.wants(keys["bind"])
    assert none.take() == []


def test_methods_without_waiting(bench: Bench) -> None:
    """management.py test_methods_async: each call has a number, and its answer comes with it."""
    log, session = listening(bench)
    broker = session.getObjects(_class="broker")[0]
    numbers = [broker.echo(count, "text", _async=True) for count in range(3)]
    assert numbers == [1, 2, 3]
    bench.sleep(1)
    answers = log.take("methodResponse")
    assert answers[2] == "methodResponse 3 OK (0) - {'sequence': 2, 'body': 'text'}"
    queue = ObjectId.create("0", "org.apache.qpid.broker:queue:none")
    key = schemas()["queue"].classKey
    assert session._sendMethodRequest(session.brokers[0], key, queue, "purge", [0, {}]) == 4
    assert log.take("methodResponse") == [
        f"methodResponse 4 No object found with ID=0-0-0--0({queue.getObject()}) (1) - {{}}"
    ]
    assert broker.echo(1, "a", _timeout=5).body == "a"


def test_a_console_may_act_when_it_is_called(bench: Bench) -> None:
    """What its calls cause it hears of afterwards, once."""
    log, session = listening(bench, rcvObjects=False)
    log.take()

    def act() -> None:
        log.during = lambda: None
        session.getObjects(_class="broker")[0].create("queue", "second", {}, False)
        log.lines.append("acted")

    log.during = act
    bench.sender(address("first"))
    assert log.take() == [
        "event queueDeclare first",
        "acted",
        "event bind first",
        "event queueDeclare second",
        "event bind second",
    ]


def test_two_consoles_and_a_subscriber_hear_the_same(bench: Bench) -> None:
    """Consoles of this process, and one that subscribes to the topic of events."""
    logs = [listening(bench, rcvObjects=False)[0] for _ in range(2)]
    receiver = bench.receiver("qmf.default.topic/agent.ind.event.#", capacity=10)
    for log in logs:
        log.take()
    bench.sender(address("q"))
    assert [log.take() for log in logs] == [["event queueDeclare q", "event bind q"]] * 2
    contents = [receiver.fetch(0).content[0] for _ in range(4)]
    names = [content["_schema_id"]["_class_name"] for content in contents]
    assert names == ["bind", "subscribe", "queueDeclare", "bind"]


def test_an_event_in_words(bench: Bench) -> None:
    events = Kept(bench).events
    bench.sleep(2)
    bench.broker.management.create("exchange", "made")
    bench.sleep(0)
    bench.sender("made; {delete: always}").close()
    assert repr(events[-1]) == (
        f"2.000000 s INFORM org.apache.qpid.broker:exchangeDelete broker={bench.url}:5672"
        " rhost=in-process user=anonymous exName=made"
    )
    assert events[-1].getTimestamp() == 2_000_000_000
    assert events[-1].getBroker().getBrokerAgent() is events[-1].getAgent()


# Programs


class QueueStatistics(Console):
    """Prints the rates of queues, as an operator's tool does: it is set up after addBroker."""

    def __init__(self, url: str) -> None:
        self.session = Session(
            self, rcvEvents=False, rcvHeartbeats=False, userBindings=True, manageConnections=True
        )
        self.broker = self.session.addBroker(url)
        self.session.bindClass("org.apache.qpid.broker", "queue")
        self.last: dict[str, Object] = {}
        self.printed: list[str] = []

    def brokerConnected(self, broker: object) -> None:
        self.printed.append("connected" if broker is self.broker else "another")

    def objectProps(self, broker: object, record: Object) -> None:
        if record.getClassKey().getClassName() == "queue" and record.isDeleted():
            self.printed.append(f"{record.name} gone")

    def objectStats(self, broker: object, record: Object) -> None:
        before = self.last.get(repr(record.getObjectId()))
        self.last[repr(record.getObjectId())] = record
        if before is None:
            return
        seconds = (record.getTimestamps()[0] - before.getTimestamps()[0]) / 1_000_000_000
        came = (record.msgTotalEnqueues - before.msgTotalEnqueues) / seconds
        went = (record.msgTotalDequeues - before.msgTotalDequeues) / seconds
        self.printed.append(f"{record.name} {seconds:.0f}s {record.msgDepth} +{came:.1f} -{went:.1f}")


def test_a_program_that_shows_rates(bench: Bench) -> None:
    """CF-13, qpid-queue-stats: depth, enqueues and dequeues a second, in each interval with a change.

    As it manages its connections it is called with the next command, when it has set itself up.
    """
    sender, receiver = bench.sender(address("q")), bench.receiver("q")
    program = QueueStatistics(bench.url)
    assert program.printed == []
    bench.sleep(0)
    assert program.printed == ["connected"]
    for _ in range(21):
        sender.send("x")
        sleep(1, bench.url)
    bench.session.acknowledge(receiver.fetch(0))
    sleep(10, bench.url)
    bench.broker.management.delete("queue", "q")
    sleep(20, bench.url)
    assert program.printed == ["connected", "q 10s 20 +1.0 -0.0", "q 10s 20 +0.1 -0.1", "q gone"]
    program.session.delBroker(program.broker)
    assert not program.session.brokers


def test_without_a_console_nothing_is_observed(bench: Bench) -> None:
    """A session that only asks costs the broker nothing, and leaves its state as it is."""
    before = bench.broker.state_hash()
    session = Session()
    session.addBroker(bench.url)
    for kind in KINDS:
        session.getObjects(_class=kind)
    assert bench.broker.observer is None
    assert bench.broker.state_hash() == before
    assert isinstance(session.brokers[0].host.broker, Broker)
