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
    """Convert to a boolean: booleans, null, integers, and strings that hold true, false or an integer.

    Examples
    --------
    >>> to_bool(1), to_bool("TRUE"), to_bool("0"), to_bool(None)
    (True, True, False, False)
    """
    if value is None or isinstance(value, int):
        return bool(value)
    if isinstance(value, str):
        if value.lower() in ("true", "false"):
            return value.lower() == "true"
        if re.fullmatch(r"[+-]?\d+", value, re.ASCII) and -(1 << 31) <= int(value) < 1 << 31:
            return int(value) != 0
        raise InvalidConversion(f"invalid conversion: Cannot convert {value} to bool")
    raise InvalidConversion(f"invalid conversion: Cannot convert from {_type_name(value)} to bool")


def to_text(value: Argument) -> str:
    """Convert to a string where the broker prints any value (group and last value keys).

    Examples
    --------
    >>> to_text(5), to_text("G"), to_text(None)
    ('5', 'G', '')
    """
    return "" if value is None else str(value)


def to_string(value: Argument) -> str:
    """Convert to a string where the broker insists on one (policy, sequence header).

    Examples
    --------
    >>> to_string(5)
    Traceback (most recent call last):
        ...
    qflow.broker.errors.InvalidConversion: invalid conversion: Variant is not a string; \
use asString() if conversion is required.
    """
    if not isinstance(value, str):
        raise InvalidConversion(
            "invalid conversion: Variant is not a string; use asString() if conversion is required."
        )
    return value


def _type_name(value: Argument) -> str:
    return _TYPE_NAMES.get(type(value), "int64")
