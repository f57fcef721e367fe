"""Simulate bit by bit: a long run can say how far it is, and be stopped without losing what it has."""

from __future__ import annotations

from collections.abc import Callable

from qflow.workload.agenda import SECOND
from qflow.workload.model import Workload
from qflow.workload.run import Run
from qflow.workload.simulate import set_up
from qflow.workload.stage import uncollected

SLICE = SECOND // 10


def simulate_in_slices(workload: Workload, tell: Callable[[int, int], None]) -> tuple[Run, bool]:
    """Run a workload as :func:`qflow.workload.simulate` does, and stop in good order on Ctrl-C.

    Parameters
    ----------
    workload : Workload
        What to run.
    tell : callable
        Told after each slice of virtual time how far the run is, in microseconds, and how many events
        there are.

    Returns
    -------
    (Run, bool)
        What happened, and whether that is all.  A run that was interrupted ends with its last whole slice.

    Raises
    ------
    AmqpException
        The broker's own refusal of a queue.

    Examples
    --------
    >>> seen = []
    >>> run, is_whole = simulate_in_slices(Workload("w", 1, {"q": {}}), lambda time, count: seen.append(time))
    >>> run.end, is_whole, seen[-1]
    (11000000, True, 11000000)
    """
    with uncollected():
        stage = set_up(workload)
        done, count = 0, len(stage.events)
        try:
            while done < stage.agenda.end:
                until = min(done + SLICE, stage.agenda.end)
                stage.run(until=until)
                done, count = until, len(stage.events)
                tell(done, count)
            return stage.finish(workload), True
        except KeyboardInterrupt:
            del stage.events[count:]
            stage.agenda.end = done
            return stage.finish(workload), False
