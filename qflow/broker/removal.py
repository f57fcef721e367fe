"""Taking AVAILABLE messages off a queue by hand: purge, reroute, move.

Rules: QT-22, QT-23, RF-11.
"""

from __future__ import annotations

from collections.abc import Mapping

from qflow.broker.errors import ManagementError
from qflow.broker.queue import Queue
from qflow.broker.queued_message import AVAILABLE, QueuedMessage
from qflow.broker.restorable import Restorable
from qflow.broker.settings import to_text
from qflow.broker.stores import QueueCursor
from qflow.broker.transfer import Router, Transfer

EXCEPTION = 7


class MessageFilter(Restorable):
    """Which messages a management method is to touch: all, or those with one header's value.

    Parameters
    ----------
    description : mapping or None
        Empty for all; else ``{"filter_type": "header_match_str", "filter_params": {"header_key":
        …, "header_value": …}}``.

    Raises
    ------
    ManagementError
        Status 7, for any other description.

    Examples
    --------
    >>> MessageFilter({"filter_type": "nonsense"})
    Traceback (most recent call last):
        ...
    qflow.broker.errors.ManagementError: Unrecognized message filter: '{filter_type:nonsense}'
    """

    __slots__ = ("_key", "_value")

    def __init__(self, description: Mapping[str, object] | None) -> None:
        self._key: str | None = None
        self._value = ""
        if not description:
            return
        params = description.get("filter_params")
        is_known = description.get("filter_type") == "header_match_str" and isinstance(params, Mapping)
        if (
            not is_known
            or not isinstance(params, Mapping)
            or not {"header_key", "header_value"} <= set(params)
        ):
            raise ManagementError(EXCEPTION, f"Unrecognized message filter: '{_map_text(description)}'")
        self._key = to_text(params["header_key"])
        self._value = to_text(params["header_value"])

    def matches(self, transfer: Transfer) -> bool:
        """Return whether the message is meant."""
        return self._key is None or transfer.message.property_as_string(self._key) == self._value


def purge(queue: Queue, request: int, wanted: MessageFilter, destination: Router | None = None) -> int:
    """Remove the first ``request`` matching messages (0 = all), dropping or rerouting them.

    Returns
    -------
    int
        How many were removed.

    Raises
    ------
    SessionException
        What a queue behind the destination refused; then the rest is lost, and nothing is counted.
    """
    removed = _remove_available(queue, request, wanted, "purge" if destination is None else "reroute")
    was_emptied = queue.is_empty
    try:
        if destination is not None:
            for message in removed:
                destination.route_with_alternate(message.transfer, message.delivery_count)
    finally:
        if removed:
            queue.settle(was_emptied)
    # Not reached when a destination refuses: what was removed up to then is not counted either.
    queue.counters.acquires += len(removed)
    if destination is None:
        queue.counters.discardsPurge += len(removed)
    else:
        queue.counters.reroutes += len(removed)
    return len(removed)


def move(source: Queue, target: Queue, quantity: int, wanted: MessageFilter) -> int:
    """Move the first ``quantity`` matching messages (0 = all) to another queue.

    All are taken first, then put: when the target refuses one, it and those after it are lost (QT-23).

    Raises
    ------
    ResourceLimitExceededException
        506, from the target's limit policy.
    """
    removed = _remove_available(source, quantity, wanted, "move")
    was_emptied = source.is_empty
    try:
        for message in removed:
            target.deliver(message.transfer, message.delivery_count)
    finally:
        if removed:
            source.settle(was_emptied)
    return len(removed)


def remove_expired(queue: Queue) -> int:
    """Remove every AVAILABLE message whose time is over (QT-07); return how many there were."""
    now = queue.context.now
    dead = [m for m in queue.store if m.state == AVAILABLE and m.transfer.is_expired(now)]
    for message in dead:
        queue.counters.discardsTtl += 1
        queue.remove(message, "ttl")
    if dead:
        queue.settle()
    return len(dead)


def _remove_available(queue: Queue, limit: int, wanted: MessageFilter, reason: str) -> list[QueuedMessage]:
    cursor = QueueCursor(acquires=True)
    removed: list[QueuedMessage] = []
    message = queue.store.next(cursor)
    while message is not None:
        if wanted.matches(message.transfer):
            if limit and len(removed) == limit:
                break
            queue.remove(message, reason)
            removed.append(message)
        message = queue.store.next(cursor)
    return removed


def _map_text(value: object) -> str:
    """Print a map the way the broker does, keys ascending (RF-23)."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}:{_map_text(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_map_text, value)) + "]"
    return to_text(value)
