"""Rooms: the subpackages of qflow, which import a public name only when it is first used.

A room lists its public names once, in its ``__init__``, as imports in a block that Python does not run::

    TYPE_CHECKING = False
    if TYPE_CHECKING:
        from qflow.workload.model import Producer as Producer

    open_room(__name__)

Type checkers and editors treat ``TYPE_CHECKING`` as true, whatever its value, and read the imports.
:func:`open_room` turns the package into a :class:`Room`, which reads the same lines at the first access to a
name, and imports the one module that defines it.  So importing a room takes almost no time (importing
``TYPE_CHECKING`` from ``typing``, as usual, would take longer than the rest), using a name loads only the
modules it needs, and ``dir()``, Tab completion and ``from room import *`` show all public names.

Some functions have the same name as their module: ``predict`` is in ``qflow/prediction/predict.py``.  When
Python imports a module, it binds the module's name in the package, where it would hide the function.  A room
ignores this binding, so that its public names mean the same whatever was imported before.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


class Room(ModuleType):
    """A package that imports its public names on first use; made by :func:`open_room`."""

    _origins: dict[str, str] | None = None

    def _names(self) -> dict[str, str]:
        """Return the public names, each with the name of the module that defines it."""
        if self._origins is None:
            self._origins = origins(self)
        return self._origins

    def __getattr__(self, name: str) -> object:
        if name == "__all__":
            return sorted(self._names())
        if name.startswith("__") or name not in self._names():
            from qflow.wording import did_you_mean

            # Python adds such a hint in a terminal, but not in a notebook.
            raise AttributeError(f"{self.__name__} has no {name!r}{did_you_mean(name, self._names())}")
        try:
            return self._load(name)
        except ModuleNotFoundError as error:
            if (error.name or "qflow").partition(".")[0] == "qflow":
                raise
            from qflow.kit import explain_missing

            room = self._names()[name].split(".")[1]
            extra = room if room in ("spark", "live") else "lab"
            raise ImportError(explain_missing(name, str(error.name), extra), name=error.name) from None

    def _load(self, name: str) -> object:
        module = self._names()[name]
        # Not cached: a module may be replaced by a changed copy, as qflow.teaching.changed does.
        if module == self.__name__:
            return import_module(f"{module}.{name}")
        return getattr(import_module(module), name)

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and self._names().get(name, self.__name__) != self.__name__:
            return
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self._names(), *(name for name in vars(self) if name.startswith("__"))})


def open_room(name: str) -> None:
    """Make a package a :class:`Room`, which imports its public names on first use."""
    sys.modules[name].__class__ = Room


def origins(package: ModuleType) -> dict[str, str]:
    """Return the public names of a package, each with the name of the module that defines it."""
    assert package.__spec__ is not None and package.__file__ is not None
    source = package.__spec__.loader.get_data(package.__file__).decode()  # type: ignore[union-attr]
    found: dict[str, str] = {}
    # splitlines, as lines may end in CRLF in a checkout by Git for Windows.
    lines = source.splitlines()
    for line in lines[lines.index("if TYPE_CHECKING:") + 1 :]:
        match line.split():
            case ["from", module, "import", name, "as", same] if name == same:
                found[name] = module
    return found
