"""flow_lab: a queue's flow control under the learner's hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature

import ipywidgets as widgets

from qflow.broker.errors import AmqpException
from qflow.labs.flow import BURST, MESSAGES, flow_run, flow_workload
from qflow.labs.lab import Lab
from qflow.labs.picture import Picture
from qflow.labs.recorded import recorded_picture
from qflow.workload import WorkloadError
from qflow.workload.stage import uncollected


@dataclass(frozen=True, slots=True)
class Knob:
    """One slider of the lab.

    Parameters
    ----------
    setting
        The parameter of :func:`qflow.labs.flow_workload` it sets.
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


KNOBS = (
    Knob(
        "stop",
        "qpid.flow_stop_count",
        "More messages than this on the queue turn it ON (FC-14). 0: no threshold in messages (FC-08)",
        *(0, 1_200, 10),
    ),
    Knob(
        "resume",
        "qpid.flow_resume_count",
        "Fewer messages than this on the queue turn it OFF again (FC-16). 0: the same as the stop (FC-05)",
        *(0, 1_200, 10),
    ),
    Knob("capacity", "producer capacity", "Most transfers p1 may have outstanding (CAP-01)", 1, 240, 1),
    Knob("prefetch", "consumer prefetch", "Most messages c1 may hold: its credit window (CN-06)", 1, 100, 1),
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

_KEPT = "The picture below is that of the last settings it accepted."


class FlowLab(Lab):
    """Sliders, the picture, and what it shows in words; made by :func:`flow_lab`.

    Parameters
    ----------
    settings
        Where the sliders begin, and ``limit``.
    messages
        How many messages a run sends.

    Attributes
    ----------
    sliders
        Setting to slider.
    """

    def __init__(self, settings: Mapping[str, float], messages: int) -> None:
        self.sliders = {knob.setting: _slider(knob, settings[knob.setting]) for knob in KNOBS}
        self._limit = settings["limit"]
        self._messages = messages
        self._started = 1
        panel = widgets.Box(list(self.sliders.values())).add_class("qf-panel")
        super().__init__(self._run(), [panel])
        for slider in self.sliders.values():
            slider.observe(self._moved, names="value")

    def _run(self) -> Picture:
        chosen = {knob.setting: self.sliders[knob.setting].value * knob.unit for knob in KNOBS}
        return flow_run(messages=self._messages, limit=self._limit, **chosen)

    def _moved(self, _: object) -> None:
        self._started += 1
        # The collector can wait until the picture is on its way: it would take a third of the time.
        with uncollected():
            self._run_again(self._started)

    def _run_again(self, number: int) -> None:
        try:
            picture = self._run()
        except AmqpException as error:
            self.scene.refusal = f"The broker refuses these settings: {error}\n{_KEPT}"
        except WorkloadError as error:
            self.scene.refusal = f"No client can do this: {error}\n{_KEPT}"
        except Exception as error:  # a learner who only moved a slider is never shown a traceback
            reason = f"{type(error).__name__}: {error}"
            self.scene.refusal = f"This lab cannot draw these settings ({reason}).\n{_KEPT}"
        else:
            self.scene.refusal = ""
            self.show(picture, number)


def flow_lab(*, messages: int = MESSAGES, limit: int = 1_000, **settings: float) -> FlowLab:
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
    FlowLab
        A widget; its ``claims`` say what it shows. Without widgets, use :func:`qflow.labs.flow_run`.

    Raises
    ------
    AmqpException
        If the broker refuses the settings the lab is to begin with.
    WorkloadError
        If one of them makes no sense whatever the broker says.

    Examples
    --------
    >>> lab = flow_lab(messages=300, stop=20, resume=10)
    >>> lab.sliders["resume"].value = 30
    >>> print(lab.scene.refusal.splitlines()[0])
    The broker refuses these settings: invalid-argument: Queue "orders": qpid.flow_resume_count=30 \
must be less or equal to qpid.flow_stop_count=20
    """
    begin = {**_defaults(), **settings, "limit": limit}
    if unknown := sorted(set(begin) - {knob.setting for knob in KNOBS} - {"limit"}):
        allowed = ", ".join(knob.setting for knob in KNOBS)
        raise TypeError(f"flow_lab has no setting {unknown[0]!r}; it has {allowed}")
    return FlowLab(begin, messages)


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
    """
    return Lab(recorded_picture(name))


def _defaults() -> dict[str, float]:
    return {name: parameter.default for name, parameter in signature(flow_workload).parameters.items()}


def _slider(knob: Knob, value: float) -> widgets.IntSlider:
    shown = round(value / knob.unit)
    slider = widgets.IntSlider(
        value=shown,
        min=min(knob.low, shown),
        max=max(knob.high, shown),
        step=knob.step,
        description=knob.label,
        tooltip=knob.tooltip,
        continuous_update=False,
        style={"description_width": "178px"},
        layout={"width": "auto"},
    )
    slider.add_class("qf-slider")
    slider.add_class(f"qf-slider-{knob.setting}")
    return slider
