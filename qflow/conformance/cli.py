"""``qflow conform FILE.jsonl …``: play recorded scenarios on the engine and print where it differs."""

from __future__ import annotations

import argparse
import json
import sys
from itertools import chain
from typing import Any

from qflow.arguments import add_json
from qflow.conformance.scenario_player import check_file
from qflow.progress import progress


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add the command ``conform`` to the parser of ``qflow``."""
    parser = rooms.add_parser(
        "conform",
        description="Play recorded scenarios against the engine; status 0 only if all of them agree.",
    )
    parser.add_argument("recordings", nargs="+", metavar="FILE.jsonl", help="a file of recorded scenarios")
    add_json(parser, "each scenario's verdict")


def run(chosen: argparse.Namespace) -> int:
    """Play the files and print the verdicts, with ``--json`` as lines of JSON; return the exit status."""
    total = agreeing = 0
    with progress("playing", unit="scenarios") as shown:
        for verdict in chain.from_iterable(map(check_file, chosen.recordings)):
            total += 1
            agreeing += verdict.agrees
            if chosen.json or not verdict.agrees:
                shown.end()
                print(json.dumps(verdict.asdict()) if chosen.json else verdict.text())
            shown(total)
    # With --json a program reads standard output, which then has the verdicts only.
    print(f"agree: {agreeing} of {total} scenarios", file=sys.stderr if chosen.json else sys.stdout)
    return 0 if agreeing == total else 1
