"""Many runs at once: results as they come, errors, and stopping."""

import math
import os
import time

import pytest

from qflow.workload import many
from qflow.workload.many import run_many


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_every_item_is_answered_in_its_place(processes):
    found = dict(run_many(math.factorial, [5, 6, 7, 8, 9], processes=processes))
    assert found == {0: 120, 1: 720, 2: 5_040, 3: 40_320, 4: 362_880}


def test_workers_are_other_processes_and_are_kept():
    """What a worker remembers is there when it is asked again."""
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
