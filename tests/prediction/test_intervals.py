"""Intervals and branches: how sure a prediction is, beside the real broker's own repeats; and receipts."""

import json
from functools import cache
from statistics import median

import pytest
from recordings import beginning, load
from test_extract import logged

from qflow.labs import depth_chart
from qflow.logs import ClientLog, LogRow
from qflow.prediction import Settings, predict, receipt_of, replays, score
from qflow.prediction.costs import CreditReturn
from qflow.prediction.disturbances import _is_ticking
from qflow.prediction.replays import MeasuredReplay, recorded_sections
from qflow.prediction.report import report_text
from qflow.prediction.summary import (
    _branch_of,
    _why_near_critical,
    branches,
    interval,
    score_text,
)
from qflow.workload import Consumer, Network, Producer, Workload

SECONDS = 10
"""How much of a recording nine replays are made of: 10 of 30 s show the same in a third of the time."""


def predicted(name, run=1, seconds=SECONDS, **how):
    """The prediction of the first seconds of a recording."""
    log, workload = beginning(name, seconds, run)
    return predict(workload, log, **how)


def recorded(name, run=1, seconds=SECONDS):
    log, workload = beginning(name, seconds, run)
    return recorded_sections(workload, log, seconds * 1_000_000)["queues"]


def test_releases_of_groups_are_predicted_since_all_that_is_read_at_once_goes_first():
    """CN-29, RF-08: with output after each accept a consumer would keep its group; recorded, it loses it."""
    found = predicted("groups-release", seconds=15, replays=1)["queues"]["q"]["predicted"]
    truth = recorded("groups-release", seconds=15)["q"]
    # A log shows how often messages were released; which ones, a replay draws.
    assert found["throughput"] == pytest.approx(truth["throughput"], rel=0.02)
    assert found["mean_depth"] == pytest.approx(truth["mean_depth"], rel=0.01)
    assert abs(found["flowStoppedCount"] - truth["flowStoppedCount"]) <= 1


@pytest.mark.parametrize(
    ("source", "run"), [("slow-consumer", 1), pytest.param("slow-consumer", 3, marks=pytest.mark.thorough)]
)
def test_the_intervals_hold_what_other_runs_of_the_same_workload_show(source, run):
    report = predicted(source, run, 7, replays=9)
    held = [
        low <= truth[measure] <= high
        for other in {1, 2, 3} - {run}
        for name, truth in recorded(source, other, 7).items()
        for measure, (low, high) in report["queues"][name]["interval"].items()
    ]
    assert sum(held) >= 0.75 * len(held)
    assert report["queues"]["orders"]["near_critical"] is None
    assert "queue orders: on average between" in report_text(report)


@pytest.mark.slow
def test_a_session_that_died_in_every_recording_dies_in_some_replays():
    """Which one, and when, is chance: who wakes up late, and so is first at a tick or not (CN-30)."""
    report = predicted("fanout-wide", replays=9)
    assert max(entry["dies"] for entry in report["producers"].values()) >= 0.2
    assert "sessions end in some replays and not in others" in report["queues"]["fast"]["near_critical"]
    # Branches are narrow where one interval over all is not.
    assert sum(branch["share"] for branch in report["branches"]) == pytest.approx(1)
    widths = [
        (high - low) / high
        for branch in report["branches"]
        for measures in branch["queues"].values()
        for low, high in measures.values()
        if high
    ]
    assert median(widths) <= 0.3
    assert "every session lives" in report_text(report)
    json.dumps(report)


@pytest.mark.slow
def test_bounds_hold_a_session_that_ends_in_no_replay():
    """Recorded, p1's session ended after 7.1 s; its queue comes near its limit in every replay."""
    wide, workload = load("fanout-wide", 1)[1], load("fanout-one-slow", 0)[1]
    report = predicted("fanout-one-slow", 0, settings=Settings.of(wide, workload), replays=3)
    fast = report["queues"]["fast"]
    assert fast["near_limit"] == 1 and fast["ends_from"] < 7.1
    assert f"holds if it does so from {fast['ends_from']:.3g} s on" in report_text(report)
    for name, truth in recorded("fanout-wide").items():
        assert report["queues"][name]["kinds"]["throughput"] == "bound"
        low, high = report["queues"][name]["interval"]["throughput"]
        assert low <= truth["throughput"] <= high


@cache
def low_from_recorded():
    """What was recorded of bytes-and-count-low, and its intervals from a log of bytes-and-count."""
    low, workload = (load(name, 1)[1] for name in ("bytes-and-count-low", "bytes-and-count"))
    report = predicted("bytes-and-count", settings=Settings.of(low, workload), replays=9)
    return recorded("bytes-and-count-low")["q"], report["queues"]["q"]["interval"]


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["mean_depth", "throughput", "flowStoppedCount"])
def test_other_thresholds_are_predicted_within_the_interval(measure):
    """CN-30: who comes first at a tick decides how often flow control turns OFF."""
    truth, found = low_from_recorded()
    low, high = found[measure]
    assert low <= truth[measure] <= high


@cache
def small():
    """A workload with a network, and what its clients log."""
    network = Network(ack_delay=0.04, tick=0.004, wakes=(0.0, 0.001, 0.002))
    workload = Workload(
        "small",
        4,
        {"q": {"qpid.flow_stop_count": 40, "qpid.flow_resume_count": 20}},
        producers=(Producer("p", ("", "q"), 200, 10, 100, network=network),),
        consumers=(Consumer("c", "q", 10, ("exp", 0.006), seed=3, network=network),),
    )
    return workload, logged(workload)


def test_the_same_seed_gives_the_same_over_any_number_of_processes(monkeypatch):
    monkeypatch.setattr(replays, "ALONE", 0)

    @cache
    def report(seed, processes):
        return predict(*small(), replays=4, seed=seed, processes=processes)

    assert report(0, 1) == report(0, 2) == report(0, 3)
    assert report(1, 1) == report(1, 2)
    assert report(1, 1)["queues"]["q"]["interval"] != report(0, 1)["queues"]["q"]["interval"]


@cache
def nine_replays():
    return predict(*small(), replays=9)


def test_what_is_shown_lies_in_its_interval():
    entry = nine_replays()["queues"]["q"]
    assert set(entry["interval"]) == set(entry["predicted"])
    for measure, (low, high) in entry["interval"].items():
        assert low <= entry["predicted"][measure] <= high
    low, high = entry["interval"]["mean_depth"]
    assert low < high


def test_the_depth_over_time_is_a_band_around_what_is_shown():
    report = nine_replays()
    course = report["queues"]["q"]["course"]
    assert course["seconds"][-1] == 4
    assert len({len(column) for column in course.values()}) == 1
    assert all(low <= high for low, high in zip(course["low"], course["high"], strict=True))
    inside = [
        low <= depth <= high
        for low, depth, high in zip(course["low"], course["depth"], course["high"], strict=True)
    ]
    assert sum(inside) > 0.8 * len(inside)
    assert report["queues"]["q"]["thresholds"] == {"limit": 0, "stop": 40, "resume": 20}

    chart = depth_chart(report)
    band, line = chart.figure.data
    assert (band.name, line.name) == ("80 of 100 replays", "predicted depth of q")
    corners = dict(zip(band.x[:2], band.y[:2], strict=False))
    assert list(corners.values())[0] in (course["low"][0], course["high"][0])
    assert chart.claims[0].startswith("queue q: on average between ")
    assert chart.svg.count('class="b"') == 1
    with pytest.raises(KeyError, match="no queue 'r' in this prediction; there are q"):
        depth_chart(report, "r")


def test_a_single_replay_has_neither_interval_nor_band():
    report = predict(*small(), replays=1)
    assert report["replays"]["number"] == 1
    assert report["replays"]["outcomes"] == [{"ended": [], "replays": 1}]
    assert report["queues"]["q"]["interval"] == {}
    assert report["queues"]["q"]["course"]["low"] == []
    assert [trace.name for trace in depth_chart(report).figure.data] == ["predicted depth of q"]


@pytest.mark.parametrize(
    ("values", "cover", "low", "high"),
    [
        # Of 9 the smallest and the largest: the tenth lies between them in 8 of 10 cases.
        (range(100, 109), 0.8, 100, 108),
        # In 7 of 10 it lies between the middles of the two that are outermost on each side.
        (range(100, 109), 0.7, 100.5, 107.5),
        # Of 19 the second smallest and the second largest: in 16 of 20; the third: in 14 of 20.
        ([*range(100, 118), 900], 0.8, 101, 117),
        ([*range(100, 118), 900], 0.7, 102, 116),
        ([7, 7], 0.8, 7, 7),
        ([7], 0.8, 7, 7),
    ],
)
def test_an_interval_lies_between_replays_of_the_same_rank(values, cover, low, high):
    assert interval("mean_depth", list(values), cover) == [low, high]


@pytest.mark.parametrize(
    ("rate", "throughput", "words"),
    [
        (200, 202.0, "consumers are 1 % faster than producers: the depth is a random walk"),
        (200, 190.0, "consumers are 5 % slower than producers: the depth is a random walk"),
        (200, 200.0, "consumers are as fast as producers: the depth is a random walk"),
        (200, 400.0, "little decides, and each time otherwise"),
    ],
)
def test_a_near_critical_queue_has_a_reason(rate, throughput, words):
    workload = Workload("w", 10, {"q": {}}, producers=(Producer("p", ("", "q"), rate, 10, 100),))
    replay = MeasuredReplay({"queues": {"q": {"throughput": throughput}}}, {}, filled={"q": 1.0})
    found = _why_near_critical(workload, "q", {"mean_depth": 50.0}, {"mean_depth": [20.0, 90.0]}, [replay])
    assert found == f"mean_depth: {words}"


def test_sessions_that_end_now_and_then_are_the_reason():
    workload = Workload("w", 10, {"q": {}}, producers=(Producer("p", ("", "q"), 100, 10, 100),))
    sections = {"queues": {"q": {"throughput": 5.0}}}
    replays = [MeasuredReplay(sections, errors) for errors in ({"p": "506"}, {}, {})]
    found = _why_near_critical(workload, "q", {"mean_depth": 50.0}, {"mean_depth": [20.0, 90.0]}, replays)
    assert found.endswith("sessions end in some replays and not in others: p's in 1 of 3")


def test_ticks_are_seen_only_where_ends_lie_together_and_begins_do_not():
    """CN-29: 40 ms and up to the next tick; or a delay of any length; or all at the same instants anyway."""
    begins = [n * 51_000 + 137 * n * n % 4_000 for n in range(200)]
    at_ticks = [CreditReturn(begin, -(-(begin + 40_000) // 4_000) * 4_000 - begin + 700) for begin in begins]
    assert _is_ticking(at_ticks)
    assert not _is_ticking([CreditReturn(begin, 42_000) for begin in begins])
    assert not _is_ticking([CreditReturn(n * 48_000, 44_000) for n in range(200)])


# Branches, and receipts: a prediction for each way it can go, and what came of it


def replay(depth, **ended):
    sections = {"queues": {"q": {"mean_depth": depth, "discards": 0}}, "producers": {}}
    return MeasuredReplay(sections, ended, ended_at=ended)


def test_replays_are_parted_by_whose_session_ended_and_by_when():
    early = [replay(10.0 + n / 10, p=2.0 + n / 20) for n in range(3)]
    late = [replay(30.0, p=6.0), replay(30.3, p=6.05)]
    found = branches([*(replay(60.0 + n) for n in range(15)), *early, *late])
    shares = [(branch["share"], branch["when"]["ended"]) for branch in found]
    assert shares == [(0.75, {}), (0.15, {"p": [2.0, 2.1]}), (0.1, {"p": [6.0, 6.05]})]
    low, high = found[1]["queues"]["q"]["mean_depth"]
    assert 9.5 < low < 10.1 < high < 11
    assert _branch_of(found, {"p": 5.0}) is found[2]
    assert _branch_of(found, {"c": 5.0}) is None


def test_a_death_at_another_instant_than_in_any_replay_is_said_to_be_one():
    branch = {"share": 0.25, "when": {"ended": {"p": [2.0, 2.5]}}}
    found = {"inputs": {"log": {"name": "w", "sha256": ""}}, "measures": [], "branch": branch}
    said = score_text(found | {"ended": {"p": 6.0}}).splitlines()[-1]
    assert "p dies at 6 s, as in no replay; nearest to that: p dies at 2 to 2.5 s (predicted: 25 %)" in said
    assert "in no replay" not in score_text(found | {"ended": {"p": 2.6}})


def test_there_are_no_branches_where_all_replays_end_alike():
    assert branches([replay(1.0), replay(2.0)]) == branches([replay(1.0, p=2.0)] * 3) == []


def test_a_receipt_says_from_what_and_a_score_what_came():
    _, log = small()
    receipt = json.loads(json.dumps(receipt_of(nine_replays())))
    assert receipt["inputs"]["log"]["rows"] == len(log.rows)
    assert receipt["inputs"]["seed"] == 0
    found = score(receipt, log)
    assert found["measures"] == []  # Without reports of the broker nothing of a queue was recorded.
    stats = [
        LogRow(time, "broker", "stats", "q", "[5, 1, false, 0, 1, 0, 0]", 0, "")
        for time in range(0, 4_000_000, 50_000)
    ]
    found = score(receipt, ClientLog("later", sorted([*log.rows, *stats])))
    assert {one["measure"]: one["inside"] for one in found["measures"]}["mean_depth"] is False
    assert found["branch"] is None
