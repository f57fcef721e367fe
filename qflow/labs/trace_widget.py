"""trace_lab and recorded_lab: the labs of recordings and of files.

A large file is read in a thread while the lab already shows its progress, and a button to cancel if
the reader does not want to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from hashlib import file_digest
from pathlib import Path
from typing import Any

from qflow.kit import RefusalError
from qflow.labs.lab import Lab
from qflow.labs.opened import recorded_picture, trace_picture
from qflow.labs.picture import Comparison, Picture
from qflow.labs.running import running_loop
from qflow.labs.share import Token, share_path

LARGE = 300_000
"""Bytes of a packed file from which on its lab opens empty, whatever the machine, with progress."""

_PACKED = (".gz", ".parquet")
_PACKING = 10
_BREATH = 0.1
_READ = 0.8
"""How much of the work reading is; the rest makes the picture."""


class CancelledError(RefusalError):
    """The work was cancelled."""


class TraceLab(Lab):
    """The lab of a file's picture; its parameters are those of :func:`trace_lab`."""

    name = "trace"
    # Of the class, as Python closes what could not be made, too.
    _task: asyncio.Task[None] | None = None

    def __init__(
        self, path: str | Path, workload: str | Path | None, queues: Sequence[str], digest: str, at: float
    ) -> None:
        self._at = round(at * 1_000_000)
        self._path, self._workload, self._queues, self._expected = Path(path), workload, queues, digest
        read = partial(trace_picture, path, workload=workload, queues=queues)
        loop = running_loop() if _is_large(self._path) else None
        if loop is None:
            # Without progress: whether a line of it appears would hang on the machine's speed.
            super().__init__(read(progress=lambda *_: None))
            self._open_at()
            return
        super().__init__(Comparison({}, (f"{self._path.name} is being read.",)))
        # A task of the kernel's own loop: the page shows the lab at once, and buttons are heard while it
        # reads.
        self._task = loop.create_task(self._follow(read))

    async def _follow(self, read: Callable[..., Picture]) -> None:
        """Show the progress of reading, and then the picture, unless cancelled."""
        name, done, is_over = self._path.name, 0.0, False

        def report(rows: int, total: int | None = None, _: str = "", /) -> None:
            nonlocal done
            done = _READ * rows / total if total else done
            if is_over:
                raise CancelledError(f"Cancelled: {name} is not read. Run the cell again to read it.")

        # Where there are no threads, as in a browser's kernel, it is read at once.
        reading = asyncio.ensure_future(asyncio.to_thread(read, progress=report))
        reading.add_done_callback(lambda over: over.cancelled() or over.exception())
        try:
            while not reading.done():
                await asyncio.wait([reading], timeout=_BREATH)
                # Polled here rather than observed: the reading thread learns of it at its next report, and
                # raises.
                is_over = bool(self.scene.cancelled)
                report(0)
                self.scene.running, self.scene.progress = 1, max(0.01, done)
            self.scene.progress = 0.0
            self.show(reading.result(), 1)
            self._open_at()
        except Exception as error:  # it is shown in the lab: nothing above catches it
            self.scene.progress = 0.0
            self.scene.refusal = str(error)
            self.show_claims((f"{name} is not read.",))
        finally:
            is_over = True

    def _open_at(self) -> None:
        if self._at:
            self.scene.place = {"time": self._at, "back": 0, "number": self.scene.run}

    @property
    def settings(self) -> dict[str, Any]:
        """The file's name and the digest of its bytes."""
        found = {"path": share_path(self._path), "queues": list(self._queues), "digest": _digest(self._path)}
        return found if self._workload is None else {**found, "workload": share_path(self._workload)}

    def close(self) -> None:
        """Free all resources of the lab, and stop reading its file."""
        if self._task is not None:
            self._task.cancel()
        super().close()

    def go_to(self, token: Token) -> None:
        """Go to a token's instant, with a notice if the file or the engine differs from the token's."""
        super().go_to(token)
        if self._expected not in ("", _digest(self._path)):
            text = f"{self._path.name} is not the file that this token was made of: its bytes differ."
            self.scene.refusal = "\n".join(filter(None, (text, self.scene.refusal)))


def _is_large(path: Path) -> bool:
    try:
        size = path.stat().st_size
    except OSError:  # opening it says what is the matter
        return False
    return size >= (LARGE if path.suffix in _PACKED else LARGE * _PACKING)


def _digest(path: Path) -> str:
    """Return a twelve-digit hash of a file's bytes."""
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()[:12]


def trace_lab(
    path: str | Path,
    *,
    workload: str | Path | None = None,
    queues: Sequence[str] = (),
    digest: str = "",
    at: float = 0.0,
) -> TraceLab:
    """Open a trace or a client log in the picture that all labs share.

    Parameters:
        path, workload, queues: As for :func:`trace_picture`.
        digest: What a token says of the file's bytes: the lab says so if they are others here.
        at: The second that it opens at.

    Returns:
        A widget; without widgets, use :func:`qflow.labs.trace_picture`.

    Raises:
        TraceError, LogError: If the file is neither, or a queue is not in it. A large one (300 kB packed,
            3 MB of text) is read while the lab is there already, with its progress; then the lab says so.
        OSError: If a file cannot be opened.

    >>> from qflow.kit import kit_path
    >>> lab = trace_lab(kit_path("data") / "recordings" / "workloads" / "ring.csv.gz")
    >>> lab.picture.frames.topology.queues[0].name
    'q'
    """
    return TraceLab(path, workload, queues, digest, at)


def recorded_lab(name: str = "slow-consumer") -> Lab:
    """Open a recorded workload: the engine's replay, compared with the real broker's own reports.

    Parameters:
        name: A recording of the kit, as for :func:`qflow.labs.recorded_picture`, which needs no widgets.

    Raises:
        LogError: If there is no such recording.

    >>> recorded_lab("ring").picture.frames.topology.queues[0].name
    'q'
    """
    return Lab(recorded_picture(name))
