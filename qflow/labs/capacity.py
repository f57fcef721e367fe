"""The capacity experiment without widgets: how far several windows can overshoot a stop threshold."""

from __future__ import annotations

from dataclasses import replace

from qflow.labs.picture import Picture
from qflow.labs.running import Steps, drawing, finished
from qflow.workload import Consumer, Producer, Workload

MESSAGES = 1_500


def capacity_workload(
    *,
    capacity: int = 15,
    producers: int = 3,
    stop: int = 100,
    resume: int = 60,
    limit: int = 160,
    prefetch: int = 10,
    rate: float = 600,
    service: float = 0.004,
) -> Workload:
    """Describe several producers that share one queue, and one consumer that is slower than they are.

    Parameters
    ----------
    capacity
        Most transfers each producer may have outstanding (CAP-01).
    producers
        How many there are.
    stop, resume
        ``qpid.flow_stop_count`` and ``qpid.flow_resume_count`` of the queue ``orders``.
    limit
        ``qpid.max_count`` of the queue; 0 for none.
    prefetch
        Most messages the consumer may hold.
    rate
        Messages a second that fall due at each producer, on average.
    service
        Seconds the consumer needs for a message, on average.

    Returns
    -------
    Workload

    Raises
    ------
    WorkloadError
        If a number makes no sense whatever the broker says.

    Examples
    --------
    >>> [producer.capacity for producer in capacity_workload(producers=2).producers]
    [15, 15]
    """
    arguments = {"qpid.max_count": limit, "qpid.flow_stop_count": stop, "qpid.flow_resume_count": resume}
    return Workload(
        f"{producers} producers, one queue",
        duration=3_600,
        queues={"orders": arguments},
        producers=tuple(
            Producer(f"p{n}", ("", "orders"), rate=rate, capacity=capacity, size=100, seed=n)
            for n in range(1, producers + 1)
        ),
        consumers=(Consumer("c1", "orders", prefetch=prefetch, service=("exp", service), seed=100),),
    )


def capacity_run(*, messages: int = MESSAGES, **settings: float) -> Picture:
    """Run the capacity experiment, and return what its lab would show.

    Parameters
    ----------
    messages
        The run ends when so many have been sent and the rest has been served.
    settings
        As in :func:`capacity_workload`.

    Returns
    -------
    Picture
        Its first claims compare the deepest the queue was with the bound: stop plus all capacities.

    Raises
    ------
    AmqpException
        The broker's own refusal, if the thresholds do not go together.
    WorkloadError
        If a setting makes no sense whatever the broker says.

    Examples
    --------
    >>> print(capacity_run().claims[0])
    The bound is 145 messages: stop 100, and 3 windows of 15. At its deepest, orders had 145.
    >>> print(capacity_run(capacity=30).claims[1])
    The bound is 30 above the limit of 160: 2 of 3 sessions died of it, although flow control was ON (FC-24).
    """
    return finished(capacity_steps(messages=messages, **settings))


def capacity_steps(*, messages: int = MESSAGES, **settings: float) -> Steps[Picture]:
    """Do what :func:`capacity_run` does, step by step."""
    workload = capacity_workload(**settings)  # type: ignore[arg-type]
    picture = yield from drawing(workload, messages)
    return replace(picture, claims=(*_bound(picture), *picture.claims))


def _bound(picture: Picture) -> list[str]:
    topology = picture.frames.topology
    queue, windows = topology.queues[0], [spot.capacity for spot in topology.producers]
    if not queue.stop_count:
        return []
    bound = queue.stop_count + sum(windows)
    deepest = max(picture.frames.column(f"queue.{queue.name}.depth"))
    noun = "window" if len(windows) == 1 else "windows"
    said = [
        f"The bound is {bound} messages: stop {queue.stop_count}, and {len(windows)} {noun} of {windows[0]}. "
        f"At its deepest, {queue.name} had {deepest}."
    ]
    if not queue.max_count:
        return said
    if bound <= queue.max_count:
        return [
            *said,
            f"No message can be refused: the bound is within the limit of {queue.max_count} (CAP-11).",
        ]
    died = f"{len(picture.run.errors)} of {len(windows)} sessions died of it"
    how = (
        f"{died}, although flow control was ON (FC-24)" if picture.run.errors else "this run came off with it"
    )
    over = bound - queue.max_count
    return [*said, f"The bound is {over} above the limit of {queue.max_count}: {how}."]
