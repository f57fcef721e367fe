"""The rows of client logs: the columns of a log, and the validation of every value.

A log is a table with one row for each event that a client caused or observed.  Three other modules prepare
it: :mod:`qflow.logs.file_formats` reads the file formats, :mod:`qflow.logs.foreign_columns` finds the meaning
of foreign columns and times, and :mod:`qflow.logs.cleaning` sorts the rows.  A log may number its rows itself
in a column ``seq``: then the numbers give the order, and show whether rows are missing.

Every row is validated before it is used: valid rows are kept, and an invalid row is quarantined with its
column and the reason, so that one damaged line does not cost a day's recording.  If the label of a
quarantined row is readable, it is kept, because the audit does not judge messages of which rows are missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple, get_type_hints

from qflow.logs.file_formats import LOG_ENDINGS as LOG_ENDINGS
from qflow.logs.file_formats import MOST_ROWS as MOST_ROWS
from qflow.logs.file_formats import SEPARATORS, BadRowError, RawTable, is_utf8, log_files, open_table
from qflow.logs.foreign_columns import FAR, OWN_CLOCK, ColumnMap, Recognised, own_clock
from qflow.qflow_error import QflowError
from qflow.trace.files import QuarantinedRow
from qflow.workload.agenda import SECOND
from qflow.workload.attributes import LARGEST_NUMBER, LONGEST_NAME, is_text

OF_PRODUCERS = ("transfer", "complete", "block", "unblock", "refused")
SETTLEMENTS = ("accept", "release", "reject")
OF_CONSUMERS = ("deliver", *SETTLEMENTS)
_LOG_EVENTS = (*OF_PRODUCERS, "error", *OF_CONSUMERS, "stats")
"""The events of a client log's rows."""

PART = "part-{:05d}.parquet"
"""The names of the parts of a log that is a folder; sorting the names gives the order of the parts."""

_LARGEST = 10**18
"""The largest time in microseconds, count or sum of bytes, which fits a trace's 64-bit column."""

_WHOLE = re.compile(r"[ \t]*[+-]?[0-9]{1,19}[ \t]*")


class LogError(QflowError, ValueError):
    """A client log cannot be used; the text names the row, counted from 1, and the column.

    >>> issubclass(LogError, ValueError)
    True
    """


class LogRow(NamedTuple):
    """One row of a client log.

    Fields:
        ts_us: The time in microseconds since the start of the workload; negative before the start.
        client: The name of a producer or consumer, or ``broker`` for statistics.
        event: One of :data:`_LOG_EVENTS`.
        queue: In a row of a consumer or of statistics, the queue.  In a row of a producer, the routing key,
            or the exchange if the key is empty.
        label: The label of the message, ``<producer>-<n>``.  For the event ``error``, the text of the error;
            for ``stats``, a JSON list of the values in :data:`SAMPLE_FIELDS`.
        size: The size of the message's content in bytes, for ``transfer`` and ``deliver``.
        group: The message's group, or empty.

    >>> LogRow(657, "p1", "transfer", "orders", "p1-1", 100, "").label
    'p1-1'
    """

    ts_us: int
    client: str
    event: str
    queue: str
    label: str
    size: int
    group: str


BEGIN, END = "begin", "end"


class LakeRow(NamedTuple):
    """One numbered row of a component's log; the first row is ``begin``, the last is ``end``."""

    seq: int
    ts_us: int
    client: str
    event: str
    queue: str
    label: str
    size: int
    group: str
    workload: str | None = None

    @classmethod
    def begin(cls, workload: str, tolerance: str = "") -> LakeRow:
        """Return the first row of a component, with its workload and its tolerance as text."""
        return cls(0, 0, "", BEGIN, "", tolerance, 0, "", workload)

    @classmethod
    def of(cls, seq: int, row: LogRow) -> LakeRow:
        """Return a numbered row from a log's row; a report before the start gets the time 0."""
        return cls(seq, max(0, row.ts_us), *row[1:])

    @classmethod
    def end(cls, seq: int, time: int) -> LakeRow:
        """Return the last row of a component."""
        return cls(seq, time, "", END, "", "", 0, "")


COLUMNS = LogRow._fields
NUMBERED = ("seq", *COLUMNS)


class QueueSample(NamedTuple):
    """The real broker's report of one queue's statistics at one instant, under the broker's names (CM-15).

    >>> QueueSample(50_000, 901, 133_348, True, 1, 20, 0, 0).flowStopped
    True
    """

    ts_us: int
    msgDepth: int  # noqa: N815
    byteDepth: int  # noqa: N815
    flowStopped: bool  # noqa: N815
    flowStoppedCount: int  # noqa: N815
    acquires: int
    releases: int
    discardsRing: int  # noqa: N815


SAMPLE_FIELDS = QueueSample._fields[1:]
"""The names of the values in the label of a ``stats`` row, in order."""
_SAMPLE_TYPES = tuple(get_type_hints(QueueSample).values())[1:]


class Bit(NamedTuple):
    """A batch of consecutive rows of a log, in the file's order."""

    # problems: The quarantined rows.
    # unread: The labels of the quarantined rows that are about a message; "" if a label is unreadable.
    # is_numbered: Whether the numbers are from the log's own column seq, and so define the order.

    numbers: list[int]
    rows: list[LogRow]
    problems: list[QuarantinedRow]
    recognised: Recognised | None = None
    unread: Sequence[str] = ()
    is_numbered: bool = False


def forget_oldest(memory: dict[Any, Any], most: int) -> Any:
    """Drop the oldest entry of a dictionary with more than `most` entries; return its key, or None."""
    if len(memory) <= most:
        return None
    oldest = next(iter(memory))
    del memory[oldest]
    return oldest


def name_of(path: str | Path | Sequence[str | Path]) -> str:
    """Return the name of a log's file or folder, or of the first one if the log has several."""
    first = path if isinstance(path, str | Path) else path[0]
    return str(first).rstrip("/").rsplit("/", 1)[-1]


def source_of(path: str | Path | Sequence[str | Path]) -> str:
    """Return the name of a log, which is its file's name up to the first dot."""
    return name_of(path).split(".")[0]


def sample_values(label: str) -> list[Any] | None:
    """Return the values in the label of a ``stats`` row, or None if the label is invalid."""
    try:
        values = json.loads(label)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list) or tuple(map(type, values)) != _SAMPLE_TYPES:
        return None
    return values if all(0 <= value <= _LARGEST for value in values) else None


def read_log(
    path: str | Path | Sequence[str | Path],
    columns: str | Mapping[str, str] | None = None,
    separator: str = "",
    zone: str = "",
) -> Iterator[Bit]:
    """Yield the rows of a log in batches, in the files' order; each row is valid or quarantined."""
    # path: A file, a folder of parts, or several files that form one log.
    # columns: The columns of a foreign log by meaning, as :meth:`ClientLog.load` takes them.
    # separator: The separator of values in text, as a character or name; empty to find it in the header.
    # zone: The time zone of times without a zone, such as ``Europe/Berlin``; empty for UTC.
    # LogError is raised if the columns or the zone are invalid, or no row can be read.
    try:
        files = log_files(path)
    except ValueError as error:
        raise LogError(str(error)) from None
    between = SEPARATORS.get(separator, separator)
    if len(between) > 1 or (between and between in '"\r\n'):
        allowed = f"a character, or {', '.join(SEPARATORS)}"
        raise LogError(f"the separator of values must be {allowed}; got {separator!r}")
    return _bits(files, _reader_of(columns, zone), between)


def read_table(
    table: RawTable, columns: str | Mapping[str, str] | None = None, zone: str = ""
) -> Iterator[Bit]:
    """Yield the rows of an open table in batches, as :func:`read_log` does for a file."""
    yield from _bits_of(table, _reader_of(columns, zone))


def _reader_of(columns: str | Mapping[str, str] | None, zone: str) -> _Reader:
    try:
        return _Reader(None if columns is None else ColumnMap.of(columns), zone)
    except ValueError as error:
        raise LogError(str(error)) from None


def _bits_of(table: RawTable, reader: _Reader, file: str = "") -> Iterator[Bit]:
    part = list(islice(table.rows, MOST_ROWS))
    if table.header or not table.damage:
        reader.begin(table, part, file)
    while part:
        yield reader.take(part)
        part = list(islice(table.rows, MOST_ROWS))


def _bits(files: Sequence[Path], reader: _Reader, separator: str) -> Iterator[Bit]:
    for file in files:
        try:
            with open_table(file, reader.choose_columns, separator) as table:
                yield from _bits_of(table, reader, file.name if len(files) > 1 else "")
        except BadRowError as bad:
            raise LogError(bad.args[1]) from None
        for reason in table.damage:
            after = f"after row {reader.number}" if reader.number else "at its beginning"
            if not reader.number:
                raise LogError(reason.replace("{after}", after))
            yield reader.cut_off(reason.replace("{after}", after))


_NAMED = {"client", "event", "queue", "label"}
"""Columns that a header must have, besides a time, to be recognised without a map of columns."""


def _names_own_columns(header: Sequence[str]) -> bool:
    """Return whether a header has a log's own columns, in any order and possibly among others."""
    return set(header) >= _NAMED and not {"ts_us", "time"}.isdisjoint(header)


class _Reader:
    """A reader that validates a log's rows in the files' order."""

    def __init__(self, map_: ColumnMap | None = None, zone: str = "") -> None:
        self.number = 0
        self.map = map_
        self.recognised: Recognised | None = None
        self._zone, self._file, self._before = zone, "", 0
        # The time of the previous row, to detect a clock that was set; None at the start of a further file.
        self._near: int | None = 0
        self._wanted = len(COLUMNS)
        self._is_numbered = False
        # The extremes of the times so far, and whether the last row is far ahead of all earlier ones.
        self._low = self._high = self._high_before = 0
        self._is_far = False

    def choose_columns(self, keys: Sequence[str]) -> Sequence[str] | None:
        """Return the columns of JSON objects, or None for a foreign log, whose objects may lack some."""
        own = NUMBERED if "seq" in keys else COLUMNS
        is_foreign = self.map is not None or (set(keys) != set(own) and _names_own_columns(keys))
        return None if is_foreign else own

    def begin(self, table: RawTable, first: Sequence[Any], file: str = "") -> None:
        """Read the header of a table, and find the unit of its times from the first rows."""
        header = [str(name).strip() for name in table.header]
        self._wanted = len(header)
        self._file, self._before = file, self.number
        self._near = None if self.number else 0
        clock = self.recognised and self.recognised.clock
        good = [row for row in first if not isinstance(row, BadRowError) and len(row) == self._wanted]
        map_ = self.map
        if map_ is None:
            if tuple(header) in (COLUMNS, NUMBERED):
                self._is_numbered = tuple(header) == NUMBERED
                clock = clock or own_clock([row[self._is_numbered] for row in good], self._zone)
                self.recognised = Recognised(None, clock) if clock else None
                return
            self._require_own(header)
            map_ = ColumnMap({})
        try:
            columns = map_.found_in(header)
            unit = "us" if columns.names["time"] in table.instants else map_.unit
            is_own = self.map is None and columns.names["time"] == "ts_us"
            if is_own and clock is None:
                # As in a log with exactly its own columns, times in ts_us count from the start.
                clock = own_clock(columns.times_of(good), self._zone) or OWN_CLOCK
            clock = clock or columns.clock_of(good, unit, self._zone)
        except ValueError as error:
            raise LogError(str(error)) from None
        self._is_numbered = "seq" in columns.places
        self.recognised = Recognised(columns, clock)

    def _require_own(self, header: Sequence[str]) -> None:
        if not _names_own_columns(header):
            missing = [name for name in COLUMNS if name not in header]
            what = f"; the column {missing[0]} is missing" if header and missing else ""
            got = ", ".join(header) or "none"
            hint = "; --map explains foreign columns, in code columns=" if header else ""
            raise LogError(f"the columns must be {', '.join(COLUMNS)}, got {got}{hint}{what}")

    def cut_off(self, reason: str) -> Bit:
        """Return a batch with the problem of a file that ends early."""
        problem = QuarantinedRow(self.number + 1, "", reason)
        return Bit([], [], [problem], self.recognised, (), self._is_numbered)

    def take(self, rows: Sequence[Sequence[object] | BadRowError]) -> Bit:
        """Validate rows; return the valid ones, and the quarantined ones with their labels, as a batch."""
        unread: list[str] = []
        bit = Bit([], [], [], self.recognised, unread, self._is_numbered)
        for values in rows:
            self.number += 1
            try:
                number, row = self._row(values)
            except BadRowError as bad:
                bit.problems.append(self._quarantine(self.number, bad, values))
                unread += self._labels_of(values, bad)
                continue
            time = self._near = row.ts_us
            if time > self._high:
                self._note_high(time)
            elif self._is_far:
                self._is_far = False
                if bit.rows and bit.rows[-1].ts_us == self._high and not self._is_numbered:
                    unread += self._take_back(bit, time)
            bit.numbers.append(number)
            bit.rows.append(row)
        return bit

    def _note_high(self, time: int) -> None:
        """Record the latest time, and whether it is implausibly far ahead of the earlier ones."""
        span = max(SECOND, 10 * (self._high - self._low))
        self._is_far = self.number > _ENOUGH and time - self._high > span
        if self.number == 1:
            self._low = time
        self._high_before, self._high = self._high, time

    def _take_back(self, bit: Bit, time: int) -> list[str]:
        """Quarantine the last valid row, whose time is far ahead of the rows before and after it."""
        # A late row would be sorted in; but a time with a damaged digit would stretch a log of seconds to
        # minutes.
        far, number = bit.rows.pop(), bit.numbers.pop() + 1
        self._high = self._high_before
        reason = f"time must not go ahead and back, got {far.ts_us}, later rows have {time}"
        bit.problems.append(self._quarantine(number, BadRowError("ts_us", reason), far))
        return [far.label]

    def _row(self, values: Sequence[object] | BadRowError) -> tuple[int, LogRow]:
        if isinstance(values, BadRowError):
            raise values
        if len(values) != self._wanted:
            raise BadRowError("", f"must have {self._wanted} values, got {len(values)}")
        number, recognised = self.number - 1, self.recognised
        columns = recognised and recognised.columns
        if self._is_numbered:
            number = _whole("seq", columns.value(values, "seq") if columns else values[0])
            values = values if columns else values[1:]
            if number < 0:
                raise BadRowError("seq", f"must not be negative, got {number}")
        if columns:
            values = columns.values(values, self._since_start)
        elif recognised:
            values = [self._since_start(values[0]), *values[1:]]
        try:
            return number, _check_row(values, recognised is not None and recognised.clock is not OWN_CLOCK)
        except BadRowError:
            # Columns of a fixed width are padded with blanks.
            padded = [value.strip() if isinstance(value, str) else value for value in values]
            if padded == list(values):
                raise
            return number, _check_row(padded)

    def _since_start(self, value: object) -> int:
        assert self.recognised is not None
        try:
            time = self.recognised.clock.read(value, self._near)
        except ValueError as error:
            raise BadRowError("ts_us", str(error)) from None
        if self._near is not None and abs(time - self._near) > FAR:
            days = abs(time - self._near) / FAR * 7
            raise BadRowError(
                "ts_us",
                f"must be at most 7 days from the row before, got {str(value)[:40]!r}, {days:.0f} days",
            )
        return time

    def _name(self, column: str) -> str:
        columns = self.recognised and self.recognised.columns
        meaning = "time" if column == "ts_us" else column
        return columns.names.get(meaning, column) if columns else column

    def _quarantine(
        self, number: int, bad: BadRowError, values: Sequence[object] | BadRowError
    ) -> QuarantinedRow:
        shown = "" if isinstance(values, BadRowError) else json.dumps(list(values), default=str)
        column, reason = bad.args
        if column == "event" and self.map is not None:
            reason += "; --map 'event=COLUMN:{WORD=EVENT,…}' explains a word"
        if self._file:
            reason += f" (row {number - self._before} of {self._file})"
        return QuarantinedRow(number, self._name(column), reason, shown[:500])

    def _labels_of(self, values: Sequence[object] | BadRowError, bad: BadRowError) -> list[str]:
        """Return the label of a quarantined row, or "" if unreadable, in a list; [] if it has no message."""
        if isinstance(values, BadRowError) or len(values) != self._wanted:
            return [""]
        columns = self.recognised and self.recognised.columns
        event, label = (
            (columns.value(values, name) for name in ("event", "label"))
            if columns
            else values[2 + self._is_numbered : 5 + self._is_numbered : 2]
        )
        if event in _OF_NO_MESSAGE:
            return []
        return ["" if bad.args[0] in ("label", "") or label is None else str(label).strip()]


_ENOUGH = 30
"""The number of rows from which on a time can be judged implausibly far ahead of the earlier ones."""

_OF_NO_MESSAGE = ("block", "unblock", "error", "stats")
"""The events whose rows are not about a message."""


# One row


def _check_row(values: Sequence[object], is_relative: bool = False) -> LogRow:
    ts_us, client, event, queue, label, size, group = values
    if event not in _LOG_EVENTS:
        raise BadRowError("event", f"must be one of {', '.join(_LOG_EVENTS)}, got {event!r}")
    if not client or not isinstance(client, str):
        raise BadRowError("client", f"must be a name, got {client!r}")
    for column, name in (("client", client), ("queue", queue)):
        if isinstance(name, str) and not _is_name(name):
            raise BadRowError(
                column, f"must be a name of at most {LONGEST_NAME} bytes of UTF-8, got {name[:40]!r}"
            )
    time = _whole("ts_us", ts_us)
    # Only a transfer needs a size; for other events, tools may leave it empty.
    length = 0 if size in ("", None) and event != "transfer" else _whole("size", size, LARGEST_NUMBER)
    if time < 0 and event != "stats" and not is_relative:
        allowed = "must not be negative, only the broker reports before the start"
        raise BadRowError("ts_us", f"{allowed}; got {time}")
    if length < 0:
        raise BadRowError("size", f"must not be negative, got {length}")
    # Some writers store empty text as null.
    texts = [_text(column, value) for column, value in (("queue", queue), ("label", label), ("group", group))]
    if event == "stats" and sample_values(texts[1]) is None:
        names = ", ".join(SAMPLE_FIELDS)
        raise BadRowError("label", f"must be a JSON list of {names}, got {texts[1]!r}")
    # Interned, so that equal texts are one object, which saves memory.
    queue, label, group = map(intern, texts)
    return LogRow(time, intern(client), intern(str(event)), queue, label, length, group)


_is_name = lru_cache(1024)(is_text)
"""A cached test of names, as the same few names recur in every row."""


def _whole(column: str, value: object, largest: int = _LARGEST) -> int:
    # A pattern first, because int() also accepts underscores and the digits of any script.
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadRowError(column, f"must be a whole number, got {value!r}")
    if abs(value) > largest:
        shown = value if abs(value) < 1 << 64 else "a longer one"
        raise BadRowError(column, f"must be at most {largest}, got {shown}")
    return value


def _text(column: str, value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadRowError(column, f"must be text, got {value!r}")
    if not is_utf8(value):
        raise BadRowError(column, f"must be text that UTF-8 can hold, got {value!r}")
    return value
