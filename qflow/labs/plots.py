"""Plots: the chart of a queue's depth over time, with its thresholds and the times it was ON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qflow.labs.chart import Chart
from qflow.labs.curve import Curve, Point, curve_of
from qflow.labs.frames import Span
from qflow.labs.picture import Picture
from qflow.labs.plot_svg import draw

if TYPE_CHECKING:
    import plotly.graph_objects as go

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
    from qflow.labs.diagram_plotly import LEGEND, title_of

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
