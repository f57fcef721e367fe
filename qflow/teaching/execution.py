"""Running a notebook with nothing of the author's own settings in it, and writing it the same way twice."""

from __future__ import annotations

import importlib
import os
import tempfile
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
            client.NotebookClient(
                notebook,
                timeout=CELL_TIMEOUT,
                kernel_name="python3",
                config=config,
                record_timing=False,
                coalesce_streams=True,
                resources={"metadata": {"path": str(folder)}},
            ).execute(env=_kernel_environment(ipython))
    except client.exceptions.CellExecutionError as failure:
        return f"{source}: a cell failed with {failure.ename}; nothing was written.\n{failure}"
    except client.exceptions.CellTimeoutError:
        return f"{source}: a cell ran longer than {CELL_TIMEOUT} seconds; nothing was written."
    return ""


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
