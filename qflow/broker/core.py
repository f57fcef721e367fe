"""BrokerCore: registries, clock and output of one broker: all that its sessions need."""

from __future__ import annotations

import heapq

from qflow.broker.cleaner import QueueCleaner
from qflow.broker.context import BrokerContext
from qflow.broker.exchange_registry import ExchangeRegistry
from qflow.broker.options import BrokerOptions
from qflow.broker.output import Connection, OutputScheduler
from qflow.broker.queue_registry import QueueRegistry
from qflow.broker.store import MessageStore


class BrokerCore(BrokerContext):
    """The shared parts of a broker, and how a step runs to quiescence."""

    __slots__ = ("queues", "exchanges", "scheduler", "connections", "cleaner", "_timers")

    def __init__(self, options: BrokerOptions, store: MessageStore | None = None) -> None:
        super().__init__(options, store)
        self.queues = QueueRegistry(self)
        self.exchanges = ExchangeRegistry(self)
        self.scheduler = OutputScheduler()
        self.connections: dict[str, Connection] = {}
        self.cleaner = QueueCleaner(self, self.queues)
        self._timers: list[tuple[int, str]] = []

    def connection(self, name: str) -> Connection:
        """Return the connection of that name, made now if there is none."""
        if name not in self.connections:
            self.connections[name] = Connection(name, self.scheduler)
        return self.connections[name]

    def quiesce(self) -> None:
        """Make all deliveries that are possible, then tell clients what is complete (CM-08)."""
        self.scheduler.run()
        while self.reporters:
            reporters, self.reporters = self.reporters, []
            for reporter in reporters:
                reporter.report()

    def destroy_queue(self, name: str, reason: str) -> None:
        """Unbind, unregister and empty a queue (FC-21)."""
        queue = self.queues.queues[name]
        self.exchanges.unbind_everywhere(queue)
        self.queues.destroy(queue, reason)

    def schedule(self, due: int, queue: str) -> None:
        """Look at a queue's lifetime again at a later time (QT-08)."""
        heapq.heappush(self._timers, (due, queue))

    def run_timers(self, until: int) -> None:
        """Do what is due up to a time: auto-delete time-outs and the expiry cleaner, in order of time."""
        while True:
            due = min(self.cleaner.due, self._timers[0][0] if self._timers else self.cleaner.due)
            if due > until:
                return
            self.now = max(self.now, due)
            if self._timers and self._timers[0][0] == due:
                _, name = heapq.heappop(self._timers)
                queue = self.queues.queues.get(name)
                if queue is not None:
                    queue.lifetime.expire(queue, due)
            else:
                self.cleaner.run()
