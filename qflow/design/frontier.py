"""The frontier: safe settings of a grid, their simulated costs, and those that no other setting beats.

- A **choice** is three shares: of the producers' capacities, of the largest safe stop, and of that stop for
  the resume level.  Whatever the choice, queues with the declare arguments made from it cannot overflow, by
  the bound (CAP-11, :func:`_safe_arguments`).
- Its **costs** are measured in a simulation, not proved: how often queues turn ON, how long producers are
  blocked, how long completions take.
- A simulation **covers** the workload's events: three of its longest bursts and outages, slow spells, and
  single events of a consumer, such as a late start or its death (:func:`cover`).  It predicts nothing beyond.
  If that takes longer than the declared duration, both times are measured (:attr:`Costs.declared`): a single
  event takes a larger share of the shorter one.
- A simulation that needs many messages is first tried **at scale** (:func:`at_scale`): rates, windows, credit
  and limits are divided by a number, and service times multiplied by it.  Times, shares and flips stay about
  the same, but vary more; the chosen setting is then simulated at full scale.
- A **part** is a set of queues and producers that may stop one another.  Parts are independent, so each has a
  frontier of its own, and one simulation serves all parts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product, starmap
from math import ceil, exp
from typing import Any, NamedTuple

from qflow.broker.errors import AmqpException
from qflow.broker.events import Event
from qflow.broker.flow_limit import effective_max_size
from qflow.broker.settings import Argument, QueueSettings
from qflow.design.bounds import (
    DesignError,
    Traffic,
    find_unrouted,
    full_windows,
    judge,
    largest_stop,
    traffic_of,
)
from qflow.progress import Progress
from qflow.table import Tabular, columns_of
from qflow.workload.agenda import SECOND
from qflow.workload.attributes import is_whole
from qflow.workload.many import run_many
from qflow.workload.measures import (
    Measures,
    ProducerMeter,
    QueueMeters,
    latency_measures,
    note_acts,
    wait_measures,
)
from qflow.workload.model import Producer, Workload
from qflow.workload.simulate import Run, expected_messages, simulate, simulate_in_parts

MESSAGE_LIMIT = 5_000
"""The default message limit of a simulation; it is raised if the workload's cycles need more."""

_CYCLES = 3

_LONGEST = 2_000_000
"""The most messages of a simulation that covers a workload; a workload that needs more is refused."""

_A_SECOND = 15_000
"""The approximate speed in messages per second, for the text that estimates a duration."""

ENOUGH = 30_000
MOST = 300_000
"""The most messages of a full-scale simulation, while settings are tried and for the chosen ones."""

JUDGED = 25_000
"""The most messages of a full-scale simulation that is long only because of its declared duration."""

ALONE = 50_000
"""With fewer messages this process simulates alone, as others would take longer to start."""


# Choices

_CAPACITY_SHARES = (1.0, 0.5, 0.25, 0.1)
_STOP_SHARES = (1.0, 0.5)
_RESUME_SHARES = (0.9, 0.6, 0.2)

UNITS = ("count", "size")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a queue, in messages and bytes.

    Parameters:
        count, size: The limits in messages and in bytes; None for the limit that the workload declares.
    """

    count: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        for unit, value in (("count", self.count), ("size", self.size)):
            if value is not None and not is_whole(value, 1):
                raise DesignError(f"max_{unit} must be a whole number from 1, got {value!r}")

    def of(self, settings: QueueSettings) -> dict[str, int]:
        """Return the limit of a queue with the given settings, by unit; 0 for none."""
        return {
            "count": self.count or settings.max_count,
            "size": self.size or settings.max_size or 0,
        }


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice: shares of the capacities, the largest safe stop, and that stop for resume."""

    capacity: float
    stop: float
    resume: float

    def window(self, capacity: int) -> int:
        """Return the new capacity for a declared one."""
        return max(1, int(capacity * self.capacity))


def choices(*, keep_capacities: bool = False) -> Iterator[Choice]:
    """Yield every choice of the grid, beginning with those that change least."""
    capacities = _CAPACITY_SHARES[:1] if keep_capacities else _CAPACITY_SHARES
    yield from starmap(Choice, product(capacities, _STOP_SHARES, _RESUME_SHARES))


def _safe_arguments(
    queue: str, workload: Workload, traffic: Traffic, limits: Limits, choice: Choice
) -> dict[str, Argument] | None:
    """Return declare arguments with which a queue cannot overflow, or None if this choice has none."""
    # Each limited unit stops at a share of :func:`~qflow.design.bounds.largest_stop`, and has an explicit
    # resume level: the broker refuses a stop alone if the default resume is above it (FC-07).  The broker's
    # own byte limit (LP-01) gets thresholds only if its defaults are not safe.
    # `traffic` has the windows of the choice.  For random sizes without an upper limit the largest size seen
    # counts as the largest: that proves nothing in bytes, as the verdict tells.
    arguments = dict(workload.queues[queue])
    settings = QueueSettings.from_arguments(arguments)
    maxima = limits.of(settings)
    for unit, most in maxima.items():
        if getattr(limits, unit):
            arguments[f"qpid.max_{unit}"] = most
        if most and not _stop(arguments, unit, most, traffic, choice):
            return None
    seen = {name: replace(sender, is_drawn=False) for name, sender in traffic.items()}
    if not judge(queue, arguments, seen, workload.options).is_safe:
        default = effective_max_size(QueueSettings.from_arguments(arguments), workload.options)
        if maxima["size"] or not _stop(arguments, "size", default, traffic, choice):
            return None
    return arguments


def _stop(arguments: dict[str, Argument], unit: str, limit: int, traffic: Traffic, choice: Choice) -> bool:
    largest = largest_stop(limit, traffic, unit)
    if largest < 1:
        return False
    stop = max(1, int(largest * choice.stop))
    arguments[f"qpid.flow_stop_{unit}"] = stop
    arguments[f"qpid.flow_resume_{unit}"] = max(1, int(stop * choice.resume))
    return True


def _candidate(
    workload: Workload, queues: Mapping[str, Limits], traffic: Mapping[str, Traffic], choice: Choice
) -> Workload | None:
    """Return the workload with a choice's settings for some queues, or None if they cannot all be safe."""
    designed = dict(workload.queues)
    for queue, limits in queues.items():
        narrow = {
            name: replace(sender, capacity=choice.window(sender.capacity))
            for name, sender in traffic[queue].items()
        }
        arguments = _safe_arguments(queue, workload, narrow, limits, choice)
        if arguments is None:
            return None
        designed[queue] = arguments
    affected = {name for queue in queues for name in traffic[queue]}
    producers = tuple(
        replace(p, capacity=choice.window(p.capacity)) if p.name in affected else p
        for p in workload.producers
    )
    return workload.replace(queues=designed, producers=producers)


# Costs


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of a run for one part of a workload, in the terms of :mod:`qflow.workload.measures`."""

    # How often the queues turned ON, per minute.
    flips_per_minute: float
    # The mean over the producers of the share of time in which they were blocked.
    blocked_share: float
    latency_p50: float | None
    latency_p99: float | None
    max_depth: Mapping[str, int]
    transfers: int
    accepts: int
    seconds: float
    errors: Mapping[str, str]
    # The time that the producers' messages waited for a window, in seconds.
    wait_p50: float | None = None
    wait_p99: float | None = None
    wait_max: float | None = None
    max_bytes: Mapping[str, int] = field(default_factory=dict)
    # Sessions that ended with an error, plus messages that a ring dropped before any consumer accepted them.
    loss: int = 0
    # The divisor of the workload's scale; messages and bytes are given at full scale.
    scale: int = 1
    # The measures of each producer: a goal applies to the worst one.
    producers: Mapping[str, Measures] = field(default_factory=dict)
    # The costs over the declared duration, if the run is longer.
    declared: Costs | None = None

    def objectives(self) -> tuple[float, float, float]:
        """Return the three compared costs: flips, blocked share, and the 99th percentile of completions."""
        return self.flips_per_minute, self.blocked_share, self.latency_p99 or 0.0


class CostMeter:
    """A meter of a run's costs over its time base and, if that is shorter, the declared time."""

    def __init__(self, workload: Workload, end: int, scale: int = 1, declared: float = 0.0) -> None:
        self._workload, self._end, self._scale = workload, max(1, end), scale
        # A run extended to three bursts contains the late start of a consumer only once, so that a goal looks
        # better over the whole run than over the declared duration, for which the users wait.  Two meters
        # measure the same run, as a second run would differ by chance.
        sooner = round(declared * SECOND)
        self._declared = CostMeter(workload, sooner, scale) if 0 < sooner < end else None
        self._queues = QueueMeters(workload, self._end)
        self._producers = {p.name: ProducerMeter(p, workload.duration) for p in workload.producers}
        self.errors: Mapping[str, AmqpException] = {}

    def take(self, events: Iterable[Event]) -> None:
        """Take the next events of the run."""
        self._queues.take(events)
        note_acts(self._producers, events, self._workload, self._end)
        if self._declared is not None:
            self._declared.take(events)

    def costs(self, queues: Collection[str], producers: Iterable[str]) -> Costs:
        """Return the costs for the given queues and producers."""
        end, scale, found = self._end, self._scale, self._queues.measures()
        mine = [found[queue] for queue in queues]
        meters = {name: self._producers[name] for name in producers}
        latencies = [time for meter in meters.values() for time in meter.latencies(end)]
        percentiles = latency_measures(latencies)
        waits = wait_measures([time for meter in meters.values() for time in meter.waits(end)])
        shares = [meter.blocked_share(end) for meter in meters.values()]
        errors = {name: str(error) for name, error in self.errors.items() if name in meters}
        return Costs(
            _sum(mine, "flowStoppedCount") * 60 * SECOND / end,
            sum(shares) / len(shares) if shares else 0.0,
            percentiles["latency_p50"],
            percentiles["latency_p99"],
            {queue: int(found[queue]["max_depth"] or 0) * scale for queue in queues},
            len(latencies) * scale,
            round(_sum(mine, "throughput") * end / SECOND) * scale,
            end / SECOND,
            errors,
            waits["wait_p50"],
            waits["wait_p99"],
            waits["wait_max"],
            {queue: self._queues.max_bytes[queue] * scale for queue in queues},
            len(errors) + sum(map(self._queues.lost, queues)),
            scale,
            {name: meter.measures(end) for name, meter in meters.items()},
            self._declared.costs(queues, meters) if self._declared is not None else None,
        )


def _meter_of(run: Run, scale: int = 1, declared: float = 0.0) -> CostMeter:
    """Return the meter of a run, over its time base."""
    meter = CostMeter(run.workload, run.time_base, scale, declared)
    meter.take(run.events)
    meter.errors = run.errors
    return meter


def meter_run(
    workload: Workload,
    message_limit: int | None,
    scale: int = 1,
    safe: Collection[str] = (),
    declared: float = 0.0,
) -> CostMeter:
    """Return the meter of a workload's run at scale; without a message limit events are not stored."""
    if scale > 1:
        workload = at_scale(workload, scale, safe)
    if message_limit is not None:
        return _meter_of(simulate(workload, message_limit=max(1, message_limit // scale)), scale, declared)
    meter = CostMeter(workload, round(workload.duration * SECOND), scale, declared)
    meter.errors = simulate_in_parts(workload, meter.take).errors
    return meter


def _sum(found: Iterable[Measures], measure: str) -> float:
    return sum(measures[measure] or 0 for measures in found)


# The cycles that a simulation covers


def cover(workload: Workload, message_limit: int | None = MESSAGE_LIMIT) -> tuple[Workload, int | None]:
    """Return the workload with a duration long enough for its cycles, and the message limit for it.

    >>> p = Producer("p", ("", "q"), rate=400, capacity=20, size=100, burst=(20, 20))
    >>> longer, limit = cover(Workload("bursts", 4, {"q": {}}, producers=(p,)))
    >>> longer.duration, limit
    (120, None)
    """
    # A limit given by the caller, and recorded arrivals, are not changed.
    needed, what = max(_needs(workload), default=_Need(0.0, ""))
    is_given = message_limit != MESSAGE_LIMIT or any(p.arrival == "recorded" for p in workload.producers)
    if not needed or is_given:
        return workload, message_limit
    messages = messages_to_cover(workload)
    if messages > _LONGEST:
        raise DesignError(
            f"to cover {what}, a simulation lasts {needed:g} s and sends {messages:,.0f} messages, more than "
            f"{_LONGEST:,}, and would take {messages / _A_SECOND / 60:,.0f} minutes or so; say how many it "
            "is to send (--messages), or give the workload a shorter cycle"
        )
    if messages <= MESSAGE_LIMIT:
        return workload.replace(duration=max(needed, workload.duration)), message_limit
    return workload.replace(duration=needed), None


def cover_declared(
    covered: Workload, declared: float, message_limit: int | None
) -> tuple[Workload, int | None]:
    """Return the workload and message limit for the declared duration, if the covering one is shorter."""
    # A limit given by the caller is kept.  Waits of an overloaded producer grow with time: a run of the first
    # 5,000 messages once kept goals that the declared duration misses.  The grid is not simulated that long,
    # as it only ranks the choices.
    duration = max(covered.duration, declared)
    sent = sum(expected_messages(producer, duration) for producer in covered.producers)
    is_long = message_limit is None or (message_limit == MESSAGE_LIMIT and sent > MESSAGE_LIMIT)
    if not is_long:
        return covered, message_limit
    room = MOST * scale_of(covered.replace(duration=duration), {}, JUDGED)
    return covered.replace(duration=max(covered.duration, duration * min(1.0, room / sent))), None


def messages_to_cover(workload: Workload) -> float:
    """Return the number of messages needed to cover a workload; 0 if any number suffices."""
    needed = max(_needs(workload), default=_Need(0.0, "")).seconds
    return sum(expected_messages(producer, needed) for producer in workload.producers) if needed else 0.0


class _Need(NamedTuple):
    """The seconds of simulation that a cycle or a single event needs, and its description."""

    seconds: float
    what: str


def _needs(workload: Workload) -> Iterator[_Need]:
    """Yield the need of each cycle and single event of a workload."""
    for producer in workload.producers:
        if producer.burst and producer.burst[1]:
            cycle = sum(producer.burst)
            yield _Need(_CYCLES * cycle, f"{_CYCLES} bursts of {producer.name}, {cycle:g} s each with pauses")
    for consumer in workload.consumers:
        for begin, end, _ in consumer.slow:
            # The same time again, in which the queue recovers.
            yield _Need(2 * end - begin, f"a slow spell of {consumer.name}, from {begin:g} to {end:g} s")
        if consumer.outage is not None:
            # Random outages differ in length, and some are much longer.
            times = _CYCLES * (3 if consumer.outage[0] == "exp" else 1)
            every = float(consumer.outage[-2])
            yield _Need(times * every, f"{times} outages of {consumer.name}, one in {every:g} s")
        for second, what in ((consumer.start, "begin"), (consumer.crash or 0.0, "end")):
            if second:
                # The same time after the event as before it, or its effect on shares and rates would be
                # small.
                yield _Need(2 * second, f"the {what} of {consumer.name}, after {second:g} s")


# At scale


def at_scale(workload: Workload, scale: int, safe: Collection[str] = ()) -> Workload:
    """Return a workload with the same behaviour over the same time, but fewer messages.

    >>> from qflow.workload import Consumer
    >>> p = Producer("p", ("", "q"), rate=400, capacity=20, size=100)
    >>> c = Consumer("c", "q", prefetch=8, service=("const", 0.001))
    >>> small = at_scale(Workload("w", 9, {"q": {"qpid.max_count": 500}}, (), (p,), (c,)), 4)
    >>> small.producers[0].rate, small.producers[0].capacity, small.consumers[0].service, small.queues
    (100.0, 5, ('const', 0.004), {'q': {'qpid.max_count': 125}})
    """

    def part(value: int) -> int:
        return max(1, value // scale)

    def arguments_of(queue: str) -> dict[str, Argument]:
        # A reduced window still has at least one message, which may exceed a reduced limit; so queues that
        # are proved safe keep their limits.
        levels = "qpid.flow_" if queue in safe else ("qpid.max_", "qpid.flow_")
        return {
            key: part(value) if key.startswith(levels) and isinstance(value, int) and value else value
            for key, value in workload.queues[queue].items()
        }

    def longer(seconds: float | tuple[float, ...]) -> float | tuple[float, ...]:
        return tuple(time * scale for time in seconds) if isinstance(seconds, tuple) else seconds * scale

    options = replace(workload.options, default_queue_limit=workload.options.default_queue_limit // scale)
    return workload.replace(
        queues={queue: arguments_of(queue) for queue in workload.queues},
        options=options,
        producers=tuple(
            # Rates, windows and limits are reduced, times are not: a burst, a latency and a time to live mean
            # the same at scale. A message cannot be reduced, so with few messages shares have coarse steps.
            replace(p, rate=p.rate / scale, capacity=max(1, round(p.capacity / scale)))
            for p in workload.producers
        ),
        consumers=tuple(
            replace(c, prefetch=part(c.prefetch), service=(c.service[0], longer(c.service[1])))
            for c in workload.consumers
        ),
    )


def scale_of(workload: Workload, limits: Mapping[str, Limits], messages: int = ENOUGH) -> int:
    """Return the divisor at which a workload sends about ``messages``; 1 if it cannot be reduced."""
    # A client's own costs and recorded messages cannot be reduced.
    is_own = any(p.network or p.arrival == "recorded" for p in workload.producers)
    if is_own or any(c.network or c.overhead for c in workload.consumers):
        return 1
    expected = sum(expected_messages(producer, workload.duration) for producer in workload.producers)
    # The smallest divisor counts: the one for the number of messages could leave a small queue with three
    # places, where ON and OFF are no longer comparable with those at full size.
    scales, size = [ceil(expected / messages)], _mean_size(workload.producers)
    for queue, arguments in workload.queues.items():
        most = limits.get(queue, Limits()).of(QueueSettings.from_arguments(arguments))
        # Each queue keeps room for at least a hundred messages.
        scales += [room // 100 for room in (most["count"], round(most["size"] / size)) if room]
    return max(1, min(scales))


def _mean_size(producers: Iterable[Producer]) -> float:
    """Return the approximate mean message size of the producer with the largest messages, in bytes."""
    sizes = (p.size if isinstance(p.size, int) else exp(p.size[0] + p.size[1] ** 2 / 2) for p in producers)
    return max(1.0, *sizes, 0.0)


# Parts


@dataclass(frozen=True, slots=True)
class Part:
    """Queues and producers that depend on one another: a stop of one queue may stop all producers."""

    queues: tuple[str, ...]
    producers: tuple[str, ...]


def parts_of(traffic: Mapping[str, Traffic], sessions: Mapping[str, str] | None = None) -> list[Part]:
    """Return the independent parts of the traffic, in the order of their first queues."""
    # Two queues belong to one part if a producer sends to both, as they share its window.  So do two
    # producers on one session, whose commands are counted together (CAP-09); ``sessions`` maps producers to
    # sessions.
    linked: dict[str, set[str]] = {}
    for queue, senders in traffic.items():
        ties = {f"q {queue}"} | {f"p {name}" for name in senders}
        ties |= {f"s {sessions[name]}" for name in senders if sessions and name in sessions}
        merged = set().union(ties, *(linked[tie] for tie in ties if tie in linked))
        for tie in merged:
            linked[tie] = merged
    parts: dict[int, set[str]] = {id(ties): ties for ties in (linked[f"q {name}"] for name in traffic)}
    senders_in_order = list(dict.fromkeys(name for senders in traffic.values() for name in senders))
    return [
        Part(
            tuple(name for name in traffic if f"q {name}" in ties),
            tuple(name for name in senders_in_order if f"p {name}" in ties),
        )
        for ties in parts.values()
    ]


# The frontier


@dataclass(frozen=True, slots=True)
class FrontierRow:
    """A choice for one part of a workload, with its simulated costs."""

    part: Part
    choice: Choice
    # The declare arguments by queue, and the capacities by producer.
    arguments: Mapping[str, Mapping[str, Argument]]
    capacities: Mapping[str, int]
    costs: Costs
    # Whether no other choice is as good in all of :meth:`Costs.objectives` and better in at least one.
    is_pareto: bool = False


_COLUMNS = (
    *("queues", "capacity", "stop", "resume"),
    *("flips_per_minute", "blocked_share", "latency_p99", "wait_p99", "max_depth", "is_pareto"),
)
"""The columns of a :class:`Frontier`: queues, shares, costs, and whether no other choice beats the row."""


class Frontier(Tabular, list[FrontierRow]):
    """The rows that :func:`frontier` returns, displayed as a table of choices and costs."""

    SHOWN = 40

    def columns(self, start: int = 0, end: int | None = None) -> dict[str, list[Any]]:
        """Return the columns that :data:`_COLUMNS` names, or a slice of their rows."""
        rows = [
            (
                ", ".join(row.part.queues),
                row.choice.capacity,
                row.choice.stop,
                row.choice.resume,
                *row.costs.objectives(),
                row.costs.wait_p99,
                max(row.costs.max_depth.values(), default=0),
                row.is_pareto,
            )
            for row in self[start:end]
        ]
        return columns_of(rows, _COLUMNS)

    is_whole = True
    """Whether all choices were simulated; after Ctrl-C only some were."""

    def __repr__(self) -> str:
        return f"Frontier({len(self)} choices, {sum(row.is_pareto for row in self)} of them on the frontier)"


def frontier(
    workload: Workload,
    limits: Mapping[str, Limits] | None = None,
    *,
    keep_capacities: bool = False,
    message_limit: int | None = MESSAGE_LIMIT,
    progress: Progress | None = None,
) -> Frontier:
    """Simulate every safe choice of a grid, and mark the undominated ones.

    Every row is safe by the bound (CAP-11), independently of the simulation, which measures the costs.

    Parameters:
        workload: The workload with queues, producers and consumers.
        limits: The limits of each queue by name. An omitted queue keeps its declared limits. A queue without
            limits, with the policy ring, or that no producer's messages reach is left unchanged.
        keep_capacities: Whether the producers' windows are kept unchanged.
        message_limit: The messages of each simulation; None for all that fall due.  If it is not given, it
            and the duration are raised to cover the workload's cycles (:func:`cover`).
        progress: A function that is called with the number of finished simulations.

    Returns:
        A list of :class:`FrontierRow`, part by part, in the order of the grid: the smallest changes first.

    Raises:
        DesignError: If no queue that messages reach has a limit, no choice is safe, or a simulation would
            be too long.
        AmqpException: The broker's own refusal of a queue or a binding.

    >>> from qflow.workload import Consumer, Producer
    >>> producers = (Producer("p", ("", "q"), rate=400, capacity=20, size=100),)
    >>> consumers = (Consumer("c", "q", prefetch=5, service=("const", 0.004)),)
    >>> workload = Workload("small", 1, {"q": {}}, producers=producers, consumers=consumers)
    >>> rows = frontier(workload, {"q": Limits(count=100)}, keep_capacities=True)
    >>> len(rows), rows[0].arguments["q"]["qpid.flow_stop_count"], any(row.is_pareto for row in rows)
    (6, 80, True)
    """
    covered, limit = cover(workload, message_limit)
    trials = Trials(covered, limits or {}, limit, keep_capacities=keep_capacities, declared=workload.duration)
    return trials.frontier(progress)


class Trials:
    """Simulations of choices for the parts of a workload; each simulates one choice for all parts."""

    def __init__(
        self,
        workload: Workload,
        limits: Mapping[str, Limits],
        message_limit: int | None,
        *,
        keep_capacities: bool = False,
        declared: float = 0.0,
        messages: int = ENOUGH,
    ) -> None:
        self._workload, self._keep, self.traffic = workload, keep_capacities, traffic_of(workload)
        self._designed = _choose_queues(workload, limits, self.traffic)
        self.parts = parts_of(self.traffic, {p.name: p.session for p in workload.producers if p.session})
        scale = scale_of(workload, self._designed, messages) if message_limit is None else 1
        self._tried = partial(
            _rows, workload, self._designed, self.traffic, self.parts, message_limit, scale, declared
        )

    def frontier(self, progress: Progress | None = None) -> Frontier:
        """Simulate the grid, and mark the undominated choices."""
        rows, is_whole = self.rows(self._grid(), progress)
        made = Frontier(row for part in self.parts for row in mark([row for row in rows if row.part == part]))
        made.is_whole = is_whole
        return made

    def rows(self, grid: Sequence[Choice], progress: Progress | None) -> tuple[list[FrontierRow], bool]:
        """Return the rows of the given choices in order, and whether all choices were simulated."""
        return _all_rows(self._tried, grid, progress)

    def _grid(self) -> list[Choice]:
        """Return the choices to simulate, with smaller windows if no choice is safe for a part."""
        grid = list(choices(keep_capacities=self._keep))
        for part in self.parts:
            mine = {queue: self._designed[queue] for queue in part.queues if queue in self._designed}
            if mine and not any(self._is_safe(mine, choice) for choice in grid):
                largest = 0.0 if self._keep else self._largest_share(mine)
                if not largest:
                    raise DesignError(_no_room(part, self._designed, self.traffic, self._keep))
                grid += [replace(choice, capacity=largest * choice.capacity) for choice in choices()]
        return grid

    def _is_safe(self, queues: Mapping[str, Limits], choice: Choice) -> bool:
        return _candidate(self._workload, queues, self.traffic, choice) is not None

    def _largest_share(self, queues: Mapping[str, Limits]) -> float:
        """Return the largest share of the capacities that is safe with any stop; 0 for none."""
        # A bisection works, as a safe choice stays safe with smaller windows.  A share of 1e-9 makes every
        # window one message, the smallest possible.
        low, high = 1e-9, _CAPACITY_SHARES[-1]
        if not self._is_safe(queues, Choice(low, 1.0, _RESUME_SHARES[0])):
            return 0.0
        for _ in range(20):
            middle = (low + high) / 2
            is_safe = self._is_safe(queues, Choice(middle, 1.0, _RESUME_SHARES[0]))
            low, high = (middle, high) if is_safe else (low, middle)
        return low


def near(choice: Choice, *, keep_capacities: bool) -> list[Choice]:
    """Return the neighbours of a choice: windows, stop and resume level one step lower or higher."""
    windows = () if keep_capacities else (choice.capacity / 4, choice.capacity / 2, choice.capacity * 2)
    return [
        *(replace(choice, capacity=min(1.0, share)) for share in windows),
        *(replace(choice, stop=min(1.0, share)) for share in (choice.stop * 0.7, choice.stop * 1.4)),
        # The steps are smaller nearer to the stop.
        *(replace(choice, resume=share) for share in (choice.resume / 2, 0.75 + choice.resume / 4)),
    ]


def safe_by_bound(
    workload: Workload, limits: Mapping[str, Limits], *, keep_capacities: bool = False
) -> Workload | None:
    """Return the workload with the first safe settings of the grid, or None; nothing is simulated."""
    traffic = traffic_of(workload)
    designed = _choose_queues(workload, limits, traffic)
    grid = choices(keep_capacities=keep_capacities)
    return next(filter(None, (_candidate(workload, designed, traffic, choice) for choice in grid)), None)


def _all_rows(
    tried: Callable[[Choice], list[FrontierRow]], grid: Sequence[Choice], progress: Progress | None
) -> tuple[list[FrontierRow], bool]:
    """Return the rows of all choices in order, and whether all were simulated (no Ctrl-C)."""
    first, rest = tried(grid[0]), grid[1:]
    if progress is not None:
        progress(1, len(grid))
    sent = max((row.costs.transfers // row.costs.scale for row in first), default=0)
    processes = 1 if sent * len(grid) < ALONE else None
    found: dict[int, list[FrontierRow]] = {}
    is_whole = True
    try:
        with closing(run_many(tried, rest, processes=processes)) as results:
            for done, (place, rows) in enumerate(results, 2):
                found[place] = rows
                if progress is not None:
                    progress(done, len(grid))
    except KeyboardInterrupt:
        if not any((first, *found.values())):
            raise
        is_whole = False
    return [*first, *(row for place in sorted(found) for row in found[place])], is_whole


def _choose_queues(
    workload: Workload, limits: Mapping[str, Limits], traffic: Mapping[str, Traffic]
) -> dict[str, Limits]:
    """Return the queues to design, each with its limits."""
    for queue in limits:
        if queue not in workload.queues:
            raise DesignError(f"no queue {queue!r}; the workload has {', '.join(workload.queues) or 'none'}")
    designed: dict[str, Limits] = {}
    for queue, arguments in workload.queues.items():
        most, settings = limits.get(queue, Limits()), QueueSettings.from_arguments(arguments)
        # A ring drops messages and never stops its producers (FC-03).
        if any(most.of(settings).values()) and settings.policy != "ring":
            designed[queue] = most
    if not designed:
        raise DesignError(
            "there is nothing to design: no queue that could stop its producers has a limit; give one, "
            "such as --max-count 500"
        )
    reached = {queue: most for queue, most in designed.items() if traffic[queue]}
    if not reached:
        astray = "; ".join(find_unrouted(workload, traffic).values())
        raise DesignError(
            f"there is nothing to design: no producer's messages reach {', '.join(designed)}"
            + (f"; {astray}" if astray else "")
        )
    return reached


def _rows(
    workload: Workload,
    designed: Mapping[str, Limits],
    traffic: Mapping[str, Traffic],
    parts: Sequence[Part],
    message_limit: int | None,
    scale: int,
    declared: float,
    choice: Choice,
) -> list[FrontierRow]:
    """Simulate a choice for all parts at once; parts without safe settings stay unchanged and get no row."""
    changed, used = workload, []
    for part in parts:
        mine = {queue: designed[queue] for queue in part.queues if queue in designed}
        made = _candidate(changed, mine, traffic, choice) if mine else None
        if made is not None:
            changed = made
            used.append(part)
    if not used:
        return []
    safe = [queue for part in used for queue in part.queues if queue in designed]
    meter = meter_run(changed, message_limit, scale, safe, declared)
    windows = {producer.name: producer.capacity for producer in changed.producers}
    return [
        FrontierRow(
            part,
            choice,
            {queue: changed.queues[queue] for queue in part.queues if queue in designed},
            {name: windows[name] for name in part.producers},
            meter.costs(part.queues, part.producers),
        )
        for part in used
    ]


def mark(rows: Sequence[FrontierRow]) -> list[FrontierRow]:
    """Return the rows of a part with the undominated ones marked, without repeated settings."""
    # Among rows with the same settings or costs the first one wins, as it changes least.
    different: dict[str, FrontierRow] = {}
    for row in rows:
        different.setdefault(repr((row.arguments, row.capacities)), row)
    kept = list(different.values())
    costs = [row.costs.objectives() for row in kept]
    return [
        replace(row, is_pareto=not any(_beats(costs, other, place) for other in range(len(kept))))
        for place, row in enumerate(kept)
    ]


def _beats(costs: Sequence[tuple[float, ...]], one: int, other: int) -> bool:
    """Return whether one row dominates another: as good in all costs, and better in one or listed before."""
    is_as_good = all(a <= b for a, b in zip(costs[one], costs[other], strict=True))
    return is_as_good and (costs[one] != costs[other] or one < other)


def best(rows: Sequence[FrontierRow]) -> FrontierRow:
    """Return the undominated row whose costs are closest to the ideal."""
    # Each of the three costs is scaled to the range from 0, the least on the frontier, to 1, the greatest;
    # the row with the smallest sum wins, and among equals the first, which changes least.
    found = [row for row in rows if row.is_pareto]
    columns = list(zip(*(row.costs.objectives() for row in found), strict=True))
    spans = [(min(column), max(column) - min(column)) for column in columns]

    def distance(row: FrontierRow) -> float:
        measured = zip(row.costs.objectives(), spans, strict=True)
        return sum(((cost - least) / span for cost, (least, span) in measured if span), 0.0)

    return min(found, key=distance)


def _no_room(
    part: Part, designed: Collection[str], traffic: Mapping[str, Traffic], keep_capacities: bool
) -> str:
    windows = {queue: full_windows(traffic[queue]) for queue in part.queues if queue in designed}
    needs = [
        f"{queue} needs room for {count} messages of windows, {size} bytes, and a stop"
        for queue, (count, size) in windows.items()
        if count
    ]
    change = "let the capacities change" if keep_capacities else "use fewer producers"
    tried = "" if keep_capacities else ", and so do windows of one message each"
    return (
        f"no thresholds are safe: the windows fill the limit before anything can stop ({'; '.join(needs)})"
        f"{tried}; raise the limit, or {change}"
    )
