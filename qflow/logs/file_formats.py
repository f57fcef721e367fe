"""File formats: read a client log in any supported format as a table of a header and raw rows.

The format is detected from the content, and from the file's name only if the content does not show it.
Parquet and gzip are detected by their magic bytes, JSON by its first character (``{`` for one object per
line, ``[`` for an array), text by the separator in its header (comma, semicolon, tab or bar), and UTF-16 by
its byte order mark or null bytes.  This module does not check values; :mod:`qflow.logs.log_file` does.

A line that cannot be read, because it is not UTF-8 or has an unclosed quotation mark, becomes a
:class:`BadRowError` in place of a row, and reading continues with the next line.  The table of a truncated
file ends where the file is cut off, and :attr:`RawTable.damage` has the reason.

A log may consist of several files: a folder as Spark writes it (``part-…`` beside ``_SUCCESS``, possibly
below ``day=…/``), or several files that are given together.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from qflow.kit import explain_missing
from qflow.trace.files import DAMAGE, BoundedLines
from qflow.workload.attributes import is_text

LOG_ENDINGS = (".csv", ".csv.gz", ".jsonl", ".jsonl.gz", ".parquet")
"""The endings of log files that this kit writes, and by which it finds the logs in a folder of logs."""

_TEXT_ENDINGS = (".tsv", ".ndjson", ".json", ".log", ".txt")
_ENDINGS = (*LOG_ENDINGS, *_TEXT_ENDINGS, *(f"{ending}.gz" for ending in _TEXT_ENDINGS))

_DAMAGED = "the file is cut off or damaged {{after}} ({})"

SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "bar": "|"}
"""The separators of values in text, by name; a file's separator is found in its header."""

MOST_ROWS = 10_000
"""The number of rows that are read at once."""


_ChooseColumns = Callable[[Sequence[str]], Sequence[str] | None]
"""A function from the first JSON object's keys to the columns, or None if objects may differ in keys."""


class BadRowError(Exception):
    """A row is invalid; its arguments are the column (empty for the whole row) and the reason."""


@dataclass
class RawTable:
    """An open file of a log as a table: its header, and an iterator over its rows."""

    # rows: The values of each row in the header's order, or an error for an unreadable line.
    # instants: The columns that are timestamps in Parquet, which are given in microseconds since 1970.
    # damage: After the last row, the reason why the rows ended early, with ``{after}`` for the position.

    header: Sequence[object]
    rows: Iterator[Sequence[object] | BadRowError]
    instants: Collection[str] = ()
    damage: list[str] = field(default_factory=list)


def log_files(given: str | Path | Sequence[str | Path]) -> list[Path]:
    """Return the files of a log that is given as a file, as a folder of parts, or as several of both."""
    # ValueError is raised for a file with another ending, and for a folder without parts.
    files: list[Path] = []
    for path in map(Path, [given] if isinstance(given, str | Path) else given):
        if not path.is_dir():
            if not path.name.endswith(_ENDINGS) and not path.name.startswith("part-"):
                allowed = f"{', '.join(LOG_ENDINGS[:-1])} or {LOG_ENDINGS[-1]} file"
                raise ValueError(f"a client log is a {allowed}, or {', '.join(_TEXT_ENDINGS)}")
            files.append(path)
            continue
        parts = [part for part in sorted(path.rglob("*")) if _is_part(part, path)]
        if not parts:
            raise ValueError("a folder that is a log holds parts, part-*.parquet; this one holds none")
        files += parts
    return files


_MARKS = b"\x00\xef\xbb\xbf\xff\xfe"
"""Null bytes and the bytes of byte order marks."""


def _is_part(path: Path, folder: Path) -> bool:
    # Other files of Spark and Hadoop begin with a dot or an underscore, and a workload ends in .json.
    hidden = any(name.startswith((".", "_")) for name in path.relative_to(folder).parts)
    is_named = path.name.startswith("part-") or (path.name.endswith(_ENDINGS) and path.suffix != ".json")
    return is_named and not hidden and path.is_file()


@contextmanager
def open_table(path: Path, choose_columns: _ChooseColumns, separator: str = "") -> Iterator[RawTable]:
    """Open one file of a log as a table."""
    # separator: The separator of the values in text; empty to find it in the header.
    # BadRowError is raised if the header cannot be read, or pyarrow is missing for Parquet; OSError if the
    # file cannot be opened.
    with path.open("rb") as raw:
        magic = raw.read(4)
        if magic == b"PAR1" or (path.name.endswith(".parquet") and magic[:2] != b"\x1f\x8b"):
            with _open_parquet(path) as table:
                yield table
            return
        raw.seek(0)
        is_packed = path.name.endswith(".gz") or magic[:2] == b"\x1f\x8b"
        binary: Any = io.BufferedReader(gzip.GzipFile(fileobj=raw) if is_packed else raw)
        damage: list[str] = []
        try:
            head = binary.peek(64)[:64]
        except DAMAGE as error:
            yield RawTable((), iter(()), (), [_DAMAGED.format(error)])
            return
        if is_packed and not head.translate(None, _MARKS).lstrip().startswith(b"["):
            # Not for an array, which may be a single long line.
            binary = io.BufferedReader(BoundedLines(binary))
        # Bytes that are not UTF-8 become surrogates, by which the line is recognised later.
        text = io.TextIOWrapper(binary, encoding=_encoding_of(head), errors="surrogateescape", newline="")
        rows = _rows_of_text(text, head, path.name, separator, choose_columns)
        given = _until_damage(rows, damage, (*DAMAGE, csv.Error), _DAMAGED.format)
        header = next(given, ())
        if isinstance(header, BadRowError):
            raise BadRowError("", f"the first line {header.args[1]}")
        yield RawTable(header, given, (), damage)


def _encoding_of(head: bytes) -> str:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    # UTF-16 without a byte order mark has a null byte in each pair of bytes of ASCII text.
    if len(head) > 3 and head[1] == head[3] == 0 and head[0] and head[2]:
        return "utf-16-le"
    if len(head) > 3 and head[0] == head[2] == 0 and head[1] and head[3]:
        return "utf-16-be"
    return "utf-8-sig"


def _until_damage(
    rows: Iterator[Any],
    damage: list[str],
    errors: tuple[type[Exception], ...],
    describe: Callable[[Exception], str],
) -> Iterator[Any]:
    try:
        yield from rows
    except errors as error:
        damage.append(describe(error))


def _rows_of_text(
    text: io.TextIOWrapper, head: bytes, name: str, separator: str, choose_columns: _ChooseColumns
) -> Iterator[Sequence[object] | BadRowError]:
    # Without the null bytes and byte order marks of UTF-16, the first character shows the format.
    start = head.translate(None, _MARKS).lstrip()
    is_named = any(ending in name for ending in (".jsonl", ".ndjson"))
    if start[:1] == b"[" and (start[1:].lstrip()[:1] == b"{" or ".json" in name.removesuffix("l")):
        return _json_rows(_array_items(text), choose_columns)
    if is_named or start[:1] == b"{" or name.endswith((".json", ".json.gz")):
        return _json_rows(map(_json_line, text), choose_columns)
    return _csv_rows(text, separator or ("\t" if ".tsv" in name else ""))


# Text


def _csv_rows(text: io.TextIOWrapper, separator: str) -> Iterator[Sequence[str] | BadRowError]:
    """Yield the rows of CSV; after an unreadable row, reading continues with the row's second line."""
    # The lines of the current row, and the lines to be read again before the file's next line.
    taken: list[str] = []
    again: deque[str] = deque()

    def lines() -> Iterator[str]:
        while again or (line := next(text, "")):
            taken.append(again.popleft() if again else line)
            yield taken[-1]

    first = next(text, "")
    again.append(first)
    if not first:
        return
    between = separator or max(SEPARATORS.values(), key=first.count)

    def rows() -> Any:
        # A blank after a separator is not part of the value.
        return csv.reader(lines(), delimiter=between, skipinitialspace=True, strict=True)

    reader, wanted = rows(), 0
    while True:
        taken.clear()
        problem = ""
        try:
            row = next(reader)
            # An unclosed quotation mark may be closed by another row's quotation mark.
            if len(taken) > 1 and len(row) != wanted:
                problem = "a quotation mark is left open"
        except StopIteration:
            return
        except csv.Error as error:
            if len(taken) == 1 and not taken[0].endswith(("\n", "\r")):
                # The last line of the file is incomplete.
                raise
            problem = str(error)
        if problem:
            again.extendleft(reversed(taken[1:]))
            reader = rows()
            yield BadRowError("", f"must be a line of CSV, got {taken[0][:40].strip()!a}: {problem}")
        elif wanted or not (row and row[0].startswith("sep=")):
            # Excel may write a first line that names the separator, which is not the header.
            wanted = wanted or len(row)
            yield row if all(map(is_utf8, taken)) else _no_utf8(taken)


def is_utf8(text: str) -> bool:
    """Return whether UTF-8 can encode a text."""
    return text.isascii() or is_text(text, sys.maxsize)


def _no_utf8(lines: Sequence[str]) -> BadRowError:
    return BadRowError("", f"must be UTF-8, got {''.join(lines)[:40].strip()!a}")


# JSON


def _json_line(line: str) -> Any:
    try:
        return json.loads(line) if is_utf8(line) else _no_utf8([line])
    except (ValueError, RecursionError):
        return BadRowError("", f"each line must be a complete JSON object, got {line[:40].strip()!r}")


def _array_items(text: io.TextIOWrapper) -> Iterator[Any]:
    """Yield the items of a JSON array, or raise an EOFError where it is cut off."""
    whole, decode, place = text.read(), json.JSONDecoder().raw_decode, 0
    place = whole.index("[") + 1
    while True:
        while whole[place : place + 1] in (" ", "\n", "\r", "\t", ","):
            place += 1
        if whole[place : place + 1] == "]":
            return
        try:
            item, place = decode(whole, place)
        except (ValueError, RecursionError):
            raise EOFError("the array is not closed") from None
        yield item


def _json_rows(
    given: Iterator[Any], choose_columns: _ChooseColumns
) -> Iterator[Sequence[object] | BadRowError]:
    """Yield the columns and then the rows; the columns of a foreign log are those of its first objects."""
    first = list(islice(given, 1))
    names = choose_columns(list(first[0]) if first and isinstance(first[0], dict) else [])
    is_foreign = names is None
    if names is None:
        first += islice(given, MOST_ROWS)
        objects = [item for item in first if isinstance(item, dict)]
        names = list(dict.fromkeys(name for item in objects for name in _flat(item)))
    yield names
    for item in chain(first, given):
        if isinstance(item, BadRowError):
            yield item
        elif isinstance(item, dict) and (is_foreign or set(item) == set(names)):
            # A column that a foreign object lacks is null.
            row = _flat(item) if is_foreign else item
            yield [row.get(name) for name in names]
        else:
            what = "" if is_foreign else f" of {', '.join(names)}"
            got = ", ".join(item) if isinstance(item, dict) else repr(item)[:40]
            yield BadRowError("", f"must be a JSON object{what}, got {got}")


def _flat(item: Mapping[str, Any], depth: int = 3) -> dict[str, Any]:
    """Return an object whose nested objects are flattened into keys such as ``host.name``."""
    flat: dict[str, Any] = {}
    for name, value in item.items():
        inner = _flat(value, depth - 1) if depth and isinstance(value, dict) else {}
        flat |= {f"{name}.{key}": inside for key, inside in inner.items()} or {name: value}
    return flat


# Parquet


@contextmanager
def _open_parquet(path: Path) -> Iterator[RawTable]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        words = explain_missing("Parquet", "pyarrow", "trace")
        raise BadRowError("", f"{words}, or give the log as .csv.gz") from None
    damage: list[str] = []
    try:
        file = parquet.ParquetFile(path)
    except (pyarrow.ArrowInvalid, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        yield RawTable((), iter(()), (), [_no_parquet(error)])
        return
    with file:
        schema = file.schema_arrow
        instants = {column.name for column in schema if pyarrow.types.is_timestamp(column.type)}
        batches = map(_rows_of_batch, file.iter_batches(batch_size=MOST_ROWS))
        whole = _until_damage(batches, damage, (pyarrow.ArrowInvalid, OSError), _no_parquet)
        yield RawTable(schema.names, chain.from_iterable(whole), instants, damage)


def _no_parquet(error: Exception) -> str:
    return f"the file is cut off or damaged, or no Parquet ({str(error).strip().splitlines()[0]})"


def _rows_of_batch(batch: Any) -> list[tuple[object, ...]]:
    """Return the rows of an Arrow batch, with timestamps converted to microseconds since 1970."""
    import pyarrow

    columns = [
        column.cast(pyarrow.timestamp("us", column.type.tz), safe=False).cast(pyarrow.int64())
        if pyarrow.types.is_timestamp(column.type)
        else column
        for column in batch.columns
    ]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
