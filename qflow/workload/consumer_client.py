"""Consumers at work: window mode, one message at a time.

The broker delivers as far as the consumer's credit goes, its prefetch.  The consumer serves one message after
the other, then accepts, releases or rejects it, and completes it: in window mode that is what gives the
credit back (CN-03).  With a network, what it settles travels, and may have to wait for an acknowledgement of
what it wrote before (:class:`qflow.workload.network.Uplink`).
"""

from __future__ import annotations

from collections import deque
from functools import partial
from random import Random

from qflow.broker.consuming import BYTE_UNIT, INFINITE, MESSAGE_UNIT, DeliveryRecord, OnDelivery
from qflow.broker.errors import AmqpException
from qflow.broker.session import Session
from qflow.workload.agenda import SECOND, SEND, SETTLE, SUBSCRIBE, Action, nothing
from qflow.workload.arrivals import Service
from qflow.workload.model import Consumer
from qflow.workload.network import ASLEEP, READ, Course, Network, Uplink
from qflow.workload.stage import Stage


class ConsumerClient:
    """Works through its prefetched messages: serves one, settles it, completes it."""

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
        # One object for the whole run, as it is entered for every message.
        self._settling: Action = self._settle
        stage.at_end.append(self._let_go)
        stage.agenda.enter(round(model.start * SECOND), SUBSCRIBE, self._subscribe)
        if model.crash is not None:
            stage.agenda.enter(round(model.crash * SECOND), SUBSCRIBE, self._crash)

    def _subscribe(self) -> None:
        try:
            self._session = _attach(self._model, self._stage, self._on_delivery)
        except AmqpException as error:
            self._stage.errors[self._model.name] = error
            return
        self._link.read_together = self._session.pipelined
        # The credit travels after the subscription, and may have to wait for it.
        self._link.attach()
        self._link.write(nothing)
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
            # What else happens at this instant decides when it wakes up.
            agenda.enter(agenda.now, SEND, self._wake)
        else:
            agenda.enter(agenda.now, SETTLE, self._travel)

    def _wake(self) -> None:
        is_crowded = self._stage.woken_at >= self._stage.agenda.now - 2 * READ
        late = self._chance.choice(self._crowded if is_crowded and self._crowded else self._wakes)
        self._travel(round(late * SECOND))

    def _travel(self, late: int = 0) -> None:
        agenda = self._stage.agenda
        # Nothing overtakes, also when the way gets shorter.
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

    def _let_go(self) -> None:
        self._settling = nothing
        self._link.let_go()

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
        session = self._session
        if session is None or not session.is_attached:
            return
        if verdict == "accept":
            session.message_accept((number,))
        elif verdict == "release":
            session.message_release((number,))
        elif verdict == "reject":
            session.message_reject((number,))
        else:
            session.session_completed((number,))


def subscribe(model: Consumer, stage: Stage, on_delivery: OnDelivery) -> Session:
    """Attach a consumer's session, subscribe and grant credit; return the session."""
    session = _attach(model, stage, on_delivery)
    _grant(model, session)
    return session


def _attach(model: Consumer, stage: Stage, on_delivery: OnDelivery) -> Session:
    session = stage.broker.session(model.name)
    session.consuming.on_delivery = on_delivery
    session.message_subscribe(model.queue, model.name)
    return session


def _grant(model: Consumer, session: Session) -> None:
    # A subscription begins in window mode.
    session.message_flow(model.name, BYTE_UNIT, INFINITE)
    session.message_flow(model.name, MESSAGE_UNIT, model.prefetch)
