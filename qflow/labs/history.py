"""The history experiment without widgets: QPID-2935's alternatives on one identical workload."""

from __future__ import annotations

from qflow.broker.conversions import Argument
from qflow.broker.options import FLOW_CONTROLS, BrokerOptions
from qflow.labs.claims import seconds, share
from qflow.labs.comparison import Comparison
from qflow.labs.picture import Picture
from qflow.labs.running import Steps, finished
from qflow.labs.side_by_side import death_of, side_by_side
from qflow.workload import Consumer, Producer, Workload

MESSAGES = 600
SIZE = 100

NAMES = {
    "shipped": "shipped in 0.10",
    "pre-feature": "before the feature",
    "overflow-list": "proof of concept",
    "watermark": "watermark proposal",
    "java": "Java broker",
}


def history_workload(
    *,
    stop: int = 50,
    resume: int = 30,
    limit: int = 80,
    capacity: int = 20,
    prefetch: int = 10,
    rate: float = 400,
    service: float = 0.005,
    flow_control: str = "shipped",
) -> Workload:
    """Describe one producer in bursts, one queue with thresholds in both units, and a slower consumer.

    Parameters
    ----------
    stop, resume
        ``qpid.flow_stop_count`` and ``qpid.flow_resume_count``; the bytes of as many messages are the
        thresholds in bytes, for the Java broker knows no others (ALT-12).
    limit
        ``qpid.max_count`` of the queue; 0 for none.
    capacity
        Most transfers the producer ``p1`` may have outstanding.
    prefetch
        Most messages the consumer ``c1`` may hold.
    rate
        Messages a second that fall due at the producer in a burst, on average.
    service
        Seconds the consumer needs for a message, on average.
    flow_control
        A key of :data:`NAMES`.

    Returns
    -------
    Workload

    Raises
    ------
    WorkloadError
        If a number makes no sense whatever the broker says.

    Examples
    --------
    >>> history_workload(flow_control="java").options.flow_control
    'java'
    """
    p1 = Producer("p1", ("", "orders"), rate, capacity, SIZE, burst=(0.6, 1.2), seed=1, obeys_flow=True)
    return Workload(
        NAMES[flow_control],
        duration=3_600,
        queues={"orders": _thresholds(stop, resume, limit)},
        producers=(p1,),
        consumers=(Consumer("c1", "orders", prefetch=prefetch, service=("exp", service), seed=2),),
        options=BrokerOptions(flow_control=flow_control, message_size="content"),
    )


def _thresholds(stop: int, resume: int, limit: int) -> dict[str, Argument]:
    return {
        "qpid.max_count": limit,
        "qpid.flow_stop_count": stop,
        "qpid.flow_resume_count": resume,
        "qpid.flow_stop_size": stop * SIZE,
        "qpid.flow_resume_size": resume * SIZE,
    }


def history_run(*, messages: int = MESSAGES, **settings: float) -> Comparison:
    """Run the same workload under each alternative, and return what the lab would show.

    Parameters
    ----------
    messages
        Each run ends when so many have been sent and the rest has been served.
    settings
        As in :func:`history_workload`, but for `flow_control`.

    Returns
    -------
    Comparison
        One picture for each of :data:`NAMES`, what shipped first.

    Raises
    ------
    AmqpException
        The broker's own refusal, if the thresholds do not go together.
    WorkloadError
        If a setting makes no sense whatever the broker says.

    Examples
    --------
    >>> for claim in history_run(messages=200).claims:
    ...     print(claim)
    shipped in 0.10: ...
    """
    return finished(history_steps(messages=messages, **settings))


def history_steps(*, messages: int = MESSAGES, **settings: float) -> Steps[Comparison]:
    """Do what :func:`history_run` does, step by step."""
    workloads = {
        NAMES[kind]: history_workload(**settings, flow_control=kind)  # type: ignore[arg-type]
        for kind in FLOW_CONTROLS
    }
    return (yield from side_by_side(workloads, messages, _verdict))


def _verdict(picture: Picture) -> str:
    frames = picture.frames
    last = frames.at(-1)
    deepest = max(frames.column("queue.orders.depth"))
    waited = share(frames.spans("producer.p1.blocked"), frames.topology.end)
    sent, accepted = last["producer.p1.sent"], last["consumer.c1.accepted"]
    fate = f"p1 sent {sent}, c1 accepted {accepted}; at most {deepest} deep; p1 waited {waited} of the time"
    if picture.run.errors:
        return f"p1's session died of 506 at {seconds(death_of(picture, 'p1'))}; {fate}."
    return f"nobody was thrown out; {fate}."
