"""Validation of a workload's attributes, and the error message for a value that is not allowed.

A *check* is a function that returns whether a value is allowed.  Each class of :mod:`qflow.workload.model`
lists its attributes with their checks and the allowed values in words, and :func:`require_all` applies the
list to an object.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from qflow.qflow_error import QflowError

Check = Callable[[Any], bool]
Rules = tuple[tuple[str, Check, str], ...]
"""A list of rules, each with an attribute's name, the check of its value, and the allowed values in words."""

LARGEST_NUMBER = 10**12
"""The largest number in a workload, so that the totals of a run in microseconds or bytes fit 64 bits."""

LONGEST_NAME = 255
"""The largest number of UTF-8 bytes that AMQP 0-10 allows in the name of a queue, exchange or key (str8)."""

_SHOWN = 300
"""The largest number of characters of a value that an error message shows."""


class WorkloadError(QflowError, ValueError):
    """A workload with an invalid value; the message names the attribute, its allowed values and its value.

    >>> issubclass(WorkloadError, ValueError)
    True
    """


def require(holds: bool, where: str, attribute: str, value: object, allowed: str) -> None:
    """Raise WorkloadError, naming the attribute, its value and what is allowed, unless `holds` is true."""
    if not holds:
        raise WorkloadError(f"{where}: {attribute} must be {allowed}{_bounds(value)}, got {_show(value)}")


def _bounds(value: object) -> str:
    """Return the general bound that a number or text exceeds, in words, or "" if it exceeds none."""
    if isinstance(value, tuple | list):
        return next(filter(None, map(_bounds, value)), "")
    if isinstance(value, int | float) and abs(value) > LARGEST_NUMBER and value not in (math.inf, -math.inf):
        return f", no number above {LARGEST_NUMBER}"
    if isinstance(value, str) and not is_text(value):
        return f", at most {LONGEST_NAME} bytes of UTF-8"
    return ""


def _show(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:
        return (
            f"a number of {value.bit_length()} bits" if isinstance(value, int) else "numbers too long to show"
        )
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} … {text[-_SHOWN // 4 :]}"


def require_all(where: str, model: object, rules: Rules) -> None:
    """Raise WorkloadError for the first attribute of an object whose value its rule does not allow."""
    for attribute, is_allowed, allowed in rules:
        value = getattr(model, attribute)
        require(is_allowed(value), where, attribute, value, allowed)


def require_keys(
    where: str, mapping: object, allowed: Iterable[str], required: Iterable[str]
) -> Mapping[str, Any]:
    """Return a mapping; raise WorkloadError if it has an unknown key or lacks a required one."""
    if not isinstance(mapping, Mapping):
        raise WorkloadError(f"{where}: must be an object with named attributes, got {mapping!r}")
    allowed = list(allowed)
    for key in mapping:
        if key not in allowed:
            raise WorkloadError(f"{where}: unknown attribute {key!r}, allowed are {', '.join(allowed)}")
    for key in required:
        if key not in mapping:
            raise WorkloadError(
                f"{where}: the attribute {key!r} is missing, required are {', '.join(required)}"
            )
    return mapping


def one_of(choices: tuple[str, ...]) -> str:
    """Return choices as a phrase, such as ``'open' or 'closed'``."""
    return " or ".join(map(repr, choices))


def is_number(value: object, at_least: float = -math.inf, at_most: float = math.inf) -> bool:
    """Return whether a value is a number, not a bool, within its bounds and ±:data:`LARGEST_NUMBER`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return at_least <= value <= at_most and -LARGEST_NUMBER <= value <= LARGEST_NUMBER


def is_positive(value: object, at_most: float = math.inf) -> bool:
    """Return whether a value is a number above 0, up to `at_most`."""
    return is_number(value, 0, at_most) and value != 0


def is_whole(value: object, at_least: int, at_most: float = math.inf) -> bool:
    """Return whether a value is an int within its bounds; the float 5.0 is not."""
    return isinstance(value, int) and is_number(value, at_least, at_most)


def is_text(value: object, longest: int = LONGEST_NAME) -> bool:
    """Return whether a value is text of at most `longest` bytes in UTF-8, by default AMQP's 255 for names."""
    try:
        return isinstance(value, str) and len(value.encode()) <= longest
    except UnicodeEncodeError:
        return False


def is_name(value: object) -> bool:
    """Return whether a value is text that AMQP allows as a name, and not empty."""
    return is_text(value) and value != ""


def is_tuple_of(*checks: Check) -> Check:
    """Return a check that allows a tuple with one item for each of `checks`, each allowed by its check."""

    def check(value: Any) -> bool:
        is_tuple = isinstance(value, tuple) and len(value) == len(checks)
        return is_tuple and all(allows(item) for allows, item in zip(checks, value, strict=True))

    return check


def is_all(allows: Check) -> Check:
    """Return a check that allows a tuple of any length whose items are all allowed."""
    return lambda value: isinstance(value, tuple) and all(map(allows, value))


def is_none_or(allows: Check) -> Check:
    """Return a check that allows None and every value that another check allows."""
    return lambda value: value is None or allows(value)


def as_tuple(value: Any) -> Any:
    """Return a list as a tuple, recursively, so that it can be hashed; any other value is unchanged."""
    return tuple(as_tuple(item) for item in value) if isinstance(value, list | tuple) else value
