"""How the programs of the table of clients are run, here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec

import pytest

from qflow.kit import kit_path

PROGRAMS = kit_path("data") / "clients"


def client_command(program, *manner):
    """Return how to run a program of the table, or skip where its library is not installed."""
    stem, _, kind = program.partition(".")
    if kind == "js":
        package = stem.rsplit("_", 1)[0].replace("_", "-")
        node = shutil.which("node")
        if not node or subprocess.run([node, "-e", f"require('{package}')"], capture_output=True).returncode:
            pytest.skip(f"Node or its package {package} is not here; NODE_PATH names a folder that has it")
        return [node, str(PROGRAMS / program), *manner]
    library = _LIBRARIES.get(stem.split("_")[0], "proton")
    if find_spec(library.partition(".")[0]) is None or find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    return [sys.executable, str(PROGRAMS / program)]


_LIBRARIES = {"pyamqp": "azure.servicebus", "uamqp": "uamqp"}
