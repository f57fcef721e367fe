"""Where the kit's folders are: the chapters and the recordings.

A checkout (or an editable install of one) holds them beside the package; an installed wheel carries copies
inside the package. Everything that opens one of these files asks here, so that no other module needs to know
how qflow was installed.

Which form of the engine runs: the compiled one, or the readable one itself.
"""

from __future__ import annotations

import tomllib
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

INTERRUPTED = 130
"""Exit status of a command that Ctrl-C has ended."""

_PACKAGE = Path(__file__).resolve().parent
_CARRIED = _PACKAGE / "_kit"


class RefusalError(Exception):
    """A request that cannot be fulfilled; the text says in one sentence why.

    The ``qflow`` command prints the sentence and ends with status 2; a traceback would tell a learner
    nothing.

    Examples
    --------
    >>> try:
    ...     raise RefusalError("there is no such chapter")
    ... except RefusalError as refusal:
    ...     print(refusal)
    there is no such chapter
    """


def is_checkout(folder: Path) -> bool:
    """Tell whether a folder is the top of a qflow checkout.

    Parameters
    ----------
    folder
        The folder to look at; it need not exist.

    Returns
    -------
    bool
        True if its ``pyproject.toml`` is the one of qflow.

    Examples
    --------
    >>> is_checkout(Path("/no/such/folder"))
    False
    """
    try:
        with open(folder / "pyproject.toml", "rb") as file:
            project = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError):
        return False
    named = project.get("project")
    return isinstance(named, dict) and named.get("name") == "qflow"


def checkout_root() -> Path | None:
    """Find the checkout this package is imported from.

    Returns
    -------
    pathlib.Path or None
        The checkout's top folder, or None if the package was installed from a wheel.

    Examples
    --------
    >>> root = checkout_root()
    >>> root is None or is_checkout(root)
    True
    """
    root = _PACKAGE.parent
    return root if is_checkout(root) else None


def kit_path(name: str) -> Path:
    """Find one of the kit's folders, however qflow was installed.

    Parameters
    ----------
    name
        The folder's name at the top of a checkout: ``"notebooks"`` or ``"data"``.

    Returns
    -------
    pathlib.Path
        The folder, which exists.

    Raises
    ------
    RefusalError
        If this installation does not hold the folder.

    Examples
    --------
    >>> kit_path("recipes")
    Traceback (most recent call last):
        ...
    qflow.kit.RefusalError: This installation of qflow holds no folder 'recipes'; ...
    """
    for top in (_CARRIED, checkout_root()):
        if top is not None and (top / name).is_dir():
            return top / name
    raise RefusalError(
        f"This installation of qflow holds no folder {name!r}; "
        "install it again from a complete checkout or wheel of qflow."
    )


COMPILED = "compiled"
PURE = "pure Python"


def form() -> str:
    """Return the form of the engine in this installation.

    Both are made of the same source and do the same; the compiled one is faster. It is looked up without
    importing the engine.

    Returns
    -------
    str
        ``compiled`` or ``pure Python``.

    Examples
    --------
    >>> form() in (COMPILED, PURE)
    True
    """
    folder = Path(__file__).parent / "broker"
    return COMPILED if any((folder / f"queue{suffix}").is_file() for suffix in EXTENSION_SUFFIXES) else PURE
