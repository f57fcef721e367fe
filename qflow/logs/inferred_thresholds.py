"""Inferred thresholds: find the flow control thresholds that best explain a client log.

No client sees when a queue turns ON, but the times of its completions show it: a transfer that was sent while
the queue was ON is complete when the queue falls below its resume thresholds, or when the message has left
the queue (FC-14 to FC-17).  The queue's depth follows from the sent and settled messages, whatever its
thresholds are.  So the log is replayed once without flow control.  Then a search finds the thresholds
(*levels*) for which the sum of the differences between the expected and the recorded times of completions
(the *misfit*) is smallest.  Rounder numbers nearby are preferred if they explain the log about as well,
because people choose such numbers.  Finally, the log is audited with the inferred thresholds and with the
workload's own.

A depth is known up to the number of messages in transit, and so is a level.  A level that the queue never
crossed cannot be inferred: a stop threshold above its greatest depth, or a resume threshold that it never
fell to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from qflow.broker.flow_limit import FlowThresholds, exceeds_stop, is_exempt, may_resume
from qflow.broker.settings import QueueSettings
from qflow.logs.audit import audit
from qflow.logs.client_log import ClientLog, replay
from qflow.logs.findings import Finding
from qflow.progress import Progress
from qflow.wording import format_count
from qflow.workload.model import Workload

_MOST = 10_000
"""The number of transfers, from the log's beginning, from which thresholds are inferred."""

_BETTER = 0.9
"""Levels explain a log if their misfit is less than this share of the misfit without them."""

_CLEARLY = 0.98
"""Levels in bytes are preferred if their misfit is less than this share of that of levels in messages.

For messages of one size, levels in bytes and in messages explain a log equally well."""

_AS_GOOD = 2
"""Rounder levels are accepted if their misfit is at most this multiple of that of the best levels."""


class Levels(NamedTuple):
    """The thresholds of a queue in messages and in bytes, in the order of FlowThresholds; 0 for none."""

    stop_count: int = 0
    resume_count: int = 0
    stop_size: int = 0
    resume_size: int = 0


_NONE = Levels()
_ARGUMENTS = tuple(f"qpid.flow_{name}" for name in Levels._fields)


class _Depth(NamedTuple):
    """A depth of a queue, in messages and bytes."""

    messages: int
    size: int


class _DepthChange(NamedTuple):
    """A message that was enqueued or dequeued, and the depth of its queue after that."""

    message: str
    is_enqueued: bool
    time: int
    messages: int
    size: int


class _FittedQueue(NamedTuple):
    """The best levels of a queue and their misfit, by which fitted queues are compared."""

    misfit: int
    queue: str
    levels: Levels


def contradiction_of(findings: Iterable[Finding]) -> str:
    """Return a text with the numbers of findings that contradict a workload's thresholds, or ""."""
    kinds = [finding.kind for finding in findings]
    asked = ("withheld without cause", "completed while held", "thresholds differ")
    parts = [f"{kinds.count(kind):,} {kind}" for kind in asked if kind in kinds]
    return f"completions: {' and '.join(parts)}" if parts else ""


@dataclass(frozen=True, slots=True)
class Inferred:
    """A workload with inferred thresholds, and the audit's findings without and with them."""

    workload: Workload
    # The levels of the queues that held completions, and the number of messages by which each may be off; and
    # the greatest depth of each other queue.
    levels: Mapping[str, Levels]
    slack: Mapping[str, int]
    never_on: Mapping[str, int]
    before: Sequence[Finding]
    after: Sequence[Finding]

    def sentences(self) -> list[str]:
        """Return sentences on the inferred thresholds and on the number of findings with them."""
        words = [
            f"{queue} {_in_words(levels)} (known but for {self.slack[queue]} messages)"
            for queue, levels in self.levels.items()
        ]
        after, before = (format_count(len(found), "finding", ",") for found in (self.after, self.before))
        read = f"read from held completions: with {', '.join(words)}: {after}; before: {before}"
        return [read] * bool(words) + [
            f"queue {queue} held no completion, so its thresholds cannot be read; a stop is above {depth:,} "
            "messages, if there is one"
            for queue, depth in self.never_on.items()
        ]

    def as_json(self) -> dict[str, Any]:
        """Return the thresholds and the numbers of findings as JSON values."""
        found = {queue: _arguments(levels) for queue, levels in self.levels.items()}
        findings = {"findings_before": len(self.before), "findings": len(self.after)}
        return {"queue_arguments": found, **findings, "sentences": self.sentences()}


def _in_words(levels: Levels) -> str:
    """Return the stop and resume thresholds of a queue as text.

    >>> _in_words(Levels(900, 500, 80_000, 60_000))
    '900/500 messages and 80,000/60,000 bytes'
    """
    count, size = (f"{stop:,}/{resume:,}" if stop else "" for stop, resume in (levels[:2], levels[2:]))
    return " and ".join([f"{count} messages"] * bool(count) + [f"{size} bytes"] * bool(size))


def _arguments(levels: Levels) -> dict[str, Any]:
    return dict(zip(_ARGUMENTS, levels, strict=True))


def infer_thresholds(log: ClientLog, workload: Workload, progress: Progress | None = None) -> Inferred:
    """Return the workload with the thresholds that best explain the times of the log's completions."""
    fit = _Fit(log, workload, progress)
    levels = fit.levels()
    inferred = fit.workload_with(levels)
    before, after = (audit(log, one).findings for one in (workload, inferred))
    # With messages of one size, levels in messages and in bytes fit equally well.  An audit checks each
    # completion, so the levels with the fewest findings are chosen.
    for queue, option in [(name, own) for name in levels for own in fit.options[name]]:
        if after and option != levels[queue]:
            other = fit.workload_with(levels | {queue: option})
            findings = audit(log, other).findings
            if len(findings) < len(after):
                levels, inferred, after = levels | {queue: option}, other, findings
    never_on = {queue: fit.most[queue].messages for queue in fit.courses if queue not in levels}
    return Inferred(inferred, levels, {queue: fit.slack(queue) for queue in levels}, never_on, before, after)


class _Fit:
    """A search for the levels of each queue that best explain the times of completions."""

    def __init__(self, log: ClientLog, workload: Workload, progress: Progress | None) -> None:
        self._workload, self._tell = workload, progress
        rows, sent = log.rows, [row for row in log.rows if row.event == "transfer"]
        if len(sent) > _MOST:
            rows = [row for row in rows if row.ts_us < sent[_MOST].ts_us]
        self._end = max(0, rows[-1].ts_us) if rows else 0
        self._done = {row.label: row.ts_us for row in log.rows if row.event == "complete"}
        self._sent = {row.label: row.ts_us for row in sent[:_MOST] if row.label in self._done}
        # By queue: the changes of its depth, and its greatest depth in each unit.
        self.courses: dict[str, list[_DepthChange]] = {}
        self.most: dict[str, _Depth] = {}
        # By queue: the best levels in messages, in bytes, and in both units.
        self.options: dict[str, list[Levels]] = {}
        for queue, arguments in workload.queues.items():
            if not is_exempt(QueueSettings.from_arguments(arguments)):
                self.courses[queue], self.most[queue] = [], _Depth(0, 0)
                # Without limits, the depth follows from the sent and settled messages, whatever the real
                # thresholds were.
                unlimited = {"qpid.max_count": 0, "qpid.max_size": 0, **_arguments(_NONE)}
                workload = workload.with_queue(queue, unlimited)
        for event in replay(ClientLog(log.name, rows), workload).events:
            if event.kind in ("enqueued", "dequeued") and event.queue in self.courses:
                detail: Any = event.detail
                there = _Depth(detail["depth"], detail["bytes"])
                is_enqueued = event.kind == "enqueued"
                self.courses[event.queue].append(_DepthChange(event.message, is_enqueued, event.time, *there))
                most = self.most[event.queue]
                self.most[event.queue] = _Depth(
                    max(most.messages, there.messages), max(most.size, there.size)
                )

    def slack(self, queue: str) -> int:
        """Return the number of messages that may have been in transit to or from a queue."""
        return 1 + sum(own.prefetch for own in self._workload.consumers if own.queue == queue)

    def workload_with(self, levels: Mapping[str, Levels]) -> Workload:
        """Return the workload with the given levels, without its own that contradict a queue's depth."""
        workload = self._workload
        for queue, most in self.most.items():
            settings = QueueSettings.from_arguments(workload.queues[queue])
            stated = FlowThresholds.of(queue, settings, workload.options)
            if queue in levels or (stated is not None and self.holds(queue, stated)):
                found = levels.get(queue, _NONE)
                arguments = _arguments(found)
                # A limit below the reached depth is contradicted, too: with it, the engine would refuse
                # messages that the broker accepted.
                if settings.max_count < max(most.messages, found.stop_count):
                    arguments["qpid.max_count"] = 0
                if (settings.max_size or most.size) < max(most.size, found.stop_size):
                    arguments["qpid.max_size"] = 0
                workload = workload.with_queue(queue, arguments)
        return workload

    def holds(self, queue: str, levels: FlowThresholds) -> dict[str, int]:
        """Return the messages that the levels would hold, each with the time until which it is held."""
        is_on = False
        held: dict[str, None] = {}
        found: dict[str, int] = {}
        for message, is_enqueued, time, count, size in self.courses[queue]:
            if is_enqueued:
                is_on = is_on or exceeds_stop(levels, count, size)
                if is_on:
                    held[message] = None
            elif is_on:
                if message in held:
                    del held[message]
                    found[message] = time
                if may_resume(levels, count, size):
                    is_on = False
                    found.update(dict.fromkeys(held, time))
                    held.clear()
        return {**found, **dict.fromkeys(held, self._end)}

    def levels(self) -> dict[str, Levels]:
        """Return the levels of the queues that held completions, the best explained first."""
        found: dict[str, Levels] = {}
        while left := [queue for queue in self.courses if queue not in found]:
            others = self._learn_times(found)
            # A greedy search, in which the queue that explains most is next: fitting all queues at once would
            # try each combination of levels. It ends when no queue reduces the misfit by a tenth.
            best = min(self._fit_queue(queue, others) for queue in left)
            if best.misfit >= _BETTER * self._misfit(others, {}):
                break
            # A transfer to several queues is held by each (CM-03): earlier levels may have explained holds of
            # this queue, so they are fitted again.
            for earlier in found:
                rest = {name: own for name, own in found.items() if name != earlier}
                others = self._learn_times(rest | {best.queue: best.levels})
                found[earlier] = self._fit_queue(earlier, others).levels
            found[best.queue] = best.levels
        return found

    def _learn_times(self, levels: Mapping[str, Levels]) -> dict[str, int]:
        """Return the expected times of completions, by message, for the given levels of some queues."""
        # Without a hold, a completion is expected when its message was sent. The round trip remains in the
        # misfit, where it is the same for all levels.
        learned = dict(self._sent)
        for queue, own in levels.items():
            for message, until in self.holds(queue, FlowThresholds(*own)).items():
                if message in learned:
                    learned[message] = max(learned[message], until)
        return learned

    def _misfit(self, learned: Mapping[str, int], holds: Mapping[str, int]) -> int:
        """Return the sum of the differences between the expected and the recorded times of completions."""
        done = self._done
        return sum(abs(done[message] - max(time, holds.get(message, 0))) for message, time in learned.items())

    def _fit_queue(self, queue: str, others: Mapping[str, int]) -> _FittedQueue:
        """Return the rounded levels that have the smallest misfit for a queue, in one unit or both."""
        misfits: dict[Levels, int] = {}

        def misfit(levels: Levels) -> int:
            # Cached, as the search often returns to the same levels and each trial goes through all changes
            # of the queue's depth.
            if levels not in misfits:
                misfits[levels] = self._misfit(others, self.holds(queue, FlowThresholds(*levels)))
                if self._tell is not None:
                    self._tell(0, round(self._workload.duration), "reading thresholds")
            return misfits[levels]

        most = self.most[queue]
        count, size = (_fit_unit(misfit, _NONE, unit, most[unit]) for unit in (0, 1))
        is_of_size = misfit(size) < _CLEARLY * misfit(count)
        one = size if is_of_size else count
        both = _fit_unit(misfit, one, 1 - is_of_size, most[1 - is_of_size])
        best = both if misfit(both) <= _BETTER * misfit(one) else one
        near = [self.slack(queue) * own // max(1, most.messages) // 2 for own in most]
        rounded = {}
        for option in (count, size, both):
            most_misfit = _AS_GOOD * misfit(option)
            found = option
            for unit in (0, 1):
                rounder = _rounder(found, unit, near[unit])
                found = next((levels for levels in rounder if misfit(levels) <= most_misfit), found)
            rounded[option] = found
        self.options[queue] = list(rounded.values())
        return _FittedQueue(misfit(best), queue, rounded[best])


def _with_pair(levels: Levels, unit: int, pair: tuple[int, int]) -> Levels:
    """Return levels with the stop and resume of one unit (0: messages, 1: bytes) replaced."""
    return Levels(*pair, *levels[2:]) if unit == 0 else Levels(*levels[:2], *pair)


def _fit_unit(misfit: Callable[[Levels], int], base: Levels, unit: int, top: int) -> Levels:
    """Return levels with the best stop and resume of one unit, found by a search in decreasing steps."""
    # All levels that the depth never crossed have the same misfit, so a search cannot leave them.  Therefore
    # it begins at the best of 24 pairs: 6 stops, each with 4 resumes.
    starts = [(top * stop // 100, top * stop * part // 1000) for stop in _STARTS for part in (3, 5, 7, 9)]
    tried = [_with_pair(base, unit, pair) for pair in starts if pair[1]]
    best = min(tried, key=misfit, default=_with_pair(base, unit, (1, 1)))
    step = top // 8
    while step > top // 500:
        stop, resume = best[2 * unit : 2 * unit + 2]
        moves = [(stop + up * step, resume + other * step) for up, other in _MOVES]
        tried = [_with_pair(base, unit, pair) for pair in moves if 0 < pair[1] <= pair[0]]
        better = min([best, *tried], key=misfit)
        step = step if better != best else step // 2
        best = better
    return best


_STARTS = (30, 50, 70, 80, 90, 97)
_MOVES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, -1))


def _rounder(levels: Levels, unit: int, near: int) -> Iterator[Levels]:
    """Yield levels with rounder numbers in one unit that differ by at most `near`, the roundest first.

    >>> next(_rounder(Levels(898, 497), 0, 5))
    Levels(stop_count=900, resume_count=500, stop_size=0, resume_size=0)
    """
    pair = levels[2 * unit : 2 * unit + 2]
    for power in reversed(range(len(str(pair[0])))):
        for part in (5 * 10**power, 10**power):
            stop, resume = ((value + part // 2) // part * part for value in pair)
            if 0 < resume <= stop and abs(stop - pair[0]) <= near and abs(resume - pair[1]) <= near:
                yield _with_pair(levels, unit, (stop, resume))
