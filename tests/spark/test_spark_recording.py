"""A recording, a folder of parts with inferred values beside it, is one log for Spark."""

import json

import pytest

pytest.importorskip("pyarrow")

from commands import status_of
from spark_kit import spark  # noqa: F401

from qflow.live.client_book import RecordingFolder
from qflow.logs.client_log import client_rows
from qflow.logs.workload_file import workload_json
from qflow.workload import Consumer, Producer, Workload, simulate

WORKLOAD = Workload(
    "monday",
    3,
    {"orders": {"qpid.flow_stop_count": 20, "qpid.flow_resume_count": 10}},
    producers=(Producer("shop", ("", "orders"), rate=200, capacity=30, size=100),),
    consumers=(Consumer("kitchen", "orders", prefetch=5, service=("const", 0.01)),),
)


def test_the_audit_takes_a_recording(spark, tmp_path, capsys):  # noqa: F811
    rows = [tuple(row) for row in client_rows(simulate(WORKLOAD).events)]
    folder = RecordingFolder(tmp_path / "monday.parquet")
    for begin in range(0, len(rows), 500):
        folder.write(rows[begin : begin + 500])
    (folder.path / "_capture-00000").write_bytes(b"not read yet")
    inferred = {"producers.shop.capacity": "the most that was unsettled at once, 30"}
    stated = {**workload_json(WORKLOAD), "inferred": inferred}
    (tmp_path / "monday.json").write_text(json.dumps(stated))
    assert status_of("spark", "audit", folder.path, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["events"] >= len(rows), found
