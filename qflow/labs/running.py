"""Running: a workload in small steps, so that a lab can show how far it is, and drop it for a later one.

Side by side: workloads that differ in one thing, run one after the other into one comparison.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TypeVar

from qflow.labs.fold import Fold
from qflow.labs.frames import frames_so_far, whole_frames
from qflow.labs.picture import Comparison, Picture, picture_from, picture_of
from qflow.labs.topology import Topology
from qflow.labs.words import DEAD
from qflow.workload import Run, Workload
from qflow.workload.agenda import SECOND
from qflow.workload.simulate import set_up
from qflow.workload.stage import Stage, uncollected

Result = TypeVar("Result")
Steps = Generator[float, int | None, Result]
"""Yields now and then which part is done, from 0 to 1, and returns what comes of it.

Who sends it an instant, in microseconds, has the next step end right behind it, if it lies ahead."""

_MOST_EVENTS = 4_000
_SLICE = SECOND // 10


class SoFar(float):
    """Which part of a run is done, from 0 to 1, of a run that can be drawn before it is whole.

    Attributes
    ----------
    time
        Up to which instant, in microseconds, everything that happens is known.
    frames
        How many frames that makes.
    draw
        Called with the length of the time axis; returns the picture of that much. It has no claims: what a
        run shows can be said when it has ended.
    """

    time: int
    frames: int
    draw: Callable[[int], Picture]


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
    >>> from qflow.labs.experiments import flow_workload
    >>> from qflow.workload import simulate
    >>> whole = simulate(flow_workload(stop=20, resume=10), message_limit=300)
    >>> finished(running(flow_workload(stop=20, resume=10), 300)).events == whole.events
    True
    """
    with uncollected():
        stage = set_up(workload, messages)
    slices = _Slices(stage)
    for _ in slices:
        slices.aim = yield 1 - (stage.remaining or 0) / messages
    return stage.finish(workload)


def drawing(workload: Workload, messages: int) -> Steps[Picture]:
    """Run a workload in small steps, and fold it as it goes; the picture is that of one run without a pause.

    A lab can draw the part that is done while the rest still runs: what is known of an instant does not
    change any more, whatever happens later.

    Parameters
    ----------
    workload, messages
        As of :func:`running`.

    Yields
    ------
    SoFar
        Which part of the messages is sent, and how to draw what there is.

    Returns
    -------
    Picture

    Raises
    ------
    AmqpException
        The broker's own refusal of a queue.

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> from qflow.labs.experiments import flow_workload
    >>> picture = finished(drawing(flow_workload(stop=20, resume=10), 300))
    >>> picture.frames.data == flow_run(messages=300, stop=20, resume=10).frames.data
    True
    """
    with uncollected():
        stage = set_up(workload, messages)
        folding = Fold(Topology.of(workload, stage.agenda.end))
    slices = _Slices(stage)
    for done in slices:
        with _set_apart():
            folding.follow(stage.events)
            # Whatever comes now comes later, and begins another step.
            folding.end()
        part = SoFar(1 - (stage.remaining or 0) / messages)
        part.time, part.frames, part.draw = done, folding.count, _Sketch(stage, workload, folding, done)
        slices.aim = yield part
    run = stage.finish(workload)
    with uncollected():
        return picture_from(run, whole_frames(folding, run.end))


class _Sketch:
    """Draws what there is of a run."""

    def __init__(self, stage: Stage, workload: Workload, folding: Fold, done: int) -> None:
        self._stage, self._workload, self._folding, self._done = stage, workload, folding, done

    def __call__(self, room: int) -> Picture:
        run = Run(self._workload, self._stage.events, self._done)
        frames = frames_so_far(self._folding, self._done)
        return picture_from(run, frames, room=max(room, self._done))


class _Slices:
    """Runs a stage to its end, and tells after each slice of time up to which instant it has come."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.aim: int | None = None

    def __iter__(self) -> Iterator[int]:
        stage = self._stage
        done, length = 0, _SLICE
        try:
            while done < stage.agenda.end:
                before = len(stage.events)
                done = min(self._next_end(done, length), stage.agenda.end)
                with _set_apart():
                    stage.run(until=done)
                length = _next_length(length, len(stage.events) - before)
                yield done
        finally:
            if done < stage.agenda.end:
                # Nobody waits for this run any more; it is not to stay in memory either.
                stage.dissolve()
            gc.unfreeze()

    def _next_end(self, done: int, length: int) -> int:
        if self.aim is not None and done <= self.aim < done + length:
            return self.aim + 1
        return done + length


def _next_length(length: int, events: int) -> int:
    """Return how long the next slice may be: that depends on how much happens, and changes nothing of it."""
    if events > _MOST_EVENTS:
        return max(_SLICE // 10, length // 2)
    return length * (4 if not events else 2 if events < _MOST_EVENTS // 4 else 1)


@contextmanager
def _set_apart() -> Iterator[None]:
    """Keep the collector from looking through what a run has made so far, slice after slice."""
    with uncollected():
        yield
        gc.freeze()


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
    >>> from qflow.labs.experiments import flow_workload
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
