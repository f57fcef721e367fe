"""Which form of the engine runs: the compiled one, or the readable one itself."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

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
