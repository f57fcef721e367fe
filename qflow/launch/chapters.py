"""``qflow lab``: copy the chapters to a learner's folder, and open JupyterLab on them.

The kit's own chapters contain the outputs of their cells, for readers without a kernel and for the tests, and
with them the answers to their questions. Nor should they be edited, in a checkout or inside an installed
package. So a learner works on copies without outputs, in a folder of the learner's own. A small register in
that folder records a digest of each file as it was copied. If a file still has that digest, a newer qflow
replaces it by the new version; a file that the learner has changed is never touched. JupyterLab runs in the
same process, so that stopping ``qflow lab`` stops JupyterLab.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.util
import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qflow.arguments import port_number
from qflow.kit import RefusalError, heed_interrupts, install_command, kit_path, nearest_checkout
from qflow.launch.function_pages import find_pages
from qflow.wording import format_names
from qflow.writing import write_file

_REGISTER = ".qflow-chapters.json"

# Files that authors and tools keep beside the chapters, and that learners do not need. The solutions are
# copied only by `qflow exercises solutions`.
_NOT_FOR_LEARNERS = {"sources", "solutions", ".ipynb_checkpoints", "__pycache__", _REGISTER}


@dataclass(frozen=True)
class _CopyResult:
    """The result of copying the chapters: the folder, and the names of its files by outcome."""

    folder: Path
    added: list[str] = field(default_factory=list)
    refreshed: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    what: str = "chapters"

    def sentences(self) -> list[str]:
        """Return a sentence about each kind of change that the copying made."""
        said = [f"The {self.what} are in {self.folder}."]
        if self.added:
            said = [f"Copied the {self.what} to {self.folder}: {format_names(self.added)}."]
        if self.refreshed:
            said.append(f"Brought up to date: {format_names(self.refreshed)}.")
        if self.removed:
            said.append(f"Removed, as the kit has them no more: {', '.join(self.removed)}.")
        if self.kept:
            cure = "rename or delete a file to get the kit's own again"
            said.append(f"Left as you changed them: {', '.join(self.kept)} ({cure}).")
        return said


def _copy_chapters(source: Path, folder: Path, *, what: str = "chapters") -> _CopyResult:
    """Copy the chapters into a learner's folder, without outputs; leave files that the learner changed."""
    layout = _CopyResult(folder, what=what)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        register = _read_register(folder)
        files = list_files(source)
        for name in sorted(files):
            register[name] = _place(files[name], folder / name, name, register.get(name), layout)
        for name in sorted(set(register).difference(files)):
            _withdraw(folder / name, name, register.pop(name), layout)
        write_file(folder / _REGISTER, json.dumps(register, indent=1, sort_keys=True) + "\n")
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        cure = "choose another folder with --dir FOLDER"
        raise RefusalError(f"Cannot lay the {what} out in {folder} ({reason}); {cure}.") from problem
    return layout


def _place(origin: Path, target: Path, name: str, copied: str | None, layout: _CopyResult) -> str:
    """Write one file unless the learner has changed it; return the digest to record in the register."""
    content = _strip_outputs(name, origin.read_bytes())
    new = _digest(name, content)
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        write_file(target, content)
        layout.added.append(name)
        return new
    present = _digest(name, target.read_bytes())
    if present == new:
        return new
    if present != copied:
        layout.kept.append(name)
        return copied or ""
    write_file(target, content)
    layout.refreshed.append(name)
    return new


def _withdraw(target: Path, name: str, copied: str, layout: _CopyResult) -> None:
    """Remove a file that the kit no longer has, such as a renamed chapter, unless the learner changed it."""
    if not target.exists():
        return
    if _digest(name, target.read_bytes()) == copied:
        target.unlink()
        layout.removed.append(name)
    else:
        layout.kept.append(name)


def _strip_outputs(name: str, content: bytes) -> bytes:
    """Return the content of a learner's copy: a notebook without its outputs, which may contain answers."""
    if name.endswith((".ipynb", ".md")):
        content = inner_links(content.decode()).encode()
    notebook = _read_notebook(name, content)
    if notebook is None:
        return content
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell |= {"outputs": [], "execution_count": None}
    return json.dumps(notebook, ensure_ascii=False, indent=1).encode() + b"\n"


def _read_notebook(name: str, content: bytes) -> dict[str, Any] | None:
    """Return a notebook, or None if the file is something else or damaged."""
    try:
        notebook: dict[str, Any] = json.loads(content) if name.endswith(".ipynb") else {}
        is_one = all({"cell_type", "source"} <= cell.keys() for cell in notebook["cells"])
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return notebook if is_one else None


def inner_links(text: str) -> str:
    """Return a text with its links between chapters and exercises adapted to a learner's folder."""
    # In a checkout the two folders are siblings; in a learner's folder the exercises lie below the chapters.
    moved = (("](../exercises/", "](exercises/"), ("](../../exercises/", "](../exercises/"))
    for link, inner in (*moved, ("](../notebooks/", "](../")):
        text = text.replace(link, inner)
    return text


def list_files(source: Path) -> dict[str, Path]:
    """Return the files for readers in a folder of chapters or exercises: their paths, by relative path."""
    paths = [path.relative_to(source) for path in source.rglob("*") if path.is_file()]
    names = [path.as_posix() for path in sorted(paths) if not _NOT_FOR_LEARNERS.intersection(path.parts)]
    # The function pages are generated from the source: a wheel contains them, a checkout does not.
    return {name: source / name for name in names} | {
        f"reference/{name}": path for name, path in find_pages(source / "reference").items()
    }


def _read_register(folder: Path) -> dict[str, str]:
    try:
        register = json.loads((folder / _REGISTER).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return register if isinstance(register, dict) else {}


def _digest(name: str, content: bytes) -> str:
    # Only the cells' sources count, as they are what a learner writes. JupyterLab saves a chapter with other
    # outputs and metadata as soon as it is opened.
    if notebook := _read_notebook(name, content):
        typed = [(cell["cell_type"], "".join(cell["source"])) for cell in notebook["cells"]]
        content = json.dumps(typed).encode()
    return hashlib.sha256(content).hexdigest()


_FIRST_CHAPTER = "00-tour.ipynb"
DEFAULT_FOLDER = "qflow-chapters"

_NEEDED = {
    "jupyterlab": "JupyterLab",
    "ipywidgets": "ipywidgets",
    "anywidget": "anywidget",
    "plotly": "Plotly",
    "networkx": "NetworkX",
}
SETTINGS = Path(__file__).resolve().parent / "jupyter"
"""The folder of the configuration files for JupyterLab."""


def lab(folder: str | None, *, browser: bool, port: int | None, further: Sequence[str] = ()) -> int:
    """Open JupyterLab on the chapters, print its address, wait until it ends, and return exit status 0."""
    require(_NEEDED, extra="lab")
    heed_interrupts()
    chapters, said = _find_chapters(folder)
    arguments = _lab_arguments(chapters, browser=browser, port=port, further=further)
    _quieten_news()
    server = importlib.import_module("jupyterlab.labapp").LabApp.initialize_server(argv=arguments)
    begin = _first_cell(chapters, server.default_url)
    addresses = "\n".join(line + begin for line in server.display_url.splitlines())
    print(addresses, *said, "Ctrl-C ends JupyterLab.", sep="\n", flush=True)
    # Set only now: in the addresses above the token has to come before the fragment.
    server.default_url += begin
    with suppress(importlib.import_module("jupyter_core.application").NoStart):
        server.start()
    return 0


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``lab`` to the ``qflow`` command."""
    parser = rooms.add_parser(
        "lab",
        description="Open JupyterLab on the chapters; its address is printed first. Further options are "
        "handed on to JupyterLab.",
        allow_abbrev=False,
    )
    parser.add_argument("--dir", metavar="FOLDER", help="the folder of your copies; your changes there stay")
    parser.add_argument("--no-browser", dest="browser", action="store_false", help="open no browser window")
    parser.add_argument("--port", type=port_number, metavar="N", help="the TCP port to listen on")


def run(chosen: argparse.Namespace) -> int:
    """Run ``qflow lab``; return the exit status."""
    return lab(chosen.dir, browser=chosen.browser, port=chosen.port, further=chosen.further)


def require(modules: dict[str, str], *, extra: str) -> None:
    """Refuse, with the command that installs an extra, unless all of its given modules are installed."""
    missing = [name for module, name in modules.items() if importlib.util.find_spec(module) is None]
    if missing:
        lacks = f"{format_names(missing)} {'is' if len(missing) == 1 else 'are'} not installed here"
        raise RefusalError(f"{lacks}; install the missing packages with: {install_command(extra)}")


def _find_chapters(folder: str | None) -> tuple[Path, list[str]]:
    """Copy or update the chapters in the learner's folder; return it, with sentences about the changes."""
    chapters = _learners_folder(folder)
    source = _kit_folder("notebooks")
    _first_chapter(source)
    if chapters.exists() and chapters.samefile(source):
        raise RefusalError(
            f"{chapters} holds the kit's own chapters; a learner works on copies of them. "
            "Leave --dir out, or choose another folder."
        )
    return chapters, copy_all_chapters(chapters)


def copy_all_chapters(folder: Path) -> list[str]:
    """Copy chapters and exercises to a folder as learners' copies; return sentences about the changes."""
    said = _copy_chapters(_kit_folder("notebooks"), folder).sentences()
    layout = _copy_chapters(_kit_folder("exercises"), folder / "exercises", what="exercises")
    return said + (layout.sentences() if layout.added or layout.refreshed or layout.kept else [])


def _first_chapter(chapters: Path) -> str:
    """Return the file name of the chapter to open first: the tour, or else the first numbered one."""
    names = sorted(path.name for path in chapters.glob("[0-9][0-9]-*.ipynb"))
    if not names:
        raise RefusalError(f"There is no chapter (a file such as {_FIRST_CHAPTER}) in {chapters}.")
    return _FIRST_CHAPTER if _FIRST_CHAPTER in names else names[0]


def _first_cell(chapters: Path, address: str) -> str:
    """Return the URL fragment that selects the first code cell of a chapter, or "" for any other address."""
    # Otherwise JupyterLab selects the title, and the first Shift+Enter would run the title.
    chapter = chapters / address.rpartition("/lab/tree/")[2]
    if chapter.suffix != ".ipynb" or not chapter.is_file():
        return ""
    notebook = _read_notebook(chapter.name, chapter.read_bytes())
    cells = notebook["cells"] if notebook else []
    first = next((cell["id"] for cell in cells if cell["cell_type"] == "code" and "id" in cell), "")
    return f"#cell-id={first}" if first else ""


def _lab_arguments(
    chapters: Path, *, browser: bool, port: int | None, further: Sequence[str] = ()
) -> list[str]:
    """Return JupyterLab's command line arguments; the user's come last, so that they take precedence."""
    arguments = {
        f"--ServerApp.root_dir={chapters}": True,
        f"--LabApp.default_url=/lab/tree/{_first_chapter(chapters)}": True,
        # JupyterLab's start messages would hide its address; --log-level=INFO shows them.
        "--Application.log_level=WARN": True,
        # JupyterLab refuses to start for root without this; in containers root is often the only user.
        "--allow-root": hasattr(os, "geteuid") and os.geteuid() == 0,
        "--no-browser": not browser,
        f"--port={port}": port is not None,
    }
    return [*(argument for argument, is_asked in arguments.items() if is_asked), *further]


def _learners_folder(folder: str | None) -> Path:
    if folder is not None:
        if not folder:
            raise RefusalError('--dir takes a folder, but got an empty name; "." is the folder you are in.')
        chosen = Path(folder).expanduser()
        if chosen.exists() and not chosen.is_dir():
            raise RefusalError(f"--dir takes a folder, but {folder} is a file.")
        return chosen.resolve()
    here = Path.cwd()
    return here if (here / _REGISTER).exists() else (nearest_checkout() or here) / DEFAULT_FOLDER


def _kit_folder(name: str) -> Path:
    """Return a folder of the checkout that contains the working directory, or else of the installed kit."""
    checkout = nearest_checkout()
    own = checkout / name if checkout is not None else None
    return own if own is not None and own.is_dir() else kit_path(name)


def _quieten_news() -> None:
    # JupyterLab asks every new user whether to fetch news; the question would cover the first picture.
    paths = [str(SETTINGS), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, paths))
