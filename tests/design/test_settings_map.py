"""The map of settings: what it says of each cell is what its run shows, and the law holds in all."""

import re

import pytest

from qflow.design import DesignError, SettingsMap
from qflow.design.settings_map import KINDS, UNKNOWN, Axis, map_of_queue, plan_map
from qflow.labs.experiments import capacity_workload, fanout_workload, flow_workload
from qflow.workload import Producer, Workload, simulate

FIXED = {"limit": 160, "resume": 60, "rate": 3_000}


def drawn_by(processes) -> SettingsMap:
    return plan_map(flow_workload, FIXED, "stop", "capacity", cells=5, messages=300).run(processes)


@pytest.fixture(scope="module")
def drawn() -> SettingsMap:
    return drawn_by(1)


def test_it_reaches_from_1_to_where_nothing_is_safe(drawn):
    """The law's line goes from corner to corner: 1 + 159 is 160, one more is too much (CAP-11)."""
    assert drawn.across.values == (1, 41, 81, 120, 160)
    assert drawn.up.values == (1, 41, 81, 120, 160)
    for place in range(len(drawn)):
        settings = drawn.at(place)
        assert drawn.is_safe[place] == (settings["stop"] + settings["capacity"] <= 160)
        assert settings["resume"] == min(60, settings["stop"])


def test_each_cell_is_what_its_run_shows(drawn):
    for place in range(0, len(drawn), 3):
        run = simulate(flow_workload(**drawn.at(place)), message_limit=300)
        depths = [event.detail["depth"] for event in run.events if event.kind == "enqueued"]
        assert drawn.found[place].max_depth == max(depths)
        assert set(drawn.found[place].sessions_ended) == set(run.errors)
        assert (drawn.kind(place) == "dead") == bool(run.errors)


def test_no_session_dies_where_the_law_holds_and_words_agree(drawn):
    kinds = [drawn.kind(place) for place in range(len(drawn))]
    assert all(kind == "safe" for kind, is_safe in zip(kinds, drawn.is_safe, strict=True) if is_safe)
    law, counted = drawn.claims
    assert f"{sum(drawn.is_safe)} of the 25 settings" in law
    numbers = [int(number) for number in re.findall(r"(\d+) (?:are|stayed|reached|ended)", counted)]
    assert numbers == [kinds.count(kind) for kind in KINDS if kind in kinds]
    assert sum(numbers) == 25


def test_several_processes_give_the_same_map(drawn):
    assert drawn_by(2).found == drawn.found


def test_it_is_begun_coarse_and_says_how_much_is_known():
    begun = plan_map(flow_workload, {}, "stop", "capacity")
    order, coarse = begun.order(), begun.coarse
    assert len(order) == len(set(order)) == 900 and set(order[: len(coarse)]) == set(coarse)
    assert len(coarse) == 16
    assert "So far 0 of 900 are run" in begun.claims[1]
    # Nothing is filled but what the law promises; the line of the law is there at once.
    cells = begun.svg().partition('<g class="qf-map-cells">')[2].partition("</g>")[0]
    assert begun.pack()[0] == UNKNOWN and cells.count("<path") == 1 and "qf-map-promised" in cells
    assert begun.svg().count('class="qf-map-law"') == 2


def test_a_queue_s_name_is_text_in_its_drawing():
    producer = Producer("p", ("", "<b>&"), rate=9, capacity=2, size=9)
    workload = Workload("w", 1, {"<b>&": {"qpid.max_count": 9}}, producers=(producer,))
    assert "stop threshold of &lt;b&gt;&amp; (" in map_of_queue(workload, "<b>&", cells=2, messages=9).svg()


def test_the_map_of_a_queue_keeps_the_proportions_of_the_capacities():
    workload = capacity_workload(limit=40, stop=20, resume=10, capacity_1=30)
    drawn = map_of_queue(workload, "orders", cells=4, messages=100, processes=1)
    assert (drawn.across.values, drawn.up.values) == ((1, 14, 27, 40), (2, 16, 31, 45))
    windows = [[p.capacity for p in drawn.workload(4 * row).producers] for row in range(4)]
    assert windows == [[1, 1], [10, 6], [20, 11], [30, 15]]
    for place in range(len(drawn)):
        settings = drawn.at(place)
        assert drawn.is_safe[place] == (settings["stop"] + settings["capacity"] <= 40)


@pytest.mark.parametrize(
    ("queue", "arguments", "sentence"),
    [
        ("other", {}, "a map: no queue 'other' in the workload, which has orders"),
        ("orders", {"qpid.max_count": None}, "a map of queue 'orders' needs a limit (qpid.max_count, qpid"),
    ],
)
def test_a_queue_without_a_map_is_said(queue, arguments, sentence):
    workload = capacity_workload().with_queue("orders", arguments)
    with pytest.raises(DesignError, match=re.escape(sentence)):
        map_of_queue(workload, queue)


def test_without_a_limit_nothing_can_be_full():
    drawn = plan_map(fanout_workload, {}, "stop", "capacity", cells=2, messages=60).run(1)
    assert "No queue has a limit" in drawn.claims[0]
    assert {drawn.kind(place) for place in range(4)} == {"safe"}


def test_the_lab_is_on_its_map_wherever_it_is():
    assert plan_map(flow_workload, {**FIXED, "capacity": 200}, "stop", "capacity").up == Axis(
        "capacity", "capacity of each producer", tuple(1 + round(199 * n / 29) for n in range(30))
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"cells": 0}, "a map: cells must be a whole number from 1, got 0"),
        ({"messages": 1.5}, "a map: messages must be a whole number from 1, got 1.5"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_sentence(change, sentence):
    with pytest.raises(DesignError, match=re.escape(sentence)):
        plan_map(flow_workload, {}, "stop", "capacity", **change)


def test_it_is_a_table_of_its_cells(drawn):
    columns = drawn.columns()
    assert list(columns) == ["stop", "capacity", "kind", "max_depth", "blocked_share", "sessions_ended"]
    assert len(columns["stop"]) == 25 and drawn.to_arrow().num_rows == 25
