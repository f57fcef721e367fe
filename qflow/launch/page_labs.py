"""Page labs: the code of a chapter that a page of the book contains, so that its labs can be operated.

The labs of a page first replay the run that the notebook stored. When the reader touches one, the page's
Python (:mod:`qflow.launch.page_kernel`) creates the same lab again: it runs the lab's cell, after those of
the earlier cells that define a name it uses, directly or indirectly. It runs no others, as a chapter's
simulations would take minutes in a browser. Sentences whose numbers can be dragged become active together
with the lab that they belong to. A page contains the source of each of these cells once.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from qflow.kit import kit_path

if TYPE_CHECKING:
    from pathlib import Path

    from nbformat import NotebookNode

RECORDINGS = "recordings"
"""The folder of the book with the recordings that cells read."""

_LAB = re.compile(r"qflow-stored|\.(?:\w+_lab|map|challenge)\(")
_PROSE = ".prose("
_GRAPHS = "state_space_lab("
"""The call that needs a graph library, networkx."""

_OPENS = re.compile(r"recorded_lab|trace_lab")
_KERNELS_DATA = "qflow/_kit/data/recordings/workloads"
"""The folder in which the page's Python looks for the kit's recordings of workloads."""

_RUN_ALL = re.compile(r"\s*Run\s+the\s+cells\s+from\s+top\s+to\s+bottom\s+with\s+Shift\+Enter\.")
_PRESS = re.compile(r"Run\s+the\s+cell\s+below\s+with\s+Shift\+Enter[^:]*:\s*(\w)")


def recorded_folder() -> Path:
    """Return the kit's folder of recorded workloads."""
    # Not a constant, as this module must be importable where the kit has no data: from a zip on a cluster.
    return kit_path("data") / "recordings" / "workloads"


def without_keys(text: str) -> str:
    """Return a notebook's text without the advice to press Shift+Enter, which does nothing in a page.

    >>> without_keys("*20 minutes. Run the cells from top to bottom with Shift+Enter.*")
    '*20 minutes.*'
    >>> without_keys("Run the cell below with Shift+Enter: in a minute you know.")
    'In a minute you know.'
    """
    return _PRESS.sub(lambda found: found[1].upper(), _RUN_ALL.sub("", text))


def live_cells(book: NotebookNode) -> dict[str, Any]:
    """Return the cells that a page has to run for its labs, keyed by id, or an empty dict without labs."""
    # Each cell is a dict: ``source``; ``kind``, which is "lab", "prose" (text with numbers to drag) or ""
    # (code that others need); ``needs``, the ids of the cells to run before it; ``files``, the recordings
    # that it reads, by their path in the page's Python; and ``libraries`` that it imports besides those of
    # every lab.
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    names = [_names(cell.source) for cell in code]
    kinds = [_kind(cell) for cell in code]
    cells: dict[str, Any] = {}
    for place, kind in enumerate(kinds):
        if not kind:
            continue
        needs = _needs(place, names)
        for at in (*needs, place):
            # The import is added here, as the cell that imports the kit may also read files, which the page
            # would have to fetch.
            kit = "import qflow as qf\n" if "qf" in names[at][1] else ""
            source = kit + code[at].source
            cell = {"source": source, "kind": kinds[at], "needs": [], "files": {}, "libraries": []}
            cells.setdefault(code[at].id, cell)
        cells[code[place].id]["needs"] = [code[at].id for at in needs]
        source = code[place].source
        libraries = ["networkx"] if _GRAPHS in source else []
        cells[code[place].id] |= {"files": _files(source), "libraries": libraries}
    return cells


def _kind(cell: Mapping[str, Any]) -> str:
    if _PROSE in cell["source"]:
        return "prose"
    stored = "".join(str(output.get("data", {}).get("text/html", "")) for output in cell["outputs"])
    return "lab" if cell["outputs"] and _LAB.search(cell["source"] + stored) else ""


def _names(source: str) -> tuple[set[str], set[str]]:
    """Return the names that a cell's code defines, and the other names that it uses."""
    defined: set[str] = set()
    used: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            (used if isinstance(node.ctx, ast.Load) else defined).add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.alias):
            defined.add((node.asname or node.name).partition(".")[0])
    return defined, used - defined


def _needs(place: int, names: list[tuple[set[str], set[str]]]) -> list[int]:
    """Return the indices of the earlier cells that a cell needs for its names, directly or indirectly."""
    found: set[int] = set()
    for name in names[place][1] - {"qf"}:
        maker = next((at for at in range(place - 1, -1, -1) if name in names[at][0]), None)
        if maker is not None:
            found |= {maker, *_needs(maker, names)}
    return sorted(found)


def _files(source: str) -> dict[str, str]:
    """Return the recordings that a cell opens: paths in the book, keyed by paths in the page's Python."""
    if not _OPENS.search(source):
        return {}
    named = {name.partition(".")[0] for name in re.findall(r'"([\w.-]+)"', source)} or {"slow-consumer"}
    found = sorted(path.name for path in recorded_folder().iterdir() if path.name.partition(".")[0] in named)
    return {f"{_KERNELS_DATA}/{name}": f"{RECORDINGS}/{name}" for name in found}
