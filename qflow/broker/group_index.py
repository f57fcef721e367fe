"""Where the next message for a consumer of a grouped queue is, found without a walk along the queue (MG-07).

The real broker walks past every message whose group is somebody else's.  This finds the same message in
O(log n): the first waiting message of each group, in one heap for the groups that nobody owns and in one
for each owner.  Entries that have become untrue are dropped when they come to the top.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from qflow.broker.queued_message import AVAILABLE, QueuedMessage
from qflow.broker.restorable import Restorable

Entry = tuple[int, str]
"""A position and the group whose first waiting message lies there."""


class GroupState(Restorable):
    """One group on one queue: how many members, how many acquired, and by whom (MG-06)."""

    __slots__ = ("name", "members", "acquired", "owner")

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[int, QueuedMessage] = {}
        self.acquired = 0
        self.owner = ""


class GroupIndex(Restorable):
    """The first waiting message of every group, by the group's owner.

    It holds nothing that the groups do not say themselves, so a snapshot leaves it out and it is made
    again when it is needed.

    Parameters
    ----------
    groups : dict
        The groups of the queue, by name.
    """

    __slots__ = ("_groups", "_waiting", "_gone", "_firsts", "has_mortals")

    def __init__(self, groups: dict[str, GroupState]) -> None:
        self._groups = groups
        # By group: positions as a heap, and those in it that wait no more, or not now.
        self._waiting: dict[str, list[int]] = {}
        self._gone: set[int] = set()
        # By owner, "" for nobody: the first waiting message of each group, as a heap.
        self._firsts: dict[str, list[Entry]] = {}
        # A message that can expire has to be looked at by whoever comes past (QT-07).
        self.has_mortals = False
        for state in groups.values():
            positions = [p for p, message in state.members.items() if message.state == AVAILABLE]
            heapify(positions)
            self._waiting[state.name] = positions
            self.owned(state)
            if any(message.transfer.expiration is not None for message in state.members.values()):
                self.has_mortals = True

    def first(self, owner: str) -> QueuedMessage | None:
        """Return the first waiting message of a group that is ``owner``'s or nobody's, or None."""
        free, own = self._first("", ""), self._first(owner, owner)
        if free is None or (own is not None and own[0] < free[0]):
            free = own
        return None if free is None else self._groups[free[1]].members[free[0]]

    def _first(self, key: str, owner: str) -> Entry | None:
        entries = self._firsts.get(key)
        if entries is None:
            return None
        while entries:
            position, name = entries[0]
            state = self._groups.get(name)
            if state is not None and state.owner == owner and self._position(name) == position:
                return entries[0]
            heappop(entries)
        del self._firsts[key]
        return None

    def _position(self, name: str) -> int:
        """Return where the first waiting message of a group lies, or 0 if none waits."""
        waiting, gone = self._waiting[name], self._gone
        while waiting and waiting[0] in gone:
            gone.discard(heappop(waiting))
        return waiting[0] if waiting else 0

    # What has happened to a group

    def owned(self, state: GroupState) -> None:
        """Take note of a group that has another owner, or none now."""
        position = self._position(state.name)
        if position:
            heappush(self._firsts.setdefault(state.owner, []), (position, state.name))

    def waits(self, state: GroupState, message: QueuedMessage) -> None:
        """Take note of a message that can be had: a new one, or one that was given back."""
        position = message.position
        if message.transfer.expiration is not None:
            self.has_mortals = True
        waiting = self._waiting.setdefault(state.name, [])
        if position in self._gone:
            self._gone.discard(position)
        else:
            heappush(waiting, position)
        if self._position(state.name) == position:
            self.owned(state)

    def leaves(self, state: GroupState, message: QueuedMessage) -> None:
        """Take note of a waiting message that cannot be had any more, or not now."""
        self._gone.add(message.position)
        self.owned(state)

    def forget(self, state: GroupState) -> None:
        """Take note of a group that has no members any more."""
        self._gone.difference_update(self._waiting.pop(state.name, ()))
