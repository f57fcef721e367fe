"""A consumer at work: window mode, one message at a time."""

from __future__ import annotations

from collections import deque

from qflow.broker.credit import BYTE_UNIT, INFINITE, MESSAGE_UNIT
from qflow.broker.delivery import DeliveryRecord
from qflow.broker.errors import AmqpException
from qflow.broker.semantic_state import OnDelivery
from qflow.broker.session import Session
from qflow.workload.agenda import SECOND, SETTLE, SUBSCRIBE
from qflow.workload.clients import Consumer
from qflow.workload.service import Service
from qflow.workload.stage import Stage


class ConsumerClient:
    """Works through its prefetched messages: serves one, accepts or releases it, completes it.

    Parameters
    ----------
    model : Consumer
        What it does.
    stage : Stage
        Where it does it.
    """

    __slots__ = ("_model", "_stage", "_service", "_session", "_backlog", "_is_busy")

    def __init__(self, model: Consumer, stage: Stage) -> None:
        self._model = model
        self._stage = stage
        self._service = Service(model)
        self._session: Session | None = None
        self._backlog: deque[int] = deque()
        self._is_busy = False
        stage.agenda.enter(round(model.start * SECOND), SUBSCRIBE, self._subscribe)

    def _subscribe(self) -> None:
        try:
            self._session = subscribe(self._model, self._stage, self._on_delivery)
        except AmqpException as error:
            self._stage.errors[self._model.name] = error

    def _on_delivery(self, record: DeliveryRecord) -> None:
        self._backlog.append(record.id)
        if not self._is_busy:
            self._is_busy = True
            self._begin()

    def _begin(self) -> None:
        agenda = self._stage.agenda
        agenda.enter(agenda.now + self._service.time(agenda.now), SETTLE, self._settle)

    def _settle(self) -> None:
        session = self._session
        if session is None or not session.is_attached:
            return
        numbers = (self._backlog.popleft(),)
        if self._service.is_release():
            session.message_release(numbers)
        else:
            session.message_accept(numbers)
        session.session_completed(numbers)
        self._is_busy = bool(self._backlog)
        if self._is_busy:
            self._begin()


def subscribe(model: Consumer, stage: Stage, on_delivery: OnDelivery) -> Session:
    """Attach a consumer's session and subscribe, in window mode as every subscription begins (CN-03).

    Raises
    ------
    AmqpException
        The broker's own refusal.
    """
    session = stage.broker.session(model.name)
    session.consuming.on_delivery = on_delivery
    session.message_subscribe(model.queue, model.name)
    session.message_flow(model.name, BYTE_UNIT, INFINITE)
    session.message_flow(model.name, MESSAGE_UNIT, model.prefetch)
    return session
