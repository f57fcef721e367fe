"""Producers with the windows of real clients, and several senders on one session.

Rules: CAP-02, CAP-07, CAP-09.
"""

from __future__ import annotations

from qflow.broker.completions import RangeSet
from qflow.broker.errors import AmqpException
from qflow.messaging.windows import Step, make_window
from qflow.workload.agenda import SEND
from qflow.workload.arrivals import due_messages
from qflow.workload.clients import Producer
from qflow.workload.stage import Stage, make_message

ROUND_TRIP = 200
"""Microseconds: a client that sends again sooner than that has not read the answer yet (CAP-02)."""


class SharedSession:
    """A session, and the senders on it: they share its commands, and what is reported complete.

    Parameters
    ----------
    name : str
        Of the session.
    stage : Stage
        Where it is.
    """

    __slots__ = ("name", "session", "reported", "senders", "_stage")

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
            agenda.enter(agenda.now, SEND, sender.hear)

    def is_confirmed(self, number: int) -> bool:
        """Return whether a command and all before it are known to be complete."""
        return number < self.reported.front


class WindowedProducer:
    """Sends what is due as soon as its window lets it.

    Parameters
    ----------
    model : Producer
        What it does.
    stage : Stage
        Where it does it.
    last_due : int
        What falls due after this instant is never sent.
    shared : SharedSession
        What it sends on.
    """

    __slots__ = (
        "_model",
        "_stage",
        "_shared",
        "_window",
        "_messages",
        "_last_due",
        "_message",
        "_sent",
        "_sent_at",
        "_waits_for",
        "_synced_to",
        "_is_closed",
        "_is_noted",
    )

    def __init__(self, model: Producer, stage: Stage, last_due: int, shared: SharedSession) -> None:
        self._model = model
        self._stage = stage
        self._shared = shared
        self._window = make_window(model.window, model.capacity)
        self._messages = due_messages(model)
        self._last_due = last_due
        self._message = next(self._messages)
        self._sent = 0
        self._sent_at = -ROUND_TRIP
        self._waits_for: Step | None = None
        self._synced_to = -1
        self._is_closed = model.arrival == "recorded" and model.model == "closed"
        self._is_noted = False
        shared.senders.append(self)
        self._plan()

    def _plan(self) -> None:
        if self._message[0] <= self._last_due:
            agenda = self._stage.agenda
            agenda.enter(max(agenda.now, self._message[0]), SEND, self._on_due)

    def _on_due(self) -> None:
        if self._stage.remaining == 0 or not self._shared.session.is_attached:
            return
        if not self._window.is_deaf_while_sending or self._stage.agenda.now >= self._sent_at + ROUND_TRIP:
            self._window.reported(self._shared.reported)
        step = self._window.next_step()
        if step is Step.SEND:
            self._send()
            return
        self._waits_for = step
        if step is Step.SYNC:
            self._synced_to = self._shared.session.completions.next_number - 1
            self._shared.session.execution_sync()
        if not self._may_go_on():
            self._is_noted = True
            self._stage.note("client.block", self._model.name)
        elif step is Step.SYNC:
            self.hear()

    def hear(self) -> None:
        """Look at what is reported, if this sender waits for it; go on if that is enough."""
        if self._waits_for is None or not self._shared.session.is_attached or not self._may_go_on():
            return
        if self._waits_for is Step.SYNC:
            self._window.reported(self._shared.reported)
            self._window.synced()
        self._waits_for = None
        if self._is_noted:
            self._is_noted = False
            self._stage.note("client.unblock", self._model.name)
        self._send()

    def _may_go_on(self) -> bool:
        if self._waits_for is Step.SYNC:
            return self._shared.is_confirmed(self._synced_to)
        self._window.reported(self._shared.reported)
        return self._window.next_step() is Step.SEND

    def _send(self) -> None:
        session, stage = self._shared.session, self._stage
        _, size, group = self._message
        self._sent += 1
        self._sent_at = stage.agenda.now
        stage.count_message()
        model = self._model
        message = make_message(model.to[1], f"{model.name}-{self._sent}", size, group, model.priority)
        if self._window.wants_flush():
            session.session_flush()
        asks = self._window.sync_flag(False)
        self._window.sent(session.completions.next_number)
        try:
            session.message_transfer(message, self._model.to[0], sync=asks)
        except AmqpException as error:
            stage.errors[self._shared.name] = error
            return
        due, size, group = next(self._messages)
        self._message = (due + stage.agenda.now if self._is_closed else due, size, group)
        self._plan()
