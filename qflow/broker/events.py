"""Events: the kinds of event that a broker emits, and the table that stores the events of a run.

A broker calls its observer (``broker.observe``) with an event for each command that it receives, and for each
effect of a command.  Traces, pictures, explanations and Spark all use these events.  Without an observer no
event is made.

The detail of an event is stored as names and values until it is read.  All events of a kind share one tuple
of names, so that each needs only the tuple of its values, which takes a third of the time and memory of a
mapping.  An :class:`EventTable` stores the events of a run, or of a trace, in this form.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, overload

Detail = Mapping[str, object] | None


class Event(NamedTuple):
    """A command that a broker receives, or an effect of one; one row of a trace.

    Fields:
        time: Virtual time in microseconds since the start of the broker.
        kind: The kind of event, a key of :data:`COMMANDS` or :data:`EFFECTS`.
        queue, session, link, message, group: Names, or "" where they do not apply.  ``link`` is the tag of a
            subscription or the name of an exchange; ``message`` is the label of the message.
        size: The bytes that the broker counts for the message, or 0.
        detail: Further values by name, which the tables below list for each kind; None for no detail.

    >>> Event(0, "enqueued", queue="orders", message="p1-1", size=100)[:3]
    (0, 'enqueued', 'orders')
    """

    time: int
    kind: str
    queue: str = ""
    session: str = ""
    link: str = ""
    message: str = ""
    size: int = 0
    group: str = ""
    detail: Detail = None


Observer = Callable[[Event], None]

COMMANDS: dict[str, str] = {
    "session.attach": "a session begins; detail: connection",
    "session.detach": "a session ends in good order",
    "session.completed": "a client completes deliveries; detail: transfers",
    "session.flush": "a client asks which commands are complete",
    "session.written": "several commands in one write end, and output is made (RF-08)",
    "execution.sync": "a client asks for a report when all earlier commands are complete",
    "message.transfer": "a producer sends; link: exchange; detail: command, message",
    "message.subscribe": "a consumer or browser subscribes; link: tag",
    "message.cancel": "a subscription ends",
    "message.set_flow_mode": "credit or window",
    "message.flow": "credit is granted; detail: unit, value",
    "message.stop": "credit is taken away",
    "message.flush": "deliver while there is credit, then take it away",
    "message.accept": "responsibility is taken; detail: transfers",
    "message.release": "messages are released to their queue; detail: transfers, set_redelivered",
    "message.reject": "messages are refused; detail: transfers",
    "message.acquire": "browsed messages are claimed; detail: transfers",
    "queue.declare": "a queue is declared",
    "queue.delete": "a queue is deleted",
    "queue.purge": "a queue is emptied",
    "exchange.declare": "an exchange is declared",
    "exchange.delete": "an exchange is deleted",
    "exchange.bind": "a queue is bound",
    "exchange.unbind": "a binding is removed",
    "queue.query": "a client asks about a queue",
    "exchange.query": "a client asks about an exchange",
    "exchange.bound": "a client asks about bindings",
    "dtx.select": "refused: distributed transactions are left out",
    "message.modify": "messages are released, modified (LNK-12); detail: transfers, delivery_failed, …",
    "link.attach": "a link of AMQP 1.0 begins (LNK-16); detail: tag, role, address, options",
    "link.detach": "a link of AMQP 1.0 ends; detail: tag, role",
    "link.dispatch": "something moves on a connection of AMQP 1.0, which serves its links (LNK-15)",
    "tx.select": "the session becomes transactional",
    "tx.commit": "the transaction takes effect",
    "tx.rollback": "the transaction is forgotten",
    "store.open": "the broker has a store that takes time (CM-12); detail: flushes_on_sync",
    "store.finish": "the store is done with a message (CM-12); detail: message",
    "management": "a management method; detail: method, arguments",
    "advance": "time moves on, and something was due",
}

EFFECTS: dict[str, str] = {
    "completed": "a command of a session is complete; detail: command",
    "reported": "a client is sent the numbers of the complete commands (CM-05); detail: completed",
    "held": "a stopped queue withholds a transfer's completion (FC-15); detail: command",
    "let_go": "a queue no longer withholds a transfer's completion (FC-17); detail: command",
    "listed": "a message waits in its session's list (ALT-06); link: exchange; detail: command, waiting",
    "enqueued": "a message is on a queue; detail: position, depth, bytes",
    "acquired": "a message now belongs to a subscription; detail: position",
    "delivered": "a message is sent to a subscription; detail: delivery, redelivered, acquired",
    "requeued": "an acquired message is available again, at its old place; detail: position",
    "dequeued": "a message has left its queue; detail: position, reason, depth, bytes",
    "dropped": "a message was not put on a queue; detail: reason",
    "unroutable": "no binding matched; link: exchange (EX-08)",
    "flow_stopped": "flow control of the queue turned ON (FC-14); detail: count, size",
    "flow_resumed": "flow control of the queue turned OFF (FC-16); detail: count, size",
    "channel_flow": "the broker asks a client to stop sending, or to resume (ALT-12); detail: active",
    "group_owned": "a group belongs to an owner; link: owner (MG-07)",
    "group_freed": "a group is free again (MG-08)",
    "out_of_credit": "a subscription stops for want of credit (CN-05)",
    "idle": "a subscription found nothing and waits in the queue's list (CN-19)",
    "refused": "a command of AMQP 1.0 is refused, its session lives (LNK-05); detail: command, name, text",
    "link_closed": "the broker closes a receiver's link (LNK-09); detail: name, text",
    "broker_failure": "the real broker would hang or crash here; detail: how, text",
    "exception": "a session died; detail: code, name, text",
    "queueDeclare": "a queue exists; detail: arguments",
    "queueDelete": "a queue is gone; detail: reason",
    "exchangeDeclare": "an exchange exists; link: its name; detail: type",
    "exchangeDelete": "an exchange is gone; link: its name",
    "bind": "a binding exists; link: exchange; detail: key",
    "unbind": "a binding is gone; link: exchange; detail: key",
    "subscribe": "a subscription exists",
    "unsubscribe": "a subscription is gone",
    "queueRedirect": "two queues swapped their incoming messages; link: the other queue (QT-18)",
    "queueRedirectCancelled": "they get their own again; link: the other queue (QT-18)",
    "queueThresholdCrossedUpward": "an alert (QT-13); detail: msgDepth, byteDepth",
    "queueThresholdCrossedDownward": "an alert (QT-13); detail: msgDepth, byteDepth",
    "queueThresholdExceeded": "the deprecated alert (QT-13); detail: msgDepth, byteDepth",
}


Names = tuple[str, ...] | None
Values = tuple[Any, ...]


def pack(detail: Detail) -> tuple[Names, Values]:
    """Return the names and the values of an event's detail, or None and () if it has no detail."""
    return (None, ()) if detail is None else (tuple(detail), tuple(detail.values()))


def unpack(names: Names, values: Values) -> Detail:
    """Return the detail with these names and values, the inverse of :func:`pack`."""
    if names is None:
        return None
    if len(names) == 1:
        return {names[0]: values[0]}
    # A loop, as it is faster than any single expression, compiled or not.
    detail = {}
    for place, name in enumerate(names):
        detail[name] = values[place]
    return detail


WIDTH = len(Event._fields) + 1
"""The number of cells of an event in a table: one for each field, two (names and values) for the detail."""
DETAIL = WIDTH - 2
"""The index of the cell with the detail's names; the cell with its values follows."""
SHOWN = 10
"""The number of events that the repr of a table shows."""

_event: Callable[[Iterable[Any]], Event] = partial(tuple.__new__, Event)


class EventTable(Sequence[Event]):
    """A sequence of events, stored as one flat list of cells, so that events are cheap to record.

    >>> table = EventTable([Event(0, "enqueued", queue="q"), Event(5, "dequeued", queue="q")])
    >>> table.column("kind"), table[-1].time, len(table)
    (['enqueued', 'dequeued'], 5, 2)
    """

    __slots__ = ("cells",)

    def __init__(self, events: Iterable[Event] = ()) -> None:
        # The WIDTH cells of the first event, then those of the second, and so on: a column is a slice with a
        # step.
        self.cells: list[Any] = []
        for event in events:
            self.append(event)

    def append(self, event: Event) -> None:
        """Add an event at the end."""
        self.cells += (*event[:DETAIL], *pack(event.detail))

    __call__ = append

    def column(self, name: str) -> list[Any]:
        """Return one field of all events, such as ``kind``; raise ValueError for an unknown field."""
        index = Event._fields.index(name)
        column = self.cells[index::WIDTH]
        return column if index < DETAIL else list(map(unpack, column, self.cells[index + 1 :: WIDTH]))

    def tuples(self, start: int = 0) -> Iterator[tuple[Any, ...]]:
        """Yield the events from index `start` on as plain tuples, ending in the detail's names and values."""
        # The cells are copied only if some are left out.
        cells = iter(self.cells[start * WIDTH :] if start else self.cells)
        return zip(*[cells] * WIDTH, strict=True)

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the events as plain tuples, which is faster than as events."""
        return ((*row[:DETAIL], unpack(row[DETAIL], row[DETAIL + 1])) for row in self.tuples())

    def __len__(self) -> int:
        return len(self.cells) // WIDTH

    def __iter__(self) -> Iterator[Event]:
        return map(_event, self.rows())

    @overload
    def __getitem__(self, index: int) -> Event: ...

    @overload
    def __getitem__(self, index: slice) -> list[Event]: ...

    def __getitem__(self, index: int | slice) -> Event | list[Event]:
        if isinstance(index, slice):
            return [self[place] for place in range(len(self))[index]]
        start = range(len(self))[index] * WIDTH
        *fields, names, values = self.cells[start : start + WIDTH]
        return _event((*fields, unpack(names, values)))

    def __delitem__(self, index: slice) -> None:
        places = range(len(self))[index]
        if places.step != 1:
            raise ValueError(f"events are forgotten in one piece, got a step of {places.step}")
        del self.cells[places.start * WIDTH : places.stop * WIDTH]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, EventTable) and self.cells == other.cells:
            # Equal cells need no comparison of events, which would have to be made.
            return True
        return list(self) == list(other) if isinstance(other, EventTable | list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self[:SHOWN]))
        return f"[{shown}]" if len(self) <= SHOWN else f"[{shown}, ...: {len(self)} events]"


def of_kinds(events: Iterable[Event], kinds: Container[str]) -> Iterator[Event]:
    """Return the events of some kinds in order, without making objects of a table's other events."""
    if not isinstance(events, EventTable):
        return (event for event in events if event.kind in kinds)
    return (
        _event((*row[:DETAIL], unpack(row[DETAIL], row[DETAIL + 1])))
        for row in events.tuples()
        if row[1] in kinds
    )
