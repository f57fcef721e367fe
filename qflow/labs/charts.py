"""Charts: quantities of a run over time, drawn by plotly, with the sentences that say what they show.

A chart has lines with their levels, hatched bands, bars, or rows of spans. It is drawn once, as a plotly
figure (:attr:`Chart.figure`). JupyterLab, the site, a saved page and a chart linked to a lab show the figure;
GitHub, a printed notebook and other places that run no script show a still of the same figure
(:mod:`qflow.labs.still`); a reader of text gets the claims.

Colours are never the only sign: lines are dashed, spans hatched and named, each in their own way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.labs.frames import NEVER, Frames, Span
from qflow.labs.picture import Picture
from qflow.labs.topology import QueueSpot
from qflow.labs.words import seconds, times
from qflow.wording import format_thousands

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from qflow.prediction.predict import Prediction

Point = tuple[float, float]
_SpanRow = tuple[str, float, float, str]
"""A row's name, from and to in seconds, and what is said when it is pointed at."""

COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a8000", "#7a5195")
"""Okabe and Ito's, with one of its own for the yellow that no white page shows."""
_DASHES = ("solid", "dash", "dot", "dashdot")
_HATCHES = ("", "/", "\\", "x", "-", "|", "+", ".")
STOP, REAL = "#c04c00", "#a8487f"
_LEVELS = {"stop": (STOP, "solid"), "resume": ("#007a59", "dash"), "limit": ("#57606a", "solid")}
_PALE = "rgba(0,114,178,0.25)"
_LEGEND = {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 1, "xanchor": "right"}
_SLICES, _BINS = 400, 40

# What plotly would read as markup, as a template or as TeX.
_LETTERS = {ord(letter): f"&#{ord(letter)};" for letter in "<>&{$"}


def plain(text: str) -> str:
    """Return a text that plotly shows letter for letter, whatever it contains."""
    return text.translate(_LETTERS)


@dataclass(frozen=True, slots=True)
class Line:
    """A quantity over time; each point holds until the next, unless it was only sampled."""

    name: str
    points: tuple[Point, ...]
    is_sampled: bool = False


@dataclass(frozen=True, slots=True)
class Band:
    """When something held, from and to in seconds: hatched, or in a lane of its own below the axis."""

    name: str
    spans: tuple[Point, ...]
    is_below: bool = False
    # Between what a quantity lies in each of the spans.
    heights: tuple[Point, ...] = ()


@dataclass(frozen=True, repr=False)
class Chart:
    """A chart of a run."""

    title: str
    x_title: str
    y_title: str
    claims: tuple[str, ...]
    lines: tuple[Line, ...] = ()
    # The thresholds that the lines are held against: ``stop``, ``resume``, ``limit``; one of 0 is none.
    levels: Mapping[str, float] = field(default_factory=dict)
    bands: tuple[Band, ...] = ()
    # A distribution: where, and how much; each bar reaches to the next.
    bars: tuple[Point, ...] = ()
    rows: tuple[tuple[str, tuple[_SpanRow, ...]], ...] = ()
    end: float = 1.0
    # How far the scale reaches at least.
    reach: float = 1.0

    @property
    def top(self) -> float:
        """The upper end of the scale; a level far above everything else is left out."""
        ends = [y for line in self.lines for _, y in line.points] + [y for _, y in self.bars]
        ends += [high for band in self.bands for _, high in band.heights]
        highest = max([*ends, self.reach])
        return 1.06 * max([highest, *(level for level in self.levels.values() if level <= 2.5 * highest)])

    @property
    def shown_levels(self) -> dict[str, float]:
        """The levels that are there, and on the scale."""
        return {name: level for name, level in self.levels.items() if 0 < level <= self.top}

    @property
    def figure(self) -> go.Figure:
        """The chart as a plotly figure, to change or export."""
        import plotly.graph_objects as go

        figure = go.Figure()
        for band in self.bands:
            figure.add_scatter(**_band(band, self.top))
        for index, line in enumerate(self.lines):
            figure.add_scatter(**_line(line, index, plain(self.y_title)))
        if self.bars:
            figure.add_bar(**_bars(self))
        for index, (name, rows) in enumerate(self.rows):
            figure.add_bar(**_spans(name, rows, index, is_alone=len(self.rows) == 1))
        for name, level in self.shown_levels.items():
            color, dash = _LEVELS[name]
            figure.add_hline(level, line={"color": color, "dash": dash, "width": 1.5})
            place = {"x": 1, "xref": "paper", "xanchor": "left", "y": level, "showarrow": False}
            text = f"{name} {format_thousands(level)}"
            figure.add_annotation(**place, xshift=4, text=text, font={"color": color})
        figure.update_layout(**_looks(self))
        return figure

    @property
    def svg(self) -> str:
        """A still of the figure: a complete SVG document."""
        from qflow.labs.still import still

        return still(self.figure)

    def save(self, path: str | Path) -> Path:
        """Write the chart as ``.html`` (a whole page), ``.svg`` (a still) or ``.png``; return the path."""
        path = Path(path)
        ending = path.suffix.lower()
        if ending == ".svg":
            path.write_text(self.svg, encoding="utf-8")
        elif ending == ".html":
            self.figure.write_html(path, include_plotlyjs=True, full_html=True)
        elif ending == ".png":
            try:
                self.figure.write_image(path)
            except (ValueError, RuntimeError, ImportError):
                raise RefusalError(
                    f"{path.name}: to write a PNG from Python, plotly needs the package kaleido "
                    "(pip install kaleido) and a Chrome; without them, the camera in the chart's tool bar "
                    "saves a PNG, and a chart can be saved as .svg or .html"
                ) from None
        else:
            raise RefusalError(f"a chart can be saved as .svg, .html or .png, got {path.name!r}")
        return path

    def __repr__(self) -> str:
        return "\n".join(self.claims)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {
            "application/vnd.plotly.v1+json": self.figure.to_plotly_json(),
            "image/svg+xml": self.svg,
            "text/plain": repr(self),
        }


# Queues


def depth_chart(picture: Picture | Prediction, queue: str | None = None) -> Chart:
    """Return a chart of a queue's depth over time, with its thresholds and when flow control was ON.

    Parameters:
        picture: What was run; what a real broker reported is drawn over it.  Or a prediction: between which
            depths the queue was at each moment, in 80 of 100 replays, and the depth in the replay that is
            shown.
        queue: Which queue; None for the first.

    Raises:
        KeyError: If there is no such queue.

    >>> from qflow.labs import flow_run
    >>> chart = depth_chart(flow_run(messages=300, stop=20, resume=10))
    >>> [trace.name for trace in chart.figure.data]
    ['flow control ON', 'depth of orders']
    """
    if isinstance(picture, Mapping):
        return _predicted_depth(picture, queue)
    spot = _queue(picture.frames, queue)
    index = picture.frames.topology.queues.index(spot)
    name = f"depth of {spot.name}"
    spans = {lane.kind: _in_seconds(lane.spans) for lane in picture.lanes if lane.queue == index}
    bands = [Band("flow control ON", spans.get("on", ()))]
    if spans.get("real"):
        bands.append(Band("real broker: ON", spans["real"], is_below=True))
    lines = [Line(name, steps_of(picture.frames, f"queue.{spot.name}.depth"))]
    reported = [point for sample in picture.samples if sample.queue == index for point in sample.points]
    if reported:
        points = tuple((time / 1e6, float(depth)) for time, depth in reported)
        lines.append(Line("real broker: depth", points, is_sampled=True))
    resume = spot.resume_count if spot.stop_count else 0
    levels = {"limit": spot.max_count, "stop": spot.stop_count, "resume": resume}
    end, reach = _end_of(picture.frames), max(1, spot.stop_count)
    claims = tuple(picture.claims)
    return Chart(
        name, "seconds", "messages", claims, tuple(lines), levels, tuple(bands), end=end, reach=reach
    )


def _predicted_depth(report: Prediction, queue: str | None) -> Chart:
    """Return a chart of a predicted depth: a band of what most replays have, and the one that is shown."""
    # Who draws no prediction waits for no import of them: each lab's first picture would.
    from qflow.prediction.intervals import in_words

    queues = report["queues"]
    if queue is not None and queue not in queues:
        raise KeyError(f"no queue {queue!r} in this prediction; there are {', '.join(queues)}")
    queue = queue or next(iter(queues))
    course, settings = queues[queue]["course"], queues[queue]["thresholds"]
    moments = course["seconds"]
    spans = tuple(pairwise([0.0, *moments]))
    bands: tuple[Band, ...] = ()
    if course["low"]:
        heights = tuple(zip(course["low"], course["high"], strict=True))
        bands = (Band("80 of 100 replays", spans, heights=heights),)
    name = f"predicted depth of {queue}"
    points = tuple((start, float(depth)) for (start, _), depth in zip(spans, course["depth"], strict=True))
    reach = max(1.0, settings["stop"])
    claims = tuple(line for line in in_words(report) if line.startswith(f"queue {queue}"))
    lines = (Line(name, (*points, (moments[-1], points[-1][1]))),)
    return Chart(name, "seconds", "messages", claims, lines, settings, bands, end=moments[-1], reach=reach)


def bytes_chart(picture: Picture, queue: str | None = None) -> Chart:
    """Return a chart of a queue's bytes over time, with its thresholds in bytes and when it was ON.

    The arguments are those of :func:`depth_chart`.

    >>> from qflow.labs import flow_run
    >>> print(bytes_chart(flow_run(messages=300)))
    At its largest, orders had 37869 bytes.
    """
    frames = picture.frames
    spot = _queue(frames, queue)
    name = f"bytes of {spot.name}"
    line = Line(name, steps_of(frames, f"queue.{spot.name}.bytes"))
    levels = {"limit": spot.max_size, "stop": spot.stop_size, "resume": spot.resume_size}
    claims = (f"At its largest, {spot.name} had {max(frames.column(f'queue.{spot.name}.bytes'))} bytes.",)
    bands = _on_bands(frames, spot.name)
    return Chart(name, "seconds", "bytes", claims, (line,), levels, bands, end=_end_of(frames))


def held_chart(picture: Picture) -> Chart:
    """Return a chart of the completions held over time, producer by producer.

    >>> from qflow.labs import flow_run
    >>> print(held_chart(flow_run(messages=300, stop=20, resume=10, capacity=5)))
    At most 5 completions of p1 were held at once.
    """
    frames = picture.frames
    names = [spot.name for spot in frames.topology.producers]
    lines = tuple(Line(name, steps_of(frames, f"producer.{name}.held")) for name in names)
    claims = tuple(
        f"At most {max(frames.column(f'producer.{name}.held'))} completions of {name} were held at once."
        for name in names
    )
    bands = tuple(band for spot in frames.topology.queues for band in _on_bands(frames, spot.name))
    return Chart("completions held", "seconds", "completions", claims, lines, {}, bands, end=_end_of(frames))


# Clients


def latency_chart(picture: Picture) -> Chart:
    """Return a chart of how long it took until producers knew of their transfers that they are complete.

    It is a distribution: milliseconds to the number of transfers.

    >>> from qflow.labs import flow_run
    >>> print(latency_chart(flow_run(messages=300, stop=20, resume=10, capacity=5)))
    Of 300 completed transfers, 210 were complete at once; half took at most 0.0 ms, the slowest 83.2 ms.
    """
    frames = picture.frames
    title, axes = "time to completion", ("milliseconds", "transfers")
    times_of, sendings = frames.column("time"), frames.lasting["sendings"]
    pairs = zip(sendings.column("start"), sendings.column("end"), strict=True)
    taken = sorted((times_of[end] - times_of[start]) / 1e3 for start, end in pairs if end != NEVER)
    if not taken:
        return Chart(title, *axes, ("No transfer was completed.",))
    longest = max(taken[-1], 0.001)
    width = longest / _BINS
    counts = [0] * _BINS
    for value in taken:
        counts[min(_BINS - 1, int(value / width))] += 1
    at_once = sum(value == 0 for value in taken)
    claim = (
        f"Of {len(taken)} completed transfers, {at_once} were complete at once; half took at most "
        f"{taken[len(taken) // 2]:.1f} ms, the slowest {longest:.1f} ms."
    )
    bars = tuple((index * width, float(count)) for index, count in enumerate(counts))
    return Chart(title, *axes, (claim,), bars=bars, end=longest)


def ownership_chart(picture: Picture) -> Chart:
    """Return a chart of which consumer owned which group, and when.

    Each group has a row. Name, hatching and colour of a span are its owner's; pointing at it says more.

    >>> from qflow.labs import group_run
    >>> print(ownership_chart(group_run(messages="AAB", prefetch=(1, 1))))
    A was owned twice, by c1.
    B was owned once, by c2.
    """
    frames = picture.frames
    moments = frames.column("time")
    rows: dict[str, list[_SpanRow]] = {spot.name: [] for spot in frames.topology.consumers}
    owners: dict[str, list[str]] = {}
    for lock in frames.lasting["locks"]:
        group = frames.groups[lock["group"] - 1]
        who = frames.topology.consumers[lock["consumer"] - 1].name if lock["consumer"] else "someone"
        start = moments[lock["start"]]
        to = moments[lock["end"]] if lock["end"] != NEVER else frames.topology.end
        said = f"{who} owns {group} from {seconds(start)} to {seconds(to)}"
        rows.setdefault(who, []).append((group, start / 1e6, to / 1e6, said))
        owners.setdefault(group, []).append(who)
    claims = [
        f"{group} was owned {times(len(names))}, by {', '.join(dict.fromkeys(names))}."
        for group, names in sorted(owners.items())
    ]
    kinds = tuple((who, tuple(spans)) for who, spans in rows.items())
    sentences = tuple(claims) or ("No group was ever owned.",)
    return Chart("who owns which group", "seconds", "", sentences, rows=kinds, end=_end_of(frames))


# What charts are read from


def steps_of(frames: Frames, channel: str) -> tuple[Point, ...]:
    """Return a channel over time, in seconds: of each slice the first, lowest, highest and last value."""
    slices: dict[int, list[Point]] = {}
    end = max(frames.topology.end, 1)
    for time, value in zip(frames.column("time"), frames.column(channel), strict=True):
        slices.setdefault(_SLICES * time // end, []).append((time / 1e6, value))
    kept: list[Point] = []
    for points in slices.values():
        lowest = min(points, key=lambda point: point[1])
        highest = max(points, key=lambda point: point[1])
        kept += sorted({points[0], lowest, highest, points[-1]}, key=points.index)
    return (*kept, (end / 1e6, kept[-1][1])) if kept else ()


def _queue(frames: Frames, name: str | None) -> QueueSpot:
    spots = {spot.name: spot for spot in frames.topology.queues}
    if name is not None and name not in spots:
        raise KeyError(f"no queue {name!r} in this picture; there are {', '.join(spots)}")
    return spots[name] if name is not None else next(iter(spots.values()))


def _end_of(frames: Frames) -> float:
    return max(frames.topology.end, 1) / 1e6


def _in_seconds(spans: Sequence[Span]) -> tuple[Point, ...]:
    return tuple((start / 1e6, to / 1e6) for start, to in spans)


def _on_bands(frames: Frames, queue: str) -> tuple[Band, ...]:
    spans = _in_seconds(frames.spans(f"queue.{queue}.flow"))
    return (Band(f"{queue} ON", spans),) if spans else ()


# What a figure is made of


def _band(band: Band, top: float) -> dict[str, Any]:
    whole = (-0.2 * top, -0.1 * top) if band.is_below else (0.0, top)
    x: list[float | None] = []
    y: list[float | None] = []
    for (start, to), (low, high) in zip(band.spans, band.heights or [whole] * len(band.spans), strict=True):
        x += [start, start, to, to, None]
        y += [low, high, high, low, None]
    hatch = {"shape": "/", "fgcolor": STOP, "bgcolor": "rgba(0,0,0,0)", "size": 7, "solidity": 0.25}
    fill = {"fillcolor": REAL} if band.is_below else {"fillpattern": hatch}
    if band.heights:
        fill = {"fillcolor": _PALE}
    return {
        "x": x,
        "y": y,
        "name": plain(band.name),
        "fill": "toself",
        "mode": "none",
        "hoverinfo": "skip",
        **fill,
    }


def _line(line: Line, index: int, unit: str) -> dict[str, Any]:
    style: dict[str, Any] = {"color": COLORS[index % len(COLORS)], "dash": _DASHES[index % len(_DASHES)]}
    style["shape"] = "hv"
    if line.is_sampled:
        style = {"color": REAL, "dash": "dot", "width": 2}
    return {
        "x": [x for x, _ in line.points],
        "y": [y for _, y in line.points],
        "mode": "lines",
        "name": plain(line.name),
        "line": style,
        "hovertemplate": f"{plain(line.name)}: %{{y}} {unit} at %{{x:.3f}} s<extra></extra>",
    }


def _bars(chart: Chart) -> dict[str, Any]:
    starts = [x for x, _ in chart.bars]
    return {
        "x": starts,
        "y": [y for _, y in chart.bars],
        "width": [to - start for start, to in pairwise([*starts, chart.end])],
        "offset": 0,
        "marker": {"color": COLORS[0]},
        "hovertemplate": f"%{{y}} {plain(chart.y_title)}, from %{{x:.3g}}<extra></extra>",
    }


def _spans(name: str, rows: tuple[_SpanRow, ...], index: int, *, is_alone: bool) -> dict[str, Any]:
    """Return one kind of spans: distinguished by its name, a hatching, and a colour."""
    color = COLORS[index % len(COLORS)]
    ink = _ink_on(color)
    hatch = {"shape": _HATCHES[index % len(_HATCHES)], "fillmode": "overlay", "fgcolor": ink}
    return {
        "orientation": "h",
        "base": [start for _, start, _, _ in rows],
        "x": [to - start for _, start, to, _ in rows],
        "y": [plain(row) for row, *_ in rows],
        "name": plain(name),
        "text": None if is_alone else [f"<b>{plain(name)}</b>"] * len(rows),
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "insidetextfont": {"color": ink, "size": 13},
        "marker": {"color": color, "pattern": {**hatch, "fgopacity": 0.35, "size": 6, "solidity": 0.25}},
        "hovertext": [plain(said) for *_, said in rows],
        "hoverinfo": "text",
    }


def _ink_on(color: str) -> str:
    """Return black or white: what is read more easily on a colour."""
    red, green, blue = (int(color[place : place + 2], 16) for place in (1, 3, 5))
    return "#000000" if 0.299 * red + 0.587 * green + 0.114 * blue > 105 else "#ffffff"


def _looks(chart: Chart) -> dict[str, Any]:
    # p2 comes before p10.
    names = sorted({row[0] for _, rows in chart.rows for row in rows}, key=lambda name: (len(name), name))
    heading = {"text": f"<b>{plain(chart.title)}</b>", "font": {"size": 15}, "x": 0, "xref": "paper", "y": 1}
    floor = -0.24 * chart.top if any(band.is_below for band in chart.bands) else 0
    upright: dict[str, Any] = {
        "title": {"text": plain(chart.y_title)},
        "range": [floor, chart.top],
        "zeroline": False,
    }
    if floor:
        upright["tickvals"] = [0, *chart.shown_levels.values()]
    in_rows = {
        "autorange": "reversed",
        "categoryorder": "array",
        "categoryarray": [plain(name) for name in names],
    }
    return {
        "title": {**heading, "yref": "paper", "yanchor": "bottom", "pad": {"b": 12}},
        "height": 130 + 28 * len(names) if names else 340,
        "margin": {"l": 70, "r": 110 if any(chart.levels.values()) else 24, "t": 56, "b": 48},
        "template": "plotly_white",
        "barmode": "overlay",
        "bargap": 0.14,
        "uniformtext": {"mode": "hide", "minsize": 11},
        "legend": _LEGEND,
        "showlegend": len(chart.lines) + len(chart.rows) + len(chart.bands) > 1,
        # Thousands apart by a thin space, as everywhere in the labs.
        "separators": ".\u2009",
        "xaxis": {"title": {"text": plain(chart.x_title)}, "range": [0, chart.end], "zeroline": False},
        "yaxis": in_rows if names else {**upright, "tickformat": ","},
    }
