"""Folding a run's events into frames: one row of counts for each step that changed something.

A step is one command with all its effects, or one instant at which a client did something on its own.
Only counting happens here; every rule was applied by the engine when it made the events.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from qflow.broker.events import COMMANDS, Event
from qflow.labs import channels as ch
from qflow.labs.row import Place, Row
from qflow.labs.topology import Topology
from qflow.labs.words import BITS, DEAD, FREE, FULL, WAITING

Handler = Callable[[Event], None]

_LIMIT_EXCEEDED = 506


class Fold(Row):
    """The state of a picture while events go by.

    Parameters
    ----------
    topology
        Who takes part; events of others (an administrator's session, say) leave no mark.

    Attributes
    ----------
    routes
        Pairs (index of producer, index of queue), in the order in which they were first seen.
    """

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)
        self.routes = dict.fromkeys(topology.routes)
        self._capacities = [spot.capacity for spot in topology.producers]
        self._stop_counts = [spot.stop_count for spot in topology.queues]
        self._subscribers = {f"{name}::{name}": place for name, place in self.consumers.items()}
        self._owners: dict[tuple[str, int], int] = {}
        self._sessions: dict[str, list[Place]] = defaultdict(list)
        for spot in topology.producers:
            self._sessions[spot.session].append(self.producers[spot.name])
        # By a producer's first column: command to number of queues that hold it; completions not told yet.
        self._holds: dict[int, dict[object, int]] = defaultdict(dict)
        self._unreported: dict[int, int] = defaultdict(int)

    def run(self, events: Iterable[Event]) -> None:
        """Fold all events of a run, in their order.

        Parameters
        ----------
        events
            All rows: commands, effects, and what clients did on their own.

        Raises
        ------
        ValueError
            If the run is longer than a frame's clock can tell: 2147 seconds.
        """
        find = self._handlers().get
        commands = COMMANDS
        now = 0
        self.finish(now)
        for event in events:
            kind = event[1]
            if event[0] != now or kind in commands:
                if self.is_dirty:
                    self.finish(now)
                now = event[0]
            handler = find(kind)
            if handler is not None:
                handler(event)
        self.finish(now)

    def _handlers(self) -> Mapping[str, Handler]:
        return {
            "message.transfer": self._transfer,
            "enqueued": self._enqueued,
            "dropped": self._dropped,
            "held": self._held,
            "let_go": self._let_go,
            "completed": self._completed,
            "reported": self._reported,
            "exception": self._exception,
            "client.block": self._blocked,
            "client.unblock": self._unblocked,
            "flow_stopped": self._flow_stopped,
            "flow_resumed": self._flow_resumed,
            "acquired": self._acquired,
            "dequeued": self._dequeued,
            "requeued": self._requeued,
            "message.subscribe": self._subscribed,
            "message.accept": self._settled,
            "message.release": self._settled,
            "delivered": self._delivered,
            "message.cancel": self._left,
            "session.detach": self._left,
        }

    # Producers and what happens to their transfers

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
        index, at = producer
        now = self.now
        now[ch.PRODUCER] = index
        now[at + ch.SENT] += 1
        now[at + ch.OUTSTANDING] += 1
        if now[at + ch.OUTSTANDING] >= self._capacities[index]:
            now[at + ch.MOOD] = FULL
        self.name_message(event.message)
        self.tell("sent")

    def _held(self, event: Event) -> None:
        self.now[self.queues[event.queue][1] + ch.Q_HELD] += 1
        self.tell("held")
        producer = self._producer(event)
        if producer is not None:
            holds = self._holds[producer[1]]
            command = _detail(event)["command"]
            holds[command] = holds.get(command, 0) + 1
            self.now[producer[1] + ch.P_HELD] = len(holds)

    def _let_go(self, event: Event) -> None:
        now = self.now
        now[self.queues[event.queue][1] + ch.Q_HELD] -= 1
        now[ch.FREED] += 1
        self.tell("freed" if now[ch.PARTS] & BITS["turned_off"] else "freed_own")
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
            now[producer[1] + ch.P_HELD] = len(holds)

    def _completed(self, event: Event) -> None:
        # Only a transfer's completion names a message.
        if event.message:
            producer = self._producer(event)
            if producer is not None:
                self._unreported[producer[1]] += 1

    def _reported(self, event: Event) -> None:
        for _, at in self._sessions.get(event.session, ()):
            complete = self._unreported.pop(at, 0)
            if complete:
                self.now[at + ch.OUTSTANDING] -= complete
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
        self._left(event)

    def _blocked(self, event: Event) -> None:
        index, at = self.producers[event.session]
        self.now[at + ch.BLOCKED] = 1
        self.now[at + ch.MOOD] = WAITING
        self.now[ch.WAITER] = index
        self.tell("blocked")

    def _unblocked(self, event: Event) -> None:
        index, at = self.producers[event.session]
        self.now[at + ch.BLOCKED] = 0
        self.now[at + ch.MOOD] = FREE
        self.now[ch.WAITER] = index
        self.now[ch.WAITERS] += 1
        self.tell_one_or_many("unblocked", self.now[ch.WAITERS])

    # Queues

    def _enqueued(self, event: Event) -> None:
        self._count_depth(event)
        self.is_dirty = True
        producer = self._producer(event)
        if producer is not None:
            self.routes[producer[0], self.queues[event.queue][0]] = None

    def _dequeued(self, event: Event) -> None:
        self._count_depth(event)
        self.name_message(event.message)
        consumer = self._disown(event)
        if consumer and _detail(event)["reason"] == "accept":
            self.now[consumer + ch.ACCEPTED] += 1
            self.tell("accepted")
        else:
            self.tell("removed")

    def _count_depth(self, event: Event) -> None:
        index, at = self.queues[event.queue]
        detail = _detail(event)
        self.now[ch.QUEUE] = index
        self.now[at + ch.DEPTH] = detail["depth"]
        self.now[at + ch.BYTES] = detail["bytes"]

    def _dropped(self, event: Event) -> None:
        self.now[ch.QUEUE] = self.queues[event.queue][0]
        self.tell("dropped")

    def _flow_stopped(self, event: Event) -> None:
        index, at = self.queues[event.queue]
        self.now[at + ch.FLOW] = 1
        self.now[ch.QUEUE] = index
        stop = self._stop_counts[index]
        self.tell("turned_on" if stop and self.now[at + ch.DEPTH] > stop else "turned_on_bytes")

    def _flow_resumed(self, event: Event) -> None:
        index, at = self.queues[event.queue]
        self.now[at + ch.FLOW] = 0
        self.now[ch.QUEUE] = index
        self.tell("turned_off")

    def _acquired(self, event: Event) -> None:
        at = self._subscribers.get(event.link, (0, 0))[1]
        self._owners[event.queue, _detail(event)["position"]] = at
        self.now[self.queues[event.queue][1] + ch.ACQUIRED] += 1
        if at:
            self.now[at + ch.HOLDS] += 1
        self.is_dirty = True

    def _requeued(self, event: Event) -> None:
        self.now[ch.QUEUE] = self.queues[event.queue][0]
        self.name_message(event.message)
        self._disown(event)
        self.tell("given_back")

    def _disown(self, event: Event) -> int:
        """Take a message from whoever acquired it; return that consumer's first column, or 0."""
        consumer = self._owners.pop((event.queue, _detail(event)["position"]), -1)
        if consumer < 0:
            return 0
        self.now[self.queues[event.queue][1] + ch.ACQUIRED] -= 1
        if consumer:
            self.now[consumer + ch.HOLDS] -= 1
        return consumer

    # Consumers

    def _subscribed(self, event: Event) -> None:
        if event.link in self.consumers:
            index, at = self.consumers[event.link]
            self.now[at + ch.PRESENT] = 1
            self.now[ch.CONSUMER] = index
            self.now[ch.QUEUE] = self.queues[event.queue][0]
            self.tell("subscribed")

    def _settled(self, event: Event) -> None:
        if event.session in self.consumers:
            self.now[ch.CONSUMER] = self.consumers[event.session][0]

    def _delivered(self, event: Event) -> None:
        if event.link in self.consumers:
            self.now[ch.CONSUMER] = self.consumers[event.link][0]
            self.now[ch.DELIVERIES] += 1
            self.tell_one_or_many("delivered", self.now[ch.DELIVERIES])
            self.name_message(event.message, ch.GOT_SENDER)

    def _left(self, event: Event) -> None:
        name = event.link or event.session
        if name in self.consumers:
            self.now[self.consumers[name][1] + ch.PRESENT] = 0
            self.is_dirty = True


def _detail(event: Event) -> Any:
    return event.detail
