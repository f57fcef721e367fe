"""What the broker reported of its queues now and then, beside what the engine made of the log."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from qflow.trace.log_rows import LogRow
from qflow.workload.run import Run


class Agreement(NamedTuple):
    """How far the engine and the broker's own reports of a queue agree.

    Fields
    ------
    samples : int
        How many reports there are.
    mean_depth_difference, max_depth_difference : float, int
        Of msgDepth, without regard to sign.
    flow_differs : float
        Share of the reports in which flowStopped is not what the engine says.
    recorded_stops, engine_stops : int
        flowStoppedCount at the last report.
    """

    samples: int
    mean_depth_difference: float
    max_depth_difference: int
    flow_differs: float
    recorded_stops: int
    engine_stops: int


def agreements(rows: Sequence[LogRow], run: Run) -> dict[str, Agreement]:
    """Return for each queue that was reported how far the engine agrees.

    Examples
    --------
    >>> from qflow.workload import Workload, simulate
    >>> row = LogRow(50_000, "broker", "stats", "q", "[3, 444, false, 0, 1, 0, 0]", 0, "")
    >>> agreements([row], simulate(Workload("w", 1, {"q": {}})))["q"].max_depth_difference
    3
    """
    courses: dict[str, tuple[list[int], list[tuple[int, bool, int]]]] = {
        name: ([0], [(0, False, 0)]) for name in run.workload.queues
    }
    for event in run.events:
        if event.kind not in ("enqueued", "dequeued", "flow_stopped", "flow_resumed"):
            continue
        times, states = courses[event.queue]
        depth, stopped, stops = states[-1]
        if event.kind.startswith("flow_"):
            stopped = event.kind == "flow_stopped"
            stops += stopped
        else:
            depth += 1 if event.kind == "enqueued" else -1
        times.append(event.time)
        states.append((depth, stopped, stops))
    reports: dict[str, list[tuple[int, list[int]]]] = {}
    for row in rows:
        if row.event == "stats" and row.queue in courses and row.ts_us >= 0:
            reports.setdefault(row.queue, []).append((row.ts_us, json.loads(row.label)))
    return {name: _agreement(reports[name], *courses[name]) for name in courses if name in reports}


def _agreement(
    reports: Sequence[tuple[int, list[int]]], times: Sequence[int], states: Sequence[tuple[int, bool, int]]
) -> Agreement:
    differences: list[int] = []
    wrong = 0
    stops = recorded = 0
    for time, report in reports:
        depth, stopped, stops = states[bisect_right(times, time) - 1]
        differences.append(abs(report[0] - depth))
        wrong += bool(report[2]) != stopped
        recorded = report[3]
    count = len(reports)
    return Agreement(count, sum(differences) / count, max(differences), wrong / count, recorded, stops)
