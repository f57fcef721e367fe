"""Details as text: one canonical JSON form, which keeps every value that an argument can have.

JSON knows no bytes, no UUIDs and no messages; these travel as an object whose only key begins with
``$``. Equal details give equal text, so that two traces can be compared byte for byte.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from typing import Any
from uuid import UUID

from qflow.broker.events import Detail
from qflow.broker.message import Message

_MESSAGE_FIELDS = {item.name: item.default for item in fields(Message) if item.name != "content"}
"""What content is never matters to the broker, so a trace leaves it out; its size is kept."""


def encode_detail(detail: Detail) -> str:
    """Return a detail as canonical JSON text; None is the empty text.

    Its own keys are sorted; mappings inside keep their order, which a queue's arguments are read in.

    Parameters
    ----------
    detail : mapping or None
        What an event carries: plain values, bytes, UUIDs and messages, in lists and mappings.

    Raises
    ------
    TypeError
        If it holds anything else.

    Examples
    --------
    >>> encode_detail({"transfers": (1, 2), "set_redelivered": True})
    '{"set_redelivered":true,"transfers":[1,2]}'
    >>> encode_detail({"body": b"ab", "message": Message(5, routing_key="q")})
    '{"body":{"$bytes":"6162"},"message":{"$message":{"content_size":5,"routing_key":"q"}}}'
    >>> encode_detail(None)
    ''
    """
    if detail is None:
        return ""
    if {*map(type, detail.values())} == {int}:
        keys, template = _whole_numbers(tuple(detail))
        return template % tuple([detail[key] for key in keys])
    return _dump({key: _plain(detail[key]) for key in sorted(detail)})


def decode_detail(text: str) -> dict[str, Any]:
    """Return the detail that :func:`encode_detail` has written; {} for the empty text.

    Raises
    ------
    ValueError
        If the text is no JSON object, or marks a value with an unknown word.

    Examples
    --------
    >>> decode_detail('{"body":{"$bytes":"6162"}}')
    {'body': b'ab'}
    >>> decode_detail('{"body":{"$colour":"red"}}')
    Traceback (most recent call last):
        ...
    ValueError: unknown mark '$colour', allowed are $bytes, $float, $map, $message, $uuid
    """
    if not text:
        return {}
    detail = json.loads(text)
    if not isinstance(detail, dict):
        raise ValueError(f"must be a JSON object, got {text[:40]!r}")
    if '"$' not in text:
        return detail
    return {key: _value(item) for key, item in detail.items()}


@lru_cache(maxsize=1024)
def _whole_numbers(names: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """Return the keys in order, and the text around their values, of a detail of whole numbers only."""
    keys = tuple(sorted(names))
    texts = [_dump(key).replace("%", "%%") for key in keys]
    return keys, "{" + ",".join(f"{text}:%d" for text in texts) + "}"


# For a value that needs no change, this is four times as fast as json.dumps with options.
_dump = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode


def _plain(value: object) -> object:
    """Return a value as JSON can hold it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return _plain_map(value)
    if isinstance(value, Message):
        given = ((name, getattr(value, name)) for name in _MESSAGE_FIELDS)
        return {"$message": {name: _plain(item) for name, item in given if item != _MESSAGE_FIELDS[name]}}
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    if isinstance(value, UUID):
        return {"$uuid": value.hex}
    raise TypeError(f"a trace keeps numbers, text, bytes, UUIDs, messages, lists and mappings; got {value!r}")


def _plain_map(value: Mapping[Any, Any]) -> object:
    plain = {str(key): _plain(item) for key, item in value.items()}
    is_marked = len(plain) == 1 and next(iter(plain)).startswith("$")
    return {"$map": plain} if is_marked else plain


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if len(plain) == 1:
        mark, content = next(iter(plain.items()))
        if mark.startswith("$"):
            return _marked(mark, content)
    return {key: _value(item) for key, item in plain.items()}


def _marked(mark: str, content: Any) -> object:
    if mark not in _MARKS:
        raise ValueError(f"unknown mark {mark!r}, allowed are {', '.join(sorted(_MARKS))}")
    try:
        return _MARKS[mark](content)
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{mark} holds {content!r}: {error}") from None


_MARKS: dict[str, Callable[[Any], object]] = {
    "$bytes": bytes.fromhex,
    "$float": float,
    "$map": lambda content: {key: _value(item) for key, item in content.items()},
    "$message": lambda content: Message(**{key: _value(item) for key, item in content.items()}),
    "$uuid": UUID,
}
