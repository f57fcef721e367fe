"""Client windows: the transfers a client may have outstanding, and how it learns of completions (CAP).

Capacity is counted at the client; the broker knows nothing of it (CAP-01).  Each window here is a small
state machine without input or output: it is given the numbers of what was sent and what the broker reported
complete, and says what has to happen before the next transfer.  Clients count in three ways:

* :class:`IdealWindow`: blocks exactly while ``capacity`` transfers are not complete, as documents say
  (CAP-08). Every transfer asks to be reported when it is complete, and each completion makes room at once.
* :class:`QpidPythonWindow`: one free place suffices to send (CAP-07).  The sync flag is set once half of the
  window is used, so that completions come back before it runs dry; before that the broker is not asked
  (CM-05).  Completions count only as an unbroken row from the session's first command on (CM-14).
* :class:`QpidCppWindow`: when full, or asked to sync, it waits for every outstanding command of its
  *session*, whichever sender's (CAP-05, CAP-09).  Every ``capacity // 4 + 1`` transfers it asks what is
  complete without waiting for the answer, and it only ever forgets transfers from the front of its list
  (CAP-02 … CAP-04).

Senders of :mod:`qflow.messaging` run on them, and so do producers of :mod:`qflow.workload`.

A driver does for each message::

    step = window.next_step()       # WAIT until a completion is reported, or SYNC: wait for all
    ...                             # after a SYNC: window.note_reported(...), window.note_synced()
    if window.wants_flush():        # ask the broker what is complete (session.flush)
        ...
    flag = window.sync_flag(sync)   # whether the transfer asks to be reported when complete
    window.note_sent(number)
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from math import ceil
from typing import ClassVar

from qflow.broker.completions import RangeSet

_UINT32 = 1 << 32


class WindowStep(Enum):
    """A window's request before the next transfer."""

    SEND = "send"
    WAIT = "wait for one completion"
    SYNC = "wait for every command of the session"
    REFUSE = "there is no room, and never will be"


class Window:
    """A counter of outstanding transfers: sent, and not known to be complete."""

    name: ClassVar[str] = ""
    default_capacity: ClassVar[int | None] = None
    default_sync: ClassVar[bool] = False
    """Whether ``send`` waits for its message if its ``sync`` does not say."""
    is_deaf_while_sending: ClassVar[bool] = False
    """Whether reports are only read while the client waits: it sends faster than answers come."""

    syncs_session: ClassVar[bool] = False
    """Whether a sync waits for every command of the session, not for this sender's messages only."""

    def __init__(self, capacity: int | None) -> None:
        self._capacity = capacity
        self.outstanding: deque[int] = deque()

    @property
    def capacity(self) -> int | None:
        """The number of transfers that may be outstanding; None for any number."""
        return self._capacity

    def resize(self, capacity: int | None) -> bool:
        """Change the capacity; return whether the client then flushes (CAP-04)."""
        self._capacity = capacity
        return False

    def next_step(self) -> WindowStep:
        """Return the step needed before the next transfer."""
        raise NotImplementedError

    def note_synced(self) -> None:
        """Record that every command of the session is complete, after a ``SYNC``."""

    def wants_flush(self) -> bool:
        """Return, once for each transfer, whether the client flushes before it sends."""
        return False

    def sync_flag(self, sync: bool) -> bool:
        """Return whether the next transfer requests a report of its completion (CM-05)."""
        return sync

    def note_sent(self, number: int) -> None:
        """Record a transfer, by its command number."""
        self.outstanding.append(number)

    def note_reported(self, completed: RangeSet) -> None:
        """Record the broker's report of completed commands."""
        raise NotImplementedError

    def unsettled(self) -> int:
        """Return the number of outstanding transfers, as far as the client knows."""
        return len(self.outstanding)

    def available(self) -> int | None:
        """Return the number of free places; None for any number."""
        return None if self._capacity is None else self._capacity - self.unsettled()

    def _reap_front(self, known: RangeSet) -> None:
        while self.outstanding and self.outstanding[0] in known:
            self.outstanding.popleft()


def has_room(outstanding: int, capacity: int) -> bool:
    """Return whether one transfer more fits into an ideal window (CAP-08)."""
    return outstanding < capacity


class IdealWindow(Window):
    """The documented window: blocks exactly when ``capacity`` transfers are held (CAP-08)."""

    name = "ideal"

    def next_step(self) -> WindowStep:
        """Return the next step: wait while the window is full, otherwise send."""
        if self._capacity is None:
            return WindowStep.SEND
        if self._capacity <= 0:
            return WindowStep.REFUSE
        return WindowStep.SEND if has_room(len(self.outstanding), self._capacity) else WindowStep.WAIT

    def sync_flag(self, sync: bool) -> bool:
        """Return True."""
        return True

    def note_reported(self, completed: RangeSet) -> None:
        """Free the place of each complete transfer, in any order."""
        self._reap_front(completed)
        if any(number in completed for number in self.outstanding):
            self.outstanding = deque(n for n in self.outstanding if n not in completed)


class QpidPythonWindow(Window):
    """The window of qpid-python (CAP-07)."""

    name = "qpid-python"
    default_sync = True

    def __init__(self, capacity: int | None, threshold: float = 0.5) -> None:
        super().__init__(capacity)
        self.threshold = threshold

    def next_step(self) -> WindowStep:
        """Wait while no place is free; a capacity of 0 never has one."""
        # In a window made smaller than what is outstanding, less than none is free: the real client sends.
        available = self.available()
        if available is None:
            return WindowStep.SEND
        if self._capacity is not None and self._capacity <= 0:
            return WindowStep.REFUSE
        return WindowStep.SEND if available else WindowStep.WAIT

    def sync_flag(self, sync: bool) -> bool:
        """Return whether half of the window is used."""
        available = self.available()
        if sync or available is None or self._capacity is None:
            return sync
        return available <= ceil(self.threshold * self._capacity)

    def note_reported(self, completed: RangeSet) -> None:
        """Free places from the front, up to the first incomplete transfer."""
        while self.outstanding and self.outstanding[0] < completed.front:
            self.outstanding.popleft()


class QpidCppWindow(Window):
    """The window of qpid-cpp (CAP-02 … CAP-04)."""

    name = "qpid-cpp"
    default_capacity = 50
    is_deaf_while_sending = True
    syncs_session = True

    def __init__(self, capacity: int | None) -> None:
        super().__init__(capacity)
        self._known = RangeSet()
        self._since_flush = 0
        self._has_flushed = False
        self._has_synced = False

    def resize(self, capacity: int | None) -> bool:
        """Change the capacity; a smaller one makes the client flush (CAP-04)."""
        shrinks = capacity is not None and (self._capacity is None or capacity < self._capacity)
        self._capacity = capacity
        self._has_flushed = self._has_flushed or shrinks
        return shrinks

    def next_step(self) -> WindowStep:
        """Sync while the list is as long as the capacity, and always if that is 0 (CAP-03)."""
        if self._capacity is None or self._has_synced:
            return WindowStep.SEND
        if self._has_flushed:
            self._reap()
        return WindowStep.SYNC if self._capacity <= len(self.outstanding) else WindowStep.SEND

    def note_synced(self) -> None:
        """Reap, and allow one transfer."""
        self._reap()
        self._has_synced = True

    def wants_flush(self) -> bool:
        """Return whether more than a quarter of the capacity was sent since the last flush."""
        self._since_flush += 1
        if self._capacity is None or self._since_flush <= self._capacity // 4:
            return False
        self._reap()
        self._since_flush = 0
        self._has_flushed = True
        return True

    def note_sent(self, number: int) -> None:
        """Append the transfer to the list."""
        super().note_sent(number)
        self._has_synced = False

    def note_reported(self, completed: RangeSet) -> None:
        """Keep the report until the next reap."""
        self._known = completed

    def unsettled(self) -> int:
        """Return the number of transfers not known to be complete, without asking the broker."""
        self._reap()
        return len(self.outstanding)

    def available(self) -> int | None:
        """Return the free places as the 32-bit integer it is: after shrinking it wraps (CAP-04)."""
        return None if self._capacity is None else (self._capacity - self.unsettled()) % _UINT32

    def _reap(self) -> None:
        self._has_flushed = False
        self._reap_front(self._known)


WINDOWS: dict[str, type[Window]] = {
    window.name: window for window in (IdealWindow, QpidPythonWindow, QpidCppWindow)
}
"""The windows by the names that ``session.sender(..., window=...)`` takes."""


def make_window(name: str, capacity: int | None) -> Window:
    """Return a new window of the given kind."""
    if name not in WINDOWS:
        raise ValueError(f"window: got {name!r}, allowed are {', '.join(map(repr, WINDOWS))}")
    return WINDOWS[name](capacity)
