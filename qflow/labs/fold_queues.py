"""The queues' side of a fold: how deep they are, which messages lie there, and who has which."""

from __future__ import annotations

from typing import Any

from qflow.broker.events import Event
from qflow.labs import channels as ch
from qflow.labs.fold_producers import ProducerSide
from qflow.labs.spans import HOLDINGS, LOCKS, NEVER, REASONS, STAYS, Spans
from qflow.labs.topology import Topology
from qflow.labs.words import BITS

_TOLD = {"ring": "evicted", "lvq": "replaced", "queue-deleted": ""}
_DISCARDS = ("ring", "reject", "lvq", "queue-deleted")
_STAY, _HOLDING = len(STAYS), len(HOLDINGS)
_END, _WHY, _AGAIN = (STAYS.index(name) for name in ("end", "reason", "again"))
_HOLDING_END = HOLDINGS.index("end")
_NOBODY = (-1, -1)
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
        self._stays = self.stays.data
        self._stops = [(spot.stop_count, spot.stop_size) for spot in topology.queues]
        # By queue and position: a message's row in ``stays``; in ``holdings``, with its consumer's column.
        self._stay: dict[tuple[str, int], int] = {}
        self._holding: dict[tuple[str, int], tuple[int, int]] = {}
        self._newest: dict[tuple[str, str], int] = {}
        self._lock: dict[tuple[str, str], int] = {}

    # Messages that come and go

    def _enqueued(self, event: Event) -> None:
        # Names once: this and the other handlers of a message's way are called for every message.
        _, _, queue, _, _, message, size, group, _ = event
        detail: Any = event.detail
        index = self._count_depth(queue, detail)
        self.is_dirty = True
        found = self._known.get(message) or self.find_message(message)
        producer = self._producer(event)
        if producer is not None:
            self.routes[producer[0], index] = None
        colour = self.group_number(group) if group else self._group_by_message.get(found, 0)
        row = len(self._stays) // _STAY
        self._stays.extend((index, *found, colour, self.count, NEVER, 0, NEVER, NEVER, NEVER, size))
        self._stay[queue, detail["position"]] = row
        self._newest[queue, message] = row

    def _dequeued(self, event: Event) -> None:
        _, _, queue, _, _, message, *_ = event
        detail: Any = event.detail
        self._count_depth(queue, detail)
        self.name_message(message)
        reason = detail["reason"]
        key = queue, detail["position"]
        consumer = self._disown(key)
        row = self._stay.pop(key, None)
        if row is not None:
            self._stays[row * _STAY + _END] = self.count
            self._stays[row * _STAY + _WHY] = _REASON.get(reason, _REASON["other"])
        if consumer and reason == "accept":
            self.now[consumer + ch.ACCEPTED] += 1
            self.tell("accepted")
            return
        if reason in _DISCARDS:
            self.now[self.queues[event.queue][1] + ch.DISCARDS] += 1
        told = "rejected" if consumer and reason == "reject" else _TOLD.get(reason, "removed")
        if told:
            self.tell(told)

    def _count_depth(self, queue: str, detail: Any) -> int:
        index, at = self.queues[queue]
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
        _, _, queue, _, link, *_ = event
        detail: Any = event.detail
        key = queue, detail["position"]
        index, at = self.by_link.get(link, (-1, 0))
        stay = self._stay.get(key, -1)
        again = int(stay >= 0 and self._stays[stay * _STAY + _AGAIN] <= self.count)
        holdings = self.holdings.data
        self._holding[key] = len(holdings) // _HOLDING, at
        holdings.extend((stay, index + 1, self.count, NEVER, again))
        self.now[self.queues[queue][1] + ch.ACQUIRED] += 1
        if at:
            self.now[at + ch.HOLDS] += 1
        self.is_dirty = True

    def _requeued(self, event: Event) -> None:
        self.now[ch.QUEUE] = self.queues[event.queue][0]
        self.name_message(event.message)
        key = event.queue, _detail(event)["position"]
        self._disown(key)
        row = self._stay.get(key)
        if row is not None and self.stays.get(row, "again") == NEVER:
            self.stays.set(row, "again", self.count)
        self.tell("given_back")

    def _disown(self, key: tuple[str, int]) -> int:
        """Take a message from whoever acquired it; return that consumer's first column, or 0."""
        row, consumer = self._holding.pop(key, _NOBODY)
        if consumer < 0:
            return 0
        self.holdings.data[row * _HOLDING + _HOLDING_END] = self.count
        self.now[self.queues[key[0]][1] + ch.ACQUIRED] -= 1
        if consumer:
            self.now[consumer + ch.HOLDS] -= 1
        return consumer

    def _group_owned(self, event: Event) -> None:
        if event.queue in self.queues:
            owner, number = self.by_link.get(event.link, (-1, 0))[0], self.group_number(event.group)
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
