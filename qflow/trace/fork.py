"""Fork: the same clients, but from some row on something is different.

The clients of a fork do what the trace says they did, when it says so. What was delivered may be
another message or come at another time than in the trace; so a client accepts, releases or
completes *the same messages* as it did, each as soon as it has it.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from qflow.broker.broker import Broker
from qflow.broker.conversions import Argument
from qflow.broker.events import COMMANDS, Event
from qflow.broker.options import BrokerOptions
from qflow.broker.store import DelayedStore
from qflow.trace.replay_trace import Replay
from qflow.trace.schema import Trace, TraceError
from qflow.trace.script import Step, give, steps_of
from qflow.trace.values import decode_detail, encode_detail
from qflow.workload.stage import uncollected

Changes = Mapping[str, Mapping[str, Argument | None]]
Delivery = tuple[str, str, str, int]
"""Session, tag, label, and how many times that message has been delivered there."""


def fork(
    trace: Trace,
    row: int,
    commands: Iterable[Event] = (),
    *,
    queues: Changes | None = None,
    options: BrokerOptions | None = None,
    start: Broker | None = None,
) -> Trace:
    """Return a trace that is the same up to a row and goes another way from there.

    Parameters
    ----------
    trace : Trace
        The course of events so far.
    row : int
        A row's place in the trace; the whole command that it belongs to still happens as it did.
        -1 stands before the first one.
    commands : iterable of Event
        Commands to add, each of a kind in :data:`qflow.broker.events.COMMANDS`, with ``session`` and
        ``detail``. One whose time has passed already is given at once.
    queues : mapping or None
        Declare arguments that shall differ, by queue; None removes one. A queue keeps its arguments
        for life, so the fork must lie before the queue's declaration.
    options : BrokerOptions or None
        What the broker is started with instead; it keeps its options, so such a fork starts at row -1.
    start : Broker or None
        The state after that command, if it is at hand.

    Raises
    ------
    TraceError
        For a kind that is no command, a queue declared before the row, options that shall differ after
        the start, or a command that cannot be given.

    Examples
    --------
    >>> from qflow.broker import Message
    >>> from qflow.trace.record import record
    >>> broker = Broker()
    >>> trace = record(broker)
    >>> session = broker.session("p")
    >>> session.queue_declare("q", {"qpid.flow_stop_count": 1})
    >>> for _ in range(3):
    ...     transfer = session.message_transfer(Message(10, routing_key="q"))
    >>> trace.kind.count("held"), fork(trace, 0, queues={"q": {"qpid.flow_stop_count": 2}}).kind.count("held")
    (2, 1)
    >>> fork(trace, len(trace) - 1, [Event(0, "queue.purge", session="p", detail={"queue": "q"})]).kind[-1]
    'completed'
    """
    _check_start(options, row)
    rest = [step for step in steps_of(trace) if step.row > row]
    end = rest[0].row if rest else len(trace)
    rest = _changed(rest, queues or {}, trace)
    now = trace.time[end - 1] if end else 0
    added = [_added(command, now) for command in commands]
    with uncollected():
        broker = Broker(options) if options is not None else start or _state(trace, row)
        continuation = _Fork(trace, end, broker)
        for step in heapq.merge(sorted(added, key=_when), rest, key=_when):
            continuation.give(step)
    return continuation.trace


def _check_start(options: BrokerOptions | None, row: int) -> None:
    if options is not None and row >= 0:
        raise TraceError(
            "a broker keeps its options as long as it runs, and a fork with others starts at row -1; "
            f"got row {row}"
        )


def _when(step: Step) -> int:
    return step.time


def _state(trace: Trace, row: int) -> Broker:
    broker = Replay(trace.empty()).broker
    broker.observe(None)
    for step in steps_of(trace):
        if step.row > row:
            break
        give(broker, step)
    return broker


def _added(command: Event, now: int) -> Step:
    if command.kind not in COMMANDS:
        raise TraceError(f"a fork can add commands, such as queue.purge; got {command.kind!r}, which is none")
    # As a file would hold it, so that the fork's trace can be replayed to the last byte.
    arguments = decode_detail(encode_detail(command.detail))
    return Step(-1, max(now, command.time), command.kind, command.session, arguments)


def _changed(rest: list[Step], changes: Changes, trace: Trace) -> list[Step]:
    missing = set(changes)
    changed = []
    for step in rest:
        holder, name, key = _declared(step)
        if name in changes:
            missing.discard(name)
            merged = {**(holder.get(key) or {}), **changes[name]}
            holder = {**holder, key: {item: value for item, value in merged.items() if value is not None}}
            in_management = step.kind == "management"
            step = step._replace(
                arguments={**step.arguments, "arguments": holder} if in_management else holder
            )
        changed.append(step)
    for name in sorted(missing):
        declared = [
            number
            for number, pair in enumerate(zip(trace.kind, trace.queue, strict=True), 1)
            if pair == ("queueDeclare", name)
        ]
        where = (
            f"it is declared by row {declared[-1]}: fork before that"
            if declared
            else "there is no such queue"
        )
        raise TraceError(
            f"queue {name!r} is not declared after the fork, and keeps its arguments for life; {where}"
        )
    return changed


def _declared(step: Step) -> tuple[dict[str, Any], str, str]:
    """Return the arguments of a declaration, the queue's name, and where its own arguments lie."""
    arguments = step.arguments
    if step.kind == "queue.declare" and not arguments.get("passive"):
        return arguments, arguments["queue"], "arguments"
    if step.kind == "management" and arguments["method"] == "create":
        inner = arguments["arguments"]
        if inner.get("type") == "queue":
            return inner, inner["name"], "properties"
    return {}, "", ""


class _Deliveries:
    """Who was given what, under which number."""

    def __init__(self) -> None:
        self._times: Counter[tuple[str, str, str]] = Counter()
        self.by_number: dict[tuple[str, int], Delivery] = {}
        self.numbers: dict[Delivery, int] = {}

    def take(self, event: Event) -> Delivery:
        """Remember a ``delivered`` row."""
        place = (event.session, event.link, event.message)
        self._times[place] += 1
        delivery = (*place, self._times[place])
        number = (event.detail or {})["delivery"]
        assert isinstance(number, int)
        self.by_number[event.session, number] = delivery
        self.numbers[delivery] = number
        return delivery


class _Fork:
    """The continuation: gives the commands, with the numbers that deliveries have here."""

    def __init__(self, original: Trace, end: int, broker: Broker) -> None:
        self.broker = broker
        workload = original.workload
        if workload is not None and workload.options != broker.options:
            workload = workload.replace(options=broker.options)
        self.trace = Trace(f"{original.run}, forked", broker.options, workload)
        self.theirs, self.ours = _Deliveries(), _Deliveries()
        self.early: defaultdict[Delivery, list[Step]] = defaultdict(list)
        self.arrived: list[Delivery] = []
        for place, kind in enumerate(original.kind):
            if kind == "delivered":
                event = original.event(place)
                self.theirs.take(event)
                if place < end:
                    self.ours.take(event)
            if place < end:
                self.trace.append_row(original.row(place)._replace(seq=place))
        broker.observe(self._observe)

    def _observe(self, event: Event) -> None:
        self.trace.append(event)
        if event.kind == "delivered":
            delivery = self.ours.take(event)
            if delivery in self.early:
                self.arrived.append(delivery)

    def give(self, step: Step) -> None:
        """Give one command, then what was waiting for the deliveries it made."""
        if self._can_be_given(step):
            give(self.broker, self._translated(step) if step.row >= 0 else step)
        while self.arrived:
            delivery = self.arrived.pop(0)
            for waiting in self.early.pop(delivery, []):
                own = {**waiting.arguments, "transfers": [self.ours.numbers[delivery]]}
                give(self.broker, waiting._replace(time=self.broker.now, arguments=own))

    def _can_be_given(self, step: Step) -> bool:
        """A client whose session has died in the fork, or never came to be, does nothing more.

        Nor does the store say again that it is done with a message, or say it of one it never had.
        """
        if step.kind == "store.finish" and step.row >= 0:
            store = self.broker.store
            return isinstance(store, DelayedStore) and step.arguments["message"] in store.pending
        if step.kind in ("advance", "management", "session.attach", "store.open"):
            return True
        session = self.broker.sessions.get(step.session)
        return step.row < 0 or (session is not None and session.is_attached)

    def _translated(self, step: Step) -> Step:
        if "transfers" not in step.arguments:
            return step
        transfers = []
        for number in step.arguments["transfers"]:
            delivery = self.theirs.by_number.get((step.session, number))
            own = number if delivery is None else self.ours.numbers.get(delivery)
            if own is not None:
                transfers.append(own)
            elif delivery is not None:
                self.early[delivery].append(step)
        return step._replace(arguments={**step.arguments, "transfers": transfers})
