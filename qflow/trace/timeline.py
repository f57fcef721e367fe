"""The time machine: any instant of a trace, forwards and backwards, as a broker to look at.

A trace's commands, given to a fresh engine, return its own rows.  So the state at any row is that of an
engine to which the commands up to that row were given, and going back is going forward from an earlier state.
Three things make that quick and useful:

- :class:`Timeline` has a cursor on one row, moves it, and leads a broker to it: from where that broker is, or
  from the nearest checkpoint, whichever takes fewer commands.
- :class:`Checkpoint` keeps a state.  A snapshot (:meth:`qflow.broker.Broker.snapshot`) is JSON, for files
  and other machines; checkpoints exist only as long as their timeline, and are restored hundreds of times.
  So most of a state is not created again at all: a deep queue's thousands of messages are the same objects
  at the next instant, and a checkpoint holds only the values of their fields, packed by pickle, column by
  column.  Both keep the same fields; the tests compare their state hashes.
- :class:`RowIndex` has the rows by what they are about: "the last time that ..." is found at once.
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
"""Rows between two checkpoints, at least: giving their commands again takes about a millisecond."""

_PARTS_A_ROW = 20
"""Parts of a checkpoint for each row up to the next one.  The deeper the queues, the longer it takes to go
back to a checkpoint, and the more rows may be given after that; so a long trace does not fill the memory."""

_PARTS_A_COMMAND = 25
"""Parts that are set back in the time that one command takes."""

_LONG = 10_000


class Timeline:
    """A trace with a cursor on one of its rows.

    The engine runs each command to quiescence, so there is no state in the middle of one: :attr:`broker` is
    in the state after the whole command that the cursor's row belongs to.

    Parameters:
        trace: A whole one, from its broker's start, or one whose end is cut off.
        spacing: Rows between two checkpoints.
        progress: Called now and then with the number of rows prepared.

    Raises:
        TraceError: If the engine differs from the trace; the text names the first differing row.

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
            # What the replay leaves behind is large, and the first seek should not have to clear it away.
            gc.collect()
        self.index = RowIndex(trace)
        """The rows by subject."""
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

        # The whole trace is replayed once even if the reader wants one instant only. Without that we would
        # not know that the engine does what the trace says, and every state shown would be a guess.
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

    # Looking

    @property
    def row(self) -> Row:
        """The row at the cursor."""
        return self.trace.row(self.cursor)

    @property
    def broker(self) -> Broker:
        """The broker after the command at the cursor; read it only.

        A command given to it would change what the next step shows; :meth:`restore` returns one of its own.
        """
        target = bisect_right(self._steps, self.cursor)
        nearest = bisect_right(self._checkpoint_at, target) - 1
        with pause_collector():
            live, given = self._live, self._given
            # If this is interrupted, a broker in the middle of a step is not used as the state of an instant.
            self._live, self._given = None, -1
            if live is None or not self._is_near(nearest, given, target):
                live, given = self._checkpoints[nearest].restore(), self._checkpoint_at[nearest]
            for row in self._steps[given:target]:
                give(live, step_at(self.trace, row))
        self._live, self._given = live, target
        return live

    def _is_near(self, nearest: int, given: int, target: int) -> bool:
        """Return whether replaying the commands since here is cheaper than a checkpoint."""
        # Commands are counted on both sides, and a checkpoint as the commands that take as long as it does to
        # restore. The walk goes forwards only, as no command can be undone.
        from_here, restoring = target - given, self._checkpoints[nearest].count / _PARTS_A_COMMAND
        return 0 <= from_here <= restoring + target - self._checkpoint_at[nearest]

    def restore(self) -> Broker:
        """Return a new broker in the state of the cursor."""
        return Checkpoint(self.broker).restore()

    # Moving

    def seek(self, seq: int) -> Row:
        """Move to the row of `seq`, or to the last one before it.

        Parameters:
            seq: As in the trace's column; one after its end is taken for the end.

        Raises:
            TraceError: If the trace begins later.
        """
        # A search, as `seq` need not be the place: a file whose bad rows were quarantined has gaps in it.
        place = bisect_right(self.trace.seq, seq) - 1
        if place < 0:
            raise TraceError(f"this trace has seq {self.trace.seq[0]} to {self.trace.seq[-1]}, got {seq}")
        return self._go(place)

    def seek_time(self, time: int) -> Row:
        """Move to the last row at or before a time in microseconds, else to the first row."""
        return self._go(max(0, bisect_right(self.trace.time, time) - 1))

    def step(self, count: int = 1) -> Row:
        """Move forward by rows, at most to the last; a negative count moves back."""
        return self._go(min(max(0, self.cursor + count), len(self.trace) - 1))

    def _go(self, place: int) -> Row:
        self.cursor = place
        return self.row

    def fork(self, commands: Iterable[Event] = ()) -> Trace:
        """Return a trace that continues differently from the cursor on.

        Parameters:
            commands: Additional commands; one whose time has passed is given at once.

        Raises:
            TraceError: If an event is no command, or the engine cannot do it.
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
        """Queue and group of every group there ever is, in order of appearance."""

    def rows(self, kind: str, column: str, name: str) -> Sequence[int]:
        """Return the indices of all rows of a kind with a name in a column, ascending."""
        return self._by[column].get((kind, name), _NONE)

    def last(self, kind: str, column: str, name: str, until: int) -> int | None:
        """Return the index of the last such row up to `until`, or None."""
        rows = self.rows(kind, column, name)
        place = bisect_right(rows, until)
        return rows[place - 1] if place else None

    def next(self, kind: str, column: str, name: str, after: int) -> int | None:
        """Return the index of the next such row after `after`, or None."""
        rows = self.rows(kind, column, name)
        place = bisect_right(rows, after)
        return rows[place] if place < len(rows) else None

    def count(self, kind: str, column: str, name: str, until: int) -> int:
        """Return the number of such rows up to `until`."""
        return bisect_right(self.rows(kind, column, name), until)

    def of_message(self, label: str) -> Sequence[int]:
        """Return the indices of all rows on a message, ascending."""
        return self._messages.get(label, _NONE)

    def names(self, column: str, kinds: Iterable[str]) -> list[str]:
        """Return the names that rows of some kinds have in a column, in order of appearance."""
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
    """Return the rows' indices by key, without rows that have no name."""
    # Arrays of 64-bit numbers: a list would keep each row's number as an object of its own.
    groups: defaultdict[_Key, array[int]] = defaultdict(lambda: array("q"))
    for row, (key, name) in enumerate(zip(keys, names, strict=True)):
        if name:
            groups[key].append(row)
    return groups


# States

_UNCHANGING: tuple[type[Any], ...] = (Frozen, Selector)
"""What never changes is shared by all states and all brokers restored from them."""

_NUMBERED: tuple[type[Any], ...] = (Restorable, Selector)
"""The objects that a packed state refers to by number."""

FIXED: dict[type[Any], tuple[str, ...]] = {
    QueuedMessage: ("transfer", "position", "group"),
    Transfer: ("number", "message", "size", "_label", "expiration", "origin", "connection", "serial"),
    DeliveryRecord: ("message", "queue", "id", "tag", "redelivered", "is_windowing"),
}
"""Fields that no command changes, of parts that a deep queue has thousands of."""

_LEADING = ("transfer", "message", "queue")
"""Fixed fields that lead to other parts, whose own fields may change."""


class Parts:
    """The objects of one broker over time, each with a number."""

    __slots__ = ("objects", "_numbers")

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self._numbers: dict[int, int] = {}

    def number(self, part: object) -> int:
        """Return the part's index in the list."""
        # By identity, as equal parts may differ later; the list keeps each alive, so that no id is given
        # twice.
        number = self._numbers.get(id(part))
        if number is None:
            number = self._numbers[id(part)] = len(self.objects)
            self.objects.append(part)
        return number


class Checkpoint:
    """A broker's state between two commands; with `parts` it shares the objects of other checkpoints."""

    __slots__ = ("_packed", "_parts", "_is_for_one", "count")

    def __init__(self, broker: Broker, parts: Parts | None = None) -> None:
        self._is_for_one = parts is not None
        self._parts = Parts() if parts is None else parts
        # Both are of those who look at the broker, not of its state.
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
        """How many parts have fields to set."""

    def restore(self) -> Broker:
        """Return a broker in this state, without an observer; a new one, unless the parts are shared."""
        with pause_collector():
            # Shared parts are filled in place. The broker that the timeline showed before *becomes* this
            # one, so only one instant of a timeline is alive at a time; whoever wants to keep one takes a
            # copy (Timeline.restore).
            parts = self._parts.objects
            if not self._is_for_one:
                parts = [
                    part if isinstance(part, _UNCHANGING) else part.__new__(type(part)) for part in parts
                ]
            return _Unpacker(self._packed, parts).unpack()


class _Packer(pickle.Pickler):
    """A packer of the broker's fields, then of the parts that they refer to, class by class."""

    def __init__(self, parts: Parts, fixed: dict[type[Any], tuple[str, ...]]) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, pickle.HIGHEST_PROTOCOL)
        self._number_of = parts.number
        self._fixed = fixed
        # By class: number to part, of those that were met since the last round.
        self._met: dict[type, dict[int, object]] = {}
        self._seen: set[int] = set()
        self.count = 0

    def persistent_id(self, item: Any) -> int | None:
        """Return a part's number, for pickle."""
        return self._meet(item) if isinstance(item, _NUMBERED) else None

    def reducer_override(self, item: Any) -> Any:
        if is_dataclass(item) and not isinstance(item, type):
            # A frozen one that is compiled has fields that only its constructor can set.
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
            # Its own fields are packed once and for all, but the parts behind them still change.
            if name in _LEADING:
                for part in parts.values():
                    self._meet(getattr(part, name))
        names = [name for name in _fields(kind) if name not in fixed]
        columns = [_shorten([getattr(part, name) for part in parts.values()]) for name in names]
        self.dump((kind, names, array("q", parts), columns))
        self.count += len(parts)


def _shorten(column: list[Any]) -> list[Any]:
    """Return a column whose rows are all equal as a single row."""
    first = column[0]
    # By identity: with equality a column of 1 and True would lose one of them.
    return column[:1] if all(item is first for item in column) else column


class _Unpacker(pickle.Unpickler):
    """An unpacker that fills the fields of the parts."""

    def __init__(self, packed: bytes, parts: list[Any]) -> None:
        self._file = io.BytesIO(packed)
        super().__init__(self._file)
        self._parts = parts
        self._end = len(packed)

    def persistent_load(self, number: int) -> Any:
        """Return the part with a number, for pickle."""
        return self._parts[number]

    def unpack(self) -> Broker:
        broker: Broker = self.load()
        while self._file.tell() < self._end:
            # One dump for each class and round, in the order of packing; their number is not kept, so the
            # end of the bytes is the end of the loop.
            kind, names, numbers, columns = self.load()
            parts = [self._parts[number] for number in numbers]
            for name, column in zip(names, columns, strict=True):
                values: Iterable[Any] = column if len(column) == len(parts) else repeat(column[0])
                # The fastest way to call something for its effect many times.
                deque(map(getattr(kind, name).__set__, parts, values), maxlen=0)
        return broker


def _fields(kind: type) -> tuple[str, ...]:
    """Return the names of a class's fields, bases first; compiled classes have no slots."""
    names: list[str] = []
    for base in reversed(kind.__mro__):
        names += base.__dict__.get("__mypyc_attrs__", base.__dict__.get("__slots__", ()))
    # The compiler counts the __hash__ = None of a class that defines equality among the fields.
    return tuple(dict.fromkeys(name for name in names if not name.startswith("__")))
