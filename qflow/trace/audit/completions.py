"""What producers logged, held against the engine: which completion may come when."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from qflow.broker.flow_limit import FlowThresholds
from qflow.broker.settings import QueueSettings
from qflow.trace.audit.findings import SECOND, Finding, Tolerance
from qflow.trace.audit.membership import NumberedRow
from qflow.trace.log_rows import LogRow
from qflow.workload.run import Run

PATIENCE = SECOND
"""Microseconds by which a busy client may learn late of what is complete."""


@dataclass(slots=True)
class FlowCourse:
    """One queue as the engine ran it: its depth over time, and how far that may be from the real one's.

    A client's log says when it did something, not when that reached the broker: what consumers may hold
    may have been settled earlier or later than the engine thought.
    """

    thresholds: FlowThresholds | None
    slack: int
    windows: dict[str, int] = field(default_factory=dict)
    times: list[int] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    evicts: bool = False

    def add(self, time: int, depth: int, size: int) -> None:
        """Take note of what is on the queue from an instant on."""
        self.times.append(time)
        self.depths.append(depth)
        self.sizes.append(size)

    def _between(self, begin: int, end: int) -> slice:
        return slice(max(0, bisect_left(self.times, begin) - 1), bisect_right(self.times, end))

    def may_be_off(self, producer: str, sent: int, seen: int, lag: int) -> bool:
        """Return whether the queue can have been OFF when a transfer came, or at some instant since.

        It is certainly ON from when it is well above a stop level, for as long as it does not come near
        the resume levels.  A producer's own messages come in order, so only those of others can have
        come later than they were sent when it sends one onto a queue that is well above.
        """
        others = sum(window for name, window in self.windows.items() if name != producer)
        place = self._place(seen + lag)
        while place >= 0:
            if self._is_low(place):
                return True
            time = self.times[place]
            if time <= sent - lag and self._is_high(place) and self._is_high(self._place(time - lag)):
                return False
            if time <= sent:
                if others >= 0 and self._is_high(place, others):
                    return False
                others = -1
            place -= 1
        return True

    def _place(self, time: int) -> int:
        return bisect_right(self.times, time) - 1

    def _room(self, place: int) -> int:
        return 2 * self.slack * max(1, self.sizes[place] // max(1, self.depths[place]))

    def _is_low(self, place: int) -> bool:
        levels = self.thresholds
        if levels is None:
            return True
        few = not levels.resume_count or self.depths[place] - self.slack < levels.resume_count
        return few and (not levels.resume_size or self.sizes[place] - self._room(place) < levels.resume_size)

    def _is_high(self, place: int, others: int = 0) -> bool:
        levels = self.thresholds
        if levels is None or place < 0:
            return False
        less = self.slack + others
        many = bool(levels.stop_count) and self.depths[place] - less > levels.stop_count
        room = self._room(place) * less // self.slack
        return many or (bool(levels.stop_size) and self.sizes[place] - room > levels.stop_size)

    def may_be_on(self, begin: int, end: int) -> bool:
        """Return whether the queue can have been ON at some instant between two."""
        levels, part = self.thresholds, self._between(begin, end)
        if levels is None or not self.depths[part]:
            return False
        depth, size = max(self.depths[part]), max(self.sizes[part])
        room = self.slack * max(1, size // max(1, depth))
        many = bool(levels.resume_count) and depth + self.slack >= levels.resume_count
        large = bool(levels.resume_size) and size + 2 * room >= levels.resume_size
        return many or large


class Engine:
    """What the engine made of a log: which queue held which transfer, and the course of each queue.

    Parameters
    ----------
    run : Run
        The log, replayed.
    """

    def __init__(self, run: Run) -> None:
        workload = run.workload
        capacity = {producer.name: producer.capacity for producer in workload.producers}
        self.courses: dict[str, FlowCourse] = {}
        for name, arguments in workload.queues.items():
            slack = 1 + sum(consumer.prefetch for consumer in workload.consumers if consumer.queue == name)
            levels = FlowThresholds.of(name, QueueSettings.from_arguments(arguments), workload.options)
            self.courses[name] = FlowCourse(levels, slack)
        self.queues: dict[str, list[str]] = {}
        self.holds: dict[str, dict[str, int]] = {}
        self.dead = frozenset(run.errors)
        for event in run.events:
            if event.kind in ("enqueued", "dequeued"):
                detail = event.detail if isinstance(event.detail, dict) else {}
                course = self.courses[event.queue]
                course.add(event.time, detail["depth"], detail["bytes"])
                course.evicts |= detail.get("reason") not in (None, "accept")
                if event.kind == "enqueued":
                    course.windows.setdefault(event.session, capacity.get(event.session, 0))
                    self.queues.setdefault(event.message, []).append(event.queue)
            elif event.kind == "held":
                self.holds.setdefault(event.message, {})[event.queue] = run.end + SECOND
            elif event.kind == "let_go":
                self.holds[event.message][event.queue] = event.time


def completion_findings(rows: Sequence[NumberedRow], engine: Engine, tolerance: Tolerance) -> list[Finding]:
    """Return what producers cannot have been told, or not so late.

    Examples
    --------
    >>> from qflow.workload import Workload, simulate
    >>> engine = Engine(simulate(Workload("w", 1, {"q": {}})))
    >>> rows = [(1, LogRow(5, "p", "complete", "q", "p-1", 0, ""))]
    >>> [finding.kind for finding in completion_findings(rows, engine, Tolerance(0, 0))]
    ['never sent']
    """
    findings: list[Finding] = []
    sent: dict[str, LogRow] = {}
    done: set[str] = set()
    for number, row in rows:
        if row.event == "transfer":
            if row.label in sent:
                findings.append(_finding(number, row, "sent twice", "CM-01", "sent again", "each label once"))
            sent.setdefault(row.label, row)
        elif row.event == "complete":
            before = sent.get(row.label)
            if before is None or before.client != row.client:
                allowed = "a transfer that this producer sent before"
                findings.append(_finding(number, row, "never sent", "CM-01", "complete", allowed))
            elif row.label in done:
                findings.append(_finding(number, row, "completed twice", "CM-02", "complete again", "once"))
            else:
                findings += _untimely(number, row, before, engine, tolerance)
            done.add(row.label)
    return findings


def _untimely(number: int, row: LogRow, sent: LogRow, engine: Engine, tolerance: Tolerance) -> list[Finding]:
    """Return the finding, if a transfer's queues do not allow its completion yet, or did long ago."""
    begin, end = sent.ts_us - tolerance.lag, row.ts_us + tolerance.lag
    let_go = sent.ts_us
    for queue, freed in engine.holds.get(row.label, {}).items():
        let_go = max(let_go, freed)
        early = freed - row.ts_us
        if early <= tolerance.lag + tolerance.skew:
            continue
        if engine.courses[queue].may_be_off(row.client, sent.ts_us, row.ts_us, tolerance.lag):
            continue
        allowed = f"not before {queue} lets go of it, {early} us later"
        return [
            _finding(number, row, "completed while held", "FC-15", f"complete, {queue} is ON", allowed, early)
        ]
    late = row.ts_us - let_go
    queues = engine.queues.get(row.label, ())
    if late <= PATIENCE + tolerance.lag or any(engine.courses[name].may_be_on(begin, end) for name in queues):
        return []
    allowed = "at once: no queue of its can be ON"
    return [
        _finding(number, row, "withheld without cause", "CM-02", f"complete after {late} us", allowed, late)
    ]


def _finding(
    number: int, row: LogRow, kind: str, rule: str, seen: str, allowed: str, gap: int = 0
) -> Finding:
    return Finding(number, row.ts_us, kind, rule, row.client, row.queue, row.label, seen, allowed, gap)
