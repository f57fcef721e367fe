"""Exercises on capacity: how far above its stop threshold a queue gets, and design tasks on thresholds.

A design task has many right answers; the engine judges each.
"""

from __future__ import annotations

from collections.abc import Sequence

from qflow.broker.errors import AmqpException
from qflow.teaching.exercise import FINE, Answer, design_task, exercise
from qflow.teaching.trial import Trial, cache_judgement, simulate_case
from qflow.workload import Consumer, Producer, Workload
from qflow.workload.agenda import SECOND
from qflow.workload.measures import queue_measures


def _burst(trial: Trial, stop: int, capacities: Sequence[int]) -> None:
    """Fill the queue q to its stop threshold, then let producers send in turn until all windows are full."""
    trial.send("q", stop)
    sessions = [trial.broker.session(f"p{n}") for n in range(len(capacities))]
    # The message that turns the queue ON is sent by a producer, and already fills a place in its window.
    trial.send("q", by=sessions[0])
    ready = True
    while ready:
        ready = False
        for session, capacity in zip(sessions, capacities, strict=True):
            if session.is_attached and len(session.held) < capacity and trial.is_on("q"):
                trial.send("q", by=session)
                ready = True


@exercise(
    misconceptions={
        "the 101st comes on top": lambda stop, capacities: stop + 1 + sum(capacities),
        "producers stop at once": lambda stop, capacities: stop + 1,
        "the stop threshold is a limit": lambda stop, capacities: stop,
        "only the largest window counts": lambda stop, capacities: stop + max(capacities),
        "one message for each producer": lambda stop, capacities: stop + len(capacities),
    },
)
def _worst_depth(stop: int, capacities: list[int]) -> int:
    trial = Trial().declare_stop("q", stop)
    _burst(trial, stop, capacities)
    return trial.depth("q")


def _believed_story(
    stop: int, capacities: list[int], taken: int = 1, again: int = -1, stops: int = 2
) -> tuple[int, int, int, int]:
    """Return wrong results for given misconceptions: messages taken, the later change of peak, the stops."""
    full = stop + sum(capacities)
    return full, sum(capacities) + taken, full + again, stops


@exercise(
    misconceptions={
        "the 101st comes on top": lambda stop, caps: _believed_story(stop + 1, caps, taken=2, again=-2),
        "producers stop at once": lambda stop, caps: (stop + 1, 2, stop + 1, 2),
        "back at the threshold is enough": lambda stop, caps: _believed_story(stop, caps, taken=0, again=0),
        "back at the threshold, and one long stop": lambda stop, caps: _believed_story(
            stop, caps, taken=0, again=0, stops=1
        ),
        "the producers stay quiet": lambda stop, caps: (stop + sum(caps), sum(caps) + 1, stop - 1, 1),
        "the same peak again": lambda stop, caps: _believed_story(stop, caps, again=0),
        "it is still the same stop": lambda stop, caps: _believed_story(stop, caps, stops=1),
    },
)
def _after_the_stall(stop: int, capacities: list[int]) -> tuple[int, int, int, int]:
    trial = Trial().declare_stop("q", stop, stop)
    _burst(trial, stop, capacities)
    full = trial.depth("q")
    reader, taken = trial.reader("q"), 0
    while trial.is_on("q"):
        reader.take(1)
        taken += 1
    for number, capacity in enumerate(capacities):
        # A producer sends as many messages as its window has before it learns of any completion.
        trial.send("q", capacity, by=trial.broker.sessions[f"p{number}"])
    return full, taken, trial.depth("q"), trial.statistics("q").flowStoppedCount


@exercise(
    misconceptions={
        "the ideal window": lambda stop, capacity: stop + capacity,
        "the broker stops the client": lambda stop, capacity: stop + 1,
        "a sync at stop waits already": lambda stop, capacity: -(-stop // capacity) * capacity,
    },
)
def _cpp_depth(stop: int, capacity: int) -> int:
    arguments = {"qpid.flow_stop_count": stop, "qpid.flow_stop_size": 0, "qpid.flow_resume_count": 1}
    producer = Producer("p", ("", "q"), 100_000, capacity, 10, arrival="const", window="qpid-cpp")
    workload = Workload("fresh", 1, {"q": arguments}, producers=(producer,))
    run = simulate_case(workload, message_limit=stop + 3 * capacity + 10)
    return sum(event.kind == "enqueued" for event in run.events)


def _fill(
    limit: int, stop: int, sends: int, code: int = 0, is_attached: bool = True
) -> tuple[int, str, int, bool]:
    depth = min(sends, limit)
    return depth, "ON" if depth > stop else "OFF", code, is_attached


@exercise(
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
def _overflow(limit: int, stop: int, sends: int) -> tuple[int, str, int, bool]:
    trial = Trial().declare_stop("q", stop, 1, max_count=limit)
    code = trial.code_of(lambda: trial.send("q", sends))
    return trial.depth("q"), trial.state("q"), code, trial.producer.is_attached


_SECONDS = 20
_OFF_SHARE = 0.8


@cache_judgement
def _overflows(limit: int, stop: int, capacities: tuple[int, ...], resume: int = 1) -> bool:
    """Return whether a producer's session dies in the worst case, when all windows fill above the stop."""
    trial = Trial().declare_stop("q", stop, resume, max_count=limit)
    return bool(trial.code_of(lambda: _burst(trial, stop, capacities)))


@design_task(
    misconceptions={
        "80 % is always right": lambda limit, capacities: limit * 8 // 10,
        "room for the largest window": lambda limit, capacities: limit - max(capacities),
        "producers stop at once": lambda limit, capacities: limit - 1,
        "stop at the limit": lambda limit, capacities: limit,
        "the lower the safer": (lambda limit, capacities: 1, lambda stop: 0 < stop <= 5),
    },
)
def _safe_stop(answer: Answer, limit: int, capacities: list[int]) -> str:
    stop = answer(limit, list(capacities))
    if isinstance(stop, bool) or not isinstance(stop, int):
        return f"a stop threshold is a whole number; got {stop!r}"
    if not 1 <= stop <= limit:
        return f"a stop threshold between 1 and the limit of {limit} is needed; got {stop}"
    if _overflows(limit, stop, tuple(capacities)):
        return f"stop {stop}: a producer is thrown out with 506, although flow control is ON"
    if not _overflows(limit, min(limit, 2 * stop), tuple(capacities)) and 2 * stop < limit:
        return f"stop {stop} never overflows, but even twice that would not; most of the queue is never used"
    return FINE


def _shop(limit: int, capacities: Sequence[int], burst_rate: int, stop: int, resume: int) -> Workload:
    """Return a workload with a burst of two seconds every ten, and a consumer of 100 messages a second."""
    rate = burst_rate / len(capacities)
    producers = tuple(
        Producer(f"p{n}", ("", "orders"), rate, capacity, 100, burst=(2, 8), arrival="const", seed=n)
        for n, capacity in enumerate(capacities)
    )
    arguments = {
        "qpid.max_count": limit,
        "qpid.flow_stop_count": stop,
        "qpid.flow_resume_count": resume,
        "qpid.flow_stop_size": 0,
    }
    consumer = Consumer("c", "orders", prefetch=10, service=("const", 0.01))
    return Workload("shop", _SECONDS, {"orders": arguments}, producers=producers, consumers=(consumer,))


@cache_judgement
def _simulate_choice(limit: int, capacities: tuple[int, ...], burst_rate: int, stop: int, resume: int) -> str:
    try:
        if _overflows(limit, stop, capacities, resume):
            return f"stop {stop}: in a bad moment a producer is thrown out with 506"
    except AmqpException as error:
        return f"the broker refuses the queue: {error.code} {error}"
    workload = _shop(limit, capacities, burst_rate, stop, resume)
    run = simulate_case(workload)
    if run.errors:
        return f"stop {stop}, resume {resume}: {', '.join(run.errors)} thrown out, the queue overflowed"
    on = queue_measures(run.events, workload, _SECONDS * SECOND)["orders"]["share_on"] or 0
    if 1 - on < _OFF_SHARE:
        return f"stop {stop}, resume {resume}: no overflow, but OFF only {1 - on:.0%} of the time"
    return FINE


@design_task(
    misconceptions={
        "stop as late as possible": lambda limit, capacities, burst_rate: (limit, limit - 10),
        "80 and 70 % will do": lambda limit, capacities, burst_rate: (limit * 8 // 10, limit * 7 // 10),
        "stop early, to be safe": lambda limit, capacities, burst_rate: (limit // 10, limit // 20),
        "drain it before going on": lambda limit, capacities, burst_rate: (limit - sum(capacities), 1),
    },
)
def _choose_thresholds(answer: Answer, limit: int, capacities: list[int], burst_rate: int) -> str:
    chosen = answer(limit, list(capacities), burst_rate)
    if not (isinstance(chosen, tuple | list) and len(chosen) == 2 and all(type(n) is int for n in chosen)):
        return f"two whole numbers are needed, stop and resume; got {chosen!r}"
    stop, resume = chosen
    if stop < 1:
        return f"without a stop threshold there is no flow control; got stop {stop}"
    return _simulate_choice(limit, tuple(capacities), burst_rate, stop, resume)


@design_task(
    misconceptions={
        "everybody gets all the room": lambda limit, stop, producers: [limit - stop] * producers,
        "50 is the default, so it is right": (
            lambda limit, stop, producers: [50] * producers,
            lambda shares: set(shares) == {50},
        ),
        "one at a time is safest": lambda limit, stop, producers: [1] * producers,
        "round up": lambda limit, stop, producers: [-(-(limit - stop) // producers)] * producers,
    },
)
def _share_the_room(answer: Answer, limit: int, stop: int, producers: int) -> str:
    shares = answer(limit, stop, producers)
    if not (isinstance(shares, list | tuple) and all(type(n) is int for n in shares)):
        return f"a list of whole numbers is needed, one for each producer; got {shares!r}"
    if len(shares) != producers or min(shares, default=0) < 1:
        return f"{producers} producers need {producers} capacities of at least 1; got {list(shares)}"
    if _overflows(limit, stop, tuple(shares)):
        return f"capacities {list(shares)}: a producer is thrown out with 506"
    if sum(shares) < 0.8 * (limit - stop):
        return f"capacities {list(shares)} use only {sum(shares)} of the {limit - stop} there is room for"
    return FINE
