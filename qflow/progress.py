"""Progress of long work: the callback that receives it, and a status line on standard error that shows it.

A long function takes a :class:`Progress` and calls it now and then, and so does not depend on terminals. A
callback may raise an exception to stop the work.
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
"""Seconds of work before its progress is shown."""
PAUSE = 0.5
"""Seconds between two updates of the line on a terminal."""
_PAUSE_IN_A_FILE = 10.0
"""Seconds between two updates in a file, where each update adds a line."""
_BAR = 24
"""Width of a progress bar in characters."""


class Progress(Protocol):
    """A callback for progress: the units done, their total if known, and the name of the present part."""

    def __call__(self, done: int, total: int | None = None, part: str = "", /) -> object:
        """Receive one progress report."""


class StatusLine:
    """A status line, which each update overwrites on a terminal and repeats as a new line elsewhere."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        # The output of a notebook can be overwritten like a terminal's.
        self._is_terminal = self._stream.isatty() or has_kernel()
        self.pause = PAUSE if self._is_terminal else _PAUSE_IN_A_FILE
        self._shown = ""

    def show(self, text: str) -> None:
        """Show a text as the present status."""
        if not self._is_terminal:
            print(text, file=self._stream, flush=True)
            return
        text = text[: _width(self._stream) - 1]
        # A carriage return goes back to the start of the line; blanks erase the rest of a longer text.
        print(f"{chr(13) if self._shown else ''}{text.ljust(len(self._shown))}", end="", file=self._stream)
        self._stream.flush()
        self._shown = text

    def end(self) -> None:
        """End the line, so that other output begins on a new one."""
        if self._shown:
            print(file=self._stream)
            self._shown = ""


def _width(stream: TextIO) -> int:
    """Return the width of the terminal in columns; the environment variable COLUMNS overrides it."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        columns = 0
    if "COLUMNS" in os.environ or not columns:
        columns = shutil.get_terminal_size().columns
    return max(columns, 2)


class ProgressLine:
    """A :class:`Progress` that shows a status line once the work has taken longer than `patience` seconds.

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
        """Show the progress, unless the last update was too short a time ago."""
        # A new part of the work is shown at once.
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
        """End the line, so that other output begins on a new one."""
        self._line.end()


@contextmanager
def progress(
    what: str, total: int | None = None, unit: str = "rows", has_bar: bool = False
) -> Iterator[ProgressLine]:
    """Yield a progress line for a ``with`` block, and end the line however the block ends."""
    shown = ProgressLine(what, total, unit=unit, has_bar=has_bar)
    try:
        yield shown
    finally:
        shown.end()
