"""What single attributes of producers and consumers may be."""

from __future__ import annotations

from qflow.workload.checks import is_number, is_positive, is_whole
from qflow.workload.network import Network

SERVICES = ("exp", "const")
LARGEST_PRIORITY = 9
"""AMQP knows ten priorities; the broker would take any byte (QT-04)."""


def one_of(choices: tuple[str, ...]) -> str:
    """Name choices, as a sentence does."""
    return " or ".join(map(repr, choices))


def is_tuple(value: object, length: int) -> bool:
    """Return whether a value is a tuple of so many items."""
    return isinstance(value, tuple) and len(value) == length


def is_size(value: object) -> bool:
    """Return whether a value is a number of bytes, or mu and sigma of one."""
    if isinstance(value, tuple):
        return len(value) == 2 and is_number(value[0]) and is_number(value[1], 0)
    return is_whole(value, 0)


def is_burst(value: object) -> bool:
    """Return whether a value is seconds on and seconds off."""
    return isinstance(value, tuple) and len(value) == 2 and is_positive(value[0]) and is_number(value[1], 0)


def is_groups(value: object) -> bool:
    """Return whether a value is a number of groups and a skew."""
    return isinstance(value, tuple) and len(value) == 2 and is_whole(value[0], 1) and is_positive(value[1])


def is_network(value: object) -> bool:
    """Return whether a value is a network, or none."""
    return value is None or isinstance(value, Network)


def is_recorded(value: object) -> bool:
    """Return whether a value is a recorded message: due time, bytes, group."""
    if not isinstance(value, tuple) or len(value) != 3:
        return False
    return is_number(value[0], 0) and is_whole(value[1], 0) and isinstance(value[2], str)


def is_priority(value: object) -> bool:
    """Return whether a value is a priority, or tells where one comes from."""
    return value is None or value == "group" or is_whole(value, 0, LARGEST_PRIORITY)


def is_service(value: object) -> bool:
    """Return whether a value tells how long a consumer needs."""
    if isinstance(value, tuple) and len(value) == 2 and value[0] == "recorded":
        return is_tuple(value[1], len(value[1])) and value[1] != () and all(map(is_positive, value[1]))
    return isinstance(value, tuple) and len(value) == 2 and value[0] in SERVICES and is_positive(value[1])


def is_spell(value: object) -> bool:
    """Return whether a value is a spell of slowness: from, to, factor."""
    if not isinstance(value, tuple) or len(value) != 3 or not all(is_number(part, 0) for part in value):
        return False
    return bool(value[0] < value[1] and value[2] > 0)
