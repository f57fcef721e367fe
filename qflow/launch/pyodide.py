"""Pyodide, the Python that runs inside a browser, laid out so that a page needs nobody but its own server.

Pyodide's own package holds the interpreter and no libraries. What the notebook kernel imports is added from
ordinary wheels, and the lock file that Pyodide checks them against is written anew for exactly these.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qflow.kit import RefusalError

VERSION = "314.0.6"
"""The release that the JupyterLite kernel of :data:`qflow.launch.site.TOOLS` is made for."""

PYTHON = "3.14"

CORE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")

LIBRARIES = (
    "asttokens",
    "decorator",
    "executing",
    "ipython",
    "jedi",
    "matplotlib-inline",
    "micropip",
    "narwhals",
    "networkx",
    "packaging",
    "parso",
    "prompt-toolkit",
    "pure-eval",
    "pygments",
    "six",
    "stack-data",
    "traitlets",
    "typing-extensions",
    "wcwidth",
)
"""What the kernel, plotly and the labs import; all of it pure Python, at the versions of Pyodide's lock."""

_HEAVY = frozenset({"matplotlib", "numpy", "setuptools"})


def requirements(lock: Mapping[str, Any]) -> list[str]:
    """Return what has to be downloaded, as pip's requirements.

    Parameters
    ----------
    lock : mapping
        Pyodide's own ``pyodide-lock.json``.

    Examples
    --------
    >>> requirements({"packages": {name: {"name": name, "version": "1"} for name in LIBRARIES}})[:2]
    ['asttokens==1', 'decorator==1']
    """
    packages = lock["packages"]
    return [f"{packages[name]['name']}=={packages[name]['version']}" for name in LIBRARIES]


def slim_lock(lock: Mapping[str, Any], wheels: Mapping[str, Path]) -> dict[str, Any]:
    """Return a lock that names only the wheels at hand, each with its own digest.

    Pyodide builds its libraries itself, so the digests of its lock are not those of the published
    wheels, although the files do the same. networkx names numpy and matplotlib as dependencies; without
    them its graph algorithms work, and the labs use no other part.

    Parameters
    ----------
    lock : mapping
        Pyodide's own ``pyodide-lock.json``.
    wheels : mapping of str to pathlib.Path
        For each library's name in the lock, the wheel that is there for it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".whl") as wheel:
    ...     entry = {"name": "networkx", "file_name": "old.whl", "sha256": "0", "depends": ["numpy", "six"]}
    ...     slim = slim_lock({"info": {}, "packages": {"networkx": entry}}, {"networkx": Path(wheel.name)})
    >>> slim["packages"]["networkx"]["depends"]
    ['six']
    """
    packages = {}
    for name, wheel in sorted(wheels.items()):
        entry = dict(lock["packages"][name])
        entry["file_name"] = wheel.name
        entry["sha256"] = hashlib.sha256(wheel.read_bytes()).hexdigest()
        # The lock spells one name in two ways.
        depends = [other.replace("_", "-") for other in entry["depends"]]
        entry["depends"] = [other for other in depends if other not in _HEAVY]
        packages[name] = entry
    return {**lock, "packages": packages}


def lay_out(package: Path, wheels: Path, target: Path) -> None:
    """Copy the interpreter and the libraries to where the site's kernel looks for them.

    Parameters
    ----------
    package : pathlib.Path
        Pyodide's unpacked package.
    wheels : pathlib.Path
        A folder with a wheel of each of :data:`LIBRARIES`.
    target : pathlib.Path
        The folder to fill; it is made.

    Raises
    ------
    RefusalError
        If a file of the interpreter or a wheel is missing.
    """
    target.mkdir(parents=True, exist_ok=True)
    lock = json.loads(_the_file(package / "pyodide-lock.json").read_text(encoding="utf-8"))
    for name in CORE:
        shutil.copyfile(_the_file(package / name), target / name)
    found = {name: _wheel_of(name, wheels) for name in LIBRARIES}
    for wheel in found.values():
        shutil.copyfile(wheel, target / wheel.name)
    text = json.dumps(slim_lock(lock, found), indent=1, sort_keys=True)
    (target / "pyodide-lock.json").write_text(text, encoding="utf-8")


def _wheel_of(name: str, wheels: Path) -> Path:
    stem = name.replace("-", "_")
    found = [path for path in sorted(wheels.glob("*.whl")) if path.name.lower().startswith(f"{stem}-")]
    if not found:
        raise RefusalError(f"There is no wheel of {name} in {wheels}; fetch again with: qflow site fetch.")
    return found[-1]


def _the_file(path: Path) -> Path:
    if not path.is_file():
        raise RefusalError(f"{path} is missing from Pyodide's package; fetch again with: qflow site fetch.")
    return path
