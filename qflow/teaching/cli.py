"""``qflow exercises``: build and check the exercises, and show the learner's progress."""

from __future__ import annotations

import argparse
from typing import Any


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``exercises`` to the commands of a parser; no notebook software is loaded for that."""
    parser = rooms.add_parser(
        "exercises",
        help="show your progress; build the exercises, or check them against their sources",
        description="Without an action it shows your progress. Exercises are built from exercises/sources.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    where = "the folder of exercises; default: the checkout's"
    for name, what in (
        ("build", "write tasks and solutions from their sources, and run the solutions"),
        ("check", "fail if a task or a solution is not what its source says"),
    ):
        action = actions.add_parser(name, help=what, description=f"{what[0].upper()}{what[1:]}.")
        action.add_argument("names", nargs="*", metavar="NAME", help="such as 01-thresholds; default: all")
        action.add_argument("--dir", metavar="FOLDER", help=where)
    mapped = actions.add_parser(
        "sentences",
        help="write the table of the documents' sentences and the cells that run them",
        description="Write the table of the documents' sentences and the cells that run them.",
    )
    mapped.add_argument(
        "--documents", metavar="FOLDER", help="copies of the documents, to find what is missing"
    )
    actions.add_parser("glossary", help="write the glossary's page", description="Write the glossary's page.")
    actions.add_parser("progress", help="show which exercises are solved", description="Show your progress.")


def run(namespace: argparse.Namespace) -> int:
    """Do what was asked; return the exit status."""
    if namespace.action in (None, "progress"):
        from qflow.teaching.learner import show_progress

        show_progress()
        return 0
    if namespace.action == "glossary":
        from qflow.teaching import glossary

        return glossary.run()
    if namespace.action == "sentences":
        from qflow.maintain import sentence_map

        return sentence_map.run(namespace.documents)
    from qflow.maintain import notebooks as exercise_notebooks

    work = exercise_notebooks.build if namespace.action == "build" else exercise_notebooks.check
    return work(namespace.names, folder=namespace.dir)
