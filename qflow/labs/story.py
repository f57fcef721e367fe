"""Story: a run told in six beats, each one idea in at most 25 words.

What most people believe of flow control is that ON stops the sender. The beats take that apart in the order
in which the engine's run shows it: a message goes through; its completion comes back; the queue fills; one
completion is held; the window fills, and only now the sender waits; below the resume threshold all go home.

The words and the frames from which to which a beat plays are found here; how near the camera goes, and how
fast a beat plays, is the browser's (``static/story.js``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from qflow.kit import RefusalError
from qflow.labs.frames import Frames
from qflow.labs.picture import Picture

MOST_WORDS = 25


@dataclass(frozen=True, slots=True)
class Beat:
    """One idea of a story."""

    text: str
    to: int
    """The frame at which it rests; the next beat begins there."""
    seconds: float
    """How long it plays, in seconds of the reader."""
    camera: str
    """What it looks at: the whole, the gate, the queue, the held completion, the window."""


def story_of(picture: Picture) -> list[Beat]:
    """Return the six beats of a run of one producer, one queue and one consumer."""
    frames, topology = picture.frames, picture.frames.topology
    if [len(topology.producers), len(topology.queues), len(topology.consumers)] != [1, 1, 1]:
        raise RefusalError("a story is told of one producer, one queue and one consumer; this run has others")
    (producer,), (queue,), (consumer,) = topology.producers, topology.queues, topology.consumers
    p, q, c = producer.name, queue.name, consumer.name
    sent, accepted = frames.column(f"producer.{p}.sent"), frames.column(f"consumer.{c}.accepted")
    flow, blocked = frames.column(f"queue.{q}.flow"), frames.column(f"producer.{p}.blocked")
    through = _first(frames, "takes and accepts a message", lambda frame: accepted[frame] > 0)
    answered = _first(frames, "sends on", lambda frame: frame > through and sent[frame] >= sent[through] + 3)
    on = _first(frames, "turns ON", lambda frame: flow[frame] == 1)
    full = _first(frames, "fills a window while ON", lambda frame: frame > on and blocked[frame] == 1)
    off = _first(frames, "turns OFF", lambda frame: frame > full and flow[frame] == 0)
    home = _first(frames, "sends again", lambda frame: frame > off and not blocked[frame])
    held = frames.at(off - 1)[f"queue.{q}.held"]
    return [
        Beat(
            f"{p} sends messages to the queue {q}. Each waits there until {c} takes it, and accepts it when "
            "it is done.",
            *(through, 7, "whole"),
        ),
        Beat(
            "For each message an answer comes back: its completion. Until then it is outstanding, and fills "
            f"a cell of {p}'s window.",
            *(answered, 6, "gate"),
        ),
        Beat(
            f"Now messages come faster than {c} works. The queue gets deeper. {queue.stop_count} is its stop "
            "threshold.",
            *(on - 1, 8, "queue"),
        ),
        Beat(
            f"One more than {queue.stop_count}: flow control turns ON. The message is on the queue as ever; "
            "its completion is held at the gate.",
            *(on, 5, "held"),
        ),
        Beat(
            f"ON does not stop {p}. It sends on, unanswered, until its window of {producer.capacity} is "
            "full. Only now it waits.",
            *(full, 8, "window"),
        ),
        Beat(
            f"Fewer than {queue.resume_count} are left: OFF. All {held} completions go home at once, and {p} "
            "sends again.",
            *(home, 8, "whole"),
        ),
    ]


def _first(frames: Frames, what: str, holds: Callable[[int], bool]) -> int:
    found = next((frame for frame in range(frames.count) if holds(frame)), None)
    if found is None:
        raise RefusalError(f"this run has no story to tell: nobody in it {what}")
    return found
