"""Goals: what they may say, what is said of them, and that it holds in runs that were not looked at."""

from __future__ import annotations

import re
import sys
from math import log
from random import Random

import pytest
from commands import output_of, status_of
from test_design_recommend import orders, written

from qflow import cli
from qflow.design import DesignError, recommend
from qflow.design.frontier import CostMeter, Costs, cover, meter_run
from qflow.design.goals import Goal, Outcome
from qflow.trace import read_trace
from qflow.workload import Consumer, Producer, Workload, simulate


def costs_of(**values):
    return Costs(0.0, 0.0, None, None, {"q": 0}, 0, 0, 1.0, {}, **values)


@pytest.mark.parametrize(
    ("text", "measure", "limit"),
    [
        ("p99 wait < 2s", "wait_p99", 2.0),
        ("max wait<250 ms", "wait_max", 0.25),
        ("P50 Wait <= 1.5 min", "wait_p50", 90.0),
        ("p99 completion < 500ms", "latency_p99", 0.5),
        ("blocked < 5%", "blocked_share", 0.05),
        ("blocked.mean < 5%", "blocked_share", 0.05),
        ("p99 completion.mean < 2s", "latency_p99", 2.0),
        ("depth < 5000", "max_depth", 5000.0),
        ("depth < 40MB", "max_bytes", 40e6),
        ("loss 0", "loss", 0.0),
        ("loss = 0", "loss", 0.0),
    ],
)
def test_a_goal_is_read(text, measure, limit):
    goal = Goal.parse(text)
    assert (goal.measure, goal.limit, goal.text) == (measure, pytest.approx(limit), text)


@pytest.mark.parametrize(
    "text",
    ["wait < 2s", "p95 wait < 2s", "p99 wait < 2", "p99 wait > 2s", "max completion < 1s", "loss < 3", ""]
    + ["blocked < 5", "depth < 5 s", "p99 wait < 0s", "blocked < -5%"],
)
def test_a_goal_that_is_none_is_refused_with_what_is_allowed(text, tmp_path, capsys):
    with pytest.raises(DesignError, match=re.escape(f"got {text!r}")):
        Goal.parse(text)
    assert status_of("design", written(tmp_path), "--slo", text) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "a goal must have one of these forms: 'p99 wait < 2s' (p50, p99 or max;" in said.err


@pytest.mark.parametrize(
    ("waits", "verdict"),
    [
        ((0.5,) * 10, "holds"),
        ((0.5, 0.9) * 5, "holds"),
        ((0.5, 1.9) * 5, "close"),
        ((1.85,) * 10, "close"),
        # Three runs that differ as much say less.
        ((0.5, 0.5, 0.9), "close"),
        ((0.5, 2.0) * 5, "missed"),
    ],
)
def test_a_goal_holds_with_room_for_chance(waits, verdict):
    outcome = Outcome.of(
        Goal.parse("p99 wait < 2s"), [costs_of(producers={"p": {"wait_p99": wait}}) for wait in waits]
    )
    assert outcome.verdict == verdict and outcome.margin == pytest.approx(2 - max(waits))


def test_a_goal_is_of_the_producer_that_keeps_it_worst():
    """One that is blocked all the time among ten is 10 % of their mean."""
    producers = {f"p{n}": {"blocked_share": float(n == 7), "wait_p99": n / 10} for n in range(10)}
    costs = costs_of(producers=producers)
    assert Goal.parse("blocked < 5%").value(costs) == 1.0
    assert Goal.parse("blocked.mean < 5%").value(costs) == pytest.approx(0.1)
    assert Goal.parse("p99 wait < 2s").value(costs) == pytest.approx(0.9)
    assert Goal.parse("p99 wait.mean < 2s").value(costs) == pytest.approx(0.45)
    said = Outcome.of(Goal.parse("blocked < 5%"), [costs, costs]).sentence()
    assert said == "blocked < 5%: missed; 100.0% of p7 in the worst run, 95.0% too much"


def test_one_that_is_blocked_among_idle_ones_misses_the_goal():
    """By hand: nobody reads the queue of the first, so it is blocked from its third message on."""
    busy = Producer("busy", ("", "stuck"), rate=100, capacity=2, size=1, arrival="const")
    idle = [Producer(f"idle{n}", ("", "free"), 1, 5, 1, arrival="const", seed=n) for n in range(9)]
    queues = {"stuck": {"qpid.flow_stop_count": 1}, "free": {}}
    workload = Workload("ten", 10, queues, producers=(busy, *idle))
    costs = meter_run(workload, None).costs(list(queues), [p.name for p in workload.producers])
    assert Goal.parse("blocked < 50%").value(costs) == pytest.approx((10 - 0.04) / 10)
    assert Goal.parse("blocked.mean < 50%").value(costs) == pytest.approx((10 - 0.04) / 100)
    assert costs.blocked_share == pytest.approx((10 - 0.04) / 100)


def test_a_message_that_a_consumer_accepts_is_not_lost_though_a_ring_dropped_it():
    """By hand: of 500 at 1,000 a second, what is served while ten newer ones come is dropped and accepted."""
    ring = {"q": {"qpid.max_count": 10, "qpid.policy_type": "ring"}}
    producers = (Producer("p", ("", "q"), rate=1000, capacity=50, size=1, arrival="const"),)
    consumers = (Consumer("c", "q", prefetch=1, service=("const", 0.02)),)
    run = simulate(Workload("ring", 0.5, ring, producers=producers, consumers=consumers))
    meter = CostMeter(run.workload, run.end)
    meter.take(run.events)
    accepted = {label for event in run.events if event.kind == "delivered" for label in [event.message]}
    (shown,) = meter._queues.measures().values()
    assert shown["discards"] > 500 - len(accepted)
    assert meter.costs(["q"], ["p"]).loss == 500 - len(accepted)


def test_one_message_that_is_lost_is_a_loss():
    assert Outcome.of(Goal.parse("loss 0"), [costs_of(loss=0), costs_of(loss=1)]).verdict == "missed"
    assert Outcome.of(Goal.parse("loss 0"), [costs_of(loss=0)]).verdict == "holds"


def test_events_taken_part_by_part_cost_the_same():
    """Long runs keep none of their events."""
    workload = orders(duration=12)
    whole = meter_run(workload, 10**9).costs(["orders"], ["C1", "C2"])
    assert meter_run(workload, None).costs(["orders"], ["C1", "C2"]) == whole
    run = simulate(workload)
    meter = CostMeter(workload, 12_000_000)
    for start in range(0, len(run.events), 997):
        meter.take(run.events[start : start + 997])
    meter.errors = run.errors
    assert meter.costs(["orders"], ["C1", "C2"]) == whole


# How long a goal is kept, and what is tried before it is missed


def test_what_happens_once_is_judged_over_the_declared_duration():
    """The consumer starts once, in a run stretched to three bursts: it weighs more in the declared 120 s."""
    workload = Workload(
        "late",
        120,
        {"q": {"qpid.max_count": 200}},
        producers=(Producer("p", ("", "q"), 20, 50, 100, burst=(30, 60), arrival="const"),),
        consumers=(Consumer("c", "q", prefetch=5, service=("const", 0.02), start=60),),
    )
    made = recommend(workload, slo="blocked < 90%", keep_capacities=True)
    whole = made.runs[0]
    short = meter_run(made.workload.replace(duration=120), None).costs(["q"], ["p"])
    assert (whole.seconds, short.seconds) == (270, 120)
    # Blocked in the first burst until the consumer comes, and not again.
    assert short.blocked_share > 2 * whole.blocked_share > 0
    assert made.goals[0].values[0] == pytest.approx(short.blocked_share)
    assert "of the worst run" not in made.goals[0].sentence()
    assert ", over the declared 120 s, in the worst run" in made.goals[0].sentence()


def test_a_goal_is_kept_over_all_of_the_declared_duration():
    """More falls due than is served, so that waits grow: 5,000 messages of 7,200 would not show it."""
    workload = Workload(
        "growing",
        180,
        {"q": {"qpid.max_count": 200}},
        producers=(Producer("p", ("", "q"), 40, 50, 100, arrival="const"),),
        consumers=(Consumer("c", "q", prefetch=5, service=("const", 0.0262)),),
    )
    made = recommend(workload, slo="max wait < 60s", keep_capacities=True)
    assert {round(costs.seconds) for costs in made.runs} == {180}
    # By hand: 330 of 7,200 are not served, 200 at most are on the queue, and the rest waits 3.2 s at least.
    assert min(made.goals[0].values) > 3


def test_windows_are_searched_down_to_one_message():
    """By hand: three windows of a tenth of 50 fill a limit of 10; windows of 3 leave room for a stop of 1."""
    producers = tuple(Producer(f"p{n}", ("", "q"), 5, 50, 100, seed=n) for n in range(3))
    consumers = (Consumer("c", "q", prefetch=1, service=("exp", 0.02)),)
    workload = Workload("narrow", 20, {"q": {"qpid.max_count": 10}}, producers=producers, consumers=consumers)
    made = recommend(workload, slo="loss 0")
    assert made.goals[0].verdict == "holds" and not made.verdicts["q"].can_overflow
    assert max(made.capacities.values()) <= 3
    two = workload.replace(queues={"q": {"qpid.max_count": 3}})
    with pytest.raises(DesignError, match="and so do windows of one message each"):
        recommend(two)


def test_a_goal_that_a_near_resume_level_keeps_is_not_missed():
    """By hand: until 30 messages have left, at 10 a second, producers wait for 3 s; near the stop for one."""
    workload = Workload(
        "near",
        80,
        {"q": {"qpid.max_count": 300}},
        producers=(Producer("p", ("", "q"), 25.5, 50, 100, burst=(20, 60), arrival="const"),),
        consumers=(Consumer("c", "q", prefetch=5, service=("const", 0.1)),),
    )
    (outcome,) = (made := recommend(workload, slo="p99 wait < 2.5s")).goals
    assert outcome.verdict in ("holds", "close")
    arguments = made.workload.queues["q"]
    assert arguments["qpid.flow_resume_count"] > 0.95 * arguments["qpid.flow_stop_count"]


# The command


BUSY = {"queues": {"orders": {"qpid.max_count": 400}}, "duration": 4}
BRIEFLY = ["--keep-capacities", "--messages", "600"]


def test_the_command_says_what_each_goal_came_to(tmp_path, capsys):
    goals = ["--slo", "p99 completion < 30s", "--slo", "loss 0", "--slo", "depth < 401"]
    said = output_of(capsys, "design", written(tmp_path, **BUSY), *goals, *BRIEFLY).splitlines()
    assert said[0].startswith("these settings keep all goals (in 10 runs")
    assert re.fullmatch(
        r"  p99 completion < 30s: holds; \S+ s of C[12] in the worst run, margin \S+ s", said[1]
    )
    assert said[2] == "  loss 0: holds; 0 lost"


def test_where_no_setting_keeps_all_goals_a_run_that_breaks_one_is_written(tmp_path, capsys):
    trace = tmp_path / "broken.jsonl.gz"
    words = ["design", written(tmp_path, **BUSY), "--max-count", "150", "--slo", "p99 wait < 1ms"]
    said = output_of(capsys, *words, *BRIEFLY, "--counterexample", str(trace), status=1)
    assert said.startswith("no setting that was tried keeps all goals; these are the nearest")
    assert re.search(r"p99 wait < 1ms: missed; \S+ s of C[12] in the worst run, \S+ s too much", said)
    second = float(re.search(r"a run that breaks a goal at (\S+) s", said)[1])
    assert f"qf.trace_lab({str(trace)!r}, at={second})" in said
    blocked = [
        event.detail["due"] / 1e6 for event in read_trace(trace)[0].events() if event.kind == "client.block"
    ]
    # The first message that waits longer than a millisecond was due then.
    assert min(abs(second - 0.001 - due) for due in blocked) < 1e-6
    assert cli.main(["trace", "why", str(trace), f"{second}s", "producer:C1"]) == 0


def test_json_has_the_goals_with_their_margins():
    made = recommend(orders(**BUSY), keep_capacities=True, message_limit=300, slo="blocked < 90%")
    (goal,) = made.asdict()["goals"]
    assert goal["verdict"] == "holds" and len(goal["values"]) == 10
    assert goal["margin"] == pytest.approx(0.9 - max(goal["values"]))


@pytest.mark.parametrize(
    ("runs", "beginning", "line"),
    [
        (3, "interrupted; the best so far", "qpid-config add queue orders"),
        (0, "interrupted before anything was simulated; by the bound alone", "producer C1: capacity 50"),
    ],
)
def test_ctrl_c_leaves_the_best_so_far(tmp_path, capsys, monkeypatch, runs, beginning, line):
    calls = []

    def interrupted(*given):
        calls.append(given)
        if len(calls) > runs:
            raise KeyboardInterrupt
        return meter_run(*given)

    monkeypatch.setattr(sys.modules["qflow.design.frontier"], "meter_run", interrupted)
    said = output_of(
        capsys, "design", written(tmp_path, **BUSY), "--messages", "100", "--slo", "loss 0", status=130
    )
    assert said.startswith(beginning) and f"\n{line}" in said and "qpid-config add queue orders" in said


def test_consumers_prefetch_no_more_than_keeps_them_busy_where_that_is_better():
    """What a consumer in an outage has prefetched waits with it, though the other could serve it."""
    workload = Workload(
        "hostages",
        30,
        {"q": {"qpid.max_count": 500}},
        producers=(Producer("p", ("", "q"), rate=80, capacity=100, size=10, window="qpid-python"),),
        consumers=tuple(
            Consumer(f"c{n}", "q", prefetch=60, service=("exp", 0.01), outage=(10, 3), seed=n)
            for n in range(2)
        ),
    )
    made = recommend(workload, slo=["p99 wait < 60s"], keep_capacities=True)
    assert made.prefetch in ({"c0": (60, 2), "c1": (60, 2)}, {"c0": (60, 60), "c1": (60, 60)})
    assert {c.name: c.prefetch for c in made.workload.consumers} == {
        n: p[1] for n, p in made.prefetch.items()
    }


# What holds, holds


def drawn(seed):
    """Return a workload with goals, all of it drawn."""
    chance = Random(f"goals {seed}")
    sizes = [200, (log(300), 0.8, 3_000)]
    producers = tuple(
        Producer(
            f"p{n}",
            ("", "q"),
            chance.uniform(10, 40),
            chance.randint(4, 30),
            chance.choice(sizes),
            burst=chance.choice([None, (chance.uniform(0.5, 2), chance.uniform(0.5, 2))]),
            seed=chance.randrange(1000),
        )
        for n in range(chance.randint(1, 2))
    )
    on = [sum(p.burst) / p.burst[0] if p.burst else 1 for p in producers]
    rate = sum(p.rate / share for p, share in zip(producers, on, strict=True))
    count = chance.randint(1, 2)
    consumers = tuple(
        Consumer(
            f"c{n}",
            "q",
            prefetch=chance.choice([2, 20]),
            service=("exp", count / rate * chance.uniform(0.4, 1.1)),
            outage=chance.choice([None, (3, chance.uniform(0.2, 1)), ("exp", 2, 0.3)]),
            seed=chance.randrange(1000),
        )
        for n in range(count)
    )
    limit = chance.choice([{"qpid.max_count": chance.randint(150, 600)}, {"qpid.max_size": 200_000}])
    goals = [
        f"{chance.choice(['p50', 'p99', 'max'])} wait < {chance.uniform(0.05, 2):.2f}s",
        f"{chance.choice(['p50', 'p99'])} completion < {chance.uniform(0.05, 3):.2f}s",
        f"blocked < {chance.uniform(2, 40):.0f}%",
        f"depth < {chance.randint(40, 500)}",
        "loss 0",
    ]
    workload = Workload(f"drawn {seed}", 4, {"q": limit}, producers=producers, consumers=consumers)
    return workload, chance.sample(goals, chance.randint(1, 3))


def what_does_not_hold(seed):
    """Return the goals that are said to hold and do not, in three fresh runs, and how many are said to."""
    workload, slo = drawn(seed)
    try:
        made = recommend(workload, slo=slo)
    except DesignError as refusal:
        assert "no thresholds are safe" in str(refusal)
        return [], 0
    promised = [outcome.goal for outcome in made.goals if outcome.verdict == "holds"]
    most, broken = made.verdicts["q"].never_more_than, []
    for fresh in range(3):
        longer, limit = cover(made.workload.with_seed(1_000 + fresh))
        found = meter_run(longer, limit).costs(["q"], [p.name for p in longer.producers])
        assert not found.errors and (most is None or found.max_depth["q"] <= most)
        broken += [
            f"{seed}: {goal.text}, got {goal.value(found):g}"
            for goal in promised
            if goal.use(goal.value(found)) >= 1
        ]
    return broken, len(promised)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_said_to_hold_holds_in_fresh_runs(seed):
    assert what_does_not_hold(seed)[0] == []


@pytest.mark.thorough
def test_what_is_said_to_hold_holds_for_300_workloads(capsys):
    found = [what_does_not_hold(seed) for seed in range(300)]
    broken = [goals for goals, _ in found if goals]
    said = sum(count for _, count in found)
    with capsys.disabled():
        print(f"\n{len(broken)} of 300 workloads, {len(broken) / 300:.1%}, with a goal that does not hold")
        print(f"{said} goals were said to hold; broken: {broken}")
    assert not broken and said > 200
