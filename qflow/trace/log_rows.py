"""Rows of a client log: read from a file, and checked on the way in."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

EVENTS = ("transfer", "complete", "block", "unblock", "error", "deliver", "accept", "release", "stats")
"""What a row of a client log may tell of."""


class LogError(ValueError):
    """A client log that cannot be used; the text names the row, counted from 1, and the column."""


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


def read_rows(path: Path) -> list[LogRow]:
    """Read a log, ``.csv``, ``.csv.gz`` or ``.parquet`` (which needs pyarrow).

    Raises
    ------
    LogError
        If the file is of another kind, cut off, or holds a row that makes no sense.
    OSError
        If the file cannot be opened.
    """
    try:
        if path.name.endswith((".csv", ".csv.gz")):
            return checked_rows(_csv_rows(path))
        if path.name.endswith(".parquet"):
            return checked_rows(_parquet_rows(path))
    except LogError as error:
        raise LogError(f"{path.name}: {error}") from None
    raise LogError(f"{path.name}: a client log is a .csv, .csv.gz or .parquet file")


def checked_rows(rows: Iterable[Sequence[object]]) -> list[LogRow]:
    """Convert rows of values, and check each.

    Parameters
    ----------
    rows : iterable of sequences
        The first holds the names of the columns; the others one value a column, as numbers or text.

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
        row = _row(number, values)
        if before is not None and row.ts_us < before:
            raise LogError(
                f"row {number}, column ts_us: time must not go back, got {row.ts_us} after {before}"
            )
        before = row.ts_us
        checked.append(row)
    return checked


def _require_columns(header: Sequence[object]) -> None:
    if tuple(header) != LogRow._fields:
        got = ", ".join(map(str, header)) or "none"
        raise LogError(f"the columns must be {', '.join(LogRow._fields)}, got {got}")


def _row(number: int, values: Sequence[object]) -> LogRow:
    if len(values) != len(LogRow._fields):
        raise LogError(f"row {number}: must have {len(LogRow._fields)} values, got {len(values)}")
    ts_us, client, event, queue, label, size, group = values
    if event not in EVENTS:
        raise LogError(f"row {number}, column event: must be one of {', '.join(EVENTS)}, got {event!r}")
    if not client:
        raise LogError(f"row {number}, column client: must be a name, got {client!r}")
    time, length = _whole(number, "ts_us", ts_us), _whole(number, "size", size)
    if length < 0:
        raise LogError(f"row {number}, column size: must not be negative, got {length}")
    # Empty text is kept as null by some writers.
    return LogRow(time, str(client), str(event), str(queue or ""), str(label or ""), length, str(group or ""))


def _whole(number: int, column: str, value: object) -> int:
    try:
        if isinstance(value, str | int):
            return int(value)
    except ValueError:
        pass
    raise LogError(f"row {number}, column {column}: must be a whole number, got {value!r}")


def _csv_rows(path: Path) -> Iterator[Sequence[object]]:
    count = -1
    with path.open("rb") as raw:
        binary = gzip.GzipFile(fileobj=raw) if path.name.endswith(".gz") else raw
        try:
            with io.TextIOWrapper(binary, encoding="utf-8", newline="") as text:
                for row in csv.reader(text, strict=True):
                    count += 1
                    yield row
        except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError, csv.Error) as error:
            after = f"after row {count}" if count > 0 else "at its beginning"
            raise LogError(f"the file is cut off or damaged {after} ({error})") from None


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
