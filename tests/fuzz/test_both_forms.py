"""The two forms of the engine come to the same: values, words, events and hashes of the same programs.

The compiled form is found in the folder that ``QFLOW_TEST_COMPILED`` names, or it is the one that is running
these tests; the readable one is in the sources beside it. ``QFLOW_PROGRAMS`` says how many are run, from
``QFLOW_FIRST_PROGRAM`` on.
"""

import difflib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from pathlib import Path

import programs
import pytest
from programs import COMPILED, FORMS, KINDS

from qflow.kit import form

HERE = Path(__file__).resolve().parent
WEIGHT = sum(weight for weight, _ in KINDS.values())


@pytest.fixture(scope="module")
def places(root) -> dict[str, Path]:
    """Where each form is imported from."""
    if form() == COMPILED:
        return dict.fromkeys(FORMS, root)
    installed = Path(os.environ.get("QFLOW_TEST_COMPILED") or "no folder")
    if not (installed / "qflow").is_dir():
        pytest.skip("there is no compiled form here; QFLOW_TEST_COMPILED names its folder")
    return {**dict.fromkeys(FORMS, root), COMPILED: installed}


def play(places: dict[str, Path], name: str, kind: str, first: int, count: int) -> subprocess.Popen[str]:
    """Begin to run programs in one form."""
    path = os.pathsep.join(map(str, (places[name], HERE, HERE.parent)))
    command = [sys.executable, "-P", str(HERE / "programs.py"), name, kind, str(first), str(count)]
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def differences(places: dict[str, Path], kind: str, first: int, count: int, most: int = 3) -> list[str]:
    """Run programs in both forms; return how the first that differ do."""
    both = [play(places, name, kind, first, count) for name in FORMS]
    # Each is read while it runs: one that is not would wait when its pipe is full.
    with ThreadPoolExecutor() as pool:
        outputs = list(pool.map(subprocess.Popen.communicate, both))
    for process, (_, problems) in zip(both, outputs, strict=True):
        if process.returncode:
            return [f"{process.args[3:]} ended with {process.returncode}: {problems[-2000:]}"]
    digests = [printed.splitlines() for printed, _ in outputs]
    assert len(digests[0]) == count
    found = []
    for number, (one, other) in enumerate(zip_longest(*digests), first):
        if one != other and len(found) < most:
            shown = [play(places, name, kind, number, 0).communicate()[0].splitlines() for name in FORMS]
            lines = difflib.unified_diff(*shown, *FORMS, lineterm="", n=1)
            found.append("\n".join((f"{kind} {number}: {shown[0][0]}", *lines)))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_both_forms_come_to_the_same(places, kind):
    programs = int(os.environ.get("QFLOW_PROGRAMS", 4_000))
    count = programs * KINDS[kind][0] // WEIGHT
    first = int(os.environ.get("QFLOW_FIRST_PROGRAM", 0))
    assert not (found := differences(places, kind, first, count)), "\n\n".join(found)


@pytest.mark.parametrize("kind", KINDS)
def test_programs_are_not_all_alike(kind):
    """Nor do most come to one and the same refusal."""
    outcomes = ["".join(programs.outcome(kind, number)[1:]) for number in range(60)]
    assert len(set(outcomes)) > 12
    assert max(map(outcomes.count, outcomes)) < 30
