"""Waiting in told time: a time-out passes when nothing else can happen in the process.

The engine has no clock; the messaging API tells it the time.  A call that waits lets the broker's
own timers run in their order (auto-delete time-outs, the expiry cleaner), looks after each whether
what it waits for has come, and at last tells the end of its time-out.
"""

from __future__ import annotations

from collections.abc import Callable

from qflow.broker import Broker
from qflow.broker.queued_message import AVAILABLE

MICROSECONDS = 1_000_000
MOST_STEPS = 10_000
"""So many timers a wait without a time-out lets run: one that always sets itself again is no help."""


def wait(broker: Broker, is_done: Callable[[], bool], timeout: float | None) -> bool:
    """Wait until something is so; return whether it is.

    Parameters
    ----------
    broker : Broker
        Whose time is told.
    is_done : callable
        What is waited for.
    timeout : float or None
        Seconds.  None waits for as long as anything can still happen by itself; False then means
        that it never will.

    Examples
    --------
    >>> broker = Broker()
    >>> wait(broker, lambda: False, 1.5), broker.now
    (False, 1500000)
    >>> wait(broker, lambda: False, None), broker.now
    (False, 1500000)
    """
    if is_done():
        return True
    if timeout is None:
        return _wait_without_end(broker, is_done)
    deadline = broker.now + max(0, round(timeout * MICROSECONDS))
    due = broker.timers.next_due
    while due is not None and due <= deadline:
        broker.advance(max(due, broker.now))
        if is_done():
            return True
        due = broker.timers.next_due
    if deadline > broker.now:
        broker.advance(deadline)
    return is_done()


def _wait_without_end(broker: Broker, is_done: Callable[[], bool]) -> bool:
    for _ in range(MOST_STEPS):
        due = _next_event(broker)
        if due is None:
            break
        broker.advance(max(due, broker.now))
        if is_done():
            return True
    return is_done()


def _next_event(broker: Broker) -> int | None:
    """Return when the broker will next do something by itself; None if it never will.

    A run of the expiry cleaner counts only if it will find something.
    """
    candidates: list[int] = []
    expirations = [
        message.transfer.expiration
        for queue in broker.queues.queues.values()
        for message in queue.store
        if message.state == AVAILABLE and message.transfer.expiration is not None
    ]
    for due, task in broker.timers.scheduled():
        if task is not broker.cleaner:
            candidates.append(due)
        elif expirations:
            interval = broker.options.queue_purge_interval * MICROSECONDS
            runs_too_early = max(0, -((due - min(expirations) - 1) // interval))
            candidates.append(due + runs_too_early * interval)
    return min(candidates, default=None)
