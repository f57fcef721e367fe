"""Exercises on thresholds and hysteresis."""

from __future__ import annotations

from itertools import accumulate, pairwise

from qflow.teaching.bench import Bench
from qflow.teaching.exercise import Exercise, Misconception


def run_depths(changes: list[int], stop: int, resume: int) -> list[tuple[str, int]]:
    """Send and take messages; return the state and flowStoppedCount after each step."""
    bench = Bench().declare("q", flow_stop_count=stop, flow_resume_count=resume, flow_stop_size=0)
    reader = bench.reader("q")
    seen = []
    for change in changes:
        for _ in range(abs(change)):
            if change > 0:
                bench.send("q")
            else:
                reader.take(1)
        seen.append((bench.state("q"), bench.statistics("q").flowStoppedCount))
    return seen


def _on_and_off(limit: int, stop: int, resume: int) -> tuple[int, int]:
    bench = Bench().declare(
        "q", max_count=limit, flow_stop_count=stop, flow_resume_count=resume, flow_stop_size=0
    )
    while not bench.is_on("q"):
        bench.send("q")
    on = bench.depth("q")
    reader = bench.reader("q")
    while bench.is_on("q"):
        reader.take(1)
    return on, bench.depth("q")


ON_AND_OFF = Exercise(
    "on_and_off",
    "At which message ON, at which OFF",
    truth=_on_and_off,
    cases=(
        (1000, 900, 500),
        (100, 80, 70),
        (10, 7, 5),
        (10, 9, 1),
        (50, 20, 20),
        (12, 11, 3),
        (6, 1, 1),
        (300, 200, 199),
    ),
    misconceptions={
        "reached is enough": Misconception(
            lambda limit, stop, resume: (stop, resume),
            "a threshold has to be passed. ON needs more than stop, OFF needs fewer than resume; equal is "
            "neither (FC-14, FC-16).",
        ),
        "ON is exceeded, OFF is reached": Misconception(
            lambda limit, stop, resume: (stop + 1, resume),
            "the way down is as strict as the way up: at exactly resume the queue is still ON (FC-16).",
        ),
        "ON is reached, OFF is passed": Misconception(
            lambda limit, stop, resume: (stop, resume - 1),
            "at exactly stop nothing happens yet: the state turns ON with the first message above it "
            "(FC-14).",
        ),
        "one threshold for both ways": Misconception(
            lambda limit, stop, resume: (stop + 1, stop),
            "back at stop the queue is still ON; it stays so until resume (FC-16). That gap is the point.",
        ),
        "it is the limit that stops": Misconception(
            lambda limit, stop, resume: (limit, resume - 1),
            "at the limit messages are refused; flow control acts before, above the stop threshold (FC-14).",
        ),
    },
    hints=(
        "Chapter 1 sends 900 messages, then one more. Which of the two changes the state?",
        "ON: the depth is more than stop. OFF: the depth is fewer than resume. Both comparisons are strict.",
        "The first whole number above stop is stop + 1. Which is the first below resume?",
    ),
    rules=("FC-14", "FC-16", "FC-26"),
    parts=("the depth when it turns ON", "the depth when it turns OFF"),
)


def _flow_states(depths: list[int], stop: int, resume: int) -> list[str]:
    changes = [later - sooner for sooner, later in pairwise([0, *depths])]
    return [state for state, _ in run_depths(changes, stop, resume)]


def _with_memory(depths: list[int], stop: int, resume: int) -> list[str]:
    return list(
        accumulate(
            depths,
            lambda was, d: "ON" if d >= stop else "OFF" if d <= resume else was,
            initial="OFF",
        )
    )[1:]


FLOW_STATES = Exercise(
    "flow_states",
    "The state after each step",
    truth=_flow_states,
    cases=(
        ([899, 900, 901, 900, 501, 500, 499, 500, 901], 900, 500),
        ([7, 8, 9, 8, 7, 6, 5, 4, 5], 7, 5),
        ([1, 2, 3, 2, 1, 2, 3, 0], 2, 2),
        ([5, 4, 3, 2, 1, 0, 1], 4, 1),
        ([10, 11, 10, 9, 10, 11, 12, 8], 10, 10),
        ([3, 2, 3, 2, 1, 2, 3], 9, 4),
        ([30, 15, 25, 19, 30, 9], 20, 10),
    ),
    misconceptions={
        "no memory": Misconception(
            lambda depths, stop, resume: ["ON" if d > stop else "OFF" for d in depths],
            "between the thresholds the state depends on the past: what was ON stays ON until fewer than "
            "resume are left (FC-16).",
        ),
        "ON from resume upwards": Misconception(
            lambda depths, stop, resume: ["ON" if d >= resume else "OFF" for d in depths],
            "on the way up nothing happens at resume. Only passing stop turns it ON (FC-14).",
        ),
        "reached is enough": Misconception(
            _with_memory,
            "a threshold has to be passed: more than stop, fewer than resume (FC-14, FC-16).",
        ),
        "it starts ON": Misconception(
            lambda depths, stop, resume: list(
                accumulate(
                    depths, lambda was, d: "ON" if d > stop else "OFF" if d < resume else was, initial="ON"
                )
            )[1:],
            "a queue begins OFF (FC-13).",
        ),
    },
    hints=(
        "Can the depth alone tell the state? Compare 600 on the way up with 600 on the way down.",
        "Keep the state in a variable that begins as OFF, and go through the depths in order.",
        "if depth > stop: ON; elif depth < resume: OFF; else: what it was.",
    ),
    rules=("FC-13", "FC-14", "FC-16", "FC-25", "FC-26"),
)


def _activations(changes: list[int], stop: int, resume: int) -> int:
    return run_depths(changes, stop, resume)[-1][1] if changes else 0


def _levels(changes: list[int]) -> list[int]:
    """Return the depth after every single message."""
    steps = [1 if change > 0 else -1 for change in changes for _ in range(abs(change))]
    return list(accumulate(steps, initial=0))


def _states(changes: list[int], stop: int, resume: int) -> list[bool]:
    return list(accumulate(_levels(changes), lambda was, d: d > stop or (was and d >= resume), initial=False))


ACTIVATIONS = Exercise(
    "activations",
    "What flowStoppedCount counts",
    truth=_activations,
    cases=(
        ([901, -402, 402], 900, 500),
        ([9, -5, 5, -1, 1, -9], 7, 5),
        ([3, -1, 1, -1, 1, -3, 3], 2, 2),
        ([12, -4, 4, -12, 12], 10, 3),
        ([5, -5, 5, -5], 9, 4),
        ([25, -2, 2, -24], 20, 5),
        ([4, -2, 2, -2, 2, -2, 2], 3, 3),
    ),
    misconceptions={
        "every message above stop": Misconception(
            lambda changes, stop, resume: sum(
                later > stop and later > sooner for sooner, later in pairwise(_levels(changes))
            ),
            "flowStoppedCount counts how often the state turns ON. Further messages while it is ON do not "
            "count (FC-19).",
        ),
        "each time stop is passed": Misconception(
            lambda changes, stop, resume: sum(
                sooner <= stop < later for sooner, later in pairwise(_levels(changes))
            ),
            "passing stop again while the queue is still ON is no new activation: it never turned OFF "
            "(FC-16, FC-19).",
        ),
        "both ways count": Misconception(
            lambda changes, stop, resume: sum(a != b for a, b in pairwise(_states(changes, stop, resume))),
            "only OFF to ON counts (FC-19).",
        ),
        "it is a yes or no": Misconception(
            lambda changes, stop, resume: int(max(_levels(changes)) > stop),
            "flowStopped is yes or no; flowStoppedCount goes on counting and never goes back (FC-19).",
        ),
    },
    hints=(
        "The documents say it counts each time the stop threshold is exceeded. Is that so while it is ON?",
        "Follow the state message by message, as in the exercise before, and count its changes from OFF to "
        "ON.",
        "for each step: if not on and depth > stop: on = True, count += 1; elif on and depth < resume: on = "
        "False.",
    ),
    rules=("FC-19", "CM-15"),
)

EXERCISES = (ON_AND_OFF, FLOW_STATES, ACTIVATIONS)
