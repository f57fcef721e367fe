"""What a queue tells the observer; called only when there is one."""

from __future__ import annotations

from qflow.broker.queue_view import QueueView
from qflow.broker.queued_message import QueuedMessage
from qflow.broker.transfer import Transfer


def trace_enqueued(queue: QueueView, message: QueuedMessage) -> None:
    """A message is on the queue."""
    transfer = message.transfer
    detail = {"position": message.position, "depth": queue.message_depth, "bytes": queue.byte_depth}
    queue.context.emit(
        "enqueued",
        queue.name,
        transfer.origin,
        "",
        transfer.label,
        transfer.size,
        queue.group_of(message),
        detail,
    )


def trace_dequeued(queue: QueueView, message: QueuedMessage, reason: str) -> None:
    """A message has left the queue, for this reason."""
    transfer = message.transfer
    detail = {
        "position": message.position,
        "reason": reason,
        "depth": queue.message_depth,
        "bytes": queue.byte_depth,
    }
    queue.context.emit("dequeued", queue.name, "", "", transfer.label, transfer.size, message.group, detail)


def trace_moved(queue: QueueView, kind: str, message: QueuedMessage, owner: str = "") -> None:
    """A message was acquired by ``owner``, or requeued."""
    transfer = message.transfer
    detail = {"position": message.position}
    queue.context.emit(kind, queue.name, "", owner, transfer.label, transfer.size, message.group, detail)


def trace_dropped(queue: QueueView, transfer: Transfer) -> None:
    """A message was not put on the queue."""
    queue.context.emit("dropped", queue.name, transfer.origin, "", transfer.label, transfer.size)
