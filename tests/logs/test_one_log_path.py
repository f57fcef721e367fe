"""One log path: a log gives the same in memory, row by row, cut anywhere, and split by components.

Before there was one path there were two players and two audits.  They were held against each other on every
recording, honest and doctored; what both said is kept here (:data:`INTERVALS`, :data:`FINDINGS`), and where
they differed, the rules decided: the tests under "Settled" name the rule.
"""

import json
import random
import zlib
from collections import Counter
from functools import cache

import pytest
from recordings import WORKLOADS, load

from qflow.logs import Auditor, ClientLog, LogRow, Tolerance, audit, replay
from qflow.logs.components import audit_in_memory, lake_of, read_components, result_hash
from qflow.logs.findings import finding_of
from qflow.workload import Consumer, Producer, Workload

INTERVALS = {
    "bytes-and-count": "a8b5615689aaeba8",
    "capacity-165": "bc49ec8ff7cf6f2d",
    "fanout-one-slow": "45a857216d678bbe",
    "groups-skewed": "b477d1dc04995f32",
    "overflow-despite-flow-control": "d1203e44738f68c8",
    "ring": "e3b0c44298fc1c14",
    "slow-consumer": "9e6fbe4765ba7655",
}
"""What was ON, held, blocked and owned, as the row-by-row audit had it on each recording."""


PLAYED = ("transfer", "deliver", "accept", "release", "error")


@pytest.mark.parametrize("name", INTERVALS)
def test_a_recording_has_the_intervals_it_had_and_no_findings(name):
    log, workload = load(name)
    tolerance, results, agreements = Tolerance.estimate(log.rows), [], {}
    for component, rows in sorted(lake_of(name, workload, log.rows).items()):
        auditor = Auditor(component, tolerance=tolerance)
        results += auditor.feed(rows)
        agreements |= auditor.intervals.agreements()
    assert result_hash(result for result in results if result.kind != "finding").startswith(INTERVALS[name])
    assert [finding_of(one).text() for one in of_kind(results, "finding") if finding_of(one).rule] == []
    assert agreements.keys() == workload.queues.keys()
    for agreement in agreements.values():
        assert agreement.samples > 300
        assert agreement.mean_depth_difference < 15
        assert abs(agreement.recorded_stops - agreement.engine_stops) <= agreement.recorded_stops / 10 + 1
    if name == "bytes-and-count":
        # What leaves a window for a message never delivered is what the log has not shown. Recordings
        # decide: looking ahead in the log gives 67 stops.
        assert (agreements["q"].recorded_stops, agreements["q"].engine_stops) == (72, 71)


def test_components_read_piece_by_piece_are_those_of_the_whole_log():
    log, workload = load("ring")
    whole = lake_of("ring", workload, log.rows)
    counts, lake = read_components(WORKLOADS / "ring.csv.gz", workload, whole)
    assert lake == whole
    assert counts == {name: len(rows) for name, rows in whole.items()}


# Doctored


def doctored(rows, kinds, make, share=0.01):
    """Return rows with one in a hundred of some kinds replaced by others, in order of time again."""
    chance = random.Random(7)
    changed = []
    for row in rows:
        changed += make(row) if row.event in kinds and chance.random() < share else [row]
    return sorted(changed, key=lambda row: row.ts_us)


def moved(by):
    return lambda row: [row._replace(ts_us=max(0, row.ts_us + by))]


def without_some(rows):
    gone = {row.label for row in rows if row.event == "transfer" and not zlib.crc32(row.label.encode()) % 100}
    return [row for row in rows if row.label not in gone or row.event not in ("deliver", "accept")]


def after_deaths(rows):
    """A consumer and then a producer die in the middle, and go on as if they had not."""
    middle = rows[len(rows) // 2].ts_us
    client = next(row.client for row in rows if row.event == "deliver")
    producer = next(row.client for row in rows if row.event == "transfer")
    deaths = [
        LogRow(middle, client, "error", "", "541 internal-error: gone", 0, ""),
        LogRow(middle + 2_000_000, producer, "error", "", "506 resource-limit-exceeded: full", 0, ""),
    ]
    return sorted([*rows, *deaths], key=lambda row: row.ts_us)


DOCTORS = {
    "rejected": lambda rows: doctored(rows, ["accept"], lambda row: [row._replace(event="reject")]),
    "released": lambda rows: doctored(rows, ["accept"], lambda row: [row._replace(event="release")]),
    "lost": lambda rows: doctored(rows, PLAYED, lambda row: []),
    "lost transfers": lambda rows: doctored(rows, ["transfer"], lambda row: []),
    "lost deliveries": lambda rows: doctored(rows, ["deliver"], lambda row: []),
    "lost messages": without_some,
    # A row that is there twice is the log's doing; one that comes again a little later is not.
    "twice": lambda rows: doctored(
        rows, (*PLAYED, "complete"), lambda row: [row, row._replace(ts_us=row.ts_us + 1)]
    ),
    "early accepts": lambda rows: doctored(rows, ["accept"], moved(-300_000)),
    "early deliveries": lambda rows: doctored(rows, ["deliver"], moved(-300_000)),
    "early completions": lambda rows: doctored(rows, ["complete"], moved(-500_000)),
    "late completions": lambda rows: doctored(rows, ["complete"], moved(3_000_000)),
    "strangers": lambda rows: doctored(rows, PLAYED, lambda row: [row._replace(client="nobody")]),
    "died": after_deaths,
}
FINDINGS = {
    "rejected": {},
    "released": {},
    "lost": {
        "completed while held": 60,
        "credit exceeded": 26,
        "never sent": 82,
        "not held": 35,
        "sends on": 1,
    },
    "lost transfers": {"never sent": 74},
    "lost deliveries": {"not held": 36},
    "lost messages": {"discarded": 25},
    "twice": {"completed twice": 32, "delivered twice": 33, "not held": 36, "sent twice": 45},
    "early accepts": {"credit exceeded": 33, "not held": 36},
    "early deliveries": {"before it was sent": 23, "credit exceeded": 38, "order": 513},
    "early completions": {"never sent": 36},
    # All 36: where a later one is complete, the thresholds do not matter.
    "late completions": {"completed late": 30, "withheld without cause": 6},
    "strangers": {
        "completed while held": 60,
        "credit exceeded": 26,
        "never sent": 82,
        "not held": 35,
        "not subscribed": 70,
        "sends on": 1,
        "unknown producer": 43,
    },
    # Both begin a new session, so that only what was settled on the old one is left.
    "died": {"not held": 1},
}
"""Kinds of findings, and how many, in the doctored recording of an overflow.

A settlement that is not in the log is a stale delivery once, not a window exceeded for all time after it.
"""


@cache
def overflow(doctor):
    log, workload = load("overflow-despite-flow-control")
    return ClientLog(log.name, DOCTORS[doctor](log.rows)), workload


@cache
def audited(doctor):
    return audit(*overflow(doctor), Tolerance(0, 60_000))


@pytest.mark.parametrize("doctor", DOCTORS)
def test_a_doctored_log_has_the_findings_it_had(doctor):
    assert Counter(finding.kind for finding in audited(doctor).findings) == FINDINGS[doctor]


SOME = ("rejected", "lost", "twice", "early deliveries", "died")


@pytest.mark.parametrize("doctor", SOME)
def test_a_replay_is_the_audits_own_run(doctor):
    assert replay(*overflow(doctor)).events == audited(doctor).run.events


@pytest.mark.parametrize("doctor", SOME)
def test_a_log_cut_anywhere_and_carried_on_as_text_has_the_same_findings(doctor):
    log, workload = overflow(doctor)
    ((component, rows),) = lake_of("log", workload, log.rows).items()
    chance = random.Random(doctor)
    places = sorted(chance.randrange(1, len(rows)) for _ in range(5))
    results, state = [], None
    for start, end in zip([0, *places], [*places, len(rows)], strict=True):
        auditor = Auditor(component, state)
        results += auditor.feed(rows[start:end])
        state = auditor.state()
    assert results == audit_in_memory({component: rows})
    known = [finding for finding in map(finding_of, of_kind(results, "finding")) if finding.rule]
    assert {one.kind for one in known} <= {one.kind for one in audited(doctor).findings}


def of_kind(results, kind):
    return [result for result in results if result.kind == kind]


def test_the_state_does_not_grow_with_the_log():
    """An hour of messages that are sent, delivered, accepted and complete leaves only numbers."""
    lake = lake_of("log", SMALL, [row for n in range(1, 3001) for row in life(n)])
    auditor = Auditor("log/q")
    sizes = []
    for start in range(0, 12_000, 4_000):
        auditor.feed(lake["log/q"][start : start + 4_000])
        sizes.append(len(auditor.state()))
    assert max(sizes) < min(sizes) + 200


# Settled, where the two paths differed

SMALL = Workload(
    "small",
    1,
    {"q": {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 1}},
    producers=(Producer("p", ("", "q"), rate=10, capacity=9, size=100),),
    consumers=(Consumer("c", "q", prefetch=5, service=("const", 1)),),
)


def row(time, client, event, number):
    return LogRow(time, client, event, "q", f"p-{number}", 100 * (event == "transfer"), "")


def life(number):
    time = number * 10_000
    events = [("p", "transfer"), ("c", "deliver"), ("p", "complete"), ("c", "accept")]
    return [row(time + late, client, event, number) for late, (client, event) in enumerate(events)]


def results_of(*rows, workload=SMALL):
    return audit_in_memory(lake_of("log", workload, rows))


def test_a_rejected_message_lets_go_of_what_is_held():
    """A reject dequeues; FC-20: any dequeue counts.  Row by row the queue stayed ON for ever."""
    rows = [row(n, "p", "transfer", n) for n in (1, 2, 3)]
    rows += [row(10 + n, "c", "reject", n) for n in (1, 2, 3)]
    (on,) = of_kind(results_of(*rows), "flow_on")
    assert (on.begin_us, on.end_us) == (3, 13)
    kinds = {result.finding for result in of_kind(results_of(*rows), "finding")}
    assert "unknown" not in kinds


def test_a_label_sent_twice_is_held_twice():
    """Each transfer is a command of its own.  The row-by-row audit ended with an error."""
    rows = [row(1, "p", "transfer", 1), row(2, "p", "transfer", 2), row(3, "p", "transfer", 3)]
    rows += [row(4, "p", "transfer", 3), *[row(10 + n, "c", "accept", n) for n in (1, 2, 3, 3)]]
    held = of_kind(results_of(*rows), "held")
    assert sorted((result.message, result.begin_us) for result in held) == [("p-3", 3), ("p-3", 4)]


def test_a_transfer_by_a_consumer_is_of_no_producer():
    """Only a producer has a window.  The row-by-row audit ended with an error."""
    results = results_of(row(1, "c", "transfer", 1))
    assert {finding_of(one).kind for one in of_kind(results, "finding")} == {"unknown producer"}


def test_a_settlement_for_a_dead_consumer_is_no_delivery_to_another():
    """CN-13: who died holds nothing; what is settled in its name changes nothing."""
    rows = [row(1, "p", "transfer", 1), LogRow(5, "c", "error", "", "541 internal-error: gone", 0, "")]
    run = replay(ClientLog("small", [*rows, row(6, "c", "accept", 1)]), SMALL)
    (differing,) = [event for event in run.events if event.kind == "client.differs"]
    assert differing.detail["engine"] == "its session is dead"


def test_reports_from_before_the_start_hold_at_the_start():
    """``flowStopped`` is what it is until it changes; only one of the two audits counted them."""
    report = LogRow(-5, "broker", "stats", "q", json.dumps([0, 0, False, 0, 0, 0, 0]), 0, "")
    assert audit(ClientLog("small", [report]), SMALL).agreements["q"].samples == 1
    (found,) = [finding_of(one) for one in results_of(report) if one.finding == "reports"]
    assert (found.seen, found.expected) == (1, 1)


def test_after_a_gap_the_rules_are_asked_no_more():
    (rows,) = lake_of("log", SMALL, [one for n in (1, 2, 3) for one in life(n)]).values()
    results = audit_in_memory({"log/q": [one for one in rows if one[0] not in (1, 2)]})
    kinds = [finding_of(one).kind for one in of_kind(results, "finding")]
    assert kinds[0] == "gap" and not any(finding_of(one).rule for one in of_kind(results, "finding"))
