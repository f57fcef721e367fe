"""Ingest and layout: nothing is dropped silently, and what cannot be used is said in one sentence."""

import json
from types import SimpleNamespace

import pytest
from recordings import WORKLOADS
from spark_kit import write_log

from qflow.kit import RefusalError
from qflow.logs.components import Splitter
from qflow.logs.log_file import COLUMNS
from qflow.spark.ingest import _log_files, _split
from qflow.spark.lake import pack
from qflow.spark.tables import shuffle_partitions
from qflow.trace import LogRow
from qflow.trace.files import QuarantinedRow
from qflow.workload import Consumer, Workload

pytest.importorskip("pyarrow")

GOOD = [LogRow(n, "p", "transfer", "q", f"p-{n}", 100, "") for n in range(6)]
WORKLOAD = {
    "duration": 1,
    "queues": {"q": {"qpid.flow_stop_count": 2}},
    "producers": [{"name": "p", "to": ["", "q"], "rate": 10, "capacity": 9, "size": 100}],
}


def read(path, columns=None):
    """Return the rows of a lake that a log gives between its begin and its end, and those set aside."""
    items = list(_split(str(path), Workload.from_json(WORKLOAD), columns))
    bad = [item for item in items if isinstance(item, QuarantinedRow)]
    good = [item for item in items if item not in bad]
    assert [row.event for _, row in (good[0], good[-1])] == ["begin", "end"]
    return good[1:-1], bad


def test_good_rows_are_numbered_in_order(tmp_path):
    good, bad = read(write_log(tmp_path / "log.parquet", GOOD))
    assert not bad and good == [("log/q", (n + 1, *row, None)) for n, row in enumerate(GOOD)]


def test_foreign_columns_are_read_with_the_same_map_as_elsewhere(tmp_path):
    (tmp_path / "log.csv").write_text(
        "when,host,event,queue,id\n1763837805.5,p,transfer,q,7\nsoon,p,block,,\n"
    )
    good, (problem,) = read(tmp_path / "log.csv", {"time": "when"})
    assert good == [("log/q", (1, 0, "p", "transfer", "q", "7", 0, "", None))]
    assert problem[:2] == (2, "when")


def test_a_bad_row_is_set_aside_with_its_reason_and_the_others_stay(tmp_path):
    """What else is bad of a row: logs/test_client_log.py."""
    rows = [*GOOD[:4], GOOD[4]._replace(ts_us=-1), GOOD[5]]
    good, ((number, where, why, values),) = read(write_log(tmp_path / "log.parquet", rows))
    assert [row.label for _, row in good] == ["p-0", "p-1", "p-2", "p-3", "p-5"]
    assert (number, where) == (5, "ts_us") and why.startswith("must not be negative")
    assert "p-4" in values


def test_what_the_broker_reports_before_the_start_holds_at_the_start(tmp_path):
    early = [
        LogRow(-9, "broker", "stats", "q", "[0, 0, false, 0, 0, 0, 0]", 0, ""),
        LogRow(-5, "p", "transfer", "q", "p-0", 1, ""),
        *GOOD,
    ]
    good, bad = read(write_log(tmp_path / "log.parquet", early))
    assert [(row.event, row.ts_us) for _, row in good[:2]] == [("stats", 0), ("transfer", 0)]
    assert [problem[:3] for problem in bad] == [
        (2, "ts_us", "must not be negative, only the broker reports before the start; got -5")
    ]


def test_a_missing_column_and_a_damaged_file_are_one_row_of_the_quarantine(tmp_path):
    path = write_log(tmp_path / "short.parquet", [row[1:] for row in GOOD], COLUMNS[1:])
    assert read(path)[1][0].reason.endswith("; the column ts_us is missing")
    whole = (WORKLOADS / "fleet.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    good, bad = read(tmp_path / "cut.parquet")
    assert not good and bad[0].row == 0 and "cut off or damaged" in bad[0].reason
    # Its end is whole, so that some of it can be read; what cannot is told.
    (tmp_path / "hole.parquet").write_bytes(whole[:300_000] + b"\0" * 200_000 + whole[500_000:])
    good, bad = read(tmp_path / "hole.parquet")
    assert any("cut off or damaged" in problem.reason for problem in bad)


def test_names_of_logs_tell_them_apart(tmp_path):
    write_log(tmp_path / "monday.parquet", GOOD)
    (tmp_path / "monday.csv").write_text("")
    with pytest.raises(RefusalError, match="two logs are named 'monday'"):
        _log_files([tmp_path])
    with pytest.raises(RefusalError, match="no client log is there"):
        _log_files([tmp_path / "notes.txt"])


def test_buckets_are_within_5_percent_of_each_other():
    events = {f"c{n:02}": 1 + n * n for n in range(40)}
    loads = [0] * 5
    for component, bucket in pack(events, 5).items():
        loads[bucket] += events[component]
    assert max(loads) < 1.05 * min(loads)


def test_a_consumer_that_a_log_shows_at_another_queue_joins_both():
    """What its workload says is not all that it does; a queue that the workload has not joins nothing."""
    queues = {"q": {}, "r": {}, "s": {}}
    consumer = Consumer("c", "r", prefetch=1, service=("const", 1))
    workload = Workload.from_json({**WORKLOAD, "queues": queues}).replace(consumers=(consumer,))
    for shown, parts in (("q", {"log/q", "log/s"}), ("x", {"log/q", "log/r", "log/s"})):
        assert {name for name, _ in Splitter("log", workload, None, [("c", shown)]).begin()} == parts


def test_a_log_without_any_good_row_is_refused_in_one_sentence(spark, tmp_path):
    from qflow.spark.ingest import make_lake

    log = write_log(tmp_path / "log.parquet", [row[1:] for row in GOOD], COLUMNS[1:])
    (tmp_path / "log.json").write_text(json.dumps(WORKLOAD))
    with pytest.raises(RefusalError, match="^log: the columns must be .*; the column ts_us is missing"):
        make_lake(spark, [log], tmp_path / "lake")
    # Rows of strangers are rows: they are set aside, and the audit of other logs goes on.
    strangers = [row._replace(client="stranger") for row in GOOD]
    report = make_lake(spark, [write_log(log, strangers)], tmp_path / "lake")
    assert report.quarantined == len(GOOD)


def test_a_lake_that_is_none_is_refused_in_one_sentence(spark, tmp_path):
    from qflow.spark.lake import read_lake

    with pytest.raises(RefusalError, match="there is no lake"):
        read_lake(spark, tmp_path / "nowhere")
    write_log(tmp_path / "other.parquet", GOOD)
    with pytest.raises(
        RefusalError, match="a lake has the column component of type string, here it is missing"
    ):
        read_lake(spark, tmp_path)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mother.txt").write_text("dear")
    with pytest.raises(RefusalError, match="letters: no table can be read there"):
        read_lake(spark, tmp_path / "letters")


@pytest.mark.parametrize(("words", "wanted"), [(("auto", "12"), 12), (("7", "12"), 7), (("auto", None), 200)])
def test_a_service_may_set_a_word_for_the_partitions_of_a_shuffle(words, wanted):
    """Spark itself refuses it; Databricks takes auto."""
    conf = dict(zip(("spark.sql.shuffle.partitions", "spark.default.parallelism"), words, strict=True))
    there = SimpleNamespace(conf=SimpleNamespace(get=lambda name, default=None: conf[name] or default))
    assert shuffle_partitions(there) == wanted
