"""Cuts: a component in pieces, from checkpoints or from a fresh state, in memory and on Spark."""

from itertools import pairwise

import pytest
from spark_kit import fleet_lake, fleet_results, write_lake
from test_spark_auditor import STALL, sends

from qflow.logs.audit import Auditor
from qflow.logs.client_log import client_rows
from qflow.logs.components import audit_in_memory as audit
from qflow.logs.components import lake_of, result_hash
from qflow.spark.lake_audit import _audit_at, audit_cut, audit_from_checkpoint, rest_places, take_checkpoints
from qflow.workload import Consumer, Producer, simulate


def bursts(stop=2, seconds=20):
    """Return a component whose queue is empty between two bursts, and ON in each."""
    producer = Producer("p", ("", "q"), rate=10, capacity=9, size=100, burst=(0.6, 4))
    quick = Consumer("c", "q", prefetch=1, service=("const", 0.2))
    queues = {"q": {"qpid.flow_stop_count": stop, "qpid.flow_resume_count": 1}}
    workload = STALL.replace(duration=seconds, queues=queues, producers=(producer,), consumers=(quick,))
    (rows,) = lake_of("log", workload, list(client_rows(simulate(workload).events))).values()
    return rows


def of(component):
    return [row for row in fleet_results() if row.component == component]


def of_kind(results, kind):
    return [row for row in results if row.kind == kind]


def test_pieces_between_checkpoints_give_the_same_results_in_any_order():
    name = max(fleet_lake(), key=lambda name: len(fleet_lake()[name]))
    rows = fleet_lake()[name]
    pieces = list(take_checkpoints(name, rows, 300))
    assert len(pieces) > 4
    results = []
    for _, seq, state in reversed(pieces):
        results += audit_from_checkpoint(name, state, rows[seq : seq + 300], seq + 300 >= len(rows))
    assert result_hash(results) == result_hash(of(name))


def test_pieces_cut_where_nothing_is_under_way_give_the_same_results():
    held = 0
    for name, rows in fleet_lake().items():
        stitched = audit_cut(name, rows, 5)
        assert result_hash(stitched.results) == result_hash(of(name))
        held += min(4, len(rest_places(rows))) - stitched.repeated
    assert held > 10


@pytest.mark.parametrize("stop", [50, 2])
def test_a_piece_that_began_at_rest_goes_on_from_what_was_counted_before(stop):
    """Each transfer that was held says which ON held it: pieces count from the first of the component."""
    rows = bursts(stop)
    stitched = audit_cut("log/q", rows, 4)
    assert stitched.repeated == 0 and stitched.results == audit({"log/q": rows})
    assert {row.flowStoppedCount for row in of_kind(stitched.results, "held")} == (
        {1, 2, 3, 4} if stop == 2 else set()
    )


def test_what_a_piece_leaves_held_is_held_by_the_right_time_on():
    """In the last burst the log breaks off while the queue is ON."""
    whole = bursts()
    rows = whole[: rest_places(whole)[-1] + 9]
    results = _audit_at("log/q", rows, rest_places(rows)[1:]).results
    assert results == audit({"log/q": rows})
    assert any(row.end_us is None and row.flowStoppedCount > 1 for row in of_kind(results, "held"))


def test_a_piece_begun_in_a_wrong_state_is_audited_again():
    """In the middle of q22 messages wait."""
    rows = fleet_lake()["fleet/q22"]
    stitched = _audit_at("fleet/q22", rows, [len(rows) // 2])
    assert stitched.repeated == 1
    assert result_hash(stitched.results) == result_hash(of("fleet/q22"))


@pytest.mark.parametrize("lost", [0, -1])
def test_what_misses_where_a_component_is_cut_is_found_once_and_no_rule_is_asked_after(lost):
    rows = bursts()
    place = rest_places(rows)[1]
    rows = [row for row in rows if row[0] != place + lost]
    # The next piece has no place of its own any more, and begins with what there is.
    expected = audit({"log/q": rows})
    starts = [at for at, (before, row) in enumerate(pairwise(rows), 1) if row[0] != before[0] + 1]
    assert _audit_at("log/q", rows, [starts[0], starts[0] + 9]).results == expected


def test_a_message_that_two_pieces_have_seen_cannot_be_joined():
    (rows,) = lake_of("log", STALL, sends(1, 2)).values()
    auditor = Auditor("log/q")
    auditor.feed(rows)
    assert not Auditor("log/q", auditor.state()).join(auditor)


def test_a_large_component_is_cut_by_the_audit_itself(spark, tmp_path, monkeypatch):
    """A piece has a finding, another lacks rows: they are audited again. q00 never rests, and stays whole."""
    from qflow.spark import lake_audit

    found, find_cuts = [], lake_audit._find_cuts
    monkeypatch.setattr(lake_audit, "_find_cuts", lambda *given: found.append(find_cuts(*given)) or found[-1])
    rows = bursts(seconds=240)
    middle = rows[len(rows) // 2]
    odd = middle._replace(client="p", event="complete", label="never sent", size=0)
    rows[odd.seq :] = [odd, *(row._replace(seq=row.seq + 1) for row in rows[odd.seq :])]
    lake = {"log/q": rows, **{name: fleet_lake()[name][:] for name in ("fleet/q05", "fleet/q00")}}
    del lake["fleet/q05"][-9:-6]
    folder = write_lake(tmp_path / "lake", lake)
    results = lake_audit.audit_to(spark, folder, tmp_path / "out", cut=len(rows) // 4)
    assert result_hash(results.collect()) == result_hash(audit(lake))
    assert {name: len(places) >= 3 for name, places in found[0].items()} == {"log/q": True, "fleet/q05": True}


def test_a_lake_without_rows_has_no_results(spark):
    from qflow.spark.lake_audit import audit_large
    from qflow.spark.tables import LAKE

    assert audit_large(spark.createDataFrame([], LAKE.ddl)).collect() == []
