"""Words, counts and marks of every lab agree, at each step of its default run and while it plays.

The counts come from the events of the trace (:mod:`ledger_of_events`), not from the frames that the picture
is made of. Where a picture rests, it shows what the trace says; while it plays, a count differs from that by
the marks that are under way, and by nothing else.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from ledger_of_events import counts_by_frame
from test_scripts import evaluate, node

from qflow.labs import (
    bytes_run,
    capacity_run,
    fanout_run,
    flow_run,
    group_run,
    history_run,
    policy_run,
    recorded_picture,
)
from qflow.labs.picture import Comparison, Picture, pictures_of

__all__ = ["node"]

TOUR = {"stop": 40, "resume": 10, "limit": 60, "capacity": 10, "prefetch": 4, "rate": 100, "service": 0.04}
LABS: dict[str, Callable[[], Picture | Comparison]] = {
    "tour": lambda: flow_run(**TOUR, messages=220),
    "thresholds": flow_run,
    "bytes and counts": bytes_run,
    "capacity": capacity_run,
    "a small window": lambda: capacity_run(messages=40, rate=5, stop=2, resume=1, capacity_1=3, capacity_2=2),
    "a death": lambda: capacity_run(messages=300, capacity_1=100),
    "fanout": fanout_run,
    "groups": group_run,
    "policies": policy_run,
    "designs": history_run,
    "recorded": lambda: recorded_picture("capacity-165"),
}


@cache
def pictures(name: str) -> list[Picture]:
    return list(pictures_of(LABS[name]()).values())


@pytest.mark.parametrize("name", LABS)
def test_a_picture_at_rest_counts_what_the_trace_says(name):
    for picture in pictures(name):
        # Of a recording of 16,000 steps every fifth.
        step = 1 + 4 * (picture.frames.count > 10_000)
        rested, truth = evaluate(picture, f"rested(timelines[0], {step})"), counts_by_frame(picture)[::step]
        assert len(rested) == len(truth)
        for seen, true in zip(rested, truth, strict=True):
            marks, frame = seen.pop("marks"), seen.pop("frame")
            if picture.drawing.get("form") == "conveyor":
                # It has no cards of producers, nor a gate.
                assert seen["consumer"] == true["consumer"], frame
                continue
            assert seen == true, frame
            assert marks.get("held", 0) == sum(held for _, held in true["queue"]), frame


@pytest.mark.parametrize(("name", "speed"), [("tour", 0.1), ("a small window", 1.0), ("capacity", 0.1)])
def test_while_it_plays_a_count_differs_from_the_trace_by_the_marks_under_way(name, speed):
    (picture,) = pictures(name)
    truth = counts_by_frame(picture)
    windows = [spot.capacity for spot in picture.frames.topology.producers]
    compared = 0
    for seen in evaluate(picture, f"playing(timelines[0], {speed})"):
        true, marks = truth[seen["frame"]], seen["marks"]

        def total(kind: str, at: int, of: dict[str, Any]) -> int:
            return sum(one[at] for one in of[kind])

        if seen["isStream"]:
            # Too many for an eye are drawn as a stream, not one by one.
            continue
        flying = marks.get("sent", 0) + marks.get("completion", 0)
        assert total("producer", 1, seen) - total("producer", 1, true) >= marks.get("sent", 0)
        assert total("producer", 0, seen) == total("producer", 0, true) + marks.get("sent", 0)
        # Those that are let go one after the other are neither held any more nor home yet.
        assert total("producer", 1, seen) == total("producer", 1, true) + flying + waiting(seen, true, marks)
        assert total("producer", 2, seen) == total("queue", 1, seen) <= marks.get("held", 0)
        assert seen["queue"][0][0] == true["queue"][0][0]
        for (_, outstanding, held), most in zip(seen["producer"], windows, strict=True):
            assert held <= outstanding <= most
        compared += flying > 0
    assert compared > 20, "nothing moved"


def waiting(seen: dict[str, Any], true: dict[str, Any], marks: dict[str, int]) -> int:
    """Return how many are still behind a gate that is open."""
    return max(0, sum(one[2] for one in seen["producer"]) - sum(one[2] for one in true["producer"]))
