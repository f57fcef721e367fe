"""Between an application's message and the engine's: properties, sizes, addresses for replies.

The engine counts bytes but has no use for what they say.  So the body travels along as a copy of
the Python value, and here is counted how long its AMQP 0-10 encoding is.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple
from uuid import UUID

from qflow.broker.delivery import DeliveryRecord
from qflow.broker.message import HeaderValue
from qflow.broker.message import Message as BrokerMessage
from qflow.messaging.address import LexError, ParseError, parse
from qflow.messaging.exceptions import EncodeError
from qflow.messaging.message import LIST, MAP, Message

SUBJECT = "qpid.subject"
APP_ID = "x-amqp-0-10.app-id"
ENCODING = "x-amqp-0-10.content-encoding"
ROUTING_KEY = "x-amqp-0-10.routing-key"
TIMESTAMP = "x-amqp-0-10.timestamp"
LONGEST_KEY = 255
_ENVELOPE = "qflow.messaging"
_UUID_BYTES = 16


class ReplyTo(NamedTuple):
    """Where a reply goes: an exchange and a routing key."""

    exchange: str | None
    routing_key: str | None

    @classmethod
    def of(cls, address: str) -> ReplyTo:
        """Read an address: a queue unless it says ``node: {type: topic}``."""
        name, subject, options = parse(address)
        node = (options or {}).get("node")
        is_topic = isinstance(node, dict) and node.get("type") == "topic"
        return cls(name, subject) if is_topic else cls(None, name)

    @property
    def address(self) -> str | None:
        """The address that an application sends its reply to."""
        if not self.exchange:
            return self.routing_key
        subject = "" if self.routing_key is None else f"/{self.routing_key}"
        return f"{self.exchange}{subject}; {{node: {{type: topic}}}}"

    @property
    def size(self) -> int:
        """Bytes it takes among a message's properties."""
        return 4 + sum(_short(text) for text in self if text is not None)


def to_broker(
    message: Message, routing_key: str | None, subject: str | None, counts_header: bool = True
) -> BrokerMessage:
    """Return what is transferred.

    Parameters
    ----------
    message : Message
        What the application sends; later changes of it make no difference.
    routing_key, subject : str or None
        What the sender made of the message's subject and its own.
    counts_header : bool
        Whether the broker counts more than the content (DQ-05, DQ-09).

    Raises
    ------
    EncodeError
        If content, type, properties or key cannot be encoded.

    Examples
    --------
    >>> to_broker(Message("12345"), "ttq", None).encoded_size("")            # DQ-08: 26 + 3 + 5
    34
    >>> to_broker(Message("1", subject="a"), "a", "a").encoded_size("stats-test-exchange") - 1
    63
    """
    if routing_key is not None and len(routing_key.encode()) > LONGEST_KEY:
        raise EncodeError(
            text=f"routing key: got {len(routing_key.encode())} bytes, at most {LONGEST_KEY} fit (EX-03)"
        )
    headers = copy.deepcopy(message.properties)
    if subject is not None:
        headers[SUBJECT] = subject
    extras, extras_size = _extras(message)
    body = copy.deepcopy(message.content)
    app_id = message.properties.get(APP_ID)
    try:
        encoded = BrokerMessage(
            content_size=content_size(body, message.content_type) + (extras_size if counts_header else 0),
            routing_key=routing_key,
            headers=headers,  # type: ignore[arg-type]  # encoded_size() below refuses what is no header
            priority=message.priority,
            ttl=0 if message.ttl is None else int(message.ttl * 1000),
            durable=bool(message.durable),
            message_id=message.id if isinstance(message.id, UUID) else None,
            correlation_id=message.correlation_id,
            content_type=message.content_type,
            user_id=message.user_id,
            app_id=None if app_id is None else str(app_id),
            content=(_ENVELOPE, body, extras) if extras else body,
        )
        encoded.encoded_size("")
    except (TypeError, AttributeError) as error:
        raise EncodeError(text=f"cannot encode the message: {error}") from error
    return encoded


def from_delivery(record: DeliveryRecord, now: int) -> Message:
    """Return the message that an application fetches; a copy of its own.

    Parameters
    ----------
    record : DeliveryRecord
        What the broker delivered.
    now : int
        Told time, for what is left of the time to live.
    """
    transfer = record.message.transfer
    sent = transfer.message
    body, extras = _unwrap(sent.content)
    headers: dict[str, Any] = copy.deepcopy(record.message.headers())
    message = Message(copy.deepcopy(body), sent.content_type)
    message.id = extras.get("id", sent.message_id)
    subject = headers.get(SUBJECT)
    message.subject = None if subject is None else str(subject)
    message.user_id = sent.user_id
    message.reply_to = ReplyTo(*extras["reply_to"]).address if "reply_to" in extras else None
    message.correlation_id = sent.correlation_id
    message.durable = True if sent.durable else extras.get("durable")
    message.priority = sent.priority
    if transfer.expiration is not None:
        message.ttl = max(0, transfer.expiration - now) // 1000 / 1000
    message.redelivered = record.redelivered
    added = {
        APP_ID: sent.app_id,
        ENCODING: extras.get("encoding"),
        ROUTING_KEY: sent.routing_key,
        TIMESTAMP: sent.timestamp,
    }
    message.properties = headers | {key: value for key, value in added.items() if value is not None}
    message._transfer_id = record.id
    message._disposition = None
    return message


def content_size(content: object, content_type: str | None) -> int:
    """Return how many bytes a body has once it is encoded.

    Raises
    ------
    EncodeError
        If the body is not what its type says.

    Examples
    --------
    >>> content_size("ä", None), content_size({"index": 0}, "amqp/map"), content_size([], "amqp/list")
    (2, 23, 8)
    """
    if content is None:
        return 0
    wanted: type = {MAP: dict, LIST: list}.get(content_type or "", str)
    if wanted is str and isinstance(content, bytes | bytearray | memoryview):
        return len(content)
    if not isinstance(content, wanted):
        got = type(content).__name__
        raise EncodeError(text=f"content of type {content_type!r}: got a {got}, wanted a {wanted.__name__}")
    if isinstance(content, str):
        return len(content.encode())
    return _value_size(content)


def _value_size(value: Any) -> int:
    """Let the engine count: a header's bytes, less those of its 1-letter key, its type and the map."""
    try:
        return (
            BrokerMessage(headers={"k": value}).encoded_size("")
            - BrokerMessage(headers={}).encoded_size("")
            - (2 + 1)
        )
    except (TypeError, AttributeError) as error:
        raise EncodeError(text=f"cannot encode the content: {error}") from error


def _extras(message: Message) -> tuple[dict[str, HeaderValue], int]:
    """Return properties that the engine's message has no field for, and their bytes."""
    extras: dict[str, HeaderValue] = {}
    size = 0
    if message.id is not None and not isinstance(message.id, UUID):
        extras["id"] = str(message.id)
        size += _UUID_BYTES
    if message.reply_to:
        try:
            reply_to = ReplyTo.of(message.reply_to)
        except (ParseError, LexError) as error:
            raise EncodeError(text=f"reply_to: {error}") from error
        extras["reply_to"] = list(reply_to)
        size += reply_to.size
    encoding = message.properties.get(ENCODING)
    if encoding is not None:
        extras["encoding"] = str(encoding)
        size += _short(str(encoding))
    if message.durable is False:
        extras["durable"] = False
        size += 1
    return extras, size


def _unwrap(content: object) -> tuple[Any, dict[str, Any]]:
    # A body is never a tuple, so one that is has been wrapped by to_broker().
    if isinstance(content, tuple):
        _, body, extras = content
        return body, extras
    return content, {}


def _short(text: str) -> int:
    return 1 + len(text.encode())
