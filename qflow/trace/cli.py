"""``qflow trace info|replay|diff|why …``: look at traces, replay them, lay two side by side, ask why."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.trace.audit import cli as importing
from qflow.trace.explain import cli as why
from qflow.trace.progress import progress

if TYPE_CHECKING:
    from qflow.trace.quarantine import Quarantine
    from qflow.trace.schema import Trace

# What does the work is imported by the functions below: a command line that asks for something else
# shall not wait for it.

SHOWN = 5


def add_arguments(subparsers: Any) -> None:
    """Add ``trace`` to the rooms of the command line."""
    trace = subparsers.add_parser(
        "trace",
        help="look at traces, replay them, and lay two side by side",
        description="A trace is a .parquet, .jsonl or .jsonl.gz file: each command and each effect of a run.",
    )
    actions = trace.add_subparsers(dest="action", metavar="ACTION", required=True)
    info = actions.add_parser(
        "info",
        help="say what is in a trace, and which rows make no sense",
        description="Say what is in a trace; status 1 if a row makes no sense.",
    )
    info.add_argument("files", nargs="+", metavar="FILE", help="a trace")
    info.add_argument("--json", action="store_true", help="print one JSON object for each file")
    info.add_argument("--quarantine", metavar="OUT.jsonl", help="write the rows that make no sense to a file")
    replay = actions.add_parser(
        "replay",
        help="give a trace's commands to the engine and compare what it does",
        description="Give a trace's commands to the engine; status 0 if its own events come back.",
    )
    replay.add_argument("file", metavar="FILE", help="a trace")
    replay.add_argument("-o", "--output", metavar="OUT", help="write what the engine did as a trace")
    diff = actions.add_parser(
        "diff",
        help="say where two traces part and how the runs differ",
        description="Say where two traces part and how the runs differ, queue by queue; status 1 if they do.",
    )
    diff.add_argument("first", metavar="FIRST", help="a trace")
    diff.add_argument("second", metavar="SECOND", help="another")
    why.add_arguments(actions)
    importing.add_arguments(actions)


def run(namespace: argparse.Namespace) -> int:
    """Do what was asked for.

    Returns
    -------
    int
        0 if all is well, 1 if rows make no sense or traces differ.

    Raises
    ------
    RefusalError
        If a file holds no trace, in one sentence.
    """
    from qflow.trace.schema import TraceError

    try:
        if namespace.action == "info":
            return _info(namespace.files, namespace.json, namespace.quarantine)
        if namespace.action == "replay":
            return _replay(namespace.file, namespace.output)
        if namespace.action == "why":
            return why.run(namespace)
        if namespace.action == "import":
            return importing.run(namespace)
        return _diff(namespace.first, namespace.second)
    except TraceError as error:
        raise RefusalError(str(error)) from None


def _read(file: str) -> tuple[Trace, Quarantine]:
    from qflow.trace.files import read_trace

    with progress(f"reading {Path(file).name}") as shown:
        return read_trace(file, shown)


def _read_to_use(file: str) -> Trace:
    """Read a trace to go on with; say what is missing from it."""
    trace, quarantine = _read(file)
    if quarantine:
        print(f"{Path(file).name}: {quarantine.summary()}", file=sys.stderr)
    return trace


def _info(files: list[str], as_json: bool, output: str | None) -> int:
    from qflow.trace.quarantine import Quarantine

    everything = Quarantine()
    for file in files:
        trace, quarantine = _read(file)
        everything += quarantine
        if as_json:
            print(json.dumps(_facts(file, trace, quarantine)))
        else:
            _print_facts(file, trace, quarantine)
    if output is not None:
        everything.write(output)
    return 1 if everything else 0


def _facts(file: str, trace: Trace, quarantine: Quarantine) -> dict[str, Any]:
    from qflow.trace.diff import summarize

    return {
        "file": Path(file).name,
        "run": trace.run,
        "rows": len(trace),
        "expected": trace.expected,
        "first_us": trace.time[0] if len(trace) else None,
        "last_us": trace.time[-1] if len(trace) else None,
        "has_workload": trace.workload is not None,
        "kinds": dict(Counter(trace.kind).most_common()),
        "queues": {name: summary.values() for name, summary in summarize(trace).items()},
        "quarantine": [entry._asdict() for entry in quarantine],
    }


def _print_facts(file: str, trace: Trace, quarantine: Quarantine) -> None:
    from qflow.trace.diff import summarize

    last = trace.time[-1] / 1_000_000 if len(trace) else 0
    print(f"{Path(file).name}: run {trace.run!r}, {len(trace)} rows, {last:g} s")
    if trace.workload is not None:
        clients = f"{len(trace.workload.producers)} producers, {len(trace.workload.consumers)} consumers"
        print(f"  workload {trace.workload.name!r}: {clients}")
    for name, summary in summarize(trace).items():
        values = summary.values()
        values["time_on_us"] = values.pop("time_on")
        print(f"  queue {name}: {', '.join(f'{key} {value}' for key, value in values.items())}")
    kinds = Counter(trace.kind).most_common(SHOWN)
    print(f"  most rows: {', '.join(f'{kind} {count}' for kind, count in kinds) or 'none'}")
    if quarantine:
        print(f"  {quarantine.summary()}")
    for entry in quarantine[1:SHOWN]:
        print(f"    {entry.text()}")
    if len(quarantine) > SHOWN:
        print(f"    … and {len(quarantine) - SHOWN} more; --quarantine OUT.jsonl writes them all")


def _replay(file: str, output: str | None) -> int:
    from qflow.trace.replay_trace import Replay

    trace = _read_to_use(file)
    replay = Replay(trace)
    try:
        with progress(f"replaying {Path(file).name}", len(trace)) as shown:
            replay.run(progress=shown)
    finally:
        # After Ctrl-C too: what the engine has done until then is a trace, marked as cut off.
        if output is not None:
            _write(replay.trace, output)
    difference = replay.difference()
    if difference is None:
        print(f"{Path(file).name}: replayed; all {len(trace)} rows came back exactly")
        return 0
    where = difference.text("the trace", "the engine")
    print(f"{Path(file).name}: the engine differs from the trace at {where}")
    return 1


def _write(trace: Trace, output: str) -> None:
    from qflow.trace.files import write_trace

    with progress(f"writing {Path(output).name}", len(trace)) as shown:
        write_trace(trace, output, shown)


def _diff(first: str, second: str) -> int:
    from qflow.trace.diff import compare

    comparison = compare(_read_to_use(first), _read_to_use(second))
    for line in comparison.lines(*_names(first, second)):
        print(line)
    return 0 if comparison.parting is None else 1


def _names(first: str, second: str) -> tuple[str, str]:
    names = Path(first).name, Path(second).name
    return names if names[0] != names[1] else (first, second)
