"""Frames: a run as tables of whole numbers, which can be read forwards, backwards and at any time.

A run is shown frame by frame. A frame is one row of numbers: the time, what the step that led to it did, and
a few counts for each producer, queue and consumer. Frames count; *spans* say which message lies where: one
row for everything that lasts for some frames, such as a message's stay on a queue. A row of a span names the
frame in which it begins and the first frame in which it is over.

The browser gets these tables once for each run, as plain columns of 32-bit numbers (:func:`packed`), and only
looks numbers up. It works nothing out, so a step back shows exactly what was there.

:mod:`qflow.labs.fold` makes frames of a run's events.
"""

from __future__ import annotations

import sys
import zlib
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from qflow.labs.topology import Topology

Span = tuple[int, int]
"""From and to, in microseconds."""

NEVER = 2**31 - 1
"""The frame in which something ends that had not ended when the run did."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A queue that turned ON or OFF: the first frame that shows it, its time in microseconds, the queue."""

    frame: int
    time: int
    queue: str
    is_on: bool


class Spans:
    """A table of things that last for some frames.

    Parameters
    ----------
    columns
        The names of a row's numbers; ``start`` and ``end`` are frames, the end not included. The tables are
        defined in :mod:`qflow.labs.fold`.
    data
        Row after row.

    Examples
    --------
    >>> locks = Spans(("group", "start", "end"), array("i", [1, 5, 9]))
    >>> list(locks.alive(5)), list(locks.alive(9))
    ([0], [])
    """

    def __init__(self, columns: tuple[str, ...], data: array[int]) -> None:
        self.columns = columns
        self.data = data
        self._place = {name: index for index, name in enumerate(columns)}

    def get(self, row: int, column: str) -> int:
        """Return one number of a row."""
        return self.data[row * len(self.columns) + self._place[column]]

    def row(self, index: int) -> dict[str, int]:
        """Return a row, by column."""
        start = index * len(self.columns)
        return dict(zip(self.columns, self.data[start : start + len(self.columns)], strict=True))

    def column(self, name: str) -> array[int]:
        """Return one column, top to bottom."""
        return self.data[self._place[name] :: len(self.columns)]

    def alive(self, frame: int) -> Iterator[int]:
        """Yield the numbers of the rows that last over a frame, in the order in which they began."""
        for row, (start, end) in enumerate(zip(self.column("start"), self.column("end"), strict=True)):
            if start > frame:
                return
            if end > frame:
                yield row

    def __len__(self) -> int:
        return len(self.data) // len(self.columns)


@dataclass(frozen=True)
class Frames:
    """All frames of a run.

    Parameters
    ----------
    topology
        The clients and queues of the run.
    channels
        The name of each column, such as ``queue.orders.depth``.
    data
        The numbers, row after row.
    count
        How many rows there are; the first shows the time before anything happened.
    lasting
        The spans: ``sendings``, ``stays``, ``holdings`` and ``locks``.
    groups
        The names of the groups; spans count them from 1.
    rows
        For each frame, the place in the run of the last event that it shows.
    deaths
        Producers' sessions that died: the first frame that shows it, the producer's index, the broker's
        words.

    Examples
    --------
    >>> frames = Frames(Topology((), (), (), (), 10), ("time", "step.parts"), array("i", [0, 0, 7, 1]), 2)
    >>> frames.at(1)
    {'time': 7, 'step.parts': 1}
    >>> frames.index_at(6), frames.index_at(7)
    (0, 1)
    """

    topology: Topology
    channels: tuple[str, ...]
    data: array[int]
    count: int
    lasting: Mapping[str, Spans] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    rows: array[int] = field(default_factory=lambda: array("i"))
    deaths: tuple[tuple[int, int, str], ...] = ()

    def column(self, channel: str) -> array[int]:
        """Return one column, top to bottom.

        Raises
        ------
        KeyError
            If there is no such column; the message lists those there are.
        """
        if channel not in self.channels:
            raise KeyError(f"no channel {channel!r}; there are {', '.join(self.channels)}")
        return self.data[self.channels.index(channel) :: len(self.channels)]

    def at(self, index: int) -> dict[str, int]:
        """Return one frame, by channel; negative numbers count from the end.

        Raises
        ------
        IndexError
            If there is no such frame.
        """
        if not -self.count <= index < self.count:
            raise IndexError(f"no frame {index}; there are {self.count}, from 0")
        start = index % self.count * len(self.channels)
        return dict(zip(self.channels, self.data[start : start + len(self.channels)], strict=True))

    def index_at(self, time: int) -> int:
        """Return the frame that a time in microseconds shows: the last one that is not later."""
        return max(0, bisect_right(self._times, time) - 1)

    def showing(self, place: int, time: int) -> int:
        """Return the frame that shows an event of the run, given its place in it and its time.

        An event that changes nothing that is counted makes no frame: it is shown with what came before it.
        """
        index = min(bisect_left(self.rows, place), self.count - 1)
        return index - 1 if self._times[index] > time else index

    @cached_property
    def _times(self) -> array[int]:
        return self.column("time")

    @cached_property
    def transitions(self) -> tuple[Transition, ...]:
        """Every change of a flow control state, in order."""
        found = [
            Transition(frame, self._times[frame], spot.name, bool(flow))
            for spot in self.topology.queues
            for frame, flow in _changes(self.column(f"queue.{spot.name}.flow"))
        ]
        return tuple(sorted(found, key=lambda change: change.frame))

    def spans(self, channel: str) -> tuple[Span, ...]:
        """Return the times during which a channel such as ``producer.p1.blocked`` is not 0.

        The last of them may end with the run.
        """
        return spans_of(zip(self._times, self.column(channel), strict=True), self.topology.end)

    def most_telling(self) -> int:
        """Return the frame to show first: the one with most transfers held; if none is, the deepest."""
        names = [f"producer.{spot.name}.held" for spot in self.topology.producers]
        names += [f"queue.{spot.name}.depth" for spot in self.topology.queues]
        for name in names:
            column = self.column(name)
            most = max(column.tolist(), default=0)
            if most:
                return column.index(most)
        return self.count - 1

    def packed(self) -> bytes:
        """Return the frames, then each table of spans, as the browser gets them; see :func:`packed`."""
        spans = ((table.data, len(table.columns)) for table in self.lasting.values())
        return packed([(self.data, len(self.channels)), *spans])


def packed(tables: Iterable[tuple[array[int], int]]) -> bytes:
    r"""Return tables of 32-bit numbers, deflated: the low bytes of all, column after column, then the next.

    A column changes little from row to row, and its high bytes hardly ever, so that this takes a twentieth of
    the room. The browser inflates it by itself and reads each column where it lies (``static/timeline.js``).

    Parameters
    ----------
    tables
        The numbers of each, row after row, and how many columns it has.

    Examples
    --------
    >>> zlib.decompress(packed([(array("i", [1, 7, 258, 7]), 2)]))
    b'\x01\x02\x07\x07\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00'
    """
    columns = [data[column::width] for data, width in tables for column in range(width)]
    if sys.byteorder == "big":
        for column in columns:
            column.byteswap()
    numbers = b"".join(columns)
    return zlib.compress(b"".join(numbers[place::4] for place in range(4)), 1)


def spans_of(states: Iterable[tuple[int, int]], end: int) -> tuple[Span, ...]:
    """Return the times during which something held, given at which times it began or went on to hold or not.

    Examples
    --------
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


def _changes(column: array[int]) -> list[tuple[int, int]]:
    """List (frame, new value) wherever a column changes; it starts from 0."""
    found = []
    before = 0
    for frame, value in enumerate(column):
        if value != before:
            found.append((frame, value))
            before = value
    return found
