"""A part of a topology: some queues, and everyone who uses them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from qflow.labs.topology import Topology


def sessions_of(topology: Topology) -> set[str]:
    """Return the sessions of everyone in a topology.

    Examples
    --------
    >>> from qflow.labs.topology import ProducerSpot
    >>> sessions_of(Topology((ProducerSpot("p1", 5, "", "shared"),), (), (), (), 0))
    {'shared'}
    """
    readers = {spot.link.partition("::")[0] for spot in topology.consumers}
    return {spot.session for spot in topology.producers} | readers


def neighbours(topology: Topology, queue: str, most: int) -> set[str]:
    """Return a queue and those that share an exchange with it.

    Parameters
    ----------
    topology
        All of them.
    queue
        Its name.
    most
        No more than so many.

    Returns
    -------
    set of str

    Examples
    --------
    >>> from qflow.labs.fanout import fanout_workload
    >>> sorted(neighbours(Topology.of(fanout_workload(), 0), "slow", 6))
    ['fast', 'medium', 'slow']
    """
    names = [spot.name for spot in topology.queues]
    exchanges = {exchange for exchange, bound in topology.bindings if names[bound] == queue}
    near = [names[bound] for exchange, bound in topology.bindings if exchange in exchanges]
    return set([queue, *near][:most])


def part_of(topology: Topology, queues: Collection[str]) -> Topology:
    """Return the part of a topology that uses some queues.

    Parameters
    ----------
    topology
        All of it.
    queues
        Their names.

    Returns
    -------
    Topology

    Examples
    --------
    >>> from qflow.labs.fanout import fanout_workload
    >>> part = part_of(Topology.of(fanout_workload(), 0), {"slow"})
    >>> [spot.name for spot in (*part.queues, *part.consumers)]
    ['slow', 'c-slow']
    """
    kept = [index for index, spot in enumerate(topology.queues) if spot.name in queues]
    place = {index: number for number, index in enumerate(kept)}
    bindings = [(exchange, place[queue]) for exchange, queue in topology.bindings if queue in place]
    direct = {producer for producer, queue in topology.routes if queue in place}
    exchanges = sorted({exchange for exchange, _ in bindings})
    members = [
        index
        for index, spot in enumerate(topology.producers)
        if spot.exchange in exchanges or index in direct
    ]
    producers = [topology.producers[index] for index in members]
    routes = [(members.index(one), place[queue]) for one, queue in topology.routes if queue in place]
    return replace(
        topology,
        producers=tuple(replace(spot, exchange=_index(exchanges, spot.exchange)) for spot in producers),
        queues=tuple(topology.queues[index] for index in kept),
        consumers=tuple(
            replace(spot, queue=place[spot.queue]) for spot in topology.consumers if spot.queue in place
        ),
        routes=tuple(routes),
        exchanges=tuple(topology.exchanges[index] for index in exchanges),
        bindings=tuple((exchanges.index(exchange), queue) for exchange, queue in bindings),
    )


def _index(exchanges: list[int], exchange: int) -> int:
    return exchanges.index(exchange) if exchange in exchanges else -1
