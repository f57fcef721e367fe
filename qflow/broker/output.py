"""Whose turn it is: the order in which subscriptions and connections are served (RF-12).

Lay it beside ``AggregateOutput`` and the broker's single worker thread.
"""

from __future__ import annotations

from collections import deque

from qflow.broker.command import CommandRunner
from qflow.broker.consumer import Consumer
from qflow.broker.errors import AmqpException
from qflow.broker.restorable import Restorable


class OutputTask(Consumer):
    """A consumer that a connection serves in turn."""

    __slots__ = ("connection", "is_scheduled")

    connection: Connection
    is_scheduled: bool

    def dispatch(self) -> bool:
        """Send at most one message; return whether one was sent."""
        raise NotImplementedError

    def notify(self) -> None:
        """Ask the connection for a turn."""
        self.connection.schedule(self)


class Connection(Restorable):
    """A client's connection: a FIFO of subscriptions to serve, one message each in turn."""

    __slots__ = ("name", "scheduler", "tasks", "is_ready", "sessions")

    def __init__(self, name: str, scheduler: OutputScheduler) -> None:
        self.name = name
        self.scheduler = scheduler
        self.tasks: deque[OutputTask] = deque()
        self.is_ready = False
        self.sessions: list[CommandRunner] = []

    def schedule(self, task: OutputTask) -> None:
        """Put a subscription at the end of the FIFO, unless it stands there already."""
        if not task.is_scheduled:
            task.is_scheduled = True
            self.tasks.append(task)
            self.scheduler.activate(self)

    def forget(self, task: OutputTask) -> None:
        """Take a subscription out of the FIFO."""
        if task.is_scheduled:
            task.is_scheduled = False
            self.tasks.remove(task)

    def close(self, error: AmqpException) -> None:
        """End every session of the connection: one of them broke the protocol (LP-06)."""
        for session in list(self.sessions):
            session.fail(error)

    def serve(self) -> None:
        """Give turns until no subscription gets a message any more."""
        while self.tasks:
            task = self.tasks.popleft()
            task.is_scheduled = False
            if task.dispatch() and not task.is_scheduled:
                task.is_scheduled = True
                self.tasks.append(task)


class FlushReplier(Restorable):
    """A session whose client the broker has asked what it has completed (RF-05)."""

    __slots__ = ("connection",)

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    def wake_blocked(self) -> None:
        """Do what the client's answer, which names nothing, does."""
        raise NotImplementedError


class OutputScheduler(Restorable):
    """The FIFO of connections with work, and the one whose command is being read.

    That one is served last: its read event has to end first.
    """

    __slots__ = ("_ready", "_reading", "_repliers")

    def __init__(self) -> None:
        self._ready: deque[Connection] = deque()
        self._reading: Connection | None = None
        self._repliers: deque[FlushReplier] = deque()

    def begin(self, connection: Connection | None) -> None:
        """A command of this connection is being processed."""
        self._reading = connection

    def activate(self, connection: Connection) -> None:
        """A connection has work."""
        if not connection.is_ready and connection is not self._reading:
            connection.is_ready = True
            self._ready.append(connection)

    def expect_reply(self, replier: FlushReplier) -> None:
        """A client will answer ``session.flush`` as soon as all output is made (RF-05)."""
        self._repliers.append(replier)

    def run(self) -> None:
        """Serve every connection, each until it has nothing more, until all is quiet."""
        while True:
            reading = self._reading
            if reading is not None:
                self._reading = None
                if reading.tasks:
                    self.activate(reading)
            while self._ready:
                connection = self._ready.popleft()
                connection.serve()
                connection.is_ready = False
            if not self._repliers:
                return
            replier = self._repliers.popleft()
            self.begin(replier.connection)
            replier.wake_blocked()
