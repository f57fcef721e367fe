"""Many runs at once: results as they come, errors, and stopping."""

import math
import os
import time

import pytest

from qflow.workload import many
from qflow.workload.many import ManyRuns, run_many


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_every_item_is_answered_in_its_place(processes):
    found = dict(run_many(math.factorial, [5, 6, 7, 8, 9], processes=processes))
    assert found == {0: 120, 1: 720, 2: 5_040, 3: 40_320, 4: 362_880}


def test_workers_are_other_processes_and_are_kept(monkeypatch):
    """What a worker remembers is there when it is asked again."""
    # A machine with much other work may need long to let a worker say that this was all.
    monkeypatch.setattr(many, "PATIENCE", 60.0)
    dict(run_many(os.umask, [0o022, 0o022], processes=2))
    here = os.umask(0o022)
    try:
        assert set(dict(run_many(os.umask, [0o077, 0o077], processes=2)).values()) == {0o022}
        assert set(dict(run_many(os.umask, [0o022, 0o022], processes=2)).values()) <= {0o077, 0o022}
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(here)


def test_an_error_is_raised_here_and_workers_go_on_afterwards():
    with pytest.raises(ValueError, match="factorial"):
        list(run_many(math.factorial, [3, -1, 4], processes=2))
    assert dict(run_many(abs, [-1, -2], processes=2)) == {0: 1, 1: 2}


def test_stopping_ends_what_is_under_way():
    """Otherwise this test would take ten minutes."""
    results = run_many(time.sleep, [0, 600, 600], processes=2)
    assert next(results) == (0, None)
    results.close()
    assert all(worker.is_alive for worker in many._idle)


def test_two_sweeps_at_once_do_not_mix_their_answers():
    one, two = run_many(abs, [-1, -2, -3], processes=2), run_many(abs, [-10, -20], processes=2)
    found = [next(one), next(two)]
    assert dict([*found[:1], *one]) == {0: 1, 1: 2, 2: 3}
    assert dict([*found[1:], *two]) == {0: 10, 1: 20}


def test_workers_that_leave_what_they_are_at_are_there_for_the_next_question(monkeypatch):
    """A slider that moves on does not wait for new processes."""
    # A machine with much other work may need long to let a worker hear a signal.
    monkeypatch.setattr(many, "PATIENCE", 60.0)
    first = ManyRuns(os.getppid, [], processes=2)
    assert first.results() == [] and first.left == 0
    runs = ManyRuns(time.sleep, [0, 0, 600, 600, 600], processes=2)
    while runs.left > 3:
        runs.results(None)
    before = {worker._process.pid for worker in runs._workers}
    runs.close()
    assert runs.left == 0 and runs.results() == []
    after = ManyRuns(abs, [-1, -2, -3], processes=2)
    assert {worker._process.pid for worker in after._workers} == before
    found = []
    while after.left:
        found += after.results(None)
    assert sorted(found) == [(0, 1), (1, 2), (2, 3)]


def test_brief_items_do_not_wait_for_a_worker_to_start():
    many._end_all()
    runs = ManyRuns(abs, [-1, -2, -3], processes=2, is_brief=True)
    assert runs.results() == [(0, 1)]
    assert sorted(found for _ in range(1000) if runs.left for found in runs.results(0.1)) == [(1, 2), (2, 3)]


def test_many_answers_at_once_are_all_heard():
    """More of them than one question has, and longer ones than a pipe holds."""
    found = dict(run_many(bytes, [200_000, 3] * 40, processes=2))
    assert {place: len(data) for place, data in found.items()} == dict(enumerate([200_000, 3] * 40))


def test_a_worker_that_dies_is_said_and_replaced():
    with pytest.raises(RuntimeError, match="a worker process ended, with 3"):
        list(run_many(os._exit, [3, 3], processes=2))
    assert dict(run_many(abs, [-1, -2], processes=2)) == {0: 1, 1: 2}
    runs = ManyRuns(bytes, [30_000_000, 30_000_000], processes=2)
    # More than a pipe holds: both are in the middle of an answer, or have not begun one.
    for worker in runs._workers:
        worker._process.kill()
    with pytest.raises(RuntimeError, match="a worker process ended, with -9"):
        runs.results(None)


def test_results_are_returned_although_more_come_all_the_time():
    runs = ManyRuns(list, [range(2_000)] * 20_000, processes=2)
    assert 0 < len(runs.results(None)) < 20_000
    runs.close()


def test_a_signal_that_comes_too_late_costs_nothing():
    """It may meet the next question; what that leaves out is asked again."""
    runs = ManyRuns(abs, [-1] * 400, processes=2)
    found = []
    while runs.left:
        for worker in runs._workers:
            worker.drop()
        found += runs.results(None)
    assert sorted(place for place, _ in found) == list(range(400))
