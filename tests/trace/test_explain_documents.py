"""Explanations of the examples in the original documents, word for word, with their rules.

The chapter "Producer Flow Control", the issue QPID-2935 and the chapter "Using Message Groups"; the
expected chains are in ``tests/trace/explained``.
"""

from __future__ import annotations

import pytest
from explain_story import numbered
from test_explain_golden import EXPECTED, told

from qflow.broker.errors import AmqpException
from qflow.logs import ClientLog, LogRow, replay
from qflow.trace.replaying import trace_of
from qflow.workload import Consumer, Network, Producer, Workload, simulate


def flow_900_500(story):
    """Producer Flow Control, 1.1.1: maximum 1000, stop 900, resume 500."""
    story.queue("q", max_count=1000, max_size=0, flow_stop_count=900, flow_resume_count=500)
    story.ask("queue:q")
    story.send("P", *numbered("m", 1, 900))
    story.ask("queue:q", "producer:P")
    story.at(1)
    story.send("P", "m-901")
    story.ask("queue:q", "transfer:m-901")
    story.at(2)
    story.consume("c", credit="inf", mode=0)
    story.at(3)
    story.accept("c", *numbered("m", 1, 401))
    story.ask("queue:q", "transfer:m-901")
    story.at(4)
    story.accept("c", "m-402")
    story.ask("queue:q", "transfer:m-901", "producer:P")


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


@pytest.mark.parametrize("path", sorted(EXPECTED.glob("[!G]*.txt")), ids=lambda path: path.stem)
def test_the_chain_of_each_documented_example(path):
    tell = globals()[path.stem.replace("-", "_")]
    assert told(tell) == path.read_text(encoding="utf-8")
