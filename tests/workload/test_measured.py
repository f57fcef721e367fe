"""A run that is only measured: the same as one with all its events."""

import pytest

from qflow.labs.experiments import capacity_workload, fanout_workload, flow_workload
from qflow.workload import Consumer, Producer, Workload, simulate
from qflow.workload.agenda import SECOND
from qflow.workload.measured import POINTS, measure
from qflow.workload.simulate import set_up
from qflow.workload.stage import GRACE

STALL = Workload(
    "stall",
    1,
    {"q": {"qpid.flow_stop_count": 5}},
    producers=(Producer("p", ("", "q"), 100, 5, 10), Producer("r", ("", "q"), 50, 2, 10, seed=4)),
)
REAL_WINDOWS = STALL.replace(
    producers=tuple(
        p.__class__(p.name, p.to, 200, 9, 10, window="qpid-cpp", session="s") for p in STALL.producers
    ),
    consumers=(Consumer("c", "q", 2, ("const", 0.02)),),
)


def by_events(workload, messages):
    """Return deepest, sum of waits and who died, from all that happened."""
    run = simulate(workload, message_limit=messages)
    died = tuple(p.name for p in workload.producers if p.name in run.errors)
    sent = [event.time for event in run.events if event.kind == "enqueued"]
    end = min(run.end - GRACE, round(workload.duration * SECOND))
    if len(died) == len(workload.producers):
        end = sent[-1]
    depth, deepest, waits, since = dict.fromkeys(workload.queues, 0), 0, 0, {}
    for event in run.events:
        if event.kind in ("enqueued", "dequeued"):
            depth[event.queue] += 1 if event.kind == "enqueued" else -1
            deepest = max(deepest, depth[event.queue])
        elif event.kind == "client.block":
            since[event.session] = event.time
        elif event.kind == "client.unblock":
            waits += min(event.time, end) - min(since.pop(event.session), end)
    waits += sum(max(0, end - time) for time in since.values())
    return deepest, waits / end / len(workload.producers), died


@pytest.mark.parametrize(
    ("workload", "messages"),
    [
        (capacity_workload(), 300),
        (capacity_workload(capacity_1=80), 800),
        (capacity_workload(capacity_1=90, limit=120), 400),
        (flow_workload(stop=20, resume=10), 300),
        (fanout_workload(stop=10, resume=5), 200),
        (STALL, 100),
        (REAL_WINDOWS, 60),
    ],
)
def test_measures_are_those_of_the_events(workload, messages):
    found = measure(set_up(workload, messages), workload)
    deepest, blocked, died = by_events(workload, messages)
    assert (found.max_depth, found.sessions_ended) == (deepest, died)
    assert found.blocked_share == pytest.approx(blocked)
    assert len(found.course) == POINTS and max(found.course) == 255


def test_the_course_is_level_while_nothing_happens():
    """Both clients of the capacity lab stand still at the bound until the reader comes."""
    workload = capacity_workload(stop=10, resume=5, capacity_1=5, capacity_2=5)
    course = measure(set_up(workload, 200), workload).course
    assert course[-1] > 0 and course.count(255) > 10 and 0 not in course[1:]


def test_a_queue_never_used_has_a_flat_course():
    workload = Workload("w", 1, {"q": {}})
    assert measure(set_up(workload), workload)[:4] == (0, 0.0, (), bytes(POINTS))
