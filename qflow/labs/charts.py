"""Charts: a diagram in three forms, how it is saved, and what the charts of this room share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError
from qflow.labs.diagram import Diagram
from qflow.labs.diagram_svg import draw_diagram
from qflow.labs.frames import Frames

if TYPE_CHECKING:
    import plotly.graph_objects as go


class DiagramChart:
    """A chart in three forms: a plotly figure, a drawing, and sentences.

    Parameters
    ----------
    diagram
        What is drawn.
    """

    def __init__(self, diagram: Diagram) -> None:
        self.diagram = diagram

    @property
    def claims(self) -> tuple[str, ...]:
        """What it shows, in sentences."""
        return self.diagram.claims

    @property
    def figure(self) -> go.Figure:
        """The chart as plotly knows it, to change or export."""
        from qflow.labs.diagram_plotly import figure_of

        return figure_of(self.diagram)

    @property
    def svg(self) -> str:
        """The chart as a drawing."""
        return draw_diagram(self.diagram)

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


def save_chart(chart: Any, path: str | Path) -> Path:
    """Write a chart to a file; its ending says as what.

    Parameters
    ----------
    chart
        Any chart of this room.
    path
        ``.svg`` (our own drawing), ``.html`` (plotly's, whole and offline) or ``.png``.

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
                f"{path.name}: plotly needs the package kaleido to write a PNG: pip install kaleido; or use "
                "the camera in the chart's tool bar, or save as .svg"
            ) from None
    else:
        raise RefusalError(f"a chart can be saved as .svg, .html or .png, got {path.name!r}")
    return path


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
