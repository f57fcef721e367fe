"""Spans: what lasts for some frames, such as a message's stay on a queue, one row each.

A frame holds counts; spans say *which* message lies where. Both are numbers, both go to the browser once,
and what a frame shows is looked up in them: nothing is worked out twice, so going back is exact.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator

from qflow.labs.packing import Planes, pack

NEVER = 2**31 - 1
"""The frame in which something ends that had not ended when the run did."""

SENDINGS = ("producer", "number", "group", "start", "end", "held_start", "held_end")
STAYS = (
    *("queue", "producer", "number", "group", "start", "end"),
    *("reason", "held_start", "held_end", "again", "size"),
)
HOLDINGS = ("stay", "consumer", "start", "end", "again")
LOCKS = ("queue", "group", "consumer", "start", "end")
REASONS = ("", "accept", "accept-none", "ring", "reject", "lvq", "queue-deleted", "purge", "expired", "other")
"""Why a message left its queue; the first is for one that is still there."""


class Spans:
    """A table of things that last; its columns ``start`` and ``end`` are frames, the end not included.

    Parameters
    ----------
    columns
        What a row holds; see :data:`SENDINGS`, :data:`STAYS`, :data:`HOLDINGS`, :data:`LOCKS`.
    data
        Row after row.

    Examples
    --------
    >>> locks = Spans(LOCKS, array("i", [0, 1, 1, 5, 9]))
    >>> list(locks.alive(5)), list(locks.alive(9))
    ([0], [])
    """

    def __init__(self, columns: tuple[str, ...], data: array[int]) -> None:
        self.columns = columns
        self.width = len(columns)
        self.data = data
        self._place = {name: index for index, name in enumerate(columns)}

    def get(self, row: int, column: str) -> int:
        """Read one number of a row."""
        return self.data[row * self.width + self._place[column]]

    def row(self, index: int) -> dict[str, int]:
        """Read a row.

        Examples
        --------
        >>> Spans(LOCKS, array("i", [0, 1, 2, 3, 4])).row(0)["consumer"]
        2
        """
        start = index * self.width
        return dict(zip(self.columns, self.data[start : start + self.width], strict=True))

    def column(self, name: str) -> array[int]:
        """Read one column, top to bottom."""
        return self.data[self._place[name] :: self.width]

    def alive(self, frame: int) -> Iterator[int]:
        """Yield the rows that last over a frame, in the order in which they began."""
        for row, (start, end) in enumerate(zip(self.column("start"), self.column("end"), strict=True)):
            if start > frame:
                return
            if end > frame:
                yield row

    def __len__(self) -> int:
        return len(self.data) // self.width

    def packed(self) -> tuple[Planes, bytes]:
        """Return the numbers as the browser is sent them; see :func:`qflow.labs.packing.pack`."""
        return pack(self.data, self.width)
