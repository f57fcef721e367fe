"""Redirect: two queues swap what is sent to them, without their messages moving (QT-18)."""

from __future__ import annotations

from qflow.broker.errors import ManagementError
from qflow.broker.queue import Queue
from qflow.broker.queue_registry import QueueRegistry

UNKNOWN_OBJECT, EXCEPTION = 1, 7


def redirect(queues: QueueRegistry, source: str, target: str) -> None:
    """Let ``source`` and ``target`` get each other's new messages; with no target, end that.

    Raises
    ------
    ManagementError
        Status 1 for an unknown queue, 7 for itself, an auto-delete queue, or one that is redirected.
    """
    first = _find(queues, source)
    if not target:
        _cancel(first)
        return
    second = _find(queues, target)
    if first is second:
        raise ManagementError(EXCEPTION, f"queue {source} cannot be redirected to itself")
    for queue in (first, second):
        if queue.lifetime.deletes_itself:
            raise ManagementError(EXCEPTION, f"queue {queue.name} is auto-delete and cannot be redirected")
        if queue.redirect is not None:
            raise ManagementError(EXCEPTION, f"queue {queue.name} is redirected already")
    first.redirect, second.redirect = second, first
    first.is_redirect_source = True
    first.context.emit("queueRedirect", source, link=target)


def _find(queues: QueueRegistry, name: str) -> Queue:
    queue = queues.queues.get(name)
    if queue is None:
        raise ManagementError(UNKNOWN_OBJECT, f"no such queue: {name}")
    return queue


def _cancel(source: Queue) -> None:
    target = source.redirect
    if target is None:
        raise ManagementError(EXCEPTION, f"queue {source.name} is not redirected")
    source.redirect = target.redirect = None
    source.is_redirect_source = target.is_redirect_source = False
    source.context.emit("queueRedirectCancelled", source.name, link=target.name)
