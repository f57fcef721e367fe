"""Runs that are drawn while they are incomplete: the result and what was shown do not change."""

from __future__ import annotations

import gc
import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qflow.broker.message import Message, Transfer
from qflow.labs import flow_workload
from qflow.labs.experiments import fanout_workload, history_workload, policy_workload
from qflow.labs.fold import Fold, fold
from qflow.labs.frames import Frames
from qflow.labs.picture import picture_of
from qflow.labs.running import draw_steps, finish_steps
from qflow.labs.topology import Topology
from qflow.workload import Run, Workload, simulate
from qflow.workload.stage import pause_collector

WORKLOADS = [
    flow_workload(stop=20, resume=10, capacity=5),
    fanout_workload(stop=6, resume=3, capacity=4),
    policy_workload(policy="self-destruct"),
    policy_workload(policy="priority"),
    history_workload(flow_control="java"),
]


@cache
def run_of(number: int) -> Run:
    """Return a run of one of the workloads."""
    return simulate(WORKLOADS[number], message_limit=60)


def numbers(frames: Frames) -> list[object]:
    """Return all the data of some frames."""
    lasting = {name: table.data for name, table in frames.lasting.items()}
    return [frames.topology, frames.channels, frames.columns, frames.rows, frames.groups, lasting]


def seen_at(frames: Frames, frame: int) -> list[object]:
    """Return everything shown in a frame: its numbers, the places of messages, and the held completions."""
    seen: list[object] = [frames.at(frame)]
    for table in frames.lasting.values():
        rows = list(table.alive(frame))
        seen.append(rows)
        if "held_start" in table.columns:
            held = (table.get(row, "held_start") <= frame < table.get(row, "held_end") for row in rows)
            seen.append(list(held))
    return seen


def some_workload(seed: int) -> Workload:
    draw = random.Random(seed)
    stop = draw.randrange(20, 200)
    return flow_workload(
        stop=stop,
        resume=draw.randrange(1, stop),
        limit=0,
        capacity=draw.randrange(1, 60),
        prefetch=draw.randrange(1, 40),
        rate=draw.randrange(200, 3_000),
        service=draw.uniform(0.001, 0.01),
    )


@settings(max_examples=40)
@given(st.integers(0, len(WORKLOADS) - 1), st.lists(st.integers(0, 700), max_size=5))
def test_a_run_may_be_folded_in_portions(number: int, cuts: list[int]):
    run = run_of(number)
    folding = Fold(Topology.of(run.workload, run.end))
    for cut in sorted(cuts):
        folding.follow(run.events[: max(cut, folding.seen)])
    folding.follow(run.events)
    folding.end()
    assert numbers(folding.whole(run.end)) == numbers(fold(run))


@pytest.mark.parametrize("seed", range(6))
def test_a_picture_drawn_as_the_run_goes_is_that_of_the_run_in_one_go(seed):
    """The bytes and sentences are the same however the time is sliced."""
    in_one_go = picture_of(simulate(some_workload(seed), message_limit=400))
    as_it_goes = finish_steps(draw_steps(some_workload(seed), 400))
    assert as_it_goes.payload() == in_one_go.payload()
    assert as_it_goes.claims == in_one_go.claims
    assert as_it_goes.run.events == in_one_go.run.events


def test_what_is_seen_of_an_instant_does_not_depend_on_how_far_the_run_has_come():
    workload = flow_workload(stop=20, resume=10, capacity=5)
    whole = finish_steps(draw_steps(workload, 200)).frames
    seen = 0
    for part in draw_steps(workload, 200):
        sketch = part.draw(0).frames
        assert sketch.count == part.frames
        assert whole.count == sketch.count or whole.at(sketch.count)["time"] > part.time
        for frame in range(seen, sketch.count):
            assert seen_at(sketch, frame) == seen_at(whole, frame)
        seen = sketch.count
    assert seen == whole.count


def test_the_picture_of_a_part_says_up_to_where_it_knows_and_leaves_room_for_the_rest():
    parts = draw_steps(flow_workload(stop=20, resume=10, capacity=5), 200)
    part = next(part for part in parts if part.time > 300_000)
    picture = part.draw(2_000_000)
    assert picture.frames.topology.end == part.time
    assert picture.payload()["room"] == picture.room == 2_000_000
    assert part.draw(0).room == part.time
    assert picture.claims == ()
    assert all(to <= part.time for lane in picture.lanes for _, to in lane.spans)
    assert "room" not in finish_steps(parts).payload()


def test_the_collector_is_left_as_it_was_whether_a_run_ends_or_is_dropped():
    for steps in (1, None):
        parts = draw_steps(flow_workload(stop=20, resume=10), 50)
        for _ in zip(parts, range(steps or 10**9), strict=False):
            assert gc.isenabled()
        parts.close()
        assert gc.get_freeze_count() == 0


def test_a_run_leaves_nothing_in_memory():
    def messages() -> int:
        return sum(type(one) in (Message, Transfer) for one in gc.get_objects())

    gc.collect()
    before = messages()
    with pause_collector():
        for part in draw_steps(flow_workload(stop=20, resume=10), 300):
            part.draw(0)
        del part
        assert messages() == before, "a whole run leaves something to the collector"
        dropped = draw_steps(flow_workload(stop=20, resume=10), 300)
        next(dropped).draw(0)
        dropped.close()
        del dropped
    gc.collect()
    assert messages() == before, "a run that is dropped is hidden from the collector"
