"""Frames: a run as tables of integers, which can be shown forwards, backwards and at any instant.

A run is shown frame by frame. A *frame* is one row of numbers: the time, a description of the step that led
to it, and a few counts for each producer, queue and consumer. Its columns are called *channels*. Frames
contain only counts; *spans* say which message is where. A span is a row for something that lasts for several
frames, such as the stay of a message on a queue; it has the frame in which this begins, and the first frame
in which it is over.

The browser receives these tables once for each run, as columns of 32-bit numbers (:func:`pack`), and only
looks numbers up. It computes nothing, so a step back shows exactly the earlier state.

:mod:`qflow.labs.fold` makes the frames from the events of a run.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Final, NamedTuple

from qflow.labs.topology import Topology

Span = tuple[int, int]
"""The beginning and the end of an interval, in microseconds."""

NEVER: Final = 2**31 - 1
"""The end of a span that had not ended when the run ended, instead of a frame."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of a queue's flow control state, with the first frame that shows it and its time in µs."""

    frame: int
    time: int
    queue: str
    is_on: bool


class Death(NamedTuple):
    """The death of a producer's session: the first frame that shows it, the producer's index, the error."""

    frame: int
    producer: int
    text: str


class Spans:
    """A table of spans, each of which lasts for several frames; :mod:`qflow.labs.fold` defines the tables."""

    def __init__(self, columns: tuple[str, ...], data: Sequence[array[int]]) -> None:
        self.columns = columns
        self.data = data
        self._by_name = dict(zip(columns, data, strict=True))

    def get(self, row: int, column: str) -> int:
        """Return one number of a row."""
        return self._by_name[column][row]

    def row(self, index: int) -> dict[str, int]:
        """Return a row as a dict, keyed by column."""
        return {name: numbers[index] for name, numbers in self._by_name.items()}

    def __iter__(self) -> Iterator[dict[str, int]]:
        return map(self.row, range(len(self)))

    def column(self, name: str) -> array[int]:
        """Return all numbers of a column."""
        return self._by_name[name]

    def alive(self, frame: int) -> Iterator[int]:
        """Yield the indices of the rows that last during a frame, in the order of their start."""
        for row, (start, end) in enumerate(zip(self.column("start"), self.column("end"), strict=True)):
            if start > frame:
                return
            if end > frame:
                yield row

    def __len__(self) -> int:
        return len(self.data[0])


@dataclass(frozen=True)
class Frames:
    """All frames of a run, with its tables of spans; the first frame shows the state before any event."""

    topology: Topology
    # The name of each column, such as ``queue.orders.depth``, and the numbers of each column.
    channels: tuple[str, ...]
    columns: tuple[array[int], ...]
    count: int
    # The tables of spans: ``sendings``, ``stays``, ``holdings`` and ``locks``. They number groups from 1.
    lasting: Mapping[str, Spans] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    # For each frame, the index in the run of the last event that it shows.
    rows: array[int] = field(default_factory=lambda: array("i"))
    # The deaths of producers' sessions, in order of time.
    deaths: tuple[Death, ...] = ()

    def column(self, channel: str) -> array[int]:
        """Return all numbers of a column; raise KeyError for an unknown name."""
        if channel not in self.channels:
            raise KeyError(f"no channel {channel!r}; there are {', '.join(self.channels)}")
        return self.columns[self.channels.index(channel)]

    def at(self, index: int) -> dict[str, int]:
        """Return a frame as a dict, keyed by channel; a negative index counts from the end."""
        if not -self.count <= index < self.count:
            raise IndexError(f"no frame {index}; there are {self.count}, from 0")
        return {name: column[index] for name, column in zip(self.channels, self.columns, strict=True)}

    def index_at(self, time: int) -> int:
        """Return the index of the frame shown at a time in microseconds: the last one that is not later."""
        return max(0, bisect_right(self.columns[0], time) - 1)

    def frame_of(self, place: int, time: int) -> int:
        """Return the index of the frame that shows an event, given the event's index and its time."""
        # An event that changes no count has no frame of its own: it is shown by the frame before it.
        index = min(bisect_left(self.rows, place), self.count - 1)
        return index - 1 if self.columns[0][index] > time else index

    @cached_property
    def transitions(self) -> tuple[Transition, ...]:
        """All changes of the queues' flow control states, in order of time."""
        found = [
            Transition(frame, self.columns[0][frame], spot.name, not nth % 2)
            for spot in self.topology.queues
            for nth, frame in enumerate(self.switches(f"queue.{spot.name}.flow"))
        ]
        return tuple(sorted(found, key=lambda change: change.frame))

    def spans(self, channel: str) -> tuple[Span, ...]:
        """Return the intervals in which a channel is not 0; the last one may end with the run."""
        times = [self.columns[0][frame] for frame in self.switches(channel)]
        return tuple(zip(times[::2], [*times[1::2], self.topology.end], strict=False))

    def switches(self, channel: str) -> list[int]:
        """Return the frames at which a channel changes from 0 to another number or back, alternating."""
        if channel not in self._found:
            self._found[channel] = _switches(self.column(channel))
        return self._found[channel]

    @cached_property
    def _found(self) -> dict[str, list[int]]:
        return {}

    def most_telling(self) -> int:
        """Return the frame to show first: the one with the most held transfers, or else the deepest queue."""
        names = [f"producer.{spot.name}.held" for spot in self.topology.producers]
        names += [f"queue.{spot.name}.depth" for spot in self.topology.queues]
        for name in names:
            column = self.column(name)
            most = max(column, default=0)
            if most:
                return column.index(most)
        return self.count - 1

    def pack(self) -> bytes:
        """Return the frames and the tables of spans as bytes for the browser; see :func:`pack`."""
        return pack([*self.columns, *(column for table in self.lasting.values() for column in table.data)])


def pack(columns: Sequence[array[int]]) -> bytes:
    """Return columns of 32-bit numbers, compressed: all lowest bytes, then all next ones, and so on."""
    places: list[list[bytes]] = [[], [], [], []]
    zeros = bytes(4 * max(map(len, columns), default=0))
    for column in columns:
        numbers = column.tobytes()
        # Many columns contain only zeros.
        is_empty = zeros.startswith(numbers)
        for place, parts in enumerate(places if sys.byteorder == "little" else reversed(places)):
            parts.append(zeros[: len(column)] if is_empty else numbers[place::4])
    return zlib.compress(b"".join(chain.from_iterable(places)), 1)


def spans_of(states: Iterable[tuple[int, int]], end: int) -> tuple[Span, ...]:
    """Return the intervals in which a condition is true, given pairs of a time and its value from then on.

    >>> spans_of([(0, False), (50, True), (70, True), (90, False), (95, True)], end=99)
    ((50, 90), (95, 99))
    """
    spans: list[Span] = []
    begun: int | None = None
    for time, holds in states:
        if holds and begun is None:
            begun = time
        elif not holds and begun is not None:
            spans.append((begun, time))
            begun = None
    return (*spans, (begun, end)) if begun is not None else tuple(spans)


_SIGN = bytes([0, *[1] * 255])


def _switches(column: array[int]) -> list[int]:
    """Return the indices at which a column changes from 0 to another number or back, alternating."""
    numbers = column.tobytes()
    bits = 0
    for place in range(4):
        bits |= int.from_bytes(numbers[place::4], "little")
    # One byte for each number, 0 or 1, so that bytes.find finds the next change.
    signs = bits.to_bytes(len(column), "little").translate(_SIGN)
    found: list[int] = []
    at = signs.find(1)
    while at >= 0:
        found.append(at)
        at = signs.find(len(found) % 2 == 0, at)
    return found
