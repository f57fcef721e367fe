"""Exercises on capacity: how far above the stop threshold a queue can get."""

from __future__ import annotations

from qflow.broker.errors import AmqpException
from qflow.teaching.bench import Bench, simulated
from qflow.teaching.exercise import exercise
from qflow.workload import Producer, Workload


def burst(bench: Bench, queue: str, capacities: list[int]) -> None:
    """Let every producer send, in turn, until its window is full of held transfers."""
    sessions = [
        bench.broker.sessions.get(f"p{n}") or bench.broker.session(f"p{n}") for n in range(len(capacities))
    ]
    ready = True
    while ready:
        ready = False
        for session, capacity in zip(sessions, capacities, strict=True):
            if session.is_attached and len(session.held) < capacity and bench.is_on(queue):
                bench.send(queue, by=session)
                ready = True


def _worst_depth(stop: int, capacities: list[int]) -> int:
    bench = Bench().declare("q", flow_stop_count=stop, flow_stop_size=0)
    bench.send("q", stop)
    # The message that turns it ON is one of theirs, and already fills a place in a window.
    bench.send("q", by=bench.broker.session("p0"))
    burst(bench, "q", capacities)
    return bench.depth("q")


WORST_DEPTH = exercise(
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
    bench = Bench().declare("q", flow_stop_count=stop, flow_resume_count=stop, flow_stop_size=0)
    bench.send("q", stop)
    bench.send("q", by=bench.broker.session("p0"))
    burst(bench, "q", capacities)
    full = bench.depth("q")
    reader, taken = bench.reader("q"), 0
    while bench.is_on("q"):
        reader.take(1)
        taken += 1
    for number, capacity in enumerate(capacities):
        # A window's worth goes out before the client hears of any completion.
        bench.send("q", capacity, by=bench.broker.sessions[f"p{number}"])
    return full, taken, bench.depth("q"), bench.statistics("q").flowStoppedCount


def _full(stop: int, capacities: list[int]) -> int:
    return stop + sum(capacities)


AFTER_THE_STALL = exercise(
    "after_the_stall",
    _story,
    misconceptions={
        "back at the threshold is enough": lambda stop, caps: (
            _full(stop, caps),
            sum(caps),
            _full(stop, caps),
            2,
        ),
        "the producers stay quiet": lambda stop, caps: (_full(stop, caps), sum(caps) + 1, stop - 1, 1),
        "the same peak again": lambda stop, caps: (_full(stop, caps), sum(caps) + 1, _full(stop, caps), 2),
        "it is still the same stop": lambda stop, caps: (
            _full(stop, caps),
            sum(caps) + 1,
            _full(stop, caps) - 1,
            1,
        ),
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
    run = simulated(workload, message_limit=stop + 3 * capacity + 10)
    return sum(event.kind == "enqueued" for event in run.events)


CPP_DEPTH = exercise(
    "cpp_depth",
    _cpp_depth,
    misconceptions={
        "the ideal window": lambda stop, capacity: stop + capacity,
        "the broker stops the client": lambda stop, capacity: stop + 1,
        "a sync at stop waits already": lambda stop, capacity: -(-stop // capacity) * capacity,
    },
)


def _overflow(limit: int, stop: int, sends: int) -> tuple[int, str, int, bool]:
    bench = Bench().declare("q", max_count=limit, flow_stop_count=stop, flow_resume_count=1, flow_stop_size=0)
    code = 0
    try:
        bench.send("q", sends)
    except AmqpException as error:
        code = error.code
    return bench.depth("q"), bench.state("q"), code, bench.producer.is_attached


def _on(depth: int, stop: int) -> str:
    return "ON" if depth > stop else "OFF"


OVERFLOW = exercise(
    "overflow",
    _overflow,
    misconceptions={
        "flow control prevents it": lambda limit, stop, sends: (
            min(sends, limit),
            _on(min(sends, limit), stop),
            0,
            True,
        ),
        "only that message is refused": lambda limit, stop, sends: (
            min(sends, limit),
            _on(min(sends, limit), stop),
            506 if sends > limit else 0,
            True,
        ),
        "the session takes its messages with it": lambda limit, stop, sends: (
            (0, "OFF", 506, False) if sends > limit else (sends, _on(sends, stop), 0, True)
        ),
        "the limit is refused already": lambda limit, stop, sends: (
            (limit - 1, _on(limit - 1, stop), 506, False)
            if sends >= limit
            else (sends, _on(sends, stop), 0, True)
        ),
    },
)
