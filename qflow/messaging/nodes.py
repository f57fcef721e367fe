"""Nodes: finding, creating, checking, deleting the queue or exchange that an address names (CF-14, CF-15).

The ``create``, ``assert`` and ``delete`` policies of an address say whether its sender, its receiver, both or
neither does so.  Queries and declares are commands like any other, given through the session's channel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from qflow.messaging.channel import Channel
from qflow.messaging.exceptions import AssertionFailed, NotFound

QUEUE, TOPIC = "queue", "topic"


@dataclass(frozen=True, slots=True)
class LinkAddress:
    """An address, from the side of the sender or receiver that uses it."""

    name: str
    subject: str | None
    options: dict[str, Any]
    role: str

    @property
    def node(self) -> dict[str, Any]:
        """The options of the node."""
        return self.options.get("node") or {}

    @property
    def link(self) -> dict[str, Any]:
        """The options of the link."""
        return self.options.get("link") or {}

    def wants(self, policy: str) -> bool:
        """Return whether ``create``, ``assert`` or ``delete`` is up to this side."""
        return self.options.get(policy) in ("always", self.role)


@dataclass(frozen=True, slots=True)
class Node:
    """What an address was found to name: a queue, or an exchange and its type."""

    type: str
    subtype: str = ""


def resolve(channel: Channel, link: LinkAddress) -> Node:
    """Return the node of an address, after creating, binding and checking it as the address says.

    Raises
    ------
    NotFound
        There is none, and the address does not have this side create it.
    AssertionFailed
        It is not as the address says (CF-15).
    AmqpException
        The broker refuses to create or bind it.
    """
    requested = link.node.get("type")
    must_create = link.wants("create")
    # The real client does not ask before it declares a node of a stated type: a declare finds it, too.
    found = None if requested and must_create else find(channel, link.name, requested)
    if found is None:
        if not must_create:
            raise NotFound(text=f"no such {requested or QUEUE}: {link.name}")
        found = _declare(channel, link)
    if link.node.get("x-bindings"):
        on_topic = found.type == TOPIC
        bind_all(
            channel,
            link.node,
            queue=None if on_topic else link.name,
            exchange=link.name if on_topic else None,
        )
    if link.wants("assert"):
        _check(channel, link, found)
    return found


def find(channel: Channel, name: str, requested: str | None) -> Node | None:
    """Return the node that has a name, or None; a queue comes before an exchange of the same name."""
    engine = channel.engine
    topic = channel.run(engine.exchange_query, name) if requested != QUEUE else None
    queue = channel.run(engine.queue_query, name) if requested != TOPIC else None
    if queue is not None and queue.queue:
        return Node(QUEUE)
    if topic is not None and not topic.not_found:
        return Node(TOPIC, topic.type)
    return None


def delete(channel: Channel, link: LinkAddress) -> None:
    """Delete the node of an address, if it is still there."""
    node = find(channel, link.name, link.node.get("type"))
    if node is not None and node.type == TOPIC:
        channel.run(channel.engine.exchange_delete, link.name)
    elif node is not None:
        channel.run(channel.engine.queue_delete, link.name)


def bind_all(
    channel: Channel,
    options: dict[str, Any],
    queue: str | None = None,
    exchange: str | None = None,
    key: str | None = None,
) -> int:
    """Bind as the ``x-bindings`` of a node or link say; return how many there are.

    As in the real client, what one binding leaves out is taken from the one before it.
    """
    bindings = options.get("x-bindings") or []
    for binding in bindings:
        queue, exchange = binding.get("queue", queue), binding.get("exchange", exchange)
        key = binding.get("key", key)
        arguments = binding.get("arguments") or {}
        channel.run(channel.engine.exchange_bind, queue or "", exchange or "", key or "", arguments)
    return len(bindings)


def declare_queue(channel: Channel, name: str, overrides: dict[str, Any], **defaults: Any) -> None:
    """Declare a queue; ``x-declare`` overrides what the client would ask for."""
    wanted = defaults | without_dashes(overrides)
    channel.run(
        channel.engine.queue_declare,
        str(wanted.get("queue", name)),
        wanted.get("arguments") or {},
        durable=_flag(wanted, "durable"),
        auto_delete=_flag(wanted, "auto_delete"),
        exclusive=_flag(wanted, "exclusive"),
        passive=_flag(wanted, "passive"),
        alternate_exchange=str(wanted.get("alternate_exchange") or ""),
    )


def _declare(channel: Channel, link: LinkAddress) -> Node:
    durable = {"durable": link.node.get("durable", False)}
    overrides = link.node.get("x-declare") or {}
    if link.node.get("type", QUEUE) == QUEUE:
        declare_queue(channel, link.name, overrides, **durable)
        return Node(QUEUE)
    wanted = durable | without_dashes(overrides)
    kind = str(wanted.get("type") or "topic")
    channel.run(
        channel.engine.exchange_declare,
        link.name,
        kind,
        alternate_exchange=str(wanted.get("alternate_exchange") or ""),
        passive=_flag(wanted, "passive"),
        durable=_flag(wanted, "durable"),
        auto_delete=_flag(wanted, "auto_delete"),
        arguments=wanted.get("arguments") or {},
    )
    return Node(TOPIC, kind)


def _check(channel: Channel, link: LinkAddress, found: Node) -> None:
    wanted_type = link.node.get("type")
    if wanted_type and found.type != wanted_type:
        raise AssertionFailed(text=f"expected {wanted_type}, got {found.type}")
    wanted = without_dashes(link.node.get("x-declare") or {})
    wanted.setdefault("durable", link.node.get("durable"))
    error = next(_differences(wanted, _actual(channel, link.name, found)), None)
    if error:
        raise AssertionFailed(text=f"{found.type} {link.name}: {error}")


def _actual(channel: Channel, name: str, node: Node) -> dict[str, Any]:
    """Return what a node was declared with, by the names that ``x-declare`` has for it."""
    if node.type == QUEUE:
        queue = channel.run(channel.engine.queue_query, name)
        return {
            "auto_delete": queue.auto_delete,
            "exclusive": queue.exclusive,
            "durable": queue.durable,
            "alternate_exchange": queue.alternate_exchange,
            "arguments": queue.arguments,
        }
    topic = channel.run(channel.engine.exchange_query, name)
    exchange = channel.host.broker.exchanges.get(name)
    return {
        "type": topic.type,
        "durable": topic.durable,
        "alternate_exchange": "" if exchange.alternate is None else exchange.alternate.name,
        "arguments": exchange.arguments,
    }


def _differences(wanted: dict[str, Any], actual: dict[str, Any]) -> Iterator[str]:
    for key, value in wanted.items():
        if key == "arguments":
            declared = actual.get("arguments", {})
            for name, argument in (value or {}).items():
                if name not in declared:
                    yield f"expected {name}={argument!r}, which was not declared"
                elif str(declared[name]) != str(argument):
                    yield f"expected {name}={argument!r}, got {declared[name]!r}"
        elif key in ("type", "alternate_exchange"):
            if value and value != actual.get(key):
                yield f"expected {key}={value!r}, got {actual.get(key)!r}"
        elif key in actual and _flag(wanted, key) and not actual[key]:
            yield f"expected {key}, got none of it"


def without_dashes(options: dict[str, Any]) -> dict[str, Any]:
    """Return options by the names that AMQP has for them: ``auto_delete`` for ``auto-delete``."""
    return {str(key).replace("-", "_"): value for key, value in options.items()}


def _flag(options: dict[str, Any], key: str) -> bool:
    value = options.get(key)
    return value not in ("False", "false") and bool(value)
