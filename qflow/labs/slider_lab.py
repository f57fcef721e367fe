"""SliderLab: the base of every lab in which sliders set the parameters of a run.

A run starts when a slider is released, and also while a held slider rests: most sliders are released where
they rest, and the picture is then ready. For its first half second a run blocks the kernel; then it continues
between other messages, shows its progress and can be cancelled, and is abandoned as soon as a later run
starts. If a run takes longer, the instant that the reader looks at is drawn first.

Runs are numbered. A picture is drawn only if no later run has been drawn.

*Prose* is text beside a lab whose numbers act as its sliders: they can be dragged sideways or changed with
the arrow keys. Pointing at a term in the text highlights its marks in the picture, and the reverse. The text
is drawn in the browser (``static/prose.js``), and sends the same messages as a handle in the picture.
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
"""Seconds for which a run may block the kernel; then it continues between other messages."""

WORTHWHILE = 0.03
"""The seconds that a run must still need for its finished part to be drawn first."""

_BREATH, _PAUSE = 0.04, 0.002
_INTERVAL = 0.2
_TIDYING = 10
"""Runs between calls of the garbage collector, which by itself would rarely examine the garbage of runs."""

_HANDLES = (
    *("stop", "resume", "limit", "capacity", "capacity_1", "capacity_2", "prefetch"),
    *("stop_size", "resume_size", "size"),
)
"""The settings with a handle in the picture: levels of a tank, and windows of clients."""

_KEPT = "The picture below is that of the last settings it accepted."

Shown = Picture | Comparison


class SliderLab(Lab):
    """A lab with sliders, the picture of a run with their settings, and its claims.

    Parameters:
        knobs: The descriptions of the sliders.
        settings: The initial values of the sliders, by setting.
        steps: A function that takes the settings as keyword arguments, runs in steps, and returns the picture
            or comparison.
        name: The name by which a token reopens the lab, one of :data:`qflow.labs.share.LABS`.
        more: Further arguments of `steps`, for which there are no sliders.
        describe: A function that returns the workload for given settings; without it the lab has no map.

    Attributes:
        sliders: The sliders, keyed by setting.
        looked_at: The time that the reader looks at, in microseconds; a long run draws it first.
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
        """The settings of the picture; the sliders may have later settings, which the broker refused."""
        return self._drawn

    def move(self, **settings: float) -> None:
        """Move several sliders, and run once with all the new settings.

        Parameters:
            **settings: The new values by setting; each slider limits its value to its range.

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
        """Return a map of this lab: a grid of stop thresholds and capacities, with a run in each cell.

        A click on a cell moves the sliders of the lab to its settings.

        Parameters:
            **options: `stop` and `capacity`, the settings on the two axes, by default ``stop`` and the first
                capacity; `cells`, the most rows and columns (30); `messages`, the number of messages of each
                run (2,000).

        Raises:
            RefusalError: If the lab has no such sliders, or shows several runs side by side.

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
        """Return the map for the current settings of the sliders."""
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
        """Return a text whose numbers can be dragged like the handles in the lab's picture.

        Parameters:
            text: The text, in which ``{stop}`` is replaced by the number of that handle, and
                ``[the gate](queue:orders)`` is a term that highlights a part of the picture.

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
        # A handle that was dragged and put back does not change its slider, which then reports nothing.
        self._on_move(None)

    def _on_move(self, _: object) -> None:
        # If the slider rested here before its release, the run was started then.
        if not self._are_moving and self.settings != self._asked:
            self.run_again()

    def run_again(self) -> None:
        """Run with the current settings, and show the picture unless a later run starts before."""
        self._run(self.settings, PATIENCE)

    def _on_rest(self, setting: str, value: int) -> None:
        """Run with the value of a slider that is still held, as most are released where they rest."""
        slider = self.sliders[setting]
        knob = next(knob for knob in self._knobs if knob.setting == setting)
        settings = {**self.settings, setting: min(slider.max, max(slider.min, value)) * knob.unit}
        if settings != self._asked:
            # The slider may move again at once, so the run must soon let other messages in.
            self._run(settings, _BREATH)

    def _run(self, settings: dict[str, Any], patience: float) -> None:
        number = self._started = max(self._started, self.scene.run) + 1
        self._asked = settings
        self._alone = None
        self._begun = self._shown = time.monotonic()
        self.scene.progress = 0.0
        # The garbage collector would take a third of the time, so it waits until the picture is sent.
        with pause_collector():
            self._begin(number, patience)
        # Outside a kernel, Python collects garbage as usual.
        if number % _TIDYING == 0 and (loop := running_loop()):
            loop.call_later(1, gc.collect)

    def _begin(self, number: int, patience: float) -> None:
        try:
            steps = self._steps(**self._asked)
        except Exception as error:  # a reader who only moved a slider must not be shown a traceback
            self._refuse(error, number)
            return
        # Outside Jupyter there are no other messages: the loop runs to the end.
        while not self._advance(steps, number, patience):
            if loop := running_loop():
                self._task = loop.create_task(self._go_on(steps, number))
                return

    async def _go_on(self, steps: Steps[Shown], number: int) -> None:
        """Continue the run in slices, so that messages from sliders or Cancel are processed in between."""
        while True:
            # The kernel handles a message in several callbacks: a pause of 0 would let only one of them run.
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
        """Take steps for at most some seconds; return whether the run has ended or failed."""
        until = time.monotonic() + most
        try:
            while time.monotonic() < until:
                is_new = getgeneratorstate(steps) == GEN_CREATED
                part = steps.send(None if is_new else self.looked_at)
                # After the finished part is drawn, the next move of a slider is more urgent than the rest.
                if self._draw_so_far(part, number):
                    break
                self._show_progress(part, number)
        except StopIteration as end:
            self.scene.refusal, self.scene.progress = "", 0.0
            self._drawn = self._asked
            before = self.picture
            self.show(self._beside(end.value), number)
            _send_out()
            # Freeing a long run takes longer than sending the next picture, so it is done after that.
            del before
            return True
        except Exception as error:  # a reader who only moved a slider must not be shown a traceback
            self._refuse(error, number)
            return True
        return False

    def _draw_so_far(self, part: float, number: int) -> bool:
        """Draw the finished part of a long run if it includes the visible instant; return whether it did."""
        if not isinstance(part, SoFar) or part.time <= self.looked_at:
            return False
        # The number of frames of the previous run is the estimate for this one.
        known, ahead = part.frames, self.first.frames.count - part.frames
        is_near = (time.monotonic() - self._begun) * ahead < WORTHWHILE * known
        if self.scene.run >= number or is_near:
            return False
        self.scene.refusal = ""
        self.scene.show(self._beside(part.draw(self.first.frames.topology.end)), number, is_whole=False)
        _send_out()
        return True

    def _show_progress(self, part: float, number: int) -> None:
        """Show the progress of a long run, a few times per second."""
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
        """Draw the last complete run again, if the finished part of an abandoned run is shown."""
        if not self.scene.is_whole:
            self.scene.show(self.picture, number)

    # Two runs side by side

    @property
    def can_compare(self) -> bool:
        """Whether :meth:`compare` has an effect: there is a run to pin or unpin, or a fork to end."""
        return self._pinned is not None or super().can_compare or isinstance(self.picture, Picture)

    def compare(self) -> None:
        """Pin the current picture, to be shown beside every later one, or unpin it; or end a fork."""
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
    """Let the thread that sends messages run for a moment, as compiled code would block it."""
    time.sleep(0.001)


def slider_of(knob: Knob, value: float) -> widgets.IntSlider:
    """Return a slider for a knob, at a value in the unit of the setting, which its range includes."""
    value = round(value / knob.unit)
    slider = widgets.IntSlider(
        value=value,
        min=min(knob.low, value),
        max=max(knob.high, value),
        step=knob.step,
        description=knob.label,
        # The browser sends the value when the slider is released, not at every pixel on the way.
        continuous_update=False,
        tooltip=knob.tooltip,
        description_allow_html=False,
        style={"description_width": "initial"},
        layout={"width": "auto"},
    )
    return slider.add_class("qf-slider").add_class(f"qf-slider-{knob.setting}")


# Prose

_PART = re.compile(r"\{(\w+)\}|\[([^\]]+)\]\((\w+:[\w.-]+)\)")
"""A number, such as ``{stop}``, or a term with a part of the picture, ``[the gate](queue:orders)``."""


class Prose(anywidget.AnyWidget):
    """The widget of a text whose numbers can be dragged; see :meth:`.SliderLab.prose`."""

    _esm = join_modules("prose.js")
    _css = read_styles(*STYLES)

    # The parts of the text in order: a string, [setting] for a number, or [term, subject].
    parts = traitlets.List().tag(sync=True)
    values = traitlets.Dict().tag(sync=True)
    # The minimum, maximum and step of each number.
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
        # A notebook without a kernel shows plain text.
        data, metadata = super()._repr_mimebundle_(**kwargs)
        text = self._text("<b>{}</b>".format, html.escape)
        return {**data, "text/html": f"<p>{text}</p>", "text/plain": repr(self)}, metadata


def _parts_of(text: str) -> Iterator[str | list[str]]:
    """Yield the parts of a text: a string, [setting] for a number, or [term, subject]."""
    end = 0
    for found in _PART.finditer(text):
        yield text[end : found.start()]
        setting, term, subject = found.groups()
        yield [setting] if setting else [term, subject]
        end = found.end()
    yield text[end:]
