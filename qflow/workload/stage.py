"""The stage of a run: a broker with the workload's queues, and the state its clients share."""

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
"""After the last message was due, clients have this long to catch up and drain the queues."""

UNLIMITED: Final = 1 << 60
"""A number of messages, or acts of clients, that no run reaches."""


class Stage:
    """One broker with the workload's queues, one agenda that ends at ``end``, one table of events."""

    def __init__(self, workload: Workload, end: int, message_limit: int | None = None) -> None:
        self._name = workload.name
        self.broker = Broker(workload.options)
        self.agenda = Agenda(end)
        self.events = EventTable()
        # Told what a client reports, though no event is made of it: one of CLIENT_EVENTS, or "client.error".
        self.on_client: Callable[[str, str], None] | None = None
        self.errors: dict[str, AmqpException] = {}
        # The time base of all measures: as long as messages fall due; if their number is limited, until the
        # last of them is sent, or the last producer dies.
        self.time_base = max(1, end - GRACE)
        self._limited = None if message_limit is None else {p.name for p in workload.producers}
        # How many messages the producers together may still send.
        self.remaining = UNLIMITED if message_limit is None else message_limit
        # When a producer that had waited was last sent a completion.
        self.woken_at = -1
        # Limit of the clients' acts, above which a run would not fit in memory.
        self.acts = UNLIMITED
        # What breaks the references between clients at the end.
        self.at_end: list[Action] = []
        self.broker.observe(self.events)
        # One session declares everything and ends before time begins, as a setup script does. Declared by
        # the first client that needs it, a queue would depend on the order of the clients.
        setup = self.broker.session(SETUP)
        for name, arguments in workload.queues.items():
            setup.queue_declare(name, arguments)
        for exchange, queue, key in workload.binds:
            setup.exchange_bind(queue, exchange, key)
        setup.close()

    def run(self, until: int | None = None) -> None:
        """Carry out all due actions of clients, and of the broker's own timers."""
        self.agenda.run(self.broker, until)

    def count_act(self) -> None:
        """Count one message that is sent or settled."""
        self.acts -= 1
        if self.acts < 0:
            raise WorkloadError(
                f"workload {self._name!r}: by {self.agenda.now / SECOND:g} s its clients have sent and "
                "settled more messages than can be kept in memory; give it a shorter duration, lower "
                "rates, or consumers that release less"
            )

    def count_message(self) -> None:
        """Count one message sent; after the last one clients have :data:`GRACE` to catch up."""
        self.count_act()
        self.remaining -= 1
        if not self.remaining:
            self.time_base = max(1, min(self.time_base, self.agenda.now))
            self.agenda.end = min(self.agenda.end, self.agenda.now + GRACE)

    def note(self, kind: str, client: str, queue: str = "", message: str = "", detail: Detail = None) -> None:
        """Emit an event that only a client can report: a kind of :data:`qflow.workload.CLIENT_EVENTS`."""
        if self.on_client is not None:
            self.on_client(kind, client)
        if self.broker.observer is not None:
            self.broker.emit(kind, queue, client, message=message, detail=detail)

    def end_session(self, names: Iterable[str], error: AmqpException) -> None:
        """Record the error that ended the session of some producers."""
        for name in names:
            self.errors[name] = error
            if self.on_client is not None:
                self.on_client("client.error", name)
        # A run of 2,000 messages in which the producers die would otherwise divide by an hour, the duration
        # that labs declare so that only the number of messages ends a run.
        if self._limited is not None and self._limited <= self.errors.keys():
            self.time_base = max(1, min(self.time_base, self.agenda.now))

    def finish(self, workload: Workload) -> dict[str, AmqpException]:
        """Return the errors that ended clients' sessions; the stage cannot be used afterwards."""
        senders = Senders(workload.producers)
        for session in self.broker.sessions.values():
            if session.error is not None:
                for name in senders.on(session.name) or (session.name,):
                    self.errors.setdefault(name, session.error)
        self.dissolve()
        return self.errors

    def dissolve(self) -> None:
        """Break the references between clients, agenda and broker, so that only the events stay in memory."""
        # Otherwise they would all stay in memory, with the events, until a garbage collection.
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
"""The number of a run's objects that justifies hiding them from the collector's next walk."""


@contextmanager
def pause_collector() -> Iterator[None]:
    """Switch the garbage collector off during a run, which makes a million objects and drops few."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            # Freezing and thawing moves all objects to the oldest generation.  Otherwise the first
            # allocation after the run walks through all its events, which took a fifth of a traced run
            # of 100,000 messages.  Whoever has frozen objects of his own keeps them frozen.  Counting
            # these walks through them, which a Spark worker or a test would pay at each short run.
            if gc.get_count()[0] > _MANY_OBJECTS and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def make_message(key: str, label: str, size: int, group: str, priority: int | str | None = None) -> Message:
    """Make a message like those of the recorded clients, so that byte counts agree."""
    headers = {"label": label, "group": group} if group else {"label": label}
    urgency = _urgency_of(group) if isinstance(priority, str) else priority
    return Message(size, routing_key=key, headers=headers, priority=urgency, label=label)


def message_of(producer: Producer, number: int, size: int, group: str) -> Message:
    """Make a producer's message with a given number."""
    label = f"{producer.name}-{number}"
    return make_message(producer.to[1], label, size, group, producer.priority)


def _urgency_of(group: str) -> int | None:
    """Return 9 for the first group, 8 for the second, and so on; none for a name without a number."""
    number = group[1:]
    return max(0, 10 - int(number)) if number.isdecimal() else None
