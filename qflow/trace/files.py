"""Trace files: write and read traces as Parquet or JSON lines; invalid rows are quarantined.

The ending of a file's name decides its format:

- ``.jsonl``, or ``.jsonl.gz`` if compressed: a header, then one JSON object per row.
- ``.parquet``: the header is in the schema's metadata; pyarrow is imported when it is first needed.

A file may be another program's, or be cut off.  Therefore every row is checked before it is added to a trace
(:class:`_Checker`).  Valid rows are kept, so that one damaged line does not cost a day's recording; invalid
rows are collected with their reasons in a :class:`Quarantine`.
"""

from __future__ import annotations

import gzip
import io
import json
import marshal
import tempfile
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from qflow.broker.events import EFFECTS, WIDTH, EventTable
from qflow.broker.options import BrokerOptions
from qflow.kit import explain_missing
from qflow.progress import Progress
from qflow.trace.schema import COLUMNS, KINDS, NAMES, Row, Trace, TraceError, decode_detail
from qflow.workload.model import Workload
from qflow.writing import write_whole

_LARGEST = (1 << 63) - 1
_SHOWN = 500
_BACK = "must not go back"
_CUT_OFF = "the file is cut off in the midst of this row"


class QuarantinedRow(NamedTuple):
    """A quarantined row: its number, its first invalid column, the reason, and its text in the file."""

    row: int  # From 1; the header is not counted.
    column: str  # The first invalid column; empty if the row as a whole is invalid.
    reason: str  # The allowed values, and the value found.
    values: str = ""  # The row as the file has it, at most 500 characters.

    def text(self) -> str:
        """Return the row's problem as a sentence."""
        place = f", column {self.column}" if self.column else ""
        return f"row {self.row}{place}: {self.reason}"


class Quarantine(list[QuarantinedRow]):
    """The quarantined rows of one file, in the file's order."""

    def add(self, row: int, column: str, reason: str, values: object = "") -> None:
        """Quarantine a row."""
        shown = values if isinstance(values, str) else json.dumps(values, ensure_ascii=False, default=str)
        self.append(QuarantinedRow(row, column, reason, shown[:_SHOWN]))

    def summary(self) -> str:
        """Return one sentence with the number of quarantined rows, the first one's problem, and a hint."""
        if not self:
            return "all rows are good"
        count = "1 row was" if len(self) == 1 else f"{len(self)} rows were"
        shuffled = sum(entry.reason.startswith(_BACK) for entry in self) > 1
        help_ = "; the rows look shuffled: sort them by seq and try again" if shuffled else ""
        return f"{count} quarantined; {self[0].text()}{help_}"

    def write(self, path: str | Path) -> None:
        """Write the quarantined rows as JSON lines with the keys row, column, reason and values."""
        # UTF-8 cannot encode a lone surrogate; it is written as a JSON escape.
        with write_whole(path) as beside, beside.open("wb") as file:
            for entry in self:
                line = json.dumps(entry._asdict(), ensure_ascii=False) + "\n"
                file.write(line.encode(errors="backslashreplace"))


class _Checker:
    """A checker of a file's rows in order: it adds valid rows to the trace and quarantines the others."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.quarantine = Quarantine()
        self.seen = 0
        self._labels: set[str] = set()
        self._seq = self._time = -1

    def take(self, number: int, values: Sequence[object]) -> None:
        self.seen = number
        problem = self._problem(values)
        if problem is not None:
            self.quarantine.add(number, *problem, list(values))
            return
        row = Row(*values)  # type: ignore[arg-type]
        self._seq, self._time = row.seq, row.time
        if row.kind == "message.transfer":
            self._labels.add(row.message)
        self.trace.append_row(row)

    def refuse(self, number: int, column: str, reason: str, values: object) -> None:
        """Quarantine a line that cannot be read as a row."""
        self.seen = number
        self.quarantine.add(number, column, reason, values)

    def finish(self) -> None:
        """Quarantine the end of a file that has fewer rows than its header promises."""
        promised = self.trace.expected
        if promised is None:
            return
        last = self.quarantine[-1] if self.quarantine else None
        if len(self.trace) >= promised:
            self.trace.expected = None
        # One entry only: the incomplete last row and the missing rows after it have the same cause.
        elif last is not None and (last.row, last.reason) == (self.seen, _CUT_OFF):
            reason = f"{last.reason}; its header promises {promised} rows"
            self.quarantine[-1] = last._replace(reason=reason)
        elif self.seen < promised:
            reason = f"the file is cut off: its header promises {promised} rows, it holds {self.seen}"
            self.quarantine.add(self.seen + 1, "", reason)

    def _problem(self, values: Sequence[object]) -> tuple[str, str] | None:
        """Return a row's first invalid column and the reason, or None if the row is valid."""
        # By exact type: True is an int in Python, but not a valid number in a trace.
        if tuple(map(type, values)) != _TYPES:
            return _wrong_type(values)
        row = Row(*values)  # type: ignore[arg-type]
        return _out_of_range(row) or self._out_of_place(row) or _wrong_detail(row)

    def _out_of_place(self, row: Row) -> tuple[str, str] | None:
        if row.run != self.trace.run:
            return "run", f"must be {self.trace.run!r} as before, got {row.run!r}; a file holds one run"
        if row.kind not in KINDS:
            return "kind", f"must be a kind that qflow.trace.schema.KINDS lists, got {row.kind!r}"
        if row.seq <= self._seq:
            return "seq", f"{_BACK}, got {row.seq} after {self._seq}"
        if row.time < self._time:
            return "time", f"{_BACK}, got {row.time} after {self._time}"
        # Only effects are checked. A command may name a message that never existed: that the broker refused
        # it is part of the run.
        if row.message and row.kind in EFFECTS and row.message not in self._labels:
            return "message", f"must be one that a message.transfer row before it sends, got {row.message!r}"
        return None


def _wrong_type(values: Sequence[object]) -> tuple[str, str] | None:
    for name, kind, value in zip(NAMES, _TYPES, values, strict=True):
        if type(value) is not kind:
            return name, f"must be {'a whole number' if kind is int else 'text'}, got {value!r}"
    return None


def _out_of_range(row: Row) -> tuple[str, str] | None:
    for name, number in (("seq", row.seq), ("time", row.time), ("size", row.size)):
        if not 0 <= number <= _LARGEST:
            allowed = "must not be negative" if number < 0 else f"must be at most {_LARGEST}"
            return name, f"{allowed}, got {number}"
    return None


def _wrong_detail(row: Row) -> tuple[str, str] | None:
    try:
        detail = decode_detail(row.detail)
    except (ValueError, RecursionError) as error:
        return "detail", f"must be a JSON object as qflow writes it: {error}"
    if row.kind == "message.transfer" and "message" not in detail:
        return "detail", "must hold the message of a message.transfer, got none"
    return None


_TYPES = tuple(int if column.type == "int64" else str for column in COLUMNS)


ROWS_IN_A_GROUP = 65_536


class LongTrace:
    """A trace that is collected in a temporary file, so that memory does not limit its length."""

    def __init__(
        self,
        run: str = "run",
        options: BrokerOptions | None = None,
        workload: Workload | None = None,
        folder: Path | None = None,
    ) -> None:
        self._empty = Trace(run, options, workload)
        self._last = self._empty.empty()
        self._spool = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self._groups = 0

    def extend(self, events: EventTable) -> None:
        """Add all events of a table."""
        self._last.extend(events)
        while len(self._last) > ROWS_IN_A_GROUP:
            # The cells are numbers and text, and only this process reads the file: marshal is enough, as
            # neither pickle's objects nor a durable format is needed.
            marshal.dump(self._last.cut(ROWS_IN_A_GROUP), self._spool)
            self._groups += 1

    def __len__(self) -> int:
        return self._groups * ROWS_IN_A_GROUP + len(self._last)

    def header(self) -> dict[str, Any]:
        """Return the header of a trace file, as a JSON value."""
        return {**self._empty.header(), "rows": len(self)}

    def parts(self) -> Iterator[tuple[Trace, int, int]]:
        """Yield each row group as a trace, with the range of its rows to write."""
        self._spool.seek(0)
        for group in range(self._groups + 1):
            part = self._last
            if group < self._groups:
                part = self._empty.empty()
                part.put(marshal.load(self._spool))
            first = group * ROWS_IN_A_GROUP
            part.seq = array("q", range(first, first + len(part)))
            yield part, 0, len(part)


class TraceLines:
    """A trace that is written as JSON lines during the run, and is readable at any moment."""

    def __init__(self, path: str | Path, run: str = "run", options: BrokerOptions | None = None) -> None:
        self._empty = Trace(run, options)
        self._written = 0
        self._file = open(path, "wb")  # noqa: SIM115
        # The number of rows is not known yet.
        self._write([{**self._empty.header(), "rows": None}])

    def extend(self, events: EventTable) -> None:
        """Write those events of a growing table that have not been written yet."""
        first, self._written = self._written, len(events)
        if first < self._written:
            part = self._empty.empty()
            part.put(events.cells[first * WIDTH :])
            part.seq = array("q", range(first, self._written))
            self._write(row._asdict() for row in part.rows())

    def _write(self, items: Iterable[dict[str, Any]]) -> None:
        # All lines in one write, then a flush: the file is readable at any moment, and after the process is
        # killed (``qflow serve --trace``).
        self._file.write("".join(_dump(item) + "\n" for item in items).encode())
        self._file.flush()


def _parts(trace: Trace | LongTrace) -> Iterable[tuple[Trace, int, int]]:
    if isinstance(trace, LongTrace):
        return trace.parts()
    starts = range(0, len(trace), ROWS_IN_A_GROUP)
    return ((trace, start, min(start + ROWS_IN_A_GROUP, len(trace))) for start in starts)


_ENDINGS = (".parquet", ".jsonl", ".jsonl.gz")


def write_trace(trace: Trace | LongTrace, path: str | Path, progress: Progress | None = None) -> None:
    """Write a trace to a file: equal traces give equal bytes, and an interruption leaves an earlier file.

    Parameters:
        trace: The trace to write.
        path: The file, which ends in ``.parquet`` (needs pyarrow), ``.jsonl`` or ``.jsonl.gz``.
        progress: A function that is called now and then with the number of rows written.

    Raises:
        TraceError: If the name has another ending, or pyarrow is missing.
        OSError: If the file cannot be written.

    >>> write_trace(Trace(), "trace.xlsx")
    Traceback (most recent call last):
        ...
    qflow.trace.schema.TraceError: trace.xlsx: a trace is a .parquet, .jsonl or .jsonl.gz file
    """
    path = Path(path)
    try:
        _require_lines(path)
        # Written to a temporary file first: an interrupted write leaves an earlier trace unchanged.
        with write_whole(path) as beside:
            write = _write_parquet if path.name.endswith(".parquet") else _write_lines
            write(trace, beside, path.name.endswith(".gz"), progress)
    except TraceError as error:
        raise TraceError(f"{path.name}: {error}") from None


def read_trace(path: str | Path, progress: Progress | None = None) -> tuple[Trace, Quarantine]:
    """Read a trace of any origin: keep the valid rows, and quarantine the others with the reason.

    Parameters:
        path: The file, which ends in ``.parquet``, ``.jsonl`` or ``.jsonl.gz``.
        progress: A function that is called now and then with the number of rows read.

    Returns:
        The trace and the quarantined rows.  If rows are missing at the end, the trace's ``expected`` is the
        number of rows that the file should have.

    Raises:
        TraceError: If no row can be read; the text names the file and the reason.
        OSError: If the file cannot be opened.

    >>> read_trace("trace.xlsx")
    Traceback (most recent call last):
        ...
    qflow.trace.schema.TraceError: trace.xlsx: a trace is a .parquet, .jsonl or .jsonl.gz file
    """
    path = Path(path)
    try:
        if path.name.endswith(".parquet"):
            checker = _read_parquet(path, progress)
        else:
            _require_lines(path)
            checker = _read_lines(path, progress)
    except TraceError as error:
        raise TraceError(f"{path.name}: {error}") from None
    return checker.trace, checker.quarantine


def load_trace(path: str | Path, progress: Progress | None = None) -> Trace:
    """Read a trace, and raise a TraceError if any row is invalid."""
    trace, quarantine = read_trace(path, progress)
    if quarantine:
        raise TraceError(f"{Path(path).name}: {quarantine.summary()}")
    return trace


def check_target(path: str | Path) -> None:
    """Raise a TraceError if a trace cannot be written to a path; called before a long run."""
    target = Path(path)
    try:
        _require_lines(target)
        if target.name.endswith(".parquet"):
            _pyarrow()
    except TraceError as error:
        raise TraceError(f"{path}: {error}") from None
    if not target.parent.is_dir():
        raise TraceError(f"{path}: a trace must be written to an existing folder; got {target.parent}")
    if target.is_dir():
        raise TraceError(f"{path}: a trace must be written to a file; got a folder")


def _require_lines(path: Path) -> None:
    if not path.name.endswith(_ENDINGS):
        raise TraceError("a trace is a .parquet, .jsonl or .jsonl.gz file")


_dump = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def _write_lines(
    trace: Trace | LongTrace, path: Path, is_packed: bool, progress: Progress | None = None
) -> None:
    """Write a trace as lines; an interruption leaves whole lines."""
    with ExitStack() as opened:
        file: Any = opened.enter_context(path.open("wb"))
        if is_packed:
            # Without a name and a time in the gzip header, the same trace gives the same bytes.
            file = opened.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0))
        file.write((_dump(trace.header()) + "\n").encode())
        rows = (part.row(place) for part, start, end in _parts(trace) for place in range(start, end))
        for done, row in enumerate(rows, 1):
            file.write((_dump(row._asdict()) + "\n").encode())
            if progress is not None:
                progress(done)


def _read_lines(path: Path, progress: Progress | None = None) -> _Checker:
    checker: _Checker | None = None
    number = 0
    for line in _lines(path):
        if line is None:
            break
        if checker is None:
            checker, is_header = _begin_lines(line)
            if is_header:
                continue
        number += 1
        _take(checker, number, line)
        if progress is not None:
            progress(number)
    if checker is None:
        raise TraceError("the file holds no trace: it is empty, or cut off in its first line")
    # With a header, its number of rows shows what is missing; without one, only the damaged end does.
    if line is None and checker.trace.expected is None:
        checker.refuse(number + 1, "", "the file ends within its compressed data", "")
    checker.finish()
    return checker


def _begin_lines(line: bytes) -> tuple[_Checker, bool]:
    """Read the first line, and return a checker and whether the line is a header (optional in a file)."""
    first = None
    with suppress(ValueError, RecursionError):
        first = json.loads(line)
    if isinstance(first, dict) and "format" in first:
        return _Checker(Trace.from_header(first)), True
    if isinstance(first, dict) and isinstance(first.get("run"), str):
        return _Checker(Trace(first["run"])), False
    raise TraceError(
        f"a trace begins with a header or a row, as a JSON object, got {line[:60].decode(errors='replace')!r}"
    )


def _lines(path: Path) -> Iterator[bytes | None]:
    """Yield the lines that are not blank, then None if the compressed data is cut off or damaged."""
    with open_unpacked(path) as file:
        try:
            yield from (line for line in file if line.strip())
        except _LongLineError as error:
            raise TraceError(str(error)) from None
        except DAMAGE:
            yield None


DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile)
"""The exceptions of reading a compressed file that is cut off or damaged."""


@contextmanager
def open_unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading; a name in ``.gz`` is decompressed, with a limit on the length of a line."""
    with path.open("rb") as raw:
        is_packed = path.name.endswith(".gz")
        yield io.BufferedReader(BoundedLines(gzip.GzipFile(fileobj=raw))) if is_packed else raw


_LONGEST_LINE = 1 << 25


class _LongLineError(gzip.BadGzipFile):
    """A compressed file has a line longer than any record: a gigabyte of one letter compresses well."""

    def __init__(self) -> None:
        super().__init__(f"a line has more than {_LONGEST_LINE:,} bytes, which no record has")


class BoundedLines(io.RawIOBase):
    """The decompressed content of a file, up to the first line that is too long for a record."""

    def __init__(self, packed: gzip.GzipFile | io.BufferedReader) -> None:
        self._packed, self._length = packed, 0

    def readable(self) -> bool:
        """Return True, which ``io.BufferedReader`` requires."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes into a buffer, or raise BadGzipFile if their line is too long."""
        data = self._packed.read1(len(buffer))
        buffer[: len(data)] = data
        last = data.rfind(b"\n")
        self._length = self._length + len(data) if last < 0 else len(data) - last - 1
        if self._length > _LONGEST_LINE:
            raise _LongLineError
        return len(data)


def _take(checker: _Checker, number: int, line: bytes) -> None:
    column = ""
    try:
        item = json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = f"must be JSON: {error}" if line.endswith(b"\n") else _CUT_OFF
    else:
        if isinstance(item, dict) and item.keys() == _COLUMNS:
            checker.take(number, [item[name] for name in NAMES])
            return
        column, reason = _name_odd_column(item)
    checker.refuse(number, column, reason, line.decode(errors="replace").strip())


def _name_odd_column(item: object) -> tuple[str, str]:
    """Return the name of a row's first missing or unknown column, and the reason."""
    if not isinstance(item, dict):
        return "", f"must be a JSON object, got {type(item).__name__}"
    missing = [name for name in NAMES if name not in item]
    unknown = [name for name in item if name not in _COLUMNS]
    if not missing:
        return unknown[0], f"must be one of a trace's columns: {', '.join(NAMES)}"
    unknown_one = f"; the row has {unknown[0]!r}, which is not a column of a trace" if unknown else ""
    return missing[0], f"is missing{unknown_one}"


_COLUMNS = set(NAMES)


HEADER = b"qflow"
"""Key of a trace's header in the schema's metadata."""
_MAY_BE_EMPTY = ("queue", "session", "link", "message", "group", "detail")


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        words = explain_missing("Parquet", "pyarrow", "trace")
        raise TraceError(f"{words}, or keep the trace as .jsonl") from None
    return pyarrow, parquet


def _write_parquet(trace: Trace | LongTrace, path: Path, _: bool, progress: Progress | None = None) -> None:
    """Write a trace as a Parquet file, one row group at a time."""
    arrow, parquet = _pyarrow()
    types = {"text": arrow.string(), "int64": arrow.int64()}
    columns = [arrow.field(column.name, types[column.type], nullable=False) for column in COLUMNS]
    header = json.dumps(trace.header(), separators=(",", ":"), ensure_ascii=False)
    schema = arrow.schema(columns, metadata={HEADER: header.encode()})
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        done = 0
        for part, start, end in _parts(trace):
            writer.write_table(_table(arrow, part, start, end, schema))
            done += end - start
            if progress is not None:
                progress(done)


def _table(arrow: Any, trace: Trace, start: int, end: int, schema: Any) -> Any:
    """Return rows of a trace as an Arrow table, without copying its numbers."""
    columns = []
    for column in COLUMNS:
        values = getattr(trace, column.name)
        if column.name == "run":
            columns.append(arrow.repeat(arrow.scalar(values), end - start))
        elif column.type == "int64":
            memory = [None, arrow.py_buffer(values)]
            columns.append(arrow.Array.from_buffers(arrow.int64(), end - start, memory, offset=start))
        else:
            columns.append(arrow.array(values[start:end], arrow.string()))
    return arrow.table(columns, schema=schema)


def _read_parquet(path: Path, progress: Progress | None = None) -> _Checker:
    arrow, parquet = _pyarrow()
    with path.open("rb") as raw:
        try:
            file = parquet.ParquetFile(raw)
            _require_columns(arrow, file.schema_arrow)
            checker = _begin_parquet(file)
            for number, values in enumerate(_rows(file), 1):
                checker.take(number, values)
                if progress is not None:
                    progress(number)
        except (arrow.ArrowInvalid, arrow.ArrowIOError) as error:
            raise TraceError(
                "the file is cut off or damaged, or no Parquet: the table of contents at its end cannot be "
                f"read, and without it no row can; write it again ({str(error).splitlines()[0][:80]})"
            ) from None
    checker.finish()
    return checker


def _require_columns(arrow: Any, schema: Any) -> None:
    there = ", ".join(schema.names)
    for column in COLUMNS:
        if column.name not in schema.names:
            raise TraceError(f"column {column.name} is missing; a trace has {', '.join(NAMES)}, got {there}")
        got = schema.field(column.name).type
        # pandas stores a categorical column as a dictionary; its rows are read like those of a plain one.
        value = got.value_type if arrow.types.is_dictionary(got) else got
        types = arrow.types
        fits = (types.is_integer,) if column.type == "int64" else (types.is_string, types.is_large_string)
        if not any(holds(value) for holds in fits):
            raise TraceError(f"column {column.name} must be {column.type}, got {got}")


def _begin_parquet(file: Any) -> _Checker:
    header = (file.schema_arrow.metadata or {}).get(HEADER)
    if header is not None:
        try:
            return _Checker(Trace.from_header(json.loads(header)))
        except ValueError as error:
            raise TraceError(f"the header in the file's metadata cannot be used: {error}") from None
    # Other programs may keep the rows and drop the metadata.
    first = next(_rows(file), None)
    return _Checker(Trace(str(first[0]) if first else "run"))


def _rows(file: Any) -> Iterator[list[Any]]:
    for batch in file.iter_batches(columns=list(NAMES)):
        columns = []
        for name in NAMES:
            values = batch.column(name).to_pylist()
            if name in _MAY_BE_EMPTY:
                # Some writers store empty text as null.
                values = [value if value is not None else "" for value in values]
            columns.append(values)
        yield from map(list, zip(*columns, strict=True))
