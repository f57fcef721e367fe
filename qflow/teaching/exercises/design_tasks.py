"""Design tasks: many answers are right, and the engine says whether yours is."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from qflow.broker.errors import AmqpException
from qflow.teaching.exercise import FINE, add_task
from qflow.teaching.exercises.capacity import burst
from qflow.teaching.trial import Trial, cache_judgement, simulate_case
from qflow.workload import Consumer, Producer, Workload
from qflow.workload.agenda import SECOND
from qflow.workload.measures import queue_measures

SECONDS = 20
_OFF_SHARE = 0.8


@cache_judgement
def _overflow(limit: int, stop: int, capacities: tuple[int, ...], resume: int = 1) -> bool:
    """Return whether a producer is thrown out in the worst case: all windows fill at the stop level."""
    trial = Trial().declare_stop("q", stop, resume, max_count=limit)
    return bool(trial.code_of(lambda: burst(trial, stop, capacities)))


def _safe_stop(answer: Callable[[int, list[int]], int], limit: int, capacities: list[int]) -> str:
    stop = answer(limit, list(capacities))
    if isinstance(stop, bool) or not isinstance(stop, int):
        return f"a stop threshold is a whole number; got {stop!r}"
    if not 1 <= stop <= limit:
        return f"a stop threshold between 1 and the limit of {limit} is needed; got {stop}"
    if _overflow(limit, stop, tuple(capacities)):
        return f"stop {stop}: a producer is thrown out with 506, although flow control is ON"
    if not _overflow(limit, min(limit, 2 * stop), tuple(capacities)) and 2 * stop < limit:
        return f"stop {stop} never overflows, but even twice that would not; most of the queue is never used"
    return FINE


add_task(
    "safe_stop",
    _safe_stop,
    misconceptions={
        "80 % is always right": lambda limit, capacities: limit * 8 // 10,
        "room for the largest window": lambda limit, capacities: limit - max(capacities),
        "producers stop at once": lambda limit, capacities: limit - 1,
        "stop at the limit": lambda limit, capacities: limit,
        "the lower the safer": (lambda limit, capacities: 1, lambda stop: 0 < stop <= 5),
    },
)


def _shop(limit: int, capacities: Sequence[int], burst_rate: int, stop: int, resume: int) -> Workload:
    """Two-second bursts every ten seconds, against a steady consumer that does 100 a second."""
    producers = tuple(
        Producer(
            f"p{n}",
            ("", "orders"),
            rate=burst_rate / len(capacities),
            capacity=capacity,
            size=100,
            burst=(2, 8),
            arrival="const",
            seed=n,
        )
        for n, capacity in enumerate(capacities)
    )
    arguments = {
        "qpid.max_count": limit,
        "qpid.flow_stop_count": stop,
        "qpid.flow_resume_count": resume,
        "qpid.flow_stop_size": 0,
    }
    consumer = Consumer("c", "orders", prefetch=10, service=("const", 0.01))
    return Workload("shop", SECONDS, {"orders": arguments}, producers=producers, consumers=(consumer,))


def _try_choice(
    answer: Callable[[int, list[int], int], tuple[int, int]],
    limit: int,
    capacities: list[int],
    burst_rate: int,
) -> str:
    chosen = answer(limit, list(capacities), burst_rate)
    if not (isinstance(chosen, tuple | list) and len(chosen) == 2 and all(type(n) is int for n in chosen)):
        return f"two whole numbers are needed, stop and resume; got {chosen!r}"
    stop, resume = chosen
    if stop < 1:
        return f"without a stop threshold there is no flow control; got stop {stop}"
    return _simulate_choice(limit, tuple(capacities), burst_rate, stop, resume)


@cache_judgement
def _simulate_choice(limit: int, capacities: tuple[int, ...], burst_rate: int, stop: int, resume: int) -> str:
    try:
        if _overflow(limit, stop, capacities, resume):
            return f"stop {stop}: in a bad moment a producer is thrown out with 506"
    except AmqpException as error:
        return f"the broker refuses the queue: {error.code} {error}"
    workload = _shop(limit, capacities, burst_rate, stop, resume)
    run = simulate_case(workload)
    if run.errors:
        return f"stop {stop}, resume {resume}: {', '.join(run.errors)} thrown out, the queue overflowed"
    on = queue_measures(run.events, workload, SECONDS * SECOND)["orders"]["share_on"] or 0
    if 1 - on < _OFF_SHARE:
        return f"stop {stop}, resume {resume}: no overflow, but OFF only {1 - on:.0%} of the time"
    return FINE


add_task(
    "choose_thresholds",
    _try_choice,
    misconceptions={
        "stop as late as possible": lambda limit, capacities, burst_rate: (limit, limit - 10),
        "80 and 70 % will do": lambda limit, capacities, burst_rate: (limit * 8 // 10, limit * 7 // 10),
        "stop early, to be safe": lambda limit, capacities, burst_rate: (limit // 10, limit // 20),
        "drain it before going on": lambda limit, capacities, burst_rate: (limit - sum(capacities), 1),
    },
)


def _try_sharing(answer: Callable[[int, int, int], list[int]], limit: int, stop: int, producers: int) -> str:
    shares = answer(limit, stop, producers)
    if not (isinstance(shares, list | tuple) and all(type(n) is int for n in shares)):
        return f"a list of whole numbers is needed, one for each producer; got {shares!r}"
    if len(shares) != producers or min(shares, default=0) < 1:
        return f"{producers} producers need {producers} capacities of at least 1; got {list(shares)}"
    if _overflow(limit, stop, tuple(shares)):
        return f"capacities {list(shares)}: a producer is thrown out with 506"
    if sum(shares) < 0.8 * (limit - stop):
        return f"capacities {list(shares)} use only {sum(shares)} of the {limit - stop} there is room for"
    return FINE


add_task(
    "share_the_room",
    _try_sharing,
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
