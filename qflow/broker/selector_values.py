"""What selector expressions evaluate to: SQL's three-valued logic over message properties (QT-16)."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable

from qflow.broker.message import HeaderValue, Message

Value = HeaderValue
"""A property's or an expression's value; None is SQL's NULL, and the truth value *unknown*."""

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


_JMS_NAMES = {
    "JMSPriority": "amqp.priority",
    "JMSDeliveryMode": "amqp.delivery_mode",
    "JMSCorrelationID": "amqp.correlation_id",
    "JMSMessageID": "amqp.message_id",
}


def property_value(message: Message, name: str) -> Value:
    """Return a property: ``amqp.`` and ``JMS`` names mean the message's own, all others its headers.

    Lists, maps and UUIDs are no values that a selector could see.

    Examples
    --------
    >>> property_value(Message(priority=4, headers={"n": 2}), "amqp.priority")
    4
    """
    name = _JMS_NAMES.get(name, name)
    if name.startswith(("amqp.", "JMS")):
        own: dict[str, Value] = {
            "amqp.priority": message.priority or 0,
            "amqp.durable": message.durable,
            "amqp.delivery_mode": "PERSISTENT" if message.durable else "NON_PERSISTENT",
            "amqp.correlation_id": message.correlation_id,
            "amqp.message_id": None if message.message_id is None else str(message.message_id),
        }
        return own.get(name)
    value = message.header(name)
    return value if isinstance(value, bool | int | float | str) else None


def negate(value: Value) -> Value:
    """Return NOT value; unknown stays unknown.

    Examples
    --------
    >>> negate(True), negate(None)
    (False, None)
    """
    return not value if isinstance(value, bool) else None


def any_of(values: Iterable[Value]) -> Value:
    """Return OR over values: true if one is, else unknown if one is, else false.

    Examples
    --------
    >>> any_of([False, None, True]), any_of([False, None]), any_of([False])
    (True, None, False)
    """
    truths = [value if isinstance(value, bool) else None for value in values]
    if True in truths:
        return True
    return None if None in truths else False


def all_of(values: Iterable[Value]) -> Value:
    """Return AND over values: false if one is, else unknown if one is, else true."""
    return negate(any_of([negate(value) for value in values]))


def compare(symbol: str, left: Value, right: Value) -> Value:
    """Compare two values; unlike kinds are neither equal nor unequal, NULL is unknown.

    Examples
    --------
    >>> compare("<", 1, 2.5), compare("<>", "a", 1), compare("=", None, 1)
    (True, False, None)
    """
    if left is None or right is None:
        return None
    if _is_number(left) and _is_number(right):
        return COMPARISONS[symbol](left, right)  # type: ignore[arg-type]
    if type(left) is type(right) and symbol in ("=", "<>"):
        return (left == right) == (symbol == "=")
    return False


def is_none_of(value: Value, choices: Iterable[Value]) -> Value:
    """Return whether a value is none of some others, which has to be known of each; unlike kinds are no.

    Examples
    --------
    >>> is_none_of(1, [2, 3]), is_none_of(1, [2, 1]), is_none_of(1, [2, None]), is_none_of(1, [2, "a"])
    (True, False, None, False)
    """
    if value is None:
        return None
    found: Value = True
    for choice in choices:
        if choice is None:
            found = None
        elif compare("=", value, choice):
            return False
        elif found is not None and not compare("<>", value, choice):
            found = False
    return found


def calculate(symbol: str, left: Value, right: Value) -> Value:
    """Add, subtract, multiply or divide; anything but two numbers gives NULL.

    Examples
    --------
    >>> calculate("*", 2, 3), calculate("/", 1, 0), calculate("+", 1, "a")
    (6, None, None)
    """
    if not _is_number(left) or not _is_number(right):
        return None
    if symbol == "/" and not right:
        return None
    return _ARITHMETIC[symbol](left, right)  # type: ignore[arg-type]


def like_pattern(pattern: str, escape: str) -> re.Pattern[str]:
    """Return what a LIKE pattern means: ``%`` any text, ``_`` any one character.

    Examples
    --------
    >>> bool(like_pattern("a%z_", "").fullmatch("abczd")), bool(like_pattern("50!%", "!").fullmatch("50%"))
    (True, True)
    """
    parts: list[str] = []
    characters = iter(pattern)
    for character in characters:
        if escape and character == escape:
            parts.append(re.escape(next(characters, "")))
        else:
            parts.append({"%": ".*", "_": "."}.get(character, re.escape(character)))
    return re.compile("".join(parts), re.DOTALL)


def is_like(pattern: re.Pattern[str], value: Value) -> Value:
    """Return whether a string matches; of anything else that is unknown."""
    return pattern.fullmatch(value) is not None if isinstance(value, str) else None


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
