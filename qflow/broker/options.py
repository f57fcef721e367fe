"""BrokerOptions: what ``qpidd`` is started with, checked the way it checks (FC-10, rule book 8.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields

from qflow.broker.errors import StartupError

UINT32 = 1 << 32


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """The broker-wide settings that flow control, limits, groups and alerts look at.

    Parameters
    ----------
    default_queue_limit : int
        Maximum bytes of a queue which declares no ``qpid.max_size``; 0 means none (LP-01).
    default_flow_stop_threshold, default_flow_resume_threshold : int
        Percent of a queue's limits at which flow control starts and ends (FC-02); both 0 turn
        the defaults off (FC-10).
    default_event_threshold_ratio : int
        Percent of a declared limit at which an alert is raised (QT-11).
    default_message_group : str
        Group of messages that name none (MG-05).
    enable_timestamp : bool
        Stamp arrivals; adds 8 bytes to each message (DQ-05).
    queue_purge_interval : int
        Seconds between runs of the expiry cleaner (QT-07); 0 turns it off.
    message_size : {"encoded", "content"}
        What a byte is: header and content as in 1.40 (DQ-05), or content only as in 0.10 (DQ-09).
    wake_up : {"faithful", "eager"}
        Whether freeing a group by accept leaves idle consumers asleep, as the real broker does
        (MG-13), or wakes one.

    Raises
    ------
    StartupError
        If a ratio is over 100, or resume is above stop; the text is qpidd's.

    Examples
    --------
    >>> BrokerOptions(default_flow_stop_threshold=90).default_flow_resume_threshold
    70
    >>> BrokerOptions(default_flow_stop_threshold=60)
    Traceback (most recent call last):
        ...
    qflow.broker.errors.StartupError: Default queue flow stop ratio must be >= flow resume ratio: \
flowStopRatio=60 flowResumeRatio=70
    """

    default_queue_limit: int = 104_857_600
    default_flow_stop_threshold: int = 80
    default_flow_resume_threshold: int = 70
    default_event_threshold_ratio: int = 80
    default_message_group: str = "qpid.no-group"
    enable_timestamp: bool = False
    queue_purge_interval: int = 600
    max_purge_batch: int = 1000
    message_size: str = "encoded"
    wake_up: str = "faithful"

    def __post_init__(self) -> None:
        stop, resume = self.default_flow_stop_threshold, self.default_flow_resume_threshold
        ratios = f"flowStopRatio={stop} flowResumeRatio={resume}"
        if not (0 <= stop <= 100 and 0 <= resume <= 100):
            raise StartupError(f"Default queue flow ratios must be between 0 and 100, inclusive: {ratios}")
        if resume > stop:
            raise StartupError(f"Default queue flow stop ratio must be >= flow resume ratio: {ratios}")
        _one_of("message_size", self.message_size, ("encoded", "content"))
        _one_of("wake_up", self.wake_up, ("faithful", "eager"))

    @classmethod
    def parse(cls, arguments: Iterable[str]) -> BrokerOptions:
        """Read options in qpidd's own spelling, ``--name value`` or ``--name=value``.

        Parameters
        ----------
        arguments : iterable of str
            As on qpidd's command line.

        Raises
        ------
        StartupError
            For an unknown option, a missing or a bad value, with qpidd's words.

        Examples
        --------
        >>> BrokerOptions.parse(["--default-queue-limit=10000"]).default_queue_limit
        10000
        >>> BrokerOptions.parse(["--default-msg-group", "none"])
        Traceback (most recent call last):
            ...
        qflow.broker.errors.StartupError: Error in command line options: unrecognised option \
'--default-msg-group'
        """
        known = {field.name.replace("_", "-"): field for field in fields(cls)}
        values: dict[str, object] = {}
        rest = list(arguments)
        while rest:
            flag, equals, value = rest.pop(0).partition("=")
            field = known.get(flag.removeprefix("--"))
            if field is None or not flag.startswith("--"):
                raise StartupError(f"Error in command line options: unrecognised option '{flag}'")
            if not equals:
                if not rest:
                    raise StartupError(
                        f"Error in command line options: the required argument for option '{flag}' is missing"
                    )
                value = rest.pop(0)
            values[field.name] = _convert(flag, value, field.default)
        return cls(**values)  # type: ignore[arg-type]


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise StartupError(f"{name}: got {value!r}, allowed are {', '.join(map(repr, allowed))}")


def _convert(flag: str, value: str, default: object) -> object:
    invalid = StartupError(
        f"Error in command line options: the argument ('{value}') for option '{flag}' is invalid"
    )
    if isinstance(default, bool):
        if value.lower() in ("yes", "true", "on", "1"):
            return True
        if value.lower() in ("no", "false", "off", "0"):
            return False
        raise invalid
    if isinstance(default, int):
        if not re.fullmatch(r"[+-]?\d+", value) or abs(int(value)) >= UINT32:
            raise invalid
        return int(value) % UINT32
    return value
