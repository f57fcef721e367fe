"""Calibration: how often the intervals of predictions hold what was recorded, and how wide they are.

For each recording that was repeated, each run is predicted from and the others are looked up in its
intervals; where settings were recorded under which nothing else is known, they are predicted from the logs
of other settings.  One run of each was recorded on another day, by another machine; pairs with it are counted
apart.  Beside that there is *made* truth: a simulation is logged, predicted, and simulated again with another
chance.  The result is a page and a reliability diagram: intervals that are to hold 80 of 100 values should
hold that many.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import exp, log, sqrt
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import pytest
from foreign_logs import coverage_lines
from recordings import load
from test_extract import logged

from qflow.labs.charts import _chart, _draw_sampled
from qflow.logs.client_log import ClientLog
from qflow.prediction.client_model import LogModel
from qflow.prediction.predict import Settings, predict
from qflow.prediction.replays import (
    BUSY,
    CHANCE,
    PACE,
    Replayer,
    polls_of,
    recorded_sections,
    vary_chance,
)
from qflow.prediction.summary import _is_wide, ended_words, interval, receipt_of, score
from qflow.workload.agenda import SECOND
from qflow.workload.model import Workload

PAGE = Path("notebooks") / "reference" / "calibration.md"
DIAGRAM = Path("notebooks") / "images" / "calibration.svg"
TEMPLATE = Path(__file__).with_name("calibration_page.md")

LEVELS = (0.2, 0.4, 0.6, 0.8)
"""Shares of cases for which intervals are made, for the diagram."""


class Case(NamedTuple):
    """One prediction: from which run of which recording, and of which runs of which."""

    source: str
    run: int
    target: str
    truths: tuple[int, ...]


REPEATED = ("slow-consumer", "bytes-and-count", "fanout-one-slow", "groups-skewed")
RUNS = (0, 1, 2, 3)
"""Number 0 was recorded on another day, by another machine."""

CASES = (
    *(
        Case(name, run, name, tuple(other for other in RUNS if other != run))
        for name in REPEATED
        for run in RUNS
    ),
    *(Case("bytes-and-count", run, "bytes-and-count-low", (1,)) for run in RUNS),
    *(Case("bytes-and-count", run, "overflow-despite-flow-control", (0,)) for run in RUNS),
    *(Case("fanout-one-slow", run, "fanout-wide", (1,)) for run in RUNS),
    Case("groups-release", 1, "groups-release", (1,)),
    Case("fanout-wide", 1, "fanout-wide", (1,)),
)
"""Of the last two there is one run only: the log itself is looked up."""

MADE = ("slow-consumer", "bytes-and-count")
"""Recordings whose clients make truth: simulated, logged and simulated again."""


_ANOTHER = ", another day"


class Pair(NamedTuple):
    """One measure of one queue: what was recorded, and what replays measured."""

    case: str
    queue: str
    measure: str
    truth: float
    found: list[float]
    values: list[float]
    # Whether the log does not show the demand, and it matters.
    is_bound: bool = False

    @property
    def is_held(self) -> bool:
        """Whether the interval holds what was recorded."""
        return self.found[0] <= self.truth <= self.found[1]

    @property
    def width(self) -> float:
        """The interval's width as a share of what was recorded."""
        return (self.found[1] - self.found[0]) / self.truth if self.truth else 0.0

    @property
    def is_made(self) -> bool:
        """Whether truth was simulated."""
        return self.case.endswith("made")

    @property
    def is_other_day(self) -> bool:
        """Whether both runs were recorded on different days, by different machines."""
        return self.case.endswith(_ANOTHER)

    @property
    def is_near_critical(self) -> bool:
        """Whether the interval is wide, and so the queue near-critical in this measure."""
        return self.measure in CHANCE and _is_wide(self.measure, self.truth, self.found)


class Death(NamedTuple):
    """One producer: in what share of replays its session ended, and whether it did when recorded."""

    case: str
    producer: str
    dies: float
    died: bool
    replays: int


class Came(NamedTuple):
    """The branch that came: how often it was predicted, how many measures it held, and its median width."""

    case: str
    when: str
    share: float
    held: int
    of: int
    width: float


class Within(NamedTuple):
    """A measure of a queue, predicted with some of the costs: whether it is within its limit."""

    costs: str
    is_as_recorded: bool
    is_within: bool


class Found(NamedTuple):
    """All that the predictions are held against."""

    pairs: list[Pair]
    deaths: list[Death]
    came: list[Came]
    within: list[Within]


def build(root: Path, replays: int | None = None, tell: Callable[[str], None] = print) -> tuple[Path, Path]:
    """Predict all cases, write the page and the diagram, and return their paths."""
    found = Found([], [], [], [])
    for case in CASES:
        tell(f"{case.source} {case.run}, of {case.target}")
        _add_recorded(found, case, replays)
    for name in MADE:
        tell(f"{name}, made")
        found.pairs.extend(_made(name, replays))
    tell("machines")
    machines = [[machine(LogModel(*load(name, run)).extract()) for run in RUNS] for name in REPEATED]
    chart = reliability([pair for pair in found.pairs if not pair.is_bound])
    (root / DIAGRAM).write_text(chart.svg, encoding="utf-8")
    (root / PAGE).write_text(page(found, chart.claims, machines), "utf-8")
    return root / PAGE, root / DIAGRAM


def _title(case: Case, truth: int) -> str:
    title = case.target if case.target == case.source else f"{case.target}, from {case.source}"
    return title + _ANOTHER if bool(case.run) != bool(truth) else title


def _add_recorded(found: Found, case: Case, replays: int | None) -> None:
    log, workload = load(case.source, case.run)
    _, target = load(case.target, case.truths[0])
    workload = workload.replace(duration=target.duration)
    settings = Settings.of(target, workload) if case.target != case.source else None
    report = predict(workload, log, settings, replays=replays)
    simple = dict(_with_fewer_costs(workload, log, settings))
    died: set[str] = set()
    for run in case.truths:
        truth, _ = load(case.target, run)
        measured = recorded_sections(target, truth, round(target.duration * SECOND))
        found.pairs.extend(_pairs(_title(case, run), report, measured["queues"]))
        found.came.extend(_came(case, score(receipt_of(report), truth)))
        found.within.extend(_within(case, report, simple, measured["queues"]))
        died |= {row.client for row in truth.rows if row.event == "error"}
    own = case.target if case.target == case.source else f"{case.target}, from {case.source} {case.run}"
    number = report["replays"]["number"]
    for name, entry in report["producers"].items():
        found.deaths.append(Death(own, name, entry["dies"], name in died, number))


def _came(case: Case, found: Mapping[str, Any]) -> Iterator[Came]:
    branch, measures = found["branch"], [one for one in found["measures"] if one["measure"] in CHANCE]
    if branch is None:
        return
    spans = [(branch["queues"][one["queue"]][one["measure"]], one["recorded"]) for one in measures]
    widths = [(high - low) / recorded for (low, high), recorded in spans if recorded]
    held = sum(one["in_branch"] for one in measures)
    which = f"{case.target}, from {case.source} {case.run}"
    when = ended_words(branch["when"]["ended"])
    yield Came(which, when, branch["share"], held, len(measures), median(widths))


COSTS = ("none: the log's own values", "none: what clients do takes no time", "constants", "full")


def _with_fewer_costs(
    workload: Workload, log: ClientLog, settings: Settings | None
) -> Iterator[tuple[str, Callable[[str, str], float]]]:
    """Yield what one replay with some of the costs measures, by queue and measure."""
    end = round(workload.duration * SECOND)
    own = recorded_sections(workload, log, end)["queues"]
    yield COSTS[0], lambda queue, measure: float(own[queue][measure] or 0)
    full, constants = (LogModel(log, workload, detail).extract() for detail in ("full", "constants"))
    free = full.replace(
        producers=tuple(replace(client, network=None) for client in full.producers),
        consumers=tuple(replace(client, network=None, overhead=()) for client in full.consumers),
    )
    for costs, world in zip(COSTS[1:], (free, constants, full), strict=True):
        changed = (settings or Settings()).apply(world)
        (run,) = Replayer(polls_of(log, end), 1).replays(changed, 1)
        yield costs, run.measure


def _within(
    case: Case,
    report: Mapping[str, Any],
    simple: Mapping[str, Callable[[str, str], float]],
    truths: Mapping[str, Mapping[str, Any]],
) -> Iterator[Within]:
    """Yield whether each measure that is not near-critical is within its limit, for all costs."""
    for queue, truth in truths.items():
        for measure, (share, least) in CHANCE.items():
            recorded = float(truth[measure] or 0)
            if report["queues"][queue]["kinds"][measure] == "bound":
                continue
            if _is_wide(measure, recorded, report["queues"][queue]["interval"][measure]):
                continue
            for costs, value in simple.items():
                off = abs(value(queue, measure) - recorded)
                yield Within(costs, case.source == case.target, off <= max(least, share * recorded))


def _pairs(title: str, report: dict[str, Any], truths: dict[str, dict[str, Any]]) -> Iterator[Pair]:
    values = report["replays"]["values"]
    for queue, truth in truths.items():
        for measure, found in report["queues"][queue]["interval"].items():
            entry = report["queues"][queue]
            is_bound = entry["kinds"][measure] == "bound"
            yield Pair(
                title, queue, measure, float(truth[measure] or 0), found, values[queue][measure], is_bound
            )


def _made(name: str, replays: int | None) -> Iterator[Pair]:
    """Return pairs of made truth: the clients of a recording, simulated with two other chances."""
    log, program = load(name, 1)
    world = LogModel(log, program).extract("open")
    one, other = (logged(vary_chance(world, place, 7), program) for place in (1, 3))
    report = predict(program, one, replays=replays)
    truth = predict(program, other, replays=1)
    truths = {queue: entry["predicted"] for queue, entry in truth["queues"].items()}
    return _pairs(f"{name}, made", report, truths)


def machine(workload: Workload) -> dict[str, float]:
    """Return what a workload, extracted from a log, shows of the machine: its pace, and its other work."""
    producers = [item.network for item in workload.producers if item.network is not None]
    consumers = [item.network for item in workload.consumers if item.network is not None]
    late = [
        sum(value > min(way for _, way in item.latencies) for _, value in item.latencies)
        for item in consumers
        if item.latencies
    ]
    found = {
        "sending a message": [item.send_cost for item in producers],
        "learning of a completion": [item.report_time(MIDDLE) / SECOND for item in producers],
        LONGER: [mean(factor for _, factor in item.pace) for item in producers if item.pace],
        "waking up late": [mean(item.wakes) for item in consumers if item.wakes],
        OFTEN: [number / workload.duration for number in late],
    }
    return {what: mean(values) for what, values in found.items() if values and any(values)}


MIDDLE = 2_000
"""Messages sent: after that many a completion's work, which grows, is compared."""

LONGER = "work that takes longer while others work"
"""A factor, in episodes (:func:`qflow.prediction.disturbances._usual_pace`); replays have the log's own."""

OFTEN = "delays of credit that end late"
"""What is a number of interruptions, not a time."""


def differences(machines: Sequence[Sequence[Mapping[str, float]]]) -> list[str]:
    """Return as a table by what factor machines differ between two runs of each recording."""
    lines = ["| | two runs of one day | of two days | all | replays |", "|---|---|---|---|---|"]
    for what in dict.fromkeys(what for runs in machines for found in runs for what in found):
        pairs: tuple[list[float], list[float]] = ([], [])
        for runs in machines:
            for (one, first), (other, second) in combinations(enumerate(runs), 2):
                if what in first and what in second:
                    pairs[bool(one) != bool(other)].append(log(first[what] / second[what]) ** 2)
        factors = [
            f"{exp(sqrt(mean(squares))):.2f}" if squares else "-" for squares in (*pairs, pairs[0] + pairs[1])
        ]
        varied = 0 if what == LONGER else BUSY if what == OFTEN else PACE
        lines.append(f"| {what} | {' | '.join(factors)} | {exp(varied):.2f} |")
    return lines


# What is shown


def held_share(pairs: Sequence[Pair], cover: float) -> float:
    """Return for what share of pairs an interval made for so many cases holds what was recorded."""
    found = [pair._replace(found=interval(pair.measure, pair.values, cover)) for pair in pairs]
    return sum(pair.is_held for pair in found) / len(found)


def reliability(pairs: Sequence[Pair]) -> Any:
    """Return the reliability diagram: what share intervals hold, over what they are to hold."""
    telling = [pair for pair in pairs if pair.measure != "discards"]
    points = [(100 * cover, 100 * held_share(telling, cover)) for cover in LEVELS]
    asked, held = points[-1]
    claims = (
        f"Intervals for {asked:.0f} of 100 cases hold {held:.0f} of 100 recorded values "
        f"(of {len(telling)} pairs of a queue and a measure).",
        "On the diagonal, intervals hold the promised share; above it they are wider than necessary, below "
        "it too narrow.",
    )
    title = "How often intervals hold what was recorded"
    axes = ("promised: of 100 cases", "held: of 100 cases")
    lines = [
        _draw_sampled(name, course, axes[1])
        for name, course in {"held": points, "as promised": [(0.0, 0.0), (100.0, 100.0)]}.items()
    ]
    return _chart(title, axes, claims, lines, 100.0, reach=94.0)


def page(found: Found, claims: Sequence[str], machines: Sequence[Sequence[Mapping[str, float]]]) -> str:
    """Return the page, in Markdown: its text with the figures."""
    every, deaths, came, within = found
    pairs = [pair for pair in every if not pair.is_bound]
    numbers = sorted({len(pair.values) for pair in pairs})
    more = f", up to {numbers[-1]} where a session ends in some of them only" if len(numbers) > 1 else ""
    figures = {
        "replays": [f"Each prediction has {numbers[0]} replays{more}."],
        "lines": _lines(pairs),
        "bounds": _bound_lines([pair for pair in every if pair.is_bound]),
        "foreign": coverage_lines(),
        "claims": claims,
        "deaths": [
            f"| {death.case} | {death.producer} | {100 * death.dies:.0f} % of {death.replays} replays "
            f"| {'died' if death.died else 'lived'} |"
            for death in deaths
            if death.dies or death.died
        ],
        "branches": [
            f"| {one.case} | {one.when} | {one.share:.0%} | {one.held} of {one.of} | {one.width:.0%} |"
            for one in came
        ],
        "kept": [_kept_line(costs, within) for costs in COSTS],
        "machines": differences(machines),
        "missed": [
            f"| {pair.case} | {pair.queue} | {pair.measure} | {pair.found[0]:.4g} to {pair.found[1]:.4g} "
            f"| {pair.truth:.4g} |"
            for pair in pairs
            if not pair.is_held
        ],
    }
    text = TEMPLATE.read_text(encoding="utf-8")
    for name, lines in figures.items():
        text = text.replace(f"{{{name}}}", "\n".join(lines))
    return text


def _lines(pairs: Sequence[Pair]) -> Iterator[str]:
    """Yield a line for each case, and for all of one day, of another day, and recorded at all."""
    recorded = [pair for pair in pairs if not pair.is_made]
    one_day, another = ([pair for pair in recorded if pair.is_other_day == other] for other in (False, True))
    made = [pair for pair in pairs if pair.is_made]
    for title, group in (("of one day", one_day), ("of another day", another), ("recorded", []), ("", made)):
        for case in dict.fromkeys(pair.case for pair in group):
            yield _line(case, [pair for pair in group if pair.case == case])
        if title:
            yield _line(f"**all {title}**", group or recorded)
            able = [pair for pair in group or recorded if pair.measure != "discards"]
            yield _line(f"all {title}, but for discards", able)


def _bound_lines(pairs: Sequence[Pair]) -> Iterator[str]:
    for case in dict.fromkeys(pair.case for pair in pairs):
        group = [pair for pair in pairs if pair.case == case]
        yield f"| {case} | {len(group)} | {sum(pair.is_held for pair in group)} |"


def _kept_line(costs: str, within: Sequence[Within]) -> str:
    cells = []
    for is_as_recorded in (True, False):
        own = [one.is_within for one in within if (one.costs, one.is_as_recorded) == (costs, is_as_recorded)]
        cells.append(f"{sum(own)} of {len(own)} ({100 * sum(own) / len(own):.0f} %)" if own else "-")
    return f"| {costs} | {cells[0]} | {cells[1]} |"


def _line(title: str, pairs: Sequence[Pair]) -> str:
    held = sum(pair.is_held for pair in pairs)
    widths = [pair.width for pair in pairs if pair.truth and not pair.is_near_critical]
    critical = sum(pair.is_near_critical for pair in pairs)
    width = f"{100 * median(widths):.1f} %" if widths else "-"
    return f"| {title} | {len(pairs)} | {held} ({100 * held / len(pairs):.0f} %) | {width} | {critical} |"


@pytest.mark.calibration
def test_the_page_is_written(root, capsys):
    replays = int(os.environ.get("QFLOW_CALIBRATION_REPLAYS", 0)) or None
    with capsys.disabled():
        made = build(root, replays, lambda line: print(line, file=sys.stderr))
    assert all(path.stat().st_size for path in made)
