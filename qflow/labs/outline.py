"""Outline: a run along its axis of time, before its frames are counted.

The frames of a long run take longer than the run itself: thirty numbers for each of three steps a message.
What is drawn along the whole axis needs four of them: how deep a queue is, whether its flow control is ON,
whether a producer waits, and which sessions died. An outline has those, and not for every step. The axis is
cut into :data:`PARTS` equal parts, more than a screen has columns of pixels, and a part in which something
changes has three frames: with the lowest depths, with the highest, and with the last. So a depth that is
there for one step only is drawn, as it is from all frames. A turn has a frame of its own, at its instant,
unless it is one of so many that no eye could tell them apart.

It is made of :class:`~qflow.labs.frames.Frames`, so that whatever reads a column or the spans of one reads an
outline as well. A reader steps through frames, which :mod:`qflow.labs.fold` counts, most of them after the
outline is drawn. Like the fold, this module reads all events of a run, and may be compiled.
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from itertools import compress, count
from typing import Any, Final

from qflow.broker.events import COMMANDS, DETAIL, WIDTH, EventTable
from qflow.labs.frames import Frames
from qflow.labs.topology import Topology

PARTS: Final = 4096
"""Into how many parts the axis of time is cut; a plot has half as many columns of pixels at most."""
MOST_TURNS: Final = 5
"""How many turns within one of the parts have frames of their own."""

QUEUE_CHANNELS = ("depth", "flow")
PRODUCER_CHANNELS = ("blocked",)

_DEPTHS = ("enqueued", "dequeued")
_SWITCHES = {"flow_stopped": 1, "flow_resumed": 0, "client.block": 1, "client.unblock": 0}
_OUTLINED = frozenset((*_DEPTHS, *_SWITCHES, "exception"))
_READ = _OUTLINED.union(COMMANDS)


def outline_of(events: EventTable, topology: Topology, parts: int = PARTS) -> Frames:
    """Return the outline of a run, up to its last event if nothing is left to wait for then.

    Parameters:
        events: All events of the run.
        topology: Its clients and queues, and its last instant.
        parts: Into how many parts its time is cut.

    >>> from qflow.labs import flow_run
    >>> run = flow_run(messages=300, stop=20, resume=10)
    >>> outline = outline_of(run.run.events, run.frames.topology)
    >>> max(outline.column("queue.orders.depth")) == max(run.frames.column("queue.orders.depth"))
    True
    >>> len(outline.spans("queue.orders.flow")) == len(run.frames.spans("queue.orders.flow"))
    True
    """
    kinds = events.column("kind")
    places = list(compress(count(), map(_OUTLINED.__contains__, kinds)))
    last = events.cells[places[-1] * WIDTH] if places else 0
    drawing = _Drawing(topology, last // parts + 1)
    drawing.follow(events.cells, list(compress(count(), map(_READ.__contains__, kinds))))
    rows = drawing.rows
    return Frames(
        replace(topology, end=topology.end if any(rows[-1][1:]) else last),
        ("time", *drawing.columns),
        tuple(array("i", column) for column in zip(*rows, strict=True)),
        len(rows),
        deaths=tuple(drawing.deaths),
    )


class _Drawing:
    """The frames of an outline, while the events go by, for parts of so many microseconds."""

    def __init__(self, topology: Topology, part: int) -> None:
        names = [f"queue.{spot.name}.{name}" for spot in topology.queues for name in QUEUE_CHANNELS]
        names += [f"producer.{spot.name}.{name}" for spot in topology.producers for name in PRODUCER_CHANNELS]
        self.columns = {name: index for index, name in enumerate(names)}
        self._depths = {spot.name: self.columns[f"queue.{spot.name}.depth"] for spot in topology.queues}
        self._waits = {
            spot.name: self.columns[f"producer.{spot.name}.blocked"] for spot in topology.producers
        }
        self._switches = {*(column + 1 for column in self._depths.values()), *self._waits.values()}
        self._producers = topology.producers
        self._part = part
        self.rows: list[tuple[int, ...]] = [(0,) * (len(names) + 1)]
        self.deaths: list[tuple[int, int, str]] = []
        # Of the part of the axis: when its first change was, and how many turns it has.
        self._first = self._turns = 0
        # Of the step: which columns it changes, and who dies in it.
        self._changed: list[int] = []
        self._died: list[tuple[int, str]] = []
        self._now, self._low, self._high = ([0] * len(names) for _ in range(3))

    def follow(self, cells: list[Any], places: list[int]) -> None:
        """Draw the events at some places."""
        now, depths, waits, changed = self._now, self._depths, self._waits, self._changed
        time = due = 0
        for place in places:
            at = place * WIDTH
            kind = cells[at + 1]
            is_command = kind in COMMANDS
            if changed and (is_command or cells[at] != time):
                self._end_step(time)
            if is_command:
                continue
            if cells[at] >= due:
                self._finish(time)
                self._first, self._turns = cells[at], 0
                due = cells[at] - cells[at] % self._part + self._part
            time, name = cells[at], cells[at + 2]
            if kind in _DEPTHS:
                column = depths[name]
                now[column] = cells[at + DETAIL + 1][cells[at + DETAIL].index("depth")]
                changed.append(column)
            elif kind == "exception":
                self._die(cells[at + 3], cells[at + DETAIL], cells[at + DETAIL + 1])
            elif name in depths or cells[at + 3] in waits:
                # A queue's flow control follows its depth.
                column = depths[name] + 1 if name in depths else waits[cells[at + 3]]
                now[column] = _SWITCHES[kind]
                changed.append(column)
        self._end_step(time)
        self._finish(time)

    def _die(self, session: str, names: tuple[str, ...], values: tuple[Any, ...]) -> None:
        """Note the death of a session's producers, which wait for nothing any more."""
        found = dict(zip(names, values, strict=True))
        for index, spot in enumerate(self._producers):
            if spot.session == session:
                self._now[self._waits[spot.name]] = 0
                self._changed.append(self._waits[spot.name])
                self._died.append((index, f"{found['name']}: {found['text']}"))

    def _end_step(self, time: int) -> None:
        """Draw what a step has changed: what comes and goes within one is not seen."""
        now, low, high = self._now, self._low, self._high
        has_turned = False
        for column in self._changed:
            value = now[column]
            if column in self._switches:
                has_turned |= value != low[column]
            elif value < low[column]:
                low[column] = value
            elif value > high[column]:
                high[column] = value
        self._changed.clear()
        self._turns += has_turned
        if self._died or (has_turned and self._turns <= MOST_TURNS):
            self._finish(time)
        for index, text in self._died:
            self.rows.append((time, *now))
            self.deaths.append((len(self.rows) - 1, index, text))
        self._died.clear()

    def _finish(self, time: int) -> None:
        """Finish a part of the axis: its lowest depths come first, those of now last."""
        now, low, high = self._now, self._low, self._high
        for instant, numbers in ((self._first, low), (time, high), (time, now)):
            if tuple(numbers) != self.rows[-1][1:]:
                self.rows.append((instant, *numbers))
        self._first, low[:], high[:] = time, now, now
