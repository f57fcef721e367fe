"""Candidates: settings for a workload's queues and producers that cannot overflow, by the bound."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from qflow.broker.flow_limit import effective_max_size
from qflow.broker.settings import Argument, QueueSettings
from qflow.design.bounds import Sender, Traffic, largest_stop
from qflow.design.small import DesignError
from qflow.design.verdict import judge
from qflow.workload.model import Workload

CAPACITY_SHARES = (1.0, 0.5, 0.25, 0.1)
STOP_SHARES = (1.0, 0.5)
RESUME_SHARES = (0.9, 0.6, 0.2)

UNITS = ("count", "size")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a queue may hold.

    Parameters
    ----------
    count, size : int or None
        Messages and bytes; None: as the workload declares it.
    """

    count: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        for unit, value in (("count", self.count), ("size", self.size)):
            if value is not None and (type(value) is not int or value < 1):
                raise DesignError(f"max_{unit} must be a whole number from 1, got {value!r}")


@dataclass(frozen=True, slots=True)
class Choice:
    """Three dials, each a share: of the capacities, of the largest safe stop, of the stop.

    Examples
    --------
    >>> Choice(capacity=0.5, stop=1.0, resume=0.8).window(15)
    7
    """

    capacity: float
    stop: float
    resume: float

    def window(self, capacity: int) -> int:
        """Return the capacity instead of a given one."""
        return max(1, int(capacity * self.capacity))


def choices(*, keep_capacities: bool = False) -> Iterator[Choice]:
    """Yield every choice of the grid, those that change least first."""
    capacities = CAPACITY_SHARES[:1] if keep_capacities else CAPACITY_SHARES
    for capacity, stop, resume in product(capacities, STOP_SHARES, RESUME_SHARES):
        yield Choice(capacity, stop, resume)


def narrowed(traffic: Traffic, choice: Choice) -> dict[str, Sender]:
    """Return the traffic of producers with the windows of a choice."""
    return {
        name: replace(sender, capacity=choice.window(sender.capacity)) for name, sender in traffic.items()
    }


def safe_arguments(
    queue: str,
    workload: Workload,
    traffic: Traffic,
    limits: Limits,
    choice: Choice,
) -> dict[str, Argument] | None:
    """Return declare arguments with which a queue cannot overflow; None if this choice has none.

    Each limited unit stops at a share of :func:`~qflow.design.bounds.largest_stop`, and says its resume
    level too: a stop alone is refused if the default resume is above it (FC-07).  The broker's own byte
    limit (LP-01) gets thresholds only if its defaults are not safe.

    Parameters
    ----------
    queue : str
        Which.
    workload : Workload
        Where it is declared.
    traffic : mapping
        Who sends to it, with the windows they would have.
    limits : Limits
        What it may hold.
    choice : Choice
        Which shares.

    Examples
    --------
    >>> workload = Workload("w", 1, {"q": {}})
    >>> safe_arguments("q", workload, {"p": Sender(20, 150)}, Limits(count=100), Choice(1.0, 1.0, 0.5))
    {'qpid.max_count': 100, 'qpid.flow_stop_count': 80, 'qpid.flow_resume_count': 40}
    """
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
    if judge(queue, arguments, traffic, workload.options).can_overflow:
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


def is_designed(queue: str, workload: Workload, limits: Limits) -> bool:
    """Tell whether a queue has a limit, and a policy that lets flow control act before it (FC-03)."""
    settings = QueueSettings.from_arguments(workload.queues[queue])
    has_limit = limits.count or limits.size or settings.max_count or settings.max_size
    return bool(has_limit) and settings.policy != "ring"


def candidate(
    workload: Workload,
    queues: Mapping[str, Limits],
    traffic: Mapping[str, Traffic],
    choice: Choice,
) -> Workload | None:
    """Return the workload with the settings of a choice; None if they cannot all be safe.

    Parameters
    ----------
    workload : Workload
        What is declared now.
    queues : mapping
        The queues to design, with their limits; all others stay as they are.
    traffic : mapping
        Who sends to each queue, with the windows of the workload.
    choice : Choice
        Which shares.
    """
    designed = dict(workload.queues)
    for queue, limits in queues.items():
        arguments = safe_arguments(queue, workload, narrowed(traffic[queue], choice), limits, choice)
        if arguments is None:
            return None
        designed[queue] = arguments
    affected = {name for queue in queues for name in traffic[queue]}
    producers = tuple(
        replace(p, capacity=choice.window(p.capacity)) if p.name in affected else p
        for p in workload.producers
    )
    return workload.replace(queues=designed, producers=producers)
