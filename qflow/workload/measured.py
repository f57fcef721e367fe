"""Fast runs that return a few measures instead of events.

The settings map of :mod:`qflow.design` needs only three facts about each of its runs: the greatest depth of a
queue, how long producers were blocked, and the producers whose session ended.  So :func:`measure` records no
events.  It adds an observer to each queue that records its depth over time, and records only the blocked
intervals of the producers, which is several times faster.  Otherwise the run is the same as that of
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
"""The number of points in the course of a queue's depth."""


class Measured(NamedTuple):
    """The measures of one run, as :mod:`qflow.workload.measures` defines them."""

    # The greatest depth in messages of the deepest queue.
    max_depth: int
    # The share of the run's time base in which producers were blocked, as the mean over all producers.
    blocked_share: float
    # The names of the producers whose session an error ended, in the order of the workload.
    sessions_ended: tuple[str, ...]
    # For each of POINTS equal parts of the time base the greatest depth of the deepest queue, scaled so that
    # 255 is max_depth.
    course: bytes
    # The largest share of a goal's limit that the run used; 0 without goals.
    goal_use: float = 0.0


class _Gauge(QueueObserver):
    """An observer that records a queue's depth over time."""

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
        """Return the greatest depth in each of POINTS equal parts of the time up to `end`, from 0 to 255."""
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
    """Run a prepared stage, and return the measures of the named queue, or by default of the deepest one."""
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
