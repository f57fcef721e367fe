"""FramePadding: performatives with all their fields, for a client that requires optional ones.

AMQP 1.0 allows a sender to omit null fields at the end of a list, and Proton omits them.  Azure's library for
event hubs (5.15) reads the fields by position without checking the list's length, and fails at the first
frame of any broker that omits one.  For such clients each list is extended with nulls; the other bytes are as
Proton made them, and payloads are not examined.
"""

from __future__ import annotations

from typing import Final

_FIELDS: Final = {0x10: 10, 0x11: 8, 0x12: 14, 0x13: 11, 0x14: 11, 0x15: 6, 0x16: 3, 0x17: 1, 0x18: 1}
_HEADER = 8
_NULL, _EMPTY, _SMALL, _LARGE = b"\x40", 0x45, 0xC0, 0xD0
_MOST_SMALL = 255


def pad(body: bytes) -> bytes:
    """Return a frame's body with all fields of its performative; a payload behind it is kept.

    >>> pad(bytes.fromhex("005318 45")).hex(" "), pad(bytes.fromhex("005316 c00201 43")).hex(" ")
    ('00 53 18 c0 02 01 40', '00 53 16 c0 04 03 43 40 40')
    """
    fields, kind = _FIELDS.get(body[2], 0), body[3]
    if kind == _EMPTY:
        values, count, rest = b"", 0, body[4:]
    elif kind == _SMALL:
        end = 5 + body[4]
        values, count, rest = body[6:end], body[5], body[end:]
    else:
        end = 8 + int.from_bytes(body[4:8], "big")
        values, count, rest = body[12:end], int.from_bytes(body[8:12], "big"), body[end:]
    # A null is one byte, whatever the field's type.
    values += _NULL * (fields - count)
    count = max(fields, count)
    if len(values) < _MOST_SMALL:
        return body[:3] + bytes([_SMALL, len(values) + 1, count]) + values + rest
    size = (len(values) + 4).to_bytes(4, "big")
    return body[:3] + bytes([_LARGE]) + size + count.to_bytes(4, "big") + values + rest


class FramePadding:
    """A filter of a connection's output that pads each frame."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Return the padded complete frames; protocol headers and heartbeats are unchanged."""
        data, padded = self._rest + data, bytearray()
        while len(data) >= _HEADER:
            size = _HEADER if data.startswith(b"AMQP") else int.from_bytes(data[:4], "big")
            if len(data) < size:
                break
            frame, data = data[:size], data[size:]
            # A heartbeat is a header alone.
            if size > _HEADER:
                body = pad(frame[_HEADER:])
                frame = (len(body) + _HEADER).to_bytes(4, "big") + frame[4:_HEADER] + body
            padded += frame
        self._rest = data
        return bytes(padded)
