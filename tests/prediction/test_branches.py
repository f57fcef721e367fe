"""Branches and receipts: a prediction for each way it can go, and what came of it."""

import json

from test_extract import logged, small

from qflow.logs import ClientLog, LogRow
from qflow.prediction import predict, receipt_of, score
from qflow.prediction.intervals import branch_of, branches
from qflow.prediction.receipt import score_text
from qflow.prediction.replays import MeasuredReplay


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
    assert branch_of(found, {"p": 5.0}) is found[2]
    assert branch_of(found, {"c": 5.0}) is None


def test_a_death_at_another_instant_than_in_any_replay_is_said_to_be_one():
    branch = {"share": 0.25, "when": {"ended": {"p": [2.0, 2.5]}}}
    found = {"inputs": {"log": {"name": "w", "sha256": ""}}, "measures": [], "branch": branch}
    said = score_text(found | {"ended": {"p": 6.0}}).splitlines()[-1]
    assert "p dies at 6 s, as in no replay; nearest to that: p dies at 2 to 2.5 s (predicted: 25 %)" in said
    assert "in no replay" not in score_text(found | {"ended": {"p": 2.6}})


def test_there_are_no_branches_where_all_replays_end_alike():
    assert branches([replay(1.0), replay(2.0)]) == branches([replay(1.0, p=2.0)] * 3) == []


def test_a_receipt_says_from_what_and_a_score_what_came():
    workload = small().replace(duration=3)
    log = logged(workload)
    receipt = json.loads(json.dumps(receipt_of(predict(workload, log, replays=3, compare_models=False))))
    assert receipt["inputs"]["log"]["rows"] == len(log.rows)
    assert receipt["inputs"]["seed"] == 0
    found = score(receipt, log)
    assert found["measures"] == []  # Without reports of the broker nothing of a queue was recorded.
    stats = [
        LogRow(time, "broker", "stats", "q", "[5, 1, false, 0, 1, 0, 0]", 0, "")
        for time in range(0, 3_000_000, 50_000)
    ]
    found = score(receipt, ClientLog("later", sorted([*log.rows, *stats])))
    assert {one["measure"]: one["inside"] for one in found["measures"]}["mean_depth"] is False
    assert found["branch"] is None
