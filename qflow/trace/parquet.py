"""Traces as Parquet, through pyarrow, which is imported when it is first needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from qflow.trace.quarantine import Checker
from qflow.trace.schema import COLUMNS, NAMES, Trace, TraceError

HEADER = b"qflow"
"""Key of the schema's metadata under which a trace's header lies."""
ROWS_IN_A_GROUP = 65_536
_MAY_BE_EMPTY = ("queue", "session", "link", "message", "group", "detail")


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise TraceError(
            "Parquet needs pyarrow: pip install 'qflow[trace]', or keep the trace as .jsonl"
        ) from None
    return pyarrow, parquet


def write_parquet(trace: Trace, path: Path, progress: Callable[[int], None] | None = None) -> None:
    """Write a trace, group of rows by group; interrupted, the file holds the groups that were done.

    Raises
    ------
    TraceError
        If pyarrow is not installed.
    """
    arrow, parquet = _pyarrow()
    types = {"text": arrow.string(), "int64": arrow.int64()}
    columns = [arrow.field(column.name, types[column.type], nullable=False) for column in COLUMNS]
    header = json.dumps(trace.header(), separators=(",", ":"), ensure_ascii=False)
    schema = arrow.schema(columns, metadata={HEADER: header.encode()})
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, len(trace), ROWS_IN_A_GROUP):
            end = min(start + ROWS_IN_A_GROUP, len(trace))
            writer.write_table(_table(arrow, trace, start, end, schema))
            if progress is not None:
                progress(end)


def _table(arrow: Any, trace: Trace, start: int, end: int, schema: Any) -> Any:
    """Return rows of a trace as an Arrow table; its numbers are the trace's own memory, not a copy."""
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


def read_parquet(path: Path, progress: Callable[[int], None] | None = None) -> Checker:
    """Read a trace, good rows and bad.

    Raises
    ------
    TraceError
        If pyarrow is not installed, the file is no Parquet or cut off, or a column is missing or of a
        wrong type.
    OSError
        If the file cannot be opened.
    """
    arrow, parquet = _pyarrow()
    with path.open("rb") as raw:
        try:
            file = parquet.ParquetFile(raw)
            _require_columns(arrow, file.schema_arrow)
            checker = _begun(file)
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
        value = got.value_type if arrow.types.is_dictionary(got) else got
        fits = arrow.types.is_integer if column.type == "int64" else _is_text(arrow)
        if not fits(value):
            raise TraceError(f"column {column.name} must be {column.type}, got {got}")


def _is_text(arrow: Any) -> Callable[[Any], bool]:
    return lambda got: arrow.types.is_string(got) or arrow.types.is_large_string(got)


def _begun(file: Any) -> Checker:
    header = (file.schema_arrow.metadata or {}).get(HEADER)
    if header is not None:
        try:
            return Checker(Trace.from_header(json.loads(header)))
        except ValueError as error:
            raise TraceError(f"the header in the file's metadata cannot be used: {error}") from None
    # Other programs keep the rows and lose the metadata.
    first = next(_rows(file), None)
    return Checker(Trace(str(first[0]) if first else "run"))


def _rows(file: Any) -> Iterator[list[Any]]:
    for batch in file.iter_batches(columns=list(NAMES)):
        columns = []
        for name in NAMES:
            values = batch.column(name).to_pylist()
            if name in _MAY_BE_EMPTY:
                # Empty text is kept as null by some writers.
                values = [value if value is not None else "" for value in values]
            columns.append(values)
        yield from map(list, zip(*columns, strict=True))
