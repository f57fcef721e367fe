"""RuleChecks: what clients logged, held against the rules, row by row.

A log shows what clients saw; the rules say what they can have seen.  Nothing arrives before it is sent
(CM-01); a message is delivered once unless it is given back (CN-10), to a consumer that has credit for it
(CN-04), oldest first (CN-27, MG-06), and of a group only to the group's owner (MG-07); what is settled was
held (CN-13); a completion comes when every queue has let go of the transfer (FC-15), and then at once
(CM-02); a queue that drops nothing delivers what it took (LP-05).

Whose completion a queue may hold is the engine's knowledge, so the checks also take the engine's events, as
the player makes them.  A client's log says when the client did something, not when that reached the broker: a
finding is only what no clock and no chance explains (:class:`~qflow.logs.tolerance.Tolerance`,
:class:`_QueueCourse`).

What is remembered grows with what is under way, not with the log: of a message that is gone its number stays,
in a set of ranges.  Between two rows the state is a plain value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from qflow.broker.completions import RangeSet
from qflow.broker.events import Event
from qflow.broker.flow_limit import FlowThresholds, exceeds_stop, may_resume
from qflow.broker.settings import QueueSettings
from qflow.logs.findings import Finding
from qflow.logs.log_file import OF_CONSUMERS, OF_PRODUCERS, SETTLEMENTS, LakeRow, forget_oldest
from qflow.logs.tolerance import Tolerance
from qflow.workload.agenda import SECOND
from qflow.workload.model import Senders, Workload, is_unseen

_PATIENCE = SECOND
"""Microseconds by which a busy client may learn late of what is complete."""

_MOST_DIGITS = 18
"""Of a label's number; what is longer is no number of a message."""

_MOST_ODD = 1_000
"""So many messages at most are remembered whose transfer, or whose completion, the log does not show."""

_KEEPING = ("accept", "acquire", "reject")
"""Why a message leaves a queue when no policy drops it."""


class _LabelSet:
    """Labels ``<producer>-<n>`` as ranges of numbers, so that a million of them in a row need no memory."""

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

    def join(self, other: _LabelSet) -> bool:
        """Add another set's labels; return whether no label is in both."""
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
    """Return whether a number is written as clients write it, so that no other label has the same one."""
    return text.isascii() and text.isdecimal() and text[0] != "0" and len(text) <= _MOST_DIGITS


class _QueueCourse:
    """One queue as the engine ran it, and how far that may be from the real one's course."""

    # What consumers may hold, the slack, may have been settled earlier or later than the engine thought.  The
    # queue was certainly ON from when it had been well above a stop level for a while, for as long as it did
    # not come near its resume levels; it can have been ON whenever it was not well below them.
    __slots__ = ("levels", "slack", "high_since", "lows", "on_until", "is_near_on", "depth", "bytes")

    def __init__(self, levels: FlowThresholds | None, slack: int) -> None:
        self.levels, self.slack = levels, slack
        self.high_since: int | None = None
        self.lows = self.depth = self.bytes = 0
        self.on_until: int | None = None
        self.is_near_on = False

    def move(self, time: int, depth: int, size: int) -> None:
        self.depth, self.bytes = depth, size
        levels = self.levels
        if levels is None:
            return
        slack = self.slack
        if self.is_near_on:
            self.on_until = time
        room = 2 * slack * max(1, size // max(1, depth))
        self.is_near_on = not may_resume(levels, depth + slack, size + room)
        if may_resume(levels, depth - slack, size - room):
            self.lows += 1
            self.high_since = None
        elif self.high_since is None and self.is_high(0):
            self.high_since = time

    def is_high(self, others: int) -> bool:
        """Return whether the queue is well above a stop level, though others' messages may come later."""
        if self.levels is None:
            return False
        less = self.slack + others
        room = 2 * less * max(1, self.bytes // max(1, self.depth))
        return exceeds_stop(self.levels, self.depth - less, self.bytes - room)

    def is_surely_on(self, since: int) -> bool:
        return self.levels is not None and self.high_since is not None and self.high_since <= since

    def can_have_been_on(self, since: int) -> bool:
        return self.is_near_on or (self.on_until is not None and self.on_until >= since)

    def state(self) -> list[Any]:
        return [getattr(self, name) for name in self.__slots__[2:]]

    def restore(self, state: Iterable[Any]) -> None:
        for name, value in zip(self.__slots__[2:], state, strict=True):
            setattr(self, name, value)


@dataclass(slots=True)
class _Sent:
    """A message under way: on how many queues it is open; which of them hold it, and how they were then."""

    row: int
    time: int
    place: int
    client: str
    group: str
    freed: int
    open: int = 0
    holds: dict[str, list[Any]] = field(default_factory=dict)
    queues: list[str] = field(default_factory=list)
    is_complete: bool = False
    is_settled: bool = False

    def state(self) -> list[Any]:
        return [getattr(self, name) for name in self.__slots__]


class _Queue:
    """What a log has shown of one queue: nested maps of names, so that they are plain values."""

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
        # Label: consumer and group.
        self.holders: dict[str, list[str]] = {}
        self.returned: dict[str, None] = {}
        # Group, or consumer: producer: place, label and time of what was sent last.
        self.newest: dict[str, dict[str, list[Any]]] = {}
        # Group: consumer: how many messages; and what another got meanwhile, with its row.
        self.owners: dict[str, dict[str, int]] = {}
        self.pending: dict[str, list[list[Any]]] = {}
        # Producer: group: labels on the queue which no consumer got, and those that later ones overtook.
        self.waiting: dict[str, dict[str, dict[str, None]]] = {}
        self.overtaken: dict[str, list[Any]] = {}

    def state(self) -> dict[str, Any]:
        plain = {name: getattr(self, name) for name in self.__slots__[6:]}
        return {"course": self.course.state(), "gone": self.gone.state(), **plain}

    def join(self, before: _Queue) -> bool:
        for name in ("windows", "returned", "overtaken"):
            setattr(self, name, {**getattr(before, name), **getattr(self, name)})
        self.evicts = before.evicts or self.evicts
        if self.course.on_until is None:
            self.course.on_until = before.course.on_until
        return self.gone.join(before.gone)

    def restore(self, state: dict[str, Any]) -> None:
        self.course.restore(state.pop("course"))
        self.gone = _LabelSet(state.pop("gone"))
        for name, value in state.items():
            setattr(self, name, value)


class RuleChecks:
    """Takes a log's rows in order, and the engine's events in between; gives findings."""

    def __init__(
        self,
        workload: Workload,
        tolerance: Tolerance,
        find: Callable[[Finding], None],
        pending: list[list[Any]] | None = None,
        state: dict[str, Any] | None = None,
    ) -> None:
        self._skew, self._lag, self._find = tolerance.skew, tolerance.lag, find
        self._capacity = {producer.name: producer.capacity for producer in workload.producers}
        self._senders = Senders(workload.producers)
        self._readers = {consumer.name: consumer for consumer in workload.consumers}
        prefetch = dict.fromkeys(workload.queues, 0)
        for consumer in workload.consumers:
            prefetch[consumer.queue] = prefetch.get(consumer.queue, 0) + consumer.prefetch
        self._queues = {name: _Queue(workload, name, prefetch[name]) for name in workload.queues}
        self._held = dict.fromkeys(self._readers, 0)
        # Client, event and queue of rows that need not be asked about any more.
        self.known: set[tuple[str, str, str]] = set()
        self._place = 0
        self._sent: dict[str, _Sent] = {}
        self._sent_labels, self._done_labels = _LabelSet(), _LabelSet()
        # Delivered before their transfer; on no queue any more, and not complete.
        self._ahead: dict[str, list[list[Any]]] = {}
        self._odd: dict[str, None] = {}
        # What is not certain yet, the earliest first: due, from its time on.
        self.pending: list[list[Any]] = [] if pending is None else pending
        self._suspects: dict[str, list[Any]] = {}
        # Of a producer: the first transfer on a session that the engine has ended, how many, until when.
        self._left_out: dict[str, list[Any]] = {}
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
            "let_go": self._on_let_go,
            "client.differs": self._on_differs,
        }
        if state is not None:
            self._continue(state)

    def _find_in(self, row: LakeRow, kind: str, **more: Any) -> None:
        self._find(Finding(row.seq, row.ts_us, kind, row.client, row.queue, row.label, **more))

    # Who a row is of

    def is_known(self, row: LakeRow) -> bool:
        """Return whether a row is an event of one of the workload's clients; if not, that is a finding."""
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
        label, time = row.label, row.ts_us
        if not self._sent_labels.add(label):
            self._find_in(row, "sent twice")
            return
        self._place += 1
        self._sent[label] = _Sent(row.seq, time, self._place, row.client, row.group, freed=time)
        self._note_odd(label)
        for number, its_time, reader, queue in self._ahead.pop(label, ()):
            early = time - its_time
            if early > self._skew:
                self._find(Finding(number, its_time, "before it was sent", reader, queue, label, gap=early))

    def _complete(self, row: LakeRow) -> None:
        label, time = row.label, row.ts_us
        sent = self._sent.get(label)
        if sent.client != row.client if sent is not None else label not in self._sent_labels:
            self._find_in(row, "never sent", name=row.event)
            return
        if not self._done_labels.add(label):
            self._find_in(row, "completed twice")
            return
        if sent is None:
            return
        since, until, whose = sent.time - self._lag, time + self._lag, (row.seq, time, row.client)
        for held, (lows, is_high) in sent.holds.items():
            self.pending.append([until, "held", *whose, held, label, since, lows, is_high])
        late = time - sent.freed
        if late > _PATIENCE + self._lag and not sent.holds and not self._can_have_been_on(sent.queues, since):
            self.pending.append([until, "late", *whose, row.queue, label, since, late, sent.queues])
        sent.is_complete = True
        if not sent.open:
            del self._sent[label]
            self._odd.pop(label, None)

    def _note_refusal(self, row: LakeRow) -> None:
        """What the broker gave back is on no queue: nothing has to become of it."""
        label = row.label
        sent = self._sent.pop(label, None)
        self._odd.pop(label, None)
        if sent is None:
            if label not in self._sent_labels:
                self._find_in(row, "never sent", name=row.event)
            return
        for state in self._queues.values():
            state.overtaken.pop(label, None)
            state.waiting.get(row.client, {}).get(sent.group, {}).pop(label, None)

    def _can_have_been_on(self, queues: Iterable[str], since: int) -> bool:
        states = (self._queues[name] for name in queues)
        return any(not state.is_known or state.course.can_have_been_on(since) for state in states)

    def due(self, time: int) -> None:
        """Decide what could not be decided until an instant has passed."""
        while self.pending and self.pending[0][0] < time:
            _, what, row, at, client, queue, label, since, *rest = self.pending.pop(0)
            if what == "late":
                late, queues = rest
                if not self._can_have_been_on(queues, since):
                    kind = "withheld without cause"
                    self._find(Finding(row, at, kind, client, queue, label, gap=late))
                continue
            lows, is_high = rest
            course = self._queues[queue].course
            is_on = course.is_surely_on(since - self._lag) or (is_high and course.lows == lows)
            sent = self._sent.get(label)
            if is_on and sent is not None and queue in sent.holds:
                self._suspects.setdefault(label, [row, at, client, queue])

    def _accuse(self, label: str, freed: int) -> None:
        row, at, client, queue = self._suspects.pop(label)
        early = freed - at
        if early > self._lag + self._skew:
            self._find(Finding(row, at, "completed while held", client, queue, label, gap=early))

    # What consumers log

    def _deliver(self, row: LakeRow) -> None:
        client, queue, label, group = row.client, row.queue, row.label, row.group
        state = self._queues[queue]
        sent = self._sent.get(label)
        if sent is None and label not in self._sent_labels:
            self._ahead.setdefault(label, []).append([row.seq, row.ts_us, client, queue])
            if len(self._ahead) > _MOST_ODD:
                self._never_sent(next(iter(self._ahead)))
        state.overtaken.pop(label, None)
        holder = state.holders.get(label)
        if holder is not None or ((sent is None or sent.is_settled) and label in state.gone):
            self._find_in(row, "delivered twice", name=holder[0] if holder else "a consumer that settled it")
            return
        if sent is not None:
            group = sent.group
            self._note_arrival(state, label, sent)
        state.holders[label] = [client, group]
        held = self._held[client] = self._held[client] + 1
        prefetch = self._readers[client].prefetch
        if held > prefetch:
            self._find_in(row, "credit exceeded", seen=held, expected=prefetch)
        if state.is_grouped:
            owners = state.owners.setdefault(group, {})
            for owner in owners:
                if owner != client:
                    suspect = [row.seq, row.ts_us, client, queue, label, owner]
                    state.pending.setdefault(group, []).append(suspect)
            owners[client] = owners.get(client, 0) + 1
        if sent is not None and state.is_fifo and label not in state.returned:
            self._order(row, state, sent)

    def _order(self, row: LakeRow, state: _Queue, sent: _Sent) -> None:
        """A queue gives the oldest first: of a group, or to one consumer, what one producer sent in order."""
        whose = sent.group if state.is_grouped else row.client
        newest = state.newest.get(whose)
        if newest is None:
            newest = state.newest[whose] = {}
            forget_oldest(state.newest, _MOST_ODD)
        last = newest.get(sent.client)
        if last is not None and sent.place < last[0]:
            kind = "group order" if state.is_grouped else "order"
            self._find_in(row, kind, name=last[1], gap=last[2] - sent.time)
        else:
            newest[sent.client] = [sent.place, row.label, sent.time]

    def _settle(self, row: LakeRow) -> None:
        client, event, label = row.client, row.event, row.label
        state = self._queues[row.queue]
        holder = state.holders.get(label)
        if holder is None or holder[0] != client:
            # It did reach a consumer.
            state.overtaken.pop(label, None)
            self._find_in(row, "not held", name=f"{event}, {holder[0]} holds it" if holder else event)
            return
        del state.holders[label]
        self._held[client] -= 1
        if event == "release":
            state.returned[label] = None
        else:
            state.returned.pop(label, None)
            state.gone.add(label)
            sent = self._sent.get(label)
            if sent is not None:
                sent.is_settled = True
        if state.is_grouped:
            self._leave_group(client, holder[1], state, row.ts_us)

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
        """Find by how much another consumer got too early what it got of a group whose owner lets go now."""
        waiting = state.pending.pop(group, [])
        rest = [one for one in waiting if owner and one[5] != owner]
        if rest:
            state.pending[group] = rest
        for row, time, client, queue, label, its_owner in waiting:
            gap = now - time
            if (not owner or its_owner == owner) and gap > self._skew:
                kind = "group owned by another"
                self._find(Finding(row, time, kind, client, queue, label, its_owner, gap=gap))

    def _error(self, row: LakeRow) -> None:
        """A session that ends gives back all that it holds (MG-16); until now its client did not know."""
        client = row.client
        self._left_out.pop(client, None)
        for state in self._queues.values():
            for label in [label for label, holder in state.holders.items() if holder[0] == client]:
                _, group = state.holders.pop(label)
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
                if sent.is_complete:
                    del self._sent[event.message]
                else:
                    self._note_odd(event.message)

    def _on_held(self, event: Event) -> None:
        sent = self._sent.get(event.message)
        if sent is not None:
            state = self._queues[event.queue]
            others = sum(window for name, window in state.windows.items() if name != event.session)
            sent.holds[event.queue] = [state.course.lows, state.course.is_high(others)]

    def _on_let_go(self, event: Event) -> None:
        sent = self._sent.get(event.message)
        if sent is not None and sent.holds.pop(event.queue, None) is not None:
            sent.freed = max(sent.freed, event.time)
        suspect = self._suspects.get(event.message)
        if suspect is not None and suspect[3] == event.queue:
            self._accuse(event.message, event.time)

    def _on_differs(self, event: Event) -> None:
        detail: Any = event.detail
        sent = self._sent.get(event.message)
        if detail["logged"] == "transfer" and sent is not None:
            first = [sent.row, event.time, event.queue, event.message, 0, 0]
            left_out = self._left_out.setdefault(event.session, first)
            left_out[4:] = left_out[4] + 1, event.time - left_out[1]

    def _note_odd(self, label: str) -> None:
        self._odd[label] = None
        forgotten = forget_oldest(self._odd, _MOST_ODD)
        if forgotten in self._sent and not self._sent[forgotten].open:
            del self._sent[forgotten]

    def _note_arrival(self, state: _Queue, label: str, sent: _Sent) -> None:
        """Note that a message was delivered: those sent before it that were not are overtaken."""
        groups = state.waiting.get(sent.client)
        labels = groups.get(sent.group) if groups is not None else None
        if groups is None or not labels or label not in labels:
            return
        for first in list(labels):
            del labels[first]
            if first == label:
                break
            late = self._sent.get(first)
            if late is not None:
                state.overtaken[first] = [late.row, late.time, late.client]
        if not labels:
            del groups[sent.group]

    # The end

    def finish(self, end: int, dead: Iterable[str]) -> None:
        """Decide what the end of the log decides."""
        self.due(end + 10 * SECOND)
        for label in list(self._suspects):
            self._accuse(label, end + SECOND)
        for label in list(self._ahead):
            self._never_sent(label)
        for client, (row, time, queue, label, number, long) in self._left_out.items():
            # What is on its way when a session ends is lost; its client hears of that within the lag.
            if long > self._lag + self._skew:
                found = Finding(row, time, "sends on", client, queue, label, gap=long, number=number)
                self._find(found)
        gone = set(dead)
        for name, state in self._queues.items():
            for group in list(state.pending):
                self._resolve(state, group, "", end)
            for label, (row, time, client) in state.overtaken.items():
                if client not in gone:
                    self._find(Finding(row, time, "discarded", client, name, label, state.policy))

    def _never_sent(self, label: str) -> None:
        for row, time, client, queue in self._ahead.pop(label):
            self._find(Finding(row, time, "never sent", client, queue, label, "deliver"))

    # State

    def state(self) -> dict[str, Any]:
        """Return the state as a plain value that JSON can hold; take it between rows."""
        return {
            "place": self._place,
            "held": self._held,
            "sent": {label: sent.state() for label, sent in self._sent.items()},
            "labels": [self._sent_labels.state(), self._done_labels.state()],
            "ahead": self._ahead,
            "odd": list(self._odd),
            "pending": self.pending,
            "suspects": self._suspects,
            "left out": self._left_out,
            "queues": {name: queue.state() for name, queue in self._queues.items()},
        }

    def is_at_rest(self) -> bool:
        """Return whether no message is under way, and nothing waits to be decided."""
        return not (self._sent or self._ahead or self.pending or self._suspects)

    def join(self, before: RuleChecks) -> bool:
        """Add what was seen before these checks began at rest; return whether no message is in both."""
        are_new = [self._queues[name].join(queue) for name, queue in before._queues.items()]
        are_new.append(self._sent_labels.join(before._sent_labels))
        are_new.append(self._done_labels.join(before._done_labels))
        return all(are_new)

    def _continue(self, state: dict[str, Any]) -> None:
        self._place, self._held, self._ahead = state["place"], state["held"], state["ahead"]
        self._sent = {label: _Sent(*sent) for label, sent in state["sent"].items()}
        self._sent_labels, self._done_labels = map(_LabelSet, state["labels"])
        self._odd = dict.fromkeys(state["odd"])
        self.pending += state["pending"]
        self._suspects = state["suspects"]
        self._left_out = state["left out"]
        for name, queue in state["queues"].items():
            self._queues[name].restore(queue)
