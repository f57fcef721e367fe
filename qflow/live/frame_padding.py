"""FramePadding: performatives with every field, for a client that counts on fields nobody needs to send.

AMQP 1.0 allows a sender to omit the fields at a list's end that are null, and Proton does.  Azure's library
for event hubs (5.15) reads them by position without a look at the list's length, and fails at the first frame
of any broker that omits one.  For such clients each list is filled up with nulls; the bytes are
otherwise as Proton made them, and payloads are not looked at.
"""

from __future__ import annotations

from typing import Final

_FIELDS: Final = {0x10: 10, 0x11: 8, 0x12: 14, 0x13: 11, 0x14: 11, 0x15: 6, 0x16: 3, 0x17: 1, 0x18: 1}
_HEADER = 8
_NULL, _EMPTY, _SMALL, _LARGE = b"\x40", 0x45, 0xC0, 0xD0
_MOST_SMALL = 255


def pad(body: bytes) -> bytes:
    """Return a frame's body, a performative and perhaps a payload, with all fields of the performative.

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
    """Pads a connection's output, frame by frame."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Return the complete padded frames; a header and heartbeats pass unchanged."""
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
