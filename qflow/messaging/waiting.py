"""The words of the exceptions that stand in for waits without end."""

from __future__ import annotations

from collections.abc import Iterable

from qflow.broker import Broker
from qflow.messaging.exceptions import FetchWouldBlock, SendWouldBlock, SyncWouldBlock
from qflow.messaging.holds import Holds

_ALONE = "nobody else can act in this process meanwhile; pass a timeout to let told time pass instead"


def fetch_blocks(broker: Broker, queues: Iterable[str]) -> FetchWouldBlock:
    """Say why no message can come to a receiver (or, for several queues, to any of a session's)."""
    seen = "; ".join(_describe(broker, queue) for queue in queues) or "no receiver has a capacity"
    return FetchWouldBlock(f"would wait for ever for a message: {seen}; {_ALONE}")


def send_blocks(capacity: int | None, holds: Holds) -> SendWouldBlock:
    """Say who holds what a full window waits for."""
    text = f"capacity = {capacity}: the window is full, and {holds.text}; {_ALONE}"
    return SendWouldBlock(text, holds.labels, holds.holders)


def sync_blocks(what: str, holds: Holds) -> SyncWouldBlock:
    """Say who holds what a sync waits for."""
    text = f"{what} would wait for ever: {holds.text}, so nothing after that is known complete; {_ALONE}"
    return SyncWouldBlock(text, holds.labels, holds.holders)


def _describe(broker: Broker, name: str) -> str:
    queue = broker.queues.queues.get(name)
    if queue is None:
        return f"queue {name!r} is gone"
    depth, available = queue.message_depth, queue.message_count
    if not depth:
        return f"queue {name!r} is empty"
    if not available:
        return f"all {depth} on queue {name!r} are acquired"
    owned = [] if queue.groups is None else [g for g in queue.groups.state() if g["consumer"]]
    owners = ", ".join(f"{group['group_id']} by {group['consumer']}" for group in owned)
    groups = f" (groups owned: {owners})" if owners else ""
    return f"{available} of {depth} on queue {name!r} are available, but not to this receiver{groups}"
