"""Frames: a run as a table of numbers, one row a step, which can be read forwards, backwards and at any time.

The browser draws these rows and nothing else, so going back is exact: the row is still there.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from qflow.labs.channels import Planes, Spans, channel_names, pack
from qflow.labs.fold import Fold
from qflow.labs.topology import Topology

if TYPE_CHECKING:
    from qflow.workload import Run

Span = tuple[int, int]

_UNSETTLED = (".flow", ".blocked", ".holds", ".depth")


@dataclass(frozen=True, slots=True)
class Transition:
    """One change of a queue's flow control state.

    Parameters
    ----------
    frame
        Index of the first frame that shows the new state.
    time
        When, in microseconds.
    queue
        The queue's name.
    is_on
        Whether it turned ON; if not, it turned OFF.
    """

    frame: int
    time: int
    queue: str
    is_on: bool


@dataclass(frozen=True)
class Frames:
    """All frames of a run.

    Parameters
    ----------
    topology
        Who takes part.
    channels
        The name of each column; see :func:`qflow.labs.channels.channel_names`.
    data
        The numbers, row after row.
    count
        How many rows there are; the first shows the time before anything happened.
    lasting
        What lasts for some frames: ``sendings``, ``stays``, ``holdings`` and ``locks``;
        see :mod:`qflow.labs.channels`.
    groups
        The names of the groups; spans count them from 1.
    rows
        For each frame, the place in the run of the last event that it shows.

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

    def column(self, channel: str) -> array[int]:
        """Read one column, top to bottom.

        Parameters
        ----------
        channel
            Its name, such as ``queue.orders.depth``.

        Returns
        -------
        array of int

        Raises
        ------
        KeyError
            If there is no such column; the message lists those there are.
        """
        if channel not in self.channels:
            raise KeyError(f"no channel {channel!r}; there are {', '.join(self.channels)}")
        return self.data[self.channels.index(channel) :: len(self.channels)]

    def at(self, index: int) -> dict[str, int]:
        """Read one frame.

        Parameters
        ----------
        index
            From 0; negative numbers count from the end.

        Returns
        -------
        dict
            Channel to number.

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
        """Find the frame that is to be seen at a time: the last one that is not later.

        Parameters
        ----------
        time
            In microseconds.

        Returns
        -------
        int
        """
        return max(0, bisect_right(self._times, time) - 1)

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
        """List the times during which a column is not 0.

        Parameters
        ----------
        channel
            A column that is 0 or 1, such as ``queue.orders.flow`` or ``producer.p1.blocked``.

        Returns
        -------
        tuple of pairs
            (from, to) in microseconds; the last may end with the run.
        """
        spans: list[Span] = []
        begun: int | None = None
        for frame, value in _changes(self.column(channel)):
            if value and begun is None:
                begun = self._times[frame]
            elif not value and begun is not None:
                spans.append((begun, self._times[frame]))
                begun = None
        if begun is not None:
            spans.append((begun, self.topology.end))
        return tuple(spans)

    def most_telling(self) -> int:
        """Find the frame to show first: the one with most transfers held; the deepest if none is.

        Returns
        -------
        int
        """
        names = [f"producer.{spot.name}.held" for spot in self.topology.producers]
        names += [f"queue.{spot.name}.depth" for spot in self.topology.queues]
        for name in names:
            column = self.column(name)
            most = max(column.tolist(), default=0)
            if most:
                return column.index(most)
        return self.count - 1

    def packed(self) -> tuple[Planes, bytes]:
        """Return the numbers as the browser is sent them; see :func:`qflow.labs.channels.pack`."""
        return pack(self.data, len(self.channels))


def fold(run: Run, topology: Topology | None = None) -> Frames:
    """Fold a run's events into frames, in one pass.

    Parameters
    ----------
    run
        What a simulation or a replay gave.
    topology
        Who is to be seen; None for everyone in the run's workload.

    Returns
    -------
    Frames
    """
    folding = Fold(topology or Topology.of(run.workload, run.end))
    folding.follow(run.events)
    folding.end()
    return whole_frames(folding, run.end)


def whole_frames(folding: Fold, end: int) -> Frames:
    """Return the frames of a run that is folded to its end.

    Parameters
    ----------
    folding
        What it is folded into.
    end
        The run's last instant, in microseconds.

    Returns
    -------
    Frames
    """
    frames = frames_so_far(folding, end)
    last = frames.at(-1)
    if any(value for name, value in last.items() if name.endswith(_UNSETTLED)):
        return frames
    # Nothing waits for anything any more: the rest of the run is an empty stage.
    return replace(frames, topology=replace(frames.topology, end=last["time"]))


def frames_so_far(folding: Fold, end: int) -> Frames:
    """Return the frames of all steps that are folded; a run that goes on will have these and more.

    Parameters
    ----------
    folding
        What it is folded into.
    end
        The instant up to which the picture is to have room, in microseconds.

    Returns
    -------
    Frames
    """
    topology = replace(folding.topology, routes=tuple(sorted(folding.routes)), end=end)
    return Frames(
        topology,
        channel_names(topology),
        folding.data[:],
        folding.count,
        folding.lasting,
        tuple(folding.groups),
        folding.rows[:],
    )


def _changes(column: array[int]) -> list[tuple[int, int]]:
    """List (frame, new value) wherever a column changes; it starts from 0."""
    found = []
    before = 0
    for frame, value in enumerate(column):
        if value != before:
            found.append((frame, value))
            before = value
    return found
