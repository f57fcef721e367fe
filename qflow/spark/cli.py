"""``qflow spark audit|report|sweep|stream|synth``: the engine over a fleet's logs, here or on a cluster.

Parsing the arguments imports neither Spark nor the engine, so that ``--help`` is quick.
"""

from __future__ import annotations

import argparse
import json
import logging
import operator
import re
import signal
import sys
import threading
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from qflow.arguments import add_columns, add_json, add_several, whole_number
from qflow.colour import paint_states
from qflow.kit import INTERRUPTED, RefusalError, explain_missing
from qflow.wording import format_count
from qflow.writing import write_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from qflow.spark.events_table import EventsTable
    from qflow.spark.ingest import LakeReport


def add_arguments(subparsers: Any) -> None:
    """Add the command ``spark`` to the command line, without importing Spark or the engine."""
    spark = subparsers.add_parser(
        "spark",
        description="The engine over a fleet's recorded logs, on Apache Spark: on this machine or a cluster.",
    )
    actions = spark.add_subparsers(dest="action", metavar="ACTION", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--master", metavar="URL", help="local[4], yarn, k8s://..., sc://... (Connect); default: local[2]"
    )
    add_several(common, "--conf", "NAME=VALUE", "a Spark setting")
    tables = "the format of tables: parquet, or delta if Spark has it; default: parquet"
    common.add_argument("--format", default="parquet", metavar="NAME", help=tables)
    _add_audit(actions, common)
    _add_report(actions, common)
    _add_sweep(actions, common)
    _add_stream(actions, common)
    _add_synth(actions, common)


def _add_audit(actions: Any, common: argparse.ArgumentParser) -> None:
    audit = actions.add_parser(
        "audit",
        parents=[common],
        help="report the queues that were ON, the producers they held, and the durations",
        description="Audit client logs, or a lake made from them earlier. If a run with --lake and --out is "
        "killed, repeat the command to resume it.",
    )
    audit.add_argument("logs", nargs="*", metavar="LOG", help=".parquet, .csv, .csv.gz, or a folder of them")
    audit.add_argument(
        "--workloads", metavar="DIR",
        help="the folder that holds NAME.json for each log NAME, or for a table also one FILE.json; "
        "default: the log's folder",
    )  # fmt: skip
    audit.add_argument(
        "--table", metavar="PLACE", help="one table of many components: a path, an address or a name"
    )
    _add_events(audit)
    audit.add_argument(
        "--lake", metavar="DIR", help="add the logs to the lake there; without LOG: audit the lake there"
    )
    _add_number(audit, "--buckets", "the most files per log in the lake; default: 8", 8)
    audit.add_argument("--day", type=_day, metavar="DAY", help="the day of the logs; default: today, in UTC")
    audit.add_argument(
        "--out", metavar="DIR", help="add the results of new rows in the lake to the results in DIR"
    )
    cut = "split a component of more rows where its queues are empty, if it exceeds a task's share; "
    _add_number(audit, "--cut", cut + "default: 1000000", 1_000_000)
    audit.add_argument(
        "--fail-on",
        type=_conditions_of,
        default="many-rows",
        metavar="WHAT,…",
        help="status 1 if there are findings, quarantined rows (rows), or over 5 %% of them (many-rows), or "
        "if a number meets a condition: 'on_share > 20%%'; default: many-rows; '' for never",
    )
    audit.add_argument("--metrics", metavar="FILE", help="write the numbers as OpenMetrics text")
    audit.add_argument(
        "--quarantine", metavar="DIR", help="write the quarantined rows as a table, with reasons"
    )
    add_json(audit)


def _add_events(parser: argparse.ArgumentParser) -> None:
    """Add the options for reading the rows of a table or of a source of a stream."""
    component = (
        "the column that names a row's component, or a pattern's first group in it; default: by client and "
    )
    add_columns(parser)
    parser.add_argument(
        "--zone",
        default="",
        help="the time zone of times that have none, such as Europe/Berlin; default: UTC",
    )
    parser.add_argument(
        "--component",
        default="",
        metavar="COLUMN[:REGEX]",
        help=component + "queue, according to the workload",
    )
    parser.add_argument(
        "--where", default="", metavar="SQL", help="which rows to read, such as \"date = '2026-11-27'\""
    )
    add_several(parser, "--option", "NAME=VALUE", "an option of Spark's reader")


def _add_report(actions: Any, common: argparse.ArgumentParser) -> None:
    report = actions.add_parser(
        "report",
        parents=[common],
        help="write a page about a day's results: queues that were ON, producers that waited, findings",
        description="Write one HTML page about the results that an audit kept with --out.",
    )
    report.add_argument("results", metavar="DIR", help="what 'qflow spark audit --out' wrote")
    report.add_argument(
        "--day", type=_day, metavar="DAY", help="the day of the report; default: the last one in DIR"
    )
    report.add_argument("--page", required=True, metavar="FILE.html", help="the page")


def _add_sweep(actions: Any, common: argparse.ArgumentParser) -> None:
    sweep = actions.add_parser(
        "sweep",
        parents=[common],
        help="run each component's workload again under several settings",
        description="Simulate every component of a lake under every setting. Run it again after a kill.",
    )
    sweep.add_argument("--lake", required=True, metavar="DIR", help="a lake")
    sweep.add_argument("--settings", required=True, metavar="GRID.json", help="a map of names to settings")
    sweep.add_argument("--out", required=True, metavar="DIR", help="where finished cells are kept")
    rows = "leave out components of more log rows; default: 5000000"
    _add_number(sweep, "--most-rows", rows, 5_000_000)
    replays = "replay each N times with different seeds, and print the interval of each measure; default: 1"
    _add_number(sweep, "--replays", replays, 1)
    add_json(sweep)


def _add_stream(actions: Any, common: argparse.ArgumentParser) -> None:
    stream = actions.add_parser(
        "stream",
        parents=[common],
        help="audit a folder of events that grows",
        description="Audit a folder of Parquet files with a lake's columns, as they come; or, with --source, "
        "events of any columns. Killed at any moment, the same command continues where it stopped.",
    )
    stream.add_argument("incoming", nargs="?", default="", metavar="DIR", help="where files appear")
    stream.add_argument("--source", metavar="NAME", help="a source of Spark's: kafka, parquet, json")
    stream.add_argument("--workloads", metavar="DIR", help="of a source: as for a table")
    _add_events(stream)
    stream.add_argument(
        "--watermark",
        type=_seconds,
        default=60.0,
        metavar="TIME",
        help="how late a row may come; default: 1m",
    )
    silence = "silence after which a component has ended; default: 10m"
    stream.add_argument("--idle", type=_seconds, default=600.0, metavar="TIME", help=silence)
    stream.add_argument("--out", required=True, metavar="DIR", help="results and checkpoint")
    stream.add_argument("--once", action="store_true", help="process the files that are there, then end")
    _add_number(stream, "--files", "files that one step takes at most")
    _add_number(stream, "--patience", "events that may wait for a missing one; default: 10000", 10_000)
    wait = "seconds after which a missing event is lost (with --once at a log's end: at once); default: 60"
    _add_number(stream, "--wait", wait, 60, "S")


def _add_synth(actions: Any, common: argparse.ArgumentParser) -> None:
    synth = actions.add_parser(
        "synth",
        parents=[common],
        help="make a synthetic fleet, like the recorded one",
        description="Write a lake of a synthetic fleet, the same anywhere for the same numbers.",
    )
    synth.add_argument("--queues", type=whole_number, required=True, metavar="N", help="components")
    synth.add_argument("--events", type=whole_number, required=True, metavar="M", help="events in all")
    synth.add_argument("--out", required=True, metavar="DIR", help="where the lake is written")


def _add_number(
    parser: argparse.ArgumentParser, name: str, text: str, default: int | None = None, metavar: str = "N"
) -> None:
    parser.add_argument(name, type=whole_number, default=default, metavar=metavar, help=text)


def _day(text: str) -> str:
    with suppress(ValueError):
        return f"{datetime.strptime(text, '%Y-%m-%d'):%Y-%m-%d}"
    raise argparse.ArgumentTypeError(f"must be a day such as 2026-11-27, got {text!r}")


def _seconds(text: str) -> float:
    found = re.fullmatch(rf"({_NUMBER})([smh])", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"must be a length of time such as 90s, 10m or 1h, got {text!r}")
    return float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]


_NUMBER = r"\d+(?:\.\d*)?|\.\d+"


_SHOWN = 10
_PEAK = "no worker took more than {} MiB"


def run(namespace: argparse.Namespace) -> int:
    """Run the chosen action of ``qflow spark``, and return its exit status."""
    from qflow.spark.spark_session import java_end, log_file, session

    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
    except ImportError:
        raise RefusalError(explain_missing("this", "pyspark", "spark")) from None
    actions = {"audit": _audit, "report": _report, "sweep": _sweep, "stream": _stream, "synth": _synth}
    _require_readable(namespace)
    try:
        # Log messages of libraries are suppressed, so that the user gets a single sentence.
        logging.getLogger().addHandler(logging.NullHandler())
        spark = session(namespace.master, **_settings(namespace.conf))
        _restore_ctrl_c()
        return actions[namespace.action](spark, namespace)
    except (PySparkException, Py4JError, ConnectionError) as error:
        words = java_end(patience=0.2) or _cause_of(str(error))
        raise RefusalError(f"Spark gave up: {words} (see {log_file()})") from None


def _restore_ctrl_c() -> None:
    """Restore Python's own handler of Ctrl-C, so that it ends the command with one line."""
    # pyspark's handler would use the connection to Spark that was interrupted, and so break it.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _cause_of(text: str) -> str:
    r"""Return the line that states the cause in the text of an error of Spark.

    >>> _cause_of("Job aborted: ...\n  File x, line 3\nValueError: no begin\n\n\tat org.apache.spark")
    'ValueError: no begin'
    """
    lines = [line.strip(" :\t") for line in text.splitlines()]
    raised = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception"))]
    words = [line for line in raised if not line.startswith(("org.", "java.", "Caused by"))]
    if "PYTHON_VERSION_MISMATCH" in text or (words and words[-1].startswith("ModuleNotFoundError")):
        advice = (
            "workers run another Python than the driver: set PYSPARK_PYTHON, or spark.pyspark.python, to one"
        )
        return f"{words[-1] if words else 'PYTHON_VERSION_MISMATCH'}; {advice} with qflow and pyarrow"
    if words:
        # Errors of this project need no class name before their sentence.
        return re.sub(r"^qflow\.[\w.]+: ", "", words[-1])
    return (raised or [line for line in lines if line] or ["it does not say why"])[0]


def _audit(spark: SparkSession, namespace: argparse.Namespace) -> int:
    import tempfile

    from qflow.spark.workers import TaskProgress

    is_kept = namespace.lake or namespace.out or namespace.quarantine or namespace.table
    summary = None if is_kept else _audit_small(spark, namespace)
    if summary is None:
        with tempfile.TemporaryDirectory(prefix="qflow-lake-") as scratch:
            lake = namespace.lake or f"{scratch}/lake"
            report = None
            if namespace.logs or namespace.table:
                with TaskProgress(spark, "reading"):
                    report = _add_to_lake(spark, lake, namespace)
            summary = _audit_lake(spark, lake, namespace)
            if namespace.quarantine:
                _write_quarantine(spark, lake, namespace)
        if report is not None:
            summary["kept"] = report.kept
            summary["first_set_aside"] = [row.asDict() for row in report.quarantine[:_SHOWN]]
    metrics = summary["metrics"]
    status = int(any(condition.holds(metrics) for condition in namespace.fail_on))
    if namespace.metrics:
        write_file(namespace.metrics, _open_metrics(metrics))
    if not namespace.json:
        print(paint_states(_summary_text(summary)))
        summary = {"status": status, **metrics}
    print(json.dumps(summary))
    return status


def _audit_small(spark: SparkSession, namespace: argparse.Namespace) -> dict[str, Any] | None:
    """Return the summary of many small logs, audited without a lake, or None if not all logs are small."""
    from qflow.spark.ingest import audit_small, require_rows
    from qflow.spark.tables import QUARANTINE
    from qflow.spark.workers import TaskProgress, peak_accumulator

    peak = peak_accumulator(spark)
    with TaskProgress(spark, "auditing", peak=peak):
        rows = audit_small(spark, namespace.logs, namespace.workloads, namespace.map, namespace.zone, peak)
        if rows is None:
            return None
        rows = rows.persist()
        summary = _summary(rows.where("reason IS NULL"))
        aside = rows.where("reason IS NOT NULL").select(*QUARANTINE).orderBy("source", "row")
        first = aside.limit(_SHOWN).collect() if summary["set_aside"] else []
    require_rows(summary["metrics"]["rows"], first)
    summary |= {"events": summary["metrics"]["rows"], "first_set_aside": [row.asDict() for row in first]}
    return summary | {"worker_bytes": peak.value if peak is not None else 0}


def _add_to_lake(spark: SparkSession, lake: str, namespace: argparse.Namespace) -> LakeReport:
    from qflow.spark.events_table import make_lake_of_table
    from qflow.spark.ingest import make_lake

    run = {"buckets": namespace.buckets, "day": namespace.day, "form": _own_format(namespace)}
    if namespace.table:
        table = _events_table(namespace, namespace.table, namespace.format)
        return make_lake_of_table(spark, table, lake, **run)
    logs, columns, zone = namespace.logs, namespace.map, namespace.zone
    return make_lake(spark, logs, lake, namespace.workloads, columns=columns, zone=zone, **run)


def _own_format(namespace: argparse.Namespace) -> str:
    """Return the format of lake and results: Parquet if the input is text, which would lose the types."""
    return "parquet" if namespace.format in ("csv", "json", "text", "xml") else str(namespace.format)


def _write_quarantine(spark: SparkSession, lake: str, namespace: argparse.Namespace) -> None:
    from qflow.spark.ingest import read_quarantine
    from qflow.spark.tables import GrowingTable

    form = _own_format(namespace)
    rows = read_quarantine(GrowingTable(spark, lake, form))
    GrowingTable(spark, namespace.quarantine, form).write(rows)


def _audit_lake(spark: SparkSession, lake: str, namespace: argparse.Namespace) -> dict[str, Any]:
    from qflow.spark.lake import read_lake
    from qflow.spark.lake_audit import audit_large, audit_to
    from qflow.spark.workers import TaskProgress, peak_accumulator

    form, cut = _own_format(namespace), namespace.cut
    rows = read_lake(spark, lake, form)
    peak = peak_accumulator(spark)
    with TaskProgress(spark, "auditing", peak=peak) as shown:
        if namespace.out:
            results = audit_to(spark, lake, namespace.out, shown, peak, form, cut)
        else:
            results = audit_large(rows, peak=peak, cut=cut).persist()
        summary = _summary(results)
    return {"events": rows.count(), **summary, "worker_bytes": peak.value if peak is not None else 0}


def _summary(results: DataFrame) -> dict[str, Any]:
    from qflow.logs.findings import finding_of
    from qflow.spark.questions import summarise
    from qflow.spark.tables import RESULTS

    found = summarise(results.select(*RESULTS), _SHOWN)
    return {
        "components": found.components,
        "results": found.kinds,
        "metrics": found.metrics(),
        "set_aside": found.facts["quarantined"],
        "headline": found.cleaning.headline(),
        "offenders": [row.asDict() for row in found.offenders],
        "blame": [row.asDict() for row in found.blame],
        "findings": [
            {"component": row.component, **finding_of(row)._asdict(), "sentence": finding_of(row).sentence()}
            for row in found.findings
        ],
    }


def _report(spark: SparkSession, namespace: argparse.Namespace) -> int:
    from qflow.spark.figures import report_day
    from qflow.spark.workers import TaskProgress

    with TaskProgress(spark, "asking"):
        report = report_day(spark, namespace.results, namespace.day, namespace.format)
    write_file(namespace.page, report.page())
    print(f"{namespace.page}: {report.title.lower()}")
    return 0


_KINDS = {
    "flow_on": ("time ON", "times ON"),
    "held": ("transfer held", "transfers held"),
    "blocked": ("time a producer was blocked", "times a producer was blocked"),
    "group_owned": ("time a group was owned", "times a group was owned"),
    "count": ("count of the engine", "counts of the engine"),
    "finding": ("finding", "findings"),
}
"""The words for each kind of results, in singular and plural; a count is, for example, a queue's depth."""


def _summary_text(summary: dict[str, Any]) -> str:
    lines = []
    if "events" in summary:
        aside = f", {format_count(summary['set_aside'], 'row')} quarantined" if "set_aside" in summary else ""
        lines.append(f"{summary['events']} events{aside}")
        lines += filter(None, [summary.get("headline")])
        if summary.get("kept"):
            lines.append(f"in the lake already, and not read again: {', '.join(summary['kept'][:_SHOWN])}")
        lines += [
            f"  {row['source']}, row {row['row']} {row['column']}: {row['reason']}"
            for row in summary.get("first_set_aside", ())
        ]
    found = summary["results"]
    kinds = [f"{found[kind]} {words[found[kind] > 1]}" for kind, words in _KINDS.items() if kind in found]
    number = summary["components"]
    lines.append(f"{format_count(number, 'component')} with results: {', '.join(kinds) or 'none'}")
    if summary.get("worker_bytes"):
        lines.append(_PEAK.format(summary["worker_bytes"] >> 20))
    for row in summary["offenders"]:
        lines.append(
            f"  {row['source']} {row['queue']}: ON {row['flowStoppedCount']} x, {row['on_us'] / 1e6:.1f} s; "
            f"held {row['held']} transfers, {row['held_us'] / 1e6:.1f} s taken together"
        )
    if number and "finding" not in found:
        lines.append("no findings: nothing in the logs breaks a rule")
    lines += [f"  {row['component']} {row['kind']}: {row['sentence']}" for row in summary["findings"]]
    return "\n".join(lines)


def _sweep(spark: SparkSession, namespace: argparse.Namespace) -> int:
    from qflow.spark.sweep import load_grid, sweep
    from qflow.spark.workers import TaskProgress

    grid = load_grid(namespace.settings)
    with TaskProgress(spark, "sweeping", unit="cells") as shown:
        measures = sweep(
            spark, namespace.lake, grid, namespace.out, shown, namespace.most_rows, namespace.replays,
            namespace.format,
        )  # fmt: skip
        if not namespace.json:
            measures = measures.where("measure IN ('share_on', 'blocked_share', 'dies', '')")
        rows = measures.orderBy("component", "setting", "section", "name", "measure").collect()
    if namespace.json:
        print(json.dumps([row.asDict() for row in rows]))
        return 0
    for line in _sweep_lines(rows, namespace.replays):
        print(line)
    return 0


def _sweep_lines(rows: Sequence[Any], replays: int) -> Iterator[str]:
    """Yield lines with the main measures of each queue and producer, with intervals if there are replays."""
    for row in rows:
        where = f"{row.component} {row.setting}"
        if row.measure in ("share_on", "blocked_share"):
            sure = "" if row.low is None else f", between {row.low:.3f} and {row.high:.3f}"
            why = f"; {row.note}" if row.note else ""
            yield f"{where}: {row.name} {row.measure} {row.predicted:.3f} of the time{sure}{why}"
        elif row.measure == "dies" and row.predicted:
            dead = round(row.predicted * replays)
            yield f"{where}: {row.name}'s session dies in {dead} of {replays} replays"
        elif row.note:
            yield f"{where}: {row.note}"


def _stream(spark: SparkSession, namespace: argparse.Namespace) -> int:
    from qflow.spark.stream import audit_events, audit_stream, read_results, read_stream, start

    # With --once and all files in one step, no rows follow, so a component's end completes it.
    ends_count = namespace.once and namespace.files is None
    if namespace.source:
        events = _events_table(namespace, namespace.incoming, namespace.source)
        results = audit_events(spark, events, namespace.watermark, namespace.idle, once=ends_count)
    else:
        stream = read_stream(spark, namespace.incoming, namespace.files)
        results = audit_stream(stream, namespace.patience, namespace.wait, ends_count=ends_count)
    form, by_event_time = namespace.format, bool(namespace.source)
    query = start(results, namespace.out, once=namespace.once, form=form, by_event_time=by_event_time)
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
        print("interrupted; the same command resumes", file=sys.stderr)
        return INTERRUPTED
    late = sum(one.numRowsDroppedByWatermark for step in query.recentProgress for one in step.stateOperators)
    told = f"; {format_count(late, 'row')} came after the watermark, and dropped" if late else ""
    print(f"{read_results(spark, namespace.out, form).count()} results in {namespace.out}{told}")
    return 0


def _events_table(namespace: argparse.Namespace, place: str, form: str) -> EventsTable:
    from qflow.spark.events_table import EventsTable

    return EventsTable(
        place, namespace.workloads, form, namespace.map, namespace.component, namespace.zone, namespace.where,
        dict(_pairs(namespace.option, "--option")),
    )  # fmt: skip


def _synth(spark: SparkSession, namespace: argparse.Namespace) -> int:
    from qflow.spark.synth import write_fleet
    from qflow.spark.workers import TaskProgress, peak_accumulator

    peak = peak_accumulator(spark)
    with TaskProgress(spark, "making a fleet", namespace.queues, "components", peak) as shown:
        write_fleet(spark, namespace.queues, namespace.events, namespace.out, shown, peak, namespace.format)
    print(f"{namespace.events} events of {namespace.queues} components in {namespace.out}")
    if peak is not None and peak.value:
        print(_PEAK.format(peak.value >> 20))
    return 0


def _require_readable(namespace: argparse.Namespace) -> None:
    """Raise a RefusalError for missing paths before the session starts, which takes seconds."""
    read = {"audit": "lake", "report": "results", "sweep": "lake", "stream": "incoming"}.get(namespace.action)
    named = getattr(namespace, "logs", None) or [getattr(namespace, name) for name in [read] if name]
    if getattr(namespace, "table", None) or getattr(namespace, "source", None):
        if getattr(namespace, "logs", None) or not namespace.workloads:
            raise RefusalError("a table or source: name no LOG beside it, and the workloads with --workloads")
        return
    if named == [""]:
        raise RefusalError("name the folder where files appear, or a source with --source")
    if named == [None]:
        raise RefusalError("name one log or more, or a lake with --lake")
    for path in named:
        if "://" not in path and not Path(path).exists():
            raise RefusalError(f"{path}: no such file or folder")


def _settings(given: list[str]) -> dict[str, str]:
    settings = dict(_pairs(given, "--conf"))
    for name in settings:
        if not name.startswith("spark."):
            raise RefusalError(f"--conf takes spark.NAME=VALUE, got {name!r}")
    return settings


def _pairs(given: list[str], option: str) -> Iterator[tuple[str, str]]:
    for word in given:
        name, equals, value = word.partition("=")
        if not equals:
            raise RefusalError(f"{option} takes NAME=VALUE, got {word!r}")
        yield name, value


# Exit status and metrics, for a step in a pipeline


class Condition(NamedTuple):
    """A condition on a number of an audit, with which the command ends with status 1."""

    name: str
    compare: str
    limit: float

    @classmethod
    def of(cls, text: str) -> Condition:
        """Return the condition in a text, such as ``on_share > 20%``, or with a name, such as ``findings``.

        >>> Condition.of("on_share >= 20%")
        Condition(name='on_share', compare='>=', limit=0.2)
        """
        named = {"rows": "quarantined > 0", "many-rows": "quarantined_share > 5%", "findings": "findings > 0"}
        found = _CONDITION.fullmatch(named.get(text.strip(), text))
        if found is None or found[1] not in _METRICS:
            words = f"{', '.join(named)}, or NAME > NUMBER[%] with a NAME of {', '.join(_METRICS)}"
            raise argparse.ArgumentTypeError(
                f"must be one or more of {words}, separated by commas; got {text.strip()!r}"
            )
        return cls(found[1], found[2], float(found[3]) / (100 if found[4] else 1))

    def holds(self, numbers: Mapping[str, float]) -> bool:
        """Return whether the condition holds for the numbers of an audit."""
        compare = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}[self.compare]
        return bool(compare(numbers[self.name], self.limit))


_CONDITION = re.compile(rf"\s*(\w+)\s*([<>]=?)\s*({_NUMBER})\s*(%?)\s*")


def _conditions_of(text: str) -> list[Condition]:
    """Return the conditions in the value of ``--fail-on``, which are separated by commas."""
    return [Condition.of(word) for word in text.split(",") if word.strip()]


_METRICS = {
    "components": "components with results",
    "rows": "rows of the logs that were audited",
    "quarantined": "rows that make no sense",
    "quarantined_share": "their share of all rows",
    "duplicates": "rows that a log had twice",
    "missing": "rows that are missing by their own numbers",
    "gaps": "spans of time of which rows are missing",
    "unjudged": "messages not judged, as rows of them were quarantined",
    "not_judged": "components without a workload that can start",
    "blocks": "rows that say that a producer was blocked",
    "findings": "contradictions between the logs and the rules",
    "times_on": "times that a queue was ON",
    "on_share": "largest share of its log's time for which a queue was ON",
    "held": "transfers held",
    "times_blocked": "times that a producer was blocked",
}
"""The numbers of an audit, for ``--fail-on`` and ``--metrics``, with a description of each."""


def _open_metrics(numbers: Mapping[str, float]) -> str:
    """Return numbers of an audit as OpenMetrics text, for a push gateway or a folder of text files.

    >>> print(_open_metrics({"findings": 2}), end="")
    # HELP qflow_findings contradictions between the logs and the rules
    # TYPE qflow_findings gauge
    qflow_findings 2
    # EOF
    """
    # Written without a client library, which would add metrics of its own process.
    lines = []
    for name, value in numbers.items():
        lines += [
            f"# HELP qflow_{name} {_METRICS[name]}",
            f"# TYPE qflow_{name} gauge",
            f"qflow_{name} {value:.12g}",
        ]
    return "\n".join([*lines, "# EOF"]) + "\n"
