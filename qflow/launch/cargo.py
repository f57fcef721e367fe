"""Cargo: what a site or a workshop room needs from outside, fetched once and kept.

Everything that asks the network is here. A second build finds the cargo where the first one left it, and
needs no network.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from qflow.kit import RefusalError, checkout_root
from qflow.launch import pyodide

IN_THE_BROWSER = ("anywidget", "comm", "ipywidgets", "jupyterlab-widgets", "plotly", "psygnal")
"""Packages that notebooks on the site install into the kernel, beside qflow."""

# What pip and npm say when nobody answers.
_NO_NETWORK = ("Failed to establish a new connection", "name resolution", "ENOTFOUND", "EAI_AGAIN", "Proxy")
_ANY_MACHINE = ("--only-binary=:all:", "--implementation=py", "--abi=none", "--platform=any")


def cargo_folder() -> Path:
    """Return the folder that keeps what was fetched; ``QFLOW_CARGO`` may name another.

    Examples
    --------
    >>> cargo_folder().is_absolute()
    True
    """
    chosen = os.environ.get("QFLOW_CARGO")
    if chosen:
        return Path(chosen).expanduser().absolute()
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches, "qflow").absolute()


def fetch_pyodide(folder: Path) -> Path:
    """Have Pyodide's package and the wheels its kernel needs; return the folder of the package.

    Parameters
    ----------
    folder : pathlib.Path
        Where cargo is kept.

    Raises
    ------
    RefusalError
        If it has to be fetched and npm or pip cannot.
    """
    package = folder / f"pyodide-{pyodide.VERSION}"
    if not (package / "pyodide-lock.json").exists():
        _unpack(_npm_pack(f"pyodide@{pyodide.VERSION}", folder), package)
    lock = json.loads((package / "pyodide-lock.json").read_text(encoding="utf-8"))
    wanted = pyodide.requirements(lock)
    fetch_wheels(wanted, kernel_wheels(folder), python=pyodide.PYTHON)
    return package


def kernel_wheels(folder: Path) -> Path:
    """Return where the wheels of Pyodide's libraries are kept."""
    return folder / f"pyodide-{pyodide.VERSION}-wheels"


def fetch_wheels(wanted: Sequence[str], folder: Path, *, python: str, dependencies: bool = False) -> Path:
    """Have wheels that run on any machine; return their folder.

    A folder that was filled for the same list is taken as it is.

    Parameters
    ----------
    wanted : sequence of str
        pip's requirements.
    folder : pathlib.Path
        Where to keep the wheels.
    python : str
        The version of Python that will import them, such as ``"3.14"``.
    dependencies : bool
        Whether to bring what they depend on.

    Raises
    ------
    RefusalError
        If pip cannot bring one of them; its last line is told.
    """
    done = folder / ".complete"
    if done.exists() and done.read_text(encoding="utf-8").split("\n") == list(wanted):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    options = [*_ANY_MACHINE, f"--python-version={python}", *([] if dependencies else ["--no-deps"])]
    run([sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), *options, *wanted])
    done.write_text("\n".join(wanted), encoding="utf-8")
    return folder


def own_wheel(folder: Path) -> Path:
    """Build qflow's wheel from its checkout, as one for any machine and for browsers; return it.

    Parameters
    ----------
    folder : pathlib.Path
        Where to write it.

    Raises
    ------
    RefusalError
        Away from a checkout, or if the build fails.
    """
    root = checkout_root()
    if root is None:
        raise RefusalError("qflow's wheel is built from its checkout; run this command in one.")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("qflow-*.whl"):
        old.unlink()
    # A compiled engine runs on machines like this one only; see hatch_build.py.
    environment = {**os.environ, "QFLOW_COMPILE": "0"}
    # With the builder at hand nothing has to be fetched for it.
    options = ["--no-build-isolation"] if find_spec("hatchling") else []
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *options, "-w", str(folder)]
    run([*command, str(root)], environment=environment)
    (wheel,) = folder.glob("qflow-*.whl")
    return wheel


def megabytes(folder: Path) -> float:
    """Return how much a folder holds, in millions of bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def run(
    command: Sequence[str], *, folder: Path | None = None, environment: dict[str, str] | None = None
) -> None:
    """Run another program to its end.

    Raises
    ------
    RefusalError
        If there is no such program or it fails; the last line it said is told.
    """
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
    except FileNotFoundError as missing:
        raise RefusalError(f"{command[0]} is needed for this, and is not installed here.") from missing
    if done.returncode:
        said = [line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        what = Path(command[0]).name if command[0] != sys.executable else " ".join(command[2:4])
        why = said[-1].removeprefix("ERROR: ") if said else "it did not say why"
        if any(sign in line for line in said for sign in _NO_NETWORK):
            why = f"{why.rstrip('.')}. It could not reach the network."
        raise RefusalError(f"{what} failed: {why}")


def _npm_pack(package: str, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    npm = shutil.which("npm")
    if npm is None:
        raise RefusalError(
            f"{package} is fetched with npm, which is not installed here; install Node.js, or put the "
            f"package, unpacked, into {folder / package.replace('@', '-')}."
        )
    run([npm, "pack", package, "--silent", "--pack-destination", str(folder)])
    return folder / f"{package.replace('@', '-')}.tgz"


def _unpack(archive: Path, target: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(target, filter="data")
    # npm wraps everything in a folder "package".
    for path in (target / "package").iterdir():
        path.rename(target / path.name)
    (target / "package").rmdir()
    archive.unlink()
