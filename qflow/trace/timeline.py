"""The time machine: any instant of a trace, forwards and backwards, as a broker to look at."""

from __future__ import annotations

import gc
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping

from qflow.broker.broker import Broker
from qflow.broker.conversions import Argument
from qflow.broker.events import Event
from qflow.broker.options import BrokerOptions
from qflow.trace.checkpoint import Checkpoint, Parts
from qflow.trace.diff import compare
from qflow.trace.fork import fork
from qflow.trace.replay_trace import Progress, Replay
from qflow.trace.row_index import RowIndex
from qflow.trace.schema import Row, Trace, TraceError
from qflow.trace.script import Step, give, step_at
from qflow.workload.stage import uncollected

__all__ = ["SPACING", "TRANSITIONS", "Timeline", "compare"]

SPACING = 250
"""Rows between two checkpoints, at least: giving their commands again takes about a millisecond."""

_PARTS_A_ROW = 20
"""Parts of a checkpoint for each row up to the next one.  The deeper the queues, the longer it takes to go
back to a checkpoint, and the more rows may be given after that; so a long trace does not fill the memory."""

_PARTS_A_COMMAND = 25
"""Parts that are set back in the time that one command takes; it tells when going on from where we are is
quicker than a checkpoint."""

_LONG = 10_000

TRANSITIONS = ("flow_stopped", "flow_resumed")
"""What :meth:`Timeline.next_transition` stops at unless told otherwise."""


class Timeline:
    """A trace with a cursor on one of its rows.

    The engine runs each command to quiescence, so there is no state in the midst of one:
    :attr:`broker` is as the command left it that the cursor's row belongs to.

    Parameters
    ----------
    trace : Trace
        A whole one, from its broker's start, or one whose end is cut off.
    spacing : int
        Rows between two checkpoints.
    progress : callable or None
        Told now and then how many rows are prepared.

    Raises
    ------
    TraceError
        If the engine does not do what the trace says; the first row that differs is named.

    Examples
    --------
    >>> from qflow.broker import Message
    >>> from qflow.trace.record import record
    >>> broker = Broker()
    >>> trace = record(broker)
    >>> session = broker.session("p")
    >>> session.queue_declare("q", {"qpid.flow_stop_count": 2})
    >>> for n in range(5):
    ...     broker.advance(n * 1000)
    ...     transfer = session.message_transfer(Message(10, routing_key="q"))
    >>> timeline = Timeline(trace)
    >>> timeline.next_transition("q").time, timeline.broker.queue("q").message_depth
    (2000, 3)
    >>> timeline.seek_time(1999).time, timeline.broker.queue("q").message_depth
    (1000, 2)
    """

    def __init__(self, trace: Trace, *, spacing: int = SPACING, progress: Progress | None = None) -> None:
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
        """Where each kind of row stands; see :mod:`qflow.trace.explain`."""
        self._transitions: dict[tuple[str, tuple[str, ...]], array[int]] = {}
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

        replay.run(before, progress)
        difference = replay.difference()
        if difference is not None:
            raise TraceError(
                "the engine does not do what this trace says, so its states cannot be shown: "
                + difference.text("the trace", "the engine")
            )
        if not self._checkpoints:
            self._checkpoints.append(Checkpoint(replay.broker, parts))
            self._checkpoint_at.append(0)

    # Looking

    @property
    def row(self) -> Row:
        """The row under the cursor."""
        return self.trace.row(self.cursor)

    @property
    def event(self) -> Event:
        """The event under the cursor, its detail decoded."""
        return self.trace.event(self.cursor)

    @property
    def broker(self) -> Broker:
        """The broker as the command left it that the cursor's row belongs to; to look at only.

        It is the timeline's own, and goes with it from instant to instant: a command given to it would
        change what the next step shows. For one to keep and to play with, take :meth:`restore`; for
        another course of events, :meth:`fork`.
        """
        target = bisect_right(self._steps, self.cursor)
        nearest = bisect_right(self._checkpoint_at, target) - 1
        with uncollected():
            live, given = self._live, self._given
            # Whatever interrupts us, a broker that is half-way is not taken for one at an instant.
            self._live, self._given = None, -1
            if live is None or not self._is_near(nearest, given, target):
                live, given = self._checkpoints[nearest].restore(), self._checkpoint_at[nearest]
            for row in self._steps[given:target]:
                give(live, step_at(self.trace, row))
        self._live, self._given = live, target
        return live

    def _is_near(self, nearest: int, given: int, target: int) -> bool:
        """Tell whether the commands from here on are done sooner than a checkpoint and those after it."""
        from_here, restoring = target - given, self._checkpoints[nearest].count / _PARTS_A_COMMAND
        return 0 <= from_here <= restoring + target - self._checkpoint_at[nearest]

    def restore(self) -> Broker:
        """Return a broker of your own, in the state at the cursor."""
        return Checkpoint(self.broker).restore()

    # Moving

    def seek(self, seq: int) -> Row:
        """Go to the row of that ``seq``, or the last one before it.

        Parameters
        ----------
        seq : int
            As in the trace's column; one after its end is taken for the end.

        Raises
        ------
        TraceError
            If the trace begins later.
        """
        place = bisect_right(self.trace.seq, seq) - 1
        if place < 0:
            raise TraceError(f"this trace has seq {self.trace.seq[0]} to {self.trace.seq[-1]}, got {seq}")
        return self._go(place)

    def seek_time(self, time: int) -> Row:
        """Go to the last row at or before a time; before the first, to the first.

        Parameters
        ----------
        time : int
            Microseconds; a time after the trace's end is taken for the end.
        """
        return self._go(max(0, bisect_right(self.trace.time, time) - 1))

    def step(self, count: int = 1) -> Row:
        """Go forward by events, at most to the last; a negative count goes back."""
        return self._go(min(max(0, self.cursor + count), len(self.trace) - 1))

    def step_back(self, count: int = 1) -> Row:
        """Go back by events, at most to the first."""
        return self.step(-count)

    def next_command(self) -> Row | None:
        """Go to the next command; None, and stay, if there is none."""
        return self._go_to(self._steps, bisect_right(self._steps, self.cursor))

    def previous_command(self) -> Row | None:
        """Go to the command before; None, and stay, if there is none."""
        return self._go_to(self._steps, bisect_left(self._steps, self.cursor) - 1)

    def next_transition(self, queue: str, kinds: Iterable[str] = TRANSITIONS) -> Row | None:
        """Go to the next time flow control of a queue turns; None, and stay, if it does not any more.

        Parameters
        ----------
        queue : str
            The queue's name.
        kinds : iterable of str
            Other kinds of rows to stop at, such as ``("dropped",)``.
        """
        rows = self._rows_of(queue, kinds)
        return self._go_to(rows, bisect_right(rows, self.cursor))

    def previous_transition(self, queue: str, kinds: Iterable[str] = TRANSITIONS) -> Row | None:
        """Go to the last time before at which flow control of a queue turned; None, and stay, if none."""
        rows = self._rows_of(queue, kinds)
        return self._go_to(rows, bisect_left(rows, self.cursor) - 1)

    def _rows_of(self, queue: str, kinds: Iterable[str]) -> array[int]:
        key = (queue, tuple(kinds))
        if key not in self._transitions:
            pairs = enumerate(zip(self.trace.kind, self.trace.queue, strict=True))
            rows = (row for row, (kind, name) in pairs if name == queue and kind in key[1])
            self._transitions[key] = array("q", rows)
        return self._transitions[key]

    def _go_to(self, rows: array[int], index: int) -> Row | None:
        return self._go(rows[index]) if 0 <= index < len(rows) else None

    def _go(self, place: int) -> Row:
        self.cursor = place
        return self.row

    # Other courses of events

    def fork(
        self,
        commands: Iterable[Event] = (),
        *,
        queues: Mapping[str, Mapping[str, Argument | None]] | None = None,
        options: BrokerOptions | None = None,
    ) -> Trace:
        """Return a trace that goes another way from the cursor on; see :func:`qflow.trace.fork.fork`.

        With other ``options`` it goes another way from the start, wherever the cursor stands: a broker
        keeps the options that it is started with.

        Examples
        --------
        >>> from qflow.broker import Message
        >>> from qflow.trace.record import record
        >>> broker = Broker()
        >>> trace = record(broker)
        >>> session = broker.session("p")
        >>> session.queue_declare("q", {"qpid.max_count": 10})
        >>> for _ in range(7):
        ...     transfer = session.message_transfer(Message(10, routing_key="q"))
        >>> options = BrokerOptions(default_flow_stop_threshold=50, default_flow_resume_threshold=40)
        >>> trace.kind.count("held"), Timeline(trace).fork(options=options).kind.count("held")
        (0, 2)
        """
        if options is not None:
            return fork(self.trace, -1, commands, queues=queues, options=options)
        return fork(self.trace, self.cursor, commands, queues=queues, start=self.restore())

    def __repr__(self) -> str:
        return f"Timeline({self.trace.run!r}, row {self.cursor} of {len(self.trace)})"
