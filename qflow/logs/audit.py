"""Audits: check the log of a component, and report intervals (ON, held, blocked, owned) and findings.

An :class:`Auditor` passes each row to the engine, through :class:`~qflow.logs.client_log.LogPlayer`, and to
:class:`~qflow.logs.checks.RuleChecks`.  From the engine's events, :class:`Intervals` computes the intervals
in which a queue was ON, a transfer was held, a producer was blocked, or a group was owned.

Rows come in the order of ``seq``: the first row is ``begin`` with the component's workload, the last is
``end``.  A row that was seen before is a duplicate and is ignored, as a stream delivers at least once.  If a
row is missing, the rest of the audit is uncertain: a finding reports that, and the rules are no longer
checked.

An auditor's memory does not grow with the length of the log, and its state between two rows can be saved as
text.  So the same code audits a whole file in memory (:func:`audit`), a partition of a lake, a stream, and a
piece of a log between two checkpoints.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from itertools import chain, count, islice
from typing import Any, NamedTuple

from qflow.broker.errors import AmqpException
from qflow.broker.events import Event, EventTable
from qflow.logs.broker_log import BrokerLog
from qflow.logs.checks import RuleChecks
from qflow.logs.cleaning import AUTO, Cleaning, CleanLog, Skew, clean_rows
from qflow.logs.client_log import ClientLog, LogPlayer
from qflow.logs.findings import Finding, Result, finding_of, result_of
from qflow.logs.log_file import BEGIN, END, LakeRow, LogRow, QueueSample, sample_values
from qflow.logs.tolerance import Tolerance
from qflow.logs.workload_file import workload_text
from qflow.table import Tabular, columns_of
from qflow.workload.attributes import WorkloadError
from qflow.workload.model import Senders, Workload
from qflow.workload.simulate import Run
from qflow.workload.stage import pause_collector

FORMAT = "qflow auditor 5"

_NEVER = 1 << 62
"""Microseconds: later than any row."""


class _On(NamedTuple):
    """A queue that is ON: the begin, the message that turned it ON, and the queue's depth and bytes then."""

    since: int
    message: str
    depth: int
    bytes: int


class _Held(NamedTuple):
    """A held transfer: the begin, the number of stops of the queue so far, the message's size and label."""

    since: int
    stops: int
    size: int
    message: str


class _Owned(NamedTuple):
    """A group that a consumer owns: the begin, and the owner."""

    since: int
    owner: str


class _Blocked(NamedTuple):
    """A blocked producer: the begin, the queues that hold its transfers, and the transfers' number."""

    since: int
    queues: str
    held: int


@dataclass(slots=True)
class _Reports:
    """A comparison of the broker's reports on a queue with the engine: their number, and the differences."""

    number: int = 0
    agreeing: int = 0
    depth_off: int = 0
    depth_off_most: int = 0
    recorded_stops: int = 0
    engine_stops: int = 0


class Intervals:
    """A collector of intervals from the engine's events; :attr:`results` has the finished intervals."""

    def __init__(self, component: str, number: int = 0, state: dict[str, Any] | None = None) -> None:
        self.results: list[Result] = []
        # The component, and the number of its results so far.
        self._component, self.number = component, number
        # Finds the producer of a held transfer if several producers share a session.
        self.senders = Senders(())
        # The message of the latest transfer.
        self._sender = ""
        # The queues that are ON.
        self._flow: dict[str, _On] = {}
        # Measures of a queue (:mod:`qflow.workload.measures`).
        self._flowStoppedCount: dict[str, int] = {}
        self._max_depth: dict[str, int] = {}
        self._max_bytes: dict[str, int] = {}
        # By producer, command (a log may send a label twice) and queue.
        self._held: dict[str, dict[str, dict[str, _Held]]] = {}
        # By queue and group.
        self._groups: dict[str, dict[str, _Owned]] = {}
        self._blocked: dict[str, _Blocked] = {}
        self._depth: dict[str, int] = {}
        # The numbers of messages by queue and reason.
        self._drops: dict[str, dict[str, int]] = {}
        self._differs: dict[str, dict[str, int]] = {}
        self._samples: dict[str, _Reports] = {}
        self.handlers: dict[str, Callable[[Event], None]] = {
            "message.transfer": self._on_transfer,
            "enqueued": self._on_enqueued,
            "dequeued": self._on_dequeued,
            "dropped": self._on_dropped,
            "held": self._on_held,
            "let_go": self._on_hold_released,
            "flow_stopped": self._on_stopped,
            "flow_resumed": lambda event: self._end_flow(event.queue, event.time),
            "group_owned": self._on_owned,
            "group_freed": lambda event: self._end_group(event.queue, event.group, event.time),
            "client.block": self._on_block,
            "client.unblock": lambda event: self._end_block(event.session, event.time),
            "client.differs": self._on_differs,
        }
        if state is not None:
            self._restore(state)

    def _restore(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            setattr(self, f"_{name}", value)
        self._flow = {queue: _On(*on) for queue, on in self._flow.items()}
        self._blocked = {client: _Blocked(*blocked) for client, blocked in self._blocked.items()}
        self._samples = {queue: _Reports(*reports) for queue, reports in state["samples"].items()}
        self._groups = {
            queue: {group: _Owned(*owned) for group, owned in groups.items()}
            for queue, groups in self._groups.items()
        }
        for commands in self._held.values():
            for command, holds in commands.items():
                commands[command] = {queue: _Held(*held) for queue, held in holds.items()}

    # Events

    def _on_transfer(self, event: Event) -> None:
        self._sender = event.message

    def _on_enqueued(self, event: Event) -> None:
        detail: Any = event.detail
        queue, depth, size = event.queue, detail["depth"], detail["bytes"]
        self._depth[queue] = depth
        if depth > self._max_depth.get(queue, 0):
            self._max_depth[queue] = depth
        if size > self._max_bytes.get(queue, 0):
            self._max_bytes[queue] = size

    def _on_dequeued(self, event: Event) -> None:
        detail: Any = event.detail
        self._depth[event.queue] = detail["depth"]
        if detail["reason"] not in ("accept", "acquire"):
            _add_count(self._drops, event.queue, detail["reason"])

    def _on_dropped(self, event: Event) -> None:
        detail: Any = event.detail
        _add_count(self._drops, event.queue, detail["reason"])

    def _on_held(self, event: Event) -> None:
        detail: Any = event.detail
        sender = self.senders.of(event.session, event.message) or event.session
        commands = self._held.setdefault(sender, {})
        held = _Held(event.time, self._flowStoppedCount.get(event.queue, 0), event.size, event.message)
        commands.setdefault(str(detail["command"]), {})[event.queue] = held

    def _on_hold_released(self, event: Event) -> None:
        detail: Any = event.detail
        sender = self.senders.of(event.session, event.message) or event.session
        self._release_hold(sender, str(detail["command"]), event.queue, event.time)

    def _on_stopped(self, event: Event) -> None:
        detail: Any = event.detail
        self._flow[event.queue] = _On(event.time, self._sender, detail["count"], detail["size"])
        self._flowStoppedCount[event.queue] = self._flowStoppedCount.get(event.queue, 0) + 1

    def _on_owned(self, event: Event) -> None:
        self._groups.setdefault(event.queue, {})[event.group] = _Owned(event.time, event.link)

    def _on_block(self, event: Event) -> None:
        """Record that a producer's window is full, and which queues hold its transfers now."""
        held = self._held.get(event.session, {})
        queues = sorted({queue for holds in held.values() for queue in holds})
        self._blocked[event.session] = _Blocked(event.time, ",".join(queues), len(held))

    def _on_differs(self, event: Event) -> None:
        detail: Any = event.detail
        how = detail["engine"]
        name = "delivered to another consumer" if how.startswith("delivered to ") else how
        _add_count(self._differs, event.queue, name)

    def sample(self, queue: str, label: str) -> None:
        """Compare a report of the broker on a queue with the engine's queue."""
        values = sample_values(label)
        if values is None:
            return
        reported = QueueSample(0, *values)
        depth_off = abs(reported.msgDepth - self._depth.get(queue, 0))
        reports = self._samples.setdefault(queue, _Reports())
        reports.number += 1
        reports.agreeing += reported.flowStopped == (queue in self._flow)
        reports.depth_off += depth_off
        reports.depth_off_most = max(reports.depth_off_most, depth_off)
        reports.recorded_stops = reported.flowStoppedCount
        reports.engine_stops = self._flowStoppedCount.get(queue, 0)

    # The end

    def finish(self, time: int) -> None:
        """Add the open intervals to the results, without an end, and the engine's counts as findings."""
        for queue in sorted(self._flow):
            self._end_flow(queue, None)
        for session in sorted(self._held):
            for command, holds in list(self._held[session].items()):
                for queue in list(holds):
                    self._release_hold(session, command, queue, None)
        for queue in sorted(self._groups):
            for group in sorted(self._groups[queue]):
                self._end_group(queue, group, None)
        for client in sorted(self._blocked):
            self._end_block(client, None)
        for queue, depth in sorted(self._max_depth.items()):
            size = self._max_bytes.get(queue, 0)
            self.find(Finding(0, time, "max_depth", queue=queue, max_depth=depth, max_bytes=size))
        for kind, counts in (("dropped", self._drops), ("differs", self._differs)):
            for queue, names in sorted(counts.items()):
                for name, number in sorted(names.items()):
                    self.find(Finding(0, time, kind, queue=queue, name=name, number=number))
        for queue, reports in sorted(self._samples.items()):
            self.find(Finding(0, time, "reports", queue=queue, seen=reports.agreeing, expected=reports.number,
                              number=reports.number, depth_off=reports.depth_off,
                              depth_off_most=reports.depth_off_most))  # fmt: skip

    def agreements(self) -> dict[str, Agreement]:
        """Return the agreement of the engine with the broker's reports, by queue."""
        return {
            queue: Agreement(
                reports.number,
                reports.depth_off / reports.number,
                reports.depth_off_most,
                1 - reports.agreeing / reports.number,
                reports.recorded_stops,
                reports.engine_stops,
            )
            for queue, reports in self._samples.items()
        }

    def _end(self, kind: str, queue: str, client: str, since: int, time: int | None, **of_kind: Any) -> None:
        self.results.append(Result(self._component, self.number, kind, queue, client, since, time, **of_kind))
        self.number += 1

    def find(self, finding: Finding) -> None:
        """Add a finding to the results."""
        self.results.append(result_of(finding, self._component, self.number))
        self.number += 1

    def _end_flow(self, queue: str, time: int | None) -> None:
        on = self._flow.pop(queue)
        self._end("flow_on", queue, "", on.since, time, message=on.message, depth=on.depth, bytes=on.bytes)

    def _release_hold(self, session: str, command: str, queue: str, time: int | None) -> None:
        commands = self._held[session]
        held = commands[command].pop(queue)
        if not commands[command]:
            del commands[command]
            if not commands:
                del self._held[session]
        cause = None if time is None else "dequeued" if queue in self._flow else "resumed"
        self._end("held", queue, session, held.since, time, message=held.message, cause=cause, size=held.size,
                  flowStoppedCount=held.stops)  # fmt: skip

    def _end_group(self, queue: str, group: str, time: int | None) -> None:
        owned = self._groups[queue].pop(group)
        if not self._groups[queue]:
            del self._groups[queue]
        self._end("group_owned", queue, owned.owner, owned.since, time, group=group)

    def _end_block(self, client: str, time: int | None) -> None:
        blocked = self._blocked.pop(client, None)
        if blocked is not None:
            cause = "held" if blocked.held else "round trip"
            self._end(
                "blocked", blocked.queues, client, blocked.since, time, cause=cause, transfers=blocked.held
            )

    def is_at_rest(self) -> bool:
        """Return whether all queues are empty and OFF, and nothing is held, owned or blocked."""
        going_on = (self._flow, self._held, self._groups, self._blocked)
        return not any(going_on) and not any(self._depth.values())

    def join(self, before: Intervals) -> None:
        """Add the counts of the preceding piece of the log to these intervals, which began at rest."""
        self.number += before.number
        for counts, had in ((self._drops, before._drops), (self._differs, before._differs)):
            for queue, names in had.items():
                for name, number in names.items():
                    _add_count(counts, queue, name, number)
        for mine, earlier in ((self._max_depth, before._max_depth), (self._max_bytes, before._max_bytes)):
            for queue, most in earlier.items():
                mine[queue] = max(most, mine.get(queue, 0))
        for queue, reports in before._samples.items():
            own = self._samples.setdefault(queue, reports)
            if own is not reports:
                own.number += reports.number
                own.agreeing += reports.agreeing
                own.depth_off += reports.depth_off
                own.depth_off_most = max(own.depth_off_most, reports.depth_off_most)
                own.engine_stops += before._flowStoppedCount.get(queue, 0)
        # A held transfer has the number of its queue's interval ON, counted from the log's begin.
        for holds in (holds for commands in self._held.values() for holds in commands.values()):
            for queue, held in holds.items():
                holds[queue] = held._replace(stops=held.stops + before._flowStoppedCount.get(queue, 0))
        for queue, times in before._flowStoppedCount.items():
            self._flowStoppedCount[queue] = self._flowStoppedCount.get(queue, 0) + times

    def state(self) -> dict[str, Any]:
        """Return the state as a JSON value, without the results, which must be taken before."""
        names = ("sender", "flow", "flowStoppedCount", "held", "groups", "blocked", "depth", "max_depth",
                 "max_bytes", "drops", "differs", "samples")  # fmt: skip
        state = {name: getattr(self, f"_{name}") for name in names}
        return state | {"samples": {queue: astuple(reports) for queue, reports in self._samples.items()}}


def _add_count(counts: dict[str, dict[str, int]], queue: str, name: str, number: int = 1) -> None:
    names = counts.setdefault(queue, {})
    names[name] = names.get(name, 0) + number


class Agreement(NamedTuple):
    """The agreement of the engine with the broker's own reports on a queue."""

    samples: int
    mean_depth_difference: float
    max_depth_difference: int
    flow_differs: float
    recorded_stops: int
    engine_stops: int


class Auditor:
    """An auditor of one component, which takes the rows of its log and returns results.

    Parameters:
        component: The component's name.
        state: The state from which to continue, as :meth:`state` returned it; None to begin.
        tolerance: The clock difference and delay that are no finding.  None for the tolerance in the label of
            the ``begin`` row (:meth:`qflow.logs.tolerance.Tolerance.text`), or one second for each if the
            label is empty.
        observer: A function that gets the engine's events, too.

    Attributes:
        next_seq (int): The number of the next row.
        duplicates (int): The number of repeated rows, which are no finding, as streams deliver at least once.
        is_finished (bool): Whether the ``end`` row has been seen.

    >>> workload = {"duration": 1, "queues": {"q": {"qpid.flow_stop_count": 1}},
    ...     "producers": [{"name": "p", "to": ["", "q"], "rate": 1, "capacity": 9, "size": 1}]}
    >>> auditor = Auditor("log/q")
    >>> rows = [LakeRow(n, n, "p", "transfer", "q", f"p-{n}", 1, "") for n in (1, 2)]
    >>> on = auditor.feed([LakeRow.begin(json.dumps(workload)), *rows, LakeRow.end(3, 9)])[0]
    >>> on.kind, on.queue, on.begin_us, on.end_us, on.message, on.depth, on.bytes
    ('flow_on', 'q', 2, None, 'p-2', 2, 80)
    """

    def __init__(
        self,
        component: str,
        state: str | None = None,
        tolerance: Tolerance | None = None,
        observer: Callable[[Event], None] | None = None,
    ) -> None:
        self.component, self.tolerance = component, tolerance or Tolerance()
        self._is_told = tolerance is not None
        self.next_seq = self.duplicates = self._time = 0
        self.is_finished, self._is_whole, self._cannot = False, True, ""
        self.intervals = Intervals(component)
        self.player: LogPlayer | None = None
        self._checks: RuleChecks | None = None
        self._observer = observer
        # The heap of completions that the checks have not judged yet.
        self._pending: list[Any] = []
        self._next_gap = _NEVER
        if state is not None:
            self._continue(json.loads(state))

    def feed(self, rows: Iterable[LakeRow]) -> list[Result]:
        """Audit the next rows, and return the results that are certain now."""
        with pause_collector():
            self._feed(rows)
        return self._take_results()

    def _feed(self, rows: Iterable[LakeRow]) -> None:
        pending = self._pending
        for row in rows:
            seq, time, client, event, queue, label, _, _, text = row
            if time > self._next_gap and self._checks is not None:
                self._checks.pass_gap()
                self._next_gap = self._checks.next_gap()
            if seq != self.next_seq and not self._is_next(seq, time):
                continue
            self.next_seq = seq + 1
            self._time = time
            checks, player = self._checks, self.player
            if event == BEGIN:
                self._begin_text(text or "null", label)
            elif event == END:
                self._finish()
            elif checks is not None and player is not None:
                if pending and pending[0].due < time:
                    checks.due(time)
                if event == "stats":
                    player.pass_time(time)
                    self.intervals.sample(queue, label)
                elif (client, event, queue) in checks.known or checks.is_known(row):
                    check, play = checks.rows.get(event), player.rows.get(event)
                    if check is not None and self._is_whole:
                        check(row)
                    if play is not None:
                        play(row)

    def _is_next(self, seq: int, time: int) -> bool:
        if seq < self.next_seq:
            self.duplicates += 1
            return False
        missing = Finding(seq, time, "gap", seen=seq - 1, expected=self.next_seq, number=seq - self.next_seq)
        self.intervals.find(missing)
        self._is_whole = False
        return True

    # Begin and end

    def begin(self, workload: Workload, state: tuple[Any, Any] = (None, None)) -> None:
        """Begin a component, or raise the broker's own exception if it refuses to declare a queue."""
        intervals, observer = self.intervals, self._observer
        intervals.senders = Senders(workload.producers)
        self._checks = checks = RuleChecks(workload, self.tolerance, intervals.find, self._pending, state[1])
        self._next_gap = checks.next_gap()
        handlers, checked = intervals.handlers, checks.events

        def observe(event: Event) -> None:
            if observer is not None:
                observer(event)
            handler = handlers.get(event[1])
            if handler is not None:
                handler(event)
                check = checked.get(event[1])
                if check is not None:
                    check(event)

        self.player = LogPlayer(workload, observe, state[0], is_doubtful=bool(self.tolerance.doubt))

    def _begin_text(self, text: str, tolerance: str) -> None:
        try:
            if tolerance and not self._is_told:
                self.tolerance = Tolerance.of_text(tolerance)
            self.begin(Workload.from_json(json.loads(text), name=self.component))
        except (AmqpException, WorkloadError, ValueError) as error:
            self._cannot = str(error)
            self.intervals.find(Finding(self.next_seq - 1, self._time, "refused", name=self._cannot))

    def _finish(self) -> None:
        self.is_finished = True
        player = self.player
        if player is not None and self._checks is not None:
            player.finish(self._time)
            if self._is_whole:
                self._checks.finish(self._time, player.errors)
            for client, error in sorted(player.errors.items()):
                self.intervals.find(Finding(0, self._time, "died", client, name=str(error)))
            self.intervals.finish(self._time)
        elif not self._cannot:
            self.intervals.find(Finding(0, self._time, "no-begin"))

    def skip_to(self, seq: int, time: int) -> None:
        """Skip to a later row, with which a piece of the component begins."""
        self.next_seq, self._time = seq, time
        if self.player is not None:
            self.player.pass_time(time)

    def cut_off(self) -> list[Result]:
        """Finish a component whose log has no ``end`` row, and return the remaining results."""
        if self.is_finished:
            return []
        self.intervals.find(Finding(0, self._time, "cut-off", seen=self.next_seq - 1))
        self._finish()
        return self._take_results()

    def _take_results(self) -> list[Result]:
        results, self.intervals.results = self.intervals.results, []
        return results

    # Pieces

    def rest_key(self) -> str:
        """Return the state that determines the rest of the audit as text, or "" if it is not at rest."""
        if self.player is None or self._checks is None or not self._is_whole:
            return ""
        is_at_rest = self._checks.is_at_rest() and self.intervals.is_at_rest()
        return self.player.rest_key() if is_at_rest else ""

    def counts(self) -> tuple[int, dict[str, int]]:
        """Return the present number of results, and the number of stops of each queue."""
        return self.intervals.number, self.intervals.state()["flowStoppedCount"]

    def join(self, before: Auditor) -> bool:
        """Add the audit of the preceding piece to this one; return whether no message is in both."""
        assert self._checks is not None and before._checks is not None
        if not self._checks.join(before._checks):
            return False
        self.intervals.join(before.intervals)
        return True

    # State

    def state(self) -> str:
        """Return the auditor's state as JSON text; only valid between calls of :meth:`feed`."""
        value = {
            "format": FORMAT,
            "counts": [self.next_seq, self.intervals.number, self.duplicates, self._time],
            "flags": [self.is_finished, self._is_whole, self._cannot],
            "tolerance": self.tolerance.plain(),
            "intervals": self.intervals.state(),
            "workload": None if self.player is None else workload_text(self.player.workload),
            "player": None if self.player is None else self.player.state(),
            "checks": None if self._checks is None else self._checks.state(),
        }
        return json.dumps(value, separators=(",", ":"))

    def _continue(self, value: Any) -> None:
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            got = value.get("format") if isinstance(value, dict) else value
            raise ValueError(f"the format of an auditor's state must be {FORMAT!r}; got {got!r}")
        self.next_seq, number, self.duplicates, self._time = value["counts"]
        self.is_finished, self._is_whole, self._cannot = value["flags"]
        self.tolerance = Tolerance.of_plain(value["tolerance"])
        self.intervals = Intervals(self.component, number, value["intervals"])
        if value["workload"] is not None:
            workload = Workload.from_json(json.loads(value["workload"]), name=self.component)
            self.begin(workload, (value["player"], value["checks"]))


# A whole log in memory


@dataclass(frozen=True, slots=True)
class Audit(Tabular):
    """The findings of an audit as a table, with the run that the engine reconstructed.

    Parameters:
        run: The run, with the broker's events as the engine reconstructed them from the log.
        findings: The contradictions to the rules and the gaps, in the order of the rows; empty if the rules
            allow everything in the log.
        tolerance: The clock difference and delay up to which no finding is reported.
        agreements: The agreement of the engine with the broker's reports, by queue.
        cleaning: The report on the cleaning of the log's rows, and on missing rows.
    """

    run: Run
    findings: list[Finding]
    tolerance: Tolerance
    agreements: dict[str, Agreement]
    cleaning: Cleaning = field(default_factory=Cleaning)

    def columns(self, start: int = 0, end: int | None = None) -> dict[str, list[Any]]:
        """Return the findings as columns by name, or a slice of their rows."""
        return columns_of(self.findings[start:end], Finding._fields)

    def __repr__(self) -> str:
        return f"Audit({self.run.workload.name!r}, {len(self.findings)} findings)"


def audit(
    log: ClientLog,
    workload: Workload,
    tolerance: Tolerance | None = None,
    skew: Skew = AUTO,
    broker_log: BrokerLog | None = None,
) -> Audit:
    """Replay a log through the engine and check it against the rules.

    Parameters:
        log: The client log.  A log that was read from a file is clean already; the rows of another log are
            first sorted, and exact duplicates dropped.
        workload: The recorded workload, with its queues, bindings, producers and consumers.
        tolerance: The clock difference and delay up to which no finding is reported; None to estimate them
            from the log.
        skew: The offsets of the clients' clocks in microseconds, which are subtracted from their times;
            ``auto`` to estimate them.
        broker_log: The broker's own log of the same time.  Findings that it refutes, as it shows when queues
            were really ON, are left out.  It is used only for a client log with dates.

    Returns:
        The audit.  A row of a client that is not in the workload is a finding, and is left out of the run.

    Raises:
        AmqpException: If the broker refuses to declare a queue.

    >>> from qflow.trace import LogRow
    >>> from qflow.workload import Producer
    >>> producer = Producer("p", ("", "q"), rate=10, capacity=5, size=100)
    >>> workload = Workload("small", 1, {"q": {}}, producers=(producer,))
    >>> rows = [LogRow(1, "p", "transfer", "q", "p-1", 100, "")]
    >>> rows.append(LogRow(3, "p", "complete", "q", "p-2", 0, ""))
    >>> audit(ClientLog("small", rows), workload).findings[0].text()
    'row 2, 3e-06 s: never sent (CM-01), p, q, p-2: complete; allowed: a message that a producer sent before'
    """
    events, clean = EventTable(), None
    cleaning, estimated, rows = log.cleaning, log.tolerance, log.rows
    if cleaning is None or estimated is None:
        clean = clean_rows(rows, skew if tolerance is None else tolerance.skew)
        cleaning, estimated, rows = clean.cleaning, clean.tolerance, clean.rows()
    audited = audit_parts(log.name, [rows], workload, tolerance or estimated, events)
    if tolerance is None and skew == AUTO and is_about_clocks(audited.findings):
        clean = clean or clean_rows(rows)
        corrected = correct_clocks(clean, workload)
        if corrected is not clean:
            events = EventTable()
            audited = audit_parts(log.name, corrected.parts(), workload, corrected.tolerance, events)
            offsets = {**cleaning.offsets, **corrected.cleaning.offsets}
            cleaning = replace(cleaning, offsets=offsets)
    if broker_log is not None and log.start_us is not None:
        audited = replace(audited, findings=broker_log.weigh_findings(audited.findings, log.start_us))
    return replace(audited, cleaning=cleaning)


_OF_CLOCKS = {"completed while held", "withheld without cause", "thresholds differ", "completed late"}
_OF_CLOCKS |= {"order", "group order", "group owned by another", "delivered twice"}
"""The kinds of findings that a clock ahead of the others can also cause.

Such a clock makes settlements reach the engine too late, or one consumer seem to be served before another."""

_TRIAL_ROWS = 20_000
"""The number of rows from which it is decided whether a log's clocks are corrected."""


def is_about_clocks(findings: Iterable[Finding]) -> bool:
    """Return whether any of the findings is of a kind that a clock ahead of the others can cause."""
    return any(found.kind in _OF_CLOCKS for found in findings)


def correct_clocks(clean: CleanLog, workload: Workload, most: int = _TRIAL_ROWS) -> CleanLog:
    """Return the log with clocks that may be ahead corrected, if that removes nine of ten findings."""
    # A queue that is never empty and a clock that is ahead look the same: no message arrives at once.  But
    # only a wrong clock makes the broker seem to break its rules.
    # most: The number of rows, from the log's beginning, that are audited to decide this.
    candidates = dict(clean.may_be_ahead)
    if not candidates:
        return clean

    def find(log: CleanLog) -> list[Finding]:
        rows = list(islice(chain.from_iterable(log.parts()), most))
        return audit_parts("", [rows], workload, log.tolerance, EventTable()).findings

    before = find(clean)
    alone = [{client: offset} for client, offset in candidates.items()]
    for offsets in [candidates, *alone[: _MOST_TRIALS * (len(alone) > 1)]] if is_about_clocks(before) else []:
        corrected = clean.with_clocks(offsets)
        if _count(find(corrected)) * 10 <= _count(before):
            return corrected
    return clean


def _count(findings: Iterable[Finding]) -> int:
    return sum(found.number if found.kind == "thresholds differ" else 1 for found in findings)


_MOST_TRIALS = 4
"""The largest number of clocks that are tried one by one if correcting all together does not help."""


def audit_parts(
    name: str,
    parts: Iterable[Sequence[LogRow]],
    workload: Workload,
    tolerance: Tolerance,
    events: EventTable,
    tell: Callable[[int], None] | None = None,
) -> Audit:
    """Audit a clean log in batches; the engine's events are added to `events`, which may be emptied."""
    auditor = Auditor(name, None, tolerance, events)
    auditor.begin(workload)
    auditor.next_seq = 1
    done = end = 0
    found: list[Finding] = []

    def keep(results: Iterable[Result]) -> None:
        found.extend(finding_of(result) for result in results if result.kind == "finding")

    for rows in parts:
        keep(auditor.feed(map(LakeRow.of, count(done + 1), rows)))
        done += len(rows)
        end = max(0, rows[-1].ts_us) if rows else end
        if tell is not None:
            tell(done)
    keep(auditor.feed([LakeRow.end(done + 1, end)]))
    player = auditor.player
    assert player is not None
    player.dissolve()
    run = Run(workload, events, end, player.errors)
    needed = sorted(one for one in found if one.needs_reader)
    return Audit(run, needed, tolerance, auditor.intervals.agreements())
