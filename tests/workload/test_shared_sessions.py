"""Producers that share a session (CAP-09): whatever is counted by producer counts each for itself."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from commands import output_of

from qflow.design.frontier import _meter_of
from qflow.labs.fold import fold
from qflow.logs import Auditor, ClientLog, audit, replay
from qflow.logs.client_log import client_rows
from qflow.logs.components import lake_of
from qflow.logs.findings import finding_of
from qflow.logs.workload_file import workload_json
from qflow.prediction import predict
from qflow.workload import Consumer, Producer, Workload, simulate
from qflow.workload.model import Senders

SHARED = Workload(
    "shared",
    2,
    {"q": {"qpid.flow_stop_count": 50, "qpid.flow_resume_count": 40}},
    producers=(
        Producer("p1", ("", "q"), rate=400, capacity=20, size=100, seed=1, session="s"),
        Producer("p2", ("", "q"), rate=200, capacity=10, size=100, seed=2, session="s", window="qpid-cpp"),
    ),
    consumers=(Consumer("c", "q", prefetch=5, service=("const", 0.003)),),
)
FULL = SHARED.with_queue(
    "q", {"qpid.max_count": 20, "qpid.flow_stop_count": 0, "qpid.flow_resume_count": None}
)


@pytest.fixture(scope="module")
def run():
    return simulate(SHARED)


@pytest.fixture(scope="module")
def sent(run):
    """How many messages each producer sent: their labels say so."""
    counts = Counter(e.message.partition("-")[0] for e in run.events if e.kind == "message.transfer")
    assert counts["p1"] > counts["p2"] > 100
    return counts


def recorded(workload):
    """What the clients of a run would have logged."""
    return ClientLog("shared", list(client_rows(simulate(workload).events, workload.producers)))


def summary_of(workload, tmp_path, capsys, *words):
    path = tmp_path / "shared.json"
    path.write_text(json.dumps(workload_json(workload)))
    return json.loads(output_of(capsys, "run", path, "--json", *words))


def test_a_run_counts_what_each_sent(sent, tmp_path, capsys):
    made = summary_of(SHARED, tmp_path, capsys)["producers"]
    within = Counter(
        event.message.partition("-")[0]
        for event in simulate(SHARED).events
        if event.kind == "message.transfer" and event.time <= 2_000_000
    )
    assert {name: made[name]["sent"] for name in sent} == within
    assert min(values["blocks"] for values in made.values()) > 0


def test_design_measures_what_each_sent(run, sent):
    transfers = [event for event in run.events if event.kind == "message.transfer"]
    within = {event.message for event in transfers if event.time <= 2_000_000}
    measured = _meter_of(run).costs(["q"], ["p1", "p2"])
    assert measured.transfers == len(within)
    assert measured.latency_p99 > 0
    # One of the two alone is not the session.
    alone = _meter_of(run).costs(["q"], ["p2"])
    assert alone.transfers == sum(label.startswith("p2-") for label in within)


def test_the_death_of_a_session_is_the_death_of_all_its_producers(tmp_path, capsys):
    run = simulate(FULL)
    assert set(run.errors) == {"p1", "p2"}
    assert set(_meter_of(run).costs(["q"], ["p1", "p2"]).errors) == {"p1", "p2"}
    assert set(summary_of(FULL, tmp_path, capsys)["errors"]) == {"p1", "p2"}
    assert [row.client for row in recorded(FULL).rows if row.event == "error"] == ["p1", "p2"]


def test_a_prediction_of_what_was_simulated_is_what_was_simulated(sent):
    """On a shared session no costs of a network are looked for; what is left is exact."""
    report = predict(SHARED, recorded(SHARED), replays=3)
    for name, values in report["producers"].items():
        assert values["recorded"]["throughput"] > 100
        assert values["difference"]["throughput"] == 0, name
        assert values["difference"]["latency_p99"] == 0, name


def test_a_log_is_played_on_the_shared_session():
    log = recorded(SHARED)
    played = replay(log, SHARED)
    own, shown = simulate(SHARED).events, played.events
    assert {event.session for event in shown if event.kind == "message.transfer"} == {"s"}
    assert [e.message for e in shown if e.kind == "held"] == [e.message for e in own if e.kind == "held"]
    assert audit(log, SHARED).findings == []


def test_a_log_shows_both_producers_dead():
    log = recorded(FULL)
    assert set(replay(log, FULL).errors) == {"p1", "p2"}
    (rows,) = lake_of("shared", FULL, log.rows).values()
    auditor = Auditor("shared/q")
    results = [row for part in (rows[:50], rows[50:]) for row in auditor.feed(part)]
    died = [finding_of(row) for row in results if row.finding == "died"]
    assert [one.client for one in died] == ["p1", "p2"]
    assert all("resource-limit-exceeded" in one.sentence() for one in died)


def test_what_is_held_is_held_of_its_producer():
    log = recorded(SHARED)
    (rows,) = lake_of("shared", SHARED, log.rows).values()
    held = [row for row in Auditor("shared/q").feed(rows) if row.kind == "held"]
    assert {(row.client, row.message.partition("-")[0]) for row in held} == {("p1", "p1"), ("p2", "p2")}
    blocked = [row for row in Auditor("shared/q").feed(rows) if row.kind == "blocked"]
    assert {row.client for row in blocked} == {"p1", "p2"}
    assert "held" in {row.cause for row in blocked}


def test_a_picture_shows_what_each_sent(run, sent):
    frames = fold(run)
    assert {name: frames.column(f"producer.{name}.sent")[-1] for name in sent} == sent


@pytest.mark.parametrize(
    ("session", "label", "producer"),
    [
        ("s", "p1-1", "p1"),
        ("s", "p2-100", "p2"),
        ("s", "p3-1", ""),
        ("s", "", ""),
        ("p1", "", "p1"),
        ("own", "own-1", "own"),
        ("own", "odd label", "own"),
        ("setup", "", ""),
    ],
)
def test_whose_an_event_is(session, label, producer):
    own = replace(SHARED.producers[0], name="own", session="")
    assert Senders([*SHARED.producers, own]).of(session, label) == producer
