"""Tolerance: the differences of clocks and the delays that an audit forgives.

A log shows both: a message that seems to arrive before it was sent, and how long a transfer that was alone on
its way took to be complete.  :class:`Ways` measures them in one pass, in memory that does not grow.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from qflow.logs.log_file import LogRow, forget_oldest
from qflow.wording import format_count, format_names
from qflow.workload.agenda import SECOND

_SHORTEST_LAG = 60_000
"""Microseconds: a settlement may wait for a delayed acknowledgement (40 to 44 ms) and for its turn."""

_LONGEST_LAG = 1_000_000

_LEAST_APART = 20_000
"""Microseconds between clocks that are corrected; less is tolerated."""

_SHARE_EARLY = 5
"""Percent of messages that arrive before they are sent, if a clock is behind."""

MOST_UNDER_WAY = 100_000
"""The most messages remembered to measure their delays."""

MOST_WAYS = 1_000_000
"""The most delays kept."""


class Gap(NamedTuple):
    """A time span with missing rows: the row before it, the row after it, and the estimated number."""

    begin: int
    end: int
    rows: int

    def text(self) -> str:
        """Return the gap in words.

        >>> Gap(12_100_000, 14_000_000, 400).text()
        'rows are missing between 12.1 s and 14 s (about 400)'
        """
        if self.end - self.begin <= 1:
            return f"rows are missing before {self.end / SECOND:g} s (at least {self.rows})"
        span = f"{self.begin / SECOND:g} s and {self.end / SECOND:g} s"
        return f"rows are missing between {span} (about {self.rows})"


_MOST_LABELS = 10_000
"""Labels that a doubt names; of more it knows only the number."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """What missing rows make uncertain, so that it convicts nobody."""

    # gaps: Spans of time of which rows are missing.
    # labels: Messages of which a row was quarantined.
    # unread: How many quarantined rows may be of any message.
    # is_reported: Whether the gaps are findings of this component; of several only one reports them.

    gaps: tuple[Gap, ...] = ()
    labels: tuple[str, ...] = ()
    unread: int = 0
    is_reported: bool = True

    def __bool__(self) -> bool:
        return bool(self.gaps or self.labels or self.unread)

    def plain(self) -> list[Any]:
        """Return the doubt as a plain value."""
        labels = self.labels if len(self.labels) <= _MOST_LABELS else ()
        unread = self.unread + len(self.labels) - len(labels)
        return [[list(gap) for gap in self.gaps], list(labels), unread, self.is_reported]

    @classmethod
    def of_plain(cls, value: list[Any]) -> Doubt:
        """Return the doubt from a plain value."""
        gaps, labels, unread, is_reported = value
        return cls(tuple(Gap(*gap) for gap in gaps), tuple(labels), unread, is_reported)

    def sentences(self) -> list[str]:
        """Return the messages that cannot be judged as a sentence, if there are any; gaps are findings."""
        said = []
        if self.labels or self.unread:
            some = f"{format_count(len(self.labels), 'message')} ({format_names(self.labels)})"
            others = f"{self.unread} that no row names"
            what = " and ".join([some] * bool(self.labels) + [others] * bool(self.unread))
            said.append(f"not judged, as rows of them were quarantined or are missing: {what}")
        return said


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The largest differences that are no finding, in microseconds.

    Parameters:
        skew: By how much the clients' clocks may differ.
        lag: How long what a client does may take to reach the broker, and the answer to come back.
        doubt: What missing rows make uncertain.

    >>> Tolerance.estimate([])
    Tolerance(skew=0, lag=60000)
    """

    skew: int = SECOND
    lag: int = _LONGEST_LAG
    doubt: Doubt = field(default=Doubt(), repr=False)

    @classmethod
    def estimate(cls, rows: Sequence[LogRow]) -> Tolerance:
        """Estimate skew and lag from a whole log; a stream, whose end is unknown, tolerates a second each."""
        seen = Ways()
        for row in rows:
            seen.take(row)
        return seen.tolerance()

    def plain(self) -> list[Any]:
        """Return the tolerance as a plain value."""
        return [self.skew, self.lag, *([self.doubt.plain()] if self.doubt else [])]

    def text(self) -> str:
        """Return the tolerance as the label of a component's ``begin``."""
        return json.dumps(self.plain(), separators=(",", ":"))

    def unreported(self) -> Tolerance:
        """Return the tolerance for a component whose gaps another component reports."""
        return replace(self, doubt=replace(self.doubt, is_reported=False))

    @classmethod
    def of_plain(cls, value: Any) -> Tolerance:
        """Return the tolerance from a plain value; ValueError for any other value."""
        is_one = isinstance(value, list) and [type(one) for one in value[:2]] == [int, int]
        if not is_one or min(value[:2]) < 0 or len(value) > 3:
            allowed = "a list of skew and lag in microseconds, whole numbers from 0"
            raise ValueError(f"the label of a begin must be {allowed}, or empty, got {json.dumps(value)!r}")
        try:
            return cls(value[0], value[1], Doubt.of_plain(value[2]) if value[2:] else Doubt())
        except (TypeError, ValueError):
            raise ValueError(f"the label of a begin has a doubt that makes no sense: {value[2]!r}") from None

    @classmethod
    def of_text(cls, text: str) -> Tolerance:
        """Return the tolerance from :meth:`text`; ValueError for any other text."""
        return cls.of_plain(json.loads(text))


@dataclass(slots=True)
class _Client:
    """A client's incomplete transfers, and the one that is alone on its way."""

    outstanding: int = 0
    alone: str = ""
    since: int = 0


class Ways:
    """A measurement of transit times of messages and completions, for a Tolerance."""

    def __init__(self) -> None:
        self._sent: dict[str, tuple[int, str]] = {}
        # Deliveries logged before their transfer: consumer and time.
        self._ahead: dict[str, list[tuple[str, int]]] = {}
        self._trips = _Sample()
        self._clients: dict[str, _Client] = {}
        # By producer and consumer.
        self._ways: dict[tuple[str, str], _Sample] = {}

    def take(self, row: LogRow) -> None:
        """Take the next row."""
        time, name, event, _, label, _, _ = row
        if event == "deliver":
            sent = self._sent.get(label)
            if sent is not None:
                sent_at, producer = sent
                self._note_transit(producer, name, time - sent_at)
            else:
                self._ahead.setdefault(label, []).append((name, time))
                forget_oldest(self._ahead, MOST_UNDER_WAY)
        elif event == "transfer":
            if label not in self._sent:
                self._sent[label] = time, name
                forget_oldest(self._sent, MOST_UNDER_WAY)
                for consumer, earlier in self._ahead.pop(label, ()):
                    self._note_transit(name, consumer, earlier - time)
            own = self._clients.get(name)
            if own is None:
                own = self._clients[name] = _Client()
            own.outstanding += 1
            own.alone, own.since = (label, time) if own.outstanding == 1 else ("", 0)
        elif event in ("complete", "refused"):
            own = self._clients.setdefault(name, _Client())
            own.outstanding -= 1
            if label == own.alone and time - own.since < _LONGEST_LAG:
                self._trips.add(time - own.since)

    def _note_transit(self, producer: str, consumer: str, way: int) -> None:
        sample = self._ways.get((producer, consumer))
        if sample is None:
            sample = self._ways[producer, consumer] = _Sample()
        sample.add(way)

    def tolerance(self) -> Tolerance:
        """Return the tolerance that fits the measured times."""
        # If more than one in a hundred messages seems to arrive before it is sent, the clocks differ by that
        # much; if fewer do, these are findings.
        trips = sorted(self._trips.values)
        lag = 3 * _at(trips, 99) if len(trips) >= 100 else 0
        ways = sorted(way for sample in self._ways.values() for way in sample.values)
        return Tolerance(max(0, -_at(ways, 1)), min(_LONGEST_LAG, max(_SHORTEST_LAG, lag)))

    def offsets(self, *, is_ahead: bool = False) -> dict[str, int]:
        """Return the microseconds by which each client's clock is ahead of the others; negative if behind."""
        # Nothing is received before it was sent: if the fastest messages seem to arrive too early, the clocks
        # differ by that and by the time of the way, which is about that of a completion.
        # is_ahead: Whether also clocks are returned that *may* be ahead, by at most the fastest message's
        # time.  A queue that was never empty shows the same, so that only an audit can tell.
        trip = _at(sorted(self._trips.values), 10)
        apart: dict[tuple[str, str], int] = {}
        for pair, sample in self._ways.items():
            ways = sorted(sample.values)
            # Of single messages that come too early no clock is the cause.
            is_behind = _at(ways, _SHARE_EARLY) < -_LEAST_APART
            least = _at(ways, 1) if is_behind else ways[0]
            is_apart = is_behind or (is_ahead and least - trip > _LEAST_APART)
            apart[pair] = least - trip if is_apart else 0
        offsets: dict[str, int] = {}
        while True:
            by_client: dict[str, list[int]] = {}
            for (producer, consumer), off in apart.items():
                rest = off - offsets.get(consumer, 0) + offsets.get(producer, 0) if off else 0
                rest = rest if abs(rest) > _LEAST_APART else 0
                by_client.setdefault(consumer, []).append(rest)
                by_client.setdefault(producer, []).append(-rest)
            # A clock that disagrees with all others is wrong; of two, the consumer's, which comes first.
            wrong = [client for client, offs in by_client.items() if all(offs) and client not in offsets]
            if not wrong:
                return offsets
            worst = max(wrong, key=lambda client: len(by_client[client]))
            offsets[worst] = _at(sorted(by_client[worst]), 50)


class _Sample:
    """A sample of values: all up to a limit; above it each second, then each fourth, deterministically."""

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
