"""trace_lab: any trace or client log from a file."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from hashlib import file_digest
from pathlib import Path
from typing import Any

from qflow.labs.lab import Lab
from qflow.labs.opened import Background, trace_picture
from qflow.labs.picture import Comparison, Picture
from qflow.labs.share import Token

LARGE = 300_000
"""Bytes of a packed file from which on its lab opens empty, with progress and a way not to wait for it.

Its size decides and not the time it takes, so that a notebook shows the same on any machine."""

PACKED = (".gz", ".parquet")
_PACKING = 10
_BREATH = 0.1


class TraceLab(Lab):
    """The picture of a file.

    Parameters
    ----------
    path, workload, queues, digest
        As in :func:`trace_lab`.
    """

    name = "trace"

    def __init__(
        self, path: str | Path, workload: str | Path | None, queues: Sequence[str], digest: str
    ) -> None:
        self._opened = (path, workload, queues)
        self._expected = digest
        self._task: asyncio.Task[None] | None = None
        read = partial(trace_picture, path, workload=workload, queues=queues)
        loop = _running_loop() if _is_large(Path(path)) else None
        if loop is None:
            # Told nobody: whether a line of progress appears would hang on the machine's speed.
            super().__init__(read(tell=lambda part: None))
            return
        super().__init__(Comparison({}, (f"{Path(path).name} is being read.",)))
        self._task = loop.create_task(self._follow(Background(lambda tell: read(tell=tell))))

    async def _follow(self, work: Background[Picture]) -> None:
        """Tell how far the reading is, and show what comes of it, unless nobody wants to wait."""
        name = Path(self._opened[0]).name
        while not work.wait(0):
            await asyncio.sleep(_BREATH)
            if self.scene.cancelled:
                work.cancel()
                self.scene.progress = 0.0
                self.scene.refusal = f"Cancelled: {name} is not read. Run the cell again to read it."
                self.tell((f"{name} is not read.",))
                return
            self.scene.running, self.scene.progress = 1, max(0.01, work.part)
        self.scene.progress = 0.0
        try:
            self.show(work.result(), 1)
        except Exception as error:  # nobody is left to catch it: it is told in the lab
            self.scene.refusal = str(error)
            self.tell((f"{name} is not read.",))

    @property
    def settings(self) -> dict[str, Any]:
        """Which file, and what its bytes are."""
        path, workload, queues = self._opened
        told = {"path": str(path), "queues": list(queues), "digest": _digest(path)}
        return told if workload is None else {**told, "workload": str(workload)}

    def close(self) -> None:
        """Free everything the lab used, and wait for its file no more."""
        if self._task is not None:
            self._task.cancel()
        super().close()

    def opened(self, token: Token) -> None:
        """Go to a token's instant; say so if the file, or the engine, is another."""
        super().opened(token)
        if self._expected not in ("", _digest(self._opened[0])):
            text = (
                f"{Path(self._opened[0]).name} is not the file that this token was made of: its bytes differ."
            )
            self.scene.refusal = "\n".join(filter(None, (text, self.scene.refusal)))


def _is_large(path: Path) -> bool:
    try:
        size = path.stat().st_size
    except OSError:  # whoever opens it says what is the matter
        return False
    return size >= (LARGE if path.suffix in PACKED else LARGE * _PACKING)


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _digest(path: str | Path) -> str:
    """Return twelve digits that change whenever a file's bytes do."""
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()[:12]


def trace_lab(
    path: str | Path,
    *,
    workload: str | Path | None = None,
    queues: Sequence[str] = (),
    digest: str = "",
) -> TraceLab:
    """Open a trace, or what clients recorded, in the picture that all labs share.

    Parameters
    ----------
    path
        A trace (``.parquet``, ``.jsonl``, ``.jsonl.gz``) or a client log (``.csv.gz`` and others).
    workload
        For a client log, the workload file it was recorded with; None for the ``.json`` beside it.
    queues
        Which queues to show; () for all, or, of more than six, those around the first.
    digest
        What a token says of the file's bytes: the lab tells if they are others here.

    Returns
    -------
    TraceLab
        A widget; without widgets, use :func:`qflow.labs.trace_picture`.

    Raises
    ------
    TraceError, LogError
        If the file is neither, or a queue is not in it; one sentence says why. A large file (300 kB packed,
        3 MB of text) is opened while the lab is there already, with its progress; then the lab says so.
    OSError
        If a file cannot be opened.

    Examples
    --------
    >>> from qflow.kit import kit_path
    >>> lab = trace_lab(kit_path("data") / "recordings" / "workloads" / "ring.csv.gz")
    >>> lab.picture.frames.topology.queues[0].name
    'q'
    """
    return TraceLab(path, workload, queues, digest)
