"""Running a notebook with nothing of the author's own settings in it, and writing it the same way twice."""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from qflow.kit import checkout_root
from qflow.teaching.tidy import tidy

CELL_TIMEOUT = 600
"""Seconds."""


def execute(notebook: Any, source: Path, folder: Path) -> str:
    """Run a notebook's cells, in place.

    Parameters
    ----------
    notebook
        A notebook of nbformat 4.
    source
        What it is built from, to be named if something goes wrong.
    folder
        Where it runs.

    Returns
    -------
    str
        What went wrong, or an empty string.
    """
    client = importlib.import_module("nbclient")
    config = importlib.import_module("traitlets.config").Config()
    # A kernel that talks in plain text says so on standard error, each time.
    config.KernelManager.transport_encryption = "auto"
    try:
        with tempfile.TemporaryDirectory() as ipython:
            running = client.NotebookClient(
                notebook,
                timeout=CELL_TIMEOUT,
                kernel_name="python3",
                config=config,
                record_timing=False,
                coalesce_streams=True,
                resources={"metadata": {"path": str(folder)}},
            )
            with _ctrl_c_of(running):
                # What cells print comes as their outputs; this would be the kernel's own talk about its end.
                running.execute(env=_kernel_environment(ipython), stderr=subprocess.DEVNULL)
    except client.exceptions.CellExecutionError as failure:
        return f"{source}: a cell failed with {failure.ename}; nothing was written.\n{failure}"
    except client.exceptions.CellTimeoutError:
        return f"{source}: a cell ran longer than {CELL_TIMEOUT} seconds; nothing was written."
    except client.exceptions.DeadKernelError:
        return f"{source}: its kernel died; nothing was written."
    return ""


@contextmanager
def _ctrl_c_of(running: Any) -> Iterator[None]:
    """Let Ctrl-C be Ctrl-C.

    nbclient hears it too: it stops the kernel, and then fails in one way or another for want of it.
    """
    try:
        yield
    except (Exception, asyncio.CancelledError):
        if not _is_stopped(running):
            raise
    if _is_stopped(running):
        # Tasks of its own that fail meanwhile would be told by asyncio.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        raise KeyboardInterrupt


def _is_stopped(running: Any) -> bool:
    return getattr(running, "_async_cleanup_kernel_future", None) is not None


def write(notebook: Any, target: Path) -> None:
    """Write a notebook, tidy, by way of a second file, so that an interruption leaves no half of one."""
    text = serialised(tidy(notebook))
    partial = target.with_name(f".{target.name}.partial")
    partial.write_text(text, encoding="utf-8", newline="\n")
    os.replace(partial, target)


def _kernel_environment(ipython: str) -> dict[str, str]:
    """Make the kernel's environment independent of the author's own settings."""
    environment = {**os.environ, "IPYTHONDIR": ipython, "PLOTLY_RENDERER": "plotly_mimetype"}
    # Building is nobody's progress.
    environment["QFLOW_PROGRESS"] = ""
    if (root := checkout_root()) is not None:
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    return environment


def serialised(notebook: Any) -> str:
    """Return a notebook's text, which ends in a line feed."""
    text: str = importlib.import_module("nbformat").writes(notebook, version=4)
    return text if text.endswith("\n") else f"{text}\n"
