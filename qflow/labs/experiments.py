"""Experiments: small workloads that each demonstrate one behaviour, with the labs in which to try them.

An :class:`Experiment` consists of a function that describes a :class:`~qflow.workload.Workload`, the knobs
that set the parameters of this function, and a function that makes claims about its picture. Its ``…_run``
runs the workload and returns what a lab would show; its ``…_lab`` opens the lab with sliders, the picture and
its claims. A run needs the standard library only; widgets are imported when a lab is opened.

====================  ======================================================================
flow control          one producer that sends in bursts, one steady consumer that is slower
bytes and counts      thresholds in messages and in bytes on the same queue
capacity              how far the windows of two clients overshoot a stop threshold
fanout                three queues, one of them slow, and a producer that waits for all
policies              five ways in which a full queue treats the same messages
history               the alternatives discussed in QPID-2935, on the same workload
====================  ======================================================================

All of them raise the same three errors: ``AmqpException``, the broker's own refusal of thresholds that
contradict each other; ``WorkloadError`` for a number that is invalid whatever the broker says, such as a
capacity of 0; and ``TypeError`` for a setting that the experiment does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from qflow.broker.options import FLOW_CONTROLS, BrokerOptions
from qflow.broker.settings import Argument
from qflow.labs import knobs
from qflow.labs.frames import Frames
from qflow.labs.knobs import Knob, begin, fit_levels
from qflow.labs.picture import Comparison, Picture
from qflow.labs.running import Steps, draw_steps, finish_steps, part_of_steps
from qflow.labs.words import BITS, seconds, share, times
from qflow.workload import Consumer, Producer, Workload

if TYPE_CHECKING:
    from qflow.labs.slider_lab import SliderLab

Shown = TypeVar("Shown", Picture, Comparison)


@dataclass(frozen=True)
class Experiment(Generic[Shown]):
    """A workload that depends on settings, with its knobs; the base of the two kinds of experiments."""

    name: str
    # Returns the workload for given settings; its parameters are the settings that knobs may set.
    describe: Callable[..., Workload]
    # The number of messages that a run sends by default.
    messages: int
    knobs: Sequence[Knob]

    def steps(self, *, messages: int, **settings: Any) -> Steps[Shown]:
        """Run with the given settings, as a generator of steps; see :mod:`qflow.labs.running`."""
        raise NotImplementedError

    def run(self, messages: int, settings: Mapping[str, float]) -> Shown:
        """Run with the given settings to the end, and return the picture or comparison."""
        return finish_steps(self.steps(messages=messages, **settings))

    def open(self, messages: int, settings: Mapping[str, float], more: Sequence[Knob] = ()) -> SliderLab:
        """Open the lab with its sliders at the given settings, and with additional knobs."""
        from qflow.labs.slider_lab import SliderLab

        begins: dict[str, float] = begin(f"{self.name}_lab", self.describe, [*self.knobs, *more], settings)
        shown, kept = [*fit_levels(self.knobs, begins), *more], {"messages": messages}
        return SliderLab(shown, begins, self.steps, name=self.name, more=kept, describe=self.describe)


@dataclass(frozen=True)
class _OneRun(Experiment[Picture]):
    """An experiment that shows one run; its own claims precede the standard claims of the picture."""

    claims: Callable[[Picture], list[str]] = lambda picture: []
    # Changes the picture after the run is complete.
    finish: Callable[[Picture], Picture] = lambda picture: picture

    def steps(self, *, messages: int, **settings: Any) -> Steps[Picture]:
        """Run with the given settings, and yield pictures of the incomplete run on the way."""
        # Claims are made at the end, as they are true only of a complete run.
        picture = yield from draw_steps(self.describe(**settings), messages)
        return self.finish(replace(picture, claims=(*self.claims(picture), *picture.claims)))


@dataclass(frozen=True)
class _SideBySide(Experiment[Comparison]):
    """An experiment that shows runs differing in one setting side by side, with a sentence for each."""

    setting: str
    # The name of each run, keyed by the value of that setting.
    names: Mapping[str, str]
    verdict: Callable[[Picture], str]

    def steps(self, *, messages: int, **settings: Any) -> Steps[Comparison]:
        """Run the workload once for each value of the setting."""
        values = {name: {self.setting: value} for value, name in self.names.items()}
        # All workloads are described before the first is run, so that invalid settings are refused at once.
        workloads = {name: self.describe(**settings, **value) for name, value in values.items()}
        pictures = {}
        for index, (name, workload) in enumerate(workloads.items()):
            pictures[name] = yield from part_of_steps(draw_steps(workload, messages), index, len(workloads))
        said = (f"{name}: {self.verdict(picture)}" for name, picture in pictures.items())
        return Comparison(pictures, tuple(said))


def _one_queue(
    name: str,
    arguments: Mapping[str, Argument],
    producer: Producer,
    prefetch: int,
    service: float,
    options: BrokerOptions | None = None,
) -> Workload:
    """Return a workload of one producer, the queue ``orders`` and the consumer ``c1``."""
    return Workload(
        name,
        duration=3_600,
        queues={"orders": arguments},
        producers=(producer,),
        consumers=(Consumer("c1", "orders", prefetch=prefetch, service=("exp", service), seed=2),),
        options=options or BrokerOptions(),
    )


def _first_death(frames: Frames) -> str:
    """Return the time at which the first session died, as text."""
    return seconds(frames.column("time")[frames.deaths[0].frame])


# Flow control

_BURST = (1.0, 2.2)
"""Seconds of sending and of pause. Without pauses, overdue messages would turn the queue ON again at once."""


def flow_workload(
    *,
    stop: int = 900,
    resume: int = 500,
    limit: int = 1_000,
    capacity: int = 100,
    prefetch: int = 20,
    rate: float = 1_500,
    service: float = 0.004,
    **arguments: Argument,
) -> Workload:
    """Return a workload of a producer that sends in bursts, a queue, and a slower, steady consumer.

    Parameters:
        stop, resume: ``qpid.flow_stop_count`` and ``qpid.flow_resume_count`` of the queue ``orders``.
        limit: ``qpid.max_count`` of the queue; 0 for no limit.
        capacity: The most transfers that the producer ``p1`` may have outstanding.
        prefetch: The most messages that the consumer ``c1`` may hold.
        rate: The messages per second that the producer has to send during a burst, on average.
        service: The seconds that the consumer needs for a message, on average.
        arguments: Further declare arguments of the queue, such as ``**{"qpid.alert_count": 500}``.

    >>> flow_workload(stop=20, resume=10).queues["orders"]["qpid.flow_stop_count"]
    20
    """
    levels = {"qpid.max_count": limit, "qpid.flow_stop_count": stop, "qpid.flow_resume_count": resume}
    p1 = Producer("p1", ("", "orders"), rate=rate, capacity=capacity, size=100, burst=_BURST, seed=1)
    return _one_queue("one producer, one consumer", {**levels, **arguments}, p1, prefetch, service)


FLOW = _OneRun(
    "flow",
    flow_workload,
    2_000,
    (
        *(replace(knob, high=1_200, step=10) for knob in (knobs.STOP, knobs.RESUME, knobs.LIMIT)),
        knobs.CAPACITY,
        knobs.PREFETCH,
        Knob(
            "rate",
            "producer rate (1/s)",
            f"Messages a second due at p1 in a burst, {_BURST[0]:g} s of every {sum(_BURST):g} s (CAP-01)",
            low=100,
            high=3_000,
            step=100,
        ),
        knobs.SERVICE,
    ),
)


def flow_run(*, messages: int = FLOW.messages, **settings: float) -> Picture:
    """Run the flow control experiment, and return its picture.

    Parameters:
        messages: The number of messages to send. The run ends when all of them have been sent, and the queue
            has been emptied.
        settings: The parameters of :func:`flow_workload`.

    Returns:
        The picture of the run; its `claims` describe it in sentences.

    Raises:
        AmqpException: The broker's own refusal, if the thresholds do not go together.
        WorkloadError: If a setting is invalid for a workload.

    >>> print(flow_run())
    orders turned ON twice; first at 0.737 s, when p1-1083 made it 901 messages deep. ...
    >>> flow_run(stop=500, resume=600)
    Traceback (most recent call last):
        ...
    qflow.broker.errors.InvalidArgumentException: invalid-argument: Queue "orders": \
qpid.flow_resume_count=600 must be less or equal to qpid.flow_stop_count=500
    """
    return FLOW.run(messages, settings)


def flow_lab(*, messages: int = FLOW.messages, **settings: float) -> SliderLab:
    """Open the flow control lab: drag a threshold, and see flow control of a queue turn ON and OFF.

    Parameters:
        messages: The number of messages of a run.
        settings: The initial values of the sliders; the parameters of :func:`qflow.labs.flow_workload`. A
            declare argument that is given as a number gets a slider, too: ``**{"qpid.alert_count": 500}``.

    Returns:
        The lab, a widget; its ``claims`` describe the picture. :func:`qflow.labs.flow_run` needs no widgets.

    Raises:
        AmqpException: If the broker refuses the initial settings.
        WorkloadError: If a setting is invalid for a workload.
        TypeError: If the lab has no such setting.

    >>> lab = flow_lab(messages=300, stop=20, resume=10)
    >>> lab.sliders["resume"].value = 30
    >>> print(lab.scene.refusal.splitlines()[0])
    The broker refuses these settings: invalid-argument: Queue "orders": qpid.flow_resume_count=30 \
must be less or equal to qpid.flow_stop_count=20
    """
    tooltip = "An argument of the queue's declaration; the rules page explains each (CF-01)"
    asked = [
        Knob(key, key, tooltip, 0, max(50, 2 * int(value)))
        for key, value in settings.items()
        if key.startswith("qpid.")
    ]
    return FLOW.open(messages, settings, asked)


# Capacity

CLIENTS = ("C1", "C2")
_READER_COMES = 2.5
"""Seconds until the consumer subscribes; both clients wait by then, with the queue at its bound."""


def capacity_workload(
    *,
    capacity_1: int = 50,
    capacity_2: int = 15,
    stop: int = 100,
    resume: int = 90,
    limit: int = 180,
    prefetch: int = 10,
    rate: float = 100,
    service: float = 0.008,
) -> Workload:
    """Return a workload of two clients on one queue, and a consumer that subscribes when both clients wait.

    The two clients are those of an example in the broker's manual.

    Parameters:
        capacity_1, capacity_2: The most transfers that the clients ``C1`` and ``C2`` may have outstanding
            (CAP-01).
        stop, resume, limit, prefetch, rate, service: As in :func:`flow_workload`; `rate` is that of each
            client, and neither client pauses. The consumer, ``reader``, is slower than the clients together.
    """
    arguments = {"qpid.max_count": limit, "qpid.flow_stop_count": stop, "qpid.flow_resume_count": resume}
    capacities = (capacity_1, capacity_2)
    reader = Consumer(
        "reader", "orders", prefetch=prefetch, service=("exp", service), start=_READER_COMES, seed=100
    )
    return Workload(
        "two clients, one queue",
        duration=3_600,
        queues={"orders": arguments},
        producers=tuple(
            Producer(name, ("", "orders"), rate=rate, capacity=capacity, size=100, seed=seed)
            for seed, (name, capacity) in enumerate(zip(CLIENTS, capacities, strict=True), 1)
        ),
        consumers=(reader,),
    )


def _bound(picture: Picture) -> list[str]:
    topology = picture.frames.topology
    queue, windows = topology.queues[0], [spot.capacity for spot in topology.producers]
    if not queue.stop_count:
        return []
    # Producers notice flow control only by missing completions: each may still fill its window.
    terms = (queue.stop_count, *windows)
    bound, limit, died = sum(terms), queue.max_count, len(picture.run.errors)
    deepest = max(picture.frames.column(f"queue.{queue.name}.depth"))
    said = [
        f"The bound is {' + '.join(map(str, terms))} = {bound} messages: stop, and the windows. "
        f"At its deepest, {queue.name} had {deepest}."
    ]
    if limit and bound <= limit:
        said.append(f"No message can be refused: the bound is within the limit of {limit} (CAP-11).")
    elif limit:
        fate = f"{died} of {len(windows)} sessions died of it, although flow control was ON (FC-24)"
        how = fate if died else "this run came off with it"
        said.append(f"The bound is {bound - limit} above the limit of {limit}: {how}.")
    return said


CAPACITY = _OneRun(
    "capacity",
    capacity_workload,
    800,
    (
        knobs.STOP,
        knobs.RESUME,
        knobs.LIMIT,
        *(
            replace(knobs.CAPACITY, setting=f"capacity_{n}", label=f"capacity of {name}")
            for n, name in enumerate(CLIENTS, 1)
        ),
        knobs.PREFETCH,
        knobs.RATE,
        knobs.SERVICE,
    ),
    _bound,
    lambda picture: replace(picture, drawing={**picture.drawing, "law": True}),
)


def capacity_run(*, messages: int = CAPACITY.messages, **settings: float) -> Picture:
    """Run the capacity experiment, and return its picture.

    Its first claims compare the greatest depth of the queue with the bound, which is the stop threshold plus
    the capacities of all producers. The arguments are those of :func:`flow_run`; the settings are those of
    :func:`capacity_workload`.

    >>> print(capacity_run().claims[0])
    The bound is 100 + 50 + 15 = 165 messages: stop, and the windows. At its deepest, orders had 165.
    >>> print(capacity_run(capacity_1=70).claims[1])
    The bound is 5 above the limit of 180: 1 of 2 sessions died of it, although flow control was ON (FC-24).
    """
    return CAPACITY.run(messages, settings)


def capacity_lab(*, messages: int = CAPACITY.messages, **settings: float) -> SliderLab:
    """Open the capacity lab: see how far the windows of two clients overshoot a stop threshold.

    The arguments and errors are those of :func:`flow_lab`, the settings those of :func:`capacity_workload`;
    :func:`capacity_run` needs no widgets.

    >>> lab = capacity_lab(messages=300)
    >>> lab.sliders["capacity_2"].value = 30
    >>> print(lab.claims[0])
    The bound is 100 + 50 + 30 = 180 messages: stop, and the windows. At its deepest, orders had 180.
    """
    return CAPACITY.open(messages, settings)


# Bytes and counts


def bytes_workload(
    *,
    size: int = 200,
    stop: int = 40,
    resume: int = 30,
    stop_size: int = 12_000,
    resume_size: int = 4_000,
    capacity: int = 6,
    prefetch: int = 4,
    rate: float = 40,
    service: float = 0.04,
) -> Workload:
    """Return a workload of a producer, a queue with thresholds in both units, and a slower consumer.

    Parameters:
        size: The bytes of content of each message.
        stop, resume: ``qpid.flow_stop_count`` and ``qpid.flow_resume_count`` of the queue ``orders``.
        stop_size, resume_size: ``qpid.flow_stop_size`` and ``qpid.flow_resume_size``.
        capacity, prefetch, rate, service: As in :func:`flow_workload`; the producer does not pause.
    """
    arguments = {
        "qpid.flow_stop_count": stop,
        "qpid.flow_resume_count": resume,
        "qpid.flow_stop_size": stop_size,
        "qpid.flow_resume_size": resume_size,
    }
    p1 = Producer("p1", ("", "orders"), rate=rate, capacity=capacity, size=round(size), seed=1)
    return _one_queue("messages and bytes", arguments, p1, prefetch, service)


def _verdicts_beside(picture: Picture) -> Picture:
    """Return the picture with a caption on the thresholds beside the tanks of messages and of bytes."""
    frames, size = picture.frames, picture.run.workload.producers[0].size
    verdicts = {"messages": _verdicts(frames, "depth", "count"), "bytes": _verdicts(frames, "bytes", "size")}
    return replace(picture, drawing={"verdicts": verdicts, "size": size})


def _verdicts(frames: Frames, channel: str, unit: str) -> list[tuple[int, str]]:
    """Return captions that compare one unit's level with its threshold, each with its first frame."""
    (queue,) = frames.topology.queues
    stop, resume = getattr(queue, f"stop_{unit}"), getattr(queue, f"resume_{unit}")
    found: list[tuple[int, str]] = []
    columns = (frames.column(f"queue.{queue.name}.{name}") for name in (channel, "flow"))
    for frame, (level, is_on) in enumerate(zip(*columns, strict=True)):
        # While flow control is ON, the resume threshold matters; while it is OFF, the stop threshold.
        if is_on and resume:
            said = f"below {resume:,}" if level < resume else f"not below {resume:,}"
        elif stop:
            said = f"above {stop:,}" if level > stop else f"not above {stop:,}"
        else:
            said = "no threshold"
        if not found or found[-1][1] != said:
            found.append((frame, said))
    return found


def turns_by_unit(picture: Picture) -> tuple[dict[str, int], dict[str, int]]:
    """Count how often each unit turned the queue ON, and was last to fall below its resume threshold."""
    frames = picture.frames
    (queue,) = frames.topology.queues
    on, last = ({"messages": 0, "bytes": 0} for _ in range(2))
    parts = frames.column("step.parts")
    for change in frames.transitions:
        if change.is_on:
            on["bytes" if parts[change.frame] & BITS["turned_on_bytes"] else "messages"] += 1
            continue
        # In the frame before OFF, the unit that is not yet below its resume threshold is the last one.
        before = frames.at(change.frame - 1)
        last["messages"] += before[f"queue.{queue.name}.depth"] >= queue.resume_count > 0
        last["bytes"] += before[f"queue.{queue.name}.bytes"] >= queue.resume_size > 0
    return on, last


def _units(picture: Picture) -> list[str]:
    """Return claims about the units that turned flow control ON, and those that were last to permit OFF."""
    on, last = (
        [f"{unit} {times(number)}" for unit, number in turns.items()] for turns in turns_by_unit(picture)
    )
    said = [f"It turned ON by {', by '.join(on)} (FC-14)."]
    if any(not change.is_on for change in picture.frames.transitions):
        said.append(f"The last to fall below its resume threshold: {', '.join(last)} (FC-16).")
    return said


BYTES = _OneRun(
    "bytes",
    bytes_workload,
    220,
    (
        Knob(
            "size",
            "message size (bytes)",
            "Size of each message's content; the header counts as well (DQ-05)",
            10,
            1_000,
            10,
        ),
        replace(knobs.STOP, high=120),
        replace(knobs.RESUME, high=120),
        Knob(
            "stop_size",
            "qpid.flow_stop_size",
            "More bytes than this on the queue turn it ON (FC-14). 0: no threshold in bytes (FC-08)",
            low=0,
            high=20_000,
            step=100,
        ),
        Knob(
            "resume_size",
            "qpid.flow_resume_size",
            "Fewer bytes than this, and fewer messages than the other resume, turn it OFF again (FC-16)",
            low=0,
            high=20_000,
            step=100,
        ),
        knobs.CAPACITY,
        knobs.PREFETCH,
        knobs.RATE,
        knobs.SERVICE,
    ),
    _units,
    _verdicts_beside,
)


def bytes_run(*, messages: int = BYTES.messages, **settings: float) -> Picture:
    """Run the experiment of messages and bytes, and return its picture.

    Its first claims say how often each unit turned flow control ON, and how often each was the last to fall
    below its resume threshold.
    The arguments are those of :func:`flow_run`; the settings are those of :func:`bytes_workload`.

    >>> for claim in bytes_run().claims[:2]:
    ...     print(claim)
    It turned ON by messages 5 times, by bytes never (FC-14).
    The last to fall below its resume threshold: messages never, bytes 5 times (FC-16).
    """
    return BYTES.run(messages, settings)


def bytes_lab(*, messages: int = BYTES.messages, **settings: float) -> SliderLab:
    """Open the lab of messages and bytes: see which of the two units stops a producer, and which resumes it.

    The arguments and errors are those of :func:`flow_lab`, the settings those of :func:`bytes_workload`;
    :func:`bytes_run` needs no widgets.

    >>> lab = bytes_lab()
    >>> lab.sliders["size"].value = 400
    >>> print(lab.claims[0])
    It turned ON by messages never, by bytes 7 times (FC-14).
    """
    return BYTES.open(messages, settings)


# Fanout

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
    """Return a workload of a producer on ``amq.fanout``, three queues, and a consumer for each of them.

    Parameters:
        stop, resume: ``qpid.flow_stop_count`` and ``qpid.flow_resume_count`` of each queue.
        capacity, prefetch, rate: As in :func:`flow_workload`; the producer does not pause.
        fast, medium, slow: The seconds that the consumer of the queue with that name needs for a message, on
            average.
    """
    arguments = {"qpid.flow_stop_count": stop, "qpid.flow_resume_count": resume}
    paces = dict(zip(QUEUES, (fast, medium, slow), strict=True))
    return Workload(
        "one producer, three queues",
        duration=3_600,
        # All three queues have the same thresholds; only the pace of their consumers differs.
        queues=dict.fromkeys(QUEUES, arguments),
        binds=tuple(("amq.fanout", name, "") for name in QUEUES),
        producers=(Producer("p1", ("amq.fanout", ""), rate=rate, capacity=capacity, size=100, seed=1),),
        consumers=tuple(
            Consumer(f"c-{name}", name, prefetch=prefetch, service=("exp", pace), seed=seed)
            for seed, (name, pace) in enumerate(paces.items(), 2)
        ),
    )


def _blame(picture: Picture) -> list[str]:
    frames = picture.frames
    end = picture.run.time_base
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


FANOUT = _OneRun(
    "fanout",
    fanout_workload,
    800,
    (
        replace(knobs.STOP, high=200),
        replace(knobs.RESUME, high=200),
        knobs.CAPACITY,
        knobs.PREFETCH,
        knobs.RATE,
        *(replace(knobs.SERVICE, setting=name, label=f"service of {name} (ms)") for name in QUEUES),
    ),
    _blame,
)


def fanout_run(*, messages: int = FANOUT.messages, **settings: float) -> Picture:
    """Run the fanout experiment, and return its picture.

    Its first claims say for how much of the time the producer waited and each queue was ON, and which queues
    never turned ON. The arguments are those of :func:`flow_run`; the settings are those of
    :func:`fanout_workload`.

    >>> print(fanout_run(messages=300).claims[0])
    A transfer to three queues is complete when no queue holds it: p1 waited 83 % of the time.
    """
    return FANOUT.run(messages, settings)


def fanout_lab(*, messages: int = FANOUT.messages, **settings: float) -> SliderLab:
    """Open the fanout lab: see how one slow queue delays a producer, and so all other queues.

    The arguments and errors are those of :func:`flow_lab`, the settings those of :func:`fanout_workload`;
    :func:`fanout_run` needs no widgets.

    >>> print(fanout_lab(messages=300).claims[0])
    A transfer to three queues is complete when no queue holds it: p1 waited 83 % of the time.
    """
    return FANOUT.open(messages, settings)


# Policies

POLICIES: dict[str, dict[str, Argument]] = {
    "reject": {"qpid.policy_type": "reject"},
    "ring": {"qpid.policy_type": "ring"},
    "self-destruct": {"qpid.policy_type": "self-destruct"},
    "last value": {"qpid.last_value_queue_key": "group"},
    "priority": {"qpid.priorities": 10, "qpid.policy_type": "ring"},
}
"""The declare arguments of the queue under each policy, besides its limit."""


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
    """Return a workload of a producer, a queue with a limit and a policy, and a slower consumer.

    Parameters:
        policy: A key of :data:`POLICIES`.
        limit: ``qpid.max_count`` of the queue.
        stop: ``qpid.flow_stop_count``, which is also the resume count. 0 for no thresholds, so that the queue
            reaches its limit (FC-08). A ring has no flow control in any case (FC-03).
        capacity, prefetch, rate, service: As in :func:`flow_workload`; the producer does not pause.
        groups: The number of values of the header ``group``, which is the key of a last value queue; on a
            priority queue, a message with a lower value is more urgent.

    >>> policy_workload(policy="ring", limit=5).queues["orders"]
    {'qpid.max_count': 5, 'qpid.flow_stop_count': 0, 'qpid.flow_stop_size': 0, 'qpid.policy_type': 'ring'}
    """
    arguments: dict[str, Argument] = {"qpid.max_count": limit, "qpid.flow_stop_count": stop}
    # With a stop threshold, the resume threshold is the same; without, there is none in bytes either (FC-08).
    arguments["qpid.flow_resume_count" if stop else "qpid.flow_stop_size"] = stop
    to = ("", "orders")
    p1 = Producer("p1", to, rate, capacity, size=100, groups=(groups, 1.0), seed=1, priority="group")
    return _one_queue(policy, {**arguments, **POLICIES[policy]}, p1, prefetch, service)


def _policy_verdict(picture: Picture) -> str:
    frames = picture.frames
    last = frames.at(-1)
    sent, accepted = last["producer.p1.sent"], last["consumer.c1.accepted"]
    lost = last["queue.orders.discards"]
    said = f"p1 sent {sent} messages, c1 accepted {accepted}"
    if last["queue.orders.gone"]:
        when = seconds(frames.spans("queue.orders.gone")[0][0])
        return f"{said}; the queue destroyed itself at {when}, and {lost} messages were lost (LP-15)."
    if picture.run.errors:
        when = _first_death(frames)
        return f"{said}; the broker refused the last one, and p1's session died at {when} (LP-05)."
    if not lost:
        return f"{said}; none was lost."
    how = "replaced" if frames.topology.queues[0].policy == "last value" else "thrown out or dropped"
    return f"{said}; {lost} were {how}."


POLICY = _SideBySide(
    "policy",
    policy_workload,
    150,
    (
        replace(knobs.LIMIT, high=60),
        replace(
            knobs.STOP,
            tooltip="Flow control before the limit is reached (FC-14); 0: none. A ring never has any (FC-03)",
            high=60,
        ),
        knobs.CAPACITY,
        knobs.PREFETCH,
        knobs.RATE,
        knobs.SERVICE,
        Knob(
            "groups", "values of the header", "The last value's keys (QT-01); g1 is most urgent (QT-04)", 1, 8
        ),
    ),
    "policy",
    {name: name for name in POLICIES},
    _policy_verdict,
)


def policy_run(*, messages: int = POLICY.messages, **settings: float) -> Comparison:
    """Send the same messages to a queue of each policy, and return the pictures side by side.

    There is one picture for each of :data:`POLICIES`. The arguments are those of :func:`flow_run`, and apply
    to each run; the settings are those of :func:`policy_workload` except `policy`.

    >>> print(policy_run().claims[1])
    ring: p1 sent 150 messages, c1 accepted 57; 93 were thrown out or dropped.
    """
    return POLICY.run(messages, settings)


def policy_lab(*, messages: int = POLICY.messages, **settings: float) -> SliderLab:
    """Open the policy lab: see five policies of a full queue side by side, with the same messages.

    The arguments and errors are those of :func:`flow_lab`, the settings those of :func:`policy_workload`;
    :func:`policy_run` needs no widgets.

    >>> list(policy_lab(messages=60).picture.pictures)
    ['reject', 'ring', 'self-destruct', 'last value', 'priority']
    """
    return POLICY.open(messages, settings)


# History

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
    """Return a workload of a producer that sends in bursts, a queue, and a slower consumer.

    Parameters:
        stop, resume: ``qpid.flow_stop_count`` and ``qpid.flow_resume_count``. The thresholds in bytes are the
            bytes of that number of messages, as the Java broker has thresholds in bytes only (ALT-12).
        limit: ``qpid.max_count`` of the queue; 0 for no limit.
        capacity, prefetch, rate, service: As in :func:`flow_workload`.
        flow_control: A key of :data:`NAMES`.
    """
    p1 = Producer("p1", ("", "orders"), rate, capacity, SIZE, burst=(0.6, 1.2), seed=1, obeys_flow=True)
    levels: dict[str, Argument] = {
        "qpid.max_count": limit,
        "qpid.flow_stop_count": stop,
        "qpid.flow_resume_count": resume,
        "qpid.flow_stop_size": stop * SIZE,
        "qpid.flow_resume_size": resume * SIZE,
    }
    options = BrokerOptions(flow_control=flow_control, message_size="content")
    return _one_queue(NAMES[flow_control], levels, p1, prefetch, service, options)


def _history_verdict(picture: Picture) -> str:
    frames = picture.frames
    last = frames.at(-1)
    deepest = max(frames.column("queue.orders.depth"))
    waited = share(frames.spans("producer.p1.blocked"), picture.run.time_base)
    sent, accepted = last["producer.p1.sent"], last["consumer.c1.accepted"]
    fate = f"p1 sent {sent}, c1 accepted {accepted}; at most {deepest} deep; p1 waited {waited} of the time"
    if picture.run.errors:
        return f"p1's session died of 506 at {_first_death(frames)}; {fate}."
    return f"no session died; {fate}."


HISTORY = _SideBySide(
    "history",
    history_workload,
    600,
    (
        replace(knobs.STOP, high=150),
        replace(knobs.RESUME, high=150),
        replace(knobs.LIMIT, high=200),
        knobs.CAPACITY,
        knobs.PREFETCH,
        knobs.RATE,
        knobs.SERVICE,
    ),
    "flow_control",
    {kind: NAMES[kind] for kind in FLOW_CONTROLS},
    _history_verdict,
)


def history_run(*, messages: int = HISTORY.messages, **settings: float) -> Comparison:
    """Run the same workload under each design of flow control, and return the pictures side by side.

    There is one picture for each of :data:`NAMES`, beginning with the design that was shipped. The arguments
    are those of :func:`flow_run`; the settings are those of :func:`history_workload` except `flow_control`.

    >>> for claim in history_run(messages=200).claims:
    ...     print(claim)
    shipped in 0.10: ...
    """
    return HISTORY.run(messages, settings)


def history_lab(*, messages: int = HISTORY.messages, **settings: float) -> SliderLab:
    """Open the history lab: see the shipped design, its predecessor and the proposals on one workload.

    The arguments and errors are those of :func:`flow_lab`, the settings those of :func:`history_workload`;
    :func:`history_run` needs no widgets.

    >>> len(history_lab(messages=60).picture.pictures)
    5
    """
    return HISTORY.open(messages, settings)
