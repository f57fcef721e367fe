"""Which of the packages that qflow asks for are installed, and in which version."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_NESTED = re.compile(r"qflow\[([^\]]+)\]")


@dataclass(frozen=True, slots=True)
class Need:
    """A package that an extra of qflow asks for.

    Parameters
    ----------
    name : str
        The package's name.
    wanted : str
        The versions that will do, such as ``>=4.6,<5``; empty for any.
    installed : str or None
        The version that is there.
    """

    name: str
    wanted: str
    installed: str | None

    @property
    def is_met(self) -> bool:
        """Whether it is installed in a version that will do.

        Examples
        --------
        >>> Need("pandas", ">=2.2,<3", "3.0.1").is_met, Need("pandas", ">=2.2,<3", "2.3.3").is_met
        (False, True)
        """
        return self.installed is not None and _fits(self.installed, self.wanted)


def needs_of(extra: str) -> list[Need]:
    """Return what an extra of qflow asks for, and what is there.

    Parameters
    ----------
    extra : str
        Such as ``"lab"``.

    Examples
    --------
    >>> needs_of("no such extra")
    []
    """
    return [Need(name, wanted, _installed(name)) for name, wanted in _requirements(extra)]


def _requirements(extra: str) -> Iterator[tuple[str, str]]:
    try:
        lines = metadata.requires("qflow") or ()
    except metadata.PackageNotFoundError:
        # The package was put on the path by hand; nobody wrote down what it needs.
        yield "qflow", ""
        return
    for line in lines:
        text, _, condition = line.partition(";")
        named = _EXTRA.search(condition)
        if named is None or named.group(1) != extra:
            continue
        nested = _NESTED.match(text)
        if nested:
            for other in nested.group(1).split(","):
                yield from _requirements(other.strip())
            continue
        name = _NAME.match(text)
        if name:
            yield name.group(), text[name.end() :].strip()


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _fits(version: str, wanted: str) -> bool:
    if not wanted:
        return True
    try:
        from packaging.specifiers import SpecifierSet
    except ImportError:
        return True  # JupyterLab brings it; where it is missing, that is told of JupyterLab
    return bool(SpecifierSet(wanted).contains(version, prereleases=True))
