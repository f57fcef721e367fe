"""How fast the engine is, beside SimPy's Stores: tables of pytest-benchmark, in which ratios count.

    python -m pytest -n 0 -m bench tests/benchmarks --benchmark-timer=time.process_time --benchmark-disable-gc

Rates of one machine say little, so what is compared stands in one group of one run: the engine with SimPy
(where it is installed), a run with a trace and without one, or one workload with more and more messages.
Seconds of the processor, not of the clock on the wall: other work on the machine disturbs them less.  Two
checkouts are compared in turns, by the least of each, with ``--benchmark-save`` and ``--benchmark-compare``.
How long things take is asserted nowhere; that each workload does what it is measured for is.
"""

from __future__ import annotations

import gc
import tracemalloc
from collections import deque
from collections.abc import Callable, Generator, Mapping
from importlib.util import find_spec
from random import Random
from typing import Any

import pytest

from qflow.broker import BYTE_UNIT, INFINITE, MESSAGE_UNIT, Broker, Message, Session
from qflow.broker.consuming import DeliveryRecord
from qflow.broker.events import EventTable, Observer
from qflow.labs import flow_run
from qflow.trace.replaying import trace_of
from qflow.workload import Consumer, Producer, Workload, simulate
from qflow.workload.measured import measure
from qflow.workload.simulate import set_up

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


def _sender(arguments: Mapping[str, object] | None = None) -> tuple[Broker, Session]:
    """Return a broker with a queue ``q``, and a session that sends to it."""
    broker = Broker()
    session = broker.session("p")
    session.queue_declare("q", arguments)
    return broker, session


def life_cycle(messages: int, observer: Observer | None = None) -> Broker:
    """Send messages through one queue, each accepted and completed before the next is sent."""
    broker, session = _sender()
    broker.observe(observer)
    reader = Reader(broker, "c", "q")
    message = Message(100, routing_key="q")
    for _ in range(messages):
        session.message_transfer(message)
        reader.settle()
    broker.observe(None)
    return broker


def filled(messages: int) -> Broker:
    """Put messages on a queue without a consumer."""
    broker, session = _sender(UNLIMITED)
    message = Message(100, routing_key="q")
    for _ in range(messages):
        session.message_transfer(message)
    return broker


def backlog(messages: int) -> Broker:
    """Put messages on a queue, then read them all."""
    broker = filled(messages)
    reader = Reader(broker, "c", "q")
    while reader.settle():
        pass
    return broker


def fan_out(messages: int) -> Broker:
    """Send messages through a fanout exchange to ten queues, each with a reader."""
    broker = Broker()
    session = broker.session("p")
    readers = []
    for number in range(10):
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


def grouped(messages: int, groups: int) -> Broker:
    """Put messages of many groups on a queue, all of a group one after the other, then read them in turn.

    The ten readers hold one message each, so every look of a reader passes the groups of all the others.
    """
    broker, session = _sender({**UNLIMITED, "qpid.group_header_key": "group", "qpid.shared_msg_group": 1})
    size = -(-messages // groups)
    for number in range(messages):
        headers = {"group": f"g{number // size}"}
        session.message_transfer(Message(100, routing_key="q", headers=headers))
    all_readers = [Reader(broker, f"c{number}", "q", prefetch=2) for number in range(10)]
    left = messages
    while left:
        left -= sum(reader.settle() for reader in all_readers)
    return broker


def held_release(messages: int) -> Broker:
    """Hold all transfers but one behind a stopped queue, and let all of them go at once."""
    broker, session = _sender({**UNLIMITED, "qpid.flow_stop_count": 1, "qpid.flow_resume_count": 1})
    message = Message(100, routing_key="q")
    for _ in range(messages):
        session.message_transfer(message, sync=True)
    session.queue_purge("q")
    return broker


def completed_with_holes(messages: int) -> Broker:
    """Send every other message to a stopped queue, which holds it; the others complete and are reported.

    So each completion is behind a hole, and the reports name as many holes as transfers are held.
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
    """Send messages to a ring without a consumer."""
    broker, session = _sender({"qpid.max_count": limit, "qpid.policy_type": "ring"})
    message = Message(100, routing_key="q")
    for _ in range(messages):
        session.message_transfer(message)
    return broker


def shop(messages: int) -> Workload:
    """Return a workload of one queue whose consumer keeps up, just: as long as so many messages take."""
    return Workload(
        "shop",
        duration=max(1.0, messages / 800),
        queues={"q": {}},
        producers=(Producer("p", ("", "q"), rate=1_000, capacity=100, size=100, seed=1),),
        consumers=(Consumer("c", "q", prefetch=20, service=("exp", 0.0009), seed=2),),
    )


def simulated_with_trace(messages: int) -> object:
    """Simulate a workload and keep everything as a trace, which makes text when a row is read."""
    return trace_of(simulate(shop(messages), message_limit=messages))


def store_put_and_get(messages: int, is_backlog: bool = False) -> int:
    """Let one SimPy process put messages into a Store, and another get them; return how many it got.

    Two operations for each message.  A Store knows no accept, no completion, no limits and no thresholds:
    it is the least that a queue can be.  Of a backlog, all are put before the first is got: a Store takes the
    first of its items off a list, and moves all the others up.
    """
    simpy = pytest.importorskip("simpy")
    environment = simpy.Environment()
    store = simpy.Store(environment)
    got = 0

    def producer() -> Generator[Any]:
        for number in range(messages):
            yield store.put(number)

    def consumer() -> Generator[Any]:
        nonlocal got
        for _ in range(messages):
            yield store.get()
            got += 1

    environment.process(producer())
    if is_backlog:
        environment.run()
    environment.process(consumer())
    environment.run()
    return got


def store_backlog(messages: int) -> int:
    """Put messages into a Store, and only then get them all; return how many that were."""
    return store_put_and_get(messages, is_backlog=True)


def store_life_cycle(messages: int) -> int:
    """Let messages live the life that a broker's message lives, with SimPy Stores; return how many did.

    Five operations of a Store for each: the producer takes a place in its window and puts the message on
    the queue; the consumer gets it, accepts it, and the completion gives the place back.  There are still
    no limits, no thresholds, no credit, no groups and no numbers of commands.
    """
    simpy = pytest.importorskip("simpy")
    environment = simpy.Environment()
    places, queue, accepted = (simpy.Store(environment) for _ in range(3))
    places.items.extend(range(100))

    def producer() -> Generator[Any]:
        for number in range(messages):
            yield places.get()
            yield queue.put(number)

    def consumer() -> Generator[Any]:
        for _ in range(messages):
            number = yield queue.get()
            yield accepted.put(number)
            yield places.put(number)

    environment.process(producer())
    environment.process(consumer())
    environment.run()
    return len(accepted.items)


def store_with_times(messages: int) -> int:
    """Simulate the workload ``shop`` with a SimPy Store: arrivals, a window, service times."""
    simpy = pytest.importorskip("simpy")
    environment = simpy.Environment()
    window = simpy.Store(environment, capacity=100)
    queue = simpy.Store(environment)
    arrivals, services = Random(1), Random(2)
    served = 0

    def producer() -> Generator[Any]:
        for number in range(messages):
            yield environment.timeout(arrivals.expovariate(1_000))
            yield window.put(number)
            yield queue.put(number)

    def consumer() -> Generator[Any]:
        nonlocal served
        for _ in range(messages):
            yield queue.get()
            yield environment.timeout(services.expovariate(1 / 0.0009))
            yield window.get()
            served += 1

    environment.process(producer())
    environment.process(consumer())
    environment.run()
    return served


MESSAGES, ROUNDS = 20_000, 5
TENTH, QUARTER = MESSAGES // 10, MESSAGES // 4
Work = Callable[[], object]

RATES: dict[str, dict[str, Work]] = {
    f"a life of {MESSAGES} messages": {
        "life_cycle": lambda: life_cycle(MESSAGES),
        # Ten events of each message are kept in columns, and not read.
        "life_cycle_with_trace": lambda: life_cycle(MESSAGES, EventTable()),
        # The least that a queue can be, and five operations of a Store for a message's life.
        "simpy_store": lambda: store_put_and_get(MESSAGES),
        "simpy_life_cycle": lambda: store_life_cycle(MESSAGES),
    },
    f"{MESSAGES} messages in other ways": {
        "fan_out_to_10": lambda: fan_out(TENTH),
        "groups": lambda: grouped(MESSAGES, TENTH),
        "held_release": lambda: held_release(MESSAGES),
        "ring": lambda: ring(MESSAGES),
    },
    f"{QUARTER} messages of clients in virtual time": {
        "simulate": lambda: simulate(shop(QUARTER), message_limit=QUARTER),
        "simulate_with_trace": lambda: simulated_with_trace(QUARTER),
        # Only depths and waits, as a map of settings asks of each of its runs.
        "simulate_measured": lambda: measure(set_up(shop(QUARTER), QUARTER), shop(QUARTER)),
        "simpy_store_with_times": lambda: store_with_times(QUARTER),
    },
    "single acts": {
        "lab_frame_2000_messages": lambda: flow_run(messages=2_000),
        "snapshot_and_restore_1000_messages": lambda: Broker.restore(filled(1_000).snapshot()),
    },
}
GROWTH: dict[str, tuple[Callable[[int], object], tuple[int, ...]]] = {
    "messages on a queue": (backlog, (1_000, 10_000, 100_000, 1_000_000)),
    "messages in a SimPy store": (store_backlog, (1_000, 10_000, 100_000)),
    f"groups of {MESSAGES} messages": (lambda groups: grouped(MESSAGES, groups), (10, 100, 1_000, 10_000)),
    "held transfers": (held_release, (1_000, 10_000, 100_000)),
    "holes": (completed_with_holes, (1_000, 10_000, 100_000)),
}
"""Ten times as many of the first two and the last two should take ten times as long, groups the same time."""


NEEDED = pytest.mark.skipif(find_spec("pytest_benchmark") is None, reason="the extra bench is not installed")


@NEEDED
@pytest.mark.bench
@pytest.mark.parametrize(("group", "name"), [(group, name) for group in RATES for name in RATES[group]])
def test_rate_of_each_operation(benchmark, group, name):
    benchmark.group = group
    benchmark.pedantic(RATES[group][name], rounds=ROUNDS, warmup_rounds=1)


@NEEDED
@pytest.mark.bench
@pytest.mark.parametrize(("what", "size"), [(what, size) for what in GROWTH for size in GROWTH[what][1]])
def test_time_grows_with_the_size(benchmark, what, size):
    benchmark.group = f"by {what}"
    # A small one runs until about as many messages have passed as of a large one.
    benchmark.pedantic(GROWTH[what][0], (size,), rounds=max(3, min(50, 100_000 // size)))


def bytes_a_message(work: Callable[[int], object], messages: int) -> float:
    """Return the most memory that some work takes at once."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        made = work(messages)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del made
    return (most - before) / messages


def of_queue(name: str) -> Callable[[Broker], object]:
    """Return what reads a statistic of the queue that a workload filled."""
    return lambda broker: getattr(broker.queue("q").statistics(), name)


@pytest.mark.parametrize(
    ("work", "read", "seen"),
    [
        (lambda: life_cycle(10), of_queue("msgTotalDequeues"), 10),
        (lambda: backlog(200), of_queue("msgDepth"), 0),
        (lambda: fan_out(5), lambda broker: broker.statistics().totals["msgTotalDequeues"], 50),
        (lambda: grouped(100, 10), of_queue("msgDepth"), 0),
        (lambda: held_release(100), lambda broker: len(broker.sessions["p"].held), 0),
        (
            lambda: completed_with_holes(6),
            lambda broker: str(broker.sessions["p"].completions.reported),
            "0-3 5 7",
        ),
        (lambda: ring(20, limit=5), of_queue("discardsRing"), 15),
        (lambda: store_backlog(250), int, 250),
        (lambda: store_life_cycle(250), int, 250),
    ],
)
def test_a_workload_does_what_it_is_measured_for(work, read, seen):
    assert read(work()) == seen


def test_a_message_on_a_queue_is_small():
    assert bytes_a_message(filled, 20_000) < 400 < bytes_a_message(simulated_with_trace, 2_000)
