"""Timelines: move through a trace in both directions, and show the broker's state at any of its rows.

A trace's commands, performed by a fresh engine, cause the trace's own rows again.  So the state at a row is
the state of an engine that has performed all commands up to that row.  No command can be undone: moving
backwards means restoring an earlier state and replaying the commands from there.

- :class:`Timeline` has a cursor on one row of a trace, and the broker in the state of that row.  After a
  move it replays commands on the broker that it has, or restores the nearest earlier checkpoint first,
  whichever is estimated to be quicker.
- :class:`Checkpoint` is the state of a broker between two commands.  Unlike a snapshot
  (:meth:`qflow.broker.Broker.snapshot`), which is JSON for files and other machines, it exists only as long
  as its timeline and may be restored hundreds of times.  Therefore restoring does not create objects: a deep
  queue's thousands of messages are the same objects at the next instant, and a checkpoint holds only the
  values of their fields, pickled column by column.  Checkpoints and snapshots keep the same fields; the tests
  compare their state hashes.
- :class:`RowIndex` finds rows by kind and by queue, session, link or message, such as the last row in which
  a queue was stopped.
"""

from __future__ import annotations

import gc
import io
import pickle
from array import array
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from itertools import repeat
from typing import Any, TypeVar

from qflow.broker.broker import Broker
from qflow.broker.consuming import DeliveryRecord
from qflow.broker.events import Event
from qflow.broker.message import QueuedMessage, Transfer
from qflow.broker.restorable import Frozen, Restorable
from qflow.broker.selector import Selector
from qflow.progress import Progress
from qflow.trace.replaying import Replay, Step, fork, give, step_at
from qflow.trace.schema import Row, Trace, TraceError
from qflow.workload.stage import pause_collector

_Key = TypeVar("_Key")

_SPACING = 250
"""The smallest number of rows between two checkpoints; replaying their commands takes about a millisecond."""

_PARTS_A_ROW = 20
"""A checkpoint's number of objects, divided by this, is a lower bound of the rows before the next checkpoint.

The deeper the queues, the longer it takes to restore a checkpoint, and the more rows may be replayed after
that; so the checkpoints of a long trace with deep queues do not fill the memory."""

_PARTS_A_COMMAND = 25
"""The number of objects that are restored in the time in which one command is replayed."""

_LONG = 10_000
"""Rows of a trace from which on the garbage is collected after the first replay."""


class Timeline:
    """A trace with a cursor on one of its rows.

    The engine runs each command to quiescence, so there is no state in the middle of one: :attr:`broker` is
    in the state after the whole command that the cursor's row belongs to.

    Parameters:
        trace: A trace from its broker's start; its end may be cut off.
        spacing: The smallest number of rows between two checkpoints.
        progress: A function that is called now and then with the number of rows replayed.

    Raises:
        TraceError: If the trace has no rows, or if replaying it gives other rows; the text names the first
            row that differs.

    >>> from qflow.broker import Message
    >>> from qflow.trace import record
    >>> broker = Broker()
    >>> trace = record(broker)
    >>> session = broker.session("p")
    >>> session.queue_declare("q", {"qpid.flow_stop_count": 2})
    >>> for n in range(5):
    ...     broker.advance(n * 1000)
    ...     transfer = session.message_transfer(Message(10, routing_key="q"))
    >>> timeline = Timeline(trace)
    >>> timeline.seek_time(2000).time, timeline.broker.queue("q").message_depth
    (2000, 3)
    >>> timeline.seek_time(1999).time, timeline.broker.queue("q").message_depth
    (1000, 2)
    """

    def __init__(self, trace: Trace, *, spacing: int = _SPACING, progress: Progress | None = None) -> None:
        if spacing < 1:
            raise TraceError(f"spacing must be a number of rows from 1, got {spacing}")
        if not len(trace):
            raise TraceError("a trace without rows has no instant to go to")
        self.trace = trace
        self.cursor = 0
        # Rows, not decoded commands: a hundred thousand small objects would make each pass of the
        # garbage collector longer than a seek.
        self._steps = array("q")
        self._checkpoints: list[Checkpoint] = []
        self._checkpoint_at = array("q")
        self._prepare(spacing, progress)
        if len(trace) > _LONG:
            # The replay leaves much garbage, which would be collected during the reader's first seek.
            gc.collect()
        self.index = RowIndex(trace)
        """The index of the trace's rows by queue, session, link and message."""
        self._live: Broker | None = None
        self._given = -1

    def _prepare(self, spacing: int, progress: Progress | None) -> None:
        replay, parts = Replay(self.trace), Parts()
        due = 0

        def before(step: Step) -> None:
            nonlocal due
            if step.row >= due:
                checkpoint = Checkpoint(replay.broker, parts)
                self._checkpoints.append(checkpoint)
                self._checkpoint_at.append(len(self._steps))
                due = step.row + max(spacing, checkpoint.count // _PARTS_A_ROW)
            self._steps.append(step.row)

        # The whole trace is replayed once, even if the reader wants a single instant: without that it would
        # be unknown whether the engine does what the trace says, and every state shown would be a guess.
        replay.run(before, progress)
        difference = replay.difference()
        if difference is not None:
            raise TraceError(
                "the engine does not do what this trace says, so its states cannot be shown: "
                + difference.text()
            )
        if not self._checkpoints:
            self._checkpoints.append(Checkpoint(replay.broker, parts))
            self._checkpoint_at.append(0)

    # Reading

    @property
    def row(self) -> Row:
        """The row at the cursor."""
        return self.trace.row(self.cursor)

    @property
    def broker(self) -> Broker:
        """The broker in the state after the command at the cursor; do not give it commands.

        A command given to it would change the states that the timeline shows later; :meth:`restore` returns
        an independent broker.
        """
        target = bisect_right(self._steps, self.cursor)
        nearest = bisect_right(self._checkpoint_at, target) - 1
        with pause_collector():
            live, given = self._live, self._given
            # If this is interrupted, the broker is in the middle of a step, and must not be used again.
            self._live, self._given = None, -1
            if live is None or not self._is_near(nearest, given, target):
                live, given = self._checkpoints[nearest].restore(), self._checkpoint_at[nearest]
            for row in self._steps[given:target]:
                give(live, step_at(self.trace, row))
        self._live, self._given = live, target
        return live

    def _is_near(self, nearest: int, given: int, target: int) -> bool:
        """Return whether replaying from the broker's present state is quicker than from a checkpoint."""
        # Both costs are numbers of commands; restoring counts as the commands that take as long. A target
        # before the present state always needs a checkpoint, as no command can be undone.
        from_here, restoring = target - given, self._checkpoints[nearest].count / _PARTS_A_COMMAND
        return 0 <= from_here <= restoring + target - self._checkpoint_at[nearest]

    def restore(self) -> Broker:
        """Return a new, independent broker in the state at the cursor."""
        return Checkpoint(self.broker).restore()

    # Moving

    def seek(self, seq: int) -> Row:
        """Move to the row with a ``seq``, or to the last row before it, and return the row.

        Parameters:
            seq: A number of the trace's ``seq`` column; a number after the trace's end means its last row.

        Raises:
            TraceError: If the trace begins with a later ``seq``.
        """
        # A search, because seq may differ from the index: a file with quarantined rows has gaps in seq.
        place = bisect_right(self.trace.seq, seq) - 1
        if place < 0:
            raise TraceError(f"this trace has seq {self.trace.seq[0]} to {self.trace.seq[-1]}, got {seq}")
        return self._go(place)

    def seek_time(self, time: int) -> Row:
        """Move to the last row at or before a time in microseconds, or to the first row if there is none."""
        return self._go(max(0, bisect_right(self.trace.time, time) - 1))

    def step(self, count: int = 1) -> Row:
        """Move forward by a number of rows, or backward if it is negative, within the trace."""
        return self._go(min(max(0, self.cursor + count), len(self.trace) - 1))

    def _go(self, place: int) -> Row:
        self.cursor = place
        return self.row

    def fork(self, commands: Iterable[Event] = ()) -> Trace:
        """Return a trace that equals this one up to the cursor, and continues with additional commands.

        Parameters:
            commands: The additional commands; a command whose time is before the cursor's is performed at
                once.

        Raises:
            TraceError: If an event is not a command, or the engine cannot perform it.
        """
        return fork(self.trace, self.cursor, commands, self.restore())

    def __repr__(self) -> str:
        return f"Timeline({self.trace.run!r}, row {self.cursor} of {len(self.trace)})"


# Rows

COLUMNS = ("queue", "session", "link")

_NONE: Sequence[int] = array("q")


class RowIndex:
    """An index of a trace's rows by kind and queue, session or link, and by message."""

    __slots__ = ("_by", "_messages", "groups")

    def __init__(self, trace: Trace) -> None:
        columns = {name: getattr(trace, name) for name in COLUMNS}
        self._by = {
            name: _group_rows(zip(trace.kind, column, strict=True), column)
            for name, column in columns.items()
        }
        self._messages: Mapping[str, Sequence[int]] = _group_rows(trace.message, trace.message)
        pairs = zip(trace.queue, trace.group, strict=True)
        self.groups = list(dict.fromkeys(pair for pair in pairs if pair[0] and pair[1]))
        """The pair of queue and group name of every message group in the trace, in order of appearance."""

    def rows(self, kind: str, column: str, name: str) -> Sequence[int]:
        """Return the indices of all rows of a kind that have a name in a column, ascending."""
        return self._by[column].get((kind, name), _NONE)

    def last(self, kind: str, column: str, name: str, until: int) -> int | None:
        """Return the index of the last such row (see :meth:`rows`) up to the row `until`, or None."""
        rows = self.rows(kind, column, name)
        place = bisect_right(rows, until)
        return rows[place - 1] if place else None

    def next(self, kind: str, column: str, name: str, after: int) -> int | None:
        """Return the index of the first such row (see :meth:`rows`) after the row `after`, or None."""
        rows = self.rows(kind, column, name)
        place = bisect_right(rows, after)
        return rows[place] if place < len(rows) else None

    def count(self, kind: str, column: str, name: str, until: int) -> int:
        """Return the number of such rows (see :meth:`rows`) up to the row `until`."""
        return bisect_right(self.rows(kind, column, name), until)

    def of_message(self, label: str) -> Sequence[int]:
        """Return the indices of all rows on a message, ascending."""
        return self._messages.get(label, _NONE)

    def names(self, column: str, kinds: Iterable[str]) -> list[str]:
        """Return the distinct names in a column of the rows of given kinds, in order of appearance."""
        wanted = set(kinds)
        first: dict[str, int] = {}
        for (kind, name), rows in self._by[column].items():
            if kind in wanted:
                first[name] = min(rows[0], first.get(name, rows[0]))
        return sorted(first, key=lambda name: first[name])

    @property
    def labels(self) -> Collection[str]:
        """The labels of all messages, in order of appearance."""
        return self._messages.keys()


def _group_rows(keys: Iterable[_Key], names: Iterable[str]) -> dict[_Key, array[int]]:
    """Return the indices of the rows with each key; a row whose name is empty is left out."""
    # Arrays of 64-bit numbers: a list would hold a Python object for each row.
    groups: defaultdict[_Key, array[int]] = defaultdict(lambda: array("q"))
    for row, (key, name) in enumerate(zip(keys, names, strict=True)):
        if name:
            groups[key].append(row)
    return groups


# States

_UNCHANGING: tuple[type[Any], ...] = (Frozen, Selector)
"""The classes of unchanging objects, which all checkpoints and all restored brokers share."""

_NUMBERED: tuple[type[Any], ...] = (Restorable, Selector)
"""The classes of the objects that a pickled state refers to by number."""

FIXED: dict[type[Any], tuple[str, ...]] = {
    QueuedMessage: ("transfer", "position", "group"),
    Transfer: ("number", "message", "size", "_label", "expiration", "origin", "connection", "serial"),
    DeliveryRecord: ("message", "queue", "id", "tag", "redelivered", "is_windowing"),
}
"""Fields that no command changes, by class; a deep queue has thousands of objects of these classes."""

_LEADING = ("transfer", "message", "queue")
"""Fields in :data:`FIXED` that refer to other objects, whose own fields may change."""


class Parts:
    """A numbered list of all objects that a broker has had so far."""

    __slots__ = ("objects", "_numbers")

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self._numbers: dict[int, int] = {}

    def number(self, part: object) -> int:
        """Return an object's index in the list, after adding it if it is new."""
        # By identity, as equal objects may differ later; the list keeps each object alive, so that no id is
        # used twice.
        number = self._numbers.get(id(part))
        if number is None:
            number = self._numbers[id(part)] = len(self.objects)
            self.objects.append(part)
        return number


class Checkpoint:
    """A broker's state between two commands; checkpoints with the same `parts` share their objects."""

    __slots__ = ("_packed", "_parts", "_is_for_one", "count")

    def __init__(self, broker: Broker, parts: Parts | None = None) -> None:
        self._is_for_one = parts is not None
        self._parts = Parts() if parts is None else parts
        # Observer and agent belong to the broker's users and are not part of its state.
        observer, agent = broker.observer, broker.agent
        broker.observe(None)
        broker.agent = None
        try:
            packer = _Packer(self._parts, FIXED if self._is_for_one else {})
            self._packed = packer.pack(broker)
        finally:
            broker.observe(observer)
            broker.agent = agent
        self.count = packer.count
        """The number of objects whose fields a restore sets."""

    def restore(self) -> Broker:
        """Return a broker in this state, without an observer; if the objects are shared, it replaces them."""
        with pause_collector():
            # Shared objects are filled in place: the broker that the timeline showed before becomes this one,
            # so a timeline has one broker only. Timeline.restore makes an independent copy.
            parts = self._parts.objects
            if not self._is_for_one:
                parts = [
                    part if isinstance(part, _UNCHANGING) else part.__new__(type(part)) for part in parts
                ]
            return _Unpacker(self._packed, parts).unpack()


class _Packer(pickle.Pickler):
    """A pickler of a broker's fields, and then of the objects that they refer to, class by class."""

    def __init__(self, parts: Parts, fixed: dict[type[Any], tuple[str, ...]]) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, pickle.HIGHEST_PROTOCOL)
        self._number_of = parts.number
        self._fixed = fixed
        # Class to number to object: the objects that were found in the fields pickled since the last round.
        self._met: dict[type, dict[int, object]] = {}
        self._seen: set[int] = set()
        self.count = 0

    def persistent_id(self, item: Any) -> int | None:
        """Return the number that pickle writes instead of an object, or None to pickle the object itself."""
        return self._meet(item) if isinstance(item, _NUMBERED) else None

    def reducer_override(self, item: Any) -> Any:
        if is_dataclass(item) and not isinstance(item, type):
            # Only the constructor can set the fields of a compiled frozen dataclass.
            return type(item), tuple(getattr(item, field.name) for field in fields(item))
        return NotImplemented

    def _meet(self, part: Any) -> int:
        number = self._number_of(part)
        if number not in self._seen:
            self._seen.add(number)
            if not isinstance(part, _UNCHANGING):
                self._met.setdefault(type(part), {})[number] = part
        return number

    def pack(self, broker: Broker) -> bytes:
        self.dump(broker)
        while self._met:
            met, self._met = self._met, {}
            for kind, parts in met.items():
                self._pack(kind, parts)
        return self._file.getvalue()

    def _pack(self, kind: type, parts: dict[int, object]) -> None:
        fixed = self._fixed.get(kind, ())
        for name in fixed:
            # The field itself never changes and is not pickled, but the object in it may change.
            if name in _LEADING:
                for part in parts.values():
                    self._meet(getattr(part, name))
        names = [name for name in _fields(kind) if name not in fixed]
        columns = [_shorten([getattr(part, name) for part in parts.values()]) for name in names]
        self.dump((kind, names, array("q", parts), columns))
        self.count += len(parts)


def _shorten(column: list[Any]) -> list[Any]:
    """Return the column, reduced to one item if all its items are the same object."""
    first = column[0]
    # By identity: with equality, a column of 1 and True would become a column of one of them.
    return column[:1] if all(item is first for item in column) else column


class _Unpacker(pickle.Unpickler):
    """An unpickler that sets the fields of existing objects."""

    def __init__(self, packed: bytes, parts: list[Any]) -> None:
        self._file = io.BytesIO(packed)
        super().__init__(self._file)
        self._parts = parts
        self._end = len(packed)

    def persistent_load(self, number: int) -> Any:
        """Return the object that pickle wrote as a number."""
        return self._parts[number]

    def unpack(self) -> Broker:
        broker: Broker = self.load()
        while self._file.tell() < self._end:
            # One dump for each class and round, in the order of pickling, up to the end of the bytes.
            kind, names, numbers, columns = self.load()
            parts = [self._parts[number] for number in numbers]
            for name, column in zip(names, columns, strict=True):
                values: Iterable[Any] = column if len(column) == len(parts) else repeat(column[0])
                # The fastest way to call a function many times for its effect.
                deque(map(getattr(kind, name).__set__, parts, values), maxlen=0)
        return broker


def _fields(kind: type) -> tuple[str, ...]:
    """Return the names of a class's fields, bases first; compiled classes have no slots."""
    names: list[str] = []
    for base in reversed(kind.__mro__):
        names += base.__dict__.get("__mypyc_attrs__", base.__dict__.get("__slots__", ()))
    # The compiler counts the __hash__ = None of a class that defines equality among the fields.
    return tuple(dict.fromkeys(name for name in names if not name.startswith("__")))
