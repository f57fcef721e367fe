"""Thresholds that a log shows, and those that it disproves.

No client sees when flow control turned ON, but its completions tell: what was sent while the queue was ON is
complete when the queue is below its resume levels, or the message has left it (FC-14 to FC-17).  How deep the
queue was follows from what was sent and settled, whatever its thresholds are.  So the log is played once
without flow control, and levels are sought under which completions come when they were recorded, with the
least difference in sum.  Rounder levels nearby that explain about as much are taken, as people choose such
numbers.  Then the log is audited with what was found, and with what the workload said.

A depth is known but for what was on its way, and so is a level.  What no message met cannot be read: a stop
above the deepest that the queue was, a resume below what it went down to.
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
from qflow.workload.model import Workload

_MOST = 10_000
"""Messages of a log that are enough to read thresholds from."""

_BETTER = 0.9
"""Levels explain a log if the remaining difference is at most this share of the difference without them."""

_CLEARLY = 0.98
"""The same of levels in bytes, which for messages of one size explain what levels in messages do."""

_AS_GOOD = 2
"""Limit on the misfit of rounder levels within the uncertainty, as a multiple of that of the best ones."""


class Levels(NamedTuple):
    """Thresholds of a queue in messages and in bytes, in the order of FlowThresholds; 0 for none."""

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
    """A message that was enqueued or left, and the depth of its queue after that."""

    message: str
    is_enqueued: bool
    time: int
    messages: int
    size: int


class _FittedQueue(NamedTuple):
    """The best levels of a queue; queues compare by misfit, the best explained first."""

    misfit: int
    queue: str
    levels: Levels


def contradiction_of(findings: Iterable[Finding]) -> str:
    """Return the completions that a workload's thresholds contradict, in words; empty if there are none."""
    kinds = [finding.kind for finding in findings]
    asked = ("withheld without cause", "completed while held", "thresholds differ")
    parts = [f"{kinds.count(kind):,} {kind}" for kind in asked if kind in kinds]
    return f"completions: {' and '.join(parts)}" if parts else ""


@dataclass(frozen=True, slots=True)
class Inferred:
    """A workload with inferred thresholds, and the audit's findings without and with them."""

    workload: Workload
    # Levels of the queues that held completions, and by how many messages they may be off; the greatest depth
    # of the others.
    levels: Mapping[str, Levels]
    slack: Mapping[str, int]
    never_on: Mapping[str, int]
    before: Sequence[Finding]
    after: Sequence[Finding]

    def sentences(self) -> list[str]:
        """Return the thresholds and the audit's verdict on them, as sentences."""
        words = [
            f"{queue} {_in_words(levels)} (known but for {self.slack[queue]} messages)"
            for queue, levels in self.levels.items()
        ]
        after, before = (
            f"{len(findings):,} finding{'s' * (len(findings) != 1)}" for findings in (self.after, self.before)
        )
        read = f"read from held completions: with {', '.join(words)}: {after}; before: {before}"
        return [read] * bool(words) + [
            f"queue {queue} held no completion, so its thresholds cannot be read; a stop is above {depth:,} "
            "messages, if there is one"
            for queue, depth in self.never_on.items()
        ]

    def as_json(self) -> dict[str, Any]:
        """Return thresholds and findings, ready for JSON."""
        found = {queue: _arguments(levels) for queue, levels in self.levels.items()}
        findings = {"findings_before": len(self.before), "findings": len(self.after)}
        return {"queue_arguments": found, **findings, "sentences": self.sentences()}


def _in_words(levels: Levels) -> str:
    """Return stop and resume in words.

    >>> _in_words(Levels(900, 500, 80_000, 60_000))
    '900/500 messages and 80,000/60,000 bytes'
    """
    count, size = (f"{stop:,}/{resume:,}" if stop else "" for stop, resume in (levels[:2], levels[2:]))
    return " and ".join([f"{count} messages"] * bool(count) + [f"{size} bytes"] * bool(size))


def _arguments(levels: Levels) -> dict[str, Any]:
    return dict(zip(_ARGUMENTS, levels, strict=True))


def infer_thresholds(log: ClientLog, workload: Workload, progress: Progress | None = None) -> Inferred:
    """Return the workload with the thresholds that best explain the times of its log's completions."""
    fit = _Fit(log, workload, progress)
    levels = fit.levels()
    inferred = fit.workload_with(levels)
    before, after = (audit(log, one).findings for one in (workload, inferred))
    # With messages of one size, levels in messages and in bytes fit equally well.  The audit judges each
    # completion, so it decides between the options.
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
        # By queue: its changes of depth, and the greatest depths.
        self.courses: dict[str, list[_DepthChange]] = {}
        self.most: dict[str, _Depth] = {}
        # The best levels in messages, in bytes, and in both.
        self.options: dict[str, list[Levels]] = {}
        for queue, arguments in workload.queues.items():
            if not is_exempt(QueueSettings.from_arguments(arguments)):
                self.courses[queue], self.most[queue] = [], _Depth(0, 0)
                # Without any limit the depth follows from what was sent and settled, whatever the thresholds
                # were.
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
        """Return the number of messages that may have been under way to or from a queue."""
        return 1 + sum(own.prefetch for own in self._workload.consumers if own.queue == queue)

    def workload_with(self, levels: Mapping[str, Levels]) -> Workload:
        """Return the workload with levels; its own that would turn ON a queue that was OFF are dropped."""
        workload = self._workload
        for queue, most in self.most.items():
            settings = QueueSettings.from_arguments(workload.queues[queue])
            stated = FlowThresholds.of(queue, settings, workload.options)
            if queue in levels or (stated is not None and self.holds(queue, stated)):
                found = levels.get(queue, _NONE)
                arguments = _arguments(found)
                # A limit below the depth that was reached is disproved as well: with it the engine would
                # refuse messages that the broker took.
                if settings.max_count < max(most.messages, found.stop_count):
                    arguments["qpid.max_count"] = 0
                if (settings.max_size or most.size) < max(most.size, found.stop_size):
                    arguments["qpid.max_size"] = 0
                workload = workload.with_queue(queue, arguments)
        return workload

    def holds(self, queue: str, levels: FlowThresholds) -> dict[str, int]:
        """Return the time until which each held message's completion would be held."""
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
            # Greedy, the queue that explains most first: to fit all at once would try each combination of
            # their levels. The search ends at the first that explains less than a tenth.
            best = min(self._fit_queue(queue, others) for queue in left)
            if best.misfit >= _BETTER * self._misfit(others, {}):
                break
            # A transfer to several queues is held by each (CM-03): earlier levels may have explained what is
            # this queue's doing, so they are fitted again.
            for earlier in found:
                rest = {name: own for name, own in found.items() if name != earlier}
                others = self._learn_times(rest | {best.queue: best.levels})
                found[earlier] = self._fit_queue(earlier, others).levels
            found[best.queue] = best.levels
        return found

    def _learn_times(self, levels: Mapping[str, Levels]) -> dict[str, int]:
        """Return the times at which producers would learn of completions, given the levels of some queues."""
        # Without a hold a completion is due when its message was sent. The round trip is left in the misfit,
        # where it is the same for all candidates.
        learned = dict(self._sent)
        for queue, own in levels.items():
            for message, until in self.holds(queue, FlowThresholds(*own)).items():
                if message in learned:
                    learned[message] = max(learned[message], until)
        return learned

    def _misfit(self, learned: Mapping[str, int], holds: Mapping[str, int]) -> int:
        """Return the sum of the differences between expected and recorded completions."""
        done = self._done
        return sum(abs(done[message] - max(time, holds.get(message, 0))) for message, time in learned.items())

    def _fit_queue(self, queue: str, others: Mapping[str, int]) -> _FittedQueue:
        """Return a queue's best levels, in one unit or both."""
        misfits: dict[Levels, int] = {}

        def misfit(levels: Levels) -> int:
            # The search returns to the same levels often, and each trial walks through the queue's whole
            # course.
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
    """Return levels with the stop and resume of one unit replaced; 0: messages, 1: bytes."""
    return Levels(*pair, *levels[2:]) if unit == 0 else Levels(*levels[:2], *pair)


def _fit_unit(misfit: Callable[[Levels], int], base: Levels, unit: int, top: int) -> Levels:
    """Return levels with the best stop and resume of one unit, by a search in ever smaller steps."""
    # Levels that the depth never met all fit equally badly, and from there no step leads down: so the search
    # begins at the best of 6 stops by 4 resumes.
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
    """Yield nearby levels with rounder stop and resume in one unit, the roundest first.

    >>> next(_rounder(Levels(898, 497), 0, 5))
    Levels(stop_count=900, resume_count=500, stop_size=0, resume_size=0)
    """
    pair = levels[2 * unit : 2 * unit + 2]
    for power in reversed(range(len(str(pair[0])))):
        for part in (5 * 10**power, 10**power):
            stop, resume = ((value + part // 2) // part * part for value in pair)
            if 0 < resume <= stop and abs(stop - pair[0]) <= near and abs(resume - pair[1]) <= near:
                yield _with_pair(levels, unit, (stop, resume))
