"""Folding a run's events into frames: one row of counts for each step that changed something.

A step is one command with all its effects, or one instant at which a client did something on its own.
Only counting happens here; every rule was applied by the engine when it made the events.

Row: the frame that is being filled while events go by.

The producers' side of a fold: what is sent, what is outstanding, and what is held of it.

The queues' side of a fold: how deep they are, which messages lie there, and who has which.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from struct import pack
from typing import Any

from qflow.broker.events import COMMANDS, Event, EventTable, unpacked
from qflow.labs import channels as ch
from qflow.labs.channels import HOLDINGS, LOCKS, NEVER, REASONS, SENDINGS, STAYS, Spans
from qflow.labs.topology import ConsumerSpot, ProducerSpot, QueueSpot, Topology
from qflow.labs.words import BITS, DEAD, FREE, FULL, TOLD, WAITING

Spots = Sequence[ProducerSpot | QueueSpot | ConsumerSpot]
Place = tuple[int, int]
"""Somebody's index among its kind, and the first of its columns."""

LATEST = 2**31 - 1
"""The last microsecond that a picture's clock can tell."""

_BLANK = array("i", [0] * len(ch.STEP_CHANNELS))


class Row:
    """The numbers of the current frame, and all frames that are finished.

    Parameters
    ----------
    topology
        Who takes part.

    Attributes
    ----------
    data, count
        The finished frames, one after the other, and how many there are.
    rows
        For each frame, the place of the last event that it shows.
    now
        The current frame's numbers; who changes them says so with :meth:`tell` or `is_dirty`.
    is_dirty
        Whether the current frame differs from the last finished one.
    producers, queues, consumers
        Where everyone's numbers stand.

    Examples
    --------
    >>> row = Row(Topology((), (QueueSpot("orders"),), (), (), 0))
    >>> row.finish(0); row.finish(5); row.count                  # nothing changed: no second frame
    1
    """

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.data = array("i")
        self.rows = array("i")
        self.count = 0
        queues_at = ch.AFTER_STEP + len(ch.PRODUCER_CHANNELS) * len(topology.producers)
        consumers_at = queues_at + len(ch.QUEUE_CHANNELS) * len(topology.queues)
        width = consumers_at + len(ch.CONSUMER_CHANNELS) * len(topology.consumers)
        self.now = array("i", [0] * width)
        self.is_dirty = True
        self.producers = _places(topology.producers, ch.AFTER_STEP, len(ch.PRODUCER_CHANNELS))
        self.queues = _places(topology.queues, queues_at, len(ch.QUEUE_CHANNELS))
        self.consumers = _places(topology.consumers, consumers_at, len(ch.CONSUMER_CHANNELS))
        self.by_link = {spot.link: self.consumers[spot.name] for spot in topology.consumers}
        self.by_session: dict[str, list[Place]] = defaultdict(list)
        for spot in topology.consumers:
            self.by_session[spot.link.partition("::")[0]].append(self.consumers[spot.name])
        self._known: dict[str, tuple[int, int]] = {}

    def finish(self, time: int, row: int = 0) -> None:
        """Finish the current frame, if it shows anything new, and begin the next.

        Parameters
        ----------
        time
            When its step happened, in microseconds.
        row
            The place of its last event.

        Raises
        ------
        ValueError
            If the time does not fit into 32 bits.
        """
        if not self.is_dirty:
            return
        if time > LATEST:
            raise ValueError(f"a picture's clock ends at 2147 s; the run has an event at {time / 1e6:g} s")
        now = self.now
        now[0] = time
        self.data += now
        self.rows.append(row)
        self.count += 1
        now[1 : ch.AFTER_STEP] = _BLANK
        self.is_dirty = False

    def tell(self, part: str) -> None:
        """Note what the current step did, as a key of :data:`qflow.labs.words.STEP`."""
        self.now[ch.PARTS] |= BITS[part]
        self.is_dirty = True

    def tell_one_or_many(self, part: str, number: int) -> None:
        """Note what the current step did, in the words for one or in those for many."""
        if number > 1:
            self.now[ch.PARTS] &= ~BITS[part]
            part = f"{part}_many"
        self.tell(part)

    def name_message(self, label: str) -> tuple[int, int]:
        """Note which message the current step is about, and return it as :meth:`find_message` does."""
        found = self._known.get(label) or self.find_message(label)
        self.now[ch.SENDER], self.now[ch.NUMBER] = found
        return found

    def find_message(self, label: str) -> tuple[int, int]:
        """Find a message's producer (from 1; 0 for one that is not in the picture) and its number."""
        found = self._known.get(label)
        if found is None:
            sender, _, number = label.rpartition("-")
            is_known = sender in self.producers and number.isdigit()
            found = (self.producers[sender][0] + 1, int(number)) if is_known else (0, 0)
            self._known[label] = found
        return found


def _places(spots: Spots, start: int, width: int) -> dict[str, Place]:
    return {spot.name: (index, start + width * index) for index, spot in enumerate(spots)}


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


_TOLD = {"ring": "evicted", "lvq": "replaced", "queue-deleted": ""}
_GIVES_WAY = ("ring", "lvq")
_DISCARDS = ("ring", "reject", "lvq", "queue-deleted")
_STAY_END, _WHY, _AGAIN = map(STAYS.index, ("end", "reason", "again"))
_STAY_HELD_START, _STAY_HELD_END = map(STAYS.index, ("held_start", "held_end"))
_HOLDING_END = HOLDINGS.index("end")
_LOCK_END = LOCKS.index("end")
_NOBODY = (-1, -1)
_REASON = {reason: number for number, reason in enumerate(REASONS)}
_ACCEPTED, _TURNED_OFF = BITS["accepted"], BITS["turned_off"]


class QueueSide(ProducerSide):
    """What is to be seen of the queues while events go by.

    Parameters
    ----------
    topology
        Who takes part.

    Attributes
    ----------
    stays, holdings, locks
        Every message's stay on a queue, at a consumer, and every consumer's ownership of a group.
    """

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)
        self.stays: list[int] = []
        self.holdings: list[int] = []
        self.locks: list[int] = []
        self._stops = [(spot.stop_count, spot.stop_size) for spot in topology.queues]
        # By queue and position: where a message's row begins in ``stays``; in ``holdings``, with its
        # consumer's first column.
        self._stay: dict[tuple[str, int], int] = {}
        self._holding: dict[tuple[str, int], tuple[int, int]] = {}
        self._newest: dict[tuple[str, str], int] = {}
        self._lock: dict[tuple[str, str], int] = {}

    # Messages that come and go

    def _enqueued(self, event: Fields) -> None:
        _, _, queue, session, _, label, size, group, _, (position, depth, volume) = event
        index, _ = self._count_depth(queue, depth, volume)
        self.is_dirty = True
        found = self._known.get(label) or self.find_message(label)
        producer = self._alone.get(session) or self._producer(session, label)
        if producer is not None:
            self.routes[producer[0], index] = None
        colour = self.group_number(group) if group else self._group_by_message.get(found, 0)
        stays = self.stays
        self._stay[queue, position] = self._newest[queue, label] = len(stays)
        stays += (index, *found, colour, self.count, NEVER, 0, NEVER, NEVER, NEVER, size)

    def _dequeued(self, event: Fields) -> None:
        _, _, queue, _, _, label, _, _, _, (position, reason, depth, volume) = event
        _, at = self._count_depth(queue, depth, volume)
        now = self.now
        found = self._known.get(label) or self.find_message(label)
        if reason in _GIVES_WAY:
            # In the same step another message is sent, which is told, too.
            now[ch.LOST_SENDER], now[ch.LOST_NUMBER] = found
        else:
            now[ch.SENDER], now[ch.NUMBER] = found
        key = queue, position
        consumer = self._disown(key)
        start = self._stay.pop(key, None)
        if start is not None:
            self.stays[start + _STAY_END] = self.count
            self.stays[start + _WHY] = _REASON.get(reason, _REASON["other"])
        if consumer and reason == "accept":
            now[consumer + ch.ACCEPTED] += 1
            now[ch.PARTS] |= _ACCEPTED
            self.is_dirty = True
            return
        if reason in _DISCARDS:
            now[at + ch.DISCARDS] += 1
        told = "rejected" if consumer and reason == "reject" else _TOLD.get(reason, "removed")
        if told:
            self.tell(told)

    def _count_depth(self, queue: str, depth: int, volume: int) -> tuple[int, int]:
        """Take over how deep a queue is; return its number and its first column."""
        index, at = self.queues[queue]
        now = self.now
        now[ch.QUEUE] = index
        now[at + ch.DEPTH] = depth
        now[at + ch.BYTES] = volume
        return index, at

    def _dropped(self, event: Fields) -> None:
        index, at = self.queues[event[2]]
        self.now[ch.QUEUE] = index
        self.now[at + ch.DISCARDS] += 1
        self.tell("dropped")

    def _deleted(self, event: Fields) -> None:
        if event[2] in self.queues:
            index, at = self.queues[event[2]]
            self.now[ch.QUEUE] = index
            self.now[at + ch.GONE] = 1
            self.tell("destroyed" if event[9] == ("self-destruct",) else "removed")

    # Flow control

    def _held(self, event: Fields) -> None:
        self.now[self.queues[event[2]][1] + ch.Q_HELD] += 1
        self.tell("held")
        self._mark_stay(event, _STAY_HELD_START)
        super()._held(event)

    def _let_go(self, event: Fields) -> None:
        now = self.now
        now[self.queues[event[2]][1] + ch.Q_HELD] -= 1
        now[ch.FREED] += 1
        self.tell("freed" if now[ch.PARTS] & _TURNED_OFF else "freed_own")
        self._mark_stay(event, _STAY_HELD_END)
        super()._let_go(event)

    def _mark_stay(self, event: Fields, column: int) -> None:
        start = self._newest.get((event[2], event[5]))
        if start is not None:
            self.stays[start + column] = self.count

    def _flow_stopped(self, event: Fields) -> None:
        index, at = self.queues[event[2]]
        self.now[at + ch.FLOW] = 1
        self.now[ch.QUEUE] = index
        count, size = self._stops[index]
        if count and self.now[at + ch.DEPTH] > count:
            self.tell("turned_on")
        else:
            # The watermark proposal turns ON at its level, what shipped above it (ALT-08).
            self.tell("turned_on_bytes" if size and self.now[at + ch.BYTES] > size else "turned_on_at")

    def _flow_resumed(self, event: Fields) -> None:
        index, at = self.queues[event[2]]
        self.now[at + ch.FLOW] = 0
        self.now[ch.QUEUE] = index
        self.tell("turned_off")

    # Who has which message, and which group

    def _acquired(self, event: Fields) -> None:
        _, _, queue, _, link, _, _, _, _, (position,) = event
        key = queue, position
        index, at = self.by_link.get(link, (-1, 0))
        start = self._stay.get(key, -1)
        count, holdings, now = self.count, self.holdings, self.now
        again = 1 if start >= 0 and self.stays[start + _AGAIN] <= count else 0
        self._holding[key] = len(holdings), at
        holdings += (start // len(STAYS), index + 1, count, NEVER, again)
        now[self.queues[queue][1] + ch.ACQUIRED] += 1
        if at:
            now[at + ch.HOLDS] += 1
        self.is_dirty = True

    def _requeued(self, event: Fields) -> None:
        _, _, queue, _, _, label, _, _, _, (position,) = event
        self.now[ch.QUEUE] = self.queues[queue][0]
        self.name_message(label)
        key = queue, position
        self._disown(key)
        start = self._stay.get(key)
        if start is not None and self.stays[start + _AGAIN] == NEVER:
            self.stays[start + _AGAIN] = self.count
        self.tell("given_back")

    def _disown(self, key: tuple[str, int]) -> int:
        """Take a message from whoever acquired it; return that consumer's first column, or 0."""
        start, consumer = self._holding.pop(key, _NOBODY)
        if consumer < 0:
            return 0
        self.holdings[start + _HOLDING_END] = self.count
        self.now[self.queues[key[0]][1] + ch.ACQUIRED] -= 1
        if consumer:
            self.now[consumer + ch.HOLDS] -= 1
        return consumer

    def _group_owned(self, event: Fields) -> None:
        queue, link, group = event[2], event[4], event[7]
        if queue in self.queues:
            owner, number = self.by_link.get(link, (-1, 0))[0], self.group_number(group)
            self._lock[queue, group] = len(self.locks)
            self.locks += (self.queues[queue][0], number, owner + 1, self.count, NEVER)
            self.is_dirty = True

    def _group_freed(self, event: Fields) -> None:
        start = self._lock.pop((event[2], event[7]), None)
        if start is not None:
            self.locks[start + _LOCK_END] = self.count
            self.is_dirty = True


Handler = Callable[["Fold", Fields], None]

_DELIVERED = BITS["delivered"]

_TAKEN = {
    "message.transfer": ("command", "message", "exchange", "sync"),
    "enqueued": ("position", "depth", "bytes"),
    "dequeued": ("position", "reason", "depth", "bytes"),
    "acquired": ("position",),
    "requeued": ("position",),
    "held": ("command",),
    "let_go": ("command",),
    "completed": ("command",),
    "channel_flow": ("active",),
    "exception": ("code",),
    "queueDelete": ("reason",),
}
"""What a handler takes of an event's detail, in the order in which the broker tells it."""


class Fold(QueueSide):
    """The state of a picture while events go by; events of others than its topology leave no mark.

    The events may come in portions, as they happen: what comes of them is the same. A step that may still
    go on when a portion ends becomes a frame with the next one.

    Parameters
    ----------
    topology
        Who takes part.

    Examples
    --------
    >>> from qflow.labs import flow_workload
    >>> from qflow.workload import simulate
    >>> run = simulate(flow_workload(), message_limit=10)
    >>> whole, parts = (Fold(Topology.of(run.workload, run.end)) for _ in range(2))
    >>> whole.add(run.events); whole.end()
    >>> parts.add(run.events[:33]); parts.add(run.events[33:]); parts.end()
    >>> whole.data == parts.data
    True
    """

    def __init__(self, topology: Topology) -> None:
        super().__init__(topology)
        handlers = self._handlers()
        # One look-up for each event: who handles it, whether it is a command, which begins a step, and
        # which of its details the handler takes.
        self._kinds = {
            kind: (handlers.get(kind), kind in COMMANDS, _TAKEN.get(kind)) for kind in (*COMMANDS, *handlers)
        }
        self._time = 0
        self.seen = 0
        self.finish(0)

    def add(self, events: Iterable[Event]) -> None:
        """Fold more events, in their order.

        Parameters
        ----------
        events
            All rows: commands, effects, and what clients did on their own.

        Raises
        ------
        ValueError
            If the run is longer than a frame's clock can tell: 2147 seconds.
        """
        self._add(EventTable(events).tuples())

    def _add(self, events: Iterable[Fields]) -> None:
        find, nobody = self._kinds.get, (None, False, None)
        time, place = self._time, self.seen - 1
        for place, event in enumerate(events, self.seen):
            handler, begins, taken = find(event[1], nobody)
            if begins or event[0] != time:
                if self.is_dirty:
                    self.finish(time, place - 1)
                time = event[0]
            if handler is not None:
                handler(self, event if taken is None or event[8] == taken else _sorted_out(event, taken))
        self._time, self.seen = time, place + 1

    def follow(self, events: Sequence[Event]) -> None:
        """Fold what was added to some events since they were last followed."""
        if isinstance(events, EventTable):
            self._add(events.tuples(self.seen))
        else:
            self.add(events[self.seen :])

    def end(self) -> None:
        """Finish the last step: nothing follows."""
        self.finish(self._time, self.seen - 1)

    @property
    def lasting(self) -> dict[str, Spans]:
        """What lasted for some frames, or still does."""
        tables = {
            "sendings": (SENDINGS, self.sendings),
            "stays": (STAYS, self.stays),
            "holdings": (HOLDINGS, self.holdings),
            "locks": (LOCKS, self.locks),
        }
        return {name: Spans(columns, _array_of(data)) for name, (columns, data) in tables.items()}

    @staticmethod
    def _handlers() -> dict[str, Handler]:
        # Functions, not methods of this fold: it would hold itself in a circle, and all its numbers with it.
        return {
            "message.transfer": Fold._transfer,
            "enqueued": Fold._enqueued,
            "dropped": Fold._dropped,
            "held": Fold._held,
            "let_go": Fold._let_go,
            "completed": Fold._completed,
            "reported": Fold._reported,
            "exception": Fold._exception,
            "client.block": Fold._blocked,
            "client.unblock": Fold._unblocked,
            "channel_flow": Fold._channel_flow,
            "flow_stopped": Fold._flow_stopped,
            "flow_resumed": Fold._flow_resumed,
            "acquired": Fold._acquired,
            "dequeued": Fold._dequeued,
            "requeued": Fold._requeued,
            "queueDelete": Fold._deleted,
            "group_owned": Fold._group_owned,
            "group_freed": Fold._group_freed,
            "message.subscribe": Fold._subscribed,
            "message.accept": Fold._settled,
            "message.release": Fold._settled,
            "message.reject": Fold._settled,
            "delivered": Fold._delivered,
            "message.cancel": Fold._left,
            "session.detach": Fold._left,
        }

    # Consumers

    def _subscribed(self, event: Fields) -> None:
        _, _, queue, session, link, *_ = event
        consumer = self.by_link.get(f"{session}::{link}")
        if consumer is not None:
            index, at = consumer
            self.now[at + ch.PRESENT] = 1
            self.now[ch.CONSUMER] = index
            self.now[ch.QUEUE] = self.queues[queue][0]
            self.tell("subscribed")

    def _settled(self, event: Fields) -> None:
        places = self.by_session.get(event[3])
        if places:
            self.now[ch.CONSUMER] = places[0][0]

    def _delivered(self, event: Fields) -> None:
        _, _, _, session, link, label, *_ = event
        consumer = self.by_link.get(f"{session}::{link}")
        if consumer is None:
            return
        now = self.now
        now[ch.CONSUMER] = consumer[0]
        deliveries = now[ch.DELIVERIES] = now[ch.DELIVERIES] + 1
        if deliveries == 1:
            now[ch.PARTS] |= _DELIVERED
            self.is_dirty = True
        else:
            self.tell_one_or_many("delivered", deliveries)
        now[ch.GOT_SENDER], now[ch.GOT_NUMBER] = self._known.get(label) or self.find_message(label)

    def _exception(self, event: Fields) -> None:
        super()._exception(event)
        self._left(event)

    def _left(self, event: Fields) -> None:
        session, link = event[3], event[4]
        gone = [self.by_link.get(f"{session}::{link}")] if link else self.by_session.get(session, ())
        for place in gone:
            if place is not None:
                self.now[place[1] + ch.PRESENT] = 0
                self.is_dirty = True


def _array_of(numbers: list[int]) -> array[int]:
    """Return an array of some numbers: three times as fast as its constructor."""
    return array("i", pack(f"{len(numbers)}i", *numbers))


def _sorted_out(event: Fields, taken: tuple[str, ...]) -> Fields:
    """Return an event with those of its details that are taken, in their order: a file keeps another one."""
    detail = unpacked(event[8], event[9]) or {}
    return (*event[:8], taken, tuple(detail[name] for name in taken))
