"""The context of a broker, which all of its parts share: options, time, timers, store and observer.

A broker has no clock: :attr:`BrokerContext.now` changes only when a caller sets the time.  A
:class:`TimerTask` is scheduled for a later time; tasks for the same instant run in the order in which they
were scheduled.
"""

from __future__ import annotations

import heapq
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

from qflow.broker.errors import BrokerFailure, BrokerFailureWarning
from qflow.broker.events import Detail, Event, Names, Observer, Values, pack, unpack
from qflow.broker.message import CommandOwner, Transfer
from qflow.broker.options import BrokerOptions
from qflow.broker.restorable import Dependent, Restorable
from qflow.broker.snapshot import mypyc_attr
from qflow.broker.store import MessageStore

Agent = Callable[[Transfer], object]
"""The management agent: a function that answers a QMF request, by commands like those of any client."""


@mypyc_attr(allow_interpreted_subclasses=True)
class TimerTask(Dependent):
    """Base class of tasks that run at a scheduled time."""

    __slots__ = ()

    @classmethod
    def __init_subclass__(cls) -> None:
        """Allow subclasses outside the engine, unlike :class:`Restorable`."""

    def fire(self, due: int) -> None:
        """Run the task; ``due`` is its scheduled time in microseconds."""
        raise NotImplementedError


class _Timers(Restorable):
    """A queue of scheduled tasks, ordered by due time, then by order of scheduling."""

    __slots__ = ("_heap", "_sequence")

    def __init__(self) -> None:
        # Entries are (due time, number, task), typed as tuples of Any, as compiled code would otherwise check
        # the types of all three items to compare the first.
        self._heap: list[tuple[Any, ...]] = []
        self._sequence = 0

    @property
    def next_due(self) -> int | None:
        """The due time of the first task, or None if no task is scheduled."""
        return self._heap[0][0] if self._heap else None

    def is_due(self, until: int) -> bool:
        if not self._heap:
            return False
        due: int = self._heap[0][0]
        return due <= until

    @property
    def tasks(self) -> list[tuple[int, TimerTask]]:
        return [(due, task) for due, _, task in sorted(self._heap, key=lambda entry: entry[:2])]

    def schedule(self, due: int, task: TimerTask) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (due, self._sequence, task))

    def pass_over(self, count: int) -> None:
        """Skip the numbers of `count` tasks, which are not scheduled because they would have no effect."""
        self._sequence += count

    def take(self, until: int) -> tuple[int, TimerTask] | None:
        """Remove the first task due by ``until`` and return it with its due time, or None."""
        if not self.is_due(until):
            return None
        due, _, task = heapq.heappop(self._heap)
        return due, task


class BrokerContext(Restorable):
    """The services that a broker offers its parts, so that queues do not depend on sessions or exchanges."""

    VOLATILE: ClassVar[tuple[str, ...]] = ("observer", "cells", "stamp", "agent", "requests", "failures")
    """Attributes that are not part of the broker's state, and so not part of its snapshots."""

    __slots__ = (
        "options", "counts_content", "stamps_arrivals", "start_time", "store", "timers", "now", "observer",
        "cells", "stamp", "discardsNoRoute", "abandoned", "abandonedViaAlt", "reporters", "agent", "requests",
        "failures",
    )  # fmt: skip

    def __init__(self, options: BrokerOptions | None = None, store: MessageStore | None = None) -> None:
        self.options = options or BrokerOptions()
        # Options that each transfer reads, as attributes for speed.
        self.counts_content = self.options.message_size == "content"
        self.stamps_arrivals = self.options.enable_timestamp
        self.start_time = self.options.start_time
        self.store = store
        if store is not None:
            store.listener = self
        self.timers = _Timers()
        self.now = 0
        self.observer: Observer | None = None
        # The observer's list of cells, if the observer is an EventTable.
        self.cells: list[Any] | None = None
        # The time as an object for events: one for all events of an instant, where compiled code would make
        # an int for each.
        self.stamp: object = self.now
        self.discardsNoRoute = 0
        self.abandoned = 0
        self.abandonedViaAlt = 0
        self.reporters: list[CommandOwner] = []
        self.agent: Agent | None = None
        # Requests that the agent answers at the end of the command.
        self.requests: list[Transfer] | None = None
        # Descriptions of events in this command at which the real broker would hang or crash, or None.
        self.failures: list[str] | None = None

    def emit(
        self,
        kind: str,
        queue: str = "",
        session: str = "",
        link: str = "",
        message: str = "",
        size: int = 0,
        group: str = "",
        detail: Detail = None,
    ) -> None:
        """Emit an event to the observer; callers test ``observer`` first, to save time without one."""
        names, values = pack(detail)
        self.tell(kind, queue, session, link, message, size, group, names, values)

    def tell(
        self,
        kind: str,
        queue: str = "",
        session: str = "",
        link: str = "",
        message: str = "",
        size: int = 0,
        group: str = "",
        names: Names = None,
        values: Values = (),
    ) -> None:
        """Emit an event with its detail as names and values, which is cheaper than :meth:`emit`."""
        cells = self.cells
        if cells is not None:
            cells += (self.stamp, kind, queue, session, link, message, size, group, names, values)
        elif self.observer is not None:
            row = (self.stamp, kind, queue, session, link, message, size, group, unpack(names, values))
            # In half the time of Event(…), as this runs ten times for each message of a traced run.
            self.observer(tuple.__new__(Event, row))

    def ask_agent(self, request: Transfer) -> None:
        """Store a request for the management agent, if there is one, until the end of the command."""
        if self.agent is not None:
            self.requests = [*(self.requests or ()), request]

    def answer_requests(self) -> None:
        """Let the agent answer all stored requests, and warn of recorded failures, after a command."""
        # The agent answers by commands, which can only be given after the present one.
        requests, self.requests = self.requests or [], None
        for request in requests:
            if self.agent is not None:
                self.agent(request)
        if self.failures:
            self._warn_of_failures()

    def note_failure(self, how: str, text: str, queue: str = "") -> None:
        """Record that the real broker would "hang" or "crash" here; each text counts once per command."""
        if text in (self.failures or ()):
            return
        self.failures = [*(self.failures or ()), text]
        # So that the end of each command needs only one test, of requests, for requests and failures.
        self.requests = self.requests or []
        if self.observer is not None:
            self.emit("broker_failure", queue, detail={"how": how, "text": text})

    def make_failure(self, how: str, text: str, queue: str = "") -> BrokerFailure:
        """Record a hang or crash of the real broker, and return the exception (540) that refuses it."""
        self.note_failure(how, text, queue)
        return BrokerFailure(text, how)

    def _warn_of_failures(self) -> None:
        # Only at the end of the command: where warnings are errors, one would abort the command half-way.
        failures, self.failures = self.failures or [], None
        for text in failures:
            warnings.warn(text, BrokerFailureWarning, stacklevel=2)

    def store_finishes(self, label: str) -> None:
        """Emit the event for an answer of the store, which acts like a command to the broker (CM-12)."""
        if self.observer is not None:
            self.emit("store.finish", message=label, detail={"message": label})

    def close_connection(self, name: str) -> bool:
        """Close a client's connection for management; return False for an unknown name (see Broker)."""
        raise NotImplementedError

    def refers_to(self, queue: object) -> bool:
        """Return whether a session still refers to a deleted queue (RF-45; see Broker)."""
        raise NotImplementedError

    def destroy_queue(self, name: str, reason: str) -> None:
        """Delete a queue: unbind, unregister and empty it (see Broker)."""
        raise NotImplementedError
