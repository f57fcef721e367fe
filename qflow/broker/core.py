"""BrokerCore: registries, clock and output of one broker: all that its sessions need."""

from __future__ import annotations

from qflow.broker.cleaner import QueueCleaner
from qflow.broker.context import BrokerContext
from qflow.broker.errors import InvalidArgumentException, NotFoundException, ResourceLockedException
from qflow.broker.exchange_registry import ExchangeRegistry
from qflow.broker.exchanges import Exchange
from qflow.broker.options import BrokerOptions
from qflow.broker.output import Connection, OutputScheduler
from qflow.broker.queue import Queue
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

    def bindable(
        self, exchange: str, queue: str, action: str, session: str | None = None
    ) -> tuple[Exchange, Queue]:
        """Return what is to be bound or unbound, if it may be: by a session, or by management (EX-03).

        Raises
        ------
        SessionException
            542 for the default exchange, 404 for an unknown one or an unknown queue, 405 for a queue
            that is exclusive to another session; management is no session.
        """
        if not exchange:
            raise InvalidArgumentException(f"{action} not allowed for default exchange")
        source = self.exchanges.get(exchange)
        target = self.queues.queues.get(queue)
        if target is None:
            raise NotFoundException(f"{action} failed. No such queue: {queue}")
        if target.lifetime.owner not in ("", session):
            raise ResourceLockedException(
                f"Cannot {action.lower()} queue {queue}; it is exclusive to another session"
            )
        return source, target

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
