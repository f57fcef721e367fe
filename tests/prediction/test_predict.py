"""Predictions: beside the real broker's recordings, and beside simulations whose truth is known."""

from functools import cache
from statistics import median

import pytest
from recordings import WORKLOADS, beginning, load
from test_extract import logged

from qflow.logs import ClientLog, LogRow
from qflow.prediction import Settings, predict
from qflow.prediction.replays import CHANCE, producer_measures
from qflow.prediction.report import report_text
from qflow.workload import Consumer, Producer, Workload, WorkloadError, simulate
from qflow.workload.measures import queue_measures
from qflow.workload.network import Network

MEASURES = {"mean_depth", "max_depth", "share_on", "flowStoppedCount", "throughput", "discards"}
NETWORK = Network(ack_delay=0.042, send_cost=0.00008, report_cost=0.0002)


WITHIN = {
    "slow-consumer": 15,
    "capacity-165": 15,
    "bytes-and-count": 12,
    "groups-skewed": 10,
    "ring": 10,
}
"""Recordings of which every queue is predicted within the limits, and how many seconds of them show it; with
``-m release`` the whole recordings are looked at, and one that takes long."""


WHOLE = ("slow-consumer", "capacity-165", "bytes-and-count", "ring", "fanout-one-slow")
"""Recordings that one replay meets as a whole."""


@cache
def report_of(name, is_whole=False):
    """The prediction of a recording, or its beginning, under its own settings, once for all tests."""
    log, workload = load(name) if is_whole else beginning(name, WITHIN[name])
    return predict(workload, log, replays=1)


def assert_close(recorded, predicted):
    assert predicted["mean_depth"] == pytest.approx(recorded["mean_depth"], rel=0.05)
    assert predicted["share_on"] == pytest.approx(recorded["share_on"], abs=0.03)
    stops = recorded["flowStoppedCount"]
    assert abs(predicted["flowStoppedCount"] - stops) <= max(2, stops / 10)
    assert predicted["throughput"] == pytest.approx(recorded["throughput"], rel=0.03)


# Beside the real broker


@pytest.mark.parametrize(
    ("name", "is_whole"),
    [
        *((name, False) for name in WITHIN),
        *(pytest.param(name, True, marks=pytest.mark.thorough) for name in WHOLE),
    ],
)
def test_the_recorded_settings_are_predicted(name, is_whole):
    report = report_of(name, is_whole)
    assert report["model"] == "open"
    assert report["errors"] == {}
    for entry in report["queues"].values():
        assert set(entry["recorded"]) == set(entry["predicted"]) == MEASURES
        assert_close(entry["recorded"], entry["predicted"])
        assert entry["difference"]["max_depth"] == (
            entry["predicted"]["max_depth"] - entry["recorded"]["max_depth"]
        )


@pytest.mark.thorough
def test_all_of_groups_skewed_lies_in_narrow_intervals():
    # One replay misses its share of time ON by 3.2 points: its producers' pace changes, and replays have
    # the median of all.
    log, workload = load("groups-skewed")
    entry = predict(workload, log, replays=5)["queues"]["q"]
    for measure, most in {"mean_depth": 0.02, "share_on": 0.25, "throughput": 0.02}.items():
        low, high = entry["interval"][measure]
        recorded = entry["recorded"][measure]
        assert low <= recorded <= high <= low + most * recorded


ROUGH = {"q04", "q16", "q18"}
"""Queues of the fleet that are nearly empty but for half a minute in which the machine was overloaded, and
the broker reported hardly once a second: neither what was recorded then nor what is predicted is exact."""


@pytest.mark.release
def test_the_queues_of_a_fleet_are_predicted_but_for_those_that_were_hardly_reported():
    log = ClientLog.load(WORKLOADS / "fleet.parquet")
    report = predict(Workload.load(WORKLOADS / "fleet.json"), log, replays=5)
    assert report["longest_silence"] > 2
    assert "the broker reported nothing for up to 3.5 s" in report_text(report)
    wrong, widths = [], []
    for name, entry in report["queues"].items():
        recorded = entry["recorded"]
        if name in ROUGH:
            assert recorded["mean_depth"] < 5
            continue
        for measure, (share, least) in CHANCE.items():
            # What was overdue, and in which order services came, is not in the log: one replay is one of
            # many answers.  All of them tell, and the middle of them is near.
            low, high = entry["interval"][measure]
            slack = max(least, share * recorded[measure])
            if not low - slack <= recorded[measure] <= high + slack:
                wrong.append((name, measure, recorded[measure], low, high))
        low, high = entry["interval"]["mean_depth"]
        widths.append((high - low) / recorded["mean_depth"])
    # Two of a hundred values, and intervals that say something.
    assert len(wrong) <= 0.02 * len(CHANCE) * len(report["queues"]), wrong
    assert median(widths) < 0.2, sorted(widths)


@pytest.mark.parametrize("name", ["slow-consumer", "capacity-165"])
def test_the_recorded_clients_are_predicted(name):
    for entry in report_of(name)["producers"].values():
        recorded, predicted = entry["recorded"], entry["predicted"]
        # Who gets the room that a message leaves, of two that are blocked, is a race.
        assert predicted["throughput"] == pytest.approx(recorded["throughput"], rel=0.02)
        assert predicted["blocked_share"] == pytest.approx(recorded["blocked_share"], abs=0.04)
        assert predicted["latency_p99"] == pytest.approx(recorded["latency_p99"], rel=0.02)
    for entry in report_of(name)["consumers"].values():
        assert entry["predicted"]["throughput"] == pytest.approx(entry["recorded"]["throughput"], rel=0.01)
        assert entry["predicted"]["busy_share"] == pytest.approx(entry["recorded"]["busy_share"], abs=0.005)


def test_a_producer_that_a_full_queue_threw_out_is_thrown_out():
    report = report_of("overflow-despite-flow-control", is_whole=True)
    assert "p1" in report["errors"]
    assert report["errors"]["p1"].startswith("resource-limit-exceeded: Maximum depth")
    entry = report["queues"]["q"]
    assert entry["predicted"]["share_on"] == pytest.approx(entry["recorded"]["share_on"], abs=0.01)


def test_more_head_room_means_fewer_stops():
    log, workload = beginning("slow-consumer", WITHIN["slow-consumer"])
    settings = Settings({"orders": {"qpid.flow_resume_count": 100}}, capacity={"p1": 20})
    report = predict(workload, log, settings, replays=1)
    predicted = report["queues"]["orders"]["predicted"]
    assert predicted["flowStoppedCount"] < report["queues"]["orders"]["recorded"]["flowStoppedCount"]
    assert predicted["max_depth"] <= 920
    assert report["settings"]["capacity"] == {"p1": 20}


# Beside known truth: log under settings A, predict B, simulate B


def truth(seed=0):
    return Workload(
        "truth",
        8,
        {"q": {"qpid.flow_stop_count": 120, "qpid.flow_resume_count": 60}},
        producers=(
            Producer("p1", ("", "q"), 150, 30, 100, seed=seed + 1, network=NETWORK),
            Producer("p2", ("", "q"), 100, 15, (4.0, 0.5), seed=seed + 2, network=NETWORK),
        ),
        consumers=(
            Consumer("c1", "q", 8, ("exp", 0.008), seed=seed + 3, network=NETWORK),
            Consumer("c2", "q", 8, ("exp", 0.01), seed=seed + 4, network=NETWORK),
        ),
    )


@cache
def true_log():
    return logged(truth())


BARE = {"qpid.flow_stop_count": None, "qpid.flow_resume_count": None}
CHANGES = {
    "thresholds": Settings({"q": {"qpid.flow_stop_count": 60, "qpid.flow_resume_count": 10}}),
    "capacity": Settings(capacity={"p1": 80, "p2": 5}),
    "prefetch": Settings(prefetch={"c1": 2, "c2": 30}),
    "no flow control": Settings(
        {"q": {"qpid.flow_stop_count": 0, "qpid.flow_resume_count": 0, "qpid.max_size": 0}}
    ),
}

MORE_CHANGES = {
    "resume near stop": Settings({"q": {"qpid.flow_resume_count": 118}}),
    "one outstanding": Settings(capacity={"p1": 1, "p2": 1}),
    "one at a time": Settings(prefetch={"c1": 1, "c2": 1}),
    "all there is": Settings(prefetch={"c1": 100_000, "c2": 100_000}),
    "bytes": Settings({"q": {"qpid.flow_stop_size": 8_000, "qpid.flow_resume_size": 5_000}}),
    "ring": Settings({"q": {**BARE, "qpid.max_count": 50, "qpid.policy_type": "ring"}}),
    "at most": Settings({"q": {**BARE, "qpid.max_count": 50}}),
}


@cache
def outcome(change):
    """What the clients do under other settings, by a log of their doing so."""
    changed = CHANGES[change].apply(truth())
    return predict(changed, logged(changed), replays=1)


def assert_contained(report, direct):
    """The truth lies in the intervals or bounds, within the limits of a prediction."""
    found = report["queues"]["q"]["interval"]
    for measure, (share, least) in CHANCE.items():
        low, high = found[measure]
        slack = max(least, share * direct[measure])
        assert low - slack <= direct[measure] <= high + slack, measure


@pytest.mark.parametrize("change", CHANGES)
def test_the_truth_lies_within_bounds_where_the_log_shows_no_demand(change):
    report = predict(truth(seed=50), true_log(), CHANGES[change], replays=4)
    assert_contained(report, outcome(change)["queues"]["q"]["predicted"])
    demand = report["demand"]
    assert demand["p1"]["known"] is False and demand["p1"]["at_least"] <= 150
    said = report_text(report)
    if report["is_bound"]:
        assert "demand of p1: at least" in said and "--demand p1=N/s" in said


@pytest.mark.parametrize("change", CHANGES)
def test_a_stated_demand_gives_intervals_around_the_truth(change):
    report = predict(
        truth(seed=50),
        true_log(),
        CHANGES[change],
        demand={"p1": 150, "p2": 100},
        replays=5,
    )
    assert not report["is_bound"] and report["demand"]["p1"]["why"] == "as stated"
    assert "at least" not in report_text(report)
    direct, found = (
        outcome(change)["queues"]["q"]["predicted"],
        report["queues"]["q"]["interval"],
    )
    # Other arrivals at the same rate: their number varies by a few in a hundred.
    assert found["throughput"][0] * 0.95 <= direct["throughput"] <= found["throughput"][1] * 1.05
    assert found["mean_depth"][0] * 0.7 <= direct["mean_depth"] <= found["mean_depth"][1] * 1.3


def test_a_demand_below_what_was_sent_is_refused():
    with pytest.raises(WorkloadError, match="producer 'p1': demand must be at least the .* got 10"):
        predict(truth(), true_log(), demand={"p1": 10})


@pytest.mark.parametrize("change", MORE_CHANGES)
def test_settings_of_every_kind_are_predicted_within_the_limits(change):
    assert_right(truth(), true_log(), MORE_CHANGES[change])


def assert_right(workload, log, settings):
    """Predict a queue under other settings, and simulate it under them."""
    report = predict(workload, log, settings, replays=2)
    changed = settings.apply(workload)
    direct = queue_measures(simulate(changed).events, changed, changed.duration * 1_000_000)["q"]
    assert_contained(report, direct)


@cache
def listing():
    """A workload whose clients keep lists of what they have sent, and their log."""
    lists = Network(
        latency=0.0001, ack_delay=0.042, send_cost=0.00006, report_cost=0.00001, report_growth=0.0000001
    )
    producer = Producer("p", ("", "q"), 600, 300, 100, seed=7, network=lists)
    consumer = Consumer("c", "q", 40, ("exp", 0.0025), seed=8, network=lists)
    queue = {"qpid.flow_stop_count": 900, "qpid.flow_resume_count": 500}
    workload = Workload("lists", 5, {"q": queue}, producers=(producer,), consumers=(consumer,))
    return workload, logged(workload)


@pytest.mark.parametrize("capacity", [5, 60])
def test_another_window_of_a_client_that_keeps_lists_is_predicted(capacity):
    workload, log = listing()
    assert_right(workload, log, Settings(capacity={"p": capacity}))


# Settings and measures


def test_settings_of_another_file_replace_arguments_and_clients():
    this = truth()
    other = this.with_queue("q", {"qpid.flow_stop_count": None, "qpid.max_count": 7})
    other = other.with_producer("p1", capacity=3).with_consumer("c2", prefetch=1)
    assert Settings.of(other, this).apply(this) == other


def test_settings_of_what_is_not_there_are_refused():
    with pytest.raises(WorkloadError, match="the producer to change must be one of p1, p2, got 'p9'"):
        Settings(capacity={"p9": 1}).apply(truth())


def test_a_block_that_never_ends_counts_to_the_end():
    rows = [LogRow(400_000, "p", "block", "", "", 0, "")]
    assert producer_measures(rows, 1_000_000)["blocked_share"] == 0.6


def test_no_seed_or_rate_in_a_workload_file_changes_a_prediction():
    def answer(chance, **changes):
        stated = truth(chance).with_producer("p1", **changes).with_consumer("c1", service=("const", 1.0))
        report = dict(predict(stated, true_log(), CHANGES["thresholds"], replays=2))
        return {key: value for key, value in report.items() if key != "inputs"}

    assert answer(0, rate=1) == answer(50, rate=900) == answer(7, rate=5, burst=(1, 2), seed=9)


def test_a_prediction_tells_how_far_it_is_and_is_the_same():
    workload, told = truth(), []
    workload = workload.replace(duration=2)
    report = predict(workload, true_log(), replays=2, progress=lambda *item: told.append(item))
    assert report == predict(workload, true_log(), replays=2)
    assert told[-1] == (4, 4, "predicting, 2 replays")
    assert {part for _, _, part in told} == {"predicting, one replay", "predicting, 2 replays"}


def test_an_interrupted_prediction_is_none():
    def interrupt(done, total, part):
        if done >= 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        predict(truth(), true_log(), progress=interrupt)
