"""The producers' side of a fold: what is sent, what is outstanding, and what is held of it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from qflow.broker.events import Event
from qflow.labs import channels as ch
from qflow.labs.row import Place, Row
from qflow.labs.spans import NEVER, SENDINGS, Spans
from qflow.labs.topology import Topology
from qflow.labs.words import DEAD, FREE, FULL, TOLD, WAITING

_LIMIT_EXCEEDED = 506
_SENDING = len(SENDINGS)
_SENDING_END = SENDINGS.index("end")


class ProducerSide(Row):
    """What is to be seen of the producers while events go by.

    Parameters
    ----------
    topology
        Who takes part.

    Attributes
    ----------
    routes
        Pairs (index of producer, index of queue), in the order in which they were first seen.
    sendings
        Every transfer: from being sent until its producer knows that it is complete.
    groups
        Group to its number, from 1.
    """

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)
        self.routes = dict.fromkeys(topology.routes)
        self.sendings = Spans(SENDINGS)
        self.groups: dict[str, int] = {}
        self._group_key = topology.group_key
        self._capacities = [spot.capacity for spot in topology.producers]
        self._sessions: dict[str, list[Place]] = defaultdict(list)
        for spot in topology.producers:
            self._sessions[spot.session].append(self.producers[spot.name])
        # By a producer's first column: command to number of queues that hold it; completions not told yet.
        self._holds: dict[int, dict[object, int]] = defaultdict(dict)
        self._unreported: dict[int, list[int]] = defaultdict(list)
        self._sent: dict[tuple[str, object], int] = {}
        self._group_by_message: dict[tuple[int, int], int] = {}

    def _producer(self, event: Event) -> Place | None:
        """Find whose transfer an event is about; on a shared session only its label tells (CAP-09)."""
        members = self._sessions.get(event.session)
        if members is None:
            return None
        return members[0] if len(members) == 1 else self.producers.get(event.message.rpartition("-")[0])

    def _transfer(self, event: Event) -> None:
        producer = self._producer(event)
        if producer is None:
            return
        _, _, _, session, _, message, *_ = event
        detail: Any = event.detail
        index, at = producer
        now = self.now
        now[ch.PRODUCER] = index
        now[at + ch.SENT] += 1
        now[at + ch.OUTSTANDING] += 1
        if now[at + ch.OUTSTANDING] >= self._capacities[index]:
            now[at + ch.MOOD] = FULL
        found = self.name_message(message)
        headers = detail["message"].headers
        name = headers.get(self._group_key) if headers else None
        group = self.group_number(str(name)) if name else 0
        sendings = self.sendings.data
        self._sent[session, detail["command"]] = len(sendings) // _SENDING
        sendings.extend((index, found[1], group, self.count, NEVER, NEVER, NEVER))
        if group:
            self._group_by_message[found] = group
        self.tell("sent")

    def group_number(self, group: str) -> int:
        """Return a group's number, from 1; 0 is no group."""
        return self.groups.setdefault(group, len(self.groups) + 1) if group else 0

    def _held(self, event: Event) -> None:
        producer = self._producer(event)
        if producer is None:
            return
        holds = self._holds[producer[1]]
        command = _detail(event)["command"]
        if command not in holds:
            self._mark(event, "held_start")
        holds[command] = holds.get(command, 0) + 1
        self.now[producer[1] + ch.P_HELD] = len(holds)

    def _mark(self, event: Event, column: str) -> None:
        row = self._sent.get((event.session, _detail(event)["command"]))
        if row is not None:
            self.sendings.set(row, column, self.count)

    def _let_go(self, event: Event) -> None:
        producer = self._producer(event)
        if producer is None:
            return
        holds = self._holds[producer[1]]
        command = _detail(event)["command"]
        # The holds of a session that died are forgotten already (CM-09).
        if command in holds:
            holds[command] -= 1
            if not holds[command]:
                del holds[command]
                self._mark(event, "held_end")
            self.now[producer[1] + ch.P_HELD] = len(holds)

    def _completed(self, event: Event) -> None:
        # Only a transfer's completion names a message.
        if event.message:
            producer = self._producer(event)
            row = self._sent.pop((event.session, _detail(event)["command"]), None)
            if producer is not None and row is not None:
                self._unreported[producer[1]].append(row)

    def _reported(self, event: Event) -> None:
        for _, at in self._sessions.get(event.session, ()):
            complete = self._unreported.pop(at, ())
            if complete:
                for row in complete:
                    self.sendings.data[row * _SENDING + _SENDING_END] = self.count
                self.now[at + ch.OUTSTANDING] -= len(complete)
                if self.now[at + ch.MOOD] == FULL:
                    self.now[at + ch.MOOD] = FREE
                self.is_dirty = True

    def _exception(self, event: Event) -> None:
        now = self.now
        for index, at in self._sessions.get(event.session, ()):
            now[at + ch.MOOD] = DEAD
            now[at + ch.OUTSTANDING] = now[at + ch.P_HELD] = now[at + ch.BLOCKED] = 0
            self._holds.pop(at, None)
            self._unreported.pop(at, None)
            now[ch.QUEUE] = next((queue for producer, queue in self.routes if producer == index), 0)
            self.tell("refused" if _detail(event)["code"] == _LIMIT_EXCEEDED else "died")
        if event.session in self._sessions:
            for session, command in [key for key in self._sent if key[0] == event.session]:
                self.sendings.set(self._sent.pop((session, command)), "end", self.count)

    def _blocked(self, event: Event) -> None:
        if event.session not in self.producers:
            return
        index, at = self.producers[event.session]
        self.now[at + ch.BLOCKED] = 1
        if self.now[at + ch.MOOD] != TOLD:
            self.now[at + ch.MOOD] = WAITING
        self.now[ch.WAITER] = index
        self.tell("blocked")

    def _unblocked(self, event: Event) -> None:
        if event.session not in self.producers:
            return
        index, at = self.producers[event.session]
        self.now[at + ch.BLOCKED] = 0
        self.now[at + ch.MOOD] = FREE
        self.now[ch.WAITER] = index
        self.now[ch.WAITERS] += 1
        self.tell_one_or_many("unblocked", self.now[ch.WAITERS])

    def _channel_flow(self, event: Event) -> None:
        for index, at in self._sessions.get(event.session, ()):
            is_active = _detail(event)["active"]
            self.now[at + ch.MOOD] = FREE if is_active else TOLD
            self.now[ch.WAITER] = index
            self.tell("channel_resumed" if is_active else "channel_stopped")


def _detail(event: Event) -> Any:
    return event.detail
