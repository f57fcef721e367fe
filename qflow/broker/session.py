"""Session: all the AMQP 0-10 commands a client can give.

Each method is one command.  It runs to quiescence: its effects, all deliveries it makes possible
and all completions it frees have happened when it returns.  A refused command raises, and ends
the session as in the real broker (LP-06): its unsettled messages are requeued and its
subscriptions end; nothing else changes, except where a rule says so.

SessionState: a session's name, the numbers of its commands, and its end.

What all commands of a session share; the commands themselves are in ``message_handler.py``,
``queue_handler.py`` and ``session.py``, as in the broker's SessionAdapter.

DispositionHandler: what a consumer does with the messages it was given.

MessageHandler: the ``message`` commands, for producers and consumers.

QueueHandler: the ``queue`` and ``exchange`` commands, for administration.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import ClassVar, Final

from qflow.broker.command import CommandRunner, command, require_attached
from qflow.broker.completions import Completions, RangeSet
from qflow.broker.consumer import BYTE_UNIT, INFINITE, MESSAGE_UNIT
from qflow.broker.consuming import Connection, SemanticState, Subscription, TxAccept
from qflow.broker.core import BrokerCore
from qflow.broker.errors import (
    AmqpException,
    CommandInvalidException,
    InvalidArgumentException,
    NotAllowedException,
    NotFoundException,
    ResourceLockedException,
    SessionException,
)
from qflow.broker.events import Detail, Names, Values
from qflow.broker.exchanges import Exchange
from qflow.broker.history.overflow_list import OverflowList
from qflow.broker.left_out import refuse
from qflow.broker.management import (
    ExchangeBoundResult,
    ExchangeQueryResult,
    QueueQueryResult,
    query_bound,
    query_exchange,
    query_queue,
)
from qflow.broker.message import HeaderValue, Message
from qflow.broker.queue import Queue
from qflow.broker.removal import MessageFilter, purge
from qflow.broker.settings import Argument, QueueSettings
from qflow.broker.statistics import SessionStatistics
from qflow.broker.transactions import TxBuffer
from qflow.broker.transfer import Transfer

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


class DispositionHandler(SessionState):
    """Accept, release, reject, acquire, complete."""

    __slots__ = ()

    def message_accept(self, transfers: Iterable[int]) -> None:
        """Take responsibility for deliveries; at commit, in a transaction (CN-13, CM-11)."""
        # What @command does, written out: every message passes here.
        require_attached(self, "message.accept")
        number = self.begin()
        if self.core.observer is not None:
            transfers = tuple(transfers)
            self.show_transfers("message.accept", transfers, number)
        try:
            self.consuming.accept(transfers, self.tx_accept)
        except (AmqpException, TypeError, ValueError) as error:
            self.give_up(error, number)
            raise
        self.completions.complete(number)
        self.quiesce()

    @command("message.release")
    def message_release(self, transfers: Iterable[int], set_redelivered: bool = False) -> None:
        """Give deliveries back to their queues, at their old places (CN-14, CN-15)."""
        self.consuming.release(transfers, set_redelivered)

    @command("message.reject")
    def message_reject(self, transfers: Iterable[int]) -> None:
        """Refuse deliveries: they are dropped or go to the alternate exchange (CN-16)."""
        self.consuming.reject(transfers)

    @command("message.acquire")
    def message_acquire(self, transfers: Iterable[int]) -> list[int]:
        """Claim browsed deliveries; return the numbers of those that were granted (RF-02)."""
        return self.consuming.acquire(transfers)

    def session_completed(self, transfers: Iterable[int] = ()) -> None:
        """Tell the broker that deliveries are processed, which moves windows on (CN-06, RF-04)."""
        # A control, so it has no number and is never completed; written out like message_accept.
        require_attached(self, "session.completed")
        self.control()
        if self.core.observer is not None:
            transfers = tuple(transfers)
            self.show_transfers("session.completed", transfers)
        try:
            self.consuming.complete(transfers)
        except AmqpException as error:
            self.give_up(error)
            raise
        self.quiesce()


# Final, so that a compiled method can still say its signature.
EXPLICIT: Final = 0
NONE: Final = 1
PRE_ACQUIRED: Final = 0
NOT_ACQUIRED: Final = 1

_TRANSFER: Final[tuple[str, ...]] = ("command", "message", "exchange", "sync")
_PIPELINED: Final[tuple[str, ...]] = (*_TRANSFER, "pipelined")


class MessageHandler(DispositionHandler):
    """Transfers, subscriptions and credit."""

    __slots__ = ()

    # Producing

    def message_transfer(self, message: Message, exchange: str = "", sync: bool = False) -> Transfer:
        """Send a message to an exchange (rules.md#order-of-events).

        Parameters
        ----------
        message : Message
            What to send; without a label it gets one, ``<session>-<n>``.
        exchange : str
            Its destination; "" is the default exchange, which routes to the queue named by the
            routing key (EX-02).
        sync : bool
            Ask to be told as soon as the transfer is complete (CM-05).

        Returns
        -------
        Transfer
            ``is_complete`` and ``held_by`` tell what has become of it.

        Raises
        ------
        NotFoundException
            404: no such exchange.
        ResourceLimitExceededException
            506: a queue is full (LP-05).  The session is gone then, the message stays on the queues
            that took it (LP-08).

        Examples
        --------
        >>> from qflow.broker import Broker, Message
        >>> session = Broker().session("p")
        >>> session.queue_declare("q", {"qpid.flow_stop_count": 1})
        >>> for _ in range(2):
        ...     transfer = session.message_transfer(Message(10, routing_key="q"))
        >>> transfer.is_complete, transfer.held_by
        (False, ('q',))
        """
        require_attached(self, "message.transfer")
        completions = self.completions
        transfer = self._transfer(completions.next_number, message, exchange)
        number = self.begin()
        if self.core.observer is not None:
            self._show_transfer(transfer, message, exchange, sync)
        if sync:
            completions.report_when_complete(number)
        try:
            self._route(transfer, exchange)
        except AmqpException as error:
            transfer.owner = None
            self.die(error)
            self.quiesce()
            raise
        transfer.end_routing()
        if transfer.pending:
            completions.hold(transfer)
        if sync:
            self.core.store.flush()
        self.quiesce()
        return transfer

    def _show_transfer(self, transfer: Transfer, message: Message, exchange: str, sync: bool) -> None:
        names: Names = _TRANSFER
        values: Values = (transfer.number, message, exchange, sync)
        if self.is_pipelining:
            names, values = _PIPELINED, (*values, True)
        self.core.tell(
            "message.transfer",
            session=self.name,
            link=exchange,
            message=transfer.label,
            size=transfer.size,
            names=names,
            values=values,
        )

    def _transfer(self, number: int, message: Message, exchange: str) -> Transfer:
        core = self.core
        if core.stamps_arrivals and message.timestamp is None:
            message = replace(message, timestamp=core.now // 1_000_000)
        size = message.content_size if core.counts_content else message.encoded_size(exchange)
        self.transfer_count += 1
        expiration = core.now + message.ttl * 1000 if message.ttl else None
        transfer = Transfer(
            self.completions,
            number,
            message,
            size,
            message.label,
            expiration,
            self.name,
            self.connection.name,
            self.transfer_count,
        )
        if self.transaction is not None:
            transfer.transaction = self.transaction
        return transfer

    def _route(self, transfer: Transfer, name: str) -> None:
        exchange = self.last_exchange
        if exchange is None or exchange.is_deleted or exchange.name != name:
            exchange = self.core.exchanges.get(name)
        if self.overflow is None:
            exchange.route_with_alternate(transfer)
        else:
            self.overflow.route(transfer, exchange)
        if exchange is not self.last_exchange:
            self._remember_exchange(exchange)

    # Subscribing

    @command("message.subscribe")
    def message_subscribe(
        self,
        queue: str,
        tag: str,
        accept_mode: int = EXPLICIT,
        acquire_mode: int = PRE_ACQUIRED,
        exclusive: bool = False,
        arguments: Mapping[str, Argument] | None = None,
    ) -> Subscription:
        """Start to read a queue, without any credit yet (CN-01 … CN-03).

        Parameters
        ----------
        queue, tag : str
            What to read, and the subscription's name in this session.
        accept_mode : int
            0 explicit, 1 none.
        acquire_mode : int
            0 pre-acquired, a consumer; 1 not-acquired, a browser.
        exclusive : bool
            Let no other consumer in; browsers are let in.
        arguments : mapping or None
            ``x-apache-selector`` and ``qpid.sync_frequency`` mean something (CN-01), all others nothing.

        Raises
        ------
        SessionException
            531, 404, 530, 405: see CN-02.
        """
        for name, mode in (("accept-mode", accept_mode), ("acquire-mode", acquire_mode)):
            if mode not in (0, 1):
                raise InvalidArgumentException(f"Invalid value for {name} {mode}")
        source = self.core.queues.get(queue)
        if tag and tag in self.consuming.subscriptions:
            raise NotAllowedException("Consumer tags must be unique")
        acquires = acquire_mode == PRE_ACQUIRED and not source.settings.browse_only
        if acquires:
            self._check_access(source, exclusive)
        subscription = Subscription(
            self.consuming,
            self.connection,
            tag,
            f"{self.name}::{tag}",
            source,
            acquires,
            accept_mode == EXPLICIT,
            exclusive,
            arguments or {},
        )
        source.add_consumer(subscription, exclusive, self.connection.name)
        self.consuming.add(subscription)
        return subscription

    def _check_access(self, queue: Queue, exclusive: bool) -> None:
        if queue.lifetime.owner not in ("", self.name):
            raise ResourceLockedException(f"Cannot subscribe to exclusive queue {queue.name}")
        if queue.users.has_exclusive_consumer:
            raise ResourceLockedException(
                f"Queue {queue.name} has an exclusive consumer. No more consumers allowed."
            )
        if exclusive and queue.users.consumers:
            raise ResourceLockedException(
                f"Queue {queue.name} already has consumers. Exclusive access denied."
            )

    @command("message.cancel")
    def message_cancel(self, tag: str) -> None:
        """End a subscription; what it was given stays acquired (CN-17).

        Raises
        ------
        NotFoundException
            404: no such subscription.
        """
        subscription = self.consuming.subscriptions.get(tag)
        if subscription is None:
            raise NotFoundException(f"No such subscription: {tag}")
        self.consuming.cancel(subscription)

    # Credit

    @command("message.set_flow_mode")
    def message_set_flow_mode(self, tag: str, flow_mode: int) -> None:
        """Choose credit (0) or window (1); each mode has its own balances (CN-04).

        Raises
        ------
        InvalidArgumentException
            542: another mode.
        NotFoundException
            404: no such subscription.
        """
        if flow_mode not in (0, 1):
            raise InvalidArgumentException(f"Invalid value for mode {flow_mode}")
        self.consuming.find(tag).credit.change_mode(flow_mode)

    @command("message.flow")
    def message_flow(self, tag: str, unit: int, value: int) -> None:
        """Grant credit (CN-04), which wakes the subscription if credit was what it lacked (RF-08).

        Parameters
        ----------
        tag : str
            The subscription.
        unit : int
            0 messages, 1 bytes; both are needed.
        value : int
            0xFFFFFFFF is infinite, and sticks.

        Raises
        ------
        InvalidArgumentException
            542: another unit.
        NotFoundException
            404: no such subscription.
        """
        if unit not in (MESSAGE_UNIT, BYTE_UNIT):
            raise InvalidArgumentException(f"Invalid value for unit {unit}")
        if not 0 <= value <= INFINITE:
            raise InvalidArgumentException(f"Invalid value for value {value}: credit is 0 to {INFINITE}")
        subscription = self.consuming.find(tag)
        subscription.credit.grant(unit, value)
        subscription.wake_for_credit()

    @command("message.stop")
    def message_stop(self, tag: str) -> None:
        """Take all credit of the current mode away (CN-07)."""
        self.consuming.find(tag).credit.stop()

    @command("message.flush")
    def message_flush(self, tag: str) -> None:
        """Deliver while there are credit and messages, then take the credit away (CN-07)."""
        self.consuming.find(tag).flush()

    def fetch(self, tag: str) -> None:
        """Get at most one message: what a client without prefetch does (CN-09).

        Three commands in one write, so that the flush runs before any other output (RF-08).
        """
        with self.pipelined():
            self.message_flow(tag, BYTE_UNIT, INFINITE)
            self.message_flow(tag, MESSAGE_UNIT, 1)
            self.message_flush(tag)


def _check_key(queue: str, exchange: str, key: str = "", *_: object, **__: object) -> None:
    if len(key.encode()) > 255:
        raise ValueError(f"a binding key is at most 255 bytes; got {len(key.encode())}")


class QueueHandler(MessageHandler):
    """Declare, delete, purge, bind, unbind."""

    __slots__ = ()

    @command("queue.declare")
    def queue_declare(
        self,
        queue: str,
        arguments: Mapping[str, Argument] | None = None,
        *,
        durable: bool = False,
        auto_delete: bool = False,
        exclusive: bool = False,
        passive: bool = False,
        alternate_exchange: str = "",
    ) -> None:
        """Make a queue, unless there is one of that name already (CF-04, CF-05).

        Parameters
        ----------
        queue : str
            Its name.
        arguments : mapping or None
            As in rules.md#declare-arguments: ``{"qpid.max_count": 1000, "qpid.flow_stop_count": 900}``.
        auto_delete : bool
            Delete it when it is not used any more (QT-08).
        exclusive : bool
            Let only this session declare, consume, bind, unbind and delete it (CN-23).
        passive : bool
            Only ask whether it exists; without a name this is a declare like any other.
        alternate_exchange : str
            Where rejected, evicted and orphaned messages go (EX-09).

        Raises
        ------
        SessionException
            542 for the arguments, 404 for a missing queue or alternate, 405 for exclusivity.
        """
        registry = self.core.queues
        if passive and queue:
            target = registry.get(queue)
        else:
            settings = QueueSettings.from_arguments(arguments or {})
            alternate = self.core.exchanges.alternate(alternate_exchange)
            target, is_new = registry.declare(
                queue, settings, auto_delete=auto_delete, alternate=alternate, durable=durable
            )
            if is_new:
                self.core.exchanges.default.bind(target, queue, {})
                if exclusive:
                    self._own(target)
                return
        if exclusive:
            self._demand_ownership(target, passive)

    def _demand_ownership(self, queue: Queue, passive: bool) -> None:
        if queue.lifetime.owner == self.name:
            return
        if queue.lifetime.owner or passive or queue.users.consumers:
            raise ResourceLockedException(f"Cannot grant exclusive access to queue {queue.name}")
        self._own(queue)

    def _own(self, queue: Queue) -> None:
        queue.lifetime.owner = self.name
        queue.lifetime.use()
        queue.users.owner_connection = self.connection.name
        self.exclusive_queues.append(queue.name)

    @command("queue.delete")
    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False) -> None:
        """Delete a queue with all its messages (QT-21, FC-21).

        Raises
        ------
        SessionException
            531, 404, 405, 406.
        """
        self.core.queues.check_delete(queue, self.name, if_unused, if_empty)
        self.core.destroy_queue(queue, "delete")

    @command("queue.purge")
    def queue_purge(self, queue: str) -> None:
        """Drop every message that nobody has acquired (QT-22)."""
        purge(self.core.queues.get(queue), 0, MessageFilter(None))

    @command("exchange.declare")
    def exchange_declare(
        self,
        exchange: str,
        type: str | None = None,
        *,
        alternate_exchange: str = "",
        passive: bool = False,
        durable: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> None:
        """Make an exchange, unless there is one of that name and type already (EX-03).

        Without a type it is a topic exchange.  With ``passive`` it is only asked whether there is such
        an exchange: of that name, and of that type and that alternate if these are given; the broker's own
        exchanges can be declared in no other way.

        Raises
        ------
        SessionException
            404, 530.
        """
        registry = self.core.exchanges
        alternate = registry.alternate(alternate_exchange)
        if passive:
            registry.check(exchange, type or "", alternate)
            return
        if exchange.startswith(("amq.", "qpid.")):
            raise NotAllowedException(
                f'Exchange names beginning with "amq." or "qpid." are reserved. (exchange="{exchange}")'
            )
        kind = "topic" if type is None else type
        registry.declare(exchange, kind, alternate, durable, auto_delete, arguments)

    @command("exchange.delete")
    def exchange_delete(self, exchange: str) -> None:
        """Delete an exchange (EX-03)."""
        self.core.exchanges.delete(exchange)

    @command("exchange.bind", check=_check_key)
    def exchange_bind(
        self, queue: str, exchange: str, key: str = "", arguments: Mapping[str, HeaderValue] | None = None
    ) -> None:
        """Bind a queue to an exchange; binding it again changes nothing (EX-12).

        Raises
        ------
        SessionException
            404, 405, 541 (headers), 542 (default exchange).
        """
        source, target = self.core.bindable(exchange, queue, "Bind", self.name)
        scope = self.name if (arguments or {}).get("x-scope") == "session" else ""
        source.bind(target, key, arguments or {}, scope)

    @command("exchange.unbind", check=_check_key)
    def exchange_unbind(self, queue: str, exchange: str, key: str = "") -> None:
        """Remove a binding; removing none changes nothing (EX-12)."""
        source, target = self.core.bindable(exchange, queue, "Unbind", self.name)
        if source.unbind(target, key):
            self.core.exchanges.consider(source)

    @command("queue.query")
    def queue_query(self, queue: str) -> QueueQueryResult:
        """Describe a queue; an unknown one gives an empty answer."""
        return query_queue(self.core.queues, queue)

    @command("exchange.query")
    def exchange_query(self, exchange: str) -> ExchangeQueryResult:
        """Describe an exchange."""
        return query_exchange(self.core.exchanges, exchange)

    @command("exchange.bound")
    def exchange_bound(
        self,
        exchange: str,
        queue: str | None = None,
        key: str | None = None,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> ExchangeBoundResult:
        """Say whether a binding exists, by what of it does not hold (EX-13)."""
        return query_bound(self.core.queues, self.core.exchanges, exchange, queue, key, arguments)


class Session(QueueHandler):
    """A session, made by :meth:`qflow.broker.Broker.session`.

    Examples
    --------
    >>> from qflow.broker import Broker, Message
    >>> broker = Broker()
    >>> producer, consumer = broker.session("p"), broker.session("c")
    >>> producer.queue_declare("orders", {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 1})
    >>> for _ in range(3):
    ...     last = producer.message_transfer(Message(100, routing_key="orders"))
    >>> [transfer.label for transfer in producer.held]
    ['p-3']
    """

    ONLY_COUNTS: ClassVar[bool] = True

    __slots__ = ()

    # Syncing

    @command("execution.sync", completes=False)
    def execution_sync(self) -> None:
        """Ask to be told when every earlier command is complete (CM-06); hurries the store (CM-12)."""
        self.core.store.flush()
        self.completions.sync_point(self.completions.next_number - 1)

    @command("session.flush", is_numbered=False)
    def session_flush(self) -> None:
        """Ask to be told what is complete now (CM-05)."""
        self.completions.want_report()

    # Transactions

    @command("tx.select")
    def tx_select(self) -> None:
        """Make the session transactional; its first transaction begins."""
        self._start_transaction()

    @command("tx.commit", completes=False)
    def tx_commit(self) -> None:
        """Make the transaction's publishes and accepts happen, all or none (LP-09, RF-22).

        Its effects are there at once; its own completion waits for earlier commands (CM-07).

        Raises
        ------
        CommandInvalidException
            503: the session is not transactional.
        InternalErrorException
            541: a queue has no room; nothing happens.
        """
        transaction = self._require_transaction()
        if self.tx_accept is not None:
            transaction.enlist(self.tx_accept)
        try:
            transaction.commit()
        except SessionException:
            self.txn_rejects += 1
            raise
        self.txn_commits += 1
        self._start_transaction()
        self.completions.sync_point(self.completions.next_number - 1)

    @command("tx.rollback")
    def tx_rollback(self) -> None:
        """Forget the transaction's publishes and accepts; deliveries stay acquired (MG-22)."""
        self._require_transaction().rollback()
        self.txn_rejects += 1
        self._start_transaction()

    def _start_transaction(self) -> None:
        self.transaction = TxBuffer()
        self.tx_accept = TxAccept(self.consuming)
        self.txn_starts += 1

    def _require_transaction(self) -> TxBuffer:
        if self.transaction is None:
            raise CommandInvalidException("Session has not been selected for use with transactions")
        return self.transaction

    @command("dtx.select")
    def dtx_select(self) -> None:
        """Refuse distributed transactions, which this model leaves out.

        Raises
        ------
        NotImplementedException
            540, always.
        """
        refuse("dtx", "dtx.select")

    # The end

    def close(self) -> None:
        """End the session in good order: what it has not settled is requeued (CN-17).

        Closing a session that is gone already changes nothing.
        """
        if not self.is_attached:
            return
        self.control()
        if self.is_watched():
            self.show("session.detach", None)
        self.detach()
        self.quiesce()
