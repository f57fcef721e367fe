"""Finding: something in a log that the rules do not allow; Tolerance: what clocks and chance explain.

Rows of clients that a workload has not, and deliveries to those that have not subscribed.

What producers logged, held against the engine: which completion may come when.

What consumers logged, held against the rules: who may have which message, and in which order.

Messages that no consumer ever got, although later ones were delivered and the queue drops nothing.

What the broker reported of its queues now and then, beside what the engine made of the log.

Audit a client log: replay it through the engine, and say where the two cannot both be right.
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from qflow.broker.flow_limit import FlowThresholds
from qflow.broker.settings import QueueSettings
from qflow.logs.client_log import ClientLog, LogRow, replay
from qflow.prediction.costs import round_trips
from qflow.workload.model import Workload
from qflow.workload.run import Run

SECOND = 1_000_000
SHORTEST_LAG = 60_000
"""Microseconds: a settlement may wait for a delayed acknowledgement (40 to 44 ms) and for its turn."""

LONGEST_LAG = 1_000_000


class Finding(NamedTuple):
    """One thing that the rules do not allow.

    Fields
    ------
    row : int
        Of the log, from 1, the header not counted.
    time : int
        Microseconds since the start.
    kind : str
        What it is, such as ``completed while held``.
    rule : str
        The rule that it breaks, such as ``FC-15``.
    client, queue, message : str
        Whose row it is, and of what; empty if it is of none.
    seen : str
        What the log shows.
    allowed : str
        What the rules allow.
    gap : int
        By how many microseconds; by how many messages, if ``kind`` is ``credit exceeded``.

    Examples
    --------
    >>> Finding(7, 5_000, "never sent", "CM-01", "c", "q", "p-9", "delivered", "what was sent", 0).text()
    'row 7, 0.005 s: never sent (CM-01), c, q, p-9: delivered; allowed: what was sent'
    """

    row: int
    time: int
    kind: str
    rule: str
    client: str
    queue: str
    message: str
    seen: str
    allowed: str
    gap: int = 0

    def text(self) -> str:
        """Say it in one line."""
        what = ", ".join(part for part in (self.client, self.queue, self.message) if part)
        gap = f"; gap {self.gap}" if self.gap else ""
        place = f"row {self.row}, {self.time / SECOND:g} s"
        return f"{place}: {self.kind} ({self.rule}), {what}: {self.seen}; allowed: {self.allowed}{gap}"


@dataclass(frozen=True, slots=True)
class Tolerance:
    """What is no finding, in microseconds.

    Parameters
    ----------
    skew : int
        By how much the clients' clocks may differ.
    lag : int
        How long what a client does may take to reach the broker, and the answer to come back.

    Examples
    --------
    >>> Tolerance.estimated([])
    Tolerance(skew=0, lag=60000)
    """

    skew: int
    lag: int

    @classmethod
    def estimated(cls, rows: Sequence[LogRow]) -> Tolerance:
        """Estimate both from a log.

        Nothing arrives before it is sent.  If more than one in a hundred messages seems to, the clocks
        differ by that much; if fewer do, these are findings.
        """
        sent: dict[str, int] = {}
        ways: list[int] = []
        by_client: dict[str, list[LogRow]] = {}
        for row in rows:
            if row.event == "transfer":
                sent.setdefault(row.label, row.ts_us)
            if row.event in ("transfer", "complete"):
                by_client.setdefault(row.client, []).append(row)
        for row in rows:
            if row.event == "deliver" and row.label in sent:
                ways.append(row.ts_us - sent[row.label])
        trips = sorted(trip for own in by_client.values() for _, _, trip in round_trips(own))
        trips = [trip for trip in trips if trip < LONGEST_LAG]
        lag = 3 * _at(trips, 99) if len(trips) >= 100 else 0
        return cls(max(0, -_at(sorted(ways), 1)), min(LONGEST_LAG, max(SHORTEST_LAG, lag)))


def _at(ordered: Sequence[int], percent: int) -> int:
    return ordered[len(ordered) * percent // 100] if ordered else 0


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order of the log's rows."""
    return sorted(findings)


NumberedRow = tuple[int, LogRow]
AT_CONSUMERS = ("deliver", "accept", "release", "reject")
AT_PRODUCERS = ("transfer", "complete", "block", "unblock")


def known_rows(
    rows: Sequence[LogRow], workload: Workload, tolerance: Tolerance
) -> tuple[list[NumberedRow], list[Finding]]:
    """Return the rows that belong to a workload's clients, each with its number; and findings for the others.

    Examples
    --------
    >>> rows = [LogRow(5, "x", "deliver", "q", "p-1", 7, "")]
    >>> known_rows(rows, Workload("w", 1, {"q": {}}), Tolerance(0, 0))[1][0].kind
    'not subscribed'
    """
    producers = {producer.name for producer in workload.producers}
    readers = {consumer.name: consumer for consumer in workload.consumers}
    known: list[NumberedRow] = []
    findings: list[Finding] = []
    for number, row in enumerate(rows, 1):
        if row.event in AT_CONSUMERS:
            reader = readers.get(row.client)
            if reader is None or reader.queue != row.queue:
                queues = _listed(name for name, one in readers.items() if one.queue == row.queue)
                findings.append(_stranger(number, row, f"{row.event} at {row.client!r}", queues, 0))
                continue
            early = round(reader.start * SECOND) - tolerance.skew - row.ts_us
            if early > 0:
                seen = f"{row.event} {early} us before it subscribes"
                findings.append(_stranger(number, row, seen, f"from {reader.start:g} s on", early))
                continue
        elif row.event in AT_PRODUCERS and row.client not in producers:
            allowed = f"the workload's producers: {_listed(producers)}"
            seen = f"{row.event} of {row.client!r}"
            findings.append(
                Finding(
                    number,
                    row.ts_us,
                    "unknown producer",
                    "CAP-01",
                    row.client,
                    row.queue,
                    row.label,
                    seen,
                    allowed,
                )
            )
            continue
        known.append((number, row))
    return known, findings


def _stranger(number: int, row: LogRow, seen: str, allowed: str, gap: int) -> Finding:
    kind, rule = "not subscribed", "CN-03"
    return Finding(
        number,
        row.ts_us,
        kind,
        rule,
        row.client,
        row.queue,
        row.label,
        seen,
        f"consumers of it: {allowed}",
        gap,
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


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


SETTLED = ("accept", "release", "reject")
OldKey = tuple[str, str, str]


@dataclass(slots=True)
class _Pending:
    """A delivery out of a group that another consumer still holds; its settlement tells how long."""

    number: int
    row: LogRow
    owner: str


@dataclass(slots=True)
class _Queue:
    """What a log has shown of one queue so far."""

    is_fifo: bool
    is_grouped: bool
    holders: dict[str, str] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    returned: set[str] = field(default_factory=set)
    newest: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    groups: dict[str, dict[str, int]] = field(default_factory=dict)
    pending: dict[str, list[_Pending]] = field(default_factory=dict)


class DeliveryAudit:
    """Goes through a log's rows in order, and notes what consumers cannot have seen.

    Parameters
    ----------
    workload : Workload
        What was run.
    tolerance : Tolerance
        What is no finding.

    Examples
    --------
    >>> audit = DeliveryAudit(Workload("w", 1, {"q": {}}), Tolerance(0, 0))
    >>> audit.take([(1, LogRow(5, "c", "deliver", "q", "p-1", 7, ""))])
    >>> audit.findings[0].kind
    'never sent'
    """

    def __init__(self, workload: Workload, tolerance: Tolerance) -> None:
        self.findings: list[Finding] = []
        self._tolerance = tolerance
        self._prefetch = {consumer.name: consumer.prefetch for consumer in workload.consumers}
        self._held = dict.fromkeys(self._prefetch, 0)
        self._sent: dict[str, tuple[int, int, str]] = {}
        self._queues = {
            name: _queue(QueueSettings.from_arguments(arguments))
            for name, arguments in workload.queues.items()
        }
        self._groups: dict[str, str] = {}

    def take(self, rows: Sequence[NumberedRow]) -> None:
        """Look at rows, and at what is still open after the last."""
        self._collect(rows)
        for number, row in rows:
            if row.event == "deliver":
                self._deliver(number, row)
            elif row.event in SETTLED:
                self._settle(number, row)
            elif row.event == "error":
                self._end(row)
        if rows:
            for queue in self._queues.values():
                for group in list(queue.pending):
                    self._resolve(queue, group, "", rows[-1][1].ts_us)

    def _collect(self, rows: Sequence[NumberedRow]) -> None:
        for place, (_, row) in enumerate(rows):
            if row.event == "transfer":
                self._sent.setdefault(row.label, (row.ts_us, place, row.client))
                self._groups[row.label] = row.group

    def _note(
        self, number: int, row: LogRow, kind: str, rule: str, seen: str, allowed: str, gap: int = 0
    ) -> None:
        self.findings.append(
            Finding(number, row.ts_us, kind, rule, row.client, row.queue, row.label, seen, allowed, gap)
        )

    # Deliveries

    def _deliver(self, number: int, row: LogRow) -> None:
        queue = self._queues[row.queue]
        sent = self._sent.get(row.label)
        if sent is None:
            self._note(number, row, "never sent", "CM-01", "delivered", "a message that a producer sent")
            return
        early = sent[0] - row.ts_us
        if early > self._tolerance.skew:
            self._note(
                number, row, "before it was sent", "CM-01", f"delivered {early} us early", "after", early
            )
        holder = queue.holders.get(row.label)
        if holder is not None or row.label in queue.gone:
            seen = f"delivered again, {holder or 'a consumer'} {'holds' if holder else 'accepted'} it"
            self._note(number, row, "delivered twice", "CN-10", seen, "once, unless it is given back")
            return
        queue.holders[row.label] = row.client
        self._held[row.client] += 1
        over = self._held[row.client] - self._prefetch[row.client]
        if over > 0:
            allowed = f"{self._prefetch[row.client]} at a time"
            self._note(
                number, row, "credit exceeded", "CN-04", f"{over} more than it may hold", allowed, over
            )
        if queue.is_grouped:
            self._group(number, row, queue)
        self._order(number, row, queue, sent)

    def _group(self, number: int, row: LogRow, queue: _Queue) -> None:
        group = self._groups[row.label]
        owners = queue.groups.setdefault(group, {})
        for owner, count in owners.items():
            if owner != row.client and count:
                queue.pending.setdefault(group, []).append(_Pending(number, row, owner))
        owners[row.client] = owners.get(row.client, 0) + 1

    def _order(self, number: int, row: LogRow, queue: _Queue, sent: tuple[int, int, str]) -> None:
        """A queue gives the oldest first: of a group, or to one consumer, what one producer sent in order."""
        if not queue.is_fifo or row.label in queue.returned:
            return
        whose = (f"group {self._groups[row.label]}" if queue.is_grouped else row.client, sent[2])
        place, newest = queue.newest.get(whose, (-1, ""))
        if sent[1] < place:
            rule, kind = ("MG-06", "group order") if queue.is_grouped else ("CN-27", "order")
            late = self._sent[newest][0] - sent[0]
            self._note(
                number, row, kind, rule, f"delivered after {newest}", "the one sent first, first", late
            )
        else:
            queue.newest[whose] = (sent[1], row.label)

    # Settlements

    def _settle(self, number: int, row: LogRow) -> None:
        queue = self._queues[row.queue]
        holder = queue.holders.get(row.label)
        if holder != row.client:
            seen = f"{row.event}, {holder} holds it" if holder else f"{row.event}, it does not hold it"
            self._note(number, row, "not held", "CN-13", seen, "what was delivered to it and not settled")
            return
        del queue.holders[row.label]
        self._held[row.client] -= 1
        (queue.gone if row.event == "accept" else queue.returned).add(row.label)
        self._leave_group(row.client, row.label, queue, row.ts_us)

    def _leave_group(self, client: str, label: str, queue: _Queue, now: int) -> None:
        if not queue.is_grouped:
            return
        group = self._groups[label]
        owners = queue.groups[group]
        owners[client] -= 1
        if not owners[client]:
            self._resolve(queue, group, client, now)

    def _resolve(self, queue: _Queue, group: str, owner: str, now: int) -> None:
        """Note by how much another consumer got too early what it got of a group whose owner lets go now."""
        waiting = queue.pending.get(group, [])
        queue.pending[group] = [one for one in waiting if owner and one.owner != owner]
        for one in waiting:
            gap = now - one.row.ts_us
            if (not owner or one.owner == owner) and gap > self._tolerance.skew:
                seen = f"group {group} delivered while {one.owner} holds some of it"
                self._note(
                    one.number, one.row, "group owned by another", "MG-07", seen, f"to {one.owner}", gap
                )

    def _end(self, row: LogRow) -> None:
        """A session that ends gives back all it holds (MG-16)."""
        for queue in self._queues.values():
            for label in [label for label, holder in queue.holders.items() if holder == row.client]:
                del queue.holders[label]
                queue.returned.add(label)
                self._leave_group(row.client, label, queue, row.ts_us)
        if row.client in self._held:
            self._held[row.client] = 0


def _queue(settings: QueueSettings) -> _Queue:
    is_fifo = not settings.priorities and not settings.last_value_queue_key
    return _Queue(is_fifo, bool(settings.group_header_key))


def discard_findings(rows: Sequence[NumberedRow], workload: Workload, engine: Engine) -> list[Finding]:
    """Return the messages that a queue took, and that vanished though its policy drops nothing.

    A message counts as gone if another one of the same producer and group, sent later, was delivered from
    the queue.  Where the engine dropped messages too (a ring, a replaced value) none counts.

    Examples
    --------
    >>> from qflow.workload import simulate
    >>> workload = Workload("w", 1, {"q": {}})
    >>> discard_findings([], workload, Engine(simulate(workload)))
    []
    """
    keeping = {
        name: settings.policy
        for name, arguments in workload.queues.items()
        if _is_fifo(settings := QueueSettings.from_arguments(arguments)) and not engine.courses[name].evicts
    }
    sent = {row.label: (number, row) for number, row in rows if row.event == "transfer"}
    delivered: set[tuple[str, str]] = set()
    last: dict[tuple[str, str, str], int] = {}
    for _, row in rows:
        if row.event == "deliver" and row.queue in keeping and row.label in sent:
            delivered.add((row.queue, row.label))
            number, source = sent[row.label]
            key = (row.queue, source.client, source.group)
            last[key] = max(last.get(key, 0), number)
    findings: list[Finding] = []
    for label, (number, row) in sent.items():
        for queue in engine.queues.get(label, ()):
            if queue not in keeping or (queue, label) in delivered or row.client in engine.dead:
                continue
            if number < last.get((queue, row.client, row.group), 0):
                allowed = f"policy {keeping[queue]} drops nothing that it took"
                seen = "never delivered, later ones are"
                findings.append(
                    Finding(number, row.ts_us, "discarded", "LP-05", row.client, queue, label, seen, allowed)
                )
    return findings


def _is_fifo(settings: QueueSettings) -> bool:
    return not settings.last_value_queue_key and not settings.priorities


class Agreement(NamedTuple):
    """How far the engine and the broker's own reports of a queue agree.

    Fields
    ------
    samples : int
        How many reports there are.
    mean_depth_difference, max_depth_difference : float, int
        Of msgDepth, without regard to sign.
    flow_differs : float
        Share of the reports in which flowStopped is not what the engine says.
    recorded_stops, engine_stops : int
        flowStoppedCount at the last report.
    """

    samples: int
    mean_depth_difference: float
    max_depth_difference: int
    flow_differs: float
    recorded_stops: int
    engine_stops: int


def agreements(rows: Sequence[LogRow], run: Run) -> dict[str, Agreement]:
    """Return for each queue that was reported how far the engine agrees.

    Examples
    --------
    >>> from qflow.workload import Workload, simulate
    >>> row = LogRow(50_000, "broker", "stats", "q", "[3, 444, false, 0, 1, 0, 0]", 0, "")
    >>> agreements([row], simulate(Workload("w", 1, {"q": {}})))["q"].max_depth_difference
    3
    """
    courses: dict[str, tuple[list[int], list[tuple[int, bool, int]]]] = {
        name: ([0], [(0, False, 0)]) for name in run.workload.queues
    }
    for event in run.events:
        if event.kind not in ("enqueued", "dequeued", "flow_stopped", "flow_resumed"):
            continue
        times, states = courses[event.queue]
        depth, stopped, stops = states[-1]
        if event.kind.startswith("flow_"):
            stopped = event.kind == "flow_stopped"
            stops += stopped
        else:
            depth += 1 if event.kind == "enqueued" else -1
        times.append(event.time)
        states.append((depth, stopped, stops))
    reports: dict[str, list[tuple[int, list[int]]]] = {}
    for row in rows:
        if row.event == "stats" and row.queue in courses and row.ts_us >= 0:
            reports.setdefault(row.queue, []).append((row.ts_us, json.loads(row.label)))
    return {name: _agreement(reports[name], *courses[name]) for name in courses if name in reports}


def _agreement(
    reports: Sequence[tuple[int, list[int]]], times: Sequence[int], states: Sequence[tuple[int, bool, int]]
) -> Agreement:
    differences: list[int] = []
    wrong = 0
    stops = recorded = 0
    for time, report in reports:
        depth, stopped, stops = states[bisect_right(times, time) - 1]
        differences.append(abs(report[0] - depth))
        wrong += bool(report[2]) != stopped
        recorded = report[3]
    count = len(reports)
    return Agreement(count, sum(differences) / count, max(differences), wrong / count, recorded, stops)


@dataclass(frozen=True, slots=True)
class Audit:
    """What came of it.

    Parameters
    ----------
    run : Run
        The log with the broker's inner events, as the engine reconstructs them.
    findings : list of Finding
        What the rules do not allow, in the order of the rows; empty for an honest log.
    tolerance : Tolerance
        What was not counted as a finding.
    agreements : dict
        Queue name to how far the engine agrees with what the broker reported of it.
    """

    run: Run
    findings: list[Finding]
    tolerance: Tolerance
    agreements: dict[str, Agreement]


def audit(log: ClientLog, workload: Workload, tolerance: Tolerance | None = None) -> Audit:
    """Replay a log through the engine and hold what the clients saw against the rules.

    Parameters
    ----------
    log : ClientLog
        What was recorded.
    workload : Workload
        What was run: queues, bindings, and who reads what.
    tolerance : Tolerance or None
        How far clocks and chance may go; None to estimate that from the log.

    Returns
    -------
    Audit
        Rows of clients that the workload has not are findings, and left out of the run.

    Raises
    ------
    AmqpException
        The broker's own refusal of a queue.

    Examples
    --------
    >>> from qflow.trace import LogRow
    >>> from qflow.workload import Producer
    >>> producer = Producer("p", ("", "q"), rate=10, capacity=5, size=100)
    >>> workload = Workload("small", 1, {"q": {}}, producers=(producer,))
    >>> rows = [LogRow(1, "p", "transfer", "q", "p-1", 100, "")]
    >>> rows.append(LogRow(3, "p", "complete", "q", "p-2", 0, ""))
    >>> finding = audit(ClientLog("small", rows), workload).findings[0]
    >>> finding.row, finding.kind, finding.rule, finding.allowed
    (2, 'never sent', 'CM-01', 'a transfer that this producer sent before')
    """
    tolerance = tolerance or Tolerance.estimated(log.rows)
    known, findings = known_rows(log.rows, workload, tolerance)
    deliveries = DeliveryAudit(workload, tolerance)
    deliveries.take(known)
    run = replay(ClientLog(log.name, [row for _, row in known]), workload)
    engine = Engine(run)
    findings += deliveries.findings
    findings += completion_findings(known, engine, tolerance)
    findings += discard_findings(known, workload, engine)
    return Audit(run, in_order(findings), tolerance, agreements(log.rows, run))
