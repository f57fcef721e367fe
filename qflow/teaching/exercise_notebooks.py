"""Building exercises: one text source, two notebooks, so that task and solution cannot drift apart.

The source is the solution. In it, the lines that a learner has to find stand between two markers::

    def on_and_off(limit, stop, resume):
        # BEGIN SOLUTION
        return stop + 1, resume - 1
        # END SOLUTION

From it come the solution, which is executed, and the task, in which these lines are replaced and cells tagged
``solution`` are missing. Cells tagged ``task`` are missing from the solution.
"""

from __future__ import annotations

import copy
import importlib
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qflow.kit import RefusalError, checkout_root
from qflow.teaching.execution import execute, serialised, write
from qflow.teaching.launch import require
from qflow.teaching.notebooks import Chapter, first_difference, read_source
from qflow.teaching.tidy import tidy

TOOLS = {"jupytext": "jupytext", "nbformat": "nbformat", "nbclient": "nbclient", "ipykernel": "ipykernel"}
PLACEHOLDER = "# Write your code here"

_SOLUTION = re.compile(r"^(?P<indent> *)# BEGIN SOLUTION\n.*?^ *# END SOLUTION$", re.MULTILINE | re.DOTALL)
_MARKERS = re.compile(r"^ *# (?:BEGIN|END) SOLUTION\n?", re.MULTILINE)


@dataclass(frozen=True)
class ExerciseFile:
    """One source of exercises and the two notebooks made from it.

    Parameters
    ----------
    source
        The text file, ``sources/NN-name.py``.
    """

    source: Path

    @property
    def name(self) -> str:
        """The name, such as ``01-thresholds``."""
        return self.source.stem

    @property
    def task(self) -> Path:
        """The notebook a learner opens."""
        return self.source.parent.parent / f"{self.name}.ipynb"

    @property
    def solution(self) -> Path:
        """The notebook with the answers, executed."""
        return self.source.parent.parent / "solutions" / f"{self.name}.ipynb"


def select(names: Sequence[str] = (), folder: str | None = None) -> list[ExerciseFile]:
    """Find the sources that are meant; no names mean all.

    Raises
    ------
    RefusalError
        If there is no source at all, or none of a name asked for.
    """
    root = checkout_root()
    if folder is None and root is None:
        raise RefusalError("Exercises are built in a checkout of qflow; name its folder with --dir FOLDER.")
    top = Path(folder).resolve() if folder is not None else Path(str(root)) / "exercises"
    found = {path.stem: ExerciseFile(path) for path in sorted((top / "sources").glob("[0-9][0-9]-*.py"))}
    if not found:
        raise RefusalError(f"There is no source of exercises in {top / 'sources'}.")
    wanted = {Path(name).stem for name in names} or set(found)
    if unknown := sorted(wanted - set(found)):
        raise RefusalError(f"There are no exercises {unknown[0]!r}; there are: {', '.join(found)}.")
    return [file for name, file in found.items() if name in wanted]


def build(names: Sequence[str] = (), *, folder: str | None = None) -> int:
    """Write task and solution of every source; return 1 if a solution's cell failed."""
    require(TOOLS, extra="test")
    failed = False
    for file in select(names, folder):
        solution = solution_of(file)
        file.solution.parent.mkdir(exist_ok=True)
        problem = execute(solution, file.source, file.solution.parent)
        failed = failed or bool(problem)
        if problem:
            print(problem, file=sys.stderr, flush=True)
            continue
        write(solution, file.solution)
        write(task_of(file), file.task)
        print(f"Built {file.task} and its solution.", flush=True)
    return int(failed)


def check(names: Sequence[str] = (), *, folder: str | None = None) -> int:
    """Check that tasks and solutions are what their source says; return 1 if one is not."""
    require(TOOLS, extra="test")
    files = select(names, folder)
    problems = [problem for file in files for problem in drift(file)]
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{len(files)} built from their sources: {', '.join(file.name for file in files)}.")
    return int(bool(problems))


def solution_of(file: ExerciseFile) -> Any:
    """Make the solution from a source: without outputs, markers and cells meant for the task."""
    notebook = _without(_read(file), "task")
    for cell in notebook.cells:
        cell.source = _MARKERS.sub("", cell.source)
    return tidy(notebook)


def task_of(file: ExerciseFile) -> Any:
    """Make the task from a source: the learner's part is replaced, cells of the solution are missing."""
    notebook = _without(_read(file), "solution")
    for cell in notebook.cells:
        cell.source = task_text(cell.source)
    return tidy(notebook)


def task_text(source: str) -> str:
    r"""Replace what the learner has to find.

    Examples
    --------
    >>> print(task_text("def f(a):\n    # BEGIN SOLUTION\n    return a\n    # END SOLUTION"))
    def f(a):
        # Write your code here
        raise NotImplementedError
    """
    return _SOLUTION.sub(rf"\g<indent>{PLACEHOLDER}\n\g<indent>raise NotImplementedError", source)


def drift(file: ExerciseFile) -> list[str]:
    """Say how the notebooks differ from their source: one sentence each with its cure, or nothing."""
    cure = f"build it again with: qflow exercises build {file.name}"
    said = []
    for path, wanted in ((file.task, task_of(file)), (file.solution, solution_of(file))):
        if not path.exists():
            said.append(f"{path} is missing; {cure}")
            continue
        text = path.read_text(encoding="utf-8")
        try:
            built = importlib.import_module("nbformat").reads(text, as_version=4)
        except Exception as problem:
            said.append(f"{path} cannot be read as a notebook ({problem}); {cure}")
            continue
        if where := first_difference(wanted, built):
            said.append(f"{path} is not what its source says: {where}; {cure}")
        elif path == file.task and serialised(wanted) != text:
            said.append(f"{path} holds outputs or what a tool left behind; {cure}")
        elif serialised(tidy(built)) != text:
            said.append(f"{path} holds what a run by hand leaves behind; {cure}")
    return said


def _read(file: ExerciseFile) -> Any:
    return read_source(Chapter(file.source, file.task))


def _without(notebook: Any, tag: str) -> Any:
    kept = copy.deepcopy(notebook)
    kept.cells = [cell for cell in kept.cells if tag not in cell.metadata.get("tags", [])]
    for cell in kept.cells:
        cell.metadata.pop("tags", None)
    return kept
