"""Recording a run as a trace, replaying a trace, and forking it.

A trace holds the broker's events in order, commands included.  Commands, with the passing of time
(``advance``) among them, are the broker's only input.  So a trace that begins with a fresh broker determines
the run: its commands, performed by a fresh engine, cause the trace's own rows again, byte for byte
(:class:`Replay`).

- :func:`record` observes a broker from its start; :func:`trace_of` returns the trace of a simulated run.
- ``_steps_of`` yields the commands of a trace, and :func:`give` performs one on a broker.
- :class:`Replay` performs all commands, and reports where the engine's rows differ from the trace's.
- :func:`fork` changes the run from a row on, by additional commands.  The clients still do what the trace
  records, at the recorded times.  But in the fork another message may be delivered, or the same message at
  another time.  So a client settles or completes *the same messages* as in the trace, each at its recorded
  time or, if it is delivered later than that, as soon as it is delivered.
"""

from __future__ import annotations

import heapq
import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import NoneType
from typing import Any, NamedTuple

from qflow.broker.broker import Broker
from qflow.broker.errors import AmqpException, ManagementError, SessionDetached
from qflow.broker.events import COMMANDS, Event, EventTable
from qflow.broker.links import LinkSession
from qflow.broker.management import METHODS
from qflow.broker.session import Session
from qflow.broker.store import DelayedStore, MessageStore
from qflow.progress import Progress
from qflow.trace.schema import NAMES, Row, Trace, TraceError, decode_detail, encode_detail
from qflow.workload.simulate import CLIENT_EVENTS, Run
from qflow.workload.stage import pause_collector


def record(broker: Broker, run: str = "run") -> Trace:
    """Return a trace that records a broker's commands and events from now on.

    Parameters:
        broker: A fresh broker: only a trace that starts at the beginning can be replayed.
            ``broker.observe(None)`` ends the recording.

    Raises:
        TraceError: If the broker has been used already, or has a store of a class that a replay cannot
            create.

    >>> broker = Broker()
    >>> trace = record(broker)
    >>> broker.session("s").queue_declare("q")
    >>> trace.kind
    ['session.attach', 'queue.declare', 'queueDeclare', 'bind', 'completed']
    """
    if broker.now or broker.sessions or broker.queues.queues:
        raise TraceError(
            "a trace starts with a fresh broker, so that it can be replayed; this one has been used already"
        )
    if type(broker.store) not in (NoneType, MessageStore, DelayedStore):
        raise TraceError(
            f"a broker with a {type(broker.store).__name__} cannot be replayed; "
            "record one without a store, or with a DelayedStore"
        )
    trace = Trace(run, broker.options)
    broker.observe(trace.append)
    if isinstance(broker.store, DelayedStore):
        broker.emit("store.open", detail={"flushes_on_sync": broker.store.flushes_on_sync})
    return trace


def trace_of(run: Run) -> Trace:
    """Return the trace of a simulated run.

    The trace includes the workload, so that a what-if can start from the trace's file alone.

    >>> from qflow.workload import Workload, simulate
    >>> trace = trace_of(simulate(Workload("w", 1, {"q": {}})))
    >>> trace.run, trace.kind[0], trace.kind[-1]
    ('w', 'session.attach', 'session.detach')
    """
    trace = Trace(run.workload.name, run.workload.options, run.workload)
    events = run.events
    trace.extend(events if isinstance(events, EventTable) else EventTable(events))
    return trace


_FLAGS = ("pipelined", "sync")
"""The keys of a command's detail that are not arguments: how the command was sent (RF-08, CM-05)."""


class Step(NamedTuple):
    """One command of a trace."""

    row: int  # From 0; -1 for a command that was added later.
    time: int
    kind: str
    session: str
    arguments: dict[str, Any]


def _steps_of(trace: Trace) -> Iterator[Step]:
    """Yield the commands of a trace, or raise a TraceError for a row whose detail cannot be read."""
    for row, kind in enumerate(trace.kind):
        if kind in COMMANDS:
            yield step_at(trace, row)


def step_at(trace: Trace, row: int) -> Step:
    """Return the command in a row of a trace, or raise a TraceError if its detail cannot be read."""
    try:
        arguments = decode_detail(trace.detail[row])
    except ValueError as error:
        raise TraceError(f"row {row + 1}, column detail: {error}") from None
    return Step(row, trace.time[row], trace.kind[row], trace.session[row], arguments)


def give(broker: Broker, step: Step) -> None:
    """Perform one command of a trace at its time, or raise a TraceError if the engine cannot perform it."""
    try:
        # Never backwards: in a fork, a command whose time has passed is performed at once.
        if step.time > broker.now:
            broker.advance(step.time)
        # A command that the broker refuses is part of the run; the broker's own rows show the refusal.
        with suppress(AmqpException, ManagementError, SessionDetached):
            _ACTIONS.get(step.kind, _command)(broker, step)
    # A trace from elsewhere may hold any values, and the engine fails where it first uses a wrong one.
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        place = f"row {step.row + 1} ({step.kind})" if step.row >= 0 else f"the added command {step.kind}"
        if isinstance(error, TraceError):
            raise TraceError(f"{place}: {error}") from None
        words = f"{error} is missing" if isinstance(error, KeyError) else error
        raise TraceError(f"{place}: the engine cannot do this: {words}") from error


def _attach(broker: Broker, step: Step) -> None:
    connection, container = step.arguments.get("connection", ""), step.arguments.get("container")
    if container is None:
        broker.session(step.session, connection)
    else:
        broker.link_session(step.session, connection, container)


def _manage(broker: Broker, step: Step) -> None:
    method = step.arguments["method"]
    if method not in METHODS:
        raise TraceError(f"unknown management method {method!r}, allowed are {', '.join(METHODS)}")
    getattr(broker.management, method)(**step.arguments["arguments"])


def _session(broker: Broker, step: Step) -> Session:
    session = broker.sessions.get(step.session)
    if session is None:
        raise TraceError(f"session {step.session!r} was never attached; a trace shows session.attach first")
    return session


def _open_store(broker: Broker, step: Step) -> None:
    # The engine does not report its store: :func:`record` wrote this row, so the replay has to write it too.
    broker.store = DelayedStore(step.arguments["flushes_on_sync"])
    broker.store.listener = broker
    if broker.observer is not None:
        broker.emit("store.open", detail=step.arguments)


def _finish_store(broker: Broker, step: Step) -> None:
    if not isinstance(broker.store, DelayedStore):
        raise TraceError(
            "the broker has no store that reports when it is done; a trace shows store.open first"
        )
    broker.store.finish(step.arguments["message"])


def _write(broker: Broker, step: Step) -> None:
    with _session(broker, step).pipeline():
        pass


def _transfer(broker: Broker, step: Step) -> None:
    given = step.arguments
    session = _session(broker, step)
    # If several commands were read at once, their output comes after the last of them (RF-12).
    session.is_pipelining = "pipelined" in given
    if isinstance(session, LinkSession):
        is_transactional = given.get("transactional", False)
        session.message_transfer(given["message"], tag=given["tag"], transactional=is_transactional)
    else:
        session.message_transfer(given["message"], given["exchange"], given["sync"])


def _command(broker: Broker, step: Step) -> None:
    session, arguments = _session(broker, step), step.arguments
    session.is_pipelining = "pipelined" in arguments
    if arguments.get("sync"):
        # The flag belongs to this command, which gets its number only when it is performed.
        session.completions.report_when_complete(session.completions.next_number)
    given = {key: value for key, value in arguments.items() if key not in _FLAGS or value is False}
    getattr(session, step.kind.replace(".", "_"))(**given)


_ACTIONS: dict[str, Callable[[Broker, Step], None]] = {
    "advance": lambda broker, step: broker.advance(max(broker.now, step.arguments["now"])),
    "management": _manage,
    "message.transfer": _transfer,
    "store.finish": _finish_store,
    "store.open": _open_store,
    "session.attach": _attach,
    "session.detach": lambda broker, step: _session(broker, step).close(),
    "session.written": _write,
}


_COMPARED = tuple(name for name in NAMES if name not in ("run", "seq"))


class Difference(NamedTuple):
    """The first row in which two traces differ: its index, and the row in each (None after a trace's end)."""

    place: int
    a: Row | None
    b: Row | None

    def text(self) -> str:
        """Return the difference as a sentence."""
        place = f"row {self.place + 1}"
        if self.a is None or self.b is None:
            row = self.a or self.b
            ended, other = ("engine", "trace") if self.a else ("trace", "engine")
            return f"{place}: the {ended} has ended, the {other} has {row and _name_row(row)}"
        parts = (
            f"{name} is {getattr(self.a, name)!r} in the trace, {getattr(self.b, name)!r} in the engine"
            for name in _COMPARED
            if getattr(self.a, name) != getattr(self.b, name)
        )
        return f"{place} ({_name_row(self.a)}): {'; '.join(parts)}"


def _name_row(row: Row) -> str:
    return f"{row.kind} at {row.time} us"


def first_difference(a: Trace, b: Trace) -> Difference | None:
    """Return the first row in which two traces differ, or None; ``run`` and ``seq`` are not compared."""
    common = min(len(a), len(b))
    index = min((_first_unequal(a, b, name, common) for name in _COMPARED), default=common)
    if index == len(a) == len(b):
        return None
    return Difference(index, *(trace.row(index) if index < len(trace) else None for trace in (a, b)))


def _first_unequal(a: Trace, b: Trace, name: str, common: int) -> int:
    first, second = getattr(a, name), getattr(b, name)
    # Column by column, as slices are compared in C; single values are compared only in a differing column.
    if first[:common] == second[:common]:
        return common
    return next(index for index in range(common) if first[index] != second[index])


class Replay:
    """A replay of a trace on a fresh broker; :attr:`trace` holds the rows caused so far."""

    def __init__(self, original: Trace) -> None:
        self.original = original
        self.trace = original.empty()
        # Set until the end is reached: a replay that is interrupted by Ctrl-C is a trace that is cut off.
        self.trace.expected = len(original)
        self.broker = Broker(original.options)
        self.broker.observe(self._observe)

    def run(self, before: Callable[[Step], None] | None = None, progress: Progress | None = None) -> Trace:
        """Perform all commands, calling `before` with each one first, and return the engine's trace."""
        with pause_collector():
            for step in _steps_of(self.original):
                if progress is not None:
                    progress(step.row)
                if before is not None:
                    before(step)
                give(self.broker, step)
        self._copy_clients_rows()
        self.trace.expected = None
        return self.trace

    def difference(self) -> Difference | None:
        """Return the first row in which the replay differs from the original, or None."""
        found = first_difference(self.original, self.trace)
        # A trace that is cut off may end in the middle of a command's effects, which the replay completes.
        is_cut = self.original.expected is not None and found is not None and found.a is None
        return None if is_cut else found

    def _observe(self, event: Event) -> None:
        self._copy_clients_rows()
        self.trace.append(event)

    def _copy_clients_rows(self) -> None:
        # Rows of client events are neither commands nor effects, so the engine cannot cause them again.
        original, place = self.original, len(self.trace)
        while place < len(original) and original.kind[place] in CLIENT_EVENTS:
            self.trace.append_row(original.row(place)._replace(seq=place))
            place += 1


# Forks

Delivery = tuple[str, str, str, int]
"""A delivery: session, subscription's tag, message's label, and its count of deliveries there, from 1."""


def fork(trace: Trace, row: int, commands: Iterable[Event], broker: Broker) -> Trace:
    """Return a trace that equals a given one up to the command of a row, and then continues differently."""
    # Up to the next command and not up to `row` itself: the broker was restored after all effects of the
    # row's command, so the original and the fork share these effects.
    rest = [step for step in _steps_of(trace) if step.row > row]
    end = rest[0].row if rest else len(trace)
    added = [_add_command(command, trace.time[end - 1]) for command in commands]
    when = operator.attrgetter("time")
    with pause_collector():
        continuation = _Fork(trace, end, broker)
        # Of commands at one time, an added one is first, as the merge prefers its first argument: "what if
        # the queue had been purged at 2.5 s" means before the recorded commands of 2.5 s.
        for step in heapq.merge(sorted(added, key=when), rest, key=when):
            continuation.give(step)
    return continuation.trace


def _add_command(command: Event, now: int) -> Step:
    if command.kind not in COMMANDS:
        raise TraceError(f"a fork can add commands, such as queue.purge; got {command.kind!r}, which is none")
    # Encoded and decoded as in a file, so that a replay of the fork's trace gives the same bytes.
    arguments = decode_detail(encode_detail(command.detail))
    return Step(-1, max(now, command.time), command.kind, command.session, arguments)


class _Deliveries:
    """The deliveries of a run, and the delivery number that the broker gave to each."""

    def __init__(self) -> None:
        # After the first additional or missing delivery, the numbers of the fork differ from the original's.
        # The subscription, the message and the count of its deliveries there identify a delivery in both.
        self._times: Counter[tuple[str, str, str]] = Counter()
        self.by_number: dict[tuple[str, int], Delivery] = {}
        self.numbers: dict[Delivery, int] = {}

    def take(self, event: Event) -> Delivery:
        place = (event.session, event.link, event.message)
        # A message that was released is delivered again, under a new number.
        self._times[place] += 1
        delivery = (*place, self._times[place])
        number = (event.detail or {})["delivery"]
        assert isinstance(number, int)
        self.by_number[event.session, number] = delivery
        self.numbers[delivery] = number
        return delivery


class _Fork:
    """The continuation of a fork, which translates recorded delivery numbers into the fork's own."""

    def __init__(self, original: Trace, end: int, broker: Broker) -> None:
        self.broker = broker
        self.trace = Trace(f"{original.run}, forked", original.options, original.workload)
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
        if self._can_be_given(step):
            give(self.broker, self._translate(step) if step.row >= 0 else step)
        while self.arrived:
            # A settlement may cause the next delivery, so the list may grow during this loop.
            delivery = self.arrived.pop(0)
            for waiting in self.early.pop(delivery, []):
                own = {**waiting.arguments, "transfers": [self.ours.numbers[delivery]]}
                give(self.broker, waiting._replace(time=self.broker.now, arguments=own))

    def _can_be_given(self, step: Step) -> bool:
        """Return whether the session of a recorded command, or the store's message, exists in the fork."""
        if step.kind == "store.finish" and step.row >= 0:
            store = self.broker.store
            return isinstance(store, DelayedStore) and step.arguments["message"] in store.pending
        if step.kind in ("advance", "management", "session.attach", "store.open"):
            return True
        session = self.broker.sessions.get(step.session)
        # A recorded command is left out if its session has died in the fork: its client would not have sent
        # it. A command that the reader has added is performed, and refused with a reason.
        return step.row < 0 or (session is not None and session.is_attached)

    def _translate(self, step: Step) -> Step:
        if "transfers" not in step.arguments:
            return step
        transfers = []
        for number in step.arguments["transfers"]:
            delivery = self.theirs.by_number.get((step.session, number))
            # A recorded delivery may come later in the fork, or never. Its settlement waits for it, as the
            # client would.
            own = number if delivery is None else self.ours.numbers.get(delivery)
            if own is not None:
                transfers.append(own)
            elif delivery is not None:
                self.early[delivery].append(step)
        return step._replace(arguments={**step.arguments, "transfers": transfers})
