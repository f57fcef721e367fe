"""The map of a lab: a grid of stop thresholds and capacities with a run in each cell.

A lab shows one run; its map is one level of abstraction higher, and shows the runs for all combinations of
two settings (:mod:`qflow.design.settings_map`). A click on a cell moves the sliders of the lab to its
settings. The runs use all cores. A coarse grid of cells runs first, then the cells in between; the results
are drawn several times a second. When another slider of the lab moves, the runs are abandoned, and those of
the new map start.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any

import anywidget
import traitlets

from qflow.design.settings_map import SettingsMap
from qflow.labs.scripts import STYLES, join_modules, read_styles

_PAUSE, _INTERVAL = 0.02, 0.15
"""Seconds between two checks for results, and between two drawings."""


class MapWidget(anywidget.AnyWidget):
    """The widget that draws a map of settings and starts the runs that fill it."""

    _esm = join_modules("map.js")
    _css = read_styles(*STYLES, "map.css")

    # Both axes, the cells in which the bound is within the limit, and the drawing that the browser fills.
    axes = traitlets.Dict().tag(sync=True)
    # The results of the runs, and the depth over time in each.
    cells = traitlets.Bytes(b"").tag(sync=True)
    courses = traitlets.Bytes(b"").tag(sync=True)
    # The stop threshold and capacity of the lab; the cell that was clicked.
    dot = traitlets.List([0, 0]).tag(sync=True)
    chosen = traitlets.Dict().tag(sync=True)
    words = traitlets.List().tag(sync=True)

    def __init__(self, lab: Any, plan: Callable[[], SettingsMap]) -> None:
        super().__init__()
        self._lab, self._plan = lab, plan
        self._started = 0
        self._task: asyncio.Task[None] | None = None
        self._is_seen = self._is_moving = False
        self.show(plan())
        self.on_msg(self._receive)
        self.observe(self._follow_click, names="chosen")
        for slider in lab.sliders.values():
            slider.observe(self._follow_slider, names="value")

    @property
    def claims(self) -> tuple[str, ...]:
        """The sentences that state the content of the map."""
        return self.drawn.claims

    def show(self, drawn: SettingsMap) -> None:
        """Show another map: the coarse cells at once, the other cells as their runs finish."""
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
                "drawing": drawn.svg(),
                "phone": drawn.svg(is_phone=True),
            }
            self.dot = [settings[drawn.across.setting], settings[drawn.up.setting]]
            self._draw()
        runs = drawn.runs(drawn.coarse)
        while runs.left:
            for number, found in runs.results(None):
                drawn.found[drawn.coarse[number]] = found
        self._draw()
        if self._is_seen:
            self._run_rest()

    def _follow_click(self, _: object) -> None:
        stop, capacity = self.drawn.across.setting, self.drawn.up.setting
        chosen = {stop: self.chosen["stop"], capacity: self.chosen["capacity"]}
        if "resume" in self._lab.sliders:
            # A cell has the resume threshold of the lab, or its own stop threshold if that is less (FC-05).
            chosen["resume"] = min(self.drawn.settings["resume"], chosen[stop])
        self._is_moving = True
        try:
            self._lab.move(**chosen)
        finally:
            self._is_moving = False
        self.dot = [chosen[stop], chosen[capacity]]

    def _follow_slider(self, change: Any) -> None:
        sides = [self.drawn.across.setting, self.drawn.up.setting]
        if self._is_moving:
            return
        if change.owner in [self._lab.sliders[side] for side in sides]:
            self.dot = [self._lab.settings[side] for side in sides]
        elif not self._lab.scene.refusal:
            self.show(self._plan())

    def _receive(self, _: object, content: dict[str, Any], __: object) -> None:
        # Until a browser shows the map, only the coarse cells are run, as when a chapter is built.
        if content.get("ask") == "runs" and not self._is_seen:
            self._is_seen = True
            self._run_rest()

    def _run_rest(self) -> None:
        rest = [place for place in self.drawn.order() if place not in self.drawn.found]
        self._task = asyncio.get_running_loop().create_task(self._go_on(rest, self._started))

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
        except Exception as error:  # a reader who only moved a slider must not be shown a traceback
            self.words = [*self.drawn.claims, f"The runs ended early ({type(error).__name__}: {error})."]
        finally:
            runs.close()

    def _draw(self) -> None:
        with self.hold_sync():
            self.courses = self.drawn.courses()
            self.cells = self.drawn.pack()
            self.words = list(self.drawn.claims)

    def close(self) -> None:
        """Abandon the runs, and close the widget."""
        self._started += 1
        super().close()

    def __repr__(self) -> str:
        return repr(self.drawn)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        # A notebook without a kernel shows the drawing as of the time when the widget was displayed.
        data, metadata = super()._repr_mimebundle_(**kwargs)
        drawing = {"image/svg+xml": self.drawn.svg(), "text/plain": repr(self)}
        # A page of the site shows this one where it is narrow.
        return {**data, **drawing}, {**metadata, "image/svg+xml": {"phone": self.drawn.svg(is_phone=True)}}
