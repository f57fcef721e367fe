"""Signatures: the parameters of commands and management methods, with the validation of their arguments.

A client's library refuses values that AMQP cannot encode, such as a number for a name or an object in a map.
The model refuses them here, before the command gets a number and before an observer sees it, so that an
invalid call changes nothing.  The check depends on the name of the parameter only, as AMQP uses each name for
one type in all commands.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from qflow.broker.message import delivery_numbers, encodable, flag, integer, map_size, plain_map

_NAMES = "queue exchange alternate_exchange key tag type"
_TEXTS = "address role name body srcQueue destQueue sourceQueue targetQueue connection level"
_FLAGS = (
    "durable auto_delete exclusive passive if_unused if_empty set_redelivered useAltExchange strict sync "
    "transactional delivery_failed undeliverable_here receive"
)
_NUMBERS = "accept_mode acquire_mode flow_mode unit value request qty sequence"
_MAPS = "arguments properties options filter annotations"


class Signature:
    """The parameters of a method without ``self``, and the checks of their arguments."""

    def __init__(self, kind: str, method: Callable[..., Any]) -> None:
        self._kind = kind
        self._signature = inspect.signature(method)
        parameters = list(self._signature.parameters.values())[1:]
        self.names = tuple(parameter.name for parameter in parameters)
        self._positional = sum(parameter.kind != parameter.KEYWORD_ONLY for parameter in parameters)
        self._required = {p.name for p in parameters if p.default is p.empty}
        self._optional = {p.name for p in parameters if p.default is None}
        self._checks = {name: _CHECKS[name] for name in self.names}

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Return a call's arguments by name, as plain copies; raise TypeError or ValueError if invalid."""
        given = dict(zip(self.names, args, strict=False))
        is_plain = len(args) <= self._positional and given.keys().isdisjoint(kwargs)
        given.update(kwargs)
        if not is_plain or not self._required <= given.keys() or not given.keys() <= self._checks.keys():
            # This raises Python's usual TypeError for a call with wrong parameters.
            self._signature.bind(None, *args, **kwargs)
        for name, value in given.items():
            if value is not None or name not in self._optional:
                given[name] = self._checks[name](f"{self._kind}: {name}", value)
        return given


def _check_name(what: str, value: Any) -> str:
    return encodable(what, value, 255)


def _check_map(what: str, value: Any) -> dict[str, Any]:
    entries = plain_map(what, value)
    # The range of a whole number is not checked here, as the broker refuses it in its own words (CF-03).
    map_size(what, {key: 0 if type(item) is int else item for key, item in entries.items()})
    return entries


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(_NAMES.split(), _check_name),
    **dict.fromkeys(_TEXTS.split(), encodable),
    **dict.fromkeys(_FLAGS.split(), flag),
    **dict.fromkeys(_NUMBERS.split(), integer),
    **dict.fromkeys(_MAPS.split(), _check_map),
    "transfers": delivery_numbers,
}
