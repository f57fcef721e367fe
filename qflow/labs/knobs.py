"""Knobs: descriptions of the sliders of a lab, named as in the product, each with the rule behind it.

A knob needs no widget, so that it can be defined beside the experiment whose parameter it sets.
:mod:`qflow.labs.slider_lab` makes sliders from knobs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature

from qflow.workload.attributes import is_number, require


@dataclass(frozen=True, slots=True)
class Knob:
    """The description of one slider of a lab."""

    setting: str
    """The parameter of the experiment that the slider sets."""
    label: str
    """The name shown beside the slider, as in the product."""
    tooltip: str
    """The effect of the setting, with the id of its rule."""
    low: int
    high: int
    step: int = 1
    unit: float = 1
    """The amount of the setting that corresponds to 1 on the slider."""


STOP = Knob(
    "stop",
    "qpid.flow_stop_count",
    "More messages than this on the queue turn it ON (FC-14). 0: no threshold in messages (FC-08)",
    low=0,
    high=300,
)
RESUME = Knob(
    "resume",
    "qpid.flow_resume_count",
    "Fewer messages than this on the queue turn it OFF again (FC-16). 0: the same as the stop (FC-05)",
    low=0,
    high=300,
)
LIMIT = Knob(
    "limit",
    "qpid.max_count",
    "The queue's limit in messages; its policy decides about the next message (LP-01, LP-04)",
    low=0,
    high=400,
)
CAPACITY = Knob(
    "capacity", "producer capacity", "Most transfers a producer may have outstanding (CAP-01)", 1, 240
)
PREFETCH = Knob(
    "prefetch", "consumer prefetch", "Most messages a consumer may hold: its credit window (CN-06)", 1, 100
)
RATE = Knob("rate", "producer rate (1/s)", "Messages a second due at each producer (CAP-01)", 20, 1_000, 10)
SERVICE = Knob(
    "service",
    "consumer service (ms)",
    "Milliseconds a consumer works on a message before it accepts it, on average (CN-13)",
    low=1,
    high=50,
    unit=0.001,
)


def begin(
    name: str, describe: Callable[..., object], knobs: Sequence[Knob], given: Mapping[str, float]
) -> dict[str, float]:
    """Return the initial value of each knob's setting: the given one, or else the default."""
    known = [knob.setting for knob in knobs]
    # Python's own error would name the function that describes the workload instead of the lab.
    if unknown := sorted(set(given) - set(known)):
        raise TypeError(f"{name} has no setting {unknown[0]!r}; it has {', '.join(known)}")
    for setting, value in given.items():
        require(is_number(value), name, setting, value, "a number")
    defaults = {key: parameter.default for key, parameter in signature(describe).parameters.items()}
    begun = {**defaults, **given}
    return {setting: begun[setting] for setting in known}


def fit_levels(knobs: Sequence[Knob], begins: Mapping[str, float]) -> list[Knob]:
    """Return the knobs; those for thresholds and limits in messages end at twice the highest initial value.

    >>> fit_levels([STOP], {"stop": 40})[0].high
    80
    """
    levels = {"stop", "resume", "limit"} & begins.keys()
    # The knobs' own ranges suit large queues; with a stop threshold of 8, the slider would move by pixels.
    most = 2 * int(max((begins[level] for level in levels), default=0))
    return [
        replace(knob, high=most, step=1) if knob.setting in levels and 0 < most < knob.high else knob
        for knob in knobs
    ]
