"""Broker options: the start options of ``qpidd``, read and validated as by qpidd (FC-10).

:func:`read_options` reads the three places that qpidd reads: the command line, environment variables, and a
configuration file.  :class:`BrokerOptions` has the values, and documents their meanings.  The texts of
refusals are those of ``Options.cpp`` and of its option parser, Boost (rules.md#broker-options).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from operator import index
from typing import NoReturn

from qflow.broker.errors import StartupError
from qflow.broker.message import show

COMMAND_LINE, ENVIRONMENT = "command line options", "environment variables"
_PREFIX = "QPID_"

DIALS = ("flow-control", "completions", "limit-policies", "message-size", "wake-up", "start-time")
"""Options that only this model has, not qpidd."""

# fmt: off
MODULES: dict[str, tuple[str, ...]] = {
    "broker": (
        "session-max-unacked", "auth", "realm", "sasl-service-name", "sasl-config", "require-encryption",
        "max-negotiate-time", "connection-backlog", "worker-threads", "interface", "listen-disable",
        "protocols", "port", "tcp-nodelay", "data-dir", "no-data-dir", "paging-dir", "mgmt-enable",
        "mgmt-publish", "mgmt-qmf1", "mgmt-qmf2", "mgmt-pub-interval", "known-hosts-url",
        "link-maintenance-interval", "link-heartbeat-interval", "dtx-default-timeout", "dtx-max-timeout",
        "federation-tag",
    ),
    "daemon": (
        "config", "client-config", "module-dir", "load-module", "no-module-dir", "daemon", "transport",
        "pid-dir", "pidfile", "close-fd", "wait", "check", "quit", "kill", "socket-fd", "help", "version",
    ),
    "log": (
        "trace", "log-enable", "log-disable", "log-time", "log-level", "log-source", "log-thread",
        "log-function", "log-hires-timestamp", "log-category", "log-prefix", "log-to-stderr", "log-to-stdout",
        "log-to-file", "log-to-syslog", "syslog-name", "syslog-facility",
    ),
    "ACL": (
        "acl-file", "connection-limit-per-user", "connection-limit-per-ip", "max-connections",
        "max-queues-per-user",
    ),
    "AMQP 1.0": (
        "domain", "queue-patterns", "topic-patterns",
    ),
    "HA": (
        "ha-cluster", "ha-queue-replication", "ha-brokers-url", "ha-public-url", "ha-replicate",
        "ha-username", "ha-password", "ha-mechanism", "ha-backup-timeout", "ha-flow-messages",
        "ha-flow-bytes",
    ),
    "store": (
        "store-dir", "truncate", "wcache-page-size", "tpl-wcache-page-size",
    ),
    "linear store": (
        "wcache-num-pages", "tpl-wcache-num-pages", "efp-partition", "efp-file-size",
        "overwrite-before-return", "journal-flush-timeout",
    ),
    "legacy store": (
        "num-jfiles", "jfile-size-pgs", "tpl-num-jfiles", "tpl-jfile-size-pgs",
    ),
    "SSL": (
        "ssl-port", "ssl-require-client-authentication", "ssl-sasl-no-dict", "ssl-use-export-policy",
        "ssl-cert-password-file", "ssl-cert-db", "ssl-cert-name",
    ),
}
"""Options of qpidd 1.40 that have no effect here, by module; "store" has those of both kinds of store."""

_SWITCHES = (
    "help", "version", "no-data-dir", "tcp-nodelay", "require-encryption", "no-module-dir", "daemon", "check",
    "quit", "kill", "trace",
)
_REPEATABLE = (
    "interface", "listen-disable", "protocols", "load-module", "log-enable", "log-disable", "queue-patterns",
    "topic-patterns",
)
_YES_OR_NO = (
    "auth", "ha-cluster", "ha-queue-replication", "truncate", "log-time", "log-level", "log-source",
    "log-thread", "log-function", "log-hires-timestamp", "log-category",
)
_LETTERS = {
    "p": "port", "m": "mgmt-enable", "d": "daemon", "w": "wait", "c": "check", "q": "quit",
    "h": "help", "v": "version", "t": "trace",
}
_TEXTS = frozenset((
    *_REPEATABLE, "default-message-group", "realm", "data-dir", "paging-dir", "sasl-service-name",
    "sasl-config", "known-hosts-url", "federation-tag", "config", "client-config", "module-dir", "transport",
    "pid-dir", "log-prefix", "log-to-file", "syslog-name", "syslog-facility", "acl-file", "store-dir",
    "ssl-cert-db", "ssl-cert-name", "ssl-cert-password-file", "ha-brokers-url", "ha-public-url",
))
"""Options whose value is a text, so that it may look like an option on the command line (RF-57)."""
# fmt: on
NOT_MODELLED = frozenset(name for names in MODULES.values() for name in names)
"""All options of qpidd and its modules that have no effect here, which are accepted and reported."""


@dataclass(frozen=True, slots=True)
class Given:
    """An option that was given: its full name, its text, and its source and spelling for error messages."""

    name: str
    text: str
    source: str
    spelling: str

    def refuse(self, reason: str = "") -> NoReturn:
        """Raise StartupError with qpidd's text for an invalid value, followed by ``reason``."""
        shown = f" ('{_show_bytes(self.text)}')" if self.text else ""
        raise StartupError(
            f"Error in {self.source}: the argument{shown} for option '{self.spelling}' is invalid{reason}"
        )


def read_options(
    arguments: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
    lines: Iterable[str] = (),
    file: str = "qpidd.conf",
    check: Callable[[Given], object] = lambda given: None,
) -> dict[str, Given]:
    """Return the options given in three places; command line precedes environment precedes file."""
    given: dict[str, Given] = {}
    for place in (
        _from_command_line(list(arguments), []),
        _from_environment(environment or {}),
        _from_lines(lines, f"configuration file {file}"),
    ):
        here: dict[str, Given] = {}
        for option in place:
            if option.name in here and option.name not in _REPEATABLE:
                raise StartupError(
                    f"Error in {option.source}: option '{option.spelling}' cannot be specified more than once"
                )
            here[option.name] = option
        for option in here.values():
            check(option)
            given.setdefault(option.name, option)
    return given


def ignored_variables(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that begin with QPID_ but name no option, which qpidd ignores silently."""
    return tuple(name for name in environment if name.startswith(_PREFIX) and name not in _VARIABLES)


def ignored_words(arguments: Iterable[str]) -> tuple[str, ...]:
    """Return the words that are neither an option nor a value, which qpidd ignores (RF-47)."""
    ignored: list[str] = []
    # Only the ignored words are of interest here.
    list(_from_command_line(list(arguments), ignored))
    return tuple(ignored)


def _from_command_line(rest: list[str], ignored: list[str]) -> Iterator[Given]:
    while rest:
        token = rest.pop(0)
        if token == "--":
            # "--" ends the options: the words after it are ignored (RF-57).
            ignored += rest
            return
        if not token.startswith("-") or token == "-" or token.startswith("--="):
            ignored.append(token)
            continue
        flag, equals, value = token.partition("=")
        name = _find(flag)
        if name is None:
            raise StartupError(f"Error in {COMMAND_LINE}: unrecognised option '{_show_bytes(flag)}'")
        spelling = f"--{name}"
        if equals and not value:
            raise StartupError(
                f"Error in {COMMAND_LINE}: the argument for option '{spelling}' should follow immediately "
                "after the equal sign"
            )
        if not equals and name in _SWITCHES:
            value = "yes"
        elif not equals:
            is_option = bool(rest) and rest[0].startswith("-") and _find(rest[0].partition("=")[0])
            if not rest or (is_option and name not in _TEXTS):
                raise StartupError(
                    f"Error in {COMMAND_LINE}: the required argument for option '{spelling}' is missing"
                )
            value = rest.pop(0)
        yield Given(name, value, COMMAND_LINE, spelling)


def _show_bytes(text: str) -> str:
    """Return a text as in qpidd's log, with bytes that are not ASCII in hexadecimal (RF-57)."""
    encoded = text.encode("utf-8", "surrogateescape")
    return "".join([chr(byte) if byte < 0x80 else f"\\x{byte:02X}" for byte in encoded])


def _find(flag: str) -> str | None:
    """Return the name of the option that a word spells or abbreviates, or None for another word."""
    if not flag.startswith("--"):
        return _LETTERS.get(flag[1:]) if flag.startswith("-") else None
    start = flag[2:]
    if start in _KNOWN:
        return start
    found = sorted(name for name in _KNOWN if start and name.startswith(start))
    if len(found) > 1:
        shown = [f"'--{name}'" for name in found]
        raise StartupError(
            f"Error in {COMMAND_LINE}: option '{flag}' is ambiguous and matches "
            f"{', '.join(shown[:-1])}, and {shown[-1]}"
        )
    return found[0] if found else None


def _from_environment(environment: Mapping[str, str]) -> Iterator[Given]:
    for variable, value in environment.items():
        name = _VARIABLES.get(variable)
        if name is not None:
            yield Given(name, value, ENVIRONMENT, name)


def _from_lines(lines: Iterable[str], source: str) -> Iterator[Given]:
    for line in lines:
        text = line.rstrip("\r\n")
        if not text.strip(" \t") or text.lstrip(" \t").startswith("#"):
            continue
        name, equals, value = text.partition("=")
        if not equals or name not in _KNOWN:
            raise StartupError(f"Error in {source}: Bad argument: |{_show_bytes(text)}|")
        yield Given(name, value.partition("#")[0].strip(), source, name)


_UINT16 = 1 << 16
UINT32 = 1 << 32
UINT64 = 1 << 64
FLOW_CONTROLS = ("shipped", "pre-feature", "overflow-list", "watermark", "java")
_CHOICES = {
    "flow_control": FLOW_CONTROLS,
    "completions": ("any-order", "in-order"),
    "limit_policies": ("current", "historic"),
    "message_size": ("encoded", "content"),
    "wake_up": ("faithful", "eager"),
}


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """The start options of a broker, for flow control, limits, groups and alerts.

    Parameters:
        default_queue_limit: The limit in bytes of a queue that declares no ``qpid.max_size``; 0 means no
            limit (LP-01).
        default_flow_stop_threshold, default_flow_resume_threshold: The percentages of a queue's limits at
            which flow control turns ON and OFF (FC-02); if both are 0 there are no default thresholds
            (FC-10).
        default_event_threshold_ratio: The percentage of a declared limit at which an alert is raised (QT-11).
        default_message_group: The group of messages that name no group (MG-05).
        enable_timestamp: Whether each message gets a timestamp on arrival, which adds 8 bytes (DQ-05).
        queue_purge_interval: Seconds, to the millisecond, between removals of expired messages from all
            queues (QT-07); 0 or a negative number turns the removal off (RF-47).
        max_purge_batch: The largest number of expired messages that are removed from a queue at once; 0 means
            no limit.
        flow_control: The kind of flow control: ``shipped``, or an alternative of QPID-2935: ``pre-feature``,
            ``overflow-list``, ``watermark``, ``java`` (rules.md#alt-design-alternatives).
        completions ({"any-order", "in-order"}): Whether a later transfer may complete before an earlier one,
            which it could not before flow control was introduced (CM-04).
        limit_policies ({"current", "historic"}): Whether the policy ``ring_strict`` has an effect, as it had
            until 2012 (LP-19).
        message_size ({"encoded", "content"}): The bytes that count: header and content as in 1.40 (DQ-05), or
            only the content as in 0.10 (DQ-09).
        wake_up ({"faithful", "eager"}): Whether idle consumers stay asleep when an accept frees a group, as
            in the real broker (MG-13), or one of them is woken.
        start_time: The start of the broker in seconds since 1970, from which times in messages and selectors
            are computed (RF-46), as the broker's own time begins at 0.  By default 1 January 2026.

    Raises:
        StartupError: If a value is not allowed, such as a ratio above 100 or a resume threshold above the
            stop threshold; the text is that of qpidd where it has one.

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
    queue_purge_interval: float = 600
    max_purge_batch: int = 1000
    flow_control: str = "shipped"
    completions: str = "any-order"
    limit_policies: str = "current"
    message_size: str = "encoded"
    wake_up: str = "faithful"
    start_time: int = 1_767_225_600

    def __post_init__(self) -> None:
        for field in fields(self):
            value = _check_type(field.name, getattr(self, field.name), field.default)
            object.__setattr__(self, field.name, value)
        stop, resume = self.default_flow_stop_threshold, self.default_flow_resume_threshold
        ratios = f"flowStopRatio={stop} flowResumeRatio={resume}"
        if not (0 <= stop <= 100 and 0 <= resume <= 100):
            raise StartupError(f"Default queue flow ratios must be between 0 and 100, inclusive: {ratios}")
        if resume > stop:
            raise StartupError(f"Default queue flow stop ratio must be >= flow resume ratio: {ratios}")
        for name, allowed in _CHOICES.items():
            value = getattr(self, name)
            if value not in allowed:
                raise StartupError(f"{name}: got {show(value)}, allowed are {', '.join(map(repr, allowed))}")

    @property
    def purge_interval_us(self) -> int:
        """Microseconds between two removals of expired messages, or 0 for no removals."""
        return max(0, round(self.queue_purge_interval * 1000)) * 1000

    @classmethod
    def parse(
        cls,
        arguments: Iterable[str] = (),
        environment: Mapping[str, str] | None = None,
        lines: Iterable[str] = (),
        file: str = "qpidd.conf",
    ) -> BrokerOptions:
        """Return the options that qpidd would read; command line precedes environment precedes file.

        Parameters:
            arguments: The words of the command line after the name of the program.
            environment: The environment variables, of which the ones with the prefix QPID_ are read.
            lines: The lines of the configuration file.
            file: The name of the configuration file, for error messages.

        Raises:
            StartupError: If qpidd would refuse to start; the text is that of qpidd.

        >>> BrokerOptions.parse([], {"QPID_DEFAULT_QUEUE_LIMIT": "2"}, ["default-queue-limit=3"]) == (
        ...     BrokerOptions(default_queue_limit=2))
        True
        """
        return cls.of_given(read_options(arguments, environment, lines, file, check=convert))

    @classmethod
    def of_given(cls, given: Mapping[str, Given]) -> BrokerOptions:
        """Return the options in the result of :func:`~qflow.broker.options.read_options`."""
        values = {name.replace("-", "_"): convert(given[name]) for name in MODELLED if name in given}
        return cls(**values)  # type: ignore[arg-type]


MODELLED = tuple(field.name.replace("_", "-") for field in fields(BrokerOptions))
"""The options that have an effect here, in qpidd's spelling."""

_KNOWN = NOT_MODELLED.union(MODELLED)
_VARIABLES = {_PREFIX + name.upper().replace("-", "_"): name for name in _KNOWN}


def convert(given: Given) -> object:
    """Return the value of an option, or its text if it has no effect here; raise StartupError if invalid."""
    read = _CONVERSIONS.get(given.name)
    return given.text if read is None else read(given)


def _read_flag(given: Given) -> bool:
    is_yes = given.text.lower() in ("yes", "true", "on", "1", "")
    if not is_yes and given.text.lower() not in ("no", "false", "off", "0"):
        given.refuse(". Valid choices are 'on|off', 'yes|no', '1|0' and 'true|false'")
    return is_yes


def _to_unsigned(limit: int) -> Callable[[Given], int]:
    """Return a converter to an unsigned number below `limit`; a negative number wraps, as in C++."""
    # The recorded broker starts with a queue limit of -5.

    def conversion(given: Given) -> int:
        if not re.fullmatch(r"[+-]?\d+", given.text, re.ASCII) or abs(int(given.text)) >= limit:
            given.refuse()
        return int(given.text) % limit

    return conversion


def _read_seconds(given: Given) -> float:
    """Return a duration in seconds from a number and an optional unit s, ms, us or ns (RF-47, RF-57)."""
    match = _SECONDS.fullmatch(given.text)
    if match is None:
        given.refuse()
    digits = match[1]
    seconds = float.fromhex(digits) if "x" in digits.lower() else float(digits)
    milliseconds = seconds * {"ms": 1, "us": 1e-3, "ns": 1e-6}.get(match[2], 1e3)
    if not abs(milliseconds) <= _LONGEST:
        # The real broker's timer raises an exception for such a duration, which is not caught.
        given.refuse(": it ends the real broker by an uncaught exception, what(): Invalid argument")
    whole = round(milliseconds)
    if abs(milliseconds - whole) > 1e-6:
        given.refuse(": this model of the broker counts whole milliseconds here")
    return whole / 1000 if whole % 1000 else whole // 1000


_SECONDS = re.compile(
    r"([+-]?(?:0[xX][\da-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|nan|inf(?:inity)?))(s|ms|us|ns)?",
    re.ASCII | re.IGNORECASE,
)
_LONGEST = (1 << 63) / 1e6
"""The largest number of milliseconds that fits the broker's time, which counts nanoseconds in 64 bits."""


_CONVERSIONS: dict[str, Callable[[Given], object]] = {
    "default-queue-limit": _to_unsigned(UINT32),
    "default-flow-stop-threshold": _to_unsigned(UINT32),
    "default-flow-resume-threshold": _to_unsigned(UINT32),
    "default-event-threshold-ratio": _to_unsigned(_UINT16),
    "enable-timestamp": _read_flag,
    "queue-purge-interval": _read_seconds,
    "max-purge-batch": _to_unsigned(UINT32),
    "start-time": _to_unsigned(UINT32),
    **dict.fromkeys(_YES_OR_NO, _read_flag),
}


def _check_type(name: str, value: object, default: object) -> object:
    """Return a value in the type of its default, converted if necessary; raise StartupError if invalid."""
    if isinstance(default, str) and isinstance(value, str):
        value = str.__str__(value)
    elif type(default) is int and not isinstance(value, bool):
        with suppress(TypeError):
            value = index(value)  # type: ignore[arg-type]
    if name == "queue_purge_interval":
        if type(value) is int:
            return value
        if type(value) is float and math.isfinite(value):
            # 5.0 and 5 must give the same state.
            return int(value) if value.is_integer() else value
    if type(value) is not type(default):
        raise StartupError(f"{name}: got {show(value)}, allowed is a value like {default!r}")
    if isinstance(value, int) and value < 0 and not name.startswith("default_flow"):
        raise StartupError(f"{name}: got {show(value)}, allowed are whole numbers from 0")
    return value
