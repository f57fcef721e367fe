"""Running: a workload in small steps, so that a lab can show how far it is, and drop it for a later one."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from qflow.workload import Run, Workload
from qflow.workload.agenda import SECOND
from qflow.workload.simulate import set_up
from qflow.workload.stage import uncollected

Result = TypeVar("Result")
Steps = Generator[float, None, Result]
"""Yields now and then which part is done, from 0 to 1, and returns what comes of it."""

_MOST_EVENTS = 4_000
_SLICE = SECOND // 10


def running(workload: Workload, messages: int) -> Steps[Run]:
    """Run a workload in small steps; the events are those of one run without a pause.

    Parameters
    ----------
    workload
        What to run.
    messages
        Most messages that all producers together send; consumers go on for ten more seconds.

    Yields
    ------
    float
        Which part of the messages is sent.

    Returns
    -------
    Run

    Raises
    ------
    AmqpException
        The broker's own refusal of a queue.

    Examples
    --------
    >>> from qflow.labs.flow import flow_workload
    >>> from qflow.workload import simulate
    >>> whole = simulate(flow_workload(stop=20, resume=10), message_limit=300)
    >>> finished(running(flow_workload(stop=20, resume=10), 300)).events == whole.events
    True
    """
    with uncollected():
        stage = set_up(workload, messages)
    done, length = 0, _SLICE
    while done < stage.agenda.end:
        before = len(stage.events)
        done = min(done + length, stage.agenda.end)
        with uncollected():
            stage.run(until=done)
        new = len(stage.events) - before
        # How long a slice may be depends on how much happens; what happens does not depend on slices.
        length = max(_SLICE // 10, length // 2) if new > _MOST_EVENTS else length * (1 if new else 4)
        yield 1 - (stage.remaining or 0) / messages
    return stage.finish(workload)


def finished(steps: Steps[Result], tell: Callable[[float], None] | None = None) -> Result:
    """Take all steps, and return what comes of them.

    Parameters
    ----------
    steps
        What is to be done.
    tell
        Told now and then which part is done; it may raise to stop.
    """
    while True:
        try:
            part = next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result
        if tell is not None:
            tell(part)
