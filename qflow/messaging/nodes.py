"""Nodes: find, create, bind and delete the queue or exchange that an address names (CF-14, CF-15).

The ``create``, ``assert`` and ``delete`` policies of an address say who creates, checks or deletes its node:
the sender, the receiver, both or neither.  Queries and declarations are ordinary commands, which are sent
through the session's channel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from qflow.broker import Session
from qflow.messaging.address import Address
from qflow.messaging.channel import Action, Channel, do_nothing
from qflow.messaging.exceptions import LinkError, NotFound

QUEUE, TOPIC = "queue", "topic"
_FLAGS = ("durable", "auto_delete", "passive")
Command = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Node:
    """The node of an address: a queue, or an exchange with its exchange type as ``subtype``."""

    type: str
    subtype: str = ""


KnownNodes = dict[str, tuple[Node, int]]
"""A connection's cache of nodes by name, with the time in microseconds at which each was found.

An entry is valid for the connection's ``address_ttl``."""


class Nodes:
    """A finder of nodes, which also creates and deletes them; it calls ``then`` after the broker's answer."""

    def __init__(self, channel: Channel, known: KnownNodes, seconds: float) -> None:
        self._channel = channel
        self._known = known
        self._ttl = seconds * 1e6

    def resolve(
        self,
        address: Address,
        must_create: bool,
        then: Callable[[Node], None],
        fail: Callable[[LinkError], None],
    ) -> None:
        """Find or create an address's node and make its bindings; then call `then` with it, or `fail`."""
        # For assert, the real client compares only the type. It has queried for a node of that type only, so
        # a node of another type is not found (CF-15).
        wanted = address.node.get("type")

        def go_on(node: Node | None) -> None:
            if node is None and must_create:
                self._declare(address, then)
            elif node is None:
                fail(NotFound(text=f"no such {wanted or QUEUE}: {address.name}"))
            else:
                self._channel.give_all(self._node_bindings(address), do_nothing)
                then(node)

        if must_create and wanted:
            # Without a query: a declaration of an existing node succeeds, too.
            go_on(None)
        elif wanted is None and not must_create and (known := self._recall(address.name)):
            go_on(known)
        else:
            self._ask(address.name, wanted, go_on)

    def _recall(self, name: str) -> Node | None:
        node, found_at = self._known.get(name, (None, 0))
        return node if self._channel.host.broker.now - found_at < self._ttl else None

    def _remember(self, name: str, node: Node) -> None:
        self._known[name] = node, self._channel.host.broker.now

    def _ask(self, name: str, wanted: str | None, then: Callable[[Node | None], None]) -> None:
        """Query the node with a name, and call `then` with it or None; a queue precedes an exchange."""
        channel, engine = self._channel, self._channel.engine
        found: list[Node] = []

        def finish() -> None:
            if found:
                self._remember(name, found[0])
            then(found[0] if found else None)

        if wanted != QUEUE:
            topic = channel.give(engine.exchange_query, name, then=do_nothing if wanted is None else finish)
            if topic is not None and not topic.not_found:
                found.append(Node(TOPIC, topic.type))
        if wanted != TOPIC:
            queue = channel.give(engine.queue_query, name, then=finish)
            if queue is not None and queue.queue:
                found.insert(0, Node(QUEUE))

    def _node_bindings(self, address: Address) -> list[Command]:
        # The type in the address decides and not the node found; without a type, a queue is assumed.
        is_topic = address.node.get("type") == TOPIC
        return read_bindings(
            self._channel.engine,
            address.node,
            queue=None if is_topic else address.name,
            exchange=address.name if is_topic else None,
        )

    def _declare(self, address: Address, then: Callable[[Node], None]) -> None:
        engine = self._channel.engine
        overrides = address.node.get("x-declare") or {}
        durable = {"durable": address.node.get("durable", False)}
        if address.node.get("type", QUEUE) == QUEUE:
            node = Node(QUEUE)
            command = read_declare(engine, address.name, overrides, **durable)
        else:
            wanted = durable | replace_dashes(overrides)
            node = Node(TOPIC, str(wanted.get("type") or "topic"))
            command = partial(
                engine.exchange_declare, address.name, node.subtype, **_read_properties(wanted, *_FLAGS)
            )

        def finish() -> None:
            self._remember(address.name, node)
            then(node)

        self._channel.give_all([command, *self._node_bindings(address)], finish)

    def delete(self, address: Address, then: Action) -> None:
        """Delete the node of an address if it still exists, then call `then`."""
        engine = self._channel.engine

        def delete(node: Node | None) -> None:
            if node is None:
                then()
            else:
                command = engine.exchange_delete if node.type == TOPIC else engine.queue_delete
                self._channel.give(command, address.name, then=finish)

        def finish() -> None:
            self._known.pop(address.name, None)
            then()

        self._ask(address.name, address.node.get("type"), delete)


def read_bindings(
    engine: Session,
    options: dict[str, Any],
    queue: str | None = None,
    exchange: str | None = None,
    key: str | None = None,
) -> list[Command]:
    """Return the commands for the ``x-bindings``; each takes missing parts from the binding before it."""
    commands: list[Command] = []
    for binding in options.get("x-bindings") or []:
        queue, exchange = binding.get("queue", queue), binding.get("exchange", exchange)
        key = binding.get("key", key)
        arguments = binding.get("arguments") or {}
        commands.append(partial(engine.exchange_bind, queue or "", exchange or "", key or "", arguments))
    return commands


def read_declare(engine: Session, name: str, overrides: dict[str, Any], **defaults: Any) -> Command:
    """Return the command that declares a queue, with the ``x-declare`` options in place of the defaults."""
    wanted = defaults | replace_dashes(overrides)
    queue = str(wanted.get("queue", name))
    return partial(engine.queue_declare, queue, **_read_properties(wanted, *_FLAGS, "exclusive"))


def _read_properties(wanted: dict[str, Any], *flags: str) -> dict[str, Any]:
    """Return the arguments of a node's declaration, under AMQP's names."""
    return {
        "arguments": wanted.get("arguments") or {},
        "alternate_exchange": str(wanted.get("alternate_exchange") or ""),
        **{flag: wanted.get(flag) not in ("False", "false") and bool(wanted.get(flag)) for flag in flags},
    }


def replace_dashes(options: dict[str, Any]) -> dict[str, Any]:
    """Return options under AMQP's names, such as ``auto_delete`` for ``auto-delete``."""
    return {str(key).replace("-", "_"): value for key, value in options.items()}
