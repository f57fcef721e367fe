"""Exercises on held completions: what a producer sees, and when."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from qflow.teaching.exercise import add_exercise
from qflow.teaching.trial import Trial


def _complete(sends: list[str], stops: dict[str, int]) -> list[int]:
    trial = Trial()
    for queue, stop in stops.items():
        trial.declare_stop(queue, stop)
    transfers = [trial.send(queue)[0] for queue in sends]
    return [number for number, transfer in enumerate(transfers) if transfer.is_complete]


def _held_numbers(sends: list[str], stops: dict[str, int]) -> list[int]:
    return [n for n, queue in enumerate(sends) if sends[: n + 1].count(queue) > stops[queue]]


def _in_order(sends: list[str], stops: dict[str, int]) -> list[int]:
    held = _held_numbers(sends, stops)
    return list(range(held[0] if held else len(sends)))


add_exercise(
    "completed",
    _complete,
    misconceptions={
        "completions come in order": _in_order,
        "one full queue stops all": lambda sends, stops: (
            [] if _held_numbers(sends, stops) else list(range(len(sends)))
        ),
        "only the first above is held": lambda sends, stops: [
            n for n, queue in enumerate(sends) if sends[: n + 1].count(queue) != stops[queue] + 1
        ],
        "reached is enough": lambda sends, stops: [
            n for n, queue in enumerate(sends) if sends[: n + 1].count(queue) < stops[queue]
        ],
    },
)


def _completed_after_purges(stops: dict[str, int], messages: int, purges: list[str]) -> list[list[int]]:
    trial = Trial()
    for queue, stop in stops.items():
        trial.declare_stop(queue, stop)
        trial.admin.exchange_bind(queue, "amq.fanout", "")
    transfers = trial.send("", messages, exchange="amq.fanout")
    seen = [[n for n, t in enumerate(transfers, 1) if t.is_complete]]
    for queue in purges:
        trial.admin.queue_purge(queue)
        seen.append([n for n, t in enumerate(transfers, 1) if t.is_complete])
    return seen


def _fanout(
    stops: dict[str, int], messages: int, purges: list[str], how: Callable[[set[str], set[str]], bool]
) -> list[list[int]]:
    """Work out who is complete if `how` says, of the queues that hold and those purged, when."""
    holding = {n: {queue for queue, stop in stops.items() if n > stop} for n in range(1, messages + 1)}
    purged = [set(purges[:done]) for done in range(len(purges) + 1)]
    return [[n for n, queues in holding.items() if how(queues, gone)] for gone in purged]


add_exercise(
    "completed_after_purges",
    _completed_after_purges,
    misconceptions={
        "one queue letting go is enough": partial(
            _fanout, how=lambda holding, purged: not holding or bool(holding & purged)
        ),
        "all queues or nothing": lambda stops, messages, purges: _fanout(
            stops, messages, purges, lambda holding, purged: not holding or len(purged) == len(stops)
        ),
        "held only if every queue is stopped": lambda stops, messages, purges: _fanout(
            stops, messages, purges, lambda holding, purged: len(holding - purged) < len(stops)
        ),
        "the first queue decides": lambda stops, messages, purges: _fanout(
            stops, messages, purges, lambda holding, purged: not (holding & {next(iter(stops))}) - purged
        ),
    },
)


def _release(stop: int, resume: int, sent: int, taken: int) -> int:
    trial = Trial().declare_stop("q", stop, resume)
    transfers = trial.send("q", sent)
    held = [transfer for transfer in transfers if not transfer.is_complete]
    trial.reader("q").take(taken)
    return sum(transfer.is_complete for transfer in held)


add_exercise(
    "released",
    _release,
    misconceptions={
        "nothing before OFF": lambda stop, resume, sent, taken: sent - stop if sent - taken < resume else 0,
        "one out, one completed": lambda stop, resume, sent, taken: min(taken, sent - stop),
        "each one below stop frees one": lambda stop, resume, sent, taken: max(
            0, min(taken - (sent - stop), sent - stop)
        ),
        "OFF frees only those that left": lambda stop, resume, sent, taken: max(0, taken - stop),
    },
)
