"""What every part of one broker shares: options, told time, the observer, broker-wide counts."""

from __future__ import annotations

from typing import Any, ClassVar

from qflow.broker.counters import QueueCounters
from qflow.broker.events import Detail, Event, Observer
from qflow.broker.options import BrokerOptions
from qflow.broker.store import MessageStore
from qflow.broker.store_listener import StoreListener
from qflow.broker.timers import Timers, TimerTask
from qflow.broker.transfer import CommandOwner


class BrokerContext(StoreListener):
    """The ground the parts stand on, so that a queue need not know the broker that owns it."""

    VOLATILE: ClassVar[tuple[str, ...]] = ("observer", "cells")
    """Attributes that are no part of the broker's state: a snapshot leaves them out."""

    __slots__ = (
        "options",
        "counts_content",
        "stamps_arrivals",
        "store",
        "timers",
        "now",
        "observer",
        "cells",
        "discardsNoRoute",
        "abandoned",
        "abandonedViaAlt",
        "retired",
        "reporters",
    )

    def __init__(self, options: BrokerOptions, store: MessageStore | None = None) -> None:
        self.options = options
        # What every transfer asks of the options.
        self.counts_content = options.message_size == "content"
        self.stamps_arrivals = options.enable_timestamp
        self.store = store or MessageStore()
        self.store.listener = self
        self.timers = Timers()
        self.now = 0
        self.observer: Observer | None = None
        # Those of the observer, if it is a table of events.
        self.cells: list[Any] | None = None
        self.discardsNoRoute = 0
        self.abandoned = 0
        self.abandonedViaAlt = 0
        self.retired = QueueCounters()
        self.reporters: list[CommandOwner] = []

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
        """Tell the observer of one event.  Callers test ``observer`` first: no trace, no cost."""
        cells = self.cells
        if cells is not None:
            cells.extend((self.now, kind, queue, session, link, message, size, group, detail))
        elif self.observer is not None:
            row = (self.now, kind, queue, session, link, message, size, group, detail)
            # Half the time of Event(…): this runs ten times for each message of a traced run.
            self.observer(tuple.__new__(Event, row))

    def store_finishes(self, label: str) -> None:
        """Tell the observer of an answer of the store, which is a command to the broker (CM-12)."""
        if self.observer is not None:
            self.emit("store.finish", message=label, detail={"message": label})

    def schedule(self, due: int, task: TimerTask) -> None:
        """Let a task be done at a later time, in microseconds."""
        self.timers.schedule(due, task)

    def destroy_queue(self, name: str, reason: str) -> None:
        """Unbind, unregister and empty a queue; the broker does it."""
        raise NotImplementedError
