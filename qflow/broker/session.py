"""Sessions: all AMQP 0-10 commands that a client can send, and the steps in which each runs.

A *command* is a method of :class:`Session` with the decorator :func:`command`, or one with the same steps:

1. **Check.**  An ended session refuses the command (:class:`~qflow.broker.errors.SessionDetached`), and the
   :class:`~qflow.broker.signature.Signature` refuses an argument that AMQP cannot encode, as a client's
   library does.  Nothing has changed then.
2. **Begin.**  The command gets its *number*: the client and the broker both count the commands of a session
   from 0.  Its connection becomes the one being read.  *Controls* (``session.completed``, ``session.flush``)
   have no number.
3. **Show.**  The observer gets the command's event, before those of its effects.
4. **Execute.**  If the broker refuses the command (:class:`~qflow.broker.errors.AmqpException`), its session
   ends, or all sessions of its connection: the subscriptions end, the unsettled messages are requeued, and
   nothing else changes except by a rule (LP-06, LP-08).  After any other exception, the number becomes
   available again, and nothing has changed.
5. **Complete.**  The command is *complete*, which only means that the broker has processed it (CM).  A query
   or a declare is complete at once; a transfer when nothing withholds its completion any more; a sync or a
   commit when all earlier commands are (CM-06, CM-07).
6. **Quiesce.**  All deliveries that are possible now are made, in the order of :mod:`qflow.broker.consuming`.
   Then each client with a request for a report gets the numbers of its completed commands (CM-08).  Within
   :meth:`Session.pipeline` this happens once, after the last command of the write (RF-08).

A *transfer* (:meth:`Session.message_transfer`) begins with its size and a completion count of 1.  The
exchange passes it to every queue with a matching binding, in the order of the bindings, and each queue
processes it separately, as :mod:`qflow.broker.queue` describes (LP-08).  Each queue whose flow control is ON,
and a store that has not finished, add 1 to the count (CM-02).  If no binding matches, the alternate exchange
is tried, but not the alternate's alternate (EX-08).  At the end of routing the count is decremented; the
transfer is complete when it reaches 0.

Observers and the hooks of clients (``on_delivery``, ``on_report``) are called during a command, so they must
not raise exceptions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from qflow.broker.completions import Completions, RangeSet
from qflow.broker.consuming import (
    BYTE_UNIT,
    INFINITE,
    MESSAGE_UNIT,
    Connection,
    Numbers,
    SemanticState,
    Subscription,
    TxAccept,
)
from qflow.broker.context import BrokerContext
from qflow.broker.errors import (
    AmqpException,
    BrokerFailure,
    CommandInvalidException,
    InvalidArgumentException,
    NotAllowedException,
    NotFoundException,
    NotImplementedException,
    ResourceLockedException,
    SessionDetached,
    SessionException,
)
from qflow.broker.events import Detail, Values
from qflow.broker.exchanges import FED_OP, FED_ORIGIN, Exchange, fed_op, fed_origin
from qflow.broker.history import OverflowList
from qflow.broker.message import (
    CommandOwner,
    HeaderValue,
    Message,
    Transfer,
    delivery_numbers,
    encodable,
    flag,
    show,
)
from qflow.broker.queue import Queue
from qflow.broker.registry import (
    ExchangeBoundResult,
    ExchangeQueryResult,
    MessageFilter,
    QueueQueryResult,
    QueueRegistry,
    purge,
    query_bound,
    query_exchange,
    query_queue,
)
from qflow.broker.restorable import Dependent
from qflow.broker.settings import Argument
from qflow.broker.signature import Signature
from qflow.broker.snapshot import Flag, Refused, Text
from qflow.broker.statistics import SessionStatistics
from qflow.broker.transactions import TxBuffer

# Final, so that inspect can show them in the signature of a compiled method.
EXPLICIT: Final = 0
NONE: Final = 1
PRE_ACQUIRED: Final = 0
NOT_ACQUIRED: Final = 1

_TRANSFERS: Final[tuple[str, ...]] = ("transfers",)
_TRANSFER: Final[tuple[str, ...]] = ("command", "message", "exchange", "sync")

Method = TypeVar("Method", bound=Callable[..., Any])


def command(kind: str, *, is_numbered: bool = True, completes: bool = True) -> Callable[[Method], Method]:
    """Return a decorator that makes a method a command of an event kind, which runs in the steps above."""

    def decorate(method: Method) -> Method:
        signature = Signature(kind, method)

        @functools.wraps(method)
        def run(self: Session, *args: Any, **kwargs: Any) -> Any:
            self.require_attached(kind)
            given = signature.bind(args, kwargs)
            number = self.begin() if is_numbered else self.begin_control()
            if self.context.observer is not None:
                self.show(kind, given, number)
            try:
                result = method(self, **given)
            except Exception as error:
                self.fail_command(error, number)
                raise
            if is_numbered and completes:
                self.completions.complete(number)
            self.quiesce()
            return result

        return cast(Method, run)

    return decorate


class Session(Dependent):
    """A session on a connection, made by :meth:`qflow.broker.Broker.session`.

    Attributes:
        name (str): The session's name, which no other attached session has.
        is_attached (bool): Whether the session can take commands: not after ``close`` or a refused command.
        error (AmqpException or None): The error that ended the session, if any.
        completions (Completions): The completed commands and the held transfers.
        consuming (SemanticState): The subscriptions and the deliveries.

    >>> from qflow.broker import Broker, Message
    >>> broker = Broker()
    >>> producer, consumer = broker.session("p"), broker.session("c")
    >>> producer.queue_declare("orders", {"qpid.flow_stop_count": 2, "qpid.flow_resume_count": 1})
    >>> for _ in range(3):
    ...     last = producer.message_transfer(Message(100, routing_key="orders"))
    >>> [transfer.label for transfer in producer.held]
    ['p-3']
    """

    __slots__ = (
        "context", "queues", "exchanges", "name", "connection", "is_attached", "error", "completions",
        "consuming", "transaction", "tx_accept", "last_exchange", "exclusive_queues", "transfer_count",
        "is_pipelining", "overflow", "txn_starts", "txn_commits", "txn_rejects", "scoped_bindings",
    )  # fmt: skip

    def __init__(
        self, context: BrokerContext, queues: QueueRegistry, name: str, connection: Connection
    ) -> None:
        self.context = context
        self.queues = queues
        self.exchanges = queues.exchanges
        self.name = name
        self.connection = connection
        self.is_attached = True
        self.error: AmqpException | None = None
        self.completions = Completions(context, name)
        self.consuming = SemanticState(context, name, connection, self)
        self.transaction: TxBuffer | None = None
        self.tx_accept: TxAccept | None = None
        self.last_exchange: Exchange | None = None
        self.exclusive_queues: list[str] = []
        self.scoped_bindings: list[tuple[str, str, str, str]] = []
        self.transfer_count = 0
        self.is_pipelining = False
        self.overflow: OverflowList | None = None
        if context.options.flow_control == "overflow-list":
            self.overflow = OverflowList(context)
        self.txn_starts = self.txn_commits = self.txn_rejects = 0
        connection.sessions.append(self)

    # The steps of a command

    def require_attached(self, kind: str) -> None:
        """Check that the session can take a command of this kind.

        Raises:
            SessionDetached: If the session has ended; nothing in the broker changes.
        """
        if not self.is_attached:
            raise SessionDetached(f"{kind} on session {self.name!r}, which is not attached any more")

    def begin(self) -> int:
        """Begin a command: make its connection the one being read (RF-12), and return its number."""
        self.connection.scheduler.read(self.connection)
        return self.completions.begin()

    def begin_control(self) -> int:
        """Begin a control: make its connection the one being read, and return -1 for no number."""
        self.connection.scheduler.read(self.connection)
        return -1

    def fail_command(self, error: Exception, number: int = -1) -> None:
        """End the session after a refused command, or make the number available after another error."""
        if isinstance(error, AmqpException):
            if isinstance(error, BrokerFailure):
                self.context.note_failure(error.how, error.text)
            self.die(error)
            self.quiesce()
            return
        # The state before the command: within a pipeline the connection is still being read, otherwise none
        # is.
        self.connection.scheduler.reading = self.connection if self.is_pipelining else None
        if number >= 0:
            self.completions.retract(number)

    def quiesce(self) -> None:
        """Make all possible deliveries and reports, unless more commands follow in the same write."""
        if not self.is_pipelining:
            self.connection.scheduler.quiesce()

    def show(self, kind: str, arguments: Detail, number: int = -1) -> None:
        """Emit the event of a command with its arguments."""
        detail = dict(arguments or {})
        if self.is_pipelining:
            detail["pipelined"] = True
        if self.completions.is_awaited(number):
            detail["sync"] = True
        queue, link = str(detail.get("queue", "")), str(detail.get("tag", detail.get("exchange", "")))
        self.context.emit(kind, queue, self.name, link, detail=detail)

    def show_transfers(self, kind: str, transfers: tuple[int, ...], number: int = -1) -> None:
        """Emit the event of a command whose only argument is a tuple of delivery numbers."""
        if self.is_pipelining or self.completions.is_awaited(number):
            self.show(kind, {"transfers": transfers}, number)
        else:
            self.context.tell(kind, session=self.name, names=_TRANSFERS, values=(transfers,))

    @contextmanager
    def pipeline(self) -> Iterator[None]:
        """Send the commands of a ``with`` block in one write, so that output follows the last one (RF-08)."""
        self.is_pipelining = True
        try:
            yield
        finally:
            self.is_pipelining = False
            if self.context.observer is not None:
                self.show("session.written", None)
            self.connection.scheduler.quiesce()

    # Inspection

    @property
    def held(self) -> list[Transfer]:
        """The transfers whose completion is withheld, in order of sending."""
        return self.completions.held

    @property
    def completed(self) -> RangeSet:
        """The numbers of the completed commands."""
        return self.completions.completed

    def refers_to(self, queue: Queue) -> bool:
        """Return whether a delivery or the open transaction of the session refers to a queue (RF-45)."""
        transaction = self.transaction
        return self.consuming.refers_to(queue) or (transaction is not None and transaction.refers_to(queue))

    def statistics(self) -> SessionStatistics:
        """Return the session's statistics, as management shows them (CF-10)."""
        return SessionStatistics(
            name=self.name,
            unackedMessages=self.consuming.unacked_messages,
            TxnStarts=self.txn_starts,
            TxnCommits=self.txn_commits,
            TxnRejects=self.txn_rejects,
            TxnCount=self.txn_commits + self.txn_rejects,
        )

    def __repr__(self) -> str:
        ended = "" if self.is_attached else ", ended"
        return f"Session({self.name!r}, {len(self.held)} transfers held{ended})"

    # The end by an error

    def die(self, error: AmqpException) -> None:
        """End the session, or all sessions of its connection if the error is the connection's (LP-06)."""
        if isinstance(error, SessionException):
            self.fail(error)
        else:
            self.connection.close(error)

    def fail(self, error: AmqpException) -> None:
        """End the session with an error, which is stored in ``error`` and emitted as an event (LP-06)."""
        self.error = error
        if self.context.observer is not None:
            detail = {"code": error.code, "name": error.name, "text": error.text}
            self.context.emit("exception", session=self.name, detail=detail)
        self.detach()

    def note_queue_deleted(self, subscription: Subscription, error: SessionException) -> None:
        """End the session because the queue of a subscription was deleted (CN-18)."""
        self.fail(error)

    def detach(self) -> None:
        """End the session: its subscriptions, deliveries, transaction and exclusive queues (CN-17)."""
        # The order is observable, and that of the broker: completions are dropped first, so that none of the
        # following is reported; bindings are removed before messages are requeued, so that no message is
        # routed by them; exclusive ownership ends last, as that may delete queues (CN-17, RF-14, RF-30).
        self.is_attached = False
        self.connection.sessions.remove(self)
        self.completions.abandon()
        if self.overflow is not None:
            self.overflow.stop()
        # Sorted, as the broker stores them in a std::set; the order decides which exchange is auto-deleted
        # first.
        for queue, exchange, key, origin in sorted(set(self.scoped_bindings)):
            # The queue or the exchange may have been deleted, or belong to another session now.
            with suppress(SessionException):
                if origin:
                    withdrawn: dict[str, HeaderValue] = {FED_OP: "U", FED_ORIGIN: origin}
                    self.queues.bind(exchange, queue, key, withdrawn, self.name)
                else:
                    self.queues.unbind(exchange, queue, key, self.name)
        self.consuming.close()
        if self.transaction is not None:
            self.transaction.rollback()
            self.transaction = None
        self._remember_exchange(None)
        self._release_ownership()

    def _release_ownership(self) -> None:
        for name in self.exclusive_queues:
            queue = self.queues.queues.get(name)
            # The queue may have been deleted, and another one declared with this name by another session.
            if queue is not None and queue.lifetime.owner == self.name:
                queue.lifetime.owner = ""
                queue.users.owner_connection = ""
                if queue.is_unused:
                    queue.delete_unless_needed()
        self.exclusive_queues.clear()

    def _remember_exchange(self, exchange: Exchange | None) -> None:
        """Keep a reference to the exchange of the last transfer, and release the previous one (RF-18)."""
        if exchange is not self.last_exchange:
            # The real broker caches the exchange of a session's last transfer, and so keeps a deleted
            # exchange alive, whose bindings stay counted (RF-18).
            if exchange is not None:
                exchange.refer()
            if self.last_exchange is not None:
                self.last_exchange.dismiss()
            self.last_exchange = exchange

    # Settling

    def message_accept(self, transfers: Iterable[int]) -> None:
        """Accept deliveries, and so dequeue their messages, now or at commit if transactional (CN-13, CM-11).

        Parameters:
            transfers: The numbers of the deliveries; unknown ones are ignored.
        """
        # The steps of a command without the decorator, for speed, as this is called for every message.
        self.require_attached("message.accept")
        numbers: Numbers = delivery_numbers("message.accept: transfers", transfers)
        number = self.begin()
        if self.context.observer is not None:
            self.show_transfers("message.accept", numbers, number)
        try:
            self.consuming.accept(numbers, self.tx_accept)
        except Exception as error:
            self.fail_command(error, number)
            raise
        self.completions.complete(number)
        self.quiesce()

    @command("message.release")
    def message_release(self, transfers: Iterable[int], set_redelivered: bool = False) -> None:
        """Release deliveries: return their messages to their old places on the queues (CN-14, CN-15).

        Parameters:
            transfers: The numbers of the deliveries.
            set_redelivered: Whether the next delivery of a message is marked as redelivered.
        """
        self.consuming.release(transfers, set_redelivered)

    @command("message.reject")
    def message_reject(self, transfers: Iterable[int]) -> None:
        """Reject deliveries: their messages are dropped, or routed to the alternate exchange (CN-16)."""
        self.consuming.reject(transfers)

    @command("message.acquire")
    def message_acquire(self, transfers: Iterable[int]) -> list[int]:
        """Acquire browsed messages by delivery number, and return the numbers that succeeded (RF-02)."""
        return self.consuming.acquire(transfers)

    def session_completed(self, transfers: Iterable[int] = ()) -> None:
        """Complete deliveries by number, which returns their credit in window mode (CN-06, RF-04)."""
        # Without the decorator, like message_accept; as a control it has no number and is never completed.
        self.require_attached("session.completed")
        numbers: Numbers = delivery_numbers("session.completed: transfers", transfers)
        self.begin_control()
        if self.context.observer is not None:
            self.show_transfers("session.completed", numbers)
        try:
            self.consuming.complete(numbers)
        except Exception as error:
            self.fail_command(error)
            raise
        self.quiesce()

    # Producing

    def message_transfer(
        self, message: Message | Refused, exchange: Text = "", sync: Flag = False
    ) -> Transfer:
        """Send a message to an exchange.

        Parameters:
            message: The message to send; one without a label gets the label ``<session>-<n>``.
            exchange: The name of the exchange; "" is the default exchange, which routes to the queue named by
                the routing key (EX-02).
            sync: Whether the broker reports the transfer as soon as it is complete (CM-05).

        Returns:
            The transfer, whose ``is_complete`` and ``held_by`` show whether queues withhold its completion.

        Raises:
            NotFoundException: If there is no such exchange (404).
            ResourceLimitExceededException: If a queue is full (506, LP-05); the message stays on the queues
                that have accepted it (LP-08).
            SessionDetached: If the session has ended.

        >>> from qflow.broker import Broker, Message
        >>> session = Broker().session("p")
        >>> session.queue_declare("q", {"qpid.flow_stop_count": 1})
        >>> for _ in range(2):
        ...     transfer = session.message_transfer(Message(10, routing_key="q"))
        >>> transfer.is_complete, transfer.held_by
        (False, ('q',))
        """
        self.require_attached("message.transfer")
        last = self.last_exchange
        # As this is called for every message, valid arguments are accepted after few checks.
        if last is not None and exchange is last.name:
            destination = last.name
        else:
            destination = encodable("message.transfer: exchange", exchange, 255)
        is_synced = sync is True
        if not is_synced and sync is not False:
            flag("message.transfer: sync", sync)
        if not isinstance(message, Message):
            raise TypeError(f"message.transfer: message must be a Message, got {show(message)}")
        sent: Message = message
        completions, context = self.completions, self.context
        if context.stamps_arrivals and sent.timestamp is None:
            sent = replace(sent, timestamp=context.start_time + context.now // 1_000_000)
        size = sent.encoded_size(destination)
        if context.counts_content:
            size = sent.content_size
        transfer = self._make_transfer(completions, sent, size, destination, self.transaction)
        number = self.begin()
        if context.observer is not None:
            self._show_transfer(transfer, is_synced)
        traffic = self.connection.from_client
        try:
            self._route(transfer, destination)
        except Exception as error:
            transfer.owner = None
            # A refused message was received on the connection, and its number is used.
            if isinstance(error, AmqpException):
                traffic.count(transfer.size, sent.content_size)
            else:
                self.transfer_count -= 1
            self.fail_command(error, number)
            raise
        traffic.count(transfer.size, sent.content_size)
        if is_synced:
            completions.report_when_complete(number)
        transfer.end_routing()
        if transfer.pending:
            completions.hold(transfer)
        if is_synced and (store := context.store) is not None:
            store.flush()
        self.quiesce()
        return transfer

    def _show_transfer(
        self, transfer: Transfer, sync: bool, more: tuple[str, ...] = (), given: Values = ()
    ) -> None:
        """Emit the event of a transfer; a link adds names (``more``) and values (``given``) to its detail."""
        names = (*_TRANSFER, *more) if more else _TRANSFER
        exchange = transfer.exchange
        values: Values = (transfer.number, transfer.message, exchange, sync, *given)
        if self.is_pipelining:
            names, values = (*names, "pipelined"), (*values, True)
        label, size = transfer.label, transfer.size
        self.context.tell("message.transfer", "", self.name, exchange, label, size, "", names, values)

    def _make_transfer(
        self, owner: CommandOwner, message: Message, size: int, exchange: str, transaction: TxBuffer | None
    ) -> Transfer:
        """Return a transfer for the next command."""
        self.transfer_count += 1
        transfer = Transfer(
            owner,
            self.completions.next_number,
            message,
            size,
            message.label,
            self.context.now + message.ttl * 1000 if message.ttl else None,
            self.name,
            self.connection.name,
            self.transfer_count,
            exchange,
        )
        transfer.transaction = transaction
        return transfer

    def _route(self, transfer: Transfer, name: str) -> None:
        exchange = self.last_exchange
        if exchange is None or exchange.is_deleted or exchange.name != name:
            exchange = self.exchanges.get(name)
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
        """Subscribe to a queue, at first without credit (CN-01 … CN-03).

        Parameters:
            queue: The name of the queue.
            tag: The subscription's name, which no other subscription of the session has.
            accept_mode: 0 explicit: the client accepts messages; 1 none: they are dequeued when delivered.
            acquire_mode: 0 pre-acquired: a consumer; 1 not-acquired: a browser.
            exclusive: Whether to exclude other consumers of the queue, but not browsers.
            arguments: ``x-apache-selector`` and ``qpid.sync_frequency`` have an effect (CN-01), no others.

        Raises:
            NotFoundException: If there is no such queue (404).
            ResourceLockedException: If another session or consumer has exclusive use of the queue (405).
            NotAllowedException: If the tag is in use (530).
            IllegalArgumentException: If the name of the queue is empty (531).
            InvalidArgumentException: If a mode is not 0 or 1 (542).
            FramingErrorException: If the selector is invalid (501), which ends the connection (RF-44).
        """
        for name, mode in (("accept-mode", accept_mode), ("acquire-mode", acquire_mode)):
            if mode not in (0, 1):
                raise InvalidArgumentException(f"Invalid value for {name} {mode}")
        source = self.queues.get(queue)
        if tag and tag in self.consuming.subscriptions:
            raise NotAllowedException("Consumer tags must be unique")
        # A browse-only queue turns every consumer into a browser, without telling the client.
        acquires = acquire_mode == PRE_ACQUIRED and not source.settings.browse_only
        if acquires:
            self._check_owner(source)
        # The constructor parses the selector; an invalid one ends the connection (RF-44).
        subscription = Subscription(
            self.consuming,
            tag,
            f"{self.name}::{tag}",
            source,
            acquires,
            accept_mode == EXPLICIT,
            exclusive,
            arguments or {},
        )
        if acquires:
            self._check_readers(source, exclusive)
        source.add_consumer(subscription, exclusive, self.connection.name)
        self.consuming.add(subscription)
        return subscription

    def _check_owner(self, queue: Queue) -> None:
        if queue.lifetime.owner not in ("", self.name):
            raise ResourceLockedException(f"Cannot subscribe to exclusive queue {queue.name}")

    def _check_readers(self, queue: Queue, exclusive: bool) -> None:
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
        """End a subscription, whose delivered messages stay acquired (CN-17).

        Raises:
            NotFoundException: If the session has no subscription with this tag (404).
        """
        subscription = self.consuming.subscriptions.get(tag)
        if subscription is None:
            raise NotFoundException(f"No such subscription: {tag}")
        self.consuming.cancel(subscription)

    # Credit

    @command("message.set_flow_mode")
    def message_set_flow_mode(self, tag: str, flow_mode: int) -> None:
        """Set a subscription's mode to credit (0) or window (1), each of which has its own balances (CN-04).

        Raises:
            InvalidArgumentException: If the mode is not 0 or 1 (542).
            NotFoundException: If the session has no subscription with this tag (404).
        """
        if flow_mode not in (0, 1):
            raise InvalidArgumentException(f"Invalid value for mode {flow_mode}")
        self.consuming.find(tag).credit.change_mode(flow_mode)

    @command("message.flow")
    def message_flow(self, tag: str, unit: int, value: int) -> None:
        """Grant credit to a subscription, its prefetch (CN-04), and wake it if it waited for credit (RF-08).

        Parameters:
            tag: The subscription's name.
            unit: The unit of the credit, 0 for messages or 1 for bytes; a subscription needs both.
            value: The amount of credit to add; 0xFFFFFFFF makes it infinite for good.

        Raises:
            InvalidArgumentException: If the unit or the value is not allowed (542).
            NotFoundException: If the session has no subscription with this tag (404).
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
        """Withdraw all credit of a subscription in its current mode (CN-07)."""
        self.consuming.find(tag).credit.stop()

    @command("message.flush")
    def message_flush(self, tag: str) -> None:
        """Deliver messages until credit or messages run out, and then withdraw all credit (CN-07)."""
        self.consuming.find(tag).flush()

    def fetch(self, tag: Text) -> None:
        """Deliver at most one message to a subscription, as a client without prefetch requests it (CN-09).

        These are three commands in one write, so that the flush runs before any other output (RF-08).
        """
        tag = encodable("fetch: tag", tag, 255)
        with self.pipeline():
            self.message_flow(tag, BYTE_UNIT, INFINITE)
            self.message_flow(tag, MESSAGE_UNIT, 1)
            self.message_flush(tag)

    # Administration

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
        """Declare a queue, which is created if it does not exist (CF-04, CF-05).

        Parameters:
            queue: The name of the queue.
            arguments: The declare arguments (rules.md#declare-arguments), such as ``{"qpid.max_count": 1000,
                "qpid.flow_stop_count": 900}``; an existing queue keeps its own.
            durable: Whether the queue is durable, which here only matters for its statistics and errors.
            auto_delete: Whether the queue is deleted when it is no longer used (QT-08).
            exclusive: Whether only this session may consume from, bind, unbind and delete it (CN-23).
            passive: Whether only to check that the queue exists; ignored without a name.
            alternate_exchange: The name of the exchange for rejected, evicted and orphaned messages (EX-09).

        Raises:
            InvalidArgumentException: If an argument is invalid (542).
            NotFoundException: If the alternate exchange, or with ``passive`` the queue, is unknown (404).
            ResourceLockedException: If the session cannot get exclusive use of an existing queue (405).
        """
        # As in the broker, passive has an effect only together with a name.
        if passive and queue:
            target = self.queues.get(queue)
        else:
            target, is_new = self.queues.declare(
                queue, arguments or {}, auto_delete, alternate_exchange, durable
            )
            if is_new:
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

        Parameters:
            queue: The name of the queue.
            if_unused: Whether to refuse the delete while the queue has consumers or browsers.
            if_empty: Whether to refuse the delete while the queue has messages that are not acquired.

        Raises:
            NotFoundException: If there is no such queue (404).
            ResourceLockedException: If the queue is exclusive to another session (405).
            PreconditionFailedException: If the queue is in use, or not empty (406).
        """
        self.queues.check_delete(queue, self.name, if_unused, if_empty)
        self.queues.destroy(queue, "delete")

    @command("queue.purge")
    def queue_purge(self, queue: str) -> None:
        """Drop every message on a queue that is not acquired (QT-22)."""
        purge(self.queues.get(queue), 0, MessageFilter(None))

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
        """Declare an exchange, which is created if it does not exist (EX-03).

        Parameters:
            exchange: The name of the exchange.
            type: One of direct, fanout, topic and headers; None for topic, or with ``passive`` for any.
            alternate_exchange: The name of the exchange for messages that match no binding (EX-08).
            passive: Whether only to check that an exchange of this name, type and alternate exists.
                The names of the broker's own exchanges are only allowed with it.
            durable: Whether the exchange is durable, which only queries show.
            auto_delete: Whether the exchange is deleted with its last binding (EX-11).
            arguments: ``qpid.msg_sequence`` and ``qpid.ive`` have an effect (EX-11), no others.

        Raises:
            NotFoundException: If the type, the alternate, or with ``passive`` the exchange is unknown (404).
            NotAllowedException: If the name is reserved, or the type or alternate differs (530).
        """
        registry = self.exchanges
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
        """Delete an exchange (EX-03).

        Raises:
            NotFoundException: If there is no such exchange (404).
            NotAllowedException: If it is a predeclared exchange, or an alternate of another one (530).
            InvalidArgumentException: If it is the default exchange (542).
        """
        self.exchanges.delete(exchange)

    @command("exchange.bind")
    def exchange_bind(
        self, queue: str, exchange: str, key: str = "", arguments: Mapping[str, HeaderValue] | None = None
    ) -> None:
        """Bind a queue to an exchange; a repeated bind has no effect (EX-12).

        With the argument ``x-scope`` "session", or a ``qpid.fed.op`` that binds, the binding with this key is
        removed at the end of the session, even if another session has made it by then (RF-30).  If it has an
        origin, only that origin is withdrawn (RF-49).

        Parameters:
            queue, exchange: The names of the queue and of the exchange.
            key: The binding key; topic exchanges interpret it as a pattern.
            arguments: The conditions of a headers exchange, and the arguments above.

        Raises:
            NotFoundException: If the queue or the exchange is unknown (404).
            ResourceLockedException: If the queue is exclusive to another session (405).
            InternalErrorException: If the conditions for a headers exchange are invalid (541).
            InvalidArgumentException: If the exchange is the default exchange (542).
        """
        given = arguments or {}
        operation, origin = fed_op(given), fed_origin(given)
        self.queues.bind(exchange, queue, key, given, self.name)
        if given.get("x-scope") == "session" or (FED_OP in given and operation in ("", "B")):
            self.scoped_bindings.append((queue, exchange, key, origin))
        elif operation == "U":
            self._forget_scope(queue, exchange, key, origin)

    def _forget_scope(self, queue: str, exchange: str, key: str, origin: str) -> None:
        asked = (queue, exchange, key, origin)
        self.scoped_bindings = [one for one in self.scoped_bindings if one != asked]

    @command("exchange.unbind")
    def exchange_unbind(self, queue: str, exchange: str, key: str = "") -> None:
        """Remove a binding, if it exists (EX-12, RF-32).

        Raises:
            NotFoundException: If the queue or the exchange is unknown (404).
            ResourceLockedException: If the queue is exclusive to another session (405).
            InvalidArgumentException: If the exchange is the default exchange (542).
        """
        # Even if there is no such binding; but only a bind without an origin is forgotten (RF-49).
        self._forget_scope(queue, exchange, key, "")
        self.queues.unbind(exchange, queue, key, self.name)

    @command("queue.query")
    def queue_query(self, queue: str) -> QueueQueryResult:
        """Return the description of a queue, which is empty for an unknown one."""
        return query_queue(self.queues, queue)

    @command("exchange.query")
    def exchange_query(self, exchange: str) -> ExchangeQueryResult:
        """Return the description of an exchange, in which ``not_found`` is True for an unknown one."""
        return query_exchange(self.exchanges, exchange)

    @command("exchange.bound")
    def exchange_bound(
        self,
        exchange: str,
        queue: str | None = None,
        key: str | None = None,
        arguments: Mapping[str, HeaderValue] | None = None,
    ) -> ExchangeBoundResult:
        """Check the bindings of an exchange; the answer lists the criteria that are not met (EX-13)."""
        return query_bound(self.queues, exchange, queue, key, arguments)

    # Reports of completions

    @command("execution.sync", completes=False)
    def execution_sync(self, sync: bool = True) -> None:
        """Request a report once all earlier commands are complete (CM-06), and flush the store (CM-12).

        Parameters:
            sync: The sync flag, without which the completion of this command is not reported (RF-40).
        """
        if (store := self.context.store) is not None:
            store.flush()
        self.completions.sync_point(self.completions.next_number - 1, sync)

    @command("session.flush", is_numbered=False)
    def session_flush(self) -> None:
        """Request a report of the commands that are complete now (CM-05)."""
        self.completions.want_report()

    # Transactions

    @command("tx.select")
    def tx_select(self) -> None:
        """Make the session transactional, and begin its first transaction."""
        self._start_transaction()

    @command("tx.commit", completes=False)
    def tx_commit(self, sync: bool = True) -> None:
        """Commit the transaction's transfers and accepts, all or none, and begin the next (LP-09, RF-22).

        The effects follow at once, but the completion of this command waits for earlier commands (CM-07).

        Parameters:
            sync: The sync flag, without which the completion of this command is not reported (RF-40).

        Raises:
            CommandInvalidException: If the session is not transactional (503).
            InternalErrorException: If a queue has no room (541); then the commit has no effect.
        """
        transaction = self._require_transaction()
        if self.tx_accept is not None:
            transaction.enlist(self.tx_accept)
        self._commit(transaction)
        self._start_transaction()
        self.completions.sync_point(self.completions.next_number - 1, sync)

    def _commit(self, transaction: TxBuffer) -> None:
        try:
            transaction.commit()
        except SessionException:
            self.txn_rejects += 1
            raise
        self.txn_commits += 1

    @command("tx.rollback")
    def tx_rollback(self) -> None:
        """Drop the transaction's transfers and accepts, and begin the next; deliveries stay acquired (MG-22).

        Raises:
            CommandInvalidException: If the session is not transactional (503).
        """
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
        """Refuse distributed transactions, which this model does not implement.

        Raises:
            NotImplementedException: Always (540).
        """
        raise NotImplementedException(
            "dtx.select: distributed transactions need a transaction manager and recovery; "
            "local transactions are there"
        )

    # The end

    def close(self) -> None:
        """End the session, and requeue its unsettled deliveries (CN-17); no effect on an ended session."""
        if not self.is_attached:
            return
        self.begin_control()
        if self.context.observer is not None:
            self.show("session.detach", None)
        self.detach()
        self.quiesce()
