"""Broker logs: read from qpidd's log file when each queue was ON, and which sessions died of a full queue.

An operator has this file even without any client log.  qpidd logs a line when a queue turns ON and when it
turns OFF, at level *info*, which it shows only if it was started with ``--log-enable info+``::

    Queue "orders": has reached 40 enqueued messages. Producer flow control activated.
    Queue "orders": has drained below the flow control resume level. Producer flow control deactivated.

"Has reached 40" is logged when message 41 arrives: the line names the stop threshold, not the depth (FC-14).
At level *debug*, ``Flow limit created`` gives all four thresholds; at level *trace*, there is a line for each
held transfer.  The end of a session because of a full queue is an *error*, which every log shows.

The options ``--log-time``, ``--log-hires-timestamp``, ``--log-category``, ``--log-level``, ``--log-thread``,
``--log-source``, ``--log-function`` and ``--log-prefix`` decide how each line begins, and syslog, journald or
a container's runtime may add a prefix.  Therefore a line is recognised by its message, and its time is
searched in all text before the message.  qpidd writes local time without a zone; a prefix may have a zone.

A debug log is long, with a hundred lines for each relevant one.  The file is therefore searched in blocks for
the phrases of the relevant lines, and only these lines become Python objects.

Source: the lines of Qpid C++ 1.40 in ``data/recordings/broker-logs``.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple

from qflow.kit import RefusalError
from qflow.logs.findings import Finding
from qflow.logs.foreign_columns import zone_of
from qflow.logs.log_file import LogError
from qflow.progress import Progress
from qflow.table import Tabular, columns_of
from qflow.trace.files import DAMAGE
from qflow.wording import format_count
from qflow.workload.agenda import SECOND

Ending = Literal["OFF", "broker stopped", "queue replaced", "not logged", "log ends"]
"""The reason for the end of an interval in which a queue was ON."""

_SHOWN = 3
"""The largest number of sessions that died of one queue and have a sentence each."""

_SHOWS_FLOW = "--log-enable info+ --log-hires-timestamp yes"
"""The options of qpidd with which its log shows flow control."""


class FlowSpell(NamedTuple):
    """An interval in which a queue was ON.

    Fields:
        queue: The name of the queue.
        begin_us, end_us: The begin and the end, in microseconds since 1970; the end is None if the queue was
            still ON at the end of the log.
        stop: The stop threshold that the ON line names; None if the ON line is not in the log.
        unit: The unit of the stop threshold, ``messages`` or ``bytes``.
        ending: ``OFF``, or another reason for the end.  ``not logged`` means that the queue turned ON again,
            and that no line shows when it had turned OFF.

    >>> FlowSpell("orders", 0, 2_500_000, 40, "messages", "OFF").seconds
    2.5
    """

    queue: str
    begin_us: int
    end_us: int | None
    stop: int | None
    unit: str
    ending: Ending

    @property
    def seconds(self) -> float | None:
        """The length of the interval in seconds, or None if the queue was still ON at the end of the log."""
        return None if self.end_us is None else (self.end_us - self.begin_us) / SECOND


class Overflow(NamedTuple):
    """A message that a full queue refused, and whether its session died.

    Fields:
        time_us: The time in microseconds since 1970.
        queue: The name of the full queue.
        messages, bytes: The depth of the queue; None if the log does not give it.
        max_messages, max_bytes: The limits of the queue; None for a unit without a limit.
        session_died: Whether the refusal ended the session (error 506 resource-limit-exceeded).
        session: The name of the session that died, if the next line of a debug log gives it; else "".
    """

    time_us: int
    queue: str
    messages: int | None
    bytes: int | None
    max_messages: int | None
    max_bytes: int | None
    session_died: bool
    session: str


class LoggedThresholds(NamedTuple):
    """The thresholds of a queue that the log shows; None for an unknown one, 0 for one that is off."""

    stop_count: int | None = None
    resume_count: int | None = None
    stop_size: int | None = None
    resume_size: int | None = None


@dataclass(slots=True)
class LoggedQueue:
    """One queue in a broker's log: its thresholds, the intervals in which it was ON, and refused messages.

    Attributes:
        name: The name of the queue.
        thresholds: The latest thresholds that the log shows.
        changes: How many later declarations had other thresholds.
        spells: The intervals in which it was ON, in order.
        overflows: The messages that it refused because it was full.
        held: The number of held transfers, which appear only in a log at level trace.
        ignored_limits: The number of warnings that a resume threshold was ignored, as there was no stop
            threshold.
    """

    name: str
    thresholds: LoggedThresholds = LoggedThresholds()
    changes: int = 0
    spells: list[FlowSpell] = field(default_factory=list)
    overflows: list[Overflow] = field(default_factory=list)
    held: int = 0
    ignored_limits: int = 0

    @property
    def stops(self) -> int:
        """The number of lines in the log with which the queue turned ON."""
        return sum(spell.stop is not None for spell in self.spells)

    @property
    def is_on(self) -> bool:
        """Whether the queue was still ON at the end of the log, or when the broker last stopped."""
        return bool(self.spells) and self.spells[-1].ending == "log ends"

    @property
    def deaths(self) -> list[Overflow]:
        """The overflows that ended a session."""
        return [overflow for overflow in self.overflows if overflow.session_died]


class _QueueRow(NamedTuple):
    queue: str
    stops: int
    on_seconds: float
    share_on: float
    longest_seconds: float | None
    still_on: bool
    stop: str
    resume: str
    sessions_died: int


_NEVER = "never completed"
_LATE = ("withheld without cause", "completed late", "thresholds differ", _NEVER)
"""The kinds of findings that are refuted if their queue was ON during the delay."""
_HIRES_SLACK = SECOND // 10
"""The assumed largest difference between the clocks of a broker and its clients, in microseconds."""


@dataclass(frozen=True, slots=True)
class BrokerLog(Tabular):
    """The flow control that a broker's own log shows, queue by queue.

    Attributes:
        name: The name of the first file.
        begin_us, end_us: The times of the first and last line, in microseconds since 1970.  If no zone is
            known, local time is taken as UTC.
        observed_us: The time during which a broker ran, in microseconds: without the intervals between a
            shut-down and the next start-up.
        lines: The number of lines in the files.
        runs: The number of runs of the broker, including one that was in progress when the log began.
        is_hires: Whether times are finer than seconds.
        shows_flow: Whether the log would show a queue that turns ON; None if that cannot be determined.
        queues: The queues in the log, by name.
        notes: Remarks on the files and on the reading of them.
        zone: The time zone in which times are shown.

    >>> from qflow.kit import kit_path
    >>> log = BrokerLog.load(kit_path("data") / "recordings" / "broker-logs" / "info-hires.log")
    >>> [(queue.name, queue.stops, queue.is_on) for queue in log.queues.values()]
    [('invoices', 1, True), ('audit.eu-west', 0, False), ('orders', 3, False)]
    """

    name: str
    begin_us: int
    end_us: int
    observed_us: int
    lines: int
    runs: int
    is_hires: bool
    shows_flow: bool | None
    queues: Mapping[str, LoggedQueue]
    notes: tuple[str, ...] = ()
    zone: tzinfo = UTC

    @classmethod
    def load(
        cls,
        *paths: str | Path,
        zone: str | None = None,
        year: int | None = None,
        progress: Progress | None = None,
    ) -> BrokerLog:
        """Read the log of one broker from a file, or from several files, such as logrotate makes.

        Parameters:
            paths: The files, in any order, compressed (gzip, bzip2, xz) or not.
            zone: The time zone of the broker's clock, such as ``"Europe/Berlin"``, for lines without a zone.
            year: The year of the first line, for times of syslog without a year.
            progress: A function that is called with the number of bytes read and their total.

        Raises:
            LogError: If a file is not a log of qpidd; the text names all such files.
            RefusalError: If the time zone is unknown.
            OSError: If a file cannot be opened.
        """
        clock, heads, bad = _Clock(_zone(zone), year), list[_Head](), list[str]()
        for path in map(Path, paths):
            # Only the beginning of each file is read here, as the order of the files must be known first.
            lines = _head(path)
            first = next(filter(None, map(clock.stamp, lines)), None)
            if first is not None:
                heads.append(_Head(first.sort_key, path))
            elif lines:
                bad.append(path.name)
        if bad:
            raise LogError(
                f"{', '.join(bad)}: no line begins with a time as qpidd and syslog write it, such as "
                "2026-11-28 16:38:53 [Broker] notice …"
            )
        if not heads:
            raise LogError(f"{', '.join(Path(path).name for path in paths) or 'no file'}: there is no line")
        # The names of rotated files do not sort in order of time (qpidd.log.10, qpidd.log.2): their times do.
        heads.sort(key=lambda head: head.begin_us)
        reader = _LogReader(clock)
        total, done = sum(head.path.stat().st_size for head in heads), 0
        for head in heads:
            reader.begin_file(head.path.name)
            for block, read in _blocks(head.path, reader.notes):
                reader.take(block)
                if progress:
                    progress(done + read, total)
            done += head.path.stat().st_size
        return reader.finish(heads[0].path.name)

    @classmethod
    def parse(cls, text: str, name: str = "log", zone: str | None = None) -> BrokerLog:
        """Read the log of a broker from text, such as the output of journalctl.

        Parameters:
            text: The lines.
            name: The name of the log.
            zone: The time zone of the broker's clock, for lines without a zone.

        >>> head = "2026-11-28 16:39:{} [Broker] info {}"
        >>> on = 'Queue "q": has reached 4 enqueued messages. Producer flow control activated.'
        >>> lines = [head.format("06", on), head.format("09", "ACL Plugin loaded")]
        >>> log = BrokerLog.parse(chr(10).join(lines))
        >>> log.on_us("q"), log.still_on
        (3000000, ['q'])
        """
        reader = _LogReader(_Clock(_zone(zone), None))
        reader.take(text.encode("utf-8", "replace"))
        return reader.finish(name)

    @property
    def spells(self) -> list[FlowSpell]:
        """All intervals in which a queue was ON, in order of time."""
        found = [spell for queue in self.queues.values() for spell in queue.spells]
        return sorted(found, key=lambda spell: (spell.begin_us, spell.queue))

    @property
    def deaths(self) -> list[Overflow]:
        """The refusals that ended a session, in order of time."""
        found = [death for queue in self.queues.values() for death in queue.deaths]
        return sorted(found, key=lambda death: (death.time_us, death.queue))

    @property
    def still_on(self) -> list[str]:
        """The names of the queues that were ON when the log ended."""
        return [queue.name for queue in self.queues.values() if queue.is_on]

    def on_us(self, queue: str) -> int:
        """Return the total time for which a queue was ON, in microseconds, up to the end of the log."""
        spells = self.queues[queue].spells
        return sum((self.end_us if one.end_us is None else one.end_us) - one.begin_us for one in spells)

    def share_on(self, queue: str) -> float:
        """Return the share of the observed time in which a queue was ON."""
        return self.on_us(queue) / self.observed_us if self.observed_us else 0.0

    def weigh_findings(self, findings: Iterable[Finding], start_us: int) -> list[Finding]:
        """Return an audit's findings without those on flow control that this log refutes.

        An audit computes when a queue was ON from the workload's thresholds, but this log shows when it
        really was.  Completions that were late while the queue was ON, or came while it was OFF, are no fault
        of a client.  Such findings are replaced by one finding for each queue: that the broker ran with other
        thresholds.

        Parameters:
            findings: The findings of an audit.
            start_us: The time 0 of the client log (:attr:`ClientLog.start_us`).
        """
        if not self.shows_flow:
            return list(findings)
        kept: list[Finding] = []
        refuted: dict[tuple[str, str], list[Finding]] = {}
        for finding in findings:
            state = self._refutes(finding, start_us)
            if state:
                refuted.setdefault((finding.queue, state), []).append(finding)
            else:
                kept.append(finding)
        for (queue, state), found in refuted.items():
            first = found[0]
            number = sum(one.number for one in found)
            kept.append(
                Finding(first.row, first.time, "broker disagrees", queue=queue, name=state, number=number)
            )
        return sorted(kept, key=lambda finding: finding.time)

    def _refutes(self, finding: Finding, start_us: int) -> str:
        """Return the state (ON or OFF) of a queue in this log that refutes a finding, or ""."""
        # Whole seconds are rounded down, so an interval may have begun or ended up to a second later.
        slack = _HIRES_SLACK if self.is_hires else SECOND
        begin = end = finding.time + start_us
        if finding.kind in _LATE:
            begin, end = (begin, end + finding.gap) if finding.kind == _NEVER else (begin - finding.gap, end)
        elif finding.kind != "completed while held":
            return ""
        # This log proves nothing about times before its first line or after its last.
        if end < self.begin_us or begin > self.end_us:
            return ""
        spells = [one for one in self.spells if finding.queue in ("", one.queue)]
        widened = [
            (one.begin_us - slack, (self.end_us if one.end_us is None else one.end_us) + slack)
            for one in spells
        ]
        if finding.kind in _LATE:
            # A late completion is explained only if the queue was ON during its whole delay.
            is_on = any(since <= begin + slack and end <= until + slack for since, until in widened)
            return "ON" if is_on else ""
        # A completion at an instant outside all intervals came while the queue was OFF.
        return "" if any(since <= end <= until for since, until in widened) else "OFF"

    def columns(self, start: int = 0, end: int | None = None) -> dict[str, list[Any]]:
        """Return a table with a row for each queue, as columns by name."""
        rows = [self._row(queue) for queue in list(self.queues.values())[start:end]]
        return columns_of(rows, _QueueRow._fields)

    def _row(self, queue: LoggedQueue) -> _QueueRow:
        longest = max((one.seconds for one in queue.spells if one.seconds is not None), default=None)
        levels = queue.thresholds
        return _QueueRow(
            queue.name,
            queue.stops,
            self.on_us(queue.name) / SECOND,
            self.share_on(queue.name),
            longest,
            queue.is_on,
            _in_words(levels.stop_count, levels.stop_size),
            _in_words(levels.resume_count, levels.resume_size),
            len(queue.deaths),
        )

    def asdict(self) -> dict[str, Any]:
        """Return the log as JSON values, as ``--json`` prints it; times are microseconds since 1970."""
        return {
            "name": self.name,
            "begin_us": self.begin_us,
            "end_us": self.end_us,
            "observed_us": self.observed_us,
            "lines": self.lines,
            "runs": self.runs,
            "shows_flow_control": self.shows_flow,
            "still_on": self.still_on,
            "notes": list(self.notes),
            "queues": {
                queue.name: {
                    "stops": queue.stops,
                    "on_us": self.on_us(queue.name),
                    "share_on": self.share_on(queue.name),
                    "still_on": queue.is_on,
                    "thresholds": queue.thresholds._asdict(),
                    "threshold_changes": queue.changes,
                    "spells": [spell._asdict() for spell in queue.spells],
                    "overflows": [overflow._asdict() for overflow in queue.overflows],
                    "sessions_died": len(queue.deaths),
                    "transfers_held": queue.held,
                    "ignored_limits": queue.ignored_limits,
                }
                for queue in self.queues.values()
            },
        }

    def when(self, time_us: int) -> str:
        """Return a time as text in the broker's time zone."""
        # From whole seconds, as a float of this size would round the microseconds.
        instant = datetime.fromtimestamp(time_us // SECOND, self.zone).replace(microsecond=time_us % SECOND)
        return instant.strftime("%Y-%m-%d %H:%M:%S") + (
            f".{instant.microsecond // 1000:03d}" if self.is_hires else ""
        )

    def sentences(self) -> list[str]:
        """Return sentences on the log's extent, on each queue, and on the sessions that died.

        >>> from qflow.kit import kit_path
        >>> logs = kit_path("data") / "recordings" / "broker-logs"
        >>> print(BrokerLog.load(logs / "default.log").sentences()[1])
        This log does not show flow control: it has no line of level info. Start qpidd with --log-enable \
info+ --log-hires-timestamp yes; a running one takes levels by QMF's setLogLevel (CF-11).
        """
        seconds = (self.end_us - self.begin_us) / SECOND
        said = [
            f"{format_count(self.lines, 'line')} from {self.when(self.begin_us)} to "
            f"{self.when(self.end_us)} ({seconds:.0f} s)"
            + (f", {self.runs} runs of the broker" if self.runs > 1 else "")
            + "."
        ]
        if self.shows_flow is False:
            said.append(
                "This log does not show flow control: it has no line of level info. Start qpidd with "
                f"{_SHOWS_FLOW}; a running one takes levels by QMF's setLogLevel (CF-11)."
            )
        elif not self.spells:
            said.append(
                "No queue turned ON."
                if self.shows_flow
                else f"No line says that a queue turned ON; whether this log would show one cannot be told. "
                f"With {_SHOWS_FLOW} it does."
            )
        for queue in self.queues.values():
            said += self._sentences_of(queue)
        return [*said, *self.notes]

    def _sentences_of(self, queue: LoggedQueue) -> Iterator[str]:
        if queue.spells:
            row = self._row(queue)
            at = f", stop {row.stop}" if row.stop else ""
            below = f", resume {row.resume}" if row.resume else ""
            yield (
                f"{queue.name} turned ON {format_count(queue.stops, 'time')}, for {row.on_seconds:.1f} s in "
                f"all ({row.share_on:.1%} of the time){at}{below}."
            )
            if queue.is_on:
                since = self.when(queue.spells[-1].begin_us)
                yield f"{queue.name} has been ON since {since}: no line says that it turned OFF again."
            unknown = sum(spell.ending == "not logged" for spell in queue.spells)
            if unknown:
                yield (
                    f"{queue.name} turned ON again {format_count(unknown, 'time')} with no line of its turn "
                    "OFF: lines are missing, or it was deleted and created anew; those spells are "
                    "counted up to the next one."
                )
        elif any(queue.thresholds):
            levels = queue.thresholds
            stop = _in_words(levels.stop_count, levels.stop_size)
            yield (
                f"{queue.name} never turned ON, stop {stop}." if self.shows_flow else f"{queue.name}: {stop}."
            )
        deaths = queue.deaths
        for death in deaths[:_SHOWN]:
            who = f"session {death.session}" if death.session else "a session"
            full = [
                f"{depth} of {limit} {unit}"
                for depth, limit, unit in (
                    (death.messages, death.max_messages, "messages"),
                    (death.bytes, death.max_bytes, "bytes"),
                )
                if depth is not None and limit is not None
            ]
            yield (
                f"{queue.name} was full at {self.when(death.time_us)} ({', '.join(full)}): {who} died "
                "(506 resource-limit-exceeded)."
            )
        if len(deaths) > _SHOWN:
            yield f"{queue.name} ended {len(deaths) - _SHOWN} more sessions in the same way."
        refused = len(queue.overflows) - len(deaths)
        if refused:
            yield f"{queue.name} refused {format_count(refused, 'message')} because it was full."
        if queue.held:
            yield f"{queue.name} held the completion of {format_count(queue.held, 'transfer')}."
        if queue.ignored_limits:
            yield (
                f"{queue.name}: the broker warns that the thresholds given are ignored, as none is a stop "
                "(FC-02)."
            )

    def __repr__(self) -> str:
        return f"BrokerLog({self.name!r}, {len(self.spells)} spells ON, {len(self.queues)} queues)"


def _in_words(count: int | None, size: int | None) -> str:
    parts = (f"{level} {unit}" for level, unit in ((count, "messages"), (size, "bytes")) if level)
    return " or ".join(parts)


# Times


class _Stamp(NamedTuple):
    """A parsed time: microseconds in local time, and the UTC offset if the line has one."""

    local_us: int
    offset_us: int | None
    is_hires: bool
    has_year: bool

    @property
    def sort_key(self) -> int:
        return self.local_us - (self.offset_us or 0)


_OWN = re.compile(
    rb"(\d{4})-(\d\d)-(\d\d)([ T])(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(Z|[+-]\d\d:?\d\d)?(?=[\s:\]\"])"
)
_SYSLOG = re.compile(rb"(?:^|[\s>\"])([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?\s")
_MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
_LONGEST_HEAD = 400
"""The largest number of bytes before a message in which its time is searched."""
_ANY_YEAR = 2000
"""The year that is assumed for times without a year; it has a 29 February."""
_HOUR_US = 3600 * SECOND


class _Clock:
    """A parser of the times in lines, which converts them to microseconds since 1970."""

    def __init__(self, zone: tzinfo | None, year: int | None) -> None:
        self.zone, self.year = zone, year
        self.is_hires = False
        self.has_year = True
        self.went_back: list[int] = []
        self._last = 0
        self._fold = 0

    def stamp(self, head: bytes) -> _Stamp | None:
        """Return the time in the text before a line's message, or None."""
        # What looks like a time and is none, such as 25:61, raises a ValueError, and so does a word that
        # is no month's; a year that is far too large raises an OverflowError.
        with suppress(ValueError, OverflowError):
            if found := list(_OWN.finditer(head)):
                # The last time is the broker's own, and the finest; an earlier one may have the zone.
                year, month, day, _, hour, minute, second, fraction, _ = found[-1].groups()
                time = _local(*map(int, (year, month, day, hour, minute, second)))
                offsets = [_offset(one[9]) for one in found if one[9]]
                offset = offsets[0] if offsets else None
                return _Stamp(time + _fraction(fraction), offset, bool(fraction), True)
            if match := _SYSLOG.search(head):
                name, *numbers, fraction = match.groups()
                month = _MONTHS.index(name) + 1
                time = _local(self.year or _ANY_YEAR, month, *map(int, numbers))
                return _Stamp(time + _fraction(fraction), None, bool(fraction), False)
        return None

    def instant(self, head: bytes) -> int | None:
        """Return the time of the next line in microseconds since 1970, or None if it has no time."""
        stamp = self.stamp(head)
        if stamp is None:
            return None
        self.is_hires |= stamp.is_hires
        self.has_year &= stamp.has_year
        local = stamp.local_us
        if stamp.offset_us is not None:
            return local - stamp.offset_us
        # A time more than half a year back begins a new year; less is disorder, or a clock that was set.
        if not stamp.has_year and self._last - local > 180 * 24 * _HOUR_US:
            self.year = (self.year or _ANY_YEAR) + 1
            return self.instant(head)
        if local < self._last - _HOUR_US // 2:
            # Summer time ended, or the clock was set back.
            self.went_back.append(local)
            self._fold = 1
        self._last = local
        return self._since_1970(local)

    def _since_1970(self, local: int) -> int:
        if self.zone is None:
            return local
        return local - _zone_offset(self.zone, local // SECOND, self._fold)


@lru_cache(4096)
def _local(year: int, month: int, day: int, hour: int, minute: int, second: int) -> int:
    """Return the microseconds from 1970 to a local time as if it were UTC; the second may be 60."""
    # datetime does not support leap seconds.
    instant = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=UTC)
    return (int(instant.timestamp()) + (second == 60)) * SECOND


@lru_cache(4096)
def _zone_offset(zone: tzinfo, local: int, fold: int) -> int:
    """Return the UTC offset of a zone, in microseconds, at a local time in seconds."""
    naive = datetime.fromtimestamp(local, UTC).replace(tzinfo=zone, fold=fold)
    return (naive.utcoffset() or timedelta()) // timedelta(microseconds=1)


def _offset(text: bytes) -> int:
    if text == b"Z":
        return 0
    hours, minutes = int(text[1:3]), int(text[-2:])
    return (hours * 60 + minutes) * 60 * SECOND * (-1 if text[:1] == b"-" else 1)


def _fraction(digits: bytes | None) -> int:
    return int(digits[:6].ljust(6, b"0")) if digits else 0


def _zone(name: str | None) -> tzinfo | None:
    try:
        return zone_of(name) if name else None
    except ValueError as error:
        raise RefusalError(str(error)) from None


# Files

_MOST_KEPT = 100_000
"""The largest number of lines of a file that are remembered, to recognise them in the next file."""
_BLOCK = 1 << 22
"""The number of bytes that are read at once."""
_PACKED = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}
_DAMAGE = (*DAMAGE, lzma.LZMAError, OSError)


class _Head(NamedTuple):
    """The time of a file's first line, and the file."""

    begin_us: int
    path: Path


@contextmanager
def _open(path: Path) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
    """Open a file, decompressed if its first two bytes identify a compression; yield raw and content."""
    with path.open("rb") as raw:
        unpack = _PACKED.get(raw.read(2))
        raw.seek(0)
        yield raw, unpack(raw) if unpack else raw  # type: ignore[operator]


def _read(file: IO[bytes], size: int) -> tuple[bytes, Exception | None]:
    """Return the next bytes and None, or the bytes before the damage of a compressed file and the error."""
    parts, missing = list[bytes](), size
    while missing > 0:
        try:
            # read() would lose the bytes before the damage.
            part = file.read1(missing)  # type: ignore[attr-defined]
        except _DAMAGE as error:
            return b"".join(parts), error
        if not part:
            break
        parts.append(part)
        missing -= len(part)
    return b"".join(parts), None


def _head(path: Path) -> list[bytes]:
    """Return the first lines of a file, without blank lines."""
    with _open(path) as (_, unpacked):
        lines = _read(unpacked, 1 << 16)[0].splitlines()
    return [line[:_LONGEST_HEAD] for line in lines if line.strip()]


def _blocks(path: Path, notes: list[str]) -> Iterator[tuple[bytes, int]]:
    """Yield blocks of whole lines, each with the position in the file after it."""
    rest, error = b"", None
    with _open(path) as (raw, unpacked):
        while error is None:
            block, error = _read(unpacked, _BLOCK)
            if error:
                notes.append(f"{path.name} is cut off or damaged; what precedes that was read ({error}).")
            if not block:
                break
            end = block.rfind(b"\n") + 1
            if end:
                # The position is in compressed bytes, as is the file's size that progress is compared with.
                yield rest + block[:end], raw.tell()
                rest = block[end:]
            else:
                rest += block
    if rest:
        yield rest, path.stat().st_size


# Lines

# A container's runtime that writes JSON puts a backslash before each quotation mark.
_QUOTED = r'Queue \\?"(?P<queue>.+?)\\?": '
_ON = re.compile(
    _QUOTED + r"has reached (?P<stop>\d+) enqueued (?P<unit>messages|bytes)\. "
    r"Producer flow control activated"
)
_OFF = re.compile(_QUOTED + r"has drained below the flow control resume level\. Producer flow control deacti")
_CREATED = re.compile(
    _QUOTED
    + r"Flow limit created: flowStopCount=(?P<stop_count>\d+), flowResumeCount=(?P<resume_count>\d+), "
    r"flowStopSize=(?P<stop_size>\d+), flowResumeSize=(?P<resume_size>\d+)"
)
_HELD = re.compile(_QUOTED + r"setting flow control for msg ")
_IGNORED = re.compile(r"queue (?P<queue>.+?): user-configured flow limits are ignored")
_FULL = re.compile(
    r"(?P<error>Execution exception: )?resource-limit-exceeded: Maximum depth exceeded on (?P<queue>.+?): "
    r"current=\[(?P<depth>[^]]*)\], max=\[(?P<limit>[^]]*)\], increment=\["
)
_DELETED = re.compile(r"Delete queue\. name:(?P<queue>.+?) user:")
_STARTED = re.compile(r"Broker \(pid=\d+\) start-up")
_STOPPED = re.compile(r"Broker \(pid=\d+\) shut-down")
_DETACHED = re.compile(r"(?P<session>[^\s:]\S*): detached on broker")
# The lines of flow control have the category of the broker's start-up line: Broker, in some builds Security.
_INFO = re.compile(rb"(?:\[(?:Broker|Security|Model|Management)\]|:\d\d(?:\.\d+)?) (?:info|debug|trace)\b")
_LEVEL = re.compile(rb"\] (?:notice|warning|error|critical|info|debug|trace)\b")
_OTHER_INFO = re.compile(rb"\] (?:info|debug|trace)\b")


class _LogReader:
    """A reader that collects the queues of a log from its lines, block by block."""

    def __init__(self, clock: _Clock) -> None:
        self.clock = clock
        self.notes: list[str] = []
        self.queues: dict[str, LoggedQueue] = {}
        self.lines = self.runs = 0
        self._on: dict[str, FlowSpell] = {}
        self._begin: int | None = None
        self._end = 0
        # When the observation of the present broker began, and when that broker shut down.
        self._since: int | None = None
        self._stopped: int | None = None
        self._observed = 0
        self._has_levels = self._has_info = self._has_other_info = False
        self._file, self._following = "", b""
        # The relevant lines of this file and of earlier files: logrotate's copytruncate may repeat lines.
        self._here, self._earlier = set[bytes](), set[bytes]()
        # For each kind of line, a phrase to search for, the pattern of the message, and the method to call.
        self._rules: tuple[tuple[bytes, re.Pattern[str], Callable[[int, re.Match[str]], None]], ...] = (
            (b"Producer flow control activated", _ON, self._turn_on),
            (b"Producer flow control deactivated", _OFF, self._turn_off),
            (b": Flow limit created", _CREATED, self._create),
            (b": setting flow control for msg", _HELD, self._hold),
            (b"flow limits are ignored", _IGNORED, self._ignore),
            (b"Maximum depth exceeded on ", _FULL, self._refuse),
            (b"Delete queue. name:", _DELETED, self._delete),
            (b") start-up", _STARTED, self._start),
            (b") shut-down", _STOPPED, self._stop),
        )

    def begin_file(self, name: str) -> None:
        """Begin the next file, which has the given name."""
        self._file = name
        self._earlier |= self._here
        self._here = set()

    def take(self, block: bytes) -> None:
        """Read a block of whole lines."""
        self.lines += block.count(b"\n") + (not block.endswith(b"\n"))
        self._has_info = self._has_info or bool(_INFO.search(block))
        self._has_levels = self._has_levels or bool(_LEVEL.search(block))
        self._has_other_info = self._has_other_info or bool(_OTHER_INFO.search(block))
        # The first lines may have no time, such as the output of a start script.
        lines = block.split(b"\n", 50)[:50] if self._begin is None else ()
        first = next((time for line in lines if (time := self.clock.instant(line[:_LONGEST_HEAD]))), None)
        if first is not None:
            self._begin = self._since = self._end = first
        for start, kind in self._places(block):
            end = block.find(b"\n", start)
            end = len(block) if end < 0 else end
            self._read(kind, block[start:end], block[end + 1 : end + 1 + _LONGEST_HEAD])
        # The observed time ends with the last line of any kind: a queue may be ON long after the last
        # relevant line.
        for line in reversed(block[-8 * _LONGEST_HEAD :].splitlines()):
            time = self.clock.instant(line[:_LONGEST_HEAD])
            if time is not None:
                self._end = max(self._end, time)
                break

    def _places(self, block: bytes) -> list[tuple[int, int]]:
        """Return the offset of each line with a known phrase, in order, with the number of its kind."""
        found: dict[int, int] = {}
        # One search for each phrase, which runs in C: a debug log of 100 MB takes about a second.
        for kind, (phrase, *_) in enumerate(self._rules):
            place = block.find(phrase)
            while place >= 0:
                found.setdefault(block.rfind(b"\n", 0, place) + 1, kind)
                place = block.find(phrase, place + len(phrase))
        return sorted(found.items())

    def _read(self, kind: int, line: bytes, following: bytes) -> None:
        _, pattern, fold = self._rules[kind]
        match = pattern.search(line.decode("utf-8", "replace").rstrip("\r"))
        if match is None:
            return
        if line in self._earlier:
            self._note(f"{self._file} has lines of an earlier file, such as {match.string[:60]!r}.")
            return
        if len(self._here) < _MOST_KEPT:
            self._here.add(line)
        time = self.clock.instant(match.string[: match.start()].encode()[:_LONGEST_HEAD])
        if time is None:
            self._note(f"{self._file}: lines without a time are passed over, such as {match.string[:80]!r}.")
            return
        if self._begin is None:
            self._begin = self._since = time
        self._end = max(self._end, time)
        self._following = following
        fold(time, match)

    def _note(self, text: str) -> None:
        kind = text.partition(", such as")[0]
        if not any(note.startswith(kind) for note in self.notes):
            self.notes.append(text)

    def _queue(self, match: re.Match[str]) -> LoggedQueue:
        name = match["queue"]
        return self.queues.setdefault(name, LoggedQueue(name))

    # One method for each kind of line.

    def _turn_on(self, time: int, match: re.Match[str]) -> None:
        queue = self._queue(match)
        open_ = self._on.get(queue.name)
        if open_ is not None:
            if time == open_.begin_us:
                # The same line again: syslog and the broker's own file may be collected into one.
                return
            self._close(queue.name, time, "not logged")
        # The line names the threshold of one unit; the other unit may have a threshold, too.
        stop, unit = int(match["stop"]), match["unit"]
        name = "stop_count" if unit == "messages" else "stop_size"
        # The thresholds of a queue never change, so another stop belongs to a new queue with the same name.
        if getattr(queue.thresholds, name) not in (None, stop):
            queue.changes += 1
            queue.thresholds = LoggedThresholds()
        queue.thresholds = queue.thresholds._replace(**{name: stop})
        self._on[queue.name] = FlowSpell(queue.name, time, None, stop, unit, "log ends")

    def _turn_off(self, time: int, match: re.Match[str]) -> None:
        queue = self._queue(match)
        if queue.name not in self._on:
            last = queue.spells[-1] if queue.spells else None
            if last and last.end_us == time:
                return
            # The queue was ON before the log began, or a later ON line is missing.
            since = self._since if last is None or (self._since or 0) > last.begin_us else last.end_us
            self._on[queue.name] = FlowSpell(queue.name, since or time, None, None, "", "log ends")
            if last is not None:
                self._note(
                    f"{queue.name} turned OFF without a line that it had turned ON: lines are missing."
                )
        self._close(queue.name, time, "OFF")

    def _close(self, queue: str, time: int, ending: Ending) -> None:
        spell = self._on.pop(queue, None)
        if spell is not None:
            # If the clock was set back, the interval gets length 0.
            end = max(time, spell.begin_us)
            self.queues[queue].spells.append(spell._replace(end_us=end, ending=ending))

    def _create(self, time: int, match: re.Match[str]) -> None:
        queue = self._queue(match)
        self._close(queue.name, time, "queue replaced")
        levels = LoggedThresholds(*(int(match[name]) for name in LoggedThresholds._fields))
        # The broker logs this line once for each queue, so there is a new queue with the name.
        known = [(old, new) for old, new in zip(queue.thresholds, levels, strict=True) if old is not None]
        queue.changes += any(old != new for old, new in known)
        queue.thresholds = levels

    def _hold(self, time: int, match: re.Match[str]) -> None:
        self._queue(match).held += 1

    def _ignore(self, time: int, match: re.Match[str]) -> None:
        self._queue(match).ignored_limits += 1

    def _refuse(self, time: int, match: re.Match[str]) -> None:
        queue = self._queue(match)
        is_error = match["error"] is not None
        depth, limit = _parse_depth(match["depth"]), _parse_depth(match["limit"])
        next_line = self._following.partition(b"\n")[0].decode("utf-8", "replace")
        detached = _DETACHED.search(next_line) if is_error else None
        refused = Overflow(
            time, queue.name, *depth, *limit, is_error, detached["session"] if detached else ""
        )
        # The exchange's warning precedes the session's error with the same text: they are one refusal.
        for place in range(len(queue.overflows) - 1, -1, -1):
            before = queue.overflows[place]
            if time - before.time_us > SECOND:
                break
            if is_error and not before.session_died and before[1:6] == refused[1:6]:
                queue.overflows[place] = refused
                return
        queue.overflows.append(refused)

    def _delete(self, time: int, match: re.Match[str]) -> None:
        if match["queue"] in self.queues:
            self._close(match["queue"], time, "queue replaced")

    def _start(self, time: int, match: re.Match[str]) -> None:
        self.runs += 1
        if self._since is not None and time > self._since:
            ended = time if self._stopped is None else self._stopped
            self._observed += max(0, ended - self._since)
            # A queue begins OFF (FC-13), so the interval ended with the broker that shut down.
            for queue in list(self._on):
                self._close(queue, ended, "broker stopped")
            if self.runs == 1:
                # Another broker was running when the log began.
                self.runs = 2
        self._since, self._stopped = time, None

    def _stop(self, time: int, match: re.Match[str]) -> None:
        # Intervals stay open until a broker starts: the log may end here.
        self._stopped = time

    def finish(self, name: str) -> BrokerLog:
        """Return the log; an interval that is still open lasts until the end of the log."""
        begin = self._begin or 0
        # The time after a shut-down, in which other programs may write to the file, is not observed.
        self._observed += max(0, (self._stopped or self._end) - (self._since or begin))
        for queue, spell in self._on.items():
            self.queues[queue].spells.append(spell)
        if not self.clock.has_year and self.clock.year in (None, _ANY_YEAR):
            self.notes.append("The times have no year, which is given as --year; 2000 is used.")
        if self.clock.went_back:
            local = datetime.fromtimestamp(self.clock.went_back[0] // SECOND, UTC)
            hint = "" if self.clock.zone else "; if summer time ended, --zone tells the two hours apart"
            self.notes.append(f"The clock goes back, to {local:%Y-%m-%d %H:%M:%S}{hint}.")
        shows: bool | None = True
        if not any(queue.spells or queue.held or any(queue.thresholds) for queue in self.queues.values()):
            # Levels may be set for each category. Info lines of another category, or a log that shows no
            # levels, do not tell whether info lines of flow control are enabled.
            is_unsure = self._has_other_info or not self._has_levels
            shows = True if self._has_info else None if is_unsure else False
        return BrokerLog(
            name, begin, self._end, self._observed, self.lines, max(1, self.runs), self.clock.is_hires,
            shows, self.queues, tuple(self.notes), self.clock.zone or UTC,
        )  # fmt: skip


def _parse_depth(text: str) -> tuple[int | None, int | None]:
    """Return the messages and bytes in a depth such as ``count: 12, size: 1200``; None for a missing one."""
    values = {unit: int(value) for unit, value in re.findall(r"(count|size): (\d+)", text)}
    return values.get("count"), values.get("size")
