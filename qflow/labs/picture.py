"""Picture: everything that a lab shows of a run, as numbers to draw and as sentences to read.

A picture contains the frames of a run, the *claims* (sentences that state what the frames show), and further
data to draw beside the depth of a queue. A comparison contains several pictures that share one clock. The
browser draws the :func:`payload_of` a picture or comparison; where nothing is drawn, the claims are shown.
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
    """A bar below the depth plot of a queue, filled during the spans in which a condition is true."""

    queue: int
    label: str
    kind: str
    spans: tuple[Span, ...]


class Samples(NamedTuple):
    """Depths of a queue from another source, such as a real broker: pairs of time in µs and depth."""

    queue: int
    label: str
    points: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Picture:
    """The picture of one run: the data to draw and the sentences to read.

    Parameters:
        run: The run itself.
        frames: The frames of the run.
        claims: The sentences that state the content of the picture.
        lanes, samples: Further data to draw beside the depths of queues.
        room: The end of the time axis in microseconds, if the run is still growing; 0 for a complete run.
        messages: The number of messages that a simulated run was to send; 0 for a run that was recorded or
            made by hand.
        drawing: The values for another form of drawing than tanks and gates, with its name as ``form``; empty
            for tanks and gates.

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
        """Return the measures of each queue; an empty dict if the run was not simulated."""
        # The log of a real run does not contain everything that the measures count.
        if not self.messages:
            return {}
        return queue_measures(self.run.events, self.run.workload, self.run.time_base)

    def payload(self) -> dict[str, Any]:
        """Return the data that the browser draws: values for JSON except ``numbers``, which are bytes."""
        frames, topology = self.frames, self.frames.topology
        return {
            "topology": asdict(topology),
            "layout": layout_of(topology),
            # The first column of the producers, queues and consumers in a frame, and the channels of each.
            "columns": {"step": STEP_CHANNELS, **places_of(topology)},
            "width": len(frames.channels),
            "count": frames.count,
            "lasting": [[name, table.columns, len(table)] for name, table in frames.lasting.items()],
            "numbers": frames.pack(),
            "groups": frames.groups,
            "reasons": REASONS,
            "words": vocabulary(),
            # The frame that is shown before the run is played, and on paper.
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
    """Several pictures to show side by side, such as of runs that differ in one setting.

    Parameters:
        pictures: The pictures in the order in which to draw them, keyed by a short name of the difference.
        claims: The sentences that state the content of the comparison.
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
    """Return the picture of a run; the picture of an incomplete run, with a `room`, has no claims.

    Parameters:
        run: The result of a simulation or a replay.
        more_lanes: Lanes in addition to those for flow control and for waiting producers.
        samples, room: As in :class:`Picture`.
        topology: The clients and queues to show; None for all those of the run's workload.
        frames: The frames of the run, if they are known already.

    >>> from qflow.labs import flow_workload
    >>> from qflow.workload import simulate
    >>> print(picture_of(simulate(flow_workload(stop=20, resume=10), message_limit=60)).claims[0])
    orders turned ON ...
    """
    frames = frames or fold(run, topology)
    lanes = (*_flow_lanes(frames), *more_lanes, *_window_lanes(frames))
    # A claim that is true of an incomplete run may be false of the complete one.
    claims = () if room else claims_of(frames, run.errors, run.time_base)
    return Picture(run, frames, claims, lanes, tuple(samples), room)


def compare(one: Picture, other: Picture, names: tuple[str, str] = ("before", "after")) -> Comparison:
    """Return two pictures side by side, with the claims that are true of both, then the others by name.

    Parameters:
        one, other: The pictures.
        names: The names of the two pictures in the comparison.

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
    """Return the pictures that are shown, keyed by name; the name of a single picture is ""."""
    return shown.pictures if isinstance(shown, Comparison) else {"": shown}


def payload_of(shown: Picture | Comparison) -> list[dict[str, Any]]:
    """Return the data that the browser draws for each picture; see :meth:`Picture.payload`."""
    return [{**picture.payload(), "name": name} for name, picture in pictures_of(shown).items()]


def _flow_lanes(frames: Frames) -> list[Lane]:
    """Return a lane for each queue, filled while its flow control is ON."""
    return [
        Lane(index, f"{spot.name} ON", "on", frames.spans(f"queue.{spot.name}.flow"))
        for index, spot in enumerate(frames.topology.queues)
    ]


def _window_lanes(frames: Frames) -> list[Lane]:
    """Return a lane for each producer, filled while it waits, under the queue of its that was ON longest."""
    topology = frames.topology
    spans = [frames.spans(f"queue.{spot.name}.flow") for spot in topology.queues]
    on = [sum(end - start for start, end in times) for times in spans]
    lanes = []
    for index, spot in enumerate(topology.producers):
        # The trace of an AMQP 1.0 client does not record when the client waits.
        if not spot.is_measured:
            fed = [queue for producer, queue in topology.routes if producer == index]
            # A producer that sends to several queues waits for all of them, but is drawn only once.
            under = max(fed, key=lambda queue: on[queue], default=0)
            lanes.append(
                Lane(under, f"{spot.name} waits", "wait", frames.spans(f"producer.{spot.name}.blocked"))
            )
    return lanes


def _turns(frames: Frames) -> list[int]:
    """Return the frames to jump to: ON or OFF, a queue's first discard, the end of a queue or session."""
    turns = {change.frame for change in frames.transitions}
    for queue in frames.topology.queues:
        for channel in ("discards", "gone"):
            turns.update(frames.switches(f"queue.{queue.name}.{channel}")[:1])
    # Only the first death of each producer, which may reconnect and die again.
    turns.update({death.producer: death.frame for death in reversed(frames.deaths)}.values())
    return sorted(turns)


class Narration:
    """The base of classes that derive a caption for each frame of a run from the run's events."""

    def __init__(self, frames: Frames) -> None:
        self.frames, self.frame = frames, 0
        self._said: dict[int, list[str]] = defaultdict(list)
        self._turns: set[int] = set()

    def follow(self, events: Iterable[Event]) -> None:
        """Call :meth:`receive` for each event, with `frame` set to the frame that shows the event."""
        for place, event in enumerate(events):
            self.frame = self.frames.frame_of(place, event.time)
            self.receive(event)

    def receive(self, event: Event) -> None:
        """Record the visible effect of one event; subclasses implement this."""
        raise NotImplementedError

    def note(self, sentence: str, *, is_turn: bool = False) -> None:
        """Add a sentence to the caption of the current frame; `is_turn` makes it a frame to jump to."""
        self._said[self.frame].append(sentence)
        if is_turn:
            self._turns.add(self.frame)

    def drawing(self, form: str) -> dict[str, object]:
        """Return the captions and turns as a part of a picture's `drawing`, for a form of drawing."""
        captions = [[frame, " ".join(said)] for frame, said in sorted(self._said.items())]
        return {"form": form, "captions": captions, "turns": sorted(self._turns)}
