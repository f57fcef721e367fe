"""Traces: every event comes back from a replay, and what comes from elsewhere is looked at first."""

from __future__ import annotations

import builtins
import json
import time

import pytest
from commands import room_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recordings import SCENARIOS
from trace_commands import Cast, all_commands, common_commands, fresh

from qflow.broker import Broker, Event, Message
from qflow.broker.history import ReplicatedState
from qflow.broker.store import MessageStore
from qflow.conformance.scenario import load_scenarios
from qflow.conformance.scenario_player import Player
from qflow.trace import cli
from qflow.trace.files import _Checker, load_trace, read_trace, write_trace
from qflow.trace.replaying import Replay, first_difference, give, record, trace_of
from qflow.trace.schema import KINDS, NAMES, Trace, TraceError, decode_detail, encode_detail
from qflow.workload import Consumer, Producer, Workload, simulate

quick = settings(max_examples=60)


def recorded(commands, **options):
    broker = fresh(**options)
    trace = record(broker, "random")
    Cast(broker).play(commands)
    return trace, broker


def small(capacity=3):
    """A run with holds, deliveries and a client's own rows."""
    workload = Workload(
        "small",
        duration=2,
        queues={"q": {"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 2}},
        producers=(Producer("p", ("", "q"), rate=40, capacity=capacity, size=50, seed=1, groups=(3, 1.5)),),
        consumers=(Consumer("c", "q", prefetch=2, service=("exp", 0.05), seed=2, release=0.1),),
    )
    return trace_of(simulate(workload))


@pytest.fixture(scope="module")
def trace():
    return small()


# Replay


@quick
@given(all_commands, st.sampled_from(["shipped", "shipped", "overflow-list", "watermark", "java"]))
def test_replaying_random_commands_gives_back_every_row_and_the_state(commands, flow_control):
    trace, broker = recorded(commands, flow_control=flow_control)
    again = Replay(trace)
    assert again.run() == trace, first_difference(trace, again.trace)
    # Time that is told when nothing is due leaves no row; the next command's row would tell it.
    again.broker.advance(broker.now)
    assert again.broker.state_hash() == broker.state_hash()
    assert set(trace.kind) <= set(KINDS)
    assert_passes(trace)


LONG = "fz-65536"
"""A scenario of 330,000 rows, which takes as long as all others together."""


@pytest.mark.parametrize(
    ("path", "is_long"),
    [
        *((path, False) for path in sorted(SCENARIOS.glob("*.jsonl"))),
        pytest.param(SCENARIOS / "edges2.jsonl", True, marks=pytest.mark.release),
    ],
    ids=lambda value: getattr(value, "stem", LONG if value else ""),
)
def test_replaying_every_recorded_scenario_gives_back_every_row_and_they_pass_the_check(path, is_long):
    """What the engine itself writes is never set aside: looked at in those written by hand."""
    scenarios = [scenario for scenario in load_scenarios(path) if (scenario.id == LONG) is is_long]
    assert scenarios
    for scenario in scenarios:
        player = Player(scenario.broker)
        player.broker.observe(None)
        trace = record(player.broker)
        for step in scenario.steps:
            player.play(step)
        difference = first_difference(trace, Replay(trace).run())
        assert difference is None, f"{scenario.id}: {difference.text()}"
        if path.stem == "hand":
            assert_passes(trace)


def assert_passes(trace):
    """Hold every row against the check that rows of a file must pass."""
    checker = _Checker(trace.empty())
    for number, row in enumerate(trace.rows(), 1):
        checker.take(number, row)
    assert not checker.quarantine, checker.quarantine.summary()


class Foreign(MessageStore):
    """A store that only its maker knows."""


def test_what_cannot_be_replayed_is_not_recorded():
    broker = Broker()
    broker.session("s")
    with pytest.raises(TraceError, match="starts with a fresh broker"):
        record(broker)
    with pytest.raises(TraceError, match="Foreign cannot be replayed"):
        record(Broker(store=Foreign()))


def test_a_store_that_is_done_at_once_is_recorded_as_none():
    kinds = []
    for store in (None, MessageStore()):
        broker = Broker(store=store)
        trace = record(broker)
        session = broker.session("s")
        session.queue_declare("q", durable=True)
        session.message_transfer(Message(1, routing_key="q", durable=True), sync=True)
        kinds.append(trace.kind)
    assert kinds[0] == kinds[1]


def test_a_foreign_trace_names_the_row_that_the_engine_cannot_do():
    cannot = r"row 2 \(queue.declare\): the engine cannot do this: .*"
    for detail, wrong in (({"queeu": "q"}, "missing .*'queue'"), ({"queue": "q", "queeu": "q"}, "'queeu'")):
        trace = Trace()
        trace.append(Event(0, "session.attach", session="s", detail={"connection": "s"}))
        trace.append(Event(0, "queue.declare", session="s", detail=detail))
        with pytest.raises(TraceError, match=cannot + wrong):
            Replay(trace).run()
    trace = Trace()
    trace.append(Event(0, "management", detail={"method": "__init__", "arguments": {"core": 1}}))
    with pytest.raises(TraceError, match="unknown management method '__init__', allowed are create, "):
        Replay(trace).run()


# Metamorphosis


def rows_without(trace, columns=("seq",)):
    return [tuple(v for n, v in zip(NAMES, row, strict=True) if n not in columns) for row in trace.rows()]


NEW_NAMES = {"flow": "wolf", "size": "zise", "ring": "gnir", "team": "aaaa", "prio": "9999", "last": "tsal",
             "P1": "Z9", "P2": "A0", "C1": "Y8", "C2": "B1", "setup": "putse"}  # fmt: skip


@quick
@given(common_commands)
def test_renaming_everything_changes_the_names_and_nothing_else(commands):
    traces = []
    for name in (lambda text: f"<{text}>", lambda text: f"<{NEW_NAMES.get(text, text)}>"):
        broker = fresh()
        traces.append(record(broker))
        Cast(broker, name).play(commands)
    lines = [json.dumps([list(row) for row in trace.rows()]) for trace in traces]
    for old, new in NEW_NAMES.items():
        lines[0] = lines[0].replace(f"<{old}>", f"<{new}>").replace(f"<{old}>-", f"<{new}>-")
    assert lines[0] == lines[1]


@quick
@given(st.lists(st.tuples(st.booleans(), common_commands.map(lambda some: some[:3])), max_size=12))
def test_two_independent_topologies_on_one_broker_do_not_disturb_each_other(turns):
    """Time is told to both; each row belongs to the topology whose name it bears."""

    def run(with_a, with_b):
        broker = fresh()
        trace = record(broker)
        a = Cast(broker, lambda text: f"a:{text}") if with_a else None
        b = Cast(broker, lambda text: f"b:{text}") if with_b else None
        for is_a, commands in turns:
            cast = a if is_a else b
            for command in commands:
                if command[0] == "advance":
                    broker.advance(broker.now + command[1])
                elif cast is not None:
                    cast.give(command)
        return [row for row in rows_without(trace) if "advance" not in row]

    def of(prefix, rows):
        return [
            row for row in rows if row[4].startswith(prefix) or (not row[4] and row[3].startswith(prefix))
        ]

    both = run(True, True)
    mine, yours = of("a:", both), of("b:", both)
    assert len(mine) + len(yours) == len(both)
    assert mine == run(True, False)
    assert yours == run(False, True)


@quick
@given(common_commands, st.sampled_from([2, 7, 1000]))
def test_scaling_sizes_and_byte_thresholds_together_changes_only_the_numbers(commands, scale):
    traces = []
    for factor in (1, scale):
        broker = fresh(message_size="content", default_queue_limit=1_000_000 * factor)
        traces.append(record(broker))
        Cast(broker, scale=factor).play(commands)
    small, large = traces
    assert rows_without(small, ("seq", "size", "detail")) == rows_without(large, ("seq", "size", "detail"))
    assert [size * scale for size in small.size] == list(large.size)
    for kind, one, other in zip(small.kind, small.detail, large.detail, strict=True):
        if kind in ("enqueued", "dequeued", "flow_stopped", "flow_resumed"):
            one, other = decode_detail(one), decode_detail(other)
            for key in ("bytes", "size"):
                assert one.pop(key, 0) * scale == other.pop(key, 0)
            assert one == other


# Values


values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.uuids(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("$ab", max_size=6), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(quick, max_examples=30)
@given(st.dictionaries(st.text("abc"), values, max_size=3))
def test_details_come_back_as_they_were(detail):
    text = encode_detail(detail)
    assert decode_detail(text) == detail
    assert encode_detail(decode_detail(text)) == text


def test_a_value_that_no_trace_can_keep_is_refused():
    with pytest.raises(TypeError, match="a trace keeps numbers, text, bytes"):
        encode_detail({"x": ReplicatedState(b"", ())})


# Files


@pytest.mark.parametrize("ending", ["parquet", "jsonl", "jsonl.gz"])
def test_round_trip_is_exact_and_writes_the_same_bytes(trace, tmp_path, monkeypatch, ending):
    if ending == "parquet":
        pytest.importorskip("pyarrow")
    first, second = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    write_trace(trace, first)
    again = load_trace(first)
    assert again == trace
    assert "client.block" in again.kind
    assert again.workload == trace.workload
    assert again.options == trace.options
    # Ten days later, and by another name.
    later = time.time() + 864_000
    monkeypatch.setattr(time, "time", lambda: later)
    write_trace(again, second)
    assert first.read_bytes() == second.read_bytes()
    assert Replay(again).run() == trace


@settings(quick, max_examples=20, suppress_health_check=list(HealthCheck))
@given(commands=all_commands)
def test_any_trace_survives_a_file(tmp_path, commands):
    trace, _ = recorded(commands)
    write_trace(trace, tmp_path / "t.jsonl")
    assert load_trace(tmp_path / "t.jsonl") == trace


def lines_of(trace, tmp_path):
    write_trace(trace, tmp_path / "good.jsonl")
    return (tmp_path / "good.jsonl").read_text(encoding="utf-8").splitlines()


def write_lines(path, lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def damaged(trace, tmp_path, **changes):
    """Write the trace with its tenth row changed; return what reading says."""
    lines = lines_of(trace, tmp_path)
    row = {**json.loads(lines[10]), **changes}
    lines[10] = json.dumps({key: value for key, value in row.items() if value is not ...})
    return read_trace(write_lines(tmp_path / "bad.jsonl", lines))


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"time": "soon"}, "row 10, column time: must be a whole number, got 'soon'"),
        ({"time": True}, "row 10, column time: must be a whole number, got True"),
        ({"time": -5}, "row 10, column time: must not be negative, got -5"),
        ({"size": -1}, "row 10, column size: must not be negative, got -1"),
        ({"seq": 2**63}, f"row 10, column seq: must be at most {2**63 - 1}, got {2**63}"),
        ({"kind": "x"}, "row 10, column kind: must be a kind that qflow.trace.schema.KINDS lists, got 'x'"),
        ({"seq": 3}, "row 10, column seq: must not go back, got 3 after 8"),
        ({"queue": None}, "row 10, column queue: must be text, got None"),
        ({"run": "x"}, "row 10, column run: must be 'small' as before, got 'x'; a file holds one run"),
        ({"group": ...}, "row 10, column group: is missing"),
        ({"colour": 1}, "row 10, column colour: must be one of a trace's columns: run, seq, time"),
        ({"detail": "{"}, "row 10, column detail: must be a JSON object as qflow writes it: "),
        ({"detail": '{"x":{"$y":1}}'}, "row 10, column detail: must be a JSON object as qflow writes it: "),
        (
            {"kind": "enqueued", "message": "p-99"},
            "row 10, column message: must be one that a message.transfer row before it sends, got 'p-99'",
        ),
    ],
)  # fmt: skip
def test_a_bad_row_is_set_aside_with_row_column_and_reason_and_good_rows_are_kept(
    trace, tmp_path, changes, text
):
    kept, quarantine = damaged(trace, tmp_path, **changes)
    assert quarantine[0].text().startswith(text)
    assert len(quarantine) == 1
    assert len(kept) == len(trace) - 1 == kept.expected - 1
    with pytest.raises(TraceError) as caught:
        load_trace(tmp_path / "bad.jsonl")
    assert str(caught.value).startswith(f"bad.jsonl: 1 row was quarantined; {text}")
    assert "\n" not in str(caught.value)


def test_time_that_goes_back_is_seen(trace, tmp_path):
    lines = lines_of(trace, tmp_path)
    last = json.loads(lines[-1])
    later = json.dumps({**last, "seq": last["seq"] + 1, "time": 0})
    kept, quarantine = read_trace(write_lines(tmp_path / "later.jsonl", [*lines, later]))
    sentence = f"row {len(trace) + 1}, column time: must not go back, got 0 after {last['time']}"
    assert (quarantine[0].text(), kept) == (sentence, trace)


def test_shuffled_rows_end_in_one_helpful_sentence(trace, tmp_path):
    header, *rows = lines_of(trace, tmp_path)
    with pytest.raises(TraceError) as caught:
        load_trace(write_lines(tmp_path / "shuffled.jsonl", [header, *rows[::2], *rows[1::2]]))
    assert "\n" not in str(caught.value)
    assert str(caught.value).endswith("; the rows look shuffled: sort them by seq and try again")


@pytest.mark.parametrize("cut", [0.3, 0.7, 0.999])
def test_a_json_line_that_is_cut_off_costs_one_row(trace, tmp_path, cut):
    text = "\n".join(lines_of(trace, tmp_path)) + "\n"
    (tmp_path / "cut.jsonl").write_bytes(text.encode()[: int(len(text) * cut)])
    kept, quarantine = read_trace(tmp_path / "cut.jsonl")
    assert [entry.reason for entry in quarantine] == [
        f"the file is cut off in the midst of this row; its header promises {len(trace)} rows"
    ]
    assert kept.kind == trace.kind[: len(kept)]
    assert 0 < len(kept) < len(trace)
    assert Replay(kept).run().kind[: len(kept)] == kept.kind
    again = Replay(kept)
    again.run()
    assert again.difference() is None


def test_a_packed_file_that_is_cut_off_keeps_its_good_rows(trace, tmp_path):
    write_trace(trace, tmp_path / "t.jsonl.gz")
    packed = (tmp_path / "t.jsonl.gz").read_bytes()
    (tmp_path / "t.jsonl.gz").write_bytes(packed[: len(packed) * 2 // 3])
    kept, quarantine = read_trace(tmp_path / "t.jsonl.gz")
    assert 0 < len(kept) < len(trace)
    assert quarantine[0].reason.startswith("the file is cut off")
    (tmp_path / "no.jsonl.gz").write_bytes(b"no gzip at all")
    with pytest.raises(TraceError, match="no.jsonl.gz: the file holds no trace: it is empty, or cut off"):
        read_trace(tmp_path / "no.jsonl.gz")


def test_a_file_without_header_is_read_with_the_broker_s_defaults(trace, tmp_path):
    kept = load_trace(write_lines(tmp_path / "rows.jsonl", lines_of(trace, tmp_path)[1:]))
    assert first_difference(kept, trace) is None
    assert kept.workload is None


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("", "holds no trace: it is empty"),
        ("ts_us,client\n1,2\n", "a trace begins with a header or a row, as a JSON object, got 'ts_us,client"),
        ('{"format": "qflow trace 9"}\n', "header of format 'qflow trace 1', got 'qflow trace 9'"),
        ('{"format": "qflow trace 1", "run": "r", "options": {"colour": 1}}\n', "cannot use: .*colour"),
        (
            '{"format": "qflow trace 1", "run": "r", "options": {}, "rows": "many"}\n',
            "rows as a whole number",
        ),
    ],
)
def test_what_is_no_trace_ends_in_one_sentence(tmp_path, content, text):
    (tmp_path / "x.jsonl").write_text(content, encoding="utf-8")
    with pytest.raises(TraceError, match=text) as caught:
        read_trace(tmp_path / "x.jsonl")
    assert str(caught.value).startswith("x.jsonl: ")
    assert "\n" not in str(caught.value)


class TestParquet:
    arrow = pytest.importorskip("pyarrow")

    def rewritten(self, trace, tmp_path, change):
        from pyarrow import parquet

        write_trace(trace, tmp_path / "t.parquet")
        table = change(parquet.read_table(tmp_path / "t.parquet"))
        parquet.write_table(table, tmp_path / "t.parquet")
        return tmp_path / "t.parquet"

    @pytest.mark.parametrize("share", [0, 0.5, 0.99])
    def test_a_truncated_file_ends_in_one_helpful_sentence(self, trace, tmp_path, share):
        write_trace(trace, tmp_path / "t.parquet")
        whole = (tmp_path / "t.parquet").read_bytes()
        (tmp_path / "t.parquet").write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(
            TraceError, match="t.parquet: the file is cut off or damaged, or no Parquet"
        ) as caught:
            read_trace(tmp_path / "t.parquet")
        assert "\n" not in str(caught.value)

    def test_a_missing_column_and_a_wrong_type_are_named(self, trace, tmp_path):
        path = self.rewritten(trace, tmp_path, lambda table: table.rename_columns({"time": "tiem"}))
        with pytest.raises(
            TraceError, match=r"column time is missing; a trace has run, seq, .*, got run, seq, tiem"
        ):
            read_trace(path)
        path = self.rewritten(
            trace, tmp_path, lambda table: table.set_column(2, "time", table["time"].cast("double"))
        )
        with pytest.raises(TraceError, match="column time must be int64, got double"):
            read_trace(path)

    def test_bad_rows_are_set_aside(self, trace, tmp_path):
        def negative(table):
            times = table["time"].to_pylist()
            times[4] = -7
            return table.set_column(2, "time", self.arrow.array(times))

        kept, quarantine = read_trace(self.rewritten(trace, tmp_path, negative))
        assert [entry.text() for entry in quarantine] == ["row 5, column time: must not be negative, got -7"]
        assert len(kept) == len(trace) - 1

    def test_rows_that_lost_their_metadata_are_read(self, trace, tmp_path):
        path = self.rewritten(trace, tmp_path, lambda table: table.replace_schema_metadata(None))
        assert first_difference(load_trace(path), trace) is None

    def test_without_pyarrow_one_sentence_says_what_to_do(self, trace, tmp_path, monkeypatch):
        real = builtins.__import__

        def without(name, *args, **kwargs):
            if name.startswith("pyarrow"):
                raise ImportError(name)
            return real(name, *args, **kwargs)

        monkeypatch.setattr(builtins, "__import__", without)
        with pytest.raises(TraceError, match=r"t.parquet: Parquet needs pyarrow, .* pip install .*\[trace\]"):
            write_trace(trace, tmp_path / "t.parquet")


# The command line


def command(*arguments):
    return room_command(cli, "trace", *arguments)


def test_info_and_replay(trace, tmp_path, capsys):
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    write_trace(trace, first)
    assert command("info", first) == 0
    assert f"a.jsonl: run 'small', {len(trace)} rows" in capsys.readouterr().out
    assert command("replay", first, "-o", second) == 0
    assert f"all {len(trace)} rows came back exactly" in capsys.readouterr().out
    assert first_difference(trace, load_trace(second)) is None
    with pytest.raises(TraceError, match="a trace is a .parquet, .jsonl or .jsonl.gz file"):
        command("info", tmp_path / "a.txt")


def test_info_as_json_and_the_quarantine_table(trace, tmp_path, capsys):
    damaged(trace, tmp_path, time="soon")
    assert command("info", "--json", "--quarantine", tmp_path / "q.jsonl", tmp_path / "bad.jsonl") == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["rows"] == len(trace) - 1
    assert facts["quarantine"][0]["column"] == "time"
    line = json.loads((tmp_path / "q.jsonl").read_text())
    assert (line["row"], line["column"], line["reason"]) == (10, "time", "must be a whole number, got 'soon'")


def test_a_row_with_a_lone_surrogate_is_written_to_the_quarantine(trace, tmp_path):
    """UTF-8 carries none; JSON writes it as an escape, and so it comes back."""
    write_trace(trace, tmp_path / "good.jsonl")
    text = (tmp_path / "good.jsonl").read_text(encoding="utf-8")
    (tmp_path / "bad.jsonl").write_text(text.replace('"enqueued"', r'"enqueued\ud800"'), encoding="utf-8")
    assert command("info", "--quarantine", tmp_path / "q.jsonl", tmp_path / "bad.jsonl") == 1
    kept = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text(encoding="utf-8").splitlines()]
    assert "got 'enqueued\\ud800'" in kept[0]["reason"] and r"enqueued\ud800" in str(kept)


def test_replay_says_where_the_engine_differs(trace, tmp_path, capsys):
    lines = lines_of(trace, tmp_path)
    place = next(i for i, line in enumerate(lines) if '"kind":"enqueued"' in line)
    lines[place] = lines[place].replace('"size":', '"size":1')
    write_lines(tmp_path / "good.jsonl", lines)
    assert command("replay", tmp_path / "good.jsonl") == 1
    assert f"differs from the trace at row {place} (enqueued at" in capsys.readouterr().out
    assert command("replay", tmp_path / "good.jsonl", "--json") == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["rows"] == len(trace) and facts["difference"].startswith(f"row {place} (enqueued at")
    write_trace(trace, tmp_path / "whole.jsonl")
    assert command("replay", tmp_path / "whole.jsonl", "--json") == 0
    assert json.loads(capsys.readouterr().out)["difference"] is None


def test_ctrl_c_while_writing_leaves_a_valid_partial_file(trace, tmp_path):
    def interrupt(done):
        if done == 50:
            raise KeyboardInterrupt

    for name in ("t.jsonl", "t.jsonl.gz"):
        with pytest.raises(KeyboardInterrupt):
            write_trace(trace, tmp_path / name, interrupt)
        kept, quarantine = read_trace(tmp_path / name)
        assert len(kept) == 50
        assert (
            quarantine[0].reason == f"the file is cut off: its header promises {len(trace)} rows, it holds 50"
        )


def test_ctrl_c_during_a_replay_leaves_a_valid_partial_file(trace, tmp_path, monkeypatch):
    def interrupt(broker, step):
        if step.row > 100:
            raise KeyboardInterrupt
        give(broker, step)

    monkeypatch.setattr("qflow.trace.replaying.give", interrupt)
    write_trace(trace, tmp_path / "whole.jsonl")
    with pytest.raises(KeyboardInterrupt):
        command("replay", tmp_path / "whole.jsonl", "-o", tmp_path / "part.jsonl")
    kept, quarantine = read_trace(tmp_path / "part.jsonl")
    assert len(kept) > 90 and first_difference(kept, trace).b is not None
    assert quarantine[0].reason.startswith("the file is cut off: its header promises")
