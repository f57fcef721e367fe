"""MessageGroupManager: a message group belongs to one consumer at a time (MG).

It is both an observer of the queue, to know the owner of each group, and the queue's distributor, to say
which consumer may take which message (compare ``MessageGroupManager.cpp``).  A group is owned from the first
acquire of one of its messages until none is acquired any more (MG-07, MG-08).

The real broker walks past every message whose group has another owner.  A :class:`_GroupIndex` finds the
same message in O(log n): the first waiting message of each group, in one heap for the groups without an
owner and in one for each owner.  Entries that have become untrue are dropped when they come to the top.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import ClassVar

from qflow.broker.context import BrokerContext
from qflow.broker.message import ACQUIRED, AVAILABLE, QueuedMessage
from qflow.broker.readers import MessageDistributor, QueueConsumer
from qflow.broker.restorable import Dependent
from qflow.broker.stores import Messages

Entry = tuple[int, str]
"""A position and the group whose first waiting message has it."""


class GroupState(Dependent):
    """One group on one queue: its members, its acquired members, and its owner (MG-06)."""

    __slots__ = ("name", "members", "acquired", "owner")

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[int, QueuedMessage] = {}
        self.acquired = 0
        self.owner = ""


class _GroupIndex(Dependent):
    """An index of every group's first waiting message, by the group's owner; built when needed."""

    __slots__ = ("_groups", "_waiting", "_gone", "_firsts", "has_expiring")

    def __init__(self, groups: dict[str, GroupState]) -> None:
        self._groups = groups
        # By group: positions as a heap, and those in it that wait no more, or not now.
        self._waiting: dict[str, list[int]] = {}
        self._gone: set[int] = set()
        # By owner, "" for none: the first waiting message of each group, as a heap.
        self._firsts: dict[str, list[Entry]] = {}
        # A message that can expire has to be looked at by every consumer that comes past (QT-07).
        self.has_expiring = False
        for state in groups.values():
            positions = [p for p, message in state.members.items() if message.state == AVAILABLE]
            heapify(positions)
            self._waiting[state.name] = positions
            self.note_owner(state)
            if any(message.transfer.expiration is not None for message in state.members.values()):
                self.has_expiring = True

    def first(self, owner: str) -> QueuedMessage | None:
        """Return the first waiting message of a group that is free or ``owner``'s, or None."""
        # Two heaps in place of a walk past every message of others' groups: with 10,000 groups in front the
        # real broker's walk takes 10,000 steps for each delivery, and gives the same message.
        free, own = self._first("", ""), self._first(owner, owner)
        if free is None or (own is not None and own[0] < free[0]):
            free = own
        if free is None:
            return None
        position, key = free
        return self._groups[key].members[position]

    def _first(self, key: str, owner: str) -> Entry | None:
        entries = self._firsts.get(key)
        if entries is None:
            return None
        while entries:
            position, name = entries[0]
            state = self._groups.get(name)
            # Entries are never searched for; one that is out of date is dropped when it comes to the top.
            if state is not None and state.owner == owner and self._position(name) == position:
                return entries[0]
            heappop(entries)
        del self._firsts[key]
        return None

    def _position(self, name: str) -> int:
        """Return the position of a group's first waiting message, or 0."""
        waiting, gone = self._waiting[name], self._gone
        while waiting and waiting[0] in gone:
            gone.discard(heappop(waiting))
        return waiting[0] if waiting else 0

    # What has happened to a group

    def note_owner(self, state: GroupState) -> None:
        """Record a change of a group's owner."""
        # The old entry stays where it is, under its old owner: heaps cannot remove from the middle. _first
        # drops it when it comes to the top.
        position = self._position(state.name)
        if position:
            heappush(self._firsts.setdefault(state.owner, []), (position, state.name))

    def note_waiting(self, state: GroupState, message: QueuedMessage) -> None:
        """Record a waiting message: a new one, or a released one."""
        position = message.position
        if message.transfer.expiration is not None:
            self.has_expiring = True
        waiting = self._waiting.setdefault(state.name, [])
        # Released again before it came to the top: it is still in the heap.
        if position in self._gone:
            self._gone.discard(position)
        else:
            heappush(waiting, position)
        if self._position(state.name) == position:
            self.note_owner(state)

    def note_leaving(self, state: GroupState, message: QueuedMessage) -> None:
        """Record that a waiting message is no longer available."""
        self._gone.add(message.position)
        self.note_owner(state)

    def forget(self, state: GroupState) -> None:
        """Record that a group has no members left."""
        self._gone.difference_update(self._waiting.pop(state.name, ()))


class MessageGroupManager(MessageDistributor):
    """Keeps a queue's groups, by a header (MG-04); a freed one lets cursors start again (MG-11)."""

    VOLATILE: ClassVar[tuple[str, ...]] = ("index",)

    __slots__ = ("context", "queue", "header_key", "groups", "has_freed", "index")

    def __init__(self, context: BrokerContext, queue: str, store: Messages, header_key: str) -> None:
        super().__init__(store)
        self.context = context
        self.queue = queue
        self.header_key = header_key
        self.groups: dict[str, GroupState] = {}
        self.has_freed = False
        self.index: _GroupIndex | None = None

    def next(self, consumer: QueueConsumer, skips: bool) -> QueuedMessage | None:
        """Return the next candidate message; those of other owners' groups are skipped where possible."""
        # A browser sees messages of all groups; and with a byte limit or a selector each message has to be
        # looked at.
        if not skips or not consumer.acquires:
            return self.store.next(consumer.cursor)
        if self.index is None:
            self.index = _GroupIndex(self.groups)
        # With messages that can expire the walk is made as the real broker makes it: each one that is passed
        # is looked at, and removed if its time is over. An index that skips them would leave them on the
        # queue.
        if self.index.has_expiring:
            return self.store.next(consumer.cursor)
        message = self.index.first(consumer.owner)
        if message is not None:
            return self.store.go(consumer.cursor, message)
        if self.store.go_to_end(consumer.cursor):
            # It has credit for what it passes over, as a look at that would have found out.
            consumer.is_blocked = False
        return None

    def may_acquire(self, owner: str, message: QueuedMessage) -> bool:
        """Return whether the message's group is free or already belongs to ``owner`` (MG-07)."""
        return self.groups[message.group].owner in ("", owner)

    def take(self, owner: str, message: QueuedMessage) -> bool:
        """Acquire the message for ``owner``, and the group too if it is free (MG-07, MG-08)."""
        state = self.groups[message.group]
        if not state.owner:
            state.owner = owner
            self._emit("group_owned", state)
            # Where the rest of it waits is noted when the message is acquired, which is next.
            return True
        return state.owner == owner

    def enqueued(self, message: QueuedMessage) -> None:
        """Classify a new message (MG-03) and add it to its group."""
        message.group = self.identify(message)
        state = self.groups.get(message.group)
        if state is None:
            state = self.groups[message.group] = GroupState(message.group)
        state.members[message.position] = message
        if self.index is not None:
            self.index.note_waiting(state, message)

    def acquired(self, message: QueuedMessage) -> None:
        """Count one more acquired member."""
        state = self.groups[message.group]
        state.acquired += 1
        if self.index is not None:
            self.index.note_leaving(state, message)

    def requeued(self, message: QueuedMessage) -> None:
        """Count one acquired member fewer; the last one frees the group (MG-08)."""
        state = self.groups[message.group]
        state.acquired -= 1
        # A release frees the group before anybody is woken for the message, so the next owner may be whoever
        # is woken; an accept frees it as well, and wakes nobody (MG-13).
        if not state.acquired:
            self._free(state)
        if self.index is not None:
            self.index.note_waiting(state, message)

    def dequeued(self, message: QueuedMessage) -> None:
        """Remove a member; a group without members ends, one without acquired members is free."""
        state = self.groups[message.group]
        del state.members[message.position]
        # By a purge or a ring a message may go that nobody had acquired; only an acquired one is counted.
        if message.state == ACQUIRED:
            state.acquired -= 1
        elif self.index is not None:
            self.index.note_leaving(state, message)
        if not state.members:
            self._free(state)
            del self.groups[message.group]
            if self.index is not None:
                self.index.forget(state)
        elif not state.acquired and state.owner:
            self._free(state)
            # Cursors restart, yet no reader is woken: the lost wake-up of MG-13 (RF-17).
            self.store.reset_cursors()
            self.has_freed = True

    def identify(self, message: QueuedMessage) -> str:
        """Return the group a message belongs to on this queue (MG-04, MG-05)."""
        name = message.transfer.message.property_as_string(self.header_key)
        return name or self.context.options.default_message_group

    def state(self) -> list[dict[str, object]]:
        """Return the state of the groups, as management's ``query`` shows it (MG-24)."""
        return [
            {
                "group_id": state.name,
                "msg_count": len(state.members),
                "timestamp": next(iter(state.members.values())).transfer.message.timestamp or 0,
                "consumer": state.owner,
            }
            for state in self.groups.values()
        ]

    def _free(self, state: GroupState) -> None:
        if state.owner:
            self._emit("group_freed", state)
            state.owner = ""
            if self.index is not None:
                self.index.note_owner(state)

    def _emit(self, kind: str, state: GroupState) -> None:
        if self.context.observer is not None:
            self.context.emit(kind, queue=self.queue, link=state.owner, group=state.name)
