"""What a queue tells the observer; called only when there is one."""

from __future__ import annotations

from typing import Final

from qflow.broker.queue_view import QueueView
from qflow.broker.queued_message import QueuedMessage
from qflow.broker.transfer import Transfer

_ENQUEUED: Final[tuple[str, ...]] = ("position", "depth", "bytes")
_DEQUEUED: Final[tuple[str, ...]] = ("position", "reason", "depth", "bytes")
_MOVED: Final[tuple[str, ...]] = ("position",)


def trace_enqueued(queue: QueueView, message: QueuedMessage) -> None:
    """A message is on the queue."""
    transfer = message.transfer
    depth, size = queue.counters.depth()
    queue.context.tell(
        "enqueued",
        queue.name,
        transfer.origin,
        message=transfer.label,
        size=transfer.size,
        group=queue.group_of(message),
        names=_ENQUEUED,
        values=(message.position, depth, size),
    )


def trace_dequeued(queue: QueueView, message: QueuedMessage, reason: str) -> None:
    """A message has left the queue, for this reason."""
    transfer = message.transfer
    depth, size = queue.counters.depth()
    queue.context.tell(
        "dequeued",
        queue.name,
        message=transfer.label,
        size=transfer.size,
        group=message.group,
        names=_DEQUEUED,
        values=(message.position, reason, depth, size),
    )


def trace_moved(queue: QueueView, kind: str, message: QueuedMessage, owner: str = "") -> None:
    """A message was acquired by ``owner``, or requeued."""
    transfer = message.transfer
    queue.context.tell(
        kind,
        queue.name,
        link=owner,
        message=transfer.label,
        size=transfer.size,
        group=message.group,
        names=_MOVED,
        values=(message.position,),
    )


def trace_dropped(queue: QueueView, transfer: Transfer) -> None:
    """A message was not put on the queue."""
    queue.context.emit("dropped", queue.name, transfer.origin, "", transfer.label, transfer.size)
