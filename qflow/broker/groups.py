"""Message groups: a group of messages on a queue belongs to at most one consumer at a time (MG).

The :class:`MessageGroupManager` of a queue is both an observer, which keeps track of the groups and their
owners, and the queue's distributor, which decides which consumer may take which message (compare
``MessageGroupManager.cpp``).  A consumer owns a group from the moment it acquires one of the group's messages
until none of them is acquired any more (MG-07, MG-08).

To find a consumer's next message, the real broker walks past every message whose group has another owner.  A
:class:`_GroupIndex` finds the same message in O(log n).  It keeps the first available message of each group
in heaps: one for the groups without an owner, and one for each owner.  Outdated entries are dropped when they
reach the top of their heap.
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
"""The position of a group's first available message, and the name of the group."""


class GroupState(Dependent):
    """A group on a queue: its messages, the number of acquired ones, and its owner, or "" (MG-06)."""

    __slots__ = ("name", "members", "acquired", "owner")

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[int, QueuedMessage] = {}
        self.acquired = 0
        self.owner = ""


class _GroupIndex(Dependent):
    """An index of the first available message of every group, by the group's owner; built when needed."""

    __slots__ = ("_groups", "_waiting", "_gone", "_firsts", "has_expiring")

    def __init__(self, groups: dict[str, GroupState]) -> None:
        self._groups = groups
        # For each group a heap of positions, and in one set all those in the heaps that are not available.
        self._waiting: dict[str, list[int]] = {}
        self._gone: set[int] = set()
        # For each owner, with "" for no owner, a heap of the first available messages of its groups.
        self._firsts: dict[str, list[Entry]] = {}
        # Whether there are messages that can expire, which every consumer has to check in passing (QT-07).
        self.has_expiring = False
        for state in groups.values():
            positions = [p for p, message in state.members.items() if message.state == AVAILABLE]
            heapify(positions)
            self._waiting[state.name] = positions
            self.note_owner(state)
            if any(message.transfer.expiration is not None for message in state.members.values()):
                self.has_expiring = True

    def first(self, owner: str) -> QueuedMessage | None:
        """Return the first available message of a group that is free or owned by ``owner``, or None."""
        # Two heaps replace a walk past every message of other owners' groups: with 10,000 such groups in
        # front, the real broker takes 10,000 steps for each delivery, and finds the same message.
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
            # Entries are never searched for; an outdated one is dropped when it reaches the top.
            if state is not None and state.owner == owner and self._position(name) == position:
                return entries[0]
            heappop(entries)
        del self._firsts[key]
        return None

    def _position(self, name: str) -> int:
        """Return the position of a group's first available message, or 0 if all are acquired."""
        waiting, gone = self._waiting[name], self._gone
        while waiting and waiting[0] in gone:
            gone.discard(heappop(waiting))
        return waiting[0] if waiting else 0

    # Changes of groups

    def note_owner(self, state: GroupState) -> None:
        """Record a change of a group's owner, or of its first available message."""
        # The old entry stays in the heap of the old owner, as an item cannot be removed from the middle of a
        # heap. _first drops it when it reaches the top.
        position = self._position(state.name)
        if position:
            heappush(self._firsts.setdefault(state.owner, []), (position, state.name))

    def note_waiting(self, state: GroupState, message: QueuedMessage) -> None:
        """Record that a message, new or released, is available."""
        position = message.position
        if message.transfer.expiration is not None:
            self.has_expiring = True
        waiting = self._waiting.setdefault(state.name, [])
        # A message that was released before it reached the top is still in the heap.
        if position in self._gone:
            self._gone.discard(position)
        else:
            heappush(waiting, position)
        if self._position(state.name) == position:
            self.note_owner(state)

    def note_leaving(self, state: GroupState, message: QueuedMessage) -> None:
        """Record that a message is no longer available."""
        self._gone.add(message.position)
        self.note_owner(state)

    def forget(self, state: GroupState) -> None:
        """Record that a group has no messages left."""
        self._gone.difference_update(self._waiting.pop(state.name, ()))


class MessageGroupManager(MessageDistributor):
    """The message groups of a queue, which a header of each message names (MG-04)."""

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
        """Return the next message to try, without those of other owners' groups if ``skips`` allows."""
        # A browser sees the messages of all groups; and with a byte limit or a selector each message has to
        # be checked.
        if not skips or not consumer.acquires:
            return self.store.next(consumer.cursor)
        if self.index is None:
            self.index = _GroupIndex(self.groups)
        # With messages that can expire, the search visits each message as in the real broker, which removes
        # expired ones in passing. An index that skips them would leave them on the queue.
        if self.index.has_expiring:
            return self.store.next(consumer.cursor)
        message = self.index.first(consumer.owner)
        if message is not None:
            return self.store.go(consumer.cursor, message)
        if self.store.go_to_end(consumer.cursor):
            # The consumer has credit for the messages that it skips, as a check of one would have shown.
            consumer.is_blocked = False
        return None

    def may_acquire(self, owner: str, message: QueuedMessage) -> bool:
        """Return whether the message's group is free or owned by ``owner`` (MG-07)."""
        return self.groups[message.group].owner in ("", owner)

    def take(self, owner: str, message: QueuedMessage) -> bool:
        """Give the message's group to ``owner`` if it is free; return whether ``owner`` has it (MG-07)."""
        state = self.groups[message.group]
        if not state.owner:
            state.owner = owner
            self._emit("group_owned", state)
            # The index is updated when the message is acquired, which follows.
            return True
        return state.owner == owner

    def enqueued(self, message: QueuedMessage) -> None:
        """Add a new message to the group that its header names (MG-03)."""
        message.group = self.identify(message)
        state = self.groups.get(message.group)
        if state is None:
            state = self.groups[message.group] = GroupState(message.group)
        state.members[message.position] = message
        if self.index is not None:
            self.index.note_waiting(state, message)

    def acquired(self, message: QueuedMessage) -> None:
        """Count one more acquired message of the group."""
        state = self.groups[message.group]
        state.acquired += 1
        if self.index is not None:
            self.index.note_leaving(state, message)

    def requeued(self, message: QueuedMessage) -> None:
        """Count one acquired message fewer; after the last one the group is free (MG-08)."""
        state = self.groups[message.group]
        state.acquired -= 1
        # A release frees the group before a consumer is woken for the message, so that this consumer may
        # become the next owner; an accept also frees the group, but wakes no consumer (MG-13).
        if not state.acquired:
            self._free(state)
        if self.index is not None:
            self.index.note_waiting(state, message)

    def dequeued(self, message: QueuedMessage) -> None:
        """Remove a message from its group, which ends when empty, and is free without acquired messages."""
        state = self.groups[message.group]
        del state.members[message.position]
        # A purge or a ring may remove a message that is not acquired, and so not counted.
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
            # Cursors restart at the head (MG-11), but no reader is woken: the lost wake-up of MG-13 (RF-17).
            self.store.reset_cursors()
            self.has_freed = True

    def identify(self, message: QueuedMessage) -> str:
        """Return the name of the group to which a message belongs on this queue (MG-04, MG-05)."""
        name = message.transfer.message.property_as_string(self.header_key)
        return name or self.context.options.default_message_group

    def state(self) -> list[dict[str, object]]:
        """Return the state of all groups, as the management method ``query`` shows it (MG-24)."""
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
