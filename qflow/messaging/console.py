"""A console with the interface of ``qmf.console``: managed objects with statistics and methods, and events.

A :class:`Session` queries the objects of the brokers that were added to it, and calls their methods:

>>> from qflow.messaging import Connection
>>> sender = Connection.establish("doc-console").session().sender("orders; {create: always}")
>>> sender.send("to do")
>>> session = Session()
>>> broker = session.addBroker("doc-console")
>>> queue = session.getObjects(_class="queue", name="orders")[0]
>>> queue.msgDepth, queue.purge(0).status
(1, 0)
>>> queue.update(); queue.msgDepth
0

A :class:`Console` has methods that are called for events, between two commands of any clients in this
process.  Every ten seconds of the broker's time they are also called for new, changed and deleted objects.

>>> class Listening(Console):
...     def event(self, broker, event):
...         print(event.getClassKey().getClassName(), event.getArguments()["qName"])
>>> listening = Session(Listening())
>>> broker = listening.addBroker("doc-console")
>>> queue = session.getObjects(_class="broker")[0].create("queue", "more", {}, True)
queueDeclare more
bind more
>>> listening.delBroker(broker)

The differences from the real console: there is no network, so it has no threads and retries nothing, and only
a connection to a URL of :func:`qflow.messaging.refuse` fails; and QMFv1 is left out.
"""

# ruff: noqa: N802, N803, N815  (the names are the real console's)

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import NAMESPACE_URL, UUID, uuid5

from qflow.broker import Session as EngineSession
from qflow.broker.errors import ManagementError
from qflow.messaging.exceptions import ConnectError
from qflow.messaging.hosts import DEFAULT_URL, Host, brokers, parse_url
from qflow.messaging.qmf import call, find_objects, query
from qflow.messaging.qmf_schema import (
    PACKAGE,
    ClassKey,
    SchemaArgument,
    SchemaClass,
    SchemaMethod,
    SchemaProperty,
    SchemaStatistic,
    find_method,
    schemas,
)

OK = 0
_BROKER_AGENT = "0"


class Console:
    """The callbacks of a console, which do nothing; a subclass overrides those that it needs."""

    def brokerConnected(self, broker: Broker) -> None:
        """Handle a broker that was added to the session and is connected."""

    def brokerConnectionFailed(self, broker: Broker) -> None:
        """Handle a broker that refuses connections, in a session with ``manageConnections``."""

    def brokerDisconnected(self, broker: Broker) -> None:
        """Handle a broker that was removed from the session."""

    def brokerInfo(self, broker: Broker) -> None:
        """Handle a broker whose identity (``broker.getBrokerId()``) is known now."""

    def newPackage(self, name: str) -> None:
        """Handle a new package of classes."""

    def newClass(self, kind: int, classKey: ClassKey) -> None:
        """Handle a new class; ``kind`` is ``SchemaClass.CLASS_KIND_TABLE`` or ``CLASS_KIND_EVENT``."""

    def newAgent(self, agent: Agent) -> None:
        """Handle a new agent."""

    def delAgent(self, agent: Agent) -> None:
        """Handle an agent whose broker was removed."""

    def objectProps(self, broker: Broker, record: Object) -> None:
        """Handle an object with new or changed properties, or a deleted one (``record.isDeleted()``)."""

    def objectStats(self, broker: Broker, record: Object) -> None:
        """Handle an object with new or changed statistics."""

    def event(self, broker: Broker, event: Event) -> None:
        """Handle an event."""

    def heartbeat(self, agent: Agent, timestamp: int) -> None:
        """Handle an agent's heartbeat; ``timestamp`` is in nanoseconds of the broker's clock."""

    def methodResponse(self, broker: Broker, seq: int, response: MethodResult) -> None:
        """Handle the response to a method that was called with ``_async=True`` and returned ``seq``."""


@dataclass(eq=False, repr=False)
class MethodResult:
    """The result of a method call: the status (0, or an error of CF-08), its text, and the outputs."""

    status: int
    text: str
    outArgs: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        # Not self.outArgs: copy.copy reads attributes before outArgs exists, which would recurse without end.
        if name in self.__dict__.get("outArgs", {}):
            return self.outArgs[name]
        raise AttributeError(name)

    def __repr__(self) -> str:
        return f"{self.text} ({self.status}) - {self.outArgs}"


class ObjectId:
    """The identity of a managed object: the names of its agent and of the object itself."""

    isV2 = True

    def __init__(self, constructor: dict[str, Any], agentName: str = _BROKER_AGENT) -> None:
        self.objectName = str(constructor["_object_name"])
        self.agentName = str(constructor.get("_agent_name", agentName))
        self.agentEpoch = int(constructor.get("_agent_epoch", 0))

    @classmethod
    def create(cls, agent_name: str, object_name: str, epoch: int = 0) -> ObjectId:
        """Return the identity of the object with a name at an agent."""
        return cls({"_agent_name": agent_name, "_object_name": object_name, "_agent_epoch": epoch})

    def getObject(self) -> str:
        """Return the object's name: package, class and index."""
        return self.objectName

    def getAgentBank(self) -> str:
        """Return the agent's name."""
        return self.agentName

    def getBrokerBank(self) -> int:
        """Return the broker's number, which is always 1."""
        return 1

    def getSequence(self) -> int:
        """Return the agent's epoch, which counts its starts."""
        return self.agentEpoch

    def getFlags(self) -> int:
        """Return the flags, which are always 0."""
        return 0

    def isDurable(self) -> bool:
        """Return whether the identity outlives a restart of the agent."""
        return self.agentEpoch == 0

    def index(self) -> str:
        """Return the identity as text."""
        return repr(self)

    def asMap(self) -> dict[str, Any]:
        """Return the identity as the map that a QMF message contains."""
        epoch = {"_agent_epoch": self.agentEpoch} if self.agentEpoch else {}
        return {"_agent_name": self.agentName, "_object_name": self.objectName, **epoch}

    def __repr__(self) -> str:
        return f"0-{self.agentEpoch}-1-{self.agentName}-{self.objectName}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectId) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


class _Record:
    """The base class of objects and events: a record that an agent sent, with its class."""

    def __init__(self, broker: Broker, content: dict[str, Any]) -> None:
        self._broker = broker
        self._content = content
        self._schema = schemas()[content["_schema_id"]["_class_name"]]

    def getBroker(self) -> Broker:
        """Return the broker that the record came from."""
        return self._broker

    def getAgent(self) -> Agent:
        """Return the agent that sent the record."""
        return self._broker.getBrokerAgent()

    def getClassKey(self) -> ClassKey:
        """Return the key of the class of the object or event."""
        return self._schema.getKey()

    def getSchema(self) -> SchemaClass:
        """Return the class of the object or event."""
        return self._schema


class Object(_Record):
    """A managed object, whose values (as of the last :meth:`update`) and methods are attributes.

    A value that refers to another object is an :class:`ObjectId`; the same name between underscores is that
    object itself: ``binding._queueRef_.name``.  A method takes its arguments by position or by name, and
    returns a :class:`MethodResult`; with ``_async=True`` it returns a number, and
    :meth:`Console.methodResponse` is called with that number and the result.
    """

    def __getattr__(self, name: str) -> Any:
        if name in ("_broker", "_content", "_schema"):
            # copy.copy reads these attributes before they exist.
            raise AttributeError(name)
        if find_method(self._schema.classKey.name, name) is not None:
            return self._method(name)
        values = self._content["_values"]
        if name in values:
            return _plain(values[name])
        inner = name[1:-1]
        if name == f"_{inner}_" and _is_reference(values.get(inner)):
            return self._broker.find(values[inner]["_object_name"])
        known = [one.name for one in self._schema.properties] + [one.name for one in self._schema.statistics]
        if name in known:
            return None
        raise AttributeError(f"{self.getIndex()} has neither a value nor a method {name!r}")

    def __repr__(self) -> str:
        key = self.getClassKey()
        return f"{key.getPackageName()}:{key.getClassName()}[{self.getObjectId()!r}] {self.getIndex()}"

    def getObjectId(self) -> ObjectId:
        """Return the object's identity."""
        return ObjectId(self._content["_object_id"])

    def getIndex(self) -> str:
        """Return the name in the object's identity: package, class and index."""
        return self.getObjectId().getObject()

    def getMethods(self) -> list[SchemaMethod]:
        """Return the methods of the object's class."""
        return self._schema.getMethods()

    def getProperties(self) -> list[tuple[SchemaProperty, Any]]:
        """Return the properties with their values."""
        values = self._content["_values"]
        return [(one, _plain(values[one.name])) for one in self._schema.properties if one.name in values]

    def getStatistics(self) -> list[tuple[SchemaStatistic, Any]]:
        """Return the statistics with their values."""
        values = self._content["_values"]
        return [(one, values[one.name]) for one in self._schema.statistics if one.name in values]

    def getTimestamps(self) -> tuple[int, int, int]:
        """Return the times of update, of creation (always 0) and of deletion (or 0), in nanoseconds."""
        content = self._content
        return content["_update_ts"], content["_create_ts"], content["_delete_ts"]

    def isDeleted(self) -> bool:
        """Return whether this record says that the object was deleted."""
        return bool(self._content["_delete_ts"])

    def isManaged(self) -> bool:
        """Return True, as every object here belongs to a broker."""
        return True

    def mergeUpdate(self, newer: Object) -> None:
        """Replace the values by those of another record of the same object."""
        if newer.getObjectId() != self.getObjectId():
            raise ValueError(f"newer must be a record of {self.getIndex()}; got {newer.getIndex()}")
        self._content = newer._content

    def update(self) -> None:
        """Fetch the present values, or raise a LookupError if the object no longer exists."""
        found = self._broker.find(self.getIndex())
        if found is None:
            raise LookupError(f"{self.getIndex()} is gone")
        self.mergeUpdate(found)

    def _method(self, name: str) -> Callable[..., Any]:
        def invoke(
            *args: Any, _async: bool = False, _timeout: float | None = None, **kwargs: Any
        ) -> MethodResult | int:
            call_now = self._broker.invoke_later if _async else self._broker.invoke
            return call_now(self.getObjectId(), name, args, kwargs)

        return invoke


def _is_reference(value: object) -> bool:
    return isinstance(value, dict) and "_object_name" in value


def _plain(value: Any) -> Any:
    return ObjectId(value) if _is_reference(value) else value


class Event(_Record):
    """An event of a broker, which :meth:`Console.event` is called with."""

    SEVERITIES = ("emerg", "alert", "crit", "error", "warn", "notice", "inform", "debug")

    def __init__(self, broker: Broker, content: dict[str, Any]) -> None:
        super().__init__(broker, content)
        self.severity = self.SEVERITIES.index(content["_severity"])

    def getArguments(self) -> dict[str, Any]:
        """Return the arguments of the event by name."""
        return dict(self._content["_values"])

    def getTimestamp(self) -> int:
        """Return the time of the event, in nanoseconds of the broker's clock."""
        return int(self._content["_timestamp"])

    def __repr__(self) -> str:
        key, severity = self.getClassKey(), self.SEVERITIES[self.severity].upper()
        words = [f"{name}={value}" for name, value in self.getArguments().items()]
        who = f"{key.getPackageName()}:{key.getClassName()} broker={self._broker.getUrl()}"
        return " ".join([f"{self.getTimestamp() / 1e9:.6f} s", severity, who, *words])


class Agent:
    """The agent of a broker, which manages all the broker's objects."""

    isV2 = True
    epoch = 0
    label = "BrokerAgent"

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.session = broker.session

    def getBrokerBank(self) -> int:
        """Return the broker's number, which is always 1."""
        return 1

    def getAgentBank(self) -> str:
        """Return the agent's bank, which is always "0"."""
        return _BROKER_AGENT

    def getV2RoutingKey(self) -> str:
        """Return the routing key of requests to the agent."""
        return "broker"

    def getObjects(self, **wanted: Any) -> list[Object]:
        """Return the agent's objects that match; see :meth:`Session.getObjects`."""
        return self.session.getObjects(_broker=self.broker, **wanted)

    def __repr__(self) -> str:
        return f"Agent(v2) at bank 1.{self.getAgentBank()} ({self.label})"


class Broker:
    """A broker that was added to a session by :meth:`Session.addBroker`."""

    def __init__(self, session: Session, url: object, host: Host) -> None:
        self.session = session
        self.host = host
        self._url = url
        self._agent = Agent(self)
        self._error = host.refusal
        self._is_connected = self._error is None
        self._is_settling = False
        self._engine_session: EngineSession | None = None
        self._calls: deque[tuple[str, tuple[Any, ...]]] = deque()
        self._seen: dict[str, dict[str, Any]] = {}
        self._sequence = 0

    def isConnected(self) -> bool:
        """Return whether the broker is connected: it accepted the connection and was not removed."""
        return self._is_connected

    def getError(self) -> str | None:
        """Return the reason why the connection to the broker failed, or None."""
        return self._error

    def getBrokerId(self) -> UUID:
        """Return the broker's identity, which is the same in every run."""
        return uuid5(NAMESPACE_URL, self.getUrl())

    def getBrokerBank(self) -> int:
        """Return the broker's number, which is always 1."""
        return 1

    def getBrokerAgent(self) -> Agent:
        """Return the broker's own agent."""
        return self._agent

    def getAgents(self) -> list[Agent]:
        """Return the list of the broker's agents, which is its own agent only."""
        return [self._agent]

    def getAgent(self, brokerBank: int, agentBank: object) -> Agent | None:
        """Return the agent with a bank number, or None."""
        return self._agent if str(agentBank) == _BROKER_AGENT else None

    def getAmqpSession(self) -> EngineSession:
        """Return the console's own session at the broker, attached at the first call."""
        if self._engine_session is None:
            with self.host:
                self._engine_session = self.host.broker.session(self.host.unique_name("console"))
        return self._engine_session

    def getSessionId(self) -> str:
        """Return the name of the console's own session at the broker."""
        return self.getAmqpSession().name

    def getUrl(self) -> str:
        """Return the broker's host and port, as ``host:port``."""
        host, port, *_ = parse_url(self._url)
        return f"{host}:{port}"

    def getFullUrl(self, noAuthIfGuestDefault: bool = True) -> str:
        """Return the broker's URL, as ``amqp://host:port``, without a user."""
        return f"amqp://{self.getUrl()}"

    def __repr__(self) -> str:
        return f"Broker connected at: {self.getUrl()}" if self._is_connected else "Disconnected Broker"

    # Objects and methods

    def query(self, content: dict[str, Any]) -> list[Object]:
        """Return the objects that match a QMF query."""
        with self.host:
            return [Object(self, found) for found in query(self.host.broker, content)]

    def find(self, identity: str) -> Object | None:
        """Return the object with an identity, or None."""
        return next(iter(self.query({"_object_id": {"_object_name": identity}})), None)

    def invoke(
        self, identity: ObjectId, name: str, args: Iterable[Any], kwargs: dict[str, Any]
    ) -> MethodResult:
        """Call a method of an object, and return its answer."""
        _, kind, _ = identity.getObject().split(":", 2)
        method, given = find_method(kind, name), list(args)
        names = [] if method is None else method.names("I")
        if len(given) > len(names):
            raise TypeError(f"{name} takes {', '.join(names)}; got {len(given)} arguments")
        # For a missing argument the broker returns its own error (CF-08).
        arguments = dict(zip(names, given, strict=False)) | kwargs
        with self.host:
            try:
                answer = call(self.host.broker, identity.getObject(), name, arguments)
                return MethodResult(OK, "OK", answer)
            except ManagementError as error:
                return MethodResult(error.status, error.text, {})

    def invoke_later(self, identity: ObjectId, name: str, args: Iterable[Any], kwargs: dict[str, Any]) -> int:
        """Call a method and return the number of its response, which the console gets between commands."""
        self._sequence += 1
        # Called now, in the caller's order; only the response comes later, as over a network.
        sequence, answer = self._sequence, self.invoke(identity, name, args, kwargs)
        self._call("methodResponse", self, sequence, answer)
        return sequence

    # Calls of the console's methods; this object is a listener of the agent

    def connect(self) -> None:
        """Report the broker, its agent and its classes to the console, and then each event."""
        if self.session.console is None:
            return
        if self._error is not None:
            self._call("brokerConnectionFailed", self)
            self.settle()
            return
        self.host.agent.listeners.append(self)
        self._call("brokerInfo", self)
        self._call("newPackage", PACKAGE)
        for schema in schemas().values():
            if self.session.wants(schema.classKey):
                self._call("newClass", schema.kind, schema.classKey)
        self._call("newAgent", self._agent)
        self._call("brokerConnected", self)

    def disconnect(self) -> None:
        """Report to the console that the broker was removed, and end the console's session there."""
        self._is_connected = False
        if self in self.host.agent.listeners:
            self.host.agent.listeners.remove(self)
            self._call("delAgent", self._agent)
            self._call("brokerDisconnected", self)
            self.settle()
        if self._engine_session is not None:
            self._engine_session.close()

    def receive(self, content: dict[str, Any]) -> None:
        """Report an event to the console, if it wants events of the class."""
        event = Event(self, content)
        if self.session.rcvEvents and self.session.wants(event.getClassKey()):
            self._call("event", self, event)

    def look(self) -> None:
        """Report new, changed and deleted objects to the console, and the heartbeat."""
        if self.session.rcvObjects:
            found = {
                content["_object_id"]["_object_name"]: content
                for schema in schemas().values()
                if schema.kind == SchemaClass.CLASS_KIND_TABLE and self.session.wants(schema.classKey)
                for content in find_objects(self.host.broker, schema.classKey.name)
            }
            for name, content in found.items():
                self._compare(Object(self, content), self._seen.get(name))
            for name, content in self._seen.items():
                if name not in found:
                    # Deletions are not reported otherwise: an object that is no longer found was deleted.
                    gone = content | {"_delete_ts": self.host.broker.now * 1000}
                    self._call("objectProps", self, Object(self, gone))
            self._seen = found
        if self.session.rcvHeartbeats:
            self._call("heartbeat", self._agent, self.host.broker.now * 1000)

    def _compare(self, record: Object, seen: dict[str, Any] | None) -> None:
        before = None if seen is None else Object(self, seen)
        if before is None or record.getProperties() != before.getProperties():
            self._call("objectProps", self, record)
        statistics = record.getStatistics()
        if statistics and (before is None or statistics != before.getStatistics()):
            self._call("objectStats", self, record)

    def _call(self, what: str, *arguments: Any) -> None:
        self._calls.append((what, arguments))

    def settle(self) -> None:
        """Make the pending calls of the console's methods, and the calls that these cause."""
        # Without the flag, a callback that uses the API would be called again inside itself.
        if self._is_settling:
            return
        self._is_settling = True
        try:
            while self._calls and self.session.console is not None:
                what, arguments = self._calls.popleft()
                getattr(self.session.console, what)(*arguments)
        finally:
            self._is_settling = False


@dataclass(eq=False, repr=False)
class Session:
    """A console's session with the brokers that were added to it, which queries their objects.

    Parameters:
        console: The object whose methods are called for events and objects; None only to query objects.
        rcvObjects, rcvEvents, rcvHeartbeats: Whether the console is called for objects, events, heartbeats.
        manageConnections: If False, the console has been told of a broker when :meth:`addBroker` returns.  If
            True, it is told with the next command of any client.
        userBindings: Whether the console is called only for the classes named by :meth:`bindClass`,
            :meth:`bindEvent` and the other bind methods.

    Raises:
        ValueError: If ``userBindings`` is True without a console.
    """

    console: Console | None = None
    rcvObjects: bool = True
    rcvEvents: bool = True
    rcvHeartbeats: bool = True
    manageConnections: bool = False
    userBindings: bool = False
    brokers: list[Broker] = field(init=False, default_factory=list)
    _bound: list[tuple[str, str | None, str | None]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        if self.userBindings and self.console is None:
            raise ValueError("userBindings needs a console; got None")

    def __repr__(self) -> str:
        return f"QMF Console Session Manager (brokers: {len(self.brokers)})"

    # Brokers

    def addBroker(
        self,
        target: object = DEFAULT_URL,
        timeout: float | None = None,
        mechanisms: object = None,
        sessTimeout: float | None = None,
        **connectArgs: object,
    ) -> Broker:
        """Add the broker behind a URL, and return it.

        Parameters:
            target: The URL.
            timeout, mechanisms, sessTimeout, **connectArgs: Options for a network, which are ignored.

        Raises:
            ConnectError: If the broker refuses every connection (:func:`qflow.messaging.refuse`).  With
                ``manageConnections``, ``brokerConnectionFailed`` of the console is called instead, and the
                broker has no objects.
        """
        host = brokers.host(target)
        if host.refusal is not None and not self.manageConnections:
            raise ConnectError(text=host.refusal)
        # Two URLs may lead to one broker: adding it twice would report each of its events twice.
        known = next((broker for broker in self.brokers if broker.host is host), None)
        if known is not None:
            return known
        broker = Broker(self, target, host)
        self.brokers.append(broker)
        broker.connect()
        if not self.manageConnections:
            broker.settle()
        return broker

    def delBroker(self, broker: Broker) -> None:
        """Remove a broker that :meth:`addBroker` returned."""
        self.brokers.remove(broker)
        broker.disconnect()

    def close(self) -> None:
        """Remove all brokers."""
        for broker in list(self.brokers):
            self.delBroker(broker)

    def getAgents(self, broker: Broker | None = None) -> list[Agent]:
        """Return the agents of all connected brokers, or of one broker."""
        return [agent for one in self._choose(broker) for agent in one.getAgents()]

    def _choose(self, broker: Broker | None) -> list[Broker]:
        return [one for one in (self.brokers if broker is None else [broker]) if one.isConnected()]

    # The schema

    def getPackages(self) -> list[str]:
        """Return the names of the packages of classes."""
        return [PACKAGE] if self.brokers else []

    def getClasses(self, packageName: str) -> list[ClassKey]:
        """Return the keys of all classes of a package, classes of events included."""
        keys = [schema.classKey for schema in schemas().values()]
        return [key for key in keys if self.brokers and key.getPackageName() == packageName]

    def getSchema(self, classKey: ClassKey) -> SchemaClass | None:
        """Return the class with a key, or None."""
        schema = schemas().get(classKey.getClassName())
        return schema if schema is not None and schema.classKey == classKey else None

    # Objects

    def getObjects(self, **wanted: Any) -> list[Object]:
        """Return the objects of a class with the given values, or the object with an identity.

        Parameters:
            _class, _package: The class, by its name and, if need be, its package.
            _key, _schema: The class, by its :class:`ClassKey` or as a :class:`SchemaClass`.
            _objectId: The identity of a single object, instead of a class.
            _broker, _agent: Only objects of this broker or agent.
            _timeout: Ignored, as the answer is available at once.
            **wanted: Values that the objects must have, by name, such as ``name="orders"``.
        """
        meta = {key: wanted.pop(key) for key in list(wanted) if key.startswith("_")}
        agent = meta.get("_agent")
        chosen = self._choose(meta.get("_broker") or (agent.broker if agent is not None else None))
        found = [one for broker in chosen for one in broker.query(_make_query(meta))]
        return [one for one in found if all(getattr(one, key, None) == wanted[key] for key in wanted)]

    def _sendMethodRequest(
        self, broker: Broker, schemaKey: ClassKey, objectId: ObjectId, name: str, argList: Iterable[Any]
    ) -> int:
        """Call a method without waiting, for ``qpid-tool``; the console gets the response."""
        sequence = broker.invoke_later(objectId, name, argList, {})
        broker.settle()
        return sequence

    # The classes for which the console is called

    def wants(self, key: ClassKey) -> bool:
        """Return whether the console is called for objects or events of a class."""
        if not self.userBindings:
            return True
        asked = (key.getPackageName(), key.getClassName().lower(), key.getType())
        return any(
            all(bound in (None, one) for bound, one in zip(binding, asked, strict=True))
            for binding in self._bound
        )

    def bindPackage(self, packageName: str) -> None:
        """Subscribe to all classes of a package; like all bind methods, this needs ``userBindings``."""
        self._bind(packageName, None, None)

    def bindClass(self, pname: str, cname: str | None = None) -> None:
        """Subscribe to the objects of a class, or of all classes of a package."""
        self._bind(pname, cname, "_data")

    def bindClassKey(self, classKey: ClassKey) -> None:
        """Subscribe to the objects of a class, given by its key."""
        self.bindClass(classKey.getPackageName(), classKey.getClassName())

    def bindEvent(self, pname: str, ename: str | None = None) -> None:
        """Subscribe to the events of a class, or of all classes of a package."""
        self._bind(pname, ename, "_event")

    def bindEventKey(self, eventKey: ClassKey) -> None:
        """Subscribe to the events of a class, given by its key."""
        self.bindEvent(eventKey.getPackageName(), eventKey.getClassName())

    def bindAgent(
        self, vendor: object = None, product: object = None, instance: object = None, label: object = None
    ) -> None:
        """Subscribe to an agent; without effect, as the broker's own agent, the only one, is always bound."""
        self._require_bindings()

    def _bind(self, package: str, name: str | None, kind: str | None) -> None:
        self._require_bindings()
        self._bound.append((package, None if name is None else name.lower(), kind))

    def _require_bindings(self) -> None:
        if not self.userBindings:
            raise ValueError("userBindings must be True to bind classes; got False")


def _make_query(meta: dict[str, Any]) -> dict[str, Any]:
    if "_objectId" in meta:
        return {"_object_id": meta["_objectId"].asMap()}
    key = meta["_schema"].getKey() if "_schema" in meta else meta.get("_key")
    if key is None:
        key = ClassKey(meta.get("_package", PACKAGE), str(meta.get("_class", "")).lower(), "_data")
    return {"_schema_id": {"_package_name": key.getPackageName() or None, "_class_name": key.getClassName()}}


__all__ = [
    "Agent",
    "Broker",
    "ClassKey",
    "Console",
    "Event",
    "MethodResult",
    "Object",
    "ObjectId",
    "SchemaArgument",
    "SchemaClass",
    "SchemaMethod",
    "SchemaProperty",
    "SchemaStatistic",
    "Session",
]
