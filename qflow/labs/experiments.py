"""The flow control experiment without widgets: settings in, picture and claims out.

The capacity experiment without widgets: how far several windows can overshoot a stop threshold.

The fanout experiment without widgets: one slow queue, and a producer that waits for all of them.

The policy experiment without widgets: what a full queue does, five ways, on one workload.

The history experiment without widgets: QPID-2935's alternatives on one identical workload.
"""

from __future__ import annotations

from dataclasses import replace

from qflow.broker.options import FLOW_CONTROLS, BrokerOptions
from qflow.broker.settings import Argument
from qflow.labs.claims import seconds, share
from qflow.labs.picture import Comparison, Picture
from qflow.labs.running import Steps, death_of, drawing, finished, first_time, side_by_side
from qflow.workload import Consumer, Producer, Workload

FLOW_MESSAGES = 2_000

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


def flow_run(
    workload: Workload | None = None, *, messages: int = FLOW_MESSAGES, **settings: float
) -> Picture:
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
    workload: Workload | None = None, *, messages: int = FLOW_MESSAGES, **settings: float
) -> Steps[Picture]:
    """Do what :func:`flow_run` does, step by step."""
    if workload is None:
        workload = flow_workload(**settings)  # type: ignore[arg-type]
    return (yield from drawing(workload, messages))


CAPACITY_MESSAGES = 1_500


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


def capacity_run(*, messages: int = CAPACITY_MESSAGES, **settings: float) -> Picture:
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


def capacity_steps(*, messages: int = CAPACITY_MESSAGES, **settings: float) -> Steps[Picture]:
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


FANOUT_MESSAGES = 800
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


def fanout_run(*, messages: int = FANOUT_MESSAGES, **settings: float) -> Picture:
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


def fanout_steps(*, messages: int = FANOUT_MESSAGES, **settings: float) -> Steps[Picture]:
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


POLICY_MESSAGES = 150

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


def policy_run(*, messages: int = POLICY_MESSAGES, **settings: float) -> Comparison:
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


def policy_steps(*, messages: int = POLICY_MESSAGES, **settings: float) -> Steps[Comparison]:
    """Do what :func:`policy_run` does, step by step."""
    workloads = {
        policy: policy_workload(**settings, policy=policy)  # type: ignore[arg-type]
        for policy in POLICIES
    }
    return (yield from side_by_side(workloads, messages, _policy_verdict))


def _policy_verdict(picture: Picture) -> str:
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


HISTORY_MESSAGES = 600
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


def history_run(*, messages: int = HISTORY_MESSAGES, **settings: float) -> Comparison:
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


def history_steps(*, messages: int = HISTORY_MESSAGES, **settings: float) -> Steps[Comparison]:
    """Do what :func:`history_run` does, step by step."""
    workloads = {
        NAMES[kind]: history_workload(**settings, flow_control=kind)  # type: ignore[arg-type]
        for kind in FLOW_CONTROLS
    }
    return (yield from side_by_side(workloads, messages, _history_verdict))


def _history_verdict(picture: Picture) -> str:
    frames = picture.frames
    last = frames.at(-1)
    deepest = max(frames.column("queue.orders.depth"))
    waited = share(frames.spans("producer.p1.blocked"), frames.topology.end)
    sent, accepted = last["producer.p1.sent"], last["consumer.c1.accepted"]
    fate = f"p1 sent {sent}, c1 accepted {accepted}; at most {deepest} deep; p1 waited {waited} of the time"
    if picture.run.errors:
        return f"p1's session died of 506 at {seconds(death_of(picture, 'p1'))}; {fate}."
    return f"nobody was thrown out; {fate}."
