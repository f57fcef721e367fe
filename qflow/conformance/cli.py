"""``qflow conform FILE.jsonl …``: play recordings and print where the engine differs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import chain

from qflow.conformance.report import check_file
from qflow.conformance.scenario import ScenarioError
from qflow.progress import progress


def run(paths: Sequence[str], as_json: bool = False) -> int:
    """Play the files and print the verdicts.

    With ``as_json`` each verdict is a line of JSON, and the count goes to standard error.
    """
    total = agreeing = 0
    try:
        with progress("playing", unit="scenarios") as shown:
            for verdict in chain.from_iterable(map(check_file, paths)):
                total += 1
                agreeing += verdict.agrees
                if as_json or not verdict.agrees:
                    shown.end()
                    print(json.dumps(verdict.asdict()) if as_json else verdict.text())
                shown(total)
    except ScenarioError as error:
        print(f"qflow conform: {error}", file=sys.stderr)
        return 2
    # Standard output is for the verdicts alone, if a program is to read them.
    print(f"agree: {agreeing} of {total} scenarios", file=sys.stderr if as_json else sys.stdout)
    return 0 if agreeing == total else 1
