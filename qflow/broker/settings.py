"""Queue settings: the arguments of ``queue.declare``, converted and validated (rules.md#declare-arguments).

Each key requires a type.  The conversions are those of ``qpid::types::Variant``, with the broker's errors
(CF-03): a numeric string is accepted as a number; a float, a boolean, or a negative number where an unsigned
one is required is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from qflow.broker.errors import (
    FramingErrorException,
    InvalidArgumentException,
    InvalidConversion,
    NotImplementedException,
)
from qflow.broker.message import plain_map
from qflow.broker.restorable import Frozen
from qflow.broker.snapshot import Refused

Argument = object
"""A value of an arguments map: None, bool, int, float, str, list or dict."""

_LIMITS = {"uint32": (0, (1 << 32) - 1), "uint64": (0, (1 << 64) - 1), "int64": (-(1 << 63), (1 << 63) - 1)}
# At most 1,000 digits: more than any limit has, and fewer than int() refuses.
_INTEGER = r"[+-]?\d{1,1000}"
_TYPE_NAMES = {type(None): "void", bool: "bool", float: "double", list: "list", dict: "map", str: "string"}


def _to_integer(value: Argument, kind: str) -> int:
    """Convert an argument to ``uint32``, ``uint64`` or ``int64``; raise InvalidConversion if impossible."""
    low, high = _LIMITS[kind]
    if isinstance(value, str):
        # The broker reads a text without its sign first, so it cannot contain the smallest int64 (RF-38).
        if not re.fullmatch(_INTEGER, value, re.ASCII) or not max(low, -high) <= int(value) <= high:
            raise InvalidConversion(f"invalid conversion: Cannot convert {value}")
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidConversion(f"invalid conversion: Cannot convert from {_name_type(value)} to {kind}")
    return value


def to_bool(value: Argument) -> bool:
    """Convert a boolean, None, an integer, or a text (true, false or an integer) to a boolean."""
    if value is None or isinstance(value, int):
        return bool(value)
    if isinstance(value, str):
        if value.lower() in ("true", "false"):
            return value.lower() == "true"
        if re.fullmatch(_INTEGER, value, re.ASCII) and -(1 << 31) <= int(value) < 1 << 31:
            return int(value) != 0
        raise InvalidConversion(f"invalid conversion: Cannot convert {value} to bool")
    raise InvalidConversion(f"invalid conversion: Cannot convert from {_name_type(value)} to bool")


def to_text(value: Argument) -> str:
    """Convert an argument of any type to a string, for keys at which the broker converts any value."""
    return "" if value is None else str(value)


def _to_string(value: Argument) -> str:
    """Return a string argument; raise InvalidConversion for other types, as the broker does for some keys."""
    if not isinstance(value, str):
        raise InvalidConversion(
            "invalid conversion: Variant is not a string; use asString() if conversion is required."
        )
    return value


def _name_type(value: Argument) -> str:
    kind = type(value)
    return "double" if issubclass(kind, float) else _TYPE_NAMES.get(kind, "int64")


_LEGACY_LVQ_KEY = "qpid.LVQ_key"
POLICIES = ("reject", "ring", "self-destruct")
LIFETIMES = ("delete-if-unused", "delete-if-unused-and-empty", "delete-on-close", "manual")


def _uint32(value: Argument) -> int:
    return _to_integer(value, "uint32")


def _uint64(value: Argument) -> int:
    return _to_integer(value, "uint64")


def _int64(value: Argument) -> int:
    return _to_integer(value, "int64")


@dataclass(frozen=True, slots=True)
class QueueSettings(Frozen):
    """The settings that a queue declares; None means *not given*, which differs from 0 (CF-02, LP-04).

    >>> settings = QueueSettings.from_arguments({"qpid.max_count": "1000", "qpid.flow_stop_count": 900})
    >>> settings.max_count, settings.flow_stop_count, settings.flow_resume_count
    (1000, 900, None)
    """

    max_count: int = 0
    max_size: int | None = None
    policy: str = "reject"
    flow_stop_count: int | None = None
    flow_resume_count: int | None = None
    flow_stop_size: int | None = None
    flow_resume_size: int | None = None
    group_header_key: str = ""
    shared_msg_group: bool = False
    group_timestamp: bool = False
    last_value_queue_key: str = ""
    priorities: int = 0
    fairshare: int = 0
    fairshare_levels: tuple[tuple[int, int], ...] = ()
    alert_count_up: int | None = None
    alert_count_down: int = 0
    alert_size_up: int | None = None
    alert_size_down: int = 0
    alert_repeat_gap: int = 60
    browse_only: bool = False
    no_local: bool = False
    filter: str = ""
    trace_id: str = ""
    trace_exclude: str = ""
    queue_msg_sequence: str = ""
    auto_delete_timeout: int = 0
    lifetime_policy: str = ""
    paging: bool = False
    max_pages_loaded: int | None = None
    page_factor: int | None = None
    file_count: int = 0
    file_size: int = 0
    arguments: Mapping[str, Argument] = field(default_factory=dict)

    @classmethod
    def from_arguments(cls, arguments: Mapping[str, Argument] | Refused) -> QueueSettings:
        """Convert a declare's arguments in order of keys; raise 542 for the first invalid one (CF-04)."""
        values: dict[str, object] = {}
        levels: dict[int, int] = {}
        given = plain_map("arguments", arguments)
        for key, value in sorted(given.items()):
            if key in KEYS:
                name, convert = KEYS[key]
                values[name] = convert(value)
            elif key in LEGACY_LVQ_ARGUMENTS:
                values["last_value_queue_key"] = values.get("last_value_queue_key") or _LEGACY_LVQ_KEY
            else:
                level = _read_fairshare_level(key)
                if level is not None:
                    # The value first: if level and value are both invalid, the value is reported (RF-38).
                    limit = _uint32(value)
                    levels[_uint32(level)] = limit
        return cls(fairshare_levels=tuple(sorted(levels.items())), arguments=given, **values)  # type: ignore[arg-type]

    def validate(self) -> None:
        """Raise 542, 540 or 501 for the first invalid combination of settings, as the broker does (MG-01)."""
        for is_wrong, text in self._list_combinations():
            if is_wrong:
                raise InvalidArgumentException(text)
        if self.paging:
            raise NotImplementedException(
                "qpid.paging: all messages stay in memory, so there is nothing to page (QT-19)"
            )
        if self.priorities >= 1 << 31:
            raise FramingErrorException("cannot create std::vector larger than max_size()")

    def _list_combinations(self) -> Iterator[tuple[bool, str]]:
        lvq, group, paging = "qpid.last_value_queue_key", "qpid.group_header_key", "qpid.paging"
        has_lvq, has_groups = bool(self.last_value_queue_key), bool(self.group_header_key)
        has_levels = self.priorities > 0
        # Fair shares count as given even if all their limits are 0.
        is_fair = self.fairshare > 0 or bool(self.fairshare_levels)

        def both(one: str, other: str) -> str:
            return f"Cannot specify {one} and {other} for the same queue"

        def needs(key: str, other: str) -> str:
            return f"Can only specify {key} if {other} is set"

        yield has_lvq and has_levels, both(lvq, "qpid.priorities")
        yield (
            is_fair and not has_levels,
            "Cannot specify fairshare settings when queue is not enabled for priorities",
        )
        yield (
            len(self.fairshare_levels) > self.priorities,
            f"Cannot have fairshare set for priority levels greater than {self.priorities}",
        )
        yield has_lvq and has_groups, both(lvq, group)
        yield has_levels and has_groups, both("qpid.priorities", group)
        yield self.shared_msg_group and not has_groups, needs("qpid.shared_msg_group", group)
        yield self.group_timestamp and not has_groups, needs("qpid.group_timestamp", group)
        yield (
            has_groups and not self.shared_msg_group,
            "Only shared groups are supported at present; "
            "qpid.shared_msg_group is required if qpid.group_header_key is set",
        )
        yield self.paging and has_lvq, both(lvq, paging)
        yield self.paging and has_levels, both("qpid.priorities", paging)
        yield self.paging and has_groups, both(group, paging)
        yield bool(self.max_pages_loaded) and not self.paging, needs("qpid.max_pages_loaded", paging)
        yield bool(self.page_factor) and not self.paging, needs("qpid.page_factor", paging)


KEYS: dict[str, tuple[str, Callable[[Argument], object]]] = {
    "qpid.max_count": ("max_count", _uint32),
    "qpid.max_size": ("max_size", _uint64),
    "qpid.policy_type": ("policy", _to_string),
    "qpid.flow_stop_count": ("flow_stop_count", _uint32),
    "qpid.flow_resume_count": ("flow_resume_count", _uint32),
    "qpid.flow_stop_size": ("flow_stop_size", _uint64),
    "qpid.flow_resume_size": ("flow_resume_size", _uint64),
    "qpid.group_header_key": ("group_header_key", to_text),
    "qpid.shared_msg_group": ("shared_msg_group", to_bool),
    "qpid.group_timestamp": ("group_timestamp", to_bool),
    "qpid.last_value_queue_key": ("last_value_queue_key", to_text),
    "qpid.priorities": ("priorities", _uint32),
    "x-qpid-priorities": ("priorities", _uint32),
    "qpid.fairshare": ("fairshare", _uint32),
    "x-qpid-fairshare": ("fairshare", _uint32),
    "qpid.alert_count": ("alert_count_up", _uint32),
    "qpid.alert_count_up": ("alert_count_up", _uint32),
    "x-qpid-maximum-message-count": ("alert_count_up", _uint32),
    "qpid.alert_count_down": ("alert_count_down", _uint32),
    "qpid.alert_size": ("alert_size_up", _uint64),
    "qpid.alert_size_up": ("alert_size_up", _uint64),
    "x-qpid-maximum-message-size": ("alert_size_up", _uint64),
    "qpid.alert_size_down": ("alert_size_down", _uint64),
    "qpid.alert_repeat_gap": ("alert_repeat_gap", _int64),
    "x-qpid-minimum-alert-repeat-gap": ("alert_repeat_gap", _int64),
    "qpid.browse-only": ("browse_only", to_bool),
    "no-local": ("no_local", to_bool),
    "qpid.filter": ("filter", to_text),
    "qpid.trace.id": ("trace_id", to_text),
    "qpid.trace.exclude": ("trace_exclude", to_text),
    "qpid.queue_msg_sequence": ("queue_msg_sequence", _to_string),
    "qpid.auto_delete_timeout": ("auto_delete_timeout", _uint64),
    "qpid.lifetime-policy": ("lifetime_policy", to_text),
    "qpid.paging": ("paging", to_bool),
    "qpid.max_pages_loaded": ("max_pages_loaded", _uint32),
    "qpid.page_factor": ("page_factor", _uint32),
    "qpid.file_count": ("file_count", _uint64),
    "qpid.file_size": ("file_size", _uint64),
}
"""For each argument the setting that it determines, and the function that converts its value."""
LEGACY_LVQ_ARGUMENTS = ("qpid.last_value_queue", "qpid.last_value_queue_no_browse")


def _read_fairshare_level(key: str) -> str | None:
    for prefix in ("qpid.fairshare", "x-qpid-fairshare"):
        if key.startswith(prefix):
            # Any one character may separate the name from the level.
            return key[len(prefix) + 1 :]
    return None
