"""The engine beside an independent simulator: random workloads, equal in each measure."""

import pytest
from foreign_simulator import Run
from foreign_workloads import draw, exact_workload

from qflow.workload import Workload, simulate
from qflow.workload.measures import QueueMeters, meters_of

_ALL = 200
_FEW = 24


def _differences(seed):
    """Return each measure of a random workload in which engine and simulator differ."""
    setup = draw(seed)
    other = Run(setup)
    run = simulate(Workload.from_json(exact_workload(setup)))
    meters = QueueMeters(run.workload, other.end)
    meters.take(run.events)
    ours = {("queue", name): found for name, found in meters.measures().items()}
    for name, most in meters.max_bytes.items():
        ours["queue", name] |= {"max_bytes": most, "lost": meters.lost(name)}
    producers = meters_of(run.events, run.workload, other.end)
    ours |= {("producer", name): meter.measures(other.end) for name, meter in producers.items()}
    found = []
    for (kind, name), measures in ours.items():
        theirs = getattr(other, kind)(name)
        for measure, value in measures.items():
            if value != pytest.approx(theirs[measure], rel=1e-5, abs=1e-9):
                found.append((seed, name, measure, value, theirs[measure]))
    died = {p.name for p in setup.producers if other.clients[p.name].died is not None}
    if set(run.errors) != died:
        found.append((seed, "sessions ended", set(run.errors), died))
    return found


def test_random_workloads_are_equal_in_each_measure():
    assert [one for seed in range(_FEW) for one in _differences(seed)] == []


@pytest.mark.release
def test_all_random_workloads_are_equal_in_each_measure():
    assert [one for seed in range(_FEW, _ALL) for one in _differences(seed)] == []
