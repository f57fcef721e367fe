"""Cargo: the external packages that a site or a workshop folder needs, downloaded once and cached.

All code that uses the network is in this module. A second build finds the cargo in the cache and needs no
network. Part of it is Pyodide, the Python that runs inside a browser. Pyodide's own package holds the
interpreter and no libraries: the libraries that the notebook kernel imports are added from ordinary wheels,
and the lock file by which Pyodide finds and verifies libraries is rewritten for exactly these wheels. So a
page loads everything from its own server.

Builds are written only into folders that the kit marks as its own; see :func:`claim`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from qflow.kit import DISTRIBUTION, RefusalError, nearest_checkout, origin_folder

VERSION = "314.0.6"
"""The release of Pyodide that the JupyterLite kernel of :data:`qflow.launch.site.TOOLS` is made for."""

_PYTHON = "3.14"
"""The version of Python in that release of Pyodide."""

_CORE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm", "python_stdlib.zip")

FETCHED = ("pyodide.asm.wasm", "python_stdlib.zip", "pyodide-lock.json")
"""The files of Pyodide that a page downloads, and whose bytes its progress bar counts."""

_LIBRARIES = (
    "asttokens", "decorator", "executing", "ipython", "jedi", "matplotlib-inline", "micropip", "narwhals",
    "networkx", "packaging", "parso", "prompt-toolkit", "pure-eval", "pygments", "six", "stack-data",
    "traitlets", "typing-extensions", "wcwidth",
)  # fmt: skip
"""The imports of the kernel, plotly and the labs; all pure Python, at the versions of Pyodide's lock."""

_HEAVY = frozenset({"matplotlib", "numpy", "setuptools"})


def _slim_lock(lock: Mapping[str, Any], wheels: Mapping[str, Path]) -> dict[str, Any]:
    """Return a Pyodide lock file reduced to the given wheels, with the digest of each wheel."""
    # Pyodide builds its libraries itself, so the digests of its lock are not those of the published wheels.
    # networkx depends on numpy and matplotlib, but the graph algorithms that qflow uses work without them.
    packages = {}
    for name, wheel in sorted(wheels.items()):
        entry = dict(lock["packages"][name])
        entry["file_name"] = wheel.name
        entry["sha256"] = hashlib.sha256(wheel.read_bytes()).hexdigest()
        # The lock file writes the same name with - in one place and with _ in another.
        depends = [other.replace("_", "-") for other in entry["depends"]]
        entry["depends"] = [other for other in depends if other not in _HEAVY]
        packages[name] = entry
    return {**lock, "packages": packages}


def copy_interpreter(package: Path, wheels: Path, target: Path) -> None:
    """Copy Pyodide's interpreter, the wheels of its libraries, and a lock file for these into a folder."""
    target.mkdir(parents=True, exist_ok=True)
    lock = json.loads(_require_file(package / "pyodide-lock.json").read_text(encoding="utf-8"))
    for name in _CORE:
        shutil.copyfile(_require_file(package / name), target / name)
    found = {name: _wheel_of(name, wheels) for name in _LIBRARIES}
    for wheel in found.values():
        shutil.copyfile(wheel, target / wheel.name)
    text = json.dumps(_slim_lock(lock, found), indent=1, sort_keys=True)
    (target / "pyodide-lock.json").write_text(text, encoding="utf-8")


def _wheel_of(name: str, wheels: Path) -> Path:
    stem = name.replace("-", "_")
    found = [path for path in sorted(wheels.glob("*.whl")) if path.name.lower().startswith(f"{stem}-")]
    if not found:
        raise RefusalError(f"There is no wheel of {name} in {wheels}; fetch again with: qflow site fetch.")
    return found[-1]


def _require_file(path: Path) -> Path:
    if not path.is_file():
        raise RefusalError(f"{path} is missing from Pyodide's package; fetch again with: qflow site fetch.")
    return path


OWN = f"{DISTRIBUTION.replace('-', '_')}-*.whl"
"""The file name pattern of qflow's own wheel."""

MARK = ".qflow-made"
"""The file that marks a folder as the kit's own; it names the folder's contents."""

_IN_THE_BROWSER = ("anywidget", "comm", "ipywidgets", "jupyterlab-widgets", "plotly", "psygnal")
"""Packages that notebooks on the site install into the kernel, beside qflow."""

_IN_A_PAGE = ("anywidget", "comm", "ipywidgets", "psygnal", "traitlets", "typing-extensions")
"""The packages, among these and the libraries of the kernel, that the labs in a page of the book import."""

_LEFT_OUT = tuple(f"qflow/_kit/{folder}/" for folder in ("notebooks", "exercises", "data/recordings"))
"""The folders of qflow's wheel that no page needs: fourteen of its fifteen megabytes."""

# Parts of the messages of pip and npm when they cannot reach the network.
_NO_NETWORK = ("Failed to establish a new connection", "name resolution", "ENOTFOUND", "EAI_AGAIN", "Proxy")
_ANY_MACHINE = ("--only-binary=:all:", "--implementation=py", "--abi=none", "--platform=any")


def cargo_folder() -> Path:
    """Return the folder that caches downloads: ``QFLOW_CARGO`` if it is set, or one in the user's cache."""
    chosen = os.environ.get("QFLOW_CARGO")
    if chosen:
        return Path(chosen).expanduser().absolute()
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches, "qflow").absolute()


def require_pip() -> None:
    """Refuse an environment without pip, such as one that uv created, before any download."""
    if find_spec("pip") is None:
        raise RefusalError("pip is needed for this, and is not installed here: python -m ensurepip")


def find_package(keep: Path) -> Path:
    """Return the folder for Pyodide's package in a cache folder; refuse if it is empty and npm is missing."""
    package = keep / f"pyodide-{VERSION}"
    if not (package / "pyodide-lock.json").exists() and shutil.which("npm") is None:
        raise RefusalError(
            f"Pyodide is fetched with npm, which is not installed here; install Node.js, or put npm's "
            f"package pyodide@{VERSION}, unpacked, into {package}."
        )
    return package


def fetch(keep: Path) -> tuple[Path, Path, Path]:
    """Fetch the missing external packages of a site into a cache folder; return the three folders."""
    # The folders are those of Pyodide's package, the kernel's libraries, and the packages that notebooks
    # install.
    package = find_package(keep)
    if not (package / "pyodide-lock.json").exists():
        _unpack(_npm_pack(f"pyodide@{VERSION}", keep), package)
    packages = json.loads((package / "pyodide-lock.json").read_text(encoding="utf-8"))["packages"]
    wanted = [f"{packages[name]['name']}=={packages[name]['version']}" for name in _LIBRARIES]
    libraries = _fetch_wheels(wanted, keep / f"pyodide-{VERSION}-wheels")
    return package, libraries, _fetch_wheels(_IN_THE_BROWSER, keep / "browser-wheels")


def _fetch_wheels(wanted: Sequence[str], folder: Path) -> Path:
    """Fetch wheels for Pyodide, without dependencies, into a folder unless it has them; return the folder."""
    done = folder / ".complete"
    if done.exists() and done.read_text(encoding="utf-8").split("\n") == list(wanted):
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    options = ["--quiet", "--no-deps", *_ANY_MACHINE, f"--python-version={_PYTHON}", "--dest", str(folder)]
    run([sys.executable, "-m", "pip", "download", *options, *wanted])
    done.write_text("\n".join(wanted), encoding="utf-8")
    return folder


def find_checkout() -> Path:
    """Return the checkout from which qflow's own wheel is built; refuse outside a checkout."""
    root = nearest_checkout() or origin_folder()
    if root is None:
        raise RefusalError("qflow's wheel is built from its checkout; run this command in one.")
    return root


def build_wheel(folder: Path) -> None:
    """Build qflow's wheel from its checkout into a folder, as pure Python for any machine and any browser."""
    root = find_checkout()
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(OWN):
        old.unlink()
    # A compiled engine would run only on machines like this one; see hatch_build.py.
    environment = {**os.environ, "QFLOW_COMPILE": "0"}
    # If hatchling is installed, pip need not download it for the build.
    options = ["--no-build-isolation"] if find_spec("hatchling") else []
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", *options, "-w", str(folder)]
    run([*command, str(root)], environment=environment)


def write_engine(wheel: Path, archive: Path) -> None:
    """Write an archive of qflow's wheel without notebooks and recordings, for the Python of a page."""
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as engine:
        for entry in whole.infolist():
            if not entry.filename.startswith(_LEFT_OUT):
                engine.writestr(entry, whole.read(entry))


def write_widgets(site: Path, archive: Path) -> None:
    """Write an archive of the libraries that the labs of a page need besides qflow, from a site's wheels."""
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as held:
        for name in _IN_A_PAGE:
            folder = site / ("static/pyodide" if name in _LIBRARIES else "pypi")
            with zipfile.ZipFile(_wheel_of(name, folder)) as whole:
                for entry in whole.infolist():
                    # Leave out the scripts that only JupyterLab loads.
                    if ".data/" not in entry.filename and "extension/" not in entry.filename:
                        held.writestr(entry, whole.read(entry))


def claim(folder: Path, what: str) -> None:
    """Create a folder for a kind of build, such as "site", and mark it as one that the kit may overwrite."""
    refuse_strangers(folder, what)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).write_text(f"{what}\n", encoding="utf-8")


def refuse_strangers(folder: Path, what: str) -> None:
    """Refuse a folder unless it is missing, empty, or marked by :func:`claim` for the same kind of build."""
    try:
        is_own = (folder / MARK).read_text(encoding="utf-8") == f"{what}\n"
    except OSError:
        is_own = False
    if folder.exists() and not is_own and not (folder.is_dir() and not any(folder.iterdir())):
        raise RefusalError(
            f"{folder} holds something that is not a {what} of qflow; choose another with --out."
        )


def megabytes(folder: Path) -> float:
    """Return the size of a folder in millions of bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def run(
    command: Sequence[str], *, folder: Path | None = None, environment: dict[str, str] | None = None
) -> None:
    """Run another program to completion; refuse with the last line of its output if it fails."""
    quiet: dict[str, Any] = {"capture_output": True, "text": True, "check": False}
    try:
        done = subprocess.run(command, cwd=folder, env=environment, **quiet)
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
    # On Windows npm is npm.cmd, which can be started only by its full path.
    npm = str(shutil.which("npm"))
    run([npm, "pack", package, "--silent", "--pack-destination", str(folder)])
    return folder / f"{package.replace('@', '-')}.tgz"


def _unpack(archive: Path, target: Path) -> None:
    with tarfile.open(archive) as tar:
        tar.extractall(target, filter="data")
    # npm puts everything in a package into a folder named "package".
    for path in (target / "package").iterdir():
        path.rename(target / path.name)
    (target / "package").rmdir()
    archive.unlink()
