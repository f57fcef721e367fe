"""The browser's sentences on a step and an instant, made here from qflow.labs.words, and its messages."""

from __future__ import annotations

from typing import Any

from qflow.labs.frames import Frames
from qflow.labs.words import FLOW, MOODS, STATE, STEP, _message


def ask(lab: Any, **content: object) -> None:
    """Send a lab a message as the browser would."""
    lab.scene._handle_custom_msg(content, [])


def step_sentence(frames: Frames, index: int) -> str:
    """Return the sentence about the step that led to a frame."""
    frame = frames.at(index)
    parts = frame["step.parts"]
    if not parts:
        return STATE["start"] if index == 0 else ""
    values = _step_values(frames, frame)
    seen = [template for bit, template in enumerate(STEP.values()) if parts >> bit & 1]
    return " ".join(template.format_map(values) for template in seen)


def state_sentence(frames: Frames, index: int) -> str:
    """Return the sentences about each queue, producer and consumer in a frame."""
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
