"""Sweep: each component of a fleet under each setting; killed at any moment, it goes on where it was.

The workload behind a component's log is extracted (:mod:`qflow.prediction.extraction`), changed by a
:class:`FleetSettings` (patterns of queue names, with what is changed for each) and simulated. A *what-if*
is a sweep with one setting. Each pair of component and setting is a cell, a task and a part of a table
(:mod:`qflow.spark.parts`).
"""

from __future__ import annotations

import json
import math
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from qflow.broker.errors import AmqpException
from qflow.broker.settings import Argument
from qflow.kit import RefusalError
from qflow.logs.audit import BEGIN, END, LakeRow
from qflow.logs.client_log import ClientLog
from qflow.logs.log_file import LogRow
from qflow.prediction.changes import Settings
from qflow.prediction.extraction import extract
from qflow.prediction.intervals import Interval, deaths, queue_intervals
from qflow.prediction.predict import replay_workload
from qflow.prediction.replays import most_likely, polls_of, recorded_sections
from qflow.progress import Progress
from qflow.spark.lake import count_events, in_order, read_lake
from qflow.spark.parts import FORMAT, NO_DAY, GrowingTable, Part, digest_of, of_parts, part_names
from qflow.spark.tables import KEYS, LAKE, MEASURES, Schema, by_component, to_batches, tuples
from qflow.spark.workers import map_batches
from qflow.workload.agenda import SECOND
from qflow.workload.attributes import WorkloadError
from qflow.workload.measures import Measures
from qflow.workload.model import Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LARGEST_COMPONENT = 5_000_000
"""A component with more rows is left out of what needs them all in memory, about 1 kB each."""


class TooLarge(NamedTuple):
    """A component that was not kept: how many rows it has, and how many are allowed.

    >>> TooLarge(12, 10).text()
    'too large: 12 events, 10 are allowed; an audit takes it, or allow more'
    """

    rows: int
    allowed: int

    def text(self) -> str:
        """Say it in a sentence."""
        return f"too large: {self.rows} events, {self.allowed} are allowed; an audit takes it, or allow more"


def component_log(component: str, rows: Iterable[LakeRow]) -> tuple[Workload, ClientLog]:
    """Return the workload and the log of a component.

    >>> from qflow.logs.components import lake_of
    >>> lake = lake_of("log", Workload("w", 1, {"q": {}}), [LogRow(7, "broker", "stats", "q", "[]", 0, "")])
    >>> workload, log = component_log("log/q", lake["log/q"])
    >>> workload.name, len(log.rows)
    ('log/q', 1)
    """
    workload: Workload | None = None
    kept: list[LogRow] = []
    for _, time, client, event, queue, label, size, group, text in rows:
        if event == BEGIN:
            workload = Workload.from_json(json.loads(text or "null"), name=component)
        elif event != END:
            kept.append(LogRow(time, client, event, queue, label, size, group))
    if workload is None:
        raise ValueError(f"component {component!r} has no begin, and so no workload")
    return workload, ClientLog(component, kept)


def whole_components(
    batches: Iterator[Any], allowed: int = LARGEST_COMPONENT
) -> Iterator[tuple[str, list[LakeRow] | TooLarge]]:
    """Yield each component of a partition with all its rows; of one with more than is allowed, how many."""
    for component, parts in by_component(batches):
        count = 0
        kept: list[LakeRow] = []
        for part in parts:
            count += part.num_rows
            if count <= allowed:
                kept += tuples(part, LAKE.names[1:])
        yield component, kept if count <= allowed else TooLarge(count, allowed)


_PARTS = ("queues", "capacity", "prefetch")


@dataclass(frozen=True, slots=True)
class FleetSettings:
    """A named change of settings.

    Parameters:
        name: For tables and figures; unique in a grid.
        queues: Pattern of queue names (``*``, ``orders-*``) to declare arguments; None removes one.  Text
            such as ``"x0.5"`` scales the number that a queue declares, and leaves queues alone that declare
            none.
        capacity, prefetch: Pattern of producer or consumer names to a number, or to text that scales as
            above.

    >>> halved = FleetSettings("half", {"*": {"qpid.flow_stop_count": "x0.5"}})
    >>> halved.of(Workload("w", 1, {"q": {"qpid.flow_stop_count": 300}, "r": {}})).queues
    {'q': {'qpid.flow_stop_count': 150}}
    """

    name: str
    queues: Mapping[str, Mapping[str, Argument | None]] = field(default_factory=dict)
    capacity: Mapping[str, int | str] = field(default_factory=dict)
    prefetch: Mapping[str, int | str] = field(default_factory=dict)

    def of(self, workload: Workload) -> Settings:
        """Return what this changes of a workload."""
        queues: dict[str, dict[str, Argument | None]] = {}
        for queue, declared in workload.queues.items():
            changed: dict[str, Argument | None] = {}
            for pattern, arguments in self.queues.items():
                if fnmatchcase(queue, pattern):
                    changed.update(_scale(arguments, declared))
            if changed:
                queues[queue] = changed
        capacity = {p.name: p.capacity for p in workload.producers}
        prefetch = {c.name: c.prefetch for c in workload.consumers}
        return Settings(queues, _numbers(self.capacity, capacity), _numbers(self.prefetch, prefetch))

    def text(self) -> str:
        """Return it as JSON text: equal for equal settings, whatever their name's case or order."""
        value = {"name": self.name, **{part: getattr(self, part) for part in _PARTS}}
        return json.dumps(value, sort_keys=True, separators=(",", ":"))


AS_RECORDED = FleetSettings("as recorded")
"""Nothing is changed: how well the simulation gives what was recorded."""


def load_grid(path: str | Path) -> list[FleetSettings]:
    """Read a grid of settings: a JSON map of names to ``queues``, ``capacity`` and ``prefetch``."""
    path = Path(path)
    try:
        value = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise RefusalError(f"{path.name}: a grid of settings must be JSON; {error}") from None
    if not isinstance(value, dict) or not value:
        raise RefusalError(f"{path.name}: a grid of settings is a JSON map of names to settings")
    return [_grid_entry(name, entry, path.name) for name, entry in value.items()]


def _grid_entry(name: str, entry: Any, where: str = "settings") -> FleetSettings:
    """Make one entry of a grid.

    >>> _grid_entry("small", {"capcity": {}})
    Traceback (most recent call last):
        ...
    qflow.kit.RefusalError: settings, 'small': the parts are queues, capacity, prefetch; \
    got capcity
    """
    if not isinstance(entry, dict) or not all(isinstance(part, dict) for part in entry.values()):
        raise RefusalError(f"{where}, {name!r}: must be a map of {', '.join(_PARTS)} to maps")
    unknown = sorted(set(entry) - set(_PARTS))
    if unknown:
        raise RefusalError(f"{where}, {name!r}: the parts are {', '.join(_PARTS)}; got {unknown[0]}")
    return FleetSettings(name, **entry)


def _scale(
    arguments: Mapping[str, Argument | None], declared: Mapping[str, Argument]
) -> dict[str, Argument | None]:
    changed: dict[str, Argument | None] = {}
    for key, value in arguments.items():
        factor = _factor(value)
        if factor is None:
            changed[key] = value
        elif isinstance(declared.get(key), int):
            changed[key] = max(1, round(int(str(declared[key])) * factor))
    return changed


def _numbers(patterns: Mapping[str, int | str], present: Mapping[str, int]) -> dict[str, int]:
    changed: dict[str, int] = {}
    for name, number in present.items():
        for pattern, value in patterns.items():
            if fnmatchcase(name, pattern):
                factor = _factor(value)
                changed[name] = int(value) if factor is None else max(1, round(number * factor))
    return changed


def _factor(value: object) -> float | None:
    if not isinstance(value, str) or not value.startswith("x"):
        return None
    try:
        return float(value[1:])
    except ValueError:
        return None


def _require_unique(settings: Sequence[FleetSettings]) -> None:
    """Refuse two settings of one name."""
    names = [setting.name for setting in settings]
    for name in names:
        if names.count(name) > 1:
            raise RefusalError(f"two settings are named {name!r}")


_Measure = tuple[str, str, str, str, str, float | None, float | None, float | None, float | None, str]
"""A row of MEASURES."""
_Sections = dict[str, dict[str, Measures]]


def what_if(
    lake: DataFrame, settings: Sequence[FleetSettings], allowed: int = LARGEST_COMPONENT, replays: int = 1
) -> DataFrame:
    """Return what each component would have done under each of some settings.

    Parameters:
        lake (DataFrame of LAKE): As for :func:`qflow.spark.lake_audit.audit`.
        allowed: Most rows of a component; a larger one gives one row that says so in its ``note``.
        replays: How many times each is run, each time with another chance, as for :func:`qflow.predict`; from
            2 on each measure of a queue has its interval, and each producer the share of replays in which it
            died.

    Returns:
        In no order.
    """
    work = partial(_what_if_partition, settings=list(settings), allowed=allowed, replays=replays)
    return map_batches(in_order(lake.select(*LAKE.names)), work, MEASURES)


def _what_if_partition(
    batches: Iterator[Any], settings: list[FleetSettings], allowed: int, replays: int
) -> Iterator[Any]:
    for component, rows in whole_components(batches, allowed):
        for measures in _measure_component(component, rows, settings, replays):
            yield from to_batches(measures, MEASURES)


def _measure_component(
    component: str, rows: list[LakeRow] | TooLarge, settings: Sequence[FleetSettings], replays: int = 1
) -> Iterator[list[_Measure]]:
    """Yield the measures of a component under one of the settings after the other."""
    if isinstance(rows, TooLarge):
        for setting in settings:
            yield [_note(component, setting, rows.text())]
        return
    workload, log = component_log(component, rows)
    end = round(workload.duration * SECOND)
    recorded = _measure_log(workload, log, end)
    extracted = extract(log, workload).workload
    polls = polls_of(log, end) if replays > 1 else None
    for setting in settings:
        try:
            runs = replay_workload(extracted, setting.of(workload), end, polls, replays, processes=1)
        except (AmqpException, WorkloadError) as error:
            yield [_note(component, setting, f"refused: {error}")]
            continue
        shown = most_likely(runs)
        sections = {name: {key: dict(found) for key, found in part.items()}
                    for name, part in shown.sections.items()}  # fmt: skip
        predicted = _with_deaths(sections, shown.errors)
        if replays > 1:
            for name, measures in predicted["producers"].items():
                measures["dies"] = deaths(runs, name)["dies"]
        yield list(_rows(component, setting, recorded, predicted, queue_intervals(runs, shown)))


def _measure_log(workload: Workload, log: ClientLog, end: int) -> _Sections:
    died = {row.client for row in log.rows if row.event == "error"}
    return _with_deaths(recorded_sections(workload, log, end), died)


def _with_deaths(sections: _Sections, died: Container[str]) -> _Sections:
    for name, measures in sections["producers"].items():
        measures["died"] = float(name in died)
    return sections


def _rows(
    component: str,
    setting: FleetSettings,
    recorded: _Sections,
    predicted: _Sections,
    intervals: Mapping[str, Mapping[str, Interval]],
) -> Iterator[_Measure]:
    for section, names in predicted.items():
        for name in sorted(names):
            before = recorded[section].get(name, {})
            found = intervals.get(name, {}) if section == "queues" else {}
            for measure, value in sorted(names[name].items()):
                low, high = found.get(measure, (None, None))
                yield (
                    component,
                    setting.name,
                    section,
                    name,
                    measure,
                    _number(before.get(measure)),
                    _number(value),
                    _number(low),
                    _number(high),
                    "",
                )


def _number(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(value)


def _note(component: str, setting: FleetSettings, text: str) -> _Measure:
    return (component, setting.name, "", "", "", None, None, None, None, text)


_KEPT = Schema([*MEASURES, *KEYS])


def sweep(
    spark: SparkSession,
    lake: str | Path,
    settings: Sequence[FleetSettings],
    folder: str | Path,
    progress: Progress | None = None,
    allowed: int = LARGEST_COMPONENT,
    replays: int = 1,
    form: str = FORMAT,
) -> DataFrame:
    """Return the measures of every component under every setting; only those that are missing are made."""
    _require_unique(settings)
    rows, table = read_lake(spark, lake, form), GrowingTable(spark, folder, form)
    made_of = _parts_of_components(rows)
    events = count_events(rows)
    cells = {
        (NO_DAY, _cell_name(f"{component} {made_of[component]}", setting, replays)): (component, setting)
        for component in sorted(events, key=lambda name: (-events[name], name))
        for setting in settings
    }

    def measure_cells(some: Sequence[Part]) -> DataFrame:
        return _measure_cells(rows, {part: cells[part] for part in some}, events, allowed, replays)

    for done in table.fill(cells, measure_cells):
        if progress is not None:
            progress(done, len(cells))
    found = table.frame()
    # A lake has at least one component, a grid at least one setting, and each cell a row.
    return of_parts(found, cells).select(*MEASURES.names)


def _parts_of_components(lake: DataFrame) -> dict[str, str]:
    """Return what part of a lake each component is in: with it a cell is told from one of an older lake."""
    return {row.component: row.part for row in lake.select("component", "part").distinct().collect()}


def _cell_name(component: str, setting: FleetSettings, replays: int = 1) -> str:
    """Return the name of a cell's part: another for any other component, setting or number of replays.

    >>> _cell_name("log/q", FleetSettings("a")) == _cell_name("log/q", FleetSettings("b"))
    False
    """
    return part_names(digest_of(component, setting.text(), replays), 1)[0]


def _measure_cells(
    lake: DataFrame,
    cells: Mapping[Part, tuple[str, FleetSettings]],
    events: Mapping[str, int],
    allowed: int,
    replays: int,
) -> DataFrame:
    """Return the measures of some cells; each cell's rows are a component of their own for that long."""
    from pyspark.sql import functions as sf

    spark = lake.sparkSession
    settings = {part: setting for (_, part), (_, setting) in cells.items()}
    names = [(component, part) for (_, part), (component, _) in cells.items()]
    wanted = spark.createDataFrame(names, "component string, cell string")
    few = lake.where(lake.component.isin(sorted({component for component, _ in names})))
    joined = few.join(sf.broadcast(wanted), "component").withColumn(
        "component", sf.concat("cell", sf.lit(" "), "component")
    )
    sizes = {f"{part} {component}": events[component] for component, part in names}
    ordered = in_order(joined.select(*LAKE.names), len(sizes), sizes)

    def measure(batches: Iterator[Any]) -> Iterator[Any]:
        for name, rows in whole_components(batches, allowed):
            part, component = name.split(" ", 1)
            for measures in _measure_component(component, rows, [settings[part]], replays):
                yield from to_batches(((*row, NO_DAY, part) for row in measures), _KEPT)

    return map_batches(ordered, measure, _KEPT)
