"""Where qpidd reads its options from: command line, environment, configuration file (rule book 8.1).

Reading only: what a value means for the broker is said in :mod:`qflow.broker.options`.  The words
of the refusals are those of ``Options.cpp`` and of the option parser it uses, Boost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

from qflow.broker.errors import StartupError

COMMAND_LINE, ENVIRONMENT = "command line options", "environment variables"
PREFIX = "QPID_"

DIALS = ("flow-control", "completions", "limit-policies", "message-size", "wake-up")
"""Options of this model that qpidd does not have."""

MODELLED = (
    "default-queue-limit",
    "default-flow-stop-threshold",
    "default-flow-resume-threshold",
    "default-event-threshold-ratio",
    "default-message-group",
    "enable-timestamp",
    "queue-purge-interval",
    "max-purge-batch",
    *DIALS,
)
"""Options that have an effect here."""

# fmt: off
_SWITCHES = (
    "help", "version", "no-data-dir", "tcp-nodelay", "require-encryption", "no-module-dir", "daemon", "check",
    "quit", "trace",
)
_REPEATABLE = ("interface", "listen-disable", "protocols", "load-module", "log-enable", "log-disable")
_VALUES = (
    "auth", "realm", "port", "worker-threads", "connection-backlog", "max-negotiate-time",
    "dtx-default-timeout", "dtx-max-timeout", "session-max-unacked", "mgmt-enable", "mgmt-publish",
    "mgmt-pub-interval", "mgmt-qmf1", "mgmt-qmf2", "data-dir", "paging-dir", "sasl-service-name",
    "sasl-config", "known-hosts-url", "link-maintenance-interval", "link-heartbeat-interval",
    "federation-tag", "config", "client-config", "module-dir", "transport", "pid-dir", "wait",
    "log-time", "log-level", "log-source", "log-thread", "log-function", "log-hires-timestamp",
    "log-category", "log-prefix", "log-to-stderr", "log-to-stdout", "log-to-file", "log-to-syslog",
    "syslog-name", "syslog-facility", "acl-file", "store-dir", "ssl-port", "ssl-cert-db", "ssl-cert-name",
    "ssl-cert-password-file", "ssl-require-client-authentication", "ha-cluster", "ha-brokers-url",
    "ha-public-url", "ha-replicate", "ha-queue-replication",
)
_LETTERS = {
    "p": "port", "m": "mgmt-enable", "d": "daemon", "w": "wait", "c": "check", "q": "quit",
    "h": "help", "v": "version", "t": "trace",
}
# fmt: on
NOT_MODELLED = frozenset([*_SWITCHES, *_REPEATABLE, *_VALUES])
"""Options of qpidd and the modules shipped with it that change nothing here: accepted, and told."""

_KNOWN = (*MODELLED, *_SWITCHES, *_REPEATABLE, *_VALUES)


@dataclass(frozen=True, slots=True)
class Given:
    """One option as it was given.

    Attributes
    ----------
    name : str
        Its full name, without dashes.
    text : str
        Its value, not yet converted.
    source : str
        Where it came from, as qpidd's refusals name the place.
    spelling : str
        How a refusal names the option: with dashes only if it was on the command line.
    """

    name: str
    text: str
    source: str
    spelling: str

    def refuse(self, reason: str = "") -> NoReturn:
        """Say that the value does not fit the option.

        Raises
        ------
        StartupError
            Always, in qpidd's words, followed by ``reason``.
        """
        raise StartupError(
            f"Error in {self.source}: the argument ('{self.text}') for option '{self.spelling}' is invalid"
            f"{reason}"
        )


def read_options(
    arguments: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
    lines: Iterable[str] = (),
    file: str = "qpidd.conf",
    check: Callable[[Given], object] = lambda given: None,
) -> dict[str, Given]:
    """Read all three places; of an option given in several, the first place in this order wins.

    Parameters
    ----------
    arguments : iterable of str
        As on qpidd's command line: ``--name value``, ``--name=value``, or the start of a name if no
        other option starts like it.
    environment : mapping of str to str, or None
        ``QPID_<NAME>`` in capitals, with ``_`` for ``-``.  Variables that name no option are ignored.
    lines : iterable of str
        Of a configuration file: ``name=value`` without a space before the ``=``; empty lines; comments
        from ``#`` on.  Quotes are *not* taken off: they are part of the value.
    file : str
        The file's name, for refusals.
    check : callable
        Looks at each value before the next place is read, so that the first refusal is qpidd's first.

    Returns
    -------
    dict
        The options that were given, by name.

    Raises
    ------
    StartupError
        For an unknown option, a missing value or an option given twice in one place, in qpidd's words.

    Examples
    --------
    >>> given = read_options(["--auth", "no"], {"QPID_AUTH": "yes", "QPID_PORT": "5673"}, ["port=5674"])
    >>> [(option.name, option.text, option.source) for option in given.values()]
    [('auth', 'no', 'command line options'), ('port', '5673', 'environment variables')]
    """
    given: dict[str, Given] = {}
    for place in (
        _from_command_line(list(arguments)),
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
    """Return the variables that start like an option of qpidd but name none: it ignores them silently.

    Examples
    --------
    >>> ignored_variables({"QPID_DEFALT_QUEUE_LIMIT": "1", "QPID_PORT": "1", "HOME": "/"})
    ('QPID_DEFALT_QUEUE_LIMIT',)
    """
    return tuple(name for name in environment if name.startswith(PREFIX) and name not in _VARIABLES)


def _from_command_line(rest: list[str]) -> Iterator[Given]:
    while rest:
        token = rest.pop(0)
        flag, equals, value = token.partition("=")
        name = _find(flag)
        if name is None:
            raise StartupError(f"Error in {COMMAND_LINE}: unrecognised option '{flag}'")
        spelling = f"--{name}"
        if equals and not value:
            raise StartupError(
                f"Error in {COMMAND_LINE}: the argument for option '{spelling}' should follow immediately "
                "after the equal sign"
            )
        if not equals and name in _SWITCHES:
            value = "yes"
        elif not equals:
            if not rest or (rest[0].startswith("-") and _find(rest[0].partition("=")[0])):
                raise StartupError(
                    f"Error in {COMMAND_LINE}: the required argument for option '{spelling}' is missing"
                )
            value = rest.pop(0)
        yield Given(name, value, COMMAND_LINE, spelling)


def _find(flag: str) -> str | None:
    """Return the option that a word names, perhaps by its start; None if it names none."""
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


_VARIABLES = {PREFIX + name.upper().replace("-", "_"): name for name in _KNOWN}


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
            raise StartupError(f"Error in {source}: Bad argument: |{text}|")
        yield Given(name, value.partition("#")[0].strip(), source, name)
