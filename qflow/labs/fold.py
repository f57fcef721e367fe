"""Fold: a run's events, counted into frames.

A frame is added for each *step* that changed something: one command with all its effects, or one instant at
which a client did something on its own. A command, or an event at another instant, begins a new step. Only
counting happens here: the engine applied every rule when it made the events.

The columns of a frame are the time, :data:`STEP_CHANNELS`, and then :data:`PRODUCER_CHANNELS` for each
producer, :data:`QUEUE_CHANNELS` for each queue and :data:`CONSUMER_CHANNELS` for each consumer of the
topology. The frame that is being counted is one array, ``now``; a handler finds a client's or queue's first
column there by its name and adds the constant of a channel, such as ``now[at + DEPTH]``. Four tables of spans
grow beside the frames:

- :data:`SENDINGS`: a transfer, from being sent until its producer knows that it is complete;
- :data:`STAYS`: a message on a queue;
- :data:`HOLDINGS`: an acquired message at a consumer;
- :data:`LOCKS`: a consumer's ownership of a message group.

A run of a million messages has ten million events, so the handlers read plain tuples and do little else.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from struct import pack
from typing import Any

from qflow.broker.events import COMMANDS, Event, EventTable, unpacked
from qflow.labs.frames import NEVER, Frames, Spans
from qflow.labs.topology import Topology
from qflow.labs.words import BITS, DEAD, FREE, FULL, TOLD, WAITING
from qflow.workload import Run
from qflow.workload.model import Senders

STEP_CHANNELS = (
    *("parts", "producer", "queue", "consumer", "sender", "number"),
    *("delivery_sender", "delivery_number", "deliveries", "freed", "waiter", "waiters"),
    *("lost_sender", "lost_number"),
)
PRODUCER_CHANNELS = ("sent", "outstanding", "held", "blocked", "mood")
QUEUE_CHANNELS = ("depth", "bytes", "flow", "held", "acquired", "discards", "gone")
CONSUMER_CHANNELS = ("present", "holds", "accepted")

PARTS, PRODUCER, QUEUE, CONSUMER, SENDER, NUMBER = range(1, 7)
GOT_SENDER, GOT_NUMBER, DELIVERIES, FREED, WAITER, WAITERS, LOST_SENDER, LOST_NUMBER = range(7, 15)
AFTER_STEP = 1 + len(STEP_CHANNELS)
SENT, OUTSTANDING, P_HELD, BLOCKED, MOOD = range(len(PRODUCER_CHANNELS))
DEPTH, BYTES, FLOW, Q_HELD, ACQUIRED, DISCARDS, GONE = range(len(QUEUE_CHANNELS))
PRESENT, HOLDS, ACCEPTED = range(len(CONSUMER_CHANNELS))

SENDINGS = ("producer", "number", "group", "start", "end", "held_start", "held_end")
STAYS = (
    *("queue", "producer", "number", "group", "start", "end"),
    *("reason", "held_start", "held_end", "again", "size"),
)
HOLDINGS = ("stay", "consumer", "start", "end", "again")
LOCKS = ("queue", "group", "consumer", "start", "end")
REASONS = ("", "accept", "accept-none", "ring", "reject", "lvq", "queue-deleted", "purge", "expired", "other")
"""Why a message left its queue; the first is for one that is still there."""

LATEST = 2**31 - 1
"""The last microsecond that a frame can hold."""

Fields = tuple[Any, ...]
"""An event as a plain tuple; the last two fields are the names and the values of its detail."""

Place = tuple[int, int]
"""The index of a client or queue among its kind, and the first of its columns."""

_TRANSFER = ("command", "message")
_BLANK = array("i", [0] * len(STEP_CHANNELS))
_LIMIT_EXCEEDED = 506
_SENT, _ACCEPTED, _DELIVERED, _TURNED_OFF = (
    BITS[part] for part in ("sent", "accepted", "delivered", "turned_off")
)
_SENDING_END, _HELD_START, _HELD_END = map(SENDINGS.index, ("end", "held_start", "held_end"))
_STAY_END, _WHY, _AGAIN = map(STAYS.index, ("end", "reason", "again"))
_STAY_HELD_START, _STAY_HELD_END = map(STAYS.index, ("held_start", "held_end"))
_HOLDING_END, _LOCK_END = HOLDINGS.index("end"), LOCKS.index("end")
_UNSETTLED = (".flow", ".blocked", ".holds", ".depth")
_REASON = {reason: number for number, reason in enumerate(REASONS)}
_PART_OF_REASON = {"ring": "evicted", "lvq": "replaced", "queue-deleted": ""}
_GIVES_WAY = ("ring", "lvq")
_DISCARDS = ("ring", "reject", "lvq", "queue-deleted")
_NO_HOLDING = (-1, -1)


class Fold:
    """The frames of a run, while its events go by; events of clients outside its topology leave no mark.

    The events may come in portions, as they happen: the frames are the same. A step that may still go on
    when a portion ends becomes a frame with the next one.

    Parameters
    ----------
    topology
        The clients and queues to show.
    grain
        Microseconds from one frame to the next at least: what happens meanwhile is one step. 0 keeps each.
    own_steps
        Kinds of events that make a frame although they change no number in it.

    Attributes
    ----------
    count
        How many frames are finished.
    seen
        How many events were counted.

    Raises
    ------
    ValueError
        When an event is later than a frame's clock can hold: 2147 seconds.

    Examples
    --------
    >>> from qflow.labs import flow_workload
    >>> from qflow.workload import simulate
    >>> run = simulate(flow_workload(), message_limit=10)
    >>> whole, parts = (Fold(Topology.of(run.workload, run.end)) for _ in range(2))
    >>> whole.follow(run.events); whole.end()
    >>> parts.follow(run.events[:33]); parts.follow(run.events); parts.end()
    >>> whole.so_far(run.end).data == parts.so_far(run.end).data
    True
    """

    def __init__(self, topology: Topology, grain: int = 0, own_steps: Collection[str] = ()) -> None:
        self.topology = topology
        self.grain = grain
        self._own_steps = frozenset(own_steps)
        self.count = self.seen = 0
        queues_at = AFTER_STEP + len(PRODUCER_CHANNELS) * len(topology.producers)
        consumers_at = queues_at + len(QUEUE_CHANNELS) * len(topology.queues)
        width = consumers_at + len(CONSUMER_CHANNELS) * len(topology.consumers)
        names = [[spot.name for spot in topology.producers], [spot.name for spot in topology.queues]]
        self._producers = _places(names[0], AFTER_STEP, len(PRODUCER_CHANNELS))
        self._queues = _places(names[1], queues_at, len(QUEUE_CHANNELS))
        consumers = _places([spot.name for spot in topology.consumers], consumers_at, len(CONSUMER_CHANNELS))
        # The frames that are finished, one after the other, and the place of the last event of each.
        self._data, self._rows = array("i"), array("i")
        self._now = array("i", [0] * width)
        self._is_dirty = True
        self._time = self._due = 0
        # A message's producer, from 1, and its number, by its label; a group's number, from 1.
        self._known: dict[str, tuple[int, int]] = {}
        self._groups: dict[str, int] = {}
        self._group_by_message: dict[tuple[int, int], int] = {}
        self._group_key = topology.group_key
        self._routes = dict.fromkeys(topology.routes)
        self._capacities = [spot.capacity for spot in topology.producers]
        self._stops = [(spot.stop_count, spot.stop_size) for spot in topology.queues]
        self._sessions: dict[str, list[Place]] = defaultdict(list)
        for spot in topology.producers:
            self._sessions[spot.session].append(self._producers[spot.name])
        self._senders = Senders(topology.producers)
        self._alone = {session: places[0] for session, places in self._sessions.items() if len(places) == 1}
        self._by_link = {spot.link: consumers[spot.name] for spot in topology.consumers}
        self._readers: dict[str, list[Place]] = defaultdict(list)
        for link, place in self._by_link.items():
            self._readers[link.partition("::")[0]].append(place)
        # By a producer's first column: command to the number of queues that hold it; completions to report.
        self._holds: dict[int, dict[object, int]] = defaultdict(dict)
        self._unreported: dict[int, list[int]] = defaultdict(list)
        # The spans, number after number, and where the row begins in them: of a transfer by session and
        # command, of a message's stay and holding by queue and position, of a lock by queue and group.
        self._sendings: list[int] = []
        self._stays: list[int] = []
        self._holdings: list[int] = []
        self._locks: list[int] = []
        self._sent: dict[str, dict[object, int]] = {session: {} for session in self._sessions}
        self._stay: dict[tuple[str, int], int] = {}
        self._newest: dict[tuple[str, str], int] = {}
        self._holding: dict[tuple[str, int], tuple[int, int]] = {}
        self._lock: dict[tuple[str, str], int] = {}
        self._deaths: list[tuple[int, int, str]] = []
        # Of sessions of AMQP 1.0: by a link's name, its transfers that have no outcome yet.
        self._links: dict[str, dict[str, dict[object, None]]] = {}
        self._finish(0, 0)

    def follow(self, events: Sequence[Event]) -> None:
        """Count a run's events from the first that was not counted yet, in their order."""
        if isinstance(events, EventTable):
            self.add(events.tuples(self.seen))
        else:
            self.add(EventTable(events[self.seen :]).tuples())

    def end(self) -> None:
        """Finish the last step: nothing follows."""
        if self._is_dirty:
            self._finish(self._time, self.seen - 1)

    def so_far(self, end: int) -> Frames:
        """Return the frames of all finished steps; a run that goes on will have these and more.

        Parameters
        ----------
        end
            The instant up to which the picture has room, in microseconds.
        """
        topology = replace(self.topology, routes=tuple(sorted(self._routes)), end=end)
        tables = (
            ("sendings", SENDINGS, self._sendings),
            ("stays", STAYS, self._stays),
            ("holdings", HOLDINGS, self._holdings),
            ("locks", LOCKS, self._locks),
        )
        lasting = {name: Spans(columns, _array_of(data)) for name, columns, data in tables}
        return Frames(
            topology,
            channel_names(topology),
            self._data[:],
            self.count,
            lasting,
            tuple(self._groups),
            self._rows[:],
            tuple(self._deaths),
        )

    def whole(self, end: int) -> Frames:
        """Return the frames of a run that was counted to its end, without an idle rest.

        Parameters
        ----------
        end
            The run's last instant, in microseconds.
        """
        frames = self.so_far(end)
        last = frames.at(-1)
        if any(value for name, value in last.items() if name.endswith(_UNSETTLED)):
            return frames
        # Nothing waits for anything any more: the rest of the run would show nothing.
        return replace(frames, topology=replace(frames.topology, end=last["time"]))

    def renewed(self, topology: Topology, first: int) -> Fold:
        """Return a fold that goes on from here, for other clients and queues, with the last frames only.

        What clients and queues of both topologies have counted goes on, and what still lasts is kept,
        however long ago it began.

        Parameters
        ----------
        topology
            The clients and queues to show from now on.
        first
            The first frame to keep; it is the new fold's frame 0.

        Examples
        --------
        >>> from qflow.labs import flow_workload
        >>> from qflow.workload import simulate
        >>> run = simulate(flow_workload(), message_limit=10)
        >>> fold = Fold(Topology.of(run.workload, run.end))
        >>> fold.follow(run.events)
        >>> last = fold.renewed(fold.topology, fold.count - 3)
        >>> last.end(); fold.end()
        >>> last.count, last.so_far(run.end).at(-1) == fold.so_far(run.end).at(-1)
        (3, True)
        """
        new = Fold(topology, self.grain, self._own_steps)
        shift = _Shift(self.topology, topology, first)
        columns = shift.columns()
        width = len(self._now)
        new._data, new._now = array("i"), shift.row(self._now, columns)
        if _names(topology) == _names(self.topology):
            new._data, new._now = self._data[first * width :], self._now[:]
        else:
            for frame in range(first, self.count):
                new._data += shift.row(self._data[frame * width : (frame + 1) * width], columns)
        new._rows, new.count, new.seen = self._rows[first:], self.count - first, self.seen
        new._time, new._due, new._is_dirty = self._time, self._due, self._is_dirty
        new._groups, new._links = self._groups, self._links
        new._group_by_message = {}
        routes = [(shift.producer(producer), shift.queue(queue)) for producer, queue in self._routes]
        new._routes |= {route: None for route in routes if min(route) >= 0}
        new._deaths = [
            (max(0, at - first), shift.producer(p), text)
            for at, p, text in self._deaths
            if at >= first and shift.producer(p) >= 0
        ]
        sendings, new._sendings = shift.kept(self._sendings, SENDINGS, {"producer": shift.producer})
        for session, sent in self._sent.items():
            if session in new._sent:
                new._sent[session] = _moved(sent, sendings)
        stays, new._stays = shift.kept(
            self._stays, STAYS, {"queue": shift.queue, "producer": shift.nth_producer}
        )
        new._stay, new._newest = _moved(self._stay, stays), _moved(self._newest, stays)
        width = len(STAYS)

        def stay(row: int) -> int:
            return stays.get(row * width, -width) // width

        holdings, new._holdings = shift.kept(
            self._holdings, HOLDINGS, {"stay": stay, "consumer": shift.nth_consumer}
        )
        for key, (start, at) in self._holding.items():
            if start in holdings:
                new._holding[key] = holdings[start], columns.get(at, 0) if at else 0
        locks, new._locks = shift.kept(
            self._locks, LOCKS, {"queue": shift.queue, "consumer": shift.nth_consumer}
        )
        new._lock = _moved(self._lock, locks)
        new._holds |= {columns[at]: held for at, held in self._holds.items() if at in columns}
        for at, starts in self._unreported.items():
            if at in columns:
                new._unreported[columns[at]] = [sendings[one] for one in starts if one in sendings]
        return new

    # Steps

    def add(self, events: Iterable[Fields]) -> None:
        """Count events that follow those seen, as :meth:`EventTable.tuples` gives them."""
        find, unknown = _KINDS.get, (None, (), False)
        time, place = self._time, self.seen - 1
        for place, event in enumerate(events, self.seen):
            handler, details, begins = find(event[1], unknown)
            if begins or event[0] != time:
                if self._is_dirty and event[0] >= self._due:
                    self._finish(time, place - 1)
                time = event[0]
            if handler is not None:
                handler(self, event if not details or event[8] == details else _in_order(event, details))
            elif event[1] in self._own_steps:
                self._is_dirty = True
        self._time, self.seen = time, place + 1

    def _finish(self, time: int, row: int) -> None:
        """Finish the current frame, and begin the next."""
        if time > LATEST:
            raise ValueError(f"a picture's clock ends at 2147 s; the run has an event at {time / 1e6:g} s")
        now = self._now
        now[0] = time
        self._data += now
        self._rows.append(row)
        self.count += 1
        now[1:AFTER_STEP] = _BLANK
        self._is_dirty = False
        # The grid of instants, so that the frames of a lively run come at an even pace.
        self._due = time - time % self.grain + self.grain if self.grain else 0

    def _note(self, part: str) -> None:
        """Note what the current step did, as a key of :data:`qflow.labs.words.STEP`."""
        self._now[PARTS] |= BITS[part]
        self._is_dirty = True

    def _note_many(self, part: str, number: int) -> None:
        """Note what the current step did, in the words for one or in those for many."""
        if number > 1:
            self._now[PARTS] &= ~BITS[part]
            part = f"{part}_many"
        self._note(part)

    def _message(self, label: str) -> tuple[int, int]:
        """Return a message's producer (from 1; 0 for one outside the topology) and its number."""
        found = self._known.get(label)
        if found is None:
            sender, _, number = label.rpartition("-")
            is_known = sender in self._producers and number.isdigit()
            found = (self._producers[sender][0] + 1, int(number)) if is_known else (0, 0)
            self._known[label] = found
        return found

    def _group_number(self, group: str) -> int:
        return self._groups.setdefault(group, len(self._groups) + 1) if group else 0

    def _producer(self, session: str, label: str) -> Place | None:
        """Return whose transfer an event is about."""
        return self._producers.get(self._senders.of(session, label))

    # Producers

    def _transfer(self, event: Fields) -> None:
        _, _, _, session, _, label, _, _, names, values = event
        command, message, *_ = values if names[:2] == _TRANSFER else _in_order(event, _TRANSFER)[9]
        producer = self._alone.get(session) or self._producer(session, label)
        if producer is None:
            return
        if session in self._links:
            tag = values[names.index("tag")]
            self._links[session].setdefault(tag, {})[command] = None
        index, at = producer
        now = self._now
        now[PRODUCER] = index
        now[at] += 1
        outstanding = now[at + OUTSTANDING] = now[at + OUTSTANDING] + 1
        if outstanding >= self._capacities[index]:
            now[at + MOOD] = FULL
        elif now[at + MOOD] == DEAD:
            # It sends on a new session.
            now[at + MOOD] = FREE
        found = self._known.get(label) or self._message(label)
        now[SENDER], number = found
        now[NUMBER] = number
        now[PARTS] |= _SENT
        self._is_dirty = True
        headers = message.headers
        name = headers.get(self._group_key) if headers else None
        group = self._group_number(str(name)) if name else 0
        sendings = self._sendings
        self._sent[session][command] = len(sendings)
        sendings += (index, number, group, self.count, NEVER, NEVER, NEVER)
        if group:
            self._group_by_message[found] = group

    def _completed(self, event: Fields) -> None:
        _, _, _, session, _, label, _, _, _, (command,) = event
        # Only a transfer's completion names a message.
        if label and session in self._sent:
            producer = self._alone.get(session) or self._producer(session, label)
            start = self._sent[session].pop(command, None)
            if producer is not None and start is not None:
                self._unreported[producer[1]].append(start)
                if session in self._links:
                    # Its outcome is sent by itself, and at once.
                    for waiting in self._links[session].values():
                        waiting.pop(command, None)
                    self._reported(event)

    def _reported(self, event: Fields) -> None:
        for _, at in self._sessions.get(event[3], ()):
            complete = self._unreported.get(at)
            if complete:
                now, sendings, count = self._now, self._sendings, self.count
                for start in complete:
                    sendings[start + _SENDING_END] = count
                now[at + OUTSTANDING] -= len(complete)
                if now[at + MOOD] == FULL:
                    now[at + MOOD] = FREE
                self._is_dirty = True
                complete.clear()

    # Links of AMQP 1.0

    def _attached(self, event: Fields) -> None:
        if event[8] and "container" in event[8]:
            self._links[event[3]] = {}

    def _released(self, event: Fields) -> None:
        """Count a transfer that found no room: its client has it back, and its link lives (LNK-05)."""
        _, _, _, session, _, label, _, _, _, (command,) = event
        if command in self._sent.get(session, ()):
            found = self._known.get(label) or self._message(label)
            self._completed(event)
            now = self._now
            now[SENDER], now[NUMBER] = found
            now[QUEUE] = next((queue for producer, queue in self._routes if producer == now[PRODUCER]), 0)
            self._note("released")

    def _link_ended(self, event: Fields) -> None:
        """End what has no outcome and will have none: its messages stay where they are (LNK-07)."""
        _, _, _, session, link, *_ = event
        links = self._links.get(session)
        if links is None:
            self._left(event)
            return
        for tag in [link] if link else list(links):
            for command in links.pop(tag, ()):
                start = self._sent.get(session, {}).pop(command, None)
                place = self._sessions[session][0] if start is not None else None
                if start is not None and place is not None:
                    self._sendings[start + _SENDING_END] = self.count
                    self._now[place[1] + OUTSTANDING] -= 1
                    self._holds[place[1]].pop(command, None)
                    self._now[place[1] + P_HELD] = len(self._holds[place[1]])
                    self._now[place[1] + MOOD] = FREE
                    self._is_dirty = True
        self._left(event)

    def _blocked(self, event: Fields) -> None:
        if at := self._waiter(event, 1):
            if self._now[at + MOOD] != TOLD:
                self._now[at + MOOD] = WAITING
            self._note("blocked")

    def _unblocked(self, event: Fields) -> None:
        if at := self._waiter(event, 0):
            self._now[at + MOOD] = FREE
            self._now[WAITERS] += 1
            self._note_many("unblocked", self._now[WAITERS])

    def _waiter(self, event: Fields, blocked: int) -> int:
        """Count that a producer waits or not; return its first column, or 0 if its session is dead."""
        index, at = self._producers.get(event[3], (0, 0))
        if not at:
            return 0
        self._now[at + BLOCKED] = blocked
        self._is_dirty = True
        # A recorded client waits on until it hears that its session is dead.
        if self._now[at + MOOD] == DEAD:
            return 0
        self._now[WAITER] = index
        return at

    def _channel_flow(self, event: Fields) -> None:
        (is_active,) = event[9]
        for index, at in self._sessions.get(event[3], ()):
            self._now[at + MOOD] = FREE if is_active else TOLD
            self._now[WAITER] = index
            self._note("channel_resumed" if is_active else "channel_stopped")

    def _exception(self, event: Fields) -> None:
        session, (code, name, text) = event[3], event[9]
        now = self._now
        for index, at in self._sessions.get(session, ()):
            self._deaths.append((self.count, index, f"{name}: {text}"))
            now[at + MOOD] = DEAD
            now[at + OUTSTANDING] = now[at + P_HELD] = now[at + BLOCKED] = 0
            self._holds.pop(at, None)
            self._unreported.pop(at, None)
            now[QUEUE] = next((queue for producer, queue in self._routes if producer == index), 0)
            self._note("refused" if code == _LIMIT_EXCEEDED else "died")
        unfinished = self._sent.get(session, {})
        for start in unfinished.values():
            self._sendings[start + _SENDING_END] = self.count
        unfinished.clear()
        self._left(event)

    # Queues

    def _enqueued(self, event: Fields) -> None:
        _, _, queue, session, _, label, size, group, _, (position, depth, volume) = event
        index, _ = self._count_depth(queue, depth, volume)
        self._is_dirty = True
        found = self._known.get(label) or self._message(label)
        producer = self._alone.get(session) or self._producer(session, label)
        if producer is not None:
            self._routes[producer[0], index] = None
        colour = self._group_number(group) if group else self._group_by_message.get(found, 0)
        stays = self._stays
        self._stay[queue, position] = self._newest[queue, label] = len(stays)
        stays += (index, *found, colour, self.count, NEVER, 0, NEVER, NEVER, NEVER, size)

    def _dequeued(self, event: Fields) -> None:
        _, _, queue, _, _, label, _, _, _, (position, reason, depth, volume) = event
        _, at = self._count_depth(queue, depth, volume)
        now = self._now
        found = self._known.get(label) or self._message(label)
        if reason in _GIVES_WAY:
            # In the same step another message is sent.
            now[LOST_SENDER], now[LOST_NUMBER] = found
        else:
            now[SENDER], now[NUMBER] = found
        key = queue, position
        consumer = self._disown(key)
        start = self._stay.pop(key, None)
        if start is not None:
            self._stays[start + _STAY_END] = self.count
            self._stays[start + _WHY] = _REASON.get(reason, _REASON["other"])
        if consumer and reason == "accept":
            now[consumer + ACCEPTED] += 1
            now[PARTS] |= _ACCEPTED
            self._is_dirty = True
            return
        if reason in _DISCARDS:
            now[at + DISCARDS] += 1
        part = "rejected" if consumer and reason == "reject" else _PART_OF_REASON.get(reason, "removed")
        if part:
            self._note(part)

    def _count_depth(self, queue: str, depth: int, volume: int) -> tuple[int, int]:
        """Count how deep a queue is; return its place."""
        index, at = self._queues[queue]
        now = self._now
        now[QUEUE] = index
        now[at + DEPTH] = depth
        now[at + BYTES] = volume
        return index, at

    def _dropped(self, event: Fields) -> None:
        index, at = self._queues[event[2]]
        self._now[QUEUE] = index
        self._now[at + DISCARDS] += 1
        self._note("dropped")

    def _deleted(self, event: Fields) -> None:
        if event[2] in self._queues:
            index, at = self._queues[event[2]]
            self._now[QUEUE] = index
            self._now[at + GONE] = 1
            self._note("destroyed" if event[9] == ("self-destruct",) else "removed")

    # Flow control

    def _held(self, event: Fields) -> None:
        _, _, queue, session, _, label, _, _, _, (command,) = event
        self._now[self._queues[queue][1] + Q_HELD] += 1
        self._note("held")
        self._mark_stay(event, _STAY_HELD_START)
        producer = self._producer(session, label)
        if producer is None:
            return
        holds = self._holds[producer[1]]
        if command not in holds:
            self._mark(session, command, _HELD_START)
        holds[command] = holds.get(command, 0) + 1
        self._now[producer[1] + P_HELD] = len(holds)

    def _let_go(self, event: Fields) -> None:
        _, _, queue, session, _, label, _, _, _, (command,) = event
        now = self._now
        now[self._queues[queue][1] + Q_HELD] -= 1
        now[FREED] += 1
        self._note("freed" if now[PARTS] & _TURNED_OFF else "freed_own")
        self._mark_stay(event, _STAY_HELD_END)
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
            now[producer[1] + P_HELD] = len(holds)

    def _mark(self, session: str, command: object, column: int) -> None:
        start = self._sent[session].get(command)
        if start is not None:
            self._sendings[start + column] = self.count

    def _mark_stay(self, event: Fields, column: int) -> None:
        start = self._newest.get((event[2], event[5]))
        if start is not None:
            self._stays[start + column] = self.count

    def _flow_stopped(self, event: Fields) -> None:
        index, at = self._queues[event[2]]
        self._now[at + FLOW] = 1
        self._now[QUEUE] = index
        count, size = self._stops[index]
        if count and self._now[at + DEPTH] > count:
            self._note("turned_on")
        else:
            # The watermark proposal turns ON at its level, what shipped above it (ALT-08).
            self._note("turned_on_bytes" if size and self._now[at + BYTES] > size else "turned_on_at")

    def _flow_resumed(self, event: Fields) -> None:
        index, at = self._queues[event[2]]
        self._now[at + FLOW] = 0
        self._now[QUEUE] = index
        self._note("turned_off")

    # Who has which message, and which group

    def _acquired(self, event: Fields) -> None:
        _, _, queue, _, link, _, _, _, _, (position,) = event
        key = queue, position
        index, at = self._by_link.get(link, (-1, 0))
        start = self._stay.get(key, -1)
        count, holdings, now = self.count, self._holdings, self._now
        again = 1 if start >= 0 and self._stays[start + _AGAIN] <= count else 0
        self._holding[key] = len(holdings), at
        holdings += (start // len(STAYS), index + 1, count, NEVER, again)
        now[self._queues[queue][1] + ACQUIRED] += 1
        if at:
            now[at + HOLDS] += 1
        self._is_dirty = True

    def _requeued(self, event: Fields) -> None:
        _, _, queue, _, _, label, _, _, _, (position,) = event
        self._now[QUEUE] = self._queues[queue][0]
        self._now[SENDER], self._now[NUMBER] = self._message(label)
        key = queue, position
        self._disown(key)
        start = self._stay.get(key)
        if start is not None and self._stays[start + _AGAIN] == NEVER:
            self._stays[start + _AGAIN] = self.count
        self._note("given_back")

    def _disown(self, key: tuple[str, int]) -> int:
        """End a message's holding; return the first column of the consumer that had it, or 0."""
        start, consumer = self._holding.pop(key, _NO_HOLDING)
        if consumer < 0:
            return 0
        self._holdings[start + _HOLDING_END] = self.count
        self._now[self._queues[key[0]][1] + ACQUIRED] -= 1
        if consumer:
            self._now[consumer + HOLDS] -= 1
        return consumer

    def _group_owned(self, event: Fields) -> None:
        queue, link, group = event[2], event[4], event[7]
        if queue in self._queues:
            owner, number = self._by_link.get(link, (-1, 0))[0], self._group_number(group)
            self._lock[queue, group] = len(self._locks)
            self._locks += (self._queues[queue][0], number, owner + 1, self.count, NEVER)
            self._is_dirty = True

    def _group_freed(self, event: Fields) -> None:
        start = self._lock.pop((event[2], event[7]), None)
        if start is not None:
            self._locks[start + _LOCK_END] = self.count
            self._is_dirty = True

    # Consumers

    def _subscribed(self, event: Fields) -> None:
        _, _, queue, session, link, *_ = event
        consumer = self._by_link.get(f"{session}::{link}")
        if consumer is not None:
            index, at = consumer
            self._now[at + PRESENT] = 1
            self._now[CONSUMER] = index
            self._now[QUEUE] = self._queues[queue][0]
            self._note("subscribed")

    def _link_subscribed(self, event: Fields) -> None:
        if event[3] in self._links:
            self._subscribed(event)

    def _settled(self, event: Fields) -> None:
        places = self._readers.get(event[3])
        if places:
            self._now[CONSUMER] = places[0][0]

    def _delivered(self, event: Fields) -> None:
        _, _, _, session, link, label, *_ = event
        consumer = self._by_link.get(f"{session}::{link}")
        if consumer is None:
            return
        now = self._now
        now[CONSUMER] = consumer[0]
        deliveries = now[DELIVERIES] = now[DELIVERIES] + 1
        if deliveries == 1:
            now[PARTS] |= _DELIVERED
            self._is_dirty = True
        else:
            self._note_many("delivered", deliveries)
        now[GOT_SENDER], now[GOT_NUMBER] = self._known.get(label) or self._message(label)

    def _left(self, event: Fields) -> None:
        session, link = event[3], event[4]
        gone = [self._by_link.get(f"{session}::{link}")] if link else self._readers.get(session, ())
        for place in gone:
            if place is not None:
                self._now[place[1] + PRESENT] = 0
                self._is_dirty = True


_HANDLERS: dict[str, tuple[Callable[[Fold, Fields], None], tuple[str, ...]]] = {
    "session.attach": (Fold._attached, ()),
    "message.transfer": (Fold._transfer, ()),
    "completed": (Fold._completed, ("command",)),
    "reported": (Fold._reported, ()),
    "client.block": (Fold._blocked, ()),
    "client.unblock": (Fold._unblocked, ()),
    "channel_flow": (Fold._channel_flow, ("active",)),
    "exception": (Fold._exception, ("code", "name", "text")),
    "enqueued": (Fold._enqueued, ("position", "depth", "bytes")),
    "dequeued": (Fold._dequeued, ("position", "reason", "depth", "bytes")),
    "dropped": (Fold._dropped, ()),
    "queueDelete": (Fold._deleted, ("reason",)),
    "held": (Fold._held, ("command",)),
    "let_go": (Fold._let_go, ("command",)),
    "flow_stopped": (Fold._flow_stopped, ()),
    "flow_resumed": (Fold._flow_resumed, ()),
    "acquired": (Fold._acquired, ("position",)),
    "requeued": (Fold._requeued, ("position",)),
    "group_owned": (Fold._group_owned, ()),
    "group_freed": (Fold._group_freed, ()),
    "message.subscribe": (Fold._subscribed, ()),
    "message.accept": (Fold._settled, ()),
    "message.release": (Fold._settled, ()),
    "message.reject": (Fold._settled, ()),
    "subscribe": (Fold._link_subscribed, ()),
    "refused": (Fold._released, ("command",)),
    "link.detach": (Fold._link_ended, ()),
    "link_closed": (Fold._left, ()),
    "delivered": (Fold._delivered, ()),
    "message.cancel": (Fold._left, ()),
    "session.detach": (Fold._link_ended, ()),
}
"""For each kind of event that changes a frame: its handler, and the details that it reads, in their order."""

_KINDS = {
    kind: (*_HANDLERS.get(kind, (None, ())), kind in COMMANDS)
    for kind in dict.fromkeys((*COMMANDS, *_HANDLERS))
}


class _Shift:
    """What moves where when a fold goes on with another topology from a frame on."""

    def __init__(self, before: Topology, after: Topology, first: int) -> None:
        self.before, self.after, self.first = before, after, first
        self._places = [
            {old: new.index(name) for old, name in enumerate(names) if name in new}
            for names, new in zip(_names(before), _names(after), strict=True)
        ]

    def producer(self, index: int) -> int:
        """Return a producer's index; -1 for one that is not shown any more."""
        return self._places[0].get(index, -1)

    def queue(self, index: int) -> int:
        """Return a queue's index; -1 for one that is not shown any more."""
        return self._places[1].get(index, -1)

    def nth_producer(self, number: int) -> int:
        """Return a producer's number from 1; 0 for none."""
        return self._places[0].get(number - 1, -1) + 1

    def nth_consumer(self, number: int) -> int:
        """Return a consumer's number from 1; 0 for none."""
        return self._places[2].get(number - 1, -1) + 1

    def columns(self) -> dict[int, int]:
        """Return where each column goes that both topologies have, those of the step left out."""
        new = {name: column for column, name in enumerate(channel_names(self.after))}
        old = enumerate(channel_names(self.before))
        return {column: new[name] for column, name in old if name in new and column >= AFTER_STEP}

    def row(self, row: array[int], columns: Mapping[int, int]) -> array[int]:
        """Return a frame in the new columns."""
        moved = array("i", [0]) * len(channel_names(self.after))
        moved[:AFTER_STEP] = row[:AFTER_STEP]
        for old, new in columns.items():
            moved[new] = row[old]
        for at, index in ((PRODUCER, self.producer), (QUEUE, self.queue), (WAITER, self.producer)):
            moved[at] = max(0, index(row[at]))
        moved[CONSUMER] = max(0, self.nth_consumer(row[CONSUMER] + 1) - 1)
        for at in (SENDER, GOT_SENDER, LOST_SENDER):
            moved[at] = self.nth_producer(row[at])
        return moved

    def kept(
        self, data: list[int], names: tuple[str, ...], moves: Mapping[str, Callable[[int], int]]
    ) -> tuple[dict[int, int], list[int]]:
        """Return the rows of a table that still last: where each begins now, and their numbers."""
        width, first = len(names), self.first
        where: dict[int, int] = {}
        rows: list[int] = []
        end = names.index("end")
        # Of a stay it is a frame, of a holding only whether.
        in_frames = (*_FRAMES, "again") if names == STAYS else _FRAMES
        frames = [names.index(name) for name in in_frames if name in names]
        moved = [(names.index(name), move) for name, move in moves.items()]
        must = names.index(next(iter(moves))) if "stay" not in moves else None
        for start in range(0, len(data), width):
            if data[start + end] < first:
                continue
            row = data[start : start + width]
            for at, move in moved:
                row[at] = move(row[at])
            if must is not None and row[must] < 0:
                continue
            for at in frames:
                if row[at] != NEVER:
                    row[at] = max(0, row[at] - first)
            where[start] = len(rows)
            rows += row
        return where, rows


_FRAMES = ("start", "end", "held_start", "held_end")


def _names(topology: Topology) -> tuple[list[str], list[str], list[str]]:
    return (
        [spot.name for spot in topology.producers],
        [spot.name for spot in topology.queues],
        [spot.name for spot in topology.consumers],
    )


def _moved(starts: Mapping[Any, int], where: Mapping[int, int]) -> dict[Any, int]:
    """Return where the rows begin that were kept."""
    return {key: where[start] for key, start in starts.items() if start in where}


def fold(run: Run, topology: Topology | None = None, own_steps: Collection[str] = ()) -> Frames:
    """Return the frames of a run.

    Parameters
    ----------
    run
        What a simulation or a replay gave.
    topology
        The clients and queues to show; None for all of the run's workload.
    own_steps
        As for :class:`Fold`.
    """
    folding = Fold(topology or Topology.of(run.workload, run.end), own_steps=own_steps)
    folding.follow(run.events)
    folding.end()
    return folding.whole(run.end)


def channel_names(topology: Topology) -> tuple[str, ...]:
    """Return the names of a frame's columns, in order.

    Examples
    --------
    >>> from qflow.labs.topology import QueueSpot
    >>> channel_names(Topology((), (QueueSpot("orders"),), (), (), 0))[-7:-4]
    ('queue.orders.depth', 'queue.orders.bytes', 'queue.orders.flow')
    """
    kinds = (
        ("producer", topology.producers, PRODUCER_CHANNELS),
        ("queue", topology.queues, QUEUE_CHANNELS),
        ("consumer", topology.consumers, CONSUMER_CHANNELS),
    )
    names = ["time", *(f"step.{name}" for name in STEP_CHANNELS)]
    for kind, spots, channels in kinds:
        names += [f"{kind}.{spot.name}.{channel}" for spot in spots for channel in channels]
    return tuple(names)


def _places(names: Sequence[str], start: int, width: int) -> dict[str, Place]:
    return {name: (index, start + width * index) for index, name in enumerate(names)}


def _array_of(numbers: list[int]) -> array[int]:
    """Return an array of some numbers: three times as fast as its constructor."""
    return array("i", pack(f"{len(numbers)}i", *numbers))


def _in_order(event: Fields, details: tuple[str, ...]) -> Fields:
    """Return an event with the details that its handler reads, in their order: a file keeps another one."""
    found = unpacked(event[8], event[9]) or {}
    return (*event[:8], details, tuple(found[name] for name in details))
