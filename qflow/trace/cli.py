"""``qflow trace``: show traces, replay them, explain a state, read a broker's log, and import client logs.

The modules that do the work are imported inside the functions, so that other commands start quickly.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.arguments import add_columns, add_json, whole_number
from qflow.colour import paint_states
from qflow.kit import RefusalError
from qflow.logs import cli as importing
from qflow.progress import progress
from qflow.trace.explain.chain import seconds
from qflow.wording import format_names
from qflow.workload.agenda import SECOND
from qflow.writing import require_apart, write_file

if TYPE_CHECKING:
    from qflow.logs.client_log import ClientLog
    from qflow.trace.files import Quarantine
    from qflow.trace.schema import Trace

# At most as many digits as a 64-bit column of seqs or of microseconds holds.
_ROW = re.compile(r"[0-9]{1,18}")
_TIME = re.compile(r"([0-9]{1,12}(\.[0-9]*)?|\.[0-9]+)s")
_SHOWN = 5
"""The largest number of quarantined rows, and of kinds of rows, that a summary shows."""
_LONGEST = 60
"""The largest number of characters of an invalid instant that an error shows."""


def add_arguments(subparsers: Any) -> None:
    """Add the command ``trace`` to the command line."""
    trace = subparsers.add_parser(
        "trace",
        description="A trace is a .parquet, .jsonl or .jsonl.gz file: each command and each effect of a run.",
    )
    actions = trace.add_subparsers(dest="action", metavar="ACTION", required=True)
    info = actions.add_parser(
        "info",
        help="summarise a trace, and list its invalid rows",
        description="Summarise a trace; status 1 if a row is invalid.",
    )
    info.add_argument("files", nargs="+", metavar="FILE", help="a trace")
    add_json(info, "a summary of each file")
    info.add_argument("--quarantine", metavar="OUT.jsonl", help="write the invalid rows to a file")
    replay = actions.add_parser(
        "replay",
        help="replay a trace's commands on the engine and compare the events",
        description="Replay a trace's commands on the engine; status 0 if it produces the same events.",
    )
    replay.add_argument("file", metavar="FILE", help="a trace")
    replay.add_argument("-o", "--output", metavar="OUT", help="write the engine's events as a trace")
    add_json(replay)
    _add_why(actions)
    _add_broker_log(actions)
    importing.add_arguments(actions)


def _add_why(actions: Any) -> None:
    why = actions.add_parser(
        "why",
        help="explain why something is in its state at an instant, down to the root causes",
        description="Explain why a producer is blocked, a transfer incomplete, a queue ON, a message "
        "undelivered, a group not free or a consumer idle. For an instant after the end of the trace, the "
        "answer is for the end, and says so.",
    )
    why.add_argument("file", metavar="FILE", help="a trace")
    why.add_argument("instant", metavar="INSTANT", help="a row's seq, such as 1200; or a time, such as 2.5s")
    why.add_argument(
        "subject",
        metavar="SUBJECT",
        help="producer:C1, transfer:C1-57, queue:q, message:A-1, group:A or consumer:late; "
        "or just the name, if it is unique",
    )
    add_json(why)


def _add_broker_log(actions: Any) -> None:
    broker_log = actions.add_parser(
        "broker-log",
        help="read flow control from qpidd's own log: when each queue was ON, and which sessions died",
        description="Read the log of a real broker, in one or more files, which may be rotated or "
        "compressed: when each queue was ON, its thresholds, which queue is still ON at the end, and which "
        "sessions a full queue ended. Only a log of level info shows flow control (qpidd --log-enable "
        "info+).",
    )
    broker_log.add_argument(
        "files", nargs="+", metavar="FILE", help="the log files of one broker, in any order"
    )
    zone = "the broker's time zone, such as Europe/Berlin, for lines that name none; default: UTC"
    broker_log.add_argument("--zone", metavar="ZONE", help=zone)
    year = "the year of the first line, for syslog lines, which have no year"
    broker_log.add_argument("--year", type=partial(whole_number, most=9999), metavar="YEAR", help=year)
    clients = "a client log of the same period, to show in the picture; trace import --broker-log audits it"
    broker_log.add_argument("--clients", metavar="LOG", help=clients)
    add_columns(broker_log)
    broker_log.add_argument("--html", metavar="OUT.html", help="write a picture with clock time on its axis")
    add_json(broker_log)


def run(namespace: argparse.Namespace) -> int:
    """Run the chosen action of ``qflow trace``, and return its exit status."""
    actions = {
        "info": _info,
        "replay": _replay,
        "why": _why,
        "broker-log": _broker_log,
        "import": importing.run,
    }
    return actions[namespace.action](namespace)


def _read(file: str) -> tuple[Trace, Quarantine]:
    from qflow.trace.files import read_trace

    with progress(f"reading {Path(file).name}") as shown:
        return read_trace(file, shown)


def _info(namespace: argparse.Namespace) -> int:
    from qflow.trace.files import Quarantine

    require_apart([namespace.quarantine], namespace.files)
    everything = Quarantine()
    for file in namespace.files:
        trace, quarantine = _read(file)
        everything += quarantine
        if namespace.json:
            print(json.dumps(_facts(file, trace, quarantine)))
        else:
            _print_facts(file, trace, quarantine)
    if namespace.quarantine is not None:
        everything.write(namespace.quarantine)
    return 1 if everything else 0


def _facts(file: str, trace: Trace, quarantine: Quarantine) -> dict[str, Any]:
    return {
        "file": Path(file).name,
        "run": trace.run,
        "rows": len(trace),
        "expected": trace.expected,
        "first_us": trace.time[0] if len(trace) else None,
        "last_us": trace.time[-1] if len(trace) else None,
        "has_workload": trace.workload is not None,
        "kinds": dict(Counter(trace.kind).most_common()),
        "queues": _summarize(trace),
        "quarantine": [entry._asdict() for entry in quarantine],
    }


_COUNTED = {"enqueued": 1, "dequeued": -1, "dropped": 0, "held": 0}
"""The kinds of rows that are counted, and the change of the queue's depth that each means."""

_FLOW = ("flow_stopped", "flow_resumed", "queueDelete")


def _summarize(trace: Trace, end: int | None = None) -> dict[str, dict[str, float]]:
    """Return the measures of each queue of a trace up to `end` in microseconds (None: the last row)."""
    from qflow.workload.measures import DepthMeter

    end = max(1, trace.time[-1] if end is None and len(trace) else end or 0)
    queues: dict[str, dict[str, float]] = {}
    meters: dict[str, DepthMeter] = {}
    is_stopped: dict[str, bool] = {}
    for kind, queue, time in zip(trace.kind, trace.queue, trace.time, strict=True):
        # Commands are skipped: they may name queues that do not exist.
        if queue and "." not in kind and time <= end:
            counts = queues.setdefault(queue, dict.fromkeys((*_COUNTED, "depth"), 0))
            if kind in _COUNTED:
                counts[kind] += 1
                counts["depth"] += _COUNTED[kind]
            if kind in _FLOW:
                is_stopped[queue] = kind == "flow_stopped"
            meter = meters.setdefault(queue, DepthMeter(end))
            meter.at(time, int(counts["depth"]), is_stopped.get(queue, False))
    for queue, meter in meters.items():
        measures = meter.measures()
        queues[queue] |= {
            "max_depth": measures["max_depth"] or 0,
            "flowStoppedCount": meter.stops,
            "share_on": measures["share_on"] or 0.0,
        }
    return queues


def _print_facts(file: str, trace: Trace, quarantine: Quarantine) -> None:
    from qflow.workload.measures import measures_text

    last = trace.time[-1] / 1_000_000 if len(trace) else 0
    print(f"{Path(file).name}: run {trace.run!r}, {len(trace)} rows, {last:g} s")
    if trace.workload is not None:
        clients = f"{len(trace.workload.producers)} producers, {len(trace.workload.consumers)} consumers"
        print(f"  workload {trace.workload.name!r}: {clients}")
    for name, summary in _summarize(trace).items():
        print(f"  queue {name}: {measures_text(summary)}")
    kinds = Counter(trace.kind).most_common(_SHOWN)
    print(f"  most rows: {', '.join(f'{count} {kind}' for kind, count in kinds) or 'none'}")
    if quarantine:
        print(f"  {quarantine.summary()}")
    for entry in quarantine[1:_SHOWN]:
        print(f"    {entry.text()}")
    if len(quarantine) > _SHOWN:
        print(f"    … and {len(quarantine) - _SHOWN} more; --quarantine OUT.jsonl writes them all")


def _replay(namespace: argparse.Namespace) -> int:
    from qflow.trace.files import check_target, write_trace
    from qflow.trace.replaying import Replay

    output, name = namespace.output, Path(namespace.file).name
    require_apart([output], [namespace.file])
    if output is not None:
        check_target(output)
    trace, quarantine = _read(namespace.file)
    if quarantine:
        print(f"{name}: {quarantine.summary()}", file=sys.stderr)
    replay = Replay(trace)
    try:
        with progress(f"replaying {name}", len(trace)) as shown:
            replay.run(progress=shown)
    finally:
        # Also after Ctrl-C: the events up to then are written as a trace that is marked as cut off.
        if output is not None:
            with progress(f"writing {Path(output).name}", len(replay.trace)) as shown:
                write_trace(replay.trace, output, shown)
    difference = replay.difference()
    where = None if difference is None else difference.text()
    if namespace.json:
        print(json.dumps({"file": name, "rows": len(trace), "difference": where}))
    elif where is None:
        print(f"{name}: replayed; all {len(trace)} rows came back exactly")
    else:
        print(f"{name}: the engine differs from the trace at {where}")
    return int(where is not None)


def _why(namespace: argparse.Namespace) -> int:
    from qflow.trace.explain.question import explain
    from qflow.trace.timeline import Timeline

    seq, time = instant(namespace.instant)
    trace, _ = _read(namespace.file)
    with progress(f"replaying {Path(namespace.file).name}", len(trace)) as shown:
        timeline = Timeline(trace, progress=shown)
    explanation = explain(timeline, seq, namespace.subject, time=time)
    # People paste times from their own logs, which end later than the trace. Instead of refusing such a time,
    # we answer for the trace's end, and the note says so.
    note = _past_the_end(trace, seq, time)
    if namespace.json:
        print(json.dumps({**explanation.data(), "note": note}))
    else:
        text = paint_states(explanation.text())
        print(text if note is None else f"{note}\n{text}")
    return 0


def _broker_log(namespace: argparse.Namespace) -> int:
    from qflow.logs.broker_log import BrokerLog

    files, output = namespace.files, namespace.html
    require_apart([output], [*files, namespace.clients])
    if namespace.clients and not output:
        raise RefusalError(
            "--clients: a client log is drawn beside the broker's, which needs --html OUT.html"
        )
    with progress(f"reading {format_names([Path(file).name for file in files])}", unit="bytes") as shown:
        log = BrokerLog.load(*files, zone=namespace.zone, year=namespace.year, progress=shown)
    sentences = log.sentences()
    clients = _read_clients(namespace) if namespace.clients else None
    if output:
        from qflow.labs.charts import broker_log_chart

        chart = broker_log_chart(log, clients)
        sentences = list(chart.claims)
        write_file(output, chart.to_html())
    if namespace.json:
        print(json.dumps(log.asdict() | {"sentences": sentences}))
    else:
        table = [str(log.preview())] if log.queues else []
        print(paint_states("\n".join([*table, *sentences])))
    return 0


def _read_clients(namespace: argparse.Namespace) -> ClientLog:
    """Return the client log beside a broker's; RefusalError without a good row or a date."""
    from qflow.logs.client_log import ClientLog

    clients, quarantine = ClientLog.read(namespace.clients, namespace.map)
    if quarantine and not clients.rows:
        raise RefusalError(f"--clients: {Path(namespace.clients).name}: {quarantine.summary()}")
    if clients.start_us is None:
        raise RefusalError(f"--clients: {importing.DATELESS}")
    if quarantine:
        print(f"{Path(namespace.clients).name}: {quarantine.summary()}", file=sys.stderr)
    return clients


def instant(text: str) -> tuple[int | None, int | None]:
    """Parse an instant into a row's ``seq`` and a time in microseconds, one of which is None."""
    if _ROW.fullmatch(text):
        return int(text), None
    if _TIME.fullmatch(text):
        return None, int(Decimal(text.removesuffix("s")) * SECOND)
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    raise RefusalError(
        f"an instant must be a row's seq (such as 1200) or a time (such as 2.5s); got {shown!r}"
    )


def _past_the_end(trace: Trace, seq: int | None, time: int | None) -> str | None:
    """Return a sentence about the trace's end if an instant is after it, or None."""
    # If the workload lasts longer than the last row, the trace ends with the workload: nothing happened then.
    last = trace.time[-1]
    planned = trace.workload.duration * SECOND if trace.workload is not None else 0
    if (seq is None or seq <= trace.seq[-1]) and (time is None or time <= max(last, planned)):
        return None
    return f"The trace ends at {seconds(last)} (seq {trace.seq[-1]}); this is the state at its end."
