"""A consumer's own work: how long it took for each message, and whether that is what its workload states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from qflow.trace.log_rows import LogRow
from qflow.trace.producer_work import FEW
from qflow.workload.agenda import SECOND
from qflow.workload.clients import Consumer
from qflow.workload.service import Service

EARLY = 200
"""Microseconds by which a service may seem shorter than its draw, as clocks go."""

LATE = 2_000
"""Microseconds: services that usually take that much longer than the draws are not these draws."""


def served(model: Consumer, rows: Sequence[LogRow], sources: dict[str, str], *, draws: bool) -> Consumer:
    """Return a consumer as its log shows it, and note where its times come from: its draws, or the log.

    Examples
    --------
    >>> sources = {}
    >>> served(Consumer("c", "q", 1, ("const", 0.01)), [], sources, draws=True).name, sources
    ('c', {'c': 'stated'})
    """
    works = works_of(rows)
    ends = [row.ts_us / SECOND for row in rows if row.event == "error"]
    if ends and model.crash is None:
        model = replace(model, crash=max(model.start, ends[0]))
    sources[model.name] = "recorded"
    if not works:
        sources[model.name] = "stated"
        return model
    overhead = _overhead(model, works) if draws else None
    if overhead is not None:
        sources[model.name] = "stated"
        return replace(model, overhead=overhead)
    times = tuple(max(1, end - begin) / SECOND for begin, end, _ in works)
    released, rejected = (
        sum(verdict == kind for _, _, verdict in works) / len(works) for kind in ("release", "reject")
    )
    return replace(
        model, service=("recorded", times), slow=(), overhead=(), release=released, reject=rejected
    )


def works_of(rows: Sequence[LogRow]) -> list[tuple[int, int, str]]:
    """Return (begin, end, verdict) of each message a consumer worked on, one at a time.

    Examples
    --------
    >>> works_of([LogRow(5, "c", "deliver", "q", "p-1", 7, ""), LogRow(9, "c", "accept", "q", "p-1", 0, "")])
    [(5, 9, 'accept')]
    """
    arrived: dict[str, int] = {}
    works: list[tuple[int, int, str]] = []
    free = 0
    for row in rows:
        if row.event == "deliver":
            arrived[row.label] = row.ts_us
        elif row.event in ("accept", "release", "reject"):
            works.append((max(free, arrived.get(row.label, free)), row.ts_us, row.event))
            free = row.ts_us
    return works


def _overhead(model: Consumer, works: Sequence[tuple[int, int, str]]) -> tuple[float, ...] | None:
    """Return by how much each service took longer than its draw; None if these are not the draws."""
    if model.service[0] == "recorded" or model.overhead:
        return None
    service = Service(model)
    overhead: list[int] = []
    right = 0
    for begin, end, verdict in works:
        overhead.append(end - begin - service.time(begin))
        right += service.verdict() == verdict
    early = sum(item < -EARLY for item in overhead)
    if len(works) < FEW or right < len(works) or early > len(works) // 50:
        return None
    if median(overhead) > LATE:
        return None
    return tuple(item / SECOND for item in overhead)
