"""``qflow conform FILE.jsonl …``: play recordings and print where the engine differs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from qflow.conformance.report import Verdict, check_file
from qflow.conformance.scenario import ScenarioError


def run(paths: Sequence[str], as_json: bool = False) -> int:
    """Play the files and print the verdicts.

    Parameters
    ----------
    paths : sequence of str
        Scenario files.
    as_json : bool
        Print one JSON object for each scenario instead of text.

    Returns
    -------
    int
        0 if all agree, 1 if one does not, 2 if a file cannot be read.
    """
    total = agreeing = 0
    for path in paths:
        try:
            for verdict in check_file(path):
                total += 1
                agreeing += verdict.agrees
                _print(verdict, as_json)
        except ScenarioError as error:
            print(f"qflow conform: {error}", file=sys.stderr)
            return 2
    print(f"agree: {agreeing} of {total} scenarios")
    return 0 if agreeing == total else 1


def _print(verdict: Verdict, as_json: bool) -> None:
    if as_json:
        print(json.dumps(verdict.asdict()))
    elif not verdict.agrees:
        print(verdict.text())
