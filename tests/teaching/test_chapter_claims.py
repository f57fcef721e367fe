"""What the chapters' texts say beside their outputs, where no cell of theirs shows it."""

from itertools import pairwise

import pytest

from qflow.kit import kit_path
from qflow.labs import flow_run, recorded_picture
from qflow.labs.opened import agreement
from qflow.logs import ClientLog


@pytest.fixture(scope="module")
def recorded():
    return recorded_picture("slow-consumer")


def test_closer_thresholds_turn_it_on_more_often_up_to_some_distance():
    """Chapter 1, *The surprise*."""
    turned_on = {
        resume: sum(turn.is_on for turn in flow_run(stop=900, resume=resume).frames.transitions)
        for resume in (900, 850, 500, 300)
    }
    assert turned_on[900] > turned_on[850] > turned_on[500] == turned_on[300]


def test_a_window_that_leaves_no_room_kills_the_producer_and_one_of_1_reaches_901():
    """Chapter 1, *Back to the lab*."""
    assert "p1" in flow_run(capacity=120).run.errors
    assert max(flow_run(capacity=1).frames.column("queue.orders.depth")) == 901


def test_the_engine_agrees_with_the_broker_but_for_some_milliseconds(recorded):
    """Chapter 1, *What the real broker did*: where they differ, a change is closer than the next poll."""
    log = ClientLog.load(kit_path("data") / "recordings" / "workloads" / "slow-consumer.csv.gz")
    found = agreement(recorded.frames, "orders", log.statistics("orders"))
    assert found.turned_on == found.really_turned_on == 13
    assert found.agreeing / found.polls > 0.99
    assert found.farthest < found.gap


def test_each_time_it_is_off_it_is_on_again_within_half_a_second(recorded):
    """Chapter 1, *The flood*."""
    changes = recorded.frames.transitions
    assert max(later.time - sooner.time for sooner, later in pairwise(changes) if later.is_on) < 500_000
