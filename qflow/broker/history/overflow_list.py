"""The proof of concept of QPID-2935: messages that do not fit wait in a list, not in the client (ALT-06).

Each session has its list and a timer.  A message refused for want of room goes to the list instead
of killing the session; while the list is not empty **every** later message of the session goes to
its tail, also those for other queues that have room.  Each tick routes from the head until one does
not fit.  Completions are withheld for what is listed, so the client's capacity bounds the list.

The document leaves three things open.  Here the tick is virtual time, every :data:`INTERVAL`; the list
goes with the session; and a message that some of its queues took is tried again on **all** of
them, which gives those duplicates.
"""

from __future__ import annotations

from collections import deque

from qflow.broker.context import BrokerContext, TimerTask
from qflow.broker.errors import ResourceLimitExceededException
from qflow.broker.message import Router, Transfer

HOLDER = "overflow list"
INTERVAL = 100_000
"""Microseconds between ticks."""


class OverflowList(TimerTask):
    """One session's list of messages that wait for room, and its timer."""

    __slots__ = ("context", "waiting", "is_active")

    def __init__(self, context: BrokerContext) -> None:
        self.context = context
        self.waiting: deque[tuple[Transfer, Router]] = deque()
        self.is_active = True
        context.timers.schedule(context.now + INTERVAL, self)

    def route(self, transfer: Transfer, exchange: Router) -> None:
        """Route a transfer, or put it to the tail of the list."""
        if self.waiting or not _fits(transfer, exchange):
            transfer.hold(HOLDER)
            self.waiting.append((transfer, exchange))
            if self.context.observer is not None:
                detail = {"command": transfer.number, "waiting": len(self.waiting)}
                self.context.emit(
                    "listed", "", transfer.origin, exchange.name, transfer.label, transfer.size, "", detail
                )

    def fire(self, due: int) -> None:
        """Route from the head until one does not fit, and try again later."""
        if not self.is_active:
            return
        self.context.timers.schedule(due + INTERVAL, self)
        while self.waiting and _fits(*self.waiting[0]):
            transfer, _ = self.waiting.popleft()
            transfer.let_go(HOLDER)

    def stop(self) -> None:
        """End with the session: what still waits is lost."""
        self.is_active = False
        self.waiting.clear()


def _fits(transfer: Transfer, exchange: Router) -> bool:
    try:
        exchange.route_with_alternate(transfer)
    except ResourceLimitExceededException:
        return False
    return True
