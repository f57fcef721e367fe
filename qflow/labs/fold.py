"""Fold: reduces the events of a run to frames, the rows of numbers that a picture shows.

A frame is added for each *step* that changed a number: one command with all its effects, or one instant at
which a client acted on its own. A command, or an event at another instant, begins a new step. This module
only counts: the engine applied every rule when it produced the events.

The columns of a frame, its *channels*, are the time, :data:`STEP_CHANNELS`, and then
:data:`PRODUCER_CHANNELS` for each producer, :data:`QUEUE_CHANNELS` for each queue and
:data:`CONSUMER_CHANNELS` for each consumer of the topology. The frame that is being counted is one list,
``now``. A handler finds the first column of a client or queue by its name, and adds the constant of a
channel, such as ``now[at + DEPTH]``. Four tables of spans grow beside the frames:

- :data:`SENDINGS`: a transfer, from being sent until its producer knows that it is complete;
- :data:`STAYS`: a message on a queue;
- :data:`HOLDINGS`: an acquired message at a consumer;
- :data:`LOCKS`: a consumer's ownership of a message group.

A run of a million messages has ten million events. So no object is made for an event: a handler gets the
cells of a table of events (:class:`~qflow.broker.events.EventTable`) and the index of its event's first cell,
and reads only the cells that it needs. The frames are stored by column, too. Like the engine, this module may
be compiled.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from struct import pack
from typing import Any, Final

from qflow.broker.events import COMMANDS, DETAIL, WIDTH, Event, EventTable, Names, Values, unpack
from qflow.labs.frames import NEVER, Death, Frames, Spans
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

# The offset of each channel from the first column of its step, producer, queue or consumer, in the order of
# the names above; a test compares both. An IntEnum, or a class with these numbers, would be nicer. But a
# handler runs for each of ten million events and writes several channels. In a loop that does nothing else,
# the members of an IntEnum took 1.8 times as long as these constants when compiled, 4 times when not; a class
# took 1.4 and 1.1 times as long, as each use is a look-up. Only names that are Final in a module become
# constants of the compiled code. Nor can the numbers be computed from the names: the compiler inlines
# literals only, and looks up the results of calls.

# STEP_CHANNELS; column 0 is the time.
PARTS: Final = 1
PRODUCER: Final = 2
QUEUE: Final = 3
CONSUMER: Final = 4
SENDER: Final = 5
NUMBER: Final = 6
GOT_SENDER: Final = 7
GOT_NUMBER: Final = 8
DELIVERIES: Final = 9
FREED: Final = 10
WAITER: Final = 11
WAITERS: Final = 12
LOST_SENDER: Final = 13
LOST_NUMBER: Final = 14
AFTER_STEP: Final = 15

# PRODUCER_CHANNELS
SENT: Final = 0
OUTSTANDING: Final = 1
P_HELD: Final = 2
BLOCKED: Final = 3
MOOD: Final = 4

# QUEUE_CHANNELS
DEPTH: Final = 0
BYTES: Final = 1
FLOW: Final = 2
Q_HELD: Final = 3
ACQUIRED: Final = 4
DISCARDS: Final = 5
GONE: Final = 6

# CONSUMER_CHANNELS
PRESENT: Final = 0
HOLDS: Final = 1
ACCEPTED: Final = 2

SENDINGS = ("producer", "number", "group", "start", "end", "held_start", "held_end")
STAYS = (
    *("queue", "producer", "number", "group", "start", "end"),
    *("reason", "held_start", "held_end", "again", "size"),
)
HOLDINGS = ("stay", "consumer", "start", "end", "again")
LOCKS = ("queue", "group", "consumer", "start", "end")
REASONS = ("", "accept", "accept-none", "ring", "reject", "lvq", "queue-deleted", "purge", "expired", "other")
"""The reasons for which messages leave their queues; the first, "", is for a message still on its queue."""

_LATEST: Final = 2**31 - 1
"""The latest time that a frame can store, in microseconds."""

Sender = tuple[Any, Any]
"""The producer of a message, counted from 1, or 0 if it is not in the topology, and the message's number."""

Cells = list[Any]
"""The cells of events, as in :attr:`EventTable.cells <qflow.broker.events.EventTable.cells>`."""

_AT_ONCE: Final = 512
_TRANSFER = ("command", "message")
_BLANK = [0] * len(STEP_CHANNELS)
_LIMIT_EXCEEDED: Final = 506
# Bits of the channel `parts` of a step, the same as in :data:`~qflow.labs.words.BITS`.
_SENT: Final = 1 << 1
_ACCEPTED: Final = 1 << 8
_DELIVERED: Final = 1 << 18
_TURNED_OFF: Final = 1 << 15
# Columns of SENDINGS, STAYS, HOLDINGS and LOCKS.
_SENDING_NUMBER: Final = 1
_SENDING_END: Final = 4
_HELD_START: Final = 5
_HELD_END: Final = 6
_STAY_WIDTH: Final = 11
_STAY_PRODUCER: Final = 1
_STAY_NUMBER: Final = 2
_STAY_END: Final = 5
_WHY: Final = 6
_STAY_HELD_START: Final = 7
_STAY_HELD_END: Final = 8
_AGAIN: Final = 9
_HOLDER: Final = 1
_HOLDING_END: Final = 3
_LOCK_END: Final = 4
_UNSETTLED = (".flow", ".blocked", ".holds", ".depth")
_REASON = {reason: number for number, reason in enumerate(REASONS)}
_PART_OF_REASON = {"ring": "evicted", "lvq": "replaced", "queue-deleted": ""}
_GIVES_WAY = ("ring", "lvq")
_DISCARDS = ("ring", "reject", "lvq", "queue-deleted")


class _Producer:
    """A producer: its index, its first column, its capacity, and its transfers that are not complete."""

    def __init__(self, index: int, at: int, capacity: int) -> None:
        self.index, self.at, self.capacity = index, at, capacity
        # The number of queues that hold each command; the completions that were not reported yet.
        self.holds: dict[object, int] = {}
        self.unreported: list[int] = []


class _Consumer:
    """A consumer: its index among the consumers of the topology, and its first column in a frame."""

    def __init__(self, index: int, at: int) -> None:
        self.index, self.at = index, at


class _Queue:
    """A queue: its index, first column and thresholds, and the first number of each of its open spans."""

    def __init__(self, index: int, at: int, stop_count: int, stop_size: int) -> None:
        self.index, self.at, self.stop_count, self.stop_size = index, at, stop_count, stop_size
        # Where its rows start: of stays by position, and by label for the newest message with that label; of
        # holdings by position; of locks by group.
        self.stays: dict[int, int] = {}
        self.newest: dict[str, int] = {}
        self.holdings: dict[int, int] = {}
        self.locks: dict[str, int] = {}


class Fold:
    """The reduction of a run's events to frames; it ignores clients that are not in its topology."""

    # Frames are at least `grain` microseconds apart: all events in between belong to one step.
    # `own_steps` are kinds of events that get a frame although they change no number in it.
    def __init__(self, topology: Topology, grain: int = 0, own_steps: Collection[str] = ()) -> None:
        self.topology = topology
        self.grain = grain
        self._own_steps = frozenset(own_steps)
        self.count = self.seen = 0
        _, queues_at, consumers_at = [at for at, _ in places_of(topology).values()]
        width = len(channel_names(topology))
        self._producers = {
            spot.name: _Producer(index, AFTER_STEP + len(PRODUCER_CHANNELS) * index, spot.capacity)
            for index, spot in enumerate(topology.producers)
        }
        self._queues = {
            spot.name: _Queue(index, queues_at + len(QUEUE_CHANNELS) * index, spot.stop_count, spot.stop_size)
            for index, spot in enumerate(topology.queues)
        }
        self._consumers = [
            _Consumer(index, consumers_at + len(CONSUMER_CHANNELS) * index)
            for index, _ in enumerate(topology.consumers)
        ]
        # The finished frames, as columns, and the newest ones, still row by row; for each frame, the index of
        # its last event.
        self._columns = [array("i") for _ in range(width)]
        self._newest: list[Any] = []
        self._rows, self._newest_rows = array("i"), list[int]()
        # Typed as Any, as most numbers are only copied: compiled code would unbox and box each int again.
        # `_frame` equals `count`, and exists as such an object for the same reason.
        self._now: list[Any] = [0] * width
        self._frame: Any = 0
        self._never: Any = NEVER
        self._is_dirty = True
        self._time = self._due = 0
        # The sender of each message by its label; the numbers of groups, from 1, by name.
        self._known: dict[str, Sender] = {}
        self._groups: dict[str, int] = {}
        self._group_by_message: dict[tuple[int, int], int] = {}
        self._group_key = topology.group_key
        self._routes = dict.fromkeys(topology.routes)
        self._sessions: dict[str, list[_Producer]] = defaultdict(list)
        for spot in topology.producers:
            self._sessions[spot.session].append(self._producers[spot.name])
        self._senders = Senders(topology.producers)
        self._alone = {session: places[0] for session, places in self._sessions.items() if len(places) == 1}
        self._by_link = {
            spot.link: place for spot, place in zip(topology.consumers, self._consumers, strict=True)
        }
        self._readers: dict[str, list[_Consumer]] = defaultdict(list)
        for link, place in self._by_link.items():
            self._readers[link.partition("::")[0]].append(place)
        # The consumers by session and tag, filled as they are looked up.
        self._by_tag: dict[str, dict[str, _Consumer | None]] = defaultdict(dict)
        # The tables of spans, row by row in flat lists. `_sent` has the start of a transfer's row, by session
        # and command.
        self._sendings: list[Any] = []
        self._stays: list[Any] = []
        self._holdings: list[Any] = []
        self._locks: list[Any] = []
        self._sent: dict[str, dict[object, int]] = {session: {} for session in self._sessions}
        self._deaths: list[Death] = []
        # The transfers without an outcome, by session of AMQP 1.0 and by link name.
        self._links: dict[str, dict[str, dict[object, None]]] = {}
        self._finish(0, 0)

    def follow(self, events: Sequence[Event]) -> None:
        """Count those events of a run that were not counted yet, in their order."""
        if isinstance(events, EventTable):
            self.add(events.cells, self.seen)
        else:
            self.add(EventTable(events[self.seen :]).cells)

    def end(self) -> None:
        """Finish the last step; call it when no more events follow."""
        if self._is_dirty:
            self._finish(self._time, self.seen - 1)

    def so_far(self, end: int) -> Frames:
        """Return the frames of all finished steps; their time axis ends at `end`, as the run may continue."""
        topology = replace(self.topology, routes=tuple(sorted(self._routes)), end=end)
        tables = (
            ("sendings", SENDINGS, self._sendings),
            ("stays", STAYS, self._stays),
            ("holdings", HOLDINGS, self._holdings),
            ("locks", LOCKS, self._locks),
        )
        lasting = {
            name: Spans(names, [_array_of(data[column :: len(names)]) for column in range(len(names))])
            for name, names, data in tables
        }
        self._append_frames()
        return Frames(
            topology,
            channel_names(topology),
            tuple(column[:] for column in self._columns),
            self.count,
            lasting,
            tuple(self._groups),
            self._rows[:],
            tuple(self._deaths),
        )

    def whole(self, end: int) -> Frames:
        """Return the frames of a complete run, without the idle time at its end."""
        frames = self.so_far(end)
        last = frames.at(-1)
        if any(value for name, value in last.items() if name.endswith(_UNSETTLED)):
            return frames
        # No queue has messages and no client waits: the rest of the run would show nothing.
        return replace(frames, topology=replace(frames.topology, end=last["time"]))

    def renew(self, topology: Topology, first: int) -> Fold:
        """Return a fold that continues this one with another topology, without the frames before `first`."""
        new = Fold(topology, self.grain, self._own_steps)
        shift = _Shift(self.topology, topology, first)
        self._append_frames()
        new._newest, new._now = [], shift.row(self._now)
        if _names(topology) == _names(self.topology):
            # The clients and queues are the same, so the columns need not be rebuilt, only shortened.
            new._columns = [column[first:] for column in self._columns]
        else:
            for frame in range(first, self.count):
                new._newest += shift.row([column[frame] for column in self._columns])
        new._rows, new._newest_rows = self._rows[first:], []
        new.count, new.seen = self.count - first, self.seen
        new._frame = new.count
        new._time, new._due, new._is_dirty = self._time, self._due, self._is_dirty
        new._groups, new._links = self._groups, self._links
        routes = [(shift.producer(producer), shift.queue(queue)) for producer, queue in self._routes]
        new._routes |= {route: None for route in routes if min(route) >= 0}
        deaths = (
            Death(death.frame - first, shift.producer(death.producer), death.text) for death in self._deaths
        )
        new._deaths = [death for death in deaths if death.frame >= 0 and death.producer >= 0]
        self._pass_open_spans(new, shift)
        return new

    def _pass_open_spans(self, new: Fold, shift: _Shift) -> None:
        """Copy the open spans, and the starts of their rows, into the fold that continues this one."""
        producer, queue, sender, reader = shift.producer, shift.queue, shift.sender, shift.reader
        sendings, new._sendings = shift.keep(self._sendings, SENDINGS, {"producer": producer})
        for session in self._sent.keys() & new._sent.keys():
            new._sent[session] = _move(self._sent[session], sendings)
        stays, new._stays = shift.keep(self._stays, STAYS, {"queue": queue, "producer": sender})
        width = len(STAYS)

        def stay(row: int) -> int:
            return stays.get(row * width, -width) // width

        holdings, new._holdings = shift.keep(self._holdings, HOLDINGS, {"stay": stay, "consumer": reader})
        locks, new._locks = shift.keep(self._locks, LOCKS, {"queue": queue, "consumer": reader})
        for name in self._queues.keys() & new._queues.keys():
            was, now = self._queues[name], new._queues[name]
            now.stays, now.newest = _move(was.stays, stays), _move(was.newest, stays)
            now.holdings, now.locks = _move(was.holdings, holdings), _move(was.locks, locks)
        for name in self._producers.keys() & new._producers.keys():
            new._producers[name].holds = self._producers[name].holds
            unreported = self._producers[name].unreported
            new._producers[name].unreported = [sendings[one] for one in unreported if one in sendings]

    # Steps

    def add(self, cells: Cells, start: int = 0) -> None:
        """Count the events of a table from the index `start` on; they follow the events counted before."""
        first, width, detail, kinds = start * WIDTH, WIDTH, DETAIL, _KINDS
        place, time = self.seen - 1, self._time
        moments: list[int] = cells[first::width]
        for index, name in enumerate(cells[first + 1 :: width]):
            kind = kinds.get(name)
            moment = moments[index]
            if moment != time or (kind is not None and kind.begins):
                if self._is_dirty and moment >= self._due:
                    self._finish(time, place)
                time = moment
            place += 1
            if kind is not None and kind.handler is not None:
                at = first + index * width
                values = cells[at + detail + 1]
                if kind.details and cells[at + detail] is not kind.seen:
                    values = kind.in_order(cells[at + detail], values)
                kind.handler(self, cells, at, values)
            elif name in self._own_steps:
                self._is_dirty = True
        self._time, self.seen = time, place + 1

    def _finish(self, time: int, row: int) -> None:
        """Finish the current frame, given its time and the index of its last event, and begin the next."""
        if time > _LATEST:
            raise ValueError(f"the time of an event must be at most 2147 s; got {time / 1e6:g} s")
        now = self._now
        now[0] = time
        self._newest += now
        self._newest_rows.append(row)
        self.count += 1
        self._frame = self.count
        # Appending to the columns takes a call for each column, so it is done for hundreds of frames at once.
        if len(self._newest_rows) == _AT_ONCE:
            self._append_frames()
        now[1:AFTER_STEP] = _BLANK
        self._is_dirty = False
        # Rounded to a grid of times, so that the frames of a busy run are evenly spaced.
        self._due = time - time % self.grain + self.grain if self.grain else 0

    def _append_frames(self) -> None:
        """Move the newest frames from rows into the columns."""
        newest, width = self._newest, len(self._now)
        for index, column in enumerate(self._columns):
            column.extend(_array_of(newest[index::width]))
        self._rows.extend(_array_of(self._newest_rows))
        newest.clear()
        self._newest_rows.clear()

    def _note(self, part: str) -> None:
        """Add a part, a key of :data:`qflow.labs.words.STEP`, to the caption of the current step."""
        self._now[PARTS] |= BITS[part]
        self._is_dirty = True

    def _note_many(self, part: str, number: int) -> None:
        """Add a part to the caption of the current step, in the plural form if `number` is above 1."""
        # The first of several events has added the singular form, which the plural replaces.
        if number > 1:
            self._now[PARTS] &= ~BITS[part]
            part = f"{part}_many"
        self._note(part)

    def _message(self, label: str) -> Sender:
        """Return the producer and the number of a message, given its label."""
        found = self._known.get(label)
        if found is None:
            # The clients of a workload make labels such as p1-12 for the 12th message of p1. The name of a
            # producer may contain hyphens.
            sender, _, number = label.rpartition("-")
            is_known = sender in self._producers and number.isdigit()
            found = (self._producers[sender].index + 1, int(number)) if is_known else (0, 0)
            self._known[label] = found
        return found

    def _group_number(self, group: str) -> int:
        return self._groups.setdefault(group, len(self._groups) + 1) if group else 0

    def _producer(self, session: str, label: str) -> _Producer | None:
        """Return the producer that sent a message in a session, or None if it is not in the topology."""
        return self._producers.get(self._senders.of(session, label))

    # Producers

    def _transfer(self, cells: Cells, at: int, values: Values) -> None:
        session, label = cells[at + 3], cells[at + 5]
        producer = self._alone.get(session) or self._producer(session, label)
        if producer is None:
            return
        names = cells[at + DETAIL]
        if names[0] != "command" or names[1] != "message":
            values = _in_order(names, values, _TRANSFER)
        command, message = values[0], values[1]
        if session in self._links:
            tag = cells[at + DETAIL + 1][names.index("tag")]
            self._links[session].setdefault(tag, {})[command] = None
        first, now = producer.at, self._now
        now[PRODUCER] = producer.index
        now[first + SENT] += 1
        outstanding = now[first + OUTSTANDING] + 1
        now[first + OUTSTANDING] = outstanding
        if outstanding >= producer.capacity:
            now[first + MOOD] = FULL
        elif now[first + MOOD] in (DEAD, FULL):
            # It sends on a new session, or its capacity has turned out to be larger than assumed before.
            now[first + MOOD] = FREE
        found = self._known.get(label) or self._message(label)
        now[SENDER] = found[0]
        now[NUMBER] = found[1]
        now[PARTS] |= _SENT
        self._is_dirty = True
        headers = message.headers
        name = headers.get(self._group_key) if headers else None
        group = self._group_number(str(name)) if name else 0
        sendings = self._sendings
        self._sent[session][command] = len(sendings)
        never = self._never
        sendings += (producer.index, found[1], group, self._frame, never, never, never)
        if group:
            self._group_by_message[found] = group

    def _completed(self, cells: Cells, at: int, values: Values) -> None:
        label = cells[at + 5]
        # An event without a message is the completion of another command than a transfer.
        if not label:
            return
        session, command = cells[at + 3], values[0]
        if session in self._sent:
            producer = self._alone.get(session) or self._producer(session, label)
            start = self._sent[session].pop(command, None)
            if producer is not None and start is not None:
                producer.unreported.append(start)
                if session in self._links:
                    # In AMQP 1.0 each outcome is sent by itself, and at once.
                    for waiting in self._links[session].values():
                        waiting.pop(command, None)
                    self._reported(cells, at, values)

    def _reported(self, cells: Cells, at: int, values: Values) -> None:
        for producer in self._sessions.get(cells[at + 3], ()):
            complete = producer.unreported
            if complete:
                now, sendings, first = self._now, self._sendings, producer.at
                for start in complete:
                    sendings[start + _SENDING_END] = self._frame
                now[first + OUTSTANDING] -= len(complete)
                if now[first + MOOD] == FULL:
                    now[first + MOOD] = FREE
                self._is_dirty = True
                complete.clear()

    # Links of AMQP 1.0

    def _attached(self, cells: Cells, at: int, values: Values) -> None:
        names = cells[at + DETAIL]
        if names and "container" in names:
            self._links[cells[at + 3]] = {}

    def _released(self, cells: Cells, at: int, values: Values) -> None:
        """Count a transfer that the broker released: its client may send it again on its link (LNK-05)."""
        (command,) = values
        if command in self._sent.get(cells[at + 3], ()):
            self._completed(cells, at, values)
            now = self._now
            now[SENDER], now[NUMBER] = self._message(cells[at + 5])
            now[QUEUE] = self._first_queue(now[PRODUCER])
            self._note("released")

    def _first_queue(self, producer: int) -> int:
        """Return the index of the first queue that a producer, given by its index, has sent to."""
        return next((queue for one, queue in self._routes if one == producer), 0)

    def _link_ended(self, cells: Cells, at: int, values: Values) -> None:
        """End the transfers that will not get an outcome; their messages stay on their queues (LNK-07)."""
        session, link = cells[at + 3], cells[at + 4]
        links = self._links.get(session, {})
        # The end of a session ends all its links; the end of a link affects only its own transfers.
        for tag in [link] if link else list(links):
            for command in links.pop(tag, ()):
                start = self._sent.get(session, {}).pop(command, None)
                if start is not None:
                    producer, now = self._sessions[session][0], self._now
                    self._sendings[start + _SENDING_END] = self.count
                    now[producer.at + OUTSTANDING] -= 1
                    if producer.holds.pop(command, None):
                        self._forget_held(producer, self._sendings[start + _SENDING_NUMBER])
                    now[producer.at + P_HELD] = len(producer.holds)
                    now[producer.at + MOOD] = FREE
                    self._is_dirty = True
        self._left(cells, at, values)

    def _blocked(self, cells: Cells, at: int, values: Values) -> None:
        if first := self._waiter(cells[at + 3], 1):
            if self._now[first + MOOD] != TOLD:
                self._now[first + MOOD] = WAITING
            self._note("blocked")

    def _unblocked(self, cells: Cells, at: int, values: Values) -> None:
        if first := self._waiter(cells[at + 3], 0):
            self._now[first + MOOD] = FREE
            self._now[WAITERS] += 1
            self._note_many("unblocked", self._now[WAITERS])

    def _waiter(self, name: str, blocked: int) -> int:
        """Record whether a producer waits; return its first column, or 0 if its session is dead."""
        producer = self._producers.get(name)
        if producer is None:
            return 0
        now = self._now
        now[producer.at + BLOCKED] = blocked
        self._is_dirty = True
        # A recorded client keeps waiting until it learns that its session is dead.
        if now[producer.at + MOOD] == DEAD:
            return 0
        now[WAITER] = producer.index
        return producer.at

    def _channel_flow(self, cells: Cells, at: int, values: Values) -> None:
        (is_active,) = values
        for producer in self._sessions.get(cells[at + 3], ()):
            self._now[producer.at + MOOD] = FREE if is_active else TOLD
            self._now[WAITER] = producer.index
            self._note("channel_resumed" if is_active else "channel_stopped")

    def _exception(self, cells: Cells, at: int, values: Values) -> None:
        session, (code, name, text) = cells[at + 3], values
        now = self._now
        for producer in self._sessions.get(session, ()):
            self._deaths.append(Death(self.count, producer.index, f"{name}: {text}"))
            now[producer.at + MOOD] = DEAD
            for channel in (OUTSTANDING, P_HELD, BLOCKED):
                now[producer.at + channel] = 0
            producer.holds, producer.unreported = {}, []
            self._forget_held(producer)
            now[QUEUE] = self._first_queue(producer.index)
            self._note("refused" if code == _LIMIT_EXCEEDED else "died")
        unfinished = self._sent.get(session, {})
        for start in unfinished.values():
            self._sendings[start + _SENDING_END] = self.count
        unfinished.clear()
        self._left(cells, at, values)

    # Queues

    def _enqueued(self, cells: Cells, at: int, values: Values) -> None:
        label, group = cells[at + 5], cells[at + 7]
        position = values[0]
        queue = self._count_depth(cells[at + 2], values[1], values[2])
        self._is_dirty = True
        found = self._known.get(label) or self._message(label)
        session = cells[at + 3]
        producer = self._alone.get(session) or self._producer(session, label)
        if producer is not None:
            self._routes[producer.index, queue.index] = None
        colour = self._group_number(group) if group else self._group_by_message.get(found, 0)
        stays = self._stays
        start = len(stays)
        queue.stays[position] = start
        queue.newest[label] = start
        frame, never, size = self._frame, self._never, cells[at + 6]
        stays += (queue.index, found[0], found[1], colour, frame, never, 0, never, never, never, size)

    def _dequeued(self, cells: Cells, at: int, values: Values) -> None:
        position, reason = values[0], values[1]
        queue = self._count_depth(cells[at + 2], values[2], values[3])
        now = self._now
        label = cells[at + 5]
        found = self._known.get(label) or self._message(label)
        if reason in _GIVES_WAY:
            # Another message is sent in the same step: `sender` and `number` belong to that one.
            now[LOST_SENDER] = found[0]
            now[LOST_NUMBER] = found[1]
        else:
            now[SENDER] = found[0]
            now[NUMBER] = found[1]
        consumer = self._end_holding(queue, position)
        start = queue.stays.pop(position, None)
        if start is not None:
            self._stays[start + _STAY_END] = self._frame
            self._stays[start + _WHY] = _REASON.get(reason, _REASON["other"])
        if consumer is not None and reason == "accept":
            now[consumer.at + ACCEPTED] += 1
            now[PARTS] |= _ACCEPTED
            self._is_dirty = True
            return
        if reason in _DISCARDS:
            now[queue.at + DISCARDS] += 1
        is_rejected = consumer is not None and reason == "reject"
        part = "rejected" if is_rejected else _PART_OF_REASON.get(reason, "removed")
        if part:
            self._note(part)

    def _count_depth(self, name: str, depth: Any, volume: Any) -> _Queue:
        """Record the depth and the bytes of a queue; return the queue."""
        queue = self._queues[name]
        now = self._now
        now[QUEUE] = queue.index
        now[queue.at + DEPTH] = depth
        now[queue.at + BYTES] = volume
        return queue

    def _dropped(self, cells: Cells, at: int, values: Values) -> None:
        queue = self._queues[cells[at + 2]]
        self._now[QUEUE] = queue.index
        self._now[queue.at + DISCARDS] += 1
        self._note("dropped")

    def _deleted(self, cells: Cells, at: int, values: Values) -> None:
        queue = self._queues.get(cells[at + 2])
        if queue is not None:
            self._now[QUEUE] = queue.index
            self._now[queue.at + GONE] = 1
            self._note("destroyed" if values == ("self-destruct",) else "removed")

    # Flow control

    def _held(self, cells: Cells, at: int, values: Values) -> None:
        self._note("held")
        producer, command = self._count_held(cells, at, 1, _STAY_HELD_START), values[0]
        if producer is not None:
            holds = producer.holds
            if command not in holds:
                self._mark(cells[at + 3], command, _HELD_START)
            holds[command] = holds.get(command, 0) + 1
            self._now[producer.at + P_HELD] = len(holds)

    def _release_hold(self, cells: Cells, at: int, values: Values) -> None:
        now = self._now
        start = self._queues[cells[at + 2]].newest.get(cells[at + 5])
        # The engine also releases the completions of a session that died. No client receives these (CM-09),
        # so the picture does not count them, neither at the queue nor at a producer.
        if start is not None and self._stays[start + _STAY_HELD_END] != NEVER:
            return
        now[FREED] += 1
        self._note("freed" if now[PARTS] & _TURNED_OFF else "freed_own")
        producer, command = self._count_held(cells, at, -1, _STAY_HELD_END), values[0]
        if producer is not None and command in producer.holds:
            holds = producer.holds
            holds[command] -= 1
            if not holds[command]:
                del holds[command]
                self._mark(cells[at + 3], command, _HELD_END)
            now[producer.at + P_HELD] = len(holds)

    def _count_held(self, cells: Cells, at: int, by: int, column: int) -> _Producer | None:
        """Count a completion that a queue holds (`by` is 1) or releases (-1); return its producer."""
        queue, label = self._queues[cells[at + 2]], cells[at + 5]
        self._now[queue.at + Q_HELD] += by
        start = queue.newest.get(label)
        if start is not None:
            self._stays[start + column] = self._frame
        return self._producer(cells[at + 3], label)

    def _forget_held(self, producer: _Producer, number: int | None = None) -> None:
        """Stop counting a producer's held completions, or that of one message: no client waits for them."""
        for queue in self._queues.values():
            for start in queue.stays.values():
                row = self._stays[start : start + _STAY_WIDTH]
                # The broker still holds these completions, but no client will receive them. If the picture
                # counted them, it would show held completions for a producer that waits for none.
                is_held = row[_STAY_HELD_START] != NEVER and row[_STAY_HELD_END] == NEVER
                if (
                    is_held
                    and row[_STAY_PRODUCER] == producer.index + 1
                    and number in (None, row[_STAY_NUMBER])
                ):
                    self._stays[start + _STAY_HELD_END] = self._frame
                    self._now[queue.at + Q_HELD] -= 1

    def _mark(self, session: str, command: object, column: int) -> None:
        start = self._sent[session].get(command)
        if start is not None:
            self._sendings[start + column] = self._frame

    def _flow_stopped(self, cells: Cells, at: int, values: Values) -> None:
        queue, now = self._queues[cells[at + 2]], self._now
        now[queue.at + FLOW] = 1
        now[QUEUE] = queue.index
        if queue.stop_count and now[queue.at + DEPTH] > queue.stop_count:
            self._note("turned_on")
        else:
            # The watermark proposal turns ON at its threshold, the shipped design above it (ALT-08).
            by_size = queue.stop_size and now[queue.at + BYTES] > queue.stop_size
            self._note("turned_on_bytes" if by_size else "turned_on_at")

    def _flow_resumed(self, cells: Cells, at: int, values: Values) -> None:
        queue = self._queues[cells[at + 2]]
        self._now[queue.at + FLOW] = 0
        self._now[QUEUE] = queue.index
        self._note("turned_off")

    # Acquired messages and owned groups

    def _acquired(self, cells: Cells, at: int, values: Values) -> None:
        queue, position = self._queues[cells[at + 2]], values[0]
        consumer = self._by_link.get(cells[at + 4])
        start = queue.stays.get(position, -1)
        frame, holdings, now = self._frame, self._holdings, self._now
        # Whether the message was requeued before, so that this consumer may not be the first to acquire it.
        again = 1 if start >= 0 and self._stays[start + _AGAIN] <= frame else 0
        queue.holdings[position] = len(holdings)
        number = 0 if consumer is None else consumer.index + 1
        holdings += (start // _STAY_WIDTH, number, frame, self._never, again)
        now[queue.at + ACQUIRED] += 1
        if consumer is not None:
            now[consumer.at + HOLDS] += 1
        self._is_dirty = True

    def _requeued(self, cells: Cells, at: int, values: Values) -> None:
        queue, position = self._queues[cells[at + 2]], values[0]
        now = self._now
        now[QUEUE] = queue.index
        now[SENDER], now[NUMBER] = self._message(cells[at + 5])
        self._end_holding(queue, position)
        start = queue.stays.get(position)
        if start is not None and self._stays[start + _AGAIN] == NEVER:
            self._stays[start + _AGAIN] = self.count
        self._note("given_back")

    def _end_holding(self, queue: _Queue, position: int) -> _Consumer | None:
        """End the holding of a message; return the consumer that held it, or None if it is not shown."""
        start = queue.holdings.pop(position, None)
        if start is None:
            return None
        self._holdings[start + _HOLDING_END] = self._frame
        self._now[queue.at + ACQUIRED] -= 1
        number = self._holdings[start + _HOLDER]
        if not number:
            return None
        consumer = self._consumers[number - 1]
        self._now[consumer.at + HOLDS] -= 1
        return consumer

    def _group_owned(self, cells: Cells, at: int, values: Values) -> None:
        queue, group = self._queues.get(cells[at + 2]), cells[at + 7]
        if queue is not None:
            owner = self._by_link.get(cells[at + 4])
            queue.locks[group] = len(self._locks)
            index = -1 if owner is None else owner.index
            self._locks += (queue.index, self._group_number(group), index + 1, self.count, NEVER)
            self._is_dirty = True

    def _group_freed(self, cells: Cells, at: int, values: Values) -> None:
        queue = self._queues.get(cells[at + 2])
        start = queue.locks.pop(cells[at + 7], None) if queue is not None else None
        if start is not None:
            self._locks[start + _LOCK_END] = self.count
            self._is_dirty = True

    # Consumers

    def _reader(self, session: str, tag: str) -> _Consumer | None:
        """Return the consumer with a subscription, or None if it is not in the topology."""
        tags = self._by_tag[session]
        if tag not in tags:
            tags[tag] = self._by_link.get(f"{session}::{tag}")
        return tags[tag]

    def _subscribed(self, cells: Cells, at: int, values: Values) -> None:
        consumer = self._reader(cells[at + 3], cells[at + 4])
        if consumer is not None:
            self._now[consumer.at + PRESENT] = 1
            self._now[CONSUMER] = consumer.index
            self._now[QUEUE] = self._queues[cells[at + 2]].index
            self._note("subscribed")

    def _link_subscribed(self, cells: Cells, at: int, values: Values) -> None:
        if cells[at + 3] in self._links:
            self._subscribed(cells, at, values)

    def _settled(self, cells: Cells, at: int, values: Values) -> None:
        places = self._readers.get(cells[at + 3])
        if places:
            self._now[CONSUMER] = places[0].index

    def _delivered(self, cells: Cells, at: int, values: Values) -> None:
        consumer = self._reader(cells[at + 3], cells[at + 4])
        if consumer is None:
            return
        now = self._now
        now[CONSUMER] = consumer.index
        deliveries = now[DELIVERIES] + 1
        now[DELIVERIES] = deliveries
        if deliveries == 1:
            now[PARTS] |= _DELIVERED
            self._is_dirty = True
        else:
            self._note_many("delivered", deliveries)
        label = cells[at + 5]
        found = self._known.get(label) or self._message(label)
        now[GOT_SENDER] = found[0]
        now[GOT_NUMBER] = found[1]

    def _left(self, cells: Cells, at: int, values: Values) -> None:
        session, link = cells[at + 3], cells[at + 4]
        gone = [self._reader(session, link)] if link else self._readers.get(session, ())
        for consumer in gone:
            if consumer is not None:
                self._now[consumer.at + PRESENT] = 0
                self._is_dirty = True


class _Kind:
    """A kind of event: its handler, the details that the handler reads, and whether it begins a step."""

    def __init__(self, handler: _Handler | None, details: tuple[str, ...], begins: bool) -> None:
        self.handler, self.details, self.begins = handler, details, begins
        # A tuple of names equal to `details`, from the last event: most events share the same tuple.
        self.seen: Names = details

    def in_order(self, names: Names, values: Values) -> Values:
        """Return the values of the details that the handler reads, in the handler's order."""
        # All events of the engine share one tuple of names, so that an identity check is enough; the events
        # of a file do not.
        if names != self.details:
            return _in_order(names, values, self.details)
        # The names are equal but in another tuple, which the next event probably has, too.
        self.seen = names
        return values


_Handler = Callable[[Fold, Cells, int, Values], None]

_HANDLERS: dict[str, tuple[_Handler, tuple[str, ...]]] = {
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
    "let_go": (Fold._release_hold, ("command",)),
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
"""The handler of each kind of event that changes a frame, and the details that it reads, in its order."""

_KINDS = {kind: _Kind(None, (), True) for kind in COMMANDS} | {
    kind: _Kind(handler, details, kind in COMMANDS) for kind, (handler, details) in _HANDLERS.items()
}


class _Shift:
    """A translation of indices from one topology to that of the continuing fold, which starts at a frame."""

    def __init__(self, before: Topology, after: Topology, first: int) -> None:
        self.first = first
        self._producers, self._queues, self._consumers = [
            {old: new.index(name) for old, name in enumerate(names) if name in new}
            for names, new in zip(_names(before), _names(after), strict=True)
        ]
        was = {name: column for column, name in enumerate(channel_names(before))}
        # For each column after those of the step, its old index, or -1 if the column is new.
        self._columns = [was.get(name, -1) for name in channel_names(after)[AFTER_STEP:]]

    def producer(self, index: int) -> int:
        """Return the new index of a producer, or -1 if it is no longer shown."""
        return self._producers.get(index, -1)

    def queue(self, index: int) -> int:
        """Return the new index of a queue, or -1 if it is no longer shown."""
        return self._queues.get(index, -1)

    def sender(self, number: int) -> int:
        """Return the new number of a producer, counted from 1, or 0 if it is no longer shown."""
        return self.producer(number - 1) + 1

    def reader(self, number: int) -> int:
        """Return the new number of a consumer, counted from 1, or 0 if it is no longer shown."""
        return self._consumers.get(number - 1, -1) + 1

    def row(self, row: list[int]) -> list[int]:
        """Return a frame with the columns and indices of the new topology."""
        moved = row[:AFTER_STEP] + [row[column] if column >= 0 else 0 for column in self._columns]
        for at, index in ((PRODUCER, self.producer), (QUEUE, self.queue), (WAITER, self.producer)):
            moved[at] = max(0, index(row[at]))
        moved[CONSUMER] = max(0, self.reader(row[CONSUMER] + 1) - 1)
        for at in (SENDER, GOT_SENDER, LOST_SENDER):
            moved[at] = self.sender(row[at])
        return moved

    def keep(
        self, data: list[int], names: tuple[str, ...], moves: Mapping[str, Callable[[int], int]]
    ) -> tuple[dict[int, int], list[int]]:
        """Return the rows of a table that last beyond the first frame, after a map of old to new starts."""
        width, first, end = len(names), self.first, names.index("end")
        where: dict[int, int] = {}
        rows: list[int] = []
        # The column `again` is a frame in STAYS, but 0 or 1 in HOLDINGS.
        in_frames = (*_FRAMES, "again") if names == STAYS else _FRAMES
        frames = [names.index(name) for name in in_frames if name in names]
        moved = [(names.index(name), move) for name, move in moves.items()]
        for start in range(0, len(data), width):
            row = data[start : start + width]
            if row[end] < first:
                continue
            for at, move in moved:
                row[at] = move(row[at])
            # Drop the row if its producer or queue is no longer shown. A holding without its stay is kept.
            if "stay" not in moves and row[moved[0][0]] < 0:
                continue
            for at in frames:
                if row[at] != NEVER:
                    row[at] = max(0, row[at] - first)
            # Handlers keep the start of a row and not the row, so the starts are translated as well.
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


def _move(starts: Mapping[Any, int], where: Mapping[int, int]) -> dict[Any, int]:
    """Return the new starts of rows by the same keys, without the rows that were dropped."""
    return {key: where[start] for key, start in starts.items() if start in where}


def fold(run: Run, topology: Topology | None = None, own_steps: Collection[str] = ()) -> Frames:
    """Return the frames of a complete run, for the clients and queues of its workload or of a topology."""
    folding = Fold(topology or Topology.of(run.workload, run.end), own_steps=own_steps)
    folding.follow(run.events)
    folding.end()
    return folding.whole(run.end)


_CHANNELS = {"producer": PRODUCER_CHANNELS, "queue": QUEUE_CHANNELS, "consumer": CONSUMER_CHANNELS}


def places_of(topology: Topology) -> dict[str, tuple[int, tuple[str, ...]]]:
    """Return the first column of the producers, queues and consumers in a frame, and the channels of each."""
    places, at = {}, AFTER_STEP
    for (kind, channels), names in zip(_CHANNELS.items(), _names(topology), strict=True):
        places[kind] = at, channels
        at += len(channels) * len(names)
    return places


def channel_names(topology: Topology) -> tuple[str, ...]:
    """Return the names of a frame's columns, in order."""
    # The order is that of the constants PARTS, SENT, DEPTH and so on; a new channel has to be added to both.
    found = ["time", *(f"step.{name}" for name in STEP_CHANNELS)]
    for (kind, channels), names in zip(_CHANNELS.items(), _names(topology), strict=True):
        found += [f"{kind}.{name}.{channel}" for name in names for channel in channels]
    return tuple(found)


def _array_of(numbers: list[int]) -> array[int]:
    """Return an array of numbers, faster than the constructor of array does."""
    # Many columns are constant. For others, array's constructor would convert one number after the other.
    made, count = array("i"), len(numbers)
    if count and numbers[0] == numbers[-1] and numbers.count(numbers[0]) == count:
        made.append(numbers[0])
        return made * count
    made.frombytes(pack(f"{count}i", *numbers))
    return made


def _in_order(names: Names, values: Values, wanted: tuple[str, ...]) -> Values:
    """Return the values of the details that a handler reads, sorted as it reads them."""
    found = unpack(names, values) or {}
    return tuple(found[name] for name in wanted)
