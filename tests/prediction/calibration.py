"""Calibration: how often the intervals of predictions hold what was recorded, and how wide they are.

For each recording that was repeated, each run is predicted from and the others are looked up in its
intervals; where settings were recorded under which nothing else is known, they are predicted from the logs
of other settings.  One run of each was recorded on another day, by another machine; pairs with it are counted
apart.  Beside that there is *made* truth: a simulation is logged, predicted, and simulated again with another
chance.  The result is a page and a reliability diagram: intervals that are to hold 80 of 100 values should
hold that many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import exp, log, sqrt
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

from qflow.logs.client_log import ClientLog
from qflow.prediction.branches import ended_words
from qflow.prediction.changes import Settings
from qflow.prediction.costs import USUAL
from qflow.prediction.extraction import extract
from qflow.prediction.intervals import COVER, REPLAYS_HOLD, _is_wide, interval
from qflow.prediction.predict import predict, replay_workload
from qflow.prediction.receipt import receipt_of, score
from qflow.prediction.replays import (
    BUSY,
    CHANCE,
    PACE,
    _rows_of_run,
    polls_of,
    recorded_sections,
    vary_chance,
)
from qflow.workload.agenda import SECOND
from qflow.workload.arrivals import due_messages
from qflow.workload.model import Workload
from qflow.workload.simulate import simulate
from qflow.workload.stage import GRACE

PAGE = Path("notebooks") / "reference" / "calibration.md"
DIAGRAM = Path("notebooks") / "images" / "calibration.svg"

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


class Pair(NamedTuple):
    """One measure of one queue: what was recorded, and what replays measured."""

    case: str
    queue: str
    measure: str
    truth: float
    found: list[float]
    values: list[float]

    @property
    def is_held(self) -> bool:
        """Whether the interval holds what was recorded."""
        return self.found[0] <= self.truth <= self.found[1]

    @property
    def width(self) -> float:
        """The interval's width as a share of what was recorded."""
        return (self.found[1] - self.found[0]) / self.truth if self.truth else 0.0

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


def build(root: Path, replays: int | None = None, tell: Callable[[str], None] = print) -> tuple[Path, Path]:
    """Predict all cases, write the page and the diagram, and return their paths.

    Raises:
        OSError: If a recording cannot be read, or a file not be written.
    """
    pairs: list[Pair] = []
    deaths: list[Death] = []
    came: list[Came] = []
    within: list[Within] = []
    folder = root / "data" / "recordings" / "workloads"
    for case in CASES:
        tell(f"{case.source} {case.run}, of {case.target}")
        own, ended, branched, kept = _recorded(folder, case, replays)
        pairs += own
        deaths += ended
        came += branched
        within += kept
    for name in MADE:
        tell(f"{name}, made")
        pairs += _made(folder, name, replays)
    tell("machines")
    machines = [
        [machine(extract(*_load(folder, name, run)[::-1]).workload) for run in RUNS] for name in REPEATED
    ]
    chart = reliability(pairs)
    (root / DIAGRAM).write_text(chart.svg, encoding="utf-8")
    (root / PAGE).write_text(page(pairs, deaths, came, within, chart.claims, machines), "utf-8")
    return root / PAGE, root / DIAGRAM


def _load(folder: Path, name: str, run: int) -> tuple[Workload, ClientLog]:
    own = folder / f"{name}.json"
    workload = Workload.load(own if own.exists() else folder / "repeats" / f"{name}.json")
    log = folder / "repeats" / f"{name}-{run}.parquet" if run else folder / f"{name}.csv.gz"
    return workload, ClientLog.load(log)


def _title(case: Case, truth: int) -> str:
    title = case.target if case.target == case.source else f"{case.target}, from {case.source}"
    return title + _ANOTHER if bool(case.run) != bool(truth) else title


_ANOTHER = ", another day"


def _recorded(
    folder: Path, case: Case, replays: int | None
) -> tuple[list[Pair], list[Death], list[Came], list[Within]]:
    workload, log = _load(folder, case.source, case.run)
    target, _ = _load(folder, case.target, case.truths[0])
    workload = workload.replace(duration=target.duration)
    settings = Settings.of(target, workload) if case.target != case.source else None
    report = predict(workload, log, settings, compare_models=False, replays=replays)
    pairs: list[Pair] = []
    came: list[Came] = []
    within: list[Within] = []
    simple = dict(_with_fewer_costs(workload, log, settings))
    died: dict[str, bool] = {}
    for run in case.truths:
        truth = _load(folder, case.target, run)[1]
        measured = recorded_sections(target, truth, round(target.duration * SECOND))
        pairs += _pairs(_title(case, run), report, measured["queues"])
        came += _came(case, score(receipt_of(report), truth))
        within += _within(case, report, simple, measured["queues"])
        for row in truth.rows:
            if row.event == "error":
                died[row.client] = True
    own = case.target if case.target == case.source else f"{case.target}, from {case.source} {case.run}"
    number = report["replays"]["number"]
    deaths = [
        Death(own, name, entry["dies"], died.get(name, False), number)
        for name, entry in report["producers"].items()
    ]
    return pairs, deaths, came, within


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
    full, constants = (extract(log, workload, detail=detail).workload for detail in ("full", "constants"))
    free = full.replace(
        producers=tuple(replace(client, network=None) for client in full.producers),
        consumers=tuple(replace(client, network=None, overhead=()) for client in full.consumers),
    )
    for costs, world in zip(COSTS[1:], (free, constants, full), strict=True):
        (run,) = replay_workload(world, settings or Settings(), end, polls_of(log, end), 1)
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
            if _is_wide(measure, recorded, report["queues"][queue]["interval"][measure]):
                continue
            for costs, value in simple.items():
                off = abs(value(queue, measure) - recorded)
                yield Within(costs, case.source == case.target, off <= max(least, share * recorded))


def _pairs(title: str, report: dict[str, Any], truths: dict[str, dict[str, Any]]) -> Iterator[Pair]:
    values = report["replays"]["values"]
    for queue, truth in truths.items():
        for measure, found in report["queues"][queue]["interval"].items():
            yield Pair(title, queue, measure, float(truth[measure] or 0), found, values[queue][measure])


def _made(folder: Path, name: str, replays: int | None) -> list[Pair]:
    """Return pairs of made truth: the clients of a recording, simulated with two other chances."""
    program, log = _load(folder, name, 1)
    world = extract(log, program, "open").workload
    report = predict(
        program, logged(vary_chance(world, 1, 7), program), compare_models=False, replays=replays
    )
    run = logged(vary_chance(world, 3, 7), program)
    truth = predict(program, run, compare_models=False, replays=1)
    return list(
        _pairs(
            f"{name}, made",
            report,
            {queue: dict(entry["predicted"]) for queue, entry in truth["queues"].items()},
        )
    )


def machine(workload: Workload) -> dict[str, float]:
    """Return what a log shows of the machine on which it was recorded: its pace, and its other work.

    Parameters:
        workload: What was extracted from the log.

    >>> from qflow.workload import Network, Producer
    >>> network = Network(send_cost=0.00005)
    >>> producer = Producer("p", ("", "q"), rate=4, capacity=5, size=100, network=network)
    >>> machine(Workload("w", 1, {"q": {}}, producers=(producer,)))["sending a message"]
    5e-05
    """
    producers = [item.network for item in workload.producers if item.network is not None]
    consumers = [item.network for item in workload.consumers if item.network is not None]
    overheads = [item.overhead for item in workload.consumers if item.overhead]
    late = [
        sum(value > min(way for _, way in item.latencies) for _, value in item.latencies)
        for item in consumers
        if item.latencies
    ]
    found = {
        "sending a message": [item.send_cost for item in producers],
        "learning of a completion": [item.report_time(MIDDLE) / SECOND for item in producers],
        LONGER: [mean(factor for _, factor in item.pace) for item in producers if item.pace],
        "a service, beyond its draw": [median(times) for times in overheads],
        "waking up late": [mean(item.wakes) for item in consumers if item.wakes],
        "delays of credit that end late": [number / workload.duration for number in late],
        "services that take 2 ms longer": [
            sum(time > USUAL / SECOND for time in times) / len(times) for times in overheads
        ],
    }
    return {what: mean(values) for what, values in found.items() if values and any(values)}


MIDDLE = 2_000
"""Messages sent: after that many a completion's work, which grows, is compared."""

LONGER = "work that takes longer while others work"
"""A factor, in episodes (:func:`qflow.prediction.costs._client_pace`); replays have the log's own."""

OFTEN = ("delays of credit that end late", "services that take 2 ms longer")
"""What is a number of interruptions, not a time."""


def differences(machines: Sequence[Sequence[Mapping[str, float]]]) -> list[str]:
    """Return as a table by what factor machines differ between two runs of the same clients.

    Parameters:
        machines: For each recording, what :func:`machine` returns of each run, that of another day first.

    >>> for line in differences([[{"sending a message": 3.0}, {"sending a message": 1.0}]])[2:]:
    ...     print(line)
    | sending a message | - | 3.00 | 3.00 | 1.49 |
    """
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
        varied = 0 if what == LONGER else BUSY if what in OFTEN else PACE
        lines.append(f"| {what} | {' | '.join(factors)} | {exp(varied):.2f} |")
    return lines


def logged(workload: Workload, program: Workload) -> ClientLog:
    """Return what the clients of a workload would have logged, with the sizes and groups of their program."""
    end = round(workload.duration * SECOND) + GRACE
    what = {}
    for producer in program.producers:
        for number, (due, size, group) in enumerate(due_messages(producer), 1):
            if due > end:
                break
            what[f"{producer.name}-{number}"] = (size, group)
    rows = []
    for row in _rows_of_run(simulate(workload).events):
        if row.event in ("transfer", "deliver"):
            size, group = what[row.label]
            row = row._replace(size=size, group=group)
        rows.append(row)
    return ClientLog(workload.name, rows)


# What is shown


def held_share(pairs: Sequence[Pair], cover: float) -> float:
    """Return for what share of pairs an interval made for so many cases holds what was recorded.

    >>> pair = Pair("w", "q", "discards", 5.0, [4, 6], [4.0, 5.0, 6.0])
    >>> held_share([pair, pair._replace(truth=9.0)], 0.8)
    0.5
    """
    held = 0
    for pair in pairs:
        low, high = interval(pair.measure, pair.values, cover * REPLAYS_HOLD / COVER)
        held += low <= pair.truth <= high
    return held / len(pairs)


HOLDS = (0.5, 0.6, 0.7, 0.8, 0.9)
"""Shares of replays of which one is chosen: of 19 replays, whole numbers at each end."""


def hold_of(pairs: Sequence[Pair]) -> float:
    """Return how many of the replays intervals must hold so that they hold 80 of 100 of some pairs.

    >>> pair = Pair("w", "q", "throughput", 102.0, [100.0, 118.0], [100.0 + n for n in range(19)])
    >>> hold_of([pair]), hold_of([pair, pair._replace(truth=90.0)])
    (0.7, 0.9)
    """
    telling = [pair for pair in pairs if pair.measure != "discards" and not pair.is_near_critical] or pairs
    for hold in HOLDS:
        if sum(pair.is_held for pair in with_intervals(telling, hold)) >= COVER * len(telling):
            return hold
    return HOLDS[-1]


def with_intervals(
    pairs: Sequence[Pair], hold: float, model: Mapping[str, tuple[float, float]] | None = None
) -> list[Pair]:
    """Return pairs with the intervals that another share of replays, or other margins, give."""
    return [pair._replace(found=interval(pair.measure, pair.values, hold, model)) for pair in pairs]


def held_out(pairs: Sequence[Pair]) -> list[Pair]:
    """Return pairs with intervals whose share of replays was fitted to all other workloads.

    >>> values = [100.0 + n for n in range(19)]
    >>> one = Pair("one", "q", "discards", 110.0, [], values)
    >>> [pair.found for pair in held_out([one, one._replace(case="two", truth=102.0)])]
    [[102, 116], [104, 114]]
    """
    found: list[Pair] = []
    for case in dict.fromkeys(pair.case for pair in pairs):
        name = _workload_of(case)
        others = [pair for pair in pairs if _workload_of(pair.case) != name]
        found += with_intervals([pair for pair in pairs if pair.case == case], hold_of(others))
    return found


def _workload_of(case: str) -> str:
    """Return whose recording a case is checked against."""
    return case.split(",")[0]


def reliability(pairs: Sequence[Pair]) -> Any:
    """Return the reliability diagram: what share intervals hold, over what they are to hold."""
    from qflow.labs.charts import Chart, Line

    telling = [pair for pair in pairs if pair.measure != "discards"]
    points = tuple((100 * cover, 100 * held_share(telling, cover)) for cover in LEVELS)
    asked, held = points[-1]
    claims = (
        f"Intervals for {asked:.0f} of 100 cases hold {held:.0f} of 100 recorded values "
        f"(of {len(telling)} pairs of a queue and a measure).",
        "On the diagonal intervals hold what they promise; above it they are wider than they need be, below "
        "it too narrow.",
    )
    lines = (
        Line("held", points, is_sampled=True),
        Line("as promised", ((0.0, 0.0), (100.0, 100.0)), is_sampled=True),
    )
    return Chart(
        "How often intervals hold what was recorded",
        "promised: of 100 cases",
        "held: of 100 cases",
        claims,
        lines=lines,
        end=100.0,
        reach=94.0,
    )


def page(
    pairs: Sequence[Pair],
    deaths: Sequence[Death],
    came: Sequence[Came],
    within: Sequence[Within],
    claims: Sequence[str],
    machines: Sequence[Sequence[Mapping[str, float]]],
) -> str:
    """Return the page, in Markdown."""
    numbers = sorted({len(pair.values) for pair in pairs})
    said = f"Each prediction has {numbers[0]} replays"
    if len(numbers) > 1:
        said += f", up to {numbers[-1]} where a session ends in some of them only"
    lines = [*_HEAD[:-2], f"{said}.", "", *_HEAD[-2:]]
    recorded = [pair for pair in pairs if not pair.case.endswith("made")]
    one_day, another = (
        [pair for pair in recorded if pair.case.endswith(_ANOTHER) == is_other] for is_other in (False, True)
    )
    made = [pair for pair in pairs if pair.case.endswith("made")]
    for title, group in (("of one day", one_day), ("of another day", another), ("recorded", []), ("", made)):
        for case in dict.fromkeys(pair.case for pair in group):
            lines.append(_line(case, [pair for pair in group if pair.case == case]))
        if title:
            lines.append(_line(f"**all {title}**", group or recorded))
    steady = [pair for pair in recorded if not pair.is_near_critical]
    lines += ["", *_HELD_OUT]
    lines += [
        _line(f"{margins}, {days}", [pair for pair in found if pair.case.endswith(_ANOTHER) == is_other])
        for margins, found in (
            (f"in use: {100 * REPLAYS_HOLD:.0f} % of replays, and the margins", steady),
            ("80 % of replays, and the margins", with_intervals(steady, COVER)),
            ("80 % of replays, no margins", with_intervals(steady, COVER, {})),
            ("as many as the other workloads need, and the margins", held_out(steady)),
        )
        for days, is_other in (("one day", False), ("another day", True))
    ]
    lines += ["", "![Reliability diagram](../images/calibration.svg)", "", *claims, "", *_DEATHS]
    lines += [
        f"| {death.case} | {death.producer} | {100 * death.dies:.0f} % of {death.replays} replays "
        f"| {'died' if death.died else 'lived'} |"
        for death in deaths
        if death.dies or death.died
    ]
    lines += ["", *_BRANCHES]
    lines += [
        f"| {one.case} | {one.when} | {one.share:.0%} | {one.held} of {one.of} | {one.width:.0%} |"
        for one in came
    ]
    lines += ["", *_KEPT, *(_kept_line(costs, within) for costs in COSTS)]
    lines += ["", *_MACHINES, "", *differences(machines)]
    lines += ["", *_MISSED]
    lines += [
        f"| {pair.case} | {pair.queue} | {pair.measure} | {pair.found[0]:.4g} to {pair.found[1]:.4g} "
        f"| {pair.truth:.4g} |"
        for pair in pairs
        if not pair.is_held
    ]
    return "\n".join([*lines, "", *_CAUSES, ""])


_HEAD = """# Calibration: how sure predictions are

<!-- Built by: python -m pytest -n 0 -m calibration -->

`qflow predict` gives for every measure of every queue an interval that is to hold 80 of 100 recordings of the
same workload. Here is how often it did. Each run of a recording is predicted from, and the others are looked
up in its intervals; a line is all of that for one recording, or for one from the runs of another. Pairs of
runs that were recorded on different days, by different machines, have lines of their own. Of `groups-release`
and of `fanout-wide` itself there is only one run: its own log. *Made* truth is simulated, logged, predicted
and simulated again.

| prediction of | pairs | held | median width | near-critical pairs |
|---|---|---|---|---|""".splitlines()

_HELD_OUT = """Intervals are those of replays, and a margin on both sides for the model's own error. A margin
makes an interval hold more recordings, so fewer of the replays need lie in it; how many is one number for all
measures and workloads. It was fitted to these pairs, so that the lines above say too much good of it. Here
is what others give, and for each workload the one with which 80 of 100 pairs of all *other* workloads lie
inside. Near-critical pairs are left aside.

| intervals | pairs | held | median width | near-critical pairs |
|---|---|---|---|---|""".splitlines()

_DEATHS = """A pair is a measure of a queue. The width is that of the interval as a share of what was
recorded, its median over the pairs that are not near-critical: an interval wider than half the value says
that chance decides, and the report says by what.

## Sessions that died

| prediction of | producer | dies in | recorded |
|---|---|---|---|""".splitlines()

_BRANCHES = """## Branches

Where sessions end in some replays only, there is a prediction for each way it can go. Here is the one that
came: in how many of the replays it did, how many measures of the recording its intervals hold (mean depth,
share of time ON, stops and throughput of each queue), and their median width. Where no session of a replay
ended when the real one did, the nearest is looked up.

| prediction of | branch that came | predicted | held | median width |
|---|---|---|---|---|""".splitlines()

_KEPT = """## What each layer of costs keeps

`detail="constants"` estimates what clients' work and ways cost in constants (`qflow.prediction.costs`);
`detail="full"` adds how that varies (`qflow.prediction.disturbances`). Here is how many measures one replay
predicts within the limits (5 % of the mean depth, 3 points of the share of time ON, 10 % of the stops or 2,
3 % of the throughput), near-critical ones left aside.

| costs | the same settings, recorded again | other settings |
|---|---|---|""".splitlines()

_MACHINES = """## How machines differ

A log is one draw of its machine's chance, and the recording that is predicted is another one (CN-31). By
these factors two runs of the same clients differ: *e* to the root mean square of the logarithm of their
ratio. The last column is what replays vary, in standard deviations: the pace of all work by one factor, how
often it is interrupted by another.
""".splitlines()

_MISSED = """## What missed

| prediction of | queue | measure | interval | recorded |
|---|---|---|---|---|""".splitlines()

_CAUSES = """## What made predictions wrong, and how that is known

Recordings lay outside of every replay until these were part of the model; rules CN-29 to CN-31 are about
them.

- **All that is read at once goes first** (observed). A consumer's settlements travel together; the broker
  carries out all of them before it makes output. With output after each accept, a consumer of
  `groups-release` kept a group for half a minute; recorded, it loses it with the last message of a
  batch. Predicted from its own log, throughput was 233 a second before, and is 241 now; recorded 242.
- **Credit comes back at a tick** (observed). Deliveries after a delayed acknowledgement begin within a
  millisecond of a 4 ms grid in 13 of 14 recordings. What several clients have waiting therefore arrives at
  the same instant.
- **At a tick the newest delay ends first** (observed, CN-30). In the log of `bytes-and-count-low` there are
  26 ticks at which it decides whether the consumer or a producer is first. Where the producer's delay is the
  newer one, it was first at all 14; where it is the older one, the consumer was first at about half. With an
  order by chance the consumer comes first too often, and flow control turns OFF too often: 14 to 27 stops
  were predicted from `bytes-and-count`, 13 recorded; it is 8 to 23 by this rule, as narrow as before. Between
  two producers the older delay came first in that log; that decides nothing there, and why it is so is open.
- **Clients wake up late when others wake up, too** (observed in the logs; that the machine's cores are the
  reason is inferred). Consumers have their messages 0.2 ms after the tick, and 1 ms after it where producers
  are let go at the same tick (`fanout-wide`: medians of 127 and 38). A consumer that is late returns its
  credit one tick later, after what the producers had waiting. This lets the real broker go two or three
  messages further than replays did without it, and ends a session.
- **Recorded again, the machine is another** (observed, CN-31). The pace was varied as if the log's own
  were the mean of all days. But a log is one draw and the recording that is predicted another one, and two
  draws differ by the root of 2 more; how often a machine interrupts was not varied at all. From the third
  log of `fanout-one-slow` the session of `p1` ended in none of 19 replays of `fanout-wide`, and does in a
  quarter of them now; of pairs of different days 64 % were held.

**Open**: how surely a session of `fanout-wide` ends. It did in every recording. In 120 replays from each of
the four logs of `fanout-one-slow` that of `p1` ends in 19, 28, 37 and 18 of 100, from its own log in 38, each
with a standard error of 4. With 19 replays these were 26, 5, 32, 32 and 26, which was luck; so there are more
where a session ends in some of them only. One cause is seen in the log and is not in the model. When the
queue is ON again, what `p1` and `p2` have just sent and is held back until the next tick is never fewer than
six messages in replays; recorded, it was three at most at 5 of 19 instants, 4 to 40 ms later, at which the
broker reported. The broker's first answer to a burst of `p1` comes 0.3 ms after its end in the median, and up
to 1.6; in replays after 0.1. With so late an answer the rest of the burst travels in one piece, and the queue
is near its limit for longer: at 92 messages or more in 8 of the 88 reports of the broker before the session
ended, in 1 to 3 of 100 of those of replays. A rule by which the broker reads a burst when its sender rests
was tried: then it is 6 to 8 of 100, but sessions end as seldom. The report says of such a queue in how many
replays it comes within 5 % of its limit.

**Open**: other days of `groups-skewed`. From the logs of one day its share of time ON is predicted too large,
0.64 to 0.67 where the other day had 0.58, with two or three stops too many. Between OFF and ON the producers
fill the queue at their own pace, and how much longer their work takes while others work (the table above) is
1.2 in the logs of that day and 2.1 in that of the other. With the producers of that log the clients of the
third have 0.59 in place of 0.66; with its consumers, 0.67. One factor for all clients does not say that.
How often services are interrupted, varied more, changes nothing. Of `bytes-and-count` it is 1.9 and 1.4 to
1.6, of `fanout-one-slow` 1.7 and 1.3.""".splitlines()


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
