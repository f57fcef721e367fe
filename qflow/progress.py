"""Progress: the interface for reports of long work, and the line that shows them on standard error.

Work takes a :class:`Progress` and calls it now and then; it knows nothing of terminals. The progress may
raise, which stops the work.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from qflow.displays import has_kernel

PATIENCE = 2.0
"""Seconds before anything is shown."""
PAUSE = 0.5
"""Seconds from one look to the next, on a terminal."""
_PAUSE_IN_A_FILE = 10.0
"""The same in a file, where each look stays as a line."""
_BAR = 24
"""Characters of a bar."""


class Progress(Protocol):
    """A receiver of progress: units done, their total if known, and the present part of the work."""

    def __call__(self, done: int, total: int | None = None, part: str = "", /) -> object:
        """Receive one report."""


class StatusLine:
    """A line on work in progress: overwritten on a terminal, a new line elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        # A notebook writes over a line, too.
        self._is_terminal = self._stream.isatty() or has_kernel()
        self.pause = PAUSE if self._is_terminal else _PAUSE_IN_A_FILE
        self._shown = ""

    def show(self, text: str) -> None:
        """Show the progress."""
        if not self._is_terminal:
            print(text, file=self._stream, flush=True)
            return
        text = text[: _width(self._stream) - 1]
        # Back to the line's start first, and wipe out what was longer before.
        print(f"{chr(13) if self._shown else ''}{text.ljust(len(self._shown))}", end="", file=self._stream)
        self._stream.flush()
        self._shown = text

    def end(self) -> None:
        """Finish the line."""
        if self._shown:
            print(file=self._stream)
            self._shown = ""


def _width(stream: TextIO) -> int:
    """Return the width of the terminal in columns; the variable COLUMNS overrides it."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    if "COLUMNS" in os.environ or not columns:
        columns = shutil.get_terminal_size().columns
    return max(columns, 2)


class ProgressLine:
    """A :class:`Progress` that shows a line, once the work has taken longer than `patience` seconds.

    >>> progress = ProgressLine("reading", stream=sys.stdout, patience=0)
    >>> progress(1000); progress.end()
    reading: 1000 rows
    >>> sweeping = ProgressLine("sweeping", 4, sys.stdout, 0, "cells", has_bar=True)
    >>> sweeping(3); sweeping.end()
    sweeping [##################......] 3 of 4 cells
    """

    def __init__(
        self,
        what: str,
        total: int | None = None,
        stream: TextIO | None = None,
        patience: float | None = None,
        unit: str = "rows",
        has_bar: bool = False,
    ) -> None:
        self.what, self.total, self.unit, self.has_bar = what, total, unit, has_bar
        self.remark = ""
        self._line = StatusLine(stream)
        self._first = self._next = time.monotonic() + (PATIENCE if patience is None else patience)
        self._shown = ""

    def __call__(self, done: int, total: int | None = None, part: str = "", /) -> None:
        """Show the progress if a line is due."""
        # A part that is new is shown at once.
        when = self._first if part not in ("", self.what) else self._next
        self.total, self.what = total or self.total, part or self.what
        now = time.monotonic()
        if now < when:
            return
        self._next = now + self._line.pause
        of = f" of {self.total}" if self.total is not None else ""
        text = f"{self._head(done)} {done}{of} {self.unit}{self.remark}"
        if text != self._shown:
            self._line.show(text)
            self._shown = text

    def _head(self, done: int) -> str:
        if not (self.has_bar and self.total):
            return f"{self.what}:"
        full = _BAR * done // self.total
        return f"{self.what} [{'#' * full}{'.' * (_BAR - full)}]"

    def end(self) -> None:
        """Finish the line."""
        self._line.end()


@contextmanager
def progress(
    what: str, total: int | None = None, unit: str = "rows", has_bar: bool = False
) -> Iterator[ProgressLine]:
    """Show the progress of a block, and finish the line however the block ends."""
    shown = ProgressLine(what, total, unit=unit, has_bar=has_bar)
    try:
        yield shown
    finally:
        shown.end()
