"""trace_lab: any trace or client log from a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from qflow.labs.lab import Lab
from qflow.labs.opened import trace_picture


def trace_lab(path: str | Path, *, workload: str | Path | None = None, queues: Sequence[str] = ()) -> Lab:
    """Open a trace, or what clients recorded, in the picture that all labs share.

    Parameters
    ----------
    path
        A trace (``.parquet``, ``.jsonl``, ``.jsonl.gz``) or a client log (``.csv.gz`` and others).
    workload
        For a client log, the workload file it was recorded with; None for the ``.json`` beside it.
    queues
        Which queues to show; () for all, or, of more than six, those around the first.

    Returns
    -------
    Lab
        A widget; without widgets, use :func:`qflow.labs.trace_picture`.

    Raises
    ------
    TraceError, LogError
        If the file is neither, or a queue is not in it; one sentence says why.
    OSError
        If a file cannot be opened.
    """
    return Lab(trace_picture(path, workload=workload, queues=queues))
