"""Curve: a queue's depth over time, thinned to what a chart can show, with all that belongs beside it."""

from __future__ import annotations

from dataclasses import dataclass

from qflow.labs.frames import Frames, Span
from qflow.labs.picture import Picture
from qflow.labs.topology import QueueSpot

Point = tuple[float, int]


@dataclass(frozen=True, slots=True)
class Curve:
    """What a depth chart of one queue is drawn from.

    Parameters
    ----------
    queue
        The queue, with its thresholds.
    points
        (seconds, depth), in order of time; each point holds until the next.
    on, really_on
        When flow control was ON, in the engine and as a real broker reported it; microseconds.
    reported
        (seconds, depth) as a real broker reported it.
    end
        Length of the run in seconds.
    """

    queue: QueueSpot
    points: tuple[Point, ...]
    on: tuple[Span, ...]
    really_on: tuple[Span, ...]
    reported: tuple[Point, ...]
    end: float

    @property
    def top(self) -> float:
        """The upper end of the scale."""
        deepest = max([depth for _, depth in (*self.points, *self.reported)] + [self.queue.stop_count, 1])
        limit = self.queue.max_count
        return 1.06 * max(deepest, limit if limit <= 2.5 * deepest else 0)

    def levels(self) -> list[tuple[str, int]]:
        """List the limit and the thresholds that take part and fit on the scale, highest first."""
        queue = self.queue
        known = [("limit", queue.max_count), ("stop", queue.stop_count)]
        if queue.stop_count:
            known.append(("resume", queue.resume_count))
        return [(name, depth) for name, depth in known if 0 < depth <= self.top]


def curve_of(picture: Picture, queue: str | None = None, columns: int = 400) -> Curve:
    """Read a queue's depth off a picture.

    Parameters
    ----------
    picture
        What was run.
    queue
        Which queue; None for the first.
    columns
        In each of so many slices of time only the first, lowest, highest and last depth are kept; on a
        chart no wider than that nothing is lost to the eye.

    Returns
    -------
    Curve

    Raises
    ------
    KeyError
        If there is no such queue.
    """
    topology = picture.frames.topology
    names = [spot.name for spot in topology.queues]
    if queue is not None and queue not in names:
        raise KeyError(f"no queue {queue!r} in this picture; there are {', '.join(names)}")
    index = names.index(queue) if queue is not None else 0
    spans = {lane.kind: lane.spans for lane in picture.lanes if lane.queue == index}
    reported = [point for sample in picture.samples if sample.queue == index for point in sample.points]
    return Curve(
        topology.queues[index],
        thinned(picture.frames, names[index], columns),
        spans.get("on", ()),
        spans.get("real", ()),
        tuple((time / 1e6, depth) for time, depth in reported),
        topology.end / 1e6,
    )


def thinned(frames: Frames, queue: str, columns: int) -> tuple[Point, ...]:
    """Keep of a queue's depth what can be seen: per slice of time the first, lowest, highest, last.

    Parameters
    ----------
    frames
        The picture.
    queue
        Which queue.
    columns
        How many slices.

    Returns
    -------
    tuple of pairs
        (seconds, depth).
    """
    slices: dict[int, list[Point]] = {}
    end = max(frames.topology.end, 1)
    for time, depth in zip(frames.column("time"), frames.column(f"queue.{queue}.depth"), strict=True):
        slices.setdefault(columns * time // end, []).append((time / 1e6, depth))
    kept: list[Point] = []
    for points in slices.values():
        lowest = min(points, key=lambda point: point[1])
        highest = max(points, key=lambda point: point[1])
        kept += sorted({points[0], lowest, highest, points[-1]}, key=points.index)
    return tuple(kept)
