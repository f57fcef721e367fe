"""The frontier: safe settings of a grid, what each costs in a simulation, and which are beaten by no other.

- A **choice** turns three dials, each a share: of the producers' capacities, of the largest stop that is
  safe, and of that stop for the resume level.  Whatever a choice, the declare arguments made from it cannot
  overflow, by the bound (CAP-11, :func:`_safe_arguments`).
- Its **costs** are measured, not proved: how often queues turn ON, how long producers are blocked, how long
  completions take.
- A simulation **covers** what the workload does: three of its longest bursts, slow spells, and what a
  consumer does once, such as coming late or dying (:func:`cover`).  It says nothing of what comes after.
- A **part** is a set of queues and producers that may stop one another.  Parts know nothing of each other, so
  each has a frontier of its own, and one simulation serves all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from qflow.broker.flow_limit import effective_max_size
from qflow.broker.settings import Argument, QueueSettings
from qflow.design.bounds import Traffic, find_unrouted, largest_stop, traffic_of
from qflow.design.small import DesignError
from qflow.design.verdict import judge
from qflow.progress import Progress
from qflow.table import Tabular, columns_of
from qflow.workload.agenda import SECOND
from qflow.workload.many import run_many
from qflow.workload.measures import Measures, acts_of, latency_measures, meters_of, queue_measures
from qflow.workload.model import Workload
from qflow.workload.run import Run
from qflow.workload.simulate import MOST_MESSAGES, expected_messages, simulate
from qflow.workload.stage import GRACE

MESSAGE_LIMIT = 5_000
"""Messages a simulation sends at most, unless given otherwise; more where it has to cover more."""

_CYCLES = 3

ALONE = 50_000
"""Messages: fewer than that are simulated here, before other processes would have begun."""


# Choices

_CAPACITY_SHARES = (1.0, 0.5, 0.25, 0.1)
_STOP_SHARES = (1.0, 0.5)
_RESUME_SHARES = (0.9, 0.6, 0.2)

UNITS = ("count", "size")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a queue may hold.

    Parameters:
        count, size: Messages and bytes; None: as the workload declares it.
    """

    count: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        for unit, value in (("count", self.count), ("size", self.size)):
            if value is not None and (type(value) is not int or value < 1):
                raise DesignError(f"max_{unit} must be a whole number from 1, got {value!r}")


@dataclass(frozen=True, slots=True)
class Choice:
    """Three shares: of the capacities, of the largest safe stop, and of the stop for the resume level."""

    capacity: float
    stop: float
    resume: float

    def window(self, capacity: int) -> int:
        """Return the capacity instead of a given one."""
        return max(1, int(capacity * self.capacity))


def choices(*, keep_capacities: bool = False) -> Iterator[Choice]:
    """Yield every choice of the grid, those that change least first."""
    capacities = _CAPACITY_SHARES[:1] if keep_capacities else _CAPACITY_SHARES
    for capacity, stop, resume in product(capacities, _STOP_SHARES, _RESUME_SHARES):
        yield Choice(capacity, stop, resume)


def _safe_arguments(
    queue: str,
    workload: Workload,
    traffic: Traffic,
    limits: Limits,
    choice: Choice,
) -> dict[str, Argument] | None:
    """Return declare arguments with which a queue cannot overflow; None if this choice has none.

    >>> from qflow.design.bounds import TrafficSource
    >>> workload = Workload("w", 1, {"q": {}})
    >>> traffic = {"p": TrafficSource(20, 150)}
    >>> _safe_arguments("q", workload, traffic, Limits(count=100), Choice(1.0, 1.0, 0.5))
    {'qpid.max_count': 100, 'qpid.flow_stop_count': 80, 'qpid.flow_resume_count': 40}
    """
    # Each limited unit stops at a share of :func:`~qflow.design.bounds.largest_stop`, and says its resume
    # level too: a stop alone is refused if the default resume is above it (FC-07).  The broker's own byte
    # limit (LP-01) gets thresholds only if its defaults are not safe.
    # The traffic is that of producers with the windows of the choice.  Of sizes that are drawn, and have no
    # largest, the largest that was seen is taken for it: that proves nothing in bytes, as the verdict says.
    arguments = dict(workload.queues[queue])
    settings = QueueSettings.from_arguments(arguments)
    maxima = {
        "count": limits.count or settings.max_count,
        "size": limits.size or settings.max_size or 0,
    }
    given = {"count": limits.count, "size": limits.size}
    for unit in UNITS:
        if given[unit]:
            arguments[f"qpid.max_{unit}"] = given[unit]
        if maxima[unit] and not _stop(arguments, unit, maxima[unit], traffic, choice):
            return None
    seen = {name: replace(sender, is_drawn=False) for name, sender in traffic.items()}
    if not judge(queue, arguments, seen, workload.options).is_safe:
        settings = QueueSettings.from_arguments(arguments)
        default = effective_max_size(settings, workload.options)
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


def _is_designed(queue: str, workload: Workload, limits: Limits) -> bool:
    """Return whether a queue has a limit, and a policy that lets flow control act before it (FC-03)."""
    settings = QueueSettings.from_arguments(workload.queues[queue])
    has_limit = limits.count or limits.size or settings.max_count or settings.max_size
    return bool(has_limit) and settings.policy != "ring"


def candidate(
    workload: Workload,
    queues: Mapping[str, Limits],
    traffic: Mapping[str, Traffic],
    choice: Choice,
) -> Workload | None:
    """Return the workload with the settings of a choice for some queues; None if they cannot all be safe."""
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
    """What a run cost one part of a workload, in the terms of :mod:`qflow.workload.measures`."""

    # How often its queues turned ON.
    flips_per_minute: float
    # The mean over the producers.
    blocked_share: float
    latency_p50: float | None
    latency_p99: float | None
    max_depth: Mapping[str, int]
    transfers: int
    accepts: int
    seconds: float
    errors: Mapping[str, str]

    def objectives(self) -> tuple[float, float, float]:
        """Return the three costs that are compared: flips, blocked share, and the slowest completions."""
        return self.flips_per_minute, self.blocked_share, self.latency_p99 or 0.0


def costs(run: Run, queues: Collection[str], producers: Iterable[str]) -> Costs:
    """Return what a run cost some queues and producers, over the time in which messages fell due."""
    end = max(1, min(run.end - GRACE, round(run.workload.duration * SECOND)))
    found = queue_measures(run.events, run.workload, end)
    mine = [found[queue] for queue in queues]
    meters = meters_of(acts_of(run.events, run.workload.producers), producers, end)
    latencies = [time for meter in meters.values() for time in meter.latencies(end)]
    percentiles = latency_measures(latencies)
    shares = [meter.blocked_share(end) for meter in meters.values()]
    return Costs(
        _sum(mine, "flowStoppedCount") * 60 * SECOND / end,
        sum(shares) / len(shares) if shares else 0.0,
        percentiles["latency_p50"],
        percentiles["latency_p99"],
        {queue: int(found[queue]["max_depth"] or 0) for queue in queues},
        len(latencies),
        round(_sum(mine, "throughput") * end / SECOND),
        end / SECOND,
        {name: str(error) for name, error in run.errors.items() if name in meters},
    )


def _sum(found: Iterable[Measures], measure: str) -> float:
    return sum(measures[measure] or 0 for measures in found)


# What a simulation covers


def cover(workload: Workload, message_limit: int | None = MESSAGE_LIMIT) -> tuple[Workload, int | None]:
    """Return a workload that lasts as long as what it does needs, and how many messages a simulation sends.

    Another limit than :data:`MESSAGE_LIMIT`, and recorded arrivals, are left as they are.

    Raises:
        DesignError: If that is more than a simulation can keep
            (:data:`~qflow.workload.simulate.MOST_MESSAGES`); the text says how much.

    >>> from qflow.workload import Producer
    >>> p = Producer("p", ("", "q"), rate=400, capacity=20, size=100, burst=(20, 20))
    >>> longer, limit = cover(Workload("bursts", 4, {"q": {}}, producers=(p,)))
    >>> longer.duration, limit
    (120, None)
    """
    needed, what = max(_needs(workload), default=(0.0, ""))
    is_given = message_limit != MESSAGE_LIMIT or any(p.arrival == "recorded" for p in workload.producers)
    if not needed or is_given:
        return workload, message_limit
    messages = sum(expected_messages(producer, needed) for producer in workload.producers)
    if messages > MOST_MESSAGES:
        raise DesignError(
            f"to cover {what}, a simulation lasts {needed:g} s and sends {messages:,.0f} messages, more than "
            f"{MOST_MESSAGES:,}; say how many it is to send, or give the workload a shorter cycle"
        )
    if messages <= MESSAGE_LIMIT:
        return workload.replace(duration=max(needed, workload.duration)), message_limit
    return workload.replace(duration=needed), None


def _needs(workload: Workload) -> Iterator[tuple[float, str]]:
    """Yield how many seconds each thing needs that a workload does, and what that is."""
    for producer in workload.producers:
        if producer.burst and producer.burst[1]:
            cycle = sum(producer.burst)
            yield _CYCLES * cycle, f"{_CYCLES} bursts of {producer.name}, {cycle:g} s each with what follows"
    for consumer in workload.consumers:
        for begin, end, _ in consumer.slow:
            # As long again, in which the queue recovers.
            yield 2 * end - begin, f"a slow spell of {consumer.name}, from {begin:g} to {end:g} s"
        for second, what in ((consumer.start, "begin"), (consumer.crash or 0.0, "end")):
            if second:
                yield 2 * second, f"the {what} of {consumer.name}, after {second:g} s"


# Parts


@dataclass(frozen=True, slots=True)
class Part:
    """Queues and producers that depend on one another: what stops one may stop all."""

    queues: tuple[str, ...]
    producers: tuple[str, ...]


def parts_of(traffic: Mapping[str, Traffic], sessions: Mapping[str, str] | None = None) -> list[Part]:
    """Return the parts of the traffic to some queues, in the order of their first queues.

    >>> from qflow.design.bounds import TrafficSource
    >>> p, r = {"p": TrafficSource(1)}, {"r": TrafficSource(1)}
    >>> parts_of({"a": p, "b": r, "c": {**p}})
    [Part(queues=('a', 'c'), producers=('p',)), Part(queues=('b',), producers=('r',))]
    """
    # Two queues belong together if a producer sends to both: its window is shared.  So do two producers on
    # one session, whose commands are counted together (CAP-09); ``sessions`` has its name for each of them.
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
    """One choice for one part of a workload, and what it cost in a simulation."""

    part: Part
    choice: Choice
    # By queue, and by producer.
    arguments: Mapping[str, Mapping[str, Argument]]
    capacities: Mapping[str, int]
    costs: Costs
    # Whether no other choice is as good in all of :meth:`Costs.objectives`, and better in one.
    is_pareto: bool = False


_COLUMNS = (
    "queues",
    "capacity",
    "stop",
    "resume",
    "flips_per_minute",
    "blocked_share",
    "latency_p99",
    "max_depth",
    "is_pareto",
)
"""Columns of a :class:`Frontier`: three shares, what the choice cost, and whether no other beats it."""


class Frontier(Tabular, list[FrontierRow]):
    """What :func:`frontier` returns: the rows, shown as a table of the choices and what each cost."""

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
                max(row.costs.max_depth.values(), default=0),
                row.is_pareto,
            )
            for row in self[start:end]
        ]
        return columns_of(rows, _COLUMNS)

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
    """Simulate every safe choice of a grid, and mark those that are beaten by no other.

    Every row is safe by the bound (CAP-11), whatever is simulated; the simulation says what it costs, and
    says the same each time.

    Parameters:
        workload: Its queues, traffic and consumers.
        limits: Queue name to what it may hold; a queue that is left out keeps the limits it is declared with,
            and one without any, with policy ring, or that no producer's messages reach, is left as it is.
        keep_capacities: Whether the producers' windows may not be changed.
        message_limit: Messages each simulation sends; None for all that fall due.  If it is not given, it
            and the duration are raised to what the workload's cycles need (:func:`cover`).
        progress: Called with the number of simulations done.

    Returns:
        A list of :class:`FrontierRow`, part by part, in the order of the grid: first those that change least.

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
    workload, message_limit = cover(workload, message_limit)
    traffic = traffic_of(workload)
    designed = _choose_queues(workload, limits or {}, traffic)
    parts = parts_of(traffic, {p.name: p.session for p in workload.producers if p.session})
    tried = partial(_rows, workload, designed, traffic, parts, message_limit)
    rows = _all_rows(tried, list(choices(keep_capacities=keep_capacities)), progress)
    for part in parts:
        if set(part.queues) & set(designed) and not any(row.part == part for row in rows):
            raise DesignError(_no_room(part, designed, workload, traffic, keep_capacities))
    return Frontier(row for part in parts for row in mark([row for row in rows if row.part == part]))


def _all_rows(
    tried: Callable[[Choice], list[FrontierRow]], grid: Sequence[Choice], progress: Progress | None
) -> list[FrontierRow]:
    """Return the rows of all choices, in their order; many long simulations run on all cores."""
    first, rest = tried(grid[0]), grid[1:]
    if progress is not None:
        progress(1)
    sent = max((row.costs.transfers for row in first), default=0)
    processes = 1 if sent * len(grid) < ALONE else None
    found: dict[int, list[FrontierRow]] = {}
    with closing(run_many(tried, rest, processes=processes)) as results:
        for done, (place, rows) in enumerate(results, 2):
            found[place] = rows
            if progress is not None:
                progress(done)
    return [*first, *(row for place in range(len(rest)) for row in found[place])]


def _choose_queues(
    workload: Workload, limits: Mapping[str, Limits], traffic: Mapping[str, Traffic]
) -> dict[str, Limits]:
    """Return the limits of each queue that is designed."""
    for queue in limits:
        if queue not in workload.queues:
            raise DesignError(f"no queue {queue!r}; the workload has {', '.join(workload.queues) or 'none'}")
    given = {queue: limits.get(queue, Limits()) for queue in workload.queues}
    designed = {queue: most for queue, most in given.items() if _is_designed(queue, workload, most)}
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


def require_counts(workload: Workload, limits: Mapping[str, Limits]) -> None:
    """Refuse to draw a map of a designed queue that has no limit in messages."""
    for queue, most in _choose_queues(workload, limits, traffic_of(workload)).items():
        if not (most.count or QueueSettings.from_arguments(workload.queues[queue]).max_count):
            raise DesignError(
                f"--picture draws stop × capacity in messages, and queue {queue!r} has no limit in messages; "
                f"give it one, such as --max-count {queue}=500"
            )


def _rows(
    workload: Workload,
    designed: Mapping[str, Limits],
    traffic: Mapping[str, Traffic],
    parts: Sequence[Part],
    message_limit: int | None,
    choice: Choice,
) -> list[FrontierRow]:
    """Simulate a choice for all parts at once; a part that has no safe settings stays as it is, unused."""
    changed, used = workload, []
    for part in parts:
        mine = {queue: designed[queue] for queue in part.queues if queue in designed}
        made = candidate(changed, mine, traffic, choice) if mine else None
        if made is not None:
            changed = made
            used.append(part)
    if not used:
        return []
    run = simulate(changed, message_limit=message_limit)
    windows = {producer.name: producer.capacity for producer in changed.producers}
    return [
        FrontierRow(
            part,
            choice,
            {queue: changed.queues[queue] for queue in part.queues if queue in designed},
            {name: windows[name] for name in part.producers},
            costs(run, part.queues, part.producers),
        )
        for part in used
    ]


def mark(rows: Sequence[FrontierRow]) -> list[FrontierRow]:
    """Return the rows of one part, those marked that no other beats."""
    # Of rows with the same settings, or the same costs, the first is kept as the one that changes least.
    different: dict[str, FrontierRow] = {}
    for row in rows:
        different.setdefault(repr((row.arguments, row.capacities)), row)
    kept = list(different.values())
    return [
        replace(row, is_pareto=not _is_beaten(row, kept[:n], kept[n + 1 :])) for n, row in enumerate(kept)
    ]


def _is_beaten(row: FrontierRow, before: Iterable[FrontierRow], after: Iterable[FrontierRow]) -> bool:
    mine = row.costs.objectives()
    as_good_before = any(_is_no_worse(other.costs.objectives(), mine) for other in before)
    better = (other.costs.objectives() for other in after)
    return as_good_before or any(_is_no_worse(theirs, mine) and theirs != mine for theirs in better)


def _is_no_worse(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


def best(rows: Sequence[FrontierRow]) -> FrontierRow:
    """Return the row of the frontier that is nearest to having everything."""
    # Each of the three costs is measured from the least on the frontier, 0, to the greatest, 1; the row with
    # the least sum is taken, and among equals the first, which changes least.
    found = [row for row in rows if row.is_pareto]
    columns = [[row.costs.objectives()[number] for row in found] for number in range(3)]
    spans = [(min(column), max(column) - min(column)) for column in columns]

    def distance(row: FrontierRow) -> float:
        measured = zip(row.costs.objectives(), spans, strict=True)
        return sum(((cost - least) / span for cost, (least, span) in measured if span), 0.0)

    return min(found, key=distance)


def _no_room(
    part: Part,
    designed: Mapping[str, Limits],
    workload: Workload,
    traffic: Mapping[str, Traffic],
    keep_capacities: bool,
) -> str:
    needs = []
    for queue in part.queues:
        if queue in designed and traffic[queue]:
            senders = traffic[queue].values()
            windows = sum(sender.capacity for sender in senders)
            volume = sum(sender.capacity * sender.largest for sender in senders)
            needs.append(f"{queue} needs room for {windows} messages of windows, {volume} bytes, and a stop")
    change = "let the capacities change" if keep_capacities else "use fewer producers"
    tried = "" if keep_capacities else f", and so do windows of {_CAPACITY_SHARES[-1]:.0%} of that"
    return (
        f"no thresholds are safe: the windows fill the limit before anything can stop ({'; '.join(needs)})"
        f"{tried}; raise the limit, or {change}"
    )
