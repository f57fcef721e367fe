"""BrokerCore: registries, clock and output of one broker: all that its sessions need.

QueueRegistry: the queues a broker has, and how they come and go (CF-04, CF-05, QT-21, QT-24).

QueueCleaner: removes expired messages from time to time, whether or not anybody reads (QT-07).
"""

from __future__ import annotations

from qflow.broker.consuming import Connection, OutputScheduler
from qflow.broker.context import BrokerContext, TimerTask
from qflow.broker.errors import (
    IllegalArgumentException,
    InvalidArgumentException,
    NotFoundException,
    PreconditionFailedException,
    ResourceLockedException,
    SessionException,
)
from qflow.broker.exchanges import Exchange, ExchangeRegistry
from qflow.broker.flow_limit import FlowThresholds
from qflow.broker.lifetime import make_lifetime
from qflow.broker.options import BrokerOptions
from qflow.broker.queue import Queue
from qflow.broker.removal import remove_expired
from qflow.broker.restorable import Restorable
from qflow.broker.settings import QueueSettings
from qflow.broker.store import MessageStore


class QueueRegistry(Restorable):
    """Queues by name."""

    __slots__ = ("context", "queues")

    def __init__(self, context: BrokerContext) -> None:
        self.context = context
        self.queues: dict[str, Queue] = {}

    def get(self, name: str) -> Queue:
        """Return a queue.

        Raises
        ------
        IllegalArgumentException
            531, for an empty name (CF-06).
        NotFoundException
            404, for an unknown one.
        """
        if not name:
            raise IllegalArgumentException("No queue name specified.")
        queue = self.queues.get(name)
        if queue is None:
            raise NotFoundException(f"Queue not found: {name}")
        return queue

    def declare(
        self,
        name: str,
        settings: QueueSettings,
        *,
        auto_delete: bool = False,
        alternate: Exchange | None = None,
        durable: bool = False,
    ) -> tuple[Queue, bool]:
        """Return the queue of that name, made now if it does not exist, and whether it was made.

        The settings of a second declare have been converted like those of the first, but are
        otherwise ignored (CF-04).  Nothing is made when one is refused.

        Raises
        ------
        InvalidArgumentException
            542: a combination, then the thresholds (CF-05).
        """
        existing = self.queues.get(name)
        if existing is not None:
            existing.lifetime.declares += 1
            return existing, False
        settings.validate()
        thresholds = FlowThresholds.of(name, settings, self.context.options)
        lifetime = make_lifetime(self.context, settings, auto_delete)
        queue = Queue(self.context, name, settings, thresholds, lifetime, alternate, durable)
        if alternate is not None:
            alternate.alternate_users += 1
        self.queues[name] = queue
        if self.context.observer is not None:
            self.context.emit("queueDeclare", name, detail={"arguments": dict(settings.arguments)})
        return queue, True

    def check_delete(self, name: str, session: str | None, if_unused: bool, if_empty: bool) -> Queue:
        """Return the queue if it may be deleted (QT-21): by management (None) whoever owns it.

        Raises
        ------
        NotFoundException, ResourceLockedException, PreconditionFailedException
            404, 405, 406.
        """
        queue = self.queues.get(name)
        if queue is None:
            raise NotFoundException(f"Delete failed. No such queue: {name}")
        if session is not None and queue.lifetime.owner not in ("", session):
            raise ResourceLockedException(f"Cannot delete queue {name}; it is exclusive to another session")
        if if_empty and queue.message_count:
            raise PreconditionFailedException(f"Cannot delete queue {name}; queue not empty")
        if if_unused and not queue.is_unused:
            raise PreconditionFailedException(f"Cannot delete queue {name}; queue in use")
        return queue

    def destroy(self, queue: Queue, reason: str) -> None:
        """Empty a queue whose bindings are gone, and tell its readers.

        Rules: FC-21, QT-24, RF-15.

        Raises
        ------
        SessionException
            What the alternate's queues refused, once everything is done, and only to the command that
            deletes the queue, or fills it up (LP-15); an auto-delete queue has nobody to tell.
        """
        context = self.context
        del self.queues[queue.name]
        queue.is_deleted = True
        orphans = list(queue.store)
        for message in orphans:
            queue.remove(message, "queue-deleted")
        alternate = queue.alternate
        refusal: SessionException | None = None
        for message in orphans:
            if alternate is not None:
                try:
                    alternate.route_with_alternate(message.transfer, message.delivery_count)
                except SessionException as error:
                    # The real broker gives up at the first refusal too: the rest is lost.
                    refusal = error
                    break
        if alternate is None:
            context.abandoned += len(orphans)
        else:
            context.abandonedViaAlt += len(orphans)
            # Nor does it come to this line then: the alternate stays in use, for good.
            if isinstance(alternate, Exchange) and refusal is None:
                alternate.alternate_users -= 1
        context.retired.add(queue.counters)
        if context.observer is not None:
            context.emit("queueDelete", queue.name, detail={"reason": reason})
        if queue.redirect is not None:
            queue.redirect.redirect, queue.redirect.is_redirect_source = None, False
            queue.redirect = None
        if refusal is None:
            queue.listeners.notify_all()
        elif reason != "auto-delete":
            raise refusal


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
