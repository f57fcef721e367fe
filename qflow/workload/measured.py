"""Measured: a run of which only a few numbers are wanted, several times faster than one with its events.

A map of settings asks of each of its runs how deep a queue became, how long producers waited, and whose
session died.  So no event is made: a gauge is beside each queue's own observers and sees how deep it
becomes, and of what clients report only the waits are kept.  What happens is the same as in
:func:`qflow.workload.simulate`.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Final, NamedTuple

from qflow.broker.message import QueuedMessage, QueueObserver
from qflow.workload.agenda import Agenda
from qflow.workload.measures import ProducerMeter
from qflow.workload.model import Workload
from qflow.workload.stage import Stage

POINTS: Final = 40
"""How many points a course has."""


class Measured(NamedTuple):
    """The measures of one run, as :mod:`qflow.workload.measures` defines them."""

    # Of the queue that became deepest.
    max_depth: int
    # Over the run's time base; the mean over the producers.
    blocked_share: float
    # The producers whose session ended, in their order.
    sessions_ended: tuple[str, ...]
    # Equal parts of that time: the most messages on the deepest queue, from 0 to 255 of ``max_depth``.
    course: bytes
    # What it used of the limit of the goal that it kept worst; 0 without goals.
    goal_use: float = 0.0


class _Gauge(QueueObserver):
    """A gauge of a queue's depth over time."""

    __slots__ = ("agenda", "depth", "max_depth", "times", "depths")

    def __init__(self, agenda: Agenda) -> None:
        self.agenda = agenda
        self.depth = 0
        self.max_depth = 0
        self.times: list[int] = []
        self.depths: list[int] = []

    def enqueued(self, message: QueuedMessage) -> None:
        self.depth += 1
        if self.depth > self.max_depth:
            self.max_depth = self.depth
        self.times.append(self.agenda.now)
        self.depths.append(self.depth)

    def dequeued(self, message: QueuedMessage) -> None:
        self.depth -= 1
        self.times.append(self.agenda.now)
        self.depths.append(self.depth)

    def course(self, end: int) -> bytes:
        """Return the greatest depth in each part of the time up to an instant."""
        most, level, part = [0] * POINTS, 0, 0
        for place, time in enumerate(self.times):
            if time > end:
                break
            until = min(POINTS - 1, time * POINTS // end)
            while part < until:
                part += 1
                most[part] = level
            level = self.depths[place]
            most[part] = max(most[part], level)
        for rest in range(part + 1, POINTS):
            most[rest] = level
        return bytes([255 * depth // max(1, self.max_depth) for depth in most])


def measure(stage: Stage, workload: Workload, queue: str = "") -> Measured:
    """Run a prepared stage, and measure a queue, or by default the deepest one."""
    stage.broker.observe(None)
    meters = {producer.name: ProducerMeter() for producer in workload.producers}

    def note(kind: str, client: str) -> None:
        if client in meters:
            meters[client].note(kind.removeprefix("client."), stage.agenda.now)

    stage.on_client = note
    names = [queue] if queue else list(workload.queues)
    gauges = [_Gauge(stage.agenda) for _ in names]
    for gauge, name in zip(gauges, names, strict=True):
        measured = stage.broker.queue(name)
        measured.observers = (*measured.observers, gauge)
    stage.run()
    errors = stage.finish(workload)
    died = [producer.name for producer in workload.producers if producer.name in errors]
    deepest = max(gauges, key=attrgetter("max_depth"), default=_Gauge(stage.agenda))
    shares = [meter.blocked_share(stage.time_base) for meter in meters.values()]
    blocked_share = sum(shares) / max(1, len(shares))
    return Measured(deepest.max_depth, blocked_share, tuple(died), deepest.course(stage.time_base))
