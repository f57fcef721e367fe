"""SessionState: a session's name, the numbers of its commands, and its end.

What all commands of a session share; the commands themselves are in ``message_handler.py``,
``queue_handler.py`` and ``session.py``, as in the broker's SessionAdapter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from qflow.broker.command import CommandRunner
from qflow.broker.completions import Completions
from qflow.broker.core import BrokerCore
from qflow.broker.errors import AmqpException, SessionException
from qflow.broker.events import Detail
from qflow.broker.exchanges import Exchange
from qflow.broker.history.overflow_list import OverflowList
from qflow.broker.output import Connection
from qflow.broker.range_set import RangeSet
from qflow.broker.semantic_state import SemanticState, TxAccept
from qflow.broker.statistics import SessionStatistics
from qflow.broker.transfer import Transfer
from qflow.broker.tx import TxBuffer

_TRANSFERS: Final[tuple[str, ...]] = ("transfers",)


class SessionState(CommandRunner):
    """One session on one connection.

    Attributes
    ----------
    name : str
        Unique among the sessions that are attached.
    is_attached : bool
        False after ``close``, or when a command failed.
    error : AmqpException or None
        What the session died of.
    completions : Completions
        Which commands are complete, which transfers are held.
    consuming : SemanticState
        Subscriptions and deliveries.
    """

    __slots__ = (
        "core",
        "name",
        "connection",
        "is_attached",
        "error",
        "completions",
        "consuming",
        "transaction",
        "tx_accept",
        "last_exchange",
        "exclusive_queues",
        "transfer_count",
        "is_pipelining",
        "overflow",
        "txn_starts",
        "txn_commits",
        "txn_rejects",
    )

    def __init__(self, core: BrokerCore, name: str, connection: Connection) -> None:
        self.core = core
        self.name = name
        self.connection = connection
        self.is_attached = True
        self.error: AmqpException | None = None
        self.completions = Completions(core, name)
        self.consuming = SemanticState(core, name, connection, self)
        self.transaction: TxBuffer | None = None
        self.tx_accept: TxAccept | None = None
        self.last_exchange: Exchange | None = None
        self.exclusive_queues: list[str] = []
        self.transfer_count = 0
        self.is_pipelining = False
        self.overflow: OverflowList | None = None
        if core.options.flow_control == "overflow-list":
            self.overflow = OverflowList(core)
        self.txn_starts = self.txn_commits = self.txn_rejects = 0
        connection.sessions.append(self)

    # What a command needs

    def begin(self) -> int:
        """Number a command; its connection is served last now (RF-12)."""
        self.core.scheduler.begin(self.connection)
        return self.completions.begin()

    def control(self) -> None:
        """Begin a control; its connection is served last now."""
        self.core.scheduler.begin(self.connection)

    def retract(self, number: int) -> None:
        """Take a command back that the client's own library refuses, before it could do anything."""
        self.completions.next_number = number

    def finish(self, number: int) -> None:
        """Complete a command."""
        self.completions.complete(number)

    def quiesce(self) -> None:
        """Let everything happen, unless more commands come in the same write."""
        if not self.is_pipelining:
            self.core.quiesce()

    def is_watched(self) -> bool:
        """Return whether an observer wants to see commands."""
        return self.core.observer is not None

    def show(self, kind: str, arguments: Detail, number: int = -1) -> None:
        """Tell the observer of a command with its arguments."""
        detail = dict(arguments or {})
        if self.is_pipelining:
            detail["pipelined"] = True
        if self.completions.is_awaited(number):
            detail["sync"] = True
        queue, link = str(detail.get("queue", "")), str(detail.get("tag", detail.get("exchange", "")))
        self.core.emit(kind, queue, self.name, link, detail=detail)

    def show_transfers(self, kind: str, transfers: tuple[int, ...], number: int = -1) -> None:
        """Tell the observer of a command whose only argument is numbers of deliveries."""
        if self.is_pipelining or self.completions.is_awaited(number):
            self.show(kind, {"transfers": transfers}, number)
        else:
            self.core.tell(kind, session=self.name, names=_TRANSFERS, values=(transfers,))

    @contextmanager
    def pipelined(self) -> Iterator[None]:
        """Give several commands in one write: output is made after the last of them (RF-08)."""
        self.is_pipelining = True
        try:
            yield
        finally:
            self.is_pipelining = False
            if self.is_watched():
                self.show("session.written", None)
            self.core.quiesce()

    # What can be seen

    @property
    def held(self) -> list[Transfer]:
        """Transfers whose completion is withheld, in the order sent."""
        return self.completions.held()

    @property
    def completed(self) -> RangeSet:
        """Numbers of the commands that are complete."""
        return self.completions.completed

    def statistics(self) -> SessionStatistics:
        """Return what management shows of the session (CF-10)."""
        return SessionStatistics(
            name=self.name,
            unackedMessages=self.consuming.unacked_messages,
            TxnStarts=self.txn_starts,
            TxnCommits=self.txn_commits,
            TxnRejects=self.txn_rejects,
            TxnCount=self.txn_starts,
        )

    # The end

    def die(self, error: AmqpException) -> None:
        """End the session, or all sessions of the connection if the error is no session's (LP-06)."""
        if isinstance(error, SessionException):
            self.fail(error)
        else:
            self.connection.close(error)

    def fail(self, error: AmqpException) -> None:
        """Die of an error: the broker raises it to the client and detaches the session (LP-06)."""
        self.error = error
        if self.core.observer is not None:
            detail = {"code": error.code, "name": error.name, "text": error.text}
            self.core.emit("exception", session=self.name, detail=detail)
        self.detach()

    def detach(self) -> None:
        """Requeue what is unsettled, end subscriptions, transaction and ownerships (CN-17)."""
        self.is_attached = False
        self.connection.sessions.remove(self)
        self.completions.abandon()
        if self.overflow is not None:
            self.overflow.stop()
        for exchange in list(self.core.exchanges.exchanges.values()):
            if exchange.unbind_scope(self.name):
                self.core.exchanges.consider(exchange)
        self.consuming.close()
        if self.transaction is not None:
            self.transaction.rollback()
            self.transaction = None
        self._remember_exchange(None)
        self._release_ownership()

    def _release_ownership(self) -> None:
        for name in self.exclusive_queues:
            queue = self.core.queues.queues.get(name)
            if queue is not None and queue.lifetime.owner == self.name:
                queue.lifetime.owner = ""
                queue.users.owner_connection = ""
                if queue.is_unused:
                    queue.lifetime.consider(queue)
        self.exclusive_queues.clear()

    def _remember_exchange(self, exchange: Exchange | None) -> None:
        """Keep the exchange of the last transfer alive, and no other (RF-18)."""
        if exchange is not self.last_exchange:
            if exchange is not None:
                exchange.refer()
            if self.last_exchange is not None:
                self.last_exchange.dismiss()
            self.last_exchange = exchange
