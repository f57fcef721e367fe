"""What all parts of one broker share: its options, its clock, its store, its observer.

A broker has no clock of its own: :attr:`BrokerContext.now` moves when a caller moves it.  What is to happen
at a later time is a :class:`TimerTask`; tasks of one instant keep the order in which they were scheduled.
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
"""Answers the requests to management; it gives commands itself, as any client does."""


@mypyc_attr(allow_interpreted_subclasses=True)
class TimerTask(Dependent):
    """A task that is due at some time."""

    __slots__ = ()

    @classmethod
    def __init_subclass__(cls) -> None:
        """Let other classes inherit from it."""

    def fire(self, due: int) -> None:
        """Run the task; ``due`` is its scheduled time, in microseconds."""
        raise NotImplementedError


class _Timers(Restorable):
    """Tasks by due time; equal times keep the order in which they were scheduled."""

    __slots__ = ("_heap", "_sequence")

    def __init__(self) -> None:
        # Due time, number, task; of any type, as compiled code would look at all three to compare the first.
        self._heap: list[tuple[Any, ...]] = []
        self._sequence = 0

    @property
    def next_due(self) -> int | None:
        """The due time of the first task, or None."""
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
        """Count tasks that are not scheduled, as they would change nothing."""
        self._sequence += count

    def take(self, until: int) -> tuple[int, TimerTask] | None:
        """Remove and return the first task due by ``until``, or None."""
        if not self.is_due(until):
            return None
        due, _, task = heapq.heappop(self._heap)
        return due, task


class BrokerContext(Restorable):
    """The services that a broker offers its parts, so that a queue need not know sessions and exchanges."""

    VOLATILE: ClassVar[tuple[str, ...]] = ("observer", "cells", "stamp", "agent", "requests", "failures")
    """Attributes that are no part of the broker's state: a snapshot leaves them out."""

    __slots__ = (
        "options", "counts_content", "stamps_arrivals", "start_time", "store", "timers", "now", "observer",
        "cells", "stamp", "discardsNoRoute", "abandoned", "abandonedViaAlt", "reporters", "agent", "requests",
        "failures",
    )  # fmt: skip

    def __init__(self, options: BrokerOptions | None = None, store: MessageStore | None = None) -> None:
        self.options = options or BrokerOptions()
        # What every transfer asks of the options.
        self.counts_content = self.options.message_size == "content"
        self.stamps_arrivals = self.options.enable_timestamp
        self.start_time = self.options.start_time
        self.store = store
        if store is not None:
            store.listener = self
        self.timers = _Timers()
        self.now = 0
        self.observer: Observer | None = None
        # The observer's own list, if it is a table of events.
        self.cells: list[Any] | None = None
        # The time as events carry it: one object for all of an instant; compiled code would make many.
        self.stamp: object = self.now
        self.discardsNoRoute = 0
        self.abandoned = 0
        self.abandonedViaAlt = 0
        self.reporters: list[CommandOwner] = []
        self.agent: Agent | None = None
        # What the agent is to answer when the command is over.
        self.requests: list[Transfer] | None = None
        # What would have made the real broker hang or crash in this command; None for nothing.
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
        """Emit an event to the observer. Callers test ``observer`` first: no trace, no cost."""
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
            # Half the time of Event(…): this runs ten times for each message of a traced run.
            self.observer(tuple.__new__(Event, row))

    def ask_agent(self, request: Transfer) -> None:
        """Keep a request for the management agent, if any, until the command is over."""
        if self.agent is not None:
            self.requests = [*(self.requests or ()), request]

    def answer_requests(self) -> None:
        """Let the agent answer, now that the broker is quiescent, and warn of recorded failures."""
        # The agent's answers are commands like any other.
        requests, self.requests = self.requests or [], None
        for request in requests:
            if self.agent is not None:
                self.agent(request)
        if self.failures:
            self._warn_of_failures()

    def note_failure(self, how: str, text: str, queue: str = "") -> None:
        """Record that the real broker would "hang" or "crash" here, once a command."""
        if text in (self.failures or ()):
            return
        self.failures = [*(self.failures or ()), text]
        # So that the end of the command, which is on the way of every message, asks one question for both.
        self.requests = self.requests or []
        if self.observer is not None:
            self.emit("broker_failure", queue, detail={"how": how, "text": text})

    def make_failure(self, how: str, text: str, queue: str = "") -> BrokerFailure:
        """Record a hang or crash of the real broker, and return the refusal for it: 540."""
        self.note_failure(how, text, queue)
        return BrokerFailure(text, how)

    def _warn_of_failures(self) -> None:
        # Only now that the command is over: whoever makes warnings errors would stop it in its middle.
        failures, self.failures = self.failures or [], None
        for text in failures:
            warnings.warn(text, BrokerFailureWarning, stacklevel=2)

    def store_finishes(self, label: str) -> None:
        """Emit an answer of the store, which is a command to the broker (CM-12)."""
        if self.observer is not None:
            self.emit("store.finish", message=label, detail={"message": label})

    def close_connection(self, name: str) -> bool:
        """Close a client's connection by management; return whether there is one.  The broker does it."""
        raise NotImplementedError

    def refers_to(self, queue: object) -> bool:
        """Return whether a session still refers to a deleted queue (RF-45); the broker answers."""
        raise NotImplementedError

    def destroy_queue(self, name: str, reason: str) -> None:
        """Unbind, unregister and empty a queue; the broker does it."""
        raise NotImplementedError
