"""Progress of Spark's work on standard error: tasks that are done, of how many."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PATIENCE = 2.0
"""Seconds before anything is shown."""
WIDTH = 24


class Bar:
    """A bar that is written over and over.

    Examples
    --------
    >>> bar = Bar("sweeping", "cells", stream=sys.stdout, patience=0)
    >>> bar(3, 4); bar.end()
    sweeping [##################......] 3 of 4 cells
    """

    def __init__(
        self, what: str, unit: str, stream: TextIO | None = None, patience: float = PATIENCE
    ) -> None:
        self._what, self._unit = what, unit
        self._stream = stream or sys.stderr
        self._next = time.monotonic() + patience
        self._is_shown = False

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is, if it is time to."""
        if time.monotonic() < self._next or not total:
            return
        self._next = time.monotonic() + 0.5
        full = WIDTH * done // total
        start = "\r" if self._is_shown else ""
        bar = "#" * full + "." * (WIDTH - full)
        print(f"{start}{self._what} [{bar}] {done} of {total} {self._unit}", end="", file=self._stream)
        self._stream.flush()
        self._is_shown = True

    def end(self) -> None:
        """Leave the line."""
        if self._is_shown:
            print(file=self._stream)


@contextmanager
def showing_tasks(spark: SparkSession, what: str) -> Iterator[None]:
    """Show the tasks of whatever Spark does in a block."""
    bar = Bar(what, "tasks")
    over = threading.Event()

    def look() -> None:
        tracker = spark.sparkContext.statusTracker()
        while not over.wait(0.5):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            known = [stage for stage in stages if stage is not None]
            bar(sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        bar.end()
