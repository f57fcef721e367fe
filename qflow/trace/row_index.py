"""RowIndex: the rows of a trace by what they are about, so that "the last time that …" is found at once."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from qflow.trace.schema import Trace

COLUMNS = ("queue", "session", "link")

_NONE: Sequence[int] = array("q")


class RowIndex:
    """Where in a trace each kind of row about each queue, session, link and message stands.

    Parameters
    ----------
    trace : Trace
        Read once; rows that are appended later are not seen.

    Examples
    --------
    >>> from qflow.broker import Event
    >>> trace = Trace()
    >>> for name in ("a", "b", "a"):
    ...     trace.append(Event(0, "enqueued", queue=name, message="m"))
    >>> index = RowIndex(trace)
    >>> index.last("enqueued", "queue", "a", 1), index.next("enqueued", "queue", "a", 1)
    (0, 2)
    >>> list(index.of_message("m"))
    [0, 1, 2]
    """

    __slots__ = ("_by", "_messages", "groups")

    def __init__(self, trace: Trace) -> None:
        self._by: dict[str, dict[tuple[str, str], array[int]]] = {}
        for column in COLUMNS:
            self._by[column] = _grouped(zip(trace.kind, getattr(trace, column), strict=True))
        messages: dict[str, array[int]] = {}
        for row, label in enumerate(trace.message):
            if label:
                if label in messages:
                    messages[label].append(row)
                else:
                    messages[label] = array("q", (row,))
        self._messages = messages
        pairs = zip(trace.queue, trace.group, strict=True)
        self.groups = list(dict.fromkeys(pair for pair in pairs if pair[0] and pair[1]))
        """Queue and group of every group there ever is, in order of appearance."""

    def rows(self, kind: str, column: str, name: str) -> Sequence[int]:
        """Return the places of all rows of a kind with a name in a column, ascending."""
        return self._by[column].get((kind, name), _NONE)

    def last(self, kind: str, column: str, name: str, until: int) -> int | None:
        """Return the place of the last such row up to and including ``until``, or None."""
        rows = self.rows(kind, column, name)
        place = bisect_right(rows, until)
        return rows[place - 1] if place else None

    def next(self, kind: str, column: str, name: str, after: int) -> int | None:
        """Return the place of the first such row behind ``after``, or None."""
        rows = self.rows(kind, column, name)
        place = bisect_right(rows, after)
        return rows[place] if place < len(rows) else None

    def count(self, kind: str, column: str, name: str, until: int) -> int:
        """Return how many such rows there are up to and including ``until``."""
        return bisect_right(self.rows(kind, column, name), until)

    def of_message(self, label: str) -> Sequence[int]:
        """Return the places of all rows about a message, ascending."""
        return self._messages.get(label, _NONE)

    def names(self, column: str, kinds: Iterable[str]) -> list[str]:
        """Return the names that rows of some kinds have in a column, in order of appearance."""
        wanted = set(kinds)
        first: dict[str, int] = {}
        for (kind, name), rows in self._by[column].items():
            if name and kind in wanted:
                first[name] = min(rows[0], first.get(name, rows[0]))
        return sorted(first, key=lambda name: first[name])

    @property
    def labels(self) -> Iterable[str]:
        """The labels of all messages, in order of appearance."""
        return self._messages.keys()


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], array[int]]:
    groups: dict[tuple[str, str], array[int]] = {}
    for row, pair in enumerate(pairs):
        if pair[1]:
            if pair in groups:
                groups[pair].append(row)
            else:
                groups[pair] = array("q", (row,))
    return groups
