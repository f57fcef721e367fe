"""``qflow lab``: JupyterLab, opened on the chapters.

From a checkout it opens the checkout's own chapters. Away from one it first lays the chapters out in a folder
of the learner's (see :mod:`qflow.teaching.layout`). JupyterLab runs in this very process, so that stopping
``qflow lab`` stops all of it.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

from qflow.kit import RefusalError, checkout_root, is_checkout, kit_path
from qflow.teaching.layout import REGISTER, lay_out

FIRST_CHAPTER = "00-tour.ipynb"
DEFAULT_FOLDER = "qflow-chapters"

_NEEDED = {
    "jupyterlab": "JupyterLab",
    "ipywidgets": "ipywidgets",
    "anywidget": "anywidget",
    "plotly": "Plotly",
    "networkx": "NetworkX",
}
_SETTINGS = Path(__file__).resolve().parent / "jupyter"


def lab(folder: str | None, *, browser: bool, port: int | None, further: Sequence[str] = ()) -> int:
    """Open JupyterLab on the chapters, and stay until it ends.

    Parameters
    ----------
    folder
        Where to lay the chapters out; None for the checkout's own chapters, or else ``./qflow-chapters``.
    browser
        Whether to open a browser window.
    port
        The port to listen on; None leaves the choice to JupyterLab.
    further
        Options handed on to JupyterLab as they are.

    Returns
    -------
    int
        The exit status, 0.

    Raises
    ------
    RefusalError
        If a dependency is missing, or there is no folder or no chapter to open.
    """
    require(_NEEDED, extra="lab")
    chapters = find_chapters(folder)
    arguments = lab_arguments(chapters, browser=browser, port=port, further=further)
    _quieten_news()
    importlib.import_module("jupyterlab.labapp").main(arguments)
    return 0


def require(modules: dict[str, str], *, extra: str) -> None:
    """Make sure that modules are installed, or refuse with the cure.

    Parameters
    ----------
    modules
        For each module's import name, the name people know it by.
    extra
        The extra of qflow that brings them.

    Raises
    ------
    RefusalError
        If one or more of them are missing.

    Examples
    --------
    >>> require({"json": "JSON"}, extra="lab")
    >>> require({"no_such_module": "Nothing"}, extra="lab")
    Traceback (most recent call last):
        ...
    qflow.kit.RefusalError: Nothing is not installed here; install what is missing with: ...
    """
    missing = [name for module, name in modules.items() if importlib.util.find_spec(module) is None]
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise RefusalError(
            f"{_listed(missing)} {verb} not installed here; "
            f"install what is missing with: pip install 'qflow[{extra}]'"
        )


def find_chapters(folder: str | None) -> Path:
    """Choose the folder of chapters to open, laying them out there if need be, and say what was done.

    Parameters
    ----------
    folder
        The folder asked for with ``--dir``, or None.

    Returns
    -------
    pathlib.Path
        An existing folder with at least one chapter in it.

    Raises
    ------
    RefusalError
        If the folder cannot be used or holds no chapter.
    """
    here = Path.cwd()
    checkout = next((top for top in (here, *here.parents) if is_checkout(top)), None) or checkout_root()
    if folder is None and checkout is not None:
        chapters = checkout / "notebooks"
        said = [f"The chapters lie in {chapters}."]
    else:
        chapters = _learners_folder(folder, here)
        source = kit_path("notebooks")
        first_chapter(source)
        if chapters.exists() and chapters.samefile(source):
            said = [f"The chapters lie in {chapters}."]
        else:
            said = lay_out(source, chapters).sentences() + _lay_out_exercises(chapters)
    first_chapter(chapters)
    print(*said, sep="\n", flush=True)
    return chapters


def first_chapter(chapters: Path) -> str:
    """Name the chapter to open first.

    Parameters
    ----------
    chapters
        The folder of chapters.

    Returns
    -------
    str
        The file name: the tour, or else the first numbered chapter there is.

    Raises
    ------
    RefusalError
        If the folder holds no chapter.

    Examples
    --------
    >>> first_chapter(Path("/no/such/folder"))
    Traceback (most recent call last):
        ...
    qflow.kit.RefusalError: There is no chapter (a file such as ...) in /no/such/folder.
    """
    names = sorted(path.name for path in chapters.glob("[0-9][0-9]-*.ipynb"))
    if not names:
        raise RefusalError(f"There is no chapter (a file such as {FIRST_CHAPTER}) in {chapters}.")
    return FIRST_CHAPTER if FIRST_CHAPTER in names else names[0]


def lab_arguments(
    chapters: Path, *, browser: bool, port: int | None, further: Sequence[str] = ()
) -> list[str]:
    """Write the options JupyterLab is started with.

    Parameters
    ----------
    chapters
        The folder of chapters, which becomes JupyterLab's root; in a checkout the checkout does.
    browser, port, further
        As for :func:`lab`.

    Returns
    -------
    list of str
        The arguments; those of the user come last, so that they win.
    """
    # In a checkout the exercises lie beside the chapters' folder, elsewhere inside it.
    top = chapters.parent if is_checkout(chapters.parent) else chapters
    first = (chapters / first_chapter(chapters)).relative_to(top).as_posix()
    arguments = [f"--ServerApp.root_dir={top}", f"--LabApp.default_url=/lab/tree/{first}"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        # JupyterLab refuses to start for root unless told; in containers root is often the only user.
        arguments.append("--allow-root")
    if not browser:
        arguments.append("--no-browser")
    if port is not None:
        arguments.append(f"--port={port}")
    return [*arguments, *further]


def _learners_folder(folder: str | None, here: Path) -> Path:
    if folder is not None:
        chosen = Path(folder).expanduser()
        if chosen.exists() and not chosen.is_dir():
            raise RefusalError(f"--dir takes a folder, but {folder} is a file.")
        return chosen.resolve()
    return here if (here / REGISTER).exists() else here / DEFAULT_FOLDER


def _lay_out_exercises(chapters: Path) -> list[str]:
    """Lay the exercises out beside the chapters; return what to say about it."""
    try:
        source = kit_path("exercises")
    except RefusalError:
        return []
    layout = lay_out(source, chapters / "exercises", what="exercises")
    return layout.sentences() if layout.added or layout.refreshed or layout.kept else []


def _quieten_news() -> None:
    # JupyterLab asks every newcomer whether to fetch news; the question would lie over the first picture.
    paths = [str(_SETTINGS), os.environ.get("JUPYTER_CONFIG_PATH", "")]
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, paths))


def _listed(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
