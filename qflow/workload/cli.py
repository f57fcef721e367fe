"""``qflow run``: run a workload file and say what happened; write it down as a trace, if asked to."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.arguments import add_json, add_seed, add_workload
from qflow.kit import INTERRUPTED
from qflow.progress import ProgressLine, progress
from qflow.writing import require_apart

if TYPE_CHECKING:
    from qflow.workload.model import Workload
    from qflow.workload.simulate import Run


def add_arguments(rooms: argparse._SubParsersAction[Any]) -> None:
    """Add ``run`` to the commands of a parser; the engine is not loaded for that."""
    parser = rooms.add_parser(
        "run",
        description="Run a workload in virtual time. Ctrl-C stops it in good order: what has happened so "
        "far is printed and written, and the status is 130.",
    )
    add_workload(parser)
    add_seed(parser)
    parser.add_argument("--trace", metavar="OUT", help="write all events: .parquet, .jsonl or .jsonl.gz")
    add_json(parser)


def run(namespace: argparse.Namespace) -> int:
    """Run a workload file and print a summary."""
    from qflow.workload.model import Workload

    if namespace.trace:
        check_target(Path(namespace.trace))
        require_apart([namespace.trace], [namespace.workload])
    workload = Workload.load(namespace.workload)
    if namespace.seed is not None:
        workload = workload.with_seed(namespace.seed)
    look_over(workload, "qflow run")
    made, is_whole = _simulate(workload)
    if namespace.trace:
        write_run(made, namespace.trace)
    summary = {**_summarise(made), "interrupted": not is_whole}
    print(json.dumps(summary) if namespace.json else _text(summary))
    return 0 if is_whole else INTERRUPTED


def look_over(workload: Workload, command: str) -> None:
    """Refuse a declare argument that the broker cannot convert; warn of those that it ignores."""
    from qflow.broker.errors import AmqpException, InvalidConversion
    from qflow.broker.settings import QueueSettings
    from qflow.configuration.declaration import ignored_arguments
    from qflow.workload.attributes import WorkloadError

    for queue, arguments in workload.queues.items():
        for key, value in arguments.items():
            try:
                QueueSettings.from_arguments({key: value})
            except InvalidConversion as error:
                raise WorkloadError(f"queue {queue!r}, {key!r}: {error}") from None
            except AmqpException:
                # It may make sense beside the others, and if not the broker says so.
                continue
    for queue, arguments in workload.queues.items():
        for sentence in ignored_arguments(arguments):
            print(f"{command}: queue {queue!r}: {sentence}", file=sys.stderr)


def _simulate(workload: Workload) -> tuple[Run, bool]:
    from qflow.workload.simulate import simulate_in_slices

    shown = ProgressLine("running", ceil(workload.duration), unit="s")

    def report(time: int, count: int) -> None:
        # A run goes on after its duration, until what was sent has been consumed.
        shown.remark = f", {count} events"
        shown(time // 1_000_000)

    try:
        made, is_whole = simulate_in_slices(workload, report)
    finally:
        shown.end()
    if not is_whole:
        # What is left to do can take a while; Ctrl-C has been heard.
        print(f"interrupted at {made.end / 1_000_000:g} s: summing up what has happened", file=sys.stderr)
    return made, is_whole


def _summarise(run: Run) -> dict[str, Any]:
    """Return a summary of a run, ready for JSON: measures to the last event, counts of each client."""
    from qflow.workload.measures import meters_of, queue_measures
    from qflow.workload.model import Senders

    kinds = {
        "message.transfer": "sent",
        "client.block": "blocks",
        "message.accept": "accepts",
        "unroutable": "unroutable",
    }
    producers, consumers = run.workload.producers, run.workload.consumers
    counts: Counter[tuple[str, str]] = Counter()
    senders = Senders(producers)
    for event in run.events:
        if event.kind in kinds:
            name = senders.of(event.session, event.message) or event.session
            counts[name, kinds[event.kind]] += 1
    sent = {p.name: {what: counts[p.name, what] for what in ("sent", "blocks")} for p in producers}
    meters = meters_of(run.events, run.workload, run.end)
    measures = {name: meter.measures(run.end) if run.end else {} for name, meter in meters.items()}
    return {
        "workload": run.workload.name,
        "seconds": run.end / 1_000_000,
        "events": len(run.events),
        "queues": queue_measures(run.events, run.workload, run.end) if run.end else {},
        "producers": {name: counted | measures[name] for name, counted in sent.items()},
        "consumers": {c.name: {"accepts": counts[c.name, "accepts"]} for c in consumers},
        "errors": {name: str(error) for name, error in run.errors.items()},
        "unroutable": {p.name: count for p in producers if (count := counts[p.name, "unroutable"])},
    }


def _text(summary: dict[str, Any]) -> str:
    from qflow.workload.measures import measures_text

    until = ", interrupted" if summary["interrupted"] else ""
    lines = [f"{summary['workload']}: {summary['seconds']:g} s, {summary['events']} events{until}"]
    for section in ("queues", "producers", "consumers"):
        for name, values in summary[section].items():
            lines.append(f"{section.removesuffix('s')} {name}: {measures_text(values)}")
    lines += [f"{client} ended by {error}" for client, error in summary["errors"].items()]
    for name, count in summary["unroutable"].items():
        sent = summary["producers"][name]["sent"]
        lines.append(f"{count} of {sent} messages of {name} reached no queue, as no binding matched (EX-08)")
    return "\n".join(lines)


def check_target(path: Path) -> None:
    """Refuse a trace that cannot be written before the run, not after it."""
    from qflow.trace.files import ENDINGS
    from qflow.workload.attributes import WorkloadError

    if not path.name.endswith(ENDINGS):
        raise WorkloadError(f"{path}: a trace is a .parquet, .jsonl or .jsonl.gz file")
    if not path.parent.is_dir():
        raise WorkloadError(f"{path}: there is no folder {path.parent} to write a trace to")
    if path.is_dir():
        raise WorkloadError(f"{path}: a trace is a file, and this is a folder")


def write_run(made: Run, path: str) -> None:
    """Write a run as a trace."""
    from qflow.trace.files import write_trace
    from qflow.trace.replaying import trace_of

    with progress(f"writing {Path(path).name}", len(made.events)) as shown:
        write_trace(trace_of(made), path, shown)
