"""Side by side: workloads that differ in one thing, run one after the other into one comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qflow.labs.comparison import Comparison
from qflow.labs.picture import Picture, picture_of
from qflow.labs.running import Steps, running
from qflow.labs.words import DEAD
from qflow.workload import Run, Workload


def side_by_side(
    workloads: Mapping[str, Workload], messages: int, verdict: Callable[[Picture], str]
) -> Steps[Comparison]:
    """Run each workload, and say of each what came of it.

    Parameters
    ----------
    workloads
        What differs, in a few words, to the workload.
    messages
        Each run ends when so many have been sent and the rest has been served.
    verdict
        Returns one sentence about a picture.

    Yields
    ------
    float
        Which part of all runs is done.

    Returns
    -------
    Comparison
        One picture and one claim for each workload.

    Examples
    --------
    >>> from qflow.labs.flow import flow_workload
    >>> from qflow.labs.running import finished
    >>> two = {f"capacity {size}": flow_workload(capacity=size) for size in (1, 9)}
    >>> finished(side_by_side(two, 30, lambda picture: f"{picture.frames.count} steps."))
    capacity 1: 70 steps.
    capacity 9: 70 steps.
    """
    pictures = {}
    for index, (name, workload) in enumerate(workloads.items()):
        pictures[name] = picture_of((yield from _part(running(workload, messages), index, len(workloads))))
    return Comparison(pictures, tuple(f"{name}: {verdict(picture)}" for name, picture in pictures.items()))


def first_time(picture: Picture, channel: str, value: int = 1) -> int:
    """Return when a column of a picture first has a value, in microseconds.

    Raises
    ------
    ValueError
        If it never has.
    """
    return picture.frames.column("time")[picture.frames.column(channel).tolist().index(value)]


def death_of(picture: Picture, producer: str) -> int:
    """Return when a producer's session died, in microseconds.

    Raises
    ------
    ValueError
        If it lived to the end.
    """
    return first_time(picture, f"producer.{producer}.mood", DEAD)


def _part(steps: Steps[Run], index: int, of: int) -> Steps[Run]:
    """Take steps that are one of several parts of the work."""
    while True:
        try:
            part = next(steps)
        except StopIteration as end:
            run: Run = end.value
            return run
        yield (index + part) / of
