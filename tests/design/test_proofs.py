"""No false proof: what is said to be safe never overflows, and what is said to overflow does so in a run.

Random workloads with all that a producer can have, random limits; ``QFLOW_DESIGNS=1000`` asks for so many.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from qflow.broker.events import of_kinds
from qflow.design import DesignError, Limits, judge_workload, recommend
from qflow.design.recommend import recommendation_text
from qflow.workload import Consumer, Producer, Workload, simulate
from qflow.workload.network import Network

DESIGNS = int(os.environ.get("QFLOW_DESIGNS", "60"))
MESSAGES = 600
"""Most that a run sends: limits of what is drawn here are at most some eighty."""


def overflowed(run):
    """The queues that were too full at some time, whatever that led to (LP-15)."""
    found = {
        name
        for name in run.workload.queues
        if any(f" on {name}:" in str(error) and "epth" in str(error) for error in run.errors.values())
    }
    for event in of_kinds(run.events, ("dequeued", "dropped", "queueDelete")):
        detail = event.detail if isinstance(event.detail, dict) else {}
        is_filtered = "qpid.filter" in run.workload.queues.get(event.queue, {})
        if detail.get("reason") in ("ring", "self-destruct") or (event.kind == "dropped" and not is_filtered):
            found.add(event.queue)
    return found


# The three that were proved and died


def one_queue(arguments, **producer):
    made = {"rate": 100, "capacity": 20, "size": 100, **producer}
    return Workload("one", 20, {"q": arguments}, producers=(Producer("p", ("", "q"), **made),))


PRIORITY = one_queue(
    {"qpid.max_size": 5700, "qpid.flow_stop_size": 2860, "qpid.flow_resume_size": 2000},
    priority=4,
    arrival="const",
).replace(consumers=(Consumer("c", "q", prefetch=5, service=("const", 0.001), crash=11.0),))
DRAWN = one_queue({"qpid.max_size": 100_000}, size=(6, 1.5))
FILTERED = one_queue({"qpid.max_count": 30, "qpid.filter": "group = 'g1'"}, groups=(20, 1.0))


def test_the_byte_of_a_priority_is_counted():
    """Each message has one byte more than without."""
    assert overflowed(simulate(PRIORITY)) == {"q"}
    assert not judge_workload(PRIORITY)["q"].is_safe
    made = recommend(PRIORITY, message_limit=None, keep_capacities=True)
    assert made.before["q"].can_overflow is True and "p's session died of 506" in made.before["q"].reasons[1]
    assert made.verdicts["q"].is_safe


def test_of_sizes_that_are_drawn_nothing_is_proved_in_bytes():
    """A log-normal distribution has no largest value; in messages the proof holds."""
    verdict = judge_workload(DRAWN)["q"]
    assert verdict.can_overflow is None and not verdict.is_safe
    assert any(overflowed(simulate(DRAWN.with_seed(seed))) for seed in range(20))
    made = recommend(DRAWN, {"q": Limits(50, 2_000_000)}, message_limit=100)
    text, said = recommendation_text(made, {"p": 20}), made.asdict()["queues"]["q"]
    sentence = (
        "bytes: the sizes of p are drawn and have no largest, so nothing is proved of the limit of 2000000"
    )
    assert sentence in text and "as declared it is not proved safe" in text
    assert said["can_overflow"] is None and said["could_overflow_before"] is None
    assert sentence in said["reasons"] and said["max_depth_proved"] <= 50


def test_a_size_drawn_without_spread_is_as_good_as_a_constant():
    verdict = judge_workload(one_queue({"qpid.max_size": 100_000}, size=(4.0, 0.0), capacity=5))["q"]
    assert verdict.is_safe


def test_a_filter_says_nothing_of_which_queue_is_reached():
    """One group in twenty passes, and that is enough to fill it."""
    busy = FILTERED.with_producer("p", rate=100_000, capacity=200)
    assert overflowed(simulate(busy, message_limit=2000)) == {"q"}
    assert judge_workload(busy)["q"].can_overflow


@pytest.mark.parametrize("group", ["g1", "g20"])
@pytest.mark.parametrize("size", [100, (3.0, 1.0)])
def test_whichever_message_a_filter_lets_in_there_is_an_answer(group, size):
    """The shortest and the longest name once led to KeyError: 'q'."""
    queue = {
        "qpid.max_count": 30,
        "qpid.flow_stop_count": 20,
        "qpid.flow_resume_count": 9,
        "qpid.filter": f"group = '{group}'",
    }
    verdict = judge_workload(one_queue(queue, groups=(20, 1.0), size=size))["q"]
    assert verdict.can_overflow is True


def test_a_filter_that_lets_nothing_in_is_not_said_to_overflow():
    queue = {"qpid.max_count": 30, "qpid.filter": "group = 'other'"}
    assert judge_workload(one_queue(queue, groups=(20, 1.0)))["q"].can_overflow is None


def test_what_a_recommendation_says_is_in_json_and_in_text():
    """How many sessions ended was in one of them only."""
    made = recommend(FILTERED, message_limit=100)
    ranges, text = made.asdict()["ranges"], recommendation_text(made, {"p": 20})
    (line,) = [line for line in text.splitlines() if line.startswith("in 10 runs")]
    for name, word in (("sessions_ended", "sessions ended"), ("accepts", "accepted")):
        least, most = ranges[name]
        assert f"{least} {word}" in line or f"{least} to {most} {word}" in line


# Random workloads


def any_queue(chance):
    """Declare arguments: limits near what the windows come to, thresholds or none, and what else decides."""
    arguments = {"qpid.max_size": 0}
    kind = chance.choice(("count", "size", "both"))
    if kind != "size":
        arguments["qpid.max_count"] = chance.randint(5, 80)
    if kind != "count":
        arguments["qpid.max_size"] = chance.choice((3_000, 9_000, 20_000)) + chance.randint(0, 600)
    for unit in ("count", "size"):
        limit = arguments.get(f"qpid.max_{unit}")
        if limit and chance.random() < 0.8:
            stop = max(1, int(limit * chance.uniform(0.1, 0.95)))
            arguments[f"qpid.flow_stop_{unit}"] = stop
            arguments[f"qpid.flow_resume_{unit}"] = chance.randint(1, stop)
    if chance.random() < 0.2:
        arguments["qpid.policy_type"] = chance.choice(("ring", "self-destruct"))
    extra = chance.random()
    if extra < 0.15:
        arguments["qpid.filter"] = chance.choice(("group = 'g1'", "group <> 'g2'", "group = 'none'"))
    elif extra < 0.25:
        arguments["qpid.last_value_queue_key"] = chance.choice(("group", "label", "absent"))
    elif extra < 0.35:
        arguments["qpid.priorities"] = 5
    elif extra < 0.45:
        arguments |= {"qpid.group_header_key": "group", "qpid.shared_msg_group": 1}
    return arguments


def any_producer(chance, number):
    arrival = chance.choice(("poisson", "const", "recorded"))
    sizes = (chance.randint(0, 300), (4.0, 0.0), (4.0, 1.0))
    is_plain = chance.random() < 0.5
    recorded = ()
    if arrival == "recorded":
        groups = chance.sample(("", "g1", "g2", "g12", "käse"), 2)
        recorded = tuple(
            (n / 2000, chance.choice((40, 200)), chance.choice(groups)) for n in range(chance.randint(0, 300))
        )
    return Producer(
        f"p{number}",
        chance.choice((("", "qa"), ("", "qa"), ("", "qb"), ("amq.fanout", ""), ("amq.topic", "x.y"))),
        rate=chance.choice((200, 3_000, 40_000)),
        capacity=chance.randint(1, 25),
        size=chance.choices(sizes, (4, 1, 1))[0],
        burst=chance.choice((None, (0.02, 0.01))),
        groups=chance.choice((None, (chance.randint(1, 30), chance.choice((0.5, 1.0, 3.0))))),
        seed=chance.randint(0, 999),
        arrival=arrival,
        recorded=recorded,
        model=chance.choice(("open", "closed")) if arrival == "recorded" else "open",
        window="ideal" if is_plain else chance.choice(("qpid-cpp", "qpid-python", "ideal")),
        session="" if is_plain else chance.choice(("", "shared")),
        network=chance.choice((None, Network(latency=0.0005, send_cost=0.0001))) if is_plain else None,
        priority=chance.choice((None, None, 0, 4, "group")),
        obeys_flow=is_plain and chance.random() < 0.2,
    )


def any_consumer(chance, number):
    return Consumer(
        f"c{number}",
        chance.choice(("qa", "qb")),
        prefetch=chance.randint(1, 10),
        service=("exp", chance.choice((0.0005, 0.004))),
        release=chance.choice((0.0, 0.2)),
        reject=chance.choice((0.0, 0.2)),
        crash=chance.choice((None, 0.05)),
        seed=number,
    )


def any_workload(seed):
    chance = Random(seed)
    return Workload(
        f"drawn-{seed}",
        0.25,
        {"qa": any_queue(chance), "qb": any_queue(chance)},
        binds=(("amq.fanout", "qa", ""), ("amq.fanout", "qb", ""), ("amq.topic", "qb", "x.#")),
        producers=tuple(any_producer(chance, number) for number in range(chance.randint(1, 3))),
        consumers=tuple(any_consumer(chance, number) for number in range(chance.randint(0, 2))),
    )


def courses(workload, chance):
    """Run a workload: as it is, with other chances, readers and speeds, and so that each queue is filled.

    With each run comes which queue it is to fill.
    """
    seeded = workload.with_seed(chance.randint(1, 9_999))
    hasty = seeded.replace(
        producers=tuple(replace(p, rate=500_000) for p in seeded.producers),
        consumers=tuple(replace(c, crash=0.01) for c in seeded.consumers),
    )
    for course in (workload, seeded, seeded.replace(consumers=()), hasty):
        yield "", simulate(course, message_limit=MESSAGES)
    for queue in workload.queues:
        for course in forced(workload, queue):
            yield queue, simulate(course)


def forced(workload, queue):
    """Runs that fill a queue: nobody reads it, one producer sends slowly, then each of the others.

    Any client is free to do so: windows, groups, sizes and properties of the messages are as they were.
    """
    senders = workload.producers
    arguments = workload.queues[queue]
    # With header and properties no message has fewer than 40 bytes; a filter may let one group in.
    enough = max(150, arguments["qpid.max_size"] // 40)
    for leader in range(len(senders)):
        place, made = 0, {}
        for number in (leader, *(n for n in range(len(senders)) if n != leader)):
            sender = senders[number]
            kinds = kinds_of(sender)
            several = len({group for _, group in kinds}) if "qpid.filter" in arguments else 1
            count = (enough if number == leader else 60) * several
            times = [(place + n + 1) / 50 for n in range(count)]
            made[number] = tuple((time, *kinds[n % len(kinds)]) for n, time in enumerate(times))
            place += count
        producers = tuple(
            replace(one, arrival="recorded", model="open", recorded=made[n]) for n, one in enumerate(senders)
        )
        others = {consumer.queue for consumer in workload.consumers} - {queue}
        readers = tuple(Consumer(f"r {name}", name, 1000, ("const", 1e-6)) for name in others)
        yield workload.replace(duration=place / 50 + 1, producers=producers, consumers=readers)


def kinds_of(producer):
    """Messages that a producer may send, as sizes and groups, each group as often as any."""
    if producer.arrival == "recorded":
        return sorted({(size, group) for _, size, group in producer.recorded}) or [(0, "")]
    size = producer.size if isinstance(producer.size, int) else int(2.718281828 ** producer.size[0])
    return [(size, f"g{n}") for n in range(1, producer.groups[0] + 1)] if producer.groups else [(size, "")]


def check(seed):
    """Judge one random workload and try to refute it; return the verdicts."""
    workload, chance = any_workload(seed), Random(seed)
    verdicts = judge_workload(workload)
    safe = {name for name, verdict in verdicts.items() if verdict.is_safe}
    bounds = {name: verdict.never_more_than for name, verdict in verdicts.items()}
    filled = set()
    for queue, run in courses(workload, chance):
        full = overflowed(run)
        filled |= full & {queue}
        assert not full & safe, (seed, run.workload)
        for event in of_kinds(run.events, ("enqueued",)):
            bound = bounds[event.queue]
            assert bound is None or event.detail["depth"] <= bound, (seed, run.workload)
    for name, verdict in verdicts.items():
        assert name in filled or not verdict.can_overflow, (seed, name, verdict.reasons)
    return [
        {True: "overflow", False: "safe", None: "none"}[verdict.can_overflow] for verdict in verdicts.values()
    ]


@pytest.mark.parametrize("first", range(0, DESIGNS, 20))
def test_no_random_design_is_refuted(first):
    """CAP-11: said safe, no run overflows it; said to overflow, a run does; no bound breaks."""
    said = Counter(answer for seed in range(first, min(first + 20, DESIGNS)) for answer in check(seed))
    print(dict(said))
    assert len(said) == 3, "all three answers occur"


@pytest.mark.parametrize("first", range(0, max(10, DESIGNS // 10), 10))
def test_no_random_recommendation_is_refuted(first):
    """What is recommended is safe in other runs too; where nothing is proved in bytes, that is said."""
    for seed in range(first, first + 10):
        try:
            made = recommend(any_workload(10_000 + seed), message_limit=60)
        except DesignError as refusal:
            assert "no thresholds are safe" in str(refusal) or "nothing to design" in str(refusal)
            continue
        safe = {name for name, verdict in made.verdicts.items() if verdict.is_safe}
        for name in set(made.chosen) - safe:
            assert "are drawn and have no largest" in made.verdicts[name].reasons[0]
        for _, run in courses(made.workload, Random(seed)):
            assert not overflowed(run) & safe, (seed, run.workload)
