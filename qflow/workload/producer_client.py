"""A producer at work, with the ideal window (CAP-01)."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import Final

from qflow.broker.completions import RangeSet
from qflow.broker.errors import AmqpException
from qflow.broker.message import Message
from qflow.broker.session import Session
from qflow.workload.agenda import SECOND, SEND, SETTLE
from qflow.workload.arrivals import due_messages
from qflow.workload.clients import Producer
from qflow.workload.network import Course, Link, Network
from qflow.workload.stage import Stage, make_message

TURN: Final = 10_000
"""Microseconds for which a client learns of completions before it sends again, or sends before it learns:
the recorded ones do both in one process, whose interpreter changes over after that time."""


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
        "_name",
        "_exchange",
        "_key",
        "_priority",
        "_stage",
        "_session",
        "_messages",
        "_last_due",
        "_due",
        "_size",
        "_group",
        "_sent",
        "_link",
        "_is_direct",
        "_outstanding",
        "_completed",
        "_capacity",
        "_inbox",
        "_is_learning",
        "_is_sending",
        "_turn_end",
        "_free_at",
        "_latency",
        "_pace",
        "_send_cost",
        "_network",
        "_is_blocked",
        "_is_closed",
        "_is_told_to_stop",
    )

    def __init__(self, model: Producer, stage: Stage, last_due: int) -> None:
        self._name, (self._exchange, self._key), self._priority = model.name, model.to, model.priority
        self._stage = stage
        self._messages = due_messages(model)
        self._last_due = last_due
        self._due, self._size, self._group = next(self._messages)
        self._sent = 0
        self._link = Link(stage.agenda, model.network)
        self._network = network = model.network or Network()
        self._latency = Course(network.latency, network.latencies, SECOND)
        self._pace = Course(1.0, network.pace)
        self._send_cost = network.send_cost * SECOND
        # A client without a network hears at once what is complete, and need not know which.
        self._is_direct = model.network is None
        # Numbers of transfers that the broker has not reported; and those it has, on their way to us.
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
        self._session.completions.on_report = self._on_report
        self._is_told_to_stop = False
        if model.obeys_flow:
            self._session.completions.on_channel_flow = self._on_channel_flow
        self._plan()

    def _plan(self) -> None:
        if self._due <= self._last_due:
            agenda = self._stage.agenda
            ready = max(self._due, self._free_at)
            agenda.enter(max(agenda.now, ready), SEND, self._on_due)

    def _on_due(self) -> None:
        if self._stage.remaining == 0 or not self._session.is_attached:
            return
        if self._free_at > self._stage.agenda.now:
            self._plan()
        elif self._has_room():
            self._send()
        else:
            self._is_blocked = True
            self._stage.note("client.block", self._name)
        if not self._is_direct:
            self._is_sending = not self._is_blocked and self._is_due()
            self._learn_next()

    def _is_due(self) -> bool:
        return self._due <= min(self._last_due, max(self._stage.agenda.now, self._free_at))

    def _has_room(self) -> bool:
        if self._is_told_to_stop:
            return False
        if self._is_direct:
            return self._sent - self._completed < self._capacity
        return len(self._outstanding) + len(self._inbox) < self._capacity

    def _on_channel_flow(self, is_active: bool) -> None:
        self._is_told_to_stop = not is_active
        if is_active:
            self._wake()

    # Sending

    def _send(self) -> None:
        number = self._sent
        self._sent += 1
        label = f"{self._name}-{self._sent}"
        message = make_message(self._key, label, self._size, self._group, self._priority)
        self._stage.count_message()
        agenda = self._stage.agenda
        self._due, self._size, self._group = next(self._messages)
        if self._is_closed:
            self._due += agenda.now
        if self._is_direct:
            self._arrive(message)
        else:
            self._outstanding[number] = None
            self._stage.note("client.transfer", self._name, message=label)
            self._free_at = agenda.now + self._work(self._send_cost)
            self._link.write(lambda: self._arrive(message))
        if self._session.is_attached:
            self._plan()

    def _arrive(self, message: Message) -> None:
        if not self._session.is_attached:
            return
        try:
            self._session.message_transfer(message, self._exchange, sync=True)
        except AmqpException as error:
            self._stage.errors[self._name] = error

    # Learning of completions

    def _on_report(self, completed: RangeSet) -> None:
        # The session's only commands are transfers, so the size of the set is their number.
        known, self._completed = self._completed, len(completed)
        if self._is_direct:
            self._wake()
            return
        now = self._stage.agenda.now
        arrives = now + round(self._latency.at(now))
        for number in list(islice((n for n in self._outstanding if n in completed), self._completed - known)):
            del self._outstanding[number]
            self._inbox.append((arrives, number))
        self._link.answered()
        self._learn_next()

    def _learn_next(self) -> None:
        if not self._inbox or self._is_learning or self._is_sending:
            return
        self._is_learning = True
        if not self._turn_end:
            self._turn_end = max(self._free_at, self._inbox[0][0]) + TURN
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
            # The other half of the client has its turn, if it has something to send.
            self._is_sending = self._is_blocked or self._is_due()
            self._wake()
        self._learn_next()

    def _wake(self) -> None:
        if self._is_blocked:
            self._is_blocked = False
            agenda = self._stage.agenda
            agenda.enter(agenda.now, SEND, self._on_room)

    def _on_room(self) -> None:
        self._stage.note("client.unblock", self._name)
        self._on_due()
