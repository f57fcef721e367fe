"""Rule checks: check a client log, row by row, against those of the broker's rules that a client can observe.

The rules are these.  A message is not delivered before it is sent (CM-01).  It is delivered once unless it is
released (CN-10), to a consumer that has credit for it (CN-04), the oldest message first (CN-27, MG-06), and a
message of a group only to the group's owner (MG-07).  Only a message that the consumer holds is settled
(CN-13).  A transfer is complete when every queue has released it (FC-15), and then at once (CM-02).  A queue
that drops nothing delivers each message (LP-05).

The engine knows which transfers a queue may hold, so the checks also take the engine's events during the
replay.  A client's log has the time of an event at the client and not at the broker.  So only an event that
clocks and delays cannot explain is a finding (:class:`~qflow.logs.tolerance.Tolerance`,
:class:`_QueueCourse`).  Missing rows explain events, too (:class:`~qflow.logs.tolerance.Doubt`): there is no
finding about a message that a missing row may have been about, and after a gap, all messages that were under
way are forgotten.

A completion that comes too late is judged in three ways.  If a later transfer of the same client to the same
queues is complete, no queue can hold the earlier transfer; this needs neither the engine nor thresholds.  If
the engine's queue was far below its thresholds when the message came, the queue was not ON.  And if many
completions are slightly late at such times, the broker's thresholds differ from those in the workload file.

The memory grows with the number of messages under way and not with the length of the log: of a finished
message, only its number is kept, in a set of ranges.  Between two rows, the state is a JSON value.
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
"""The largest delay, in microseconds, with which a busy client may notice that a transfer is complete."""

_MANY_LATE, _SHARE_LATE, _TIMES_HELD = 20, 0.02, 4
"""The limits from which on late completions put the thresholds in doubt.

They are the number of completions that are late though the engine did not hold them, their share of all
completions, and their ratio to the late completions that the engine held.  In the real broker's recordings,
the engine holds between two fifths and all late completions; in a log that is compared with twice its
thresholds, at most a sixth.
"""

_STALE = 2
"""After settling this many windows of later messages, a consumer's unsettled delivery is stale."""

_MOST_SPELLS = 256
"""The largest number of a queue's spells (see _QueueCourse) that are remembered for late completions."""

_MOST_DIGITS = 18
"""The largest number of digits in a label's number."""

_MOST_ODD = 1_000
"""The largest number of remembered messages whose transfer or completion is not in the log."""

_NEVER = 1 << 62
"""Microseconds: later than any row."""

_KEEPING = ("accept", "acquire", "reject")
"""The reasons for which a message leaves a queue without being dropped by a policy."""


class _LabelSet:
    """A set of labels ``<producer>-<n>``, stored as ranges of numbers to save memory."""

    __slots__ = ("_ranges", "_odd")

    def __init__(self, state: dict[str, Any] | None = None) -> None:
        self._odd: dict[str, None] = dict.fromkeys((state or {}).pop("", ()))
        # A state from JSON has lists, but the compiled engine requires tuples.
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
        """Add all labels of another set, and return whether no label was in both."""
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
    """Return whether a text is a number without leading zeros, so that only one label can have it."""
    return text.isascii() and text.isdecimal() and text[0] != "0" and len(text) <= _MOST_DIGITS


class _QueueCourse:
    """The depth of one queue in the engine over time, and when the real queue was surely or possibly ON."""

    # The real depth may differ by the slack, as the messages that consumers hold may have been settled
    # earlier or later than in the engine.  The real queue was surely ON after the depth had been above a stop
    # level by more than the slack for some time, until it came within the slack of the resume levels.  The
    # queue was possibly ON while the depth was not below the resume levels by more than the slack; such an
    # interval is a spell.
    __slots__ = ("levels", "slack", "high_since", "lows", "begins", "ends", "is_near_on", "depth", "bytes")

    def __init__(self, levels: FlowThresholds | None, slack: int) -> None:
        self.levels, self.slack = levels, slack
        self.high_since: int | None = None
        self.lows = self.depth = self.bytes = 0
        # The begins of the spells, and the ends of the finished ones.
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
        """Return whether the depth is above a stop level even without the slack and `others` messages."""
        if self.levels is None:
            return False
        less = self.slack + others
        room = 2 * less * max(1, self.bytes // max(1, self.depth))
        return exceeds_stop(self.levels, self.depth - less, self.bytes - room)

    def is_surely_on(self, since: int) -> bool:
        return self.levels is not None and self.high_since is not None and self.high_since <= since

    def free_at(self, time: int, lag: int) -> int | None:
        """Return the instant from which on the queue cannot hold a message that came at `time`, or None."""
        # A message may have come up to `lag` earlier or later.  It is held if the queue was ON then, at most
        # until the queue turns OFF, and between two spells it is surely OFF.
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
    """A hold of a message: how often the queue had been below its resume levels, and whether it was high."""

    lows: int
    is_high: bool


class _Holder(NamedTuple):
    """The consumer that holds a message, the message's group, and the consumer's settlements until then."""

    client: str
    group: str
    settled: int


class _Newest(NamedTuple):
    """The most recently sent of the delivered messages from a producer, to one consumer or in one group."""

    place: int
    label: str
    time: int
    delivered: int


class _At(NamedTuple):
    """A row of a delivery, transfer or completion that may become a finding."""

    row: int
    time: int
    client: str
    queue: str
    label: str
    owner: str = ""


class _Pending(NamedTuple):
    """A completion of a transfer that the engine still holds, which is judged at its due time."""

    due: int
    at: _At
    since: int
    hold: _Hold


@dataclass(slots=True)
class _LeftOut:
    """A producer's first transfer after the engine ended its session, and the number and time span of all."""

    at: _At
    number: int = 0
    long: int = 0


@dataclass(slots=True)
class _Slow:
    """The late completions of a queue: the number that the engine held, and the others."""

    # at, number, most: The first of the others, their number, and the longest delay among them.

    at: _At | None = None
    number: int = 0
    most: int = 0
    held: int = 0


@dataclass(slots=True)
class _Unfinished:
    """A producer's incomplete transfers in order, the overtaken ones, and the time of its last row."""

    outstanding: dict[str, None] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)
    has_completed: bool = False
    last: int = 0


@dataclass(slots=True)
class _Sent:
    """A message under way: its transfer, the number of queues it is on, and the queues that hold it."""

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
    # The time at which it left its last queue.
    left: int | None = None

    def state(self) -> list[Any]:
        return [getattr(self, name) for name in self.__slots__]

    @classmethod
    def of_state(cls, state: list[Any]) -> _Sent:
        sent = cls(*state)
        sent.holds = {queue: _Hold(*hold) for queue, hold in sent.holds.items()}
        return sent


class _Queue:
    """The state of the checks for one queue."""

    __slots__ = ("is_known", "is_fifo", "is_grouped", "policy", "course", "gone", "windows", "evicts",
                 "holders", "returned", "newest", "owners", "pending", "waiting", "overtaken")  # fmt: skip

    def __init__(self, workload: Workload, name: str, prefetch: int) -> None:
        settings = QueueSettings.from_arguments(workload.queues[name])
        # If a queue's declaration is unknown, no rules on its order, drops and flow control are checked.
        self.is_known = not is_unseen(workload.queues[name])
        self.is_fifo = self.is_known and not settings.priorities and not settings.last_value_queue_key
        self.is_grouped = bool(settings.group_header_key)
        self.policy = settings.policy
        levels = FlowThresholds.of(name, settings, workload.options) if self.is_known else None
        self.course = _QueueCourse(levels, 1 + prefetch)
        self.gone = _LabelSet()
        self.evicts = not self.is_known
        self.windows: dict[str, int] = {}
        # By label: the consumers of delivered messages, and the released messages.
        self.holders: dict[str, _Holder] = {}
        self.returned: dict[str, None] = {}
        # By group or consumer, then by producer.
        self.newest: dict[str, dict[str, _Newest]] = {}
        # By group: the number of messages that each consumer holds, and meanwhile deliveries to others.
        self.owners: dict[str, dict[str, int]] = {}
        self.pending: dict[str, list[_At]] = {}
        # By producer and group: the labels on the queue that were not delivered; and by label, the messages
        # that later ones overtook.
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
        """Forget all messages and the flow control state, which are unknown after a gap."""
        self.holders, self.newest, self.owners, self.pending = {}, {}, {}, {}
        self.waiting, self.overtaken = {}, {}
        self.is_known, self.course.levels = False, None


class RuleChecks:
    """The checks of a log, which take its rows in order and the engine's events, and report findings."""

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
        # The messages of which a row is missing, the number of unknown messages of which one may be, and
        # whether a gap has passed.
        self._unsure = set(doubt.labels)
        self._spare, self._is_after_gap = doubt.unread, False
        self._off = doubt.unread + len(doubt.labels)
        self._capacity = {producer.name: producer.capacity for producer in workload.producers}
        self._senders = Senders(workload.producers)
        self._readers = {consumer.name: consumer for consumer in workload.consumers}
        prefetch = dict.fromkeys(workload.queues, 0)
        for consumer in workload.consumers:
            prefetch[consumer.queue] = prefetch.get(consumer.queue, 0) + consumer.prefetch
        # The depth is uncertain by each message in doubt, which may or may not be on its queue.
        slack = {name: number + self._off for name, number in prefetch.items()}
        self._queues = {name: _Queue(workload, name, slack[name]) for name in workload.queues}
        self._held = dict.fromkeys(self._readers, 0)
        self._settled = dict.fromkeys(self._readers, 0)
        # The client, event and queue of rows that are known to be in the workload.
        self.known: set[tuple[str, str, str]] = set()
        self._place = 0
        self._sent: dict[str, _Sent] = {}
        self._sent_labels, self._done_labels = _LabelSet(), _LabelSet()
        # Messages that were delivered before their transfer; and messages on no queue that are not complete.
        self._ahead: dict[str, list[_At]] = {}
        self._odd: dict[str, None] = {}
        # A heap of the completions that are not judged yet; the first is due first.
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
        """Return whether a missing row may explain a contradiction; then the message is not judged again."""
        if label in self._unsure:
            return True
        if self._is_after_gap and label not in self._sent_labels:
            self._unsure.add(label)
            return True
        if self._spare:
            # Each unreadable row may explain one message.
            self._spare -= 1
            self._unsure.add(label)
            return True
        return False

    # Clients of rows

    def is_known(self, row: LakeRow) -> bool:
        """Return whether a row is an event of a client in the workload, and report a finding if not."""
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

    # Rows of producers

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
        """Mark earlier transfers as overtaken; return when this transfer was overtaken, or None."""
        unfinished = self._unfinished[sent.client]
        unfinished.has_completed, unfinished.last = True, time
        outstanding = unfinished.outstanding
        if label not in outstanding:
            return unfinished.passed.pop(label, None)
        # A queue that is ON also completes messages that leave it, and a completion that is too early for the
        # engine proves nothing.
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
        """Report a completion that came more than a second after any queue could hold its message."""
        free = self._free_at(sent)
        if free is not None and at.time - free > _PATIENCE + self._lag:
            self._find_at(at, "withheld without cause", gap=at.time - free)

    def _note_slow(self, at: _At, sent: _Sent) -> None:
        """Count a late completion for each of its queues, separately if the engine also held it."""
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
        """Return the instant from which on no queue can hold a message, or None if a queue still can."""
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
        """Forget a transfer that the broker refused, as its message is on no queue."""
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
        """Judge the pending completions that are due before `time`."""
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
        """Report a gap, and forget all messages under way, as the log does not show how they ended."""
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

    # Rows of consumers

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
        """Forget a consumer's oldest delivery if many later ones were settled; return whether it did so."""
        # The settlement of such a delivery is missing from the log.
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
        """Check that the oldest message is delivered first, in a group or from a producer to a consumer."""
        whose = sent.group if state.is_grouped else row.client
        newest = state.newest.get(whose)
        if newest is None:
            newest = state.newest[whose] = {}
            forget_oldest(state.newest, _MOST_ODD)
        last = newest.get(sent.client)
        if last is not None and sent.place < last.place:
            # The order within one instant is uncertain.
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
            # The settlement shows that the message reached a consumer.
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
        """Report messages of a group that were delivered to others before the owner released the group."""
        waiting = state.pending.pop(group, [])
        rest = [one for one in waiting if owner and one.owner != owner]
        if rest:
            state.pending[group] = rest
        for at in waiting:
            gap = now - at.time
            # An unreadable settlement may have released the group.
            if (not owner or at.owner == owner) and gap > self._skew and not self._spare:
                self._find_at(at, "group owned by another", name=at.owner, gap=gap)

    def _error(self, row: LakeRow) -> None:
        """Process the end of a session: its messages are released (MG-16), its transfers are forgotten."""
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

    # Events of the engine

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
            # The queue drops messages itself, so a message that is not delivered is no finding.
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
        """Record a delivery, and mark undelivered messages that were sent earlier as overtaken."""
        groups = state.waiting.get(sent.client)
        labels = groups.get(sent.group) if groups is not None else None
        if groups is None or not labels or label not in labels:
            return
        for first in list(labels):
            del labels[first]
            if first == label:
                break
            late = self._sent.get(first)
            # The order of two messages that were sent in one instant is uncertain.
            if late is not None and late.time < sent.time:
                state.overtaken[first] = _At(late.row, late.time, late.client, "", first)
        if not labels:
            del groups[sent.group]

    # The end

    def finish(self, end: int, dead: Iterable[str]) -> None:
        """Report the findings that are certain only at the end of the log."""
        self.due(end + 10 * SECOND)
        for label in list(self._suspects):
            self._accuse(label, end + SECOND)
        for label in list(self._ahead):
            self._never_sent(label)
        for left_out in self._left_out.values():
            # Transfers that are in transit when a session ends are lost, and the client learns of the end
            # within the lag. If settlements are missing, the engine may have ended the session by mistake.
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
            # If transfers are missing, the engine holds fewer of them than the broker did.
            if slow.at and is_other and state.is_known and not self._off:
                at = slow.at._replace(queue=name)
                self._find_at(at, "thresholds differ", gap=slow.most, number=slow.number)
            for group in list(state.pending):
                self._resolve(state, group, "", end)
            for label, at in state.overtaken.items():
                if at.client not in gone and not self._is_excused(label):
                    self._find_at(at._replace(queue=name), "discarded", name=state.policy)

    def _judge_unfinished(self, label: str, now: int) -> None:
        """Report an incomplete transfer if a later transfer is complete or if no queue can hold it."""
        sent = self._sent.get(label)
        if sent is None or label in self._done_labels or label in self._unsure:
            return
        unfinished = self._unfinished[sent.client]
        since = unfinished.passed.get(label)
        if since is None and not sent.holds:
            since = self._free_at(sent)
        # After a client's last row, it is unknown which completions it got.
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
        """Return the state of the checks as a JSON value; only valid between rows."""
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
        """Add the checks of the preceding piece to these; return whether no message is in both."""
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
