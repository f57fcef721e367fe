"""Charts made of a diagram, and what they share.

Chart: one picture in three forms, and how it is saved.

JupyterLab shows the interactive one; where no plotly is at hand (GitHub, print) the drawing stands in; and
a reader of text gets the claims.

Curve: a queue's depth over time, thinned to what a chart can show, with all that belongs beside it.

Plots: the chart of a queue's depth over time, with its thresholds and the times it was ON.

Charts of clients: waits, latencies, who owned which group, and prefetch.

Charts of queues beside their depth: bytes with their thresholds, and completions held.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.labs.channels import NEVER
from qflow.labs.claims import seconds, share, times
from qflow.labs.diagram import Curve, Diagram, Level, Line, Point, SpanRow, curve_of, draw, draw_diagram
from qflow.labs.frames import Frames, Span
from qflow.labs.picture import Picture

if TYPE_CHECKING:
    import plotly.graph_objects as go


class Chart(ABC):
    """What all charts of this room have; a chart says how it is drawn and what it claims."""

    claims: Sequence[str]
    """What it shows, in sentences."""

    @property
    @abstractmethod
    def figure(self) -> go.Figure:
        """The chart as plotly knows it, to change or export."""

    @property
    @abstractmethod
    def svg(self) -> str:
        """The chart as a drawing."""

    def save(self, path: str | Path) -> Path:
        """Write the chart to a file; see :func:`save_chart`."""
        return save_chart(self, path)

    def __repr__(self) -> str:
        return "\n".join(self.claims)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, Any]:
        return {
            "application/vnd.plotly.v1+json": self.figure.to_plotly_json(),
            "image/svg+xml": self.svg,
            "text/plain": repr(self),
        }


def save_chart(chart: Chart, path: str | Path) -> Path:
    """Write a chart to a file; its ending says as what.

    Parameters
    ----------
    chart
        Any chart of this room.
    path
        ``.svg`` (our own drawing), ``.html`` (plotly's, whole: it needs no server and no kernel) or
        ``.png`` (plotly's, which asks for the packages kaleido and a Chrome; in a browser, the camera of
        the chart's tool bar and the buttons of :class:`qflow.labs.LinkedChart` need neither).

    Returns
    -------
    Path
        Where it is.

    Raises
    ------
    RefusalError
        For another ending, or for a PNG without the package that draws one.
    OSError
        If the file cannot be written.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending == ".svg":
        path.write_text(chart.svg, encoding="utf-8")
    elif ending == ".html":
        chart.figure.write_html(path, include_plotlyjs=True, full_html=True)
    elif ending == ".png":
        try:
            chart.figure.write_image(path)
        except (ValueError, RuntimeError, ImportError):
            raise RefusalError(
                f"{path.name}: to write a PNG from Python, plotly needs the package kaleido (pip install "
                "kaleido) and a Chrome; without them, the camera in the chart's tool bar saves a PNG, and a "
                "chart can be saved as .svg or .html"
            ) from None
    else:
        raise RefusalError(f"a chart can be saved as .svg, .html or .png, got {path.name!r}")
    return path


class DiagramChart(Chart):
    """A chart in three forms: a plotly figure, a drawing, and sentences.

    Parameters
    ----------
    diagram
        What is drawn.
    """

    def __init__(self, diagram: Diagram) -> None:
        self.diagram = diagram
        self.claims = diagram.claims

    @property
    def figure(self) -> go.Figure:
        """The chart as plotly knows it, to change or export."""
        from qflow.labs.diagram import figure_of

        return figure_of(self.diagram)

    @property
    def svg(self) -> str:
        """The chart as a drawing."""
        return draw_diagram(self.diagram)


def end_of(frames: Frames) -> float:
    """Return the end of a run in seconds."""
    return max(frames.topology.end, 1) / 1e6


def on_bands(frames: Frames, queue: str) -> tuple[tuple[str, tuple[tuple[float, float], ...]], ...]:
    """Return when a queue was ON, as a diagram's bands."""
    spans = tuple((start / 1e6, to / 1e6) for start, to in frames.spans(f"queue.{queue}.flow"))
    return ((f"{queue} ON", spans),) if spans else ()


def steps_of(frames: Frames, channel: str, columns: int = 400) -> tuple[tuple[float, float], ...]:
    """Read a column; of each slice of time only its first, lowest, highest and last value are kept."""
    slices: dict[int, list[tuple[float, float]]] = {}
    end = max(frames.topology.end, 1)
    for time, value in zip(frames.column("time"), frames.column(channel), strict=True):
        slices.setdefault(columns * time // end, []).append((time / 1e6, value))
    kept: list[tuple[float, float]] = []
    for points in slices.values():
        lowest = min(points, key=lambda point: point[1])
        highest = max(points, key=lambda point: point[1])
        kept += sorted({points[0], lowest, highest, points[-1]}, key=points.index)
    return (*kept, (end / 1e6, kept[-1][1])) if kept else ()


INK, SOFT, BLUE, STOP, GO, REAL = "#1c2126", "#57606a", "#0072b2", "#c04c00", "#007a59", "#a8487f"
_LOOKS = {"limit": (SOFT, "solid"), "stop": (STOP, "solid"), "resume": (GO, "dash")}
_HATCHED = {"fill": "toself", "mode": "none", "hoverinfo": "skip"}


class DepthChart(Chart):
    """A chart of a queue's depth; made by :func:`depth_chart`.

    Parameters
    ----------
    curve
        What is drawn.
    claims
        What it shows, in sentences.
    """

    def __init__(self, curve: Curve, claims: tuple[str, ...]) -> None:
        self.curve = curve
        self.claims = claims

    @property
    def figure(self) -> go.Figure:
        """The chart as plotly knows it, to change or export."""
        return _figure(self.curve)

    @property
    def svg(self) -> str:
        """The chart as a drawing."""
        return draw(self.curve)


def depth_chart(picture: Picture, queue: str | None = None) -> DepthChart:
    """Draw a queue's depth over time, with its thresholds and when flow control was ON.

    Parameters
    ----------
    picture
        What was run.
    queue
        Which queue; None for the first.

    Returns
    -------
    Chart

    Raises
    ------
    KeyError
        If there is no such queue.

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> chart = depth_chart(flow_run(messages=300, stop=20, resume=10))
    >>> [trace.name for trace in chart.figure.data]
    ['flow control ON', 'depth of orders']
    """
    return DepthChart(curve_of(picture, queue), picture.claims)


def _figure(curve: Curve) -> go.Figure:
    import plotly.graph_objects as go

    figure = go.Figure()
    lane = 0.09 * curve.top
    band = _bands(curve.on, 0, curve.top)
    figure.add_scatter(**band, name="flow control ON", fillpattern=_pattern("/", STOP))
    if curve.really_on:
        band = _bands(curve.really_on, -2.2 * lane, -1.2 * lane)
        figure.add_scatter(**band, name="real broker: ON", fillcolor=REAL)
    style: dict[str, object] = {"color": BLUE, "shape": "hv"}
    figure.add_scatter(**_line(curve.points), name=f"depth of {curve.queue.name}", line=style)
    if curve.reported:
        style = {"color": REAL, "dash": "dot", "width": 2}
        figure.add_scatter(**_line(curve.reported), name="real broker: depth", line=style)
    for name, depth in curve.levels():
        color, dash = _LOOKS[name]
        figure.add_hline(depth, line={"color": color, "dash": dash, "width": 1.5})
        place = {"x": 1, "xref": "paper", "xanchor": "left", "y": depth, "showarrow": False, "xshift": 4}
        figure.add_annotation(**place, text=name, font={"color": color})
    figure.update_layout(**_layout(curve, -2.6 * lane if curve.really_on else 0))
    return figure


def _layout(curve: Curve, floor: float) -> dict[str, Any]:
    from qflow.labs.diagram import LEGEND, title_of

    return {
        "height": 340,
        "title": title_of(f"depth of {curve.queue.name}"),
        "margin": {"l": 70, "r": 90, "t": 56, "b": 48},
        "template": "plotly_white",
        "legend": LEGEND,
        "xaxis": {"title": {"text": "seconds"}, "range": [0, curve.end], "zeroline": False},
        "yaxis": {
            "title": {"text": "messages"},
            "range": [floor, curve.top],
            "tickvals": [0, *(depth for _, depth in reversed(curve.levels()))],
            "zeroline": False,
        },
    }


def _line(points: tuple[Point, ...]) -> dict[str, Any]:
    return {"x": [time for time, _ in points], "y": [depth for _, depth in points], "mode": "lines"}


def _bands(spans: tuple[Span, ...], low: float, high: float) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[float | None] = []
    for start, to in spans:
        x += [start / 1e6, start / 1e6, to / 1e6, to / 1e6, None]
        y += [low, high, high, low, None]
    return {**_HATCHED, "x": x, "y": y}


def _pattern(shape: str, color: str) -> dict[str, Any]:
    return {"shape": shape, "fgcolor": color, "bgcolor": "rgba(0,0,0,0)", "size": 7, "solidity": 0.25}


_BINS = 40


def blocked_chart(picture: Picture) -> DiagramChart:
    """Draw when each producer had to wait with a full window.

    Parameters
    ----------
    picture
        What was run.

    Returns
    -------
    DiagramChart

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> print(blocked_chart(flow_run(messages=100)))
    p1 had to wait never, 0 % of the time.
    """
    frames = picture.frames
    rows: list[SpanRow] = []
    claims = []
    for spot in frames.topology.producers:
        spans = frames.spans(f"producer.{spot.name}.blocked")
        part = share(spans, frames.topology.end)
        claims.append(f"{spot.name} had to wait {times(len(spans))}, {part} of the time.")
        for start, to in spans:
            said = f"{spot.name} waits from {seconds(start)} to {seconds(to)}"
            rows.append((spot.name, start / 1e6, to / 1e6, said))
    title = "producers that wait with a full window"
    return DiagramChart(
        Diagram(title, "seconds", "", tuple(claims), rows=(("waits", tuple(rows)),), end=end_of(frames))
    )


def latency_chart(picture: Picture) -> DiagramChart:
    """Draw how long it took until producers knew of their transfers that they are complete.

    Parameters
    ----------
    picture
        What was run.

    Returns
    -------
    DiagramChart
        A distribution: milliseconds to the number of transfers.

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> print(latency_chart(flow_run(messages=300, stop=20, resume=10, capacity=5)))
    Of 300 completed transfers, 210 were complete at once; half took at most 0.0 ms, the slowest 83.2 ms.
    """
    frames = picture.frames
    times_of, sendings = frames.column("time"), frames.lasting["sendings"]
    pairs = zip(sendings.column("start"), sendings.column("end"), strict=True)
    taken = sorted((times_of[end] - times_of[start]) / 1e3 for start, end in pairs if end != NEVER)
    if not taken:
        return _latencies(("No transfer was completed.",))
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
    return _latencies((claim,), bars, longest)


def _latencies(
    claims: tuple[str, ...], bars: tuple[tuple[float, float], ...] = (), end: float = 1
) -> DiagramChart:
    return DiagramChart(
        Diagram("time to completion", "milliseconds", "transfers", claims, bars=bars, end=end)
    )


def ownership_chart(picture: Picture) -> DiagramChart:
    """Draw which consumer owned which group, and when.

    Parameters
    ----------
    picture
        What was run.

    Returns
    -------
    DiagramChart
        A row for each group. Name, hatching and colour of a span are its owner's; pointing at it tells more.

    Examples
    --------
    >>> from qflow.labs import group_run
    >>> print(ownership_chart(group_run(messages="AAB", prefetch=(1, 1))))
    A was owned twice, by c1.
    B was owned once, by c2.
    """
    frames = picture.frames
    locks, moments = frames.lasting["locks"], frames.column("time")
    rows: dict[str, list[SpanRow]] = {spot.name: [] for spot in frames.topology.consumers}
    owners: dict[str, list[str]] = {}
    for index in range(len(locks)):
        lock = locks.row(index)
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
    return DiagramChart(
        Diagram("who owns which group", "seconds", "", sentences, rows=kinds, end=end_of(frames))
    )


def prefetch_chart(picture: Picture) -> DiagramChart:
    """Draw how many messages each consumer holds over time, against its prefetch.

    Parameters
    ----------
    picture
        What was run.

    Returns
    -------
    DiagramChart

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> print(prefetch_chart(flow_run(messages=300)))
    c1 held at most 20 of its prefetch of 20.
    """
    frames = picture.frames
    spots = frames.topology.consumers
    lines = tuple(Line(spot.name, steps_of(frames, f"consumer.{spot.name}.holds")) for spot in spots)
    levels = {spot.prefetch: Level("prefetch", spot.prefetch, "mark") for spot in spots}
    claims = tuple(
        f"{spot.name} held at most {max(frames.column(f'consumer.{spot.name}.holds'))} "
        f"of its prefetch of {spot.prefetch}."
        for spot in spots
    )
    return DiagramChart(
        Diagram(
            "prefetched messages",
            "seconds",
            "messages",
            claims,
            lines,
            tuple(levels.values()),
            end=end_of(frames),
        )
    )


def bytes_chart(picture: Picture, queue: str | None = None) -> DiagramChart:
    """Draw a queue's bytes over time, with its thresholds in bytes and when flow control was ON.

    Parameters
    ----------
    picture
        What was run.
    queue
        Which queue; None for the first.

    Returns
    -------
    DiagramChart

    Raises
    ------
    KeyError
        If there is no such queue.

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> print(bytes_chart(flow_run(messages=300)))
    At its largest, orders had 37869 bytes.
    """
    frames = picture.frames
    spots = {spot.name: spot for spot in frames.topology.queues}
    name = queue or next(iter(spots))
    if name not in spots:
        raise KeyError(f"no queue {name!r} in this picture; there are {', '.join(spots)}")
    spot = spots[name]
    kinds = (("limit", spot.max_size), ("stop", spot.stop_size), ("resume", spot.resume_size))
    levels = tuple(Level(kind, value, kind) for kind, value in kinds if value)
    most = max(frames.column(f"queue.{name}.bytes"))
    line = Line(f"bytes of {name}", steps_of(frames, f"queue.{name}.bytes"))
    claims = (f"At its largest, {name} had {most} bytes.",)
    return DiagramChart(
        Diagram(
            f"bytes of {name}",
            "seconds",
            "bytes",
            claims,
            (line,),
            levels,
            on_bands(frames, name),
            end=end_of(frames),
        )
    )


def held_chart(picture: Picture) -> DiagramChart:
    """Draw how many completions are held over time, producer by producer.

    Parameters
    ----------
    picture
        What was run.

    Returns
    -------
    DiagramChart

    Examples
    --------
    >>> from qflow.labs import flow_run
    >>> print(held_chart(flow_run(messages=300, stop=20, resume=10, capacity=5)))
    At most 5 completions of p1 were held at once.
    """
    frames = picture.frames
    names = [spot.name for spot in frames.topology.producers]
    lines = tuple(Line(name, steps_of(frames, f"producer.{name}.held")) for name in names)
    most = {name: max(frames.column(f"producer.{name}.held")) for name in names}
    claims = tuple(
        f"At most {count} completions of {name} were held at once." for name, count in most.items()
    )
    bands = tuple(band for spot in frames.topology.queues for band in on_bands(frames, spot.name))
    return DiagramChart(
        Diagram("completions held", "seconds", "completions", claims, lines, (), bands, end=end_of(frames))
    )
