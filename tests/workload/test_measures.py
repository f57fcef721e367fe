"""Measures: one definition each, whichever way they are asked for."""

import json
from dataclasses import replace
from itertools import islice

import pytest
from commands import output_of
from percentile_table import PERCENTILES

from qflow.design.frontier import _meter_of
from qflow.labs import flow_lab, flow_run, policy_lab
from qflow.labs.experiments import capacity_workload, fanout_workload, flow_workload
from qflow.labs.picture import picture_of
from qflow.logs.audit import Intervals
from qflow.logs.client_log import ClientLog
from qflow.logs.components import lake_of
from qflow.logs.log_file import LogRow
from qflow.prediction.replays import _predicted_sections, _rows_of_run, recorded_sections
from qflow.spark.sweep import AS_RECORDED, _measure_component
from qflow.trace import Trace
from qflow.trace.cli import _summarize
from qflow.workload import Consumer, Producer, Workload, simulate
from qflow.workload.agenda import SECOND
from qflow.workload.arrivals import due_messages
from qflow.workload.cli import _summarise
from qflow.workload.measured import POINTS, measure
from qflow.workload.measures import (
    DepthMeter,
    ProducerMeter,
    latency_measures,
    meters_of,
    queue_measures,
    wait_measures,
)
from qflow.workload.network import Network
from qflow.workload.simulate import set_up
from qflow.workload.stage import GRACE

STALLED = Workload(
    "stalled",
    10,
    {"q": {"qpid.flow_stop_count": 10, "qpid.flow_resume_count": 5}},
    producers=(Producer("p", ("", "q"), rate=100, capacity=5, size=100, arrival="const"),),
)
READ = STALLED.replace(consumers=(Consumer("c", "q", prefetch=3, service=("const", 0.015)),))
DEAD = READ.with_queue("q", {"qpid.max_count": 12}).replace(
    producers=tuple(
        Producer(name, ("", "q"), 100, 5, 100, window="qpid-cpp", session="s", seed=n)
        for n, name in enumerate(("p", "r"))
    )
)
REPORT = "[3, 300, false, 0, 3, 0, 0]"
DISTANT = READ.with_producer("p", network=Network(latency=0.004))


def test_p99_of_a_queue_that_stopped_and_that_nobody_reads_is_what_was_waited():
    """It was 9.76 s in ``design`` and 0.0 in ``predict``, of one run; the next test compares all ways."""
    measured = _predicted_sections(simulate(STALLED), STALLED, 10 * SECOND)["producers"]["p"]
    # The eleventh message is held at 0.11 s, the fifteenth and last at 0.15 s.
    assert measured["latency_p99"] == pytest.approx(9.89) and measured["latency_p50"] == 0


def test_a_log_that_does_not_say_what_is_complete_has_no_latency():
    rows = [
        row for row in _rows_of_run(simulate(STALLED).events, STALLED.producers) if row.event == "transfer"
    ]
    measures = recorded_sections(STALLED, ClientLog("mute", rows), 10 * SECOND)["producers"]["p"]
    assert measures["latency_p99"] is None and measures["throughput"] == 1.5


def test_nobody_waits_once_the_session_has_ended():
    meter = ProducerMeter()
    for kind, time in (("transfer", 0), ("block", 100_000), ("error", 300_000)):
        meter.note(kind, time, "p-1")
    measures = meter.measures(SECOND)
    assert (measures["latency_p99"], measures["blocked_share"]) == (0.3, 0.2)


@pytest.mark.parametrize(
    "workload", [STALLED, READ, DEAD, DISTANT], ids=["stalled", "read", "dead", "distant"]
)
def test_all_ways_give_the_same(workload):
    """Run, prediction, recorded rows, design, a map's cell, a lab, a trace's summary, the audit."""
    run, end = simulate(workload), 10 * SECOND
    names = [producer.name for producer in workload.producers]
    queue = queue_measures(run.events, workload, end)["q"]
    max_bytes = max(event.detail["bytes"] for event in run.events if event.kind == "enqueued")
    predicted = _predicted_sections(run, workload, end)
    assert predicted["queues"]["q"] == queue
    summary = _summarise(run)
    assert (summary["seconds"], summary["simulated_seconds"]) == (10, 20)
    assert summary["queues"]["q"] == queue
    for name in names:
        shown = predicted["producers"][name]
        assert {key: summary["producers"][name][key] for key in shown} == shown
        assert summary["producers"][name]["sent"] == pytest.approx(10 * shown["throughput"])
    assert sum(one["accepts"] for one in summary["consumers"].values()) == 10 * queue["throughput"]
    assert replace(picture_of(run), messages=1).measures()["q"] == queue
    log = ClientLog("same", _rows_of_run(run.events, workload.producers))
    assert recorded_sections(workload, log, end)["producers"] == {
        name: measures for name, measures in predicted["producers"].items() if measures["throughput"]
    }
    designed = _meter_of(run).costs(["q"], names)
    blocked = sum(predicted["producers"][name]["blocked_share"] for name in names) / len(names)
    assert designed.max_depth == {"q": queue["max_depth"]}
    assert designed.flips_per_minute == pytest.approx(queue["flowStoppedCount"] * 6)
    assert designed.accepts == pytest.approx(queue["throughput"] * 10)
    assert designed.blocked_share == pytest.approx(blocked)
    assert measure(set_up(workload), workload).blocked_share == pytest.approx(blocked)
    if len(names) == 1:
        assert designed.latency_p50 == predicted["producers"]["p"]["latency_p50"]
        assert designed.latency_p99 == predicted["producers"]["p"]["latency_p99"]
    trace = Trace("same")
    for event in run.events:
        if event.time <= end:
            trace.append(event)
    summary = _summarize(trace, end)["q"]
    assert summary["max_depth"] == queue["max_depth"]
    assert summary["flowStoppedCount"] == queue["flowStoppedCount"]
    assert summary["share_on"] == pytest.approx(queue["share_on"])
    intervals = Intervals("log/q")
    for event in run.events:
        if event.time <= end and event.kind in intervals.handlers:
            handle = intervals.handlers[event.kind]
            handle(event)
    intervals.finish(end)
    (deepest,) = (found for found in intervals.results if found.finding == "max_depth")
    assert (deepest.max_depth, deepest.max_bytes) == (queue["max_depth"], max_bytes)
    spells = [(on.begin_us, on.end_us) for on in intervals.results if on.kind == "flow_on"]
    assert len(spells) == queue["flowStoppedCount"]
    stopped = sum((end if until is None else until) - since for since, until in spells)
    assert stopped / end == pytest.approx(queue["share_on"])


@pytest.fixture
def odd(monkeypatch):
    """A measure that there is in one place only: in what the meter returns."""
    measures = DepthMeter.measures
    monkeypatch.setattr(DepthMeter, "measures", lambda meter: {**measures(meter), "odd": 7.25})


def test_the_command_shows_whatever_the_meter_measures(odd, tmp_path, capsys):
    file = tmp_path / "small.json"
    file.write_text(json.dumps({"name": "small", "duration": 1, "queues": {"q": {}}}))
    assert ", odd 7.25, " in output_of(capsys, "run", file)
    assert json.loads(output_of(capsys, "run", file, "--json"))["queues"]["q"]["odd"] == 7.25


@pytest.mark.parametrize(("replays", "interval"), [(1, (None, None)), (2, (7.25, 7.25))])
def test_spark_shows_whatever_the_meter_measures(odd, replays, interval):
    """Its rows, made as a worker makes them: recorded, predicted, and between what it will lie."""
    rows = _rows_of_run(simulate(READ).events, READ.producers)
    ((name, lake),) = lake_of("log", READ, [LogRow(9, "broker", "stats", "q", REPORT, 0, ""), *rows]).items()
    measured = list(_measure_component(name, lake, [AS_RECORDED], replays))
    assert [row[5:9] for row in measured if row[4] == "odd"] == [(7.25, 7.25, *interval)]


def test_a_lab_shows_whatever_the_meter_measures(odd):
    lab = flow_lab(messages=60, stop=20, resume=10)
    assert ", odd 7.25, " in lab.children[-1].value
    lab.compare()
    lab.sliders["stop"].value = 10
    assert "<p>pinned: orders: mean_depth " in lab.children[-1].value
    assert lab.children[-1].value.count(", odd 7.25, ") == 2
    assert policy_lab(messages=40).children[-1].value.count(", odd 7.25, ") == 5


def test_what_a_lab_claims_is_what_it_measures():
    picture = flow_run(messages=2000)
    measures = picture.measures()["orders"]
    claims = " ".join(picture.claims)
    assert f"It was ON for {measures['share_on']:.0%} of".replace("%", " %") in claims
    assert f"orders had {measures['max_depth']} messages" in claims
    assert measures["flowStoppedCount"] == 2 and "turned ON twice" in claims


# Percentiles


@pytest.mark.parametrize(("values", "expected"), PERCENTILES)
def test_percentiles_are_the_nearest_rank(values, expected):
    found = latency_measures([value * SECOND for value in values])
    assert found == {f"latency_p{percent}": value for percent, value in expected.items()}
    waits = wait_measures([value * SECOND for value in values])
    assert waits == {"wait_p50": expected[50], "wait_p99": expected[99], "wait_max": max(values)}


# Waits of producers


def waits_by_hand(workload, run, end):
    """Return each producer's waits: when a message was due, and when it was sent or the time was up."""
    found = {}
    for producer in workload.producers:
        kind = "client.transfer" if producer.network else "message.transfer"
        sent = [e.time for e in run.events if e.kind == kind and e.session == producer.name and e.time <= end]
        due = [time for time, _, _ in islice(due_messages(producer), 2_000) if time <= end]
        found[producer.name] = [
            at - since for since, at in zip(due, sent + [end] * (len(due) - len(sent)), strict=True)
        ]
    return found


@pytest.mark.parametrize("workload", [STALLED, READ, DISTANT], ids=["stalled", "read", "distant"])
def test_a_wait_is_from_when_a_message_is_due_to_its_transfer(workload):
    """Those that are due behind one that waits do wait, too, although their producer is blocked only once."""
    run, end = simulate(workload), 10 * SECOND
    meters = meters_of(run.events, workload, end)
    assert {name: meter.waits(end) for name, meter in meters.items()} == waits_by_hand(workload, run, end)
    designed, measured = _meter_of(run).costs(["q"], ["p"]), meters["p"].measures(end)
    names = ("wait_p50", "wait_p99", "wait_max")
    assert [getattr(designed, name) for name in names] == [measured[name] for name in names]
    assert measured["wait_max"] > 0


def test_nobody_waits_for_what_was_due_after_the_session_died():
    run, end = simulate(DEAD), 10 * SECOND
    died = next(event.time for event in run.events if event.kind == "exception")
    meters = meters_of(run.events, DEAD, end)
    assert max(max(meter.waits(end)) for meter in meters.values()) < died


def test_a_log_says_no_waits():
    log = ClientLog("same", _rows_of_run(simulate(READ).events, READ.producers))
    assert not any("wait" in name for name in recorded_sections(READ, log, SECOND)["producers"]["p"])


# A run that is only measured: the same as one with all its events


STALL = Workload(
    "stall",
    1,
    {"q": {"qpid.flow_stop_count": 5}},
    producers=(Producer("p", ("", "q"), 100, 5, 10), Producer("r", ("", "q"), 50, 2, 10, seed=4)),
)
REAL_WINDOWS = STALL.replace(
    producers=tuple(
        p.__class__(p.name, p.to, 200, 9, 10, window="qpid-cpp", session="s") for p in STALL.producers
    ),
    consumers=(Consumer("c", "q", 2, ("const", 0.02)),),
)


def by_events(workload, messages):
    """Return deepest, the mean share of waits, and who died, from all that happened."""
    run = simulate(workload, message_limit=messages)
    died = tuple(p.name for p in workload.producers if p.name in run.errors)
    end = min(run.end - GRACE, round(workload.duration * SECOND))
    if len(died) == len(workload.producers):
        end = max(event.time for event in run.events if event.kind == "exception")
    depths = [measures["max_depth"] for measures in queue_measures(run.events, workload, run.end).values()]
    waits = [meter.blocked_share(end) for meter in meters_of(run.events, workload, run.end).values()]
    return max(depths), sum(waits) / len(waits), died


@pytest.mark.parametrize(
    ("workload", "messages"),
    [
        (capacity_workload(), 300),
        (capacity_workload(capacity_1=80), 800),
        (capacity_workload(capacity_1=90, limit=120), 400),
        (flow_workload(stop=20, resume=10), 300),
        (fanout_workload(stop=10, resume=5), 200),
        (STALL, 100),
        (READ, 300),
        (DISTANT, 300),
        (REAL_WINDOWS, 60),
        (DEAD, 300),
    ],
)
def test_measures_are_those_of_the_events(workload, messages):
    found = measure(set_up(workload, messages), workload)
    deepest, blocked, died = by_events(workload, messages)
    assert (found.max_depth, found.sessions_ended) == (deepest, died)
    assert found.blocked_share == pytest.approx(blocked)
    assert len(found.course) == POINTS and max(found.course) == 255


def test_the_course_is_level_while_nothing_happens():
    """Both clients of the capacity lab stand still at the bound until the reader comes."""
    workload = capacity_workload(stop=10, resume=5, capacity_1=5, capacity_2=5)
    course = measure(set_up(workload, 200), workload).course
    assert course[-1] > 0 and course.count(255) > 10 and 0 not in course[1:]


def test_a_queue_never_used_has_a_flat_course():
    workload = Workload("w", 1, {"q": {}})
    assert measure(set_up(workload), workload)[:4] == (0, 0.0, (), bytes(POINTS))
