"""A message at its three stages: as it is sent, on its way, and on a queue.

A producer makes a :class:`Message`: properties, and an amount of content; it never changes.  The constructor
takes that amount, which is all that the broker asks for; :meth:`Message.of` takes a body instead, and counts
the bytes of its AMQP 0-10 encoding.  The command that carries it makes one :class:`Transfer`, shared by all
queues that get a copy: how many bytes count, when it expires, and what still withholds its completion (the
broker's AsyncCompletion, CM-02).  Each queue makes a :class:`QueuedMessage` of its own: a position, a
state, and how often it was delivered.

What a transfer and a queued message are handed to is said here as well, by four small interfaces, so that
messages know neither sessions nor exchanges nor flow control: :class:`CommandOwner`,
:class:`RoutingListener`, :class:`Router`, :class:`QueueObserver`.
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
"""So deep may maps and lists be nested; a snapshot's text is three times as deep, and Python ends at 1000."""


class _Sent(Frozen):
    """The size that a sender states for a message; the transfer stores it, so snapshots omit it."""

    # Not in the dataclass below: compiled, that counts a class's variable among its fields.
    VOLATILE: ClassVar[tuple[str, ...]] = ("size",)

    __slots__ = ()


# A message never changes, and yet it is not frozen: that takes five times as long to make, for every message
# sent.  It has a constructor of its own, as the compiler would leave the decorator's to the interpreter.
@mypyc_attr(free_list_len=1)
@dataclass(slots=True, init=False)
class Message(_Sent):
    """A message as a producer sends it: properties and an amount of content.

    The broker asks only how much content there is.  Headers and content are kept as plain copies, at most 100
    levels deep; a whole number may be of any type that stands for one but bool.  ``label`` names the message
    for people, traces and pictures; it is not sent.

    Parameters:
        content_size: Bytes of content; the content itself may travel along as ``content`` (:meth:`of`).
        routing_key: None leaves the property out (1 byte less than an empty key).
        headers: Application headers; None leaves the map out, an empty map costs 16 bytes (DQ-08).
        priority: 0 to 255; None means not set, which counts as 0 (QT-04).
        ttl: Milliseconds to live; 0 means for ever (QT-07).
        to: The property of AMQP 1.0, which only its own selectors read (RF-53); 0-10 counts no bytes for it.
        durable: Sets delivery-mode, and hands the message to the store if there is one (CM-12).
        size: Bytes that the broker is to count, where the sender knows them better, as in AMQP 1.0; None
            computes them as an AMQP 0-10 client encodes the message.

    Raises:
        TypeError: If a property is of another type.
        ValueError: If a number is out of its range, or a text is longer than AMQP allows or has no encoding.

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
        # This is done for every message sent, so what is right is found to be so with few questions.
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
        # The caller may go on to change the map; what was sent stays as it was.
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
        # Only three parameters are positional.
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
        """Return a message with a body, and the size of its encoding.

        Parameters:
            body: Text is sent as UTF-8; a dict and a list in AMQP's own encoding, with the content type
                "amqp/map" and "amqp/list" unless another is given.
            routing_key: As for the constructor.
            reply_to (tuple of (str or None, str or None), or None): Exchange and routing key of an answer;
                the default exchange is "" or None.
            content_encoding: A name such as "utf-8".
            **properties: All other parameters of the constructor but ``content_size`` and ``content``.

        Raises:
            TypeError, ValueError: If AMQP cannot carry the body or a property.

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
        """The body given to :meth:`of`; None for a message made with an amount of content."""
        content = self.content
        return content[1] if _is_enclosed(content) else content

    @property
    def apart(self) -> dict[str, HeaderValue]:
        """Properties that the engine has no field for; see :func:`enclose`."""
        content = self.content
        return content[2] if _is_enclosed(content) else {}

    @property
    def reply_to(self) -> tuple[str | None, str | None] | None:
        """Exchange and routing key of an answer, or None."""
        found: Any = self.apart.get("reply_to")
        return None if found is None else (found[0], found[1])

    def header(self, key: Text) -> HeaderValue:
        """Return one application header, or None when it is absent."""
        if not isinstance(key, str):
            raise TypeError(f"a header's name must be a string, got {show(key)}")
        return None if self.headers is None else self.headers.get(key)

    def property_as_string(self, key: Text) -> str:
        """Return the text of one application header as groups, last values and filters read it (MG-04).

        Integers pass through 32 bits; what has no text (absent, boolean, float, list, map) is "".

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
        """Return the bytes of header and content, the exchange's name included (DQ-05, DQ-06)."""
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
    """Return the message with these values of its fields, for a copy or a checkpoint."""
    return Message(**dict(zip(_MESSAGE_FIELDS, values, strict=True)))


def encodable(what: str, text: object, most: int = 0) -> str:
    """Return a text, plain if of a subclass of str; refuse one that AMQP cannot carry."""
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
    """Return a whole number from 0 to ``most``, plain if it is of another type, such as NumPy's."""
    number = integer(what, value)
    if not 0 <= number <= most:
        raise ValueError(f"{what} must be 0 to {most}, got {value!r}")
    return number


def integer(what: str, value: object) -> int:
    """Return a whole number, plain if of another type; TypeError for anything else, a bool included."""
    if type(value) is int:
        return value
    number = None if isinstance(value, bool) else _index(value)
    if number is None:
        raise TypeError(f"{what} must be a whole number, got {show(value)}")
    return number


def flag(what: str, value: object) -> bool:
    """Return a bool; TypeError for anything else, 0 and 1 included."""
    if not isinstance(value, bool):
        raise TypeError(f"{what} must be True or False, got {show(value)}")
    return value


def _index(value: Any) -> int | None:
    """Return a whole number as a plain int, None for any other value."""
    try:
        return index(value)
    except TypeError:
        return None


def delivery_numbers(what: str, value: Iterable[SupportsIndex]) -> tuple[Any, ...]:
    """Return numbers of deliveries as a tuple; TypeError for anything but whole numbers."""
    # Most often one message is accepted, or completed.
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
    """Return the text of a value in a refusal; a value that contains itself has none."""
    try:
        return repr(value)
    except RecursionError:
        return f"a {type(value).__name__} that is nested too deeply to be shown"


_TYPES: Final = "is made of None, bool, int, float, str, bytes, UUID, list and dict"
_SCALARS: Final = frozenset({str, bytes, int, float, bool, UUID, NoneType})


def plain(what: str, value: object, depth: int = 0) -> Any:
    """Return a copy of a value in AMQP's own types; refuse other types, and a value that contains itself."""
    kind = type(value)
    if kind in _SCALARS:
        return value
    if isinstance(value, list | tuple | dict):
        if depth == _DEEPEST:
            raise _too_deep(what)
        depth += 1
        # The parts of an encoded message are found right without a call for each of them.
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
    # Clients have a float of their own for points in time, and wish to see it again.
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
    """Return a plain copy of a mapping whose keys are strings, see :func:`plain`."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{what} must be a mapping, got {show(value)}")
    entries: dict[Any, Any] = plain(what, dict(value))
    for key in entries:
        if not isinstance(key, str):
            raise TypeError(f"{what} has strings as keys, got {key!r}")
    return entries


def _copy_headers(headers: object) -> dict[str, HeaderValue]:
    """Return a plain copy of application headers, which mostly are plain and not nested."""
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
    """Return content with properties that only clients read; their bytes are counted with the content."""
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
    """Return the bytes of a reply-to among a message's properties (DQ-07)."""
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
    """Return the bytes of a map; TypeError or ValueError if AMQP cannot carry an entry."""
    size = 8
    for key, value in entries.items():
        if type(key) is str and key.isascii() and len(key) <= 255:
            size += 2 + len(key) + _measure_value(what, value, depth)
        else:
            name = encodable("the name of an entry", key, 255)
            size += _measure_short_text(name) + 1 + _measure_value(what, value, depth)
    return size


def _measure_value(what: str, value: object, depth: int) -> int:
    """Bytes of one value, as a client encodes it: integers in 8, text with a 2-byte length."""
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
    """The owner of a transfer's command, to which its completion is reported: a session's completions."""

    __slots__ = ()

    def transfer_complete(self, transfer: Transfer) -> None:
        """Complete a transfer, whose last holder has released it."""
        raise NotImplementedError

    def report(self) -> None:
        """Send the client the numbers of the completed commands."""
        raise NotImplementedError

    def block_channel(self, queue: str) -> None:
        """Ask the client to stop sending, as the Java broker does (ALT-12)."""
        raise NotImplementedError

    def unblock_channel(self, queue: str) -> None:
        """Let the client send again as far as this queue is concerned (ALT-12)."""
        raise NotImplementedError


class RoutingListener(Dependent):
    """A listener that is called when a transfer has been given to all its queues."""

    __slots__ = ()

    def routed(self, transfer: Transfer) -> None:
        """Handle the end of a transfer's routing."""
        raise NotImplementedError


_NO_MESSAGE = Message()


@mypyc_attr(free_list_len=1)
class Transfer(Restorable):
    """A message under way, shared by all its queues; ``pending`` counts the holds of its completion (CM-02).

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
        # What the broker counts, fixed when the transfer arrives (DQ-05).
        self.size = size
        self._label = label
        self._made_label: str | None = None
        # Virtual microseconds (QT-07).
        self.expiration = expiration
        self.origin = origin
        self.connection = connection
        # How many transfers its session has sent, this one included.
        self.serial = serial
        self.exchange = exchange
        self.transaction: TxBuffer | None = None
        # What exchanges add to its headers while it is routed; each copy takes them with it.
        self.annotations: dict[str, HeaderValue] | None = None
        # Whether its sender speaks AMQP 1.0: some properties are read in another way then (RF-53, RF-54).
        self.came_on_link = False
        self.listener: RoutingListener | None = None
        self.pending = 1
        self._holders: list[str] | None = None

    @property
    def label(self) -> str:
        """The message's name, for people and traces."""
        if self._label:
            return self._label
        # Made when it is first asked for: a trace asks again and again, an engine without one never does.
        if self._made_label is None:
            self._made_label = f"{self.origin}-{self.serial}"
        return self._made_label

    def is_expired(self, now: int) -> bool:
        """Return whether the message's time to live is over (QT-07)."""
        return self.expiration is not None and self.expiration < now

    def annotate(self, key: str, value: HeaderValue) -> None:
        """Add a header of the broker's own for the message's consumers (EX-11); not counted."""
        self.annotations = {**(self.annotations or {}), key: value}

    def apart(self) -> Transfer:
        """Return the message outside its transaction: complete, and without an owner."""
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
        """Names of the queues (or the store) which withhold the completion, in order."""
        return tuple(self._holders or ())

    @property
    def is_complete(self) -> bool:
        """Whether nothing holds the completion."""
        return self.pending == 0

    def hold(self, holder: str) -> bool:
        """Withhold the completion; return whether it can still be withheld (FC-22)."""
        if not self.pending:
            return False
        self.pending += 1
        if self._holders is None:
            # Mostly it is the only one; a list that grows has room for four.
            self._holders = [holder]
        else:
            self._holders.append(holder)
        return True

    def release_hold(self, holder: str) -> None:
        """End one hold; a holder the transfer does not know is ignored (CM-02)."""
        if self._holders and holder in self._holders:
            self._holders.remove(holder)
            self.finish()

    def end_routing(self) -> None:
        """Record that all queues have been tried; the transfer completes if nothing holds it."""
        if self.listener is not None:
            self.listener.routed(self)
        self.finish()

    def finish(self) -> None:
        """Decrement the count; at 0 the owner completes the command."""
        if not self.pending:
            return
        self.pending -= 1
        if not self.pending and self.owner is not None:
            self.owner.transfer_complete(self)


class Router(Dependent):
    """Routes transfers to queues: an exchange, or a queue's alternate exchange (EX-09)."""

    __slots__ = ("name", "alternate_users")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alternate_users = 0

    def route(self, transfer: Transfer, delivery_count: int = -1) -> bool:
        """Give the transfer to every queue that a binding selects; return whether one did."""
        raise NotImplementedError

    def route_with_alternate(self, transfer: Transfer, delivery_count: int = -1) -> bool:
        """Route, or else through the alternate exchange, once (EX-08)."""
        raise NotImplementedError


TRACE: Final = "x-qpid.trace"
"""The header that says which queues with a ``qpid.trace.id`` a message has been on (QT-17)."""

AVAILABLE: Final = 0
ACQUIRED: Final = 1
REMOVED: Final = 2

_NO_TRANSFER = Transfer()


@mypyc_attr(free_list_len=1)
class QueuedMessage(Restorable):
    """A transferred message on a queue, at a position that is never reused (QT-20)."""

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
        # Whether its count has been above 0, and was taken back since (RF-55).
        self.was_redelivered = False

    @property
    def is_first_acquirer(self) -> bool:
        """Whether AMQP 1.0 calls the next consumer the first acquirer (RF-55)."""
        return self.delivery_count <= 0 and not self.was_redelivered

    def annotate(self, key: str, value: HeaderValue) -> None:
        """Add a header of the queue's own to the message's for its consumers (QT-15); not counted."""
        self.annotations = {**(self.annotations or {}), key: value}

    @contextmanager
    def route_on(self, keeps_trace: bool = False) -> Iterator[Transfer]:
        """Return the transfer for routing on from here; only a reject and a move keep the trace (QT-17)."""
        transfer = self.transfer
        before = transfer.annotations
        transfer.annotations = self.annotations
        # That of a message of AMQP 1.0 stays as it is (RF-54).
        if not (keeps_trace or transfer.came_on_link):
            transfer.annotate(TRACE, "")
        try:
            yield transfer
        finally:
            transfer.annotations = before

    def headers(self) -> dict[str, HeaderValue]:
        """Return the application headers as a consumer sees them, annotations included."""
        return {**(self.transfer.message.headers or {}), **(self.annotations or {})}

    def __repr__(self) -> str:
        state = ("AVAILABLE", "ACQUIRED", "REMOVED")[self.state]
        return f"QueuedMessage({self.transfer.label!r}, position={self.position}, {state})"


class QueueObserver(Dependent):
    """Observes the messages of a queue: groups, alerts, flow control, called in this order."""

    __slots__ = ()

    def enqueued(self, message: QueuedMessage) -> None:
        """Handle a message that is now on the queue."""

    def acquired(self, message: QueuedMessage) -> None:
        """Handle a message that a consumer has acquired."""

    def requeued(self, message: QueuedMessage) -> None:
        """Handle an acquired message that is available again."""

    def dequeued(self, message: QueuedMessage) -> None:
        """Handle a message that leaves the queue."""
