"""Scene: the widget that draws pictures, and charts that share its cursor.

The browser gets each run once, as numbers; it draws them and decides nothing. What a reader asks of it comes
back as a message, which :class:`qflow.labs.lab.Lab` answers.

Chart and scene meet in the browser, so a moving cursor costs the kernel nothing. The page fetches plotly.js
once, from the plotly that is installed beside the kernel; no other server is asked.
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
    """The scene of one picture, or of several side by side; without one, it is empty."""

    _esm = join_modules("scene.js")
    _css = read_styles(*STYLES)

    # The number of the run that is drawn only grows: one that took longer is never drawn over a later one.
    run = traitlets.Int(0).tag(sync=True)
    # Whether that run has ended; if not, its beginning is drawn, and the whole one follows.
    is_whole = traitlets.Bool(True)
    pictures = traitlets.List().tag(sync=True)
    # The text of a banner above the picture.
    refusal = traitlets.Unicode("").tag(sync=True)
    # The number of a run that takes long, and the part of it that is done; the one not to wait for any more.
    running = traitlets.Int(0).tag(sync=True)
    progress = traitlets.Float(0.0).tag(sync=True)
    cancelled = traitlets.Int(0).tag(sync=True)
    # The answer to the last question why.
    answer = traitlets.Dict().tag(sync=True)
    # The place to go to: time in microseconds, and the number of steps back from the last of that time.
    place = traitlets.Dict().tag(sync=True)
    # The actions that a fork can begin with, as pairs of key and label.
    actions = traitlets.List().tag(sync=True)
    # Whether the first picture plays by itself, from its start.
    plays = traitlets.Bool(False).tag(sync=True)
    asking = traitlets.Dict().tag(sync=True)
    # The handles on the picture: setting, least, most and step, in the numbers of its slider.
    handles = traitlets.List().tag(sync=True)
    # Further requests offered: compare, token, html; and pinned while comparing.
    offers = traitlets.List().tag(sync=True)
    # The last token asked for.
    token = traitlets.Unicode("").tag(sync=True)
    # The address of the site whose first page opens a link (share.py).
    site = traitlets.Unicode().tag(sync=True)
    # The instant shown, in microseconds, for charts beside the scene; only the browser sets it, here it is
    # -1.
    cursor = traitlets.Int(-1).tag(sync=True)
    # Whether it follows a broker that serves.
    is_followed = traitlets.Bool(False).tag(sync=True)

    def __init__(self, picture: Picture | Comparison | None = None) -> None:
        super().__init__(site=site_address())
        if picture is not None:
            self.show(picture, 1)

    def show(self, picture: Picture | Comparison, run: int, *, is_whole: bool = True) -> bool:
        """Show the picture of a run, given by its number, unless a later or more complete one is drawn."""
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
    """A chart that follows a scene; its ``chart`` is the visible one, to save or export."""

    _esm = join_modules("chart.js")
    _css = read_styles(*STYLES)

    # The chart as plotly's JSON, and its still, for a page that cannot have plotly.js.
    figure = traitlets.Unicode("").tag(sync=True)
    drawing = traitlets.Unicode("").tag(sync=True)
    about = traitlets.Unicode("").tag(sync=True)
    dark = traitlets.Dict(DARK).tag(sync=True)
    # Whether the chart's axis is the run's time, so that a cursor makes sense.
    has_time = traitlets.Bool(True).tag(sync=True)
    cursor_of = traitlets.Instance(Scene).tag(sync=True, **widgets.widget_serialization)

    def __init__(self, make: Callable[..., Chart], picture: Picture, scene: Scene, **options: Any) -> None:
        self._make = lambda shown: make(shown, **options)
        super().__init__(cursor_of=scene)
        self.show(picture)
        self.on_msg(self._receive)

    def show(self, picture: Picture | Comparison) -> None:
        """Draw the chart of another picture, or of the last of several side by side."""
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
        # A notebook without a kernel shows the still.
        data, metadata = super()._repr_mimebundle_(**kwargs)
        return {**data, "image/svg+xml": self.drawing, "text/plain": repr(self)}, metadata


@cache
def _plotly_script() -> bytes:
    """Return plotly.js gzipped, a third of its size, as a page gets it."""
    script = files("plotly") / "package_data" / "plotly.min.js"
    return gzip.compress(script.read_bytes(), 6, mtime=0)
