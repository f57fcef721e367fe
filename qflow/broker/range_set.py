"""A set of command numbers, which is told as ranges: what ``session.completed`` carries (CM-04)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from qflow.broker.restorable import Restorable

_SHIFT: Final = 10
_SIZE: Final = 1 << _SHIFT


class RangeSet(Restorable):
    """Numbers from 0 up: all those before a front, and some behind it.

    Completions arrive almost in order, so almost all numbers lie before the front, which is the first hole:
    a held transfer.  The others are bits in blocks of 1,024.  A number is added and looked up in O(1),
    however many holes there are; what a copy costs grows with the numbers behind the front, by the block.

    Attributes
    ----------
    front : int
        The smallest number that is not in the set.

    Examples
    --------
    >>> completed = RangeSet()
    >>> for number in (0, 1, 3, 4):
    ...     completed.add(number)
    >>> completed, completed.front
    (RangeSet('0-1 3-4'), 2)
    >>> 2 in completed, len(completed)
    (False, 4)
    >>> completed.add(2); completed
    RangeSet('0-4')
    """

    ONLY_COUNTS: ClassVar[bool] = True

    __slots__ = ("front", "_blocks", "_behind")

    def __init__(self) -> None:
        self.front = 0
        # Bits of the numbers behind the front, by block; the front's own bit is never set, nor any before it.
        self._blocks: dict[int, int] = {}
        self._behind = 0

    @classmethod
    def of(cls, ranges: Sequence[tuple[int, int]]) -> RangeSet:
        """Make a set from disjoint (first, last) pairs in ascending order."""
        made = cls()
        for first, last in ranges:
            if first == made.front:
                made.front = last + 1
            else:
                for number in range(first, last + 1):
                    made.add(number)
        return made

    def copy(self) -> RangeSet:
        """Return an independent set of the same numbers."""
        made = RangeSet()
        made.front = self.front
        if self._behind:
            made._blocks, made._behind = self._blocks.copy(), self._behind
        return made

    def add(self, number: int) -> None:
        """Add one number; adding it twice changes nothing."""
        if number == self.front:
            self.front = number + 1
            if self._behind:
                self._move_front()
        elif number > self.front:
            block, bit = number >> _SHIFT, 1 << (number & (_SIZE - 1))
            bits = self._blocks.get(block, 0)
            if not bits & bit:
                self._blocks[block] = bits | bit
                self._behind += 1

    def _move_front(self) -> None:
        """Let the front pass all numbers that follow it without a hole."""
        while True:
            block, place = self.front >> _SHIFT, self.front & (_SIZE - 1)
            bits = self._blocks.get(block, 0) >> place
            run = _ones(bits)
            if not run:
                return
            self.front += run
            self._behind -= run
            rest = bits >> run
            if rest:
                self._blocks[block] = rest << (place + run)
                return
            del self._blocks[block]

    def __contains__(self, number: int) -> bool:
        if number < self.front:
            return number >= 0
        return bool(self._blocks.get(number >> _SHIFT, 0) >> (number & (_SIZE - 1)) & 1)

    def __len__(self) -> int:
        return self.front + self._behind

    def __iter__(self) -> Iterator[int]:
        for first, last in self.ranges():
            yield from range(first, last + 1)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RangeSet):
            return NotImplemented
        return self.front == other.front and self._blocks == other._blocks

    __hash__ = None  # type: ignore[assignment]

    def ranges(self) -> list[tuple[int, int]]:
        """Return the ranges as (first, last) pairs, both ends included."""
        ranges = [(0, self.front - 1)] if self.front else []
        for block in sorted(self._blocks):
            bits, number = self._blocks[block], block << _SHIFT
            while bits:
                zeros = (bits & -bits).bit_length() - 1
                run = _ones(bits >> zeros)
                first, number = number + zeros, number + zeros + run
                if ranges and ranges[-1][1] == first - 1:
                    # A range that goes on from one block to the next.
                    first = ranges.pop()[0]
                ranges.append((first, number - 1))
                bits >>= zeros + run
        return ranges

    def __str__(self) -> str:
        if not self._behind and self.front > 1:
            return f"0-{self.front - 1}"
        return " ".join(f"{a}-{b}" if a != b else str(a) for a, b in self.ranges())

    def __repr__(self) -> str:
        return f"RangeSet({str(self)!r})"


def _ones(bits: int) -> int:
    """Return how many of the lowest bits are set before the first that is not."""
    return (bits + 1 & ~bits).bit_length() - 1
