"""Seen: who takes part in a run, as its events tell; for traces that come without a workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from qflow.broker.credit import INFINITE, MESSAGE_UNIT
from qflow.broker.events import Event
from qflow.labs.topology import ConsumerSpot, ProducerSpot, QueueSpot, Topology, group_key
from qflow.workload import Run


def topology_of_events(run: Run) -> Topology:
    """Read a topology off a run: off its workload if that names its queues, else off its events.

    Parameters
    ----------
    run
        The run.

    Returns
    -------
    Topology
        A producer's capacity is the most it had outstanding, if only the events tell.
    """
    if run.workload.queues:
        return Topology.of(run.workload, run.end)
    witness = _Witness()
    for event in run.events:
        witness.hear(event)
    return witness.topology(run)


class _Witness:
    """What was seen of everyone so far."""

    def __init__(self) -> None:
        self.queues: dict[str, Mapping[str, Any]] = {}
        self.subscriptions: dict[str, str] = {}
        self.credit: dict[str, int] = {}
        self.senders: dict[str, dict[str, None]] = {}
        self.bindings: dict[tuple[str, str], None] = {}
        self.outstanding: Counter[str] = Counter()
        self.window: Counter[str] = Counter()
        self.unreported: Counter[str] = Counter()

    def hear(self, event: Event) -> None:
        detail: Any = event.detail or {}
        if event.kind == "queueDeclare":
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

    def topology(self, run: Run) -> Topology:
        names = list(self.queues)
        sent_to = [exchange for targets in self.senders.values() for exchange in targets if exchange]
        exchanges = list(dict.fromkeys([*(exchange for exchange, _ in self.bindings), *sent_to]))
        producers = [
            ProducerSpot(
                name,
                self.window[name],
                "sends as it was recorded",
                name,
                next((exchanges.index(target) for target in targets if target), -1),
            )
            for name, targets in self.senders.items()
        ]
        consumers = [
            ConsumerSpot(
                link.partition("::")[2] or link,
                names.index(queue),
                self._prefetch(link),
                "works as it was recorded",
                link,
            )
            for link, queue in self.subscriptions.items()
            if queue in names
        ]
        return Topology(
            tuple(producers),
            tuple(QueueSpot.of(name, self.queues[name], run.workload.options) for name in names),
            tuple(_told_apart(consumers)),
            (),
            run.end,
            tuple(exchanges),
            tuple((exchanges.index(e), names.index(q)) for e, q in self.bindings if q in names),
            group_key(self.queues.values()),
        )

    def _prefetch(self, link: str) -> int:
        credit = self.credit.get(link, 0)
        return 1 if credit in (0, INFINITE) else credit


def _told_apart(consumers: list[ConsumerSpot]) -> list[ConsumerSpot]:
    """Name consumers by their whole link where tags repeat."""
    tags = Counter(consumer.name for consumer in consumers)
    return [
        consumer
        if tags[consumer.name] == 1
        else ConsumerSpot(consumer.link, consumer.queue, consumer.prefetch, consumer.note, consumer.link)
        for consumer in consumers
    ]
