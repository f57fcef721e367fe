"""The queues' side of a fold: how deep they are, which messages lie there, and who has which."""

from __future__ import annotations

from typing import Any

from qflow.broker.events import Event
from qflow.labs import channels as ch
from qflow.labs.fold_producers import ProducerSide
from qflow.labs.row import Place
from qflow.labs.spans import HOLDINGS, LOCKS, NEVER, REASONS, STAYS, Spans
from qflow.labs.topology import Topology
from qflow.labs.words import BITS

_TOLD = {"ring": "evicted", "lvq": "replaced", "queue-deleted": ""}
_DISCARDS = ("ring", "reject", "lvq", "queue-deleted")
_REASON = {reason: number for number, reason in enumerate(REASONS)}


class QueueSide(ProducerSide):
    """What is to be seen of the queues while events go by.

    Parameters
    ----------
    topology
        Who takes part.

    Attributes
    ----------
    stays, holdings, locks
        Every message's stay on a queue, at a consumer, and every consumer's ownership of a group.
    """

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)
        self.stays, self.holdings, self.locks = Spans(STAYS), Spans(HOLDINGS), Spans(LOCKS)
        self._stops = [(spot.stop_count, spot.stop_size) for spot in topology.queues]
        self._links: dict[str, Place] = {spot.link: self.consumers[spot.name] for spot in topology.consumers}
        # By queue and position: a message's row in ``stays``; in ``holdings``, with its consumer's column.
        self._stay: dict[tuple[str, int], int] = {}
        self._holding: dict[tuple[str, int], tuple[int, int]] = {}
        self._newest: dict[tuple[str, str], int] = {}
        self._lock: dict[tuple[str, str], int] = {}

    # Messages that come and go

    def _enqueued(self, event: Event) -> None:
        index = self._count_depth(event)
        self.is_dirty = True
        sender, number = self.find_message(event.message)
        producer = self._producer(event)
        if producer is not None:
            self.routes[producer[0], index] = None
        sent = self._group_by_message.get((sender, number), 0)
        group = self.group_number(event.group) if event.group else sent
        row = self.stays.add(
            *(index, sender, number, group, self.count, NEVER, 0, NEVER, NEVER, NEVER), event.size
        )
        self._stay[event.queue, _detail(event)["position"]] = row
        self._newest[event.queue, event.message] = row

    def _dequeued(self, event: Event) -> None:
        self._count_depth(event)
        self.name_message(event.message)
        reason = _detail(event)["reason"]
        consumer = self._disown(event)
        row = self._stay.pop((event.queue, _detail(event)["position"]), None)
        if row is not None:
            self.stays.set(row, "end", self.count)
            self.stays.set(row, "reason", _REASON.get(reason, _REASON["other"]))
        if consumer and reason == "accept":
            self.now[consumer + ch.ACCEPTED] += 1
            self.tell("accepted")
            return
        if reason in _DISCARDS:
            self.now[self.queues[event.queue][1] + ch.DISCARDS] += 1
        told = "rejected" if consumer and reason == "reject" else _TOLD.get(reason, "removed")
        if told:
            self.tell(told)

    def _count_depth(self, event: Event) -> int:
        index, at = self.queues[event.queue]
        detail = _detail(event)
        now = self.now
        now[ch.QUEUE] = index
        now[at + ch.DEPTH] = detail["depth"]
        now[at + ch.BYTES] = detail["bytes"]
        return index

    def _dropped(self, event: Event) -> None:
        index, at = self.queues[event.queue]
        self.now[ch.QUEUE] = index
        self.now[at + ch.DISCARDS] += 1
        self.tell("dropped")

    def _deleted(self, event: Event) -> None:
        if event.queue in self.queues:
            index, at = self.queues[event.queue]
            self.now[ch.QUEUE] = index
            self.now[at + ch.GONE] = 1
            self.tell("destroyed" if _detail(event)["reason"] == "self-destruct" else "removed")

    # Flow control

    def _held(self, event: Event) -> None:
        self.now[self.queues[event.queue][1] + ch.Q_HELD] += 1
        self.tell("held")
        self._mark_stay(event, "held_start")
        super()._held(event)

    def _let_go(self, event: Event) -> None:
        now = self.now
        now[self.queues[event.queue][1] + ch.Q_HELD] -= 1
        now[ch.FREED] += 1
        self.tell("freed" if now[ch.PARTS] & BITS["turned_off"] else "freed_own")
        self._mark_stay(event, "held_end")
        super()._let_go(event)

    def _mark_stay(self, event: Event, column: str) -> None:
        row = self._newest.get((event.queue, event.message))
        if row is not None:
            self.stays.set(row, column, self.count)

    def _flow_stopped(self, event: Event) -> None:
        index, at = self.queues[event.queue]
        self.now[at + ch.FLOW] = 1
        self.now[ch.QUEUE] = index
        count, size = self._stops[index]
        if count and self.now[at + ch.DEPTH] > count:
            self.tell("turned_on")
        else:
            # The watermark proposal turns ON at its level, what shipped above it (ALT-08).
            self.tell("turned_on_bytes" if size and self.now[at + ch.BYTES] > size else "turned_on_at")

    def _flow_resumed(self, event: Event) -> None:
        index, at = self.queues[event.queue]
        self.now[at + ch.FLOW] = 0
        self.now[ch.QUEUE] = index
        self.tell("turned_off")

    # Who has which message, and which group

    def _acquired(self, event: Event) -> None:
        key = event.queue, _detail(event)["position"]
        index, at = self._links.get(event.link, (-1, 0))
        stay = self._stay.get(key, -1)
        again = int(stay >= 0 and self.stays.get(stay, "again") <= self.count)
        self._holding[key] = self.holdings.add(stay, index + 1, self.count, NEVER, again), at
        self.now[self.queues[event.queue][1] + ch.ACQUIRED] += 1
        if at:
            self.now[at + ch.HOLDS] += 1
        self.is_dirty = True

    def _requeued(self, event: Event) -> None:
        self.now[ch.QUEUE] = self.queues[event.queue][0]
        self.name_message(event.message)
        self._disown(event)
        row = self._stay.get((event.queue, _detail(event)["position"]))
        if row is not None and self.stays.get(row, "again") == NEVER:
            self.stays.set(row, "again", self.count)
        self.tell("given_back")

    def _disown(self, event: Event) -> int:
        """Take a message from whoever acquired it; return that consumer's first column, or 0."""
        row, consumer = self._holding.pop((event.queue, _detail(event)["position"]), (-1, -1))
        if consumer < 0:
            return 0
        self.holdings.set(row, "end", self.count)
        self.now[self.queues[event.queue][1] + ch.ACQUIRED] -= 1
        if consumer:
            self.now[consumer + ch.HOLDS] -= 1
        return consumer

    def _group_owned(self, event: Event) -> None:
        if event.queue in self.queues:
            owner, number = self._links.get(event.link, (-1, 0))[0], self.group_number(event.group)
            row = self.locks.add(self.queues[event.queue][0], number, owner + 1, self.count, NEVER)
            self._lock[event.queue, event.group] = row
            self.is_dirty = True

    def _group_freed(self, event: Event) -> None:
        row = self._lock.pop((event.queue, event.group), None)
        if row is not None:
            self.locks.set(row, "end", self.count)
            self.is_dirty = True


def _detail(event: Event) -> Any:
    return event.detail
