"""A producer at work, with the ideal window (CAP-01)."""

from __future__ import annotations

from qflow.broker.errors import AmqpException
from qflow.broker.range_set import RangeSet
from qflow.broker.session import Session
from qflow.workload.agenda import SECOND, SEND
from qflow.workload.arrivals import due_messages
from qflow.workload.clients import Producer
from qflow.workload.stage import Stage, make_message

GRACE = 10 * SECOND
"""After the last message was due, clients have this long to catch up and drain the queues."""


class ProducerClient:
    """Sends what is due, unless its window is full; then it waits for one completion.

    The window is counted at the client: sent, less what it has been told is complete.  Each
    transfer asks to be told (sync flag), so the client learns of a completion when it happens.

    Parameters
    ----------
    model : Producer
        What it does.
    stage : Stage
        Where it does it.
    last_due : int
        What falls due after this instant is never sent.
    """

    __slots__ = (
        "_model",
        "_stage",
        "_session",
        "_messages",
        "_last_due",
        "_due",
        "_size",
        "_group",
        "_sent",
        "_reported",
        "_is_blocked",
    )

    def __init__(self, model: Producer, stage: Stage, last_due: int) -> None:
        self._model = model
        self._stage = stage
        self._messages = due_messages(model)
        self._last_due = last_due
        self._due, self._size, self._group = next(self._messages)
        self._sent = 0
        self._reported = 0
        self._is_blocked = False
        self._session: Session = stage.broker.session(model.name)
        self._session.completions.on_report = self._on_report
        self._plan()

    def _plan(self) -> None:
        if self._due <= self._last_due:
            agenda = self._stage.agenda
            agenda.enter(max(agenda.now, self._due), SEND, self._on_due)

    def _on_due(self) -> None:
        if self._stage.remaining == 0:
            return
        if self._sent - self._reported >= self._model.capacity:
            self._is_blocked = True
            self._stage.note("client.block", self._model.name)
        else:
            self._send()

    def _on_report(self, completed: RangeSet) -> None:
        # The session's only commands are transfers, so the size of the set is their number.
        self._reported = len(completed)
        if self._is_blocked:
            self._is_blocked = False
            agenda = self._stage.agenda
            agenda.enter(agenda.now, SEND, self._on_room)

    def _on_room(self) -> None:
        self._stage.note("client.unblock", self._model.name)
        self._on_due()

    def _send(self) -> None:
        stage = self._stage
        exchange, key = self._model.to
        self._sent += 1
        message = make_message(key, f"{self._model.name}-{self._sent}", self._size, self._group)
        self._count()
        try:
            self._session.message_transfer(message, exchange, sync=True)
        except AmqpException as error:
            stage.errors[self._model.name] = error
            return
        self._due, self._size, self._group = next(self._messages)
        self._plan()

    def _count(self) -> None:
        stage = self._stage
        if stage.remaining is not None:
            stage.remaining -= 1
            if not stage.remaining:
                stage.agenda.end = min(stage.agenda.end, stage.agenda.now + GRACE)
