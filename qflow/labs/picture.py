"""Picture: one run made visible, as numbers to draw and as sentences to read.

Comparison: several pictures of one workload, to be looked at side by side and under one clock.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qflow.labs.channels import AFTER_STEP, CONSUMER_CHANNELS, PRODUCER_CHANNELS, QUEUE_CHANNELS, REASONS
from qflow.labs.claims import claims_of
from qflow.labs.frames import Frames, Span, fold
from qflow.labs.topology import Topology
from qflow.labs.words import DEAD, vocabulary

if TYPE_CHECKING:
    from qflow.workload import Run


@dataclass(frozen=True, slots=True)
class Lane:
    """A bar under the depth plot that is filled while something holds.

    Parameters
    ----------
    queue
        Index of the queue under whose plot it lies.
    label
        What holds.
    kind
        How it is drawn: ``on`` (flow control), ``real`` (the recorded broker's), ``wait`` (a full window).
    spans
        When it holds: from and to, in microseconds.
    """

    queue: int
    label: str
    kind: str
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Samples:
    """Depths that somebody measured, laid over the engine's own.

    Parameters
    ----------
    queue
        Index of the queue.
    label
        Who measured.
    points
        (time in microseconds, depth), in order of time.
    """

    queue: int
    label: str
    points: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Picture:
    """One run made visible.

    Parameters
    ----------
    run
        The run itself.
    frames
        What is to be seen after each step.
    claims
        What the picture shows, in sentences.
    lanes, samples
        What is drawn beside the depth.
    room
        Of a run that still goes on: how far the time axis is to reach, in microseconds; 0 of a whole run.

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> picture = flow_run(messages=200, stop=20, resume=10)
    >>> picture.frames.transitions[0].is_on
    True
    """

    run: Run
    frames: Frames
    claims: tuple[str, ...]
    lanes: tuple[Lane, ...] = ()
    samples: tuple[Samples, ...] = field(default=())
    room: int = 0

    def __repr__(self) -> str:
        return "\n".join(self.claims)

    def payload(self) -> dict[str, object]:
        """Return all that the browser draws: JSON but for ``numbers`` and ``spans``, which are bytes."""
        frames = self.frames
        planes, numbers = frames.packed()
        lasting = {name: table.packed() for name, table in frames.lasting.items()}
        return {
            "topology": frames.topology.asdict(),
            "columns": {**_columns(frames), "planes": planes},
            "numbers": numbers,
            "lasting": [
                [name, table.columns, len(table), lasting[name][0]] for name, table in frames.lasting.items()
            ],
            "spans": b"".join(packed for _, packed in lasting.values()),
            "groups": frames.groups,
            "reasons": REASONS,
            "words": vocabulary(),
            "count": frames.count,
            "start": frames.most_telling(),
            "transitions": [[change.frame, change.queue, change.is_on] for change in frames.transitions],
            "turns": _turns(frames),
            "lanes": [[lane.queue, lane.label, lane.kind, lane.spans] for lane in self.lanes],
            "samples": [[sample.queue, sample.label, sample.points] for sample in self.samples],
            **({"room": self.room} if self.room else {}),
        }


def picture_of(
    run: Run,
    *,
    more_lanes: Sequence[Lane] = (),
    samples: Sequence[Samples] = (),
    topology: Topology | None = None,
) -> Picture:
    """Make a run visible.

    Parameters
    ----------
    run
        What a simulation or a replay gave.
    more_lanes, samples
        What else is to be drawn beside the depth.
    topology
        Who is to be seen; None for everyone in the run's workload.

    Returns
    -------
    Picture

    Examples
    --------
    >>> from qflow.labs import flow_workload
    >>> from qflow.workload import simulate
    >>> print(picture_of(simulate(flow_workload(stop=20, resume=10), message_limit=60)).claims[0])
    orders turned ON ...
    """
    return picture_from(run, fold(run, topology), more_lanes=more_lanes, samples=samples)


def picture_from(
    run: Run,
    frames: Frames,
    *,
    more_lanes: Sequence[Lane] = (),
    samples: Sequence[Samples] = (),
    room: int = 0,
) -> Picture:
    """Make a run visible whose frames are at hand.

    Parameters
    ----------
    run, frames
        The run.
    more_lanes, samples
        What else is to be drawn beside the depth.
    room
        Of a run that still goes on: how far the time axis is to reach, in microseconds.

    Returns
    -------
    Picture
        Without claims if the run still goes on.
    """
    lanes = (*flow_lanes(frames), *more_lanes, *window_lanes(frames))
    claims = () if room else claims_of(frames, run.errors)
    return Picture(run, frames, claims, lanes, tuple(samples), room)


def flow_lanes(frames: Frames) -> list[Lane]:
    """Make a lane for each queue's flow control.

    Parameters
    ----------
    frames
        The picture.

    Returns
    -------
    list of Lane
    """
    return [
        Lane(index, f"{spot.name} ON", "on", frames.spans(f"queue.{spot.name}.flow"))
        for index, spot in enumerate(frames.topology.queues)
    ]


def window_lanes(frames: Frames) -> list[Lane]:
    """Make a lane for each producer that waits while its window is full, under the first queue it feeds.

    Parameters
    ----------
    frames
        The picture.

    Returns
    -------
    list of Lane
    """
    first: dict[int, int] = {}
    for producer, queue in frames.topology.routes:
        first.setdefault(producer, queue)
    return [
        Lane(first.get(index, 0), f"{spot.name} waits", "wait", frames.spans(f"producer.{spot.name}.blocked"))
        for index, spot in enumerate(frames.topology.producers)
    ]


def _turns(frames: Frames) -> list[int]:
    """List the frames worth jumping to: ON or OFF, a first discard, a queue or a session that ends."""
    turns = {change.frame for change in frames.transitions}
    for queue in frames.topology.queues:
        for channel in ("discards", "gone"):
            turns.update(_first(frames.column(f"queue.{queue.name}.{channel}"), 1))
    for producer in frames.topology.producers:
        turns.update(_first(frames.column(f"producer.{producer.name}.mood"), DEAD, DEAD))
    return sorted(turns)


def _first(column: array[int], least: int, most: int = 2**31) -> list[int]:
    """Find the first frame in which a column is within bounds; none if it never is."""
    if not any(least <= value <= most for value in set(column)):
        return []
    return [next(frame for frame, value in enumerate(column) if least <= value <= most)]


def _columns(frames: Frames) -> dict[str, object]:
    """Tell the browser where each one's numbers begin, and in which order they stand."""
    topology = frames.topology
    producers, queues, consumers = map(len, (topology.producers, topology.queues, topology.consumers))
    queues_at = AFTER_STEP + len(PRODUCER_CHANNELS) * producers
    consumers_at = queues_at + len(QUEUE_CHANNELS) * queues
    return {
        "step": [name.removeprefix("step.") for name in frames.channels[1:AFTER_STEP]],
        "producer": [AFTER_STEP, PRODUCER_CHANNELS],
        "queue": [queues_at, QUEUE_CHANNELS],
        "consumer": [consumers_at, CONSUMER_CHANNELS],
    }


@dataclass(frozen=True)
class Comparison:
    """Pictures that differ in one thing only.

    Parameters
    ----------
    pictures
        What differs, in a few words, to its picture; in the order in which they are drawn.
    claims
        What the pictures show together, in sentences.

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> two = Comparison({"one": flow_run(messages=20)}, ("One picture is no comparison.",))
    >>> two["one"].frames.topology.queues[0].name, two
    ('orders', One picture is no comparison.)
    """

    pictures: Mapping[str, Picture]
    claims: tuple[str, ...]

    def __getitem__(self, name: str) -> Picture:
        return self.pictures[name]

    def __repr__(self) -> str:
        return "\n".join(self.claims)


def compare(one: Picture, other: Picture, names: tuple[str, str] = ("before", "after")) -> Comparison:
    """Put two runs side by side.

    Parameters
    ----------
    one, other
        The pictures.
    names
        What they are called.

    Returns
    -------
    Comparison
        Its claims are those of both: first what holds for either, then name by name.

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> for claim in compare(flow_run(messages=50), flow_run(messages=50, stop=9, resume=5)).claims[:2]:
    ...     print(claim)
    both: At its deepest, orders had 45 messages (its limit is 1000).
    both: c1 accepted 50 messages.
    """
    pictures = dict(zip(names, (one, other), strict=True))
    said = [f"both: {claim}" for claim in one.claims if claim in other.claims]
    for name, picture, beside in ((names[0], one, other), (names[1], other, one)):
        said += [f"{name}: {claim}" for claim in picture.claims if claim not in beside.claims]
    return Comparison(pictures, tuple(said))
