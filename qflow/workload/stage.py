"""The stage of a run: a broker with the workload's queues, an agenda, and the state that clients share."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from qflow.broker.broker import Broker
from qflow.broker.errors import AmqpException
from qflow.broker.events import Detail, EventTable
from qflow.broker.message import Message
from qflow.workload.agenda import SECOND, Action, Agenda
from qflow.workload.attributes import WorkloadError
from qflow.workload.model import SETUP, Producer, Senders, Workload

GRACE = 10 * SECOND
"""Microseconds after the last message is due, in which clients catch up and drain the queues."""

UNLIMITED: Final = 1 << 60
"""A limit on messages, or on acts of clients, that no run reaches."""


class Stage:
    """A broker with a workload's queues, an agenda that ends at ``end``, and a table of all events."""

    def __init__(self, workload: Workload, end: int, message_limit: int | None = None) -> None:
        self._name = workload.name
        self.broker = Broker(workload.options)
        self.agenda = Agenda(end)
        self.events = EventTable()
        # A function that is called for each event of a client, with its kind (one of CLIENT_EVENTS, or
        # "client.error") and the client's name, even if no events are recorded.
        self.on_client: Callable[[str, str], None] | None = None
        self.errors: dict[str, AmqpException] = {}
        # The time base of all measures: the time in which messages fall due, or for a limited number of
        # messages the time until the last is sent or the last producer's session has ended.
        self.time_base = max(1, end - GRACE)
        self._limited = None if message_limit is None else {p.name for p in workload.producers}
        # The number of messages that the producers together may still send.
        self.remaining = UNLIMITED if message_limit is None else message_limit
        # The instant at which a completion was last sent to a producer that was asleep.
        self.woken_at = -1
        # The number of messages that clients may still send or settle before the run would not fit in memory.
        self.acts = UNLIMITED
        # Actions that break the references between clients at the end.
        self.at_end: list[Action] = []
        self.broker.observe(self.events)
        # One session declares all queues and ends before the run begins, as a setup script does. If each
        # queue were declared by the first client that needs it, the result would depend on the order of the
        # clients.
        setup = self.broker.session(SETUP)
        for name, arguments in workload.queues.items():
            setup.queue_declare(name, arguments)
        for exchange, queue, key in workload.binds:
            setup.exchange_bind(queue, exchange, key)
        setup.close()

    def run(self, until: int | None = None) -> None:
        """Run the clients' actions and the broker's timers in order, up to the end or the instant `until`."""
        self.agenda.run(self.broker, until)

    def count_act(self) -> None:
        """Count one message sent or settled; raise WorkloadError if there are too many for the memory."""
        self.acts -= 1
        if self.acts < 0:
            raise WorkloadError(
                f"workload {self._name!r}: by {self.agenda.now / SECOND:g} s its clients have sent and "
                "settled more messages than can be kept in memory; give it a shorter duration, lower "
                "rates, or consumers that release less"
            )

    def count_message(self) -> None:
        """Count one message sent; the last one allowed sets the end of the run, :data:`GRACE` later."""
        self.count_act()
        self.remaining -= 1
        if not self.remaining:
            self.time_base = max(1, min(self.time_base, self.agenda.now))
            self.agenda.end = min(self.agenda.end, self.agenda.now + GRACE)

    def note(self, kind: str, client: str, queue: str = "", message: str = "", detail: Detail = None) -> None:
        """Emit an event of a client, of a kind that :data:`qflow.workload.CLIENT_EVENTS` lists."""
        if self.on_client is not None:
            self.on_client(kind, client)
        if self.broker.observer is not None:
            self.broker.emit(kind, queue, client, message=message, detail=detail)

    def end_session(self, names: Iterable[str], error: AmqpException) -> None:
        """Record the error that ended the session of the named producers."""
        for name in names:
            self.errors[name] = error
            if self.on_client is not None:
                self.on_client("client.error", name)
        # Labs limit the number of messages and declare a duration of an hour. If all producers' sessions end
        # early, the measures of such a run would otherwise refer to the whole hour.
        if self._limited is not None and self._limited <= self.errors.keys():
            self.time_base = max(1, min(self.time_base, self.agenda.now))

    def finish(self, workload: Workload) -> dict[str, AmqpException]:
        """Return the errors that ended sessions, by client name; the stage cannot be used afterwards."""
        senders = Senders(workload.producers)
        for session in self.broker.sessions.values():
            if session.error is not None:
                for name in senders.on(session.name) or (session.name,):
                    self.errors.setdefault(name, session.error)
        self.dissolve()
        return self.errors

    def dissolve(self) -> None:
        """Break the references between clients, agenda and broker, so that only the events stay in memory."""
        # As reference cycles, all of them would otherwise stay in memory until a garbage collection.
        for action in self.at_end:
            action()
        self.at_end.clear()
        self.broker.observe(None)
        self.on_client = None
        self.agenda.clear()
        for session in self.broker.sessions.values():
            session.completions.on_report = session.completions.on_channel_flow = None
            session.consuming.on_delivery = None


_MANY_OBJECTS = 50_000
"""The number of new objects above which a run hides them from the garbage collector's next pass."""


@contextmanager
def pause_collector() -> Iterator[None]:
    """Switch the garbage collector off in a ``with`` block, as a run makes many objects and drops few."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            # freeze and unfreeze together move all objects to the oldest generation.  Otherwise the first
            # collection after the run would visit all its events, which took a fifth of a traced run of
            # 100,000 messages.  If the program has frozen objects itself, they stay frozen.  get_freeze_count
            # visits all frozen objects, so it is called only after a long run: a Spark worker or a test has
            # many short ones.
            if gc.get_count()[0] > _MANY_OBJECTS and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def make_message(key: str, label: str, size: int, group: str, priority: int | str | None = None) -> Message:
    """Make a message with the same headers as those of the recorded clients, so that byte counts agree."""
    headers = {"label": label, "group": group} if group else {"label": label}
    urgency = _urgency_of(group) if isinstance(priority, str) else priority
    return Message(size, routing_key=key, headers=headers, priority=urgency, label=label)


def message_of(producer: Producer, number: int, size: int, group: str) -> Message:
    """Make a producer's message with the given number, which is part of its label."""
    label = f"{producer.name}-{number}"
    return make_message(producer.to[1], label, size, group, producer.priority)


def _urgency_of(group: str) -> int | None:
    """Return a group's priority: 9 for ``g1``, 8 for ``g2``, down to 0, or None for a name without number."""
    number = group[1:]
    return max(0, 10 - int(number)) if number.isdecimal() else None
