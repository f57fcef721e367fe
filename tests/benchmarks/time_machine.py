"""How long the time machine and its explanations take: ``python tests/benchmarks/time_machine.py [DEPTH …]``.

A trace of 100,000 rows and more for each depth of queue; processor time, so that a busy machine counts
less. What is aimed at: any instant in under 20 ms, any answer in under 100 ms.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from random import Random

from qflow.trace.explain import explain
from qflow.trace.replaying import trace_of
from qflow.trace.schema import Trace
from qflow.trace.timeline import Timeline
from qflow.workload import Consumer, Producer, Workload, simulate

MESSAGES = 9_500
SUBJECTS = ("producer:p1", "queue:q", "consumer:c1", "message:p1-2000", "transfer:p2-1500")


def make_trace(depth: int) -> Trace:
    """Make a long run whose queue goes up and down between a depth and its half."""
    arguments = {"qpid.flow_stop_count": depth, "qpid.flow_resume_count": depth // 2, "qpid.max_size": 0}
    producers = (
        Producer("p1", ("", "q"), rate=600, capacity=50, size=100),
        Producer("p2", ("", "q"), rate=400, capacity=20, size=100, seed=3),
    )
    consumers = tuple(Consumer(f"c{n}", "q", prefetch=20, service=("exp", 0.004), seed=n) for n in (1, 2))
    workload = Workload("long", 200, {"q": arguments}, producers=producers, consumers=consumers)
    return trace_of(simulate(workload, message_limit=max(MESSAGES, 2 * depth)))


def memory() -> float:
    """Return the most that this process has taken so far, in megabytes; Linux counts in kilobytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def milliseconds(action: Callable[[], object]) -> float:
    """Return how much processor time something takes."""
    start = time.process_time()
    action()
    return 1000 * (time.process_time() - start)


def quantiles(times: list[float]) -> str:
    """Say the median, the 95th percentile and the most."""
    times.sort()
    median, high = times[len(times) // 2], times[len(times) * 95 // 100]
    return f"median {median:.1f}, 95 % {high:.1f}, most {times[-1]:.1f} ms"


def main(depths: list[int]) -> None:
    """Print the times for each depth."""
    for depth in depths:
        trace, random = make_trace(depth), Random(1)
        start, before = time.process_time(), memory()
        timeline = Timeline(trace)
        prepared, more = time.process_time() - start, memory() - before
        print(f"depth {depth}: {len(trace)} rows, prepared in {prepared:.1f} s, {more:.0f} MB")
        instants = [random.randrange(len(trace)) for _ in range(300)]
        print(f"  first seek: {seek(timeline, instants[0]):.1f} ms")
        print(f"  seek: {quantiles([seek(timeline, seq) for seq in instants])}")
        for subject in SUBJECTS:
            answers = [ask(timeline, seq, subject) for seq in instants[:100]]
            print(f"  explain {subject}: {quantiles(answers)}")


def seek(timeline: Timeline, seq: int) -> float:
    """Return the milliseconds until a state can be looked at."""
    timeline.seek(seq)
    return milliseconds(lambda: timeline.broker)


def ask(timeline: Timeline, seq: int, subject: str) -> float:
    """Return the milliseconds until a question is answered, once the state is there."""
    seek(timeline, seq)
    return milliseconds(lambda: explain(timeline, seq, subject))


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [900, 6_000])
