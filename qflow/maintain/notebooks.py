"""Tidying an executed notebook, so that the same run always gives the same bytes.

A notebook as Jupyter leaves it holds things that differ from run to run and from machine to machine: model
ids, memory addresses, times, folders. Kept in a repository they would drown every true change.

Running a notebook with nothing of the author's own settings in it, and writing it the same way twice.

``qflow notebooks``: building the chapters from their text sources, and checking that they still agree.

A chapter's source is a text file of cells (jupytext's percent format) in ``notebooks/sources``; the chapter
itself, with outputs, is what this module makes of it. Text is what people review and edit; the built file
is what learners open and what the notebook tests run again.

Building exercises: one text source, two notebooks, so that task and solution cannot drift apart.

The source is the solution. In it, the lines that a learner has to find stand between two markers::

    def on_and_off(limit, stop, resume):
        # BEGIN SOLUTION
        return stop + 1, resume - 1
        # END SOLUTION

From it come the solution, which is executed, and the task, in which these lines are replaced and cells tagged
``solution`` are missing. Cells tagged ``task`` are missing from the solution.
"""

from __future__ import annotations

import asyncio
import copy
import hashlib
import importlib
import logging
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qflow.kit import RefusalError, checkout_root
from qflow.launch.chapters import require

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


def select_exercises(names: Sequence[str] = (), folder: str | None = None) -> list[ExerciseFile]:
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


def build_exercises(names: Sequence[str] = (), *, folder: str | None = None) -> int:
    """Write task and solution of every source; return 1 if a solution's cell failed."""
    require(TOOLS, extra="test")
    failed = False
    for file in select_exercises(names, folder):
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


def check_exercises(names: Sequence[str] = (), *, folder: str | None = None) -> int:
    """Check that tasks and solutions are what their source says; return 1 if one is not."""
    require(TOOLS, extra="test")
    files = select_exercises(names, folder)
    problems = [problem for file in files for problem in exercise_drift(file)]
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


def exercise_drift(file: ExerciseFile) -> list[str]:
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
