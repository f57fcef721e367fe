"""Sweeps: simulate each component of a fleet under other settings; and advice on settings that are safe.

The workload behind a component's log is estimated (:mod:`qflow.prediction.client_model`), changed by
:class:`FleetSettings` (changes by pattern of queue names), and simulated. A *sweep* does so for several
settings, and stores each *cell* (a part of the lake under one setting) as a part of a table
(:mod:`qflow.spark.tables`), so that an interrupted sweep resumes. A *what-if* returns the same measures
without storing them. If a measure depends on a demand that the log does not show, it is a bound, and its note
tells so. *Advice* (:mod:`qflow.design`) finds thresholds for each queue with which it cannot overflow.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from qflow.broker.errors import AmqpException
from qflow.broker.settings import Argument
from qflow.design import DesignError, Limits, Recommendation, recommend
from qflow.kit import RefusalError
from qflow.logs.client_log import ClientLog
from qflow.logs.log_file import BEGIN, END, LakeRow, LogRow
from qflow.prediction.client_model import LogModel
from qflow.prediction.predict import Settings
from qflow.prediction.replays import Answer, Replayer, polls_of, recorded_sections
from qflow.prediction.summary import ANY_END, deaths, demand_words, spread_of
from qflow.progress import Progress
from qflow.spark.lake import in_order, require_lake
from qflow.spark.tables import (
    ADVICE,
    FORMAT,
    KEYS,
    LAKE,
    MEASURES,
    NO_DAY,
    Advice,
    GrowingTable,
    Measure,
    Part,
    Schema,
    by_component,
    digest_of,
    lake_rows,
    of_parts,
    part_names,
    shuffle_partitions,
    to_batches,
)
from qflow.spark.workers import map_batches
from qflow.workload.attributes import WorkloadError
from qflow.workload.measures import Measures
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_LARGEST_COMPONENT = 5_000_000
"""The largest number of rows of a component that a worker holds in memory, at about 1 kB each."""


class TooLarge(NamedTuple):
    """A component with too many rows to hold in memory: the number of its rows, and the limit."""

    rows: int
    allowed: int

    def text(self) -> str:
        """Return a sentence for the component's note."""
        return f"too large: {self.rows} events, {self.allowed} are allowed; an audit takes it, or allow more"


def _component_log(component: str, rows: Iterable[LakeRow]) -> tuple[Workload, ClientLog]:
    """Return the workload and the log in a component's rows."""
    workload: Workload | None = None
    kept: list[LogRow] = []
    for row in rows:
        if row.event == BEGIN:
            workload = Workload.from_json(json.loads(row.workload or "null"), name=component)
        elif row.event != END:
            kept.append(LogRow(*row[1:8]))
    if workload is None:
        raise ValueError(f"component {component!r} has no begin, and so no workload")
    return workload, ClientLog(component, kept)


def component_log(lake: DataFrame, component: str) -> tuple[Workload, ClientLog]:
    """Return the workload and the log of one component of a lake, to be replayed and explained.

    All rows of the component are collected on the driver.

    Parameters:
        lake (DataFrame of LAKE): The rows of the lake.
        component: The name of the component, as in results.

    Raises:
        ValueError: If the lake has no such component.
    """
    rows = lake.where(lake.component == component).select(*LakeRow._fields).orderBy("seq").collect()
    return _component_log(component, [LakeRow(*row) for row in rows])


def _whole_components(batches: Iterator[Any], allowed: int = _LARGEST_COMPONENT) -> Iterator[tuple[Any, ...]]:
    """Yield each component of a partition with all its rows, or with a TooLarge above the limit."""
    for component, parts in by_component(batches):
        count = 0
        kept: list[LakeRow] = []
        of: list[str] = []
        for part in parts:
            of = [part.column("part")[0].as_py()] if "part" in part.schema.names else []
            count += part.num_rows
            # Rows above the limit are counted but not kept, so that the note has their number.
            if count <= allowed:
                kept += lake_rows(part)
        yield component, kept if count <= allowed else TooLarge(count, allowed), *of


def _map_components(
    ordered: DataFrame,
    work: Callable[..., Iterable[Sequence[Any]]],
    table: Schema,
    allowed: int,
) -> DataFrame:
    """Return the rows that `work` makes on workers from each component (and its part, if rows have one)."""

    def batches_of(batches: Iterator[Any]) -> Iterator[Any]:
        for component, rows, *part in _whole_components(batches, allowed):
            yield from to_batches(work(component, rows, *part), table)

    return map_batches(ordered, batches_of, table)


_PARTS = ("queues", "capacity", "prefetch")


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """A named change of settings.

    Parameters:
        name: The name for tables and figures, which must be unique in a grid.
        queues: The changed declare arguments by pattern of queue names (``*``, ``orders-*``).  None removes
            an argument.  Text such as ``"x0.5"`` multiplies the number that a queue declares, and does not
            change queues that do not declare it.
        capacity, prefetch: The changed numbers, or factors in the same form, by pattern of the names of
            producers or consumers.

    >>> halved = FleetSettings("half", {"*": {"qpid.flow_stop_count": "x0.5"}})
    >>> halved.of(Workload("w", 1, {"q": {"qpid.flow_stop_count": 300}, "r": {}})).queues
    {'q': {'qpid.flow_stop_count': 150}}
    """

    name: str
    queues: Mapping[str, Mapping[str, Argument | None]] = field(default_factory=dict)
    capacity: Mapping[str, int | str] = field(default_factory=dict)
    prefetch: Mapping[str, int | str] = field(default_factory=dict)

    def of(self, workload: Workload) -> Settings:
        """Return the values in a workload that these settings change."""
        queues: dict[str, dict[str, Argument | None]] = {}
        for queue, declared in workload.queues.items():
            changed = {
                key: _scale(value, declared.get(key))
                for pattern, arguments in self.queues.items()
                if fnmatchcase(queue, pattern)
                for key, value in arguments.items()
                # A factor scales only a declared number. An undeclared threshold is the broker's default, a
                # percentage of the queue's limit; scaling it would declare what the queue never declared.
                if _factor(value) is None or isinstance(declared.get(key), int)
            }
            if changed:
                queues[queue] = changed
        capacity = {p.name: p.capacity for p in workload.producers}
        prefetch = {c.name: c.prefetch for c in workload.consumers}
        return Settings(queues, _numbers(self.capacity, capacity), _numbers(self.prefetch, prefetch))

    def text(self) -> str:
        """Return the settings as JSON text, which is equal for equal settings in any order."""
        value = {"name": self.name, **{part: getattr(self, part) for part in _PARTS}}
        return json.dumps(value, sort_keys=True, separators=(",", ":"))


AS_RECORDED = FleetSettings("as recorded")
"""Settings without a change, which show how closely the simulation reproduces the recording."""


def load_grid(path: str | Path) -> list[FleetSettings]:
    """Read a grid of settings: a JSON map from names to ``queues``, ``capacity`` and ``prefetch``."""
    path = Path(path)
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise RefusalError(f"{path.name}: a grid of settings must be JSON; {error}") from None
    if not isinstance(value, dict) or not value:
        raise RefusalError(f"{path.name}: a grid of settings is a JSON map of names to settings")
    problems = [f"{name!r}: {problem}" for name, entry in value.items() for problem in _problems_of(entry)]
    if problems:
        raise RefusalError(f"{path.name}, {'; '.join(problems)}")
    return [FleetSettings(name, **entry) for name, entry in value.items()]


def _problems_of(entry: object) -> Iterator[str]:
    """Yield what is wrong with one entry of a grid."""
    if not isinstance(entry, dict) or not all(isinstance(part, dict) for part in entry.values()):
        yield f"must be a map of {', '.join(_PARTS)} to maps"
        return
    if unknown := sorted(set(entry) - set(_PARTS)):
        yield f"the parts are {', '.join(_PARTS)}; got {unknown[0]}"
    for pattern, arguments in entry.get("queues", {}).items():
        if not isinstance(arguments, dict):
            yield f"the arguments of queues {pattern!r} must be a map, got {arguments!r}"
    for part in _PARTS[1:]:
        for pattern, number in entry.get(part, {}).items():
            if type(number) is not int and _factor(number) is None:
                allowed = "a whole number, or a factor such as 'x0.5'"
                yield f"the {part} of clients {pattern!r} must be {allowed}, got {number!r}"


def _scale(value: Argument | None, present: object) -> Argument | None:
    """Return the new value of a setting; a factor such as ``x0.5`` multiplies the present number."""
    factor, number = _factor(value), int(str(present or 0))
    # Never to 0, as 0 turns a threshold off, and a present 0 is kept.
    return value if factor is None else number and max(1, round(number * factor))


def _factor(value: object) -> float | None:
    if isinstance(value, str) and value.startswith("x"):
        # Other text that begins with x is an ordinary value.
        with suppress(ValueError):
            factor = float(value[1:])
            return factor if math.isfinite(factor) else None
    return None


def _numbers(patterns: Mapping[str, int | str], present: Mapping[str, int]) -> dict[str, int]:
    return {
        name: int(str(_scale(value, number)))
        for name, number in present.items()
        for pattern, value in patterns.items()
        if fnmatchcase(name, pattern)
    }


_Sections = dict[str, dict[str, Measures]]


def what_if(
    lake: DataFrame, settings: Sequence[FleetSettings], allowed: int = _LARGEST_COMPONENT, replays: int = 1
) -> DataFrame:
    """Return the recorded and predicted measures of each component under each of several settings.

    Parameters:
        lake (DataFrame of LAKE): The rows of the lake.
        settings: The settings.
        allowed: The largest number of rows of a component; a larger component gives one row with a ``note``.
        replays: The number of replays of each component, as for :func:`qflow.predict`.  With more than one,
            the measures of queues have prediction intervals, and each producer has the share of replays in
            which its session died.

    Returns:
        A table of MEASURES, in no particular order.
    """
    work = partial(_measure_component, settings=list(settings), replays=replays)
    return _map_components(in_order(lake.select(*LAKE)), work, MEASURES, allowed)


def _measure_component(
    component: str, rows: list[LakeRow] | TooLarge, settings: Sequence[FleetSettings], replays: int = 1
) -> Iterator[Measure]:
    """Yield the measures of a component under each setting."""
    if isinstance(rows, TooLarge):
        for setting in settings:
            yield Measure(component, setting.name, note=rows.text())
        return
    # The model's log and workload use the log's own clock, as predictions do.
    given, whole_log = _component_log(component, rows)
    behind = LogModel(whole_log, given)
    workload, log, end = behind.workload, behind.log, behind.end
    died = {row.client for row in log.rows if row.event == "error"}
    recorded = _with_deaths(recorded_sections(workload, log, end), died)
    # In one process, as Spark's workers keep every core busy.
    replayer = Replayer(polls_of(log, end) if replays > 1 else {}, replays, processes=1)
    for setting in settings:
        try:
            change = setting.of(workload).apply
            answer = replayer.answer(behind, change)
        except (AmqpException, WorkloadError) as error:
            # That the broker refuses a setting is a result, not a failure of the sweep.
            yield Measure(component, setting.name, note=f"refused: {error}")
            continue
        shown = answer.shown
        sections = {name: {key: dict(found) for key, found in part.items()}
                    for name, part in shown.sections.items()}  # fmt: skip
        predicted = _with_deaths(sections, shown.errors)
        if replays > 1:
            for name, measures in predicted["producers"].items():
                measures["dies"] = deaths(answer.runs, name)["dies"]
        unknown = {name: one.as_json() for name, one in behind.unknown().items()} if answer.bounds else {}
        words = "; ".join(demand_words({"demand": unknown, "is_bound": False}))
        yield from _rows(component, setting, recorded, predicted, answer, words)


def _with_deaths(sections: _Sections, died: Container[str]) -> _Sections:
    for name, measures in sections["producers"].items():
        measures["died"] = float(name in died)
    return sections


def _rows(
    component: str,
    setting: FleetSettings,
    recorded: _Sections,
    predicted: _Sections,
    answer: Answer,
    unknown: str,
) -> Iterator[Measure]:
    for section, names in predicted.items():
        # If the demand is not fully known, measures of producers, such as the blocked share, have intervals.
        has_limits = section == "queues" or (section == "producers" and bool(unknown))
        for name in sorted(names):
            before = recorded[section].get(name, {})
            found, kinds = spread_of(answer, section, name) if has_limits else ({}, {})
            for measure, value in sorted(names[name].items()):
                numbers = (before.get(measure), value, *found.get(measure, (None, None)))
                was, will, low, high = map(_number, numbers)
                note = f"bound: {unknown or ANY_END}" if kinds.get(measure) == "bound" else ""
                yield Measure(component, setting.name, section, name, measure, was, will, low, high, note)


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


_KEPT = Schema(MEASURES | KEYS)


def sweep(
    spark: SparkSession,
    lake: str | Path,
    settings: Sequence[FleetSettings],
    folder: str | Path,
    progress: Progress | None = None,
    allowed: int = _LARGEST_COMPONENT,
    replays: int = 1,
    form: str = FORMAT,
) -> DataFrame:
    """Return the measures of every component under every setting; only missing cells are computed."""
    names = [setting.name for setting in settings]
    if twice := [name for name in names if names.count(name) > 1]:
        raise RefusalError(f"two settings are named {twice[0]!r}")
    source, table = GrowingTable(spark, lake, form), GrowingTable(spark, folder, form)
    rows = require_lake(source)
    # The name of a lake's part depends on its inputs, so cells of a changed lake have other names.
    cells = {
        (NO_DAY, _cell_name(part, setting, replays)): (part, setting)
        for part in source.done_parts()
        for setting in settings
    }

    def measure_cells(some: Sequence[Part]) -> DataFrame:
        return _measure_cells(rows, {part: cells[part] for part in some}, allowed, replays)

    # A cell is worth several tasks.
    table.fill(cells, measure_cells, progress, shuffle_partitions(spark))
    # The table exists now, as a lake has at least one part, a grid one setting, and each cell one row.
    return of_parts(table.frame, cells).select(*MEASURES)


def _cell_name(part: Part, setting: FleetSettings, replays: int) -> str:
    """Return the name of a cell, which is a digest of the lake's part, the setting and the replays."""
    return part_names(digest_of(part, setting.text(), replays), 1)[0]


def _measure_cells(
    lake: DataFrame, cells: Mapping[Part, tuple[Part, FleetSettings]], allowed: int, replays: int
) -> DataFrame:
    """Return the measures of the given cells: each component under the settings that its part lacks."""
    wanted: dict[str, list[tuple[FleetSettings, str]]] = {}
    for (_, cell), (part, setting) in cells.items():
        wanted.setdefault(part[1], []).append((setting, cell))

    def measure(component: str, rows: list[LakeRow] | TooLarge, part: str) -> Iterator[tuple[Any, ...]]:
        named = {setting.name: cell for setting, cell in wanted[part]}
        for row in _measure_component(component, rows, [setting for setting, _ in wanted[part]], replays):
            yield (*row, NO_DAY, named[row.setting])

    few = of_parts(lake, {part for part, _ in cells.values()})
    return _map_components(in_order(few.select(*LAKE, "part")), measure, _KEPT, allowed)


# Advice

_MESSAGES = 2_000
"""The number of messages in each simulation of candidate settings."""


def advise(
    lake: DataFrame,
    limits: Mapping[str, Limits] | None = None,
    messages: int = _MESSAGES,
    allowed: int = _LARGEST_COMPONENT,
) -> DataFrame:
    """Return settings with which no queue can overflow, with their premises and costs.

    Parameters:
        lake (DataFrame of LAKE): The rows of the lake.
        limits: Limits by pattern of queue names, for queues that declare no limit themselves.
        messages: The number of messages in each simulation of candidate settings.
        allowed: The largest number of rows of a component, as for :func:`what_if`.

    Returns:
        A table of ADVICE, in no particular order.
    """
    work = partial(_advise_component, limits=dict(limits or {}), messages=messages)
    return _map_components(in_order(lake.select(*LAKE)), work, ADVICE, allowed)


def _advise_component(
    component: str,
    rows: list[LakeRow] | TooLarge,
    limits: Mapping[str, Limits],
    messages: int,
) -> list[Advice]:
    """Return the advice on the queues of a component."""
    if isinstance(rows, TooLarge):
        return [Advice(component, note=rows.text())]
    workload, log = _component_log(component, rows)
    extracted, bounds = LogModel(log, workload).to_design()
    given = {
        queue: limit
        for queue, arguments in workload.queues.items()
        for pattern, limit in limits.items()
        if fnmatchcase(queue, pattern) and not {"qpid.max_count", "qpid.max_size"} & arguments.keys()
    }
    try:
        made = recommend(extracted, given, message_limit=messages, bounds=bounds)
    except (DesignError, AmqpException, WorkloadError) as error:
        return [Advice(component, queue, note=str(error)) for queue in workload.queues]
    return list(_advice_rows(component, workload, made))


_WORDS = {True: "could overflow", False: "cannot overflow", None: "not proved"}
_COSTS = ("flips_per_minute", "blocked_share", "latency_p50", "latency_p99")


def _advice_rows(component: str, workload: Workload, made: Recommendation) -> Iterator[Advice]:
    windows = {name: made.capacities[name] for name in sorted(made.capacities)}
    costs = {
        which: {name: getattr(cost, name) for name in _COSTS}
        for which, cost in (("declared", made.declared), ("recommended", made.evidence))
    }
    demand = {"demand": {name: one.as_json() for name, one in made.bounds.items()}} if made.bounds else {}
    for queue in workload.queues:
        before, after = made.before[queue], made.verdicts[queue]
        yield Advice(
            component,
            queue,
            made.lines.get(queue, ""),
            _WORDS[before.can_overflow],
            "; ".join(before.reasons),
            "; ".join(after.reasons),
            json.dumps({"capacity": windows, **costs, **demand}, sort_keys=True),
            made.kept.get(queue, ""),
        )
