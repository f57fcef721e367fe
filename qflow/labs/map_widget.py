"""map_lab: stop × capacity as a map, a run in each cell; a click moves a lab there.

The ladder of abstraction, one step up: a lab shows one run, its map shows the runs of all its neighbours
(:mod:`qflow.design.settings_map`). The runs are on all cores, coarse first; what has come is drawn several
times a second. When another slider of the lab moves, they are dropped, and those of the new map begin.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import anywidget
import ipywidgets as widgets
import traitlets

from qflow.design.settings_map import CELLS, MESSAGES, Describe, SettingsMap, defaults_of, drawn_up
from qflow.kit import RefusalError
from qflow.labs.html_export import STYLES, read_static

if TYPE_CHECKING:
    from qflow.labs.slider_lab import SliderLab

_PAUSE, _INTERVAL = 0.02, 0.15
"""Seconds between two looks for results, and between two drawings."""


class MapWidget(anywidget.AnyWidget):
    """The drawing of a map of settings, and the runs that fill it.

    Attributes
    ----------
    drawn
        The map: what is known of it.
    axes
        What both sides are, and which cells are safe by the law.
    cells, courses
        What the runs came to, and each depth over time, for the browser.
    dot
        Where the lab is: stop and capacity.
    chosen
        The cell that was clicked, or chosen with Enter.
    words
        What the map shows, in sentences.
    """

    _esm = read_static("svg.js", "map.js")
    _css = read_static(*STYLES, "map.css")

    axes = traitlets.Dict().tag(sync=True)
    cells = traitlets.Bytes(b"").tag(sync=True)
    courses = traitlets.Bytes(b"").tag(sync=True)
    dot = traitlets.List([0, 0]).tag(sync=True)
    chosen = traitlets.Dict().tag(sync=True)
    words = traitlets.List().tag(sync=True)

    def __init__(self, drawn: SettingsMap) -> None:
        super().__init__()
        self._started = 0
        self._task: asyncio.Task[None] | None = None
        self.show(drawn)

    @property
    def claims(self) -> tuple[str, ...]:
        """What the map shows, in sentences."""
        return self.drawn.claims

    def show(self, drawn: SettingsMap) -> None:
        """Show another map: its coarse cells at once, the others as they come."""
        self._started += 1
        self.drawn = drawn
        across, up = ({"label": axis.label, "values": list(axis.values)} for axis in (drawn.across, drawn.up))
        settings = drawn.settings
        with self.hold_sync():
            self.axes = {
                "across": across,
                "up": up,
                "safe": drawn.is_safe,
                "limit": drawn.limit,
                "producers": drawn.producers,
            }
            self.dot = [settings[drawn.across.setting], settings[drawn.up.setting]]
            self._draw()
        self._fill(drawn.coarse)
        self._draw()
        rest = [place for place in drawn.order() if place not in drawn.found]
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            # Outside of Jupyter nothing is drawn later: the coarse map stays, until finish() is called.
            return
        self._task = loop.create_task(self._go_on(rest, self._started))

    def finish(self) -> None:
        """Run what is not known yet, and wait for it."""
        self._started += 1
        self._fill([place for place in self.drawn.order() if place not in self.drawn.found])
        self._draw()

    def _fill(self, places: Sequence[int]) -> None:
        runs = self.drawn.runs(places)
        while runs.left:
            for number, found in runs.results(None):
                self.drawn.found[places[number]] = found

    async def _go_on(self, places: Sequence[int], number: int) -> None:
        drawn, runs, drawn_at = self.drawn, self.drawn.runs(places), 0.0
        try:
            while runs.left:
                await asyncio.sleep(_PAUSE)
                if number != self._started:
                    return
                for one, found in runs.results():
                    drawn.found[places[one]] = found
                if time.monotonic() - drawn_at > _INTERVAL or not runs.left:
                    drawn_at = time.monotonic()
                    self._draw()
        except Exception as error:  # a reader who only moved a slider is never shown a traceback
            self.words = [*self.drawn.claims, f"The runs ended early ({type(error).__name__}: {error})."]
        finally:
            runs.close()

    def _draw(self) -> None:
        with self.hold_sync():
            self.courses = self.drawn.courses()
            self.cells = self.drawn.packed()
            self.words = list(self.drawn.claims)

    def close(self) -> None:
        """Drop the runs, and free the widget."""
        self._started += 1
        super().close()

    def __repr__(self) -> str:
        return repr(self.drawn)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        # A notebook without a kernel shows the drawing of what was known when it was displayed.
        data, metadata = super()._repr_mimebundle_(**kwargs)
        return {**data, "image/svg+xml": self.drawn.svg(), "text/plain": repr(self)}, metadata


class MapLab(widgets.VBox):
    """A lab and its map, one above the other.

    Attributes
    ----------
    map
        The map.
    lab
        The lab that a click in the map moves.
    """

    def __init__(self, lab: SliderLab, **options: Any) -> None:
        self.lab, self.map = lab, lab.map(**options)
        super().__init__([self.map, lab])
        self.add_class("qflow-map-lab")

    @property
    def claims(self) -> tuple[str, ...]:
        """What the map shows, in sentences."""
        return self.map.claims

    def __repr__(self) -> str:
        return repr(self.map)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        data: dict[str, Any] = super()._repr_mimebundle_(**kwargs)
        return {**data, "image/svg+xml": self.map.drawn.svg(), "text/plain": repr(self)}


def map_of(
    lab: SliderLab,
    describe: Describe,
    *,
    stop: str = "stop",
    capacity: str = "",
    cells: int = CELLS,
    messages: int = MESSAGES,
) -> MapWidget:
    """Return the map of a lab; see :meth:`qflow.labs.slider_lab.SliderLab.map`."""
    known = set(defaults_of(describe)) & set(lab.sliders)
    capacity = capacity or next((name for name in lab.sliders if name.startswith("capacity")), "capacity")
    for setting in (stop, capacity):
        if setting not in known:
            raise RefusalError(
                f"this lab has no slider {setting!r}, so it has no map; it has {', '.join(lab.sliders)}"
            )
    most = {setting: int(lab.sliders[setting].max) for setting in (stop, capacity)}

    def plan() -> SettingsMap:
        settings = {name: value for name, value in lab.settings.items() if name in known}
        settings[stop] = max(1, settings[stop])
        label = "" if capacity == "capacity" else lab.sliders[capacity].description
        return drawn_up(describe, settings, stop, capacity, cells, messages, most, label)

    made = MapWidget(plan())
    _follow(lab, made, plan, (stop, capacity))
    return made


def _follow(lab: SliderLab, made: MapWidget, plan: Callable[[], SettingsMap], axes: tuple[str, str]) -> None:
    """Let a map and its lab hear of each other."""
    moves = {"is_own": False}

    def clicked(_: object) -> None:
        stop, capacity = made.chosen["stop"], made.chosen["capacity"]
        chosen = {axes[0]: stop, axes[1]: capacity}
        if "resume" in lab.sliders:
            # The map's cell has the resume level of its lab, or its stop where that is less (FC-05).
            chosen["resume"] = min(made.drawn.settings["resume"], stop)
        moves["is_own"] = True
        try:
            lab.move(**chosen)
        finally:
            moves["is_own"] = False
        made.dot = [stop, capacity]

    def moved(change: Any) -> None:
        if moves["is_own"]:
            return
        if change.owner in (lab.sliders[axes[0]], lab.sliders[axes[1]]):
            made.dot = [lab.settings[axes[0]], lab.settings[axes[1]]]
        elif not lab.scene.refusal:
            made.show(plan())

    made.observe(clicked, names="chosen")
    for slider in lab.sliders.values():
        slider.observe(moved, names="value")


def map_lab(**settings: float) -> MapLab:
    """Open the map of the capacity lab: which stops and capacities are safe, and what becomes of the others.

    Parameters
    ----------
    **settings
        Where the lab's sliders begin, as in :func:`qflow.labs.capacity_workload`; `cells`, `messages`: rows
        and columns at most, and messages a run.

    Returns
    -------
    MapLab
        A widget. Without widgets, use :func:`qflow.design.settings_map`.

    Raises
    ------
    AmqpException, WorkloadError, TypeError
        As :func:`qflow.labs.capacity_lab`.

    Examples
    --------
    >>> lab = map_lab(cells=3, messages=100)
    >>> lab.map.chosen = {"stop": 160, "capacity": 20, "number": 1}
    >>> lab.lab.settings["stop"], lab.lab.settings["capacity_1"], lab.map.dot
    (160, 20, [160, 20])
    """
    from qflow.labs.experiments import capacity_lab

    options = {name: int(settings.pop(name)) for name in ("cells", "messages") if name in settings}
    return MapLab(capacity_lab(**settings), **options)  # type: ignore[arg-type]
