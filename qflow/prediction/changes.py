"""Settings: what is changed before a recorded workload is run again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from qflow.broker.settings import Argument
from qflow.workload.attributes import require
from qflow.workload.model import Workload


@dataclass(frozen=True, slots=True)
class Settings:
    """Changes to a workload that leave its clients' behaviour alone.

    Parameters:
        queues: Queue name to declare arguments, which are added to those it has; None removes one.
        capacity: Producer name to its capacity.
        prefetch: Consumer name to its prefetch.
        left_out: Queues and clients of which the file with these settings said nothing, or that only it has.

    >>> from qflow.workload import Workload
    >>> changed = Settings({"q": {"qpid.flow_stop_count": 300}}).apply(Workload("w", 1, {"q": {}}))
    >>> changed.queues
    {'q': {'qpid.flow_stop_count': 300}}
    """

    queues: Mapping[str, Mapping[str, Argument | None]] = field(default_factory=dict)
    capacity: Mapping[str, int] = field(default_factory=dict)
    prefetch: Mapping[str, int] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @classmethod
    def of(cls, other: Workload, workload: Workload) -> Settings:
        """Return what must change in a workload so that it is set up as another one of the same clients.

        Queues and clients that only one of them has are left out, and named.

        Raises:
            WorkloadError: If they have no queue in common.

        >>> from qflow.workload import Workload
        >>> this = Workload("a", 1, {"q": {"qpid.max_count": 10}})
        >>> Settings.of(Workload("b", 1, {"q": {"qpid.max_size": 999}}), this).queues
        {'q': {'qpid.max_count': None, 'qpid.max_size': 999}}
        """
        allowed = f"one of {', '.join(workload.queues)}"
        is_kin = not workload.queues or bool(workload.queues.keys() & other.queues.keys())
        require(is_kin, f"settings of {other.name!r}", "a queue", ", ".join(other.queues), allowed)
        queues: dict[str, dict[str, Argument | None]] = {}
        for name, arguments in workload.queues.items():
            if name in other.queues:
                gone: dict[str, Argument | None] = dict.fromkeys(arguments)
                queues[name] = {**gone, **other.queues[name]}
        producers = {producer.name for producer in workload.producers}
        consumers = {consumer.name for consumer in workload.consumers}
        return cls(
            queues,
            {producer.name: producer.capacity for producer in other.producers if producer.name in producers},
            {consumer.name: consumer.prefetch for consumer in other.consumers if consumer.name in consumers},
            tuple(sorted(_things(other) ^ _things(workload))),
        )

    def and_then(self, later: Settings) -> Settings:
        """Return these settings with later ones on top.

        >>> Settings(capacity={"p": 5}).and_then(Settings(capacity={"p": 9})).capacity
        {'p': 9}
        """
        queues = {name: dict(arguments) for name, arguments in self.queues.items()}
        for name, arguments in later.queues.items():
            queues[name] = {**queues.get(name, {}), **arguments}
        return Settings(
            queues,
            {**self.capacity, **later.capacity},
            {**self.prefetch, **later.prefetch},
            self.left_out + later.left_out,
        )

    def as_json(self) -> dict[str, Any]:
        """Return what is changed, ready for JSON.

        >>> Settings(capacity={"p": 5}).as_json()
        {'queue_arguments': {}, 'capacity': {'p': 5}, 'prefetch': {}, 'left_out': []}
        """
        return {
            "queue_arguments": {name: dict(arguments) for name, arguments in self.queues.items()},
            "capacity": dict(self.capacity),
            "prefetch": dict(self.prefetch),
            "left_out": list(self.left_out),
        }

    def apply(self, workload: Workload) -> Workload:
        """Return a workload with these settings.

        Raises:
            WorkloadError: If it has no such queue or client, or a value is not allowed.
        """
        for queue, arguments in self.queues.items():
            workload = workload.with_queue(queue, arguments)
        for name, capacity in self.capacity.items():
            workload = workload.with_producer(name, capacity=capacity)
        for name, prefetch in self.prefetch.items():
            workload = workload.with_consumer(name, prefetch=prefetch)
        return workload


def _things(workload: Workload) -> set[str]:
    return {
        *(f"queue {name}" for name in workload.queues),
        *(f"producer {producer.name}" for producer in workload.producers),
        *(f"consumer {consumer.name}" for consumer in workload.consumers),
    }
