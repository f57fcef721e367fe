"""The labs of traces, client logs and the kit's recordings: ``trace_lab`` and ``recorded_lab``.

A large file is read in a thread, while the lab is already displayed with the progress of the reading and a
button to cancel it.
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
"""The bytes of a compressed file from which on it is read in a thread, on any machine."""

_PACKED = (".gz", ".parquet")
_PACKING = 10
_BREATH = 0.1
_READ = 0.8
"""The share of the work that the reading takes; the rest is for making the picture."""


class CancelledError(RefusalError):
    """The reader has cancelled the reading of a file."""


class TraceLab(Lab):
    """The lab that shows the picture of a file; its parameters are those of :func:`trace_lab`."""

    name = "trace"
    # An attribute of the class, as close() is also called if the constructor has failed.
    _task: asyncio.Task[None] | None = None

    def __init__(
        self, path: str | Path, workload: str | Path | None, queues: Sequence[str], digest: str, at: float
    ) -> None:
        self._at = round(at * 1_000_000)
        self._path, self._workload, self._queues, self._expected = Path(path), workload, queues, digest
        read = partial(trace_picture, path, workload=workload, queues=queues)
        loop = running_loop() if _is_large(self._path) else None
        if loop is None:
            # No progress is shown, as it would depend on the speed of the machine whether it appears.
            super().__init__(read(progress=lambda *_: None))
            self._open_at()
            return
        super().__init__(Comparison({}, (f"{self._path.name} is being read.",)))
        # A task in the kernel's event loop, so that the lab is displayed at once, and its buttons work while
        # the file is read.
        self._task = loop.create_task(self._follow(read))

    async def _follow(self, read: Callable[..., Picture]) -> None:
        """Show the progress of the reading, and then the picture, unless the reading is cancelled."""
        name, done, is_over = self._path.name, 0.0, False

        def report(rows: int, total: int | None = None, _: str = "", /) -> None:
            nonlocal done
            done = _READ * rows / total if total else done
            if is_over:
                raise CancelledError(f"Cancelled: {name} is not read. Run the cell again to read it.")

        # In a kernel without threads, such as one in a browser, the file is read at once.
        reading = asyncio.ensure_future(asyncio.to_thread(read, progress=report))
        reading.add_done_callback(lambda over: over.cancelled() or over.exception())
        try:
            while not reading.done():
                await asyncio.wait([reading], timeout=_BREATH)
                # Check for a cancellation; the reading thread learns of it at its next report, and raises.
                is_over = bool(self.scene.cancelled)
                report(0)
                self.scene.running, self.scene.progress = 1, max(0.01, done)
            self.scene.progress = 0.0
            self.show(reading.result(), 1)
            self._open_at()
        except Exception as error:  # shown in the lab, as nothing else would catch it in this task
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
        """The path of the file, the queues, the workload, and the digest of the file's bytes."""
        found = {"path": share_path(self._path), "queues": list(self._queues), "digest": _digest(self._path)}
        return found if self._workload is None else {**found, "workload": share_path(self._workload)}

    def close(self) -> None:
        """Stop reading the file, and close the lab's widgets."""
        if self._task is not None:
            self._task.cancel()
        super().close()

    def go_to(self, token: Token) -> None:
        """Move to the instant of a token, and show whether its file or engine differs from those here."""
        super().go_to(token)
        if self._expected not in ("", _digest(self._path)):
            text = f"{self._path.name} is not the file that this token was made of: its bytes differ."
            self.scene.refusal = "\n".join(filter(None, (text, self.scene.refusal)))


def _is_large(path: Path) -> bool:
    try:
        size = path.stat().st_size
    except OSError:  # opening the file raises the error with its reason
        return False
    return size >= (LARGE if path.suffix in _PACKED else LARGE * _PACKING)


def _digest(path: Path) -> str:
    """Return the first twelve hexadecimal digits of a hash of a file's bytes."""
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
    """Open a lab for a trace or a client log.

    A large file (300 kB compressed, 3 MB of text) is read while the lab is already displayed. The lab then
    shows the progress, and any error below except one of opening the file.

    Parameters:
        path, workload, queues: As for :func:`trace_picture`.
        digest: The digest of the file's bytes in a token; if the file has another one, the lab says so.
        at: The time to open the picture at, in seconds.

    Returns:
        The lab, a widget. :func:`qflow.labs.trace_picture` needs no widgets.

    Raises:
        TraceError, LogError: If the file is neither a trace nor a client log, or lacks one of the queues.
        OSError: If a file cannot be opened.

    >>> from qflow.kit import kit_path
    >>> lab = trace_lab(kit_path("data") / "recordings" / "workloads" / "ring.csv.gz")
    >>> lab.picture.frames.topology.queues[0].name
    'q'
    """
    return TraceLab(path, workload, queues, digest, at)


def recorded_lab(name: str = "slow-consumer") -> Lab:
    """Open a lab for a recorded workload: the engine's replay beside the real broker's reports.

    Parameters:
        name: The name of a recording, as for :func:`qflow.labs.recorded_picture`, which needs no widgets.

    Raises:
        LogError: If there is no such recording.

    >>> recorded_lab("ring").picture.frames.topology.queues[0].name
    'q'
    """
    return Lab(recorded_picture(name))
