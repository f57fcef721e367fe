"""Snapshots: the conversion of a broker's whole state to a plain JSON value, and back.

A broker's state is a graph of small objects that refer to one another (a held transfer is on a queue *and* in
its session).  The encoder walks the graph in a fixed order, numbers the objects, and writes all fields of
each, so that a new field of the engine cannot be forgotten here.

Containers are written as lists whose first item is a letter: l for list, t tuple, d dict, o ordered dict, q
deque, s set, u UUID, b bytes, i an integer beyond 53 bits, e an exception, and r a reference to an object by
its number.  A class is named without its module, so that a state and its hash do not depend on the module
that defines a class; the classes of the engine all have different names.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import pkgutil
from collections import OrderedDict, deque
from collections.abc import Callable
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

from qflow.broker.errors import AmqpException
from qflow.qflow_error import QflowError

FORMAT = "qflow broker 6"
_PACKAGE = "qflow.broker."
_SAFE_INTEGER = 1 << 53

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(**_: Any) -> Callable[[type], type]:
        """Return a decorator that has no effect in Python; only the compiler (mypyc) reads it."""
        return lambda marked: marked


class Refused(Protocol):
    """A type without instances, for parameters whose invalid values the function itself refuses."""

    # A compiled function checks the types of its arguments, and would raise an error without their names.

    def is_never_given(self) -> None:
        """Do nothing: no class has this method."""


Text = str | Refused
"""The type of a string parameter that refuses other values itself."""
Flag = bool | Refused
"""The type of a boolean parameter that refuses other values itself."""

Snapshot = dict[str, Any]

ONLY_COUNT = frozenset((
    "Completions", "DirectExchange", "LinkNodes", "LinkSession", "MessageDeque", "Queue", "QueueCounters",
    "QueueCursor", "QueueFlowLimit", "RangeSet", "SemanticState", "Session", "Subscription", "Traffic",
    "_Binding", "_FanoutExchange", "_HeadersExchange", "_LinkDeliveries", "_PositionSet", "_TopicExchange",
))  # fmt: skip
"""Classes whose objects, in an empty broker, only count past events, which no rule depends on."""


class SnapshotError(QflowError):
    """A value is not a snapshot of this version of the engine; the message gives the reason."""


def take_snapshot(root: object) -> Snapshot:
    """Return the state of an object of the engine, normally a Broker, and of all objects it refers to."""
    encoder = _Encoder()
    encoder.reference(root)
    return {"format": FORMAT, "objects": encoder.run()}


def restore_snapshot(snapshot: object) -> Any:
    """Return new objects in the state of a snapshot; raise SnapshotError if the value is not one."""
    if not isinstance(snapshot, dict) or snapshot.get("format") != FORMAT:
        got = snapshot.get("format") if isinstance(snapshot, dict) else type(snapshot).__name__
        raise SnapshotError(f"a snapshot has the format {FORMAT!r}, got {got!r}")
    try:
        return _Decoder(snapshot["objects"]).run()
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, ImportError) as error:
        raise SnapshotError(f"the snapshot is damaged: {error!r}") from error


def hash_snapshot(snapshot: Snapshot) -> str:
    """Return the SHA-256 hash of a snapshot, in hexadecimal, which is the same on every machine."""
    text = json.dumps(snapshot["objects"], separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


class _Encoder:
    """An encoder of objects, which it numbers in the order in which it meets them."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._met: list[object] = []

    def run(self) -> list[Any]:
        """Return the table of all objects, each with its class and the values of its fields."""
        table: list[Any] = []
        # Encoding an object may add others to the end of the list.
        for value in self._met:
            kind = type(value)
            table.append([_class_name(kind), list(map(self._encode, _state_of(kind, value)))])
        return table

    def reference(self, value: object) -> list[Any]:
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self._met)
            self._met.append(value)
        return ["r", number]

    def _encode(self, value: object) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if isinstance(value, int):
            return value if -_SAFE_INTEGER < value < _SAFE_INTEGER else ["i", hex(value)]
        encode = _CONTAINERS.get(kind)
        if encode is not None:
            return encode(self._encode, value)
        if isinstance(value, float | str):
            return value
        if isinstance(value, AmqpException):
            return ["e", _class_name(kind), value.text]
        return self.reference(value)


_PLAIN = frozenset({NoneType, bool, float, str})
_Codec = Callable[[Any], Any]
_CONTAINERS: dict[type, Callable[[_Codec, Any], Any]] = {
    list: lambda encode, value: ["l", *map(encode, value)],
    tuple: lambda encode, value: ["t", *map(encode, value)],
    deque: lambda encode, value: ["q", *map(encode, value)],
    set: lambda encode, value: ["s", *sorted(value)],
    dict: lambda encode, value: ["d", *[[encode(key), encode(item)] for key, item in value.items()]],
    OrderedDict: lambda encode, value: ["o", *[[encode(key), encode(item)] for key, item in value.items()]],
    UUID: lambda encode, value: ["u", value.hex],
    bytes: lambda encode, value: ["b", value.hex()],
}


class _Decoder:
    """A decoder that makes all objects first and then sets their fields, so that cycles are possible."""

    def __init__(self, table: list[Any]) -> None:
        self._table = table
        self._made = [_new(name) for name, _ in table]

    def run(self) -> Any:
        for made, (_, fields) in zip(self._made, self._table, strict=True):
            written_as = getattr(type(made), "WRITTEN_AS", {})
            for name, value in zip(_state_fields(type(made)), fields, strict=True):
                held = self._decode(value)
                object.__setattr__(made, name, written_as[name][1](held) if name in written_as else held)
            for name in getattr(type(made), "VOLATILE", ()):
                object.__setattr__(made, name, None)
        return self._made[0]

    def _decode(self, value: Any) -> Any:
        if not isinstance(value, list):
            return value
        letter, *items = value
        if letter == "r":
            return self._made[items[0]]
        if letter not in _READ_AS:
            raise SnapshotError(f"unknown container {letter!r}")
        return _READ_AS[letter](self._decode, items)


_READ_AS: dict[str, Callable[[_Codec, list[Any]], Any]] = {
    "l": lambda decode, items: list(map(decode, items)),
    "t": lambda decode, items: tuple(map(decode, items)),
    "q": lambda decode, items: deque(map(decode, items)),
    "s": lambda decode, items: set(items),
    "d": lambda decode, items: {decode(key): decode(item) for key, item in items},
    "o": lambda decode, items: OrderedDict((decode(key), decode(item)) for key, item in items),
    "i": lambda decode, items: int(items[0], 16),
    "u": lambda decode, items: UUID(items[0]),
    "b": lambda decode, items: bytes.fromhex(items[0]),
    "e": lambda decode, items: _find_class(items[0])(items[1]),
}

_GETTERS: dict[type, Callable[[object], tuple[Any, ...]]] = {}


def _state_of(kind: type, value: object) -> tuple[Any, ...]:
    """Return the values of an object's fields, in the order of :func:`_state_fields`."""
    getter = _GETTERS.get(kind)
    if getter is None:
        names = _state_fields(kind)
        written_as = getattr(kind, "WRITTEN_AS", None)
        if written_as:
            forms = [(name, written_as[name][0] if name in written_as else _as_it_is) for name in names]
            getter = lambda one: tuple(form(getattr(one, name)) for name, form in forms)  # noqa: E731
        elif len(names) == 1:
            name, getter = names[0], lambda one: (getattr(one, name),)
        else:
            getter = attrgetter(*names) if names else lambda _: ()
        _GETTERS[kind] = getter
    return getter(value)


def _as_it_is(value: object) -> object:
    return value


_FIELDS: dict[type, tuple[str, ...]] = {}


def _state_fields(kind: type) -> tuple[str, ...]:
    """Return a class's field names without the volatile ones, sorted, the same whether compiled or not."""
    if kind not in _FIELDS:
        names: set[str] = set()
        for base in kind.__mro__:
            names.update(base.__dict__.get("__mypyc_attrs__", base.__dict__.get("__slots__", ())))
        names.difference_update(getattr(kind, "VOLATILE", ()))
        # The compiler counts __hash__, which is None in a class that defines equality, among the fields.
        _FIELDS[kind] = tuple(sorted(name for name in names if not name.startswith("__")))
    return _FIELDS[kind]


def _class_name(kind: type) -> str:
    if not kind.__module__.startswith(_PACKAGE):
        raise SnapshotError(f"{kind.__module__}.{kind.__qualname__} is no part of the engine's state")
    return kind.__qualname__


_CLASSES: dict[str, type] = {}


def _find_class(name: str) -> Any:
    if name not in _CLASSES:
        # Import all modules of the engine, as the snapshot may contain classes of any of them.
        for info in pkgutil.walk_packages(importlib.import_module("qflow.broker").__path__, _PACKAGE):
            for kind in vars(importlib.import_module(info.name)).values():
                if isinstance(kind, type) and kind.__module__ == info.name:
                    _CLASSES[kind.__qualname__] = kind
    return _CLASSES[name]


def _new(name: str) -> Any:
    kind = _find_class(name)
    return kind.__new__(kind)
