"""Exercises on last-value queues, and on queues that destroy themselves."""

from __future__ import annotations

from qflow.teaching.exercise import Exercise, Misconception
from qflow.teaching.exercises.bench import Bench


def _lvq_at_stop(stop: int, replacements: int) -> tuple[int, str, int, int]:
    bench = Bench()
    bench.declare("q", last_value_queue_key="key", flow_stop_count=stop, flow_stop_size=0)
    bench.send("q", [f"k{n}" for n in range(stop)], header="key")
    bench.send("q", ["k0"] * replacements, header="key")
    found = bench.statistics("q")
    return (
        found.msgDepth,
        "ON" if found.flowStopped else "OFF",
        found.flowStoppedCount,
        len(bench.producer.held),
    )


LVQ_AT_STOP = Exercise(
    "lvq_at_stop",
    "Replacing a value at the stop threshold",
    truth=_lvq_at_stop,
    cases=((10, 1), (10, 0), (10, 5), (3, 2), (1, 1), (2, 9)),
    misconceptions=(
        Misconception(
            "a replacement changes nothing",
            lambda stop, replacements: (stop, "OFF", 0, 0),
            "it is an enqueue and then a dequeue. In between the queue is one above stop, and turns ON "
            "(FC-23).",
        ),
        Misconception(
            "back at stop is OFF again",
            lambda stop, replacements: (stop, "OFF", replacements, 0),
            "the way down is to fewer than resume; back at stop it stays ON (FC-16, FC-23).",
        ),
        Misconception(
            "replacements pile up",
            lambda stop, replacements: (
                (stop + replacements, "ON", 1, replacements) if replacements else (stop, "OFF", 0, 0)
            ),
            "the old value leaves the queue, and with it its held completion (FC-17, FC-23).",
        ),
        Misconception(
            "each replacement waits",
            lambda stop, replacements: (stop, "ON", 1, replacements) if replacements else (stop, "OFF", 0, 0),
            "a held message that is replaced leaves the queue and completes; only the newest is held (FC-17, "
            "FC-23).",
        ),
    ),
    hints=(
        "A replacement is two steps. Which comes first?",
        "First the new message (one above stop: ON, held), then the old one goes (back at stop: still ON).",
        "With at least one replacement: depth stop, ON, count 1, one held. The next one frees the one "
        "before.",
    ),
    rules=("FC-23", "FC-16", "FC-17"),
    shows=("G-08",),
)


def _self_destruct(limit: int, sends: int) -> tuple[bool, int, int]:
    bench = Bench()
    bench.declare("q", max_count=limit, policy_type="self-destruct")
    transfers = bench.send("q", sends)
    exists = bench.exists("q")
    held = sum(not transfer.is_complete for transfer in transfers)
    return exists, bench.depth("q") if exists else 0, held


def _default_stop(limit: int) -> int:
    return int(limit * 0.8 + 0.5)


SELF_DESTRUCT = Exercise(
    "self_destruct",
    "The queue that destroys itself",
    truth=_self_destruct,
    cases=((10, 8), (10, 9), (10, 10), (10, 11), (10, 15), (5, 5), (3, 4)),
    misconceptions=(
        Misconception(
            "it starts again with the last message",
            lambda limit, sends: (
                (True, sends - limit, 0)
                if sends > limit
                else (True, sends, max(0, sends - _default_stop(limit)))
            ),
            "the queue is gone; the message that triggered it and all later ones are dropped (LP-15).",
        ),
        Misconception(
            "the producer waits for ever",
            lambda limit, sends: (
                sends <= limit,
                sends if sends <= limit else 0,
                max(0, min(sends, limit) - _default_stop(limit)),
            ),
            "when a queue is destroyed it lets go of all it holds (FC-21, LP-16).",
        ),
        Misconception(
            "no flow control on such a queue",
            lambda limit, sends: (sends <= limit, sends if sends <= limit else 0, 0),
            "only a ring is exempt. This queue stops at 80 % like any other (LP-16, FC-03).",
        ),
        Misconception(
            "full is too full",
            lambda limit, sends: (
                (sends < limit, sends, max(0, sends - _default_stop(limit)))
                if sends < limit
                else (False, 0, 0)
            ),
            "filling the limit exactly is allowed; the message beyond it triggers it (LP-02, LP-15).",
        ),
    ),
    hints=(
        "Two things happen on the way: at 80 % and beyond 100 %.",
        "Above the default stop transfers are held. The message beyond the limit destroys the queue.",
        "sends <= limit: it exists, depth sends, and sends - stop (at least 0) are held. Else: gone, 0, 0 "
        "held.",
    ),
    rules=("LP-15", "LP-16", "FC-21", "FC-02"),
    shows=("G-06",),
)

EXERCISES = (LVQ_AT_STOP, SELF_DESTRUCT)
