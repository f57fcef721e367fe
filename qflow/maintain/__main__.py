"""``python -m qflow.maintain``: builds what is made from sources, checks that it still agrees, and measures.

A builder writes with ``build`` and compares with ``check``, which ends with status 1 if anything differs.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from qflow.cli import Parser, guarded
from qflow.kit import RefusalError, install_command
from qflow.maintain import checkout

PICTURE = Path("notebooks") / "images" / "flow.gif"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status, as :func:`qflow.cli.main` does."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    return guarded(lambda: _answer(given))


def _answer(given: list[str]) -> int:
    checkout()
    chosen = _parser().parse_args(given)
    status: int = chosen.work(chosen)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m qflow.maintain", description="What maintainers of qflow run.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for kind, what in (("notebooks", "the chapters"), ("exercises", "the exercises, tasks and solutions,")):
        for action in _builder(commands, kind, f"{what} from their text sources", _notebooks):
            action.add_argument(
                "names", nargs="*", metavar="NAME", help="such as 01-thresholds; default: all"
            )
            action.add_argument("--dir", metavar="FOLDER", help=f"their folder; default: {kind}")
    _builder(commands, "reference", "the reference pages that are read off the code", _pages)
    _builder(commands, "glossary", "the page of data/glossary.csv", _pages)
    for action in _builder(commands, "sentences", "the table of the documents' sentences", _pages):
        action.add_argument("--documents", metavar="FOLDER", help="copies of them, to find what is missing")
    for action in _builder(commands, "moving-picture", "the README's moving picture", _picture):
        action.add_argument("file", nargs="?", metavar="FILE.gif", help=f"default: {PICTURE.as_posix()}")
    calibration = commands.add_parser(
        "calibration",
        help="predict all repeated recordings and write how often the intervals held",
        description="Writes notebooks/reference/calibration.md and its diagram. It takes some minutes.",
    )
    calibration.add_argument("--replays", type=int, metavar="N", help="of each; default: as qflow predict")
    calibration.set_defaults(work=_calibration)
    _add_benches(commands)
    return parser


def _builder(commands: Any, name: str, what: str, work: Any) -> Iterable[argparse.ArgumentParser]:
    actions = commands.add_parser(name, help=f"build or check {what}").add_subparsers(
        dest="action", metavar="ACTION", required=True
    )
    made = []
    for action, does in (("build", f"write {what}"), ("check", f"compare {what} with what would be built")):
        made.append(actions.add_parser(action, help=does))
        made[-1].set_defaults(work=work)
    return made


def _add_benches(commands: Any) -> None:
    bench = commands.add_parser(
        "bench",
        help="measure how fast the engine is here, beside SimPy and Ciw where they are installed",
        description="Rates, growth, ratios and memory of one run on this machine; compare ratios, not rates. "
        "It takes some minutes; --messages and --largest make it shorter.",
    )
    bench.add_argument("--messages", type=int, default=20_000, metavar="N", help="of each workload; from 100")
    bench.add_argument(
        "--largest", type=int, default=1_000_000, metavar="N", help="messages up to which growth is followed"
    )
    bench.set_defaults(work=_bench)
    spark = commands.add_parser("spark-bench", help="measure the audit on Spark: ratios in one run")
    spark.set_defaults(work=_spark_bench)
    for measured in (bench, spark):
        measured.add_argument("--json", action="store_true", help="print one JSON object")


def _notebooks(chosen: argparse.Namespace) -> int:
    from qflow.maintain import notebooks

    work = notebooks.build if chosen.action == "build" else notebooks.check
    return work(chosen.names, folder=chosen.dir, kind=chosen.command)


def _pages(chosen: argparse.Namespace) -> int:
    from qflow.maintain import reference, sentence_map

    problems = []
    if chosen.command == "sentences":
        problems = sentence_map.problems(checkout(), chosen.documents)
    if chosen.action == "build":
        print(f"written: {', '.join(reference.build(chosen.command)) or 'nothing, all is as it was'}")
    else:
        again = f"build it again with: python -m qflow.maintain {chosen.command} build"
        problems += [
            f"{name} is no longer what it is made from; {again}" for name in reference.stale(chosen.command)
        ]
    if chosen.action == "check" and not problems:
        print(f"{chosen.command}: all is as it would be built")
    for problem in problems:
        print(problem, file=sys.stderr)
    return int(bool(problems))


def _calibration(chosen: argparse.Namespace) -> int:
    from qflow.maintain import calibration

    made = calibration.build(checkout(), chosen.replays, lambda line: print(line, file=sys.stderr))
    print(f"written: {', '.join(path.relative_to(checkout()).as_posix() for path in made)}")
    return 0


def _picture(chosen: argparse.Namespace) -> int:
    from qflow.maintain import moving_picture

    path = Path(chosen.file) if chosen.file else checkout() / PICTURE
    if chosen.action == "build":
        print(f"written: {moving_picture.write(path)}")
        return 0
    problem = moving_picture.drift(path)
    if problem:
        print(problem, file=sys.stderr)
    return int(bool(problem))


def _bench(chosen: argparse.Namespace) -> int:
    from qflow.maintain.benchmark import measure, text_of
    from qflow.progress import Line

    if chosen.messages < 100 or chosen.largest < 1_000:
        raise RefusalError(
            f"--messages is a number from 100 and --largest one from 1000, "
            f"got {chosen.messages} and {chosen.largest}"
        )
    line = Line()
    results = measure(chosen.messages, chosen.largest, lambda name: line.show(f"{name} ..."))
    line.end()
    print(json.dumps(results, indent=2) if chosen.json else text_of(results))
    return 0


def _spark_bench(chosen: argparse.Namespace) -> int:
    if find_spec("pyspark") is None:
        raise RefusalError(f"the benchmark of Spark needs pyspark: {install_command('spark')}")
    from qflow.maintain.spark_benchmark import report_text, run_bench

    report = run_bench()
    print(json.dumps(report, indent=2) if chosen.json else report_text(report))
    return 0


if __name__ == "__main__":
    sys.exit(main())
