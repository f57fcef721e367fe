"""Two traces compared: the first row in which they differ, and how their queues ended.

Equal rows up to some place, then one that differs: after that row the two runs are two courses of events, and
comparing further rows says nothing.  So the first difference is reported exactly, and what became of the two
runs only by queue: enqueues, drops, the greatest depth, the share of time ON.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import NamedTuple

from qflow.trace.schema import NAMES, Row, Trace
from qflow.workload.measures import DepthMeter
from qflow.workload.run import measure_text

_COMPARED = tuple(name for name in NAMES if name not in ("run", "seq"))


class Difference(NamedTuple):
    """The first row in which two traces differ.

    Fields:
        place: Its place, from 0.
        a, b: The rows there; None where a trace has ended.
        columns: The columns that differ; empty if one trace has ended.
    """

    place: int
    a: Row | None
    b: Row | None
    columns: tuple[str, ...]

    def text(self, first: str = "the first", second: str = "the second") -> str:
        """Return it as a sentence."""
        place = f"row {self.place + 1}"
        for trace, row in ((second, self.a), (first, self.b)):
            if row is None:
                other = self.b or self.a
                return (
                    f"{place}: {first if trace == second else second} has ended, {trace} has {_shown(other)}"
                )
        parts = (
            f"{name} is {getattr(self.a, name)!r} in {first}, {getattr(self.b, name)!r} in {second}"
            for name in self.columns
        )
        return f"{place} ({_shown(self.a)}): {'; '.join(parts)}"


def _shown(row: Row | None) -> str:
    return "" if row is None else f"{row.kind} at {row.time} us"


def first_difference(a: Trace, b: Trace) -> Difference | None:
    """Return the first row in which two traces differ, or None; ``run`` and ``seq`` do not count.

    >>> from qflow.broker import Event
    >>> a, b = Trace("a"), Trace("b")
    >>> a.append(Event(0, "enqueued", queue="q", size=5)); b.append(Event(0, "enqueued", queue="q", size=6))
    >>> first_difference(a, b).text()
    'row 1 (enqueued at 0 us): size is 5 in the first, 6 in the second'
    """
    common = min(len(a), len(b))
    index = min((_first_unequal(a, b, name, common) for name in _COMPARED), default=common)
    if index < common:
        columns = tuple(name for name in _COMPARED if getattr(a, name)[index] != getattr(b, name)[index])
        return Difference(index, a.row(index), b.row(index), columns)
    if len(a) == len(b):
        return None
    return Difference(
        index, a.row(index) if len(a) > index else None, b.row(index) if len(b) > index else None, ()
    )


def _first_unequal(a: Trace, b: Trace, name: str, common: int) -> int:
    first, second = getattr(a, name), getattr(b, name)
    if first[:common] == second[:common]:
        return common
    return next(index for index in range(common) if first[index] != second[index])


_COUNTED = {"enqueued": 1, "dequeued": -1, "dropped": 0, "held": 0}
"""Kinds of rows that are counted, and by how much each makes its queue deeper."""

_FLOW = ("flow_stopped", "flow_resumed", "queueDelete")


@dataclass(slots=True)
class QueueSummary:
    """What became of one queue in one run; as :mod:`qflow.workload.measures` has it, where that does."""

    enqueued: int = 0
    dequeued: int = 0
    dropped: int = 0
    held: int = 0
    depth: int = 0
    max_depth: int = 0
    flowStoppedCount: int = 0
    share_on: float = 0.0

    def count(self, kind: str) -> None:
        """Count one row."""
        if kind in _COUNTED:
            setattr(self, kind, getattr(self, kind) + 1)
            self.depth += _COUNTED[kind]

    def values(self) -> dict[str, float]:
        """Return the counts and measures by name."""
        return asdict(self)


def summarize(trace: Trace, end: int | None = None) -> dict[str, QueueSummary]:
    """Return what became of each queue of a trace.

    Parameters:
        end: Microseconds, what came later does not count; None for the time of the last row.

    >>> from qflow.broker import Event
    >>> trace = Trace()
    >>> for time, kind in ((0, "enqueued"), (5, "flow_stopped"), (25, "dequeued"), (25, "flow_resumed")):
    ...     trace.append(Event(time, kind, queue="q"))
    >>> summary = summarize(trace)["q"]
    >>> summary.max_depth, summary.depth, summary.share_on
    (1, 0, 0.8)
    """
    end = max(1, trace.time[-1] if end is None and len(trace) else end or 0)
    queues: dict[str, QueueSummary] = {}
    meters: dict[str, DepthMeter] = {}
    is_stopped: dict[str, bool] = {}
    for kind, queue, time in zip(trace.kind, trace.queue, trace.time, strict=True):
        # Commands name queues too, which need not exist.
        if queue and "." not in kind and time <= end:
            summary = queues.setdefault(queue, QueueSummary())
            summary.count(kind)
            if kind in _FLOW:
                is_stopped[queue] = kind == "flow_stopped"
            meters.setdefault(queue, DepthMeter(end)).at(time, summary.depth, is_stopped.get(queue, False))
    for queue, meter in meters.items():
        measures = meter.measures()
        queues[queue].max_depth = int(measures["max_depth"] or 0)
        queues[queue].share_on = measures["share_on"] or 0.0
        queues[queue].flowStoppedCount = meter.stops
    return queues


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs side by side.

    Attributes:
        parting: The first row in which they differ; None if they are the same.
        queues: Queue name to its summaries in the two runs.
    """

    parting: Difference | None
    queues: dict[str, tuple[QueueSummary, QueueSummary]]

    def lines(self, first: str = "the first", second: str = "the second") -> Iterator[str]:
        """Yield it as text: where they part, then what differs, queue by queue."""
        if self.parting is None:
            yield "the two runs are the same"
            return
        yield f"they part at {self.parting.text(first, second)}"
        for name, (a, b) in self.queues.items():
            theirs = b.values()
            changes = [
                f"{key} {measure_text(value)} -> {measure_text(theirs[key])}"
                for key, value in a.values().items()
                if value != theirs[key]
            ]
            yield f"queue {name}: {', '.join(changes) or 'no difference in the end'}"


def compare(a: Trace, b: Trace) -> Comparison:
    """Return where two runs part and how they differ, queue by queue.

    >>> from qflow.broker import Event
    >>> a, b = Trace("a"), Trace("b")
    >>> a.append(Event(0, "enqueued", queue="q")); b.append(Event(0, "dropped", queue="q"))
    >>> for line in compare(a, b).lines("a", "b"):
    ...     print(line)
    they part at row 1 (enqueued at 0 us): kind is 'enqueued' in a, 'dropped' in b
    queue q: enqueued 1 -> 0, dropped 0 -> 1, depth 1 -> 0, max_depth 1 -> 0
    """
    first, second = summarize(a), summarize(b)
    names = [*first, *(name for name in second if name not in first)]
    nothing = QueueSummary()
    pairs = {name: (first.get(name, nothing), second.get(name, nothing)) for name in names}
    return Comparison(first_difference(a, b), pairs)
