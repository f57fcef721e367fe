"""Turning a declare argument into the type its key asks for, with the broker's refusals (CF-03).

Mirrors the conversions of ``qpid::types::Variant``: numeric strings are fine, floats and booleans
are no numbers, negative numbers are no unsigned ones.
"""

from __future__ import annotations

import re

from qflow.broker.errors import InvalidConversion

Argument = object
"""A value of an arguments map: None, bool, int, float, str, list or dict."""

UINT32_MAX = (1 << 32) - 1
UINT64_MAX = (1 << 64) - 1
_LIMITS = {"uint32": (0, UINT32_MAX), "uint64": (0, UINT64_MAX), "int64": (-(1 << 63), (1 << 63) - 1)}
_TYPE_NAMES = {type(None): "void", bool: "bool", float: "double", list: "list", dict: "map", str: "string"}
_TRUE, _FALSE = ("true", "True", "1"), ("false", "False", "0")


def to_integer(value: Argument, kind: str) -> int:
    """Convert to ``uint32``, ``uint64`` or ``int64``.

    Raises
    ------
    InvalidConversion
        542, for anything but an integer in range or a string which holds one.

    Examples
    --------
    >>> to_integer("3", "uint32"), to_integer(7, "uint64")
    (3, 7)
    >>> to_integer(-1, "uint32")
    Traceback (most recent call last):
        ...
    qflow.broker.errors.InvalidConversion: invalid conversion: Cannot convert from int64 to uint32
    """
    low, high = _LIMITS[kind]
    if isinstance(value, str):
        if not re.fullmatch(r"[+-]?\d+", value, re.ASCII) or not low <= int(value) <= high:
            raise InvalidConversion(f"invalid conversion: Cannot convert {value}")
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidConversion(f"invalid conversion: Cannot convert from {_type_name(value)} to {kind}")
    return value


def to_bool(value: Argument) -> bool:
    """Convert to a boolean: booleans, integers, and the strings true, True, 1, false, False, 0.

    Examples
    --------
    >>> to_bool(1), to_bool("True"), to_bool("0")
    (True, True, False)
    """
    if isinstance(value, int):
        return value != 0
    if isinstance(value, str):
        if value in _TRUE:
            return True
        if value in _FALSE:
            return False
        raise InvalidConversion(f"invalid conversion: Cannot convert {value} to bool")
    raise InvalidConversion(f"invalid conversion: Cannot convert from {_type_name(value)} to bool")


def to_text(value: Argument) -> str:
    """Convert to a string where the broker prints any value (group and last value keys).

    Examples
    --------
    >>> to_text(5), to_text("G")
    ('5', 'G')
    """
    return value if isinstance(value, str) else str(value)


def to_string(value: Argument) -> str:
    """Convert to a string where the broker insists on one (policy, sequence header).

    Examples
    --------
    >>> to_string(5)
    Traceback (most recent call last):
        ...
    qflow.broker.errors.InvalidConversion: invalid conversion: Cannot convert from int64 to string
    """
    if not isinstance(value, str):
        raise InvalidConversion(f"invalid conversion: Cannot convert from {_type_name(value)} to string")
    return value


def _type_name(value: Argument) -> str:
    return _TYPE_NAMES.get(type(value), "int64")
