"""Frames: a run as tables of whole numbers, which can be read forwards, backwards and at any time.

A run is shown frame by frame. A frame is one row of numbers: the time, what the step that led to it did, and
a few counts for each producer, queue and consumer. Frames count; *spans* say which message lies where: one
row for everything that lasts for some frames, such as a message's stay on a queue. A row of a span names the
frame in which it begins and the first frame in which it is over.

The browser gets these tables once for each run, as plain columns of 32-bit numbers (:func:`pack`), and only
looks numbers up. It works nothing out, so a step back shows exactly what was there.

:mod:`qflow.labs.fold` makes frames of a run's events.
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
"""Begin and end, in microseconds."""

NEVER: Final = 2**31 - 1
"""The frame in which something ends that had not ended when the run did."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A change of a queue's flow state: the first frame with it, its time in microseconds, the queue."""

    frame: int
    time: int
    queue: str
    is_on: bool


class Death(NamedTuple):
    """A producer's session that died: the first frame that shows it, the producer's index, the error."""

    frame: int
    producer: int
    text: str


class Spans:
    """A table of intervals, each over some frames; :mod:`qflow.labs.fold` defines them."""

    def __init__(self, columns: tuple[str, ...], data: Sequence[array[int]]) -> None:
        self.columns = columns
        self.data = data
        self._by_name = dict(zip(columns, data, strict=True))

    def get(self, row: int, column: str) -> int:
        """Return one number of a row."""
        return self._by_name[column][row]

    def row(self, index: int) -> dict[str, int]:
        """Return a row, by column."""
        return {name: numbers[index] for name, numbers in self._by_name.items()}

    def __iter__(self) -> Iterator[dict[str, int]]:
        return map(self.row, range(len(self)))

    def column(self, name: str) -> array[int]:
        """Return one column, top to bottom."""
        return self._by_name[name]

    def alive(self, frame: int) -> Iterator[int]:
        """Yield the numbers of the rows that last during a frame, in the order of their start."""
        for row, (start, end) in enumerate(zip(self.column("start"), self.column("end"), strict=True)):
            if start > frame:
                return
            if end > frame:
                yield row

    def __len__(self) -> int:
        return len(self.data[0])


@dataclass(frozen=True)
class Frames:
    """All frames of a run; the first shows the time before anything happened."""

    topology: Topology
    # The name of each column, such as ``queue.orders.depth``, and its numbers, top to bottom.
    channels: tuple[str, ...]
    columns: tuple[array[int], ...]
    count: int
    # ``sendings``, ``stays``, ``holdings`` and ``locks``; they count the groups from 1.
    lasting: Mapping[str, Spans] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    # For each frame, the place in the run of the last event that it shows.
    rows: array[int] = field(default_factory=lambda: array("i"))
    # Producers' sessions that died, in order of time.
    deaths: tuple[Death, ...] = ()

    def column(self, channel: str) -> array[int]:
        """Return one column, top to bottom; KeyError for an unknown name."""
        if channel not in self.channels:
            raise KeyError(f"no channel {channel!r}; there are {', '.join(self.channels)}")
        return self.columns[self.channels.index(channel)]

    def at(self, index: int) -> dict[str, int]:
        """Return one frame, by channel; negative numbers count from the end."""
        if not -self.count <= index < self.count:
            raise IndexError(f"no frame {index}; there are {self.count}, from 0")
        return {name: column[index] for name, column in zip(self.channels, self.columns, strict=True)}

    def index_at(self, time: int) -> int:
        """Return the frame shown at a time in microseconds: the last one that is not later."""
        return max(0, bisect_right(self.columns[0], time) - 1)

    def frame_of(self, place: int, time: int) -> int:
        """Return the frame that shows an event of the run, given its index and its time."""
        # An event that changes nothing that is counted makes no frame: it is shown with what came before it.
        index = min(bisect_left(self.rows, place), self.count - 1)
        return index - 1 if self.columns[0][index] > time else index

    @cached_property
    def transitions(self) -> tuple[Transition, ...]:
        """Every change of a flow control state, in order."""
        found = [
            Transition(frame, self.columns[0][frame], spot.name, not nth % 2)
            for spot in self.topology.queues
            for nth, frame in enumerate(self.switches(f"queue.{spot.name}.flow"))
        ]
        return tuple(sorted(found, key=lambda change: change.frame))

    def spans(self, channel: str) -> tuple[Span, ...]:
        """Return the times during which a channel is not 0; the last may end with the run."""
        times = [self.columns[0][frame] for frame in self.switches(channel)]
        return tuple(zip(times[::2], [*times[1::2], self.topology.end], strict=False))

    def switches(self, channel: str) -> list[int]:
        """Return the frames at which a channel turns from 0 to another number, and back, alternating."""
        if channel not in self._found:
            self._found[channel] = _switches(self.column(channel))
        return self._found[channel]

    @cached_property
    def _found(self) -> dict[str, list[int]]:
        return {}

    def most_telling(self) -> int:
        """Return the frame to show first: the one with the most held transfers, else the deepest."""
        names = [f"producer.{spot.name}.held" for spot in self.topology.producers]
        names += [f"queue.{spot.name}.depth" for spot in self.topology.queues]
        for name in names:
            column = self.column(name)
            most = max(column, default=0)
            if most:
                return column.index(most)
        return self.count - 1

    def pack(self) -> bytes:
        """Return the frames and the tables of intervals in the browser's form; see :func:`pack`."""
        return pack([*self.columns, *(column for table in self.lasting.values() for column in table.data)])


def pack(columns: Sequence[array[int]]) -> bytes:
    """Return columns of 32-bit numbers, deflated: the low bytes of all, then the next, and so on."""
    places: list[list[bytes]] = [[], [], [], []]
    zeros = bytes(4 * max(map(len, columns), default=0))
    for column in columns:
        numbers = column.tobytes()
        # Many columns hold nothing but zeros.
        is_empty = zeros.startswith(numbers)
        for place, parts in enumerate(places if sys.byteorder == "little" else reversed(places)):
            parts.append(zeros[: len(column)] if is_empty else numbers[place::4])
    return zlib.compress(b"".join(chain.from_iterable(places)), 1)


def spans_of(states: Iterable[tuple[int, int]], end: int) -> tuple[Span, ...]:
    """Return the intervals in which something held, given the times at which it began to hold or not.

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
    """Return the indices at which a column turns from 0 to non-zero and back, alternating."""
    numbers = column.tobytes()
    bits = 0
    for place in range(4):
        bits |= int.from_bytes(numbers[place::4], "little")
    # A byte for each number, in which the next of a kind is found at once.
    signs = bits.to_bytes(len(column), "little").translate(_SIGN)
    found: list[int] = []
    at = signs.find(1)
    while at >= 0:
        found.append(at)
        at = signs.find(len(found) % 2 == 0, at)
    return found
