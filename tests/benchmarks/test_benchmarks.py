"""How long things take, by pytest-benchmark: ``pytest -n 0 tests/benchmarks``; not part of the test run.

No time is asserted here; what is asserted is that the work was done, and the same work as ever.
"""

import subprocess
import sys
from pathlib import Path

import pytest

import qflow
from qflow.labs.experiments import flow_run
from qflow.maintain import benchmark as peers
from qflow.maintain import benchmark as workloads
from qflow.trace.replaying import replay
from qflow.trace.timeline import Timeline

pytest.importorskip("pytest_benchmark")

MESSAGES = 5_000


def test_import(benchmark):
    """A fresh Python imports qflow; a good part of it is Python's own start."""
    top = str(Path(qflow.__file__).parent.parent)
    code = f"import sys; sys.path.insert(0, {top!r}); import qflow; print(qflow.__version__)"
    command = [sys.executable, "-I", "-c", code]
    done = benchmark(subprocess.run, command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{qflow.__version__}\n"


def test_life_cycle(benchmark):
    broker = benchmark(workloads.life_cycle, MESSAGES)
    assert broker.queue("q").statistics().msgTotalDequeues == MESSAGES
    assert broker.state_hash() == workloads.life_cycle(MESSAGES).state_hash()


def test_life_cycle_with_trace(benchmark):
    def work():
        events = []
        return workloads.life_cycle(MESSAGES, events.append), events

    broker, events = benchmark(work)
    # The session of the reader, its subscription and its credit come before the messages.
    assert len(events) == 10 * MESSAGES + 10
    assert broker.state_hash() == workloads.life_cycle(MESSAGES).state_hash()


def test_fan_out_to_10(benchmark):
    broker = benchmark(workloads.fan_out, MESSAGES // 10)
    assert broker.statistics().totals["msgTotalDequeues"] == MESSAGES


@pytest.mark.parametrize("groups", [10, 100, 1_000])
def test_groups(benchmark, groups):
    broker = benchmark(workloads.grouped, MESSAGES, groups)
    assert broker.queue("q").statistics().msgTotalDequeues == MESSAGES


@pytest.mark.parametrize("messages", [1_000, 10_000])
def test_backlog(benchmark, messages):
    broker = benchmark(workloads.backlog, messages)
    assert broker.queue("q").statistics().msgTotalDequeues == messages


def test_held_release(benchmark):
    broker = benchmark(workloads.held_release, MESSAGES)
    assert not broker.sessions["p"].held
    assert broker.queue("q").statistics().flowStoppedCount == 1


def test_completions_with_holes(benchmark):
    broker = benchmark(workloads.completed_with_holes, MESSAGES)
    assert len(broker.sessions["p"].held) == MESSAGES // 2
    assert len(broker.sessions["p"].completions.reported) == 3 + MESSAGES // 2


def test_ring(benchmark):
    broker = benchmark(workloads.ring, MESSAGES)
    assert broker.queue("q").statistics().discardsRing == MESSAGES - 1_000


def test_snapshot_and_restore(benchmark):
    broker = workloads.filled(1_000)
    twin = benchmark(workloads.saved_and_restored, broker)
    assert twin.state_hash() == broker.state_hash()


def test_seek(benchmark):
    trace = workloads.traced(500)
    timeline = Timeline(trace)

    def work():
        timeline.seek(len(trace) // 3)
        timeline.seek(len(trace) - 1)
        return timeline.broker

    assert benchmark(work).queue("q").statistics().msgTotalEnqueues == 500


def test_lab_frame(benchmark):
    picture = benchmark(flow_run, messages=2_000)
    assert picture.frames.count == flow_run(messages=2_000).frames.count


def test_trace_write(benchmark, tmp_path):
    trace = workloads.traced(500)
    assert benchmark(workloads.written, trace, tmp_path).stat().st_size


def test_trace_replay(benchmark):
    trace = workloads.traced(500)
    assert benchmark(replay, trace) == trace


@pytest.mark.skipif("simpy" not in peers.installed(), reason="SimPy is not installed")
@pytest.mark.parametrize(
    "work", [peers.store_put_and_get, peers.store_backlog, peers.store_life_cycle, peers.store_with_times]
)
def test_simpy(benchmark, work):
    assert benchmark(work, MESSAGES) == MESSAGES


@pytest.mark.skipif("ciw" not in peers.installed(), reason="Ciw is not installed")
def test_ciw(benchmark):
    assert benchmark(peers.ciw_queue, 1_000) == 1_000
