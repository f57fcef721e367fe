"""The benchmark: what it prints and refuses; how long things take is asserted nowhere."""

import os

import pytest
import rates as benchmark

from qflow.kit import form
from qflow.progress import StatusLine

SIZES = {"MESSAGES": 20_000, "LARGEST": 1_000_000}


@pytest.mark.bench
def test_the_rates_of_this_machine(capsys):
    """Print rates, ratios, growth and memory: of so many messages, and of growth up to so many."""
    messages, largest = (int(os.environ.get(f"QFLOW_BENCH_{name}", n)) for name, n in SIZES.items())
    with capsys.disabled():
        line = StatusLine()
        results = benchmark.measure(messages, largest, lambda name: line.show(f"{name} ..."))
        line.end()
        print(benchmark.text_of(results))


@pytest.mark.release
def test_it_measures_rates_ratios_growth_and_memory(monkeypatch):
    # What is measured does not depend on how often.
    monkeypatch.setattr(benchmark, "ROUNDS", 1)
    results = benchmark.measure(100, 1_000)
    assert "life_cycle" in benchmark.text_of(results).replace(" ", "_")
    assert results["form"] == form()
    assert {"life_cycle", "fan_out_to_10", "groups", "held_release", "ring"} <= set(results["rates"])
    ours = {"messages_on_a_queue", "groups", "held_transfers", "holes"}
    theirs = {"messages_in_a_simpy_store"} if benchmark.has_simpy() else set()
    assert set(results["growth"]) == ours | theirs
    lab = ("frame", "first_picture", "whole_run")
    labs = {f"lab_{part}_100_messages" for part in lab}
    maps = {"map_of_9_settings_on_all_cores", "map_of_9_settings_on_one"}
    assert {"seek"} | labs | maps <= set(results["milliseconds"])
    assert {"trace_to_no_trace", "map_on_all_cores_to_one"} <= set(results["ratios"])
    assert results["memory"]["bytes_a_simulated_message_with_trace"] > results["memory"]["bytes_a_message"]
    pairs = {"life_cycle_to_simpy_store", "life_cycle_to_simpy_life_cycle", "backlog_of_1000_to_simpy_store"}
    assert pairs <= set(results["ratios"]) if benchmark.has_simpy() else not pairs & set(results["ratios"])


def of_queue(name: str):
    """Return what reads a statistic of the queue that a workload filled."""
    return lambda broker: getattr(broker.queue("q").statistics(), name)


@pytest.mark.parametrize(
    ("work", "read", "seen"),
    [
        (lambda: benchmark.life_cycle(10), of_queue("msgTotalDequeues"), 10),
        (lambda: benchmark.backlog(200), of_queue("msgDepth"), 0),
        (lambda: benchmark.fan_out(5), lambda broker: broker.statistics().totals["msgTotalDequeues"], 50),
        (lambda: benchmark.grouped(100, 10), of_queue("msgDepth"), 0),
        (lambda: benchmark.held_release(100), lambda broker: len(broker.sessions["p"].held), 0),
        (
            lambda: benchmark.completed_with_holes(6),
            lambda broker: str(broker.sessions["p"].completions.reported),
            "0-3 5 7",
        ),
        (lambda: benchmark.ring(20, limit=5), of_queue("discardsRing"), 15),
    ],
)
def test_a_workload_does_what_it_is_measured_for(work, read, seen):
    assert read(work()) == seen


@pytest.mark.skipif(not benchmark.has_simpy(), reason="SimPy is not installed")
def test_a_store_gets_all_that_was_put():
    assert (benchmark.store_backlog(250), benchmark.store_life_cycle(250)) == (250, 250)


def test_a_message_on_a_queue_is_small():
    assert benchmark._bytes_a_message(benchmark.filled, 20_000) < 400
