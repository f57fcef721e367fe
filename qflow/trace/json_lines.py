"""Traces as JSON lines: a header, then one object a row; ``.jsonl``, or ``.jsonl.gz`` packed."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from qflow.trace.quarantine import CUT_OFF, Checker
from qflow.trace.schema import NAMES, Trace, TraceError

_dump = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def write_lines(trace: Trace, path: Path, progress: Callable[[int], None] | None = None) -> None:
    """Write a trace; whatever interrupts it, the lines that are there are whole.

    Parameters
    ----------
    path : Path
        ``.jsonl`` or ``.jsonl.gz``.
    progress : callable or None
        Told the number of rows written.
    """
    with _opened_to_write(path) as file:
        file.write((_dump(trace.header()) + "\n").encode())
        for done, row in enumerate(trace.rows(), 1):
            file.write((_dump(row._asdict()) + "\n").encode())
            if progress is not None:
                progress(done)


@contextmanager
def _opened_to_write(path: Path) -> Iterator[IO[bytes]]:
    with path.open("wb") as raw:
        if path.name.endswith(".gz"):
            # Neither name nor time in it: the same trace gives the same bytes.
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed:
                yield packed  # type: ignore[misc]
        else:
            yield raw


def read_lines(path: Path, progress: Callable[[int], None] | None = None) -> Checker:
    """Read a trace, good rows and bad.

    Raises
    ------
    TraceError
        If not even the header makes sense.
    OSError
        If the file cannot be opened.
    """
    checker: Checker | None = None
    number = 0
    for line in _lines(path):
        if line is None:
            break
        item = _parsed(line)
        if checker is None:
            checker = _begun(item, line)
            if isinstance(item, dict) and "format" in item:
                continue
        number += 1
        _take(checker, number, item, line)
        if progress is not None:
            progress(number)
    if checker is None:
        raise TraceError("the file holds no trace: it is empty, or cut off in its first line")
    if line is None and checker.trace.expected is None:
        checker.refuse(number + 1, "", "the file is cut off in the midst of what was packed", "")
    checker.finish()
    return checker


def _begun(first: object, line: bytes) -> Checker:
    """Begin with the header; a file of another program may have none."""
    if isinstance(first, dict) and "format" in first:
        return Checker(Trace.from_header(first))
    if isinstance(first, dict) and isinstance(first.get("run"), str):
        return Checker(Trace(first["run"]))
    raise TraceError(
        f"a trace begins with a header or a row, as a JSON object, got {line[:60].decode(errors='replace')!r}"
    )


def _lines(path: Path) -> Iterator[bytes | None]:
    """Yield the lines; None for the end of a packed file that is cut off."""
    with path.open("rb") as raw:
        file: IO[bytes] = gzip.GzipFile(fileobj=raw) if path.name.endswith(".gz") else raw  # type: ignore[assignment]
        lines = iter(file)
        while True:
            try:
                line = next(lines, None)
            except (EOFError, zlib.error, gzip.BadGzipFile):
                yield None
                return
            if line is None:
                return
            if line.strip():
                yield line


class _NoJson(str):
    """Why a line is no JSON."""


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        return _NoJson(error)


def _take(checker: Checker, number: int, item: Any, line: bytes) -> None:
    if isinstance(item, dict) and item.keys() == _COLUMNS:
        checker.take(number, [item[name] for name in NAMES])
        return
    column = ""
    if isinstance(item, _NoJson):
        reason = f"must be JSON: {item}" if line.endswith(b"\n") else CUT_OFF
    elif not isinstance(item, dict):
        reason = f"must be a JSON object, got {type(item).__name__}"
    else:
        missing = [name for name in NAMES if name not in item]
        unknown = [name for name in item if name not in _COLUMNS]
        column = (missing or unknown)[0]
        reason = "is missing" if missing else f"is no column of a trace; they are {', '.join(NAMES)}"
        if missing and unknown:
            reason += f"; there is {unknown[0]!r}, which is none"
    checker.refuse(number, column, reason, line.decode(errors="replace").strip())


_COLUMNS = set(NAMES)
