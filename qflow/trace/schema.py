"""The schema of a trace: its columns, the kinds of its rows, and the table that holds the rows in memory.

A trace is an ordered table with one row per event.  Commands are rows too, so a trace can be replayed.
Every module that reads or writes traces takes the meaning of a column from here.

The column ``detail`` holds the values that only rows of one kind have, as JSON in a canonical form: equal
details give equal text, so two traces can be compared byte for byte.  JSON has no type for bytes, UUIDs and
messages; each of these is written as an object whose only key begins with ``$``.
"""

from __future__ import annotations

import dataclasses
import json
import math
import operator
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache, partial
from json.encoder import encode_basestring as _string
from typing import Any, Generic, NamedTuple, TypeVar, overload
from uuid import UUID

from qflow.broker.errors import StartupError
from qflow.broker.events import (
    COMMANDS,
    DETAIL,
    EFFECTS,
    WIDTH,
    Detail,
    Event,
    EventTable,
    Names,
    Values,
    pack,
)
from qflow.broker.message import Message
from qflow.broker.options import BrokerOptions
from qflow.qflow_error import QflowError
from qflow.table import Tabular
from qflow.workload.model import Workload
from qflow.workload.simulate import CLIENT_EVENTS

_MESSAGE_FIELDS = {item.name: item.default for item in fields(Message) if item.name != "content"}
"""Fields of a message in a trace.  Its content is omitted, as the broker never reads it; its size is kept."""


def encode_detail(detail: Detail) -> str:
    """Return a detail as canonical JSON text with sorted keys, or empty text if the detail is None.

    >>> encode_detail({"body": b"ab", "message": Message(5, routing_key="q")})
    '{"body":{"$bytes":"6162"},"message":{"$message":{"content_size":5,"routing_key":"q"}}}'
    """
    return _encode_values(*pack(detail))


def _encode_values(names: Names, values: Values) -> str:
    """Return the canonical text of a detail, given as names and values."""
    if names is None:
        return ""
    order, template = _frame(names)
    return template % tuple([_WRITERS[type(values[place])](values[place]) for place in order])


def decode_detail(text: str) -> dict[str, Any]:
    """Return the detail that :func:`encode_detail` wrote as text, or {} for empty text."""
    if not text:
        return {}
    detail = json.loads(text)
    if not isinstance(detail, dict):
        raise ValueError(f"must be a JSON object, got {text[:40]!r}")
    if '"$' not in text:
        return detail
    return {key: _value(item) for key, item in detail.items()}


@lru_cache(maxsize=1024)
def _frame(names: tuple[str, ...]) -> tuple[list[int], str]:
    """Return the sorted order of a detail's names, and a template of its JSON text with a %s per value."""
    # Cached, as the same few combinations of names recur in every row of a kind.
    order = sorted(range(len(names)), key=names.__getitem__)
    texts = [_string(names[place]).replace("%", "%%") for place in order]
    return order, "{" + ",".join(f"{text}:%s" for text in texts) + "}"


def _list_text(values: list[object] | tuple[object, ...]) -> str:
    return f"[{','.join([_WRITERS[type(value)](value) for value in values])}]"


def _map_text(value: Mapping[Any, Any]) -> str:
    named = {str(key): item for key, item in value.items()}
    parts = [f"{_string(name)}:{_WRITERS[type(item)](item)}" for name, item in named.items()]
    text = f"{{{','.join(parts)}}}"
    # A client's own map may have a single key that begins with $, and would be read as one of our marks. It
    # is wrapped in the mark $map, so that reading returns the same map.
    is_marked = len(named) == 1 and next(iter(named)).startswith("$")
    return f'{{"$map":{text}}}' if is_marked else text


def _message_text(message: Message) -> str:
    given = zip(_FRAMES, _message_values(message), _MESSAGE_FIELDS.values(), strict=True)
    parts = [frame + _WRITERS[type(value)](value) for frame, value, default in given if value != default]
    return f'{{"$message":{{{",".join(parts)}}}}}'


def _float_text(value: float) -> str:
    # Python's json would write NaN and Infinity, which are not JSON: other programs could not read the file.
    return float.__repr__(value) if math.isfinite(value) else f'{{"$float":"{value!r}"}}'


def _refuse(value: object) -> str:
    raise TypeError(f"a trace keeps numbers, text, bytes, UUIDs, messages, lists and mappings; got {value!r}")


class _Writers(dict[type, Callable[[Any], str]]):
    """A mapping from types to functions that write a value as JSON; a subclass uses its base's function."""

    def __missing__(self, kind: type) -> Callable[[Any], str]:
        for known in (int, str, float, list, tuple):
            if issubclass(kind, known):
                return self[known]
        return _map_text if issubclass(kind, Mapping) else _refuse


_message_values = operator.attrgetter(*_MESSAGE_FIELDS)
_FRAMES = [f'"{name}":' for name in _MESSAGE_FIELDS]
# Looked up by exact type: `bool` is a subclass of `int`, and would otherwise be written as a number.
_WRITERS = _Writers(
    {
        str: _string,
        int: int.__repr__,
        bool: {False: "false", True: "true"}.__getitem__,
        type(None): lambda _: "null",
        float: _float_text,
        tuple: _list_text,
        list: _list_text,
        dict: _map_text,
        Message: _message_text,
        bytes: lambda value: f'{{"$bytes":"{value.hex()}"}}',
        UUID: lambda value: f'{{"$uuid":"{value.hex}"}}',
    }
)


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if len(plain) == 1:
        mark, content = next(iter(plain.items()))
        if mark.startswith("$"):
            return _decode_mark(mark, content)
    return {key: _value(item) for key, item in plain.items()}


def _decode_mark(mark: str, content: Any) -> object:
    if mark not in _MARKS:
        raise ValueError(f"unknown mark {mark!r}, allowed are {', '.join(sorted(_MARKS))}")
    try:
        return _MARKS[mark](content)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{mark} holds {content!r}: {error}") from None


_MARKS: dict[str, Callable[[Any], object]] = {
    "$bytes": bytes.fromhex,
    "$float": float,
    "$map": lambda content: {key: _value(item) for key, item in content.items()},
    "$message": lambda content: Message(**{key: _value(item) for key, item in content.items()}),
    "$uuid": UUID,
}


FORMAT = "qflow trace 1"
KINDS: Mapping[str, str] = {**COMMANDS, **EFFECTS, **CLIENT_EVENTS}
"""Every kind of row, with its meaning."""


class TraceError(QflowError, ValueError):
    """An error in reading, writing or replaying a trace; its text gives the place, reason and remedy."""


class Column(NamedTuple):
    """A column: its name, its type (``text`` or ``int64``), and its meaning."""

    name: str
    type: str
    meaning: str


COLUMNS: tuple[Column, ...] = (
    Column("run", "text", "name of the run, the same in every row of a file"),
    Column("seq", "int64", "number of the event in its run, from 0, growing"),
    Column("time", "int64", "virtual microseconds since the broker started, never going back"),
    Column("kind", "text", "what happened: a key of qflow.trace.schema.KINDS"),
    Column("queue", "text", "the queue's name, or empty"),
    Column("session", "text", "the session's name, or empty"),
    Column("link", "text", "a subscription's tag or an exchange's name, or empty"),
    Column("message", "text", "the message's label, or empty"),
    Column("size", "int64", "bytes the broker counts for the message, or 0"),
    Column("group", "text", "the message's group, or empty"),
    Column("detail", "text", "what else belongs to the kind, as canonical JSON, or empty"),
)
NAMES: tuple[str, ...] = tuple(column.name for column in COLUMNS)


class Row(NamedTuple):
    """One row of a trace, with the values of :data:`COLUMNS` in their order."""

    run: str
    seq: int
    time: int
    kind: str
    queue: str
    session: str
    link: str
    message: str
    size: int
    group: str
    detail: str


class Details(Sequence[str]):
    """The details of a trace's rows as text, encoded when first read, then cached."""

    __slots__ = ("_cells",)

    def __init__(self, cells: list[Any]) -> None:
        self._cells = cells

    def __len__(self) -> int:
        return len(self._cells) // WIDTH

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        rows = range(len(self))[index]
        return self._text(rows) if isinstance(rows, int) else list(map(self._text, rows))

    def _text(self, row: int) -> str:
        place = row * WIDTH + DETAIL
        text = self._cells[place]
        if isinstance(text, tuple):
            text = self._cells[place] = _encode_values(text, self._cells[place + 1])
            self._cells[place + 1] = ()
        return text or ""

    def __iter__(self) -> Iterator[str]:
        return map(self._text, range(len(self)))


Kept = TypeVar("Kept", bound=Any)


class _Column(Generic[Kept]):
    """A descriptor that returns one column of a trace as a sequence, up to the latest row."""

    def __init__(self, make: Callable[..., Kept], *arguments: Any) -> None:
        self._make = partial(make, *arguments)

    def __set_name__(self, owner: type, name: str) -> None:
        self._name, self._index = name, Event._fields.index(name)

    def __get__(self, trace: Trace, owner: type | None = None) -> Kept:
        # The column is built when it is first read and only extended after that: a run whose columns nobody
        # reads never builds them.
        column: Kept | None = trace._columns.get(self._name)
        if column is None:
            column = trace._columns[self._name] = self._make()
        if len(column) < len(trace):
            column.extend(trace._cells[len(column) * WIDTH + self._index :: WIDTH])
        return column


class Trace(Tabular):
    """One run as a table of columns, with the broker's options and the workload, so that it can be run again.

    Rows are kept as the engine filled them in, as in an :class:`~qflow.broker.events.EventTable`.  The JSON
    text of a detail is made when it is first read, and then replaces the detail's names and values.

    Parameters:
        run: The run's name.
        options: The start options of the run's broker; None for the defaults.
        workload: The workload of the run; None if it was recorded without one.

    Attributes:
        seq, time, size (array of 64-bit integers)
        kind, queue, session, link, message, group (list of str)
        detail (sequence of str): The columns; row *i* is the item at index *i* of each.
        expected (int or None): The number of rows of the whole trace if some are known to be missing here.

    >>> trace = Trace("demo")
    >>> trace.append(Event(0, "queueDelete", queue="q", detail={"reason": "delete"}))
    >>> trace.row(0).detail, len(trace)
    ('{"reason":"delete"}', 1)
    """

    def __init__(
        self, run: str = "run", options: BrokerOptions | None = None, workload: Workload | None = None
    ) -> None:
        self.run = run
        self.options = options or BrokerOptions()
        self.workload = workload
        self.expected: int | None = None
        self.seq = array("q")
        # Arranged as in an EventTable, except that text in the cell of a detail's names is the whole detail.
        self._cells: list[Any] = []
        self._columns: dict[str, Any] = {}

    time: _Column[array[int]] = _Column(array, "q")
    size: _Column[array[int]] = _Column(array, "q")
    kind: _Column[list[str]] = _Column(list)
    queue: _Column[list[str]] = _Column(list)
    session: _Column[list[str]] = _Column(list)
    link: _Column[list[str]] = _Column(list)
    message: _Column[list[str]] = _Column(list)
    group: _Column[list[str]] = _Column(list)

    # Filling

    def append(self, event: Event) -> None:
        """Add an event as the next row; ``broker.observe(trace.append)`` records a broker."""
        self._cells += (*event[:DETAIL], encode_detail(event.detail) or None, ())
        self.seq.append(len(self.seq))

    def extend(self, events: EventTable) -> None:
        """Add all events of a table."""
        self.put(events.cells)

    def append_row(self, row: Row) -> None:
        """Add a row with the ``seq`` that it has."""
        self._cells += (*row[2:-1], row.detail or None, ())
        self.seq.append(row.seq)

    def put(self, cells: list[Any]) -> None:
        """Add rows, given as the cells of an event table or as the cells that :meth:`cut` returned."""
        self._cells += cells
        self.seq.extend(range(len(self.seq), len(self)))

    def cut(self, count: int) -> list[Any]:
        """Remove the first rows, and return their cells as plain values: numbers, text and None."""
        # This expression has an effect: reading a detail replaces its names and values in the cells by text.
        self.detail[:count]
        cells = self._cells[: count * WIDTH]
        del self.seq[:count], self._cells[: count * WIDTH]
        self._columns.clear()
        return cells

    # Looking

    @property
    def detail(self) -> Details:
        """The values of each row that have no column of their own, as canonical JSON text; empty for none."""
        return Details(self._cells)

    def __len__(self) -> int:
        return len(self._cells) // WIDTH

    def row(self, index: int) -> Row:
        """Return the row at an index, which may be negative as for a list."""
        # The range handles negative indices, and refuses those that are too large.
        start = range(len(self))[index] * WIDTH
        fields = self._cells[start : start + DETAIL]
        return Row._make((self.run, self.seq[index], *fields, self.detail[index]))

    def rows(self) -> Iterator[Row]:
        """Yield all rows in order."""
        return map(self.row, range(len(self)))

    def columns(self, start: int = 0, end: int | None = None) -> dict[str, list[Any]]:
        """Return the columns, or a slice of their rows, as lists by name."""
        end = len(self) if end is None else min(end, len(self))
        columns = {name: list(getattr(self, name)[start:end]) for name in NAMES[1:]}
        return {"run": [self.run] * (end - start), **columns}

    def event(self, index: int) -> Event:
        """Return a row as the event that it records, with its detail decoded."""
        row = self.row(index)
        detail: Detail = decode_detail(row.detail) if row.detail else None
        return Event(*row[2:-1], detail)

    def events(self) -> Iterator[Event]:
        """Yield all rows as events."""
        return map(self.event, range(len(self)))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        return self.header() == other.header() and self.columns() == other.columns()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        last = self.time[-1] if self.time else 0
        return f"Trace({self.run!r}, {len(self)} rows, {last} us)"

    # The header, which a file has before its rows

    def empty(self) -> Trace:
        """Return an empty trace with the same run, options and workload."""
        return Trace(self.run, self.options, self.workload)

    def header(self) -> dict[str, Any]:
        """Return the header of a file, as a JSON value."""
        return {
            "format": FORMAT,
            "run": self.run,
            "rows": len(self) if self.expected is None else self.expected,
            "options": dataclasses.asdict(self.options),
            "workload": None if self.workload is None else dataclasses.asdict(self.workload),
        }

    @classmethod
    def from_header(cls, header: object) -> Trace:
        """Return an empty trace from the header of a file, or raise a TraceError if the header is invalid."""
        if not isinstance(header, Mapping) or header.get("format") != FORMAT:
            got = header.get("format") if isinstance(header, Mapping) else header
            raise TraceError(f"a trace begins with a header of format {FORMAT!r}, got {got!r}")
        run, rows, workload = header.get("run"), header.get("rows"), header.get("workload")
        if not isinstance(run, str) or not isinstance(header.get("options"), Mapping):
            raise TraceError("the header of a trace names its run and the broker's options; it does not")
        if isinstance(rows, bool) or not isinstance(rows, int | None):
            raise TraceError(f"the header of a trace gives rows as a whole number, got {rows!r}")
        try:
            options = BrokerOptions(**header["options"])
            trace = cls(run, options, None if workload is None else Workload.from_json(workload))
        except (TypeError, ValueError, StartupError) as error:
            raise TraceError(f"the header of the trace holds what qflow cannot use: {error}") from None
        trace.expected = rows
        return trace
