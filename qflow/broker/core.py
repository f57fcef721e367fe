"""BrokerCore: registries, clock and output of one broker: all that its sessions need."""

from __future__ import annotations

from qflow.broker.cleaner import QueueCleaner
from qflow.broker.context import BrokerContext
from qflow.broker.exchange_registry import ExchangeRegistry
from qflow.broker.options import BrokerOptions
from qflow.broker.output import Connection, OutputScheduler
from qflow.broker.queue_registry import QueueRegistry
from qflow.broker.store import MessageStore


class BrokerCore(BrokerContext):
    """The shared parts of a broker, and how a step runs to quiescence."""

    __slots__ = ("queues", "exchanges", "scheduler", "connections", "cleaner")

    def __init__(self, options: BrokerOptions, store: MessageStore | None = None) -> None:
        super().__init__(options, store)
        self.queues = QueueRegistry(self)
        self.exchanges = ExchangeRegistry(self)
        self.scheduler = OutputScheduler()
        self.connections: dict[str, Connection] = {}
        self.cleaner = QueueCleaner(self, self.queues)

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

    def run_timers(self, until: int) -> None:
        """Do what is due up to a time, one thing after the other, each to quiescence."""
        task = self.timers.take(until)
        while task is not None:
            due, action = task
            self.now = self.stamp = max(self.now, due)
            self.scheduler.begin(None)
            action.fire(due)
            self.quiesce()
            task = self.timers.take(until)
