"""Terminus: the wishes of a source or a target, and the broker's answer (LNK-14, LNK-17).

A client's attach describes the node at each end of its link: address, capabilities, properties of a node that
is to be made, filters.  Here that becomes the options of the engine's ``link_attach``, and the link that was
made becomes the terminus of the answer.
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

# A descriptor on the wire is a number, as here, or a symbol; the engine knows the symbols only.
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
    """Return a terminus as the options of an attach."""
    # One symbol, or an array of several.
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
    """Return a receiver's source and its settle mode as the options of an attach."""
    source = link.remote_source
    return read_terminus(source) | {
        "filters": {key: [of, plain(value)] for key, (of, value, _) in _read_filters(source.filter).items()},
        "copy": source.distribution_mode == Terminus.DIST_MODE_COPY,
        "settled": link.remote_snd_settle_mode == Link.SND_SETTLED,
        "unsettled": link.remote_snd_settle_mode == Link.SND_UNSETTLED,
        # Either says that the subscription outlives its link.
        "durable": bool(source.durability) or source.expiry_policy == Terminus.EXPIRE_NEVER,
        "timeout": int(source.timeout),
    }


def answer_source(link: Link, made: OutgoingLink) -> None:
    """Write the granted source: also the filters in force, and the distribution mode."""
    answer_terminus(link.source, made)
    granted = made.granted
    if granted is not None and granted.filters:
        asked = _read_filters(link.remote_source.filter)
        in_force = {symbol(key): _filter_in_force(asked.get(key), *by) for key, by in granted.filters.items()}
        link.source.filter.put_object(in_force)
    # The real broker names no mode where the queue is the link's own.
    if not made.own_queue:
        mode = Terminus.DIST_MODE_MOVE if made.acquires else Terminus.DIST_MODE_COPY
        link.source.distribution_mode = mode


def answer_terminus(own: Terminus, made: IncomingLink | OutgoingLink) -> None:
    """Write a granted terminus: the address, capabilities, properties (LNK-17)."""
    granted = made.granted
    if granted is None:
        return
    if granted.address:
        own.address = granted.address
    # One capability goes out as a symbol and several as an array, as the real broker writes them (LNK-17).
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
    """A filter that a client attached with; the descriptor is empty for a plain value."""

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
    """Return a filter in force, as the client sent it or as the broker made it (LNK-14)."""
    if asked is not None and asked.descriptor == descriptor:
        return asked.as_sent
    if asked is not None and not isinstance(asked.as_sent.descriptor, int):
        return Described(symbol(descriptor), value)
    return Described(ulong(next(code for code, name in _FILTERS.items() if name == descriptor)), value)


def _read_entries(data: Data) -> list[tuple[Any, Any]]:
    """Return the entries of a map, or none if the value is of another type."""
    value = value_of(data)
    return list(value.items()) if isinstance(value, dict) else []
