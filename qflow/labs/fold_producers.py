"""The producers' side of a fold: what is sent, what is outstanding, and what is held of it."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from qflow.labs import channels as ch
from qflow.labs.row import Place, Row
from qflow.labs.spans import NEVER, SENDINGS
from qflow.labs.topology import Topology
from qflow.labs.words import BITS, DEAD, FREE, FULL, TOLD, WAITING

Fields = tuple[Any, ...]
"""An event, taken apart by whoever handles it: in a run of a million that is most of the work. The last two
fields are the names and the values of its detail."""

_LIMIT_EXCEEDED = 506
_SENDING = len(SENDINGS)
_SENDING_END, _HELD_START, _HELD_END = map(SENDINGS.index, ("end", "held_start", "held_end"))
_SENT = BITS["sent"]


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
        self.sendings: list[int] = []
        self.groups: dict[str, int] = {}
        self._group_key = topology.group_key
        self._capacities = [spot.capacity for spot in topology.producers]
        self._sessions: dict[str, list[Place]] = defaultdict(list)
        for spot in topology.producers:
            self._sessions[spot.session].append(self.producers[spot.name])
        self._alone = {session: places[0] for session, places in self._sessions.items() if len(places) == 1}
        # By a producer's first column: command to number of queues that hold it; completions not told yet.
        self._holds: dict[int, dict[object, int]] = defaultdict(dict)
        self._unreported: dict[int, list[int]] = defaultdict(list)
        # By session and command: where a transfer's row begins in ``sendings``.
        self._sent: dict[str, dict[object, int]] = {session: {} for session in self._sessions}
        self._group_by_message: dict[tuple[int, int], int] = {}

    def _producer(self, session: str, label: str) -> Place | None:
        """Find whose transfer an event is about; on a shared session only its label tells (CAP-09)."""
        if session not in self._sessions:
            return None
        return self._alone.get(session) or self.producers.get(label.rpartition("-")[0])

    def _transfer(self, event: Fields) -> None:
        _, _, _, session, _, label, _, _, _, (command, message, *_) = event
        producer = self._alone.get(session) or self._producer(session, label)
        if producer is None:
            return
        index, at = producer
        now = self.now
        now[ch.PRODUCER] = index
        now[at] += 1
        outstanding = now[at + ch.OUTSTANDING] = now[at + ch.OUTSTANDING] + 1
        if outstanding >= self._capacities[index]:
            now[at + ch.MOOD] = FULL
        found = self._known.get(label) or self.find_message(label)
        now[ch.SENDER], number = found
        now[ch.NUMBER] = number
        now[ch.PARTS] |= _SENT
        self.is_dirty = True
        headers = message.headers
        name = headers.get(self._group_key) if headers else None
        group = self.group_number(str(name)) if name else 0
        sendings = self.sendings
        self._sent[session][command] = len(sendings)
        sendings += (index, number, group, self.count, NEVER, NEVER, NEVER)
        if group:
            self._group_by_message[found] = group

    def group_number(self, group: str) -> int:
        """Return a group's number, from 1; 0 is no group."""
        return self.groups.setdefault(group, len(self.groups) + 1) if group else 0

    def _held(self, event: Fields) -> None:
        _, _, _, session, _, label, _, _, _, (command,) = event
        producer = self._producer(session, label)
        if producer is None:
            return
        holds = self._holds[producer[1]]
        if command not in holds:
            self._mark(session, command, _HELD_START)
        holds[command] = holds.get(command, 0) + 1
        self.now[producer[1] + ch.P_HELD] = len(holds)

    def _mark(self, session: str, command: object, column: int) -> None:
        start = self._sent[session].get(command)
        if start is not None:
            self.sendings[start + column] = self.count

    def _let_go(self, event: Fields) -> None:
        _, _, _, session, _, label, _, _, _, (command,) = event
        producer = self._producer(session, label)
        if producer is None:
            return
        holds = self._holds[producer[1]]
        # The holds of a session that died are forgotten already (CM-09).
        if command in holds:
            holds[command] -= 1
            if not holds[command]:
                del holds[command]
                self._mark(session, command, _HELD_END)
            self.now[producer[1] + ch.P_HELD] = len(holds)

    def _completed(self, event: Fields) -> None:
        _, _, _, session, _, label, _, _, _, (command,) = event
        # Only a transfer's completion names a message.
        if label and session in self._sent:
            producer = self._alone.get(session) or self._producer(session, label)
            start = self._sent[session].pop(command, None)
            if producer is not None and start is not None:
                self._unreported[producer[1]].append(start)

    def _reported(self, event: Fields) -> None:
        for _, at in self._sessions.get(event[3], ()):
            complete = self._unreported.get(at)
            if complete:
                now, sendings, count = self.now, self.sendings, self.count
                for start in complete:
                    sendings[start + _SENDING_END] = count
                now[at + ch.OUTSTANDING] -= len(complete)
                if now[at + ch.MOOD] == FULL:
                    now[at + ch.MOOD] = FREE
                self.is_dirty = True
                complete.clear()

    def _exception(self, event: Fields) -> None:
        session, (code,) = event[3], event[9]
        now = self.now
        for index, at in self._sessions.get(session, ()):
            now[at + ch.MOOD] = DEAD
            now[at + ch.OUTSTANDING] = now[at + ch.P_HELD] = now[at + ch.BLOCKED] = 0
            self._holds.pop(at, None)
            self._unreported.pop(at, None)
            now[ch.QUEUE] = next((queue for producer, queue in self.routes if producer == index), 0)
            self.tell("refused" if code == _LIMIT_EXCEEDED else "died")
        unfinished = self._sent.get(session, {})
        for start in unfinished.values():
            self.sendings[start + _SENDING_END] = self.count
        unfinished.clear()

    def _blocked(self, event: Fields) -> None:
        session = event[3]
        if session not in self.producers:
            return
        index, at = self.producers[session]
        self.now[at + ch.BLOCKED] = 1
        # A recorded client waits on until it hears that its session is dead.
        if self.now[at + ch.MOOD] == DEAD:
            self.is_dirty = True
            return
        if self.now[at + ch.MOOD] != TOLD:
            self.now[at + ch.MOOD] = WAITING
        self.now[ch.WAITER] = index
        self.tell("blocked")

    def _unblocked(self, event: Fields) -> None:
        session = event[3]
        if session not in self.producers:
            return
        index, at = self.producers[session]
        self.now[at + ch.BLOCKED] = 0
        if self.now[at + ch.MOOD] == DEAD:
            self.is_dirty = True
            return
        self.now[at + ch.MOOD] = FREE
        self.now[ch.WAITER] = index
        self.now[ch.WAITERS] += 1
        self.tell_one_or_many("unblocked", self.now[ch.WAITERS])

    def _channel_flow(self, event: Fields) -> None:
        (is_active,) = event[9]
        for index, at in self._sessions.get(event[3], ()):
            self.now[at + ch.MOOD] = FREE if is_active else TOLD
            self.now[ch.WAITER] = index
            self.tell("channel_resumed" if is_active else "channel_stopped")
