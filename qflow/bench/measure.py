"""Running the workloads, and what their times say: rates, growth, ratios, memory."""

from __future__ import annotations

import gc
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from qflow.bench import peers, workloads
from qflow.broker.event_table import EventTable
from qflow.form import form
from qflow.workload.stage import uncollected

ROUNDS = 5
LARGEST = 1_000_000
FRAME = 2_000
"""Messages of a run that a lab draws after each move of a slider."""
_OUR_BACKLOG, _THEIR_BACKLOG = "messages_on_a_queue", "messages_in_a_simpy_store"
Tell = Callable[[str], None]
Work = tuple[int, Callable[[], object]]
"""How many messages it has, and what runs it."""


def seconds(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Return the shortest of some runs, in seconds of this process alone, without the garbage collector.

    Seconds of the processor, not of the clock on the wall: other work on the machine disturbs them less.

    Examples
    --------
    >>> seconds(lambda: None) < 1
    True
    """
    taken = []
    for _ in range(rounds):
        gc.collect()
        with uncollected():
            start = time.process_time()
            made = work()
            taken.append(time.process_time() - start)
        del made
    return min(taken)


def measure(messages: int = 20_000, largest: int = LARGEST, tell: Tell = lambda name: None) -> dict[str, Any]:
    """Run all benchmarks.

    Parameters
    ----------
    messages : int
        How many messages each workload has.
    largest : int
        How far growth is followed: messages on one queue.
    tell : callable
        Told the name of each benchmark before it runs.

    Returns
    -------
    dict
        ``form``, ``python``; ``rates`` in messages a second; ``growth``, microseconds a message by size, with
        the ratio of the most to the least; ``ratios``; ``milliseconds`` of single acts; ``memory`` in bytes.
    """
    rates = _rates({**_ours(messages), **_theirs(messages)}, tell)
    growth = _all_growth(messages, largest, tell)
    return {
        "form": form(),
        "python": sys.version.split()[0],
        "messages": messages,
        "rates": rates,
        "ratios": {**_ratios(rates), **_deep_ratios(growth)},
        "growth": growth,
        "milliseconds": _acts(min(messages, FRAME), tell),
        "memory": _memory(tell),
    }


def _ours(messages: int) -> dict[str, Work]:
    def with_trace() -> object:
        # Who traces wants to have the trace: as of every other work, what it makes is kept, not thrown away.
        table = EventTable()
        return workloads.life_cycle(messages, table), table

    tenth, quarter = messages // 10, messages // 4
    return {
        "life_cycle": (messages, lambda: workloads.life_cycle(messages)),
        "life_cycle_with_trace": (messages, with_trace),
        "fan_out_to_10": (tenth, lambda: workloads.fan_out(tenth)),
        "groups": (messages, lambda: workloads.grouped(messages, tenth)),
        "held_release": (messages, lambda: workloads.held_release(messages)),
        "ring": (messages, lambda: workloads.ring(messages)),
        "simulate": (quarter, lambda: workloads.simulated(quarter)),
        "simulate_with_trace": (quarter, lambda: workloads.traced(quarter)),
    }


def _theirs(messages: int) -> dict[str, Work]:
    known = peers.installed()
    works: dict[str, Work] = {}
    if "simpy" in known:
        works["simpy_store"] = messages, lambda: peers.store_put_and_get(messages)
        works["simpy_life_cycle"] = messages, lambda: peers.store_life_cycle(messages)
        works["simpy_store_with_times"] = messages, lambda: peers.store_with_times(messages)
    if "ciw" in known:
        works["ciw"] = messages, lambda: peers.ciw_queue(messages)
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
        "simulate_with_trace_to_ciw": ("simulate_with_trace", "ciw"),
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
    """Return microseconds a message for each size; small sizes run more often."""
    cost = {}
    work(sizes[0])  # the first run of anything is slower
    for size in sizes:
        tell(f"{getattr(work, '__name__', 'groups')} {size}")
        rounds = max(1, min(5, 100_000 // (messages or size)))
        cost[str(size)] = 1e6 * seconds(lambda size=size: work(size), rounds) / (messages or size)  # type: ignore[misc]
    return {"microseconds": cost, "ratio": max(cost.values()) / min(cost.values())}


def _all_growth(messages: int, largest: int, tell: Tell) -> dict[str, Any]:
    fewer = _sizes(1_000, largest // 10)
    growth = {
        _OUR_BACKLOG: _growth(_sizes(1_000, largest), workloads.backlog, tell),
        "groups": _growth(
            [count for count in (10, 100, 1_000, 10_000) if count <= messages],
            lambda groups: workloads.grouped(messages, groups),
            tell,
            messages,
        ),
        "held_transfers": _growth(fewer, workloads.held_release, tell),
        "holes": _growth(fewer, workloads.completed_with_holes, tell),
    }
    if "simpy" in peers.installed():
        growth[_THEIR_BACKLOG] = _growth(fewer, peers.store_backlog, tell)
    return growth


def _deep_ratios(growth: Mapping[str, Any]) -> dict[str, float]:
    """Return how a backlog compares with one in a Store, at the largest size both have."""
    if _THEIR_BACKLOG not in growth:
        return {}
    ours, theirs = (growth[name]["microseconds"] for name in (_OUR_BACKLOG, _THEIR_BACKLOG))
    size = max((size for size in theirs if size in ours), key=int)
    return {f"backlog_of_{size}_to_simpy_store": theirs[size] / ours[size]}


def _acts(messages: int, tell: Tell) -> dict[str, float]:
    from qflow.labs.flow import flow_run
    from qflow.trace.replay_trace import replay
    from qflow.trace.timeline import Timeline

    tell("trace")
    broker, trace = workloads.filled(messages // 2), workloads.traced(messages)
    timeline = Timeline(trace)
    places = [len(trace) * part // 7 for part in (3, 1, 6, 2, 5, 4)]

    def seek() -> object:
        for place in places:
            timeline.seek(place)
            seen = timeline.broker
        return seen

    with tempfile.TemporaryDirectory(prefix="qflow-bench-") as folder:
        works: dict[str, Callable[[], object]] = {
            f"lab_frame_{messages}_messages": lambda: flow_run(messages=messages),
            f"snapshot_and_restore_{messages // 2}_messages": lambda: workloads.saved_and_restored(broker),
            f"simulate_{messages}_messages": lambda: workloads.simulated(messages),
            f"trace_{messages}_messages": lambda: workloads.traced(messages),
            f"trace_write_{messages}_messages": lambda: workloads.written(trace, Path(folder)),
            f"trace_replay_{messages}_messages": lambda: replay(trace),
        }
        taken = {}
        for name, work in works.items():
            tell(name)
            taken[name] = 1e3 * seconds(work)
    tell("seek")
    taken["seek"] = 1e3 * seconds(seek) / len(places)
    return taken


def _memory(tell: Tell) -> dict[str, float]:
    tell("memory")
    messages = 20_000
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        broker = workloads.filled(messages)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del broker
    return {"bytes_a_message": (after - before) / messages}
