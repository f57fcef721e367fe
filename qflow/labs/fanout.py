"""The fanout experiment without widgets: one slow queue, and a producer that waits for all of them."""

from __future__ import annotations

from dataclasses import replace

from qflow.labs.claims import share
from qflow.labs.picture import Picture
from qflow.labs.running import Steps, drawing, finished
from qflow.workload import Consumer, Producer, Workload

MESSAGES = 800
QUEUES = ("fast", "medium", "slow")


def fanout_workload(
    *,
    stop: int = 60,
    resume: int = 40,
    capacity: int = 20,
    prefetch: int = 5,
    rate: float = 200,
    fast: float = 0.002,
    medium: float = 0.004,
    slow: float = 0.012,
) -> Workload:
    """Describe a producer on ``amq.fanout``, three queues, and a consumer of its own pace for each.

    Parameters
    ----------
    stop, resume
        ``qpid.flow_stop_count`` and ``qpid.flow_resume_count`` of each queue.
    capacity
        Most transfers the producer ``p1`` may have outstanding.
    prefetch
        Most messages each consumer may hold.
    rate
        Messages a second that fall due at the producer, on average.
    fast, medium, slow
        Seconds that the consumer of the queue of that name needs for a message, on average.

    Returns
    -------
    Workload

    Raises
    ------
    WorkloadError
        If a number makes no sense whatever the broker says.

    Examples
    --------
    >>> fanout_workload().binds[0]
    ('amq.fanout', 'fast', '')
    """
    arguments = {"qpid.flow_stop_count": stop, "qpid.flow_resume_count": resume}
    paces = dict(zip(QUEUES, (fast, medium, slow), strict=True))
    return Workload(
        "one producer, three queues",
        duration=3_600,
        queues=dict.fromkeys(QUEUES, arguments),
        binds=tuple(("amq.fanout", name, "") for name in QUEUES),
        producers=(Producer("p1", ("amq.fanout", ""), rate=rate, capacity=capacity, size=100, seed=1),),
        consumers=tuple(
            Consumer(f"c-{name}", name, prefetch=prefetch, service=("exp", pace), seed=seed)
            for seed, (name, pace) in enumerate(paces.items(), 2)
        ),
    )


def fanout_run(*, messages: int = MESSAGES, **settings: float) -> Picture:
    """Run the fanout experiment, and return what its lab would show.

    Parameters
    ----------
    messages
        The run ends when so many have been sent and the rest has been served.
    settings
        As in :func:`fanout_workload`.

    Returns
    -------
    Picture
        Its first claims say which queue the producer waited for, and what that cost the others.

    Raises
    ------
    AmqpException
        The broker's own refusal, if the thresholds do not go together.
    WorkloadError
        If a setting makes no sense whatever the broker says.

    Examples
    --------
    >>> print(fanout_run(messages=300).claims[0])
    A transfer to three queues is complete when no queue holds it: p1 waited 69 % of the time.
    """
    return finished(fanout_steps(messages=messages, **settings))


def fanout_steps(*, messages: int = MESSAGES, **settings: float) -> Steps[Picture]:
    """Do what :func:`fanout_run` does, step by step."""
    workload = fanout_workload(**settings)  # type: ignore[arg-type]
    picture = yield from drawing(workload, messages)
    return replace(picture, claims=(*_blame(picture), *picture.claims))


def _blame(picture: Picture) -> list[str]:
    frames = picture.frames
    end = frames.topology.end
    waited = share(frames.spans("producer.p1.blocked"), end)
    on = {name: share(frames.spans(f"queue.{name}.flow"), end) for name in QUEUES}
    stopped = [f"{name} {part}" for name, part in on.items() if part != "0 %"]
    never = [name for name, part in on.items() if part == "0 %"]
    said = [f"A transfer to three queues is complete when no queue holds it: p1 waited {waited} of the time."]
    if stopped:
        said.append(f"Flow control was ON: {', '.join(stopped)} of the time.")
    if stopped and never:
        said.append(f"{' and '.join(never)} never turned ON, and got no more than the slowest let through.")
    return said
