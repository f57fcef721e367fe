"""Checkpoints: the state of a broker at an instant, kept so that it is quickly there again.

A snapshot (:meth:`qflow.broker.Broker.snapshot`) is JSON, for files and other machines. These live
only as long as their timeline and are restored hundreds of times. So most of a state is not made
again at all: a deep queue's thousands of messages are the same objects at the next instant, and a
checkpoint tells only what their fields held, packed by pickle and column by column. Both keep the
same fields; the tests hold them to the same state hash.
"""

from __future__ import annotations

import io
import operator
import pickle
from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

from qflow.broker.broker import Broker
from qflow.broker.delivery import DeliveryRecord
from qflow.broker.queued_message import QueuedMessage
from qflow.broker.restorable import Frozen, Restorable
from qflow.broker.selector import Selector
from qflow.broker.transfer import Transfer
from qflow.workload.stage import uncollected

UNCHANGING: tuple[type[Any], ...] = (Frozen, Selector)
"""What never changes is shared by all states and all brokers made of them."""

FIXED: dict[type[Any], tuple[str, ...]] = {
    QueuedMessage: ("transfer", "position", "group"),
    Transfer: ("number", "message", "size", "_label", "expiration", "origin", "connection", "serial"),
    DeliveryRecord: ("message", "queue", "id", "tag", "redelivered", "is_windowing"),
}
"""Fields that no command changes, of what a deep queue has thousands of; they need not be set again."""

LEADING = ("transfer", "message", "queue")
"""Fixed fields that lead to other parts, whose own fields may change."""


class Parts:
    """The objects that one broker consists of, at one instant or another, each with a number of its own.

    Examples
    --------
    >>> parts, broker = Parts(), Broker()
    >>> parts.number(broker), parts.number(broker.queues), parts.number(broker)
    (0, 1, 0)
    """

    __slots__ = ("objects", "_numbers")

    def __init__(self) -> None:
        self.objects: list[Any] = []
        self._numbers: dict[int, int] = {}

    def number(self, part: object) -> int:
        """Return the part's place in the list, where it stays."""
        number = self._numbers.get(id(part))
        if number is None:
            number = self._numbers[id(part)] = len(self.objects)
            self.objects.append(part)
        return number


class Checkpoint:
    """A broker's state, to which it can go back, or from which others can be made.

    Parameters
    ----------
    broker : Broker
        Between two commands; its observer is no part of the state, and clients' hooks must be unset.
    parts : Parts or None
        Given, the checkpoint is one of many that a single broker is to go back to; each tells only what
        differs between them.

    Examples
    --------
    >>> broker = Broker()
    >>> broker.session("s").queue_declare("q")
    >>> twin = Checkpoint(broker).restore()
    >>> twin.state_hash() == broker.state_hash(), twin.observer
    (True, None)
    """

    __slots__ = ("_packed", "_parts", "_is_for_one", "size", "count")

    def __init__(self, broker: Broker, parts: Parts | None = None) -> None:
        self._is_for_one = parts is not None
        self._parts = Parts() if parts is None else parts
        observer = broker.observer
        broker.observe(None)
        try:
            packer = _Packer(self._parts, FIXED if self._is_for_one else {})
            self._packed = packer.pack(broker)
        finally:
            broker.observe(observer)
        self.size = len(self._packed)
        """Bytes it takes."""
        self.count = packer.count
        """How many parts have fields to set."""

    def restore(self) -> Broker:
        """Return a broker in that state, without an observer.

        It is a new one each time; but if the checkpoint has parts in common with others, it is theirs,
        wherever it has got to meanwhile.
        """
        with uncollected():
            parts = self._parts.objects
            if not self._is_for_one:
                parts = [part if isinstance(part, UNCHANGING) else _empty(type(part)) for part in parts]
            return _Unpacker(self._packed, parts).unpack()


class _Shelf:
    """Stands in a packed state for the list of parts."""

    __slots__ = ()


class _Table:
    """Stands in a packed state for a long dict of parts, such as a queue's messages by position."""

    __slots__ = ("keys", "numbers")

    def __init__(self, keys: Iterable[int], numbers: Iterable[int]) -> None:
        self.keys = array("q", keys)
        self.numbers = array("q", numbers)


def _shelf() -> list[Any]:
    """Return the parts of the state that is being unpacked; only an :class:`_Unpacker` has any."""
    raise pickle.UnpicklingError("parts are only there while a checkpoint is restored")


def _table(parts: list[Any], keys: array[int], numbers: array[int]) -> dict[int, Any]:
    return dict(zip(keys, map(parts.__getitem__, numbers), strict=True))


_SHELF = _Shelf()
_LONG = 20


class _Packer(pickle.Pickler):
    """Packs the broker's fields, then those of the parts that they refer to, and so on, class by class."""

    def __init__(self, parts: Parts, fixed: dict[type[Any], tuple[str, ...]]) -> None:
        self._file = io.BytesIO()
        super().__init__(self._file, pickle.HIGHEST_PROTOCOL)
        self._number_of = parts.number
        self._fixed = fixed
        # By class: number to part, of those that were met since the last round.
        self._met: dict[type, dict[int, object]] = {}
        self._seen: set[int] = set()
        # By identity, as two parts may hold the same dict.
        self._tables: dict[int, _Table] = {}
        self.count = 0

    def reducer_override(self, item: Any) -> Any:
        """Write a part as its number."""
        if isinstance(item, Restorable | Selector):
            return operator.getitem, (_SHELF, self._meet(item))
        if isinstance(item, _Table):
            return _table, (_SHELF, item.keys, item.numbers)
        return (_shelf, ()) if item is _SHELF else NotImplemented

    def _meet(self, part: Any) -> int:
        number = self._number_of(part)
        if number not in self._seen:
            self._seen.add(number)
            if not isinstance(part, UNCHANGING):
                self._met.setdefault(type(part), {})[number] = part
        return number

    def pack(self, broker: Broker) -> bytes:
        """Return the packed state."""
        self.dump(broker)
        while self._met:
            met, self._met = self._met, {}
            for kind, parts in met.items():
                self._pack(kind, parts)
        return self._file.getvalue()

    def _pack(self, kind: type, parts: dict[int, object]) -> None:
        fixed = self._fixed.get(kind, ())
        for name in fixed:
            if name in LEADING:
                for part in parts.values():
                    self._meet(getattr(part, name))
        names = [name for name in _fields(kind) if name not in fixed]
        columns = [_shortened(self._column(name, parts.values())) for name in names]
        self.dump((kind, names, array("q", parts), columns))
        self.count += len(parts)

    def _column(self, name: str, parts: Iterable[object]) -> list[Any]:
        column = [getattr(part, name) for part in parts]
        return [self._shown(item) for item in column] if isinstance(column[0], dict) else column

    def _shown(self, value: Any) -> Any:
        """Return a long dict of parts in a form that takes a tenth of the time to unpack."""
        if type(value) is not dict or len(value) < _LONG:
            return value
        if not all(isinstance(key, int) and isinstance(part, Restorable) for key, part in value.items()):
            return value
        if id(value) not in self._tables:
            self._tables[id(value)] = _Table(value, map(self._meet, value.values()))
        return self._tables[id(value)]


def _shortened(column: list[Any]) -> list[Any]:
    """Return a column with the same in all rows as a single row."""
    first = column[0]
    return column[:1] if all(item is first for item in column) else column


class _Unpacker(pickle.Unpickler):
    """Fills the fields of the parts."""

    def __init__(self, packed: bytes, parts: list[Any]) -> None:
        self._file = io.BytesIO(packed)
        super().__init__(self._file)
        self._parts = parts
        self._end = len(packed)

    def find_class(self, module: str, name: str) -> Any:
        """Find what the state names; the shelf is that of this unpacker."""
        if name == _shelf.__name__ and module == __name__:
            # Not of self, which will hold this for as long as it lives.
            parts = self._parts
            return lambda: parts
        return super().find_class(module, name)

    def unpack(self) -> Broker:
        """Return the broker."""
        broker: Broker = self.load()
        while self._file.tell() < self._end:
            kind, names, numbers, columns = self.load()
            self._fill(kind, names, [self._parts[number] for number in numbers], columns)
        return broker

    def _fill(self, kind: type, names: Sequence[str], parts: list[Any], columns: list[list[Any]]) -> None:
        for name, column in zip(names, columns, strict=True):
            values: Iterable[Any] = column if len(column) == len(parts) else repeat(column[0])
            # The fastest way to call something for its effect many times.
            deque(map(getattr(kind, name).__set__, parts, values), maxlen=0)


def _empty(kind: Any) -> Any:
    return kind.__new__(kind)


def _fields(kind: type) -> tuple[str, ...]:
    """Return the names of a class's fields, bases first; compiled classes have no slots."""
    names: list[str] = []
    for base in reversed(kind.__mro__):
        names += base.__dict__.get("__mypyc_attrs__", base.__dict__.get("__slots__", ()))
    # The compiler counts the __hash__ = None of a class that defines equality among the fields.
    return tuple(dict.fromkeys(name for name in names if not name.startswith("__")))
