"""Rows of clients that a workload has not, and deliveries to those that have not subscribed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qflow.trace.audit.findings import SECOND, Finding, Tolerance
from qflow.trace.log_rows import LogRow
from qflow.workload.model import Workload

NumberedRow = tuple[int, LogRow]
AT_CONSUMERS = ("deliver", "accept", "release", "reject")
AT_PRODUCERS = ("transfer", "complete", "block", "unblock")


def known_rows(
    rows: Sequence[LogRow], workload: Workload, tolerance: Tolerance
) -> tuple[list[NumberedRow], list[Finding]]:
    """Return the rows that belong to a workload's clients, each with its number; and findings for the others.

    Examples
    --------
    >>> rows = [LogRow(5, "x", "deliver", "q", "p-1", 7, "")]
    >>> known_rows(rows, Workload("w", 1, {"q": {}}), Tolerance(0, 0))[1][0].kind
    'not subscribed'
    """
    producers = {producer.name for producer in workload.producers}
    readers = {consumer.name: consumer for consumer in workload.consumers}
    known: list[NumberedRow] = []
    findings: list[Finding] = []
    for number, row in enumerate(rows, 1):
        if row.event in AT_CONSUMERS:
            reader = readers.get(row.client)
            if reader is None or reader.queue != row.queue:
                queues = _listed(name for name, one in readers.items() if one.queue == row.queue)
                findings.append(_stranger(number, row, f"{row.event} at {row.client!r}", queues, 0))
                continue
            early = round(reader.start * SECOND) - tolerance.skew - row.ts_us
            if early > 0:
                seen = f"{row.event} {early} us before it subscribes"
                findings.append(_stranger(number, row, seen, f"from {reader.start:g} s on", early))
                continue
        elif row.event in AT_PRODUCERS and row.client not in producers:
            allowed = f"the workload's producers: {_listed(producers)}"
            seen = f"{row.event} of {row.client!r}"
            findings.append(
                Finding(
                    number,
                    row.ts_us,
                    "unknown producer",
                    "CAP-01",
                    row.client,
                    row.queue,
                    row.label,
                    seen,
                    allowed,
                )
            )
            continue
        known.append((number, row))
    return known, findings


def _stranger(number: int, row: LogRow, seen: str, allowed: str, gap: int) -> Finding:
    kind, rule = "not subscribed", "CN-03"
    return Finding(
        number,
        row.ts_us,
        kind,
        rule,
        row.client,
        row.queue,
        row.label,
        seen,
        f"consumers of it: {allowed}",
        gap,
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
