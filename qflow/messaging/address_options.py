"""Which options an address may have, and with which values (CF-14)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from qflow.messaging.address import Options

Check = Callable[[object], str | None]
"""Looks at a value; returns what is wrong with it, or None."""


def one_of(*allowed: str) -> Check:
    """Allow these words."""

    def check(value: object) -> str | None:
        return None if value in allowed else f"{value} not in {allowed}"

    return check


def of_type(*allowed: type) -> Check:
    """Allow values of these types."""

    def check(value: object) -> str | None:
        if isinstance(value, allowed):
            return None
        names = ", ".join(kind.__name__ for kind in allowed)
        return f"{value} is not a {names}" if len(allowed) == 1 else f"{value} is not one of: {names}"

    return check


def a_map(entries: Mapping[str, Check], any_other: bool = False) -> Check:
    """Allow a map with these keys, each absent, None or right; others only if ``any_other``."""

    def check(value: object) -> str | None:
        if not isinstance(value, dict):
            return f"{value} is not a map"
        errors: list[str] = []
        for key, check_entry in entries.items():
            error = None if value.get(key) is None else check_entry(value[key])
            if error:
                errors.append(f"{key}: {error}")
        if not any_other:
            errors += [f"{key}: illegal key" for key in value if key not in entries]
        return ", ".join(errors) or None

    return check


def a_list(check_item: Check) -> Check:
    """Allow a list of such items."""

    def check(value: object) -> str | None:
        if not isinstance(value, list):
            return f"{value} is not a list"
        return next((error for error in map(check_item, value) if error), None)

    return check


ANYTHING = a_map({}, any_other=True)
POLICY = one_of("always", "sender", "receiver", "never")
BINDINGS = a_list(
    a_map({"exchange": of_type(str), "queue": of_type(str), "key": of_type(str), "arguments": ANYTHING})
)
_COMMON: dict[str, Check] = {
    "create": POLICY,
    "delete": POLICY,
    "assert": POLICY,
    "node": a_map(
        {
            "type": one_of("queue", "topic"),
            "durable": of_type(bool),
            "x-declare": ANYTHING,
            "x-bindings": BINDINGS,
        }
    ),
    "link": a_map(
        {
            "name": of_type(str),
            "durable": of_type(bool),
            "reliability": one_of("unreliable", "at-most-once", "at-least-once", "exactly-once"),
            "timeout": of_type(int),
            "selector": of_type(str),
            "x-declare": ANYTHING,
            "x-bindings": BINDINGS,
            "x-subscribe": ANYTHING,
        }
    ),
}
_RECEIVER = a_map({**_COMMON, "mode": one_of("browse", "consume")})
_SENDER = a_map(_COMMON)


def find_error(options: Options, role: str) -> str | None:
    """Return what is wrong with the options of an address, or None.

    Parameters
    ----------
    options : dict
        As parsed.
    role : {"sender", "receiver"}
        Only receivers have a mode.

    Examples
    --------
    >>> find_error({"create": "asdf"}, "sender")
    "create: asdf not in ('always', 'sender', 'receiver', 'never')"
    >>> find_error({"mode": "browse"}, "sender")
    'mode: illegal key'
    """
    return (_RECEIVER if role == "receiver" else _SENDER)(options)
