"""Charts made of a diagram, and what they share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qflow.labs.chart import Chart
from qflow.labs.diagram import Diagram
from qflow.labs.diagram_svg import draw_diagram
from qflow.labs.frames import Frames

if TYPE_CHECKING:
    import plotly.graph_objects as go


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
        from qflow.labs.diagram_plotly import figure_of

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
