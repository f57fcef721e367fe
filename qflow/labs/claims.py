"""Claims: what a run, a step and an instant show, in sentences; every number is read from the frames.

The sentences about a frame fill the templates of :mod:`qflow.labs.words`. The browser fills the same with the
same numbers (``static/words.js``); a browser test keeps the two equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from qflow.broker.errors import AmqpException
from qflow.labs.frames import Frames, Span
from qflow.labs.topology import ConsumerSpot, ProducerSpot, QueueSpot
from qflow.labs.words import BITS, FLOW, MOODS, STATE, STEP


def claims_of(frames: Frames, errors: Mapping[str, AmqpException] | None = None) -> tuple[str, ...]:
    """Return what a run shows: each queue's flow control, each producer's window, each consumer's work.

    Parameters:
        frames: Of the run.
        errors: Client name to what its session died of.

    >>> from qflow.labs import flow_run
    >>> for claim in flow_run(messages=300, stop=20, resume=10, capacity=5).claims[:2]:
    ...     print(claim)
    orders turned ON 18 times; first at 0.015 s, when p1-23 made it 21 messages deep. ...
    orders turned OFF 18 times, at 9 messages, and released 5 held completions at once.
    """
    topology = frames.topology
    said: list[str] = []
    for queue in topology.queues:
        said += _of_queue(frames, queue)
    for producer in topology.producers:
        said += _of_producer(frames, producer)
    for name, error in (errors or {}).items():
        said.append(f"{name}'s session died of “{error}”")
    for consumer in topology.consumers:
        said += _of_consumer(frames, consumer)
    return tuple(said)


def seconds(time: int) -> str:
    """Return microseconds as the picture writes them: ``4.520 s``."""
    return f"{time / 1e6:.3f} s"


def share(spans: tuple[Span, ...], end: int) -> str:
    """Return which part of a run some spans of time fill, as a percentage that is never rounded to 0 or 100.

    >>> share(((0, 10), (50, 60)), 80), share(((0, 1),), 1000), share((), 80)
    ('25 %', 'less than 1 %', '0 %')
    """
    filled = sum(to - start for start, to in spans)
    if not filled or not end:
        return "0 %"
    percent = 100 * filled / end
    if percent < 1:
        return "less than 1 %"
    if percent > 99 and filled < end:
        return "more than 99 %"
    return f"{percent:.0f} %"


def times(number: int) -> str:
    """Return a number of times in words: ``never``, ``once``, ``twice``, ``3 times``."""
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")


def _of_queue(frames: Frames, queue: QueueSpot) -> Iterator[str]:
    changes = [change for change in frames.transitions if change.queue == queue.name]
    depth = frames.column(f"queue.{queue.name}.depth")
    deepest = max(depth)
    on = [change for change in changes if change.is_on]
    if not (queue.stop_count or queue.stop_size):
        yield f"{queue.name} has no flow control."
    elif not on:
        reached = f"at most {_messages(deepest)} against a stop threshold of {_stop(queue)}"
        yield f"{queue.name} never turned ON: {reached}."
    else:
        first = on[0]
        now = frames.at(first.frame)
        spans = frames.spans(f"queue.{queue.name}.flow")
        by_bytes = now["step.parts"] & BITS["turned_on_bytes"]
        level = (
            f"{now[f'queue.{queue.name}.bytes']} bytes large"
            if by_bytes
            else f"{depth[first.frame]} messages deep"
        )
        label = _message(frames, now["step.sender"], now["step.number"])
        cause = f"{label} made it {level}"
        yield (
            f"{queue.name} turned ON {times(len(on))}; first at {seconds(first.time)}, when {cause}. "
            f"It was ON for {share(spans, frames.topology.end)} of the time."
        )
        yield from _releases(frames, queue)
    limit = f" (its limit is {queue.max_count})" if queue.max_count else ""
    yield f"At its deepest, {queue.name} had {_messages(deepest)}{limit}."


def _releases(frames: Frames, queue: QueueSpot) -> Iterator[str]:
    depth = frames.column(f"queue.{queue.name}.depth")
    freed = frames.column("step.freed")
    off = [change for change in frames.transitions if change.queue == queue.name and not change.is_on]
    if not off:
        yield f"{queue.name} was still ON at the end."
        return
    levels = sorted({depth[change.frame] for change in off})
    at_once = [freed[change.frame] for change in off]
    amount = str(at_once[0]) if len(set(at_once)) == 1 else f"{min(at_once)} to {max(at_once)}"
    noun = "completion" if amount == "1" else "completions"
    yield (
        f"{queue.name} turned OFF {times(len(off))}, at {' or '.join(map(str, levels))} messages, "
        f"and released {amount} held {noun} at once."
    )


def _of_producer(frames: Frames, producer: ProducerSpot) -> Iterator[str]:
    held = max(frames.column(f"producer.{producer.name}.held"))
    sent = frames.at(-1)[f"producer.{producer.name}.sent"]
    waits = frames.spans(f"producer.{producer.name}.blocked")
    if held:
        fate = f"at most {held} of its {producer.capacity} transfers were held"
    else:
        fate = "none of its transfers was ever held"
    if producer.is_measured:
        # When a client of AMQP 1.0 waits, only that client knows.
        yield f"{producer.name} sent {_messages(sent)}; {fate}."
        return
    if waits:
        wait = f"it had to wait {times(len(waits))}, {share(waits, frames.topology.end)} of the time"
    else:
        wait = "it never had to wait"
    yield f"{producer.name} sent {_messages(sent)}; {fate}; {wait}."


def _of_consumer(frames: Frames, consumer: ConsumerSpot) -> Iterator[str]:
    accepted = frames.at(-1)[f"consumer.{consumer.name}.accepted"]
    yield f"{consumer.name} accepted {_messages(accepted)}."


def _stop(queue: QueueSpot) -> str:
    return f"{queue.stop_count} messages" if queue.stop_count else f"{queue.stop_size} bytes"


def _messages(number: int) -> str:
    return "1 message" if number == 1 else f"{number} messages"


def step_sentence(frames: Frames, index: int) -> str:
    """Return what happened in the step that led to a frame.

    >>> from qflow.labs import flow_run
    >>> frames = flow_run(messages=20, stop=3, resume=2, prefetch=1, service=1.0).frames
    >>> step_sentence(frames, frames.transitions[0].frame)
    'p1 sends p1-4. 4 on orders, more than 3: flow control turns ON. The completion is held.'
    """
    frame = frames.at(index)
    parts = frame["step.parts"]
    if not parts:
        return STATE["start"] if index == 0 else ""
    values = _step_values(frames, frame)
    seen = [template for bit, template in enumerate(STEP.values()) if parts >> bit & 1]
    return " ".join(template.format_map(values) for template in seen)


def state_sentence(frames: Frames, index: int) -> str:
    """Return what a frame shows of each queue, producer and consumer."""
    frame = frames.at(index)
    topology = frames.topology
    said = []
    for queue in topology.queues:
        seen = _seen(frame, f"queue.{queue.name}.")
        template = STATE["queue" if queue.stop_count or queue.stop_size else "free_queue"]
        said.append(template.format_map({**seen, "queue": queue.name, "flow": FLOW[seen["flow"]]}))
    for producer in topology.producers:
        seen = _seen(frame, f"producer.{producer.name}.")
        mood = MOODS[seen["mood"]]
        # Where its window has just been emptied, a producer that has not gone on yet still waits.
        if seen["outstanding"] < producer.capacity:
            mood = mood.removesuffix(" with a full window")
        values = {**seen, "producer": producer.name, "capacity": producer.capacity, "mood": mood}
        said.append(STATE["producer"].format_map(values))
    for consumer in topology.consumers:
        seen = _seen(frame, f"consumer.{consumer.name}.")
        template = STATE["consumer" if seen["present"] else "absent"]
        said.append(template.format_map({**seen, "consumer": consumer.name, "prefetch": consumer.prefetch}))
    return " ".join(said)


def _seen(frame: dict[str, int], prefix: str) -> dict[str, int]:
    return {name.removeprefix(prefix): value for name, value in frame.items() if name.startswith(prefix)}


def _step_values(frames: Frames, frame: dict[str, int]) -> dict[str, object]:
    topology = frames.topology
    values: dict[str, object] = {
        "freed": frame["step.freed"],
        "deliveries": frame["step.deliveries"],
        "waiters": frame["step.waiters"],
        "message": _message(frames, frame["step.sender"], frame["step.number"]),
        "lost": _message(frames, frame["step.lost_sender"], frame["step.lost_number"]),
        "delivery": _message(frames, frame["step.delivery_sender"], frame["step.delivery_number"]),
    }
    if topology.producers:
        values["producer"] = topology.producers[frame["step.producer"]].name
        values["waiter"] = topology.producers[frame["step.waiter"]].name
    if topology.consumers:
        values["consumer"] = topology.consumers[frame["step.consumer"]].name
    if topology.queues:
        queue = topology.queues[frame["step.queue"]]
        values |= {"queue": queue.name, "stop": queue.stop_count, "stop_size": queue.stop_size}
        values |= {"depth": frame[f"queue.{queue.name}.depth"], "bytes": frame[f"queue.{queue.name}.bytes"]}
    return values


def _message(frames: Frames, sender: int, number: int) -> str:
    return f"{frames.topology.producers[sender - 1].name}-{number}" if sender else "a message"
