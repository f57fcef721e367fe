"""Tolerance: what is no finding, as clients' clocks differ and what they do takes time to reach the broker.

A log shows both: a message that seems to arrive before it was sent, and how long a transfer that was alone on
its way took to be complete.  :class:`Ways` measures them in one pass, in memory that does not grow.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from qflow.logs.log_file import LogRow, forget_oldest
from qflow.workload.agenda import SECOND

_SHORTEST_LAG = 60_000
"""Microseconds: a settlement may wait for a delayed acknowledgement (40 to 44 ms) and for its turn."""

_LONGEST_LAG = 1_000_000

MOST_UNDER_WAY = 100_000
"""So many messages at most are remembered to measure their ways."""

MOST_WAYS = 1_000_000
"""So many measures at most are kept of them."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What is no finding, in microseconds.

    Parameters:
        skew: By how much the clients' clocks may differ.
        lag: How long what a client does may take to reach the broker, and the answer to come back.

    >>> Tolerance.estimate([])
    Tolerance(skew=0, lag=60000)
    """

    skew: int = SECOND
    lag: int = _LONGEST_LAG

    @classmethod
    def estimate(cls, rows: Sequence[LogRow]) -> Tolerance:
        """Estimate both from a whole log; a stream, whose end is not known, tolerates a second of each."""
        seen = Ways()
        for row in rows:
            seen.take(row)
        return seen.tolerance()

    def text(self) -> str:
        """Return both as the label of a component's ``begin`` has them."""
        return f"[{self.skew},{self.lag}]"

    @classmethod
    def of_text(cls, text: str) -> Tolerance:
        """Return what :meth:`text` wrote; ValueError if it is no such text."""
        values = json.loads(text)
        if not isinstance(values, list) or [type(value) for value in values] != [int, int] or min(values) < 0:
            allowed = "a list of skew and lag in microseconds, whole numbers from 0"
            raise ValueError(f"the label of a begin must be {allowed}, or empty, got {text!r}")
        return cls(*values)


class Ways:
    """Measures how long messages and completions were on their way in a log: for a Tolerance."""

    def __init__(self) -> None:
        # Whether all rows came in the order of their numbers; if not, they have to be read again in that.
        self.is_ordered = True
        self._last = -1
        self._sent: dict[str, int] = {}
        self._ahead: dict[str, list[int]] = {}
        self._ways, self._trips = _Sample(), _Sample()
        # Of a producer: how many are not complete; the one that is alone on its way, and since when.
        self._alone: dict[str, list[Any]] = {}

    def take_numbered(self, numbers: Sequence[int], rows: Sequence[LogRow]) -> None:
        """Take the next rows of a log, as long as they come in the order of their numbers."""
        for number, row in zip(numbers, rows, strict=True):
            self.is_ordered = self.is_ordered and number > self._last
            if not self.is_ordered:
                return
            self._last = number
            self.take(row)

    def take(self, row: LogRow) -> None:
        """Take a row, in the order of the log."""
        time, client, event, _, label, _, _ = row
        if event == "deliver":
            if label in self._sent:
                self._ways.add(time - self._sent[label])
            else:
                self._ahead.setdefault(label, []).append(time)
                forget_oldest(self._ahead, MOST_UNDER_WAY)
        elif event == "transfer":
            if label not in self._sent:
                self._sent[label] = time
                forget_oldest(self._sent, MOST_UNDER_WAY)
                for earlier in self._ahead.pop(label, ()):
                    self._ways.add(earlier - time)
            own = self._alone.setdefault(client, [0, "", 0])
            own[0] += 1
            own[1:] = (label, time) if own[0] == 1 else ("", 0)
        elif event in ("complete", "refused"):
            own = self._alone.setdefault(client, [0, "", 0])
            own[0] -= 1
            if label == own[1] and time - own[2] < _LONGEST_LAG:
                self._trips.add(time - own[2])

    def tolerance(self) -> Tolerance:
        """Return the tolerance that these times explain."""
        # If more than one in a hundred messages seems to arrive before it is sent, the clocks differ by that
        # much; if fewer do, these are findings.
        trips = sorted(self._trips.values)
        lag = 3 * _at(trips, 99) if len(trips) >= 100 else 0
        skew = max(0, -_at(sorted(self._ways.values), 1))
        return Tolerance(skew, min(_LONGEST_LAG, max(_SHORTEST_LAG, lag)))


class _Sample:
    """All values up to a number of them; of more, each second, each fourth, ..., the same in every run."""

    __slots__ = ("values", "_step", "_count")

    def __init__(self) -> None:
        self.values = array("q")
        self._step, self._count = 1, 0

    def add(self, value: int) -> None:
        self._count += 1
        if self._count % self._step == 0:
            self.values.append(value)
            if len(self.values) >= MOST_WAYS:
                self.values = self.values[1::2]
                self._step *= 2


def _at(ordered: Sequence[int], percent: int) -> int:
    return ordered[len(ordered) * percent // 100] if ordered else 0
