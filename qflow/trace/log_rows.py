"""Rows of a client log: read from a file, and checked on the way in."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

EVENTS = (
    "transfer",
    "complete",
    "block",
    "unblock",
    "error",
    "deliver",
    "accept",
    "release",
    "reject",
    "stats",
)
"""What a row of a client log may tell of."""


class LogError(ValueError):
    """A client log that cannot be used; the text names the row, counted from 1, and the column."""


class _BadRowError(Exception):
    """A row that makes no sense: the column, if it is one, and what is allowed and was got."""

    def __init__(self, column: str, reason: str) -> None:
        super().__init__(column, reason)
        self.column = column
        self.reason = reason


class _CutOffError(_BadRowError):
    """The file ends here, though it should not."""


Refuse = Callable[[int, str, str, object], None]
"""Told of a row that makes no sense: its number, the column, the reason, and what the file has there."""

ENDINGS = (".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".parquet")


class LogRow(NamedTuple):
    """One row of a client log.

    Fields
    ------
    ts_us : int
        Microseconds since the start of the workload; negative before it.
    client : str
        A producer, a consumer, or ``broker`` for statistics.
    event : str
        One of :data:`EVENTS`.
    queue : str
        Consumers and statistics: the queue; producers: the routing key, or the exchange if the key
        is empty.
    label : str
        The message, ``<producer>-<n>``; for ``error`` its text; for ``stats`` a JSON list.
    size : int
        Content bytes (``transfer``, ``deliver``).
    group : str
        The message's group, if any.

    Examples
    --------
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


def read_rows(path: Path, refuse: Refuse | None = None) -> list[LogRow]:
    """Read a log: ``.csv``, ``.jsonl`` (also ``.gz``) or ``.parquet`` (which needs pyarrow).

    Parameters
    ----------
    path : Path
        The file.
    refuse : callable or None
        Told of each row that makes no sense, which is then left out; None to refuse the file instead.

    Raises
    ------
    LogError
        If the file is of another kind, cannot be read at all, or holds a row that makes no sense.
    OSError
        If the file cannot be opened.
    """
    try:
        if path.name.endswith((".csv", ".csv.gz")):
            return checked_rows(_csv_rows(path), refuse)
        if path.name.endswith((".jsonl", ".jsonl.gz")):
            return checked_rows(_json_rows(path), refuse)
        if path.name.endswith(".parquet"):
            return checked_rows(_parquet_rows(path), refuse)
    except LogError as error:
        raise LogError(f"{path.name}: {error}") from None
    raise LogError(f"{path.name}: a client log is a {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]} file")


def checked_rows(
    rows: Iterable[Sequence[object] | _BadRowError], refuse: Refuse | None = None
) -> list[LogRow]:
    """Convert rows of values, and check each.

    Parameters
    ----------
    rows : iterable of sequences
        The first holds the names of the columns; the others one value a column, as numbers or text.
    refuse : callable or None
        Told of each row that makes no sense, which is then left out.

    Raises
    ------
    LogError
        For the first row that makes no sense.

    Examples
    --------
    >>> columns = ("ts_us", "client", "event", "queue", "label", "size", "group")
    >>> checked_rows([columns, ("657", "p1", "transfer", "orders", "p1-1", "100", "")])[0].ts_us
    657
    >>> checked_rows([columns, ("soon", "p1", "transfer", "orders", "p1-1", "100", "")])
    Traceback (most recent call last):
        ...
    qflow.trace.log_rows.LogError: row 1, column ts_us: must be a whole number, got 'soon'
    """
    iterator = iter(rows)
    _require_columns(next(iterator, ()))
    checked: list[LogRow] = []
    before: int | None = None
    for number, values in enumerate(iterator, 1):
        try:
            row = _row(values, before)
        except _BadRowError as bad:
            if refuse is None:
                place = f", column {bad.column}" if bad.column else ""
                where = "" if isinstance(bad, _CutOffError) else f"row {number}{place}: "
                raise LogError(f"{where}{bad.reason}") from None
            refuse(number, bad.column, bad.reason, values if not isinstance(values, _BadRowError) else "")
            continue
        before = row.ts_us
        checked.append(row)
    return checked


def _require_columns(header: Sequence[object] | _BadRowError) -> None:
    if isinstance(header, _BadRowError):
        raise LogError(header.reason)
    if tuple(header) != LogRow._fields:
        got = ", ".join(map(str, header)) or "none"
        raise LogError(f"the columns must be {', '.join(LogRow._fields)}, got {got}")


def _row(values: Sequence[object] | _BadRowError, before: int | None) -> LogRow:
    if isinstance(values, _BadRowError):
        raise values
    if len(values) != len(LogRow._fields):
        raise _BadRowError("", f"must have {len(LogRow._fields)} values, got {len(values)}")
    ts_us, client, event, queue, label, size, group = values
    if event not in EVENTS:
        raise _BadRowError("event", f"must be one of {', '.join(EVENTS)}, got {event!r}")
    if not client or not isinstance(client, str):
        raise _BadRowError("client", f"must be a name, got {client!r}")
    time, length = _whole("ts_us", ts_us), _whole("size", size)
    if time < 0 and event != "stats":
        allowed = "must not be negative, only the broker reports before the start"
        raise _BadRowError("ts_us", f"{allowed}; got {time}")
    if before is not None and time < before:
        hint = "the rows must be in order of time, sort them by ts_us"
        raise _BadRowError("ts_us", f"time must not go back, got {time} after {before}; {hint}")
    if length < 0:
        raise _BadRowError("size", f"must not be negative, got {length}")
    # Empty text is kept as null by some writers.
    texts = [_text(column, value) for column, value in (("queue", queue), ("label", label), ("group", group))]
    return LogRow(time, client, str(event), texts[0], texts[1], length, texts[2])


def _whole(column: str, value: object) -> int:
    try:
        if isinstance(value, str | int) and not isinstance(value, bool):
            return int(value)
    except ValueError:
        pass
    raise _BadRowError(column, f"must be a whole number, got {value!r}")


def _text(column: str, value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    raise _BadRowError(column, f"must be text, got {value!r}")


_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError, csv.Error)


def _lines(path: Path, raw: io.BufferedReader) -> io.TextIOWrapper:
    binary = gzip.GzipFile(fileobj=raw) if path.name.endswith(".gz") else raw
    return io.TextIOWrapper(binary, encoding="utf-8", newline="")


def _csv_rows(path: Path) -> Iterator[Sequence[object] | _BadRowError]:
    count = -1
    with path.open("rb") as raw:
        try:
            with _lines(path, raw) as text:
                for row in csv.reader(text, strict=True):
                    count += 1
                    yield row
        except _DAMAGE as error:
            yield _cut_off(count, error)


def _json_rows(path: Path) -> Iterator[Sequence[object] | _BadRowError]:
    yield LogRow._fields
    count = 0
    with path.open("rb") as raw:
        try:
            with _lines(path, raw) as text:
                for line in text:
                    count += 1
                    yield _json_row(line)
        except _DAMAGE as error:
            yield _cut_off(count, error)


def _json_row(line: str) -> Sequence[object] | _BadRowError:
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        return _BadRowError("", f"must be a JSON object, got {line[:40].strip()!r}")
    if not isinstance(given, dict) or set(given) != set(LogRow._fields):
        got = ", ".join(given) if isinstance(given, dict) else repr(given)[:40]
        return _BadRowError("", f"must be a JSON object of {', '.join(LogRow._fields)}, got {got}")
    return [given[name] for name in LogRow._fields]


def _cut_off(count: int, error: Exception) -> _CutOffError:
    after = f"after row {count}" if count > 0 else "at its beginning"
    return _CutOffError("", f"the file is cut off or damaged {after} ({error})")


def _parquet_rows(path: Path) -> Iterator[Sequence[object]]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise LogError(
            "reading Parquet needs pyarrow: pip install pyarrow, or give the log as .csv.gz"
        ) from None
    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowIOError) as error:
        raise LogError(
            f"the file is cut off or damaged, or no Parquet ({str(error).splitlines()[0]})"
        ) from None
    yield table.column_names
    yield from zip(*(column.to_pylist() for column in table.columns), strict=True)
