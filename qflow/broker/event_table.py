"""EventTable: all that a broker was seen doing, as columns; the fast way to observe one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, overload

from qflow.broker.details import Names, Values, packed, unpacked
from qflow.broker.events import Event

WIDTH = len(Event._fields)
_DETAIL = WIDTH - 1
_FRESH = WIDTH + 1

_event: Callable[[Iterable[Any]], Event] = partial(tuple.__new__, Event)


class EventTable(Sequence[Event]):
    """Events, in order, without an object for each: a flat list of cells, in which a column is a stride.

    As an observer (:meth:`qflow.broker.Broker.observe`) it costs a third of what a list of events does. To
    whoever reads it, it is a sequence of :class:`~qflow.broker.events.Event`, made when asked for.

    Parameters
    ----------
    events : iterable of Event
        What it holds at first.

    Attributes
    ----------
    fresh : list
        The events since a detail was last asked for, one after the other: their fields, of which the detail
        is in two cells, its names and its values.

    Examples
    --------
    >>> table = EventTable([Event(0, "enqueued", queue="q"), Event(5, "dequeued", queue="q")])
    >>> table.column("kind"), table[-1].time, len(table)
    (['enqueued', 'dequeued'], 5, 2)
    """

    __slots__ = ("fresh", "_cells")

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.fresh: list[Any] = []
        self._cells: list[Any] = []
        for event in events:
            self._cells += event

    def append(self, event: Event) -> None:
        """Add an event."""
        self.fresh += (*event[:_DETAIL], *packed(event.detail))

    __call__ = append

    @property
    def cells(self) -> list[Any]:
        """The fields of the first event, then those of the second, and so on."""
        if self.fresh:
            cells = self.fresh[:]
            cells[_DETAIL::_FRESH] = map(unpacked, cells[_DETAIL::_FRESH], cells[WIDTH::_FRESH])
            del cells[WIDTH::_FRESH]
            self._cells += cells
            self.fresh.clear()
        return self._cells

    def column(self, name: str) -> list[Any]:
        """Return one field of all events, such as ``kind``.

        Raises
        ------
        ValueError
            If events have no such field.
        """
        index = Event._fields.index(name)
        if index == _DETAIL:
            return self.cells[_DETAIL::WIDTH]
        return self._cells[index::WIDTH] + self.fresh[index::_FRESH]

    def details(self) -> Iterator[tuple[Names, Values]]:
        """Yield the details of all events, each as its names and its values; no mapping is made of them."""
        read = map(packed, self._cells[_DETAIL::WIDTH])
        fresh = zip(self.fresh[_DETAIL::_FRESH], self.fresh[WIDTH::_FRESH], strict=True)
        return chain(read, fresh)

    def told(self, start: int = 0) -> Iterator[tuple[Any, ...]]:
        """Yield the events from one on as plain tuples, each ending with the names and values of its detail.

        The fastest way to read events: no mapping is made of any detail.
        """
        known = len(self._cells) // WIDTH
        cells, fresh = _from(self._cells, start * WIDTH), _from(self.fresh, max(0, start - known) * _FRESH)
        read = ((*row[:_DETAIL], *packed(row[_DETAIL])) for row in zip(*[cells] * WIDTH, strict=True))
        return chain(read, zip(*[fresh] * _FRESH, strict=True))

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the events as plain tuples, which is faster than as events."""
        cells = iter(self.cells)
        return zip(*[cells] * WIDTH, strict=True)

    def __len__(self) -> int:
        return len(self._cells) // WIDTH + len(self.fresh) // _FRESH

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


def _from(cells: list[Any], start: int) -> Iterator[Any]:
    """Iterate from a place on, without a copy where there is nothing to leave out."""
    return iter(cells[start:] if start else cells)
