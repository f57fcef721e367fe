"""Messages at their three stages: as sent by a producer, in transfer to queues, and on a queue.

A producer makes a :class:`Message`, which consists of properties and a number of content bytes, and never
changes.  The constructor takes the number of bytes, which is all that the broker needs; :meth:`Message.of`
takes a body instead, and computes the size of its AMQP 0-10 encoding.  The command that sends the message
makes one :class:`Transfer`, which all queues with a copy share: it has the bytes that the broker counts, the
time of expiry, and the holders that withhold its completion (the broker's AsyncCompletion, CM-02).  Each
queue makes a :class:`QueuedMessage` of its own, with a position, a state, and the number of deliveries.

This module also defines four small interfaces for the objects to which transfers and queued messages are
passed, so that messages do not depend on sessions, exchanges or flow control: :class:`CommandOwner`,
:class:`RoutingListener`, :class:`Router` and :class:`QueueObserver`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from operator import index
from types import NoneType
from typing import Any, ClassVar, Final, SupportsIndex
from uuid import UUID

from qflow.broker.restorable import Dependent, Frozen, Restorable
from qflow.broker.snapshot import Flag, Text, mypyc_attr
from qflow.broker.transactions import TxBuffer

HeaderValue = None | bool | int | float | str | bytes | UUID | list[object] | dict[str, object]
"""The type of an application header's value."""

_STRUCT: Final = 8
_INTEGER: Final = 8
_UINT64: Final = (1 << 64) - 1
_DEEPEST: Final = 100
"""The deepest nesting of maps and lists: a snapshot nests three times as deep, and Python allows 1,000."""


class _Sent(Frozen):
    """Base class of Message, which leaves ``size`` out of snapshots, as the transfer stores it."""

    # Not in the dataclass below, which would count a class variable among its fields when compiled.
    VOLATILE: ClassVar[tuple[str, ...]] = ("size",)

    __slots__ = ()


# A message never changes, but the class is not frozen: a frozen one takes five times as long to make, for
# every message sent.  The constructor is explicit, because the compiler does not compile that of the
# decorator.
@mypyc_attr(free_list_len=1)
@dataclass(slots=True, init=False)
class Message(_Sent):
    """A message as a producer sends it: properties and a number of content bytes.

    The broker needs only the size of the content, not the content.  Headers and content are stored as plain
    copies, nested at most 100 levels deep.  Whole numbers may have any integer type, such as NumPy's, but not
    bool.

    Parameters:
        content_size: The number of content bytes.
        routing_key: The routing key; None omits the property (1 byte less than an empty key).
        headers: Application headers; None omits the map, an empty map takes 16 bytes (DQ-08).
        priority: The priority, 0 to 255; None omits the property, which counts as 0 (QT-04).
        ttl: The time to live in milliseconds; 0 means for ever (QT-07).
        durable: Whether the message is durable, and so is stored if the broker has a store (CM-12).
        timestamp: The time of sending, in seconds since 1970; None omits the property.
        message_id, correlation_id, content_type, user_id, app_id: Properties of AMQP; None omits one.
        to: The property of AMQP 1.0, which only selectors of AMQP 1.0 read (RF-53); it counts no bytes.
        label: A name of the message for people, traces and pictures, which is not sent.
        content: The content itself, if a consumer is to get it; see :meth:`of`.
        size: The bytes that the broker counts, if the sender knows them, as for AMQP 1.0; None computes them
            from the encoding of an AMQP 0-10 client.

    Raises:
        TypeError: If a property has another type.
        ValueError: If a number is out of range, or a text is longer than AMQP allows or not valid Unicode.

    >>> Message(1, routing_key="ab").encoded_size("")           # DQ-08: bare
    13
    >>> Message(1, routing_key="ab", headers={"a": 1}).encoded_size("")
    40
    """

    content_size: int = 0
    routing_key: str | None = None
    headers: dict[str, HeaderValue] | None = None
    priority: int | None = None
    ttl: int = 0
    durable: bool = False
    timestamp: int | None = None
    message_id: UUID | None = None
    correlation_id: str | None = None
    content_type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    to: str | None = None
    label: str = field(default="", compare=False)
    content: Any = field(default=None, compare=False)
    size: int | None = field(default=None, repr=False)

    def __init__(
        self,
        content_size: SupportsIndex = 0,
        routing_key: Text | None = None,
        headers: Mapping[str, HeaderValue] | None = None,
        *,
        priority: SupportsIndex | None = None,
        ttl: SupportsIndex = 0,
        durable: Flag = False,
        timestamp: SupportsIndex | None = None,
        message_id: UUID | None = None,
        correlation_id: Text | None = None,
        content_type: Text | None = None,
        user_id: Text | None = None,
        app_id: Text | None = None,
        to: Text | None = None,
        label: Text = "",
        content: Any = None,
        size: SupportsIndex | None = None,
    ) -> None:
        # As this runs for every message sent, valid values are accepted after few checks.
        if type(content_size) is not int or not 0 <= content_size <= _UINT64:
            content_size = whole("content_size", content_size)
        if type(ttl) is not int or (ttl and not 0 <= ttl <= _UINT64):
            ttl = whole("ttl", ttl)
        if priority is not None and (type(priority) is not int or not 0 <= priority <= 255):
            priority = whole("priority", priority, 255)
        if routing_key is not None and (
            type(routing_key) is not str or len(routing_key) > 63 or not routing_key.isascii()
        ):
            routing_key = encodable("routing_key", routing_key, 255)
        if type(durable) is not bool:
            durable = flag("durable", durable)
        if type(label) is not str or label != "":
            label = encodable("label", label)
        self.content_size = content_size
        self.routing_key = routing_key
        # A copy, as the caller may change the map later.
        self.headers = None if headers is None else _copy_headers(headers)
        self.priority = priority
        self.ttl = ttl
        self.durable = durable
        self.label = label
        self.content = None if content is None else plain("content", content)
        self.size = None if size is None else whole("size", size)
        self.timestamp = None if timestamp is None else whole("timestamp", timestamp)
        if message_id is not None and not isinstance(message_id, UUID):
            raise TypeError(f"message_id must be a UUID, got {show(message_id)}")
        self.message_id = message_id
        self.correlation_id = None
        if correlation_id is not None:
            self.correlation_id = encodable("correlation_id", correlation_id, 65_535)
        self.content_type = None if content_type is None else encodable("content_type", content_type, 255)
        self.user_id = None if user_id is None else encodable("user_id", user_id, 65_535)
        self.app_id = None if app_id is None else encodable("app_id", app_id, 65_535)
        self.to = None if to is None else encodable("to", to)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        # A function, because only three parameters of the constructor are positional.
        return _remake, tuple([getattr(self, name) for name in _MESSAGE_FIELDS])

    @classmethod
    def of(
        cls,
        body: object,
        routing_key: Text | None = None,
        *,
        reply_to: Iterable[Text | None] | None = None,
        content_encoding: Text | None = None,
        **properties: Any,
    ) -> Message:
        """Return a message with a body, whose encoded size becomes the content size.

        Parameters:
            body: The body: text is encoded as UTF-8, a dict or a list in AMQP's encoding, with the content
                type "amqp/map" or "amqp/list" unless another is given; bytes and None are allowed, too.
            routing_key: As for the constructor.
            reply_to (tuple of (str or None, str or None), or None): The exchange and the routing key for an
                answer; the default exchange is "" or None.
            content_encoding: The name of an encoding, such as "utf-8".
            **properties: Other parameters of the constructor, except ``content_size`` and ``content``.

        Raises:
            TypeError, ValueError: If AMQP cannot encode the body or a property.

        >>> message = Message.of({"index": 0}, "orders", reply_to=("amq.direct", "answers"), priority=4)
        >>> message.body, message.content_type, message.reply_to
        ({'index': 0}, 'amqp/map', ('amq.direct', 'answers'))
        """
        apart: dict[str, HeaderValue] = {}
        apart_size = 0
        if isinstance(body, bytearray | memoryview):
            body = bytes(body)
        if reply_to is not None:
            place = _reply_to(reply_to)
            apart["reply_to"] = list(place)
            apart_size += reply_to_size(*place)
        if content_encoding is not None:
            encoding = encodable("content_encoding", content_encoding, 255)
            apart["encoding"] = encoding
            apart_size += _measure_short_text(encoding)
        body = plain("a body", body)
        kind = _CONTENT_TYPES.get(type(body))
        if kind is not None:
            properties.setdefault("content_type", kind)
        if apart and not cls(0, routing_key, **properties)._message_properties():
            apart_size += _STRUCT
        return cls(body_size(body) + apart_size, routing_key, content=enclose(body, apart), **properties)

    @property
    def body(self) -> Any:
        """The body passed to :meth:`of`, or None for a message made with a content size only."""
        content = self.content
        return content[1] if _is_enclosed(content) else content

    @property
    def apart(self) -> dict[str, HeaderValue]:
        """Properties for which the class has no field, such as reply-to (see :func:`enclose`)."""
        content = self.content
        return content[2] if _is_enclosed(content) else {}

    @property
    def reply_to(self) -> tuple[str | None, str | None] | None:
        """The exchange and the routing key for an answer, or None if the message requests no answer."""
        found: Any = self.apart.get("reply_to")
        return None if found is None else (found[0], found[1])

    def header(self, key: Text) -> HeaderValue:
        """Return the value of an application header, or None if it is absent."""
        if not isinstance(key, str):
            raise TypeError(f"a header's name must be a string, got {show(key)}")
        return None if self.headers is None else self.headers.get(key)

    def property_as_string(self, key: Text) -> str:
        """Return an application header as text, the form that groups, last values and filters use (MG-04).

        An integer is cut to 32 bits with sign; a value without a text (an absent header, a boolean, a float,
        a list, a map) gives "".

        >>> message = Message(headers={"i": 2**31, "b": True})
        >>> message.property_as_string("i"), message.property_as_string("b")
        ('-2147483648', '')
        """
        value = self.header(key)
        if isinstance(value, str):
            return value
        if isinstance(value, bytes):
            return value.decode(errors="backslashreplace")
        if isinstance(value, UUID):
            return str(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return str((value + (1 << 31)) % (1 << 32) - (1 << 31))
        return ""

    def encoded_size(self, exchange: Text) -> int:
        """Return the bytes that the broker counts: of header, exchange name and content (DQ-05, DQ-06).

        Parameters:
            exchange: The name of the exchange to which the message is sent.
        """
        if type(exchange) is not str:
            exchange = encodable("exchange", exchange, 255)
        if self.size is not None:
            return self.size
        size = self.content_size + _STRUCT + _measure_short_text(exchange)
        if self.routing_key is not None:
            size += _measure_short_text(self.routing_key)
        if self.priority is not None:
            size += 1
        if self.durable:
            size += 1
        if self.ttl > 0:
            size += _INTEGER
        if self.timestamp is not None:
            size += _INTEGER
        return size + self._message_properties()

    def _message_properties(self) -> int:
        size = 16 if self.message_id is not None else 0
        if self.correlation_id is not None:
            size += _measure_long_text(self.correlation_id)
        if self.user_id is not None:
            size += _measure_long_text(self.user_id)
        if self.app_id is not None:
            size += _measure_long_text(self.app_id)
        if self.content_type is not None:
            size += _measure_short_text(self.content_type)
        if self.headers is not None:
            size += map_size("headers", self.headers)
        return size + _STRUCT if size else 0


_MESSAGE_FIELDS: Final = tuple([item.name for item in fields(Message)])


def _remake(*values: Any) -> Message:
    """Return a message with the given values of all fields, to copy or unpickle one."""
    return Message(**dict(zip(_MESSAGE_FIELDS, values, strict=True)))


def encodable(what: str, text: object, most: int = 0) -> str:
    """Return a text as a plain str; raise TypeError or ValueError if AMQP cannot encode it."""
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a string, got {show(text)}")
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise ValueError(f"{what} must be a text that UTF-8 can carry, got {text!r}") from None
    if most and size > most:
        raise ValueError(f"{what} must be at most {most} bytes, got {size}")
    return text if type(text) is str else str.__str__(text)


def whole(what: str, value: object, most: int = _UINT64) -> int:
    """Return a whole number of any type as an int; raise ValueError unless it is 0 to ``most``."""
    number = integer(what, value)
    if not 0 <= number <= most:
        raise ValueError(f"{what} must be 0 to {most}, got {value!r}")
    return number


def integer(what: str, value: object) -> int:
    """Return a whole number of any type as an int; raise TypeError for other values, such as a bool."""
    if type(value) is int:
        return value
    number = None if isinstance(value, bool) else _index(value)
    if number is None:
        raise TypeError(f"{what} must be a whole number, got {show(value)}")
    return number


def flag(what: str, value: object) -> bool:
    """Return a bool; raise TypeError for any other value, such as 0 or 1."""
    if not isinstance(value, bool):
        raise TypeError(f"{what} must be True or False, got {show(value)}")
    return value


def _index(value: Any) -> int | None:
    """Return a whole number of any type as an int, or None for any other value."""
    try:
        return index(value)
    except TypeError:
        return None


def delivery_numbers(what: str, value: Iterable[SupportsIndex]) -> tuple[Any, ...]:
    """Return delivery numbers as a tuple of ints; raise TypeError for other values."""
    # The most frequent case: one delivery is accepted or completed.
    if type(value) is tuple and len(value) == 1 and type(value[0]) is int:
        return value
    try:
        numbers = tuple(value)
    except TypeError:
        raise TypeError(f"{what} must be whole numbers, got {show(value)}") from None
    for number in numbers:
        if type(number) is not int:
            return tuple([integer(what, one) for one in numbers])
    return numbers


def show(value: object) -> str:
    """Return a value's repr for an error message, or a description if it is nested too deeply."""
    try:
        return repr(value)
    except RecursionError:
        return f"a {type(value).__name__} that is nested too deeply to be shown"


_TYPES: Final = "is made of None, bool, int, float, str, bytes, UUID, list and dict"
_SCALARS: Final = frozenset({str, bytes, int, float, bool, UUID, NoneType})


def plain(what: str, value: object, depth: int = 0) -> Any:
    """Return a copy of a value in AMQP's types; raise TypeError or ValueError if that is impossible."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if isinstance(value, list | tuple | dict):
        if depth == _DEEPEST:
            raise _too_deep(what)
        depth += 1
        # Items of a scalar type need no call, which saves time for each message.
        if isinstance(value, dict):
            return {
                key if type(key) in _SCALARS else plain(what, key, depth): item
                if type(item) in _SCALARS
                else plain(what, item, depth)
                for key, item in value.items()
            }
        items = [item if type(item) in _SCALARS else plain(what, item, depth) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, bytes):
        return bytes(value)
    # Clients use a subclass of float for points in time, which must be preserved.
    if issubclass(kind, float):
        return value
    if isinstance(value, UUID):
        return UUID(int=value.int)
    number = _index(value)
    if number is None:
        raise TypeError(f"{what} {_TYPES}, got {show(value)}")
    return number


def _too_deep(what: str) -> ValueError:
    return ValueError(f"{what} is nested more than {_DEEPEST} levels deep, or contains itself")


def plain_map(what: str, value: object) -> dict[str, Any]:
    """Return a plain copy of a mapping with strings as keys (see :func:`plain`)."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} must be a mapping, got {show(value)}")
    entries: dict[Any, Any] = plain(what, dict(value))
    for key in entries:
        if not isinstance(key, str):
            raise TypeError(f"{what} has strings as keys, got {key!r}")
    return entries


def _copy_headers(headers: object) -> dict[str, HeaderValue]:
    """Return a plain copy of application headers, quickly if they are plain and not nested already."""
    if type(headers) is dict:
        entries: dict[Any, Any] = headers
        for key, item in entries.items():
            if type(key) is not str or (type(item) is not str and type(item) not in _SCALARS):
                break
        else:
            return entries.copy()
    return plain_map("headers", headers)


def _measure_short_text(text: str) -> int:
    return 1 + len(text.encode())


def _measure_long_text(text: str) -> int:
    return 2 + len(text.encode())


_ENVELOPE: Final = "qflow.messaging"
_CONTENT_TYPES: Final[dict[type, str]] = {dict: "amqp/map", list: "amqp/list"}


def enclose(body: object, apart: dict[str, HeaderValue]) -> object:
    """Return a body together with properties that only clients read, as the content of a message."""
    return (_ENVELOPE, body, apart) if apart else body


def _is_enclosed(content: object) -> bool:
    return isinstance(content, tuple) and len(content) == 3 and content[0] == _ENVELOPE


def _reply_to(given: Iterable[Text | None]) -> tuple[str | None, str | None]:
    try:
        exchange, routing_key = given
    except (TypeError, ValueError):
        raise TypeError(f"reply_to must be an exchange and a routing key, got {show(given)}") from None
    return _check_address(exchange), _check_address(routing_key)


def _check_address(text: Text | None) -> str | None:
    return None if text is None else encodable("reply_to", text, 255)


def reply_to_size(exchange: str | None, routing_key: str | None) -> int:
    """Return the encoded size of the property reply-to, in bytes (DQ-07)."""
    places = [_check_address(exchange), _check_address(routing_key)]
    return 4 + sum([_measure_short_text(text) for text in places if text is not None])


def body_size(body: object) -> int:
    """Return the encoded size of a body, in bytes."""
    if body is None:
        return 0
    if isinstance(body, str):
        return len(encodable("a body", body).encode())
    if isinstance(body, bytes | bytearray | memoryview):
        return memoryview(body).nbytes
    if isinstance(body, dict | list):
        return _measure_value("a body", body, 0)
    raise TypeError(f"a body must be text, bytes, a dict, a list or None, got {show(body)}")


def map_size(what: str, entries: dict[Any, Any], depth: int = 0) -> int:
    """Return the encoded size of a map in bytes; raise TypeError or ValueError if AMQP has no encoding."""
    size = 8
    for key, value in entries.items():
        if type(key) is str and key.isascii() and len(key) <= 255:
            size += 2 + len(key) + _measure_value(what, value, depth)
        else:
            name = encodable("the name of an entry", key, 255)
            size += _measure_short_text(name) + 1 + _measure_value(what, value, depth)
    return size


def _measure_value(what: str, value: object, depth: int) -> int:
    """Return the encoded size of a value, in bytes: 8 for an integer, a text with 2 bytes of length."""
    if isinstance(value, str):
        return 2 + len(value) if value.isascii() else _measure_long_text(encodable(what, value))
    if value is None:
        return 0
    if isinstance(value, bool):
        return 1
    if isinstance(value, int | float):
        if not isinstance(value, float) and not -(1 << 63) <= value <= _UINT64:
            raise ValueError(f"a whole number in a map has 64 bits at most, got {value!r}")
        return _INTEGER
    if isinstance(value, UUID):
        return 16
    if isinstance(value, bytes):
        return 4 + len(value)
    if isinstance(value, dict | list | tuple):
        if depth == _DEEPEST:
            raise _too_deep(what)
        if isinstance(value, dict):
            return map_size(what, value, depth + 1)
        return 8 + sum([1 + _measure_value(what, item, depth + 1) for item in value])
    raise TypeError(f"{what} {_TYPES}, got {show(value)}")


class CommandOwner(Dependent):
    """The interface of the owner of a transfer, to which its completion is reported."""

    __slots__ = ()

    def transfer_complete(self, transfer: Transfer) -> None:
        """Complete a transfer that has no holders any more."""
        raise NotImplementedError

    def report(self) -> None:
        """Send the client the numbers of the completed commands."""
        raise NotImplementedError

    def block_channel(self, queue: str) -> None:
        """Request that the client stop sending, as the Java broker does (ALT-12)."""
        raise NotImplementedError

    def unblock_channel(self, queue: str) -> None:
        """End the request of a queue that the client stop sending (ALT-12)."""
        raise NotImplementedError


class RoutingListener(Dependent):
    """The interface of a listener that is called after a transfer has been routed to all its queues."""

    __slots__ = ()

    def routed(self, transfer: Transfer) -> None:
        """Handle the end of a transfer's routing."""
        raise NotImplementedError


_NO_MESSAGE = Message()


@mypyc_attr(free_list_len=1)
class Transfer(Restorable):
    """A message in transfer, shared by all its queues; ``pending`` counts its completion's holds (CM-02).

    >>> transfer = Transfer(None, 7, Message(100), 112, "p1-1")
    >>> transfer.hold("orders")
    True
    >>> transfer.end_routing(); transfer.held_by
    ('orders',)
    >>> transfer.release_hold("orders"); transfer.is_complete
    True
    """

    VOLATILE: ClassVar[tuple[str, ...]] = ("_made_label",)

    __slots__ = (
        "owner", "number", "message", "size", "_label", "_made_label", "expiration", "origin", "connection",
        "serial", "exchange", "transaction", "annotations", "came_on_link", "listener", "pending", "_holders",
    )  # fmt: skip

    def __init__(
        self,
        owner: CommandOwner | None = None,
        number: int = 0,
        message: Message = _NO_MESSAGE,
        size: int = 0,
        label: str = "",
        expiration: int | None = None,
        origin: str = "",
        connection: str = "",
        serial: int = 0,
        exchange: str = "",
    ) -> None:
        self.owner = owner
        self.number = number
        self.message = message
        # The bytes that the broker counts, fixed when the transfer arrives (DQ-05).
        self.size = size
        self._label = label
        self._made_label: str | None = None
        # In virtual microseconds, or None (QT-07).
        self.expiration = expiration
        self.origin = origin
        self.connection = connection
        # The number of transfers that its session has sent, up to and including this one.
        self.serial = serial
        self.exchange = exchange
        self.transaction: TxBuffer | None = None
        # Headers that exchanges add while it is routed, and which each queue's copy keeps.
        self.annotations: dict[str, HeaderValue] | None = None
        # Whether its sender uses AMQP 1.0, for which some properties have another meaning (RF-53, RF-54).
        self.came_on_link = False
        self.listener: RoutingListener | None = None
        self.pending = 1
        self._holders: list[str] | None = None

    @property
    def label(self) -> str:
        """The message's label, for people and traces."""
        if self._label:
            return self._label
        # Made when it is first read: a trace reads it many times, an engine without a trace never does.
        if self._made_label is None:
            self._made_label = f"{self.origin}-{self.serial}"
        return self._made_label

    def is_expired(self, now: int) -> bool:
        """Return whether the message's time to live has ended before `now` (QT-07)."""
        return self.expiration is not None and self.expiration < now

    def annotate(self, key: str, value: HeaderValue) -> None:
        """Add a header that the broker sends to consumers, which counts no bytes (EX-11)."""
        self.annotations = {**(self.annotations or {}), key: value}

    def apart(self) -> Transfer:
        """Return a copy outside the transaction, which is complete and has no owner."""
        twin = Transfer(
            None,
            self.number,
            self.message,
            self.size,
            self._label,
            self.expiration,
            self.origin,
            self.connection,
            self.serial,
            self.exchange,
        )
        twin.annotations = self.annotations
        twin.came_on_link = self.came_on_link
        twin.finish()
        return twin

    @property
    def held_by(self) -> tuple[str, ...]:
        """The names of the queues (or of the store) that withhold the completion, in order of their holds."""
        return tuple(self._holders or ())

    @property
    def is_complete(self) -> bool:
        """Whether nothing holds the completion."""
        return self.pending == 0

    def hold(self, holder: str) -> bool:
        """Withhold the completion for a holder; return False if the transfer is complete (FC-22)."""
        if not self.pending:
            return False
        self.pending += 1
        if self._holders is None:
            # A list literal, as there is usually one holder, and a list that grows has room for four.
            self._holders = [holder]
        else:
            self._holders.append(holder)
        return True

    def release_hold(self, holder: str) -> None:
        """Release a holder's hold, and complete the transfer after the last; ignore others (CM-02)."""
        if self._holders and holder in self._holders:
            self._holders.remove(holder)
            self.finish()

    def end_routing(self) -> None:
        """Record the end of routing, and complete the transfer if nothing holds it."""
        if self.listener is not None:
            self.listener.routed(self)
        self.finish()

    def finish(self) -> None:
        """Decrement ``pending``; at 0 the owner completes the command."""
        if not self.pending:
            return
        self.pending -= 1
        if not self.pending and self.owner is not None:
            self.owner.transfer_complete(self)


class Router(Dependent):
    """The interface through which queues use exchanges, such as their alternate exchange (EX-09)."""

    __slots__ = ("name", "alternate_users")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alternate_users = 0

    def route(self, transfer: Transfer, delivery_count: int = -1) -> bool:
        """Deliver a transfer to every queue with a matching binding; return whether there was one."""
        raise NotImplementedError

    def route_with_alternate(self, transfer: Transfer, delivery_count: int = -1) -> bool:
        """Route a transfer; if no binding matches, route it through the alternate exchange once (EX-08)."""
        raise NotImplementedError


TRACE: Final = "x-qpid.trace"
"""The header that lists the ``qpid.trace.id`` of each queue that a message has passed (QT-17)."""

AVAILABLE: Final = 0
ACQUIRED: Final = 1
REMOVED: Final = 2

_NO_TRANSFER = Transfer()


@mypyc_attr(free_list_len=1)
class QueuedMessage(Restorable):
    """A message on a queue, at a position that the queue never uses again (QT-20)."""

    __slots__ = (
        "transfer", "position", "state", "delivery_count", "group", "annotations", "was_redelivered",
    )  # fmt: skip

    def __init__(
        self, transfer: Transfer = _NO_TRANSFER, position: int = 0, delivery_count: int = -1
    ) -> None:
        self.transfer = transfer
        self.position = position
        self.state = AVAILABLE
        self.delivery_count = delivery_count
        self.group = ""
        self.annotations: dict[str, HeaderValue] | None = transfer.annotations
        # Whether its delivery count has been above 0, and was lowered again by a release (RF-55).
        self.was_redelivered = False

    @property
    def is_first_acquirer(self) -> bool:
        """Whether the next delivery has the flag first-acquirer of AMQP 1.0 (RF-55)."""
        return self.delivery_count <= 0 and not self.was_redelivered

    def annotate(self, key: str, value: HeaderValue) -> None:
        """Add a header that the queue sends to consumers, which counts no bytes (QT-15)."""
        self.annotations = {**(self.annotations or {}), key: value}

    @contextmanager
    def route_on(self, keeps_trace: bool = False) -> Iterator[Transfer]:
        """Yield the transfer, with this copy's annotations, to route it from this queue to others (QT-17)."""
        transfer = self.transfer
        before = transfer.annotations
        transfer.annotations = self.annotations
        # Only a reject or a move keeps the trace header; that of an AMQP 1.0 message never changes (RF-54).
        if not (keeps_trace or transfer.came_on_link):
            transfer.annotate(TRACE, "")
        try:
            yield transfer
        finally:
            transfer.annotations = before

    def headers(self) -> dict[str, HeaderValue]:
        """Return the application headers that a consumer gets, including annotations."""
        return {**(self.transfer.message.headers or {}), **(self.annotations or {})}

    def __repr__(self) -> str:
        state = ("AVAILABLE", "ACQUIRED", "REMOVED")[self.state]
        return f"QueuedMessage({self.transfer.label!r}, position={self.position}, {state})"


class QueueObserver(Dependent):
    """The interface of a queue's observers: groups, alerts and flow control, called in this order."""

    __slots__ = ()

    def enqueued(self, message: QueuedMessage) -> None:
        """Handle a message that was enqueued."""

    def acquired(self, message: QueuedMessage) -> None:
        """Handle a message that a consumer has acquired."""

    def requeued(self, message: QueuedMessage) -> None:
        """Handle an acquired message that is available again."""

    def dequeued(self, message: QueuedMessage) -> None:
        """Handle a message that was dequeued."""
