"""A parallel map for many runs of the engine: a function of each of many items, on all cores.

A run of the engine keeps one core busy, and runs share no state.  So the runs of a settings map, of a
frontier or of a prediction's replays are divided among *workers*: Python processes that are started when
first needed, stay idle between uses, and end with the process that started them.  Results are returned in the
order of completion, each with the index of its item.

:func:`run_many` is a generator, for a caller that only waits for results.  :class:`ManyRuns` is for a caller
with other work: it returns the results that have arrived so far, and can drop all unfinished items at once.

The protocol between a caller and its workers
---------------------------------------------
- A *question* is a function and a few items.  The worker sends one answer for each item, and then an *end
  mark* (None).  The number of items depends on their duration: enough to keep a worker busy while the caller
  does other work, and few enough that no worker still has many items when the others have finished.
- A question is *dropped* by a signal.  The worker abandons the item in progress and sends the end mark, after
  which it is ready for the next question.  A worker that stays in compiled code for longer than
  :data:`PATIENCE`, and so cannot react, is killed; a new one is started when needed.
- A worker also sends an end mark once it has started; until then it is *new*.

Questions and answers are sent by ``multiprocessing.connection``.  The processes are not started by
``multiprocessing``: its spawn method imports the main program again, which breaks a script without
``if __name__ == "__main__"``, and its fork method breaks a notebook's kernel, which has threads.
"""

from __future__ import annotations

import atexit
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing, suppress
from functools import partial
from typing import Any, Generic, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

PATIENCE = 0.1
"""Seconds after which a worker that does not react to a dropped question is killed."""

_QUESTION = 0.04
"""Seconds that the items of one question should take together, estimated from the last item."""

Answer = tuple[bool, Any, float] | None
"""For one item its success, its result or error, and its duration in seconds; or None, the end mark."""

_DROP = getattr(signal, "SIGUSR1", None)


def cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def run_many(
    function: Callable[[Item], Result], items: Sequence[Item], *, processes: int | None = None
) -> Generator[tuple[int, Result], None, None]:
    """Yield the index and the result of each item, in the order of completion."""
    # If the caller closes the generator, or is interrupted, the unfinished runs are dropped.
    with closing(ManyRuns(function, items, processes=processes)) as runs:
        while runs.left:
            yield from runs.results(None)


class ManyRuns(Generic[Item, Result]):
    """A parallel map of a function over many items, on all cores."""

    def __init__(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        *,
        processes: int | None = None,
        is_brief: bool = False,
    ) -> None:
        # Workers cannot import a function that a notebook or a script defines. This process then calls it for
        # all items itself, as it also does for one process, on Windows and in a browser. Items and results
        # must be picklable.
        self._function = function
        self._items = items
        self._waiting = deque(range(len(items)))
        # The number of items whose results have not been returned yet.
        self.left = len(items)
        # With is_brief, this process does some items itself until the first worker has started, which takes
        # as long as starting Python.
        self._is_brief = is_brief
        count = min(processes or cores(), len(items))
        has_workers = _DROP and sys.platform != "emscripten" and _is_importable(function)
        self._workers = _take_workers(count) if count > 1 and has_workers else []
        self._asked: dict[_Worker, deque[int]] = {}
        self._took = 0.0
        for worker in self._workers:
            self._ask(worker)

    def results(self, timeout: float | None = 0.0) -> list[tuple[int, Result]]:
        """Return new results with their items' indices; wait `timeout` seconds, or without limit for None."""
        found: list[tuple[int, Result]] = []
        try:
            if self._waiting and self._is_alone():
                place = self._waiting.popleft()
                found.append((place, self._function(self._items[place])))
                timeout = 0.0
            if self._workers:
                self._receive(found, timeout)
        except BaseException:
            self.close()
            raise
        self.left -= len(found)
        if not self.left:
            self.close()
        return found

    def close(self) -> None:
        """Drop all unfinished items, and return the workers to the idle ones."""
        self._waiting.clear()
        self.left = 0
        _return_workers(self._workers)
        self._workers = []

    def _is_alone(self) -> bool:
        return not self._workers or (self._is_brief and all(worker.is_new for worker in self._workers))

    def _receive(self, found: list[tuple[int, Result]], timeout: float | None) -> None:
        """Add results to `found` until there is at least one and no more are ready, or the timeout ends."""
        began = time.monotonic()
        until = None if timeout is None else began + timeout
        # Answers may arrive as fast as they are received, so there is a limit.
        enough = began + (timeout or 0.0) + _QUESTION
        while True:
            left = None if until is None else max(0.0, until - time.monotonic())
            ready = _wait_for(self._workers, 0.0 if found else left)
            for worker in ready:
                self._on_answer(worker, worker.receive(), found)
            if (found or left == 0.0) and (not ready or time.monotonic() > enough):
                return

    def _on_answer(self, worker: _Worker, answer: Answer, found: list[tuple[int, Result]]) -> None:
        if answer is None:
            # A signal meant for the previous question may have dropped this one: its items wait again.
            self._waiting.extendleft(reversed(self._asked.pop(worker, deque())))
            self._ask(worker)
            return
        is_right, what, self._took = answer
        if not is_right:
            raise what
        found.append((self._asked[worker].popleft(), what))

    def _ask(self, worker: _Worker) -> None:
        if worker.owes or not self._waiting:
            return
        # A question has several items if runs are shorter than the time to send a question and its answer;
        # but at most half of a worker's fair share, as otherwise all would wait for the last worker.
        fair = len(self._waiting) // (2 * len(self._workers))
        enough = int(_QUESTION / self._took) if self._took else 1
        count = max(1, min(fair, enough))
        places = [self._waiting.popleft() for _ in range(min(count, len(self._waiting)))]
        self._asked[worker] = deque(places)
        worker.ask(self._function, [self._items[place] for place in places])


def _is_importable(function: Any) -> bool:
    if isinstance(function, partial):
        return all(map(_is_importable, (function.func, *filter(callable, function.args))))
    return getattr(function, "__module__", "") != "__main__"


class _Worker:
    """A worker process, seen by the caller: it answers one question after the other."""

    def __init__(self) -> None:
        # Not imported at the top, because Python in a browser lacks this module.
        from multiprocessing.connection import Pipe

        # Neither fork nor multiprocessing's spawn: a fork copies a notebook's locks but not its threads, and
        # spawn runs the caller's main module again, which breaks a script without a guard.
        path = os.pathsep.join(item or os.getcwd() for item in sys.path)
        self.connection, its_end = Pipe()
        # The worker inherits the blocked signal, so that one sent before its handler is installed stays
        # pending.
        assert _DROP is not None
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [_DROP])
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"from qflow.workload.many import serve; serve({its_end.fileno()})"],
                stdin=subprocess.DEVNULL,
                pass_fds=[its_end.fileno()],
                env={**os.environ, "PYTHONPATH": path},
            )
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            its_end.close()
        self.owes = True
        """Whether the worker has still to send an end mark."""
        self.is_new = True

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, function: Callable[[Any], Any], items: Sequence[object]) -> None:
        self.owes = True
        self.connection.send((function, items))

    def receive(self) -> Answer:
        """Wait for the next answer and return it; if the process has ended, return an error as its answer."""
        try:
            answer: Answer = self.connection.recv()
        except (EOFError, OSError):
            self.owes = False
            return False, RuntimeError(f"a worker process ended, with {self._process.wait()}"), 0.0
        except BaseException:
            # An answer may have been read in part, after which the connection cannot be used.
            self.end()
            raise
        if answer is None:
            self.owes = self.is_new = False
        return answer

    def drop(self) -> None:
        assert _DROP is not None
        self._process.send_signal(_DROP)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self.connection.close()


def _wait_for(workers: Iterable[_Worker], seconds: float | None) -> list[_Worker]:
    """Wait until a worker has an answer or the time is up, and return all workers that have one."""
    from multiprocessing.connection import wait

    by_connection: dict[Any, _Worker] = {worker.connection: worker for worker in workers}
    return [by_connection[connection] for connection in wait(by_connection, seconds)]


_idle: list[_Worker] = []
_owner = os.getpid()


def _take_workers(count: int) -> list[_Worker]:
    """Return `count` workers, idle ones if there are enough, otherwise new ones as well."""
    global _owner
    if _owner != os.getpid():
        # A forked process has its parent's list of workers, but must not use them.
        _owner, _idle[:] = os.getpid(), []
    taken: list[_Worker] = []
    while len(taken) < count:
        worker = _idle.pop() if _idle else _Worker()
        if worker.is_alive:
            taken.append(worker)
        else:
            worker.end()
    return taken


def _return_workers(workers: Sequence[_Worker]) -> None:
    """Drop the questions of workers, keep those that react in time as idle, and kill the others."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        busy = [worker for worker in workers if worker.owes and worker.is_alive]
        if not busy:
            break
        # The signal is repeated, because a call that begins to wait just after a signal misses it.
        for worker in busy:
            worker.drop()
        for worker in _wait_for(busy, PATIENCE / 10):
            while worker.owes and worker.connection.poll():
                worker.receive()
    for worker in workers:
        if worker.owes or not worker.is_alive:
            worker.end()
        else:
            _idle.append(worker)


@atexit.register
def _end_all() -> None:
    if _owner == os.getpid():
        while _idle:
            _idle.pop().end()


# In the worker process


class _Dropped(BaseException):
    """Raised by the signal handler to abandon the item in progress."""


class _WorkerTask:
    def __init__(self) -> None:
        self.is_dropped = self.is_under_way = False

    def drop(self, _: int, __: object) -> None:
        """Handle the signal: abandon the item in progress, but never while an answer is being written."""
        self.is_dropped = True
        if self.is_under_way:
            self.is_under_way = False
            raise _Dropped

    def do(self, function: Callable[[Any], Any], item: object) -> tuple[bool, Any, float]:
        """Call the function, and return an answer: success, result or error, and duration in seconds."""
        began = time.perf_counter()
        try:
            self.is_under_way = True
            # Checked only after is_under_way is set, as a signal just before that would be lost otherwise.
            if self.is_dropped:
                raise _Dropped
            found = (True, function(item))
        except Exception as error:
            found = (False, error)
        finally:
            self.is_under_way = False
        return *found, time.perf_counter() - began


def serve(fd: int) -> None:
    """Answer the parent's questions until it ends; this function runs in a worker process."""
    from multiprocessing.connection import Connection

    assert _DROP is not None
    work = _WorkerTask()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(_DROP, work.drop)
    # A run's printed output goes to standard error, as it is for people.
    os.dup2(2, 1)
    with suppress(EOFError, ConnectionError), Connection(fd) as connection:
        connection.send(None)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [_DROP])
        while True:
            function, items = connection.recv()
            with suppress(_Dropped):
                for item in items:
                    connection.send(work.do(function, item))
            work.is_dropped = False
            connection.send(None)
