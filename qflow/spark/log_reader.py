"""Read a client log bit by bit: good rows as Arrow batches, the others with the reason.

A bit in which every row is good is checked column by column, at once; only where one is not, each row is
looked at for itself, with the words of :mod:`qflow.trace.log_rows`.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from qflow.spark.batches import MOST_ROWS, to_batches
from qflow.spark.schema import EVENTS as EVENT_ROWS
from qflow.trace.log_rows import EVENTS, LogError, LogRow, checked_rows

ENDINGS = (".parquet", ".csv", ".csv.gz")
COLUMNS = LogRow._fields
NUMBERED = ("seq", *COLUMNS)
"""A log may number its events itself; it may then be shuffled, and what is missing shows."""

_SHOWN = 500

Problem = tuple[str, int, str, str, str]
"""A row of QUARANTINE."""


class Bit(NamedTuple):
    """Some rows of a log: the good ones as a batch of EVENTS, and the others."""

    good: Any
    problems: list[Problem]


def source_of(path: str) -> str:
    """Return the name of a log: its file's, up to the first dot.

    Examples
    --------
    >>> source_of("logs/monday.csv.gz")
    'monday'
    """
    return path.rstrip("/").rsplit("/", 1)[-1].split(".")[0]


def read_log(path: str) -> Iterator[Bit]:
    """Yield the rows of a log, bit by bit; every row is in one of the two lists of one bit.

    A file that cannot be read, or not to its end, is one row of the quarantine.

    Parameters
    ----------
    path : str
        A ``.parquet``, ``.csv`` or ``.csv.gz`` file with the columns of a client log, and perhaps ``seq``.
    """
    reader = _Reader(source_of(path))
    try:
        if path.endswith(".parquet"):
            for batch in _parquet(path, reader):
                yield reader.take_batch(batch)
        else:
            for rows in _csv(path, reader):
                yield reader.take_rows(rows)
    except (OSError, LogError) as error:
        reason = " ".join(str(error).split())[:_SHOWN]
        place = reader.number + 1 if reader.number else 0
        yield Bit(None, [(reader.source, place, "", reason, "")])


class _Reader:
    """Remembers where in the file it is."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.number = 0
        self._time = 0
        self._is_numbered = False

    def begin(self, header: Sequence[str]) -> None:
        """Look at the names of the columns."""
        if tuple(header) not in (COLUMNS, NUMBERED):
            missing = [name for name in COLUMNS if name not in header]
            what = f"the column {missing[0]} is missing; " if missing else ""
            got = ", ".join(header) or "none"
            raise LogError(f"{what}the columns must be {', '.join(COLUMNS)}, got {got}")
        self._is_numbered = tuple(header) == NUMBERED

    def take_batch(self, batch: Any) -> Bit:
        """Take a batch of the file."""
        good = self._all_good(batch)
        if good is None:
            columns = (column.to_pylist() for column in batch.columns)
            return self.take_rows(list(zip(*columns, strict=True)))
        self.number += batch.num_rows
        return Bit(good, [])

    def take_rows(self, rows: list[Any]) -> Bit:
        """Take rows one by one."""
        good: list[Sequence[Any]] = []
        problems: list[Problem] = []
        for values in rows:
            self.number += 1
            try:
                good.append(self._row(values))
            except LogError as error:
                problems.append(self._problem(values, str(error)))
        (batch,) = to_batches(good, EVENT_ROWS, len(good)) if good else (None,)
        return Bit(batch, problems)

    def _row(self, values: Sequence[Any]) -> tuple[Any, ...]:
        own, rest = (values[0], values[1:]) if self._is_numbered else (self.number - 1, values)
        if not str(own).isdecimal():
            raise LogError(f"row 1, column seq: must be a whole number from 0, got {own!r}")
        (row,) = checked_rows((COLUMNS, rest))
        time = max(0, row.ts_us)
        if not self._is_numbered:
            if time < self._time:
                raise LogError(
                    f"row 1, column ts_us: time must not go back, got {row.ts_us} after {self._time}"
                )
            self._time = time
        return (self.source, int(own), time, *row[1:])

    def _problem(self, values: Sequence[Any], words: str) -> Problem:
        place, _, reason = words.partition(": ")
        column = place.partition("column ")[2]
        shown = json.dumps(list(values), ensure_ascii=False, default=str)[:_SHOWN]
        return (self.source, self.number, column, reason, shown)

    def _all_good(self, batch: Any) -> Any:
        """Return a batch of EVENTS if every row is good, else None."""
        import pyarrow
        import pyarrow.compute as pc

        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        whole = ("ts_us", "size", "seq") if self._is_numbered else ("ts_us", "size")
        if not all(pyarrow.types.is_integer(columns[name].type) for name in whole):
            return None
        if any(columns[name].null_count for name in (*whole, "client", "event")):
            return None
        texts = {name: _text(columns[name]) for name in ("client", "event", "queue", "label", "group")}
        if None in texts.values() or not _is_sound(columns, texts):
            return None
        # What the broker reported before the start holds at the start.
        time = pc.max_element_wise(columns["ts_us"].cast(pyarrow.int64()), 0)
        numbers = self._numbers(columns, time)
        if numbers is None:
            return None
        arrays = {
            **texts,
            "source": pyarrow.repeat(self.source, batch.num_rows),
            "row": numbers,
            "ts_us": time,
            "size": columns["size"].cast(pyarrow.int64()),
        }
        schema = EVENT_ROWS.arrow()
        return pyarrow.RecordBatch.from_arrays([arrays[name] for name in EVENT_ROWS.names], schema=schema)

    def _numbers(self, columns: Mapping[str, Any], time: Any) -> Any:
        """Return the rows' numbers, their own or by counting; None if they do not tell an order."""
        import pyarrow
        import pyarrow.compute as pc

        if self._is_numbered:
            numbers = columns["seq"].cast(pyarrow.int64())
            return None if pc.min(numbers).as_py() < 0 else numbers
        goes_back = len(time) > 1 and pc.min(pc.pairwise_diff(time)).as_py() < 0
        if goes_back or time[0].as_py() < self._time:
            return None
        self._time = time[-1].as_py()
        return pyarrow.array(range(self.number, self.number + len(time)), pyarrow.int64())


def _is_sound(columns: Mapping[str, Any], texts: Mapping[str, Any]) -> bool:
    """Tell whether every row says who did what, and no number in it is impossible."""
    import pyarrow
    import pyarrow.compute as pc

    recorded = columns["ts_us"].cast(pyarrow.int64())
    tests = (
        pc.or_(pc.greater_equal(recorded, 0), pc.equal(texts["event"], "stats")),
        pc.is_in(texts["event"], value_set=pyarrow.array(EVENTS)),
        pc.not_equal(texts["client"], ""),
        pc.greater_equal(columns["size"], 0),
    )
    return all(pc.all(test).as_py() for test in tests)


def _text(column: Any) -> Any:
    """Return a column as plain text, null as empty; None if it holds something else."""
    import pyarrow

    kind = column.type
    if pyarrow.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if pyarrow.types.is_null(kind) or pyarrow.types.is_string(kind) or pyarrow.types.is_large_string(kind):
        return column.cast(pyarrow.string()).fill_null("")
    return None


def _parquet(path: str, reader: _Reader) -> Iterator[Any]:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            reader.begin(file.schema_arrow.names)
            for batch in file.iter_batches(batch_size=MOST_ROWS):
                if batch.num_rows:
                    yield batch
    except (pyarrow.ArrowInvalid, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        words = str(error).strip().splitlines()[0]
        raise LogError(f"the file is cut off or damaged, or no Parquet ({words})") from None


def _csv(path: str, reader: _Reader) -> Iterator[list[list[str]]]:
    with open(path, "rb") as raw:
        binary = gzip.GzipFile(fileobj=raw) if path.endswith(".gz") else raw
        try:
            with io.TextIOWrapper(binary, encoding="utf-8", newline="") as text:
                rows = csv.reader(text, strict=True)
                reader.begin(next(rows, []))
                while part := list(islice(rows, MOST_ROWS)):
                    yield part
        except (EOFError, zlib.error, gzip.BadGzipFile, UnicodeDecodeError, csv.Error) as error:
            raise LogError(f"the file is cut off or damaged ({error})") from None
