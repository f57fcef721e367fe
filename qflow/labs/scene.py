"""Scene: the widget that draws pictures, and the widget of a chart that follows its cursor.

The browser receives each run once, as numbers, and only draws them. A reader's requests, such as a click, are
sent back as messages, which :class:`qflow.labs.lab.Lab` answers.

Chart and scene are connected in the browser, so moving the cursor needs no work of the kernel. The page gets
plotly.js once, from the package plotly that is installed beside the kernel, and from no other server.
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
from qflow.labs.picture import Comparison, Picture, payload_of
from qflow.labs.scripts import STYLES, join_modules, read_styles
from qflow.labs.share import site_address
from qflow.labs.still import DARK

_MISSING = (
    "This is the drawing: the interactive chart with the scene's cursor needs the script of the package "
    "plotly, which is not installed beside this kernel."
)


class Scene(anywidget.AnyWidget):
    """The widget that draws one picture, or several side by side; it may be empty."""

    _esm = join_modules("scene.js")
    _css = read_styles(*STYLES)

    # The number of the run that is drawn. It only grows: a slow run never replaces a later one.
    run = traitlets.Int(0).tag(sync=True)
    # Whether that run is complete; if not, its finished part is drawn first.
    is_whole = traitlets.Bool(True)
    pictures = traitlets.List().tag(sync=True)
    # The text of a banner above the picture.
    refusal = traitlets.Unicode("").tag(sync=True)
    # The number of a long run that is in progress, its finished share, and the number of a cancelled run.
    running = traitlets.Int(0).tag(sync=True)
    progress = traitlets.Float(0.0).tag(sync=True)
    cancelled = traitlets.Int(0).tag(sync=True)
    # The answer to the last question "why?".
    answer = traitlets.Dict().tag(sync=True)
    # The place to go to: a time in microseconds, and the number of steps back from the last step at that
    # time.
    place = traitlets.Dict().tag(sync=True)
    # The actions that a fork can begin with, as pairs of key and label.
    actions = traitlets.List().tag(sync=True)
    # Whether the picture plays from its start as soon as it is displayed.
    plays = traitlets.Bool(False).tag(sync=True)
    asking = traitlets.Dict().tag(sync=True)
    # The handles in the picture: setting, minimum, maximum and step, in the unit of its slider.
    handles = traitlets.List().tag(sync=True)
    # The buttons to offer: compare, token, html; and pinned during a comparison.
    offers = traitlets.List().tag(sync=True)
    # The token that the reader last requested.
    token = traitlets.Unicode("").tag(sync=True)
    # The address of the site whose first page opens links with a token (share.py).
    site = traitlets.Unicode().tag(sync=True)
    # The time shown, in microseconds, for the charts that follow the scene. Only the browser sets it.
    cursor = traitlets.Int(-1).tag(sync=True)
    # Whether the picture follows a running server (qflow serve).
    is_followed = traitlets.Bool(False).tag(sync=True)

    def __init__(self, picture: Picture | Comparison | None = None) -> None:
        super().__init__(site=site_address())
        if picture is not None:
            self.show(picture, 1)

    def show(self, picture: Picture | Comparison, run: int, *, is_whole: bool = True) -> bool:
        """Show the picture of run number `run`, unless a later or more complete one is shown already."""
        if run < self.run or (run == self.run and self.is_whole):
            return False
        with self.hold_sync():
            self.pictures = payload_of(picture)
            self.is_whole, self.run = is_whole, run
        return True

    def __repr__(self) -> str:
        counts = ", ".join(str(picture["count"]) for picture in self.pictures) or "0"
        return f"Scene(run={self.run}, frames={counts})"


class LinkedChart(anywidget.AnyWidget):
    """The widget of a chart that follows a scene; the attribute ``chart`` is the chart that it shows."""

    _esm = join_modules("chart.js")
    _css = read_styles(*STYLES)

    # The chart as plotly's JSON, and a still picture of it for a page that cannot load plotly.js.
    figure = traitlets.Unicode("").tag(sync=True)
    drawing = traitlets.Unicode("").tag(sync=True)
    about = traitlets.Unicode("").tag(sync=True)
    dark = traitlets.Dict(DARK).tag(sync=True)
    # Whether the x axis is the time of the run, so that the chart can show the cursor.
    has_time = traitlets.Bool(True).tag(sync=True)
    cursor_of = traitlets.Instance(Scene).tag(sync=True, **widgets.widget_serialization)

    def __init__(self, make: Callable[..., Chart], picture: Picture, scene: Scene, **options: Any) -> None:
        self._make = lambda shown: make(shown, **options)
        super().__init__(cursor_of=scene)
        self.show(picture)
        self.on_msg(self._receive)

    def show(self, picture: Picture | Comparison) -> None:
        """Draw the chart of another picture, or of the last picture of a comparison."""
        if isinstance(picture, Comparison):
            picture = list(picture.pictures.values())[-1]
        self.chart: Chart = self._make(picture)
        figure = self.chart.figure
        with self.hold_sync():
            self.has_time = self.chart.has_time
            self.drawing = self.chart.svg
            self.about = " ".join(self.chart.claims)
            self.figure = str(figure.to_json())

    def _receive(self, _: object, content: dict[str, Any], __: object) -> None:
        if content.get("ask") != "plotly":
            return
        try:
            self.send({"script": "plotly"}, buffers=[_plotly_script()])
        except OSError:
            self.send({"missing": _MISSING})

    def __repr__(self) -> str:
        return repr(self.chart)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        # A notebook without a kernel shows the still picture.
        data, metadata = super()._repr_mimebundle_(**kwargs)
        return {**data, "image/svg+xml": self.drawing, "text/plain": repr(self)}, metadata


@cache
def _plotly_script() -> bytes:
    """Return plotly.js compressed by gzip, a third of its size, to send to a page."""
    script = files("plotly") / "package_data" / "plotly.min.js"
    return gzip.compress(script.read_bytes(), 6, mtime=0)
