"""QueueCleaner: removes expired messages from time to time, whether or not anybody reads (QT-07)."""

from __future__ import annotations

from qflow.broker.context import BrokerContext
from qflow.broker.queue_registry import QueueRegistry
from qflow.broker.removal import remove_expired
from qflow.broker.timers import TimerTask


class QueueCleaner(TimerTask):
    """Looks at all queues every ``queue-purge-interval`` seconds of told time.

    The broker's heuristic that skips busy queues never triggers (IN-05), so there is none here.
    """

    __slots__ = ("context", "queues")

    def __init__(self, context: BrokerContext, queues: QueueRegistry) -> None:
        self.context = context
        self.queues = queues
        self._schedule(context.now)

    def fire(self, due: int) -> None:
        """Remove what has expired, and look again later."""
        for queue in list(self.queues.queues.values()):
            remove_expired(queue)
        self._schedule(due)

    def _schedule(self, now: int) -> None:
        interval = self.context.options.queue_purge_interval
        if interval:
            self.context.schedule(now + interval * 1_000_000, self)
