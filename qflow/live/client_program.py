"""Program: a client program that is run beside a server, with its output kept and an end that is certain.

The program is run in a process group of its own, so that what it starts ends with it: at the end of the
``with`` block, after Ctrl-C, and when an error of ours comes first.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from threading import Thread
from types import TracebackType

from qflow.kit import RefusalError

_KEPT_LINES = 200
_LONGEST_LINE = 4_096
_GRACE = 1.0


class Program:
    """A command that runs until it ends by itself or the ``with`` block does.

    Parameters
    ----------
    command : sequence of str
        The program and its arguments.
    environment : mapping
        Variables that it gets beside those of this process.

    Raises
    ------
    RefusalError
        If there is no such program, or it may not be run.

    Examples
    --------
    >>> import sys
    >>> with Program([sys.executable, "-c", "print('hello')"], {}) as program:
    ...     program.wait(60)
    0
    >>> program.output()
    'hello'
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        try:
            self._process = subprocess.Popen(
                list(command),
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise RefusalError(f"{command[0]!r} cannot be run: {reason}") from None
        self._lines: deque[bytes] = deque(maxlen=_KEPT_LINES)
        self._reader = Thread(target=self._read, name="output of a client", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError, OSError):
            while line := self._process.stdout.readline(_LONGEST_LINE):
                self._lines.append(line)

    @property
    def status(self) -> int | None:
        """The exit status; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> int | None:
        """Wait for its end, at most so long; return the exit status, None if it still runs."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.status

    def output(self) -> str:
        """Return the last 200 lines of what it has printed, errors included."""
        if self.status is not None:
            # All that it wrote has been read, unless something that it started still holds the pipe.
            self._reader.join(_GRACE)
        return b"".join(self._lines).decode("utf-8", "replace").strip()

    def end(self) -> None:
        """End it and all that it started: asked first, and a second later not asked."""
        self._signal(signal.SIGTERM)
        if self.wait(_GRACE) is None or self._reader.is_alive():
            self._signal(getattr(signal, "SIGKILL", signal.SIGTERM))
        self._process.wait()
        self._reader.join(_GRACE)

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, number)
            else:
                self._process.kill()

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
