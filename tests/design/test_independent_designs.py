"""Designs held by an independent simulator: what is said to hold, over seeds that the design did not see."""

from random import Random

import pytest
from foreign_simulator import Run
from foreign_workloads import drawn_from

from qflow.design import recommend
from qflow.logs.workload_file import workload_json
from qflow.workload import Workload

_SEEDS = 20


def asked(number):
    """Return a workload file's mapping and goals; the declared duration is what they are to be kept over."""
    chance = Random(f"design {number}")
    count = chance.choice((1, 1, 2))
    burst = chance.choice((None, (2, 4), (5, 15)))
    rate = chance.choice((30, 60, 100))
    producers = [
        {"name": f"p{n}", "to": ("", "q"), "rate": rate / count, "capacity": chance.choice((10, 50, 200))}
        | {"size": 100, "burst": burst, "arrival": chance.choice(("poisson", "const"))}
        for n in range(count)
    ]
    share = burst[0] / sum(burst) if burst else 1.0
    late = chance.choice((0, 0, 3, 8))
    readers = chance.choice((1, 2))
    consumers = [
        {"name": f"c{n}", "queue": "q", "prefetch": chance.choice((1, 10)), "start": late}
        | {"service": ("exp", readers / (rate * share) * chance.choice((0.5, 0.7, 0.9)))}
        for n in range(readers)
    ]
    mapping = {
        "name": f"asked {number}",
        "duration": chance.choice((30, 60)),
        "queues": {"q": {"qpid.max_count": chance.choice((150, 400, 1200))}},
        "producers": producers,
        "consumers": consumers,
    }
    goals = [
        f"p99 wait < {chance.choice((1, 2, 5))}s",
        f"blocked < {chance.choice((5, 20, 40))}%",
        f"p99 completion < {chance.choice((2, 5))}s",
        "loss 0",
    ]
    return mapping, chance.sample(goals, 2)


def values(setup, goal):
    """Return what a goal comes to in a run of the independent simulator."""
    run = Run(setup)
    died = sum(run.clients[p.name].died is not None for p in setup.producers)
    measured = [run.producer(p.name) for p in setup.producers]
    return died if goal.measure == "loss" else max(one[goal.measure] or 0.0 for one in measured)


def broken(number):
    """Return how many goals are said to hold, and which of them do not in an independent run."""
    mapping, slo = asked(number)
    made = recommend(Workload.from_json(mapping), slo=slo)
    designed = workload_json(made.workload) | {"duration": mapping["duration"]}
    kept = [outcome.goal for outcome in made.goals if outcome.verdict == "holds"]
    setups = [drawn_from(designed, seed) for seed in range(_SEEDS)]
    found = [(number, goal.text, values(one, goal)) for goal in kept for one in setups]
    limits = {goal.text: goal for goal in kept}
    return len(kept), [one for one in found if limits[one[1]].use(one[2]) >= 1]


def test_a_design_holds_in_independent_runs():
    found = [broken(number) for number in range(2)]
    assert [one for _, failed in found for one in failed] == []


@pytest.mark.release
def test_twelve_designs_hold_in_independent_runs():
    found = [broken(number) for number in range(12)]
    assert [one for _, failed in found for one in failed] == []
    assert sum(count for count, _ in found) > 12
