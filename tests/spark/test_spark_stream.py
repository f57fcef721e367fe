"""The stream: late, duplicated and cut at random, it gives what the batch gives; so it does after a kill."""

import random

import pytest
from spark_kit import SOME, fleet, fleet_lake, fleet_results, kill_when, small_lake

from qflow.cli import main
from qflow.logs import Tolerance
from qflow.logs.components import audit_in_memory as audit
from qflow.logs.components import result_hash
from qflow.logs.findings import finding_of
from qflow.spark.stream import Shipper, _rows_processor, _StreamedComponent
from qflow.spark.tables import LAKE, write_rows


def expected():
    return result_hash(row for row in fleet_results() if row[0] in SOME)


def disturbed(rows, chance, reach=40):
    """Return rows with some twice and all a little out of order."""
    copies = [row for row in rows for _ in range(1 + (chance.random() < 0.1))]
    places = sorted(range(len(copies)), key=lambda place: place + chance.random() * reach)
    return [copies[place] for place in places]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_late_and_duplicate_events_with_random_cuts(seed):
    chance = random.Random(seed)
    results = []
    for component, rows in small_lake().items():
        rows = disturbed(rows, chance)
        cuts = sorted(chance.randrange(len(rows)) for _ in range(6))
        state = None
        for start, end in zip([0, *cuts], [*cuts, len(rows)], strict=True):
            streamed = _StreamedComponent(component, state)
            results += streamed.take(rows[start:end])
            state = streamed.state()
        assert not streamed.pending
    assert result_hash(results) == expected()


def test_an_event_that_never_comes_counts_as_lost_when_patience_ends():
    rows = [row for row in small_lake()["fleet/q15"] if row[0] != 50]
    streamed = _StreamedComponent("fleet/q15", patience=100)
    results = []
    for row in rows:
        results += streamed.take([row])
    gaps = [finding_of(row).sentence() for row in results if row.finding == "gap"]
    assert gaps == ["events 50 to 50 are missing; what follows is not certain"]
    # What waited too long is audited as a batch would: with the same gap.
    batch = audit({"fleet/q15": rows})
    assert result_hash(results) == result_hash(batch[: len(results)]) and len(batch) - len(results) < 200


def lossy(component, lost):
    return [row for row in small_lake()[component] if row[0] != lost]


def as_rows(component, rows):
    from pyspark.sql import Row

    return [Row(**dict(zip(LAKE, (component, *row), strict=True))) for row in rows]


def gaps(results):
    return [row for row in results if row.finding == "gap"]


@pytest.fixture
def tester():
    pytest.importorskip("pyspark")
    pytest.importorskip("google.protobuf")
    from pyspark.sql.streaming.tws_tester import TwsTester

    return lambda **given: TwsTester(_rows_processor(**given), timeMode="ProcessingTime")


def test_the_rows_processor_alone_without_a_jvm(tester):
    rows, stream = as_rows("fleet/q15", small_lake()["fleet/q15"]), tester()
    results = []
    for start in range(0, len(rows), 400):
        results += stream.test("fleet/q15", rows[start : start + 400])
    assert stream.peekValueState("component", "fleet/q15") is not None
    assert result_hash(results) == result_hash(row for row in fleet_results() if row[0] == "fleet/q15")


def test_a_loss_near_the_end_is_reported_after_a_minute(tester):
    """It was never reported: too few events came after it."""
    component = "fleet/q15"
    rows, last = lossy(component, 450), small_lake()[component][-1][0]
    stream = tester(wait=60)
    results = stream.test(component, as_rows(component, rows))
    assert not gaps(results) and last > 450
    stream.setProcessingTime(59_000)
    assert stream.peekValueState("component", component)[0] != b"over"
    results += stream.setProcessingTime(61_000)
    assert len(gaps(results)) == 1
    assert result_hash(results) == result_hash(audit({component: rows}))
    # Of what has ended only that is kept, and what comes again changes nothing.
    assert stream.peekValueState("component", component)[0] == b"over"
    assert stream.test(component, as_rows(component, rows[:50])) == []


def test_what_comes_within_a_minute_is_not_lost(tester):
    component = "fleet/q15"
    rows = small_lake()[component]
    stream = tester(wait=60)
    results = stream.test(component, as_rows(component, lossy(component, 450)))
    stream.setProcessingTime(50_000)
    results += stream.test(component, as_rows(component, [row for row in rows if row[0] == 450]))
    results += stream.setProcessingTime(500_000)
    assert not gaps(results)
    assert result_hash(results) == result_hash(audit({component: rows}))


def test_where_all_comes_at_once_the_end_of_a_log_waits_for_nothing(tester):
    component = "fleet/q15"
    results = tester(ends_count=True).test(component, as_rows(component, lossy(component, 450)))
    assert result_hash(results) == result_hash(audit({component: lossy(component, 450)}))


@pytest.fixture(scope="module")
def incoming(tmp_path_factory):
    """Return a folder of six files with the events of three components, disturbed across files."""
    pytest.importorskip("pyarrow")
    chance = random.Random(5)
    folder = tmp_path_factory.mktemp("incoming")
    rows = disturbed([(name, *row) for name, rows in small_lake().items() for row in rows], chance, 500)
    size = -(-len(rows) // 6)
    for number in range(6):
        write_rows(folder / f"part-{number}.parquet", rows[number * size : (number + 1) * size])
    return folder


def test_structured_streaming_gives_what_the_batch_gives(spark, incoming, tmp_path):
    from qflow.spark.stream import audit_stream, read_results, read_stream, start

    query = start(audit_stream(read_stream(spark, incoming, files=3)), tmp_path, once=True)
    query.awaitTermination()
    assert len(_steps_of(tmp_path)) >= 2
    # Of three files the reading stage makes three tasks at most; the auditors are in four.
    tracker = spark.sparkContext.statusTracker()
    stages = [
        stage for job in tracker.getJobIdsForGroup(query.runId) for stage in tracker.getJobInfo(job).stageIds
    ]
    assert max(tracker.getStageInfo(stage).numTasks for stage in stages) == 4
    assert result_hash(read_results(spark, tmp_path).collect()) == expected()


def _steps_of(folder):
    """Return what Spark has noted of each step, and when; what is not noted there counts for nothing."""
    noted = (folder / "results" / "_spark_metadata").glob("[0-9]*")
    return {path: path.stat().st_mtime_ns for path in noted if path.suffix == ""}


@pytest.mark.release
def test_killed_in_the_middle_it_goes_on_and_nothing_is_lost_or_twice(spark, incoming, tmp_path):
    from qflow.spark.stream import read_results

    words = ["spark", "stream", str(incoming), "--out", str(tmp_path), "--once", "--files=1"]
    kill_when(lambda: _steps_of(tmp_path), "one step is done", *words)
    done = _steps_of(tmp_path)
    assert 1 <= len(done) < 6
    # Another driver goes on: this process, with the session of all tests.
    assert main(words) == 0
    assert done.items() <= _steps_of(tmp_path).items()
    assert result_hash(read_results(spark, tmp_path).collect()) == expected()


def test_a_shipped_log_is_the_lake(tmp_path):
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    workload, rows = fleet()
    shipper = Shipper("fleet", workload, tmp_path, Tolerance.estimate(rows))
    for start in range(0, len(rows), 9_000):
        shipper.send(rows[start : start + 9_000])
    shipper.end()
    shipped = {}
    for path in sorted(tmp_path.iterdir()):
        for row in parquet.read_table(path).to_pylist():
            shipped.setdefault(row["component"], []).append(tuple(row.values())[1:])
    assert shipped == fleet_lake()
