"""SASL: the exchange of a client's identity, before the AMQP header (LNK-24).

Proton has a SASL layer of its own, but it checks passwords only with a further library.  The exchange has
three frames: the broker offers its mechanisms, the client chooses one and sends its response, the broker
sends the outcome.  Without a password every client is admitted, by ``ANONYMOUS``, by ``PLAIN`` with any
password, or without SASL at all.  With a password only ``PLAIN`` with that password is accepted, whatever the
user's name.  Azure's clients may choose ``MSSBCBS``, which announces a token for ``$cbs``
(:mod:`qflow.live.service_nodes`); the broker treats it like ``ANONYMOUS``.
"""

from __future__ import annotations

import hmac

from proton import UNDESCRIBED, Array, Data, symbol, ubyte

from qflow.live.amqp_frames import AMQP_HEADER, SASL_HEADER, Codec, descriptor_of, foreign_protocol
from qflow.live.encoded import encode_described
from qflow.qflow_error import QflowError

_MECHANISMS, _INIT, _OUTCOME = 0x40, 0x41, 0x44
_OK, _AUTH, _SYS_PERM = ubyte(0), ubyte(1), ubyte(3)
_LARGEST = 4096
_OPEN = ("ANONYMOUS", "MSSBCBS")
_HEADER_SIZE = 8


class SaslRefusedError(QflowError):
    """The client is refused; the server closes the socket after it has written the output."""


class SaslLayer:
    """The SASL exchange of one connection: it reads and writes all bytes before the AMQP header."""

    def __init__(self, password: str = "") -> None:
        self.output = bytearray()
        self.user = ""
        self.is_done = False
        self._password = password
        self._input = bytearray()
        self._has_header = False

    def receive(self, data: bytes) -> bytes:
        """Process bytes from the client; return the bytes after the SASL exchange, which are AMQP's."""
        self._input += data
        if not self._has_header:
            self._take_header()
        if self._has_header:
            self._take_frame()
        if not self.is_done:
            return b""
        # A client may send its AMQP header and its open before it has received the outcome.
        rest, self._input = bytes(self._input), bytearray()
        return rest

    def _take_header(self) -> None:
        foreign = foreign_protocol(bytes(self._input[:_HEADER_SIZE]))
        if foreign:
            self.output += SASL_HEADER if self._password else AMQP_HEADER
            raise SaslRefusedError(f"speaks {foreign}; AMQP 1.0 is served here, without TLS")
        if self._input.startswith(SASL_HEADER):
            del self._input[:_HEADER_SIZE]
            self._has_header = True
            names = ["PLAIN"] if self._password else [*_OPEN, "PLAIN"]
            offered = Array(UNDESCRIBED, Data.SYMBOL, *[symbol(name) for name in names])
            self.output += SASL_HEADER + _encode_frame(_MECHANISMS, [offered])
        elif len(self._input) >= _HEADER_SIZE:
            if self._password:
                # A peer that refuses a header sends the one it requires, as the specification demands.
                self.output += SASL_HEADER
                raise SaslRefusedError("a client must use SASL, as the server requires a password")
            self.is_done = True

    def _take_frame(self) -> None:
        if len(self._input) < _HEADER_SIZE:
            return
        size = int.from_bytes(self._input[:4], "big")
        if not _HEADER_SIZE <= size <= _LARGEST or self._input[5] != 1 or self._input[4] != 2:
            allowed = f"{_HEADER_SIZE} to {_LARGEST} bytes, data offset 2 and type 1"
            raise SaslRefusedError(f"a SASL frame must have {allowed}; got {size} bytes")
        if len(self._input) < size:
            return
        mechanism, response = _read_init(bytes(self._input[_HEADER_SIZE:size]))
        del self._input[:size]
        if mechanism == "PLAIN":
            # The parts are the authorization identity, the authentication identity and the password.
            parts = response.split(b"\0")
            # Compared in constant time, so that the duration reveals nothing about the password.
            is_right = len(parts) == 3 and (
                not self._password or hmac.compare_digest(parts[2], self._password.encode())
            )
            if not is_right:
                self.output += _encode_frame(_OUTCOME, [_AUTH])
                raise SaslRefusedError("a wrong user or password")
            self.user = parts[1].decode("utf-8", "replace")
        elif mechanism in _OPEN and not self._password:
            self.user = "anonymous"
        else:
            self.output += _encode_frame(_OUTCOME, [_SYS_PERM])
            raise SaslRefusedError(f"the SASL mechanism must be one that is offered; got {mechanism!r}")
        self.output += _encode_frame(_OUTCOME, [_OK])
        self.is_done = True


def _encode_frame(descriptor: int, fields: list[object]) -> bytes:
    body = encode_described(descriptor, fields)
    return (len(body) + _HEADER_SIZE).to_bytes(4, "big") + b"\x02\x01\x00\x00" + body


def _read_init(body: bytes) -> tuple[str, bytes]:
    """Return the mechanism and the response in a client's sasl-init frame."""
    try:
        _, frame = Codec().decode(body)
        if descriptor_of(frame) != _INIT:
            raise SaslRefusedError("the first SASL frame must be sasl-init")
        mechanism, response = str(frame.value[0]), frame.value[1] if len(frame.value) > 1 else None
        return mechanism, b"" if response is None else bytes(response)
    except (ValueError, TypeError, IndexError) as error:
        raise SaslRefusedError(f"the SASL frame cannot be decoded: {error}") from None
