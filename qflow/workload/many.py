"""Many runs at once: a function of each of many settings, on all cores.

A run of the engine keeps one core busy, and no two runs share anything.  So those of a map of settings, of a
frontier or of a prediction's replays are divided among *workers*: processes of this Python that are started
when they are first needed, wait for more afterwards, and end with the process that started them.  Results
come in the order in which they are done, each with its place among the settings.

:func:`run_many` is a generator, for a caller that has nothing else to do.  :class:`ManyRuns` is the same for
one that has: it is asked for what has come, and drops the rest at once when that is of no more use.

How a caller and its workers talk
---------------------------------
- A *question* is a function and a few items; the answers come one by one, and then a mark that this was all.
  How many items depends on how long they take: enough to keep a worker busy while its caller is not, few
  enough that no worker is left with the last ones.
- A question is *dropped* by a signal.  The worker leaves the item that it has begun and says that this was
  all, so that it is ready for the next question; one that cannot, as it is in the middle of compiled code
  for longer than :data:`PATIENCE`, is ended, and another is started when it is needed.
- A new worker is one that has not said yet that this was all.

Questions and answers travel by ``multiprocessing.connection``.  Workers are not started by
``multiprocessing``: that imports the program which started them once more, and breaks a script without
``if __name__ == "__main__"``; a fork breaks a notebook's kernel with its threads.
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
"""Seconds that an obsolete worker has to finish its item."""

_QUESTION = 0.04
"""Seconds that a question takes, as far as that can be known."""

Answer = tuple[bool, Any, float] | None
"""Whether an item succeeded, its result or error, and its duration in seconds; None: the end of all items."""

_DROP = getattr(signal, "SIGUSR1", None)


def cores() -> int:
    """Return the number of cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def run_many(
    function: Callable[[Item], Result], items: Sequence[Item], *, processes: int | None = None
) -> Generator[tuple[int, Result], None, None]:
    """Yield the index and the result for each item, in the order of completion."""
    # A caller that closes the generator, or is interrupted, ends the runs under way.
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
        # What a notebook or a script defines is known to this process only, which then does all itself, as it
        # does with one process, on Windows and in a browser.  Items and results must be picklable.
        self._function = function
        self._items = items
        self._waiting = deque(range(len(items)))
        # Number of items whose result has not been returned yet.
        self.left = len(items)
        # Until the first worker is there, which takes as long as starting Python, this process does some.
        self._is_brief = is_brief
        count = min(processes or cores(), len(items))
        has_workers = _DROP and sys.platform != "emscripten" and _is_importable(function)
        self._workers = _take_workers(count) if count > 1 and has_workers else []
        self._asked: dict[_Worker, deque[int]] = {}
        self._took = 0.0
        for worker in self._workers:
            self._ask(worker)

    def results(self, timeout: float | None = 0.0) -> list[tuple[int, Result]]:
        """Return new results, each with its item's index."""
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
        """Drop all unfinished items; the workers wait for the next question."""
        self._waiting.clear()
        self.left = 0
        _return_workers(self._workers)
        self._workers = []

    def _is_alone(self) -> bool:
        return not self._workers or (self._is_brief and all(worker.is_new for worker in self._workers))

    def _receive(self, found: list[tuple[int, Result]], timeout: float | None) -> None:
        """Receive the workers' answers; return at the first result, or at the end of the time."""
        began = time.monotonic()
        until = None if timeout is None else began + timeout
        # Answers may come as fast as they are taken.
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
            # A question may have met a signal that was meant for the one before.
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
        # Several items in one question, as a short run takes less than the way to the worker and back; but
        # never more than half of a fair share, or the last worker would keep all waiting at the end.
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
    """A process that answers questions in turn."""

    def __init__(self) -> None:
        # Not at the top: a browser's Python has none of it.
        from multiprocessing.connection import Pipe

        # Neither fork nor multiprocessing's own start: a fork copies a notebook's threads and locks
        # half-way, and spawn runs the caller's main module again, which a script without a guard does not
        # survive.
        path = os.pathsep.join(item or os.getcwd() for item in sys.path)
        self.connection, its_end = Pipe()
        # A signal that comes before the worker can hear it waits until then.
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
        """Whether it has not said yet that this was all."""
        self.is_new = True

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, function: Callable[[Any], Any], items: Sequence[object]) -> None:
        self.owes = True
        self.connection.send((function, items))

    def receive(self) -> Answer:
        """Wait for the next answer; raise if the process has ended."""
        try:
            answer: Answer = self.connection.recv()
        except (EOFError, OSError):
            self.owes = False
            return False, RuntimeError(f"a worker process ended, with {self._process.wait()}"), 0.0
        except BaseException:
            # Half an answer may be read, after which nothing can be.
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
    """Return the workers with an answer to receive, as soon as there is one or the time is up."""
    from multiprocessing.connection import wait

    by_connection: dict[Any, _Worker] = {worker.connection: worker for worker in workers}
    return [by_connection[connection] for connection in wait(by_connection, seconds)]


_idle: list[_Worker] = []
_owner = os.getpid()


def _take_workers(count: int) -> list[_Worker]:
    """Return some workers, idle ones first."""
    global _owner
    if _owner != os.getpid():
        # A fork has its parent's workers only by name.
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
    """Interrupt workers, and keep those that become idle in time."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        busy = [worker for worker in workers if worker.owes and worker.is_alive]
        if not busy:
            break
        # Again and again: a call that begins to wait just after a signal does not hear that one.
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


# A worker's side


class _Dropped(BaseException):
    """The worker's present item is no longer needed."""


class _WorkerTask:
    def __init__(self) -> None:
        self.is_dropped = self.is_under_way = False

    def drop(self, _: int, __: object) -> None:
        """Drop the item, as the signal requests; an answer is never left half-written."""
        self.is_dropped = True
        if self.is_under_way:
            self.is_under_way = False
            raise _Dropped

    def do(self, function: Callable[[Any], Any], item: object) -> tuple[bool, Any, float]:
        """Return an answer: success, result or error, and duration in seconds."""
        began = time.perf_counter()
        try:
            self.is_under_way = True
            # Asked only now: a signal between the question and this line would be lost otherwise.
            if self.is_dropped:
                raise _Dropped
            found = (True, function(item))
        except Exception as error:
            found = (False, error)
        finally:
            self.is_under_way = False
        return *found, time.perf_counter() - began


def serve(fd: int) -> None:
    """Answer the questions of the parent process until it ends."""
    from multiprocessing.connection import Connection

    assert _DROP is not None
    work = _WorkerTask()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(_DROP, work.drop)
    # What a run prints is for people.
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
