"""``qflow doctor``: whether this machine is ready for the kit, and if not, what cures it.

Each check is a function that looks at one thing and returns what it found. None of them changes anything,
asks the network, or needs a package outside the standard library, since what is missing may be the trouble.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from qflow.launch import jupyter_checks, machine_checks, spark_checks
from qflow.launch.findings import Finding

Check = Callable[[Path], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    machine_checks.python,
    machine_checks.packages,
    machine_checks.kit,
    machine_checks.shadowing_files,
    jupyter_checks.kernel,
    jupyter_checks.extensions,
    jupyter_checks.folders,
    machine_checks.folder,
    machine_checks.memory,
    machine_checks.loopback,
    machine_checks.browser,
    spark_checks.java_and_packages,
)


def examine(folder: Path, *, spark: bool = False) -> list[Finding]:
    """Look at everything the kit depends on.

    Parameters
    ----------
    folder : pathlib.Path
        Where the learner will work.
    spark : bool
        Whether chapter 13 has to run too; otherwise what only Spark needs is advice.

    Returns
    -------
    list of Finding
        In the order in which they are best cured.

    Examples
    --------
    >>> {finding.verdict for finding in examine(Path(".")) if finding.subject == "Python"}
    {'good'}
    """
    findings: list[Finding] = []
    for check in CHECKS:
        try:
            findings.extend(check(folder))
        except Exception as problem:  # a check that cannot look is a finding too, and no reason to stop
            name = check.__name__.replace("_", " ")
            findings.append(
                Finding(name, "bad", f"could not be looked at: {problem}", "Tell whoever gave you this kit.")
            )
    if spark:
        return findings
    return [
        _as_advice(finding) if finding.subject in spark_checks.SUBJECTS else finding for finding in findings
    ]


def _as_advice(finding: Finding) -> Finding:
    if finding.verdict != "bad":
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
        print(json.dumps([finding.data() for finding in findings], indent=1))
        return int(bool(bad))
    print(f"{platform.platform()}, {sys.executable}")
    for finding in findings:
        print(finding)
    if bad:
        print(f"{len(bad)} to cure before the kit works here: {', '.join(f.subject for f in bad)}.")
    else:
        print(
            "This machine is ready."
            + ("" if chosen.spark else " For chapter 13 as well: qflow doctor --spark.")
        )
    return int(bool(bad))
