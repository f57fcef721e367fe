"""Layout: in which order everyone is drawn from top to bottom, so that few lines cross.

The columns are given: producers, exchanges, queues, consumers. Within each, whoever is joined comes at the
same height, as far as there is room; this needs a graph, and no numpy.
"""

from __future__ import annotations

import networkx as nx

from qflow.labs.topology import Topology

ROUNDS = 4
KINDS = ("producer", "exchange", "queue", "consumer")

Node = tuple[str, int]


def graph_of(topology: Topology) -> nx.DiGraph:
    """Return who hands messages to whom, as a graph.

    Parameters
    ----------
    topology
        Who takes part.

    Returns
    -------
    networkx.DiGraph
        Nodes are (kind, index); the kinds are those of :data:`KINDS`.

    Examples
    --------
    >>> from qflow.labs.fanout import fanout_workload
    >>> graph = graph_of(Topology.of(fanout_workload(), 0))
    >>> sorted(graph.successors(("exchange", 0)))
    [('queue', 0), ('queue', 1), ('queue', 2)]
    """
    graph = nx.DiGraph()
    sizes = (topology.producers, topology.exchanges, topology.queues, topology.consumers)
    for kind, members in zip(KINDS, sizes, strict=True):
        graph.add_nodes_from((kind, index) for index in range(len(members)))
    for index, producer in enumerate(topology.producers):
        if producer.exchange >= 0:
            graph.add_edge(("producer", index), ("exchange", producer.exchange))
    for index, queue in topology.routes:
        if topology.producers[index].exchange < 0:
            graph.add_edge(("producer", index), ("queue", queue))
    graph.add_edges_from((("exchange", exchange), ("queue", queue)) for exchange, queue in topology.bindings)
    graph.add_edges_from(
        (("queue", consumer.queue), ("consumer", index)) for index, consumer in enumerate(topology.consumers)
    )
    return graph


def layout_of(topology: Topology) -> dict[str, list[int]]:
    """Order each column so that few lines cross.

    Parameters
    ----------
    topology
        Who takes part.

    Returns
    -------
    dict
        Kind to the indices of its members, from top to bottom.

    Examples
    --------
    >>> from qflow.labs.topology import ConsumerSpot, QueueSpot
    >>> crossed = (ConsumerSpot("a", 1, 1, "", "a::a"), ConsumerSpot("b", 0, 1, "", "b::b"))
    >>> layout_of(Topology((), (QueueSpot("q1"), QueueSpot("q2")), crossed, (), 0))["consumer"]
    [1, 0]
    """
    graph = graph_of(topology).to_undirected()
    order = {kind: [node for node in graph if node[0] == kind] for kind in KINDS}
    for number in range(ROUNDS):
        kinds = (
            ("exchange", "producer", "consumer", "queue")
            if number % 2
            else ("producer", "exchange", "consumer")
        )
        for kind in kinds:
            heights = _heights(order)
            order[kind].sort(key=lambda node: _pull(graph, node, heights))
    return {kind: [index for _, index in nodes] for kind, nodes in order.items()}


def _heights(order: dict[str, list[Node]]) -> dict[Node, float]:
    return {node: (place + 0.5) / len(nodes) for nodes in order.values() for place, node in enumerate(nodes)}


def _pull(graph: nx.Graph, node: Node, heights: dict[Node, float]) -> tuple[float, int]:
    """Return the mean height of a node's neighbours; its own where it has none."""
    near = [heights[other] for other in graph.neighbors(node)]
    return (sum(near) / len(near) if near else heights[node], node[1])
