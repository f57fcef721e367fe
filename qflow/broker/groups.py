"""MessageGroupManager: a message group belongs to one consumer at a time (MG).

It is both an observer of the queue, to know who owns what, and the queue's distributor, to say
who may take which message.  Lay it beside ``MessageGroupManager.cpp``.
"""

from __future__ import annotations

from qflow.broker.context import BrokerContext
from qflow.broker.observers import QueueObserver
from qflow.broker.queued_message import ACQUIRED, QueuedMessage
from qflow.broker.stores import Messages


class MessageDistributor:
    """Decides whether a consumer may take an AVAILABLE message; a plain queue never refuses."""

    __slots__ = ()

    def may_acquire(self, owner: str, message: QueuedMessage) -> bool:
        """Return whether ``owner`` may take the message; taking note of nothing."""
        return True

    def take(self, owner: str, message: QueuedMessage) -> None:
        """Take note that ``owner`` is about to acquire the message."""


class GroupState:
    """One group on one queue: how many members, how many acquired, and by whom (MG-06)."""

    __slots__ = ("name", "members", "acquired", "owner")

    def __init__(self, name: str) -> None:
        self.name = name
        self.members: dict[int, QueuedMessage] = {}
        self.acquired = 0
        self.owner = ""


class MessageGroupManager(MessageDistributor, QueueObserver):
    """Keeps the groups of one queue.

    Parameters
    ----------
    context : BrokerContext
        Options and observer.
    queue : str
        The queue's name, for events.
    store : Messages
        Whose cursors start again when a group becomes free (MG-11).
    header_key : str
        Application header that names a message's group (MG-04).
    """

    __slots__ = ("context", "queue", "store", "header_key", "groups", "has_freed")

    def __init__(self, context: BrokerContext, queue: str, store: Messages, header_key: str) -> None:
        self.context = context
        self.queue = queue
        self.store = store
        self.header_key = header_key
        self.groups: dict[str, GroupState] = {}
        self.has_freed = False

    def may_acquire(self, owner: str, message: QueuedMessage) -> bool:
        """Return whether the message's group is free or already ``owner``'s (MG-07)."""
        return self.groups[message.group].owner in ("", owner)

    def take(self, owner: str, message: QueuedMessage) -> None:
        """Make ``owner`` the owner of the message's group (MG-08)."""
        state = self.groups[message.group]
        if not state.owner:
            state.owner = owner
            self._emit("group_owned", state)

    def enqueued(self, message: QueuedMessage) -> None:
        """Classify a new message (MG-03) and add it to its group."""
        message.group = self.identify(message)
        state = self.groups.get(message.group)
        if state is None:
            state = self.groups[message.group] = GroupState(message.group)
        state.members[message.position] = message

    def acquired(self, message: QueuedMessage) -> None:
        """Count one more acquired member."""
        self.groups[message.group].acquired += 1

    def requeued(self, message: QueuedMessage) -> None:
        """Count one acquired member less; the last one frees the group (MG-08)."""
        state = self.groups[message.group]
        state.acquired -= 1
        if not state.acquired:
            self._free(state)

    def dequeued(self, message: QueuedMessage) -> None:
        """Forget a member; a group without members is gone, one without acquired members is free."""
        state = self.groups[message.group]
        del state.members[message.position]
        if message.state == ACQUIRED:
            state.acquired -= 1
        if not state.members:
            self._free(state)
            del self.groups[message.group]
        elif not state.acquired and state.owner:
            self._free(state)
            # Cursors restart, yet nobody is woken: the lost wake-up of MG-13 (RF-17).
            self.store.reset_cursors()
            self.has_freed = True

    def identify(self, message: QueuedMessage) -> str:
        """Return the group a message belongs to on this queue (MG-04, MG-05)."""
        name = message.transfer.message.property_as_string(self.header_key)
        return name or self.context.options.default_message_group

    def state(self) -> list[dict[str, object]]:
        """Return what management's ``query`` shows of the groups (MG-24)."""
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

    def _emit(self, kind: str, state: GroupState) -> None:
        if self.context.observer is not None:
            self.context.emit(kind, queue=self.queue, link=state.owner, group=state.name)
