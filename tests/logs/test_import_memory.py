"""``qflow trace import`` of long logs: what it remembers does not grow with them."""

import csv
import json
import tracemalloc

import pytest
from commands import status_of
from recordings import load, write_beginning

from qflow.logs import ClientLog, Tolerance, audit
from qflow.logs.client_log import round_trips, rows_by_client
from qflow.logs.workload_file import Guess, workload_json
from qflow.trace import read_trace, trace_of, write_trace
from qflow.workload import Consumer, Producer, Workload

SHORT, LONG = 3_000, 8_000
ROWS_IN_A_GROUP = 512
SMALL = Workload(
    "long",
    3600,
    {"q": {}},
    producers=(Producer("p", ("", "q"), rate=1000, capacity=5, size=100),),
    consumers=(Consumer("c", "q", prefetch=5, service=("const", 0.0005)),),
)


@pytest.fixture(autouse=True)
def small_memories(monkeypatch):
    """What is kept of a long log is little here, so that a log need not be long to show it."""
    monkeypatch.setattr("qflow.logs.tolerance.MOST_UNDER_WAY", 500)
    monkeypatch.setattr("qflow.logs.tolerance.MOST_WAYS", 1_000)
    monkeypatch.setattr("qflow.logs.cleaning.MOST_UNDER_WAY", 500)
    monkeypatch.setattr("qflow.logs.cleaning._MOST_SILENCES", 100)
    monkeypatch.setattr("qflow.logs.log_file.MOST_ROWS", 1_000)
    monkeypatch.setattr("qflow.trace.files.ROWS_IN_A_GROUP", ROWS_IN_A_GROUP)


def peak(folder, number, *words):
    """Bytes that an import of so many rows needs at once."""
    path = folder / f"{number}.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("ts_us", "client", "event", "queue", "label", "size", "group"))
        for n in range(1, number // 4 + 1):
            rows.writerow((n * 1000, "p", "transfer", "q", f"p-{n}", 100, ""))
            rows.writerow((n * 1000 + 1, "p", "complete", "", f"p-{n}", 0, ""))
            rows.writerow((n * 1000 + 10, "c", "deliver", "q", f"p-{n}", 100, ""))
            rows.writerow((n * 1000 + 500, "c", "accept", "q", f"p-{n}", 0, ""))
    path.with_suffix(".json").write_text(json.dumps(workload_json(SMALL)))
    tracemalloc.start()
    try:
        assert status_of("trace", "import", path, *words) == 0
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.release
@pytest.mark.parametrize(
    ("words", "most"),
    [
        # It was 970 bytes; what is left is noise.
        ((), 20),
        # It was 2,000 bytes, and 300 are allowed.
        (("-o", "out.jsonl"), 100),
        (("-o", "out.parquet"), 100),
        # It was 400 bytes with the rows in memory until the file was written, and 290 (310 of the process, of
        # 300 allowed) with a label of its own in each of a message's rows.
        (("--workload", "out.json"), 270),
    ],
)
def test_an_import_takes_few_bytes_a_row(tmp_path, monkeypatch, words, most):
    monkeypatch.chdir(tmp_path)
    # What is imported and kept once, whatever the length of a log, is so after the first long one.
    peak(tmp_path, LONG, *words)
    assert (peak(tmp_path, LONG, *words) - peak(tmp_path, SHORT, *words)) / (LONG - SHORT) < most


@pytest.fixture(scope="module")
def beginning(tmp_path_factory):
    """A log of the first rows of a recording, the recording's workload, and the trace of all in memory."""
    path = write_beginning(tmp_path_factory.mktemp("beginning"), "overflow-despite-flow-control", 2_500)
    given = path.with_suffix(".json")
    return path, given, trace_of(audit(ClientLog.load(path), Workload.load(given)).run)


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.parquet"])
def test_the_trace_is_that_of_the_whole_log_in_memory(tmp_path, beginning, name):
    path, given, whole = beginning
    assert status_of("trace", "import", path, given, "-o", tmp_path / name) == 0
    write_trace(whole, tmp_path / f"whole-{name}")
    assert (tmp_path / name).read_bytes() == (tmp_path / f"whole-{name}").read_bytes()
    assert len(read_trace(tmp_path / name)[0]) == len(whole) > 10 * ROWS_IN_A_GROUP


def estimated_at_once(rows):
    """The tolerance as it was estimated with all rows at hand."""
    sent = {}
    for row in rows:
        if row.event == "transfer":
            sent.setdefault(row.label, row.ts_us)
    ways = sorted(row.ts_us - sent[row.label] for row in rows if row.event == "deliver" and row.label in sent)
    by_client = rows_by_client(row for row in rows if row.event in ("transfer", "complete"))
    trips = sorted(t for own in by_client.values() for _, _, t in round_trips(own) if t < 1_000_000)
    lag = 3 * trips[len(trips) * 99 // 100] if len(trips) >= 100 else 0
    return Tolerance(max(0, -ways[len(ways) // 100]), min(1_000_000, max(60_000, lag)))


@pytest.mark.parametrize("name", ["slow-consumer", "capacity-165", "overflow-despite-flow-control"])
def test_the_tolerance_is_that_of_all_rows_at_once(monkeypatch, name):
    log, _ = load(name)
    early = [row._replace(ts_us=max(0, row.ts_us - 9_000 * (row.event == "deliver"))) for row in log.rows]
    for rows in (log.rows, sorted(early, key=lambda row: row.ts_us)):
        monkeypatch.setattr("qflow.logs.tolerance.MOST_UNDER_WAY", 100_000)
        monkeypatch.setattr("qflow.logs.tolerance.MOST_WAYS", 1_000_000)
        exact = estimated_at_once(rows)
        assert Tolerance.estimate(rows) == exact
        # With little memory it is about the same.
        monkeypatch.setattr("qflow.logs.tolerance.MOST_UNDER_WAY", 2_000)
        monkeypatch.setattr("qflow.logs.tolerance.MOST_WAYS", 1_000)
        near = Tolerance.estimate(rows)
        assert near.skew == pytest.approx(exact.skew, rel=0.2, abs=500)
        assert near.lag == pytest.approx(exact.lag, rel=0.5)


def test_the_guess_does_not_need_the_rows():
    log, workload = load("overflow-despite-flow-control")
    guess = Guess()
    for row in log.rows:
        guess.take(row)
    guessed = guess.workload("small")
    assert set(guessed.queues) == set(workload.queues)
    assert [(p.name, p.capacity, p.to) for p in guessed.producers] == [
        (p.name, p.capacity, p.to) for p in workload.producers
    ]
    assert [c.prefetch for c in guessed.consumers] == [c.prefetch for c in workload.consumers]
