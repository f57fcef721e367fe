"""``qflow trace import LOG``: a client log becomes a trace and the workload behind it, and is audited."""

from __future__ import annotations

import argparse
import json
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from qflow.arguments import add_json
from qflow.colour import paint_states
from qflow.kit import RefusalError
from qflow.progress import progress
from qflow.wording import format_count
from qflow.workload.agenda import SECOND
from qflow.writing import require_apart, write_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from qflow.logs.audit import Audit
    from qflow.logs.foreign_columns import Recognised
    from qflow.logs.log_file import LogRow
    from qflow.logs.tolerance import Tolerance
    from qflow.logs.workload_file import Guess
    from qflow.trace.files import Quarantine
    from qflow.workload.model import Workload

_SHOWN = 20
_MOST = 50_000
"""Rows of a log that thresholds are read from: of a long one the first."""
_MILLISECOND = 1_000
_LATE = 946_684_800
"""Microseconds: a log that begins so late may have times since 1970 in seconds or milliseconds."""


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
    parser.add_argument(
        "--map",
        metavar="MEANING=COLUMN,…",
        help="what foreign columns mean: time, client, event, queue, label, size, group or seq; what is left "
        "out is guessed from the names. time=COLUMN:ms gives the unit (s, ms, us, ns, iso), "
        "event=COLUMN:{sent=transfer,…} what words mean; '' guesses all",
    )
    parser.add_argument(
        "--like",
        metavar="FILE",
        help="read columns as FILE says, in which an import with --map and --like keeps its mapping",
    )
    parser.add_argument("-o", "--out", metavar="TRACE", help="write the trace: .parquet or .jsonl")
    parser.add_argument("--workload", metavar="OUT.json", help="write the workload behind the log")
    parser.add_argument(
        "--skew",
        type=float,
        metavar="MS",
        help="milliseconds that clocks may differ by; default: as the log shows",
    )
    add_json(parser)


def run(namespace: argparse.Namespace) -> int:
    """Import the log, and print what was found."""
    from qflow.logs.client_log import ClientLog

    path, given = namespace.log, _find_workload(namespace)
    kept = Path(namespace.like) if namespace.like else None
    if kept is not None and namespace.map is None:
        namespace.map = _kept_mapping(kept)
        kept = None
    require_apart([namespace.out, namespace.workload, kept], [path, given])
    if namespace.out:
        from qflow.trace.files import check_target

        check_target(namespace.out)
    seen = _look_through(path, namespace.map)
    workload, source = _workload(path, given, seen)
    audited, events, depths = _audit_log(namespace, seen, workload)
    if kept is not None:
        write_file(kept, json.dumps({"map": namespace.map}) + "\n")
    inferred = seen.guess.collect_inferred() if given is None else {}
    if namespace.workload:
        from qflow.logs.workload_file import write_workload
        from qflow.prediction.client_model import extract

        # The rows are let go before the file is written.
        behind = extract(ClientLog.read(path, namespace.map)[0], workload).workload
        write_workload(behind, namespace.workload, inferred)
    advice = _thresholds(namespace, audited, workload)
    if namespace.json:
        facts = _facts(path, source, seen, audited, events)
        print(json.dumps(facts | {"depths": depths, "inferred": inferred, "thresholds": advice}))
    else:
        _print(path, source, seen, audited, events)
        for queue, found in depths.items():
            print(
                f"  queue {queue}: no reports; in the replay at most {found['max_depth']} messages, "
                f"{found['mean_depth']:.1f} on average (derived, not recorded)"
            )
        for value, words in inferred.items():
            print(f"  {value}: {words}")
        for sentence in advice:
            print(f"  {sentence} (qflow predict --infer)")
    return 1 if audited.findings or seen.quarantine else 0


class _Seen(NamedTuple):
    """What one look through a log shows: all that has to be known before it is played."""

    rows: int
    is_ordered: bool
    tolerance: Tolerance
    guess: Guess
    quarantine: Quarantine
    recognised: Recognised | None
    first: int
    last: int

    def recognition(self) -> list[str]:
        """Return how the file was read, and what of its workload no row shows."""
        if self.recognised is not None:
            return self.recognised.sentences(self.last)
        if self.first < _LATE:
            return []
        late = f"{self.first / SECOND:g} s after the start, which is played too"
        return [f"times: the first row is {late}; --map time=ts_us makes it the start, and looks at the unit"]


def _look_through(path: str, columns: str | None) -> _Seen:
    from qflow.logs.log_file import LogError, read_log
    from qflow.logs.tolerance import Ways
    from qflow.logs.workload_file import Guess
    from qflow.trace.files import Quarantine

    ways, guess, quarantine = Ways(), Guess(), Quarantine()
    recognised, count, first, end = None, 0, None, 0
    try:
        with progress(f"reading {Path(path).name}") as shown:
            for bit in read_log(path, columns):
                quarantine += bit.problems
                recognised = bit.recognised
                ways.take_numbered(bit.numbers, bit.rows)
                for row in bit.rows:
                    guess.take(row)
                    count += 1
                    end = max(end, row.ts_us)
                    first = row.ts_us if first is None else first
                shown(count)
    except LogError as error:
        raise LogError(f"{Path(path).name}: {error}") from None
    tolerance = ways.tolerance()
    return _Seen(count, ways.is_ordered, tolerance, guess, quarantine, recognised, first or 0, end)


def _kept_mapping(path: Path) -> str:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return str(kept["map"])
    except FileNotFoundError:
        raise RefusalError(f"--like: there is no {path} yet; give --map beside it once") from None
    except (ValueError, KeyError, TypeError):
        raise RefusalError(f"--like: {path} is no mapping that an import has kept") from None


def _workload(log: str, path: str | Path | None, seen: _Seen) -> tuple[Workload, str]:
    from qflow.logs.log_file import source_of
    from qflow.workload.model import Workload

    if path is not None:
        return Workload.load(path), Path(path).name
    if not seen.rows and seen.quarantine:
        raise RefusalError(f"{Path(log).name}: {seen.quarantine.summary()}")
    guessed = seen.guess.workload(source_of(log))
    return guessed, "guessed from the log; thresholds unknown, as no log says how its queues were declared"


def _find_workload(namespace: argparse.Namespace) -> str | Path | None:
    """Return the workload file that is read: the one asked for, or the one beside the log."""
    from qflow.logs.log_file import source_of

    beside = Path(namespace.log).with_name(f"{source_of(namespace.log)}.json")
    given: str | None = namespace.given
    return given or (beside if beside.is_file() else None)


def _audit_log(
    namespace: argparse.Namespace, seen: _Seen, workload: Workload
) -> tuple[Audit, int, dict[str, Any]]:
    """Audit the log and write the trace; return also the number of events, and the depths not reported."""
    from qflow.broker.events import EventTable
    from qflow.logs.audit import audit_parts
    from qflow.logs.client_log import ClientLog
    from qflow.logs.log_file import read_log, source_of
    from qflow.logs.tolerance import Tolerance
    from qflow.trace.files import LongTrace, write_trace
    from qflow.workload.measures import QueueMeters

    trace, meters = None, QueueMeters(workload, max(1, seen.last))
    if namespace.out:
        folder = Path(namespace.out).resolve().parent
        beside = folder if folder.is_dir() else None
        trace = LongTrace(workload.name, workload.options, workload, beside)
    # Rows that their own numbers put in another order have to be sorted first, all of them.
    columns, estimated = namespace.map, seen.tolerance
    parts: Iterator[list[LogRow]] = (bit.rows for bit in read_log(namespace.log, columns))
    if not seen.is_ordered:
        ordered = ClientLog.read(namespace.log, columns)[0].rows
        parts, estimated = iter([ordered]), Tolerance.estimate(ordered)
    table, count = EventTable(), 0

    def take(done: int) -> None:
        nonlocal count
        count += len(table)
        meters.take(table)
        if trace is not None:
            trace.extend(table)
        del table[:]
        shown(done)

    tolerance = _tolerance(namespace.skew, estimated)
    with progress("replaying", seen.rows) as shown:
        audited = audit_parts(source_of(namespace.log), parts, workload, tolerance, table, take)
        take(seen.rows)
    if trace is not None:
        with progress(f"writing {Path(namespace.out).name}", len(trace)) as shown:
            write_trace(trace, namespace.out, shown)
    depths = {
        queue: {"max_depth": found["max_depth"], "mean_depth": found["mean_depth"], "derived": True}
        for queue, found in meters.measures().items()
        if queue not in audited.agreements
    }
    return audited, count, depths


def _thresholds(namespace: argparse.Namespace, audited: Audit, workload: Workload) -> list[str]:
    """Return which thresholds the log shows, where those of the workload are disproved or unknown."""
    from qflow.logs.client_log import ClientLog
    from qflow.logs.log_file import LogError, read_log
    from qflow.prediction.inferred_thresholds import contradiction_of, infer_thresholds
    from qflow.workload.model import is_unseen

    if not contradiction_of(audited.findings) and not any(map(is_unseen, workload.queues.values())):
        return []
    try:
        with progress("reading thresholds") as shown:
            rows = (row for bit in read_log(namespace.log, namespace.map) for row in bit.rows)
            inferred = infer_thresholds(ClientLog("", list(islice(rows, _MOST))), workload, shown)
    except LogError:
        # Of a client that the workload has not there are findings.
        return []
    return inferred.sentences()[:1] if inferred.levels else []


def _tolerance(skew: float | None, estimated: Tolerance) -> Tolerance:
    from qflow.logs.tolerance import Tolerance
    from qflow.workload.attributes import LARGEST_NUMBER

    if skew is None:
        return estimated
    if not 0 <= skew <= LARGEST_NUMBER:
        allowed = f"a number of milliseconds from 0, up to {LARGEST_NUMBER}"
        raise RefusalError(f"--skew: must be {allowed}, got {skew:g}")
    return Tolerance(round(skew * _MILLISECOND), estimated.lag)


def _facts(file: str, source: str, seen: _Seen, audited: Audit, events: int) -> dict[str, Any]:
    return {
        "file": Path(file).name,
        "workload": source,
        "rows": seen.rows,
        "events": events,
        "recognised": seen.recognised.as_json() if seen.recognised else None,
        "tolerance": {"skew_us": audited.tolerance.skew, "lag_us": audited.tolerance.lag},
        "findings": [
            {**finding._asdict(), "rule": finding.rule, "sentence": finding.sentence()}
            for finding in audited.findings
        ],
        "statistics": {name: agreement._asdict() for name, agreement in audited.agreements.items()},
        "quarantine": [entry._asdict() for entry in seen.quarantine],
    }


def _print(file: str, source: str, seen: _Seen, audited: Audit, events: int) -> None:
    from qflow.workload.model import is_unseen

    name = Path(file).name
    print(f"{name}: {seen.rows} rows became {events} events; workload: {source}")
    for sentence in seen.recognition():
        print(f"  {sentence}")
    if seen.quarantine:
        print(f"{name}: {seen.quarantine.summary()}", file=sys.stderr)
    skew, lag = audited.tolerance.skew / _MILLISECOND, audited.tolerance.lag / _MILLISECOND
    count = format_count(len(audited.findings), "finding") if audited.findings else "no findings"
    print(f"  {count} (tolerated: clocks {skew:g} ms apart, ways of {lag:g} ms)")
    for finding in audited.findings[:_SHOWN]:
        print(f"    {paint_states(finding.text())}")
    if len(audited.findings) > _SHOWN:
        print(f"    … and {len(audited.findings) - _SHOWN} more; --json prints them all")
    for queue, found in audited.agreements.items():
        flow = (
            f"in {found.flow_differs:.1%} of them; flowStoppedCount {found.recorded_stops} times, "
            f"here {found.engine_stops}"
        )
        if is_unseen(audited.run.workload.queues.get(queue, {})):
            flow = f"was ON {found.recorded_stops} times, at thresholds unknown"
        flow = paint_states(flow)
        print(
            f"  queue {queue}: {found.samples} reports; depth differs by {found.mean_depth_difference:.1f} "
            f"messages on average, {found.max_depth_difference} at most; flowStopped {flow}"
        )
