"""Folding a run's events into frames: one row of counts for each step that changed something.

A step is one command with all its effects, or one instant at which a client did something on its own.
Only counting happens here; every rule was applied by the engine when it made the events.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from struct import pack

from qflow.broker.details import unpacked
from qflow.broker.event_table import EventTable
from qflow.broker.events import COMMANDS, Event
from qflow.labs import channels as ch
from qflow.labs.fold_producers import Fields
from qflow.labs.fold_queues import QueueSide
from qflow.labs.spans import HOLDINGS, LOCKS, SENDINGS, STAYS, Spans
from qflow.labs.topology import Topology
from qflow.labs.words import BITS

Handler = Callable[["Fold", Fields], None]

_DELIVERED = BITS["delivered"]

_TAKEN = {
    "message.transfer": ("command", "message", "exchange", "sync"),
    "enqueued": ("position", "depth", "bytes"),
    "dequeued": ("position", "reason", "depth", "bytes"),
    "acquired": ("position",),
    "requeued": ("position",),
    "held": ("command",),
    "let_go": ("command",),
    "completed": ("command",),
    "channel_flow": ("active",),
    "exception": ("code",),
    "queueDelete": ("reason",),
}
"""What a handler takes of an event's detail, in the order in which the broker tells it."""


class Fold(QueueSide):
    """The state of a picture while events go by; events of others than its topology leave no mark.

    The events may come in portions, as they happen: what comes of them is the same. A step that may still
    go on when a portion ends becomes a frame with the next one.

    Parameters
    ----------
    topology
        Who takes part.

    Examples
    --------
    >>> from qflow.labs import flow_workload
    >>> from qflow.workload import simulate
    >>> run = simulate(flow_workload(), message_limit=10)
    >>> whole, parts = (Fold(Topology.of(run.workload, run.end)) for _ in range(2))
    >>> whole.add(run.events); whole.end()
    >>> parts.add(run.events[:33]); parts.add(run.events[33:]); parts.end()
    >>> whole.data == parts.data
    True
    """

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)
        handlers = self._handlers()
        # One look-up for each event: who handles it, whether it is a command, which begins a step, and
        # which of its details the handler takes.
        self._kinds = {
            kind: (handlers.get(kind), kind in COMMANDS, _TAKEN.get(kind)) for kind in (*COMMANDS, *handlers)
        }
        self._time = 0
        self.seen = 0
        self.finish(0)

    def add(self, events: Iterable[Event]) -> None:
        """Fold more events, in their order.

        Parameters
        ----------
        events
            All rows: commands, effects, and what clients did on their own.

        Raises
        ------
        ValueError
            If the run is longer than a frame's clock can tell: 2147 seconds.
        """
        self._add(EventTable(events).told())

    def _add(self, events: Iterable[Fields]) -> None:
        find, nobody = self._kinds.get, (None, False, None)
        time, place = self._time, self.seen - 1
        for place, event in enumerate(events, self.seen):
            handler, begins, taken = find(event[1], nobody)
            if begins or event[0] != time:
                if self.is_dirty:
                    self.finish(time, place - 1)
                time = event[0]
            if handler is not None:
                handler(self, event if taken is None or event[8] == taken else _sorted_out(event, taken))
        self._time, self.seen = time, place + 1

    def follow(self, events: Sequence[Event]) -> None:
        """Fold what was added to some events since they were last followed."""
        if isinstance(events, EventTable):
            self._add(events.told(self.seen))
        else:
            self.add(events[self.seen :])

    def end(self) -> None:
        """Finish the last step: nothing follows."""
        self.finish(self._time, self.seen - 1)

    @property
    def lasting(self) -> dict[str, Spans]:
        """What lasted for some frames, or still does."""
        tables = {
            "sendings": (SENDINGS, self.sendings),
            "stays": (STAYS, self.stays),
            "holdings": (HOLDINGS, self.holdings),
            "locks": (LOCKS, self.locks),
        }
        return {name: Spans(columns, _array_of(data)) for name, (columns, data) in tables.items()}

    @staticmethod
    def _handlers() -> dict[str, Handler]:
        # Functions, not methods of this fold: it would hold itself in a circle, and all its numbers with it.
        return {
            "message.transfer": Fold._transfer,
            "enqueued": Fold._enqueued,
            "dropped": Fold._dropped,
            "held": Fold._held,
            "let_go": Fold._let_go,
            "completed": Fold._completed,
            "reported": Fold._reported,
            "exception": Fold._exception,
            "client.block": Fold._blocked,
            "client.unblock": Fold._unblocked,
            "channel_flow": Fold._channel_flow,
            "flow_stopped": Fold._flow_stopped,
            "flow_resumed": Fold._flow_resumed,
            "acquired": Fold._acquired,
            "dequeued": Fold._dequeued,
            "requeued": Fold._requeued,
            "queueDelete": Fold._deleted,
            "group_owned": Fold._group_owned,
            "group_freed": Fold._group_freed,
            "message.subscribe": Fold._subscribed,
            "message.accept": Fold._settled,
            "message.release": Fold._settled,
            "message.reject": Fold._settled,
            "delivered": Fold._delivered,
            "message.cancel": Fold._left,
            "session.detach": Fold._left,
        }

    # Consumers

    def _subscribed(self, event: Fields) -> None:
        _, _, queue, session, link, *_ = event
        consumer = self.by_link.get(f"{session}::{link}")
        if consumer is not None:
            index, at = consumer
            self.now[at + ch.PRESENT] = 1
            self.now[ch.CONSUMER] = index
            self.now[ch.QUEUE] = self.queues[queue][0]
            self.tell("subscribed")

    def _settled(self, event: Fields) -> None:
        places = self.by_session.get(event[3])
        if places:
            self.now[ch.CONSUMER] = places[0][0]

    def _delivered(self, event: Fields) -> None:
        _, _, _, session, link, label, *_ = event
        consumer = self.by_link.get(f"{session}::{link}")
        if consumer is None:
            return
        now = self.now
        now[ch.CONSUMER] = consumer[0]
        deliveries = now[ch.DELIVERIES] = now[ch.DELIVERIES] + 1
        if deliveries == 1:
            now[ch.PARTS] |= _DELIVERED
            self.is_dirty = True
        else:
            self.tell_one_or_many("delivered", deliveries)
        now[ch.GOT_SENDER], now[ch.GOT_NUMBER] = self._known.get(label) or self.find_message(label)

    def _exception(self, event: Fields) -> None:
        super()._exception(event)
        self._left(event)

    def _left(self, event: Fields) -> None:
        session, link = event[3], event[4]
        gone = [self.by_link.get(f"{session}::{link}")] if link else self.by_session.get(session, ())
        for place in gone:
            if place is not None:
                self.now[place[1] + ch.PRESENT] = 0
                self.is_dirty = True


def _array_of(numbers: list[int]) -> array[int]:
    """Return an array of some numbers: three times as fast as its constructor."""
    return array("i", pack(f"{len(numbers)}i", *numbers))


def _sorted_out(event: Fields, taken: tuple[str, ...]) -> Fields:
    """Return an event with those of its details that are taken, in their order: a file keeps another one."""
    detail = unpacked(event[8], event[9]) or {}
    return (*event[:8], taken, tuple(detail[name] for name in taken))
