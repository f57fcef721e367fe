"""Progress of Spark's work on standard error: tasks that are done, of how many."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, TextIO

from qflow.trace.progress import PATIENCE, PAUSE, Line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WIDTH = 24


class Bar:
    """A line of progress with a bar in it.

    Examples
    --------
    >>> import sys
    >>> bar = Bar("sweeping", "cells", stream=sys.stdout, patience=0)
    >>> bar(3, 4); bar.end()
    sweeping [##################......] 3 of 4 cells
    """

    def __init__(
        self, what: str, unit: str, stream: TextIO | None = None, patience: float = PATIENCE
    ) -> None:
        self._what, self._unit = what, unit
        self._line = Line(stream)
        self._next = time.monotonic() + patience
        self._shown = ""
        self.remark = ""

    def __call__(self, done: int, total: int) -> None:
        """Show how far it is, if it is time to."""
        if time.monotonic() < self._next or not total:
            return
        self._next = time.monotonic() + self._line.pause
        full = WIDTH * done // total
        bar = "#" * full + "." * (WIDTH - full)
        text = f"{self._what} [{bar}] {done} of {total} {self._unit}{self.remark}"
        if text != self._shown:
            self._line.show(text)
            self._shown = text

    def end(self) -> None:
        """Leave the line."""
        self._line.end()


class TaskProgress:
    """Shows the tasks of whatever Spark does in a block, over one step or many.

    Parameters
    ----------
    spark : SparkSession
    what : str
        What is being done, such as ``auditing``.
    total : int or None
        How many tasks there are in all steps; None for those of the stages that are active.
    unit : str
        What a task is.
    """

    def __init__(self, spark: SparkSession, what: str, total: int | None = None, unit: str = "tasks") -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._total, self._before = total, 0
        self._bar = Bar(what, unit)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def step(self, done: int, remark: str = "") -> None:
        """Take note that so many tasks are done, of this step and those before; a remark stays in sight."""
        self._before = done
        self._bar.remark = remark

    def _look(self) -> None:
        while not self._over.wait(PAUSE):
            stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
            known = [stage for stage in stages if stage is not None]
            done = self._before + sum(stage.numCompletedTasks for stage in known)
            total = self._total or self._before + sum(stage.numTasks for stage in known)
            if known:
                self._bar(min(done, total), total)

    def __enter__(self) -> TaskProgress:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._bar.end()
