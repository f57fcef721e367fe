"""Designs held by an independent simulator: what is said to hold, over seeds that the design did not see."""

import json
import re
from random import Random

import pytest
from commands import output_of
from foreign_simulator import US, Run
from foreign_workloads import Client, Queue, Setup, drawn_from, users_files

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


def blocked_log(folder):
    """Return the files of a producer that wants to send 100 a second and is let send 40."""
    messages = [(10_000 * number, 100, "") for number in range(1, 1000)]
    producer = Client("p", ("q",), 10, messages, delay=200)
    consumer = Client("c", ("q",), 5, services=[25_000], delay=200)
    setup = Setup(10 * US, [Queue("q", 20, 10, limit=1000)], [producer], [consumer])
    return users_files(setup, folder)


def test_a_design_from_a_blocked_producers_log_says_for_which_demand_it_is(tmp_path, capsys):
    """By hand: the log shows 40 a second and the 30 that fill queue and window; 100 were wanted."""
    workload, log, run = blocked_log(tmp_path)
    assert run.producer("p")["blocked_share"] > 0.9
    slo = ["--slo", "blocked < 90%", "--messages", "300"]
    said = json.loads(output_of(capsys, "design", workload, "--log", log, *slo, "--json"))
    demand = said["demand"]["p"]
    assert demand["known"] is False and 40 <= demand["at_least"] <= 43
    text = output_of(capsys, "design", workload, "--log", log, *slo)
    assert text.startswith("these settings keep all goals for the least demand that the log shows")
    assert re.search(r"\n  p: at least 4\d(\.\d+)? a second; its window was full \S+ % of the time", text)
    assert "thresholds are safe for any" in text
    stated = ["design", workload, "--log", log, "--demand", "p=100/s", "--messages", "300", "--json"]
    said = json.loads(output_of(capsys, *stated))
    assert said["demand"] == {} and 2.5 < said["recommended"]["seconds"] < 3.5


def test_a_design_holds_in_independent_runs():
    found = [broken(number) for number in (6, 8)]
    assert [one for _, failed in found for one in failed] == []


@pytest.mark.thorough
def test_twelve_designs_hold_in_independent_runs():
    found = [broken(number) for number in range(12)]
    assert [one for _, failed in found for one in failed] == []
    assert sum(count for count, _ in found) > 12
