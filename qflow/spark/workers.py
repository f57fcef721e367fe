"""Workers: map batches of rows on them, and report their peak memory and the number of finished tasks."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from qflow.displays import has_kernel
from qflow.progress import PATIENCE, PAUSE, ProgressLine, StatusLine
from qflow.spark.spark_session import java_end
from qflow.spark.tables import Schema

if TYPE_CHECKING:
    from pyspark import Accumulator, StatusTracker
    from pyspark.sql import DataFrame, SparkSession

_known_modules = 0


def _peak_memory() -> int:
    """Return the peak memory of this process in bytes, or 0 on a system without this information."""
    try:
        import resource
    except ImportError:
        return 0
    # Kilobytes on Linux, bytes on macOS.
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def _freeze_modules() -> None:
    """Freeze newly imported modules, so that the garbage collector skips them."""
    # After every task, Spark has a worker collect garbage: traversing pandas, pyarrow and qflow takes longer
    # than auditing a thousand events.
    global _known_modules
    if len(sys.modules) > _known_modules:
        _known_modules = len(sys.modules)
        gc.freeze()


def map_batches(
    frame: DataFrame,
    work: Callable[[Iterator[Any]], Iterator[Any]],
    schema: Schema,
    peak: Accumulator[int] | None = None,
) -> DataFrame:
    """Map each partition's batches on the workers; the accumulator `peak` gets the workers' peak memory."""

    def batches_of(batches: Iterator[Any]) -> Iterator[Any]:
        _freeze_modules()
        yield from work(batches)
        # The last lines of a generator run when its task has used up the input, so a failed task reports
        # nothing. The peak of a process never falls and workers are reused, so it includes earlier tasks.
        if peak is not None:
            peak.add(_peak_memory())

    return frame.mapInArrow(batches_of, schema.ddl)


def peak_accumulator(spark: SparkSession) -> Accumulator[int] | None:
    """Return an accumulator that keeps the largest added number, or None on Spark Connect."""
    context = getattr(spark, "sparkContext", None)
    if context is None:
        return None
    from pyspark.accumulators import AccumulatorParam

    class Largest(AccumulatorParam[int]):
        def zero(self, value: int) -> int:
            return 0

        def addInPlace(self, value1: int, value2: int) -> int:  # noqa: N802
            return max(value1, value2)

    kept: Accumulator[int] = context.accumulator(0, Largest())
    return kept


def _tracker_of(spark: SparkSession | None) -> StatusTracker | None:
    """Return the task counter of a session, or None on Spark Connect."""
    context = getattr(spark, "sparkContext", None)
    return context.statusTracker() if context is not None else None


def _tasks_of(tracker: StatusTracker) -> tuple[int, int]:
    """Return the numbers of finished tasks and of all tasks in the running stages; 0 if Java has ended."""
    from py4j.protocol import Py4JError

    try:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    except (Py4JError, ConnectionError):
        # The code that waits for the result gets the error.
        return 0, 0
    known = [stage for stage in stages if stage is not None]
    return sum(stage.numCompletedTasks for stage in known), sum(stage.numTasks for stage in known)


class _TaskWatch:
    """A thread that polls the progress of Spark jobs while a block runs."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._is_over.wait(PAUSE):
            self._look()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()


class _CellProgress:
    """A progress line below a slow cell of a notebook, with the elapsed time and Spark's tasks."""

    def __init__(self) -> None:
        self.tracker: StatusTracker | None = None

    def begin(self, *_: object) -> None:
        """Start to poll when a cell starts."""
        self._start, self._line = time.monotonic(), StatusLine()
        self._watch = _TaskWatch(self._look)
        self._watch.__enter__()

    def end(self, result: Any = None) -> None:
        """Stop when the cell ends, and print a sentence below its traceback if Java was killed."""
        self._watch.__exit__()
        self._line.end()
        has_failed = self.tracker is not None and getattr(result, "error_in_exec", None) is not None
        if has_failed and (ended := java_end(patience=0.2)):
            print(ended, file=sys.stderr)

    def _look(self) -> None:
        seconds = time.monotonic() - self._start
        if seconds < PATIENCE:
            return
        done, tasks = _tasks_of(self.tracker) if self.tracker is not None else (0, 0)
        self._line.show(f"{seconds:.0f} s" + f", {done} of {tasks} tasks of Spark" * bool(tasks))


_cells = _CellProgress()


def watch_cells(spark: SparkSession | None = None) -> None:
    """Show the progress of each later cell of this notebook, as a cell on Spark may take a minute.

    After two seconds, a line shows the elapsed time and the number of finished tasks of Spark.  Outside a
    notebook this function has no effect.

    Parameters:
        spark: The session whose tasks are counted; None if there is none yet.

    >>> watch_cells()
    """
    _cells.tracker = _tracker_of(spark)
    if has_kernel():
        events = sys.modules["IPython"].get_ipython().events
        if _cells.begin not in events.callbacks["pre_run_cell"]:
            events.register("pre_run_cell", _cells.begin)
            events.register("post_run_cell", _cells.end)
            _cells.begin()


class TaskProgress(_TaskWatch):
    """A :class:`~qflow.progress.Progress` that also shows the running step's tasks and the peak memory."""

    def __init__(
        self,
        spark: SparkSession,
        what: str,
        total: int | None = None,
        unit: str = "tasks",
        peak: Accumulator[int] | None = None,
    ) -> None:
        self._spark, self._tracker = spark, _tracker_of(spark)
        self._total, self._before, self._peak = total, 0, peak
        self._shown = ProgressLine(what, total, unit=unit, has_bar=True)
        super().__init__(self._look_at_tasks)

    def __call__(self, done: int, total: int | None = None, part: str = "", /) -> None:
        """Record the number of tasks that are done in this step and the earlier ones."""
        self._before = done
        if self._peak is not None:
            self._shown.remark = f", {self._peak.value >> 20} MiB in the largest worker"

    def _look_at_tasks(self) -> None:
        if self._tracker is not None:
            self._show(*_tasks_of(self._tracker))

    def _note_stages(self, stages: Any, *_: Any, **__: Any) -> None:
        """Show the numbers of tasks from a progress message of Spark Connect."""
        known = list(stages or ())
        self._show(sum(stage.num_completed_tasks for stage in known), sum(stage.num_tasks for stage in known))

    def _show(self, completed: int, tasks: int) -> None:
        done = self._before + completed
        total = self._total or self._before + tasks
        if tasks and total:
            self._shown(min(done, total), total)

    def __enter__(self) -> Self:
        if self._tracker is None:
            self._spark.registerProgressHandler(self._note_stages)
        return super().__enter__()

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        if self._tracker is None:
            self._spark.removeProgressHandler(self._note_stages)
        self._shown.end()
