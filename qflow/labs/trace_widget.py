"""trace_lab: any trace or client log from a file."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import file_digest
from pathlib import Path
from typing import Any

from qflow.labs.lab import Lab
from qflow.labs.opened import trace_picture
from qflow.labs.share import Token


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
        super().__init__(trace_picture(path, workload=workload, queues=queues))

    @property
    def settings(self) -> dict[str, Any]:
        """Which file, and what its bytes are."""
        path, workload, queues = self._opened
        told = {"path": str(path), "queues": list(queues), "digest": _digest(path)}
        return told if workload is None else {**told, "workload": str(workload)}

    def opened(self, token: Token) -> None:
        """Go to a token's instant; say so if the file, or the engine, is another."""
        super().opened(token)
        if self._expected not in ("", _digest(self._opened[0])):
            text = (
                f"{Path(self._opened[0]).name} is not the file that this token was made of: its bytes differ."
            )
            self.scene.refusal = "\n".join(filter(None, (text, self.scene.refusal)))


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
        If the file is neither, or a queue is not in it; one sentence says why.
    OSError
        If a file cannot be opened.
    """
    return TraceLab(path, workload, queues, digest)
