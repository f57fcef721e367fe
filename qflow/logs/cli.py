"""``qflow trace import LOG``: audit a client log, and write its trace and its workload."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from qflow.arguments import add_json, add_several
from qflow.colour import paint_states
from qflow.kit import RefusalError
from qflow.progress import progress
from qflow.wording import format_count
from qflow.workload.agenda import SECOND
from qflow.writing import require_apart, write_file

if TYPE_CHECKING:
    from qflow.logs.audit import Audit
    from qflow.logs.cleaning import CleanLog, Skew
    from qflow.logs.workload_file import Guess
    from qflow.trace.files import LongTrace
    from qflow.workload.measures import QueueMeters
    from qflow.workload.model import Workload

_SHOWN = 20
_MOST = 50_000
"""The largest number of rows, from the log's beginning, from which thresholds are inferred."""
_MILLISECOND = 1_000
DATELESS = "the client log must have a date, as times since 1970 or ISO times"
_LATE = 946_684_800
"""Microseconds; a log whose first time is later may count in seconds or milliseconds since 1970 instead."""


def add_arguments(actions: Any) -> None:
    """Add ``import`` to the actions of ``qflow trace``."""
    parser = actions.add_parser(
        "import",
        help="audit a client log against the rules, and turn it into a trace and a workload",
        description="Replay a client log through the engine. Late rows are sorted into place, exact "
        "duplicates are dropped, and clocks that run ahead or behind are corrected. Status 0 if the log "
        "obeys the rules, 1 if there are findings or invalid rows (--fail-on).",
    )
    parser.add_argument(
        "log",
        nargs="+",
        metavar="LOG",
        help="a client log (.csv, .tsv, .jsonl, .json, .log or .parquet, optionally .gz), a folder of parts, "
        "or several files that form one log. A WORKLOAD.json among them is the workload that was run; "
        "without one, the file next to the log with the same name is used, or else a workload is guessed",
    )
    parser.add_argument(
        "--map",
        metavar="MEANING=COLUMN,…",
        help="the meaning of foreign columns: time, client, event, queue, label, size, group or seq; others "
        "are guessed from the names. time=COLUMN:ms gives the unit (s, ms, us, ns, iso), time=DATE+TIME two "
        "columns, event=COLUMN:{sent=transfer,…} the words of events, label=value.id a path into a column of "
        "JSON text; '' guesses all",
    )
    parser.add_argument(
        "--separator",
        default="",
        metavar="CHAR",
        help="the separator in text files: a character, or comma, semicolon, tab or bar; default: as in the "
        "header",
    )
    parser.add_argument(
        "--zone",
        default="",
        metavar="ZONE",
        help="the time zone of times that have none, such as Europe/Berlin",
    )
    parser.add_argument(
        "--like",
        metavar="FILE",
        help="read the columns as FILE says; together with --map, write the mapping to FILE instead",
    )
    parser.add_argument("-o", "--out", metavar="TRACE", help="write the trace: .parquet or .jsonl")
    parser.add_argument("--workload", metavar="OUT.json", help="write the workload behind the log")
    parser.add_argument(
        "--skew",
        default="auto",
        metavar="auto|HOST=MS,…|MS",
        help="correct the clocks: as the log shows (auto, the default), or by the milliseconds that each "
        "host's clock is ahead; a number alone corrects nothing and tolerates that difference",
    )
    broker = "the broker's own log of that period: its ON and OFF lines can clear clients; may be repeated"
    add_several(parser, "--broker-log", "FILE", broker)
    parser.add_argument(
        "--fail-on",
        default="findings,rows",
        metavar="WHAT,…",
        help="status 1 if there are findings, quarantined rows (rows), or over 5 %% of them (many-rows); "
        "default: findings,rows; '' for never",
    )
    add_json(parser)


def run(namespace: argparse.Namespace) -> int:
    """Run the import: audit the log, write the requested files, print the findings, return the status."""
    from qflow.logs.client_log import ClientLog

    logs, given = _find_workload(namespace.log)
    fails = _failures_of(namespace.fail_on)
    kept = Path(namespace.like) if namespace.like else None
    # Without --map, --like names the file of a mapping to read. With --map, it names the file to write the
    # mapping to, which is done only if the log can be read with it.
    if kept is not None and namespace.map is None:
        namespace.map = _kept_mapping(kept)
        kept = None
    require_apart([namespace.out, namespace.workload, kept], [*logs, given, *namespace.broker_log])
    if namespace.out:
        from qflow.trace.files import check_target

        check_target(namespace.out)
    seen = _look_through(logs, namespace)
    workload, source = _workload(logs, given, seen)
    clean, audited, events, depths = _audit_log(namespace, logs, seen, workload)
    if namespace.broker_log:
        audited = _weigh(namespace, clean, audited)
    if kept is not None:
        write_file(kept, json.dumps({"map": namespace.map}) + "\n")
    inferred = seen.guess.collect_inferred() if given is None else {}
    if namespace.workload:
        from qflow.logs.workload_file import write_workload
        from qflow.prediction.client_model import LogModel

        # The rows are released before the file is written.
        behind = LogModel(ClientLog(workload.name, clean.rows()), workload).extract()
        write_workload(behind, namespace.workload, inferred)
    advice = _thresholds(clean, audited, workload)
    if namespace.json:
        facts = _facts(logs, source, seen, audited, events)
        print(json.dumps(facts | {"depths": depths, "inferred": inferred, "thresholds": advice}))
    else:
        _print(logs, source, seen, audited, events)
        for queue, found in depths.items():
            print(
                f"  queue {queue}: no reports; in the replay at most {found['max_depth']} messages, "
                f"{found['mean_depth']:.1f} on average (derived, not recorded)"
            )
        for value, words in inferred.items():
            print(f"  {value}: {words}")
        for sentence in advice:
            print(f"  {sentence} (qflow predict --infer)")
    there = {
        "findings": bool(audited.findings),
        "rows": bool(seen.clean.quarantine),
        "many-rows": audited.cleaning.is_partial,
    }
    return int(any(there[what] for what in fails))


_FAILURES = ("findings", "rows", "many-rows")


def _failures_of(text: str) -> list[str]:
    """Return the conditions that ``--fail-on`` names, or raise a RefusalError for an unknown one."""
    fails = [word.strip() for word in text.split(",") if word.strip()]
    for word in fails:
        if word not in _FAILURES:
            allowed = f"one or more of {', '.join(_FAILURES)}, separated by commas"
            raise RefusalError(f"--fail-on must be {allowed}; got {word!r}")
    return fails


def _weigh(namespace: argparse.Namespace, clean: CleanLog, audited: Audit) -> Audit:
    """Return the audit without the findings that the broker's own log refutes."""
    from dataclasses import replace

    from qflow.logs.broker_log import BrokerLog

    if clean.start_us is None:
        raise RefusalError(f"--broker-log: {DATELESS}")
    with progress("reading the broker's log", unit="bytes") as shown:
        broker_log = BrokerLog.load(*namespace.broker_log, zone=namespace.zone, progress=shown)
    return replace(audited, findings=broker_log.weigh_findings(audited.findings, clean.start_us))


class _Seen(NamedTuple):
    """A log after its first reading: its clean rows, and the guess of its workload."""

    clean: CleanLog
    guess: Guess

    @property
    def rows(self) -> int:
        return self.clean.cleaning.rows

    def recognition(self) -> list[str]:
        """Return sentences on the recognised columns and times, or a warning about a late first time."""
        first, last = self.guess.first or 0, self.guess.last
        if self.clean.recognised is not None:
            return self.clean.recognised.sentences(last)
        if first < _LATE:
            return []
        late = f"{first / SECOND:g} s after the start, which is played too"
        return [f"times: the first row is {late}; --map time=ts_us makes it the start, and looks at the unit"]


def _look_through(logs: list[str], namespace: argparse.Namespace) -> _Seen:
    from qflow.logs.cleaning import CleanLog
    from qflow.logs.log_file import LogError, read_log
    from qflow.logs.workload_file import Guess

    name = _name(logs)
    clean = CleanLog(
        lambda: read_log(logs, namespace.map, namespace.separator, namespace.zone), _skew(namespace.skew)
    )
    try:
        with progress(f"reading {name}") as shown:
            guess = clean.look(Guess, shown)
    except LogError as error:
        raise LogError(f"{name}: {error}") from None
    return _Seen(clean, guess)


def _name(logs: list[str]) -> str:
    more = f" and {len(logs) - 1} more" if len(logs) > 1 else ""
    return Path(logs[0]).name + more


def _skew(text: str) -> Skew:
    from qflow.workload.attributes import LARGEST_NUMBER

    def milliseconds(number: str) -> int:
        # A text that is not a number is refused like a number out of range.
        with suppress(ValueError, OverflowError):
            if abs(float(number)) <= LARGEST_NUMBER:
                return round(float(number) * _MILLISECOND)
        allowed = f"auto, HOST=MS,…, or a number of milliseconds from 0, up to {LARGEST_NUMBER}"
        raise RefusalError(f"--skew: must be {allowed}, got {text}")

    if text == "auto":
        return "auto"
    if "=" in text:
        pairs = (part.rpartition("=") for part in text.split(",") if part.strip())
        return {host.strip(): milliseconds(number) for host, _, number in pairs}
    # A tolerance must not be negative; a negative one is replaced by infinity, which is out of range.
    return milliseconds("inf" if text.strip().startswith("-") else text)


def _kept_mapping(path: Path) -> str:
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return str(kept["map"])
    except FileNotFoundError:
        raise RefusalError(f"--like: there is no {path} yet; give --map beside it once") from None
    except (ValueError, KeyError, TypeError):
        raise RefusalError(
            f"--like must be a file that an import with --map has written; got {path}"
        ) from None


def _workload(logs: list[str], path: str | Path | None, seen: _Seen) -> tuple[Workload, str]:
    from qflow.logs.log_file import source_of
    from qflow.workload.model import Workload

    if path is not None:
        return Workload.load(path), Path(path).name
    # Without a valid row there is nothing to guess from; the quarantine has the reason.
    if not seen.rows and seen.clean.quarantine:
        raise RefusalError(f"{_name(logs)}: {seen.clean.quarantine.summary()}")
    guessed = seen.guess.workload(source_of(logs))
    return guessed, "guessed from the log; thresholds unknown, as no log says how its queues were declared"


def _find_workload(given: list[str]) -> tuple[list[str], str | Path | None]:
    """Return the logs, and the workload file, which is among the arguments or beside the log; or None."""
    from qflow.logs.log_file import source_of

    for path in reversed(given) if len(given) > 1 else ():
        if path.endswith(".json") and _is_workload(Path(path), is_last=path is given[-1]):
            return [other for other in given if other is not path], path
    beside = Path(given[0]).with_name(f"{source_of(given)}.json")
    # The log may itself be a .json file with that name.
    is_other = not any(beside.exists() and beside.samefile(log) for log in given if Path(log).exists())
    return given, beside if beside.is_file() and is_other else None


def _is_workload(path: Path, *, is_last: bool) -> bool:
    """Return whether a .json file is a workload, that is, one object with clients and no key ``ts_us``."""
    try:
        held = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError):
        # A missing or unreadable file is assumed to be meant as a workload where that is usually named.
        return is_last
    is_named = is_last or isinstance(held, dict) and not {"producers", "consumers"}.isdisjoint(held)
    return is_named and isinstance(held, dict) and "ts_us" not in held


def _audit_log(
    namespace: argparse.Namespace, logs: list[str], seen: _Seen, workload: Workload
) -> tuple[CleanLog, Audit, int, dict[str, Any]]:
    """Audit the log and write its trace; return the log, the audit, the number of events, derived depths."""
    from qflow.logs.audit import correct_clocks, is_about_clocks
    from qflow.trace.files import write_trace

    clean = seen.clean
    played = _play(namespace, logs, clean, workload, seen.guess.last)
    if is_about_clocks(played.audited.findings):
        # A clock that is ahead looks like a queue that was never empty, so only an audit can distinguish
        # them: if correcting a clock removes the findings, the log is replayed with the correction.
        corrected = correct_clocks(clean, workload)
        if corrected is not clean:
            clean = corrected
            played = _play(namespace, logs, clean, workload, seen.guess.last)
    if played.trace is not None:
        with progress(f"writing {Path(namespace.out).name}", len(played.trace)) as shown:
            write_trace(played.trace, namespace.out, shown)
    depths = {
        queue: {"max_depth": found["max_depth"], "mean_depth": found["mean_depth"], "derived": True}
        for queue, found in played.meters.measures().items()
        if queue not in played.audited.agreements
    }
    return clean, played.audited, played.events, depths


class _Played(NamedTuple):
    """A log's audit, the number of the engine's events, their trace if requested, and the queues' meters."""

    audited: Audit
    events: int
    trace: LongTrace | None
    meters: QueueMeters


def _play(
    namespace: argparse.Namespace, logs: list[str], clean: CleanLog, workload: Workload, last: int
) -> _Played:
    from dataclasses import replace

    from qflow.broker.events import EventTable
    from qflow.logs.audit import audit_parts
    from qflow.logs.log_file import source_of
    from qflow.trace.files import LongTrace
    from qflow.workload.measures import QueueMeters

    trace, meters = None, QueueMeters(workload, max(1, last))
    if namespace.out:
        folder = Path(namespace.out).resolve().parent
        beside = folder if folder.is_dir() else None
        trace = LongTrace(workload.name, workload.options, workload, beside)
    table, count = EventTable(), 0

    def take(done: int) -> None:
        nonlocal count
        count += len(table)
        meters.take(table)
        if trace is not None:
            trace.extend(table)
        # The events of a long log are too many for memory, so they pass in parts.
        del table[:]
        shown(done)

    rows = clean.cleaning.rows
    with progress("replaying", rows) as shown:
        audited = audit_parts(source_of(logs), clean.parts(), workload, clean.tolerance, table, take)
        take(rows)
    return _Played(replace(audited, cleaning=clean.cleaning), count, trace, meters)


def _thresholds(clean: CleanLog, audited: Audit, workload: Workload) -> list[str]:
    """Return sentences on the inferred thresholds, if the workload's are contradicted or unknown."""
    from qflow.logs.client_log import ClientLog
    from qflow.logs.inferred_thresholds import contradiction_of, infer_thresholds
    from qflow.logs.log_file import LogError
    from qflow.workload.model import is_unseen

    if not contradiction_of(audited.findings) and not any(map(is_unseen, workload.queues.values())):
        return []
    try:
        with progress("reading thresholds") as shown:
            rows = (row for part in clean.parts() for row in part)
            inferred = infer_thresholds(ClientLog("", list(islice(rows, _MOST))), workload, shown)
    except LogError:
        # The log names a client that is not in the workload, which is a finding already.
        return []
    return inferred.sentences()[:1] if inferred.levels else []


def _facts(logs: list[str], source: str, seen: _Seen, audited: Audit, events: int) -> dict[str, Any]:
    cleaning, recognised = audited.cleaning, seen.clean.recognised
    return {
        "file": _name(logs),
        "workload": source,
        "rows": seen.rows,
        "events": events,
        "recognised": recognised.as_json() if recognised else None,
        "cleaning": {
            "late": cleaning.late,
            "late_by_us": cleaning.latest_us,
            "duplicates": cleaning.duplicates,
            "clocks_us": dict(cleaning.offsets),
            "gaps": [gap._asdict() for gap in cleaning.doubt.gaps],
            "is_partial": cleaning.is_partial,
            "sentences": [*filter(None, [cleaning.headline()]), *cleaning.sentences()],
        },
        "tolerance": {"skew_us": audited.tolerance.skew, "lag_us": audited.tolerance.lag},
        "findings": [
            {**finding._asdict(), "rule": finding.rule, "sentence": finding.sentence()}
            for finding in audited.findings
        ],
        "statistics": {name: agreement._asdict() for name, agreement in audited.agreements.items()},
        "quarantine": [entry._asdict() for entry in seen.clean.quarantine],
    }


def _print(logs: list[str], source: str, seen: _Seen, audited: Audit, events: int) -> None:
    from qflow.workload.model import is_unseen

    name, cleaning = _name(logs), audited.cleaning
    print(f"{name}: {seen.rows} rows became {events} events; workload: {source}")
    for sentence in (*filter(None, [cleaning.headline()]), *seen.recognition(), *cleaning.sentences()):
        print(f"  {sentence}")
    if seen.clean.quarantine:
        print(f"{name}: {seen.clean.quarantine.summary()}", file=sys.stderr)
    skew, lag = audited.tolerance.skew / _MILLISECOND, audited.tolerance.lag / _MILLISECOND
    count = format_count(len(audited.findings), "finding") if audited.findings else "no findings"
    apart = f"{skew:g} ms between corrected clocks" if cleaning.offsets else f"clocks {skew:g} ms apart"
    print(f"  {count} (tolerated: {apart}, round trips of {lag:g} ms)")
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
