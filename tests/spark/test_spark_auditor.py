"""The audit of one component, without Spark: what it finds, and that its state may be cut anywhere."""

import json
import random

from recordings import WORKLOADS
from spark_kit import fleet, fleet_lake, fleet_results

from qflow.logs.audit import Auditor
from qflow.logs.client_log import client_rows
from qflow.logs.components import audit_in_memory as audit
from qflow.logs.components import components_of, lake_of, parts_of, touches_of
from qflow.logs.findings import Finding, Result, finding_of, result_of
from qflow.logs.workload_file import workload_text
from qflow.trace import LogRow
from qflow.workload import Consumer, Producer, Workload, simulate

STALL = Workload(
    "stall",
    1,
    {"q": {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 1}},
    producers=(Producer("p", ("", "q"), rate=10, capacity=9, size=100),),
    consumers=(Consumer("c", "q", prefetch=1, service=("const", 1)),),
)


def sends(*times):
    return [LogRow(time, "p", "transfer", "q", f"p-{time}", 100, "") for time in times]


def accepts(*pairs):
    return [LogRow(time, "c", "accept", "q", f"p-{number}", 0, "") for time, number in pairs]


def of_kind(results, kind, *names):
    names = ("queue", "begin_us", "end_us", *names)
    return [tuple(getattr(one, name) for name in names) for one in results if one.kind == kind]


def found(results):
    return {one.finding: finding_of(one) for one in results if one.kind == "finding"}


def test_of_each_kind_a_column_is_one_thing_and_the_others_are_empty():
    """Of the same numbers a column ``count`` was a depth, a time ON, transfers or messages."""
    one = Finding(7, 5, "reports", "c", "q", "p-1", "name", 3, 4, 6, 8, 80, 9, 10, 11)
    assert finding_of(result_of(one, "log/q", 0)) == one
    block = [LogRow(5, "p", "block", "", "", 0, "")]
    ordered = {"qpid.group_header_key": "group", "qpid.shared_msg_group": 1}
    grouped = STALL.replace(queues={"q": {**STALL.queues["q"], **ordered}})
    results = audit(lake_of("log", grouped, [row._replace(group="red") for row in sends(1, 2, 3)] + block))
    of = {
        one.kind: {name for name, value in one._asdict().items() if value is not None} - {*Result._fields[:7]}
        for one in results
    }
    assert {kind: names for kind, names in of.items() if kind != "finding"} == {
        "flow_on": {"message", "depth", "bytes"},
        "held": {"message", "size", "flowStoppedCount"},
        "blocked": {"cause", "transfers"},
        "group_owned": {"group"},
    }
    assert not of["finding"] & (of["flow_on"] | of["held"] | of["blocked"] | of["group_owned"]) - {"message"}


def test_intervals_tell_what_was_on_and_held_and_why_it_ended():
    rows = sends(1, 2, 3, 4) + accepts((10, 1), (11, 2), (12, 3))
    results = audit(lake_of("log", STALL, rows))
    # Above 2, that is with the third message; below 1 again.
    assert of_kind(results, "flow_on", "message", "depth") == [("q", 3, None, "p-3", 3)]
    told = ("client", "message", "cause", "flowStoppedCount")
    assert of_kind(results, "held", *told) == [
        ("q", 3, 12, "p", "p-3", "dequeued", 1),
        ("q", 4, None, "p", "p-4", None, 1),
    ]
    results = audit(lake_of("log", STALL, rows + accepts((13, 4))))
    assert of_kind(results, "flow_on", "message", "depth") == [("q", 3, 13, "p-3", 3)]
    assert of_kind(results, "held", *told)[1] == ("q", 4, 13, "p", "p-4", "resumed", 1)


def test_a_blocked_producer_is_laid_to_the_queues_that_hold_its_transfers():
    block = [LogRow(5, "p", "block", "", "", 0, ""), LogRow(20, "p", "unblock", "", "", 0, "")]
    results = audit(lake_of("log", STALL, sends(1, 2, 3, 4) + block))
    assert of_kind(results, "blocked", "client", "cause", "transfers") == [("q", 5, 20, "p", "held", 2)]


def test_group_ownership_has_its_owner_and_its_times():
    queues = {"q": {"qpid.group_header_key": "group", "qpid.shared_msg_group": 1}}
    rows = [LogRow(1, "p", "transfer", "q", "p-1", 100, "red"), *accepts((9, 1))]
    results = audit(lake_of("log", STALL.replace(queues=queues), rows))
    assert of_kind(results, "group_owned", "client", "group") == [("q", 1, 9, "c::c", "red")]


def test_the_state_may_be_cut_anywhere_and_duplicates_change_nothing():
    chance = random.Random(9)
    for component, rows in fleet_lake().items():
        places = sorted(chance.randrange(len(rows)) for _ in range(5))
        results, state = [], None
        for start, end in zip([0, *places], [*places, len(rows)], strict=True):
            auditor = Auditor(component, state)
            results += auditor.feed(row for row in rows[start:end] for _ in (1, 2))
            state = auditor.state()
        assert auditor.duplicates == len(rows)
        assert results == [row for row in fleet_results() if row[0] == component]


def test_a_gap_is_found_and_the_audit_goes_on():
    (rows,) = lake_of("log", STALL, sends(1, 2, 3, 4)).values()
    results = audit({"log/q": [row for row in rows if row[0] != 2]})
    gap = found(results)["gap"]
    assert (gap.number, gap.sentence()) == (1, "events 2 to 2 are missing; what follows is not certain")
    assert found(results)["max_depth"].max_depth == 3


def test_a_log_that_breaks_off_and_a_workload_that_is_missing_are_findings():
    (rows,) = lake_of("log", STALL, sends(1, 2, 3, 4)).values()
    assert "cut-off" in found(audit({"log/q": rows[:-1]}))
    assert "no-begin" in found(audit({"log/q": rows[1:]}))


def test_a_queue_that_the_broker_refuses_is_a_finding_in_its_words():
    workload = STALL.replace(queues={"q": {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 9}})
    words = found(audit(lake_of("log", workload, sends(1, 2))))["refused"].sentence()
    assert "qpid.flow_resume_count=9 must be less or equal to qpid.flow_stop_count=2" in words


def test_an_unknown_event_kind_changes_nothing_but_is_told():
    (rows,) = lake_of("log", STALL, sends(1, 2)).values()
    rows[2] = rows[2]._replace(event="teleport")
    assert "unknown" in found(audit({"log/q": rows}))


def test_the_engine_agrees_with_what_the_broker_reported_of_the_fleet():
    reports = [finding_of(row) for row in fleet_results() if row.finding == "reports"]
    assert len(reports) == 27
    assert sum(one.seen for one in reports) >= 0.99 * sum(one.expected for one in reports)


def test_components_are_those_of_the_fleet_and_each_has_its_part_of_the_workload():
    workload, _ = fleet()
    components = components_of(touches_of("fleet", workload))
    assert len(set(components.values())) == 24
    # One producer sends to both; no other client joins them with a third queue.
    assert components["fleet", "queue", "q10b"] == components["fleet", "client", "p10"] == "fleet/q10"
    part = parts_of(workload, components)["fleet/q10"]
    assert set(part.queues) == {"q10", "q10b"} and [bind[1] for bind in part.binds] == ["q10", "q10b"]
    assert Workload.from_json(json.loads(workload_text(part))) == part


def test_topologies_of_two_times_are_joined_by_their_union():
    early = [("log", "c", "q"), ("log", "p", "q"), ("log", "d", "r")]
    late = [("log", "d", "q")]
    assert len(set(components_of(early).values())) == 2
    assert set(components_of(early + late).values()) == {"log/q"}


def test_a_trace_audited_gives_what_it_tells_itself(tmp_path):
    """A trace holds the engine's own effects; the audit sees what its clients did, and finds them again."""
    from qflow.logs.workload_file import workload_of
    from qflow.trace.files import read_trace, write_trace
    from qflow.trace.replaying import trace_of

    recorded = Workload.load(WORKLOADS / "fanout-one-slow.json")
    run = simulate(
        recorded.with_queue("slow", {"qpid.flow_stop_count": 20, "qpid.flow_resume_count": 10}),
        message_limit=700,
    )
    trace = trace_of(run)
    write_trace(trace, tmp_path / "fan.jsonl")
    read, quarantine = read_trace(tmp_path / "fan.jsonl")
    assert not quarantine and read.workload == run.workload
    rows = list(client_rows(read.events()))
    told = sorted((e.queue, e.message, e.time) for e in run.events if e.kind == "held")
    assert told
    for behind in (run.workload, workload_of(read)):
        results = audit(lake_of("fan", behind, rows))
        assert sorted((r.queue, r.message, r.begin_us) for r in results if r.kind == "held") == told
