"""Logs that no code of the kit made, and the truth about them (``data/recordings/foreign/FORMAT.md``).

A prediction is judged by the least and the most of 21 seeds of an independent simulator.  The first of them
made the log: its measures are the truth, for which intervals and bounds are made.
"""

import json
import re
from functools import cache
from statistics import median
from typing import NamedTuple

from recordings import RECORDINGS

from qflow.logs import ClientLog
from qflow.prediction import Settings, predict
from qflow.prediction.report import report_text
from qflow.workload import Workload

FOREIGN = RECORDINGS / "foreign"
NAMES = {"stops": "flowStoppedCount", "sent": "throughput"}
CENSORED = re.compile("censored|at least|lower bound", re.IGNORECASE)


class Value(NamedTuple):
    """One measure: predicted, its interval, the truth and the range of other seeds."""

    place: tuple[str, ...]
    predicted: float
    interval: tuple[float, float] | None
    truth: float
    least: float
    most: float

    @property
    def is_inside(self):
        slack = 1e-4 * max(1, abs(self.most))
        return self.least - slack <= self.predicted <= self.most + slack

    @property
    def is_held(self):
        return self.interval is not None and self.interval[0] - 1e-3 <= self.truth <= self.interval[1] + 1e-3


def cases():
    """Yield the truth of each log, with each of its settings."""
    for path in sorted(FOREIGN.glob("*.truth.json")):
        found = json.loads(path.read_text("utf-8"))
        for setting in found["settings"]:
            yield found["name"], setting


@cache
def truth_of(name):
    return json.loads((FOREIGN / f"{name}.truth.json").read_text("utf-8"))


@cache
def answer(name, setting, replays=None):
    """Return the report of a log under a setting."""
    file = truth_of(name)["settings"][setting]["file"]
    workload = Workload.load(FOREIGN / f"{name}.json")
    settings = None if setting == "recorded" else Settings.of(Workload.load(FOREIGN / file), workload)
    log = ClientLog.load(FOREIGN / f"{name}.csv.gz")
    return predict(workload, log, settings, replays=replays)


def values(name, setting, report):
    """Yield each measure of a report whose truth is known."""
    found = truth_of(name)["settings"][setting]
    for section in ("queues", "producers"):
        for client, measures in found["truth"][section].items():
            entry = report[section][client]
            for measure, truth in measures.items():
                key = NAMES.get(measure, measure)
                unit = report["seconds"] if measure == "sent" else 1
                span = entry["interval"].get(key)
                yield Value(
                    (name, setting, client, measure),
                    entry["predicted"][key] * unit,
                    span and (span[0] * unit, span[1] * unit),
                    truth,
                    *found["range"][section][client][measure],
                )


def kind_of(value, report):
    """Return whether a value has an interval or a bound in its report."""
    client, measure = value.place[2:]
    section = "queues" if client in report["queues"] else "producers"
    return report[section][client]["kinds"][NAMES.get(measure, measure)]


def says_censored(report):
    """Return whether the report says that the demand was not seen."""
    return bool(CENSORED.search(report_text(report)))


def coverage_lines(replays=None):
    """Return the lines of a table: of intervals and of bounds, how many hold the truth, and their widths."""
    kinds = {"intervals": [], "bounds": []}
    for name, setting in cases():
        report = answer(name, setting, replays)
        for value in values(name, setting, report):
            kinds[f"{kind_of(value, report)}s"].append(value)
    lines = []
    for kind, found in kinds.items():
        held = sum(value.is_held for value in found)
        widths = [
            (value.interval[1] - value.interval[0]) / value.truth
            for value in found
            if value.interval and value.truth
        ]
        share = f"{held} ({100 * held / len(found):.0f} %)"
        lines.append(f"| {kind} | {len(found)} | {share} | {100 * median(widths):.1f} % |")
    return lines
