"""Small configurations: queues, producers and consumers so few that every state can be visited.

Nothing in them has a time: producers may send whenever their window lets them, consumers may take whenever
there is something to take.  So what is found holds for every workload with these settings, however fast or
slow its clients are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from qflow.broker.options import BrokerOptions
from qflow.broker.settings import Argument
from qflow.kit import RefusalError
from qflow.windows import WINDOWS

CONSUMER = "consumer"
"""Name of the consumer of a single queue; of several queues each has ``consumer of NAME``."""

_ORDERS = ("oldest", "any")


class DesignError(RefusalError):
    """A design question that has no answer as it is put; the text says what was got and what is allowed."""


@dataclass(frozen=True, slots=True)
class SmallConfiguration:
    """What :func:`qflow.design.explore` explores.

    Parameters:
        queues: Queue name to declare arguments.
        capacities: Producer name to its window, in transfers; each producer has a session of its own.
        to: Producer name to the queues each of its messages goes to; a producer that is left out sends to
            all.
        consumed: Queues that have a consumer; None for all.
        batch: A consumer accepts when it has taken so many messages, all at once.
        order ({"oldest", "any"}): What a consumer accepts next: the oldest message, or any that is there, as
            several consumers with large prefetches may.  "any" allows everything that "oldest" does, so an
            upper bound found with it holds for both; and as the order no longer matters, far fewer states
            differ.
        window ({"ideal", "qpid-cpp", "qpid-python"}): How producers count what is outstanding.  Ideal windows
            hear of a completion at once; the others may hear of it at any later time, which is an action of
            its own.
        sizes: Content bytes; each message is of one of these sizes, any of them.
        options: What the broker is started with.

    Raises:
        DesignError: If a value is not allowed.

    >>> SmallConfiguration.of(stop=100, capacities=(50, 15)).most_outstanding("q")
    65
    """

    queues: Mapping[str, Mapping[str, Argument]]
    capacities: Mapping[str, int]
    to: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    consumed: tuple[str, ...] | None = None
    batch: int = 1
    order: str = "oldest"
    window: str = "ideal"
    sizes: tuple[int, ...] = (100,)
    options: BrokerOptions = field(default_factory=BrokerOptions)

    def __post_init__(self) -> None:
        _require(bool(self.queues), "queues", dict(self.queues), "at least one")
        for name, arguments in self.queues.items():
            policy = arguments.get("qpid.policy_type")
            _require(policy != "self-destruct", f"policy of {name}", policy, "one that keeps the queue")
        for name, capacity in self.capacities.items():
            _require(_is_count(capacity), f"capacity of {name}", capacity, "a whole number from 1")
        known = f"queues of it ({', '.join(self.queues)})"
        for name, targets in self.to.items():
            _require(name in self.capacities, "to", name, f"one of {', '.join(self.capacities)}")
            _require(bool(targets) and set(targets) <= set(self.queues), f"to of {name}", targets, known)
        _require(set(self.consumed or ()) <= set(self.queues), "consumed", self.consumed, known)
        _require(_is_count(self.batch), "batch", self.batch, "a whole number from 1")
        _require(self.order in _ORDERS, "order", self.order, " or ".join(map(repr, _ORDERS)))
        _require(self.window in WINDOWS, "window", self.window, ", ".join(map(repr, WINDOWS)))
        is_plain = self.order == "oldest" or (self.window == "ideal" and self.batch == 1)
        allowed = "'oldest' unless the window is 'ideal' and the batch 1"
        _require(is_plain, "order", self.order, allowed)
        is_right = bool(self.sizes) and all(type(size) is int and size >= 0 for size in self.sizes)
        _require(is_right, "sizes", self.sizes, "whole numbers of bytes, at least one")

    @classmethod
    def of(
        cls,
        stop: int,
        capacities: tuple[int, ...],
        resume: int | None = None,
        limit: int | None = None,
        is_consumed: bool = True,
        **further: object,
    ) -> SmallConfiguration:
        """Return one queue ``q`` and producers ``C1``, ``C2``, ….

        Parameters:
            stop, resume: Thresholds in messages; no resume means: as the stop (FC-05).
            capacities: The producers' windows.
            limit: ``qpid.max_count``; None for no limit.
            is_consumed: Whether the queue has a consumer.
            further: Other parameters of the class.

        >>> SmallConfiguration.of(stop=3, capacities=(2, 1), is_consumed=False).capacities
        {'C1': 2, 'C2': 1}
        """
        arguments: dict[str, Argument] = {"qpid.flow_stop_count": stop}
        arguments["qpid.flow_resume_count"] = stop if resume is None else resume
        if limit is not None:
            arguments["qpid.max_count"] = limit
        named = {f"C{number}": capacity for number, capacity in enumerate(capacities, 1)}
        consumed = None if is_consumed else ()
        return cls({"q": arguments}, named, consumed=consumed, **further)  # type: ignore[arg-type]

    def targets(self, producer: str) -> tuple[str, ...]:
        """Return the queues that each message of a producer goes to."""
        return tuple(self.to.get(producer, tuple(self.queues)))

    def consumers(self) -> dict[str, str]:
        """Return the consumers, each with its queue."""
        queues = self.queues if self.consumed is None else self.consumed
        if len(self.queues) == 1:
            return dict.fromkeys([CONSUMER] if queues else [], next(iter(self.queues)))
        return {f"{CONSUMER} of {queue}": queue for queue in queues}

    def most_outstanding(self, queue: str) -> int:
        """Return the sum of the capacities of all producers of a queue, in transfers (CAP-11)."""
        return sum(size for name, size in self.capacities.items() if queue in self.targets(name))

    def merge(self) -> SmallConfiguration:
        """Return a configuration in which one producer does the work of all, with the sum of their windows.

        Whatever the single ones can do together, it can do too: a producer with room in its window leaves
        room in the sum of all windows, the message it sends is like any other, and the broker frees
        completions without asking whose they are (FC-17).  So every depth and every queue state reachable
        before is reachable here, and an upper bound found here is one for the original, with far fewer
        states.  The converse does not hold: the merge one may outlive what ends one of several (506), and
        its window has no walls inside.

        Raises:
            DesignError: If the producers send to different queues, or their windows are not ideal.

        >>> SmallConfiguration.of(stop=100, capacities=(50, 15)).merge().capacities
        {'C1 + C2': 65}
        """
        is_alike = len({frozenset(self.targets(name)) for name in self.capacities}) == 1
        _require(is_alike, "to", dict(self.to), "the same queues for all producers that are to be merge")
        _require(self.window == "ideal", "window", self.window, "'ideal' if producers are to be merge")
        name = " + ".join(self.capacities)
        targets = self.targets(next(iter(self.capacities)))
        return replace(self, capacities={name: sum(self.capacities.values())}, to={name: targets})


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 1


def _require(holds: bool, attribute: str, value: object, allowed: str) -> None:
    if not holds:
        raise DesignError(f"configuration: {attribute} must be {allowed}, got {value!r}")
