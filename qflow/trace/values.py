"""Details as text: one canonical JSON form, which keeps every value that an argument can have.

JSON knows no bytes, no UUIDs and no messages; these travel as an object whose only key begins with
``$``. Equal details give equal text, so that two traces can be compared byte for byte.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import lru_cache
from json.encoder import encode_basestring as _string
from typing import Any
from uuid import UUID

from qflow.broker.details import Names, Values, packed
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
    return encode_values(*packed(detail))


def encode_values(names: Names, values: Values) -> str:
    """Return what :func:`encode_detail` does, of a detail whose names and values are told apart.

    Examples
    --------
    >>> encode_values(("position", "depth"), (5, 3))
    '{"depth":3,"position":5}'
    """
    if names is None:
        return ""
    order, template = _frame(names)
    return template % tuple([_WRITERS[type(values[place])](values[place]) for place in order])


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
def _frame(names: tuple[str, ...]) -> tuple[list[int], str]:
    """Return in which order the values are told, and the text around them; few are used very often."""
    order = sorted(range(len(names)), key=names.__getitem__)
    texts = [_string(names[place]).replace("%", "%%") for place in order]
    return order, "{" + ",".join(f"{text}:%s" for text in texts) + "}"


def _list_text(values: list[object] | tuple[object, ...]) -> str:
    return f"[{','.join([_WRITERS[type(value)](value) for value in values])}]"


def _map_text(value: Mapping[Any, Any]) -> str:
    named = {str(key): item for key, item in value.items()}
    text = (
        "{"
        + ",".join([f"{_string(name)}:{_WRITERS[type(item)](item)}" for name, item in named.items()])
        + "}"
    )
    is_marked = len(named) == 1 and next(iter(named)).startswith("$")
    return f'{{"$map":{text}}}' if is_marked else text


def _message_text(message: Message) -> str:
    given = zip(_FRAMES, _message_values(message), _MESSAGE_FIELDS.values(), strict=True)
    parts = [frame + _WRITERS[type(value)](value) for frame, value, default in given if value != default]
    return f'{{"$message":{{{",".join(parts)}}}}}'


def _float_text(value: float) -> str:
    return float.__repr__(value) if math.isfinite(value) else f'{{"$float":"{value!r}"}}'


def _refuse(value: object) -> str:
    raise TypeError(f"a trace keeps numbers, text, bytes, UUIDs, messages, lists and mappings; got {value!r}")


class _Writers(dict[type, Callable[[Any], str]]):
    """How values are told as JSON, by type; a type of somebody's own is told as what it derives from."""

    def __missing__(self, kind: type) -> Callable[[Any], str]:
        for known in (int, str, float, list, tuple):
            if issubclass(kind, known):
                return self[known]
        return _map_text if issubclass(kind, Mapping) else _refuse


_message_values = operator.attrgetter(*_MESSAGE_FIELDS)
_FRAMES = [f'"{name}":' for name in _MESSAGE_FIELDS]
_WRITERS = _Writers(
    {
        str: _string,
        int: int.__repr__,
        bool: {False: "false", True: "true"}.__getitem__,
        type(None): lambda _: "null",
        float: _float_text,
        tuple: _list_text,
        list: _list_text,
        dict: _map_text,
        Message: _message_text,
        bytes: lambda value: f'{{"$bytes":"{value.hex()}"}}',
        UUID: lambda value: f'{{"$uuid":"{value.hex}"}}',
    }
)


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
