"""``qflow exercises``: the learner's progress."""

from __future__ import annotations

import argparse
from typing import Any


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``exercises`` to the commands of a parser; no notebook software is loaded for that."""
    parser = rooms.add_parser(
        "exercises",
        help="show which exercises you have solved, and how your predictions went",
        description="Show which exercises are solved, with how many tries and hints, and how the predictions "
        "went.",
    )
    parser.add_argument("action", nargs="?", choices=("progress",), help="progress, which is the default too")


def run(namespace: argparse.Namespace) -> int:
    """Show the progress; return 0."""
    from qflow.teaching.checking import show_progress

    show_progress()
    return 0
