"""The broker's objects as QMFv2 maps: queues, exchanges and so on, with statistics (CF-09, CF-10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from qflow.broker import Broker
from qflow.messaging.qmf_events import PACKAGE

Values = dict[str, Any]
Named = Iterator[tuple[str, Values]]
BROKER_NAME = "amqp-broker"


def object_id(kind: str, name: str) -> str:
    """Return the identity of an object.

    Examples
    --------
    >>> object_id("queue", "orders")
    'org.apache.qpid.broker:queue:orders'
    """
    return f"{PACKAGE}:{kind}:{name}"


def _reference(kind: str, name: str) -> Values:
    return {"_object_name": object_id(kind, name)}


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
        for subscription in session.consuming.subscriptions.values():
            values = asdict(subscription.statistics())
            queue = values.pop("queue")
            references = {"sessionRef": _reference("session", name), "queueRef": _reference("queue", queue)}
            yield f"{name},{queue},{subscription.name}", values | references


def _connections(broker: Broker) -> Named:
    for name, connection in broker.connections.items():
        if connection.sessions:
            yield name, {"address": name, "incoming": True}


_KINDS: dict[str, Callable[[Broker], Named]] = {
    "broker": _brokers,
    "queue": _queues,
    "exchange": _exchanges,
    "binding": _bindings,
    "session": _sessions,
    "subscription": _subscriptions,
    "connection": _connections,
}


def find_objects(broker: Broker, kind: str) -> list[Values]:
    """Return the objects of a kind; none for a kind this model does not have.

    Examples
    --------
    >>> broker = Broker()
    >>> broker.management.create("queue", "orders", {"qpid.max_count": 10})
    >>> found = find_objects(broker, "queue")[0]
    >>> found["_object_id"]["_object_name"], found["_values"]["flowStopped"]
    ('org.apache.qpid.broker:queue:orders', False)
    """
    make = _KINDS.get(kind)
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
