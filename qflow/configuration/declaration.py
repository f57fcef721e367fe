"""Declaration: one queue as somebody asks for it, whatever the spelling."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from qflow.broker.errors import InvalidConversion
from qflow.broker.settings import Argument, to_bool
from qflow.kit import RefusalError

PROPERTIES = ("durable", "auto-delete", "alternate-exchange")
"""Keys that management takes out of the map; everything else is a declare argument (CF-07)."""


class ConfigurationError(RefusalError):
    """A configuration that cannot be read or written; the text says what is wrong and what is allowed."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something worth knowing about a configuration.

    Attributes
    ----------
    kind : {"warning", "note", "hint"}
        A warning: it does not do what it seems to.  A note: good to know.  A hint: what to do.
    text : str
        What.
    rules : tuple of str
        Ids of the rules that say so.
    """

    kind: str
    text: str
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Declaration:
    """A queue's name, its declare arguments and its properties.

    Parameters
    ----------
    name : str
        Not empty: the real broker creates a queue named "" that no client can use (CF-06).
    arguments : mapping of str to value
        Of ``queue.declare``.
    durable, auto_delete, exclusive : bool
        Its properties.
    alternate_exchange : str
        Where its dropped messages go; "" for none.
    remarks : tuple of Remark
        What happened while it was read; no part of its identity.

    Raises
    ------
    ConfigurationError
        For an empty name.

    Examples
    --------
    >>> Declaration("orders", {"qpid.max_count": 10}) == Declaration.of_json(
    ...     "orders", '{"qpid.max_count": 10}')
    True
    """

    name: str
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    durable: bool = False
    auto_delete: bool = False
    exclusive: bool = False
    alternate_exchange: str = ""
    remarks: tuple[Remark, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if not self.name:
            raise ConfigurationError(
                "a queue needs a name; the broker would create one named '' that no client can use (CF-06)"
            )
        object.__setattr__(self, "arguments", MappingProxyType(dict(self.arguments)))

    @classmethod
    def of_properties(
        cls, name: str, properties: Mapping[str, Argument], remarks: tuple[Remark, ...] = ()
    ) -> Declaration:
        """Read the map of a management ``create``, which mixes arguments and properties (CF-07).

        Raises
        ------
        ConfigurationError
            If a property is of the wrong type.
        """
        try:
            return cls(
                name,
                {key: value for key, value in properties.items() if key not in PROPERTIES},
                durable=to_bool(properties.get("durable", False)),
                auto_delete=to_bool(properties.get("auto-delete", False)),
                alternate_exchange=str(properties.get("alternate-exchange", "")),
                remarks=remarks,
            )
        except InvalidConversion as error:
            raise ConfigurationError(f"{', '.join(PROPERTIES[:2])} are yes or no: {error}") from error

    @classmethod
    def of_json(cls, name: str, text: str) -> Declaration:
        """Read declare arguments written as a JSON map.

        Raises
        ------
        ConfigurationError
            If the text is not JSON, or not a map.
        """
        return cls.of_properties(name, read_json_map(text))

    @classmethod
    def of_address(cls, name: str, options: Mapping[str, object]) -> Declaration:
        """Take the queue out of an address's options, as the address parser returns them (CF-14).

        Parameters
        ----------
        name : str
            The address's name.
        options : mapping
            Its options; only ``node`` matters here.

        Raises
        ------
        ConfigurationError
            If the node is not a queue, or a map is missing where one is due.

        Examples
        --------
        >>> node = {"type": "queue", "x-declare": {"arguments": {"qpid.max_count": 10}}}
        >>> Declaration.of_address("orders", {"create": "always", "node": node}).arguments["qpid.max_count"]
        10
        """
        node = _map(options, "node")
        if node.get("type", "queue") != "queue":
            raise ConfigurationError(f"node type: got {node['type']!r}, a queue is due")
        declare = _map(node, "x-declare")
        return cls(
            name,
            {str(key): value for key, value in _map(declare, "arguments").items()},
            durable=bool(node.get("durable", declare.get("durable", False))),
            auto_delete=bool(declare.get("auto-delete", False)),
            exclusive=bool(declare.get("exclusive", False)),
            alternate_exchange=str(declare.get("alternate-exchange", "")),
        )

    def properties(self) -> dict[str, Argument]:
        """Return the map that ``qpid-config`` hands to the management ``create`` (CF-07)."""
        given: dict[str, Argument] = dict(self.arguments)
        if self.durable:
            given["durable"] = 1
        if self.auto_delete:
            given["auto-delete"] = 1
        if self.alternate_exchange:
            given["alternate-exchange"] = self.alternate_exchange
        return given


def read_json_map(text: str) -> dict[str, Argument]:
    """Read a JSON map.

    Raises
    ------
    ConfigurationError
        If the text is not JSON, or not a map.

    Examples
    --------
    >>> read_json_map('{"qpid.max_count": 10}')
    {'qpid.max_count': 10}
    >>> read_json_map("[1]")
    Traceback (most recent call last):
        ...
    qflow.configuration.declaration.ConfigurationError: declare arguments are a JSON map, got a list
    """
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigurationError(
            f"declare arguments are a JSON map, got something else: {error.msg} at line {error.lineno} "
            f"column {error.colno}"
        ) from error
    except (ValueError, RecursionError):
        # A number of thousands of digits, or maps in maps without end: JSON, but none that Python takes.
        raise ConfigurationError("declare arguments are a JSON map, got one too large to be read") from None
    if not isinstance(value, dict):
        raise ConfigurationError(f"declare arguments are a JSON map, got a {type(value).__name__}")
    return value


def _map(options: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = options.get(key, {})
    if not isinstance(value, Mapping):
        raise ConfigurationError(f"{key}: got {value!r}, a map is due")
    return value
