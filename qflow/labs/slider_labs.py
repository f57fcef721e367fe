"""The labs that are sliders and a run: capacity_lab, fanout_lab, policy_lab, history_lab."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from qflow.labs.capacity import MESSAGES as CAPACITY_MESSAGES
from qflow.labs.capacity import capacity_steps, capacity_workload
from qflow.labs.comparison import Comparison
from qflow.labs.fanout import MESSAGES as FANOUT_MESSAGES
from qflow.labs.fanout import fanout_steps, fanout_workload
from qflow.labs.history import MESSAGES as HISTORY_MESSAGES
from qflow.labs.history import history_steps, history_workload
from qflow.labs.knobs import (
    CAPACITY,
    PREFETCH,
    Knob,
    begin,
    limit_knob,
    resume_knob,
    some_messages,
    stop_knob,
)
from qflow.labs.picture import Picture
from qflow.labs.policy import MESSAGES as POLICY_MESSAGES
from qflow.labs.policy import policy_steps, policy_workload
from qflow.labs.running import Steps
from qflow.labs.slider_lab import SliderLab
from qflow.workload import Workload

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
