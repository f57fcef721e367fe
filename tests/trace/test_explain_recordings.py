"""What explanations say is what the real broker showed: every answer is laid beside a recording."""

from __future__ import annotations

import pytest

from qflow.conformance.scenario import load_scenarios, unpack
from qflow.conformance.scenario_player import Player
from qflow.kit import kit_path
from qflow.trace.explain import explain
from qflow.trace.replaying import record
from qflow.trace.timeline import Timeline

FILES = ("hand", "random-flow-fanout", "random-groups-flow", "random-lvq", "random-tx")
EVERY = 12
"""One scenario in so many: all of them take a minute, and agree too."""


def scenarios():
    folder = kit_path("data") / "recordings" / "scenarios"
    found = []
    for name in FILES:
        found += list(load_scenarios(folder / f"{name}.jsonl"))[::EVERY]
    return found


def played(scenario):
    """Return the scenario's trace, and where in it each step ends."""
    player = Player(scenario.broker)
    trace = record(player.broker)
    player.broker.observe(lambda event: (trace.append(event), player._take(event)))
    ends = []
    for step in scenario.steps:
        player.play(step)
        ends.append(len(trace) - 1)
    return trace, ends


@pytest.mark.parametrize("scenario", scenarios(), ids=lambda scenario: scenario.id)
def test_answers_agree_with_what_was_recorded(scenario):
    trace, ends = played(scenario)
    timeline = Timeline(trace)
    previous, compared = -1, 0
    for end, step in zip(ends, scenario.steps, strict=True):
        if end > previous:
            compared += assert_queues_agree(timeline, end, step["expect"].get("queues", {}))
            compared += assert_held_agree(timeline, end, step["expect"].get("held", {}))
            compared += assert_groups_agree(timeline, end, step["expect"].get("groups", {}))
        previous = end
    assert compared > 0, "this scenario's recording says nothing to compare with"


def assert_queues_agree(timeline, seq, queues):
    """Return for how many queues the answer was laid beside the recorded state."""
    compared = 0
    for name, expected in queues.items():
        if expected is None and name not in timeline.index.names("queue", ("queueDeclare", "queue.declare")):
            # Management was refused it; then no row has its name.
            continue
        compared += 1
        answer = explain(timeline, seq, f"queue:{name}").answer
        if expected is None:
            assert "has been gone since" in answer or "does not exist" in answer
        elif expected.get("flow"):
            assert f"{name} has been ON since" in answer
        else:
            assert "has been ON since" not in answer
            assert "OFF" in answer or "no flow control" in answer
    return compared


def assert_held_agree(timeline, seq, held):
    """Return for how many held transfers there was an answer, of each session's first three."""
    compared = 0
    for labels in held.values():
        for label in unpack(labels)[:3]:
            if timeline.index.of_message(label):
                compared += 1
                answer = explain(timeline, seq, f"transfer:{label}").answer
                assert answer.startswith(f"Transfer {label} is not complete: it is held by ")
    return compared


def assert_groups_agree(timeline, seq, queues):
    """Return for how many groups the answer names the recorded owner."""
    compared = 0
    for queue, groups in queues.items():
        for group, (_, owner) in groups.items():
            several = sum(name == group for _, name in timeline.index.groups) > 1
            subject = f"group:{queue}/{group}" if several else f"group:{group}"
            compared += 1
            answer = explain(timeline, seq, subject).answer
            if owner:
                session, _, tag = owner.partition("/")
                name = session if tag in ("", session) else owner
                assert answer.startswith(f"Group {group} of {queue} has belonged to {name} since ")
            else:
                assert answer.startswith(f"Group {group} of {queue} has no owner")
    return compared
