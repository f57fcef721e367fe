"""Client logs as files: the columns of a log, and the one reader of all its kinds.

A log is a table with one row for each thing that a client did or saw, in order of time.  It is a ``.csv`` or
a ``.jsonl`` file, either also packed (``.gz``), or a ``.parquet`` file, or a folder ``.parquet`` with such
files as its parts, as Spark and ``qflow record`` write one.  It may number its rows itself, in a first column
``seq``; they may then be shuffled, and what is missing shows.

A line that cannot be read (bytes that are no UTF-8, a quotation mark that is never closed) is one row
set aside, and what follows it is read; a file that is cut off gives what comes before the cut, and a problem.

Every row is checked before anything is made of it: good rows are kept, and a bad one is set aside with the
column and the reason, so that one damaged line does not cost a day's recording.

A log that another program wrote has other columns, and its times may count from 1970; what they mean
:mod:`qflow.logs.foreign_columns` says, and the rows come out as any others.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from sys import intern
from typing import Any, NamedTuple, get_type_hints

from qflow.kit import explain_missing
from qflow.logs.foreign_columns import FAR, ColumnMap, Recognised, own_clock
from qflow.qflow_error import QflowError
from qflow.trace.files import DAMAGE, QuarantinedRow, open_unpacked
from qflow.workload.attributes import LARGEST_NUMBER, LONGEST_NAME, is_text

OF_PRODUCERS = ("transfer", "complete", "block", "unblock", "refused")
SETTLEMENTS = ("accept", "release", "reject")
OF_CONSUMERS = ("deliver", *SETTLEMENTS)
LOG_EVENTS = (*OF_PRODUCERS, "error", *OF_CONSUMERS, "stats")
"""What a row of a client log may be about."""

LOG_ENDINGS = (".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".parquet")

PART = "part-{:05d}.parquet"
"""The name of a part of a log that is a folder; the parts are in order of their names."""

MOST_ROWS = 10_000
"""Rows that are read at once."""

_LARGEST = 10**18
"""Of times in microseconds, of counts and of sums of bytes: so much a 64-bit column of a trace holds."""

_WHOLE = re.compile(r"[ \t]*[+-]?[0-9]{1,19}[ \t]*")


class LogError(QflowError, ValueError):
    """A client log that cannot be used; the text names the row, counted from 1, and the column.

    >>> issubclass(LogError, ValueError)
    True
    """


class LogRow(NamedTuple):
    """One row of a client log.

    Fields:
        ts_us: Microseconds since the start of the workload; negative before it.
        client: A producer, a consumer, or ``broker`` for statistics.
        event: One of :data:`LOG_EVENTS`.
        queue: Consumers and statistics: the queue; producers: the routing key, or the exchange if the key is
            empty.
        label: The message, ``<producer>-<n>``; for ``error`` its text; for ``stats`` a JSON list of
            :data:`SAMPLE_FIELDS`.
        size: Content bytes (``transfer``, ``deliver``).
        group: The message's group, if any.

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
    """One row of a component: of a log, with its number; first and last are ``begin`` and ``end``."""

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
        """Return the first row of a component."""
        return cls(0, 0, "", BEGIN, "", tolerance, 0, "", workload)

    @classmethod
    def of(cls, seq: int, row: LogRow) -> LakeRow:
        """Return a log's row; what the broker reported before the start holds at the start."""
        return cls(seq, max(0, row.ts_us), *row[1:])

    @classmethod
    def end(cls, seq: int, time: int) -> LakeRow:
        """Return the last row of a component."""
        return cls(seq, time, "", END, "", "", 0, "")


COLUMNS = LogRow._fields
NUMBERED = ("seq", *COLUMNS)


class QueueSample(NamedTuple):
    """What the real broker reported of one queue at one instant, under its own names (CM-15).

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
"""What the label of a ``stats`` row lists."""
_SAMPLE_TYPES = tuple(get_type_hints(QueueSample).values())[1:]


class Bit(NamedTuple):
    """Some rows of a log, in the file's order."""

    numbers: list[int]
    rows: list[LogRow]
    problems: list[QuarantinedRow]
    recognised: Recognised | None = None


def forget_oldest(memory: dict[Any, Any], most: int) -> Any:
    """Drop the oldest entry of a memory that holds too many, the same in every run; return its key."""
    if len(memory) <= most:
        return None
    oldest = next(iter(memory))
    del memory[oldest]
    return oldest


def source_of(path: str | Path) -> str:
    """Return the name of a log: its file's, up to the first dot."""
    return str(path).rstrip("/").rsplit("/", 1)[-1].split(".")[0]


def sample_values(label: str) -> list[Any] | None:
    """Return what the label of a ``stats`` row lists; None if it is no such list."""
    try:
        values = json.loads(label)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list) or tuple(map(type, values)) != _SAMPLE_TYPES:
        return None
    return values if all(0 <= value <= _LARGEST for value in values) else None


def read_log(path: str | Path, columns: str | Mapping[str, str] | None = None) -> Iterator[Bit]:
    """Yield the rows of a log, bit by bit; every row is in one of the two lists of one bit."""
    path = Path(path)
    try:
        reader = _Reader(None if columns is None else ColumnMap.of(columns))
    except ValueError as error:
        raise LogError(str(error)) from None
    if path.name.endswith(".parquet"):
        return _parquet_bits(path, reader)
    if path.name.endswith(LOG_ENDINGS):
        return _text_bits(path, reader)
    raise LogError(f"a client log is a {', '.join(LOG_ENDINGS[:-1])} or {LOG_ENDINGS[-1]} file")


class _BadRowError(Exception):
    """A row that makes no sense: the column, if it is one, and what is allowed and was got."""


class _Reader:
    """Checks rows in the file's order, and remembers where in the file it is."""

    def __init__(self, map_: ColumnMap | None = None) -> None:
        self.number = 0
        self.map = map_
        self.recognised: Recognised | None = None
        self._time: int | None = None
        self._near = 0
        self._wanted = len(COLUMNS)
        self._is_numbered = False

    def begin(self, header: Sequence[object], first: Sequence[Any], instants: Collection[str] = ()) -> None:
        """Look at the names of the columns, and at the first rows for how their times are to be read."""
        self._wanted = len(header)
        clock = self.recognised and self.recognised.clock
        good = [row for row in first if not isinstance(row, _BadRowError) and len(row) == self._wanted]
        if self.map is None:
            self._require_own(header)
            self._is_numbered = tuple(header) == NUMBERED
            clock = clock or own_clock([row[self._is_numbered] for row in good])
            self.recognised = Recognised(None, clock) if clock else None
            return
        try:
            columns = self.map.found_in([str(name) for name in header])
            unit = "us" if columns.names["time"] in instants else self.map.unit
            clock = clock or columns.clock_of(good, unit)
        except ValueError as error:
            raise LogError(str(error)) from None
        self._is_numbered = "seq" in columns.places
        self.recognised = Recognised(columns, clock)

    def _require_own(self, header: Sequence[object]) -> None:
        if tuple(header) not in (COLUMNS, NUMBERED):
            missing = [name for name in COLUMNS if name not in header]
            what = f"; the column {missing[0]} is missing" if header and missing else ""
            got = ", ".join(map(str, header)) or "none"
            hint = "; what foreign columns mean is said by --map, in code by columns=" if header else ""
            raise LogError(f"the columns must be {', '.join(COLUMNS)}, got {got}{hint}{what}")

    def cut_off(self, reason: str) -> Bit:
        return Bit([], [], [QuarantinedRow(self.number + 1, "", reason)], self.recognised)

    def take(self, rows: Sequence[Sequence[object] | _BadRowError]) -> Bit:
        bit = Bit([], [], [], self.recognised)
        for place, values in enumerate(rows):
            self.number += 1
            try:
                number, row = self._row(values)
                if not self._is_numbered:
                    self._keep_time(row, bit, rows[place + 1 : place + 2])
            except _BadRowError as bad:
                bit.problems.append(self._quarantine(self.number, bad, values))
                continue
            self._near = row.ts_us
            bit.numbers.append(number)
            bit.rows.append(row)
        return bit

    def _keep_time(self, row: LogRow, bit: Bit, ahead: Sequence[Any]) -> None:
        """Set aside a row of a time before the last one's; or the last one, if it is the one out of line."""
        last = self._time
        self._time = row.ts_us
        if last is None or row.ts_us >= last:
            return
        hint = f"the rows must be in order of time, sort them by {self._name('ts_us')}"
        if len(bit.rows) > 1 and bit.rows[-2].ts_us <= row.ts_us and self._comes_next(row, last, ahead):
            late, number = bit.rows.pop(), bit.numbers.pop() + 1
            reason = f"time must not go ahead and back, got {last}, later rows have {row.ts_us}; {hint}"
            bit.problems.append(self._quarantine(number, _BadRowError("ts_us", reason), late))
            return
        self._time = last
        raise _BadRowError("ts_us", f"time must not go back, got {row.ts_us} after {last}; {hint}")

    def _comes_next(self, row: LogRow, last: int, ahead: Sequence[Any]) -> bool:
        """Return whether the row after this one goes on from it, and not from the one before it."""
        try:
            return any(row.ts_us <= self._row(values)[1].ts_us < last for values in ahead)
        except _BadRowError:
            return False

    def _row(self, values: Sequence[object] | _BadRowError) -> tuple[int, LogRow]:
        if isinstance(values, _BadRowError):
            raise values
        if len(values) != self._wanted:
            raise _BadRowError("", f"must have {self._wanted} values, got {len(values)}")
        number, columns = self.number - 1, self.recognised and self.recognised.columns
        if self._is_numbered:
            number = _whole("seq", values[columns.places["seq"] if columns else 0])
            values = values if columns else values[1:]
            if number < 0:
                raise _BadRowError("seq", f"must not be negative, got {number}")
        if columns:
            values = columns.values(values, self._since_start)
        elif self.recognised:
            values = [self._since_start(values[0]), *values[1:]]
        return number, _check_row(values)

    def _since_start(self, value: object) -> int:
        assert self.recognised is not None
        try:
            time = self.recognised.clock.read(value)
        except ValueError as error:
            raise _BadRowError("ts_us", str(error)) from None
        if abs(time - self._near) > FAR:
            days = abs(time - self._near) / FAR * 7
            raise _BadRowError(
                "ts_us",
                f"must be at most 7 days from the row before, got {str(value)[:40]!r}, {days:.0f} days",
            )
        return time

    def _name(self, column: str) -> str:
        columns = self.recognised and self.recognised.columns
        meaning = "time" if column == "ts_us" else column
        return columns.names.get(meaning, column) if columns else column

    def _quarantine(
        self, number: int, bad: _BadRowError, values: Sequence[object] | _BadRowError
    ) -> QuarantinedRow:
        shown = "" if isinstance(values, _BadRowError) else json.dumps(list(values), default=str)
        column, reason = bad.args
        if column == "event" and self.map is not None:
            reason += "; --map 'event=COLUMN:{WORD=EVENT,…}' says what a word means"
        return QuarantinedRow(number, self._name(column), reason, shown[:500])


# One row


def _check_row(values: Sequence[object]) -> LogRow:
    ts_us, client, event, queue, label, size, group = values
    if event not in LOG_EVENTS:
        raise _BadRowError("event", f"must be one of {', '.join(LOG_EVENTS)}, got {event!r}")
    if not client or not isinstance(client, str):
        raise _BadRowError("client", f"must be a name, got {client!r}")
    for column, name in (("client", client), ("queue", queue)):
        if isinstance(name, str) and not _is_name(name):
            raise _BadRowError(
                column, f"must be a name of at most {LONGEST_NAME} bytes of UTF-8, got {name[:40]!r}"
            )
    time, length = _whole("ts_us", ts_us), _whole("size", size, LARGEST_NUMBER)
    if time < 0 and event != "stats":
        allowed = "must not be negative, only the broker reports before the start"
        raise _BadRowError("ts_us", f"{allowed}; got {time}")
    if length < 0:
        raise _BadRowError("size", f"must not be negative, got {length}")
    # Empty text is kept as null by some writers.
    texts = [_text(column, value) for column, value in (("queue", queue), ("label", label), ("group", group))]
    if event == "stats" and sample_values(texts[1]) is None:
        names = ", ".join(SAMPLE_FIELDS)
        raise _BadRowError("label", f"must be a JSON list of {names}, got {texts[1]!r}")
    # Of each text that comes again there is one object, which saves memory.
    queue, label, group = map(intern, texts)
    return LogRow(time, intern(client), intern(str(event)), queue, label, length, group)


_is_name = lru_cache(1024)(is_text)
"""The same names come again and again."""


def _whole(column: str, value: object, largest: int = _LARGEST) -> int:
    # Python also takes underscores and the digits of any script for a number.
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _BadRowError(column, f"must be a whole number, got {value!r}")
    if abs(value) > largest:
        shown = value if abs(value) < 1 << 64 else "a longer one"
        raise _BadRowError(column, f"must be at most {largest}, got {shown}")
    return value


def _text(column: str, value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _BadRowError(column, f"must be text, got {value!r}")
    if not _is_utf8(value):
        raise _BadRowError(column, f"must be text that UTF-8 can hold, got {value!r}")
    return value


def _is_utf8(text: str) -> bool:
    return text.isascii() or is_text(text, sys.maxsize)


# Files


def _text_bits(path: Path, reader: _Reader) -> Iterator[Bit]:
    damage: list[Exception] = []
    # What is no UTF-8 becomes surrogates, by which its line is known.
    with (
        open_unpacked(path) as binary,
        io.TextIOWrapper(binary, encoding="utf-8-sig", errors="surrogateescape", newline="") as text,
    ):
        is_json = ".jsonl" in path.name
        rows = _json_rows(text, reader.map is not None) if is_json else _csv_rows(text)
        given = _until_damage(rows, damage)
        header = next(given, ())
        if isinstance(header, _BadRowError):
            raise LogError(f"the first line {header.args[1]}")
        part = list(islice(given, MOST_ROWS))
        if header or not damage:
            reader.begin(header, part)
        while part:
            yield reader.take(part)
            part = list(islice(given, MOST_ROWS))
    if damage:
        after = f"after row {reader.number}" if reader.number else "at its beginning"
        reason = f"the file is cut off or damaged {after} ({damage[0]})"
        if not reader.number:
            raise LogError(reason)
        yield reader.cut_off(reason)


def _until_damage(rows: Iterator[Any], damage: list[Exception]) -> Iterator[Any]:
    try:
        yield from rows
    except (*DAMAGE, csv.Error) as error:
        damage.append(error)


def _csv_rows(text: io.TextIOWrapper) -> Iterator[Sequence[str] | _BadRowError]:
    """Yield the rows; of one that cannot be read the first line is given up, its others are read again."""
    # The lines of the row that is read, and those to be read before the file's next.
    taken: list[str] = []
    again: deque[str] = deque()

    def lines() -> Iterator[str]:
        while again or (line := next(text, "")):
            taken.append(again.popleft() if again else line)
            yield taken[-1]

    reader = csv.reader(lines(), strict=True)
    wanted = 0
    while True:
        taken.clear()
        problem = ""
        try:
            row = next(reader)
            # A quotation mark that was left open may be closed by chance, rows later.
            if len(taken) > 1 and len(row) != wanted:
                problem = "a quotation mark is left open"
        except StopIteration:
            return
        except csv.Error as error:
            if len(taken) == 1 and not taken[0].endswith(("\n", "\r")):
                # The file's last line, which is not whole.
                raise
            problem = str(error)
        if problem:
            again.extendleft(reversed(taken[1:]))
            reader = csv.reader(lines(), strict=True)
            yield _BadRowError("", f"must be a line of CSV, got {taken[0][:40].strip()!a}: {problem}")
        else:
            wanted = wanted or len(row)
            yield row if all(map(_is_utf8, taken)) else _no_utf8(taken)


def _no_utf8(lines: Sequence[str]) -> _BadRowError:
    return _BadRowError("", f"must be UTF-8, got {''.join(lines)[:40].strip()!a}")


def _json_line(line: str) -> Any:
    try:
        return json.loads(line) if _is_utf8(line) else _no_utf8([line])
    except (ValueError, RecursionError):
        return _BadRowError("", f"must be a JSON object, got {line[:40].strip()!r}")


def _json_rows(text: io.TextIOWrapper, is_foreign: bool) -> Iterator[Sequence[object] | _BadRowError]:
    """Yield the columns, of a foreign log those of its first objects, and then the rows."""
    given = map(_json_line, text)
    first = list(islice(given, MOST_ROWS if is_foreign else 1))
    objects = [item for item in first if isinstance(item, dict)]
    names: Sequence[str] = NUMBERED if objects and "seq" in objects[0] else COLUMNS
    if is_foreign:
        names = list(dict.fromkeys(name for item in objects for name in _flat(item)))
    yield names
    for item in chain(first, given):
        if isinstance(item, _BadRowError):
            yield item
        elif isinstance(item, dict) and (is_foreign or set(item) == set(names)):
            # What a foreign object lacks is null.
            row = _flat(item) if is_foreign else item
            yield [row.get(name) for name in names]
        else:
            what = "" if is_foreign else f" of {', '.join(names)}"
            got = ", ".join(item) if isinstance(item, dict) else repr(item)[:40]
            yield _BadRowError("", f"must be a JSON object{what}, got {got}")


def _flat(item: Mapping[str, Any], depth: int = 3) -> dict[str, Any]:
    """Return an object whose own objects are columns such as ``host.name``."""
    flat: dict[str, Any] = {}
    for name, value in item.items():
        inner = _flat(value, depth - 1) if depth and isinstance(value, dict) else {}
        flat |= {f"{name}.{key}": inside for key, inside in inner.items()} or {name: value}
    return flat


def _parquet_bits(path: Path, reader: _Reader) -> Iterator[Bit]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        words = explain_missing("Parquet", "pyarrow", "trace")
        raise LogError(f"{words}, or give the log as .csv.gz") from None
    parts = sorted(path.glob("part-*.parquet")) if path.is_dir() else [path]
    if not parts:
        raise LogError("a folder that is a log holds parts, part-*.parquet; this one holds none")
    try:
        for part in parts:
            with parquet.ParquetFile(part) as file:
                schema = file.schema_arrow
                given = map(_rows_of_batch, file.iter_batches(batch_size=MOST_ROWS))
                first = next(filter(None, given), [])
                instants = {field.name for field in schema if pyarrow.types.is_timestamp(field.type)}
                reader.begin(schema.names, first, instants)
                for rows in chain([first], given):
                    yield reader.take(rows)
    except (pyarrow.ArrowInvalid, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        words = str(error).strip().splitlines()[0]
        reason = f"the file is cut off or damaged, or no Parquet ({words})"
        if not reader.number:
            raise LogError(reason) from None
        yield reader.cut_off(reason)


def _rows_of_batch(batch: Any) -> list[tuple[object, ...]]:
    """Return the rows of an Arrow batch; its instants, of whatever unit, as microseconds since 1970."""
    import pyarrow

    columns = [
        column.cast(pyarrow.timestamp("us", column.type.tz), safe=False).cast(pyarrow.int64())
        if pyarrow.types.is_timestamp(column.type)
        else column
        for column in batch.columns
    ]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
