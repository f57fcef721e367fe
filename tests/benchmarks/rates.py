"""How fast the engine is: workloads, the same made of SimPy's Stores, and what their times say.

Each workload is a function that runs it and returns the broker, or what it made. SimPy's Store runs
the same where it is installed. Rates of one machine say little, so what counts are ratios within one run:
with the peers, with more messages, with and without a trace.
"""

from __future__ import annotations

import gc
import sys
import tempfile
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Generator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from qflow.broker import BYTE_UNIT, INFINITE, MESSAGE_UNIT, Broker, Message
from qflow.broker.consuming import DeliveryRecord
from qflow.broker.events import EventTable, Observer
from qflow.broker.session import Session
from qflow.kit import form
from qflow.workload.stage import pause_collector

if TYPE_CHECKING:
    from qflow.design.settings_map import SettingsMap
    from qflow.trace.schema import Trace
    from qflow.workload.measured import Measured
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


def saved_and_restored(broker: Broker) -> Broker:
    """Take a snapshot and restore a broker from it."""
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


def measured(messages: int) -> Measured:
    """Simulate a workload and keep only what a map of settings asks of each of its runs."""
    from qflow.workload.measured import measure
    from qflow.workload.simulate import set_up

    workload = shop(messages)
    return measure(set_up(workload, messages), workload)


def traced(messages: int) -> Trace:
    """Simulate a workload and keep everything as a trace, which makes text when a row is read."""
    from qflow.trace.replaying import trace_of

    return trace_of(simulated(messages))


def written(trace: Trace, folder: Path) -> Path:
    """Write a trace as Parquet if pyarrow is installed, else as JSON lines."""
    from qflow.trace.files import write_trace

    path = folder / ("bench.parquet" if find_spec("pyarrow") else "bench.jsonl.gz")
    write_trace(trace, path)
    return path


def drawn(messages: int) -> object:
    """Run a lab's workload as after a move of a slider, and return what the browser gets of the whole run."""
    from qflow.labs.experiments import flow_workload
    from qflow.labs.running import draw_steps, finish_steps

    return finish_steps(draw_steps(flow_workload(), messages)).payload()


def first_drawn(messages: int, looked_at: int) -> object:
    """Return what the browser gets first of such a run: all until an instant, in microseconds."""
    from qflow.labs.experiments import flow_workload
    from qflow.labs.running import SoFar, draw_steps

    steps = draw_steps(flow_workload(), messages)
    part = next(steps)
    assert isinstance(part, SoFar)
    while part.time <= looked_at:
        part = cast(SoFar, steps.send(looked_at))
    shown = part.draw(looked_at).payload()
    steps.close()
    return shown


def mapped(cells: int, messages: int, processes: int | None = None) -> SettingsMap:
    """Run a map of settings, as a lab does; on all cores, unless they are given."""
    from qflow.design.settings_map import plan_map
    from qflow.labs.experiments import flow_workload

    return plan_map(flow_workload, {}, "stop", "capacity", cells, messages).run(processes)


def has_simpy() -> bool:
    """Return whether SimPy is installed."""
    return find_spec("simpy") is not None


def store_put_and_get(messages: int, is_backlog: bool = False) -> int:
    """Let one SimPy process put messages into a Store, and another get them; return how many it got.

    Two operations for each message.  A Store knows no accept, no completion, no limits and no thresholds:
    it is the least that a queue can be.  Of a backlog, all are put before the first is got: a Store takes the
    first of its items off a list, and moves all the others up.
    """
    import simpy

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
    import simpy

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
    from random import Random

    import simpy

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


ROUNDS = 5
LARGEST = 1_000_000
GROWTH_TURNS = 5
GROWTH_MESSAGES = 100_000
"""Of each size about so many messages are run in one turn, or more if it has more."""
FRAME = 2_000
"""Messages of a run that a lab draws after each move of a slider."""
WHOLE = 100_000
"""Messages of the longest run that a lab is asked to draw."""
CELLS = 30
"""Rows and columns of a map of settings."""
_OUR_BACKLOG, _THEIR_BACKLOG = "messages_on_a_queue", "messages_in_a_simpy_store"
Tell = Callable[[str], None]
Work = tuple[int, Callable[[], object]]
"""How many messages it has, and what runs it."""


def seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the shortest of some runs, in seconds of this process alone, without the garbage collector.

    Seconds of the processor, not of the clock on the wall: other work on the machine disturbs them less.
    """
    taken = []
    for _ in range(rounds):
        gc.collect()
        with pause_collector():
            start = time.process_time()
            made = work()
            taken.append(time.process_time() - start)
        del made
    return min(taken)


def measure(messages: int = 20_000, largest: int = LARGEST, tell: Tell = lambda name: None) -> dict[str, Any]:
    """Run all benchmarks.

    Parameters:
        messages: How many messages each workload has.
        largest: How far growth is followed: messages on one queue.
        tell: Called with the name of each benchmark before it runs.

    Returns:
        ``form``, ``python``; ``rates`` in messages a second; ``growth``, microseconds a message by size, with
        the ratio of the most to the least; ``ratios``; ``milliseconds`` of single acts; ``memory`` in bytes.
    """
    rates = _rates({**_ours(messages), **_theirs(messages)}, tell)
    growth = _all_growth(messages, largest, tell)
    acts = _acts(min(messages, FRAME), min(WHOLE, largest // 10), tell)
    maps = _maps(min(messages, FRAME), tell)
    everywhere, alone = (spent / size for spent, size in maps.values())
    return {
        "form": form(),
        "python": sys.version.split()[0],
        "messages": messages,
        "rates": rates,
        "ratios": {**_ratios(rates), **_deep_ratios(growth), "map_on_all_cores_to_one": alone / everywhere},
        "growth": growth,
        "milliseconds": {**acts, **{name: spent for name, (spent, _) in maps.items()}},
        "memory": _memory(tell),
    }


def _ours(messages: int) -> dict[str, Work]:
    def with_trace() -> object:
        # A trace is wanted: as of every other work, what it makes is kept, not thrown away.
        table = EventTable()
        return life_cycle(messages, table), table

    tenth, quarter = messages // 10, messages // 4
    return {
        "life_cycle": (messages, lambda: life_cycle(messages)),
        "life_cycle_with_trace": (messages, with_trace),
        "fan_out_to_10": (tenth, lambda: fan_out(tenth)),
        "groups": (messages, lambda: grouped(messages, tenth)),
        "held_release": (messages, lambda: held_release(messages)),
        "ring": (messages, lambda: ring(messages)),
        "simulate": (quarter, lambda: simulated(quarter)),
        "simulate_with_trace": (quarter, lambda: traced(quarter)),
        "simulate_measured": (quarter, lambda: measured(quarter)),
    }


def _theirs(messages: int) -> dict[str, Work]:
    works: dict[str, Work] = {}
    if has_simpy():
        works["simpy_store"] = messages, lambda: store_put_and_get(messages)
        works["simpy_life_cycle"] = messages, lambda: store_life_cycle(messages)
        works["simpy_store_with_times"] = messages, lambda: store_with_times(messages)
    return works


def _rates(works: Mapping[str, Work], tell: Tell) -> dict[str, float]:
    """Return messages a second, of the shortest of some runs.

    The works take turns: a machine that is faster for a while is so for all of them, and ratios stay true.
    """
    shortest = dict.fromkeys(works, float("inf"))
    for number in range(1, ROUNDS + 1):
        for name, (_, work) in works.items():
            tell(f"{name} ({number} of {ROUNDS})")
            shortest[name] = min(shortest[name], seconds(work, 1))
    return {name: messages / shortest[name] for name, (messages, _) in works.items()}


def _ratios(rates: Mapping[str, float]) -> dict[str, float]:
    pairs = {
        "life_cycle_to_simpy_store": ("life_cycle", "simpy_store"),
        "life_cycle_with_trace_to_simpy_store": ("life_cycle_with_trace", "simpy_store"),
        "life_cycle_to_simpy_life_cycle": ("life_cycle", "simpy_life_cycle"),
        "life_cycle_with_trace_to_simpy_life_cycle": ("life_cycle_with_trace", "simpy_life_cycle"),
        "simulate_to_simpy_store": ("simulate", "simpy_store_with_times"),
        "simulate_with_trace_to_simpy_store": ("simulate_with_trace", "simpy_store_with_times"),
        "trace_to_no_trace": ("life_cycle_with_trace", "life_cycle"),
    }
    return {name: rates[one] / rates[other] for name, (one, other) in pairs.items() if other in rates}


def _sizes(least: int, most: int) -> list[int]:
    sizes = [least]
    while sizes[-1] * 10 <= most:
        sizes.append(sizes[-1] * 10)
    return sizes


def _growth(
    sizes: list[int], work: Callable[[int], object], tell: Tell, messages: int | None = None
) -> dict[str, Any]:
    """Return microseconds a message for each size, and the ratio of the most to the least.

    The sizes take turns, a small one runs until about as many messages have passed as of a large one, and the
    turn that was disturbed least counts: the shortest of many short runs would be a lucky moment, which no
    long run has.  What a large one costs more is mostly the system's, which hands new memory out page by
    page; a small one gets again what the one before it gave back.
    """
    work(sizes[0])  # the first run of anything is slower
    cost: dict[int, list[float]] = {size: [] for size in sizes}
    # What is there already need not be looked through after each of many short runs.
    gc.freeze()
    try:
        for turn in range(1, GROWTH_TURNS + 1):
            for size in sizes:
                tell(f"{getattr(work, '__name__', 'groups')} {size} ({turn} of {GROWTH_TURNS})")
                each = messages or size
                runs = max(1, min(GROWTH_MESSAGES, sizes[-1]) // each)
                spent = sum(seconds(lambda size=size: work(size), 1) for _ in range(runs))  # type: ignore[misc]
                cost[size].append(1e6 * spent / runs / each)
    finally:
        gc.unfreeze()
    least = {str(size): min(found) for size, found in cost.items()}
    return {"microseconds": least, "ratio": max(least.values()) / min(least.values())}


def _all_growth(messages: int, largest: int, tell: Tell) -> dict[str, Any]:
    fewer = _sizes(1_000, largest // 10)
    growth = {
        _OUR_BACKLOG: _growth(_sizes(1_000, largest), backlog, tell),
        "groups": _growth(
            [count for count in (10, 100, 1_000, 10_000) if count <= messages],
            lambda groups: grouped(messages, groups),
            tell,
            messages,
        ),
        "held_transfers": _growth(fewer, held_release, tell),
        "holes": _growth(fewer, completed_with_holes, tell),
    }
    if has_simpy():
        growth[_THEIR_BACKLOG] = _growth(fewer, store_backlog, tell)
    return growth


def _deep_ratios(growth: Mapping[str, Any]) -> dict[str, float]:
    """Return how a backlog compares with one in a Store, at the largest size both have."""
    if _THEIR_BACKLOG not in growth:
        return {}
    ours, theirs = (growth[name]["microseconds"] for name in (_OUR_BACKLOG, _THEIR_BACKLOG))
    size = max((size for size in theirs if size in ours), key=int)
    return {f"backlog_of_{size}_to_simpy_store": theirs[size] / ours[size]}


def _acts(messages: int, whole: int, tell: Tell) -> dict[str, float]:
    from qflow.labs.experiments import flow_run
    from qflow.trace.replaying import Replay
    from qflow.trace.timeline import Timeline

    tell("trace")
    broker, trace = filled(messages // 2), traced(messages)
    timeline = Timeline(trace)
    places = [len(trace) * part // 7 for part in (3, 1, 6, 2, 5, 4)]
    frames = flow_run(messages=messages).frames
    looked_at = frames.at(frames.most_telling())["time"]

    def seek() -> object:
        for place in places:
            timeline.seek(place)
            seen = timeline.broker
        return seen

    with tempfile.TemporaryDirectory(prefix="qflow-bench-") as folder:
        works: dict[str, Callable[[], object]] = {
            f"lab_frame_{messages}_messages": lambda: flow_run(messages=messages),
            f"lab_whole_run_{whole}_messages": lambda: drawn(whole),
            f"lab_first_picture_{whole}_messages": lambda: first_drawn(whole, looked_at),
            f"snapshot_and_restore_{messages // 2}_messages": lambda: saved_and_restored(broker),
            f"simulate_{messages}_messages": lambda: simulated(messages),
            f"trace_{messages}_messages": lambda: traced(messages),
            f"trace_write_{messages}_messages": lambda: written(trace, Path(folder)),
            f"trace_replay_{messages}_messages": lambda: Replay(trace).run(),
        }
        taken = {}
        for name, work in works.items():
            tell(name)
            taken[name] = 1e3 * seconds(work, 2 if "whole" in name else ROUNDS)
    tell("seek")
    taken["seek"] = 1e3 * seconds(seek) / len(places)
    return taken


def _maps(messages: int, tell: Tell) -> dict[str, tuple[float, int]]:
    """Return the milliseconds of a map of settings on all cores and of a smaller one on one, and their sizes.

    Milliseconds of the clock on the wall: it is the waiting that several cores shorten.
    """
    found = {}
    mapped(2, messages)  # starts the processes
    for cells, processes, where in ((CELLS, None, "on_all_cores"), (CELLS // 3, 1, "on_one")):
        cells = cells if messages == FRAME else 3
        name = f"map_of_{cells * cells}_settings_{where}"
        tell(name)
        start = time.monotonic()
        size = len(mapped(cells, messages, processes))
        found[name] = 1e3 * (time.monotonic() - start), size
    return found


def _memory(tell: Tell) -> dict[str, float]:
    tell("memory")
    return {
        "bytes_a_message": _bytes_a_message(filled, 20_000),
        "bytes_a_simulated_message_with_trace": _bytes_a_message(traced, 5_000),
    }


def _bytes_a_message(work: Callable[[int], object], messages: int) -> float:
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


PEERS = (
    "  life cycle: transfer, route, deliver, accept, dequeue, complete, by the broker's rules, one by one",
    "  with trace: ten events of each message kept in columns, and not read",
    "  SimPy store: put and get, the least that a queue can be",
    "  backlog: all messages are put on a queue, or into a Store, before the first is read",
    "  SimPy life cycle: a place in the window, put, get, accept, the place back: five Store operations",
    "  simulate: clients and broker, all events of each message kept; with trace: as a trace, unread",
    "  measured: clients and broker, and of all that happens only depths and waits, as for a map of settings",
    "  SimPy store with times: the arrivals and service times of the simulated workload, and no more",
)


def text_of(results: Mapping[str, Any]) -> str:
    """Return what was measured as text for people.

    >>> print(text_of({"form": "compiled", "python": "3.11", "messages": 5, "rates": {"ring": 10.4}}))
    The engine is compiled, under Python 3.11; each workload has 5 messages.
    <BLANKLINE>
    Messages a second
      ring                                                   10
    """
    lines = [
        f"The engine is {results['form']}, under Python {results['python']}; "
        f"each workload has {results['messages']} messages."
    ]
    for key, title, shown in (
        ("rates", "Messages a second", "{:,.0f}"),
        ("ratios", "Ratios of rates in this run", "{:.2f}"),
        ("milliseconds", "Milliseconds", "{:.1f}"),
        ("memory", "Memory in bytes", "{:,.0f}"),
    ):
        if key in results:
            lines += ["", title, *(_line(name, shown.format(value)) for name, value in results[key].items())]
        if key == "ratios" and key in results:
            lines += ["", *PEERS]
    for name, growth in results.get("growth", {}).items():
        lines += ["", f"Microseconds a message, by {name.replace('_', ' ')}"]
        lines += [_line(f"{int(size):,}", f"{cost:.2f}") for size, cost in growth["microseconds"].items()]
        lines.append(_line("most to least", f"{growth['ratio']:.2f}"))
    return "\n".join(lines)


def _line(name: str, value: str) -> str:
    return f"  {name.replace('_', ' '):<44}{value:>13}"
