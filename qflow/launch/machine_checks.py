"""What the kit needs of the machine itself: Python, packages, room, a browser."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Collection, Iterator
from importlib.util import find_spec
from pathlib import Path

from qflow.kit import RefusalError, kit_path
from qflow.launch.browsers import BROWSERS
from qflow.launch.findings import Finding, good
from qflow.launch.memory import free_memory
from qflow.launch.packages import Need, needs_of

OLDEST_PYTHON = (3, 11)
MEMORY = 1.0
"""Gigabytes that JupyterLab and a few kernels want (measured: 0.4 for the book, and room to breathe)."""
ROOM = 0.2
"""Gigabytes of disk that the chapters and what they write want."""

_PARTS = {"sqlite3": "JupyterLab keeps its history in it", "ssl": "pip fetches packages through it"}


def python(folder: Path) -> Iterator[Finding]:
    """Look whether Python is new enough, and complete."""
    version = sys.version_info[:3]
    here = f"Python {'.'.join(map(str, version))} runs here"
    if version < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        cure = f"Install Python {oldest} or newer, and make the environment anew with it."
        yield Finding("Python", "bad", f"{here}; qflow needs {oldest} or newer.", cure)
        return
    missing = [f"{name} ({why})" for name, why in _PARTS.items() if find_spec(f"_{name}") is None]
    if missing:
        cure = "Install a complete Python; one you built yourself was built without these libraries."
        yield Finding("Python", "bad", f"{here}, without {' and '.join(missing)}.", cure)
    else:
        yield good("Python", f"{here}.")


def packages(folder: Path) -> Iterator[Finding]:
    """Look for the packages of the extra ``lab``, in versions that work together."""
    yield from of_extra("packages", "lab")


def of_extra(subject: str, extra: str, besides: Collection[str] = ()) -> Iterator[Finding]:
    """Say which packages of an extra are missing or too old.

    Parameters
    ----------
    subject : str
        What to call it in the findings.
    extra : str
        The extra of qflow.
    besides : collection of str
        Packages that may be missing.
    """
    unmet = [need for need in needs_of(extra) if not need.is_met and need.name not in besides]
    if not unmet:
        yield good(subject, f"everything that qflow[{extra}] asks for is installed.")
        return
    said = ", ".join(_unmet(need) for need in unmet)
    yield Finding(subject, "bad", f"{said}.", f"pip install --upgrade 'qflow[{extra}]'")


def _unmet(need: Need) -> str:
    if need.installed is None:
        return f"{need.name} is missing"
    return f"{need.name} {need.installed} is installed, {need.wanted} is needed"


def kit(folder: Path) -> Iterator[Finding]:
    """Look whether the chapters and the recordings came with the installation."""
    try:
        chapters = len(list(kit_path("notebooks").glob("[0-9][0-9]-*.ipynb")))
        kit_path("data")
    except RefusalError as refusal:
        yield Finding("kit", "bad", str(refusal), "pip install --force-reinstall --no-deps qflow")
        return
    yield good("kit", f"{chapters} chapters and the recordings are here.")


def shadowing_files(folder: Path) -> Iterator[Finding]:
    """Look for files that Python would import in place of a module."""
    names = sys.stdlib_module_names | {
        "qflow",
        "anywidget",
        "ipywidgets",
        "plotly",
        "networkx",
        "jupyterlab",
        "pyspark",
    }
    shadows = sorted(path.name for path in _files(folder) if path.suffix == ".py" and path.stem in names)
    if shadows:
        cure = f"Rename {' and '.join(shadows)}, or work in another folder."
        yield Finding(
            "files", "bad", f"{', '.join(shadows)} in {folder} hide modules of the same name.", cure
        )


def _files(folder: Path) -> list[Path]:
    try:
        return [path for path in folder.iterdir() if path.is_file()]
    except OSError:
        return []  # told by the check of the folder


def folder(folder: Path) -> Iterator[Finding]:
    """Look whether the learner's folder can be written, and has room."""
    elsewhere = "Work in a folder of your own, or name one with --dir FOLDER."
    if not folder.is_dir():
        yield Finding("folder", "bad", f"{folder} is no folder.", elsewhere)
        return
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as problem:
        yield Finding("folder", "bad", f"{folder} cannot be written ({problem.strerror}).", elsewhere)
        return
    free = shutil.disk_usage(folder).free / 1e9
    if free < ROOM:
        cure = f"Make {ROOM:.1f} GB free, or work on another disk."
        yield Finding("folder", "bad", f"{free:.2f} GB are free on the disk of {folder}.", cure)
    else:
        yield good("folder", f"{folder} can be written, {free:.0f} GB are free.")


def memory(folder: Path) -> Iterator[Finding]:
    """Look for memory for JupyterLab and a kernel or two."""
    free = free_memory()
    if free is None:
        yield good("memory", "this system does not say how much is free.")
    elif free < MEMORY:
        cure = "Close other programs, above all browser tabs and virtual machines."
        yield Finding("memory", "bad", f"{free:.1f} GB are free, {MEMORY:.0f} GB are needed.", cure)
    else:
        yield good("memory", f"{free:.1f} GB are free.")


def loopback(folder: Path) -> Iterator[Finding]:
    """Look whether a program can listen on this machine's own address, and be reached there."""
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(5)
            with socket.create_connection(server.getsockname(), timeout=5):
                pass
            port = server.getsockname()[1]
    except OSError as problem:
        cure = "Allow Python to listen on 127.0.0.1 in your firewall or security software."
        yield Finding("ports", "bad", f"127.0.0.1 cannot be used ({problem}).", cure)
        return
    yield good("ports", f"a program can listen on 127.0.0.1 (tried port {port}).")
    proxies = [
        name for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY") if os.environ.get(name)
    ]
    exempt = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if proxies and not {"127.0.0.1", "localhost", "*"} & {name.strip() for name in exempt.split(",")}:
        found = f"{proxies[0]} is set, and NO_PROXY does not exempt this machine."
        yield Finding("proxy", "advice", found, "export NO_PROXY=localhost,127.0.0.1")


def browser(folder: Path) -> Iterator[Finding]:
    """Look for a browser."""
    for name in BROWSERS:
        path = shutil.which(name)
        if path:
            yield good("browser", f"{path} is here.")
            return
    try:
        webbrowser.get()
    except webbrowser.Error:
        cure = (
            "Install Firefox, Chrome, Chromium or Edge; or start with `qflow lab --no-browser` and open the "
            "address it prints in a browser elsewhere on this machine."
        )
        yield Finding("browser", "bad", "no browser was found.", cure)
        return
    yield good("browser", "this system names one.")
