"""Folding a run's events into frames: one row of counts for each step that changed something.

A step is one command with all its effects, or one instant at which a client did something on its own.
Only counting happens here; every rule was applied by the engine when it made the events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from qflow.broker.events import COMMANDS, Event
from qflow.labs import channels as ch
from qflow.labs.fold_queues import QueueSide

Handler = Callable[[Event], None]


class Fold(QueueSide):
    """The state of a picture while events go by; events of others than its topology leave no mark."""

    def run(self, events: Iterable[Event]) -> None:
        """Fold all events of a run, in their order.

        Parameters
        ----------
        events
            All rows: commands, effects, and what clients did on their own.

        Raises
        ------
        ValueError
            If the run is longer than a frame's clock can tell: 2147 seconds.
        """
        # One look-up for each event: who handles it, and whether it is a command, which begins a step.
        handlers = self._handlers()
        known = {kind: (handlers.get(kind, _ignore), kind in COMMANDS) for kind in (*COMMANDS, *handlers)}
        find, nobody = known.get, (_ignore, False)
        now = 0
        self.finish(now)
        row = -1
        for row, event in enumerate(events):
            handler, is_command = find(event[1], nobody)
            if is_command or event[0] != now:
                if self.is_dirty:
                    self.finish(now, row - 1)
                now = event[0]
            if handler is not _ignore:
                handler(event)
        self.finish(now, row)

    def _handlers(self) -> Mapping[str, Handler]:
        return {
            "message.transfer": self._transfer,
            "enqueued": self._enqueued,
            "dropped": self._dropped,
            "held": self._held,
            "let_go": self._let_go,
            "completed": self._completed,
            "reported": self._reported,
            "exception": self._exception,
            "client.block": self._blocked,
            "client.unblock": self._unblocked,
            "channel_flow": self._channel_flow,
            "flow_stopped": self._flow_stopped,
            "flow_resumed": self._flow_resumed,
            "acquired": self._acquired,
            "dequeued": self._dequeued,
            "requeued": self._requeued,
            "queueDelete": self._deleted,
            "group_owned": self._group_owned,
            "group_freed": self._group_freed,
            "message.subscribe": self._subscribed,
            "message.accept": self._settled,
            "message.release": self._settled,
            "message.reject": self._settled,
            "delivered": self._delivered,
            "message.cancel": self._left,
            "session.detach": self._left,
        }

    # Consumers

    def _subscribed(self, event: Event) -> None:
        name = self.consumer_name(event)
        if name in self.consumers:
            index, at = self.consumers[name]
            self.now[at + ch.PRESENT] = 1
            self.now[ch.CONSUMER] = index
            self.now[ch.QUEUE] = self.queues[event.queue][0]
            self.tell("subscribed")

    def _settled(self, event: Event) -> None:
        names = self.by_session.get(event.session)
        if names:
            self.now[ch.CONSUMER] = self.consumers[names[0]][0]

    def _delivered(self, event: Event) -> None:
        _, _, _, session, link, message, *_ = event
        consumer = self.by_link.get(f"{session}::{link}")
        if consumer is None:
            return
        now = self.now
        now[ch.CONSUMER] = consumer[0]
        now[ch.DELIVERIES] += 1
        self.tell_one_or_many("delivered", now[ch.DELIVERIES])
        self.name_message(message, ch.GOT_SENDER)

    def _exception(self, event: Event) -> None:
        super()._exception(event)
        self._left(event)

    def _left(self, event: Event) -> None:
        gone = [self.consumer_name(event)] if event.link else self.by_session.get(event.session, ())
        for name in gone:
            if name in self.consumers:
                self.now[self.consumers[name][1] + ch.PRESENT] = 0
                self.is_dirty = True


def _ignore(_: Event) -> None:
    """Do nothing: most effects leave no mark on a picture."""
