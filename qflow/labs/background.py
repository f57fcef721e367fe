"""Background: long work beside the kernel's loop, with its progress, and an end when nobody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from qflow.kit import RefusalError

Result = TypeVar("Result")
Tell = Callable[[float], None]
"""Told now and then which part is done, from 0 to 1."""


class CancelledError(RefusalError):
    """Nobody waits for this work any more."""


class Background(Generic[Result]):
    """Work in a thread of its own; where there are no threads, it is done at once.

    Parameters
    ----------
    work
        Called with a function to be told which part is done; that function raises to end the work.

    Attributes
    ----------
    part
        Which part is done, from 0 to 1.

    Examples
    --------
    >>> work = Background(lambda tell: tell(0.5) or "done")
    >>> work.wait(10)
    True
    >>> work.part, work.result()
    (0.5, 'done')
    """

    def __init__(self, work: Callable[[Tell], Result]) -> None:
        self.part = 0.0
        self._work = work
        self._is_cancelled = False
        self._error: Exception | None = None
        self._done: list[Result] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # as in a browser's kernel
            self._run()

    def wait(self, most: float | None) -> bool:
        """Wait some seconds, or with None to the end; return whether the work is over, however it ended."""
        if self._thread.ident is not None:
            self._thread.join(most)
        return not self._thread.is_alive()

    def cancel(self) -> None:
        """Let the work end where it next tells how far it is."""
        self._is_cancelled = True

    def result(self) -> Result:
        """Return what came of it.

        Raises
        ------
        Exception
            Whatever the work raised; :class:`CancelledError` if it was cancelled.
        """
        if self._error is not None:
            raise self._error
        return self._done[0]

    def _run(self) -> None:
        try:
            self._done.append(self._work(self._tell))
        except Exception as error:  # raised again for whoever asks for the result
            self._error = error

    def _tell(self, part: float) -> None:
        self.part = part
        if self._is_cancelled:
            raise CancelledError("cancelled")
