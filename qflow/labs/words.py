"""The words of a picture: templates for captions, the claims about a complete run, and its story.

The browser fills the templates (``static/words.js``); a test fills them with the same numbers and compares
the results. *Claims* are sentences that state what a run shows; every number in them is read from the frames.

A *story* tells a run in seven beats, each of which is one idea in at most 25 words. Most people believe that
flow control ON stops the sender. The beats correct this step by step, in the order in which it happens in the
run: a message passes through; its completion returns; the queue fills; a completion is held; the window
fills, and only then the sender waits; the queue drains; below the resume threshold all held completions are
released. A beat plays fast enough that something happens at least every two seconds. The browser moves the
camera (``static/story.js``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Final

from qflow.broker.errors import AmqpException
from qflow.kit import RefusalError
from qflow.labs.frames import Frames, Span
from qflow.labs.topology import ProducerSpot, QueueSpot
from qflow.wording import format_count

# The sentences for the parts of a step, in the order of a caption. The channel ``parts`` of a step is a sum
# of their BITS.
STEP: dict[str, str] = {
    "subscribed": "{consumer} subscribes to {queue}.",
    "sent": "{producer} sends {message}.",
    "refused": "{queue} is full: the broker refuses the message, and {producer}'s session dies.",
    "died": "{producer}'s session dies.",
    "dropped": "{queue} drops {message}.",
    "evicted": "{lost} is thrown out of {queue} to make room.",
    "replaced": "{queue} keeps the newer value: {lost} is replaced.",
    "destroyed": "{queue} destroys itself, with everything on it.",
    "accepted": "{consumer} accepts {message}, which leaves {queue}.",
    "removed": "{message} leaves {queue}.",
    "given_back": "{message} returns to {queue}.",
    "turned_on": "{depth} on {queue}, more than {stop}: flow control turns ON.",
    "turned_on_bytes": "{bytes} bytes on {queue}, more than {stop_size}: flow control turns ON.",
    "turned_on_at": "{depth} on {queue}: flow control turns ON.",
    "held": "The completion is held.",
    "turned_off": "{depth} left on {queue}: flow control turns OFF.",
    "freed": "Completions released at once: {freed}.",
    "freed_own": "The message was held itself: its completion is released.",
    "delivered": "{consumer} receives {delivery}.",
    "delivered_many": "{consumer} receives {deliveries} messages.",
    "blocked": "{waiter}'s window is full: it must wait.",
    "unblocked": "{waiter} may send again.",
    "unblocked_many": "{waiters} producers may send again.",
    "rejected": "{consumer} rejects {message}, which leaves {queue}.",
    "channel_stopped": "The broker tells {waiter}'s session to stop sending.",
    "channel_resumed": "The broker tells {waiter}'s session to resume.",
    "released": "{queue} has no room: {message} is released, and {producer} continues.",
}
BITS: dict[str, int] = {name: 1 << index for index, name in enumerate(STEP)}

# The sentences about the state at an instant.
STATE: dict[str, str] = {
    "start": "Nothing has happened on the broker yet.",
    "queue": "{queue}: depth {depth}, flow control {flow}, {held} held.",
    "free_queue": "{queue}: depth {depth}, no flow control.",
    "producer": "{producer}: {outstanding} of {capacity} outstanding, {mood}.",
    "consumer": "{consumer}: {holds} of {prefetch} prefetched.",
    "absent": "{consumer}: not here.",
}
# The prospects of a producer while a queue is ON: how much it may still send, or the two ways to its next
# completion (FC-17). If its window is larger than the resume threshold, its own held messages reach the head
# of the queue first, and free its window one by one.
_OUTLOOK: dict[str, str] = {
    "may_send": "{producer} may send {room} more before its window is full.",
    "waits": "{producer} waits until {queue} turns OFF, or a held message of its own leaves {queue}.",
    "idle": "{producer} has nothing to send until {time}.",
    "done": "{producer} has sent everything.",
}
MOODS = (
    "free to send",
    "window full",
    "waiting with a full window",
    "its session is dead",
    "asked to stop sending",
)
_BRIEF_MOODS = ("free to send", "window full", "waits", "session dead", "asked to stop")
FREE: Final = 0
FULL: Final = 1
WAITING: Final = 2
DEAD: Final = 3
TOLD: Final = 4
FLOW = ("OFF", "ON")


def vocabulary() -> dict[str, object]:
    """Return all templates for the browser; those for steps are divided into keys and texts."""
    step = {"parts": list(STEP), "step": list(STEP.values()), "state": STATE}
    moods = {"moods": list(MOODS), "brief_moods": list(_BRIEF_MOODS)}
    return {**step, **moods, "flow": list(FLOW), "outlook": _OUTLOOK}


# Claims


def claims_of(
    frames: Frames, errors: Mapping[str, AmqpException] | None = None, time_base: int = 0
) -> tuple[str, ...]:
    """Return the claims about a run; `errors` maps each client to the error that ended its session."""
    # Shares of time refer to the run's time base, as in qflow run; with 0, to all the time that is drawn.
    topology = frames.topology
    time_base = time_base or topology.end
    last = frames.at(-1)
    accepted = {spot.name: last[f"consumer.{spot.name}.accepted"] for spot in topology.consumers}
    return (
        *(claim for queue in topology.queues for claim in _of_queue(frames, queue, time_base)),
        *(_of_producer(frames, producer, time_base) for producer in topology.producers),
        *(f"{name}'s session died of “{error}”" for name, error in (errors or {}).items()),
        *(f"{name} accepted {format_count(number, 'message')}." for name, number in accepted.items()),
    )


def seconds(time: int) -> str:
    """Return a time in microseconds as text in seconds, such as ``4.520 s``."""
    return f"{time / 1e6:.3f} s"


def share(spans: tuple[Span, ...], end: int) -> str:
    """Return the share of the time from 0 to `end` that spans cover, as text, never rounded to 0 or 100 %."""
    filled = sum(max(0, min(to, end) - start) for start, to in spans)
    if not filled or not end:
        return "0 %"
    percent = 100 * filled / end
    if percent < 1:
        return "less than 1 %"
    if percent > 99 and filled < end:
        return "more than 99 %"
    return f"{percent:.0f} %"


def times(number: int) -> str:
    """Return a frequency as text: ``never``, ``once``, ``twice``, ``3 times`` and so on."""
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")


def in_turn(names: Iterable[str]) -> list[str]:
    """Return names without consecutive repetitions, each with the number of its repetitions.

    >>> in_turn(["c1", "c1", "c2"])
    ['c1 (twice)', 'c2']
    """
    turns = [(name, len(list(same))) for name, same in groupby(names)]
    return [name if number == 1 else f"{name} ({times(number)})" for name, number in turns]


def _of_queue(frames: Frames, queue: QueueSpot, time_base: int) -> Iterator[str]:
    changes = [change for change in frames.transitions if change.queue == queue.name]
    depth = frames.column(f"queue.{queue.name}.depth")
    deepest = max(depth)
    on = [change for change in changes if change.is_on]
    if not (queue.stop_count or queue.stop_size):
        yield f"{queue.name} has no flow control."
    elif not on:
        reached = f"at most {format_count(deepest, 'message')} against a stop threshold of {_stop(queue)}"
        yield f"{queue.name} never turned ON: {reached}."
    else:
        now, spans = frames.at(on[0].frame), frames.spans(f"queue.{queue.name}.flow")
        level = f"{depth[on[0].frame]} messages deep"
        if now["step.parts"] & BITS["turned_on_bytes"]:
            level = f"{now[f'queue.{queue.name}.bytes']} bytes large"
        label = _message(frames, now["step.sender"], now["step.number"])
        yield (
            f"{queue.name} turned ON {times(len(on))}; first at {seconds(on[0].time)}, when {label} made it "
            f"{level}. It was ON for {share(spans, time_base)} of the time{_base_text(frames, time_base)}."
        )
        yield _releases(frames, queue)
    limit = f" (its limit is {queue.max_count})" if queue.max_count else ""
    yield f"At its deepest, {queue.name} had {format_count(deepest, 'message')}{limit}."


def _releases(frames: Frames, queue: QueueSpot) -> str:
    depth = frames.column(f"queue.{queue.name}.depth")
    freed = frames.column("step.freed")
    off = [change for change in frames.transitions if change.queue == queue.name and not change.is_on]
    if not off:
        return f"{queue.name} was still ON at the end."
    levels = sorted({depth[change.frame] for change in off})
    at_once = [freed[change.frame] for change in off]
    amount = str(at_once[0]) if len(set(at_once)) == 1 else f"{min(at_once)} to {max(at_once)}"
    noun = "completion" if amount == "1" else "completions"
    return (
        f"{queue.name} turned OFF {times(len(off))}, at {' or '.join(map(str, levels))} messages, "
        f"and released {amount} held {noun} at once."
    )


def _base_text(frames: Frames, time_base: int) -> str:
    """Return the time base as text if it is shorter than the drawn time, or else ""."""
    is_all = time_base >= frames.topology.end
    return "" if is_all else f" in which messages were due, {seconds(time_base)}"


def _of_producer(frames: Frames, producer: ProducerSpot, time_base: int) -> str:
    held = max(frames.column(f"producer.{producer.name}.held"))
    sent = frames.at(-1)[f"producer.{producer.name}.sent"]
    waits = frames.spans(f"producer.{producer.name}.blocked")
    fate, wait = "none of its transfers was ever held", "; it never had to wait"
    if held:
        fate = f"at most {held} of its {producer.capacity} transfers were held"
    if producer.is_measured:
        # A trace does not say when an AMQP 1.0 client waits.
        wait = ""
    elif waits:
        wait = f"; it had to wait {times(len(waits))}, {share(waits, time_base)} of the time"
    return f"{producer.name} sent {format_count(sent, 'message')}; {fate}{wait}."


def _stop(queue: QueueSpot) -> str:
    return f"{queue.stop_count} messages" if queue.stop_count else f"{queue.stop_size} bytes"


def _message(frames: Frames, sender: int, number: int) -> str:
    return f"{frames.topology.producers[sender - 1].name}-{number}" if sender else "a message"


# The story

MOST_WORDS = 25


@dataclass(frozen=True, slots=True)
class Beat:
    """One part of a story: a text, and the frames that play while it is shown."""

    text: str
    # The last frame of the beat, and the first of the next beat.
    to: int
    # The playing time, in seconds of real time.
    seconds: float
    # The part of the picture that is enlarged: "whole", "gate", "queue", "held" (completion) or "window".
    camera: str


def story_of(frames: Frames) -> list[Beat]:
    """Return the seven beats of a story; refuse a run of other clients or one in which a beat is missing."""
    topology = frames.topology
    if [len(topology.producers), len(topology.queues), len(topology.consumers)] != [1, 1, 1]:
        raise RefusalError("a story has one producer, one queue and one consumer; this run has others")
    (producer,), (queue,), (consumer,) = topology.producers, topology.queues, topology.consumers
    p, q, c = producer.name, queue.name, consumer.name
    sent, accepted = frames.column(f"producer.{p}.sent"), frames.column(f"consumer.{c}.accepted")
    flow, blocked = frames.column(f"queue.{q}.flow"), frames.column(f"producer.{p}.blocked")

    def first(what: str, holds: Callable[[int], bool]) -> int:
        found = next(filter(holds, range(frames.count)), None)
        if found is None:
            raise RefusalError(f"this run has no story to tell: nobody in it {what}")
        return found

    through = first("takes and accepts a message", lambda frame: accepted[frame] > 0)
    answered = first("sends on", lambda frame: frame > through and sent[frame] >= sent[through] + 3)
    on = first("turns ON", lambda frame: flow[frame] == 1)
    full = first("fills a window while ON", lambda frame: frame > on and blocked[frame] == 1)
    off = first("turns OFF", lambda frame: frame > full and flow[frame] == 0)
    again = first("sends again", lambda frame: frame > off and sent[frame] >= sent[off] + 3)
    held, stop = frames.at(off - 1)[f"queue.{q}.held"], queue.stop_count
    rests = [
        *((through, 7, "whole"), (answered, 6, "gate"), (on - 1, 7, "queue"), (on, 1, "held")),
        *((full, 7, "window"), (off - 1, 6, "whole"), (again, 2, "whole")),
    ]
    texts = [
        f"{p} sends messages to the queue {q}. Each waits there until {c} takes it, and accepts it when it "
        "is done.",
        f"A message is outstanding, and fills a cell of {p}'s window, until its completion comes back. Then "
        "the cell is free again.",
        f"Now messages come faster than {c} works. The queue gets deeper. {stop} is its stop threshold.",
        f"One more than {stop}: flow control turns ON. The message is on the queue as ever; its completion "
        "is held at the gate.",
        f"ON does not stop {p}. It sends on, unanswered, until its window of {producer.capacity} is full. "
        "Only now it waits.",
        f"{c} works on, and the queue gets shorter. Below {stop} nothing changes: the gate stays shut until "
        f"fewer than {queue.resume_count} are left.",
        f"Fewer than {queue.resume_count} are left: OFF. All {held} completions go home, one after the "
        f"other, and {p} sends again.",
    ]
    times = frames.column("time")
    beats, begun = [], 0
    for text, (to, seconds, camera) in zip(texts, rests, strict=True):
        beats.append(Beat(text, to, _lively(times[begun : to + 1], seconds), camera))
        begun = to
    return beats


_STILL = 2.0
"""The most seconds of real time in which nothing happens."""


def _lively(times: Sequence[int], seconds: float) -> float:
    """Return a playing time, at most `seconds`, with no pause longer than `_STILL` in the beat."""
    longest = max((later - time for time, later in pairwise(times)), default=0)
    return round(min(seconds, _STILL * (times[-1] - times[0]) / longest), 2) if longest else seconds
