"""Bytes at a risk: never below what chance does, far below the hard bound, and marked as no proof."""

from __future__ import annotations

from random import Random

import pytest

from qflow.design import judge_workload, recommend
from qflow.design.bounds import FullWindow, bytes_at_risk
from qflow.design.recommend import recommendation_text
from qflow.workload import Consumer, Producer, Workload

WINDOW, DRAWN = 120, (8.0, 0.9, 30_000)


def sums(chance, count):
    """Return what so many windows hold, of whose messages one was drawn in proportion to its size."""
    mu, sigma, largest = DRAWN
    found = []
    for _ in range(count):
        sizes = [min(chance.lognormvariate(mu, sigma), largest) for _ in range(WINDOW)]
        while chance.random() > sizes[0] / largest:
            sizes[0] = min(chance.lognormvariate(mu, sigma), largest)
        found.append(sum(sizes))
    return sorted(found)


def test_windows_exceed_it_no_more_often_than_it_says():
    """Chernoff's bound is one: of 4,000 windows at most as many are above it as the risk allows."""
    found = sums(Random(5), 4_000)
    for risk in (0.1, 0.01, 0.001):
        bound = bytes_at_risk([FullWindow(WINDOW, DRAWN, 0)], risk)
        above = sum(value > bound for value in found)
        assert above <= risk * len(found)
    # And is no wild guess: 1.3 times what one in a thousand exceeds.
    assert found[-4] < bytes_at_risk([FullWindow(WINDOW, DRAWN, 0)], 0.001) < 1.3 * found[-4]


def test_it_is_between_the_mean_and_the_hard_bound_and_grows_with_care():
    found = [bytes_at_risk([FullWindow(WINDOW, DRAWN, 46)], risk) for risk in (0.1, 1e-3, 1e-6, 1e-9)]
    assert sorted(found) == found and found[-1] < WINDOW * (30_000 + 46) / 2
    assert bytes_at_risk([FullWindow(1, DRAWN, 0)], 1e-12) <= 30_000
    assert bytes_at_risk([FullWindow(7, 100, 46), FullWindow(2, 50, 0)]) == 7 * 146 + 2 * 50


def test_without_a_largest_size_there_is_a_risk_and_no_proof():
    free = bytes_at_risk([FullWindow(WINDOW, DRAWN[:2], 0)])
    assert (
        bytes_at_risk([FullWindow(WINDOW, DRAWN, 0)])
        < free
        < 2 * bytes_at_risk([FullWindow(WINDOW, DRAWN, 0)])
    )


def drawn(size):
    return Workload(
        "sizes",
        2,
        {"q": {"qpid.max_size": 4_000_000}},
        producers=(Producer("p", ("", "q"), rate=100, capacity=WINDOW, size=size),),
        consumers=(Consumer("c", "q", prefetch=5, service=("exp", 0.02)),),
    )


@pytest.mark.parametrize(("size", "is_proved"), [(DRAWN, True), (DRAWN[:2], False)])
def test_a_recommendation_has_both_and_says_which_is_proved(size, is_proved):
    made = recommend(drawn(size), keep_capacities=True, message_limit=100)
    queue = made.asdict()["queues"]["q"]
    stop = queue["arguments"]["qpid.flow_stop_size"]
    assert (queue["max_bytes_proved"] is not None) is is_proved
    assert queue["max_bytes_at_risk"]["risk"] == 1e-6
    if is_proved:
        # A header adds to each, and is the same for all.
        assert stop < queue["max_bytes_at_risk"]["bytes"] < queue["max_bytes_proved"] <= 4_000_000
        assert judge_workload(made.workload)["q"].is_safe
    said = recommendation_text(made, {"p": WINDOW})
    assert "at a risk of 1e-06 each time the windows fill: never more than" in said
    assert ("have no largest, so nothing is proved" in said) is not is_proved
