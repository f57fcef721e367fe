"""Bounds: never exceeded, attained where claimed, and what they say of a workload."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qflow.broker import BrokerOptions
from qflow.broker.flow_limit import FlowThresholds
from qflow.design import (
    DesignError,
    TrafficSource,
    judge,
    maximum_depth,
    stays_on,
    traffic_of,
)
from qflow.workload import Consumer, Producer, Workload, simulate

SECONDS = 0.25
"""For so long clients send: the fast ones reach the bound in a hundredth of it, and all sizes are drawn."""


def thresholds(stop_count=0, resume_count=0, stop_size=0, resume_size=0):
    return FlowThresholds(stop_count, resume_count or stop_count, stop_size, resume_size or stop_size)


def stall_range(thresholds, traffic, window="ideal"):
    """Return the least and the greatest depth, in messages, of a queue without a consumer in the end.

    For a queue that stops by count, and whose producers send to no other.

    Proof.  Nothing leaves the queue, so when the last producer blocks it holds the ``stop`` messages that
    were not held and all that came later, which are held.  A producer blocks only for a
    transfer that is not complete, and only this queue withholds completions, so each has at least one
    held transfer there: depth ≥ stop + number of producers.  The upper bound is :func:`maximum_depth`; with
    the ideal window both are the same, as a full window is full of held transfers.
    """
    stop, most = thresholds.stop_count, sum(sender.capacity for sender in traffic.values())
    return stop + (most if window == "ideal" else len(traffic)), stop + most


# Stalls


@settings(max_examples=30)
@given(
    st.integers(1, 40),
    st.lists(st.integers(1, 12), min_size=1, max_size=4),
    st.sampled_from(["ideal", "qpid-cpp", "qpid-python"]),
    st.sampled_from([500, 5_000, 50_000]),
    st.integers(0, 99),
)
def test_a_queue_that_nobody_reads_stalls_within_its_range(stop, capacities, window, rate, seed):
    """CAP-08: stop + number of senders to stop + Σ capacity; exactly the latter with the ideal window."""
    made = tuple(
        Producer(f"p{n}", ("", "q"), rate, capacity, 100, window=window, seed=seed + n)
        for n, capacity in enumerate(capacities)
    )
    workload = Workload("stall", SECONDS, {"q": {"qpid.flow_stop_count": stop}}, producers=made)
    depth = simulate(workload).events.column("kind").count("enqueued")
    least, most = stall_range(thresholds(stop), traffic_of(workload)["q"], window)
    assert least <= depth <= most
    assert window != "ideal" or least == most


# C1 and C2


SEND_TIME = 20
"""Microseconds between two sends: ten of them fit into one answer of the broker, as with real clients."""


def stalls_over_phases(stop, capacities, phases, window):
    """Phase to the depth at which neither of two producers can send any more."""
    runs = {phase: simulate(phase_workload(stop, capacities, phase, window)) for phase in phases}
    return {phase: run.events.column("kind").count("enqueued") for phase, run in runs.items()}


def phase_workload(stop, capacities, phase, window="qpid-cpp"):
    """Two producers that send as fast as they can, the second that many sends later than the first."""
    starts = (max(0, -phase) * SEND_TIME, max(0, phase) * SEND_TIME)
    count = stop + sum(capacities) + 1
    producers = tuple(
        Producer(
            f"C{number}",
            ("", "q"),
            rate=1_000_000 / SEND_TIME,
            capacity=capacity,
            size=100,
            arrival="recorded",
            recorded=tuple(((start + n * SEND_TIME) / 1_000_000, 100, "") for n in range(count)),
            window=window,
        )
        for number, (capacity, start) in enumerate(zip(capacities, starts, strict=True), 1)
    )
    arguments = {"qpid.flow_stop_count": stop, "qpid.flow_resume_count": stop}
    return Workload("phases", 1, {"q": arguments}, producers=producers)


@pytest.mark.parametrize(
    ("window", "phases", "stalls"),
    [
        # A list without what is complete is full of what is held.
        ("ideal", range(-100, 101, 20), {165}),
        # C1 begins, C2 follows; 145 is what was seen once, 115 to 165 over many runs.
        ("qpid-cpp", range(110), {115, 130, 145, 160, 165}),
        # 102 to 165 are allowed: 115 is no bound, but what C1 ahead of C2 leads to.
        ("qpid-cpp", range(-109, 0), {110, 125, 140, 155, 160}),
    ],
)
def test_where_two_senders_stall_depends_on_their_windows_and_on_who_begins(window, phases, stalls):
    """CAP-02, CAP-08: over the phases between the manual's two clients."""
    assert set(stalls_over_phases(100, (50, 15), phases, window).values()) == stalls


def test_what_is_complete_and_not_looked_at_is_missing_from_the_stall():
    """CAP-02: stop + Σ (capacity − what it had sent when the queue turned ON, modulo capacity)."""
    for phase in range(-60, 100, 7):
        run = simulate(phase_workload(100, (50, 15), phase))
        kinds = [event.kind for event in run.events if event.kind in ("enqueued", "flow_stopped")]
        senders = [event.message[:2] for event in run.events if event.kind == "enqueued"]
        assert kinds.index("flow_stopped") == 101
        first = senders[:100].count("C1")
        assert len(senders) == 165 - first % 50 - (100 - first) % 15


# Once ON


@pytest.mark.parametrize("capacities", [(6,), (4, 2), (1, 2, 3)])
@pytest.mark.parametrize("resume", [1, 4, 5, 6, 7, 10])
def test_a_queue_stays_on_just_if_its_resume_is_below_the_windows(resume, capacities):
    """Each message taken off is followed by another that is held."""
    made = tuple(
        Producer(f"p{n}", ("", "q"), 20_000, capacity, 100, arrival="const")
        for n, capacity in enumerate(capacities)
    )
    queue = {"qpid.flow_stop_count": 10, "qpid.flow_resume_count": resume}
    reader = Consumer("c", "q", prefetch=3, service=("const", 0.002))
    workload = Workload("busy", 1, {"q": queue}, producers=made, consumers=(reader,))
    run = simulate(workload, message_limit=200)
    stops = sum(event.kind == "flow_stopped" for event in run.events)
    assert (stops == 1) is stays_on(thresholds(10, resume), traffic_of(workload)["q"])


# What bounds say


def test_each_unit_is_bounded_by_its_own_stop_or_by_the_other():
    clients = {
        "p": TrafficSource(5, largest=200, smallest=50),
        "r": TrafficSource(2, largest=100, smallest=100),
    }
    count = maximum_depth(thresholds(10), clients)
    assert (count.count, count.size) == (17, 3200)
    size = maximum_depth(thresholds(stop_size=1000), clients)
    assert (size.count, size.size) == (27, 2200)
    both = maximum_depth(thresholds(10, stop_size=1000), clients)
    assert (both.count, both.size) == (17, 2200)
    unsized = maximum_depth(thresholds(stop_size=1000), {"p": TrafficSource(5, largest=200, smallest=0)})
    assert (unsized.count, unsized.size) == (None, 2000)


STOP_100 = {"qpid.flow_stop_count": 100, "qpid.flow_resume_count": 50}


@pytest.mark.parametrize(
    ("arguments", "can_overflow", "words"),
    [
        ({**STOP_100, "qpid.max_count": 165}, False, "= 165, which is within"),
        ({**STOP_100, "qpid.max_count": 164}, True, "above the limit of 164 by 1"),
        ({"qpid.max_count": 500, "qpid.policy_type": "ring"}, True, "nothing stops"),
        ({"qpid.max_count": 500, "qpid.flow_stop_count": 0, "qpid.flow_stop_size": 0}, True, "nothing stops"),
        ({"qpid.flow_stop_count": 100}, False, "within the limit of 104857600"),
        ({"qpid.max_size": 0}, False, ""),
        ({"qpid.max_count": 500, "qpid.flow_stop_count": 0, "qpid.flow_stop_size": 5000,
          "qpid.flow_resume_size": 0}, False, "by the other unit's stop"),
    ],
)  # fmt: skip
def test_whether_a_queue_can_overflow_and_why(arguments, can_overflow, words):
    clients = {"C1": TrafficSource(50, 140, 140), "C2": TrafficSource(15, 140, 140)}
    verdict = judge("q", arguments, clients)
    assert verdict.can_overflow is can_overflow
    assert words in " ".join(verdict.reasons)


def test_arguments_that_the_broker_refuses_are_refused_in_its_words():
    with pytest.raises(DesignError, match="qpid.flow_resume_count=70 must be less or equal"):
        judge("q", {"qpid.max_count": 100, "qpid.flow_stop_count": 5}, {"C1": TrafficSource(1)})


def test_nothing_is_said_of_the_alternatives_of_flow_control():
    with pytest.raises(DesignError, match="as shipped; this queue has 'watermark'"):
        judge("q", {"qpid.max_count": 9}, {"C1": TrafficSource(1)}, BrokerOptions(flow_control="watermark"))


def test_traffic_follows_bindings_and_counts_as_the_broker_does():
    """DQ-05, DQ-09, EX: who reaches what, and how large it is there."""
    made = Workload(
        "fan",
        1,
        {"a": {"qpid.max_count": 1}, "b": {}},
        binds=(("amq.topic", "a", "x.#"), ("amq.topic", "b", "x.y")),
        producers=(
            Producer("both", ("amq.topic", "x.y"), 1, 3, 100),
            Producer("one", ("amq.topic", "x.z"), 1, 4, 100),
            Producer("none", ("amq.topic", "other"), 1, 5, 100),
        ),
    )
    traffic = traffic_of(made)
    assert {
        name: {who: sender.capacity for who, sender in found.items()} for name, found in traffic.items()
    } == {
        "a": {"both": 3, "one": 4},
        "b": {"both": 3},
    }
    bare = traffic_of(made.replace(options=BrokerOptions(message_size="content")))
    assert (bare["a"]["one"].largest, bare["a"]["one"].smallest) == (100, 100)
    assert traffic["a"]["one"].largest > 100
