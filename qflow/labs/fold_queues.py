"""The queues' side of a fold: how deep they are, which messages lie there, and who has which."""

from __future__ import annotations

from qflow.labs import channels as ch
from qflow.labs.fold_producers import Fields, ProducerSide
from qflow.labs.spans import HOLDINGS, LOCKS, NEVER, REASONS, STAYS
from qflow.labs.topology import Topology
from qflow.labs.words import BITS

_TOLD = {"ring": "evicted", "lvq": "replaced", "queue-deleted": ""}
_GIVES_WAY = ("ring", "lvq")
_DISCARDS = ("ring", "reject", "lvq", "queue-deleted")
_STAY_END, _WHY, _AGAIN = map(STAYS.index, ("end", "reason", "again"))
_STAY_HELD_START, _STAY_HELD_END = map(STAYS.index, ("held_start", "held_end"))
_HOLDING_END = HOLDINGS.index("end")
_LOCK_END = LOCKS.index("end")
_NOBODY = (-1, -1)
_REASON = {reason: number for number, reason in enumerate(REASONS)}
_ACCEPTED, _TURNED_OFF = BITS["accepted"], BITS["turned_off"]


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
        self.stays: list[int] = []
        self.holdings: list[int] = []
        self.locks: list[int] = []
        self._stops = [(spot.stop_count, spot.stop_size) for spot in topology.queues]
        # By queue and position: where a message's row begins in ``stays``; in ``holdings``, with its
        # consumer's first column.
        self._stay: dict[tuple[str, int], int] = {}
        self._holding: dict[tuple[str, int], tuple[int, int]] = {}
        self._newest: dict[tuple[str, str], int] = {}
        self._lock: dict[tuple[str, str], int] = {}

    # Messages that come and go

    def _enqueued(self, event: Fields) -> None:
        _, _, queue, session, _, label, size, group, _, (position, depth, volume) = event
        index, _ = self._count_depth(queue, depth, volume)
        self.is_dirty = True
        found = self._known.get(label) or self.find_message(label)
        producer = self._alone.get(session) or self._producer(session, label)
        if producer is not None:
            self.routes[producer[0], index] = None
        colour = self.group_number(group) if group else self._group_by_message.get(found, 0)
        stays = self.stays
        self._stay[queue, position] = self._newest[queue, label] = len(stays)
        stays += (index, *found, colour, self.count, NEVER, 0, NEVER, NEVER, NEVER, size)

    def _dequeued(self, event: Fields) -> None:
        _, _, queue, _, _, label, _, _, _, (position, reason, depth, volume) = event
        _, at = self._count_depth(queue, depth, volume)
        now = self.now
        found = self._known.get(label) or self.find_message(label)
        if reason in _GIVES_WAY:
            # In the same step another message is sent, which is told, too.
            now[ch.LOST_SENDER], now[ch.LOST_NUMBER] = found
        else:
            now[ch.SENDER], now[ch.NUMBER] = found
        key = queue, position
        consumer = self._disown(key)
        start = self._stay.pop(key, None)
        if start is not None:
            self.stays[start + _STAY_END] = self.count
            self.stays[start + _WHY] = _REASON.get(reason, _REASON["other"])
        if consumer and reason == "accept":
            now[consumer + ch.ACCEPTED] += 1
            now[ch.PARTS] |= _ACCEPTED
            self.is_dirty = True
            return
        if reason in _DISCARDS:
            now[at + ch.DISCARDS] += 1
        told = "rejected" if consumer and reason == "reject" else _TOLD.get(reason, "removed")
        if told:
            self.tell(told)

    def _count_depth(self, queue: str, depth: int, volume: int) -> tuple[int, int]:
        """Take over how deep a queue is; return its number and its first column."""
        index, at = self.queues[queue]
        now = self.now
        now[ch.QUEUE] = index
        now[at + ch.DEPTH] = depth
        now[at + ch.BYTES] = volume
        return index, at

    def _dropped(self, event: Fields) -> None:
        index, at = self.queues[event[2]]
        self.now[ch.QUEUE] = index
        self.now[at + ch.DISCARDS] += 1
        self.tell("dropped")

    def _deleted(self, event: Fields) -> None:
        if event[2] in self.queues:
            index, at = self.queues[event[2]]
            self.now[ch.QUEUE] = index
            self.now[at + ch.GONE] = 1
            self.tell("destroyed" if event[9] == ("self-destruct",) else "removed")

    # Flow control

    def _held(self, event: Fields) -> None:
        self.now[self.queues[event[2]][1] + ch.Q_HELD] += 1
        self.tell("held")
        self._mark_stay(event, _STAY_HELD_START)
        super()._held(event)

    def _let_go(self, event: Fields) -> None:
        now = self.now
        now[self.queues[event[2]][1] + ch.Q_HELD] -= 1
        now[ch.FREED] += 1
        self.tell("freed" if now[ch.PARTS] & _TURNED_OFF else "freed_own")
        self._mark_stay(event, _STAY_HELD_END)
        super()._let_go(event)

    def _mark_stay(self, event: Fields, column: int) -> None:
        start = self._newest.get((event[2], event[5]))
        if start is not None:
            self.stays[start + column] = self.count

    def _flow_stopped(self, event: Fields) -> None:
        index, at = self.queues[event[2]]
        self.now[at + ch.FLOW] = 1
        self.now[ch.QUEUE] = index
        count, size = self._stops[index]
        if count and self.now[at + ch.DEPTH] > count:
            self.tell("turned_on")
        else:
            # The watermark proposal turns ON at its level, what shipped above it (ALT-08).
            self.tell("turned_on_bytes" if size and self.now[at + ch.BYTES] > size else "turned_on_at")

    def _flow_resumed(self, event: Fields) -> None:
        index, at = self.queues[event[2]]
        self.now[at + ch.FLOW] = 0
        self.now[ch.QUEUE] = index
        self.tell("turned_off")

    # Who has which message, and which group

    def _acquired(self, event: Fields) -> None:
        _, _, queue, _, link, _, _, _, _, (position,) = event
        key = queue, position
        index, at = self.by_link.get(link, (-1, 0))
        start = self._stay.get(key, -1)
        count, holdings, now = self.count, self.holdings, self.now
        again = 1 if start >= 0 and self.stays[start + _AGAIN] <= count else 0
        self._holding[key] = len(holdings), at
        holdings += (start // len(STAYS), index + 1, count, NEVER, again)
        now[self.queues[queue][1] + ch.ACQUIRED] += 1
        if at:
            now[at + ch.HOLDS] += 1
        self.is_dirty = True

    def _requeued(self, event: Fields) -> None:
        _, _, queue, _, _, label, _, _, _, (position,) = event
        self.now[ch.QUEUE] = self.queues[queue][0]
        self.name_message(label)
        key = queue, position
        self._disown(key)
        start = self._stay.get(key)
        if start is not None and self.stays[start + _AGAIN] == NEVER:
            self.stays[start + _AGAIN] = self.count
        self.tell("given_back")

    def _disown(self, key: tuple[str, int]) -> int:
        """Take a message from whoever acquired it; return that consumer's first column, or 0."""
        start, consumer = self._holding.pop(key, _NOBODY)
        if consumer < 0:
            return 0
        self.holdings[start + _HOLDING_END] = self.count
        self.now[self.queues[key[0]][1] + ch.ACQUIRED] -= 1
        if consumer:
            self.now[consumer + ch.HOLDS] -= 1
        return consumer

    def _group_owned(self, event: Fields) -> None:
        queue, link, group = event[2], event[4], event[7]
        if queue in self.queues:
            owner, number = self.by_link.get(link, (-1, 0))[0], self.group_number(group)
            self._lock[queue, group] = len(self.locks)
            self.locks += (self.queues[queue][0], number, owner + 1, self.count, NEVER)
            self.is_dirty = True

    def _group_freed(self, event: Fields) -> None:
        start = self._lock.pop((event[2], event[7]), None)
        if start is not None:
            self.locks[start + _LOCK_END] = self.count
            self.is_dirty = True
