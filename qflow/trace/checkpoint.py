"""Checkpoints: the state of a broker at an instant, kept so that it is quickly there again.

A snapshot (:meth:`qflow.broker.Broker.snapshot`) is JSON, for files and other machines. These live
only as long as their timeline and are restored hundreds of times, so they are packed by pickle, and
what a deep queue has thousands of is packed column by column, several times as fast as object by
object. Both keep the same fields; the tests hold them to the same state hash.
"""

from __future__ import annotations

import copyreg
import io
import operator
import pickle
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from qflow.broker.broker import Broker
from qflow.broker.delivery import DeliveryRecord
from qflow.broker.message import Message
from qflow.broker.queued_message import QueuedMessage
from qflow.broker.selector import Selector
from qflow.broker.transfer import Transfer
from qflow.workload.stage import uncollected

MANY: tuple[type[Any], ...] = (QueuedMessage, Transfer, DeliveryRecord)
"""What a deep queue has thousands of: their fields are columns of a checkpoint."""


class SharedMessages:
    """Messages never change, so all checkpoints of a timeline, and all brokers made of them, share them."""

    __slots__ = ("messages", "_numbers")

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._numbers: dict[int, int] = {}

    def number(self, message: Message) -> int:
        """Return the message's place in the list, where it stays."""
        number = self._numbers.get(id(message))
        if number is None:
            number = self._numbers[id(message)] = len(self.messages)
            self.messages.append(message)
        return number


class Checkpoint:
    """A broker's state, from which any number of brokers can be made.

    Parameters
    ----------
    broker : Broker
        Between two commands; its observer is no part of the state, and clients' hooks must be unset.
    shared : SharedMessages or None
        What it has in common with other checkpoints.

    Examples
    --------
    >>> broker = Broker()
    >>> broker.session("s").queue_declare("q")
    >>> twin = Checkpoint(broker).restore()
    >>> twin.state_hash() == broker.state_hash(), twin.observer
    (True, None)
    """

    __slots__ = ("_packed", "_counts", "_shared")

    def __init__(self, broker: Broker, shared: SharedMessages | None = None) -> None:
        self._shared = shared or SharedMessages()
        packer = _Packer(self._shared)
        observer = broker.observer
        broker.observe(None)
        try:
            self._packed = packer.pack(broker)
        finally:
            broker.observe(observer)
        self._counts = [len(items) for items in packer.met.values()]

    def restore(self) -> Broker:
        """Return a new broker in that state, without an observer."""
        with uncollected():
            return _Unpacker(self._packed, self._counts, self._shared).unpack()

    @property
    def size(self) -> int:
        """Bytes it takes."""
        return len(self._packed)


class _Shelf:
    """Stands in a packed state for a list whose items are packed elsewhere."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = number


def _shelf(number: int) -> list[Any]:
    """Return a list of the state that is being unpacked; only an :class:`_Unpacker` has any."""
    raise pickle.UnpicklingError(f"shelf {number} is only there while a checkpoint is restored")


class _Packer:
    """Packs the broker first, then column by column whatever it met; which may make it meet more."""

    def __init__(self, shared: SharedMessages) -> None:
        self.met: dict[type, list[Any]] = {kind: [] for kind in MANY}
        self._file = io.BytesIO()
        self._pickler = pickle.Pickler(self._file, pickle.HIGHEST_PROTOCOL)
        # A selector holds a compiled function, which is made again from its text.
        table: dict[type, Callable[[Any], Any]] = {
            **copyreg.dispatch_table,
            Selector: _reduced_selector,
            _Shelf: _reduced_shelf,
        }
        for number, kind in enumerate(MANY):
            table[kind] = self._reducer(_Shelf(number), self.met[kind])
        messages = _Shelf(len(MANY))
        table[Message] = lambda message: (operator.getitem, (messages, shared.number(message)))
        self._pickler.dispatch_table = table

    def _reducer(self, shelf: _Shelf, met: list[Any]) -> Callable[[Any], tuple[Any, ...]]:
        def reduce(item: Any) -> tuple[Any, ...]:
            met.append(item)
            return operator.getitem, (shelf, len(met) - 1)

        return reduce

    def pack(self, broker: Broker) -> bytes:
        """Return the packed state."""
        self._pickler.dump(broker)
        done = dict.fromkeys(MANY, 0)
        while any(done[kind] < len(self.met[kind]) for kind in MANY):
            for kind in MANY:
                start, end = done[kind], len(self.met[kind])
                done[kind] = end
                items = self.met[kind][start:end]
                columns = [[getattr(item, name) for item in items] for name in _fields(kind)]
                self._pickler.dump((start, columns))
        return self._file.getvalue()


class _Unpacker(pickle.Unpickler):
    """Makes the many things empty, then the broker around them, then fills them."""

    def __init__(self, packed: bytes, counts: list[int], shared: SharedMessages) -> None:
        self._file = io.BytesIO(packed)
        super().__init__(self._file)
        self._made = [_empty(kind, count) for kind, count in zip(MANY, counts, strict=True)]
        self._shelves = [*self._made, shared.messages]
        self._end = len(packed)

    def find_class(self, module: str, name: str) -> Any:
        """Find what the state names; shelves are those of this unpacker."""
        if name == _shelf.__name__ and module == __name__:
            return self._shelves.__getitem__
        return super().find_class(module, name)

    def unpack(self) -> Broker:
        """Return the broker."""
        broker: Broker = self.load()
        while self._file.tell() < self._end:
            for kind, made in zip(MANY, self._made, strict=True):
                start, columns = self.load()
                for name, column in zip(_fields(kind), columns, strict=True):
                    fill = getattr(kind, name).__set__
                    # The fastest way to call something for its effect many times.
                    deque(map(fill, made[start : start + len(column)], column), maxlen=0)
        return broker


def _empty(kind: type[Any], count: int) -> list[Any]:
    new: Any = kind.__new__
    return [new(kind) for _ in range(count)]


def _reduced_selector(selector: Selector) -> tuple[type[Selector], tuple[str]]:
    return Selector, (selector.expression,)


def _reduced_shelf(shelf: _Shelf) -> tuple[Callable[[int], list[Any]], tuple[int]]:
    return _shelf, (shelf.number,)


def dispose(broker: Broker) -> None:
    """Take a broker apart, so that its memory is free at once.

    A broker is one big cycle of objects; left to the garbage collector, a deep queue's thousands of
    messages would cost some later seek more time than making them did.
    """
    parts: list[object] = [*broker.queues.queues.values()]
    for session in broker.sessions.values():
        parts += (session.completions, session.consuming)
    for part in parts:
        for name in _fields(type(part)):
            with suppress(AttributeError, TypeError):
                delattr(part, name)


def _fields(kind: type) -> tuple[str, ...]:
    """Return the names of a class's fields, bases first; compiled classes have no slots."""
    names: list[str] = []
    for base in reversed(kind.__mro__):
        names += base.__dict__.get("__mypyc_attrs__", base.__dict__.get("__slots__", ()))
    return tuple(dict.fromkeys(names))
