"""The clients of a simulated run: producers, each with a window, and consumers.

A producer sends each message when it is due.  While its *window* is full it waits, and catches up afterwards
(CAP-01).  :class:`ProducerClient` has the documented, *ideal* window: it counts transfers sent minus
transfers known to be complete, and each transfer requests a report of its completion (sync flag).  Without a
network it learns of a completion at once.  With a network, transfers and reports take time to travel, and the
client takes working time to send a transfer or to process a report, one at a time, as it is a single process.
:class:`WindowedProducer` has the window of a real client (:mod:`qflow.client_windows`; CAP-02, CAP-07), on a
session of its own or on one that it shares with other producers (CAP-09).

The broker delivers messages to a consumer as long as it has credit; its credit at first is its prefetch.
:class:`ConsumerClient` serves one message after the other, accepts, releases or rejects it, and then
completes it, which in window mode restores the credit (CN-03).  With a network, these commands travel, and
may have to wait for the acknowledgement of earlier ones (:mod:`qflow.workload.network`).
"""

from __future__ import annotations

from collections import deque
from functools import partial
from random import Random
from typing import Final

from qflow.broker.completions import RangeSet
from qflow.broker.consuming import BYTE_UNIT, INFINITE, MESSAGE_UNIT, DeliveryRecord, OnDelivery
from qflow.broker.errors import AmqpException
from qflow.broker.message import Message
from qflow.broker.session import Session
from qflow.client_windows import WindowStep, has_room, make_window
from qflow.workload.agenda import SECOND, SEND, SETTLE, SUBSCRIBE, Action, do_nothing
from qflow.workload.arrivals import Arrivals, Service
from qflow.workload.model import Consumer, Producer
from qflow.workload.network import ASLEEP, READ, Course, Network, Uplink
from qflow.workload.stage import Stage, make_message, message_of

# Microseconds for which a client processes completions before it sends again, or sends before it processes
# completions: the recorded clients do both in threads of one process, between which Python switches after
# that time.
_TURN: Final = 10_000

_ROUND_TRIP: Final = 200
"""Microseconds from a transfer until the client has read the broker's answer, at the earliest (CAP-02)."""


class ProducerClient:
    """A producer with the ideal window, which sends the messages that fall due until ``last_due``."""

    def __init__(self, model: Producer, stage: Stage, last_due: int) -> None:
        self._name, (self._exchange, self._key), self._priority = model.name, model.to, model.priority
        self._stage = stage
        self._next = Arrivals(model)
        self._last_due = last_due
        self._due = self._next.due
        self._sent = 0
        self._link = Uplink(stage.agenda, model.network)
        self._network = network = model.network or Network()
        self._latency = Course(network.latency, network.latencies, SECOND)
        self._pace = Course(1.0, network.pace)
        # Each client has its own random generator. With a shared one, another client would change all draws.
        self._wakes, self._chance, self._woken = network.wakes, Random(network.seed), 0
        self._send_cost = network.send_cost * SECOND
        # A client without a network learns of completions at once, and only their number matters.
        self._is_direct = model.network is None
        # The numbers of transfers that the broker has not reported. Reports on their way to the client, or
        # not yet processed by it, are in the inbox as (arrival, number).
        self._outstanding: dict[int, None] = {}
        self._completed = 0
        self._capacity = model.capacity
        self._inbox: deque[tuple[int, int]] = deque()
        self._is_learning = self._is_sending = False
        self._turn_end = 0
        self._free_at = 0
        self._is_blocked = False
        self._is_closed = model.arrival == "recorded" and model.model == "closed"
        self._session: Session = stage.broker.session(model.name)
        self._link.read_together = self._session.pipeline
        self._session.completions.on_report = self._on_report
        # One bound method each for the whole run, as they are entered in the agenda for every message.
        self._sending: Action = self._on_due
        self._resuming: Action = self._on_room
        stage.at_end.append(self._drop_references)
        self._is_paused = False
        if model.obeys_flow:
            self._session.completions.on_channel_flow = self._on_channel_flow
        self._plan()

    def _plan(self) -> None:
        if self._due <= self._last_due:
            agenda = self._stage.agenda
            # A blocked producer has messages that fell due in the past, which the agenda does not accept.
            ready = max(self._due, self._free_at)
            agenda.enter(max(agenda.now, ready), SEND, self._sending)

    def _drop_references(self) -> None:
        self._sending = self._resuming = do_nothing
        self._link.clear()

    def _on_due(self) -> None:
        if self._stage.remaining == 0 or not self._session.is_attached:
            return
        if self._free_at > self._stage.agenda.now:
            self._plan()
        elif self._has_room():
            self._send()
        else:
            self._is_blocked = True
            self._stage.note("client.block", self._name, detail={"due": self._due})
        if not self._is_direct:
            self._is_sending = not self._is_blocked and self._is_due()
            self._learn_next()

    def _is_due(self) -> bool:
        return self._due <= min(self._last_due, max(self._stage.agenda.now, self._free_at))

    def _has_room(self) -> bool:
        if self._is_paused:
            return False
        if self._is_direct:
            return has_room(self._sent - self._completed, self._capacity)
        return has_room(len(self._outstanding) + len(self._inbox), self._capacity)

    def _on_channel_flow(self, is_active: bool) -> None:
        self._is_paused = not is_active
        if is_active:
            self._wake()

    # Sending

    def _send(self) -> None:
        number = self._sent
        self._sent += 1
        label = f"{self._name}-{self._sent}"
        message = make_message(self._key, label, self._next.size, self._next.group, self._priority)
        self._stage.count_message()
        agenda = self._stage.agenda
        self._next.advance()
        # For a closed producer, the recorded time is its think time before the next transfer.
        self._due = self._next.due + (agenda.now if self._is_closed else 0)
        if self._is_direct:
            self._arrive(message)
        else:
            self._outstanding[number] = None
            self._stage.note("client.transfer", self._name, message=message.label)
            self._free_at = agenda.now + self._work(self._send_cost)
            self._write(message)
        if self._session.is_attached:
            self._plan()

    def _write(self, message: Message) -> None:
        self._link.write(lambda: self._arrive(message))

    def _arrive(self, message: Message) -> None:
        if not self._session.is_attached:
            return
        try:
            self._session.message_transfer(message, self._exchange, sync=True)
        except AmqpException as error:
            self._stage.end_session([self._name], error)

    # Completions

    def _on_report(self, completed: RangeSet) -> None:
        # The session's only commands are transfers, so the size of the set is their number.
        known, self._completed = self._completed, len(completed)
        if self._is_direct:
            self._wake()
            return
        now = self._stage.agenda.now
        arrives = now + round(self._latency.at(now))
        if self._wakes:
            self._woken = max(self._woken, arrives + self._wake_delay(now))
            arrives = self._woken
        found: list[int] = []
        # Oldest first, as a dictionary keeps its order. The report is the set of all completed transfers, so
        # the search ends when the number of newly completed ones has been found.
        for number in self._outstanding:
            if len(found) == self._completed - known:
                break
            if number in completed:
                found.append(number)
        for number in found:
            del self._outstanding[number]
            self._inbox.append((arrives, number))
        self._link.receive_answer()
        self._learn_next()

    def _wake_delay(self, now: int) -> int:
        """Return the extra microseconds until the client runs again, or 0 if it is not asleep."""
        if not self._is_blocked or self._inbox or now - self._free_at <= ASLEEP:
            return 0
        self._stage.woken_at = now
        return round(self._chance.choice(self._wakes) * SECOND)

    def _learn_next(self) -> None:
        if not self._inbox or self._is_learning or self._is_sending:
            return
        self._is_learning = True
        if not self._turn_end:
            # One thread reads completions and another sends, and Python runs only one of them at a time: a
            # burst of completions delays the sender.
            self._turn_end = max(self._free_at, self._inbox[0][0]) + _TURN
        work = self._work(self._network.report_time(self._sent))
        self._free_at = max(self._free_at, self._inbox[0][0]) + work
        self._stage.agenda.enter(self._free_at, SETTLE, self._learn)

    def _work(self, microseconds: float) -> int:
        return round(microseconds * self._pace.at(self._stage.agenda.now))

    def _learn(self) -> None:
        _, number = self._inbox.popleft()
        self._is_learning = False
        now = self._stage.agenda.now
        self._stage.note("client.complete", self._name, message=f"{self._name}-{number + 1}")
        if not self._inbox or now >= self._turn_end:
            self._turn_end = 0
            # Now the client's other thread runs, if it has a message to send.
            self._is_sending = self._is_blocked or self._is_due()
            self._wake()
        self._learn_next()

    def _wake(self) -> None:
        if self._is_blocked:
            self._is_blocked = False
            agenda = self._stage.agenda
            agenda.enter(agenda.now, SEND, self._resuming)

    def _on_room(self) -> None:
        self._stage.note("client.unblock", self._name)
        self._on_due()


class SharedSession:
    """A session with one or more senders, which share its command numbers and completion reports."""

    def __init__(self, name: str, stage: Stage) -> None:
        self.name = name
        self.session = stage.broker.session(name)
        self.session.completions.on_report = self._on_report
        self.reported = RangeSet()
        self.senders: list[WindowedProducer] = []
        stage.at_end.append(self.senders.clear)
        self._stage = stage

    def _on_report(self, completed: RangeSet) -> None:
        self.reported = completed
        agenda = self._stage.agenda
        for sender in self.senders:
            # Not called at once: the engine reports completions while it runs a command, and accepts no other
            # command before that one is done.
            agenda.enter(agenda.now, SEND, sender.receive_report)

    def is_confirmed(self, number: int) -> bool:
        """Return whether the broker has reported a command and all earlier ones complete."""
        return number < self.reported.front


class WindowedProducer:
    """A producer with a window of :mod:`qflow.client_windows`, on a session that it may share."""

    def __init__(self, model: Producer, stage: Stage, last_due: int, shared: SharedSession) -> None:
        self.name = model.name
        self._model = model
        self._stage = stage
        self._shared = shared
        self._window = make_window(model.window, model.capacity)
        self._next = Arrivals(model)
        self._due = self._next.due
        self._last_due = last_due
        self._sent = 0
        self._sent_at = -_ROUND_TRIP
        self._waits_for: WindowStep | None = None
        self._synced_to = -1
        self._is_closed = model.arrival == "recorded" and model.model == "closed"
        self._is_noted = False
        shared.senders.append(self)
        self._plan()

    def _plan(self) -> None:
        if self._due <= self._last_due:
            agenda = self._stage.agenda
            agenda.enter(max(agenda.now, self._due), SEND, self._on_due)

    def _on_due(self) -> None:
        if self._stage.remaining == 0 or not self._shared.session.is_attached:
            return
        # The engine answers at once, a real broker after a round trip. A sender in a tight loop must not see
        # the answers to its latest transfers yet, or its window would never fill (CAP-02).
        if not self._window.is_deaf_while_sending or self._stage.agenda.now >= self._sent_at + _ROUND_TRIP:
            self._window.note_reported(self._shared.reported)
        step = self._window.next_step()
        if step is WindowStep.SEND:
            self._send()
            return
        self._waits_for = step
        if step is WindowStep.SYNC:
            # The sync waits for all earlier commands, including those of the session's other senders
            # (CAP-09).
            self._synced_to = self._shared.session.completions.next_number - 1
            self._shared.session.execution_sync()
        if not self._may_resume():
            self._is_noted = True
            self._stage.note("client.block", self._model.name, detail={"due": self._due})
        elif step is WindowStep.SYNC:
            self.receive_report()

    def receive_report(self) -> None:
        """Read the latest completion report if this sender waits for one, and send if it may resume."""
        if self._waits_for is None or not self._shared.session.is_attached or not self._may_resume():
            return
        if self._waits_for is WindowStep.SYNC:
            self._window.note_reported(self._shared.reported)
            self._window.note_synced()
        self._waits_for = None
        if self._is_noted:
            self._is_noted = False
            self._stage.note("client.unblock", self._model.name)
        self._send()

    def _may_resume(self) -> bool:
        if self._waits_for is WindowStep.SYNC:
            return self._shared.is_confirmed(self._synced_to)
        self._window.note_reported(self._shared.reported)
        return self._window.next_step() is WindowStep.SEND

    def _send(self) -> None:
        session, stage = self._shared.session, self._stage
        size, group = self._next.size, self._next.group
        self._sent += 1
        self._sent_at = stage.agenda.now
        stage.count_message()
        message = message_of(self._model, self._sent, size, group)
        if self._window.wants_flush():
            session.session_flush()
        asks = self._window.sync_flag(False)
        self._window.note_sent(session.completions.next_number)
        try:
            session.message_transfer(message, self._model.to[0], sync=asks)
        except AmqpException as error:
            stage.end_session([sender.name for sender in self._shared.senders], error)
            return
        self._next.advance()
        self._due = self._next.due + (stage.agenda.now if self._is_closed else 0)
        self._plan()


class ConsumerClient:
    """A consumer that serves, settles and completes its messages one by one."""

    def __init__(self, model: Consumer, stage: Stage) -> None:
        self._model = model
        self._stage = stage
        self._service = Service(model)
        self._session: Session | None = None
        self._backlog: deque[DeliveryRecord] = deque()
        self._is_busy = False
        self._is_direct = model.network is None
        self._link = Uplink(stage.agenda, model.network)
        network = model.network or Network()
        self._latency, self._arrives = Course(network.latency, network.latencies, SECOND), 0
        self._wakes, self._crowded, self._chance = network.wakes, network.crowded, Random(network.seed)
        self._coming: list[DeliveryRecord] = []
        self._idle_since = 0
        # One bound method for the whole run, as it is entered in the agenda for every message.
        self._settling: Action = self._settle
        stage.at_end.append(self._drop_references)
        stage.agenda.enter(round(model.start * SECOND), SUBSCRIBE, self._subscribe)
        if model.crash is not None:
            stage.agenda.enter(round(model.crash * SECOND), SUBSCRIBE, self._crash)

    def _subscribe(self) -> None:
        try:
            self._session = _attach(self._model, self._stage, self._on_delivery)
        except AmqpException as error:
            self._stage.errors[self._model.name] = error
            return
        self._link.read_together = self._session.pipeline
        # The commands that grant credit follow the subscription, and may have to wait for its
        # acknowledgement.
        self._link.attach()
        self._link.write(do_nothing)
        self._link.write(self._grant)

    def _grant(self) -> None:
        if self._session is not None and self._session.is_attached:
            _grant(self._model, self._session)

    def _crash(self) -> None:
        if self._session is not None and self._session.is_attached:
            self._session.close()

    def _on_delivery(self, record: DeliveryRecord) -> None:
        if self._is_direct:
            self._take(record)
            return
        self._link.receive_answer()
        agenda = self._stage.agenda
        self._coming.append(record)
        if len(self._coming) > 1:
            return
        if self._wakes and not self._is_busy and agenda.now >= self._idle_since + ASLEEP:
            # Entered with the last priority: other events at this instant decide when the consumer wakes up.
            agenda.enter(agenda.now, SEND, self._wake)
        else:
            agenda.enter(agenda.now, SETTLE, self._travel)

    def _wake(self) -> None:
        is_crowded = self._stage.woken_at >= self._stage.agenda.now - 2 * READ
        late = self._chance.choice(self._crowded if is_crowded and self._crowded else self._wakes)
        self._travel(round(late * SECOND))

    def _travel(self, late: int = 0) -> None:
        agenda = self._stage.agenda
        # Deliveries stay in order, even if the latency decreases.
        self._arrives = max(self._arrives, agenda.now + late + round(self._latency.at(agenda.now)))
        coming, self._coming = self._coming, []
        for record in coming:
            agenda.enter(self._arrives, SETTLE, partial(self._receive, record))

    def _receive(self, record: DeliveryRecord) -> None:
        self._stage.note("client.deliver", self._model.name, self._model.queue, record.label)
        self._take(record)

    def _take(self, record: DeliveryRecord) -> None:
        self._backlog.append(record)
        if not self._is_busy:
            self._is_busy = True
            self._begin()

    def _begin(self) -> None:
        agenda = self._stage.agenda
        agenda.enter(agenda.now + self._service.time(agenda.now), SETTLE, self._settling)

    def _drop_references(self) -> None:
        self._settling = do_nothing
        self._link.clear()

    def _settle(self) -> None:
        if self._session is None or not self._session.is_attached:
            return
        self._stage.count_act()
        record = self._backlog.popleft()
        verdict = self._service.verdict()
        if self._is_direct:
            self._arrive(verdict, record.id)
            self._arrive("complete", record.id)
        else:
            self._stage.note(f"client.{verdict}", self._model.name, self._model.queue, record.label)
            self._write(verdict, record.id)
            self._write("complete", record.id)
        self._is_busy = bool(self._backlog)
        self._idle_since = self._stage.agenda.now
        if self._is_busy:
            self._begin()

    def _write(self, verdict: str, number: int) -> None:
        self._link.write(lambda: self._arrive(verdict, number))

    def _arrive(self, verdict: str, number: int) -> None:
        if self._session is not None and self._session.is_attached:
            settle(self._session, verdict, number)


def settle(session: Session, verdict: str, number: int) -> None:
    """Send the command for a delivery that `verdict` names: accept, release, reject or complete."""
    if verdict == "accept":
        session.message_accept((number,))
    elif verdict == "release":
        session.message_release((number,))
    elif verdict == "reject":
        session.message_reject((number,))
    else:
        session.session_completed((number,))


def subscribe(model: Consumer, stage: Stage, on_delivery: OnDelivery) -> Session:
    """Attach a consumer's session, subscribe to its queue, grant credit, and return the session."""
    session = _attach(model, stage, on_delivery)
    _grant(model, session)
    return session


def _attach(model: Consumer, stage: Stage, on_delivery: OnDelivery) -> Session:
    session = stage.broker.session(model.name)
    session.consuming.on_delivery = on_delivery
    session.message_subscribe(model.queue, model.name)
    return session


def _grant(model: Consumer, session: Session) -> None:
    # A new subscription is in window mode.
    session.message_flow(model.name, BYTE_UNIT, INFINITE)
    session.message_flow(model.name, MESSAGE_UNIT, model.prefetch)
