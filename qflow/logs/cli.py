"""``qflow trace import LOG``: a client log becomes a trace and the workload behind it, and is audited."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.progress import progress
from qflow.writing import require_apart

if TYPE_CHECKING:
    from qflow.logs.audit import Audit
    from qflow.logs.client_log import ClientLog
    from qflow.trace.files import Quarantine
    from qflow.workload.model import Workload

_SHOWN = 20
_MILLISECOND = 1_000


def add_arguments(actions: Any) -> None:
    """Add ``import`` to the actions of ``qflow trace``."""
    parser = actions.add_parser(
        "import",
        help="make a trace and a workload out of a client log, and say what in it the rules do not allow",
        description="Replay what clients logged through the engine. Status 0 if the rules allow all of it, "
        "1 if there are findings or rows that make no sense.",
    )
    parser.add_argument("log", metavar="LOG", help="what clients saw: .parquet, .csv(.gz) or .jsonl(.gz)")
    parser.add_argument(
        "given",
        nargs="?",
        metavar="WORKLOAD.json",
        help="what was run; without it the file of the log's name beside it, else a guess from the log",
    )
    parser.add_argument("-o", "--out", metavar="TRACE", help="write the trace: .parquet or .jsonl")
    parser.add_argument("--workload", metavar="OUT.json", help="write the workload behind the log")
    parser.add_argument(
        "--skew", type=float, metavar="MS", help="by how much clocks may differ; default: as the log shows"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(namespace: argparse.Namespace) -> int:
    """Import the log, and print what was found.

    Returns
    -------
    int
        0 if the rules allow all of it, else 1.

    Raises
    ------
    RefusalError
        If a file makes no sense, in one sentence.
    """
    from qflow.broker.errors import AmqpException
    from qflow.logs.log_file import LogError
    from qflow.workload.attributes import WorkloadError

    try:
        return _import(namespace)
    except (LogError, WorkloadError, AmqpException) as error:
        raise RefusalError(str(error)) from None


def _import(namespace: argparse.Namespace) -> int:
    from qflow.logs.client_log import ClientLog

    require_apart([namespace.out, namespace.workload], [namespace.log, _given(namespace)])
    with progress(f"reading {Path(namespace.log).name}"):
        log, quarantine = ClientLog.read(namespace.log)
    workload, source = _workload(namespace, log)
    with progress(f"replaying {len(log.rows)} rows"):
        audited = _audited(log, workload, namespace.skew)
    if namespace.out:
        _write_trace(audited, namespace.out)
    if namespace.workload:
        from qflow.logs.workload_file import write_workload
        from qflow.prediction.extraction import extract

        write_workload(extract(log, workload, draws=False).workload, namespace.workload)
    if namespace.json:
        print(json.dumps(_facts(namespace.log, source, log, audited, quarantine)))
    else:
        _print(namespace.log, source, log, audited, quarantine)
    return 1 if audited.findings or quarantine else 0


def _workload(namespace: argparse.Namespace, log: ClientLog) -> tuple[Workload, str]:
    from qflow.workload.model import Workload

    path = _given(namespace)
    if path is not None:
        return Workload.load(path), Path(path).name
    from qflow.logs.workload_file import inferred_workload

    return inferred_workload(log), "guessed from the log, queues with default arguments"


def _given(namespace: argparse.Namespace) -> str | Path | None:
    """Return the workload file that is read: the one asked for, or the one beside the log."""
    from qflow.logs.log_file import source_of

    beside = Path(namespace.log).with_name(f"{source_of(namespace.log)}.json")
    given: str | None = namespace.given
    return given or (beside if beside.is_file() else None)


def _audited(log: ClientLog, workload: Workload, skew: float | None) -> Audit:
    from qflow.logs.audit import audit
    from qflow.logs.checks import Tolerance
    from qflow.workload.attributes import LARGEST_NUMBER

    tolerance = Tolerance.estimated(log.rows)
    if skew is not None:
        if not 0 <= skew <= LARGEST_NUMBER:
            allowed = f"a number of milliseconds from 0, up to {LARGEST_NUMBER}"
            raise RefusalError(f"--skew: must be {allowed}, got {skew:g}")
        tolerance = Tolerance(round(skew * _MILLISECOND), tolerance.lag)
    return audit(log, workload, tolerance)


def _write_trace(audited: Audit, output: str) -> None:
    from qflow.trace.files import write_trace
    from qflow.trace.replaying import trace_of
    from qflow.trace.schema import TraceError

    trace = trace_of(audited.run)
    try:
        with progress(f"writing {Path(output).name}", len(trace)) as shown:
            write_trace(trace, output, shown)
    except TraceError as error:
        raise RefusalError(str(error)) from None


def _facts(file: str, source: str, log: ClientLog, audited: Audit, quarantine: Quarantine) -> dict[str, Any]:
    return {
        "file": Path(file).name,
        "workload": source,
        "rows": len(log.rows),
        "events": len(audited.run.events),
        "tolerance": {"skew_us": audited.tolerance.skew, "lag_us": audited.tolerance.lag},
        "findings": [
            {**finding._asdict(), "rule": finding.rule, "sentence": finding.sentence()}
            for finding in audited.findings
        ],
        "statistics": {name: agreement._asdict() for name, agreement in audited.agreements.items()},
        "quarantine": [entry._asdict() for entry in quarantine],
    }


def _print(file: str, source: str, log: ClientLog, audited: Audit, quarantine: Quarantine) -> None:
    name = Path(file).name
    print(f"{name}: {len(log.rows)} rows became {len(audited.run.events)} events; workload: {source}")
    if quarantine:
        print(f"{name}: {quarantine.summary()}", file=sys.stderr)
    skew, lag = audited.tolerance.skew / _MILLISECOND, audited.tolerance.lag / _MILLISECOND
    count = len(audited.findings) or "no"
    noun = "finding" if len(audited.findings) == 1 else "findings"
    print(f"  {count} {noun} (tolerated: clocks {skew:g} ms apart, ways of {lag:g} ms)")
    for finding in audited.findings[:_SHOWN]:
        print(f"    {finding.text()}")
    if len(audited.findings) > _SHOWN:
        print(f"    … and {len(audited.findings) - _SHOWN} more; --json prints them all")
    for queue, found in audited.agreements.items():
        print(
            f"  queue {queue}: {found.samples} reports; depth differs by {found.mean_depth_difference:.1f} "
            f"on average, {found.max_depth_difference} at most; flowStopped in {found.flow_differs:.1%}; "
            f"flowStoppedCount {found.recorded_stops}, here {found.engine_stops}"
        )
