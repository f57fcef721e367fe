"""Many runs at once: a function of each of many settings, on all cores.

A run of the engine keeps one core busy, and no two runs share anything.  So those of a sweep, of a map of
settings or of a prediction's replays are divided among *workers*: processes of this Python that are started
when they are first needed, wait for more afterwards, and end with the process that started them.  Results
come in the order in which they are done; a caller that closes the generator, or is interrupted, ends the runs
under way at once.

Workers are not started by ``multiprocessing``: that imports the program which started them once more, and
breaks a script without ``if __name__ == "__main__"``; a fork breaks a notebook's kernel with its threads.
"""

from __future__ import annotations

import atexit
import os
import pickle
import selectors
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from typing import Any, BinaryIO, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_LENGTH = struct.Struct(">Q")


def cores() -> int:
    """Return how many cores this process may use.

    Examples
    --------
    >>> cores() >= 1
    True
    """
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def run_many(
    function: Callable[[Item], Result], items: Sequence[Item], *, processes: int | None = None
) -> Generator[tuple[int, Result], None, None]:
    """Yield the place of each item and what the function returns for it, as soon as that is known.

    Parameters
    ----------
    function : callable
        Importable by its name, or a ``functools.partial`` of such a function.
    items : sequence
        What it is called with; each must be picklable, and so must what it returns.
    processes : int or None
        How many workers; None for as many as there are cores.  With one, this process does all itself, in
        the order of the items.

    Yields
    ------
    (int, object)

    Raises
    ------
    Exception
        What the function raised; runs under way are ended.

    Examples
    --------
    >>> list(run_many(abs, [-3, 2], processes=1))
    [(0, 3), (1, 2)]
    """
    count = min(processes or cores(), len(items))
    # Windows cannot wait for several pipes at once.
    if count < 2 or os.name == "nt":
        for place, item in enumerate(items):
            yield place, function(item)
        return
    waiting = iter(enumerate(items))
    workers = _taken(count)
    busy: dict[_Worker, int] = {}
    with selectors.DefaultSelector() as selector:
        try:
            for worker in workers:
                _next_of(waiting, worker, function, busy)
                selector.register(worker.answers, selectors.EVENT_READ, worker)
            while busy:
                for key, _ in selector.select():
                    worker = key.data
                    place = busy.pop(worker)
                    is_right, found = worker.answer()
                    if not is_right:
                        raise found
                    _next_of(waiting, worker, function, busy)
                    yield place, found
        finally:
            for worker in workers:
                if worker in busy or not worker.is_alive:
                    worker.end()
                else:
                    _idle.append(worker)


def _next_of(
    waiting: Any, worker: _Worker, function: Callable[[Item], Result], busy: dict[_Worker, int]
) -> None:
    for place, item in waiting:
        busy[worker] = place
        worker.ask(function, item)
        return


class _Worker:
    """One process that does what it is asked for, one thing after the other."""

    def __init__(self) -> None:
        path = os.pathsep.join(item or os.getcwd() for item in sys.path)
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from qflow.workload.many import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        self._questions: BinaryIO = self._process.stdin  # type: ignore[assignment]
        self.answers: BinaryIO = self._process.stdout  # type: ignore[assignment]

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, function: Callable[[Any], Any], item: object) -> None:
        _write(self._questions, (function, item))

    def answer(self) -> tuple[bool, Any]:
        found: tuple[bool, Any] | None = _read(self.answers)
        if found is None:
            return False, RuntimeError(f"a worker process ended, with {self._process.wait()}")
        return found

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._questions.close()
        self.answers.close()


_idle: list[_Worker] = []
_owner = os.getpid()


def _taken(count: int) -> list[_Worker]:
    """Return that many workers, those first that wait for work."""
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


@atexit.register
def _end_all() -> None:
    if _owner == os.getpid():
        while _idle:
            _idle.pop().end()


def serve() -> None:
    """Do what the process that started this one asks for, until it ends (a worker's whole life)."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    # What a run prints is for people.
    os.dup2(2, 1)
    while (asked := _read(sys.stdin.buffer)) is not None:
        function, item = asked
        found: tuple[bool, Any]
        try:
            found = (True, function(item))
        except Exception as error:
            found = (False, error)
        try:
            _write(answers, found)
        except BrokenPipeError:
            return


def _write(stream: BinaryIO, thing: object) -> None:
    data = pickle.dumps(thing, protocol=pickle.HIGHEST_PROTOCOL)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _read(stream: BinaryIO) -> Any:
    head = stream.read(_LENGTH.size)
    return pickle.loads(stream.read(*_LENGTH.unpack(head))) if len(head) == _LENGTH.size else None
