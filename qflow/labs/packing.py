"""Packing: a table of whole numbers in a third of its bytes or less, so that a picture is sent sooner.

A column's numbers are taken apart into their four bytes. Most columns count little: their higher bytes are
the same in every row, and a byte that never changes is told once. The browser puts the numbers together
again (``static/packing.js``); nothing is lost.
"""

from __future__ import annotations

import sys
from array import array

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
