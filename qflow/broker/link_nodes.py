"""Nodes of AMQP 1.0: the queue or exchange at a link's address, and its creation (LNK-16 …).

An address is the literal name of a node: of a topic that a policy created, or else of a queue, or else of an
exchange; with the capability ``topic`` an exchange precedes a queue (LNK-16).  A node that does not exist may
be created in three ways: a *dynamic* node, which a link's terminus requests, gets the name
``<container>_<link>`` (LNK-18); the capability ``create-on-demand`` creates a node of the requested name
(LNK-17); and a *policy*, which management defines, creates each node whose name matches its pattern (LNK-20).
Otherwise the link is refused.

The properties of the terminus are the arguments of the node's declare, and the answer to the attach repeats
the requested ones (LNK-17).  The property ``lifetime-policy`` determines when the node is deleted: a queue
counts links that send to it as users, too, and the link that created it may *control* its lifetime (LNK-18).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from qflow.broker.errors import LinkException, ManagementError
from qflow.broker.exchanges import EXCHANGE_TYPES, Exchange
from qflow.broker.message import HeaderValue, Router
from qflow.broker.queue import Queue
from qflow.broker.registry import EXCEPTION, QueueRegistry
from qflow.broker.restorable import Dependent, Restorable
from qflow.broker.settings import QueueSettings, to_bool, to_text

_CREATE_ON_DEMAND: Final = "create-on-demand"
QUEUE, TOPIC, SHARED, DURABLE = "queue", "topic", "shared", "durable"
_FILTERS = {"legacy-amqp-direct-binding": "direct", "legacy-amqp-topic-binding": "topic"}

LIFETIMES: Final[dict[str, str]] = {
    "amqp:delete-on-close:list": "delete-on-close",
    "amqp:delete-on-no-links:list": "delete-if-unused",
    "amqp:delete-on-no-messages:list": "delete-if-empty",
    "amqp:delete-on-no-links-or-messages:list": "delete-if-unused-and-empty",
}
"""The lifetime policies of AMQP 1.0, each with the broker's name for it (LNK-18)."""
_CONTROLLED = ("delete-on-close", "delete-if-empty")

QUEUE_POLICY, TOPIC_POLICY = "QueuePolicy", "TopicPolicy"
POLICIES: Final = (QUEUE_POLICY, TOPIC_POLICY)

# A piece of a pattern: a character or a set of characters, and the number of times that it may occur.
_PIECE: Final = re.compile(r"(\[\^?\]?[^\]]*\]|.)([*+?]?)", re.DOTALL)

Properties = Mapping[str, object]


class _NodePolicy(Restorable):
    """A policy of management, which creates a node whose name matches a pattern for a link (LNK-20)."""

    __slots__ = ("kind", "pattern", "properties")

    def __init__(self, kind: str = "", pattern: str = "", properties: Properties | None = None) -> None:
        self.kind = kind
        self.pattern = pattern
        self.properties: dict[str, object] = dict(properties or {})

    def matches(self, name: str) -> bool:
        """Return whether a name matches the policy's pattern, in time linear in the name's length."""
        # Clients choose the pattern and the name, and some keep ``re``, which backtracks, busy for ever.
        # Here all places in the pattern that the name may have reached are followed at once.
        pattern = self.pattern.removeprefix("^").removesuffix("$")
        pieces = [(re.compile(piece, re.DOTALL), times) for piece, times in _PIECE.findall(pattern)]

        def pass_over(places: set[int]) -> set[int]:
            """Return the places, and those that follow them after pieces that may occur zero times."""
            reached = set(places)
            for place, (_, times) in enumerate(pieces):
                if place in reached and times in ("*", "?"):
                    reached.add(place + 1)
            return reached

        places = pass_over({0})
        for character in name:
            following: set[int] = set()
            for place in places:
                if place < len(pieces) and pieces[place][0].fullmatch(character):
                    following.add(place + 1)
                    if pieces[place][1] in ("*", "+"):
                        following.add(place)
            places = pass_over(following)
        return len(pieces) in places


class Node(Dependent):
    """The node at an address: a queue or an exchange, or neither."""

    __slots__ = ("queue", "exchange", "policy", "is_new", "is_controlled")

    def __init__(
        self, queue: Queue | None, exchange: Exchange | None, policy: Properties | None = None
    ) -> None:
        self.queue = queue
        self.exchange = exchange
        # The arguments for queues of subscriptions, if a policy made the exchange (LNK-20).
        self.policy = policy
        self.is_new = False
        # Whether the link of this node controls the lifetime of the queue.
        self.is_controlled = False


class LinkNodes(Dependent):
    """The nodes of links, which it finds and creates, and the policies for their creation."""

    __slots__ = ("queues", "exchanges", "policies", "topics")

    def __init__(self, queues: QueueRegistry) -> None:
        self.queues = queues
        self.exchanges = queues.exchanges
        self.policies: list[_NodePolicy] = []
        # The exchanges that policies have created, with the arguments for the queues of their subscriptions.
        self.topics: dict[str, dict[str, object]] = {}

    # Policies

    def add_policy(self, kind: str, pattern: str, properties: Properties) -> None:
        """Add a policy; raise ManagementError (status 7) for an existing or invalid pattern."""
        if any(policy.kind == kind and policy.pattern == pattern for policy in self.policies):
            raise ManagementError(EXCEPTION, f"object already exists: {pattern}")
        if re.search(r"[(){}|\\]|[*+?]{2}", pattern):
            text = f"expected plain characters and [sets], each with at most one of * + ?, got {pattern}"
            raise ManagementError(EXCEPTION, text)
        try:
            re.compile(pattern)
        except re.error as error:
            raise ManagementError(EXCEPTION, f"invalid pattern {pattern}: {error}") from None
        QueueSettings.from_arguments(_select_arguments(properties))
        self.policies.append(_NodePolicy(kind, pattern, properties))

    def remove_policy(self, kind: str, pattern: str) -> None:
        """Remove a policy, but not its nodes; raise ManagementError (status 7) for an unknown policy."""
        kept = [one for one in self.policies if one.kind != kind or one.pattern != pattern]
        if len(kept) == len(self.policies):
            raise ManagementError(EXCEPTION, f"No such {kind}: {pattern}")
        self.policies = kept

    # Names

    def find(self, name: str, prefers_topic: bool) -> Node:
        """Return the node of a name; for an unknown name it has neither queue nor exchange (LNK-16)."""
        queue, exchange = self.queues.queues.get(name), None
        if name:
            exchange = self.exchanges.exchanges.get(name)
        if exchange is not None and name in self.topics:
            return Node(None, exchange, self.topics[name])
        if queue is not None and (exchange is None or not prefers_topic):
            return Node(queue, None)
        return Node(None, exchange)

    def resolve(
        self, name: str, is_dynamic: bool, capabilities: list[str], properties: Properties, owner: str
    ) -> Node:
        """Return the node of a name, created if allowed; raise LinkException for an unknown name."""
        node = self.find(name, TOPIC in capabilities)
        if node.queue is not None or node.exchange is not None:
            return node
        if is_dynamic or _CREATE_ON_DEMAND in capabilities:
            made = self._make(name, is_dynamic, capabilities, properties, owner)
        else:
            policy = next((one for one in self.policies if one.matches(name)), None)
            if policy is None or not name:
                raise LinkException(f"Node not found: {name}", "amqp:not-found")
            made = self._make_by(policy, name)
        made.is_new = True
        return made

    def _make(
        self, name: str, is_dynamic: bool, capabilities: list[str], properties: Properties, owner: str
    ) -> Node:
        if TOPIC in capabilities or properties.get("supported-dist-modes") == "copy":
            goes = to_bool(properties.get("auto-delete", False))
            return Node(None, self._declare_exchange(name, properties, goes))
        lifetime = LIFETIMES.get(str(properties.get("lifetime-policy", "")), "")
        is_passing = is_dynamic and not to_bool(properties.get("durable", False))
        if not lifetime and to_bool(properties.get("auto-delete", is_passing)):
            lifetime = "delete-if-unused"
        node = Node(self.queue(name, properties, lifetime), None)
        if node.queue is not None and to_bool(properties.get("exclusive", False)):
            node.queue.lifetime.owner = owner
        node.is_controlled = lifetime in _CONTROLLED
        return node

    def _make_by(self, policy: _NodePolicy, name: str) -> Node:
        given = policy.properties
        is_kept = to_bool(given.get("durable", False)) or given.get("qpid.lifetime-policy") == "manual"
        goes = to_bool(given.get("auto-delete", not is_kept))
        if policy.kind == QUEUE_POLICY:
            return Node(self.queue(name, given, "delete-if-unused" if goes else ""), None)
        self.topics[name] = given
        return Node(None, self._declare_exchange(name, given, goes), given)

    def queue(self, name: str, properties: Properties, lifetime: str) -> Queue:
        """Return the queue of a name; create it, with the given lifetime policy, if it does not exist."""
        alternate = to_text(properties.get("alternate-exchange", ""))
        is_durable = to_bool(properties.get("durable", False))
        arguments = _select_arguments(properties)
        queue, is_new = self.queues.declare(
            name, arguments, auto_delete=False, alternate_exchange=alternate, durable=is_durable
        )
        if is_new and lifetime and not queue.lifetime.policy:
            queue.lifetime.policy = lifetime
        return queue

    def _declare_exchange(self, name: str, properties: Properties, goes: bool) -> Exchange:
        kind = to_text(properties.get("exchange-type", "topic"))
        if kind not in EXCHANGE_TYPES:
            raise LinkException(f"Exchange type not implemented: {kind}", "amqp:not-implemented")
        alternate = self.exchanges.alternate(to_text(properties.get("alternate-exchange", "")))
        is_durable = to_bool(properties.get("durable", False))
        exchange, _ = self.exchanges.declare(name, kind, alternate, is_durable, goes, {})
        return exchange


def _select_arguments(properties: Properties) -> dict[str, object]:
    """Return those properties of a terminus that are arguments of a queue's declare."""
    return {key: value for key, value in properties.items() if key.startswith("qpid.") or key == "no-local"}


# The answer to an attach (LNK-17)


def granted_capabilities(node: Node, asked: list[str]) -> list[str]:
    """Return the requested capabilities that the node has, in the requested order."""
    place = node.queue or node.exchange
    if place is None:
        return []
    if isinstance(place, Queue):
        known = {_CREATE_ON_DEMAND, QUEUE, *_FILTERS}
    else:
        fitting = [name for name, kind in _FILTERS.items() if kind == place.type]
        known = {_CREATE_ON_DEMAND, TOPIC, SHARED, *fitting}
    return [one for one in asked if one in known or (one == DURABLE and place.durable)]


def shown_properties(node: Node, asked: Properties) -> dict[str, HeaderValue]:
    """Return the node's values of the requested properties; empty if none are requested."""
    if not asked:
        return {}
    shown: dict[str, HeaderValue] = {"supported-dist-modes": "copy" if node.queue is None else "move"}
    alternate: Router | None
    if node.queue is None:
        exchange = node.exchange
        assert exchange is not None
        is_durable, alternate = exchange.durable, exchange.alternate
        shown["exchange-type"] = exchange.type
        if "auto-delete" in asked:
            shown["auto-delete"] = exchange.deletes_itself
    else:
        queue = node.queue
        is_durable, alternate = queue.durable, queue.alternate
        lifetime = next((key for key, value in LIFETIMES.items() if value == queue.lifetime.policy), None)
        if lifetime is not None and ("auto-delete" in asked or "lifetime-policy" in asked):
            shown["lifetime-policy"] = lifetime
        if "exclusive" in asked and queue.lifetime.owner:
            shown["exclusive"] = True
        given = queue.settings.arguments
        shown |= {key: to_text(given[key]) for key in asked if key.startswith("qpid.") and key in given}
    if "durable" in asked and is_durable:
        shown["durable"] = True
    if "alternate-exchange" in asked and alternate is not None:
        shown["alternate-exchange"] = alternate.name
    return shown
