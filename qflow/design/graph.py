"""The states of a small configuration, and the graph of them.

There is no time here, only order.  A :class:`Situation` is a broker of the engine with its clients between
two actions; each client says what it may do next (:meth:`SmallProducer.actions`,
:meth:`SmallConsumer.actions`), and whatever follows from an action is left to the engine.  What of a
situation decides its future is its key; situations with equal keys are one state.

:func:`qflow.design.explore` visits them all and returns a :class:`StateGraph`: states are nodes, actions are
edges, and marks say what is wrong with a state, or remarkable (:data:`MARKS`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from qflow.broker.broker import Broker
from qflow.broker.completions import RangeSet
from qflow.broker.consuming import BYTE_UNIT, CREDIT_MODE, INFINITE, MESSAGE_UNIT, DeliveryRecord
from qflow.broker.errors import ResourceLimitExceededException
from qflow.broker.events import Event
from qflow.broker.message import Message, Transfer
from qflow.broker.session import Session
from qflow.design.small import DesignError, SmallConfiguration
from qflow.windows import WindowStep, make_window

if TYPE_CHECKING:
    import networkx as nx

Action = Callable[[], None]

_EXCHANGE = "amq.direct"
"""Each producer sends to this exchange, with its name as the key that leads to its queues."""


class _SmallProducer:
    """A producer: its session and its window."""

    def __init__(self, name: str, broker: Broker, configuration: SmallConfiguration) -> None:
        self.name = name
        self.session: Session = broker.session(name)
        self._sizes = configuration.sizes
        self._window = make_window(configuration.window, configuration.capacities[name])
        self._hears_at_once = configuration.window == "ideal"
        self._received = RangeSet()
        self._syncs_to: int | None = None
        if self._hears_at_once:
            self.session.completions.on_report = self._window.reported

    @property
    def outstanding(self) -> int:
        """How many transfers the client takes to be outstanding; none once its session is gone."""
        return len(self._window.outstanding) if self.session.is_attached else 0

    @property
    def is_blocked(self) -> bool:
        """Whether the window is full, and nothing that the client could hear now would make room."""
        return self.session.is_attached and not self.actions()

    def actions(self) -> dict[str, Action]:
        """Return what the client may do next."""
        if not self.session.is_attached:
            return {}
        possible: dict[str, Action] = {}
        if self._syncs_to is not None:
            if self._is_confirmed(self._syncs_to, self._received):
                possible = self._sends()
        elif self._window.name != "ideal" and self._is_full():
            possible = {f"{self.name} syncs": self._sync} if self._window.name == "qpid-cpp" else {}
        elif not self._is_full():
            possible = self._sends()
        if not self._hears_at_once and self.session.completions.reported != self._received:
            possible[f"{self.name} hears"] = self._receive
        return possible

    def _is_full(self) -> bool:
        # A copy: the question itself makes the qpid-cpp window forget what it knows to be complete.
        return _copy_of(self._window).next_step() is not WindowStep.SEND

    def _sends(self) -> dict[str, Action]:
        if len(self._sizes) == 1:
            return {f"{self.name} sends": partial(self._send, self._sizes[0])}
        return {f"{self.name} sends {size} bytes": partial(self._send, size) for size in self._sizes}

    def _send(self, size: int) -> None:
        if self._syncs_to is not None:
            self._syncs_to = None
            self._window.synced()
        self._window.next_step()
        if self._window.wants_flush():
            self.session.session_flush()
        asks = self._window.sync_flag(False)
        self._window.sent(self.session.completions.next_number)
        # LP-06: the session is gone then, which :attr:`is_attached` shows.
        with suppress(ResourceLimitExceededException):
            self.session.message_transfer(Message(size, routing_key=self.name), _EXCHANGE, sync=asks)

    def _sync(self) -> None:
        self._window.next_step()
        self._syncs_to = self.session.completions.next_number - 1
        self.session.execution_sync()

    def _receive(self) -> None:
        self._received = self.session.completions.reported.copy()
        self._window.reported(self._received)

    @staticmethod
    def _is_confirmed(number: int, heard: RangeSet) -> bool:
        ranges = heard.ranges()
        return number < 0 or (bool(ranges) and ranges[0][0] == 0 and number <= ranges[0][1])

    def key(self) -> Hashable:
        """Return the part of the client's state that decides its future."""
        if not self.session.is_attached:
            return "dead"
        if self._hears_at_once:
            return self.outstanding
        completions = self.session.completions
        # What is complete, reported, and heard of; and whether the broker reports unasked (CM-05).
        places = [
            (
                number in completions.completed,
                number in completions.reported,
                number in self._received,
                completions.is_awaited(number),
            )
            for number in self._window.outstanding
        ]
        syncing = None
        if self._syncs_to is not None:
            syncing = self._is_confirmed(self._syncs_to, completions.reported)
        memory = tuple(
            value for name, value in sorted(vars(self._window).items()) if isinstance(value, bool | int)
        )
        hears = completions.reported != self._received
        return (tuple(places), syncing, memory, hears)


class _SmallConsumer:
    """A consumer, in credit mode: it asks for each message when it is ready for it."""

    def __init__(self, name: str, queue: str, broker: Broker, configuration: SmallConfiguration) -> None:
        self.name = name
        self._queue = broker.queue(queue)
        self._batch = configuration.batch
        self._takes_any = configuration.order == "any"
        self._has_sizes = len(configuration.sizes) > 1
        self._taken: dict[int, DeliveryRecord] = {}
        self._session = broker.session(name)
        self._session.consuming.on_delivery = self._take
        self._session.message_subscribe(queue, name)
        self._session.message_set_flow_mode(name, CREDIT_MODE)
        self._session.message_flow(name, BYTE_UNIT, INFINITE)
        if self._takes_any:
            self._session.message_flow(name, MESSAGE_UNIT, INFINITE)

    def _take(self, record: DeliveryRecord) -> None:
        self._taken[record.id] = record

    def actions(self) -> dict[str, Action]:
        """Return what the client may do next."""
        if self._takes_any:
            return self._accepts_any()
        if len(self._taken) == self._batch:
            return {f"{self.name} accepts": self._accept_all}
        if not self._queue.message_count:
            return {}
        if self._batch == 1:
            return {f"{self.name} takes and accepts": self._take_and_accept}
        return {f"{self.name} takes": self._ask}

    def _accepts_any(self) -> dict[str, Action]:
        possible: dict[str, Action] = {}
        for number, record in self._taken.items():
            transfer = record.message.transfer
            is_held = transfer.owner is not None and self._queue.name in transfer.held_by
            whose = f"one held for {transfer.origin}" if is_held else "one that is complete"
            size = f" of {transfer.size} bytes" if self._has_sizes else ""
            others = [name for name in transfer.held_by if name != self._queue.name] if is_held else []
            also = f" (also by {', '.join(others)})" if others else ""
            name = f"{self.name} accepts {whose}{size}{also}"
            possible.setdefault(name, partial(self._accept, (number,)))
        return possible

    def _ask(self) -> None:
        self._session.message_flow(self.name, MESSAGE_UNIT, 1)

    def _take_and_accept(self) -> None:
        self._ask()
        self._accept_all()

    def _accept_all(self) -> None:
        self._accept(tuple(self._taken))

    def _accept(self, numbers: tuple[int, ...]) -> None:
        for number in numbers:
            del self._taken[number]
        self._session.message_accept(numbers)


def _copy_of(window: Any) -> Any:
    twin = make_window(window.name, window.capacity)
    vars(twin).update(vars(window))
    twin.outstanding = window.outstanding.copy()
    return twin


SETUP = "setup"
FREE = "."


class Situation:
    """A broker of the engine, its producers and its consumers, between two actions of clients.

    >>> situation = Situation(SmallConfiguration.of(stop=1, capacities=(1,)))
    >>> situation.perform("C1 sends"); situation.perform("C1 sends"); list(situation.actions())
    ['consumer takes and accepts']
    """

    def __init__(
        self, configuration: SmallConfiguration, observer: Callable[[Event], None] | None = None
    ) -> None:
        # The observer sees everything the broker does, from its start.
        self.configuration = configuration
        self.broker = Broker(configuration.options)
        if observer is not None:
            self.broker.observe(observer)
        setup = self.broker.session(SETUP)
        for name, arguments in configuration.queues.items():
            setup.queue_declare(name, arguments)
        for producer in configuration.capacities:
            for queue in configuration.targets(producer):
                setup.exchange_bind(queue, _EXCHANGE, producer)
        setup.close()
        oldest = configuration.consumers().values() if configuration.order == "oldest" else ()
        self._ordered = frozenset(oldest)
        self.senders = [_SmallProducer(name, self.broker, configuration) for name in configuration.capacities]
        self.readers = [
            _SmallConsumer(name, queue, self.broker, configuration)
            for name, queue in configuration.consumers().items()
        ]

    def actions(self) -> dict[str, Action]:
        """Return all that can happen next, by name: what producers do first, then consumers."""
        possible: dict[str, Action] = {}
        for sender in self.senders:
            possible.update(sender.actions())
        for reader in self.readers:
            possible.update(reader.actions())
        return possible

    def perform(self, action: str) -> None:
        """Perform one action."""
        self.actions()[action]()

    def key(self) -> Hashable:
        """Return the key of this state: two states with one key have the same future.

        Two messages differ only by their size, by whether a stopped queue holds their transfer and whose
        it is, and by whether a consumer has taken them.  Labels, positions, command numbers and statistics
        only ever grow; no rule reads them.  So a queue is a word with one letter for each message.  The
        order of the letters matters only if a consumer takes the oldest: not with ``order="any"``, and not
        on a queue without a consumer.
        """
        queues = self.broker.queues.queues
        parts: list[Hashable] = [sender.key() for sender in self.senders]
        for name in self.configuration.queues:
            queue = queues[name]
            word = [self._letter(name, entry.transfer, entry.state) for entry in queue.store]
            if name not in self._ordered:
                word.sort()
            flow_limit = queue.flow_limit
            is_on = flow_limit is not None and flow_limit.stopped
            parts.append((is_on, tuple((letter, len(list(run))) for letter, run in groupby(word))))
        return tuple(parts)

    def _letter(self, queue: str, transfer: Transfer, state: int) -> tuple[Hashable, ...]:
        holders = transfer.held_by
        if transfer.owner is None or queue not in holders:
            return (FREE, transfer.size, state, "")
        # Copies of one transfer on several queues belong together; the names of its holders tell which do.
        # In one producer's row those with the same holders need no telling apart: a queue that holds one
        # holds all later ones too, and where the order matters the oldest is the first to go.
        return (transfer.origin, transfer.size, state, " ".join(holders))

    def facts(self) -> dict[str, Any]:
        """Return what an observer sees: depths, flow states, windows, who is blocked and who died."""
        statistics = {name: self.broker.queue(name).statistics() for name in self.configuration.queues}
        depths = {name: values.msgDepth for name, values in statistics.items()}
        return {
            "depth": max(depths.values()),
            "depths": depths,
            "bytes": {name: values.byteDepth for name, values in statistics.items()},
            "on": tuple(name for name, values in statistics.items() if values.flowStopped),
            "held": {sender.name: len(sender.session.held) for sender in self.senders},
            "outstanding": {sender.name: sender.outstanding for sender in self.senders},
            "blocked": tuple(sender.name for sender in self.senders if sender.is_blocked),
            "dead": tuple(sender.name for sender in self.senders if not sender.session.is_attached),
        }


MARKS = {
    "on": "a queue is ON",
    "blocked": "a producer's window is full of transfers whose completion is withheld",
    "stalled": "no producer can send",
    "overflow": "a queue was full and a producer's session died of 506",
    "deadlock": "nothing can happen any more, although there is a consumer",
}
"""What a node may be marked with, and what it means."""


class StateGraph:
    """What :func:`qflow.design.explore` returns.

    Attributes:
        graph (networkx.DiGraph): Nodes are numbers, 0 the start, in the order of their distance from it.
            Node attributes: ``depth`` (messages on the fullest queue), ``depths`` and ``bytes`` (by queue),
            ``on`` (names of the queues that are ON), ``held`` and ``outstanding`` (by producer), ``blocked``
            and ``dead`` (names of producers), ``marks`` (keys of :data:`MARKS`) and ``distance``.  Edges have
            ``actions``, all that lead from one to the other, and ``action``, the first of them.
    """

    def __init__(self, configuration: SmallConfiguration, graph: nx.DiGraph) -> None:
        self.configuration = configuration
        self.graph = graph

    @property
    def maximum_depth(self) -> int:
        """The greatest depth of any queue in any state that can be reached, in messages."""
        return max(self.depths().values())

    def depths(self, queue: str | None = None) -> dict[int, int]:
        """Return each node's depth in messages: of one queue, or of the fullest at that node (None)."""
        nodes = self.graph.nodes(data=True)
        if queue is None:
            return {node: facts["depth"] for node, facts in nodes}
        if queue not in self.configuration.queues:
            known = ", ".join(self.configuration.queues)
            raise DesignError(f"queue must be one of {known}, got {queue!r}")
        return {node: facts["depths"][queue] for node, facts in nodes}

    @property
    def deepest(self) -> int:
        """The nearest node with the greatest depth."""
        depths = self.depths()
        return min(depths, key=lambda node: (-depths[node], node))

    @property
    def marks(self) -> dict[str, list[int]]:
        """The nodes by mark; see :data:`MARKS`."""
        return {
            mark: [node for node, facts in self.graph.nodes(data=True) if mark in facts["marks"]]
            for mark in MARKS
        }

    @property
    def ends(self) -> list[int]:
        """The nodes in which nothing can happen any more."""
        return [node for node in self.graph if not self.graph.out_degree(node)]

    def path_to(self, node: int) -> list[str]:
        """Return the shortest list of actions that leads from the start, node 0, to a node.

        >>> from qflow.design import SmallConfiguration, explore
        >>> graph = explore(SmallConfiguration.of(stop=1, capacities=[1]))
        >>> graph.path_to(0), graph.path_to(graph.deepest)
        ([], ['C1 sends', 'C1 sends'])
        """
        self._require_node(node)
        actions: deque[str] = deque()
        while node != 0:
            # Nodes are numbered by distance, so the first predecessor is on a shortest path.
            before = min(self.graph.predecessors(node))
            actions.appendleft(self.graph.edges[before, node]["action"])
            node = before
        return list(actions)

    def situation(self, node: int) -> Situation:
        """Return an engine with its clients in the state of a node; it got there by :meth:`path_to`."""
        situation = Situation(self.configuration)
        for action in self.path_to(node):
            situation.perform(action)
        return situation

    def broker(self, node: int) -> Broker:
        """Return an engine in the state of a node."""
        return self.situation(node).broker

    def label(self, node: int) -> str:
        """Return a node in words, such as ``depth 3 ON · C1 2/2``: outstanding of capacity."""
        self._require_node(node)
        facts = self.graph.nodes[node]
        states = []
        for queue in self.configuration.queues:
            name = "" if len(self.configuration.queues) == 1 else f"{queue}: "
            flow = " ON" if queue in facts["on"] else ""
            states.append(f"{name}depth {facts['depths'][queue]}{flow}")
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


def marks_of(facts: dict[str, Any], can_go_on: bool, has_consumer: bool) -> tuple[str, ...]:
    """Return the marks of a state, by its :meth:`Situation.facts`."""
    idle = len(facts["blocked"]) + len(facts["dead"]) == len(facts["outstanding"])
    holds = {
        "on": bool(facts["on"]),
        "blocked": bool(facts["blocked"]),
        "stalled": idle,
        "overflow": bool(facts["dead"]),
        "deadlock": not can_go_on and has_consumer and bool(facts["blocked"]),
    }
    return tuple(mark for mark in MARKS if holds[mark])


_SPREAD = 0.6
"""How far states of the same depth and the same number of held transfers are drawn apart, in all."""


def positions(states: StateGraph) -> dict[int, tuple[float, float]]:
    """Return a place for each node: x is the depth, y how many transfers are held.

    In this plane flow control shows its shape: every state that is OFF is on the line at the bottom, those
    that are ON are above it, and the farthest corner is the stall at stop plus all capacities (CAP-11).
    States with the same place are spread to the right, in the order of their numbers, by less than one
    message.  Of several queues, x is the sum of their depths.

    >>> from qflow.design import SmallConfiguration, explore
    >>> states = explore(SmallConfiguration.of(stop=1, capacities=(2,)))
    >>> positions(states)[states.deepest]
    (3.0, 2.0)
    """
    shared: dict[tuple[int, int], list[int]] = {}
    for node, facts in states.graph.nodes(data=True):
        place = sum(facts["depths"].values()), sum(facts["held"].values())
        shared.setdefault(place, []).append(node)
    return {
        node: (depth + _SPREAD * index / len(nodes), float(held))
        for (depth, held), nodes in shared.items()
        for index, node in enumerate(nodes)
    }
