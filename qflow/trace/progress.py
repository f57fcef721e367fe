"""Progress of what takes longer than two seconds, on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

PATIENCE = 2.0
"""Seconds before anything is shown."""
_PAUSE = 0.5


class Progress:
    """A line that is written over and over; call it with the number of rows, or what else, that are done.

    Parameters
    ----------
    what : str
        What is being done, such as ``reading trace.jsonl``.
    total : int or None
        How many rows there are, if that is known.
    stream : text stream or None
        Where to write; None for standard error.
    unit : str
        What is counted.

    Examples
    --------
    >>> progress = Progress("reading", stream=sys.stdout, patience=0)
    >>> progress(1000); progress.end()
    reading: 1000 rows
    """

    def __init__(
        self,
        what: str,
        total: int | None = None,
        stream: TextIO | None = None,
        patience: float = PATIENCE,
        unit: str = "rows",
    ) -> None:
        self.what, self.total, self.unit = what, total, unit
        self._stream = stream or sys.stderr
        self._next = time.monotonic() + patience
        self._is_shown = False

    def __call__(self, done: int) -> None:
        """Show how far it is, if it is time to."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _PAUSE
        total = f" of {self.total}" if self.total is not None else ""
        # Back to the line's start first: what follows it is then never glued to the last number.
        print(
            f"{chr(13) if self._is_shown else ''}{self.what}: {done}{total} {self.unit}",
            end="",
            file=self._stream,
        )
        self._stream.flush()
        self._is_shown = True

    def end(self) -> None:
        """Leave the line."""
        if self._is_shown:
            print(file=self._stream)


@contextmanager
def progress(what: str, total: int | None = None, unit: str = "rows") -> Iterator[Progress]:
    """Show the progress of a block, and leave the line however the block ends."""
    shown = Progress(what, total, unit=unit)
    try:
        yield shown
    finally:
        shown.end()
