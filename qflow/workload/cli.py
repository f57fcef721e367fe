"""``qflow run``: run a workload file, print a summary, and with ``--trace`` write all events."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
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
    """Add the command ``run`` to the parser of ``qflow``, without loading the engine."""
    parser = rooms.add_parser(
        "run",
        description="Run a workload in virtual time. Ctrl-C stops it cleanly: the results so far are "
        "printed and written, and the exit status is 130.",
    )
    add_workload(parser)
    add_seed(parser)
    parser.add_argument("--trace", metavar="OUT", help="write all events: .parquet, .jsonl or .jsonl.gz")
    add_json(parser)


def run(namespace: argparse.Namespace) -> int:
    """Run a workload file and print a summary; return the exit status."""
    from qflow.workload.model import Workload

    if namespace.trace:
        from qflow.trace.files import check_target

        check_target(namespace.trace)
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
    """Raise WorkloadError for an argument that the broker cannot convert; warn of ones without effect."""
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
                # The argument may be valid together with the others; if not, the broker refuses the
                # declaration.
                continue
    for queue, arguments in workload.queues.items():
        for sentence in ignored_arguments(arguments):
            print(f"{command}: queue {queue!r}: {sentence}", file=sys.stderr)
    for sentence in _java_remarks(workload):
        print(f"{command}: {sentence}", file=sys.stderr)


def _java_remarks(workload: Workload) -> Iterator[str]:
    """Yield a warning for each reason why the Java broker's flow control would have no effect (ALT-12)."""
    from qflow.broker.history import ARGUMENT

    kind = workload.options.flow_control
    java = [name for name, one in workload.queues.items() if one.get(ARGUMENT, kind) == "java"]
    deaf = [producer.name for producer in workload.producers if not producer.obeys_flow]
    if java and deaf:
        yield (
            "flow_control 'java' only asks producers to stop (ALT-12); these have no \"obeys_flow\": true, "
            f"and do not: {', '.join(deaf)}"
        )
    for name in java:
        if not workload.queues[name].get("qpid.flow_stop_size"):
            yield (
                f"queue {name!r}: flow_control 'java' stops by bytes only (ALT-12), and there is no "
                "qpid.flow_stop_size"
            )


def _simulate(workload: Workload) -> tuple[Run, bool]:
    from qflow.workload.simulate import simulate_in_slices

    shown = ProgressLine("running", ceil(workload.duration), unit="s")

    def report(time: int, count: int) -> None:
        # A run continues after its duration, until what was sent has been consumed.
        shown.remark = f", {count} events"
        shown(time // 1_000_000)

    try:
        made, is_whole = simulate_in_slices(workload, report)
    finally:
        shown.end()
    if not is_whole:
        # The summary can take a while, so this line confirms that Ctrl-C has taken effect.
        print(f"interrupted at {made.end / 1_000_000:g} s: summing up what has happened", file=sys.stderr)
    return made, is_whole


def _summarise(run: Run) -> dict[str, Any]:
    """Return a run's summary for JSON: measures and counts over its time base, errors, and later counts."""
    from qflow.workload.measures import QueueMeters, meters_of
    from qflow.workload.model import Senders

    kinds = {
        "message.transfer": "sent",
        "client.block": "blocks",
        "message.accept": "accepts",
        "unroutable": "unroutable",
    }
    producers, consumers = run.workload.producers, run.workload.consumers
    counts, later = Counter[tuple[str, str]](), Counter[str]()
    senders, end = Senders(producers), run.time_base
    for event in run.events:
        if event.kind in kinds:
            name = senders.of(event.session, event.message) or event.session
            # Counts and rates cover the same seconds, to the time base; later events are counted separately.
            if event.time <= end:
                counts[name, kinds[event.kind]] += 1
            else:
                later[kinds[event.kind]] += 1
    queues = QueueMeters(run.workload, end)
    queues.take(run.events)
    sent = {p.name: {what: counts[p.name, what] for what in ("sent", "blocks")} for p in producers}
    meters = meters_of(run.events, run.workload, end)
    measures = {name: meter.measures(end) for name, meter in meters.items()}
    return {
        "workload": run.workload.name,
        "seconds": end / 1_000_000,
        "simulated_seconds": run.end / 1_000_000,
        "events": len(run.events),
        "queues": {
            name: found | ({"lost": queues.lost(name)} if found["discards"] else {})
            for name, found in queues.measures().items()
        },
        "producers": {name: counted | measures[name] for name, counted in sent.items()},
        "consumers": {c.name: {"accepts": counts[c.name, "accepts"]} for c in consumers},
        "errors": {name: str(error) for name, error in run.errors.items()},
        "unroutable": {p.name: count for p in producers if (count := counts[p.name, "unroutable"])},
        "afterwards": {what: later[what] for what in ("sent", "accepts")},
    }


def _text(summary: dict[str, Any]) -> str:
    from qflow.workload.measures import measures_text

    until = ", interrupted" if summary["interrupted"] else ""
    base, whole, after = summary["seconds"], summary["simulated_seconds"], summary["afterwards"]
    lines = [f"{summary['workload']}: {whole:g} s, {summary['events']} events{until}"]
    if base < whole:
        lines.append(
            f"measured over the first {base:g} s, while messages fall due; clients then catch up until "
            f"{whole:g} s: {after['sent']} messages sent, {after['accepts']} messages accepted"
        )
    for section in ("queues", "producers", "consumers"):
        for name, values in summary[section].items():
            lines.append(f"{section.removesuffix('s')} {name}: {measures_text(values)}")
    lines += [f"{client} ended by {error}" for client, error in summary["errors"].items()]
    for name, count in summary["unroutable"].items():
        sent = summary["producers"][name]["sent"]
        lines.append(f"{count} of {sent} messages of {name} reached no queue, as no binding matched (EX-08)")
    return "\n".join(lines)


def write_run(made: Run, path: str) -> None:
    """Write a run to a trace file, and show the progress."""
    from qflow.trace.files import write_trace
    from qflow.trace.replaying import trace_of

    with progress(f"writing {Path(path).name}", len(made.events)) as shown:
        write_trace(trace_of(made), path, shown)
