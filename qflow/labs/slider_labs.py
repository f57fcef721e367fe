"""The labs that are sliders and a run: capacity_lab, fanout_lab, policy_lab, history_lab.

Knobs: the sliders of a lab, named as in the product, each with the rule behind it.

SliderLab: sliders, a run, a picture; what every lab with sliders is made of.

flow_lab and recorded_lab: a queue's flow control under the learner's hand, and as it was recorded.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from inspect import GEN_CREATED, getgeneratorstate, signature
from typing import Any

import ipywidgets as widgets

from qflow.broker.errors import AmqpException
from qflow.kit import RefusalError
from qflow.labs.experiments import (
    BURST,
    FLOW_MESSAGES,
    capacity_steps,
    capacity_workload,
    fanout_steps,
    fanout_workload,
    flow_steps,
    flow_workload,
    history_steps,
    history_workload,
    policy_steps,
    policy_workload,
)
from qflow.labs.experiments import CAPACITY_MESSAGES as CAPACITY_MESSAGES
from qflow.labs.experiments import FANOUT_MESSAGES as FANOUT_MESSAGES
from qflow.labs.experiments import HISTORY_MESSAGES as HISTORY_MESSAGES
from qflow.labs.experiments import POLICY_MESSAGES as POLICY_MESSAGES
from qflow.labs.lab import Lab
from qflow.labs.opened import recorded_picture
from qflow.labs.picture import Comparison, Picture, compare
from qflow.labs.running import SoFar, Steps, finished
from qflow.workload import Workload, WorkloadError
from qflow.workload.attributes import is_number, is_whole, require
from qflow.workload.stage import uncollected


@dataclass(frozen=True, slots=True)
class Knob:
    """One slider of a lab.

    Parameters
    ----------
    setting
        The parameter of the lab's workload that it sets.
    label
        Its name, as in the product.
    tooltip
        What it does, with the rule's id.
    low, high, step
        Its range.
    unit
        How many of the setting make one on the slider.
    """

    setting: str
    label: str
    tooltip: str
    low: int
    high: int
    step: int
    unit: float = 1

    def slider(self, value: float) -> widgets.IntSlider:
        """Make the slider.

        Parameters
        ----------
        value
            Where it begins, in units of the setting; the range grows to hold it.

        Returns
        -------
        IntSlider
        """
        value = round(value / self.unit)
        slider = widgets.IntSlider(
            value=value,
            min=min(self.low, value),
            max=max(self.high, value),
            step=self.step,
            description=self.label,
            # The browser sends the value when the slider is let go of, not at every pixel on the way.
            continuous_update=False,
            tooltip=self.tooltip,
            description_allow_html=False,
            style={"description_width": "initial"},
            layout={"width": "auto"},
        )
        return slider.add_class("qf-slider").add_class(f"qf-slider-{self.setting}")


def begin(
    name: str, describe: Callable[..., object], knobs: Sequence[Knob], given: Mapping[str, float]
) -> dict[str, float]:
    """Work out where a lab's sliders begin.

    Parameters
    ----------
    name
        The lab's, for its refusal.
    describe
        The function whose parameters are the settings, and whose defaults are used.
    knobs
        The lab's sliders.
    given
        What the caller wants.

    Returns
    -------
    dict
        Setting to value, for every slider.

    Raises
    ------
    TypeError
        If a setting is none of the lab's.
    WorkloadError
        If a value is no number.

    Examples
    --------
    >>> from qflow.labs.experiments import flow_workload
    >>> begin("flow_lab", flow_workload, [Knob("stop", "stop", "", 0, 9, 1)], {})
    {'stop': 900}
    """
    known = [knob.setting for knob in knobs]
    if unknown := sorted(set(given) - set(known)):
        raise TypeError(f"{name} has no setting {unknown[0]!r}; it has {', '.join(known)}")
    for setting, value in given.items():
        require(is_number(value), name, setting, value, "a number")
    defaults = {key: parameter.default for key, parameter in signature(describe).parameters.items()}
    return {setting: given.get(setting, defaults[setting]) for setting in known}


def some_messages(messages: int) -> int:
    """Return how many messages a lab's runs send, if that is a number a run can end at.

    Parameters
    ----------
    messages
        What the caller wants.

    Raises
    ------
    WorkloadError
        If it is no whole number from 1: none, or fewer, would be a run without an end.

    Examples
    --------
    >>> some_messages(-1)
    Traceback (most recent call last):
        ...
    qflow.workload.attributes.WorkloadError: a lab: messages must be a whole number from 1, got -1
    """
    require(is_whole(messages, 1), "a lab", "messages", messages, "a whole number from 1")
    return messages


CAPACITY = Knob(
    "capacity", "producer capacity", "Most transfers a producer may have outstanding (CAP-01)", 1, 240, 1
)
PREFETCH = Knob(
    "prefetch", "consumer prefetch", "Most messages a consumer may hold: its credit window (CN-06)", 1, 100, 1
)


def stop_knob(high: int, step: int = 1) -> Knob:
    """Return the slider of ``qpid.flow_stop_count``."""
    tooltip = "More messages than this on the queue turn it ON (FC-14). 0: no threshold in messages (FC-08)"
    return Knob("stop", "qpid.flow_stop_count", tooltip, 0, high, step)


def resume_knob(high: int, step: int = 1) -> Knob:
    """Return the slider of ``qpid.flow_resume_count``."""
    tooltip = (
        "Fewer messages than this on the queue turn it OFF again (FC-16). 0: the same as the stop (FC-05)"
    )
    return Knob("resume", "qpid.flow_resume_count", tooltip, 0, high, step)


def limit_knob(high: int, step: int = 1) -> Knob:
    """Return the slider of ``qpid.max_count``."""
    tooltip = "The most messages the queue takes; what it does with the next is its policy (LP-01, LP-04)"
    return Knob("limit", "qpid.max_count", tooltip, 0, high, step)


PATIENCE = 0.5
"""Seconds a run may keep the kernel to itself; then it goes on between other messages, with progress."""

WORTHWHILE = 0.03
"""Seconds a run must still need for its beginning to be drawn first."""

_BREATH, _PAUSE = 0.04, 0.002
_TELLING = 0.2
_TIDYING = 10
"""Runs after which the collector is called: it keeps what they leave where it hardly ever looks by itself."""

_KEPT = "The picture below is that of the last settings it accepted."

Shown = Picture | Comparison


class SliderLab(Lab):
    """Sliders, the picture, and what it shows in words.

    A run begins when a slider is let go of, and already while it rests in the hand: most sliders are let go
    of where they rest, and their picture is then there.

    Parameters
    ----------
    knobs
        The sliders.
    settings
        Where they begin.
    steps
        Called with the settings by name; runs, and returns the picture.
    name
        What opens this lab again: a key of :data:`qflow.labs.share.LABS`.
    more
        Further arguments of `steps`, which no slider sets.

    Attributes
    ----------
    sliders
        Setting to slider.
    looked_at
        The instant that is looked at, in microseconds; a run that takes longer shows it first.
    """

    def __init__(
        self,
        knobs: Sequence[Knob],
        settings: Mapping[str, float],
        steps: Callable[..., Steps[Shown]],
        *,
        name: str = "",
        more: Mapping[str, Any] | None = None,
    ) -> None:
        self._knobs = tuple(knobs)
        self._steps = steps
        self._more = dict(more or {})
        self._started = 1
        self._task: asyncio.Task[None] | None = None
        self._pinned: Picture | None = None
        self._begun = self._told = 0.0
        self._asked: dict[str, Any] = {}
        self.name = name
        self.sliders = {knob.setting: knob.slider(settings[knob.setting]) for knob in knobs}
        panel = widgets.Box(list(self.sliders.values())).add_class("qf-panel")
        first = finished(steps(**self.settings))
        super().__init__(first, [panel])
        self.looked_at = self.first.frames.at(self.first.frames.most_telling())["time"]
        self.scene.on_msg(self._hear)
        for slider in self.sliders.values():
            slider.observe(self._moved, names="value")

    @property
    def settings(self) -> dict[str, Any]:
        """What the sliders say, and what they do not set."""
        chosen = {knob.setting: self.sliders[knob.setting].value * knob.unit for knob in self._knobs}
        return {**self._more, **chosen}

    def _moved(self, _: object) -> None:
        # A slider that rested here before it was let go of has its picture already, or soon.
        if self.settings != self._asked:
            self.run_again()

    def run_again(self) -> None:
        """Run with what the sliders say now, and show it unless they move again before it is done."""
        self._run(self.settings, PATIENCE)

    def _rested(self, setting: str, value: int) -> None:
        """Run for a slider that is still held: most of them are let go of where they rest."""
        slider = self.sliders[setting]
        knob = next(knob for knob in self._knobs if knob.setting == setting)
        settings = {**self.settings, setting: min(slider.max, max(slider.min, value)) * knob.unit}
        if settings != self._asked:
            # It may move on at once, and is to be heard in between.
            self._run(settings, 0)

    def _run(self, settings: dict[str, Any], patience: float) -> None:
        self._started += 1
        number = self._started = max(self._started, self.scene.run + 1)
        self._asked = settings
        self._alone = None
        self._begun = self._told = time.monotonic()
        self.scene.progress = 0.0
        # The collector can wait until the picture is on its way: it would take a third of the time.
        with uncollected():
            self._begin(number, patience)
        if number % _TIDYING == 0:
            _tidy_up_soon()

    def _begin(self, number: int, patience: float) -> None:
        steps: Steps[Shown] | None = None
        try:
            steps = self._steps(**self._asked)
            if self._advance(steps, number, patience):
                return
            loop = asyncio.get_running_loop()
        except RuntimeError:
            # Nobody else waits for the kernel outside of Jupyter: go on to the end.
            if steps is not None:
                self._advance(steps, number, float("inf"))
        except Exception as error:
            self._refuse(error, number)
        else:
            self._task = loop.create_task(self._go_on(steps, number))

    async def _go_on(self, steps: Steps[Shown], number: int) -> None:
        """Run on in breaths, so that a slider that moves, or Cancel, is heard in between."""
        while True:
            # A message passes through several hands in the kernel: a pause of no time would let it pass one.
            await asyncio.sleep(_PAUSE)
            if number != self._started:
                return
            if self.scene.cancelled >= number:
                self.scene.progress = 0.0
                self.scene.refusal = "Cancelled. The picture below is that of the settings before."
                self._back_to_whole(number)
                return
            if self._advance(steps, number, _BREATH):
                return

    def _advance(self, steps: Steps[Shown], number: int, most: float) -> bool:
        """Take steps for some seconds; return whether the run is over, one way or the other."""
        until = time.monotonic() + most
        try:
            while time.monotonic() < until:
                part = self._step(steps)
                # Once its beginning is to be seen, the next move of a slider matters more than the rest.
                if self._draw_so_far(part, number) and most == PATIENCE:
                    break
                self._tell(part, number)
        except StopIteration as end:
            self.scene.refusal, self.scene.progress = "", 0.0
            self.show(self._beside(end.value), number)
            return True
        except Exception as error:  # a learner who only moved a slider is never shown a traceback
            self._refuse(error, number)
            return True
        return False

    def _step(self, steps: Steps[Shown]) -> float:
        is_new = getgeneratorstate(steps) == GEN_CREATED
        return next(steps) if is_new else steps.send(self.looked_at)

    def _draw_so_far(self, part: float, number: int) -> bool:
        """Draw what there is of a run that takes longer, once the instant that is looked at is there."""
        if not isinstance(part, SoFar) or self.scene.run >= number or part.time <= self.looked_at:
            return False
        # The run before tells how much is to be expected of this one.
        known, ahead = part.frames, self.first.frames.count - part.frames
        if (time.monotonic() - self._begun) * ahead < WORTHWHILE * known:
            return False
        self.scene.refusal = ""
        self.scene.show(self._beside(part.draw(self.first.frames.topology.end)), number, is_whole=False)
        # What is sent goes out in a thread of its own, which compiled code would not let in.
        time.sleep(0.001)
        return True

    def _tell(self, part: float, number: int) -> None:
        """Say now and then how far a run is that takes longer."""
        now = time.monotonic()
        if now - self._begun > PATIENCE and now - self._told > _TELLING:
            self._told = now
            with self.scene.hold_sync():
                self.scene.running, self.scene.progress = number, max(0.01, float(part))

    def _hear(self, _: object, content: dict[str, Any], __: object) -> None:
        if content.get("ask") == "look":
            self.looked_at = int(content["time"])
        elif content.get("ask") == "rest" and content["setting"] in self.sliders:
            self._rested(content["setting"], int(content["value"]))

    def _refuse(self, error: Exception, number: int) -> None:
        self.scene.progress = 0.0
        self.scene.refusal = f"{refusal_text(error)}\n{_KEPT}"
        self._back_to_whole(number)

    def _back_to_whole(self, number: int) -> None:
        """Draw the last whole run again where the beginning of one that never ended is drawn."""
        if not self.scene.is_whole:
            self.scene.show(self.picture, number)

    # Two runs side by side

    @property
    def can_compare(self) -> bool:
        """Whether this run can be kept beside the next; labs that compare already cannot."""
        return self._pinned is not None or super().can_compare or isinstance(self.picture, Picture)

    def compare(self) -> None:
        """Keep the picture of now, to lay every later one beside it; or let it go again."""
        if self._alone is not None:
            super().compare()
            return
        self._pinned = self.first if self._pinned is None else None
        self.run_again()

    def _beside(self, shown: Shown) -> Shown:
        if self._pinned is None or isinstance(shown, Comparison):
            return shown
        return compare(self._pinned, shown, ("pinned", "now"))


def _tidy_up_soon() -> None:
    # Where nothing waits for the kernel, Python's own ways will do.
    with suppress(RuntimeError):
        asyncio.get_running_loop().call_later(1, gc.collect)


def refusal_text(error: Exception) -> str:
    """Say in one sentence why there is no picture.

    Examples
    --------
    >>> refusal_text(WorkloadError("capacity must be a whole number from 1, got 0"))
    'No client can do this: capacity must be a whole number from 1, got 0'
    """
    if isinstance(error, AmqpException):
        return f"The broker refuses these settings: {error}"
    if isinstance(error, WorkloadError):
        return f"No client can do this: {error}"
    if isinstance(error, RefusalError):
        return f"This cannot be drawn: {error}"
    return f"This lab cannot draw these settings ({type(error).__name__}: {error})."


_SERVICE = "Milliseconds a consumer works on a message before it accepts it, on average (CN-13)"
_RATE = Knob("rate", "producer rate (1/s)", "Messages a second due at each producer (CAP-01)", 20, 1_000, 10)
_PACE = Knob("service", "consumer service (ms)", _SERVICE, 1, 50, 1, unit=0.001)

CAPACITY_KNOBS = (
    stop_knob(300),
    resume_knob(300),
    limit_knob(400),
    Knob("producers", "producers", "How many share the queue; their capacities add up (CAP-11)", 1, 5, 1),
    CAPACITY,
    PREFETCH,
    _RATE,
    _PACE,
)
FANOUT_KNOBS = (
    stop_knob(200),
    resume_knob(200),
    CAPACITY,
    PREFETCH,
    _RATE,
    *(
        Knob(name, f"service of {name} (ms)", _SERVICE, 1, 50, 1, unit=0.001)
        for name in ("fast", "medium", "slow")
    ),
)
POLICY_KNOBS = (
    limit_knob(60),
    Knob(
        "stop",
        "qpid.flow_stop_count",
        "Flow control before the limit is reached (FC-14); 0: none. A ring never has any (FC-03)",
        *(0, 60, 1),
    ),
    CAPACITY,
    PREFETCH,
    _RATE,
    _PACE,
    Knob(
        "groups", "values of the header", "The last value's keys (QT-01); g1 is most urgent (QT-04)", 1, 8, 1
    ),
)
HISTORY_KNOBS = (stop_knob(150), resume_knob(150), limit_knob(200), CAPACITY, PREFETCH, _RATE, _PACE)


def _lab(
    name: str,
    knobs: Sequence[Knob],
    describe: Callable[..., Workload],
    steps: Callable[..., Steps[Picture | Comparison]],
    messages: int,
    settings: Mapping[str, float],
) -> SliderLab:
    start = begin(f"{name}_lab", describe, knobs, settings)
    return SliderLab(knobs, start, steps, name=name, more={"messages": some_messages(messages)})


def capacity_lab(*, messages: int = CAPACITY_MESSAGES, **settings: float) -> SliderLab:
    """Open the capacity lab: how far several producers' windows overshoot a stop threshold.

    Parameters
    ----------
    messages
        How many messages a run sends.
    **settings
        Where the sliders begin; as in :func:`qflow.labs.capacity_workload`.

    Returns
    -------
    SliderLab
        A widget; without widgets, use :func:`qflow.labs.capacity_run`.

    Raises
    ------
    AmqpException
        If the broker refuses the settings the lab is to begin with.
    WorkloadError
        If one of them makes no sense whatever the broker says.
    TypeError
        If a setting is none of the lab's.

    Examples
    --------
    >>> lab = capacity_lab(messages=300)
    >>> lab.sliders["capacity"].value = 30
    >>> print(lab.claims[0])
    The bound is 190 messages: stop 100, and 3 windows of 30. At its deepest, orders had 160.
    """
    return _lab("capacity", CAPACITY_KNOBS, capacity_workload, capacity_steps, messages, settings)


def fanout_lab(*, messages: int = FANOUT_MESSAGES, **settings: float) -> SliderLab:
    """Open the fanout lab: one slow queue holds up a producer, and with it all the others.

    Parameters
    ----------
    messages
        How many messages a run sends.
    **settings
        Where the sliders begin; as in :func:`qflow.labs.fanout_workload`.

    Returns
    -------
    SliderLab
        A widget; without widgets, use :func:`qflow.labs.fanout_run`.

    Raises
    ------
    AmqpException, WorkloadError, TypeError
        As :func:`capacity_lab`.

    Examples
    --------
    >>> fanout_lab(messages=60).scene
    Scene(run=1, frames=...)
    """
    return _lab("fanout", FANOUT_KNOBS, fanout_workload, fanout_steps, messages, settings)


def policy_lab(*, messages: int = POLICY_MESSAGES, **settings: float) -> SliderLab:
    """Open the policy lab: what a full queue does, five ways side by side, with the same messages.

    Parameters
    ----------
    messages
        How many messages a run sends.
    **settings
        Where the sliders begin; as in :func:`qflow.labs.policy_workload`, but for its `policy`.

    Returns
    -------
    SliderLab
        A widget; without widgets, use :func:`qflow.labs.policy_run`.

    Raises
    ------
    AmqpException, WorkloadError, TypeError
        As :func:`capacity_lab`.

    Examples
    --------
    >>> lab = policy_lab(messages=60)
    >>> list(lab.picture.pictures)
    ['reject', 'ring', 'self-destruct', 'last value', 'priority']
    """
    return _lab("policy", POLICY_KNOBS, policy_workload, policy_steps, messages, settings)


def history_lab(*, messages: int = HISTORY_MESSAGES, **settings: float) -> SliderLab:
    """Open the history lab: what shipped, what was before, and what was proposed, on one workload.

    Parameters
    ----------
    messages
        How many messages a run sends.
    **settings
        Where the sliders begin; as in :func:`qflow.labs.history_workload`, but for its `flow_control`.

    Returns
    -------
    SliderLab
        A widget; without widgets, use :func:`qflow.labs.history_run`.

    Raises
    ------
    AmqpException, WorkloadError, TypeError
        As :func:`capacity_lab`.

    Examples
    --------
    >>> len(history_lab(messages=60).picture.pictures)
    5
    """
    return _lab("history", HISTORY_KNOBS, history_workload, history_steps, messages, settings)


KNOBS = (
    stop_knob(1_200, 10),
    resume_knob(1_200, 10),
    CAPACITY,
    PREFETCH,
    Knob(
        "rate",
        "producer rate (1/s)",
        f"Messages a second due at p1 in a burst, {BURST[0]:g} s of every {sum(BURST):g} s (CAP-01)",
        *(100, 3_000, 100),
    ),
    Knob(
        "service",
        "consumer service (ms)",
        "Milliseconds c1 works on a message before it accepts it, on average (CN-13)",
        *(1, 50, 1),
        unit=0.001,
    ),
)


def flow_lab(*, messages: int = FLOW_MESSAGES, limit: int = 1_000, **settings: float) -> SliderLab:
    """Open the flow control lab: drag a threshold, and see a queue go ON and OFF.

    Parameters
    ----------
    messages
        How many messages a run sends.
    limit
        ``qpid.max_count`` of the queue; 0 for none.
    **settings
        Where the sliders begin; as in :func:`qflow.labs.flow_workload`.

    Returns
    -------
    SliderLab
        A widget; its ``claims`` say what it shows. Without widgets, use :func:`qflow.labs.flow_run`.

    Raises
    ------
    AmqpException
        If the broker refuses the settings the lab is to begin with.
    WorkloadError
        If one of them makes no sense whatever the broker says.
    TypeError
        If a setting is none of the lab's.

    Examples
    --------
    >>> lab = flow_lab(messages=300, stop=20, resume=10)
    >>> lab.sliders["resume"].value = 30
    >>> print(lab.scene.refusal.splitlines()[0])
    The broker refuses these settings: invalid-argument: Queue "orders": qpid.flow_resume_count=30 \
must be less or equal to qpid.flow_stop_count=20
    """
    start = begin("flow_lab", flow_workload, KNOBS, settings)
    more = {"messages": some_messages(messages), "limit": limit}
    return SliderLab(KNOBS, start, flow_steps, name="flow", more=more)


def recorded_lab(name: str = "slow-consumer") -> Lab:
    """Open a recorded workload: the engine replays it, the real broker's own reports lie beside it.

    Parameters
    ----------
    name
        A recording of the kit.

    Returns
    -------
    Lab
        A widget; without widgets, use :func:`qflow.labs.recorded_picture`.

    Raises
    ------
    LogError
        If there is no such recording.

    Examples
    --------
    >>> recorded_lab("ring").picture.frames.topology.queues[0].name
    'q'
    """
    return Lab(recorded_picture(name))
