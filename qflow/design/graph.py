"""StateGraph: every state a small configuration can reach, and every way between them."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from qflow.broker.broker import Broker
from qflow.design.situation import Situation
from qflow.design.small import DesignError, SmallConfiguration

if TYPE_CHECKING:
    import networkx as nx

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

    Attributes
    ----------
    configuration : SmallConfiguration
        What was explored.
    graph : networkx.DiGraph
        Nodes are numbers, 0 the start, in the order of their distance from it.  Node attributes: ``depth``
        (messages on the fullest queue), ``depths`` and ``bytes`` (by queue), ``on`` (names of the queues
        that are ON), ``held`` and ``outstanding`` (by producer), ``blocked`` and ``dead`` (names of
        producers), ``marks`` (keys of :data:`MARKS`) and ``distance``.  Edges have ``actions``, all that
        lead from one to the other, and ``action``, the first of them.
    """

    def __init__(self, configuration: SmallConfiguration, graph: nx.DiGraph) -> None:
        self.configuration = configuration
        self.graph = graph

    @property
    def maximum_depth(self) -> int:
        """The greatest depth of any queue in any state that can be reached, in messages."""
        return max(self.depths().values())

    def depths(self, queue: str | None = None) -> dict[int, int]:
        """Return each node's depth in messages: of one queue, or of the fullest.

        Parameters
        ----------
        queue : str or None
            Its name; None for whichever is fullest at that node.

        Returns
        -------
        dict
            Node to messages.

        Raises
        ------
        DesignError
            If there is no such queue.

        Examples
        --------
        >>> from qflow.design import SmallConfiguration, explore
        >>> explore(SmallConfiguration.of(stop=1, capacities=[1])).depths()[0]
        0
        """
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
        """Return the shortest list of actions that leads from the start to a node.

        Parameters
        ----------
        node : int
            Its number.

        Returns
        -------
        list of str
            Empty for the start, node 0.

        Raises
        ------
        DesignError
            If there is no such node.

        Examples
        --------
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
    """Return the marks of a state.

    Parameters
    ----------
    facts : dict
        What :meth:`Situation.facts` returns.
    can_go_on : bool
        Whether any action is possible.
    has_consumer : bool
        Whether the configuration has a consumer.
    """
    idle = len(facts["blocked"]) + len(facts["dead"]) == len(facts["outstanding"])
    holds = {
        "on": bool(facts["on"]),
        "blocked": bool(facts["blocked"]),
        "stalled": idle,
        "overflow": bool(facts["dead"]),
        "deadlock": not can_go_on and has_consumer and bool(facts["blocked"]),
    }
    return tuple(mark for mark in MARKS if holds[mark])
