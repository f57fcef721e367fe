"""Replays: how far chance decides, and what is shown where it does."""

from math import log
from statistics import fmean

import pytest
from recordings import beginning, load

from qflow.logs import ClientLog
from qflow.logs.client_log import client_rows
from qflow.prediction import Settings, predict, replays
from qflow.prediction.replays import PACE, REPLAYS, MeasuredReplay, _near_limits, vary_chance
from qflow.prediction.report import report_text
from qflow.workload import Consumer, Network, Producer, Workload, simulate


@pytest.fixture(scope="module")
def on_the_edge():
    """The clients of one recording under the tighter limits of another, in which one producer died."""
    log, workload = load("bytes-and-count")
    _, target = load("overflow-despite-flow-control")
    source = workload.replace(duration=target.duration)
    return predict(source, log, Settings.of(target, source), replays=9)


def test_a_bound_holds_the_recording_where_few_bytes_decide(on_the_edge):
    assert on_the_edge["is_bound"] and "p1" in on_the_edge["errors"]
    log, _ = load("overflow-despite-flow-control")
    accepted = sum(row.event == "accept" and row.ts_us <= 15_000_000 for row in log.rows)
    found = on_the_edge["queues"]["q"]["interval"]
    for measure, recorded in (("throughput", accepted / 15), ("share_on", 0.0614), ("flowStoppedCount", 2)):
        low, high = found[measure]
        assert low <= recorded <= high


def test_the_report_says_how_often_it_ended_so(on_the_edge):
    replays = on_the_edge["replays"]
    assert replays["number"] == sum(outcome["replays"] for outcome in replays["outcomes"]) == 9
    # Recorded: p1's session died, p2's did not.
    producers = on_the_edge["producers"]
    assert producers["p1"]["dies"] >= 0.5 > producers["p2"]["dies"]
    first, last = producers["p1"]["dies_at"]
    assert 0 < first <= last <= 15
    assert "producer p1: its session dies in" in report_text(on_the_edge)


def small(**queue):
    return Workload(
        "small",
        3,
        {"q": queue or {"qpid.flow_stop_count": 40, "qpid.flow_resume_count": 20}},
        producers=(Producer("p", ("", "q"), 200, 10, 100),),
        consumers=(Consumer("c", "q", 5, ("exp", 0.008), overhead=(0.0, 0.004, 0.001, 0.002)),),
    )


def log_of(workload):
    return ClientLog("small", list(client_rows(simulate(workload).events, workload.producers)))


def test_the_replay_in_the_middle_is_shown():
    """The log's own instants say nothing of another day."""
    log, workload = beginning("capacity-165", 10)
    report = predict(workload, log, replays=3)
    assert report["replays"]["number"] == 3
    depths = report["replays"]["values"]["q"]["mean_depth"]
    assert report["queues"]["q"]["predicted"]["mean_depth"] == pytest.approx(sorted(depths)[1], rel=0.05)


@pytest.mark.parametrize(
    ("ends", "asked", "number"),
    [
        (lambda place: False, None, 19),
        (lambda place: True, None, 19),
        # 1 of 19 may be a tenth or a quarter; 2 of 38 is rare.
        (lambda place: place % 19 == 3, None, 38),
        (lambda place: place % 4 == 1, None, 57),
        (lambda place: place % 2 == 1, None, 57),
        (lambda place: place % 4 == 1, 9, 9),
    ],
)
def test_there_are_more_replays_where_a_session_ends_in_some_only(monkeypatch, ends, asked, number):
    tried = []

    def replay(task, progress=None):
        tried.append((task.place, task.of))
        errors = {"p": "506 resource-limit-exceeded"} if ends(task.place) else {}
        return MeasuredReplay(
            {"queues": {}, "producers": {}, "consumers": {}}, errors, near=("q",), events=1000
        )

    monkeypatch.setattr(replays, "replay_once", replay)
    found = predict(small(), ClientLog("empty", []), replays=asked)["replays"]
    assert found["number"] == number
    ended = sum(ends(place) for place in range(number))
    assert {len(outcome["ended"]): outcome["replays"] for outcome in found["outcomes"]}.get(1, 0) == ended
    of = asked or REPLAYS
    assert tried == [(0, 1), *((place, of) for place in range(1, number))]


def test_shifting_changes_nothing_but_when_interruptions_come_and_the_machines_pace():
    workload = small().with_consumer("c", overhead=(0.0, 0.0005, 0.001, 0.0015))
    assert vary_chance(workload, 0) == workload
    moved = vary_chance(workload, 1, of=2)
    before, after = sorted(workload.consumers[0].overhead), sorted(moved.consumers[0].overhead)
    pace = after[-1] / before[-1]
    assert pace != 1
    assert after == pytest.approx([pace * time for time in before])
    assert moved.with_consumer("c", overhead=workload.consumers[0].overhead) == workload


def test_a_machine_has_other_work_more_often_or_more_rarely():
    """CN-31: recorded again, consumers are interrupted 0.4 to 2.5 times as often."""
    since = [second + second * 7 % 20 / 25 for second in range(0, 60, 2)]
    steps = tuple(step for time in since for step in ((time, 0.02), (time + 0.01, 0.001)))
    workload = small().replace(duration=60)
    workload = workload.with_consumer("c", overhead=(0.001,), network=Network(latencies=steps))
    numbers = []
    for place in range(19):
        consumer = vary_chance(workload, place).consumers[0]
        pace = consumer.overhead[0] / 0.001
        found = [round(time / pace, 6) for _, time in consumer.network.latencies]
        assert set(found) <= {0.02, 0.001}
        numbers.append(found.count(0.02))
    assert numbers[0] == 30
    assert sorted(numbers)[1] < 15 and sorted(numbers)[-2] > 55
    assert sum(number < 30 for number in numbers) in range(6, 13)


def test_few_replays_are_spread_like_many():
    """CN-31: of each number there is one replay in each equal part of what chance may do."""
    workload = small().with_consumer("c", overhead=(0.001,))
    for of in (9, 19):
        paces = [
            log(vary_chance(workload, place, of).consumers[0].overhead[0] / 0.001) for place in range(of)
        ]
        assert paces[0] == 0
        assert sum(pace < 0 for pace in paces) == of // 2 == sum(pace > 0 for pace in paces)
        assert fmean(pace**2 for pace in paces) ** 0.5 == pytest.approx(PACE, rel=0.2)
        # Further ones are others, spread as evenly.
        further = [
            log(vary_chance(workload, of + place, of).consumers[0].overhead[0] / 0.001) for place in range(of)
        ]
        assert sorted(further) == pytest.approx(sorted(paces), abs=0.3)
        assert not set(further) & set(paces)


def test_all_that_a_machine_does_is_slower_by_the_same_factor():
    """Recorded: work of clients, what services take beyond their draws, how late clients wake up."""
    network = Network(
        latency=0.001,
        send_cost=0.002,
        report_cost=0.003,
        report_growth=0.004,
        wakes=(0.005,),
        crowded=(0.006,),
    )
    workload = small()
    workload = workload.with_consumer("c", network=network, overhead=(0.001,))
    workload = workload.with_producer("p", network=network)
    moved = vary_chance(workload, 1)
    pace = moved.consumers[0].overhead[0] / 0.001
    for client in (*moved.producers, *moved.consumers):
        slower = client.network
        found = [slower.latency, slower.send_cost, slower.report_cost, slower.report_growth]
        found += [*slower.wakes, *slower.crowded]
        assert found == pytest.approx([pace * number / 1000 for number in range(1, 7)])
        assert slower.ack_delay == network.ack_delay


@pytest.mark.parametrize(
    ("queue", "is_near"),
    [
        ({"qpid.max_count": 50, "qpid.flow_stop_count": 40, "qpid.flow_resume_count": 20}, False),
        ({"qpid.max_count": 49, "qpid.flow_stop_count": 40, "qpid.flow_resume_count": 20}, True),
        ({"qpid.max_size": 7_000, "qpid.flow_stop_size": 6_500, "qpid.flow_resume_size": 100}, True),
        ({"qpid.max_count": 20, "qpid.policy_type": "ring"}, False),
    ],
)
def test_a_limit_is_near_unless_the_thresholds_keep_away_from_it(queue, is_near):
    assert _near_limits(simulate(small(**queue))).keys() == ({"q"} if is_near else set())


@pytest.mark.parametrize(("room", "share"), [(1, 1.0), (100, 0.0)])
def test_a_queue_that_comes_near_its_limit_is_said_though_every_session_lived(room, share):
    log = log_of(small(**{"qpid.flow_stop_count": 0}).replace(consumers=()))
    sent = sum(row.event == "transfer" for row in log.rows)
    near = small(**{"qpid.max_count": sent + room, "qpid.flow_stop_count": 0}).replace(consumers=())
    report = predict(near, log, replays=3)
    assert report["queues"]["q"]["near_limit"] == share and report["producers"]["p"]["dies"] == 0
    said = "queue q comes within 5 % of its limit in 3 of 3 replays" in report_text(report)
    assert said is bool(share)
