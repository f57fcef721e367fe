"""What jobs report besides their results: the memory a worker took, and how many tasks are done."""

from __future__ import annotations

import gc
import sys
import threading
from typing import TYPE_CHECKING

from qflow.progress import PAUSE, ProgressLine

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

_known_modules = 0


def peak_memory() -> int:
    """Return the most bytes this process had in memory at any time; 0 where the system does not say.

    >>> peak_memory() >= 0
    True
    """
    try:
        import resource
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def freeze_modules() -> None:
    """Take what has been imported out of the garbage collector's sight, whenever more has been."""
    # After every task Spark lets a worker collect garbage: to walk over pandas, pyarrow and qflow takes
    # longer than to audit a thousand events.
    global _known_modules
    if len(sys.modules) > _known_modules:
        _known_modules = len(sys.modules)
        gc.freeze()


def peak_accumulator(spark: SparkSession) -> Accumulator[int]:
    """Return an accumulator that keeps the largest number it was given."""
    from pyspark.accumulators import AccumulatorParam

    class Largest(AccumulatorParam[int]):
        def zero(self, value: int) -> int:
            return 0

        def addInPlace(self, value1: int, value2: int) -> int:  # noqa: N802
            return max(value1, value2)

    return spark.sparkContext.accumulator(0, Largest())


class TaskProgress:
    """A :class:`~qflow.progress.Progress` that also shows the tasks of the step under way, and the memory."""

    def __init__(
        self,
        spark: SparkSession,
        what: str,
        total: int | None = None,
        unit: str = "tasks",
        peak: Accumulator[int] | None = None,
    ) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._total, self._before, self._peak = total, 0, peak
        self._shown = ProgressLine(what, total, unit=unit, has_bar=True)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __call__(self, done: int, total: int | None = None, part: str = "", /) -> None:
        """Note how many tasks are done, of this step and those before."""
        self._before = done
        if self._peak is not None:
            self._shown.remark = f", {self._peak.value >> 20} MiB in the largest worker"

    def _look(self) -> None:
        while not self._over.wait(PAUSE):
            stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
            known = [stage for stage in stages if stage is not None]
            done = self._before + sum(stage.numCompletedTasks for stage in known)
            total = self._total or self._before + sum(stage.numTasks for stage in known)
            if known and total:
                self._shown.total = total
                self._shown(min(done, total))

    def __enter__(self) -> TaskProgress:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self._shown.end()
