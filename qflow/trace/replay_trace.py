"""Replay: a trace's commands, given to a fresh engine, give back the trace's own events."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from qflow.broker.broker import Broker
from qflow.broker.events import Event
from qflow.trace.diff import Difference, first_difference
from qflow.trace.schema import Trace
from qflow.trace.script import Step, give, steps_of
from qflow.workload.run import CLIENT_EVENTS
from qflow.workload.stage import uncollected

Progress = Callable[[int], None]
"""Told, now and then, how many rows are done."""


class Replay:
    """A replay in the making; :attr:`trace` is valid at every moment.

    Rows that only a client could tell of (:data:`qflow.workload.CLIENT_EVENTS`) are no command and no
    effect; they are copied to their places.

    Parameters
    ----------
    original : Trace
        What is replayed.

    Attributes
    ----------
    broker : Broker
        The engine, after the last step.
    trace : Trace
        What it has done so far.
    """

    def __init__(self, original: Trace) -> None:
        self.original = original
        self.trace = original.empty()
        self.trace.expected = len(original)
        self.broker = Broker(original.options)
        self.broker.observe(self._observe)

    def run(self, before: Callable[[Step], None] | None = None, progress: Progress | None = None) -> Trace:
        """Give all commands; ``before`` is shown each one before it is given.

        Raises
        ------
        TraceError
            For a command that cannot be given.
        """
        with uncollected():
            for step in self._steps(progress):
                if before is not None:
                    before(step)
                give(self.broker, step)
        self._copy_clients_rows()
        self.trace.expected = None
        return self.trace

    def difference(self) -> Difference | None:
        """Return where original and replay part, or None.

        A trace that is cut off may end in the midst of a command, which the replay completes.
        """
        found = first_difference(self.original, self.trace)
        is_cut = self.original.expected is not None and found is not None and found.a is None
        return None if is_cut else found

    def _steps(self, progress: Progress | None) -> Iterator[Step]:
        for step in steps_of(self.original):
            if progress is not None:
                progress(step.row)
            yield step

    def _observe(self, event: Event) -> None:
        self._copy_clients_rows()
        self.trace.append(event)

    def _copy_clients_rows(self) -> None:
        original, place = self.original, len(self.trace)
        while place < len(original) and original.kind[place] in CLIENT_EVENTS:
            self.trace.append_row(original.row(place)._replace(seq=place))
            place += 1


def replay(trace: Trace, progress: Progress | None = None) -> Trace:
    """Give a trace's commands to a fresh engine and return what it does.

    Parameters
    ----------
    trace : Trace
        A whole trace, from its broker's start.
    progress : callable or None
        Told now and then how many rows are done.

    Returns
    -------
    Trace
        Equal to ``trace`` if the same engine made it.

    Raises
    ------
    TraceError
        Naming the row of a command that cannot be given.

    Examples
    --------
    >>> from qflow.broker import Message
    >>> from qflow.trace.record import record
    >>> broker = Broker()
    >>> trace = record(broker)
    >>> session = broker.session("s")
    >>> session.queue_declare("q", {"qpid.flow_stop_count": 1})
    >>> for _ in range(3):
    ...     transfer = session.message_transfer(Message(10, routing_key="q"))
    >>> replay(trace) == trace
    True
    """
    return Replay(trace).run(progress=progress)
