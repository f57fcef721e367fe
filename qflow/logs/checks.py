"""RuleChecks: the rules that a client can see, checked against a log row by row.

A log shows what clients saw; the rules allow only some of it.  Nothing arrives before it is sent (CM-01); a
message is delivered once unless it is released (CN-10), to a consumer that has credit for it (CN-04), oldest
first (CN-27, MG-06), and of a group only to the group's owner (MG-07); a settlement is of a held message
(CN-13); a completion comes when every queue has released the transfer (FC-15), and then at once (CM-02); a
queue that drops nothing delivers each message (LP-05).

The engine knows whose completion a queue may hold, so the checks also take the engine's events, as the player
makes them.  A client's log has the time of an act at the client, not its time at the broker: a finding is
only what no clock and no chance explains (:class:`~qflow.logs.tolerance.Tolerance`, :class:`_QueueCourse`).
Missing rows explain much, too (:class:`~qflow.logs.tolerance.Doubt`): no finding is about a message that they
may have been about, and after a gap all that was under way is forgotten.

Three things can be wrong with a completion that comes too late.  Where a later transfer of the same client to
the same queues is complete, no queue can hold the earlier one: this needs no engine and no threshold.  Where
the engine was far below its thresholds when the message came, the queue was not ON.  And where many
completions are a little late at such times, the broker's thresholds are other ones than the file's.

The memory grows with the messages under way, not with the log: of a message that is gone its number stays, in
a set of ranges.  Between two rows the state is a plain value.
"""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass, field
from typing import Any, NamedTuple

from qflow.broker.completions import RangeSet
from qflow.broker.events import Event
from qflow.broker.flow_limit import FlowThresholds, exceeds_stop, may_resume
from qflow.broker.settings import QueueSettings
from qflow.logs.findings import Finding
from qflow.logs.log_file import OF_CONSUMERS, OF_PRODUCERS, SETTLEMENTS, LakeRow, forget_oldest
from qflow.logs.tolerance import Gap, Tolerance
from qflow.workload.agenda import SECOND
from qflow.workload.model import Senders, Workload, is_unseen

_PATIENCE = SECOND
"""Microseconds by which a busy client may learn late that a transfer is complete."""

_MANY_LATE, _SHARE_LATE, _TIMES_HELD = 20, 0.02, 4
"""Completions that do not come at once before the thresholds are in doubt: their number, their share, and how
many times the number of those that the engine holds, too.

In the real broker's recordings the engine holds between two fifths and all of such completions, in a log that
is compared with twice its thresholds a sixth at most.
"""

_STALE = 2
"""Windows of later messages that a consumer settles before a delivery without a settlement is stale."""

_MOST_SPELLS = 256
"""Spells of a queue that are remembered for completions that are late."""

_MOST_DIGITS = 18
"""Digits of a label's number; a longer one does not number a message."""

_MOST_ODD = 1_000
"""The most messages remembered without their transfer, or without their completion, in the log."""

_NEVER = 1 << 62
"""Microseconds: later than any row."""

_KEEPING = ("accept", "acquire", "reject")
"""Why a message leaves a queue when no policy drops it."""


class _LabelSet:
    """Labels ``<producer>-<n>`` stored as ranges of numbers: a million consecutive ones need no memory."""

    __slots__ = ("_ranges", "_odd")

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        self._odd: dict[str, None] = dict.fromkeys((state or {}).pop("", ()))
        # A state that was text has lists, and the compiled engine takes no list for a pair.
        self._ranges = {
            name: RangeSet.of([(first, last) for first, last in ranges])
            for name, ranges in (state or {}).items()
        }

    def add(self, label: str) -> bool:
        """Add a label; return whether it is new."""
        name, _, number = label.rpartition("-")
        if name and _is_number(number):
            ranges = self._ranges.get(name)
            if ranges is None:
                ranges = self._ranges[name] = RangeSet()
            before = len(ranges)
            ranges.add(int(number) - 1)
            return len(ranges) > before
        is_new = label not in self._odd
        self._odd[label] = None
        return is_new

    def __contains__(self, label: str) -> bool:
        name, _, number = label.rpartition("-")
        if name in self._ranges and _is_number(number):
            return int(number) - 1 in self._ranges[name]
        return label in self._odd

    def __len__(self) -> int:
        return len(self._odd) + sum(map(len, self._ranges.values()))

    def join(self, other: _LabelSet) -> bool:
        """Join with another set of labels; return whether no label is in both."""
        are_new = self._odd.keys().isdisjoint(other._odd)
        self._odd |= other._odd
        for name, ranges in other._ranges.items():
            own = self._ranges.get(name, RangeSet())
            self._ranges[name] = union = RangeSet.of(sorted([*own.ranges(), *ranges.ranges()]))
            are_new = are_new and len(union) == len(own) + len(ranges)
        return are_new

    def state(self) -> dict[str, Any]:
        ranges = {name: [list(pair) for pair in kept.ranges()] for name, kept in self._ranges.items()}
        return {**ranges, "": list(self._odd)}


def _is_number(text: str) -> bool:
    """Return whether a number is in canonical form, so that only one label can have it."""
    return text.isascii() and text.isdecimal() and text[0] != "0" and len(text) <= _MOST_DIGITS


class _QueueCourse:
    """The course of one queue in the engine, with its uncertainty against the real queue."""

    # What consumers may hold, the slack, may have been settled earlier or later than the engine thought.  The
    # queue was certainly ON from when it had been well above a stop level for a while, for as long as it did
    # not come near its resume levels; it can have been ON whenever it was not well below them (a spell).
    __slots__ = ("levels", "slack", "high_since", "lows", "begins", "ends", "is_near_on", "depth", "bytes")

    def __init__(self, levels: FlowThresholds | None, slack: int) -> None:
        self.levels, self.slack = levels, slack
        self.high_since: int | None = None
        self.lows = self.depth = self.bytes = 0
        # When the spells began, and when those ended that are over.
        self.begins: list[int] = []
        self.ends: list[int] = []
        self.is_near_on = False

    def move(self, time: int, depth: int, size: int) -> None:
        self.depth, self.bytes = depth, size
        levels = self.levels
        if levels is None:
            return
        slack = self.slack
        room = 2 * slack * max(1, size // max(1, depth))
        is_near_on = not may_resume(levels, depth + slack, size + room)
        if is_near_on != self.is_near_on:
            self.is_near_on = is_near_on
            (self.begins if is_near_on else self.ends).append(time)
            if len(self.ends) > _MOST_SPELLS:
                del self.begins[0], self.ends[0]
        if may_resume(levels, depth - slack, size - room):
            self.lows += 1
            self.high_since = None
        elif self.high_since is None and self.is_high(0):
            self.high_since = time

    def is_high(self, others: int) -> bool:
        """Return whether the queue is well above a stop level, even if other messages arrive later."""
        if self.levels is None:
            return False
        less = self.slack + others
        room = 2 * less * max(1, self.bytes // max(1, self.depth))
        return exceeds_stop(self.levels, self.depth - less, self.bytes - room)

    def is_surely_on(self, since: int) -> bool:
        return self.levels is not None and self.high_since is not None and self.high_since <= since

    def free_at(self, time: int, lag: int) -> int | None:
        """Return the instant from which the queue cannot hold a message that came at `time`, if any."""
        # A message may have come up to `lag` earlier or later.  It is held if the queue was ON then, and no
        # longer than until the queue is OFF, which it surely is between two spells.
        place = bisect_right(self.begins, time + lag)
        if not place:
            return None if len(self.ends) >= _MOST_SPELLS else time
        if place > len(self.ends):
            return None
        end = self.ends[place - 1]
        return time if end < time - lag else max(end, time + lag)

    def state(self) -> list[Any]:
        return [getattr(self, name) for name in self.__slots__[2:]]

    def restore(self, state: Iterable[Any]) -> None:
        for name, value in zip(self.__slots__[2:], state, strict=True):
            setattr(self, name, value)


class _Hold(NamedTuple):
    """A queue's state when it held a message: its times below resume, and whether it was well above."""

    lows: int
    is_high: bool


class _Holder(NamedTuple):
    """The consumer that holds a message, the message's group, and the consumer's settlements until now."""

    client: str
    group: str
    settled: int


class _Newest(NamedTuple):
    """The latest sent among the delivered messages, from one producer to one consumer or in one group."""

    place: int
    label: str
    time: int
    delivered: int


class _At(NamedTuple):
    """A row that may become a finding: a delivery, a transfer or a completion."""

    row: int
    time: int
    client: str
    queue: str
    label: str
    owner: str = ""


class _Pending(NamedTuple):
    """A completion of a message that the engine still holds; it is judged at its due time."""

    due: int
    at: _At
    since: int
    hold: _Hold


@dataclass(slots=True)
class _LeftOut:
    """A producer's first transfer after the engine ended its session; the number and time of later ones."""

    at: _At
    number: int = 0
    long: int = 0


@dataclass(slots=True)
class _Slow:
    """Completions of a queue that came late: those that the engine held, and the others."""

    # at: The first of the others; then their number and the longest time.

    at: _At | None = None
    number: int = 0
    most: int = 0
    held: int = 0


@dataclass(slots=True)
class _Unfinished:
    """A producer's incomplete transfers in order, those overtaken by later ones, and its last row's time."""

    outstanding: dict[str, None] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)
    has_completed: bool = False
    last: int = 0


@dataclass(slots=True)
class _Sent:
    """A message under way: the number of its queues that are open, and of those that hold it."""

    row: int
    time: int
    place: int
    client: str
    group: str
    freed: int
    open: int = 0
    holds: dict[str, _Hold] = field(default_factory=dict)
    queues: list[str] = field(default_factory=list)
    is_complete: bool = False
    is_settled: bool = False
    # When it left its last queue.
    left: int | None = None

    def state(self) -> list[Any]:
        return [getattr(self, name) for name in self.__slots__]

    @classmethod
    def of_state(cls, state: list[Any]) -> _Sent:
        sent = cls(*state)
        sent.holds = {queue: _Hold(*hold) for queue, hold in sent.holds.items()}
        return sent


class _Queue:
    """The log's view of one queue: nested maps of names, which are plain values."""

    __slots__ = ("is_known", "is_fifo", "is_grouped", "policy", "course", "gone", "windows", "evicts",
                 "holders", "returned", "newest", "owners", "pending", "waiting", "overtaken")  # fmt: skip

    def __init__(self, workload: Workload, name: str, prefetch: int) -> None:
        settings = QueueSettings.from_arguments(workload.queues[name])
        # How an unknown queue chooses and drops messages is no rule's business, nor when it is ON.
        self.is_known = not is_unseen(workload.queues[name])
        self.is_fifo = self.is_known and not settings.priorities and not settings.last_value_queue_key
        self.is_grouped = bool(settings.group_header_key)
        self.policy = settings.policy
        levels = FlowThresholds.of(name, settings, workload.options) if self.is_known else None
        self.course = _QueueCourse(levels, 1 + prefetch)
        self.gone = _LabelSet()
        self.evicts = not self.is_known
        self.windows: dict[str, int] = {}
        # By label.
        self.holders: dict[str, _Holder] = {}
        self.returned: dict[str, None] = {}
        # By group, or consumer, and producer.
        self.newest: dict[str, dict[str, _Newest]] = {}
        # Group: consumer: its number of messages; and deliveries to another one meanwhile.
        self.owners: dict[str, dict[str, int]] = {}
        self.pending: dict[str, list[_At]] = {}
        # Producer: group: labels on the queue which no consumer got, and those that later ones overtook.
        self.waiting: dict[str, dict[str, dict[str, None]]] = {}
        self.overtaken: dict[str, _At] = {}

    def state(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__slots__[6:]}
        return {"course": self.course.state(), "gone": self.gone.state(), **plain}

    def join(self, before: _Queue) -> bool:
        for name in ("windows", "returned", "overtaken"):
            setattr(self, name, {**getattr(before, name), **getattr(self, name)})
        self.evicts = before.evicts or self.evicts
        if not self.course.begins:
            self.course.begins, self.course.ends = before.course.begins, before.course.ends
        return self.gone.join(before.gone)

    def restore(self, state: dict[str, Any]) -> None:
        self.course.restore(state.pop("course"))
        self.gone = _LabelSet(state.pop("gone"))
        for name, value in state.items():
            setattr(self, name, value)
        self.holders = {label: _Holder(*holder) for label, holder in self.holders.items()}
        self.newest = {
            whose: {name: _Newest(*last) for name, last in by_producer.items()}
            for whose, by_producer in self.newest.items()
        }
        self.pending = {group: [_At(*at) for at in some] for group, some in self.pending.items()}
        self.overtaken = {label: _At(*at) for label, at in self.overtaken.items()}

    def forget(self) -> None:
        """Forget all messages and the flow state, which are unknown after a gap."""
        self.holders, self.newest, self.owners, self.pending = {}, {}, {}, {}
        self.waiting, self.overtaken = {}, {}
        self.is_known, self.course.levels = False, None


class RuleChecks:
    """Takes a log's rows in order, and the engine's events in between; reports findings."""

    def __init__(
        self,
        workload: Workload,
        tolerance: Tolerance,
        find: Callable[[Finding], None],
        pending: list[_Pending] | None = None,
        state: dict[str, Any] | None = None,
    ) -> None:
        self._skew, self._lag, self._told = tolerance.skew, tolerance.lag, find
        doubt = tolerance.doubt
        self._is_reported, self._gaps = doubt.is_reported, list(doubt.gaps)
        # Messages of which a row is missing; how many more may be; and whether rows have been missing.
        self._unsure = set(doubt.labels)
        self._spare, self._is_after_gap = doubt.unread, False
        self._off = doubt.unread + len(doubt.labels)
        self._capacity = {producer.name: producer.capacity for producer in workload.producers}
        self._senders = Senders(workload.producers)
        self._readers = {consumer.name: consumer for consumer in workload.consumers}
        prefetch = dict.fromkeys(workload.queues, 0)
        for consumer in workload.consumers:
            prefetch[consumer.queue] = prefetch.get(consumer.queue, 0) + consumer.prefetch
        # Of each message in doubt it is not known whether it is on its queue.
        slack = {name: number + self._off for name, number in prefetch.items()}
        self._queues = {name: _Queue(workload, name, slack[name]) for name in workload.queues}
        self._held = dict.fromkeys(self._readers, 0)
        self._settled = dict.fromkeys(self._readers, 0)
        # Client, event and queue of rows that need not be asked about any more.
        self.known: set[tuple[str, str, str]] = set()
        self._place = 0
        self._sent: dict[str, _Sent] = {}
        self._sent_labels, self._done_labels = _LabelSet(), _LabelSet()
        # Delivered before their transfer; on no queue any more, and not complete.
        self._ahead: dict[str, list[_At]] = {}
        self._odd: dict[str, None] = {}
        # Completions that are not decided yet, as a heap: the one that is due first is the first.
        self.pending: list[_Pending] = [] if pending is None else pending
        self._suspects: dict[str, _At] = {}
        self._left_out: dict[str, _LeftOut] = {}
        self._unfinished = {name: _Unfinished() for name in self._capacity}
        self._slow = {name: _Slow() for name in workload.queues}
        self.rows: dict[str, Callable[[LakeRow], None]] = {
            "transfer": self._transfer,
            "complete": self._complete,
            "refused": self._note_refusal,
            "deliver": self._deliver,
            **dict.fromkeys(SETTLEMENTS, self._settle),
            "error": self._error,
        }
        self.events = {
            "enqueued": self._on_enqueued,
            "dequeued": self._on_dequeued,
            "held": self._on_held,
            "let_go": self._on_hold_released,
            "client.differs": self._on_differs,
        }
        if state is not None:
            self._continue(state)

    def _find(self, found: Finding) -> None:
        if found.message not in self._unsure:
            self._told(found)

    def _find_in(self, row: LakeRow, kind: str, **more: Any) -> None:
        self._find(Finding(row.seq, row.ts_us, kind, row.client, row.queue, row.label, **more))

    def _find_at(self, at: _At, kind: str, **more: Any) -> None:
        self._find(Finding(at.row, at.time, kind, at.client, at.queue, at.label, **more))

    def _is_excused(self, label: str) -> bool:
        """Return whether a missing row explains a message's odd rows; the message is not judged again."""
        if label in self._unsure:
            return True
        if self._is_after_gap and label not in self._sent_labels:
            self._unsure.add(label)
            return True
        if self._spare:
            # Each of the rows that cannot be read explains one message.
            self._spare -= 1
            self._unsure.add(label)
            return True
        return False

    # Who a row is of

    def is_known(self, row: LakeRow) -> bool:
        """Return whether a row is an event of one of the workload's clients; report it if not."""
        client, event, early = row.client, row.event, 0
        if event in OF_PRODUCERS:
            kind, is_known = "unknown producer", client in self._capacity
        elif event in OF_CONSUMERS:
            kind, is_known = "not subscribed", False
            reader = self._readers.get(client)
            if reader is not None and reader.queue == row.queue:
                early = max(0, round(reader.start * SECOND) - self._skew - row.ts_us)
                is_known = not early
        else:
            kind, is_known = "unknown", event == "error"
        if is_known:
            self.known.add((client, event, row.queue))
        else:
            self._find_in(row, kind, name=event, gap=early)
        return is_known

    # What producers log

    def _transfer(self, row: LakeRow) -> None:
        label, time, client = row.label, row.ts_us, row.client
        if label in self._unsure:
            return
        if not self._sent_labels.add(label):
            self._find_in(row, "sent twice")
            return
        self._place += 1
        self._sent[label] = _Sent(row.seq, time, self._place, client, row.group, freed=time)
        self._note_odd(label)
        unfinished = self._unfinished[client]
        unfinished.outstanding[label] = None
        unfinished.last = time
        for at in self._ahead.pop(label, ()):
            early = time - at.time
            if early > self._skew:
                self._find_at(at, "before it was sent", gap=early)

    def _complete(self, row: LakeRow) -> None:
        label, time, client = row.label, row.ts_us, row.client
        if label in self._unsure:
            return
        sent = self._sent.get(label)
        if sent.client != client if sent is not None else label not in self._sent_labels:
            if not self._is_excused(label):
                self._find_in(row, "never sent", name=row.event)
                self._done_labels.add(label)
            return
        if not self._done_labels.add(label):
            self._find_in(row, "completed twice")
            return
        if sent is None:
            return
        passed = self._note_complete(label, sent, time)
        until, at = time + self._lag, _At(row.seq, time, client, row.queue, label)
        for queue, hold in sent.holds.items():
            early = _Pending(until, at._replace(queue=queue), sent.time - self._lag, hold)
            heapq.heappush(self.pending, early)
        if time - sent.time > self._lag:
            self._note_slow(at, sent)
        late = time - (sent.freed if passed is None else passed)
        if late > _PATIENCE + self._lag and passed is not None:
            self._find_in(row, "completed late", gap=late)
        elif late > self._lag and not sent.holds and passed is None:
            self._judge_late(at, sent)
        sent.is_complete = True
        if not sent.open:
            del self._sent[label]
            self._odd.pop(label, None)

    def _note_complete(self, label: str, sent: _Sent, time: int) -> int | None:
        """Mark earlier transfers as overtaken; return the time since which this one is, or None."""
        unfinished = self._unfinished[sent.client]
        unfinished.has_completed, unfinished.last = True, time
        outstanding = unfinished.outstanding
        if label not in outstanding:
            return unfinished.passed.pop(label, None)
        # A queue that is ON also completes what leaves it; and a completion that the engine thinks too early
        # proves nothing.
        for earlier in list(outstanding) if sent.open and not sent.holds else []:
            if earlier == label:
                break
            other = self._sent.get(earlier)
            if other is not None and other.queues == sent.queues and other.time < sent.time:
                del outstanding[earlier]
                unfinished.passed[earlier] = time
        del outstanding[label]
        return None

    def _judge_late(self, at: _At, sent: _Sent) -> None:
        """Report a completion that comes over a second after no queue could hold its message."""
        free = self._free_at(sent)
        if free is not None and at.time - free > _PATIENCE + self._lag:
            self._find_at(at, "withheld without cause", gap=at.time - free)

    def _note_slow(self, at: _At, sent: _Sent) -> None:
        """Count a completion that came late, and whether the engine held it too."""
        is_held = bool(sent.holds) or sent.freed > sent.time
        for name in sent.queues:
            slow = self._slow[name]
            if is_held:
                slow.held += 1
                continue
            slow.at = slow.at or at
            slow.number += 1
            slow.most = max(slow.most, at.time - sent.time)

    def _free_at(self, sent: _Sent) -> int | None:
        """Return the instant from which no queue can hold a message; None if one still can."""
        if sent.left is not None and not self._off and not self._is_after_gap:
            return sent.left
        free = sent.time
        for name in sent.queues:
            state = self._queues[name]
            at = state.course.free_at(sent.time, self._lag) if state.is_known else None
            if at is None:
                return None
            free = max(free, at)
        return free

    def _note_refusal(self, row: LakeRow) -> None:
        """Forget a transfer that the broker refused: it is on no queue."""
        label = row.label
        if label in self._unsure:
            return
        sent = self._sent.get(label)
        self._forget(label)
        self._odd.pop(label, None)
        if sent is None:
            if label not in self._sent_labels and not self._is_excused(label):
                self._find_in(row, "never sent", name=row.event)
            return
        for state in self._queues.values():
            state.overtaken.pop(label, None)
            state.waiting.get(row.client, {}).get(sent.group, {}).pop(label, None)

    def _forget(self, label: str) -> None:
        sent = self._sent.pop(label, None)
        if sent is not None:
            unfinished = self._unfinished[sent.client]
            unfinished.outstanding.pop(label, None)
            unfinished.passed.pop(label, None)

    def due(self, time: int) -> None:
        """Judge the completions that are due before `time`."""
        while self.pending and self.pending[0].due < time:
            _, at, since, hold = heapq.heappop(self.pending)
            course = self._queues[at.queue].course
            is_on = course.is_surely_on(since - self._lag) or (hold.is_high and course.lows == hold.lows)
            sent = self._sent.get(at.label)
            if is_on and sent is not None and at.queue in sent.holds:
                self._suspects.setdefault(at.label, at)

    def _accuse(self, label: str, freed: int) -> None:
        at = self._suspects.pop(label)
        early = freed - at.time
        if early > self._lag + self._skew:
            self._find_at(at, "completed while held", gap=early)

    # Gaps

    def next_gap(self) -> int:
        """Return the time of the last row before the next gap."""
        return self._gaps[0].begin if self._gaps else _NEVER

    def pass_gap(self) -> None:
        """Report a gap, and forget all messages under way, as the log does not show their end."""
        gap = self._gaps.pop(0)
        if self._is_reported:
            self._told(Finding(0, gap.begin, "rows missing", gap=gap.end - gap.begin, number=gap.rows))
        self._is_after_gap = True
        self._unsure |= self._sent.keys() | self._ahead.keys() | self._suspects.keys()
        for state in self._queues.values():
            self._unsure |= state.holders.keys() | state.returned.keys()
            state.forget()
        self._sent, self._ahead, self._suspects, self._odd = {}, {}, {}, {}
        self._left_out = {}
        self.pending.clear()
        self._unfinished = {name: _Unfinished() for name in self._capacity}
        self._held = dict.fromkeys(self._readers, 0)

    # What consumers log

    def _deliver(self, row: LakeRow) -> None:
        client, queue, label, group = row.client, row.queue, row.label, row.group
        if label in self._unsure:
            return
        state = self._queues[queue]
        sent = self._sent.get(label)
        if sent is None and label not in self._sent_labels:
            if self._is_after_gap and self._is_excused(label):
                return
            self._ahead.setdefault(label, []).append(_At(row.seq, row.ts_us, client, queue, label))
            if len(self._ahead) > _MOST_ODD:
                self._never_sent(next(iter(self._ahead)))
        state.overtaken.pop(label, None)
        holder = state.holders.get(label)
        if holder is not None or ((sent is None or sent.is_settled) and label in state.gone):
            if not self._is_excused(label):
                whose = holder.client if holder else "a consumer that settled it"
                self._find_in(row, "delivered twice", name=whose)
            return
        if sent is not None:
            group = sent.group
            self._note_arrival(state, label, sent)
        state.holders[label] = _Holder(client, group, self._settled[client])
        held = self._held[client] = self._held[client] + 1
        prefetch = self._readers[client].prefetch
        if held > prefetch + self._off and not self._forget_stale(client, state):
            self._find_in(row, "credit exceeded", seen=held, expected=prefetch)
        if state.is_grouped:
            owners = state.owners.setdefault(group, {})
            for owner in owners:
                if owner != client:
                    suspect = _At(row.seq, row.ts_us, client, queue, label, owner)
                    state.pending.setdefault(group, []).append(suspect)
            owners[client] = owners.get(client, 0) + 1
        if sent is not None and state.is_fifo and label not in state.returned:
            self._order(row, state, sent)

    def _forget_stale(self, client: str, state: _Queue) -> bool:
        """Forget a delivery after many later ones were settled: its settlement is missing from the log."""
        label, holder = next((label, one) for label, one in state.holders.items() if one.client == client)
        is_stale = self._settled[client] - holder.settled > _STALE * self._readers[client].prefetch
        if is_stale:
            del state.holders[label]
            self._held[client] -= 1
            self._unsure.add(label)
            if state.is_grouped:
                state.owners.get(holder.group, {}).pop(client, None)
        return is_stale

    def _order(self, row: LakeRow, state: _Queue, sent: _Sent) -> None:
        """Check the order of delivery: oldest first in a group, or between a producer and a consumer."""
        whose = sent.group if state.is_grouped else row.client
        newest = state.newest.get(whose)
        if newest is None:
            newest = state.newest[whose] = {}
            forget_oldest(state.newest, _MOST_ODD)
        last = newest.get(sent.client)
        if last is not None and sent.place < last.place:
            # Within one instant no order is certain.
            if sent.time < last.time and last.delivered < row.ts_us:
                kind = "group order" if state.is_grouped else "order"
                self._find_in(row, kind, name=last.label, gap=last.time - sent.time)
        else:
            newest[sent.client] = _Newest(sent.place, row.label, sent.time, row.ts_us)

    def _settle(self, row: LakeRow) -> None:
        client, event, label = row.client, row.event, row.label
        if label in self._unsure:
            return
        state = self._queues[row.queue]
        holder = state.holders.get(label)
        if holder is None or holder.client != client:
            # It did reach a consumer.
            state.overtaken.pop(label, None)
            if not self._is_excused(label):
                name = f"{event}, {holder.client} holds it" if holder else event
                self._find_in(row, "not held", name=name)
            return
        del state.holders[label]
        self._held[client] -= 1
        self._settled[client] += 1
        if event == "release":
            state.returned[label] = None
        else:
            state.returned.pop(label, None)
            state.gone.add(label)
            sent = self._sent.get(label)
            if sent is not None:
                sent.is_settled = True
        if state.is_grouped:
            self._leave_group(client, holder.group, state, row.ts_us)

    def _leave_group(self, client: str, group: str, state: _Queue, now: int) -> None:
        owners = state.owners.get(group, {})
        if owners.get(client, 0) > 1:
            owners[client] -= 1
            return
        owners.pop(client, None)
        if not owners:
            state.owners.pop(group, None)
        self._resolve(state, group, client, now)

    def _resolve(self, state: _Queue, group: str, owner: str, now: int) -> None:
        """Report messages of a group that others got before their owner released the group."""
        waiting = state.pending.pop(group, [])
        rest = [one for one in waiting if owner and one.owner != owner]
        if rest:
            state.pending[group] = rest
        for at in waiting:
            gap = now - at.time
            # A settlement that cannot be read may have released the group.
            if (not owner or at.owner == owner) and gap > self._skew and not self._spare:
                self._find_at(at, "group owned by another", name=at.owner, gap=gap)

    def _error(self, row: LakeRow) -> None:
        """Process the end of a session: its messages are released (MG-16), its transfers stay incomplete."""
        client = row.client
        self._left_out.pop(client, None)
        if client in self._unfinished:
            self._unfinished[client] = _Unfinished(last=row.ts_us)
        for state in self._queues.values():
            for label in [label for label, holder in state.holders.items() if holder.client == client]:
                group = state.holders.pop(label).group
                state.returned[label] = None
                if state.is_grouped:
                    self._leave_group(client, group, state, row.ts_us)
        if client in self._held:
            self._held[client] = 0

    # What the engine does

    def _on_enqueued(self, event: Event) -> None:
        detail: Any = event.detail
        state = self._queues[event.queue]
        state.course.move(event.time, detail["depth"], detail["bytes"])
        if event.session not in state.windows:
            names = self._senders.on(event.session)
            state.windows[event.session] = sum(self._capacity[name] for name in names)
        sent = self._sent.get(event.message)
        if sent is not None:
            if not sent.open:
                self._odd.pop(event.message, None)
            sent.open += 1
            sent.queues.append(event.queue)
            if state.is_fifo and not state.evicts and event.message not in state.holders:
                groups = state.waiting.setdefault(sent.client, {})
                groups.setdefault(sent.group, {})[event.message] = None

    def _on_dequeued(self, event: Event) -> None:
        detail: Any = event.detail
        state = self._queues[event.queue]
        state.course.move(event.time, detail["depth"], detail["bytes"])
        if not state.evicts and detail.get("reason") not in _KEEPING:
            # It drops messages by itself, so that none that is missing is missed.
            state.evicts = True
            state.waiting, state.overtaken = {}, {}
        sent = self._sent.get(event.message)
        if sent is not None and sent.open:
            sent.open -= 1
            if not sent.open:
                sent.left = event.time
                if sent.is_complete:
                    del self._sent[event.message]
                else:
                    self._note_odd(event.message)

    def _on_held(self, event: Event) -> None:
        sent = self._sent.get(event.message)
        if sent is not None:
            state = self._queues[event.queue]
            others = sum(window for name, window in state.windows.items() if name != event.session)
            sent.holds[event.queue] = _Hold(state.course.lows, state.course.is_high(others))

    def _on_hold_released(self, event: Event) -> None:
        sent = self._sent.get(event.message)
        if sent is not None and sent.holds.pop(event.queue, None) is not None:
            sent.freed = max(sent.freed, event.time)
        suspect = self._suspects.get(event.message)
        if suspect is not None and suspect.queue == event.queue:
            self._accuse(event.message, event.time)

    def _on_differs(self, event: Event) -> None:
        detail: Any = event.detail
        sent = self._sent.get(event.message)
        if detail["logged"] == "transfer" and sent is not None:
            left_out = self._left_out.get(event.session)
            if left_out is None:
                at = _At(sent.row, event.time, event.session, event.queue, event.message)
                left_out = self._left_out[event.session] = _LeftOut(at)
            left_out.number += 1
            left_out.long = event.time - left_out.at.time

    def _note_odd(self, label: str) -> None:
        self._odd[label] = None
        forgotten = forget_oldest(self._odd, _MOST_ODD)
        if forgotten in self._sent and not self._sent[forgotten].open:
            self._judge_unfinished(forgotten, self._sent[label].time if label in self._sent else 0)
            self._forget(forgotten)

    def _note_arrival(self, state: _Queue, label: str, sent: _Sent) -> None:
        """Record a delivery; undelivered messages that were sent earlier are overtaken."""
        groups = state.waiting.get(sent.client)
        labels = groups.get(sent.group) if groups is not None else None
        if groups is None or not labels or label not in labels:
            return
        for first in list(labels):
            del labels[first]
            if first == label:
                break
            late = self._sent.get(first)
            # Of two that were sent in one instant none is the first.
            if late is not None and late.time < sent.time:
                state.overtaken[first] = _At(late.row, late.time, late.client, "", first)
        if not labels:
            del groups[sent.group]

    # The end

    def finish(self, end: int, dead: Iterable[str]) -> None:
        """Judge what the end of the log makes certain."""
        self.due(end + 10 * SECOND)
        for label in list(self._suspects):
            self._accuse(label, end + SECOND)
        for label in list(self._ahead):
            self._never_sent(label)
        for left_out in self._left_out.values():
            # Transfers on their way when a session ends are lost; its client hears of that within the lag.
            # An engine that misses settlements may have ended the session by mistake.
            if left_out.long > self._lag + self._skew and not self._off:
                self._find_at(left_out.at, "sends on", gap=left_out.long, number=left_out.number)
        gone = set(dead)
        for client, unfinished in self._unfinished.items():
            if unfinished.has_completed and client not in gone:
                for label in [*unfinished.passed, *unfinished.outstanding]:
                    self._judge_unfinished(label, end)
        for name, state in self._queues.items():
            slow, many = self._slow[name], max(_MANY_LATE, _SHARE_LATE * len(self._done_labels))
            is_other = slow.number >= many and slow.number > _TIMES_HELD * slow.held
            # An engine that misses transfers holds less than the broker did.
            if slow.at and is_other and state.is_known and not self._off:
                at = slow.at._replace(queue=name)
                self._find_at(at, "thresholds differ", gap=slow.most, number=slow.number)
            for group in list(state.pending):
                self._resolve(state, group, "", end)
            for label, at in state.overtaken.items():
                if at.client not in gone and not self._is_excused(label):
                    self._find_at(at._replace(queue=name), "discarded", name=state.policy)

    def _judge_unfinished(self, label: str, now: int) -> None:
        """Report a transfer without a completion, if a later one is complete or no queue can hold it."""
        sent = self._sent.get(label)
        if sent is None or label in self._done_labels or label in self._unsure:
            return
        unfinished = self._unfinished[sent.client]
        since = unfinished.passed.get(label)
        if since is None and not sent.holds:
            since = self._free_at(sent)
        # Of a client that logs nothing more it is not known what it heard.
        long = min(now, unfinished.last) - since if since is not None else 0
        if unfinished.has_completed and long > _PATIENCE + self._lag and not self._is_excused(label):
            queue = sent.queues[0] if sent.queues else ""
            self._find_at(_At(sent.row, sent.time, sent.client, queue, label), "never completed", gap=long)

    def _never_sent(self, label: str) -> None:
        ahead = self._ahead.pop(label)
        if not self._is_excused(label):
            for at in ahead:
                self._find_at(at, "never sent", name="deliver")

    # State

    def state(self) -> dict[str, Any]:
        """Return the state as a JSON value; take it between rows."""
        return {
            "place": self._place,
            "held": self._held,
            "settled": self._settled,
            "sent": {label: sent.state() for label, sent in self._sent.items()},
            "labels": [self._sent_labels.state(), self._done_labels.state()],
            "ahead": self._ahead,
            "odd": list(self._odd),
            "pending": self.pending,
            "suspects": self._suspects,
            "left out": {client: astuple(one) for client, one in self._left_out.items()},
            "unfinished": {client: astuple(one) for client, one in self._unfinished.items()},
            "slow": {name: astuple(slow) for name, slow in self._slow.items()},
            "doubt": [self._gaps, sorted(self._unsure), self._spare, self._is_after_gap],
            "queues": {name: queue.state() for name, queue in self._queues.items()},
        }

    def is_at_rest(self) -> bool:
        """Return whether no message is under way and no judgement is pending."""
        return not (self._sent or self._ahead or self.pending or self._suspects)

    def join(self, before: RuleChecks) -> bool:
        """Add an earlier piece's checks to these, begun at rest; return whether no message is in both."""
        if before._off or before._is_after_gap:
            return False
        are_new = [self._queues[name].join(queue) for name, queue in before._queues.items()]
        are_new.append(self._sent_labels.join(before._sent_labels))
        are_new.append(self._done_labels.join(before._done_labels))
        for name, slow in before._slow.items():
            own = self._slow[name]
            own.at = slow.at or own.at
            own.number += slow.number
            own.most = max(own.most, slow.most)
            own.held += slow.held
        for name, unfinished in before._unfinished.items():
            self._unfinished[name].has_completed |= unfinished.has_completed
        return all(are_new)

    def _continue(self, state: dict[str, Any]) -> None:
        self._place, self._held, self._settled = state["place"], state["held"], state["settled"]
        self._ahead = {label: [_At(*at) for at in some] for label, some in state["ahead"].items()}
        self._sent = {label: _Sent.of_state(sent) for label, sent in state["sent"].items()}
        self._sent_labels, self._done_labels = map(_LabelSet, state["labels"])
        self._odd = dict.fromkeys(state["odd"])
        for due, at, since, hold in state["pending"]:
            self.pending.append(_Pending(due, _At(*at), since, _Hold(*hold)))
        self._suspects = {label: _At(*at) for label, at in state["suspects"].items()}
        self._left_out = {
            client: _LeftOut(_At(*at), number, long)
            for client, (at, number, long) in state["left out"].items()
        }
        self._unfinished = {client: _Unfinished(*one) for client, one in state["unfinished"].items()}
        self._slow = {
            name: _Slow(at and _At(*at), number, most, held)
            for name, (at, number, most, held) in state["slow"].items()
        }
        gaps, unsure, self._spare, self._is_after_gap = state["doubt"]
        self._gaps, self._unsure = [Gap(*gap) for gap in gaps], set(unsure)
        for name, queue in state["queues"].items():
            self._queues[name].restore(queue)
