"""Where to draw the states of a graph: depth to the right, what is held upwards."""

from __future__ import annotations

from qflow.design.graph import StateGraph

SPREAD = 0.6
"""How far states of the same depth and the same number of held transfers are drawn apart, in all."""


def positions(states: StateGraph) -> dict[int, tuple[float, float]]:
    """Return a place for each node: x is the depth, y how many transfers are held.

    In this plane flow control shows its shape: everything OFF lies on the line at the bottom, what is ON
    hangs above it, and the farthest corner is the stall at stop plus all capacities (CAP-11).  States that
    would lie on one another are spread to the right, in the order of their numbers, by less than one
    message.

    Parameters
    ----------
    states : StateGraph
        What :func:`qflow.design.explore` returned.

    Returns
    -------
    dict
        Node to (x, y); of several queues, x is the sum of their depths.

    Examples
    --------
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
        node: (depth + SPREAD * index / len(nodes), float(held))
        for (depth, held), nodes in shared.items()
        for index, node in enumerate(nodes)
    }
