"""Verdicts: whether a queue can overflow, and why.

In each unit, messages and bytes, the most that can be on the queue (:func:`qflow.design.maximum_depth`) is
compared with the limit in force; exactly filling it is allowed (LP-02).  If that is above the limit, and so
is what some run surely gets to (:func:`qflow.design.bounds.attained_depth`), the queue can overflow.
Otherwise neither is proved, and the answer is None, which is not "safe".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qflow.broker.errors import AmqpException
from qflow.broker.flow_limit import FlowThresholds, effective_max_size
from qflow.broker.history import ARGUMENT
from qflow.broker.options import BrokerOptions
from qflow.broker.settings import Argument, QueueSettings
from qflow.design.bounds import DesignError, Traffic, attained_depth, full_windows, maximum_depth, traffic_of
from qflow.workload.model import Workload

_WHAT_FOLLOWS = {
    "reject": "a producer's session would die of 506 (LP-05)",
    "ring": "the oldest messages would be dropped (LP-10)",
    "self-destruct": "the queue would be deleted with all it holds (LP-15)",
}

WINDOWS = {"count": "capacities", "size": "capacities × largest messages"}
"""What full windows hold, by unit."""


@dataclass(frozen=True, slots=True)
class UnitVerdict:
    """One unit of one queue: "count" for messages, "size" for bytes."""

    unit: str
    # In force; 0 for none.
    limit: int
    # Were there no limit: what can be on the queue at most (None: no bound), and what is on it in some run.
    bound: int | None
    attained: int | None
    reason: str

    @property
    def can_overflow(self) -> bool | None:
        """False: it is proved that no run exceeds the limit (LP-02). True: some run does. None: not known."""
        if not self.limit or (self.bound is not None and self.bound <= self.limit):
            return False
        return True if self.attained is None or self.attained > self.limit else None


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a queue can overflow.

    Parameters:
        policy: What an overflow would do: reject, ring or self-destruct.
        units: For messages and for bytes.
        seen: Which simulation overflowed it, if one did.
    """

    queue: str
    policy: str
    units: tuple[UnitVerdict, UnitVerdict]
    seen: str = ""

    @property
    def is_safe(self) -> bool:
        """Whether it is proved that no run overflows it, in messages and in bytes."""
        return self.can_overflow is False

    @property
    def can_overflow(self) -> bool | None:
        """Whether some run overflows it, in any unit; None if neither that nor the contrary is proved."""
        found = {unit.can_overflow for unit in self.units}
        if True in found or (None in found and self.seen):
            return True
        return None if None in found else False

    @property
    def never_more_than(self) -> int | None:
        """How many messages can be on the queue at most, as is proved; None if nothing is."""
        return self.units[0].bound or None

    @property
    def never_more_bytes_than(self) -> int | None:
        """The same in bytes."""
        return self.units[1].bound or None

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why, a sentence for each unit; those that decide first."""
        if self.is_safe:
            return tuple(unit.reason for unit in self.units if unit.limit)
        full = f"if it is full, {_WHAT_FOLLOWS[self.policy]}"
        deciding = [unit.reason for unit in self.units if unit.can_overflow]
        if deciding:
            return (*deciding, full)
        unknown = [unit.reason for unit in self.units if unit.can_overflow is None]
        return (*unknown, self.seen or "whether any run overflows it is not known", full)


def judge(
    queue: str, arguments: Mapping[str, Argument], traffic: Traffic, options: BrokerOptions | None = None
) -> Verdict:
    """Return whether a queue can overflow, by comparing its limits with what is proved of its depth.

    Parameters:
        queue, arguments: Its name, and what it is declared with.
        traffic: Who sends to it.
        options: What the broker was started with; None for the defaults.

    Raises:
        DesignError: If the broker refuses the arguments, in its words; or if the queue has one of the
            alternatives of :mod:`qflow.broker.history`, for which nothing is proved here.

    >>> from qflow.design.bounds import TrafficSource
    >>> clients = {"C1": TrafficSource(50, 150), "C2": TrafficSource(15, 150)}
    >>> judge("q", {"qpid.max_count": 200, "qpid.flow_stop_count": 150}, clients).reasons[0]
    'messages: stop 150 + capacities 65 = 215, which is above the limit of 200 by 15 (CAP-11)'
    >>> del clients["C2"]
    >>> judge("q", {"qpid.max_count": 200, "qpid.flow_stop_count": 150}, clients).can_overflow
    False
    """
    options = options or BrokerOptions()
    kind = arguments.get(ARGUMENT, options.flow_control)
    if kind != "shipped":
        raise DesignError(
            f"queue {queue!r}: the bounds are those of flow control as it was shipped; this queue has "
            f"{kind!r}"
        )
    try:
        settings = QueueSettings.from_arguments(arguments)
        thresholds = FlowThresholds.of(queue, settings, options)
    except AmqpException as error:
        raise DesignError(f"the broker refuses queue {queue!r}: {error}") from None
    bound, attained = maximum_depth(thresholds, traffic), attained_depth(thresholds, traffic)
    stops = thresholds or FlowThresholds(0, 0, 0, 0)
    capacity, volume = full_windows(traffic)
    drawn = ", ".join(name for name, sender in traffic.items() if sender.is_drawn)
    size = effective_max_size(settings, options)
    units = (
        _unit("count", settings.max_count, stops.stop_count, bound.count, attained.count, capacity),
        _unit("size", size, stops.stop_size, bound.size, attained.size, volume, drawn if thresholds else ""),
    )
    policy = settings.policy if settings.policy in _WHAT_FOLLOWS else "reject"
    return Verdict(queue, policy, units)


def judge_workload(workload: Workload) -> dict[str, Verdict]:
    """Return for each queue of a workload, in its order, whether it can overflow.

    Who consumes does not matter.  See :func:`judge`.

    >>> from qflow.workload import Producer
    >>> producer = Producer("p1", ("", "q"), rate=100, capacity=5, size=100)
    >>> workload = Workload("w", 1, {"q": {"qpid.max_count": 20}}, producers=(producer,))
    >>> judge_workload(workload)["q"].can_overflow            # the default stop is 16: 16 + 5 > 20
    True
    """
    traffic = traffic_of(workload)
    return {
        name: judge(name, arguments, traffic[name], workload.options)
        for name, arguments in workload.queues.items()
    }


def _unit(
    unit: str, limit: int, stop: int, bound: int | None, attained: int | None, window: int, drawn: str = ""
) -> UnitVerdict:
    what = {"count": "messages", "size": "bytes"}[unit]
    windows = WINDOWS[unit]
    if not limit:
        reason = f"{what}: no limit, so none is exceeded (LP-01)"
    elif bound is None and drawn:
        reason = (
            f"{what}: the sizes of {drawn} are drawn and have no largest, so nothing is proved of the limit "
            f"of {limit}"
        )
    elif bound is None:
        reason = f"{what}: nothing stops the producers before the limit of {limit} (FC-02, FC-03)"
    else:
        # The other unit may stop first; then the sum with this unit's own stop is not what bounds it.
        own = f"stop {stop} + {windows} {window} = {bound}" if stop and stop + window == bound else ""
        own = own or f"at most {bound}, by the other unit's stop and {windows} {window}"
        where = f"within the limit of {limit}"
        if bound > limit:
            where = f"above the limit of {limit} by {bound - limit}"
        reason = f"{what}: {own}, which is {where} (CAP-11)"
    return UnitVerdict(unit, limit, bound, attained, reason)
