"""AMQP 1.0 frames: a reader of the bytes that two other programs exchange.

One direction of a connection is a header of eight bytes (``AMQP``, a protocol id, a version), and then
frames: four bytes of size, one of data offset, one of type (0 is AMQP, 1 is SASL), two of channel, and a
body.  The body of an AMQP frame is one performative (a described list), and after a transfer's performative
a piece of a message.  A frame without a body is a heartbeat.  A second header follows the SASL frames.

Proton's codec decodes the lists; this module finds where they begin, and names their fields, up to the last
one that a recording needs.  It keeps at most :data:`MOST_KEPT` bytes of a frame, whatever size a peer
announces.
"""

from __future__ import annotations

import re
from collections import namedtuple
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import UUID

from proton import Array, Data, Described, ProtonException

from qflow.qflow_error import QflowError

MOST_KEPT = 1 << 20
"""The most bytes that are kept of one frame or one message; the others are counted but not decoded."""

_HEADER = 8
_AMQP, _SASL = 0, 1
_PLAIN, _SECURE, _WITH_SASL = 0, 2, 3

# The first bytes of a section: a described type with a one-byte descriptor, which follows.
_DESCRIBED = b"\x00\x53"
_FIRST_SECTION, _MESSAGE_ANNOTATIONS = 0x70, 0x72
_EMPTY_LIST, _SMALL, _LARGE = 0x45, (0xC0, 0xC1), (0xD0, 0xD1)
_PROPERTIES = (0x73, 0x74)
_NO_PROPERTIES = b"\x00\x53\x73\x45"
_BODIES = (b"\x00\x53\x75", b"\x00\x53\x76", b"\x00\x53\x77")
_ODD_BODIES = (b"\x00\x53\x77\x00", b"\x00\x53\x77\x73")


class FrameError(QflowError, ValueError):
    """Bytes that are not valid AMQP 1.0; the text quotes them and names the allowed ones."""


_HTTP = re.compile(rb"(GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|CONNECT|TRACE|PRI) ")
_VERSIONS = {b"\0\0\x09\1": "0-9-1", b"\1\1\0\x0a": "0-10", b"\1\1\0\x09": "0-9", b"\1\1\x08\0": "0-8"}
AMQP_HEADER, SASL_HEADER = b"AMQP\0\1\0\0", b"AMQP\3\1\0\0"


def foreign_protocol(first: bytes) -> str:
    """Name the foreign protocol that a client's first bytes belong to, or "" if they may be AMQP 1.0."""
    if first.startswith((AMQP_HEADER, SASL_HEADER)) or (
        len(first) < _HEADER and b"AMQP".startswith(first[:4])
    ):
        return ""
    if first.startswith((b"\x16\x03", b"AMQP\2\1\0\0")):
        return "TLS"
    if first.startswith(b"AMQP"):
        version = first[4:_HEADER]
        return f"AMQP {_VERSIONS.get(version) or '-'.join(map(str, version))}"
    return "HTTP" if _HTTP.match(first) else f"no AMQP, its first bytes are {first[:_HEADER]!r}"


def _name_fields(name: str, fields: str) -> Any:
    """Return a named tuple class in which every field has the default None."""
    names = fields.split()
    return namedtuple(name, names, defaults=[None] * len(names))


_NAMES = {
    "Open": "container_id hostname max_frame_size channel_max idle_time_out outgoing_locales "
    "incoming_locales offered_capabilities desired_capabilities properties",
    # remote_channel is set in an answer: the channel of the begin that it answers.
    "Begin": "remote_channel",
    # Both peers attach a link, under one name and each under its own handle.
    "Attach": "name handle role snd_settle_mode rcv_settle_mode source target unsettled incomplete_unsettled "
    "initial_delivery_count",
    # A flow with a handle sets the credit of a link.
    "Flow": "next_incoming_id incoming_window next_outgoing_id outgoing_window handle delivery_count "
    "link_credit",
    # A message or a piece of a message.
    "Transfer": "handle delivery_id delivery_tag message_format settled more rcv_settle_mode state resume "
    "aborted",
    # Outcomes of deliveries; the role is that of the peer that sends the disposition.
    "Disposition": "role first last settled state",
    "Detach": "handle closed error",
    "End": "error",
    "Close": "error",
}
_PERFORMATIVES = {code: _name_fields(*each) for code, each in enumerate(_NAMES.items(), 0x10)}
Open, Begin, Attach, Flow, Transfer, Disposition, Detach, End, Close = _PERFORMATIVES.values()
# The fields of a source; a target has only some of them.
Terminus = _name_fields(
    "Terminus",
    "address durable expiry_policy timeout dynamic dynamic_node_properties distribution_mode filter "
    "default_outcome outcomes capabilities",
)
_SOURCE, _TARGET, COORDINATOR = 0x28, 0x29, 0x30
# How many fields a source and a target share, and how many only a source has before the capabilities.
_SHARED, _OF_A_SOURCE = 6, 4
OUTCOMES = {0x23: "received", 0x24: "accepted", 0x25: "rejected", 0x26: "released", 0x27: "modified"}
TRANSACTIONAL, DECLARED = 0x34, 0x33
_CONTROLS: dict[Any, str] = {0x31: "declare", "amqp:declare:list": "declare"}
_CONTROLS |= {0x32: "discharge", "amqp:discharge:list": "discharge"}


class _Frame(NamedTuple):
    """A frame of an AMQP connection: its performative, and the bytes after it."""

    channel: int
    performative: Any
    # The bytes after the performative (at most MOST_KEPT of them), and their full number.
    payload: bytes
    length: int


def descriptor_of(value: Any) -> int | None:
    """Return the numeric descriptor of a decoded value, or None."""
    descriptor = getattr(value, "descriptor", None)
    return int(descriptor) if isinstance(descriptor, int) else None


def terminus_of(value: Any) -> Any:
    """Return an attach's source or target with its fields by name; all None if the attach has none."""
    code = descriptor_of(value)
    if code not in (_SOURCE, _TARGET) or not isinstance(value.value, list):
        return Terminus()
    fields = value.value
    if code == _TARGET:
        fields = [*fields[:_SHARED], *[None] * _OF_A_SOURCE, *fields[_SHARED:]]
    return Terminus(*fields[: len(Terminus._fields)])


def product_of(properties: Any) -> str:
    """Return the product and version that a peer's open names, or ""."""
    known = properties if isinstance(properties, dict) else {}
    return " ".join(str(known[key]) for key in ("product", "version") if known.get(key))


def outcome_of(state: Any) -> str:
    """Return the name of a delivery's outcome, such as ``accepted``; "" without an outcome."""
    return OUTCOMES.get(descriptor_of(state) or 0, "")


class SectionPlaces(NamedTuple):
    """The offsets of a message's sections; ``is_bare`` if the message consists of a plain body only."""

    bare: int
    annotations: tuple[int, int]
    is_bare: bool


def section_places(raw: bytes) -> SectionPlaces:
    """Return the offsets of the bare message and annotations; raise FrameError for malformed sections.

    >>> section_places(bytes.fromhex("005370c0020141005377a103616263"))
    SectionPlaces(bare=7, annotations=(0, 0), is_bare=False)
    """
    at, annotations, is_bare = 0, (0, 0), True
    if raw and raw[0]:
        raise FrameError("a message must begin with a section")
    try:
        while raw.startswith(_DESCRIBED, at):
            code, kind = raw[at + 2], raw[at + 3]
            if not _FIRST_SECTION <= code <= _MESSAGE_ANNOTATIONS:
                break
            end = _section_end(raw, at)
            if code == _MESSAGE_ANNOTATIONS:
                annotations = (at, end)
            elif kind != _EMPTY_LIST:
                is_bare = False
            at = end
    except IndexError:
        raise FrameError("a section must end within the message") from None
    body = at + len(_NO_PROPERTIES) if raw.startswith(_NO_PROPERTIES, at) else at
    is_plain = raw.startswith(_BODIES, body) and not raw.startswith(_ODD_BODIES, body)
    return SectionPlaces(at, annotations, is_bare and is_plain)


def _section_end(raw: bytes, at: int) -> int:
    """Return the offset after a list or map section; raise IndexError if the bytes end before it."""
    kind = raw[at + 3]
    if kind == _EMPTY_LIST:
        end = at + 4
    elif kind in _SMALL:
        end = at + 5 + raw[at + 4]
    elif kind in _LARGE:
        end = at + 8 + int.from_bytes(raw[at + 4 : at + 8], "big")
    else:
        raise FrameError("a section must be a list or a map")
    if end > len(raw):
        raise IndexError
    return end


def body_of(bare: bytes) -> bytes:
    """Return the body of a bare message: its bytes after properties and application properties.

    >>> body_of(bytes.fromhex("00537345 005374c10100 005377a103616263")).hex(" ")
    '00 53 77 a1 03 61 62 63'
    """
    at = 0
    with suppress(IndexError, FrameError):
        while bare.startswith(_DESCRIBED, at) and bare[at + 2] in _PROPERTIES:
            at = _section_end(bare, at)
    return bare[at:]


class Codec:
    """Proton's codec, used for one value at a time."""

    def __init__(self) -> None:
        self._data = Data()

    def decode(self, encoded: bytes) -> tuple[int, Any]:
        """Return the first value's encoded length and a copy of it, as Proton reuses its memory."""
        try:
            self._data.clear()
            length = self._data.decode(encoded)
            return length, plain(value_of(self._data), keeps_descriptors=True)
        except (ProtonException, ValueError, TypeError, LookupError, RecursionError) as error:
            raise FrameError(
                f"cannot decode this as an AMQP 1.0 value: {error}; it begins with {encoded[:16]!r}"
            ) from None


def control_of(message: bytes) -> tuple[str, list[Any]]:
    """Return a coordinator's command (``declare`` or ``discharge``) and its fields, or raise FrameError."""
    place, codec = section_places(message).bare, Codec()
    length, section = codec.decode(message[place:])
    while descriptor_of(section) in _PROPERTIES:
        place += length
        length, section = codec.decode(message[place:])
    command: Any = getattr(section, "value", None)
    descriptor = getattr(command, "descriptor", None)
    kind = _CONTROLS.get(descriptor) if isinstance(descriptor, int | str) else None
    if kind is None or not isinstance(command.value, list | None):
        raise FrameError("a message to a coordinator must be declare or discharge")
    return kind, command.value or []


def value_of(data: Data) -> Any:
    """Return the value in a Data object of Proton, or None."""
    data.rewind()
    return data.get_object() if data.next() else None


_PLAIN_ALREADY = {type(None), bool, int, float, str, UUID}


def plain(value: Any, keeps_descriptors: bool = False) -> Any:
    """Return a Proton value as plain Python values, which the engine and a trace can keep.

    >>> plain({"a": memoryview(b"x"), "b": Described("amqp:x", [None, True])})
    {'a': b'x', 'b': [None, True]}
    """
    if type(value) in _PLAIN_ALREADY:
        return value
    for kind in (int, float, str):
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, memoryview | bytes | bytearray):
        return bytes(value)
    if isinstance(value, dict):
        return {_key(key): plain(item, keeps_descriptors) for key, item in value.items()}
    if isinstance(value, Described):
        inner = plain(value.value, keeps_descriptors)
        return Described(value.descriptor, inner) if keeps_descriptors else inner
    if isinstance(value, Array):
        value = value.elements
    if isinstance(value, list | tuple):
        return [plain(item, keeps_descriptors) for item in value]
    return str(value)


def _key(key: Any) -> str:
    copied = plain(key)
    return copied.decode("utf-8", "replace") if isinstance(copied, bytes) else str(copied)


class FrameReader:
    """A reader of the frames in one direction of a connection."""

    def __init__(self, codec: Codec | None = None) -> None:
        # Whether the peers have switched to TLS, so that nothing more can be read.
        self.is_secure = False
        self._codec = codec or Codec()
        self._rest = b""
        self._wants_header, self._is_sasl = True, False
        # Bytes still to come of a frame that is too long to be kept.
        self._missing = 0

    def feed(self, data: bytes) -> Iterator[_Frame]:
        """Yield each complete frame; a longer one once its first :data:`MOST_KEPT` bytes have arrived."""
        if self._missing:
            passed = min(self._missing, len(data))
            self._missing -= passed
            data = data[passed:]
        buffer = self._rest + data if self._rest else data
        begin = 0
        try:
            while not self.is_secure and len(buffer) - begin >= _HEADER:
                # A header may follow SASL frames; no frame is as long as its letters, read as a size, would
                # mean.
                if self._wants_header or (self._is_sasl and buffer[begin : begin + 4] == b"AMQP"):
                    self._read_header(buffer[begin : begin + _HEADER])
                    begin += _HEADER
                    continue
                size = int.from_bytes(buffer[begin : begin + 4], "big")
                if size < _HEADER:
                    raise FrameError(f"a frame must have at least {_HEADER} bytes; got {size}")
                kept = min(size, MOST_KEPT)
                if len(buffer) - begin < kept:
                    break
                frame = buffer[begin : begin + kept]
                passed = min(size, len(buffer) - begin)
                self._missing = size - passed
                begin += passed
                read = self._read_frame(size, frame)
                if read is not None:
                    yield read
        finally:
            self._rest = buffer[begin:]

    def _read_header(self, header: bytes) -> None:
        if header[:4] != b"AMQP":
            raise FrameError(f"a connection must begin with AMQP and a version; got {header!r}")
        if header[5:] != b"\x01\x00\x00" or header[4] not in (_PLAIN, _SECURE, _WITH_SASL):
            version = ".".join(map(str, header[4:]))
            raise FrameError(f"only AMQP 1.0 can be read (AMQP, 0, 1.0.0), got AMQP, {version}")
        self.is_secure, self._is_sasl = header[4] == _SECURE, header[4] == _WITH_SASL
        self._wants_header = False

    def _read_frame(self, size: int, frame: bytes) -> _Frame | None:
        begin = 4 * frame[4]
        if not _HEADER <= begin <= len(frame):
            raise FrameError(
                f"a frame's data must begin at byte 8 or later, within its {size} bytes; got {begin}"
            )
        if frame[5] not in (_AMQP, _SASL):
            raise FrameError(f"a frame's type must be 0 (AMQP) or 1 (SASL); got {frame[5]}")
        if begin == size or frame[5] == _SASL:
            return None
        body = frame[begin:]
        length, value = self._codec.decode(body)
        kind = _PERFORMATIVES.get(descriptor_of(value) or 0)
        if kind is None or not isinstance(value.value, list):
            found = str(value)[:60]
            raise FrameError(f"a frame's body must be a performative (0x10 to 0x18); got {found}")
        channel = int.from_bytes(frame[6:8], "big")
        fields = value.value[: len(kind._fields)]
        return _Frame(channel, kind(*fields), body[length:], size - begin - length)
