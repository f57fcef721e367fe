"""A changed engine: a copy of the engine with one function replaced, to see which recordings disagree.

The function is replaced in a second copy of the engine, which is imported from its source. The engine that
all other code uses is not changed; a compiled engine could not be changed at all.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any

from qflow.kit import RefusalError

_COPIED = ("qflow.broker", "qflow.conformance", "qflow.teaching.recorded")
_copies: dict[str, ModuleType] = {}


class _ChangedEngine:
    """A copy of the engine with one function replaced, made by :func:`changed_engine`."""

    def noticed_by(self, area: str = "") -> list[str]:
        """Return the ids of the recorded scenarios in an area, or in all, that disagree with this engine."""
        found: Mapping[str, Any] = importlib.import_module("qflow.teaching.recorded").scenarios()
        check = importlib.import_module("qflow.conformance.scenario_player").check
        asked = (scenario for scenario in found.values() if area in ("", scenario.area))
        return [scenario.id for scenario in asked if not check(scenario).agrees]

    def beside(self, scenario: str, steps: Sequence[int] = (), **columns: str) -> Any:
        """Compare a recorded scenario with the changed engine; see :func:`qflow.teaching.recorded.beside`."""
        return importlib.import_module("qflow.teaching.recorded").beside(scenario, steps, **columns)


@contextmanager
def changed_engine(module: str, name: str, change: Callable[..., object]) -> Iterator[_ChangedEngine]:
    """Replace one function in a copy of the engine, as a context manager.

    Parameters:
        module: The name of a module in ``qflow.broker``, such as ``"flow_limit"``.
        name: The name of a function in it, or of a method as ``"Class.method"``.
        change: The function to replace it by.

    Yields:
        The changed engine: its ``noticed_by()`` returns the recorded scenarios that disagree with it, and its
        ``beside()`` compares one scenario with it.

    Raises:
        RefusalError: If there is no such function.

    >>> with changed_engine("flow_limit", "exceeds_stop", lambda levels, count, size: False) as engine:
    ...     "fc-doc-900-500" in engine.noticed_by("flow-control")
    True
    >>> with changed_engine("flow_limit", "no_such_function", print) as engine:
    ...     pass
    Traceback (most recent call last):
        ...
    qflow.kit.RefusalError: qflow.broker.flow_limit has no function no_such_function
    """
    with _import_copy():
        owner: Any = importlib.import_module(f"qflow.broker.{module}")
        *path, last = name.split(".")
        for part in path:
            owner = getattr(owner, part, None)
        original = getattr(owner, last, None)
        if not callable(original):
            raise RefusalError(f"qflow.broker.{module} has no function {name}")
        setattr(owner, last, change)
        try:
            yield _ChangedEngine()
        finally:
            setattr(owner, last, original)


class _Sources(MetaPathFinder):
    """An import finder for the copy of the engine, which finds sources only and no compiled modules."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not _is_copied(name):
            return None
        finders = (FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)) for folder in path or ())
        return next(filter(None, (finder.find_spec(name) for finder in finders)), None)


@contextmanager
def _import_copy() -> Iterator[None]:
    """Make imports of the engine refer to its copy, as a context manager."""
    finder = _Sources()
    kept = _swap(_copies)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        _copies.update(_swap(kept))


def _swap(put: Mapping[str, ModuleType]) -> dict[str, ModuleType]:
    """Replace the imported modules of the engine by those in `put`; return the replaced ones."""
    taken = {name: sys.modules.pop(name) for name in list(sys.modules) if _is_copied(name)}
    for name, module in put.items():
        sys.modules[name] = module
    for name in {*taken, *put}:
        # The modules of a package are also its attributes.
        parent, _, last = name.rpartition(".")
        if name in put and parent in sys.modules:
            setattr(sys.modules[parent], last, put[name])
    return taken


def _is_copied(name: str) -> bool:
    return any(name == top or name.startswith(f"{top}.") for top in _COPIED)
