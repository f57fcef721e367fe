"""QMFv2, the broker's management protocol, as messages: events, objects with statistics, and methods.

A console subscribes to ``qmf.default.topic`` and receives **events** as indications (CF-12, QT-13): of all
that the engine reports to its observer, the kinds that management knows.  It sends requests to
``qmf.default.direct``, where the management **agent** answers: queries for **objects** (queues, exchanges,
bindings … with their statistics; CF-09, CF-10) and **method calls** on the broker and its queues
(CF-07, CF-08, CF-11).  This is what ``BrokerAgent`` of qpidtoollibs sends and reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from qflow.broker import Broker, Event, Session
from qflow.broker.errors import AmqpException, ManagementError
from qflow.broker.exchanges import topic_matches
from qflow.messaging.messages import Message, ReplyTo, to_broker

EVENTS_EXCHANGE = "qmf.default.topic"
PACKAGE = "org.apache.qpid.broker"
AGENT = "apache.org:qpidd:qflow"
AGENT_SESSION = "qmf.agent"

Values = dict[str, Any]
_WHO: Values = {"rhost": "in-process", "user": "anonymous"}


def _threshold(event: Event, detail: Values) -> Values:
    return {"qName": event.queue, "msgDepth": detail["msgDepth"], "byteDepth": detail["byteDepth"]}


def _queue(event: Event, detail: Values) -> Values:
    arguments = {"args": detail["arguments"]} if "arguments" in detail else {}
    return _WHO | {"qName": event.queue} | arguments


def _exchange(event: Event, detail: Values) -> Values:
    kind = {"exType": detail["type"]} if "type" in detail else {}
    return _WHO | {"exName": event.link} | kind


def _binding(event: Event, detail: Values) -> Values:
    return _WHO | {"exName": event.link, "qName": event.queue, "key": detail.get("key", "")}


def _subscription(event: Event, detail: Values) -> Values:
    return _WHO | {"qName": event.queue, "dest": event.link}


def _redirect(event: Event, detail: Values) -> Values:
    return {"qName": event.queue, "qTarget": event.link}


_EVENT_KINDS: dict[str, tuple[str, Callable[[Event, Values], Values]]] = {
    "queueThresholdCrossedUpward": ("warn", _threshold),
    "queueThresholdCrossedDownward": ("inform", _threshold),
    "queueThresholdExceeded": ("warn", _threshold),
    "queueDeclare": ("inform", _queue),
    "queueDelete": ("inform", _queue),
    "exchangeDeclare": ("inform", _exchange),
    "exchangeDelete": ("inform", _exchange),
    "bind": ("inform", _binding),
    "unbind": ("inform", _binding),
    "subscribe": ("inform", _subscription),
    "unsubscribe": ("inform", _subscription),
    "queueRedirect": ("inform", _redirect),
    "queueRedirectCancelled": ("inform", _redirect),
}


def _routing_key(kind: str) -> str:
    """Return the key under which an event is published.

    Examples
    --------
    >>> _routing_key("queueThresholdExceeded")
    'agent.ind.event.org_apache_qpid_broker.queueThresholdExceeded.warn.apache_org.qpidd.qflow'
    """
    package, agent = PACKAGE.replace(".", "_"), AGENT.replace(".", "_").replace(":", ".")
    return f"agent.ind.event.{package}.{kind}.{_EVENT_KINDS[kind][0]}.{agent}"


def _indication(event: Event) -> Message:
    """Return the QMFv2 message for an event of the engine."""
    severity, values = _EVENT_KINDS[event.kind]
    schema = {"_package_name": PACKAGE, "_class_name": event.kind, "_type": "_event"}
    content = {
        "_schema_id": schema,
        "_values": values(event, dict(event.detail or {})),
        "_timestamp": event.time * 1000,
        "_severity": severity,
    }
    headers: Values = {
        "method": "indication",
        "qmf.opcode": "_data_indication",
        "qmf.content": "_event",
        "qmf.agent": AGENT,
        "x-amqp-0-10.app-id": "qmf2",
    }
    return Message([content], subject=_routing_key(event.kind), properties=headers)


def is_published(event: Event) -> bool:
    """Return whether an event of the engine is of a kind that management knows."""
    return event.kind in _EVENT_KINDS


def publish_event(broker: Broker, event: Event) -> None:
    """Send an event to the consoles that are subscribed to its key, if there are any."""
    key = _routing_key(event.kind)
    bindings = broker.exchanges.get(EVENTS_EXCHANGE).bindings.values()
    if any(topic_matches(binding.key, key) for binding in bindings):
        publish(broker, _indication(event), EVENTS_EXCHANGE, key)


def publish(broker: Broker, message: Message, exchange: str, key: str) -> None:
    """Send a message of the management agent; it is lost without an error if a queue has no room for it."""
    try:
        _agent_session(broker).message_transfer(to_broker(message, key, message.subject), exchange)
    except AmqpException:
        return


def _agent_session(broker: Broker) -> Session:
    session = broker.sessions.get(AGENT_SESSION)
    return session if session is not None and session.is_attached else broker.session(AGENT_SESSION)


# Objects (CF-09, CF-10)

Named = Iterator[tuple[str, Values]]
BROKER_NAME = "amqp-broker"


def _reference(kind: str, name: str) -> Values:
    return {"_object_name": f"{PACKAGE}:{kind}:{name}"}


def _brokers(broker: Broker) -> Named:
    statistics = asdict(broker.statistics())
    totals = statistics.pop("totals")
    yield BROKER_NAME, {"name": BROKER_NAME, "uptime": broker.now * 1000, **totals, **statistics}


def _queues(broker: Broker) -> Named:
    for name, queue in broker.queues.queues.items():
        alternate = queue.alternate
        yield (
            name,
            {
                **queue.statistics().asdict(),
                "durable": queue.durable,
                "autoDelete": queue.lifetime.deletes_itself,
                "exclusive": bool(queue.lifetime.owner),
                "arguments": dict(queue.settings.arguments),
                "altExchange": None if alternate is None else _reference("exchange", alternate.name),
            },
        )


def _exchanges(broker: Broker) -> Named:
    for name, exchange in broker.exchanges.exchanges.items():
        alternate = exchange.alternate
        yield (
            name,
            {
                **asdict(exchange.statistics()),
                "durable": exchange.durable,
                "autoDelete": exchange.deletes_itself,
                "altExchange": None if alternate is None else _reference("exchange", alternate.name),
            },
        )


def _bindings(broker: Broker) -> Named:
    for name, exchange in broker.exchanges.exchanges.items():
        for binding in exchange.bindings.values():
            yield (
                f"{name},{binding.queue.name},{binding.key}",
                {
                    "exchangeRef": _reference("exchange", name),
                    "queueRef": _reference("queue", binding.queue.name),
                    "bindingKey": binding.key,
                    "arguments": dict(binding.arguments),
                    "msgMatched": binding.matched,
                },
            )


def _sessions(broker: Broker) -> Named:
    for name, session in broker.sessions.items():
        if session.is_attached:
            connection = _reference("connection", session.connection.name)
            yield name, {**asdict(session.statistics()), "connectionRef": connection, "attached": True}


def _subscriptions(broker: Broker) -> Named:
    for name, session in broker.sessions.items():
        for subscription in session.consuming.shown():
            values = asdict(subscription.statistics())
            queue = values.pop("queue")
            references = {"sessionRef": _reference("session", name), "queueRef": _reference("queue", queue)}
            yield f"{name},{queue},{subscription.name}", values | references


def _connections(broker: Broker) -> Named:
    for name, connection in broker.connections.items():
        if connection.sessions:
            yield name, {"address": name, "incoming": True}


_OBJECT_KINDS: dict[str, Callable[[Broker], Named]] = {
    "broker": _brokers,
    "queue": _queues,
    "exchange": _exchanges,
    "binding": _bindings,
    "session": _sessions,
    "subscription": _subscriptions,
    "connection": _connections,
}


def find_objects(broker: Broker, kind: str) -> list[Values]:
    """Return the objects of a class; none for a class that this model does not have.

    Examples
    --------
    >>> broker = Broker()
    >>> broker.management.create("queue", "orders", {"qpid.max_count": 10})
    >>> found = find_objects(broker, "queue")[0]
    >>> found["_object_id"]["_object_name"], found["_values"]["flowStopped"]
    ('org.apache.qpid.broker:queue:orders', False)
    """
    make = _OBJECT_KINDS.get(kind)
    if make is None:
        return []
    return [_as_map(broker, kind, name, values) for name, values in make(broker)]


def find_object(broker: Broker, identity: str) -> Values | None:
    """Return the object of an identity, or None."""
    kind = identity.removeprefix(f"{PACKAGE}:").partition(":")[0]
    return next((o for o in find_objects(broker, kind) if o["_object_id"]["_object_name"] == identity), None)


def _as_map(broker: Broker, kind: str, name: str, values: Values) -> Values:
    return {
        "_object_id": _reference(kind, name),
        "_schema_id": {"_package_name": PACKAGE, "_class_name": kind, "_type": "_data"},
        "_values": values,
        "_create_ts": 0,
        "_update_ts": broker.now * 1000,
        "_delete_ts": 0,
    }


# The agent (CF-07, CF-08, CF-11)

REQUESTS = "qmf.default.direct"
UNKNOWN_METHOD, INVALID_PARAMETER, EXCEPTION = 2, 4, 7
METHODS: dict[str, dict[str, tuple[str, ...]]] = {
    "broker": {
        "create": ("type", "name", "properties", "strict"),
        "delete": ("type", "name", "options"),
        "query": ("type", "name"),
        "queueMoveMessages": ("srcQueue", "destQueue", "qty", "filter"),
        "queueRedirect": ("sourceQueue", "targetQueue"),
        "echo": ("sequence", "body"),
    },
    "queue": {
        "purge": ("request", "filter"),
        "reroute": ("request", "useAltExchange", "exchange", "filter"),
    },
}
"""Methods and the names of their arguments in order, by the class of object they are called on (CF-11)."""
_OPTIONAL = {"properties", "strict", "options", "qty", "filter", "targetQueue", "useAltExchange", "request"}


def answer(broker: Broker, request: Message) -> None:
    """Carry out a request, and send the answer to its ``reply_to`` if it has one."""
    reply_to = None if request.reply_to is None else ReplyTo.of(request.reply_to)
    response = _response(broker, request)
    response.correlation_id = request.correlation_id
    response.properties |= {"method": "response", "qmf.agent": AGENT, "x-amqp-0-10.app-id": "qmf2"}
    if reply_to is not None and reply_to.routing_key is not None:
        publish(broker, response, reply_to.exchange or "", reply_to.routing_key)


def call(broker: Broker, identity: str, method: str, arguments: Values) -> Values:
    """Call a method of :data:`METHODS` on the broker or on a queue; return its output arguments.

    The identity is ``org.apache.qpid.broker:broker:amqp-broker`` or ``org.apache.qpid.broker:queue:<name>``.

    Raises
    ------
    ManagementError
        With the status (CF-08).

    Examples
    --------
    >>> broker = Broker()
    >>> there = "org.apache.qpid.broker:broker:amqp-broker"
    >>> call(broker, there, "create", {"type": "queue", "name": "orders"})
    {}
    >>> call(broker, there, "query", {"type": "queue", "name": "orders"})
    {'results': {}}
    """
    _, _, kind_and_name = identity.partition(":")
    kind, _, name = kind_and_name.partition(":")
    if method not in METHODS.get(kind, {}):
        raise ManagementError(UNKNOWN_METHOD, f"UnknownMethod: {kind} has no {method!r}")
    _check(method, METHODS[kind][method], arguments)
    action: Callable[..., Any] = getattr(broker.management, method)
    owner = {"queue": name} if kind == "queue" else {}
    try:
        result = action(**owner, **arguments)
    except AmqpException as error:
        raise ManagementError(EXCEPTION, str(error)) from error
    if method == "query":
        return {"results": result}
    return dict(zip(("sequence", "body"), result, strict=True)) if method == "echo" else {}


def _check(method: str, names: tuple[str, ...], arguments: Values) -> None:
    unknown = [name for name in arguments if name not in names]
    missing = [name for name in names if name not in arguments and name not in _OPTIONAL]
    if method == "reroute" and arguments.get("useAltExchange"):
        missing = []
    if unknown or missing:
        text = f"{method}: got {sorted(arguments)}, takes {list(names)}"
        raise ManagementError(INVALID_PARAMETER, f"InvalidParameter: {text}")


def _response(broker: Broker, request: Message) -> Message:
    content: Any = request.content if isinstance(request.content, dict) else {}
    opcode = request.properties.get("qmf.opcode")
    try:
        if opcode == "_method_request":
            identity = str(content.get("_object_id", {}).get("_object_name", ""))
            result = call(broker, identity, str(content.get("_method_name")), content.get("_arguments") or {})
            return Message({"_arguments": result}, properties={"qmf.opcode": "_method_response"})
        if opcode == "_query_request":
            found = _query(broker, content)
            headers: Values = {"qmf.opcode": "_query_response", "qmf.content": "_data"}
            return Message(found, properties=headers)
        raise ManagementError(EXCEPTION, f"unknown opcode: {opcode}")
    except ManagementError as error:
        values = {"error_code": error.status, "error_text": error.text}
        return Message({"_values": values}, properties={"qmf.opcode": "_exception"})


def _query(broker: Broker, content: Values) -> list[Values]:
    if "_object_id" in content:
        found = find_object(broker, str(content["_object_id"].get("_object_name")))
        return [] if found is None else [found]
    return find_objects(broker, str(content.get("_schema_id", {}).get("_class_name")))
