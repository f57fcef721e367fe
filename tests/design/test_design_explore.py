"""The explorer: every state of small configurations, by the engine, against the bounds."""

from __future__ import annotations

import random
from itertools import product

import pytest

from qflow.broker.flow_limit import FlowThresholds
from qflow.design import (
    MARKS,
    DesignError,
    SmallConfiguration,
    TrafficSource,
    explore,
    judge,
    maximum_depth,
    positions,
)
from qflow.design.explore import Situation

of = SmallConfiguration.of


def bound(stop, capacities, resume=None):
    thresholds = FlowThresholds(stop, resume or stop, 0, 0)
    return thresholds, {f"C{n}": TrafficSource(capacity) for n, capacity in enumerate(capacities)}


def situation(states, node):
    """An engine with its clients in a state, after the actions that lead there."""
    found = Situation(states.configuration)
    for action in states.path_to(node):
        found.perform(action)
    return found


def ends(states):
    """The states in which nothing can happen any more."""
    return [node for node in states.graph if not states.graph.out_degree(node)]


# The law, discovered and proved


def test_the_greatest_depth_is_stop_and_all_capacities():
    """CAP-11: in small configurations, however fast consumers are; attained in each."""
    stops, windows = (1, 2, 4), ((1,), (3,), (2, 1), (1, 1, 1), (3, 2))
    for stop, capacities in product(stops, windows):
        for resume in {1, stop}:
            states = explore(of(stop, capacities, resume=resume))
            assert states.maximum_depth == stop + sum(capacities)
            assert states.maximum_depth == maximum_depth(*bound(stop, capacities)).count


def test_165_is_the_greatest_depth_of_the_example():
    """CAP-08, X-21: reached without a consumer from every interleaving; never exceeded with one."""
    stalled = explore(of(stop=100, capacities=(50, 15), is_consumed=False))
    assert stalled.maximum_depth == 165
    assert [stalled.label(node) for node in ends(stalled)] == ["depth 165 ON · C1 50/50 · C2 15/15"]
    # One producer with a window of 65 can do all that both can: 165 is a bound for them too.
    states = explore(of(stop=100, capacities=(65,)))
    assert states.maximum_depth == 165
    assert 1_000 < len(states.graph) < 5_000


# Marks


@pytest.mark.parametrize("limit", [3, 4, 5, 6, 7])
def test_a_queue_overflows_just_if_its_limit_is_below_the_bound(limit):
    """CAP-11: judged by the bound, confirmed by visiting every state."""
    states = explore(of(stop=3, capacities=(2, 1), resume=2, limit=limit))
    verdict = judge("q", states.configuration.arguments, {"C1": TrafficSource(2), "C2": TrafficSource(1)})
    assert bool(states.marks["overflow"]) is verdict.can_overflow is (limit < 6)
    assert states.maximum_depth == min(limit, 6)


def test_an_overflow_kills_the_session_of_the_producer():
    states = explore(of(stop=1, capacities=(3,), limit=2, is_consumed=False))
    (end,) = ends(states)
    assert states.path_to(end) == ["C1 sends"] * 3
    assert states.graph.nodes[end]["dead"] == ("C1",)
    assert situation(states, end).broker.sessions["C1"].error.code == 506
    assert states.label(end) == "depth 2 ON · C1 died"


def test_marks_say_what_the_engine_says():
    states = explore(of(stop=2, capacities=(2, 1), resume=1))
    for node, facts in states.graph.nodes(data=True):
        broker = situation(states, node).broker
        statistics = broker.queue("q").statistics()
        assert facts["depth"] == statistics.msgDepth == states.depths()[node]
        assert ("on" in facts["marks"]) is statistics.flowStopped
        held = {name: len(broker.sessions[name].held) for name in ("C1", "C2")}
        assert facts["held"] == facts["outstanding"] == held
        assert facts["blocked"] == tuple(name for name, most in (("C1", 2), ("C2", 1)) if held[name] == most)
        assert ("stalled" in facts["marks"]) is (len(facts["blocked"]) == 2)
    assert set(states.marks) == set(MARKS)


# The graph


CONFIGURATIONS = {
    "one queue": of(3, (2, 1), resume=2),
    "limit": of(2, (2, 1), limit=4),
    "nobody reads": of(2, (2, 1), is_consumed=False),
    "ring": SmallConfiguration({"qpid.max_count": 3, "qpid.policy_type": "ring"}, {"C1": 2}),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_states_that_are_taken_for_one_have_the_same_future(name):
    """Long random walks of the engine never leave the graph, and do in it what its edges say."""
    states = explore(CONFIGURATIONS[name])
    ways = {
        node: {
            action: other
            for _, other, way in states.graph.out_edges(node, data=True)
            for action in way["actions"]
        }
        for node in states.graph
    }
    for seed in range(5):
        chance, node, situation = random.Random(seed), 0, Situation(states.configuration)
        for _ in range(300):
            assert set(situation.actions()) == set(ways[node])
            facts = situation.facts()
            assert {key: states.graph.nodes[node][key] for key in facts} == facts
            if not ways[node]:
                break
            action = chance.choice(sorted(ways[node]))
            situation.perform(action)
            node = ways[node][action]


def test_paths_are_shortest_and_lead_where_they_say():
    import networkx

    states = explore(of(2, (2, 1), resume=1))
    lengths = networkx.single_source_shortest_path_length(states.graph, 0)
    for node in states.graph:
        path = states.path_to(node)
        assert len(path) == lengths[node] == states.graph.nodes[node]["distance"]
        assert situation(states, node).facts()["depth"] == states.graph.nodes[node]["depth"]
    assert list(states.graph) == list(range(len(states.graph)))


def test_the_same_configuration_gives_the_same_graph():
    one, other = explore(of(3, (2, 2))), explore(of(3, (2, 2)))
    assert list(one.graph.nodes(data=True)) == list(other.graph.nodes(data=True))
    assert list(one.graph.edges(data=True)) == list(other.graph.edges(data=True))


def test_no_two_states_are_drawn_in_one_place():
    states = explore(of(3, (2, 2)))
    places = positions(states)
    assert set(places) == set(states.graph)
    assert len(set(places.values())) == len(places)
    assert all(y == 0 for node, (x, y) in places.items() if not states.graph.nodes[node]["on"])


# What is refused


def test_more_states_than_the_limit_end_in_one_sentence():
    endless = SmallConfiguration({}, {"C1": 1})
    with pytest.raises(DesignError, match="more than 50 states: the last one has depth 5"):
        explore(endless, state_limit=50)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: of(1, (0,)), "capacity of C1 must be a whole number from 1, got 0"),
        (lambda: explore(of(1, (1,)), state_limit=0), "state_limit must be"),
        (lambda: explore(of(5, (1,), limit=3)), "qpid.flow_stop_count=5 must be less than qpid.max_count=3"),
        (lambda: explore(of(1, (1,))).path_to(99), "node must be a number from 0 to"),
        (
            lambda: SmallConfiguration({"qpid.policy_type": "self-destruct"}, {"C1": 1}),
            "the policy must be one that keeps the queue, got 'self-destruct'",
        ),
    ],
)  # fmt: skip
def test_what_makes_no_sense_ends_in_one_sentence(make, sentence):
    with pytest.raises(DesignError) as refusal:
        make()
    assert sentence in str(refusal.value)
