"""``python -m qflow.maintain``: builds notebooks and pages from their sources, and checks them.

``build`` writes them. ``check`` compares them with a fresh build, and ends with status 1 if anything differs.
The README's moving picture can only be written.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from qflow.cli import Parser, run_guarded
from qflow.maintain import checkout

_PICTURE = Path("notebooks") / "images" / "flow.gif"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status, as :func:`qflow.cli.main` does."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return run_guarded(lambda: _answer(given))


def _answer(given: list[str]) -> int:
    checkout()
    chosen = _parser().parse_args(given)
    status: int = chosen.work(chosen)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m qflow.maintain", description="What maintainers of qflow run.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for kind, what, work in (
        ("notebooks", "the chapters from their text sources", _notebooks),
        ("exercises", "the exercises, tasks and solutions, from their text sources", _notebooks),
        ("reference", "the reference pages that are read off the code", _pages),
        ("glossary", "the page of data/glossary.csv", _pages),
    ):
        named = commands.add_parser(kind, help=f"build or check {what}")
        actions = named.add_subparsers(dest="action", metavar="ACTION", required=True)
        building = actions.add_parser("build", help=f"write {what}")
        checking = actions.add_parser("check", help=f"compare {what} with a fresh build")
        for action in (building, checking):
            action.set_defaults(work=work)
            if work is _notebooks:
                example = "such as 01-thresholds; default: all"
                action.add_argument("names", nargs="*", metavar="NAME", help=example)
                action.add_argument("--dir", metavar="FOLDER", help=f"their folder; default: {kind}")
    picture = commands.add_parser("moving-picture", help="write the README's moving picture")
    picture.add_argument("file", nargs="?", metavar="FILE.gif", help=f"default: {_PICTURE.as_posix()}")
    picture.set_defaults(work=_picture)
    return parser


def _notebooks(chosen: argparse.Namespace) -> int:
    from qflow.maintain import notebooks

    work = notebooks.build if chosen.action == "build" else notebooks.check
    return work(chosen.names, folder=chosen.dir, kind=chosen.command)


def _pages(chosen: argparse.Namespace) -> int:
    from qflow.maintain import reference

    if chosen.action == "build":
        print(f"written: {', '.join(reference.build(chosen.command)) or 'nothing, all is as it was'}")
        return 0
    problems = reference.stale(chosen.command)
    for name in problems:
        again = f"build it again with: python -m qflow.maintain {chosen.command} build"
        print(f"{name} differs from its source; {again}", file=sys.stderr)
    if not problems:
        print(f"{chosen.command}: all is as it would be built")
    return int(bool(problems))


def _picture(chosen: argparse.Namespace) -> int:
    from qflow.maintain.moving_picture import write

    print(f"written: {write(Path(chosen.file) if chosen.file else checkout() / _PICTURE)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
