"""An ordered set of queue positions in which the next one is found without a scan.

The real broker walks its deque past acquired messages and tombstones.  This set gives the same
answer in a constant number of steps: bits in blocks of 1,024, and a second layer of bits that
says which blocks are not empty, up to three layers (2**30 positions per top key).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from qflow.broker.restorable import Restorable

_SHIFT: Final = 10
_MASK: Final = (1 << _SHIFT) - 1
_LAYERS: Final = 3


class PositionSet(Restorable):
    """Positions (integers from 0 up) with ``add``, ``discard`` and ``after``.

    Examples
    --------
    >>> available = PositionSet()
    >>> for position in (1, 2, 3, 5000):
    ...     available.add(position)
    >>> available.discard(2)
    >>> available.after(0), available.after(1), available.after(3), available.after(5000)
    (1, 3, 5000, None)
    >>> len(available), list(available)
    (3, [1, 3, 5000])
    """

    ONLY_COUNTS: ClassVar[bool] = True

    __slots__ = ("_layers", "_count")

    def __init__(self) -> None:
        self._layers: list[dict[int, int]] = [{} for _ in range(_LAYERS)]
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, position: int) -> bool:
        return bool(self._layers[0].get(position >> _SHIFT, 0) >> (position & _MASK) & 1)

    def add(self, position: int) -> None:
        """Add a position; adding it twice changes nothing."""
        for layer in self._layers:
            block, bit = position >> _SHIFT, 1 << (position & _MASK)
            bits = layer.get(block, 0)
            if layer is self._layers[0]:
                if bits & bit:
                    return
                self._count += 1
            layer[block] = bits | bit
            if bits:
                return
            position = block

    def discard(self, position: int) -> None:
        """Remove a position; removing an absent one changes nothing."""
        if position not in self:
            return
        self._count -= 1
        for layer in self._layers:
            block = position >> _SHIFT
            bits = layer[block] & ~(1 << (position & _MASK))
            if bits:
                layer[block] = bits
                return
            del layer[block]
            position = block

    def after(self, position: int) -> int | None:
        """Return the smallest member greater than ``position`` (which may be -1), or None."""
        if not self._count:
            return None
        depth = 0
        position += 1
        while depth < _LAYERS:
            block = position >> _SHIFT
            rest = self._layers[depth].get(block, 0) >> (position & _MASK)
            if rest:
                return self._descend(depth, position + (rest & -rest).bit_length() - 1)
            position = block + 1
            depth += 1
        beyond = [top for top in self._layers[-1] if top >= position]
        return self._descend(depth, min(beyond)) if beyond else None

    def first(self) -> int | None:
        """Return the smallest member, or None when empty."""
        return self.after(-1)

    def _descend(self, depth: int, position: int) -> int:
        while depth:
            depth -= 1
            bits = self._layers[depth][position]
            position = (position << _SHIFT) + (bits & -bits).bit_length() - 1
        return position

    def __iter__(self) -> Iterator[int]:
        position = self.first()
        while position is not None:
            yield position
            position = self.after(position)
