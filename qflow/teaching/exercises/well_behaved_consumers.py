"""Exercises on consumers: waking up, taking turns, letting go."""

from __future__ import annotations

from functools import partial

from qflow.broker import BYTE_UNIT, INFINITE, MESSAGE_UNIT
from qflow.teaching.exercise import add_exercise
from qflow.teaching.trial import GROUP, Trial


def _idle_gets(steps: list[str]) -> list[str]:
    trial = Trial().declare_groups("q")
    owner = trial.reader("q", "owner", prefetch=1)
    idle = trial.reader("q", "idle", prefetch=10)
    trial.send("q", ["A-1", "A-2"], header=GROUP)
    for step in steps:
        who, act = step.split()[:2]
        if who == "owner":
            owner.session.message_stop("owner")
            getattr(owner, act.removesuffix("s"))()
        elif act == "arrives":
            trial.send("q", [who], header=GROUP)
        else:
            idle.session.message_flow("idle", BYTE_UNIT, INFINITE)
            idle.session.message_flow("idle", MESSAGE_UNIT, 10)
    return [label.rstrip("*") for label in idle.got]


def _believed_wake_up(steps: list[str], wakers: set[str]) -> list[str]:
    """Work out what the idle consumer gets if just these steps make it look."""
    queue, got, is_owned = ["A-1", "A-2"], [], True
    for step in steps:
        if step in ("owner accepts", "owner rejects"):
            queue, is_owned = [label for label in queue if label != "A-1"], False
        elif step == "owner releases":
            is_owned = False
        elif step.endswith("arrives"):
            queue.append(step.split()[0])
        if step in wakers:
            found = [label for label in queue if not (is_owned and label.startswith("A"))]
            got += found
            queue = [label for label in queue if label not in found]
    return got


_ARRIVALS = {"B-1 arrives", "A-3 arrives"}

add_exercise(
    "idle_gets",
    _idle_gets,
    misconceptions={
        "an accept wakes the others": partial(
            _believed_wake_up, wakers=_ARRIVALS | {"owner accepts", "owner rejects", "owner releases"}
        ),
        "only arrivals wake": partial(_believed_wake_up, wakers=_ARRIVALS),
        "an idle consumer never gets them": lambda steps: ["B-1"] if "B-1 arrives" in steps else [],
        "the freed group is served last": lambda steps: sorted(
            _believed_wake_up(steps, _ARRIVALS | {"owner releases"}), key=lambda label: label[0] != "B"
        ),
    },
)


def _turns(messages: int, consumers: int) -> list[list[int]]:
    trial = Trial().declare("q")
    readers = [trial.reader("q", f"c{n}", prefetch=messages) for n in range(consumers)]
    trial.send("q", [str(n) for n in range(messages)])
    return [[int(label) for label in reader.got] for reader in readers]


add_exercise(
    "turns",
    _turns,
    misconceptions={
        "in blocks": lambda messages, consumers: [
            list(range(messages))[n * -(-messages // consumers) : (n + 1) * -(-messages // consumers)]
            for n in range(consumers)
        ],
        "the first takes all it can hold": lambda messages, consumers: [
            list(range(messages)),
            *[[] for _ in range(consumers - 1)],
        ],
        "everybody gets everything": lambda messages, consumers: [
            list(range(messages)) for _ in range(consumers)
        ],
    },
)
