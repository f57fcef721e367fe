"""SliderLab: the base of every lab with sliders, a run and a picture.

A run begins when a slider is released, and already while it rests under the pointer: most are released
where they rest, and their picture is then ready. A run has the kernel to itself for half a second; then it
continues between other messages, with its progress and a way to cancel it, and makes room for a later run at
once. Of a run that takes longer, the instant that the reader looks at is drawn first.

Runs are counted. A picture is drawn only if no later run is drawn already.

*Prose* are sentences beside a lab whose numbers are its sliders, dragged sideways or moved with the arrow
keys; a term that is pointed at lights its marks up in the picture, and the other way round. Both are drawn in
the browser (``static/prose.js``), which asks the lab's scene what a handle on the picture would ask.
"""

from __future__ import annotations

import asyncio
import gc
import html
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from inspect import GEN_CREATED, getgeneratorstate
from typing import Any

import anywidget
import ipywidgets as widgets
import traitlets

from qflow.design.settings_map import SettingsMap, plan_map
from qflow.kit import RefusalError
from qflow.labs.knobs import Knob
from qflow.labs.lab import Lab
from qflow.labs.map_widget import MapWidget
from qflow.labs.picture import Comparison, Picture, compare
from qflow.labs.running import SoFar, Steps, finish_steps, refusal_text, running_loop
from qflow.labs.scene import Scene
from qflow.labs.scripts import STYLES, join_modules, read_styles
from qflow.workload import Workload
from qflow.workload.stage import pause_collector

PATIENCE = 0.5
"""Seconds a run may block the kernel; after that it continues between other messages, with progress."""

WORTHWHILE = 0.03
"""Seconds a run must still need for its beginning to be drawn first."""

_BREATH, _PAUSE = 0.04, 0.002
_INTERVAL = 0.2
_TIDYING = 10
"""Runs between calls of the collector: their garbage lies in a generation that it rarely visits by itself."""

_HANDLES = (
    *("stop", "resume", "limit", "capacity", "capacity_1", "capacity_2", "prefetch"),
    *("stop_size", "resume_size", "size"),
)
"""The settings that are levels of a tank, or a client's window: they can be dragged on the picture."""

_KEPT = "The picture below is that of the last settings it accepted."

Shown = Picture | Comparison


class SliderLab(Lab):
    """A lab of sliders, a picture, and its claims in words.

    Parameters:
        knobs, settings: The sliders, and where they begin.
        steps: Called with the settings by name; runs, and returns the picture.
        name: The name that opens this lab again: one of :data:`qflow.labs.share.LABS`.
        more: Further arguments of `steps`, which no slider sets.
        describe: Returns the workload of some settings; without it, the lab has no map.

    Attributes:
        sliders: Setting to slider.
        looked_at: The instant that is looked at, in microseconds; a run that takes longer shows it first.
    """

    def __init__(
        self,
        knobs: Sequence[Knob],
        settings: Mapping[str, float],
        steps: Callable[..., Steps[Shown]],
        *,
        name: str = "",
        more: Mapping[str, Any] | None = None,
        describe: Callable[..., Workload] | None = None,
    ) -> None:
        self._knobs = tuple(knobs)
        self._steps = steps
        self._describe = describe
        self._more = dict(more or {})
        self._started, self._are_moving = 1, False
        self._task: asyncio.Task[None] | None = None
        self._pinned: Picture | None = None
        self._begun = self._shown = 0.0
        self._asked: dict[str, Any] = {}
        self.name = name
        self.sliders = {knob.setting: slider_of(knob, settings[knob.setting]) for knob in knobs}
        panel = widgets.Box(list(self.sliders.values())).add_class("qf-panel")
        self._drawn = self.settings
        first = finish_steps(steps(**self._drawn))
        super().__init__(first, [panel])
        self.looked_at = self.first.frames.at(self.first.frames.most_telling())["time"]
        self.scene.on_msg(self._receive)
        for slider in self.sliders.values():
            slider.observe(self._on_move, names="value")

    @property
    def settings(self) -> dict[str, Any]:
        """The values of the sliders, and the settings without a slider."""
        chosen = {knob.setting: self.sliders[knob.setting].value * knob.unit for knob in self._knobs}
        return {**self._more, **chosen}

    @property
    def shown_settings(self) -> dict[str, Any]:
        """The picture's settings; sliders may have moved on to settings that the broker refuses."""
        return self._drawn

    def move(self, **settings: float) -> None:
        """Move several sliders, each within its range, and run once.

        >>> from qflow.labs import capacity_lab
        >>> lab = capacity_lab(messages=60)
        >>> lab.move(stop=20, resume=10); lab.scene.run, lab.settings["stop"]
        (2, 20)
        """
        self._are_moving = True
        for knob in self._knobs:
            if knob.setting in settings:
                self.sliders[knob.setting].value = round(settings[knob.setting] / knob.unit)
        self._are_moving = False
        self._on_move(None)

    def map(self, **options: Any) -> MapWidget:
        """Return the map of this lab: a run for each stop and capacity; a click moves the lab there.

        Parameters:
            options: `stop`, `capacity`: the sliders on its two sides, if not the first; `cells`: how many
                rows and columns at most, 30; `messages`: how many each run sends, 2,000.

        Raises:
            RefusalError: If the lab has no such sliders.

        >>> from qflow.labs import capacity_lab
        >>> print(capacity_lab(messages=60).map(cells=3, messages=100).claims[0])
        The law: where stop + capacities is at most the limit, 180, no message can be refused (CAP-11). It \
holds for 3 of the 9 settings.
        """
        if self._describe is None:
            raise RefusalError("this lab has no map: its runs are not described by settings alone")
        if isinstance(self.picture, Comparison) and self._pinned is None:
            raise RefusalError("this lab has no map: it shows several runs beside each other")
        return MapWidget(self, partial(self._plan, self._describe, **options))

    def _plan(
        self, describe: Callable[..., Workload], stop: str = "stop", capacity: str = "", **size: int
    ) -> SettingsMap:
        """Return the map for the present settings."""
        capacity = capacity or next(
            (name for name in self.sliders if name.startswith("capacity")), "capacity"
        )
        for setting in (stop, capacity):
            if setting not in self.sliders:
                sliders = ", ".join(self.sliders)
                raise RefusalError(f"this lab has no slider {setting!r}, so it has no map; it has {sliders}")
        most = {setting: int(self.sliders[setting].max) for setting in (stop, capacity)}
        label = "" if capacity == "capacity" else self.sliders[capacity].description
        settings = {name: value for name, value in self.settings.items() if name in self.sliders}
        settings[stop] = max(1, settings[stop])
        return plan_map(describe, settings, stop, capacity, most=most, label=label, **size)

    def prose(self, text: str) -> Prose:
        """Return sentences with numbers that are handles of the lab.

        Parameters:
            text: ``{stop}`` is the number of a handle; ``[the gate](queue:orders)`` a term and what it names.

        Raises:
            RefusalError: If the lab has no such handle.

        >>> from qflow.labs import flow_lab
        >>> flow_lab(messages=60, stop=20, resume=10).prose("Above {stop}, [orders](queue:orders) is ON.")
        Above 20, orders is ON.
        """
        return Prose(text, self._handles(), self.scene)

    def _handles(self) -> dict[str, widgets.IntSlider]:
        return {setting: slider for setting, slider in self.sliders.items() if setting in _HANDLES}

    def _set(self, setting: str, value: int) -> None:
        super()._set(setting, value)
        # A handle that came back to where it was has not moved its slider.
        self._on_move(None)

    def _on_move(self, _: object) -> None:
        # A slider that rested here before its release has its picture already, or soon.
        if not self._are_moving and self.settings != self._asked:
            self.run_again()

    def run_again(self) -> None:
        """Run with the present settings, and show the picture unless a later run begins before."""
        self._run(self.settings, PATIENCE)

    def _on_rest(self, setting: str, value: int) -> None:
        """Run for a slider that is still held: most come to rest where they are released."""
        slider = self.sliders[setting]
        knob = next(knob for knob in self._knobs if knob.setting == setting)
        settings = {**self.settings, setting: min(slider.max, max(slider.min, value)) * knob.unit}
        if settings != self._asked:
            # It may move on at once, which must be heard in between.
            self._run(settings, _BREATH)

    def _run(self, settings: dict[str, Any], patience: float) -> None:
        number = self._started = max(self._started, self.scene.run) + 1
        self._asked = settings
        self._alone = None
        self._begun = self._shown = time.monotonic()
        self.scene.progress = 0.0
        # The collector can wait until the picture is on its way: it would take a third of the time.
        with pause_collector():
            self._begin(number, patience)
        # Where nothing waits for the kernel, Python's own ways will do.
        if number % _TIDYING == 0 and (loop := running_loop()):
            loop.call_later(1, gc.collect)

    def _begin(self, number: int, patience: float) -> None:
        try:
            steps = self._steps(**self._asked)
        except Exception as error:  # a reader who only moved a slider is never shown a traceback
            self._refuse(error, number)
            return
        # Outside of Jupyter nothing else waits for the kernel: run to the end.
        while not self._advance(steps, number, patience):
            if loop := running_loop():
                self._task = loop.create_task(self._go_on(steps, number))
                return

    async def _go_on(self, steps: Steps[Shown], number: int) -> None:
        """Continue the run in slices, so that a moving slider, or Cancel, is noticed in between."""
        while True:
            # A message passes through several hands in the kernel: a pause of no time would let it pass one.
            await asyncio.sleep(_PAUSE)
            if number != self._started:
                return
            if self.scene.cancelled >= number:
                self.scene.progress = 0.0
                self.scene.refusal = "Cancelled. The picture below is that of the settings before."
                self._restore_whole_run(number)
                return
            if self._advance(steps, number, _BREATH):
                return

    def _advance(self, steps: Steps[Shown], number: int, most: float) -> bool:
        """Take steps for some seconds; return whether the run has ended or failed."""
        until = time.monotonic() + most
        try:
            while time.monotonic() < until:
                is_new = getgeneratorstate(steps) == GEN_CREATED
                part = steps.send(None if is_new else self.looked_at)
                # Once its beginning is drawn, the next move of a slider matters more than the rest.
                if self._draw_so_far(part, number):
                    break
                self._show_progress(part, number)
        except StopIteration as end:
            self.scene.refusal, self.scene.progress = "", 0.0
            self._drawn = self._asked
            before = self.picture
            self.show(self._beside(end.value), number)
            _send_out()
            # To forget a long run takes longer than to send the next.
            del before
            return True
        except Exception as error:  # a reader who only moved a slider is never shown a traceback
            self._refuse(error, number)
            return True
        return False

    def _draw_so_far(self, part: float, number: int) -> bool:
        """Draw the finished part of a long run, once it reaches the visible instant."""
        if not isinstance(part, SoFar) or part.time <= self.looked_at:
            return False
        # The run before says how much to expect of this one.
        known, ahead = part.frames, self.first.frames.count - part.frames
        is_near = (time.monotonic() - self._begun) * ahead < WORTHWHILE * known
        if self.scene.run >= number or is_near:
            return False
        self.scene.refusal = ""
        self.scene.show(self._beside(part.draw(self.first.frames.topology.end)), number, is_whole=False)
        _send_out()
        return True

    def _show_progress(self, part: float, number: int) -> None:
        """Show the progress of a long run from time to time."""
        now = time.monotonic()
        if now - self._begun > PATIENCE and now - self._shown > _INTERVAL:
            self._shown = now
            with self.scene.hold_sync():
                self.scene.running, self.scene.progress = number, max(0.01, float(part))

    def _receive(self, _: object, content: dict[str, Any], __: object) -> None:
        if content.get("ask") == "look":
            self.looked_at = int(content["time"])
        elif content.get("ask") == "rest" and content["setting"] in self.sliders:
            self._on_rest(content["setting"], int(content["value"]))

    def _refuse(self, error: Exception, number: int) -> None:
        self.scene.progress = 0.0
        self.scene.refusal = f"{refusal_text(error)}\n{_KEPT}"
        self._restore_whole_run(number)

    def _restore_whole_run(self, number: int) -> None:
        """Draw the last whole run again in place of the beginning of a run that never ended."""
        if not self.scene.is_whole:
            self.scene.show(self.picture, number)

    # Two runs side by side

    @property
    def can_compare(self) -> bool:
        """Whether :meth:`compare` is available: here, with a run to pin or to unpin."""
        return self._pinned is not None or super().can_compare or isinstance(self.picture, Picture)

    def compare(self) -> None:
        """Pin the present picture beside every later one; or unpin it."""
        if self._alone is not None:
            super().compare()
            return
        shown = self.first
        self._pinned = shown if self._pinned is None else None
        self.run_again()

    def _beside(self, shown: Shown) -> Shown:
        if self._pinned is None or isinstance(shown, Comparison):
            return shown
        return compare(self._pinned, shown, ("pinned", "now"))


def _send_out() -> None:
    """Send pending messages from a separate thread, as compiled code would block them."""
    time.sleep(0.001)


def slider_of(knob: Knob, value: float) -> widgets.IntSlider:
    """Return a knob's slider at a value in the setting's unit; its range grows to include the value."""
    value = round(value / knob.unit)
    slider = widgets.IntSlider(
        value=value,
        min=min(knob.low, value),
        max=max(knob.high, value),
        step=knob.step,
        description=knob.label,
        # The browser sends the value on release of the slider, not at every pixel on the way.
        continuous_update=False,
        tooltip=knob.tooltip,
        description_allow_html=False,
        style={"description_width": "initial"},
        layout={"width": "auto"},
    )
    return slider.add_class("qf-slider").add_class(f"qf-slider-{knob.setting}")


# Prose

_PART = re.compile(r"\{(\w+)\}|\[([^\]]+)\]\((\w+:[\w.-]+)\)")
"""A number, ``{stop}``; or a term with its place in the picture, ``[the gate](queue:orders)``."""


class Prose(anywidget.AnyWidget):
    """Sentences with numbers that can be dragged, and terms that light up; see :meth:`.SliderLab.prose`."""

    _esm = join_modules("prose.js")
    _css = read_styles(*STYLES)

    # Texts, [setting] and [term, subject], in their order.
    parts = traitlets.List().tag(sync=True)
    values = traitlets.Dict().tag(sync=True)
    # Least, most and step of each number.
    bounds = traitlets.Dict().tag(sync=True)
    scene = traitlets.Instance(Scene).tag(sync=True, **widgets.widget_serialization)

    def __init__(self, text: str, sliders: Mapping[str, widgets.IntSlider], scene: Scene) -> None:
        parts = list(_parts_of(text))
        named = {part[0]: None for part in parts if isinstance(part, list) and len(part) == 1}
        if unknown := sorted(set(named) - set(sliders)):
            raise RefusalError(f"this lab has no handle {unknown[0]!r}; it has {', '.join(sliders)}")
        bounds = {name: [sliders[name].min, sliders[name].max, sliders[name].step] for name in named}
        super().__init__(parts=parts, bounds=bounds, scene=scene)
        self._sliders = {name: sliders[name] for name in named}
        for slider in self._sliders.values():
            slider.observe(self._follow, names="value")
        self._follow(None)

    def _follow(self, _: object) -> None:
        self.values = {name: slider.value for name, slider in self._sliders.items()}

    def _text(self, number: Callable[[str], str], term: Callable[[str], str]) -> str:
        def say(part: str | list[str]) -> str:
            if isinstance(part, str):
                return term(part)
            return term(part[0]) if len(part) > 1 else number(str(self.values[part[0]]))

        return "".join(map(say, self.parts))

    def __repr__(self) -> str:
        return self._text(str, str)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        # Without a kernel it is a text to read.
        data, metadata = super()._repr_mimebundle_(**kwargs)
        text = self._text("<b>{}</b>".format, html.escape)
        return {**data, "text/html": f"<p>{text}</p>", "text/plain": repr(self)}, metadata


def _parts_of(text: str) -> Iterator[str | list[str]]:
    """Yield the parts of a text."""
    end = 0
    for found in _PART.finditer(text):
        yield text[end : found.start()]
        setting, term, subject = found.groups()
        yield [setting] if setting else [term, subject]
        end = found.end()
    yield text[end:]
