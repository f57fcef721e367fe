"""Tolerances: the clock differences and delays up to which an audit reports no finding.

A log shows both.  If a message seems to arrive before it was sent, clocks differ; and the round trip of a
transfer that was the client's only outstanding one is the delay.  :class:`Ways` measures them in one pass,
with bounded memory.
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
"""Microseconds; a settlement may wait for TCP's delayed acknowledgement (40 to 44 ms) and for the client."""

_LONGEST_LAG = 1_000_000

_LEAST_APART = 20_000
"""The smallest difference of a clock that is corrected, in microseconds; a smaller one is tolerated."""

_SHARE_EARLY = 5
"""The percentage of messages from a producer to a consumer that seem to arrive early if a clock is behind."""

MOST_UNDER_WAY = 100_000
"""The largest number of messages remembered to measure their delays."""

MOST_WAYS = 1_000_000
"""The largest number of delays kept."""


class Gap(NamedTuple):
    """An interval with missing rows: the times of the rows before and after it, and the estimated number."""

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
"""The largest number of labels that a doubt keeps as text; of more labels it keeps only the number."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """The intervals and messages that missing rows make uncertain, on which the audit reports no finding."""

    # gaps: The intervals in which rows are missing.
    # labels: The messages of which a row was quarantined.
    # unread: The number of quarantined rows that may be about any message.
    # is_reported: Whether this component reports the gaps; only one of a log's components does.

    gaps: tuple[Gap, ...] = ()
    labels: tuple[str, ...] = ()
    unread: int = 0
    is_reported: bool = True

    def __bool__(self) -> bool:
        return bool(self.gaps or self.labels or self.unread)

    def plain(self) -> list[Any]:
        """Return the doubt as a JSON value."""
        labels = self.labels if len(self.labels) <= _MOST_LABELS else ()
        unread = self.unread + len(self.labels) - len(labels)
        return [[list(gap) for gap in self.gaps], list(labels), unread, self.is_reported]

    @classmethod
    def of_plain(cls, value: list[Any]) -> Doubt:
        """Return the doubt from the JSON value of :meth:`plain`."""
        gaps, labels, unread, is_reported = value
        return cls(tuple(Gap(*gap) for gap in gaps), tuple(labels), unread, is_reported)

    def sentences(self) -> list[str]:
        """Return a sentence on the messages that cannot be judged, or []; gaps are reported as findings."""
        said = []
        if self.labels or self.unread:
            some = f"{format_count(len(self.labels), 'message')} ({format_names(self.labels)})"
            others = f"{self.unread} that no row names"
            what = " and ".join([some] * bool(self.labels) + [others] * bool(self.unread))
            said.append(f"not judged, as rows of them were quarantined or are missing: {what}")
        return said


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The clock difference and delay up to which an audit reports nothing, in microseconds.

    Parameters:
        skew: The largest tolerated difference between clients' clocks.
        lag: The longest tolerated round trip from a client to the broker and back.
        doubt: The intervals and messages that missing rows make uncertain.

    >>> Tolerance.estimate([])
    Tolerance(skew=0, lag=60000)
    """

    skew: int = SECOND
    lag: int = _LONGEST_LAG
    doubt: Doubt = field(default=Doubt(), repr=False)

    @classmethod
    def estimate(cls, rows: Sequence[LogRow]) -> Tolerance:
        """Estimate skew and lag from a whole log; a stream, whose end is unknown, uses a second for each."""
        seen = Ways()
        for row in rows:
            seen.take(row)
        return seen.tolerance()

    def plain(self) -> list[Any]:
        """Return the tolerance as a JSON value."""
        return [self.skew, self.lag, *([self.doubt.plain()] if self.doubt else [])]

    def text(self) -> str:
        """Return the tolerance as JSON text, for the label of a component's ``begin`` row."""
        return json.dumps(self.plain(), separators=(",", ":"))

    def unreported(self) -> Tolerance:
        """Return the same tolerance for a component that does not report the gaps."""
        return replace(self, doubt=replace(self.doubt, is_reported=False))

    @classmethod
    def of_plain(cls, value: Any) -> Tolerance:
        """Return the tolerance from the JSON value of :meth:`plain`, or raise a ValueError."""
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
        """Return the tolerance from the text of :meth:`text`, or raise a ValueError."""
        return cls.of_plain(json.loads(text))


@dataclass(slots=True)
class _Client:
    """The number of a client's outstanding transfers, and the label and time of a single outstanding one."""

    outstanding: int = 0
    alone: str = ""
    since: int = 0


class Ways:
    """Measures the transit times of messages and the round trips of completions, row by row."""

    def __init__(self) -> None:
        self._sent: dict[str, tuple[int, str]] = {}
        # Deliveries that precede their transfer in the log: consumer and time, by label.
        self._ahead: dict[str, list[tuple[str, int]]] = {}
        self._trips = _Sample()
        self._clients: dict[str, _Client] = {}
        # Transit times by producer and consumer.
        self._ways: dict[tuple[str, str], _Sample] = {}

    def take(self, row: LogRow) -> None:
        """Measure the next row of the log."""
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
        """Return the tolerance estimated from the measured times."""
        # If more than one in a hundred messages seem to arrive before they are sent, the clocks differ by
        # that time; if fewer do, these are findings.
        trips = sorted(self._trips.values)
        lag = 3 * _at(trips, 99) if len(trips) >= 100 else 0
        ways = sorted(way for sample in self._ways.values() for way in sample.values)
        return Tolerance(max(0, -_at(ways, 1)), min(_LONGEST_LAG, max(_SHORTEST_LAG, lag)))

    def offsets(self, *, is_ahead: bool = False) -> dict[str, int]:
        """Return the offset of each wrong clock in microseconds, negative for a clock that is behind."""
        # No message is received before it is sent. If the fastest messages seem to arrive too early, the
        # clocks differ by that time plus the transit time, which is about the time of a completion.
        # is_ahead: Whether to return also clocks that *may* be ahead, by at most the fastest message's time.
        # A queue that was never empty looks the same, so only an audit can distinguish them.
        trip = _at(sorted(self._trips.values), 10)
        apart: dict[tuple[str, str], int] = {}
        for pair, sample in self._ways.items():
            ways = sorted(sample.values)
            # Single messages that arrive early are not caused by a clock.
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
            # A clock that differs from all others is wrong; of only two clocks, the consumer's.
            wrong = [client for client, offs in by_client.items() if all(offs) and client not in offsets]
            if not wrong:
                return offsets
            worst = max(wrong, key=lambda client: len(by_client[client]))
            offsets[worst] = _at(sorted(by_client[worst]), 50)


class _Sample:
    """A bounded, deterministic sample of every n-th value; n doubles each time the sample is full."""

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
