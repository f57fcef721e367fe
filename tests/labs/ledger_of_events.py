"""An independent count of a run's events, with which the numbers of a picture are compared.

Nothing here knows how :mod:`qflow.labs.fold` counts. A transfer is outstanding from its event until a report
of its session names its number; a completion is held until the queue releases it, or its session is gone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from qflow.broker.events import Event
from qflow.labs.picture import Picture

Counts = dict[str, list[list[int]]]


@dataclass
class EventLedger:
    """The counts of producers, queues and consumers, by their names, sessions and links."""

    outstanding: dict[str, dict[int, str]] = field(default_factory=dict)
    held: dict[tuple[str, str, int], str] = field(default_factory=dict)
    holders: dict[tuple[str, int], str] = field(default_factory=dict)
    sent: Counter[str] = field(default_factory=Counter)
    depth: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)
    on: set[str] = field(default_factory=set)

    def receive(self, event: Event) -> None:
        """Count one event."""
        detail: dict[str, Any] = dict(event.detail or {})
        place = event.queue, detail.get("position", -1)
        match event.kind:
            case "message.transfer":
                self.sent[producer_of(event.message)] += 1
                self.outstanding.setdefault(event.session, {})[detail["command"]] = event.message
            case "reported":
                self._report(event.session, detail["completed"])
            case "session.detach" | "exception":
                self.outstanding.pop(event.session, None)
                self.held = {key: label for key, label in self.held.items() if key[1] != event.session}
            case "held":
                self.held[event.queue, event.session, detail["command"]] = event.message
            case "let_go":
                self.held.pop((event.queue, event.session, detail["command"]), None)
            case "enqueued":
                self.depth[event.queue] += 1
            case "acquired":
                self.holders[place] = event.link
            case "requeued":
                self.holders.pop(place, None)
            case "dequeued":
                self.depth[event.queue] -= 1
                holder = self.holders.pop(place, None)
                self.accepted[str(holder)] += detail["reason"] == "accept"
            case "flow_stopped":
                self.on.add(event.queue)
            case "flow_resumed":
                self.on.discard(event.queue)

    def _report(self, session: str, ranges: str) -> None:
        for part in ranges.split():
            first, _, last = part.partition("-")
            for command in range(int(first), int(last or first) + 1):
                self.outstanding.get(session, {}).pop(command, None)

    def counts(self, picture: Picture) -> Counts:
        """Return the counts of each producer, queue and consumer in the form that a picture has."""
        topology = picture.frames.topology
        waiting = [label for commands in self.outstanding.values() for label in commands.values()]
        out = Counter(map(producer_of, waiting))
        # A fanout is held by several queues; its producer has one completion for it.
        held = {(session, command): label for (_, session, command), label in self.held.items()}
        held_of = Counter(map(producer_of, held.values()))
        held_in = Counter(queue for queue, _, _ in self.held)
        taken = Counter(self.holders.values())
        return {
            "producer": [
                [self.sent[one.name], out[one.name], held_of[one.name]] for one in topology.producers
            ],
            "queue": [[self.depth[one.name], held_in[one.name]] for one in topology.queues],
            "consumer": [[taken[one.link], self.accepted[one.link]] for one in topology.consumers],
        }


def producer_of(label: str) -> str:
    """Return the producer of a message, which is its label without the number."""
    return label.rpartition("-")[0]


def counts_by_frame(picture: Picture) -> list[Counts]:
    """Return the counts at each frame of a picture, made from the events alone."""
    ledger, found, place = EventLedger(), [], 0
    for last in picture.frames.rows:
        while place <= last:
            ledger.receive(picture.run.events[place])
            place += 1
        found.append(ledger.counts(picture))
    return found
