"""Explanations, word for word, with their rules: of the rule book's golden scenarios and of the documents.

The documents are the chapter "Producer Flow Control", the issue QPID-2935 and the chapter "Using Message
Groups".  The expected chains are in ``tests/trace/explained``, one file a story: a line with a question mark
asks, the lines below it are the answer. Each was read against the rule it cites before it was written down.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from explain_story import numbered, story_of

from qflow.broker.errors import AmqpException
from qflow.logs import ClientLog, LogRow, replay
from qflow.trace.explain import explain
from qflow.trace.replaying import trace_of
from qflow.trace.timeline import Timeline
from qflow.workload import Consumer, Network, Producer, Workload, simulate

EXPECTED = Path(__file__).parent / "explained"

# Golden scenarios, G-01 to G-18


def g_01(story):
    """CM-03: fanout to two stopped queues."""
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
    """CM-04: completions with a hole; a sync waits for all."""
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
    """FC-24: 506 while flow control is ON."""
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
    """MG-13: the lost wake-up."""
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
    """FC-20: a purge leaves what is acquired, which still counts."""
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
    """CM-10: a transaction is never held, the next producer is."""
    story.queue("q", flow_stop_count=5, max_size=0)
    session = story.session("T")
    session.tx_select()
    story.send("T", *numbered("m", 1, 10))
    story.at(1)
    session.tx_commit()
    story.send("P", "p-1")
    story.ask("queue:q", "transfer:m-10", "transfer:p-1", "producer:T", "message:m-10")


# Examples of the documents


def flow_both_units(story):
    """Producer Flow Control, 1.1.2: 4000 messages or 8K bytes; 3000 messages and 6K bytes."""
    story.queue(
        "q",
        max_count=5000,
        max_size=10_240,
        flow_stop_count=4000,
        flow_stop_size=8192,
        flow_resume_count=3000,
        flow_resume_size=6144,
    )
    story.send("P", *numbered("m", 1, 41), size=189)
    story.ask("queue:q")
    story.at(1)
    story.send("P", "m-42", size=189)
    story.ask("queue:q", "producer:P")
    story.at(2)
    story.consume("c", credit=12)
    story.at(3)
    story.finish("c", *numbered("m", 1, 12))
    story.ask("queue:q")


def flow_165(story):
    """Producer Flow Control, 1.1.2: C1 and C2 with 50 and 15 of capacity, and a late consumer."""
    workload = Workload(
        "165",
        4,
        {
            "q": {
                "qpid.flow_stop_count": 100,
                "qpid.max_size": 0,
                "qpid.group_header_key": "group",
                "qpid.shared_msg_group": 1,
            }
        },
        producers=(
            Producer("C1", ("", "q"), rate=100, arrival="const", capacity=50, size=10, groups=(1, 1.0)),
            Producer("C2", ("", "q"), rate=60, arrival="const", capacity=15, size=10, groups=(1, 1.0)),
        ),
        consumers=(Consumer("late", "q", prefetch=20, service=("const", 0.5), start=3),),
    )
    story.trace = trace_of(simulate(workload))
    for time in (2_500_000, 3_200_000):
        story.ask_at(time, "C1", "C2", "late")


def flow_ring(story):
    """Producer Flow Control, 1.2: a ring has no flow control, even if it is given thresholds."""
    story.queue("q", policy_type="ring", max_count=2, flow_stop_count=1)
    story.send("P", "m1", "m2", "m3")
    story.ask("queue:q", "message:m1", "transfer:m3", "producer:P")


def flow_ratios(story):
    """Producer Flow Control, 1.2: 90 % and 75 % of a default limit of 10000 bytes."""
    story.begin(default_flow_stop_threshold=90, default_flow_resume_threshold=75, default_queue_limit=10_000)
    story.queue("q")
    story.send("P", *numbered("m", 1, 9), size=989)
    story.ask("queue:q")
    story.at(1)
    story.send("P", "m-10", size=500)
    story.ask("queue:q", "transfer:m-10")


def flow_disabled(story):
    """Producer Flow Control, 1.2: off broker-wide, off for one queue, and by hand in spite of that."""
    story.begin(default_flow_stop_threshold=0, default_flow_resume_threshold=0)
    story.queue("off", max_count=2)
    story.queue("by-hand", max_count=2, flow_stop_count=1)
    story.send("P", "m1", "m2", to="off")
    story.send("P", "m3", "m4", to="by-hand")
    story.ask("queue:off", "queue:by-hand", "transfer:m2", "transfer:m4")


def flow_refused(story):
    """FC-05: thresholds that make no sense are refused with the queue."""
    with pytest.raises(AmqpException, match="must be less or equal"):
        story.queue("q", flow_stop_count=10, flow_resume_count=11)
    story.ask("queue:q")


def issue_description(story):
    """QPID-2935, description: before the feature the client is thrown out."""
    story.begin(flow_control="pre-feature")
    story.queue("q", max_count=2, max_size=0)
    story.send("P", "m1", "m2", "m3")
    story.ask("producer:P", "queue:q", "message:m3", "transfer:m1")


def issue_overflow_list(story):
    """QPID-2935, the proof of concept: a list of the session, and a timer."""
    story.begin(flow_control="overflow-list")
    story.queue("q", max_count=1, max_size=0)
    story.queue("idle", max_size=0)
    story.send("P", "m1", "m2")
    story.send("P", "m3", to="idle")
    story.ask("transfer:m2", "message:m3", "producer:P", "queue:q")
    story.consume("c", credit=1)
    story.finish("c", "m1")
    story.at(150)
    story.ask("transfer:m2", "message:m3")


def issue_watermarks(story):
    """QPID-2935, the proposal: blocking at the high watermark, decided once for each message."""
    story.begin(flow_control="watermark")
    story.queue("q", flow_stop_count=2, flow_resume_count=2, max_size=0)
    story.send("P", "m1", "m2", "m3")
    story.ask("transfer:m1", "transfer:m2", "queue:q", "producer:P")
    story.at(1)
    story.consume("c", credit=2)
    story.finish("c", "m1", "m2")
    story.ask("queue:q", "transfer:m3")


def issue_1(story):
    """QPID-2935, known issue 1: all capacities together are too much for the limit."""
    story.queue("q", max_count=120, max_size=0, flow_stop_count=100, flow_resume_count=50)
    story.send("C1", *numbered("C1", 1, 105))
    story.at(1)
    story.send("C2", *numbered("C2", 1, 16))
    story.ask("producer:C2", "producer:C1", "queue:q")


def issue_2(story):
    """QPID-2935, known issue 2: a stopped queue keeps its producer from another, idle one."""
    queues = {name: {"qpid.max_size": 0, "qpid.flow_stop_count": 3} for name in ("x", "y")}
    senders = tuple(
        Producer(
            name, ("", name), rate=100, arrival="const", capacity=n, size=10, window="qpid-cpp", session="S"
        )
        for name, n in (("x", 2), ("y", 1))
    )
    slow = Consumer("slow", "x", prefetch=1, service=("const", 0.4))
    fast = Consumer("fast", "y", prefetch=10, service=("const", 0.001))
    story.trace = trace_of(
        simulate(Workload("issue 2", 0.3, queues, producers=senders, consumers=(slow, fast)))
    )
    story.ask_at(250_000, "producer:x", "producer:y", "queue:y", "consumer:fast")


def issue_java(story):
    """QPID-2935, the Java broker: the channel is told to stop, nothing is withheld."""
    story.begin(flow_control="java")
    story.queue("q", max_size=0, flow_stop_size=200, flow_resume_size=150)
    story.send("P", "m1", "m2")
    story.ask("producer:P", "queue:q", "transfer:m2")


def groups_cart(story):
    """Using Message Groups, Overview: add and remove of one cart, with and without groups."""
    story.grouped("grouped")
    story.queue("plain", max_size=0)
    for queue in ("grouped", "plain"):
        for name in ("c1", "c2"):
            story.consume(f"{name}-{queue}", queue, credit=1)
        story.send("shop", f"{queue}-add", f"{queue}-remove", to=queue, headers={"group": "cart"})
    story.at(1)
    story.ask("message:grouped-remove", "message:plain-remove", "consumer:c2-grouped", "consumer:c2-plain")
    story.finish("c1-grouped", "grouped-add")


def groups_prefetch(story):
    """Using Message Groups, The Role of the Broker: the first N of a group, and no group blocks another."""
    story.grouped()
    story.send_grouped("P", "A-1", "A-2", "A-3", "B-1")
    story.consume("c1", credit=2)
    story.consume("c2", credit=2)
    story.at(1)
    story.ask("message:A-3", "message:B-1", "group:A", "group:B", "consumer:c1", "consumer:c2")
    story.finish("c1", "A-1")
    story.at(2)
    story.ask("group:A", "message:A-3")
    story.finish("c1", "A-2", "A-3")
    story.ask("group:A")


def groups_reject(story):
    """Using Message Groups, Well Behaved Consumers: reject keeps the order, where release does not."""
    story.grouped()
    story.send_grouped("P", "A-1", "A-2", "A-3")
    story.consume("c1", credit=2)
    story.at(1)
    story.reject("c1", "A-1")
    story.ask("message:A-1", "group:A")


def groups_default(story):
    """Using Message Groups, Default Group: messages without an identifier are one group."""
    story.begin(default_message_group="EMPTY-GROUP")
    story.grouped()
    story.send("P", "m1", "m2")
    story.consume("c1", credit=1)
    story.consume("c2", credit=1)
    story.ask("group:EMPTY-GROUP", "message:m2", "consumer:c2")


def groups_cancelled(story):
    """MG-15: a subscription that has ended still owns its groups."""
    story.grouped()
    story.send_grouped("P", "A-1", "A-2")
    story.consume("c1", credit=1)
    story.session("c1").message_cancel("c1")
    story.consume("c2", credit=1)
    story.ask("group:A", "message:A-1", "message:A-2", "consumer:c1")
    story.at(1)
    story.session("c1").close()
    story.ask("message:A-1")


def consumers_idle(story):
    """Section 5: what keeps an idle consumer idle."""
    story.queue("q", max_size=0)
    story.consume("bytes", credit=5, mode=0)
    story.session("bytes").message_stop("bytes")
    story.session("bytes").message_flow("bytes", 0, 5)
    story.session("bytes").message_flow("bytes", 1, 50)
    story.consume("picky", credit=5, arguments={"x-apache-selector": "colour = 'red'"})
    story.consume("spent", credit=1, mode=0)
    story.consume("browser", credit=9, acquire_mode=1)
    story.session("spent").message_stop("spent")
    story.send("P", "m1", size=100)
    story.ask(*(f"consumer:{name}" for name in ("bytes", "picky", "spent", "browser")), "message:m1")


def messages_lost(story):
    """Section 1 and 7: expired, unroutable, unwanted, rolled back and not yet sent messages."""
    story.queue("q", max_size=0)
    story.queue("filtered", max_size=0, filter="colour = 'red'")
    story.send("P", "late", ttl=5)
    story.send("P", "nowhere", exchange="amq.direct", to="unbound")
    story.send("P", "green", to="filtered", headers={"colour": "green"})
    story.session("T").tx_select()
    story.send("T", "undone")
    story.session("T").tx_rollback()
    story.ask("message:late", "message:nowhere", "transfer:nowhere", "message:green", "message:undone")
    story.ask("message:soon", "transfer:soon")
    story.at(10)
    story.send("P", "fresh", to="q")
    story.ask("message:late")
    story.consume("c", credit=1)
    story.ask("message:late", "queue:q")
    story.at(11)
    story.send("P", "soon")


def network_window(story):
    """CAP-01: with a network, the window counts what the producer has not heard of."""
    workload = Workload(
        "far",
        0.2,
        {"q": {"qpid.max_size": 0}},
        producers=(
            Producer(
                "P", ("", "q"), rate=200, arrival="const", capacity=3, size=10, network=Network(latency=0.05)
            ),
        ),
    )
    story.trace = trace_of(simulate(workload))
    story.ask_at(80_000, "producer:P")


def client_log(story):
    """A client log through the engine: what nobody recorded is explained all the same."""
    workload = Workload(
        "log",
        1,
        {"q": {"qpid.flow_stop_count": 2, "qpid.max_size": 0}},
        producers=(Producer("p", ("", "q"), rate=10, capacity=2, size=100),),
        consumers=(Consumer("c", "q", prefetch=1, service=("const", 1)),),
    )
    rows = [LogRow(time, "p", "transfer", "q", f"p-{time}", 100, "") for time in (1, 2, 3, 4)]
    rows.append(LogRow(5, "p", "block", "", "", 0, ""))
    rows += [LogRow(time, "c", "accept", "q", f"p-{time - 6}", 0, "") for time in (7, 8, 9)]
    rows.append(LogRow(10, "p", "unblock", "", "", 0, ""))
    story.trace = trace_of(replay(ClientLog("log", rows), workload))
    for time in (6, 12):
        story.ask_at(time, "producer:p", "transfer:p-4")


# All of them


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


@pytest.mark.parametrize("path", sorted(EXPECTED.glob("*.txt")), ids=lambda path: path.stem)
def test_the_chain_of_each_story(path):
    tell = globals()[path.stem.lower().replace("-", "_")]
    assert told(tell) == path.read_text(encoding="utf-8")
