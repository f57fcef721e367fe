"""The columns of a frame: which number stands where.

A frame is one row of integers. It begins with the time and what its step did; then come a few columns for
each producer, each queue and each consumer.

Packing: a table of whole numbers in a third of its bytes or less, so that a picture is sent sooner.

A column's numbers are taken apart into their four bytes. Most columns count little: their higher bytes are
the same in every row, and a byte that never changes is told once. The browser puts the numbers together
again (``static/packing.js``); nothing is lost.

Spans: what lasts for some frames, such as a message's stay on a queue, one row each.

A frame holds counts; spans say *which* message lies where. Both are numbers, both go to the browser once,
and what a frame shows is looked up in them: nothing is worked out twice, so going back is exact.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator

from qflow.labs.topology import Topology

STEP_CHANNELS = (
    "parts",
    "producer",
    "queue",
    "consumer",
    "sender",
    "number",
    "delivery_sender",
    "delivery_number",
    "deliveries",
    "freed",
    "waiter",
    "waiters",
    "group",
    "lost_sender",
    "lost_number",
)
PRODUCER_CHANNELS = ("sent", "outstanding", "held", "blocked", "mood")
QUEUE_CHANNELS = ("depth", "bytes", "flow", "held", "acquired", "discards", "gone")
CONSUMER_CHANNELS = ("present", "holds", "accepted")

PARTS, PRODUCER, QUEUE, CONSUMER, SENDER, NUMBER = range(1, 7)
GOT_SENDER, GOT_NUMBER, DELIVERIES, FREED, WAITER, WAITERS, GROUP, LOST_SENDER, LOST_NUMBER = range(7, 16)
AFTER_STEP = 1 + len(STEP_CHANNELS)
SENT, OUTSTANDING, P_HELD, BLOCKED, MOOD = range(len(PRODUCER_CHANNELS))
DEPTH, BYTES, FLOW, Q_HELD, ACQUIRED, DISCARDS, GONE = range(len(QUEUE_CHANNELS))
PRESENT, HOLDS, ACCEPTED = range(len(CONSUMER_CHANNELS))


def channel_names(topology: Topology) -> tuple[str, ...]:
    """Name the columns of a frame, in order.

    Parameters
    ----------
    topology
        Who takes part.

    Returns
    -------
    tuple of str
        ``time``, ``step.…``, then ``producer.NAME.…``, ``queue.NAME.…`` and ``consumer.NAME.…``.

    Examples
    --------
    >>> from qflow.labs.topology import QueueSpot
    >>> channel_names(Topology((), (QueueSpot("orders"),), (), (), 0))[-7:-4]
    ('queue.orders.depth', 'queue.orders.bytes', 'queue.orders.flow')
    """
    names = ["time", *(f"step.{name}" for name in STEP_CHANNELS)]
    for kind, spots, channels in (
        ("producer", topology.producers, PRODUCER_CHANNELS),
        ("queue", topology.queues, QUEUE_CHANNELS),
        ("consumer", topology.consumers, CONSUMER_CHANNELS),
    ):
        names += [f"{kind}.{spot.name}.{channel}" for spot in spots for channel in channels]
    return tuple(names)


_BYTES = 4
VARIES = -1

Planes = list[list[int]]
"""For each column its four bytes, lowest first: the byte itself, or -1 where every row has its own."""


def pack(data: array[int], width: int) -> tuple[Planes, bytes]:
    r"""Take a table apart.

    Parameters
    ----------
    data
        Its numbers, of 32 bits each, row after row.
    width
        How many columns it has.

    Returns
    -------
    planes : list of list of int
        How the bytes are to be read.
    bytes
        For each byte of each column that varies: that of the first row, of the second, and so on.

    Examples
    --------
    >>> pack(array("i", [1, 7, 2, 7, 3, 7]), width=2)
    ([[-1, 0, 0, 0], [7, 0, 0, 0]], b'\x01\x02\x03')
    """
    planes, parts = [], []
    for column in range(width):
        numbers = little_endian(data[column::width])
        told = []
        for place in range(_BYTES):
            plane = numbers[place::_BYTES]
            first = plane[:1]
            if plane != first * len(plane):
                told.append(VARIES)
                parts.append(plane)
            else:
                told.append(first[0] if first else 0)
        planes.append(told)
    return planes, b"".join(parts)


def unpack(planes: Planes, packed: bytes, rows: int) -> array[int]:
    """Put a table together again, as the browser does.

    Parameters
    ----------
    planes, packed
        What :func:`pack` returned.
    rows
        How many rows there are.

    Returns
    -------
    array of int

    Examples
    --------
    >>> table = array("i", [1, -1, 70_000, 2**31 - 1])
    >>> unpack(*pack(table, 2), rows=2) == table
    True
    """
    whole = bytearray(_BYTES * rows * len(planes))
    start = 0
    for at, byte in enumerate(byte for told in planes for byte in told):
        end = start + rows if byte == VARIES else start
        whole[at :: _BYTES * len(planes)] = packed[start:end] if byte == VARIES else bytes([byte]) * rows
        start = end
    signed = (
        int.from_bytes(whole[at : at + _BYTES], "little", signed=True) for at in range(0, len(whole), 4)
    )
    return array("i", signed)


def little_endian(data: array[int]) -> bytes:
    r"""Return an array's bytes, lowest first, whatever this machine's order.

    Examples
    --------
    >>> little_endian(array("i", [1]))
    b'\x01\x00\x00\x00'
    """
    if sys.byteorder == "little":
        return data.tobytes()
    swapped = array(data.typecode, data)
    swapped.byteswap()
    return swapped.tobytes()


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
        """Return the numbers as the browser is sent them; see :func:`qflow.labs.channels.pack`."""
        return pack(self.data, self.width)
