"""Exercises on thresholds: hysteresis, and thresholds in messages and in bytes on one queue."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise

from qflow.broker import Message
from qflow.teaching.exercise import exercise
from qflow.teaching.trial import Trial


def _run_depths(changes: list[int], stop: int, resume: int) -> list[tuple[str, int]]:
    """Change a queue's depth step by step; return the state and flowStoppedCount after each step."""
    trial = Trial().declare_stop("q", stop, resume)
    reader = trial.reader("q")
    seen = []
    for change in changes:
        trial.send("q", max(0, change))
        reader.take(max(0, -change))
        seen.append((trial.state("q"), trial.statistics("q").flowStoppedCount))
    return seen


@exercise(
    misconceptions={
        "reached is enough": lambda limit, stop, resume: (stop, resume),
        "ON is exceeded, OFF is reached": lambda limit, stop, resume: (stop + 1, resume),
        "ON is reached, OFF is passed": lambda limit, stop, resume: (stop, resume - 1),
        "one threshold for both ways": lambda limit, stop, resume: (stop + 1, stop),
        "it is the limit that stops": lambda limit, stop, resume: (limit, resume - 1),
    },
)
def _on_and_off(limit: int, stop: int, resume: int) -> tuple[int, int]:
    trial = Trial().declare_stop("q", stop, resume, max_count=limit)
    return trial.turns("q")


def _with_memory(depths: list[int], on: int, off: int, first: str) -> list[str]:
    """Return the states of a queue that turns ON at a depth of `on` or more, and OFF at `off` or less."""

    def turn(was: str, depth: int) -> str:
        return "ON" if depth >= on else "OFF" if depth <= off else was

    return list(accumulate(depths, turn, initial=first))[1:]


@exercise(
    misconceptions={
        "no memory": lambda depths, stop, resume: ["ON" if d > stop else "OFF" for d in depths],
        "ON from resume upwards": lambda depths, stop, resume: [
            "ON" if d >= resume else "OFF" for d in depths
        ],
        "reached is enough": lambda depths, stop, resume: _with_memory(depths, stop, resume, "OFF"),
        "it starts ON": lambda depths, stop, resume: _with_memory(depths, stop + 1, resume - 1, "ON"),
    },
)
def _flow_states(depths: list[int], stop: int, resume: int) -> list[str]:
    changes = [later - sooner for sooner, later in pairwise([0, *depths])]
    return [state for state, _ in _run_depths(changes, stop, resume)]


def _levels(changes: list[int]) -> list[int]:
    """Return the depth after each single message that is sent or taken, starting with 0."""
    steps = [1 if change > 0 else -1 for change in changes for _ in range(abs(change))]
    return list(accumulate(steps, initial=0))


def _states(changes: list[int], stop: int, resume: int) -> list[bool]:
    return list(accumulate(_levels(changes), lambda was, d: d > stop or (was and d >= resume), initial=False))


@exercise(
    misconceptions={
        "every message above stop": lambda changes, stop, resume: sum(
            later > stop and later > sooner for sooner, later in pairwise(_levels(changes))
        ),
        "each time stop is passed": lambda changes, stop, resume: sum(
            sooner <= stop < later for sooner, later in pairwise(_levels(changes))
        ),
        "every step that ends above stop": lambda changes, stop, resume: sum(
            depth > stop for depth in accumulate(changes)
        ),
        "both ways count": lambda changes, stop, resume: sum(
            a != b for a, b in pairwise(_states(changes, stop, resume))
        ),
        "it is a yes or no": lambda changes, stop, resume: int(max(_levels(changes)) > stop),
    },
)
def _activations(changes: list[int], stop: int, resume: int) -> int:
    return _run_depths(changes, stop, resume)[-1][1] if changes else 0


_Levels = list[tuple[int, int]]
_Rule = Callable[[int, int], bool]


@exercise(
    misconceptions={
        "content only": lambda exchange, routing_key, content: content,
        "a header of one size": lambda exchange, routing_key, content: 32 + content,
        "the key and the content": lambda exchange, routing_key, content: len(routing_key) + content,
        "the names, but nothing around them": lambda exchange, routing_key, content: (
            len(exchange) + len(routing_key) + content
        ),
        "the exchange is not recorded": lambda exchange, routing_key, content: (
            10 + len(routing_key) + content
        ),
        "the default exchange is not recorded": lambda exchange, routing_key, content: (
            10 + len(exchange) + len(routing_key) + content if exchange else 9 + len(routing_key) + content
        ),
    },
)
def _message_bytes(exchange: str, routing_key: str, content: int) -> int:
    trial = Trial()
    name = exchange or routing_key
    trial.declare(name)
    if exchange:
        trial.admin.exchange_declare(exchange, "direct")
        trial.admin.exchange_bind(name, exchange, routing_key)
    trial.producer.message_transfer(Message(content, routing_key), exchange)
    return trial.statistics(name).byteDepth


def _sizes(messages: int, total: int) -> list[int]:
    """Return the sizes of messages with a given total; the last message has the remainder."""
    if messages <= 0:
        return []
    each = total // messages
    return [*[each] * (messages - 1), total - each * (messages - 1)]


def _believe(levels: _Levels, on: _Rule, off: _Rule) -> list[str]:
    def turn(was: str, level: tuple[int, int]) -> str:
        return ("OFF" if off(*level) else "ON") if was == "ON" else ("ON" if on(*level) else "OFF")

    return list(accumulate(levels, turn, initial="OFF"))[1:]


def _only_the_unit_that_stopped(levels: _Levels, stop: tuple[int, int], resume: tuple[int, int]) -> list[str]:
    states: list[str] = []
    by: int | None = None
    for level in levels:
        if by is None:
            by = next((unit for unit in (0, 1) if level[unit] > stop[unit]), None)
        elif level[by] < resume[by]:
            by = None
        states.append("OFF" if by is None else "ON")
    return states


@exercise(
    cases=(
        ([(40, 8000), (41, 8200), (30, 6000), (29, 5800), (20, 4000)], (4000, 8000), (3000, 6000)),
        ([(11, 1100), (5, 500), (4, 400)], (10, 2000), (5, 1000)),
        ([(4, 2050), (2, 1026), (1, 514)], (10, 2000), (5, 1000)),
        ([(12, 2400), (6, 1200), (4, 800)], (10, 2000), (5, 1000)),
        ([(10, 2000), (11, 2101), (4, 701), (3, 501), (11, 1701)], (10, 2000), (5, 1000)),
        ([(8, 2400), (4, 1200), (3, 900), (9, 2001)], (10, 2000), (8, 1000)),
        ([(11, 1100), (9, 900), (5, 500), (4, 400)], (10, 2000), (5, 1000)),
        ([(8, 800), (11, 2000), (4, 1300), (2, 800)], (10, 2000), (5, 1000)),
    ),
    misconceptions={
        "both stop thresholds have to be passed": lambda levels, stop, resume: _believe(
            levels, lambda m, b: m > stop[0] and b > stop[1], lambda m, b: m < resume[0] and b < resume[1]
        ),
        "either resume threshold will do": lambda levels, stop, resume: _believe(
            levels, lambda m, b: m > stop[0] or b > stop[1], lambda m, b: m < resume[0] or b < resume[1]
        ),
        "only the unit that stopped counts": _only_the_unit_that_stopped,
        "reached is enough": lambda levels, stop, resume: _believe(
            levels, lambda m, b: m >= stop[0] or b >= stop[1], lambda m, b: m <= resume[0] and b <= resume[1]
        ),
    },
)
def _states_both(levels: _Levels, stop: tuple[int, int], resume: tuple[int, int]) -> list[str]:
    """Bring a queue to each pair of messages and bytes in turn; return the state after each."""
    trial = Trial().declare(
        "q",
        max_size=0,
        flow_stop_count=stop[0],
        flow_stop_size=stop[1],
        flow_resume_count=resume[0],
        flow_resume_size=resume[1],
    )
    reader = trial.reader("q")
    states, count, volume = [], 0, 0
    for messages, total in levels:
        for size in _sizes(messages - count, total - volume):
            trial.send("q", size=size)
        for _ in range(count - messages):
            reader.take(1)
        found = trial.statistics("q")
        assert (found.msgDepth, found.byteDepth) == (messages, total), (found.msgDepth, found.byteDepth)
        count, volume = messages, total
        states.append(trial.state("q"))
    return states


def _below_bytes(resume_size: int) -> int:
    return (resume_size - 1) // 100


@exercise(
    misconceptions={
        "a disabled threshold has no say": lambda max_count, resume_size: _below_bytes(resume_size),
        "70 % is reached": lambda max_count, resume_size: min(
            int(max_count * 0.7), _below_bytes(resume_size)
        ),
        "messages alone decide": lambda max_count, resume_size: int(max_count * 0.7) - 1,
        "the default resume is 80 %": lambda max_count, resume_size: min(
            int(max_count * 0.8) - 1, _below_bytes(resume_size)
        ),
    },
)
def _last_left(max_count: int, resume_size: int) -> int:
    trial = Trial().declare(
        "q",
        max_count=max_count,
        flow_stop_count=0,
        flow_stop_size=max_count * 90,
        flow_resume_size=resume_size,
    )
    trial.send("q", max_count)
    reader = trial.reader("q")
    while trial.is_on("q"):
        reader.take(1)
    return trial.depth("q")
