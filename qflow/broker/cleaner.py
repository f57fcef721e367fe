"""QueueCleaner: removes expired messages from time to time, whether or not anybody reads (QT-07)."""

from __future__ import annotations

from qflow.broker.context import BrokerContext
from qflow.broker.queue_registry import QueueRegistry
from qflow.broker.removal import remove_expired

NEVER = 1 << 62


class QueueCleaner:
    """Looks at all queues every ``queue-purge-interval`` seconds of told time.

    The broker's heuristic that skips busy queues never triggers (IN-05), so there is none here.
    """

    __slots__ = ("context", "queues", "due")

    def __init__(self, context: BrokerContext, queues: QueueRegistry) -> None:
        self.context = context
        self.queues = queues
        self.due = self._next()

    def run(self) -> None:
        """Remove what has expired, and choose the next time."""
        for queue in list(self.queues.queues.values()):
            remove_expired(queue)
        self.due = self._next()

    def _next(self) -> int:
        interval = self.context.options.queue_purge_interval
        return self.context.now + interval * 1_000_000 if interval else NEVER
