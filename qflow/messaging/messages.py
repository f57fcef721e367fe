"""Messages of applications, and their conversion to and from the engine's messages.

:func:`to_broker` converts a message before its transfer, :func:`from_delivery` after its delivery.  The
engine counts the bytes of a message and never reads them.  Therefore the body is passed on as a copy of the
Python value, and the length of its AMQP 0-10 encoding is computed here exactly, because the limits of queues
depend on it (DQ-05, DQ-08, DQ-09).
"""

from __future__ import annotations

import copy
import math
import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from qflow.broker.consuming import DeliveryRecord
from qflow.broker.message import HeaderValue, body_size, enclose, reply_to_size
from qflow.broker.message import Message as BrokerMessage
from qflow.messaging.address import LexError, ParseError, parse
from qflow.messaging.exceptions import EncodeError

AMQP_PORT = 5672
AMQPS_PORT = 5671


class Constant:
    """A named constant, such as ``UNLIMITED``; copying or unpickling it returns the same object."""

    __slots__ = ("name", "value")

    def __init__(self, name: str, value: int | None = None) -> None:
        self.name = name
        self.value: object = self if value is None else value

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return self.name


UNLIMITED = Constant("UNLIMITED", 0xFFFFFFFF)
"""A capacity without a bound: a sender never waits for room, a receiver prefetches every message."""

REJECTED = Constant("REJECTED")
"""The type of a disposition that rejects a message, to the alternate exchange if there is one (CN-16)."""

RELEASED = Constant("RELEASED")
"""The type of a disposition that releases a message to its queue (CN-14)."""


class timestamp(float):  # noqa: N801  (the real client's name)
    """A point in time, in seconds since 1970; a ``datetime`` that was sent is received in this form.

    Parameters:
        when: Seconds since 1970, or a datetime (local time if it has no time zone); None for now.

    >>> from datetime import datetime, timezone
    >>> timestamp(datetime(2011, 2, 19, tzinfo=timezone.utc))
    timestamp(1298073600.0)
    >>> timestamp(60) - 30
    timestamp(30.0)
    """

    __slots__ = ()

    def __new__(cls, when: float | datetime | None = None) -> timestamp:
        """Return the timestamp of a number of seconds or a datetime, or of now for None."""
        if when is None:
            when = time.time()
        return super().__new__(cls, when.timestamp() if isinstance(when, datetime) else when)

    def datetime(self) -> datetime:
        """Return the time as a datetime in local time, without a time zone."""
        return datetime.fromtimestamp(self)

    def __add__(self, other: Any) -> timestamp:
        seconds = other.total_seconds() if isinstance(other, timedelta) else float(other)
        return timestamp(float(self) + seconds)

    __radd__ = __add__

    def __sub__(self, other: Any) -> timestamp:
        return self.__add__(-other)

    def __repr__(self) -> str:
        return f"timestamp({float(self)!r})"


MAP, LIST = "amqp/map", "amqp/list"
_UNSPECIFIED: Any = Constant("UNSPECIFIED")


@dataclass(eq=False, repr=False)
class Message:
    """A message: standard fields, the application's own properties, and content.

    As with the native strings of the real client, text has no content type, so a message of text takes
    26 + len(queue) + len(text) bytes (DQ-08).

    Parameters:
        content: Text, bytes, a dict, a list or None.
        content_type: "amqp/map", "amqp/list" or None; derived from the content if not given.
        id: The message id: a UUID, its 16 bytes, or another value, which is sent as text.
        subject: The subject; on an exchange it replaces the sender's routing key.
        user_id, correlation_id: Text or bytes.
        reply_to: An address.
        durable: Whether the message is durable; None for the sender's ``durable`` option.
        priority: 0 to 255 (QT-04).
        ttl: The time to live, in seconds of virtual time (QT-07).
        properties: Application headers, in which the broker finds a message's group, last value key and
            filter values (MG-04, QT-01).

    Attributes:
        redelivered (bool): Whether a consumer may have seen the message before (CN-15).

    >>> Message("to do", subject="new", properties={"cart": 7})
    Message(subject='new', properties={'cart': 7}, content='to do')
    """

    content: object = None
    content_type: str | None = _UNSPECIFIED
    id: object = None
    subject: str | bytes | None = None
    user_id: str | bytes | None = None
    reply_to: str | None = None
    correlation_id: str | bytes | None = None
    durable: bool | None = None
    priority: int | None = None
    ttl: float | None = None
    properties: dict[str, object] = None  # type: ignore[assignment]
    redelivered: bool = field(default=False, init=False)
    # Set by the session that received the message.
    _receiver: Any = field(init=False)
    _transfer_id: int = field(init=False)
    _disposition: Disposition | None = field(init=False)

    def __post_init__(self) -> None:
        self.properties = {} if self.properties is None else self.properties
        if self.content_type is _UNSPECIFIED:
            self.content_type = _type_of(self.content)

    def __repr__(self) -> str:
        args = [
            f"{name}={getattr(self, name)!r}"
            for name in ("id", "subject", "user_id", "reply_to", "correlation_id", "priority", "ttl")
            if getattr(self, name) is not None
        ]
        args += [
            f"{name}={getattr(self, name)!r}"
            for name in ("durable", "redelivered", "properties")
            if getattr(self, name)
        ]
        if self.content_type != _type_of(self.content):
            args.append(f"content_type={self.content_type!r}")
        if self.content is not None:
            args.append(f"content={self.content!r}" if args else repr(self.content))
        return f"Message({', '.join(args)})"


class Disposition:
    """A settlement of a message: release, reject, or accept with options.

    Parameters:
        type: ``RELEASED``, ``REJECTED``, or None for accepted.
        **options: ``set_redelivered`` for ``RELEASED`` (CN-15); ``code`` and ``text`` for ``REJECTED``, which
            the broker does not pass on.

    >>> from qflow.messaging import RELEASED
    >>> Disposition(RELEASED, set_redelivered=True)
    Disposition(RELEASED, set_redelivered=True)
    """

    def __init__(self, type: Constant | None, **options: object) -> None:
        self.type = type
        self.options = options

    def __repr__(self) -> str:
        args = [str(self.type), *(f"{key}={value!r}" for key, value in self.options.items())]
        return f"Disposition({', '.join(args)})"


def _type_of(content: object) -> str | None:
    if isinstance(content, dict):
        return MAP
    if isinstance(content, list):
        return LIST
    if content is None or isinstance(content, str | bytes | bytearray | memoryview):
        return None
    raise EncodeError(
        text=f"content: got a {type(content).__name__}, allowed are str, bytes, dict, list and None"
    )


SUBJECT = "qpid.subject"
APP_ID = "x-amqp-0-10.app-id"
_ENCODING = "x-amqp-0-10.content-encoding"
_ROUTING_KEY = "x-amqp-0-10.routing-key"
_TIMESTAMP = "x-amqp-0-10.timestamp"
_LONGEST_KEY = 255
_LONGEST_PROPERTY = 65_535
_UUID_BYTES = 16


def _read_reply_to(address: str) -> tuple[str | None, str | None]:
    """Return an address's exchange and routing key; without ``node: {type: topic}`` the key is a queue."""
    name, subject, options = parse(address)
    node = (options or {}).get("node")
    is_topic = isinstance(node, dict) and node.get("type") == "topic"
    return (name, subject) if is_topic else (None, name)


def _write_reply_to(exchange: str | None, routing_key: str | None) -> str | None:
    if not exchange:
        return routing_key
    subject = "" if routing_key is None else f"/{routing_key}"
    return f"{exchange}{subject}; {{node: {{type: topic}}}}"


def _refuse(reason: str) -> EncodeError:
    return EncodeError(text=f"cannot encode the message: {reason}")


def to_broker(
    message: Message, routing_key: str | bytes | None, subject: str | bytes | None, counts_header: bool = True
) -> BrokerMessage:
    """Return a message as the engine's message, or raise an EncodeError if AMQP cannot encode it."""
    # `counts_header` says whether the message's size includes its encoded header (DQ-05).
    key = _as_key(routing_key)
    if not isinstance(message.properties, dict):
        raise _refuse(f"properties must be a dict, got {message.properties!r}")
    texts: dict[str, Any] = {}
    try:
        # A copy, so that changing the message after sending does not change the message on the queue.
        headers, body = _as_sent(message.properties), _as_sent(message.content)
        extras, extras_size = _extras(message)
        if subject is not None:
            headers[SUBJECT] = subject
        app_id = headers.get(APP_ID)
        for name, value in (
            ("correlation_id", message.correlation_id),
            ("user_id", message.user_id),
            ("app_id", app_id if app_id is None or isinstance(app_id, bytes) else str(app_id)),
        ):
            texts[name], size = _as_text(name, value, extras)
            extras_size += size
        encoded = BrokerMessage(
            content_size=content_size(body, message.content_type) + (extras_size if counts_header else 0),
            routing_key=key,
            headers=headers,  # encoded_size() below refuses other values
            priority=message.priority,
            ttl=_milliseconds(message.ttl),
            durable=bool(message.durable),
            message_id=_as_uuid(message.id),
            content_type=message.content_type,
            content=enclose(body, extras),
            **texts,
        )
        # Encoded here once, so that a header which AMQP cannot encode raises an error in the caller and not
        # in the broker.
        encoded.encoded_size("")
    except (TypeError, ValueError, AttributeError, RecursionError) as error:
        raise _refuse(str(error)) from error
    return encoded


def _as_key(key: str | bytes | None) -> str | None:
    """Return a routing key as text, or raise an EncodeError if it is longer than 255 bytes."""
    try:
        text = key.decode() if isinstance(key, bytes) else key
    except UnicodeDecodeError:
        raise EncodeError(text=f"routing key: got {key!r}, allowed is a text, or its UTF-8") from None
    size = len((text or "").encode())
    if size > _LONGEST_KEY:
        raise EncodeError(text=f"routing key: got {size} bytes, at most {_LONGEST_KEY} fit (EX-03)")
    return text


def _as_sent(value: Any) -> Any:
    """Return a copy of a value in the type in which AMQP transfers it and a receiver gets it."""
    if isinstance(value, dict):
        return {key: _as_sent(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_as_sent(item) for item in value]
    # Times are sent as whole seconds, rounded down.
    if isinstance(value, datetime | timestamp):
        return timestamp(math.floor(timestamp(value)))
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return copy.deepcopy(value)


def _as_text(name: str, value: Any, extras: dict[str, HeaderValue]) -> tuple[str | None, int]:
    """Return a property as text and the additional bytes to count; bytes are also added to the extras."""
    if value is None or isinstance(value, str):
        return value, 0
    if not isinstance(value, bytes):
        raise _refuse(f"{name} must be text, bytes or None, got {value!r}")
    if len(value) > _LONGEST_PROPERTY:
        raise _refuse(f"{name} must be at most {_LONGEST_PROPERTY} bytes, got {len(value)}")
    extras[name] = value
    try:
        return value.decode(), 0
    except UnicodeDecodeError:
        # Without a text the engine counts nothing: two bytes for the length, then the bytes.
        return None, 2 + len(value)


def _as_uuid(id: object) -> UUID | None:
    """Return a message id as a UUID (bytes cut or padded to 16), or None for an id that is an extra."""
    if isinstance(id, bytes):
        return UUID(bytes=id[:_UUID_BYTES].ljust(_UUID_BYTES, b"\0"))
    return id if isinstance(id, UUID) else None


_MOST_MILLISECONDS = (1 << 64) - 1


def _milliseconds(ttl: object) -> int:
    if ttl is None:
        return 0
    if isinstance(ttl, int | float) and 0 <= ttl <= _MOST_MILLISECONDS / 1000:
        return int(ttl * 1000)
    raise EncodeError(text=f"ttl: got {ttl!r}, allowed is a number of seconds from 0 on, or None")


def from_delivery(record: DeliveryRecord, now: int) -> Message:
    """Return a delivery as a new message for the application; `now` in microseconds decides its ttl."""
    transfer = record.message.transfer
    sent = transfer.message
    extras: dict[str, Any] = sent.apart
    headers: dict[str, Any] = copy.deepcopy(record.message.headers())
    message = Message(copy.deepcopy(sent.body), sent.content_type)
    message.id = extras.get("id", sent.message_id)
    message.subject = headers.get(SUBJECT)
    message.user_id = extras.get("user_id", sent.user_id)
    message.reply_to = _write_reply_to(*extras["reply_to"]) if "reply_to" in extras else None
    message.correlation_id = extras.get("correlation_id", sent.correlation_id)
    message.durable = True if sent.durable else extras.get("durable")
    message.priority = sent.priority
    if transfer.expiration is not None:
        # The time to live that is left after waiting on the queue, in whole milliseconds.
        message.ttl = max(0, transfer.expiration - now) // 1000 / 1000
    message.redelivered = record.redelivered
    added = {
        APP_ID: extras.get("app_id", sent.app_id),
        _ENCODING: extras.get("encoding"),
        _ROUTING_KEY: sent.routing_key,
        _TIMESTAMP: sent.timestamp,
    }
    message.properties = headers | {key: value for key, value in added.items() if value is not None}
    message._transfer_id = record.id
    message._disposition = None
    return message


def content_size(content: object, content_type: str | None) -> int:
    """Return the encoded size of a body in bytes, or raise an EncodeError if it does not match its type."""
    wanted: type = {MAP: dict, LIST: list}.get(content_type or "", str)
    is_bytes = wanted is str and isinstance(content, bytes | bytearray | memoryview)
    if content is not None and not is_bytes and not isinstance(content, wanted):
        got = type(content).__name__
        raise EncodeError(text=f"content of type {content_type!r}: got a {got}, wanted a {wanted.__name__}")
    try:
        return body_size(content)
    except (TypeError, ValueError, AttributeError) as error:
        raise EncodeError(text=f"cannot encode the content: {error}") from error


def _extras(message: Message) -> tuple[dict[str, HeaderValue], int]:
    """Return the properties that have no field in the engine's message, and their encoded size in bytes."""
    extras: dict[str, HeaderValue] = {}
    size = 0
    if message.id is not None and not isinstance(message.id, UUID | bytes):
        extras["id"] = str(message.id)
        size += _UUID_BYTES
    if message.reply_to:
        if not isinstance(message.reply_to, str):
            raise EncodeError(text=f"reply_to: got {message.reply_to!r}, allowed is an address, or None")
        try:
            reply_to = _read_reply_to(message.reply_to)
        except (ParseError, LexError) as error:
            raise EncodeError(text=f"reply_to: {error}") from error
        extras["reply_to"] = list(reply_to)
        size += reply_to_size(*reply_to)
    encoding = message.properties.get(_ENCODING)
    if encoding is not None:
        extras["encoding"] = str(encoding)
        # AMQP encodes a short string as one byte for the length, then the text.
        size += 1 + len(str(encoding).encode())
    if message.durable is False:
        extras["durable"] = False
        size += 1
    return extras, size
