"""Knobs: the sliders of a lab, named as in the product, each with the rule behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature

import ipywidgets as widgets

from qflow.workload.checks import is_number, is_whole, require


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
    >>> from qflow.labs.flow import flow_workload
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
    qflow.workload.checks.WorkloadError: a lab: messages must be a whole number from 1, got -1
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
