"""What is measured: each workload as a function that runs it and returns the broker, or what it made."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from qflow.broker import BYTE_UNIT, INFINITE, MESSAGE_UNIT, Broker, Message
from qflow.broker.delivery import DeliveryRecord
from qflow.broker.events import Observer
from qflow.broker.session import Session

if TYPE_CHECKING:
    from qflow.trace.schema import Trace
    from qflow.workload.model import Workload
    from qflow.workload.run import Run

PREFETCH = 100
UNLIMITED = {"qpid.max_count": 0, "qpid.max_size": 0}


class Reader:
    """A consumer that accepts and completes what it is given, one message after the other."""

    def __init__(self, broker: Broker, name: str, queue: str, prefetch: int = PREFETCH) -> None:
        self.session: Session = broker.session(name)
        self.got: deque[DeliveryRecord] = deque()
        self.session.consuming.on_delivery = self.got.append
        self.session.message_subscribe(queue, "t")
        self.session.message_flow("t", BYTE_UNIT, INFINITE)
        self.session.message_flow("t", MESSAGE_UNIT, prefetch)

    def settle(self) -> bool:
        """Accept and complete one message; return whether there was one."""
        if not self.got:
            return False
        numbers = (self.got.popleft().id,)
        self.session.message_accept(numbers)
        self.session.session_completed(numbers)
        return True


def life_cycle(messages: int, observer: Observer | None = None) -> Broker:
    """Send messages through one queue, each accepted and completed before the next is sent.

    Examples
    --------
    >>> life_cycle(10).queue("q").statistics().msgTotalDequeues
    10
    """
    broker = Broker()
    broker.observe(observer)
    session = broker.session("p")
    session.queue_declare("q")
    reader = Reader(broker, "c", "q")
    message = Message(100, routing_key="q")
    for _ in range(messages):
        session.message_transfer(message)
        reader.settle()
    broker.observe(None)
    return broker


def filled(messages: int) -> Broker:
    """Put messages on a queue that nobody reads."""
    broker = Broker()
    session = broker.session("p")
    session.queue_declare("q", UNLIMITED)
    message = Message(100, routing_key="q")
    for _ in range(messages):
        session.message_transfer(message)
    return broker


def backlog(messages: int) -> Broker:
    """Put messages on a queue, then read them all.

    Examples
    --------
    >>> backlog(200).queue("q").statistics().msgDepth
    0
    """
    broker = filled(messages)
    reader = Reader(broker, "c", "q")
    while reader.settle():
        pass
    return broker


def fan_out(messages: int, queues: int = 10) -> Broker:
    """Send messages through a fanout exchange to several queues, each with a reader.

    Examples
    --------
    >>> fan_out(5).statistics().totals["msgTotalDequeues"]
    50
    """
    broker = Broker()
    session = broker.session("p")
    readers = []
    for number in range(queues):
        name = f"q{number}"
        session.queue_declare(name)
        session.exchange_bind(name, "amq.fanout")
        readers.append(Reader(broker, f"c{number}", name))
    message = Message(100)
    for _ in range(messages):
        session.message_transfer(message, "amq.fanout")
        for reader in readers:
            reader.settle()
    return broker


def grouped(messages: int, groups: int, readers: int = 10) -> Broker:
    """Put messages of many groups on a queue, all of a group one after the other, then read them in turn.

    The readers hold one message each, so every look of a reader passes the groups of all the others.

    Examples
    --------
    >>> grouped(100, 10).queue("q").statistics().msgDepth
    0
    """
    broker = Broker()
    session = broker.session("p")
    arguments = {**UNLIMITED, "qpid.group_header_key": "group", "qpid.shared_msg_group": 1}
    session.queue_declare("q", arguments)
    size = -(-messages // groups)
    for number in range(messages):
        headers = {"group": f"g{number // size}"}
        session.message_transfer(Message(100, routing_key="q", headers=headers))
    all_readers = [Reader(broker, f"c{number}", "q", prefetch=2) for number in range(readers)]
    left = messages
    while left:
        left -= sum(reader.settle() for reader in all_readers)
    return broker


def held_release(messages: int) -> Broker:
    """Hold all transfers but one behind a stopped queue, and let all of them go at once.

    Examples
    --------
    >>> len(held_release(100).sessions["p"].held)
    0
    """
    broker = Broker()
    session = broker.session("p")
    session.queue_declare("q", {**UNLIMITED, "qpid.flow_stop_count": 1, "qpid.flow_resume_count": 1})
    message = Message(100, routing_key="q")
    for _ in range(messages):
        session.message_transfer(message, sync=True)
    session.queue_purge("q")
    return broker


def completed_with_holes(messages: int) -> Broker:
    """Send every other message to a stopped queue, which holds it; the others are complete and told at once.

    So each completion lies behind a hole, and the client is told of as many holes as transfers are held.

    Examples
    --------
    >>> str(completed_with_holes(6).sessions["p"].completions.reported)
    '0-3 5 7'
    """
    broker = Broker()
    session = broker.session("p")
    session.queue_declare("held", {**UNLIMITED, "qpid.flow_stop_count": 1, "qpid.flow_resume_count": 1})
    session.queue_declare("free", UNLIMITED)
    held, free = Message(100, routing_key="held"), Message(100, routing_key="free")
    session.message_transfer(held)
    for number in range(messages):
        session.message_transfer(held if number % 2 else free, sync=True)
    return broker


def ring(messages: int, limit: int = 1_000) -> Broker:
    """Send messages to a ring that nobody reads.

    Examples
    --------
    >>> ring(20, limit=5).queue("q").statistics().discardsRing
    15
    """
    broker = Broker()
    session = broker.session("p")
    session.queue_declare("q", {"qpid.max_count": limit, "qpid.policy_type": "ring"})
    message = Message(100, routing_key="q")
    for _ in range(messages):
        session.message_transfer(message)
    return broker


def saved_and_restored(broker: Broker) -> Broker:
    """Take a snapshot and make a broker of it."""
    return Broker.restore(broker.snapshot())


def shop(messages: int) -> Workload:
    """Return a workload of one queue whose consumer keeps up, just: as long as so many messages take."""
    from qflow.workload import Consumer, Producer, Workload

    return Workload(
        "shop",
        duration=max(1.0, messages / 800),
        queues={"q": {}},
        producers=(Producer("p", ("", "q"), rate=1_000, capacity=100, size=100, seed=1),),
        consumers=(Consumer("c", "q", prefetch=20, service=("exp", 0.0009), seed=2),),
    )


def simulated(messages: int) -> Run:
    """Simulate a workload and keep all its events, as a lab does that draws them."""
    from qflow.workload import simulate

    return simulate(shop(messages), message_limit=messages)


def traced(messages: int) -> Trace:
    """Simulate a workload and keep everything as a trace: text and numbers, ready for a file."""
    from qflow.trace.record import trace_of

    return trace_of(simulated(messages))


def written(trace: Trace, folder: Path) -> Path:
    """Write a trace as Parquet if pyarrow is installed, else as JSON lines."""
    from importlib.util import find_spec

    from qflow.trace.files import write_trace

    path = folder / ("bench.parquet" if find_spec("pyarrow") else "bench.jsonl.gz")
    write_trace(trace, path)
    return path
