"""A broker's own log, held against what its clients recorded, and in the forms that operators have it in."""

import bz2
import gzip
import json
import lzma
from datetime import UTC, datetime

import pytest
from commands import output_of, refusal

import qflow as qf
from qflow.logs.broker_log import BrokerLog
from qflow.logs.findings import Finding
from qflow.logs.log_file import LogRow

SECOND = 1_000_000
DAY = datetime(2026, 11, 28, tzinfo=UTC)
ON = 'Queue "orders": has reached 40 enqueued messages. Producer flow control activated.'
OFF = 'Queue "orders": has drained below the flow control resume level. Producer flow control deactivated.'
CREATED = (
    'Queue "orders": Flow limit created: flowStopCount=40, flowResumeCount=20, flowStopSize=83886080, '
    "flowResumeSize=73400320"
)
FULL = (
    "resource-limit-exceeded: Maximum depth exceeded on audit.eu-west: current=[count: 12, size: 1200], "
    "max=[count: 12, size: 104857600], increment=[count: 1, size: 100] (src/qpid/broker/Queue.cpp:1664)"
)
DIED = f"[Broker] error Execution exception: {FULL}"
WARNED = f"[Broker] warning Exchange  cannot deliver to  queue audit.eu-west: {FULL}"


@pytest.fixture(scope="module")
def recorded(root):
    return root / "data" / "recordings" / "broker-logs"


def at(clock):
    """Return a time of 28 November 2026 in microseconds since 1970."""
    hour, minute, second = clock.split(":")
    return int(DAY.timestamp() + int(hour) * 3600 + int(minute) * 60) * SECOND + round(float(second) * SECOND)


def load(folder, *lines, name="qpidd.log", **options):
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return BrokerLog.load(path, **options)


def spans(log, queue="orders"):
    return [(one.begin_us, one.end_us) for one in log.queues[queue].spells]


@pytest.mark.parametrize("name", ["info-hires.log", "flow-debug.log.gz"])
def test_spells_end_in_the_second_in_which_a_blocked_send_returns(recorded, name):
    """The clients of `info-hires` measured how long `send` took; the load of `flow-debug` was the same."""
    log = BrokerLog.load(recorded / name)
    rows = gzip.decompress((recorded / "info-hires.clients.jsonl.gz").read_bytes()).splitlines()
    blocked = [row for row in map(json.loads, rows) if row.get("waited", 0) > 1 and row["queue"] == "orders"]
    returned = sorted({int(row["time"]) for row in blocked})
    assert [end // SECOND for _, end in spans(log)] == returned == [1795883950, 1795883955, 1795883957]
    for begin, end in spans(log):
        waits = [row["waited"] for row in blocked if int(row["time"]) == end // SECOND]
        slack = 0.1 if log.is_hires else 1.0
        assert all(abs(wait - (end - begin) / SECOND) <= slack for wait in waits)


def test_what_the_recorded_logs_hold(recorded):
    hires, debug = (BrokerLog.load(recorded / name) for name in ("info-hires.log", "flow-debug.log.gz"))
    assert (hires.is_hires, debug.is_hires, debug.lines) == (True, False, 11213)
    for log in (hires, debug):
        assert [(one.name, one.stops) for one in log.queues.values() if one.stops] == (
            [("invoices", 1), ("orders", 3)] if log is hires else [("orders", 3), ("invoices", 1)]
        )
        assert log.still_on == ["invoices"]
        (death,) = log.deaths
        assert death[1:6] == ("audit.eu-west", 12, 1200, 12, 104857600)
        assert log.share_on("orders") == pytest.approx((9 if log is debug else 8.428) / 114, rel=0.01)
    assert hires.spells[0].begin_us == at("16:39:00.447020")
    assert hires.queues["orders"].thresholds == (40, None, None, None)
    assert hires.queues["invoices"].thresholds == (None, None, 20000, None)
    assert debug.queues["orders"].thresholds == (40, 20, 83886080, 73400320)
    assert debug.queues["audit.eu-west"].thresholds.stop_count == 0
    # Only a log of level debug says which session was detached next.
    assert debug.deaths[0].session.startswith("anonymous.05bffe19") and not hires.deaths[0].session


def test_a_log_at_the_default_level_says_what_it_cannot_show(recorded):
    log = BrokerLog.load(recorded / "default.log")
    assert log.shows_flow is False and not log.spells and len(log.deaths) == 1
    assert "--log-enable info+" in log.sentences()[1]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("2026-11-28 16:39:06 [Broker] info ", "16:39:06"),
        (
            "2026-11-28 16:39:06.863433095 [Broker] info src/qpid/broker/QueueFlowLimit.cpp:109: ",
            "16:39:06.863433",
        ),
        ("2026-11-28 16:39:06 info ", "16:39:06"),
        ("east-1: 2026-11-28 16:39:06 [Broker] info [7f3a] ", "16:39:06"),
        ("Nov 28 16:39:07 host-3 qpidd[22042]: 2026-11-28 16:39:06 [Broker] info ", "16:39:06"),
        ("<30>Nov 28 16:39:06 host-3 qpidd[22042]: [Broker] info ", "16:39:06"),
        ("Nov  8 16:39:06 host-3 qpidd: [Broker] info ", None),
        ("2026-11-28T17:39:06.5+01:00 host-3 qpidd[22042]: [Broker] info ", "16:39:06.5"),
        ("2026-11-28T17:39:06+0100 host-3 qpidd[22042]: 2026-11-28 17:39:06 [Broker] info ", "16:39:06"),
        ("2026-11-28T16:39:06.123456789Z stdout F 2026-11-28 16:39:06 [Broker] info ", "16:39:06"),
        ('{"log":"2026-11-28 16:39:06 [Broker] info ', "16:39:06"),
    ],
)
def test_a_line_is_read_behind_any_prefix(tmp_path, head, expected):
    message = ON.replace('"', '\\"') if head.startswith("{") else ON
    log = load(tmp_path, head + message, head + "and so on", year=2026)
    (spell,) = log.spells
    assert (spell.queue, spell.stop, spell.unit, spell.end_us) == ("orders", 40, "messages", None)
    assert spell.begin_us == (at("16:39:06") - 20 * 86400 * SECOND if expected is None else at(expected))


def test_names_of_queues_may_hold_anything(tmp_path):
    names = ['a "b": c', "with blank", "größe", "q: user-configured", "amq.x[1]"]
    head = "2026-11-28 16:39:0{} [Broker] info "
    log = load(tmp_path, *(head.format(n) + ON.replace("orders", name) for n, name in enumerate(names)))
    assert list(log.queues) == names


def test_rotated_files_are_one_log_in_any_order(tmp_path):
    lines = [
        f"2026-11-28 16:{minute:02d}:{second:02d} [Broker] info {text}"
        for minute in range(4)
        for second, text in enumerate((ON, "noise", OFF, "noise"))
    ]
    whole = load(tmp_path, *lines)
    parts = [tmp_path / name for name in ("q.log.10.gz", "q.log.2.bz2", "q.log.1.xz", "q.log")]
    packers = (gzip.compress, bz2.compress, lzma.compress, bytes)
    # A spell that begins in one file ends in the next.
    for path, pack, cut in zip(parts, packers, (0, 5, 9, 13), strict=True):
        end = {0: 5, 5: 9, 9: 13, 13: 16}[cut]
        path.write_bytes(pack("".join(f"{line}\n" for line in lines[cut:end]).encode()))
    (tmp_path / "empty.log").touch()
    for order in (parts, parts[::-1], [*parts, tmp_path / "empty.log"]):
        log = BrokerLog.load(*order)
        assert spans(log) == spans(whole) and log.lines == whole.lines == 16


@pytest.mark.parametrize("cut", [6, 8, 16])
def test_lines_that_are_in_two_files_count_once(tmp_path, cut):
    """A file and its copy, or the beginning of it that was copied before the rest came."""
    texts = (ON, "noise", OFF, ON) * 4
    lines = [f"2026-11-28 16:{n:02d}:00 [Broker] info {text}" for n, text in enumerate(texts)]
    whole = load(tmp_path, *lines)
    load(tmp_path, *lines[:cut], name="copy.log")
    log = BrokerLog.load(tmp_path / "copy.log", tmp_path / "qpidd.log")
    assert spans(log) == spans(whole)
    assert "lines of an earlier file" in log.notes[0]


def test_files_that_are_no_log_are_refused_together(tmp_path):
    for name in ("a.txt", "b.csv"):
        (tmp_path / name).write_text("name,size\nx,1\n")
    with pytest.raises(qf.LogError, match=r"^a.txt, b.csv: no line begins with a time"):
        BrokerLog.load(tmp_path / "a.txt", tmp_path / "b.csv")
    with pytest.raises(qf.LogError, match=r"e.log: there is no line"):
        load(tmp_path, name="e.log")
    with pytest.raises(qf.RefusalError, match=r"Europe/Berlin.*got 'Mars'"):
        load(tmp_path, "2026-11-28 16:39:06 x", zone="Mars")


def test_a_packed_file_that_is_cut_off_gives_what_precedes_the_cut(tmp_path):
    packed = gzip.compress(f"2026-11-28 16:39:06 [Broker] info {ON}\n".encode() * 2 + b"x" * 99)
    (tmp_path / "q.log.gz").write_bytes(packed[:-9])
    log = BrokerLog.load(tmp_path / "q.log.gz")
    assert log.queues["orders"].stops == 1 and "cut off" in log.notes[0]


def test_spells_without_an_on_or_an_off_line(tmp_path):
    head = "2026-11-28 16:39:{:02d} [Broker] info "
    log = load(
        tmp_path, *(head.format(2 * n) + text for n, text in enumerate(("first", OFF, ON, ON, OFF, ON)))
    )
    assert [(one.stop, one.ending, one.seconds) for one in log.spells] == [
        (None, "OFF", 2.0), (40, "not logged", 2.0), (40, "OFF", 2.0), (40, "log ends", None),
    ]  # fmt: skip
    assert log.queues["orders"].stops == 3 and log.on_us("orders") == 6 * SECOND
    assert any("lines are missing" in sentence for sentence in log.sentences())


def test_a_line_that_was_collected_twice_counts_once(tmp_path):
    head = "2026-11-28 16:39:{:02d}.5 [Broker] info "
    twice = [head.format(n) + text for n, text in enumerate((ON, OFF)) for _ in range(2)]
    log = load(tmp_path, *twice)
    assert [one.seconds for one in log.spells] == [1.0]


def test_a_restart_ends_spells_and_the_time_between_is_not_observed(tmp_path):
    lines = [
        "2026-11-28 16:00:00 [Broker] notice Broker (pid=1) start-up",
        f"2026-11-28 16:00:10 [Broker] info {ON}",
        "2026-11-28 16:00:20 [Broker] notice Broker (pid=1) shut-down",
        "2026-11-28 16:01:20 [Broker] notice Broker (pid=2) start-up",
        f"2026-11-28 16:01:30 [Broker] info {ON}",
        f"2026-11-28 16:01:40 [Broker] info {OFF}",
        "2026-11-28 16:01:40 [Broker] notice Broker (pid=2) shut-down",
    ]
    log = load(tmp_path, *lines)
    assert [(one.ending, one.seconds) for one in log.spells] == [("broker stopped", 10.0), ("OFF", 10.0)]
    assert (log.runs, log.observed_us, log.still_on) == (2, 40 * SECOND, [])
    assert log.share_on("orders") == 0.5


def test_a_queue_that_is_deleted_or_created_anew_is_off(tmp_path):
    head = "2026-11-28 16:39:{:02d} [Broker] debug "
    delete = "Delete queue. name:orders user:anonymous rhost:qpid.127.0.0.1:5672-127.0.0.1:1"
    other = CREATED.replace("=40", "=50")
    texts = (CREATED, ON, delete, CREATED, ON, other)
    log = load(tmp_path, *(head.format(n) + text for n, text in enumerate(texts)))
    assert [(one.ending, one.seconds) for one in log.spells] == [("queue replaced", 1.0)] * 2
    queue = log.queues["orders"]
    assert (queue.thresholds.stop_count, queue.changes, queue.is_on) == (50, 1, False)


def test_refusals_and_deaths_are_told_apart(tmp_path):
    """A warning and the error that follows it are one message; a warning alone ended no session."""
    lines = [
        f"2026-11-28 16:39:{n:02d} {text}" for n, text in ((1, WARNED), (1, DIED), (7, WARNED), (9, DIED))
    ]
    log = load(tmp_path, *lines)
    assert [one.session_died for one in log.queues["audit.eu-west"].overflows] == [True, False, True]
    assert "audit.eu-west refused 1 message because it was full." in log.sentences()


def test_ignored_limits_and_held_transfers_are_counted(tmp_path):
    log = load(
        tmp_path,
        "2026-11-28 16:39:01 [Broker] warning queue q: user-configured flow limits are ignored as no stop "
        "limits provided",
        '2026-11-28 16:39:02 [Broker] trace Queue "q": setting flow control for msg pos=17',
    )
    assert (log.queues["q"].ignored_limits, log.queues["q"].held) == (1, 1)


def test_the_end_of_summer_time(tmp_path):
    """At 3:00 on 25 October 2026 clocks in Berlin went back to 2:00."""
    lines = [f"2026-10-25 02:50:00 [Broker] info {ON}", f"2026-10-25 02:10:00 [Broker] info {OFF}"]
    (spell,) = load(tmp_path, *lines, zone="Europe/Berlin").spells
    assert spell.seconds == 20 * 60
    assert datetime.fromtimestamp(spell.begin_us / SECOND, UTC).hour == 0
    assert "summer time" in load(tmp_path, *lines).notes[0]


@pytest.mark.parametrize(
    ("line", "shows"),
    [
        ("[Security] info Broker (pid=1) running", True),
        ("[Broker] debug clean(): 0 messages remain", True),
        ("[Network] info Listening to: 127.0.0.1:5672", None),
        ("Broker (pid=1) start-up", None),
        ("[Broker] notice Broker (pid=1) start-up", False),
    ],
)
def test_whether_a_log_without_such_a_line_would_show_flow_control(tmp_path, line, shows):
    assert load(tmp_path, f"2026-11-28 16:39:01 {line}").shows_flow is shows


def test_the_time_of_one_log_is_found_in_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("qflow.logs.broker_log._BLOCK", 64)
    lines = [
        f"2026-11-28 16:{n:02d}:00 [Broker] info {text}"
        for n, text in enumerate((ON, "x" * 300, OFF, ON, OFF))
    ]
    seen = []
    log = load(tmp_path, *lines, progress=lambda done, total, part="": seen.append((done, total)))
    assert spans(log) == [(at("16:00:00"), at("16:02:00")), (at("16:03:00"), at("16:04:00"))]
    assert seen[-1][0] == seen[-1][1] and len(seen) > 3


def test_a_chart_has_both_logs_on_one_axis(recorded):
    log = BrokerLog.load(recorded / "info-hires.log")
    words = {"event": "what:{sent=transfer,accepted=accept,failed=error}", "label": "number"}
    clients = qf.ClientLog.load(recorded / "info-hires.clients.jsonl.gz", columns=words)
    figure = qf.broker_log_chart(log, clients).figure
    traces = {trace.name: trace for trace in figure.data}
    on = traces["flow control ON"]
    assert list(on.y) == ["invoices", "orders", "orders", "orders"]
    sent = [x for x, who in zip(traces["transfers"].x, traces["transfers"].y, strict=True) if who == "shop-1"]
    inside = [
        x
        for x in sent
        if any(a + 0.5 < x < a + w - 0.1 for a, w in list(zip(on.base, on.x, strict=True))[1:])
    ]
    assert len(sent) > 50 and not inside
    assert list(figure.layout.xaxis.ticktext)[:2] == ["16:39:00", "16:39:15"]
    assert figure.layout.xaxis.tickvals[0] == pytest.approx(60 - 53.184764, abs=0.001)
    elsewhere = BrokerLog.load(recorded / "info-hires.log", zone="America/New_York")
    assert "No transfer of the client log falls" in qf.broker_log_chart(elsewhere, clients).claims[-1]


@pytest.mark.parametrize("zone", ["Mars", "+99:00", "+1"])
def test_a_zone_that_is_none_is_refused(recorded, capsys, zone):
    said = refusal(capsys, "trace", "broker-log", recorded / "info-hires.log", "--zone", zone)
    assert f"or an offset such as +01:00; got {zone!r}" in said


def test_a_year_that_is_none_is_refused(recorded, capsys):
    said = refusal(capsys, "trace", "broker-log", recorded / "info-hires.log", "--year", "99999999999")
    assert "must be a whole number from 1 to 9999, got '99999999999'" in said


def test_what_looks_like_a_time_and_is_none_is_passed_over():
    on = 'Queue "q": has reached 4 enqueued messages. Producer flow control activated.'
    heads = ("2026-11-28 25:61:00 ", "Foo 28 16:39:06 h qpidd: ", "Feb 30 16:39:06 h qpidd: ")
    lines = ["2026-11-28 16:39:05 [Broker] notice x", *(f"{head}[Broker] info {on}" for head in heads)]
    log = BrokerLog.parse("\n".join(lines))
    assert log.spells == [] and "lines without a time are passed over" in log.notes[0]


def test_a_client_log_that_cannot_be_drawn_is_refused_in_words(recorded, tmp_path, capsys):
    """Its rows need ``--map``; and one without a date has no place on the clock's axis."""
    command = ("trace", "broker-log", recorded / "info-hires.log", "--html", tmp_path / "page.html")
    said = refusal(capsys, *command, "--clients", recorded / "info-hires.clients.jsonl.gz")
    assert "--clients: info-hires.clients.jsonl.gz: 1487 rows were quarantined; row 1" in said
    undated = tmp_path / "undated.csv"
    undated.write_text("ts_us,client,event,queue,label,size,group\n5,p,transfer,orders,p-1,100,\n")
    assert "must have a date" in refusal(capsys, *command, "--clients", undated)


def test_the_command_prints_a_table_json_and_a_page(recorded, tmp_path, capsys):
    facts = json.loads(output_of(capsys, "trace", "broker-log", recorded / "flow-debug.log.gz", "--json"))
    assert facts["still_on"] == ["invoices"] and facts["queues"]["orders"]["stops"] == 3
    page = tmp_path / "flow.html"
    said = output_of(capsys, "trace", "broker-log", recorded / "info-hires.log", "--html", page)
    assert "orders turned ON 3 times" in said and "orders turned ON 3 times" in page.read_text()


START = 1_795_883_940_000_000  # 16:39:00


def late(begin, end, queue="orders", kind="withheld without cause"):
    """A finding that a completion came at `end`, due at `begin`, both in seconds from 16:39:00."""
    at = begin if kind == "never completed" else end
    return Finding(1, round(at * SECOND), kind, queue=queue, gap=round((end - begin) * SECOND))


ON_FROM_7_TO_10, OFF_SINCE_18 = (7.0, 10.4), (20.0, 25.0)


@pytest.mark.parametrize("name", ["info-hires.log", "flow-debug.log.gz"])
@pytest.mark.parametrize(
    ("finding", "said"),
    [
        (late(*ON_FROM_7_TO_10), "ON"),
        (late(*ON_FROM_7_TO_10, kind="completed late"), "ON"),
        (late(*ON_FROM_7_TO_10, queue=""), "ON"),
        (late(*ON_FROM_7_TO_10, queue="ticker"), None),
        (late(*OFF_SINCE_18), None),
        (late(7.0, 14.0), None),
        (late(20.0, 60.0, queue="invoices", kind="never completed"), "ON"),
        (late(20.0, 60.0, kind="never completed"), None),
        (late(0, 25.0, kind="completed while held"), "OFF"),
        (late(0, 8.5, kind="completed while held"), None),
        (late(*ON_FROM_7_TO_10, kind="sent twice"), None),
        (late(-90.0, -80.0), None),
    ],
)
def test_findings_that_the_broker_s_own_log_refutes_are_not_held_against_clients(
    recorded, name, finding, said
):
    weighed = BrokerLog.load(recorded / name).weigh_findings([finding], START)
    if said is None:
        assert weighed == [finding]
    else:
        assert [(one.kind, one.name, one.number) for one in weighed] == [("broker disagrees", said, 1)]
        assert said in weighed[0].sentence() and weighed[0].rule


def test_one_finding_a_queue_stands_for_all_that_are_refuted(recorded):
    log = BrokerLog.load(recorded / "info-hires.log")
    weighed = log.weigh_findings([late(7 + n / 10, 10.4) for n in range(5)] + [late(*OFF_SINCE_18)], START)
    assert [(one.kind, one.number) for one in weighed] == [
        ("broker disagrees", 5), ("withheld without cause", 1)
    ]  # fmt: skip


def test_a_log_that_shows_no_flow_control_refutes_nothing(recorded):
    found = [late(*ON_FROM_7_TO_10), late(0, 25.0, kind="completed while held")]
    assert BrokerLog.load(recorded / "default.log").weigh_findings(found, START) == found


def recorded_run(**thresholds):
    """A run of 40/20 with a hundred sends at 25 a second, eaten 10 a second: its log, and the broker's."""
    queue = {"qpid.flow_stop_count": 40, "qpid.flow_resume_count": 20}
    rows, lines, depth, is_on, held, sent = [], [], 0, False, [], 0
    for tick in range(0, 20_000, 20):
        now = tick * 1000
        if tick % 40 == 0 and sent < 200 and not held:
            sent += 1
            rows.append(LogRow(now, "p", "transfer", "q", f"p-{sent}", 100, ""))
            depth += 1
            if depth > 40 and not is_on:
                is_on = True
                lines.append((now, ON.replace("orders", "q")))
            if is_on:
                held.append(f"p-{sent}")
            else:
                rows.append(LogRow(now + 1, "p", "complete", "q", f"p-{sent}", 0, ""))
        if tick % 100 == 0 and depth:
            taken = sum(row.event == "accept" for row in rows) + 1
            rows.append(LogRow(now + 2, "c", "deliver", "q", f"p-{taken}", 100, ""))
            rows.append(LogRow(now + 3, "c", "accept", "q", f"p-{taken}", 0, ""))
            depth -= 1
            if is_on and depth < 20:
                is_on = False
                lines.append((now + 3, OFF.replace("orders", "q")))
                rows += [LogRow(now + 4, "p", "complete", "q", label, 0, "") for label in held]
                held = []
    told = [
        f"{datetime.fromtimestamp((START + time) / SECOND, UTC):%Y-%m-%d %H:%M:%S.%f} [Broker] info {text}"
        for time, text in lines
    ]
    producer = qf.Producer("p", ("", "q"), rate=25, capacity=1, size=100)
    consumer = qf.Consumer("c", "q", prefetch=1, service=("const", 0.1))
    workload = qf.Workload("run", 20, {"q": queue | thresholds}, producers=(producer,), consumers=(consumer,))
    return qf.ClientLog("run", rows, START), workload, BrokerLog.parse("\n".join(told))


def test_the_broker_s_log_clears_clients_of_what_other_thresholds_would_blame_them_for():
    log, workload, broker_log = recorded_run()
    assert broker_log.queues["q"].stops >= 1 and not qf.audit(log, workload).findings
    # The workload file says 80/60, but the broker ran with 40/20: completions seem to be withheld.
    _, wrong, _ = recorded_run(**{"qpid.flow_stop_count": 80, "qpid.flow_resume_count": 60})
    blamed = qf.audit(log, wrong).findings
    weighed = broker_log.weigh_findings(blamed, START)
    assert blamed and [(one.kind, one.queue, one.name) for one in weighed] == [
        ("broker disagrees", "q", "ON")
    ]
    # A completion that is late while the queue is OFF stays a finding, whatever the broker's log holds.
    elsewhere = broker_log.weigh_findings(blamed, START + 3600 * SECOND)
    assert [one.kind for one in elsewhere] == [one.kind for one in blamed]
