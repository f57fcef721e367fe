"""What must not matter to a run: names, strangers, where one looks.

What clients do not decide is held of single commands: replay, the unit of a byte (test_trace.py), a snapshot
at any point, a fork without a change (test_timeline.py); here are whole workloads, with their clients.
"""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from qflow.trace.explain import explain
from qflow.trace.replaying import Replay, first_difference, trace_of
from qflow.trace.timeline import Timeline
from qflow.workload import Consumer, Producer, Workload, simulate

quick = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)

WINDOWS = st.sampled_from(["ideal", "ideal", "qpid-cpp", "qpid-python"])


@st.composite
def workloads(draw, prefix="", scale=1):
    """Two queues, up to three producers and three consumers, half a second."""
    grouped = {"qpid.group_header_key": "group", "qpid.shared_msg_group": 1} if draw(st.booleans()) else {}
    stop = draw(st.integers(3, 12))
    queues = {
        f"{prefix}a": {
            "qpid.flow_stop_count": stop,
            "qpid.flow_resume_count": draw(st.integers(1, stop)),
            **grouped,
        },
        f"{prefix}b": {"qpid.flow_stop_size": 1000 * scale, "qpid.flow_resume_size": 700 * scale},
    }
    if draw(st.booleans()):
        queues[f"{prefix}b"] |= {"qpid.max_size": 3000 * scale}
    names = st.sampled_from(list(queues))
    producers = tuple(
        Producer(
            f"{prefix}p{number}",
            ("", draw(names)),
            rate=draw(st.sampled_from([40, 90])),
            capacity=draw(st.integers(1, 6)),
            size=draw(st.integers(1, 300)) * scale,
            seed=draw(st.integers(0, 9)),
            groups=draw(st.sampled_from([None, (3, 1.0)])),
            window=draw(WINDOWS),
        )
        for number in range(draw(st.integers(1, 3)))
    )
    consumers = tuple(
        Consumer(
            f"{prefix}c{number}",
            draw(names),
            prefetch=draw(st.integers(1, 5)),
            service=("exp", draw(st.sampled_from([0.005, 0.04]))),
            seed=draw(st.integers(0, 9)),
            start=draw(st.sampled_from([0.0, 0.2])),
            release=draw(st.sampled_from([0.0, 0.2])),
            crash=draw(st.sampled_from([None, None, 0.4])),
        )
        for number in range(draw(st.integers(0, 3)))
    )
    return Workload("w", 0.5, queues, producers=producers, consumers=consumers)


def rows_of(trace, without=("run", "seq")):
    return [row._replace(**dict.fromkeys(without, 0)) for row in trace.rows()]


# Names


@quick
@given(workloads())
def test_names_do_not_matter(workload):
    """Other names of the same length, so that sizes stay: only the names differ."""
    new = {name: name[::-1].upper() for name in _names(workload)}
    renamed = dataclasses.replace(
        workload,
        queues={new[name]: arguments for name, arguments in workload.queues.items()},
        producers=tuple(
            dataclasses.replace(p, name=new[p.name], to=("", new[p.to[1]])) for p in workload.producers
        ),
        consumers=tuple(
            dataclasses.replace(c, name=new[c.name], queue=new[c.queue]) for c in workload.consumers
        ),
    )
    one, other = trace_of(simulate(workload)), trace_of(simulate(renamed))
    assert len(one) == len(other)

    def renamed_of(text):
        name, dash, number = text.partition("-")
        parts = name.split("::")
        return "::".join(new.get(part, part) for part in parts) + dash + number

    for a, b in zip(one.rows(), other.rows(), strict=True):
        expected = a._replace(
            queue=renamed_of(a.queue),
            session=renamed_of(a.session),
            link=renamed_of(a.link),
            message=renamed_of(a.message),
        )
        assert expected[:10] == b[:10]


def _names(workload):
    clients = (*workload.producers, *workload.consumers)
    return [*workload.queues, *(client.name for client in clients)]


# Strangers


@quick
@given(workloads(prefix="x"), workloads(prefix="y"))
def test_strangers_on_the_same_broker_do_not_matter(one, other):
    both = Workload(
        "both",
        0.5,
        {**one.queues, **other.queues},
        producers=(*one.producers, *other.producers),
        consumers=(*one.consumers, *other.consumers),
    )
    together = trace_of(simulate(both))
    for part, letter in ((one, "x"), (other, "y")):
        alone = trace_of(simulate(part))
        assert _belonging(together, letter) == _belonging(alone, letter)


def _belonging(trace, letter):
    def owner(row):
        return row.session or row.queue or row.link

    rows = (row for row in trace.rows() if owner(row).startswith(letter))
    return [row[2:] for row in rows]


# Questions


@quick
@given(workloads(), st.data())
def test_the_same_question_has_the_same_answer_wherever_the_timeline_has_been(workload, data):
    trace = trace_of(simulate(workload))
    fresh, used = Timeline(trace), Timeline(trace, spacing=40)
    subjects = [f"queue:{name}" for name in workload.queues] + [
        f"producer:{p.name}" for p in workload.producers
    ]
    for seq in data.draw(st.lists(st.integers(0, len(trace) - 1), min_size=1, max_size=5)):
        for subject in subjects:
            assert explain(fresh, seq, subject) == explain(used, seq, subject)
        used.seek(data.draw(st.integers(0, len(trace) - 1)))


def test_a_trace_that_differs_in_one_byte_is_told_apart():
    """The comparison that these properties rest on can fail."""
    workload = Workload("w", 1, {"q": {}}, producers=(Producer("p", ("", "q"), rate=5, capacity=5, size=9),))
    trace = trace_of(simulate(workload))
    other = trace.empty()
    for row in trace.rows():
        other.append_row(row._replace(size=row.size + (row.seq == 8)))
    assert first_difference(trace, other).place == 8
    assert Replay(trace).run() != other
    with pytest.raises(AssertionError):
        assert rows_of(trace) == rows_of(other)
