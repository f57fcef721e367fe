"""Topology: the clients, exchanges and queues that a picture shows, with their limits and thresholds.

A topology is usually derived from a workload (:meth:`Topology.of`); only the routes from producers through
exchanges to queues are found during the run. If a trace lacks its workload, everything is derived from the
trace's events (:func:`topology_of_events`). If a topology has too many queues to draw, some of the queues are
drawn with the clients that use them (:func:`part_of`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from qflow.broker.consuming import INFINITE, MESSAGE_UNIT
from qflow.broker.events import Event
from qflow.broker.flow_limit import FlowThresholds, effective_max_size
from qflow.broker.options import BrokerOptions
from qflow.broker.settings import Argument, QueueSettings
from qflow.workload import Consumer, Producer, Run, Workload


@dataclass(frozen=True, slots=True)
class ProducerSpot:
    """A producer that the picture shows."""

    name: str
    # The most transfers that it may have outstanding (CAP-01).
    capacity: int
    # A description of its behaviour in a few words.
    note: str
    # The name of its session, which it may share with other producers (CAP-09).
    session: str
    # The index of the exchange that it sends to; -1 for the default exchange, which routes directly to a
    # queue (EX-02).
    exchange: int = -1
    # Whether `capacity` is measured, the most transfers that it had outstanding. This is so for AMQP 1.0
    # clients, whose traces also do not say when they wait.
    is_measured: bool = False


@dataclass(frozen=True, slots=True)
class QueueSpot:
    """A queue that the picture shows; a limit or threshold of 0 is not set."""

    name: str
    # The limits, including the broker's default (LP-01).
    max_count: int = 0
    max_size: int = 0
    # The effective thresholds, which may differ from the declared ones (FC-02, FC-05).
    stop_count: int = 0
    resume_count: int = 0
    stop_size: int = 0
    resume_size: int = 0
    # A word or two for the kind of queue and its policy when full (LP-04, QT-01, QT-04).
    policy: str = ""

    @classmethod
    def of(cls, name: str, arguments: Mapping[str, Argument], options: BrokerOptions) -> QueueSpot:
        """Return a queue with the limits and thresholds that its declare arguments result in."""
        settings = QueueSettings.from_arguments(arguments)
        levels = FlowThresholds.of(name, settings, options) or FlowThresholds(0, 0, 0, 0)
        return cls(
            name,
            settings.max_count,
            effective_max_size(settings, options),
            levels.stop_count,
            levels.resume_count,
            levels.stop_size,
            levels.resume_size,
            _policy(settings),
        )


@dataclass(frozen=True, slots=True)
class ConsumerSpot:
    """A consumer that the picture shows."""

    # The name of the client, which is also the tag of its subscription.
    name: str
    # The index of the queue that it is subscribed to.
    queue: int
    prefetch: int
    note: str
    # Its subscription, as events name it: session, ``::``, tag.
    link: str


@dataclass(frozen=True, slots=True)
class Topology:
    """The producers, exchanges, queues and consumers of a picture, with the routes between them."""

    producers: tuple[ProducerSpot, ...]
    queues: tuple[QueueSpot, ...]
    consumers: tuple[ConsumerSpot, ...]
    # Pairs of the index of a producer and the index of a queue that it has reached.
    routes: tuple[tuple[int, int], ...]
    # The time at which the run ends, in microseconds.
    end: int
    # The exchanges that have bindings or get messages, without the default exchange.
    exchanges: tuple[str, ...] = ()
    # Pairs of the index of an exchange and the index of a queue that is bound to it.
    bindings: tuple[tuple[int, int], ...] = ()
    # The application header that determines the group or key of a message (MG-04, QT-01).
    group_key: str = ""

    @classmethod
    def of(cls, workload: Workload, end: int) -> Topology:
        """Return the topology of a workload whose run ends at `end`, without routes through exchanges."""
        names = list(workload.queues)
        queues = [QueueSpot.of(name, workload.queues[name], workload.options) for name in names]
        binds = [(exchange, queue) for exchange, queue, _ in workload.binds]
        exchanges, bindings = _bound(binds, (p.to[0] for p in workload.producers), names)
        producers = [
            ProducerSpot(p.name, p.capacity, _pace(p), p.session or p.name, _place(p.to[0], exchanges))
            for p in workload.producers
        ]
        consumers = [
            ConsumerSpot(c.name, names.index(c.queue), c.prefetch, _service(c), f"{c.name}::{c.name}")
            for c in workload.consumers
        ]
        direct = tuple(
            (index, names.index(p.to[1]))
            for index, p in enumerate(workload.producers)
            if not p.to[0] and p.to[1] in names
        )
        clients = tuple(producers), tuple(queues), tuple(consumers), direct
        return cls(*clients, end, exchanges, bindings, group_key(workload.queues.values()))


def _bound(
    binds: Iterable[tuple[str, str]], sent_to: Iterable[str], queues: list[str]
) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...]]:
    """Return the names of the exchanges in use, and pairs of the indices of an exchange and a bound queue."""
    binds = list(binds)
    exchanges = list(dict.fromkeys([*(exchange for exchange, _ in binds), *filter(None, sent_to)]))
    pairs = ((exchanges.index(exchange), queues.index(queue)) for exchange, queue in binds if queue in queues)
    return tuple(exchanges), tuple(dict.fromkeys(pairs))


def _place(exchange: str, exchanges: tuple[str, ...]) -> int:
    return exchanges.index(exchange) if exchange else -1


def group_key(queues: Iterable[Mapping[str, Argument]]) -> str:
    """Return the first group header or last value key in declare arguments, or ``group`` (MG-04)."""
    for arguments in queues:
        for key in ("qpid.group_header_key", "qpid.last_value_queue_key"):
            if arguments.get(key):
                return str(arguments[key])
    return "group"


def _policy(settings: QueueSettings) -> str:
    if settings.policy == "self-destruct":
        return "self-destruct"
    kind = "last value" if settings.last_value_queue_key else "priority" if settings.priorities else ""
    return " ".join(filter(None, (kind, "ring" if settings.policy == "ring" else "")))


def _pace(producer: Producer) -> str:
    if producer.arrival not in ("poisson", "const"):
        return "sends as it was recorded"
    return f"{producer.rate:g} messages a second{', in bursts' if producer.burst else ''}"


def _service(consumer: Consumer) -> str:
    kind, seconds = consumer.service
    if isinstance(seconds, tuple):
        return "works as it was recorded"
    about = "about " if kind == "exp" else ""
    return f"{about}{1000 * seconds:g} ms for each message"


_ROUNDS = 4
_SOURCES_FIRST, _ALL = ("producer", "exchange", "consumer"), ("exchange", "producer", "consumer", "queue")


def layout_of(topology: Topology) -> dict[str, list[int]]:
    """Return the indices of each column of the picture from top to bottom, such that few lines cross."""
    near: dict[tuple[str, int], dict[tuple[str, int], None]] = defaultdict(dict)
    for one, other in _links(topology):
        near[one][other] = near[other][one] = None
    order = {
        "producer": list(range(len(topology.producers))),
        "exchange": list(range(len(topology.exchanges))),
        "queue": list(range(len(topology.queues))),
        "consumer": list(range(len(topology.consumers))),
    }
    for number in range(_ROUNDS):
        for kind in _ALL if number % 2 else _SOURCES_FIRST:
            heights = {
                (each, index): (place + 0.5) / len(indices)
                for each, indices in order.items()
                for place, index in enumerate(indices)
            }
            means = []
            for index in order[kind]:
                pulls = [heights[other] for other in near[kind, index]] or [heights[kind, index]]
                means.append((sum(pulls) / len(pulls), index))
            order[kind] = [index for _, index in sorted(means)]
    return order


def _links(topology: Topology) -> Iterator[tuple[tuple[str, int], tuple[str, int]]]:
    """Yield the edges along which messages pass, each as two pairs of a kind and an index."""
    for index, producer in enumerate(topology.producers):
        if producer.exchange >= 0:
            yield ("producer", index), ("exchange", producer.exchange)
    for index, queue in topology.routes:
        if topology.producers[index].exchange < 0:
            yield ("producer", index), ("queue", queue)
    for exchange, queue in topology.bindings:
        yield ("exchange", exchange), ("queue", queue)
    for index, consumer in enumerate(topology.consumers):
        yield ("queue", consumer.queue), ("consumer", index)


def sessions_of(topology: Topology) -> set[str]:
    """Return the names of the sessions of all clients in a topology."""
    readers = {spot.link.partition("::")[0] for spot in topology.consumers}
    return {spot.session for spot in topology.producers} | readers


def neighbours(topology: Topology, queue: str, most: int) -> set[str]:
    """Return the names of a queue and of queues that share an exchange with it, `most` names in all.

    >>> from qflow.labs.experiments import fanout_workload
    >>> sorted(neighbours(Topology.of(fanout_workload(), 0), "slow", 6))
    ['fast', 'medium', 'slow']
    """
    names = [spot.name for spot in topology.queues]
    exchanges = {exchange for exchange, bound in topology.bindings if names[bound] == queue}
    near = [names[bound] for exchange, bound in topology.bindings if exchange in exchanges]
    return set([queue, *near][:most])


def part_of(topology: Topology, queues: Collection[str]) -> Topology:
    """Return the part of a topology that consists of the given queues and the clients that use them.

    >>> from qflow.labs.experiments import fanout_workload
    >>> part = part_of(Topology.of(fanout_workload(), 0), {"slow"})
    >>> [spot.name for spot in (*part.queues, *part.consumers)]
    ['slow', 'c-slow']
    """
    kept = [index for index, spot in enumerate(topology.queues) if spot.name in queues]
    place = {index: number for number, index in enumerate(kept)}
    bindings = [(exchange, place[queue]) for exchange, queue in topology.bindings if queue in place]
    direct = {producer for producer, queue in topology.routes if queue in place}
    exchanges = sorted({exchange for exchange, _ in bindings})
    hubs = {exchange: number for number, exchange in enumerate(exchanges)}
    spots = enumerate(topology.producers)
    members = [index for index, spot in spots if spot.exchange in exchanges or index in direct]
    producers = [topology.producers[index] for index in members]
    routes = [(members.index(one), place[queue]) for one, queue in topology.routes if queue in place]
    return replace(
        topology,
        producers=tuple(replace(spot, exchange=hubs.get(spot.exchange, -1)) for spot in producers),
        queues=tuple(topology.queues[index] for index in kept),
        consumers=tuple(
            replace(spot, queue=place[spot.queue]) for spot in topology.consumers if spot.queue in place
        ),
        routes=tuple(routes),
        exchanges=tuple(topology.exchanges[index] for index in exchanges),
        bindings=tuple((hubs[exchange], queue) for exchange, queue in bindings),
    )


def topology_of_events(run: Run) -> Topology:
    """Return the topology of a run's workload if this has queues, or else the one found in its events."""
    if run.workload.queues:
        return Topology.of(run.workload, run.end)
    witness = _Witness()
    for event in run.events:
        witness.receive(event)
    return witness.topology(run)


class _Witness:
    """A collector of the clients and queues that occur in events."""

    def __init__(self) -> None:
        self.queues: dict[str, Mapping[str, Any]] = {}
        self.subscriptions: dict[str, str] = {}
        self.credit: dict[str, int] = {}
        self.senders: dict[str, dict[str, None]] = {}
        self.bindings: dict[tuple[str, str], None] = {}
        self.outstanding: Counter[str] = Counter()
        self.window: Counter[str] = Counter()
        self.unreported: Counter[str] = Counter()
        # For each AMQP 1.0 session, its transfers without an outcome, each with the name of its link.
        self.linked: dict[str, dict[int, str]] = {}
        self.routes: dict[tuple[str, str], None] = {}

    def receive(self, event: Event) -> None:
        detail: Any = event.detail or {}
        if event.kind == "session.attach" and "container" in detail:
            self.linked[event.session] = {}
        elif event.kind == "enqueued":
            self.routes[event.session, event.queue] = None
        elif event.session in self.linked:
            self.receive_link(event, detail, self.linked[event.session])
        elif event.kind == "queueDeclare":
            self.queues.setdefault(event.queue, detail["arguments"])
        elif event.kind == "bind" and event.link:
            self.bindings[event.link, event.queue] = None
        elif event.kind == "message.subscribe":
            self.subscriptions[f"{event.session}::{event.link}"] = event.queue
        elif event.kind == "message.flow" and detail["unit"] == MESSAGE_UNIT:
            self.credit[f"{event.session}::{event.link}"] = detail["value"]
        elif event.kind == "message.transfer":
            self.senders.setdefault(event.session, {})[event.link] = None
            self.outstanding[event.session] += 1
            now = self.outstanding[event.session]
            self.window[event.session] = max(now, self.window[event.session])
        elif event.kind == "completed" and event.message:
            self.unreported[event.session] += 1
        elif event.kind == "reported":
            self.outstanding[event.session] -= self.unreported.pop(event.session, 0)

    def receive_link(self, event: Event, detail: Any, waiting: dict[int, str]) -> None:
        """Process an event of an AMQP 1.0 client, each of whose transfers gets its own outcome."""
        session, link = event.session, f"{event.session}::{event.link}"
        if event.kind == "message.transfer":
            self.senders.setdefault(session, {})[event.link] = None
            waiting[detail["command"]] = detail["tag"]
            self.window[session] = max(len(waiting), self.window[session])
        elif event.kind in ("completed", "refused"):
            waiting.pop(detail["command"], None)
        elif event.kind == "link.detach":
            for command in [command for command, tag in waiting.items() if tag == event.link]:
                del waiting[command]
        elif event.kind == "subscribe":
            self.subscriptions[link] = event.queue
        elif event.kind == "message.flow" and detail["unit"] == MESSAGE_UNIT:
            self.credit[link] = max(detail["value"], self.credit.get(link, 0))

    def topology(self, run: Run) -> Topology:
        names, senders = list(self.queues), list(self.senders)
        exchanges, bindings = _bound(self.bindings, chain.from_iterable(self.senders.values()), names)
        # If a client sent to several exchanges, the first one is drawn.
        first = {name: next(filter(None, targets), "") for name, targets in self.senders.items()}
        sends, works = "sends as it was recorded", "works as it was recorded"
        producers = [
            ProducerSpot(name, self.window[name], sends, name, _place(to, exchanges), name in self.linked)
            for name, to in first.items()
        ]
        consumers = [
            ConsumerSpot(self._name(link), names.index(queue), self._prefetch(link), works, link)
            for link, queue in self.subscriptions.items()
            if queue in names
        ]
        routes = tuple(
            (senders.index(session), names.index(queue))
            for session, queue in self.routes
            if session in self.senders and queue in self.queues
        )
        queues = tuple(QueueSpot.of(name, self.queues[name], run.workload.options) for name in names)
        clients = tuple(producers), queues, tuple(_tell_apart(consumers)), routes
        return Topology(*clients, run.end, exchanges, bindings, group_key(self.queues.values()))

    def _name(self, link: str) -> str:
        """Return the name for a consumer: its tag, or its client's name for the only link in AMQP 1.0."""
        session, _, tag = link.partition("::")
        is_alone = sum(other.startswith(f"{session}::") for other in self.subscriptions) == 1
        return session if session in self.linked and is_alone else tag or link

    def _prefetch(self, link: str) -> int:
        credit = self.credit.get(link, 0)
        return 1 if credit in (0, INFINITE) else credit


def _tell_apart(consumers: list[ConsumerSpot]) -> list[ConsumerSpot]:
    """Return the consumers; those whose names are not unique are named by their whole links."""
    tags = Counter(consumer.name for consumer in consumers)
    return [spot if tags[spot.name] == 1 else replace(spot, name=spot.link) for spot in consumers]
