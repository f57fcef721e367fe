"""Finding: something in a log that the rules do not allow; Tolerance: what clocks and chance explain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from qflow.trace.log_rows import LogRow
from qflow.trace.producer_work import round_trips

SECOND = 1_000_000
SHORTEST_LAG = 60_000
"""Microseconds: a settlement may wait for a delayed acknowledgement (40 to 44 ms) and for its turn."""

LONGEST_LAG = 1_000_000


class Finding(NamedTuple):
    """One thing that the rules do not allow.

    Fields
    ------
    row : int
        Of the log, from 1, the header not counted.
    time : int
        Microseconds since the start.
    kind : str
        What it is, such as ``completed while held``.
    rule : str
        The rule that it breaks, such as ``FC-15``.
    client, queue, message : str
        Whose row it is, and of what; empty if it is of none.
    seen : str
        What the log shows.
    allowed : str
        What the rules allow.
    gap : int
        By how many microseconds; by how many messages, if ``kind`` is ``credit exceeded``.

    Examples
    --------
    >>> Finding(7, 5_000, "never sent", "CM-01", "c", "q", "p-9", "delivered", "what was sent", 0).text()
    'row 7, 0.005 s: never sent (CM-01), c, q, p-9: delivered; allowed: what was sent'
    """

    row: int
    time: int
    kind: str
    rule: str
    client: str
    queue: str
    message: str
    seen: str
    allowed: str
    gap: int = 0

    def text(self) -> str:
        """Say it in one line."""
        what = ", ".join(part for part in (self.client, self.queue, self.message) if part)
        gap = f"; gap {self.gap}" if self.gap else ""
        place = f"row {self.row}, {self.time / SECOND:g} s"
        return f"{place}: {self.kind} ({self.rule}), {what}: {self.seen}; allowed: {self.allowed}{gap}"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What is no finding, in microseconds.

    Parameters
    ----------
    skew : int
        By how much the clients' clocks may differ.
    lag : int
        How long what a client does may take to reach the broker, and the answer to come back.

    Examples
    --------
    >>> Tolerance.estimated([])
    Tolerance(skew=0, lag=60000)
    """

    skew: int
    lag: int

    @classmethod
    def estimated(cls, rows: Sequence[LogRow]) -> Tolerance:
        """Estimate both from a log.

        Nothing arrives before it is sent.  If more than one in a hundred messages seems to, the clocks
        differ by that much; if fewer do, these are findings.
        """
        sent: dict[str, int] = {}
        ways: list[int] = []
        by_client: dict[str, list[LogRow]] = {}
        for row in rows:
            if row.event == "transfer":
                sent.setdefault(row.label, row.ts_us)
            if row.event in ("transfer", "complete"):
                by_client.setdefault(row.client, []).append(row)
        for row in rows:
            if row.event == "deliver" and row.label in sent:
                ways.append(row.ts_us - sent[row.label])
        trips = sorted(trip for own in by_client.values() for _, _, trip in round_trips(own))
        trips = [trip for trip in trips if trip < LONGEST_LAG]
        lag = 3 * _at(trips, 99) if len(trips) >= 100 else 0
        return cls(max(0, -_at(sorted(ways), 1)), min(LONGEST_LAG, max(SHORTEST_LAG, lag)))


def _at(ordered: Sequence[int], percent: int) -> int:
    return ordered[len(ordered) * percent // 100] if ordered else 0


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order of the log's rows."""
    return sorted(findings)
