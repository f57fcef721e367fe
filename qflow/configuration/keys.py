"""Which declare arguments the broker reads, asked of the engine itself (CF-01, CF-02)."""

from __future__ import annotations

import difflib
from dataclasses import replace

from qflow.broker.conversions import Argument
from qflow.broker.errors import InvalidConversion
from qflow.broker.history.factory import ARGUMENT
from qflow.broker.settings import QueueSettings
from qflow.configuration.queue_options import OPTIONS, REPLICATE_KEY

PASSED_ON = frozenset([option.key for option in OPTIONS if option.needs_durable] + [REPLICATE_KEY, ARGUMENT])
"""Keys that are not the queue's business but that of a store, of the HA module, or of this model."""

_WELL_KNOWN = (
    "qpid.max_count",
    "qpid.max_size",
    "qpid.policy_type",
    "qpid.flow_stop_count",
    "qpid.flow_resume_count",
    "qpid.flow_stop_size",
    "qpid.flow_resume_size",
    "qpid.group_header_key",
    "qpid.shared_msg_group",
    "qpid.last_value_queue_key",
    "qpid.priorities",
    "qpid.fairshare",
    "qpid.alert_count",
    "qpid.alert_count_up",
    "qpid.alert_count_down",
    "qpid.alert_size",
    "qpid.alert_size_up",
    "qpid.alert_size_down",
    "qpid.browse-only",
    "qpid.queue_msg_sequence",
    "qpid.auto_delete_timeout",
    "qpid.lifetime-policy",
    "no-local",
)


def is_understood(key: str) -> bool:
    """Tell whether a declare argument means anything to the broker; it accepts any other in silence.

    Examples
    --------
    >>> is_understood("qpid.max_count"), is_understood("qpid.max-count"), is_understood("qpid.fairshare-3")
    (True, False, True)
    """
    # No setting is made of a bare object: either it is refused, or its text appears.
    return key in PASSED_ON or _read(key, object()) != QueueSettings()


def reads_same(key: str, one: Argument, other: Argument) -> bool:
    """Tell whether two values of an argument mean the same to the broker.

    Examples
    --------
    >>> reads_same("qpid.max_count", "10", 10), reads_same("qpid.max_count", True, 1)
    (True, False)
    """
    read = _read(key, one)
    return read is not None and read == _read(key, other) and is_understood(key)


def suggestion(key: str) -> str:
    """Return the understood key that looks most like this one, or "".

    Examples
    --------
    >>> suggestion("qpid.max-count"), suggestion("x-mine")
    ('qpid.max_count', '')
    """
    close = difflib.get_close_matches(key, _WELL_KNOWN, 1, 0.8)
    return close[0] if close else ""


def _read(key: str, value: Argument) -> QueueSettings | None:
    try:
        return replace(QueueSettings.from_arguments({key: value}), arguments={})
    except InvalidConversion:
        return None
