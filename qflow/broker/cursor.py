"""QueueCursor: how far a subscription has read a queue (RF-10)."""

from __future__ import annotations

from typing import ClassVar

from qflow.broker.restorable import Restorable

State = tuple[bool, int, int, "list[QueueCursor] | None"]


class QueueCursor(Restorable):
    """A place in a queue, and the version of the queue at which it was taken.

    A release, or a group that becomes free, raises the queue's version; an *acquiring* cursor of
    an older version starts again at the head, a browser's never does (MG-11, MG-17).  On a
    priority queue ``levels`` holds one cursor for each level, made by the first look.
    """

    ONLY_COUNTS: ClassVar[bool] = True

    __slots__ = ("acquires", "is_valid", "position", "version", "levels")

    def __init__(self, acquires: bool) -> None:
        self.acquires = acquires
        self.is_valid = False
        self.position = 0
        self.version = 0
        self.levels: list[QueueCursor] | None = None

    def start(self, version: int) -> int:
        """Return the position after which the next look begins, 0 for the head."""
        if not self.is_valid or (self.acquires and self.version != version):
            return 0
        return self.position

    def move(self, position: int, version: int) -> None:
        """Remember that everything up to ``position`` has been seen."""
        self.is_valid = True
        self.position = position
        self.version = version

    def save(self) -> State:
        """Return what :meth:`restore` needs to put the cursor back (CN-08)."""
        return self.is_valid, self.position, self.version, self.levels

    def restore(self, state: State) -> None:
        """Put the cursor back where it was.

        The cursors of a priority queue's levels are shared with the saved state, so there the
        message stays skipped, except in the very first scan, whose levels are forgotten (RF-10).
        """
        self.is_valid, self.position, self.version, self.levels = state
