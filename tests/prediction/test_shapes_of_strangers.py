"""Predictions from logs of other shapes, within the range of 20 seeds of an independent simulator.

The laws are as strangers have them: bursts, late starts, shared groups, several queues, limits in bytes, an
end while ON; of some the log has no ``block`` rows.
"""

from dataclasses import dataclass
from random import Random

import pytest
from foreign_logs import NAMES, says_censored
from foreign_simulator import US, Run
from foreign_workloads import Client, Queue, Setup, changed, users_files, users_workload

from qflow.logs import ClientLog
from qflow.prediction import Settings, predict
from qflow.workload import Workload

SEEDS = 20
SETTINGS = {
    "recorded": {},
    "twice": {"thresholds": 2.0},
    "half": {"thresholds": 0.5},
    "window": {"windows": 0.5},
}


@dataclass(frozen=True)
class Sender:
    """Rate in messages a second from a start, in bursts of seconds ON and OFF."""

    queues: tuple[str, ...]
    window: int
    rate: float
    start: float = 0.0
    burst: tuple[float, float] = (1.0, 0.0)
    groups: int = 0
    sizes: tuple[int, int] = (100, 100)


@dataclass(frozen=True)
class Reader:
    queue: str
    mean: float
    prefetch: int = 5
    start: float = 0.0


@dataclass(frozen=True)
class Law:
    seconds: int
    queues: list[Queue]
    senders: list[Sender]
    readers: list[Reader]
    blocks: bool = True


JOBS, TWO = ("jobs",), ("a", "b")
LAWS = {
    "bursts": Law(
        30, [Queue("jobs", 30, 15)], [Sender(JOBS, 25, 90, burst=(2, 4))], [Reader("jobs", 0.022)], False
    ),
    "late sender": Law(
        25,
        [Queue("jobs", 20, 10)],
        [Sender(JOBS, 20, 45, start=5), Sender(JOBS, 10, 5)],
        [Reader("jobs", 0.02)],
        False,
    ),
    "late reader": Law(25, [Queue("jobs", 100, 70)], [Sender(JOBS, 40, 30)], [Reader("jobs", 0.02, start=4)]),
    "groups": Law(
        25,
        [Queue("jobs", 20, 12, is_grouped=True)],
        [Sender(JOBS, 20, 45, groups=6)],
        [Reader("jobs", 0.05), Reader("jobs", 0.05, 3), Reader("jobs", 0.06, 1)],
    ),
    "two producers": Law(
        30,
        [Queue("jobs", 25, 15)],
        [Sender(JOBS, 20, 25), Sender(JOBS, 5, 8)],
        [Reader("jobs", 0.028, 10)],
        False,
    ),
    "end while ON": Law(
        22,
        [Queue("jobs", 25, 15)],
        [Sender(JOBS, 10, 30), Sender(JOBS, 20, 60, start=18)],
        [Reader("jobs", 0.028)],
    ),
    "bytes": Law(
        25,
        [Queue("jobs", stop_bytes=60_000, resume_bytes=40_000)],
        [Sender(JOBS, 30, 50, sizes=(500, 4000))],
        [Reader("jobs", 0.03, 10)],
        False,
    ),
    "fanout": Law(
        20,
        [Queue("a", 30, 20), Queue("b", 15, 10)],
        [Sender(TWO, 15, 60), Sender(("a",), 15, 10)],
        [Reader("a", 0.01), Reader("b", 0.03)],
    ),
    "one of two queues": Law(
        25,
        [Queue("a", 20, 10), Queue("b", 40, 30)],
        [Sender(("a",), 10, 60), Sender(("b",), 30, 20)],
        [Reader("a", 0.025), Reader("b", 0.02)],
    ),
    "wide window": Law(
        25,
        [Queue("jobs", 10, 6)],
        [Sender(JOBS, 100, 55)],
        [Reader("jobs", 0.03, 2), Reader("jobs", 0.04, 2)],
        False,
    ),
}


def setup_of(name, seed):
    """Return one draw of a law; ways from and to the broker are the law's own."""
    law = LAWS[name]
    producers = []
    for place, sender in enumerate(law.senders):
        chance, time, messages = Random(f"{name} {place} {seed}"), 0.0, []
        on, off = sender.burst
        while True:
            time += chance.expovariate(sender.rate)
            due = sender.start + time // on * (on + off) + time % on
            if due >= law.seconds:
                break
            group = f"g{min(sender.groups - 1, int(chance.expovariate(0.7)))}" if sender.groups else ""
            messages.append((max(1, round(due * US)), chance.randint(*sender.sizes), group))
        producers.append(
            Client(f"app-{place}", sender.queues, sender.window, messages, delay=100 + 70 * place)
        )
    consumers = []
    for place, reader in enumerate(law.readers):
        chance, many = Random(f"{name} reader {place} {seed}"), int(2 * law.seconds / reader.mean)
        services = [max(1, round(chance.expovariate(1 / reader.mean) * US)) for _ in range(many)]
        start, delay = round(reader.start * US), 300 - 80 * place
        consumers.append(
            Client(f"reader-{place}", (reader.queue,), reader.prefetch, [], services, start, delay)
        )
    return Setup(law.seconds * US, law.queues, producers, consumers)


def measures(setup):
    """Return each measure that a prediction has, by section, name and measure."""
    run, found = Run(setup), {}
    for queue in setup.queues:
        own = run.queue(queue.name)
        for measure in ("max_depth", "mean_depth", "share_on", "flowStoppedCount", "throughput"):
            found["queues", queue.name, measure] = own[measure]
    for producer in setup.producers:
        own = run.producer(producer.name)
        for measure in ("blocked_share", "throughput"):
            found["producers", producer.name, measure] = own[measure]
    return found


def judge(name, setting, folder):
    """Return the values outside of the law's range, the number judged, and whether a bound is stated."""
    how, setup = SETTINGS[setting], setup_of(name, 0)
    file, log, run = users_files(setup, folder, guess=1.3, blocks=LAWS[name].blocks)
    workload = Workload.load(file)
    other = Workload.from_json(users_workload(changed(setup, **how)))
    settings = Settings.of(other, workload) if how else None
    report = predict(workload, ClientLog.load(log), settings, replays=5)
    was_blocked = any(run.producer(producer.name)["blocked_share"] for producer in setup.producers)
    assert was_blocked or not says_censored(report)
    if report["is_bound"]:
        assert says_censored(report)
        if setting in ("twice", "window"):
            return [], 0
    drawn = [measures(changed(setup_of(name, seed), **how)) for seed in range(SEEDS + 1)]
    wrong = []
    for place in drawn[0]:
        section, client, measure = place
        value = report[section][client]["predicted"][NAMES.get(measure, measure)]
        least, most = min(one[place] for one in drawn), max(one[place] for one in drawn)
        # Five replays have a rough middle: a tenth of the range beyond its ends.
        slack = 0.1 * (most - least) + 1e-3 * max(1, most)
        if not least - slack <= value <= most + slack:
            wrong.append((name, setting, *place, value, least, most))
    return wrong, len(drawn[0])


@pytest.mark.parametrize("name", ["bursts", "late sender", "groups"])
def test_the_recorded_settings_of_a_shape_are_predicted(name, tmp_path):
    wrong, _ = judge(name, "recorded", tmp_path)
    assert wrong == []


@pytest.mark.thorough
def test_shapes_of_strangers_are_predicted_under_other_settings(tmp_path):
    found = [judge(name, setting, tmp_path) for name in LAWS for setting in SETTINGS]
    wrong = [one for values, _ in found for one in values]
    assert len(wrong) <= 0.05 * sum(number for _, number in found), wrong


def test_consumers_get_the_groups_that_they_had(tmp_path):
    """With a credit that comes in another order, one of three consumers had the groups of all."""
    setup = setup_of("groups", 0)
    file, log, run = users_files(setup, tmp_path)
    report = predict(Workload.load(file), ClientLog.load(log), replays=1)
    assert not report["queues"]["jobs"]["misfit"]
    for consumer in setup.consumers:
        had = run.clients[consumer.name].accepts / LAWS["groups"].seconds
        throughput = report["consumers"][consumer.name]["predicted"]["throughput"]
        assert throughput == pytest.approx(had, rel=0.15)
