"""EventTable: all that a broker was seen doing, as columns; the fast way to observe one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, overload

from qflow.broker.events import Event

WIDTH = len(Event._fields)

_event: Callable[[Iterable[Any]], Event] = partial(tuple.__new__, Event)


class EventTable(Sequence[Event]):
    """Events, in order, without an object for each: a flat list of cells, in which a column is a stride.

    As an observer (:meth:`qflow.broker.Broker.observe`) it costs half of what a list of events does. To
    whoever reads it, it is a sequence of :class:`~qflow.broker.events.Event`, made when asked for.

    Parameters
    ----------
    events : iterable of Event
        What it holds at first.

    Attributes
    ----------
    cells : list
        The fields of the first event, then those of the second, and so on.

    Examples
    --------
    >>> table = EventTable([Event(0, "enqueued", queue="q"), Event(5, "dequeued", queue="q")])
    >>> table.column("kind"), table[-1].time, len(table)
    (['enqueued', 'dequeued'], 5, 2)
    """

    __slots__ = ("cells",)

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.cells: list[Any] = []
        for event in events:
            self.cells += event

    def append(self, event: Event) -> None:
        """Add an event."""
        self.cells += event

    __call__ = append

    def column(self, name: str) -> list[Any]:
        """Return one field of all events, such as ``kind``.

        Raises
        ------
        ValueError
            If events have no such field.
        """
        return self.cells[Event._fields.index(name) :: WIDTH]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the events as plain tuples, which is faster than as events."""
        cells = iter(self.cells)
        return zip(*[cells] * WIDTH, strict=True)

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
        return _event(self.cells[start : start + WIDTH])

    def __delitem__(self, index: slice) -> None:
        places = range(len(self))[index]
        if places.step != 1:
            raise ValueError(f"events are forgotten in one piece, got a step of {places.step}")
        del self.cells[places.start * WIDTH : places.stop * WIDTH]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, EventTable):
            return self.cells == other.cells
        return list(self) == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))
