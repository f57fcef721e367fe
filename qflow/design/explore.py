"""Explore: visit every state that a small configuration can reach, with the engine itself.

A :class:`SmallConfiguration` is a queue with so few clients that every state can be visited.  It has no time,
only order: a producer may send whenever its window allows it, a consumer may take a message whenever one is
available.  So the results hold for every workload with these settings, however fast or slow its clients are.

A :class:`Situation` is a broker of the engine with its clients, between two actions.  Each client names its
possible next actions, and the engine determines their effects: this module contains no rule of the broker.
Two situations are the same state if they have the same future (:meth:`Situation.key`).  Values that only ever
grow, such as labels and statistics, are left out, so that a broker which works for ever has finitely many
states.

The engine cannot be copied, so the exploration walks: from each state it performs an action not performed
there before, as long as there is one; then it starts a new engine, and leads it to the nearest state that has
one left.  States are the nodes of a :class:`StateGraph`, actions its edges, and marks tell which states are
bad or remarkable (:data:`MARKS`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import networkx as nx

from qflow.broker.broker import Broker
from qflow.broker.consuming import BYTE_UNIT, CREDIT_MODE, INFINITE, MESSAGE_UNIT
from qflow.broker.errors import AmqpException, ResourceLimitExceededException
from qflow.broker.events import Event
from qflow.broker.message import Message
from qflow.broker.session import Session
from qflow.broker.settings import Argument
from qflow.client_windows import IdealWindow, WindowStep
from qflow.design.bounds import DesignError
from qflow.workload.attributes import is_whole

Action = Callable[[], None]

_STATE_LIMIT = 50_000

# Small configurations

QUEUE, CONSUMER, _SIZE = "q", "consumer", 100


@dataclass(frozen=True, slots=True)
class SmallConfiguration:
    """A queue ``q`` with producers ``C1``, ``C2``, … for :func:`qflow.design.explore`.

    Parameters:
        arguments: The queue's declare arguments.
        capacities: Producer name to capacity, in transfers; each producer has a session of its own.
        is_consumed: Whether the queue has a consumer.

    Raises:
        DesignError: If the policy is self-destruct, or a capacity is not a whole number from 1.

    >>> SmallConfiguration.of(stop=100, capacities=(50, 15)).capacities
    {'C1': 50, 'C2': 15}
    """

    arguments: Mapping[str, Argument]
    capacities: Mapping[str, int]
    is_consumed: bool = True

    def __post_init__(self) -> None:
        if self.arguments.get("qpid.policy_type") == "self-destruct":
            raise DesignError(
                "configuration: the policy must be one that keeps the queue, got 'self-destruct'"
            )
        for name, capacity in self.capacities.items():
            if not is_whole(capacity, 1):
                raise DesignError(
                    f"configuration: capacity of {name} must be a whole number from 1, got {capacity!r}"
                )

    @classmethod
    def of(
        cls,
        stop: int,
        capacities: tuple[int, ...],
        resume: int | None = None,
        limit: int | None = None,
        is_consumed: bool = True,
    ) -> SmallConfiguration:
        """Return a configuration with the given thresholds and capacities.

        Parameters:
            stop, resume: The thresholds in messages; without a resume it equals the stop (FC-05).
            capacities: The producers' windows.
            limit: ``qpid.max_count``; None for no limit.
            is_consumed: Whether the queue has a consumer.

        >>> SmallConfiguration.of(stop=3, capacities=(2, 1)).arguments
        {'qpid.flow_stop_count': 3, 'qpid.flow_resume_count': 3}
        """
        arguments: dict[str, Argument] = {"qpid.flow_stop_count": stop}
        arguments["qpid.flow_resume_count"] = stop if resume is None else resume
        if limit is not None:
            arguments["qpid.max_count"] = limit
        return cls(arguments, {f"C{n}": size for n, size in enumerate(capacities, 1)}, is_consumed)


# Clients and their broker

_EXCHANGE = "amq.direct"


class _SmallProducer:
    """A producer with a session and an ideal window; its name is its routing key."""

    def __init__(self, name: str, broker: Broker, configuration: SmallConfiguration) -> None:
        self.name = name
        self.session: Session = broker.session(name)
        self._window = IdealWindow(configuration.capacities[name])
        self.session.completions.on_report = self._window.note_reported

    @property
    def outstanding(self) -> int:
        """The number of outstanding transfers; 0 for an ended session."""
        return self._window.unsettled() if self.session.is_attached else 0

    @property
    def is_blocked(self) -> bool:
        """Whether the window is full."""
        return self.session.is_attached and not self.actions()

    def actions(self) -> dict[str, Action]:
        """Return the possible next actions by name."""
        may_send = self.session.is_attached and self._window.next_step() is WindowStep.SEND
        return {f"{self.name} sends": self._send} if may_send else {}

    def _send(self) -> None:
        self._window.note_sent(self.session.completions.next_number)
        # A refusal ends the session (LP-06), which :attr:`is_attached` shows. It is a state of the graph, and
        # no failure of the exploration.
        with suppress(ResourceLimitExceededException):
            self.session.message_transfer(Message(_SIZE, routing_key=self.name), _EXCHANGE, sync=True)

    def key(self) -> Hashable:
        """Return the part of the client's state that determines its future."""
        return self.outstanding if self.session.is_attached else "dead"


class _SmallConsumer:
    """A consumer in credit mode, which requests one message at a time and accepts it."""

    def __init__(self, broker: Broker) -> None:
        self._queue = broker.queue(QUEUE)
        self._session = broker.session(CONSUMER)
        self._taken: list[int] = []
        self._session.consuming.on_delivery = lambda record: self._taken.append(record.id)
        self._session.message_subscribe(QUEUE, CONSUMER)
        # Window mode would only add states for prefetched messages, and no greater depth.
        self._session.message_set_flow_mode(CONSUMER, CREDIT_MODE)
        self._session.message_flow(CONSUMER, BYTE_UNIT, INFINITE)

    def actions(self) -> dict[str, Action]:
        """Return the possible next actions by name."""
        return {f"{CONSUMER} takes and accepts": self._take} if self._queue.message_count else {}

    def _take(self) -> None:
        self._session.message_flow(CONSUMER, MESSAGE_UNIT, 1)
        self._session.message_accept([self._taken.pop()])


class Situation:
    """A broker of the engine, its producers and its consumers, between two actions of clients."""

    def __init__(
        self, configuration: SmallConfiguration, observer: Callable[[Event], None] | None = None
    ) -> None:
        self.configuration = configuration
        self.broker = Broker()
        if observer is not None:
            self.broker.observe(observer)
        setup = self.broker.session("setup")
        setup.queue_declare(QUEUE, configuration.arguments)
        for producer in configuration.capacities:
            setup.exchange_bind(QUEUE, _EXCHANGE, producer)
        setup.close()
        self.senders = [_SmallProducer(name, self.broker, configuration) for name in configuration.capacities]
        self.readers = [_SmallConsumer(self.broker)] if configuration.is_consumed else []

    def actions(self) -> dict[str, Action]:
        """Return all possible next actions by name, producers' first."""
        possible: dict[str, Action] = {}
        for sender in self.senders:
            possible.update(sender.actions())
        for reader in self.readers:
            possible.update(reader.actions())
        return possible

    def perform(self, action: str) -> None:
        """Perform the action of a name."""
        self.actions()[action]()

    def key(self) -> Hashable:
        """Return a key of the state: states with equal keys have the same future."""
        # Two messages differ only in whether the stopped queue holds their transfer, and in its producer.  So
        # the queue is a sequence with one letter per message; without a consumer its order is irrelevant.
        queue = self.broker.queues.queues[QUEUE]
        word = [
            transfer.origin if transfer.owner is not None and QUEUE in transfer.held_by else "."
            for transfer in (entry.transfer for entry in queue.store)
        ]
        if not self.readers:
            # No message is ever dequeued, so the order cannot matter; sorting merges many states into one.
            word.sort()
        is_on = queue.flow_limit is not None and queue.flow_limit.stopped
        runs = tuple((letter, len(list(run))) for letter, run in groupby(word))
        return (*(sender.key() for sender in self.senders), is_on, runs)

    def facts(self) -> dict[str, Any]:
        """Return the visible state: depth, flow state, windows, blocked and dead clients."""
        statistics = self.broker.queue(QUEUE).statistics()
        return {
            "depth": statistics.msgDepth,
            "on": statistics.flowStopped,
            "held": {sender.name: len(sender.session.held) for sender in self.senders},
            "outstanding": {sender.name: sender.outstanding for sender in self.senders},
            "blocked": tuple(sender.name for sender in self.senders if sender.is_blocked),
            "dead": tuple(sender.name for sender in self.senders if not sender.session.is_attached),
        }


# The graph of states

MARKS = {
    "on": "a queue is ON",
    "blocked": "a producer's window is full of transfers whose completion is withheld",
    "stalled": "no producer can send",
    "overflow": "a queue was full and a producer's session died of 506",
    "deadlock": "nothing can happen any more, although there is a consumer",
}
"""The marks of a node, with their meanings."""


class StateGraph:
    """The graph of all reachable states, as :func:`qflow.design.explore` returns it.

    Attributes:
        graph (networkx.DiGraph): The nodes are numbers in the order of their distance from the start, node 0.
            Node attributes: ``depth`` (messages on the queue), ``on`` (whether it is ON), ``held`` and
            ``outstanding`` (transfers by producer), ``blocked`` and ``dead`` (names of producers), ``marks``
            (keys of :data:`MARKS`) and ``distance`` (in actions).  Edge attributes: ``actions`` (all that
            lead from one node to the other) and ``action`` (the first of them).
        configuration (SmallConfiguration): The explored configuration.

    >>> graph = explore(SmallConfiguration.of(stop=1, capacities=(1,)))
    >>> graph.deepest, graph.path_to(graph.deepest), graph.label(graph.deepest)
    (2, ['C1 sends', 'C1 sends'], 'depth 2 ON · C1 1/1')
    """

    def __init__(self, configuration: SmallConfiguration, graph: nx.DiGraph) -> None:
        self.configuration = configuration
        self.graph = graph

    @property
    def maximum_depth(self) -> int:
        """The greatest depth of the queue in any reachable state, in messages."""
        return max(self.depths().values())

    def depths(self) -> dict[int, int]:
        """Return the depth of the queue at each node, in messages."""
        return dict(self.graph.nodes(data="depth"))

    @property
    def deepest(self) -> int:
        """The nearest node with the greatest depth."""
        depths = self.depths()
        return min(depths, key=lambda node: (-depths[node], node))

    @property
    def marks(self) -> dict[str, list[int]]:
        """The nodes with each mark of :data:`MARKS`."""
        return {
            mark: [node for node, facts in self.graph.nodes(data=True) if mark in facts["marks"]]
            for mark in MARKS
        }

    def path_to(self, node: int) -> list[str]:
        """Return a shortest list of actions from the start, node 0, to a node."""
        self._require_node(node)
        actions: deque[str] = deque()
        while node != 0:
            # Nodes are numbered by distance, so the first predecessor is on a shortest path.
            before = min(self.graph.predecessors(node))
            actions.appendleft(self.graph.edges[before, node]["action"])
            node = before
        return list(actions)

    def label(self, node: int) -> str:
        """Return a node as text, such as ``depth 3 ON · C1 2/2`` (outstanding transfers / capacity)."""
        self._require_node(node)
        facts = self.graph.nodes[node]
        states = [f"depth {facts['depth']}{' ON' if facts['on'] else ''}"]
        for name, capacity in self.configuration.capacities.items():
            is_dead = name in facts["dead"]
            states.append(f"{name} died" if is_dead else f"{name} {facts['outstanding'][name]}/{capacity}")
        return " · ".join(states)

    def _require_node(self, node: int) -> None:
        if node not in self.graph:
            raise DesignError(f"node must be a number from 0 to {len(self.graph) - 1}, got {node!r}")

    def __repr__(self) -> str:
        marked = ", ".join(f"{len(nodes)} {mark}" for mark, nodes in self.marks.items() if nodes)
        return (
            f"StateGraph({len(self.graph)} states, {self.graph.number_of_edges()} ways, "
            f"maximum depth {self.maximum_depth}{', ' if marked else ''}{marked})"
        )


def _marks_of(facts: dict[str, Any], can_go_on: bool, has_consumer: bool) -> tuple[str, ...]:
    """Return the marks of a state, given its :meth:`Situation.facts`."""
    idle = len(facts["blocked"]) + len(facts["dead"]) == len(facts["outstanding"])
    holds = {
        "on": facts["on"],
        "blocked": bool(facts["blocked"]),
        "stalled": idle,
        "overflow": bool(facts["dead"]),
        "deadlock": not can_go_on and has_consumer and bool(facts["blocked"]),
    }
    return tuple(mark for mark in MARKS if holds[mark])


_SPREAD = 0.6


def positions(states: StateGraph) -> dict[int, tuple[float, float]]:
    """Return a position for each node: x is the depth, y the number of held transfers.

    In this plane all OFF states are on the line at the bottom, ON states are above it, and the farthest
    corner is the stall at stop plus all capacities (CAP-11).  States with the same position are spread to
    the right, in the order of their numbers, by less than one message.

    >>> states = explore(SmallConfiguration.of(stop=1, capacities=(2,)))
    >>> positions(states)[states.deepest]
    (3.0, 2.0)
    """
    shared: dict[tuple[int, int], list[int]] = {}
    for node, facts in states.graph.nodes(data=True):
        shared.setdefault((facts["depth"], sum(facts["held"].values())), []).append(node)
    return {
        node: (depth + _SPREAD * index / len(nodes), float(held))
        for (depth, held), nodes in shared.items()
        for index, node in enumerate(nodes)
    }


# The exploration


def explore(configuration: SmallConfiguration, *, state_limit: int = _STATE_LIMIT) -> StateGraph:
    """Visit every reachable state, by every possible action in each, and return their graph.

    Parameters:
        configuration: The queue and its clients.
        state_limit: The greatest number of states.

    Returns:
        The graph of all states and actions.

    Raises:
        DesignError: If there are more states than ``state_limit``, or the broker refuses the queue.

    >>> states = explore(SmallConfiguration.of(stop=2, capacities=(2, 1)))
    >>> states.maximum_depth                                             # CAP-11: 2 + 2 + 1
    5
    >>> states.path_to(states.deepest)
    ['C1 sends', 'C1 sends', 'C1 sends', 'C1 sends', 'C2 sends']
    """
    if not is_whole(state_limit, 1):
        raise DesignError(f"state_limit must be a whole number from 1, got {state_limit!r}")
    walk = _Walk(configuration, state_limit)
    walk.run()
    return StateGraph(configuration, walk.graph())


class _Walk:
    """An exploration that performs every action in every state."""

    def __init__(self, configuration: SmallConfiguration, state_limit: int) -> None:
        self._configuration, self._limit = configuration, state_limit
        # The nodes of this graph are the keys of the states; edges are in the order of the actions.
        self._graph = nx.DiGraph()
        # By state, the shortest path known: its length, the state before, and the last action.
        self._ways: dict[Hashable, tuple[int, Hashable, str]] = {}
        # By state, the actions not performed yet.
        self._untried: dict[Hashable, deque[str]] = {}
        self._found: list[Hashable] = []

    def run(self) -> None:
        """Explore until every action has been performed in every state."""
        try:
            first = Situation(self._configuration)
        except AmqpException as error:
            raise DesignError(f"the broker refuses the configuration: {error}") from None
        self._reach(first, (0, None, ""))
        # The list grows during the loop.
        for key in self._found:
            while self._untried[key]:
                self._follow(key)

    def _follow(self, key: Hashable) -> None:
        situation = Situation(self._configuration)
        for action in self._path(key):
            situation.perform(action)
        while self._untried[key]:
            action = self._untried[key].popleft()
            situation.perform(action)
            before, key = key, self._reach(situation, (self._ways[key][0] + 1, key, action))
            if self._graph.has_edge(before, key):
                self._graph.edges[before, key]["actions"] += (action,)
            else:
                self._graph.add_edge(before, key, action=action, actions=(action,))

    def _path(self, key: Hashable) -> Iterable[str]:
        actions: deque[str] = deque()
        while (way := self._ways[key])[0]:
            _, key, action = way
            actions.appendleft(action)
        return actions

    def _reach(self, situation: Situation, way: tuple[int, Hashable, str]) -> Hashable:
        key = situation.key()
        if key in self._ways:
            # Distances only ever decrease, so the paths back never form a cycle (as in Bellman-Ford).
            if way[0] < self._ways[key][0]:
                self._ways[key] = way
            return key
        facts = situation.facts()
        if len(self._ways) >= self._limit:
            raise DesignError(
                f"more than {self._limit} states: the last one has depth {facts['depth']}; a smaller "
                "configuration or a higher state_limit may help"
            )
        self._ways[key], self._untried[key] = way, deque(situation.actions())
        self._found.append(key)
        self._graph.add_node(key, **facts)
        return key

    def graph(self) -> nx.DiGraph:
        """Return the graph, with nodes numbered by their distance from the start."""
        start = next(iter(self._graph))
        distances = nx.single_source_shortest_path_length(self._graph, start)
        numbers = {key: number for number, key in enumerate(distances)}
        has_consumer = self._configuration.is_consumed
        graph = nx.DiGraph()
        for key, number in numbers.items():
            facts = self._graph.nodes[key]
            marks = _marks_of(facts, bool(self._graph.out_degree(key)), has_consumer)
            graph.add_node(number, **facts, marks=marks, distance=distances[key])
        for key, number in numbers.items():
            for _, other, ways in self._graph.out_edges(key, data=True):
                graph.add_edge(number, numbers[other], **ways)
        return graph
