"""Chart: one picture in three forms, and how it is saved.

JupyterLab shows the interactive one; where no plotly is at hand (GitHub, print) the drawing stands in; and
a reader of text gets the claims.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qflow.kit import RefusalError

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
