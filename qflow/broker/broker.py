"""The broker: the object with which a caller attaches sessions, sets the time and observes events."""

from __future__ import annotations

from typing import Any, SupportsIndex

from qflow.broker.consuming import Connection, OutputScheduler
from qflow.broker.context import BrokerContext
from qflow.broker.errors import ConnectionForcedException, NotAllowedException
from qflow.broker.events import Detail, EventTable, Observer
from qflow.broker.exchanges import ExchangeRegistry
from qflow.broker.link_nodes import LinkNodes
from qflow.broker.links import LinkSession
from qflow.broker.management import Management
from qflow.broker.message import encodable, integer, show
from qflow.broker.options import BrokerOptions
from qflow.broker.queue import Queue, QueueCounters
from qflow.broker.registry import QueueCleaner, QueueRegistry
from qflow.broker.session import Session
from qflow.broker.snapshot import (
    Refused,
    Snapshot,
    SnapshotError,
    Text,
    hash_snapshot,
    restore_snapshot,
    take_snapshot,
)
from qflow.broker.statistics import BrokerStatistics
from qflow.broker.store import MessageStore


class Broker(BrokerContext):
    """A message broker you can hold in your hand.

    It has no clock, no randomness, no threads and does no I/O: sessions give it commands, an observer
    receives its events, and :meth:`advance` sets the time.

    Parameters:
        options: The start options; None for the defaults.
        store: The store for durable messages; None for no store, so that durable messages need not wait for
            one (CM-12).

    Raises:
        TypeError: If an argument has another type.

    >>> broker = Broker()
    >>> session = broker.session("s")
    >>> session.queue_declare("orders", {"qpid.max_count": 10})
    >>> broker.queue("orders").statistics().flowStopped
    False
    """

    __slots__ = (
        "queues", "exchanges", "scheduler", "connections", "cleaner", "sessions", "management", "nodes",
    )  # fmt: skip

    def __init__(
        self, options: BrokerOptions | None = None, store: MessageStore | Refused | None = None
    ) -> None:
        if options is not None and not isinstance(options, BrokerOptions):
            raise TypeError(
                "options must be a BrokerOptions, such as BrokerOptions(default_queue_limit=0), or None, "
                f"got {show(options)}"
            )
        if store is not None and not isinstance(store, MessageStore):
            allowed = "a MessageStore, such as DelayedStore(), or None"
            raise TypeError(f"store must be {allowed}, got {show(store)}")
        super().__init__(options, store)
        self.exchanges = ExchangeRegistry(self)
        self.queues = QueueRegistry(self, self.exchanges)
        self.scheduler = OutputScheduler(self)
        self.connections: dict[str, Connection] = {}
        self.cleaner = QueueCleaner(self, self.queues)
        self.sessions: dict[str, Session] = {}
        self.nodes = LinkNodes(self.queues)
        self.management = Management(self, self.queues, self.scheduler, self.nodes)

    def session(self, name: Text, connection: Text = "") -> Session:
        """Attach a new session for an AMQP 0-10 client.

        Parameters:
            name: The session's name, which no other attached session has.
            connection: The name of its connection, which all sessions with the same value share; "" for a
                connection of its own, with the name of the session.

        Returns:
            The attached session.

        Raises:
            NotAllowedException: If a session of this name is attached already (530).
            TypeError: If a name is not a string.
            ValueError: If a name has no UTF-8 encoding.
        """
        name = encodable("a session's name", name)
        session = Session(self, self.queues, name, self._connection(name, connection))
        self._attach(session, {"connection": session.connection.name})
        return session

    def _attach(self, session: Session, detail: Detail) -> None:
        self.sessions[session.name] = session
        if self.observer is not None:
            self.emit("session.attach", session=session.name, detail=detail)

    def link_session(self, name: Text, connection: Text = "", container: Text = "") -> LinkSession:
        """Attach a new session for an AMQP 1.0 client.

        Parameters:
            name, connection: As for :meth:`session`.
            container: The client's container-id.

        Returns:
            The attached session, on which the client attaches its links.

        Raises:
            NotAllowedException: If a session of this name is attached already (530).
            TypeError: If a name is not a string.
            ValueError: If a name has no UTF-8 encoding.
        """
        for ended in [one for one in self.sessions.values() if not one.is_attached]:
            if isinstance(ended, LinkSession):
                del self.sessions[ended.name]
                if not ended.connection.sessions:
                    self.connections.pop(ended.connection.name, None)
        name = encodable("a session's name", name)
        container = encodable("a container's id", container)
        shared = self._connection(name, connection)
        session = LinkSession(self, self.queues, name, shared, self.nodes, container)
        self._attach(session, {"connection": shared.name, "container": container})
        return session

    def _connection(self, session: str, name: Text) -> Connection:
        """Return the connection of a new session; raise NotAllowedException if its name is in use."""
        existing = self.sessions.get(session)
        if existing is not None and existing.is_attached:
            raise NotAllowedException(
                f"session {session!r} is attached already; close it first, or use another name"
            )
        shared = encodable("a connection's name", name) or session
        if shared not in self.connections:
            self.connections[shared] = Connection(shared, self.scheduler)
        return self.connections[shared]

    def queue(self, name: Text) -> Queue:
        """Return a queue by its name.

        Raises:
            NotFoundException: If there is no such queue (404).
            IllegalArgumentException: If the name is empty (531).
        """
        return self.queues.get(encodable("a queue's name", name))

    def observe(self, observer: Observer | None) -> None:
        """Set the function that is called with every event from now on, or None for no observer."""
        if observer is not None and not callable(observer):
            raise TypeError(f"an observer must be a function of an event, or None, got {show(observer)}")
        self.observer = observer
        self.stamp = self.now
        self.cells = observer.cells if isinstance(observer, EventTable) else None

    def advance(self, now: SupportsIndex) -> None:
        """Set the time and run the timers that are due by then.

        Parameters:
            now: The new time, in microseconds since the start of the broker.

        Raises:
            TypeError: If the time is not a whole number.
            ValueError: If the time is before the present one, or needs more than 63 bits.
        """
        until = integer("time in microseconds", now)
        if until >> 63:
            raise ValueError(f"time must be 0 to {(1 << 63) - 1} us, got {until}")
        if until < self.now:
            raise ValueError(f"time cannot go back: it is {self.now} us, got {until} us")
        if self.timers.is_due(until):
            if self.observer is not None:
                self.emit("advance", detail={"now": until})
            self.run_timers(until)
        self.now = self.stamp = until

    def run_timers(self, until: int) -> None:
        """Run the timers due by `until` one after the other, each with all of its effects."""
        task = self.timers.take(until)
        while task is not None:
            due, action = task
            if action is self.cleaner:
                due = self.cleaner.skip(due, until)
            self.now = self.stamp = max(self.now, due)
            self.scheduler.reading = None
            action.fire(due)
            self.scheduler.quiesce()
            task = self.timers.take(until)

    def close_connection(self, name: Text) -> bool:
        """End all sessions of a connection for management (CF-11); return False if it has no sessions."""
        connection = self.connections.get(encodable("a connection's name", name))
        if connection is None or not connection.sessions:
            return False
        connection.close(ConnectionForcedException("Closed by Management Request"))
        return True

    def refers_to(self, queue: object) -> bool:
        """Return whether an unsettled delivery or a transaction of any session refers to a queue (RF-45)."""
        return isinstance(queue, Queue) and any(one.refers_to(queue) for one in self.sessions.values())

    def destroy_queue(self, name: str, reason: str) -> None:
        """Delete a queue: unbind, unregister and empty it (FC-21)."""
        self.queues.destroy(name, reason)

    def snapshot(self) -> Snapshot:
        """Return the broker's whole state as a JSON value.

        Call it between commands.  The observer and the hooks of clients are not part of the state.

        >>> broker = Broker()
        >>> broker.session("s").queue_declare("orders")
        >>> twin = Broker.restore(broker.snapshot())
        >>> twin.state_hash() == broker.state_hash()
        True
        """
        return take_snapshot(self)

    @classmethod
    def restore(cls, snapshot: Any) -> Broker:
        """Return a new broker in the state of a snapshot.

        Raises:
            SnapshotError: If the value is not a snapshot of a broker.
        """
        broker = restore_snapshot(snapshot)
        if not isinstance(broker, cls):
            raise SnapshotError(f"this is a snapshot of a {type(broker).__name__}, not of a broker")
        return broker

    def state_hash(self) -> str:
        """Return a hash of the broker's state, which is the same in every process and on every machine."""
        return hash_snapshot(self.snapshot())

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        # A copy equals a restored snapshot: it has no observer and no hooks.
        return Broker.restore, (self.snapshot(),)

    def statistics(self) -> BrokerStatistics:
        """Return the broker's statistics, the totals over all queues (CF-10)."""
        totals = QueueCounters()
        totals.add(self.queues.retired)
        for queue in self.queues.queues.values():
            totals.add(queue.counters)
        messages, size = totals.depth()
        return BrokerStatistics(
            queueCount=len(self.queues.queues),
            msgDepth=messages,
            byteDepth=size,
            discardsNoRoute=self.discardsNoRoute,
            abandoned=self.abandoned,
            abandonedViaAlt=self.abandonedViaAlt,
            totals=totals.values(),
        )

    def __repr__(self) -> str:
        return f"Broker({len(self.queues.queues)} queues, {len(self.sessions)} sessions, {self.now} us)"
