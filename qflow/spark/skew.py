"""Skew: how far a fleet can be spread, and what its largest component makes of that."""

from __future__ import annotations

from collections.abc import Mapping


def speed_up(events: Mapping[str, int], workers: int) -> float:
    """Return the best speed-up that whole components allow on so many workers.

    A component is one sequence; as long as it is not cut, nothing is done before the largest one is.  This
    is Amdahl's law with a fleet's own numbers.

    Parameters
    ----------
    events : mapping
        Component to how many events it has.
    workers : int

    Examples
    --------
    >>> speed_up({"a": 60, "b": 20, "c": 20}, 2), speed_up({"a": 60, "b": 20, "c": 20}, 100)
    (1.6666666666666667, 1.6666666666666667)
    """
    from qflow.spark.layout import pack

    loads = [0] * workers
    for component, bucket in pack(events, workers).items():
        loads[bucket] += events[component]
    return sum(events.values()) / max(loads)


def bound(events: Mapping[str, int]) -> float:
    """Return the speed-up that no number of workers exceeds: all events over the largest component's.

    Examples
    --------
    >>> bound({"a": 50, "b": 25, "c": 25})
    2.0
    """
    return sum(events.values()) / max(events.values())
