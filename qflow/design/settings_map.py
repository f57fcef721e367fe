"""The settings map: the outcome of a workload under a grid of stop thresholds and capacities.

One run shows one outcome; a thousand runs side by side show the influence of the settings.  Each cell of the
map is a run with the stop threshold of its column and the capacity of its row:

========  ============================================================================
safe      safe by the bound: stop + capacities is within the limit (CAP-11), whatever happens
below     not proved safe, but this run stayed below the limit
full      the queue reached its limit
dead      a producer's session died of it (506, LP-05), in spite of flow control
========  ============================================================================

The bound (the *law* in the map's texts) needs no run, so its line can be drawn at once.  The runs begin with
every eighth row and column, and then fill the gaps, so that a map is useful long before it is complete.  The
resume level is the workload's, or the stop if that is less: otherwise the broker would refuse half of the map
(FC-05).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from html import escape
from inspect import signature
from math import ceil
from textwrap import wrap
from typing import Any, NamedTuple

from qflow.broker.settings import QueueSettings
from qflow.design.bounds import WINDOWS, DesignError, judge, traffic_of
from qflow.design.frontier import UNITS, cover, messages_to_cover, meter_run, scale_of
from qflow.design.goals import Goal, worst_use
from qflow.progress import Progress
from qflow.table import Tabular, columns_of
from qflow.workload.attributes import is_whole
from qflow.workload.many import ManyRuns, run_many
from qflow.workload.measured import POINTS, Measured, measure
from qflow.workload.model import Workload
from qflow.workload.simulate import set_up
from qflow.workload.stage import pause_collector

MESSAGES = 2_000
_CELLS = 30
"""The default numbers: of messages in a run, and of rows and columns at most."""

_COVERING = 10_000
"""The messages of a run if more than :data:`MESSAGES` are needed to cover the workload's cycles."""

KINDS = {
    "safe": "safe by the law, whatever happens",
    "below": "not safe by the law, stayed below the limit",
    "full": "reached the limit",
    "dead": "a session died of it (506)",
}
"""The kinds of cells, from best to worst, with their texts in the map's legend."""

_STRIDES = (8, 4, 2, 1)
_PACKED = struct.Struct("<BBHI")
UNKNOWN = 255

Describe = Callable[..., Workload]


class Axis(NamedTuple):
    """An axis of a map: the varied setting of the workload, its label, and its values."""

    setting: str
    label: str
    values: tuple[int, ...]


@dataclass
class SettingsMap(Tabular):
    """A grid of stop thresholds and capacities, with the outcome of a run in each cell.

    Parameters:
        describe: A function that returns the workload for given settings. It has to be importable by its
        name,
            or a ``functools.partial`` of such a function.
        settings: The arguments of ``describe``; the values of the two varied ones locate the map's dot.
        across, up: The axis of stop thresholds, and the axis of capacities.
        messages: How many messages each run sends.
        queue: The queue whose depth and limit the map shows; "" for the deepest of all.
        unit: "count", or "size" if stop and limit are in bytes.
        goals: The goals of each run; the drawing has a line between runs that keep all goals and others.
        covers: Whether each run covers the workload's cycles.
        found: The results so far by cell; cells are numbered row by row.

    >>> from qflow.labs.experiments import flow_workload
    >>> fixed = {"limit": 160, "resume": 60}
    >>> small = plan_map(flow_workload, fixed, "stop", "capacity", cells=3, messages=300).run(processes=1)
    >>> small.across.values, small.up.values
    ((1, 81, 160), (1, 81, 160))
    >>> for claim in small.claims:
    ...     print(claim)
    The law: where stop + capacities is at most the limit, 160, no message can be refused (CAP-11). It \
holds for 3 of the 9 settings.
    Of all, with 300 messages each: 3 are safe by the law, and no session died, 1 stayed below the limit, \
in a part of a cycle, 1 reached it, 4 ended with a dead session (506).
    """

    describe: Describe
    settings: Mapping[str, float]
    across: Axis
    up: Axis
    messages: int = MESSAGES
    queue: str = ""
    unit: str = "count"
    goals: tuple[Goal, ...] = ()
    covers: bool = False
    found: dict[int, Measured] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Traffic is determined once: sizes and routes are the same in all of the hundreds of cells.
        law = _Law(self.workload(0), self.messages)
        self.is_safe = [law.holds(self.workload(place)) for place in range(len(self))]
        self.limit = _limit_of(self.workload(0), self.queue, self.unit)
        self.producers = len(self.workload(0).producers)

    def __len__(self) -> int:
        return len(self.across.values) * len(self.up.values)

    def at(self, place: int) -> dict[str, float]:
        """Return the settings of a cell."""
        row, column = divmod(place, len(self.across.values))
        chosen = {self.across.setting: self.across.values[column], self.up.setting: self.up.values[row]}
        return _limit_resume({**self.settings, **chosen}, self.across.setting)

    def workload(self, place: int) -> Workload:
        """Return the workload of a cell."""
        return self.describe(**self.at(place))

    # Running

    def order(self, strides: Sequence[int] = _STRIDES) -> list[int]:
        """Return all cells in the order of their runs: a coarse grid first, then the gaps."""
        width, seen = len(self.across.values), dict[int, None]()
        # A coarse grid first, so that a map shown during the runs covers the whole range from the beginning,
        # and only gets sharper.
        for stride in strides:
            for row in range(0, len(self.up.values), stride):
                seen.update(dict.fromkeys(range(row * width, row * width + width, stride)))
        return list(seen)

    @property
    def coarse(self) -> list[int]:
        """The cells that run first."""
        return self.order(_STRIDES[:1])

    def runs(self, places: Sequence[int]) -> ManyRuns[Mapping[str, float], Measured]:
        """Start the runs of some cells on all cores; store their results in :attr:`found`."""
        return ManyRuns(self._one, [self.at(place) for place in places], is_brief=True)

    @property
    def _one(self) -> Callable[[Mapping[str, float]], Measured]:
        if self.unit == "count" and not self.goals and not self.covers:
            return partial(_run_of, self.describe, self.messages, self.queue)
        return partial(_whole_run_of, self.describe, self.messages, self.queue, self.unit, self.goals)

    def run(self, processes: int | None = None, progress: Progress | None = None) -> SettingsMap:
        """Run all cells without a result, and return the map; Ctrl-C keeps the results already known."""
        places = [place for place in self.order() if place not in self.found]
        settings = [self.at(place) for place in places]
        try:
            with closing(run_many(self._one, settings, processes=processes)) as results:
                for number, found in results:
                    self.found[places[number]] = found
                    if progress is not None:
                        progress(len(self.found), len(self))
        except KeyboardInterrupt:
            if progress is None:
                raise
        return self

    # Results

    def kind(self, place: int) -> str:
        """Return a cell's kind, a key of :data:`KINDS`; "" if it has not been run."""
        found = self.found.get(place)
        if found is None:
            return ""
        if found.sessions_ended:
            return "dead"
        if self.is_safe[place]:
            return "safe"
        return "full" if self.limit and found.max_depth >= self.limit else "below"

    @property
    def claims(self) -> tuple[str, ...]:
        """The map in sentences, which also tell how much of it has been run."""
        safe, size = sum(self.is_safe), len(self)
        if not self.limit:
            law = f"No queue has a limit in messages, so none of the {size} settings can fill one."
        else:
            law = (
                f"The law: where stop + {WINDOWS[self.unit]} is at most the limit, {self.limit}, no "
                f"message can be refused (CAP-11). It holds for {safe} of the {size} settings."
            )
        known = [self.kind(place) for place in self.found]
        part = "Of all" if len(known) == size else f"So far {len(known)} of {size} are run. Of these"
        said = {
            "safe": "are safe by the law, and no session died",
            "below": f"stayed below the limit, {'by luck' if self.is_enough else 'in a part of a cycle'}",
            "full": "reached it",
            "dead": "ended with a dead session (506)",
        }
        listed = ", ".join(f"{known.count(kind)} {said[kind]}" for kind in said if kind in known)
        runs = f"{part}, with {self.messages:,} messages each: {listed or 'none yet'}."
        if not self.goals:
            return (law, runs)
        kept = sum(found.goal_use < 1 for found in self.found.values())
        asked = " and ".join(goal.text for goal in self.goals)
        return (law, runs, f"{kept} of them keep {asked}; those beyond the dashed line do not.")

    @property
    def is_enough(self) -> bool:
        """Whether each run covers the workload's cycles, so that its result is not partial."""
        return self.covers or self.messages >= messages_to_cover(self.workload(0))

    def columns(self, start: int = 0, end: int | None = None) -> dict[str, list[Any]]:
        """Return the known cells: stop, capacity, kind, max_depth, blocked_share, sessions_ended."""
        rows = [
            (
                self.at(place)[self.across.setting],
                self.at(place)[self.up.setting],
                self.kind(place),
                *self.found[place][:2],
                ", ".join(self.found[place].sessions_ended),
            )
            for place in sorted(self.found)[start:end]
        ]
        return columns_of(rows, ("stop", "capacity", "kind", "max_depth", "blocked_share", "sessions_ended"))

    def pack(self) -> bytes:
        """Return all cells as bytes for the browser: kind, ended sessions, blocked share, depth."""
        kinds, data = list(KINDS), bytearray()
        for place in range(len(self)):
            found = self.found.get(place)
            if found is None:
                data += _PACKED.pack(UNKNOWN, 0, 0, 0)
                continue
            kind, died = kinds.index(self.kind(place)), min(255, len(found.sessions_ended))
            data += _PACKED.pack(kind, died, round(found.blocked_share * 10_000), found.max_depth)
        return bytes(data)

    def courses(self) -> bytes:
        """Return the depth over time of all cells as bytes for the browser; zeros if not run yet."""
        flat = Measured(0, 0.0, (), bytes(POINTS))
        return b"".join(self.found.get(place, flat).course for place in range(len(self)))

    def __repr__(self) -> str:
        return "\n".join(self.claims)

    def _repr_html_(self) -> str:
        said = "".join(f"<li>{escape(claim)}</li>" for claim in self.claims)
        return f"{self.svg()}<ul>{said}</ul>"

    def svg(self, *, is_phone: bool = False) -> str:
        """Return the map as an SVG drawing, for pages without scripts; on a phone its key is below it."""
        return _MapDrawing(self, _PHONE if is_phone else _WIDE).text()


def map_of_queue(
    workload: Workload,
    queue: str,
    *,
    cells: int | None = None,
    messages: int | None = None,
    processes: int | None = None,
    goals: tuple[Goal, ...] = (),
    progress: Progress | None = None,
) -> SettingsMap:
    """Run and return a queue's map of stops and capacities, in bytes if it has only a byte limit."""
    if queue not in workload.queues:
        raise DesignError(
            f"a map: no queue {queue!r} in the workload, which has {', '.join(workload.queues)}"
        )
    unit = next((unit for unit in UNITS if _limit_of(workload, queue, unit)), "count")
    limit = _limit_of(workload, queue, unit)
    longer, most = cover(workload)
    covers = messages is None and most is None
    if covers:
        workload, cells = longer, cells or _CELLS // 2
    messages = messages or (_COVERING if covers else MESSAGES)
    cells = cells or _CELLS
    traffic = traffic_of(workload)[queue]
    senders = {name: one.capacity for name, one in traffic.items()}
    if not limit or not senders:
        missing = "a producer whose messages reach it" if limit else "a limit (qpid.max_count, qpid.max_size)"
        raise DesignError(f"a map of queue {queue!r} needs {missing}")
    together = sum(senders.values())
    describe = partial(_with_stop_and_capacities, workload, queue, senders, unit)
    stop = getattr(QueueSettings.from_arguments(dict(workload.queues[queue])), f"flow_stop_{unit}") or limit
    # The capacity axis ends where windows of the largest messages fill the limit.
    largest = max(one.largest for one in traffic.values()) if unit == "size" else 1
    widest = max(ceil(limit / largest), together)
    return SettingsMap(
        describe,
        {"stop": min(limit, stop), "capacity": together},
        Axis("stop", f"stop threshold of {queue} (qpid.flow_stop_{unit})", _spread(limit, cells)),
        Axis("capacity", "capacities together", _spread(widest, cells, len(senders))),
        messages,
        queue,
        unit,
        goals,
        covers,
    ).run(processes, progress)


def _with_stop_and_capacities(
    workload: Workload, queue: str, senders: Mapping[str, int], unit: str, *, stop: int, capacity: int
) -> Workload:
    arguments = workload.queues[queue]
    resume = arguments.get(f"qpid.flow_resume_{unit}") or stop
    changed = {f"qpid.flow_stop_{unit}": stop, f"qpid.flow_resume_{unit}": min(int(str(resume)), stop)}
    # Divide the sum among the producers in proportion, without losing a message to rounding.
    together, done, parts, passed = sum(senders.values()), 0, dict[str, int](), 0
    for place, (name, old) in enumerate(senders.items(), 1):
        passed += old
        # Differences of running sums add up to the total in spite of rounding.
        parts[name] = max(1, capacity * passed // together - done)
        parts[name] = min(parts[name], capacity - done - (len(senders) - place))
        done += parts[name]
    producers = (replace(p, capacity=parts[p.name]) if p.name in parts else p for p in workload.producers)
    return workload.with_queue(queue, changed).replace(producers=tuple(producers))


def plan_map(
    describe: Describe,
    settings: Mapping[str, float],
    stop: str,
    capacity: str,
    cells: int = _CELLS,
    messages: int = MESSAGES,
    most: Mapping[str, int] | None = None,
    label: str = "",
) -> SettingsMap:
    """Return the map of a workload's stop thresholds and capacities, without running any cell."""
    for what, number in (("cells", cells), ("messages", messages)):
        if not is_whole(number, 1):
            raise DesignError(f"a map: {what} must be a whole number from 1, got {number!r}")
    found = signature(describe).parameters.values()
    defaults = {one.name: one.default for one in found if one.default is not one.empty}
    settings = {**defaults, **settings}
    # The stop axis ends at the limit, and the capacity axis at the first capacity that is unsafe with any
    # stop, so that the line of the bound goes from corner to corner.  Without a limit the axes end at the
    # given maxima.  The present settings are always within the map.
    given = {stop: 300, capacity: 240, **(most or {})}
    widest = _limit_of(describe(**settings), "") or given[stop]
    law = _Law(describe(**settings), messages)
    least = (_limit_resume({**settings, stop: 1, capacity: n}, stop) for n in range(1, given[capacity] + 1))
    unsafe = (int(one[capacity]) for one in least if not law.holds(describe(**one)))
    highest = max(next(unsafe, given[capacity]), int(settings[capacity]))
    return SettingsMap(
        describe,
        settings,
        Axis(stop, "stop threshold (qpid.flow_stop_count)", _spread(widest, cells)),
        Axis(capacity, label or "capacity of each producer", _spread(highest, cells)),
        messages,
    )


def _limit_resume(settings: dict[str, float], stop: str) -> dict[str, float]:
    if "resume" in settings:
        settings["resume"] = min(settings["resume"], settings[stop])
    return settings


def _spread(most: int, cells: int, least: int = 1) -> tuple[int, ...]:
    """Return at most ``cells`` whole numbers, evenly spaced from `least` to `most`."""
    count = min(cells, most - least + 1)
    steps = max(1, count - 1)
    return tuple(dict.fromkeys(least + round((most - least) * number / steps) for number in range(count)))


class _Law:
    """The bound for a workload: whether its queues can overflow, by capacities and declare arguments."""

    def __init__(self, workload: Workload, messages: int) -> None:
        # A run ends after its messages, so messages that fall due much later do not count.
        rate = min((producer.rate for producer in workload.producers), default=1.0)
        # Otherwise random sizes would be drawn for the whole duration, and a large one in the hundredth hour
        # would decide the verdict on a run of two seconds.
        duration = min(workload.duration, 4 * messages / rate)
        self._traffic = traffic_of(workload.replace(duration=duration))

    def holds(self, workload: Workload) -> bool:
        windows = {producer.name: producer.capacity for producer in workload.producers}
        return all(
            judge(
                queue,
                arguments,
                {name: replace(one, capacity=windows[name]) for name, one in self._traffic[queue].items()},
                workload.options,
            ).is_safe
            for queue, arguments in workload.queues.items()
        )


def _run_of(describe: Describe, messages: int, queue: str, settings: Mapping[str, float]) -> Measured:
    workload = describe(**settings)
    with pause_collector():
        return measure(set_up(workload, messages), workload, queue)


def _whole_run_of(
    describe: Describe,
    messages: int,
    queue: str,
    unit: str,
    goals: tuple[Goal, ...],
    settings: Mapping[str, float],
) -> Measured:
    """Return the measures of a run, goals included; a long run is simulated at a reduced scale."""
    workload = describe(**settings)
    longer, most = cover(workload)
    scale = scale_of(longer, {}, messages) if most is None else 1
    meter = meter_run(longer, None if most is None else messages, scale, (), workload.duration)
    costs = meter.costs([queue], [producer.name for producer in workload.producers])
    deepest = costs.max_depth if unit == "count" else costs.max_bytes
    return Measured(
        deepest[queue], costs.blocked_share, tuple(costs.errors), bytes(POINTS), worst_use(goals, costs)
    )


def _limit_of(workload: Workload, queue: str, unit: str = "count") -> int:
    """Return the limit of a queue, or the highest limit of all queues; 0 for none."""
    names = [queue] if queue else list(workload.queues)
    found = (QueueSettings.from_arguments(dict(workload.queues[name])) for name in names)
    return max(getattr(settings, f"max_{unit}") or 0 for settings in found)


# The drawing


# In a lab the page's theme sets the colours; elsewhere the fallback values behind the commas apply. The kinds
# differ not only in colour: dots mean full, crosses mean dead.
_STYLE = (
    ".qfm text{font-family:system-ui,sans-serif}"
    ".qfm .qf-map-tick{fill:var(--qf-soft,#57606a);font-size:12px;text-anchor:middle}"
    ".qfm .qf-map-facts{fill:var(--qf-ink,#1c2126);font-size:13px}.qfm .qf-map-tick-up{text-anchor:end}"
    ".qfm .qf-map-ground{fill:var(--qf-card,#fff);stroke:var(--qf-soft,#57606a)}"
    ".qfm .qf-map-unknown{fill:none}.qfm .qf-map-promised{fill:var(--qf-go,#007a59);fill-opacity:.45}"
    ".qfm .qf-map-safe{fill:var(--qf-go,#007a59)}.qfm .qf-map-below{fill:var(--qf-level,#a9d8f5)}"
    ".qfm .qf-map-full{fill:url(#qf-map-dots)}.qfm .qf-map-dead{fill:url(#qf-map-crosses)}"
    ".qfm .qf-map-law{fill:none;stroke:var(--qf-ink,#1c2126);stroke-width:2.2}"
    ".qfm .qf-map-missed{fill:url(#qf-map-lines)}"
    ".qfm .qf-map-goal{fill:none;stroke:var(--qf-ink,#1c2126);stroke-width:2;stroke-dasharray:5 3}"
    ".qfm .qf-map-halo{fill:none;stroke:var(--qf-card,#fff);stroke-opacity:.8;stroke-width:5}"
    # A standalone document has no surrounding theme.
    "@media(prefers-color-scheme:dark){.qfm:root{--qf-soft:#a5b0bb;--qf-ink:#e8edf2;--qf-card:#20262d;"
    "--qf-ground:#171b20;--qf-go:#35c49b;--qf-level:#1f6c9c;--qf-stop:#ff9350;--qf-glow:#f0b429}"
    ".qfm:root text{fill:#e8edf2}}"
)
_PATTERNS = (
    '<defs><pattern id="qf-map-crosses" width="9" height="9" patternUnits="userSpaceOnUse">'
    '<rect width="9" height="9" style="fill:var(--qf-stop,#c04c00)"/>'
    '<path d="M2,2L7,7M7,2L2,7" style="fill:none;stroke:var(--qf-card,#fff);stroke-width:1.1"/></pattern>'
    '<pattern id="qf-map-dots" width="6" height="6" patternUnits="userSpaceOnUse">'
    '<rect width="6" height="6" style="fill:var(--qf-glow,#e69f00)"/>'
    '<circle cx="3" cy="3" r="1.4" fill="#3a2a00"/></pattern>'
    '<pattern id="qf-map-lines" width="8" height="8" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><path d="M0,0V8" style="stroke:var(--qf-card,#fff);stroke-width:3"/>'
    '<path d="M1,0V8" style="stroke:var(--qf-ink,#1c2126);stroke-width:1"/></pattern></defs>'
)


class _Form(NamedTuple):
    """The places of a map's parts: the box of its cells, the corner of its key, the size of it all."""

    left: int
    top: int
    wide: int
    high: int
    key: tuple[int, int]
    # Where the key says what the law's line is; None for below the kinds of cells.
    law: tuple[int, int] | None
    # Letters in a line of the key.
    letters: int
    size: tuple[int, int]


_WIDE = _Form(74, 12, 420, 330, (540, 16), (840, 16), 90, (970, 396))
_PHONE = _Form(62, 8, 290, 250, (8, 312), None, 46, (358, 480))


class _MapDrawing:
    """The map as an SVG drawing: cells that have been run are filled, the proved safe area is tinted."""

    # Labs use this drawing, too: there the browser replaces the cells by its own.

    def __init__(self, drawn: SettingsMap, form: _Form) -> None:
        self._map, self._form = drawn, form
        self._left, self._top = form.left, form.top
        self._columns, self._rows = len(drawn.across.values), len(drawn.up.values)
        self._wide, self._high = form.wide / self._columns, form.high / self._rows
        self._floor = form.top + form.high

    def text(self) -> str:
        form = self._form
        box = f'viewBox="0 0 {form.size[0]} {form.size[1]}" width="{form.size[0]}"'
        return "".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" class="qfm" {box} role="img">',
                f"<title>stop × capacity: the outcome of each run</title><style>{_STYLE}</style>{_PATTERNS}",
                '<rect width="100%" height="100%" style="fill:var(--qf-ground,#fff)"/>',
                f'<rect x="{form.left}" y="{form.top}" width="{form.wide}" height="{form.high}" '
                'class="qf-map-ground"/>',
                *('<g class="qf-map-cells">', *self._cells(), "</g>"),
                *self._law(),
                *self._goal(),
                *self._axes(),
                *('<g class="qf-map-key">', *self._key(), "</g></svg>"),
            ]
        )

    def _cells(self) -> Iterator[str]:
        ground = [place for place in range(len(self._map)) if self._map.is_safe[place]]
        yield self._fill(ground, "promised", 0.0)
        is_whole = len(self._map.found) == len(self._map)
        for kind in KINDS:
            places = [place for place in sorted(self._map.found) if self._map.kind(place) == kind]
            yield self._fill(places, kind, 0.0 if is_whole else 1.5)

    def _fill(self, places: Sequence[int], kind: str, wider: float) -> str:
        """Return cells as one path; with `wider` each cell is drawn larger, else runs of cells are merged."""
        way, taken = [], set(places)
        for place in places:
            row, column = divmod(place, self._columns)
            if not wider and column and place - 1 in taken:
                continue
            length = 1
            while not wider and column + length < self._columns and place + length in taken:
                length += 1
            x, y = self._left + column * self._wide - wider, self._floor - (row + 1) * self._high - wider
            right = x + length * self._wide + 2 * wider
            way.append(f"M{x:.1f},{y:.1f}H{right:.1f}v{self._high + 2 * wider:.1f}H{x:.1f}Z")
        return f'<path d="{"".join(way)}" class="qf-map-{kind}"/>' if way else ""

    def _law(self) -> Iterator[str]:
        """Yield the boundary of the settings that are proved safe."""
        safe = self._map.is_safe
        if not self._map.limit or all(safe) or not any(safe):
            return
        way = []
        for row in range(self._rows):
            # In each row the safe settings are on the left.
            x = self._left + sum(safe[row * self._columns :][: self._columns]) * self._wide
            y = self._floor - row * self._high
            way.append(f"{'L' if row else 'M'}{x:.1f},{y:.1f}V{y - self._high:.1f}")
        for kind in ("halo", "law"):
            yield f'<path d="{"".join(way)}" class="qf-map-{kind}"/>'

    def _goal(self) -> Iterator[str]:
        """Yield the boundary of the cells whose runs keep all goals."""
        if not self._map.goals:
            return
        keep = {place for place, found in self._map.found.items() if found.goal_use < 1}
        yield self._fill(sorted(self._map.found.keys() - keep), "missed", 0.0)
        way = []
        for place in sorted(self._map.found):
            row, column = divmod(place, self._columns)
            x, y = self._left + column * self._wide, self._floor - (row + 1) * self._high
            if (place in keep) != (place - 1 in keep) and column:
                way.append(f"M{x:.1f},{y:.1f}v{self._high:.1f}")
            if (place in keep) != (place - self._columns in keep) and row:
                way.append(f"M{x:.1f},{y + self._high:.1f}h{self._wide:.1f}")
        for kind in ("halo", "goal"):
            yield f'<path d="{"".join(way)}" class="qf-map-{kind}"/>'

    def _axes(self) -> Iterator[str]:
        for axis, is_up in ((self._map.across, False), (self._map.up, True)):
            last = len(axis.values) - 1
            for place in sorted({0, last // 2, last}):
                x, y = self._left + (place + 0.5) * self._wide, self._floor + 17.0
                if is_up:
                    x, y = self._left - 8.0, self._floor - (place + 0.5) * self._high + 4
                kind = "qf-map-tick qf-map-tick-up" if is_up else "qf-map-tick"
                yield f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}">{axis.values[place]}</text>'
        across, up = escape(self._map.across.label), escape(self._map.up.label)
        below = f"translate({self._left + self._form.wide / 2},{self._floor + 38})"
        beside = f"translate(18,{self._top + self._form.high / 2})rotate(-90)"
        yield f'<text transform="{below}" class="qf-map-tick">{across}</text>'
        yield f'<text transform="{beside}" class="qf-map-tick">{up}</text>'

    def _key(self) -> Iterator[str]:
        rows = dict(KINDS)
        if len(self._map.found) < len(self._map):
            rows["promised"] = "faint: not run yet; safe by the law, or as a run beside it"
        y = self._form.key[1]
        for kind, words in rows.items():
            y = yield from self._sample(y, words, kind)
        if self._map.limit:
            x, beside = self._form.law or (self._form.key[0], y)
            y += 0 if self._form.law else 24
            yield f'<path d="M{x},{beside + 8}h24" class="qf-map-law"/>'
            yield f'<text x="{x + 32}" y="{beside + 13}" class="qf-map-facts">the law\'s line</text>'
        if self._map.goals:
            missed = escape(" and ".join(goal.text for goal in self._map.goals))
            yield from self._sample(y + 8, f"beyond the dashed line: misses {missed}", "missed", "goal")

    def _sample(self, y: int, words: str, *kinds: str) -> Generator[str, None, int]:
        """Yield a kind of cell and its words, at a height; return that of the next."""
        x = self._form.key[0]
        for kind in kinds:
            yield f'<rect x="{x}" y="{y}" width="18" height="16" class="qf-map-{kind}"/>'
        for line in wrap(words, self._form.letters):
            yield f'<text x="{x + 28}" y="{y + 13}" class="qf-map-facts">{line}</text>'
            y += 16
        return y + 8
