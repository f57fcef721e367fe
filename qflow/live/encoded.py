"""Encoded messages: the part of an AMQP 1.0 message that the broker reads, and the part that it writes.

A message is a sequence of sections: header, delivery annotations, message annotations, then the *bare
message* (properties, application properties, body), then a footer.  The broker passes the bare message on
unchanged, byte for byte, and reads its standard fields and application properties.  It writes a new header,
as the delivery count and the time to live have changed, and new annotations if a receiver has changed them
(LNK-12).  All received bytes count for limits and thresholds (LNK-04).

Proton decodes and encodes.  Its binary values are views of memory that it frees with the message, so this
module copies each of them at once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from cproton import bytes2pybytes, ffi, lib, msgid2py
from proton import Data, Described, ProtonException, symbol, ubyte, uint, ulong
from proton import Message as ProtonMessage

from qflow.broker.consuming import DeliveryRecord
from qflow.broker.errors import FramingErrorException
from qflow.broker.links import SUBJECT
from qflow.broker.message import TRACE, HeaderValue, Message
from qflow.live.amqp_frames import FrameError, SectionPlaces, plain, section_places, value_of
from qflow.messaging.messages import from_delivery

ROOM: Final = 1 << 16
"""How many bytes of a received message are read at once."""

_HEADER, _MESSAGE_ANNOTATIONS = 0x70, 0x72
_DEFAULT_PRIORITY = 4
_ENVELOPE, _BARE, _ANNOTATIONS = "qflow.messaging", "amqp 1.0", "annotations"


class Encoded(NamedTuple):
    """A message as its sender encoded it."""

    # The whole encoding, which is the content of the engine's message.
    raw: bytes
    # The offset of the bare message.
    bare: int
    # The begin and the end of the message annotations; both the same if there are none.
    annotations: tuple[int, int]
    # The destination by which an anonymous relay routes (LNK-06).
    to: str | None = None
    reply_to: str | None = None

    def content(self) -> tuple[str, bytes, dict[str, Any]]:
        """Return the content for the engine's message: a format name, the bytes, and known positions."""
        known: dict[str, Any] = {_BARE: self.bare}
        if self.annotations[0] < self.annotations[1]:
            known[_ANNOTATIONS] = list(self.annotations)
        if self.reply_to is not None:
            known["reply_to"] = [None, self.reply_to]
        return _ENVELOPE, self.raw, known


class Decoder:
    """A decoder of messages; it reuses one Proton message for all of them."""

    def __init__(self) -> None:
        # The buffer into which Proton writes the bytes of a received message.
        self.room = ffi.new("char[]", ROOM)
        self._message = ProtonMessage()
        self._impl = self._message._msg

    def decode(self, raw: bytes) -> tuple[Message, Encoded]:
        """Return a message for the engine, still without a routing key, and its encoding.

        >>> raw = bytes(ProtonMessage(body="hello", subject="news", properties={"n": 1}).encode())
        >>> message, encoded = Decoder().decode(raw)
        >>> message.content_size == len(raw), message.headers, message.priority
        (True, {'n': 1, 'qpid.subject': 'news'}, 4)
        """
        sections = section_places(raw)
        if sections.is_bare:
            encoded = Encoded(raw, sections.bare, sections.annotations)
            bare = Message(len(raw), priority=_DEFAULT_PRIORITY)
            # Set directly, without the checks of a program's content: bytes and numbers need none.
            bare.content = encoded.content()
            return bare, encoded
        message = self._impl
        # Proton would otherwise keep an earlier message's section that this message does not have.
        lib.pn_message_clear(message)
        if lib.pn_message_decode(message, raw, len(raw)):
            raise FrameError("the bytes cannot be decoded as an AMQP 1.0 message")
        try:
            return self._read(raw, sections)
        except (UnicodeDecodeError, ValueError, TypeError, IndexError, ProtonException) as error:
            raise FrameError(f"the message cannot be decoded: {error}") from None

    def _read(self, raw: bytes, sections: SectionPlaces) -> tuple[Message, Encoded]:
        message = self._impl
        encoded = Encoded(
            raw,
            sections.bare,
            sections.annotations,
            _read_text(lib.pn_message_get_address(message)),
            _read_text(lib.pn_message_get_reply_to(message)),
        )
        headers: dict[str, HeaderValue] | None = None
        properties = lib.pn_message_properties(message)
        lib.pn_data_rewind(properties)
        if lib.pn_data_next(properties):
            given = Data(properties).get_object()
            if isinstance(given, dict):
                headers = {str(key): plain(value) for key, value in given.items()}
        _check_body(lib.pn_message_body(message))
        subject = _read_text(lib.pn_message_get_subject(message))
        if subject is not None:
            headers = headers or {}
            headers[SUBJECT] = subject
        identity = msgid2py(lib.pn_message_get_id(message))
        correlation = msgid2py(lib.pn_message_get_correlation_id(message))
        user = bytes2pybytes(lib.pn_message_get_user_id(message))
        creation = lib.pn_message_get_creation_time(message)
        return (
            Message(
                len(raw),
                None,
                headers,
                priority=lib.pn_message_get_priority(message),
                ttl=lib.pn_message_get_ttl(message),
                durable=bool(lib.pn_message_is_durable(message)),
                timestamp=creation // 1000 if creation > 0 else None,
                message_id=identity if isinstance(identity, UUID) else None,
                correlation_id=None if correlation is None else str(plain(correlation)),
                content_type=_read_text(lib.pn_message_get_content_type(message)),
                user_id=bytes(user).decode("utf-8", "replace") if user else None,
                to=encoded.to,
                content=encoded.content(),
            ),
            encoded,
        )

    def request(self, encoded: Encoded) -> tuple[object, Any, dict[str, Any]]:
        """Return copies of a request's body, correlation id and application properties."""
        self._message.decode(encoded.raw)
        message = self._message
        properties = {str(key): plain(value) for key, value in (message.properties or {}).items()}
        return plain(message.body), plain(message.correlation_id), properties


def _check_body(body: Any) -> None:
    """Refuse a body of type char: the real broker's decoder takes its bytes for a descriptor (LNK-28)."""
    lib.pn_data_rewind(body)
    lib.pn_data_next(body)
    while lib.pn_data_type(body) == Data.DESCRIBED:
        lib.pn_data_enter(body)
        lib.pn_data_next(body)
        lib.pn_data_next(body)
    if lib.pn_data_type(body) == Data.CHAR:
        found = lib.pn_data_get_char(body) >> 16
        raise FramingErrorException(f"Expected descriptor of type ulong or symbol; found {found}")


def _read_text(pointer: Any) -> str | None:
    return None if pointer == ffi.NULL else ffi.string(pointer).decode()


def encode_described(descriptor: int, value: object) -> bytes:
    """Return the encoding of a described value, such as a section or a frame's body."""
    data = Data()
    data.put_object(Described(ulong(descriptor), value))
    return bytes(data.encode())


@lru_cache(maxsize=8192)
def _encode_header(durable: bool, priority: int, ttl: int, is_first: bool, count: int) -> bytes:
    fields = [durable, ubyte(priority), uint(ttl) if ttl else None, is_first, uint(count)]
    return encode_described(_HEADER, fields)


_MOST_MILLISECONDS: Final = (1 << 32) - 1


def encode_delivery(record: DeliveryRecord, now: int) -> tuple[bytes, memoryview]:
    """Return the new header and annotations of a delivery, and a view of its bare message."""
    queued = record.message
    transfer = queued.transfer
    sent = transfer.message
    ttl = 0
    if transfer.expiration is not None:
        ttl = min(max(1, (transfer.expiration - now) // 1000), _MOST_MILLISECONDS)
    content = sent.content
    if not isinstance(content, tuple) or _BARE not in content[2]:
        content = _translate(record, now).content()
    _, raw, known = content
    # The engine counts from -1: a message that was delivered once and has not failed is at 0.
    count = max(0, queued.delivery_count)
    head = _encode_header(sent.durable, sent.priority or 0, ttl, queued.is_first_acquirer, count)
    annotations: bytes = b""
    if _ANNOTATIONS in known:
        start, end = known[_ANNOTATIONS]
        annotations = raw[start:end]
    if queued.annotations:
        annotations = _merge(annotations, queued.annotations)
    # Not copied: a hundred receivers of one large message share its bytes.
    return head + annotations, memoryview(raw)[known[_BARE] :]


def _merge(section: bytes, added: dict[str, HeaderValue]) -> bytes:
    known: dict[Any, Any] = {}
    if section:
        data = Data()
        data.decode(section)
        known = dict(value_of(data).value)
    for key, value in added.items():
        # The trace ids that a queue adds are a binary value on the wire (RF-54).
        known[symbol(key)] = value.encode() if key == TRACE and isinstance(value, str) else value
    return encode_described(_MESSAGE_ANNOTATIONS, known)


def _translate(record: DeliveryRecord, now: int) -> Encoded:
    """Encode a message of another origin, such as an answer of management or a simulated client's."""
    message = from_delivery(record, now)
    made = ProtonMessage(
        body=message.content,
        subject=message.subject,
        reply_to=message.reply_to,
        correlation_id=message.correlation_id,
        content_type=message.content_type if isinstance(message.content, bytes) else None,
        properties={key: value for key, value in message.properties.items() if key != SUBJECT} or None,
    )
    made.inferred = isinstance(message.content, bytes)
    if message.id is not None:
        made.id = message.id if isinstance(message.id, UUID) else str(message.id)
    raw = bytes(made.encode())
    return Encoded(raw, *section_places(raw)[:2])
