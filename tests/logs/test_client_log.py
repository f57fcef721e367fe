"""Client logs: read with care, and replayed beside what the real broker reported."""

import gzip
import json
from collections import Counter, deque
from functools import cache

import pytest
from recordings import WORKLOADS, beginning, load

from qflow.broker.errors import ResourceLimitExceededException
from qflow.logs import Auditor, audit
from qflow.logs.components import lake_of
from qflow.trace import ClientLog, LogError, LogRow, replay, trace_of
from qflow.trace.replaying import Replay
from qflow.workload import CLIENT_EVENTS, Consumer, Producer, Workload
from qflow.workload.arrivals import due_messages

HEADER = "ts_us,client,event,queue,label,size,group\n"


@cache
def replay_of(name):
    log, workload = load(name)
    return log, workload, replay(log, workload)


@pytest.fixture(scope="module", params=["slow-consumer", "capacity-165", "overflow-despite-flow-control"])
def replayed(request):
    return replay_of(request.param)


def beside(log, run, queue):
    """Yield each report of the broker, with the depth, bytes, whether ON and times ON of the engine then."""
    kinds = ("enqueued", "dequeued", "flow_stopped", "flow_resumed")
    events = deque(event for event in run.events if event.queue == queue and event.kind in kinds)
    count = size = stops = 0
    is_on = False
    for sample in log.statistics(queue):
        while events and events[0].time <= sample.ts_us:
            event = events.popleft()
            if event.kind in ("enqueued", "dequeued"):
                count, size = event.detail["depth"], event.detail["bytes"]
            else:
                is_on = event.kind == "flow_stopped"
                stops += is_on
        yield sample, count, size, is_on, stops


# Beside the real broker


def test_flow_control_and_depths_agree_with_what_the_real_broker_reported(replayed):
    """Samples within the flight of a message may differ in flow control: at most one in a hundred.

    The recorded clients wrote accepts in small batches: the engine hears of each a few messages early.
    """
    log, workload, run = replayed
    in_flight = sum(p.capacity for p in workload.producers) + sum(c.prefetch for c in workload.consumers)
    for queue in workload.queues:
        samples = list(beside(log, run, queue))
        agreeing = sum(is_on == sample.flowStopped for sample, _, _, is_on, _ in samples)
        assert agreeing / len(samples) >= 0.99
        last, *_, stops = samples[-1]
        assert stops == last.flowStoppedCount
        differences = [count - sample.msgDepth for sample, count, *_ in samples if sample.msgDepth]
        assert max(map(abs, differences)) <= in_flight
        assert -4 < sum(differences) / len(differences) < 1


def test_byte_depths_agree_where_depths_do():
    """Encoded sizes are as the broker counts them."""
    log, _, run = replay_of("slow-consumer")
    differences = [
        size - sample.byteDepth
        for sample, count, size, *_ in beside(log, run, "orders")
        if sample.msgDepth and count == sample.msgDepth
    ]
    assert len(differences) > 50
    # Labels get longer: at p1-1000 the same number of messages may be a byte more.
    assert differences.count(0) / len(differences) > 0.95
    assert max(map(abs, differences)) <= 1


def test_every_recorded_settlement_was_carried_out(replayed):
    log, _, run = replayed
    kinds = Counter(event.kind for event in run.events)
    rows = Counter(row.event for row in log.rows)
    differing = Counter(event.detail["logged"] for event in run.events if event.kind == "client.differs")
    assert kinds["message.transfer"] == rows["transfer"] - differing["transfer"]
    # What was never sent cannot be accepted; every other accept was carried out, if late.
    assert 0 <= rows["accept"] - kinds["message.accept"] <= differing["transfer"]
    assert kinds["client.block"] == rows["block"]
    assert sum(differing.values()) <= 0.01 * len(log.rows)


def test_the_overflow_is_the_engines_own_and_ends_only_that_session():
    log, _, run = replay_of("overflow-despite-flow-control")
    assert set(run.errors) == {"p1"}
    assert isinstance(run.errors["p1"], ResourceLimitExceededException)
    (recorded,) = [row for row in log.rows if row.event == "error"]
    assert recorded.label.startswith(f"506 {str(run.errors['p1'])[:55]}")
    death = next(event.time for event in run.events if event.kind == "exception")
    last = max(row.ts_us for row in log.rows if row.event == "transfer" and row.client == "p1")
    # Clients log a transfer when they send it, the broker meets it a little later.
    assert 0 <= last - death < 5_000


def test_a_recorded_producer_meant_to_send_what_the_simulated_one_sends():
    for name in ("slow-consumer", "capacity-165", "overflow-despite-flow-control"):
        log, workload = load(name)
        for producer in workload.producers:
            rows = [row for row in log.rows if row.client == producer.name]
            first_block = next(row.ts_us for row in rows if row.event == "block")
            sent = [row for row in rows if row.event == "transfer"]
            for row, (due, size, group) in zip(sent, due_messages(producer), strict=False):
                assert (row.size, row.group) == (size, group)
                assert row.ts_us >= due
                if row.ts_us < first_block:
                    assert row.ts_us - due < 30_000


# What a replay does


def small(**settings):
    return Workload(
        "small",
        1,
        {"q": settings},
        producers=(Producer("p", ("", "q"), rate=10, capacity=5, size=100),),
        consumers=(
            Consumer("c", "q", prefetch=2, service=("const", 1)),
            Consumer("d", "q", prefetch=2, service=("const", 1), start=0.5),
        ),
    )


def rows(*items):
    """Rows from (time, client, event, number of the message)."""
    return ClientLog(
        "small",
        [
            LogRow(time, who, event, "q", f"p-{n}", 100 * (event == "transfer"), "")
            for time, who, event, n in items
        ],
    )


def told(run, *kinds):
    return [(event.time, event.kind, event.message) for event in run.events if event.kind in kinds]


def test_a_released_message_comes_again():
    log = rows((1, "p", "transfer", 1), (5, "c", "release", 1), (9, "c", "accept", 1))
    run = replay(log, small())
    assert told(run, "delivered", "requeued", "dequeued") == [
        (1, "delivered", "p-1"),
        (5, "requeued", "p-1"),
        (5, "delivered", "p-1"),
        (9, "dequeued", "p-1"),
    ]
    assert run.end == 9


def test_an_accept_before_its_delivery_waits_for_it():
    log = rows((1, "c", "accept", 1), (3, "p", "transfer", 1), (9, "p", "transfer", 2))
    run = replay(log, small())
    assert told(run, "client.differs", "enqueued", "dequeued") == [
        (1, "client.differs", "p-1"),
        (3, "enqueued", "p-1"),
        (3, "dequeued", "p-1"),
        (9, "enqueued", "p-2"),
    ]
    (differing,) = [event for event in run.events if event.kind == "client.differs"]
    assert differing.detail == {"logged": "accept", "engine": "not delivered"}
    assert set(CLIENT_EVENTS) >= {"client.differs"}


def test_a_message_that_another_consumer_has_is_settled_there():
    log = rows((1, "p", "transfer", 1), (600_000, "d", "accept", 1))
    run = replay(log, small())
    assert told(run, "dequeued") == [(600_000, "dequeued", "p-1")]
    (accept,) = [event for event in run.events if event.kind == "message.accept"]
    assert accept.session == "c"
    (differing,) = [event for event in run.events if event.kind == "client.differs"]
    assert (differing.session, differing.detail["engine"]) == ("d", "delivered to c")


def test_a_ring_that_dropped_another_message_does_not_stop_the_consumer():
    """The real ring dropped p-1 and p-2 before they were delivered; the engine has delivered them."""
    transfers = [(n, "p", "transfer", n) for n in range(1, 6)]
    accepts = [(10 + n, "c", "accept", n) for n in range(3, 6)]
    run = replay(rows(*transfers, *accepts), small(**{"qpid.max_count": 5, "qpid.policy_type": "ring"}))
    assert [label for _, _, label in told(run, "dequeued")] == ["p-3", "p-4", "p-5"]


def test_an_error_row_ends_the_session_even_if_the_engine_would_not():
    log = rows((1, "p", "transfer", 1))
    log.rows.append(
        LogRow(5, "p", "error", "", "506 resource-limit-exceeded: Maximum depth exceeded on q", 0, "")
    )
    log.rows.append(LogRow(6, "c", "error", "", "something else", 0, ""))
    run = replay(log, small())
    assert run.errors["p"].code == 506
    assert run.errors["p"].text == "Maximum depth exceeded on q"
    assert str(run.errors["c"]) == "internal-error: something else"
    assert [event.session for event in run.events if event.kind == "session.detach"][-2:] == ["p", "c"]


def test_what_a_dead_consumer_had_goes_to_the_next_and_is_settled_there():
    log = rows((1, "p", "transfer", 1), (600_000, "p", "transfer", 2))
    log.rows.append(LogRow(700_000, "c", "error", "", "541 internal-error: gone", 0, ""))
    log.rows.append(LogRow(700_001, "c", "accept", "q", "p-1", 0, ""))
    run = replay(log, small())
    assert told(run, "delivered", "dequeued") == [
        (1, "delivered", "p-1"),
        (600_000, "delivered", "p-2"),
        (700_000, "delivered", "p-1"),
        (700_000, "delivered", "p-2"),
        (700_001, "dequeued", "p-1"),
    ]
    assert {name: error.code for name, error in run.errors.items()} == {"c": 541}


def test_transfers_of_a_session_that_the_engine_ended_are_left_out():
    log = rows(*[(n, "p", "transfer", n) for n in range(1, 5)])
    run = replay(log, small(**{"qpid.max_count": 2}).with_consumer("c", start=0.5))
    assert told(run, "enqueued", "exception", "client.differs") == [
        (1, "enqueued", "p-1"),
        (2, "enqueued", "p-2"),
        (3, "exception", ""),
        (4, "client.differs", "p-4"),
    ]


@pytest.mark.parametrize(
    ("row", "what", "allowed"),
    [((1, "x", "transfer", 1), "transfer by 'x'", "p"), ((1, "p", "accept", 1), "accept by 'p'", "c, d")],
)
def test_a_client_that_the_workload_has_not_is_refused(row, what, allowed):
    with pytest.raises(LogError) as refusal:
        replay(rows(row), small())
    assert str(refusal.value) == (
        f"row 1, column client: {what} on 'q' does not fit workload 'small', which has {allowed} for that"
    )


def test_an_empty_log_replays_to_declared_queues():
    assert [event.kind for event in replay(ClientLog("empty", []), small()).events][:1] == ["session.attach"]


# Reading


def test_a_recorded_log_loads_whole():
    log = ClientLog.load(WORKLOADS / "slow-consumer.csv.gz")
    assert (log.name, len(log.rows)) == ("slow-consumer", 34_803)
    assert Counter(row.event for row in log.rows) == {
        "transfer": 8401,
        "complete": 8401,
        "deliver": 8401,
        "accept": 8401,
        "stats": 795,
        "block": 202,
        "unblock": 202,
    }
    first = next(row for row in log.rows if row.event == "transfer")
    assert first == (657, "p1", "transfer", "orders", "p1-1", 100, "")
    assert log.statistics("orders")[-1] == (40_458_186, 868, 128_464, True, 13, 7552, 0, 0)
    assert repr(log) == "ClientLog('slow-consumer', 34803 rows)"


COLUMNS = "the columns must be ts_us, client, event, queue, label, size, group, got "
BAD = [
    # The first lines of a file of CSV, also packed, and what is said of it.
    ("", COLUMNS + "none"),
    ("ts,client,event,queue,label,size,group\n", COLUMNS + "ts, client"),
    ("client,ts_us,event,queue,size,group\n", COLUMNS + "client, ts_us"),
    (HEADER + "1,p,transfer,q,p-1,100\n", "row 1: must have 7 values, got 6"),
    (HEADER + "1,p,block,,,0,\n1.5,p,block,,,0,\n", "row 2, column ts_us: must be a whole number, got '1.5'"),
    (HEADER + "1,p,transfer,q,p-1,big,\n", "row 1, column size: must be a whole number, got 'big'"),
    (HEADER + "1,p,transfer,q,p-1,-5,\n", "row 1, column size: must not be negative, got -5"),
    (HEADER + "1,p,sent,q,p-1,100,\n", "row 1, column event: must be one of transfer, complete, block"),
    (HEADER + "1,,block,,,0,\n", "row 1, column client: must be a name, got ''"),
    (HEADER + "-1,p,block,,,0,\n", "row 1, column ts_us: must not be negative, only the broker reports"),
    (HEADER + '1,p,error,,"no end', "the file is cut off or damaged at its beginning"),
    # The same of a line of JSON.
    ("{", "row 1: each line must be a complete JSON object, got '{'"),
    ('{"ts_us": 1}', f"row 1: must be a JSON object of {', '.join(LogRow._fields)}, got "),
    ("5", "row 1: must be a JSON object of ts_us"),
    (LogRow(1, "p", "block", 7, "", 0, ""), "row 1, column queue: must be text, got 7"),
    (LogRow(1, 5, "block", "", "", 0, ""), "row 1, column client: must be a name, got 5"),
    (LogRow(True, "p", "block", "", "", 0, ""), "row 1, column ts_us: must be a whole number, got True"),
]


@pytest.mark.parametrize(("text", "sentence"), BAD, ids=[sentence for _, sentence in BAD])
def test_a_bad_row_is_one_sentence_with_row_and_column(tmp_path, text, sentence):
    text = json.dumps(text._asdict()) if isinstance(text, LogRow) else text
    is_json = text[:1] in ("{", "5")
    for name in ("bad.jsonl", "bad.jsonl.gz") if is_json else ("bad.csv", "bad.csv.gz"):
        path, data = tmp_path / name, text.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        with pytest.raises(LogError) as refusal:
            ClientLog.load(path)
        assert str(refusal.value).startswith(f"{name}: {sentence}")
        assert "\n" not in str(refusal.value)


def test_good_rows_are_kept_and_bad_ones_quarantined(tmp_path):
    path = tmp_path / "mixed.csv"
    path.write_text(HEADER + "1,p,transfer,q,p-1,9,\n-1,p,block,,,0,\n2,p,sent,,,0,\n3,p,block,,,0,\n")
    log, quarantine = ClientLog.read(path)
    assert [row.ts_us for row in log.rows] == [1, 3]
    assert [(entry.row, entry.column) for entry in quarantine] == [(2, "ts_us"), (3, "event")]
    assert "row 2, column ts_us: must not be negative" in quarantine.summary()


def test_json_lines_and_parquet_hold_the_same_rows(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    log, _ = beginning("overflow-despite-flow-control", 4)
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(row._asdict()) + "\n" for row in log.rows))
    path = tmp_path / "log.parquet"
    parquet.write_table(pyarrow.table(log.columns()), path)
    assert ClientLog.load(tmp_path / "log.jsonl").rows == ClientLog.load(path).rows == log.rows


def test_a_parquet_column_of_another_type_is_named(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = dict(zip(LogRow._fields, [[1.5], ["p"], ["block"], [""], [""], [0], [None]], strict=True))
    path = tmp_path / "log.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    with pytest.raises(LogError, match="log.parquet: row 1, column ts_us: must be a whole number, got 1.5"):
        ClientLog.load(path)


def test_a_file_that_is_cut_off_says_after_which_row(tmp_path):
    whole = (WORKLOADS / "capacity-165.csv.gz").read_bytes()
    path = tmp_path / "cut.csv.gz"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(LogError, match=r"^cut.csv.gz: the file is cut off or damaged after row \d{4}"):
        ClientLog.load(path)
    log, quarantine = ClientLog.read(path)
    assert len(log.rows) > 5000
    assert "the file is cut off or damaged after row" in quarantine[-1].reason


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("odd.csv.gz", b"\x00\x01\x02", "odd.csv.gz: the "),
        ("odd.csv.gz", b"", "odd.csv.gz: the "),
        ("odd.csv.gz", b"\x1f\x8b\x08\x00garbage-that-is-long-enough", "odd.csv.gz: the "),
        ("log.parquet", b"PAR1 and no more", "log.parquet: the file is cut off or damaged, or no Parquet"),
        ("log.xlsx", b"", "log.xlsx: a client log is a .csv, .csv.gz, .jsonl, .jsonl.gz or .parquet file"),
    ],
)
def test_what_is_no_log_is_refused_in_one_sentence(tmp_path, name, data, sentence):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(LogError, match=sentence):
        ClientLog.load(tmp_path / name)


def test_a_file_that_is_not_there_is_the_systems_own_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        ClientLog.load(tmp_path / "none.csv.gz")


@pytest.mark.parametrize(
    "label", ["", "[1, 2]", "[0, 0, 0, 0, 0, 0, 0]", '{"msgDepth": 1}', "[0.5, 0, false, 0, 0, 0, 0]"]
)
def test_statistics_that_make_no_sense_or_are_none(label):
    log = ClientLog("odd", [LogRow(1, "broker", "stats", "q", label, 0, "")])
    with pytest.raises(LogError, match="row 1, column label: must be a JSON list of msgDepth, byteDepth"):
        log.statistics("q")
    with pytest.raises(LogError, match="no statistics of queue 'x'; there are some of 'q'"):
        log.statistics("x")


# A client that goes on after its session ended


def died(time, client, words="506 resource-limit-exceeded: Maximum depth exceeded on q"):
    return LogRow(time, client, "error", "", words, 0, "")


def logged(*items):
    """Rows as ``rows`` makes them, and error rows, in order of time."""
    errors = [item for item in items if isinstance(item, LogRow)]
    log = rows(*(item for item in items if not isinstance(item, LogRow)))
    return ClientLog(log.name, sorted([*log.rows, *errors], key=lambda row: row.ts_us))


def test_a_producer_that_reconnects_sends_on_a_new_session():
    """A normal reconnect: after the error that its log shows, nothing of it is left out."""
    log = logged(
        *((n, "p", "transfer", n) for n in range(1, 5)), died(10, "p"),
        (600_001, "c", "accept", 1), (600_002, "c", "accept", 2),
        *((n, "p", "transfer", n) for n in range(700_001, 700_003)), died(800_000, "p"),
        (900_001, "p", "transfer", 900_001),
    )  # fmt: skip
    workload = small(**{"qpid.max_count": 2}).with_consumer("c", start=0.5).with_consumer("d", start=9)
    run = replay(log, workload)
    assert told(run, "enqueued", "exception", "client.differs") == [
        (1, "enqueued", "p-1"),
        (2, "enqueued", "p-2"),
        (3, "exception", ""),
        # On its way when the session ended.
        (4, "client.differs", "p-4"),
        (700_001, "enqueued", "p-700001"),
        (700_002, "enqueued", "p-700002"),
        (900_001, "exception", ""),
    ]
    attached = [event.time for event in run.events if event.kind == "session.attach" and event.session == "p"]
    assert attached == [0, 700_001, 900_001]
    assert not [one for one in audit(log, workload).findings if one.kind == "sends on"]
    # The trace is one that the engine can play again.
    replayed = Replay(trace_of(run))
    replayed.run()
    assert replayed.difference() is None


def test_a_consumer_that_reconnects_is_delivered_to_again():
    log = logged(
        (1, "p", "transfer", 1), (2, "p", "transfer", 2), (600_000, "c", "deliver", 1),
        died(700_000, "c", "541 internal-error: gone"),
        (800_000, "c", "deliver", 1), (800_001, "c", "deliver", 2), (800_005, "c", "accept", 1),
        (800_009, "c", "accept", 2),
    )  # fmt: skip
    workload = small().with_consumer("c", start=0.5).with_consumer("d", start=9)
    run = replay(log, workload)
    assert told(run, "delivered", "dequeued", "client.differs") == [
        (500_000, "delivered", "p-1"),
        (500_000, "delivered", "p-2"),
        (800_000, "delivered", "p-1"),
        (800_000, "delivered", "p-2"),
        (800_005, "dequeued", "p-1"),
        (800_009, "dequeued", "p-2"),
    ]
    assert audit(log, workload).findings == []


def test_a_producer_that_goes_on_without_an_error_is_a_finding_with_numbers():
    """What the engine left out is not kept in silence."""
    sends = [(n * 10_000, "p", "transfer", n) for n in range(1, 201)]
    workload = small(**{"qpid.max_count": 2}).with_consumer("c", start=9).with_consumer("d", start=9)
    (found,) = audit(logged(*sends), workload).findings
    assert (found.kind, found.client, found.queue, found.message) == ("sends on", "p", "q", "p-4")
    assert (found.row, found.time, found.number, found.gap) == (4, 40_000, 197, 1_960_000)
    assert found.text().startswith("row 4, 0.04 s: sends on (LP-06), p, q, p-4: 197 messages left out")
    # What was on its way while the answer came is none.
    assert audit(logged(*sends[:8]), workload).findings == []


def test_the_new_session_is_carried_on_as_text():
    log = logged(
        *((n, "p", "transfer", n) for n in range(1, 5)), died(10, "p"), (20, "p", "transfer", 5),
        died(30, "c", "541 internal-error: gone"), (40, "c", "deliver", 1), (41, "c", "accept", 1),
    )  # fmt: skip
    (rows_,) = lake_of("log", small(**{"qpid.max_count": 2}).with_consumer("d", start=9), log.rows).values()
    whole = Auditor("log/q").feed(rows_)
    assert any(row.kind == "finding" for row in whole)
    for cut in range(2, len(rows_)):
        first = Auditor("log/q")
        results = first.feed(rows_[:cut])
        assert results + Auditor("log/q", first.state()).feed(rows_[cut:]) == whole
