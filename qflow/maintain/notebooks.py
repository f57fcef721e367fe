"""Building chapters and exercises from their text sources, and checking that both still agree.

A source is a text file of cells (jupytext's percent format) in ``notebooks/sources`` or
``exercises/sources``. People review and edit the text. The notebook is built from it and executed; learners
open it, and the notebook tests run it again. It is executed without the author's own settings, and tidied: a
notebook as Jupyter saves it contains model ids, memory addresses, times and folders, which differ from run to
run and would hide the real changes in a diff. So the same source and engine always give the same bytes.

A source of exercises gives two notebooks, the task and the solution, so that these cannot drift apart. The
source is the solution. In it, the lines that a learner has to write are between two markers::

    def on_and_off(limit, stop, resume):
        # BEGIN SOLUTION
        return stop + 1, resume - 1
        # END SOLUTION

The solution is executed, and lacks the markers and the cells tagged ``task``. In the task, which is not
executed, a placeholder replaces these lines, and the cells tagged ``solution`` are missing.
"""

from __future__ import annotations

import asyncio
import configparser
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
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from qflow.kit import RefusalError
from qflow.launch.chapters import require
from qflow.launch.pytest_notebooks import SANITIZING
from qflow.maintain import checkout
from qflow.writing import write_file

_PROGRESS = re.compile(r"(\r?\d+ s(, \d+ of \d+ tasks of Spark)? *)*\n?")
_WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
# Keys that tools add to a cell's metadata when they run, save or convert it.
_TOOL_METADATA = (
    "execution",
    "id",
    "lines_to_next_cell",
    "lines_to_end_of_cell_marker",
    "collapsed",
    "trusted",
)


def _tidy(notebook: Any) -> Any:
    """Remove from a notebook, in place, all that differs from run to run or stems from tools; return it."""
    notebook.metadata.clear()
    notebook.metadata.update(_METADATA)
    for cell in notebook.cells:
        for key in _TOOL_METADATA:
            cell.metadata.pop(key, None)
        if cell.cell_type == "code":
            cell.outputs = [output for output in map(_tidy_output, cell.outputs) if output is not None]
    executed = [cell for cell in notebook.cells if cell.get("execution_count") is not None]
    for count, cell in enumerate(executed, start=1):
        cell.execution_count = count
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = count
    _keep_scripts_once(notebook)
    return notebook


@cache
def _sanitizing(are_stored: bool) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return the patterns and replacements in nbval's file, for stored runs or for all other outputs."""
    # Those for stored runs serve comparisons only: a page is drawn from a stored run.
    rules = configparser.RawConfigParser()
    rules.read(SANITIZING, encoding="utf-8")
    return tuple(
        (re.compile(rules[name]["regex"]), rules[name]["replace"])
        for name in rules.sections()
        if name.startswith("stored") == are_stored
    )


def _tidy_text(text: str) -> str:
    """Return the text of an output with memory addresses, random ids and this machine's folders replaced."""
    for folder, name in _folders():
        text = text.replace(folder, name)
    for pattern, new in _sanitizing(are_stored=False):
        text = pattern.sub(new, text)
    return text


def _tidy_output(output: Any) -> Any:
    if output.output_type == "stream":
        # The progress line of a slow cell is of no use to readers.
        if output.name == "stderr" and _PROGRESS.fullmatch(output.text):
            return None
        output.text = _tidy_text(output.text)
    elif output.output_type == "error":
        output.traceback = [_tidy_text(line) for line in output.traceback]
        output.evalue = _tidy_text(output.evalue)
    else:
        output.data.pop(_WIDGET_VIEW, None)
        output.metadata.pop(_WIDGET_VIEW, None)
        for kind, content in output.data.items():
            if kind.startswith("text/"):
                output.data[kind] = _tidy_text(content)
        if not output.data:
            return None
    return output


def _keep_scripts_once(notebook: Any) -> None:
    """Keep only the first copy of the scripts that draw stored runs; it draws all runs of a notebook."""
    pattern, none = _sanitizing(are_stored=True)[-1]
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    kept = [output.data for output in outputs if pattern.search(output.get("data", {}).get("text/html", ""))]
    for data in kept[1:]:
        data["text/html"] = pattern.sub(none, data["text/html"])


def _folders() -> Iterable[tuple[str, str]]:
    """Return this machine's folders with the names that replace them, longest first, so inner ones win."""
    named = [(sys.prefix, "ENVIRONMENT"), (str(Path.home()), "~"), (tempfile.gettempdir(), "TEMP")]
    named.append((str(checkout()), "qflow-checkout"))
    # The path of a very short folder ("/" as the home of a service user) would occur in ordinary text.
    return sorted(((f + os.sep, n + "/") for f, n in named if len(f) > 3), key=lambda pair: -len(pair[0]))


_CELL_TIMEOUT = 600
"""The most seconds that a cell may run."""


def _execute(notebook: Any, source: Path, folder: Path) -> str:
    """Run a notebook's cells in a folder and store their outputs in it; return an error message, or ""."""
    client = importlib.import_module("nbclient")
    config = importlib.import_module("traitlets.config").Config()
    # Otherwise a kernel warns on standard error, at each start, that its connection is not encrypted.
    config.KernelManager.transport_encryption = "auto"
    try:
        with tempfile.TemporaryDirectory() as ipython:
            running = client.NotebookClient(
                notebook,
                timeout=_CELL_TIMEOUT,
                kernel_name="python3",
                config=config,
                record_timing=False,
                coalesce_streams=True,
                resources={"metadata": {"path": str(folder)}},
            )
            with _ctrl_c_of(running):
                # Cells' standard error is among their outputs; the kernel's own would be noise at its end.
                running.execute(env=_kernel_environment(ipython), stderr=subprocess.DEVNULL)
    except client.exceptions.CellExecutionError as failure:
        return f"{source}: a cell failed with {failure.ename}; nothing was written.\n{failure}"
    except client.exceptions.CellTimeoutError:
        return f"{source}: a cell ran longer than {_CELL_TIMEOUT} seconds; nothing was written."
    except client.exceptions.DeadKernelError:
        return f"{source}: its kernel died; nothing was written."
    return ""


@contextmanager
def _ctrl_c_of(running: Any) -> Iterator[None]:
    """Raise KeyboardInterrupt if Ctrl-C is pressed; nbclient stops the kernel and raises other errors."""
    try:
        yield
    except (Exception, asyncio.CancelledError):
        if not _is_stopped(running):
            raise
    if _is_stopped(running):
        # Otherwise asyncio would report the tasks of nbclient that fail meanwhile.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        raise KeyboardInterrupt


def _is_stopped(running: Any) -> bool:
    return getattr(running, "_async_cleanup_kernel_future", None) is not None


def write(notebook: Any, target: Path) -> None:
    """Tidy a notebook and write it, in such a way that an interruption leaves no partial file."""
    write_file(target, _serialise(_tidy(notebook)))


def _kernel_environment(ipython: str) -> dict[str, str]:
    """Return the kernel's environment variables, without the author's settings of IPython and qflow."""
    return {
        **os.environ,
        "IPYTHONDIR": ipython,
        "PLOTLY_RENDERER": "plotly_mimetype",
        # Building a chapter is not recorded as a learner's progress.
        "QFLOW_PROGRESS": "",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(checkout()), os.environ.get("PYTHONPATH")])),
    }


def _serialise(notebook: Any) -> str:
    """Return the JSON text of a notebook, which ends in a line feed."""
    text: str = importlib.import_module("nbformat").writes(notebook, version=4)
    return text if text.endswith("\n") else f"{text}\n"


_TOOLS = {"jupytext": "jupytext", "nbformat": "nbformat", "nbclient": "nbclient", "ipykernel": "ipykernel"}
_PLACEHOLDER = "# Write your code here"

_SOLUTION = re.compile(r"^(?P<indent> *)# BEGIN SOLUTION\n.*?^ *# END SOLUTION$", re.MULTILINE | re.DOTALL)
_MARKERS = re.compile(r"^ *# (?:BEGIN|END) SOLUTION\n?", re.MULTILINE)


@dataclass(frozen=True)
class Chapter:
    """One chapter: its text source and the notebooks built from it."""

    source: Path
    kind: ClassVar[str] = "notebooks"
    word: ClassVar[str] = "chapter"

    @property
    def name(self) -> str:
        """The chapter's name, such as ``01-thresholds``."""
        return self.source.stem

    @property
    def built(self) -> Path:
        """The notebook that a learner opens, ``NN-name.ipynb``."""
        return self.source.parent.parent / f"{self.name}.ipynb"

    def notebooks(self) -> list[tuple[Path, Any, bool]]:
        """Return the path and the content of each notebook to build, and whether to execute it."""
        return [(self.built, read_source(self.source), True)]

    def build(self) -> str:
        """Execute the source and write its notebooks; return an error message, or ""."""
        made = self.notebooks()
        for path, notebook, is_run in made:
            path.parent.mkdir(exist_ok=True)
            if is_run and (problem := _execute(notebook, self.source, path.parent)):
                return problem
        for path, notebook, _ in made:
            write(notebook, path)
        return ""

    def drift(self) -> list[str]:
        """Return a sentence for each notebook that differs from the source: the difference and its cure."""
        action = f"{self.kind} build {self.name}"
        return [problem for made in self.notebooks() for problem in _drift(action, *made)]


class _ExerciseBook(Chapter):
    """A source of exercises, from which two notebooks are built: the task and the executed solution."""

    kind = "exercises"
    word = "exercise"

    def notebooks(self) -> list[tuple[Path, Any, bool]]:
        """Return the task, which is not executed, and the solution, which is."""
        solution = self.built.parent / "solutions" / self.built.name
        return [(self.built, _task_of(self), False), (solution, _solution_of(self), True)]


_KINDS = {kind.kind: kind for kind in (Chapter, _ExerciseBook)}


def build(names: Sequence[str] = (), *, folder: str | None = None, kind: str = "notebooks") -> int:
    """Execute sources and write the notebooks with outputs; return the exit status, 1 for a failed cell."""
    require(_TOOLS, extra="test")
    status = 0
    for book in select(names, folder, kind):
        problem = book.build()
        status |= bool(problem)
        print(problem or f"Built {book.built}.", file=sys.stderr if problem else sys.stdout, flush=True)
    return status


def check(names: Sequence[str] = (), *, folder: str | None = None, kind: str = "notebooks") -> int:
    """Check that notebooks match their sources, were executed, and are tidy; nbval checks their outputs.

    The parameters are those of :func:`build`. If no names are given, a notebook without a source is reported,
    too.

    Returns:
        The exit status: 1 if there is a problem, else 0.
    """
    require(_TOOLS, extra="test")
    books = select(names, folder, kind)
    problems = [problem for book in books for problem in book.drift()]
    if not names:
        problems += _orphans(books)
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"{len(books)} built from their sources: {', '.join(book.name for book in books)}.")
    return int(bool(problems))


def select(names: Sequence[str] = (), folder: str | None = None, kind: str = "notebooks") -> list[Chapter]:
    """Return the chapters or exercises with the given names, in their order; all if no names are given."""
    # A name may have a folder and a suffix, so that the path of a notebook or source works as well.
    make = _KINDS[kind]
    top = Path(folder).resolve() if folder is not None else checkout() / kind
    books = {path.stem: make(path) for path in sorted((top / "sources").glob("[0-9][0-9]-*.py"))}
    if not books:
        raise RefusalError(
            f"There is no {make.word} source (a file such as 01-thresholds.py) in {top / 'sources'}."
        )
    wanted = {Path(name).stem for name in names} or set(books)
    if unknown := sorted(wanted - set(books)):
        raise RefusalError(f"There is no {make.word} {unknown[0]!r}; there are: {', '.join(books)}.")
    return [book for name, book in books.items() if name in wanted]


def read_source(source: Path) -> Any:
    """Return a text source as a tidied notebook; refuse cell ids that are invalid or used twice."""
    # The id of a cell is the one in its metadata, or else derived from its content.
    notebook = importlib.import_module("jupytext").read(source, fmt="py:percent")
    seen: Counter[str] = Counter()
    taken: set[str] = set()
    for cell in notebook.cells:
        given = cell.metadata.get("id")
        content = f"{cell.cell_type}\n{cell.source}"
        seen[content] += 1
        cell.id = given or hashlib.sha256(f"{content}\n{seen[content]}".encode()).hexdigest()[:12]
        if cell.id in taken or not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", cell.id):
            why = "is used twice" if cell.id in taken else "may hold at most 64 letters, digits, - and _"
            raise RefusalError(f"{source}: the cell id {cell.id!r} {why}.")
        taken.add(cell.id)
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return _tidy(notebook)


def _solution_of(book: Chapter) -> Any:
    """Return the solution in a source of exercises, not executed: without markers and the task's cells."""
    return _rewrite(book, "task", _MARKERS, "")


def _task_of(book: Chapter) -> Any:
    """Return the task in a source of exercises: with placeholders, and without the solution's cells."""
    placeholder = rf"\g<indent>{_PLACEHOLDER}\n\g<indent>raise NotImplementedError"
    return _rewrite(book, "solution", _SOLUTION, placeholder)


def _rewrite(book: Chapter, left_out: str, pattern: re.Pattern[str], new: str) -> Any:
    notebook = read_source(book.source)
    notebook.cells = [cell for cell in notebook.cells if left_out not in cell.metadata.get("tags", [])]
    for cell in notebook.cells:
        cell.metadata.pop("tags", None)
        cell.source = pattern.sub(new, cell.source)
    return _tidy(notebook)


def _drift(action: str, path: Path, wanted: Any, is_run: bool) -> Iterator[str]:
    """Yield a sentence with the difference and its cure if a notebook differs from a fresh build."""
    cure = f"build it again with: python -m qflow.maintain {action}"
    if not path.exists():
        yield f"{path} is missing; {cure}"
        return
    text = path.read_text(encoding="utf-8")
    try:
        built = importlib.import_module("nbformat").reads(text, as_version=4)
    except Exception as problem:
        yield f"{path} cannot be read as a notebook ({problem}); {cure}"
        return
    code = [cell for cell in built.cells if cell.cell_type == "code" and cell.source]
    if where := first_difference(wanted, built):
        yield f"{path} differs from its source: {where}; {cure}"
    elif is_run and not all(cell.execution_count for cell in code):
        yield f"{path} holds cells that were never run; {cure}"
    elif not is_run and _serialise(wanted) != text:
        yield f"{path} holds outputs or a tool's metadata; {cure}"
    elif _serialise(_tidy(built)) != text:
        yield f"{path} holds traces of a run by hand (ids, times, widget state); {cure}"


def first_difference(source: Any, built: Any) -> str:
    """Return a description of the first difference between a built notebook and its source, or ""."""
    for number, (ours, theirs) in enumerate(zip(source.cells, built.cells, strict=False), start=1):
        for part in ("cell_type", "source", "id", "metadata"):
            if ours.get(part) != theirs.get(part):
                return f"cell {number} differs in its {part.replace('cell_', '')}"
    if len(source.cells) != len(built.cells):
        return f"it has {len(built.cells)} cells, the source has {len(source.cells)}"
    return ""


def _orphans(books: Sequence[Chapter]) -> Iterator[str]:
    known = {book.built for book in books}
    for path in sorted(books[0].built.parent.glob("*.ipynb")):
        if path not in known:
            source = path.parent / "sources" / f"{path.stem}.py"
            yield f"{path} has no source {source}; write one, or delete the notebook."
