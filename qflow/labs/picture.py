"""Picture: one run made visible, as numbers to draw and as sentences to read.

A picture holds all that is shown of a run: its frames, the claims that say in words what they show, and what
lies beside the depth of a queue. A comparison holds several pictures under one clock. The browser draws the
:func:`payload_of` either of them; a reader of text gets the claims.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from qflow.broker.events import Event
from qflow.labs.fold import REASONS, STEP_CHANNELS, fold, places_of
from qflow.labs.frames import Frames, Span
from qflow.labs.topology import Topology, layout_of
from qflow.labs.words import claims_of, vocabulary
from qflow.workload import Run
from qflow.workload.measures import Measures, queue_measures


class Lane(NamedTuple):
    """A bar below a queue's depth plot, filled while a condition holds."""

    queue: int
    label: str
    kind: str
    spans: tuple[Span, ...]


class Samples(NamedTuple):
    """Depths of a queue from another measurement: (time in microseconds, depth), in order of time."""

    queue: int
    label: str
    points: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Picture:
    """One run made visible.

    Parameters:
        run: The run itself.
        frames: The frame of each step.
        claims: The picture's content, in sentences.
        lanes, samples: The data drawn beside the depth.
        room: How far the time axis of a growing run reaches, in microseconds; 0 of a whole run.
        messages: The most that a simulated run sent; 0 of one that was recorded or done by hand.
        drawing: Further values of another form of drawing, its ``form`` first; empty for tanks and gates.

    >>> from qflow.labs import flow_run
    >>> picture = flow_run(messages=200, stop=20, resume=10)
    >>> picture.frames.transitions[0].is_on
    True
    """

    run: Run
    frames: Frames
    claims: tuple[str, ...]
    lanes: tuple[Lane, ...] = ()
    samples: tuple[Samples, ...] = ()
    room: int = 0
    messages: int = 0
    drawing: Mapping[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        return "\n".join(self.claims)

    def measures(self) -> dict[str, Measures]:
        """Return each queue's measures over the run's time base; none for a run that is not simulated."""
        # The log of a real run does not hold all that they count.
        if not self.messages:
            return {}
        return queue_measures(self.run.events, self.run.workload, self.run.time_base)

    def payload(self) -> dict[str, Any]:
        """Return the browser's data: JSON except for ``numbers``, which are bytes."""
        frames, topology = self.frames, self.frames.topology
        return {
            "topology": asdict(topology),
            "layout": layout_of(topology),
            # The first column of each kind in a frame, and the order of its channels.
            "columns": {"step": STEP_CHANNELS, **places_of(topology)},
            "width": len(frames.channels),
            "count": frames.count,
            "lasting": [[name, table.columns, len(table)] for name, table in frames.lasting.items()],
            "numbers": frames.pack(),
            "groups": frames.groups,
            "reasons": REASONS,
            "words": vocabulary(),
            # A page that does not play, such as one that is printed, shows this frame.
            "start": frames.most_telling(),
            "turns": _turns(frames),
            "deaths": frames.deaths,
            "lanes": self.lanes,
            "samples": self.samples,
            **({"room": self.room} if self.room else {}),
            **self.drawing,
        }


@dataclass(frozen=True)
class Comparison:
    """Pictures that differ in one setting.

    Parameters:
        pictures: By a short name of the difference: the picture; in drawing order.
        claims: The content of the pictures together, in sentences.
    """

    pictures: Mapping[str, Picture]
    claims: tuple[str, ...]

    def __getitem__(self, name: str) -> Picture:
        return self.pictures[name]

    def __repr__(self) -> str:
        return "\n".join(self.claims)


def picture_of(
    run: Run,
    *,
    more_lanes: Sequence[Lane] = (),
    samples: Sequence[Samples] = (),
    topology: Topology | None = None,
    frames: Frames | None = None,
    room: int = 0,
) -> Picture:
    """Return the picture of a run; a run in progress has no claims yet.

    Parameters:
        run: The result of a simulation or a replay.
        more_lanes, samples, room: As in :class:`Picture`.
        topology: The clients and queues to show; None for all of the run's workload.
        frames: The run's frames, if the caller has them.

    >>> from qflow.labs import flow_workload
    >>> from qflow.workload import simulate
    >>> print(picture_of(simulate(flow_workload(stop=20, resume=10), message_limit=60)).claims[0])
    orders turned ON ...
    """
    frames = frames or fold(run, topology)
    lanes = (*_flow_lanes(frames), *more_lanes, *_window_lanes(frames))
    # A claim about a beginning could be false of the whole.
    claims = () if room else claims_of(frames, run.errors, run.time_base)
    return Picture(run, frames, claims, lanes, tuple(samples), room)


def compare(one: Picture, other: Picture, names: tuple[str, str] = ("before", "after")) -> Comparison:
    """Return two runs side by side, with the claims about both and then of each by name.

    >>> from qflow.labs import flow_run
    >>> print(compare(flow_run(messages=50), flow_run(messages=50, stop=9, resume=5)).claims[1])
    both: c1 accepted 50 messages.
    """
    pictures = dict(zip(names, (one, other), strict=True))
    said = [f"both: {claim}" for claim in one.claims if claim in other.claims]
    for name, picture, beside in ((names[0], one, other), (names[1], other, one)):
        said += [f"{name}: {claim}" for claim in picture.claims if claim not in beside.claims]
    return Comparison(pictures, tuple(said))


def pictures_of(shown: Picture | Comparison) -> Mapping[str, Picture]:
    """Return the shown pictures by name; a single one has no name."""
    return shown.pictures if isinstance(shown, Comparison) else {"": shown}


def payload_of(shown: Picture | Comparison) -> list[dict[str, Any]]:
    """Return the browser's data for one picture or several: JSON except for the ``numbers``."""
    return [{**picture.payload(), "name": name} for name, picture in pictures_of(shown).items()]


def _flow_lanes(frames: Frames) -> list[Lane]:
    """Return a lane for each queue's flow control."""
    return [
        Lane(index, f"{spot.name} ON", "on", frames.spans(f"queue.{spot.name}.flow"))
        for index, spot in enumerate(frames.topology.queues)
    ]


def _window_lanes(frames: Frames) -> list[Lane]:
    """Return a lane for each producer that waits, under the queue it feeds that was ON for longest."""
    topology = frames.topology
    spans = [frames.spans(f"queue.{spot.name}.flow") for spot in topology.queues]
    on = [sum(end - start for start, end in times) for times in spans]
    lanes = []
    for index, spot in enumerate(topology.producers):
        # The trace of a client of AMQP 1.0 does not hold its waits.
        if not spot.is_measured:
            fed = [queue for producer, queue in topology.routes if producer == index]
            # A producer that feeds several queues waits for all of them, and is drawn once.
            under = max(fed, key=lambda queue: on[queue], default=0)
            lanes.append(
                Lane(under, f"{spot.name} waits", "wait", frames.spans(f"producer.{spot.name}.blocked"))
            )
    return lanes


def _turns(frames: Frames) -> list[int]:
    """Return the frames worth jumping to: ON or OFF, a first discard, the end of a queue or session."""
    turns = {change.frame for change in frames.transitions}
    for queue in frames.topology.queues:
        for channel in ("discards", "gone"):
            turns.update(frames.switches(f"queue.{queue.name}.{channel}")[:1])
    # A producer may come back, and die again.
    turns.update({death.producer: death.frame for death in reversed(frames.deaths)}.values())
    return sorted(turns)


class Narration:
    """A run's own sentences, frame by frame, made from its events."""

    def __init__(self, frames: Frames) -> None:
        self.frames, self.frame = frames, 0
        self._said: dict[int, list[str]] = defaultdict(list)
        self._turns: set[int] = set()

    def follow(self, events: Iterable[Event]) -> None:
        """Receive all events, each with the frame that shows it."""
        for place, event in enumerate(events):
            self.frame = self.frames.frame_of(place, event.time)
            self.receive(event)

    def receive(self, event: Event) -> None:
        """Record the visible effect of one event."""
        raise NotImplementedError

    def note(self, sentence: str, *, is_turn: bool = False) -> None:
        """Add a sentence about the frame; a turn is a frame worth jumping to."""
        self._said[self.frame].append(sentence)
        if is_turn:
            self._turns.add(self.frame)

    def drawing(self, form: str) -> dict[str, object]:
        """Return the sentences and turns as a part of a picture's `drawing`."""
        captions = [[frame, " ".join(said)] for frame, said in sorted(self._said.items())]
        return {"form": form, "captions": captions, "turns": sorted(self._turns)}
