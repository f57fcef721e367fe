"""Trace files: Parquet and JSON lines, by the file's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from qflow.trace.quarantine import Quarantine
from qflow.trace.schema import Trace, TraceError

Progress = Callable[[int], None]
ENDINGS = (".parquet", ".jsonl", ".jsonl.gz")


def write_trace(trace: Trace, path: str | Path, progress: Progress | None = None) -> None:
    """Write a trace; the same trace gives the same bytes.

    Parameters
    ----------
    trace : Trace
        What to write.
    path : str or Path
        ``.parquet`` (needs pyarrow), ``.jsonl`` or ``.jsonl.gz``.
    progress : callable or None
        Told now and then how many rows are written.

    Raises
    ------
    TraceError
        If the name has another ending, or pyarrow is missing.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> write_trace(Trace(), "trace.xlsx")
    Traceback (most recent call last):
        ...
    qflow.trace.schema.TraceError: trace.xlsx: a trace is a .parquet, .jsonl or .jsonl.gz file
    """
    path = Path(path)
    try:
        if path.name.endswith(".parquet"):
            from qflow.trace.parquet import write_parquet

            write_parquet(trace, path, progress)
        else:
            _require_lines(path)
            from qflow.trace.json_lines import write_lines

            write_lines(trace, path, progress)
    except TraceError as error:
        raise TraceError(f"{path.name}: {error}") from None


def read_trace(path: str | Path, progress: Progress | None = None) -> tuple[Trace, Quarantine]:
    """Read a trace from anywhere: good rows are kept, bad ones set aside with the reason.

    Parameters
    ----------
    path : str or Path
        ``.parquet``, ``.jsonl`` or ``.jsonl.gz``.
    progress : callable or None
        Told now and then how many rows are read.

    Returns
    -------
    (Trace, Quarantine)
        If rows are missing, the trace's ``expected`` tells how many there should be.

    Raises
    ------
    TraceError
        If no row can be read: one sentence that names the file and says why.
    OSError
        If the file cannot be opened.

    Examples
    --------
    >>> read_trace("trace.xlsx")
    Traceback (most recent call last):
        ...
    qflow.trace.schema.TraceError: trace.xlsx: a trace is a .parquet, .jsonl or .jsonl.gz file
    """
    path = Path(path)
    try:
        if path.name.endswith(".parquet"):
            from qflow.trace.parquet import read_parquet

            checker = read_parquet(path, progress)
        else:
            _require_lines(path)
            from qflow.trace.json_lines import read_lines

            checker = read_lines(path, progress)
    except TraceError as error:
        raise TraceError(f"{path.name}: {error}") from None
    return checker.trace, checker.quarantine


def load_trace(path: str | Path, progress: Progress | None = None) -> Trace:
    """Read a trace whose every row must be good.

    Raises
    ------
    TraceError
        One sentence that names the file, the first bad row and its column.
    OSError
        If the file cannot be opened.
    """
    trace, quarantine = read_trace(path, progress)
    if quarantine:
        raise TraceError(f"{Path(path).name}: {quarantine.summary()}")
    return trace


def _require_lines(path: Path) -> None:
    if not path.name.endswith(ENDINGS):
        raise TraceError("a trace is a .parquet, .jsonl or .jsonl.gz file")
