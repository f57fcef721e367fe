"""``qflow notebooks``: building the chapters from their text sources, and checking that they still agree.

A chapter's source is a text file of cells (jupytext's percent format) in ``notebooks/sources``; the chapter
itself, with outputs, is what this module makes of it. Text is what people review and edit; the built file
is what learners open and what the notebook tests run again.
"""

from __future__ import annotations

import hashlib
import importlib
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qflow.kit import RefusalError, checkout_root
from qflow.teaching.execution import execute, serialised, write
from qflow.teaching.launch import require
from qflow.teaching.tidy import tidy

_TOOLS = {"jupytext": "jupytext", "nbformat": "nbformat", "nbclient": "nbclient", "ipykernel": "ipykernel"}


@dataclass(frozen=True)
class Chapter:
    """One chapter: its text source and the notebook built from it.

    Parameters
    ----------
    source
        The text file, ``sources/NN-name.py``.
    built
        The notebook, ``NN-name.ipynb``.
    """

    source: Path
    built: Path

    @property
    def name(self) -> str:
        """The chapter's name, such as ``01-thresholds``."""
        return self.source.stem


def build(names: Sequence[str] = (), *, folder: str | None = None) -> int:
    """Execute chapters' sources and write the notebooks with their outputs.

    The same source and engine always give the same bytes. A chapter that fails is not written.

    Parameters
    ----------
    names
        The chapters to build; none means all.
    folder
        The folder of chapters; None for the checkout's ``notebooks``.

    Returns
    -------
    int
        0 if all were built, 1 if a cell failed.

    Raises
    ------
    RefusalError
        If a tool is missing, or a chapter asked for does not exist.
    """
    require(_TOOLS, extra="test")
    failed = False
    for chapter in select(names, folder):
        problem = _build_one(chapter)
        failed = failed or bool(problem)
        print(problem or f"Built {chapter.built}.", file=sys.stderr if problem else sys.stdout, flush=True)
    return int(failed)


def check(names: Sequence[str] = (), *, folder: str | None = None) -> int:
    """Check that chapters are what their sources say, executed, and free of what a hand run leaves behind.

    Nothing is executed: whether the outputs are still true is for the notebook tests.

    Parameters
    ----------
    names
        The chapters to check; none means all, and then a notebook without a source counts as well.
    folder
        The folder of chapters; None for the checkout's ``notebooks``.

    Returns
    -------
    int
        0 if all agree, 1 if one does not.

    Raises
    ------
    RefusalError
        If a tool is missing, or a chapter asked for does not exist.
    """
    require(_TOOLS, extra="test")
    chapters = select(names, folder)
    problems = [problem for chapter in chapters if (problem := drift(chapter))]
    if not names:
        problems += _orphans(chapters)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{len(chapters)} built from their sources: {', '.join(chapter.name for chapter in chapters)}.")
    return int(bool(problems))


def select(names: Sequence[str] = (), folder: str | None = None) -> list[Chapter]:
    """Find the chapters that are meant.

    Parameters
    ----------
    names
        Chapter names, with or without folder and ending; none means all.
    folder
        The folder of chapters; None for the checkout's ``notebooks``.

    Returns
    -------
    list of Chapter
        In the order of their numbers.

    Raises
    ------
    RefusalError
        If there is no source at all, or none of a name asked for.
    """
    notebooks = _folder(folder)
    sources = sorted((notebooks / "sources").glob("[0-9][0-9]-*.py"))
    if not sources:
        raise RefusalError(
            f"There is no chapter source (a file such as 01-thresholds.py) in {notebooks / 'sources'}."
        )
    chapters = {path.stem: Chapter(path, notebooks / f"{path.stem}.ipynb") for path in sources}
    wanted = {Path(name).stem for name in names} or set(chapters)
    if unknown := sorted(wanted - set(chapters)):
        raise RefusalError(f"There is no chapter {unknown[0]!r}; there are: {', '.join(chapters)}.")
    return [chapter for name, chapter in chapters.items() if name in wanted]


def read_source(chapter: Chapter) -> Any:
    """Turn a chapter's source into a notebook without outputs, with cell ids that stay.

    Parameters
    ----------
    chapter
        The chapter to read.

    Returns
    -------
    nbformat.NotebookNode
        The notebook, tidy. A cell's id is the ``id`` its source gives it, or else comes from its content, so
        that inserting a cell leaves all others alone.

    Raises
    ------
    RefusalError
        If two cells of the source are given the same id, or an id is malformed.
    """
    notebook = importlib.import_module("jupytext").read(chapter.source, fmt="py:percent")
    seen: Counter[str] = Counter()
    taken: set[str] = set()
    for cell in notebook.cells:
        given = cell.metadata.get("id")
        content = f"{cell.cell_type}\n{cell.source}"
        seen[content] += 1
        cell.id = given or hashlib.sha256(f"{content}\n{seen[content]}".encode()).hexdigest()[:12]
        if cell.id in taken or not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell.id):
            why = "is used twice" if cell.id in taken else "may hold at most 64 letters, digits, - and _"
            raise RefusalError(f"{chapter.source}: the cell id {cell.id!r} {why}.")
        taken.add(cell.id)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return tidy(notebook)


def drift(chapter: Chapter) -> str:
    """Say how a built chapter differs from its source.

    Parameters
    ----------
    chapter
        The chapter to compare.

    Returns
    -------
    str
        One sentence with its cure, or an empty string if the two agree.
    """
    cure = f"build it again with: qflow notebooks build {chapter.name}"
    if not chapter.built.exists():
        return f"{chapter.built} is missing; {cure}"
    text = chapter.built.read_text(encoding="utf-8")
    try:
        built = importlib.import_module("nbformat").reads(text, as_version=4)
    except Exception as problem:
        return f"{chapter.built} cannot be read as a notebook ({problem}); {cure}"
    if where := first_difference(read_source(chapter), built):
        return f"{chapter.built} is not what its source says: {where}; {cure}"
    if any(cell.cell_type == "code" and cell.source and not cell.execution_count for cell in built.cells):
        return f"{chapter.built} holds cells that were never run; {cure}"
    if serialised(tidy(built)) != text:
        return f"{chapter.built} holds what a run by hand leaves behind (ids, times, widget state); {cure}"
    return ""


def _build_one(chapter: Chapter) -> str:
    """Build a chapter; return what went wrong, or an empty string."""
    notebook = read_source(chapter)
    if problem := execute(notebook, chapter.source, chapter.built.parent):
        return problem
    write(notebook, chapter.built)
    return ""


def first_difference(source: Any, built: Any) -> str:
    """Say where a built notebook differs from its source, or return an empty string."""
    for number, (ours, theirs) in enumerate(zip(source.cells, built.cells, strict=False), start=1):
        for part in ("cell_type", "source", "id", "metadata"):
            if ours.get(part) != theirs.get(part):
                return f"cell {number} differs in its {part.replace('cell_', '')}"
    if len(source.cells) != len(built.cells):
        return f"it has {len(built.cells)} cells, the source has {len(source.cells)}"
    return ""


def _orphans(chapters: Sequence[Chapter]) -> Iterator[str]:
    known = {chapter.built for chapter in chapters}
    for path in sorted(chapters[0].built.parent.glob("*.ipynb")):
        if path not in known:
            source = path.parent / "sources" / f"{path.stem}.py"
            yield f"{path} has no source {source}; write one, or delete the notebook."


def _folder(folder: str | None) -> Path:
    if folder is not None:
        return Path(folder).resolve()
    root = checkout_root()
    if root is None:
        raise RefusalError(
            "Chapters are built in a checkout of qflow; name its notebooks folder with --dir FOLDER."
        )
    return root / "notebooks"
