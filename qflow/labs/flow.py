"""The flow control experiment without widgets: settings in, picture and claims out."""

from __future__ import annotations

from qflow.labs.picture import Picture
from qflow.labs.running import Steps, drawing, finished
from qflow.workload import Consumer, Producer, Workload

MESSAGES = 2_000

BURST = (0.8, 2.4)
"""Seconds on and off. A producer without pauses would come back from each block with so much overdue that
the queue is ON again at the same instant, and nobody would ever see it OFF."""


def flow_workload(
    *,
    stop: int = 900,
    resume: int = 500,
    limit: int = 1_000,
    capacity: int = 100,
    prefetch: int = 20,
    rate: float = 1_500,
    service: float = 0.004,
) -> Workload:
    """Describe one producer that sends in bursts, one queue, and one steady consumer that is slower.

    Parameters
    ----------
    stop, resume
        ``qpid.flow_stop_count`` and ``qpid.flow_resume_count`` of the queue ``orders``.
    limit
        ``qpid.max_count`` of the queue; 0 for none.
    capacity
        Most transfers the producer ``p1`` may have outstanding.
    prefetch
        Most messages the consumer ``c1`` may hold.
    rate
        Messages a second that fall due at the producer during a burst, on average.
    service
        Seconds the consumer needs for a message, on average.

    Returns
    -------
    Workload

    Raises
    ------
    WorkloadError
        If a number makes no sense whatever the broker says, such as a capacity of 0.

    Examples
    --------
    >>> flow_workload(stop=20, resume=10).queues["orders"]["qpid.flow_stop_count"]
    20
    """
    arguments = {
        "qpid.max_count": limit,
        "qpid.flow_stop_count": stop,
        "qpid.flow_resume_count": resume,
    }
    return Workload(
        "one producer, one consumer",
        duration=3_600,
        queues={"orders": arguments},
        producers=(
            Producer("p1", ("", "orders"), rate=rate, capacity=capacity, size=100, burst=BURST, seed=1),
        ),
        consumers=(Consumer("c1", "orders", prefetch=prefetch, service=("exp", service), seed=2),),
    )


def flow_run(workload: Workload | None = None, *, messages: int = MESSAGES, **settings: float) -> Picture:
    """Run the flow control experiment, and return what its lab would show.

    Parameters
    ----------
    workload
        Any workload; None for :func:`flow_workload` with `settings`.
    messages
        The run ends when so many have been sent and the rest has been served.
    settings
        As in :func:`flow_workload`.

    Returns
    -------
    Picture
        Its `claims` are the picture in words.

    Raises
    ------
    AmqpException
        The broker's own refusal, if the thresholds do not go together.
    WorkloadError
        If a setting makes no sense whatever the broker says.

    Examples
    --------
    >>> print(flow_run())
    orders turned ON twice; first at 0.737 s, when p1-1083 made it 901 messages deep. ...
    >>> flow_run(stop=500, resume=600)
    Traceback (most recent call last):
        ...
    qflow.broker.errors.InvalidArgumentException: invalid-argument: Queue "orders": \
qpid.flow_resume_count=600 must be less or equal to qpid.flow_stop_count=500
    """
    return finished(flow_steps(workload, messages=messages, **settings))


def flow_steps(
    workload: Workload | None = None, *, messages: int = MESSAGES, **settings: float
) -> Steps[Picture]:
    """Do what :func:`flow_run` does, step by step."""
    if workload is None:
        workload = flow_workload(**settings)  # type: ignore[arg-type]
    return (yield from drawing(workload, messages))
