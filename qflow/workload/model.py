"""Workload: queues, bindings, producers and consumers, and for how long."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from qflow.broker.errors import StartupError
from qflow.broker.options import BrokerOptions
from qflow.broker.settings import Argument
from qflow.workload.checks import (
    WorkloadError,
    as_tuple,
    is_name,
    is_positive,
    is_whole,
    require,
    require_keys,
)
from qflow.workload.clients import Consumer, Producer
from qflow.workload.network import Network

Client = TypeVar("Client", Producer, Consumer)

SETUP = "setup"
"""Name of the session that declares the queues; no client may have it."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Everything that decides a run; two equal workloads give the same events.

    Times are in seconds here, as people and recorded workloads write them; a run counts in
    integer microseconds.

    Parameters
    ----------
    name : str
        For titles.
    duration : float
        Seconds during which messages fall due; see :func:`qflow.workload.simulate`.
    queues : mapping
        Queue name to declare arguments.
    binds : tuple of (str, str, str)
        Exchange, queue, binding key.
    producers, consumers : tuple
        The clients; their names are unique.
    options : BrokerOptions
        What the broker is started with.

    Raises
    ------
    WorkloadError
        If a value is not allowed.

    Examples
    --------
    >>> workload = Workload(
    ...     "small",
    ...     duration=1,
    ...     queues={"orders": {"qpid.flow_stop_count": 10}},
    ...     producers=(Producer("p1", ("", "orders"), rate=100, capacity=5, size=100),),
    ...     consumers=(Consumer("c1", "orders", prefetch=2, service=("const", 0.02)),),
    ... )
    >>> faster = workload.with_consumer("c1", prefetch=20).with_queue("orders", {"qpid.flow_stop_count": 30})
    >>> faster.consumers[0].prefetch, faster.queues["orders"]
    (20, {'qpid.flow_stop_count': 30})
    """

    name: str
    duration: float
    queues: Mapping[str, Mapping[str, Argument]]
    binds: tuple[tuple[str, str, str], ...] = ()
    producers: tuple[Producer, ...] = ()
    consumers: tuple[Consumer, ...] = ()
    options: BrokerOptions = field(default_factory=BrokerOptions)

    def __post_init__(self) -> None:
        where = f"workload {self.name!r}"
        require(is_name(self.name), "workload", "name", self.name, "text, not empty")
        require(is_positive(self.duration), where, "duration", self.duration, "a number of seconds above 0")
        require(
            _is_queues(self.queues), where, "queues", self.queues, "queue names with their declare arguments"
        )
        object.__setattr__(self, "queues", {name: dict(args) for name, args in self.queues.items()})
        for attribute, kind in (("binds", tuple), ("producers", Producer), ("consumers", Consumer)):
            items = as_tuple(getattr(self, attribute))
            is_right = isinstance(items, tuple) and all(isinstance(item, kind) for item in items)
            require(is_right, where, attribute, items, f"a list, each a {kind.__name__}")
            object.__setattr__(self, attribute, items)
        is_right = isinstance(self.options, BrokerOptions)
        require(is_right, where, "options", self.options, "a BrokerOptions")
        self._check_references(where)

    def _check_references(self, where: str) -> None:
        known = f"one of its queues ({', '.join(self.queues) or 'it has none'})"
        for bind in self.binds:
            is_triple = len(bind) == 3 and all(isinstance(part, str) for part in bind)
            require(is_triple, where, "binds", bind, "lists of exchange, queue and binding key, all text")
            require(bind[1] in self.queues, where, "the queue of a bind", bind[1], known)
        names = {SETUP}
        clients: tuple[Producer | Consumer, ...] = (*self.producers, *self.consumers)
        for client in clients:
            allowed = f"unique among the clients, and not {SETUP!r}"
            require(client.name not in names, where, "a client's name", client.name, allowed)
            names.add(client.name)
        for producer in self.producers:
            allowed = "a name that no client has"
            is_free = producer.session not in names
            require(is_free, f"producer {producer.name!r}", "session", producer.session, allowed)
        for consumer in self.consumers:
            require(
                consumer.queue in self.queues, f"consumer {consumer.name!r}", "queue", consumer.queue, known
            )

    # Reading

    @classmethod
    def load(cls, path: str | Path) -> Workload:
        """Read a workload file: JSON as in ``data/recordings/workloads``.

        Raises
        ------
        WorkloadError
            If it is no JSON, or no workload; the file is named.
        OSError
            If the file cannot be read.
        """
        path = Path(path)
        try:
            return cls.from_json(json.loads(path.read_text(encoding="utf-8")), name=path.stem)
        except WorkloadError as error:
            raise WorkloadError(f"{path.name}: {error}") from None
        except ValueError as error:
            raise WorkloadError(f"{path.name}: a workload file must be JSON; {error}") from None

    @classmethod
    def from_json(cls, mapping: Mapping[str, Any], name: str = "workload") -> Workload:
        """Make a workload from what a workload file holds.

        Parameters
        ----------
        mapping : mapping
            Attributes of the same names as the parameters of :class:`Workload`; ``queues`` and
            ``duration`` are required, clients are mappings of their parameters, and their ``network``
            is a mapping of those of :class:`qflow.workload.Network`.
        name : str
            Used if the mapping holds none.

        Raises
        ------
        WorkloadError
            For the first attribute that is missing, unknown or not allowed.

        Examples
        --------
        >>> Workload.from_json({"duration": 5, "queues": {"q": {}}}).duration
        5
        >>> Workload.from_json({"duration": 5, "queues": {}, "consumers": [{"name": "c", "queue": "q"}]})
        Traceback (most recent call last):
            ...
        qflow.workload.checks.WorkloadError: consumer 1: the attribute 'prefetch' is missing, \
required are name, queue, prefetch, service
        """
        given = dict(_attributes(cls, "workload", mapping, optional=("name",)))
        for group, kind in (("producers", Producer), ("consumers", Consumer)):
            items = given.get(group, [])
            require(isinstance(items, list | tuple), "workload", group, items, "a list")
            singular = group.removesuffix("s")
            given[group] = tuple(
                kind(**_client_attributes(kind, f"{singular} {index}", item))
                for index, item in enumerate(items, 1)
            )
        if "options" in given:
            given["options"] = _options(given["options"])
        return cls(**{"name": name, **given})

    # Changing

    def replace(self, **changes: Any) -> Workload:
        """Return a copy in which some attributes differ.

        Examples
        --------
        >>> Workload("w", 30, {"q": {}}).replace(duration=5).duration
        5
        """
        return dataclasses.replace(self, **changes)

    def with_queue(self, queue: str, arguments: Mapping[str, Argument | None]) -> Workload:
        """Return a copy in which some declare arguments of a queue differ; None removes one.

        Examples
        --------
        >>> workload = Workload("w", 30, {"q": {"qpid.max_count": 10}})
        >>> workload.with_queue("q", {"qpid.flow_stop_count": 8, "qpid.max_count": None}).queues
        {'q': {'qpid.flow_stop_count': 8}}
        """
        allowed = f"one of its queues ({', '.join(self.queues)})"
        require(queue in self.queues, f"workload {self.name!r}", "the queue to change", queue, allowed)
        changed = {**self.queues[queue], **arguments}
        kept = {key: value for key, value in changed.items() if value is not None}
        return self.replace(queues={**self.queues, queue: kept})

    def with_producer(self, name: str, **changes: Any) -> Workload:
        """Return a copy in which some attributes of a producer differ, such as ``capacity=20``."""
        return self.replace(producers=self._changed("producer", self.producers, name, changes))

    def with_consumer(self, name: str, **changes: Any) -> Workload:
        """Return a copy in which some attributes of a consumer differ, such as ``prefetch=1``."""
        return self.replace(consumers=self._changed("consumer", self.consumers, name, changes))

    def with_seed(self, seed: int) -> Workload:
        """Return a copy whose clients have other chances, each its own.

        Examples
        --------
        >>> producer = Producer("p", ("", "q"), rate=1, capacity=1, size=1)
        >>> Workload("w", 1, {"q": {}}, producers=(producer,)).with_seed(7).producers[0].seed
        7000
        """
        require(is_whole(seed, 0), f"workload {self.name!r}", "the seed", seed, "a whole number from 0")
        first, second = seed * 1000, seed * 1000 + len(self.producers)
        return self.replace(
            producers=tuple(dataclasses.replace(c, seed=first + n) for n, c in enumerate(self.producers)),
            consumers=tuple(dataclasses.replace(c, seed=second + n) for n, c in enumerate(self.consumers)),
        )

    def _changed(
        self, kind: str, clients: tuple[Client, ...], name: str, changes: Mapping[str, Any]
    ) -> tuple[Client, ...]:
        names = [client.name for client in clients]
        where = f"workload {self.name!r}"
        require(name in names, where, f"the {kind} to change", name, f"one of {', '.join(names) or 'none'}")
        if clients:
            require_keys(f"{kind} {name!r}", changes, _names(type(clients[0])), ())
        return tuple(dataclasses.replace(c, **changes) if c.name == name else c for c in clients)


def _is_queues(value: object) -> bool:
    return isinstance(value, Mapping) and all(
        is_name(name) and isinstance(arguments, Mapping) for name, arguments in value.items()
    )


def _names(kind: Callable[..., object]) -> list[str]:
    return [item.name for item in dataclasses.fields(kind)]  # type: ignore[arg-type]


def _attributes(
    kind: Callable[..., object], where: str, mapping: object, optional: tuple[str, ...] = ()
) -> Mapping[str, Any]:
    required = [
        item.name
        for item in dataclasses.fields(kind)  # type: ignore[arg-type]
        if item.default is dataclasses.MISSING
        and item.default_factory is dataclasses.MISSING
        and item.name not in optional
    ]
    return require_keys(where, mapping, _names(kind), required)


def _client_attributes(kind: Callable[..., object], where: str, item: object) -> dict[str, Any]:
    given = dict(_attributes(kind, where, item))
    if given.get("network") is not None:
        given["network"] = Network(**_attributes(Network, f"{where}: network", given["network"]))
    return given


def _options(given: object) -> BrokerOptions:
    values = _attributes(BrokerOptions, "options", given)
    for name, value in values.items():
        default = getattr(BrokerOptions(), name)
        require(type(value) is type(default), "options", name, value, f"a value like {default!r}")
    try:
        return BrokerOptions(**values)
    except StartupError as error:
        raise WorkloadError(f"options: {error}") from None
