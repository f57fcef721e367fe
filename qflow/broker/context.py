"""What every part of one broker shares: options, told time, the observer, broker-wide counts."""

from __future__ import annotations

from typing import Any, ClassVar

from qflow.broker.counters import QueueCounters
from qflow.broker.details import Names, Values, packed, unpacked
from qflow.broker.events import Detail, Event, Observer
from qflow.broker.options import BrokerOptions
from qflow.broker.store import MessageStore
from qflow.broker.store_listener import StoreListener
from qflow.broker.timers import Timers, TimerTask
from qflow.broker.transfer import CommandOwner


class BrokerContext(StoreListener):
    """The ground the parts stand on, so that a queue need not know the broker that owns it."""

    VOLATILE: ClassVar[tuple[str, ...]] = ("observer", "fresh", "stamp")
    """Attributes that are no part of the broker's state: a snapshot leaves them out."""

    __slots__ = (
        "options",
        "counts_content",
        "stamps_arrivals",
        "store",
        "timers",
        "now",
        "observer",
        "fresh",
        "stamp",
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
        # That of the observer, if it is a table of events.
        self.fresh: list[Any] | None = None
        # The time as events carry it: one object for all of an instant; compiled code would make many.
        self.stamp: object = self.now
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
        names, values = packed(detail)
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
        """Do what :meth:`emit` does, of what happens to every message: the detail as names and values."""
        fresh = self.fresh
        if fresh is not None:
            fresh += (self.stamp, kind, queue, session, link, message, size, group, names, values)
        elif self.observer is not None:
            row = (self.stamp, kind, queue, session, link, message, size, group, unpacked(names, values))
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
