"""One verdict: a log has the same findings in memory, imported, in a lake as Spark's workers audit it, and
streamed."""

import json
import random
from contextlib import redirect_stdout
from io import StringIO

import pytest
from commands import output_of
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import beginning
from test_one_log_path import DOCTORS, INTERVALS

from qflow.cli import main
from qflow.logs import Finding, LogRow, audit
from qflow.logs.client_log import ClientLog
from qflow.logs.findings import finding_of
from qflow.logs.workload_file import write_workload
from qflow.trace.files import QuarantinedRow
from qflow.workload import Consumer, Producer, Workload
from qflow.workload.model import is_unseen

SMALL = Workload(
    "small",
    10,
    {"q": {"qpid.flow_stop_count": 2}, "r": {"qpid.group_header_key": "group", "qpid.shared_msg_group": 1}},
    producers=(
        Producer("p", ("", "q"), rate=10, capacity=9, size=100),
        Producer("s", ("", "r"), rate=10, capacity=3, size=100),
    ),
    consumers=(
        Consumer("c", "q", prefetch=2, service=("const", 1)),
        Consumer("d", "r", prefetch=1, service=("const", 1)),
        Consumer("e", "r", prefetch=2, service=("const", 1)),
    ),
)


def key(found):
    """Return a finding without its row: a component numbers its own events."""
    return found._replace(row=0)


def ways(folder, rows, workload, shuffled=None):
    """Return the findings of a log by each way, in the same order; `shuffled` gives its rows numbers."""
    pytest.importorskip("pyarrow")
    from qflow.spark.ingest import _split
    from qflow.spark.lake_audit import _audit_batches
    from qflow.spark.stream import _StreamedComponent
    from qflow.spark.tables import LAKE, RESULTS, to_batches, tuples

    path = folder / "log.jsonl"
    lines = [json.dumps({"seq": number, **row._asdict()}) for number, row in enumerate(rows)]
    if shuffled is None:
        lines = [json.dumps(row._asdict()) for row in rows]
    else:
        shuffled.shuffle(lines)
    path.write_text("".join(f"{line}\n" for line in lines))
    write_workload(workload, folder / "log.json")
    found = {"in memory": audit(ClientLog.load(path), workload).findings}
    with redirect_stdout(StringIO()) as out:
        main(["trace", "import", str(path), "--json"])
    told = json.loads(out.getvalue())
    found["imported"] = [Finding(*(one[name] for name in Finding._fields)) for one in told["findings"]]

    lake = {}
    for component, row in (
        item for item in _split(str(path), workload) if not isinstance(item, QuarantinedRow)
    ):
        lake.setdefault(component, []).append(row)
    batches = list(to_batches([(name, *row) for name in lake for row in lake[name]], LAKE))
    results = [row for batch in _audit_batches(iter(batches)) for row in tuples(batch, RESULTS)]
    found["in a lake"] = [finding_of(row) for row in results if row[2] == "finding"]
    chance, streamed = random.Random(5), []
    for component, events in lake.items():
        late = sorted(range(len(events)), key=lambda place: place + chance.random() * 9)
        middle, state = chance.randrange(len(events)), None
        for part in (late[:middle], late[middle:]):
            stream = _StreamedComponent(component, state)
            streamed += stream.take([events[place] for place in part])
            state = stream.state()
    found["streamed"] = [finding_of(row) for row in streamed if row.kind == "finding"]
    return {way: sorted(key(one) for one in some if one.rule) for way, some in found.items()}


def assert_one_verdict(*given, **more):
    """Return the findings, after a look that they are the same by all ways."""
    found = ways(*given, **more)
    for way, findings in found.items():
        assert findings == found["in memory"], way
    return [one.kind for one in found["in memory"]]


def sent_and_completed(first, apart, count=6):
    """Sends a millisecond apart from one second on, then completions."""
    rows = [LogRow(1_000_000 + n * 1_000, "p", "transfer", "q", f"p-{n + 1}", 100, "") for n in range(count)]
    for n in range(count):
        rows.append(LogRow(first + n * apart, "p", "complete", "q", f"p-{n + 1}", 0, ""))
    return sorted(rows, key=lambda row: row.ts_us)


STALL = SMALL.replace(queues={"q": {"qpid.flow_stop_count": 2}}, producers=SMALL.producers[:1], consumers=())


@pytest.mark.parametrize(("count", "apart", "early"), [(6, 500_000, 3), (104, 100_000, 101)])
def test_completions_that_came_too_early_are_findings_by_every_way(tmp_path, count, apart, early):
    """Above 2 the queue is ON, and lets go of nothing, as nothing is consumed."""
    kinds = assert_one_verdict(tmp_path, sent_and_completed(1_006_000, apart, count), STALL)
    assert kinds == ["completed while held"] * early


def test_a_log_whose_numbers_give_its_order_has_one_verdict(tmp_path):
    """What is no finding is estimated from the log in its order, wherever its rows lie in the file."""
    log, workload = beginning("overflow-despite-flow-control", 4)
    rows = DOCTORS["early deliveries"](log.rows)
    assert assert_one_verdict(tmp_path, rows, workload, shuffled=random.Random(3))


@pytest.mark.parametrize("name", INTERVALS)
def test_a_recording_has_one_verdict(tmp_path, name):
    """That the whole of it has none, in memory, test_one_log_path says."""
    log, workload = beginning(name, 1)
    assert assert_one_verdict(tmp_path, log.rows, workload) == []


OF_CLIENTS = [name for name in DOCTORS if name != "strangers"]
"""Of clients that the workload has not, a lake has no rows: they are set aside, and told there."""


@pytest.mark.parametrize("doctor", OF_CLIENTS)
@pytest.mark.parametrize(("name", "seconds"), [("overflow-despite-flow-control", 4), ("fanout-one-slow", 1)])
def test_a_doctored_recording_has_one_verdict(tmp_path, name, seconds, doctor):
    """In these seconds each doctor leaves the kinds of findings that it leaves in all."""
    log, workload = beginning(name, seconds)
    assert_one_verdict(tmp_path, DOCTORS[doctor](log.rows), workload)


def _row(time, act, number):
    client, event = act
    queue = "q" if client in "pc" else "r"
    label = f"{'p' if queue == 'q' else 's'}-{number}"
    group = "ab"[number % 2] if queue == "r" and event == "transfer" else ""
    return LogRow(time, client, event, queue, label, 100 * (event == "transfer"), group)


ACTS = [(client, event) for client in "ps" for event in ("transfer", "transfer", "complete", "block")]
ACTS += [(client, event) for client in "cde" for event in ("deliver", "accept", "release")]
PAUSES = st.sampled_from([0, 1_000, 40_000, 300_000, 2_500_000])


@settings(max_examples=40)
@given(acts=st.lists(st.tuples(PAUSES, st.sampled_from(ACTS), st.integers(1, 6)), min_size=1, max_size=40))
def test_any_small_log_has_one_verdict(tmp_path_factory, acts):
    time, rows = 0, []
    for pause, act, number in acts:
        time += pause
        rows.append(_row(time, act, number))
    assert_one_verdict(tmp_path_factory.mktemp("logs"), rows, SMALL)


def test_without_a_workload_nothing_is_said_from_default_thresholds(tmp_path, capsys):
    """FC-01: what a queue was declared with decides, and no log says that."""
    rows = sent_and_completed(4_006_000, 500_000)
    path, trace = tmp_path / "alone.jsonl", tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row._asdict()) + "\n" for row in rows))
    # Completed late: ON, for all we know.
    assert "thresholds unknown" in output_of(capsys, "trace", "import", path, "-o", trace)
    unknown = "Thresholds unknown: nothing recorded says what q was declared with."
    for subject in ("queue:q", "transfer:p-1", "producer:p", "message:p-2"):
        out = output_of(capsys, "trace", "why", trace, "2s", subject)
        assert "never been ON" not in out and "83886080" not in out and "104857600" not in out
        assert unknown in out or subject != "queue:q"


def test_a_recorders_workload_says_which_thresholds_are_unknown(tmp_path):
    """A tap beside a broker that declares nothing on the wire sees no arguments."""
    told = {"queues": {"q": {}, "r": {}}, "duration": 1, "inferred": {"queues.q": "no arguments were seen"}}
    found = {name: is_unseen(arguments) for name, arguments in Workload.from_json(told).queues.items()}
    assert found == {"q": True, "r": False}
