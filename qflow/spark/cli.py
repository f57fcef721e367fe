"""``qflow spark audit|report|sweep|stream|synth``: the engine over a fleet's logs, here or on a cluster.

Reading the arguments loads neither Spark nor the engine, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import signal
import sys
import threading
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.arguments import add_columns, add_json, add_several, whole_number
from qflow.colour import paint_states
from qflow.kit import INTERRUPTED, RefusalError, explain_missing
from qflow.wording import format_count
from qflow.writing import write_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession


def add_arguments(subparsers: Any) -> None:
    """Add ``spark`` to the rooms of the command line; neither Spark nor the engine is loaded for that."""
    spark = subparsers.add_parser(
        "spark",
        description="The engine over a fleet's recorded logs, on Apache Spark: on this machine or a cluster.",
    )
    actions = spark.add_subparsers(dest="action", metavar="ACTION", required=True)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--master", metavar="URL", help="local[4], yarn, k8s://..., sc://... (Connect); default: local[2]"
    )
    add_several(common, "--conf", "NAME=VALUE", "a setting of Spark's own")
    tables = "of tables, if Spark has it: delta; default: parquet"
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
        help="say which queues were ON, whose completions they held, and for how long",
        description="Audit client logs, or a lake that was made of them before. Killed while it audits "
        "--lake to --out, the same command goes on where it was.",
    )
    audit.add_argument("logs", nargs="*", metavar="LOG", help=".parquet, .csv, .csv.gz, or a folder of them")
    audit.add_argument(
        "--workloads", metavar="DIR", help="where NAME.json is for the log NAME; default: beside"
    )
    add_columns(audit)
    audit.add_argument(
        "--lake", metavar="DIR", help="add the logs to the lake there; without LOG: audit the lake there"
    )
    _add_number(audit, "--buckets", "files of a log in the lake, at most; default: 8", 8)
    audit.add_argument(
        "--day", type=_day, metavar="DAY", help="what day the logs are of; default: today, in UTC"
    )
    audit.add_argument(
        "--out", metavar="DIR", help="add the results of what is new in the lake to those there"
    )
    cut = "cut a component of more rows, if it is more than a task's share, where its queues are empty; "
    _add_number(audit, "--cut", cut + "default: 1000000", 1_000_000)
    audit.add_argument(
        "--fail-on",
        default="many-rows",
        metavar="WHAT,…",
        help="status 1 if there are findings, quarantined rows (rows), or over 5 %% of them (many-rows); "
        "default: many-rows; '' for never",
    )
    add_json(audit)


def _add_report(actions: Any, common: argparse.ArgumentParser) -> None:
    report = actions.add_parser(
        "report",
        parents=[common],
        help="write a page about a day's results: what was ON, who waited, what was found",
        description="Write one HTML page about the results that an audit kept with --out.",
    )
    report.add_argument("results", metavar="DIR", help="what 'qflow spark audit --out' wrote")
    report.add_argument("--day", type=_day, metavar="DAY", help="of which day; default: the last one there")
    report.add_argument("--page", required=True, metavar="FILE.html", help="the page")


def _add_sweep(actions: Any, common: argparse.ArgumentParser) -> None:
    sweep = actions.add_parser(
        "sweep",
        parents=[common],
        help="run each component's workload again under each of some settings",
        description="Simulate every component of a lake under every setting. Killed at any moment, the same "
        "command goes on where it was.",
    )
    sweep.add_argument("--lake", required=True, metavar="DIR", help="a lake")
    sweep.add_argument("--settings", required=True, metavar="GRID.json", help="a map of names to settings")
    sweep.add_argument("--out", required=True, metavar="DIR", help="where finished cells are kept")
    rows = "leave out components of more log rows; default: 5000000"
    _add_number(sweep, "--most-rows", rows, 5_000_000)
    replays = "run each N times with another chance, and say between what each measure will lie; default: 1"
    _add_number(sweep, "--replays", replays, 1)
    add_json(sweep)


def _add_stream(actions: Any, common: argparse.ArgumentParser) -> None:
    stream = actions.add_parser(
        "stream",
        parents=[common],
        help="audit a folder of events that grows",
        description="Audit a folder of Parquet files with a lake's columns, as they come. Killed at any "
        "moment, the same command goes on where it was.",
    )
    stream.add_argument("incoming", metavar="DIR", help="where files appear")
    stream.add_argument("--out", required=True, metavar="DIR", help="results and checkpoint")
    stream.add_argument("--once", action="store_true", help="take what is there, then end")
    _add_number(stream, "--files", "files that one step takes at most")
    _add_number(stream, "--patience", "events that may wait for a missing one; default: 10000", 10_000)
    wait = (
        "seconds after which a missing event counts as lost; default: 60. With --once, without --files, what "
    )
    _add_number(stream, "--wait", wait + "misses at a log's end is lost at once", 60, "S")


def _add_synth(actions: Any, common: argparse.ArgumentParser) -> None:
    synth = actions.add_parser(
        "synth",
        parents=[common],
        help="make a synthetic fleet, like the recorded one",
        description="Write a lake of a synthetic fleet; the same numbers give the same fleet anywhere. "
        "Killed at any moment, the same command goes on where it was.",
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


_SHOWN = 10
_PEAK = "no worker took more than {} MiB"


def run(namespace: argparse.Namespace) -> int:
    """Run the requested subcommand."""
    from qflow.spark.spark_session import java_end, log_file, session

    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
    except ImportError:
        raise RefusalError(explain_missing("this", "pyspark", "spark")) from None
    actions = {"audit": _audit, "report": _report, "sweep": _sweep, "stream": _stream, "synth": _synth}
    _require_readable(namespace)
    try:
        # Whatever is logged underneath, the reader gets one sentence.
        logging.getLogger().addHandler(logging.NullHandler())
        spark = session(namespace.master, **_settings(namespace.conf))
        _take_ctrl_c_back()
        return actions[namespace.action](spark, namespace)
    except (PySparkException, Py4JError, ConnectionError) as error:
        words = java_end(patience=0.2) or _cause_of(str(error))
        raise RefusalError(f"Spark gave up: {words} (see {log_file()})") from None


def _take_ctrl_c_back() -> None:
    """Let Ctrl-C end the command in one line."""
    # pyspark's own handler asks Spark on the very connection that was interrupted, which breaks it.
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _cause_of(text: str) -> str:
    r"""Return the line of a Spark error that states its cause.

    >>> _cause_of("Job aborted: ...\n  File x, line 3\nValueError: no begin\n\n\tat org.apache.spark")
    'ValueError: no begin'
    """
    lines = [line.strip(" :\t") for line in text.splitlines()]
    raised = [line for line in lines if line.partition(":")[0].endswith(("Error", "Exception"))]
    words = [line for line in raised if not line.startswith(("org.", "java.", "Caused by"))]
    if words:
        # The project's own errors are sentences.
        return re.sub(r"^qflow\.[\w.]+: ", "", words[-1])
    return (raised or [line for line in lines if line] or ["it does not say why"])[0]


def _audit(spark: SparkSession, namespace: argparse.Namespace) -> int:
    import tempfile

    from qflow.logs.cli import failures_of
    from qflow.spark.ingest import make_lake
    from qflow.spark.lake import read_row_counts, sum_row_counts, write_row_counts
    from qflow.spark.workers import TaskProgress

    fails = failures_of(namespace.fail_on)
    with tempfile.TemporaryDirectory(prefix="qflow-lake-") as scratch:
        lake = namespace.lake or f"{scratch}/lake"
        report = None
        if namespace.logs:
            with TaskProgress(spark, "laying out"):
                report = make_lake(
                    spark, namespace.logs, lake, namespace.workloads, namespace.buckets, namespace.map,
                    namespace.day, namespace.format,
                )  # fmt: skip
        counts = read_row_counts(lake)
        if namespace.out:
            write_row_counts(namespace.out, counts)
        summary = _audit_lake(spark, lake, namespace)
    cleaning = sum_row_counts(counts.values())
    if counts:
        summary["set_aside"], summary["headline"] = cleaning.quarantined, cleaning.headline()
    if report is not None:
        summary.setdefault("set_aside", report.set_aside)
        summary["kept"] = report.kept
        summary["first_set_aside"] = [row.asDict() for row in report.quarantine[:_SHOWN]]
    print(json.dumps(summary) if namespace.json else paint_states(_summary_text(summary)))
    there = {
        "findings": "finding" in summary["results"],
        "rows": bool(summary.get("set_aside")),
        "many-rows": cleaning.is_partial,
    }
    return int(any(there[what] for what in fails))


def _audit_lake(spark: SparkSession, lake: str, namespace: argparse.Namespace) -> dict[str, Any]:
    from qflow.spark.lake import read_lake
    from qflow.spark.lake_audit import audit_large, audit_to
    from qflow.spark.workers import TaskProgress, peak_accumulator

    form, cut = namespace.format, namespace.cut
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

    found = summarise(results, _SHOWN)
    return {
        "components": found.components,
        "results": found.kinds,
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
"""Kinds of results, one and more; a count says how deep a queue was, or how far reports agree."""


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
            measures = measures.where("measure IN ('share_on', 'blocked_share', 'dies') OR note != ''")
        rows = measures.orderBy("component", "setting", "section", "name", "measure").collect()
    if namespace.json:
        print(json.dumps([row.asDict() for row in rows]))
        return 0
    for line in _sweep_lines(rows, namespace.replays):
        print(line)
    return 0


def _sweep_lines(rows: Sequence[Any], replays: int) -> Iterator[str]:
    """Print the main result of each queue and producer, with the certainty that several replays give it."""
    for row in rows:
        where = f"{row.component} {row.setting}"
        if row.measure in ("share_on", "blocked_share"):
            sure = "" if row.low is None else f", between {row.low:.3f} and {row.high:.3f}"
            yield f"{where}: {row.name} {row.measure} {row.predicted:.3f} of the time{sure}"
        elif row.measure == "dies" and row.predicted:
            dead = round(row.predicted * replays)
            yield f"{where}: {row.name}'s session dies in {dead} of {replays} replays"
        elif row.note:
            yield f"{where}: {row.note}"


def _stream(spark: SparkSession, namespace: argparse.Namespace) -> int:
    from qflow.spark.stream import audit_stream, read_results, read_stream, start

    stream = read_stream(spark, namespace.incoming, namespace.files)
    # All that there is comes at once then, and nothing after it.
    ends_count = namespace.once and namespace.files is None
    results = audit_stream(stream, namespace.patience, namespace.wait, ends_count=ends_count)
    query = start(results, namespace.out, once=namespace.once, form=namespace.format)
    try:
        query.awaitTermination()
    except KeyboardInterrupt:
        query.stop()
        print("interrupted; the same command goes on where it was", file=sys.stderr)
        return INTERRUPTED
    print(f"{read_results(spark, namespace.out, namespace.format).count()} results in {namespace.out}")
    return 0


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
    """Look before a session is started, which takes seconds."""
    read = {"audit": "lake", "report": "results", "sweep": "lake", "stream": "incoming"}.get(namespace.action)
    named = getattr(namespace, "logs", None) or [getattr(namespace, name) for name in [read] if name]
    if named == [None]:
        raise RefusalError("name one log or more, or a lake with --lake")
    for path in named:
        if "://" not in path and not Path(path).exists():
            raise RefusalError(f"{path}: no such file or folder")


def _settings(given: list[str]) -> dict[str, str]:
    settings = {}
    for word in given:
        name, equals, value = word.partition("=")
        if not equals or not name.startswith("spark."):
            raise RefusalError(f"--conf takes spark.NAME=VALUE, got {word!r}")
        settings[name] = value
    return settings
