"""A set of command numbers, kept as ranges: what ``session.completed`` carries (CM-04)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from qflow.broker.restorable import Restorable


class RangeSet(Restorable):
    """Numbers from 0 up, stored as disjoint closed ranges in ascending order.

    Completions arrive almost in order, so a set of many thousand commands is one or two ranges;
    a hole in it is a held transfer.

    Examples
    --------
    >>> completed = RangeSet()
    >>> for number in (0, 1, 3, 4):
    ...     completed.add(number)
    >>> completed
    RangeSet('0-1 3-4')
    >>> 2 in completed, len(completed)
    (False, 4)
    >>> completed.add(2); completed
    RangeSet('0-4')
    """

    __slots__ = ("_firsts", "_lasts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    @classmethod
    def of(cls, ranges: Sequence[tuple[int, int]]) -> RangeSet:
        """Make a set from disjoint (first, last) pairs in ascending order."""
        made = cls()
        made._firsts = [first for first, _ in ranges]
        made._lasts = [last for _, last in ranges]
        return made

    def copy(self) -> RangeSet:
        """Return an independent set of the same numbers."""
        made = RangeSet()
        made._firsts, made._lasts = self._firsts[:], self._lasts[:]
        return made

    def add(self, number: int) -> None:
        """Add one number; adding it twice changes nothing.  O(1) at the end, else O(ranges)."""
        firsts, lasts = self._firsts, self._lasts
        if lasts and number == lasts[-1] + 1:
            lasts[-1] = number
            return
        index = bisect_right(firsts, number)
        if index and number <= lasts[index - 1]:
            return
        joins_left = index > 0 and lasts[index - 1] == number - 1
        joins_right = index < len(firsts) and firsts[index] == number + 1
        if joins_left and joins_right:
            lasts[index - 1] = lasts[index]
            del firsts[index], lasts[index]
        elif joins_left:
            lasts[index - 1] = number
        elif joins_right:
            firsts[index] = number
        else:
            firsts.insert(index, number)
            lasts.insert(index, number)

    def __contains__(self, number: int) -> bool:
        index = bisect_right(self._firsts, number)
        return index > 0 and number <= self._lasts[index - 1]

    def __len__(self) -> int:
        return sum(self._lasts) - sum(self._firsts) + len(self._firsts)

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges():
            yield from range(first, last + 1)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangeSet):
            return NotImplemented
        return self._firsts == other._firsts and self._lasts == other._lasts

    __hash__ = None  # type: ignore[assignment]

    def ranges(self) -> list[tuple[int, int]]:
        """Return the ranges as (first, last) pairs, both ends included."""
        return list(zip(self._firsts, self._lasts, strict=True))

    def __str__(self) -> str:
        return " ".join(f"{a}-{b}" if a != b else str(a) for a, b in self.ranges())

    def __repr__(self) -> str:
        return f"RangeSet({str(self)!r})"
