"""Tidying an executed notebook, so that the same run always gives the same bytes.

A notebook as Jupyter leaves it holds things that differ from run to run and from machine to machine: model
ids, memory addresses, times, folders. Kept in a repository they would drown every true change.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from qflow.kit import checkout_root

# The same rules as in tests/nbval_sanitize.cfg, for the notebook tests; a test keeps the two equal.
REPLACEMENTS = (
    ("addresses", r"0x[0-9a-fA-F]{6,}", "0xADDR"),
    ("uuids", r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
    ("hex ids", r"\b[0-9a-f]{32}\b", "MODELID"),
    ("cell files", r"[^\s\"']*ipykernel_[0-9]+[/\\][0-9]+\.py", "CELL"),
)

_RULES = tuple((re.compile(pattern), new) for _, pattern, new in REPLACEMENTS)
_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# What a tool adds to a cell's metadata when it runs, saves or converts the cell.
_TOOL_METADATA = (
    "execution",
    "id",
    "lines_to_next_cell",
    "lines_to_end_of_cell_marker",
    "collapsed",
    "trusted",
)


def tidy(notebook: Any) -> Any:
    """Remove from a notebook whatever does not come from its source and the engine.

    Parameters
    ----------
    notebook
        A notebook of nbformat 4, as nbformat reads it; it is changed in place.

    Returns
    -------
    nbformat.NotebookNode
        The same notebook. Tidying it again changes nothing.
    """
    notebook.metadata.clear()
    notebook.metadata.update(_METADATA)
    count = 0
    for cell in notebook.cells:
        for key in _TOOL_METADATA:
            cell.metadata.pop(key, None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in map(_tidy_output, cell.outputs) if output is not None]
            if cell.execution_count is not None:
                count += 1
                _number(cell, count)
    return notebook


def tidy_text(text: str) -> str:
    """Replace what changes from run to run or from machine to machine in a piece of output.

    Parameters
    ----------
    text
        Text a cell printed or showed.

    Returns
    -------
    str
        The text with addresses, random ids and this machine's folders replaced.

    Examples
    --------
    >>> tidy_text("<Queue object at 0x7f21a4c0d5e0>")
    '<Queue object at 0xADDR>'
    """
    for folder, name in _folders():
        text = text.replace(folder, name)
    for pattern, new in _RULES:
        text = pattern.sub(new, text)
    return text


def _tidy_output(output: Any) -> Any:
    if output.output_type == "stream":
        output.text = tidy_text(output.text)
    elif output.output_type == "error":
        output.traceback = [tidy_text(line) for line in output.traceback]
        output.evalue = tidy_text(output.evalue)
    else:
        output.data.pop(_WIDGET_VIEW, None)
        output.metadata.pop(_WIDGET_VIEW, None)
        for kind, content in output.data.items():
            if kind.startswith("text/"):
                output.data[kind] = tidy_text(content)
        if not output.data:
            return None
    return output


def _number(cell: Any, count: int) -> None:
    cell.execution_count = count
    for output in cell.outputs:
        if output.output_type == "execute_result":
            output.execution_count = count


def _folders() -> Iterable[tuple[str, str]]:
    """List this machine's folders and the names they get, longest first so that inner folders win."""
    named = [(sys.prefix, "ENVIRONMENT"), (str(Path.home()), "~"), (tempfile.gettempdir(), "TEMP")]
    if (root := checkout_root()) is not None:
        named.append((str(root), "qflow-checkout"))
    # A very short folder ("/" as the home of a service user) would hit ordinary text.
    return sorted(((f + os.sep, n + "/") for f, n in named if len(f) > 3), key=lambda pair: -len(pair[0]))
