"""Diagram: what a chart shows, before anybody has drawn it: lines, bands, bars, and rows of spans.

A diagram as a plotly figure: hover explains, the tool bar zooms and exports a PNG.

A diagram as a drawing: text that any viewer can show, with nothing installed.

The depth chart as a drawing: text that any viewer of notebooks can show, with nothing installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from typing import Any

import plotly.graph_objects as go

from qflow.labs.frames import Frames, Span
from qflow.labs.picture import Picture
from qflow.labs.topology import QueueSpot


@dataclass(frozen=True, slots=True)
class Curve:
    """What a depth chart of one queue is drawn from.

    Parameters
    ----------
    queue
        The queue, with its thresholds.
    points
        (seconds, depth), in order of time; each point holds until the next.
    on, really_on
        When flow control was ON, in the engine and as a real broker reported it; microseconds.
    reported
        (seconds, depth) as a real broker reported it.
    end
        Length of the run in seconds.
    """

    queue: QueueSpot
    points: tuple[Point, ...]
    on: tuple[Span, ...]
    really_on: tuple[Span, ...]
    reported: tuple[Point, ...]
    end: float

    @property
    def top(self) -> float:
        """The upper end of the scale."""
        deepest = max([depth for _, depth in (*self.points, *self.reported)] + [self.queue.stop_count, 1])
        limit = self.queue.max_count
        return 1.06 * max(deepest, limit if limit <= 2.5 * deepest else 0)

    def levels(self) -> list[tuple[str, int]]:
        """List the limit and the thresholds that take part and fit on the scale, highest first."""
        queue = self.queue
        known = [("limit", queue.max_count), ("stop", queue.stop_count)]
        if queue.stop_count:
            known.append(("resume", queue.resume_count))
        return [(name, depth) for name, depth in known if 0 < depth <= self.top]


def curve_of(picture: Picture, queue: str | None = None, columns: int = 400) -> Curve:
    """Read a queue's depth off a picture.

    Parameters
    ----------
    picture
        What was run.
    queue
        Which queue; None for the first.
    columns
        In each of so many slices of time only the first, lowest, highest and last depth are kept; on a
        chart no wider than that nothing is lost to the eye.

    Returns
    -------
    Curve

    Raises
    ------
    KeyError
        If there is no such queue.
    """
    topology = picture.frames.topology
    names = [spot.name for spot in topology.queues]
    if queue is not None and queue not in names:
        raise KeyError(f"no queue {queue!r} in this picture; there are {', '.join(names)}")
    index = names.index(queue) if queue is not None else 0
    spans = {lane.kind: lane.spans for lane in picture.lanes if lane.queue == index}
    reported = [point for sample in picture.samples if sample.queue == index for point in sample.points]
    return Curve(
        topology.queues[index],
        thinned(picture.frames, names[index], columns),
        spans.get("on", ()),
        spans.get("real", ()),
        tuple((time / 1e6, depth) for time, depth in reported),
        topology.end / 1e6,
    )


def thinned(frames: Frames, queue: str, columns: int) -> tuple[Point, ...]:
    """Keep of a queue's depth what can be seen: per slice of time the first, lowest, highest, last.

    Parameters
    ----------
    frames
        The picture.
    queue
        Which queue.
    columns
        How many slices.

    Returns
    -------
    tuple of pairs
        (seconds, depth).
    """
    slices: dict[int, list[Point]] = {}
    end = max(frames.topology.end, 1)
    for time, depth in zip(frames.column("time"), frames.column(f"queue.{queue}.depth"), strict=True):
        slices.setdefault(columns * time // end, []).append((time / 1e6, depth))
    kept: list[Point] = []
    for points in slices.values():
        lowest = min(points, key=lambda point: point[1])
        highest = max(points, key=lambda point: point[1])
        kept += sorted({points[0], lowest, highest, points[-1]}, key=points.index)
    return tuple(kept)


Point = tuple[float, float]
SpanRow = tuple[str, float, float, str]
"""A row's name, from and to in seconds, and what is said when it is pointed at."""

COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a8000", "#7a5195")
"""Okabe and Ito's, with one of its own for the yellow that no white page shows."""
DASHES = ("solid", "dash", "dot", "dashdot")
HATCHES = ("", "/", "\\", "x", "-", "|", "+", ".")
"""What tells kinds of spans apart where colours cannot: lines this way or that, crosses, dots."""


def ink_on(color: str) -> str:
    """Return black or white: what is read more easily on a colour.

    Examples
    --------
    >>> [ink_on(color) for color in COLORS[:3]]
    ['#ffffff', '#000000', '#000000']
    """
    red, green, blue = (int(color[place : place + 2], 16) for place in (1, 3, 5))
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 105 else "#ffffff"


@dataclass(frozen=True, slots=True)
class Line:
    """A quantity over time; each point holds until the next."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """A line across: a threshold or a limit; `kind` is ``stop``, ``resume``, ``limit`` or ``mark``."""

    name: str
    value: float
    kind: str


@dataclass(frozen=True)
class Diagram:
    """What a chart shows.

    Parameters
    ----------
    title
        What it is about.
    x_title, y_title
        The axes, with their units.
    claims
        What it shows, in sentences.
    lines, levels
        Quantities over time, and the thresholds they are held against.
    bands
        (name, spans): from and to in seconds, hatched from top to bottom.
    bars
        (where, how much): a distribution; each bar reaches to the next.
    rows
        (name, spans): for each kind of span, all of its rows.
    end
        The right end of the axis.

    Examples
    --------
    >>> Diagram("depth", "seconds", "messages", ("It is empty.",), end=3)
    It is empty.
    """

    title: str
    x_title: str
    y_title: str
    claims: tuple[str, ...]
    lines: tuple[Line, ...] = ()
    levels: tuple[Level, ...] = ()
    bands: tuple[tuple[str, tuple[Point, ...]], ...] = ()
    bars: tuple[Point, ...] = ()
    rows: tuple[tuple[str, tuple[SpanRow, ...]], ...] = ()
    end: float = field(default=1.0)

    @property
    def row_names(self) -> tuple[str, ...]:
        """The names of all rows, each once, in the order of their names: p2 before p10."""
        return tuple(sorted({row[0] for _, rows in self.rows for row in rows}, key=lambda n: (len(n), n)))

    @property
    def top(self) -> float:
        """The upper end of the scale; a level far above everything else is left out."""
        highest = max([y for line in self.lines for _, y in line.points] + [y for _, y in self.bars] + [1.0])
        near = [level.value for level in self.levels if level.value <= 2.5 * highest]
        return 1.06 * max([highest, *near])

    @property
    def seen_levels(self) -> tuple[Level, ...]:
        """The levels that the scale reaches."""
        return tuple(level for level in self.levels if level.value <= self.top)

    def __repr__(self) -> str:
        return "\n".join(self.claims)


_LEVELS = {"stop": ("#c04c00", "solid"), "resume": ("#007a59", "dash"), "limit": ("#57606a", "solid")}
LEGEND = {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 1, "xanchor": "right"}
_MARK = ("#a8487f", "dot")
_HATCH = {"shape": "/", "fgcolor": "#c04c00", "bgcolor": "rgba(0,0,0,0)", "size": 7, "solidity": 0.25}


def figure_of(diagram: Diagram) -> go.Figure:
    """Draw a diagram with plotly.

    Parameters
    ----------
    diagram
        What to draw.

    Returns
    -------
    plotly.graph_objects.Figure

    Examples
    --------
    >>> len(figure_of(Diagram("t", "seconds", "messages", (), bars=((0, 3), (1, 2)))).data)
    1
    """
    figure = go.Figure()
    for name, spans in diagram.bands:
        figure.add_scatter(**_band(spans, diagram.top), name=name, fillpattern=_HATCH)
    for index, line in enumerate(diagram.lines):
        style = {"color": COLORS[index % len(COLORS)], "dash": DASHES[index % len(DASHES)], "shape": "hv"}
        x, y = [point[0] for point in line.points], [point[1] for point in line.points]
        hover = f"{line.name}: %{{y}} {diagram.y_title} at %{{x:.3f}} s<extra></extra>"
        figure.add_scatter(x=x, y=y, mode="lines", name=line.name, line=style, hovertemplate=hover)
    if diagram.bars:
        figure.add_bar(**_bars(diagram))
    for index, (name, rows) in enumerate(diagram.rows):
        figure.add_bar(**_spans(name, rows, index, is_alone=len(diagram.rows) == 1))
    for level in diagram.seen_levels:
        color, dash = _LEVELS.get(level.kind, _MARK)
        text = f"{level.name} {level.value:,}".replace(",", "\u2009")
        figure.add_hline(level.value, line={"color": color, "dash": dash, "width": 1.5})
        place = {"x": 1, "xref": "paper", "xanchor": "left", "y": level.value, "showarrow": False}
        figure.add_annotation(**place, xshift=4, text=text, font={"color": color})
    figure.update_layout(**_looks(diagram))
    return figure


def title_of(text: str) -> dict[str, Any]:
    """Return a chart's heading: above its axis, flush left."""
    place = {"x": 0, "xref": "paper", "y": 1, "yref": "paper", "yanchor": "bottom", "pad": {"b": 12}}
    return {"text": f"<b>{text}</b>", "font": {"size": 15}, **place}


def _band(spans: tuple[tuple[float, float], ...], top: float) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[float | None] = []
    for start, to in spans:
        x += [start, start, to, to, None]
        y += [0, top, top, 0, None]
    return {"x": x, "y": y, "fill": "toself", "mode": "none", "hoverinfo": "skip"}


def _spans(name: str, rows: tuple[SpanRow, ...], index: int, *, is_alone: bool) -> dict[str, Any]:
    """Draw one kind of spans: told apart from others by its name, a hatching, and a colour."""
    color = COLORS[index % len(COLORS)]
    hatch = {"shape": HATCHES[index % len(HATCHES)], "fillmode": "overlay", "fgcolor": ink_on(color)}
    return {
        "orientation": "h",
        "base": [start for _, start, _, _ in rows],
        "x": [to - start for _, start, to, _ in rows],
        "y": [row for row, *_ in rows],
        "name": name,
        "text": None if is_alone else [f"<b>{name}</b>"] * len(rows),
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "insidetextfont": {"color": ink_on(color), "size": 13},
        "marker": {"color": color, "pattern": {**hatch, "fgopacity": 0.35, "size": 6, "solidity": 0.25}},
        "hovertext": [said for *_, said in rows],
        "hoverinfo": "text",
    }


def _bars(diagram: Diagram) -> dict[str, Any]:
    starts = [x for x, _ in diagram.bars]
    widths = [to - start for start, to in zip(starts, [*starts[1:], diagram.end], strict=True)]
    hover = f"%{{y}} {diagram.y_title}, from %{{x:.3g}}<extra></extra>"
    return {
        "x": starts,
        "y": [y for _, y in diagram.bars],
        "width": widths,
        "offset": 0,
        "marker": {"color": COLORS[0]},
        "hovertemplate": hover,
    }


def _looks(diagram: Diagram) -> dict[str, Any]:
    rows = diagram.row_names
    upright = {"title": {"text": diagram.y_title}, "range": [0, diagram.top], "zeroline": False}
    return {
        "title": title_of(diagram.title),
        "height": 130 + 28 * len(rows) if rows else 340,
        "margin": {"l": 70, "r": 110 if diagram.seen_levels else 24, "t": 56, "b": 48},
        "template": "plotly_white",
        "barmode": "overlay",
        "bargap": 0.14,
        "uniformtext": {"mode": "hide", "minsize": 11},
        "legend": LEGEND,
        "showlegend": len(diagram.lines) + len(diagram.rows) + len(diagram.bands) > 1,
        # Thousands apart by a thin space, as everywhere in the labs.
        "separators": ".\u2009",
        "xaxis": {"title": {"text": diagram.x_title}, "range": [0, diagram.end], "zeroline": False},
        "yaxis": {"autorange": "reversed", "categoryorder": "array", "categoryarray": rows}
        if rows
        else {**upright, "tickformat": ","},
    }


WIDTH, LEFT, RIGHT, TOP, BOTTOM, PLOT, ROW = 860, 92, 110, 52, 44, 210, 22

_STROKES = {"stop": "#c04c00", "resume": "#007a59", "limit": "#57606a", "mark": "#a8487f"}
_DASHES = ("", "8 4", "2 4", "8 3 2 3")
_STYLE = (
    "text{font:12px sans-serif;fill:#57606a}.t{font-weight:bold;fill:#1c2126;font-size:14px}"
    ".a{fill:none;stroke:#57606a}"
)
_WAYS = {
    "/": "M0,8L8,0",
    "\\": "M0,0L8,8",
    "x": "M0,0L8,8M0,8L8,0",
    "-": "M0,4H8",
    "|": "M4,0V8",
    "+": "M0,4H8M4,0V8",
    ".": "M3,4H5",
}
_SVG_HATCH = (
    '<pattern id="h" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="8" height="8" fill="#c04c00" fill-opacity=".08"/>'
    '<rect width="1.6" height="8" fill="#c04c00" fill-opacity=".4"/></pattern>'
)


def draw_diagram(diagram: Diagram) -> str:
    """Draw a diagram.

    Parameters
    ----------
    diagram
        What to draw.

    Returns
    -------
    str
        A complete SVG document.

    Examples
    --------
    >>> draw_diagram(Diagram("a < b", "seconds", "messages", ())).splitlines()[1]
    '<title>a &lt; b</title>'
    """
    pen = _Pen(diagram)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {pen.height}" '
            f'width="{WIDTH}" role="img">',
            f"<title>{escape(diagram.title)}</title>",
            f"<style>{_STYLE}</style><defs>{_SVG_HATCH}{''.join(pen.hatches())}</defs>",
            f'<rect width="{WIDTH}" height="{pen.height}" fill="#fff"/>',
            f'<text class="t" x="10" y="18">{escape(diagram.title)}</text>',
            *pen.bands(),
            *pen.bars(),
            *pen.rows(),
            *pen.axes(),
            *pen.levels(),
            *pen.lines(),
            *pen.legend(),
            "</svg>",
        ]
    )


class _Pen:
    """Places on the drawing."""

    def __init__(self, diagram: Diagram) -> None:
        self.diagram = diagram
        self.names = diagram.row_names
        tall = len(self.names) * ROW if self.names else PLOT
        self.floor = TOP + tall
        self.height = self.floor + BOTTOM

    def x(self, value: float) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * value / max(self.diagram.end, 1e-9), 1)

    def y(self, value: float) -> float:
        return round(self.floor - (self.floor - TOP) * value / self.diagram.top, 1)

    def bands(self) -> Iterator[str]:
        for _, spans in self.diagram.bands:
            for start, to in spans:
                width = max(1.0, round(self.x(to) - self.x(start), 1))
                yield (
                    f'<rect x="{self.x(start)}" y="{TOP}" width="{width}" '
                    f'height="{self.floor - TOP}" fill="url(#h)"/>'
                )

    def bars(self) -> Iterator[str]:
        bars = self.diagram.bars
        ends = [x for x, _ in (*bars[1:], (self.diagram.end, 0))][: len(bars)]
        for (start, value), to in zip(bars, ends, strict=True):
            if value:
                width, height = max(1.0, self.x(to) - self.x(start) - 1), self.floor - self.y(value)
                yield (
                    f'<rect x="{self.x(start)}" y="{self.y(value)}" width="{width:.1f}" '
                    f'height="{height:.1f}" fill="{COLORS[0]}"><title>{value:g}</title></rect>'
                )

    def rows(self) -> Iterator[str]:
        place = {name: TOP + index * ROW for index, name in enumerate(self.names)}
        for name, y in place.items():
            yield f'<text x="{LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>'
            yield f'<path class="a" d="M{LEFT},{y + 11}H{WIDTH - RIGHT}" stroke-opacity=".25"/>'
        for index, (kind, rows) in enumerate(self.diagram.rows):
            for name, start, to, said in rows:
                width = max(1.0, round(self.x(to) - self.x(start), 1))
                at = f'x="{self.x(start)}" y="{place[name] + 3}" width="{width}" height="{ROW - 6}" rx="2"'
                yield f'<rect {at} fill="{COLORS[index % len(COLORS)]}"/>'
                yield f'<rect {at} fill="url(#k{index})"><title>{escape(said)}</title></rect>'
                if len(self.diagram.rows) > 1 and width > 9 * len(kind):
                    ink = ink_on(COLORS[index % len(COLORS)])
                    yield (
                        f'<text x="{self.x(start) + width / 2:.1f}" y="{place[name] + 15}" '
                        f'text-anchor="middle" style="fill:{ink};font-weight:bold">{escape(kind)}</text>'
                    )

    def hatches(self) -> Iterator[str]:
        for index, _ in enumerate(self.diagram.rows):
            ink, way = ink_on(COLORS[index % len(COLORS)]), _WAYS.get(HATCHES[index % len(HATCHES)], "")
            yield (
                f'<pattern id="k{index}" width="8" height="8" patternUnits="userSpaceOnUse">'
                f'<path d="{way}" stroke="{ink}" stroke-opacity=".35" stroke-width="1.6"/></pattern>'
            )

    def axes(self) -> Iterator[str]:
        diagram, right = self.diagram, WIDTH - RIGHT
        yield f'<path class="a" d="M{LEFT},{TOP}V{self.floor}H{right}"/>'
        step = _step(diagram.end)
        for number in range(int(diagram.end / step) + 1):
            at = self.x(number * step)
            yield f'<text x="{at}" y="{self.floor + 16}" text-anchor="middle">{number * step:g}</text>'
        yield f'<text x="{right}" y="{self.floor + 34}" text-anchor="end">{escape(diagram.x_title)}</text>'
        if self.names:
            return
        step = _step(diagram.top)
        for number in range(int(diagram.top / step) + 1):
            at = self.y(number * step)
            yield f'<text x="{LEFT - 8}" y="{at + 4}" text-anchor="end">{number * step:g}</text>'
        yield f'<text x="10" y="{TOP - 12}">{escape(diagram.y_title)}</text>'

    def levels(self) -> Iterator[str]:
        free = 0.0
        for level in sorted(self.diagram.seen_levels, key=lambda level: -level.value):
            at, color = self.y(level.value), _STROKES[level.kind]
            label = max(at + 4, free)
            free = label + 14
            dash = ' stroke-dasharray="7 4"' if level.kind == "resume" else ""
            way = f"M{LEFT},{at}H{WIDTH - RIGHT}"
            yield f'<path d="{way}" fill="none" stroke="{color}" stroke-width="1.5"{dash}/>'
            text = f"{escape(level.name)} {level.value:,}".replace(",", "\u2009")
            yield f'<text x="{WIDTH - RIGHT + 6}" y="{label}" style="fill:{color}">{text}</text>'

    def lines(self) -> Iterator[str]:
        for index, line in enumerate(self.diagram.lines):
            if not line.points:
                continue
            first, *others = line.points
            way = [f"M{self.x(first[0])},{self.y(first[1])}"]
            way += [f"H{self.x(x)}V{self.y(y)}" for x, y in others]
            dash = _DASHES[index % len(_DASHES)]
            dashed = f' stroke-dasharray="{dash}"' if dash else ""
            color = COLORS[index % len(COLORS)]
            yield f'<path d="{"".join(way)}" fill="none" stroke="{color}" stroke-width="2"{dashed}/>'

    def legend(self) -> Iterator[str]:
        x = LEFT
        shown = [(line.name, index) for index, line in enumerate(self.diagram.lines)]
        shown += [(name, index) for index, (name, _) in enumerate(self.diagram.rows)]
        if len(shown) < 2:
            return
        for name, index in shown:
            color = COLORS[index % len(COLORS)]
            at = f'x="{x}" y="{TOP - 22}" width="14" height="9"'
            yield f'<rect {at} fill="{color}"/>'
            if self.diagram.rows:
                yield f'<rect {at} fill="url(#k{index})"/>'
            yield f'<text x="{x + 19}" y="{TOP - 13}">{escape(name)}</text>'
            x += 40 + 7 * len(name)


def _step(most: float) -> float:
    power = 10.0 ** (len(str(int(most))) - 1) / 10 if most >= 1 else 0.001
    return next((f * power for f in (1, 2, 5, 10, 20, 50, 100, 200) if f * power * 8 >= most), most)


CHART_WIDTH, CHART_HEIGHT, CHART_LEFT, CHART_RIGHT, CHART_TOP, CHART_BOTTOM = 860, 250, 58, 96, 30, 44
LANE = 20

_CHART_STYLE = (
    "text{font:12px sans-serif;fill:#57606a}.t{font-weight:bold;fill:#1c2126}.c{fill:none;stroke:#0072b2;"
    "stroke-width:2}.a{fill:none;stroke:#57606a}.limit{stroke:#57606a}.stop{stroke:#c04c00;stroke-width:1.5}"
    ".resume{stroke:#007a59;stroke-width:1.5;stroke-dasharray:7 4}.on{fill:#c04c00;font-weight:bold;"
    "text-anchor:middle}.b{fill:url(#h);stroke:#c04c00;stroke-opacity:.5}.r{fill:#cc79a7;stroke:#a8487f}"
    ".s{fill:none;stroke:#a8487f;stroke-width:3;stroke-dasharray:1 4;stroke-linecap:round}"
)
_CHART_HATCH = (
    '<pattern id="h" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="8" height="8" fill="#c04c00" fill-opacity=".08"/>'
    '<rect width="1.6" height="8" fill="#c04c00" fill-opacity=".45"/></pattern>'
)


def draw(curve: Curve) -> str:
    """Draw a queue's depth over time.

    Parameters
    ----------
    curve
        What to draw.

    Returns
    -------
    str
        A complete SVG document.
    """
    plot = _Plot(curve)
    height = CHART_HEIGHT + (LANE if curve.really_on else 0)
    size = f'viewBox="0 0 {CHART_WIDTH} {height}" width="{CHART_WIDTH}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>Depth of {escape(curve.queue.name)} over time</title>",
        f"<style>{_CHART_STYLE}</style><defs>{_CHART_HATCH}</defs>",
        f'<rect width="{CHART_WIDTH}" height="{height}" fill="#fff"/>',
        *plot.bands(),
        *plot.axes(),
        f'<path class="c" d="{plot.path()}"/>',
        *plot.reports(),
        "</svg>",
    ]
    return "\n".join(parts)


class _Plot:
    """Places on the drawing."""

    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        self.floor = CHART_HEIGHT - CHART_BOTTOM

    def x(self, seconds: float) -> float:
        return round(
            CHART_LEFT + (CHART_WIDTH - CHART_LEFT - CHART_RIGHT) * seconds / max(self.curve.end, 1e-6), 1
        )

    def y(self, depth: float) -> float:
        return round(self.floor - (self.floor - CHART_TOP) * depth / self.curve.top, 1)

    def path(self) -> str:
        first, *others = self.curve.points
        steps = [f"M{self.x(first[0])},{self.y(first[1])}"]
        steps += [f"H{self.x(time)}V{self.y(depth)}" for time, depth in others]
        return "".join(steps)

    def bands(self) -> Iterator[str]:
        for left, width in map(self._box, self.curve.on):
            yield f'<rect class="b" x="{left}" y="{CHART_TOP}" width="{width}" height="{self.floor - CHART_TOP}"/>'
            if width > 24:
                yield f'<text class="on" x="{left + width / 2:.1f}" y="{self.floor - 8}">ON</text>'

    def axes(self) -> Iterator[str]:
        curve, right = self.curve, CHART_WIDTH - CHART_RIGHT
        title = f"depth of {escape(curve.queue.name)}, in messages"
        yield f'<text class="t" x="{CHART_LEFT - 50}" y="16">{title}</text>'
        yield f'<path class="a" d="M{CHART_LEFT},{CHART_TOP}V{self.floor}H{right}"/>'
        free = 0.0
        for name, depth in curve.levels():
            at = self.y(depth)
            label = max(at + 4, free)
            free = label + 14
            yield f'<line class="{name}" x1="{CHART_LEFT}" x2="{right}" y1="{at}" y2="{at}"/>'
            yield f'<text x="{right + 6}" y="{label}">{name} {depth}</text>'
        step = _chart_step(curve.end)
        for number in range(int(curve.end / step) + 1):
            at = self.x(number * step)
            yield f'<text x="{at}" y="{self.floor + 16}" text-anchor="middle">{number * step:g} s</text>'

    def reports(self) -> Iterator[str]:
        curve = self.curve
        if curve.reported:
            points = " ".join(f"{self.x(time)},{self.y(depth)}" for time, depth in curve.reported)
            yield f'<polyline class="s" points="{points}"/>'
            legend = "dotted: as the real broker reported it"
            yield f'<text x="{CHART_WIDTH - CHART_RIGHT}" y="16" text-anchor="end">{legend}</text>'
        if curve.really_on:
            at = self.floor + 26
            for left, width in map(self._box, curve.really_on):
                yield f'<rect class="r" x="{left}" y="{at}" width="{width}" height="12" rx="2"/>'
            yield f'<text x="{CHART_LEFT}" y="{at + 27}">the bars: the real broker reported flow control ON</text>'

    def _box(self, span: Span) -> tuple[float, float]:
        left, right = self.x(span[0] / 1e6), self.x(span[1] / 1e6)
        return left, round(max(right - left, 1.0), 1)


def _chart_step(seconds: float) -> float:
    power = 10.0 ** (len(str(int(seconds))) - 1) / 10
    return next((f * power for f in (1, 2, 5, 10, 20, 50) if f * power * 10 >= seconds), 100 * power)
