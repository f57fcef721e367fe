"""Running: runs a workload in small steps, so that a lab can show its progress or abandon it.

A run in steps is a generator: it yields the finished share of the work, and returns the result, a picture or
a comparison. A step runs a slice of simulated time. The events do not depend on the lengths of the slices,
and those of a finished slice do not change any more, so the finished part of a run can be drawn while the
rest is still running.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import TypeVar

from qflow.broker.errors import AmqpException
from qflow.kit import RefusalError
from qflow.labs.fold import Fold
from qflow.labs.picture import Picture, picture_of
from qflow.labs.topology import Topology
from qflow.workload import Run, Workload, WorkloadError
from qflow.workload.agenda import SECOND, SEND
from qflow.workload.attributes import is_whole, require
from qflow.workload.simulate import MOST_MESSAGES, finish, set_up
from qflow.workload.stage import Stage, pause_collector

Result = TypeVar("Result")
Steps = Generator[float, int | None, Result]
"""A generator of finished shares; if a time in µs is sent to it, the next step ends just after that time."""

_MOST_EVENTS = 4_000
_SLICE = SECOND // 10


class SoFar(float):
    """The finished share, from 0 to 1, of a run whose finished part can be drawn already."""

    # The time in microseconds up to which the run is finished; the number of frames until then; a function
    # that returns the picture of the finished part, without claims, given the end of its time axis.
    time: int
    frames: int
    draw: Callable[[int], Picture]


def draw_steps(workload: Workload, messages: int) -> Steps[Picture]:
    """Run a workload in small steps, each of which yields a :class:`SoFar`; return the picture."""
    is_allowed = is_whole(messages, 1) and messages <= MOST_MESSAGES
    # Without a limit the run would never end.
    allowed = f"a whole number from 1 to {MOST_MESSAGES:,}"
    require(is_allowed, "a lab", "messages", messages, allowed)
    with pause_collector():
        stage = set_up(workload, messages)
        folding = Fold(Topology.of(workload, stage.agenda.end))
    done, length, aim = 0, _SLICE, None
    try:
        while done < stage.agenda.end:
            before = len(stage.events)
            # If the reader looks at an instant in this slice, the slice ends just after it, so that its frame
            # can be drawn while the rest is running.
            until = aim + 1 if aim is not None and done <= aim < done + length else done + length
            done = min(until, stage.agenda.end)
            with pause_collector():
                stage.run(until=done)
                folding.follow(stage.events)
                # All further events are later, so the last step of the fold is complete.
                folding.end()
                # Otherwise the garbage collector would traverse the whole run again after every slice.
                gc.freeze()
            length = _next_length(length, len(stage.events) - before)
            part = SoFar(1 - stage.remaining / messages)
            part.time, part.frames = done, folding.count
            part.draw = partial(_sketch, Run(workload, stage.events, done), folding)
            aim = yield part
    finally:
        if done < stage.agenda.end:
            # The run was abandoned; free its memory.
            stage.dissolve()
        gc.unfreeze()
    run = finish(stage, workload)
    with pause_collector():
        return replace(picture_of(run, frames=folding.whole(run.end)), messages=messages)


def simulate_with(
    workload: Workload, messages: int, time: int, act: Callable[[Stage], None], until: int | None = None
) -> Run:
    """Simulate a workload with an intervention, `act`, at a time; the clients react to it."""
    with pause_collector():
        stage = set_up(workload, messages)
        stage.agenda.enter(time, SEND + 1, partial(act, stage))
        stage.agenda.end = min(stage.agenda.end, until or stage.agenda.end)
        stage.run()
    return finish(stage, workload)


def _sketch(run: Run, folding: Fold, room: int) -> Picture:
    """Return the picture of the finished part of a run, whose time axis ends at `room`."""
    return picture_of(run, frames=folding.so_far(run.end), room=max(room, run.end))


def _next_length(length: int, events: int) -> int:
    """Return the length of the next slice, which depends on the number of events in the last one."""
    if events > _MOST_EVENTS:
        return max(_SLICE // 10, length // 2)
    return length * (4 if not events else 2 if events < _MOST_EVENTS // 4 else 1)


def finish_steps(steps: Steps[Result]) -> Result:
    """Take all steps of a run, and return the result."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


def part_of_steps(steps: Steps[Picture], index: int, of: int) -> Steps[Picture]:
    """Take the steps of one of several runs, yield the share of all runs, and return the picture."""
    while True:
        try:
            part = next(steps)
        except StopIteration as end:
            picture: Picture = end.value
            return picture
        yield (index + part) / of


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the running event loop of the kernel, or None outside a kernel."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def refusal_text(error: Exception) -> str:
    """Return the sentence to show when an error has prevented a picture."""
    if isinstance(error, AmqpException):
        return f"The broker refuses these settings: {error}"
    if isinstance(error, WorkloadError):
        return f"No client can do this: {error}"
    if isinstance(error, RefusalError):
        return f"This cannot be drawn: {error}"
    return f"This lab cannot draw these settings ({type(error).__name__}: {error})."
