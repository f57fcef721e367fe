"""What a workload's values may be, and the one sentence that says so when they are not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any


class WorkloadError(ValueError):
    """A workload that cannot be run: which attribute, what is allowed, what was got.

    Examples
    --------
    >>> raise WorkloadError("producer 'p1': rate must be a number above 0, got -3")
    Traceback (most recent call last):
        ...
    qflow.workload.checks.WorkloadError: producer 'p1': rate must be a number above 0, got -3
    """


def require(holds: bool, where: str, attribute: str, value: object, allowed: str) -> None:
    """Refuse a value unless a condition holds.

    Parameters
    ----------
    holds : bool
        The condition.
    where : str
        Whose attribute it is, such as ``producer 'p1'``.
    attribute : str
        Its name, as it stands in a workload file.
    value : object
        What was got.
    allowed : str
        What is allowed, such as ``a number above 0``.

    Raises
    ------
    WorkloadError
        If the condition does not hold.

    Examples
    --------
    >>> require(2 > 0, "producer 'p1'", "rate", 2, "a number above 0")
    """
    if not holds:
        raise WorkloadError(f"{where}: {attribute} must be {allowed}, got {value!r}")


def is_number(value: object, at_least: float = -math.inf, at_most: float = math.inf) -> bool:
    """Return whether a value is a finite number within bounds; True and False are none.

    Examples
    --------
    >>> is_number(3, at_least=3), is_number(True), is_number("3"), is_number(float("nan"))
    (True, False, False, False)
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and at_least <= value <= at_most


def is_positive(value: object, at_most: float = math.inf) -> bool:
    """Return whether a value is a number above 0.

    Examples
    --------
    >>> is_positive(0.5), is_positive(0)
    (True, False)
    """
    return is_number(value, 0, at_most) and value != 0


def is_whole(value: object, at_least: int, at_most: float = math.inf) -> bool:
    """Return whether a value is an integer within bounds.

    Examples
    --------
    >>> is_whole(5, 1), is_whole(0, 1), is_whole(5.0, 1)
    (True, False, False)
    """
    return isinstance(value, int) and is_number(value, at_least, at_most)


def is_name(value: object) -> bool:
    """Return whether a value is text that is not empty.

    Examples
    --------
    >>> is_name("orders"), is_name(""), is_name(7)
    (True, False, False)
    """
    return isinstance(value, str) and value != ""


def as_tuple(value: Any) -> Any:
    """Return a list as a tuple, so that what JSON holds can be frozen; leave all else alone.

    Examples
    --------
    >>> as_tuple(["", "orders"]), as_tuple(100)
    (('', 'orders'), 100)
    """
    return tuple(as_tuple(item) for item in value) if isinstance(value, list | tuple) else value


def require_keys(
    where: str, mapping: object, allowed: Iterable[str], required: Iterable[str]
) -> Mapping[str, Any]:
    """Return a JSON object after a look at its keys.

    Raises
    ------
    WorkloadError
        If it is no object, misses a required key, or has one that is not allowed: a misspelt key
        that is passed over in silence would be a setting that never takes effect.

    Examples
    --------
    >>> require_keys("consumer 1", {"name": "c1", "prefech": 5}, ["name", "prefetch"], ["name"])
    Traceback (most recent call last):
        ...
    qflow.workload.checks.WorkloadError: consumer 1: unknown attribute 'prefech', allowed are name, prefetch
    """
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
