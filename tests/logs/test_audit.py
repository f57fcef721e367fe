"""The audit of client logs: honest recordings have no findings, doctored ones are found out."""

import json
from dataclasses import replace

import pytest
from commands import room_command
from recordings import beginning, load, write_beginning

from qflow.logs.audit import audit
from qflow.logs.tolerance import Tolerance
from qflow.logs.workload_file import workload_json
from qflow.prediction.client_model import LogModel
from qflow.qflow_error import QflowError
from qflow.trace import ClientLog, LogRow, cli
from qflow.trace.files import read_trace
from qflow.workload import Consumer, Producer, Workload, simulate


def kinds(log, workload, tolerance=None):
    return [finding.kind for finding in audit(log, workload, tolerance).findings]


def test_a_completion_moved_into_the_time_its_queue_was_on_is_found():
    """In ten seconds of a recording its queue is ON for the first time and OFF again."""
    log, workload = beginning("slow-consumer", 10)
    sent = {row.label: row for row in log.rows if row.event == "transfer"}
    withheld = [
        row for row in log.rows if row.event == "complete" and row.ts_us - sent[row.label].ts_us > 2_000_000
    ]
    late = withheld[80]
    moved = late._replace(ts_us=sent[late.label].ts_us + 500_000)
    rows = sorted([moved if row == late else row for row in log.rows], key=lambda row: row.ts_us)
    (finding,) = audit(ClientLog(log.name, rows), workload).findings
    assert (finding.kind, finding.rule, finding.message) == ("completed while held", "FC-15", late.label)
    assert finding.gap == pytest.approx(late.ts_us - moved.ts_us, abs=60_000)
    assert "orders releases it" in finding.sentence()


# Small logs


def small(queue=None, **consumer):
    consumers = [{"name": name, "queue": "q", "prefetch": 5, "service": ["const", 1]} for name in ("c", "d")]
    consumers[0].update(consumer)
    producer = {"name": "p", "to": ["", "q"], "rate": 10, "capacity": 50, "size": 100}
    mapping = {"duration": 9, "queues": {"q": queue or {}}, "producers": [producer], "consumers": consumers}
    return Workload.from_json(mapping, "small")


def log_of(*items):
    return ClientLog(
        "small", [LogRow(time, who, event, "q", f"p-{n}", 100, group) for time, who, event, n, group in items]
    )


def sends(count, group=""):
    return [(n, "p", "transfer", n, group) for n in range(1, count + 1)]


GROUPED = {"qpid.group_header_key": "group", "qpid.shared_msg_group": 1}
TAKEN_EARLY = [
    *sends(2, "g"),
    (5, "c", "deliver", 1, "g"),
    (6, "d", "deliver", 2, "g"),
    (9, "c", "accept", 1, "g"),
]
DOCTORED = [
    ("never sent", [(1, "c", "deliver", 9, "")], None),
    ("never sent", [(1, "p", "complete", 9, "")], None),
    ("delivered twice", [*sends(1), (5, "c", "deliver", 1, ""), (6, "c", "deliver", 1, "")], None),
    ("completed twice", [*sends(1), (5, "p", "complete", 1, ""), (6, "p", "complete", 1, "")], None),
    ("sent twice", [*sends(1), (5, "p", "transfer", 1, "")], None),
    ("unknown producer", [(5, "x", "transfer", 1, "")], None),
    ("not subscribed", [*sends(1), (5, "x", "deliver", 1, "")], None),
    ("before it was sent", [(1, "c", "deliver", 1, ""), (900_000, "p", "transfer", 1, "")], None),
    ("order", [*sends(2), (5, "c", "deliver", 2, ""), (6, "c", "deliver", 1, "")], None),
    ("group order", [*sends(2, "g"), (5, "c", "deliver", 2, "g"), (6, "c", "deliver", 1, "g")], GROUPED),
    ("group owned by another", TAKEN_EARLY, GROUPED),
    ("credit exceeded", [*sends(6), *[(10 + n, "c", "deliver", n, "") for n in range(1, 7)]], None),
    ("not held", [*sends(1), (5, "c", "deliver", 1, ""), (9, "d", "accept", 1, "")], None),
    # One finding only: what was delivered is held (CN-13), though it was never sent.
    ("never sent", [(1, "c", "deliver", 9, ""), (2, "c", "accept", 9, "")], None),
    # Not "discarded": LP-05 is about messages that no consumer got.
    (
        "not held",
        [*sends(2), (3, "c", "deliver", 2, ""), (4, "c", "accept", 1, ""), (5, "c", "accept", 2, "")],
        None,
    ),
    # What was rejected has left its queue.
    (
        "delivered twice",
        [*sends(1), (2, "c", "deliver", 1, ""), (3, "c", "reject", 1, ""), (4, "c", "deliver", 1, "")],
        None,
    ),
]


@pytest.mark.parametrize(("kind", "items", "queue"), DOCTORED, ids=[kind for kind, _, _ in DOCTORED])
def test_what_the_rules_forbid_is_found(kind, items, queue):
    found = audit(log_of(*items), small(queue), Tolerance(0, 0)).findings
    assert [finding.kind for finding in found] == [kind]
    assert found[0].rule and "; allowed: " in found[0].sentence()
    assert found[0].text().startswith(f"row {found[0].row}, ")


def test_what_was_given_back_may_come_again_out_of_order():
    items = [*sends(2), (5, "c", "deliver", 1, ""), (6, "c", "deliver", 2, ""), (7, "c", "release", 1, "")]
    assert kinds(log_of(*items, (8, "c", "deliver", 1, ""), (9, "c", "accept", 1, "")), small()) == []


def test_what_a_dead_consumer_held_may_go_to_another():
    items = [*sends(2, "g"), (5, "c", "deliver", 1, "g"), (6, "c", "error", 0, "")]
    assert (
        kinds(log_of(*items, (8, "d", "deliver", 1, "g"), (9, "d", "accept", 1, "g")), small(GROUPED)) == []
    )


def test_a_delivery_before_its_consumer_subscribes_is_found():
    assert kinds(log_of(*sends(1), (50, "c", "deliver", 1, "")), small(start=2)) == ["not subscribed"]


def test_a_group_taken_too_early_within_the_clocks_difference_is_no_finding():
    assert kinds(log_of(*TAKEN_EARLY), small(GROUPED), Tolerance(skew=10, lag=0)) == []


def test_clocks_that_differ_are_told_from_single_messages_that_come_too_early():
    rows = [LogRow(n * 1000, "p", "transfer", "q", f"p-{n}", 1, "") for n in range(1, 400)]
    ahead = [row._replace(ts_us=row.ts_us - 300, client="c", event="deliver") for row in rows]
    assert Tolerance.estimate(sorted([*rows, *ahead])).skew == 300
    right = [row._replace(ts_us=row.ts_us + 300) for row in ahead[1:]]
    assert Tolerance.estimate(sorted([*rows, ahead[0], *right])).skew == 0


# The workload behind a log


def test_the_workload_behind_a_log_is_a_file_that_runs():
    log, workload = load("overflow-despite-flow-control")
    found = LogModel(log, workload).extract()
    again = Workload.from_json(json.loads(json.dumps(workload_json(found))))
    assert again == found
    assert {producer.arrival for producer in again.producers} == {"recorded"}
    assert {consumer.service[0] for consumer in again.consumers} == {"recorded"}
    sent = sum(row.event == "transfer" for row in log.rows)
    run = simulate(again)
    assert sum(event.kind == "message.transfer" for event in run.events) == pytest.approx(sent, rel=0.01)


def test_rejects_and_crashes_are_extracted():
    workload = small(reject=0.2, service=["const", 0.001])
    rows = [LogRow(n * 10_000, "p", "transfer", "q", f"p-{n}", 1, "") for n in range(1, 101)]
    for n in range(1, 101):
        verdict = "reject" if n % 4 == 0 else "accept"
        rows.append(LogRow(n * 10_000 + 100, "c", "deliver", "q", f"p-{n}", 1, ""))
        rows.append(LogRow(n * 10_000 + 1100, "c", verdict, "q", f"p-{n}", 0, ""))
    rows.append(LogRow(2_000_000, "c", "error", "", "541 internal-error: gone", 0, ""))
    log = ClientLog("small", sorted(rows))
    consumer = LogModel(log, workload).extract().consumers[0]
    assert (consumer.reject, consumer.release, consumer.crash) == (0.25, 0, 2.0)
    assert kinds(log, workload) == []


# The command


def command(*words):
    return room_command(cli, "trace", "import", *words)


def test_import_writes_a_trace_and_a_workload(tmp_path, capsys):
    trace, workload = tmp_path / "out.jsonl", tmp_path / "behind.json"
    log = write_beginning(tmp_path, "overflow-despite-flow-control", 5_000)
    assert command(log, "--out", trace, "--workload", workload, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["findings"] == []
    assert facts["workload"] == "overflow-despite-flow-control.json"
    assert facts["statistics"]["q"]["recorded_stops"] > 0
    back, quarantine = read_trace(trace)
    assert (len(back), len(quarantine)) == (facts["events"], 0)
    assert Workload.load(workload).producers[0].arrival == "recorded"


def test_import_tells_findings_and_quarantined_rows(tmp_path, capsys):
    path, given = tmp_path / "odd.csv", tmp_path / "given.json"
    given.write_text(json.dumps(workload_json(small())))
    lines = ["ts_us,client,event,queue,label,size,group", "5,c,deliver,q,p-9,1,", "6,c,deliver,q,p-8,x,"]
    path.write_text("\n".join(lines))
    assert command(path, given) == 1
    out, err = capsys.readouterr()
    assert "1 finding " in out and "never sent (CM-01)" in out
    assert "row 2, column size: must be a whole number, got 'x'" in err
    assert "not judged, as rows of them were quarantined or are missing: 1 message (p-8)" in out


def test_a_workload_before_its_log_is_no_log(tmp_path, capsys):
    path, given = tmp_path / "odd.jsonl", tmp_path / "given.json"
    given.write_text(json.dumps(workload_json(small())))
    path.write_text(json.dumps(LogRow(5, "c", "deliver", "q", "p-9", 1, "")._asdict()))
    told = []
    for order in ((path, given), (given, path)):
        assert command(*order) == 1
        told.append(capsys.readouterr())
    assert told[0] == told[1]
    assert "workload: given.json" in told[0].out and not told[0].err


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("log.csv", b"time,who\n", "log.csv: the columns must be ts_us, client, event"),
        (
            "log.csv",
            b"ts_us,client,event,queue,label,size,group\n",
            "a log must have rows of clients to guess its workload",
        ),
    ],
)
def test_import_refuses_in_one_sentence(tmp_path, name, data, sentence):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(QflowError) as refusal:
        command(path)
    assert str(refusal.value).startswith(sentence)
    assert "\n" not in str(refusal.value)


def test_a_log_of_simulated_clients_has_no_findings():
    from qflow.prediction.replays import _rows_of_run
    from qflow.workload.network import Network

    network = Network(ack_delay=0.042, send_cost=0.00008, report_cost=0.0002)
    workload = Workload(
        "made",
        4,
        {"q": {"qpid.flow_stop_count": 60, "qpid.flow_resume_count": 30, **GROUPED}},
        producers=(Producer("p", ("", "q"), 300, 20, 100, groups=(5, 1.0), seed=7, network=network),),
        consumers=tuple(
            Consumer(name, "q", 10, ("exp", 0.008), release=0.02, seed=seed, network=network)
            for seed, name in enumerate(("c", "d"))
        ),
    )
    run = simulate(workload)
    groups = {event.message: event.group for event in run.events if event.kind == "enqueued"}
    rows = [row._replace(group=groups.get(row.label, ""), size=100) for row in _rows_of_run(run.events)]
    assert kinds(ClientLog("made", rows), replace(workload, name="made")) == []
