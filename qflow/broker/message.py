"""Message, and how many bytes the broker counts for it (DQ-05 … DQ-09)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from qflow.broker.restorable import Frozen

HeaderValue = None | bool | int | float | str | bytes | UUID | list[object] | dict[str, object]
"""What an application header may hold."""

_STRUCT: Final = 8
_INTEGER: Final = 8


# Nobody changes a message, and yet it is not frozen: that takes five times as long to make, for every message
# sent.  It has a constructor of its own, as the compiler would leave the decorator's to the interpreter.
@dataclass(slots=True, init=False)
class Message(Frozen):
    """What a producer sends: properties and an amount of content.

    What the content is never matters to the broker, only how many bytes it has: ``content_size``.
    ``content`` itself may travel along for clients that want to see it, but is
    never looked at.  ``label`` names the message for people, traces and pictures; it is not sent.

    Parameters
    ----------
    content_size : int
        Bytes of content.
    routing_key : str or None
        None leaves the property out (1 byte less than an empty key).
    headers : mapping or None
        Application headers; None leaves the map out, an empty map costs 16 bytes (DQ-08).
    priority : int or None
        0 to 255; None means not set, which counts as 0 (QT-04).
    ttl : int
        Milliseconds to live; 0 means for ever (QT-07).
    durable : bool
        Sets delivery-mode, and hands the message to the store if there is one (CM-12).

    Raises
    ------
    ValueError
        If a number is out of its range, or the routing key is longer than AMQP allows.

    Examples
    --------
    >>> Message(1, routing_key="ab").encoded_size("")           # DQ-08: bare
    13
    >>> Message(1, routing_key="ab", priority=4).encoded_size("")
    14
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
    label: str = field(default="", compare=False)
    content: Any = field(default=None, compare=False)

    def __init__(
        self,
        content_size: int = 0,
        routing_key: str | None = None,
        headers: Mapping[str, HeaderValue] | None = None,
        priority: int | None = None,
        ttl: int = 0,
        durable: bool = False,
        timestamp: int | None = None,
        message_id: UUID | None = None,
        correlation_id: str | None = None,
        content_type: str | None = None,
        user_id: str | None = None,
        app_id: str | None = None,
        label: str = "",
        content: Any = None,
    ) -> None:
        if content_size < 0 or ttl < 0:
            raise ValueError(
                f"content_size and ttl are 0 or more; got content_size={content_size}, ttl={ttl}"
            )
        if priority is not None and not 0 <= priority <= 255:
            raise ValueError(f"priority is None or 0 to 255; got {priority!r}")
        if routing_key is not None and len(routing_key) > 63 and len(routing_key.encode()) > 255:
            raise ValueError(f"routing_key is at most 255 bytes; got {len(routing_key.encode())}")
        self.content_size = content_size
        self.routing_key = routing_key
        # The caller may go on to change the map; what was sent stays as it was.
        self.headers = None if headers is None else dict(headers)
        self.priority = priority
        self.ttl = ttl
        self.durable = durable
        self.timestamp = timestamp
        self.message_id = message_id
        self.correlation_id = correlation_id
        self.content_type = content_type
        self.user_id = user_id
        self.app_id = app_id
        self.label = label
        self.content = content

    def header(self, key: str) -> HeaderValue:
        """Return one application header, or None when it is absent."""
        return None if self.headers is None else self.headers.get(key)

    def property_as_string(self, key: str) -> str:
        """Return the text of one application header as groups, last values and filters read it (MG-04).

        Integers pass through 32 bits; what has no text (absent, boolean, float, list, map) is "".

        Examples
        --------
        >>> message = Message(headers={"s": "cart-7", "i": 2**31, "b": True})
        >>> message.property_as_string("s"), message.property_as_string("i"), message.property_as_string("b")
        ('cart-7', '-2147483648', '')
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

    def encoded_size(self, exchange: str) -> int:
        """Count the bytes of header and content, with the exchange the broker adds (DQ-05, DQ-06).

        Parameters
        ----------
        exchange : str
            Destination of the transfer; its name is recorded in the delivery properties.
        """
        size = self.content_size + _STRUCT + _short_text(exchange)
        if self.routing_key is not None:
            size += _short_text(self.routing_key)
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
            size += _long_text(self.correlation_id)
        if self.user_id is not None:
            size += _long_text(self.user_id)
        if self.app_id is not None:
            size += _long_text(self.app_id)
        if self.content_type is not None:
            size += _short_text(self.content_type)
        if self.headers is not None:
            size += _map_size(self.headers)
        return size + _STRUCT if size else 0


def _short_text(text: str) -> int:
    return 1 + (len(text) if text.isascii() else len(text.encode()))


def _long_text(text: str) -> int:
    return 2 + (len(text) if text.isascii() else len(text.encode()))


def _map_size(entries: dict[str, Any]) -> int:
    size = 8
    for key, value in entries.items():
        size += _short_text(key) + 1 + _value_size(value)
    return size


def _value_size(value: object) -> int:
    """Bytes of one value, as a client encodes it: integers in 8, text with a 2-byte length."""
    if isinstance(value, str):
        return _long_text(value)
    if value is None:
        return 0
    if isinstance(value, bool):
        return 1
    if isinstance(value, int | float):
        return _INTEGER
    if isinstance(value, UUID):
        return 16
    if isinstance(value, bytes):
        return 4 + len(value)
    if isinstance(value, dict):
        return _map_size(value)
    if isinstance(value, list | tuple):
        return 8 + sum(1 + _value_size(item) for item in value)
    raise TypeError(f"a header holds None, bool, int, float, str, bytes, UUID, list or dict; got {value!r}")
