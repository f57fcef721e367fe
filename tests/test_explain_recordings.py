"""What explanations say is what the real broker showed: every answer is laid beside a recording."""

from __future__ import annotations

import pytest

from qflow.conformance.labels import unpack
from qflow.conformance.player import Player
from qflow.conformance.scenario import load_scenarios
from qflow.kit import kit_path
from qflow.trace.explain import explain
from qflow.trace.record import record
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
    previous = -1
    for end, step in zip(ends, scenario.steps, strict=True):
        if end > previous:
            check_queues(timeline, end, step["expect"].get("queues", {}))
            check_held(timeline, end, step["expect"].get("held", {}))
            check_groups(timeline, end, step["expect"].get("groups", {}))
        previous = end


def check_queues(timeline, seq, queues):
    for name, expected in queues.items():
        if expected is None and name not in timeline.index.names("queue", ("queueDeclare", "queue.declare")):
            # Management was refused it; then no row has its name.
            continue
        answer = explain(timeline, seq, f"queue:{name}").answer
        if expected is None:
            assert "has been gone since" in answer or "does not exist" in answer
        elif expected.get("flow"):
            assert f"{name} has been ON since" in answer
        else:
            assert "OFF" in answer or "no flow control" in answer


def check_held(timeline, seq, held):
    for labels in held.values():
        for label in unpack(labels)[:3]:
            if timeline.index.of_message(label):
                answer = explain(timeline, seq, f"transfer:{label}").answer
                assert answer.startswith(f"Transfer {label} is not complete: it is held by ")


def check_groups(timeline, seq, queues):
    for queue, groups in queues.items():
        for group, (_, owner) in groups.items():
            several = sum(name == group for _, name in timeline.index.groups) > 1
            subject = f"group:{queue}/{group}" if several else f"group:{group}"
            answer = explain(timeline, seq, subject).answer
            if owner:
                session, _, tag = owner.partition("/")
                name = session if tag in ("", session) else owner
                assert answer.startswith(f"Group {group} of {queue} has belonged to {name} since ")
            else:
                assert answer.startswith(f"Group {group} of {queue} belongs to nobody")
