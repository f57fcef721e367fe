"""Exercises on capacity: how far above the stop threshold a queue can get."""

from __future__ import annotations

from collections.abc import Sequence

from qflow.teaching.exercise import add_exercise
from qflow.teaching.trial import Trial, simulate_case
from qflow.workload import Producer, Workload


def burst(trial: Trial, stop: int, capacities: Sequence[int]) -> None:
    """Fill the queue q to its stop; then let every producer send, in turn, until its window is full."""
    trial.send("q", stop)
    sessions = [trial.broker.session(f"p{n}") for n in range(len(capacities))]
    # The message that turns it ON is one of theirs, and already fills a place in a window.
    trial.send("q", by=sessions[0])
    ready = True
    while ready:
        ready = False
        for session, capacity in zip(sessions, capacities, strict=True):
            if session.is_attached and len(session.held) < capacity and trial.is_on("q"):
                trial.send("q", by=session)
                ready = True


def _worst_depth(stop: int, capacities: list[int]) -> int:
    trial = Trial().declare_stop("q", stop)
    burst(trial, stop, capacities)
    return trial.depth("q")


add_exercise(
    "worst_depth",
    _worst_depth,
    misconceptions={
        "the 101st comes on top": lambda stop, capacities: stop + 1 + sum(capacities),
        "producers stop at once": lambda stop, capacities: stop + 1,
        "only the largest window counts": lambda stop, capacities: stop + max(capacities),
        "one message for each producer": lambda stop, capacities: stop + len(capacities),
    },
)


def _story(stop: int, capacities: list[int]) -> tuple[int, int, int, int]:
    trial = Trial().declare_stop("q", stop, stop)
    burst(trial, stop, capacities)
    full = trial.depth("q")
    reader, taken = trial.reader("q"), 0
    while trial.is_on("q"):
        reader.take(1)
        taken += 1
    for number, capacity in enumerate(capacities):
        # A window's worth goes out before the client hears of any completion.
        trial.send("q", capacity, by=trial.broker.sessions[f"p{number}"])
    return full, taken, trial.depth("q"), trial.statistics("q").flowStoppedCount


def _believed_story(
    stop: int, capacities: list[int], taken: int = 1, again: int = -1, stops: int = 2
) -> tuple[int, int, int, int]:
    """Return a story: how much more than the windows is taken, how near to full it gets again, its stops."""
    full = stop + sum(capacities)
    return full, sum(capacities) + taken, full + again, stops


add_exercise(
    "after_the_stall",
    _story,
    misconceptions={
        "the 101st comes on top": lambda stop, caps: _believed_story(stop + 1, caps, taken=2, again=-2),
        "producers stop at once": lambda stop, caps: (stop + 1, 2, stop + 1, 2),
        "back at the threshold is enough": lambda stop, caps: _believed_story(stop, caps, taken=0, again=0),
        "the producers stay quiet": lambda stop, caps: (stop + sum(caps), sum(caps) + 1, stop - 1, 1),
        "the same peak again": lambda stop, caps: _believed_story(stop, caps, again=0),
        "it is still the same stop": lambda stop, caps: _believed_story(stop, caps, stops=1),
    },
)


def _cpp_depth(stop: int, capacity: int) -> int:
    workload = Workload(
        "fresh",
        duration=1,
        queues={"q": {"qpid.flow_stop_count": stop, "qpid.flow_stop_size": 0, "qpid.flow_resume_count": 1}},
        producers=(
            Producer(
                "p", ("", "q"), rate=100_000, capacity=capacity, size=10, arrival="const", window="qpid-cpp"
            ),
        ),
    )
    run = simulate_case(workload, message_limit=stop + 3 * capacity + 10)
    return sum(event.kind == "enqueued" for event in run.events)


add_exercise(
    "cpp_depth",
    _cpp_depth,
    misconceptions={
        "the ideal window": lambda stop, capacity: stop + capacity,
        "the broker stops the client": lambda stop, capacity: stop + 1,
        "a sync at stop waits already": lambda stop, capacity: -(-stop // capacity) * capacity,
    },
)


def _overflow(limit: int, stop: int, sends: int) -> tuple[int, str, int, bool]:
    trial = Trial().declare_stop("q", stop, 1, max_count=limit)
    code = trial.code_of(lambda: trial.send("q", sends))
    return trial.depth("q"), trial.state("q"), code, trial.producer.is_attached


def _fill(
    limit: int, stop: int, sends: int, code: int = 0, is_attached: bool = True
) -> tuple[int, str, int, bool]:
    depth = min(sends, limit)
    return depth, "ON" if depth > stop else "OFF", code, is_attached


add_exercise(
    "overflow",
    _overflow,
    misconceptions={
        "flow control prevents it": _fill,
        "only that message is refused": lambda limit, stop, sends: _fill(
            limit, stop, sends, 506 if sends > limit else 0
        ),
        "the session takes its messages with it": lambda limit, stop, sends: (
            (0, "OFF", 506, False) if sends > limit else _fill(limit, stop, sends)
        ),
        "a full queue is ON": lambda limit, stop, sends: _fill(
            limit, min(stop, limit - 1), sends, 506 if sends > limit else 0, sends <= limit
        ),
        "the limit is refused already": lambda limit, stop, sends: (
            _fill(limit - 1, stop, sends, 506, False) if sends >= limit else _fill(limit, stop, sends)
        ),
    },
)
