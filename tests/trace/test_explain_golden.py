"""Explanations of the rule book's golden scenarios (G-01 to G-18), word for word, with their rules.

The expected chains are in ``tests/trace/explained``, one file a story: a line with a question mark asks, the
lines below it are the answer. Each was read against the rule it cites before it was written down.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from explain_story import numbered, story_of

from qflow.broker.errors import AmqpException
from qflow.trace.explain import explain
from qflow.trace.replaying import trace_of
from qflow.trace.timeline import Timeline
from qflow.workload import Producer, Workload, simulate

EXPECTED = Path(__file__).parent / "explained"


def g_01(story):
    """Fanout to two stopped queues."""
    for number in (1, 2):
        story.queue(f"f{number}", flow_stop_count=number, max_size=0)
        story.session("admin").exchange_bind(f"f{number}", "amq.fanout", "")
    story.send("P", "m1", "m2", "m3", to="", exchange="amq.fanout")
    story.ask("transfer:m1", "transfer:m2", "transfer:m3", "producer:P")
    story.at(5)
    story.session("admin").queue_purge("f1")
    story.ask("transfer:m2", "transfer:m3", "queue:f1")
    story.at(9)
    story.session("admin").queue_purge("f2")
    story.ask("transfer:m3")


def g_02(story):
    """Completions with a hole; a sync waits for all."""
    story.queue("x", flow_stop_count=1, max_size=0)
    story.queue("y", max_size=0)
    story.send("P", "m1", "m2", to="x")
    story.send("P", "m3", "m4", to="y")
    story.session("P").execution_sync()
    story.ask("producer:P", "transfer:m3", "queue:y")


def g_03(story):
    """CAP-08: 165, 100 and still ON, 99 and OFF."""
    story.queue("q", flow_stop_count=100, max_size=0)
    story.send("load", *numbered("l", 1, 100))
    story.at(1)
    story.send("C1", *numbered("C1", 1, 50))
    story.send("C2", *numbered("C2", 1, 15))
    story.ask("producer:C1", "producer:C2")
    story.at(2)
    story.consume("late", credit="inf", mode=0)
    story.at(3)
    story.accept("late", *numbered("l", 1, 65))
    story.ask("queue:q", "consumer:late")
    story.at(4)
    story.accept("late", "l-66")
    story.ask("queue:q", "producer:C1", "transfer:C1-1")
    story.send("C1", *numbered("C1", 51, 100))
    story.send("C2", *numbered("C2", 16, 30))
    story.ask("producer:C2")


def one_sender(story, window):
    """CAP-08: stop 10 with one sender; each client's window."""
    producer = Producer("P", ("", "q"), rate=100, arrival="const", capacity=3, size=10, window=window)
    queues = {"q": {"qpid.flow_stop_count": 10, "qpid.max_size": 0}}
    story.trace = trace_of(simulate(Workload("g-04", 1, queues, producers=(producer,))))
    story.ask("producer:P")


g_04_ideal, g_04_qpid_cpp, g_04_qpid_python = (
    partial(one_sender, window=window) for window in ("ideal", "qpid-cpp", "qpid-python")
)


def g_05(story):
    """506 while flow control is ON."""
    story.queue("q", max_count=3)
    story.send("P", "a", "b", "c", "d")
    story.ask("producer:P", "queue:q", "transfer:c", "transfer:d", "message:d")


def g_06(story):
    """LP-16: self-destruct with the default thresholds."""
    story.queue("q", max_count=10, policy_type="self-destruct")
    story.send("P", *numbered("m", 1, 10))
    story.ask("producer:P")
    story.at(7)
    story.send("P", "m-11")
    story.ask("queue:q", "transfer:m-9", "transfer:m-11", "message:m-11", "message:m-1", "producer:P")


def g_07(story):
    """FC-09: a unit that cannot stop still gates the resume."""
    story.queue(
        "q", max_count=100, max_size=100_000, flow_stop_count=0, flow_stop_size=2000, flow_resume_size=1900
    )
    story.send("P", *numbered("m", 1, 80), size=20)
    story.at(1)
    story.consume("c", credit="inf", mode=0)
    story.accept("c", *numbered("m", 1, 10))
    story.ask("queue:q")
    story.at(2)
    story.accept("c", *numbered("m", 11, 25))
    story.ask("queue:q")


def g_08(story):
    """FC-23: a replacement at the stop level turns a last value queue ON."""
    story.queue("q", flow_stop_count=2, max_size=0, last_value_queue_key="k")
    story.send("P", "a1", headers={"k": "a"})
    story.send("P", "b1", headers={"k": "b"})
    story.at(3)
    story.send("P", "a2", headers={"k": "a"})
    story.ask("queue:q", "transfer:a2", "message:a1")
    story.at(4)
    story.send("P", "a3", headers={"k": "a"})
    story.ask("transfer:a2", "transfer:a3")


def g_09(story):
    """MG-18: release A-1, accept A-2, and A-1 comes after A-2."""
    story.grouped()
    story.send_grouped("P", "A-1", "A-2", "A-3")
    story.consume("c1", credit=2)
    story.consume("c2", credit=5)
    story.at(1)
    story.ask("message:A-3", "consumer:c2", "group:A")
    story.release("c1", "A-1")
    story.at(2)
    story.ask("message:A-1", "consumer:c2")
    story.accept("c1", "A-2")
    story.ask("group:A", "message:A-2")
    story.at(3)
    story.send_grouped("P", "B-1")
    story.ask("message:A-1", "message:A-3", "group:A")


def g_10(story):
    """The lost wake-up."""
    story.grouped()
    story.consume("c1", credit=2)
    story.consume("c2", credit=2)
    story.at(1)
    story.send_grouped("P", "A-1", "A-2", "A-3")
    story.ask("consumer:c2", "message:A-3", "consumer:c1")
    story.at(2)
    story.accept("c1", "A-1", "A-2")
    story.ask("consumer:c2", "consumer:c1", "message:A-3", "group:A", "queue:q")
    story.at(3)
    story.send_grouped("P", "B-1")
    story.ask("consumer:c2")


def g_11(story):
    """MG-20: a ring drops an acquired message and so frees its group."""
    story.grouped(policy_type="ring", max_count=3)
    story.send_grouped("P", "A-1")
    story.consume("c1", credit=1)
    story.at(1)
    story.ask("group:A", "message:A-1")
    story.send_grouped("P", "A-2", "A-3", "A-4")
    story.at(2)
    story.ask("message:A-1", "group:A", "queue:q", "consumer:c1")


def g_12_last_value(story):
    """LP-13: a ring of last values evicts one message and replaces another."""
    story.queue("q", policy_type="ring", max_count=3, last_value_queue_key="k", max_size=0)
    for label in ("a1", "b1", "c1", "b2"):
        story.send("P", label, headers={"k": label[0]})
    story.ask("queue:q", "message:a1", "message:b1", "message:b2")


def g_12_priority(story):
    """LP-12: a ring of priorities drops the new message if all others are above it."""
    story.queue("q", policy_type="ring", max_count=3, priorities=10, max_size=0)
    for label, priority in zip("abcdef", (5, 6, 7, 4, 5, 9), strict=True):
        story.send("P", label, priority=priority)
    story.ask("message:d", "transfer:d", "message:a", "queue:q")


def g_13(story):
    """A purge leaves what is acquired, which still counts."""
    story.queue("q", flow_stop_count=4, flow_resume_count=2, max_size=0)
    story.send("P", *numbered("m", 1, 6))
    story.consume("c", credit=2)
    story.at(1)
    story.session("admin").queue_purge("q")
    story.ask("queue:q", "producer:P", "message:m-3", "message:m-1", "transfer:m-5")
    story.at(2)
    story.finish("c", "m-1")
    story.ask("queue:q")


def g_14(story):
    """FC-21: deleting a stopped queue lets its producer go on."""
    story.queue("spare", max_size=0)
    story.session("admin").exchange_declare("alt", "fanout")
    story.session("admin").exchange_bind("spare", "alt", "")
    story.queue("q", alternate="alt", flow_stop_count=1, max_size=0)
    story.send("P", "m1", "m2")
    story.ask("producer:P")
    story.at(1)
    story.session("admin").queue_delete("q")
    story.ask("producer:P", "queue:q", "transfer:m2", "message:m2")


def g_15(story):
    """QT-23: what is moved to a full queue is lost."""
    story.queue("q", max_size=0)
    story.queue("small", max_count=2, max_size=0, flow_stop_count=0)
    story.send("P", "m1", "m2", "m3", "m4")
    story.manage("queueMoveMessages", "q", "small")
    story.ask("message:m1", "message:m3", "queue:small", "queue:q")


def g_16(story):
    """QT-09: an auto-delete queue, its last consumer and its messages."""
    story.queue("q", auto_delete=True)
    story.send("P", "m1")
    story.consume("c", credit=0)
    story.ask("consumer:c", "message:m1")
    story.at(1)
    story.session("c").message_cancel("c")
    story.ask("queue:q", "message:m1", "consumer:c")


def g_17(story):
    """CN-19: strict round robin, as each message finds three idle consumers."""
    story.queue("q", max_size=0)
    for name in "abc":
        story.consume(name, credit="inf")
    story.at(1)
    story.ask("consumer:a")
    story.send("P", *numbered("m", 0, 6))
    story.ask("message:m-3", "consumer:b")
    story.at(2)
    story.finish("a", "m-0")


def g_18_too_much(story):
    """LP-09: a transaction of ten into a queue for five."""
    story.queue("q", max_count=5)
    session = story.session("T")
    session.tx_select()
    story.send("T", *numbered("m", 1, 10))
    story.ask("transfer:m-1", "message:m-1")
    story.at(1)
    with suppress(AmqpException):
        session.tx_commit()
    story.ask("producer:T", "queue:q", "message:m-1")


def g_18_stop(story):
    """A transaction is never held, the next producer is."""
    story.queue("q", flow_stop_count=5, max_size=0)
    session = story.session("T")
    session.tx_select()
    story.send("T", *numbered("m", 1, 10))
    story.at(1)
    session.tx_commit()
    story.send("P", "p-1")
    story.ask("queue:q", "transfer:m-10", "transfer:p-1", "producer:T", "message:m-10")


def told(tell):
    """Return the questions and answers of a story, which a function tells, as text."""
    story = story_of(tell)
    timeline = Timeline(story.trace)
    lines = []
    for seq, subject in story.questions:
        explanation = explain(timeline, seq, subject)
        lines.append(f"? {subject} after {timeline.trace.kind[seq]} (seq {seq})")
        for link in explanation.links:
            indent = "  " * (link.level - 1) + "<- " if link.level else ""
            lines.append(f"{indent}{link.text}  [{', '.join(link.rules)}]")
        lines.append("")
    return "\n".join(lines)


@pytest.mark.parametrize("path", sorted(EXPECTED.glob("G-*.txt")), ids=lambda path: path.stem)
def test_the_chain_of_each_golden_scenario(path):
    tell = globals()[path.stem.lower().replace("-", "_")]
    assert told(tell) == path.read_text(encoding="utf-8")
