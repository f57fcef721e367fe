"""What-if, sweep, advice and synthetic fleets."""

import json

import pytest
from spark_kit import SOME, beginning_of, fleet_lake, kill_when, lake_frame, small_lake, write_lake, written

from qflow.cli import main
from qflow.kit import RefusalError
from qflow.logs.components import audit_in_memory as audit
from qflow.logs.components import result_hash
from qflow.logs.findings import finding_of
from qflow.prediction import predict
from qflow.spark.lake import bound, speed_up
from qflow.spark.sweep import (
    AS_RECORDED,
    FleetSettings,
    TooLarge,
    _component_log,
    _measure_component,
    _whole_components,
    load_grid,
    sweep,
)
from qflow.spark.synth import FleetModel, _synthetic_rows, share
from qflow.workload import Workload

pytest.importorskip("pyarrow")

HALF = FleetSettings("half", {"*": {"qpid.flow_stop_count": "x0.5", "qpid.flow_resume_count": "x0.5"}})
LEVELS = ("flow_stop_count", "flow_resume_count", "flow_stop_size", "flow_resume_size")
TWICE = FleetSettings("twice", {"*": {f"qpid.{level}": "x2" for level in LEVELS}})
NONSENSE = FleetSettings("nonsense", {"*": {"qpid.flow_stop_count": 5, "qpid.flow_resume_count": 9}})


TWO = SOME[:2]
"""The smaller ones, three seconds of each, for what runs them under several settings."""


def two():
    return {name: beginning_of(name, 3) for name in TWO}


def in_memory(grid):
    return result_hash(row for name, rows in two().items() for row in _measure_component(name, rows, grid))


def test_settings_scale_what_is_declared_and_leave_others_alone():
    workload, _ = _component_log("fleet/q10", fleet_lake()["fleet/q10"])
    assert HALF.of(workload).queues["q10"] == {"qpid.flow_stop_count": 150, "qpid.flow_resume_count": 100}
    workload, _ = _component_log("fleet/q01", fleet_lake()["fleet/q01"])
    assert HALF.of(workload).queues == {}
    assert FleetSettings("few", capacity={"p*": "x0.1"}, prefetch={"c*": 1}).of(workload).capacity == {
        "p01": 1
    }


def test_a_grid_that_makes_no_sense_is_refused_in_one_sentence(tmp_path):
    path = tmp_path / "grid.json"
    for text, words in [
        ("{", "must be JSON"),
        ("[]", "a JSON map of names to settings"),
        ('{"a": {"queue": {}}}', "the parts are queues, capacity, prefetch; got queue"),
    ]:
        path.write_text(text)
        with pytest.raises(RefusalError, match=words):
            load_grid(path)
    path.write_text('{"a": {"queues": {"*": 5}}, "b": {"capacity": {"p": "ten"}, "prefetch": {"c": "xnan"}}}')
    with pytest.raises(RefusalError) as refused:
        load_grid(path)
    assert all(got in str(refused.value) for got in ("got 5", "'b'", "got 'ten'", "got 'xnan'"))
    with pytest.raises(RefusalError, match="two settings are named 'half'"):
        sweep(None, "lake", [HALF, HALF], "out")


def test_a_refused_setting_and_a_component_too_large_are_noted_not_lost():
    rows = fleet_lake()["fleet/q10"]
    (note,) = _measure_component("fleet/q10", rows, [NONSENSE])
    assert note[-1].startswith("refused: ") and "must be less or equal" in note[-1]
    (note,) = _measure_component("fleet/q10", TooLarge(len(rows), 10), [HALF])
    assert note[-1] == "too large: 465 events, 10 are allowed; an audit takes it, or allow more"


def test_components_that_are_too_large_are_not_kept(spark):
    from qflow.spark.tables import LAKE, to_batches

    rows = [(name, *row) for name, rows in small_lake().items() for row in rows]
    sizes = {name: len(rows) for name, rows in small_lake().items()}
    allowed = sorted(sizes.values())[1]
    kept = dict(_whole_components(to_batches(rows, LAKE, 100), allowed))
    assert [name for name, rows in kept.items() if isinstance(rows, TooLarge)] == [
        name for name, size in sizes.items() if size > allowed
    ]
    assert all(rows == small_lake()[name] for name, rows in kept.items() if not isinstance(rows, TooLarge))


def test_what_if_on_spark_is_what_it_is_in_memory(spark):
    from qflow.spark.sweep import what_if

    frame = what_if(lake_frame(spark, two()), [AS_RECORDED, HALF])
    assert result_hash(frame.collect()) == in_memory([AS_RECORDED, HALF])


def test_replays_say_between_what_the_measures_of_queues_lie():
    """The replays are those of predict: the same interval for the same log and settings."""
    rows = beginning_of("fleet/q10", 3)
    workload, log = _component_log("fleet/q10", rows)
    found = list(_measure_component("fleet/q10", rows, [HALF], replays=3))
    report = predict(workload, log, HALF.of(workload), replays=3)
    by_measure = {tuple(row[2:5]): row[5:9] for row in found}
    for measure, (low, high) in report["queues"]["q10"]["interval"].items():
        assert by_measure["queues", "q10", measure][2:] == (low, high)
    assert by_measure["producers", "p10", "dies"][1] == report["producers"]["p10"]["dies"]
    assert {row[7:9] for row in _measure_component("fleet/q10", rows, [HALF])} == {(None, None)}


def foreign_logs():
    from recordings import RECORDINGS

    return sorted((RECORDINGS / "foreign").glob("foreign-??.json"))


@pytest.mark.parametrize("path", foreign_logs(), ids=lambda path: path.stem)
def test_a_sweep_says_what_a_log_does_not_show(path):
    """Of an independent simulator's log, whose truth says if the demand of a blocked producer was seen."""
    from qflow.logs import ClientLog
    from qflow.logs.components import lake_of

    truth = json.loads(path.with_suffix(".truth.json").read_text())
    censored = truth["censored_producers"]
    lake = lake_of(path.stem, Workload.load(path), ClientLog.load(path.with_suffix(".csv.gz")).rows)
    measures = [row for part, rows in lake.items() for row in _measure_component(part, rows, [TWICE])]
    bounds = [row for row in measures if row.note]
    assert bool(bounds) == bool(censored)
    for row in bounds:
        assert row.note.startswith(f"bound: demand of {censored[0]}: at least ") and row.low < row.high
    # A bound holds what came of it, with the demand that the simulator knew.
    ranges = truth["settings"].get("thresholds-twice", {}).get("range", {"queues": {}})["queues"]
    for row in bounds:
        low, high = ranges.get(row.name, {}).get(row.measure, (row.high, row.low))
        assert row.low <= high and low <= row.high, row


@pytest.mark.release
def test_a_fleet_of_foreign_logs_is_swept_with_what_each_cannot_show(spark, tmp_path, capsys):
    """Some of the logs have rows of blocked producers; of the others the windows were seen by nobody."""
    paths = foreign_logs()
    logs = [str(path.with_suffix(".csv.gz")) for path in paths]
    assert main(["spark", "audit", *logs, "--lake", str(tmp_path / "lake"), "--fail-on", ""]) == 0
    (tmp_path / "grid.json").write_text(json.dumps({TWICE.name: {"queues": TWICE.queues}}))
    words = ["spark", "sweep", "--lake", str(tmp_path / "lake"), "--settings", str(tmp_path / "grid.json")]
    words += ["--out", str(tmp_path / "out")]
    capsys.readouterr()
    assert main([*words, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    for path in paths:
        censored = json.loads(path.with_suffix(".truth.json").read_text())["censored_producers"]
        own = [row for row in rows if row["component"].startswith(f"{path.stem}/")]
        notes = {row["note"] for row in own if row["note"]}
        assert own and bool(notes) == bool(censored), path.stem
        assert all(note.startswith(f"bound: demand of {censored[0]}: at least ") for note in notes)
        told = [line for line in lines if line.startswith(f"{path.stem}/") and "; bound: demand of" in line]
        assert bool(told) == bool(censored), path.stem
    assert {bool(row["note"]) for row in rows} == {True, False}


def test_a_threshold_that_is_off_stays_off_under_a_factor():
    """It became 1 once: a queue limited by bytes was then stopped by its first message."""
    declared = {"qpid.flow_stop_count": 0, "qpid.flow_resume_count": 0, "qpid.flow_stop_size": 40_000}
    changed = TWICE.of(Workload("w", 1, {"q": declared})).queues["q"]
    assert changed == {**declared, "qpid.flow_stop_size": 80_000}


def test_a_sweep_measures_what_memory_does_and_again_only_what_is_missing(spark, tmp_path):
    # A quarter of a second of a component that is stopped then: what is tested is which cells are done.
    lake = {"fleet/q22": beginning_of("fleet/q22", 0.25)}
    folder, grid = write_lake(tmp_path / "lake", lake), [AS_RECORDED, HALF, NONSENSE]
    expected = list(_measure_component("fleet/q22", lake["fleet/q22"], grid))
    first = sweep(spark, folder, grid[:2], tmp_path / "out").collect()
    assert result_hash(first) == result_hash(row for row in expected if row[1] != "nonsense")
    cells = written(tmp_path / "out")
    assert len(cells) == 2
    assert result_hash(sweep(spark, folder, grid, tmp_path / "out").collect()) == result_hash(expected)
    assert len(written(tmp_path / "out")) == 3 and cells.items() <= written(tmp_path / "out").items()


@pytest.mark.release
def test_killed_in_the_middle_a_sweep_goes_on_and_repeats_no_cell(spark, tmp_path, capsys):
    lake = write_lake(tmp_path / "lake", two())
    factors = [f"{0.5 + n / 100:.2f}" for n in range(40)]
    grid = {f"x{f}": {"queues": {"*": {"qpid.flow_stop_count": f"x{f}"}}} for f in factors}
    (tmp_path / "grid.json").write_text(json.dumps(grid))
    words = ["spark", "sweep", "--lake", str(lake), "--settings", str(tmp_path / "grid.json"), "--json"]
    words += ["--out", str(tmp_path / "out")]
    kill_when(lambda: written(tmp_path / "out"), "some cells are done", *words)
    done = written(tmp_path / "out")
    assert 1 <= len(done) < len(TWO) * len(grid)
    # Another driver goes on: this process, with the session of all tests.
    assert main(words) == 0
    assert done.items() <= written(tmp_path / "out").items()
    undisturbed = in_memory(load_grid(tmp_path / "grid.json"))
    assert result_hash(tuple(row.values()) for row in json.loads(capsys.readouterr().out)) == undisturbed


def test_advice_cannot_overflow_and_comes_with_its_reasons():
    from qflow.design import Limits
    from qflow.spark.sweep import _advise_component

    rows = _advise_component("fleet/q15", fleet_lake()["fleet/q15"], {"*": Limits(count=500)}, messages=50)
    ((_, queue, line, _, _, reasons, evidence, _),) = rows
    assert queue == "q15" and line.startswith("qpid-config add queue q15 --max-queue-count=500")
    assert "within the limit of 500" in reasons and "capacity" in json.loads(evidence)
    (ring,) = _advise_component("fleet/q08", fleet_lake()["fleet/q08"], {}, messages=50)
    assert ring[2] == "" and "nothing to design" in ring[7]


# Synthetic fleets


def test_a_synthetic_component_depends_on_its_seed_alone_and_is_plausible():
    model = FleetModel.fit()
    for seed in (3, 5, 6):
        rows = list(_synthetic_rows(seed, 4_000, model))
        assert rows == list(_synthetic_rows(seed, 4_000, model)) and len(rows) == 4_000
        results = audit({f"synth/q{seed:06d}": rows})
        found = [finding_of(row) for row in results if row.kind == "finding"]
        reports = [one for one in found if one.kind == "reports"]
        # The log is what the engine did, so the audit must find the engine's own statistics in it.
        assert reports and all(one.seen == one.expected for one in reports)
        assert not any(one.rule for one in found)
        assert all((one.depth_off, one.depth_off_most) == (0, 0) for one in reports)


def test_events_are_shared_out_to_the_last():
    assert sum(share(1_000_003, 17, seed) for seed in range(17)) == 1_000_003


def test_a_fleet_has_one_partition_a_seed(spark):
    from qflow.spark.lake_audit import audit as audit_lake
    from qflow.spark.synth import _synthetic_fleet

    fleet = _synthetic_fleet(spark, 3, 2_400).persist()
    assert fleet.rdd.getNumPartitions() == 3
    model = FleetModel.fit()
    lake = {f"synth/q{seed:06d}": _synthetic_rows(seed, 800, model) for seed in range(3)}
    assert result_hash(audit_lake(fleet).collect()) == result_hash(audit(lake))


# Skew


def test_the_largest_component_bounds_the_speed_up():
    events = {name: len(rows) for name, rows in fleet_lake().items()}
    assert speed_up(events, 1) == 1
    assert speed_up(events, 2) > 1.9
    assert speed_up(events, 1000) == bound(events) == sum(events.values()) / max(events.values())
