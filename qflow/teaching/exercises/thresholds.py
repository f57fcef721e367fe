"""Exercises on thresholds and hysteresis."""

from __future__ import annotations

from itertools import accumulate, pairwise

from qflow.teaching.exercise import add_exercise
from qflow.teaching.trial import Trial


def _run_depths(changes: list[int], stop: int, resume: int) -> list[tuple[str, int]]:
    """Send and take messages; return the state and flowStoppedCount after each step."""
    trial = Trial().declare_stop("q", stop, resume)
    reader = trial.reader("q")
    seen = []
    for change in changes:
        trial.send("q", max(0, change))
        reader.take(max(0, -change))
        seen.append((trial.state("q"), trial.statistics("q").flowStoppedCount))
    return seen


def _on_and_off(limit: int, stop: int, resume: int) -> tuple[int, int]:
    trial = Trial().declare_stop("q", stop, resume, max_count=limit)
    return trial.turns("q")


add_exercise(
    "on_and_off",
    _on_and_off,
    misconceptions={
        "reached is enough": lambda limit, stop, resume: (stop, resume),
        "ON is exceeded, OFF is reached": lambda limit, stop, resume: (stop + 1, resume),
        "ON is reached, OFF is passed": lambda limit, stop, resume: (stop, resume - 1),
        "one threshold for both ways": lambda limit, stop, resume: (stop + 1, stop),
        "it is the limit that stops": lambda limit, stop, resume: (limit, resume - 1),
    },
)


def _flow_states(depths: list[int], stop: int, resume: int) -> list[str]:
    changes = [later - sooner for sooner, later in pairwise([0, *depths])]
    return [state for state, _ in _run_depths(changes, stop, resume)]


def _with_memory(depths: list[int], on: int, off: int, first: str) -> list[str]:
    """Return the states if a depth from `on` turns it ON, and one to `off` turns it OFF."""

    def turn(was: str, depth: int) -> str:
        return "ON" if depth >= on else "OFF" if depth <= off else was

    return list(accumulate(depths, turn, initial=first))[1:]


add_exercise(
    "flow_states",
    _flow_states,
    misconceptions={
        "no memory": lambda depths, stop, resume: ["ON" if d > stop else "OFF" for d in depths],
        "ON from resume upwards": lambda depths, stop, resume: [
            "ON" if d >= resume else "OFF" for d in depths
        ],
        "reached is enough": lambda depths, stop, resume: _with_memory(depths, stop, resume, "OFF"),
        "it starts ON": lambda depths, stop, resume: _with_memory(depths, stop + 1, resume - 1, "ON"),
    },
)


def _activations(changes: list[int], stop: int, resume: int) -> int:
    return _run_depths(changes, stop, resume)[-1][1] if changes else 0


def _levels(changes: list[int]) -> list[int]:
    """Return the depth after every single message."""
    steps = [1 if change > 0 else -1 for change in changes for _ in range(abs(change))]
    return list(accumulate(steps, initial=0))


def _states(changes: list[int], stop: int, resume: int) -> list[bool]:
    return list(accumulate(_levels(changes), lambda was, d: d > stop or (was and d >= resume), initial=False))


add_exercise(
    "activations",
    _activations,
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
