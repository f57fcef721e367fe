"""QMFv2, the broker's management protocol, as messages: events, objects with statistics, and methods.

A console subscribes to ``qmf.default.topic`` and receives **events** as indications (CF-12, QT-13): those
events that the engine reports to its observer and that are part of the management schema.  The console sends
requests to ``qmf.default.direct``, with the key ``broker``: queries for **objects** (queues, exchanges,
bindings … with their statistics; CF-09, CF-10) and **method calls** on the broker, its queues and its
connections (CF-07, CF-08, CF-11).  ``BrokerAgent`` of qpidtoollibs sends and reads these messages.

The :class:`Agent` of a broker publishes the events and answers the requests.  The exchange passes it each
request (CF-16), whether the sender is a client of :mod:`qflow.messaging`, a session of the engine, or a
remote client of a server.  A request is a message (:meth:`qflow.broker.Message.of`) with the application id
``qmf2``, the header ``qmf.opcode``, a ``reply_to``, and a dict as its body (a server decodes it first).  The
answer has the same form.  The agent sends through its own session, which it does not list among the objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any, Protocol

from qflow.broker import Broker, Event, Message, Session
from qflow.broker.errors import AmqpException, ManagementError
from qflow.broker.events import Observer
from qflow.broker.exchanges import AGENT_NAME, Exchange, topic_matches
from qflow.broker.links import LinkSession
from qflow.broker.message import Transfer
from qflow.broker.queue import Queue
from qflow.messaging.messages import APP_ID, SUBJECT
from qflow.messaging.qmf_schema import EVENTS, FLOW_TO_DISK, MALLOC, PACKAGE, find_method, schemas

_EVENTS_EXCHANGE = "qmf.default.topic"
REQUESTS = "qmf.default.direct"
AGENT_SESSION = "qmf.agent"
QMF = "qmf2"

_PUBLISH_INTERVAL = 10_000_000
"""Microseconds between two comparisons of all objects for this process's consoles (``mgmt-pub-interval``)."""

_GENERATIONS = 2
"""The number of rounds of publishing.  Publishing an event may cause events, and so on without end; this
limits the rounds to the events themselves and the events that publishing these causes."""

Values = dict[str, Any]

_WARNINGS = ("queueThresholdCrossedUpward", "queueThresholdExceeded")


def _severity(kind: str) -> str:
    return "warn" if kind in _WARNINGS else "inform"


def _routing_key(kind: str) -> str:
    package, agent = PACKAGE.replace(".", "_"), AGENT_NAME.replace(".", "_").replace(":", ".")
    return f"agent.ind.event.{package}.{kind}.{_severity(kind)}.{agent}"


def _indicate(event: Event) -> Values:
    """Return the QMFv2 content of an engine event whose kind is in :data:`EVENTS`."""
    detail = dict(event.detail or {})
    values = {
        "rhost": "in-process",
        "user": "anonymous",
        "qName": event.queue,
        **dict.fromkeys(("exName", "dest", "qTarget"), event.link),
        "key": "",
        **detail,
        "args": detail.get("arguments"),
        "exType": detail.get("type"),
    }
    return {
        "_schema_id": {"_package_name": PACKAGE, "_class_name": event.kind, "_type": "_event"},
        "_values": {one.name: values[one.name] for one in schemas()[event.kind].arguments},
        "_timestamp": event.time * 1000,
        "_severity": _severity(event.kind),
    }


def _message(
    body: Values | list[Values], opcode: str, method: str, subject: str | None = None, content: str = ""
) -> Message:
    headers: Values = {"method": method, "qmf.opcode": opcode, "qmf.agent": AGENT_NAME, APP_ID: QMF}
    if content:
        headers["qmf.content"] = content
    if subject is not None:
        headers[SUBJECT] = subject
    return Message.of(body, subject, headers=headers, app_id=QMF)


# Objects (CF-09, CF-10)

_Named = Iterator[tuple[str, Values]]
BROKER_NAME = "amqp-broker"
_DEPRECATED = dict.fromkeys(FLOW_TO_DISK, 0)
"""Statistics of flow to disk, a feature removed from the broker: always 0 (CF-09)."""


def _reference(kind: str, name: str) -> Values:
    return {"_object_name": f"{PACKAGE}:{kind}:{name}"}


def _alternate(node: Queue | Exchange) -> Values | None:
    return None if node.alternate is None else _reference("exchange", node.alternate.name)


def _brokers(broker: Broker) -> _Named:
    statistics = asdict(broker.statistics())
    totals = statistics.pop("totals")
    own = {"name": BROKER_NAME, "uptime": broker.now * 1000}
    yield BROKER_NAME, {**own, **totals, **statistics, **_DEPRECATED}


def _memory(broker: Broker) -> _Named:
    """Yield the memory statistics: the bytes of queued messages, the only memory that the model counts."""
    held = dict.fromkeys(("malloc_arena", "malloc_uordblks"), broker.statistics().byteDepth)
    yield BROKER_NAME, {"name": BROKER_NAME, **dict.fromkeys(MALLOC, 0), **held}


def _queues(broker: Broker) -> _Named:
    for name in dict.fromkeys((*broker.queues.queues, *broker.queues.lingering)):
        queue = broker.queues.find_shown(name)
        # A lingering queue is deleted but still in use; management shows only some of these.
        if queue is None:
            continue
        own = {
            "durable": queue.durable,
            "autoDelete": queue.lifetime.deletes_itself,
            "exclusive": bool(queue.lifetime.owner),
            "arguments": dict(queue.settings.arguments),
            "altExchange": _alternate(queue),
        }
        yield name, {**asdict(queue.statistics()), **_DEPRECATED, **own}


def _exchanges(broker: Broker) -> _Named:
    for name, exchange in broker.exchanges.exchanges.items():
        own = {
            "durable": exchange.durable,
            "autoDelete": exchange.deletes_itself,
            "altExchange": _alternate(exchange),
            "arguments": exchange.arguments,
        }
        yield name, {**asdict(exchange.statistics()), **own}


def _bindings(broker: Broker) -> _Named:
    for name, exchange in broker.exchanges.exchanges.items():
        for binding in exchange.bindings.values():
            values = {
                "exchangeRef": _reference("exchange", name),
                "queueRef": _reference("queue", binding.queue.name),
                "bindingKey": binding.key,
                "arguments": dict(binding.arguments),
                "msgMatched": binding.matched,
            }
            yield f"{name},{binding.queue.name},{binding.key}", values


def _clients(broker: Broker) -> Iterator[tuple[str, Session]]:
    """Return all sessions except the agent's own, by name."""
    return ((name, session) for name, session in broker.sessions.items() if name != AGENT_SESSION)


def _sessions(broker: Broker) -> _Named:
    for name, session in _clients(broker):
        if session.is_attached:
            connection = _reference("connection", session.connection.name)
            yield name, {**asdict(session.statistics()), "connectionRef": connection, "attached": True}


def _subscriptions(broker: Broker) -> _Named:
    for name, session in _clients(broker):
        for subscription in session.consuming.list_shown():
            values = asdict(subscription.statistics())
            queue = values.pop("queue")
            references = {"sessionRef": _reference("session", name), "queueRef": _reference("queue", queue)}
            yield f"{name},{queue},{subscription.name}", values | references


def _connections(broker: Broker) -> _Named:
    for name, connection in broker.connections.items():
        if connection.sessions and name != AGENT_SESSION:
            speaks_links = any(isinstance(session, LinkSession) for session in connection.sessions)
            values = asdict(connection.statistics())
            own = {
                "address": values.pop("name"),
                "incoming": True,
                "authIdentity": "anonymous",
                "saslMechanism": "ANONYMOUS",
                "saslSsf": 0,
                "remoteProperties": {},
                "protocol": "AMQP 1.0" if speaks_links else "AMQP 0-10",
                "closing": False,
            }
            yield name, {**own, **values}


_OBJECT_KINDS: dict[str, Callable[[Broker], _Named]] = {
    "broker": _brokers,
    "memory": _memory,
    "queue": _queues,
    "exchange": _exchanges,
    "binding": _bindings,
    "session": _sessions,
    "subscription": _subscriptions,
    "connection": _connections,
}


def find_objects(broker: Broker, kind: str) -> list[Values]:
    """Return the objects of a class as QMFv2 maps, or [] for a class that this model does not have.

    >>> broker = Broker()
    >>> broker.management.create("queue", "orders", {"qpid.max_count": 10})
    >>> find_objects(broker, "queue")[0]["_values"]["flowStopped"]
    False
    """
    found = _OBJECT_KINDS[kind](broker) if kind in _OBJECT_KINDS else ()
    return [
        {
            "_object_id": _reference(kind, name),
            "_schema_id": {"_package_name": PACKAGE, "_class_name": kind, "_type": "_data"},
            "_values": values,
            "_create_ts": 0,
            "_update_ts": broker.now * 1000,
            "_delete_ts": 0,
        }
        for name, values in found
    ]


# Methods (CF-07, CF-08, CF-11)

UNKNOWN_METHOD, INVALID_PARAMETER, EXCEPTION = 2, 4, 7


def call(broker: Broker, identity: str, method: str, arguments: Values) -> Values:
    """Call a method of an object and return its outputs by name, or raise a ManagementError (CF-08)."""
    _, _, kind_and_name = identity.partition(":")
    kind, _, name = kind_and_name.partition(":")
    known = find_method(kind, method)
    if known is None:
        # Checked against the schema first: Python's own error about arguments would name our functions.
        raise ManagementError(UNKNOWN_METHOD, f"UnknownMethod: {kind} has no {method!r}")
    if wrong := known.find_error(arguments):
        raise ManagementError(INVALID_PARAMETER, f"InvalidParameter: {wrong}")
    action: Callable[..., Any] = getattr(broker.management, method)
    owner = {} if kind == "broker" else {kind: name}
    try:
        result = action(**owner, **arguments)
    except (TypeError, ValueError) as error:
        raise ManagementError(INVALID_PARAMETER, f"InvalidParameter: {error}") from error
    names = known.names("O")
    return dict(zip(names, result if len(names) > 1 else [result], strict=True)) if names else {}


# The agent


class _Listener(Protocol):
    """A console in this process, which the agent calls directly between commands, without a queue."""

    def receive(self, content: Values) -> None:
        """Handle an event in the form that :func:`_indicate` returns."""

    def look(self) -> None:
        """Report the objects that have changed since the last call."""

    def settle(self) -> None:
        """Do the pending work between commands."""


class Agent:
    """The management agent of a broker, which answers requests, and publishes events if called to."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        # Consoles in this process, and bindings of others' queues: without either, no events are observed.
        self.listeners: list[_Listener] = []
        self.bindings = broker.exchanges.get(_EVENTS_EXCHANGE).bindings
        self._looked_at = broker.now // _PUBLISH_INTERVAL
        self.pending: list[Event] = []
        self._other_observer: Observer | None = None
        # Kept as one object, to compare it with the broker's observer: each access makes a new bound method.
        self.own_observer: Observer = self._observe
        broker.agent = self

    @classmethod
    def of(cls, broker: Broker) -> Agent:
        """Return the broker's agent, created if the broker has none."""
        agent = broker.agent
        return agent if isinstance(agent, cls) else cls(broker)

    # Events

    def watch(self) -> None:
        """Observe the broker's events while a console needs them; to be called before each command."""
        is_wanted = bool(self.listeners or self.bindings)
        if is_wanted and self.broker.observer is not self.own_observer:
            self._other_observer = self.broker.observer
            self.broker.observe(self.own_observer)
        elif not is_wanted and self.broker.observer is self.own_observer:
            self.broker.observe(self._other_observer)

    def _observe(self, event: Event) -> None:
        if event.kind in EVENTS:
            self.pending.append(event)
        if self._other_observer is not None:
            self._other_observer(event)

    def publish_events(self) -> None:
        """Publish the pending events, and the events that this causes; to be called after each command."""
        # Not during the command, so that an alert's message is never enqueued inside another enqueue. Since
        # publishing may fill a console's queue, which is an event again, the number of rounds is limited.
        for _ in range(_GENERATIONS):
            pending, self.pending = self.pending, []
            for event in pending:
                self._publish(event)
        self.pending.clear()
        if self.listeners and self.broker.now >= self.next_look:
            self._looked_at = self.broker.now // _PUBLISH_INTERVAL
            for listener in list(self.listeners):
                listener.look()
        for listener in list(self.listeners):
            listener.settle()

    @property
    def next_look(self) -> int:
        """The virtual time in microseconds at which the listeners next compare all objects."""
        return (self._looked_at + 1) * _PUBLISH_INTERVAL

    def _publish(self, event: Event) -> None:
        content, key = _indicate(event), _routing_key(event.kind)
        for listener in list(self.listeners):
            listener.receive(content)
        if any(topic_matches(binding.key, key) for binding in self.bindings.values()):
            message = _message([content], "_data_indication", "indication", key, content="_event")
            self._send(message, _EVENTS_EXCHANGE)

    def _send(self, message: Message, exchange: str) -> None:
        """Send a message, which is lost without an error if a queue has no room."""
        session = self.broker.sessions.get(AGENT_SESSION)
        if session is None or not session.is_attached:
            # The agent's messages are routed and limited like all others: a message to a full queue is
            # refused, which ends this session. The next message gets a new session.
            session = self.broker.session(AGENT_SESSION)
        with suppress(AmqpException):
            session.message_transfer(message, exchange)

    # Requests

    def __call__(self, transfer: Transfer) -> None:
        """Answer the request in a transfer from the exchange (:meth:`answer`)."""
        self.answer(transfer.message)

    def answer(self, request: Message) -> None:
        """Perform a QMF request and answer it; ignore other messages, and those without a ``reply_to``."""
        if request.reply_to is None or QMF not in (request.app_id, request.header(APP_ID)):
            return
        exchange, key = request.reply_to
        answer = self._answer(request)
        self._send(replace(answer, routing_key=key, correlation_id=request.correlation_id), exchange or "")

    def _answer(self, request: Message) -> Message:
        content: Values = request.body if isinstance(request.body, dict) else {}
        opcode = request.header("qmf.opcode")
        try:
            if opcode == "_method_request":
                return _message({"_arguments": self._call(content)}, "_method_response", "response")
            if opcode == "_query_request":
                return _message(query(self.broker, content), "_query_response", "response", content="_data")
            if opcode == "_agent_locate_request":
                return _message({"_values": self._attributes()}, "_agent_locate_response", "indication")
            raise ManagementError(EXCEPTION, f"unknown opcode: {opcode!s}")
        except ManagementError as error:
            values = {"error_code": error.status, "error_text": error.text}
            return _message({"_values": values}, "_exception", "response")

    def _call(self, content: Values) -> Values:
        method, arguments = content.get("_method_name"), content.get("_arguments") or {}
        identity = _object_name(content)
        if identity is None or not isinstance(method, str) or not isinstance(arguments, dict):
            raise ManagementError(INVALID_PARAMETER, "InvalidParameter")
        return call(self.broker, identity, method, arguments)

    def _attributes(self) -> Values:
        vendor, product, instance = AGENT_NAME.split(":")
        return {
            "_vendor": vendor,
            "_product": product,
            "_instance": instance,
            "_name": AGENT_NAME,
            "_timestamp": self.broker.now * 1000,
            "_heartbeat_interval": _PUBLISH_INTERVAL // 1_000_000,
            "_epoch": 1,
        }


def _object_name(content: Values) -> str | None:
    identity = content.get("_object_id")
    name = identity.get("_object_name") if isinstance(identity, dict) else None
    return name if isinstance(name, str) else None


def query(broker: Broker, content: Values) -> list[Values]:
    """Return the objects that match a query, or [] for a query that is not about objects."""
    if content.get("_what", "OBJECT") != "OBJECT":
        return []
    if "_object_id" in content:
        identity = _object_name(content) or ""
        kind = identity.removeprefix(f"{PACKAGE}:").partition(":")[0]
        return [o for o in find_objects(broker, kind) if o["_object_id"]["_object_name"] == identity]
    schema = content.get("_schema_id")
    if not isinstance(schema, dict) or schema.get("_package_name", PACKAGE) not in ("", PACKAGE):
        return []
    return find_objects(broker, str(schema.get("_class_name")))
