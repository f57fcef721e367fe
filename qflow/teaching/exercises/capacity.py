"""Exercises on capacity: how far above the stop threshold a queue can get."""

from __future__ import annotations

from qflow.broker.errors import AmqpException
from qflow.teaching.bench import Bench, simulated
from qflow.teaching.exercise import Exercise, Misconception
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


WORST_DEPTH = Exercise(
    "worst_depth",
    "From 101 to 165",
    truth=_worst_depth,
    cases=(
        (100, [50, 15]),
        (10, [1]),
        (10, [3]),
        (1, [5, 5, 5]),
        (900, [100]),
        (20, [7, 1, 2]),
        (64, [10, 10]),
    ),
    misconceptions={
        "the 101st comes on top": Misconception(
            lambda stop, capacities: stop + 1 + sum(capacities),
            "the message that turns flow control ON is itself one of the outstanding ones (FC-15, CAP-08).",
        ),
        "producers stop at once": Misconception(
            lambda stop, capacities: stop + 1,
            "the producers are not asked to stop. Each goes on until its window is full (CAP-01).",
        ),
        "only the largest window counts": Misconception(
            lambda stop, capacities: stop + max(capacities),
            "every producer has a window of its own, and all of them can fill up (CAP-08).",
        ),
        "one message for each producer": Misconception(
            lambda stop, capacities: stop + len(capacities),
            "that is the least there can be when they have filled their windows before; the worst case is "
            "all windows full of held transfers (CAP-08).",
        ),
    },
    hints=(
        "Which transfers are held? And how many of them may each producer have?",
        "All messages above stop are held, and a producer stops when its capacity is used up by held ones.",
        "stop, and for each producer as many as its capacity.",
    ),
    rules=("CAP-01", "CAP-08"),
    shows=("G-03",),
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


AFTER_THE_STALL = Exercise(
    "after_the_stall",
    "Down to 99, and up again",
    truth=_story,
    cases=((100, [50, 15]), (10, [4]), (50, [5, 6, 7]), (1, [2]), (300, [100, 1])),
    misconceptions={
        "back at the threshold is enough": Misconception(
            lambda stop, caps: (_full(stop, caps), sum(caps), _full(stop, caps), 2),
            "with resume equal to stop, being back at stop is not below resume; one more has to go (FC-16).",
        ),
        "the producers stay quiet": Misconception(
            lambda stop, caps: (_full(stop, caps), sum(caps) + 1, stop - 1, 1),
            "all held transfers complete at once, so every window is empty again, and they send (FC-17, "
            "CAP-08).",
        ),
        "the same peak again": Misconception(
            lambda stop, caps: (_full(stop, caps), sum(caps) + 1, _full(stop, caps), 2),
            "they begin one below stop this time, and each sends no more than its window before it hears of "
            "a completion (CAP-08).",
        ),
        "it is still the same stop": Misconception(
            lambda stop, caps: (_full(stop, caps), sum(caps) + 1, _full(stop, caps) - 1, 1),
            "it was OFF in between, so turning ON again counts a second time (FC-19).",
        ),
    },
    hints=(
        "Four numbers: the depth at the stall, how many have to go, the depth after the burst, the count.",
        "OFF needs fewer than resume, and resume is stop here. Then all windows are free at once.",
        "stop + sum, then sum + 1 are taken, which leaves stop - 1; on top of that the whole window of each.",
    ),
    rules=("CAP-08", "FC-16", "FC-17", "FC-19"),
    parts=(
        "the depth when all producers are blocked",
        "the messages taken when it turns OFF",
        "the depth after the burst",
        "flowStoppedCount at the end",
    ),
    shows=("G-03",),
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


CPP_DEPTH = Exercise(
    "cpp_depth",
    "Real clients stall lower",
    truth=_cpp_depth,
    cases=((10, 1), (10, 2), (10, 3), (100, 50), (37, 8), (100, 100), (12, 4)),
    misconceptions={
        "the ideal window": Misconception(
            lambda stop, capacity: stop + capacity,
            "that is the worst case. This client starts with an empty window at 0, not at stop, and when "
            "its window is full it waits for all of it (CAP-02, CAP-08).",
        ),
        "the broker stops the client": Misconception(
            lambda stop, capacity: stop + 1,
            "the broker only holds completions; the client notices when its window is full (CAP-01).",
        ),
        "a sync at stop waits already": Misconception(
            lambda stop, capacity: -(-stop // capacity) * capacity,
            "at exactly stop nothing is held, so that sync succeeds and one more window goes out (FC-14).",
        ),
    },
    hints=(
        "Draw it for stop 10 and capacity 3: after 3, 6, 9 and 12 messages the client waits for all of them.",
        "The client is always blocked after a multiple of its capacity. Which is the first at which one "
        "is held?",
        "The first multiple of capacity above stop.",
    ),
    rules=("CAP-02", "CAP-08"),
    shows=("G-04",),
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


OVERFLOW = Exercise(
    "overflow",
    "Overflow in spite of flow control",
    truth=_overflow,
    cases=((3, 2, 4), (3, 2, 3), (1000, 900, 1001), (10, 10, 11), (10, 8, 8), (5, 1, 9), (10, 8, 9)),
    misconceptions={
        "flow control prevents it": Misconception(
            lambda limit, stop, sends: (min(sends, limit), _on(min(sends, limit), stop), 0, True),
            "flow control refuses nothing, and makes no client wait. The limit is still enforced while it is "
            "ON (FC-24).",
        ),
        "only that message is refused": Misconception(
            lambda limit, stop, sends: (
                min(sends, limit),
                _on(min(sends, limit), stop),
                506 if sends > limit else 0,
                True,
            ),
            "506 ends the whole session; the producer cannot send anything more (LP-06).",
        ),
        "the session takes its messages with it": Misconception(
            lambda limit, stop, sends: (
                (0, "OFF", 506, False) if sends > limit else (sends, _on(sends, stop), 0, True)
            ),
            "the messages that were accepted stay on the queue, and so it stays ON (CM-09, LP-06).",
        ),
        "the limit is refused already": Misconception(
            lambda limit, stop, sends: (
                (limit - 1, _on(limit - 1, stop), 506, False)
                if sends >= limit
                else (sends, _on(sends, stop), 0, True)
            ),
            "filling the limit exactly is allowed; the message beyond it is refused (LP-02).",
        ),
    },
    hints=(
        "Whether flow control is ON makes no difference to the limit.",
        "Up to limit all messages are taken. One more raises 506, ends the session, and stays outside.",
        "depth = min(sends, limit); ON if depth > stop; if sends > limit: code 506 and no session left.",
    ),
    rules=("FC-24", "LP-02", "LP-05", "LP-06", "CM-09"),
    parts=("the depth", "the state", "the error code", "whether the session is still there"),
    shows=("G-05",),
)

EXERCISES = (WORST_DEPTH, AFTER_THE_STALL, CPP_DEPTH, OVERFLOW)
