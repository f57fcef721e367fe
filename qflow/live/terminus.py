"""Terminus: the requested properties of a source or a target, and the broker's answer (LNK-14, LNK-17).

A client's attach describes the node at each end of its link: its address, its capabilities, the properties of
a node to be created, and filters.  This module converts them to the options of the engine's ``link_attach``,
and the attached link to the terminus of the answer.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from proton import UNDESCRIBED, Array, Data, Described, Link, Terminus, symbol, ulong

from qflow.broker.links import (
    DIRECT_FILTER,
    HEADERS_FILTER,
    NO_LOCAL_FILTER,
    SELECTOR_FILTER,
    TOPIC_FILTER,
    IncomingLink,
    OutgoingLink,
)
from qflow.live.amqp_frames import plain, value_of

# On the wire a descriptor is one of these numbers or a symbol; the engine uses only the symbols.
_LIFETIMES = {
    0x2B: "amqp:delete-on-close:list",
    0x2C: "amqp:delete-on-no-links:list",
    0x2D: "amqp:delete-on-no-messages:list",
    0x2E: "amqp:delete-on-no-links-or-messages:list",
}
_FILTERS = {
    0x468C00000000: DIRECT_FILTER,
    0x468C00000001: TOPIC_FILTER,
    0x468C00000002: HEADERS_FILTER,
    0x468C00000003: NO_LOCAL_FILTER,
    0x468C00000004: SELECTOR_FILTER,
}


def read_terminus(terminus: Terminus) -> dict[str, Any]:
    """Return a requested terminus as options of ``link_attach``."""
    # The value is one symbol, or an array of several.
    asked = value_of(terminus.capabilities)
    capabilities = plain(asked) if isinstance(asked, Array | list | tuple) else [asked] if asked else []
    properties: dict[str, Any] = {}
    for key, value in _read_entries(terminus.properties):
        properties[str(plain(key))] = _read_lifetime(value) if str(key) == "lifetime-policy" else plain(value)
    return {
        "dynamic": bool(terminus.dynamic),
        "capabilities": [str(one) for one in capabilities],
        "properties": properties,
    }


def read_source(link: Link) -> dict[str, Any]:
    """Return a receiver's requested source and settle mode as options of ``link_attach``."""
    source = link.remote_source
    return read_terminus(source) | {
        "filters": {key: [of, plain(value)] for key, (of, value, _) in _read_filters(source.filter).items()},
        "copy": source.distribution_mode == Terminus.DIST_MODE_COPY,
        "settled": link.remote_snd_settle_mode == Link.SND_SETTLED,
        "unsettled": link.remote_snd_settle_mode == Link.SND_UNSETTLED,
        # Either one means that the subscription outlives its link.
        "durable": bool(source.durability) or source.expiry_policy == Terminus.EXPIRE_NEVER,
        "timeout": int(source.timeout),
    }


def answer_source(link: Link, made: OutgoingLink) -> None:
    """Write the granted source into the answer, with the filters in force and the distribution mode."""
    answer_terminus(link.source, made)
    granted = made.granted
    if granted is not None and granted.filters:
        asked = _read_filters(link.remote_source.filter)
        in_force = {symbol(key): _filter_in_force(asked.get(key), *by) for key, by in granted.filters.items()}
        link.source.filter.put_object(in_force)
    # The real broker states no mode for a queue that belongs to the link.
    if not made.own_queue:
        mode = Terminus.DIST_MODE_MOVE if made.acquires else Terminus.DIST_MODE_COPY
        link.source.distribution_mode = mode


def answer_terminus(own: Terminus, made: IncomingLink | OutgoingLink) -> None:
    """Write the granted address, capabilities and properties into the answer (LNK-17)."""
    granted = made.granted
    if granted is None:
        return
    if granted.address:
        own.address = granted.address
    # The real broker writes one capability as a symbol, and several as an array (LNK-17).
    symbols = [symbol(one) for one in granted.capabilities]
    if len(symbols) == 1:
        own.capabilities.put_object(symbols[0])
    elif symbols:
        own.capabilities.put_object(Array(UNDESCRIBED, Data.SYMBOL, *symbols))
    if granted.properties:
        shown: dict[Any, Any] = {symbol(key): value for key, value in granted.properties.items()}
        policy = shown.get(symbol("lifetime-policy"))
        if policy is not None:
            shown[symbol("lifetime-policy")] = Described(symbol(policy), [])
        own.properties.put_object(shown)


def _read_lifetime(value: Any) -> str:
    descriptor = value.descriptor if isinstance(value, Described) else value
    return _LIFETIMES.get(int(descriptor), "") if isinstance(descriptor, int) else str(descriptor)


class _Filter(NamedTuple):
    """A filter in a client's attach; the descriptor is "" if the value is not described."""

    descriptor: str
    value: Any
    as_sent: Any


def _read_filters(data: Data) -> dict[str, _Filter]:
    """Return a source's filters by name."""
    found: dict[str, _Filter] = {}
    for key, value in _read_entries(data):
        if isinstance(value, Described):
            descriptor = value.descriptor
            name = _FILTERS.get(int(descriptor), "?") if isinstance(descriptor, int) else str(descriptor)
            found[str(key)] = _Filter(name, value.value, value)
        else:
            found[str(key)] = _Filter("", value, value)
    return found


def _filter_in_force(asked: _Filter | None, descriptor: str, value: Any) -> Any:
    """Return the answer's value for a filter in force: the client's own, or the broker's (LNK-14)."""
    if asked is not None and asked.descriptor == descriptor:
        return asked.as_sent
    if asked is not None and not isinstance(asked.as_sent.descriptor, int):
        return Described(symbol(descriptor), value)
    return Described(ulong(next(code for code, name in _FILTERS.items() if name == descriptor)), value)


def _read_entries(data: Data) -> list[tuple[Any, Any]]:
    """Return the entries of a map; an empty list for a value of another type."""
    value = value_of(data)
    return list(value.items()) if isinstance(value, dict) else []
