"""A capture: the bytes of all connections as they passed, in files that another process reads behind.

The process that passes the bytes must not wait for anything, so it only appends them here; the reader,
another process of low priority, is free to be late.  A record is its time, connection, kind and length, and
then its bytes.  A file is left when it has :data:`SEGMENT` bytes, and removed by the reader when it has been
read: what a recording takes on disk grows with what is not yet read, not with its length.

Of SASL, only that it took place is kept: passwords do not reach the disk.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path

SEGMENT = 64 << 20
"""Bytes of a file after which the next is begun."""

OPENED, FROM_CLIENT, FROM_BROKER, CLOSED, STATISTICS = range(5)
_RECORD = struct.Struct("<QIBI")
_NAME = "_capture-{:05d}"
_SASL_HEADER = b"AMQP\x03"
_READ = 1 << 20


class CaptureWriter:
    """Appends records; the disk's refusal is kept in :attr:`error`, and never reaches the caller.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     writer = CaptureWriter(Path(folder))
    ...     writer.append(7, 1, FROM_CLIENT, b"AMQP")
    ...     writer.close()
    ...     list(CaptureReader(Path(folder)).records())
    [(7, 1, 1, b'AMQP')]
    """

    def __init__(self, folder: Path) -> None:
        self._folder, self.error, self.written = folder, "", 0
        self._number = self._size = 0
        self._file = self._next()

    def append(self, time: int, connection: int, kind: int, data: bytes) -> None:
        """Append one record."""
        if self.error:
            return
        record = _RECORD.pack(time, connection, kind, len(data)) + data
        try:
            if self._size + len(record) > SEGMENT and self._size:
                os.close(self._file)
                self._number += 1
                self._size = 0
                self._file = self._next()
            place = 0
            while place < len(record):
                place += os.write(self._file, record[place:] if place else record)
        except OSError as error:
            self.error = f"the capture cannot be written: {error.strerror}"
            return
        self._size += len(record)
        self.written += len(record)

    def close(self) -> None:
        """Leave the file."""
        os.close(self._file)

    def _next(self) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_BINARY", 0)
        return os.open(self._folder / _NAME.format(self._number), flags, 0o600)


class CaptureReader:
    """Reads a capture while another process writes it."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.read = folder, 0
        self._number = 0
        self._file = -1
        self._buffer = b""

    def records(self) -> Iterator[tuple[int, int, int, bytes]]:
        """Yield time, connection, kind and bytes of each record that is whole; call again for later ones."""
        while True:
            place, buffer = 0, self._buffer
            while len(buffer) - place >= _RECORD.size:
                time, connection, kind, length = _RECORD.unpack_from(buffer, place)
                end = place + _RECORD.size + length
                if end > len(buffer):
                    break
                yield time, connection, kind, buffer[place + _RECORD.size : end]
                self.read += end - place
                place = end
            self._buffer = buffer[place:]
            more = self._more()
            if not more:
                return
            self._buffer += more

    def _more(self) -> bytes:
        here = self._folder / _NAME.format(self._number)
        after = self._folder / _NAME.format(self._number + 1)
        if self._file < 0:
            if not here.exists():
                return b""
            self._file = os.open(here, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        # A file that is followed by another gets nothing more; what it has must be looked for after that.
        is_left = after.exists()
        more = os.read(self._file, _READ)
        if not more and is_left:
            os.close(self._file)
            self._file = -1
            here.unlink()
            self._number += 1
            return self._more()
        return more

    def remove(self) -> None:
        """Remove the file that is being read: everything has been."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
            (self._folder / _NAME.format(self._number)).unlink(missing_ok=True)


class SaslHider:
    r"""One direction's bytes as they are kept: the bodies of SASL frames are zeros, all else is as it was.

    >>> hider = SaslHider()
    >>> frame = bytes.fromhex("0000000d0201000041424344ff")
    >>> hider.kept(b"AMQP\x03\x01\x00\x00" + frame)[-13:].hex()
    '0000000d020100000000000000'
    >>> hider.kept(b"AMQP\x00\x01\x00\x00 and all that follows")[-11:]
    b'hat follows'
    """

    def __init__(self) -> None:
        self.is_over = False
        self._rest = b""
        self._hidden = 0

    def kept(self, data: bytes) -> bytes:
        """Return as many bytes as can be judged, the secret ones as zeros; the others come with the next."""
        if self.is_over:
            return data
        data = self._rest + data
        self._rest = b""
        kept = []
        while data:
            if self._hidden:
                hidden = min(self._hidden, len(data))
                kept.append(bytes(hidden))
                self._hidden -= hidden
                data = data[hidden:]
                continue
            if len(data) < 8:
                self._rest = data
                break
            is_sasl_header = data[:5] == _SASL_HEADER
            is_sasl_frame = not is_sasl_header and data[:4] != b"AMQP" and data[5] == 1
            if not is_sasl_header and not is_sasl_frame:
                self.is_over = True
                kept.append(data)
                break
            kept.append(data[:8])
            if is_sasl_frame:
                self._hidden = max(0, int.from_bytes(data[:4], "big") - 8)
            data = data[8:]
        return b"".join(kept)
