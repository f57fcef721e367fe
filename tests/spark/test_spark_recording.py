"""A recording in parts, a shuffled log with gaps, and a trace are each one log for Spark."""

import json

import pytest

pytest.importorskip("pyarrow")

from commands import output_of
from spark_kit import write_log
from test_spark_ingest import GOOD, WORKLOAD

from qflow.live.client_book import RecordingFolder
from qflow.logs.client_log import client_rows
from qflow.logs.log_file import NUMBERED
from qflow.logs.workload_file import workload_json
from qflow.trace.files import write_trace
from qflow.trace.replaying import trace_of
from qflow.workload import Consumer, Producer, Workload, simulate

MONDAY = Workload(
    "monday",
    1,
    {"orders": {"qpid.flow_stop_count": 20, "qpid.flow_resume_count": 10}},
    producers=(Producer("shop", ("", "orders"), rate=200, capacity=30, size=100),),
    consumers=(Consumer("kitchen", "orders", prefetch=5, service=("const", 0.01)),),
)


def write_recording(folder):
    """Write a folder of parts, with inferred values beside it and a capture that is not read yet."""
    rows = [tuple(row) for row in client_rows(simulate(MONDAY).events)]
    recording = RecordingFolder(folder / "monday.parquet")
    for begin in range(0, len(rows), 500):
        recording.write(rows[begin : begin + 500])
    (recording.path / "_capture-00000").write_bytes(b"not read yet")
    inferred = {"producers.shop.capacity": "the most that was unsettled at once, 30"}
    stated = {**workload_json(MONDAY), "inferred": inferred}
    (folder / "monday.json").write_text(json.dumps(stated))
    return recording.path, len(rows)


def write_gaps(folder):
    """Write a shuffled log that numbers its rows, with one that is missing and one of a stranger."""
    rows = [(n, *row) for n, row in enumerate(GOOD)]
    rows[2] = (2, 2, "stranger", "accept", "q", "p-1", 0, "")
    del rows[4]
    (folder / "gaps.json").write_text(json.dumps(WORKLOAD))
    return write_log(folder / "gaps.parquet", rows[::-1], NUMBERED)


def write_run(folder):
    """Write a trace with a bad row; return the messages that were held in it, too."""
    run = simulate(Workload.from_json(WORKLOAD))
    path = folder / "run.jsonl"
    write_trace(trace_of(run), path)
    path.write_text(path.read_text() + '{"not": "a row"}\n')
    return path, [event.message for event in run.events if event.kind == "held"]


def test_an_audit_takes_logs_of_all_kinds_and_drops_nothing_in_silence(spark, tmp_path, capsys):
    from qflow.spark.lake_audit import results_with_keys

    recording, rows = write_recording(tmp_path)
    gaps, (trace, told) = write_gaps(tmp_path), write_run(tmp_path)
    words = "--lake", tmp_path / "lake", "--out", tmp_path / "out", "--buckets=1", "--json"
    found = json.loads(output_of(capsys, "spark", "audit", recording, gaps, trace, *words))
    assert found["events"] >= rows, found
    assert (found["set_aside"], found["metrics"]["missing"]) == (2, 1)
    aside = {(row["source"], row["row"], row["reason"]) for row in found["first_set_aside"]}
    assert {row for row in aside if row[0] == "gaps"} == {
        ("gaps", 3, "must be a client or queue of the workload, got stranger"),
        ("gaps", 0, "1 events are missing between 0 and 5"),
    }
    rows, unfinished = results_with_keys(spark, tmp_path / "out")
    assert not unfinished
    results = rows.where("component = 'run/q' AND kind = 'held'").collect()
    assert told and [row.message for row in sorted(results, key=lambda row: row.number)] == told
