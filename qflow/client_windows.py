"""Client windows: how many transfers a client may have outstanding, and how it learns of completions (CAP).

A transfer is outstanding from the moment it is sent until the client knows that it is complete.  The
*capacity*, the largest number of outstanding transfers, is enforced in the client; the broker does not know
it (CAP-01).  Each window here is a small state machine that does no I/O: its caller records the number of
each transfer sent and each completion report of the broker, and the window returns the step that has to come
before the next transfer.  There are three kinds:

* :class:`IdealWindow` blocks exactly while ``capacity`` transfers are incomplete, as the documentation says
  (CAP-08).  Every transfer requests a report of its completion (the sync flag), and each completion makes
  room at once.
* :class:`QpidPythonWindow` sends as long as one place is free (CAP-07).  It sets the sync flag only once half
  of the window is used, which is early enough for completions to return before the window is full; earlier
  transfers request no report (CM-05).  It counts a command as complete only if all earlier commands of the
  session are complete, too (CM-14).
* :class:`QpidCppWindow`, when full or when the caller requests a sync, waits for every outstanding command of
  its *session*, including those of other senders (CAP-05, CAP-09).  After every ``capacity // 4 + 1``
  transfers it requests a completion report without waiting for it, and it removes transfers only from the
  front of its list (CAP-02 … CAP-04).

The senders of :mod:`qflow.messaging` and the producers of :mod:`qflow.workload` use these windows.  For each
message, the caller does::

    step = window.next_step()       # WAIT: for one completion report; SYNC: for all commands of the session
    ...                             # after a SYNC: window.note_reported(...), window.note_synced()
    if window.wants_flush():        # request a completion report (session.flush)
        ...
    flag = window.sync_flag(sync)   # whether this transfer requests a report of its completion
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
    """The step that a window requires of its client: to send, or to wait before the next transfer."""

    SEND = "send"
    WAIT = "wait for one completion"
    SYNC = "wait for every command of the session"
    REFUSE = "there is no room, and never will be"


class Window:
    """Base class of the windows: a list of outstanding transfers, and the rule when the next may be sent."""

    name: ClassVar[str] = ""
    default_capacity: ClassVar[int | None] = None
    default_sync: ClassVar[bool] = False
    """Whether ``send`` waits for the completion of its message when the caller does not pass ``sync``."""
    is_deaf_while_sending: ClassVar[bool] = False
    """Whether the client reads completion reports only while it waits: it sends faster than they arrive."""

    syncs_session: ClassVar[bool] = False
    """Whether a sync waits for every command of the session, not only for the messages of this sender."""

    def __init__(self, capacity: int | None) -> None:
        self._capacity = capacity
        self.outstanding: deque[int] = deque()

    @property
    def capacity(self) -> int | None:
        """The largest number of outstanding transfers, or None if it is unlimited."""
        return self._capacity

    def resize(self, capacity: int | None) -> bool:
        """Change the capacity, and return whether the client has to send a session.flush (CAP-04)."""
        self._capacity = capacity
        return False

    def next_step(self) -> WindowStep:
        """Return the step that has to come before the next transfer."""
        raise NotImplementedError

    def note_synced(self) -> None:
        """Record that every command of the session is complete, after a ``SYNC``."""

    def wants_flush(self) -> bool:
        """Return whether to send session.flush before the next transfer; call it once for each transfer."""
        return False

    def sync_flag(self, sync: bool) -> bool:
        """Return whether the next transfer requests a report of its completion (CM-05)."""
        return sync

    def note_sent(self, number: int) -> None:
        """Record the command number of a transfer that was sent."""
        self.outstanding.append(number)

    def note_reported(self, completed: RangeSet) -> None:
        """Record the broker's report of all completed commands of the session."""
        raise NotImplementedError

    def unsettled(self) -> int:
        """Return the number of outstanding transfers, as far as the client knows."""
        return len(self.outstanding)

    def available(self) -> int | None:
        """Return the number of transfers that may still be sent, or None if it is unlimited."""
        return None if self._capacity is None else self._capacity - self.unsettled()

    def _reap_front(self, known: RangeSet) -> None:
        while self.outstanding and self.outstanding[0] in known:
            self.outstanding.popleft()


def has_room(outstanding: int, capacity: int) -> bool:
    """Return whether one transfer more fits into an ideal window (CAP-08)."""
    return outstanding < capacity


class IdealWindow(Window):
    """The documented window, which blocks exactly while ``capacity`` transfers are incomplete (CAP-08)."""

    name = "ideal"

    def next_step(self) -> WindowStep:
        """Return WAIT while the window is full, REFUSE for a capacity of 0, and SEND otherwise."""
        if self._capacity is None:
            return WindowStep.SEND
        if self._capacity <= 0:
            return WindowStep.REFUSE
        return WindowStep.SEND if has_room(len(self.outstanding), self._capacity) else WindowStep.WAIT

    def sync_flag(self, sync: bool) -> bool:
        """Return True: every transfer requests a report of its completion."""
        return True

    def note_reported(self, completed: RangeSet) -> None:
        """Remove every completed transfer from the outstanding ones, whatever their order."""
        self._reap_front(completed)
        if any(number in completed for number in self.outstanding):
            self.outstanding = deque(n for n in self.outstanding if n not in completed)


class QpidPythonWindow(Window):
    """The window of the qpid-python client (CAP-07)."""

    name = "qpid-python"
    default_sync = True

    def __init__(self, capacity: int | None, threshold: float = 0.5) -> None:
        super().__init__(capacity)
        self.threshold = threshold

    def next_step(self) -> WindowStep:
        """Return WAIT while the window is exactly full, REFUSE for a capacity of 0, and SEND otherwise."""
        # If the capacity was made smaller than the number of outstanding transfers, the number of free places
        # is negative, and the real client sends.
        available = self.available()
        if available is None:
            return WindowStep.SEND
        if self._capacity is not None and self._capacity <= 0:
            return WindowStep.REFUSE
        return WindowStep.SEND if available else WindowStep.WAIT

    def sync_flag(self, sync: bool) -> bool:
        """Return True on request, or if at most half of the window, rounded up, is free (CM-05)."""
        available = self.available()
        if sync or available is None or self._capacity is None:
            return sync
        return available <= ceil(self.threshold * self._capacity)

    def note_reported(self, completed: RangeSet) -> None:
        """Remove the completed transfers from the front, up to the first incomplete command (CM-14)."""
        while self.outstanding and self.outstanding[0] < completed.front:
            self.outstanding.popleft()


class QpidCppWindow(Window):
    """The window of the qpid-cpp client (CAP-02 … CAP-04)."""

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
        """Change the capacity; return True, for a session.flush, if it becomes smaller (CAP-04)."""
        shrinks = capacity is not None and (self._capacity is None or capacity < self._capacity)
        self._capacity = capacity
        self._has_flushed = self._has_flushed or shrinks
        return shrinks

    def next_step(self) -> WindowStep:
        """Return SYNC once the list is as long as the capacity, always for a capacity of 0 (CAP-03)."""
        if self._capacity is None or self._has_synced:
            return WindowStep.SEND
        if self._has_flushed:
            self._reap()
        return WindowStep.SYNC if self._capacity <= len(self.outstanding) else WindowStep.SEND

    def note_synced(self) -> None:
        """Remove the completed transfers, and allow one transfer even if the list is still full."""
        self._reap()
        self._has_synced = True

    def wants_flush(self) -> bool:
        """Return True after more than a quarter of the capacity was sent since the last flush."""
        self._since_flush += 1
        if self._capacity is None or self._since_flush <= self._capacity // 4:
            return False
        self._reap()
        self._since_flush = 0
        self._has_flushed = True
        return True

    def note_sent(self, number: int) -> None:
        """Append the transfer to the list of outstanding ones."""
        super().note_sent(number)
        self._has_synced = False

    def note_reported(self, completed: RangeSet) -> None:
        """Store the report; completed transfers are removed from the list later, when the client reads it."""
        self._known = completed

    def unsettled(self) -> int:
        """Return the number of outstanding transfers, after removing those that were reported complete."""
        self._reap()
        return len(self.outstanding)

    def available(self) -> int | None:
        """Return the free places as an unsigned 32-bit number: below 0 it wraps, as in C++ (CAP-04)."""
        return None if self._capacity is None else (self._capacity - self.unsettled()) % _UINT32

    def _reap(self) -> None:
        self._has_flushed = False
        self._reap_front(self._known)


WINDOWS: dict[str, type[Window]] = {
    window.name: window for window in (IdealWindow, QpidPythonWindow, QpidCppWindow)
}
"""The classes of windows by name, as in ``session.sender(..., window="qpid-cpp")``."""


def make_window(name: str, capacity: int | None) -> Window:
    """Return a new window of the named kind; raise ValueError for an unknown name."""
    if name not in WINDOWS:
        raise ValueError(f"window must be one of {', '.join(map(repr, WINDOWS))}; got {name!r}")
    return WINDOWS[name](capacity)
