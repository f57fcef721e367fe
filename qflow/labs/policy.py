"""The policy experiment without widgets: what a full queue does, five ways, on one workload."""

from __future__ import annotations

from qflow.broker.conversions import Argument
from qflow.labs.claims import seconds
from qflow.labs.comparison import Comparison
from qflow.labs.picture import Picture
from qflow.labs.running import Steps, finished
from qflow.labs.side_by_side import death_of, first_time, side_by_side
from qflow.workload import Consumer, Producer, Workload

MESSAGES = 150

POLICIES: dict[str, dict[str, Argument]] = {
    "reject": {"qpid.policy_type": "reject"},
    "ring": {"qpid.policy_type": "ring"},
    "self-destruct": {"qpid.policy_type": "self-destruct"},
    "last value": {"qpid.last_value_queue_key": "group"},
    "priority": {"qpid.priorities": 10, "qpid.policy_type": "ring"},
}
"""What each picture's queue is declared with, besides its limit."""


def policy_workload(
    *,
    policy: str = "reject",
    limit: int = 20,
    stop: int = 0,
    capacity: int = 10,
    prefetch: int = 3,
    rate: float = 60,
    service: float = 0.03,
    groups: int = 6,
) -> Workload:
    """Describe one producer, one bounded queue and one consumer that is slower.

    Parameters
    ----------
    policy
        A key of :data:`POLICIES`.
    limit
        ``qpid.max_count`` of the queue.
    stop
        ``qpid.flow_stop_count``; the resume count is the same. 0 for no threshold, so that the limit
        itself is reached (FC-08). A ring has no flow control in any case (FC-03).
    capacity
        Most transfers the producer ``p1`` may have outstanding.
    prefetch
        Most messages the consumer ``c1`` may hold.
    rate
        Messages a second that fall due at the producer, on average.
    service
        Seconds the consumer needs for a message, on average.
    groups
        How many values the header ``group`` has: the last value's key, and the lower the more urgent.

    Returns
    -------
    Workload

    Raises
    ------
    WorkloadError
        If a number makes no sense whatever the broker says.

    Examples
    --------
    >>> policy_workload(policy="ring", limit=5).queues["orders"]
    {'qpid.max_count': 5, 'qpid.flow_stop_count': 0, 'qpid.flow_stop_size': 0, 'qpid.policy_type': 'ring'}
    """
    arguments: dict[str, Argument] = {"qpid.max_count": limit, "qpid.flow_stop_count": stop}
    arguments["qpid.flow_resume_count" if stop else "qpid.flow_stop_size"] = stop
    to = ("", "orders")
    p1 = Producer("p1", to, rate, capacity, size=100, groups=(groups, 1.0), seed=1, priority="group")
    return Workload(
        policy,
        duration=3_600,
        queues={"orders": {**arguments, **POLICIES[policy]}},
        producers=(p1,),
        consumers=(Consumer("c1", "orders", prefetch=prefetch, service=("exp", service), seed=2),),
    )


def policy_run(*, messages: int = MESSAGES, **settings: float) -> Comparison:
    """Run the same messages into each kind of queue, and return what the lab would show.

    Parameters
    ----------
    messages
        Each run ends when so many have been sent and the rest has been served.
    settings
        As in :func:`policy_workload`, but for `policy`.

    Returns
    -------
    Comparison
        One picture for each of :data:`POLICIES`.

    Raises
    ------
    AmqpException
        The broker's own refusal, if the thresholds do not go together.
    WorkloadError
        If a setting makes no sense whatever the broker says.

    Examples
    --------
    >>> print(policy_run().claims[1])
    ring: p1 sent 150 messages, c1 accepted 57; 93 were thrown out or dropped.
    """
    return finished(policy_steps(messages=messages, **settings))


def policy_steps(*, messages: int = MESSAGES, **settings: float) -> Steps[Comparison]:
    """Do what :func:`policy_run` does, step by step."""
    workloads = {
        policy: policy_workload(**settings, policy=policy)  # type: ignore[arg-type]
        for policy in POLICIES
    }
    return (yield from side_by_side(workloads, messages, _verdict))


def _verdict(picture: Picture) -> str:
    frames = picture.frames
    last = frames.at(-1)
    sent, accepted = last["producer.p1.sent"], last["consumer.c1.accepted"]
    lost = last["queue.orders.discards"]
    said = f"p1 sent {sent} messages, c1 accepted {accepted}"
    if last["queue.orders.gone"]:
        when = seconds(first_time(picture, "queue.orders.gone"))
        return f"{said}; the queue destroyed itself at {when}, and {lost} messages were lost (LP-15)."
    if picture.run.errors:
        when = seconds(death_of(picture, "p1"))
        return f"{said}; the broker refused the last one, and p1's session died at {when} (LP-05)."
    if not lost:
        return f"{said}; none was lost."
    how = "replaced" if frames.topology.queues[0].policy == "last value" else "thrown out or dropped"
    return f"{said}; {lost} were {how}."
