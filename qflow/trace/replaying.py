"""Recording a run as a trace, replaying a trace, and taking it another way.

A trace has the broker's events in order, and the commands are among them.  Commands are all that comes from
outside, time included (``advance``), so a trace that begins with a fresh broker holds everything that decides
its course: its commands, given to a fresh engine, return its own rows, byte for byte (:class:`Replay`).

- :func:`record` observes a broker from its start; :func:`trace_of` takes a simulated run.
- ``_steps_of`` yields the commands of a trace, and :func:`give` gives one to a broker.
- :class:`Replay` gives them all, and says where the engine differs from the trace.
- :func:`fork` takes the same clients another way from some row on.  They do what the trace says they did,
  when it says so; but what was delivered may be another message, or come at another time.  So a client
  accepts, releases or completes *the same messages* as it did, each as soon as it has it.
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
        broker: A fresh one: a trace starts at the beginning, or it could not be replayed.
            ``broker.observe(None)`` ends the recording.

    Raises:
        TraceError: If the broker has been used already, or has a store of a kind that a replay could not
            make.

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
    """Return a run of a workload as a trace.

    It holds the workload too, so that a what-if can start from the file alone.

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
"""The keys of a command's detail besides its arguments: its manner of sending (RF-08, CM-05)."""


class Step(NamedTuple):
    """One command of a trace."""

    row: int  # From 0; -1 for a command that was added later.
    time: int
    kind: str
    session: str
    arguments: dict[str, Any]


def _steps_of(trace: Trace) -> Iterator[Step]:
    """Yield the commands of a trace; a TraceError names the row whose detail cannot be read."""
    for row, kind in enumerate(trace.kind):
        if kind in COMMANDS:
            yield step_at(trace, row)


def step_at(trace: Trace, row: int) -> Step:
    """Return the command in a row of a trace; TraceError if its detail is unreadable."""
    try:
        arguments = decode_detail(trace.detail[row])
    except ValueError as error:
        raise TraceError(f"row {row + 1}, column detail: {error}") from None
    return Step(row, trace.time[row], trace.kind[row], trace.session[row], arguments)


def give(broker: Broker, step: Step) -> None:
    """Perform one command of a trace at its time; a refusal appears in the broker's own rows."""
    try:
        # Never backwards: in a fork a command of the past is given at once, when the clock has passed it.
        if step.time > broker.now:
            broker.advance(step.time)
        # A refusal is a part of the run: the broker's own rows show it, in the replay as in the trace.
        with suppress(AmqpException, ManagementError, SessionDetached):
            _ACTIONS.get(step.kind, _command)(broker, step)
    # A stranger's trace may hold any values, and fails at whatever the engine does with them first.
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
    # The engine does not report its store. :func:`record` wrote this row, so the replay has to write it,
    # too.
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
    # Of commands that are read at once, the output comes after the last (RF-12).
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
        # The flag is of this command, which takes its number only when it is performed.
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
    """The first row in which the engine differs from a trace: its index; None for the side that has ended."""

    place: int
    a: Row | None
    b: Row | None

    def text(self) -> str:
        """Word it as a sentence."""
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
    """Return the first row in which two traces differ, or None; ``run`` and ``seq`` do not count."""
    common = min(len(a), len(b))
    index = min((_first_unequal(a, b, name, common) for name in _COMPARED), default=common)
    if index == len(a) == len(b):
        return None
    return Difference(index, *(trace.row(index) if index < len(trace) else None for trace in (a, b)))


def _first_unequal(a: Trace, b: Trace, name: str, common: int) -> int:
    first, second = getattr(a, name), getattr(b, name)
    # Column by column, as slices are compared in C; the rows are walked only where they differ.
    if first[:common] == second[:common]:
        return common
    return next(index for index in range(common) if first[index] != second[index])


class Replay:
    """A replay of a trace; :attr:`trace` is valid at every moment."""

    def __init__(self, original: Trace) -> None:
        self.original = original
        self.trace = original.empty()
        # Until the end is reached. A replay that Ctrl-C breaks off is written as a trace that is cut off.
        self.trace.expected = len(original)
        self.broker = Broker(original.options)
        self.broker.observe(self._observe)

    def run(self, before: Callable[[Step], None] | None = None, progress: Progress | None = None) -> Trace:
        """Run all commands, each passed to `before` first; return the engine's trace."""
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
        """Return the first row in which original and replay differ, or None."""
        found = first_difference(self.original, self.trace)
        # A trace that is cut off may end in the middle of a command, which the replay completes.
        is_cut = self.original.expected is not None and found is not None and found.a is None
        return None if is_cut else found

    def _observe(self, event: Event) -> None:
        self._copy_clients_rows()
        self.trace.append(event)

    def _copy_clients_rows(self) -> None:
        # They are no command and no effect: only a client could write them.
        original, place = self.original, len(self.trace)
        while place < len(original) and original.kind[place] in CLIENT_EVENTS:
            self.trace.append_row(original.row(place)._replace(seq=place))
            place += 1


# Another course of events

Delivery = tuple[str, str, str, int]
"""Session, tag, label, and how many times that message has been delivered there."""


def fork(trace: Trace, row: int, commands: Iterable[Event], broker: Broker) -> Trace:
    """Return a trace that is equal up to the command of a row, and then continues differently."""
    # Up to the next command and not to `row` itself: the effects of the command before it belong to what
    # both courses share, and the broker was restored after them.
    rest = [step for step in _steps_of(trace) if step.row > row]
    end = rest[0].row if rest else len(trace)
    added = [_add_command(command, trace.time[end - 1]) for command in commands]
    when = operator.attrgetter("time")
    with pause_collector():
        continuation = _Fork(trace, end, broker)
        # At one instant added commands come first, as the merge prefers its first argument: "what if the
        # queue had been purged at 2.5 s" means before anything else of that instant.
        for step in heapq.merge(sorted(added, key=when), rest, key=when):
            continuation.give(step)
    return continuation.trace


def _add_command(command: Event, now: int) -> Step:
    if command.kind not in COMMANDS:
        raise TraceError(f"a fork can add commands, such as queue.purge; got {command.kind!r}, which is none")
    # As a file would hold it, so that the fork's trace can be replayed to the last byte.
    arguments = decode_detail(encode_detail(command.detail))
    return Step(-1, max(now, command.time), command.kind, command.session, arguments)


class _Deliveries:
    """The messages that each subscription was given, by number."""

    def __init__(self) -> None:
        # The numbers of deliveries differ between the courses after the first delivery more or less. The
        # subscription, the message and the count of its deliveries there do not.
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
    """The continuation of a fork: performs the commands with the fork's own delivery numbers."""

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
            # A settlement may cause the next delivery, so the list may grow while it is emptied.
            delivery = self.arrived.pop(0)
            for waiting in self.early.pop(delivery, []):
                own = {**waiting.arguments, "transfers": [self.ours.numbers[delivery]]}
                give(self.broker, waiting._replace(time=self.broker.now, arguments=own))

    def _can_be_given(self, step: Step) -> bool:
        """Return whether the fork still has the client's session, or the store has the message."""
        if step.kind == "store.finish" and step.row >= 0:
            store = self.broker.store
            return isinstance(store, DelayedStore) and step.arguments["message"] in store.pending
        if step.kind in ("advance", "management", "session.attach", "store.open"):
            return True
        session = self.broker.sessions.get(step.session)
        # A recorded command of a session that has died here is left out: its client would not have come to
        # it. An added one is the reader's own, and is refused with a reason.
        return step.row < 0 or (session is not None and session.is_attached)

    def _translate(self, step: Step) -> Step:
        if "transfers" not in step.arguments:
            return step
        transfers = []
        for number in step.arguments["transfers"]:
            delivery = self.theirs.by_number.get((step.session, number))
            # A delivery of the trace may come later in the fork, or never. Its settlement waits for it, as
            # the client would.
            own = number if delivery is None else self.ours.numbers.get(delivery)
            if own is not None:
                transfers.append(own)
            elif delivery is not None:
                self.early[delivery].append(step)
        return step._replace(arguments={**step.arguments, "transfers": transfers})
