"""LinkedChart: a plotly figure whose cursor is the scene's, and whose clicks move the scene.

Chart and scene talk to each other in the browser, so a moving cursor costs the kernel nothing.  The page
fetches plotly.js once, from the plotly that is installed beside the kernel; no other server is asked.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets

from qflow.labs.charts import Chart
from qflow.labs.picture import Comparison, Picture
from qflow.labs.scene import STYLES, Scene, read_static

_MISSING = (
    "This is the drawing: the interactive chart with the scene's cursor needs the script of the package "
    "plotly, which is not installed beside this kernel."
)


class LinkedChart(anywidget.AnyWidget):
    """A chart that follows a scene.

    Parameters
    ----------
    make
        Called with a picture; returns its chart, such as :func:`qflow.labs.held_chart`.
    picture
        What to draw first.
    scene
        Whose cursor to follow.
    **options
        Further arguments of `make`, such as ``queue``.

    Attributes
    ----------
    chart
        What is shown, to save or export.
    figure
        It as plotly's JSON.
    drawing
        It as an SVG, for a page that cannot have plotly.js.
    cursor_of
        The scene that is followed.
    has_time
        Whether the chart's axis is the run's time, so that a cursor makes sense.

    Examples
    --------
    >>> from qflow.labs import flow_run, held_chart
    >>> picture = flow_run(messages=20)
    >>> LinkedChart(held_chart, picture, Scene(picture))
    At most 0 completions of p1 were held at once.
    """

    _esm = read_static("svg.js", "chart.js")
    _css = read_static(*STYLES)

    figure = traitlets.Unicode("").tag(sync=True)
    drawing = traitlets.Unicode("").tag(sync=True)
    about = traitlets.Unicode("").tag(sync=True)
    has_time = traitlets.Bool(True).tag(sync=True)
    cursor_of = traitlets.Instance(Scene).tag(sync=True, **widgets.widget_serialization)

    def __init__(self, make: Callable[..., Chart], picture: Picture, scene: Scene, **options: Any) -> None:
        self._make = lambda shown: make(shown, **options)
        super().__init__(cursor_of=scene)
        self.show(picture)
        self.on_msg(self._heard)

    def show(self, picture: Picture | Comparison) -> None:
        """Draw the chart of another picture; of several side by side, that of the last."""
        if isinstance(picture, Comparison):
            picture = list(picture.pictures.values())[-1]
        self.chart: Chart = self._make(picture)
        figure = self.chart.figure
        with self.hold_sync():
            self.has_time = figure.layout.xaxis.title.text == "seconds"
            self.drawing = self.chart.svg
            self.about = " ".join(self.chart.claims)
            self.figure = str(figure.to_json())

    def _heard(self, _: object, content: dict[str, Any], __: object) -> None:
        if content.get("ask") != "plotly":
            return
        try:
            self.send({"script": "plotly"}, buffers=[plotly_script()])
        except OSError:
            self.send({"missing": _MISSING})

    def __repr__(self) -> str:
        return repr(self.chart)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        # Who opens the notebook without a kernel gets the drawing.
        data, metadata = super()._repr_mimebundle_(**kwargs)
        return {**data, "image/svg+xml": self.drawing, "text/plain": repr(self)}, metadata


@cache
def plotly_script() -> bytes:
    """Return plotly.js as it is sent to a page: gzip'd, a third of its size.

    Raises
    ------
    FileNotFoundError
        If the installed plotly brings no script.
    """
    script = files("plotly") / "package_data" / "plotly.min.js"
    return gzip.compress(script.read_bytes(), 6, mtime=0)
