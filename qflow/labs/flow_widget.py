"""flow_lab and recorded_lab: a queue's flow control under the learner's hand, and as it was recorded."""

from __future__ import annotations

from qflow.labs.flow import BURST, MESSAGES, flow_steps, flow_workload
from qflow.labs.knobs import CAPACITY, PREFETCH, Knob, begin, resume_knob, some_messages, stop_knob
from qflow.labs.lab import Lab
from qflow.labs.recorded import recorded_picture
from qflow.labs.slider_lab import SliderLab

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


def flow_lab(*, messages: int = MESSAGES, limit: int = 1_000, **settings: float) -> SliderLab:
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
    """
    return Lab(recorded_picture(name))
