"""Tables of small configurations, in which the laws of flow control can be discovered."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from qflow.design.explore import STATE_LIMIT, explore
from qflow.design.small import SmallConfiguration


def tabulate(
    configurations: Iterable[SmallConfiguration], *, state_limit: int = STATE_LIMIT
) -> list[dict[str, Any]]:
    """Explore configurations, and return one row for each.

    The table says what was found and nothing of why: whoever looks for the law should try to say
    ``maximum_depth`` from the columns before it.

    Parameters
    ----------
    configurations : iterable of SmallConfiguration
        What to explore; of several queues each gets a row.
    state_limit : int
        As for :func:`qflow.design.explore`, for each configuration.

    Returns
    -------
    list of dict
        queue, stop, resume and limit in messages (None if not given), capacities (of those who send to the
        queue), window, batch, states, maximum_depth, stalls (the depths at which no producer can send, in
        order), overflow and deadlock (whether a state is marked so).

    Raises
    ------
    DesignError
        If one has more states than the limit.

    Examples
    --------
    >>> rows = tabulate(SmallConfiguration.of(stop, (2, 1), is_consumed=False) for stop in (1, 2, 3))
    >>> [(row["stop"], row["capacities"], row["maximum_depth"]) for row in rows]
    [(1, (2, 1), 4), (2, (2, 1), 5), (3, (2, 1), 6)]
    """
    rows: list[dict[str, Any]] = []
    for configuration in configurations:
        states = explore(configuration, state_limit=state_limit)
        marks = states.marks
        for queue, arguments in configuration.queues.items():
            depths = states.depths(queue)
            senders = [name for name in configuration.capacities if queue in configuration.targets(name)]
            rows.append(
                {
                    "queue": queue,
                    "stop": arguments.get("qpid.flow_stop_count"),
                    "resume": arguments.get("qpid.flow_resume_count"),
                    "limit": arguments.get("qpid.max_count"),
                    "capacities": tuple(configuration.capacities[name] for name in senders),
                    "window": configuration.window,
                    "batch": configuration.batch,
                    "states": len(states.graph),
                    "maximum_depth": max(depths.values()),
                    "stalls": tuple(sorted({depths[node] for node in marks["stalled"]})),
                    "overflow": bool(marks["overflow"]),
                    "deadlock": bool(marks["deadlock"]),
                }
            )
    return rows
